//! Inverted indexes: what is found by terms is what a scan of the table finds, whatever changes, merges, snapshots and
//! crashes there are.
mod support;
use kilndb_base::park::{Park, ThreadPark};
use kilndb_base::{RelationId, Result, RowId};
use kilndb_storage::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use support::disk::{DiskFault, SimEnv, while_alive};
use support::{Dir, Rng, config, open, seeds};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
const TERMS: u64 = 60;

/// A row is a list of numbers of terms, and something that is not indexed.
fn term(number: u16) -> Vec<u8> {
    match number % 20 {
        // Cut, with the same beginning.
        19 => [vec![b'x'; 1200], number.to_string().into_bytes()].concat(),
        18 => vec![0, number as u8, 0],
        _ => format!("term{number:03}").into_bytes(),
    }
}
fn terms_of(numbers: &BTreeSet<u16>) -> Vec<Vec<u8>> {
    let mut terms: Vec<Vec<u8>> = numbers.iter().map(|n| term(*n)).collect();
    terms.sort();
    terms
}
fn row(numbers: &BTreeSet<u16>, other: u8) -> Vec<u8> {
    let mut out = vec![other];
    out.extend((numbers.len() as u16).to_le_bytes());
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    out.resize(out.len() + usize::from(other), other);
    out
}
fn numbers_in(row: &[u8]) -> BTreeSet<u16> {
    let count = usize::from(u16::from_le_bytes([row[1], row[2]]));
    row[3..3 + 2 * count].chunks(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect()
}
/// Number 0 is in every row, higher ones are rarer; some rows have very many.
fn some_numbers(rng: &mut Rng) -> BTreeSet<u16> {
    let count = if rng.one_in(40) { 700 } else { rng.below(12) };
    let mut numbers: BTreeSet<u16> = (0..count)
        .map(|_| (rng.below(TERMS).min(rng.below(TERMS)) as u16) + if count > 100 { rng.below(2000) as u16 } else { 0 })
        .collect();
    numbers.insert(0);
    numbers
}
type Rows = BTreeMap<u64, BTreeSet<u16>>;

fn by_scan(heap: &Relation, s: &Snapshot) -> Rows {
    let mut rows = Rows::new();
    let mut batch = RowBatch::default();
    for block in 0..heap.pages() {
        heap.scan_block(block, s, &mut batch).unwrap();
        rows.extend((0..batch.rows.len()).map(|i| (batch.rows[i].0.to_u64(), numbers_in(batch.row(i)))));
    }
    rows
}
/// Rows with a term that satisfies the condition, by way of the index.
fn by_index(
    heap: &Relation,
    index: &Arc<Relation>,
    s: &Snapshot,
    wanted: &dyn Fn(u16) -> bool,
    ranges: &[(Vec<u8>, Option<Vec<u8>>)],
) -> BTreeSet<u64> {
    let mut scan = index.term_scan(s).unwrap();
    let mut found = Vec::new();
    scan.pending(&mut |rid, row| {
        let terms = row.terms()?;
        assert!(terms.is_sorted());
        for term in &terms {
            let bytes = PendingTerms::bytes_of(term);
            assert!(row.bytes().windows(bytes.len()).any(|part| part == bytes));
        }
        let is_in = |term: &[u8]| {
            ranges.iter().any(|(lower, upper)| match upper {
                None => term == &*RelationKind::Inverted.kept_term(lower),
                Some(upper) => term >= &lower[..] && term < &upper[..],
            })
        };
        if terms.iter().any(|t| is_in(t)) {
            found.push(rid.to_u64());
        }
        Ok(())
    })
    .unwrap();
    for (lower, upper) in ranges {
        scan.rows(lower, upper.as_deref(), &mut |rows| {
            found.extend_from_slice(rows);
            Ok(())
        })
        .unwrap();
    }
    let mut bytes = Vec::new();
    let found: BTreeSet<u64> = found.into_iter().collect();
    found
        .into_iter()
        .filter(|rid| match heap.fetch(RowId::from_u64(*rid), s, &mut bytes).unwrap() {
            Fetched::Visible { .. } => numbers_in(&bytes).iter().any(|n| wanted(*n)),
            Fetched::Invisible => false,
        })
        .collect()
}
fn compare(heap: &Relation, index: &Arc<Relation>, s: &Snapshot, rng: &mut Rng, what: &str) {
    let rows = by_scan(heap, s);
    let having = |wanted: &dyn Fn(u16) -> bool| -> BTreeSet<u64> {
        rows.iter().filter(|(_, numbers)| numbers.iter().any(|n| wanted(*n))).map(|(rid, _)| *rid).collect()
    };
    for number in [0, 19, 39, 18, rng.below(TERMS) as u16, rng.below(TERMS) as u16, rng.below(2000) as u16] {
        let wanted = |n: u16| n == number;
        assert_eq!(
            by_index(heap, index, s, &wanted, &[(term(number), None)]),
            having(&wanted),
            "{what}: rows with term {number}"
        );
    }
    let wanted = |n: u16| term(n).starts_with(b"term01");
    assert_eq!(
        by_index(heap, index, s, &wanted, &[(b"term01".to_vec(), Some(b"term02".to_vec()))]),
        having(&wanted),
        "{what}: rows with a prefix"
    );
    let mut scan = index.term_scan(s).unwrap();
    scan.pending(&mut |_, _| Ok(())).unwrap();
    let mut terms = Vec::new();
    scan.all(&mut |term, rows| {
        assert!(!rows.is_empty());
        terms.push(term.to_vec());
        Ok(())
    })
    .unwrap();
    assert!(terms.is_sorted(), "{what}");
}
fn make(e: &Arc<Engine>, persistence: Persistence) -> (Arc<Relation>, Arc<Relation>) {
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, persistence).unwrap();
    let index = e.create_relation(&mut t, RelationKind::Inverted, persistence).unwrap();
    index.set_heap(heap.id());
    let lsn = t.commit(CommitMode::Sync, &p).unwrap();
    if let Some(lsn) = lsn {
        e.wait_flushed(lsn, &p).unwrap();
    }
    (heap, index)
}
/// One random transaction over rows that nobody else changes. `rows`: those that there are.
fn transaction(
    e: &Arc<Engine>,
    heap: &Relation,
    index: &Relation,
    rows: &Rows,
    worker: usize,
    rng: &mut Rng,
    park: &dyn Park,
) -> Result<Option<Rows>> {
    let mut t = e.begin(Isolation::ReadCommitted, worker);
    let mut now = rows.clone();
    let mut saved: Vec<(Savepoint, Rows)> = Vec::new();
    for _ in 0..1 + rng.below(8) {
        let s = t.take_snapshot();
        let some = now.keys().nth(rng.below(now.len().max(1) as u64) as usize).copied();
        match (rng.below(10), some) {
            (0..=3, _) | (_, None) => {
                let numbers = some_numbers(rng);
                let rid = heap.insert(&mut t, &row(&numbers, rng.below(60) as u8))?;
                index.change_terms(&mut t, rid, TermChange::Inserted(&terms_of(&numbers)))?;
                now.insert(rid.to_u64(), numbers);
            }
            (4 | 5, Some(rid)) => {
                let numbers = some_numbers(rng);
                let done = heap.update(
                    &mut t,
                    RowId::from_u64(rid),
                    &row(&numbers, rng.below(60) as u8),
                    &[],
                    &W.with(&s, park),
                )?;
                assert_eq!(done, WriteOutcome::Done);
                if numbers != now[&rid] {
                    index.change_terms(&mut t, RowId::from_u64(rid), TermChange::Updated(&terms_of(&numbers)))?;
                }
                now.insert(rid, numbers);
            }
            (6, Some(rid)) => {
                let done = heap.update(
                    &mut t,
                    RowId::from_u64(rid),
                    &row(&now[&rid], rng.below(60) as u8),
                    &[],
                    &W.with(&s, park),
                )?;
                assert_eq!(done, WriteOutcome::Done);
            }
            (7, Some(rid)) => {
                assert_eq!(heap.delete(&mut t, RowId::from_u64(rid), &[], &W.with(&s, park))?, WriteOutcome::Done);
                index.change_terms(&mut t, RowId::from_u64(rid), TermChange::Deleted)?;
                now.remove(&rid);
            }
            (8, _) => saved.push((t.savepoint(), now.clone())),
            _ => {
                if let Some((savepoint, then)) = saved.pop() {
                    t.rollback_to(&savepoint, park)?;
                    now = then;
                }
            }
        }
        t.next_command();
    }
    if rng.one_in(5) {
        t.rollback(park)?;
        return Ok(None);
    }
    t.commit(CommitMode::Async, park)?;
    Ok(Some(now))
}

