//! tsvector: a document as its lexemes, sorted by their bytes, each once, with positions and weights.
//!
//! Invariants
//! 1. Lexemes are sorted and unique, shorter than 2,047 bytes; positions ascend and are unique, 256 at most, 1 to
//!    16383.
//! 2. The whole takes no more than [`DATA_MAX`] bytes in PostgreSQL's form: that is where PostgreSQL's limit is.

use crate::lexeme_scan::{LEXEME_BYTES, LexemeDialect, POSITION_MAX, Scanner};
use kilndb_base::{Error, Result, sqlstate, work};
use std::cmp::Ordering;

pub const DATA_MAX: usize = (1 << 20) - 1;
pub(crate) const POSITIONS_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lexeme {
    pub word: Box<str>,
    /// Position in the low 14 bits, weight (D 0, C 1, B 2, A 3) above.
    pub positions: Vec<u16>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TsVector {
    pub lexemes: Vec<Lexeme>,
}

pub fn position(p: u16) -> u16 {
    p & 0x3fff
}
pub fn weight(p: u16) -> u16 {
    p >> 14
}

/// Bytes of lexemes and positions in PostgreSQL's form, with its alignment.
fn data_bytes(lexemes: &[Lexeme]) -> usize {
    lexemes.iter().fold(0, |at, l| {
        let end = at + l.word.len();
        if l.positions.is_empty() { end } else { end.next_multiple_of(2) + 2 + 2 * l.positions.len() }
    })
}

/// Sorts positions; of equal ones the greatest weight stays.
fn unique_positions(positions: &mut Vec<u16>) {
    if positions.len() < 2 {
        return;
    }
    positions.sort_by_key(|p| (position(*p), std::cmp::Reverse(weight(*p))));
    positions.dedup_by_key(|p| position(*p));
    positions.truncate(POSITIONS_MAX);
}

impl TsVector {
    /// A vector of lexemes in any order: equal ones are merged.
    pub fn from_lexemes(mut lexemes: Vec<Lexeme>) -> Result<TsVector> {
        work::sort_by(&mut lexemes, |a, b| a.word.as_bytes().cmp(b.word.as_bytes()))?;
        let mut merged: Vec<Lexeme> = Vec::with_capacity(lexemes.len());
        for lexeme in lexemes {
            work::step(30)?;
            match merged.last_mut() {
                Some(last) if last.word == lexeme.word => last.positions.extend(lexeme.positions),
                _ => merged.push(lexeme),
            }
        }
        for l in &mut merged {
            work::step(10 + 30 * l.positions.len())?;
            unique_positions(&mut l.positions);
        }
        TsVector::checked(merged)
    }
    pub(crate) fn checked(lexemes: Vec<Lexeme>) -> Result<TsVector> {
        let bytes = data_bytes(&lexemes);
        if bytes > DATA_MAX {
            let message = format!("string is too long for tsvector ({bytes} bytes, max {DATA_MAX} bytes)");
            return Err(Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
        }
        Ok(TsVector { lexemes })
    }

    pub fn parse(text: &str) -> Result<TsVector> {
        let mut scanner = Scanner::new(text, LexemeDialect::Vector);
        let mut lexemes = Vec::new();
        while let Some(found) = scanner.next_lexeme()? {
            let len = found.word.len();
            if len >= LEXEME_BYTES {
                let message = format!("word is too long ({len} bytes, max {} bytes)", LEXEME_BYTES - 1);
                return Err(Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
            }
            lexemes.push(Lexeme { word: found.word.into(), positions: found.positions });
        }
        TsVector::from_lexemes(lexemes)
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        for (i, l) in self.lexemes.iter().enumerate() {
            if i > 0 {
                out.push(b' ');
            }
            write_quoted(&l.word, out);
            for (j, p) in l.positions.iter().enumerate() {
                out.push(if j == 0 { b':' } else { b',' });
                out.extend_from_slice(position(*p).to_string().as_bytes());
                out.extend_from_slice(["", "C", "B", "A"][usize::from(weight(*p))].as_bytes());
            }
        }
    }

    /// The binary form as a client has it.
    pub fn send(&self, out: &mut Vec<u8>) {
        self.send_noting(out, &mut |_, _| {});
    }
    /// Writes what [`TsVector::send`] writes; `begins` is told each lexeme's number and how long `out` is before it.
    pub(crate) fn send_noting(&self, out: &mut Vec<u8>, begins: &mut dyn FnMut(usize, usize)) {
        out.extend_from_slice(&(self.lexemes.len() as u32).to_be_bytes());
        for (n, l) in self.lexemes.iter().enumerate() {
            begins(n, out.len());
            out.extend_from_slice(l.word.as_bytes());
            out.push(0);
            out.extend_from_slice(&(l.positions.len() as u16).to_be_bytes());
            for p in &l.positions {
                out.extend_from_slice(&p.to_be_bytes());
            }
        }
    }
    /// What [`send`](TsVector::send) writes.
    pub fn receive(bytes: &[u8]) -> Result<TsVector> {
        let mut r = Reader(bytes);
        let count = r.u32()?;
        if count > 0x3fff_ffff / 4 {
            return Err(Error::internal("invalid size of tsvector"));
        }
        let mut lexemes: Vec<Lexeme> = Vec::new();
        for _ in 0..count {
            let word = r.text()?;
            if word.len() > LEXEME_BYTES {
                return Err(Error::internal("invalid tsvector: lexeme too long"));
            }
            let n = r.u16()?;
            if usize::from(n) > POSITIONS_MAX {
                return Err(Error::internal("unexpected number of tsvector positions"));
            }
            let mut positions: Vec<u16> = Vec::with_capacity(usize::from(n));
            for _ in 0..n {
                let p = r.u16()?;
                if positions.last().is_some_and(|last| position(p) <= position(*last)) {
                    return Err(Error::internal("position information is misordered"));
                }
                positions.push(p);
            }
            lexemes.push(Lexeme { word: word.into(), positions });
        }
        r.end()?;
        if lexemes.windows(2).all(|w| w[0].word.as_bytes() < w[1].word.as_bytes()) {
            return TsVector::checked(lexemes);
        }
        TsVector::from_lexemes(lexemes)
    }

    /// Where a word is, or where it would be.
    pub fn find(&self, word: &str) -> Result<usize, usize> {
        self.lexemes.binary_search_by(|l| l.word.as_bytes().cmp(word.as_bytes()))
    }
    /// The lexemes that a query's word means: one, or all with the prefix.
    pub fn matching(&self, word: &str, prefix: bool) -> std::ops::Range<usize> {
        let start = self.lexemes.partition_point(|l| l.word.as_bytes() < word.as_bytes());
        let rest = self.lexemes.get(start..).unwrap_or_default();
        let n = match prefix {
            true => rest.partition_point(|l| l.word.as_bytes().starts_with(word.as_bytes())),
            false => usize::from(rest.first().is_some_and(|l| *l.word == *word)),
        };
        start..start + n
    }
    /// Bytes in PostgreSQL's form, without its length word.
    pub fn stored_bytes(&self) -> usize {
        4 + 4 * self.lexemes.len() + data_bytes(&self.lexemes)
    }
    /// Size, number, then lexeme by lexeme, what has positions (and more of them) first.
    pub fn compare(&self, other: &TsVector) -> Ordering {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        self.sort_key(&mut a);
        other.sort_key(&mut b);
        a.cmp(&b)
    }
    /// Bytes that sort as the values do.
    pub fn sort_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.stored_bytes() as u32).to_be_bytes());
        out.extend_from_slice(&(self.lexemes.len() as u32).to_be_bytes());
        for l in &self.lexemes {
            out.push(u8::from(l.positions.is_empty()));
            out.extend_from_slice(l.word.as_bytes());
            out.push(0);
            if l.positions.is_empty() {
                continue;
            }
            out.extend_from_slice(&(!(l.positions.len() as u16)).to_be_bytes());
            for p in &l.positions {
                out.extend_from_slice(&(!position(*p)).to_be_bytes());
                out.push(!(weight(*p) as u8));
            }
        }
    }
    /// Positions in all, a lexeme without any counted once.
    pub fn occurrences(&self) -> usize {
        self.lexemes.iter().map(|l| l.positions.len().max(1)).sum()
    }
}

