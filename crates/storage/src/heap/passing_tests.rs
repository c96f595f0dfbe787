//! Pages of large tables that are read past the pool.

use crate::Relation;
use crate::api::*;
use crate::buffer::PassSize;
use crate::cluster::{Dir, config};
use crate::engine::Engine;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use std::sync::Arc;

/// Who looks at a page may ask what holds only for as long as nobody changes it, so the look is repeated if somebody has.
#[test]
fn a_page_that_is_changed_while_it_is_looked_at_is_looked_at_again() {
    let dir = Dir::new("passing-look");
    let e = Engine::open(Arc::new(OsEnv), EngineConfig { workers: 2, ..config(dir.0.clone(), 2 << 20) }).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Unlogged).unwrap();
    (0..20_000).for_each(|_| _ = heap.insert(&mut t, &[1; 500]).unwrap());
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    let pool = &heap.core.pool;
    let mut passed = 0;
    for pid in (0..heap.pages()).map(|block| heap.pid(block).unwrap()) {
        let was_missing = pool.version(pid).is_none();
        // Whoever passes leaves the page where it was.
        pool.read_passing(pid, PassSize::Large, |_| ()).unwrap();
        if !was_missing || pool.version(pid).is_some() {
            continue;
        }
        let mut looks = 0;
        let seen = pool.read_passing(pid, PassSize::Large, |_| {
            looks += 1;
            if looks == 1 {
                drop(pool.write(pid).unwrap());
            }
            looks
        });
        assert_eq!(seen.unwrap(), 2, "page {pid}");
        passed += 1;
    }
    assert!(passed > 100, "{passed} pages were not in memory");
}

/// How many of a heap's pages are in memory.
fn resident(heap: &Relation) -> usize {
    let pool = &heap.core.pool;
    (0..heap.pages()).filter(|block| pool.version(heap.pid(*block).unwrap()).is_some()).count()
}

fn read_all(heap: &Relation) {
    (0..heap.pages()).for_each(|block| _ = heap.items_passing(block, |_| ()).unwrap());
}

/// A table that fits into the pool passes it once, and stays when it comes again before as much has come in as the pool
/// holds. One that comes again later passes once more.
#[test]
fn a_table_that_is_read_again_soon_comes_to_stay() {
    let dir = Dir::new("passing-stay");
    let e = Engine::open(Arc::new(OsEnv), EngineConfig { workers: 2, ..config(dir.0.clone(), 4 << 20) }).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let mut table = |rows: usize| {
        let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Unlogged).unwrap();
        (0..rows).for_each(|_| _ = heap.insert(&mut t, &[1; 500]).unwrap());
        heap
    };
    let (first, second, other) = (table(4000), table(4000), table(8000));
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    let pages = first.pages() as usize;
    let full = (4 << 20) / crate::page::PAGE * 7 / 8;
    assert!(pages * 3 / 2 < full && full < 2 * pages && full < other.pages() as usize, "{pages} of {full}");
    // The last table has pushed the others out.
    let before = resident(&first);
    assert!(before < pages / 8, "{before} of {pages} pages are in memory");
    read_all(&first);
    assert!(resident(&first) < before + pages / 8, "{} of {pages} came to stay at once", resident(&first));
    read_all(&first);
    assert!(resident(&first) > pages * 7 / 8, "{} of {pages} came to stay", resident(&first));
    // Two tables in turns do not fit together: each pass pushes little out of what has stayed.
    for _ in 0..8 {
        for (table, other) in [(&second, &first), (&first, &second)] {
            let before = resident(other);
            read_all(table);
            assert!(before < resident(other) + pages / 3, "{} of {before} have stayed", resident(other));
        }
    }
    assert!(resident(&first).min(resident(&second)) > pages / 4, "one has pushed the other out");
}

fn all_rows(e: &Arc<Engine>, heap: &Relation) -> Vec<Vec<u8>> {
    let snapshot = e.begin(Isolation::ReadCommitted, 0).take_snapshot();
    let (mut batch, mut rows) = (RowBatch::default(), Vec::new());
    for block in 0..heap.pages() {
        heap.scan_block(block, &snapshot, &mut batch).unwrap();
        rows.extend(batch.rows.iter().map(|&(_, from, to)| batch.bytes[from as usize..to as usize].to_vec()));
    }
    rows
}

/// A range of which nothing is resident becomes a huge page when somebody reads page after page of it, and its rows are what
/// they were. What a dropped table has left makes room for it.
#[test]
fn what_is_read_page_after_page_becomes_huge_pages() {
    let dir = Dir::new("passing-dense");
    let open = || {
        let config = EngineConfig { huge_pages: true, workers: 2, ..config(dir.0.clone(), 80 << 20) };
        Engine::open(Arc::new(OsEnv), config).unwrap()
    };
    let rows = |n: u32| (0..16_000u32).map(move |i| [(i * n).to_le_bytes().repeat(100), vec![n as u8; 600]].concat());
    let e = open();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let mut ids = Vec::new();
    for n in 1..=4 {
        let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
        rows(n).for_each(|row| _ = heap.insert(&mut t, &row).unwrap());
        ids.push(kilndb_base::RelationId(heap.id));
    }
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    e.shutdown().unwrap();
    drop(e);

    let e = open();
    let heaps: Vec<_> = ids.iter().map(|id| e.relation(*id).unwrap()).collect();
    let pool = &heaps[0].core.pool;
    assert!(heaps.iter().all(|heap| resident(heap) < 100 && heap.pages() > 1900), "nothing has been read yet");
    for (heap, n) in heaps[..3].iter().zip(1..) {
        assert!(all_rows(&e, heap).into_iter().eq(rows(n)));
    }
    let before = pool.huge_ranges();
    assert!(before >= 15, "{before} huge pages");
    // Those that were read take most of what may become huge pages.
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    e.drop_relation(&mut t, ids[0]).unwrap();
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    for (heap, n) in heaps.iter().zip(1..).skip(1) {
        assert!(all_rows(&e, heap).into_iter().eq(rows(n)));
    }
    assert!(pool.huge_ranges() >= before, "{} huge pages", pool.huge_ranges());
}
