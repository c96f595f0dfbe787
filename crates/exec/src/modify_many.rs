//! INSERT, UPDATE and DELETE of a batch of rows at once: everything is evaluated, then storage changes whole pages.
//!
//! Invariants
//! 1. What a batch does is what its rows one after the other would do: a row that storage gives back is done alone,
//!    before the next.
//! 2. Of an INSERT's rows the first that has an error raises it, whatever finds it: the rows before it are stored first.
//! 3. Nothing that could see the statement's own changes is evaluated ahead: see `ModifyPlan::at_once`.
//!
//! Must not know: pages.

use super::columns::ColumnBatch;
use super::context::*;
use super::expr::Evaluate;
use super::index_changes::TouchedIndexes;
use super::modify::{ModifyState, is_of_data, takes_rows_together};
use super::modify_row::{StoredRow, old_row, rid_of};
use super::row_security::{check_stored, has_view_checks};
use super::{index, write};
use kilndb_base::{Error, Result, RowId};
use kilndb_plan::ModifyPlan;
use kilndb_plan::expression::{CExpr, Expression};
use kilndb_storage::{RowBatch, TermChange};
use kilndb_types::{Datum, row};
use std::borrow::Cow;

/// Buffers that are kept from one batch to the next.
#[derive(Default)]
pub(crate) struct BatchScratch {
    /// Position in the input batch, for each row in `rows`.
    positions: Vec<u32>,
    pub(super) rows: RowBatch,
    pub(super) rids: Vec<RowId>,
    pub(super) values: Vec<Datum>,
    /// The new values of all rows, if they are needed after the heap is written.
    kept: Vec<Datum>,
    /// Index entries of new rows.
    pub(super) keys: RowBatch,
    /// Entries that go, and those that come in their places, index by index.
    pub(super) entries: Vec<IndexKeys>,
    pub(super) new_entries: Vec<IndexKeys>,
    /// For each row in `rows`: do entries of it change?
    pub(super) rekeyed: Vec<bool>,
    /// A stored row, as far as index entries need it.
    pub(super) old: Vec<Datum>,
}

/// The keys that the rows of a batch have in one index.
#[derive(Default)]
pub(super) struct IndexKeys {
    /// Position among the batch's rows that are changed, and where the key ends.
    rows: Vec<(u32, u32)>,
    /// The keys one after the other.
    pub keys: Vec<u8>,
    next: usize,
}

impl IndexKeys {
    pub fn clear(&mut self) {
        self.rows.clear();
        self.keys.clear();
        self.next = 0;
    }
    /// The last key in `keys` is that of the row at this position.
    pub fn end_key(&mut self, position: usize) {
        self.rows.push((position as u32, self.keys.len() as u32));
    }
    /// The entries of the next rows, up to the one at `end`: each row's position and its key.
    pub fn take(&mut self, end: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let from = self.next;
        self.next += self.rows[from..].iter().take_while(|(at, _)| (*at as usize) < end).count();
        (from..self.next).map(|n| {
            let start = n.checked_sub(1).map_or(0, |before| self.rows[before].1 as usize);
            (self.rows[n].0 as usize, &self.keys[start..self.rows[n].1 as usize])
        })
    }
}

/// Makes lists ready for the keys of a batch's rows in so many indexes.
pub(super) fn begin_keys(keys: &mut Vec<IndexKeys>, indexes: usize) {
    keys.resize_with(indexes, IndexKeys::default);
    keys.iter_mut().for_each(IndexKeys::clear);
}

/// The rows up to the one at `end` are done with: their entries are others' work, or there are none.
pub(super) fn skip_keys(keys: &mut [IndexKeys], end: usize) {
    keys.iter_mut().for_each(|keys| keys.take(end).for_each(drop));
}

