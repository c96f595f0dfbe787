//! Arithmetic of vectors. Whatever overflows is left to the function itself, which raises the error or computes with more
//! digits.

use super::compare::power;
use super::{IntegerKind, Rows, Vector, VectorValues};
use crate::functions::descriptor::Arithmetic;

/// The results of `f` for each row; false as soon as it has none.
#[inline(always)]
fn fill<T: Copy>(rows: Rows<'_>, found: &mut [T], mut f: impl FnMut(usize) -> Option<T>) -> bool {
    rows.all(|row| match f(row) {
        Some(value) => {
            found[row] = value;
            true
        }
        None => false,
    })
}

/// Operations on two words.
#[inline(always)]
fn words(
    rows: Rows<'_>,
    (a, b): (&Vector, &Vector),
    (x, y): (&[i64], &[i64]),
    found: &mut [i64],
    f: impl Fn(i64, i64) -> Option<i64>,
) -> bool {
    match (a.is_constant(), b.is_constant()) {
        (false, false) => fill(rows, found, |row| f(x[row], y[row])),
        (false, true) => {
            let y = y[0];
            fill(rows, found, |row| f(x[row], y))
        }
        _ => fill(rows, found, |row| f(x[a.at(row)], y[b.at(row)])),
    }
}

fn in_range(kind: IntegerKind, value: i64) -> Option<i64> {
    match kind {
        IntegerKind::Int2 => i16::try_from(value).ok().map(i64::from),
        IntegerKind::Int4 | IntegerKind::Date => i32::try_from(value).ok().map(i64::from),
        _ => Some(value),
    }
}

/// Arithmetic of two integers, whose result has the wider type: int8 if `is_wide`, else int4.
pub fn integer_arithmetic(op: Arithmetic, is_wide: bool, rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let kind = if is_wide { IntegerKind::Int8 } else { IntegerKind::Int4 };
    match op {
        Arithmetic::Plus => integers(kind, rows, args, out, i64::checked_add),
        Arithmetic::Minus => integers(kind, rows, args, out, i64::checked_sub),
        Arithmetic::Times => integers(kind, rows, args, out, i64::checked_mul),
        Arithmetic::Divide => integers(kind, rows, args, out, i64::checked_div),
        Arithmetic::Modulo => integers(kind, rows, args, out, i64::checked_rem),
    }
}

#[inline(always)]
fn integers(
    kind: IntegerKind,
    rows: Rows<'_>,
    args: &[&Vector],
    out: &mut Vector,
    f: impl Fn(i64, i64) -> Option<i64>,
) -> bool {
    let [a, b] = *args else { return false };
    let (VectorValues::Integers(left, x), VectorValues::Integers(right, y)) = (&a.values, &b.values) else {
        return false;
    };
    if !left.is_number() || !right.is_number() {
        return false;
    }
    let found = out.start_integers(kind, rows.positions());
    words(rows, (a, b), (x, y), found, |x, y| in_range(kind, f(x, y)?))
}

macro_rules! integer_functions {
    ($($name:ident: $kind:ident, $f:expr;)*) => { $(
        pub(super) fn $name(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
            integers(IntegerKind::$kind, rows, args, out, $f)
        }
    )* };
}
integer_functions! {
    int4_divide: Int4, i64::checked_div;
    int8_divide: Int8, i64::checked_div;
    int4_remainder: Int4, i64::checked_rem;
    int8_remainder: Int8, i64::checked_rem;
    int8_add: Int8, i64::checked_add;
    int8_subtract: Int8, i64::checked_sub;
    int8_multiply: Int8, i64::checked_mul;
}

/// Arithmetic of short numerics, both brought to as many decimals as the side that has more.
#[inline(always)]
fn aligned(rows: Rows<'_>, args: &[&Vector], out: &mut Vector, f: impl Fn(i64, i64) -> Option<i64>) -> bool {
    let [a, b] = *args else { return false };
    let (VectorValues::Decimals(left, x), VectorValues::Decimals(right, y)) = (&a.values, &b.values) else {
        return false;
    };
    let decimals = *left.max(right);
    let (scale_x, scale_y) = (power(decimals - left), power(decimals - right));
    let found = out.start_decimals(decimals, rows.positions());
    match (scale_x, scale_y) {
        (1, 1) => words(rows, (a, b), (x, y), found, |x, y| short(f(x, y)?)),
        // A constant is multiplied once.
        (_, 1) if a.is_constant() => {
            let Some(x) = x[0].checked_mul(scale_x) else { return false };
            fill(rows, found, |row| short(f(x, y[b.at(row)])?))
        }
        (1, _) if b.is_constant() => {
            let Some(y) = y[0].checked_mul(scale_y) else { return false };
            fill(rows, found, |row| short(f(x[a.at(row)], y)?))
        }
        _ => words(rows, (a, b), (x, y), found, |x, y| short(f(x.checked_mul(scale_x)?, y.checked_mul(scale_y)?)?)),
    }
}

