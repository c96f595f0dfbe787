//! Checks of row security: of rows that a statement writes, and of those that it finds and is about to change
//! (PostgreSQL's ExecWithCheckOptions).
//!
//! Invariants
//! 1. A row that does not meet a check ends the statement; no error of it tells the row's values.
//! 2. New rows are checked when triggers have had their say and generated columns are known, before constraints.

use super::context::*;
use super::expr::Evaluate;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_bind::ir::RowCheckKind;
use kilndb_plan::{ModifyPlan, PlannedRowCheck};
use kilndb_types::Datum;

/// Judges a row by the checks of a kind. `row`: a row of the table that the statement names for new rows, of others the
/// row that assignments see.
pub(super) fn check(
    m: &ModifyPlan,
    kind: RowCheckKind,
    row: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    for check in m.statement.row_checks.iter().filter(|check| check.kind == kind) {
        if !check.condition.is_true(row, rt, cx)? {
            return Err(violation(check));
        }
    }
    Ok(())
}

fn violation(check: &PlannedRowCheck) -> Error {
    let (which, clause) = match check.kind {
        RowCheckKind::Insert | RowCheckKind::Update => ("new", ""),
        RowCheckKind::Conflict => ("new", " (USING expression)"),
        RowCheckKind::MergeUpdate | RowCheckKind::MergeDelete => ("target", " (USING expression)"),
    };
    let policy = check.policy.as_ref().map_or_else(String::new, |name| format!(" \"{name}\""));
    let table = &check.table;
    let message = format!("{which} row violates row-level security policy{policy}{clause} for table \"{table}\"");
    Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
}
