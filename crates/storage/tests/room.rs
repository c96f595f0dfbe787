//! What nobody needs any more makes room at once: what is in use stays in the pool for as long as all of it fits.
mod support;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use support::Dir;

const POOL_BYTES: u64 = 16 << 20;
const ROW: [u8; 1000] = [5; 1000];

fn load(e: &Arc<Engine>, rows: usize) -> Arc<Relation> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Unlogged).unwrap();
    for _ in 0..rows {
        heap.insert(&mut t, &ROW).unwrap();
    }
    commit(t);
    heap
}
fn commit(mut t: Transaction) {
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
}
/// Several times the pool's size comes and goes beside a table that fits: relations that are dropped, and undo that is
/// discarded.
#[test]
fn what_has_gone_pushes_nothing_out() {
    let dir = Dir::new("room");
    let e = support::open(&dir, POOL_BYTES);
    let park = ThreadPark::new();
    load(&e, 3000);
    for _ in 0..20 {
        let passing = load(&e, 3000);
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        e.drop_relation(&mut t, passing.id()).unwrap();
        commit(t);
    }
    let hot = load(&e, 1);
    let rid = hot_row(&e, &hot);
    for n in 0..40_000u32 {
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let snapshot = t.take_snapshot();
        let mut row = ROW;
        row[..4].copy_from_slice(&n.to_le_bytes());
        let options = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
        assert_eq!(hot.update(&mut t, rid, &row, &[], &options.with(&snapshot, &park)).unwrap(), WriteOutcome::Done);
        drop(snapshot);
        commit(t);
    }
    assert_eq!(e.buffer_stats().evictions, 0);
    // The purge of the last ones is on its way.
    let resident = || e.buffer_stats().resident_pages;
    for _ in 0..1000 {
        if resident() < POOL_BYTES / 4096 / 2 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{} pages are resident", resident());
}

fn hot_row(e: &Arc<Engine>, heap: &Relation) -> kilndb_base::RowId {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let snapshot = t.take_snapshot();
    let mut batch = RowBatch::default();
    heap.scan_block(0, &snapshot, &mut batch).unwrap();
    batch.rows[0].0
}
