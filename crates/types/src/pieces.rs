//! Long values in pieces: what looks at each byte of a value does so piece by piece, and others get their turn between
//! two of them.
//!
//! Invariant: a piece of text ends where a character does, and is never empty.

use crate::Datum;
use kilndb_base::work::{self, SmallSteps};
use kilndb_base::{Error, Result, shared};
use std::sync::Arc;

/// Bytes of a piece, and elements of one.
const BYTES: usize = work::PIECE_BYTES;
const ELEMENTS: usize = 4096;
/// A step over fewer bytes is not worth counting, in bytes.
const SHORT: usize = 1024;
/// The bytes of a text that is put together on the stack.
const JOINED_ON_STACK: usize = 256;
/// What cannot be done in pieces is done apart from so many bytes on.
pub const LONG: usize = 1 << 20;

/// The pieces of a text; `units` is what a byte of it costs.
pub fn of_text(text: &str, units: usize) -> impl Iterator<Item = Result<&str>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, behind) = rest.split_at(rest.ceil_char_boundary(BYTES.min(rest.len())));
        rest = behind;
        Some(work::step(piece.len() * units).map(|()| piece))
    })
}

/// The pieces of bytes.
pub(crate) fn of_bytes(bytes: &[u8], units: usize) -> impl Iterator<Item = Result<&[u8]>> {
    bytes.chunks(BYTES).map(move |piece| work::step(piece.len() * units).map(|()| piece))
}

/// A text of which each piece becomes another.
pub(crate) fn map_text<'t, P: AsRef<str>>(
    text: &'t str,
    units: usize,
    mut map: impl FnMut(&'t str) -> P,
) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    for piece in of_text(text, units) {
        out.push_str(map(piece?).as_ref());
    }
    Ok(out)
}

/// Bytes appended piece by piece.
pub fn append(out: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    out.reserve(bytes.len());
    for piece in of_bytes(bytes, 1) {
        out.extend_from_slice(piece?);
    }
    Ok(())
}
/// The same where most are short, and who calls counts his steps himself.
#[inline]
pub(crate) fn append_mostly_short(out: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    if bytes.len() > SHORT {
        return append(out, bytes);
    }
    out.extend_from_slice(bytes);
    Ok(())
}
pub(crate) fn append_text(out: &mut String, text: &str) -> Result<()> {
    out.reserve(text.len());
    for piece in of_text(text, 1) {
        out.push_str(piece?);
    }
    Ok(())
}

