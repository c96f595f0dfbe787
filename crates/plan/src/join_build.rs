//! Builds the tree of joins that [`super::join_search`] has found, as it is.
//!
//! Must not know: what the joins cost, apart from what the paths say.

use super::join::{FromItem, FromPlan, lateral_columns};
use super::join_nodes::{LoopInner, MergeKey, TableInstead};
use super::join_search::{JoinMethod, JoinPath, JoinSearch, PathWay};
use super::join_ways::sort_keys;
use super::row_order::RowOrder;
use super::scan::WantedRows;
use super::*;
use kilndb_base::Error;

/// So many times as long as a look-up of the same cost it takes to read rows and put them into a table: measured, with all
/// pages in memory, 2 µs against 8.
pub(super) const TABLE_COSTS: f64 = 4.0;
/// A loop searches and finds at least so often before it makes a table.
pub(super) const FEWEST_STEPS: f64 = 64.0;

/// One join of the tree.
struct BuiltJoin<'p> {
    path: &'p JoinPath,
    left: &'p JoinPath,
    right: &'p JoinPath,
    kind: JoinKind,
    conditions: Vec<Expr>,
}

impl BuiltJoin<'_> {
    fn estimate(&self) -> Estimate {
        Estimate { rows: self.path.cost.rows, cost: self.path.cost.cost }
    }
    fn item(&self) -> usize {
        self.right.set.trailing_zeros() as usize
    }
}

impl JoinSearch<'_, '_> {
    /// `ordered`: whoever takes the rows relies on their order.
    pub(super) fn build(&self, path: &JoinPath, ordered: bool) -> Result<FromPlan> {
        let (left, right, method, kind, conditions) = match &path.way {
            PathWay::Item { item, plan } => {
                let plan = self.items[*item].plans.get(*plan);
                return plan.cloned().ok_or_else(|| Error::internal("a relation of a join is not planned"));
            }
            PathWay::Join { left, right, method, kind, conditions } => (left, right, method, *kind, *conditions),
        };
        let join = BuiltJoin { path, left, right, kind, conditions: self.expressions(conditions) };
        let mut built = match method {
            JoinMethod::PerRow => self.build_per_row(&join, ordered)?,
            JoinMethod::Probe { memoize } => self.build_probe(&join, *memoize, ordered)?,
            JoinMethod::Pairs => self.build_pairs(&join, ordered)?,
            JoinMethod::Hash { flipped } => self.build_hash(&join, *flipped, ordered)?,
            JoinMethod::Merge { keys } => self.build_merge(&join, keys)?,
        };
        built.first = path.cost.first;
        built.order = match ordered && !built.order.keys.is_empty() {
            true => RowOrder::clone(&path.order),
            false => RowOrder::default(),
        };
        Ok(built)
    }

    fn build_per_row(&self, join: &BuiltJoin<'_>, ordered: bool) -> Result<FromPlan> {
        let item = &self.items[join.item()];
        let left = self.build(join.left, ordered)?;
        let inner = self.build(join.right, false)?;
        let mut uses = lateral_columns(item.query, &item.rels);
        item.own.iter().for_each(|e| e.columns(&mut uses));
        let inner = LoopInner::per_row(inner, &uses);
        self.planner.loop_over(left, inner, join.kind, &join.conditions, join.estimate())
    }

    fn build_probe(&self, join: &BuiltJoin<'_>, memoize: bool, ordered: bool) -> Result<FromPlan> {
        let item = &self.items[join.item()];
        let left = self.build(join.left, ordered)?;
        let inner = match (&item.bound, item.tree) {
            (Some(bound), _) => bound.clone(),
            (None, Some(tree)) => {
                let from = FromItem { tree, rels: item.rels.clone(), joined: None };
                self.planner.plan_item(item.query, &from, &item.own, &join.conditions, WantedRows::ALL)?
            }
            (None, None) => return Err(Error::internal("an item cannot be looked up")),
        };
        let mut uses = Vec::new();
        join.conditions.iter().for_each(|e| e.columns(&mut uses));
        let table = self.table_instead(join, &left, &inner)?;
        let inner = match memoize {
            true => self.planner.memoize(inner, &join.conditions, &left.planned.layout, join.kind)?,
            false => inner,
        };
        let inner = LoopInner::per_row(inner, &uses).or_table(table);
        self.planner.loop_over(left, inner, join.kind, &[], join.estimate())
    }

