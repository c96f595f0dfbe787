//! Changes the entries of many updated rows: those that belong to one leaf under one latch.
//!
//! Invariants
//! 1. Each entry is retired as [`super::retire`] does it and inserted as [`super::insert`] does it in an index that is
//!    not unique: what is shared is the latch, the way to the leaf and the record.
//!
//! Must not know: which statement it is.

use super::node::{self, FenceSide, KeyAndRow, MAX_KEY, RETIRED};
use super::retire::{FoundEntry, STAMP_ROOM};
use crate::ahead;
use crate::buffer::WriteGuard;
use crate::directory::Relation;
use crate::entry_changes::{EntryChange, EntryChanges};
use crate::page::{PAGE, PageView};
use crate::txn::Transaction;
use crate::undo::entries;
use crate::undo::record::{DATA_MAX, UndoKind};
use crate::wal::record::PageOp;
use kilndb_base::Result;

/// Entries changed under one latch: others wait for it.
const AT_ONCE: usize = 64;
/// A record does not grow beyond this unless its first change does: what does not fit the rest of an undo page begins the
/// next one.
const RECORD_BYTES: usize = PAGE / 4;
const _: () = assert!(RECORD_BYTES <= DATA_MAX);
/// Leaves changed before the caller looks whether it is to stop.
const LEAVES: usize = 32;

/// What became of the entries of one leaf.
enum LeafOutcome {
    /// Those that are left belong elsewhere, or others want the latch.
    Changed,
    /// The leaf must be split before the entry at this position.
    Full(usize),
}

impl Relation {
    /// Makes some of the changes, from the first that is left on.
    pub(crate) fn tree_change_many(&self, txn: &mut Transaction, changes: &mut EntryChanges) -> Result<()> {
        let txn = txn.of(self)?;
        txn.begin_write()?;
        let mut near = 0;
        for _ in 0..LEAVES {
            let Some((_, key, rid)) = changes.next() else { break };
            Relation::check_key(key)?;
            let (block, mut page) = self.latch_leaf_near(near, KeyAndRow(key, rid))?;
            // Most leaves are changed by a statement that has gathered many entries, so the next one is needed soon.
            near = node::right(&page.view());
            ahead::fetch_page(self, near);
            let mut inserted = Vec::new();
            let outcome = self.change_leaf(txn, block, &mut page, changes, &mut inserted)?;
            match outcome {
                LeafOutcome::Changed => drop(page),
                LeafOutcome::Full(idx) => {
                    near = block;
                    self.split(block, page, idx)?;
                }
            }
            for (key, rid) in inserted {
                txn.wrote_key(self, &key, rid)?;
            }
        }
        Ok(())
    }
    /// `inserted` gets what whoever reads the index in a serializable transaction must be told of.
    fn change_leaf(
        &self,
        txn: &mut Transaction,
        block: u32,
        page: &mut WriteGuard<'_>,
        changes: &mut EntryChanges,
        inserted: &mut Vec<(Vec<u8>, u64)>,
    ) -> Result<LeafOutcome> {
        let mut plan = LeafPlan::of(&page.view());
        let mut outcome = LeafOutcome::Changed;
        for _ in 0..AT_ONCE {
            let Some((what, key, rid)) = changes.next() else { break };
            let entry_key = KeyAndRow(key, rid);
            let view = page.view();
            if key.len() > MAX_KEY || node::side(&view, entry_key) != FenceSide::Inside {
                break;
            }
            let (idx, found) = Relation::place_of(&view, entry_key);
            match (what, found) {
                (EntryChange::Retire, None) => {}
                (EntryChange::Insert, Some(stamp)) if stamp & RETIRED == 0 && !plan.is_last(entry_key) => {
                    self.dead_prefixes.inserted(key, rid);
                }
                (EntryChange::Insert, Some(stamp)) => {
                    // What the record says of an entry holds for the leaf as it was, so this one's turn comes after it.
                    if !plan.is_empty() {
                        break;
                    }
                    let target = self.target(block);
                    self.revive(txn, page, &FoundEntry { target, idx, stamp, key: entry_key })?;
                }
                (_, found) => match plan.add(what, (idx, found.unwrap_or(0)), entry_key) {
                    PlanOutcome::Added => {}
                    PlanOutcome::RecordFull => break,
                    PlanOutcome::LeafFull => {
                        outcome = LeafOutcome::Full(plan.idx_now(idx));
                        break;
                    }
                },
            }
            if what == EntryChange::Insert && txn.reader.is_some() {
                inserted.push((key.to_vec(), rid));
            }
            changes.advance(what);
        }
        self.make_planned(txn, block, page, plan)?;
        Ok(outcome)
    }
    /// Makes the changes of a leaf with one undo record.
    fn make_planned(&self, txn: &mut Transaction, block: u32, page: &mut WriteGuard<'_>, plan: LeafPlan) -> Result<()> {
        if plan.is_empty() {
            return Ok(());
        }
        let mut record = txn.record(self, UndoKind::IndexChangeMany, 0, 0, 0, 0);
        record.data = plan.changes;
        let build = |address| {
            let op = PageOp::TreeChangeMany { stamp: address | RETIRED, changes: &record.data };
            vec![(self.target(block), op)]
        };
        txn.change(self, &record, build, &[0], &mut [page])?;
        let changes = record.leaf_changes()?;
        for change in changes.iter().filter(|change| change.what == EntryChange::Insert) {
            self.dead_prefixes.inserted(change.key, change.rid);
        }
        Ok(())
    }
}