/// The rows that a batch's changes are of.
#[derive(Clone, Copy)]
pub(super) enum InputRows<'a> {
    Rows(&'a Batch),
    Columns(&'a ColumnBatch),
}

impl<'a> InputRows<'a> {
    fn row(self, position: u32) -> Result<Cow<'a, [Datum]>> {
        match self {
            InputRows::Rows(batch) => Ok(Cow::Borrowed(batch.row(position as usize))),
            InputRows::Columns(batch) => {
                batch.columns.iter().map(|column| column.get(position as usize)).collect::<Result<_>>().map(Cow::Owned)
            }
        }
    }
}

impl BatchScratch {
    pub(super) fn put_positions(&mut self, positions: &[u32]) {
        self.positions.clear();
        self.positions.extend_from_slice(positions);
    }
}

/// Is something evaluated of each row that is stored?
fn is_looked_at(m: &ModifyPlan) -> bool {
    m.statement.returning.is_some() || has_view_checks(m)
}

/// Are the values of updated rows needed after they are stored?
fn keeps_updates(m: &ModifyPlan) -> bool {
    is_looked_at(m) || !m.foreign_keys.is_empty() || !m.referenced_by.is_empty()
}

/// Whether each new row is a row of the input as it is: the columns are assigned the input's values in their order, nothing is
/// computed, and no row is left out.
pub(super) fn stores_input(m: &ModifyPlan) -> bool {
    let columns = m.table.columns.len();
    let assignments = &m.statement.assignments;
    let is_same = |(place, (column, e)): (usize, &(usize, Expression))| {
        *column == place && matches!(e.tree(), CExpr::Slot(slot) if *slot == place)
    };
    m.statement.input_width == columns
        && assignments.len() == columns
        && m.statement.row_filter.is_none()
        && m.generated.is_empty()
        && assignments.iter().enumerate().all(is_same)
}

/// Appends the bytes of a new row.
fn put_encoded(m: &ModifyPlan, values: &[Datum], rows: &mut RowBatch) -> Result<()> {
    let start = rows.bytes.len();
    row::encode_row(&m.stored_as.descriptor, values, &mut rows.bytes)?;
    rows.end_row(RowId::default(), start)
}

impl ModifyState {
    pub(super) fn insert_rows(
        &mut self,
        m: &ModifyPlan,
        batch: &Batch,
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let keep = is_looked_at(m) || !m.foreign_keys.is_empty() || !m.indexes.is_empty();
        let failed = Self::put_new_rows(m, (batch, keep), s, rt, cx)?;
        s.rids.clear();
        cx.engine.pace_bulk(s.rows.rows.len(), cx.park)?;
        m.heap()?.insert_many(cx.txn, &s.rows, &mut s.rids)?;
        assert!(s.rids.len() == s.positions.len(), "each row that is stored has its id");
        if keep {
            self.enter_rows(m, batch, s, rt, cx)?;
        } else {
            self.changed += s.rids.len() as u64;
        }
        failed.map_or(Ok(()), Err)
    }

