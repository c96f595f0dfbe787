//! What can be done with a tsvector: concatenation, weights, deletion.

use crate::vector::{Lexeme, POSITIONS_MAX, TsVector, limited, position, weight};
use kilndb_base::{Error, Result, sqlstate, work};
use std::cmp::Ordering;

/// What looking for a word among all costs.
const UNITS_OF_SEARCH: usize = 300;

/// `A` to `D`, in either case, as a number.
pub fn parse_weight(letter: u8) -> Result<u16> {
    Ok(match letter {
        b'A' | b'a' => 3,
        b'B' | b'b' => 2,
        b'C' | b'c' => 1,
        b'D' | b'd' => 0,
        0x20..0x7f => {
            return Err(Error::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("unrecognized weight: \"{}\"", letter as char),
            ));
        }
        _ => {
            return Err(Error::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("unrecognized weight: \"\\{letter:03o}\""),
            ));
        }
    })
}

/// Appends positions that begin behind `offset`, as far as there is room.
fn add_positions(to: &mut Vec<u16>, from: &[u16], offset: u32) {
    for p in from {
        let is_full = to.len() >= POSITIONS_MAX || to.last().is_some_and(|last| position(*last) == 16383);
        if is_full {
            return;
        }
        to.push(limited(u32::from(position(*p)) + offset) | weight(*p) << 14);
    }
}

impl TsVector {
    /// `||`: the second document's positions follow the first's.
    pub fn concat(&self, other: &TsVector) -> Result<TsVector> {
        let offset = self.lexemes.iter().flat_map(|l| &l.positions).map(|p| u32::from(position(*p))).max().unwrap_or(0);
        let mut out = Vec::with_capacity(self.lexemes.len() + other.lexemes.len());
        let (mut a, mut b) = (self.lexemes.iter().peekable(), other.lexemes.iter().peekable());
        loop {
            let order = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) => x.word.as_bytes().cmp(y.word.as_bytes()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let mut lexeme = if order.is_le() { a.next().cloned() } else { None };
            if order.is_ge()
                && let Some(second) = b.next()
            {
                let merged = lexeme.get_or_insert_with(|| Lexeme { word: second.word.clone(), positions: Vec::new() });
                add_positions(&mut merged.positions, &second.positions, offset);
            }
            out.extend(lexeme);
        }
        TsVector::checked(out)
    }
    pub fn strip(&self) -> TsVector {
        TsVector {
            lexemes: self.lexemes.iter().map(|l| Lexeme { word: l.word.clone(), positions: Vec::new() }).collect(),
        }
    }
    /// The vector with one weight everywhere, or on the words given.
    pub fn set_weight(&self, weight: u16, only: Option<&[&str]>) -> Result<TsVector> {
        let mut out = self.clone();
        let set = |l: &mut Lexeme| l.positions.iter_mut().for_each(|p| *p = position(*p) | weight << 14);
        match only {
            None => out.lexemes.iter_mut().for_each(set),
            Some(words) => {
                for word in work::steps(words, UNITS_OF_SEARCH) {
                    let word = word?;
                    if let Ok(at) = out.find(word) {
                        out.lexemes.get_mut(at).into_iter().for_each(set);
                    }
                }
            }
        }
        Ok(out)
    }
    pub fn without(&self, words: &[&str]) -> Result<TsVector> {
        let mut gone = Vec::new();
        for word in work::steps(words, UNITS_OF_SEARCH) {
            gone.extend(self.find(word?));
        }
        work::sort_by(&mut gone, usize::cmp)?;
        let lexemes =
            self.lexemes.iter().enumerate().filter(|(i, _)| gone.binary_search(i).is_err()).map(|(_, l)| l.clone());
        Ok(TsVector { lexemes: lexemes.collect() })
    }
    /// The vector with only those positions that have one of the weights (a bit per weight), and only lexemes that keep
    /// some.
    pub fn filter_weights(&self, mask: u16) -> TsVector {
        let kept = self.lexemes.iter().filter_map(|l| {
            let positions: Vec<u16> = l.positions.iter().copied().filter(|p| mask & 1 << weight(*p) != 0).collect();
            (!positions.is_empty()).then(|| Lexeme { word: l.word.clone(), positions })
        });
        TsVector { lexemes: kept.collect() }
    }
}
