//! The share of the rows whose range or multirange satisfies a comparison with a known one, by histograms of bounds and
//! lengths: PostgreSQL's rangetypes_selfuncs.c.
//!
//! Invariants
//! 1. Bounds and lengths are assumed to be independent of each other.
//!
//! Must not know: how histograms are computed.

use super::*;
use kilndb_types::range::{Range, RangeBound, distance};

const INEQUALITY: f64 = 1.0 / 3.0;

/// What a range is compared for, with the column on the left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RangeComparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Left,
    Right,
    NotRightOf,
    NotLeftOf,
    Overlaps,
    Contains,
    ContainsElement,
    Contained,
}

use RangeComparison as C;

impl RangeComparison {
    fn of(operator: &str, is_left: bool) -> Option<RangeComparison> {
        Some(match (operator, is_left) {
            ("<", true) | (">", false) => C::Less,
            ("<=", true) | (">=", false) => C::LessOrEqual,
            (">", true) | ("<", false) => C::Greater,
            (">=", true) | ("<=", false) => C::GreaterOrEqual,
            ("<<", true) | (">>", false) => C::Left,
            (">>", true) | ("<<", false) => C::Right,
            ("&<", true) => C::NotRightOf,
            ("&>", true) => C::NotLeftOf,
            ("&&", _) => C::Overlaps,
            ("@>", true) | ("<@", false) => C::Contains,
            ("<@", true) | ("@>", false) => C::Contained,
            _ => return None,
        })
    }
    fn default_share(self) -> f64 {
        match self {
            C::Overlaps => 0.01,
            C::Contains | C::Contained | C::ContainsElement => 0.005,
            _ => INEQUALITY,
        }
    }
    /// Of comparisons with an empty range.
    fn with_empty(self, empty_fraction: f64) -> f64 {
        match self {
            C::Contained | C::LessOrEqual => empty_fraction,
            C::Contains | C::GreaterOrEqual => 1.0,
            C::Greater => 1.0 - empty_fraction,
            _ => 0.0,
        }
    }
}

impl Planner<'_> {
    /// None: it is no comparison of a range or multirange of the relation.
    pub(super) fn range_selectivity(&self, rel: u32, f: &FuncExpr) -> Option<f64> {
        let [l, r] = f.args.as_slice() else { return None };
        let (column, other, is_left) = match (access::foreign(l, rel), access::foreign(r, rel)) {
            (false, true) => (l, r, true),
            (true, false) => (r, l, false),
            _ => return None,
        };
        if f.operator == 0 || !self.is_range(column.ty) {
            return None;
        }
        let mut comparison = RangeComparison::of(&f.name, is_left)?;
        if comparison == C::Contains && !self.is_range(other.ty) {
            comparison = C::ContainsElement;
        }
        let variable = self.variable(column);
        let known = variable.statistics.as_deref();
        let value = self.value_of(other, known.is_some_and(|k| !k.bounds.is_empty()));
        let constant = match value {
            None => return Some(comparison.default_share()),
            Some(Datum::Null) => return Some(0.0),
            Some(Datum::Range(range)) => range.bounds.clone(),
            Some(Datum::Multirange(multirange)) => multirange.span().bounds,
            Some(element) => Some((RangeBound::lower(element.clone(), true), RangeBound::upper(element, true))),
        };
        let empty = known.map_or(0.0, |k| k.empty_fraction);
        let share = match constant {
            None => comparison.with_empty(empty),
            Some(constant) => {
                let histogram = known.and_then(RangeHistogram::of);
                let share = histogram.and_then(|h| h.share(comparison, constant.0, constant.1));
                let share = (1.0 - empty) * share.unwrap_or(comparison.default_share());
                if comparison == C::Contained { share + empty } else { share }
            }
        };
        Some((share * (1.0 - variable.null_fraction())).clamp(0.0, 1.0))
    }

    pub(super) fn is_range(&self, ty: Oid) -> bool {
        let kind = self.catalog.type_by_oid(self.base_type(ty)).ok().flatten().map_or(0, |t| t.kind);
        matches!(kind, b'r' | b'm')
    }
}

