//! What a check finds in indexes that disagree with their rows, and what it says that it did not look at.
mod support;

use kilndb_base::RowId;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::path::PathBuf;
use std::sync::Arc;
use support::disk::{SimEnv, simulated_process};

const PAGE: usize = 8192;
const ROWS: u32 = 300;

struct Cluster {
    env: Arc<SimEnv>,
    engine: Arc<Engine>,
}
impl Cluster {
    fn new() -> Cluster {
        let env = Arc::new(SimEnv::default());
        let config = EngineConfig { workers: 1, ..simulated_process(&env, 8 << 20) };
        Cluster { engine: Engine::open(env.clone(), config).unwrap(), env }
    }
    fn create(&self, kind: RelationKind) -> Arc<Relation> {
        self.change(|t| self.engine.create_relation(t, kind, Persistence::Logged).unwrap())
    }
    fn change<R>(&self, change: impl FnOnce(&mut Transaction) -> R) -> R {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        let result = change(&mut t);
        t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
        result
    }
    /// A heap with rows.
    fn heap(&self) -> (Arc<Relation>, Vec<RowId>) {
        let heap = self.create(RelationKind::Heap);
        let rids = self.change(|t| (0..ROWS).map(|_| heap.insert(t, &[7; 500]).unwrap()).collect());
        (heap, rids)
    }
    fn enter(&self, index: &Arc<Relation>, heap: &Arc<Relation>, key: &[u8], rid: RowId) {
        self.change(|t| {
            index.index_insert(t, heap, key, rid, Uniqueness::NotUnique, &ThreadPark::new()).unwrap();
        });
    }
    fn check(self) -> CheckReport {
        let env = self.stop();
        check_report(env, PathBuf::from("/sim")).unwrap()
    }
    /// Properly; what is on the disk then, for the next process.
    fn stop(self) -> Arc<SimEnv> {
        self.engine.shutdown().unwrap();
        self.env.restart()
    }
}
fn shown(rid: RowId) -> String {
    format!("({},{})", rid.block, rid.slot)
}
fn key(n: usize) -> Vec<u8> {
    (n as u32).to_be_bytes().to_vec()
}
fn key_of(n: usize, heap: &Relation) -> Vec<u8> {
    [key(n), Relation::heap_name(heap.id()).to_vec()].concat()
}
/// Changes pages with this text in them, at each place where it is, so that they sum up all the same.
fn forge(env: &SimEnv, text: &[u8], change: impl Fn(&mut [u8], usize)) {
    env.spoil("pages", |bytes| {
        let mut changed = 0;
        for page in bytes.chunks_exact_mut(PAGE) {
            let places: Vec<usize> = (0..PAGE - text.len()).filter(|at| page[*at..].starts_with(text)).collect();
            for at in places {
                change(page, at);
                let sum = crc32c(&page[4..]);
                page[..4].copy_from_slice(&sum.to_le_bytes());
                changed += 1;
            }
        }
        assert!(changed > 0, "the case is not met");
    });
    env.spoil("doublewrite", |bytes| bytes.fill(0));
}
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Which rows it should have is not known, but none has two entries, and an entry has its row.
#[test]
fn a_partial_index_is_followed_to_its_rows() {
    for (twice, astray) in [(false, false), (true, false), (false, true)] {
        let cluster = Cluster::new();
        let (heap, rids) = cluster.heap();
        let index = cluster.create(RelationKind::BTree);
        index.set_heap(heap.id());
        for (n, rid) in rids.iter().enumerate().filter(|(n, _)| n % 3 == 0) {
            cluster.enter(&index, &heap, &key(n), *rid);
        }
        let (index_id, heap_id) = (index.id().0, heap.id().0);
        let nowhere = RowId { block: 3, slot: 400 };
        if twice {
            cluster.enter(&index, &heap, &key(1000), rids[30]);
        }
        if astray {
            cluster.enter(&index, &heap, &key(1000), nowhere);
        }
        drop((heap, index));
        let report = cluster.check();
        let expected: Vec<String> = match (twice, astray) {
            (true, _) => vec![format!("index {index_id} block 0: row {} has two entries", shown(rids[30]))],
            (_, true) => vec![format!("index {index_id} block 0: an entry leads to no row {}", shown(nowhere))],
            _ => vec![],
        };
        assert_eq!(report.problems, expected);
        let expected = format!("whether 200 of 300 rows of heap {heap_id} should have an entry in index {index_id}");
        assert!(report.unchecked.contains(&expected), "{:?}", report.unchecked);
    }
}

