//! Threads against a disk that fails. Each thread has rows of its own (and knows exactly what they may be), all share
//! accounts and a tally. A write or sync fails, or the power, at a random operation; then recovery, and:
//! 1. every thread's rows are those of one of its commits, no older than the last acknowledged;
//! 2. the accounts' sum stays, and the tally is what the threads' own rows add up to: no transaction by half;
//! 3. the offline check finds nothing.
//!
//! A reader with one old snapshot sees the same all the time, while pruning and compaction work around it.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_base::{Result, RowId, sqlstate};
use kilndb_storage::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use support::Rng;
use support::disk::{DiskFault, SimEnv, SimPark, simulated_process};

const THREADS: u32 = 4;
const OWN: u64 = 40;
const ACCOUNTS: u32 = 6;
const FIRST_ACCOUNT: u32 = 1_000_000;
const TALLY: u32 = 2_000_000;
const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
type Model = BTreeMap<u32, Vec<u8>>;

fn config(env: &Arc<SimEnv>, buffers: u64) -> EngineConfig {
    EngineConfig { max_wal_size_bytes: 32 << 20, ..simulated_process(env, buffers) }
}
fn index_key(k: u32) -> Vec<u8> {
    k.to_be_bytes().to_vec()
}
fn row(k: u32, v: &[u8]) -> Vec<u8> {
    let mut r = k.to_le_bytes().to_vec();
    r.extend_from_slice(v);
    r
}
fn number(v: &[u8]) -> i64 {
    i64::from_le_bytes(v[..8].try_into().unwrap())
}
/// The last own key counts the thread's transactions that are in the tally.
fn counter(thread: u32) -> u32 {
    thread * 1000 + 999
}

/// All rows by scan, compared with those through the index.
fn read_all(heap: &Arc<Relation>, index: &Arc<Relation>, s: &Snapshot) -> Result<Model> {
    let mut model = Model::new();
    let mut batch = RowBatch::default();
    for b in 0..heap.pages() {
        heap.scan_block(b, s, &mut batch)?;
        for i in 0..batch.rows.len() {
            let r = batch.row(i);
            let k = u32::from_le_bytes(r[..4].try_into().unwrap());
            assert!(model.insert(k, r[4..].to_vec()).is_none(), "row {k} twice");
        }
    }
    for backward in [false, true] {
        let mut through = Model::new();
        let mut scan = index.index_scan(Bound::Unbounded, Bound::Unbounded, backward);
        let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
        while scan.next_batch(&mut keys, &mut ends, &mut rids)? {}
        let mut a = 0;
        let mut out = Vec::new();
        for (end, rid) in ends.iter().zip(&rids) {
            let key = u32::from_be_bytes(keys[a..*end as usize].try_into().unwrap());
            a = *end as usize;
            if let Fetched::Visible { recheck } = heap.fetch(*rid, s, &mut out)? {
                let k = u32::from_le_bytes(out[..4].try_into().unwrap());
                // The entries were read before the rows: a slot may be another row's by now.
                assert!(
                    recheck || k == key || model.get(&k) == Some(&out[4..].to_vec()),
                    "entry {key} leads to row {k}"
                );
                if k == key {
                    through.insert(k, out[4..].to_vec());
                }
            }
        }
        for (k, v) in &model {
            assert!(
                through.get(k) == Some(v),
                "row {k} by scan {:?}, by index {:?}",
                v.len(),
                through.get(k).map(Vec::len)
            );
        }
        assert_eq!(through.len(), model.len());
    }
    Ok(model)
}
/// The invariant that all transactions keep.
fn consistent(all: &Model) -> std::result::Result<(), String> {
    let sum: i64 = (0..ACCOUNTS).map(|i| number(&all[&(FIRST_ACCOUNT + i)])).sum();
    let counted: i64 = (0..THREADS).map(|t| number(&all[&counter(t)])).sum();
    let tally = number(&all[&TALLY]);
    if sum != 0 || counted != tally { Err(format!("sum {sum}, tally {tally}, counted {counted}")) } else { Ok(()) }
}
fn own_rows(all: &Model, thread: u32) -> Model {
    all.range(thread * 1000..(thread + 1) * 1000).map(|(k, v)| (*k, v.clone())).collect()
}

struct Shared {
    env: Arc<SimEnv>,
    engine: Arc<Engine>,
    heap: Arc<Relation>,
    index: Arc<Relation>,
    stop: AtomicBool,
    committed: AtomicU64,
    seed: u64,
}

