//! Limits met: what would exceed one is refused before anything of it is done, nothing that was there changes, and work
//! goes on once there is room again.
mod support;

use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_base::{Error, sqlstate};
use kilndb_storage::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;
use support::hooked::HookedEnv;
use support::{Dir, config, rows_of};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

fn open(dir: &Dir, limits: StorageLimits) -> Arc<Engine> {
    Engine::open(Arc::new(OsEnv), EngineConfig { limits, ..config(dir.0.clone(), 64 << 20) }).unwrap()
}
fn heap(e: &Arc<Engine>) -> Arc<Relation> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    heap
}
fn insert(e: &Arc<Engine>, heap: &Relation) -> Result<(), Error> {
    let mut t = e.begin(Isolation::ReadCommitted, 1);
    heap.insert(&mut t, b"x")?;
    let p = ThreadPark::new();
    // What is not flushed may be rolled back by a crash, so its id stays in use.
    let lsn = t.commit(CommitMode::Sync, &p)?.expect("it has written");
    e.wait_flushed(lsn, &p)
}
/// Tries until it works: what the background thread gives back comes a moment later.
fn soon(mut what: impl FnMut() -> Result<(), Error>) {
    let outcome = (0..500).find_map(|_| {
        let done = what();
        if done.is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        done.ok()
    });
    assert!(outcome.is_some(), "it is refused for ever");
}

#[test]
fn transaction_ids() {
    let dir = Dir::new("limit-xids");
    let e = open(&dir, StorageLimits { xids: 1 << 10, ..StorageLimits::default() });
    let p = ThreadPark::new();
    let (watched, other) = (heap(&e), heap(&e));
    // Without an old transaction ids go round as often as one likes.
    for _ in 0..5000 {
        insert(&e, &other).unwrap();
    }
    let mut unfinished = e.begin(Isolation::ReadCommitted, 0);
    watched.insert(&mut unfinished, b"never committed").unwrap();
    let refused = (0..2000).find_map(|_| {
        assert!(rows_of(&e, &watched).unwrap().is_empty(), "what is not committed is seen");
        insert(&e, &other).err()
    });
    assert_eq!(refused.expect("the ids do not end").sqlstate(), sqlstate::PROGRAM_LIMIT_EXCEEDED);
    assert!(rows_of(&e, &watched).unwrap().is_empty());
    unfinished.rollback(&p).unwrap();
    soon(|| insert(&e, &other));
    assert!(rows_of(&e, &watched).unwrap().is_empty());
}

#[test]
fn undo_chunks() {
    let dir = Dir::new("limit-chunks");
    let e = open(&dir, StorageLimits { undo_chunks: 1 << 6, ..StorageLimits::default() });
    let p = ThreadPark::new();
    let (watched, other) = (heap(&e), heap(&e));
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let rid = watched.insert(&mut t, b"old").unwrap();
    let churned = other.insert(&mut t, &[0; 4000]).unwrap();
    t.commit(CommitMode::Async, &p).unwrap();
    let churn = |i: u32| -> Result<(), Error> {
        let mut t = e.begin(Isolation::ReadCommitted, 1);
        let s = t.take_snapshot();
        other.update(&mut t, churned, &[(i + 1) as u8; 4000], &[], &W.with(&s, &p))?;
        drop(s);
        t.commit(CommitMode::Async, &p).map(drop)
    };
    let mut unfinished = e.begin(Isolation::ReadCommitted, 0);
    let s = unfinished.take_snapshot();
    assert_eq!(watched.update(&mut unfinished, rid, b"new", &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
    drop(s);
    let refused = (0..4000).find_map(|i| {
        let done = churn(i);
        assert_eq!(rows_of(&e, &watched).unwrap(), [b"old".to_vec()]);
        done.err()
    });
    assert_eq!(refused.expect("the chunks do not end").sqlstate(), sqlstate::PROGRAM_LIMIT_EXCEEDED);
    unfinished.rollback(&p).unwrap();
    assert_eq!(rows_of(&e, &watched).unwrap(), [b"old".to_vec()], "a rollback undoes what was done");
    soon(|| churn(7));
    // Numbers go on after a crash, and meet none of before.
    for round in 0..20 {
        soon(|| churn(round));
    }
    drop((watched, other));
    drop(e);
    let e = open(&dir, StorageLimits { undo_chunks: 1 << 6, ..StorageLimits::default() });
    assert_eq!(rows_of(&e, &e.relation(kilndb_base::RelationId(1)).unwrap()).unwrap(), [b"old".to_vec()]);
}

#[test]
fn relation_ids() {
    let dir = Dir::new("limit-relations");
    let e = open(&dir, StorageLimits { relation_ids: 20, ..StorageLimits::default() });
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let refused = (0..30)
        .find_map(|_| e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).err())
        .expect("the ids do not end");
    assert_eq!(refused.sqlstate(), sqlstate::PROGRAM_LIMIT_EXCEEDED);
    let again = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).err();
    assert_eq!(again.expect("it stays refused").sqlstate(), sqlstate::PROGRAM_LIMIT_EXCEEDED);
    t.rollback(&ThreadPark::new()).unwrap();
}

