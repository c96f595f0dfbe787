//! Scalar subqueries that depend on the rows around them, as joins with groups.
//!
//! `x < (SELECT avg(y) FROM t WHERE t.k = o.k)` has the rows of a left join with `SELECT k, avg(y) FROM t GROUP BY k` by
//! `k = o.k`: what the subquery gives where it finds no rows is what the left join fills in, NULL, but for `count`, which
//! is 0. Where NULL meets no condition the left join becomes an inner one, and takes part in the search for the best
//! joins. Costs decide between the join and a subquery that runs for each row.
//!
//! Invariants
//! 1. A subquery is taken apart only if what its aggregates compute cannot fail: the join computes groups that the
//!    statement's rows do not ask for.
//! 2. The groups of the subquery are those that its condition tells apart: no row of the level finds two.
//!
//! Must not know: how joins are found and built.

use super::agg::distinct_aggregates;
use super::finished_cost::PathCost;
use super::join::{FromPlan, rels_of, used_rels, within};
use super::scan::WantedRows;
use super::*;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_types::Datum;
use kilndb_types::functions;
use kilndb_types::functions::descriptor::Support;
use kilndb_types::oids;

/// The join must cost clearly less: the subquery is what was asked for.
pub(super) const CLEARLY_LESS: f64 = 0.6;
/// Of a condition about which nothing is known this share of the rows is taken to pass.
const PASSING: f64 = 1.0 / 3.0;

/// A condition that can be judged above a join with groups.
struct GroupedCondition {
    /// Its place among the conditions of the level.
    at: usize,
    /// The subqueries in it, by `SubLink::id`.
    sublinks: Vec<(u32, GroupedQuery)>,
}

/// What stands for a subquery.
#[derive(Clone)]
pub(super) struct GroupedQuery {
    pub rel: Rel,
    on: Vec<Expr>,
    pub value: Expr,
    /// Columns of the level, each with the column of the subquery that it is equal to.
    equal: Vec<(ColId, Expr)>,
    /// The subquery as it was.
    pub was: SharedQuery,
}

/// What is known of subplans and WITH queries at some time while a statement is planned.
pub(super) struct PlannerMark {
    subplans: usize,
    correlated_subplans: usize,
    ctes: usize,
    correlated_ctes: usize,
    run_always: usize,
    init_plans: HashMap<u32, (usize, usize)>,
    level_init_plans: Vec<Vec<usize>>,
    node_init_plans: HashMap<usize, Vec<usize>>,
    hidden_subplans: HashSet<usize>,
    exec_params: HashMap<ColId, usize>,
    cte_numbers: HashMap<u32, usize>,
    cte_outer: HashMap<u32, Vec<ColId>>,
}

