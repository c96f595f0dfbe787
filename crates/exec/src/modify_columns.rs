//! INSERT, UPDATE and DELETE of rows that come as columns: new values are computed for all rows of a batch at once, and rows
//! are made of columns.
//!
//! Invariants
//! 1. What a batch does is what its rows would do one after the other. If anything fails for one of them, or one breaks a
//!    rule, the batch is done again as rows, of which none has been stored yet; so the error is that of the first row.
//! 2. Only statements come here whose tables have no rules but which columns must not be NULL: see [`takes_columns`].
//!
//! Must not know: pages.

use super::columns::{COLUMNS_ROWS_MIN, ColumnBatch, ColumnInput, row_of};
use super::context::*;
use super::index_changes::TouchedIndexes;
use super::modify::{ModifyState, takes_rows_together};
use super::modify_many::{BatchScratch, InputRows, stores_input};
use super::state::NodeState;
use super::vector_program::ProgramState;
use kilndb_base::{Error, Result, RowId};
use kilndb_bind::ir::DmlKind;
use kilndb_plan::program::ValuesProgram;
use kilndb_plan::{ModifyPlan, ModifyStatement};
use kilndb_types::Datum;
use kilndb_types::row_columns::encode_rows;
use kilndb_types::vector::{IntegerKind, Rows, Vector, VectorValues, tid_of};

/// Does the statement take its input as columns?
pub(super) fn takes_columns(m: &ModifyPlan, input: &NodeState, cx: &ExecContext<'_>) -> bool {
    let statement = &*m.statement;
    let is_worthwhile = takes_rows_together(cx) || statement.input.rows >= COLUMNS_ROWS_MIN;
    if !is_worthwhile || statement.returning.is_some() || !input.has_columns() {
        return false;
    }
    let functions = &m.functions;
    let calls_none = [&functions.generated, &functions.checks, &functions.indexes].iter().all(|list| list.is_empty());
    let is_plain = m.is_plain() && statement.row_checks.is_empty() && !m.must_belong && calls_none;
    match statement.kind {
        DmlKind::Insert => is_plain && statement.conflict.is_none() && m.indexes.is_empty() && stores_input(m),
        DmlKind::Update => m.at_once && is_plain && program_of(statement).is_some(),
        DmlKind::Delete => m.indexes.is_empty() && m.referenced_by.is_empty() && m.triggers.is_none(),
        DmlKind::Merge => false,
    }
}

/// What computes an UPDATE's values; None: they want one row after the other.
fn program_of(statement: &ModifyStatement) -> Option<&ValuesProgram> {
    statement.program.of(statement.assignments.iter().map(|(_, e)| e), statement.input_width)
}

/// The rows that the batch names, by their ids. False: not all rows have one.
fn put_rids(places: &Vector, rows: Rows<'_>, rids: &mut Vec<RowId>) -> bool {
    let VectorValues::Integers(IntegerKind::Tid, words) = &places.values else { return false };
    if places.nulls.has_any() || places.is_constant() {
        return false;
    }
    rids.clear();
    rows.each(|row| {
        let (block, slot) = tid_of(words[row]);
        rids.push(RowId { block, slot });
    });
    true
}

/// Makes the bytes of rows; each row's id is still to be written. False: there are too many bytes for rows together.
fn put_rows(m: &ModifyPlan, columns: &[&Vector], rows: Rows<'_>, s: &mut BatchScratch) -> Result<bool> {
    s.rows.clear();
    let mut start = 0;
    let ends = &mut s.rows.rows;
    encode_rows(&m.stored_as.descriptor, columns, rows, &mut s.rows.bytes, |end| {
        ends.push((RowId::default(), start, end as u32));
        start = end as u32;
    })?;
    Ok(u32::try_from(s.rows.bytes.len()).is_ok())
}

/// Has a column that must not be NULL one?
fn has_missing_values(m: &ModifyPlan, columns: &[&Vector], rows: Rows<'_>) -> bool {
    m.not_null.iter().any(|at| columns.get(*at).is_none_or(|column| !rows.all(|row| !column.is_null(row))))
}

