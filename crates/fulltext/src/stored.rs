//! A document in its binary form, searched without being decoded: of most rows that a search looks at nothing else is wanted.
//!
//! Invariants
//! 1. Answers are those of the decoded [`TsVector`](crate::TsVector); what is no such form is told by [`matches`].

use crate::execute::{Answer, Places, Words};
use crate::query::{Operand, TsQuery};
use crate::vector::{POSITIONS_MAX, Reader, position, weight};
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

impl<'a> Stored<'a> {
    /// Calls `visit` with the positions of each lexeme that is meant.
    fn each(&self, word: &[u8], prefix: bool, visit: &mut dyn FnMut(&'a [u8])) -> Result<()> {
        let mut r = Reader(self.bytes);
        for _ in 0..r.u32()? {
            let here = r.word()?;
            let count = usize::from(r.u16()?);
            if count > POSITIONS_MAX {
                return Err(Error::corrupted("stored tsvector value"));
            }
            let positions = r.bytes(2 * count)?;
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
        let documents = ["", "a", "'a':1 'ab':2A,5 'b':3C", "'a':4B 'b':5", "'ab' 'abc':7 'b'", "'c':1,2,3 'd':4A"];
        let queries = [
            "a", "b", "a & b", "a | c", "!a", "a <-> b", "a <2> b", "ab:*", "a:* & b", "ab:A", "b:C", "b:AB", "!(a <-> b)", "c <-> c", "a:* <-> b", "(a | c) <-> b", "!a <-> b",
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
