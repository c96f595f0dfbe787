//! A nested loop's condition, asked of many kept inner rows at a time: the inner side's columns are vectors that stay, and the outer
//! row's values are constants beside them.
//!
//! Invariants
//! 1. The inner rows that are handed out for an outer row come in their order, each once, and none that meets the condition is missing.
//! 2. Where the condition fails for one of a piece's rows, it is asked of them one after the other, so that the error is raised for the
//!    row, and only if the loop gets that far.
//!
//! Must not know: the kind of the join.

use super::context::{BATCH_ROWS, ExecContext, RunState};
use super::vector_program::ProgramState;
use kilndb_base::Result;
use kilndb_plan::expression::Expression;
use kilndb_plan::program::{ConditionProgram, Program};
use kilndb_spill::{RowStore, StoreCursor};
use kilndb_types::Datum;
use kilndb_types::vector::{Rows, Vector};

/// Fewer rows are asked as fast one after the other.
const ROWS_MIN: usize = 8;
/// Of more rows the columns would take too much memory beside the rows.
const ROWS_MAX: usize = 1 << 16;
/// The rows of a piece: a loop that needs one partner does not ask many more rows than it has to.
const PIECE_ROWS: usize = 512;

/// An inner row that may be a partner.
#[derive(Clone, Copy)]
pub(super) struct LoopPartner<'p> {
    pub number: usize,
    /// What is still to be asked of the pair.
    pub on: Option<&'p Expression>,
}

/// Some of the inner rows.
struct LoopPiece {
    /// The columns of the outer side, which are constants, then those of the inner side. Only the ones that the condition uses have
    /// values.
    columns: Vec<Vector>,
    rows: usize,
}

#[derive(Default)]
pub(super) struct LoopColumns {
    pieces: Vec<LoopPiece>,
    state: ProgramState,
    /// The positions of the present piece's rows that meet the program's condition.
    passed: Vec<u32>,
    next: usize,
    /// The piece that comes next.
    piece: usize,
    /// The program has failed for a row of the piece.
    is_failed: bool,
}

impl LoopColumns {
    /// Keeps the columns of an inner side that the condition uses. None: it is not worth while, or there is no program.
    pub fn of_rows(
        rows: &RowStore,
        condition: &ConditionProgram,
        (outer_width, inner_width): (usize, usize),
        cx: &ExecContext<'_>,
    ) -> Result<Option<LoopColumns>> {
        let Some(program) = &condition.program else { return Ok(None) };
        if !(ROWS_MIN..=ROWS_MAX).contains(&rows.len()) || !rows.is_in_memory() {
            return Ok(None);
        }
        let mut cursor = StoreCursor::default();
        let mut pieces = Vec::with_capacity(rows.len().div_ceil(PIECE_ROWS));
        for from in (0..rows.len()).step_by(PIECE_ROWS) {
            let count = PIECE_ROWS.min(rows.len() - from);
            let mut columns = Vec::new();
            columns.resize_with(outer_width + inner_width, Vector::default);
            let of_inner = || program.columns.iter().copied().filter(|column| *column >= outer_width);
            of_inner().for_each(|column| columns[column].start(count));
            for row in 0..count {
                let values = rows.row(from + row, &mut cursor, cx.io())?;
                of_inner().for_each(|column| columns[column].put(row, values[column - outer_width].clone()));
            }
            pieces.push(LoopPiece { columns, rows: count });
        }
        Ok(Some(LoopColumns { pieces, ..LoopColumns::default() }))
    }

    /// To be called for each row of the outer side.
    pub fn begin_row(&mut self) {
        (self.piece, self.next) = (0, 0);
        self.passed.clear();
    }

    /// The next inner row for the outer row; `asked` grows by the rows that were looked at. None: there are no more.
    pub fn next<'p>(
        &mut self,
        (condition, on): (&'p ConditionProgram, Option<&'p Expression>),
        (outer, asked): (&[Datum], &mut usize),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<LoopPartner<'p>>> {
        loop {
            if let Some(position) = self.passed.get(self.next) {
                self.next += 1;
                let number = (self.piece - 1) * PIECE_ROWS + *position as usize;
                let on = if self.is_failed { on } else { condition.rest.as_ref() };
                return Ok(Some(LoopPartner { number, on }));
            }
            let (Some(program), true) = (&condition.program, self.piece < self.pieces.len()) else { return Ok(None) };
            *asked += self.ask_piece(program, outer, rt, cx)?;
            if *asked >= BATCH_ROWS {
                *asked = 0;
                cx.park.checkpoint()?;
            }
        }
    }

    /// Lists the rows of the next piece that meet the program's condition. How many it has.
    fn ask_piece(
        &mut self,
        program: &Program,
        outer: &[Datum],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<usize> {
        let LoopPiece { columns, rows } = &mut self.pieces[self.piece];
        for column in program.columns.iter().copied().filter(|column| *column < outer.len()) {
            columns[column].make_constant(outer[column].clone());
        }
        let passed = (program, &mut self.passed);
        self.is_failed = !self.state.filter(passed, columns.as_mut_slice(), Rows::All(*rows), rt, cx)?;
        if self.is_failed {
            self.passed.clear();
            self.passed.extend(0..*rows as u32);
        }
        (self.piece, self.next) = (self.piece + 1, 0);
        Ok(*rows)
    }
}
