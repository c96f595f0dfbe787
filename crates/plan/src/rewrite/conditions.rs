//! The form of conditions: PostgreSQL's canonicalize_qual.
//!
//! What all alternatives of an OR have in common becomes a condition of its own, beside the OR of what is left of them:
//! it may be a join's condition or an index's, which an OR is not. A NULL counts as false, which is the same for a
//! condition that rows must meet.

use super::*;
use kilndb_bind::same;
use kilndb_types::Datum;

/// Brings the conditions of a level in this form, and moves those on groups that do not need the groups to the rows.
pub(super) fn simplify(q: &mut Query) {
    q.from.iter_mut().for_each(of_tree);
    of_condition(&mut q.filter);
    let makes_group = q.having.is_some() && q.group_by.is_empty() && !q.has_aggs;
    of_condition(&mut q.having);
    if makes_group && q.having.is_none() {
        // That there is a HAVING makes all rows one group.
        q.having = Some(Expr::bool(true));
    }
    to_rows(q);
}

fn of_tree(t: &mut JoinTree) {
    if let JoinTree::Join { left, right, on, .. } = t {
        of_tree(left);
        of_tree(right);
        of_condition(on);
    }
}

fn of_condition(e: &mut Option<Expr>) {
    let needs_work = |e: &Expr| {
        matches!(&e.kind, ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Const(Datum::Bool(_) | Datum::Null))
    };
    if let Some(given) = e.take_if(|e| needs_work(e)) {
        *e = Some(canonical(given)).filter(|e| !matches!(e.as_const(), Some(Datum::Bool(true))));
    }
}

/// The condition in this form.
pub(in super::super) fn canonical(e: Expr) -> Expr {
    match e.kind {
        ExprKind::And(list) => {
            let mut kept = Vec::with_capacity(list.len());
            for item in list {
                let item = canonical(item);
                match &item.kind {
                    ExprKind::Const(Datum::Bool(true)) => {}
                    ExprKind::Const(Datum::Bool(false)) => return item,
                    _ => item.conjuncts(&mut kept),
                }
            }
            Expr::and_all(kept).unwrap_or_else(|| Expr::bool(true))
        }
        ExprKind::Or(list) => {
            let mut kept = Vec::with_capacity(list.len());
            for item in list {
                let item = canonical(item);
                match item.kind {
                    ExprKind::Const(Datum::Bool(false)) => {}
                    ExprKind::Const(Datum::Bool(true)) => return item,
                    ExprKind::Or(inner) => kept.extend(inner),
                    _ => kept.push(item),
                }
            }
            without_common(kept)
        }
        ExprKind::Const(Datum::Null) => Expr::bool(false),
        _ => e,
    }
}

fn or_all(mut list: Vec<Expr>) -> Expr {
    match list.len() {
        0 => Expr::bool(false),
        1 => list.remove(0),
        _ => Expr::new(ExprKind::Or(list), kilndb_types::oids::BOOL),
    }
}

/// The OR of `alternatives`, with the conditions that they have in common in front of it.
fn without_common(alternatives: Vec<Expr>) -> Expr {
    let Some(shortest) = alternatives.iter().map(parts).min_by_key(|p| p.len()) else { return Expr::bool(false) };
    if alternatives.len() < 2 {
        return or_all(alternatives);
    }
    let is_everywhere = |e: &Expr| alternatives.iter().all(|a| parts(a).iter().any(|x| same(x, e)));
    let mut common: Vec<Expr> = Vec::new();
    for e in shortest {
        if !e.is_volatile() && !common.iter().any(|c| same(c, e)) && is_everywhere(e) {
            common.push(e.clone());
        }
    }
    if common.is_empty() {
        return or_all(alternatives);
    }
    let mut rest = Vec::with_capacity(alternatives.len());
    for a in alternatives {
        let mut list = Vec::new();
        a.conjuncts(&mut list);
        list.retain(|e| !common.iter().any(|c| same(c, e)));
        match Expr::and_all(list) {
            Some(e) => rest.push(e),
            // This alternative is what all have in common, so the others say nothing that it does not.
            None => {
                rest.clear();
                break;
            }
        }
    }
    if !rest.is_empty() {
        common.push(or_all(rest));
    }
    Expr::and_all(common).unwrap_or_else(|| Expr::bool(true))
}

fn parts(e: &Expr) -> &[Expr] {
    match &e.kind {
        ExprKind::And(list) => list,
        _ => std::slice::from_ref(e),
    }
}

/// A condition on groups that is about what rows are grouped by leaves out whole groups, and their rows as well.
fn to_rows(q: &mut Query) {
    if q.having.is_none() || q.group_by.is_empty() || q.grouping_sets.is_some() || !matches!(q.body, QueryBody::Select)
    {
        return;
    }
    let outer_aggs = q.outer_agg_rel;
    let is_of_rows = |e: &Expr| {
        let mut columns = Vec::new();
        e.columns(&mut columns);
        let of_aggregate = outer_aggs != 0 && columns.iter().any(|c| c.rel == outer_aggs);
        !e.has_agg() && !e.is_volatile() && !e.has_sublink() && !e.has_window() && !of_aggregate
    };
    let (rows, groups): (Vec<Expr>, Vec<Expr>) = take_conjuncts(&mut q.having).into_iter().partition(is_of_rows);
    q.having = Expr::and_all(groups);
    if !rows.is_empty() {
        let mut all = take_conjuncts(&mut q.filter);
        all.extend(rows);
        q.filter = Expr::and_all(all);
    }
}
