//! What a crash leaves of changes that a checkpoint comes in between: at a stop the test takes one.

use super::{StopPoint, visiting};
use crate::api::*;
use crate::buffer::DirtyFilter;
use crate::checkpoint::CheckpointReason;
use crate::cluster::{Dir, config, copy_folder};
use crate::directory::{Relation, extent_pages};
use crate::engine::Engine;
use crate::hooked::HookedEnv;
use kilndb_base::env::{Env, OsEnv};
use kilndb_base::park::ThreadPark;
use kilndb_base::sync::atomic::{AtomicBool, Ordering::SeqCst};
use kilndb_base::{Lsn, RelationId, RowId};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a process that was killed now would leave, apart.
fn as_killed_now(dir: &Dir, name: &str) -> Dir {
    let copy = Dir::new(name);
    copy_folder(&dir.0, &copy.0);
    copy
}
fn open(dir: &Dir) -> kilndb_base::Result<Arc<Engine>> {
    open_in(dir, Arc::new(OsEnv))
}
fn open_in(dir: &Dir, env: Arc<dyn Env>) -> kilndb_base::Result<Arc<Engine>> {
    let limits = StorageLimits { record_bytes: 64, ..StorageLimits::default() };
    Engine::open(env, EngineConfig { limits, huge_pages: false, workers: 2, ..config(dir.0.clone(), 16 << 20) })
}
fn commit(e: &Engine, mut t: crate::txn::Transaction) -> Lsn {
    let lsn = t.commit(CommitMode::Sync, &ThreadPark::new()).unwrap().unwrap();
    e.wait_flushed(lsn, &ThreadPark::new()).unwrap();
    lsn
}
/// A heap of a transaction's, with so many pages.
fn heap(e: &Arc<Engine>, t: &mut crate::txn::Transaction, pages: usize) -> Arc<Relation> {
    let heap = e.create_relation(t, RelationKind::Heap, Persistence::Logged).unwrap();
    (0..pages).for_each(|_| _ = heap.insert(t, &[7; 7000]).unwrap());
    heap
}
fn pages_of(relation: &Relation) -> Vec<u32> {
    let extents = relation.extent_list().into_iter().enumerate();
    extents.flat_map(|(index, start)| start..start + extent_pages(index)).collect()
}
fn rows(e: &Arc<Engine>, heap: &Relation) -> usize {
    let snapshot = e.begin(Isolation::ReadCommitted, 0).take_snapshot();
    let mut batch = RowBatch::default();
    let mut count = 0;
    for block in 0..heap.pages() {
        batch.clear();
        heap.scan_block(block, &snapshot, &mut batch).unwrap();
        count += batch.rows.len();
    }
    count
}

/// A checkpoint between the record that says so and the removal does not note the relation: recovery would not read
/// that record, and the pages may be another's.
#[test]
fn a_checkpoint_leaves_out_a_relation_that_is_about_to_go() {
    let dir = Dir::new("about-to-go");
    let e = open(&dir).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let first = heap(&e, &mut t, 64);
    heap(&e, &mut t, 1);
    let (gone, pages) = (first.id(), pages_of(&first));
    drop(first);
    let killed: Rc<RefCell<Option<(Dir, RelationId)>>> = Rc::default();
    let (engine, into, mut stops) = (e.clone(), killed.clone(), 0);
    let visitor = move |stop| {
        assert_eq!(stop, StopPoint::RelationGoneInLog);
        stops += 1;
        if stops == 1 {
            assert!(engine.relation(gone).is_ok(), "it is there still");
            engine.checkpoint(&ThreadPark::new()).unwrap();
            return;
        }
        // The first one has gone, and its pages are free; the transaction has not ended.
        assert!(engine.relation(gone).is_err());
        let mut t = engine.begin(Isolation::ReadCommitted, 1);
        let other = heap(&engine, &mut t, 64);
        assert!(pages_of(&other).iter().any(|page| pages.contains(page)), "the case is not met: other pages");
        commit(&engine, t);
        *into.borrow_mut() = Some((as_killed_now(&dir, "about-to-go-killed"), other.id()));
    };
    visiting(visitor, || t.rollback(&ThreadPark::new())).unwrap();
    drop((t, e));
    let (dir, other) = killed.take().expect("the case is not met: two relations go");
    let e = open(&dir).unwrap_or_else(|e| panic!("the server does not start: {}", e.message()));
    assert!(e.relation(gone).is_err(), "it is back");
    assert_eq!(rows(&e, &e.relation(other).unwrap()), 64);
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(crate::check(Arc::new(OsEnv), dir.0.clone()).unwrap(), Vec::<String>::new());
}

