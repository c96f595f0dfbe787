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

use super::page::{self as hp, ADDRESS, PIECE};
use crate::directory::Relation;
use crate::page::at;
use crate::txn::Snapshot;
use crate::txn::visibility::NewestVersion;
use crate::undo::record::{UndoKind, UndoRecord};
use kilndb_base::hash::HashMap;
use kilndb_base::park::Park;
use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::Ordering::SeqCst;
use kilndb_base::{Error, Result, RowId};
use std::sync::Arc;

/// Sets of slots are kept apart by their blocks' numbers, so that writers of different blocks seldom wait for each other.
const SHARDS: usize = 64;

/// Slots of a block, a bit for each.
type SlotBits = Vec<u64>;

/// The rows that have changed since they were last taken.
pub(crate) struct ChangedRows {
    shards: [Mutex<HashMap<u32, SlotBits>>; SHARDS],
}

impl Default for ChangedRows {
    fn default() -> ChangedRows {
        ChangedRows { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl ChangedRows {
    fn note(&self, block: u32, slots: impl Iterator<Item = usize>) {
        let mut shard = crate::lock(&self.shards[block as usize % SHARDS]);
        let bits = shard.entry(block).or_default();
        for slot in slots {
            if slot / 64 >= bits.len() {
                bits.resize(slot / 64 + 1, 0);
            }
            bits[slot / 64] |= 1 << (slot % 64);
        }
    }

    /// All rows noted, in the order of their places. None is noted afterwards.
    fn take(&self) -> Vec<RowId> {
        let mut rows = Vec::new();
        for shard in &self.shards {
            for (block, bits) in std::mem::take(&mut *crate::lock(shard)) {
                let set = (0..bits.len() * 64).filter(|slot| bits[slot / 64] & 1 << (slot % 64) != 0);
                rows.extend(set.map(|slot| RowId { block, slot: slot as u16 }));
            }
        }
        rows.sort_unstable();
        rows
    }

    fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| crate::lock(shard).is_empty())
    }
}

impl Relation {
    /// Notes the rows that a record of a change is about. The change has just been made, and its page is latched.
    #[cold]
    pub(crate) fn note_changed(&self, record: &UndoRecord) {
        let Some(rows) = crate::lock(&self.changed_rows).clone() else { return };
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
        let horizon = self.heap.core.undo.horizon();
        for block in 0..self.heap.pages() {
            let words = self.heap.items(block, |v| {
                let slots = 1..=v.u16(at::COUNT);
                let words = slots.filter_map(|slot| Some((slot, hp::word(v, slot)?)));
                words.filter(|(_, word)| word & PIECE == 0 && word & ADDRESS >= horizon).collect::<Vec<_>>()
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
                    self.rows.note(block, std::iter::once(slot));
                }
            }
            if block.is_multiple_of(64) {
                park.checkpoint()?;
            }
        }
        Ok(())
    }

    fn sees_newest(&self, word: u64, snapshot: &Snapshot) -> Result<bool> {
        Ok(match self.heap.core.newest(word, snapshot.xid)? {
            NewestVersion::Committed { csn, .. } => csn <= snapshot.csn,
            NewestVersion::Own { command, .. } => command < snapshot.command,
            NewestVersion::Held { .. } => false,
        })
    }

    /// Notes a row again of which the snapshot does not see the newest version. To be called after the row was read with
    /// the snapshot.
    pub fn note_if_unsettled(&self, rid: RowId, snapshot: &Snapshot) -> Result<()> {
        let word = self.heap.row_word(rid)?;
        if let Some(word) = word.filter(|word| word & PIECE == 0)
            && !self.sees_newest(word, snapshot)?
        {
            self.rows.note(rid.block, std::iter::once(usize::from(rid.slot)));
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
