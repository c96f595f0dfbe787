//! Many index entries at once, against a map: what is in, what is refused, what a rollback and a restart leave.
mod support;
use kilndb_base::RowId;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use support::{Dir, Rng, config, scan, seeds};

const KEYS: u64 = 20_000;

fn key(k: u64, len: usize) -> Vec<u8> {
    let mut key = k.to_be_bytes().to_vec();
    key.resize(8 + len, b'.');
    key
}

/// Keys of some rows: ascending ones, or any; some of them twice.
fn keys(random: &mut Rng, next: &mut u64) -> Vec<u64> {
    let count = 1 + random.below(300);
    let ascends = random.one_in(2);
    (0..count)
        .map(|_| match random.below(400) {
            0 => random.below(*next + 1),
            _ if ascends => {
                *next += 1 + random.below(3);
                KEYS + *next
            }
            _ => random.below(KEYS),
        })
        .collect()
}

fn entries(index: &Arc<Relation>) -> Vec<(Vec<u8>, RowId)> {
    scan(index, Bound::Unbounded, Bound::Unbounded, false)
}

fn run(seed: u64) {
    let dir = Dir::new(&format!("index-many-{seed}"));
    let engine = Engine::open(Arc::new(OsEnv), config(dir.0.clone(), 32 << 20)).unwrap();
    let park = ThreadPark::new();
    let mut random = Rng::new(seed);
    let mut t = engine.begin(Isolation::ReadCommitted, 0);
    let heap = engine.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let [unique, other] =
        [(); 2].map(|()| engine.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap());
    unique.set_heap(heap.id());
    other.set_heap(heap.id());
    t.commit(CommitMode::Async, &park).unwrap();
    let len = random.below(60) as usize;
    let mut model: BTreeMap<u64, RowId> = BTreeMap::new();
    let (mut next, mut refused, mut rolled_back) = (0, 0, 0);
    for _ in 0..80 {
        let wanted = keys(&mut random, &mut next);
        let mut t = engine.begin(Isolation::ReadCommitted, 0);
        let mut batch = RowBatch::default();
        for k in &wanted {
            let rid = heap.insert(&mut t, &k.to_le_bytes()).unwrap();
            batch.push(rid, &key(*k, len));
        }
        let mut seen = BTreeSet::new();
        let expected = wanted.iter().position(|k| model.contains_key(k) || !seen.insert(*k));
        let found = unique.index_insert_many(&mut t, &heap, &batch, Uniqueness::Unique, &park).unwrap();
        assert_eq!(found.map(|(n, _)| n), expected);
        if let Some((n, conflict)) = found {
            let earlier = || wanted[..n].iter().position(|k| *k == wanted[n]).map(|at| batch.rows[at].0);
            let with = model.get(&wanted[n]).copied().or_else(earlier).unwrap();
            assert_eq!(conflict, IndexInsert::Conflict(with));
            refused += 1;
        }
        // The keys of the other index need not differ.
        assert_eq!(other.index_insert_many(&mut t, &heap, &batch, Uniqueness::NotUnique, &park).unwrap(), None);
        if found.is_some() || random.one_in(8) {
            t.rollback(&park).unwrap();
            rolled_back += 1;
            continue;
        }
        t.commit(CommitMode::Async, &park).unwrap();
        model.extend(wanted.iter().copied().zip(batch.rows.iter().map(|(rid, ..)| *rid)));
    }
    assert!(refused > 3 && rolled_back > refused && model.len() > 2000, "{refused} {rolled_back} {}", model.len());
    let expected: Vec<_> = model.iter().map(|(k, rid)| (key(*k, len), *rid)).collect();
    assert_eq!(entries(&unique), expected);
    assert_eq!(entries(&other), expected);
    let ids = [unique.id(), other.id()];
    drop((heap, unique, other));
    engine.shutdown().unwrap();
    drop(engine);
    assert_eq!(check(Arc::new(OsEnv), dir.0.clone()).unwrap(), Vec::<String>::new());
    let engine = Engine::open(Arc::new(OsEnv), config(dir.0.clone(), 32 << 20)).unwrap();
    for id in ids {
        assert_eq!(entries(&engine.relation(id).unwrap()), expected);
    }
}

#[test]
fn many_entries_are_as_one_after_the_other() {
    seeds(6).for_each(run);
}