/// Lets the cleaner go when the test ends, however that is: dropping the engine waits for it.
struct Release(Arc<AtomicBool>);
impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

/// A session's temporary table goes through many times the ids of its store while nobody cleans up.
#[test]
fn private_transaction_ids_do_not_depend_on_the_cleaner() {
    let dir = Dir::new("limit-private-xids");
    let held = Arc::new(AtomicBool::new(false));
    let limits = StorageLimits { private_xids: 1 << 8, ..StorageLimits::default() };
    let on_hold = held.clone();
    let env = HookedEnv::new(move |thread: &str| {
        while thread == "cleaner" && on_hold.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let e = Engine::open(Arc::new(env), EngineConfig { limits, ..config(dir.0.clone(), 64 << 20) }).unwrap();
    let store = PrivateStore::open(&e, 64 << 20).unwrap();
    let p = ThreadPark::new();
    let heap = store.add_relation(RelationKind::Heap).unwrap();
    let _release = Release(held.clone());
    held.store(true, SeqCst);
    std::thread::sleep(Duration::from_millis(50));
    for i in 0..3000u64 {
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        t.attach(&store);
        heap.insert(&mut t, &i.to_le_bytes()).unwrap();
        t.next_command();
        let s = t.take_snapshot();
        let count: u64 = (0..heap.pages()).map(|b| u64::from(heap.count_block(b, &s).unwrap())).sum();
        assert_eq!(count, i + 1, "rows are missing");
        drop(s);
        t.commit(CommitMode::Async, &p).unwrap();
    }
}

/// A waiter that is refused when the row is free leaves the row's queue, so that those behind it come next.
#[test]
fn a_refused_write_lets_the_next_one_have_the_row() {
    let dir = Dir::new("limit-queue");
    let limits = StorageLimits { undo_chunks: 1 << 6, ..StorageLimits::default() };
    let e = Engine::open(Arc::new(OsEnv), EngineConfig { limits, workers: 4, ..config(dir.0.clone(), 64 << 20) });
    let e = e.unwrap();
    let p = ThreadPark::new();
    let (contended, other) = (heap(&e), heap(&e));
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let rid = contended.insert(&mut t, b"x").unwrap();
    t.commit(CommitMode::Async, &p).unwrap();
    let mut holder = e.begin(Isolation::ReadCommitted, 0);
    let s = holder.take_snapshot();
    assert_eq!(contended.delete(&mut holder, rid, &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
    drop(s);
    let (ended, ends) = std::sync::mpsc::channel();
    for worker in [2, 3] {
        let (e, contended, ended) = (e.clone(), contended.clone(), ended.clone());
        std::thread::spawn(move || {
            let p = ThreadPark::new();
            let mut t = e.begin(Isolation::ReadCommitted, worker);
            let s = t.take_snapshot();
            let done = contended.delete(&mut t, rid, &[], &W.with(&s, &p));
            drop(s);
            t.rollback(&p).unwrap();
            ended.send(done.map_err(|e| e.sqlstate())).unwrap();
        });
        std::thread::sleep(Duration::from_millis(50));
    }
    // The holder's undo is needed until it ends: the space runs out.
    let refused = (0..100_000).find_map(|_| {
        let mut t = e.begin(Isolation::ReadCommitted, 1);
        let done = other.insert(&mut t, &[0; 2000]).map(drop);
        done.and_then(|()| t.commit(CommitMode::Async, &p).map(drop)).err()
    });
    assert_eq!(refused.expect("the chunks do not end").sqlstate(), sqlstate::PROGRAM_LIMIT_EXCEEDED);
    holder.rollback(&p).unwrap();
    let ends: Vec<_> = (0..2).map(|_| ends.recv_timeout(Duration::from_secs(20)).expect("a waiter waits on")).collect();
    assert!(ends.contains(&Err(sqlstate::PROGRAM_LIMIT_EXCEEDED)), "none was refused: {ends:?}");
}