impl Planner<'_> {
    /// The plan with some subqueries of the conditions as joins; None: they had better stay as they are.
    pub(super) fn plan_decorrelated(
        &self,
        q: &Query,
        trees: &[&JoinTree],
        conditions: &[Expr],
        wanted: WantedRows<'_>,
    ) -> Result<Option<FromPlan>> {
        if self.explores.get() || !matches!(q.body, QueryBody::Select) || !q.locks.is_empty() {
            return Ok(None);
        }
        let mut level = Vec::new();
        trees.iter().for_each(|t| rels_of(t, &mut level));
        let mut found: Vec<GroupedCondition> = Vec::new();
        for (at, condition) in conditions.iter().enumerate() {
            let sublinks = self.grouped_sublinks(condition, &level);
            if !sublinks.is_empty() {
                found.push(GroupedCondition { at, sublinks });
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
        let (before, mark) = (self.settled_sublinks.borrow().len(), self.mark());
        self.explores.set(true);
        let chosen = self.worthwhile(q, trees, (conditions, &found), wanted);
        self.explores.set(false);
        self.rewind(mark);
        let chosen = chosen?;
        let (taken, left): (Vec<_>, Vec<_>) = found.into_iter().partition(|c| chosen.contains(&c.at));
        // What is decided is not asked again for the parts of the FROM clause.
        let ids = left.iter().flat_map(|c| &c.sublinks).map(|(id, _)| *id);
        self.settled_sublinks.borrow_mut().extend(ids);
        let plan = match taken.is_empty() {
            true => self.plan_trees_as_written(q, trees, conditions.to_vec(), wanted),
            false => self.plan_grouped(q, trees, (conditions, &taken), wanted),
        };
        self.settled_sublinks.borrow_mut().truncate(before);
        plan.map(Some)
    }

    /// The places of the conditions that cost less as joins.
    fn worthwhile(
        &self,
        q: &Query,
        trees: &[&JoinTree],
        (conditions, found): (&[Expr], &[GroupedCondition]),
        wanted: WantedRows<'_>,
    ) -> Result<Vec<usize>> {
        let is_other = |at: &usize| !found.iter().any(|c| c.at == *at);
        let others: Vec<Expr> = (0..conditions.len()).filter(is_other).map(|at| conditions[at].clone()).collect();
        let plain = self.plan_trees_as_written(q, trees, others.clone(), wanted)?;
        let mut chosen = Vec::new();
        for c in found {
            let mut run = 0.0;
            for (_, grouped) in &c.sublinks {
                run += self.plan_query(&grouped.was, grouped.rel.id)?.node.cost;
            }
            let kept = PathCost {
                rows: (plain.rows * PASSING).max(1.0),
                first: plain.first + run,
                cost: plain.cost + self.costs().loop_runs(plain.rows, run),
            };
            let kept = self.finished_cost(wanted, kept, plain.order.presorted(wanted.order));
            let all: Vec<Expr> = others.iter().chain([&conditions[c.at]]).cloned().collect();
            let alone = [GroupedCondition { at: others.len(), sublinks: c.sublinks.clone() }];
            let joined = self.plan_grouped(q, trees, (&all, &alone), wanted)?;
            let own = PathCost { rows: joined.rows, first: joined.first, cost: joined.cost };
            if self.finished_cost(wanted, own, joined.order.presorted(wanted.order)) < kept * CLEARLY_LESS {
                chosen.push(c.at);
            }
        }
        Ok(chosen)
    }

    /// The plan with these conditions judged above joins with groups.
    fn plan_grouped(
        &self,
        q: &Query,
        trees: &[&JoinTree],
        (conditions, taken): (&[Expr], &[GroupedCondition]),
        wanted: WantedRows<'_>,
    ) -> Result<FromPlan> {
        let mut inner = Query { rels: q.rels.clone(), ..Query::default() };
        let mut conditions = conditions.to_vec();
        let mut joined = whole_tree(trees.iter().copied())?;
        for c in taken {
            for (id, grouped) in &c.sublinks {
                joined = grouped.joined_to(joined);
                inner.rels.push(self.restricted(grouped, &conditions));
                put_grouped(&mut conditions[c.at], *id, &grouped.value)?;
            }
        }
        self.plan_trees_as_written(&inner, &[&joined], conditions, wanted)
    }

    /// The groups that rows which meet the conditions of the level may ask for.
    pub(super) fn restricted(&self, grouped: &GroupedQuery, conditions: &[Expr]) -> Rel {
        let mut rel = grouped.rel.clone();
        let RelKind::Subquery(query) = &mut rel.kind else { return rel };
        let mut added = Vec::new();
        for e in conditions.iter().filter(|e| !e.has_sublink() && self.cannot_fail(e)) {
            let mut used = Vec::new();
            e.columns(&mut used);
            let Some(first) = used.first().filter(|first| used.iter().all(|c| c == *first)) else { continue };
            for (_, key) in grouped.equal.iter().filter(|(column, _)| column == first) {
                let mut about = e.clone();
                let replaced = about.rewrite(&mut |x| {
                    if matches!(x.kind, ExprKind::Column(_)) {
                        *x = key.clone();
                    }
                    Ok(())
                });
                added.extend(replaced.is_ok().then_some(about));
            }
        }
        let own = query.filter.take();
        query.filter = Expr::and_all(own.into_iter().chain(added).collect());
        rel
    }

    /// The subqueries in a condition for which joins may stand: all of those that depend on the level.
    pub(super) fn grouped_sublinks(&self, condition: &Expr, level: &[u32]) -> Vec<(u32, GroupedQuery)> {
        let mut sublinks = Vec::new();
        scalar_sublinks(condition, &mut sublinks);
        if sublinks.is_empty() || condition.is_volatile() {
            return Vec::new();
        }
        let settled = self.settled_sublinks.borrow();
        sublinks.retain(|s| !settled.contains(&s.id));
        let grouped = |s: &&SubLink| Some((s.id, self.grouped_query(s, level)?));
        let found: Vec<(u32, GroupedQuery)> = sublinks.iter().filter_map(grouped).collect();
        let mut ids: Vec<u32> = found.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.len() == found.len() { found } else { Vec::new() }
    }

    fn grouped_query(&self, s: &SubLink, level: &[u32]) -> Option<GroupedQuery> {
        let query = &*s.query;
        let [target] = query.targets.iter().filter(|t| !t.junk).collect::<Vec<_>>()[..] else { return None };
        if !is_one_group(query) || target.expr.has_sublink() || target.expr.has_window() {
            return None;
        }
        let inside: Vec<u32> = query.rels.iter().map(|r| r.id).collect();
        let mut conditions = Vec::new();
        query.filter.clone()?.conjuncts(&mut conditions);
        let (of_level, own): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|e| !used_rels(e, level).is_empty());
        let mut sides: Vec<(Expr, Expr, Expr)> = Vec::new();
        for e in of_level {
            let (key, value) = self.key_and_value(&e, &inside, level)?;
            sides.push((key, value, e));
        }
        if sides.is_empty() {
            return None;
        }
        let mut aggregates: Vec<Expr> = Vec::new();
        distinct_aggregates(&target.expr, &mut aggregates);
        if aggregates.is_empty() || !aggregates.iter().all(|a| self.is_of_group(a, &inside)) {
            return None;
        }
        let keys: Vec<Expr> = sides.iter().map(|(key, ..)| key.clone()).collect();
        let outputs: Vec<&Expr> = keys.iter().chain(&aggregates).collect();
        let grouped = Query {
            rels: query.rels.clone(),
            from: query.from.clone(),
            filter: Expr::and_all(own),
            targets: outputs.iter().map(|e| output(e)).collect(),
            group_by: keys.clone(),
            has_aggs: true,
            ..Query::default()
        };
        if self.outer_columns(&grouped).iter().any(|c| level.contains(&c.rel)) {
            return None;
        }
        let id = self.new_rel();
        let column = |at: usize, e: &Expr| e.as_column(ColId { rel: id, att: at as i16 + 1 });
        let value = value_of_group(&target.expr, &aggregates, &|at, e| column(keys.len() + at, e))?;
        let mut used = Vec::new();
        value.columns(&mut used);
        if used.iter().any(|c| inside.contains(&c.rel)) {
            return None;
        }
        let on = sides.iter().enumerate().map(|(at, (key, _, e))| with_column(e, key, column(at, key)));
        let on = on.collect::<Option<Vec<_>>>()?;
        let column_of = |e: &Expr| if let ExprKind::Column(c) = e.kind { Some(c) } else { None };
        let equal = sides.iter().filter(|(key, value, _)| key.ty == value.ty && column_of(key).is_some());
        let equal = equal.filter_map(|(key, value, _)| Some((column_of(value)?, key.clone()))).collect();
        self.name_columns(id, &outputs);
        let columns = outputs.iter().map(|e| e.rel_column("")).collect();
        let kind = RelKind::Subquery(SharedQuery::new(grouped));
        let rel =
            Rel { id, alias: "grouped_subquery".into(), columns, kind, lateral: false, security_quals: Vec::new() };
        Some(GroupedQuery { rel, on, value, equal, was: s.query.clone() })
    }

    /// The two sides of `key = value`: an expression over the subquery's relations, and one over the level's.
    fn key_and_value(&self, e: &Expr, inside: &[u32], level: &[u32]) -> Option<(Expr, Expr)> {
        let (l, r) = self.merged_sides(e)?;
        let is_alike = self.base_type(l.ty) == self.base_type(r.ty) || super::join_nodes::int_pair(l.ty, r.ty);
        let is_key = |e: &Expr| {
            let mut used = Vec::new();
            e.columns(&mut used);
            !used.is_empty() && within(&used.iter().map(|c| c.rel).collect::<Vec<_>>(), inside)
        };
        let is_value = |e: &Expr| !used_rels(e, level).is_empty() && used_rels(e, inside).is_empty();
        match is_alike {
            true if is_key(l) && is_value(r) => Some((l.clone(), r.clone())),
            true if is_key(r) && is_value(l) => Some((r.clone(), l.clone())),
            _ => None,
        }
    }

    /// Can the aggregate be computed for each group, and is it NULL or 0 where there is none?
    fn is_of_group(&self, aggregate: &Expr, inside: &[u32]) -> bool {
        let ExprKind::Agg(call) = &aggregate.kind else { return false };
        let is_known = matches!(
            &*call.name,
            "count"
                | "sum"
                | "avg"
                | "min"
                | "max"
                | "bool_and"
                | "bool_or"
                | "every"
                | "stddev"
                | "stddev_pop"
                | "stddev_samp"
                | "variance"
                | "var_pop"
                | "var_samp"
        );
        let mut used = Vec::new();
        aggregate.columns(&mut used);
        is_known
            && call.oid < FIRST_USER_OID
            && call.order.is_empty()
            && call.direct_args == 0
            && used.iter().all(|c| inside.contains(&c.rel))
            && call.args.iter().chain(call.filter.as_deref()).all(|e| self.cannot_fail(e))
    }

    /// Is it certain that the expression has a value for any row?
    fn cannot_fail(&self, e: &Expr) -> bool {
        /// numeric: +, -, *, and the sign.
        const NUMERIC: [Oid; 4] = [1724, 1725, 1726, 1771];
        let compares = |f: &FuncExpr| {
            f.operator != 0
                && f.operator < FIRST_USER_OID
                && (self.catalog.btree_strategy(f.operator).ok().flatten().is_some()
                    || matches!(functions::support(f.oid), Support::CompareIntegers(_)))
        };
        let is_safe = match &e.kind {
            ExprKind::ScalarArray { func, .. } => func.internal && compares(func),
            ExprKind::Func(f) => {
                let widens = f.form == FuncForm::ImplicitCast
                    && matches!(e.ty, oids::INT4 | oids::INT8 | oids::NUMERIC | oids::FLOAT8)
                    && f.args
                        .first()
                        .is_some_and(|a| matches!(a.ty, oids::INT2 | oids::INT4 | oids::INT8 | oids::FLOAT4))
                    && !f.args.first().is_some_and(|a| a.ty == oids::INT8 && e.ty == oids::INT4);
                f.internal && (compares(f) || widens || NUMERIC.contains(&f.oid))
            }
            ExprKind::Cast { kind: CastKind::Relabel, .. } => true,
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Column(_)
            | ExprKind::And(_)
            | ExprKind::Or(_)
            | ExprKind::Not(_)
            | ExprKind::IsNull { .. }
            | ExprKind::BoolTest { .. }
            | ExprKind::Case { arg: None, .. }
            | ExprKind::Array { .. }
            | ExprKind::Coalesce(_) => true,
            _ => false,
        };
        let mut safe = is_safe;
        e.for_children(&mut |c| safe = safe && self.cannot_fail(c));
        safe
    }

    /// EXPLAIN shows the columns as what they are in the subquery.
    pub(super) fn name_columns(&self, rel: u32, outputs: &[&Expr]) {
        let Some(names) = &self.names else { return };
        for (e, att) in outputs.iter().zip(1..) {
            match e.kind {
                ExprKind::Column(of) => names.name_like(ColId { rel, att }, of),
                _ => names.name_as(ColId { rel, att }, format!("({})", self.show(e))),
            }
        }
    }

    pub(super) fn mark(&self) -> PlannerMark {
        PlannerMark {
            subplans: self.subplans.borrow().len(),
            correlated_subplans: self.correlated_subplans.borrow().len(),
            ctes: self.ctes.borrow().len(),
            correlated_ctes: self.correlated_ctes.borrow().len(),
            run_always: self.run_always.borrow().len(),
            init_plans: self.init_plans.borrow().clone(),
            level_init_plans: self.level_init_plans.borrow().clone(),
            node_init_plans: self.node_init_plans.borrow().clone(),
            hidden_subplans: self.hidden_subplans.borrow().clone(),
            exec_params: self.exec_params.borrow().clone(),
            cte_numbers: self.cte_numbers.borrow().clone(),
            cte_outer: self.cte_outer.borrow().clone(),
        }
    }

    /// Forgets the subplans and WITH queries of plans that were only compared.
    pub(super) fn rewind(&self, mark: PlannerMark) {
        self.subplans.borrow_mut().truncate(mark.subplans);
        self.correlated_subplans.borrow_mut().truncate(mark.correlated_subplans);
        self.ctes.borrow_mut().truncate(mark.ctes);
        self.correlated_ctes.borrow_mut().truncate(mark.correlated_ctes);
        self.run_always.borrow_mut().truncate(mark.run_always);
        *self.init_plans.borrow_mut() = mark.init_plans;
        *self.level_init_plans.borrow_mut() = mark.level_init_plans;
        *self.node_init_plans.borrow_mut() = mark.node_init_plans;
        *self.hidden_subplans.borrow_mut() = mark.hidden_subplans;
        *self.exec_params.borrow_mut() = mark.exec_params;
        *self.cte_numbers.borrow_mut() = mark.cte_numbers;
        *self.cte_outer.borrow_mut() = mark.cte_outer;
    }
}