/// What became of a change that was to go into a plan.
enum PlanOutcome {
    Added,
    /// The record would be too long, or has a change of the same entry.
    RecordFull,
    /// The leaf must be split first.
    LeafFull,
}

/// Changes of a leaf that are to be made at once.
struct LeafPlan {
    /// As [`crate::undo::entries`] has them.
    changes: Vec<u8>,
    /// The room that the leaf has once they are made.
    room: usize,
    inserted: usize,
    /// Where the last change's key begins, and its row.
    last: (usize, u64),
}

impl LeafPlan {
    fn of(leaf: &PageView) -> LeafPlan {
        LeafPlan { changes: Vec::new(), room: node::room_of(leaf), inserted: 0, last: (0, 0) }
    }
    fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
    fn is_last(&self, KeyAndRow(key, rid): KeyAndRow<'_>) -> bool {
        !self.is_empty() && self.last.1 == rid && self.changes.get(self.last.0..) == Some(key)
    }
    /// The position of an entry once the changes are made; all of them are of entries before it.
    fn idx_now(&self, idx: usize) -> usize {
        idx + self.inserted
    }
    /// Adds the change of an entry whose position on the unchanged leaf and stamp are these.
    fn add(&mut self, what: EntryChange, (idx, stamp): (usize, u64), entry: KeyAndRow<'_>) -> PlanOutcome {
        let KeyAndRow(key, rid) = entry;
        let is_long = !self.is_empty() && self.changes.len() + entries::change_len(key) > RECORD_BYTES;
        if is_long || self.is_last(entry) {
            return PlanOutcome::RecordFull;
        }
        let needed = match what {
            EntryChange::Insert => node::PLAIN_HEAD + key.len() + node::SLOT,
            EntryChange::Retire if stamp == 0 => STAMP_ROOM,
            EntryChange::Retire => 0,
        };
        let Some(room) = self.room.checked_sub(needed) else { return PlanOutcome::LeafFull };
        self.room = room;
        let change = entries::LeafChange { what, idx: self.idx_now(idx), rid, replaced: stamp, key };
        entries::put_change(&mut self.changes, &change);
        self.last = (self.changes.len() - key.len(), rid);
        self.inserted += usize::from(what == EntryChange::Insert);
        PlanOutcome::Added
    }
}
