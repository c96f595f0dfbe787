//! money: an amount in hundredths, shown as under lc_monetary = C.
//!
//! The whole type is here: its descriptor, its functions and its aggregate. Values are [`OpaqueValue`]: eight bytes that sort
//! as the amounts do.

use super::IntoDatum;
use crate::aggregates::{Accumulator, aggregates};
use crate::io::{self, invalid_syntax};
use crate::numeric::Numeric;
use crate::oids::MONEY;
use crate::types::{BASE, OpaqueType, OpaqueValue, OpaqueWidth, TypeDescriptor, fixed};
use crate::{Datum, EvalContext, cast};
use kilndb_base::{Error, Result, sqlstate};
use std::cmp::Ordering;

const SIGN: u64 = 1 << 63;

pub(crate) const TYPES: &[TypeDescriptor] = &[TypeDescriptor {
    oid: MONEY,
    input: |text, _, _| parse(text).map(datum),
    receive: |bytes, _, _| Ok(datum(i64::from_be_bytes(fixed(bytes)?))),
    output: Some(|value, _, out, _| {
        out.extend_from_slice(shown(amount(value)?).as_bytes());
        Ok(())
    }),
    send: Some(|value, _, out, _| {
        out.extend_from_slice(&amount(value)?.to_be_bytes());
        Ok(())
    }),
    is_hashed: false,
    opaque: Some(OpaqueType { width: OpaqueWidth::Fixed(8), alignment: 8, hash: None }),
    ..BASE
}];

fn datum(amount: i64) -> Datum {
    OpaqueValue::datum(&TYPES[0], &(amount as u64 ^ SIGN).to_be_bytes())
}
fn amount(d: &Datum) -> Result<i64> {
    match d {
        Datum::Opaque(v) if v.ty.oid == MONEY => Ok((u64::from_be_bytes(fixed(&v.bytes)?) ^ SIGN) as i64),
        other => Err(Error::internal(format!("function wants money, got {other:?}"))),
    }
}

/// The difference without its sign.
pub(super) fn distance(a: &Datum, b: &Datum) -> Result<MoneyResult> {
    money(amount(a)?.checked_sub(amount(b)?).and_then(i64::checked_abs))
}

/// The result of a function.
pub(super) struct MoneyResult(i64);
impl IntoDatum for MoneyResult {
    fn into_datum(self) -> Result<Datum> {
        Ok(datum(self.0))
    }
}

#[cold]
fn out_of_range() -> Error {
    Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "money out of range")
}
#[cold]
fn division_by_zero() -> Error {
    Error::new(sqlstate::DIVISION_BY_ZERO, "division by zero")
}
fn money(amount: Option<i64>) -> Result<MoneyResult> {
    amount.map(MoneyResult).ok_or_else(out_of_range)
}
/// Rounded to the nearest even; what is no amount is out of range.
fn rounded(v: f64) -> Result<MoneyResult> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let v = v.round_ties_even();
    if (-LIMIT..LIMIT).contains(&v) { Ok(MoneyResult(v as i64)) } else { Err(out_of_range()) }
}
fn divided(a: i64, b: f64) -> Result<MoneyResult> {
    if b == 0.0 { Err(division_by_zero()) } else { rounded(a as f64 / b) }
}
fn divided_whole(a: i64, b: i64) -> Result<MoneyResult> {
    if b == 0 { Err(division_by_zero()) } else { money(a.checked_div(b)) }
}

