//! SERIALIZABLE: serializable snapshot isolation. Transactions run on snapshots. Their reads and overlaps are tracked,
//! and a transaction that could be part of an anomaly fails with 40001 (docs/decisions/0010).
//!
//! Invariants
//! 1. Transactions of other isolation levels pay one branch on a field of their own, and touch nothing here.
//! 2. The graph's mutex is taken to begin, to end, and for each new edge; not to read, and not to write what nobody has
//!    read. No other mutex is held when it is taken; while it is held the log is appended to.
//! 3. A transaction is found by its xid from before its first change can be seen until no transaction is left that
//!    overlapped it.
//!
//! Must not know: SQL, sessions.

mod graph;
pub(crate) mod hooks;
pub(crate) mod locks;
pub(crate) mod ranges;
#[cfg(test)]
mod tests;

use crate::api::SerializableModes;
use crate::core::Core;
use crate::directory::{Directory, Relation};
use graph::{ConflictGraph, ConflictReason, EndedTransactions, SnapshotStanding};
use kilndb_base::park::WakeHandle;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use kilndb_base::sync::{Arc, Mutex, MutexGuard};
use kilndb_base::{Error, Result, RowId, sqlstate};
use locks::{OwnReadLocks, ReadLockInfo, ReadLockLimits, ReadLocks};

/// A serializable transaction as others meet it. Lives on after its end, until nobody is left who overlapped it.
pub struct Reader {
    /// The moment of its snapshot, in the graph's order.
    id: u64,
    /// Number of its owner in the lock table; the caller's number for its session.
    owner: u64,
    session: u64,
    /// The moment of its commit; 0: it has not committed.
    commit: AtomicU64,
    snapshot_csn: AtomicU64,
    /// The xid; 0: the transaction has not written.
    xid: AtomicU64,
    doomed: AtomicBool,
    /// Declared so; or has committed without writing.
    read_only: AtomicBool,
    wrote: AtomicBool,
    /// READ ONLY, and nobody can make it part of an anomaly any more; or somebody has.
    safe: AtomicBool,
    unsafe_snapshot: AtomicBool,
    summarised: AtomicBool,
    stands_for_many: bool,
    held: Mutex<OwnReadLocks>,
    /// The edges that the transaction's own session has found already.
    found: Mutex<EdgeCache>,
}
#[derive(Default)]
struct EdgeCache {
    /// Transactions with an edge from this one, by xid; and to this one, by id.
    outs: kilndb_base::hash::HashSet<u64>,
    ins: kilndb_base::hash::HashSet<u64>,
}

impl Reader {
    fn new(id: u64, owner: u64, read_only: bool) -> Reader {
        Reader {
            id,
            owner,
            session: 0,
            commit: AtomicU64::new(0),
            snapshot_csn: AtomicU64::new(0),
            xid: AtomicU64::new(0),
            doomed: AtomicBool::new(false),
            read_only: AtomicBool::new(read_only),
            wrote: AtomicBool::new(false),
            safe: AtomicBool::new(false),
            unsafe_snapshot: AtomicBool::new(false),
            summarised: AtomicBool::new(false),
            stands_for_many: false,
            held: Mutex::default(),
            found: Mutex::default(),
        }
    }
    /// Stands for committed ones that are not remembered one by one.
    fn for_many(number: u64) -> Reader {
        let mut reader = Reader::new(u64::MAX - number, 0, false);
        reader.stands_for_many = true;
        reader.summarised = AtomicBool::new(true);
        reader
    }
    fn committed_at(&self) -> Option<u64> {
        Some(self.commit.load(Acquire)).filter(|at| *at != 0)
    }
    fn is_doomed(&self) -> bool {
        self.doomed.load(Acquire)
    }
    fn doom(&self) {
        self.doomed.store(true, Release);
    }
    fn is_read_only(&self) -> bool {
        self.read_only.load(Relaxed)
    }
    /// Is the transaction READ ONLY and part of no possible anomaly?
    pub(crate) fn is_safe(&self) -> bool {
        self.safe.load(Acquire)
    }
    /// Is the transaction READ ONLY and possibly part of an anomaly?
    pub(crate) fn is_unsafe(&self) -> bool {
        self.unsafe_snapshot.load(Acquire)
    }
}

