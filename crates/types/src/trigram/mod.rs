//! Trigrams of texts, as pg_trgm takes them: how alike two texts are.
//!
//! Invariants
//! 1. A trigram is three bytes: three characters of one byte each, or a hash of three that take more.
//! 2. Trigrams are of words in lower case, with two blanks before and one after; what is between words has none.
//!
//! Must not know: indexes.

mod words;

pub use words::{WordSimilarity, word_similarity};

use crate::functions::string::one;

pub type Trigram = [u8; 3];

/// What stands for all that is in no word.
pub(crate) const GAP: char = ' ';

/// From what on the operators say that texts are alike.
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

fn compact(three: &[char]) -> Trigram {
    let text: String = three.iter().collect();
    match text.as_bytes() {
        [a, b, c] => [*a, *b, *c],
        bytes => {
            let [a, b, c, _] = legacy_crc(bytes).to_le_bytes();
            [a, b, c]
        }
    }
}

/// Trigrams of symbols, in their order. A word at either end goes on beyond it unless a gap is there.
pub(crate) fn of_symbols(symbols: &str, visit: &mut dyn FnMut(Trigram)) {
    let last = symbols.split(GAP).count() - 1;
    for (at, word) in symbols.split(GAP).enumerate().filter(|(_, word)| !word.is_empty()) {
        let before = if at > 0 { "  " } else { "" };
        let after = if at < last { " " } else { "" };
        let padded: Vec<char> = before.chars().chain(word.chars()).chain(after.chars()).collect();
        padded.windows(3).for_each(|three| visit(compact(three)));
    }
}

/// All of a text, in their order.
pub fn in_order(text: &str) -> Vec<Trigram> {
    let mut out = Vec::with_capacity(text.len() + 1);
    let symbols: String = std::iter::once(GAP).chain(text.chars().map(symbol)).chain([GAP]).collect();
    of_symbols(&symbols, &mut |t| out.push(t));
    out
}

/// Those of a text, each once, ordered by their bytes as signed ones.
pub fn of_text(text: &str) -> Vec<Trigram> {
    let mut out = in_order(text);
    out.sort_unstable_by_key(|t| t.map(u8::cast_signed));
    out.dedup();
    out
}

/// As show_trgm prints it.
pub fn shown(t: Trigram) -> String {
    let is_printable = |b: &u8| b.is_ascii_alphanumeric() || *b == b' ';
    match std::str::from_utf8(&t) {
        Ok(text) if t.iter().all(is_printable) => text.to_string(),
        _ => format!("0x{:02x}{:02x}{:02x}", t[0], t[1], t[2]),
    }
}

/// Of what two sets have, the share that both have.
fn share(both: usize, a: usize, b: usize) -> f32 {
    both as f32 / (a + b - both) as f32
}

pub fn similarity(a: &str, b: &str) -> f32 {
    let (mut a, b) = (of_text(a), of_text(b));
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    let all = a.len();
    a.retain(|t| b.binary_search_by_key(&t.map(u8::cast_signed), |other| other.map(u8::cast_signed)).is_ok());
    share(a.len(), all, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigrams() {
        let all = |text: &str| of_text(text).into_iter().map(shown).collect::<Vec<_>>();
        assert_eq!(all("a b C0*%^"), ["  a", "  b", "  c", " a ", " b ", " c0", "c0 "]);
        assert!(all("(*&^$@%@").is_empty());
        assert_eq!(similarity("wow", "WOWa "), 0.5);
        assert_eq!(similarity("---", "####---"), 0.0);
    }
}
