//! UPDATE and DELETE of many rows: page by page, rows whose words were the same with one undo record and one log
//! record.
//!
//! Invariants
//! 1. Only simple rows are changed here: whole in their page, with no lock or queue on them, and their newest version
//!    the one that the statement sees. At the first other row these functions return; the caller does that one alone.
//! 2. The rows of a page are judged and changed under one latch of the page, and no two pages are latched at once.
//! 3. Rows are done in the caller's order. A page's rows go into one record only as long as their slots ascend, so a
//!    row that comes a second time is judged again, with the first change done.
//!
//! Must not know: columns.

use super::lock::mode_of;
use super::page::{self as hp, ADDRESS, DELETED, FORWARD, KEY_CHANGED, MAX_INLINE, PIECE, WORD};
use super::write::difference;
use crate::api::{RowBatch, RowLockMode};
use crate::buffer::WriteGuard;
use crate::directory::Relation;
use crate::txn::visibility::NewestVersion;
use crate::txn::{Snapshot, Transaction};
use crate::undo::many::{RowSpan, put_shape, put_slots, shape_len};
use crate::undo::record::{DATA_MAX, UndoKind};
use crate::wal::record::PageOp;
use kilndb_base::{Result, RowId};

/// The properties that all rows with one version word have in common.
#[derive(Clone, Copy)]
struct CommonWord {
    word: u64,
    /// The word to be noted as replaced; None: such rows are not for here.
    replaced: Option<u64>,
    /// The flags of the word that an update keeps.
    kept: u64,
    mode: RowLockMode,
    csn: u64,
}

/// The rows of one page that go into one record.
#[derive(Default)]
struct RecordGroup {
    rows: Vec<(usize, RowSpan)>,
    /// The position of the first row in the batch.
    from: usize,
    /// Sum of the spans' old bytes.
    old: usize,
    /// The length of all payloads, old and new; 0: they differ.
    len: usize,
    /// The range of the payloads in which all changes lie.
    part: (usize, usize),
    /// The rows have other keys in an index now.
    is_rekeyed: bool,
}
impl RecordGroup {
    fn clear(&mut self, from: usize) {
        self.rows.clear();
        (self.from, self.old, self.part) = (from, 0, (usize::MAX, 0));
    }
    fn add(&mut self, slot: usize, span: RowSpan, old_len: usize, new_len: usize) {
        if self.rows.is_empty() {
            self.len = old_len;
        }
        if old_len != new_len || old_len != self.len {
            self.len = 0;
        }
        self.part = (self.part.0.min(span.off), self.part.1.max(span.off + span.old));
        self.old += span.old;
        self.rows.push((slot, span));
    }
    fn fits(&self, slot: usize, span: RowSpan) -> bool {
        let Some((first, _)) = self.rows.first() else { return true };
        shape_len(*first, slot, self.rows.len() + 1) + self.old + span.old <= DATA_MAX
    }
    /// Replaces the spans by one for all rows, if that needs no more room than one for each.
    fn make_alike(&mut self) {
        let (from, to) = self.part;
        let each: usize = self.old + self.rows.len() * 6;
        if self.len == 0 || (to - from) * self.rows.len() > each {
            return;
        }
        let span = RowSpan { off: from, old: to - from, new: to - from };
        self.rows.iter_mut().for_each(|(_, s)| *s = span);
    }
}

/// Appends bytes that are mostly one integer: then without a call.
#[inline]
fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    match <[u8; 4]>::try_from(bytes) {
        Ok(integer) => out.extend_from_slice(&integer),
        Err(_) => out.extend_from_slice(bytes),
    }
}

/// The rows of a batch as they are to be, and which of them have other keys in an index then.
#[derive(Clone, Copy)]
struct UpdatedRows<'a> {
    rows: &'a RowBatch,
    rekeyed: &'a [bool],
}

