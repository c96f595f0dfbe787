//! The comments: sentences after the specification's grammar (4.2.2.14), from a pool of which each comment is a piece.

use super::words::{ADJECTIVES, ADVERBS, AUXILIARIES, NOUNS, PREPOSITIONS, TERMINATORS, VERBS, WeightedWords};
use crate::random::RowRandom;

const POOL_BYTES: usize = 4 << 20;
/// Letters, digits and two signs that need no escape in COPY.
const ADDRESS_SIGNS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, ";

/// A text of which comments are pieces, as the specification has it.
pub(super) struct TextPool(String);

/// Words of a kind, each as often as its weight says.
struct WordKind(Vec<String>);

impl WordKind {
    fn new(words: WeightedWords) -> WordKind {
        let repeated = words.iter().flat_map(|(weight, list)| {
            list.split(' ').flat_map(move |word| std::iter::repeat_n(word.replace('_', " "), *weight))
        });
        WordKind(repeated.collect())
    }
    fn one(&self, random: &mut RowRandom) -> &str {
        &self.0[random.index(self.0.len())]
    }
}

struct Grammar {
    nouns: WordKind,
    verbs: WordKind,
    adjectives: WordKind,
    adverbs: WordKind,
    prepositions: WordKind,
    auxiliaries: WordKind,
    terminators: WordKind,
}

impl Grammar {
    fn new() -> Grammar {
        Grammar {
            nouns: WordKind::new(NOUNS),
            verbs: WordKind::new(VERBS),
            adjectives: WordKind::new(ADJECTIVES),
            adverbs: WordKind::new(ADVERBS),
            prepositions: WordKind::new(PREPOSITIONS),
            auxiliaries: WordKind::new(AUXILIARIES),
            terminators: WordKind::new(TERMINATORS),
        }
    }

    /// A sentence of a noun phrase, a verb phrase and what may follow.
    fn sentence(&self, random: &mut RowRandom) -> String {
        let noun = self.noun_phrase(random);
        let sentence = match random.between(1, 11) {
            1..=3 => format!("{noun} {}", self.verb_phrase(random)),
            4..=6 => format!("{noun} {} {}", self.verb_phrase(random), self.prepositional(random)),
            7..=9 => format!("{noun} {} {}", self.verb_phrase(random), self.noun_phrase(random)),
            10 => {
                let after = self.prepositional(random);
                format!("{noun} {after} {} {}", self.verb_phrase(random), self.noun_phrase(random))
            }
            _ => {
                let after = self.prepositional(random);
                format!("{noun} {after} {} {}", self.verb_phrase(random), self.prepositional(random))
            }
        };
        sentence + self.terminators.one(random)
    }

    fn noun_phrase(&self, random: &mut RowRandom) -> String {
        let adjective = self.adjectives.one(random);
        let noun = self.nouns.one(random);
        match random.between(1, 90) {
            1..=10 => noun.to_string(),
            11..=30 => format!("{adjective} {noun}"),
            31..=40 => format!("{adjective}, {} {noun}", self.adjectives.one(random)),
            _ => format!("{} {adjective} {noun}", self.adverbs.one(random)),
        }
    }

    fn verb_phrase(&self, random: &mut RowRandom) -> String {
        let verb = self.verbs.one(random);
        match random.between(1, 72) {
            1..=30 => verb.to_string(),
            31 => format!("{} {verb}", self.auxiliaries.one(random)),
            32..=71 => format!("{verb} {}", self.adverbs.one(random)),
            _ => format!("{} {verb} {}", self.auxiliaries.one(random), self.adverbs.one(random)),
        }
    }

    fn prepositional(&self, random: &mut RowRandom) -> String {
        format!("{} the {}", self.prepositions.one(random), self.noun_phrase(random))
    }
}

impl TextPool {
    pub(super) fn new(seed: u64) -> TextPool {
        let grammar = Grammar::new();
        let mut random = RowRandom::of_row(seed, 0);
        let mut text = String::with_capacity(POOL_BYTES + 1024);
        while text.len() < POOL_BYTES {
            text.push_str(&grammar.sentence(&mut random));
            text.push(' ');
        }
        TextPool(text)
    }

    /// A comment of `low` to `high` characters. The pool is ASCII, so any piece of it is a text.
    pub(super) fn comment(&self, random: &mut RowRandom, low: i64, high: i64) -> &str {
        let length = random.between(low, high) as usize;
        let begin = random.index(self.0.len() - length);
        &self.0[begin..begin + length]
    }
}

/// An address: signs without a sense.
pub(super) fn address(random: &mut RowRandom) -> String {
    let length = random.between(10, 40);
    (0..length).map(|_| ADDRESS_SIGNS[random.index(ADDRESS_SIGNS.len())] as char).collect()
}
