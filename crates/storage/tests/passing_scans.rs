//! Passes over tables that are larger than the pool: they push little out, and see what any other reader sees.
mod support;
use kilndb_base::RowId;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Dir, rows_of};

const POOL_BYTES: u64 = 4 << 20;
const ROW_BYTES: usize = 500;
/// Several times what the pool has room for.
const ROWS: u32 = 40_000;

fn row(value: i64) -> Vec<u8> {
    let mut row = vec![7; ROW_BYTES];
    row[..8].copy_from_slice(&value.to_le_bytes());
    row
}
fn value(row: &[u8]) -> i64 {
    i64::from_le_bytes(*row.first_chunk().unwrap())
}
fn load(e: &Arc<Engine>, rows: u32) -> (Arc<Relation>, Vec<RowId>) {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Unlogged).unwrap();
    let rids = (0..rows).map(|_| heap.insert(&mut t, &row(100)).unwrap()).collect();
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    (heap, rids)
}

#[test]
fn a_pass_over_a_large_table_pushes_little_out() {
    let dir = Dir::new("passing");
    let e = support::open(&dir, POOL_BYTES);
    let (large, _) = load(&e, ROWS);
    // Pages that have been changed are written before anything is compared.
    e.checkpoint(&ThreadPark::new()).unwrap();
    let passed = || rows_of(&e, &large).unwrap().len();
    assert_eq!(passed(), ROWS as usize);
    let before = e.buffer_stats().evictions;
    assert_eq!(passed(), ROWS as usize);
    let evicted = e.buffer_stats().evictions - before;
    let pages = u64::from(large.pages());
    assert!(evicted < pages / 4, "{evicted} of {pages} pages took the place of another");
    // But some come to stay.
    assert!(evicted > 0);
}

#[test]
fn a_pass_sees_all_or_nothing_of_what_is_changed_beside_it() {
    let dir = Dir::new("passing-beside");
    let e = support::open(&dir, POOL_BYTES);
    let (large, rids) = load(&e, ROWS);
    let is_over = AtomicBool::new(false);
    let moved = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (park, mut random, mut moved) = (ThreadPark::new(), support::Rng::new(5), 0u32);
            let options = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
            while !is_over.load(Ordering::Relaxed) {
                let mut t = e.begin(Isolation::ReadCommitted, 0);
                for change in [1, -1] {
                    let rid = rids[random.below(u64::from(ROWS)) as usize];
                    let snapshot = t.take_snapshot();
                    let mut bytes = Vec::new();
                    large.fetch(rid, &snapshot, &mut bytes).unwrap();
                    let done =
                        large.update(&mut t, rid, &row(value(&bytes) + change), &[], &options.with(&snapshot, &park));
                    assert_eq!(done.unwrap(), WriteOutcome::Done);
                    drop(snapshot);
                    t.next_command();
                }
                t.commit(CommitMode::Async, &park).unwrap();
                moved += 1;
            }
            moved
        });
        for _ in 0..20 {
            let rows = rows_of(&e, &large).unwrap();
            assert_eq!(rows.len(), ROWS as usize);
            assert_eq!(rows.iter().map(|row| value(row)).sum::<i64>(), 100 * i64::from(ROWS));
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(moved > 0);
}
