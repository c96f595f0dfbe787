//! The state that all of storage shares, and the one way in which a change is made: undo record, log record, page.
//!
//! Invariants
//! 1. Order of latches: heap or tree pages, then the undo stream, then the undo page; the log last.
//! 2. A change is in the log before its page is unlatched, so a page's LSN covers what it shows.
//!
//! Must not know: SQL.

use crate::api::EngineConfig;
use crate::btree::shrink_queue::ShrinkQueue;
use crate::btree::sweep_queue::SweepQueue;
use crate::buffer::{Pool, WriteGuard};
use crate::commit_times::CommitTimes;
use crate::directory::{Directory, Relation};
use crate::hot_rows::UpdateSamples;
use crate::locks::rows::{NextWaiter, RowLocks};
use crate::locks::{table::LockTable, waits_for::WaitGraph};
use crate::page;
use crate::space::Space;
use crate::ssi::Ssi;
use crate::stats::Stats;
use crate::trace;
use crate::tuning::{Tuning, TuningCell};
use crate::txn::purge_queue::PurgeQueue;
use crate::txn::table::{SnapshotRegistry, XidTable};
use crate::txn::unended::UnendedRollbacks;
use crate::undo::Undo;
use crate::wal::record::{PageOp, PageTarget, Record, encode, encode_change, encode_compensate};
use crate::wal::{Log, RedoHold};
use kilndb_base::env::Env;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use kilndb_base::sync::{Arc, Mutex, RwLock};
use kilndb_base::{Result, Severity};

pub(crate) struct Core {
    pub env: Arc<dyn Env>,
    pub config: EngineConfig,
    pub log: Arc<Log>,
    pub pool: Pool,
    pub directory: Directory,
    pub undo: Undo,
    pub xids: XidTable,
    pub snapshots: SnapshotRegistry,
    pub waits: WaitGraph,
    pub rows: RowLocks,
    pub locks: LockTable,
    pub ssi: Ssi,
    pub purge: PurgeQueue,
    pub sweeps: SweepQueue,
    pub shrinks: ShrinkQueue,
    /// Indexes that a background thread works on, some of which may be gone.
    pub worked_indexes: Mutex<Vec<u32>>,
    pub owners: AtomicU64,
    pub stop: AtomicBool,
    pub stats: Arc<Stats>,
    pub tuning: TuningCell,
    /// Are files synced (the setting fsync)?
    pub sync_on: Arc<AtomicBool>,
    /// The LSN from which recovery would begin after the last checkpoint that has begun.
    pub redo: AtomicU64,
    /// Held for a moment by the checkpoint that takes images; changes of kept relations hold it shared.
    pub images: RwLock<()>,
    /// A relation that is kept at checkpoints has changed since the last one began.
    pub kept_changed: AtomicBool,
    /// The LSN up to which the log of the process before was durable at least, as the start knows it.
    pub known_durable: AtomicU64,
    /// The oldest snapshot when the cleaner last looked.
    pub oldest_seen: AtomicU64,
    pub unended: UnendedRollbacks,
    pub updates: UpdateSamples,
    pub commit_times: CommitTimes,
}

/// The maximal size in bytes of a commit record before its lists: the kind, a transaction, the number of dropped
/// relations.
pub(crate) const COMMIT_HEAD: usize = 1 + 10 + 5;

/// One step of a rollback: the chain of transaction `xid` goes on at `next` afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RollbackStep {
    pub xid: u64,
    pub next: u64,
}

/// An undo record that is to be written to its reserved place, together with the change that it undoes.
pub(crate) struct ReservedUndo<'a> {
    pub place: crate::undo::ReservedRecord<'a>,
    pub record: &'a crate::undo::record::UndoRecord,
    /// A buffer for the log record, used again from change to change.
    pub body: &'a mut Vec<u8>,
}

/// The places for what transactions leave behind: how each ended, and what undoes it.
pub(crate) struct TransactionSpace {
    pub undo: Undo,
    pub xids: XidTable,
}

