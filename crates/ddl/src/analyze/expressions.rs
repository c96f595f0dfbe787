//! Statistics of expressions that are columns of indexes, and the share of the rows that partial indexes have.
//!
//! Invariants
//! 1. Expressions are evaluated for the sample's rows alone, by a query of the engine's own, as the table's owner.
//!
//! Must not know: what is computed of the values.

use super::compute::{self, Statistics};
use super::sample::Sample;
use super::{Target, TargetColumn};
use crate::Definitions;
use crate::build::without_indexes;
use crate::client::Runtime;
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::{Oid, Result};
use kilndb_bind::engine_query::{RowCondition, RowValue, TableQuery};
use kilndb_catalog::{Index, Table};
use kilndb_types::Datum;
use std::sync::Arc;

/// An index with expressions to be analyzed.
pub(super) struct ExpressionTargets {
    index: Index,
    pub targets: Vec<Target>,
}

impl ExpressionTargets {
    /// The text of a target's expression.
    fn expression(&self, target: &Target) -> Option<&str> {
        self.index.keys.get(target.attnum as usize - 1)?.expression_sql.as_deref()
    }
}

impl Definitions<'_> {
    pub(super) fn expression_targets(
        &mut self,
        table: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<Vec<ExpressionTargets>> {
        let mut found = Vec::new();
        for index in table.indexes.iter().filter(|i| i.valid && i.keys.iter().any(|k| k.attnum == 0)) {
            let own_targets = self.own_targets(index.oid)?;
            let mut targets = Vec::new();
            for (key, attnum) in index.keys.iter().zip(1..).filter(|(key, _)| key.attnum == 0) {
                let target = own_targets.of(attnum);
                if target > 0 {
                    let (type_oid, collation) = (key.type_oid, key.collation);
                    let column = TargetColumn { relation: index.oid, attnum, type_oid, collation, is_computed: true };
                    targets.push(self.target(column, target, runtime)?);
                }
            }
            if !targets.is_empty() {
                found.push(ExpressionTargets { index: Index::clone(index), targets });
            }
        }
        Ok(found)
    }

    /// Adds what the sample's rows say of an index's expressions.
    pub(super) fn compute_expressions<'t>(
        &mut self,
        table: &Arc<Table>,
        index: &'t ExpressionTargets,
        sample: &Sample,
        computed: &mut Vec<(&'t Target, Statistics)>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let expressions: Vec<RowValue<'_>> =
            index.targets.iter().filter_map(|t| index.expression(t)).map(RowValue::Expression).collect();
        let rows = self.sampled_values(table, &expressions, index.index.predicate_sql.as_deref(), sample, runtime)?;
        let share = rows.len() as f64 / (sample.places.len() as f64).max(1.0);
        let total_rows = (share * sample.total_rows).ceil();
        for (i, target) in index.targets.iter().enumerate() {
            let values = rows.iter().map(|row| row.get(i).cloned().unwrap_or_default()).collect();
            let found = compute::compute(&target.facts, values, total_rows, &|| runtime.checkpoint())?;
            computed.extend(found.map(|found| (target, found)));
        }
        Ok(())
    }

    /// The share of the rows that each partial index has.
    pub(super) fn predicate_shares(
        &mut self,
        table: &Arc<Table>,
        sample: &Sample,
        runtime: &dyn Runtime,
    ) -> Result<HashMap<Oid, f64>> {
        let mut shares = HashMap::new();
        for index in table.indexes.iter().filter(|i| i.valid) {
            if let Some(predicate) = index.predicate_sql.as_deref().filter(|_| !sample.places.is_empty()) {
                let rows = self.sampled_values(table, &[], Some(predicate), sample, runtime)?;
                shares.insert(index.oid, rows.len() as f64 / sample.places.len() as f64);
            }
        }
        Ok(shares)
    }

    /// The values of the sample's rows, in their physical order, of those for which the predicate is true.
    pub(super) fn sampled_values(
        &mut self,
        table: &Arc<Table>,
        values: &[RowValue<'_>],
        predicate: Option<&str>,
        sample: &Sample,
        runtime: &dyn Runtime,
    ) -> Result<Vec<Vec<Datum>>> {
        if sample.places.is_empty() {
            return Ok(Vec::new());
        }
        let mut values = values.to_vec();
        values.push(RowValue::Place);
        // Rows are looked for by their places: no index leads to them.
        let heap_alone = without_indexes(table);
        let condition = match predicate {
            Some(sql) => RowCondition::TrueAmong(sql, &sample.places),
            None => RowCondition::Among(&sample.places),
        };
        let query = TableQuery { table: &heap_alone, values, condition, is_one: false };
        let mut rows = self.as_role(table.owner, |definitions| definitions.rows_of(&query, runtime))?;
        let place = |row: &Vec<Datum>| match row.last() {
            Some(Datum::Tid(block, slot)) => (*block, *slot),
            _ => (0, 0),
        };
        rows.sort_by_key(place);
        Ok(rows)
    }
}
