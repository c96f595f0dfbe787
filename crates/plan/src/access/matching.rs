//! The conditions of a statement that the search of one index answers.
//!
//! Invariants
//! 1. Leading columns have single values, as many as have conditions for it; then one column, or several that are
//!    compared as a row, may have bounds. What conditions say of columns after these the index does not answer.
//! 2. A condition that the index answers only in part is checked for each row ([`IndexMatch::partial`],
//!    [`IndexMatch::unshown`]).

use super::super::*;
use super::condition::ColumnCondition;
use kilndb_catalog::{Index, IndexKey, Table};
use kilndb_types::oids;

/// The values that a key column may have.
#[derive(Clone)]
pub(crate) enum ColumnPoints {
    Equal(Expr),
    /// An element of the array.
    AnyOf(Expr),
    Null,
    /// Each value that entries have, of which there are about so many.
    Each(f64),
}

/// Columns with more values than this are not skipped through.
const MOST_SKIPPED: f64 = 100.0;

/// A bound of a key column, or of several ones that are compared one after the other.
#[derive(Clone)]
pub(crate) struct RowBound {
    pub values: Vec<Expr>,
    /// In the index's own direction.
    pub is_lower: bool,
    pub is_inclusive: bool,
}

/// What an index can look for, and the conditions that this answers, by their positions in the list that was matched.
#[derive(Clone, Default)]
pub(crate) struct IndexMatch {
    /// The values of the leading columns.
    pub equal: Vec<Expr>,
    /// The values of the columns after these; the first has not just one that is equal.
    pub points: Vec<ColumnPoints>,
    /// The bounds of the columns after these.
    pub bounds: Vec<RowBound>,
    /// A condition says that the column after `equal` and `points` is not NULL.
    pub not_null: bool,
    /// The conditions that are looked for, in the order in which they are shown.
    pub used: Vec<usize>,
    /// Those of `used` that rows are checked by, which EXPLAIN shows as a filter too.
    pub partial: Vec<usize>,
    /// Those of `used` that rows are checked by, which EXPLAIN does not show as a filter, as PostgreSQL compares them
    /// with entries.
    pub unshown: Vec<usize>,
    /// Conditions of `used` that are shown in another form than they have.
    pub shown: Vec<(usize, Expr)>,
}

impl IndexMatch {
    pub fn has_conditions(&self) -> bool {
        !self.equal.is_empty() || !self.points.is_empty() || !self.bounds.is_empty() || self.not_null
    }

    /// The operators of those conditions that the index does not answer.
    pub fn operators_left(&self, conditions: &[Expr]) -> f64 {
        let left = conditions.iter().enumerate().filter(|(at, _)| !self.used.contains(at)).map(|(_, e)| e);
        crate::operator_count::operator_count(left)
    }

    /// How many leading columns have one value each: entries are sorted by the columns after these.
    pub fn fixed_columns(&self) -> usize {
        self.equal.len()
            + self.points.iter().take_while(|p| matches!(p, ColumnPoints::Equal(_) | ColumnPoints::Null)).count()
    }

    /// The arrays whose elements are looked for.
    pub fn arrays(&self) -> impl Iterator<Item = &Expr> {
        self.points.iter().filter_map(|p| if let ColumnPoints::AnyOf(array) = p { Some(array) } else { None })
    }

    /// As [`IndexAccess::has_whole_keys`].
    pub fn has_whole_key(&self, index: &Index) -> bool {
        self.equal.len() + self.points.len() == index.keys.len() && self.arrays().count() < 2 && !self.skips()
    }

    /// Does it find one row at the most, whatever the statistics say? Not for columns that may be any of several values.
    pub fn finds_one_row(&self, index: &Index) -> bool {
        index.unique && self.equal.len() == index.keys.len()
    }

    fn skips(&self) -> bool {
        self.points.iter().any(|p| matches!(p, ColumnPoints::Each(_)))
    }

    /// How many values of columns without conditions the search skips through, at a search of the tree for each.
    pub fn skipped_values(&self) -> f64 {
        let of = |p: &ColumnPoints| if let ColumnPoints::Each(values) = p { *values } else { 1.0 };
        if self.skips() { self.points.iter().map(of).product() } else { 0.0 }
    }

    /// Is the condition to be shown, and checked, as a filter?
    pub fn is_filter(&self, at: usize) -> bool {
        !self.used.contains(&at) || self.partial.contains(&at)
    }

    /// A condition gets another position.
    pub fn renumber(&mut self, from: usize, to: usize) {
        let numbers = self.used.iter_mut().chain(&mut self.partial).chain(&mut self.unshown);
        numbers.chain(self.shown.iter_mut().map(|(at, _)| at)).filter(|at| **at == from).for_each(|at| *at = to);
    }