impl Core {
    /// A core without relations or transactions. `first_relation` is the id that the first relation gets.
    pub(crate) fn assemble(
        env: Arc<dyn Env>,
        config: EngineConfig,
        log: Arc<Log>,
        pool: Pool,
        transactions: TransactionSpace,
        first_relation: u32,
    ) -> Result<Core> {
        let TransactionSpace { undo, xids } = transactions;
        let directory = Directory::default();
        directory.next_id.store(first_relation, Relaxed);
        let pool_stats = pool.stats.clone();
        *crate::lock(&directory.space) = Space::new(pool.page_limit());
        Ok(Core {
            snapshots: SnapshotRegistry::new(config.workers.max(1) + 1)?,
            env,
            log,
            pool,
            directory,
            undo,
            xids,
            waits: Default::default(),
            rows: Default::default(),
            locks: LockTable::new(config.workers.max(1) + 1),
            ssi: Default::default(),
            purge: Default::default(),
            sweeps: Default::default(),
            shrinks: Default::default(),
            worked_indexes: Mutex::default(),
            owners: AtomicU64::new(1),
            stop: AtomicBool::new(false),
            stats: pool_stats,
            tuning: TuningCell::new(Tuning::of(&config)),
            sync_on: Arc::new(AtomicBool::new(config.fsync)),
            redo: AtomicU64::new(0),
            images: RwLock::default(),
            kept_changed: AtomicBool::new(false),
            known_durable: AtomicU64::new(0),
            oldest_seen: AtomicU64::new(u64::MAX),
            unended: UnendedRollbacks::default(),
            updates: UpdateSamples::new(config.workers.max(1) + 1),
            commit_times: CommitTimes::new(config.workers.max(1) + 1),
            config,
        })
    }
    /// Undo streams and snapshot shards: one per worker and one for background work.
    pub fn workers(&self) -> usize {
        self.config.workers.max(1) + 1
    }
    /// Wakes who is next in a queue. From here on it waits for nobody: whom it has waited for may wait for it.
    pub(crate) fn let_look(&self, next: impl IntoIterator<Item = NextWaiter>) {
        for next in next {
            self.waits.done(next.owner);
            next.wake.wake();
        }
    }
    pub fn tell(&self, severity: Severity, text: &str) {
        (self.config.log)(severity, text);
    }
    /// Gives what lies free in the file of pages back to the file system, but for a reserve.
    pub(crate) fn give_space_back(&self) -> Result<()> {
        loop {
            let kept = self.config.limits.free_pages_kept;
            let Some((start, pages)) = crate::lock(&self.directory.space).take_for_hole(kept) else { return Ok(()) };
            // The relation that the pages belonged to must be gone for good before, since recovery would look for its
            // pages.
            let flushed = self.log.flush_blocking(self.log.insert_lsn());
            let made = flushed.and_then(|()| self.pool.make_hole(start, pages));
            crate::lock(&self.directory.space).returned(start, pages, matches!(made, Ok(true)));
            if !made? {
                return Ok(());
            }
        }
    }
    /// Finds out which transaction ids nobody asks for any more, so that their places can be used again.
    pub(crate) fn free_xids(&self) {
        self.undo.discard(&self.pool, &self.directory.space, &self.log, self.visible_to_all());
        // The order matters: a transaction that begins meanwhile gets an id above all that are looked at here.
        self.xids.unfinished();
        self.xids.free_below(self.undo.oldest_xid());
    }
    /// Logs what a commit is about to drop. Returns what goes into the commit record itself; as long as the guard
    /// lives, recovery reads all of these records, or none.
    /// `with`: bytes that the commit record has besides.
    pub(crate) fn log_drops(&self, xid: u64, drops: &[u32], with: usize) -> (Vec<u32>, Option<RedoHold<'_>>) {
        // A byte for the kind, ten for the transaction, five for each relation.
        let most = ((self.config.limits.record_bytes - 11) / 5).max(1);
        if drops.len() <= most && (with == 0 || COMMIT_HEAD + 5 * drops.len() + with <= self.config.limits.record_bytes)
        {
            return (drops.to_vec(), None);
        }
        let hold = self.log.hold_redo();
        for rels in drops.chunks(most) {
            self.log.append(&encode(&Record::Doom { xid, rels: rels.to_vec() }));
        }
        #[cfg(test)]
        crate::stops::reach(crate::stops::StopPoint::DropsLogged);
        (Vec::new(), Some(hold))
    }
    pub(crate) fn new_owner(&self) -> u64 {
        self.owners.fetch_add(1, Relaxed)
    }
    fn apply(
        &self,
        relation: &Relation,
        lsn: u64,
        ops: &[(PageTarget, PageOp<'_>)],
        which: &[usize],
        pages: &mut [&mut WriteGuard<'_>],
    ) -> Result<()> {
        debug_assert!(which.len() == ops.len(), "each operation has its page");
        debug_assert!(
            lsn != 0 || !relation.logged(),
            "a change of logged relation {} without a log record",
            relation.id
        );
        if lsn == 0 {
            trace::note_unlogged_change(ops);
        }
        for (index, (target, op)) in ops.iter().enumerate() {
            let page = &mut *pages[which[index]];
            debug_assert!(
                target.rel == relation.id,
                "an operation on relation {} among those on {}",
                target.rel,
                relation.id
            );
            if let Some(image) = &relation.image {
                self.before_change(image, target.block, page.page());
            }
            op.apply(page.bytes(), *target)?;
            if relation.logged() {
                assert!(page::lsn(page.page()) <= lsn, "the log goes backwards on a page");
                page::set_lsn(page.bytes(), lsn);
            }
            page.mark_dirty();
        }
        Ok(())
    }
    /// Makes and logs a change that no rollback takes back.
    pub(crate) fn emit_plain(
        &self,
        relation: &Relation,
        xid: u64,
        ops: &[(PageTarget, PageOp<'_>)],
        which: &[usize],
        pages: &mut [&mut WriteGuard<'_>],
    ) -> Result<()> {
        let _gate = self.change_gate(relation);
        let mut lsn = 0;
        if relation.logged() {
            let mut body = Vec::with_capacity(64);
            encode_change(&mut body, xid, None, ops);
            lsn = self.log.append(&body);
        }
        self.apply(relation, lsn, ops, which, pages)
    }
    /// Makes and logs a change that takes another one back.
    pub(crate) fn emit_compensate(
        &self,
        relation: &Relation,
        step: RollbackStep,
        ops: &[(PageTarget, PageOp<'_>)],
        which: &[usize],
        pages: &mut [&mut WriteGuard<'_>],
    ) -> Result<()> {
        let RollbackStep { xid, next } = step;
        let _gate = self.change_gate(relation);
        let mut lsn = 0;
        if relation.logged() {
            let mut body = Vec::with_capacity(64);
            encode_compensate(&mut body, xid, next, ops);
            lsn = self.log.append_then(&body, || self.xids.set_head(xid, next));
        } else {
            self.xids.set_unlogged_head(xid, next);
        }
        self.apply(relation, lsn, ops, which, pages)
    }
    /// A change with its undo record, which has its place already. The caller has passed [`Core::change_gate`].
    pub(crate) fn emit_undoable(
        &self,
        relation: &Relation,
        undo: ReservedUndo<'_>,
        ops: &[(PageTarget, PageOp<'_>)],
        which: &[usize],
        pages: &mut [&mut WriteGuard<'_>],
    ) -> Result<()> {
        let ReservedUndo { place, record, body } = undo;
        debug_assert!(record.xid != 0, "an undo record of no transaction");
        debug_assert!(
            record.rel == relation.id,
            "relation {} changes with an undo record of {}",
            relation.id,
            record.rel
        );
        let mut lsn = 0;
        if relation.logged() {
            encode_change(body, record.xid, Some((place.address, record)), ops);
            let address = place.address;
            lsn = self.log.append_then(body, || self.xids.set_head(record.xid, address));
        }
        place.write(record, lsn);
        self.apply(relation, lsn, ops, which, pages)
    }
}
