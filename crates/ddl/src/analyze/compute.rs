//! Statistics of one column's sampled values, by PostgreSQL's rules: number of distinct values, most common values,
//! histogram, correlation with the physical order.
//!
//! Invariants
//! 1. For the same values in the same order the numbers are PostgreSQL's, bit for bit: where it keeps a `real` between
//!    two steps, so does this.
//! 2. A computation over many values comes to a checkpoint every few thousand steps.
//!
//! Must not know: catalogs, sessions, storage.

use super::elements::{self, ElementKind, ElementStatistics};
use super::ranges::{self, RangeStatistics};
use kilndb_base::{Oid, Result};
use kilndb_types::Datum;
use kilndb_types::key::compare;
use kilndb_types::width::{plain_width, stored_width};
use std::cmp::Ordering;

/// Values that are wider are not kept in statistics: they are hardly ever common, and all taken for distinct.
pub(super) const WIDEST_BYTES: usize = 1024;
/// Steps between two checkpoints.
pub(super) const SLICE: usize = 4096;

/// What is to be known of a column beforehand.
pub(super) struct Facts {
    pub type_oid: Oid,
    /// As pg_type.typlen: negative if values vary.
    pub len: i16,
    /// Most values in the list of common ones, and parts of the histogram.
    pub target: usize,
    /// It has a default btree operator class, and its values as a whole are of interest.
    pub is_ordered: bool,
    /// Values come from functions, with the long length words that PostgreSQL's have in memory.
    pub is_computed: bool,
    pub elements: ElementKind,
    /// Ranges and multiranges have statistics of their own.
    pub is_range: bool,
}

/// A row of pg_statistic.
#[derive(Debug, Default)]
pub(super) struct Statistics {
    pub null_fraction: f32,
    pub width: i32,
    pub distinct: f32,
    pub common: Option<Common>,
    pub histogram: Option<Vec<Datum>>,
    pub correlation: Option<f32>,
    pub elements: Option<ElementStatistics>,
    pub ranges: Option<RangeStatistics>,
}
#[derive(Debug)]
pub(super) struct Common {
    pub values: Vec<Datum>,
    pub frequencies: Vec<f32>,
}

/// Equal values, next to one another in the order.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: usize,
    count: usize,
}

/// What the values of a sample come to.
struct Counts {
    sample_rows: f64,
    total_rows: f64,
    nulls: usize,
    too_wide: usize,
}

/// `values`: of all rows of the sample, in physical order. None: nothing is known, the sample is empty.
pub(super) fn compute(
    facts: &Facts,
    values: Vec<Datum>,
    total_rows: f64,
    checkpoint: &dyn Fn() -> Result<()>,
) -> Result<Option<Statistics>> {
    if values.is_empty() {
        return Ok(None);
    }
    if facts.is_range {
        return ranges::compute(facts, &values, checkpoint).map(Some);
    }
    let mut counts = Counts { sample_rows: values.len() as f64, total_rows, nulls: 0, too_wide: 0 };
    let (mut width_sum, mut kept) = (0.0, Vec::with_capacity(values.len()));
    for (i, value) in values.into_iter().enumerate() {
        if i % SLICE == 0 {
            checkpoint()?;
        }
        if value.is_null() {
            counts.nulls += 1;
            continue;
        }
        if facts.len < 0 {
            let width = if facts.is_computed { plain_width } else { stored_width };
            width_sum += width(facts.type_oid, &value) as f64;
            if facts.is_ordered && plain_width(facts.type_oid, &value) > WIDEST_BYTES {
                counts.too_wide += 1;
                continue;
            }
        }
        kept.push(value);
    }
    let present = kept.len() + counts.too_wide;
    let mut found = Statistics {
        null_fraction: (counts.nulls as f64 / counts.sample_rows) as f32,
        width: match present {
            _ if facts.len >= 0 => i32::from(facts.len),
            0 => 0,
            n => (width_sum / n as f64) as i32,
        },
        ..Statistics::default()
    };
    if facts.elements == ElementKind::Lexemes && present > 0 {
        found.distinct = all_distinct(found.null_fraction);
    }
    found.elements = elements::compute(facts.elements, &kept, facts.target, checkpoint)?;
    if !facts.is_ordered || present == 0 {
        return Ok(Some(found));
    }
    if kept.is_empty() {
        found.distinct = all_distinct(found.null_fraction);
        return Ok(Some(found));
    }
    ordered(facts, &kept, &counts, &mut found, checkpoint)?;
    Ok(Some(found))
}

