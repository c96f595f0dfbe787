//! Statistics objects of a table that is analyzed: which of them, with how many values, and their rows in
//! pg_statistic_ext_data.
//!
//! Invariants
//! 1. Statistics of an object's expressions are rows of pg_statistic with the object's OID, which no relation has.
//!
//! Must not know: how they are computed.

use super::combinations::{CodedSample, MemberValues};
use super::compute::{self, Statistics};
use super::sample::Sample;
use super::{Target, TargetColumn, column_values};
use crate::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, RowId, Severity, sqlstate};
use kilndb_bind::engine_query::RowValue;
use kilndb_catalog::extended_statistics::{
    COMMON_COMBINATIONS, DEPENDENCIES, ExtendedStatistics, NDISTINCT, counts_text, dependencies_text,
};
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Table};
use kilndb_types::Datum;
use std::sync::Arc;

/// A statistics object to be filled.
pub(super) struct ObjectTarget {
    oid: Oid,
    columns: Vec<i16>,
    expressions: Vec<String>,
    kinds: Vec<u8>,
    /// How many common combinations it may have.
    pub most: usize,
    /// Of its expressions.
    pub targets: Vec<Target>,
}

/// The values of its row in pg_statistic_ext_data.
pub(super) struct ObjectRow(Vec<(&'static str, Datum)>);

impl Definitions<'_> {
    /// `columns`: those that are analyzed; all, if there are none.
    pub(super) fn object_targets(
        &mut self,
        table: &Arc<Table>,
        columns: &[&str],
        runtime: &dyn Runtime,
    ) -> Result<Vec<ObjectTarget>> {
        let objects = self.context_mut().with_catalog(runtime, |host| host.reader.extended_statistics(table))?;
        let own_targets = self.own_targets(table.oid)?;
        let is_analyzed = |attnum: &i16| {
            let column = table.columns.iter().find(|c| c.attnum == *attnum);
            let is_named = columns.is_empty() || column.is_some_and(|c| columns.contains(&c.name.as_str()));
            is_named && own_targets.of(*attnum) > 0
        };
        let mut found = Vec::new();
        for object in objects.iter() {
            let of_columns = object.columns.iter().map(|c| own_targets.of(*c)).max();
            let most = object.target.unwrap_or(of_columns.unwrap_or(own_targets.default));
            if !object.columns.iter().all(is_analyzed) {
                self.tell_of_object_left_out(table, object)?;
                continue;
            }
            if most == 0 {
                continue;
            }
            let mut targets = Vec::new();
            for (sql, attnum) in object.expressions.iter().zip(1..) {
                let (type_oid, collation) = self.expression_type(table, sql, runtime)?;
                let relation = object.oid;
                let column = TargetColumn { relation, attnum, type_oid, collation, is_computed: true };
                targets.push(self.target(column, object.target.unwrap_or(own_targets.default), runtime)?);
            }
            let ExtendedStatistics { oid, columns, expressions, kinds, .. } = object;
            let (columns, expressions, kinds) = (columns.clone(), expressions.clone(), kinds.clone());
            found.push(ObjectTarget { oid: *oid, columns, expressions, kinds, most, targets });
        }
        Ok(found)
    }

    fn tell_of_object_left_out(&mut self, table: &Table, object: &ExtendedStatistics) -> Result<()> {
        let key = [Datum::Oid(object.oid)];
        let row = self.context_mut().catalog_lookup(PG_STATISTIC_EXT, PG_STATISTIC_EXT_OID_INDEX, &key)?.pop();
        let Some(row) = row else { return Ok(()) };
        let key = [row.get("stxnamespace").clone()];
        let schema = self.context_mut().catalog_lookup(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &key)?.pop();
        let schema = schema.as_ref().and_then(|s| s.text("nspname")).unwrap_or("");
        let name = row.text("stxname").unwrap_or("");
        let message = format!(
            "statistics object \"{schema}.{name}\" could not be computed for relation \"{}.{}\"",
            table.schema_name, table.name
        );
        let warning = Error::notice(sqlstate::INVALID_OBJECT_DEFINITION, Severity::Warning, message);
        self.context().shared.scratch.notices.borrow_mut().push(warning);
        Ok(())
    }

    fn expression_type(&mut self, table: &Arc<Table>, sql: &str, runtime: &dyn Runtime) -> Result<(Oid, Oid)> {
        let ty = self.context_mut().with_catalog(runtime, |host| {
            Ok(kilndb_bind::bind_expression(sql, Some(table), &host.reader, None)?.expr.ty)
        })?;
        Ok((ty, self.type_info(ty, runtime)?.collation))
    }

    /// Computes what an object holds, and adds what the sample says of its expressions.
    pub(super) fn compute_object<'t>(
        &mut self,
        table: &Arc<Table>,
        object: &'t ObjectTarget,
        sample: &Sample,
        computed: &mut Vec<(&'t Target, Statistics)>,
        runtime: &dyn Runtime,
    ) -> Result<Option<ObjectRow>> {
        if sample.rows.is_empty() {
            return Ok(None);
        }
        let expressions: Vec<RowValue<'_>> = object.expressions.iter().map(|sql| RowValue::Expression(sql)).collect();
        let rows = match expressions.is_empty() {
            true => Vec::new(),
            false => self.sampled_values(table, &expressions, None, sample, runtime)?,
        };
        let checkpoint = || runtime.checkpoint();
        let mut members = Vec::new();
        for attnum in &object.columns {
            let type_oid = table.columns.iter().find(|c| c.attnum == *attnum).map_or(0, |c| c.type_oid);
            let mut values = column_values(table, *attnum, sample, runtime)?;
            if !expressions.is_empty() {
                values = still_there(values, sample, &rows);
            }
            let len = self.type_info(type_oid, runtime)?.len;
            members.push(MemberValues { number: *attnum, type_oid, len, values });
        }
        for (i, target) in object.targets.iter().enumerate() {
            let values: Vec<Datum> = rows.iter().map(|row| row.get(i).cloned().unwrap_or_default()).collect();
            let found = compute::compute(&target.facts, values.clone(), sample.total_rows, &checkpoint)?;
            computed.extend(found.map(|found| (target, found)));
            let (type_oid, len) = (target.facts.type_oid, target.facts.len);
            members.push(MemberValues { number: -target.attnum, type_oid, len, values });
        }
        let mut row = vec![("stxoid", Datum::Oid(object.oid)), ("stxdinherit", Datum::Bool(false))];
        if members.len() > 1 {
            let coded = CodedSample::of(&members, sample.total_rows, &checkpoint)?;
            if object.kinds.contains(&NDISTINCT) {
                row.push(("stxdndistinct", Datum::text(counts_text(&coded.counts()?))));
            }
            let dependencies = if object.kinds.contains(&DEPENDENCIES) { coded.dependencies()? } else { Vec::new() };
            if !dependencies.is_empty() {
                row.push(("stxddependencies", Datum::text(dependencies_text(&dependencies))));
            }
            if object.kinds.contains(&COMMON_COMBINATIONS) {
                let common = coded.common(object.most)?;
                if !common.items.is_empty() {
                    row.push(("stxdmcv", common.to_datum()?));
                }
            }
        }
        Ok(Some(ObjectRow(row)))
    }

    /// In place of the row before.
    pub(super) fn write_object(&mut self, object: &ObjectTarget, row: &ObjectRow, runtime: &dyn Runtime) -> Result<()> {
        let key = [Datum::Oid(object.oid)];
        self.delete_rows(PG_STATISTIC_EXT_DATA, PG_STATISTIC_EXT_DATA_STXOID_INH_INDEX, &key, runtime)?;
        self.write_catalog(runtime, |w| w.insert(PG_STATISTIC_EXT_DATA, &row.0).map(|_| ()))
    }
}

/// Of values of the sample's rows those whose rows have been found again by their places, which are their last values:
/// some may have gone since the sample was taken.
fn still_there(values: Vec<Datum>, sample: &Sample, rows: &[Vec<Datum>]) -> Vec<Datum> {
    let mut found = rows.iter().map(|row| row.last()).peekable();
    let is_there = |place: &RowId| {
        let is_next = found.peek().is_some_and(
            |last| matches!(last, Some(Datum::Tid(block, slot)) if *block == place.block && *slot == place.slot),
        );
        if is_next {
            found.next();
        }
        is_next
    };
    let there: Vec<bool> = sample.places.iter().map(is_there).collect();
    values.into_iter().zip(there).filter_map(|(value, is_there)| is_there.then_some(value)).collect()
}
