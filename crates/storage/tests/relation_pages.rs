//! Pages of relations that go: whatever part of the log a crash leaves, no page has two owners, and no acknowledged row
//! of another relation is lost.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_base::{Lsn, RelationId, Result, RowId, Severity};
use kilndb_storage::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};
use support::disk::{DiskFault, SimEnv, SimPark, simulated_process};
use support::{Rng, rows_of};

const BUFFERS: u64 = 96 << 20;

/// Creates a relation with one row, which commits; Err: the process was killed.
fn create_one(engine: &Arc<Engine>) -> Result<(RelationId, Lsn)> {
    let mut t = engine.begin(Isolation::ReadCommitted, 1);
    let relation = engine.create_relation(&mut t, RelationKind::Heap, Persistence::Logged)?;
    relation.insert(&mut t, b"committed")?;
    let lsn = t.commit(CommitMode::Sync, &ThreadPark::new())?.expect("it has written");
    Ok((relation.id(), lsn))
}

/// The creation of a large relation is rolled back while another session creates small ones, which take the pages that
/// it gives away. The process is killed in the midst of that, or at its end.
fn roll_back_beside_creations(kill_inside: bool) {
    let env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), simulated_process(&env, BUFFERS)).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let large = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    for _ in 0..6000 {
        large.insert(&mut t, &[7; 7000]).unwrap();
    }
    let id = large.id();
    drop(large);
    let ended = Arc::new(AtomicBool::new(false));
    let (started, begins) = std::sync::mpsc::channel();
    let creator = {
        let (e, env, ended) = (e.clone(), env.clone(), ended.clone());
        std::thread::spawn(move || {
            let p = ThreadPark::new();
            let (mut made, mut since) = (Vec::new(), 0);
            while !ended.load(SeqCst) && since < 400 {
                let is_going = e.relation(id).is_err();
                let Ok((relation, lsn)) = create_one(&e) else { break };
                if (kill_inside || !is_going) && e.wait_flushed(lsn, &p).is_err() {
                    break;
                }
                made.push((relation, lsn));
                // Nobody listens after the first one.
                let _ = started.send(());
                since += usize::from(is_going);
                if kill_inside && since == 3 && !ended.load(SeqCst) {
                    env.kill();
                    break;
                }
            }
            made
        })
    };
    begins.recv().expect("relations are created");
    let _ = t.rollback(&p);
    ended.store(true, SeqCst);
    let made = creator.join().unwrap();
    if let Some((_, lsn)) = made.last()
        && !env.dead()
    {
        e.wait_flushed(*lsn, &p).unwrap();
    }
    assert!(!made.is_empty());
    let restarted = env.restart();
    drop(e);
    let e = Engine::open(restarted.clone(), simulated_process(&restarted, BUFFERS)).expect("the server starts");
    for (relation, _) in &made {
        let found = rows_of(&e, &e.relation(*relation).expect("an acknowledged relation"));
        assert_eq!(found.unwrap(), [b"committed".to_vec()], "relation {relation}");
    }
}

#[test]
fn killed_while_a_creation_is_rolled_back() {
    (0..4).for_each(|_| roll_back_beside_creations(true));
}

#[test]
fn killed_after_a_creation_was_rolled_back() {
    (0..4).for_each(|_| roll_back_beside_creations(false));
}

/// Relations that are known to be durable with so many rows; None: dropped.
type Durable = BTreeMap<u32, Option<usize>>;

struct Load {
    engine: Arc<Engine>,
    env: Arc<SimEnv>,
    durable: Mutex<Durable>,
}