#[test]
fn the_index_finds_what_a_scan_finds() {
    for seed in seeds(3) {
        let dir = Dir::new(&format!("inverted-{seed}"));
        let mut rng = Rng::new(seed);
        let p = ThreadPark::new();
        let mut e = open(&dir, 16 << 20);
        let (mut heap, mut index) = make(&e, Persistence::Logged);
        let mut rows = Rows::new();
        let mut held = Vec::new();
        for step in 0..1500 {
            if let Some(now) = transaction(&e, &heap, &index, &rows, rng.below(3) as usize, &mut rng, &p).unwrap() {
                rows = now;
            }
            match rng.below(120) {
                0..=3 => _ = index.index_flush(&p).unwrap(),
                4 | 5 => {
                    let mut t = e.begin(Isolation::RepeatableRead, 1);
                    let s = t.take_snapshot();
                    held.push((t, s));
                }
                6 | 7 if !held.is_empty() => drop(held.swap_remove(rng.below(held.len() as u64) as usize)),
                8 => {
                    held.clear();
                    e.shutdown().unwrap();
                    let (heap_id, index_id) = (heap.id(), index.id());
                    drop((e, heap, index));
                    let wrong =
                        check(Arc::new(kilndb_base::env::OsEnv), config(dir.0.clone(), 16 << 20).data_dir).unwrap();
                    assert!(wrong.is_empty(), "seed {seed} step {step}: {wrong:#?}");
                    e = open(&dir, 16 << 20);
                    (heap, index) = (e.relation(heap_id).unwrap(), e.relation(index_id).unwrap());
                }
                9..=20 => {
                    let mut t = e.begin(Isolation::ReadCommitted, 0);
                    let s = t.take_snapshot();
                    assert!(by_scan(&heap, &s) == rows, "seed {seed} step {step}");
                    compare(&heap, &index, &s, &mut rng, &format!("seed {seed} step {step}"));
                    if let Some((_, s)) = held.first() {
                        compare(&heap, &index, s, &mut rng, &format!("seed {seed} step {step}, an old snapshot"));
                    }
                }
                _ => {}
            }
        }
    }
}

