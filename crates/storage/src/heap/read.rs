//! Heap reads: fetch by row id, scans, counts. They are optimistic, take no locks and dirty no pages.
//!
//! Invariants
//! 1. A row's word and payload are copied in one validated read; older versions come from undo.
//! 2. A slot that is free, or holds a piece, is no row.
//!
//! Must not know: plans, columns.

use super::lock::mode_of;
use super::page::{self as hp, ADDRESS, DELETED, FORWARD, KEY_CHANGED, PIECE};
use crate::api::{Fetched, Isolation, RowBatch, RowLockMode};
use crate::buffer::PassSize;
use crate::directory::Relation;
use crate::page::{PageView, at};
use crate::ssi::Reader;
use crate::trace::{self, TracedOperation};
use crate::txn::visibility::{NewestVersion, SeenVersion};
use crate::txn::{Snapshot, Transaction};
use crate::undo::Undo;
use kilndb_base::park::Park;
use kilndb_base::{Result, RowId};
use std::sync::Arc;

/// Tells of which words of rows the undo is gone: all see those rows as they are. What is gone stays gone.
pub(super) struct SettledWords<'a> {
    undo: &'a Undo,
    horizon: u64,
    /// The addresses that were looked up last: one that is gone, and one that is not. Most rows of a page have the same.
    gone: u64,
    kept: u64,
}

