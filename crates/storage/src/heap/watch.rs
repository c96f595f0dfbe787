//! The rows of a heap that change while somebody copies it: a copy, or an index, that is made beside running writers
//! follows them by looking at these rows again.
//!
//! Invariants
//! 1. A change is noted while its page is still latched, by [`crate::txn::Transaction::change`] alone. Whoever takes the
//!    noted rows and reads their pages afterwards finds the changes.
//! 2. Rows that were changed before the watch began, by transactions that the first snapshot does not see, are found by
//!    [`ChangeWatch::note_unsettled`].
//! 3. A row whose newest version a snapshot does not see is not settled: whoever reads it with that snapshot notes it
//!    again ([`ChangeWatch::note_if_unsettled`]), because its transaction's end changes no page.
//! 4. There is one watch of a heap at a time, which the lock on its table sees to.
//!
//! Must not know: columns, keys, why somebody watches.

use super::page::{self as hp, PIECE};
use super::read::SettledWords;
use crate::changed_rows::ChangedRows;
use crate::directory::Relation;
use crate::page::at;
use crate::txn::Snapshot;
use crate::txn::visibility::NewestVersion;
use kilndb_base::park::Park;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::Ordering::SeqCst;
use kilndb_base::{Error, Result, RowId};
use std::sync::Arc;

impl Relation {
    /// All rows of which the snapshot does not see the newest version.
    pub fn rows_unsettled_for(&self, snapshot: &Snapshot, park: &dyn Park) -> Result<Vec<RowId>> {
        let mut settled = SettledWords::of(&self.core.undo);
        let mut rows = Vec::new();
        for block in 0..self.pages() {
            if self.core.pool.settled_rows(self.pid(block)?).is_some() {
                continue;
            }
            let words = self.items(block, |v| {
                let slots = 1..=v.u16(at::COUNT);
                let words = slots.filter_map(|slot| Some((slot, hp::word(v, slot)?)));
                words.filter(|(_, word)| word & PIECE == 0 && !settled.has(*word)).collect::<Vec<_>>()
            })?;
            // Most rows of a page that have a writer have the same.
            let mut last = None;
            for (slot, word) in words.unwrap_or_default() {
                let is_settled = match last {
                    Some((same, is_settled)) if same == word => is_settled,
                    _ => self.sees_newest(word, snapshot)?,
                };
                last = Some((word, is_settled));
                if !is_settled {
                    rows.push(RowId { block, slot: slot as u16 });
                }
            }
            if block.is_multiple_of(64) {
                park.checkpoint()?;
            }
        }
        Ok(rows)
    }

    /// Whether the snapshot sees the newest version of the row, or that it is gone.
    pub fn is_settled_for(&self, rid: RowId, snapshot: &Snapshot) -> Result<bool> {
        match self.row_word(rid)?.filter(|word| word & PIECE == 0) {
            Some(word) => self.sees_newest(word, snapshot),
            None => Ok(true),
        }
    }

    fn sees_newest(&self, word: u64, snapshot: &Snapshot) -> Result<bool> {
        Ok(match self.core.newest(word, snapshot.xid)? {
            NewestVersion::Committed { csn, .. } => csn <= snapshot.csn,
            NewestVersion::Own { command, .. } => command < snapshot.command,
            NewestVersion::Held { .. } => false,
        })
    }

    /// Begins to note the heap's changed rows.
    pub fn watch_changes(self: &Arc<Self>) -> Result<ChangeWatch> {
        let mut watched = crate::lock(&self.changed_rows);
        if watched.is_some() {
            return Err(Error::internal(format!("storage relation {} is watched already", self.id)));
        }
        let rows = Arc::new(ChangedRows::default());
        *watched = Some(rows.clone());
        // Whoever does not see this yet has its page latched, or changed, before the pages are looked at.
        self.is_watched.store(true, SeqCst);
        drop(watched);
        Ok(ChangeWatch { heap: self.clone(), rows })
    }
}

/// Notes the changed rows of a heap while it lives.
pub struct ChangeWatch {
    heap: Arc<Relation>,
    rows: Arc<ChangedRows>,
}

impl Drop for ChangeWatch {
    fn drop(&mut self) {
        self.heap.is_watched.store(false, SeqCst);
        *crate::lock(&self.heap.changed_rows) = None;
    }
}

impl ChangeWatch {
    /// Notes all rows of which the snapshot does not see the newest version. To be called with the first snapshot, which
    /// was taken after the watch had begun.
    pub fn note_unsettled(&self, snapshot: &Snapshot, park: &dyn Park) -> Result<()> {
        if planted::is(PlantedBug::RowsChangedBeforeForgotten) {
            return Ok(());
        }
        let rows = self.heap.rows_unsettled_for(snapshot, park)?;
        rows.iter().for_each(|rid| self.note(*rid));
        Ok(())
    }

    fn note(&self, rid: RowId) {
        self.rows.note(rid.block, std::iter::once(usize::from(rid.slot)));
    }

    /// Notes a row again of which the snapshot does not see the newest version. To be called after the row was read with
    /// the snapshot.
    pub fn note_if_unsettled(&self, rid: RowId, snapshot: &Snapshot) -> Result<()> {
        if !self.heap.is_settled_for(rid, snapshot)? && !planted::is(PlantedBug::UnsettledRowsForgotten) {
            self.note(rid);
        }
        Ok(())
    }

    /// The rows noted since this was called last, in the order of their places. A snapshot that was taken before sees no
    /// other change than of these rows and of those returned before.
    pub fn take(&self) -> Vec<RowId> {
        self.rows.take()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
