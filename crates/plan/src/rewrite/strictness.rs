//! Which relations and columns must be something else than NULL for a condition to be true.

use super::*;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_types::oids;

/// What a condition says of columns: PostgreSQL's find_nonnullable_rels and find_nonnullable_vars. A condition that is
/// met is met by rows in which none of them is NULL.
pub(super) fn not_null_columns(e: &Expr) -> Vec<ColId> {
    walk(e, true)
}

/// The columns that must not be NULL for the value of `e` not to be NULL.
pub(super) fn needed_columns(e: &Expr) -> Vec<ColId> {
    walk(e, false)
}

/// The columns that must not be NULL for `e` to be true (`on_top`), or not NULL.
fn walk(e: &Expr, on_top: bool) -> Vec<ColId> {
    match &e.kind {
        ExprKind::Column(c) => vec![*c],
        ExprKind::Func(f) if f.strict && !f.returns_set => of_any(&f.args),
        ExprKind::Cast {
            arg, kind: CastKind::Relabel | CastKind::InOut | CastKind::Typmod | CastKind::Array, ..
        }
        | ExprKind::Collate { arg, .. }
        | ExprKind::Not(arg) => walk(arg, false),
        ExprKind::And(list) if on_top => list.iter().flat_map(|x| walk(x, true)).collect(),
        ExprKind::And(list) | ExprKind::Or(list) => of_all(list, on_top),
        ExprKind::IsNull { arg, negated: true } if on_top && is_scalar(arg) => walk(arg, false),
        ExprKind::BoolTest { arg, test: BoolTestKind::True | BoolTestKind::False | BoolTestKind::NotUnknown }
            if on_top =>
        {
            walk(arg, false)
        }
        ExprKind::Case { arg: None, whens, otherwise: None } => match whens.as_slice() {
            [(Expr { kind: ExprKind::IsNull { arg, negated: true }, .. }, value)] if is_scalar(arg) => {
                [walk(arg, false), walk(value, false)].concat()
            }
            _ => Vec::new(),
        },
        // For no element of an empty array it is true that a NULL equals it; that it does not is true for all.
        ExprKind::ScalarArray { func, any: true } if func.strict && on_top => {
            func.args.first().map_or_else(Vec::new, |a| walk(a, false))
        }
        _ => Vec::new(),
    }
}

fn of_any(list: &[Expr]) -> Vec<ColId> {
    list.iter().flat_map(|x| walk(x, false)).collect()
}

/// For alternatives: the columns that each of them is about.
fn of_all(list: &[Expr], on_top: bool) -> Vec<ColId> {
    let mut lists = list.iter().map(|x| walk(x, on_top));
    let Some(mut common) = lists.next() else { return Vec::new() };
    for columns in lists {
        common.retain(|c| columns.contains(c));
    }
    common
}

/// The relations that cannot be filled with NULLs in rows for which the condition is true.
pub(in super::super) fn not_null_relations(e: &Expr) -> Vec<u32> {
    let mut rels: Vec<u32> = relations_in(e, true);
    rels.sort_unstable();
    rels.dedup();
    rels
}

/// As [`walk`], by relation: alternatives may be about different columns of one.
fn relations_in(e: &Expr, on_top: bool) -> Vec<u32> {
    match &e.kind {
        ExprKind::And(list) if on_top => list.iter().flat_map(|x| relations_in(x, true)).collect(),
        ExprKind::And(list) | ExprKind::Or(list) => {
            let mut lists = list.iter().map(|x| relations_in(x, on_top));
            let Some(mut common) = lists.next() else { return Vec::new() };
            for rels in lists {
                common.retain(|r| rels.contains(r));
            }
            common
        }
        ExprKind::Not(arg) => relations_in(arg, false),
        _ => walk(e, on_top).into_iter().map(|c| c.rel).collect(),
    }
}

/// The column of which the condition says that it is NULL.
pub(super) fn null_column(e: &Expr) -> Option<ColId> {
    match &e.kind {
        ExprKind::IsNull { arg, negated: false } if is_scalar(arg) => match &arg.kind {
            ExprKind::Column(c) => Some(*c),
            _ => None,
        },
        _ => None,
    }
}

/// Is IS NULL about the value, not about the fields of a row?
fn is_scalar(e: &Expr) -> bool {
    !matches!(e.kind, ExprKind::Row { .. }) && e.ty != oids::RECORD && e.ty < FIRST_USER_OID
}
