//! FROM and WHERE: conditions go down to where their columns are, joins are made as [`super::join_search`] has found
//! best.

use super::estimate::JoinSides;
use super::finished_cost::PathCost;
use super::join_nodes::LoopInner;
use super::join_search::{JoinSearch, MOST_ITEMS, SearchItem};
use super::one_time;
use super::row_order::RowOrder;
use super::scan::WantedRows;
use super::semijoin::{SemiJoin, semi_of};
use super::*;
use kilndb_base::Error;

/// A relation, an outer join as a unit, or the right side of one.
pub(super) struct FromItem<'q> {
    pub tree: &'q JoinTree,
    pub rels: Vec<u32>,
    /// The join whose right side it is.
    pub joined: Option<super::outer_join::JoinedSide>,
}

/// Relations of a join tree. 0 is none: it stands where a tree has conditions of its own.
pub(super) fn rels_of(t: &JoinTree, out: &mut Vec<u32>) {
    match t {
        JoinTree::Rel(0) => {}
        JoinTree::Rel(r) => out.push(*r),
        JoinTree::Join { left, right, .. } => {
            rels_of(left, out);
            rels_of(right, out);
        }
    }
}

pub(super) fn flatten<'q>(t: &'q JoinTree, items: &mut Vec<FromItem<'q>>, preds: &mut Vec<Expr>) {
    match t {
        JoinTree::Rel(0) => {}
        JoinTree::Join { kind: JoinKind::Inner, left, right, on } => {
            flatten(left, items, preds);
            flatten(right, items, preds);
            if let Some(e) = on {
                e.clone().conjuncts(preds);
            }
        }
        _ => {
            let mut rels = Vec::new();
            rels_of(t, &mut rels);
            items.push(FromItem { tree: t, rels, joined: None });
        }
    }
}

/// Relations of this level that `e` uses.
pub(super) fn used_rels(e: &Expr, level: &[u32]) -> Vec<u32> {
    let mut columns = Vec::new();
    e.columns(&mut columns);
    let mut rels: Vec<u32> = columns.into_iter().map(|c| c.rel).filter(|r| level.contains(r)).collect();
    rels.sort_unstable();
    rels.dedup();
    rels
}

pub(super) fn within(small: &[u32], big: &[u32]) -> bool {
    small.iter().all(|r| big.contains(r))
}

#[derive(Clone)]
pub(crate) struct FromPlan {
    pub planned: PlannedNode,
    pub rows: f64,
    /// What is spent before the first row comes.
    pub first: f64,
    pub cost: f64,
    pub order: RowOrder,
}

impl FromPlan {
    pub(super) fn of(planned: PlannedNode, estimate: Estimate) -> FromPlan {
        let first = planned.node.startup.min(estimate.cost);
        FromPlan { planned, rows: estimate.rows, first, cost: estimate.cost, order: RowOrder::default() }
    }
}

