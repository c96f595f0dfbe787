//! Comparison operators and btree support functions, one of each for all types: the datum says what it is.

use super::get::arg;
use crate::key::{compare, compare_f64};
use crate::oids::BPCHAR;
use crate::types::folding;
use crate::{Datum, EvalContext, Record, datetime, row};
use kilndb_base::{Error, Oid, Result, sqlstate};
use std::cmp::Ordering;

/// btree order of two arguments, across types where PostgreSQL compares across types.
fn order(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Ordering> {
    let (a, b) = (arg(args, 0)?, arg(args, 1)?);
    use Datum::*;
    Ok(match (a, b) {
        (Int4(a), Int4(b)) => a.cmp(b),
        (Int8(a), Int8(b)) => a.cmp(b),
        (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Float4(a), Float8(b)) => compare_f64(f64::from(*a), *b),
        (Float8(a), Float4(b)) => compare_f64(*a, f64::from(*b)),
        (Date(a), Timestamp(b)) => date_order(*a, *b, Ok, ctx)?,
        (Timestamp(a), Date(b)) => date_order(*b, *a, Ok, ctx)?.reverse(),
        (Date(a), TimestampTz(b)) => date_order(*a, *b, |v| to_utc(v, ctx), ctx)?,
        (TimestampTz(a), Date(b)) => date_order(*b, *a, |v| to_utc(v, ctx), ctx)?.reverse(),
        (Timestamp(a), TimestampTz(b)) => local_order(*a, *b, ctx),
        (TimestampTz(a), Timestamp(b)) => local_order(*b, *a, ctx).reverse(),
        (Record(a), Record(b)) => record_order(a, b, ctx)?,
        _ => compare(0, a, b),
    })
}
/// Field by field, NULL above everything; what is behind the first difference is not looked at.
fn record_order(a: &Record, b: &Record, ctx: &EvalContext) -> Result<Ordering> {
    fields_in_order(a, b, ctx, &|ty, left, right| match left {
        Datum::Text(_) if folding(ty).is_some() => Ok(compare(ty, left, right)),
        _ => order(ctx, &[left.clone(), right.clone()]),
    })
}
/// Values of one field's type.
type FieldOrder<'a> = &'a dyn Fn(Oid, &Datum, &Datum) -> Result<Ordering>;

fn fields_in_order(a: &Record, b: &Record, ctx: &EvalContext, compared: FieldOrder<'_>) -> Result<Ordering> {
    for (i, ((left_type, left), (right_type, right))) in a.fields.iter().zip(&b.fields).enumerate() {
        if left_type != right_type {
            let (left, right) = (ctx.host.format_type(*left_type, -1), ctx.host.format_type(*right_type, -1));
            let message =
                format!("cannot compare dissimilar column types {left} and {right} at record column {}", i + 1);
            return Err(Error::new(sqlstate::DATATYPE_MISMATCH, message));
        }
        let order = match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compared(*left_type, left, right)?,
        };
        if order.is_ne() {
            return Ok(order);
        }
    }
    if a.fields.len() != b.fields.len() {
        return Err(Error::new(
            sqlstate::DATATYPE_MISMATCH,
            "cannot compare record types with different numbers of columns",
        ));
    }
    Ok(Ordering::Equal)
}
fn to_utc(v: i64, ctx: &EvalContext) -> Result<i64> {
    datetime::local_to_utc(v, &datetime::parse::session_zone(ctx))
}
/// A date beyond the range of timestamps is beyond every finite timestamp.
fn date_order(d: i32, ts: i64, map: impl Fn(i64) -> Result<i64>, _: &EvalContext) -> Result<Ordering> {
    match datetime::date_to_timestamp(d) {
        Ok(v) => Ok(map(v).unwrap_or(i64::MIN + 1).cmp(&ts)),
        Err(_) => Ok(if ts == i64::MAX { Ordering::Less } else { Ordering::Greater }),
    }
}
fn local_order(local: i64, utc: i64, ctx: &EvalContext) -> Ordering {
    match to_utc(local, ctx) {
        Ok(v) => v.cmp(&utc),
        Err(_) if local > 0 => {
            if utc == i64::MAX {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        Err(_) => {
            if utc == i64::MIN {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
    }
}
macro_rules! tests {
    ($($name:ident: $test:expr;)*) => { $(
        pub fn $name(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
            let test: fn(Ordering) -> bool = $test;
            Ok(Datum::Bool(test(order(ctx, args)?)))
        }
    )* };
}
tests! {
    any_eq: |o| o == Ordering::Equal;
    any_ne: |o| o != Ordering::Equal;
    any_lt: |o| o == Ordering::Less;
    any_le: |o| o != Ordering::Greater;
    any_gt: |o| o == Ordering::Greater;
    any_ge: |o| o != Ordering::Less;
}
pub(crate) fn any_cmp(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(order(ctx, args)? as i32))
}
pub(crate) fn any_larger(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(arg(args, if order(ctx, args)? == Ordering::Less { 1 } else { 0 })?.clone())
}
pub(crate) fn any_smaller(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(arg(args, if order(ctx, args)? == Ordering::Greater { 1 } else { 0 })?.clone())
}
/// Rows as they are stored: equal values that look different differ.
fn image_order(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Ordering> {
    match (arg(args, 0)?, arg(args, 1)?) {
        (Datum::Record(a), Datum::Record(b)) => fields_in_order(a, b, ctx, &|ty, left, right| {
            Ok(compare(ty, left, right).then_with(|| row::image(left).cmp(&row::image(right))))
        }),
        _ => Err(Error::internal("function wants records")),
    }
}
macro_rules! image_tests {
    ($($name:ident: $test:expr;)*) => { $(
        pub fn $name(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
            let test: fn(Ordering) -> bool = $test;
            Ok(Datum::Bool(test(image_order(ctx, args)?)))
        }
    )* };
}
image_tests! {
    image_eq: |o| o == Ordering::Equal;
    image_ne: |o| o != Ordering::Equal;
    image_lt: |o| o == Ordering::Less;
    image_le: |o| o != Ordering::Greater;
    image_gt: |o| o == Ordering::Greater;
    image_ge: |o| o != Ordering::Less;
}
pub(crate) fn image_cmp(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(image_order(ctx, args)? as i32))
}
/// bpchar: blanks at the end count for nothing.
fn bpchar_order(args: &[Datum]) -> Result<Ordering> {
    Ok(compare(BPCHAR, arg(args, 0)?, arg(args, 1)?))
}
macro_rules! bpchar_tests {
    ($($name:ident: $test:expr;)*) => { $(
        pub fn $name(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
            let test: fn(Ordering) -> bool = $test;
            Ok(Datum::Bool(test(bpchar_order(args)?)))
        }
    )* };
}
bpchar_tests! {
    bpchar_eq: |o| o == Ordering::Equal;
    bpchar_ne: |o| o != Ordering::Equal;
    bpchar_lt: |o| o == Ordering::Less;
    bpchar_le: |o| o != Ordering::Greater;
    bpchar_gt: |o| o == Ordering::Greater;
    bpchar_ge: |o| o != Ordering::Less;
}
pub(crate) fn bpchar_cmp(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(bpchar_order(args)? as i32))
}
pub(crate) fn bpchar_larger(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(arg(args, if bpchar_order(args)? == Ordering::Less { 1 } else { 0 })?.clone())
}
pub(crate) fn bpchar_smaller(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(arg(args, if bpchar_order(args)? == Ordering::Greater { 1 } else { 0 })?.clone())
}