impl GroupedQuery {
    /// The rows of `left` with what the subquery gives for each.
    pub(super) fn joined_to(&self, left: JoinTree) -> JoinTree {
        join(JoinKind::Left, left, JoinTree::Rel(self.rel.id), Expr::and_all(self.on.clone()))
    }
}

/// All that these trees join.
pub(super) fn whole_tree<'t>(trees: impl Iterator<Item = &'t JoinTree>) -> Result<JoinTree> {
    let joined = trees.cloned().reduce(|left, right| join(JoinKind::Inner, left, right, None));
    joined.ok_or_else(|| kilndb_base::Error::internal("nothing to join groups with"))
}

fn join(kind: JoinKind, left: JoinTree, right: JoinTree, on: Option<Expr>) -> JoinTree {
    JoinTree::Join { kind, left: Box::new(left), right: Box::new(right), on }
}

fn output(e: &Expr) -> Target {
    Target { expr: e.clone(), name: String::new(), junk: false, table_oid: 0, attnum: 0 }
}

/// Is the subquery one group of the rows that joins and conditions leave, whatever they are?
fn is_one_group(q: &Query) -> bool {
    matches!(q.body, QueryBody::Select)
        && q.ctes.is_empty()
        && !q.from.is_empty()
        && q.has_aggs
        && q.group_by.is_empty()
        && q.grouping_sets.is_none()
        && q.having.is_none()
        && q.outer_aggs.is_empty()
        && q.windows.is_empty()
        && !q.has_srf
        && q.limit.is_none()
        && q.offset.is_none()
        && q.locks.is_empty()
        && matches!(q.distinct, Distinct::No)
        && !q.is_volatile()
}

