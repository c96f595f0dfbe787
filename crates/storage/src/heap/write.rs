//! Heap writes: insert, update, delete.
//!
//! Invariants
//! 1. A row keeps its id for life. A version is made by one undo record, one log record and one change of the row's
//!    page.
//! 2. Pieces are written while no page is latched; the row is locked by then.
//! 3. Only the changed range of a row goes to undo and log.
//!
//! Must not know: columns.

use super::lock::{QueuePlace, RowAccess, RowAcquisition, mode_of};
use super::page::{self as hp, ADDRESS, DELETED, FORWARD, KEY_CHANGED, MAX_INLINE, WORD, space_of};
use super::pieces::{MAX_ROW, pointer_to};
use crate::api::{RowLockMode, WriteOutcome};
use crate::buffer::WriteGuard;
use crate::directory::Relation;
use crate::page::{KIND_HEAP, PAGE};
use crate::txn::Transaction;
use crate::txn::visibility::{MADE_FORWARD, MOVED, NewestVersion};
use crate::undo::record::{UndoKind, index_data, update_data};
use crate::wal::record::PageOp;
use crate::wal::room::SpaceUse;
use kilndb_base::sync::atomic::Ordering::*;
use kilndb_base::{Error, Result, RowId, sqlstate};

/// Blocks without a hint that are looked at before the file grows by one.
const PROBED: usize = 32;

/// An index entry that dies with a row version: index, key bytes.
pub type RetiredKey<'a> = (&'a Relation, &'a [u8]);

/// At most eight bytes as a number, the first byte lowest.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    let half = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes).map(u64::from);
    match (half(0), bytes.len().checked_sub(4).and_then(half)) {
        // The two halves overlap if there are fewer than eight bytes.
        (Some(first), Some(last)) => first | last << (8 * (bytes.len() - 4)),
        _ => bytes.iter().rev().fold(0, |word, b| word << 8 | u64::from(*b)),
    }
}
/// The lengths of the common prefix and suffix.
pub(super) fn difference(old: &[u8], new: &[u8]) -> (usize, usize) {
    if old.len() == new.len() && old.len() <= 8 {
        let differing = short_word(old) ^ short_word(new);
        if differing == 0 {
            return (old.len(), 0);
        }
        let unused = 8 - old.len();
        return (differing.trailing_zeros() as usize / 8, differing.leading_zeros() as usize / 8 - unused);
    }
    // Long values are compared by words first.
    let words = old.chunks_exact(8).zip(new.chunks_exact(8)).take_while(|(a, b)| a == b).count() * 8;
    let prefix = words + old[words..].iter().zip(&new[words..]).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[prefix..], &new[prefix..]);
    let words = old.rchunks_exact(8).zip(new.rchunks_exact(8)).take_while(|(a, b)| a == b).count() * 8;
    let (old, new) = (&old[..old.len() - words], &new[..new.len() - words]);
    let suffix = words + old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    (prefix, suffix)
}

/// A row that may be written, with its page latched.
struct WritableRow<'a> {
    page: WriteGuard<'a>,
    word: u64,
    /// The strongest in which the transaction has it.
    mode: RowLockMode,
    waited: QueuePlace<'a>,
    /// The CSN of the present version: 0 if it is so old that all see it, the highest number if it is the transaction's
    /// own.
    replaced_csn: u64,
}