impl Load {
    /// Creates, fills, drops and rolls back until the power fails.
    fn run(&self, seed: u64, worker: u64) {
        let p = SimPark::new(&self.env);
        let mut rng = Rng::new(seed * 31 + worker);
        let mut mine: Vec<RelationId> = Vec::new();
        while !self.env.dead() {
            // What fails because the power has gone is not noted as durable.
            let _ = self.step(&mut rng, worker, &mut mine, &p);
        }
    }
    fn step(&self, rng: &mut Rng, worker: u64, mine: &mut Vec<RelationId>, p: &SimPark) -> Result<()> {
        let e = &self.engine;
        let mut t = e.begin(Isolation::ReadCommitted, worker as usize);
        if rng.one_in(3) && !mine.is_empty() {
            let id = mine.swap_remove(rng.below(mine.len() as u64) as usize);
            self.durable.lock().unwrap().remove(&id.0);
            e.drop_relation(&mut t, id)?;
            self.commit(t, p)?;
            self.durable.lock().unwrap().insert(id.0, None);
            return Ok(());
        }
        let r = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged)?;
        let count = 1 + rng.below(60) as usize;
        for _ in 0..count {
            r.insert(&mut t, &vec![worker as u8; 1 + rng.below(3000) as usize])?;
        }
        if rng.one_in(3) {
            return t.rollback(p);
        }
        self.commit(t, p)?;
        self.durable.lock().unwrap().insert(r.id().0, Some(count));
        mine.push(r.id());
        if rng.one_in(40) { e.checkpoint(p) } else { Ok(()) }
    }
    fn commit(&self, mut t: Transaction, p: &SimPark) -> Result<()> {
        match t.commit(CommitMode::Sync, p)? {
            Some(lsn) => self.engine.wait_flushed(lsn, p),
            None => Ok(()),
        }
    }
}

/// Threads beside each other, on a disk that loses power at any operation.
fn lose_power(seed: u64) {
    let mut rng = Rng::new(seed);
    let env = Arc::new(SimEnv::default());
    // With every other seed what is free becomes holes at once.
    let limits = StorageLimits { free_pages_kept: (seed % 2) << 13, ..StorageLimits::default() };
    let config =
        |env: &Arc<SimEnv>| EngineConfig { max_wal_size_bytes: 4 << 20, limits, ..simulated_process(env, 4 << 20) };
    let engine = Engine::open(env.clone(), config(&env)).unwrap();
    env.arm(200 + rng.below(3000) as i64, DiskFault::PowerLoss);
    let load = Load { engine, env: env.clone(), durable: Mutex::default() };
    std::thread::scope(|scope| {
        (0..3).for_each(|worker| {
            _ = scope.spawn({
                let load = &load;
                move || load.run(seed, worker)
            })
        });
    });
    let after = env.after_power_loss(&mut rng);
    let Load { engine, durable, .. } = load;
    drop(engine);
    let e = Engine::open(after.clone(), config(&after))
        .unwrap_or_else(|e| panic!("seed {seed}: the server does not start: {}", e.message()));
    for (id, rows) in durable.into_inner().unwrap() {
        let found = e.relation(RelationId(id)).and_then(|r| rows_of(&e, &r)).map(|rows| rows.len());
        assert_eq!(found.ok(), rows, "seed {seed}: relation {id}");
    }
    e.shutdown().unwrap();
    drop(e);
    let wrong = check(after.restart(), PathBuf::from("/sim")).unwrap();
    assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
}

#[test]
fn power_fails_while_relations_come_and_go() {
    support::each_seed(24, lose_power);
}

/// One commit drops more relations than a log record has room for, and a checkpoint is taken in the midst of them.
#[test]
fn a_commit_drops_any_number_of_relations() {
    let env = Arc::new(SimEnv::default());
    let limits = StorageLimits { record_bytes: 64, ..StorageLimits::default() };
    let config = |env: &Arc<SimEnv>| EngineConfig { limits, ..simulated_process(env, BUFFERS) };
    let e = Engine::open(env.clone(), config(&env)).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let ids: Vec<RelationId> =
        (0..2000).map(|_| e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap().id()).collect();
    t.commit(CommitMode::Async, &p).unwrap();
    e.checkpoint(&p).unwrap();
    let stop = AtomicBool::new(false);
    let lsn = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                e.checkpoint(&ThreadPark::new()).unwrap();
            }
        });
        let mut lsn = None;
        for half in ids.chunks(1000) {
            let mut t = e.begin(Isolation::ReadCommitted, 0);
            half.iter().for_each(|id| e.drop_relation(&mut t, *id).unwrap());
            lsn = t.commit(CommitMode::Sync, &p).unwrap();
        }
        stop.store(true, SeqCst);
        lsn.unwrap()
    });
    e.wait_flushed(lsn, &p).unwrap();
    let restarted = env.restart();
    drop(e);
    let e = Engine::open(restarted.clone(), config(&restarted)).unwrap();
    assert!(ids.iter().all(|id| e.relation(*id).is_err()), "dropped relations are back");
}

