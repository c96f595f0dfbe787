//! Transactions and snapshots.
//!
//! Invariants
//! 1. A transaction has no xid, no log record and no undo until its first write.
//! 2. A transaction's memory does not grow with what it writes (but for a number per undo chunk): its undo
//!    records are chained on pages.
//! 3. Rolling back restores pages first; only then the state becomes "aborted", with a CSN of its own for the
//!    undo horizon.
//!
//! Must not know: SQL, sessions.

pub(crate) mod leaf_hints;
pub mod purge;
pub mod purge_queue;
pub mod rollback;
pub mod table;
pub mod unended;
pub mod visibility;

use crate::api::{CommitMode, Isolation, LockMode, LockTag, RelationKind, SerializableModes, WaitPolicy};
use crate::buffer::WriteGuard;
use crate::core::ReservedUndo;
use crate::core::{COMMIT_HEAD, Core};
use crate::directory::Relation;
use crate::locks::deadlock;
use crate::locks::fast::FastLock;
use crate::locks::rows::{RowKey, RowTurn};
use crate::locks::shares::SharedLock;
use crate::locks::table::{LockRequest, UNTANGLE_MAX};
use crate::locks::waits_for::WaitLink;
use crate::ssi::Reader;
use crate::trace::{self, TracedOperation};
use crate::undo::ReservedRecord;
use crate::undo::record::CHUNK;
use crate::undo::record::{UndoKind, UndoRecord};
use crate::wal::record::{PageOp, PageTarget, Record, encode};
use crate::wal::room::SpaceUse;
use kilndb_base::park::{Park, ThreadPark, WakeHandle};
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::{AtomicU64, Ordering::*};
use kilndb_base::{Csn, Error, Lsn, Result, Xid, sqlstate};
use leaf_hints::LeafHints;
use std::sync::Arc;
use table::AtomicU64Ref;

pub(crate) struct RegisteredSnapshot {
    core: Arc<Core>,
    slot: u32,
    csn: AtomicU64,
    /// The highest CSN seen whose commit was not on disk.
    pub(crate) unflushed: AtomicU64,
}
impl RegisteredSnapshot {
    fn new(core: &Arc<Core>, worker: usize, owner: u64) -> Arc<RegisteredSnapshot> {
        let (slot, csn) = core.snapshots.enter(worker, owner, &AtomicU64Ref(&core.log));
        Arc::new(RegisteredSnapshot {
            core: core.clone(),
            slot,
            csn: AtomicU64::new(csn),
            unflushed: AtomicU64::new(0),
        })
    }
}
impl Drop for RegisteredSnapshot {
    fn drop(&mut self) {
        self.core.snapshots.leave(self.slot);
    }
}

/// A snapshot: what a statement sees. It is cheap to clone, and registered while any clone lives.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) registered: Arc<RegisteredSnapshot>,
    pub(crate) csn: u64,
    pub(crate) xid: u64,
    pub(crate) command: u32,
    /// SERIALIZABLE: who is told of what is read with it.
    pub(crate) reader: Option<Arc<Reader>>,
    /// The snapshot of the session's private store.
    pub(crate) private: Option<Arc<Snapshot>>,
}
impl Snapshot {
    pub(crate) fn is_of(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.registered.core, core)
    }
    pub fn csn(&self) -> Csn {
        Csn(self.csn)
    }
}

/// A place in the transaction to roll back to; costs nothing until used.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    pub(crate) heads: [u64; 2],
    pub(crate) locks: usize,
    pub(crate) shared: usize,
    pub(crate) creates: usize,
    pub(crate) drops: usize,
    /// The savepoint in the private store.
    pub(crate) private: PrivateSavepoint,
}

/// A [`Savepoint`] in a private store, in which there are no locks to give back before the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrivateSavepoint {
    heads: [u64; 2],
    creates: usize,
    drops: usize,
}