#[test]
fn readers_and_writers_at_once() {
    let dir = Dir::new("inverted-threads");
    let e = open(&dir, 16 << 20);
    let (heap, index) = make(&e, Persistence::Logged);
    let stop = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (e, heap, index, stop, written) = (&e, &heap, &index, &stop, &written);
            scope.spawn(move || {
                let mut rng = Rng::new(77 + worker as u64);
                let mut rows = Rows::new();
                while !stop.load(Relaxed) {
                    if let Some(now) = transaction(e, heap, index, &rows, worker, &mut rng, &ThreadPark::new()).unwrap()
                    {
                        rows = now;
                    }
                    written.fetch_add(1, Relaxed);
                }
            });
        }
        let (e, index, stop_merging) = (&e, &index, &stop);
        scope.spawn(move || {
            while !stop_merging.load(Relaxed) {
                index.index_flush(&ThreadPark::new()).unwrap();
            }
        });
        /// Waits for all threads, also when a comparison in one of them fails.
        struct StopPoint<'a>(&'a AtomicBool);
        impl Drop for StopPoint<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let _stop = StopPoint(&stop);
        let mut rng = Rng::new(5);
        let mut compared = 0;
        while compared < 40 || written.load(Relaxed) < 2000 {
            let mut t = e.begin(Isolation::RepeatableRead, 2);
            let s = t.take_snapshot();
            compare(&heap, index, &s, &mut rng, &format!("comparison {compared}"));
            compared += 1;
        }
    });
    drop((heap, index));
    e.shutdown().unwrap();
    drop(e);
    let wrong = check(Arc::new(kilndb_base::env::OsEnv), dir.0.clone()).unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Terms of very many rows, of all lengths around what fits one block: built at once, found whole, and in order.