impl Relation {
    fn standing(&self, txn: &Transaction, snapshot: &Snapshot, word: u64, mode: RowLockMode) -> Result<CommonWord> {
        let not_here = CommonWord { word, replaced: None, kept: 0, mode, csn: 0 };
        if word & (PIECE | FORWARD | DELETED) != 0 {
            return Ok(not_here);
        }
        let core = &*self.core;
        let newest = core.newest(word, txn.xid)?;
        let csn = match newest {
            NewestVersion::Own { command, .. } if command < snapshot.command => u64::MAX,
            NewestVersion::Committed { csn, .. } if csn <= snapshot.csn => csn,
            _ => return Ok(not_here),
        };
        if csn != u64::MAX {
            txn.goes_by(csn);
        }
        let held = core.own_mode(word, txn.xid)?;
        let replaced = core.shorten(word);
        // A change of keys that is so old that its entries are purged is no matter any more.
        let kept = if word & ADDRESS != 0 && replaced & ADDRESS == 0 { 0 } else { word & KEY_CHANGED };
        Ok(CommonWord {
            word,
            replaced: Some(replaced),
            kept,
            mode: held.map_or(mode, |held| mode.max(mode_of(held))),
            csn,
        })
    }
    /// Updates the rows of the batch from `from` on, but for those that need more than this. `rekeyed` tells of each
    /// row whether entries of it change, in indexes that are not unique: the caller changes them
    /// ([`Relation::index_change_many`]) before its command ends; empty: no entry changes.
    /// Returns how many it has done: the caller does the next one with [`Relation::update`].
    pub fn update_many(
        &self,
        txn: &mut Transaction,
        snapshot: &Snapshot,
        rows: &RowBatch,
        rekeyed: &[bool],
        from: usize,
    ) -> Result<usize> {
        let txn = txn.of(self)?;
        let snapshot = snapshot.of(self)?;
        txn.begin_write()?;
        let rows = UpdatedRows { rows, rekeyed };
        let mut group = RecordGroup::default();
        let mut written = Vec::new();
        let mut next = from;
        while let Some((rid, _, _)) = rows.rows.rows.get(next) {
            if rid.block >= self.pages() {
                break;
            }
            written.clear();
            group.clear(next);
            let done = self.update_page(txn, snapshot, rows, &mut group, &mut written)?;
            self.wrote_rows(txn, &rows.rows.rows[next..next + done], |r| r.0, &written)?;
            next += done;
            if done == 0 {
                break;
            }
        }
        Ok(next - from)
    }
    /// Updates as many rows of the batch, from the beginning of the empty group on, as are in the page of the first one.
    fn update_page(
        &self,
        txn: &mut Transaction,
        snapshot: &Snapshot,
        updated: UpdatedRows<'_>,
        group: &mut RecordGroup,
        written: &mut Vec<u64>,
    ) -> Result<usize> {
        let UpdatedRows { rows, rekeyed } = updated;
        let from = group.from;
        let block = rows.rows[from].0.block;
        let mut page = self.core.pool.write(self.pid(block)?)?;
        let quiet = self.core.rows.is_empty();
        let mut standing: Option<CommonWord> = None;
        let mut room = hp::PageRoom::of(page.page());
        for (at, (rid, _, _)) in
            rows.rows.iter().enumerate().skip(from).take_while(|(_, (rid, _, _))| rid.block == block)
        {
            let slot = usize::from(rid.slot);
            let Some(word) = hp::word(page.view(), slot) else { break };
            if standing.is_none_or(|s| s.word != word) {
                self.update_group(txn, &mut page, rows, standing, group)?;
                group.clear(at);
                standing = Some(self.standing(txn, snapshot, word, RowLockMode::NoKeyUpdate)?);
            }
            let is_rekeyed = rekeyed.get(at).copied().unwrap_or(false);
            if group.is_rekeyed != is_rekeyed {
                self.update_group(txn, &mut page, rows, standing, group)?;
                group.clear(at);
                group.is_rekeyed = is_rekeyed;
            }
            let Some(s) = standing.filter(|s| s.replaced.is_some()) else { break };
            // The item is looked up here and not earlier, because the rows changed last may have moved it.
            let Some((off, len)) = hp::item(page.view(), slot) else { break };
            let row = rows.row(at);
            let ascends = group.rows.last().is_none_or(|(last, _)| *last < slot);
            if !ascends
                || row.len() > MAX_INLINE
                || !(quiet || self.core.rows.is_nobodys(self.key(*rid)))
                || !room.change(len, WORD + row.len())
            {
                break;
            }
            let old = &page.page()[off + WORD..off + len];
            let (prefix, suffix) = difference(old, row);
            let span = RowSpan { off: prefix, old: old.len() - prefix - suffix, new: row.len() - prefix - suffix };
            let old_len = old.len();
            if !group.fits(slot, span) {
                self.update_group(txn, &mut page, rows, standing, group)?;
                group.clear(at);
            }
            group.add(slot, span, old_len, row.len());
            if txn.reader.is_some() {
                written.push(s.csn);
            }
        }
        self.update_group(txn, &mut page, rows, standing, group)?;
        Ok(group.from + group.rows.len() - from)
    }
    fn update_group(
        &self,
        txn: &mut Transaction,
        page: &mut WriteGuard<'_>,
        rows: &RowBatch,
        standing: Option<CommonWord>,
        group: &mut RecordGroup,
    ) -> Result<()> {
        let (Some(&(first, _)), Some(CommonWord { replaced: Some(replaced), kept, mode, .. })) =
            (group.rows.first(), standing)
        else {
            return Ok(());
        };
        let block = rows.rows[group.from].0.block;
        let kept = if group.is_rekeyed { kept | KEY_CHANGED } else { kept };
        group.make_alike();
        let mut data =
            Vec::with_capacity(shape_len(first, group.rows[group.rows.len() - 1].0, group.rows.len()) + group.old);
        let mut new = Vec::with_capacity(group.old + 64);
        put_shape(&mut data, &group.rows);
        let shape_end = data.len();
        for (index, (slot, span)) in group.rows.iter().enumerate() {
            let off = hp::item(page.view(), *slot).map_or(0, |(off, _)| off) + WORD + span.off;
            put_short(&mut data, &page.page()[off..off + span.old]);
            put_short(&mut new, &rows.row(group.from + index)[span.off..span.off + span.new]);
        }
        let mut record = txn.record(self, UndoKind::UpdateMany, mode as u8, replaced, block, first as u16);
        record.data = data;
        let (shape, old) = record.data.split_at(shape_end);
        let target = self.target(block);
        let build = |a| vec![(target, PageOp::PatchMany { first, shape, word: a | kept, old, new: &new })];
        txn.change(self, &record, build, &[0], &mut [page])?;
        Ok(())
    }
    /// Deletes rows as [`Relation::update_many`] updates them; the caller tells their index entries with
    /// [`Relation::retire_many`].
    pub fn delete_many(&self, txn: &mut Transaction, snapshot: &Snapshot, rids: &[RowId]) -> Result<usize> {
        let txn = txn.of(self)?;
        let snapshot = snapshot.of(self)?;
        txn.begin_removal()?;
        let mut written = Vec::new();
        let mut next = 0;
        while let Some(rid) = rids.get(next) {
            if rid.block >= self.pages() {
                break;
            }
            written.clear();
            let done = self.delete_page(txn, snapshot, &rids[next..], &mut written)?;
            self.wrote_rows(txn, &rids[next..next + done], |r| *r, &written)?;
            next += done;
            if done == 0 {
                break;
            }
        }
        Ok(next)
    }
    fn delete_page(
        &self,
        txn: &mut Transaction,
        snapshot: &Snapshot,
        rids: &[RowId],
        written: &mut Vec<u64>,
    ) -> Result<usize> {
        let block = rids[0].block;
        let mut page = self.core.pool.write(self.pid(block)?)?;
        let quiet = self.core.rows.is_empty();
        let mut standing: Option<CommonWord> = None;
        let (mut from, mut to) = (0, 0);
        for rid in rids.iter().take_while(|rid| rid.block == block) {
            let Some(word) = hp::word(page.view(), usize::from(rid.slot)) else { break };
            if standing.is_none_or(|s| s.word != word) {
                self.delete_group(txn, &mut page, standing, &rids[from..to])?;
                from = to;
                standing = Some(self.standing(txn, snapshot, word, RowLockMode::Update)?);
            }
            let Some(s) = standing.filter(|s| s.replaced.is_some()) else { break };
            if (to > from && rids[to - 1].slot >= rid.slot) || !(quiet || self.core.rows.is_nobodys(self.key(*rid))) {
                break;
            }
            to += 1;
            if txn.reader.is_some() {
                written.push(s.csn);
            }
        }
        self.delete_group(txn, &mut page, standing, &rids[from..to])?;
        Ok(to)
    }
    fn delete_group(
        &self,
        txn: &mut Transaction,
        page: &mut WriteGuard<'_>,
        standing: Option<CommonWord>,
        rids: &[RowId],
    ) -> Result<()> {
        let (Some(first), Some(CommonWord { word, replaced: Some(replaced), mode, .. })) = (rids.first(), standing)
        else {
            return Ok(());
        };
        let mut record = txn.record(self, UndoKind::DeleteMany, mode as u8, replaced, first.block, first.slot);
        put_slots(&mut record.data, rids.iter().map(|rid| usize::from(rid.slot)));
        let target = self.target(first.block);
        let flags = (word & !ADDRESS) | DELETED;
        let build = |a| {
            vec![(target, PageOp::WordMany { first: usize::from(first.slot), slots: &record.data, word: a | flags })]
        };
        txn.change(self, &record, build, &[0], &mut [page])?;
        Ok(())
    }
    fn wrote_rows<T>(&self, txn: &Transaction, rows: &[T], rid: impl Fn(&T) -> RowId, replaced: &[u64]) -> Result<()> {
        rows.iter().zip(replaced).try_for_each(|(row, csn)| txn.wrote_row(self, rid(row), Some(*csn)))
    }
}
