//! NUMERIC operators and functions.

use crate::numeric::{Numeric, factorial, width_bucket};
use kilndb_base::{Error, Result, sqlstate};

fn clamp(scale: i32) -> i32 {
    scale.clamp(-(0x7fff + 1) * 4 - 1, 0x3fff)
}
fn unless_special(n: &Numeric, v: i32) -> Option<i32> {
    n.is_finite().then_some(v)
}
fn checked(n: Numeric) -> Result<Numeric> {
    n.checked()
}
fn sign(n: &Numeric) -> Numeric {
    if n.is_nan() { Numeric::nan() } else { Numeric::from(n.signum()) }
}
fn lsn(v: &Numeric) -> Result<u64> {
    if !v.is_finite() {
        let what = if v.is_nan() { "NaN" } else { "infinity" };
        return Err(Error::unsupported(format!("cannot convert {what} to pg_lsn")));
    }
    let range = || Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "pg_lsn out of range");
    u64::try_from(v.to_i128().ok_or_else(range)?).map_err(|_| range())
}

scalars! {
    fn numeric_add(_c; a: numeric, b: numeric) = checked(a.add(b))?;
    fn numeric_sub(_c; a: numeric, b: numeric) = checked(a.sub(b))?;
    fn numeric_mul(_c; a: numeric, b: numeric) = checked(a.mul(b))?;
    fn numeric_div(_c; a: numeric, b: numeric) = a.div(b)?;
    fn numeric_div_trunc(_c; a: numeric, b: numeric) = a.div_trunc(b)?;
    fn numeric_mod(_c; a: numeric, b: numeric) = a.rem(b)?;
    fn numeric_abs(_c; a: numeric) = a.abs();
    fn numeric_uminus(_c; a: numeric) = a.neg();
    fn numeric_uplus(_c; a: numeric) = a.clone();
    fn numeric_sign(_c; a: numeric) = sign(a);
    fn numeric_round(_c; a: numeric, scale: int4) = checked(a.round_to(clamp(scale)))?;
    fn numeric_trunc(_c; a: numeric, scale: int4) = checked(a.trunc_to(clamp(scale)))?;
    fn p1708_round(_c; a: numeric) = checked(a.round_to(0))?;
    fn p1710_trunc(_c; a: numeric) = a.trunc_to(0);
    fn numeric_ceil(_c; a: numeric) = a.ceil();
    fn numeric_floor(_c; a: numeric) = a.floor();
    fn numeric_sqrt(_c; a: numeric) = a.sqrt()?;
    fn numeric_exp(_c; a: numeric) = a.exp()?;
    fn numeric_ln(_c; a: numeric) = a.ln()?;
    fn numeric_log(_c; base: numeric, a: numeric) = Numeric::log(base, a)?;
    fn p1481_log10(_c; a: numeric) = Numeric::log(&Numeric::from(10), a)?;
    fn p1741_log(_c; a: numeric) = Numeric::log(&Numeric::from(10), a)?;
    fn numeric_power(_c; a: numeric, b: numeric) = a.power(b)?;
    fn numeric_inc(_c; a: numeric) = checked(a.add(&Numeric::one()))?;
    fn numeric_fac(_c; a: int8) = factorial(a)?;
    fn numeric_gcd(_c; a: numeric, b: numeric) = a.gcd(b)?;
    fn numeric_lcm(_c; a: numeric, b: numeric) = a.lcm(b)?;
    fn numeric_scale(_c; a: numeric) = unless_special(a, a.dscale());
    fn numeric_min_scale(_c; a: numeric) = unless_special(a, a.min_scale());
    fn numeric_trim_scale(_c; a: numeric) = if a.is_finite() { a.trim_scale() } else { a.clone() };
    fn width_bucket_numeric(_c; v: numeric, low: numeric, high: numeric, count: int4) = width_bucket(v, low, high, count)?;
    fn numeric_pg_lsn(_c; a: numeric) = lsn(a)?;
    fn pg_lsn_mi(_c; a: big, b: big) = Numeric::from(i128::from(a) - i128::from(b));
    fn pg_lsn_pli(_c; a: big, b: numeric) = if b.is_nan() { return Err(Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "cannot add NaN to pg_lsn")) } else { lsn(&Numeric::from(i128::from(a)).add(b))? };
    fn p5023_numeric_pl_pg_lsn(_c; b: numeric, a: big) = lsn(&Numeric::from(i128::from(a)).add(b))?;
    fn pg_lsn_mii(_c; a: big, b: numeric) = if b.is_nan() { return Err(Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "cannot subtract NaN from pg_lsn")) } else { lsn(&Numeric::from(i128::from(a)).sub(b))? };
}
