//! Text and binary forms of NUMERIC.

use super::*;
use kilndb_base::work::SmallSteps;
use std::fmt;

#[cold]
fn syntax(text: &str) -> Error {
    Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type numeric: \"{text}\""))
}

impl GroupedNumeric {
    /// Text input: optional sign, digits with underscores, exponent, 0x/0o/0b integers, NaN, infinities.
    pub fn parse(text: &str) -> Result<GroupedNumeric> {
        let t = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (negative, body) = match t.as_bytes().first() {
            Some(b'-') => (true, &t[1..]),
            Some(b'+') => (false, &t[1..]),
            _ => (false, t),
        };
        let first = body.bytes().next().ok_or_else(|| syntax(text))?;
        if first.is_ascii_alphabetic() {
            if t.eq_ignore_ascii_case("nan") {
                return Ok(GroupedNumeric::nan());
            }
            if body.eq_ignore_ascii_case("infinity") || body.eq_ignore_ascii_case("inf") {
                return Ok(if negative { GroupedNumeric::neg_infinity() } else { GroupedNumeric::infinity() });
            }
            return Err(syntax(text));
        }
        let bytes = body.as_bytes();
        if bytes.len() > 1 && bytes[0] == b'0' {
            let radix = match bytes[1] | 0x20 {
                b'x' => 16,
                b'o' => 8,
                b'b' => 2,
                _ => 0,
            };
            if radix != 0 {
                return parse_radix(&bytes[2..], radix, negative).ok_or_else(|| syntax(text))?;
            }
        }
        parse_decimal(bytes, negative, text)
    }

    /// Scientific form, as to_char's EEEE needs it: mantissa digits after the point, exponent.
    pub(crate) fn to_scientific(&self, decimals: i32) -> (String, i32) {
        if self.is_zero() {
            return (GroupedNumeric::zero(decimals).to_string(), 0);
        }
        let mut exponent = self.decimal_weight();
        let mut m = self.scale_by_power_of_ten(-exponent).round_to(decimals);
        if m.decimal_weight() > 0 {
            exponent += 1;
            m = m.scale_by_power_of_ten(-1).round_to(decimals);
        }
        m.dscale = decimals;
        (m.to_string(), exponent)
    }

