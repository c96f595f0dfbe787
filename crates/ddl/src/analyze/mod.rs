//! ANALYZE of one table: a sample of its rows, statistics of its columns in pg_statistic, its size in pg_class.
//!
//! Invariants
//! 1. Everything is written in the session's own transaction; rows about a temporary table go into the session's own
//!    catalog.
//! 2. Rows of system tables are written when everything is computed: others wait for them only briefly.
//! 3. The caller holds SHARE UPDATE EXCLUSIVE: nobody else writes the same rows of pg_statistic.
//!
//! Must not know: what the planner makes of statistics.

mod combinations;
mod compute;
mod elements;
mod expressions;
mod extended;
mod ranges;
mod sample;

use super::Definitions;
use crate::client::{ProgressKind, Runtime};
use compute::{Facts, Statistics};
use elements::ElementKind;
use kilndb_base::hash::HashMap;
use kilndb_base::{Error, Oid, Result, Severity};
use kilndb_catalog::column_statistics::{
    COMMON_ELEMENTS, COMMON_VALUES, CORRELATION, ELEMENT_COUNTS, HISTOGRAM, RANGE_BOUNDS, RANGE_LENGTHS,
};
use kilndb_catalog::ids::*;
use kilndb_catalog::store::array;
use kilndb_catalog::{CatalogView, Column, Table};
use kilndb_types::types::{StatisticsKind, descriptor};
use kilndb_types::{Datum, oids, row};
use ranges::RangeStatistics;
use sample::{Sample, SampledHeap};
use std::sync::Arc;

/// Rows of the sample per entry of the statistics target, after Chaudhuri, Motwani and Narasayya (1998).
const ROWS_PER_TARGET: usize = 300;
const FEWEST_ROWS: usize = 100;

/// What a text has that no collation is given for.
const DEFAULT_COLLATION: Oid = 100;

/// Places in pg_stat_progress_analyze's numbers.
const PHASE: usize = 0;
const BLOCKS_TOTAL: usize = 1;
const BLOCKS_DONE: usize = 2;

/// A column to be analyzed.
struct Target {
    /// The table, or the index whose column is an expression.
    relation: Oid,
    attnum: i16,
    collation: Oid,
    facts: Facts,
    equal: Oid,
    less: Oid,
    /// Of elements: their type, its equality, the collation.
    element: (Oid, Oid, Oid),
}

/// Columns' own statistics targets, and the session's for the others.
struct StatisticsTargets {
    own: HashMap<i16, usize>,
    default: usize,
}

impl StatisticsTargets {
    fn of(&self, attnum: i16) -> usize {
        self.own.get(&attnum).copied().unwrap_or(self.default)
    }
}

/// What a target is of, as the catalogs describe it.
struct TargetColumn {
    relation: Oid,
    attnum: i16,
    type_oid: Oid,
    collation: Oid,
    is_computed: bool,
}

impl TargetColumn {
    fn of(table: &Table, column: &Column) -> TargetColumn {
        let Column { attnum, type_oid, collation, .. } = *column;
        TargetColumn { relation: table.oid, attnum, type_oid, collation: collation.oid, is_computed: false }
    }
}

