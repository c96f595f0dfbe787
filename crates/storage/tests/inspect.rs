//! What `kilndb inspect` says of a small cluster whose contents are known.
mod support;

use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_base::{Lsn, RelationId, RowId};
use kilndb_storage::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use support::cluster::copy_folder;
use support::{Dir, open};

struct KnownCluster {
    dir: Dir,
    heap: RelationId,
    tree: RelationId,
    /// Updated by a transaction that had not ended when the process was killed.
    row: RowId,
    /// Where the log was after the checkpoint, and at the end.
    range: (Lsn, Lsn),
    committed: u64,
}

/// As a process leaves it that is killed behind a checkpoint.
fn known_cluster(name: &str) -> KnownCluster {
    let park = ThreadPark::new();
    let dir = Dir::new(&format!("{name}-of"));
    let e = open(&dir, 16 << 20);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let tree = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    tree.set_heap_of_all_rows(heap.id());
    let mut row = RowId { block: 0, slot: 0 };
    for n in 0..2000u32 {
        let rid = heap.insert(&mut t, &[&[0xab; 4][..], &n.to_be_bytes()].concat()).unwrap();
        tree.index_insert(&mut t, &heap, &n.to_be_bytes(), rid, Uniqueness::Unique, &park).unwrap();
        if n == 7 {
            row = rid;
        }
    }
    t.commit(CommitMode::Sync, &park).unwrap();
    let mut open_one = e.begin(Isolation::ReadCommitted, 0);
    let snapshot = open_one.take_snapshot();
    let options = WriteOptions::default();
    heap.update(&mut open_one, row, &[0xbc; 8], &[], &options.with(&snapshot, &park)).unwrap();
    open_one.next_command();
    let snapshot = open_one.take_snapshot();
    heap.update(&mut open_one, row, &[0xcd; 8], &[], &options.with(&snapshot, &park)).unwrap();
    e.checkpoint(&park).unwrap();
    let begin = e.insert_lsn();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    heap.insert(&mut t, &[0xef; 20]).unwrap();
    t.set_catalog_changes(b"known".to_vec());
    let committed = t.assign_xid().unwrap().0;
    let end = t.commit(CommitMode::Sync, &park).unwrap().unwrap();
    e.wait_flushed(end, &park).unwrap();
    let killed = Dir::new(name);
    copy_folder(&dir.0, &killed.0);
    open_one.rollback(&park).unwrap();
    KnownCluster { dir: killed, heap: heap.id(), tree: tree.id(), row, range: (begin, end), committed }
}

fn said(inspect: impl FnOnce(&mut LineSink<'_>)) -> Vec<String> {
    let mut lines = Vec::new();
    inspect(&mut |line| lines.push(line));
    lines
}
#[track_caller]
fn assert_says(lines: &[String], words: &[&str]) {
    let is_said = lines.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(is_said, "no line with {words:?} in\n{}", lines.join("\n"));
}

/// Every file of a folder with its contents.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(contents(&entry.path()).into_iter().map(|(k, v)| (format!("{name}/{k}"), v))),
            false => _ = all.insert(name, std::fs::read(entry.path()).unwrap()),
        }
    }
    all
}

#[test]
fn known_facts_are_told() {
    let known = known_cluster("inspected");
    let before = contents(&known.dir.0);
    let inspector = Inspector::open(Arc::new(OsEnv), &known.dir.0).unwrap();

    let lines = said(|lines| inspector.relations(lines));
    assert_says(&lines, &["of a running server", "2 relations", "1 unfinished"]);
    assert_says(&lines, &[&format!("relation {}: heap, logged", known.heap)]);
    assert_says(&lines, &[&format!("relation {}: tree, logged", known.tree), &format!("of heap {}", known.heap)]);

    let lines = said(|lines| inspector.page(known.heap, known.row.block, lines).unwrap());
    assert_says(&lines, &["kind heap", "(right)"]);
    // Of the newest version.
    assert_says(&lines, &[&format!("slot {}:", known.row.slot), "version with undo 0x", "cdcdcdcdcdcdcdcd"]);
    assert_says(&lines, &["8 bytes", ": abababab00000008"]);

    let lines = said(|lines| inspector.undo(known.heap, known.row, lines).unwrap());
    assert_says(&lines, &["version with undo", "cdcdcdcdcdcdcdcd"]);
    assert_says(&lines, &["update by transaction", &format!("row ({},{})", known.row.block, known.row.slot)]);
    assert_says(&lines, &["command 1,", "were bcbcbcbcbcbcbcbc"]);
    assert_says(&lines, &["command 0,", "were abababab00000007"]);

    let lines = said(|lines| inspector.tree(known.tree, true, lines).unwrap());
    assert_says(&lines, &["level 1"]);
    assert_says(&lines, &["level 0"]);
    assert_says(&lines, &["% full", "right sibling none"]);
    let row = format!("key 00000007 row ({},{})", known.row.block, known.row.slot);
    assert_says(&lines, &[&row]);
    assert_eq!(lines.iter().filter(|line| line.contains(" row (") && line.contains("    key ")).count(), 2000);
    assert_says(&lines, &["nodes, 2000 entries"]);
    assert_eq!(
        inspector.tree(known.heap, false, &mut |_| ()).unwrap_err().sqlstate(),
        kilndb_base::sqlstate::WRONG_OBJECT_TYPE
    );

    let describe = |bytes: &[u8]| format!("<{}>", String::from_utf8_lossy(bytes));
    let (from, to) = (Some(known.range.0), Some(known.range.1));
    let lines = said(|lines| inspector.log(LogRange { from, to }, &describe, lines).unwrap());
    let transaction = format!("transaction {}", known.committed);
    assert_says(
        &lines,
        &["change with undo", &transaction, "insert", "put item", &format!("of relation {}", known.heap)],
    );
    assert_says(&lines, &[": commit,", &transaction, "catalog changes: <known>"]);
    assert!(lines.len() < 10, "{lines:#?}");
    let lines = said(|lines| inspector.log(LogRange::default(), &describe, lines).unwrap());
    assert_says(&lines, &["the log ends at"]);

    assert!(inspector.page(known.heap, 100_000, &mut |_| ()).is_err());
    assert!(inspector.page(RelationId(9999), 0, &mut |_| ()).is_err());
    drop(inspector);
    assert!(contents(&known.dir.0) == before, "something was written");
}

#[test]
fn a_running_cluster_is_left_alone() {
    let dir = Dir::new("inspected-running");
    let e = open(&dir, 16 << 20);
    assert!(Inspector::open(Arc::new(OsEnv), &dir.0).is_err());
    e.shutdown().unwrap();
    assert_says(
        &said(|lines| Inspector::open(Arc::new(OsEnv), &dir.0).unwrap().relations(lines)),
        &["of a proper stop"],
    );
}
