//! The log's files take no more than `max_wal_size`, whatever the load.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;
use support::Dir;

const MOST: u64 = 128 << 20;

fn log_bytes(dir: &Dir) -> u64 {
    let files = std::fs::read_dir(dir.0.join("wal")).into_iter().flatten().flatten();
    files.filter_map(|f| f.metadata().ok()).map(|m| m.len()).sum()
}

#[test]
fn bulk_work_stays_within_max_wal_size() {
    let dir = Dir::new("log-volume");
    let config = EngineConfig {
        max_wal_size_bytes: MOST,
        checkpoint_completion_target: 0.9,
        fsync: true,
        ..support::config(dir.0.clone(), 256 << 20)
    };
    let e = Engine::open(Arc::new(kilndb_base::env::OsEnv), config).unwrap();
    let (stop, largest) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                largest.fetch_max(log_bytes(&dir), Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let writers: Vec<_> = (0..2)
            .map(|worker| {
                let e = &e;
                scope.spawn(move || {
                    let p = ThreadPark::new();
                    let mut t = e.begin(Isolation::ReadCommitted, worker);
                    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
                    t.commit(CommitMode::Async, &p).unwrap();
                    let mut rows = RowBatch::default();
                    (0..500).for_each(|_| rows.push(kilndb_base::RowId { block: 0, slot: 0 }, &[3; 1000]));
                    for _ in 0..40 {
                        let mut t = e.begin(Isolation::ReadCommitted, worker);
                        for _ in 0..20 {
                            e.pace_bulk(rows.rows.len(), &p).unwrap();
                            heap.insert_many(&mut t, &rows, &mut Vec::new()).unwrap();
                        }
                        t.commit(CommitMode::Async, &p).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|w| w.join().unwrap());
        stop.store(true, Relaxed);
    });
    let largest = largest.load(Relaxed);
    assert!(largest <= MOST, "{} MB of log", largest >> 20);
    e.shutdown().unwrap();
}
