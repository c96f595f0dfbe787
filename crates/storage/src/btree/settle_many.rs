//! Takes the changes of a record of several entries back, or purges the entries that it has retired: those of one leaf
//! under one latch.
//!
//! Invariants
//! 1. Each entry is dealt with as [`super::search`] does it for a record of its own.
//! 2. Entries that were on one leaf when the record was written may be on several by now, so each leaf has a log record
//!    of its own, and a rollback goes on with this record until the last one is written.
//!
//! Must not know: why.

#[cfg(test)]
mod tests;

use super::node::{self, FenceSide, KeyAndRow};
use crate::buffer::WriteGuard;
use crate::core::RollbackStep;
use crate::directory::Relation;
use crate::entry_changes::EntryChange;
use crate::heap::page::ADDRESS;
use crate::undo::entries::{LeafChange, LeafChanges};
use crate::wal::record::PageOp;
use kilndb_base::Result;
use kilndb_base::planted::{self, PlantedBug};
use std::iter::Peekable;

/// What is to be done with an entry that is there.
enum Settlement {
    Keep,
    Remove,
    /// It gets the stamp that it had.
    Restamp(u64),
    /// Somebody who has not finished has changed it.
    InTheWay,
}

/// What is done with the entries of one leaf: positions from the first one on, as they are before anything is done.
#[derive(Default)]
struct LeafSettlement {
    /// A position, and the entry that is to stand there; None: it is removed.
    steps: Vec<(usize, Option<Vec<u8>>)>,
    is_blocked: bool,
}

impl Relation {
    /// Takes back what the record at this address has done to entries of this tree.
    pub(crate) fn entries_take_back(&self, changes: LeafChanges<'_>, address: u64, step: RollbackStep) -> Result<()> {
        let judge = |change: &LeafChange<'_>, stamp: u64| {
            Ok(match change.what {
                EntryChange::Insert => Settlement::Remove,
                EntryChange::Retire if planted::is(PlantedBug::RestampForgotten) => Settlement::Keep,
                EntryChange::Retire if stamp & ADDRESS == address => Settlement::Restamp(change.replaced),
                EntryChange::Retire => Settlement::Keep,
            })
        };
        let mut rest = changes.iter().peekable();
        while rest.peek().is_some() {
            let RollbackStep { xid, next } = step;
            self.settle_leaf(&mut rest, &judge, |is_last| {
                Some(RollbackStep { xid, next: if is_last { next } else { address } })
            })?;
        }
        Ok(())
    }
    /// Removes the entries that the record at this address has retired. False: somebody who has not finished has changed
    /// one of them, and may take that back.
    pub(crate) fn entries_purge(&self, changes: LeafChanges<'_>, address: u64) -> Result<bool> {
        let judge = |_: &LeafChange<'_>, stamp: u64| {
            if stamp & ADDRESS == address {
                return Ok(Settlement::Remove);
            }
            Ok(if self.is_stamp_final(stamp)? { Settlement::Keep } else { Settlement::InTheWay })
        };
        let mut rest = changes.iter().filter(|change| change.what == EntryChange::Retire).peekable();
        while rest.peek().is_some() {
            if !self.settle_leaf(&mut rest, &judge, |_| None)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
    /// Deals with the entries of the first change's leaf. `rollback` says, given whether the record is done with then, how
    /// a rollback goes on. False: the entry whose turn it was cannot be dealt with yet.
    fn settle_leaf<'c>(
        &self,
        rest: &mut Peekable<impl Iterator<Item = LeafChange<'c>>>,
        judge: &dyn Fn(&LeafChange<'_>, u64) -> Result<Settlement>,
        rollback: impl FnOnce(bool) -> Option<RollbackStep>,
    ) -> Result<bool> {
        let Some(first) = rest.next() else { return Ok(true) };
        let (block, mut page) = self.latch_node(0, KeyAndRow(first.key, first.rid))?;
        let settlement = self.judge_leaf(&page, first, rest, judge)?;
        let is_empty = self.make_settlement(block, &mut page, &settlement, rollback(rest.peek().is_none()))?;
        drop(page);
        if is_empty {
            self.unlink_empty(block)?;
        }
        Ok(!settlement.is_blocked)
    }
    fn judge_leaf<'c>(
        &self,
        page: &WriteGuard<'_>,
        first: LeafChange<'c>,
        rest: &mut Peekable<impl Iterator<Item = LeafChange<'c>>>,
        judge: &dyn Fn(&LeafChange<'_>, u64) -> Result<Settlement>,
    ) -> Result<LeafSettlement> {
        let view = page.view();
        let mut settlement = LeafSettlement::default();
        let is_here =
            |change: &LeafChange<'_>| node::side(&view, KeyAndRow(change.key, change.rid)) == FenceSide::Inside;
        let mut next = Some(first);
        while let Some(change) = next {
            let entry = KeyAndRow(change.key, change.rid);
            if let Some((idx, stamp)) = Relation::find_exact(&view, entry) {
                match judge(&change, stamp)? {
                    Settlement::Keep => {}
                    Settlement::Remove => {
                        settlement.steps.push((idx, None));
                        self.note_removal(change.key);
                    }
                    Settlement::Restamp(old) => {
                        settlement.steps.push((idx, Some(node::build(change.key, change.rid, None, old))));
                    }
                    Settlement::InTheWay => {
                        settlement.is_blocked = true;
                        break;
                    }
                }
            }
            next = rest.next_if(is_here);
        }
        Ok(settlement)
    }
    /// Does it, with one log record. True: a purge has left the leaf, which is not the root, empty.
    fn make_settlement(
        &self,
        block: u32,
        page: &mut WriteGuard<'_>,
        settlement: &LeafSettlement,
        rollback: Option<RollbackStep>,
    ) -> Result<bool> {
        if settlement.steps.is_empty() {
            return Ok(false);
        }
        let target = self.target(block);
        let mut removed = 0;
        let mut ops = Vec::with_capacity(settlement.steps.len());
        for (idx, entry) in &settlement.steps {
            let idx = idx - removed;
            ops.push(match entry {
                Some(entry) => (target, PageOp::TreeReplace { idx, entry }),
                None => (target, PageOp::TreeRemove { idx }),
            });
            removed += usize::from(entry.is_none());
        }
        let which = vec![0; ops.len()];
        match rollback {
            Some(step) => self.core.emit_compensate(self, step, &ops, &which, &mut [&mut *page])?,
            None => self.core.emit_plain(self, 0, &ops, &which, &mut [&mut *page])?,
        }
        Ok(rollback.is_none() && block != 0 && node::count(&page.view()) == 0)
    }
}
