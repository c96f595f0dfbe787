//! A disk that is full for a while, and a sync that fails, with relations of every kind: logged, unlogged, kept at
//! checkpoints, temporary (a session's own store, which global temporary tables use as well).
//! 1. Full: a write fails with 53100, what was there is read all the time, and everything goes on once there is room.
//! 2. A failed sync: nothing is acknowledged any more, and the process ends. The next one finds what was acknowledged
//!    before.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_base::{RelationId, RowId, Severity, sqlstate};
use kilndb_storage::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use support::Rng;
use support::disk::{DiskFault, SimEnv};

const ENOSPC: i32 = 28;
const SHARED: [Persistence; 3] = [Persistence::Logged, Persistence::Unlogged, Persistence::Kept];

struct Bench {
    env: Arc<SimEnv>,
    engine: Arc<Engine>,
    over: Arc<AtomicBool>,
}
impl Bench {
    fn open(env: Arc<SimEnv>) -> Bench {
        Bench::try_open(env).unwrap_or_else(|e| panic!("the start fails: {e}"))
    }
    fn try_open(env: Arc<SimEnv>) -> kilndb_base::Result<Bench> {
        let over = Arc::new(AtomicBool::new(false));
        let (flag, process) = (over.clone(), env.clone());
        let log = move |severity: Severity, text: &str| {
            if severity >= Severity::Panic {
                eprintln!("the process ends: {text}");
                flag.store(true, SeqCst);
                process.kill();
            }
        };
        let config = EngineConfig {
            fsync: true,
            workers: 1,
            log: Arc::new(log),
            ..support::config(PathBuf::from("/sim"), 64 * 8192)
        };
        Ok(Bench { engine: Engine::open(env.clone(), config)?, env, over })
    }
    fn create(&self) -> Vec<RelationId> {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        let ids =
            SHARED.map(|kind| self.engine.create_relation(&mut t, RelationKind::Heap, kind).unwrap().id()).to_vec();
        self.commit(&mut t).unwrap();
        ids
    }
    fn commit(&self, t: &mut Transaction) -> kilndb_base::Result<()> {
        let park = ThreadPark::new();
        t.commit(CommitMode::Sync, &park)?.map_or(Ok(()), |lsn| self.engine.wait_flushed(lsn, &park))
    }
    /// So many rows of 1 kB.
    fn insert(&self, heap: &Arc<Relation>, store: Option<&PrivateStore>, count: usize) -> kilndb_base::Result<()> {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        if let Some(store) = store {
            t.attach(store);
        }
        let done = (0..count).try_for_each(|_| heap.insert(&mut t, &[7; 1000]).map(|_| ()));
        match done {
            Ok(()) => self.commit(&mut t),
            Err(e) => {
                t.rollback(&ThreadPark::new()).unwrap_or_else(|e| panic!("a rollback on a full disk: {e}"));
                Err(e)
            }
        }
    }
    /// As [`Bench::insert`], on a disk that works.
    fn insert_rows(&self, heap: &Arc<Relation>, count: usize) -> Vec<RowId> {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        let rids = (0..count).map(|_| heap.insert(&mut t, &[7; 1000]).unwrap()).collect();
        self.commit(&mut t).unwrap();
        rids
    }
    /// Writes other bytes into these rows.
    fn overwrite_rows(&self, heap: &Arc<Relation>, rids: &[RowId]) {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        let (s, park) = (t.take_snapshot(), ThreadPark::new());
        let options = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
        for rid in rids {
            let done = heap.update(&mut t, *rid, &[8; 1000], &[], &options.with(&s, &park));
            assert_eq!(done.unwrap(), WriteOutcome::Done);
        }
        self.commit(&mut t).unwrap();
    }
    fn count(&self, heap: &Arc<Relation>, store: Option<&PrivateStore>) -> usize {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        if let Some(store) = store {
            t.attach(store);
        }
        let s = t.take_snapshot();
        let mut batch = RowBatch::default();
        (0..heap.pages())
            .map(|b| {
                batch.clear();
                heap.scan_block(b, &s, &mut batch).unwrap();
                assert!((0..batch.rows.len()).all(|i| [[7; 1000], [8; 1000]].iter().any(|row| batch.row(i) == row)));
                batch.rows.len()
            })
            .sum()
    }
}

