//! A record of several entries whose leaf has been split since is taken back, and purged, leaf by leaf.

use crate::api::{CommitMode, Isolation, Persistence, RelationKind, RowBatch, Uniqueness};
use crate::cluster::{Dir, config};
use crate::directory::Relation;
use crate::engine::Engine;
use crate::entry_changes::EntryChanges;
use crate::undo::record::UndoKind;
use crate::wal::reader::{LogRead, LogReader};
use crate::wal::record::Record;
use kilndb_base::RowId;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use std::ops::Bound;
use std::sync::Arc;

const ROWS: u32 = 60;

/// Keys of so many bytes fill leaves soon.
fn long_key(n: u32, tail: u8) -> Vec<u8> {
    [&n.to_be_bytes()[..], &[tail; 200]].concat()
}
/// The row id and the first bytes of the key of each entry, but for those with this tail.
fn entries_of(tree: &Arc<Relation>, but: u8) -> Vec<(RowId, u32, u8)> {
    let mut scan = tree.index_scan(Bound::Unbounded, Bound::Unbounded, false);
    let (mut keys, mut ends, mut rids) = (Vec::new(), Vec::new(), Vec::new());
    while scan.next_batch(&mut keys, &mut ends, &mut rids).unwrap() {}
    let mut start = 0;
    let mut found = Vec::new();
    for (end, rid) in ends.iter().zip(rids) {
        let key = &keys[start..*end as usize];
        start = *end as usize;
        if key[4] != but {
            found.push((rid, u32::from_be_bytes(key[..4].try_into().unwrap()), key[4]));
        }
    }
    found
}

#[test]
fn a_record_of_a_leaf_that_was_split_is_settled_leaf_by_leaf() {
    let dir = Dir::new("settle-many");
    let e = Engine::open(Arc::new(OsEnv), config(dir.0.clone(), 16 << 20)).unwrap();
    let park = ThreadPark::new();
    let begin = || e.begin(Isolation::ReadCommitted, 0);
    let mut t = begin();
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let tree = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    tree.set_heap(heap.id());
    let short_key = |n: u32| [&n.to_be_bytes()[..], &[1]].concat();
    let rids: Vec<RowId> = (0..ROWS)
        .map(|n| {
            let rid = heap.insert(&mut t, &n.to_be_bytes()).unwrap();
            tree.index_insert(&mut t, &heap, &short_key(n), rid, Uniqueness::NotUnique, &park).unwrap();
            rid
        })
        .collect();
    t.commit(CommitMode::Sync, &park).unwrap();
    let before = entries_of(&tree, 9);
    assert_eq!(before.len(), ROWS as usize);
    let core = heap.core.clone();

    // Every second row gets the key of half of its number, and others' entries split the leaf.
    let change = || {
        let mut t = begin();
        let snapshot = t.take_snapshot();
        let mut batch = RowBatch::default();
        let mut changes = EntryChanges::default();
        for n in (0..ROWS).step_by(2) {
            batch.push(rids[n as usize], &(n / 2).to_be_bytes());
            changes.retire(&short_key(n), rids[n as usize]);
            changes.insert(&[&(n / 2).to_be_bytes()[..], &[2]].concat(), rids[n as usize]);
        }
        let rekeyed = vec![true; batch.rows.len()];
        assert_eq!(heap.update_many(&mut t, &snapshot, &batch, &rekeyed, 0).unwrap(), batch.rows.len());
        changes.sort();
        while !changes.is_done() {
            tree.index_change_many(&mut t, &mut changes).unwrap();
        }
        t
    };
    let mut changed = change();
    let address = changed.heads[0];
    let record = core.undo.read(&core.pool, address).unwrap().unwrap();
    assert_eq!(record.kind, UndoKind::IndexChangeMany);
    assert_eq!(record.leaf_changes().unwrap().iter().count(), ROWS as usize, "one record");
    let pages = tree.pages();
    let mut other = begin();
    for n in (0..ROWS).chain(0..ROWS) {
        let rid = heap.insert(&mut other, &[]).unwrap();
        tree.index_insert(&mut other, &heap, &long_key(n, 9), rid, Uniqueness::NotUnique, &park).unwrap();
    }
    other.commit(CommitMode::Sync, &park).unwrap();
    assert!(tree.pages() > pages + 1, "the leaf was split");

    let from = e.insert_lsn();
    changed.rollback(&park).unwrap();
    assert_eq!(entries_of(&tree, 9), before);
    let end = e.insert_lsn();
    e.wait_flushed(end, &park).unwrap();
    // A recovery that finds only some of the steps goes on with the same record.
    let mut reader = LogReader::new(core.log.segments(), from.0, end.0);
    let mut nexts = Vec::new();
    while let LogRead::Record(found) = reader.read_next().unwrap() {
        match found.decode().unwrap() {
            Record::Compensate { next, ops, .. } if ops[0].0.rel == tree.id().0 => nexts.push(next),
            _ => {}
        }
    }
    let (last, others) = nexts.split_last().unwrap();
    assert!(others.len() >= 2 && others.iter().all(|next| *next == address), "{nexts:?}");
    assert_eq!(*last, record.prev);

    // Entries that are purged are gone, those that were inserted stay.
    let mut t = change();
    t.commit(CommitMode::Sync, &park).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while core.purge_round(false) > 0 || entries_of(&tree, 9).len() > before.len() {
        assert!(std::time::Instant::now() < deadline, "entries are purged");
        std::thread::yield_now();
    }
    let mut expected: Vec<_> = before.iter().filter(|(_, n, _)| n % 2 == 1).copied().collect();
    expected.extend((0..ROWS).step_by(2).map(|n| (rids[n as usize], n / 2, 2)));
    expected.sort_by_key(|(rid, n, tail)| (*n, *tail, *rid));
    assert_eq!(entries_of(&tree, 9), expected);
    drop((heap, tree, core));
    e.shutdown().unwrap();
}