/// A relation's pages have changed since the last checkpoint; while the next one is on its way to them the relation
/// changes once more and is dropped: its pages are written by nobody. The log from that checkpoint on begins with a change
/// of pages that are older than it.
#[test]
fn a_relation_goes_before_the_checkpoint_comes_to_its_pages() {
    const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: true, key_update: false };
    let env = Arc::new(SimEnv::default());
    let (begun, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let told = (begun.clone(), done.clone());
    let log = move |_: Severity, text: &str| {
        told.0.fetch_or(text.starts_with("checkpoint starting: time"), SeqCst);
        told.1.fetch_or(text.starts_with("checkpoint complete") && told.0.load(SeqCst), SeqCst);
    };
    let config = |env: &Arc<SimEnv>| EngineConfig {
        checkpoint_timeout_s: 1,
        checkpoint_completion_target: 0.9,
        log: Arc::new(log.clone()),
        ..simulated_process(env, BUFFERS)
    };
    let e = Engine::open(env.clone(), config(&env)).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let filler = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    // Pages before those of the other relation, so many that a checkpoint pauses between them.
    let rows: Vec<RowId> = (0..400).map(|_| filler.insert(&mut t, &[1; 7000]).unwrap()).collect();
    let goes = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    goes.insert(&mut t, b"first").unwrap();
    t.commit(CommitMode::Async, &p).unwrap();
    e.checkpoint(&p).unwrap();
    let (paused, go_on) = (std::sync::mpsc::channel(), Mutex::new(None));
    let (send, wait) = std::sync::mpsc::channel::<()>();
    *go_on.lock().unwrap() = Some(wait);
    let begins = begun.clone();
    env.after_pauses(move |thread| {
        if thread == "checkpointer"
            && begins.load(SeqCst)
            && let Some(wait) = go_on.lock().unwrap().take()
        {
            paused.0.send(()).unwrap();
            // The test has ended if nobody sends.
            let _ = wait.recv();
        }
    });
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let snapshot = t.take_snapshot();
    for row in &rows {
        filler.delete(&mut t, *row, &[], &W.with(&snapshot, &p)).unwrap();
    }
    let second = goes.insert(&mut t, b"second").unwrap();
    t.commit(CommitMode::Async, &p).unwrap();
    paused.1.recv_timeout(std::time::Duration::from_secs(60)).expect("a checkpoint begins, and pauses");
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let snapshot = t.take_snapshot();
    goes.delete(&mut t, second, &[], &W.with(&snapshot, &p)).unwrap();
    t.commit(CommitMode::Async, &p).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let id = goes.id();
    drop(goes);
    e.drop_relation(&mut t, id).unwrap();
    let lsn = t.commit(CommitMode::Sync, &p).unwrap().expect("it has written");
    e.wait_flushed(lsn, &p).unwrap();
    send.send(()).unwrap();
    let began = std::time::Instant::now();
    while !done.load(SeqCst) {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "the checkpoint does not end");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let restarted = env.restart();
    drop(e);
    let e = Engine::open(restarted.clone(), config(&restarted)).expect("the server starts");
    assert!(e.relation(id).is_err());
    assert_eq!(rows_of(&e, &e.relation(filler.id()).unwrap()).unwrap().len(), 0);
}

/// With 40,000 relations the record of their drops would be longer than a log record may be.
#[test]
fn forty_thousand_relations_are_dropped_at_once() {
    let dir = support::Dir::new("forty-thousand");
    let e = support::open(&dir, 64 << 20);
    let p = ThreadPark::new();
    let mut ids = Vec::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    for _ in 0..40_000 {
        ids.push(e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap().id());
    }
    t.commit(CommitMode::Async, &p).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    ids.iter().for_each(|id| e.drop_relation(&mut t, *id).unwrap());
    t.commit(CommitMode::Async, &p).unwrap();
    assert!(ids.iter().all(|id| e.relation(*id).is_err()));
}
