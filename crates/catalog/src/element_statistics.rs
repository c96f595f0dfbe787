//! What ANALYZE has found out about elements of a column's values, as the planner wants it.
//!
//! Invariants
//! 1. It is read when it is asked for and kept with the table object that it is about, which ANALYZE replaces.
//!
//! Must not know: what is estimated with it.

use super::cache::CatalogReader;
use super::ids::{PG_STATISTIC, PG_STATISTIC_RELID_ATT_INH_INDEX};
use super::model::Table;
use super::store::CatalogRow;
use kilndb_base::Result;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_types::Datum;

/// pg_statistic.stakindN.
pub const COMMON_ELEMENTS: i16 = 4;
pub const ELEMENT_COUNTS: i16 = 5;

#[derive(Debug, Default)]
pub struct ElementStatistics {
    /// The share of rows that are NULL.
    pub null_fraction: f32,
    /// Common elements in their order (lexemes: by length first) and the share of the rows with each; behind those the
    /// least and the greatest share, and of arrays the share of rows with NULLs in them.
    pub common: Vec<Datum>,
    pub frequencies: Vec<f32>,
    /// Bounds of the number of different elements in an array, and the average behind them; empty for other types.
    pub counts: Vec<f32>,
}

impl ElementStatistics {
    pub fn of_row(row: &CatalogRow) -> ElementStatistics {
        const SLOTS: [[&str; 3]; 5] = [
            ["stakind1", "stanumbers1", "stavalues1"],
            ["stakind2", "stanumbers2", "stavalues2"],
            ["stakind3", "stanumbers3", "stavalues3"],
            ["stakind4", "stanumbers4", "stavalues4"],
            ["stakind5", "stanumbers5", "stavalues5"],
        ];
        let numbers = |column: &str| match row.get(column) {
            Datum::Array(list) => {
                list.elements.iter().map(|n| if let Datum::Float4(n) = n { *n } else { 0.0 }).collect()
            }
            _ => Vec::new(),
        };
        let mut found = ElementStatistics { null_fraction: row.float4("stanullfrac"), ..ElementStatistics::default() };
        for [kind, frequencies, values] in SLOTS {
            match row.int(kind) as i16 {
                COMMON_ELEMENTS => {
                    found.frequencies = numbers(frequencies);
                    found.common =
                        if let Datum::Array(list) = row.get(values) { list.elements.clone() } else { Vec::new() };
                }
                ELEMENT_COUNTS => found.counts = numbers(frequencies),
                _ => {}
            }
        }
        found
    }
}

impl CatalogReader<'_> {
    pub(super) fn elements_of(&self, table: &Table, attnum: i16) -> Result<Option<Arc<ElementStatistics>>> {
        table.elements.get_or_read(attnum, || {
            let rows = self.lookup(
                PG_STATISTIC,
                PG_STATISTIC_RELID_ATT_INH_INDEX,
                &[Datum::Oid(table.oid), Datum::Int2(attnum)],
            )?;
            Ok(rows.first().map(ElementStatistics::of_row))
        })
    }
}

/// The statistics of those columns of a table that somebody has asked for.
#[derive(Debug, Default)]
pub struct ElementStatisticsCache(Mutex<HashMap<i16, Option<Arc<ElementStatistics>>>>);

impl ElementStatisticsCache {
    pub(crate) fn get_or_read(
        &self,
        attnum: i16,
        read: impl FnOnce() -> Result<Option<ElementStatistics>>,
    ) -> Result<Option<Arc<ElementStatistics>>> {
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&attnum) {
            return Ok(known.clone());
        }
        let found = read()?.map(Arc::new);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(attnum, found.clone());
        Ok(found)
    }
}
