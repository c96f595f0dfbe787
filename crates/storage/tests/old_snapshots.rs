//! Snapshots that stay open while undo is compacted: each sees what it saw when it was taken, nothing that came later,
//! and undo stays as small as what they need.
mod support;

use kilndb_base::RowId;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use support::{Dir, Rng, rows_seen};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: true, key_update: false };

fn heap_with(e: &Arc<Engine>, rows: usize, payload: &[u8], persistence: Persistence) -> (Arc<Relation>, Vec<RowId>) {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, persistence).unwrap();
    let rids = (0..rows).map(|_| heap.insert(&mut t, payload).unwrap()).collect();
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    (heap, rids)
}
fn update(e: &Arc<Engine>, heap: &Relation, worker: usize, rid: RowId, payload: &[u8]) {
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, worker);
    let s = t.take_snapshot();
    heap.update(&mut t, rid, payload, &[], &W.with(&s, &p)).unwrap();
    drop(s);
    t.commit(CommitMode::Async, &p).unwrap();
}

/// Hot rows are updated while a forgotten snapshot has their undo compacted; other snapshots read them twice.
#[test]
fn a_snapshot_does_not_change_while_it_is_open() {
    let dir = Dir::new("snapshots-do-not-change");
    let e = support::open(&dir, 64 << 20);
    let (heap, rids) = heap_with(&e, 3000, &0u64.to_le_bytes(), Persistence::Unlogged);
    let mut forgotten = e.begin(Isolation::RepeatableRead, 3);
    let kept = forgotten.take_snapshot();
    let (stop, looks, changed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (e, heap, rids, stop, looks, changed) = (&e, &heap, &rids, &stop, &looks, &changed);
        for n in 0..3u64 {
            scope.spawn(move || {
                let mut rng = Rng::new(n + 1);
                for i in 0u64.. {
                    if stop.load(Relaxed) {
                        break;
                    }
                    let payload = (i << 2 | n).to_le_bytes();
                    if n == 0 {
                        update(e, heap, 0, rids[rng.below(1000) as usize], &payload);
                        continue;
                    }
                    // Twice within a moment: a version that lives for less than a compaction takes.
                    let rows: Vec<RowId> = (0..8).map(|_| rids[1000 + rng.below(2000) as usize]).collect();
                    rows.iter().for_each(|rid| update(e, heap, n as usize, *rid, &payload));
                    std::thread::sleep(Duration::from_micros(600));
                    rows.iter().for_each(|rid| update(e, heap, n as usize, *rid, &payload));
                }
            });
            scope.spawn(move || {
                let mut rng = Rng::new(100 + n);
                while !stop.load(Relaxed) {
                    let mut t = e.begin(Isolation::RepeatableRead, 2);
                    let s = t.take_snapshot();
                    let first = rows_seen(heap, &s).unwrap();
                    std::thread::sleep(Duration::from_micros(2000 + rng.below(8000)));
                    changed.fetch_add(u64::from(first != rows_seen(heap, &s).unwrap()), Relaxed);
                    looks.fetch_add(1, Relaxed);
                }
            });
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(8) && changed.load(Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Relaxed);
    });
    let forgotten_rows = rows_seen(&heap, &kept).unwrap();
    assert!(forgotten_rows.iter().all(|row| row == &0u64.to_le_bytes()), "the forgotten snapshot sees later versions");
    assert!(looks.load(Relaxed) > 20);
    assert_eq!(changed.load(Relaxed), 0, "of {} snapshots read twice", looks.load(Relaxed));
}

