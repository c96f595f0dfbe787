//! Cells: a few bytes of state outside of transactions, for sequences.
//!
//! Invariants
//! 1. A change is visible to everybody at once and is never rolled back.
//! 2. After a crash a cell has its last logged contents, or a later one; an unlogged cell has those that it was created
//!    with.
//! 3. The log may be ahead of a cell's page although the page has the record's LSN, because values are logged ahead. So
//!    recovery replays all records of a cell, whatever the LSN of its page; the last one counts. A record that recovery
//!    does not meet any more is logged again with the first change after the checkpoint.
//!
//! Must not know: sequences.

use crate::api::{Persistence, RelationKind};
use crate::directory::Relation;
use crate::page::{HEADER, KIND_CELL, PAGE, at, get16};
use crate::wal::record::{PageOp, Record, encode};
use kilndb_base::sync::atomic::Ordering::SeqCst;
use kilndb_base::{Error, Lsn, Result, sqlstate};

/// Changes a cell's contents; says whether they are to be logged.
pub(crate) type CellChange<'a, R> = dyn FnMut(&mut Vec<u8>) -> Result<(R, bool)> + 'a;
/// A change of a cell that also says what is to be logged; see [`Relation::cell_modify_ahead`].
pub(crate) type LoggedCellChange<'a, R> = dyn FnMut(&mut Vec<u8>, bool) -> Result<(R, Option<Vec<u8>>)> + 'a;

impl Relation {
    fn check_cell(&self) -> Result<u32> {
        if self.kind != RelationKind::Cell {
            return Err(Error::internal("storage relation is no cell"));
        }
        self.pid(0)
    }
    pub fn cell_read(&self) -> Result<Vec<u8>> {
        let pid = self.check_cell()?;
        let id = self.id;
        self.core
            .pool
            .read(pid, |v| {
                v.is(KIND_CELL, id, 0).then(|| v.bytes(HEADER, v.u16(at::COUNT)).map(<[u8]>::to_vec)).flatten()
            })?
            .ok_or_else(|| Error::corrupted("cell page is damaged"))
    }
    /// The contents of a new cell; those of an unlogged one are these again after a crash. Never taken back, so the
    /// cell goes with the transaction that has made it.
    pub fn cell_init(&self, bytes: &[u8]) -> Result<()> {
        if matches!(self.persistence, Persistence::Unlogged | Persistence::Kept) {
            *crate::lock(&self.initial) = bytes.to_vec();
            self.core.log.append(&encode(&Record::Initial { rel: self.id, bytes }));
        }
        let changed = self.cell_modify(&mut |now| {
            bytes.clone_into(now);
            Ok(((), true))
        });
        changed.map(|_| ())
    }
    /// The contents that [`Relation::cell_init`] has set, if the cell is unlogged.
    pub fn cell_initial(&self) -> Vec<u8> {
        crate::lock(&self.initial).clone()
    }
    /// Changes the cell under its latch; the change is logged if `f` says so for the new contents (it is then redone
    /// after a crash).
    pub fn cell_modify<R>(&self, f: &mut CellChange<'_, R>) -> Result<(R, Lsn)> {
        self.cell_modify_ahead(&mut |bytes, _| f(bytes).map(|(result, log_it)| (result, log_it.then(|| bytes.clone()))))
    }
    /// As [`Relation::cell_modify`], but the log gets other contents than the page: those that the cell has after a
    /// crash. The second argument of `f` says that a checkpoint has begun since the last log record, so that recovery
    /// may not find it. Returns how far the log must be on disk for a crash to leave this change, or a later one; 0 if
    /// a crash leaves none of it.
    pub fn cell_modify_ahead<R>(&self, f: &mut LoggedCellChange<'_, R>) -> Result<(R, Lsn)> {
        let pid = self.check_cell()?;
        let mut page = self.core.pool.write(pid)?;
        let len = get16(page.page(), at::COUNT);
        let mut bytes =
            page.page().get(HEADER..HEADER + len).ok_or_else(|| Error::corrupted("cell page is damaged"))?.to_vec();
        let checkpointed = self.logged() && crate::page::lsn(page.page()) <= self.core.redo.load(SeqCst);
        let (result, logged) = f(&mut bytes, checkpointed)?;
        if bytes.len().max(logged.as_ref().map_or(0, Vec::len)) > PAGE - HEADER {
            return Err(Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "cell contents are too long"));
        }
        if let Some(logged) = logged {
            let op = PageOp::Cell { bytes: &logged };
            self.core.emit_plain(self, 0, &[(self.target(0), op)], &[0], &mut [&mut page])?;
        }
        let _gate = self.core.change_gate(self);
        if let Some(image) = &self.image {
            self.core.before_change(image, 0, page.page());
        }
        PageOp::Cell { bytes: &bytes }.apply(page.bytes(), self.target(0))?;
        page.mark_dirty();
        let lsn = if self.logged() { crate::page::lsn(page.page()) } else { 0 };
        Ok((result, Lsn(lsn)))
    }
}
