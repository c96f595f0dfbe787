//! What dictionaries have lately made of short words: most words of a text are ones that came before, and need not be
//! stemmed again (`to_tsvector` of English texts takes a third less time).
//!
//! Invariants
//! 1. A dictionary makes the same of a word every time, and no two dictionaries have the same number: what is
//!    remembered is never wrong.
//! 2. Each thread has its own, of a fixed size; a word takes the place of another with the same hash.
//!
//! Must not know: what dictionaries do.

use crate::dictionary::SingleLexeme;
use std::cell::RefCell;

/// Longer words are not remembered.
const WORD_BYTES: usize = size_of::<u128>();
const PLACES: usize = 4096;

#[derive(Clone, Copy)]
struct RememberedWord {
    /// The dictionary's number; 0: nothing is here.
    dictionary: u64,
    /// Word and lexeme, zeros behind them: no text has a zero in it.
    word: u128,
    lexeme: [u8; WORD_BYTES],
    /// The lexeme's length in bytes; 0: the word is a stop word.
    lexeme_len: u8,
}
const NOTHING: RememberedWord = RememberedWord { dictionary: 0, word: 0, lexeme: [0; WORD_BYTES], lexeme_len: 0 };

kilndb_base::task_local! {
    static KNOWN: RefCell<Vec<RememberedWord>> = const { RefCell::new(Vec::new()) };
}

fn padded(word: &str) -> Option<[u8; WORD_BYTES]> {
    let mut bytes = [0; WORD_BYTES];
    bytes.get_mut(..word.len())?.copy_from_slice(word.as_bytes());
    Some(bytes)
}
fn place(dictionary: u64, word: u128) -> usize {
    // An odd number without a pattern spreads what differs into the upper bits.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let folded = (word as u64 ^ dictionary).wrapping_mul(SPREAD) ^ ((word >> 64) as u64).rotate_left(29);
    (folded.wrapping_mul(SPREAD) >> 32) as usize % PLACES
}

/// What the dictionary of that number makes of a word: as remembered, or as `make` does it. A lexeme is appended to
/// `out`.
pub(crate) fn or_made(
    dictionary: u64,
    word: &str,
    out: &mut String,
    make: impl FnOnce(&mut String) -> SingleLexeme,
) -> SingleLexeme {
    let Some(key) = padded(word).map(u128::from_ne_bytes) else { return make(out) };
    let at = place(dictionary, key);
    let found = KNOWN
        .with_borrow(|known| known.get(at).copied())
        .filter(|known| known.dictionary == dictionary && known.word == key);
    if let Some(known) = found
        && let Ok(lexeme) = std::str::from_utf8(&known.lexeme[..usize::from(known.lexeme_len)])
    {
        out.push_str(lexeme);
        return if lexeme.is_empty() { SingleLexeme::StopWord } else { SingleLexeme::Lexeme };
    }
    let start = out.len();
    let made = make(out);
    let lexeme = &out[start..];
    if let Some(bytes) = padded(lexeme) {
        KNOWN.with_borrow_mut(|known| {
            known.resize(PLACES, NOTHING);
            known[at] = RememberedWord { dictionary, word: key, lexeme: bytes, lexeme_len: lexeme.len() as u8 };
        });
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_made_once_and_not_mixed_up() {
        let mut words: Vec<String> = (0..20_000).map(|i| format!("w{i}")).collect();
        words.extend(["", "x", "exactly16bytes..", "seventeen bytes..", "\u{1f600}\u{1f600}"].map(String::from));
        let mut made = 0;
        // The first dictionary doubles short words, the second knows stop words only.
        for _ in 0..2 {
            for word in words.iter().flat_map(|word| [word, word]) {
                for dictionary in [1, 2] {
                    let mut out = "before".to_string();
                    let single = or_made(dictionary, word, &mut out, |out| {
                        made += 1;
                        if dictionary == 2 || word.is_empty() {
                            return SingleLexeme::StopWord;
                        }
                        out.push_str(&word.repeat(2));
                        SingleLexeme::Lexeme
                    });
                    let is_stop_word = dictionary == 2 || word.is_empty();
                    assert_eq!(
                        single,
                        if is_stop_word { SingleLexeme::StopWord } else { SingleLexeme::Lexeme },
                        "{word}"
                    );
                    assert_eq!(out, if is_stop_word { "before".into() } else { format!("before{}", word.repeat(2)) });
                }
            }
        }
        // Half of the questions come right after the same one; the rest are too many to remember, but for those that
        // are too long.
        assert!(made >= 2 * words.len() && made < 5 * words.len(), "{made}");
    }
}