/// Rows inserted after a snapshot, one by one or in bulk, then so much churn that their undo is moved more than once.
#[test]
fn an_old_snapshot_sees_nothing_that_was_inserted_after_it() {
    for in_bulk in [false, true] {
        let dir = Dir::new(if in_bulk { "inserted-in-bulk" } else { "inserted-singly" });
        let e = support::open(&dir, 64 << 20);
        let (heap, _) = heap_with(&e, 0, &[], Persistence::Logged);
        let (churned, rids) = heap_with(&e, 100, &[0; 3900], Persistence::Logged);
        let mut old = e.begin(Isolation::RepeatableRead, 0);
        let s = old.take_snapshot();
        let mut t = e.begin(Isolation::ReadCommitted, 1);
        let mut rows = RowBatch::default();
        (0..200u32).for_each(|i| rows.push(RowId { block: 0, slot: 0 }, &i.to_le_bytes()));
        if in_bulk {
            heap.insert_many(&mut t, &rows, &mut Vec::new()).unwrap();
        } else {
            (0..200).for_each(|i| _ = heap.insert(&mut t, rows.row(i)).unwrap());
        }
        t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
        for i in 0..40_000u32 {
            update(&e, &churned, 1, rids[i as usize % rids.len()], &[(i / 100) as u8 ^ i as u8; 3900]);
            if i % 500 == 499 {
                std::thread::sleep(Duration::from_millis(8));
                let counted: u64 = (0..heap.pages()).map(|b| u64::from(heap.count_block(b, &s).unwrap())).sum();
                let seen = rows_seen(&heap, &s).unwrap().len();
                assert_eq!((seen, counted), (0, 0), "in bulk: {in_bulk}; after {} updates", i + 1);
            }
        }
    }
}

/// What an old snapshot needs is moved once when nothing more is written, and not again and again.
#[test]
fn compaction_ends_when_nothing_is_written() {
    let dir = Dir::new("compaction-ends");
    let e = support::open(&dir, 64 << 20);
    // Versions that differ in every byte: 12 MB are needed, three times what a pass is worth.
    let (heap, rids) = heap_with(&e, 3000, &[0; 3900], Persistence::Logged);
    let mut old = e.begin(Isolation::RepeatableRead, 0);
    let _s = old.take_snapshot();
    for i in 0..9000usize {
        update(&e, &heap, 1, rids[i % rids.len()], &[1 + (i / rids.len()) as u8; 3900]);
    }
    // A row whose versions have moved is logged, so the log's end tells whether rows are moved.
    let began = Instant::now();
    loop {
        let before = e.insert_lsn();
        std::thread::sleep(Duration::from_millis(500));
        if e.insert_lsn() == before {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "undo is compacted without end: {} bytes", e.undo_bytes());
    }
    assert!(e.undo_bytes() >= 3000 * 3900, "undo has {} bytes, the snapshot needs more", e.undo_bytes());
}

/// One old snapshot needs one version of each row; the versions between it and the newest go.
#[test]
fn undo_stays_small_beside_an_old_snapshot() {
    for (bytes, rows) in [(3900usize, 100usize), (100, 100), (3900, 1)] {
        let dir = Dir::new(&format!("undo-stays-small-{bytes}-{rows}"));
        let e = support::open(&dir, 64 << 20);
        let (heap, rids) = heap_with(&e, rows, &vec![0; bytes], Persistence::Logged);
        let mut old = e.begin(Isolation::RepeatableRead, 0);
        let _s = old.take_snapshot();
        for i in 0..20_000usize {
            let new: Vec<u8> = (0..bytes).map(|at| (i * 7 + at * (1 + i % 3)) as u8).collect();
            update(&e, &heap, 1, rids[i % rows], &new);
            if i % 100 == 99 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        // Twice what is needed, the chunks that are not worth a pass, and what comes in during one. A pass begins with
        // what is written, and takes the time that the machine has for it.
        let most = 2 * 2 * (bytes * rows) as u64 + 3 * (4 << 20);
        let began = Instant::now();
        while e.undo_bytes() > most && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(10));
            update(&e, &heap, 1, rids[0], &vec![1; bytes]);
        }
        assert!(e.undo_bytes() <= most, "{rows} rows of {bytes} bytes: undo of {} bytes", e.undo_bytes());
    }
}
