//! What dropped tables took of the disk goes back to the file system, and is there again when it is wanted.
mod support;

use kilndb_base::Severity;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use support::disk::{DiskFault, SimEnv, simulated_process};
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

/// Space that cannot be given back stays free, and the checkpoint counts all the same.
#[test]
fn a_hole_that_cannot_be_made_is_a_warning() {
    const EIO: i32 = 5;
    let env = Arc::new(SimEnv::default());
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let log = move |severity: Severity, text: &str| heard.lock().unwrap().push((severity, text.to_string()));
    let limits = StorageLimits { free_pages_kept: 0, ..StorageLimits::default() };
    let config = EngineConfig { limits, log: Arc::new(log), ..simulated_process(&env, 16 << 20) };
    let e = Engine::open(env.clone(), config).unwrap();
    let p = ThreadPark::new();
    let kept = fill(&e, 100);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    e.drop_relation(&mut t, fill(&e, 1000).id()).unwrap();
    t.commit(CommitMode::Async, &p).unwrap();
    told.lock().unwrap().clear();
    let warnings = || {
        let told = std::mem::take(&mut *told.lock().unwrap());
        assert!(told.iter().all(|(severity, _)| *severity <= Severity::Warning), "{told:?}");
        told.into_iter().filter(|(severity, _)| *severity == Severity::Warning).map(|(_, text)| text).collect()
    };
    let expected = "could not give free space of file \"pages\" back: ";
    env.arm(0, DiskFault::Hole(EIO));
    for _ in 0..2 {
        let done = e.stats().checkpoints().done;
        e.checkpoint(&p).expect("the checkpoint counts");
        assert_eq!(e.stats().checkpoints().done, done + 1);
        let warnings: Vec<String> = warnings();
        assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{warnings:?}");
    }
    assert!(env.fired());
    env.disarm();
    // It is tried again by the next one.
    e.checkpoint(&p).unwrap();
    assert_eq!(warnings(), Vec::<String>::new());
    let again = fill(&e, 1000);
    assert_eq!((rows_of(&e, &again).unwrap().len(), rows_of(&e, &kept).unwrap().len()), (1000, 100));
    drop((kept, again, t));
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(check(env.restart(), PathBuf::from("/sim")).unwrap(), Vec::<String>::new());
}