#[test]
fn an_index_that_is_built_is_in_order() {
    let dir = Dir::new("inverted-build");
    let e = open(&dir, 16 << 20);
    let p = ThreadPark::new();
    let (heap, index) = make(&e, Persistence::Logged);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let rids: Vec<RowId> = (0..3000u16).map(|_| heap.insert(&mut t, &row(&BTreeSet::from([0]), 1)).unwrap()).collect();
    // Term n has the first 900 + n rows.
    let rows_of = |n: usize| &rids[..900 + n];
    let name = |n: usize| format!("t{n:05}").into_bytes();
    let postings = (0..1500).flat_map(|n| rows_of(n).iter().map(move |rid| Ok((name(n), *rid))));
    index.index_build(&mut t, &mut IteratorEntries::new(postings), &p).unwrap();
    t.commit(CommitMode::Async, &p).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut scan = index.term_scan(&s).unwrap();
    scan.pending(&mut |_, _| Ok(())).unwrap();
    for n in 0..1500 {
        let mut found = Vec::new();
        scan.rows(&name(n), None, &mut |rows| {
            found.extend_from_slice(rows);
            Ok(())
        })
        .unwrap();
        assert!(found.into_iter().eq(rows_of(n).iter().map(|rid| rid.to_u64())), "term {n}");
    }
    drop((scan, s, t, heap, index));
    e.shutdown().unwrap();
    drop(e);
    let wrong = check(Arc::new(kilndb_base::env::OsEnv), dir.0.clone()).unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A merge between two batches of a scan puts postings into the very block that the scan goes on with: it is still
/// found, though what it consists of compares below what it was.
#[test]
fn a_scan_goes_on_with_a_block_that_has_changed() {
    let dir = Dir::new("inverted-between");
    let e = open(&dir, 16 << 20);
    let p = ThreadPark::new();
    let (heap, index) = make(&e, Persistence::Logged);
    let word = b"word".to_vec();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let rids: Vec<RowId> = (0..24_000).map(|_| heap.insert(&mut t, &row(&BTreeSet::from([0]), 1)).unwrap()).collect();
    let insert = |t: &mut Transaction, nth: usize| {
        for rid in rids.iter().skip(nth).step_by(4) {
            index.change_terms(t, *rid, TermChange::Inserted(std::slice::from_ref(&word))).unwrap();
        }
    };
    insert(&mut t, 3);
    t.commit(CommitMode::Async, &p).unwrap();
    index.index_flush(&p).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    // Each time some more blocks are read before the others change.
    for nth in 0..3 {
        let mut scan = index.term_scan(&s).unwrap();
        scan.pending(&mut |_, _| Ok(())).unwrap();
        let mut found = BTreeSet::new();
        let mut blocks = 0;
        let visit = &mut |rows: &[u64]| {
            found.extend(rows.iter().copied());
            if blocks == nth {
                let mut t = e.begin(Isolation::ReadCommitted, 1);
                insert(&mut t, nth);
                t.commit(CommitMode::Async, &p)?;
                index.index_flush(&p)?;
            }
            blocks += 1;
            Ok(())
        };
        scan.rows(&word, None, visit).unwrap();
        assert!(blocks > 8, "{blocks}");
        let missing = rids.iter().skip(3).step_by(4).filter(|rid| !found.contains(&rid.to_u64())).count();
        assert_eq!(missing, 0, "after block {nth}");
    }
}

/// A hot row, and rows whose places are used again and again, leave no more behind than a pass may.
#[test]
fn dead_postings_go() {
    let dir = Dir::new("inverted-dead");
    let e = open(&dir, 16 << 20);
    let p = ThreadPark::new();
    let (heap, index) = make(&e, Persistence::Logged);
    let mut rng = Rng::new(9);
    let mut rows = Rows::new();
    let mut pages = Vec::new();
    for round in 0..60 {
        for _ in 0..60 {
            if let Some(now) = transaction(&e, &heap, &index, &rows, 0, &mut rng, &p).unwrap() {
                rows = now;
            }
        }
        // All of them go, their places are given to others.
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        for rid in std::mem::take(&mut rows).into_keys() {
            assert_eq!(heap.delete(&mut t, RowId::from_u64(rid), &[], &W.with(&s, &p)).unwrap(), WriteOutcome::Done);
            index.change_terms(&mut t, RowId::from_u64(rid), TermChange::Deleted).unwrap();
        }
        drop(s);
        index.index_flush(&p).unwrap();
        t.commit(CommitMode::Async, &p).unwrap();
        while e.purge_backlog() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if round % 20 == 19 {
            pages.push(index.pages());
        }
    }
    // It is as large after all rounds as after a third of them, give or take what waits for the next pass.
    assert!(pages[2] < pages[0] * 2 + 8, "{pages:?}");
}

#[test]
fn nothing_is_missing_after_a_crash() {
    for seed in seeds(6) {
        let mut rng = Rng::new(seed + 1000);
        let mut env = Arc::new(SimEnv::default());
        let simulated = |env: &Arc<SimEnv>| EngineConfig {
            data_dir: PathBuf::from("/sim"),
            workers: 2,
            fsync: true,
            ..support::disk::simulated_process(env, 8 << 20)
        };
        let (heap_id, index_id): (RelationId, RelationId) = {
            let e = Engine::open(env.clone(), simulated(&env)).unwrap();
            let (heap, index) = make(&e, Persistence::Logged);
            (heap.id(), index.id())
        };
        let mut last = 0;
        for round in 0..8 {
            env = env.after_power_loss(&mut rng);
            if rng.one_in(3) {
                env.arm(20 + rng.below(300) as i64, DiskFault::PowerLoss);
            }
            let e = match Engine::open(env.clone(), simulated(&env)) {
                Ok(e) => e,
                Err(_) if env.dead() => continue,
                Err(err) => panic!("seed {seed} round {round}: {err}"),
            };
            let (heap, index) = (e.relation(heap_id).unwrap(), e.relation(index_id).unwrap());
            let park = while_alive(&env);
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut t = e.begin(Isolation::ReadCommitted, 0);
                let s = t.take_snapshot();
                compare(&heap, &index, &s, &mut Rng::new(seed), &format!("seed {seed} round {round}"));
                by_scan(&heap, &s)
            }));
            let mut rows = match read {
                Ok(rows) => rows,
                Err(_) if env.dead() => continue,
                Err(err) => std::panic::resume_unwind(err),
            };
            last = last.max(rows.len());
            if !env.dead() {
                env.arm(100 + rng.below(1500) as i64, DiskFault::PowerLoss);
            }
            for _ in 0..300 {
                match transaction(&e, &heap, &index, &rows, 0, &mut rng, &park) {
                    Ok(now) => rows = now.unwrap_or(rows),
                    Err(_) if env.dead() => break,
                    Err(err) => panic!("seed {seed} round {round}: {err}"),
                }
                if rng.one_in(30) && index.index_flush(&park).is_err() {
                    break;
                }
                if rng.one_in(60) {
                    let _ = e.checkpoint(&park);
                }
            }
            drop((heap, index));
        }
        assert!(last > 20, "seed {seed}: no rows survived");
        // And in the end everything is in order.
        env = env.after_power_loss(&mut rng);
        let e = Engine::open(env.clone(), simulated(&env)).unwrap();
        e.shutdown().unwrap();
        drop(e);
        let wrong = check(env.restart(), PathBuf::from("/sim")).unwrap();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}