/// Spaces, signs, a dollar sign and parentheses may stand around the digits, commas between them.
fn parse(text: &str) -> Result<i64> {
    let too_large = || {
        let message = format!("value \"{text}\" is out of range for type money");
        Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message)
    };
    let spaces = |s: &mut &str| *s = s.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let take = |s: &mut &str, prefix: char| match s.strip_prefix(prefix) {
        Some(rest) => {
            *s = rest;
            true
        }
        None => false,
    };
    let mut s = text;
    spaces(&mut s);
    take(&mut s, '$');
    spaces(&mut s);
    let mut is_negative = take(&mut s, '-') || take(&mut s, '(');
    if !is_negative {
        take(&mut s, '+');
    }
    spaces(&mut s);
    take(&mut s, '$');
    spaces(&mut s);
    // As a negative number, of which there is one more.
    let mut value = 0i64;
    let (mut decimals, mut seen_dot) = (0, false);
    while let Some(c) = s.chars().next() {
        match c {
            '0'..='9' if !seen_dot || decimals < 2 => {
                let digit = i64::from(c as u8 - b'0');
                value = value.checked_mul(10).and_then(|v| v.checked_sub(digit)).ok_or_else(too_large)?;
                decimals += i32::from(seen_dot);
            }
            '.' if !seen_dot => seen_dot = true,
            ',' => {}
            _ => break,
        }
        s = &s[1..];
    }
    if matches!(s.as_bytes().first(), Some(b'5'..=b'9')) {
        value = value.checked_sub(1).ok_or_else(too_large)?;
    }
    for _ in decimals..2 {
        value = value.checked_mul(10).ok_or_else(too_large)?;
    }
    for c in s.trim_start_matches(|c: char| c.is_ascii_digit()).chars() {
        match c {
            '-' => is_negative = true,
            ')' | '+' | '$' | '\x0b' => {}
            c if c.is_ascii_whitespace() => {}
            _ => return Err(invalid_syntax("money", text)),
        }
    }
    if is_negative { Ok(value) } else { value.checked_neg().ok_or_else(too_large) }
}

