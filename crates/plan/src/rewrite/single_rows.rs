//! Subqueries without FROM and VALUES lists of one row, which are joined with everything: their values take the places
//! of their columns.
//!
//! `WITH given AS (SELECT 5 AS k) SELECT … FROM t, given WHERE t.x = given.k` is about `t.x = 5` then.

use super::*;

/// Takes them out of the FROM clause of a query, as long as there is something else in it.
pub(super) fn absorb(q: &mut Query) -> Result<()> {
    let is_plain = match &q.body {
        QueryBody::Select => true,
        QueryBody::Dml(d) => matches!(d.kind, DmlKind::Update | DmlKind::Delete),
        _ => false,
    };
    if !is_plain || !q.locks.is_empty() || q.grouping_sets.is_some() || !q.rels.iter().any(|r| values_of(r).is_some()) {
        return Ok(());
    }
    let mut joined = Vec::new();
    q.from.iter().for_each(|t| inner_items(t, &mut joined));
    let mut left = joined.len();
    let mut absorbed: Vec<(u32, Vec<Expr>)> = Vec::new();
    for rel in joined.into_iter().flatten() {
        if let Some(values) = q.rels.iter().find(|r| r.id == rel).and_then(values_of)
            && left > 1
            && !has_whole_row(q, rel)
        {
            absorbed.push((rel, values));
            left -= 1;
        }
    }
    if absorbed.is_empty() {
        return Ok(());
    }
    let is_absorbed = |rel: u32| absorbed.iter().any(|(id, _)| *id == rel);
    q.from.retain(|t| !matches!(t, JoinTree::Rel(rel) if is_absorbed(*rel)));
    q.from.iter_mut().for_each(|t| take_out(t, &is_absorbed));
    q.rels.retain(|r| !is_absorbed(r.id));
    q.rewrite(&mut |e| {
        absorbed.iter().for_each(|(rel, values)| put_value(e, *rel, values));
        Ok(())
    })
}

/// What inner joins join: relations, and outer joins (None).
fn inner_items(t: &JoinTree, out: &mut Vec<Option<u32>>) {
    match t {
        JoinTree::Rel(0) => {}
        JoinTree::Rel(rel) => out.push(Some(*rel)),
        JoinTree::Join { kind: JoinKind::Inner, left, right, .. } => {
            inner_items(left, out);
            inner_items(right, out);
        }
        JoinTree::Join { .. } => out.push(None),
    }
}

/// The values of the only row that the relation has, if they may be computed where they are used.
fn values_of(rel: &Rel) -> Option<Vec<Expr>> {
    let values: Vec<Expr> = match &rel.kind {
        RelKind::Subquery(s) if s.only_conditions() && s.from.is_empty() && s.filter.is_none() => {
            s.targets.iter().filter(|t| !t.junk).map(|t| t.expr.clone()).collect()
        }
        RelKind::Values(rows) => match rows.as_slice() {
            [row] => row.clone(),
            _ => return None,
        },
        _ => return None,
    };
    let mut columns = Vec::new();
    values.iter().for_each(|e| e.columns(&mut columns));
    let may_move = |(e, column): (&Expr, &RelColumn)| {
        e.ty == column.ty && !e.is_volatile() && !e.has_sublink() && !e.has_srf() && !e.has_agg()
    };
    let fits = columns.is_empty() && values.len() == rel.columns.len() && values.iter().zip(&rel.columns).all(may_move);
    fits.then_some(values)
}

/// Does anything use the row as a whole?
fn has_whole_row(q: &Query, rel: u32) -> bool {
    let mut columns = Vec::new();
    q.for_exprs(&mut |e| e.columns(&mut columns));
    q.for_subqueries(&mut |inner| inner.outer_columns(&mut columns));
    columns.iter().any(|c| c.rel == rel && c.att <= 0)
}

/// Takes relations out of what inner joins join.
fn take_out(t: &mut JoinTree, is_absorbed: &dyn Fn(u32) -> bool) {
    let JoinTree::Join { kind: JoinKind::Inner, left, right, on } = t else { return };
    take_out(left, is_absorbed);
    take_out(right, is_absorbed);
    for side in [&mut *left, &mut *right] {
        if matches!(**side, JoinTree::Rel(rel) if is_absorbed(rel)) {
            **side = JoinTree::Rel(0);
        }
    }
    if matches!(**left, JoinTree::Rel(0)) {
        std::mem::swap(left, right);
    }
    if matches!(**right, JoinTree::Rel(0)) && on.is_none() {
        *t = std::mem::replace(&mut **left, JoinTree::Rel(0));
    }
}
