//! Statistics objects (extended statistics): what ANALYZE has found out about columns and expressions together.
//!
//! Invariants
//! 1. Columns have their numbers, expressions −1, −2 and so on, in the order in which the object has them.
//! 2. What was read is kept with the table object, which ANALYZE and whoever changes a statistics object replace.
//!
//! Must not know: how it is computed, what is estimated with it.

use super::cache::{CatalogReader, split_expressions};
use super::catalog_row::CatalogRow;
use super::ids::*;
use super::model::Table;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result, shared};
use kilndb_types::Datum;
use kilndb_types::row::{decode_self_describing, encode_self_describing};
use std::fmt::Write;

/// Letters of pg_statistic_ext.stxkind.
pub const NDISTINCT: u8 = b'd';
pub const DEPENDENCIES: u8 = b'f';
pub const COMMON_COMBINATIONS: u8 = b'm';
pub const EXPRESSIONS: u8 = b'e';

/// How many different combinations of values some members have.
#[derive(Clone, PartialEq, Debug)]
pub struct CombinationCount {
    /// In ascending order of their places.
    pub members: Vec<i16>,
    pub distinct: f64,
}

/// The share of the rows in which the values of some members tell that of another one.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionalDependency {
    pub from: Vec<i16>,
    pub to: i16,
    pub degree: f64,
}

/// A common combination of values.
#[derive(Clone, Debug)]
pub struct CommonCombination {
    /// Of the columns, then of the expressions.
    pub values: Vec<Datum>,
    /// The share of the rows with it, and what it would be if values were independent of one another.
    pub frequency: f64,
    pub base_frequency: f64,
}

/// The most common combinations, as pg_mcv_list holds them.
#[derive(Clone, Default, Debug)]
pub struct CombinationList {
    pub types: Vec<Oid>,
    pub items: Vec<CommonCombination>,
}

#[derive(Debug)]
pub struct ExtendedStatistics {
    pub oid: Oid,
    pub columns: Vec<i16>,
    pub expressions: Vec<String>,
    pub kinds: Vec<u8>,
    /// pg_statistic_ext.stxstattarget; None: that of the columns.
    pub target: Option<usize>,
    pub counts: Vec<CombinationCount>,
    pub dependencies: Vec<FunctionalDependency>,
    pub common: CombinationList,
}

impl ExtendedStatistics {
    /// Columns, then expressions, by their numbers.
    pub fn members(&self) -> Vec<i16> {
        let expressions = (1..=self.expressions.len() as i16).map(|n| -n);
        self.columns.iter().copied().chain(expressions).collect()
    }

    fn of_rows(row: &CatalogRow, data: Option<&CatalogRow>) -> ExtendedStatistics {
        let text = |name: &str| data.and_then(|d| d.text(name)).unwrap_or("");
        let letter = |k: &Datum| if let Datum::Char(k) = k { Some(*k) } else { None };
        let kinds = match row.get("stxkind") {
            Datum::Array(list) => list.elements.iter().filter_map(letter).collect(),
            _ => Vec::new(),
        };
        let common = match data.map(|d| d.get("stxdmcv")) {
            Some(Datum::Bytea(bytes)) => CombinationList::from_bytes(bytes).unwrap_or_default(),
            _ => CombinationList::default(),
        };
        ExtendedStatistics {
            oid: row.oid("oid"),
            columns: row.numbers("stxkeys").into_iter().map(|n| n as i16).collect(),
            expressions: row.text("stxexprs").map(split_expressions).unwrap_or_default(),
            kinds,
            target: if let Datum::Int2(n) = row.get("stxstattarget") { usize::try_from(*n).ok() } else { None },
            counts: counts_of(text("stxdndistinct")),
            dependencies: dependencies_of(text("stxddependencies")),
            common,
        }
    }
}

fn list(members: &[i16]) -> String {
    members.iter().map(i16::to_string).collect::<Vec<_>>().join(", ")
}
fn numbers(text: &str) -> Vec<i16> {
    text.split(',').filter_map(|n| n.trim().parse().ok()).collect()
}

/// `{"1, 2": 11, "1, 3": 4}`, as pg_ndistinct shows it.
pub fn counts_text(counts: &[CombinationCount]) -> String {
    let one = |c: &CombinationCount| format!("\"{}\": {:.0}", list(&c.members), c.distinct);
    format!("{{{}}}", counts.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// `{"1 => 2": 1.000000}`, as pg_dependencies shows it.
pub fn dependencies_text(dependencies: &[FunctionalDependency]) -> String {
    let mut text = String::from("{");
    for (i, d) in dependencies.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let _ = write!(text, "{comma}\"{} => {}\": {:.6}", list(&d.from), d.to, d.degree);
    }
    text + "}"
}

/// The pairs of `{"key": number, …}`.
fn pairs(text: &str) -> impl Iterator<Item = (&str, f64)> {
    let inner = text.trim_start_matches('{').trim_end_matches('}');
    inner.split('"').skip(1).step_by(2).zip(inner.split('"').skip(2).step_by(2)).filter_map(|(key, rest)| {
        let number = rest.trim_start_matches(':').trim().trim_end_matches(',').trim();
        Some((key, number.parse().ok()?))
    })
}

fn counts_of(text: &str) -> Vec<CombinationCount> {
    pairs(text).map(|(key, distinct)| CombinationCount { members: numbers(key), distinct }).collect()
}

fn dependencies_of(text: &str) -> Vec<FunctionalDependency> {
    let one = |(key, degree): (&str, f64)| {
        let (from, to) = key.split_once("=>")?;
        Some(FunctionalDependency { from: numbers(from), to: to.trim().parse().ok()?, degree })
    };
    pairs(text).filter_map(one).collect()
}

/// Takes numbers from the front of bytes.
struct BytesReader<'a>(&'a [u8]);