/// How many bytes at the start are of a kind.
#[inline]
pub(crate) fn count_leading(bytes: &[u8], is_of_kind: impl Fn(u8) -> bool) -> Result<usize> {
    let (mut count, mut steps) = (0, SmallSteps::default());
    while bytes.get(count).is_some_and(|b| is_of_kind(*b)) {
        steps.step(1)?;
        count += 1;
    }
    Ok(count)
}
/// Whether all bytes are of a kind.
#[inline]
pub fn all(bytes: &[u8], is_of_kind: impl Fn(u8) -> bool) -> Result<bool> {
    if bytes.len() <= SHORT {
        return Ok(bytes.iter().all(|b| is_of_kind(*b)));
    }
    for piece in of_bytes(bytes, 1) {
        if !piece?.iter().all(|b| is_of_kind(*b)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether bytes are the same.
pub fn eq(a: &[u8], b: &[u8]) -> Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.chunks(BYTES).zip(b.chunks(BYTES)) {
        work::step(a.len() / 8)?;
        if a != b {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Texts joined, and bytes.
pub fn concat(parts: &[&str]) -> Result<String> {
    let mut out = String::with_capacity(parts.iter().map(|p| p.len()).sum());
    parts.iter().try_for_each(|part| append_text(&mut out, part))?;
    Ok(out)
}

/// Texts joined, to be shared. Short ones are put together on the stack.
pub(crate) fn joined(parts: &[&str]) -> Result<Arc<str>> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut room = [0; JOINED_ON_STACK];
    if length > room.len() {
        return shared::text(&concat(parts)?);
    }
    work::step(length)?;
    let mut end = 0;
    for part in parts {
        room[end..end + part.len()].copy_from_slice(part.as_bytes());
        end += part.len();
    }
    let joined = std::str::from_utf8(&room[..length]).map_err(|_| Error::internal("texts joined are no text"))?;
    Ok(Arc::from(joined))
}

pub(crate) fn concat_bytes(parts: &[&[u8]]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(parts.iter().map(|p| p.len()).sum());
    parts.iter().try_for_each(|part| append(&mut out, part))?;
    Ok(out)
}

/// `n` times the text.
pub fn repeat(text: &str, n: usize) -> Result<String> {
    let length = text.len().saturating_mul(n);
    let mut out = String::with_capacity(length);
    if length == 0 {
        return Ok(out);
    }
    // As many as fit into a piece are appended at once.
    let piece = text.repeat((BYTES / text.len()).clamp(1, n));
    while length - out.len() >= piece.len() {
        append_text(&mut out, &piece)?;
    }
    let rest = length - out.len();
    append_text(&mut out, &piece[..rest])?;
    Ok(out)
}

/// How many characters a text has.
pub(crate) fn count_chars(text: &str) -> Result<usize> {
    of_text(text, 1).try_fold(0, |count, piece| Ok(count + piece?.chars().count()))
}

/// The offset of character `n`, or of the end.
pub(crate) fn char_offset(text: &str, n: usize) -> Result<usize> {
    if text.is_ascii() {
        return Ok(n.min(text.len()));
    }
    let (mut left, mut offset) = (n, 0);
    for piece in of_text(text, 1) {
        let piece = piece?;
        if let Some((at, _)) = piece.char_indices().nth(left) {
            return Ok(offset + at);
        }
        left -= piece.chars().count();
        offset += piece.len();
    }
    Ok(text.len())
}

/// Where `wanted` stands first.
pub fn find(text: &str, wanted: &str) -> Result<Option<usize>> {
    if wanted.len() >= text.len() {
        return Ok((wanted.len() == text.len() && eq(text.as_bytes(), wanted.as_bytes())?).then_some(0));
    }
    if wanted.len() > LONG {
        // Preparing the search takes long already.
        return work::apart(|| text.find(wanted));
    }
    // A piece reaches so far into the next one that nothing is missed between the two.
    let (step, overlap) = (BYTES.max(wanted.len()), wanted.len().saturating_sub(1));
    let mut start = 0usize;
    loop {
        let end = text.ceil_char_boundary(start.saturating_add(step + overlap).min(text.len()));
        let found = text[start..end].find(wanted);
        work::step(found.unwrap_or(end - start) / 2)?;
        if let Some(at) = found {
            return Ok(Some(start + at));
        }
        if end == text.len() {
            return Ok(None);
        }
        start = text.floor_char_boundary(end - overlap);
    }
}

/// A copy of elements.
pub fn cloned(elements: &[Datum]) -> Result<Vec<Datum>> {
    let mut out = Vec::with_capacity(elements.len());
    append_elements(&mut out, elements)?;
    Ok(out)
}
pub(crate) fn append_elements(out: &mut Vec<Datum>, elements: &[Datum]) -> Result<()> {
    out.reserve(elements.len());
    for piece in elements.chunks(ELEMENTS) {
        work::step(piece.len() * 8)?;
        out.extend_from_slice(piece);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_whole() {
        for text in [String::new(), "é".repeat(100_000), format!("{}€{}", "a".repeat(65_535), "b".repeat(70_000))] {
            assert_eq!(of_text(&text, 1).map(|p| p.unwrap()).collect::<String>(), text);
            assert!(of_text(&text, 1).all(|p| !p.unwrap().is_empty()));
            assert_eq!(concat(&[&text, "x", &text]).unwrap(), format!("{text}x{text}"));
            assert_eq!(count_chars(&text).unwrap(), text.chars().count());
            assert!(eq(text.as_bytes(), text.clone().as_bytes()).unwrap());
            assert!(!eq(text.as_bytes(), format!("{text}x").as_bytes()).unwrap());
            assert_eq!(find(&text, &text).unwrap(), Some(0));
            for n in [0, 1, 40_000, 99_999, 1_000_000] {
                let offset = text.char_indices().nth(n).map_or(text.len(), |(i, _)| i);
                assert_eq!(char_offset(&text, n).unwrap(), offset);
            }
        }
        for (text, n) in [("", 5), ("a", 0), ("ab€", 1), ("ab€", 40_000), (&"é".repeat(50_000)[..], 3)] {
            assert_eq!(repeat(text, n).unwrap(), text.repeat(n));
        }
    }

    #[test]
    fn what_stands_across_two_pieces_is_found() {
        for wanted in ["needle", "é", "", "nn", &"n€".repeat(60_000)] {
            for before in [0, 65_530, 65_535, 65_536, 131_071, 200_000] {
                let text = format!("{}{wanted}{}", "ä".repeat(before / 2), "o".repeat(90_000));
                assert_eq!(find(&text, wanted).unwrap(), text.find(wanted), "{before}");
            }
        }
        assert_eq!(find(&"ab".repeat(100_000), "ba€").unwrap(), None);
    }

    #[test]
    fn bytes_of_a_kind_are_counted() {
        for count in [0, 1, 65_535, 65_536, 200_000] {
            let bytes = [vec![b' '; count], b"x ".to_vec()].concat();
            assert_eq!(count_leading(&bytes, |b| b == b' ').unwrap(), count);
            assert_eq!(count_leading(&bytes[..count], |b| b == b' ').unwrap(), count);
            assert!(all(&bytes[..count], |b| b == b' ').unwrap() && !all(&bytes, |b| b == b' ').unwrap());
        }
    }
}
