//! What the tests share: a small generator, a folder, a simulated disk.
#![allow(dead_code)]
pub mod cluster;
pub mod disk;
pub mod hooked;

pub use cluster::{Dir, config};
use kilndb_base::RowId;
use kilndb_base::env::OsEnv;
use kilndb_storage::{Engine, EngineConfig, Isolation, Relation, RowBatch, Snapshot};
use std::ops::Bound;
use std::sync::Arc;

/// A generator of random numbers: the same seed gives the same choices.
pub struct Rng(u64);
impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The seeds to run: `KILNDB_SEED` and `KILNDB_SEEDS`, or the first few.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let first = number("KILNDB_SEED").unwrap_or(1);
    first..first + number("KILNDB_SEEDS").unwrap_or(usual)
}

/// Runs each seed of [`seeds`], several at a time: most of what a simulated disk does is waiting.
pub fn each_seed(usual: u64, run: impl Fn(u64) + Sync) {
    let seeds = seeds(usual);
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let at_once = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        break;
                    }
                    run(seed);
                }
            });
        }
    });
}

pub fn open(dir: &Dir, buffers: u64) -> Arc<Engine> {
    Engine::open(Arc::new(OsEnv), config(dir.0.clone(), buffers)).unwrap()
}
/// An index's entries, in order.
pub fn scan(index: &Arc<Relation>, lo: Bound<Vec<u8>>, hi: Bound<Vec<u8>>, backward: bool) -> Vec<(Vec<u8>, RowId)> {
    let mut scan = index.index_scan(lo, hi, backward);
    let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
    while scan.next_batch(&mut keys, &mut ends, &mut rids).unwrap() {}
    let mut a = 0;
    let pairs = ends.iter().zip(&rids).map(|(end, rid)| {
        let key = keys[a..*end as usize].to_vec();
        a = *end as usize;
        (key, *rid)
    });
    pairs.collect()
}
/// The rows of a heap that a new snapshot sees, in the order of its blocks.
pub fn rows_of(engine: &Arc<Engine>, heap: &Relation) -> kilndb_base::Result<Vec<Vec<u8>>> {
    let mut t = engine.begin(Isolation::ReadCommitted, 0);
    rows_seen(heap, &t.take_snapshot())
}
/// The rows of a heap that a snapshot sees, in the order of its blocks.
pub fn rows_seen(heap: &Relation, snapshot: &Snapshot) -> kilndb_base::Result<Vec<Vec<u8>>> {
    let mut rows = Vec::new();
    for block in 0..heap.pages() {
        let mut batch = RowBatch::default();
        heap.scan_block(block, snapshot, &mut batch)?;
        rows.extend((0..batch.rows.len()).map(|i| batch.row(i).to_vec()));
    }
    Ok(rows)
}