    /// The table that may take the place of looking up `inner` for each row of `left`, if the join has keys. It is due
    /// when looking up has taken as long as it takes: whatever the number of rows turns out to be, that is at most twice
    /// what would have been spent with the number known (the ski rental problem; Karlin et al., 1988). A search is
    /// taken to cost as much as a row that it finds.
    fn table_instead(&self, join: &BuiltJoin<'_>, left: &FromPlan, inner: &FromPlan) -> Result<Option<TableInstead>> {
        let settings = self.planner.catalog.planner_settings();
        if !settings.hashjoin || !settings.nestloop {
            return Ok(None);
        }
        let build = self.build(join.right, false)?;
        let layout = &build.planned.layout;
        let condition = self.planner.hash_keys(&join.conditions, &left.planned.layout, layout);
        let Some(condition) = condition.filter(|_| layout.0 == inner.planned.layout.0) else { return Ok(None) };
        let (costs, keys) = (self.planner.costs(), condition.keys.len());
        let table = build.cost + costs.hash_join(0.0, build.rows, 0.0, keys);
        let calls = join.left.cost.rows.max(1.0);
        let saved = (join.path.cost.cost - join.left.cost.cost) / calls - costs.hash_join(1.0, 0.0, 0.0, keys);
        let steps_of_row = 1.0 + join.path.cost.rows / calls;
        let after_steps = (TABLE_COSTS * table / saved * steps_of_row).max(FEWEST_STEPS);
        Ok((saved > 0.0).then_some(TableInstead { build, condition, after_steps }))
    }

    fn build_pairs(&self, join: &BuiltJoin<'_>, ordered: bool) -> Result<FromPlan> {
        let left = self.build(join.left, ordered)?;
        let inner = LoopInner::once(self.build(join.right, false)?);
        self.planner.loop_over(left, inner, join.kind, &join.conditions, join.estimate())
    }

    fn build_hash(&self, join: &BuiltJoin<'_>, flipped: bool, ordered: bool) -> Result<FromPlan> {
        let (probe, build) = if flipped { (join.right, join.left) } else { (join.left, join.right) };
        let kind = match join.kind {
            JoinKind::Left if flipped => JoinKind::Right,
            kind => kind,
        };
        let (probe, build) = (self.build(probe, ordered)?, self.build(build, false)?);
        let order = match kind {
            JoinKind::Right | JoinKind::Full => RowOrder::default(),
            _ => probe.order.clone(),
        };
        let keys = self.planner.hash_keys(&join.conditions, &probe.planned.layout, &build.planned.layout);
        let keys = keys.ok_or_else(|| Error::internal("a hash join has no keys"))?;
        let joined = self.planner.hash_join(probe.planned, (build.planned, order), kind, keys, join.estimate())?;
        Ok(joined)
    }

    fn build_merge(&self, join: &BuiltJoin<'_>, keys: &[MergeKey]) -> Result<FromPlan> {
        let sorted = |path: &JoinPath, by: Vec<SortKey>| -> Result<FromPlan> {
            let plan = self.build(path, path.order.presorted(&by) > 0)?;
            let planned = self.planner.sort(self.planner.by_partition(plan.planned), &by, &plan.order)?;
            let order = if plan.order.gives(&by) { plan.order } else { RowOrder::of_keys(&by) };
            Ok(FromPlan { planned, order, ..plan })
        };
        let left = sorted(join.left, sort_keys(keys, |k| &k.sides.0))?;
        let right = sorted(join.right, sort_keys(keys, |k| &k.sides.1))?;
        let is_key = |e: &Expr| {
            self.planner.merged_sides(e).is_some_and(|(l, r)| {
                keys.iter().any(|MergeKey { sides: (x, y), .. }| {
                    kilndb_bind::same(l, x) && kilndb_bind::same(r, y)
                        || kilndb_bind::same(l, y) && kilndb_bind::same(r, x)
                })
            })
        };
        let residual = join.conditions.iter().filter(|e| !is_key(e)).cloned().collect();
        let order = match join.kind {
            JoinKind::Right | JoinKind::Full => RowOrder::default(),
            _ => left.order,
        };
        let joined =
            self.planner.merge_join(left.planned, right.planned, join.kind, (keys, residual), join.estimate())?;
        Ok(FromPlan { order, ..joined })
    }
}
