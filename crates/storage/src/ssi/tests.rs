//! What stays bounded, what is let go, and what is still known of those that were summarised.

use super::locks::ReadLockKind;
use super::*;
use crate::api::*;
use crate::cluster::{Dir, config};
use crate::engine::Engine;
use crate::txn::Transaction;
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;

struct World {
    engine: Arc<Engine>,
    heap: Arc<Relation>,
    rows: Vec<RowId>,
    _dir: Dir,
}

fn world(name: &str, rows: usize) -> World {
    let dir = Dir::new(name);
    let config = EngineConfig { huge_pages: false, workers: 2, ..config(dir.0.clone(), 16 << 20) };
    let engine = Engine::open(Arc::new(OsEnv), config).unwrap();
    let mut t = engine.begin(Isolation::ReadCommitted, 0);
    let heap = engine.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).unwrap();
    // A few rows to a page.
    let rows = (0..rows).map(|_| heap.insert(&mut t, &[7; 2000]).unwrap()).collect();
    t.commit(CommitMode::Async, &ThreadPark::new()).unwrap();
    World { engine, heap, rows, _dir: dir }
}

impl World {
    fn begin(&self) -> Transaction {
        let mut t = self.engine.begin(Isolation::Serializable, 0);
        t.take_snapshot();
        t
    }
    fn read(&self, t: &mut Transaction, row: usize) -> Result<Fetched> {
        let s = t.take_snapshot();
        self.heap.fetch(self.rows[row], &s, &mut Vec::new())
    }
    fn write(&self, t: &mut Transaction, row: usize, value: u8) -> Result<WriteOutcome> {
        let s = t.take_snapshot();
        let park = ThreadPark::new();
        self.heap.update(t, self.rows[row], &[value; 2000], &[], &WriteOptions::default().with(&s, &park))
    }
    fn commit(&self, mut t: Transaction) -> Result<()> {
        t.commit(CommitMode::Async, &ThreadPark::new()).map(|_| ())
    }
    fn ssi(&self) -> &Ssi {
        &self.heap.core.ssi
    }
    fn sizes(&self) -> (usize, usize, usize) {
        crate::lock(&self.ssi().graph).size()
    }
}

fn detail<T: std::fmt::Debug>(r: Result<T>) -> String {
    let e = r.unwrap_err();
    assert_eq!(e.sqlstate(), sqlstate::SERIALIZATION_FAILURE);
    e.0.detail.clone().unwrap_or_default()
}

#[test]
fn one_that_stays_costs_no_more_than_the_limits() {
    let w = world("bounded", 400);
    w.engine.set_read_lock_limits(&ReadLockLimits { remembered: 50, ..ReadLockLimits::default() });
    let mut long = w.begin();
    w.read(&mut long, 0).unwrap();
    for n in 1..4000usize {
        let mut t = w.begin();
        for k in 0..5 {
            w.read(&mut t, 1 + (n * 7 + k * 31) % 399).unwrap();
        }
        w.write(&mut t, 1 + n % 399, n as u8).unwrap();
        w.commit(t).unwrap();
        let (nodes, finished, _) = w.sizes();
        assert!(nodes <= 52 && finished <= 50, "{nodes} {finished}");
    }
    // 50 with up to five locks each, and a few that stand for the rest, with no more than there are rows.
    let locks = w.engine.read_locks_snapshot().len();
    assert!(locks <= 50 * 5 + (FOLDS + 1) * 400, "{locks} locks");
    assert!(w.sizes().2 > 3900);
    w.commit(long).unwrap();
    assert!(w.ssi().is_empty() && w.ssi().is_idle(), "{:?}", w.sizes());
    assert_eq!(w.engine.read_locks_snapshot(), vec![]);
}

