//! A document as rows have it, searched without being decoded: of most rows that a search looks at nothing else is
//! wanted.
//!
//! Its binary form (as [`TsVector::send`](crate::TsVector::send) writes it), and where in it every eighth lexeme
//! begins. A word is looked for among these by halves, and then from lexeme to lexeme: each tells where the next one
//! is.
//!
//! Invariants
//! 1. Answers are those of the decoded [`TsVector`](crate::TsVector); what is no such form is told by [`matches`].
//! 2. How many offsets there are follows from the number of lexemes, and their width from the length of it all.

use crate::TsVector;
use crate::execute::{MatchPositions, TernaryAnswer, WordFinder};
use crate::query::{QueryOperand, TsQuery};
use crate::vector::{Reader, position, weight};
use kilndb_base::{Error, Result};
use std::cell::RefCell;
use std::cmp::Ordering;

/// Lexemes to an offset.
const STEP: usize = 8;
/// A form up to this long has offsets of two bytes (big-endian), a longer one of four.
const SHORT_BYTES: usize = u16::MAX as usize;

struct StoredTsVector<'a> {
    /// The binary form.
    form: &'a [u8],
    count: usize,
    offsets: &'a [u8],
    offset_bytes: usize,
    failed: RefCell<Option<Error>>,
}

/// Appends what [`matches`] and [`read`] take.
pub fn write(vector: &TsVector, out: &mut Vec<u8>) {
    let start = out.len();
    let mut offsets = Vec::new();
    vector.send_noting(out, &mut |n, end| {
        if n > 0 && n % STEP == 0 {
            offsets.push(end - start);
        }
    });
    let is_short = out.len() - start <= SHORT_BYTES;
    for offset in offsets {
        let bytes = (offset as u32).to_be_bytes();
        out.extend_from_slice(if is_short { &bytes[2..] } else { &bytes });
    }
}

pub fn read(bytes: &[u8]) -> Result<TsVector> {
    TsVector::receive(StoredTsVector::of(bytes)?.form)
}

/// Whether the document satisfies the query.
pub fn matches(bytes: &[u8], query: &TsQuery) -> Result<bool> {
    let words = StoredTsVector::of(bytes)?;
    let answer = query.matches(&words);
    match words.failed.into_inner() {
        Some(e) => Err(e),
        None => Ok(answer),
    }
}

#[cold]
fn damaged() -> Error {
    Error::corrupted("stored tsvector value")
}

/// The first eight bytes of what ends before a zero byte, as a number that sorts as they do, and its length.
fn head_of(bytes: &[u8]) -> Option<(u64, usize)> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let Some(first) = bytes.first_chunk::<8>() else {
        let len = bytes.iter().position(|b| *b == 0)?;
        return Some((padded_head(&bytes[..len]), len));
    };
    let number = u64::from_le_bytes(*first);
    // The lowest bit set is in the first zero byte.
    let zeros = number.wrapping_sub(LOW) & !number & (LOW << 7);
    if zeros == 0 {
        let len = 8 + bytes[8..].iter().position(|b| *b == 0)?;
        return Some((number.swap_bytes(), len));
    }
    let len = zeros.trailing_zeros() / 8;
    Some(((number & ((1u64 << (8 * len)) - 1)).swap_bytes(), len as usize))
}
fn padded_head(word: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = word.len().min(8);
    first[..len].copy_from_slice(&word[..len]);
    u64::from_be_bytes(first)
}