/// A transaction, owned by its session. Dropping an unfinished one rolls it back.
pub struct Transaction {
    pub(crate) core: Arc<Core>,
    pub(crate) worker: usize,
    isolation: Isolation,
    pub(crate) owner: u64,
    /// The number of the owner belongs to the session and outlives the transaction.
    pub(crate) of_session: bool,
    /// The transaction is expected to end with its statement.
    pub(crate) brief: bool,
    pub(crate) xid: u64,
    pub(crate) command: u32,
    registered: Option<Arc<RegisteredSnapshot>>,
    fixed: bool,
    pub(crate) heads: [u64; 2],
    chunks: Vec<u64>,
    last_chunk: [u64; 2],
    pub(crate) purge: bool,
    pub(crate) logged_work: bool,
    pub(crate) creates: Vec<u32>,
    pub(crate) drops: Vec<u32>,
    /// The trees that may have entries of heaps that the transaction drops.
    pub(crate) sweeps: Vec<u32>,
    /// The changes of the catalogs, for the commit record.
    catalog_changes: Vec<u8>,
    locks: Vec<(LockTag, LockMode, Option<FastLock>)>,
    pub(crate) shared: Vec<SharedLock>,
    unflushed: u64,
    /// The LSN up to which the log must be on disk before results of this transaction may be sent, its own commit
    /// aside.
    rests_on: u64,
    ended: bool,
    pub(crate) body: Vec<u8>,
    /// The token of how the running statement looks for the rows that it locks ([`Transaction::look_alike`]); 0: no
    /// other statement looks in the same way.
    pub(crate) token: u64,
    pub(crate) turn: Option<RowTurn>,
    /// The row of this transaction that a queue was led to.
    led: Option<RowKey>,
    /// SERIALIZABLE, from the first snapshot on, unless that is safe.
    pub(crate) reader: Option<Arc<Reader>>,
    /// The modes that were declared, as of the first snapshot.
    serializable: SerializableModes,
    /// After a savepoint, writes may be rolled back while the reads still count for SERIALIZABLE.
    pub(crate) had_savepoint: bool,
    /// The transaction in the session's private store.
    pub(crate) private: Option<Box<Transaction>>,
    /// Where entries were put into trees last.
    pub(crate) inserted_at: LeafHints,
    /// Where entries of trees were retired last.
    pub(crate) retired_at: LeafHints,
}

