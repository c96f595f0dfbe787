//! Hash indexes against a model, and across power failures: some keys have the same code, and rows change their keys.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_base::{RelationId, Result, RowId};
use kilndb_storage::*;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use support::disk::{DiskFault, SimEnv};
use support::{Dir, Rng};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };

/// Rows by their ids: the key, and a byte that is no part of it.
type Model = BTreeMap<RowId, (Vec<u8>, u8)>;

/// Keys: pairs with the same code, an empty one, long ones (longer than a tree takes), and some more.
fn keys() -> &'static [Vec<u8>] {
    static KEYS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let mut by_code: HashMap<Vec<u8>, u64> = HashMap::new();
        let mut keys = Vec::new();
        for n in 0..600_000u64 {
            let key = n.to_le_bytes();
            let code = RelationKind::Hash.kept_key(&key).into_owned();
            if let Some(other) = by_code.insert(code, n) {
                keys.push(other.to_le_bytes().to_vec());
                keys.push(key.to_vec());
            }
        }
        assert!(keys.len() >= 20, "{} keys share their codes", keys.len());
        keys.truncate(40);
        keys.push(Vec::new());
        keys.push(vec![7; 3000]);
        keys.push(vec![7; 3001]);
        keys.extend((0..20u32).map(|n| n.to_be_bytes().to_vec()));
        keys
    })
}
fn random_key(rng: &mut Rng) -> Vec<u8> {
    keys()[rng.below(keys().len() as u64) as usize].clone()
}
fn row_of((key, value): &(Vec<u8>, u8)) -> Vec<u8> {
    [key.as_slice(), &[*value]].concat()
}
fn two_relations(e: &Arc<Engine>) -> (RelationId, RelationId) {
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let index = e.create_relation(&mut t, RelationKind::Hash, Persistence::Logged).unwrap();
    index.set_heap_of_all_rows(heap.id());
    let lsn = t.commit(CommitMode::Sync, &p).unwrap().unwrap();
    e.wait_flushed(lsn, &p).unwrap();
    (heap.id(), index.id())
}
/// What the index finds for the key, as the snapshot sees it: rows with another key of the same code are left out, as
/// whoever scans does.
fn found(heap: &Relation, index: &Arc<Relation>, s: &Snapshot, key: &[u8]) -> Result<Vec<(RowId, u8)>> {
    let bound = || Bound::Included(key.to_vec());
    let mut scan = index.index_scan_for(s, bound(), bound(), false, false)?;
    let (mut kept, mut ends, mut rids) = (vec![], vec![], vec![]);
    while scan.next_batch(&mut kept, &mut ends, &mut rids)? {}
    let mut out = Vec::new();
    let mut rows = Vec::new();
    for rid in rids {
        if heap.fetch(rid, s, &mut out)? != Fetched::Invisible
            && let Some((value, row_key)) = out.split_last()
            && row_key == key
        {
            rows.push((rid, *value));
        }
    }
    rows.sort();
    Ok(rows)
}
fn expected(model: &Model, key: &[u8]) -> Vec<(RowId, u8)> {
    model.iter().filter(|(_, (k, _))| k == key).map(|(rid, (_, value))| (*rid, *value)).collect()
}
/// One change, in the transaction and in the model.
fn change(
    (heap, index): (&Arc<Relation>, &Arc<Relation>),
    t: &mut Transaction,
    m: &mut Model,
    rng: &mut Rng,
) -> Result<()> {
    let p = ThreadPark::new();
    t.next_command();
    let s = t.take_snapshot();
    let (key, value) = (random_key(rng), rng.next() as u8);
    let at = rng.below(m.len().max(1) as u64) as usize;
    let Some((rid, old)) = m.iter().nth(at).map(|(rid, row)| (*rid, row.clone())).filter(|_| !rng.one_in(3)) else {
        let rid = heap.insert(t, &row_of(&(key.clone(), value)))?;
        index.index_insert(t, heap, &key, rid, Uniqueness::NotUnique, &p)?;
        m.insert(rid, (key, value));
        return Ok(());
    };
    match rng.below(4) {
        0 => {
            assert_eq!(heap.delete(t, rid, &[(index, &old.0)], &W.with(&s, &p))?, WriteOutcome::Done);
            m.remove(&rid);
        }
        1 => {
            let new = (old.0, value);
            assert_eq!(heap.update(t, rid, &row_of(&new), &[], &W.with(&s, &p))?, WriteOutcome::Done);
            m.insert(rid, new);
        }
        2 if rng.one_in(3) => {
            let gone: Vec<(RowId, Vec<u8>)> = m.iter().take(10).map(|(rid, (key, _))| (*rid, key.clone())).collect();
            // Those that are next to each other in a block, as statements do it.
            let rids: Vec<RowId> = gone.iter().map(|(rid, _)| *rid).filter(|r| r.block == gone[0].0.block).collect();
            let done = heap.delete_many(t, &s, &rids)?;
            index.retire_many(t, heap, gone.iter().take(done).map(|(rid, key)| (*rid, key.as_slice())))?;
            rids.iter().take(done).for_each(|rid| {
                m.remove(rid);
            });
        }
        _ if key != old.0 => {
            let o = WriteOptions { key_update: true, ..W };
            let new = (key, value);
            let retired: [RetiredKey<'_>; 1] = [(index, &old.0)];
            assert_eq!(heap.update(t, rid, &row_of(&new), &retired, &o.with(&s, &p))?, WriteOutcome::Done);
            index.index_insert(t, heap, &new.0, rid, Uniqueness::NotUnique, &p)?;
            m.insert(rid, new);
        }
        _ => {}
    }
    Ok(())
}
/// A transaction with savepoints; None: it was rolled back.
fn transaction(
    e: &Arc<Engine>,
    relations: (&Arc<Relation>, &Arc<Relation>),
    model: &Model,
    rng: &mut Rng,
) -> Result<Option<(Model, Option<kilndb_base::Lsn>)>> {
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, rng.below(2) as usize);
    let mut m = model.clone();
    for _ in 0..1 + rng.below(20) {
        let kept = rng.one_in(6).then(|| (t.savepoint(), m.clone()));
        for _ in 0..1 + rng.below(3) {
            change(relations, &mut t, &mut m, rng)?;
        }
        if let Some((savepoint, before)) = kept.filter(|_| rng.one_in(2)) {
            t.rollback_to(&savepoint, &p)?;
            m = before;
        }
    }
    if rng.one_in(5) {
        t.rollback(&p)?;
        return Ok(None);
    }
    let lsn = t.commit(if rng.one_in(2) { CommitMode::Sync } else { CommitMode::Async }, &p)?;
    Ok(Some((m, lsn)))
}

