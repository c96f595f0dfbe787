//! What a path costs together with what is left to be done above it: the rest of a sort, grouping, and only as many rows
//! as are wanted.
//!
//! Must not know: how paths are found.

use super::scan::WantedRows;
use super::*;

/// What the rows of a path cost.
#[derive(Clone, Copy)]
pub(crate) struct PathCost {
    pub rows: f64,
    /// What is spent before the first row comes.
    pub first: f64,
    pub cost: f64,
}

/// Rows are sorted only to be grouped if that costs no more than this share of hashing them.
const SORT_MARGIN: f64 = 0.99;

impl PathCost {
    /// The cost of the first rows.
    pub fn of_rows(self, wanted: f64) -> f64 {
        let share = (wanted / self.rows.max(1.0)).min(1.0);
        self.first + (self.cost - self.first).max(0.0) * share
    }

    /// The cost of rows of which a reader skips the share `start` and leaves those from `end` on.
    pub fn part(self, start: f64, end: f64) -> PathCost {
        let run = (self.cost - self.first).max(0.0);
        PathCost { rows: self.rows * end, first: self.first + run * start, cost: self.first + run * end }
    }
}

impl Planner<'_> {
    /// The cost of a path as far as it is run, without what stands above it, if no order is asked for.
    pub(crate) fn cost_of_share(&self, wanted: WantedRows<'_>, cost: f64, rows: f64) -> f64 {
        if wanted.groups.is_some() || wanted.limit >= rows { cost } else { cost * wanted.limit / rows }
    }

    /// The cost of a path whose rows are sorted by the first `presorted` keys of the wanted order, with all that is left
    /// to be done.
    pub(crate) fn finished_cost(&self, wanted: WantedRows<'_>, path: PathCost, presorted: usize) -> f64 {
        if wanted.order.is_empty() {
            return path.of_rows(wanted.limit);
        }
        if wanted.groups.is_some() {
            return self.grouped_cost(wanted, path, presorted);
        }
        if presorted == 0 && wanted.limit < path.rows {
            // A sort that keeps the first rows only.
            let settings = self.catalog.planner_settings();
            return path.cost + self.costs().top_rows(path.rows, wanted.limit) + settings.penalty(settings.sort);
        }
        self.sorted_cost(wanted.order, path, presorted).of_rows(wanted.limit)
    }

    /// The path with what is left of a sort.
    pub(crate) fn sorted_cost(&self, order: &[SortKey], path: PathCost, presorted: usize) -> PathCost {
        let (costs, settings) = (self.costs(), self.catalog.planner_settings());
        if presorted >= order.len() {
            return path;
        }
        if presorted == 0 || !settings.incremental_sort {
            let cost = path.cost + costs.sort(path.rows) + settings.penalty(settings.sort);
            return PathCost { first: cost, cost, ..path };
        }
        let keys: Vec<Expr> = order[..presorted].iter().map(|k| k.expr.clone()).collect();
        let groups = self.group_count(&keys, path.rows);
        let per_group = path.rows / groups;
        let sort = costs.sort_in_groups(path.rows, groups);
        let first = path.of_rows(per_group) + sort / groups;
        PathCost { first, cost: path.cost + sort, ..path }
    }

    /// The costs of grouping sorted rows, and of hashing them.
    fn grouping_costs(&self, wanted: WantedRows<'_>, path: PathCost, presorted: usize) -> (f64, f64) {
        let Some(grouping) = wanted.groups else { return (path.cost, f64::INFINITY) };
        let (costs, settings) = (self.costs(), self.catalog.planner_settings());
        let keys: Vec<Expr> = wanted.order.iter().map(|k| k.expr.clone()).collect();
        let groups = self.group_count(&keys, path.rows);
        let passing = (groups * grouping.passing).max(1.0);
        let share = (wanted.limit / passing).min(1.0);
        let sorted = self.sorted_cost(wanted.order, path, presorted);
        let grouped = costs.sorted_groups(path.rows, groups, keys.len(), grouping.aggregates);
        let sorted = PathCost { cost: sorted.cost + grouped, ..sorted };
        let by_order = sorted.of_rows(path.rows * share);
        if !grouping.may_hash {
            return (by_order, f64::INFINITY);
        }
        let hashed = path.cost
            + costs.hash_groups(path.rows, groups, keys.len(), grouping.aggregates)
            + settings.penalty(settings.hashagg);
        let sort = match grouping.in_order {
            true if wanted.limit < passing => costs.top_rows(passing, wanted.limit),
            true => costs.sort(passing),
            false => 0.0,
        };
        (by_order, hashed + sort)
    }

    fn grouped_cost(&self, wanted: WantedRows<'_>, path: PathCost, presorted: usize) -> f64 {
        let (by_order, hashed) = self.grouping_costs(wanted, path, presorted);
        by_order.min(hashed)
    }

    /// Do rows cost less that are sorted to be grouped?
    pub(crate) fn groups_sorted(&self, wanted: WantedRows<'_>, path: PathCost, presorted: usize) -> bool {
        let (by_order, hashed) = self.grouping_costs(wanted, path, presorted);
        // If there are many more rows than was thought, sorting all of them costs much more than hashing them.
        by_order < if presorted == 0 { hashed * SORT_MARGIN } else { hashed }
    }
}
