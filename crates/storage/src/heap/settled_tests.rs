//! Counts of pages that nobody has changed since they were counted.

use crate::api::*;
use crate::cluster::{Dir, config};
use crate::directory::Relation;
use crate::engine::Engine;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn count(e: &Arc<Engine>, heap: &Relation) -> u32 {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    (0..heap.pages()).map(|block| heap.count_block(block, &s).unwrap()).sum()
}
fn are_known(heap: &Relation) -> bool {
    (0..heap.pages()).all(|block| heap.core.pool.settled_rows(heap.pid(block).unwrap()).is_some())
}
/// Waits until the undo of all that was done is gone, and the pages are known.
fn settle(heap: &Relation) {
    let until = Instant::now() + Duration::from_secs(20);
    while !are_known(heap) {
        assert!(Instant::now() < until, "the pages are not settled");
        std::thread::sleep(Duration::from_millis(5));
        heap.note_settled_blocks(&ThreadPark::new()).unwrap();
    }
}

#[test]
fn whatever_changes_a_page_is_counted() {
    let dir = Dir::new("settled");
    let e = Engine::open(Arc::new(OsEnv), EngineConfig { workers: 2, ..config(dir.0.clone(), 16 << 20) }).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let mut rids: Vec<_> = (0..500).map(|_| heap.insert(&mut t, &[1; 100]).unwrap()).collect();
    t.commit(CommitMode::Async, &p).unwrap();
    settle(&heap);
    assert_eq!(count(&e, &heap), 500);
    // Deleted: for who sees it, taken back, and for good.
    let mut old = e.begin(Isolation::RepeatableRead, 1);
    let before = old.take_snapshot();
    for (is_kept, left) in [(false, 500), (true, 499)] {
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        let options = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
        let rid = rids[7];
        assert_eq!(heap.delete(&mut t, rid, &[], &options.with(&s, &p)).unwrap(), WriteOutcome::Done);
        assert!(!are_known(&heap), "a page with a deleted row");
        t.next_command();
        let s = t.take_snapshot();
        assert_eq!((0..heap.pages()).map(|block| heap.count_block(block, &s).unwrap()).sum::<u32>(), 499);
        match is_kept {
            true => _ = t.commit(CommitMode::Async, &p).unwrap(),
            false => t.rollback(&p).unwrap(),
        }
        assert_eq!(count(&e, &heap), left);
    }
    rids.remove(7);
    // Whoever saw it sees it, as long as that one is there.
    assert_eq!((0..heap.pages()).map(|block| heap.count_block(block, &before).unwrap()).sum::<u32>(), 500);
    assert!(!are_known(&heap));
    drop((before, old));
    settle(&heap);
    assert_eq!(count(&e, &heap), 499);
    // One more, and pages that leave memory and come back.
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    heap.insert(&mut t, &[2; 100]).unwrap();
    assert_eq!(count(&e, &heap), 499);
    t.commit(CommitMode::Async, &p).unwrap();
    assert_eq!(count(&e, &heap), 500);
    settle(&heap);
    e.checkpoint(&p).unwrap();
    for block in 0..heap.pages() {
        heap.core.pool.discard(heap.pid(block).unwrap());
    }
    assert!(!are_known(&heap), "pages that have left memory");
    assert_eq!(count(&e, &heap), 500);
}