#[test]
fn locks_become_coarser_and_go() {
    let w = world("coarser", 200);
    w.engine.set_read_lock_limits(&ReadLockLimits {
        per_transaction: 64,
        per_relation: 8,
        per_page: 2,
        remembered: 10,
    });
    let mut t = w.begin();
    let kinds = || w.engine.read_locks_snapshot().iter().map(|l| l.kind).collect::<Vec<_>>();
    w.read(&mut t, 0).unwrap();
    w.read(&mut t, 1).unwrap();
    assert_eq!(kinds().len(), 2);
    w.read(&mut t, 2).unwrap();
    assert_eq!(kinds(), [ReadLockKind::Page(0)]);
    for row in 3..200 {
        w.read(&mut t, row).unwrap();
    }
    assert_eq!(kinds(), [ReadLockKind::Relation]);
    // The coarser lock is met by a writer of any row.
    let mut other = w.begin();
    w.read(&mut other, 7).unwrap();
    w.write(&mut t, 7, 1).unwrap();
    w.write(&mut other, 100, 1).unwrap();
    w.commit(t).unwrap();
    assert!(detail(w.commit(other)).contains("during commit attempt"));
    assert!(w.ssi().is_empty());
}

/// long -> t -> first, where `first` committed before anybody else.
#[test]
fn a_summarised_pivot_is_still_known() {
    let w = world("old-pivot", 60);
    w.engine.set_read_lock_limits(&ReadLockLimits { remembered: 0, ..ReadLockLimits::default() });
    let mut long = w.begin();
    let (mut t, mut first) = (w.begin(), w.begin());
    w.read(&mut t, 0).unwrap();
    w.write(&mut first, 0, 1).unwrap();
    w.commit(first).unwrap();
    w.write(&mut t, 40, 1).unwrap();
    w.commit(t).unwrap();
    assert!(detail(w.read(&mut long, 40)).contains("conflict out to old pivot"));
    long.rollback(&ThreadPark::new()).unwrap();
    assert!(w.ssi().is_empty());
}

/// `old` has read what `long` writes, and is summarised; `long` reads what another summarised one wrote.
#[test]
fn edges_of_summarised_ones_make_a_pivot() {
    let w = world("old-edges", 60);
    w.engine.set_read_lock_limits(&ReadLockLimits { remembered: 0, ..ReadLockLimits::default() });
    let mut long = w.begin();
    let mut writer = w.begin();
    w.write(&mut writer, 40, 1).unwrap();
    w.commit(writer).unwrap();
    let mut old = w.begin();
    w.read(&mut old, 20).unwrap();
    w.write(&mut old, 59, 1).unwrap();
    w.commit(old).unwrap();
    // long -> writer (which committed first), then old -> long.
    w.read(&mut long, 40).unwrap();
    assert!(detail(w.write(&mut long, 20, 1)).contains("pivot, during write"));
    long.rollback(&ThreadPark::new()).unwrap();
    assert!(w.ssi().is_empty());
}

#[test]
fn transactions_of_other_levels_leave_no_trace() {
    let w = world("others", 20);
    let mut serializable = w.begin();
    w.read(&mut serializable, 3).unwrap();
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let mut t = w.engine.begin(isolation, 1);
        w.read(&mut t, 5).unwrap();
        w.write(&mut t, 3, 9).unwrap();
        w.commit(t).unwrap();
    }
    assert_eq!(w.sizes(), (1, 0, 0));
    assert_eq!(w.engine.read_locks_snapshot().len(), 1);
    w.commit(serializable).unwrap();
    assert!(w.ssi().is_empty());
}

#[test]
fn who_only_reads_is_let_go_when_nobody_can_harm_it() {
    let w = world("safe", 20);
    // Nobody writes: no watching at all.
    let mut alone = w.engine.begin(Isolation::Serializable, 0);
    alone.set_serializable_modes(SerializableModes { read_only: true, ..Default::default() });
    w.read(&mut alone, 1).unwrap();
    assert_eq!(w.sizes(), (0, 0, 0));
    let mut writer = w.begin();
    let mut reader = w.engine.begin(Isolation::Serializable, 0);
    reader.set_serializable_modes(SerializableModes { read_only: true, ..Default::default() });
    w.read(&mut reader, 1).unwrap();
    assert_eq!(w.sizes().0, 2);
    w.write(&mut writer, 2, 1).unwrap();
    w.commit(writer).unwrap();
    // The writer has ended without an edge out: the reader is safe, and what it held is gone.
    assert_eq!(w.sizes().0, 0);
    w.read(&mut reader, 3).unwrap();
    assert_eq!(w.engine.read_locks_snapshot(), vec![]);
    w.commit(reader).unwrap();
    w.commit(alone).unwrap();
    assert!(w.ssi().is_empty());
}