fn failure(reason: &str) -> Error {
    Error::new(
        sqlstate::SERIALIZATION_FAILURE,
        "could not serialize access due to read/write dependencies among transactions",
    )
    .with_detail(format!("Reason code: {reason}"))
    .with_hint("The transaction might succeed if retried.")
}
fn refused(reason: ConflictReason) -> Error {
    failure(&match reason {
        ConflictReason::PivotDuringWrite => "Canceled on identification as a pivot, during write.".into(),
        ConflictReason::PivotDuringRead(xid) => format!("Canceled on conflict out to pivot {xid}, during read."),
        ConflictReason::PivotDuringCommit => "Canceled on identification as a pivot, during commit attempt.".into(),
        ConflictReason::PivotWithOldOut(xid) => {
            format!("Canceled on identification as a pivot, with conflict out to old committed transaction {xid}.")
        }
        ConflictReason::OldPivot => "Canceled on conflict out to old pivot.".into(),
        ConflictReason::OldPivotNamed(xid) => format!("Canceled on conflict out to old pivot {xid}."),
    })
}

const XID_SHARDS: usize = 64;
/// Committed transactions that one reader stands for, and how many such there are.
const FOLDED_EACH: usize = 512;
const FOLDS: usize = 8;

#[derive(Default)]
struct FoldedReaders {
    readers: Vec<Arc<Reader>>,
    /// How many transactions the last one stands for.
    count: usize,
    made: u64,
}

/// The state that all serializable transactions share.
pub(crate) struct Ssi {
    graph: Mutex<ConflictGraph>,
    locks: ReadLocks,
    xids: Vec<Mutex<kilndb_base::hash::HashMap<u64, Arc<Reader>>>>,
    folds: Mutex<FoldedReaders>,
    /// Transactions in the graph or summarised, about: 0 means that there are none.
    about: AtomicUsize,
    remembered: AtomicUsize,
    /// Is there anything in `folds`?
    folded: AtomicBool,
}
impl Default for Ssi {
    fn default() -> Ssi {
        let ssi = Ssi {
            graph: Mutex::default(),
            locks: ReadLocks { table: Default::default(), limits: Default::default() },
            xids: (0..XID_SHARDS).map(|_| Mutex::default()).collect(),
            folds: Mutex::default(),
            about: AtomicUsize::new(0),
            remembered: AtomicUsize::new(0),
            folded: AtomicBool::new(false),
        };
        ssi.set_limits(&ReadLockLimits::default());
        ssi
    }
}

