//! Access to a row in order to change it: conflicts, waiting, the comparison with the snapshot; row locks (FOR UPDATE
//! and its kin).
//!
//! Invariants
//! 1. Conflicts are judged, and the queue is entered, under the row's page latch.
//! 2. An owner that leaves a queue lets the next one look, or takes the turn (see [`crate::locks::rows::RowTurn`]).
//!
//! Must not know: what the row is wanted for.

use super::page::{self as hp, ADDRESS, KEY_CHANGED, PIECE};
use crate::api::{RowLockMode, WaitPolicy, WriteOptions, WriteOutcome};
use crate::buffer::WriteGuard;
use crate::core::Core;
use crate::directory::Relation;
use crate::locks::rows::{AwaitedRow, RowKey};
use crate::locks::table::not_available;
use crate::locks::waiting::RowWait;
use crate::txn::table::Status;
use crate::txn::visibility::NewestVersion;
use crate::txn::{Snapshot, Transaction};
use crate::undo::record::UndoKind;
use crate::wal::record::PageOp;
use kilndb_base::park::Park;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::{Error, Result, RowId, sqlstate};
use std::sync::Arc;

/// A row that a transaction of one statement holds is looked at so often, and so long each time, before a session
/// queues for it: that one has it for some microseconds, which is less than it takes to be suspended and woken.
const SPINS: u32 = 4;
const SPIN_NANOS: u64 = 2_500;

pub(super) enum RowAcquisition<'a> {
    /// No other transaction is in the way, and the page is latched. `held` is the mode in which the transaction has the
    /// row already.
    Free {
        page: WriteGuard<'a>,
        word: u64,
        newest: NewestVersion,
        held: Option<u8>,
        waited: QueuePlace<'a>,
    },
    Missing,
    Skipped,
}

impl WriteOptions {
    /// These options for a statement that sees with `snapshot` and waits with `park`.
    pub fn with<'a>(self, snapshot: &'a Snapshot, park: &'a dyn Park) -> RowAccess<'a> {
        RowAccess { snapshot, options: self, park }
    }
}

/// How a statement gets at a row that it locks, updates or deletes.
#[derive(Clone, Copy)]
pub struct RowAccess<'a> {
    /// Versions newer than this are [`WriteOutcome::Changed`], or an error.
    pub snapshot: &'a Snapshot,
    pub options: WriteOptions,
    /// How the statement waits for transactions that have the row.
    pub park: &'a dyn Park,
}

fn serialization(what: &str) -> Error {
    Error::new(sqlstate::SERIALIZATION_FAILURE, format!("could not serialize access due to concurrent {what}"))
}

/// The place in the queue that the row was waited for in, if it was. Whoever fails, before or after the row was free,
/// gives the place up by dropping it: those behind would wait for ever. Else it goes to [`Relation::settle`].
pub(super) struct QueuePlace<'a> {
    core: &'a Core,
    owner: u64,
    place: Option<Arc<AwaitedRow>>,
}
impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.core.waits.done(self.owner);
            self.core.let_look(self.core.rows.leave_queue(&place, self.owner).next);
        }
    }
}

