//! Trigrams of texts, as pg_trgm takes them: how alike two texts are.
//!
//! Invariants
//! 1. A trigram is three bytes: three characters of one byte each, or a hash of three that take more.
//! 2. Trigrams are of words in lower case, with two blanks before and one after; what is between words has none.
//!
//! Must not know: indexes.

mod words;

pub use words::WordSimilarity;
pub(crate) use words::word_similarity;

use crate::functions::string::one;
use crate::pieces;
use kilndb_base::Result;
use kilndb_base::work::{self, SmallSteps};

pub type Trigram = [u8; 3];

/// What stands for all that is in no word.
pub(crate) const GAP: char = ' ';

/// How alike texts must be at least for an operator to say that they are, from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Thresholds {
    pub similarity: f64,
    pub word: f64,
    pub strict_word: f64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { similarity: 0.3, word: 0.6, strict_word: 0.5 }
    }
}

/// A character as trigrams have it.
pub(crate) fn symbol(c: char) -> char {
    if c.is_alphanumeric() { one(c, false) } else { GAP }
}

/// PostgreSQL's older CRC-32: the table of the usual one, shifted the other way.
fn legacy_crc(bytes: &[u8]) -> u32 {
    let entry = |byte: u32| (0..8).fold(byte, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 });
    !bytes.iter().fold(u32::MAX, |crc, byte| entry(crc >> 24 ^ u32::from(*byte)) ^ crc << 8)
}

fn compact(three: [char; 3]) -> Trigram {
    if let [Ok(a), Ok(b), Ok(c)] = three.map(u8::try_from)
        && [a, b, c].is_ascii()
    {
        return [a, b, c];
    }
    let text = String::from_iter(three);
    match text.as_bytes() {
        [a, b, c] => [*a, *b, *c],
        bytes => {
            let [a, b, c, _] = legacy_crc(bytes).to_le_bytes();
            [a, b, c]
        }
    }
}

/// What taking a trigram costs.
const UNITS_OF_TRIGRAM: usize = 20;

/// Trigrams of symbols, in their order. A word at either end goes on beyond it unless a gap is there.
pub(crate) fn of_symbols(symbols: &str, visit: &mut dyn FnMut(Trigram) -> Result<()>) -> Result<()> {
    let mut steps = SmallSteps::default();
    let mut words = symbols.split(GAP).peekable();
    let mut is_first = true;
    while let Some(word) = words.next() {
        steps.step(UNITS_OF_TRIGRAM)?;
        let before = if is_first { "" } else { "  " };
        let after = if words.peek().is_some() { " " } else { "" };
        is_first = false;
        if word.is_empty() {
            continue;
        }
        let mut padded = before.chars().chain(word.chars()).chain(after.chars());
        let (Some(mut a), Some(mut b)) = (padded.next(), padded.next()) else { continue };
        for c in padded {
            steps.step(UNITS_OF_TRIGRAM)?;
            visit(compact([a, b, c]))?;
            (a, b) = (b, c);
        }
    }
    Ok(())
}

/// The symbols of a text.
pub(crate) fn symbols_of(text: &str) -> Result<String> {
    pieces::map_text(text, 10, |piece| piece.chars().map(symbol).collect::<String>())
}

/// Trigrams from which on what is there several times is taken out: those of a long text are mostly the same ones.
const MANY: usize = 4096;

/// The trigrams of a text, each once, ordered by their bytes as signed ones.
pub fn of_text(text: &str) -> Result<Vec<Trigram>> {
    let symbols = pieces::concat(&[" ", &symbols_of(text)?, " "])?;
    let mut out = Vec::with_capacity((text.len() + 1).min(MANY));
    let mut limit = MANY;
    of_symbols(&symbols, &mut |t| {
        out.push(t);
        if out.len() >= limit {
            make_unique(&mut out)?;
            limit = MANY.max(2 * out.len());
        }
        Ok(())
    })?;
    make_unique(&mut out)?;
    Ok(out)
}
fn signed(t: &Trigram) -> [i8; 3] {
    t.map(u8::cast_signed)
}
fn make_unique(list: &mut Vec<Trigram>) -> Result<()> {
    work::sort_by(list, |a, b| signed(a).cmp(&signed(b)))?;
    list.dedup();
    Ok(())
}

/// As show_trgm prints it.
pub fn shown(t: Trigram) -> String {
    let is_printable = |b: &u8| b.is_ascii_alphanumeric() || *b == b' ';
    match std::str::from_utf8(&t) {
        Ok(text) if t.iter().all(is_printable) => text.to_string(),
        _ => format!("0x{:02x}{:02x}{:02x}", t[0], t[1], t[2]),
    }
}

/// The share of what two sets have that is in both: `both` of `a` and `b`.
fn share(both: usize, a: usize, b: usize) -> f32 {
    both as f32 / (a + b - both) as f32
}

pub fn similarity(a: &str, b: &str) -> Result<f32> {
    let (a, b) = (of_text(a)?, of_text(b)?);
    if a.is_empty() || b.is_empty() {
        return Ok(0.0);
    }
    let mut both = 0;
    for t in work::steps(&a, UNITS_OF_TRIGRAM) {
        let wanted = signed(t?);
        both += usize::from(b.binary_search_by_key(&wanted, signed).is_ok());
    }
    Ok(share(both, a.len(), b.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn trigrams() {
        let all = |text: &str| of_text(text).unwrap().into_iter().map(shown).collect::<Vec<_>>();
        assert_eq!(all("a b C0*%^"), ["  a", "  b", "  c", " a ", " b ", " c0", "c0 "]);
        assert!(all("(*&^$@%@").is_empty());
        assert_eq!(similarity("wow", "WOWa ").unwrap(), 0.5);
        assert_eq!(similarity("---", "####---").unwrap(), 0.0);
    }

    #[test]
    fn repeated_trigrams_are_taken_once() {
        let words: Vec<String> = (0..20_000).map(|i| format!("{:x}", i * 7919 % 4096)).collect();
        let (long, mut expected) =
            (words.join("-"), words.iter().flat_map(|w| of_text(w).unwrap()).collect::<Vec<_>>());
        expected.sort_by_key(signed);
        expected.dedup();
        assert_eq!(of_text(&long).unwrap(), expected);
        assert_eq!(similarity(&long, &long).unwrap(), 1.0);
        assert_eq!(compact(['a', 'é', 'b']), compact(['a', 'é', 'b']));
        assert_eq!(compact([' ', ' ', 'b']), *b"  b");
    }

    #[test]
    fn long_texts_give_way() {
        for text in ["abc deé ".repeat(50_000), "abcdé".repeat(50_000)] {
            asks(worth(text.len() * UNITS_OF_TRIGRAM / 2), |_| similarity(&text, "abc"));
        }
        asks(worth(1_000_000 * UNITS_OF_TRIGRAM), |_| of_text(&" ".repeat(1_000_000)));
        let how = WordSimilarity { strict: false, enough: None };
        let text = "abc deé ".repeat(50_000);
        asks(worth(text.len() * UNITS_OF_TRIGRAM), |_| word_similarity("abc", &text, how));
        // Nowhere is a better beginning than the first one, so that each end looks at all between the two.
        let text = "abcdé".repeat(2_000);
        asks(worth(2_000 * text.len()), |_| word_similarity("abc", &text, how));
    }
}
