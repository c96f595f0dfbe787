//! Floats: text in, shortest text that reads back the same out.

use super::*;
use crate::numeric::Numeric;
use std::fmt::LowerExp;
use std::str::FromStr;

#[cold]
fn range(text: &str, type_name: &str) -> Error {
    error(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("\"{text}\" is out of range for type {type_name}"))
}

/// The number and whether it reads as nonzero digits, or None if it is no number.
fn number(text: &str) -> Option<(&str, bool)> {
    let t = trim(text);
    let b = t.as_bytes();
    let mut i = usize::from(matches!(b.first(), Some(b'+' | b'-')));
    let word = &t[i..];
    if ["inf", "infinity", "nan"].iter().any(|w| word.eq_ignore_ascii_case(w)) {
        return Some((t, true));
    }
    let (mut any, mut nonzero) = (false, false);
    let mut point = false;
    while let Some(&c) = b.get(i) {
        match c {
            b'0'..=b'9' => {
                any = true;
                nonzero |= c != b'0';
            }
            b'.' if !point => point = true,
            _ => break,
        }
        i += 1;
    }
    if !any {
        return None;
    }
    if matches!(b.get(i), Some(b'e' | b'E')) {
        i += 1 + usize::from(matches!(b.get(i + 1), Some(b'+' | b'-')));
        let digits = b[i..].iter().take_while(|c| c.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        i += digits;
    }
    (i == b.len()).then_some((t, nonzero))
}
pub(crate) fn parse_f64(text: &str) -> Result<f64> {
    parse_f64_as(text, "double precision")
}
pub(crate) fn parse_f64_as(text: &str, type_name: &str) -> Result<f64> {
    let (t, nonzero) = number(text).ok_or_else(|| invalid_syntax(type_name, text))?;
    let v: f64 = t.parse().map_err(|_| invalid_syntax(type_name, text))?;
    let word = t.trim_start_matches(['+', '-']).as_bytes()[0].is_ascii_alphabetic();
    if !word && (v.is_infinite() || (v == 0.0 && nonzero)) {
        return Err(range(t, type_name));
    }
    Ok(v)
}
pub(crate) fn parse_f32(text: &str) -> Result<f32> {
    let (t, nonzero) = number(text).ok_or_else(|| invalid_syntax("real", text))?;
    let v: f32 = t.parse().map_err(|_| invalid_syntax("real", text))?;
    let word = t.trim_start_matches(['+', '-']).as_bytes()[0].is_ascii_alphabetic();
    if !word && (v.is_infinite() || (v == 0.0 && nonzero)) {
        return Err(range(t, "real"));
    }
    Ok(v)
}

fn special(v: f64, out: &mut Vec<u8>) -> bool {
    let word: &[u8] = if v.is_nan() {
        b"NaN"
    } else if v == f64::INFINITY {
        b"Infinity"
    } else if v == f64::NEG_INFINITY {
        b"-Infinity"
    } else {
        return false;
    };
    out.extend_from_slice(word);
    true
}
pub(crate) fn write_f64(v: f64, extra_digits: i32, out: &mut Vec<u8>) {
    if special(v, out) {
        return;
    }
    if extra_digits <= 0 {
        out.extend_from_slice(general(v, (15 + extra_digits).max(1) as usize).as_bytes());
        return;
    }
    if !write_decimal(v, out) {
        let mut buffer = ryu::Buffer::new();
        let digits = FloatDigits::read(buffer.format_finite(v)).within(BinaryParts::of_f64(v), 17, |n| rounded(v, n));
        shortest(digits, v.is_sign_negative(), 15, out);
    }
}
/// Writes a double that is what a number of at most four decimals and fifteen digits is read as; false: it is not. No two such
/// numbers are read as the same double, so this is the shortest text of it.
fn write_decimal(v: f64, out: &mut Vec<u8>) -> bool {
    let scaled = (v * 1e4).round();
    let is_decimal = (1.0..1e15).contains(&scaled.abs()) && scaled / 1e4 == v;
    if is_decimal {
        Numeric::from_scaled(scaled as i128, 4).trim_scale().write(out);
    }
    is_decimal
}
pub(crate) fn write_f32(v: f32, extra_digits: i32, out: &mut Vec<u8>) {
    if special(f64::from(v), out) {
        return;
    }
    if extra_digits <= 0 {
        out.extend_from_slice(general(f64::from(v), (6 + extra_digits).max(1) as usize).as_bytes());
        return;
    }
    let mut buffer = ryu::Buffer::new();
    let digits = FloatDigits::read(buffer.format_finite(v)).within(BinaryParts::of_f32(v), 9, |n| rounded(v, n));
    shortest(digits, v.is_sign_negative(), 6, out);
}

/// The number with so many digits, if that is read as the number.
fn rounded<F: LowerExp + FromStr + PartialEq>(v: F, count: usize) -> Option<FloatDigits> {
    let text = format!("{v:.*e}", count - 1);
    text.parse().is_ok_and(|read: F| read == v).then(|| FloatDigits::read(&text))
}

/// A finite number's absolute value, `mantissa` times two to the power of `exponent`.
#[derive(Clone, Copy)]
struct BinaryParts {
    mantissa: u64,
    exponent: i32,
    /// The next smaller number is half as far away as the next larger one.
    is_power: bool,
}
impl BinaryParts {
    fn of_f64(v: f64) -> BinaryParts {
        let bits = v.to_bits();
        BinaryParts::of((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1), (52, 1075))
    }
    fn of_f32(v: f32) -> BinaryParts {
        let bits = v.to_bits();
        BinaryParts::of((bits >> 23 & 0xff) as i32, u64::from(bits & ((1 << 23) - 1)), (23, 150))
    }
    fn of(exponent: i32, fraction: u64, (bits, bias): (u32, i32)) -> BinaryParts {
        match exponent {
            0 => BinaryParts { mantissa: fraction, exponent: 1 - bias, is_power: false },
            _ => BinaryParts {
                mantissa: fraction | 1 << bits,
                exponent: exponent - bias,
                is_power: fraction == 0 && exponent > 1,
            },
        }
    }
}

/// Is `decimal` times ten to the power of `e` the same as `odd` times two to the power of `q`?
fn is_same(decimal: u128, e: i32, odd: u128, q: i32) -> bool {
    let twos = decimal.trailing_zeros() as i32;
    let decimal = decimal.checked_shr(twos as u32).unwrap_or(0);
    let Some(fives) = 5u128.checked_pow(e.unsigned_abs()) else { return false };
    let (left, right) =
        if e >= 0 { (decimal.checked_mul(fives), Some(odd)) } else { (Some(decimal), odd.checked_mul(fives)) };
    twos + e == q && left.is_some() && left == right
}

/// Decimal digits and the exponent of the first one.
struct FloatDigits {
    digits: [u8; 20],
    count: usize,
    exponent: i32,
}
impl FloatDigits {
    /// Reads the digits of a number in plain or exponent notation.
    fn read(text: &str) -> FloatDigits {
        let mut d = FloatDigits { digits: [b'0'; 20], count: 0, exponent: 0 };
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let mut point = None;
        let mut seen = 0;
        for b in mantissa.bytes() {
            match b {
                b'.' => point = Some(seen),
                b'0'..=b'9' => {
                    seen += 1;
                    if d.count == 0 && b == b'0' {
                        continue;
                    }
                    if d.count == 0 {
                        d.exponent = -(seen - 1);
                    }
                    if d.count < d.digits.len() {
                        d.digits[d.count] = b;
                        d.count += 1;
                    }
                }
                _ => {}
            }
        }
        if d.count == 0 {
            d.count = 1;
            d.exponent = 0;
            return d;
        }
        // `exponent` held minus the index of the first digit; the point's place turns it into a power of ten.
        d.exponent += point.unwrap_or(seen) - 1 + exponent.parse::<i32>().unwrap_or(0);
        while d.count > 1 && d.digits[d.count - 1] == b'0' {
            d.count -= 1;
        }
        d
    }
}
impl FloatDigits {
    /// Are they exactly in the middle between the number and one of its neighbours?
    fn are_half_way(&self, number: BinaryParts) -> bool {
        let BinaryParts { mantissa, exponent, is_power } = number;
        // A text in the middle is read as the number whose mantissa is even.
        if mantissa % 2 == 1 || mantissa == 0 {
            return false;
        }
        let decimal = self.digits[..self.count].iter().fold(0, |n, digit| n * 10 + u128::from(digit - b'0'));
        let (e, twice) = (self.exponent + 1 - self.count as i32, 2 * u128::from(mantissa));
        let below = if is_power { (2 * twice - 1, exponent - 2) } else { (twice - 1, exponent - 1) };
        is_same(decimal, e, twice + 1, exponent - 1) || is_same(decimal, e, below.0, below.1)
    }
    /// The digits, or as many more as it takes to be nearer to the number than to any other: PostgreSQL writes no text in the
    /// middle of two numbers. `rounded`: as [`rounded`], of the number.
    fn within(
        self,
        number: BinaryParts,
        count_max: usize,
        rounded: impl Fn(usize) -> Option<FloatDigits>,
    ) -> FloatDigits {
        if !self.are_half_way(number) {
            return self;
        }
        let mut longer = (self.count + 1..=count_max).filter_map(rounded);
        longer.find(|digits| !digits.are_half_way(number)).unwrap_or(self)
    }
}
/// Fixed notation for exponents −4 to limit−1, else scientific with at least two exponent digits.
fn shortest(d: FloatDigits, negative: bool, limit: i32, out: &mut Vec<u8>) {
    if negative {
        out.push(b'-');
    }
    let digits = &d.digits[..d.count];
    if d.exponent < -4 || d.exponent >= limit {
        out.push(digits[0]);
        if d.count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        write(out, format_args!("e{}{:02}", if d.exponent < 0 { '-' } else { '+' }, d.exponent.abs()));
    } else if d.exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-d.exponent - 1) as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        let int = d.exponent as usize + 1;
        if d.count <= int {
            out.extend_from_slice(digits);
            out.resize(out.len() + int - d.count, b'0');
        } else {
            out.extend_from_slice(&digits[..int]);
            out.push(b'.');
            out.extend_from_slice(&digits[int..]);
        }
    }
}