impl Relation {
    /// A latched heap page where an item of `len` bytes fits.
    pub(crate) fn page_with_room(&self, worker: usize, len: usize) -> Result<(u32, WriteGuard<'_>)> {
        let target = self.insertion_target(worker);
        let mut candidate = target.load(Relaxed).checked_sub(1);
        // The worker's own page, a few hints, then what nobody has a hint for.
        for attempt in 0..6 {
            if let Some(block) = candidate
                && block < self.pages()
            {
                let page = self.core.pool.write(self.pid(block)?)?;
                if page.view().is(KIND_HEAP, self.id, block) && hp::fits(page.page(), len) {
                    // The word is written only if it changes, because other processors read it.
                    if target.load(Relaxed) != block + 1 {
                        target.store(block + 1, Relaxed);
                    }
                    return Ok((block, page));
                }
            }
            candidate = if attempt < 4 { crate::lock(&self.hints).pop() } else { None };
            if candidate.is_none() {
                let enough = space_of(len).max(PAGE / 4);
                candidate =
                    self.look_for(PROBED, |v, block| v.is(KIND_HEAP, self.id, block) && hp::room_seen(v) >= enough);
            }
            if candidate.is_none() {
                break;
            }
        }
        let (block, page) = self.extend(0)?;
        target.store(block + 1, Relaxed);
        Ok((block, page))
    }
    pub fn insert(&self, txn: &mut Transaction, row: &[u8]) -> Result<RowId> {
        let txn = txn.of(self)?;
        txn.begin_write()?;
        if row.len() > MAX_INLINE {
            return self.insert_large(txn, row);
        }
        let (block, mut page) = self.page_with_room(txn.worker, WORD + row.len())?;
        let slot = hp::next_slot(page.page(), WORD + row.len());
        assert!((1..=hp::MAX_SLOT).contains(&slot), "a page with room has a slot");
        hp::fetch_place(page.page(), slot, WORD + row.len());
        let record = txn.record(self, UndoKind::Insert, RowLockMode::Update as u8, 0, block, slot as u16);
        let target = self.target(block);
        txn.change(
            self,
            &record,
            |a| vec![(target, PageOp::Put { slot, word: a, body: row })],
            &[0],
            &mut [&mut page],
        )?;
        drop(page);
        let rid = RowId { block, slot: slot as u16 };
        txn.wrote_row(self, rid, None)?;
        Ok(rid)
    }
    fn insert_large(&self, txn: &mut Transaction, row: &[u8]) -> Result<RowId> {
        if row.len() > MAX_ROW {
            return Err(Error::new(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                format!("row is too big: size {}, maximum size {MAX_ROW}", row.len()),
            ));
        }
        let (block, mut page) = self.page_with_room(txn.worker, WORD + 6)?;
        let slot = hp::next_slot(page.page(), WORD + 6);
        let rid = RowId { block, slot: slot as u16 };
        let record = txn.record(self, UndoKind::Insert, RowLockMode::Update as u8, 0, block, rid.slot);
        let target = self.target(block);
        let build = |a| vec![(target, PageOp::Put { slot, word: a | FORWARD, body: &[0; 6] })];
        let address = txn.change(self, &record, build, &[0], &mut [&mut page])?;
        drop(page);
        let pointer = self.write_pieces(Some(txn), rid, row)?;
        let mut page = self.core.pool.write(self.pid(block)?)?;
        let op = PageOp::Patch { slot, word: address | FORWARD, off: 0, cut: 6, old: &[], new: &pointer };
        self.core.emit_plain(self, txn.xid, &[(target, op)], &[0], &mut [&mut page])?;
        drop(page);
        txn.wrote_row(self, rid, None)?;
        Ok(rid)
    }

