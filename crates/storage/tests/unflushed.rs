//! What a commit that is not on disk yet has done decides what others do: they must be able to wait for it.
mod support;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use support::Dir;

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

#[test]
fn who_goes_by_an_unflushed_commit_waits_for_it() {
    let dir = Dir::new("unflushed");
    // Nobody waits here, and so nothing is flushed for a long time.
    let e = Engine::open(
        Arc::new(OsEnv),
        EngineConfig { wal_writer_delay_ms: 600_000, ..support::config(dir.0.clone(), 8 << 20) },
    )
    .unwrap();
    let p = ThreadPark::new();
    let begin = |worker| e.begin(Isolation::ReadCommitted, worker);
    let mut t = begin(0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    index.set_heap(heap.id());
    let rids: Vec<_> = (0..4_u8)
        .map(|k| {
            let rid = heap.insert(&mut t, &[k]).unwrap();
            index.index_insert(&mut t, &heap, &[k], rid, Uniqueness::Unique, &p).unwrap();
            rid
        })
        .collect();
    let lsn = t.commit(CommitMode::Sync, &p).unwrap().unwrap();
    e.wait_flushed(lsn, &p).unwrap();
    let mut readers: Vec<_> = (0..5).map(|_| begin(1)).collect();
    let snapshots: Vec<_> = readers.iter_mut().map(Transaction::take_snapshot).collect();
    let mut t = begin(0);
    let s = t.take_snapshot();
    for rid in &rids[..3] {
        assert_eq!(heap.delete(&mut t, *rid, &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
    }
    assert_eq!(heap.update(&mut t, rids[3], &[33], &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
    let fresh = heap.insert(&mut t, &[9]).unwrap();
    index.index_insert(&mut t, &heap, &[9], fresh, Uniqueness::Unique, &p).unwrap();
    let lsn = t.commit(CommitMode::Sync, &p).unwrap().unwrap();
    assert!(e.flushed_lsn() < lsn, "the test needs a commit that is not flushed");
    assert!(readers.iter().all(|r| r.unflushed_seen().is_none()));
    assert_eq!(heap.delete(&mut readers[0], rids[0], &[], &W.with(&snapshots[0], &p)).unwrap(), WriteOutcome::Deleted);
    assert_eq!(
        heap.lock_row(&mut readers[1], rids[1], RowLockMode::Share, &W.with(&snapshots[1], &p)).unwrap(),
        WriteOutcome::Deleted
    );
    assert!(!heap.can_lock(&readers[2], rids[2], None).unwrap());
    assert_eq!(index.index_find_live(&mut readers[3], &heap, &[9], &p).unwrap(), Some(fresh));
    assert!(heap.fetch_latest(&readers[4], rids[3], &mut Vec::new()).unwrap());
    for (number, mut reader) in readers.into_iter().enumerate() {
        assert_eq!(reader.unflushed_seen(), Some(lsn), "reader {number}");
        reader.commit(CommitMode::Sync, &p).unwrap();
        assert_eq!(reader.unflushed_seen(), Some(lsn), "reader {number}, at its end");
    }
    assert!(e.flushed_lsn() < lsn, "the test needs a commit that is not flushed");
}
