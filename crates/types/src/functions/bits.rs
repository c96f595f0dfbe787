//! Bit strings. A value is held as text of `0` and `1`.

use crate::pieces;
use kilndb_base::{Error, Result, SqlState, sqlstate, work};

const STRING_DATA_LENGTH_MISMATCH: SqlState = SqlState::new("22026");

fn set(b: bool) -> char {
    if b { '1' } else { '0' }
}
fn combine(a: &str, b: &str, name: &str, f: fn(bool, bool) -> bool) -> Result<String> {
    if a.len() != b.len() {
        let message = format!("cannot {name} bit strings of different sizes");
        return Err(Error::new(STRING_DATA_LENGTH_MISMATCH, message));
    }
    let mut out = String::with_capacity(a.len());
    for (a, b) in a.as_bytes().chunks(work::PIECE_BYTES).zip(b.as_bytes().chunks(work::PIECE_BYTES)) {
        work::step(a.len())?;
        let bits: String = a.iter().zip(b).map(|(x, y)| set(f(*x == b'1', *y == b'1'))).collect();
        out.push_str(&bits);
    }
    Ok(out)
}
/// Positive to the left.
fn shift(a: &str, n: i64) -> Result<String> {
    let by = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX).min(a.len());
    let zeros = pieces::repeat("0", by)?;
    if n >= 0 {
        pieces::concat(&[a.get(by..).unwrap_or(""), &zeros])
    } else {
        pieces::concat(&[&zeros, a.get(..a.len() - by).unwrap_or("")])
    }
}
/// The part of a bit string from the 1-based `start` on, of `len` bits or to the end.
fn part(a: &str, start: i32, len: Option<i32>) -> Result<&str> {
    let from = i64::from(start) - 1;
    let to = match len {
        Some(n) if n < 0 => return Err(Error::new(sqlstate::SUBSTRING_ERROR, "negative substring length not allowed")),
        Some(n) => from + i64::from(n),
        None => i64::MAX,
    };
    let clamp = |v: i64| v.clamp(0, a.len() as i64) as usize;
    Ok(a.get(clamp(from)..clamp(to)).unwrap_or(""))
}
fn overlay(a: &str, b: &str, start: i32, len: i64) -> Result<String> {
    if start <= 0 {
        return Err(Error::new(sqlstate::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let end = i32::try_from(i64::from(start) + len).map_err(|_| crate::cast::out_of_range("integer"))?;
    pieces::concat(&[part(a, 1, Some(start - 1))?, b, part(a, end, None)?])
}
fn at(a: &str, n: i32) -> Result<usize> {
    usize::try_from(n).ok().filter(|i| *i < a.len()).ok_or_else(|| {
        let last = a.len() as i64 - 1;
        Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, format!("bit index {n} out of valid range (0..{last})"))
    })
}
fn with_bit(a: &str, n: i32, v: i32) -> Result<String> {
    let i = at(a, n)?;
    if v != 0 && v != 1 {
        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1"));
    }
    let mut r = pieces::concat(&[a])?;
    r.replace_range(i..i + 1, if v == 1 { "1" } else { "0" });
    Ok(r)
}
fn position(a: &str, b: &str) -> Result<i32> {
    Ok(if a.is_empty() { 0 } else { pieces::find(a, b)?.map_or(0, |i| i as i32 + 1) })
}

scalars! {
    fn bit_and(_c; a: text, b: text) = combine(a, b, "AND", |x, y| x && y)?;
    fn bit_or(_c; a: text, b: text) = combine(a, b, "OR", |x, y| x || y)?;
    fn bitxor(_c; a: text, b: text) = combine(a, b, "XOR", |x, y| x != y)?;
    fn bitnot(_c; a: text) = pieces::map_text(a, 3, |piece| piece.bytes().map(|b| set(b != b'1')).collect::<String>())?;
    fn bitshiftleft(_c; a: text, n: int4) = shift(a, i64::from(n))?;
    fn bitshiftright(_c; a: text, n: int4) = shift(a, -i64::from(n))?;
    fn bitcat(_c; a: text, b: text) = pieces::concat(&[a, b])?;
    fn bitlength(_c; a: text) = a.len() as i32;
    fn bitoctetlength(_c; a: text) = a.len().div_ceil(8) as i32;
    fn p1812_bit_length(_c; a: text) = a.len() as i32;
    fn bitposition(_c; a: text, b: text) = position(a, b)?;
    fn bitsubstr(_c; a: text, start: int4, len: int4) = part(a, start, Some(len))?;
    fn bitsubstr_no_len(_c; a: text, start: int4) = part(a, start, None)?;
    fn bitoverlay(_c; a: text, b: text, start: int4, len: int4) = overlay(a, b, start, i64::from(len))?;
    fn bitoverlay_no_len(_c; a: text, b: text, start: int4) = overlay(a, b, start, b.len() as i64)?;
    fn bitgetbit(_c; a: text, n: int4) = i32::from(a.as_bytes().get(at(a, n)?) == Some(&b'1'));
    fn bitsetbit(_c; a: text, n: int4, v: int4) = with_bit(a, n, v)?;
    fn bit_bit_count(_c; a: text) = pieces::of_text(a, 1).try_fold(0, |sum, p| Ok::<_, Error>(sum + p?.bytes().filter(|b| *b == b'1').count() as i64))?;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn bits_are_combined_piece_by_piece() {
        for count in [0, 1, 65_536, 65_537, 200_000] {
            let (a, b): (String, String) = ("1100".repeat(count / 4 + 1), "1010".repeat(count / 4 + 1));
            let and = combine(&a[..count], &b[..count], "AND", |x, y| x && y).unwrap();
            assert_eq!(and, "1000".repeat(count / 4 + 1)[..count]);
        }
        assert!(combine("1", "10", "AND", |x, y| x && y).is_err());
        let (a, b) = ("10".repeat(1_000_000), "01".repeat(1_000_000));
        asks(worth(a.len()), |_| combine(&a, &b, "OR", |x, y| x || y));
        asks(worth(a.len()), |_| shift(&a, -7));
    }
}