fn against_a_model(seed: u64) {
    let dir = Dir::new(&format!("hash-{seed}"));
    let mut rng = Rng::new(seed);
    let mut e = support::open(&dir, 8 << 20);
    let (heap_id, index_id) = two_relations(&e);
    let mut model = Model::new();
    for round in 0..6 {
        let (heap, index) = (e.relation(heap_id).unwrap(), e.relation(index_id).unwrap());
        let mut held: Option<(Transaction, Snapshot, Model)> = None;
        for step in 0..60 {
            if rng.one_in(15) {
                let mut t = e.begin(Isolation::RepeatableRead, 0);
                let s = t.take_snapshot();
                held = Some((t, s, model.clone()));
            } else if rng.one_in(15) {
                held = None;
            }
            if let Some((m, _)) = transaction(&e, (&heap, &index), &model, &mut rng).unwrap() {
                model = m;
            }
            let mut t = e.begin(Isolation::ReadCommitted, 0);
            let s = t.take_snapshot();
            for key in keys() {
                let what = format!("seed {seed} round {round} step {step}: a key of {} bytes", key.len());
                assert_eq!(found(&heap, &index, &s, key).unwrap(), expected(&model, key), "{what}");
                if let Some((_, s, m)) = &held {
                    assert_eq!(found(&heap, &index, s, key).unwrap(), expected(m, key), "{what}, an old snapshot");
                }
            }
        }
        drop(held);
        drop((heap, index));
        e.shutdown().unwrap();
        drop(e);
        let wrong = check(Arc::new(kilndb_base::env::OsEnv), dir.0.clone()).unwrap();
        assert!(wrong.is_empty(), "seed {seed} round {round}: {wrong:#?}");
        e = support::open(&dir, 8 << 20);
    }
    e.shutdown().unwrap();
}

