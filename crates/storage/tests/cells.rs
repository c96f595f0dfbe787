//! A sequence's cell, changed ahead of the log: what it has given out to whoever was told of it durably, it must not
//! give again after a crash.
mod support;

use kilndb_base::Lsn;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use support::disk::{DiskFault, SimEnv, SimPark, simulated_process};
use support::{Rng, each_seed};

const AHEAD: i64 = 32;

/// The next value, as a sequence takes it: of (last value, how many more the log allows for).
fn next_value(cell: &Relation) -> kilndb_base::Result<(i64, Lsn)> {
    cell.cell_modify_ahead(&mut |bytes, checkpointed| {
        let word = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let (value, left) = (word(0) + 1, word(8));
        let state = |last: i64, left: i64| [last.to_le_bytes(), left.to_le_bytes()].concat();
        if checkpointed || left < 1 {
            *bytes = state(value, AHEAD);
            return Ok((value, Some(state(value + AHEAD, 0))));
        }
        *bytes = state(value, left - 1);
        Ok((value, None))
    })
}

struct Sequence {
    engine: Arc<Engine>,
    cell: Arc<Relation>,
    heap: Arc<Relation>,
}

impl Sequence {
    fn new(env: &Arc<SimEnv>, buffers: u64) -> Sequence {
        let engine = Engine::open(env.clone(), simulated_process(env, buffers)).unwrap();
        let p = ThreadPark::new();
        let mut t = engine.begin(Isolation::ReadCommitted, 0);
        let cell = engine.create_relation(&mut t, RelationKind::Cell, Persistence::Logged).unwrap();
        cell.cell_init(&[0; 16]).unwrap();
        let heap = engine.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
        let lsn = t.commit(CommitMode::Sync, &p).unwrap().unwrap();
        engine.wait_flushed(lsn, &p).unwrap();
        Sequence { engine, cell, heap }
    }
    /// Rows with values that the sequence has given out; the last of them is durable when this returns.
    fn insert(&self, rows: usize, p: &SimPark) -> kilndb_base::Result<i64> {
        let mut last = 0;
        for _ in 0..rows {
            let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
            last = next_value(&self.cell)?.0;
            self.heap.insert(&mut t, &last.to_le_bytes())?;
            if let Some(lsn) = t.commit(CommitMode::Sync, p)? {
                self.engine.wait_flushed(lsn, p)?;
            }
        }
        Ok(last)
    }
    /// Other work needs the buffers.
    fn evict(&self, p: &SimPark) -> kilndb_base::Result<()> {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        for _ in 0..100 {
            self.heap.insert(&mut t, &[1; 5900])?;
        }
        t.commit(CommitMode::Async, p).map(drop)
    }
}

const FEW_BUFFERS: u64 = 64 * 8192;

fn next_after_kill(env: &Arc<SimEnv>, sequence: Sequence) -> i64 {
    let id = sequence.cell.id();
    let restarted = env.restart();
    drop(sequence);
    let e = Engine::open(restarted.clone(), simulated_process(&restarted, FEW_BUFFERS)).unwrap();
    next_value(&e.relation(id).unwrap()).unwrap().0
}

#[test]
fn numbers_do_not_come_again_when_the_page_was_written_meanwhile() {
    for evict in [false, true] {
        let env = Arc::new(SimEnv::default());
        let sequence = Sequence::new(&env, FEW_BUFFERS);
        let p = SimPark::new(&env);
        sequence.engine.checkpoint(&p).unwrap();
        sequence.insert(2, &p).unwrap();
        if evict {
            sequence.evict(&p).unwrap();
        }
        let last = sequence.insert(18, &p).unwrap();
        let next = next_after_kill(&env, sequence);
        assert!(next > last, "evicted: {evict}; given out up to {last}, then {next}");
    }
}

/// A value that was taken without any change of a row is durable once the LSN that came with it is, also if another
/// transaction has logged ahead.
#[test]
fn a_value_is_durable_with_its_lsn() {
    let env = Arc::new(SimEnv::default());
    let sequence = Sequence::new(&env, FEW_BUFFERS);
    let p = ThreadPark::new();
    next_value(&sequence.cell).unwrap();
    let (last, lsn) = next_value(&sequence.cell).unwrap();
    let mut t = sequence.engine.begin(Isolation::ReadCommitted, 0);
    t.rest_on(lsn);
    assert_eq!(t.commit(CommitMode::Sync, &p).unwrap(), None, "nothing was written");
    let wait = t.unflushed_seen().unwrap_or(sequence.engine.flushed_lsn());
    assert!(wait >= lsn, "the transaction waits for {wait:?}, which is before {lsn:?}");
    sequence.engine.wait_flushed(wait, &p).unwrap();
    env.kill();
    let next = next_after_kill(&env, sequence);
    assert!(next > last, "given out up to {last}, then {next}");
}

#[test]
fn power_fails_and_numbers_do_not_come_again() {
    each_seed(30, |seed| {
        let mut rng = Rng::new(seed);
        let env = Arc::new(SimEnv::default());
        let sequence = Sequence::new(&env, FEW_BUFFERS);
        env.arm(200 + rng.below(4000) as i64, DiskFault::PowerLoss);
        let p = SimPark::new(&env);
        let mut durable = 0;
        while !env.dead() {
            let done = match rng.below(8) {
                0 => sequence.evict(&p),
                1 => sequence.engine.checkpoint(&p),
                _ => sequence.insert(1 + rng.below(20) as usize, &p).map(|last| durable = last),
            };
            // What fails because the power has gone was not promised.
            drop(done);
        }
        // Of what was not synced nothing, some or all is there.
        let after = if rng.one_in(3) { env.after_power_loss(&mut rng) } else { env.restart() };
        let id = sequence.cell.id();
        drop(sequence);
        let e = Engine::open(after.clone(), simulated_process(&after, FEW_BUFFERS)).unwrap();
        let next = next_value(&e.relation(id).unwrap()).unwrap().0;
        assert!(next > durable, "seed {seed}: given out up to {durable}, then {next}");
    });
}
