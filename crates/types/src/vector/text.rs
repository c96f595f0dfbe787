//! Functions of texts in vectors.

use super::bytes::{ByteColumn, BytesKind};
use super::{IntegerKind, Rows, Vector, VectorValues, text_of};
use crate::cast::without_blanks;
use memchr::memmem::Finder;

/// Longer texts are for the functions themselves, which can be interrupted.
pub(super) const BYTES_MAX: usize = 1 << 16;

/// The column of a vector of texts.
pub(crate) fn texts(v: &Vector) -> Option<&ByteColumn> {
    match &v.values {
        VectorValues::Bytes(BytesKind::Text, column) => Some(column),
        _ => None,
    }
}

/// The texts of an argument, none of which is long.
#[derive(Clone, Copy)]
pub(super) struct ShortTexts<'v> {
    vector: &'v Vector,
    column: &'v ByteColumn,
}

impl<'v> ShortTexts<'v> {
    pub fn of(rows: Rows<'_>, vector: &'v Vector) -> Option<ShortTexts<'v>> {
        let column = texts(vector)?;
        let are_short = rows.all(|row| column.get(vector.at(row)).len() <= BYTES_MAX);
        are_short.then_some(ShortTexts { vector, column })
    }
    #[inline]
    pub fn get(self, row: usize) -> &'v [u8] {
        self.column.get(self.vector.at(row))
    }
    /// None: the bytes are no text, which is an error of the function's.
    #[inline]
    pub fn text(self, row: usize) -> Option<&'v str> {
        text_of(self.get(row)).ok()
    }
    /// The text that stands for all rows.
    pub fn constant(self) -> Option<&'v [u8]> {
        self.vector.is_constant().then(|| self.column.get(0))
    }
}

/// The words of an argument of a kind.
#[derive(Clone, Copy)]
pub(super) struct Words<'v> {
    vector: &'v Vector,
    words: &'v [i64],
}

impl<'v> Words<'v> {
    pub fn of(kind: IntegerKind, vector: &'v Vector) -> Option<Words<'v>> {
        match &vector.values {
            VectorValues::Integers(own, words) if *own == kind => Some(Words { vector, words }),
            _ => None,
        }
    }
    #[inline]
    pub fn get(self, row: usize) -> i64 {
        self.words[self.vector.at(row)]
    }
}

/// Gives each row the text that `write` appends; false as soon as it has none.
#[inline]
pub(super) fn write_texts(
    rows: Rows<'_>,
    out: &mut Vector,
    mut write: impl FnMut(usize, &mut Vec<u8>) -> Option<()>,
) -> bool {
    let found = out.start_bytes(BytesKind::Text, rows.positions());
    rows.all(|row| {
        let mut is_written = false;
        let fits = found.put_with(row, |bytes| is_written = write(row, bytes).is_some());
        is_written && fits
    })
}

/// Gives each row the bytes that `part` finds; false as soon as there are none.
#[inline]
pub(super) fn put_texts<'v>(rows: Rows<'_>, out: &mut Vector, mut part: impl FnMut(usize) -> Option<&'v [u8]>) -> bool {
    let found = out.start_bytes(BytesKind::Text, rows.positions());
    rows.all(|row| part(row).is_some_and(|bytes| found.put(row, bytes)))
}

/// Gives each row the number of a kind that `f` finds; false as soon as there is none.
#[inline]
pub(super) fn put_integers(
    kind: IntegerKind,
    rows: Rows<'_>,
    out: &mut Vector,
    mut f: impl FnMut(usize) -> Option<i64>,
) -> bool {
    let found = out.start_integers(kind, rows.positions());
    rows.all(|row| {
        f(row).is_some_and(|number| {
            found[row] = number;
            true
        })
    })
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
    let (Some(text), Some(pattern)) = (ShortTexts::of(rows, text), ShortTexts::of(rows, pattern)) else { return false };
    let Some(pattern) = pattern.constant().and_then(SimplePattern::of) else { return false };
    let found = out.start_bools(rows.positions());
    rows.each(|row| found[row] = pattern.matches(text.get(row)) == wanted);
    true
}
pub(super) fn like(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    like_is(true, rows, args, out)
}
pub(super) fn not_like(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    like_is(false, rows, args, out)
}

/// The number of characters: of bytes that do not continue one.
pub(super) fn characters(text: &[u8]) -> i64 {
    text.iter().filter(|b| **b & 0xc0 != 0x80).count() as i64
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident: $count:expr;)*) => { $(
        $(#[$doc])*
        pub(super) fn $name(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
            let [text] = *args else { return false };
            let Some(text) = ShortTexts::of(rows, text) else { return false };
            let count: fn(&[u8]) -> i64 = $count;
            put_integers(IntegerKind::Int4, rows, out, |row| Some(count(text.get(row))))
        }
    )* };
}
counts! {
    length: |text| characters(text);
    /// The blanks at the end of a value of type character do not count.
    padded_length: |text| characters(without_blanks(text));
    octet_length: |text| text.len() as i64;
    bit_length: |text| text.len() as i64 * 8;
}
