//! Retires entries of rows that are deleted or have other keys now.
//!
//! Must not know: why.

use super::node::{self, KeyAndRow, RETIRED};
use crate::buffer::WriteGuard;
use crate::directory::Relation;
use crate::txn::Transaction;
use crate::undo::record::{DATA_MAX, RETIRED_HEAD, UndoKind, index_data, put_retired};
use crate::wal::record::{PageOp, PageTarget};
use kilndb_base::{Result, RowId};
use std::cell::OnceCell;

/// The most bytes by which an entry grows when it gets a stamp.
pub(super) const STAMP_ROOM: usize = 10;

/// An entry that is there, on a leaf that is latched.
pub(super) struct FoundEntry<'k> {
    pub target: PageTarget,
    pub idx: usize,
    pub stamp: u64,
    pub key: KeyAndRow<'k>,
}

impl Relation {
    /// The row has another key now: marks the entry, so that it is nobody's conflict once we commit.
    pub(crate) fn entry_retire(&self, txn: &mut Transaction, key: &[u8], rid: u64) -> Result<()> {
        loop {
            let mut hint = txn.retired_at.get(self.id);
            let (block, mut page) = self.latch_leaf_by(&mut hint, KeyAndRow(key, rid))?;
            let (idx, found) = Relation::place_by(&page.view(), &mut hint, KeyAndRow(key, rid));
            txn.retired_at.set(hint);
            let Some(stamp) = found else { return Ok(()) };
            let found = FoundEntry { target: self.target(block), idx, stamp, key: KeyAndRow(key, rid) };
            if self.mark_retired(txn, &mut page, &found)? {
                return Ok(());
            }
            self.split(block, page, idx)?;
        }
    }
    /// Marks an entry of a latched leaf. False: there is no room for a stamp.
    fn mark_retired(&self, txn: &mut Transaction, page: &mut WriteGuard<'_>, found: &FoundEntry<'_>) -> Result<bool> {
        if found.stamp == 0 && node::room(page.page()) < STAMP_ROOM {
            return Ok(false);
        }
        self.restamp(txn, page, found, (UndoKind::IndexMark, RETIRED))?;
        Ok(true)
    }
    /// Gives an entry of a latched leaf a stamp that leads to this change, with these flags.
    pub(super) fn restamp(
        &self,
        txn: &mut Transaction,
        page: &mut WriteGuard<'_>,
        found: &FoundEntry<'_>,
        (kind, flags): (UndoKind, u64),
    ) -> Result<()> {
        let FoundEntry { target, idx, stamp, key: KeyAndRow(key, rid) } = *found;
        let mut record = txn.record(self, kind, 0, 0, 0, 0);
        record.data = index_data(&stamp.to_le_bytes(), rid, key);
        let entry = OnceCell::new();
        let build = |a| {
            let entry = entry.get_or_init(|| node::build(key, rid, None, a | flags));
            vec![(target, PageOp::TreeReplace { idx, entry })]
        };
        txn.change(self, &record, build, &[0], &mut [page])?;
        Ok(())
    }
    /// Removes the entry of a row that stays in its heap but is no longer to be found here, in a tree whose entries
    /// name their heaps.
    pub fn index_retire(&self, txn: &mut Transaction, key: &[u8], rid: RowId) -> Result<()> {
        let txn = txn.of(self)?;
        txn.begin_removal()?;
        self.index_retire_of(txn, key, rid)
    }
    /// Entries of this index that lead to rows which this transaction has deleted from the heap: the rows' ids, the
    /// keys.
    pub fn retire_many<'k>(
        &self,
        txn: &mut Transaction,
        heap: &Relation,
        entries: impl Iterator<Item = (RowId, &'k [u8])>,
    ) -> Result<()> {
        let txn = txn.of(self)?;
        let mut record = txn.record(self, UndoKind::IndexRetireMany, 0, 0, 0, 0);
        for (rid, key) in entries {
            let key = self.kind.kept_key(key);
            if record.data.len() + RETIRED_HEAD + key.len() > DATA_MAX {
                txn.change(self, &record, |_| Vec::new(), &[], &mut [])?;
                record = txn.record(self, UndoKind::IndexRetireMany, 0, 0, 0, 0);
            }
            if record.data.is_empty() {
                record.data.extend_from_slice(&heap.id.to_le_bytes());
            }
            put_retired(&mut record.data, rid.to_u64(), &key);
        }
        if !record.data.is_empty() {
            txn.change(self, &record, |_| Vec::new(), &[], &mut [])?;
        }
        Ok(())
    }
}
