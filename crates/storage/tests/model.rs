//! Random operations against models: a tree, a heap, snapshots; a tree under threads.
mod support;

use kilndb_base::RowId;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use support::{Dir, Rng, scan};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

fn two_relations(e: &Arc<Engine>) -> (Arc<Relation>, Arc<Relation>) {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    index.set_heap(heap.id());
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    (heap, index)
}
fn close(e: Arc<Engine>, dir: &Dir, what: &str) {
    e.shutdown().unwrap();
    drop(e);
    let wrong = check(Arc::new(OsEnv), dir.0.clone()).unwrap();
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
}
/// Keys of 0 to 1,990 bytes; many share long prefixes, some are prefixes of others.
fn random_key(rng: &mut Rng) -> Vec<u8> {
    let most = [0, 1, 3, 20, 200, MAX_KEY as u64][rng.below(6) as usize];
    let len = rng.below(most + 1) as usize;
    let mut key = vec![rng.below(3) as u8 * 127; len];
    if len > 0 && rng.one_in(2) {
        let at = rng.below(len as u64) as usize;
        key[at] = rng.next() as u8;
    }
    if len > 2 {
        key[len - 1] = rng.below(8) as u8;
        key[len - 2] = rng.below(8) as u8;
    }
    key
}
/// The entries whose rows a new snapshot sees, with the key that the row has.
fn live(e: &Arc<Engine>, heap: &Relation, entries: Vec<(Vec<u8>, RowId)>) -> Vec<(Vec<u8>, RowId)> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut out = Vec::new();
    let sees = |(key, rid): &(Vec<u8>, RowId)| match heap.fetch(*rid, &s, &mut out).unwrap() {
        Fetched::Visible { .. } => out == *key,
        Fetched::Invisible => false,
    };
    let mut sees = sees;
    entries.into_iter().filter(|e| sees(e)).collect()
}
fn random_bound(rng: &mut Rng, key: Vec<u8>) -> Bound<Vec<u8>> {
    match rng.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

/// Rows are their keys. Insert, delete, change of key, rollback; unique and not; scans of random ranges, both ways.
fn tree(seed: u64, unique: bool) {
    let what = format!("tree seed {seed} unique {unique}");
    let dir = Dir::new(&format!("tree-{seed}-{unique}"));
    let mut e = support::open(&dir, if seed.is_multiple_of(2) { 1 << 20 } else { 16 << 20 });
    let (mut heap, mut index) = two_relations(&e);
    let mut rng = Rng::new(seed);
    let p = ThreadPark::new();
    let mut model: BTreeSet<(Vec<u8>, RowId)> = BTreeSet::new();
    let uniqueness = if unique { Uniqueness::Unique } else { Uniqueness::NotUnique };
    for round in 0..120 {
        // Now and then mostly inserts, now and then mostly deletes: splits and merges.
        let growing = [8, 5, 1][rng.below(3) as usize];
        let mut t = e.begin(Isolation::ReadCommitted, rng.below(4) as usize);
        let mut m = model.clone();
        for _ in 0..1 + rng.below(60) {
            t.next_command();
            let s = t.take_snapshot();
            if rng.below(10) < growing || m.is_empty() {
                let key = random_key(&mut rng);
                let taken =
                    m.range((key.clone(), RowId { block: 0, slot: 0 })..).next().is_some_and(|(k, _)| *k == key);
                let sp = t.savepoint();
                let rid = heap.insert(&mut t, &key).unwrap();
                match index.index_insert(&mut t, &heap, &key, rid, uniqueness, &p).unwrap() {
                    IndexInsert::Inserted => {
                        assert!(!unique || !taken, "{what}: a second {} bytes", key.len());
                        m.insert((key, rid));
                    }
                    IndexInsert::Conflict(_) | IndexInsert::Elsewhere(..) => {
                        assert!(unique && taken, "{what}: no conflict");
                        t.rollback_to(&sp, &p).unwrap();
                    }
                }
                continue;
            }
            let from = (random_key(&mut rng), RowId { block: 0, slot: 0 });
            let Some((key, rid)) = m.range(from..).next().or(m.first()).cloned() else { continue };
            if unique {
                assert_eq!(index.index_find_live(&mut t, &heap, &key, &p).unwrap(), Some(rid), "{what}");
            }
            let new = random_key(&mut rng);
            let free = !unique || index.index_find_live(&mut t, &heap, &new, &p).unwrap().is_none();
            if rng.one_in(4) && free && new != key {
                let o = WriteOptions { key_update: true, ..W };
                assert_eq!(
                    heap.update(&mut t, rid, &new, &[(&index, &key)], &o.with(&s, &p)).unwrap(),
                    WriteOutcome::Done
                );
                assert_eq!(
                    index.index_insert(&mut t, &heap, &new, rid, uniqueness, &p).unwrap(),
                    IndexInsert::Inserted
                );
                m.remove(&(key, rid));
                m.insert((new, rid));
            } else {
                assert_eq!(heap.delete(&mut t, rid, &[(&index, &key)], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
                m.remove(&(key, rid));
            }
        }
        if rng.one_in(5) {
            t.rollback(&p).unwrap();
        } else {
            t.commit(CommitMode::Async, &p).unwrap();
            model = m;
        }
        for _ in 0..3 {
            let (mut a, mut b) = (random_key(&mut rng), random_key(&mut rng));
            if a > b {
                std::mem::swap(&mut a, &mut b);
            }
            let (lo, hi) = (random_bound(&mut rng, a), random_bound(&mut rng, b));
            let inside = |k: &Vec<u8>| std::ops::RangeBounds::contains(&(lo.as_ref(), hi.as_ref()), k);
            let expected: Vec<_> = model.iter().filter(|(k, _)| inside(k)).cloned().collect();
            let mut forward = live(&e, &heap, scan(&index, lo.clone(), hi.clone(), false));
            forward.dedup();
            assert!(
                forward == expected,
                "{what} round {round}: forward {} entries instead of {}",
                forward.len(),
                expected.len()
            );
            let mut backward = live(&e, &heap, scan(&index, lo.clone(), hi.clone(), true));
            backward.reverse();
            assert!(
                backward == expected,
                "{what} round {round}: backward {} entries instead of {}",
                backward.len(),
                expected.len()
            );
        }
        if rng.one_in(40) {
            drop((heap, index));
            close(e, &dir, &what);
            e = support::open(&dir, 1 << 20);
            let ids: Vec<_> = (1..10).filter_map(|i| e.relation(kilndb_base::RelationId(i)).ok()).collect();
            heap = ids.iter().find(|r| r.kind() == RelationKind::Heap).unwrap().clone();
            index = ids.iter().find(|r| r.kind() == RelationKind::BTree).unwrap().clone();
        }
    }
    drop((heap, index));
    close(e, &dir, &what);
}

#[test]
fn a_tree_is_a_sorted_set() {
    for seed in support::seeds(2) {
        tree(seed, true);
        tree(seed, false);
    }
}

/// A row as messages show it: its length, first, middle and last byte.
#[allow(clippy::ptr_arg)]
fn brief(row: &Vec<u8>) -> (usize, Option<u8>, Option<u8>, Option<u8>) {
    (row.len(), row.first().copied(), row.get(row.len() / 2).copied(), row.last().copied())
}
fn random_row(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(12) {
        0 => 0,
        1 => rng.below(60_000),
        2 => 5_900 + rng.below(200),
        3..=5 => rng.below(8_000),
        _ => rng.below(300),
    };
    let byte = rng.next() as u8;
    let mut row = vec![byte; len as usize];
    if len > 10 {
        row[len as usize / 2] = rng.next() as u8;
    }
    row
}
fn rows(heap: &Relation, s: &Snapshot) -> BTreeMap<RowId, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut batch = RowBatch::default();
    for block in 0..heap.pages() {
        heap.scan_block(block, s, &mut batch).unwrap();
        assert_eq!(heap.count_block(block, s).unwrap() as usize, batch.rows.len());
        for i in 0..batch.rows.len() {
            found.insert(batch.rows[i].0, batch.row(i).to_vec());
        }
    }
    found
}
type Rows = BTreeMap<RowId, Vec<u8>>;
/// The rows that a transaction has written, with their new values; None: deleted.
type WrittenRows = BTreeMap<RowId, Option<Vec<u8>>>;

/// Short rows, mostly of one length, fill a page with hundreds.
fn short_row(rng: &mut Rng) -> Vec<u8> {
    let mut row = vec![7; if rng.one_in(8) { rng.below(40) as usize } else { 12 }];
    if let Some(byte) = row.get_mut(3) {
        *byte = rng.next() as u8;
    }
    row
}
/// Changes (None: deletes) all the rows, in their order, those that `others` hold aside: pages at once, and one by one
/// what is left over.
fn change_many(
    heap: &Relation,
    w: &mut Transaction,
    s: &Snapshot,
    rows: &[(RowId, Option<Vec<u8>>)],
    others: &BTreeSet<RowId>,
    p: &ThreadPark,
) {
    let mut at = 0;
    let mut new = RowBatch::default();
    rows.iter().for_each(|(rid, row)| new.push(*rid, row.as_deref().unwrap_or_default()));
    let rids: Vec<RowId> = rows.iter().map(|(rid, _)| *rid).collect();
    let update = rows.first().is_some_and(|(_, row)| row.is_some());
    while at < rows.len() {
        let done = if update {
            heap.update_many(w, s, &new, &[], at).unwrap()
        } else {
            heap.delete_many(w, s, &rids[at..]).unwrap()
        };
        assert!(
            rids[at..at + done].iter().all(|rid| !others.contains(rid)),
            "a row that another transaction holds was changed"
        );
        at += done;
        if let Some((rid, row)) = rows.get(at).filter(|(rid, _)| !others.contains(rid)) {
            let outcome = match row {
                Some(row) => heap.update(w, *rid, row, &[], &W.with(s, p)).unwrap(),
                None => heap.delete(w, *rid, &[], &W.with(s, p)).unwrap(),
            };
            assert_eq!(outcome, WriteOutcome::Done);
        }
        at += 1;
    }
}

/// Rows that grow, shrink, go to pieces and come back, in several transactions at once, with snapshots that stay open:
/// each sees what was committed (or its own) when it was taken.
fn heap_and_snapshots(seed: u64) {
    let what = format!("heap seed {seed}");
    let dir = Dir::new(&format!("heap-{seed}"));
    // Odd ones in pairs: short rows.
    let short = seed / 2 % 2 == 1;
    let new_row = |rng: &mut Rng| if short { short_row(rng) } else { random_row(rng) };
    let most = if short { 300 } else { 30 };
    let e = support::open(&dir, if seed.is_multiple_of(2) { 1 << 20 } else { 16 << 20 });
    let (heap, _) = two_relations(&e);
    let mut rng = Rng::new(seed);
    let p = ThreadPark::new();
    let mut committed = Rows::new();
    struct Open {
        t: Transaction,
        own: WrittenRows,
        saved: Vec<(Savepoint, WrittenRows)>,
    }
    let merged = |committed: &Rows, own: &WrittenRows| {
        let mut all = committed.clone();
        for (rid, row) in own {
            match row {
                Some(row) => all.insert(*rid, row.clone()),
                None => all.remove(rid),
            };
        }
        all
    };
    let mut writers: Vec<Open> = Vec::new();
    // Each with the transaction that holds it.
    let mut snapshots: Vec<(Transaction, Snapshot, Rows)> = Vec::new();
    let mut out = Vec::new();
    for step in 0..1500 {
        let what = format!("{what} step {step}");
        if writers.len() < 3 && rng.one_in(6) || writers.is_empty() {
            let t = e.begin(Isolation::ReadCommitted, rng.below(4) as usize);
            writers.push(Open { t, own: BTreeMap::new(), saved: Vec::new() });
        }
        let at = rng.below(writers.len() as u64) as usize;
        let others: BTreeSet<RowId> =
            writers.iter().enumerate().filter(|(i, _)| *i != at).flat_map(|(_, w)| w.own.keys().copied()).collect();
        let w = &mut writers[at];
        w.t.next_command();
        let s = w.t.take_snapshot();
        let mine = merged(&committed, &w.own);
        let pick =
            mine.keys().nth(rng.below(mine.len().max(1) as u64) as usize).copied().filter(|r| !others.contains(r));
        match (rng.below(17), pick) {
            (0..=3, _) => {
                let row = new_row(&mut rng);
                let rid = heap.insert(&mut w.t, &row).unwrap();
                assert!(!mine.contains_key(&rid), "{what}: slot {rid:?} given twice");
                w.own.insert(rid, Some(row));
            }
            (4, _) => {
                let mut batch = RowBatch::default();
                let some: Vec<_> = (0..rng.below(most)).map(|_| new_row(&mut rng)).collect();
                some.iter().for_each(|r| batch.push(RowId { block: 0, slot: 0 }, r));
                let mut rids = Vec::new();
                heap.insert_many(&mut w.t, &batch, &mut rids).unwrap();
                for (rid, row) in rids.into_iter().zip(some) {
                    w.own.insert(rid, Some(row));
                }
            }
            (5..=8, Some(rid)) => {
                let row = new_row(&mut rng);
                assert_eq!(
                    heap.update(&mut w.t, rid, &row, &[], &W.with(&s, &p)).unwrap(),
                    WriteOutcome::Done,
                    "{what}"
                );
                w.own.insert(rid, Some(row));
            }
            (9, Some(rid)) => {
                assert_eq!(heap.delete(&mut w.t, rid, &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done, "{what}");
                w.own.insert(rid, None);
            }
            (10, _) => {
                let sp = w.t.savepoint();
                w.saved.push((sp, w.own.clone()));
            }
            (11, _) => {
                if let Some((sp, own)) = w.saved.pop() {
                    w.t.rollback_to(&sp, &p).unwrap();
                    w.own = own;
                }
            }
            (12, _) => {
                let mut w = writers.swap_remove(at);
                if rng.one_in(3) {
                    w.t.rollback(&p).unwrap();
                } else {
                    w.t.commit(CommitMode::Async, &p).unwrap();
                    committed = merged(&committed, &w.own);
                }
            }
            (13, _) if snapshots.len() < 6 => {
                let mut t = e.begin(Isolation::RepeatableRead, rng.below(4) as usize);
                let s = t.take_snapshot();
                snapshots.push((t, s, committed.clone()));
            }
            (13, _) => {
                snapshots.swap_remove(rng.below(6) as usize);
            }
            (14 | 15, _) => {
                // All of them, a stretch, or some here and there; sometimes with the bytes that they have.
                let (from, to) = (rng.below(mine.len() as u64 + 1), rng.below(mine.len() as u64 + 1));
                let every = 1 + rng.below(3);
                let whole = rng.one_in(2);
                let delete = rng.one_in(6);
                let alike = rng.one_in(3).then(|| new_row(&mut rng));
                let mut rows = Vec::new();
                for (n, (rid, old)) in mine.iter().enumerate() {
                    if whole
                        || (n as u64 >= from.min(to) && (n as u64) < from.max(to) && (n as u64).is_multiple_of(every))
                    {
                        let mut row = alike
                            .clone()
                            .unwrap_or_else(|| if rng.one_in(3) { new_row(&mut rng) } else { old.clone() });
                        if let Some(byte) = row.last_mut().filter(|_| alike.is_none()) {
                            *byte = rng.next() as u8;
                        }
                        rows.push((*rid, (!delete).then_some(row)));
                    }
                }
                change_many(&heap, &mut w.t, &s, &rows, &others, &p);
                w.own.extend(rows.into_iter().filter(|(rid, _)| !others.contains(rid)));
            }
            (16, Some(rid)) => {
                assert_eq!(
                    heap.lock_row(&mut w.t, rid, RowLockMode::Update, &W.with(&s, &p)).unwrap(),
                    WriteOutcome::Done,
                    "{what}"
                );
                // Nobody else may have it from here on.
                w.own.entry(rid).or_insert_with(|| mine.get(&rid).cloned());
            }
            _ => {}
        }
        if rng.one_in(25) || std::env::var("EACH").is_ok() {
            for (_, s, expected) in &snapshots {
                let found = rows(&heap, s);
                assert!(
                    found == *expected,
                    "{what}: a snapshot sees {} rows instead of {}",
                    found.len(),
                    expected.len()
                );
                for (rid, row) in expected {
                    assert!(
                        matches!(heap.fetch(*rid, s, &mut out).unwrap(), Fetched::Visible { .. }),
                        "{what}: {rid:?}"
                    );
                    assert!(out == *row, "{what}: {rid:?}");
                }
            }
            for w in &mut writers {
                w.t.next_command();
                let s = w.t.take_snapshot();
                let (found, expected) = (rows(&heap, &s), merged(&committed, &w.own));
                let differs = |rid: &&RowId| found.get(rid) != expected.get(rid);
                let wrong: Vec<_> = found.keys().chain(expected.keys()).filter(differs).collect();
                let shown: Vec<_> = wrong
                    .iter()
                    .take(9)
                    .map(|rid| (rid, w.own.contains_key(rid), found.get(rid).map(brief), expected.get(rid).map(brief)))
                    .collect();
                assert!(
                    wrong.is_empty(),
                    "{what}: a transaction does not see what it wrote: {} rows, {shown:?}",
                    wrong.len()
                );
            }
        }
    }
    drop((writers, snapshots));
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    assert!(rows(&heap, &s) == committed, "{what}: at last");
    drop((s, t, heap));
    close(e, &dir, &what);
}

#[test]
fn every_snapshot_sees_its_own_state() {
    for seed in support::seeds(4) {
        heap_and_snapshots(seed);
    }
}

/// Threads insert and delete keys of their own in one tree, others scan it: order holds, nothing is lost or seen twice.
#[test]
fn a_tree_under_threads() {
    for seed in support::seeds(2) {
        let dir = Dir::new(&format!("threads-{seed}"));
        let e = support::open(&dir, 2 << 20);
        let (heap, index) = two_relations(&e);
        let stop = AtomicBool::new(false);
        // Keys that nobody touches must be in every scan.
        let fixed: BTreeSet<Vec<u8>> =
            (0..300u32).map(|i| [&(i * 977 % 30_000).to_be_bytes()[2..], &[9; 60]].concat()).collect();
        let p = ThreadPark::new();
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        for key in &fixed {
            let rid = heap.insert(&mut t, key).unwrap();
            index.index_insert(&mut t, &heap, key, rid, Uniqueness::Unique, &p).unwrap();
        }
        t.commit(CommitMode::Async, &p).unwrap();
        let expected = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3u64)
                .map(|thread| {
                    let (e, heap, index) = (&e, &heap, &index);
                    scope.spawn(move || {
                        let p = ThreadPark::new();
                        let mut rng = Rng::new(seed * 100 + thread);
                        let mut mine: BTreeMap<Vec<u8>, RowId> = BTreeMap::new();
                        for round in 0..250 {
                            let growing = [9, 5, 1][round / 8 % 3];
                            let mut m = mine.clone();
                            let mut t = e.begin(Isolation::ReadCommitted, thread as usize);
                            for _ in 0..1 + rng.below(40) {
                                t.next_command();
                                let s = t.take_snapshot();
                                let mut key = (rng.below(30_000) as u16).to_be_bytes().to_vec();
                                key.resize(20 + rng.below(4) as usize * 100, 1);
                                key.push(100 + thread as u8);
                                if rng.below(10) < growing {
                                    let found = index.index_find_live(&mut t, heap, &key, &p).unwrap();
                                    assert_eq!(found, m.get(&key).copied());
                                    if found.is_none() {
                                        let rid = heap.insert(&mut t, &key).unwrap();
                                        let done = index
                                            .index_insert(&mut t, heap, &key, rid, Uniqueness::Unique, &p)
                                            .unwrap();
                                        assert_eq!(done, IndexInsert::Inserted);
                                        m.insert(key, rid);
                                    }
                                } else if let Some((key, rid)) = m.range(key..).next().map(|(k, r)| (k.clone(), *r)) {
                                    assert_eq!(index.index_find_live(&mut t, heap, &key, &p).unwrap(), Some(rid));
                                    assert_eq!(
                                        heap.delete(&mut t, rid, &[(index, &key)], &W.with(&s, &p)).unwrap(),
                                        WriteOutcome::Done
                                    );
                                    m.remove(&key);
                                }
                            }
                            if rng.one_in(5) {
                                t.rollback(&p).unwrap();
                            } else {
                                t.commit(CommitMode::Async, &p).unwrap();
                                mine = m;
                            }
                        }
                        mine
                    })
                })
                .collect();
            let (index, stop, fixed) = (&index, &stop, &fixed);
            let readers = [false, true].map(|backward| {
                scope.spawn(move || {
                    let mut scans = 0;
                    while !stop.load(SeqCst) || scans == 0 {
                        let mut entries = scan(index, Bound::Unbounded, Bound::Unbounded, backward);
                        if backward {
                            entries.reverse();
                        }
                        assert!(entries.windows(2).all(|w| w[0] < w[1]), "seed {seed}: out of order");
                        let seen = entries.iter().filter(|(k, _)| fixed.contains(k)).count();
                        assert_eq!(seen, fixed.len(), "seed {seed}: keys are missing, backward {backward}");
                        scans += 1;
                    }
                })
            });
            let all: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
            stop.store(true, SeqCst);
            for r in readers {
                r.join().unwrap();
            }
            all.into_iter().flat_map(|m| m.unwrap().into_keys()).chain(fixed.iter().cloned()).collect::<BTreeSet<_>>()
        });
        let found = live(&e, &heap, scan(&index, Bound::Unbounded, Bound::Unbounded, false));
        assert!(
            found.iter().map(|(k, _)| k).eq(expected.iter()),
            "seed {seed}: {} rows instead of {}",
            found.len(),
            expected.len()
        );
        drop((heap, index));
        close(e, &dir, &format!("seed {seed}"));
    }
}
