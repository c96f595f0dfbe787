//! Rewrites of bound queries: simple subqueries in FROM are merged into their parents, CTEs used once become
//! subqueries.

use super::semijoin::{forget_columns, only_joins};
use kilndb_base::Result;
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_bind::ir::*;

pub(crate) fn simplify(q: &mut Query) -> Result<()> {
    inline_ctes(q)?;
    for c in &mut q.ctes {
        simplify(&mut c.query)?;
    }
    match &mut q.body {
        QueryBody::SetOp { left, right, .. } => {
            simplify(left)?;
            simplify(right)?;
        }
        QueryBody::Dml(d) => {
            if let Some(s) = &mut d.source {
                simplify(s)?;
            }
        }
        _ => {}
    }
    for r in &mut q.rels {
        if let RelKind::Subquery(s) = &mut r.kind {
            simplify(s)?;
        }
    }
    // Subqueries in expressions are simplified too.
    let mut failed = Ok(());
    let mut visit = |e: &mut Expr| -> Result<()> {
        if let ExprKind::SubLink(s) = &mut e.kind {
            inline_ctes(&mut s.query)?;
            pull_up_all(&mut s.query)?;
            if s.kind == SubKind::Exists {
                forget_columns(&mut s.query);
            }
        }
        Ok(())
    };
    if let Err(e) = q.rewrite(&mut visit) {
        failed = Err(e);
    }
    failed?;
    pull_up_all(q)
}

/// A CTE that is used once, selects, and is not volatile, becomes a subquery where it is used.
fn inline_ctes(q: &mut Query) -> Result<()> {
    let mut moved: HashMap<u32, Query> = HashMap::new();
    let mut kept = Vec::new();
    for c in std::mem::take(&mut q.ctes) {
        let plain = !c.recursive
            && !matches!(c.query.body, QueryBody::Dml(_))
            && c.query.locks.is_empty()
            && (c.materialized == Some(false) && c.references == 1 || c.materialized.is_none() && c.references == 1)
            && !c.query.is_volatile();
        let unread = c.references == 0 && !matches!(c.query.body, QueryBody::Dml(_));
        if plain {
            moved.insert(c.id, c.query.into_inner());
        } else if !unread {
            kept.push(c);
        }
    }
    q.ctes = kept;
    if moved.is_empty() {
        return Ok(());
    }
    // A subquery may use another one, so columns are replaced inside the moved ones too.
    replace_in(q, &mut moved);
    Ok(())
}

fn replace_in(q: &mut Query, moved: &mut HashMap<u32, Query>) {
    for r in &mut q.rels {
        if let RelKind::Cte { cte, recursive_self: false } = &r.kind
            && let Some(mut inner) = moved.remove(cte)
        {
            replace_in(&mut inner, moved);
            r.kind = RelKind::Subquery(SharedQuery::new(inner));
        } else if let RelKind::Subquery(s) = &mut r.kind {
            replace_in(s, moved);
        }
    }
    for c in &mut q.ctes {
        replace_in(&mut c.query, moved);
    }
    match &mut q.body {
        QueryBody::SetOp { left, right, .. } => {
            replace_in(left, moved);
            replace_in(right, moved);
        }
        QueryBody::Dml(d) => {
            if let Some(s) = &mut d.source {
                replace_in(s, moved);
            }
        }
        _ => {}
    }
    let _ = q.rewrite(&mut |e| {
        if let ExprKind::SubLink(s) = &mut e.kind {
            replace_in(&mut s.query, moved);
        }
        Ok(())
    });
}

/// Can the relations of a subquery stand where it stands?
fn is_simple(q: &Query) -> bool {
    only_joins(q)
        && matches!(q.distinct, Distinct::No)
        && q.order_by.is_empty()
        && !q.rels.iter().any(|r| matches!(r.kind, RelKind::Values(_)))
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
                            && s.filter.is_none())
            }
            _ => false,
        });
        let Some(position) = position else { return Ok(()) };
        let rel = q.rels.remove(position);
        let RelKind::Subquery(inner) = rel.kind else { return Ok(()) };
        pull_up(q, rel.id, inner.into_inner())?;
    }
}

fn pull_up(q: &mut Query, id: u32, inner: Query) -> Result<()> {
    let outputs: Vec<Expr> = inner.targets.iter().filter(|t| !t.junk).map(|t| t.expr.clone()).collect();
    let mut tree = inner.from.into_iter();
    let Some(mut joined) = tree.next() else { return Ok(()) };
    for t in tree {
        joined = JoinTree::Join { kind: JoinKind::Inner, left: Box::new(joined), right: Box::new(t), on: None };
    }
    if let Some(f) = inner.filter {
        // Kept with the join tree, so that outer joins above stay right.
        joined = attach(joined, f);
    }
    for t in &mut q.from {
        replace_rel(t, id, &mut Some(joined.clone()));
    }
    q.rels.extend(inner.rels);
    q.rewrite(&mut |e| {
        if let ExprKind::Column(c) = &e.kind
            && c.rel == id
            && let Some(x) = usize::try_from(c.att - 1).ok().and_then(|i| outputs.get(i))
        {
            let loc = e.loc;
            *e = x.clone().at(loc);
        }
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
