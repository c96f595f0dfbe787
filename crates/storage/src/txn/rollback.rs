//! Rollback: walks a transaction's undo chain and restores pages.
//!
//! Invariants
//! 1. A step is due only if the row (or entry) still points at its record; so steps are idempotent.
//! 2. Every step that changes a page is logged with the rest of the chain, so recovery goes on where it stopped.
//! 3. KEY_CHANGED stays on a restored row: a reader may hold an index entry that is gone by now.
//!
//! Must not know: why the transaction is rolled back.

use super::visibility::MADE_FORWARD;
use super::{Savepoint, Transaction};
use crate::core::Core;
use crate::core::RollbackStep;
use crate::directory::Relation;
use crate::heap::page::{self as hp, ADDRESS, FORWARD, KEY_CHANGED};
use crate::undo::many::{RowSpan, UpdateShape, put_shape, put_slots};
use crate::undo::record::{UndoKind, UndoRecord};
use crate::wal::record::{PageOp, Record, encode};
use kilndb_base::park::Park;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::Ordering::*;
use kilndb_base::{Error, Result, Severity};

/// Steps between two looks at the clock: a step may be a whole page.
const STEPS_AT_ONCE: usize = 16;

impl Transaction {
    /// Notes that a transaction cannot be rolled back, so that those which wait for it do not wait for ever.
    pub(super) fn leave_unended(&mut self, cause: &Error) {
        if self.xid != 0 {
            self.core.unended.add(self.xid, cause);
            self.core.let_look(self.core.rows.free_watched(self.owner));
        }
        self.core
            .tell(Severity::Error, &format!("transaction {} could not be rolled back: {}", self.xid, cause.message()));
        self.finish();
    }
    pub(crate) fn undo_to(&mut self, savepoint: &Savepoint, park: &dyn Park) -> Result<()> {
        let mut steps = 0;
        for which in 0..2 {
            while self.heads[which] != savepoint.heads[which] && self.heads[which] != 0 {
                let address = self.heads[which];
                self.heads[which] = self.core.undo_step(self.xid, address)?;
                steps += 1;
                if steps % STEPS_AT_ONCE == 0 {
                    park.give_way();
                }
            }
        }
        Ok(())
    }
}

