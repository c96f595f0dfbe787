//! Ranges and multiranges: values, their bounds' order, set operations.
//!
//! Invariants
//! 1. A [`Range`] is canonical: an infinite bound is not inclusive, of a discrete type a lower bound is inclusive and
//!    an upper one is not, and what holds nothing is [`Range::empty`].
//! 2. Ranges of a [`Multirange`] are sorted, not empty, and neither overlap nor touch.
//!
//! Must not know: catalogs. A value brings its types' OIDs along.

use crate::Datum;
use crate::datetime;
use crate::key::compare;
use crate::oids::*;
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use std::cmp::Ordering;
use std::sync::Arc;

/// What comparing or copying a range costs, and what looking for one among many does.
const UNITS_OF_RANGE: usize = 30;
const UNITS_OF_SEARCH: usize = 300;
/// Ranges that are sorted at once.
const FEW: usize = 4096;

/// A range type with what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeType {
    pub oid: Oid,
    pub multirange: Oid,
    pub subtype: Oid,
}

pub const BUILT_IN: [RangeType; 6] = [
    RangeType { oid: INT4RANGE, multirange: 4451, subtype: INT4 },
    RangeType { oid: NUMRANGE, multirange: 4532, subtype: NUMERIC },
    RangeType { oid: TSRANGE, multirange: 4533, subtype: TIMESTAMP },
    RangeType { oid: TSTZRANGE, multirange: 4534, subtype: TIMESTAMPTZ },
    RangeType { oid: DATERANGE, multirange: 4535, subtype: DATE },
    RangeType { oid: INT8RANGE, multirange: 4536, subtype: INT8 },
];

/// The built-in range type that `oid` names, itself or as its multirange.
pub fn built_in(oid: Oid) -> Option<RangeType> {
    BUILT_IN.into_iter().find(|t| t.oid == oid || t.multirange == oid)
}

#[derive(Clone, Debug)]
pub struct RangeBound {
    /// NULL: there is none.
    pub value: Datum,
    pub inclusive: bool,
    pub is_lower: bool,
}
#[derive(Clone, Debug)]
pub struct Range {
    pub ty: RangeType,
    /// The lower and the upper bound; None: the range is empty.
    pub bounds: Option<(RangeBound, RangeBound)>,
}
#[derive(Clone, Debug)]
pub struct Multirange {
    pub ty: RangeType,
    pub ranges: Vec<Range>,
}

// PostgreSQL's bits of what a range is, as it sends and hashes them.
pub const EMPTY: u8 = 1;
pub(crate) const LOWER_INCLUSIVE: u8 = 2;
pub(crate) const UPPER_INCLUSIVE: u8 = 4;
pub(crate) const LOWER_INFINITE: u8 = 8;
pub(crate) const UPPER_INFINITE: u8 = 16;

impl RangeBound {
    pub fn lower(value: Datum, inclusive: bool) -> RangeBound {
        RangeBound { value, inclusive, is_lower: true }
    }
    pub fn upper(value: Datum, inclusive: bool) -> RangeBound {
        RangeBound { value, inclusive, is_lower: false }
    }
    pub(crate) fn is_infinite(&self) -> bool {
        self.value.is_null()
    }
    /// The bound of what lies on the other side of this one.
    pub fn flipped(&self) -> RangeBound {
        RangeBound { value: self.value.clone(), inclusive: !self.inclusive, is_lower: !self.is_lower }
    }
    /// Compares the bounds' values alone.
    fn compare_values(&self, other: &RangeBound, subtype: Oid) -> Ordering {
        let outward = |b: &RangeBound| if b.is_lower { Ordering::Less } else { Ordering::Greater };
        match (self.is_infinite(), other.is_infinite()) {
            (true, true) if self.is_lower == other.is_lower => Ordering::Equal,
            (true, _) => outward(self),
            (false, true) => outward(other).reverse(),
            (false, false) => compare(subtype, &self.value, &other.value),
        }
    }
    /// Compares where bounds are: an exclusive bound lies beside its value, towards the inside.
    pub fn compare(&self, other: &RangeBound, subtype: Oid) -> Ordering {
        let side = |b: &RangeBound| match (b.inclusive || b.is_infinite(), b.is_lower) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => -1,
        };
        self.compare_values(other, subtype).then_with(|| side(self).cmp(&side(other)))
    }
}