/// The same of a relation that a commit has dropped.
#[test]
fn a_checkpoint_leaves_out_a_relation_whose_drop_is_committed() {
    let dir = Dir::new("drop-committed");
    let e = open(&dir).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let dropped = heap(&e, &mut t, 64);
    commit(&e, t);
    let (id, pages) = (dropped.id(), pages_of(&dropped));
    drop(dropped);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    e.drop_relation(&mut t, id).unwrap();
    let visits = Rc::new(std::cell::Cell::new(0));
    let (engine, counted) = (e.clone(), visits.clone());
    let visitor = move |stop| {
        if stop == StopPoint::DropsCommitted {
            counted.set(counted.get() + 1);
            engine.checkpoint(&ThreadPark::new()).unwrap();
        }
    };
    visiting(visitor, || commit(&e, t));
    assert_eq!(visits.get(), 1);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let other = heap(&e, &mut t, 64);
    assert!(pages_of(&other).iter().any(|page| pages.contains(page)), "the case is not met: other pages");
    commit(&e, t);
    let (killed, other_id) = (as_killed_now(&dir, "drop-committed-killed"), other.id());
    drop((other, e));
    let e = open(&killed).unwrap_or_else(|e| panic!("the server does not start: {}", e.message()));
    assert!(e.relation(id).is_err(), "it is back");
    assert_eq!(rows(&e, &e.relation(other_id).unwrap()), 64);
}

/// What a commit drops stands in several records: recovery begins before all of them, or behind the commit.
#[test]
fn a_checkpoint_amid_the_drops_of_a_commit_begins_before_them() {
    let dir = Dir::new("amid-drops");
    let e = open(&dir).unwrap();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let ids: Vec<RelationId> = (0..100).map(|_| heap(&e, &mut t, 1).id()).collect();
    commit(&e, t);
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    ids.iter().for_each(|id| e.drop_relation(&mut t, *id).unwrap());
    let visits = Rc::new(std::cell::Cell::new(0));
    let (engine, counted) = (e.clone(), visits.clone());
    let visitor = move |stop| {
        if stop != StopPoint::DropsLogged {
            return;
        }
        counted.set(counted.get() + 1);
        engine.checkpoint(&ThreadPark::new()).unwrap();
    };
    visiting(visitor, || commit(&e, t));
    assert_eq!(visits.get(), 1, "the case is not met: one record was enough");
    let killed = as_killed_now(&dir, "amid-drops-killed");
    drop(e);
    let e = open(&killed).unwrap();
    let back = ids.iter().filter(|id| e.relation(**id).is_ok()).count();
    assert_eq!(back, 0, "dropped relations are back");
    e.shutdown().unwrap();
    drop(e);
    assert_eq!(crate::check(Arc::new(OsEnv), killed.0.clone()).unwrap(), Vec::<String>::new());
}

