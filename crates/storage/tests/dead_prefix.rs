//! A queue by index: entries go at its left end and come at its right one, now and then in between, while an old
//! snapshot keeps all of them. Scans that leave out what is deleted at their start see what others see, with new
//! snapshots and old.
mod support;
use kilndb_base::park::ThreadPark;
use kilndb_base::{Result, RowId};
use kilndb_storage::*;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use support::Rng;

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

const MOST: u64 = 12_000;

struct Queue {
    engine: Arc<Engine>,
    heap: Arc<Relation>,
    index: Arc<Relation>,
    stop: AtomicBool,
    next: AtomicU64,
    left_out: AtomicU64,
}

impl Queue {
    /// The first rows that the snapshot sees, by index.
    fn first(&self, t: &Transaction, s: &Snapshot, most: usize, leave_out: bool) -> Result<Vec<(u64, RowId)>> {
        let mut scan = self.index.index_scan(Bound::Unbounded, Bound::Unbounded, false);
        if leave_out {
            scan.leave_out_deleted(Some(s.csn().0));
        }
        let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
        let (mut out, mut seen, mut looked) = (Vec::new(), Vec::new(), 0);
        'batch: while scan.next_batch(&mut keys, &mut ends, &mut rids)? {
            for (at, rid) in rids.iter().enumerate() {
                looked += 1;
                let key = &keys[at * 8..at * 8 + 8];
                let visible = matches!(self.heap.fetch(*rid, s, &mut out)?, Fetched::Visible { .. });
                if scan.walks() {
                    match self.heap.deleted_at(t, *rid)? {
                        Some(csn) if !visible => {
                            if scan.passed_deleted(key, *rid, csn) {
                                keys.clear();
                                ends.clear();
                                rids.clear();
                                continue 'batch;
                            }
                        }
                        _ => scan.found(),
                    }
                }
                if visible {
                    seen.push((u64::from_be_bytes(key.try_into().unwrap()), *rid));
                    if seen.len() == most {
                        break 'batch;
                    }
                }
            }
            keys.clear();
            ends.clear();
            rids.clear();
        }
        if !leave_out {
            self.left_out.fetch_add(looked, Relaxed);
        } else {
            self.left_out.fetch_sub(looked, Relaxed);
        }
        Ok(seen)
    }
    fn insert(&self, rng: &mut Rng, park: &ThreadPark) -> Result<()> {
        if self.next.load(Relaxed) >= MOST * 10 {
            std::thread::yield_now();
            return Ok(());
        }
        let mut t = self.engine.begin(Isolation::ReadCommitted, 1);
        for _ in 0..1 + rng.below(8) {
            let end = self.next.fetch_add(10, Relaxed) + 10;
            let key = if rng.one_in(40) { rng.below(end) } else { end };
            let rid = self.heap.insert(&mut t, &key.to_le_bytes())?;
            self.index.index_insert(&mut t, &self.heap, &key.to_be_bytes(), rid, Uniqueness::NotUnique, park)?;
        }
        if rng.one_in(10) { t.rollback(park) } else { t.commit(CommitMode::Async, park).map(drop) }
    }
    fn take(&self, rng: &mut Rng, park: &ThreadPark) -> Result<()> {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        for (key, rid) in self.first(&t, &s, 1 + rng.below(8) as usize, rng.one_in(2))? {
            self.heap.delete(&mut t, rid, &[(&*self.index, &key.to_be_bytes()[..])], &W.with(&s, park))?;
        }
        if rng.one_in(10) { t.rollback(park) } else { t.commit(CommitMode::Async, park).map(drop) }
    }
    fn compare(&self, t: &Transaction, s: &Snapshot, most: usize, what: &str) -> Result<()> {
        let with = self.first(t, s, most, true)?;
        let without = self.first(t, s, most, false)?;
        let keys = |rows: &[(u64, RowId)]| rows.iter().map(|r| r.0).collect::<Vec<_>>();
        assert!(with == without, "{what}, CSN {:?}: {:?} instead of {:?}", s.csn(), keys(&with), keys(&without));
        Ok(())
    }
}