#[cold]
fn data(message: &str) -> Error {
    Error::new(sqlstate::DATA_EXCEPTION, message)
}

/// The value behind this one, of a discrete range type.
fn next(ty: Oid, value: &Datum) -> Result<Option<Datum>> {
    let out_of_range = |name: &str| Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"));
    Ok(match (ty, value) {
        (INT4RANGE, Datum::Int4(v)) => Some(Datum::Int4(v.checked_add(1).ok_or_else(|| out_of_range("integer"))?)),
        (INT8RANGE, Datum::Int8(v)) => Some(Datum::Int8(v.checked_add(1).ok_or_else(|| out_of_range("bigint"))?)),
        (DATERANGE, Datum::Date(i32::MIN | i32::MAX)) => None,
        (DATERANGE, Datum::Date(v)) => {
            let next = datetime::check_date(v + 1).ok().filter(|_| *v + 1 != i32::MAX);
            Some(Datum::Date(next.ok_or_else(|| Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, "date out of range"))?))
        }
        _ => None,
    })
}
pub(crate) fn is_discrete(ty: Oid) -> bool {
    matches!(ty, INT4RANGE | INT8RANGE | DATERANGE)
}

/// How far one value of a range's subtype lies behind another, as PostgreSQL's subdiff functions say it; None: the type
/// has no such function.
pub fn distance(subtype: Oid, from: &Datum, to: &Datum) -> Option<f64> {
    let seconds = |micros: i64| micros as f64 / 1e6;
    Some(match (subtype, from, to) {
        (INT4, Datum::Int4(a), Datum::Int4(b)) => f64::from(*b) - f64::from(*a),
        (INT8, Datum::Int8(a), Datum::Int8(b)) => *b as f64 - *a as f64,
        (FLOAT8, Datum::Float8(a), Datum::Float8(b)) => b - a,
        (NUMERIC, Datum::Numeric(a), Datum::Numeric(b)) => b.sub(a).to_f64(),
        (DATE, Datum::Date(a), Datum::Date(b)) => f64::from(*b) - f64::from(*a),
        (TIMESTAMP, Datum::Timestamp(a), Datum::Timestamp(b)) => seconds(b.wrapping_sub(*a)),
        (TIMESTAMPTZ, Datum::TimestampTz(a), Datum::TimestampTz(b)) => seconds(b.wrapping_sub(*a)),
        _ => return None,
    })
}

