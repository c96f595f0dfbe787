//! Crashes at random moments: a simulated disk keeps what was synced and a random part of what was not, torn at sectors.
//! After recovery the rows must be those of a commit that is no older than the last one acknowledged.
use kilndb_base::env::{Env, File, Open, OsEnv};
use kilndb_base::park::ThreadPark;
use kilndb_base::{Result, RowId};
use kilndb_storage::*;
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
}

#[derive(Default)]
struct Content {
    durable: Vec<u8>,
    current: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}
struct Switch {
    dead: AtomicBool,
    writes_left: AtomicI64,
}
impl Switch {
    fn check(&self) -> io::Result<()> {
        if self.dead.load(SeqCst) { Err(io::Error::other("crashed")) } else { Ok(()) }
    }
    fn write(&self) -> io::Result<()> {
        if self.writes_left.fetch_sub(1, SeqCst) == 0 {
            self.dead.store(true, SeqCst);
        }
        self.check()
    }
}
struct MemFile {
    content: Arc<Mutex<Content>>,
    switch: Arc<Switch>,
}
fn put(v: &mut Vec<u8>, at: usize, data: &[u8]) {
    if v.len() < at + data.len() {
        v.resize(at + data.len(), 0);
    }
    v[at..at + data.len()].copy_from_slice(data);
}
impl File for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.switch.check()?;
        let c = self.content.lock().unwrap();
        let at = (offset as usize).min(c.current.len());
        let n = buf.len().min(c.current.len() - at);
        buf[..n].copy_from_slice(&c.current[at..at + n]);
        Ok(n)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut c = self.content.lock().unwrap();
        let verdict = self.switch.write();
        if verdict.is_err() && self.switch.writes_left.load(SeqCst) < -1 {
            return verdict;
        }
        // The write that the crash hits may get through in part.
        put(&mut c.current, offset as usize, data);
        c.pending.push((offset as usize, data.to_vec()));
        verdict
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut c = self.content.lock().unwrap();
        self.switch.check()?;
        let c = &mut *c;
        if c.durable.len() < c.current.len() {
            c.durable.resize(c.current.len(), 0);
        }
        for (at, data) in c.pending.drain(..) {
            put(&mut c.durable, at, &data);
        }
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().unwrap().current.len() as u64)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.content.lock().unwrap().current.resize(len as usize, 0);
        Ok(())
    }
    fn punch_hole(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut c = self.content.lock().unwrap();
        let want = (offset + len) as usize;
        if c.current.len() < want {
            c.current.resize(want, 0);
        }
        Ok(())
    }
}

type Names = BTreeMap<PathBuf, Arc<Mutex<Content>>>;
#[derive(Default)]
struct Disk {
    current: Names,
    /// What the directory durably says.
    durable: Names,
    /// Changes since, oldest first: state after each.
    log: Vec<Names>,
}
struct SimEnv {
    disk: Mutex<Disk>,
    switch: Arc<Switch>,
}
impl SimEnv {
    fn new(writes: i64) -> Arc<SimEnv> {
        Arc::new(SimEnv { disk: Mutex::default(), switch: Arc::new(Switch { dead: AtomicBool::new(false), writes_left: AtomicI64::new(writes) }) })
    }
    /// The disk after the crash.
    fn after_crash(&self, rng: &mut Rng, writes: i64) -> Arc<SimEnv> {
        self.switch.dead.store(true, SeqCst);
        let disk = self.disk.lock().unwrap();
        let pick = rng.below(disk.log.len() as u64 + 1) as usize;
        let names = if pick == 0 { &disk.durable } else { &disk.log[pick - 1] };
        let fresh = SimEnv::new(writes);
        let mut made = Names::new();
        for (path, content) in names {
            let c = content.lock().unwrap();
            let mut bytes = c.durable.clone();
            if bytes.len() < c.current.len() && rng.below(2) == 0 {
                bytes.resize(c.current.len(), 0);
            }
            let all = rng.below(4) == 0;
            for (at, data) in &c.pending {
                let mut from = 0;
                while from < data.len() {
                    let to = (from + 512 - (at + from) % 512).min(data.len());
                    if all || rng.below(2) == 0 {
                        put(&mut bytes, at + from, &data[from..to]);
                    }
                    from = to;
                }
            }
            let content = Content { current: bytes.clone(), durable: bytes, pending: Vec::new() };
            made.insert(path.clone(), Arc::new(Mutex::new(content)));
        }
        let mut d = fresh.disk.lock().unwrap();
        d.current = made.clone();
        d.durable = made;
        drop(d);
        fresh
    }
    fn change(&self, f: impl FnOnce(&mut Names)) -> io::Result<()> {
        let mut d = self.disk.lock().unwrap();
        self.switch.check()?;
        let d = &mut *d;
        f(&mut d.current);
        d.log.push(d.current.clone());
        Ok(())
    }
}
impl Env for SimEnv {
    fn unix_micros(&self) -> i64 {
        OsEnv.unix_micros()
    }
    fn monotonic_nanos(&self) -> u64 {
        OsEnv.monotonic_nanos()
    }
    fn sleep(&self, d: Duration) {
        std::thread::sleep(d);
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        OsEnv.random_bytes(buf);
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<std::thread::JoinHandle<()>> {
        OsEnv.spawn(name, body)
    }
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.switch.check()?;
        let have = self.disk.lock().unwrap().current.get(path).cloned();
        let content = match (have, how) {
            (Some(c), Open::Truncate) => {
                c.lock().unwrap().current.clear();
                c.lock().unwrap().pending.clear();
                c.lock().unwrap().durable.clear();
                c
            }
            (Some(c), _) => c,
            (None, Open::Existing | Open::ReadOnly) => return Err(io::Error::from(io::ErrorKind::NotFound)),
            (None, _) => {
                let c = Arc::new(Mutex::new(Content::default()));
                self.change(|n| {
                    n.insert(path.to_path_buf(), c.clone());
                })?;
                c
            }
        };
        Ok(Arc::new(MemFile { content, switch: self.switch.clone() }))
    }
    fn exists(&self, path: &Path) -> bool {
        self.disk.lock().unwrap().current.contains_key(path)
    }
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|n| {
            if let Some(c) = n.remove(from) {
                n.insert(to.to_path_buf(), c);
            }
        })
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(|n| {
            n.remove(path);
        })
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.disk.lock().unwrap().current.keys().filter(|p| p.parent() == Some(path)).cloned().collect())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        let mut d = self.disk.lock().unwrap();
        self.switch.check()?;
        d.durable = d.current.clone();
        d.log.clear();
        Ok(())
    }
}

