//! Evaluation of expressions for one row.

use super::context::{ExecContext, RunState};
use super::row_program::{self, copy};
use kilndb_base::Result;
use kilndb_plan::expression::{CExpr, Expression};
use kilndb_types::Datum;
use kilndb_types::numeric::Numeric;

/// The value of the expression for a row.
pub trait Evaluate {
    /// Is the condition true for a row? NULL counts as not true.
    fn is_true(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool>;
    /// As [`Evaluate::eval`], to where the value belongs: that integers are handed on through memory costs more than to
    /// compute them.
    fn eval_into(&self, row: &[Datum], out: &mut Datum, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()>;
    fn eval(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum>;
}

impl Evaluate for Expression {
    #[inline]
    fn is_true(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
        row_program::run(self.condition(), row, &mut Datum::Null, rt, cx)
    }

    #[inline]
    fn eval_into(&self, row: &[Datum], out: &mut Datum, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        // What is only handed on takes no program.
        let held = match self.tree() {
            CExpr::Slot(column) => row.get(*column),
            CExpr::Const(value) => Some(value),
            CExpr::Param(n) => rt.params.get(*n),
            CExpr::ExecParam(n) => rt.exec_params.get(*n),
            _ => return row_program::run(self.program(), row, out, rt, cx).map(drop),
        };
        match held {
            Some(value) => copy(value, out),
            None => *out = Datum::Null,
        }
        Ok(())
    }

    #[inline]
    fn eval(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
        let mut value = Datum::Null;
        self.eval_into(row, &mut value, rt, cx)?;
        // Piece by piece, as it was written.
        Ok(match value {
            Datum::Int4(v) => Datum::Int4(v),
            Datum::Int8(v) => Datum::Int8(v),
            Datum::Bool(v) => Datum::Bool(v),
            Datum::Text(v) => Datum::Text(v),
            Datum::Numeric(Numeric::Short(v)) => Datum::Numeric(Numeric::Short(v)),
            other => other,
        })
    }
}

/// The values of expressions. None: strict, and one of them is NULL.
pub(crate) fn eval_all(
    args: &[Expression],
    strict: bool,
    row: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<Vec<Datum>>> {
    let mut out = Vec::with_capacity(args.len());
    for a in args {
        let v = a.eval(row, rt, cx)?;
        if strict && v.is_null() {
            return Ok(None);
        }
        out.push(v);
    }
    Ok(Some(out))
}