impl<'a> SettledWords<'a> {
    pub fn of(undo: &'a Undo) -> SettledWords<'a> {
        SettledWords { undo, horizon: undo.horizon(), gone: 0, kept: 0 }
    }
    #[inline]
    pub fn has(&mut self, word: u64) -> bool {
        let address = word & ADDRESS;
        address < self.horizon || address == self.gone || address != self.kept && self.look_up(address)
    }
    fn look_up(&mut self, address: u64) -> bool {
        let is_gone = self.undo.is_gone(address);
        *(if is_gone { &mut self.gone } else { &mut self.kept }) = address;
        is_gone
    }
}

/// Heap reads. `out` is cleared first.
impl Relation {
    pub fn fetch(&self, rid: RowId, snapshot: &Snapshot, out: &mut Vec<u8>) -> Result<Fetched> {
        let fetched = self.fetch_seen(rid, snapshot, out)?;
        let is_found = fetched != Fetched::Invisible;
        trace::note(|| TracedOperation::ReadRow { heap: self.id(), row: rid, is_newest: false, is_found });
        Ok(fetched)
    }
    #[inline]
    fn fetch_seen(&self, rid: RowId, snapshot: &Snapshot, out: &mut Vec<u8>) -> Result<Fetched> {
        let snapshot = snapshot.of(self)?;
        if let Some(reader) = self.watched(&snapshot.reader)? {
            return self.fetch_watched(reader, rid, snapshot, out);
        }
        loop {
            out.clear();
            // The horizon is read before the copy: a chain that is rebuilt afterwards may move it beyond the word
            // copied.
            let horizon = self.core.undo.horizon();
            let Some(word) = self.copy_item(rid, out)? else { return Ok(Fetched::Invisible) };
            if word & (DELETED | FORWARD) == 0 && (word & ADDRESS) < horizon {
                return Ok(Fetched::Visible { recheck: word & KEY_CHANGED != 0 });
            }
            let mut missed = false;
            let seen = self.core.version_for(self, (word, rid.slot), out, snapshot, &mut missed)?;
            if missed && self.has_changed(rid, word)? {
                continue;
            }
            return Ok(match seen {
                Some(seen) => Fetched::Visible { recheck: seen.recheck },
                None => {
                    out.clear();
                    Fetched::Invisible
                }
            });
        }
    }
    /// Whether a row that is (or was) there may still be locked at READ COMMITTED: not if it is deleted for good, or if
    /// it is held in conflict with `skip`. It may turn out later that it cannot.
    pub fn can_lock(&self, txn: &Transaction, rid: RowId, skip: Option<RowLockMode>) -> Result<bool> {
        let txn = txn.part_of(self)?;
        if txn.isolation() != Isolation::ReadCommitted {
            return Ok(true);
        }
        let needs_look = |word: u64| word & DELETED != 0 || skip.is_some();
        Ok(match self.newest_of(txn, rid, needs_look)? {
            Some(NewestVersion::Committed { deleted, .. }) => !deleted,
            Some(NewestVersion::Held { mode, .. }) => !skip.is_some_and(|s| mode_of(mode).conflicts(s)),
            Some(NewestVersion::Own { .. }) | None => true,
        })
    }
    /// The CSN of the transaction that has deleted the row for good.
    pub fn deleted_at(&self, txn: &Transaction, rid: RowId) -> Result<Option<u64>> {
        let txn = txn.part_of(self)?;
        Ok(match self.newest_of(txn, rid, |word| word & (DELETED | PIECE) == DELETED)? {
            Some(NewestVersion::Committed { csn, deleted: true, .. }) => Some(csn),
            _ => None,
        })
    }
    /// Judges a row by its word; None: there is no row, or `wanted` rules the word out.
    fn newest_of(&self, txn: &Transaction, rid: RowId, wanted: impl Fn(u64) -> bool) -> Result<Option<NewestVersion>> {
        loop {
            let Some(word) = self.row_word(rid)?.filter(|w| wanted(*w)) else { return Ok(None) };
            let newest = self.core.newest(word, txn.xid)?;
            if !self.is_stale(rid, word, newest)? {
                if let NewestVersion::Committed { csn, .. } = newest {
                    txn.goes_by(csn);
                }
                return Ok(Some(newest));
            }
        }
    }
    /// A record that is gone speaks for a change that all know, or for one that was taken back after the row's word was
    /// read.
    fn is_stale(&self, rid: RowId, row_word: u64, newest: NewestVersion) -> Result<bool> {
        Ok(matches!(newest, NewestVersion::Committed { csn: 0, .. })
            && row_word & ADDRESS != 0
            && self.has_changed(rid, row_word)?)
    }
    /// As [`Relation::fetch`], for a serializable transaction.
    #[cold]
    fn fetch_watched(
        &self,
        reader: &Arc<Reader>,
        rid: RowId,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
    ) -> Result<Fetched> {
        loop {
            out.clear();
            let Some(word) = self.copy_item(rid, out)? else { return Ok(Fetched::Invisible) };
            let mut missed = false;
            let is_own = self.note_passed(reader, word, snapshot, &mut missed)?;
            let seen = self.core.version_for(self, (word, rid.slot), out, snapshot, &mut missed)?;
            if missed && self.has_changed(rid, word)? {
                continue;
            }
            let Some(SeenVersion { recheck, .. }) = seen else {
                out.clear();
                return Ok(Fetched::Invisible);
            };
            // A change after the lock is found by whoever makes it, one before it is found here. What this transaction
            // itself has written nobody else can change.
            if !is_own && self.note_row(reader, rid) && self.has_changed(rid, word)? {
                continue;
            }
            return Ok(Fetched::Visible { recheck });
        }
    }
    /// Is the row's word another one by now?
    fn has_changed(&self, rid: RowId, word: u64) -> Result<bool> {
        Ok(self.row_word(rid)? != Some(word))
    }
    /// The word of a row's slot.
    pub(super) fn row_word(&self, rid: RowId) -> Result<Option<u64>> {
        let id = self.id;
        self.core.pool.read(self.pid(rid.block)?, |v| {
            if v.is(crate::page::KIND_HEAP, id, rid.block) { hp::word(v, usize::from(rid.slot)) } else { None }
        })
    }
    /// The word and payload of a row's slot.
    fn copy_item(&self, rid: RowId, out: &mut Vec<u8>) -> Result<Option<u64>> {
        let pid = self.pid(rid.block)?;
        let id = self.id;
        self.core.pool.read(pid, |v| {
            out.clear();
            if !v.is(crate::page::KIND_HEAP, id, rid.block) {
                return None;
            }
            let (off, len) = hp::item(v, usize::from(rid.slot))?;
            let word = v.u64(off);
            if word & PIECE != 0 {
                return None;
            }
            out.extend_from_slice(v.bytes(off + hp::WORD, len - hp::WORD)?);
            Some(word)
        })
    }
    /// The newest version that is committed or this transaction's own, whatever the snapshot; false if deleted.
    pub fn fetch_latest(&self, txn: &Transaction, rid: RowId, out: &mut Vec<u8>) -> Result<bool> {
        let is_found = self.fetch_newest(txn, rid, out)?;
        trace::note(|| TracedOperation::ReadRow { heap: self.id(), row: rid, is_newest: true, is_found });
        Ok(is_found)
    }
    fn fetch_newest(&self, txn: &Transaction, rid: RowId, out: &mut Vec<u8>) -> Result<bool> {
        let txn = txn.part_of(self)?;
        out.clear();
        let _keep = txn.registration();
        'again: loop {
            let Some(row_word) = self.copy_item(rid, out)? else { return Ok(false) };
            let mut word = row_word;
            // The loop looks through versions that other transactions have not committed.
            loop {
                let newest = self.core.newest(word, txn.xid)?;
                if self.is_stale(rid, row_word, newest)? {
                    continue 'again;
                }
                if let NewestVersion::Committed { csn, .. } = newest {
                    txn.goes_by(csn);
                }
                if !matches!(newest, NewestVersion::Held { .. }) {
                    break;
                }
                let Some(record) = self.core.undo.read_row(&self.core.pool, word & ADDRESS, usize::from(rid.slot))?
                else {
                    continue 'again;
                };
                use crate::undo::record::UndoKind::{Insert, InsertRange, Update};
                match record.kind {
                    Insert | InsertRange => return Ok(false),
                    Update => {
                        if word & FORWARD != 0 && record.mode & crate::txn::visibility::MADE_FORWARD == 0 {
                            self.load_pieces(out)?;
                        }
                        record.apply_to(out)?;
                        word = record.old_word;
                    }
                    _ => word = record.old_word | (word & FORWARD),
                }
            }
            if word & DELETED != 0 {
                out.clear();
                return Ok(false);
            }
            if word & FORWARD != 0 {
                self.load_pieces(out)?;
            }
            return Ok(true);
        }
    }
    /// Calls `f` for each row item of the block: slot, word, payload. Restarts when the page changed meanwhile.
    pub(super) fn items<R>(&self, block: u32, f: impl FnMut(PageView) -> R) -> Result<Option<R>> {
        self.items_in_pass(block, PassSize::Small, f)
    }
    /// As [`Relation::items`], in a pass over all blocks.
    pub(super) fn items_passing<R>(&self, block: u32, f: impl FnMut(PageView) -> R) -> Result<Option<R>> {
        self.items_in_pass(block, self.core.pool.pass_size(self.pages()), f)
    }
    fn items_in_pass<R>(&self, block: u32, size: PassSize, mut f: impl FnMut(PageView) -> R) -> Result<Option<R>> {
        if block >= self.pages() {
            return Ok(None);
        }
        let id = self.id;
        let look = |v: PageView| v.is(crate::page::KIND_HEAP, id, block).then(|| f(v));
        self.core.pool.read_passing(self.pid(block)?, size, look)
    }
    /// Visible rows of one block (as of its current contents). Scan: for block in 0..pages().
    pub fn scan_block(&self, block: u32, snapshot: &Snapshot, batch: &mut RowBatch) -> Result<()> {
        batch.clear();
        self.append_block(block, snapshot, batch)
    }
    /// As [`Relation::scan_block`], behind the rows that the batch has.
    pub fn append_block(&self, block: u32, snapshot: &Snapshot, batch: &mut RowBatch) -> Result<()> {
        let before = batch.rows.len();
        self.read_block(block, snapshot, batch)?;
        let rows = batch.rows.len() - before;
        trace::note(|| TracedOperation::ReadBlock { heap: self.id(), block, rows, is_count: false });
        Ok(())
    }
    fn read_block(&self, block: u32, snapshot: &Snapshot, batch: &mut RowBatch) -> Result<()> {
        let snapshot = snapshot.of(self)?;
        self.begin_scan(snapshot)?;
        let mut settled = SettledWords::of(&self.core.undo);
        let mut later: Vec<(usize, u64)> = Vec::new();
        let mut roomy = false;
        let (rows_before, bytes_before) = (batch.rows.len(), batch.bytes.len());
        let seen = self.page_version(block);
        self.items_passing(block, |v| {
            batch.rows.truncate(rows_before);
            batch.bytes.truncate(bytes_before);
            later.clear();
            // All items are copied at once.
            let upper = v.u16(at::UPPER);
            batch.bytes.extend_from_slice(v.bytes(upper, crate::page::PAGE.saturating_sub(upper)).unwrap_or_default());
            for slot in 1..=v.u16(at::COUNT) {
                let Some((off, len)) = hp::item(v, slot).filter(|(off, _)| *off >= upper) else { continue };
                let word = v.u64(off);
                if word & PIECE != 0 {
                    continue;
                }
                if word & (DELETED | FORWARD) != 0 || !settled.has(word) {
                    later.push((batch.rows.len(), word));
                }
                let start = bytes_before + off + hp::WORD - upper;
                batch.rows.push((RowId { block, slot: slot as u16 }, start as u32, (start + len - hp::WORD) as u32));
            }
            let free = v.u16(at::UPPER).saturating_sub(crate::page::HEADER + 4 * v.u16(at::COUNT)) + v.u16(at::GARBAGE);
            roomy = free > crate::page::PAGE / 2;
        })?
        .unwrap_or_else(|| {
            batch.rows.truncate(rows_before);
            batch.bytes.truncate(bytes_before);
        });
        if roomy && block + 1 < self.pages() {
            self.hint(block);
        }
        if later.is_empty() {
            self.note_settled(seen, batch.rows.len() - rows_before);
            return Ok(());
        }
        // Rows whose version is not settled: look each up, keep, replace or drop it.
        let mut payload = Vec::new();
        let mut gone = Vec::new();
        // The last word that was judged, and whether its rows are seen as they lie in the page.
        let mut last: Option<(u64, bool)> = None;
        let reader = self.watched(&snapshot.reader)?;
        for (index, word) in later {
            let mut missed = false;
            if let Some(reader) = reader {
                self.note_passed(reader, word, snapshot, &mut missed)?;
            }
            if let Some((same, visible)) = last
                && same == word
                && !missed
            {
                if !visible {
                    gone.push(index);
                }
                continue;
            }
            let (rid, a, b) = batch.rows[index];
            payload.clear();
            payload.extend_from_slice(&batch.bytes[a as usize..b as usize]);
            let mut seen = self.core.version_for(self, (word, rid.slot), &mut payload, snapshot, &mut missed)?;
            if missed && self.has_changed(rid, word)? {
                seen = match self.fetch(rid, snapshot, &mut payload)? {
                    Fetched::Visible { recheck } => Some(SeenVersion { recheck, as_stored: false }),
                    Fetched::Invisible => None,
                };
            } else {
                last = match seen {
                    None => Some((word, false)),
                    Some(SeenVersion { as_stored: true, .. }) => Some((word, true)),
                    _ => None,
                };
            }
            match seen {
                None => gone.push(index),
                Some(SeenVersion { as_stored: true, .. }) => {}
                Some(_) => {
                    let start = batch.bytes.len() as u32;
                    batch.bytes.extend_from_slice(&payload);
                    batch.rows[index].1 = start;
                    batch.rows[index].2 = batch.bytes.len() as u32;
                }
            }
        }
        if !gone.is_empty() {
            let mut kept = rows_before;
            let mut next = gone.iter().peekable();
            for index in rows_before..batch.rows.len() {
                if next.next_if(|gone| **gone == index).is_none() {
                    batch.rows[kept] = batch.rows[index];
                    kept += 1;
                }
            }
            batch.rows.truncate(kept);
        }
        Ok(())
    }
    /// The number of rows of one block that the snapshot sees (as of its current contents).
    pub fn count_block(&self, block: u32, snapshot: &Snapshot) -> Result<u32> {
        let snapshot = snapshot.of(self)?;
        self.begin_scan(snapshot)?;
        let mut later: Vec<(usize, u64)> = Vec::new();
        let mut n = self.count_settled(block, &mut later)?;
        let mut last = None;
        let mut payload = Vec::new();
        let reader = self.watched(&snapshot.reader)?;
        for (slot, word) in later {
            let mut missed = false;
            if let Some(reader) = reader {
                self.note_passed(reader, word, snapshot, &mut missed)?;
            }
            let mut counts = match last {
                Some((same, counts)) if same == word => counts,
                _ => self.core.counts(word, snapshot, &mut missed)?,
            };
            let rid = RowId { block, slot: slot as u16 };
            if missed && self.has_changed(rid, word)? {
                counts = self.fetch(rid, snapshot, &mut payload)? != Fetched::Invisible;
            }
            last = Some((word, counts));
            n += u32::from(counts);
        }
        trace::note(|| TracedOperation::ReadBlock { heap: self.id(), block, rows: n as usize, is_count: true });
        Ok(n)
    }
    /// The number of rows of one block that everybody sees; `later` gets the slots and words of all others. If there are
    /// none, the number is noted for as long as nobody changes the page (docs/decisions/0066).
    fn count_settled(&self, block: u32, later: &mut Vec<(usize, u64)>) -> Result<u32> {
        if block >= self.pages() {
            return Ok(0);
        }
        if let Some(rows) = self.core.pool.settled_rows(self.pid(block)?) {
            return Ok(rows);
        }
        let mut settled = SettledWords::of(&self.core.undo);
        let seen = self.page_version(block);
        let rows = self.items_passing(block, |v| {
            later.clear();
            let mut rows = 0;
            for slot in 1..=v.u16(at::COUNT) {
                let Some((off, _)) = hp::item(v, slot) else { continue };
                let word = v.u64(off);
                if word & PIECE != 0 {
                } else if word & DELETED != 0 || !settled.has(word) {
                    later.push((slot, word));
                } else {
                    rows += 1;
                }
            }
            rows
        })?;
        if let Some(rows) = rows.filter(|_| later.is_empty()) {
            self.note_settled(seen, rows as usize);
        }
        Ok(rows.unwrap_or(0))
    }
    /// The page of a block and its version, if it is in memory and nobody has latched it.
    #[inline]
    fn page_version(&self, block: u32) -> Option<(u32, u64)> {
        let pid = self.pid_raw(block)?;
        self.core.pool.version(pid).map(|version| (pid, version))
    }
    /// All rows of the page, so many, have been found to be seen by everybody since it had this version.
    #[inline]
    fn note_settled(&self, seen: Option<(u32, u64)>, rows: usize) {
        if let Some((pid, version)) = seen.filter(|(pid, version)| self.core.pool.version(*pid) == Some(*version)) {
            self.core.pool.note_settled(pid, version, rows);
        }
    }
    /// Notes how many rows the pages in memory have that everybody sees, so that to count them needs no look at them.
    pub fn note_settled_blocks(&self, park: &dyn Park) -> Result<()> {
        let mut later = Vec::new();
        for block in 0..self.pages() {
            if self.page_version(block).is_some() {
                later.clear();
                self.count_settled(block, &mut later)?;
            }
            if block.is_multiple_of(64) {
                park.checkpoint()?;
            }
        }
        Ok(())
    }
}
