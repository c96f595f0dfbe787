//! Unlogged relations, and those that are kept at checkpoints: what is written of them when, and what is left of them.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use support::Dir;

const BUFFERS: u64 = 16 << 20;

fn make(e: &Arc<Engine>, kind: RelationKind, persistence: Persistence) -> Arc<Relation> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let made = e.create_relation(&mut t, kind, persistence).unwrap();
    t.commit(CommitMode::Sync, &ThreadPark::new()).unwrap();
    made
}
fn insert(e: &Arc<Engine>, heap: &Arc<Relation>, count: usize) {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    for _ in 0..count {
        heap.insert(&mut t, &[5; 500]).unwrap();
    }
    t.commit(CommitMode::Sync, &ThreadPark::new()).unwrap();
}
fn count(e: &Arc<Engine>, heap: &Arc<Relation>) -> usize {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut batch = RowBatch::default();
    (0..heap.pages())
        .map(|b| {
            batch.clear();
            heap.scan_block(b, &s, &mut batch).unwrap();
            batch.rows.len()
        })
        .sum()
}

#[test]
fn checkpoints_leave_unlogged_pages_alone() {
    for persistence in [Persistence::Unlogged, Persistence::Kept] {
        let dir = Dir::new(&format!("unlogged-{persistence:?}"));
        let e = support::open(&dir, BUFFERS);
        let heap = make(&e, RelationKind::Heap, persistence);
        insert(&e, &heap, 10);
        e.checkpoint(&ThreadPark::new()).unwrap();
        let (writes, log) = (e.buffer_stats().writes, e.insert_lsn());
        insert(&e, &heap, 1000);
        assert_eq!(e.insert_lsn(), log, "{persistence:?} rows are in the log");
        e.checkpoint(&ThreadPark::new()).unwrap();
        assert_eq!(e.buffer_stats().writes, writes, "a checkpoint has written {persistence:?} pages home");
        e.shutdown().unwrap();
        assert!(e.buffer_stats().writes >= writes + 60, "a clean stop writes them");
        let id = heap.id();
        drop((heap, e));
        let e = support::open(&dir, BUFFERS);
        assert_eq!(count(&e, &e.relation(id).unwrap()), 1010);
    }
}

#[test]
fn eviction_writes_home_and_never_into_the_image() {
    let dir = Dir::new("unlogged-eviction");
    // Less memory than rows, so pages go home between checkpoints.
    let e = support::open(&dir, 64 * 8192);
    let heap = make(&e, RelationKind::Heap, Persistence::Kept);
    insert(&e, &heap, 3000);
    e.checkpoint(&ThreadPark::new()).unwrap();
    insert(&e, &heap, 3000);
    assert!(e.buffer_stats().evictions > 0);
    let id = heap.id();
    // As a crash does: nothing is written at the end.
    drop((heap, e));
    let e = support::open(&dir, 64 * 8192);
    assert_eq!(count(&e, &e.relation(id).unwrap()), 3000);
    insert(&e, &e.relation(id).unwrap(), 500);
    drop(e);
    let e = support::open(&dir, 64 * 8192);
    assert_eq!(count(&e, &e.relation(id).unwrap()), 3000, "after a second crash without a checkpoint of anybody's");
    e.shutdown().unwrap();
}

#[test]
fn a_damaged_image_is_named_and_a_missing_one_leaves_nothing() {
    let dir = Dir::new("unlogged-damaged");
    let e = support::open(&dir, BUFFERS);
    let heap = make(&e, RelationKind::Heap, Persistence::Kept);
    let index = make(&e, RelationKind::BTree, Persistence::Kept);
    index.set_heap(heap.id());
    insert(&e, &heap, 100);
    e.checkpoint(&ThreadPark::new()).unwrap();
    let (id, tree) = (heap.id(), index.id());
    drop((heap, index, e));
    let path = dir.0.join(format!("images/{:08x}", id.0));
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    // Both places: which one counts is not this test's business.
    for at in [3000, 8192 + 3000] {
        if let Some(b) = damaged.get_mut(at) {
            *b ^= 4;
        }
    }
    std::fs::write(&path, &damaged).unwrap();
    let config = || support::config(dir.0.clone(), BUFFERS);
    let Err(refused) = Engine::open(Arc::new(kilndb_base::env::OsEnv), config()) else {
        panic!("a damaged image was taken")
    };
    assert!(refused.message().contains(&format!("images/{:08x}", id.0)), "{refused}");
    let wrong = check(Arc::new(kilndb_base::env::OsEnv), dir.0.clone()).unwrap();
    assert!(wrong.iter().any(|w| w.contains(&format!("images/{:08x}", id.0))), "{wrong:?}");
    std::fs::write(&path, &whole).unwrap();
    // Without the index's image the table is empty too.
    std::fs::remove_file(dir.0.join(format!("images/{:08x}", tree.0))).unwrap();
    let e = Engine::open(Arc::new(kilndb_base::env::OsEnv), config()).unwrap();
    assert_eq!(count(&e, &e.relation(id).unwrap()), 0);
    insert(&e, &e.relation(id).unwrap(), 7);
    e.checkpoint(&ThreadPark::new()).unwrap();
    drop(e);
    let e = support::open(&dir, BUFFERS);
    assert_eq!(count(&e, &e.relation(id).unwrap()), 7);
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(check(Arc::new(kilndb_base::env::OsEnv), dir.0.clone()).unwrap(), Vec::<String>::new());
}

#[test]
fn an_unlogged_cell_begins_again() {
    for persistence in [Persistence::Logged, Persistence::Unlogged, Persistence::Kept] {
        let dir = Dir::new(&format!("unlogged-cell-{persistence:?}"));
        let e = support::open(&dir, BUFFERS);
        let cell = make(&e, RelationKind::Cell, persistence);
        cell.cell_init(b"first").unwrap();
        let set = |cell: &Relation, to: &[u8]| {
            cell.cell_modify(&mut |bytes| {
                bytes.clear();
                bytes.extend_from_slice(to);
                Ok(((), true))
            })
        };
        set(&cell, b"second").unwrap();
        let id = cell.id();
        e.checkpoint(&ThreadPark::new()).unwrap();
        set(&cell, b"third").unwrap();
        let lsn = e.insert_lsn();
        e.wait_flushed(lsn, &ThreadPark::new()).unwrap();
        drop((cell, e));
        let e = support::open(&dir, BUFFERS);
        let expected: &[u8] = match persistence {
            Persistence::Logged => b"third",
            Persistence::Unlogged => b"first",
            _ => b"second",
        };
        assert_eq!(e.relation(id).unwrap().cell_read().unwrap(), expected, "{persistence:?}");
        e.shutdown().unwrap();
    }
}