impl Shared {
    /// Adds to a shared row, whoever else does.
    fn add(&self, t: &mut Transaction, k: u32, delta: i64, park: &SimPark) -> Result<()> {
        t.next_command();
        let s = t.take_snapshot();
        let rid = self.index.index_find_live(t, &self.heap, &index_key(k), park)?.expect("a shared row");
        let mut out = Vec::new();
        assert!(matches!(self.heap.fetch(rid, &s, &mut out)?, Fetched::Visible { .. }), "row {k} is not to be seen");
        let mut options = W;
        loop {
            let new = row(k, &(number(&out[4..]) + delta).to_le_bytes());
            match self.heap.update(t, rid, &new, &[], &options.with(&s, park))? {
                WriteOutcome::Done => return Ok(()),
                WriteOutcome::Changed => {
                    assert!(self.heap.fetch_latest(t, rid, &mut out)?);
                    options.latest = true;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    /// Changes all rows of the thread, which lie among those of others.
    fn change_own(
        &self,
        t: &mut Transaction,
        s: &Snapshot,
        m: &mut Model,
        rng: &mut Rng,
        park: &SimPark,
    ) -> Result<()> {
        let mut mine = Vec::new();
        // The counter is read as a number.
        for k in m.keys().filter(|k| *k % 1000 < OWN as u32) {
            mine.push((self.index.index_find_live(t, &self.heap, &index_key(*k), park)?.expect("an own row"), *k));
        }
        mine.sort_unstable();
        let mut rows = RowBatch::default();
        for (rid, k) in mine {
            let mut v = m[&k].clone();
            match v.len() / 2 {
                0 => v.push(rng.next() as u8),
                middle => v[middle] = rng.next() as u8,
            }
            rows.push(rid, &row(k, &v));
            m.insert(k, v);
        }
        let mut at = 0;
        while at < rows.rows.len() {
            at += self.heap.update_many(t, s, &rows, &[], at)?;
            if let Some((rid, _, _)) = rows.rows.get(at) {
                assert_eq!(self.heap.update(t, *rid, rows.row(at), &[], &W.with(s, park))?, WriteOutcome::Done);
                at += 1;
            }
        }
        Ok(())
    }
    /// One random transaction; what the thread's rows are after it, and what to wait for.
    fn transaction(
        &self,
        thread: u32,
        model: &Model,
        rng: &mut Rng,
        park: &SimPark,
    ) -> Result<Option<(Model, Option<kilndb_base::Lsn>)>> {
        let (heap, index) = (&self.heap, &self.index);
        let isolation = if rng.one_in(4) { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        let mut t = self.engine.begin(isolation, thread as usize);
        let mut m = model.clone();
        let mut saved: Vec<(Savepoint, Model)> = Vec::new();
        let mut out = Vec::new();
        let retry = |e: &kilndb_base::Error| {
            [sqlstate::DEADLOCK_DETECTED, sqlstate::SERIALIZATION_FAILURE].contains(&e.sqlstate())
        };
        for _ in 0..1 + rng.below(6) {
            t.next_command();
            let s = t.take_snapshot();
            let k = thread * 1000 + rng.below(OWN) as u32;
            let len = match rng.below(20) {
                0 => rng.below(20_000),
                1..=8 => rng.below(3000),
                _ => rng.below(120),
            };
            let v = vec![rng.next() as u8; len as usize];
            let op = rng.below(13);
            let rid = index.index_find_live(&mut t, heap, &index_key(k), park)?;
            assert_eq!(rid.is_some(), m.contains_key(&k), "key {k}");
            if let Some(rid) = rid {
                assert!(matches!(heap.fetch(rid, &s, &mut out)?, Fetched::Visible { .. }), "key {k} is not to be seen");
                assert!(out[4..] == m[&k], "key {k} has {} bytes instead of {}", out.len() - 4, m[&k].len());
            }
            match (op, rid) {
                (0..=4, None) => {
                    let rid = heap.insert(&mut t, &row(k, &v))?;
                    assert_eq!(
                        index.index_insert(&mut t, heap, &index_key(k), rid, Uniqueness::Unique, park)?,
                        IndexInsert::Inserted
                    );
                    m.insert(k, v);
                }
                (0..=5, Some(rid)) => {
                    assert_eq!(heap.update(&mut t, rid, &row(k, &v), &[], &W.with(&s, park))?, WriteOutcome::Done);
                    m.insert(k, v);
                }
                (6, Some(rid)) => {
                    let new = thread * 1000 + rng.below(OWN) as u32;
                    if index.index_find_live(&mut t, heap, &index_key(new), park)?.is_none() {
                        let o = WriteOptions { key_update: true, ..W };
                        assert_eq!(
                            heap.update(&mut t, rid, &row(new, &v), &[(index, &index_key(k))], &o.with(&s, park))?,
                            WriteOutcome::Done
                        );
                        assert_eq!(
                            index.index_insert(&mut t, heap, &index_key(new), rid, Uniqueness::Unique, park)?,
                            IndexInsert::Inserted
                        );
                        m.remove(&k);
                        m.insert(new, v);
                    }
                }
                (7 | 8, Some(rid)) => {
                    assert_eq!(
                        heap.delete(&mut t, rid, &[(index, &index_key(k))], &W.with(&s, park))?,
                        WriteOutcome::Done
                    );
                    m.remove(&k);
                }
                (9, _) => saved.push((t.savepoint(), m.clone())),
                (10, _) => {
                    if let Some((sp, old)) = saved.pop() {
                        t.rollback_to(&sp, park)?;
                        m = old;
                    }
                }
                (11, Some(rid)) => {
                    heap.lock_row(&mut t, rid, RowLockMode::Update, &W.with(&s, park))?;
                }
                (12, _) if rng.one_in(3) => self.change_own(&mut t, &s, &mut m, rng, park)?,
                _ => {}
            }
        }
        if rng.below(3) == 0 {
            let amount = rng.below(100) as i64;
            let (a, b) = (rng.below(u64::from(ACCOUNTS)) as u32, rng.below(u64::from(ACCOUNTS)) as u32);
            let mine = counter(thread);
            let done = self
                .add(&mut t, FIRST_ACCOUNT + a, -amount, park)
                .and_then(|()| self.add(&mut t, FIRST_ACCOUNT + b, amount, park))
                .and_then(|()| self.add(&mut t, mine, 1, park))
                .and_then(|()| self.add(&mut t, TALLY, 1, park));
            if let Err(e) = done {
                t.rollback(park)?;
                return if retry(&e) { Ok(None) } else { Err(e) };
            }
            let n = number(&m[&mine]) + 1;
            m.insert(mine, n.to_le_bytes().to_vec());
        }
        if rng.one_in(6) {
            t.rollback(park)?;
            return Ok(None);
        }
        let mode = if rng.one_in(4) { CommitMode::Sync } else { CommitMode::Async };
        let lsn = t.commit(mode, park)?;
        self.committed.fetch_add(1, Relaxed);
        Ok(Some((m, lsn)))
    }
    /// Transactions until the process dies or is told to stop; what the rows may be after recovery.
    fn work(&self, thread: u32, model: Model, mut rng: Rng) -> Vec<Model> {
        let park = SimPark::new(&self.env);
        let mut model = model;
        let mut possible = vec![model.clone()];
        while !self.stop.load(SeqCst) && !self.env.dead() {
            match self.transaction(thread, &model, &mut rng, &park) {
                Ok(Some((m, lsn))) => {
                    model = m;
                    possible.push(model.clone());
                    if let Some(lsn) = lsn
                        && self.engine.wait_flushed(lsn, &park).is_ok()
                        && !self.env.dead()
                    {
                        possible = vec![model.clone()];
                    }
                    if possible.len() > 200
                        && self.engine.wait_flushed(self.engine.insert_lsn(), &park).is_ok()
                        && !self.env.dead()
                    {
                        possible = vec![model.clone()];
                    }
                }
                Ok(None) => {}
                Err(_) if self.env.dead() => break,
                Err(e) if self.env.fired() => {
                    // A session goes on after an error of the disk, with the transaction rolled back.
                    let code = e.sqlstate();
                    assert!(
                        [sqlstate::IO_ERROR, sqlstate::DISK_FULL].contains(&code),
                        "seed {}: {code:?} {e}",
                        self.seed
                    );
                }
                Err(e) => panic!("seed {}: {e}", self.seed),
            }
        }
        possible
    }
    /// One snapshot, read again and again.
    fn watch(&self, mut rng: Rng) {
        while !self.stop.load(SeqCst) && !self.env.dead() {
            let mut t = self.engine.begin(Isolation::RepeatableRead, rng.below(4) as usize);
            let s = t.take_snapshot();
            let mut first: Option<Model> = None;
            for _ in 0..1 + rng.below(400) {
                match read_all(&self.heap, &self.index, &s) {
                    Ok(now) => {
                        consistent(&now).unwrap_or_else(|e| panic!("seed {}: a snapshot sees {e}", self.seed));
                        match &first {
                            Some(before) => assert!(*before == now, "seed {}: a snapshot has changed", self.seed),
                            None => first = Some(now),
                        }
                    }
                    Err(_) if self.env.dead() || self.env.fired() => {}
                    Err(e) => panic!("seed {}: {e}", self.seed),
                }
                if self.stop.load(SeqCst) || self.env.dead() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_micros(rng.below(3000)));
            }
        }
    }
}

fn create(env: &Arc<SimEnv>, buffers: u64) -> (kilndb_base::RelationId, kilndb_base::RelationId) {
    let e = Engine::open(env.clone(), config(env, buffers)).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    index.set_heap(heap.id());
    let counters = (0..THREADS).map(counter);
    for k in (0..ACCOUNTS).map(|i| FIRST_ACCOUNT + i).chain([TALLY]).chain(counters) {
        let rid: RowId = heap.insert(&mut t, &row(k, &0i64.to_le_bytes())).unwrap();
        index.index_insert(&mut t, &heap, &index_key(k), rid, Uniqueness::Unique, &p).unwrap();
    }
    let lsn = t.commit(CommitMode::Sync, &p).unwrap().unwrap();
    e.wait_flushed(lsn, &p).unwrap();
    (heap.id(), index.id())
}
fn random_fault(rng: &mut Rng) -> DiskFault {
    match rng.below(6) {
        0 | 1 => DiskFault::Sync,
        2 => DiskFault::Write(libc_error(rng), 1),
        3 => DiskFault::Write(libc_error(rng), 1 + rng.below(40) as u32),
        _ => DiskFault::PowerLoss,
    }
}
/// EIO or ENOSPC.
fn libc_error(rng: &mut Rng) -> i32 {
    if rng.one_in(2) { 5 } else { 28 }
}

/// Files of a cluster, each with its contents.
type Files = Vec<(PathBuf, Vec<u8>)>;
/// With KILNDB_KEEP=folder a failed test leaves there what the last start found on the disk.
struct FailedImage(Option<(PathBuf, Files)>);
impl FailedImage {
    fn of(env: &SimEnv) -> FailedImage {
        FailedImage(std::env::var_os("KILNDB_KEEP").map(|folder| (folder.into(), env.image())))
    }
}
impl Drop for FailedImage {
    fn drop(&mut self) {
        let Some((folder, files)) = self.0.take().filter(|_| std::thread::panicking()) else { return };
        for (path, bytes) in files {
            let to = folder.join(path.strip_prefix("/sim").unwrap_or(&path));
            let written =
                std::fs::create_dir_all(to.parent().unwrap_or(&folder)).and_then(|()| std::fs::write(&to, bytes));
            if let Err(e) = written {
                eprintln!("{}: {e}", to.display());
            }
        }
    }
}
/// For a failure's message: which keys are not as the candidate says, lengths and first bytes.
fn differences(mine: &Model, candidate: &Model) -> Vec<String> {
    let keys: BTreeSet<&u32> =
        candidate.keys().chain(mine.keys()).filter(|k| candidate.get(k) != mine.get(k)).collect();
    let show = |v: Option<&Vec<u8>>| v.map(|v| (v.len(), v.first().copied()));
    keys.iter().map(|k| format!("key {k}: {:?} instead of {:?}", show(mine.get(k)), show(candidate.get(k)))).collect()
}

fn run(seed: u64, rounds: usize) {
    let mut rng = Rng::new(seed);
    let buffers = if seed.is_multiple_of(2) { 4 << 20 } else { 80 * 8192 };
    let mut env = Arc::new(SimEnv::default());
    let (heap_id, index_id) = create(&env, buffers);
    let mut possible: Vec<Vec<Model>> =
        (0..THREADS).map(|t| vec![Model::from([(counter(t), 0i64.to_le_bytes().to_vec())])]).collect();
    let verify = |e: &Arc<Engine>, possible: &mut Vec<Vec<Model>>, what: &str| -> Result<()> {
        let (heap, index) = (e.relation(heap_id)?, e.relation(index_id)?);
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        let all = read_all(&heap, &index, &s)?;
        consistent(&all).unwrap_or_else(|e| panic!("{what}: {e}"));
        for thread in 0..THREADS {
            let mine = own_rows(&all, thread);
            let at = &mut possible[thread as usize];
            if !at.contains(&mine) {
                let differ: Vec<_> = at.iter().map(|candidate| differences(&mine, candidate)).collect();
                panic!("{what}: thread {thread}'s rows are of no commit that may have survived: {differ:?}");
            }
            *at = vec![mine];
        }
        Ok(())
    };
    for round in 0..rounds {
        let what = format!("seed {seed} round {round}");
        // The machine stays up in one of three.
        env = if rng.one_in(3) { env.restart() } else { env.after_power_loss(&mut rng) };
        let calm = std::env::var_os("KILNDB_CALM").is_some();
        if rng.one_in(3) && !calm {
            env.arm(rng.below(200) as i64, random_fault(&mut rng));
        }
        let _kept = FailedImage::of(&env);
        let e = match Engine::open(env.clone(), config(&env, buffers)) {
            Ok(e) => e,
            Err(_) if env.fired() => continue,
            Err(e) => panic!("{what}: {e}"),
        };
        match verify(&e, &mut possible, &what) {
            Ok(()) => {}
            Err(_) if env.fired() => continue,
            Err(e) => panic!("{what}: {e}"),
        }
        if !env.fired() && !calm {
            let most = if rng.one_in(3) { 20_000 } else { 1500 };
            env.arm(20 + rng.below(most) as i64, random_fault(&mut rng));
        }
        let shared = Shared {
            env: env.clone(),
            engine: e.clone(),
            heap: e.relation(heap_id).unwrap(),
            index: e.relation(index_id).unwrap(),
            stop: AtomicBool::new(false),
            committed: AtomicU64::new(0),
            seed,
        };
        // Every other round has one snapshot from beginning to end: beyond 2,000 commits, chains are pruned and undo
        // compacted.
        let mut holder = e.begin(Isolation::RepeatableRead, 3);
        let held = rng.one_in(2).then(|| holder.take_snapshot());
        let before = held.as_ref().and_then(|s| read_all(&shared.heap, &shared.index, s).ok());
        let last = if rng.one_in(4) { 1500 } else { 300 };
        let duration = std::time::Duration::from_millis(20 + rng.below(last));
        std::thread::scope(|scope| {
            let shared = &shared;
            let workers: Vec<_> = (0..THREADS)
                .map(|t| {
                    let (model, rng) = (possible[t as usize][0].clone(), Rng::new(rng.next()));
                    scope.spawn(move || shared.work(t, model, rng))
                })
                .collect();
            let others = [Rng::new(rng.next())].map(|rng| scope.spawn(move || shared.watch(rng)));
            let started = std::time::Instant::now();
            while started.elapsed() < duration && !env.dead() {
                std::thread::sleep(std::time::Duration::from_millis(5));
                if rng.one_in(10) {
                    let _ = e.checkpoint(&SimPark::new(&env));
                }
            }
            shared.stop.store(true, SeqCst);
            for (t, worker) in workers.into_iter().enumerate() {
                possible[t] = worker.join().unwrap_or_else(|_| panic!("{what}: a worker failed"));
            }
            for other in others {
                other.join().unwrap_or_else(|_| panic!("{what}: the reader failed"));
            }
        });
        if std::env::var_os("KILNDB_TELL").is_some() {
            eprintln!(
                "{what}: {} committed, fired {}, dead {}",
                shared.committed.load(Relaxed),
                env.fired(),
                env.dead()
            );
        }
        if let (Some(s), Some(before)) = (&held, before)
            && let Ok(after) = read_all(&shared.heap, &shared.index, s)
        {
            assert!(before == after, "{what}: the old snapshot has changed");
        }
        drop((held, holder, shared));
        if env.dead() || rng.one_in(2) {
            continue;
        }
        let outcome = e.shutdown();
        drop(e);
        if outcome.is_ok() && !env.dead() {
            env.disarm();
            let wrong = check(env.clone(), PathBuf::from("/sim")).unwrap();
            assert!(wrong.is_empty(), "{what}: {wrong:#?}");
            for at in &mut possible {
                at.drain(..at.len() - 1);
            }
        } else if outcome.is_err() {
            assert!(env.fired() || env.dead(), "{what}: {:?}", outcome.err());
        }
    }
    let env = env.after_power_loss(&mut rng);
    let e = Engine::open(env.clone(), config(&env, buffers)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    verify(&e, &mut possible, &format!("seed {seed}, at last")).unwrap();
    e.shutdown().unwrap();
    drop(e);
    let wrong = check(env, PathBuf::from("/sim")).unwrap();
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
}

#[test]
fn a_failing_disk() {
    for seed in support::seeds(3) {
        run(seed, 10);
    }
}
