//! What ANALYZE has found out about the values of a column, as the planner wants it.
//!
//! Invariants
//! 1. The statistics of a column are read when somebody asks for them and kept with the table object that they are
//!    about, which ANALYZE replaces.
//!
//! Must not know: what is estimated with the statistics.

use super::cache::CatalogReader;
use super::catalog_row::CatalogRow;
use super::extended_statistics::ExtendedStatistics;
use super::ids::{PG_STATISTIC, PG_STATISTIC_RELID_ATT_INH_INDEX};
use super::model::Table;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_base::{Oid, Result};
use kilndb_types::Datum;

/// pg_statistic.stakindN.
pub const COMMON_VALUES: i16 = 1;
pub const HISTOGRAM: i16 = 2;
pub const CORRELATION: i16 = 3;
pub const COMMON_ELEMENTS: i16 = 4;
pub const ELEMENT_COUNTS: i16 = 5;
pub const RANGE_LENGTHS: i16 = 6;
pub const RANGE_BOUNDS: i16 = 7;

/// A row of pg_statistic.
#[derive(Debug, Default)]
pub struct ColumnStatistics {
    /// The share of rows that are NULL.
    pub null_fraction: f64,
    /// The average size of a value in bytes.
    pub width_bytes: f64,
    /// The number of distinct values; negative: its share of the table's rows; 0: unknown.
    pub distinct: f64,
    /// The most common values, the most frequent first, and the share of the rows with each.
    pub common: Vec<Datum>,
    pub frequencies: Vec<f64>,
    /// Bounds between parts of equal size of the values that are not common, in their order.
    pub histogram: Vec<Datum>,
    /// How far the order of the values is that of the rows in the table: from -1 to 1.
    pub correlation: f64,
    pub elements: ElementStatistics,
    /// Of ranges: ranges whose bounds divide all bounds into parts of equal size, lengths that do so with all lengths,
    /// and the share of empty ones among those that are not NULL.
    pub bounds: Vec<Datum>,
    pub lengths: Vec<f64>,
    pub empty_fraction: f64,
}

#[derive(Clone, Debug, Default)]
pub struct ElementStatistics {
    /// Common elements in their order (lexemes: by length first) and the share of the rows with each; behind those the
    /// least and the greatest share, and of arrays the share of rows with NULLs in them.
    pub common: Vec<Datum>,
    pub frequencies: Vec<f32>,
    /// Bounds of the number of different elements in an array, and the average behind them; empty for other types.
    pub counts: Vec<f32>,
}

impl ColumnStatistics {
    pub fn of_row(row: &CatalogRow) -> ColumnStatistics {
        const SLOTS: [[&str; 3]; 5] = [
            ["stakind1", "stanumbers1", "stavalues1"],
            ["stakind2", "stanumbers2", "stavalues2"],
            ["stakind3", "stanumbers3", "stavalues3"],
            ["stakind4", "stanumbers4", "stavalues4"],
            ["stakind5", "stanumbers5", "stavalues5"],
        ];
        let mut found = ColumnStatistics {
            null_fraction: f64::from(row.float4("stanullfrac")),
            width_bytes: row.int("stawidth") as f64,
            distinct: f64::from(row.float4("stadistinct")),
            ..ColumnStatistics::default()
        };
        for [kind, numbers, values] in SLOTS {
            let (numbers, values) = (numbers_of(row, numbers), || values_of(row, values));
            match row.int(kind) as i16 {
                COMMON_VALUES => {
                    found.common = values();
                    found.frequencies = numbers.into_iter().map(f64::from).collect();
                    found.frequencies.resize(found.common.len(), 0.0);
                }
                HISTOGRAM => found.histogram = values(),
                CORRELATION => found.correlation = numbers.first().copied().map_or(0.0, f64::from),
                COMMON_ELEMENTS => (found.elements.common, found.elements.frequencies) = (values(), numbers),
                ELEMENT_COUNTS => found.elements.counts = numbers,
                RANGE_LENGTHS => {
                    let length = |value: &Datum| if let Datum::Float8(n) = value { *n } else { 0.0 };
                    found.lengths = values().iter().map(length).collect();
                    found.empty_fraction = numbers.first().copied().map_or(0.0, f64::from);
                }
                RANGE_BOUNDS => found.bounds = values(),
                _ => {}
            }
        }
        found
    }
}

