//! What goes wrong in the background, or while a transaction is rolled back, is told, and leaves nobody waiting.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_base::{Severity, sqlstate};
use kilndb_storage::*;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::disk::{SimEnv, simulated_process};
use support::hooked::HookedEnv;
use support::{Dir, config, rows_of};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: true, key_update: false };

#[test]
fn a_background_thread_that_panics_ends_the_process() {
    for thread in ["cleaner", "index-merger", "checkpointer"] {
        let dir = Dir::new(&format!("panicking-{thread}"));
        let (now, told) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let into = told.clone();
        let log: LogSink = Arc::new(move |severity, text| {
            if severity >= Severity::Panic {
                into.lock().unwrap().push(text.to_string());
            }
        });
        let due = now.clone();
        let env = HookedEnv::new(move |name: &str| assert!(name != thread || !due.load(SeqCst), "a planted fault"));
        let env = Arc::new(env);
        let e = Engine::open(env, EngineConfig { log, ..config(dir.0.clone(), 64 << 20) }).unwrap();
        now.store(true, SeqCst);
        let began = Instant::now();
        while told.lock().unwrap().is_empty() && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let told = told.lock().unwrap().clone();
        assert_eq!(told, [format!("background thread \"{thread}\" panicked: a planted fault")]);
        // Whoever commits now is not told that it worked.
        let p = ThreadPark::new();
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
        let lsn = t.commit(CommitMode::Sync, &p).unwrap().unwrap();
        assert!(e.wait_flushed(lsn, &p).is_err());
    }
}

/// A page that the rollback needs cannot be read. Its transaction stays as it is until the next start; others that want
/// its rows are told so, read what was there before, and go on with everything else.
#[test]
fn a_rollback_that_fails_leaves_nobody_waiting() {
    let env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), simulated_process(&env, 64 * 8192)).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    index.set_heap(heap.id());
    // A page each.
    let rids: Vec<_> = (0..3u8).map(|i| heap.insert(&mut t, &[i; 5900]).unwrap()).collect();
    t.commit(CommitMode::Async, &p).unwrap();
    let mut failing = e.begin(Isolation::ReadCommitted, 0);
    failing.begin_block();
    let s = failing.take_snapshot();
    let own = heap.insert(&mut failing, b"own").unwrap();
    index.index_insert(&mut failing, &heap, b"key", own, Uniqueness::Unique, &p).unwrap();
    for rid in &rids[..2] {
        assert_eq!(heap.update(&mut failing, *rid, &[9; 5900], &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
    }
    drop(s);
    // Other work needs the buffers; then the page that was changed last is needed again.
    let mut t = e.begin(Isolation::ReadCommitted, 1);
    (0..1500).for_each(|_| _ = heap.insert(&mut t, &[7; 5900]).unwrap());
    t.commit(CommitMode::Async, &p).unwrap();
    let change = |e: &Arc<Engine>, heap: &Arc<Relation>, rid| {
        let (e, heap) = (e.clone(), heap.clone());
        std::thread::spawn(move || {
            let p = ThreadPark::new();
            let mut t = e.begin(Isolation::ReadCommitted, 2);
            let s = t.take_snapshot();
            let outcome = heap.update(&mut t, rid, &[8; 5900], &[], &W.with(&s, &p));
            t.rollback(&p).unwrap();
            outcome
        })
    };
    let mut waiting: Vec<_> = (0..3).map(|_| change(&e, &heap, rids[0])).collect();
    let waiting_for_key = {
        let (e, heap, index, rid) = (e.clone(), heap.clone(), index.clone(), rids[2]);
        std::thread::spawn(move || {
            let p = ThreadPark::new();
            let mut t = e.begin(Isolation::ReadCommitted, 2);
            let outcome = index.index_insert(&mut t, &heap, b"key", rid, Uniqueness::Unique, &p);
            t.rollback(&p).unwrap();
            outcome.map(|_| ())
        })
    };
    std::thread::sleep(Duration::from_millis(200));
    assert!(!waiting.iter().any(|w| w.is_finished()));
    // Those that wait are woken before the rollback returns, and read the same pages.
    let cause = env.with_damaged_reads(|| failing.rollback(&p)).unwrap_err();
    assert_eq!(cause.sqlstate(), sqlstate::DATA_CORRUPTED);
    // One that comes later.
    waiting.push(change(&e, &heap, rids[0]));
    for waiter in waiting {
        let refused = waiter.join().unwrap().unwrap_err();
        assert_eq!(refused.sqlstate(), sqlstate::DATA_CORRUPTED);
        assert!(refused.message().contains("could not be rolled back"), "{}", refused.message());
    }
    assert_eq!(waiting_for_key.join().unwrap().unwrap_err().sqlstate(), sqlstate::DATA_CORRUPTED);
    let old: Vec<Vec<u8>> = rows_of(&e, &heap).unwrap().into_iter().take(3).collect();
    assert_eq!(old, [vec![0; 5900], vec![1; 5900], vec![2; 5900]]);
    assert_eq!(change(&e, &heap, rids[2]).join().unwrap().unwrap(), WriteOutcome::Done);
    // The next start rolls it back.
    let id = heap.id();
    let restarted = env.restart();
    drop((heap, index, failing));
    drop(e);
    let e = Engine::open(restarted.clone(), simulated_process(&restarted, 64 * 8192)).unwrap();
    let heap = e.relation(id).unwrap();
    assert_eq!(rows_of(&e, &heap).unwrap()[..3], old);
    assert_eq!(change(&e, &heap, rids[0]).join().unwrap().unwrap(), WriteOutcome::Done);
}
