//! Projections: of rows, or of rows that come as columns, whose results are computed for all of a batch at once.
//!
//! Invariant: a run takes its input either as rows or as columns, from its first call on. Who wants few rows at once gets
//! them from rows.

use super::columns::{ColumnBatch, row_of};
use super::context::*;
use super::expr::Evaluate;
use super::state::UnaryInput;
use super::vector_program::ProgramState;
use kilndb_base::{Error, Result};
use kilndb_plan::Op;
use kilndb_plan::expression::{CExpr, Expression};
use kilndb_plan::program::ValuesProgram;
use kilndb_types::Datum;

pub(crate) struct ProjectState {
    pub unary: UnaryInput,
    /// Does the input come as columns? None: nothing has been read.
    takes_columns: Option<bool>,
    columns: Option<Box<ProjectColumns>>,
    /// The error of a row, behind rows that have been handed on.
    failure: Option<Error>,
}

#[derive(Default)]
struct ProjectColumns {
    batch: ColumnBatch,
    program: ProgramState,
}

impl ProjectState {
    pub fn new(unary: UnaryInput) -> ProjectState {
        ProjectState { unary, takes_columns: None, columns: None, failure: None }
    }
    pub(crate) fn rescan(&mut self, rt: &mut RunState) {
        (self.takes_columns, self.failure) = (None, None);
        self.unary.rescan(rt);
    }

    /// Which columns of the input are used, by results that any thread can compute from columns. None: it is not so.
    pub fn used_of_input(&self) -> Option<Vec<bool>> {
        let Op::Project { input, exprs, is_self_contained: true, program } = &self.unary.node.op else { return None };
        program.of(exprs, input.width).map(|program| program.is_used.clone())
    }
    /// Can it hand on its rows as columns?
    pub fn has_columns(&self) -> bool {
        let Op::Project { input, exprs, program, .. } = &self.unary.node.op else { return false };
        self.unary.input.has_columns() && program.of(exprs, input.width).is_some()
    }
    /// The next rows as columns, of which only those in `is_used` are there. No row: there are no more.
    pub fn next_columns(
        &mut self,
        out: &mut ColumnBatch,
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Project { input, exprs, program, .. } = &node.op else { return Ok(()) };
        let Some(program) = program.of(exprs, input.width) else {
            return Err(Error::internal("columns are asked of a projection that has rows"));
        };
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let ProjectColumns { batch, program: state } = &mut **self.columns.get_or_insert_default();
        if !self.unary.input.fill_columns((batch, &program.is_used), rt, cx)? {
            return Ok(());
        }
        let (columns, rows) = batch.parts();
        if state.run(&program.program, columns, rows, rt, cx)? {
            out.start(rows.positions(), is_used.len());
            for (column, _) in is_used.iter().enumerate().filter(|(_, is_used)| **is_used) {
                out.columns[column].clone_from(state.result(&*columns, program.program.results[column]));
            }
            let mut list = batch.list().to_vec();
            let positions = batch.rows().positions();
            out.take_rows(&mut list, positions);
            return Ok(());
        }
        let (mut values, mut results) = (Vec::new(), Batch::new(exprs.len()));
        let done = rows.try_each(|row| {
            row_of(columns, &program.is_used, row, &mut values)?;
            project_row(exprs, &values, &mut results, rt, cx)
        });
        if let Err(error) = done {
            if results.rows == 0 {
                return Err(error);
            }
            results.cancel_row();
            self.failure = Some(error);
        }
        out.take_values(&mut results, is_used);
        Ok(())
    }

    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let node = self.unary.node.clone();
        let Op::Project { input, exprs, program, .. } = &node.op else { return Ok(()) };
        let takes_columns = match self.takes_columns {
            Some(takes) => takes,
            None => *self.takes_columns.insert(out.max >= BATCH_ROWS && self.unary.input.has_columns()),
        };
        match takes_columns.then(|| program.of(exprs, input.width)).flatten() {
            Some(program) => self.next_of_columns((program, exprs), out, rt, cx),
            None => self.next_of_rows(exprs, out, rt, cx),
        }
    }

    fn next_of_rows(
        &mut self,
        exprs: &[Expression],
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let u = &mut self.unary;
        if u.fill(out.max, rt, cx)? {
            for i in 0..u.buffer.rows {
                project_row(exprs, u.buffer.row(i), out, rt, cx)?;
            }
        }
        Ok(())
    }

    fn next_of_columns(
        &mut self,
        (program, exprs): (&ValuesProgram, &[Expression]),
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let ProjectColumns { batch, program: state } = &mut **self.columns.get_or_insert_default();
        if !self.unary.input.fill_columns((batch, &program.is_used), rt, cx)? {
            return Ok(());
        }
        let (columns, rows) = batch.parts();
        if !state.run(&program.program, columns, rows, rt, cx)? {
            let mut values = Vec::new();
            return rows.try_each(|row| {
                row_of(columns, &program.is_used, row, &mut values)?;
                project_row(exprs, &values, out, rt, cx)
            });
        }
        rows.try_each(|row| {
            for at in &program.program.results {
                out.data.push(state.result(&*columns, *at).get(row)?);
            }
            out.end_row();
            Ok(())
        })
    }
}

fn project_row(
    exprs: &[Expression],
    row: &[Datum],
    out: &mut Batch,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    for e in exprs {
        let v = match e.tree() {
            CExpr::Slot(s) => row.get(*s).cloned().unwrap_or_default(),
            _ => e.eval(row, rt, cx)?,
        };
        out.data.push(v);
    }
    out.end_row();
    Ok(())
}
