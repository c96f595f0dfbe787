//! What dropped tables took of the disk goes back to the file system, and is there again when it is wanted.
mod support;

use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use support::{Dir, rows_of};

/// Bytes that the file of pages takes on disk.
fn disk_bytes(dir: &Dir) -> u64 {
    std::fs::metadata(dir.0.join("pages")).unwrap().blocks() * 512
}
fn fill(e: &Arc<Engine>, rows: usize) -> Arc<Relation> {
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    (0..rows).for_each(|i| _ = heap.insert(&mut t, &[i as u8; 5900]).unwrap());
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    heap
}

#[test]
fn dropped_tables_give_their_space_back() {
    let dir = Dir::new("space-back");
    let p = ThreadPark::new();
    let e = support::open(&dir, 64 << 20);
    let kept = fill(&e, 2000);
    let large: Vec<_> = (0..4).map(|_| fill(&e, 10_000).id()).collect();
    e.checkpoint(&p).unwrap();
    let full = disk_bytes(&dir);
    assert!(full > 320 << 20, "{full} bytes");
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    large.iter().for_each(|id| e.drop_relation(&mut t, *id).unwrap());
    t.commit(CommitMode::Async, &p).unwrap();
    e.checkpoint(&p).unwrap();
    // What is kept, a reserve, and what the file grows by at once.
    let least = disk_bytes(&dir);
    assert!(least < 160 << 20, "{least} of {full} bytes are left");
    // It is there again for others, also after a restart, and none of it is taken for what it was.
    let again = fill(&e, 15_000);
    let (kept_id, again_id) = (kept.id(), again.id());
    assert_eq!(rows_of(&e, &again).unwrap().len(), 15_000);
    drop((kept, again));
    e.shutdown().unwrap();
    drop(e);
    let e = support::open(&dir, 64 << 20);
    assert_eq!(rows_of(&e, &e.relation(kept_id).unwrap()).unwrap().len(), 2000);
    assert_eq!(rows_of(&e, &e.relation(again_id).unwrap()).unwrap().len(), 15_000);
    let third = fill(&e, 10_000);
    assert_eq!(rows_of(&e, &third).unwrap().len(), 10_000);
    drop(third);
    e.shutdown().unwrap();
    drop(e);
    assert!(check(Arc::new(kilndb_base::env::OsEnv), dir.0.clone()).unwrap().is_empty());
}
