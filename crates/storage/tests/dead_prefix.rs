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
                                (keys.clear(), ends.clear(), rids.clear());
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
            (keys.clear(), ends.clear(), rids.clear());
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
            self.heap.delete(&mut t, rid, &s, &[(&*self.index, &key.to_be_bytes()[..])], &W, park)?;
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