impl Definitions<'_> {
    /// `columns`: all if there are none. Returns how many rows the table has, it seems.
    pub(super) fn analyze_table(
        &mut self,
        table: &Arc<Table>,
        columns: &[&str],
        verbose: bool,
        runtime: &dyn Runtime,
    ) -> Result<i64> {
        if verbose {
            self.context().notice(Severity::Info, format!("analyzing \"{}.{}\"", table.schema_name, table.name));
        }
        let progress = &runtime.control().progress;
        progress.begin(ProgressKind::Analyze, table.oid);
        let rows = self.analyze_now(table, columns, verbose, runtime);
        progress.end();
        rows
    }

    fn analyze_now(
        &mut self,
        table: &Arc<Table>,
        columns: &[&str],
        verbose: bool,
        runtime: &dyn Runtime,
    ) -> Result<i64> {
        let progress = &runtime.control().progress;
        let targets = self.targets(table, columns, runtime)?;
        // As PostgreSQL: expressions are left alone by whoever names columns.
        let indexes = if columns.is_empty() { self.expression_targets(table, runtime)? } else { Vec::new() };
        let objects = self.object_targets(table, columns, runtime)?;
        let expressions = indexes.iter().flat_map(|i| &i.targets).chain(objects.iter().flat_map(|o| &o.targets));
        let of_columns = targets.iter().chain(expressions).map(|t| t.facts.target);
        let most = of_columns.chain(objects.iter().map(|o| o.most)).max().unwrap_or(0);
        let wanted = FEWEST_ROWS.max(ROWS_PER_TARGET * most);
        let heap = self.context().shared.temporary.relation(&self.context().cluster.engine, table.storage)?;
        progress.set(PHASE, 1);
        let sampled = SampledHeap { heap: &heap, wanted, seed: self.context().cluster.env.random_u64() };
        let mut snapshot = || Ok(self.context_mut().take_snapshot(runtime)?.untracked());
        let sample = sample::take(&sampled, &mut snapshot, runtime, progress)?;
        if let Some(txn) = &mut self.context_mut().transaction.txn {
            txn.release_snapshot();
        }
        if verbose {
            self.tell_of_sample(table, &sample);
        }
        progress.set(PHASE, 3);
        let mut computed = Vec::with_capacity(targets.len());
        for target in &targets {
            let values = column_values(table, target.attnum, &sample, runtime)?;
            let found = compute::compute(&target.facts, values, sample.total_rows, &|| runtime.checkpoint())?;
            computed.extend(found.map(|found| (target, found)));
        }
        for index in &indexes {
            self.compute_expressions(table, index, &sample, &mut computed, runtime)?;
        }
        let mut object_rows = Vec::new();
        for object in &objects {
            let row = self.compute_object(table, object, &sample, &mut computed, runtime)?;
            object_rows.extend(row.map(|row| (object, row)));
        }
        let shares = self.predicate_shares(table, &sample, runtime)?;
        progress.set(PHASE, 5);
        for (target, found) in &computed {
            self.write_statistics(target, found, runtime)?;
        }
        for (object, row) in &object_rows {
            self.write_object(object, row, runtime)?;
        }
        self.write_size(table, &sample, &shares, runtime)?;
        Ok(sample.total_rows as i64)
    }

    fn tell_of_sample(&self, table: &Table, sample: &Sample) {
        let (name, read, blocks, seen) = (&table.name, sample.blocks_read, sample.blocks, sample.rows_seen);
        let (taken, rows) = (sample.rows.len(), sample.total_rows);
        let counted = format!("scanned {read} of {blocks} pages, containing {seen} live rows and 0 dead rows");
        self.context().notice(
            Severity::Info,
            format!("\"{name}\": {counted}; {taken} rows in sample, {rows:.0} estimated total rows"),
        );
    }

    /// Of a relation's columns, pg_attribute.attstattarget.
    fn own_targets(&mut self, relation: Oid) -> Result<StatisticsTargets> {
        let default = self.context().settings.get("default_statistics_target").and_then(|v| v.parse().ok());
        let key = [Datum::Oid(relation)];
        let attributes = self.context_mut().catalog_lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key)?;
        let own = attributes.iter().filter_map(|a| match a.get("attstattarget") {
            Datum::Int2(own) if *own >= 0 => Some((a.int("attnum") as i16, *own as usize)),
            _ => None,
        });
        Ok(StatisticsTargets { own: own.collect(), default: default.unwrap_or(100) })
    }

    /// A statistics target of 0 leaves a column out.
    fn targets(&mut self, table: &Arc<Table>, columns: &[&str], runtime: &dyn Runtime) -> Result<Vec<Target>> {
        let own_targets = self.own_targets(table.oid)?;
        let mut targets = Vec::new();
        for column in table.columns.iter().filter(|c| !c.dropped && c.generated != b'v') {
            if !columns.is_empty() && !columns.contains(&column.name.as_str()) {
                continue;
            }
            let target = own_targets.of(column.attnum);
            if target > 0 {
                targets.push(self.target(TargetColumn::of(table, column), target, runtime)?);
            }
        }
        Ok(targets)
    }

    fn target(&mut self, column: TargetColumn, target: usize, runtime: &dyn Runtime) -> Result<Target> {
        let info = self.type_info(column.type_oid, runtime)?;
        let operators =
            self.context_mut().with_catalog(runtime, |host| host.reader.ordering_operators(column.type_oid))?;
        let (elements, element) = self.element_kind(&column, runtime)?;
        let is_ordered = operators.is_some() && elements != ElementKind::Lexemes;
        let (type_oid, is_computed) = (column.type_oid, column.is_computed);
        let is_range = self.is_range(type_oid, runtime)?;
        let facts = Facts { type_oid, len: info.len, target, is_ordered, is_computed, elements, is_range };
        let (equal, less) = operators.map_or((0, 0), |o| (o.equal, o.less));
        let TargetColumn { relation, attnum, collation, .. } = column;
        Ok(Target { relation, attnum, collation, facts, equal, less, element })
    }

    fn is_range(&mut self, type_oid: Oid, runtime: &dyn Runtime) -> Result<bool> {
        self.context_mut().with_catalog(runtime, |host| {
            let mut info = host.reader.type_by_oid(type_oid)?;
            while let Some(domain) = info.as_ref().filter(|t| t.kind == b'd') {
                info = host.reader.type_by_oid(domain.base_type)?;
            }
            Ok(info.is_some_and(|t| matches!(t.kind, b'r' | b'm')))
        })
    }

    fn element_kind(&mut self, column: &TargetColumn, runtime: &dyn Runtime) -> Result<(ElementKind, (Oid, Oid, Oid))> {
        self.context_mut().with_catalog(runtime, |host| {
            let mut info = host.reader.type_by_oid(column.type_oid)?;
            while let Some(domain) = info.as_ref().filter(|t| t.kind == b'd') {
                info = host.reader.type_by_oid(domain.base_type)?;
            }
            let Some(info) = info else { return Ok((ElementKind::None, (0, 0, 0))) };
            if descriptor(info.oid).is_some_and(|ty| ty.statistics == StatisticsKind::Lexemes) {
                let equal = host.reader.ordering_operators(oids::TEXT)?.map_or(0, |o| o.equal);
                return Ok((ElementKind::Lexemes, (oids::TEXT, equal, DEFAULT_COLLATION)));
            }
            let element = if info.category == b'A' { info.element } else { 0 };
            let operators = if element == 0 { None } else { host.reader.ordering_operators(element)? };
            Ok(operators.map_or((ElementKind::None, (0, 0, 0)), |o| {
                (ElementKind::Array(element), (element, o.equal, column.collation))
            }))
        })
    }

    /// The column's row of pg_statistic, new or in place of the one before.
    fn write_statistics(&mut self, target: &Target, found: &Statistics, runtime: &dyn Runtime) -> Result<()> {
        let mut columns = vec![
            ("starelid", Datum::Oid(target.relation)),
            ("staattnum", Datum::Int2(target.attnum)),
            ("stainherit", Datum::Bool(false)),
            ("stanullfrac", Datum::Float4(found.null_fraction)),
            ("stawidth", Datum::Int4(found.width)),
            ("stadistinct", Datum::Float4(found.distinct)),
        ];
        let mut slots = slots(target, found);
        slots.resize_with(SLOT_COLUMNS.len(), Slot::default);
        for (slot, names) in slots.into_iter().zip(SLOT_COLUMNS) {
            let values = [
                Datum::Int2(slot.kind),
                Datum::Oid(slot.operator),
                Datum::Oid(slot.collation),
                slot.numbers,
                slot.values,
            ];
            columns.extend(names.into_iter().zip(values));
        }
        let key = [Datum::Oid(target.relation), Datum::Int2(target.attnum)];
        let known = self.context_mut().catalog_lookup(PG_STATISTIC, PG_STATISTIC_RELID_ATT_INH_INDEX, &key)?.pop();
        self.write_catalog(runtime, |w| match known {
            Some(old) => {
                let mut new = old.clone();
                columns.into_iter().for_each(|(name, value)| new.set(name, value));
                w.update(&old, new.values())
            }
            None => w.insert(PG_STATISTIC, &columns).map(|_| ()),
        })
    }

    /// Statistics of a relation or one of its columns, which is going to be another thing or gone.
    pub(super) fn delete_statistics(&mut self, table: Oid, attnum: Option<i16>, runtime: &dyn Runtime) -> Result<()> {
        let key = [Some(Datum::Oid(table)), attnum.map(Datum::Int2)].into_iter().flatten().collect::<Vec<_>>();
        self.delete_rows(PG_STATISTIC, PG_STATISTIC_RELID_ATT_INH_INDEX, &key, runtime)
    }

    /// Rows and pages, of the table and its indexes. `shares`: of the rows that partial indexes have.
    fn write_size(
        &mut self,
        table: &Arc<Table>,
        sample: &Sample,
        shares: &HashMap<Oid, f64>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let rows = Datum::Float4(sample.total_rows as f32);
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
            row.set("relpages", Datum::Int4(sample.blocks as i32));
            row.set("reltuples", rows.clone());
        })?;
        for index in &table.indexes {
            let index_pages =
                self.context().shared.temporary.relation(&self.context().cluster.engine, index.storage)?.pages();
            let share = shares.get(&index.oid).copied().unwrap_or(1.0);
            let index_rows = Datum::Float4((share * sample.total_rows).ceil() as f32);
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, index.oid, runtime, |row| {
                row.set("relpages", Datum::Int4(index_pages as i32));
                row.set("reltuples", index_rows);
            })?;
        }
        Ok(())
    }
}

