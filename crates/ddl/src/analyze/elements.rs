//! Statistics of what is in values: lexemes of tsvectors, elements of arrays. Which are in most of the rows, and how
//! many different ones a row has.
//!
//! Counting is Manku and Motwani's Lossy Counting: elements come in buckets, and what has been rare so far is forgotten
//! at the end of each. With PostgreSQL's parameters (an element is wanted if its share of all elements is 0.07 / number
//! of elements kept, the error a tenth of that).
//!
//! Invariants
//! 1. An element counts once for a row.
//! 2. For the same values the numbers are PostgreSQL's; which of equally frequent elements are kept, if not all can be,
//!    is not said there.
//!
//! Must not know: catalogs, sessions, storage.

use super::compute::{SLICE, WIDEST_BYTES};
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::{Oid, Result};
use kilndb_types::key::{compare, encode_key};
use kilndb_types::width::plain_width;
use kilndb_types::{Datum, oids};

/// What a column's values have elements of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ElementKind {
    None,
    Lexemes,
    /// Of this type, which can be compared.
    Array(Oid),
}

/// The slots of pg_statistic that are about elements.
#[derive(Debug, Default)]
pub(super) struct ElementStatistics {
    /// In their order: lexemes by length first.
    pub values: Vec<Datum>,
    /// The share of the rows with each; then the least and the greatest of these; of arrays also the share of those
    /// with NULLs.
    pub frequencies: Vec<f32>,
    /// Of arrays: bounds of the numbers of different elements, and the average.
    pub counts: Option<Vec<f32>>,
}

struct Tracked {
    value: Datum,
    frequency: u64,
    /// How often it may have come before it was last begun to be counted.
    missed: u64,
    last_row: usize,
}

struct LossyCounter {
    tracked: HashMap<Box<[u8]>, Tracked>,
    bucket_width: u64,
    bucket: u64,
    seen: u64,
}

impl LossyCounter {
    /// `value`: what is kept of an element that is new. False: the row has had it.
    fn add(&mut self, key: &[u8], row: usize, value: impl FnOnce() -> Datum) -> bool {
        match self.tracked.get_mut(key) {
            Some(known) if known.last_row == row => return false,
            Some(known) => {
                known.frequency += 1;
                known.last_row = row;
            }
            None => {
                self.tracked.insert(
                    key.into(),
                    Tracked { value: value(), frequency: 1, missed: self.bucket - 1, last_row: row },
                );
            }
        }
        self.seen += 1;
        if self.seen.is_multiple_of(self.bucket_width) {
            let bucket = self.bucket;
            self.tracked.retain(|_, t| t.frequency + t.missed > bucket);
            self.bucket += 1;
        }
        true
    }

    /// The most frequent, at most so many, with their keys; least and greatest frequency among them.
    fn most_common(self, most: usize) -> (Vec<(Box<[u8]>, Tracked)>, u64, u64) {
        let cutoff = 9 * self.seen / self.bucket_width;
        let mut common: Vec<_> = self.tracked.into_iter().filter(|(_, t)| t.frequency > cutoff).collect();
        let greatest = common.iter().map(|(_, t)| t.frequency).max().unwrap_or(0);
        if common.len() > most {
            common.sort_by(|a, b| b.1.frequency.cmp(&a.1.frequency).then_with(|| a.0.cmp(&b.0)));
            common.truncate(most);
        }
        let least = common.iter().map(|(_, t)| t.frequency).min().unwrap_or(0);
        (common, least, greatest)
    }
}

/// `values`: those of the sample that are not NULL. None: there is nothing to tell.
pub(super) fn compute(
    kind: ElementKind,
    values: &[Datum],
    target: usize,
    checkpoint: &dyn Fn() -> Result<()>,
) -> Result<Option<ElementStatistics>> {
    match kind {
        ElementKind::None => Ok(None),
        ElementKind::Lexemes => lexemes(values, target * 10, checkpoint),
        ElementKind::Array(element) => elements(element, values, target, checkpoint),
    }
}

fn lexemes(values: &[Datum], most: usize, checkpoint: &dyn Fn() -> Result<()>) -> Result<Option<ElementStatistics>> {
    let bucket_width = (most as u64 + 10) * 1000 / 7;
    let mut counter = LossyCounter { tracked: HashMap::new(), bucket_width, bucket: 1, seen: 0 };
    for (row, value) in values.iter().enumerate() {
        if row % (SLICE / 16) == 0 {
            checkpoint()?;
        }
        let Datum::TsVector(vector) = value else { continue };
        for lexeme in &vector.lexemes {
            counter.add(lexeme.word.as_bytes(), row, || Datum::text(&*lexeme.word));
        }
    }
    let (mut common, least, greatest) = counter.most_common(most);
    if common.is_empty() {
        return Ok(None);
    }
    common.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    Ok(Some(slot(common, [least, greatest].into_iter(), values.len())))
}