/// Each row of each heap that such an index has entries of, if it says that it leaves none out.
#[test]
fn an_index_of_several_heaps_has_all_their_rows() {
    for (of_all_rows, entries) in [(true, 1), (true, 0), (true, 2), (false, 0)] {
        let cluster = Cluster::new();
        let heaps = [cluster.heap(), cluster.heap()];
        let index = cluster.create(RelationKind::BTree);
        if of_all_rows {
            index.set_entries_name_heap_of_all_rows();
        } else {
            index.set_entries_name_heap();
        }
        for (at, (heap, rids)) in heaps.iter().enumerate() {
            for (n, rid) in rids.iter().enumerate() {
                for copy in 0..if (at, n) == (1, 77) { entries } else { 1 } {
                    cluster.enter(&index, heap, &key_of(n + 1000 * at + 10_000 * copy, heap), *rid);
                }
            }
        }
        let (index_id, second, rid) = (index.id().0, heaps[1].0.id().0, heaps[1].1[77]);
        drop((heaps, index));
        let report = cluster.check();
        match (of_all_rows, entries) {
            (true, 0) => assert_eq!(
                report.problems,
                [format!("index {index_id}: row {} of heap {second} has no entry", shown(rid))]
            ),
            (true, 2) => {
                let end = format!("row {} of heap {second} has two entries", shown(rid));
                assert!(report.problems.len() == 1 && report.problems[0].ends_with(&end), "{:?}", report.problems);
            }
            _ => assert_eq!(report.problems, Vec::<String>::new()),
        }
        let unknown = format!("whether 1 of 300 rows of heap {second} should have an entry in index {index_id}");
        assert_eq!(report.unchecked.contains(&unknown), !of_all_rows, "{:?}", report.unchecked);
        let empty = "heaps of which 1 indexes of several heaps have no entry at all".to_string();
        assert!(report.unchecked.contains(&empty), "{:?}", report.unchecked);
    }
}

/// After a crash the index says so itself still: by the log, and then by the directory.
#[test]
fn a_crash_leaves_what_an_index_says_of_its_rows() {
    let cluster = Cluster::new();
    let (heap, rids) = cluster.heap();
    let index = cluster.create(RelationKind::BTree);
    index.set_entries_name_heap_of_all_rows();
    let park = ThreadPark::new();
    let mut t = cluster.engine.begin(Isolation::ReadCommitted, 0);
    for (n, rid) in rids.iter().enumerate().skip(1) {
        index.index_insert(&mut t, &heap, &key_of(n, &heap), *rid, Uniqueness::NotUnique, &park).unwrap();
    }
    let lsn = t.commit(CommitMode::Sync, &park).unwrap().unwrap();
    cluster.engine.wait_flushed(lsn, &park).unwrap();
    drop((t, heap, index));
    let env = cluster.env.restart();
    drop(cluster);
    let config = EngineConfig { workers: 1, ..simulated_process(&env, 8 << 20) };
    let report = Cluster { engine: Engine::open(env.clone(), config).unwrap(), env }.check();
    assert!(report.problems.len() == 1 && report.problems[0].ends_with("has no entry"), "{:?}", report.problems);
}

/// An index that was lost is told in a few lines.
#[test]
fn very_many_missing_entries_are_counted() {
    let cluster = Cluster::new();
    let (heap, _) = cluster.heap();
    let index = cluster.create(RelationKind::BTree);
    index.set_heap_of_all_rows(heap.id());
    let (index_id, heap_id) = (index.id().0, heap.id().0);
    drop((heap, index));
    let report = cluster.check();
    assert_eq!(report.problems.len(), 21, "{:?}", report.problems);
    assert_eq!(report.problems[20], format!("index {index_id}: 280 more rows of heap {heap_id} have no entry"));
}

/// Storage does not know what a key is made of: that is said whenever there is an index.
#[test]
fn a_wrong_key_in_its_place_is_said_to_be_unchecked() {
    let cluster = Cluster::new();
    let (heap, rids) = cluster.heap();
    let index = cluster.create(RelationKind::BTree);
    index.set_heap_of_all_rows(heap.id());
    for (n, rid) in rids.iter().enumerate() {
        cluster.enter(&index, &heap, format!("key {:05}", 2 * n).as_bytes(), *rid);
    }
    drop((heap, index));
    let env = cluster.stop();
    let checked = |env: &Arc<SimEnv>| check_report(env.restart(), PathBuf::from("/sim")).unwrap();
    forge(&env, b"key 00150", |page, at| page[at + 8] = b'1');
    let report = checked(&env);
    assert_eq!(report.problems, Vec::<String>::new(), "it is in order");
    let expected = "whether the keys and terms of 1 indexes are those of their rows, and unique";
    assert_eq!(report.unchecked, [expected]);
    // Out of its order it is found.
    forge(&env, b"key 00200", |page, at| page[at + 6] = b'9');
    let problems = checked(&env).problems;
    assert!(problems.iter().any(|p| p.ends_with("entries are out of order")), "{problems:?}");
}