fn run(seed: u64) {
    let dir = support::Dir::new("dead-prefix");
    let engine = support::open(&dir, 16 << 20);
    let mut t = engine.begin(Isolation::ReadCommitted, 0);
    let heap = engine.create_relation(&mut t, RelationKind::Heap, Persistence::Unlogged).unwrap();
    let index = engine.create_relation(&mut t, RelationKind::BTree, Persistence::Unlogged).unwrap();
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    let queue = Queue {
        engine: engine.clone(),
        heap,
        index,
        stop: AtomicBool::new(false),
        next: AtomicU64::new(0),
        left_out: AtomicU64::new(0),
    };
    let mut oldest = engine.begin(Isolation::RepeatableRead, 3);
    let kept = oldest.take_snapshot();
    std::thread::scope(|scope| {
        let work = |n: u64, f: fn(&Queue, &mut Rng, &ThreadPark) -> Result<()>| {
            let queue = &queue;
            scope.spawn(move || {
                let (park, mut rng) = (ThreadPark::new(), Rng::new(seed * 10 + n));
                while !queue.stop.load(Relaxed) {
                    f(queue, &mut rng, &park).unwrap();
                }
            })
        };
        let mut threads = vec![work(1, Queue::insert), work(2, Queue::take), work(3, Queue::take)];
        threads.extend((4..6).map(|n| {
            work(n, |queue, rng, _| {
                let mut t = queue.engine.begin(Isolation::RepeatableRead, 2);
                let s = t.take_snapshot();
                for look in 0..1 + rng.below(6) {
                    queue.compare(&t, &s, 1 + rng.below(30) as usize, &format!("look {look}"))?;
                    std::thread::yield_now();
                }
                Ok(())
            })
        }));
        while queue.next.load(Relaxed) < MOST * 10 && !threads.iter().any(|t| t.is_finished()) {
            std::thread::sleep(std::time::Duration::from_millis(20));
            queue.compare(&oldest, &kept, 10, "the oldest").unwrap();
        }
        queue.stop.store(true, Relaxed);
    });
    let left_out = queue.left_out.load(Relaxed) as i64;
    assert!(left_out > 0, "nothing was left out");
    drop((kept, oldest, queue));
    engine.shutdown().unwrap();
}

#[test]
fn scans_agree() {
    for seed in support::seeds(3) {
        run(seed);
    }
}

/// Jobs by status: those that a scan has passed over as deleted leave their slots to new jobs, whose entries are the old
/// ones, revived.
struct Jobs {
    engine: Arc<Engine>,
    heap: Arc<Relation>,
    index: Arc<Relation>,
}
const NEW: &[u8] = &[1];
const TAKEN: &[u8] = &[2];
const KEY: WriteOptions = WriteOptions { key_update: true, ..W };

impl Jobs {
    fn commit(&self, mut t: Transaction) {
        let p = ThreadPark::new();
        let lsn = t.commit(CommitMode::Sync, &p).unwrap().unwrap();
        self.engine.wait_flushed(lsn, &p).unwrap();
    }
    fn insert(&self, count: usize) -> Vec<RowId> {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        let add = |t: &mut Transaction| {
            let rid = self.heap.insert(t, NEW).unwrap();
            self.index.index_insert(t, &self.heap, NEW, rid, Uniqueness::NotUnique, &ThreadPark::new()).unwrap();
            rid
        };
        let rids = (0..count).map(|_| add(&mut t)).collect();
        self.commit(t);
        rids
    }
    fn take(&self, rid: RowId) {
        let p = ThreadPark::new();
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        let outcome = self.heap.update(&mut t, rid, TAKEN, &[(&*self.index, NEW)], &KEY.with(&s, &p)).unwrap();
        assert_eq!(outcome, WriteOutcome::Done);
        self.index.index_insert(&mut t, &self.heap, TAKEN, rid, Uniqueness::NotUnique, &p).unwrap();
        drop(s);
        self.commit(t);
    }
    /// New jobs that a new snapshot sees, by index.
    fn found(&self, leave_out: bool) -> Vec<RowId> {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 2);
        let s = t.take_snapshot();
        let mut scan = self.index.index_scan(Bound::Included(NEW.to_vec()), Bound::Included(NEW.to_vec()), false);
        if leave_out {
            scan.leave_out_deleted(Some(s.csn().0));
        }
        let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        'batch: while scan.next_batch(&mut keys, &mut ends, &mut rids).unwrap() {
            for (at, rid) in rids.iter().enumerate() {
                let visible = matches!(self.heap.fetch(*rid, &s, &mut out).unwrap(), Fetched::Visible { .. });
                if scan.walks() {
                    match self.heap.deleted_at(&t, *rid).unwrap() {
                        Some(csn) if !visible => {
                            if scan.passed_deleted(&keys[at..at + 1], *rid, csn) {
                                keys.clear();
                                ends.clear();
                                rids.clear();
                                continue 'batch;
                            }
                        }
                        _ => scan.found(),
                    }
                }
                if visible && out[0] == NEW[0] {
                    seen.push(*rid);
                }
            }
            keys.clear();
            ends.clear();
            rids.clear();
        }
        seen
    }
}

