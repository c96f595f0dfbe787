//! Checks of row security and of views: of rows that a statement writes, and of those that it finds and is about to
//! change (PostgreSQL's ExecWithCheckOptions).
//!
//! Invariants
//! 1. A row that does not meet a check ends the statement; no error of row security tells the row's values.
//! 2. Row security looks at new rows when triggers have had their say and generated columns are known, before
//!    constraints; a view looks at the row as it is stored, after all constraints that are not deferred.

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

/// Whether views have something to say about rows that are stored.
pub(super) fn has_view_checks(m: &ModifyPlan) -> bool {
    m.statement.row_checks.iter().any(|check| check.kind == RowCheckKind::View)
}

/// Judges a row that has been stored by WITH CHECK OPTION of the views that it came through.
pub(super) fn check_stored(
    m: &ModifyPlan,
    values: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    if !has_view_checks(m) {
        return Ok(());
    }
    let named;
    let values = match &m.columns {
        Some(columns) => {
            named = columns.to_named(values);
            &named[..]
        }
        None => values,
    };
    for check in m.statement.row_checks.iter().filter(|check| check.kind == RowCheckKind::View) {
        if !check.condition.is_true(values, rt, cx)? {
            let view = check.policy.as_deref().unwrap_or_default();
            let message = format!("new row violates check option for view \"{view}\"");
            let error = Error::new(sqlstate::WITH_CHECK_OPTION_VIOLATION, message);
            return Err(super::write::with_named_row(error, m, values, rt, cx));
        }
    }
    Ok(())
}

fn violation(check: &PlannedRowCheck) -> Error {
    let (which, clause) = match check.kind {
        RowCheckKind::Insert | RowCheckKind::Update | RowCheckKind::View => ("new", ""),
        RowCheckKind::Conflict => ("new", " (USING expression)"),
        RowCheckKind::MergeUpdate | RowCheckKind::MergeDelete => ("target", " (USING expression)"),
    };
    let policy = check.policy.as_ref().map_or_else(String::new, |name| format!(" \"{name}\""));
    let table = &check.table;
    let message = format!("{which} row violates row-level security policy{policy}{clause} for table \"{table}\"");
    Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
}