impl Relation {
    pub(super) fn key(&self, rid: RowId) -> RowKey {
        (self.id, rid.to_u64())
    }
    pub(super) fn acquire<'a>(
        &'a self,
        txn: &mut Transaction,
        rid: RowId,
        mode: RowLockMode,
        wait: WaitPolicy,
        park: &dyn Park,
    ) -> Result<RowAcquisition<'a>> {
        let core = &*self.core;
        let key = self.key(rid);
        let owner = txn.owner;
        let pid = self.pid(rid.block)?;
        let mut queued = QueuePlace { core, owner, place: None };
        let mut untangled = 0;
        let mut spun = 0;
        loop {
            let page = core.pool.write(pid)?;
            let word = hp::word(page.view(), usize::from(rid.slot)).filter(|w| w & PIECE == 0);
            let Some(word) = word else {
                drop(page);
                return Ok(RowAcquisition::Missing);
            };
            let newest = core.newest(word, txn.xid)?;
            let held = core.own_mode(word, txn.xid)?;
            let mut way = core.rows.in_the_way(key, owner, mode, held.is_some());
            let holder = match newest {
                NewestVersion::Held { xid, mode: m, .. } if mode_of(m).conflicts(mode) => Some(xid),
                _ => None,
            };
            if mode <= RowLockMode::Share && way.shared.is_empty() && holder.is_none() {
                // As in PostgreSQL, a transaction that wants to share a row waits only for those that hold it, not for
                // those that wait for it.
                way.ahead = None;
            }
            let newcomer = queued.place.is_none();
            if newcomer
                && txn.brief
                && holder.is_none()
                && way.shared.is_empty()
                && way.ahead.is_some()
                && core.rows.may_go_ahead(key, owner, core.env.monotonic_nanos())
            {
                way.ahead = None;
            }
            if (holder.is_none() && way.is_clear()) || matches!(newest, NewestVersion::Committed { deleted: true, .. })
            {
                if queued.place.is_some() {
                    core.waits.done(owner);
                }
                return Ok(RowAcquisition::Free { page, word, newest, held, waited: queued });
            }
            if let Some(xid) = holder
                && newcomer
                && wait == WaitPolicy::Wait
                && way.shared.is_empty()
                && spun < SPINS
                && core.xids.is_brief(xid)
            {
                drop(page);
                spun += 1;
                self.spin_for(xid);
                continue;
            }
            match wait {
                WaitPolicy::Wait => {}
                WaitPolicy::NoWait => return Err(not_available()),
                WaitPolicy::SkipLocked => return Ok(RowAcquisition::Skipped),
            }
            let token = if mode >= RowLockMode::NoKeyUpdate { txn.token } else { 0 };
            // The turn is passed on before waiting: the others may be those that wait for this transaction to take its
            // turn.
            txn.pass_turn();
            let mut first = false;
            let mut cycle = None;
            let place = core.rows.enqueue(key, owner, park.wake_handle(), token, |ahead| {
                // A waiter behind others waits for these; only the first one waits for those that have the row.
                first = ahead.is_none();
                let mut blockers: Vec<u64> = ahead.into_iter().collect();
                if first {
                    blockers.extend(&way.shared);
                    blockers.extend(holder.map(|xid| core.xids.owner(xid)));
                }
                let row = Some((key, mode));
                cycle = core.waits.wait(owner, &blockers, RowWait { xid: holder.unwrap_or(0), row, in_line: !first });
                cycle.is_none()
            });
            if let Some(xid) = holder.filter(|_| first && place.is_some()) {
                // Still under the latch: the holder cannot take its lock back unseen.
                core.rows.watch(core.xids.owner(xid), key);
            }
            drop(page);
            let refused = place.is_none();
            queued.place = place.or(queued.place.take());
            if refused {
                txn.resolve(cycle, &mut untangled)?;
                continue;
            }
            match holder {
                Some(xid) if first && !core.xids.mark_waited_for(xid) => {
                    core.let_look(core.rows.free_watched(core.xids.owner(xid)));
                    continue;
                }
                // The waiters before this one have gone meanwhile, so it looks again.
                None if first && way.shared.is_empty() => continue,
                _ => {}
            }
            // The check comes after the wake-up is arranged, because a rollback that has failed before wakes nobody any
            // more.
            let waitable = holder.map_or(Ok(()), |xid| core.unended.check(xid));
            let parked = waitable.and_then(|()| park.park(None));
            core.waits.done(owner);
            parked?;
        }
    }
    /// Waits a moment for a transaction's end, without giving way to other sessions.
    fn spin_for(&self, xid: u64) {
        let end = self.core.env.monotonic_nanos() + SPIN_NANOS;
        while self.core.xids.status(xid) == Status::InProgress && self.core.env.monotonic_nanos() < end {
            for _ in 0..8 {
                kilndb_base::sync::spin_loop();
            }
        }
    }
    /// To be called after the row was taken (exclusively or shared) or left alone: leaves the queue.
    pub(super) fn settle(&self, txn: &Transaction, rid: RowId, mut waited: QueuePlace<'_>, taken_exclusive: bool) {
        let left = match waited.place.take() {
            Some(place) => self.core.rows.leave_queue(&place, txn.owner),
            None => self.core.rows.leave(self.key(rid), txn.owner),
        };
        if !taken_exclusive {
            self.core.let_look(left.next);
        } else if left.waiting {
            self.core.rows.watch(txn.owner, self.key(rid));
            self.core.xids.mark_waited_for(txn.xid);
        }
    }
    /// To be called when the row turned out to be gone: the waiters behind wait until this transaction has taken
    /// another row, or none.
    fn settle_gone(&self, txn: &mut Transaction, rid: RowId, mut waited: QueuePlace<'_>) {
        match waited.place.take_if(|_| txn.token != 0) {
            Some(place) => {
                txn.pass_turn();
                txn.turn = self.core.rows.take_turn(&place, txn.owner, txn.token);
            }
            None => self.settle(txn, rid, waited, false),
        }
    }
    /// Judges the newest version by the snapshot and the isolation level. Some: the write is not to be done. `lock`:
    /// the row is only to be locked, in this mode.
    pub(super) fn judge(
        newest: NewestVersion,
        snapshot: &Snapshot,
        txn: &Transaction,
        latest: bool,
        lock: Option<(RowLockMode, u64)>,
    ) -> Result<Option<WriteOutcome>> {
        Ok(match newest {
            NewestVersion::Own { command, .. } if command >= snapshot.command => Some(WriteOutcome::SelfModified),
            NewestVersion::Own { deleted: true, .. } => Some(WriteOutcome::Deleted),
            NewestVersion::Own { .. } => None,
            NewestVersion::Committed { csn, deleted, moved } => {
                txn.goes_by(csn);
                let newer = csn > snapshot.csn;
                // A lock of the key (KEY SHARE) does not conflict with changes of other columns.
                if newer
                    && !deleted
                    && lock.is_some_and(|(mode, word)| mode == RowLockMode::KeyShare && word & KEY_CHANGED == 0)
                {
                    return Ok(None);
                }
                if newer && txn.isolation().keeps_snapshot() && !planted::is(PlantedBug::FirstUpdaterUnchecked) {
                    return Err(serialization(if deleted && !moved && lock.is_none() { "delete" } else { "update" }));
                }
                if newer && moved {
                    let message = "tuple to be locked was already moved to another partition due to concurrent update";
                    return Err(Error::new(sqlstate::SERIALIZATION_FAILURE, message));
                }
                if deleted {
                    Some(WriteOutcome::Deleted)
                } else if newer && !latest && !planted::is(PlantedBug::NoRecheckAfterWait) {
                    Some(WriteOutcome::Changed)
                } else {
                    None
                }
            }
            // Another transaction has only a weaker lock: nothing has changed.
            NewestVersion::Held { .. } => None,
        })
    }
    /// Writes a lock record unless the row is held as strongly.
    pub(super) fn put_lock(
        &self,
        txn: &mut Transaction,
        rid: RowId,
        mode: RowLockMode,
        word: u64,
        page: &mut WriteGuard<'_>,
    ) -> Result<()> {
        if self.core.own_mode(word, txn.xid)?.is_some_and(|m| m >= mode as u8) {
            return Ok(());
        }
        let mut old = self.core.shorten(word);
        if old & ADDRESS != 0
            && let Some((at, len)) = hp::item(page.view(), usize::from(rid.slot))
        {
            old = self.core.pruned(
                txn.worker,
                txn.xid,
                old,
                usize::from(rid.slot),
                &page.page()[at + hp::WORD..at + len],
            )?;
        }
        let record = txn.record(self, UndoKind::Lock, mode as u8, old, rid.block, rid.slot);
        let target = self.target(rid.block);
        let slot = usize::from(rid.slot);
        txn.change(
            self,
            &record,
            |a| vec![(target, PageOp::Word { slot, word: (word & !ADDRESS) | a })],
            &[0],
            &mut [page],
        )?;
        Ok(())
    }
    pub fn lock_row(
        &self,
        txn: &mut Transaction,
        rid: RowId,
        mode: RowLockMode,
        access: &RowAccess<'_>,
    ) -> Result<WriteOutcome> {
        let txn = txn.of(self)?;
        let snapshot = access.snapshot.of(self)?;
        let options = &access.options;
        txn.begin_removal()?;
        let (mut page, word, newest, waited) = match self.acquire(txn, rid, mode, options.wait, access.park)? {
            RowAcquisition::Missing => return Ok(WriteOutcome::Deleted),
            RowAcquisition::Skipped => return Ok(WriteOutcome::Skipped),
            RowAcquisition::Free { page, word, newest, waited, .. } => (page, word, newest, waited),
        };
        let verdict = match Relation::judge(newest, snapshot, txn, options.latest, Some((mode, word))) {
            Ok(v) => v,
            Err(e) => {
                drop(page);
                self.settle(txn, rid, waited, false);
                return Err(e);
            }
        };
        if let Some(outcome @ (WriteOutcome::Deleted | WriteOutcome::SelfModified)) = verdict {
            drop(page);
            if outcome == WriteOutcome::Deleted {
                self.settle_gone(txn, rid, waited);
            } else {
                self.settle(txn, rid, waited, false);
            }
            return Ok(outcome);
        }
        let exclusive = mode >= RowLockMode::NoKeyUpdate;
        if exclusive {
            self.put_lock(txn, rid, mode, word, &mut page)?;
            txn.lead_to(self.key(rid));
        } else if self.core.own_mode(word, txn.xid)?.is_none() {
            let key = self.key(rid);
            if !self.core.rows.has_shared(key, txn.owner, mode) {
                // If there was a savepoint, rows may have to be given back one by one.
                txn.shared.extend(self.core.rows.add_shared(key, txn.owner, mode, txn.had_savepoint));
            }
        }
        drop(page);
        self.settle(txn, rid, waited, exclusive);
        Ok(verdict.unwrap_or(WriteOutcome::Done))
    }
}

pub fn mode_of(number: u8) -> RowLockMode {
    match number & 3 {
        0 => RowLockMode::KeyShare,
        1 => RowLockMode::Share,
        2 => RowLockMode::NoKeyUpdate,
        _ => RowLockMode::Update,
    }
}
