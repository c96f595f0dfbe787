//! Joins for few rows in an order that an index has: its rows are joined one after the other, by nested loops, until
//! there are enough.

use super::estimate::JoinSides;
use super::join::{FromItem, FromPlan, LoopInner, used_rels, within};
use super::scan::WantedRows;
use super::*;

/// The items of a FROM clause and the conditions on them.
#[derive(Clone, Copy)]
pub(super) struct JoinedItems<'a> {
    pub items: &'a [FromItem<'a>],
    /// By item: the conditions on it alone.
    pub own: &'a [Vec<Expr>],
    pub joins: &'a [Expr],
    /// The relations of all items.
    pub level: &'a [u32],
}

impl Planner<'_> {
    /// The joins that keep the order of an index; None: there is none, or `unordered` with a sort costs less.
    pub(super) fn joins_in_order(
        &self,
        q: &Query,
        from: JoinedItems<'_>,
        wanted: WantedRows<'_>,
        unordered: &FromPlan,
    ) -> Result<Option<FromPlan>> {
        let Some(start) = ordering_item(from.items, wanted.order) else { return Ok(None) };
        // So much of each step is done before there are enough rows.
        let part = (wanted.limit / unordered.rows.max(1.0)).min(1.0);
        let item = &from.items[start];
        let few = WantedRows { limit: (part * self.rows_of(item)).max(1.0), ..wanted };
        let mut plan = self.plan_item(q, item, &from.own[start], &[], few)?;
        if !plan.sorted {
            return Ok(None);
        }
        let mut joined = item.rels.clone();
        let mut joins: Vec<Expr> = from.joins.to_vec();
        let mut left: Vec<usize> = (0..from.items.len()).filter(|i| *i != start).collect();
        while !left.is_empty() {
            let Some(step) = self.cheapest_probe(q, from, (&joined, &left), &joins)? else { return Ok(None) };
            let item = &from.items[step.item];
            let conditions: Vec<Expr> = joins.extract_if(.., |e| is_usable(e, &joined, item, from.level)).collect();
            let sides = JoinSides { left: &joined, right: &item.rels };
            let rows = plan.rows * self.rows_of(item) * self.join_selectivity(&conditions, sides);
            let costs = self.costs();
            let cost = plan.cost + part * costs.loop_runs(plan.rows, step.probe.cost);
            let mut uses = Vec::new();
            conditions.iter().for_each(|e| e.columns(&mut uses));
            let inner = LoopInner::per_row(step.probe, &uses);
            let estimate = Estimate { rows: rows.max(1.0), cost };
            plan = self.nest_loop(plan.planned, inner, JoinKind::Inner, &[], estimate)?;
            joined.extend(&item.rels);
            left.retain(|i| *i != step.item);
        }
        let settings = self.catalog.planner_settings();
        let cost = plan.cost + settings.penalty(settings.nestloop);
        let with_sort = unordered.cost + self.costs().top_rows(unordered.rows, wanted.limit);
        let is_complete = joins.is_empty() && cost < with_sort;
        Ok(is_complete.then_some(FromPlan { cost, sorted: true, ..plan }))
    }

    /// Of the items that are left the one that is found most cheaply by values of those that are joined.
    fn cheapest_probe(
        &self,
        q: &Query,
        from: JoinedItems<'_>,
        (joined, left): (&[u32], &[usize]),
        joins: &[Expr],
    ) -> Result<Option<ProbedItem>> {
        let mut best: Option<ProbedItem> = None;
        for i in left {
            let item = &from.items[*i];
            let conditions: Vec<Expr> =
                joins.iter().filter(|e| is_usable(e, joined, item, from.level)).cloned().collect();
            if conditions.is_empty() || !is_table(q, item) {
                continue;
            }
            let probe = self.plan_item(q, item, &from.own[*i], &conditions, WantedRows::ALL)?;
            if probe.planned.node.op.is_probe() && best.as_ref().is_none_or(|b| probe.cost < b.probe.cost) {
                best = Some(ProbedItem { item: *i, probe });
            }
        }
        Ok(best)
    }

    /// The rows of an item that its own conditions leave.
    fn rows_of(&self, item: &FromItem<'_>) -> f64 {
        let relations = self.relations.borrow();
        item.rels.first().and_then(|rel| relations.get(rel)).map_or(1.0, |facts| facts.rows)
    }
}

/// An item, and how it is found for one row of the others.
struct ProbedItem {
    item: usize,
    probe: FromPlan,
}

/// The item that has all columns of the order.
fn ordering_item(items: &[FromItem<'_>], order: &[SortKey]) -> Option<usize> {
    let of_key = |key: &SortKey| match &access::strip(&key.expr).kind {
        ExprKind::Column(c) => items.iter().position(|i| i.rels == [c.rel]),
        _ => None,
    };
    let first = of_key(order.first()?)?;
    order.iter().all(|key| of_key(key) == Some(first)).then_some(first)
}

fn is_table(q: &Query, item: &FromItem<'_>) -> bool {
    let is_table = |rel: &&Rel| item.rels == [rel.id] && matches!(rel.kind, RelKind::Table(_));
    matches!(item.tree, JoinTree::Rel(_)) && q.rels.iter().any(|rel| is_table(&rel))
}

/// Can the condition be judged once the item has joined the others?
fn is_usable(e: &Expr, joined: &[u32], item: &FromItem<'_>, level: &[u32]) -> bool {
    let used = used_rels(e, level);
    within(&used, &[joined, &item.rels].concat()) && used.iter().any(|r| item.rels.contains(r))
}
