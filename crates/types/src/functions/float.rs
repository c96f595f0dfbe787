//! Float arithmetic and mathematics.

use super::int::division_by_zero;
use crate::Datum;
use crate::key::compare_f64;
use kilndb_base::{Error, Result, sqlstate};
use std::cmp::Ordering;

#[cold]
fn overflow() -> Error {
    Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}
#[cold]
fn underflow() -> Error {
    Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}
#[cold]
fn input_range() -> Error {
    Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}
fn inf_ok(r: f64, ok: bool) -> Result<f64> {
    if r.is_infinite() && !ok { Err(overflow()) } else { Ok(r) }
}
fn zero_ok(r: f64, ok: bool) -> Result<f64> {
    if r == 0.0 && !ok { Err(underflow()) } else { Ok(r) }
}
fn add(a: f64, b: f64) -> Result<f64> {
    inf_ok(a + b, a.is_infinite() || b.is_infinite())
}
fn mul(a: f64, b: f64) -> Result<f64> {
    zero_ok(inf_ok(a * b, a.is_infinite() || b.is_infinite())?, a == 0.0 || b == 0.0)
}
fn div(a: f64, b: f64) -> Result<f64> {
    if b == 0.0 && !a.is_nan() {
        return Err(division_by_zero());
    }
    zero_ok(inf_ok(a / b, a.is_infinite())?, a == 0.0 || b.is_infinite())
}
fn single(r: f32, inf: bool, zero: bool) -> Result<f32> {
    if r.is_infinite() && !inf {
        return Err(overflow());
    }
    if r == 0.0 && !zero { Err(underflow()) } else { Ok(r) }
}
fn power(a: f64, b: f64) -> Result<f64> {
    let state = sqlstate::INVALID_ARGUMENT_FOR_POWER_FUNCTION;
    if a.is_nan() {
        return Ok(if b == 0.0 { 1.0 } else { a });
    }
    if b.is_nan() {
        return Ok(if a == 1.0 { 1.0 } else { b });
    }
    if a == 0.0 && b < 0.0 {
        return Err(Error::new(state, "zero raised to a negative power is undefined"));
    }
    if a < 0.0 && b.is_finite() && b.floor() != b {
        return Err(Error::new(state, "a negative number raised to a non-integer power yields a complex result"));
    }
    let r = a.powf(b);
    if a.is_infinite() || b.is_infinite() {
        return Ok(r);
    }
    zero_ok(inf_ok(r, false)?, a == 0.0)
}
fn log_check(a: f64) -> Result<()> {
    let state = sqlstate::INVALID_ARGUMENT_FOR_LOG;
    if a == 0.0 {
        return Err(Error::new(state, "cannot take logarithm of zero"));
    }
    if a < 0.0 { Err(Error::new(state, "cannot take logarithm of a negative number")) } else { Ok(()) }
}
fn exp(a: f64) -> Result<f64> {
    if a.is_infinite() || a.is_nan() {
        return Ok(if a == f64::NEG_INFINITY { 0.0 } else { a });
    }
    zero_ok(inf_ok(a.exp(), false)?, false)
}
fn finite(a: f64) -> Result<f64> {
    if a.is_infinite() { Err(input_range()) } else { Ok(a) }
}
fn within(a: f64, low: f64, high: f64) -> Result<f64> {
    if a < low || a > high { Err(input_range()) } else { Ok(a) }
}

