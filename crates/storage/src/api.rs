//! The plain types of storage's interface.
//!
//! Must not know: how any of it is done.

use crate::undo::record::CHUNK;
use kilndb_base::{Csn, Error, RelationId, Result, RowId, Severity, sqlstate};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone)]
pub struct EngineConfig {
    pub data_dir: PathBuf,
    pub shared_buffers_bytes: u64,
    /// Let wholly resident parts of the buffers be huge pages, where the system has them.
    pub huge_pages: bool,
    pub wal_buffers_bytes: u64,
    pub max_wal_size_bytes: u64,
    pub checkpoint_timeout_s: u64,
    pub checkpoint_completion_target: f64,
    pub wal_writer_delay_ms: u64,
    /// How often recovery reports its progress; 0: never.
    pub startup_progress_interval_ms: u64,
    pub fsync: bool,
    /// A damaged log is taken for one that ends there, instead of refusing to start: what follows is lost.
    pub accept_lost_log: bool,
    /// Insertion targets and undo streams are kept per worker.
    pub workers: usize,
    pub limits: StorageLimits,
    /// The sink for reports of recovery, checkpoints and warnings. A report of `Severity::Panic` says that nothing more
    /// can be made durable (a full disk, a failed sync): the process must end, and recovers at its next start.
    pub log: LogSink,
}
/// The receiver of lines for the server's log.
pub type LogSink = Arc<dyn Fn(Severity, &str) + Send + Sync>;

/// How many things of each kind there can be at a time. An operation that would exceed a limit is refused with an error
/// before it begins, unless said otherwise. Tests make the limits small in order to reach them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StorageLimits {
    /// Transaction ids between the oldest that is still needed and the newest; a power of two.
    pub xids: usize,
    /// Chunks of undo between the oldest that is still needed and the newest; a power of two.
    pub undo_chunks: usize,
    /// A stream of undo goes on in another chunk after so many bytes of one; at most
    /// [`CHUNK`].
    pub chunk_bytes: u64,
    /// The two numbers, of ids and of chunks, of a session's private store.
    pub private_xids: usize,
    pub private_undo_chunks: usize,
    /// Ids of shared relations, which are never given twice, are below this one.
    pub relation_ids: u32,
    /// Free pages that stay in the file, since they are likely to be wanted soon; more go back to the file system.
    pub free_pages_kept: u64,
    /// A list in a log record that would make it longer goes into several records; at most 64 kB.
    pub record_bytes: usize,
    /// A snapshot that so many commits have followed is old: chains are shortened, and undo compacted, beside it. Without
    /// one, discarding undo keeps chains short.
    pub old_snapshot_commits: u64,
    /// Fewer live chunks of undo are not worth compacting.
    pub compacted_chunks: usize,
}
impl Default for StorageLimits {
    fn default() -> StorageLimits {
        StorageLimits {
            xids: 1 << 30,
            undo_chunks: 1 << 24,
            chunk_bytes: CHUNK,
            private_xids: 1 << 18,
            private_undo_chunks: 1 << 20,
            relation_ids: 1 << 31,
            free_pages_kept: 8192,
            record_bytes: 1 << 16,
            old_snapshot_commits: 2000,
            compacted_chunks: 64,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}
impl Isolation {
    /// The first snapshot serves the whole transaction.
    pub fn keeps_snapshot(self) -> bool {
        self != Isolation::ReadCommitted
    }
}
/// The modes that a serializable transaction is declared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SerializableModes {
    pub read_only: bool,
    /// Transactions of different domains (databases) have nothing in common.
    pub domain: u64,
    /// The caller's number for its session, shown with its locks.
    pub session: u64,
}
macro_rules! make_relation_kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, pages: $pages:ident, has_background_work: $works:literal,
       $($method:ident)::+;)*) => {
        /// The kinds of relations. Each index method has a kind of its own.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum RelationKind {
            Heap,
            Cell,
            $($(#[$doc])* $kind,)*
        }
        impl RelationKind {
            const ALL: &[RelationKind] = &[RelationKind::Heap, RelationKind::Cell, $(RelationKind::$kind,)*];
            /// The number of the kind in the directory file and in the log.
            pub(crate) const fn number(self) -> u8 {
                match self {
                    RelationKind::Heap => 1,
                    RelationKind::Cell => 3,
                    $(RelationKind::$kind => $number,)*
                }
            }
            /// The kind number in the headers of the relation's pages.
            pub(crate) const fn page_kind(self) -> u8 {
                match self {
                    RelationKind::Heap => crate::page::KIND_HEAP,
                    RelationKind::Cell => crate::page::KIND_CELL,
                    $(RelationKind::$kind => crate::page::$pages,)*
                }
            }
            pub const fn is_index(self) -> bool {
                match self {
                    RelationKind::Heap | RelationKind::Cell => false,
                    $(RelationKind::$kind => true,)*
                }
            }
            /// Does a background thread work on indexes of this kind?
            pub(crate) const fn has_background_work(self) -> bool {
                match self {
                    RelationKind::Heap | RelationKind::Cell => false,
                    $(RelationKind::$kind => $works,)*
                }
            }
        }
    };
}
index_methods!(make_relation_kinds);