#[test]
fn a_full_disk_is_an_error_of_who_writes() {
    let b = Bench::open(Arc::default());
    let ids = b.create();
    let store = PrivateStore::open(&b.engine, 64 * 8192).unwrap();
    let mut heaps: Vec<(Arc<Relation>, bool)> = ids.iter().map(|id| (b.engine.relation(*id).unwrap(), false)).collect();
    heaps.push((store.add_relation(RelationKind::Heap).unwrap(), true));
    let mut had = vec![0; heaps.len()];
    for round in 1..=3 {
        for (which, (heap, private)) in heaps.iter().enumerate() {
            let own = private.then_some(&*store);
            b.insert(heap, own, 300).unwrap();
            had[which] += 300;
            b.env.arm(0, DiskFault::Full(ENOSPC));
            let mut failures = 0;
            for _ in 0..12 {
                match b.insert(heap, own, 400) {
                    Ok(()) => had[which] += 400,
                    Err(e) => {
                        assert_eq!(e.sqlstate(), sqlstate::DISK_FULL, "{e}");
                        failures += 1;
                    }
                }
                for (i, (other, private)) in heaps.iter().enumerate() {
                    assert_eq!(
                        b.count(other, private.then_some(&*store)),
                        had[i],
                        "relation {i} while the disk is full, round {round}"
                    );
                }
            }
            assert!(failures > 0, "relation {which} found room on a full disk");
            b.env.disarm();
            b.insert(heap, own, 400).unwrap();
            had[which] += 400;
        }
        b.engine.checkpoint(&ThreadPark::new()).unwrap();
    }
    assert!(!b.over.load(SeqCst), "the process goes on");
    b.engine.shutdown().unwrap();
    let env = b.env.restart();
    assert_eq!(check(env.clone(), PathBuf::from("/sim")).unwrap(), Vec::<String>::new());
    let b = Bench::open(env);
    for (i, id) in ids.iter().enumerate() {
        assert_eq!(b.count(&b.engine.relation(*id).unwrap(), None), had[i]);
    }
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    for seed in support::seeds(12) {
        let mut rng = Rng::new(seed);
        let b = Bench::open(Arc::default());
        let ids = b.create();
        let heaps: Vec<_> = ids.iter().map(|id| b.engine.relation(*id).unwrap()).collect();
        let store = PrivateStore::open(&b.engine, 64 * 8192).unwrap();
        let private = store.add_relation(RelationKind::Heap).unwrap();
        for heap in &heaps {
            b.insert(heap, None, 50).unwrap();
        }
        b.insert(&private, Some(&store), 50).unwrap();
        b.engine.checkpoint(&ThreadPark::new()).unwrap();
        for heap in &heaps {
            b.insert(heap, None, 30).unwrap();
        }
        b.env.arm(rng.below(4) as i64, DiskFault::Sync);
        // By a commit or by a checkpoint: whoever meets the failure is told, and nobody is told of success afterwards.
        let mut acknowledged = 80;
        let mut attempted = 80;
        for _ in 0..20 {
            if rng.one_in(2) && b.engine.checkpoint(&support::disk::while_alive(&b.env)).is_ok() && !b.env.dead() {
                continue;
            }
            if b.env.dead() {
                break;
            }
            attempted += 10;
            if b.insert(&heaps[0], None, 10).is_ok() {
                assert!(!b.over.load(SeqCst) || b.env.dead());
                acknowledged = attempted;
            }
        }
        assert!(b.env.fired() && b.over.load(SeqCst), "seed {seed}: the sync failed, so the process ends");
        assert!(b.insert(&heaps[0], None, 1).is_err(), "seed {seed}: acknowledged after the failure");
        let env = b.env.after_power_loss(&mut rng);
        drop((private, store, heaps, b));
        let b = Bench::open(env.clone());
        let found: Vec<usize> = ids.iter().map(|id| b.count(&b.engine.relation(*id).unwrap(), None)).collect();
        assert!(
            (acknowledged..=attempted).contains(&found[0]),
            "seed {seed}: {} rows, {acknowledged} acknowledged",
            found[0]
        );
        assert_eq!(found[1], 0, "seed {seed}");
        assert!([50, 80].contains(&found[2]), "seed {seed}: {} rows kept", found[2]);
        b.engine.shutdown().unwrap();
        assert_eq!(check(env, PathBuf::from("/sim")).unwrap(), Vec::<String>::new(), "seed {seed}");
    }
}

