//! Payloads that do not fit their row's page: chains of pieces in the same relation.
//!
//! Invariants
//! 1. A piece is an item with the word PIECE | home row id; body: total length of the payload from here on u32,
//!    next piece's row id (6 bytes, 0 = last), bytes. The home item's payload is the first piece's row id (6 bytes).
//! 2. Pieces never change; a new version writes new ones, the old ones are freed by rollback or purge.
//! 3. A chain is freed from its end, so that a crash leaves a shorter chain, not a lost one.
//!
//! Must not know: what versions are visible.

use super::page as hp;
use crate::directory::Relation;
use crate::page::{HEADER, PAGE, PageView};
use crate::txn::Transaction;
use crate::undo::record::UndoKind;
use crate::wal::record::PageOp;
use kilndb_base::{Error, Result, RowId, sqlstate};

const HEAD: usize = 10;
const MAX_PIECE: usize = PAGE - HEADER - 4 - hp::WORD - HEAD;
pub(crate) const MAX_ROW: usize = 1 << 30;

pub(crate) fn pointer_to(payload: &[u8]) -> Option<RowId> {
    let mut b = [0; 8];
    b[..6].copy_from_slice(payload.get(..6)?);
    let v = u64::from_le_bytes(b);
    (v != 0).then(|| RowId::from_u64(v))
}
fn broken(rid: RowId) -> Error {
    Error::corrupted(format!("a piece of a row is missing at ({},{})", rid.block, rid.slot))
}

impl Relation {
    /// Replaces a pointer by the payload that its pieces hold.
    pub(crate) fn load_pieces(&self, payload: &mut Vec<u8>) -> Result<()> {
        let mut next = pointer_to(payload);
        payload.clear();
        while let Some(rid) = next {
            let start = payload.len();
            next = self
                .core
                .pool
                .read(self.pid(rid.block)?, |v| {
                    payload.truncate(start);
                    let (off, len) = hp::item(v, usize::from(rid.slot))?;
                    if v.u64(off) & hp::PIECE == 0 {
                        return None;
                    }
                    let body = v.bytes(off + hp::WORD, len - hp::WORD)?;
                    payload.extend_from_slice(body.get(HEAD..)?);
                    Some(pointer_to(body.get(4..HEAD)?))
                })?
                .ok_or_else(|| broken(rid))?;
        }
        Ok(())
    }
    /// Writes a payload as pieces, last one first; returns the pointer. Without a transaction nobody can take it back
    /// (a rollback does that).
    pub(crate) fn write_pieces(
        &self,
        mut txn: Option<&mut Transaction>,
        home: RowId,
        payload: &[u8],
    ) -> Result<Vec<u8>> {
        if payload.len() > MAX_ROW {
            return Err(Error::new(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                format!("row is too big: size {}, maximum size {MAX_ROW}", payload.len()),
            ));
        }
        let count = payload.len().div_ceil(MAX_PIECE).max(1);
        let mut next = 0u64;
        for i in (0..count).rev() {
            let part = &payload[i * MAX_PIECE..payload.len().min((i + 1) * MAX_PIECE)];
            let mut body = Vec::with_capacity(HEAD + part.len());
            body.extend_from_slice(&((payload.len() - i * MAX_PIECE) as u32).to_le_bytes());
            body.extend_from_slice(&next.to_le_bytes()[..6]);
            body.extend_from_slice(part);
            let worker = txn.as_ref().map_or(self.core.workers() - 1, |t| t.worker);
            let (block, mut page) = self.page_with_room(worker, hp::WORD + body.len())?;
            let slot = hp::next_slot(page.page(), hp::WORD + body.len());
            let op = PageOp::Put { slot, word: hp::PIECE | home.to_u64(), body: &body };
            let target = self.target(block);
            match txn.as_deref_mut() {
                Some(txn) => {
                    let record = txn.record(self, UndoKind::PieceInsert, 0, 0, block, slot as u16);
                    txn.change(self, &record, |_| vec![(target, op)], &[0], &mut [&mut page])?;
                }
                None => self.core.emit_plain(self, 0, &[(target, op)], &[0], &mut [&mut page])?,
            }
            next = RowId { block, slot: slot as u16 }.to_u64();
        }
        Ok(next.to_le_bytes()[..6].to_vec())
    }
    /// The pieces that the row's newest version is in.
    pub(crate) fn pieces_of(&self, home: RowId) -> Result<Vec<RowId>> {
        let first = self.core.pool.read(self.pid(home.block)?, |v: PageView| {
            let (off, len) = hp::item(v, usize::from(home.slot)).filter(|(off, _)| v.u64(*off) & hp::FORWARD != 0)?;
            pointer_to(v.bytes(off + hp::WORD, len - hp::WORD)?)
        })?;
        self.chain_of(first, home)
    }
    /// The pieces of a chain, as far as they are still there and belong to this row.
    fn chain_of(&self, first: Option<RowId>, home: RowId) -> Result<Vec<RowId>> {
        let mut chain = Vec::new();
        let mut next = first;
        while let Some(rid) = next {
            let Ok(pid) = self.pid(rid.block) else { break };
            let after = self.core.pool.read(pid, |v: PageView| {
                let (off, len) = hp::item(v, usize::from(rid.slot))?;
                let mine = v.u64(off) == hp::PIECE | home.to_u64();
                mine.then(|| v.bytes(off + hp::WORD + 4, len.checked_sub(hp::WORD + 4)?).map(pointer_to))?
            })?;
            let Some(after) = after else { break };
            chain.push(rid);
            next = after;
        }
        Ok(chain)
    }
    /// Frees the row's pieces from `first` on, but for those `in_use` by its newest version. If they went before (a
    /// purge that a crash cut off is done again), their slots may be others' by now.
    pub(crate) fn free_pieces(&self, first: RowId, home: RowId, in_use: &[RowId]) -> Result<()> {
        let chain = self.chain_of(Some(first), home)?;
        for rid in chain.into_iter().rev().filter(|rid| !in_use.contains(rid)) {
            let mut page = self.core.pool.write(self.pid(rid.block)?)?;
            let slot = usize::from(rid.slot);
            if hp::word(page.view(), slot) == Some(hp::PIECE | home.to_u64()) {
                self.core.emit_plain(
                    self,
                    0,
                    &[(self.target(rid.block), PageOp::Free { slot })],
                    &[0],
                    &mut [&mut page],
                )?;
                drop(page);
                self.hint(rid.block);
            }
        }
        Ok(())
    }
}
