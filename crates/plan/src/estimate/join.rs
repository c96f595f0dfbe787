//! The share of the pairs of rows of two relations that a join condition leaves.

use super::ordering::order;
use super::*;
use kilndb_bind::same;
use kilndb_types::key::compare;
use std::cmp::Ordering;

/// PostgreSQL's default of an inequality between two columns.
const INEQUALITY: f64 = 1.0 / 3.0;

/// Which relations stand on the two sides of a join.
#[derive(Clone, Copy)]
pub(crate) struct JoinSides<'a> {
    pub left: &'a [u32],
    pub right: &'a [u32],
}

impl Planner<'_> {
    /// The share of the pairs of rows that satisfy all of the conditions of an inner join. Other conditions say that the
    /// expressions of each class in `equal` are equal.
    pub(crate) fn join_selectivity(&self, conditions: &[Expr], sides: JoinSides<'_>, equal: &[Vec<Expr>]) -> f64 {
        let all: f64 = conditions.iter().map(|e| self.pair_selectivity(e, sides)).product();
        self.key_selectivity(conditions, sides, equal).map_or(all, |of_key| all.max(of_key)).clamp(0.0, 1.0)
    }

    /// Where conditions fix all columns of a unique key of more than one column, at most one row of the key's table
    /// belongs to a row of the other side, and with a foreign key exactly one: the columns are not independent.
    /// What is equal to a fixed column of the sides is fixed, too.
    fn key_selectivity(&self, conditions: &[Expr], sides: JoinSides<'_>, equal: &[Vec<Expr>]) -> Option<f64> {
        let mut fixed: Vec<ColId> = Vec::new();
        for e in conditions {
            let (l, r) = self.equal_sides(e, sides)?;
            let classes = equal.iter().filter(|class| class.iter().any(|e| same(e, l) || same(e, r)));
            let columns = [l, r].into_iter().chain(classes.flatten()).filter_map(|e| self.variable(e).column);
            fixed.extend(columns.filter(|c| sides.left.contains(&c.rel) || sides.right.contains(&c.rel)));
        }
        let relations = self.relations.borrow();
        let keyed = fixed.iter().filter_map(|c| {
            let facts = relations.get(&c.rel)?;
            let table = facts.table.as_ref()?;
            let of_table = |att: i16| fixed.contains(&ColId { rel: c.rel, att });
            let is_key = |i: &Arc<kilndb_catalog::Index>| {
                i.keys.len() > 1 && i.tells_rows_apart() && i.keys.iter().all(|k| of_table(k.attnum))
            };
            table.indexes.iter().any(is_key).then_some(1.0 / facts.total_rows.max(1.0))
        });
        keyed.reduce(f64::max)
    }

    /// The share of all pairs of rows whose values are equal, if it is known how frequent common values are.
    pub(super) fn skewed_pairs(&self, l: &Variable, r: &Variable) -> Option<f64> {
        self.picked_share(l, r).or_else(|| self.picked_share(r, l)).or_else(|| common_pairs(l, r))
    }

    /// The share of rows whose `value` is that of a unique `key`, of whose relation conditions leave a part. Somebody has
    /// picked that part: one of its keys is taken for as frequent as that of an average row, and not for as frequent as
    /// the average key.
    fn picked_share(&self, key: &Variable, value: &Variable) -> Option<f64> {
        let column = key.column.filter(|_| key.is_unique && !value.is_unique)?;
        let (rows, total_rows) = {
            let relations = self.relations.borrow();
            let facts = relations.get(&column.rel)?;
            (facts.rows.max(1.0), facts.total_rows)
        };
        let of_row = frequency_of_rows(value).filter(|_| rows < total_rows)?;
        let average = average_pairs(key, value);
        Some((((rows - 1.0) * average + of_row.max(average)) / rows).min(1.0))
    }

    /// The two sides of an equality between the sides of a join, the left one's first.
    fn equal_sides<'e>(&self, e: &'e Expr, sides: JoinSides<'_>) -> Option<(&'e Expr, &'e Expr)> {
        let ExprKind::Func(f) = &e.kind else { return None };
        let [l, r] = f.args.as_slice() else { return None };
        if f.operator == 0 || &*f.name != "=" {
            return None;
        }
        let on = |e: &Expr, rels: &[u32]| {
            let mut used = Vec::new();
            e.columns(&mut used);
            !used.is_empty() && used.iter().all(|c| rels.contains(&c.rel))
        };
        if on(l, sides.left) && on(r, sides.right) {
            Some((l, r))
        } else if on(r, sides.left) && on(l, sides.right) {
            Some((r, l))
        } else {
            None
        }
    }

    fn pair_selectivity(&self, e: &Expr, sides: JoinSides<'_>) -> f64 {
        let of = |e: &Expr| self.pair_selectivity(e, sides);
        match &e.kind {
            ExprKind::And(list) => return list.iter().map(of).product(),
            ExprKind::Or(list) => {
                let all = list.iter().map(of).fold(0.0, |sum, share| sum + share - sum * share);
                return (all / self.restricted_share(e, sides)).min(1.0);
            }
            ExprKind::Not(inner) => return 1.0 - of(inner),
            _ => {}
        }
        if let Some((l, r)) = self.equal_sides(e, sides) {
            let (l, r) = (self.variable(l), self.variable(r));
            return self.skewed_pairs(&l, &r).unwrap_or_else(|| average_pairs(&l, &r));
        }
        // A condition on one of the relations alone.
        let mut used = Vec::new();
        e.columns(&mut used);
        used.retain(|c| sides.left.contains(&c.rel) || sides.right.contains(&c.rel));
        if let Some(first) = used.first()
            && used.iter().all(|c| c.rel == first.rel)
        {
            return self.condition_selectivity(first.rel, e);
        }
        match &e.kind {
            ExprKind::Func(f) if f.operator != 0 => self.operator_pairs(f, sides),
            ExprKind::Const(Datum::Bool(true)) => 1.0,
            ExprKind::Const(_) => 0.0,
            ExprKind::RowCompare { .. } => INEQUALITY,
            _ => 0.5,
        }
    }

    /// The share of the pairs that is left by what an OR says of each of the relations alone, which [`super::super::rewrite`]
    /// has made conditions of their own.
    fn restricted_share(&self, e: &Expr, sides: JoinSides<'_>) -> f64 {
        let restrictions = super::super::rewrite::said_of_each(e, &[sides.left, sides.right].concat());
        restrictions.iter().map(|(rel, e)| self.condition_selectivity(*rel, e)).product::<f64>().max(1e-6)
    }

    /// The share of the left side's rows that have at least one row on the right side. `right_rows`: the rows of the
    /// right side that its own conditions leave.
    pub(crate) fn semi_selectivity(&self, conditions: &[Expr], sides: JoinSides<'_>, right_rows: f64) -> f64 {
        let mut share = 1.0;
        for e in conditions {
            share *= match self.equal_sides(e, sides) {
                Some((l, r)) => matched_share(&self.variable(l), &self.variable(r), right_rows),
                // One of many rows will do.
                None => 1.0 - (1.0 - self.pair_selectivity(e, sides)).powf(right_rows.clamp(1.0, 1e6)),
            };
        }
        share.clamp(0.0, 1.0)
    }
}