/// Writes a word in quotes, with quotes and backslashes doubled.
pub(crate) fn write_quoted(word: &str, out: &mut Vec<u8>) {
    out.push(b'\'');
    for b in word.bytes() {
        if matches!(b, b'\'' | b'\\') {
            out.push(b);
        }
        out.push(b);
    }
    out.push(b'\'');
}

pub(crate) fn limited(position: u32) -> u16 {
    position.min(POSITION_MAX) as u16
}

/// Reads the binary forms.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn short() -> Error {
        Error::new(sqlstate::PROTOCOL_VIOLATION, "insufficient data left in message")
    }
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or_else(Self::short)?;
        self.0 = rest;
        Ok(taken)
    }
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?.first().copied().unwrap_or(0))
    }
    pub fn u16(&mut self) -> Result<u16> {
        Ok(self.bytes(2)?.iter().fold(0, |v, b| v << 8 | u16::from(*b)))
    }
    pub fn u32(&mut self) -> Result<u32> {
        Ok(self.bytes(4)?.iter().fold(0, |v, b| v << 8 | u32::from(*b)))
    }
    /// Reads up to a zero byte.
    pub fn word(&mut self) -> Result<&'a [u8]> {
        let end = self.0.iter().position(|b| *b == 0);
        let end = end.ok_or_else(|| Error::new(sqlstate::PROTOCOL_VIOLATION, "invalid string in message"))?;
        let word = self.bytes(end)?;
        self.bytes(1)?;
        Ok(word)
    }
    pub fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.word()?).map_err(|_| {
            Error::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\"")
        })
    }
    pub fn end(&self) -> Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Error::new(sqlstate::INVALID_BINARY_REPRESENTATION, "incorrect binary data format"))
        }
    }
}
