//! EXISTS with a subquery that is looked up for each row, and the table that it becomes if there are many rows
//! (docs/decisions/0053). PostgreSQL has both plans, too, and chooses by the number of rows that it expects.
//!
//! Must not know: where the condition stands.

use super::semijoin::only_joins;
use super::*;
use kilndb_bind::ir::SubLink;

/// The table instead of the look-ups.
#[derive(Clone)]
pub(crate) struct PlannedExistsTable {
    pub index: usize,
    /// What a row looks for in it, over the columns of the query outside, and the types by which values are told apart.
    pub outer: Vec<Expr>,
    pub types: Vec<Oid>,
    pub after_calls: u64,
}

/// A subquery without the conditions that tie it to a row outside: these are `outer = inner` each.
struct UntiedQuery {
    query: Query,
    outer: Vec<Expr>,
    /// The types by which the equalities tell values apart.
    types: Vec<Oid>,
}

impl Planner<'_> {
    /// The table that can take the place of a subplan, if the subquery depends on the rows outside by equalities alone.
    pub(super) fn exists_table(&self, s: &SubLink, subplan: &PlanNode) -> Result<Option<PlannedExistsTable>> {
        let Some(UntiedQuery { query, outer, types }) = self.untied(&s.query)? else { return Ok(None) };
        let (costs, keys) = (self.costs(), types.len());
        // A look-up ends with the first row that it finds.
        let look_up = subplan.startup + (subplan.cost - subplan.startup) / subplan.rows.max(1.0);
        let saved = look_up - costs.hash_join(1.0, 0.0, 0.0, keys);
        if saved <= 0.0 {
            return Ok(None);
        }
        let shown = self.subplans.borrow().len();
        let planned = self.plan_query(&query, self.new_rel())?;
        let index = self.add_subplan(planned.node.clone());
        // Neither the table nor what it is made of is expected to run.
        self.hidden_subplans.borrow_mut().extend(shown..=index);
        let table = planned.node.cost + costs.hash_join(0.0, planned.node.rows, 0.0, keys);
        let after_calls = (join_build::TABLE_COSTS * table / saved).max(join_build::FEWEST_STEPS) as u64;
        Ok(Some(PlannedExistsTable { index, outer, types, after_calls }))
    }

    fn untied(&self, q: &Query) -> Result<Option<UntiedQuery>> {
        let outer_columns = self.outer_columns(q);
        let mut ctes = Vec::new();
        q.outer_ctes(&mut ctes);
        if !only_joins(q) || !ctes.is_empty() || q.is_volatile() {
            return Ok(None);
        }
        let mut conditions = Vec::new();
        let Some(filter) = &q.filter else { return Ok(None) };
        filter.clone().conjuncts(&mut conditions);
        let is_tied = |e: &Expr| {
            let mut used = Vec::new();
            e.columns(&mut used);
            used.iter().any(|c| outer_columns.contains(c))
        };
        let (tied, own): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_tied);
        let (mut outer, mut types, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for condition in &tied {
            let Some((of_outer, of_inner)) = self.tied_sides(condition, &outer_columns) else { return Ok(None) };
            types.push(self.told_apart_as(of_outer, condition.collation)?);
            outer.push(of_outer.clone());
            let name = "?column?".into();
            targets.push(Target { expr: of_inner.clone(), name, junk: false, table_oid: 0, attnum: 0 });
        }
        let mut query = q.clone();
        (query.filter, query.targets) = (Expr::and_all(own), targets);
        (query.order_by, query.distinct) = (Vec::new(), Distinct::No);
        let is_untied = !outer.is_empty() && self.outer_columns(&query).is_empty();
        Ok(is_untied.then_some(UntiedQuery { query, outer, types }))
    }

    /// The sides of an equality that can be hashed, one of columns outside and one of columns inside.
    fn tied_sides<'e>(&self, condition: &'e Expr, outer: &[ColId]) -> Option<(&'e Expr, &'e Expr)> {
        let (l, r) = self.hashed_sides(condition)?;
        if l.ty != r.ty || !condition.collation.collation.is_deterministic() {
            return None;
        }
        let is_of = |e: &Expr, of_outer: bool| {
            let mut used = Vec::new();
            e.columns(&mut used);
            !used.is_empty() && used.iter().all(|c| outer.contains(c) == of_outer) && !e.has_sublink()
        };
        match (is_of(l, true) && is_of(r, false), is_of(r, true) && is_of(l, false)) {
            (true, _) => Some((l, r)),
            (_, true) => Some((r, l)),
            _ => None,
        }
    }
}