impl RelationKind {
    pub(crate) fn of_number(number: u8) -> Option<RelationKind> {
        RelationKind::ALL.iter().copied().find(|kind| kind.number() == number)
    }
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    Logged,
    /// The relation is not logged and is empty after a crash.
    Unlogged,
    /// The relation is not logged; after a crash it is as it was at the last checkpoint.
    Kept,
    Temporary,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitMode {
    /// Returns the LSN to wait for (with `Engine::wait_flushed`) before the client is told.
    Sync,
    Async,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetched {
    Invisible,
    /// `recheck`: reached through an index, the caller must compare the row's key with the entry's; so it must if the
    /// entry is retired (`IndexScan::is_retired`).
    Visible {
        recheck: bool,
    },
}

/// Rows copied out of one or more pages.
#[derive(Default, Clone)]
pub struct RowBatch {
    pub bytes: Vec<u8>,
    /// For each row: its id, its start and end in `bytes`.
    pub rows: Vec<(RowId, u32, u32)>,
}
impl RowBatch {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }
    pub fn push(&mut self, rid: RowId, row: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(row);
        self.rows.push((rid, start, self.bytes.len() as u32));
    }
    /// The row whose bytes were appended from `start` on. Error 54000: so many bytes cannot be told of.
    pub fn end_row(&mut self, rid: RowId, start: usize) -> Result<()> {
        let end = u32::try_from(self.bytes.len());
        let end = end.map_err(|_| Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "rows stored together are too long"))?;
        self.rows.push((rid, start as u32, end));
        Ok(())
    }
    pub fn row(&self, index: usize) -> &[u8] {
        let Some(&(_, a, b)) = self.rows.get(index) else { return &[] };
        self.bytes.get(a as usize..b as usize).unwrap_or(&[])
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitPolicy {
    Wait,
    NoWait,
    SkipLocked,
}
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowLockMode {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}
impl RowLockMode {
    /// Do two modes conflict? This is PostgreSQL's table of row lock conflicts.
    pub fn conflicts(self, other: RowLockMode) -> bool {
        use RowLockMode::{KeyShare, Share, Update};
        match (self, other) {
            (KeyShare, m) | (m, KeyShare) => m == Update,
            (Share, m) | (m, Share) => m != Share,
            _ => true,
        }
    }
}

/// Outcome of update, delete and lock_row. 40001 at REPEATABLE READ, 40P01, 55P03 (NoWait) and cancellation are errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteOutcome {
    Done,
    /// READ COMMITTED: the version the snapshot saw is no longer the newest. The row is now locked for this
    /// transaction: read it with `fetch_latest`, re-evaluate, and call again with `latest = true`, or leave it.
    Changed,
    /// A committed transaction has deleted the row.
    Deleted,
    /// This same command has already changed the row.
    SelfModified,
    /// The policy is SkipLocked and another transaction has the row.
    Skipped,
}

#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    pub wait: WaitPolicy,
    /// The caller has re-evaluated the newest version: don't compare with the snapshot.
    pub latest: bool,
    /// UPDATE that changes no key column (lock mode NO KEY UPDATE) or one that does (UPDATE).
    pub key_update: bool,
}
impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uniqueness {
    NotUnique,
    Unique,
    /// As `Unique`, for a row that the heap had before the index: it exists only in trees whose entries name their
    /// heaps. For other transactions the entry counts once this transaction has committed.
    UniqueFromNow,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexInsert {
    Inserted,
    Conflict(RowId),
    /// The conflicting row is in another heap.
    Elsewhere(kilndb_base::RelationId, RowId),
}

/// PostgreSQL's eight table lock modes, in order of strength (1 = ACCESS SHARE … 8 = ACCESS EXCLUSIVE).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum LockMode {
    AccessShare = 1,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}