    /// Binary form: digit count, weight, sign, dscale, digits, big-endian.
    pub fn send(&self, out: &mut Vec<u8>) {
        let sign: u16 = match self.kind {
            NumericKind::Finite if self.negative => 0x4000,
            NumericKind::Finite => 0,
            NumericKind::NaN => 0xC000,
            NumericKind::PosInf => 0xD000,
            NumericKind::NegInf => 0xF000,
        };
        out.extend_from_slice(&(self.digits.len() as u16).to_be_bytes());
        out.extend_from_slice(&(self.weight as i16).to_be_bytes());
        out.extend_from_slice(&sign.to_be_bytes());
        out.extend_from_slice(&(self.dscale as u16).to_be_bytes());
        for d in &self.digits {
            out.extend_from_slice(&d.to_be_bytes());
        }
    }
    pub fn receive(bytes: &[u8]) -> Result<GroupedNumeric> {
        let bad = |what: &str| Error::new(sqlstate::INVALID_BINARY_REPRESENTATION, what.to_string());
        let word = |i: usize| bytes.get(i * 2..i * 2 + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
        let short = || Error::new(sqlstate::PROTOCOL_VIOLATION, "insufficient data left in message");
        let count = usize::from(word(0).ok_or_else(short)?);
        let weight = i32::from(word(1).ok_or_else(short)? as i16);
        let sign = word(2).ok_or_else(short)?;
        let dscale = word(3).ok_or_else(short)?;
        match sign {
            0xC000 => return Ok(GroupedNumeric::nan()),
            0xD000 => return Ok(GroupedNumeric::infinity()),
            0xF000 => return Ok(GroupedNumeric::neg_infinity()),
            0 | 0x4000 => {}
            _ => return Err(bad("invalid sign in external \"numeric\" value")),
        }
        if dscale > 0x3fff {
            return Err(bad("invalid scale in external \"numeric\" value"));
        }
        let mut digits = Vec::with_capacity(count);
        for i in 0..count {
            let d = word(4 + i).ok_or_else(short)? as i16;
            if !(0..10000).contains(&d) {
                return Err(bad("invalid digit in external \"numeric\" value"));
            }
            digits.push(d);
        }
        if bytes.len() != 8 + 2 * count {
            return Err(bad("incorrect binary data format"));
        }
        let mut n = GroupedNumeric {
            kind: NumericKind::Finite,
            negative: sign == 0x4000,
            weight,
            dscale: i32::from(dscale),
            digits,
        };
        n.strip();
        Ok(n.trunc_to(i32::from(dscale)))
    }
}

fn parse_radix(digits: &[u8], radix: u32, negative: bool) -> Option<Result<GroupedNumeric>> {
    let mut values = Vec::with_capacity(digits.len());
    let mut last_digit = true;
    for (i, &b) in digits.iter().enumerate() {
        if b == b'_' {
            // An underscore may follow the prefix, but no other underscore.
            if (i > 0 && !last_digit) || i + 1 == digits.len() {
                return None;
            }
            last_digit = false;
            continue;
        }
        values.push((b as char).to_digit(radix)? as u8);
        last_digit = true;
    }
    if values.is_empty() {
        return None;
    }
    let zeros = values.iter().take_while(|v| **v == 0).count();
    // What surely does not fit is not worked out: a digit stands for one bit at least.
    let bits = (values.len() - zeros) as f64 * f64::from(radix.ilog2());
    if bits > f64::from((MAX_WEIGHT + 2) * DEC_DIGITS) * std::f64::consts::LOG2_10 + 4.0 {
        return Some(Err(overflow()));
    }
    let mut n = from_radix(&values[zeros..], radix);
    n.negative = negative && !n.digits.is_empty();
    Some(n.checked())
}
/// The value of digits in a base of at most 16: pieces that fit a word, then neighbours joined until one is left.
fn from_radix(values: &[u8], radix: u32) -> GroupedNumeric {
    const PIECE: usize = 15;
    let mut level: Vec<GroupedNumeric> = values
        .rchunks(PIECE)
        .map(|piece| GroupedNumeric::from(piece.iter().fold(0i64, |v, d| v * i64::from(radix) + i64::from(*d))))
        .collect();
    let mut base = GroupedNumeric::from(i64::from(radix).pow(PIECE as u32));
    while level.len() > 1 {
        let join = |two: &[GroupedNumeric]| match two {
            [low, high] => high.mul_exact(&base).add(low),
            _ => two[0].clone(),
        };
        level = level.chunks(2).map(join).collect();
        if level.len() > 1 {
            base = base.mul_exact(&base);
        }
    }
    level.pop().unwrap_or_else(|| GroupedNumeric::zero(0))
}

fn parse_decimal(bytes: &[u8], negative: bool, text: &str) -> Result<GroupedNumeric> {
    let bad = || syntax(text);
    let mut decimals: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut point: Option<usize> = None;
    let (mut i, mut steps) = (0, SmallSteps::default());
    while i < bytes.len() {
        steps.step(2)?;
        match bytes[i] {
            b @ b'0'..=b'9' => decimals.push(b - b'0'),
            b'.' if point.is_none() => {
                // `1_.5` and `1._5` are wrong.
                if i > 0 && bytes[i - 1] == b'_' {
                    return Err(bad());
                }
                point = Some(decimals.len());
            }
            b'_' => {
                let before = i > 0 && bytes[i - 1].is_ascii_digit();
                let after = bytes.get(i + 1).is_some_and(u8::is_ascii_digit);
                if !before || !after {
                    return Err(bad());
                }
            }
            b'e' | b'E' => break,
            _ => return Err(bad()),
        }
        i += 1;
    }
    if decimals.is_empty() {
        return Err(bad());
    }
    let mut exponent = 0i64;
    if i < bytes.len() {
        exponent = parse_exponent(&bytes[i + 1..]).ok_or_else(bad)?;
        if exponent.abs() >= i64::from(i32::MAX / 2) {
            return Err(overflow());
        }
    }
    let int_digits = point.unwrap_or(decimals.len()) as i64 + exponent;
    let dscale = (decimals.len() as i64 - int_digits).max(0);
    from_decimals(&decimals, int_digits, dscale, negative)
}
fn parse_exponent(b: &[u8]) -> Option<i64> {
    let (neg, digits) = match b.first()? {
        b'-' => (true, &b[1..]),
        b'+' => (false, &b[1..]),
        _ => (false, b),
    };
    let mut v = 0i64;
    if digits.is_empty() {
        return None;
    }
    for (i, &d) in digits.iter().enumerate() {
        if d == b'_' {
            if i == 0 || !digits[i - 1].is_ascii_digit() || !digits.get(i + 1)?.is_ascii_digit() {
                return None;
            }
            continue;
        }
        if !d.is_ascii_digit() {
            return None;
        }
        v = (v * 10 + i64::from(d - b'0')).min(i64::from(i32::MAX));
    }
    Some(if neg { -v } else { v })
}
/// `decimals` with the point after `int_digits` of them (which may lie outside).
fn from_decimals(decimals: &[u8], int_digits: i64, dscale: i64, negative: bool) -> Result<GroupedNumeric> {
    let weight = (int_digits + 3).div_euclid(4) - 1;
    // Zeros in front that complete the first group.
    let pad = (weight + 1) * 4 - int_digits;
    let mut digits = Vec::with_capacity(decimals.len() / 4 + 2);
    let mut group = 0i16;
    let mut in_group = pad;
    let mut steps = SmallSteps::default();
    for &d in decimals {
        steps.step(2)?;
        group = group * 10 + i16::from(d);
        in_group += 1;
        if in_group == 4 {
            digits.push(group);
            group = 0;
            in_group = 0;
        }
    }
    if in_group > 0 {
        for _ in in_group..4 {
            group *= 10;
        }
        digits.push(group);
    }
    let mut n = GroupedNumeric { kind: NumericKind::Finite, negative, weight: weight as i32, dscale: 0, digits };
    n.strip();
    if dscale > i64::from(MAX_STORED_SCALE) || n.weight > MAX_WEIGHT {
        return Err(overflow());
    }
    n.dscale = dscale as i32;
    Ok(n)
}

impl fmt::Display for GroupedNumeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            NumericKind::NaN => return f.write_str("NaN"),
            NumericKind::PosInf => return f.write_str("Infinity"),
            NumericKind::NegInf => return f.write_str("-Infinity"),
            NumericKind::Finite => {}
        }
        let before = (self.weight + 1).max(0) as usize;
        let mut s = String::with_capacity(before * 4 + self.dscale as usize + 6);
        if self.negative {
            s.push('-');
        }
        if self.weight < 0 || self.digits.is_empty() {
            s.push('0');
        } else {
            let start = s.len();
            for w in (0..=self.weight).rev() {
                push_group(&mut s, self.digit_at(w));
            }
            let zeros = s.as_bytes()[start..].iter().take(3).take_while(|b| **b == b'0').count();
            s.drain(start..start + zeros);
        }
        if self.dscale > 0 {
            s.push('.');
            let end = s.len() + self.dscale as usize;
            let mut w = -1;
            while s.len() < end {
                push_group(&mut s, self.digit_at(w));
                w -= 1;
            }
            s.truncate(end);
        }
        f.write_str(&s)
    }
}
/// Four decimals.
fn push_group(s: &mut String, group: i32) {
    for power in [1000, 100, 10, 1] {
        s.push(char::from(b'0' + (group / power % 10) as u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn long_numbers_give_way() {
        for text in ["1".repeat(1_000_000), "0".repeat(1_000_000)] {
            asks(worth(4 * text.len()), |_| GroupedNumeric::parse(&text));
        }
        asks(worth(2_000_000), |_| GroupedNumeric::parse(&format!("{}x", "1".repeat(1_000_000))));
    }
}