/// `-$1,234.56`.
fn shown(amount: i64) -> String {
    let (sign, value) = (if amount < 0 { "-" } else { "" }, amount.unsigned_abs());
    let dollars = (value / 100).to_string();
    let mut text = format!("{sign}$");
    for (i, digit) in dollars.chars().enumerate() {
        if i > 0 && (dollars.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + &format!(".{:02}", value % 100)
}

/// A number below a thousand in words.
fn words(value: u64) -> String {
    const SMALL: [&str; 21] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    const TENS: [&str; 10] = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let small = |n: u64| SMALL.get(n as usize).copied().unwrap_or("");
    let rest = value % 100;
    let tens = TENS.get((rest / 10) as usize).copied().unwrap_or("");
    let hundreds = if value > 99 { format!("{} hundred", small(value / 100)) } else { String::new() };
    let (link, rest) = match rest {
        0 if value > 99 => ("", String::new()),
        r if r % 10 == 0 && r > 10 => (" ", tens.to_string()),
        r if r < 20 => (" and ", small(r).to_string()),
        r => (" ", format!("{tens} {}", small(r % 10))),
    };
    if hundreds.is_empty() { rest } else { hundreds + link + &rest }
}
fn in_words(amount: i64) -> String {
    let value = amount.unsigned_abs();
    let (mut text, dollars, cents) = (if amount < 0 { "minus " } else { "" }.to_string(), value / 100, value % 100);
    let groups = [(5, "quadrillion"), (4, "trillion"), (3, "billion"), (2, "million"), (1, "thousand")];
    for (power, name) in groups {
        let group = dollars / 1000u64.pow(power) % 1000;
        if group > 0 {
            text += &format!("{} {name} ", words(group));
        }
    }
    if dollars % 1000 > 0 {
        text += &words(dollars % 1000);
    }
    if dollars == 0 {
        text += "zero";
    }
    text += if dollars == 1 { " dollar and " } else { " dollars and " };
    text += &words(cents);
    text += if cents == 1 { " cent" } else { " cents" };
    text.get(..1).map(str::to_ascii_uppercase).unwrap_or_default() + text.get(1..).unwrap_or("")
}

fn of_numeric(n: &Numeric, ctx: &EvalContext<'_>) -> Result<Datum> {
    let hundredths = n.mul(&Numeric::from(100i32)).into_datum()?;
    match cast::to_int8(&hundredths, -1, true, ctx)? {
        Datum::Int8(v) => Ok(datum(v)),
        _ => Err(Error::internal("a number of another type")),
    }
}
fn of_whole(dollars: i64) -> Result<MoneyResult> {
    dollars.checked_mul(100).map(MoneyResult).ok_or_else(|| cast::out_of_range("bigint"))
}
fn compare(a: &Datum, b: &Datum) -> Result<Ordering> {
    Ok(amount(a)?.cmp(&amount(b)?))
}

scalars! {
    fn cash_in(c; v: text) = io::input(MONEY, v, -1, c)?;
    fn cash_out(_c; v: any) = shown(amount(v)?);
    fn cash_send(_c; v: any) = amount(v)?.to_be_bytes().to_vec();
    fn cash_eq(_c; a: any, b: any) = compare(a, b)?.is_eq();
    fn cash_ne(_c; a: any, b: any) = compare(a, b)?.is_ne();
    fn cash_lt(_c; a: any, b: any) = compare(a, b)?.is_lt();
    fn cash_le(_c; a: any, b: any) = compare(a, b)?.is_le();
    fn cash_gt(_c; a: any, b: any) = compare(a, b)?.is_gt();
    fn cash_ge(_c; a: any, b: any) = compare(a, b)?.is_ge();
    fn cash_cmp(_c; a: any, b: any) = compare(a, b)? as i32;
    fn cashlarger(_c; a: any, b: any) = MoneyResult(amount(a)?.max(amount(b)?));
    fn cashsmaller(_c; a: any, b: any) = MoneyResult(amount(a)?.min(amount(b)?));
    fn cash_pl(_c; a: any, b: any) = money(amount(a)?.checked_add(amount(b)?))?;
    fn cash_mi(_c; a: any, b: any) = money(amount(a)?.checked_sub(amount(b)?))?;
    fn cash_mul_flt8(_c; a: any, b: float8) = rounded(amount(a)? as f64 * b)?;
    fn flt8_mul_cash(_c; a: float8, b: any) = rounded(a * amount(b)? as f64)?;
    fn cash_mul_flt4(_c; a: any, b: float4) = rounded(amount(a)? as f64 * f64::from(b))?;
    fn flt4_mul_cash(_c; a: float4, b: any) = rounded(f64::from(a) * amount(b)? as f64)?;
    fn cash_mul_int8(_c; a: any, b: int8) = money(amount(a)?.checked_mul(b))?;
    fn int8_mul_cash(_c; a: int8, b: any) = money(amount(b)?.checked_mul(a))?;
    fn cash_mul_int4(_c; a: any, b: int8) = money(amount(a)?.checked_mul(b))?;
    fn int4_mul_cash(_c; a: int8, b: any) = money(amount(b)?.checked_mul(a))?;
    fn cash_mul_int2(_c; a: any, b: int8) = money(amount(a)?.checked_mul(b))?;
    fn int2_mul_cash(_c; a: int8, b: any) = money(amount(b)?.checked_mul(a))?;
    fn cash_div_flt8(_c; a: any, b: float8) = divided(amount(a)?, b)?;
    fn cash_div_flt4(_c; a: any, b: float4) = divided(amount(a)?, f64::from(b))?;
    fn cash_div_int8(_c; a: any, b: int8) = divided_whole(amount(a)?, b)?;
    fn cash_div_int4(_c; a: any, b: int8) = divided_whole(amount(a)?, b)?;
    fn cash_div_int2(_c; a: any, b: int8) = divided_whole(amount(a)?, b)?;
    fn cash_div_cash(_c; a: any, b: any) = {
        let (a, b) = (amount(a)?, amount(b)?);
        if b == 0 {
            return Err(division_by_zero());
        }
        a as f64 / b as f64
    };
    fn cash_words(_c; a: any) = in_words(amount(a)?);
    fn cash_numeric(_c; a: any) = {
        let a = amount(a)?;
        let sign = if a < 0 { "-" } else { "" };
        Numeric::parse(&format!("{sign}{}.{:02}", a.unsigned_abs() / 100, a.unsigned_abs() % 100))?
    };
    fn numeric_cash(c; n: numeric) = of_numeric(n, c)?;
    fn int4_cash(_c; n: int8) = of_whole(n)?;
    fn int8_cash(_c; n: int8) = of_whole(n)?;
}

#[derive(Default)]
struct MoneySum {
    count: i64,
    sum: i64,
}
impl Accumulator for MoneySum {
    fn add(&mut self, args: &[Datum], _: &EvalContext<'_>) -> Result<()> {
        if let Some(value) = args.first().filter(|v| !v.is_null()) {
            self.sum = self.sum.checked_add(amount(value)?).ok_or_else(out_of_range)?;
            self.count += 1;
        }
        Ok(())
    }
    fn remove(&mut self, args: &[Datum], _: &EvalContext<'_>) -> Result<bool> {
        let Some(value) = args.first().filter(|v| !v.is_null()) else { return Ok(true) };
        let Some(sum) = self.sum.checked_sub(amount(value)?) else { return Ok(false) };
        self.sum = sum;
        self.count -= 1;
        Ok(true)
    }
    fn finish(&mut self, _: &EvalContext<'_>) -> Result<Datum> {
        Ok(if self.count == 0 { Datum::Null } else { datum(self.sum) })
    }
}
aggregates! {
    fn sum(_types; 2112) = Box::<MoneySum>::default();
}
