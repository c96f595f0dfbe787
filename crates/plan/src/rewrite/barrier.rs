//! What may be asked of the rows of a security barrier before the barrier has let them through: PostgreSQL's
//! contain_leaked_vars.
//!
//! A view WITH (security_barrier) hides rows from its users. A function that tells what it is called with (in an error, a
//! notice, or by what it does) must not see a hidden row, so conditions stay above such a view unless all that they call
//! is leakproof.

use kilndb_bind::ir::*;
use kilndb_catalog::builtin::is_leakproof;

/// Whether a condition tells nothing of the rows that it is asked of, but by its value.
pub(in super::super) fn tells_nothing(e: &Expr) -> bool {
    let may_leak = match &e.kind {
        ExprKind::Func(f)
        | ExprKind::NullIf(f)
        | ExprKind::IsDistinct { eq: f, .. }
        | ExprKind::ScalarArray { func: f, .. } => !is_leakproof(f.oid) && f.args.iter().any(has_columns),
        ExprKind::Const(_)
        | ExprKind::Param(_)
        | ExprKind::Column(_)
        | ExprKind::And(_)
        | ExprKind::Or(_)
        | ExprKind::Not(_)
        | ExprKind::IsNull { .. }
        | ExprKind::BoolTest { .. }
        | ExprKind::Case { .. }
        | ExprKind::CaseArg
        | ExprKind::Coalesce(_)
        | ExprKind::Row { .. }
        | ExprKind::SqlValue(_)
        | ExprKind::Collate { .. } => false,
        ExprKind::Cast { kind: CastKind::Relabel, .. } => false,
        _ => has_columns(e),
    };
    if may_leak {
        return false;
    }
    let mut tells = false;
    e.for_children(&mut |child| tells = tells || !tells_nothing(child));
    !tells
}

fn has_columns(e: &Expr) -> bool {
    let mut columns = Vec::new();
    e.columns(&mut columns);
    !columns.is_empty()
}
