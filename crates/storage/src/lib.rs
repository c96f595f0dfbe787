//! Pages, buffer pool, heap, B+tree, undo, transactions, locks, log, checkpoint, recovery, check.
//!
//! Must not know: SQL values, types, plans, sessions, sockets. It compares bytes.
//!
//! (API sketch, to be replaced by re-exports of the modules that implement it.)
#![allow(unused_variables, dead_code)]

use kilndb_base::env::Env;
use kilndb_base::park::Park;
use kilndb_base::{Csn, Lsn, RelationId, Result, RowId, Severity, Xid};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone)]
pub struct EngineConfig {
    pub data_dir: PathBuf,
    pub shared_buffers_bytes: u64,
    pub wal_buffers_bytes: u64,
    pub max_wal_size_bytes: u64,
    pub checkpoint_timeout_s: u64,
    pub checkpoint_completion_target: f64,
    pub wal_writer_delay_ms: u64,
    pub fsync: bool,
    /// Insertion targets and undo streams are kept per worker.
    pub workers: usize,
    /// Where recovery progress, checkpoints and warnings are told.
    pub log: Arc<dyn Fn(Severity, &str) + Send + Sync>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation { ReadCommitted, RepeatableRead }
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelationKind { Heap, BTree, Cell }
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence { Logged, Unlogged, Temporary }

pub struct Engine {}
/// A storage relation, cheap to keep in a cached plan.
pub struct Relation {}
/// One transaction. Owned by its session. Dropping an unfinished one rolls it back.
pub struct Transaction {}
/// What a statement sees. Cheap to clone; registered while any clone lives.
#[derive(Clone)]
pub struct Snapshot {}
/// A place in the transaction to roll back to; costs nothing until used.
#[derive(Clone, Copy)]
pub struct Savepoint {}

impl Engine {
    /// Creates the cluster if `data_dir` is empty, else recovers it.
    pub fn open(env: Arc<dyn Env>, config: EngineConfig) -> Result<Arc<Engine>> { todo!() }
    /// True if `open` made a new cluster.
    pub fn is_new(&self) -> bool { todo!() }
    pub fn begin(self: &Arc<Self>, isolation: Isolation, worker: usize) -> Transaction { todo!() }
    pub fn checkpoint(&self, park: &dyn Park) -> Result<()> { todo!() }
    /// Final checkpoint, then stops the background threads.
    pub fn shutdown(&self) -> Result<()> { todo!() }

    /// Transactional: gone again if `txn` rolls back.
    pub fn create_relation(&self, txn: &mut Transaction, kind: RelationKind, persistence: Persistence) -> Result<Arc<Relation>> { todo!() }
    /// Takes effect at commit.
    pub fn drop_relation(&self, txn: &mut Transaction, id: RelationId) -> Result<()> { todo!() }
    pub fn relation(&self, id: RelationId) -> Result<Arc<Relation>> { todo!() }