impl Ssi {
    pub(crate) fn set_limits(&self, limits: &ReadLockLimits) {
        self.locks.limits.set(limits);
        self.remembered.store(limits.remembered, Relaxed);
    }
    /// Takes a snapshot with `take` (its CSN comes back) and begins to watch. None: it needs no watching.
    pub fn begin<T>(
        &self,
        owner: u64,
        modes: SerializableModes,
        waiter: Option<WakeHandle>,
        take: impl FnOnce() -> (T, u64),
    ) -> (T, Option<Arc<Reader>>) {
        let mut graph = crate::lock(&self.graph);
        let begun = graph.begin(owner, modes, waiter);
        // The count is raised before the snapshot is taken: a cleanup must see that a transaction may need what it
        // would drop.
        self.count(&graph);
        let (taken, csn) = take();
        match begun {
            SnapshotStanding::Safe => (taken, None),
            SnapshotStanding::Tracked(reader) => {
                reader.snapshot_csn.store(csn, Relaxed);
                (taken, Some(reader))
            }
        }
    }
    fn xid_shard(&self, xid: u64) -> &Mutex<kilndb_base::hash::HashMap<u64, Arc<Reader>>> {
        &self.xids[xid as usize % XID_SHARDS]
    }
    pub(crate) fn note_xid(&self, reader: &Arc<Reader>, xid: u64) {
        reader.xid.store(xid, Release);
        crate::lock(self.xid_shard(xid)).insert(xid, reader.clone());
    }
    fn by_xid(&self, xid: u64) -> Option<Arc<Reader>> {
        crate::lock(self.xid_shard(xid)).get(&xid).cloned()
    }
    /// Is there no serializable transaction, and none that others may still overlap?
    pub fn is_idle(&self) -> bool {
        self.about.load(SeqCst) == 0
    }
    /// Whether what this transaction wrote may still be met by somebody serializable who does not see it.
    pub fn minds(&self, xid: u64) -> bool {
        !self.is_idle() && (self.by_xid(xid).is_some() || crate::lock(&self.graph).is_summarised(xid))
    }
    /// The oldest snapshot of a serializable transaction that is watched.
    pub(crate) fn oldest_snapshot(&self) -> Option<u64> {
        if self.is_idle() { None } else { crate::lock(&self.graph).oldest_snapshot() }
    }
    /// 40001 if somebody has decided so; false if the reader need not be watched (any more).
    fn goes_on(&self, core: &Core, reader: &Arc<Reader>, doing: &str) -> Result<bool> {
        if reader.is_doomed() {
            return Err(failure(&format!("Canceled on identification as a pivot, during {doing}.")));
        }
        if reader.is_safe() {
            self.locks.release(reader, &core.directory);
            return Ok(false);
        }
        Ok(true)
    }
    /// The reader met a version that it does not see, by this transaction.
    fn read_past(&self, reader: &Arc<Reader>, xid: u64) -> Result<()> {
        if xid == reader.xid.load(Relaxed) || crate::lock(&reader.found).outs.contains(&xid) {
            return Ok(());
        }
        let writer = self.by_xid(xid);
        let mut graph = crate::lock(&self.graph);
        match writer.filter(|w| graph.contains(w.id)) {
            Some(writer) => graph.conflict_out(reader, &writer),
            None => graph.conflict_out_to_old(reader, xid),
        }
        .map_err(refused)?;
        drop(graph);
        crate::lock(&reader.found).outs.insert(xid);
        Ok(())
    }
    /// Notes that the writer has written what these readers have read.
    fn written_over(&self, writer: &Arc<Reader>, readers: &[Arc<Reader>]) -> Result<()> {
        for reader in readers {
            if Arc::ptr_eq(reader, writer) || crate::lock(&writer.found).ins.contains(&reader.id) {
                continue;
            }
            crate::lock(&self.graph).flag(reader, writer, writer).map_err(refused)?;
            if !reader.stands_for_many {
                crate::lock(&writer.found).ins.insert(reader.id);
            }
        }
        Ok(())
    }
    /// The last check; the transaction commits while the value returned lives.
    pub fn commit<'a>(&'a self, reader: &'a Arc<Reader>) -> Result<SerializableCommit<'a>> {
        let mut graph = crate::lock(&self.graph);
        graph.before_commit(reader).map_err(refused)?;
        Ok(SerializableCommit { ssi: self, graph, reader })
    }
    /// Drops a reader that was rolled back or found to be safe.
    pub fn forget(&self, core: &Core, reader: &Arc<Reader>) {
        let mut graph = crate::lock(&self.graph);
        reader.doom();
        let left = graph.forget(reader);
        self.count(&graph);
        drop(graph);
        self.settle(core, left);
        // The locks are released here in case the reader was not in the graph any more.
        self.locks.release(reader, &core.directory);
    }
    fn settle(&self, core: &Core, left: EndedTransactions) {
        left.wake.iter().for_each(|w| w.wake());
        for reader in left.unlocked.iter().chain(&left.gone) {
            self.locks.release(reader, &core.directory);
        }
        left.gone.iter().for_each(|reader| self.drop_xid(reader));
        for reader in &left.fold {
            self.fold(&core.directory, reader);
            self.drop_xid(reader);
        }
        if self.folded.load(Relaxed) {
            self.drop_old_folds(&core.directory);
        }
    }
    fn drop_xid(&self, reader: &Arc<Reader>) {
        let xid = reader.xid.load(Acquire);
        if xid != 0 {
            crate::lock(self.xid_shard(xid)).remove(&xid);
        }
    }
    /// While the graph is held, after it has changed.
    fn count(&self, graph: &ConflictGraph) {
        self.about.store(graph.count(), SeqCst);
    }
    fn fold(&self, directory: &Directory, reader: &Arc<Reader>) {
        let mut folds = crate::lock(&self.folds);
        if folds.count >= FOLDED_EACH || folds.readers.is_empty() {
            folds.made += 1;
            folds.count = 0;
            let next = Arc::new(Reader::for_many(folds.made));
            folds.readers.push(next);
        }
        folds.count += 1;
        self.folded.store(true, Relaxed);
        let Some(into) = folds.readers.last().cloned() else { return };
        into.commit.fetch_max(reader.commit.load(Acquire), SeqCst);
        self.locks.fold(reader, &into, directory);
        while folds.readers.len() > FOLDS {
            let oldest = folds.readers.remove(0);
            if let Some(next) = folds.readers.first() {
                next.commit.fetch_max(oldest.commit.load(Acquire), SeqCst);
                self.locks.fold(&oldest, next, directory);
            }
        }
    }
    fn drop_old_folds(&self, directory: &Directory) {
        let mut folds = crate::lock(&self.folds);
        if folds.readers.is_empty() {
            return;
        }
        let oldest = crate::lock(&self.graph).oldest_writable();
        let (old, kept) =
            std::mem::take(&mut folds.readers).into_iter().partition(|r| r.committed_at().is_none_or(|at| at < oldest));
        folds.readers = kept;
        self.folded.store(!folds.readers.is_empty(), Relaxed);
        let old: Vec<Arc<Reader>> = old;
        old.iter().for_each(|reader| self.locks.release(reader, directory));
    }

