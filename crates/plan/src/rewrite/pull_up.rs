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
    !q.is_barrier
        && only_joins(q)
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
                let is_filled = filled.contains(&r.id);
                !is_target(r.id)
                    && is_simple(s)
                    && (q.grouping_sets.is_none() || has_distinct_columns(s))
                    && sees_what_it_needs(q, r.id, s, is_filled)
                    && (!is_filled
                        || (witness(s).is_some() || s.targets.iter().all(|t| t.junk || is_filled_with(&t.expr, s)))
                            && (s.filter.is_none() || is_single(s) && q.from.iter().any(|t| is_right_side(t, r.id))))
            }
            _ => false,
        });
        let Some(position) = position else { return super::single_rows::absorb(q) };
        let rel = q.rels.remove(position);
        let RelKind::Subquery(inner) = rel.kind else { return Ok(()) };
        let mut inner = inner.into_inner();
        if filled.contains(&rel.id) {
            fill_with_null(&mut inner);
        }
        merge(q, rel.id, inner)?;
    }
}

/// Is the expression NULL where an outer join fills the subquery's relations with NULLs?
fn is_filled_with(e: &Expr, inner: &Query) -> bool {
    super::strictness::needed_columns(e).iter().any(|c| inner.rels.iter().any(|r| r.id == c.rel))
}

/// A column of the subquery that is NULL in no row of it, unless an outer join fills the row with NULLs.
fn witness(inner: &Query) -> Option<Expr> {
    let ([JoinTree::Rel(rel)], [r]) = (inner.from.as_slice(), inner.rels.as_slice()) else { return None };
    let is_table = matches!(&r.kind, RelKind::Table(t) if t.kind.has_rows());
    is_table.then(|| Expr::column(ColId { rel: *rel, att: ATT_CTID }, kilndb_types::oids::TID, -1))
}

/// Results that would have a value in rows that an outer join fills with NULLs have none there any more.
fn fill_with_null(inner: &mut Query) {
    let Some(witness) = witness(inner) else { return };
    let is_filled: Vec<bool> = inner.targets.iter().map(|t| t.junk || is_filled_with(&t.expr, inner)).collect();
    for (t, _) in inner.targets.iter_mut().zip(is_filled).filter(|(_, is_filled)| !is_filled) {
        let (ty, typmod, collation) = (t.expr.ty, t.expr.typmod, t.expr.collation);
        let value = std::mem::replace(&mut t.expr, Expr::null(ty));
        let there = ExprKind::IsNull { arg: Box::new(witness.clone()), negated: true };
        let there = Expr::new(there, kilndb_types::oids::BOOL);
        let kind = ExprKind::Case { arg: None, whens: vec![(there, value)], otherwise: None };
        t.expr = Expr { kind, ty, typmod, loc: -1, collation };
    }
}

/// Do the relations that the subquery looks at from inside stand where its conditions are going to be?
fn sees_what_it_needs(q: &Query, id: u32, inner: &Query, is_filled: bool) -> bool {
    let mut used = Vec::new();
    inner.outer_columns(&mut used);
    used.retain(|c| q.rels.iter().any(|r| r.id == c.rel));
    if used.is_empty() {
        return true;
    }
    let is_outside = |c: &ColId| used.contains(c);
    // Rows of VALUES are made where nothing of their neighbours is known.
    let uses_outside = |e: &Expr| {
        let mut columns = Vec::new();
        e.columns(&mut columns);
        columns.iter().any(is_outside)
    };
    if inner.rels.iter().any(|r| matches!(&r.kind, RelKind::Values(rows) if rows.iter().flatten().any(uses_outside))) {
        return false;
    }
    // The condition of an outer join in the subquery is judged there.
    if inner.from.iter().any(|t| !inner_only(t)) && inner.from.iter().any(|t| has_condition_on(t, &is_outside)) {
        return false;
    }
    match is_filled {
        false => q.from.iter().any(|t| is_joined_inside(t, id)),
        true => {
            let left = q.from.iter().find_map(|t| left_of(t, id));
            left.is_some_and(|left| {
                let rels = relations_of(left);
                used.iter().all(|c| rels.contains(&c.rel))
            })
        }
    }
}

fn inner_only(t: &JoinTree) -> bool {
    match t {
        JoinTree::Rel(_) => true,
        JoinTree::Join { kind, left, right, .. } => *kind == JoinKind::Inner && inner_only(left) && inner_only(right),
    }
}

fn has_condition_on(t: &JoinTree, is_it: &dyn Fn(&ColId) -> bool) -> bool {
    let JoinTree::Join { left, right, on, .. } = t else { return false };
    let mut used = Vec::new();
    on.iter().for_each(|e| e.columns(&mut used));
    used.iter().any(is_it) || has_condition_on(left, is_it) || has_condition_on(right, is_it)
}

/// Do inner joins alone join the relation with all others of the tree?
fn is_joined_inside(t: &JoinTree, id: u32) -> bool {
    match t {
        JoinTree::Rel(rel) => *rel == id,
        JoinTree::Join { kind: JoinKind::Inner, left, right, .. } => {
            is_joined_inside(left, id) || is_joined_inside(right, id)
        }
        JoinTree::Join { .. } => false,
    }
}

/// The left side of the LEFT join that has the relation as its right side.
fn left_of(t: &JoinTree, id: u32) -> Option<&JoinTree> {
    let JoinTree::Join { kind, left, right, .. } = t else { return None };
    if *kind == JoinKind::Left && matches!(**right, JoinTree::Rel(r) if r == id) {
        return Some(left);
    }
    left_of(left, id).or_else(|| left_of(right, id))
}

fn merge(q: &mut Query, id: u32, mut inner: Query) -> Result<()> {
    inherit_locks(q, id, std::mem::take(&mut inner.locks));
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

/// What a subquery locked because it is locked itself, the query locks in its stead.
fn inherit_locks(q: &mut Query, id: u32, locks: Vec<RowLock>) {
    let is_inherited = q.locks.iter().find(|lock| lock.rel == id).is_none_or(|lock| lock.is_inherited);
    q.locks.extend(locks.into_iter().map(|lock| RowLock { is_inherited, ..lock }));
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