fn slot(common: Vec<(Box<[u8]>, Tracked)>, more: impl Iterator<Item = u64>, rows: usize) -> ElementStatistics {
    let share = |n: u64| (n as f64 / rows as f64) as f32;
    let frequencies = common.iter().map(|(_, t)| t.frequency).chain(more).map(share).collect();
    ElementStatistics { values: common.into_iter().map(|(_, t)| t.value).collect(), frequencies, counts: None }
}

fn elements(
    element: Oid,
    values: &[Datum],
    target: usize,
    checkpoint: &dyn Fn() -> Result<()>,
) -> Result<Option<ElementStatistics>> {
    let most = target * 10;
    let mut counter =
        LossyCounter { tracked: HashMap::new(), bucket_width: most as u64 * 1000 / 7, bucket: 1, seen: 0 };
    let (mut rows, mut rows_with_null) = (0, 0);
    // How many rows have so many different elements.
    let mut counts: HashMap<u64, u64> = HashMap::new();
    let mut key = Vec::new();
    for (row, value) in values.iter().enumerate() {
        if row % (SLICE / 16) == 0 {
            checkpoint()?;
        }
        let Datum::Array(array) = value else { continue };
        if plain_width(oids::ANYARRAY, value) > WIDEST_BYTES {
            continue;
        }
        rows += 1;
        let mut different = 0;
        for value in array.elements.iter().filter(|v| !v.is_null()) {
            key.clear();
            encode_key(element, value, false, false, &mut key)?;
            different += u64::from(counter.add(&key, row, || value.clone()));
        }
        rows_with_null += u64::from(array.elements.iter().any(Datum::is_null));
        *counts.entry(different).or_default() += 1;
    }
    if rows == 0 {
        return Ok(None);
    }
    let average = (counter.seen as f64 / rows as f64) as f32;
    let (mut common, least, greatest) = counter.most_common(most);
    common.sort_by(|(_, a), (_, b)| compare(element, &a.value, &b.value));
    let mut found = if common.is_empty() {
        ElementStatistics::default()
    } else {
        slot(common, [least, greatest, rows_with_null].into_iter(), rows)
    };
    found.counts = Some(count_histogram(counts, rows as u64, target.max(2), average));
    Ok(Some(found))
}

/// So many numbers, evenly spread over the rows in the order of their numbers, and the average.
fn count_histogram(counts: HashMap<u64, u64>, rows: u64, bounds: usize, average: f32) -> Vec<f32> {
    let mut counts: Vec<(u64, u64)> = counts.into_iter().collect();
    counts.sort_unstable();
    let place = |i: usize| (i as u128 * u128::from(rows - 1) / (bounds as u128 - 1)) as u64;
    let (mut at, mut passed) = (0, 0);
    let mut histogram: Vec<f32> = Vec::with_capacity(bounds + 1);
    for i in 0..bounds {
        while at + 1 < counts.len() && passed + counts[at].1 <= place(i) {
            passed += counts[at].1;
            at += 1;
        }
        histogram.push(counts[at].0 as f32);
    }
    histogram.push(average);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn array(elements: Vec<Datum>) -> Datum {
        let dims = vec![(1, elements.len() as u32)];
        Datum::Array(Arc::new(kilndb_types::Array { element_type: oids::INT4, dims, elements }))
    }

    #[test]
    fn elements_count_once_for_a_row() {
        let rows: Vec<Datum> = (0..100)
            .map(|i| array(vec![Datum::Int4(1), Datum::Int4(1), Datum::Int4(2 + i % 2), Datum::Null]))
            .collect();
        let found =
            compute(ElementKind::Array(oids::INT4), &rows, 100, &|| Ok(())).expect("computed").expect("something");
        assert!(matches!(found.values[..], [Datum::Int4(1), Datum::Int4(2), Datum::Int4(3)]));
        assert_eq!(found.frequencies, [1.0, 0.5, 0.5, 0.5, 1.0, 1.0]);
        let counts = found.counts.expect("counts");
        assert_eq!((counts.len(), counts[0], counts[99], counts[100]), (101, 2.0, 2.0, 2.0));
    }

    /// Of very many different elements those that keep coming are left.
    #[test]
    fn what_is_rare_is_forgotten() {
        let rows: Vec<Datum> = (0..20_000)
            .map(|i| array((0..10).map(|j| Datum::Int4(1000 + i * 10 + j)).chain([Datum::Int4(i % 3)]).collect()))
            .collect();
        let found =
            compute(ElementKind::Array(oids::INT4), &rows, 1, &|| Ok(())).expect("computed").expect("something");
        assert!(matches!(found.values[..], [Datum::Int4(0), Datum::Int4(1), Datum::Int4(2)]));
    }

    #[test]
    fn counts_are_spread_over_the_rows() {
        let counts = HashMap::from_iter([(1, 50), (2, 49), (7, 1)]);
        assert_eq!(count_histogram(counts, 100, 5, 1.55), [1.0, 1.0, 1.0, 2.0, 7.0, 1.55]);
    }
}