impl LockMode {
    pub const ALL: [LockMode; 8] = [
        LockMode::AccessShare,
        LockMode::RowShare,
        LockMode::RowExclusive,
        LockMode::ShareUpdateExclusive,
        LockMode::Share,
        LockMode::ShareRowExclusive,
        LockMode::Exclusive,
        LockMode::AccessExclusive,
    ];
    /// Bit `1 << mode` for every mode that conflicts, as in PostgreSQL's manual, table 13.2.
    pub(crate) fn conflict_bits(self) -> u16 {
        const fn bits(modes: &[u16]) -> u16 {
            let mut b = 0;
            let mut i = 0;
            while i < modes.len() {
                b |= 1 << modes[i];
                i += 1;
            }
            b
        }
        match self {
            LockMode::AccessShare => bits(&[8]),
            LockMode::RowShare => bits(&[7, 8]),
            LockMode::RowExclusive => bits(&[5, 6, 7, 8]),
            LockMode::ShareUpdateExclusive => bits(&[4, 5, 6, 7, 8]),
            LockMode::Share => bits(&[3, 4, 6, 7, 8]),
            LockMode::ShareRowExclusive => bits(&[3, 4, 5, 6, 7, 8]),
            LockMode::Exclusive => bits(&[2, 3, 4, 5, 6, 7, 8]),
            LockMode::AccessExclusive => bits(&[1, 2, 3, 4, 5, 6, 7, 8]),
        }
    }
}
/// The object of a lock, in the caller's own numbering (a class and two numbers).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct LockTag(pub u32, pub u64, pub u64);
impl LockTag {
    /// The class of what is mostly taken in modes that conflict with none of each other (`AccessShare`, `RowShare`,
    /// `RowExclusive`).
    pub const MOSTLY_SHARED: u32 = 1;
}

#[derive(Clone, Copy, Default, Debug)]
pub struct WalStats {
    pub records: u64,
    pub bytes: u64,
    pub flushes: u64,
    /// How often an insertion had to wait for room in the log's buffer.
    pub buffers_full: u64,
}
/// A commit waits for others before it is flushed, so that they share the flush, if at least this many other
/// transactions are active.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct CommitDelay {
    pub delay_us: u64,
    pub siblings: usize,
}
#[derive(Clone, Copy, Default, Debug)]
pub struct BufferStats {
    pub reads: u64,
    pub evictions: u64,
    pub writes: u64,
    pub resident_pages: u64,
    pub checkpoints: u64,
}
/// A row that is updated a lot, or that somebody waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct HotRow {
    pub relation: RelationId,
    pub row: RowId,
    /// Lately, as samples tell; 0: none of its updates was sampled.
    pub updates_per_second: f64,
    pub waiters: usize,
    /// The lock owner that the first waiter waits for.
    pub holder: Option<u64>,
}
/// Commits that took about as long as each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitTimeBucket {
    pub from_us: u64,
    /// Those of this bucket took less. None: it has no upper bound.
    pub to_us: Option<u64>,
    pub samples: u64,
    /// What these samples took together.
    pub total_us: u64,
}
/// What there is of undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoUse {
    pub bytes: u64,
    /// Of these, what transactions in progress, or committed and not purged yet, may need.
    pub of_transactions_bytes: u64,
    /// Of these, what nobody needs but snapshots.
    pub of_snapshots_bytes: u64,
}
/// A snapshot that lives, and what waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveSnapshot {
    pub csn: Csn,
    /// The lock owner that has taken it.
    pub owner: u64,
    /// The transactions that have ended since.
    pub transactions_since: u64,
    /// The undo that nobody needs but this snapshot, and older ones if there are any.
    pub undo_bytes: u64,
}
/// What an inverted index has yet to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingMerge {
    pub index: RelationId,
    /// Rows that were written since the last merge began, and those that it has not done with.
    pub rows: u64,
    pub bytes: u64,
}
/// One line of pg_locks.
#[derive(Clone, Debug)]
pub struct LockInfo {
    pub tag: LockTag,
    pub owner: u64,
    pub mode: LockMode,
    pub granted: bool,
    /// The lock is held without an entry in the lock table.
    pub fast: bool,
}