/// A process ends since a sync has failed, and the machine stays up: the next one reads what the disk does not have, and
/// loses its power while it starts. The copies that it has put pages right from must be durable before the pages are
/// touched, or those are torn for good.
#[test]
fn a_start_after_a_failed_sync_loses_its_power() {
    let mut cut_short = 0;
    for seed in support::seeds(40) {
        let mut rng = Rng::new(seed);
        let b = Bench::open(Arc::default());
        let ids = b.create();
        let heap = b.engine.relation(ids[0]).unwrap();
        let rids = b.insert_rows(&heap, 100);
        drop(heap);
        b.engine.shutdown().unwrap();
        // The next process does not count on the copies of this one.
        let b = Bench::open(b.env.restart());
        let heap = b.engine.relation(ids[0]).unwrap();
        b.engine.checkpoint(&ThreadPark::new()).unwrap();
        b.overwrite_rows(&heap, &rids);
        // The sync of the log, if there is one, or of the double-write area, or of the pages.
        b.env.arm(rng.below(10) as i64, DiskFault::Sync);
        let outcome = b.engine.checkpoint(&support::disk::while_alive(&b.env));
        let env = b.env.restart();
        assert!(outcome.is_err() || !b.env.fired(), "seed {seed}: the checkpoint succeeds");
        drop((heap, b));
        env.arm(rng.below(30) as i64, DiskFault::PowerLoss);
        drop(Bench::try_open(env.clone()));
        cut_short += usize::from(env.fired());
        let b = Bench::open(env.after_power_loss(&mut rng));
        assert_eq!(b.count(&b.engine.relation(ids[0]).unwrap(), None), 100, "seed {seed}");
        b.engine.shutdown().unwrap();
        assert_eq!(check(b.env.clone(), PathBuf::from("/sim")).unwrap(), Vec::<String>::new(), "seed {seed}");
    }
    assert!(cut_short > 10, "{cut_short} starts lost their power");
}

/// Relations are created, filled and dropped on a full disk until the log's room is used up, and longer: each statement
/// gets an error, what was committed is there, and the process goes on.
#[test]
fn definitions_on_a_full_disk_are_errors_of_who_makes_them() {
    let b = Bench::open(Arc::default());
    let ids = b.create();
    let heap = b.engine.relation(ids[0]).unwrap();
    b.insert(&heap, None, 300).unwrap();
    b.engine.checkpoint(&ThreadPark::new()).unwrap();
    b.env.arm(0, DiskFault::Full(ENOSPC));
    let park = ThreadPark::new();
    let (mut failures, mut made) = (0, 0);
    let mut try_one = |round: usize| -> kilndb_base::Result<()> {
        let mut t = b.engine.begin(Isolation::ReadCommitted, round);
        let table = b.engine.create_relation(&mut t, RelationKind::Heap, Persistence::Logged)?;
        b.engine.create_relation(&mut t, RelationKind::BTree, Persistence::Logged)?;
        for _ in 0..40 {
            table.insert(&mut t, &[5; 1000])?;
        }
        if round.is_multiple_of(3) {
            return t.rollback(&park);
        }
        b.commit(&mut t)?;
        let mut t = b.engine.begin(Isolation::ReadCommitted, round);
        b.engine.drop_relation(&mut t, table.id())?;
        made += 1;
        b.commit(&mut t)
    };
    for round in 0..1500 {
        if let Err(e) = try_one(round) {
            assert_eq!(e.sqlstate(), sqlstate::DISK_FULL, "round {round}: {e}");
            failures += 1;
        }
        assert!(!b.over.load(SeqCst), "round {round}: the process has ended");
    }
    assert!(failures > 0 && made > 0, "{failures} failures, {made} made");
    assert_eq!(b.count(&heap, None), 300);
    b.env.disarm();
    b.insert(&heap, None, 400).unwrap();
    assert_eq!(b.count(&heap, None), 700);
    b.engine.shutdown().unwrap();
}