/// How frequent the value of a row is on average, and not the average value.
fn frequency_of_rows(value: &Variable) -> Option<f64> {
    let s = value.statistics.as_ref().filter(|s| !s.common.is_empty())?;
    let rest = share_of_others(s);
    let others = (value.distinct() - s.common.len() as f64).max(1.0);
    Some(s.frequencies.iter().map(|f| f * f).sum::<f64>() + rest * rest / others)
}

/// The share of all pairs of rows whose values are equal, if each value is as frequent as any other.
fn average_pairs(l: &Variable, r: &Variable) -> f64 {
    (1.0 - l.null_fraction()) * (1.0 - r.null_fraction()) / l.distinct().max(r.distinct())
}

/// The share of all pairs of rows whose values are equal; None: the common values of one side are not known.
fn common_pairs(l: &Variable, r: &Variable) -> Option<f64> {
    let (a, b) = (l.statistics.as_ref()?, r.statistics.as_ref()?);
    if a.common.is_empty() || b.common.is_empty() {
        return None;
    }
    let (not_null_l, not_null_r) = (1.0 - l.null_fraction(), 1.0 - r.null_fraction());
    let (distinct_l, distinct_r) = (l.distinct(), r.distinct());
    // Of common values the pairs are known; what is left is spread over the other distinct values.
    let mut sorted: Vec<usize> = (0..b.common.len()).collect();
    sorted.sort_by(|x, y| compare(r.ty, &b.common[*x], &b.common[*y]));
    let (mut pairs, mut matched_l, mut matched_r, mut matches) = (0.0, 0.0, 0.0, 0);
    for (value, frequency) in a.common.iter().zip(&a.frequencies) {
        let at = sorted.binary_search_by(|i| order(r.ty, &b.common[*i], value).unwrap_or(Ordering::Less));
        if let Ok(at) = at {
            pairs += frequency * b.frequencies[sorted[at]];
            matched_l += frequency;
            matched_r += b.frequencies[sorted[at]];
            matches += 1;
        }
    }
    let unmatched = |all: &[f64], matched: f64| (all.iter().sum::<f64>() - matched).clamp(0.0, 1.0);
    let (unmatched_l, unmatched_r) = (unmatched(&a.frequencies, matched_l), unmatched(&b.frequencies, matched_r));
    let other_l = (not_null_l - matched_l - unmatched_l).clamp(0.0, 1.0);
    let other_r = (not_null_r - matched_r - unmatched_r).clamp(0.0, 1.0);
    // The values of one side among those of the other one.
    let among = |unmatched: f64, other: f64, (distinct, common): (f64, usize), (their_unmatched, their_other)| {
        let beside_common = distinct - common as f64;
        let beside_matches = distinct - f64::from(matches);
        let mut share = pairs;
        if beside_common > 0.0 {
            share += unmatched * their_other / beside_common;
        }
        if beside_matches > 0.0 {
            share += other * (their_other + their_unmatched) / beside_matches;
        }
        share
    };
    let of_left = among(unmatched_l, other_l, (distinct_r, b.common.len()), (unmatched_r, other_r));
    let of_right = among(unmatched_r, other_r, (distinct_l, a.common.len()), (unmatched_l, other_l));
    Some(of_left.min(of_right).clamp(0.0, 1.0))
}

