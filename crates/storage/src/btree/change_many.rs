//! Changes the entries of many updated rows: those that belong to one leaf under one latch.
//!
//! Invariants
//! 1. Each entry is retired as [`super::retire`] does it and inserted as [`super::insert`] does it in an index that is
//!    not unique: only the latch and the way to the leaf are shared.
//!
//! Must not know: which statement it is.

use super::node::{self, FenceSide, KeyAndRow, MAX_KEY};
use super::retire::FoundEntry;
use crate::ahead;
use crate::buffer::WriteGuard;
use crate::directory::Relation;
use crate::entry_changes::{EntryChange, EntryChanges};
use crate::txn::Transaction;
use kilndb_base::Result;

/// Entries changed under one latch: others wait for it.
const AT_ONCE: usize = 64;
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
        let target = self.target(block);
        for _ in 0..AT_ONCE {
            let Some((what, key, rid)) = changes.next() else { break };
            let entry_key = KeyAndRow(key, rid);
            let view = page.view();
            if key.len() > MAX_KEY || node::side(&view, entry_key) != FenceSide::Inside {
                break;
            }
            let (idx, found) = Relation::place_of(&view, entry_key);
            let found = found.map(|stamp| FoundEntry { target, idx, stamp, key: entry_key });
            let has_room = match (what, found) {
                (EntryChange::Retire, None) => true,
                (EntryChange::Retire, Some(found)) => self.mark_retired(txn, page, &found)?,
                (EntryChange::Insert, Some(found)) => {
                    self.revive(txn, page, &found)?;
                    true
                }
                (EntryChange::Insert, None) => {
                    let entry = node::build(key, rid, None, 0);
                    let fits = node::room(page.page()) >= entry.len() + 2;
                    if fits {
                        self.add_entry(txn, page, (target, idx), &entry, entry_key)?;
                    }
                    fits
                }
            };
            if !has_room {
                return Ok(LeafOutcome::Full(idx));
            }
            if what == EntryChange::Insert && txn.reader.is_some() {
                inserted.push((key.to_vec(), rid));
            }
            changes.advance(what);
        }
        Ok(LeafOutcome::Changed)
    }
}