fn config(buffers: u64) -> EngineConfig {
    EngineConfig {
        data_dir: PathBuf::from("/sim"),
        shared_buffers_bytes: buffers,
        wal_buffers_bytes: 1 << 20,
        max_wal_size_bytes: 32 << 20,
        checkpoint_timeout_s: 300,
        checkpoint_completion_target: 0.1,
        wal_writer_delay_ms: 1,
        fsync: true,
        workers: 2,
        log: Arc::new(|_, _| {}),
    }
}
const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
type Model = BTreeMap<u32, Vec<u8>>;

fn ik(k: u32) -> Vec<u8> {
    k.to_be_bytes().to_vec()
}
fn row(k: u32, v: &[u8]) -> Vec<u8> {
    let mut r = k.to_le_bytes().to_vec();
    r.extend_from_slice(v);
    r
}
/// Rows by scan, checked against the index both ways.
fn read_all(e: &Arc<Engine>, heap: &Arc<Relation>, index: &Arc<Relation>) -> Model {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut model = Model::new();
    let mut batch = RowBatch::default();
    let mut count = 0;
    for b in 0..heap.pages() {
        heap.scan_block(b, &s, &mut batch).unwrap();
        count += heap.count_block(b, &s).unwrap() as usize;
        for i in 0..batch.rows.len() {
            let r = batch.row(i);
            assert!(model.insert(u32::from_le_bytes(r[..4].try_into().unwrap()), r[4..].to_vec()).is_none(), "duplicate row");
        }
    }
    assert_eq!(count, model.len());
    for backward in [false, true] {
        let mut through = Model::new();
        let mut scan = index.index_scan(Bound::Unbounded, Bound::Unbounded, backward);
        let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
        while scan.next_batch(&mut keys, &mut ends, &mut rids).unwrap() {}
        let mut a = 0;
        let mut out = Vec::new();
        for (end, rid) in ends.iter().zip(&rids) {
            let key = u32::from_be_bytes(keys[a..*end as usize].try_into().unwrap());
            a = *end as usize;
            if let Fetched::Visible { recheck } = heap.fetch(*rid, &s, &mut out).unwrap() {
                let k = u32::from_le_bytes(out[..4].try_into().unwrap());
                assert!(recheck || k == key, "entry {key} leads to row {k}");
                if k == key {
                    assert!(through.insert(k, out[4..].to_vec()).is_none());
                }
            }
        }
        assert!(through == model, "index and heap differ: {} {}", through.len(), model.len());
    }
    model
}
fn find(t: &mut Transaction, heap: &Relation, index: &Relation, k: u32, p: &ThreadPark) -> Result<Option<RowId>> {
    index.index_find_live(t, heap, &ik(k), p)
}
/// One random transaction; the model is what it makes of it. Err: the disk has died.
fn transaction(e: &Arc<Engine>, heap: &Arc<Relation>, index: &Arc<Relation>, model: &Model, rng: &mut Rng) -> Result<Option<(Model, Option<kilndb_base::Lsn>)>> {
    let p = ThreadPark::new();
    let mut t = e.begin(if rng.below(4) == 0 { Isolation::RepeatableRead } else { Isolation::ReadCommitted }, rng.below(2) as usize);
    let mut m = model.clone();
    let mut saved: Vec<(Savepoint, Model)> = Vec::new();
    for _ in 0..1 + rng.below(12) {
        let s = t.take_snapshot();
        let k = rng.below(200) as u32;
        let len = match rng.below(20) {
            0 => rng.below(30_000),
            1 | 2 => rng.below(3000),
            _ => rng.below(120),
        };
        let v = vec![rng.next() as u8; len as usize];
        let op = rng.below(12);
        let rid = find(&mut t, heap, index, k, &p)?;
        assert_eq!(rid.is_some(), m.contains_key(&k), "key {k}");
        match (op, rid) {
            (0..=4, None) => {
                let rid = heap.insert(&mut t, &row(k, &v))?;
                assert_eq!(index.index_insert(&mut t, heap, &ik(k), rid, Uniqueness::Unique, &p)?, IndexInsert::Inserted);
                m.insert(k, v);
            }
            (0..=5, Some(rid)) => {
                assert_eq!(heap.update(&mut t, rid, &s, &row(k, &v), &[], &W, &p)?, WriteOutcome::Done);
                m.insert(k, v);
            }
            (6, Some(rid)) => {
                let new = rng.below(200) as u32;
                if find(&mut t, heap, index, new, &p)?.is_none() {
                    let o = WriteOptions { key_update: true, ..W };
                    assert_eq!(heap.update(&mut t, rid, &s, &row(new, &v), &[(index, &ik(k))], &o, &p)?, WriteOutcome::Done);
                    assert_eq!(index.index_insert(&mut t, heap, &ik(new), rid, Uniqueness::Unique, &p)?, IndexInsert::Inserted);
                    m.remove(&k);
                    m.insert(new, v);
                }
            }
            (7 | 8, Some(rid)) => {
                assert_eq!(heap.delete(&mut t, rid, &s, &[(index, &ik(k))], &W, &p)?, WriteOutcome::Done);
                m.remove(&k);
            }
            (9, _) => saved.push((t.savepoint(), m.clone())),
            (10, _) => {
                if let Some((sp, old)) = saved.pop() {
                    t.rollback_to(&sp, &p)?;
                    m = old;
                }
            }
            (11, Some(rid)) => {
                heap.lock_row(&mut t, rid, &s, RowLockMode::Update, &W, &p)?;
            }
            _ => {}
        }
        t.next_command();
    }
    if rng.below(6) == 0 {
        t.rollback(&p)?;
        return Ok(None);
    }
    let lsn = t.commit(if rng.below(2) == 0 { CommitMode::Sync } else { CommitMode::Async }, &p)?;
    Ok(Some((m, lsn)))
}