    /// The conditions that are looked for, as EXPLAIN shows them.
    pub fn shown_conditions<'e>(&'e self, preds: &'e [Expr]) -> impl Iterator<Item = &'e Expr> {
        let shown = |at: usize| self.shown.iter().find(|(of, _)| *of == at).map(|(_, e)| e);
        self.used.iter().filter_map(move |at| shown(*at).or_else(|| preds.get(*at)))
    }

    fn add_points(&mut self, points: ColumnPoints) {
        match points {
            ColumnPoints::Equal(value) if self.points.is_empty() => self.equal.push(value),
            points => self.points.push(points),
        }
    }
}

impl Planner<'_> {
    /// What the index can look for of these conditions.
    pub(crate) fn match_index(&self, rel: &Rel, table: &Table, index: &Index, preds: &[Expr]) -> Result<IndexMatch> {
        let mut m = IndexMatch::default();
        for (column, key) in index.keys.iter().enumerate() {
            let expression = self.key_expression(rel, table, key)?;
            let mut found: Vec<(usize, ColumnCondition)> = Vec::new();
            for (at, p) in preds.iter().enumerate() {
                if m.used.contains(&at) {
                    continue;
                }
                let condition = self.column_condition(rel.id, key, expression.as_ref(), p)?;
                let condition = match condition {
                    None if matches!(p.kind, ExprKind::RowCompare { .. }) => {
                        self.row_condition(rel, table, &index.keys[column..], p)?
                    }
                    condition => condition,
                };
                found.extend(condition.map(|c| (at, c)));
            }
            if !index.method.is_ordered {
                found.retain(|(_, c)| c.is_of_values());
            }
            if found.is_empty()
                && kilndb_types::key::has_column_len(key.order_type)
                && index.method.is_ordered
                && let Some(values) = self.values_to_skip(rel, table, index, key)
            {
                m.points.push(ColumnPoints::Each(values));
                continue;
            }
            // There may be too many combinations, or values to skip through, for all to be looked for.
            let has_many = m.arrays().count() > 1 || m.skips();
            let best = found.iter().enumerate().filter_map(|(i, (_, c))| Some((c.rank()?, i))).min();
            if let Some((_, i)) = best {
                let (at, condition) = found.swap_remove(i);
                m.used.push(at);
                m.shown.extend(condition.shown().map(|e| (at, e)));
                let Some(points) = condition.into_points() else { continue };
                m.add_points(points);
                if has_many || m.arrays().count() > 1 {
                    m.unshown.push(at);
                }
                continue;
            }
            for (at, condition) in found {
                m.used.push(at);
                m.shown.extend(condition.shown().map(|e| (at, e)));
                if has_many {
                    m.unshown.push(at);
                }
                match condition {
                    ColumnCondition::NotNull => m.not_null = true,
                    ColumnCondition::Bound { bound, check, .. } => {
                        m.bounds.push(bound);
                        match check {
                            super::condition::RowCheck::None => {}
                            super::condition::RowCheck::Shown => m.partial.push(at),
                            super::condition::RowCheck::Unshown => m.unshown.push(at),
                        }
                    }
                    _ => {}
                }
            }
            break;
        }
        // Skipping is of use for what is looked for after it.
        while m.bounds.is_empty() && !m.not_null && matches!(m.points.last(), Some(ColumnPoints::Each(_))) {
            m.points.pop();
        }
        Ok(m)
    }

    /// How many values the column of an index has, if they are few enough for a search to skip from one to the next.
    fn values_to_skip(&self, rel: &Rel, table: &Table, index: &Index, key: &IndexKey) -> Option<f64> {
        let values = self.distinct_values(rel, key)?;
        (values <= MOST_SKIPPED && !index.is_global && !table.is_catalog).then_some(values)
    }

    /// How many values a key has in the table's rows, NULL among them; None: nothing is known of it.
    fn distinct_values(&self, rel: &Rel, key: &IndexKey) -> Option<f64> {
        let variable = self.column_variable(ColId { rel: rel.id, att: key.attnum }, key.type_oid);
        let is_known = key.attnum != 0 && variable.statistics.is_some() || key.type_oid == oids::BOOL;
        is_known.then(|| variable.distinct() + 1.0)
    }

    /// The expression of a key that is no column.
    pub(crate) fn key_expression(&self, rel: &Rel, table: &Table, key: &IndexKey) -> Result<Option<Expr>> {
        match &key.expression_sql {
            Some(sql) if key.attnum == 0 => Ok(Some(self.index_sql(sql, rel.id, table)?)),
            _ => Ok(None),
        }
    }
}