    /// Waits until everything up to `csn` is on disk.
    pub fn wait_flushed(&self, lsn: Lsn, park: &dyn Park) { todo!() }
    pub fn flushed_lsn(&self) -> Lsn { todo!() }
    pub fn insert_lsn(&self) -> Lsn { todo!() }
    pub fn oldest_snapshot(&self) -> Csn { todo!() }
}

impl Relation {
    pub fn id(&self) -> RelationId { todo!() }
    pub fn pages(&self) -> u32 { todo!() }
    pub fn kind(&self) -> RelationKind { todo!() }
    pub fn persistence(&self) -> Persistence { todo!() }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitMode {
    /// Returns the LSN to wait for (with `Engine::wait_flushed`) before the client is told.
    Sync,
    Async,
}

impl Transaction {
    /// The xid, given now if the transaction has none yet.
    pub fn assign_xid(&mut self) -> Xid { todo!() }
    pub fn xid(&self) -> Option<Xid> { todo!() }
    /// READ COMMITTED: call at each statement. REPEATABLE READ: the first call decides.
    pub fn take_snapshot(&mut self) -> Snapshot { todo!() }
    /// Later commands of this transaction see what was written before this call; a snapshot taken
    /// after it does.
    pub fn next_command(&mut self) { todo!() }
    pub fn savepoint(&mut self) -> Savepoint { todo!() }
    /// Undoes everything since; row locks taken since are released.
    pub fn rollback_to(&mut self, savepoint: &Savepoint, park: &dyn Park) -> Result<()> { todo!() }
    /// After this the locks are handed over and the changes are visible to new snapshots. Returns the LSN to wait for
    /// (None: nothing to wait for).
    pub fn commit(&mut self, mode: CommitMode, park: &dyn Park) -> Result<Option<Lsn>> { todo!() }
    pub fn rollback(&mut self, park: &dyn Park) -> Result<()> { todo!() }
    /// The LSN that must be flushed before results of this transaction's reads may leave (None: nothing unflushed was seen).
    pub fn unflushed_seen(&self) -> Option<Lsn> { todo!() }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetched {
    Invisible,
    /// `recheck`: reached through an index, the caller must compare the row's key with the entry's.
    Visible { recheck: bool },
}

/// Rows of one page (or more), copied out.
#[derive(Default)]
pub struct RowBatch {
    pub bytes: Vec<u8>,
    /// Row id, start and end in `bytes`.
    pub rows: Vec<(RowId, u32, u32)>,
}

/// Heap reads. `out` is cleared first.
impl Relation {
    pub fn fetch(&self, rid: RowId, snapshot: &Snapshot, out: &mut Vec<u8>) -> Result<Fetched> { todo!() }
    /// The newest version that is committed or this transaction's own, whatever the snapshot; false if deleted.
    pub fn fetch_latest(&self, txn: &Transaction, rid: RowId, out: &mut Vec<u8>) -> Result<bool> { todo!() }
    /// Visible rows of one block (as of its current contents). Scan: for block in 0..pages().
    pub fn scan_block(&self, block: u32, snapshot: &Snapshot, batch: &mut RowBatch) -> Result<()> { todo!() }
    pub fn count_block(&self, block: u32, snapshot: &Snapshot) -> Result<u32> { todo!() }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitPolicy { Wait, NoWait, SkipLocked }
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowLockMode { KeyShare, Share, NoKeyUpdate, Update }

/// Outcome of update, delete and lock_row. 40001 at REPEATABLE READ, 40P01, 55P03 (NoWait) and cancellation are errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteOutcome {
    Done,
    /// READ COMMITTED: the version the snapshot saw is no longer the newest. The row is now locked for this
    /// transaction: read it with `fetch_latest`, re-evaluate, and call again with `latest = true`, or leave it.
    Changed,
    /// Deleted by a committed transaction.
    Deleted,
    /// Changed by this very command already.
    SelfModified,
    /// SkipLocked and somebody else has it.
    Skipped,
}

/// An index entry that dies with a row version: index, key bytes.
pub type RetiredKey<'a> = (&'a Relation, &'a [u8]);

pub struct WriteOptions {
    pub wait: WaitPolicy,
    /// The caller has re-evaluated the newest version: don't compare with the snapshot.
    pub latest: bool,
    /// UPDATE that changes no key column (lock mode NO KEY UPDATE) or one that does (UPDATE).
    pub key_update: bool,
}

/// Heap writes.
impl Relation {
    pub fn insert(&self, txn: &mut Transaction, row: &[u8]) -> Result<RowId> { todo!() }
    /// Bulk form: fills whole pages, one log record each. Row ids in order.
    pub fn insert_many(&self, txn: &mut Transaction, rows: &RowBatch, out: &mut Vec<RowId>) -> Result<()> { todo!() }
    /// `retired`: index entries that the new row no longer has.
    pub fn update(&self, txn: &mut Transaction, rid: RowId, snapshot: &Snapshot, row: &[u8], retired: &[RetiredKey<'_>], options: &WriteOptions, park: &dyn Park) -> Result<WriteOutcome> { todo!() }
    /// `retired`: all index entries of the row.
    pub fn delete(&self, txn: &mut Transaction, rid: RowId, snapshot: &Snapshot, retired: &[RetiredKey<'_>], options: &WriteOptions, park: &dyn Park) -> Result<WriteOutcome> { todo!() }
    pub fn lock_row(&self, txn: &mut Transaction, rid: RowId, snapshot: &Snapshot, mode: RowLockMode, options: &WriteOptions, park: &dyn Park) -> Result<WriteOutcome> { todo!() }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uniqueness { NotUnique, Unique }
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexInsert { Inserted, Conflict(RowId) }

/// B+tree.
impl Relation {
    /// `heap` is where the row ids lead (to see who is alive). Waits for undecided conflicting rows.
    pub fn index_insert(&self, txn: &mut Transaction, heap: &Relation, key: &[u8], rid: RowId, uniqueness: Uniqueness, park: &dyn Park) -> Result<IndexInsert> { todo!() }
    /// A live (committed, own, or undecided: then waited for) row with this key, for ON CONFLICT and foreign keys.
    pub fn index_find_live(&self, txn: &mut Transaction, heap: &Relation, key: &[u8], park: &dyn Park) -> Result<Option<RowId>> { todo!() }
    /// Builds an empty index from entries sorted by (key, rid). Replaces its contents.
    pub fn index_build(&self, txn: &mut Transaction, entries: &mut dyn Iterator<Item = Result<(Vec<u8>, RowId)>>, park: &dyn Park) -> Result<()> { todo!() }
    pub fn index_scan(self: &Arc<Self>, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>, backward: bool) -> IndexScan { todo!() }
}

/// A range scan; holds no latch between calls. Bounds compare whole keys: pass a prefix with a byte
/// appended (0xFF…) or the successor of the prefix as upper bound for prefix scans.
pub struct IndexScan {}
impl IndexScan {
    /// Appends up to about one leaf's entries: keys into `keys` (end offsets in `ends`) and row ids. False at the end.
    pub fn next_batch(&mut self, keys: &mut Vec<u8>, ends: &mut Vec<u32>, rids: &mut Vec<RowId>) -> Result<bool> { todo!() }
}

/// Cells: a few bytes of state outside of transactions, for sequences.
impl Relation {
    pub fn cell_read(&self) -> Result<Vec<u8>> { todo!() }
    /// Changes the cell under its latch; the change is logged if `log_it` says so for the new contents (it is then redone after a crash).
    pub fn cell_modify<R>(&self, f: &mut dyn FnMut(&mut Vec<u8>) -> Result<(R, bool)>) -> Result<R> { todo!() }
}

/// PostgreSQL's eight table lock modes, in order of strength (1 = ACCESS SHARE … 8 = ACCESS EXCLUSIVE).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockMode { AccessShare = 1, RowShare, RowExclusive, ShareUpdateExclusive, Share, ShareRowExclusive, Exclusive, AccessExclusive }
/// What is locked: the caller's own numbering (class, and two numbers).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LockTag(pub u32, pub u64, pub u64);
impl Transaction {
    /// Held until the transaction ends (or rolls back to a savepoint before it). Ok(false): NoWait/SkipLocked and not free.
    pub fn lock(&mut self, tag: LockTag, mode: LockMode, wait: WaitPolicy, park: &dyn Park) -> Result<bool> { todo!() }
}

/// Verifies every structure of a cluster that no server has open; returns what is wrong.
pub fn check(env: Arc<dyn Env>, data_dir: PathBuf) -> Result<Vec<String>> { todo!() }