fn all_distinct(null_fraction: f32) -> f32 {
    -(1.0 - f64::from(null_fraction)) as f32
}

/// Of a type with an order: the values' groups say everything.
fn ordered(
    facts: &Facts,
    values: &[Datum],
    counts: &Counts,
    found: &mut Statistics,
    checkpoint: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let order = sorted(values, facts.type_oid, checkpoint)?;
    let at = |i: usize| &values[order[i] as usize];
    let (mut groups, mut product_sum) = (Vec::new(), 0.0);
    for (i, place) in order.iter().enumerate() {
        if i % SLICE == 0 {
            checkpoint()?;
        }
        product_sum += i as f64 * f64::from(*place);
        match groups.last_mut() {
            Some(Group { count, .. }) if compare(facts.type_oid, at(i - 1), at(i)) == Ordering::Equal => *count += 1,
            _ => groups.push(Group { first: i, count: 1 }),
        }
    }
    let repeated = groups.iter().filter(|g| g.count > 1).count();
    found.distinct = distinct(counts, found.null_fraction, groups.len(), repeated);

    // The most frequent first, and among equals the lesser value.
    let mut common: Vec<Group> = groups.iter().filter(|g| g.count > 1).copied().collect();
    common.sort_by_key(|g| std::cmp::Reverse(g.count));
    common.truncate(facts.target);
    let is_complete = common.len() == groups.len() && counts.too_wide == 0 && found.distinct > 0.0;
    if !is_complete {
        let worth = worth_keeping(&common, counts, found.distinct, found.null_fraction);
        common.truncate(worth);
    }
    if !common.is_empty() {
        found.common = Some(Common {
            values: common.iter().map(|g| at(g.first).clone()).collect(),
            frequencies: common.iter().map(|g| (g.count as f64 / counts.sample_rows) as f32).collect(),
        });
    }
    found.histogram = histogram(facts.target, order.len(), groups.len(), &mut common)
        .map(|bounds| bounds.into_iter().map(|i| at(i).clone()).collect());
    if values.len() > 1 {
        found.correlation = Some(correlation(values.len() as f64, product_sum));
    }
    Ok(())
}

/// The number of distinct values in the table; negative, as a fraction of the rows, if it is thought to grow with them.
fn distinct(counts: &Counts, null_fraction: f32, groups: usize, repeated: usize) -> f32 {
    let estimate = if repeated == 0 {
        all_distinct(null_fraction)
    } else if counts.too_wide == 0 && repeated == groups {
        // A small fixed set of values, all of which have been seen.
        groups as f32
    } else {
        // Haas and Stokes' Duj1 over the values that are not null.
        let once = (groups - repeated + counts.too_wide) as f64;
        let seen = once + repeated as f64;
        let sampled = counts.sample_rows - counts.nulls as f64;
        let all = counts.total_rows * (1.0 - f64::from(null_fraction));
        let estimate = if all > 0.0 { (sampled * seen) / ((sampled - once) + once * sampled / all) } else { 0.0 };
        let estimate = if estimate < seen { seen } else { estimate };
        let estimate = if estimate > all { all } else { estimate };
        (estimate + 0.5).floor() as f32
    };
    if f64::from(estimate) > 0.1 * counts.total_rows {
        -(f64::from(estimate) / counts.total_rows) as f32
    } else {
        estimate
    }
}

/// How many of the candidates are significantly more frequent than a value that is not in the list would be thought.
fn worth_keeping(common: &[Group], counts: &Counts, distinct: f32, null_fraction: f32) -> usize {
    let (sample, total) = (counts.sample_rows, counts.total_rows);
    if sample == total || total <= 1.0 {
        return common.len();
    }
    let distinct = if distinct < 0.0 { -f64::from(distinct) * total } else { f64::from(distinct) };
    let mut before: f64 = common.iter().rev().skip(1).map(|g| g.count as f64).sum();
    for kept in (1..=common.len()).rev() {
        let count = common[kept - 1].count as f64;
        // The share of each value outside of a list that ends before this one.
        let mut share = (1.0 - before / sample - f64::from(null_fraction)).clamp(0.0, 1.0);
        let others = distinct - (kept - 1) as f64;
        if others > 1.0 {
            share /= others;
        }
        // A sample without replacement: hypergeometric. Two standard deviations and the correction for whole numbers.
        let of_value = total * count / sample;
        let variance = sample * of_value * (total - of_value) * (total - sample) / (total * total * (total - 1.0));
        if count > share * sample + 2.0 * variance.sqrt() + 0.5 {
            return kept;
        }
        if kept > 1 {
            before -= common[kept - 2].count as f64;
        }
    }
    0
}