impl<'a> BytesReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (first, rest) =
            self.0.split_at_checked(count).ok_or_else(|| Error::corrupted("a list of common combinations is cut"))?;
        self.0 = rest;
        Ok(first)
    }
    fn number(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(bytes.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b)))
    }
    fn share(&mut self) -> Result<f64> {
        let bytes = self.take(8)?;
        Ok(bytes.first_chunk::<8>().map_or(0.0, |b| f64::from_le_bytes(*b)))
    }
}

impl CombinationList {
    pub fn to_datum(&self) -> Result<Datum> {
        let mut bytes = (self.types.len() as u32).to_le_bytes().to_vec();
        bytes.extend(self.types.iter().flat_map(|t| t.to_le_bytes()));
        bytes.extend((self.items.len() as u32).to_le_bytes());
        for item in &self.items {
            bytes.extend(item.frequency.to_le_bytes());
            bytes.extend(item.base_frequency.to_le_bytes());
            let mut values = Vec::new();
            encode_self_describing(&item.values, &mut values);
            bytes.extend((values.len() as u32).to_le_bytes());
            bytes.extend(values);
        }
        shared::bytes(&bytes).map(Datum::Bytea)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<CombinationList> {
        let mut reader = BytesReader(bytes);
        let mut found = CombinationList::default();
        for _ in 0..reader.number()? {
            found.types.push(reader.number()?);
        }
        for _ in 0..reader.number()? {
            let (frequency, base_frequency) = (reader.share()?, reader.share()?);
            let length = reader.number()? as usize;
            let mut values = Vec::new();
            decode_self_describing(reader.take(length)?, found.types.len(), &mut values)?;
            found.items.push(CommonCombination { values, frequency, base_frequency });
        }
        Ok(found)
    }
}

impl CatalogReader<'_> {
    pub(super) fn extended_statistics_of(&self, table: &Table) -> Result<Arc<[ExtendedStatistics]>> {
        if let Some(was) = self.former.and_then(|former| former.table(table.oid)) {
            return Ok(was.statistics.known_extended());
        }
        table.statistics.extended_or_read(|| {
            let rows = self.lookup(PG_STATISTIC_EXT, PG_STATISTIC_EXT_RELID_INDEX, &[Datum::Oid(table.oid)])?;
            let mut found = Vec::with_capacity(rows.len());
            for row in &rows {
                let key = [Datum::Oid(row.oid("oid"))];
                let data = self.lookup(PG_STATISTIC_EXT_DATA, PG_STATISTIC_EXT_DATA_STXOID_INH_INDEX, &key)?;
                found.push(ExtendedStatistics::of_rows(row, data.first()));
            }
            found.sort_by_key(|s| s.oid);
            Ok(found.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again() {
        let counts = vec![
            CombinationCount { members: vec![1, 2], distinct: 11.0 },
            CombinationCount { members: vec![1, -1], distinct: 4.0 },
        ];
        assert_eq!(counts_text(&counts), r#"{"1, 2": 11, "1, -1": 4}"#);
        assert_eq!(counts_of(&counts_text(&counts)), counts);
        let dependencies = vec![
            FunctionalDependency { from: vec![1], to: 2, degree: 1.0 },
            FunctionalDependency { from: vec![1, 3], to: -2, degree: 0.25 },
        ];
        assert_eq!(dependencies_text(&dependencies), r#"{"1 => 2": 1.000000, "1, 3 => -2": 0.250000}"#);
        assert_eq!(dependencies_of(&dependencies_text(&dependencies)), dependencies);
        assert!(dependencies_of("").is_empty() && counts_of("{}").is_empty());
    }

    #[test]
    fn common_combinations_come_back_and_cut_ones_do_not() {
        let item = CommonCombination {
            values: vec![Datum::Int4(1), Datum::Null, Datum::text("x")],
            frequency: 0.5,
            base_frequency: 0.25,
        };
        let list = CombinationList { types: vec![23, 23, 25], items: vec![item.clone(), item] };
        let Ok(Datum::Bytea(bytes)) = list.to_datum() else { panic!("bytes") };
        let back = CombinationList::from_bytes(&bytes).expect("it is whole");
        assert_eq!(format!("{back:?}"), format!("{list:?}"));
        assert!(CombinationList::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    }
}
