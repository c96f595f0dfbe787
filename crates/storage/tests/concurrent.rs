//! Threads against one engine: sums stay, uniqueness holds, memory stays within its limit.
mod support;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use support::Dir;

fn open(dir: &Dir, buffers: u64) -> Arc<Engine> {
    let config =
        EngineConfig { wal_buffers_bytes: 4 << 20, wal_writer_delay_ms: 20, ..support::config(dir.0.clone(), buffers) };
    Engine::open(Arc::new(OsEnv), config).unwrap()
}
const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 7) % n
    }
}
fn balance(row: &[u8]) -> i64 {
    i64::from_le_bytes(row[..8].try_into().unwrap())
}

/// Transfers between accounts: every snapshot sees the same sum.
#[test]
fn sums_stay() {
    let dir = Dir::new("sums");
    let e = open(&dir, 2 << 20);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let ids: Vec<_> = (0..50).map(|_| heap.insert(&mut t, &100i64.to_le_bytes()).unwrap()).collect();
    // Something to push the accounts out of memory.
    let other = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    for _ in 0..3000 {
        other.insert(&mut t, &[0; 2000]).unwrap();
    }
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    let deadlocks = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..6u64)
        .map(|w| {
            let (e, heap, other, ids, deadlocks) =
                (e.clone(), heap.clone(), other.clone(), ids.clone(), deadlocks.clone());
            std::thread::spawn(move || {
                let p = ThreadPark::new();
                let mut rng = Rng(w * 77 + 12345);
                let mut out = Vec::new();
                for round in 0..600 {
                    if w == 0 {
                        let mut t = e.begin(Isolation::RepeatableRead, 0);
                        let s = t.take_snapshot();
                        let mut sum = 0;
                        let mut n = 0;
                        let mut batch = RowBatch::default();
                        for b in 0..heap.pages() {
                            heap.scan_block(b, &s, &mut batch).unwrap();
                            for i in 0..batch.rows.len() {
                                sum += balance(batch.row(i));
                                n += 1;
                            }
                        }
                        assert_eq!((n, sum), (50, 5000), "round {round}");
                        for b in 0..20 {
                            other.count_block((b * 37 + round) % other.pages(), &s).unwrap();
                        }
                        continue;
                    }
                    let mut t = e.begin(Isolation::ReadCommitted, w as usize);
                    let mut step = || -> kilndb_base::Result<()> {
                        for delta in [-1i64, 1] {
                            t.next_command();
                            let rid = ids[rng.below(50) as usize];
                            let s = t.take_snapshot();
                            heap.fetch(rid, &s, &mut out)?;
                            let mut o = W;
                            loop {
                                let mut v = (balance(&out) + delta).to_le_bytes().to_vec();
                                // Now and then long enough to leave the page.
                                v.resize(8 + rng.below(3) as usize * 300, 7);
                                match heap.update(&mut t, rid, &v, &[], &o.with(&s, &p))? {
                                    WriteOutcome::Done => break,
                                    WriteOutcome::Changed => {
                                        assert!(heap.fetch_latest(&t, rid, &mut out)?);
                                        o.latest = true;
                                    }
                                    other => panic!("{other:?}"),
                                }
                            }
                        }
                        Ok(())
                    };
                    match step() {
                        Ok(()) if rng.below(5) == 0 => t.rollback(&p).unwrap(),
                        Ok(()) => {
                            t.commit(CommitMode::Async, &p).unwrap();
                        }
                        Err(err) => {
                            assert_eq!(err.sqlstate().as_str(), "40P01", "{err}");
                            deadlocks.fetch_add(1, Relaxed);
                            t.rollback(&p).unwrap();
                        }
                    }
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    drop((heap, other));
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(check(Arc::new(OsEnv), dir.0.clone()).unwrap(), Vec::<String>::new());
}

/// Many threads insert, delete and look up the same few unique keys.
#[test]
fn uniqueness_holds() {
    let dir = Dir::new("unique");
    let e = open(&dir, 2 << 20);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    index.set_heap(heap.id());
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    let live = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..6u64)
        .map(|w| {
            let (e, heap, index, live) = (e.clone(), heap.clone(), index.clone(), live.clone());
            std::thread::spawn(move || {
                let p = ThreadPark::new();
                let mut rng = Rng(w * 991 + 4242);
                for _ in 0..1500 {
                    let mut t = e.begin(Isolation::ReadCommitted, w as usize);
                    let k = rng.below(2000);
                    // Long keys, so that the tree is deep.
                    let mut key = k.to_be_bytes().to_vec();
                    key.resize(300, 1);
                    let delta = (|| -> kilndb_base::Result<i64> {
                        match index.index_find_live(&mut t, &heap, &key, &p)? {
                            Some(rid) => {
                                let s = t.take_snapshot();
                                match heap.delete(&mut t, rid, &[(&index, &key)], &W.with(&s, &p))? {
                                    WriteOutcome::Done => Ok(-1),
                                    _ => Ok(0),
                                }
                            }
                            None => {
                                let rid = heap.insert(&mut t, &k.to_le_bytes())?;
                                match index.index_insert(&mut t, &heap, &key, rid, Uniqueness::Unique, &p)? {
                                    IndexInsert::Inserted => Ok(1),
                                    IndexInsert::Conflict(_) | IndexInsert::Elsewhere(..) => Ok(i64::MIN),
                                }
                            }
                        }
                    })();
                    match delta {
                        Ok(d) if d != i64::MIN && rng.below(6) != 0 => {
                            t.commit(CommitMode::Async, &p).unwrap();
                            live.fetch_add(d as u64, SeqCst);
                        }
                        _ => t.rollback(&p).unwrap(),
                    }
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut scan = index.index_scan(Bound::Unbounded, Bound::Unbounded, false);
    let (mut keys, mut ends, mut rids, mut out) = (vec![], vec![], vec![], vec![]);
    while scan.next_batch(&mut keys, &mut ends, &mut rids).unwrap() {}
    let mut seen = std::collections::BTreeSet::new();
    for (i, rid) in rids.iter().enumerate() {
        if matches!(heap.fetch(*rid, &s, &mut out).unwrap(), Fetched::Visible { .. }) {
            assert_eq!(&keys[i * 300..i * 300 + 8], &u64::from_le_bytes(out[..8].try_into().unwrap()).to_be_bytes());
            assert!(seen.insert(out.clone()), "twice");
        }
    }
    assert_eq!(seen.len() as u64, live.load(SeqCst));
    drop((s, t, scan, heap, index));
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(check(Arc::new(OsEnv), dir.0.clone()).unwrap(), Vec::<String>::new());
}