/// A thread that writes a page, which is held up before the first byte is.
struct HeldWriter {
    gate: Arc<Gate>,
    thread: Option<JoinHandle<()>>,
}
#[derive(Default)]
struct Gate {
    has_come: AtomicBool,
    is_open: AtomicBool,
}
/// Such threads have this name, and only they are held up.
const WRITER: &str = "held-writer";
thread_local! {
    static GATE: RefCell<Option<Arc<Gate>>> = const { RefCell::new(None) };
}
fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(60), "the case is not met: nobody comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}
/// What [`HookedEnv`] calls.
fn hold_up(event: &str) {
    let gate = if event == "write doublewrite" { GATE.take() } else { None };
    if let Some(gate) = gate {
        gate.has_come.store(true, SeqCst);
        until(|| gate.is_open.load(SeqCst));
    }
}
impl HeldWriter {
    /// When this returns, the thread has copied the page as it is, and counts as writing it.
    fn begin(e: &Arc<Engine>, pid: u32) -> HeldWriter {
        let gate = Arc::new(Gate::default());
        let (core, own) = (e.core().clone(), gate.clone());
        let body = move || {
            GATE.set(Some(own));
            core.pool.write_pages(&[pid], DirtyFilter::Logged).map(drop).unwrap();
        };
        let thread = std::thread::Builder::new().name(WRITER.into()).spawn(body).unwrap();
        until(|| gate.has_come.load(SeqCst));
        HeldWriter { gate, thread: Some(thread) }
    }
    /// The page is written, and the thread has done.
    fn end(mut self) {
        self.let_go();
    }
    fn let_go(&mut self) {
        self.gate.is_open.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
impl Drop for HeldWriter {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A row that one page has, and changes of it that are committed.
struct Row {
    engine: Arc<Engine>,
    heap: Arc<Relation>,
    rid: RowId,
    pid: u32,
}
impl Row {
    fn new(dir: &Dir) -> Row {
        let engine = open_in(dir, Arc::new(HookedEnv::new(hold_up))).unwrap();
        let mut t = engine.begin(Isolation::ReadCommitted, 0);
        let heap = engine.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
        let rid = heap.insert(&mut t, b"version 0").unwrap();
        commit(&engine, t);
        engine.checkpoint(&ThreadPark::new()).unwrap();
        let pid = heap.pid(rid.block).unwrap();
        Row { engine, heap, rid, pid }
    }
    fn update(&self, row: &[u8]) {
        let mut t = self.engine.begin(Isolation::ReadCommitted, 0);
        let s = t.take_snapshot();
        let options = WriteOptions::default();
        let done = self.heap.update(&mut t, self.rid, row, &[], &options.with(&s, &ThreadPark::new())).unwrap();
        assert_eq!(done, WriteOutcome::Done);
        commit(&self.engine, t);
    }
    /// A checkpoint by this thread.
    fn checkpoint(&self, visitor: impl FnMut(StopPoint) + 'static) {
        let core = self.engine.core();
        visiting(visitor, || self.engine.checkpointer.checkpoint(core, CheckpointReason::Requested, &[])).unwrap();
    }
    fn after_kill(&self, dir: &Dir, name: &str) -> Vec<u8> {
        let killed = as_killed_now(dir, name);
        let e = open(&killed).unwrap();
        let heap = e.relation(self.heap.id()).unwrap();
        let snapshot = e.begin(Isolation::ReadCommitted, 0).take_snapshot();
        let mut row = Vec::new();
        assert_ne!(heap.fetch(self.rid, &snapshot, &mut row).unwrap(), Fetched::Invisible);
        row
    }
}

/// The page is dirty, and an older copy of it is just being written, which ends between the checkpoint's two looks at it.
#[test]
fn a_checkpoint_leaves_out_no_page_that_an_older_copy_is_written_of() {
    let dir = Dir::new("older-copy");
    let row = Row::new(&dir);
    row.update(b"version 1");
    let mut writer = Some(HeldWriter::begin(&row.engine, row.pid));
    row.update(b"version 2");
    let (pid, looks) = (row.pid, Rc::new(std::cell::Cell::new(0)));
    let counted = looks.clone();
    row.checkpoint(move |stop| {
        if stop == StopPoint::PageIsBusy(pid) {
            counted.set(counted.get() + 1);
            writer.take().expect("once").end();
        }
    });
    assert_eq!(looks.get(), 1, "the case is not met: the page was not being written");
    assert_eq!(row.after_kill(&dir, "older-copy-killed"), b"version 2");
}

/// The writer of the older copy has done, and before the checkpoint takes the page another one has taken it: the checkpoint
/// ends after that one.
#[test]
fn a_checkpoint_waits_for_whoever_is_quicker_to_write_a_page() {
    let dir = Dir::new("quicker");
    let row = Row::new(&dir);
    row.update(b"version 1");
    let older = RefCell::new(Some(HeldWriter::begin(&row.engine, row.pid)));
    row.update(b"version 2");
    let newer: Rc<RefCell<Option<HeldWriter>>> = Rc::default();
    let (pid, engine, begun) = (row.pid, row.engine.clone(), newer.clone());
    let met = Rc::new(std::cell::Cell::new(false));
    let noted = met.clone();
    row.checkpoint(move |stop| match stop {
        StopPoint::PageIsBusy(page) if page == pid => older.take().expect("once").end(),
        StopPoint::PageWasBusy(page) if page == pid && !noted.replace(true) => {
            *begun.borrow_mut() = Some(HeldWriter::begin(&engine, pid));
        }
        StopPoint::PageIsBusyAgain(page) if page == pid => begun.take().into_iter().for_each(HeldWriter::end),
        _ => {}
    });
    assert!(met.get(), "the case is not met: nobody was quicker");
    // If the checkpoint has not waited, the page is not written yet.
    assert_eq!(row.after_kill(&dir, "quicker-killed"), b"version 2");
}

/// Whoever has latched a page may be waiting for somebody who waits until another page of the checkpoint's is written: a
/// discarded chunk's, say (seed 850811 of the simulation stood still).
#[test]
fn a_checkpoint_that_waits_for_a_latch_has_written_what_it_has_copied() {
    let dir = Dir::new("waits-for-latch");
    let row = Row::new(&dir);
    let mut t = row.engine.begin(Isolation::ReadCommitted, 0);
    let latched = heap(&row.engine, &mut t, 1);
    commit(&row.engine, t);
    row.update(b"version 1");
    let pool = &row.engine.core().pool;
    let latched = latched.pid(0).unwrap();
    std::thread::scope(|scope| {
        let guard = pool.write(latched).unwrap();
        let writing = scope.spawn(|| pool.write_pages(&[row.pid, latched], DirtyFilter::Durable).unwrap());
        let until = Instant::now() + Duration::from_secs(20);
        let is_written = || !pool.dirty_pages().contains(&row.pid);
        while !is_written() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let was_written = is_written();
        drop(guard);
        assert_eq!(writing.join().unwrap(), 2, "both were dirty");
        assert!(was_written, "the page was held until the latch was free");
    });
}
