//! Functions of texts in vectors.

use super::bytes::{ByteColumn, BytesKind};
use super::{IntegerKind, Rows, Vector, VectorValues};
use memchr::memmem::Finder;

/// Longer texts are for the functions themselves, which can be interrupted.
const BYTES_MAX: usize = 1 << 16;

/// The column of a vector of texts.
pub(crate) fn texts(v: &Vector) -> Option<&ByteColumn> {
    match &v.values {
        VectorValues::Bytes(BytesKind::Text, column) => Some(column),
        _ => None,
    }
}

fn are_short(rows: Rows<'_>, v: &Vector, column: &ByteColumn) -> bool {
    rows.all(|row| column.get(v.at(row)).len() <= BYTES_MAX)
}

/// A pattern of LIKE that has no other special characters than `%`.
enum SimplePattern<'p> {
    Equal(&'p [u8]),
    /// The text begins with the first, ends with the last, and has those between one after the other.
    Pieces(&'p [u8], Vec<Finder<'p>>, &'p [u8]),
}

impl<'p> SimplePattern<'p> {
    fn of(pattern: &'p [u8]) -> Option<SimplePattern<'p>> {
        if pattern.iter().any(|b| matches!(b, b'_' | b'\\')) {
            return None;
        }
        let mut pieces: Vec<&[u8]> = pattern.split(|b| *b == b'%').collect();
        let last = pieces.pop()?;
        if pieces.is_empty() {
            return Some(SimplePattern::Equal(last));
        }
        let first = pieces.remove(0);
        let between = pieces.into_iter().filter(|piece| !piece.is_empty()).map(Finder::new).collect();
        Some(SimplePattern::Pieces(first, between, last))
    }
    fn matches(&self, text: &[u8]) -> bool {
        match self {
            SimplePattern::Equal(whole) => text == *whole,
            SimplePattern::Pieces(first, between, last) => {
                let Some(mut rest) = text.strip_prefix(*first).and_then(|rest| rest.strip_suffix(*last)) else {
                    return false;
                };
                between.iter().all(|piece| match piece.find(rest) {
                    Some(at) => {
                        rest = &rest[at + piece.needle().len()..];
                        true
                    }
                    None => false,
                })
            }
        }
    }
}

fn like_is(wanted: bool, rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text, pattern] = *args else { return false };
    let (Some(x), Some(p)) = (texts(text), texts(pattern)) else { return false };
    if !pattern.is_constant() || !are_short(rows, text, x) {
        return false;
    }
    let Some(pattern) = SimplePattern::of(p.get(0)) else { return false };
    let found = out.start_bools(rows.positions());
    rows.each(|row| found[row] = pattern.matches(x.get(text.at(row))) == wanted);
    true
}
pub(super) fn like(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    like_is(true, rows, args, out)
}
pub(super) fn not_like(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    like_is(false, rows, args, out)
}

pub(super) fn concatenate(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [a, b] = *args else { return false };
    let (Some(x), Some(y)) = (texts(a), texts(b)) else { return false };
    if !are_short(rows, a, x) || !are_short(rows, b, y) {
        return false;
    }
    let found = out.start_bytes(BytesKind::Text, rows.positions());
    rows.all(|row| {
        found.put_with(row, |bytes| {
            bytes.extend_from_slice(x.get(a.at(row)));
            bytes.extend_from_slice(y.get(b.at(row)));
        })
    })
}

/// The number of characters: of bytes that do not continue one.
pub(super) fn length(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text] = *args else { return false };
    let Some(x) = texts(text) else { return false };
    if !are_short(rows, text, x) {
        return false;
    }
    let found = out.start_integers(IntegerKind::Int4, rows.positions());
    rows.each(|row| found[row] = x.get(text.at(row)).iter().filter(|b| **b & 0xc0 != 0x80).count() as i64);
    true
}
