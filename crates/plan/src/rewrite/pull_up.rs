//! Simple subqueries in FROM are merged into the queries that they stand in.

use super::super::semijoin::{forget_columns, only_joins};
use super::cte::inline_ctes;
use super::*;

/// Merges at all levels, the innermost first, after WITH queries have become subqueries where they can.
pub(super) fn pull_up(q: &mut Query) -> Result<()> {
    kilndb_base::stack::check()?;
    windows::arrange(q)?;
    inline_ctes(q)?;
    q.for_subqueries_mut(&mut pull_up)?;
    q.for_exprs_mut(&mut |e| {
        for_sublinks(e, &mut |s| {
            pull_up(&mut s.query)?;
            if s.kind == SubKind::Exists {
                forget_columns(&mut s.query);
            }
            Ok(())
        })
    })?;
    pull_up_all(q)
}

/// Can the relations of a subquery stand where it stands?
fn is_simple(q: &Query) -> bool {
    only_joins(q)
        && matches!(q.distinct, Distinct::No)
        && q.order_by.is_empty()
        && !q.rels.iter().any(|r| matches!(&r.kind, RelKind::Values(rows) if rows.len() != 1))
        && !q.targets.iter().any(|t| t.expr.is_volatile() || t.expr.has_sublink())
}

/// Are all results of a subquery columns, each a different one? Above grouping sets the results of a subquery are told
/// apart although they have the same value, or a constant one: some are NULL in a set, others are not.
fn has_distinct_columns(q: &Query) -> bool {
    let mut seen = Vec::new();
    q.targets.iter().filter(|t| !t.junk).all(|t| match &t.expr.kind {
        ExprKind::Column(id) => {
            let new = !seen.contains(id);
            seen.push(*id);
            new
        }
        _ => false,
    })
}

/// Relations that an outer join may fill with NULLs.
fn nullable(t: &JoinTree, under: bool, out: &mut Vec<u32>) {
    match t {
        JoinTree::Rel(r) => {
            if under {
                out.push(*r);
            }
        }
        JoinTree::Join { kind, left, right, .. } => {
            let (l, r) = match kind {
                JoinKind::Left => (under, true),
                JoinKind::Right => (true, under),
                JoinKind::Full => (true, true),
                _ => (under, under),
            };
            nullable(left, l, out);
            nullable(right, r, out);
        }
    }
}

fn pull_up_all(q: &mut Query) -> Result<()> {
    if !matches!(q.body, QueryBody::Select | QueryBody::Dml(_)) {
        return Ok(());
    }
    // A view whose triggers do the work: its rows must stay recognizable.
    let target = if let QueryBody::Dml(d) = &q.body { Some(d.rel) } else { None };
    let is_target = |rel: u32| target == Some(rel);
    loop {
        let mut filled = Vec::new();
        q.from.iter().for_each(|t| nullable(t, false, &mut filled));
        let position = q.rels.iter().position(|r| match &r.kind {
            RelKind::Subquery(s) => {
                !is_target(r.id)
                    && is_simple(s)
                    && (q.grouping_sets.is_none() || has_distinct_columns(s))
                    && !r.lateral
                    && (!filled.contains(&r.id)
                        || s.targets.iter().all(|t| t.junk || matches!(t.expr.kind, ExprKind::Column(_)))
                            && (s.filter.is_none() || is_single(s) && q.from.iter().any(|t| is_right_side(t, r.id))))
            }
            _ => false,
        });
        let Some(position) = position else { return super::single_rows::absorb(q) };
        let rel = q.rels.remove(position);
        let RelKind::Subquery(inner) = rel.kind else { return Ok(()) };
        merge(q, rel.id, inner.into_inner())?;
    }
}

fn merge(q: &mut Query, id: u32, inner: Query) -> Result<()> {
    let outputs: Vec<Expr> = inner.targets.iter().filter(|t| !t.junk).map(|t| t.expr.clone()).collect();
    let mut tree = inner.from.into_iter();
    let Some(mut joined) = tree.next() else { return Ok(()) };
    for t in tree {
        joined = JoinTree::Join { kind: JoinKind::Inner, left: Box::new(joined), right: Box::new(t), on: None };
    }
    let condition_of_join = q.from.iter_mut().find_map(|t| condition_of_left_join(t, id));
    if let (Some(f), Some(on)) = (&inner.filter, condition_of_join) {
        // What the right side of a LEFT join must meet to be there may as well be met to be joined.
        let mut all = take_conjuncts(on);
        f.clone().conjuncts(&mut all);
        *on = Expr::and_all(all);
    } else if let Some(f) = inner.filter {
        // Kept with the join tree, so that outer joins above stay right.
        joined = attach(joined, f);
    }
    for t in &mut q.from {
        replace_rel(t, id, &mut Some(joined.clone()));
    }
    q.rels.extend(inner.rels);
    q.rewrite(&mut |e| {
        put_value(e, id, &outputs);
        Ok(())
    })
}

/// A join tree with a condition on all of it.
fn attach(t: JoinTree, f: Expr) -> JoinTree {
    match t {
        JoinTree::Join { kind: JoinKind::Inner, left, right, on } => {
            let mut list = Vec::new();
            if let Some(o) = on {
                o.conjuncts(&mut list);
            }
            f.conjuncts(&mut list);
            JoinTree::Join { kind: JoinKind::Inner, left, right, on: Expr::and_all(list) }
        }
        other => JoinTree::Join {
            kind: JoinKind::Inner,
            left: Box::new(other),
            right: Box::new(JoinTree::Rel(0)),
            on: Some(f),
        },
    }
}

fn replace_rel(t: &mut JoinTree, id: u32, with: &mut Option<JoinTree>) {
    match t {
        JoinTree::Rel(r) if *r == id => {
            if let Some(w) = with.take() {
                *t = w;
            }
        }
        JoinTree::Rel(_) => {}
        JoinTree::Join { left, right, .. } => {
            replace_rel(left, id, with);
            replace_rel(right, id, with);
        }
    }
}

fn is_single(q: &Query) -> bool {
    matches!(q.from.as_slice(), [JoinTree::Rel(_)])
}

/// Is the relation the right side of a LEFT join, by itself?
fn is_right_side(t: &JoinTree, id: u32) -> bool {
    match t {
        JoinTree::Rel(_) => false,
        JoinTree::Join { kind: JoinKind::Left, right, .. } if matches!(**right, JoinTree::Rel(r) if r == id) => true,
        JoinTree::Join { left, right, .. } => is_right_side(left, id) || is_right_side(right, id),
    }
}

/// The condition of the LEFT join that has the relation as its right side.
fn condition_of_left_join(t: &mut JoinTree, id: u32) -> Option<&mut Option<Expr>> {
    match t {
        JoinTree::Rel(_) => None,
        JoinTree::Join { kind: JoinKind::Left, right, on, .. } if matches!(**right, JoinTree::Rel(r) if r == id) => {
            Some(on)
        }
        JoinTree::Join { left, right, .. } => {
            condition_of_left_join(left, id).or_else(|| condition_of_left_join(right, id))
        }
    }
}