impl Transaction {
    pub(crate) fn new(core: Arc<Core>, isolation: Isolation, worker: usize, owner: u64) -> Transaction {
        let worker = worker % core.workers();
        Transaction {
            core,
            worker,
            isolation,
            owner,
            of_session: false,
            brief: true,
            xid: 0,
            command: 0,
            registered: None,
            fixed: false,
            heads: [0; 2],
            chunks: Vec::new(),
            last_chunk: [0; 2],
            purge: false,
            logged_work: false,
            creates: Vec::new(),
            drops: Vec::new(),
            sweeps: Vec::new(),
            catalog_changes: Vec::new(),
            locks: Vec::new(),
            shared: Vec::new(),
            unflushed: 0,
            rests_on: 0,
            ended: false,
            body: Vec::new(),
            token: 0,
            turn: None,
            led: None,
            reader: None,
            serializable: SerializableModes::default(),
            had_savepoint: false,
            private: None,
            inserted_at: LeafHints::default(),
            retired_at: LeafHints::default(),
        }
    }
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }
    /// Notes that the transaction goes on after its statement, for as long as its client likes, so that others do not
    /// spin while they wait for its rows. To be called before it writes.
    pub fn begin_block(&mut self) {
        self.brief = false;
    }
    /// The number that `Engine::locks_snapshot` shows.
    pub fn lock_owner_id(&self) -> u64 {
        self.owner
    }
    /// The xid, given now if the transaction has none yet.
    pub fn assign_xid(&mut self) -> Result<Xid> {
        if self.xid == 0 {
            self.xid = match self.core.xids.assign(self.owner, self.brief) {
                Err(_) => {
                    // Streams keep the chunks that they write to, and these the ids of all that have written there.
                    self.core.undo.close_streams();
                    self.core.free_xids();
                    self.core.xids.assign(self.owner, self.brief)?
                }
                Ok(xid) => xid,
            };
            if let Some(reader) = &self.reader {
                self.core.ssi.note_xid(reader, self.xid);
            }
        }
        Ok(Xid(self.xid))
    }
    pub fn xid(&self) -> Option<Xid> {
        (self.xid != 0).then_some(Xid(self.xid))
    }
    /// Undo and status of what this transaction may look at stay while it has a registration.
    pub(crate) fn pin(&mut self) {
        if self.registered.is_none() {
            self.registered = Some(RegisteredSnapshot::new(&self.core, self.worker, self.owner));
        }
    }
    /// [`Relation::lock_row`] for a statement that looks for its rows in a way that has this number: who has the same
    /// one, and finds the same row gone, will want the same row next. The statement must call
    /// [`Transaction::pass_turn`] at its end. Only at READ COMMITTED, where a row that is gone is passed over.
    pub fn look_alike(&mut self, token: u64) {
        self.token = if self.isolation == Isolation::ReadCommitted { token } else { 0 };
    }
    /// Passes the turn on: if others sleep because this transaction was going to take a row, the next of them looks for
    /// a row itself.
    pub fn pass_turn(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.core.let_look(self.core.rows.behind(&turn));
        }
    }
    /// Leads the queue whose turn this transaction has to a row that it has just locked: the waiters wait for that row
    /// now.
    pub(crate) fn lead_to(&mut self, key: RowKey) {
        let Some(turn) = self.turn.take() else { return };
        if self.core.rows.lead_to(&turn, key) {
            self.led = Some(key);
        } else {
            self.core.let_look(self.core.rows.behind(&turn));
        }
    }
    /// Lets waiters that were led to a row look for themselves, since they may not have to wait. False: there are none.
    pub(crate) fn lead_nobody(&mut self) -> bool {
        let Some(key) = self.led.take() else { return false };
        let led = self.core.rows.dissolve(key);
        let any = !led.is_empty();
        self.core.let_look(led);
        any
    }
    /// A wait for a row would close this circle. Ok: it has been resolved, and the wait may be tried again; `untangled`
    /// counts how often another order of a queue has been tried.
    pub(crate) fn resolve(&mut self, cycle: Option<Vec<WaitLink>>, untangled: &mut usize) -> Result<()> {
        if self.lead_nobody() {
            return Ok(());
        }
        *untangled += 1;
        if let Some(cycle) = cycle {
            if *untangled < UNTANGLE_MAX && self.core.locks.untangle(&self.core.waits, &cycle, || None) {
                return Ok(());
            }
            self.core.waits.refuse(self.owner, cycle);
        }
        Err(deadlock())
    }
    /// READ COMMITTED: call at each statement. Else: the first call decides.
    pub fn take_snapshot(&mut self) -> Snapshot {
        self.pass_turn();
        let registered = match &self.registered {
            Some(r) if self.fixed && self.isolation.keeps_snapshot() => r.clone(),
            _ if self.isolation == Isolation::Serializable => self.begin_serializable(None),
            _ => self.newest_registered(),
        };
        self.fixed = true;
        let csn = registered.csn.load(Relaxed);
        let private = self.private.as_mut().map(|p| Arc::new(p.take_snapshot()));
        Snapshot { registered, csn, xid: self.xid, command: self.command, reader: self.reader.clone(), private }
    }
    /// READ COMMITTED, while none of its snapshots lives: old versions may go until it takes the next one.
    pub fn release_snapshot(&mut self) {
        if self.isolation.keeps_snapshot() || self.xid != 0 {
            return;
        }
        if let Some(r) = self.registered.take() {
            self.unflushed = self.unflushed.max(r.unflushed.load(Relaxed));
        }
    }
    /// REPEATABLE READ, before the first snapshot: reads as of another transaction's. False: it is too late, or of
    /// another kind.
    pub fn adopt_snapshot(&mut self, other: &Snapshot) -> bool {
        let can =
            !self.fixed && self.xid == 0 && self.isolation == Isolation::RepeatableRead && other.is_of(&self.core);
        if can {
            self.registered = Some(other.registered.clone());
            self.fixed = true;
        }
        can
    }
    /// The transaction's registration, brought to the newest state.
    #[inline(always)]
    fn newest_registered(&mut self) -> Arc<RegisteredSnapshot> {
        match &mut self.registered {
            Some(r) => {
                self.unflushed = self.unflushed.max(r.unflushed.load(Relaxed));
                if Arc::strong_count(r) == 1 {
                    let csn = self.core.snapshots.settle(r.slot, r.csn.load(Relaxed), &AtomicU64Ref(&self.core.log));
                    r.csn.store(csn, Relaxed);
                } else {
                    *r = RegisteredSnapshot::new(&self.core, self.worker, self.owner);
                }
                r.clone()
            }
            none => none.insert(RegisteredSnapshot::new(&self.core, self.worker, self.owner)).clone(),
        }
    }
    /// The one snapshot of a serializable transaction, which is watched from here on.
    #[cold]
    fn begin_serializable(&mut self, waiter: Option<WakeHandle>) -> Arc<RegisteredSnapshot> {
        let core = self.core.clone();
        let (registered, reader) = core.ssi.begin(self.owner, self.serializable, waiter, || {
            let registered = self.newest_registered();
            let csn = registered.csn.load(Relaxed);
            (registered, csn)
        });
        if let Some(reader) = reader.as_ref().filter(|_| self.xid != 0) {
            core.ssi.note_xid(reader, self.xid);
        }
        self.reader = reader;
        self.fixed = true;
        registered
    }
    pub fn has_snapshot(&self) -> bool {
        self.fixed
    }
    /// Sets the modes of a serializable transaction. To be called before its first snapshot.
    pub fn set_serializable_modes(&mut self, modes: SerializableModes) {
        self.serializable = modes;
    }
    /// SERIALIZABLE READ ONLY DEFERRABLE: takes the first snapshot, and waits until it is known that nothing read with
    /// it can be part of an anomaly; takes another if it turns out otherwise.
    pub fn await_safe_snapshot(&mut self, park: &dyn Park) -> Result<()> {
        loop {
            self.begin_serializable(Some(park.wake_handle()));
            let Some(reader) = self.reader.clone() else { return Ok(()) };
            let waited = loop {
                if reader.is_safe() || reader.is_unsafe() {
                    break Ok(());
                }
                // This is not a wait for a lock, so it has no deadline of its own; the condition is looked at again
                // after each wake-up.
                let limit = self.core.env.monotonic_nanos() + 3_600_000_000_000;
                if let Err(e) = park.park(Some(limit)) {
                    break Err(e);
                }
            };
            self.reader = None;
            let safe = reader.is_safe();
            self.core.ssi.forget(&self.core, &reader);
            if safe {
                return waited;
            }
            self.fixed = false;
            waited?;
        }
    }
    /// The newest committed state and the transaction's own changes, at every isolation level: for catalogs.
    pub fn catalog_snapshot(&mut self) -> Snapshot {
        let registered = match &self.registered {
            // The statement's own snapshot is not used: it must not move, and at REPEATABLE READ it is old.
            None if self.isolation == Isolation::ReadCommitted => return self.unfixed_snapshot(),
            _ => RegisteredSnapshot::new(&self.core, self.worker, self.owner),
        };
        let csn = registered.csn.load(Relaxed);
        let private = self.private.as_mut().map(|p| Arc::new(p.take_snapshot()));
        Snapshot { registered, csn, xid: self.xid, command: self.command, reader: None, private }
    }
    fn unfixed_snapshot(&mut self) -> Snapshot {
        let fixed = self.fixed;
        let snapshot = self.take_snapshot();
        self.fixed = fixed;
        snapshot
    }
    /// Changes the isolation level; false once a snapshot has been taken.
    pub fn set_isolation(&mut self, isolation: Isolation) -> bool {
        if self.fixed && isolation != self.isolation {
            return false;
        }
        self.isolation = isolation;
        true
    }
    /// Later commands of this transaction see what was written before this call; a snapshot taken
    /// after it does.
    pub fn next_command(&mut self) {
        self.command += 1;
        if let Some(private) = &mut self.private {
            private.command += 1;
        }
    }
    pub fn savepoint(&mut self) -> Savepoint {
        self.had_savepoint = true;
        Savepoint {
            heads: self.heads,
            locks: self.locks.len(),
            shared: self.shared.len(),
            creates: self.creates.len(),
            drops: self.drops.len(),
            private: self.private.as_ref().map_or(PrivateSavepoint::default(), |p| PrivateSavepoint {
                heads: p.heads,
                creates: p.creates.len(),
                drops: p.drops.len(),
            }),
        }
    }
    /// Has the transaction made and filled relations that are kept at checkpoints? Without a checkpoint that includes
    /// them, a crash would leave less than the last checkpoint had. See [`crate::Engine::checkpoint_for`].
    pub fn needs_checkpoint(&self) -> bool {
        let made = self.creates.iter().filter_map(|id| self.core.directory.get(*id)).filter(|r| r.image.is_some());
        let mut made = made.filter(|r| !self.drops.contains(&r.id));
        made.any(|r| match r.kind {
            RelationKind::Heap => r.pages() > 0,
            RelationKind::Cell => false,
            index => index.is_index() && !self.creates.contains(&r.heap.load(Relaxed)),
        })
    }
    /// Undoes everything since; row locks taken since are released.
    pub fn rollback_to(&mut self, savepoint: &Savepoint, park: &dyn Park) -> Result<()> {
        if let Some(private) = &mut self.private {
            let PrivateSavepoint { heads, creates, drops } = savepoint.private;
            let shared = private.shared.len();
            private.rollback_to(
                &Savepoint { heads, locks: 0, shared, creates, drops, private: PrivateSavepoint::default() },
                park,
            )?;
        }
        self.pass_turn();
        self.undo_to(savepoint, park)?;
        for id in self.drops.split_off(savepoint.drops.min(self.drops.len())) {
            if let Some(relation) = self.core.directory.get(id) {
                relation.dropper.store(0, Release);
            }
        }
        for id in self.creates.split_off(savepoint.creates.min(self.creates.len())) {
            self.core.directory.remove_uncommitted(&self.core, id);
        }
        self.release_locks(savepoint.locks, savepoint.shared);
        if self.xid != 0 {
            self.core.let_look(self.core.rows.free_watched(self.owner));
        }
        Ok(())
    }
    fn release_locks(&mut self, locks: usize, shared: usize) {
        while self.locks.len() > locks {
            match self.locks.pop() {
                Some((tag, mode, Some(fast))) => {
                    self.core.locks.unlock_fast(&self.core.waits, self.owner, tag, mode, &fast)
                }
                Some((tag, mode, None)) => _ = self.core.locks.unlock(&self.core.waits, self.owner, tag, mode),
                None => {}
            }
        }
        while self.shared.len() > shared {
            if let Some(lock) = self.shared.pop() {
                self.core.let_look(self.core.rows.drop_shared(&lock, self.owner));
            }
        }
    }
    /// The maximal length in bytes of what [`Transaction::set_catalog_changes`] is given.
    pub fn most_catalog_changes(&self) -> usize {
        self.core.config.limits.record_bytes - COMMIT_HEAD
    }
    /// Sets what the commit record says about changes of the catalogs, for a replayer that has caches of them. It is
    /// lost if the transaction logs nothing.
    pub fn set_catalog_changes(&mut self, changes: Vec<u8>) {
        assert!(changes.len() <= self.most_catalog_changes(), "longer than a commit record");
        self.catalog_changes = changes;
    }
    /// Commits: the locks are released and the changes are visible to new snapshots. Returns the LSN to wait for; None:
    /// there is nothing to wait for.
    pub fn commit(&mut self, mode: CommitMode, _park: &dyn Park) -> Result<Option<Lsn>> {
        if self.ended {
            return Err(Error::new(sqlstate::NO_ACTIVE_SQL_TRANSACTION, "the transaction has ended"));
        }
        let core = self.core.clone();
        let mut wait = None;
        // No other serializable transaction begins or commits while this one commits.
        let reader = self.reader.take();
        let committing = match &reader {
            Some(r) if !r.is_safe() => match core.ssi.commit(r) {
                Ok(c) => Some(c),
                Err(e) => {
                    self.reader.clone_from(&reader);
                    return Err(e);
                }
            },
            _ => None,
        };
        if self.xid != 0 {
            let asynchronous = mode == CommitMode::Async;
            let mut waited = false;
            let publish = |csn| waited = core.xids.set_committed(self.xid, csn, asynchronous);
            if self.purge {
                core.xids.set_purge(self.xid, true);
            }
            let csn = if self.logged_work {
                let drops = std::mem::take(&mut self.drops);
                for relation in drops.iter().filter_map(|id| core.directory.get(*id)) {
                    relation.doomed.store(self.xid, Release);
                }
                let catalog_changes = std::mem::take(&mut self.catalog_changes);
                let (drops_here, _hold) = core.log_drops(self.xid, &drops, catalog_changes.len());
                let (xid, purge) = (self.xid, self.purge);
                let body = encode(&Record::Commit { xid, purge, drops: drops_here, catalog_changes: &catalog_changes });
                let (lsn, csn) = core.log.append_end(&body, publish);
                if asynchronous || planted::is(PlantedBug::CommitDoesNotWait) {
                    core.log.nudge(lsn);
                } else {
                    wait = Some(Lsn(lsn));
                }
                #[cfg(test)]
                crate::stops::reach(crate::stops::StopPoint::DropsCommitted);
                self.drops = drops;
                csn
            } else if self.heads != [0; 2] || self.purge {
                core.log.next_csn(publish)
            } else {
                waited = core.xids.set_aborted(self.xid);
                0
            };
            if let Some(c) = committing {
                c.done(&core);
            }
            for id in std::mem::take(&mut self.creates) {
                if let Some(relation) = core.directory.get(id) {
                    relation.creator.store(0, Release);
                }
            }
            for id in std::mem::take(&mut self.drops) {
                core.directory.remove(&core, id);
            }
            for id in std::mem::take(&mut self.sweeps) {
                core.sweeps.push(id);
            }
            let chunks = std::mem::take(&mut self.chunks);
            if self.purge {
                core.purge.push(purge_queue::PendingPurge {
                    xid: self.xid,
                    csn,
                    heads: self.heads,
                    chunks,
                    logged: self.logged_work,
                });
            } else {
                for chunk in chunks {
                    core.undo.release(chunk, csn);
                }
            }
            if waited {
                core.let_look(core.rows.free_watched(self.owner));
            }
        } else if let Some(c) = committing {
            c.done(&core);
        }
        if let Some(reader) = reader.as_ref().filter(|r| r.is_safe()) {
            core.ssi.forget(&core, reader);
        }
        if let Some(private) = &mut self.private {
            private.commit(CommitMode::Async, _park)?;
        }
        if !core.log.is_none() {
            trace::note(|| TracedOperation::Commit { mode, is_waited_for: wait.is_some() });
        }
        self.finish();
        Ok(wait)
    }
    pub fn rollback(&mut self, park: &dyn Park) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        if let Some(reader) = self.reader.take() {
            // From here on the reader takes part in no conflict.
            self.core.ssi.forget(&self.core, &reader);
        }
        let private = match &mut self.private {
            Some(private) => private.rollback(park),
            None => Ok(()),
        };
        self.private = None;
        let start = Savepoint {
            heads: [0; 2],
            locks: 0,
            shared: 0,
            creates: 0,
            drops: 0,
            private: PrivateSavepoint::default(),
        };
        let outcome = self.rollback_to(&start, park);
        if let Err(e) = &outcome {
            // Still in progress for everybody. Where the disk is to blame, nobody but recovery can take it back: the
            // process ends.
            if is_of_disk(e) {
                self.core.log.fail(e);
            }
            if !self.core.log.is_none() {
                self.leave_unended(e);
                return outcome;
            }
            // Its rows cannot be read as they were, but no transaction must wait for it for ever.
        }
        if self.xid != 0 {
            let core = self.core.clone();
            let mut waited = false;
            let publish = |_| waited = core.xids.set_aborted(self.xid);
            let csn = if self.logged_work {
                core.log.append_end(&encode(&Record::Abort { xid: self.xid }), publish).1
            } else {
                core.log.next_csn(publish)
            };
            for chunk in std::mem::take(&mut self.chunks) {
                core.undo.release(chunk, csn);
            }
            if waited {
                core.let_look(core.rows.free_watched(self.owner));
            }
        }
        self.finish();
        outcome.and(private)
    }
    fn finish(&mut self) {
        self.pass_turn();
        self.release_locks(0, 0);
        if self.of_session {
            self.core.waits.rows_released(self.owner);
        }
        if let Some(r) = self.registered.take() {
            self.unflushed = self.unflushed.max(r.unflushed.load(Relaxed));
        }
        self.ended = true;
    }
    /// Something was done, or left alone, because of what this commit did, without a snapshot that would know of it.
    #[inline]
    pub(crate) fn goes_by(&self, csn: u64) {
        if csn > self.core.log.flushed_csn()
            && let Some(r) = &self.registered
        {
            r.unflushed.fetch_max(csn, Relaxed);
        }
    }
    /// The LSN that must be flushed before results of this transaction's reads may leave (None: nothing unflushed was
    /// seen).
    pub fn unflushed_seen(&self) -> Option<Lsn> {
        let csn = self.registered.as_ref().map_or(0, |r| r.unflushed.load(Relaxed)).max(self.unflushed);
        let commit =
            if csn <= self.core.log.flushed_csn() { None } else { self.core.log.unflushed_commit(csn).map(Lsn) };
        let other = Some(Lsn(self.rests_on)).filter(|lsn| lsn.0 > self.core.log.flushed());
        commit.max(other)
    }
    /// Notes that results of this transaction may be sent only when the log is on disk up to `lsn`, as with a number of
    /// a sequence, whose log record belongs to no transaction.
    pub fn rest_on(&mut self, lsn: Lsn) {
        if !planted::is(PlantedBug::SequenceDoesNotWait) {
            self.rests_on = self.rests_on.max(lsn.0);
        }
    }
    /// Takes a lock, which is held until the transaction ends or rolls back to a savepoint before it. Ok(false): the
    /// policy is NoWait or SkipLocked and the lock is not free.
    pub fn lock(&mut self, tag: LockTag, mode: LockMode, wait: WaitPolicy, park: &dyn Park) -> Result<bool> {
        let is_granted = self.take_lock(tag, mode, wait, park)?;
        trace::note(|| TracedOperation::Lock { tag, mode, is_granted });
        Ok(is_granted)
    }
    #[inline]
    fn take_lock(&mut self, tag: LockTag, mode: LockMode, wait: WaitPolicy, park: &dyn Park) -> Result<bool> {
        // Only the latest locks are searched: taking a lock twice is harmless, but searching a thousand locks of
        // partitions each time is not.
        if self.locks.iter().rev().take(16).any(|l| l.0 == tag && l.1 == mode) {
            return Ok(true);
        }
        if let Some(fast) = self.core.locks.lock_fast(self.worker, self.owner, &tag, mode) {
            self.locks.push((tag, mode, Some(fast)));
            return Ok(true);
        }
        self.pass_turn();
        let mut got = self.core.locks.lock(&self.core.waits, LockRequest { owner: self.owner, tag, mode, wait }, park);
        if got.as_ref().is_err_and(|e| e.sqlstate() == sqlstate::DEADLOCK_DETECTED) && self.lead_nobody() {
            got = self.core.locks.lock(&self.core.waits, LockRequest { owner: self.owner, tag, mode, wait }, park);
        }
        let got = got?;
        if got {
            self.locks.push((tag, mode, None));
        }
        Ok(got)
    }

    // ---- the writing side

    /// Everything that stays the same for the records of this command.
    pub(crate) fn record(
        &self,
        relation: &Relation,
        kind: UndoKind,
        mode: u8,
        old_word: u64,
        block: u32,
        slot: u16,
    ) -> UndoRecord {
        UndoRecord {
            kind,
            mode,
            command: self.command,
            xid: self.xid,
            prev: self.heads[usize::from(!relation.logged())],
            old_word,
            rel: relation.id,
            block,
            slot,
            data: Vec::new(),
        }
    }
    pub(crate) fn reserve<'a>(core: &'a Core, worker: usize, logged: bool, len: usize) -> Result<ReservedRecord<'a>> {
        core.undo.reserve(&core.pool, &core.directory.space, &core.log, worker, logged, len)
    }
    /// The record's chunk is held and the chain goes through it. Call while the place is still latched.
    pub(crate) fn chain(&mut self, relation: &Relation, kind: UndoKind, address: u64) {
        debug_assert!(
            self.xid != 0 && !self.ended,
            "a change by a transaction that has not begun to write, or has ended"
        );
        debug_assert!(address != 0, "a change without undo");
        let which = usize::from(!relation.logged());
        let chunk = address / CHUNK;
        if self.last_chunk[which] != chunk {
            self.last_chunk[which] = chunk;
            self.core.undo.hold(chunk, self.xid);
            self.chunks.push(chunk);
        }
        self.heads[which] = address;
        if which == 0 {
            self.logged_work = true;
        } else {
            self.core.xids.set_unlogged_head(self.xid, address);
        }
        self.purge |= kind.wants_purge();
    }
    /// Makes one undoable change: `build` makes the operations, given the record's address.
    pub(crate) fn change<'o>(
        &mut self,
        relation: &Relation,
        record: &UndoRecord,
        build: impl FnOnce(u64) -> Vec<(PageTarget, PageOp<'o>)>,
        which: &[usize],
        pages: &mut [&mut WriteGuard<'_>],
    ) -> Result<u64> {
        // The relation's is the same, and not to be counted: other threads count at the same place.
        let core = &*relation.core;
        let _gate = core.change_gate(relation);
        let place = Transaction::reserve(core, self.worker, relation.logged(), record.len())?;
        let address = place.address;
        self.chain(relation, record.kind, address);
        let ops = build(address);
        let mut body = std::mem::take(&mut self.body);
        let done = core.emit_undoable(relation, ReservedUndo { place, record, body: &mut body }, &ops, which, pages);
        self.body = body;
        done?;
        if relation.is_watched.load(SeqCst) {
            note_changed(relation, record);
        }
        Ok(address)
    }
    /// Keeps undo and snapshots' horizon where they are while it lives.
    pub(crate) fn registration(&self) -> Arc<RegisteredSnapshot> {
        match &self.registered {
            Some(r) => r.clone(),
            None => RegisteredSnapshot::new(&self.core, self.worker, self.owner),
        }
    }
    pub(crate) fn begin_write(&mut self) -> Result<()> {
        self.begin_change(SpaceUse::Takes)
    }
    /// As [`Transaction::begin_write`], for changes that free room, which are still allowed when the disk is nearly
    /// full.
    pub(crate) fn begin_removal(&mut self) -> Result<()> {
        self.begin_change(SpaceUse::Frees)
    }
    fn begin_change(&mut self, what: SpaceUse) -> Result<()> {
        self.core.log.check_room(what)?;
        if self.ended {
            return Err(Error::new(sqlstate::NO_ACTIVE_SQL_TRANSACTION, "the transaction has ended"));
        }
        self.assign_xid()?;
        self.pin();
        Ok(())
    }
}

/// Notes the rows of a watched heap that a record of a change is about. The change has just been made, and its page is
/// latched.
#[cold]
fn note_changed(relation: &Relation, record: &UndoRecord) {
    let Some(rows) = crate::lock(&relation.changed_rows).clone() else { return };
    let first = usize::from(record.slot);
    match record.kind {
        UndoKind::Insert | UndoKind::Update | UndoKind::Delete => rows.note(record.block, std::iter::once(first)),
        UndoKind::InsertRange => {
            let last = record.data.first_chunk().map_or(first, |last| usize::from(u16::from_le_bytes(*last)));
            rows.note(record.block, first..=last);
        }
        UndoKind::UpdateMany | UndoKind::DeleteMany => {
            let slots = record.rows();
            assert!(slots.is_some(), "a record of several rows names them");
            slots.into_iter().for_each(|slots| rows.note(record.block, slots.iter()));
        }
        _ => {}
    }
}

/// The disk failed, or is full: what was tried may succeed another time.
pub(crate) fn is_of_disk(e: &Error) -> bool {
    [sqlstate::IO_ERROR, sqlstate::DISK_FULL].contains(&e.sqlstate())
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.rollback(&ThreadPark::new());
            self.release_locks(0, 0);
        }
    }
}