/// The one word that no short numeric has.
#[inline(always)]
fn short(value: i64) -> Option<i64> {
    (value != i64::MIN).then_some(value)
}

pub(super) fn numeric_add(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    aligned(rows, args, out, i64::checked_add)
}
pub(super) fn numeric_subtract(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    aligned(rows, args, out, i64::checked_sub)
}
pub(super) fn numeric_multiply(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [a, b] = *args else { return false };
    let (VectorValues::Decimals(left, x), VectorValues::Decimals(right, y)) = (&a.values, &b.values) else {
        return false;
    };
    let decimals = left + right;
    if decimals > crate::numeric::SHORT_DECIMALS_MAX {
        return false;
    }
    let found = out.start_decimals(decimals, rows.positions());
    words(rows, (a, b), (x, y), found, |x, y| short(x.checked_mul(y)?))
}

/// Arithmetic of float8; an infinite result of finite numbers, or a division by zero, is an error of the function's.
#[inline(always)]
fn doubles(rows: Rows<'_>, args: &[&Vector], out: &mut Vector, f: impl Fn(f64, f64) -> Option<f64>) -> bool {
    let [a, b] = *args else { return false };
    let (VectorValues::Doubles(x), VectorValues::Doubles(y)) = (&a.values, &b.values) else { return false };
    let found = out.start_doubles(rows.positions());
    fill(rows, found, |row| f(x[a.at(row)], y[b.at(row)]).filter(|v| v.is_finite()))
}
pub(super) fn float8_add(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    doubles(rows, args, out, |x, y| Some(x + y))
}
pub(super) fn float8_subtract(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    doubles(rows, args, out, |x, y| Some(x - y))
}
pub(super) fn float8_multiply(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    // A product of zero that no factor is the reason for is an underflow.
    doubles(rows, args, out, |x, y| Some(x * y).filter(|v| *v != 0.0 || x == 0.0 || y == 0.0))
}
pub(super) fn float8_divide(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    doubles(rows, args, out, |x, y| (y != 0.0).then(|| x / y).filter(|v| *v != 0.0 || x == 0.0))
}

/// Days added to dates. Infinite dates are for the function itself.
#[inline(always)]
fn days(rows: Rows<'_>, args: &[&Vector], out: &mut Vector, sign: i64) -> bool {
    let [a, b] = *args else { return false };
    let (VectorValues::Integers(IntegerKind::Date, x), VectorValues::Integers(IntegerKind::Int4, y)) =
        (&a.values, &b.values)
    else {
        return false;
    };
    let found = out.start_integers(IntegerKind::Date, rows.positions());
    // What is surely within the range of dates.
    let plain = |day: i64| (-2_400_000..2_000_000_000).contains(&day).then_some(day);
    words(rows, (a, b), (x, y), found, |x, y| plain(plain(x)? + sign * y))
}
pub(super) fn date_add(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    days(rows, args, out, 1)
}
pub(super) fn date_subtract(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    days(rows, args, out, -1)
}

/// Copies words to another kind.
#[inline(always)]
fn converted(args: &[&Vector], f: impl FnOnce(&Vector, &[i64]) -> bool) -> bool {
    let [a] = *args else { return false };
    let VectorValues::Integers(kind, x) = &a.values else { return false };
    kind.is_number() && f(a, x)
}
pub(super) fn to_int8(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    converted(args, |a, x| {
        let found = out.start_integers(IntegerKind::Int8, rows.positions());
        rows.each(|row| found[row] = x[a.at(row)]);
        true
    })
}
pub(super) fn to_numeric(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    converted(args, |a, x| {
        let found = out.start_decimals(0, rows.positions());
        fill(rows, found, |row| short(x[a.at(row)]))
    })
}
pub(super) fn to_float8(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    converted(args, |a, x| {
        let found = out.start_doubles(rows.positions());
        rows.each(|row| found[row] = x[a.at(row)] as f64);
        true
    })
}
