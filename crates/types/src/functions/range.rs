//! Functions of ranges and multiranges.
//!
//! A constructor gets its range type in front of its arguments ([`constructor`]): neither NULL bounds nor an empty list
//! say it.

use super::get;
use crate::range::{Multirange, Range, RangeBound, RangeType};
use crate::{Datum, EvalContext, io};
use kilndb_base::{Error, Oid, Result, sqlstate, work};

/// The function behind a constructor's prosrc; it takes what [`type_arguments`] gives in front of the arguments.
pub fn constructor(source: &str) -> Option<super::ScalarFn> {
    Some(match source {
        "range_constructor2" => construct_range,
        "range_constructor3" => construct_range_with_flags,
        "multirange_constructor0" => construct_empty,
        "multirange_constructor1" => construct_of_one,
        "multirange_constructor2" => construct_of_many,
        _ => return None,
    })
}
pub fn type_arguments(ty: RangeType) -> [Datum; 3] {
    [ty.oid, ty.multirange, ty.subtype].map(Datum::Oid)
}
fn type_of(args: &[Datum]) -> Result<(RangeType, &[Datum])> {
    match args {
        [Datum::Oid(oid), Datum::Oid(multirange), Datum::Oid(subtype), rest @ ..] => {
            Ok((RangeType { oid: *oid, multirange: *multirange, subtype: *subtype }, rest))
        }
        _ => Err(Error::internal("a range's constructor without its type")),
    }
}
fn construct_range(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (ty, rest) = type_of(args)?;
    let value = |at| get::arg(rest, at).cloned();
    Ok(Range::make(ty, RangeBound::lower(value(0)?, true), RangeBound::upper(value(1)?, false))?.datum())
}
fn construct_range_with_flags(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (ty, rest) = type_of(args)?;
    let bad = || {
        Error::new(sqlstate::SYNTAX_ERROR, "invalid range bound flags")
            .with_hint("Valid values are \"[]\", \"[)\", \"(]\", and \"()\".")
    };
    let flags = match get::arg(rest, 2)? {
        Datum::Null => {
            return Err(Error::new(sqlstate::DATA_EXCEPTION, "range constructor flags argument must not be null"));
        }
        flags => get::text(flags)?,
    };
    let (lower, upper) = match flags {
        "[]" => (true, true),
        "[)" => (true, false),
        "(]" => (false, true),
        "()" => (false, false),
        _ => return Err(bad()),
    };
    let value = |at| get::arg(rest, at).cloned();
    Ok(Range::make(ty, RangeBound::lower(value(0)?, lower), RangeBound::upper(value(1)?, upper))?.datum())
}
fn construct_empty(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(Multirange { ty: type_of(args)?.0, ranges: Vec::new() }.datum())
}
fn construct_of_one(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (ty, rest) = type_of(args)?;
    Ok(Multirange::make(ty, vec![get::range(get::arg(rest, 0)?)?.clone()])?.datum())
}
fn construct_of_many(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (ty, rest) = type_of(args)?;
    let list = get::array(get::arg(rest, 0)?)?;
    if list.dims.len() > 1 {
        return Err(Error::new(
            sqlstate::CARDINALITY_VIOLATION,
            "multiranges cannot be constructed from multidimensional arrays",
        ));
    }
    let mut ranges = Vec::with_capacity(list.elements.len());
    for element in work::steps(&list.elements, 30) {
        let element = element?;
        if element.is_null() {
            return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "multirange values cannot contain null members"));
        }
        ranges.push(get::range(element)?.clone());
    }
    Ok(Multirange::make(ty, ranges)?.datum())
}

fn send(c: &EvalContext, t: Oid, d: &Datum) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    io::send(t, d, &mut out, c)?;
    Ok(out)
}
fn lower(r: &Range) -> Datum {
    r.bounds.as_ref().map_or(Datum::Null, |b| b.0.value.clone())
}
fn upper(r: &Range) -> Datum {
    r.bounds.as_ref().map_or(Datum::Null, |b| b.1.value.clone())
}
fn seconds(a: i64, b: i64) -> f64 {
    (a as f64 - b as f64) / 1_000_000.0
}

