//! How many rows conditions leave, joins yield, and groups there are, from what ANALYZE has found. The formulas are
//! those of PostgreSQL's selectivity functions ("How the Planner Uses Statistics", `selfuncs.c`).
//!
//! Invariants
//! 1. A selectivity lies between 0 and 1.
//! 2. Where nothing is known PostgreSQL's defaults hold.
//! 3. Whoever lets a parameter's value decide an estimate, or would have done so had it a value, notes that
//!    ([`Planner::value_of`]): such a plan is not for statements with other values.
//!
//! Must not know: what paths cost, how anything is run.

mod disjunction;
pub(crate) mod elements;
mod extended;
mod functions;
mod groups;
mod join;
mod merge_reach;
mod networks;
mod operators;
mod ordering;
mod patterns;
mod ranges;
mod restriction;

use super::*;
pub(crate) use join::JoinSides;
use kilndb_catalog::column_statistics::ColumnStatistics;
use kilndb_catalog::{Index, Table};
use kilndb_types::{Datum, oids};
pub(crate) use merge_reach::MergeReach;

/// The number of distinct values of which nothing is known.
const DISTINCT_DEFAULT: f64 = 200.0;
/// A value that is so many times as frequent as the average one, or as rare, makes a plan depend on the value.
const OUTSTANDING: f64 = 4.0;

/// What is known of a relation of the statement while it is planned.
#[derive(Default)]
pub(crate) struct RelationFacts {
    /// The table, if it is one.
    pub table: Option<Arc<Table>>,
    /// The results of a subquery, over its own relations.
    pub outputs: Vec<Expr>,
    /// Rows without any condition, and those that the conditions on this relation alone leave.
    pub total_rows: f64,
    pub rows: f64,
}

/// An expression whose values statistics may describe.
pub(crate) struct Variable {
    pub ty: Oid,
    pub column: Option<ColId>,
    pub statistics: Option<Arc<ColumnStatistics>>,
    /// The rows of the column's relation without any condition.
    pub total_rows: f64,
    /// No value is there twice.
    pub is_unique: bool,
    /// There are no more distinct values than these, whatever statistics say, and no fewer than those.
    pub most_distinct: f64,
    pub least_distinct: f64,
}

impl Variable {
    /// An int4 expression of a million rows with these statistics.
    #[cfg(test)]
    fn with_statistics(statistics: ColumnStatistics) -> Variable {
        Variable {
            ty: oids::INT4,
            column: None,
            statistics: Some(Arc::new(statistics)),
            total_rows: 1e6,
            is_unique: false,
            most_distinct: f64::INFINITY,
            least_distinct: 1.0,
        }
    }
    pub fn null_fraction(&self) -> f64 {
        self.statistics.as_ref().map_or(0.0, |s| s.null_fraction.clamp(0.0, 1.0))
    }
    /// The number of distinct values among the relation's rows, NULL apart.
    pub fn distinct(&self) -> f64 {
        let rows = self.total_rows.max(1.0);
        let known = self.statistics.as_ref().map_or(0.0, |s| s.distinct);
        let distinct = if self.is_unique {
            rows * (1.0 - self.null_fraction())
        } else if known > 0.0 {
            known
        } else if known < 0.0 {
            -known * rows
        } else if self.ty == oids::BOOL {
            2.0
        } else {
            DISTINCT_DEFAULT
        };
        distinct.round().max(self.least_distinct).min(rows).min(self.most_distinct).max(1.0)
    }
    /// Is some value so frequent, or so rare, that it deserves a plan of its own?
    fn has_outstanding_values(&self) -> bool {
        let Some(s) = self.statistics.as_ref().filter(|_| !self.is_unique) else { return false };
        let average = (1.0 - self.null_fraction()) / self.distinct();
        let most = s.frequencies.first().is_some_and(|most| *most > OUTSTANDING * average);
        let least = s.frequencies.last().is_some_and(|least| OUTSTANDING * least < average);
        let others = self.distinct() - s.common.len() as f64;
        let rest = 1.0 - s.frequencies.iter().sum::<f64>() - self.null_fraction();
        most || least || others >= 1.0 && OUTSTANDING * rest < average * others
    }
    fn has_histogram(&self) -> bool {
        self.statistics.as_ref().is_some_and(|s| !s.histogram.is_empty() || !s.common.is_empty())
    }
    /// Whether [`Variable::distinct`] is more than the number that is taken for want of a better one.
    pub fn knows_distinct(&self) -> bool {
        self.is_unique
            || self.statistics.as_ref().is_some_and(|s| s.distinct != 0.0)
            || self.ty == oids::BOOL
            || self.total_rows.min(self.most_distinct) < DISTINCT_DEFAULT
    }
}

