//! Threads that take rows from one queue, in order, each waiting for the first that another has: every row is taken
//! once, nobody is refused for a deadlock (there is none), nobody sleeps for ever.
mod support;
use kilndb_base::park::ThreadPark;
use kilndb_base::{Result, RowId};
use kilndb_storage::*;
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::Rng;

const ROWS: u32 = 400;
const THREADS: u64 = 8;
const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

struct Queue {
    engine: Arc<Engine>,
    rows: Arc<Relation>,
    ids: Vec<RowId>,
    /// One row that everybody locks after one of the queue.
    tally: (Arc<Relation>, RowId),
    taken: Mutex<BTreeMap<u32, u64>>,
    /// How many ways of looking for rows there are.
    kinds: u64,
}

impl Queue {
    /// The first row, from `from` on, that is there when nobody has it any more.
    fn claim(&self, t: &mut Transaction, token: u64, from: usize, park: &ThreadPark) -> Result<Option<usize>> {
        let snapshot = t.take_snapshot();
        let mut out = Vec::new();
        for (n, rid) in self.ids.iter().enumerate().skip(from) {
            if !matches!(self.rows.fetch(*rid, &snapshot, &mut out)?, Fetched::Visible { .. }) {
                continue;
            }
            let mut options = W;
            loop {
                t.look_alike(token);
                let outcome = self.rows.lock_row(t, *rid, RowLockMode::Update, &options.with(&snapshot, park));
                t.look_alike(0);
                match outcome? {
                    WriteOutcome::Done => return Ok(Some(n)),
                    WriteOutcome::Changed => options.latest = true,
                    WriteOutcome::Deleted => break,
                    other => panic!("{other:?}"),
                }
            }
        }
        t.pass_turn();
        Ok(None)
    }
    /// False: the queue is empty.
    fn step(&self, thread: u64, rng: &mut Rng, park: &ThreadPark) -> Result<bool> {
        let mut t = self.engine.begin(Isolation::ReadCommitted, thread as usize);
        let token = match self.kinds {
            1 => 7,
            kinds => rng.below(kinds),
        };
        let Some(mut n) = self.claim(&mut t, token, 0, park)? else {
            t.commit(CommitMode::Async, park)?;
            return Ok(false);
        };
        if rng.one_in(5) {
            t.next_command();
            let savepoint = t.savepoint();
            if let Some(next) = self.claim(&mut t, token, n + 1, park)? {
                assert!(next > n);
            }
            t.rollback_to(&savepoint, park)?;
        }
        t.next_command();
        let snapshot = t.take_snapshot();
        if rng.one_in(3) {
            let (tally, rid) = &self.tally;
            while tally.lock_row(
                &mut t,
                *rid,
                RowLockMode::NoKeyUpdate,
                &WriteOptions { latest: true, ..W }.with(&snapshot, park),
            )? != WriteOutcome::Done
            {}
        }
        if rng.one_in(4) {
            std::thread::yield_now();
        }
        match rng.below(10) {
            0 => {
                t.rollback(park)?;
                return Ok(true);
            }
            1 => n = usize::MAX,
            _ => assert_eq!(self.rows.delete(&mut t, self.ids[n], &[], &W.with(&snapshot, park))?, WriteOutcome::Done),
        }
        t.commit(CommitMode::Async, park)?;
        if n != usize::MAX {
            assert_eq!(self.taken.lock().unwrap().insert(n as u32, thread), None, "row {n} was taken twice");
        }
        Ok(true)
    }
}

fn drain(name: &str, kinds: u64, seed: u64) {
    let dir = support::Dir::new(name);
    let engine = support::open(&dir, 4 << 20);
    let mut t = engine.begin(Isolation::ReadCommitted, 0);
    let rows = engine.create_relation(&mut t, RelationKind::Heap, Persistence::Unlogged).unwrap();
    let ids = (0..ROWS).map(|n| rows.insert(&mut t, &n.to_le_bytes()).unwrap()).collect();
    let tally = engine.create_relation(&mut t, RelationKind::Heap, Persistence::Unlogged).unwrap();
    let row = tally.insert(&mut t, &[0; 8]).unwrap();
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    let queue =
        Arc::new(Queue { engine: engine.clone(), rows, ids, tally: (tally, row), taken: Mutex::default(), kinds });
    let (done, finished) = channel();
    for thread in 0..THREADS {
        let (queue, done) = (queue.clone(), done.clone());
        std::thread::spawn(move || {
            let (park, mut rng) = (ThreadPark::new(), Rng::new(seed * 100 + thread));
            let mut outcome = Ok(true);
            while let Ok(true) = outcome {
                outcome = queue.step(thread, &mut rng, &park);
            }
            let _ = done.send(outcome.map_err(|e| e.to_string()));
        });
    }
    for _ in 0..THREADS {
        match finished.recv_timeout(Duration::from_secs(120)) {
            Ok(outcome) => assert_eq!(outcome, Ok(false), "{name}, seed {seed}"),
            Err(RecvTimeoutError::Timeout) => panic!("{name}, seed {seed}: somebody sleeps for ever"),
            Err(e) => panic!("{name}, seed {seed}: {e}"),
        }
    }
    assert_eq!(queue.taken.lock().unwrap().len(), ROWS as usize);
    drop(queue);
    engine.shutdown().unwrap();
}

#[test]
fn all_look_alike() {
    for seed in support::seeds(4) {
        drain("queue-alike", 1, seed);
    }
}
#[test]
fn some_look_otherwise() {
    for seed in support::seeds(4) {
        drain("queue-mixed", 3, seed);
    }
}