    /// What is told if COPY's input cannot be read on: an error in a row before comes first, but for what an index would
    /// refuse, which is found when rows are stored.
    pub(super) fn first_error(
        &mut self,
        m: &ModifyPlan,
        batch: &Batch,
        e: Error,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Error {
        if !takes_rows_together(cx) || !is_of_data(&e) {
            return e;
        }
        match Self::put_new_rows(m, (batch, false), &mut self.scratch, rt, cx) {
            Ok(_) => {
                cx.concerns_reading();
                e
            }
            Err(earlier) => earlier,
        }
    }

    /// Makes the bytes of new rows in `BatchScratch::rows`, and their values in `BatchScratch::kept` if those are to be
    /// kept and are not the input. The result is the error of a row that cannot be stored, unless it is the first one.
    fn put_new_rows(
        m: &ModifyPlan,
        (batch, keep): (&Batch, bool),
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<Error>> {
        let is_plain = stores_input(m);
        s.positions.clear();
        s.rows.clear();
        s.kept.clear();
        for i in 0..batch.rows {
            cx.concerns(RowPlace::OfBatch(i), false);
            let put = match is_plain {
                true => Self::put_input_row(m, batch.row(i), s, rt, cx).map(|()| true),
                false => Self::put_new_row(m, batch.row(i), s, rt, cx),
            };
            match put {
                Ok(false) => continue,
                Ok(true) => {}
                Err(e) if s.positions.is_empty() || takes_rows_together(cx) => return Err(e),
                Err(e) => return Ok(Some(e)),
            }
            s.positions.push(i as u32);
            if keep && !is_plain {
                s.kept.append(&mut s.values);
            }
        }
        Ok(None)
    }

    /// Makes a new row in `BatchScratch::values` and its bytes in `BatchScratch::rows`; false if it is left out.
    fn put_new_row(
        m: &ModifyPlan,
        input: &[Datum],
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        if !Self::fill_new_row(m, input, &mut s.values, rt, cx)? {
            return Ok(false);
        }
        put_encoded(m, &s.values, &mut s.rows)?;
        Ok(true)
    }

    /// The same of a row that is stored as it came, of which no copy is made.
    fn put_input_row(
        m: &ModifyPlan,
        input: &[Datum],
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        write::check(m, input, rt, cx)?;
        put_encoded(m, input, &mut s.rows)
    }

    /// Does what follows once the rows in `BatchScratch::kept` are in the heap: index entries, then RETURNING.
    fn enter_rows(
        &mut self,
        m: &ModifyPlan,
        batch: &Batch,
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        // Rows that are stored as they came are those of the batch, from the first on.
        let values = if stores_input(m) { &batch.data } else { &s.kept };
        let rows = write::NewRows { values, width: m.table.columns.len(), rids: &s.rids };
        let conflict = write::insert_entries_of(m, rows, &mut s.keys, &mut self.queue.twins, rt, cx)?;
        let before = conflict.map_or(s.rids.len(), |(row, _)| row);
        for (n, (i, rid)) in s.positions.iter().zip(&s.rids).take(before).enumerate() {
            let row = StoredRow { rid: *rid, values: rows.row(n), input: batch.row(*i as usize) };
            self.has_inserted(m, row, rt, cx)?;
        }
        match conflict {
            Some((row, index)) => {
                cx.concerns(RowPlace::OfBatch(s.positions.get(row).map_or(0, |i| *i as usize)), true);
                Err(write::duplicate(m, index, rows.row(row), rt, cx))
            }
            None => Ok(()),
        }
    }

    pub(super) fn update_batch(
        &mut self,
        m: &ModifyPlan,
        batch: &Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = self.update_rows(m, batch, &mut scratch, rt, cx);
        self.scratch = scratch;
        outcome
    }
    fn update_rows(
        &mut self,
        m: &ModifyPlan,
        batch: &Batch,
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let keep = keeps_updates(m);
        s.positions.clear();
        s.rows.clear();
        s.kept.clear();
        let touched = TouchedIndexes::of(m);
        touched.begin(s);
        for i in 0..batch.rows {
            let row = batch.row(i);
            let Some(rid) = rid_of(m, row) else { continue };
            s.values.clear();
            // Assigned and generated columns are filled in below.
            let old = m.old_columns.iter().zip(&*m.changed).map(|(column, changed)| column.filter(|_| !changed));
            s.values.extend(old.map(|c| c.and_then(|c| row.get(c).cloned()).unwrap_or_default()));
            for (column, e) in &*m.statement.assignments {
                e.eval_into(row, &mut s.values[*column], rt, cx)?;
            }
            write::complete(m, &mut s.values, rt, cx)?;
            touched.put_row(m, row, s, rt, cx)?;
            let start = s.rows.bytes.len();
            row::encode_row(&m.stored_as.descriptor, &s.values, &mut s.rows.bytes)?;
            s.rows.end_row(rid, start)?;
            s.positions.push(i as u32);
            if keep {
                s.kept.append(&mut s.values);
            }
        }
        self.store_updates(m, (&touched, InputRows::Rows(batch)), s, rt, cx)
    }
    /// Stores the new rows in `BatchScratch::rows`, of the rows of the input at `BatchScratch::positions`.
    pub(super) fn store_updates(
        &mut self,
        m: &ModifyPlan,
        (touched, input): (&TouchedIndexes, InputRows<'_>),
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let (is_looked_at, keep) = (is_looked_at(m), keeps_updates(m));
        let width = m.table.columns.len();
        let mut at = 0;
        while at < s.positions.len() {
            cx.engine.pace_bulk(s.positions.len(), cx.park)?;
            let done = m.heap()?.update_many(cx.txn, &cx.snapshot, &s.rows, &s.rekeyed, at)?;
            self.changed += done as u64;
            self.gathered.take_rows(touched, s, at + done);
            if is_looked_at || !m.is_named {
                self.gathered.apply(m, cx)?;
            }
            for n in (at..at + done).filter(|_| keep) {
                let (row, new) = (input.row(s.positions[n])?, &s.kept[n * width..(n + 1) * width]);
                check_stored(m, new, rt, cx)?;
                self.queue.changed_row(m, &old_row(m, &row), Some(new));
                self.returning(m, StoredRow { rid: s.rows.rows[n].0, values: new, input: &row }, rt, cx)?;
            }
            at += done;
            if let Some(position) = s.positions.get(at) {
                self.change(m, input.row(*position)?.into_owned(), rt, cx)?;
                at += 1;
                touched.skip_rows(s, at);
            }
        }
        self.gathered.apply_most(m, cx)
    }

    pub(super) fn delete_batch(
        &mut self,
        m: &ModifyPlan,
        batch: &Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = self.delete_rows(m, batch, &mut scratch, rt, cx);
        self.scratch = scratch;
        outcome
    }
    fn delete_rows(
        &mut self,
        m: &ModifyPlan,
        batch: &Batch,
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        s.positions.clear();
        s.rids.clear();
        begin_keys(&mut s.entries, m.indexes.len());
        for i in 0..batch.rows {
            let row = batch.row(i);
            let Some(rid) = rid_of(m, row) else { continue };
            if !m.indexes.is_empty() {
                let old = old_row(m, row);
                for (p, entries) in m.indexes.iter().zip(&mut s.entries) {
                    if index::put_entry(p, &old, &mut entries.keys, rt, cx)?.is_some() {
                        entries.end_key(s.rids.len());
                    }
                }
            }
            s.rids.push(rid);
            s.positions.push(i as u32);
        }
        self.store_deletes(m, InputRows::Rows(batch), s, rt, cx)
    }
    /// Deletes the rows in `BatchScratch::rids`, of the rows of the input at `BatchScratch::positions`.
    pub(super) fn store_deletes(
        &mut self,
        m: &ModifyPlan,
        input: InputRows<'_>,
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let keep = m.statement.returning.is_some() || !m.referenced_by.is_empty();
        let nulls = vec![Datum::Null; m.table.columns.len()];
        let mut at = 0;
        while at < s.rids.len() {
            cx.engine.pace_bulk(s.rids.len(), cx.park)?;
            let done = m.heap()?.delete_many(cx.txn, &cx.snapshot, &s.rids[at..])?;
            self.changed += done as u64;
            for (p, entries) in m.indexes.iter().zip(&mut s.entries) {
                let mut gone = entries.take(at + done).map(|(n, key)| (s.rids[n], key));
                match p.has_terms() {
                    true => gone.try_for_each(|(rid, _)| p.relation.change_terms(cx.txn, rid, TermChange::Deleted))?,
                    false => p.relation.retire_many(cx.txn, m.heap()?, gone)?,
                }
            }
            for n in (at..at + done).filter(|_| keep) {
                let row = input.row(s.positions[n])?;
                self.queue.changed_row(m, &old_row(m, &row), None);
                self.returning(m, StoredRow { rid: s.rids[n], values: &nulls, input: &row }, rt, cx)?;
            }
            at += done;
            if let Some(position) = s.positions.get(at) {
                self.change(m, input.row(*position)?.into_owned(), rt, cx)?;
                at += 1;
                skip_keys(&mut s.entries, at);
            }
        }
        Ok(())
    }
}
