//! Conditions that go down into subqueries in FROM that cannot be merged: PostgreSQL's set_subquery_pathlist.
//!
//! A condition on results of a subquery becomes one on its rows, or on its groups, and may be answered by an index
//! there. It must not change the results that are left: `is_safe` and `unsafe_columns` say where it would.

use super::*;

pub(super) fn push_down(q: &mut Query) -> Result<()> {
    // Rows of a view that triggers change must be told from others as they were found.
    let target = if let QueryBody::Dml(d) = &q.body { d.rel } else { 0 };
    let level: Vec<u32> = q.rels.iter().map(|r| r.id).collect();
    let mut push = Push { rels: &mut q.rels, level, target };
    let mut above = vec![take_conjuncts(&mut q.filter)];
    q.from.iter_mut().try_for_each(|t| push.tree(t, &mut above))?;
    q.filter = above.pop().and_then(Expr::and_all);
    Ok(())
}

struct Push<'q> {
    rels: &'q mut [Rel],
    level: Vec<u32>,
    target: u32,
}

impl Push<'_> {
    /// Pushes conditions that the rows of a join tree must meet as far down as they go. The others stay in `above`,
    /// which has those of each place in a list of its own.
    fn tree(&mut self, t: &mut JoinTree, above: &mut Vec<Vec<Expr>>) -> Result<()> {
        kilndb_base::stack::check()?;
        let (kind, left, right, on) = match t {
            JoinTree::Rel(rel) => return above.iter_mut().try_for_each(|list| self.relation(*rel, list)),
            JoinTree::Join { kind, left, right, on } => (*kind, left, right, on),
        };
        let own = take_conjuncts(on);
        let left_over = match kind {
            JoinKind::Inner => {
                above.push(own);
                self.tree(left, above)?;
                self.tree(right, above)?;
                above.pop()
            }
            JoinKind::Left | JoinKind::Anti => {
                self.tree(left, above)?;
                let mut inside = vec![own];
                self.tree(right, &mut inside)?;
                inside.pop()
            }
            _ => {
                self.tree(left, &mut Vec::new())?;
                self.tree(right, &mut Vec::new())?;
                Some(own)
            }
        };
        *on = left_over.and_then(Expr::and_all);
        Ok(())
    }

    fn relation(&mut self, id: u32, conditions: &mut Vec<Expr>) -> Result<()> {
        if id == self.target || conditions.is_empty() {
            return Ok(());
        }
        let Some(rel) = self.rels.iter_mut().find(|r| r.id == id) else { return Ok(()) };
        let RelKind::Subquery(inner) = &mut rel.kind else { return Ok(()) };
        let mut unsafe_columns = Vec::new();
        if !is_safe(inner, &mut unsafe_columns) {
            return Ok(());
        }
        let (level, is_barrier) = (&self.level, inner.is_barrier);
        let may_push = |e: &Expr| {
            let mut columns = Vec::new();
            e.columns(&mut columns);
            columns.retain(|c| level.contains(&c.rel));
            !e.is_volatile()
                && !e.has_sublink()
                && (!is_barrier || super::barrier::tells_nothing(e))
                && !columns.is_empty()
                && columns.iter().all(|c| c.rel == id && c.att > 0 && !unsafe_columns.contains(&c.att))
        };
        let down: Vec<Expr> = conditions.extract_if(.., |e| may_push(e)).collect();
        down.into_iter().try_for_each(|e| add(inner, e, id))
    }
}

fn outputs(q: &Query) -> impl Iterator<Item = (i16, &Expr)> {
    q.targets.iter().filter(|t| !t.junk).enumerate().map(|(i, t)| (i as i16 + 1, &t.expr))
}

/// May there be a condition on the rows of the subquery? `unsafe_columns`: the results that it must not be about.
fn is_safe(q: &Query, unsafe_columns: &mut Vec<i16>) -> bool {
    if q.limit.is_some() || q.offset.is_some() || q.grouping_sets.is_some() {
        return false;
    }
    match &q.body {
        QueryBody::Select => {
            let is_grouped = !q.group_by.is_empty() || q.has_aggs || q.having.is_some();
            for (att, e) in outputs(q) {
                let is_safe = !e.is_volatile()
                    && !e.has_srf()
                    && !e.has_sublink()
                    && is_of_distinct(q, e)
                    && is_of_partitions(q, e)
                    && !(is_grouped && has_outer_aggregate(q, e));
                if !is_safe {
                    unsafe_columns.push(att);
                }
            }
            true
        }
        QueryBody::SetOp { op, left, right, .. } => {
            let differs = |att: i16, e: &Expr, arm: &Query| {
                outputs(arm).find(|(n, _)| *n == att).is_none_or(|(_, other)| other.ty != e.ty)
            };
            if *op == SetOp::Except {
                return false;
            }
            for (att, e) in outputs(q) {
                if !matches!(e.kind, ExprKind::Column(_)) || differs(att, e, left) || differs(att, e, right) {
                    unsafe_columns.push(att);
                }
            }
            is_safe(left, unsafe_columns) && is_safe(right, unsafe_columns)
        }
        _ => false,
    }
}

/// Is the result the same in all rows of which DISTINCT ON keeps one?
fn is_of_distinct(q: &Query, e: &Expr) -> bool {
    match &q.distinct {
        Distinct::On(keys) => keys.iter().any(|k| kilndb_bind::same(k, e)),
        _ => true,
    }
}

/// Is the result the same in all rows of each partition of each window?
fn is_of_partitions(q: &Query, e: &Expr) -> bool {
    q.windows.iter().all(|w| w.partition.iter().any(|p| kilndb_bind::same(p, e))) && !e.has_window()
}

fn has_outer_aggregate(q: &Query, e: &Expr) -> bool {
    let mut columns = Vec::new();
    e.columns(&mut columns);
    q.outer_agg_rel != 0 && columns.iter().any(|c| c.rel == q.outer_agg_rel)
}

/// Adds a condition on columns of `rel`, which the query is, to the query.
fn add(q: &mut Query, mut e: Expr, rel: u32) -> Result<()> {
    let values: Vec<Expr> = outputs(q).map(|(_, e)| e.clone()).collect();
    if let QueryBody::SetOp { left, right, .. } = &mut q.body {
        add(left, e.clone(), rel)?;
        return add(right, e, rel);
    }
    e.rewrite(&mut |x| {
        put_value(x, rel, &values);
        Ok(())
    })?;
    let is_grouped = q.has_aggs || !q.group_by.is_empty() || q.having.is_some();
    let place = if is_grouped { &mut q.having } else { &mut q.filter };
    let mut all = take_conjuncts(place);
    e.conjuncts(&mut all);
    *place = Expr::and_all(all);
    Ok(())
}
