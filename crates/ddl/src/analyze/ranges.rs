//! Statistics of ranges and multiranges, by PostgreSQL's rules: bounds and lengths. A multirange counts from its first
//! lower to its last upper bound.
//!
//! Must not know: catalogs, sessions, storage.

use super::compute::{Facts, SLICE, Statistics};
use kilndb_base::Result;
use kilndb_types::Datum;
use kilndb_types::range::{Range, RangeBound};
use kilndb_types::width::stored_width;

/// What is kept of a column's ranges.
#[derive(Debug, Default)]
pub(super) struct RangeStatistics {
    /// Ranges whose lower and upper bounds divide all bounds into parts of equal size; empty: there are too few.
    pub bounds: Vec<Datum>,
    pub lengths: Vec<Datum>,
    /// The share of empty ranges among those that are not NULL.
    pub empty_fraction: f32,
}

pub(super) fn compute(facts: &Facts, values: &[Datum], checkpoint: &dyn Fn() -> Result<()>) -> Result<Statistics> {
    let (mut nulls, mut empty, mut width_sum) = (0, 0, 0.0);
    let mut ranges: Vec<Range> = Vec::new();
    for (i, value) in values.iter().enumerate() {
        if i % SLICE == 0 {
            checkpoint()?;
        }
        let range = match value {
            Datum::Range(range) => Range::clone(range),
            Datum::Multirange(multirange) => multirange.span(),
            _ => {
                nulls += 1;
                continue;
            }
        };
        width_sum += stored_width(facts.type_oid, value) as f64;
        if range.is_empty() { empty += 1 } else { ranges.push(range) }
    }
    let present = values.len() - nulls;
    if present == 0 {
        return Ok(Statistics { null_fraction: 1.0, ..Statistics::default() });
    }
    let null_fraction = (nulls as f64 / values.len() as f64) as f32;
    let mut found = RangeStatistics { empty_fraction: (empty as f64 / present as f64) as f32, ..Default::default() };
    if ranges.len() >= 2 {
        found.bounds = bounds(&ranges, facts.target, checkpoint)?;
        let mut lengths: Vec<f64> = ranges.iter().map(Range::length).collect();
        lengths.sort_unstable_by(f64::total_cmp);
        let kept = places(lengths.len(), facts.target).into_iter().filter_map(|at| lengths.get(at).copied());
        found.lengths = kept.map(Datum::Float8).collect();
    }
    Ok(Statistics {
        null_fraction,
        width: (width_sum / present as f64) as i32,
        distinct: -(1.0 - null_fraction),
        ranges: Some(found),
        ..Statistics::default()
    })
}

fn bounds(ranges: &[Range], target: usize, checkpoint: &dyn Fn() -> Result<()>) -> Result<Vec<Datum>> {
    let Some(ty) = ranges.first().map(|r| r.ty) else { return Ok(Vec::new()) };
    let sorted = |of: fn(&(RangeBound, RangeBound)) -> &RangeBound| -> Result<Vec<RangeBound>> {
        checkpoint()?;
        let mut all: Vec<RangeBound> = ranges.iter().filter_map(|r| r.bounds.as_ref()).map(|b| of(b).clone()).collect();
        all.sort_by(|a, b| a.compare(b, ty.subtype));
        checkpoint()?;
        Ok(all)
    };
    let (lowers, uppers) = (sorted(|b| &b.0)?, sorted(|b| &b.1)?);
    let at = |place: usize| Some((lowers.get(place)?.clone(), uppers.get(place)?.clone()));
    let kept = places(ranges.len(), target).into_iter().filter_map(at);
    Ok(kept.map(|bounds| Range { ty, bounds: Some(bounds) }.datum()).collect())
}

/// The places in a sorted list of values that stand for all of them.
fn places(count: usize, target: usize) -> Vec<usize> {
    let kept = count.min(target + 1);
    (0..kept).map(|i| i * (count - 1) / (kept - 1).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_spread_evenly() {
        assert_eq!(places(5, 10), [0, 1, 2, 3, 4]);
        assert_eq!(places(101, 10), [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!(places(4, 2), [0, 1, 3]);
    }
}