fn numbers_of(row: &CatalogRow, column: &str) -> Vec<f32> {
    let number = |value: &Datum| if let Datum::Float4(n) = value { *n } else { 0.0 };
    if let Datum::Array(list) = row.get(column) { list.elements.iter().map(number).collect() } else { Vec::new() }
}

fn values_of(row: &CatalogRow, column: &str) -> Vec<Datum> {
    if let Datum::Array(list) = row.get(column) { list.elements.clone() } else { Vec::new() }
}

impl CatalogReader<'_> {
    /// `relation`: the table itself, or one of its indexes.
    pub(super) fn statistics_of(
        &self,
        table: &Table,
        relation: Oid,
        attnum: i16,
    ) -> Result<Option<Arc<ColumnStatistics>>> {
        if let Some(was) = self.former.and_then(|former| former.table(table.oid)) {
            return Ok(was.statistics.known((relation, attnum)));
        }
        table.statistics.get_or_read((relation, attnum), || {
            let key = [Datum::Oid(relation), Datum::Int2(attnum)];
            let rows = self.lookup(PG_STATISTIC, PG_STATISTIC_RELID_ATT_INH_INDEX, &key)?;
            Ok(rows.first().map(ColumnStatistics::of_row))
        })
    }
}

/// The statistics of a table that somebody has asked for: of its columns, of those of its indexes and statistics objects,
/// and what these objects hold.
#[derive(Debug, Default)]
pub struct ColumnStatisticsCache {
    columns: Mutex<HashMap<(Oid, i16), Option<Arc<ColumnStatistics>>>>,
    extended: Mutex<Option<Arc<[ExtendedStatistics]>>>,
}

impl ColumnStatisticsCache {
    /// What somebody has asked for before; None also if it was never asked for.
    fn known(&self, column: (Oid, i16)) -> Option<Arc<ColumnStatistics>> {
        self.columns.lock().unwrap_or_else(PoisonError::into_inner).get(&column).cloned().flatten()
    }
    pub(crate) fn known_extended(&self) -> Arc<[ExtendedStatistics]> {
        let known = self.extended.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone().unwrap_or_else(|| Arc::new([]))
    }

    pub(crate) fn get_or_read(
        &self,
        column: (Oid, i16),
        read: impl FnOnce() -> Result<Option<ColumnStatistics>>,
    ) -> Result<Option<Arc<ColumnStatistics>>> {
        if let Some(known) = self.columns.lock().unwrap_or_else(PoisonError::into_inner).get(&column) {
            return Ok(known.clone());
        }
        let found = read()?.map(Arc::new);
        self.columns.lock().unwrap_or_else(PoisonError::into_inner).insert(column, found.clone());
        Ok(found)
    }

    pub(crate) fn extended_or_read(
        &self,
        read: impl FnOnce() -> Result<Arc<[ExtendedStatistics]>>,
    ) -> Result<Arc<[ExtendedStatistics]>> {
        if let Some(known) = &*self.extended.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(known.clone());
        }
        let found = read()?;
        *self.extended.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
        Ok(found)
    }
}

/// Tables with the statistics that a plan was made by. What was not looked at then counts as unknown.
#[derive(Debug, Default)]
pub struct FormerStatistics(HashMap<Oid, Arc<Table>>);

impl FormerStatistics {
    pub fn new(tables: Vec<Arc<Table>>) -> FormerStatistics {
        FormerStatistics(tables.into_iter().map(|table| (table.oid, table)).collect())
    }
    pub fn table(&self, oid: Oid) -> Option<&Arc<Table>> {
        self.0.get(&oid)
    }
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.0.values()
    }
}