struct RangeHistogram<'s> {
    subtype: Oid,
    lowers: Vec<RangeBound>,
    uppers: Vec<RangeBound>,
    lengths: &'s [f64],
}

impl<'s> RangeHistogram<'s> {
    fn of(statistics: &'s ColumnStatistics) -> Option<RangeHistogram<'s>> {
        let range = |d: &Datum| if let Datum::Range(r) = d { Some(Range::clone(r)) } else { None };
        let ranges: Vec<Range> = statistics.bounds.iter().filter_map(range).collect();
        let subtype = ranges.first()?.ty.subtype;
        let (lowers, uppers): (Vec<_>, Vec<_>) = ranges.into_iter().filter_map(|r| r.bounds).unzip();
        (lowers.len() >= 2).then_some(RangeHistogram { subtype, lowers, uppers, lengths: &statistics.lengths })
    }

    fn share(&self, comparison: RangeComparison, lower: RangeBound, upper: RangeBound) -> Option<f64> {
        let below = |bound: &RangeBound, histogram: &[RangeBound], equal| self.below(bound, histogram, equal);
        Some(match comparison {
            C::Less => below(&lower, &self.lowers, false),
            C::LessOrEqual => below(&lower, &self.lowers, true),
            C::Greater => 1.0 - below(&lower, &self.lowers, false),
            C::GreaterOrEqual => 1.0 - below(&lower, &self.lowers, true),
            C::Left => below(&lower, &self.uppers, false),
            C::Right => 1.0 - below(&upper, &self.lowers, true),
            C::NotLeftOf => 1.0 - below(&lower, &self.lowers, false),
            C::NotRightOf => below(&upper, &self.uppers, true),
            C::Overlaps | C::ContainsElement => {
                1.0 - (below(&lower, &self.uppers, false) + (1.0 - below(&upper, &self.lowers, true)))
            }
            C::Contains | C::Contained if self.lengths.len() < 2 => return None,
            C::Contains => self.containing(&lower, &upper),
            C::Contained if lower.value.is_null() => below(&upper, &self.uppers, true),
            C::Contained if upper.value.is_null() => 1.0 - below(&lower, &self.lowers, false),
            C::Contained => self.contained(&lower, upper),
        })
    }

    /// The last bound of a histogram that lies before a value, or with `equal` where it is.
    fn place(&self, value: &RangeBound, histogram: &[RangeBound], equal: bool) -> Option<usize> {
        let is_before = |bound: &RangeBound| {
            let order = bound.compare(value, self.subtype);
            order.is_lt() || equal && order.is_eq()
        };
        histogram.partition_point(is_before).checked_sub(1)
    }

    /// The share of the bounds before a value.
    fn below(&self, value: &RangeBound, histogram: &[RangeBound], equal: bool) -> f64 {
        let bins = (histogram.len() - 1) as f64;
        let Some(at) = self.place(value, histogram, equal) else { return 0.0 };
        let within = match (histogram.get(at), histogram.get(at + 1)) {
            (Some(from), Some(to)) => self.position(value, from, to),
            _ => 0.0,
        };
        (at as f64 + within) / bins
    }

    /// How far a value lies from one bound to the next.
    fn position(&self, value: &RangeBound, from: &RangeBound, to: &RangeBound) -> f64 {
        match (from.value.is_null(), to.value.is_null()) {
            (false, false) => {
                let width = distance(self.subtype, &from.value, &to.value);
                let part = distance(self.subtype, &from.value, &value.value);
                match (width, part) {
                    (Some(width), Some(part)) if width > 0.0 && !(part / width).is_nan() => {
                        (part / width).clamp(0.0, 1.0)
                    }
                    _ => 0.5,
                }
            }
            (true, false) => f64::from(u8::from(!(value.value.is_null() && value.is_lower))),
            (false, true) => f64::from(u8::from(value.value.is_null() && !value.is_lower)),
            (true, true) => 0.5,
        }
    }

    fn distance(&self, from: &RangeBound, to: &RangeBound) -> f64 {
        match (from.value.is_null(), to.value.is_null()) {
            (false, false) => distance(self.subtype, &from.value, &to.value).filter(|d| *d >= 0.0).unwrap_or(1.0),
            (true, true) if from.is_lower == to.is_lower => 0.0,
            _ => f64::INFINITY,
        }
    }

    /// Bin by bin of the lower bounds below the upper bound of the constant: ranges that are short enough.
    fn contained(&self, lower: &RangeBound, upper: RangeBound) -> f64 {
        let upper = RangeBound::lower(upper.value, !upper.inclusive);
        let Some(last) = self.place(&upper, &self.lowers, false) else { return 0.0 };
        let bins = self.lowers.len() - 1;
        let last = last.min(bins - 1);
        let mut bin_width = self.position(&upper, &self.lowers[last], &self.lowers[last + 1]);
        let (mut before, mut sum) = (0.0, 0.0);
        for i in (0..=last).rev() {
            let is_final = self.lowers[i].compare(lower, self.subtype).is_lt();
            let reach = if is_final {
                bin_width = (bin_width - self.position(lower, &self.lowers[i], &self.lowers[i + 1])).max(0.0);
                self.distance(lower, &upper)
            } else {
                self.distance(&self.lowers[i], &upper)
            };
            sum += self.shorter(before, reach, true) * bin_width / bins as f64;
            if is_final {
                break;
            }
            (bin_width, before) = (1.0, reach);
        }
        sum
    }

    /// Bin by bin of the lower bounds up to that of the constant: ranges that are long enough.
    fn containing(&self, lower: &RangeBound, upper: &RangeBound) -> f64 {
        let Some(last) = self.place(lower, &self.lowers, true) else { return 0.0 };
        let bins = self.lowers.len() - 1;
        let last = last.min(bins - 1);
        let mut bin_width = self.position(lower, &self.lowers[last], &self.lowers[last + 1]);
        let (mut before, mut sum) = (self.distance(lower, upper), 0.0);
        for i in (0..=last).rev() {
            let reach = self.distance(&self.lowers[i], upper);
            sum += (1.0 - self.shorter(before, reach, false)) * bin_width / bins as f64;
            (bin_width, before) = (1.0, reach);
        }
        sum
    }

    /// The average share of lengths below a value that goes from one length to another.
    fn shorter(&self, from: f64, to: f64, equal: bool) -> f64 {
        if to < 0.0 {
            return 0.0;
        }
        if to.is_infinite() && equal {
            return 1.0;
        }
        let (lengths, bins) = (self.lengths, (self.lengths.len() - 1) as f64);
        let is_below = |length: f64, limit: f64| length < limit || equal && length <= limit;
        let first = lengths.partition_point(|length| is_below(*length, from)).checked_sub(1);
        if first.is_some_and(|i| i >= lengths.len() - 1) {
            return 1.0;
        }
        let (mut i, within) = match first {
            None => (0, 0.0),
            Some(i) => (i, length_position(from, lengths[i], lengths[i + 1])),
        };
        let (mut at, mut share) = (from, (i as f64 + within) / bins);
        if to == from {
            return share;
        }
        let mut area = 0.0;
        let mut add = |share: f64, next_share: f64, width: f64| {
            if share > 0.0 || next_share > 0.0 {
                area += 0.5 * (share + next_share) * width;
            }
        };
        while i < lengths.len() - 1 && is_below(lengths[i + 1], to) {
            let next_share = i as f64 / bins;
            add(share, next_share, lengths[i + 1] - at);
            (at, share) = (lengths[i + 1], next_share);
            i += 1;
        }
        let within = match (lengths.get(i), lengths.get(i + 1)) {
            (Some(low), Some(high)) if low != high => length_position(to, *low, *high),
            _ => 0.0,
        };
        add(share, (i as f64 + within) / bins, to - at);
        if area.is_infinite() && to.is_infinite() { 0.5 } else { area / (to - from) }
    }
}

/// How far a length lies from one to the next.
fn length_position(value: f64, from: f64, to: f64) -> f64 {
    match (from.is_infinite(), to.is_infinite()) {
        (false, false) if value.is_infinite() => 0.5,
        (false, false) => 1.0 - (to - value) / (to - from),
        (true, false) => 1.0,
        (true, true) => 0.0,
        (false, true) => 0.5,
    }
}