impl<'a> StoredTsVector<'a> {
    fn of(bytes: &'a [u8]) -> Result<StoredTsVector<'a>> {
        let count = Reader(bytes).u32()? as usize;
        let offsets = count.saturating_sub(1) / STEP;
        let is_short = bytes.len().saturating_sub(2 * offsets) <= SHORT_BYTES;
        let offset_bytes = if is_short { 2 } else { 4 };
        let end = bytes.len().checked_sub(offsets * offset_bytes).ok_or_else(damaged)?;
        let (form, offsets) = bytes.split_at(end);
        Ok(StoredTsVector { form, count, offsets, offset_bytes, failed: RefCell::default() })
    }
    /// Where the lexeme of an offset begins.
    fn offset(&self, n: usize) -> Option<usize> {
        let bytes = self.offsets.get(n * self.offset_bytes..(n + 1) * self.offset_bytes)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }
    /// The last lexeme with an offset that is not after the word, or the first one of all: its number and where it
    /// begins.
    fn start(&self, word: &[u8], wanted: u64) -> Result<(usize, usize)> {
        let (mut below, mut above) = (0, self.offsets.len() / self.offset_bytes);
        let mut start = 4;
        while below < above {
            let middle = (below + above) / 2;
            let at = self.offset(middle).ok_or_else(damaged)?;
            let rest = self.form.get(at..).ok_or_else(damaged)?;
            let (head, len) = head_of(rest).ok_or_else(damaged)?;
            if head.cmp(&wanted).then_with(|| rest[..len].cmp(word)) == Ordering::Greater {
                above = middle;
            } else {
                (below, start) = (middle + 1, at);
            }
        }
        Ok((below * STEP, start))
    }
    /// Calls `visit` with the positions of each lexeme that is meant.
    fn each(&self, word: &[u8], prefix: bool, visit: &mut dyn FnMut(&'a [u8])) -> Result<()> {
        let wanted = padded_head(word);
        let (first, mut at) = self.start(word, wanted)?;
        for _ in first..self.count {
            let rest = self.form.get(at..).unwrap_or(&[]);
            let (head, len) = head_of(rest).ok_or_else(damaged)?;
            let number = rest.get(len + 1..len + 3).ok_or_else(damaged)?;
            let end = len + 3 + 2 * usize::from(u16::from_be_bytes([number[0], number[1]]));
            let positions = rest.get(len + 3..end).ok_or_else(damaged)?;
            at += end;
            // Most lexemes come before the word, which their first bytes tell.
            if head < wanted {
                continue;
            }
            let here = &rest[..len];
            if here == word || prefix && here.starts_with(word) {
                visit(positions);
            } else if here > word {
                return Ok(());
            }
        }
        Ok(())
    }
    fn find_stored(&self, operand: &QueryOperand, places: Option<&mut MatchPositions>) -> Result<TernaryAnswer> {
        let word = operand.word.as_bytes();
        let fits = |p: u16| operand.weights == 0 || operand.weights & 1 << weight(p) != 0;
        let numbers = |list: &'a [u8]| list.chunks_exact(2).map(|p| u16::from_be_bytes([p[0], p[1]]));
        let Some(places) = places else {
            let mut is_there = false;
            self.each(word, operand.prefix, &mut |list| is_there |= list.is_empty() || numbers(list).any(fits))?;
            return Ok(if is_there { TernaryAnswer::Yes } else { TernaryAnswer::No });
        };
        let (mut found, mut has_none) = (0, false);
        self.each(word, operand.prefix, &mut |list| {
            found += 1;
            has_none |= list.is_empty();
            places.positions.extend(numbers(list).filter(|p| fits(*p)).map(position));
        })?;
        if has_none {
            places.positions.clear();
            return Ok(TernaryAnswer::Maybe);
        }
        if found > 1 {
            places.positions.sort_unstable();
            places.positions.dedup();
        }
        Ok(if places.positions.is_empty() { TernaryAnswer::No } else { TernaryAnswer::Yes })
    }
}

impl WordFinder for StoredTsVector<'_> {
    fn find(&self, _index: usize, operand: &QueryOperand, places: Option<&mut MatchPositions>) -> TernaryAnswer {
        self.find_stored(operand, places).unwrap_or_else(|e| {
            self.failed.replace(Some(e));
            TernaryAnswer::No
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_the_decoded_document() {
        let documents = [
            "'abcdefg':1 'abcdefgh':2 'abcdefghi':3 'abcdefghij' 'b':4",
            "'abcdefgh':1A 'b':2",
            "",
            "a",
            "'a':1 'ab':2A,5 'b':3C",
            "'a':4B 'b':5",
            "'ab' 'abc':7 'b'",
            "'c':1,2,3 'd':4A",
        ];
        let queries = [
            "a",
            "b",
            "a & b",
            "a | c",
            "!a",
            "a <-> b",
            "a <2> b",
            "ab:*",
            "a:* & b",
            "ab:A",
            "b:C",
            "b:AB",
            "!(a <-> b)",
            "c <-> c",
            "a:* <-> b",
            "(a | c) <-> b",
            "!a <-> b",
            "abcdefgh",
            "abcdefgh:* & b",
            "abcdefghi <-> b",
            "abcdefg",
            "abcdefghijk",
            "abc:*",
        ];
        let mut yes = 0;
        for document in documents {
            let vector = TsVector::parse(document).expect("a tsvector");
            let mut bytes = Vec::new();
            write(&vector, &mut bytes);
            assert_eq!(read(&bytes).expect("a stored document"), vector);
            for text in queries {
                let query = TsQuery::parse(text).expect("a tsquery").query;
                let expected = query.matches(&vector);
                yes += u32::from(expected);
                assert_eq!(matches(&bytes, &query).expect("a stored document"), expected, "{document} {text}");
            }
        }
        assert!(yes > 20);
        assert!(matches(&[0, 0, 0, 1, b'a'], &TsQuery::parse("a").expect("a tsquery").query).is_err());
    }

    #[test]
    fn words_of_long_documents_are_found() {
        for (count, pad) in [(1, 0), (7, 0), (8, 0), (9, 0), (16, 3), (17, 0), (100, 5), (1000, 0), (1000, 90)] {
            // Every other word is in the document; they share their beginnings.
            let word = |n: usize| format!("word{}{n:05}", "x".repeat(pad));
            let document: Vec<String> = (0..count).map(|n| format!("{}:{}", word(2 * n), n % 16000 + 1)).collect();
            let vector = TsVector::parse(&document.join(" ")).expect("a tsvector");
            let mut bytes = vec![7, 7, 7];
            write(&vector, &mut bytes);
            let bytes = &bytes[3..];
            assert_eq!(bytes.len() > SHORT_BYTES, count * pad > 80_000, "both widths of offsets");
            assert_eq!(read(bytes).expect("a stored document"), vector);
            for n in 0..2 * count + 2 {
                for (text, expected) in [
                    (word(n), n % 2 == 0 && n < 2 * count),
                    (format!("{}:*", &word(n)[..pad + 8]), n / 10 * 10 < 2 * count),
                ] {
                    let query = TsQuery::parse(&text).expect("a tsquery").query;
                    assert_eq!(matches(bytes, &query).expect("a stored document"), expected, "{count} {text}");
                }
            }
            for len in 0..bytes.len().min(300) {
                // Cut off anywhere it is no document, or one that lacks words; never a panic.
                let _ = matches(&bytes[..len], &TsQuery::parse(&word(count)).expect("a tsquery").query);
            }
        }
    }
}