impl Core {
    /// Rolls back what sessions have left open, at a shutdown, when sessions no longer run.
    pub(crate) fn roll_back_open(&self) -> Result<()> {
        for (xid, head, _) in self.xids.unfinished().into_iter().filter(|(_, _, purge)| !purge) {
            for mut address in [head, self.xids.unlogged_head(xid)] {
                while address != 0 {
                    address = self.undo_step(xid, address)?;
                }
            }
            for relation in self.directory.list().iter().filter(|r| r.creator.load(Acquire) == xid) {
                self.directory.remove_uncommitted(self, relation.id);
            }
            self.log.append_end(&encode(&Record::Abort { xid }), |_| {
                self.xids.set_aborted(xid);
            });
        }
        Ok(())
    }
    /// Takes one record back; returns the next address.
    pub(crate) fn undo_step(&self, xid: u64, address: u64) -> Result<u64> {
        let Some(record) = self.undo.read(&self.pool, address)? else { return Ok(0) };
        if record.xid != xid {
            return Err(kilndb_base::Error::corrupted(format!(
                "undo record {address:#x} belongs to another transaction"
            )));
        }
        let next = record.prev;
        // The relation may be gone already (dropped by a savepoint's rollback, emptied by recovery).
        let Some(relation) = self.directory.get(record.rel) else { return Ok(next) };
        match record.kind {
            UndoKind::IndexInsert => {
                let (_, rid, key) = record.index_parts(0)?;
                relation.entry_remove(key, rid, None, Some(RollbackStep { xid, next }))?;
            }
            UndoKind::IndexMark | UndoKind::IndexRevive if planted::is(PlantedBug::RestampForgotten) => {}
            UndoKind::IndexChangeMany => {
                relation.entries_take_back(record.leaf_changes()?, address, RollbackStep { xid, next })?;
            }
            UndoKind::IndexMark | UndoKind::IndexRevive => {
                let (stamp, rid, key) = record.index_parts(8)?;
                relation.entry_restamp(key, rid, address, stamp, RollbackStep { xid, next })?;
            }
            UndoKind::IndexRetire | UndoKind::IndexRetireMany | UndoKind::PieceRetire => {}
            UndoKind::OfMethod => self.undo_of_method(&relation, &record)?,
            UndoKind::UpdateMany | UndoKind::DeleteMany => self.undo_rows(&relation, &record, address)?,
            _ => self.undo_row(&relation, &record, address)?,
        }
        Ok(next)
    }
    /// Takes back a record of several rows: those that are as the record made them all at once, then the others one by
    /// one.
    fn undo_rows(&self, relation: &Relation, record: &UndoRecord, address: u64) -> Result<()> {
        let Ok(pid) = relation.pid(record.block) else { return Ok(()) };
        let slots = record.rows().ok_or_else(UndoRecord::bad)?;
        let mut page = self.pool.write(pid)?;
        let words = slots.iter().map(|slot| (slot, hp::word(page.view(), slot).unwrap_or(0)));
        let due: Vec<(usize, u64)> = words.filter(|(_, word)| word & ADDRESS == address).collect();
        let usual = due.iter().map(|(_, word)| *word).find(|word| word & FORWARD == 0);
        let alike = |word: u64| Some(word) == usual;
        let mut others: Vec<usize> = due.iter().filter(|(_, word)| !alike(*word)).map(|(slot, _)| *slot).collect();
        let due: Vec<usize> = due.iter().filter(|(_, word)| alike(*word)).map(|(slot, _)| *slot).collect();
        let word = record.old_word | (usual.unwrap_or(0) & KEY_CHANGED);
        let first = due.first().copied().unwrap_or(0);
        // As long as a row is left, the chain goes on here.
        let next = |others: &[usize]| if others.is_empty() { record.prev } else { address };
        let mut data = Vec::new();
        match record.kind {
            _ if due.is_empty() => {}
            UndoKind::UpdateMany => {
                let (shape, old) =
                    UpdateShape::parse(usize::from(record.slot), &record.data).ok_or_else(UndoRecord::bad)?;
                let mut room = hp::PageRoom::of(page.page());
                let (mut rows, mut bytes) = (Vec::with_capacity(due.len()), Vec::with_capacity(old.len()));
                for slot in due {
                    let (span, start) = shape.find(slot).ok_or_else(UndoRecord::bad)?;
                    let (_, len) = hp::item(page.view(), slot).ok_or_else(UndoRecord::bad)?;
                    if span.off + span.new + hp::WORD > len || !room.change(len, len - span.new + span.old) {
                        others.push(slot);
                        continue;
                    }
                    rows.push((slot, RowSpan { off: span.off, old: span.new, new: span.old }));
                    bytes.extend_from_slice(old.get(start..start + span.old).ok_or_else(UndoRecord::bad)?);
                }
                if let Some((first, _)) = rows.first().copied() {
                    put_shape(&mut data, &rows);
                    let op = PageOp::PatchMany { first, shape: &data, word, old: &[], new: &bytes };
                    self.emit_compensate(
                        relation,
                        RollbackStep { xid: record.xid, next: next(&others) },
                        &[(relation.target(record.block), op)],
                        &[0],
                        &mut [&mut page],
                    )?;
                }
            }
            _ => {
                put_slots(&mut data, due.iter().copied());
                let op = PageOp::WordMany { first, slots: &data, word };
                self.emit_compensate(
                    relation,
                    RollbackStep { xid: record.xid, next: next(&others) },
                    &[(relation.target(record.block), op)],
                    &[0],
                    &mut [&mut page],
                )?;
            }
        }
        drop(page);
        for slot in others {
            if let Some(mut one) = self.undo.read_row(&self.pool, address, slot)? {
                one.prev = address;
                self.undo_row(relation, &one, address)?;
            }
        }
        Ok(())
    }
    fn undo_row(&self, relation: &Relation, record: &UndoRecord, address: u64) -> Result<()> {
        let Ok(pid) = relation.pid(record.block) else { return Ok(()) };
        let step = RollbackStep { xid: record.xid, next: record.prev };
        let target = relation.target(record.block);
        let slot = usize::from(record.slot);
        let mut page = self.pool.write(pid)?;
        if record.kind == UndoKind::InsertRange {
            let last = record.data.first_chunk::<2>().map_or(0, |b| usize::from(u16::from_le_bytes(*b)));
            let op = PageOp::FreeRange { first: slot, last, word: address };
            self.emit_compensate(relation, step, &[(target, op)], &[0], &mut [&mut page])?;
            drop(page);
            relation.hint(record.block);
            return Ok(());
        }
        let Some(word) = hp::word(page.view(), slot) else { return Ok(()) };
        if record.kind == UndoKind::PieceInsert {
            if word & hp::PIECE != 0 {
                self.emit_compensate(relation, step, &[(target, PageOp::Free { slot })], &[0], &mut [&mut page])?;
                drop(page);
                relation.hint(record.block);
            }
            return Ok(());
        }
        if word & ADDRESS != address {
            return Ok(());
        }
        let old = record.old_word | (word & KEY_CHANGED);
        match record.kind {
            UndoKind::Insert => {
                self.emit_compensate(relation, step, &[(target, PageOp::Free { slot })], &[0], &mut [&mut page])?;
                drop(page);
                relation.hint(record.block);
            }
            UndoKind::Update => {
                let (off, cut, bytes) = record.patch()?;
                let Some((at, len)) = hp::item(page.view(), slot) else { return Ok(()) };
                if word & FORWARD != 0 && record.mode & MADE_FORWARD == 0 {
                    // An earlier step of this rollback had to put the payload into pieces.
                    let mut payload = page.page()[at + hp::WORD..at + len].to_vec();
                    drop(page);
                    relation.load_pieces(&mut payload)?;
                    record.apply_to(&mut payload)?;
                    // Readers may be on their way to those pieces, so they stay where they are, for good.
                    if old & FORWARD != 0 {
                        // The row was in pieces of its own before: the record has the pointer to them.
                        return self.point_to(relation, record, old, &payload);
                    }
                    return self.restore_apart(relation, record, old, &payload);
                }
                if hp::can_become(page.page(), slot, len - hp::WORD - cut + bytes.len()) {
                    let op = PageOp::Patch { slot, word: old, off, cut, old: &[], new: bytes };
                    self.emit_compensate(relation, step, &[(target, op)], &[0], &mut [&mut page])?;
                } else {
                    let mut payload = page.page()[at + hp::WORD..at + len].to_vec();
                    drop(page);
                    record.apply_to(&mut payload)?;
                    return self.restore_apart(relation, record, old, &payload);
                }
            }
            _ => {
                // The payload stays as it is, in pieces if an earlier step had to put it there.
                let old = old | (word & FORWARD);
                self.emit_compensate(
                    relation,
                    step,
                    &[(target, PageOp::Word { slot, word: old })],
                    &[0],
                    &mut [&mut page],
                )?;
            }
        }
        Ok(())
    }
    /// The room that the row needs has gone to others: its restored payload moves into pieces.
    fn restore_apart(&self, relation: &Relation, record: &UndoRecord, old: u64, payload: &[u8]) -> Result<()> {
        let rid = kilndb_base::RowId { block: record.block, slot: record.slot };
        let pointer = relation.write_pieces(None, rid, payload)?;
        self.point_to(relation, record, old | FORWARD, &pointer)
    }
    fn point_to(&self, relation: &Relation, record: &UndoRecord, old: u64, pointer: &[u8]) -> Result<()> {
        let mut page = self.pool.write(relation.pid(record.block)?)?;
        let op = PageOp::Put { slot: usize::from(record.slot), word: old, body: pointer };
        self.emit_compensate(
            relation,
            RollbackStep { xid: record.xid, next: record.prev },
            &[(relation.target(record.block), op)],
            &[0],
            &mut [&mut page],
        )
    }
}
