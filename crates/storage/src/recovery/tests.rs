//! A log replayed record by record, with pauses, leaves what one that is replayed in one go leaves; and a damaged one is
//! told from one that ends.

use super::replay::RedoState;
use super::replayer::{NobodyLooks, ReplayObserver, ReplayStop, Replayer};
use crate::api::{CommitMode, Isolation, Persistence, RelationKind, Uniqueness, WriteOptions};
use crate::cluster::{Dir, config, copy_folder};
use crate::control;
use crate::core::Core;
use crate::engine::{CorePurpose, Engine, build_core};
use crate::page::PageBytes;
use crate::undo::record::CHUNK_PAGES;
use crate::wal::end::LogEnd;
use crate::wal::frame::SEGMENT;
use crate::wal::reader::{LogRead, LogReader, LogRecord};
use crate::wal::record::Record;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_base::sync::atomic::Ordering::*;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const CATALOG_CHANGES: &[u8] = b"two relations are new";

/// A cluster as a process leaves it that is killed amid its work, and how far its log was durable.
fn killed_cluster(name: &str) -> (Dir, u64) {
    let dir = Dir::new(&format!("{name}-of"));
    let e = Engine::open(Arc::new(OsEnv), config(dir.0.clone(), 16 << 20)).unwrap();
    let park = ThreadPark::new();
    let begin = || e.begin(Isolation::ReadCommitted, 0);
    let mut t = begin();
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    let tree = e.create_relation(&mut t, RelationKind::BTree, Persistence::Logged).unwrap();
    tree.set_heap(heap.id());
    t.set_catalog_changes(CATALOG_CHANGES.to_vec());
    t.commit(CommitMode::Sync, &park).unwrap();
    let mut rids = Vec::new();
    let mut last = 0;
    for n in 0..40u32 {
        let mut t = begin();
        for m in 0..5u32 {
            let row = [&n.to_be_bytes()[..], &m.to_be_bytes(), &[7; 300]].concat();
            let rid = heap.insert(&mut t, &row).unwrap();
            tree.index_insert(&mut t, &heap, &row[..8], rid, Uniqueness::NotUnique, &park).unwrap();
            rids.push(rid);
        }
        if n % 3 == 2 {
            let snapshot = t.take_snapshot();
            let options = WriteOptions::default();
            heap.update(&mut t, rids[n as usize], &[n as u8; 200], &[], &options.with(&snapshot, &park)).unwrap();
        }
        match n % 7 {
            6 => t.rollback(&park).unwrap(),
            _ => last = t.commit(CommitMode::Sync, &park).unwrap().unwrap().0,
        }
    }
    let mut unfinished = begin();
    heap.insert(&mut unfinished, &[9; 100]).unwrap();
    let end = e.insert_lsn();
    e.wait_flushed(end, &park).unwrap();
    assert!(last < end.0);
    let killed = Dir::new(name);
    copy_folder(&dir.0, &killed.0);
    unfinished.rollback(&park).unwrap();
    (killed, end.0)
}

fn core_of(dir: &Dir) -> (Arc<Core>, control::Checkpoint) {
    let env: Arc<dyn kilndb_base::env::Env> = Arc::new(OsEnv);
    let c = control::read(&env, &dir.0).unwrap().unwrap().checkpoint;
    let core = build_core(env, config(dir.0.clone(), 16 << 20), &c, CorePurpose::Serve).unwrap();
    core.load_checkpoint(&c).unwrap();
    core.pool.lenient.store(true, SeqCst);
    (core, c)
}

/// Everything that replaying changes.
#[derive(PartialEq)]
struct Replayed {
    relations: Vec<(u32, u32, Vec<PageBytes>)>,
    undo: Vec<(u64, Vec<PageBytes>)>,
    records: u64,
    redo: RedoState,
}
fn replayed(core: &Arc<Core>, replayer: Replayer<'_>) -> Replayed {
    let page = |pid: u32| *core.pool.write(pid).unwrap().page();
    let relations = core.directory.list().into_iter().map(|r| {
        let blocks = (0..r.pages()).map(|block| page(r.pid(block).unwrap())).collect();
        (r.id, r.pages(), blocks)
    });
    let undo = core.undo.live().into_iter();
    let undo = undo.map(|(number, start, _)| (number, (start..start + CHUNK_PAGES).map(page).collect()));
    let (relations, undo) = (relations.collect(), undo.collect());
    core.directory.clear();
    let (records, redo) = replayer.finish();
    Replayed { relations, undo, records, redo }
}
fn next(reader: &mut LogReader<'_>) -> LogRecord {
    match reader.read_next().unwrap() {
        LogRead::Record(record) => record,
        LogRead::End(end) => panic!("no further record: {end:?}"),
    }
}

