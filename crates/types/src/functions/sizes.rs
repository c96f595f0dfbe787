//! Sizes as people write them (pg_size_pretty, pg_size_bytes).

use super::get;
use crate::numeric::Numeric;
use crate::{Datum, EvalContext};
use kilndb_base::{Error, Result, sqlstate};

const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
/// Below it bytes are shown as they are.
const BYTES_LIMIT: i128 = 10 * 1024;
/// Beyond bytes one bit more is kept, for the rounding.
const HALVES_LIMIT: i128 = 20 * 1024 - 1;

pub(crate) fn pg_size_pretty(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let mut value = i128::from(get::int8(get::arg(args, 0)?)?);
    let mut unit = 0;
    while value.abs() >= limit(unit) && unit + 1 < UNITS.len() {
        value /= divisor(unit);
        unit += 1;
    }
    let shown = if unit == 0 { value } else { (value + if value < 0 { -1 } else { 1 }) / 2 };
    Ok(Datum::text(format!("{shown} {}", UNITS[unit])))
}
fn limit(unit: usize) -> i128 {
    if unit == 0 { BYTES_LIMIT } else { HALVES_LIMIT }
}
fn divisor(unit: usize) -> i128 {
    if unit == 0 { 512 } else { 1024 }
}

pub(crate) fn pg_size_pretty_numeric(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let mut value = get::numeric(get::arg(args, 0)?)?.clone();
    let mut unit = 0;
    while value.abs() >= Numeric::from(limit(unit)) && unit + 1 < UNITS.len() {
        value = value.div_trunc(&Numeric::from(divisor(unit)))?;
        unit += 1;
    }
    if unit > 0 {
        let one = Numeric::from(1i128);
        let away = if value.signum() < 0 { value.sub(&one) } else { value.add(&one) };
        value = away.div_trunc(&Numeric::from(2i128))?;
    }
    Ok(Datum::text(format!("{value} {}", UNITS[unit])))
}

fn invalid_size(text: &str) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("invalid size: \"{text}\""))
}

/// Length of the number at the start: sign, digits, fraction, exponent if there are digits behind the `e`.
fn number_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let start = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let mut count = digits(start);
    let mut at = start + count;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        count += fraction;
        at += 1 + fraction;
    }
    if count == 0 {
        return None;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(at + 1 + sign..).map_or(0, |_| digits(at + 1 + sign));
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    Some(at)
}

pub(crate) fn pg_size_bytes(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let text = get::text(get::arg(args, 0)?)?;
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let len = number_len(trimmed).ok_or_else(|| invalid_size(text))?;
    let (number, unit) = trimmed.split_at(len);
    let unit = unit.trim_start();
    let number = Numeric::parse(number)?;
    let bytes = match UNITS.iter().position(|u| u.eq_ignore_ascii_case(unit)) {
        _ if unit.is_empty() || unit.eq_ignore_ascii_case("b") => number,
        Some(power) => number.mul(&Numeric::from(1i128 << (10 * power))),
        None => {
            return Err(invalid_size(text)
                .with_detail(format!("Invalid size unit: \"{unit}\"."))
                .with_hint("Valid units are \"bytes\", \"B\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\"."));
        }
    };
    let rounded = bytes.round_to(0);
    let size =
        rounded.to_i64().ok_or_else(|| Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"))?;
    Ok(Datum::Int8(size))
}
