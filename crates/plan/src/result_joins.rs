//! Scalar subqueries among a query's results and sort keys, as joins with groups.
//!
//! `SELECT (SELECT sum(y) FROM t WHERE t.k = o.k) FROM o` has the rows of a left join with the groups of `t`, as a condition
//! with such a subquery has ([`super::decorrelate`]). Costs decide: the subquery runs for the rows alone that LIMIT lets
//! through, the groups are computed once.
//!
//! Invariants
//! 1. The query does nothing above its FROM clause and its conditions but sort, LIMIT and compute results: what groups rows,
//!    numbers them or makes more of them would see other rows.
//! 2. What a subquery is replaced by is the same in the results and in the sort keys, which are copies of them.
//!
//! Must not know: how joins are found and built.

use super::decorrelate::{CLEARLY_LESS, GroupedQuery, put_grouped, whole_tree};
use super::finished_cost::PathCost;
use super::join::rels_of;
use super::scan::WantedRows;
use super::*;

/// A subquery that a join may stand for.
struct GroupedResult {
    /// Its `SubLink::id`.
    id: u32,
    grouped: GroupedQuery,
    /// It is computed before rows are sorted, so for all of them.
    is_sort_key: bool,
}

impl Planner<'_> {
    /// The plan of a query with joins in the place of some subqueries among its results; None: they had better stay.
    pub(super) fn plan_result_joins(
        &self,
        q: &Query,
        wanted: WantedRows<'_>,
        out_rel: u32,
    ) -> Result<Option<PlannedNode>> {
        if self.explores.get() || !matches!(q.body, QueryBody::Select) || !q.locks.is_empty() || q.from.is_empty() {
            return Ok(None);
        }
        let found = self.grouped_results(q);
        if found.is_empty() {
            return Ok(None);
        }
        let (before, mark) = (self.settled_sublinks.borrow().len(), self.mark());
        self.explores.set(true);
        let chosen = self.cheaper_as_joins(q, found, wanted);
        self.explores.set(false);
        self.rewind(mark);
        let (taken, left) = chosen?;
        if taken.is_empty() {
            return Ok(None);
        }
        // What is decided is not asked again.
        self.settled_sublinks.borrow_mut().extend(left.iter().map(|r| r.id));
        let planned = self.with_result_joins(q, &taken).and_then(|q| self.plan_select(&q, out_rel));
        self.settled_sublinks.borrow_mut().truncate(before);
        planned.map(Some)
    }

    fn grouped_results(&self, q: &Query) -> Vec<GroupedResult> {
        let mut level = Vec::new();
        q.from.iter().for_each(|t| rels_of(t, &mut level));
        let mut found: Vec<GroupedResult> = Vec::new();
        let keys = q.order_by.iter().map(|k| (&k.expr, true));
        for (e, is_sort_key) in keys.chain(q.targets.iter().map(|t| (&t.expr, false))) {
            if !e.has_sublink() {
                continue;
            }
            for (id, grouped) in self.grouped_sublinks(e, &level) {
                if found.iter().all(|r| r.id != id) {
                    found.push(GroupedResult { id, grouped, is_sort_key });
                }
            }
        }
        found
    }

    /// Those that cost clearly less as joins, and the others.
    fn cheaper_as_joins(
        &self,
        q: &Query,
        found: Vec<GroupedResult>,
        wanted: WantedRows<'_>,
    ) -> Result<(Vec<GroupedResult>, Vec<GroupedResult>)> {
        let finished = |q: &Query| -> Result<(f64, f64)> {
            let plan = self.plan_from(q, wanted)?;
            let own = PathCost { rows: plan.rows, first: plan.first, cost: plan.cost };
            Ok((plan.rows, self.finished_cost(wanted, own, plan.order.presorted(wanted.order))))
        };
        let (rows, plain) = finished(q)?;
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for r in found {
            let run = self.plan_query(&r.grouped.was, r.grouped.rel.id)?.node.cost;
            let times = if r.is_sort_key { rows } else { rows.min(wanted.limit) };
            let kept = self.costs().loop_runs(times, run);
            let joined = self.with_result_joins(q, std::slice::from_ref(&r))?;
            let is_cheaper = match joined.rels.last().map(|rel| &rel.kind) {
                // The groups alone cost more.
                Some(RelKind::Subquery(groups)) if self.plan_query(groups, r.grouped.rel.id)?.node.cost > kept => false,
                _ => finished(&joined)?.1 < (plain + kept) * CLEARLY_LESS,
            };
            if is_cheaper { &mut taken } else { &mut left }.push(r);
        }
        Ok((taken, left))
    }

    fn with_result_joins(&self, q: &Query, taken: &[GroupedResult]) -> Result<Query> {
        let mut made = q.clone();
        let mut conditions = Vec::new();
        if let Some(filter) = &q.filter {
            filter.clone().conjuncts(&mut conditions);
        }
        let mut joined = whole_tree(q.from.iter())?;
        for r in taken {
            joined = r.grouped.joined_to(joined);
            made.rels.push(self.restricted(&r.grouped, &conditions));
            let targets = made.targets.iter_mut().map(|t| &mut t.expr);
            for e in targets.chain(made.order_by.iter_mut().map(|k| &mut k.expr)) {
                put_grouped(e, r.id, &r.grouped.value)?;
            }
        }
        made.from = vec![joined];
        Ok(made)
    }
}