/// An inverted index whose rows are pending, or merged.
fn inverted(is_merged: bool, terms: &dyn Fn(usize) -> Vec<Vec<u8>>) -> (Cluster, u32, u32) {
    let cluster = Cluster::new();
    let (heap, rids) = cluster.heap();
    let index = cluster.create(RelationKind::Inverted);
    index.set_heap(heap.id());
    cluster.change(|t| {
        for (n, rid) in rids.iter().enumerate().skip(10) {
            index.change_terms(t, *rid, TermChange::Inserted(&terms(n))).unwrap();
        }
    });
    if is_merged {
        index.index_flush(&ThreadPark::new()).unwrap();
    }
    (cluster, index.id().0, heap.id().0)
}
fn word(n: usize) -> Vec<u8> {
    format!("word {n:05}").into_bytes()
}

/// Pending or merged, a row with terms is one that the index leads to; others are counted.
#[test]
fn rows_without_terms_are_counted() {
    for is_merged in [false, true] {
        let (cluster, index, heap) = inverted(is_merged, &|n| vec![word(0), word(n)]);
        let report = cluster.check();
        assert_eq!(report.problems, Vec::<String>::new());
        let expected = format!("whether 10 of 300 rows of heap {heap} should have terms in inverted index {index}");
        assert!(report.unchecked.contains(&expected), "{:?}", report.unchecked);
    }
}

#[test]
fn terms_of_a_pending_row_are_in_order() {
    let (cluster, index, _) = inverted(false, &|n| if n == 88 { vec![word(9), word(1)] } else { vec![word(n)] });
    let problems = cluster.check().problems;
    let start = format!("inverted index {index}: the terms of pending row ");
    assert!(problems.len() == 1 && problems[0].starts_with(&start), "{problems:?}");
}

#[test]
fn an_entry_of_an_inverted_index_is_of_a_known_sort() {
    // The first and the last of all, so that the order is as it was.
    for (n, sort) in [(10, 0), (299, 4)] {
        let (cluster, index, _) = inverted(true, &|n| vec![word(n)]);
        let env = cluster.stop();
        // What a posting of this term begins with.
        forge(&env, &[&[2], &word(n)[..]].concat(), |page, at| page[at] = sort);
        let problems = check(env.restart(), PathBuf::from("/sim")).unwrap();
        let expected = format!("inverted index {index}: an entry is of no known sort");
        assert_eq!(problems, [expected], "sort {sort}");
    }
}

/// A posting that names a row which is not there.
#[test]
fn a_posting_has_its_row() {
    let (cluster, index, _) = inverted(true, &|n| vec![word(n)]);
    let env = cluster.stop();
    let nowhere = RowId { block: 3, slot: 400 };
    // Its row id is in front of what a posting begins with.
    forge(&env, &[&[2], &word(150)[..]].concat(), |page, at| {
        page[at - 6..at].copy_from_slice(&nowhere.to_u64().to_le_bytes()[..6]);
    });
    let problems = check(env.restart(), PathBuf::from("/sim")).unwrap();
    assert!(problems.len() == 1 && problems[0].ends_with("leads to no row"), "{problems:?}");
    assert!(problems[0].starts_with(&format!("inverted index {index}: a posting of row ")), "{problems:?}");
}

/// A page of an extent that has no block yet is as its last owner has left it, and a power failure may have torn it.
#[test]
fn what_lies_behind_the_last_block_does_not_matter() {
    let cluster = Cluster::new();
    let (_, rids) = cluster.heap();
    let last_block = rids.iter().map(|rid| rid.block).max().unwrap();
    assert!((16..31).contains(&last_block), "the extent has no page to spare: {last_block}");
    let env = cluster.stop();
    let last_page = env.spoil("pages", |bytes| bytes.windows(500).rposition(|w| w == [7; 500]).unwrap() / PAGE);
    let problems = || check(env.clone(), PathBuf::from("/sim")).unwrap();
    env.spoil("pages", |bytes| bytes[(last_page + 1) * PAGE + 100] ^= 1);
    assert_eq!(problems(), [""; 0]);
    env.spoil("pages", |bytes| bytes[last_page * PAGE + 100] ^= 1);
    assert_eq!(problems().len(), 1);
}
