//! Where the values of a statement's parameters decide about its plan beyond how many rows there will be: a condition
//! that holds for all rows or for none, an argument of COALESCE that leaves the others out, a LIMIT. Estimates note for
//! themselves where a value would tell them more ([`super::Planner::value_of`]).

use kilndb_bind::ir::{Expr, ExprKind, JoinTree, Query};

/// With known values of its parameters the query may become a simpler one.
pub(super) fn decide_about(query: &Query) -> bool {
    if query.limit.iter().chain(&query.offset).any(has_parameter) {
        return true;
    }
    let mut found = query.filter.iter().chain(&query.having).any(decides_in_condition);
    query.from.iter().for_each(|tree| found |= decides_in_join(tree));
    if found {
        return true;
    }
    query.for_exprs(&mut |e| found = found || decides_in_sublink(e));
    query.for_subqueries(&mut |inner| found = found || decide_about(inner));
    found
}

fn decides_in_join(tree: &JoinTree) -> bool {
    match tree {
        JoinTree::Join { left, right, on, .. } => {
            decides_in_join(left) || decides_in_join(right) || on.iter().any(decides_in_condition)
        }
        _ => false,
    }
}

fn decides_in_sublink(e: &Expr) -> bool {
    e.any(&|e| matches!(&e.kind, ExprKind::SubLink(s) if decide_about(&s.query)))
}

pub(super) fn has_parameter(e: &Expr) -> bool {
    e.any(&|e| matches!(e.kind, ExprKind::Param(_)))
}

/// It has a value before the plan runs, but none without the parameters' values.
fn is_known_with_parameters(e: &Expr) -> bool {
    has_parameter(e) && !e.any(&|e| matches!(e.kind, ExprKind::Column(_) | ExprKind::SubLink(_)))
}

fn decides_in_condition(e: &Expr) -> bool {
    is_known_with_parameters(e)
        || e.any(&|e| match &e.kind {
            ExprKind::And(list) | ExprKind::Or(list) => list.iter().any(is_known_with_parameters),
            ExprKind::Not(arg) | ExprKind::IsNull { arg, .. } | ExprKind::BoolTest { arg, .. } => {
                is_known_with_parameters(arg)
            }
            ExprKind::Coalesce(list) => list.first().is_some_and(is_known_with_parameters),
            ExprKind::Case { arg, whens, .. } => {
                arg.as_ref().is_some_and(|a| is_known_with_parameters(a))
                    || whens.iter().any(|(when, _)| is_known_with_parameters(when))
            }
            _ => false,
        })
}
