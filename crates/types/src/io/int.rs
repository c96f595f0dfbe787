//! Integers: text in and out.

use super::*;

/// Parses an integer with PostgreSQL's rules: blanks around, sign, 0x/0o/0b, underscores between digits.
pub fn parse(text: &str, type_name: &str, min: i128, max: i128) -> Result<i128> {
    // The plain case first.
    match parse_plain(text).map(i128::from) {
        Some(v) if v >= min && v <= max => Ok(v),
        Some(_) => Err(out_of_range(text, type_name)),
        None => parse_general(text, type_name, min, max),
    }
}
/// A few decimal digits, perhaps with a minus; None: something else, which may be a number too.
#[inline]
pub(crate) fn parse_plain(text: &str) -> Option<i64> {
    let b = text.as_bytes();
    let (neg, digits) = match b.first() {
        Some(b'-') => (true, &b[1..]),
        _ => (false, b),
    };
    if !(1..=18).contains(&digits.len()) {
        return None;
    }
    let mut v = 0i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        v = v * 10 + i64::from(digit);
    }
    Some(if neg { -v } else { v })
}
fn parse_general(text: &str, type_name: &str, min: i128, max: i128) -> Result<i128> {
    let bad = || invalid_syntax(type_name, text);
    let t = trim(text).as_bytes();
    let (neg, digits) = match t.first() {
        Some(b'-') => (true, &t[1..]),
        Some(b'+') => (false, &t[1..]),
        _ => (false, t),
    };
    let (radix, digits) = match digits {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest),
        [b'0', b'o' | b'O', rest @ ..] => (8, rest),
        [b'0', b'b' | b'B', rest @ ..] => (2, rest),
        _ => (10, digits),
    };
    let mut v = 0i128;
    let mut last_digit = radix != 10;
    let mut any = false;
    let mut steps = work::SmallSteps::default();
    for &b in digits {
        steps.step(3)?;
        if b == b'_' {
            if !last_digit {
                return Err(bad());
            }
            last_digit = false;
            continue;
        }
        let d = (b as char).to_digit(radix).ok_or_else(bad)?;
        v = (v * i128::from(radix) + i128::from(d)).min(i128::MAX / 64);
        last_digit = true;
        any = true;
    }
    if !any || !last_digit {
        return Err(bad());
    }
    let v = if neg { -v } else { v };
    if v < min || v > max { Err(out_of_range(text, type_name)) } else { Ok(v) }
}
#[cold]
pub(crate) fn out_of_range(text: &str, type_name: &str) -> Error {
    error(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("value \"{text}\" is out of range for type {type_name}"))
}
/// oid, xid, cid: unsigned, but −1 is taken as 4294967295, as strtoul does. Octal and hexadecimal too.
pub(crate) fn parse_oid(text: &str, type_name: &str) -> Result<u32> {
    let v = c_integer(text, type_name, type_name != "oid")?;
    if v > i128::from(u32::MAX) || v < i128::from(i32::MIN) {
        return Err(out_of_range(text, type_name));
    }
    Ok(v as u32)
}
pub(crate) fn parse_u64(text: &str, type_name: &str) -> Result<u64> {
    let v = c_integer(text, type_name, true)?;
    if v > i128::from(u64::MAX) || v < -i128::from(u64::MAX) {
        return Err(out_of_range(text, type_name));
    }
    Ok(v as u64)
}
/// What C's strtoul accepts with base 10 (`any_base` false) or 0.
fn c_integer(text: &str, type_name: &str, any_base: bool) -> Result<i128> {
    let bad = || invalid_syntax(type_name, text);
    let t = trim(text);
    let (neg, digits) = match t.as_bytes().first() {
        Some(b'-') => (true, &t[1..]),
        Some(b'+') => (false, &t[1..]),
        _ => (false, t),
    };
    let (radix, digits) = if any_base && (digits.starts_with("0x") || digits.starts_with("0X")) {
        (16, &digits[2..])
    } else if any_base && digits.len() > 1 && digits.starts_with('0') {
        (8, &digits[1..])
    } else {
        (10, digits)
    };
    if digits.is_empty() {
        return Err(bad());
    }
    let (mut v, mut steps) = (0i128, work::SmallSteps::default());
    for c in digits.chars() {
        steps.step(3)?;
        v = (v * radix as i128 + i128::from(c.to_digit(radix).ok_or_else(bad)?)).min(i128::MAX / 64);
    }
    Ok(if neg { -v } else { v })
}

pub(crate) fn write_i64(v: i64, out: &mut Vec<u8>) {
    let mut buf = [0u8; 20];
    let at = digits::write_before(&mut buf, 20, v.unsigned_abs());
    if v < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&buf[at..]);
}