// Degrees: exact at the angles where people expect it.
const RAD: f64 = std::f64::consts::PI / 180.0;
fn sin_q1(x: f64) -> f64 {
    if x <= 30.0 { (x * RAD).sin() / (30.0 * RAD).sin() / 2.0 } else { cos_0_60(90.0 - x) }
}
fn cos_0_60(x: f64) -> f64 {
    1.0 - (1.0 - (x * RAD).cos()) / (1.0 - (60.0 * RAD).cos()) / 2.0
}
fn cos_q1(x: f64) -> f64 {
    if x <= 60.0 { cos_0_60(x) } else { sin_q1(90.0 - x) }
}
fn sind(x: f64) -> f64 {
    let mut x = x % 360.0;
    let mut sign = 1.0;
    if x < 0.0 {
        x = -x;
        sign = -sign;
    }
    if x > 180.0 {
        x = 360.0 - x;
        sign = -sign;
    }
    if x > 90.0 {
        x = 180.0 - x;
    }
    sign * sin_q1(x)
}
fn cosd(x: f64) -> f64 {
    let mut x = (x % 360.0).abs();
    let mut sign = 1.0;
    if x > 180.0 {
        x = 360.0 - x;
    }
    if x > 90.0 {
        x = 180.0 - x;
        sign = -sign;
    }
    sign * cos_q1(x)
}
fn tan_parts(x: f64) -> (f64, f64) {
    let mut x = x % 360.0;
    let mut sign = 1.0;
    if x < 0.0 {
        x = -x;
        sign = -sign;
    }
    if x > 180.0 {
        x = 360.0 - x;
        sign = -sign;
    }
    if x > 90.0 {
        x = 180.0 - x;
        sign = -sign;
    }
    (sign, x)
}
fn tand(x: f64) -> f64 {
    let (sign, x) = tan_parts(x);
    let r = sign * ((sin_q1(x) / cos_q1(x)) / (sin_q1(45.0) / cos_q1(45.0)));
    if r == 0.0 { 0.0 } else { r }
}
fn cotd(x: f64) -> f64 {
    let (sign, x) = tan_parts(x);
    let r = sign * ((cos_q1(x) / sin_q1(x)) / (cos_q1(45.0) / sin_q1(45.0)));
    if r == 0.0 { 0.0 } else { r }
}
fn asin_q1(x: f64) -> f64 {
    if x <= 0.5 { x.asin() / 0.5f64.asin() * 30.0 } else { 90.0 - x.acos() / 0.5f64.acos() * 60.0 }
}
fn acos_q1(x: f64) -> f64 {
    if x <= 0.5 { 90.0 - x.asin() / 0.5f64.asin() * 30.0 } else { x.acos() / 0.5f64.acos() * 60.0 }
}
fn atand(x: f64) -> f64 {
    x.atan() / 1f64.atan() * 45.0
}
fn width_bucket(v: f64, low: f64, high: f64, count: i32) -> Result<i32> {
    let bad = |m: &str| Error::new(sqlstate::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, m);
    if count <= 0 {
        return Err(bad("count must be greater than zero"));
    }
    if v.is_nan() || low.is_nan() || high.is_nan() {
        return Err(bad("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(bad("lower and upper bounds must be finite"));
    }
    let too_big = || Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
    let n = f64::from(count);
    let up = match compare_f64(low, high) {
        Ordering::Equal => return Err(bad("lower bound cannot equal upper bound")),
        o => o == Ordering::Less,
    };
    if if up { v < low } else { v > low } {
        return Ok(0);
    }
    if if up { v >= high } else { v <= high } {
        return count.checked_add(1).ok_or_else(too_big);
    }
    let ratio = if (high - low).is_finite() {
        (v - low) / (high - low)
    } else {
        (v / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)
    };
    let r = (n * ratio) as i64;
    i32::try_from(r.min(i64::from(count) - 1) + 1).map_err(|_| too_big())
}

scalars! {
    fn float8pl(_c; a: float8, b: float8) = add(a, b)?;
    fn float8mi(_c; a: float8, b: float8) = add(a, -b)?;
    fn float8mul(_c; a: float8, b: float8) = mul(a, b)?;
    fn float8div(_c; a: float8, b: float8) = div(a, b)?;
    fn float48pl(_c; a: float4, b: float8) = add(f64::from(a), b)?;
    fn float48mi(_c; a: float4, b: float8) = add(f64::from(a), -b)?;
    fn float48mul(_c; a: float4, b: float8) = mul(f64::from(a), b)?;
    fn float48div(_c; a: float4, b: float8) = div(f64::from(a), b)?;
    fn float84pl(_c; a: float8, b: float4) = add(a, f64::from(b))?;
    fn float84mi(_c; a: float8, b: float4) = add(a, -f64::from(b))?;
    fn float84mul(_c; a: float8, b: float4) = mul(a, f64::from(b))?;
    fn float84div(_c; a: float8, b: float4) = div(a, f64::from(b))?;
    fn float4pl(_c; a: float4, b: float4) = single(a + b, a.is_infinite() || b.is_infinite(), true)?;
    fn float4mi(_c; a: float4, b: float4) = single(a - b, a.is_infinite() || b.is_infinite(), true)?;
    fn float4mul(_c; a: float4, b: float4) = single(a * b, a.is_infinite() || b.is_infinite(), a == 0.0 || b == 0.0)?;
    fn float4div(_c; a: float4, b: float4) = if b == 0.0 && !a.is_nan() { return Err(division_by_zero()) } else { single(a / b, a.is_infinite(), a == 0.0 || b.is_infinite())? };
    fn float4um(_c; a: float4) = -a;
    fn float4up(_c; a: float4) = a;
    fn float4abs(_c; a: float4) = a.abs();
    fn float8um(_c; a: float8) = -a;
    fn float8up(_c; a: float8) = a;
    fn float8abs(_c; a: float8) = a.abs();
    fn dround(_c; a: float8) = a.round_ties_even();
    fn dtrunc(_c; a: float8) = a.trunc();
    fn dceil(_c; a: float8) = a.ceil();
    fn dfloor(_c; a: float8) = a.floor();
    fn dsign(_c; a: float8) = if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else { a.abs().min(0.0).max(if a.is_nan() { f64::NAN } else { 0.0 }) };
    fn dsqrt(_c; a: float8) = if a < 0.0 { return Err(Error::new(sqlstate::INVALID_ARGUMENT_FOR_POWER_FUNCTION, "cannot take square root of a negative number")) } else { a.sqrt() };
    fn dcbrt(_c; a: float8) = a.cbrt();
    fn dpow(_c; a: float8, b: float8) = power(a, b)?;
    fn dexp(_c; a: float8) = exp(a)?;
    fn dlog1(_c; a: float8) = { log_check(a)?; a.ln() };
    fn dlog10(_c; a: float8) = { log_check(a)?; a.log10() };
    fn dsin(_c; a: float8) = finite(a)?.sin();
    fn dcos(_c; a: float8) = finite(a)?.cos();
    fn dtan(_c; a: float8) = finite(a)?.tan();
    fn dcot(_c; a: float8) = 1.0 / finite(a)?.tan();
    fn dasin(_c; a: float8) = within(a, -1.0, 1.0)?.asin();
    fn dacos(_c; a: float8) = within(a, -1.0, 1.0)?.acos();
    fn datan(_c; a: float8) = a.atan();
    fn datan2(_c; a: float8, b: float8) = a.atan2(b);
    fn dsinh(_c; a: float8) = a.sinh();
    fn dcosh(_c; a: float8) = zero_ok(a.cosh(), false)?;
    fn dtanh(_c; a: float8) = a.tanh();
    fn dasinh(_c; a: float8) = libm::asinh(a);
    fn dacosh(_c; a: float8) = if a < 1.0 { return Err(input_range()) } else { libm::acosh(a) };
    fn datanh(_c; a: float8) = if a == -1.0 { f64::NEG_INFINITY } else if a == 1.0 { f64::INFINITY } else { libm::atanh(within(a, -1.0, 1.0)?) };
    fn dsind(_c; a: float8) = sind(finite(a)?);
    fn dcosd(_c; a: float8) = cosd(finite(a)?);
    fn dtand(_c; a: float8) = tand(finite(a)?);
    fn dcotd(_c; a: float8) = cotd(finite(a)?);
    fn dasind(_c; a: float8) = if within(a, -1.0, 1.0)? >= 0.0 { asin_q1(a) } else if a.is_nan() { a } else { -asin_q1(-a) };
    fn dacosd(_c; a: float8) = if within(a, -1.0, 1.0)? >= 0.0 { acos_q1(a) } else if a.is_nan() { a } else { 90.0 + asin_q1(-a) };
    fn datand(_c; a: float8) = atand(a);
    fn datan2d(_c; a: float8, b: float8) = a.atan2(b) / 1f64.atan() * 45.0;
    fn degrees(_c; a: float8) = div(a, RAD)?;
    fn radians(_c; a: float8) = mul(a, RAD)?;
    fn dpi(_c;) = std::f64::consts::PI;
    fn derf(_c; a: float8) = libm::erf(a);
    fn derfc(_c; a: float8) = libm::erfc(a);
    fn dgamma(_c; a: float8) = if a == f64::NEG_INFINITY || (a == a.floor() && a <= 0.0) { return Err(overflow()) } else if a.is_infinite() || a.is_nan() { a } else { zero_ok(inf_ok(libm::tgamma(a), false)?, false)? };
    fn dlgamma(_c; a: float8) = inf_ok(libm::lgamma(a), a.is_infinite())?;
    fn width_bucket_float8(_c; v: float8, low: float8, high: float8, count: int4) = width_bucket(v, low, high, count)?;
    fn drandom(c;) = random_f64(c);
    fn setseed(c; seed: float8) = { set_seed(c, seed)?; Datum::text("") };
    fn drandom_normal(c; mean: float8, dev: float8) = { let u = 1.0 - random_f64(c); let v = random_f64(c); dev * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).sin() + mean };
    fn int4random(c; low: int4, high: int4) = random_int(c, i64::from(low), i64::from(high))? as i32;
    fn int8random(c; low: int8, high: int8) = random_int(c, low, high)?;
    fn numeric_random(c; low: numeric, high: numeric) = random_numeric(c, low, high)?;
}
use crate::EvalContext;
use crate::numeric::Numeric;

/// xoroshiro128**, as PostgreSQL's pg_prng: the same seed gives the same numbers.
pub fn random_u64(ctx: &EvalContext) -> u64 {
    let [s0, s1] = ctx.random_state.get();
    let sx = s1 ^ s0;
    let value = s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
    ctx.random_state.set([s0.rotate_left(24) ^ sx ^ (sx << 16), sx.rotate_left(37)]);
    value
}
fn random_f64(ctx: &EvalContext) -> f64 {
    (random_u64(ctx) >> 12) as f64 / (1u64 << 52) as f64
}
fn set_seed(ctx: &EvalContext, seed: f64) -> Result<()> {
    if !(-1.0..=1.0).contains(&seed) {
        let shown = crate::io::float::general(seed, 6);
        return Err(Error::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("setseed parameter {shown} is out of allowed range [-1,1]"),
        ));
    }
    let mut state = (((1u64 << 52) - 1) as f64 * seed) as i64 as u64;
    let mut split = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut v = state;
        v = (v ^ (v >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        v = (v ^ (v >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        v ^ (v >> 31)
    };
    let (a, b) = (split(), split());
    ctx.random_state.set(if a == 0 && b == 0 { [0x5851_F42D_4C95_7F2D, 0x1405_7B7E_F767_814F] } else { [a, b] });
    Ok(())
}
fn bounds() -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, "lower bound must be less than or equal to upper bound")
}
fn random_int(ctx: &EvalContext, low: i64, high: i64) -> Result<i64> {
    if low > high {
        return Err(bounds());
    }
    let range = high.wrapping_sub(low) as u64;
    if range == 0 {
        return Ok(low);
    }
    let shift = range.leading_zeros();
    loop {
        let v = random_u64(ctx) >> shift;
        if v <= range {
            return Ok(low.wrapping_add(v as i64));
        }
    }
}
fn random_numeric(ctx: &EvalContext, low: &Numeric, high: &Numeric) -> Result<Numeric> {
    for (n, which) in [(low, "lower"), (high, "upper")] {
        if !n.is_finite() {
            let what = if n.is_nan() { "NaN" } else { "infinity" };
            return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("{which} bound cannot be {what}")));
        }
    }
    if low > high {
        return Err(bounds());
    }
    let scale = low.dscale().max(high.dscale());
    let span = high.sub(low).add(&Numeric::from_scaled(1, scale));
    let part = Numeric::from_scaled((random_u64(ctx) >> 2) as i128, 0).div(&Numeric::from(1i64 << 62))?;
    let v = low.add(&span.mul(&part).trunc_to(scale));
    Ok(if v > *high { high.round_to(scale) } else { v.round_to(scale) })
}