    /// Latches the row for a write in `mode`, or in the stronger one in which it is held; Err side: the outcome if the
    /// write is not to be done.
    fn take<'a>(
        &'a self,
        txn: &mut Transaction,
        rid: RowId,
        mode: RowLockMode,
        access: &RowAccess<'_>,
    ) -> Result<std::result::Result<WritableRow<'a>, WriteOutcome>> {
        let snapshot = access.snapshot.of(self)?;
        let options = &access.options;
        txn.begin_removal()?;
        let (mut page, word, newest, held, waited) = match self.acquire(txn, rid, mode, options.wait, access.park)? {
            RowAcquisition::Missing => return Ok(Err(WriteOutcome::Deleted)),
            RowAcquisition::Skipped => return Ok(Err(WriteOutcome::Skipped)),
            RowAcquisition::Free { page, word, newest, held, waited } => (page, word, newest, held, waited),
        };
        match Relation::judge(newest, snapshot, txn, options.latest, None) {
            Ok(None) => {
                let replaced_csn = match newest {
                    NewestVersion::Committed { csn, .. } => csn,
                    NewestVersion::Own { .. } => u64::MAX,
                    NewestVersion::Held { .. } => 0,
                };
                let mode = held.map_or(mode, |held| mode.max(mode_of(held)));
                Ok(Ok(WritableRow { page, word, mode, replaced_csn, waited }))
            }
            Ok(Some(WriteOutcome::Changed)) => {
                self.put_lock(txn, rid, mode, word, &mut page)?;
                drop(page);
                self.settle(txn, rid, waited, true);
                Ok(Err(WriteOutcome::Changed))
            }
            Ok(Some(outcome)) => {
                drop(page);
                self.settle(txn, rid, waited, false);
                Ok(Err(outcome))
            }
            Err(e) => {
                drop(page);
                self.settle(txn, rid, waited, false);
                Err(e)
            }
        }
    }

    /// `retired`: index entries that the new row no longer has.
    pub fn update(
        &self,
        txn: &mut Transaction,
        rid: RowId,
        row: &[u8],
        retired: &[RetiredKey<'_>],
        access: &RowAccess<'_>,
    ) -> Result<WriteOutcome> {
        let txn = txn.of(self)?;
        let mode = if access.options.key_update { RowLockMode::Update } else { RowLockMode::NoKeyUpdate };
        txn.core.log.check_room(SpaceUse::Takes)?;
        let mut locked = match self.take(txn, rid, mode, access)? {
            Ok(locked) => locked,
            Err(outcome) => return Ok(outcome),
        };
        let word = locked.word;
        let slot = usize::from(rid.slot);
        let mut flags = word & KEY_CHANGED;
        if flags != 0 && word & ADDRESS != 0 && self.core.undo.is_gone(word & ADDRESS) {
            // The change of keys is so old that its entries are purged.
            flags = 0;
        }
        if !retired.is_empty() {
            flags |= KEY_CHANGED;
        }
        let inline = row.len() <= MAX_INLINE && hp::can_become(locked.page.page(), slot, row.len());
        if inline {
            self.update_inline(txn, rid, row, flags, &mut locked)?;
        } else {
            self.put_lock(txn, rid, locked.mode, word, &mut locked.page)?;
        }
        let WritableRow { page, mode, waited, replaced_csn, .. } = locked;
        drop(page);
        if !inline {
            self.update_apart(txn, rid, mode, flags, row)?;
        }
        self.settle(txn, rid, waited, true);
        for (index, key) in retired {
            index.index_retire_of(txn, key, rid)?;
        }
        txn.wrote_row(self, rid, Some(replaced_csn))?;
        self.core.updates.note(txn.worker, self.id, rid, || self.core.env.monotonic_nanos());
        Ok(WriteOutcome::Done)
    }
    fn update_inline(
        &self,
        txn: &mut Transaction,
        rid: RowId,
        row: &[u8],
        flags: u64,
        locked: &mut WritableRow<'_>,
    ) -> Result<()> {
        let WritableRow { page, word, mode, .. } = locked;
        let (word, mode) = (*word, *mode);
        let slot = usize::from(rid.slot);
        let (at, len) = hp::item(page.view(), slot).ok_or_else(|| Error::corrupted("row has gone"))?;
        let payload = &page.page()[at + WORD..at + len];
        let retired_pieces = if word & FORWARD != 0 { pointer_to(payload) } else { None };
        let (prefix, suffix) = if word & FORWARD != 0 { (0, 0) } else { difference(payload, row) };
        let old = payload[prefix..payload.len() - suffix].to_vec();
        let new = &row[prefix..row.len() - suffix];
        let replaced = self.core.shorten(word);
        let replaced = if replaced & ADDRESS == 0 || word & FORWARD != 0 {
            replaced
        } else {
            self.core.pruned(txn.worker, txn.xid, replaced, slot, payload)?
        };
        let mut record = txn.record(self, UndoKind::Update, mode as u8, replaced, rid.block, rid.slot);
        record.data = update_data(prefix, new.len(), &old);
        let target = self.target(rid.block);
        let build =
            |a| vec![(target, PageOp::Patch { slot, word: a | flags, off: prefix, cut: old.len(), old: &old, new })];
        txn.change(self, &record, build, &[0], &mut [page])?;
        if let Some(first) = retired_pieces {
            self.retire_pieces(txn, first)?;
        }
        Ok(())
    }
    /// The new version's payload goes into pieces. The row is locked by us.
    fn update_apart(&self, txn: &mut Transaction, rid: RowId, mode: RowLockMode, flags: u64, row: &[u8]) -> Result<()> {
        let pointer = self.write_pieces(Some(txn), rid, row)?;
        let mut page = self.core.pool.write(self.pid(rid.block)?)?;
        let slot = usize::from(rid.slot);
        let (at, len) = hp::item(page.view(), slot).ok_or_else(|| Error::corrupted("row has gone"))?;
        let word = page.view().u64(at);
        let old = page.page()[at + WORD..at + len].to_vec();
        let retired_pieces = if word & FORWARD != 0 { pointer_to(&old) } else { None };
        let mut record =
            txn.record(self, UndoKind::Update, mode as u8 | MADE_FORWARD, self.core.shorten(word), rid.block, rid.slot);
        record.data = update_data(0, pointer.len(), &old);
        let target = self.target(rid.block);
        let build = |a| {
            vec![(
                target,
                PageOp::Patch { slot, word: a | flags | FORWARD, off: 0, cut: old.len(), old: &old, new: &pointer },
            )]
        };
        txn.change(self, &record, build, &[0], &mut [&mut page])?;
        if let Some(first) = retired_pieces {
            self.retire_pieces(txn, first)?;
        }
        Ok(())
    }
    fn retire_pieces(&self, txn: &mut Transaction, first: RowId) -> Result<()> {
        let record = txn.record(self, UndoKind::PieceRetire, 0, 0, first.block, first.slot);
        txn.change(self, &record, |_| Vec::new(), &[], &mut [])?;
        Ok(())
    }
    /// Deletes a row; `retired`: all its index entries.
    pub fn delete(
        &self,
        txn: &mut Transaction,
        rid: RowId,
        retired: &[RetiredKey<'_>],
        access: &RowAccess<'_>,
    ) -> Result<WriteOutcome> {
        self.delete_marked(txn, rid, retired, access, 0)
    }
    /// As [`Relation::delete`], for a row that moves to another relation: a transaction that was about to change it
    /// gets error 40001.
    pub fn delete_moved(
        &self,
        txn: &mut Transaction,
        rid: RowId,
        retired: &[RetiredKey<'_>],
        access: &RowAccess<'_>,
    ) -> Result<WriteOutcome> {
        self.delete_marked(txn, rid, retired, access, MOVED)
    }
    fn delete_marked(
        &self,
        txn: &mut Transaction,
        rid: RowId,
        retired: &[RetiredKey<'_>],
        access: &RowAccess<'_>,
        mark: u8,
    ) -> Result<WriteOutcome> {
        let txn = txn.of(self)?;
        let WritableRow { mut page, word, mode, replaced_csn, waited } =
            match self.take(txn, rid, RowLockMode::Update, access)? {
                Ok(locked) => locked,
                Err(outcome) => return Ok(outcome),
            };
        let slot = usize::from(rid.slot);
        let record =
            txn.record(self, UndoKind::Delete, mode as u8 | mark, self.core.shorten(word), rid.block, rid.slot);
        let target = self.target(rid.block);
        let flags = (word & !ADDRESS) | DELETED;
        txn.change(self, &record, |a| vec![(target, PageOp::Word { slot, word: a | flags })], &[0], &mut [&mut page])?;
        drop(page);
        self.settle(txn, rid, waited, true);
        for (index, key) in retired {
            let mut record = txn.record(index, UndoKind::IndexRetire, 0, 0, 0, 0);
            record.data = index_data(&self.id.to_le_bytes(), rid.to_u64(), &index.kind.kept_key(key));
            txn.change(index, &record, |_| Vec::new(), &[], &mut [])?;
        }
        txn.wrote_row(self, rid, Some(replaced_csn))?;
        Ok(WriteOutcome::Done)
    }
    /// For the index: how the row that an entry leads to stands.
    pub(crate) fn liveness(&self, rid: RowId, txn: &Transaction) -> Result<Liveness> {
        if rid.block >= self.pages() {
            return Ok(Liveness::Dead);
        }
        let word = self.core.pool.read(self.pid(rid.block)?, |v| hp::word(v, usize::from(rid.slot)))?;
        let Some(word) = word.filter(|w| w & hp::PIECE == 0) else { return Ok(Liveness::Dead) };
        Ok(match self.core.newest(word, txn.xid)? {
            NewestVersion::Held { xid, kind, .. } => match kind {
                UndoKind::Insert | UndoKind::InsertRange | UndoKind::Delete => Liveness::Undecided(xid),
                UndoKind::Update | UndoKind::UpdateMany if word & KEY_CHANGED != 0 => Liveness::Undecided(xid),
                _ => Liveness::Live,
            },
            NewestVersion::Own { deleted: true, .. } => Liveness::Dead,
            NewestVersion::Own { .. } => Liveness::Live,
            NewestVersion::Committed { csn, deleted, .. } => {
                txn.goes_by(csn);
                if deleted { Liveness::Dead } else { Liveness::Live }
            }
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Liveness {
    Live,
    Dead,
    /// It depends on the outcome of a transaction in progress.
    Undecided(u64),
}

#[cfg(test)]
mod tests {
    use super::difference;

    /// Short rows, which have a way of their own, as any others: what is between prefix and suffix is all that differs.
    #[test]
    fn the_difference_is_the_smallest() {
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let (old_len, new_len) = (random(20), random(20));
            let old: Vec<u8> = (0..old_len).map(|_| random(2) as u8).collect();
            let mut new: Vec<u8> = (0..new_len).map(|_| random(2) as u8).collect();
            if random(3) > 0 {
                new.clone_from(&old);
                if old_len > 0 {
                    new[random(old_len)] ^= 1 << random(8);
                }
            }
            let prefix = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
            let suffix = old[prefix..].iter().rev().zip(new[prefix..].iter().rev()).take_while(|(a, b)| a == b).count();
            assert_eq!(difference(&old, &new), (prefix, suffix), "{old:?} {new:?}");
        }
    }
}
