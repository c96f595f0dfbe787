//! Threads write to a table that is kept at checkpoints, while checkpoints run one after the other; then the process is
//! killed, or the power fails. What comes back is a state between two transactions:
//! 1. transfers between shared rows leave their sum as it is;
//! 2. each thread's counter says how many rows of its own there are;
//! 3. the index leads to the same rows, and the offline check finds nothing.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_base::{RelationId, Result, Severity};
use kilndb_storage::*;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use support::Rng;
use support::disk::{SimEnv, while_alive};

const THREADS: u32 = 3;
const ACCOUNTS: u32 = 5;
const COUNTER: u32 = 100;
const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

fn open(env: &Arc<SimEnv>) -> Arc<Engine> {
    let process = env.clone();
    let log = move |severity: Severity, _: &str| {
        if severity >= Severity::Panic {
            process.kill();
        }
    };
    let config = EngineConfig { fsync: true, log: Arc::new(log), ..support::config(PathBuf::from("/sim"), 96 * 8192) };
    Engine::open(env.clone(), config).unwrap()
}
fn key_of(k: u32) -> Vec<u8> {
    k.to_be_bytes().to_vec()
}
fn row(k: u32, n: i64, more: usize) -> Vec<u8> {
    [&k.to_le_bytes()[..], &n.to_le_bytes(), &vec![k as u8; more]].concat()
}
fn number(row: &[u8]) -> i64 {
    i64::from_le_bytes(row[4..12].try_into().unwrap())
}
struct Table {
    heap: Arc<Relation>,
    index: Arc<Relation>,
}
impl Table {
    fn add(&self, t: &mut Transaction, k: u32, delta: i64, env: &Arc<SimEnv>) -> Result<()> {
        let park = while_alive(env);
        t.next_command();
        let s = t.take_snapshot();
        let rid = self.index.index_find_live(t, &self.heap, &key_of(k), &park)?.expect("a shared row");
        let mut out = Vec::new();
        self.heap.fetch(rid, &s, &mut out)?;
        let mut options = W;
        loop {
            let new = row(k, number(&out) + delta, number(&out).rem_euclid(90) as usize);
            match self.heap.update(t, rid, &new, &[], &options.with(&s, &park))? {
                WriteOutcome::Done => return Ok(()),
                WriteOutcome::Changed => {
                    assert!(self.heap.fetch_latest(t, rid, &mut out)?);
                    options.latest = true;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    fn put(&self, t: &mut Transaction, k: u32, n: i64, more: usize, env: &Arc<SimEnv>) -> Result<()> {
        let rid = self.heap.insert(t, &row(k, n, more))?;
        self.index.index_insert(t, &self.heap, &key_of(k), rid, Uniqueness::Unique, &while_alive(env)).map(|_| ())
    }
    fn work(&self, e: &Arc<Engine>, thread: u32, env: &Arc<SimEnv>, mut rng: Rng) {
        let mut own: Vec<u32> = Vec::new();
        let mut next = (thread + 1) * 1_000_000;
        while !env.dead() {
            let mut t = e.begin(Isolation::ReadCommitted, thread as usize);
            let mut mine = own.clone();
            let mut step = || -> Result<()> {
                let (a, b, n) = (
                    rng.below(u64::from(ACCOUNTS)) as u32,
                    rng.below(u64::from(ACCOUNTS)) as u32,
                    rng.below(50) as i64,
                );
                self.add(&mut t, a, -n, env)?;
                self.add(&mut t, b, n, env)?;
                let before = mine.len() as i64;
                for _ in 0..1 + rng.below(4) {
                    t.next_command();
                    if rng.one_in(3) && mine.len() > 3 {
                        let k = mine.swap_remove(rng.below(mine.len() as u64) as usize);
                        let s = t.take_snapshot();
                        let park = while_alive(env);
                        let rid =
                            self.index.index_find_live(&mut t, &self.heap, &key_of(k), &park)?.expect("an own row");
                        assert_eq!(
                            self.heap.delete(&mut t, rid, &[(&self.index, &key_of(k))], &W.with(&s, &park))?,
                            WriteOutcome::Done
                        );
                    } else {
                        let more = if rng.one_in(20) { 9000 } else { rng.below(300) as usize };
                        self.put(&mut t, next, 0, more, env)?;
                        mine.push(next);
                        next += 1;
                    }
                }
                self.add(&mut t, COUNTER + thread, mine.len() as i64 - before, env)
            };
            let stepped = step();
            let outcome = match stepped {
                Ok(()) if !rng.one_in(4) => t.commit(CommitMode::Sync, &ThreadPark::new()).map(|_| own = mine),
                _ => t.rollback(&ThreadPark::new()),
            };
            if outcome.is_err() {
                break;
            }
        }
    }
    fn verify(&self, e: &Arc<Engine>, what: &str) {
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        let (mut found, mut batch) = (BTreeMap::new(), RowBatch::default());
        for b in 0..self.heap.pages() {
            batch.clear();
            self.heap.scan_block(b, &s, &mut batch).unwrap_or_else(|e| panic!("{what}: {e}"));
            for i in 0..batch.rows.len() {
                let k = u32::from_le_bytes(batch.row(i)[..4].try_into().unwrap());
                assert!(found.insert(k, number(batch.row(i))).is_none(), "{what}: row {k} twice");
            }
        }
        let mut scan = self.index.index_scan(Bound::Unbounded, Bound::Unbounded, false);
        let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
        while scan.next_batch(&mut keys, &mut ends, &mut rids).unwrap_or_else(|e| panic!("{what}: {e}")) {}
        let (mut out, mut through) = (Vec::new(), 0);
        for rid in &rids {
            if let Fetched::Visible { .. } =
                self.heap.fetch(*rid, &s, &mut out).unwrap_or_else(|e| panic!("{what}: {e}"))
            {
                through += 1;
            }
        }
        assert_eq!(through, found.len(), "{what}: rows through the index");
        assert_eq!((0..ACCOUNTS).map(|k| found[&k]).sum::<i64>(), 0, "{what}: a transfer by half");
        for thread in 0..THREADS {
            let rows = found.range((thread + 1) * 1_000_000..(thread + 2) * 1_000_000).count() as i64;
            assert_eq!(found[&(COUNTER + thread)], rows, "{what}: rows of thread {thread}");
        }
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut env = Arc::new(SimEnv::default());
    let e = open(&env);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Kept).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Kept).unwrap();
    index.set_heap(heap.id());
    let (h, i): (RelationId, RelationId) = (heap.id(), index.id());
    let table = Table { heap, index };
    for k in (0..ACCOUNTS).chain(COUNTER..COUNTER + THREADS) {
        table.put(&mut t, k, 0, 0, &env).unwrap();
    }
    t.commit(CommitMode::Sync, &ThreadPark::new()).unwrap();
    e.checkpoint(&ThreadPark::new()).unwrap();
    let mut engine = Some((e, table));
    for round in 0..6 {
        let what = format!("seed {seed}, round {round}");
        let (e, table) = engine.take().unwrap();
        // What the threads know of their rows is of another life: they begin with new ones.
        clear(&e, &table, &env);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (e, table, env) = (&e, &table, &env);
                let rng = Rng::new(rng.next());
                scope.spawn(move || table.work(e, thread, env, rng));
            }
            for _ in 0..rng.below(6) {
                std::thread::sleep(std::time::Duration::from_millis(rng.below(20)));
                e.checkpoint(&while_alive(&env)).unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            let last = scope.spawn(|| e.checkpoint(&while_alive(&env)).is_ok());
            std::thread::sleep(std::time::Duration::from_micros(rng.below(8000)));
            env.kill();
            let _ = last.join();
        });
        drop((table, e));
        env = if rng.one_in(2) { env.restart() } else { env.after_power_loss(&mut rng) };
        let e = open(&env);
        let table = Table { heap: e.relation(h).unwrap(), index: e.relation(i).unwrap() };
        table.verify(&e, &what);
        if rng.one_in(3) {
            drop(table);
            e.shutdown().unwrap();
            drop(e);
            let wrong = check(env.clone(), PathBuf::from("/sim")).unwrap();
            assert!(wrong.is_empty(), "{what}: {wrong:#?}");
            let e = open(&env);
            let table = Table { heap: e.relation(h).unwrap(), index: e.relation(i).unwrap() };
            table.verify(&e, &what);
            engine = Some((e, table));
        } else {
            engine = Some((e, table));
        }
    }
}
/// The threads' own rows go, and their counters are zero.
fn clear(e: &Arc<Engine>, table: &Table, env: &Arc<SimEnv>) {
    let park = while_alive(env);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut batch = RowBatch::default();
    for b in 0..table.heap.pages() {
        batch.clear();
        table.heap.scan_block(b, &s, &mut batch).unwrap();
        for i in 0..batch.rows.len() {
            let (rid, bytes) = (batch.rows[i].0, batch.row(i));
            let k = u32::from_le_bytes(bytes[..4].try_into().unwrap());
            if k >= 1_000_000 {
                assert_eq!(
                    table.heap.delete(&mut t, rid, &[(&table.index, &key_of(k))], &W.with(&s, &park)).unwrap(),
                    WriteOutcome::Done
                );
            } else if k >= COUNTER {
                assert_eq!(
                    table.heap.update(&mut t, rid, &row(k, 0, 0), &[], &W.with(&s, &park)).unwrap(),
                    WriteOutcome::Done
                );
            }
        }
    }
    t.commit(CommitMode::Sync, &ThreadPark::new()).unwrap();
}

#[test]
fn writers_checkpoints_and_crashes() {
    for seed in support::seeds(4) {
        run(seed);
    }
}
