//! A document in its binary form, searched without being decoded: of most rows that a search looks at nothing else is wanted.
//!
//! Invariants
//! 1. Answers are those of the decoded [`TsVector`](crate::TsVector); what is no such form is told by [`matches`].

use crate::execute::{Answer, Places, Words};
use crate::query::{Operand, TsQuery};
use crate::vector::{Reader, position, weight};
use kilndb_base::{Error, Result};
use std::cell::RefCell;

struct Stored<'a> {
    bytes: &'a [u8],
    failed: RefCell<Option<Error>>,
}

/// Does the document (as [`TsVector::send`](crate::TsVector::send) writes it) satisfy the query?
pub fn matches(bytes: &[u8], query: &TsQuery) -> Result<bool> {
    let words = Stored { bytes, failed: RefCell::default() };
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

impl<'a> Stored<'a> {
    /// Calls `visit` with the positions of each lexeme that is meant.
    fn each(&self, word: &[u8], prefix: bool, visit: &mut dyn FnMut(&'a [u8])) -> Result<()> {
        let count = Reader(self.bytes).u32()?;
        let wanted = padded_head(word);
        let mut at = 4;
        for _ in 0..count {
            let rest = self.bytes.get(at..).unwrap_or(&[]);
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
    fn find_stored(&self, operand: &Operand, places: Option<&mut Places>) -> Result<Answer> {
        let word = operand.word.as_bytes();
        let fits = |p: u16| operand.weights == 0 || operand.weights & 1 << weight(p) != 0;
        let numbers = |list: &'a [u8]| list.chunks_exact(2).map(|p| u16::from_be_bytes([p[0], p[1]]));
        let Some(places) = places else {
            let mut is_there = false;
            self.each(word, operand.prefix, &mut |list| is_there |= list.is_empty() || numbers(list).any(fits))?;
            return Ok(if is_there { Answer::Yes } else { Answer::No });
        };
        let (mut found, mut has_none) = (0, false);
        self.each(word, operand.prefix, &mut |list| {
            found += 1;
            has_none |= list.is_empty();
            places.positions.extend(numbers(list).filter(|p| fits(*p)).map(position));
        })?;
        if has_none {
            places.positions.clear();
            return Ok(Answer::Maybe);
        }
        if found > 1 {
            places.positions.sort_unstable();
            places.positions.dedup();
        }
        Ok(if places.positions.is_empty() { Answer::No } else { Answer::Yes })
    }
}

impl Words for Stored<'_> {
    fn find(&self, _index: usize, operand: &Operand, places: Option<&mut Places>) -> Answer {
        self.find_stored(operand, places).unwrap_or_else(|e| {
            self.failed.replace(Some(e));
            Answer::No
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TsVector;

    #[test]
    fn answers_are_those_of_the_decoded_document() {
        let documents = ["'abcdefg':1 'abcdefgh':2 'abcdefghi':3 'abcdefghij' 'b':4", "'abcdefgh':1A 'b':2", "", "a", "'a':1 'ab':2A,5 'b':3C", "'a':4B 'b':5", "'ab' 'abc':7 'b'", "'c':1,2,3 'd':4A"];
        let queries = [
            "a", "b", "a & b", "a | c", "!a", "a <-> b", "a <2> b", "ab:*", "a:* & b", "ab:A", "b:C", "b:AB", "!(a <-> b)", "c <-> c", "a:* <-> b", "(a | c) <-> b", "!a <-> b", "abcdefgh", "abcdefgh:* & b", "abcdefghi <-> b", "abcdefg",
            "abcdefghijk", "abc:*",
        ];
        let mut yes = 0;
        for document in documents {
            let vector = TsVector::parse(document).expect("a tsvector");
            let mut bytes = Vec::new();
            vector.send(&mut bytes);
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
}
