//! Distances of the extension btree_gist: the difference of two values without its sign.

use super::{ScalarFn, datetime, get, int, money};
use crate::datetime::interval::INFINITY;
use crate::datetime::is_finite_ts;
use crate::{Datum, EvalContext, Interval, key, oids};
use kilndb_base::{Error, Result, sqlstate};
use std::cmp::Ordering;
use std::sync::Arc;

/// What a type's `-` makes of the two values, without its sign.
fn without_sign(ctx: &EvalContext<'_>, args: &[&Datum; 2], minus: ScalarFn, abs: ScalarFn) -> Result<Datum> {
    abs(ctx, &[minus(ctx, &[args[0].clone(), args[1].clone()])?])
}

/// A value that is no number is as far away as can be, from all but its like.
fn float_distance(a: f64, b: f64, difference: f64) -> Result<f64> {
    if a == b || a.is_nan() && b.is_nan() {
        return Ok(0.0);
    }
    if a.is_nan() || b.is_nan() {
        return Ok(f64::INFINITY);
    }
    if difference.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
    }
    Ok(difference.abs())
}

fn interval_abs(ctx: &EvalContext<'_>, difference: Datum) -> Result<Datum> {
    let zero = Datum::Interval(Arc::new(Interval { months: 0, days: 0, micros: 0 }));
    match key::compare(oids::INTERVAL, &difference, &zero) {
        Ordering::Less => datetime::interval_um(ctx, &[difference]),
        _ => Ok(difference),
    }
}

/// Of an infinite time everything is infinitely far away.
fn timestamp_distance(ctx: &EvalContext<'_>, a: &Datum, b: &Datum) -> Result<Datum> {
    if !is_finite_ts(get::timestamp(a)?) || !is_finite_ts(get::timestamp(b)?) {
        return Ok(Datum::Interval(Arc::new(INFINITY)));
    }
    interval_abs(ctx, datetime::timestamp_mi(ctx, &[a.clone(), b.clone()])?)
}

scalars! {
    fn int2_dist(c; a: any, b: any) = without_sign(c, &[a, b], int::int2mi, int::int2abs)?;
    fn int4_dist(c; a: any, b: any) = without_sign(c, &[a, b], int::int4mi, int::int4abs)?;
    fn int8_dist(c; a: any, b: any) = without_sign(c, &[a, b], int::int8mi, int::int8abs)?;
    fn oid_dist(_c; a: oid, b: oid) = a.abs_diff(b);
    fn float4_dist(_c; a: float4, b: float4) = float_distance(f64::from(a), f64::from(b), f64::from(a - b))? as f32;
    fn float8_dist(_c; a: float8, b: float8) = float_distance(a, b, a - b)?;
    fn cash_dist(_c; a: any, b: any) = money::distance(a, b)?;
    fn date_dist(_c; a: date, b: date) = datetime::date_diff(a, b)?.abs();
    fn time_dist(_c; a: time, b: time) = Interval { months: 0, days: 0, micros: (a - b).abs() };
    fn ts_dist(c; a: any, b: any) = timestamp_distance(c, a, b)?;
    fn tstz_dist(c; a: any, b: any) = timestamp_distance(c, a, b)?;
    fn interval_dist(c; a: any, b: any) = interval_abs(c, datetime::interval_mi(c, &[a.clone(), b.clone()])?)?;
}