/// Columns of pg_statistic that make up a slot.
const SLOT_COLUMNS: [[&str; 5]; 5] = [
    ["stakind1", "staop1", "stacoll1", "stanumbers1", "stavalues1"],
    ["stakind2", "staop2", "stacoll2", "stanumbers2", "stavalues2"],
    ["stakind3", "staop3", "stacoll3", "stanumbers3", "stavalues3"],
    ["stakind4", "staop4", "stacoll4", "stanumbers4", "stavalues4"],
    ["stakind5", "staop5", "stacoll5", "stanumbers5", "stavalues5"],
];

#[derive(Default)]
struct Slot {
    kind: i16,
    operator: Oid,
    collation: Oid,
    numbers: Datum,
    values: Datum,
}

/// What there is, without gaps.
fn slots(target: &Target, found: &Statistics) -> Vec<Slot> {
    let numbers = |list: &[f32]| array(oids::FLOAT4, list.iter().map(|v| Datum::Float4(*v)).collect());
    let values = |list: &[Datum]| array(target.facts.type_oid, list.to_vec());
    let common = found.common.iter().map(|c| Slot {
        kind: COMMON_VALUES,
        operator: target.equal,
        collation: target.collation,
        numbers: numbers(&c.frequencies),
        values: values(&c.values),
    });
    let histogram = found.histogram.iter().map(|h| Slot {
        kind: HISTOGRAM,
        operator: target.less,
        collation: target.collation,
        numbers: Datum::Null,
        values: values(h),
    });
    let correlation = found.correlation.iter().map(|c| Slot {
        kind: CORRELATION,
        operator: target.less,
        collation: target.collation,
        numbers: numbers(&[*c]),
        values: Datum::Null,
    });
    let (element, operator, collation) = target.element;
    let elements = found.elements.iter().filter(|e| !e.values.is_empty()).map(|e| Slot {
        kind: COMMON_ELEMENTS,
        operator,
        collation,
        numbers: numbers(&e.frequencies),
        values: array(element, e.values.clone()),
    });
    let counts = found.elements.iter().filter_map(|e| e.counts.as_ref()).map(|counts| Slot {
        kind: ELEMENT_COUNTS,
        operator,
        collation,
        numbers: numbers(counts),
        values: Datum::Null,
    });
    let all = common.chain(histogram).chain(correlation).chain(elements).chain(counts);
    all.chain(found.ranges.iter().flat_map(range_slots)).collect()
}