/// Places, in the order of the values, of bounds between parts of equal size of what is not `common`. Sorts `common`.
fn histogram(target: usize, values: usize, groups: usize, common: &mut [Group]) -> Option<Vec<usize>> {
    let bounds = (groups - common.len()).min(target + 1);
    if bounds < 2 {
        return None;
    }
    common.sort_by_key(|g| g.first);
    let rest = values - common.iter().map(|g| g.count).sum::<usize>();
    let (mut skipped, mut next) = (0, 0);
    let places = (0..bounds).map(|i| {
        let place = i * (rest - 1) / (bounds - 1);
        while let Some(group) = common.get(next).filter(|g| g.first <= place + skipped) {
            skipped += group.count;
            next += 1;
        }
        place + skipped
    });
    Some(places.collect())
}

/// Of places and ranks, both 0 … n − 1.
fn correlation(n: f64, product_sum: f64) -> f32 {
    let sum = (n - 1.0) * n / 2.0;
    let square_sum = (n - 1.0) * n * (2.0 * n - 1.0) / 6.0;
    ((n * product_sum - sum * sum) / (n * square_sum - sum * sum)) as f32
}

/// The places of the values in their order; equal ones in that of their places.
fn sorted(values: &[Datum], type_oid: Oid, checkpoint: &dyn Fn() -> Result<()>) -> Result<Vec<u32>> {
    let less = |a: u32, b: u32| compare(type_oid, &values[a as usize], &values[b as usize]).then(a.cmp(&b));
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    for part in order.chunks_mut(SLICE) {
        part.sort_unstable_by(|a, b| less(*a, *b));
        checkpoint()?;
    }
    let mut width = SLICE;
    while width < order.len() {
        let mut merged = Vec::with_capacity(order.len());
        for pair in order.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some(a), Some(b)) = (left.first(), right.first()) {
                let side = if less(*a, *b).is_lt() { &mut left } else { &mut right };
                merged.push(side[0]);
                *side = &side[1..];
                if merged.len() % SLICE == 0 {
                    checkpoint()?;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        order = merged;
        width *= 2;
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_types::oids;

    fn of(values: impl IntoIterator<Item = i32>, target: usize, total_rows: f64) -> Statistics {
        let facts = Facts {
            type_oid: oids::INT4,
            len: 4,
            target,
            is_ordered: true,
            is_computed: false,
            elements: ElementKind::None,
            is_range: false,
        };
        compute(&facts, values.into_iter().map(Datum::Int4).collect(), total_rows, &|| Ok(()))
            .expect("computed")
            .expect("not empty")
    }

    #[test]
    fn a_sample_is_sorted_in_slices() {
        let n = 5 * SLICE as i32 + 17;
        let values: Vec<Datum> = (0..n).map(|i| Datum::Int4(i.wrapping_mul(48271) % 1000)).collect();
        let order = sorted(&values, oids::INT4, &|| Ok(())).expect("sorted");
        let mut expected: Vec<u32> = (0..n as u32).collect();
        expected.sort_by(|a, b| compare(oids::INT4, &values[*a as usize], &values[*b as usize]));
        assert_eq!(order, expected);
    }

    /// Half of the sample is one value, the rest is unique: of 10,000 rows it is common, the others are many.
    #[test]
    fn what_stands_out_is_common() {
        let s = of((0..1000).map(|i| if i % 2 == 0 { 7 } else { i * 10 }), 10, 10_000.0);
        let common = s.common.expect("common values");
        assert!(matches!(common.values[..], [Datum::Int4(7)]));
        assert_eq!(common.frequencies, [0.5]);
        // n d / (n − f1 + f1 n / N) = 1000 · 501 / (500 + 50)
        assert_eq!(s.distinct, 911.0);
        assert_eq!(s.histogram.map(|h| h.len()), Some(11));
    }

    /// Pairs in a small sample of a large table say nothing.
    #[test]
    fn chance_repetitions_are_not_common() {
        let s = of((0..1000).map(|i| if i < 10 { i / 2 } else { i }), 100, 1_000_000.0);
        assert!(s.common.is_none());
        // 1000 · 995 / (10 + 0.99), less than a tenth of the rows.
        assert_eq!(s.distinct, 90_537.0);
    }
}