fn config(buffers: u64) -> EngineConfig {
    EngineConfig { workers: 2, fsync: true, ..support::config(PathBuf::from("/sim"), buffers) }
}
/// All rows, found by a scan and by each key.
fn read_all(e: &Arc<Engine>, heap: &Arc<Relation>, index: &Arc<Relation>) -> Result<Model> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let s = t.take_snapshot();
    let mut model = Model::new();
    let mut batch = RowBatch::default();
    for block in 0..heap.pages() {
        heap.scan_block(block, &s, &mut batch)?;
        for (at, (rid, ..)) in batch.rows.iter().enumerate() {
            let (value, key) = batch.row(at).split_last().expect("a row has a value");
            model.insert(*rid, (key.to_vec(), *value));
        }
    }
    for key in keys() {
        assert_eq!(found(heap, index, &s, key)?, expected(&model, key), "a key of {} bytes", key.len());
    }
    Ok(model)
}
fn across_power_failures(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut env = Arc::new(SimEnv::default());
    let e = Engine::open(env.clone(), config(4 << 20)).unwrap();
    let (heap_id, index_id) = two_relations(&e);
    drop(e);
    let mut possible = vec![Model::new()];
    for round in 0..10 {
        env = env.after_power_loss(&mut rng);
        let e = Engine::open(env.clone(), config(4 << 20)).unwrap();
        let (heap, index) = (e.relation(heap_id).unwrap(), e.relation(index_id).unwrap());
        let mut model = read_all(&e, &heap, &index).unwrap();
        assert!(possible.contains(&model), "seed {seed} round {round}: rows of no commit that may have survived");
        possible = vec![model.clone()];
        env.arm(20 + rng.below(400) as i64, DiskFault::PowerLoss);
        for step in 0..200 {
            match transaction(&e, (&heap, &index), &model, &mut rng) {
                _ if env.dead() => break,
                Ok(None) => {}
                Ok(Some((m, lsn))) => {
                    model = m;
                    possible.push(model.clone());
                    let waited = lsn.is_some_and(|lsn| e.wait_flushed(lsn, &ThreadPark::new()).is_ok());
                    if waited && !env.dead() {
                        possible = vec![model.clone()];
                    }
                }
                Err(e) => panic!("seed {seed} round {round} step {step}: {e}"),
            }
            if rng.one_in(40) {
                let _ = e.checkpoint(&ThreadPark::new());
            }
        }
    }
    let env = env.after_power_loss(&mut rng);
    let e = Engine::open(env.clone(), config(4 << 20)).unwrap();
    let (heap, index) = (e.relation(heap_id).unwrap(), e.relation(index_id).unwrap());
    assert!(possible.contains(&read_all(&e, &heap, &index).unwrap()), "seed {seed}: at last");
    drop((heap, index));
    e.shutdown().unwrap();
    drop(e);
    let wrong = check(env, PathBuf::from("/sim")).unwrap();
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
}

#[test]
fn hash_indexes_find_what_a_model_has() {
    support::each_seed(3, against_a_model);
}

#[test]
fn hash_indexes_survive_power_failures() {
    support::each_seed(4, across_power_failures);
}

/// What an earlier build has made is a tree with the keys themselves; a copy of it is what this build makes.
#[test]
fn a_copy_of_a_tree_has_codes() {
    let dir = Dir::new("hash-copy");
    let e = support::open(&dir, 8 << 20);
    let p = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let tree = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    let hash = e.create_relation(&mut t, RelationKind::Hash, Persistence::Logged).unwrap();
    let mut model = Model::new();
    for key in keys().iter().filter(|key| key.len() < 100) {
        let rid = heap.insert(&mut t, &row_of(&(key.clone(), 1))).unwrap();
        tree.index_insert(&mut t, &heap, key, rid, Uniqueness::NotUnique, &p).unwrap();
        model.insert(rid, (key.clone(), 1));
    }
    t.next_command();
    let s = t.take_snapshot();
    hash.index_copy(&mut t, (&tree, &s), &Some, &p).unwrap();
    hash.set_heap_of_all_rows(heap.id());
    for key in keys() {
        assert_eq!(found(&heap, &hash, &s, key).unwrap(), expected(&model, key));
    }
    t.commit(CommitMode::Async, &p).unwrap();
    drop((heap, tree, hash));
    e.shutdown().unwrap();
    drop(e);
    assert!(check(Arc::new(kilndb_base::env::OsEnv), dir.0.clone()).unwrap().is_empty());
}
