//! Small measurements of the storage engine. `cargo run --release -p kilndb-storage --example storage_bench -- <folder>
//! [rows]`
use kilndb_base::RowId;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

fn resident_mb() -> u64 {
    let s = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    s.split(' ').nth(1).and_then(|v| v.parse::<u64>().ok()).unwrap_or(0) * 4 / 1024
}
fn timed<R>(what: &str, n: u64, f: impl FnOnce() -> R) -> R {
    let t = Instant::now();
    let r = f();
    let s = t.elapsed();
    println!(
        "{what}: {:.3} s, {:.0} ns each, RSS {} MB",
        s.as_secs_f64(),
        s.as_nanos() as f64 / n as f64,
        resident_mb()
    );
    r
}
const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "bench-data".into()));
    let n: u64 = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(1_000_000);
    let buffers: u64 = std::env::args().nth(3).and_then(|s| s.parse().ok()).unwrap_or(1024);
    let _ = std::fs::remove_dir_all(&dir);
    let config = EngineConfig {
        data_dir: dir.clone(),
        shared_buffers_bytes: buffers << 20,
        huge_pages: true,
        wal_buffers_bytes: 16 << 20,
        max_wal_size_bytes: 1 << 30,
        checkpoint_timeout_s: 300,
        checkpoint_completion_target: 0.9,
        wal_writer_delay_ms: 200,
        startup_progress_interval_ms: 0,
        limits: Default::default(),
        fsync: true,
        accept_lost_log: false,
        workers: 2,
        log: Arc::new(|_, t| println!("    {t}")),
    };
    let e = Engine::open(Arc::new(OsEnv), config).unwrap();
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    let mut all: Vec<RowId> = Vec::new();
    timed("insert_many", n, || {
        let mut batch = RowBatch::default();
        let mut rids = Vec::new();
        let mut row = [0u8; 100];
        for i in 0..n {
            row[..8].copy_from_slice(&i.to_le_bytes());
            batch.push(RowId::default(), &row);
            if batch.rows.len() == 1000 || i + 1 == n {
                heap.insert_many(&mut t, &batch, &mut rids).unwrap();
                all.extend_from_slice(&rids);
                batch.clear();
            }
        }
    });
    timed("index_build", n, || {
        let it = all.iter().enumerate().map(|(i, r)| Ok(((i as u64).to_be_bytes().to_vec(), *r)));
        index.index_build(&mut t, &mut IteratorEntries::new(it), &p).unwrap();
    });
    t.commit(CommitMode::Sync, &p).unwrap();
    let mut x = 88172645463325252u64;
    let mut random = move |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    };
    let ops = 1_000_000;
    let mut out = Vec::new();
    timed("begin, snapshot, commit", ops, || {
        for _ in 0..ops {
            let mut t = e.begin(Isolation::ReadCommitted, 0);
            let s = t.take_snapshot();
            drop(s);
            t.commit(CommitMode::Sync, &p).unwrap();
        }
    });
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    timed("fetch by row id", ops, || {
        for _ in 0..ops {
            heap.fetch(all[random(n) as usize], &s, &mut out).unwrap();
        }
    });
    let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
    timed("fetch through the index", ops, || {
        for _ in 0..ops {
            let k = random(n).to_be_bytes().to_vec();
            let mut scan = index.index_scan(Bound::Included(k.clone()), Bound::Included(k), false);
            keys.clear();
            ends.clear();
            rids.clear();
            assert!(scan.next_batch(&mut keys, &mut ends, &mut rids).unwrap());
            heap.fetch(rids[0], &s, &mut out).unwrap();
        }
    });
    timed("count", n, || {
        let mut c = 0u64;
        for b in 0..heap.pages() {
            c += u64::from(heap.count_block(b, &s).unwrap());
        }
        assert_eq!(c, n);
    });
    drop((s, t));
    let before = e.wal_stats();
    let ops = 300_000;
    timed("update + async commit", ops, || {
        let mut row = [0u8; 100];
        for i in 0..ops {
            let mut t = e.begin(Isolation::ReadCommitted, 0);
            let s = t.take_snapshot();
            let rid = all[random(n) as usize];
            heap.fetch(rid, &s, &mut out).unwrap();
            row.copy_from_slice(&out);
            row[40..44].copy_from_slice(&(i as u32).to_le_bytes());
            heap.update(&mut t, rid, &row, &[], &W.with(&s, &p)).unwrap();
            t.commit(CommitMode::Async, &p).unwrap();
        }
    });
    let after = e.wal_stats();
    println!("  log bytes each: {:.1}", (after.bytes - before.bytes) as f64 / ops as f64);
    // TPC-B: accounts, tellers, branches, history.
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let history = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let small = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let hot: Vec<RowId> = (0..110).map(|_| small.insert(&mut t, &[1; 40]).unwrap()).collect();
    t.commit(CommitMode::Async, &p).unwrap();
    let before = e.wal_stats();
    let ops = 200_000;
    timed("TPC-B, async", ops, || {
        for i in 0..ops {
            let mut t = e.begin(Isolation::ReadCommitted, 0);
            let targets = [
                (&heap, all[random(n) as usize]),
                (&small, hot[10 + random(100) as usize]),
                (&small, hot[random(10) as usize]),
            ];
            for (r, rid) in targets {
                t.next_command();
                let s = t.take_snapshot();
                r.fetch(rid, &s, &mut out).unwrap();
                let at = 20;
                let v = (i as u32).wrapping_mul(2654435761).to_le_bytes();
                out[at..at + 4].copy_from_slice(&v);
                let row = std::mem::take(&mut out);
                r.update(&mut t, rid, &row, &[], &W.with(&s, &p)).unwrap();
                out = row;
            }
            t.next_command();
            history.insert(&mut t, &[5; 40]).unwrap();
            t.commit(CommitMode::Async, &p).unwrap();
        }
    });
    let after = e.wal_stats();
    println!("  log bytes each: {:.1}", (after.bytes - before.bytes) as f64 / ops as f64);
    for clients in [1u64, 28] {
        let done = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let flushes = e.wal_stats().flushes;
        let started = Instant::now();
        let threads: Vec<_> = (0..clients)
            .map(|w| {
                let (e, heap, small, history, done, hot) =
                    (e.clone(), heap.clone(), small.clone(), history.clone(), done.clone(), hot.clone());
                let all: Vec<RowId> = all.iter().skip(w as usize * 1000).step_by(997).copied().collect();
                std::thread::spawn(move || {
                    let p = ThreadPark::new();
                    let mut x = w * 7919 + 88172645463325252u64;
                    let mut random = move |n: u64| {
                        x ^= x << 13;
                        x ^= x >> 7;
                        x ^= x << 17;
                        x % n
                    };
                    let mut out = Vec::new();
                    while started.elapsed().as_secs() < 3 {
                        let mut t = e.begin(Isolation::ReadCommitted, w as usize % 2);
                        let targets = [
                            (&heap, all[random(all.len() as u64) as usize]),
                            (&small, hot[10 + random(100) as usize]),
                            (&small, hot[random(10) as usize]),
                        ];
                        for (r, rid) in targets {
                            t.next_command();
                            let s = t.take_snapshot();
                            let mut o = W;
                            r.fetch(rid, &s, &mut out).unwrap();
                            loop {
                                out[20] = out[20].wrapping_add(1);
                                out[23] = out[23].wrapping_sub(1);
                                match r.update(&mut t, rid, &out, &[], &o.with(&s, &p)).unwrap() {
                                    WriteOutcome::Changed => {
                                        r.fetch_latest(&t, rid, &mut out).unwrap();
                                        o.latest = true;
                                    }
                                    _ => break,
                                }
                            }
                        }
                        history.insert(&mut t, &[5; 40]).unwrap();
                        if let Some(lsn) = t.commit(CommitMode::Sync, &p).unwrap() {
                            e.wait_flushed(lsn, &p).unwrap();
                        }
                        done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for t in threads {
            t.join().unwrap();
        }
        println!(
            "TPC-B, {clients} threads, sync: {} per second, {} flushes",
            done.load(std::sync::atomic::Ordering::Relaxed) / 3,
            e.wal_stats().flushes - flushes
        );
    }
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    timed("update of all rows", n, || {
        let mut batch = RowBatch::default();
        for b in 0..heap.pages() {
            heap.scan_block(b, &s, &mut batch).unwrap();
            for i in 0..batch.rows.len() {
                let mut row = batch.row(i).to_vec();
                row[50] = 1;
                heap.update(&mut t, batch.rows[i].0, &row, &[], &W.with(&s, &p)).unwrap();
            }
        }
    });
    drop(s);
    timed("rollback of it", n, || t.rollback(&p).unwrap());
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    timed("delete of all rows", n, || {
        for (i, rid) in all.iter().enumerate() {
            heap.delete(&mut t, *rid, &[(&index, &(i as u64).to_be_bytes())], &W.with(&s, &p)).unwrap();
        }
        t.commit(CommitMode::Async, &p).unwrap();
    });
    drop((s, t));
    timed("purge", n, || {
        while e.purge_backlog() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    println!("{:?} {:?}", e.buffer_stats(), e.wal_stats());
    timed("shutdown", 1, || e.shutdown().unwrap());
    drop(e);
    timed("check", 1, || println!("{:?}", check(Arc::new(OsEnv), dir.clone()).unwrap()));
    let _ = std::fs::remove_dir_all(&dir);
}