/// C's `%.{precision}g`.
pub fn general(v: f64, precision: usize) -> String {
    let mut out = Vec::new();
    if special(v, &mut out) {
        return String::from_utf8(out).unwrap_or_default();
    }
    let scientific = format!("{:.*e}", precision.max(1) - 1, v);
    let digits = FloatDigits::read(&scientific);
    shortest(digits, v.is_sign_negative(), precision.max(1) as i32, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PostgreSQL writes no text that is in the middle of two numbers, though it would be read as the right one.
    #[test]
    fn no_text_is_half_way_between_two_numbers() {
        let text = |v: f64| {
            let mut out = Vec::new();
            write_f64(v, 1, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(-33333333333333328.0), "-3.3333333333333328e+16");
        assert_eq!(text(33333333333333332.0), "3.3333333333333332e+16");
        assert_eq!(text(5e-324), "5e-324");
        assert_eq!(text(9007199254740992.0), "9.007199254740992e+15");
        for n in 0..200_000u64 {
            let v = f64::from_bits(0x4350_0000_0000_0000 + n * 77_003);
            assert_eq!(text(v).parse(), Ok(v));
        }
    }

    #[test]
    fn decimals_are_written_as_their_shortest_texts() {
        let mut state = 0x1234_5678_9abc_def1u64;
        for n in 0..300_000u32 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let whole = (state >> (state % 64)) as i64;
            let v = match n % 4 {
                0 => f64::from_bits(state),
                1 => whole as f64 / 1e4,
                2 => whole as f64 / f64::from(1 << (state % 12)),
                _ => -(whole as f64) / 100.0,
            };
            if !v.is_finite() {
                continue;
            }
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            if write_decimal(v, &mut found) {
                let mut buffer = ryu::Buffer::new();
                shortest(FloatDigits::read(buffer.format_finite(v)), v.is_sign_negative(), 15, &mut expected);
                assert_eq!(String::from_utf8(found), String::from_utf8(expected), "{v:?}");
            }
        }
        let is_decimal = |v| write_decimal(v, &mut Vec::new());
        assert!(is_decimal(0.0625) && is_decimal(-1.5) && is_decimal(12_345_678_901.234_5));
        assert!(
            !is_decimal(0.0)
                && !is_decimal(-0.0)
                && !is_decimal(0.1 + 0.2)
                && !is_decimal(1e11)
                && !is_decimal(0.00001)
        );
    }
}
