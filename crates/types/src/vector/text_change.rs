//! Texts made of other texts, in vectors: cases of letters, replacing, padding, searching, and numbers beside texts.

use super::text::{BYTES_MAX, ShortTexts, Words, put_integers, put_texts, write_texts};
use super::{BytesKind, IntegerKind, Rows, Vector, VectorValues, text_of};
use crate::functions::string;
use crate::io::int::write_i64;
use crate::numeric::{Numeric, ShortNumeric};
use memchr::memmem::Finder;

/// The text of each row in the other case of its letters.
fn case(is_upper: bool, rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text] = *args else { return false };
    let Some(text) = ShortTexts::of(rows, text) else { return false };
    write_texts(rows, out, |row, bytes| {
        let (from, start) = (text.get(row), bytes.len());
        if !from.is_ascii() {
            let mut character = [0; 4];
            for c in text.text(row)?.chars() {
                bytes.extend_from_slice(string::one(c, is_upper).encode_utf8(&mut character).as_bytes());
            }
            return Some(());
        }
        bytes.extend_from_slice(from);
        let made = bytes.get_mut(start..)?;
        if is_upper {
            made.make_ascii_uppercase()
        } else {
            made.make_ascii_lowercase()
        }
        Some(())
    })
}
/// upper, by the rules that all languages share: calls by others are no calls of this function.
pub(super) fn upper(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    case(true, rows, args, out)
}
/// lower and casefold, by the same rules.
pub(super) fn lower(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    case(false, rows, args, out)
}

pub(super) fn reverse(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text] = *args else { return false };
    let Some(text) = ShortTexts::of(rows, text) else { return false };
    write_texts(rows, out, |row, bytes| {
        if text.get(row).is_ascii() {
            bytes.extend(text.get(row).iter().rev());
            return Some(());
        }
        let mut character = [0; 4];
        for c in text.text(row)?.chars().rev() {
            bytes.extend_from_slice(c.encode_utf8(&mut character).as_bytes());
        }
        Some(())
    })
}

/// Searches for texts, and keeps what it has prepared if there is one for all rows.
struct Searched<'v> {
    texts: ShortTexts<'v>,
    prepared: Option<Finder<'v>>,
}
impl<'v> Searched<'v> {
    fn of(texts: ShortTexts<'v>) -> Searched<'v> {
        Searched { texts, prepared: texts.constant().map(Finder::new) }
    }
    /// Calls `f` with the search for the text of a row.
    #[inline]
    fn with<T>(&self, row: usize, f: impl FnOnce(&Finder<'_>) -> T) -> T {
        match &self.prepared {
            Some(finder) => f(finder),
            None => f(&Finder::new(self.texts.get(row))),
        }
    }
}

/// strpos and position: characters before the place, and one.
pub(super) fn position(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text, wanted] = *args else { return false };
    let (Some(text), Some(wanted)) = (ShortTexts::of(rows, text), ShortTexts::of(rows, wanted)) else { return false };
    let wanted = Searched::of(wanted);
    put_integers(IntegerKind::Int4, rows, out, |row| {
        let bytes = text.get(row);
        let found = wanted.with(row, |finder| finder.find(bytes));
        Some(found.map_or(0, |at| super::text::characters(&bytes[..at]) + 1))
    })
}

pub(super) fn starts_with(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text, prefix] = *args else { return false };
    let (Some(text), Some(prefix)) = (ShortTexts::of(rows, text), ShortTexts::of(rows, prefix)) else { return false };
    let found = out.start_bools(rows.positions());
    rows.each(|row| found[row] = text.get(row).starts_with(prefix.get(row)));
    true
}

pub(super) fn replace(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text, from, to] = *args else { return false };
    let (Some(text), Some(from)) = (ShortTexts::of(rows, text), ShortTexts::of(rows, from)) else { return false };
    let Some(to) = ShortTexts::of(rows, to) else { return false };
    let from = Searched::of(from);
    write_texts(rows, out, |row, bytes| from.with(row, |finder| replaced(text.get(row), finder, to.get(row), bytes)))
}
/// Appends the text with each place replaced. None: it gets too long.
fn replaced(text: &[u8], finder: &Finder<'_>, to: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (mut rest, start) = (text, out.len());
    if finder.needle().is_empty() {
        out.extend_from_slice(text);
        return Some(());
    }
    while let Some(at) = finder.find(rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + finder.needle().len()..];
        if out.len() - start > BYTES_MAX {
            return None;
        }
    }
    out.extend_from_slice(rest);
    Some(())
}

/// Texts of a number of characters: those that are shorter are filled up at one end, by blanks if nothing else is given.
fn pad(is_left: bool, rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let (text, count, fill) = match *args {
        [text, count] => (text, count, None),
        [text, count, fill] => (text, count, Some(fill)),
        _ => return false,
    };
    let (Some(text), Some(count)) = (ShortTexts::of(rows, text), Words::of(IntegerKind::Int4, count)) else {
        return false;
    };
    let fills = fill.and_then(|fill| ShortTexts::of(rows, fill));
    if fill.is_some() && fills.is_none() {
        return false;
    }
    write_texts(rows, out, |row, bytes| {
        let fill = fills.map_or(&b" "[..], |fills| fills.get(row));
        let (from, count) = (text.get(row), usize::try_from(count.get(row).max(0)).ok()?);
        if count > BYTES_MAX || !from.is_ascii() || !fill.is_ascii() {
            return None;
        }
        let missing = if fill.is_empty() { 0 } else { count.saturating_sub(from.len()) };
        let kept = &from[..count.min(from.len())];
        if !is_left {
            bytes.extend_from_slice(kept);
        }
        bytes.extend(fill.iter().cycle().take(missing));
        if is_left {
            bytes.extend_from_slice(kept);
        }
        Some(())
    })
}
pub(super) fn lpad(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    pad(true, rows, args, out)
}
pub(super) fn rpad(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    pad(false, rows, args, out)
}