/// Pauses at each commit of a transaction.
struct AtCommit {
    xid: u64,
    seen: Vec<Commit>,
}
/// Transaction, LSN, what it says of changes of the catalogs.
type Commit = (u64, u64, Vec<u8>);
impl ReplayObserver for AtCommit {
    fn committed(&mut self, xid: u64, lsn: u64, catalog_changes: &[u8]) -> ControlFlow<()> {
        self.seen.push((xid, lsn, catalog_changes.to_vec()));
        if xid == self.xid { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn a_log_replayed_with_pauses_leaves_what_one_in_one_go_leaves() {
    let (dir, end) = killed_cluster("replay-whole");
    let apart = Dir::new("replay-apart");
    copy_folder(&dir.0, &apart.0);

    let (core, c) = core_of(&dir);
    let mut nobody = NobodyLooks;
    let mut replayer = Replayer::new(&core, &c, &mut nobody);
    let mut reader = LogReader::new(core.log.segments(), c.redo, end);
    let stop = replayer.replay_to(&mut reader, u64::MAX).unwrap();
    assert!(matches!(stop, ReplayStop::End(LogEnd::Ordinary)), "{stop:?}");
    assert!(reader.lsn() >= end);
    let whole = replayed(&core, replayer);
    assert!(whole.redo.txns.values().any(|(head, purge)| *head != 0 && !purge), "there is an unfinished transaction");

    let (core, c) = core_of(&apart);
    let mut observer = AtCommit { xid: 0, seen: Vec::new() };
    let mut reader = LogReader::new(core.log.segments(), c.redo, end);
    let wanted = commits(&core, c.redo)[20].0;
    observer.xid = wanted;
    let mut replayer = Replayer::new(&core, &c, &mut observer);
    // Fed by hand, up to the middle.
    for _ in 0..100 {
        let record = next(&mut reader);
        assert!(replayer.apply(&record).unwrap().is_continue());
    }
    // To an LSN, then to a commit.
    let lsn = reader.lsn() + 1000;
    assert!(matches!(replayer.replay_to(&mut reader, lsn).unwrap(), ReplayStop::Reached));
    assert!(reader.lsn() >= lsn && reader.lsn() < lsn + 1000);
    assert!(matches!(replayer.replay_to(&mut reader, u64::MAX).unwrap(), ReplayStop::ByObserver));
    // What it has replayed is the state at that commit: that of the next one is not there.
    assert_eq!(core.directory.list().len(), 2);
    assert!(matches!(replayer.replay_to(&mut reader, u64::MAX).unwrap(), ReplayStop::End(LogEnd::Ordinary)));
    // There is still no more.
    assert!(matches!(replayer.replay_to(&mut reader, u64::MAX).unwrap(), ReplayStop::End(LogEnd::Ordinary)));
    let apart = replayed(&core, replayer);
    assert!(apart == whole);
    assert_eq!(observer.seen, commits(&core, c.redo));
    assert!(observer.seen.iter().any(|(xid, ..)| *xid == wanted));
    // What the one transaction has said of the catalogs is told with its commit.
    let told: Vec<&[u8]> = observer.seen.iter().map(|(.., told)| &told[..]).filter(|told| !told.is_empty()).collect();
    assert_eq!(told, [CATALOG_CHANGES]);
}

/// The commits in a log, with the LSNs of their records.
fn commits(core: &Core, from: u64) -> Vec<Commit> {
    let mut reader = LogReader::new(core.log.segments(), from, 0);
    let mut commits = Vec::new();
    while let LogRead::Record(record) = reader.read_next().unwrap() {
        if let Record::Commit { xid, catalog_changes, .. } = record.decode().unwrap() {
            commits.push((xid, record.end, catalog_changes.to_vec()));
        }
    }
    commits
}

#[test]
fn a_damaged_log_says_where() {
    let (dir, end) = killed_cluster("replay-damaged");
    let (core, c) = core_of(&dir);
    let mut reader = LogReader::new(core.log.segments(), c.redo, 0);
    (0..50).for_each(|_| _ = next(&mut reader));
    let bad = reader.lsn();
    core.directory.clear();
    let name = format!("wal/{:016x}", bad / SEGMENT);
    let file = std::fs::File::options().read(true).write(true).open(dir.0.join(&name)).unwrap();
    let mut byte = [0];
    // Within the record: behind its length and checksum.
    file.read_exact_at(&mut byte, bad % SEGMENT + 6).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], bad % SEGMENT + 6).unwrap();

    let (core, c) = core_of(&dir);
    let mut nobody = NobodyLooks;
    let mut replayer = Replayer::new(&core, &c, &mut nobody);
    let mut reader = LogReader::new(core.log.segments(), c.redo, end);
    match replayer.replay_to(&mut reader, u64::MAX).unwrap() {
        ReplayStop::End(LogEnd::Damaged(damage)) => {
            assert_eq!((damage.lsn, damage.file.as_str(), damage.offset), (bad, name.as_str(), bad % SEGMENT));
            assert!(damage.durable_to >= end && damage.missing_files.is_empty());
            assert!(damage.error().message().contains(&format!("(file \"{name}\", offset {})", bad % SEGMENT)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(reader.lsn(), bad);
    drop(replayer);
    core.directory.clear();
}