/// A row is changed until the log has no room for more on a full disk: that is an error of who changes it. Deleting and
/// dropping still work then, everything else does again once there is room.
#[test]
fn a_log_without_room_refuses_changes_and_takes_removals() {
    let b = Bench::open(Arc::default());
    let ids = b.create();
    let heap = b.engine.relation(ids[0]).unwrap();
    b.insert(&heap, None, 30).unwrap();
    let park = ThreadPark::new();
    b.engine.checkpoint(&park).unwrap();
    b.env.arm(0, DiskFault::Full(ENOSPC));
    let options = WriteOptions { wait: WaitPolicy::Wait, latest: true, key_update: false };
    let rid = kilndb_base::RowId { block: 0, slot: 1 };
    let change = |i: usize| -> kilndb_base::Result<()> {
        let mut t = b.engine.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        let outcome = heap.update(&mut t, rid, &[i as u8 | 128; 1000], &[], &options.with(&s, &park));
        drop(s);
        match outcome {
            Ok(_) => b.commit(&mut t),
            Err(e) => {
                t.rollback(&park).unwrap_or_else(|e| panic!("a rollback on a full disk: {e}"));
                Err(e)
            }
        }
    };
    let refused = (0..60_000).find_map(|i| change(i).err()).expect("the log finds room on a full disk");
    assert_eq!(refused.sqlstate(), sqlstate::DISK_FULL, "{refused}");
    assert!(refused.message().contains("wal/"), "{refused}");
    assert!(!b.over.load(SeqCst), "the process has ended");
    let remove = || -> kilndb_base::Result<()> {
        let mut t = b.engine.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        let gone = kilndb_base::RowId { block: 0, slot: 2 };
        heap.delete(&mut t, gone, &[], &options.with(&s, &park))?;
        b.engine.drop_relation(&mut t, ids[1])?;
        drop(s);
        b.commit(&mut t)
    };
    remove().unwrap();
    assert!(change(0).is_err());
    b.env.disarm();
    let again = (0..500).find_map(|i| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        change(i).ok()
    });
    assert!(again.is_some(), "it is refused for ever");
    assert!(!b.over.load(SeqCst));
    let env = b.env.restart();
    drop(heap);
    drop(b);
    let b = Bench::open(env);
    let heap = b.engine.relation(ids[0]).unwrap();
    assert_eq!(support::rows_of(&b.engine, &heap).unwrap().len(), 29);
    assert!(b.engine.relation(ids[1]).is_err());
}

/// A checkpoint fails on a full disk. A bulk change that waits for it to make room in the log goes on, as does one that
/// comes after it has failed.
#[test]
fn a_bulk_change_does_not_wait_for_a_checkpoint_that_has_failed() {
    const MANY: usize = 1_000_000;
    const LOG_BYTES: u64 = 40 << 20;
    let b = Bench::open(Arc::default());
    b.engine.set_tuning(Tuning { max_wal_size_bytes: 1 << 30, ..b.engine.tuning() });
    let heap = b.engine.relation(b.create()[0]).unwrap();
    let park = ThreadPark::new();
    let from = b.engine.insert_lsn().0;
    while b.engine.insert_lsn().0 < from + LOG_BYTES {
        b.insert(&heap, None, 1000).unwrap();
    }
    b.env.arm(0, DiskFault::Full(ENOSPC));
    // That much log is more than a bulk change adds to.
    b.engine.set_tuning(Tuning { max_wal_size_bytes: 0, ..b.engine.tuning() });
    for _ in 0..3 {
        assert!(b.engine.checkpoint(&park).is_err());
        let start = std::time::Instant::now();
        b.engine.pace_bulk(MANY, &park).unwrap();
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "it waits for the next timed checkpoint");
    }
    assert!(!b.over.load(SeqCst));
}