pub(super) fn repeat(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text, count] = *args else { return false };
    let (Some(text), Some(count)) = (ShortTexts::of(rows, text), Words::of(IntegerKind::Int4, count)) else {
        return false;
    };
    write_texts(rows, out, |row, bytes| {
        let (text, count) = (text.get(row), usize::try_from(count.get(row).max(0)).ok()?);
        if text.len().checked_mul(count)? > BYTES_MAX {
            return None;
        }
        if !text.is_empty() {
            (0..count).for_each(|_| bytes.extend_from_slice(text));
        }
        Some(())
    })
}

pub(super) fn split_part(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text, separator, number] = *args else { return false };
    let (Some(text), Some(separator)) = (ShortTexts::of(rows, text), ShortTexts::of(rows, separator)) else {
        return false;
    };
    let Some(number) = Words::of(IntegerKind::Int4, number) else { return false };
    let separator = Searched::of(separator);
    put_texts(rows, out, |row| {
        let number = usize::try_from(number.get(row)).ok().filter(|number| *number > 0)?;
        separator.with(row, |finder| part(text.get(row), finder, number))
    })
}
/// The part with a number, counted from 1, between places where a text is split.
fn part<'t>(text: &'t [u8], finder: &Finder<'_>, number: usize) -> Option<&'t [u8]> {
    let (mut rest, mut left) = (text, number);
    if finder.needle().is_empty() {
        return Some(if number == 1 { text } else { &[] });
    }
    loop {
        let found = finder.find(rest);
        left -= 1;
        match found {
            Some(at) if left == 0 => return rest.get(..at),
            Some(at) => rest = &rest[at + finder.needle().len()..],
            None => return Some(if left == 0 { rest } else { &[] }),
        }
    }
}

pub(super) fn md5(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text] = *args else { return false };
    let Some(text) = ShortTexts::of(rows, text) else { return false };
    write_texts(rows, out, |row, bytes| {
        bytes.extend_from_slice(string::md5_hex(text.get(row)).ok()?.as_bytes());
        Some(())
    })
}

/// The number of the first character.
pub(super) fn ascii(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text] = *args else { return false };
    let Some(text) = ShortTexts::of(rows, text) else { return false };
    put_integers(IntegerKind::Int4, rows, out, |row| match text.get(row) {
        [] => Some(0),
        [first, ..] if first.is_ascii() => Some(i64::from(*first)),
        bytes => text_of(bytes).ok()?.chars().next().map(|c| i64::from(u32::from(c))),
    })
}
/// The character with a number. Numbers that no character has are errors of the function's.
pub(super) fn chr(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [number] = *args else { return false };
    let Some(number) = Words::of(IntegerKind::Int4, number) else { return false };
    write_texts(rows, out, |row, bytes| {
        let character = u32::try_from(number.get(row)).ok().filter(|number| *number > 0).and_then(char::from_u32)?;
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Some(())
    })
}

/// What of a vector is shown alike whatever the settings are.
#[derive(Clone, Copy)]
enum Shown<'v> {
    Texts(ShortTexts<'v>),
    Integers(&'v Vector, &'v [i64]),
    Decimals(&'v Vector, u8, &'v [i64]),
    Bools(&'v Vector, &'v [bool]),
}
impl<'v> Shown<'v> {
    fn of(rows: Rows<'_>, vector: &'v Vector) -> Option<Shown<'v>> {
        match &vector.values {
            VectorValues::Bytes(BytesKind::Text, _) => ShortTexts::of(rows, vector).map(Shown::Texts),
            VectorValues::Integers(kind, words) if kind.is_number() => Some(Shown::Integers(vector, words)),
            VectorValues::Decimals(decimals, words) => Some(Shown::Decimals(vector, *decimals, words)),
            VectorValues::Bools(values) => Some(Shown::Bools(vector, values)),
            _ => None,
        }
    }
    /// Appends the value of a row as its cast to text gives it.
    #[inline]
    fn write(self, row: usize, out: &mut Vec<u8>) {
        match self {
            Shown::Texts(texts) => out.extend_from_slice(texts.get(row)),
            Shown::Integers(vector, words) => write_i64(words[vector.at(row)], out),
            Shown::Decimals(vector, decimals, words) => {
                Numeric::Short(ShortNumeric::at(words[vector.at(row)], decimals)).write(out);
            }
            Shown::Bools(vector, values) => {
                let word = if values[vector.at(row)] { "true" } else { "false" };
                out.extend_from_slice(word.as_bytes());
            }
        }
    }
}

/// `text || text`, and of a text with another value.
pub(super) fn concatenate(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [a, b] = *args else { return false };
    let (Some(a), Some(b)) = (Shown::of(rows, a), Shown::of(rows, b)) else { return false };
    write_texts(rows, out, |row, bytes| {
        a.write(row, bytes);
        b.write(row, bytes);
        Some(())
    })
}
/// Numbers, and all else that is shown alike whatever the settings are, as text.
pub(super) fn to_text(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [value] = *args else { return false };
    let Some(value) = Shown::of(rows, value) else { return false };
    write_texts(rows, out, |row, bytes| {
        value.write(row, bytes);
        Some(())
    })
}