impl ModifyState {
    pub(super) fn run_columns(&mut self, m: &ModifyPlan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let is_used = vec![true; m.statement.input_width];
        let mut input = ColumnInput::default();
        input.begin_morsels((&mut self.input, self.node.id), &is_used, rt, cx)?;
        let mut program = ProgramState::default();
        let mut scratch = std::mem::take(&mut self.scratch);
        while input.fill(&mut self.input, &is_used, rt, cx)? {
            let batch = &mut input.batch;
            let done = match m.statement.kind {
                DmlKind::Insert => self.insert_columns(m, batch, &mut scratch, cx)?,
                DmlKind::Update => self.update_columns(m, batch, (&mut scratch, &mut program), rt, cx)?,
                _ => self.delete_columns(m, batch, &mut scratch, rt, cx)?,
            };
            if !done {
                self.run_as_rows(m, batch, &is_used, rt, cx)?;
            }
            cx.concerns_none();
        }
        self.scratch = scratch;
        Ok(())
    }
    /// Does with the rows of a batch what is to be done, one after the other.
    fn run_as_rows(
        &mut self,
        m: &ModifyPlan,
        batch: &mut ColumnBatch,
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let (columns, rows) = batch.parts();
        let mut taken = Batch::new(is_used.len());
        let mut values = Vec::new();
        rows.try_each(|row| {
            row_of(columns, is_used, row, &mut values)?;
            taken.push(&values);
            Ok::<(), Error>(())
        })?;
        match m.statement.kind {
            DmlKind::Insert => self.insert_batch(m, &taken, rt, cx),
            DmlKind::Update => self.update_batch(m, &taken, rt, cx),
            _ => self.delete_batch(m, &taken, rt, cx),
        }
    }

    /// False: a row breaks a rule.
    fn insert_columns(
        &mut self,
        m: &ModifyPlan,
        batch: &mut ColumnBatch,
        s: &mut BatchScratch,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let (columns, rows) = batch.parts();
        let columns: Vec<&Vector> = columns.iter().collect();
        if has_missing_values(m, &columns, rows) {
            return Ok(false);
        }
        if !put_rows(m, &columns, rows, s)? {
            return Ok(false);
        }
        // What fails from here on is about all of them.
        cx.concerns(RowPlace::OfBatch(rows.len().saturating_sub(1)), false);
        s.rids.clear();
        cx.engine.pace_bulk(s.rows.rows.len(), cx.park)?;
        m.heap()?.insert_many(cx.txn, &s.rows, &mut s.rids)?;
        self.changed += s.rids.len() as u64;
        Ok(true)
    }

    /// False: a value cannot be computed, or a row breaks a rule.
    fn update_columns(
        &mut self,
        m: &ModifyPlan,
        batch: &mut ColumnBatch,
        (s, state): (&mut BatchScratch, &mut ProgramState),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let statement = &*m.statement;
        let Some(values) = program_of(statement) else { return Ok(false) };
        let (columns, rows) = batch.parts();
        let is_named = columns.get(statement.old_ctid).is_some_and(|places| put_rids(places, rows, &mut s.rids));
        if !is_named || !state.run(&values.program, columns, rows, rt, cx)? {
            return Ok(false);
        }
        let null = Vector::constant(Datum::Null);
        let old = |slot: &Option<usize>| slot.and_then(|slot| columns.get(slot)).unwrap_or(&null);
        let mut new: Vec<&Vector> = m.old_columns.iter().map(old).collect();
        for ((column, _), result) in statement.assignments.iter().zip(&values.program.results) {
            new[*column] = state.result(&*columns, *result);
        }
        if has_missing_values(m, &new, rows) {
            return Ok(false);
        }
        let touched = TouchedIndexes::of(m);
        touched.begin(s);
        if !touched.is_empty() {
            let old: Vec<&Vector> = m.old_columns.iter().map(old).collect();
            rows.try_each(|row| touched.put_position(m, ((&old, &new), row), s, rt, cx))?;
        }
        if !put_rows(m, &new, rows, s)? {
            return Ok(false);
        }
        s.rows.rows.iter_mut().zip(&s.rids).for_each(|(row, rid)| row.0 = *rid);
        s.put_positions(batch.list());
        self.store_updates(m, (&touched, InputRows::Columns(batch)), s, rt, cx)?;
        Ok(true)
    }

    /// False: a row has no id.
    fn delete_columns(
        &mut self,
        m: &ModifyPlan,
        batch: &mut ColumnBatch,
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        let (columns, rows) = batch.parts();
        if !columns.get(m.statement.old_ctid).is_some_and(|places| put_rids(places, rows, &mut s.rids)) {
            return Ok(false);
        }
        s.put_positions(batch.list());
        self.store_deletes(m, InputRows::Columns(batch), s, rt, cx)?;
        Ok(true)
    }
}
