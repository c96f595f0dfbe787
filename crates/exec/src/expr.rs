//! Evaluation of expressions for one row.

use super::context::{ExecContext, RunState};
use super::row_program::{self, copy};
use kilndb_base::Result;
use kilndb_plan::expression::{CExpr, Expression};
use kilndb_types::Datum;

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
        row_program::is_met(self.condition(), row, rt, cx)
    }

    #[inline]
    fn eval_into(&self, row: &[Datum], out: &mut Datum, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        match held(self.tree(), row, rt) {
            Some(value) => copy(value, out),
            None => row_program::value_into(self.program(), row, out, rt, cx)?,
        }
        Ok(())
    }

    #[inline]
    fn eval(&self, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Datum> {
        match held(self.tree(), row, rt) {
            Some(value) => Ok(value.clone()),
            None => row_program::value(self.program(), row, rt, cx),
        }
    }
}

/// The value of an expression that only hands one on, which takes no program.
#[inline(always)]
fn held<'v>(e: &'v CExpr, row: &'v [Datum], rt: &'v RunState) -> Option<&'v Datum> {
    let held = match e {
        CExpr::Slot(column) => row.get(*column),
        CExpr::Const(value) => Some(value),
        CExpr::Param(n) => rt.params.get(*n),
        CExpr::ExecParam(n) => rt.exec_params.get(*n),
        _ => return None,
    };
    Some(held.unwrap_or(&row_program::NULL))
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
