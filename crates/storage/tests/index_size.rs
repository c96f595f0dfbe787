//! An index is soon about as small as one that was just built, whatever has been taken out of it: leaves merge, nodes
//! move to the beginning, and blocks at the end are given up. Meanwhile scans and searches miss nothing, and a crash
//! at any moment leaves a tree in order.
mod support;

use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_base::{RelationId, Result, RowId};
use kilndb_storage::*;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};
use support::disk::{DiskFault, SimEnv, simulated_process};
use support::{Dir, Rng, scan};

const KEY_UPDATE: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: true };

struct Table {
    heap: Arc<Relation>,
    index: Arc<Relation>,
}
/// The keys of all rows, which are all that the rows have.
type Keys = BTreeMap<RowId, Vec<u8>>;

/// A table of these rows, with an index that is built from them.
fn build(e: &Arc<Engine>, keys: impl Iterator<Item = Vec<u8>>) -> (Table, Keys) {
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    index.set_heap_of_all_rows(heap.id());
    let rows: Keys = keys.map(|key| (heap.insert(&mut t, &key).unwrap(), key)).collect();
    let mut entries: Vec<_> = rows.iter().map(|(rid, key)| (key.clone(), *rid)).collect();
    entries.sort();
    index.index_build(&mut t, &mut IteratorEntries::new(entries.into_iter().map(Ok)), &p).unwrap();
    t.commit(CommitMode::Sync, &p).unwrap();
    (Table { heap, index }, rows)
}
/// An UPDATE of all rows that gives them other keys.
fn update_all(e: &Arc<Engine>, table: &Table, rows: &Keys, mut next: impl FnMut(&[u8]) -> Vec<u8>) -> Result<Keys> {
    let p = ThreadPark::new();
    let Table { heap, index } = table;
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut changed = Keys::new();
    for (rid, old) in rows {
        let new = next(old);
        let done = heap.update(&mut t, *rid, &new, &[(index, old)], &KEY_UPDATE.with(&s, &p))?;
        assert_eq!(done, WriteOutcome::Done);
        index.index_insert(&mut t, heap, &new, *rid, Uniqueness::NotUnique, &p)?;
        changed.insert(*rid, new);
    }
    t.commit(CommitMode::Async, &p)?;
    Ok(changed)
}
fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[..8].try_into().unwrap())
}
fn key_of(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}
fn sorted(rows: &Keys) -> Vec<(Vec<u8>, RowId)> {
    let mut entries: Vec<_> = rows.iter().map(|(rid, key)| (key.clone(), *rid)).collect();
    entries.sort();
    entries
}
fn all_entries(index: &Arc<Relation>) -> Vec<(Vec<u8>, RowId)> {
    scan(index, Bound::Unbounded, Bound::Unbounded, false)
}
/// Waits until the index has at most so many blocks.
fn wait_for_size(index: &Relation, most: u32, what: &str) {
    let start = Instant::now();
    while index.pages() > most {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: {} blocks, not {most}", index.pages());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ten UPDATEs of a whole table leave its index at 1.25 times its first size at most, however they change the keys.
#[test]
fn an_index_on_a_changed_column_stays_small() {
    const ROWS: u64 = 20_000;
    let dir = Dir::new("index-size");
    let e = support::open(&dir, 64 << 20);
    let mut rng = Rng::new(7);
    let mut random = move || rng.next();
    let text = |n: u64| format!("customer-{:08}", n % 100_000_000).into_bytes();
    let mut text_rng = Rng::new(8);
    let next_to = |key: &[u8]| key_of(number(key) + 1);
    let further_right = |key: &[u8]| key_of(number(key) + ROWS);
    let mut anywhere = |_: &[u8]| key_of(random());
    let mut other_text = |_: &[u8]| text(text_rng.next());
    type Change<'a> = &'a mut dyn FnMut(&[u8]) -> Vec<u8>;
    let cases: [(&str, bool, Change<'_>); 4] = [
        ("by one", false, &mut { next_to }),
        ("to the right", false, &mut { further_right }),
        ("anywhere", false, &mut anywhere),
        ("texts", true, &mut other_text),
    ];
    let mut tables = Vec::new();
    for (what, is_text, change) in cases {
        let first = (0..ROWS).map(|n| if is_text { text(n * 7919) } else { key_of(n) });
        let (table, mut rows) = build(&e, first);
        let built = table.index.pages();
        let mut largest = built;
        for _ in 0..10 {
            rows = update_all(&e, &table, &rows, &mut *change).unwrap();
            largest = largest.max(table.index.pages());
        }
        assert!(largest > 2 * built, "{what}: it needs no pass, {largest} of {built} blocks");
        wait_for_size(&table.index, built * 5 / 4, what);
        assert_eq!(all_entries(&table.index), sorted(&rows), "{what}");
        // It grows again, into what was given up.
        rows = update_all(&e, &table, &rows, &mut *change).unwrap();
        wait_for_size(&table.index, built * 5 / 4, what);
        tables.push((table.index.id(), rows));
    }
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(check(Arc::new(OsEnv), dir.0.clone()).unwrap(), Vec::<String>::new());
    let e = support::open(&dir, 64 << 20);
    for (id, rows) in tables {
        assert_eq!(all_entries(&e.relation(id).unwrap()), sorted(&rows));
    }
    e.shutdown().unwrap();
}

/// Scans in both directions and searches find all keys that stay, while others come and go around them and the index is
/// made smaller all the time.
#[test]
fn readers_miss_nothing_while_nodes_merge_and_move() {
    const STAYING: u64 = 3_000;
    let dir = Dir::new("index-size-readers");
    let e = support::open(&dir, 8 << 20);
    let (table, _) = build(&e, (0..STAYING).map(|n| key_of(n << 32)));
    let (table, stop) = (&table, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        for worker in 0..2u64 {
            let e = &e;
            scope.spawn(move || {
                let mut rng = Rng::new(worker + 1);
                while !stop.load(Relaxed) {
                    come_and_go(e, table, worker, &mut rng);
                }
            });
        }
        for backward in [false, true] {
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    let mut found: Vec<u64> = scan(&table.index, Bound::Unbounded, Bound::Unbounded, backward)
                        .iter()
                        .map(|(key, _)| number(key))
                        .filter(|n| n.trailing_zeros() >= 32)
                        .collect();
                    if backward {
                        found.reverse();
                    }
                    assert!(found.into_iter().eq((0..STAYING).map(|n| n << 32)), "backward: {backward}");
                }
            });
        }
        let p = ThreadPark::new();
        let mut rng = Rng::new(9);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(4) {
            table.index.shrink_soon();
            let mut t = e.begin(Isolation::ReadCommitted, 2);
            for _ in 0..50 {
                let key = key_of(rng.below(STAYING) << 32);
                assert!(table.index.index_find_live(&mut t, &table.heap, &key, &p).unwrap().is_some());
            }
            t.rollback(&p).unwrap();
        }
        stop.store(true, Relaxed);
    });
    let shrunk = (STAYING * 22).div_ceil(8192) as u32 * 2 + 4;
    table.index.shrink_soon();
    wait_for_size(&table.index, shrunk, "at last");
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(check(Arc::new(OsEnv), dir.0.clone()).unwrap(), Vec::<String>::new());
}
/// A few hundred rows come, in a stretch of keys or anywhere, and go again.
fn come_and_go(e: &Arc<Engine>, table: &Table, worker: u64, rng: &mut Rng) {
    let p = ThreadPark::new();
    let Table { heap, index } = table;
    let (first, is_anywhere) = (rng.next() >> 20, rng.one_in(2));
    let mut rows = Vec::new();
    let mut t = e.begin(Isolation::ReadCommitted, worker as usize);
    for n in 0..100 + rng.below(900) {
        let key = key_of(if is_anywhere { rng.next() >> 20 } else { first + n } << 2 | worker << 1 | 1);
        let rid = heap.insert(&mut t, &key).unwrap();
        index.index_insert(&mut t, heap, &key, rid, Uniqueness::Unique, &p).unwrap();
        rows.push((rid, key));
    }
    if rng.one_in(4) {
        return t.rollback(&p).unwrap();
    }
    t.commit(CommitMode::Async, &p).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, worker as usize);
    let s = t.take_snapshot();
    for (rid, key) in rows {
        let done =
            heap.delete(&mut t, rid, &[(index, &key)], &WriteOptions { key_update: false, ..KEY_UPDATE }.with(&s, &p));
        assert_eq!(done.unwrap(), WriteOutcome::Done);
    }
    t.commit(CommitMode::Async, &p).unwrap();
}