impl Range {
    /// The distance between the bounds; infinite without one of them, and one where the type has no distances.
    pub fn length(&self) -> f64 {
        match &self.bounds {
            Some((lower, upper)) if lower.is_infinite() || upper.is_infinite() => f64::INFINITY,
            Some((lower, upper)) => distance(self.ty.subtype, &lower.value, &upper.value).unwrap_or(1.0),
            None => 0.0,
        }
    }
    pub fn empty(ty: RangeType) -> Range {
        Range { ty, bounds: None }
    }
    pub fn is_empty(&self) -> bool {
        self.bounds.is_none()
    }
    pub fn make(ty: RangeType, mut lower: RangeBound, mut upper: RangeBound) -> Result<Range> {
        if Self::holds_nothing(ty, &lower, &upper)? {
            return Ok(Range::empty(ty));
        }
        if is_discrete(ty.oid) {
            if !lower.is_infinite()
                && !lower.inclusive
                && let Some(value) = next(ty.oid, &lower.value)?
            {
                lower = RangeBound::lower(value, true);
            }
            if !upper.is_infinite()
                && upper.inclusive
                && let Some(value) = next(ty.oid, &upper.value)?
            {
                upper = RangeBound::upper(value, false);
            }
            if Self::holds_nothing(ty, &lower, &upper)? {
                return Ok(Range::empty(ty));
            }
        }
        lower.inclusive &= !lower.is_infinite();
        upper.inclusive &= !upper.is_infinite();
        Ok(Range { ty, bounds: Some((lower, upper)) })
    }
    fn holds_nothing(ty: RangeType, lower: &RangeBound, upper: &RangeBound) -> Result<bool> {
        match lower.compare_values(upper, ty.subtype) {
            Ordering::Less => Ok(false),
            Ordering::Equal => Ok(!(lower.inclusive && upper.inclusive)),
            Ordering::Greater => Err(data("range lower bound must be less than or equal to range upper bound")),
        }
    }
    pub fn flags(&self) -> u8 {
        let Some((lower, upper)) = &self.bounds else { return EMPTY };
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        bit(lower.inclusive, LOWER_INCLUSIVE)
            | bit(upper.inclusive, UPPER_INCLUSIVE)
            | bit(lower.is_infinite(), LOWER_INFINITE)
            | bit(upper.is_infinite(), UPPER_INFINITE)
    }
    /// Empty ranges first, then by lower and upper bounds.
    pub fn compare(&self, other: &Range) -> Ordering {
        match (&self.bounds, &other.bounds) {
            (None, None) => Ordering::Equal,
            (None, _) => Ordering::Less,
            (_, None) => Ordering::Greater,
            (Some((l1, u1)), Some((l2, u2))) => {
                l1.compare(l2, self.ty.subtype).then_with(|| u1.compare(u2, self.ty.subtype))
            }
        }
    }
    /// Both ranges' bounds, if neither is empty.
    fn both<'a>(
        &'a self,
        other: &'a Range,
    ) -> Option<(&'a RangeBound, &'a RangeBound, &'a RangeBound, &'a RangeBound)> {
        match (&self.bounds, &other.bounds) {
            (Some((l1, u1)), Some((l2, u2))) => Some((l1, u1, l2, u2)),
            _ => None,
        }
    }
    fn order(&self, a: &RangeBound, b: &RangeBound) -> Ordering {
        a.compare(b, self.ty.subtype)
    }
    pub fn contains(&self, other: &Range) -> bool {
        if other.is_empty() {
            return true;
        }
        self.both(other).is_some_and(|(l1, u1, l2, u2)| self.order(l1, l2).is_le() && self.order(u1, u2).is_ge())
    }
    pub fn contains_value(&self, value: &Datum) -> bool {
        self.bounds.as_ref().is_some_and(|(lower, upper)| {
            let above = lower.is_infinite() || {
                let order = compare(self.ty.subtype, &lower.value, value);
                order.is_lt() || order.is_eq() && lower.inclusive
            };
            above
                && (upper.is_infinite() || {
                    let order = compare(self.ty.subtype, value, &upper.value);
                    order.is_lt() || order.is_eq() && upper.inclusive
                })
        })
    }
    pub fn overlaps(&self, other: &Range) -> bool {
        self.both(other).is_some_and(|(l1, u1, l2, u2)| self.order(l1, u2).is_le() && self.order(l2, u1).is_le())
    }
    pub fn is_before(&self, other: &Range) -> bool {
        self.both(other).is_some_and(|(_, u1, l2, _)| self.order(u1, l2).is_lt())
    }
    pub fn ends_within(&self, other: &Range) -> bool {
        self.both(other).is_some_and(|(_, u1, _, u2)| self.order(u1, u2).is_le())
    }
    pub fn starts_within(&self, other: &Range) -> bool {
        self.both(other).is_some_and(|(l1, _, l2, _)| self.order(l1, l2).is_ge())
    }
    pub fn is_adjacent(&self, other: &Range) -> bool {
        self.both(other).is_some_and(|(l1, u1, l2, u2)| self.touches(u1, l2) || self.touches(u2, l1))
    }
    /// Whether nothing lies between an upper bound and a lower one, and nothing in both.
    pub fn touches(&self, upper: &RangeBound, lower: &RangeBound) -> bool {
        match upper.compare_values(lower, self.ty.subtype) {
            Ordering::Less => {
                is_discrete(self.ty.oid)
                    && Range::make(self.ty, upper.flipped(), lower.flipped()).is_ok_and(|r| r.is_empty())
            }
            Ordering::Equal => upper.inclusive != lower.inclusive,
            Ordering::Greater => false,
        }
    }
    /// The smallest range that holds both; `strict`: unless it holds more than both.
    pub fn union(&self, other: &Range, strict: bool) -> Result<Range> {
        let Some((l1, u1, l2, u2)) = self.both(other) else {
            return Ok(if self.is_empty() { other.clone() } else { self.clone() });
        };
        if strict && !self.overlaps(other) && !self.is_adjacent(other) {
            return Err(data("result of range union would not be contiguous"));
        }
        let lower = if self.order(l1, l2).is_lt() { l1 } else { l2 };
        let upper = if self.order(u1, u2).is_gt() { u1 } else { u2 };
        Range::make(self.ty, lower.clone(), upper.clone())
    }
    pub fn intersect(&self, other: &Range) -> Result<Range> {
        match self.both(other) {
            Some((l1, u1, l2, u2)) if self.overlaps(other) => {
                let lower = if self.order(l1, l2).is_ge() { l1 } else { l2 };
                let upper = if self.order(u1, u2).is_le() { u1 } else { u2 };
                Range::make(self.ty, lower.clone(), upper.clone())
            }
            _ => Ok(Range::empty(self.ty)),
        }
    }
    /// What is left of the range on both sides of another one.
    pub fn without(&self, other: &Range) -> Result<(Range, Range)> {
        let empty = || Range::empty(self.ty);
        let Some((l1, u1, l2, u2)) = self.both(other).filter(|_| self.overlaps(other)) else {
            return Ok((self.clone(), empty()));
        };
        let left = if self.order(l1, l2).is_lt() { Range::make(self.ty, l1.clone(), l2.flipped())? } else { empty() };
        let right = if self.order(u1, u2).is_gt() { Range::make(self.ty, u2.flipped(), u1.clone())? } else { empty() };
        Ok((left, right))
    }
    pub fn minus(&self, other: &Range) -> Result<Range> {
        match self.without(other)? {
            (left, right) if right.is_empty() => Ok(left),
            (left, right) if left.is_empty() => Ok(right),
            _ => Err(data("result of range difference would not be contiguous")),
        }
    }
    pub fn datum(self) -> Datum {
        Datum::Range(Arc::new(self))
    }
}

