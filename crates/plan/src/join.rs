//! FROM and WHERE: conditions go down to where their columns are, joins are built in the order that
//! [`super::join_order`] has found.

use super::estimate::JoinSides;
use super::expression::CExpr;
use super::join_order::{JoinCandidate, best_order};
use super::one_time;
use super::scan::WantedRows;
use super::semijoin::{SemiJoin, semi_of};
use super::sorted_join::JoinedItems;
use super::*;
use kilndb_base::Error;

/// A relation, or an outer join as a unit.
pub(super) struct FromItem<'q> {
    pub tree: &'q JoinTree,
    pub rels: Vec<u32>,
}

pub(super) fn rels_of(t: &JoinTree, out: &mut Vec<u32>) {
    match t {
        JoinTree::Rel(r) => out.push(*r),
        JoinTree::Join { left, right, .. } => {
            rels_of(left, out);
            rels_of(right, out);
        }
    }
}

fn flatten<'q>(t: &'q JoinTree, items: &mut Vec<FromItem<'q>>, preds: &mut Vec<Expr>) {
    match t {
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
            items.push(FromItem { tree: t, rels });
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

/// How a hash join finds the rows that belong together.
pub(super) struct HashCondition {
    /// What is equal: an expression over the probe side, one over the build side.
    pub keys: Vec<(Expr, Expr)>,
    /// The other conditions of the join.
    pub residual: Vec<Expr>,
}

/// The inner side of a nested loop.
pub(super) struct LoopInner<'a> {
    plan: FromPlan,
    /// Columns of the outer side that it uses.
    uses: &'a [ColId],
    may_materialize: bool,
}

impl<'a> LoopInner<'a> {
    /// It runs once per outer row, with these columns of it.
    pub(crate) fn per_row(plan: FromPlan, uses: &'a [ColId]) -> LoopInner<'a> {
        LoopInner { plan, uses, may_materialize: false }
    }
    /// It runs once, and its rows are kept.
    pub fn once(plan: FromPlan) -> LoopInner<'a> {
        LoopInner { plan, uses: &[], may_materialize: true }
    }
}

pub(crate) struct FromPlan {
    pub planned: PlannedNode,
    pub rows: f64,
    pub cost: f64,
    pub sorted: bool,
}

impl FromPlan {
    /// The same node once more: several joins are made of it, of which one is taken.
    pub fn shared(&self) -> PlannedNode {
        PlannedNode { node: self.planned.node.clone(), layout: self.planned.layout.clone() }
    }
}