fn range_slots(found: &RangeStatistics) -> Vec<Slot> {
    /// `<` of double precision.
    const LESS: Oid = 672;
    let mut slots = Vec::new();
    if let Some(Datum::Range(first)) = found.bounds.first() {
        let values = array(first.ty.oid, found.bounds.clone());
        slots.push(Slot { kind: RANGE_BOUNDS, values, ..Slot::default() });
    }
    let values = if found.lengths.is_empty() { Datum::Null } else { array(oids::FLOAT8, found.lengths.clone()) };
    let numbers = array(oids::FLOAT4, vec![Datum::Float4(found.empty_fraction)]);
    slots.push(Slot { kind: RANGE_LENGTHS, operator: LESS, numbers, values, ..Slot::default() });
    slots
}

/// One column of the sample's rows.
fn column_values(table: &Table, attnum: i16, sample: &Sample, runtime: &dyn Runtime) -> Result<Vec<Datum>> {
    let at = attnum as usize - 1;
    let column = table.columns.get(at).ok_or_else(|| Error::internal("a column without a description"))?;
    let mut values = Vec::with_capacity(sample.rows.len());
    for (i, bytes) in sample.rows.iter().enumerate() {
        if i % 1024 == 0 {
            runtime.checkpoint()?;
        }
        // Rows that are older than the column have the value that it was added with.
        let is_stored = at < row::stored_column_count(bytes)?;
        values.push(if is_stored { row::decode_column(&table.descriptor, bytes, at)? } else { column.missing.clone() });
    }
    Ok(values)
}