impl Planner<'_> {
    /// Plans the whole FROM clause with the whole WHERE clause.
    pub(crate) fn plan_from(&self, q: &Query, wanted: WantedRows<'_>) -> Result<FromPlan> {
        let mut preds = Vec::new();
        if let Some(f) = &q.filter {
            f.clone().conjuncts(&mut preds);
        }
        if q.from.is_empty() {
            let shown = if self.explains() { preds.clone() } else { Vec::new() };
            let filter = match Expr::and_all(preds) {
                Some(e) => Some(self.expression(&e, &Layout::default())?),
                None => None,
            };
            let info = Expr::and_all(shown).map_or_else(Vec::new, |e| self.one_time_text(&e));
            let node = self.node_with(Op::Result { filter }, 0, Estimate { rows: 1.0, cost: 0.0 }, "Result", info);
            let planned = PlannedNode { node, layout: Layout::default() };
            return Ok(FromPlan::of(planned, Estimate { rows: 1.0, cost: 0.01 }));
        }
        let once = one_time::take(q, &mut preds);
        if one_time::is_never_met(&once) {
            return self.no_rows(q, wanted.order);
        }
        let plan = self.plan_trees(q, &q.from.iter().collect::<Vec<_>>(), preds, wanted)?;
        self.one_time_filter(plan, once)
    }

    /// Joins what these trees join, with conditions on all of it.
    pub(super) fn plan_trees(
        &self,
        q: &Query,
        trees: &[&JoinTree],
        preds: Vec<Expr>,
        wanted: WantedRows<'_>,
    ) -> Result<FromPlan> {
        match self.plan_decorrelated(q, trees, &preds, wanted)? {
            Some(plan) => Ok(plan),
            None => self.plan_trees_as_written(q, trees, preds, wanted),
        }
    }

    /// Joins what these trees join; a subquery in a condition runs for each row.
    pub(super) fn plan_trees_as_written(
        &self,
        q: &Query,
        trees: &[&JoinTree],
        mut preds: Vec<Expr>,
        wanted: WantedRows<'_>,
    ) -> Result<FromPlan> {
        let mut items = Vec::new();
        for t in trees {
            flatten(t, &mut items, &mut preds);
        }
        let (whole, said_of_whole) = (items.iter().map(|i| i.tree).collect::<Vec<_>>(), preds.len());
        self.take_outer_joins_apart(q, &mut items, &mut preds);
        let level: Vec<u32> = items.iter().flat_map(|i| i.rels.clone()).collect();
        let (mut semis, mut others) = (Vec::new(), Vec::new());
        let mut is_whole = true;
        for (n, p) in preds.into_iter().enumerate() {
            match semi_of(p, &level) {
                Ok(semi) => {
                    is_whole &= n < said_of_whole;
                    semis.push(semi);
                }
                Err(p) => others.push((n, p)),
            }
        }
        let by_distinct = if semis.is_empty() || !is_whole {
            None
        } else {
            let of_whole = others.iter().filter(|(n, _)| *n < said_of_whole).map(|(_, p)| p.clone());
            self.plan_distinct(q, &whole, of_whole.collect(), (&semis, &level))?
        };
        let preds: Vec<Expr> = others.into_iter().map(|(_, p)| p).collect();
        // Each condition belongs to one item, or to a join.
        let mut own: Vec<Vec<Expr>> = items.iter().map(|_| Vec::new()).collect();
        let mut joins: Vec<Expr> = Vec::new();
        let mut constant: Vec<Expr> = Vec::new();
        for p in preds {
            let used = used_rels(&p, &level);
            if used.is_empty() && !p.varies() && items.len() > 1 {
                constant.push(p);
                continue;
            }
            match items.iter().position(|i| within(&used, &i.rels) && i.joined.is_none()) {
                Some(i) if !p.varies() || items.len() == 1 || !used.is_empty() => own[i].push(p),
                _ => joins.push(p),
            }
        }
        let current = if items.len() == 1 && semis.is_empty() {
            self.plan_item(q, &items[0], &own[0], &[], wanted)?
        } else {
            self.plan_joins(q, (items, own), (joins, semis), &level, wanted)?
        };
        let current = self.filter_joined(current, constant)?;
        Ok(match by_distinct {
            Some(p) if self.is_cheaper(&p, &current, wanted) => p,
            _ => current,
        })
    }

    /// Which of two plans costs less with what is left to be done above them?
    fn is_cheaper(&self, a: &FromPlan, b: &FromPlan, wanted: WantedRows<'_>) -> bool {
        let cost = |p: &FromPlan| {
            let own = PathCost { rows: p.rows, first: p.first, cost: p.cost };
            self.finished_cost(wanted, own, p.order.presorted(wanted.order))
        };
        // If they are nearly the same, the one that does less is the better one.
        cost(a) < cost(b) * 0.8
    }

    /// Conditions that no join could judge.
    fn filter_joined(&self, mut plan: FromPlan, conditions: Vec<Expr>) -> Result<FromPlan> {
        let Some(e) = Expr::and_all(conditions) else { return Ok(plan) };
        let condition = self.expression(&e, &plan.planned.layout)?;
        let layout = plan.planned.layout;
        let info = if self.explains() { vec![format!("Filter: {}", self.show(&e))] } else { Vec::new() };
        let op = Op::Filter { input: plan.planned.node, condition };
        let estimate = Estimate { rows: plan.rows, cost: plan.cost };
        let node = self.node_with(op, layout.0.len(), estimate, "Result", info);
        plan.planned = PlannedNode { node, layout };
        Ok(plan)
    }

    /// Joins the items of a level, each with the conditions on it alone, by `joins`, and with `semis`.
    fn plan_joins(
        &self,
        q: &Query,
        (items, own): (Vec<FromItem<'_>>, Vec<Vec<Expr>>),
        (joins, semis): (Vec<Expr>, Vec<SemiJoin>),
        level: &[u32],
        wanted: WantedRows<'_>,
    ) -> Result<FromPlan> {
        let mut found: Vec<SearchItem<'_>> = Vec::new();
        let mut conditions: Vec<(Expr, Option<usize>)> = joins.into_iter().map(|e| (e, None)).collect();
        for (item, own) in items.into_iter().zip(own) {
            if let Some(joined) = item.joined {
                conditions.extend(joined.conditions.iter().map(|e| (e.clone(), Some(found.len()))));
                found.push(self.joined_item(q, item.tree, item.rels, joined)?);
                continue;
            }
            let needs = self.lateral_rels(q, &item, level);
            let plan = self.plan_item(q, &item, &own, &[], WantedRows::ALL)?;
            let FromItem { tree, rels, .. } = item;
            let is_lateral = !needs.is_empty();
            let (mut plans, bound) = (vec![plan], None);
            // An outer join may keep the wanted order of its left side.
            if wanted.limit.is_finite() && !wanted.order.is_empty() && matches!(tree, JoinTree::Join { .. }) {
                let from = FromItem { tree, rels: rels.clone(), joined: None };
                let ordered = self.plan_item(q, &from, &own, &[], wanted)?;
                plans.extend(Some(ordered).filter(|p| p.order.presorted(wanted.order) > 0));
            }
            let kind = JoinKind::Inner;
            found.push(SearchItem { query: q, kind, rels, tree: Some(tree), own, needs, is_lateral, plans, bound });
        }
        let mut level = level.to_vec();
        for semi in &semis {
            let mut item = self.semi_item(semi)?;
            level.extend(&item.rels);
            if self.joins_one_row(semi)? {
                item.kind = JoinKind::Inner;
                item.needs.clear();
                // It may be looked up by conditions that follow from these.
                item.bound = None;
                conditions.extend(semi.joins.iter().map(|e| (e.clone(), None)));
                found.push(item);
                continue;
            }
            match semis.iter().map(|s| s.joins.len()).sum::<usize>() > MOST_ITEMS {
                true => conditions.extend(Expr::and_all(semi.joins.clone()).map(|e| (e, Some(found.len())))),
                false => conditions.extend(semi.joins.iter().map(|e| (e.clone(), Some(found.len())))),
            }
            found.push(item);
        }
        if found.len() > MOST_ITEMS {
            return self.plan_many_joins(q, found, conditions, &level, wanted);
        }
        self.join_items(found, conditions, &level, wanted)
    }

    /// Joins the first items by themselves if there are too many, and the others with the result.
    fn plan_many_joins<'q>(
        &self,
        q: &'q Query,
        mut items: Vec<SearchItem<'q>>,
        conditions: Vec<(Expr, Option<usize>)>,
        level: &[u32],
        wanted: WantedRows<'_>,
    ) -> Result<FromPlan> {
        let mut conditions = conditions;
        while items.len() > MOST_ITEMS {
            let rest = items.split_off(MOST_ITEMS);
            let rels: Vec<u32> = items.iter().flat_map(|i| i.rels.iter().copied()).collect();
            let count = items.len();
            let is_inside =
                |(e, of): &(Expr, Option<usize>)| of.map_or_else(|| within(&used_rels(e, level), &rels), |i| i < count);
            let (inside, outside): (Vec<_>, Vec<_>) = conditions.into_iter().partition(is_inside);
            let plan = self.join_items(items, inside, level, WantedRows::ALL)?;
            conditions = outside.into_iter().map(|(e, of)| (e, of.map(|i| i + 1 - count))).collect();
            items = vec![SearchItem {
                query: q,
                kind: JoinKind::Inner,
                rels,
                tree: None,
                own: Vec::new(),
                needs: Vec::new(),
                is_lateral: false,
                plans: vec![plan],
                bound: None,
            }];
            items.extend(rest);
        }
        self.join_items(items, conditions, level, wanted)
    }

    /// The best join of these items, built.
    pub(super) fn join_items(
        &self,
        items: Vec<SearchItem<'_>>,
        conditions: Vec<(Expr, Option<usize>)>,
        level: &[u32],
        wanted: WantedRows<'_>,
    ) -> Result<FromPlan> {
        let (mut search, left) = JoinSearch::new(self, items, conditions, level, wanted);
        search.add_ordered_plans()?;
        let (search, best) = search.best()?;
        let ordered = best.presorted > 0;
        let mut plan = search.build(&best, ordered)?;
        plan.order = plan.order.with_equal(&search.equal);
        self.filter_joined(plan, left)
    }

    /// The plan with semi joins as ordinary joins with distinct values, as far as that is possible.
    fn plan_distinct(
        &self,
        q: &Query,
        trees: &[&JoinTree],
        conditions: Vec<Expr>,
        (semis, level): (&[SemiJoin], &[u32]),
    ) -> Result<Option<FromPlan>> {
        let rels: Option<Vec<(Rel, Vec<Expr>)>> = semis.iter().map(|s| self.distinct_rel(s, level)).collect();
        let Some(rels) = rels else { return Ok(None) };
        let mut inner = Query { rels: q.rels.clone(), ..Query::default() };
        let mut all = conditions;
        let mut own_trees = Vec::new();
        for (rel, conditions) in rels {
            own_trees.push(JoinTree::Rel(rel.id));
            inner.rels.push(rel);
            all.extend(conditions);
        }
        let trees: Vec<&JoinTree> = trees.iter().copied().chain(&own_trees).collect();
        self.plan_trees(&inner, &trees, all, WantedRows::ALL).map(Some)
    }

    /// Relations of the same level whose values an item needs.
    pub(super) fn lateral_rels(&self, q: &Query, item: &FromItem<'_>, level: &[u32]) -> Vec<u32> {
        let rels = lateral_columns(q, &item.rels).into_iter().map(|c| c.rel);
        rels.filter(|r| level.contains(r) && !item.rels.contains(r)).collect()
    }

    /// `preds` may use columns of `outer`: they are parameters then.
    pub(super) fn plan_item(
        &self,
        q: &Query,
        item: &FromItem<'_>,
        preds: &[Expr],
        joins: &[Expr],
        wanted: WantedRows<'_>,
    ) -> Result<FromPlan> {
        match item.tree {
            JoinTree::Rel(id) => {
                let Some(rel) = q.rels.iter().find(|r| r.id == *id) else {
                    return Err(Error::internal("relation is missing"));
                };
                let all = [preds, joins].concat();
                self.plan_rel(rel, &all, wanted)
            }
            JoinTree::Join { kind, left, right, on } => {
                let all = [preds, joins].concat();
                self.plan_outer(q, (*kind, on.as_ref()), (left, right), all, wanted)
            }
        }
    }

    fn plan_rel(&self, rel: &Rel, preds: &[Expr], wanted: WantedRows<'_>) -> Result<FromPlan> {
        let (bounds, left);
        let mut preds = preds;
        let planned = match &rel.kind {
            RelKind::Table(t) => {
                if super::one_time::is_never_met(&rel.security_quals) {
                    let alone = Query { rels: vec![rel.clone()], ..Query::default() };
                    return self.no_rows(&alone, wanted.order);
                }
                let in_order;
                if preds.len() > 1 {
                    in_order = self.conditions_in_order(preds)?;
                    preds = &in_order;
                }
                let c = self.plan_table(rel, t, preds, wanted)?;
                return Ok(FromPlan { planned: c.planned, rows: c.rows, first: 0.0, cost: c.cost, order: c.order });
            }
            RelKind::Subquery(s) => {
                (bounds, left) = self.run_bounds(s, rel.id, preds);
                *self.run_conditions.borrow_mut() = bounds;
                preds = &left;
                let planned = self.plan_query(s, rel.id)?;
                if preds.is_empty() {
                    self.name_results(rel.id, s);
                }
                planned
            }
            RelKind::Cte { cte, recursive_self } => self.plan_cte_scan(*cte, *recursive_self, rel)?,
            RelKind::Values(rows) => self.plan_values(rel, rows)?,
            RelKind::Function { calls, ordinality } => self.plan_function(rel, calls, *ordinality)?,
            RelKind::Pseudo => return Err(Error::internal("pseudo relation in FROM")),
        };
        let (mut rows, mut cost) = (planned.node.rows, planned.node.cost);
        let order = self.query_orders.borrow_mut().remove(&planned.node.id).unwrap_or_default();
        let mut planned = planned;
        match &rel.kind {
            RelKind::Subquery(s) => self.note_subquery(rel.id, s, rows),
            _ => self.note_relation(rel.id, rows),
        }
        if let Some(e) = Expr::and_all(preds.to_vec()) {
            cost += self.costs().filter(rows, super::operator_count::operator_count(preds));
            rows = (rows * self.restriction_selectivity(rel.id, preds)).max(1.0);
            self.note_rows(rel.id, rows);
            planned = self.filter(planned, &e, rows)?;
        }
        Ok(FromPlan { order, ..FromPlan::of(planned, Estimate { rows, cost }) })
    }

    pub fn filter(&self, input: PlannedNode, e: &Expr, rows: f64) -> Result<PlannedNode> {
        self.filter_as(input, e, rows, "Filter")
    }

    pub(super) fn filter_as(&self, input: PlannedNode, e: &Expr, rows: f64, label: &str) -> Result<PlannedNode> {
        let condition = self.expression(e, &input.layout)?;
        let width = input.layout.0.len();
        let cost = input.node.cost + self.costs().filter(input.node.rows, super::operator_count::operator_count([e]));
        let info = if self.explains() { vec![format!("Filter: {}", self.show(e))] } else { Vec::new() };
        let below = input.node.clone();
        let node =
            self.node_with(Op::Filter { input: input.node, condition }, width, Estimate { rows, cost }, label, info);
        self.note_divided_like(&node, &below);
        Ok(PlannedNode { node, layout: input.layout })
    }

    /// A LEFT, anti or FULL join; `above`: conditions of the level above on its columns.
    fn plan_outer(
        &self,
        q: &Query,
        (kind, on): (JoinKind, Option<&Expr>),
        (left, right): (&JoinTree, &JoinTree),
        above: Vec<Expr>,
        wanted: WantedRows<'_>,
    ) -> Result<FromPlan> {
        let (mut left_rels, mut right_rels) = (Vec::new(), Vec::new());
        rels_of(left, &mut left_rels);
        rels_of(right, &mut right_rels);
        let level = [left_rels.as_slice(), &right_rels].concat();
        let mut on_list = Vec::new();
        if let Some(e) = on {
            e.clone().conjuncts(&mut on_list);
        }
        // A condition above that no NULL-filled row can satisfy makes it an inner join. The statement's own conditions have
        // done so already; those that the plan adds (of semi joins) have not.
        let is_about =
            |e: &Expr, rels: &[u32]| super::rewrite::not_null_relations(e).iter().any(|rel| rels.contains(rel));
        if kind == JoinKind::Left && above.iter().any(|p| is_about(p, &right_rels)) {
            let mut preds = on_list;
            preds.extend(above);
            return self.plan_trees(q, &[left, right], preds, wanted);
        }
        let fills_right = matches!(kind, JoinKind::Left | JoinKind::Anti);
        let (mut push_left, mut push_right, mut rest, mut on_rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for p in above {
            let used = used_rels(&p, &level);
            if fills_right && within(&used, &left_rels) && !p.varies() { push_left.push(p) } else { rest.push(p) }
        }
        for p in on_list {
            let used = used_rels(&p, &level);
            if fills_right && !used.is_empty() && within(&used, &right_rels) {
                push_right.push(p)
            } else {
                on_rest.push(p)
            }
        }
        // The order of the left side stays.
        let of_left = wanted.order.iter().all(|k| within(&used_rels(&k.expr, &level), &left_rels));
        let keeps_order = fills_right && of_left && wanted.groups.is_none() && rest.is_empty();
        let wanted = if keeps_order { wanted } else { WantedRows::ALL };
        let outer = self.plan_trees(q, &[left], push_left, wanted)?;
        let right_item = |preds: Vec<Expr>| self.plan_trees(q, &[right], preds, WantedRows::ALL);
        // The right side may have lateral references to the left one.
        let mut uses = lateral_columns(q, &right_rels);
        uses.retain(|c| left_rels.contains(&c.rel));
        let costs = self.costs();
        let planned = if !uses.is_empty() {
            let inner = right_item(push_right)?;
            let cost = outer.cost + costs.loop_runs(outer.rows, inner.cost);
            let rows = (outer.rows * inner.rows).max(outer.rows);
            self.loop_over(outer, LoopInner::per_row(inner, &uses), kind, &on_rest, Estimate { rows, cost })?
        } else {
            let inner = right_item(push_right.clone())?;
            let mut bound = None;
            if fills_right
                && let JoinTree::Rel(id) = right
                && q.rels.iter().any(|r| r.id == *id && matches!(r.kind, RelKind::Table(_)))
            {
                let probe = right_item([push_right.as_slice(), &on_rest].concat())?;
                bound = probe.planned.node.op.is_probe().then_some(probe);
            }
            let side = |kind, rels: &[u32], tree, own, plan| SearchItem {
                query: q,
                kind,
                rels: rels.to_vec(),
                tree,
                own,
                needs: if kind == JoinKind::Inner { Vec::new() } else { left_rels.clone() },
                is_lateral: false,
                plans: vec![plan],
                bound: None,
            };
            let left = side(JoinKind::Inner, &left_rels, None, Vec::new(), outer);
            let right = SearchItem { bound, ..side(kind, &right_rels, Some(right), push_right, inner) };
            let conditions = on_rest.into_iter().map(|e| (e, Some(1))).collect();
            self.join_items(vec![left, right], conditions, &level, wanted)?
        };
        match Expr::and_all(rest) {
            None => Ok(planned),
            Some(e) => {
                let sides = JoinSides { left: &left_rels, right: &right_rels };
                let rows = (planned.rows * self.join_selectivity(std::slice::from_ref(&e), sides, &[])).max(1.0);
                let cost = planned.cost + costs.filter(planned.rows, super::operator_count::operator_count([&e]));
                let filtered = self.filter(planned.planned, &e, rows)?;
                Ok(FromPlan { planned: filtered, rows, cost, ..planned })
            }
        }
    }
}

/// The columns that subqueries and functions among these relations use of others.
pub(super) fn lateral_columns(q: &Query, rels: &[u32]) -> Vec<ColId> {
    let mut uses = Vec::new();
    for rel in q.rels.iter().filter(|r| rels.contains(&r.id)) {
        match &rel.kind {
            RelKind::Subquery(s) => s.outer_columns(&mut uses),
            RelKind::Function { calls, .. } => calls.iter().for_each(|c| c.expr.columns(&mut uses)),
            RelKind::Values(rows) => rows.iter().flatten().for_each(|e| e.columns(&mut uses)),
            _ => {}
        }
    }
    uses
}
