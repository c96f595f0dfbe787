//! Changes of an inverted index by statements, rollback and purge.
//!
//! Invariants
//! 1. The undo record comes first, with the row's history or the first piece of its terms; pieces after it are found by
//!    it.
//! 2. A row is pending once its first piece says how many there are and all of them are there; before that nobody
//!    merges it.
//!
//! Must not know: what terms mean.

use super::entry::{self, Posting, RowHistory};
use crate::btree::node::{self, KeyAndRow};
use crate::core::Core;
use crate::core::RollbackStep;
use crate::directory::Relation;
use crate::page::PageView;
use crate::txn::Transaction;
use crate::undo::record::{UndoKind, UndoRecord};
use crate::wal::record::PageOp;
use kilndb_base::bytes::{ByteReader, put_varint};
use kilndb_base::sync::atomic::Ordering::Relaxed;
use kilndb_base::{Error, Result, RowId};
use std::sync::Arc;

/// A transaction's change of a row's terms: the data of an undo record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TermsChange {
    pub row: u64,
    /// The generation that the transaction found; None: none, the row is new.
    pub old: Option<u32>,
    /// The one it made; None: none, the row is deleted.
    pub new: Option<u32>,
}

impl TermsChange {
    fn bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(10);
        let number = |generation: Option<u32>| generation.map_or(0, |g| u64::from(g) + 1);
        put_varint(&mut out, self.row);
        put_varint(&mut out, number(self.old));
        put_varint(&mut out, number(self.new));
        out
    }
    pub(crate) fn of(record: &UndoRecord) -> Result<TermsChange> {
        let mut r = ByteReader::new(&record.data);
        let row = r.varint();
        let mut generation = || r.varint().and_then(|n| u32::try_from(n).ok());
        match (row, generation(), generation()) {
            (Some(row), Some(old), Some(new)) => {
                Ok(TermsChange { row, old: old.checked_sub(1), new: new.checked_sub(1) })
            }
            _ => Err(UndoRecord::bad()),
        }
    }
}

/// Index and bytes of the entry that begins with `own`, on the leaf where it would be.
pub(super) fn find_own<'v>(v: &'v PageView, own: &[u8]) -> (usize, Option<&'v [u8]>) {
    let idx = node::lower_bound(v, KeyAndRow(own, 0));
    let found = node::entry(v, idx).filter(|e| idx < node::count(v) && e.key.starts_with(own));
    (idx, found.map(|e| e.key))
}

