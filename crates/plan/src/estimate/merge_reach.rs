//! How far a merge join reads into its sides: it ends with the side that ends first, and has no partners for what comes
//! before the first value of the other side.

use super::ordering::order;
use super::restriction::{LESS, LESS_OR_EQUAL, less_or_greater};
use super::*;

/// The shares of the rows of a side that come before its first row that may have a partner, and before its last one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MergeReach {
    pub start: f64,
    pub end: f64,
}

impl MergeReach {
    pub const WHOLE: MergeReach = MergeReach { start: 0.0, end: 1.0 };

    /// The same side, read in the other direction.
    pub fn reversed(self) -> MergeReach {
        MergeReach { start: 1.0 - self.end, end: 1.0 - self.start }
    }
}

impl Planner<'_> {
    /// How far a merge join by the equality of these two, ascending, reads into the left and the right side.
    pub(crate) fn merge_reach(&self, left: &Expr, right: &Expr) -> [MergeReach; 2] {
        reach(&self.variable(left), &self.variable(right)).unwrap_or([MergeReach::WHOLE; 2])
    }
}

fn reach(left: &Variable, right: &Variable) -> Option<[MergeReach; 2]> {
    let (left_range, right_range) = (range_of(left)?, range_of(right)?);
    // Values of types that are not kindred are not compared.
    order(left.ty, left_range.0, right_range.0)?;
    let end = |of: &Variable, last: &Datum| less_or_greater(of, LESS_OR_EQUAL, Some(last));
    let start = |of: &Variable, first: &Datum| less_or_greater(of, LESS, Some(first));
    let (mut ends, mut starts) = (
        [end(left, right_range.1), end(right, left_range.1)],
        [start(left, right_range.0), start(right, left_range.0)],
    );
    // One side has the last value and is read to its end, one has the first value and is read from its beginning.
    let whole = usize::from(ends[0] < ends[1]);
    ends[whole] = 1.0;
    let whole = usize::from(starts[0] > starts[1]);
    starts[whole] = 0.0;
    Some([0, 1].map(|side| MergeReach { start: starts[side].min(ends[side]), end: ends[side] }))
}

/// The least and the greatest value that statistics tell of.
fn range_of(variable: &Variable) -> Option<(&Datum, &Datum)> {
    let s = variable.statistics.as_deref()?;
    let bounds = s.histogram.first().into_iter().chain(s.histogram.last());
    let mut range: Option<(&Datum, &Datum)> = None;
    for value in bounds.chain(&s.common) {
        range = match range {
            None => Some((value, value)),
            Some((least, greatest)) => Some((
                if order(variable.ty, value, least)?.is_lt() { value } else { least },
                if order(variable.ty, value, greatest)?.is_gt() { value } else { greatest },
            )),
        };
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(bounds: &[i32], null_fraction: f64) -> Variable {
        let histogram = bounds.iter().map(|n| Datum::Int4(*n)).collect();
        let statistics = ColumnStatistics { null_fraction, histogram, distinct: -1.0, ..Default::default() };
        Variable::with_statistics(statistics)
    }

    #[test]
    fn the_side_that_ends_first_is_read_to_its_end() {
        let (few, many) = (variable(&[0, 50, 100], 0.0), variable(&[0, 500, 1000], 0.0));
        let [of_few, of_many] = reach(&few, &many).expect("both are known");
        assert_eq!(of_few.end, 1.0);
        assert!((of_many.end - 0.1).abs() < 0.01, "{of_many:?}");
        assert_eq!((of_few.start, of_many.start < 0.01), (0.0, true));
        let back = of_many.reversed();
        assert!((back.start - 0.9).abs() < 0.01 && back.end > 0.99, "{back:?}");
    }

    #[test]
    fn what_comes_before_the_other_sides_first_value_has_no_partner() {
        let (low, high) = (variable(&[0, 500, 1000], 0.0), variable(&[900, 1000, 1100], 0.0));
        let [of_low, of_high] = reach(&low, &high).expect("both are known");
        assert!((of_low.start - 0.9).abs() < 0.01 && of_high.start == 0.0, "{of_low:?}");
        assert!(of_low.end == 1.0 && (of_high.end - 0.5).abs() < 0.01, "{of_high:?}");
    }

    #[test]
    fn of_values_that_are_not_known_all_are_read() {
        assert_eq!(reach(&variable(&[], 0.0), &variable(&[1, 2], 0.0)), None);
    }
}
