//! One tree for several heaps: random changes against a model, what dropped heaps leave behind, who waits for whom.
mod support;

use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_base::{RelationId, RowId};
use kilndb_storage::*;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use support::{Dir, Rng};

const W: WriteOptions = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: true };

fn new_heap(e: &Engine, t: &mut Transaction) -> Arc<Relation> {
    e.create_relation(t, RelationKind::Heap, Persistence::Logged).unwrap()
}
fn tree_and_heaps(e: &Arc<Engine>, count: usize) -> (Arc<Relation>, Vec<Arc<Relation>>) {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let tree = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    tree.set_entries_name_heap();
    let heaps = (0..count).map(|_| new_heap(e, &mut t)).collect();
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    (tree, heaps)
}
/// The keys are chosen so that none is a prefix of another.
fn key(n: u64, len: usize) -> Vec<u8> {
    let mut key = vec![b'k'; len];
    key.extend_from_slice(&n.to_be_bytes());
    key
}
fn entry(key: &[u8], heap: &Relation) -> Vec<u8> {
    [key, &Relation::heap_name(heap.id())].concat()
}
fn entries(tree: &Arc<Relation>) -> usize {
    let mut scan = tree.index_scan(Bound::Unbounded, Bound::Unbounded, false);
    let (mut keys, mut ends, mut rids) = (vec![], vec![], vec![]);
    while scan.next_batch(&mut keys, &mut ends, &mut rids).unwrap() {}
    rids.len()
}
fn close(e: Arc<Engine>, dir: &Dir, what: &str) {
    e.shutdown().unwrap();
    drop(e);
    let wrong = check(Arc::new(OsEnv), dir.0.clone()).unwrap();
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
}

/// By key: which heap, which row.
type Model = BTreeMap<u64, (usize, RowId)>;

/// A snapshot that is held keeps dead entries, so that those of one key fill several leaves.
fn run(seed: u64) {
    let what = format!("seed {seed}");
    let dir = Dir::new(&format!("several-heaps-{seed}"));
    let mut rng = Rng::new(seed);
    let e = support::open(&dir, 4 << 20);
    let p = ThreadPark::new();
    let (tree, mut heaps) = tree_and_heaps(&e, 4);
    let len = [1, 40, 900][(seed % 3) as usize];
    let ids = [5, 40][(seed % 2) as usize];
    let mut model = Model::new();
    let mut held = None;
    for round in 0..150 {
        if rng.one_in(10) {
            let mut reader = e.begin(Isolation::RepeatableRead, 0);
            reader.take_snapshot();
            held = Some(reader);
        } else if rng.one_in(10) {
            held = None;
        }
        let mut t = e.begin(Isolation::ReadCommitted, rng.below(4) as usize);
        let mut m = model.clone();
        let mut replaced: Vec<(usize, Arc<Relation>)> = Vec::new();
        for _ in 0..1 + rng.below(20) {
            t.next_command();
            let snapshot = t.take_snapshot();
            let (id, at) = (rng.below(ids), rng.below(heaps.len() as u64) as usize);
            let heap_at =
                |at: usize| replaced.iter().rev().find(|(n, _)| *n == at).map_or(&heaps[at], |(_, new)| new).clone();
            let k = key(id, len);
            let known = m.get(&id).copied();
            assert_eq!(
                tree.index_find_live_anywhere(&mut t, &heap_at(at), &entry(&k, &heap_at(at)), &p).unwrap(),
                known.map(|(at, rid)| (heap_at(at).id(), rid)),
                "{what}"
            );
            match (known, rng.below(8)) {
                (known, 0..4) => {
                    let (heap, sp) = (heap_at(at), t.savepoint());
                    let rid = heap.insert(&mut t, &k).unwrap();
                    let uniqueness = if rng.one_in(3) { Uniqueness::UniqueFromNow } else { Uniqueness::Unique };
                    let done = tree.index_insert(&mut t, &heap, &entry(&k, &heap), rid, uniqueness, &p).unwrap();
                    let expected = match known {
                        None => IndexInsert::Inserted,
                        Some((other, rid)) if other == at => IndexInsert::Conflict(rid),
                        Some((other, rid)) => IndexInsert::Elsewhere(heap_at(other).id(), rid),
                    };
                    assert_eq!(done, expected, "{what} round {round} id {id}");
                    match known {
                        None => _ = m.insert(id, (at, rid)),
                        Some(_) => t.rollback_to(&sp, &p).unwrap(),
                    }
                }
                (Some((at, rid)), 4..7) => {
                    let heap = heap_at(at);
                    let k = entry(&k, &heap);
                    assert_eq!(
                        heap.delete(&mut t, rid, &[(&*tree, &k)], &W.with(&snapshot, &p)).unwrap(),
                        WriteOutcome::Done,
                        "{what}"
                    );
                    m.remove(&id);
                }
                (_, 7) if rng.one_in(8) => {
                    // As TRUNCATE does.
                    e.drop_relation(&mut t, heap_at(at).id()).unwrap();
                    e.sweep_index(&mut t, tree.id());
                    replaced.push((at, new_heap(&e, &mut t)));
                    m.retain(|_, (n, _)| *n != at);
                }
                (Some((at, rid)), 7) => {
                    // As DETACH and ATTACH do.
                    let heap = heap_at(at);
                    tree.index_retire(&mut t, &entry(&k, &heap), rid).unwrap();
                    assert_eq!(
                        tree.index_find_live_anywhere(&mut t, &heap, &entry(&k, &heap), &p).unwrap(),
                        None,
                        "{what}"
                    );
                    let done = tree
                        .index_insert(&mut t, &heap, &entry(&k, &heap), rid, Uniqueness::UniqueFromNow, &p)
                        .unwrap();
                    assert_eq!(done, IndexInsert::Inserted, "{what}");
                }
                _ => {}
            }
        }
        if rng.one_in(4) {
            t.rollback(&p).unwrap();
            continue;
        }
        t.commit(CommitMode::Async, &p).unwrap();
        model = m;
        for (at, new) in replaced {
            heaps[at] = new;
        }
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let snapshot = t.take_snapshot();
        for id in 0..ids {
            let found: Vec<RelationId> = tree.heaps_with(&snapshot, &key(id, len)).unwrap();
            assert!(
                model.get(&id).is_none_or(|(at, _)| found.contains(&heaps[*at].id())),
                "{what} round {round} id {id}"
            );
        }
        t.rollback(&p).unwrap();
    }
    drop(held);
    // What dropped heaps have left goes too.
    let patience = 400;
    for n in 0.. {
        if entries(&tree) == model.len() {
            break;
        }
        assert!(n < patience, "{what}: {} entries of {} rows", entries(&tree), model.len());
        std::thread::sleep(Duration::from_millis(25));
    }
    close(e, &dir, &what);
}