impl Multirange {
    pub fn make(ty: RangeType, mut ranges: Vec<Range>) -> Result<Multirange> {
        // Set operations give ranges in their order already, and sorting many with steps takes no notice of that.
        if ranges.len() <= FEW || !Self::are_sorted(&ranges)? {
            work::sort_by(&mut ranges, Range::compare)?;
        }
        let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            work::step(UNITS_OF_RANGE)?;
            match merged.last_mut() {
                _ if range.is_empty() => {}
                Some(last) if last.overlaps(&range) || last.is_adjacent(&range) => *last = last.union(&range, false)?,
                _ => merged.push(range),
            }
        }
        Ok(Multirange { ty, ranges: merged })
    }
    fn are_sorted(ranges: &[Range]) -> Result<bool> {
        for pair in work::steps(ranges.windows(2), UNITS_OF_RANGE) {
            if matches!(pair?, [a, b] if a.compare(b).is_gt()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// The range from the first lower bound to the last upper one.
    pub fn span(&self) -> Range {
        let bounds = match (self.ranges.first(), self.ranges.last()) {
            (Some(Range { bounds: Some((lower, _)), .. }), Some(Range { bounds: Some((_, upper)), .. })) => {
                Some((lower.clone(), upper.clone()))
            }
            _ => None,
        };
        Range { ty: self.ty, bounds }
    }
    pub fn compare(&self, other: &Multirange) -> Ordering {
        let pairs = self.ranges.iter().zip(&other.ranges);
        pairs
            .map(|(a, b)| a.compare(b))
            .find(|o| o.is_ne())
            .unwrap_or_else(|| self.ranges.len().cmp(&other.ranges.len()))
    }
    /// Ranges that overlap with this one: found by halving.
    fn overlapping(&self, range: &Range) -> &[Range] {
        let from = self.ranges.partition_point(|r| r.is_before(range));
        let to = self.ranges.partition_point(|r| !range.is_before(r)).max(from);
        if range.is_empty() { &[] } else { &self.ranges[from..to] }
    }
    pub fn contains_value(&self, value: &Datum) -> bool {
        let at = self.ranges.partition_point(|r| {
            r.bounds.as_ref().is_some_and(|(_, upper)| {
                !upper.is_infinite() && {
                    let order = compare(self.ty.subtype, &upper.value, value);
                    order.is_lt() || order.is_eq() && !upper.inclusive
                }
            })
        });
        self.ranges.get(at).is_some_and(|r| r.contains_value(value))
    }
    pub fn contains_range(&self, range: &Range) -> bool {
        range.is_empty() || matches!(self.overlapping(range), [one] if one.contains(range))
    }
    pub fn contains(&self, other: &Multirange) -> Result<bool> {
        for range in work::steps(&other.ranges, UNITS_OF_SEARCH) {
            if !self.contains_range(range?) {
                return Ok(false);
            }
        }
        Ok(true)
    }
    pub fn overlaps_range(&self, range: &Range) -> bool {
        !self.overlapping(range).is_empty()
    }
    pub fn overlaps(&self, other: &Multirange) -> Result<bool> {
        let (few, many) = if self.ranges.len() < other.ranges.len() { (self, other) } else { (other, self) };
        for range in work::steps(&few.ranges, UNITS_OF_SEARCH) {
            if many.overlaps_range(range?) {
                return Ok(true);
            }
        }
        Ok(false)
    }
    pub fn union(&self, other: &Multirange) -> Result<Multirange> {
        let mut all = Vec::with_capacity(self.ranges.len() + other.ranges.len());
        append(&mut all, &self.ranges)?;
        append(&mut all, &other.ranges)?;
        Multirange::make(self.ty, all)
    }
    pub fn intersect(&self, other: &Multirange) -> Result<Multirange> {
        let mut out = Vec::new();
        for a in work::steps(&self.ranges, UNITS_OF_SEARCH) {
            let a = a?;
            for b in work::steps(other.overlapping(a), UNITS_OF_RANGE) {
                out.push(a.intersect(b?)?);
            }
        }
        Multirange::make(self.ty, out)
    }
    pub fn minus(&self, other: &Multirange) -> Result<Multirange> {
        let mut out = Vec::new();
        for range in work::steps(&self.ranges, UNITS_OF_SEARCH) {
            let range = range?;
            let mut rest = range.clone();
            for b in work::steps(other.overlapping(range), 2 * UNITS_OF_RANGE) {
                let b = b?;
                let Some((_, upper)) = &rest.bounds else { break };
                let ends = b.bounds.as_ref().is_some_and(|(_, u)| rest.order(upper, u).is_le());
                let (left, right) = rest.without(b)?;
                // What overlaps not at all comes back as the left side.
                if !rest.overlaps(b) {
                    continue;
                }
                out.push(left);
                rest = if ends { Range::empty(self.ty) } else { right };
            }
            out.push(rest);
        }
        Multirange::make(self.ty, out)
    }
    pub fn datum(self) -> Datum {
        Datum::Multirange(Arc::new(self))
    }
}

/// Copies ranges.
pub(crate) fn append(out: &mut Vec<Range>, ranges: &[Range]) -> Result<()> {
    for range in work::steps(ranges, UNITS_OF_RANGE) {
        out.push(range?.clone());
    }
    Ok(())
}

type BoundEncoder<'a> = &'a dyn Fn(Oid, &Datum, &mut Vec<u8>) -> Result<()>;

/// Bytes that sort as [`Range::compare`] does, with `encode` for values.
pub(crate) fn sort_key(range: &Range, encode: BoundEncoder<'_>, out: &mut Vec<u8>) -> Result<()> {
    let Some((lower, upper)) = &range.bounds else {
        out.push(0);
        return Ok(());
    };
    out.push(1);
    if lower.is_infinite() {
        out.push(0);
    } else {
        out.push(1);
        encode(range.ty.subtype, &lower.value, out)?;
        out.push(u8::from(!lower.inclusive));
    }
    if upper.is_infinite() {
        out.push(2);
    } else {
        out.push(1);
        encode(range.ty.subtype, &upper.value, out)?;
        out.push(u8::from(upper.inclusive));
    }
    Ok(())
}

/// A hash of bounds, with PostgreSQL's way to put them together.
pub(crate) fn hash(range: &Range, value: &dyn Fn(&Datum) -> Result<u32>) -> Result<u32> {
    let (lower, upper) = hashes(range, value)?;
    Ok((crate::hash::hash_u32(u32::from(range.flags())) ^ lower).rotate_left(1) ^ upper)
}
pub(crate) fn hash_extended(range: &Range, seed: u64, value: &dyn Fn(&Datum) -> Result<u64>) -> Result<u64> {
    let (lower, upper) = hashes(range, value)?;
    let h = crate::hash::hash_u32_extended(u32::from(range.flags()), seed) ^ lower;
    // Each half is rotated on its own.
    let rotated = (h << 1) & 0xffff_fffe_ffff_fffe | (h >> 31) & 0x1_0000_0001;
    Ok(rotated ^ upper)
}
fn hashes<H: Default>(range: &Range, value: &dyn Fn(&Datum) -> Result<H>) -> Result<(H, H)> {
    let one = |b: Option<&RangeBound>| match b {
        Some(b) if !b.is_infinite() => {
            if !crate::partition_hash::is_hashable(range.ty.subtype) {
                let message =
                    format!("could not identify a hash function for type {}", unhashable_name(range.ty.subtype));
                return Err(Error::new(sqlstate::UNDEFINED_FUNCTION, message));
            }
            value(&b.value)
        }
        _ => Ok(H::default()),
    };
    let bounds = range.bounds.as_ref();
    Ok((one(bounds.map(|b| &b.0))?, one(bounds.map(|b| &b.1))?))
}
fn unhashable_name(oid: Oid) -> &'static str {
    match oid {
        BIT => "bit",
        VARBIT => "bit varying",
        MONEY => "money",
        TSVECTOR => "tsvector",
        TSQUERY => "tsquery",
        _ => "of the range's bounds",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    fn ranges(first: i32, last: i32) -> Vec<Range> {
        let bound = |v: i32| Datum::Int4(v);
        (first..last)
            .map(|i| {
                Range::make(
                    BUILT_IN[0],
                    RangeBound::lower(bound(i * 4), true),
                    RangeBound::upper(bound(i * 4 + 2), false),
                )
            })
            .collect::<Result<_>>()
            .unwrap()
    }
    fn shown(list: &Multirange) -> Vec<String> {
        list.ranges.iter().map(|r| format!("{:?}", r.bounds)).collect()
    }

    #[test]
    fn ranges_are_sorted_whatever_their_order_was() {
        let sorted = Multirange::make(BUILT_IN[0], ranges(0, 10_000)).unwrap();
        assert_eq!(sorted.ranges.len(), 10_000);
        let mut mixed = ranges(0, 10_000);
        mixed.rotate_left(3_000);
        mixed.insert(17, Range::empty(BUILT_IN[0]));
        assert_eq!(shown(&Multirange::make(BUILT_IN[0], mixed).unwrap()), shown(&sorted));
    }

    #[test]
    fn many_ranges_give_way() {
        let count = 20_000;
        let of = |list| Multirange::make(BUILT_IN[0], list).unwrap();
        let (all, even, reversed) = (of(ranges(0, count)), of(ranges(0, count).into_iter().step_by(2).collect()), {
            ranges(0, count).into_iter().rev().collect::<Vec<_>>()
        });
        let many = count as usize;
        asks(worth(many * UNITS_OF_RANGE), |_| Multirange::make(BUILT_IN[0], reversed.clone()).map(|_| ()));
        asks(worth(many * UNITS_OF_RANGE), |_| all.union(&even).map(|_| ()));
        asks(worth(many * UNITS_OF_SEARCH), |_| all.intersect(&even).map(|_| ()));
        asks(worth(many * UNITS_OF_SEARCH), |_| all.minus(&even).map(|_| ()));
        asks(worth(many / 2 * UNITS_OF_SEARCH), |_| all.contains(&even));
        let odd = of(ranges(0, count).into_iter().skip(1).step_by(2).collect());
        asks(worth(many / 2 * UNITS_OF_SEARCH), |_| odd.overlaps(&even));
    }
}