/// Scalar subqueries in an expression, not those within others.
fn scalar_sublinks<'e>(e: &'e Expr, out: &mut Vec<&'e SubLink>) {
    match &e.kind {
        ExprKind::SubLink(s) if s.kind == SubKind::Scalar => out.push(s),
        ExprKind::SubLink(_) => {}
        _ => e.for_children(&mut |c| scalar_sublinks(c, out)),
    }
}

pub(super) fn put_grouped(e: &mut Expr, id: u32, value: &Expr) -> Result<()> {
    match &e.kind {
        ExprKind::SubLink(s) if s.id == id => *e = value.clone().at(e.loc),
        ExprKind::SubLink(_) => {}
        _ => e.for_children_mut(&mut |c| put_grouped(c, id, value))?,
    }
    Ok(())
}

/// The subquery's result from the columns of its group; `column` gives that of an aggregate.
fn value_of_group(e: &Expr, aggregates: &[Expr], column: &dyn Fn(usize, &Expr) -> Expr) -> Option<Expr> {
    let mut made = e.clone();
    if let ExprKind::Agg(call) = &e.kind {
        let at = aggregates.iter().position(|known| kilndb_bind::same(known, e))?;
        let value = column(at, e);
        if &*call.name != "count" {
            return Some(value);
        }
        let none = Expr::new(ExprKind::Const(Datum::Int8(0)), oids::INT8);
        return Some(Expr::new(ExprKind::Coalesce(vec![value, none]), oids::INT8));
    }
    if matches!(e.kind, ExprKind::Grouping(_) | ExprKind::SubLink(_)) {
        return None;
    }
    let mut is_whole = true;
    let _ = made.for_children_mut(&mut |c| {
        match value_of_group(c, aggregates, column) {
            Some(value) => *c = value,
            None => is_whole = false,
        }
        Ok(())
    });
    is_whole.then_some(made)
}

/// The equality with a column in the place of its key.
fn with_column(e: &Expr, key: &Expr, column: Expr) -> Option<Expr> {
    let mut made = e.clone();
    let ExprKind::Func(f) = &mut made.kind else { return None };
    let at = f.args.iter().position(|a| kilndb_bind::same(a, key))?;
    f.args[at] = column;
    Some(made)
}
