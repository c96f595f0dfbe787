//! One old snapshot open all the time: versions born and dead after it must not pile up.
mod support;
use kilndb_base::RowId;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use support::Dir;

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

fn open(name: &str) -> (Dir, Arc<Engine>) {
    let dir = Dir::new(name);
    let config = EngineConfig {
        wal_buffers_bytes: 4 << 20,
        max_wal_size_bytes: 256 << 20,
        checkpoint_completion_target: 0.9,
        wal_writer_delay_ms: 5,
        workers: 2,
        ..support::config(dir.0.clone(), 64 << 20)
    };
    (dir, Engine::open(Arc::new(OsEnv), config).unwrap())
}

/// Two rows with the same key of one byte, and of none: the second is refused.
#[test]
fn short_keys_are_unique() {
    let (_dir, e) = open("short");
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    for key in [&[][..], &[1], &[1, 2]] {
        let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
        let first = heap.insert(&mut t, b"row").unwrap();
        assert_eq!(
            index.index_insert(&mut t, &heap, key, first, Uniqueness::Unique, &p).unwrap(),
            IndexInsert::Inserted
        );
        let second = heap.insert(&mut t, b"row").unwrap();
        let got = index.index_insert(&mut t, &heap, key, second, Uniqueness::Unique, &p).unwrap();
        assert_eq!(got, IndexInsert::Conflict(first), "{key:?}");
        assert_eq!(index.index_find_live(&mut t, &heap, key, &p).unwrap(), Some(first));
    }
    t.rollback(&p).unwrap();
}

#[test]
fn hot_row_under_an_old_snapshot() {
    let (_dir, e) = open("hot-old");
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let rid = heap.insert(&mut t, &0u64.to_le_bytes()).unwrap();
    t.commit(CommitMode::Async, &p).unwrap();
    let mut old = e.begin(Isolation::RepeatableRead, 1);
    let before = old.take_snapshot();
    let mut most = 0;
    let mut out = Vec::new();
    for i in 1..=300_000u64 {
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        if i % 3 == 0 {
            heap.lock_row(&mut t, rid, RowLockMode::Update, &W.with(&s, &p)).unwrap();
        }
        assert_eq!(heap.update(&mut t, rid, &i.to_le_bytes(), &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
        t.commit(CommitMode::Async, &p).unwrap();
        if i % 500 == 0 {
            most = most.max(e.undo_bytes());
            assert!(matches!(heap.fetch(rid, &before, &mut out).unwrap(), Fetched::Visible { .. }));
            assert_eq!(out, 0u64.to_le_bytes(), "after {i}");
        }
    }
    eprintln!("hot row: undo at most {} kB", most >> 10);
    assert!(most < 16 << 20, "{most} bytes of undo");
}

#[test]
fn queue_under_an_old_snapshot() {
    let (_dir, e) = open("queue-old");
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    index.set_heap(heap.id());
    t.commit(CommitMode::Async, &p).unwrap();
    let mut old = e.begin(Isolation::RepeatableRead, 1);
    let before = old.take_snapshot();
    let mut most = 0;
    let mut queue: std::collections::VecDeque<(u64, RowId)> = Default::default();
    for i in 0..200_000u64 {
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let rid = heap.insert(&mut t, &i.to_le_bytes()).unwrap();
        index.index_insert(&mut t, &heap, &i.to_be_bytes(), rid, Uniqueness::Unique, &p).unwrap();
        t.commit(CommitMode::Async, &p).unwrap();
        queue.push_back((i, rid));
        if queue.len() > 100 {
            let (k, rid) = queue.pop_front().unwrap();
            let mut t = e.begin(Isolation::ReadCommitted, 0);
            let s = t.take_snapshot();
            assert_eq!(
                heap.delete(&mut t, rid, &[(&index, &k.to_be_bytes())], &W.with(&s, &p)).unwrap(),
                WriteOutcome::Done
            );
            t.commit(CommitMode::Async, &p).unwrap();
        }
        if i % 500 == 0 {
            most = most.max(e.undo_bytes());
        }
    }
    eprintln!("queue: undo at most {} kB, heap {} pages, index {} pages", most >> 10, heap.pages(), index.pages());
    for b in 0..heap.pages() {
        assert_eq!(heap.count_block(b, &before).unwrap(), 0);
    }
    assert!(most < 32 << 20, "{most} bytes of undo");
    assert!(heap.pages() < 1000 && index.pages() < 1000, "{} {}", heap.pages(), index.pages());
}