impl Planner<'_> {
    pub(crate) fn note_table(&self, rel: u32, table: &Arc<Table>, total_rows: f64) {
        let facts = RelationFacts { table: Some(table.clone()), outputs: Vec::new(), total_rows, rows: total_rows };
        self.relations.borrow_mut().insert(rel, facts);
    }

    /// Notes how many rows the conditions on the relation alone leave.
    pub(crate) fn note_rows(&self, rel: u32, rows: f64) {
        if let Some(facts) = self.relations.borrow_mut().get_mut(&rel) {
            facts.rows = rows.min(facts.total_rows);
        }
    }

    pub(crate) fn note_relation(&self, rel: u32, rows: f64) {
        let facts = RelationFacts { total_rows: rows, rows, ..RelationFacts::default() };
        self.relations.borrow_mut().insert(rel, facts);
    }

    pub(crate) fn note_subquery(&self, rel: u32, query: &Query, rows: f64) {
        let outputs = query.targets.iter().filter(|t| !t.junk).map(|t| t.expr.clone()).collect();
        let facts = RelationFacts { table: None, outputs, total_rows: rows, rows };
        self.relations.borrow_mut().insert(rel, facts);
    }

    /// What is known of an expression's values.
    pub(crate) fn variable(&self, e: &Expr) -> Variable {
        match &access::strip(e).kind {
            ExprKind::Column(c) => self.column_variable(*c, e.ty),
            _ => self.expression_variable(e).unwrap_or_else(|| self.unknown_variable(e.ty)),
        }
    }

    /// What is known of the values of an expression over one table, one of whose indexes or statistics objects has it.
    fn expression_variable(&self, e: &Expr) -> Option<Variable> {
        let mut columns = Vec::new();
        e.columns(&mut columns);
        let rel = columns.first()?.rel;
        let (table, total_rows) = {
            let relations = self.relations.borrow();
            let facts = relations.get(&rel)?;
            (facts.table.clone()?, facts.total_rows)
        };
        if columns.iter().any(|c| c.rel != rel) {
            return None;
        }
        let of_expressions = |i: &&Arc<Index>| i.keys.iter().any(|k| k.attnum == 0);
        for index in table.indexes.iter().filter(of_expressions) {
            for (key, attnum) in index.keys.iter().zip(1..).filter(|(key, _)| key.attnum == 0) {
                let Some(sql) = &key.expression_sql else { continue };
                let Ok(expression) = self.index_sql(sql, rel, &table) else { continue };
                if !access::is_key(e, rel, key, Some(&expression)) {
                    continue;
                }
                let statistics = self.catalog.index_statistics(&table, index.oid, attnum).ok().flatten();
                let is_unique = index.unique && index.valid && index.predicate_sql.is_none() && index.keys.len() == 1;
                if statistics.is_some() || is_unique {
                    let unknown = self.unknown_variable(e.ty);
                    return Some(Variable { statistics, total_rows, is_unique, ..unknown });
                }
            }
        }
        let statistics = Some(self.object_expression(e, rel)?);
        Some(Variable { statistics, total_rows, ..self.unknown_variable(e.ty) })
    }

    fn unknown_variable(&self, ty: Oid) -> Variable {
        Variable {
            ty: self.base_type(ty),
            column: None,
            statistics: None,
            total_rows: f64::INFINITY,
            is_unique: false,
            most_distinct: f64::INFINITY,
            least_distinct: 1.0,
        }
    }

    /// What is known of a column's values, which are of type `ty`.
    pub(crate) fn column_variable(&self, c: ColId, ty: Oid) -> Variable {
        let unknown = self.unknown_variable(ty);
        let relations = self.relations.borrow();
        let Some(facts) = relations.get(&c.rel) else { return unknown };
        let of_relation = Variable { column: Some(c), total_rows: facts.total_rows, ..unknown };
        match (&facts.table, usize::try_from(c.att - 1).ok().and_then(|i| facts.outputs.get(i))) {
            (Some(table), _) if c.att > 0 => Variable {
                statistics: self.statistics_of(table, c.att),
                is_unique: is_unique(table, c.att),
                least_distinct: self.least_distinct(table, c.att, facts.total_rows),
                ..of_relation
            },
            (Some(_), _) => Variable { is_unique: c.att == ATT_CTID, ..of_relation },
            (None, Some(output)) => {
                let (output, rows) = (output.clone(), facts.total_rows);
                drop(relations);
                // A join in the subquery may show a value that is unique below more than once.
                let inner = self.variable(&output);
                let most_distinct = inner.distinct().min(rows.max(1.0));
                Variable { column: Some(c), is_unique: false, most_distinct, ..inner }
            }
            _ => of_relation,
        }
    }

    /// How many values a column has at least, as a part of keys that tell rows apart: the others of the key have so many
    /// values that the column must tell the rest apart. A sample of a large table finds too few values of what is
    /// there a few times each.
    fn least_distinct(&self, table: &Arc<Table>, attnum: i16, rows: f64) -> f64 {
        let is_of =
            |i: &&Arc<Index>| i.keys.len() > 1 && i.keys.iter().any(|k| k.attnum == attnum) && i.tells_rows_apart();
        let told = |index: &Arc<Index>| {
            let others = index.keys.iter().filter(|k| k.attnum != attnum);
            let distinct = others.map(|k| match self.statistics_of(table, k.attnum)?.distinct {
                known if known > 0.0 => Some(known),
                share if share < 0.0 => Some(-share * rows),
                _ => None,
            });
            Some(rows / distinct.product::<Option<f64>>()?.max(1.0))
        };
        table.indexes.iter().filter(is_of).filter_map(told).fold(1.0, f64::max)
    }

    /// The statistics of a table's column; of a partitioned table those of some of its partitions, taken together.
    fn statistics_of(&self, table: &Arc<Table>, attnum: i16) -> Option<Arc<ColumnStatistics>> {
        if table.partition_key.is_none() {
            return self.catalog.column_statistics(table, attnum).ok().flatten();
        }
        if let Some(known) = self.merged_statistics.borrow().get(&(table.oid, attnum)) {
            return known.clone();
        }
        let merged = self.statistics_of_partitions(table, attnum);
        self.merged_statistics.borrow_mut().insert((table.oid, attnum), merged.clone());
        merged
    }

    fn statistics_of_partitions(&self, table: &Arc<Table>, attnum: i16) -> Option<Arc<ColumnStatistics>> {
        let column = table.columns.get(usize::try_from(attnum - 1).ok()?)?;
        let map = self.catalog.partition_map(table.oid).ok()?;
        let leaves: Vec<Oid> = map.partitions.iter().filter(|p| !p.is_partitioned).map(|p| p.oid).collect();
        let step = leaves.len().div_ceil(PARTITIONS_READ).max(1);
        let parts: Vec<(f64, Arc<ColumnStatistics>)> = leaves
            .iter()
            .step_by(step)
            .filter_map(|oid| {
                let leaf = self.catalog.table_by_oid(*oid).ok()??;
                let own = leaf.columns.iter().find(|c| !c.dropped && c.name == column.name)?;
                let found = self.catalog.column_statistics(&leaf, own.attnum).ok().flatten()?;
                Some((f64::from(self.catalog.counted_size(&leaf).rows).max(1.0), found))
            })
            .collect();
        let divides = table.partition_key.as_ref().is_some_and(|k| k.uses(attnum));
        ordering::merged(self.base_type(column.type_oid), &parts, divides.then_some(leaves.len()))
    }

    /// The value of an expression that asks for nothing but what time it is and what the settings are; None: it has
    /// none while the statement is planned. `matters`: the estimate would be another one with another value.
    pub(crate) fn value_of(&self, e: &Expr, matters: bool) -> Option<Datum> {
        if matters && e.any(&|e| matches!(e.kind, ExprKind::Param(_))) {
            self.depends_on_values.set(true);
        }
        self.known_value(e)
    }
}

/// The share of the rows that have neither NULL nor one of the common values: what a histogram describes.
fn share_of_others(s: &ColumnStatistics) -> f64 {
    (1.0 - s.null_fraction - s.frequencies.iter().sum::<f64>()).clamp(0.0, 1.0)
}

/// How many partitions' statistics stand for those of all.
const PARTITIONS_READ: usize = 16;

/// Is there an index that lets no value of the column be there twice?
fn is_unique(table: &Table, attnum: i16) -> bool {
    let is_only_key = |key: &[kilndb_catalog::IndexKey]| matches!(key, [key] if key.attnum == attnum);
    table.indexes.iter().any(|i| i.tells_rows_apart() && is_only_key(&i.keys))
}