impl Relation {
    pub(super) fn state(&self) -> Result<&super::InvertedState> {
        self.method_state
            .of()
            .ok_or_else(|| Error::internal(format!("storage relation {} is no inverted index", self.id)))
    }
    /// A new row: it is found under these terms (sorted, each once).
    pub(super) fn inverted_insert(&self, txn: &mut Transaction, rid: RowId, terms: &[Vec<u8>]) -> Result<()> {
        self.put_terms(txn, rid.to_u64(), true, terms)
    }
    /// The row has other terms now. None: it is in the index no longer, and its deletion need not be told of.
    pub(super) fn inverted_update(&self, txn: &mut Transaction, rid: RowId, terms: &[Vec<u8>]) -> Result<()> {
        self.put_terms(txn, rid.to_u64(), false, terms)
    }
    /// The row, which the transaction has just deleted, is to be found here no longer once it has committed.
    pub(super) fn inverted_delete(&self, txn: &mut Transaction, rid: RowId) -> Result<()> {
        let txn = txn.of(self)?;
        txn.begin_removal()?;
        let row = rid.to_u64();
        let old = self.history(row)?.present;
        let mut record = txn.record(self, UndoKind::OfMethod, 0, 0, 0, 0);
        record.data = TermsChange { row, old, new: None }.bytes();
        txn.change(self, &record, |_| Vec::new(), &[], &mut [])?;
        txn.purge = true;
        Ok(())
    }
    fn put_terms(&self, txn: &mut Transaction, row: u64, is_new: bool, terms: &[Vec<u8>]) -> Result<()> {
        let txn = txn.of(self)?;
        txn.begin_write()?;
        // Most rows were never anything else: then their generation is 0, and there is no history to write.
        let generation = match is_new && self.history_entry(row)?.is_none() {
            true => 0,
            false => self.begin_generation(txn, row, is_new)?,
        };
        // A row that is not in a partial index any more: its deletion will not be told of.
        if terms.is_empty() {
            return Ok(());
        }
        let pieces = entry::pending_pieces((row, generation), terms)?;
        for (piece, number) in pieces.iter().zip(0..) {
            let is_first = number == 0 && generation == 0;
            self.put_piece(
                piece,
                if is_first { Some((&mut *txn, TermsChange { row, old: None, new: Some(0) })) } else { None },
            )?;
        }
        let state = self.state()?;
        state.pending_rows.fetch_add(1, Relaxed);
        state.pending_bytes.fetch_add(pieces.iter().map(|p| p.len() as u64).sum(), Relaxed);
        Ok(())
    }
    fn put_piece(&self, piece: &[u8], mut undo: Option<(&mut Transaction, TermsChange)>) -> Result<()> {
        let entry = node::build(piece, 0, None, 0);
        loop {
            let (block, mut page) = self.latch_node(0, KeyAndRow(piece, 0))?;
            let idx = node::lower_bound(&page.view(), KeyAndRow(piece, 0));
            if node::room(page.page()) < entry.len() + 2 {
                self.split(block, page, idx)?;
                continue;
            }
            let op = (self.target(block), PageOp::TreeInsert { idx, entry: &entry });
            let Some((txn, change)) = undo.take() else {
                return self.core.emit_plain(self, 0, &[op], &[0], &mut [&mut page]);
            };
            let mut record = txn.record(self, UndoKind::OfMethod, 0, 0, 0, 0);
            record.data = change.bytes();
            txn.change(self, &record, |_| vec![op], &[0], &mut [&mut page])?;
            return Ok(());
        }
    }
    /// Notes the row's next generation as the present one.
    fn begin_generation(&self, txn: &mut Transaction, row: u64, is_new: bool) -> Result<u32> {
        let own = RowHistory::own(row);
        loop {
            let (block, mut page) = self.latch_node(0, KeyAndRow(&own, 0))?;
            let v = page.view();
            let (idx, found) = find_own(&v, &own);
            let mut history = match found {
                Some(key) => RowHistory::parse(key).ok_or_else(entry::damaged)?,
                None if is_new => RowHistory::default(),
                None => RowHistory::none(),
            };
            let old = history.present.filter(|_| !is_new);
            let new = history.next();
            history.present = Some(new);
            let entry = node::build(&history.bytes(row), 0, None, 0);
            if node::room(page.page()) + found.map_or(0, |key| key.len() + 8) < entry.len() + 2 {
                self.split(block, page, idx)?;
                continue;
            }
            let replaces = found.is_some();
            let op = if replaces {
                PageOp::TreeReplace { idx, entry: &entry }
            } else {
                PageOp::TreeInsert { idx, entry: &entry }
            };
            let mut record = txn.record(self, UndoKind::OfMethod, 0, 0, 0, 0);
            record.data = TermsChange { row, old, new: Some(new) }.bytes();
            let target = self.target(block);
            txn.change(self, &record, |_| vec![(target, op)], &[0], &mut [&mut page])?;
            txn.purge |= old.is_some();
            return Ok(new);
        }
    }
    fn history_entry(&self, row: u64) -> Result<Option<RowHistory>> {
        let own = RowHistory::own(row);
        let found = self.read_leaf(KeyAndRow(&own, 0), |v| find_own(v, &own).1.map(RowHistory::parse))?;
        found.map(|history| history.ok_or_else(entry::damaged)).transpose()
    }
    /// The history of a row that exists.
    pub(super) fn history(&self, row: u64) -> Result<RowHistory> {
        Ok(self.history_entry(row)?.unwrap_or_else(RowHistory::none))
    }
    /// Changes a row's history; `rollback`: transaction and the rest of its chain. An entry that says nothing goes.
    pub(super) fn amend_history(
        &self,
        row: u64,
        amend: impl Fn(&mut RowHistory),
        rollback: Option<RollbackStep>,
    ) -> Result<()> {
        let own = RowHistory::own(row);
        loop {
            let (block, mut page) = self.latch_node(0, KeyAndRow(&own, 0))?;
            let v = page.view();
            let (idx, found) = find_own(&v, &own);
            let before = match found {
                Some(key) => RowHistory::parse(key).ok_or_else(entry::damaged)?,
                None => RowHistory::none(),
            };
            let mut history = before.clone();
            amend(&mut history);
            let entry = node::build(&history.bytes(row), 0, None, 0);
            let op = match (found, history.is_plain()) {
                (None, true) => return Ok(()),
                (Some(_), true) => PageOp::TreeRemove { idx },
                (Some(_), false) if history == before => return Ok(()),
                (Some(key), false) if node::room(page.page()) + key.len() + 8 >= entry.len() + 2 => {
                    PageOp::TreeReplace { idx, entry: &entry }
                }
                (None, false) if node::room(page.page()) >= entry.len() + 2 => {
                    PageOp::TreeInsert { idx, entry: &entry }
                }
                _ => {
                    self.split(block, page, idx)?;
                    continue;
                }
            };
            let ops = [(self.target(block), op)];
            match rollback {
                Some(step) => self.core.emit_compensate(self, step, &ops, &[0], &mut [&mut page])?,
                None => self.core.emit_plain(self, 0, &ops, &[0], &mut [&mut page])?,
            }
            let is_empty = node::count(&page.view()) == 0 && block != 0;
            drop(page);
            if is_empty && rollback.is_none() {
                self.unlink_empty(block)?;
            }
            return Ok(());
        }
    }
    /// Takes pending entries of a row out, from one generation to another; false: the first piece of none was there.
    fn take_pending(self: &Arc<Self>, row: u64, first: u32, last: u32) -> Result<bool> {
        let mut pieces = Vec::new();
        self.each_between(
            entry::pending_own((row, first), 0),
            entry::pending_own((row, last), u16::MAX),
            &mut |key, _| {
                pieces.extend(entry::split_pending(key).map(|(posting, piece, _)| (posting, piece)));
                Ok(true)
            },
        )?;
        let mut found = false;
        for (posting, piece) in pieces {
            // The first one first: others without it belong to nothing, whatever comes in between.
            found |= self.remove_own(&entry::pending_own(posting, piece))? && piece == 0;
        }
        Ok(found)
    }
    /// Is the first piece of the row there? A writer begins with that one.
    pub(super) fn is_pending(&self, posting: Posting) -> Result<bool> {
        let own = entry::pending_own(posting, 0);
        self.read_leaf(KeyAndRow(&own, 0), |v| find_own(v, &own).1.is_some())
    }
    pub(super) fn remove_own(&self, own: &[u8]) -> Result<bool> {
        let (block, mut page) = self.latch_node(0, KeyAndRow(own, 0))?;
        let (idx, is_there) = {
            let view = page.view();
            let (idx, found) = find_own(&view, own);
            (idx, found.is_some())
        };
        if !is_there {
            return Ok(false);
        }
        self.core.emit_plain(self, 0, &[(self.target(block), PageOp::TreeRemove { idx })], &[0], &mut [&mut page])?;
        let is_empty = node::count(&page.view()) == 0 && block != 0;
        drop(page);
        if is_empty {
            self.unlink_empty(block)?;
        }
        Ok(true)
    }
    /// A generation is dead, and the history is amended. `present`: what the row's generation is from now on.
    fn bury(
        self: &Arc<Self>,
        posting: Posting,
        present: impl Fn(Option<u32>) -> Option<u32>,
        rollback: Option<RollbackStep>,
    ) -> Result<()> {
        let state = self.state()?;
        let merging = crate::lock(&state.merging);
        let is_sure = state.is_sure.load(Relaxed);
        // A row whose merge an earlier process has cut off may have postings although it is pending.
        let was_pending =
            !merging.contains(posting.0) && self.take_pending(posting.0, posting.1, posting.1)? && is_sure;
        let amend = |history: &mut RowHistory| {
            history.present = present(history.present);
            if !was_pending {
                history.add_dead(posting.1, posting.1);
            }
        };
        self.amend_history(posting.0, amend, rollback)?;
        if !was_pending {
            state.dead.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

impl Relation {
    /// The row is gone for everybody, with its generations up to this one. Its history says so until nobody may speak
    /// of them any more.
    fn bury_row(self: &Arc<Self>, row: u64, last: u32) -> Result<()> {
        let state = self.state()?;
        let merging = crate::lock(&state.merging);
        if !merging.contains(row) {
            self.take_pending(row, 0, u32::MAX)?;
        }
        let amend = |history: &mut RowHistory| {
            history.present = history.present.filter(|present| *present > last);
            history.add_dead(0, last);
        };
        self.amend_history(row, amend, None)?;
        state.dead.fetch_add(1, Relaxed);
        Ok(())
    }
}

impl Core {
    pub(super) fn undo_terms(&self, relation: &Arc<Relation>, record: &UndoRecord) -> Result<()> {
        let change = TermsChange::of(record)?;
        let Some(new) = change.new else { return Ok(()) };
        let present = |now: Option<u32>| if now == Some(new) { change.old } else { now };
        relation.bury((change.row, new), present, Some(RollbackStep { xid: record.xid, next: record.prev }))
    }
    /// Purges what a committed transaction has replaced, which no snapshot sees any more.
    pub(super) fn purge_terms(&self, relation: &Arc<Relation>, record: &UndoRecord) -> Result<()> {
        let change = TermsChange::of(record)?;
        let Some(old) = change.old else { return Ok(()) };
        if change.new.is_some() {
            // Begun again after a crash, it may find the row another one with the same generation.
            if relation.history(change.row)?.present == Some(old) {
                return Ok(());
            }
            return relation.bury((change.row, old), |now| now, None);
        }
        let Some(heap) = self.directory.get(relation.heap.load(Relaxed)) else { return Ok(()) };
        if !Core::is_deleted(&heap, change.row)? {
            return Ok(());
        }
        relation.bury_row(change.row, old)
    }
}