scalars! {
    fn range_in(c; t: text, ty: oid, _m: any) = io::input(ty, t, -1, c)?;
    fn multirange_in(c; t: text, ty: oid, _m: any) = io::input(ty, t, -1, c)?;
    fn range_out(c; a: any) = io::output_string(0, a, c)?;
    fn multirange_out(c; a: any) = io::output_string(0, a, c)?;
    fn range_send(c; a: any) = send(c, 0, a)?;
    fn multirange_send(c; a: any) = send(c, 0, a)?;

    fn range_lower(_c; a: range) = lower(a);
    fn range_upper(_c; a: range) = upper(a);
    fn range_empty(_c; a: range) = a.is_empty();
    fn range_lower_inc(_c; a: range) = a.bounds.as_ref().is_some_and(|b| b.0.inclusive);
    fn range_upper_inc(_c; a: range) = a.bounds.as_ref().is_some_and(|b| b.1.inclusive);
    fn range_lower_inf(_c; a: range) = a.bounds.as_ref().is_some_and(|b| b.0.is_infinite());
    fn range_upper_inf(_c; a: range) = a.bounds.as_ref().is_some_and(|b| b.1.is_infinite());
    fn range_contains_elem(_c; a: range, e: any) = a.contains_value(e);
    fn elem_contained_by_range(_c; e: any, a: range) = a.contains_value(e);
    fn range_contains(_c; a: range, b: range) = a.contains(b);
    fn range_contained_by(_c; a: range, b: range) = b.contains(a);
    fn range_overlaps(_c; a: range, b: range) = a.overlaps(b);
    fn range_before(_c; a: range, b: range) = a.is_before(b);
    fn range_after(_c; a: range, b: range) = b.is_before(a);
    fn range_overleft(_c; a: range, b: range) = a.ends_within(b);
    fn range_overright(_c; a: range, b: range) = a.starts_within(b);
    fn range_adjacent(_c; a: range, b: range) = a.is_adjacent(b);
    fn range_union(_c; a: range, b: range) = a.union(b, true)?.datum();
    fn range_merge(_c; a: range, b: range) = a.union(b, false)?.datum();
    fn range_intersect(_c; a: range, b: range) = a.intersect(b)?.datum();
    fn range_intersect_agg_transfn(_c; a: range, b: range) = a.intersect(b)?.datum();
    fn range_minus(_c; a: range, b: range) = a.minus(b)?.datum();
    // Every value is in its canonical form.
    fn int4range_canonical(_c; a: any) = a.clone();
    fn int8range_canonical(_c; a: any) = a.clone();
    fn daterange_canonical(_c; a: any) = a.clone();
    fn int4range_subdiff(_c; a: int4, b: int4) = f64::from(a) - f64::from(b);
    fn int8range_subdiff(_c; a: int8, b: int8) = a as f64 - b as f64;
    fn numrange_subdiff(_c; a: numeric, b: numeric) = a.sub(b).to_f64();
    fn daterange_subdiff(_c; a: date, b: date) = f64::from(a) - f64::from(b);
    fn tsrange_subdiff(_c; a: timestamp, b: timestamp) = seconds(a, b);
    fn tstzrange_subdiff(_c; a: timestamp, b: timestamp) = seconds(a, b);

    fn multirange_lower(_c; a: multirange) = lower(&a.span());
    fn multirange_upper(_c; a: multirange) = upper(&a.span());
    fn multirange_empty(_c; a: multirange) = a.is_empty();
    fn multirange_lower_inc(_c; a: multirange) = a.span().bounds.is_some_and(|b| b.0.inclusive);
    fn multirange_upper_inc(_c; a: multirange) = a.span().bounds.is_some_and(|b| b.1.inclusive);
    fn multirange_lower_inf(_c; a: multirange) = a.span().bounds.is_some_and(|b| b.0.is_infinite());
    fn multirange_upper_inf(_c; a: multirange) = a.span().bounds.is_some_and(|b| b.1.is_infinite());
    fn range_merge_from_multirange(_c; a: multirange) = a.span().datum();
    fn multirange_contains_elem(_c; a: multirange, e: any) = a.contains_value(e);
    fn elem_contained_by_multirange(_c; e: any, a: multirange) = a.contains_value(e);
    fn multirange_contains_range(_c; a: multirange, b: range) = a.contains_range(b);
    fn range_contained_by_multirange(_c; a: range, b: multirange) = b.contains_range(a);
    fn range_contains_multirange(_c; a: range, b: multirange) = a.contains(&b.span());
    fn multirange_contained_by_range(_c; a: multirange, b: range) = b.contains(&a.span());
    fn multirange_contains_multirange(_c; a: multirange, b: multirange) = a.contains(b)?;
    fn multirange_contained_by_multirange(_c; a: multirange, b: multirange) = b.contains(a)?;
    fn range_overlaps_multirange(_c; a: range, b: multirange) = b.overlaps_range(a);
    fn multirange_overlaps_range(_c; a: multirange, b: range) = a.overlaps_range(b);
    fn multirange_overlaps_multirange(_c; a: multirange, b: multirange) = a.overlaps(b)?;
    fn range_before_multirange(_c; a: range, b: multirange) = a.is_before(&b.span());
    fn multirange_before_range(_c; a: multirange, b: range) = a.span().is_before(b);
    fn multirange_before_multirange(_c; a: multirange, b: multirange) = a.span().is_before(&b.span());
    fn range_after_multirange(_c; a: range, b: multirange) = b.span().is_before(a);
    fn multirange_after_range(_c; a: multirange, b: range) = b.is_before(&a.span());
    fn multirange_after_multirange(_c; a: multirange, b: multirange) = b.span().is_before(&a.span());
    fn range_overleft_multirange(_c; a: range, b: multirange) = a.ends_within(&b.span());
    fn multirange_overleft_range(_c; a: multirange, b: range) = a.span().ends_within(b);
    fn multirange_overleft_multirange(_c; a: multirange, b: multirange) = a.span().ends_within(&b.span());
    fn range_overright_multirange(_c; a: range, b: multirange) = a.starts_within(&b.span());
    fn multirange_overright_range(_c; a: multirange, b: range) = a.span().starts_within(b);
    fn multirange_overright_multirange(_c; a: multirange, b: multirange) = a.span().starts_within(&b.span());
    fn range_adjacent_multirange(_c; a: range, b: multirange) = b.span().is_adjacent(a);
    fn multirange_adjacent_range(_c; a: multirange, b: range) = a.span().is_adjacent(b);
    fn multirange_adjacent_multirange(_c; a: multirange, b: multirange) = a.span().is_adjacent(&b.span());
    fn multirange_union(_c; a: multirange, b: multirange) = a.union(b)?.datum();
    fn multirange_minus(_c; a: multirange, b: multirange) = a.minus(b)?.datum();
    fn multirange_intersect(_c; a: multirange, b: multirange) = a.intersect(b)?.datum();
    fn multirange_intersect_agg_transfn(_c; a: multirange, b: multirange) = a.intersect(b)?.datum();
}
