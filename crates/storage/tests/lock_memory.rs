//! How much memory the locks of rows take. The test measures the memory of the whole process, so it is the only one in
//! this file: another one beside it would be measured with it.
mod support;

use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use support::{Dir, config};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A transaction that shares very many rows takes little more memory than the rows' places; savepoints give back what
/// was taken since.
#[test]
fn shared_row_locks_are_small() {
    let dir = Dir::new("limit-shared-locks");
    let e = Engine::open(Arc::new(OsEnv), config(dir.0.clone(), 64 << 20)).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    t.commit(CommitMode::Async, &p).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let rids: Vec<_> = (0..300_000u32).map(|i| heap.insert(&mut t, &i.to_le_bytes()).unwrap()).collect();
    t.commit(CommitMode::Async, &p).unwrap();
    let lock = |t: &mut Transaction, rids: &[kilndb_base::RowId], mode| {
        let s = t.take_snapshot();
        for rid in rids {
            assert_eq!(heap.lock_row(t, *rid, mode, &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
        }
    };
    // What is read along the way comes into the buffers before it is measured.
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    lock(&mut t, &rids[..1000], RowLockMode::KeyShare);
    t.rollback(&p).unwrap();
    let before = resident_bytes();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    lock(&mut t, &rids, RowLockMode::KeyShare);
    let each = resident_bytes().saturating_sub(before) / rids.len() as u64;
    assert!(each < 64, "{each} bytes a row");
    // Whoever wants them does not get them, until the savepoint before them is rolled back to.
    let mut t2 = e.begin(Isolation::ReadCommitted, 1);
    let savepoint = t2.savepoint();
    lock(&mut t2, &rids[..10], RowLockMode::Share);
    t2.rollback_to(&savepoint, &p).unwrap();
    lock(&mut t2, &rids[10..20], RowLockMode::KeyShare);
    t.rollback(&p).unwrap();
    let mut t3 = e.begin(Isolation::ReadCommitted, 2);
    let s = t3.take_snapshot();
    let no_wait = WriteOptions { wait: WaitPolicy::SkipLocked, ..W };
    let outcomes = [0, 9, 10, 19, 20]
        .map(|i| heap.lock_row(&mut t3, rids[i], RowLockMode::Update, &no_wait.with(&s, &p)).unwrap());
    use WriteOutcome::{Done, Skipped};
    assert_eq!(outcomes, [Done, Done, Skipped, Skipped, Done]);
}