/// Relations come and go beside the main ones; their space must never be given out twice.
fn side_work(e: &Arc<Engine>, extra: &mut Vec<kilndb_base::RelationId>, rng: &mut Rng) -> Result<()> {
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 1);
    if extra.len() > 3 || (!extra.is_empty() && rng.below(3) == 0) {
        let id = extra.swap_remove(rng.below(extra.len() as u64) as usize);
        if e.relation(id).is_ok() {
            e.drop_relation(&mut t, id)?;
        }
        if rng.below(4) == 0 {
            extra.push(id);
            return t.rollback(&p);
        }
        t.commit(CommitMode::Async, &p)?;
        return Ok(());
    }
    let persistence = match rng.below(3) {
        0 => Persistence::Unlogged,
        1 => Persistence::Temporary,
        _ => Persistence::Logged,
    };
    let heap = e.create_relation(&mut t, RelationKind::Heap, persistence)?;
    let index = e.create_relation(&mut t, RelationKind::BTree, persistence)?;
    for i in 0..rng.below(60) {
        let rid = heap.insert(&mut t, &vec![3; rng.below(3000) as usize])?;
        index.index_insert(&mut t, &heap, &i.to_be_bytes(), rid, Uniqueness::Unique, &p)?;
    }
    if rng.below(3) == 0 {
        return t.rollback(&p);
    }
    t.commit(CommitMode::Async, &p)?;
    extra.push(heap.id());
    extra.push(index.id());
    Ok(())
}
fn run(seed: u64, rounds: usize, buffers: u64) {
    let mut extra = Vec::new();
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut env = SimEnv::new(i64::MAX);
    let (heap_id, index_id) = {
        let e = Engine::open(env.clone(), config(buffers)).unwrap();
        let p = ThreadPark::new();
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
        let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
        index.set_heap(heap.id());
        let lsn = t.commit(CommitMode::Sync, &p).unwrap().unwrap();
        e.wait_flushed(lsn, &p).unwrap();
        (heap.id(), index.id())
    };
    let mut possible: Vec<Model> = vec![Model::new()];
    env = env.after_crash(&mut rng, i64::MAX);
    for round in 0..rounds {
        let limit = 20 + rng.below(600) as i64;
        // Sometimes the crash comes during recovery.
        let early = if rng.below(3) == 0 { limit } else { i64::MAX };
        env = env.after_crash(&mut rng, early);
        let e = match Engine::open(env.clone(), config(buffers)) {
            Ok(e) => e,
            Err(err) if env.switch.dead.load(SeqCst) => {
                let _ = err;
                continue;
            }
            Err(err) => panic!("seed {seed} round {round}: {err}"),
        };
        let dead = || env.switch.dead.load(SeqCst);
        let heap = e.relation(heap_id).unwrap();
        let index = e.relation(index_id).unwrap();
        let found = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read_all(&e, &heap, &index))) {
            Ok(f) => f,
            Err(_) if dead() => continue,
            Err(_) => panic!("seed {seed} round {round}: read failed"),
        };
        assert!(possible.contains(&found), "seed {seed} round {round}: the rows are of no commit that may have survived ({} candidates)", possible.len());
        possible = vec![found.clone()];
        let mut model = found;
        if !dead() {
            let _ = env.switch.writes_left.compare_exchange(env.switch.writes_left.load(SeqCst), limit, SeqCst, SeqCst);
        }
        let mut holder = None;
        for step in 0..400 {
            if dead() {
                break;
            }
            if rng.below(40) == 0 {
                let mut t = e.begin(Isolation::RepeatableRead, 1);
                let s = t.take_snapshot();
                holder = Some((t, s));
            } else if rng.below(20) == 0 {
                holder = None;
            }
            match transaction(&e, &heap, &index, &model, &mut rng) {
                Ok(Some((m, lsn))) => {
                    model = m;
                    possible.push(model.clone());
                    if let Some(lsn) = lsn.filter(|_| rng.below(3) == 0) {
                        while e.flushed_lsn() < lsn && !dead() {
                            std::thread::sleep(Duration::from_micros(100));
                        }
                        if e.flushed_lsn() >= lsn {
                            possible = vec![model.clone()];
                        }
                    }
                }
                Ok(None) => {}
                Err(_) if dead() => break,
                Err(err) => panic!("seed {seed} round {round} step {step}: {err}"),
            }
            if rng.below(15) == 0
                && let Err(err) = side_work(&e, &mut extra, &mut rng)
            {
                assert!(dead(), "seed {seed} round {round}: {err}");
            }
            if rng.below(100) == 0 {
                let _ = e.checkpoint(&ThreadPark::new());
            }
        }
        drop(holder);
        if dead() || rng.below(3) != 0 {
            drop((heap, index));
            continue;
        }
        let shut = e.shutdown();
        drop((heap, index));
        if shut.is_ok() && !dead() {
            drop(e);
            let wrong = check(env.clone(), PathBuf::from("/sim")).unwrap();
            assert!(wrong.is_empty(), "seed {seed} round {round}: {wrong:#?}");
            possible = vec![model];
        }
    }
    // At last: recover, shut down, verify.
    let env = env.after_crash(&mut rng, i64::MAX);
    let e = Engine::open(env.clone(), config(buffers)).unwrap();
    let (heap, index) = (e.relation(heap_id).unwrap(), e.relation(index_id).unwrap());
    assert!(possible.contains(&read_all(&e, &heap, &index)), "seed {seed}: at last");
    drop((heap, index));
    e.shutdown().unwrap();
    drop(e);
    let wrong = check(env, PathBuf::from("/sim")).unwrap();
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
}

#[test]
fn survives_crashes() {
    let first = std::env::var("KILNDB_SEED").ok().and_then(|s| s.parse().ok());
    let count = std::env::var("KILNDB_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(4);
    for seed in first.unwrap_or(1)..first.unwrap_or(1) + count {
        run(seed, 12, if seed % 2 == 0 { 4 << 20 } else { 64 * 8192 });
    }
}