/// One item that joins those before it.
struct JoinStep<'a> {
    item: &'a FromItem<'a>,
    /// The conditions on the item alone, and those that join it.
    own: &'a [Expr],
    joins: Vec<Expr>,
    /// The relations that it needs values of.
    depends: &'a [u32],
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
                Some(e) => Some(self.compile(&e, &Layout::default())?),
                None => None,
            };
            let info = Expr::and_all(shown).map_or_else(Vec::new, |e| self.one_time_text(&e));
            let node = self.node_with(Op::Result { filter }, 0, Estimate { rows: 1.0, cost: 0.0 }, "Result", info);
            return Ok(FromPlan {
                planned: PlannedNode { node, layout: Layout::default() },
                rows: 1.0,
                cost: 0.01,
                sorted: false,
            });
        }
        let once = one_time::take(q, &mut preds);
        if one_time::is_never_met(&once) {
            return self.no_rows(q, !wanted.order.is_empty());
        }
        let plan = self.plan_trees(q, &q.from.iter().collect::<Vec<_>>(), preds, wanted)?;
        self.one_time_filter(plan, once)
    }

    pub(super) fn plan_trees(
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
        items.retain(|i| i.rels != [0]);
        let level: Vec<u32> = items.iter().flat_map(|i| i.rels.clone()).collect();
        let mut semis = Vec::new();
        preds = preds.into_iter().filter_map(|p| semi_of(p, &level).map(|s| semis.push(s)).err()).collect();
        let by_distinct = if semis.is_empty() { None } else { self.plan_distinct(q, &items, &preds, &semis, &level)? };
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
            match items.iter().position(|i| within(&used, &i.rels)) {
                Some(i) if !p.varies() || items.len() == 1 => own[i].push(p),
                _ => joins.push(p),
            }
        }
        let depends: Vec<Vec<u32>> = items.iter().map(|i| self.lateral_rels(q, i, &level)).collect();
        let limited = wanted.limit.is_finite();
        let wanted_of_item = if items.len() == 1 { wanted } else { WantedRows::ALL };
        let mut plans: Vec<FromPlan> = Vec::new();
        for (item, own) in items.iter().zip(&own) {
            plans.push(self.plan_item(q, item, own, &[], wanted_of_item)?);
        }
        let candidates: Vec<JoinCandidate> =
            plans.iter().map(|p| JoinCandidate { rows: p.rows, cost: p.cost }).collect();
        let from = JoinedItems { items: &items, own: &own, joins: &joins, level: &level };
        let order = best_order(self, q, from, &candidates)?;
        // Few rows in an order that an index may have.
        let may_keep_order = items.len() > 1 && limited && !wanted.order.is_empty() && semis.is_empty();
        let mut left_joins = joins.clone();
        let mut plans: Vec<Option<FromPlan>> = plans.into_iter().map(Some).collect();
        let mut joined: Vec<u32> = Vec::new();
        let mut current: Option<FromPlan> = None;
        for i in order {
            let Some(plan) = plans[i].take() else { return Err(Error::internal("a relation is joined twice")) };
            let mut now = match current.take() {
                None => plan,
                Some(left) => {
                    let both = [joined.as_slice(), &items[i].rels].concat();
                    let usable = left_joins.extract_if(.., |p| within(&used_rels(p, &level), &both)).collect();
                    let step = JoinStep { item: &items[i], own: &own[i], joins: usable, depends: &depends[i] };
                    self.join_step(q, (&left, &joined), plan, &step)?
                }
            };
            joined.extend(&items[i].rels);
            now = self.join_semis(now, &mut semis, &joined, limited)?;
            current = Some(now);
        }
        let Some(mut current) = current else { return Err(Error::internal("no relation to begin with")) };
        if may_keep_order {
            current = self.joins_in_order(q, from, wanted, &current)?.unwrap_or(current);
        }
        constant.extend(left_joins);
        if let Some(e) = Expr::and_all(constant) {
            let condition = self.compile(&e, &current.planned.layout)?;
            let layout = current.planned.layout;
            let info = if self.explains() { vec![format!("Filter: {}", self.show(&e))] } else { Vec::new() };
            let node = self.node_with(
                Op::Filter { input: current.planned.node, condition },
                layout.0.len(),
                Estimate { rows: current.rows, cost: current.cost },
                "Result",
                info,
            );
            current.planned = PlannedNode { node, layout };
        }
        Ok(match by_distinct {
            Some(p) if p.cost < current.cost && !(current.sorted && limited) => p,
            _ => current,
        })
    }

    /// Adds the semi joins whose columns are all there.
    fn join_semis(
        &self,
        mut current: FromPlan,
        semis: &mut Vec<SemiJoin>,
        joined: &[u32],
        limited: bool,
    ) -> Result<FromPlan> {
        let ready: Vec<SemiJoin> = semis.extract_if(.., |s| within(&s.outer, joined)).collect();
        for semi in &ready {
            current = self.semi_step(&current, semi, limited)?;
        }
        Ok(current)
    }

    /// The plan with semi joins as ordinary joins with distinct values, as far as that is possible.
    fn plan_distinct(
        &self,
        q: &Query,
        items: &[FromItem<'_>],
        preds: &[Expr],
        semis: &[SemiJoin],
        level: &[u32],
    ) -> Result<Option<FromPlan>> {
        let rels: Option<Vec<(Rel, Vec<Expr>)>> = semis.iter().map(|s| self.distinct_rel(s, level)).collect();
        let Some(rels) = rels else { return Ok(None) };
        let mut inner = Query { rels: q.rels.clone(), ..Query::default() };
        let mut all = preds.to_vec();
        let mut own_trees = Vec::new();
        for (rel, conditions) in rels {
            own_trees.push(JoinTree::Rel(rel.id));
            inner.rels.push(rel);
            all.extend(conditions);
        }
        let trees: Vec<&JoinTree> = items.iter().map(|i| i.tree).chain(&own_trees).collect();
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
                self.plan_outer(q, *kind, left, right, on.as_ref(), all)
            }
        }
    }

    fn plan_rel(&self, rel: &Rel, preds: &[Expr], wanted: WantedRows<'_>) -> Result<FromPlan> {
        let planned = match &rel.kind {
            RelKind::Table(t) => {
                let c = self.plan_table(rel, t, preds, wanted)?;
                return Ok(FromPlan { planned: c.planned, rows: c.rows, cost: c.cost, sorted: c.sorted });
            }
            RelKind::Subquery(s) => self.plan_query(s, rel.id)?,
            RelKind::Cte { cte, recursive_self } => self.plan_cte_scan(*cte, *recursive_self, rel)?,
            RelKind::Values(rows) => self.plan_values(rel, rows)?,
            RelKind::Function { calls, ordinality } => self.plan_function(rel, calls, *ordinality)?,
            RelKind::Pseudo => return Err(Error::internal("pseudo relation in FROM")),
        };
        let (mut rows, mut cost) = (planned.node.rows, planned.node.cost);
        let mut planned = planned;
        match &rel.kind {
            RelKind::Subquery(s) => self.note_subquery(rel.id, s, rows),
            _ => self.note_relation(rel.id, rows),
        }
        if let Some(e) = Expr::and_all(preds.to_vec()) {
            cost += self.costs().filter(rows, preds.len());
            rows = (rows * self.restriction_selectivity(rel.id, preds)).max(1.0);
            self.note_rows(rel.id, rows);
            planned = self.filter(planned, &e, rows)?;
        }
        Ok(FromPlan { planned, rows, cost, sorted: false })
    }

    pub fn filter(&self, input: PlannedNode, e: &Expr, rows: f64) -> Result<PlannedNode> {
        self.filter_as(input, e, rows, "Filter")
    }

    pub(super) fn filter_as(&self, input: PlannedNode, e: &Expr, rows: f64, label: &str) -> Result<PlannedNode> {
        let condition = self.compile(e, &input.layout)?;
        let width = input.layout.0.len();
        let cost = input.node.cost + self.costs().filter(input.node.rows, 1);
        let info = if self.explains() { vec![format!("Filter: {}", self.show(e))] } else { Vec::new() };
        let below = input.node.clone();
        let node =
            self.node_with(Op::Filter { input: input.node, condition }, width, Estimate { rows, cost }, label, info);
        self.note_divided_like(&node, &below);
        Ok(PlannedNode { node, layout: input.layout })
    }

    /// Slots of `outer` that expressions of the inner side take as parameters.
    fn loop_params(&self, inner_uses: &[ColId], outer: &Layout) -> Vec<(usize, usize)> {
        let mut out: Vec<(usize, usize)> = Vec::new();
        for c in inner_uses {
            if let Some(slot) = outer.find(*c) {
                let param = self.exec_param(*c);
                if !out.iter().any(|x| x.0 == param) {
                    out.push((param, slot));
                }
            }
        }
        out
    }

    /// Joins one more item, whose plan by itself is `plain`, to what has been joined.
    fn join_step(
        &self,
        q: &Query,
        (left, joined): (&FromPlan, &[u32]),
        plain: FromPlan,
        step: &JoinStep<'_>,
    ) -> Result<FromPlan> {
        let JoinStep { item, own, joins, depends } = step;
        let costs = self.costs();
        let settings = self.catalog.planner_settings();
        // A lateral item runs once per left row.
        if !depends.is_empty() {
            let mut uses = lateral_columns(q, &item.rels);
            own.iter().for_each(|e| e.columns(&mut uses));
            let estimate = Estimate {
                rows: (left.rows * plain.rows).max(1.0),
                cost: left.cost + costs.loop_runs(left.rows, plain.cost),
            };
            let inner = LoopInner::per_row(plain, &uses);
            return self.nest_loop(left.shared(), inner, JoinKind::Inner, joins, estimate);
        }
        let sides = JoinSides { left: joined, right: &item.rels };
        let rows = (left.rows * plain.rows * self.join_selectivity(joins, sides)).max(1.0);
        let mut best: Option<FromPlan> = None;
        // One way is an index of the inner table, with the join conditions as parameters.
        if let JoinTree::Rel(_) = item.tree
            && !joins.is_empty()
            && let Some(Rel { kind: RelKind::Table(_), .. }) = q.rels.iter().find(|r| r.id == item.rels[0])
        {
            let inner = self.plan_item(q, item, own, joins, WantedRows::ALL)?;
            if inner.planned.node.op.is_probe() {
                let mut uses = Vec::new();
                joins.iter().for_each(|e| e.columns(&mut uses));
                let cost = left.cost + costs.loop_runs(left.rows, inner.cost) + settings.penalty(settings.nestloop);
                let inner = LoopInner::per_row(inner, &uses);
                best = Some(self.nest_loop(left.shared(), inner, JoinKind::Inner, &[], Estimate { rows, cost })?);
            }
        }
        let hashed = |probe: &FromPlan, build: &FromPlan| {
            left.cost
                + plain.cost
                + costs.hash_join(probe.rows, build.rows, rows, joins.len())
                + settings.penalty(settings.hashjoin)
        };
        // The smaller side is hashed.
        let (probe, build) = if hashed(&plain, left) < hashed(left, &plain) { (&plain, left) } else { (left, &plain) };
        let cost = hashed(probe, build);
        if best.as_ref().is_none_or(|b| cost < b.cost)
            && let Some(condition) = self.hash_keys(joins, &probe.planned.layout, &build.planned.layout)
        {
            let estimate = Estimate { rows, cost };
            best = Some(self.hash_join(probe.shared(), build.shared(), JoinKind::Inner, condition, estimate)?);
        }
        let pairs = costs.loop_pairs(left.rows, plain.rows, joins.len());
        let cost = left.cost + plain.cost + pairs + settings.penalty(settings.nestloop);
        if best.as_ref().is_none_or(|b| cost < b.cost) {
            let inner = LoopInner::once(plain);
            best = Some(self.nest_loop(left.shared(), inner, JoinKind::Inner, joins, Estimate { rows, cost })?);
        }
        best.ok_or_else(|| Error::internal("join"))
    }

    /// Splits into `left = right` keys and the rest; None without any key.
    pub(super) fn hash_keys(&self, joins: &[Expr], left: &Layout, right: &Layout) -> Option<HashCondition> {
        let mut keys = Vec::new();
        let mut residual = Vec::new();
        let on_side = |e: &Expr, own: &Layout, other: &Layout| {
            let mut used = Vec::new();
            e.columns(&mut used);
            !used.is_empty()
                && used.iter().all(|c| own.find(*c).is_some())
                && !used.iter().any(|c| other.find(*c).is_some())
                && !e.has_sublink()
        };
        for j in joins {
            if let ExprKind::Func(f) = &j.kind
                && let [l, r] = f.args.as_slice()
                && f.operator != 0
                && self.catalog.operator_by_oid(f.operator).ok().flatten().is_some_and(|o| o.can_hash && o.name == "=")
                && (self.base_type(l.ty) == self.base_type(r.ty) || int_pair(l.ty, r.ty))
            {
                if on_side(l, left, right) && on_side(r, right, left) {
                    keys.push((l.clone(), r.clone()));
                    continue;
                }
                if on_side(r, left, right) && on_side(l, right, left) {
                    keys.push((r.clone(), l.clone()));
                    continue;
                }
            }
            residual.push(j.clone());
        }
        if keys.is_empty() { None } else { Some(HashCondition { keys, residual }) }
    }

    pub(super) fn hash_join(
        &self,
        probe: PlannedNode,
        build: PlannedNode,
        kind: JoinKind,
        condition: HashCondition,
        estimate: Estimate,
    ) -> Result<FromPlan> {
        let HashCondition { keys, residual } = condition;
        let layout = probe.layout.join(&build.layout);
        let mut types = Vec::new();
        let (mut probe_keys, mut build_keys) = (Vec::new(), Vec::new());
        let mut conds = Vec::new();
        for (l, r) in &keys {
            let int = int_pair(l.ty, r.ty) && l.ty != r.ty;
            types.push(if int { kilndb_types::oids::INT8 } else { self.base_type(l.ty) });
            probe_keys.push(widen(self.compile(l, &probe.layout)?, int, l.ty));
            build_keys.push(widen(self.compile(r, &build.layout)?, int, r.ty));
            if self.explains() {
                conds.push(format!("({} = {})", self.show(l), self.show(r)));
            }
        }
        let on = match Expr::and_all(residual.clone()) {
            Some(e) => Some(self.compile(&e, &layout)?),
            None => None,
        };
        let mut info = Vec::new();
        if self.explains() {
            info.push(format!("Hash Cond: {}", super::shown_text::and_text(&conds)));
            if !residual.is_empty() {
                let text: Vec<String> = residual.iter().map(|e| self.show(e)).collect();
                info.push(format!("Join Filter: {}", super::shown_text::and_text(&text)));
            }
        }
        let label = match kind {
            JoinKind::Inner => "Hash Join",
            JoinKind::Left => "Hash Left Join",
            JoinKind::Full => "Hash Full Join",
            JoinKind::Semi => "Hash Semi Join",
            JoinKind::Anti => "Hash Anti Join",
            JoinKind::Right => "Hash Right Join",
        };
        let width = layout.0.len();
        let division = self.joined_division(&probe.node, &build.node, kind, &keys);
        let (probe, build) =
            if division.is_some() { (probe, build) } else { (self.by_partition(probe), self.by_partition(build)) };
        let op = Op::HashJoin { probe: probe.node, build: build.node, kind, probe_keys, build_keys, types, on };
        let node = self.node_with(op, width, estimate, label, info);
        if let Some(division) = division {
            self.note_division(&node, division);
        }
        let Estimate { rows, cost } = estimate;
        Ok(FromPlan { planned: PlannedNode { node, layout }, rows, cost, sorted: false })
    }

    pub(super) fn nest_loop(
        &self,
        outer: PlannedNode,
        inner: LoopInner<'_>,
        kind: JoinKind,
        on: &[Expr],
        estimate: Estimate,
    ) -> Result<FromPlan> {
        let LoopInner { plan: inner, uses, may_materialize } = inner;
        let (outer, inner) = (self.by_partition(outer), self.by_partition(inner.planned));
        let layout = outer.layout.join(&inner.layout);
        let params = self.loop_params(uses, &outer.layout);
        let condition = match Expr::and_all(on.to_vec()) {
            Some(e) => Some(self.compile(&e, &layout)?),
            None => None,
        };
        let mut info = Vec::new();
        if self.explains() && !on.is_empty() {
            let text: Vec<String> = on.iter().map(|e| self.show(e)).collect();
            info.push(format!("Join Filter: {}", super::shown_text::and_text(&text)));
        }
        let label = match kind {
            JoinKind::Inner => "Nested Loop",
            JoinKind::Left => "Nested Loop Left Join",
            JoinKind::Full => "Nested Loop Full Join",
            JoinKind::Semi => "Nested Loop Semi Join",
            JoinKind::Anti => "Nested Loop Anti Join",
            JoinKind::Right => "Nested Loop Right Join",
        };
        let width = layout.0.len();
        let materialize = may_materialize && params.is_empty();
        let op = Op::NestLoop { outer: outer.node, inner: inner.node, kind, on: condition, params, materialize };
        let node = self.node_with(op, width, estimate, label, info);
        let Estimate { rows, cost } = estimate;
        Ok(FromPlan { planned: PlannedNode { node, layout }, rows, cost, sorted: false })
    }

    /// A LEFT, anti or FULL join; `above`: conditions of the level above on its columns.
    fn plan_outer(
        &self,
        q: &Query,
        kind: JoinKind,
        left: &JoinTree,
        right: &JoinTree,
        on: Option<&Expr>,
        above: Vec<Expr>,
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
            return self.plan_trees(q, &[left, right], preds, WantedRows::ALL);
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
        let outer = self.plan_trees(q, &[left], push_left, WantedRows::ALL)?;
        let right_item = |preds: Vec<Expr>| self.plan_trees(q, &[right], preds, WantedRows::ALL);
        let costs = self.costs();
        let settings = self.catalog.planner_settings();
        // The right side may have lateral references to the left one.
        let mut uses = lateral_columns(q, &right_rels);
        uses.retain(|c| left_rels.contains(&c.rel));
        let planned = if !uses.is_empty() {
            let inner = right_item(push_right)?;
            let cost = outer.cost + costs.loop_runs(outer.rows, inner.cost);
            let rows = (outer.rows * inner.rows).max(outer.rows);
            let inner = LoopInner::per_row(inner, &uses);
            self.nest_loop(outer.planned, inner, kind, &on_rest, Estimate { rows, cost })?
        } else {
            let inner = right_item(push_right.clone())?;
            let sides = JoinSides { left: &left_rels, right: &right_rels };
            let matches = outer.rows * inner.rows * self.join_selectivity(&on_rest, sides);
            let rows = match kind {
                JoinKind::Full => matches.max(outer.rows).max(inner.rows),
                JoinKind::Anti => outer.rows * (1.0 - self.semi_selectivity(&on_rest, sides, inner.rows)),
                _ => matches.max(outer.rows),
            }
            .max(1.0);
            let mut best = None;
            if fills_right
                && let JoinTree::Rel(id) = right
                && q.rels.iter().any(|r| r.id == *id && matches!(r.kind, RelKind::Table(_)))
            {
                let all = [push_right, on_rest.clone()].concat();
                let probe = right_item(all)?;
                let cost = outer.cost + costs.loop_runs(outer.rows, probe.cost) + settings.penalty(settings.nestloop);
                if probe.planned.node.op.is_probe() {
                    best = Some((cost, probe));
                }
            }
            // A full join can only be a hash join.
            let may_hash = settings.hashjoin || !fills_right;
            let keys = self.hash_keys(&on_rest, &outer.planned.layout, &inner.planned.layout).filter(|_| may_hash);
            let hash_cost = outer.cost + inner.cost + costs.hash_join(outer.rows, inner.rows, rows, on_rest.len());
            match (best, keys) {
                (Some((cost, probe)), keys) if keys.is_none() || cost < hash_cost => {
                    let mut uses = Vec::new();
                    on_rest.iter().for_each(|e| e.columns(&mut uses));
                    let probe = LoopInner::per_row(probe, &uses);
                    self.nest_loop(outer.planned, probe, kind, &[], Estimate { rows, cost })?
                }
                (_, Some(condition)) => {
                    let estimate = Estimate { rows, cost: hash_cost };
                    self.hash_join(outer.planned, inner.planned, kind, condition, estimate)?
                }
                (_, None) => {
                    let cost = outer.cost + inner.cost + costs.loop_pairs(outer.rows, inner.rows, on_rest.len());
                    let inner = LoopInner::once(inner);
                    self.nest_loop(outer.planned, inner, kind, &on_rest, Estimate { rows, cost })?
                }
            }
        };
        match Expr::and_all(rest) {
            None => Ok(planned),
            Some(e) => {
                let sides = JoinSides { left: &left_rels, right: &right_rels };
                let rows = (planned.rows * self.join_selectivity(std::slice::from_ref(&e), sides)).max(1.0);
                let cost = planned.cost + costs.filter(planned.rows, 1);
                Ok(FromPlan { planned: self.filter(planned.planned, &e, rows)?, rows, cost, sorted: false })
            }
        }
    }
}

/// The columns that subqueries and functions among these relations use of others.
fn lateral_columns(q: &Query, rels: &[u32]) -> Vec<ColId> {
    let mut uses = Vec::new();
    for rel in q.rels.iter().filter(|r| rels.contains(&r.id)) {
        match &rel.kind {
            RelKind::Subquery(s) => s.outer_columns(&mut uses),
            RelKind::Function { calls, .. } => calls.iter().for_each(|c| c.expr.columns(&mut uses)),
            _ => {}
        }
    }
    uses
}

fn int_pair(a: Oid, b: Oid) -> bool {
    use kilndb_types::oids::{INT2, INT4, INT8};
    matches!(a, INT2 | INT4 | INT8) && matches!(b, INT2 | INT4 | INT8)
}

fn widen(e: CExpr, int: bool, from: Oid) -> CExpr {
    use kilndb_types::oids::INT8;
    if !int || from == INT8 {
        return e;
    }
    match kilndb_types::cast::lookup_cast(from, INT8) {
        Some(f) => CExpr::Cast { f, typmod: -1, explicit: false, arg: Box::new(e) },
        None => e,
    }
}