    // ---- what definitions of tables do, and what is told

    fn everybody(&self) -> Vec<Arc<Reader>> {
        let mut all = crate::lock(&self.graph).readers();
        all.extend(crate::lock(&self.folds).readers.iter().cloned());
        all
    }
    /// Notes that all rows of the table are removed at once.
    pub fn emptied(&self, core: &Core, writer: &Arc<Reader>, heap: u32) -> Result<()> {
        if !self.goes_on(core, writer, "conflict in checking")? {
            return Ok(());
        }
        writer.wrote.store(true, Relaxed);
        let readers: Vec<_> = self.everybody().into_iter().filter(|r| self.locks.holds_in(r, heap)).collect();
        self.written_over(writer, &readers)
    }
    /// Moves locks between relations: a reader of anything in `from` counts as a reader of all of `to`.
    pub(crate) fn move_locks(&self, from: u32, to: &Relation) {
        if self.is_idle() {
            return;
        }
        for reader in self.everybody() {
            if self.locks.holds_in(&reader, from) {
                self.locks.lock_whole(&reader, to);
            }
        }
    }
    pub fn list(&self) -> Vec<ReadLockInfo> {
        let mut all = Vec::new();
        self.everybody().iter().for_each(|reader| self.locks.list(reader, &mut all));
        all
    }
    pub(crate) fn waited_for(&self, owner: u64) -> Vec<u64> {
        crate::lock(&self.graph).waited_for(owner)
    }
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let graph = crate::lock(&self.graph);
        graph.size() == (0, 0, 0) && self.locks.table.is_empty() && self.xids.iter().all(|x| crate::lock(x).is_empty())
    }
}

/// A commit that nobody can come before any more.
pub(crate) struct SerializableCommit<'a> {
    ssi: &'a Ssi,
    graph: MutexGuard<'a, ConflictGraph>,
    reader: &'a Arc<Reader>,
}
impl SerializableCommit<'_> {
    /// The commit has its number and its place in the log.
    pub fn done(mut self, core: &Core) {
        let left = self.graph.committed(self.reader, self.ssi.remembered.load(Relaxed));
        self.ssi.count(&self.graph);
        drop(self.graph);
        // The edges that it knows are not needed any more.
        *crate::lock(&self.reader.found) = EdgeCache::default();
        self.ssi.settle(core, left);
    }
}

impl Ssi {
    /// See [`Transaction::wrote_row`](crate::txn::Transaction).
    fn wrote_row(
        &self,
        core: &Core,
        writer: &Arc<Reader>,
        heap: &Relation,
        rid: RowId,
        replaced_csn: Option<u64>,
        drop_lock: bool,
    ) -> Result<()> {
        if heap.reads.excluded.load(Relaxed) || !self.goes_on(core, writer, "conflict in checking")? {
            return Ok(());
        }
        writer.wrote.store(true, Relaxed);
        let mut readers = Vec::new();
        self.locks.readers_of_row(heap, rid, replaced_csn, &mut readers);
        self.written_over(writer, &readers)?;
        if drop_lock && replaced_csn.is_some() {
            self.locks.unlock_row(writer, heap, rid);
        }
        Ok(())
    }
}