/// The share of the left side's rows whose value is there on the right side.
fn matched_share(l: &Variable, r: &Variable, right_rows: f64) -> f64 {
    let not_null = 1.0 - l.null_fraction();
    let is_known = |v: &Variable| v.statistics.is_some() || v.is_unique;
    if !is_known(l) || !is_known(r) {
        return 0.5 * not_null;
    }
    let (distinct_l, distinct_r) = (l.distinct(), r.distinct().min(right_rows.max(1.0)));
    let (matched, matches) = matched_common(l, r, distinct_r);
    // Common values of both sides are matched for certain; of the others as many as the right side has.
    let others = (not_null - matched).max(0.0);
    let (left, right) = (distinct_l - matches, distinct_r - matches);
    let share = if left <= right { 1.0 } else { (right / left).max(0.0) };
    (matched + others * share).clamp(0.0, 1.0)
}

/// The share of the left side's rows whose value is common on both sides, and how many such values there are. Of the
/// right side's common values no more can be left than it has distinct ones.
fn matched_common(l: &Variable, r: &Variable, distinct_r: f64) -> (f64, f64) {
    let (Some(a), Some(b)) = (&l.statistics, &r.statistics) else { return (0.0, 0.0) };
    let there = &b.common[..b.common.len().min(distinct_r.ceil() as usize)];
    let mut sorted: Vec<&Datum> = there.iter().collect();
    sorted.sort_by(|x, y| compare(r.ty, x, y));
    let is_there =
        |value: &Datum| sorted.binary_search_by(|known| order(r.ty, known, value).unwrap_or(Ordering::Less)).is_ok();
    let matched = a.common.iter().zip(&a.frequencies).filter(|(value, _)| is_there(value));
    matched.fold((0.0, 0.0), |(share, count), (_, frequency)| (share + frequency, count + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(distinct: f64, common: &[(i32, f64)]) -> Variable {
        let (common, frequencies) = common.iter().map(|(v, f)| (Datum::Int4(*v), *f)).unzip();
        let statistics = ColumnStatistics { distinct, common, frequencies, ..Default::default() };
        Variable::with_statistics(statistics)
    }

    #[test]
    fn common_values_meet() {
        assert_eq!(average_pairs(&variable(1000.0, &[]), &variable(10.0, &[])), 0.001);
        // Half of one side and a tenth of the other side are the same value.
        let skewed = common_pairs(&variable(1000.0, &[(1, 0.5)]), &variable(1000.0, &[(1, 0.1)])).unwrap();
        assert!(skewed > 0.05 && skewed < 0.051, "{skewed}");
        let apart = common_pairs(&variable(1000.0, &[(1, 0.5)]), &variable(1000.0, &[(2, 0.5)])).unwrap();
        assert!(apart < 0.001, "{apart}");
    }

    #[test]
    fn a_value_that_is_picked_is_as_frequent_as_that_of_a_row() {
        let frequency = frequency_of_rows(&variable(101.0, &[(1, 0.5)])).expect("a common value is known");
        assert!((frequency - (0.25 + 0.25 / 100.0)).abs() < 1e-9, "{frequency}");
        assert_eq!(frequency_of_rows(&variable(1000.0, &[])), None);
    }

    #[test]
    fn rows_without_partners() {
        let (many, few) = (variable(1000.0, &[]), variable(10.0, &[]));
        assert_eq!(matched_share(&many, &few, 1e6), 0.01);
        assert_eq!(matched_share(&few, &many, 1e6), 1.0);
        assert_eq!(matched_share(&few, &many, 5.0), 0.5);
    }

    #[test]
    fn values_common_on_both_sides_are_matched() {
        let (many, few) = (variable(1000.0, &[(1, 0.5), (2, 0.25)]), variable(11.0, &[(1, 0.9)]));
        // Half of the rows have the common value, and ten of the other 999 values are there.
        assert_eq!(matched_share(&many, &few, 1e6), 0.5 + 0.5 * 10.0 / 999.0);
        let apart = variable(10.0, &[(3, 0.9)]);
        assert_eq!(matched_share(&many, &apart, 1e6), 0.01);
    }
}
