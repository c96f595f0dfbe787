//! Stops: places in the midst of a change at which a unit test does something of its own, where the code asks nothing of
//! `Env` that a test could hold up.
//!
//! Must not know: what the places are in.

use std::cell::RefCell;

type Visitor = Box<dyn FnMut(Stop)>;

/// Where a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// The log says that a relation's creation was rolled back; the directory has the relation still.
    RelationGoneInLog,
    /// The log has what a commit will drop, and not the commit.
    DropsLogged,
    /// A commit that drops relations is in the log; the directory has them still.
    DropsCommitted,
}

thread_local! {
    static VISITOR: RefCell<Option<Visitor>> = const { RefCell::new(None) };
}

/// This thread has come to the place.
pub(crate) fn reach(stop: Stop) {
    // What the visitor does comes to such places without a visit.
    let Some(mut visitor) = VISITOR.take() else { return };
    visitor(stop);
    VISITOR.set(Some(visitor));
}
/// Runs `change`, and `visitor` at each stop that it comes to.
fn visiting<R>(visitor: impl FnMut(Stop) + 'static, change: impl FnOnce() -> R) -> R {
    VISITOR.set(Some(Box::new(visitor)));
    let result = change();
    VISITOR.set(None);
    result
}

mod tests {
    use super::*;
    use crate::api::*;
    use crate::directory::{Relation, extent_pages};
    use crate::engine::Engine;
    use kilndb_base::env::OsEnv;
    use kilndb_base::park::ThreadPark;
    use kilndb_base::{Lsn, RelationId};
    use std::path::{Path, PathBuf};
    use std::rc::Rc;
    use std::sync::Arc;

    struct Dir(PathBuf);
    impl Dir {
        fn new(name: &str) -> Dir {
            let path = std::env::temp_dir().join(format!("kilndb-stops-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Dir(path)
        }
        /// What a process that was killed now would leave, apart.
        fn as_killed_now(&self, name: &str) -> Dir {
            let copy = Dir::new(name);
            copy_folder(&self.0, &copy.0);
            copy
        }
        fn open(&self) -> kilndb_base::Result<Arc<Engine>> {
            let config = EngineConfig {
                data_dir: self.0.clone(),
                shared_buffers_bytes: 16 << 20,
                huge_pages: false,
                wal_buffers_bytes: 1 << 20,
                max_wal_size_bytes: 64 << 20,
                checkpoint_timeout_s: 300,
                checkpoint_completion_target: 0.1,
                wal_writer_delay_ms: 1,
                startup_progress_interval_ms: 0,
                limits: StorageLimits { record_bytes: 64, ..StorageLimits::default() },
                fsync: false,
                accept_lost_log: false,
                workers: 2,
                log: Arc::new(|_, _| {}),
            };
            Engine::open(Arc::new(OsEnv), config)
        }
    }
    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
    fn copy_folder(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            let to = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => copy_folder(&entry.path(), &to),
                false => _ = std::fs::copy(entry.path(), &to).unwrap(),
            }
        }
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
        let e = dir.open().unwrap();
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let first = heap(&e, &mut t, 64);
        heap(&e, &mut t, 1);
        let (gone, pages) = (first.id(), pages_of(&first));
        drop(first);
        let killed: Rc<RefCell<Option<(Dir, RelationId)>>> = Rc::default();
        let (engine, into, mut stops) = (e.clone(), killed.clone(), 0);
        let visitor = move |stop| {
            assert_eq!(stop, Stop::RelationGoneInLog);
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
            *into.borrow_mut() = Some((dir.as_killed_now("about-to-go-killed"), other.id()));
        };
        visiting(visitor, || t.rollback(&ThreadPark::new())).unwrap();
        drop((t, e));
        let (dir, other) = killed.take().expect("the case is not met: two relations go");
        let e = dir.open().unwrap_or_else(|e| panic!("the server does not start: {}", e.message()));
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
        let e = dir.open().unwrap();
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
            if stop == Stop::DropsCommitted {
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
        let (killed, other_id) = (dir.as_killed_now("drop-committed-killed"), other.id());
        drop((other, e));
        let e = killed.open().unwrap_or_else(|e| panic!("the server does not start: {}", e.message()));
        assert!(e.relation(id).is_err(), "it is back");
        assert_eq!(rows(&e, &e.relation(other_id).unwrap()), 64);
    }

    /// What a commit drops stands in several records: recovery begins before all of them, or behind the commit.
    #[test]
    fn a_checkpoint_amid_the_drops_of_a_commit_begins_before_them() {
        let dir = Dir::new("amid-drops");
        let e = dir.open().unwrap();
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        let ids: Vec<RelationId> = (0..100).map(|_| heap(&e, &mut t, 1).id()).collect();
        commit(&e, t);
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        ids.iter().for_each(|id| e.drop_relation(&mut t, *id).unwrap());
        let visits = Rc::new(std::cell::Cell::new(0));
        let (engine, counted) = (e.clone(), visits.clone());
        let visitor = move |stop| {
            if stop != Stop::DropsLogged {
                return;
            }
            counted.set(counted.get() + 1);
            engine.checkpoint(&ThreadPark::new()).unwrap();
        };
        visiting(visitor, || commit(&e, t));
        assert_eq!(visits.get(), 1, "the case is not met: one record was enough");
        let killed = dir.as_killed_now("amid-drops-killed");
        drop(e);
        let e = killed.open().unwrap();
        let back = ids.iter().filter(|id| e.relation(**id).is_ok()).count();
        assert_eq!(back, 0, "dropped relations are back");
        e.shutdown().unwrap();
        drop(e);
        assert_eq!(crate::check(Arc::new(OsEnv), killed.0.clone()).unwrap(), Vec::<String>::new());
    }
}