/// Keys of many lengths, so that separators may not fit where others were.
fn long_key(rng: &mut Rng) -> Vec<u8> {
    let most = [8, 60, 300, 1900][rng.below(4) as usize];
    let mut key = vec![b'a' + rng.below(3) as u8; rng.below(most) as usize];
    key.extend_from_slice(&key_of(rng.next()));
    key
}
/// The power fails at any operation of the disk, while an index grows, is made smaller, and others take the pages that
/// it has given up. Afterwards it leads to the rows of a commit that may have survived.
fn crash(seed: u64) {
    let p = ThreadPark::new();
    let mut rng = Rng::new(seed);
    let mut env = Arc::new(SimEnv::default());
    let config = |env: &Arc<SimEnv>| EngineConfig { workers: 1, ..simulated_process(env, 1 << 20) };
    let e = Engine::open(env.clone(), config(&env)).unwrap();
    let (table, rows) = build(&e, (0..400).map(key_of));
    let ids: (RelationId, RelationId) = (table.heap.id(), table.index.id());
    e.checkpoint(&p).unwrap();
    drop((table, e));
    let mut possible = vec![rows];
    for round in 0..6 {
        env = env.after_power_loss(&mut rng);
        let e = Engine::open(env.clone(), config(&env)).unwrap();
        let table = Table { heap: e.relation(ids.0).unwrap(), index: e.relation(ids.1).unwrap() };
        let found = all_entries(&table.index);
        let now = possible.iter().rev().find(|rows| sorted(rows) == found);
        let mut rows = now.unwrap_or_else(|| panic!("seed {seed} round {round}: entries of no commit")).clone();
        possible = vec![rows.clone()];
        env.arm(1 + rng.below(400) as i64, DiskFault::PowerLoss);
        for _ in 0..8 {
            let Ok(changed) = update_all(&e, &table, &rows, |_| long_key(&mut rng)) else { break };
            rows = changed;
            possible.push(rows.clone());
            table.index.shrink_soon();
            let start = Instant::now();
            let pause = Duration::from_millis(rng.below(40));
            while start.elapsed() < pause && !env.dead() {
                std::thread::sleep(Duration::from_millis(1));
            }
            if rng.one_in(3) {
                let _ = e.checkpoint(&p);
            }
            if other_relation(&e, &mut rng).is_err() || env.dead() {
                break;
            }
        }
    }
    let env = env.after_power_loss(&mut rng);
    let e = Engine::open(env.clone(), config(&env)).unwrap();
    let found = all_entries(&e.relation(ids.1).unwrap());
    assert!(possible.iter().any(|rows| sorted(rows) == found), "seed {seed}: at last");
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(check(env, PathBuf::from("/sim")).unwrap(), Vec::<String>::new(), "seed {seed}");
}
/// Takes pages, of which an index may have given up some, and may give them back.
fn other_relation(e: &Arc<Engine>, rng: &mut Rng) -> Result<()> {
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let persistence = if rng.one_in(2) { Persistence::Logged } else { Persistence::Unlogged };
    let heap = e.create_relation(&mut t, RelationKind::Heap, persistence)?;
    for _ in 0..rng.below(60) {
        heap.insert(&mut t, &[9; 5000])?;
    }
    match rng.one_in(2) {
        true => t.rollback(&p),
        false => t.commit(CommitMode::Async, &p).map(drop),
    }
}
#[test]
fn a_crash_amid_a_pass_leaves_the_tree_in_order() {
    support::each_seed(12, crash);
}
