//! Parts of texts in vectors: substr, left, right and the trims.

use super::text::{ShortTexts, Words, put_texts};
use super::{IntegerKind, Rows, Vector, text_of};
use crate::functions::string;

/// The bytes that a part of so many characters from a position on has, which counts from 1 and may be outside of the text.
#[inline]
fn substring(text: &[u8], from: i64, length: Option<i64>) -> Option<&[u8]> {
    // A negative length is an error of the function's.
    let end = match length {
        Some(length) if length < 0 => return None,
        Some(length) => from + length,
        None => i64::MAX,
    };
    let start = from.max(1) - 1;
    if end <= start + 1 {
        return Some(&[]);
    }
    if !text.is_ascii() {
        let length = length.map(i32::try_from).transpose().ok()?;
        return string::substr(text_of(text).ok()?, i32::try_from(from).ok()?, length).ok().map(str::as_bytes);
    }
    let all = text.len() as i64;
    text.get(start.min(all) as usize..(end - 1).min(all) as usize)
}

pub(super) fn substr_to_end(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text, from] = *args else { return false };
    let (Some(text), Some(from)) = (ShortTexts::of(rows, text), Words::of(IntegerKind::Int4, from)) else {
        return false;
    };
    put_texts(rows, out, |row| substring(text.get(row), from.get(row), None))
}
pub(super) fn substr(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text, from, length] = *args else { return false };
    let Some(text) = ShortTexts::of(rows, text) else { return false };
    let (Some(from), Some(length)) = (Words::of(IntegerKind::Int4, from), Words::of(IntegerKind::Int4, length)) else {
        return false;
    };
    put_texts(rows, out, |row| substring(text.get(row), from.get(row), Some(length.get(row))))
}

/// So many characters at one end of a text; of a negative number, all but so many.
fn end_of(is_left: bool, rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text, count] = *args else { return false };
    let (Some(text), Some(count)) = (ShortTexts::of(rows, text), Words::of(IntegerKind::Int4, count)) else {
        return false;
    };
    put_texts(rows, out, |row| {
        let (bytes, count) = (text.get(row), count.get(row));
        if !bytes.is_ascii() {
            return string::take(text.text(row)?, count as i32, is_left).ok().map(str::as_bytes);
        }
        let all = bytes.len() as i64;
        let kept = if count < 0 { (all + count).max(0) } else { count.min(all) };
        if is_left { bytes.get(..kept as usize) } else { bytes.get((all - kept) as usize..) }
    })
}
pub(super) fn left(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    end_of(true, rows, args, out)
}
pub(super) fn right(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    end_of(false, rows, args, out)
}

/// Which ends of a text are trimmed.
#[derive(Clone, Copy)]
struct TrimmedEnds {
    left: bool,
    right: bool,
}

/// Bytes without those at the ends that `is_trimmed` says.
#[inline]
fn trimmed(mut bytes: &[u8], ends: TrimmedEnds, is_trimmed: impl Fn(u8) -> bool) -> &[u8] {
    while ends.left
        && let [first, rest @ ..] = bytes
        && is_trimmed(*first)
    {
        bytes = rest;
    }
    while ends.right
        && let [rest @ .., last] = bytes
        && is_trimmed(*last)
    {
        bytes = rest;
    }
    bytes
}

fn trim(ends: TrimmedEnds, rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    match *args {
        [text] => {
            let Some(text) = ShortTexts::of(rows, text) else { return false };
            put_texts(rows, out, |row| Some(trimmed(text.get(row), ends, |byte| byte == b' ')))
        }
        [text, set] => {
            let (Some(text), Some(set)) = (ShortTexts::of(rows, text), ShortTexts::of(rows, set)) else {
                return false;
            };
            put_texts(rows, out, |row| {
                let characters = set.get(row);
                if !characters.is_ascii() {
                    let (text, set) = (text.text(row)?, set.text(row)?);
                    return string::trim_set(text, set, ends.left, ends.right).ok().map(str::as_bytes);
                }
                // A byte that is ASCII is no part of another character.
                Some(trimmed(text.get(row), ends, |byte| characters.contains(&byte)))
            })
        }
        _ => false,
    }
}
pub(super) fn btrim(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    trim(TrimmedEnds { left: true, right: true }, rows, args, out)
}
pub(super) fn ltrim(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    trim(TrimmedEnds { left: true, right: false }, rows, args, out)
}
pub(super) fn rtrim(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    trim(TrimmedEnds { left: false, right: true }, rows, args, out)
}