#[test]
fn revived_entries_are_found() {
    let dir = support::Dir::new("revived-entries");
    let engine = support::open(&dir, 128 << 20);
    let p = ThreadPark::new();
    let mut t = engine.begin(Isolation::ReadCommitted, 0);
    let mut table = || {
        let heap = engine.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
        let index = engine.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
        index.set_heap(heap.id());
        (heap, index)
    };
    let ((heap, index), (other, other_index)) = (table(), table());
    let keys: Vec<(RowId, [u8; 4])> = (0..60_000u32)
        .map(|i| {
            let rid = other.insert(&mut t, &i.to_le_bytes()).unwrap();
            other_index.index_insert(&mut t, &other, &i.to_be_bytes(), rid, Uniqueness::NotUnique, &p).unwrap();
            (rid, i.to_be_bytes())
        })
        .collect();
    let jobs = Jobs { engine: engine.clone(), heap, index };
    jobs.commit(t);
    let mut reused = 0;
    for round in 0..3 {
        let old_jobs = jobs.insert(100);
        // A snapshot keeps the entries of jobs that are taken.
        let mut old = engine.begin(Isolation::RepeatableRead, 3);
        let s_old = old.take_snapshot();
        old_jobs.iter().for_each(|rid| jobs.take(*rid));
        std::thread::sleep(std::time::Duration::from_millis(60));
        // They are done, and go; much else goes before them, so that their turn comes late; somebody looks for jobs.
        let mut t2 = engine.begin(Isolation::ReadCommitted, 0);
        let s = t2.take_snapshot();
        for rid in &old_jobs {
            let gone = jobs.heap.delete(&mut t2, *rid, &[(&*jobs.index, TAKEN)], &W.with(&s, &p)).unwrap();
            assert_eq!(gone, WriteOutcome::Done);
        }
        drop(s);
        let mut t3 = engine.begin(Isolation::ReadCommitted, 1);
        let s = t3.take_snapshot();
        for (rid, key) in &keys[round * 20_000..(round + 1) * 20_000] {
            other.delete(&mut t3, *rid, &[(&*other_index, &key[..])], &W.with(&s, &p)).unwrap();
        }
        drop(s);
        jobs.commit(t2);
        jobs.commit(t3);
        assert!(jobs.found(true).is_empty());
        drop(s_old);
        old.rollback(&p).unwrap();
        drop(old);
        std::thread::sleep(std::time::Duration::from_millis(8));
        let new_jobs = jobs.insert(100);
        reused += new_jobs.iter().filter(|rid| old_jobs.contains(rid)).count();
        assert_eq!(jobs.found(true), jobs.found(false), "round {round}");
        new_jobs.iter().for_each(|rid| jobs.take(*rid));
    }
    // Otherwise nothing was tried; which slots are used again depends on when the cleaner comes by.
    eprintln!("{reused} slots were used again");
}