#[test]
fn changes_of_several_heaps_do_what_the_model_does() {
    for seed in support::seeds(6) {
        run(seed);
    }
}

#[test]
fn what_a_dropped_heap_leaves_is_dead_after_a_restart() {
    let dir = Dir::new("several-heaps-restart");
    let p = ThreadPark::new();
    let e = support::open(&dir, 4 << 20);
    let (tree, heaps) = tree_and_heaps(&e, 2);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    for n in 0..2000 {
        let heap = &heaps[n as usize % 2];
        let rid = heap.insert(&mut t, &key(n, 8)).unwrap();
        tree.index_insert(&mut t, heap, &entry(&key(n, 8), heap), rid, Uniqueness::Unique, &p).unwrap();
    }
    t.commit(CommitMode::Async, &p).unwrap();
    // Without a sweep.
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    e.drop_relation(&mut t, heaps[0].id()).unwrap();
    t.commit(CommitMode::Async, &p).unwrap();
    let (tree, heap) = (tree.id(), heaps[1].id());
    drop(heaps);
    close(e, &dir, "with entries of a heap that is gone");
    let e = support::open(&dir, 4 << 20);
    let (tree, heap) = (e.relation(tree).unwrap(), e.relation(heap).unwrap());
    assert!(tree.entries_name_heap());
    assert_eq!(entries(&tree), 2000);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    for n in 0..2000 {
        let rid = heap.insert(&mut t, &key(n, 8)).unwrap();
        let done = tree.index_insert(&mut t, &heap, &entry(&key(n, 8), &heap), rid, Uniqueness::Unique, &p).unwrap();
        assert_eq!(done == IndexInsert::Inserted, n % 2 == 0, "{n}");
    }
    t.rollback(&p).unwrap();
    close(e, &dir, "after a restart");
}
