//! How alike a text and some part of another are.
//!
//! The part is an extent of the other text's trigrams; it is moved over them, and its start follows its end as long as
//! the share of common trigrams grows. That finds what pg_trgm finds, which is not always the best part.

use super::{GAP, Trigram, UNITS_OF_TRIGRAM, of_symbols, share, symbols_of};
use crate::pieces;
use kilndb_base::Result;
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::work::{self, SmallSteps};

#[derive(Clone, Copy)]
pub struct WordSimilarity {
    /// A part begins and ends with words.
    pub strict: bool,
    /// The similarity from which on the search need not go on.
    pub enough: Option<f64>,
}

/// A text's trigrams with what begins and ends words.
struct TrigramText {
    trigrams: Vec<Trigram>,
    begins: Vec<bool>,
    ends: Vec<bool>,
}

impl TrigramText {
    fn of(text: &str) -> Result<TrigramText> {
        let mut out = TrigramText { trigrams: Vec::new(), begins: Vec::new(), ends: Vec::new() };
        let symbols = symbols_of(text)?;
        for word in work::steps(symbols.split(GAP), UNITS_OF_TRIGRAM) {
            let word = word?;
            if word.is_empty() {
                continue;
            }
            let first = out.trigrams.len();
            of_symbols(&pieces::concat(&[" ", word, " "])?, &mut |t| {
                out.begins.push(out.trigrams.len() == first);
                out.ends.push(false);
                out.trigrams.push(t);
                Ok(())
            })?;
            // A word has two trigrams at least.
            out.ends.pop();
            out.ends.push(true);
        }
        Ok(out)
    }
}

/// An extent's trigrams, counted as its ends move.
#[derive(Clone, Copy)]
struct WordExtent {
    lower: usize,
    /// Different ones, and those of them that are wanted.
    all: usize,
    common: usize,
}

struct ExtentSearch<'t> {
    text: &'t TrigramText,
    strict: bool,
    enough: Option<f64>,
    /// A number for each trigram of the text, the same for equal ones. `wanted` has by number whether the trigram is
    /// looked for.
    numbers: Vec<usize>,
    wanted: Vec<bool>,
    wanted_count: usize,
    /// By a trigram's number, where it was last seen in the extent.
    last_seen: Vec<Option<usize>>,
}

/// How alike `pattern` and the part of `text` are that is most like it.
pub(crate) fn word_similarity(pattern: &str, text: &str, how: WordSimilarity) -> Result<f32> {
    let (pattern, text) = (super::of_text(pattern)?, TrigramText::of(text)?);
    let mut known: HashMap<Trigram, usize> = HashMap::new();
    let mut wanted = Vec::new();
    for t in &pattern {
        work::step(UNITS_OF_TRIGRAM)?;
        known.insert(*t, wanted.len());
        wanted.push(true);
    }
    let mut numbers = Vec::with_capacity(text.trigrams.len());
    for t in &text.trigrams {
        work::step(UNITS_OF_TRIGRAM)?;
        numbers.push(*known.entry(*t).or_insert_with(|| {
            wanted.push(false);
            wanted.len() - 1
        }));
    }
    let last_seen = vec![None; wanted.len()];
    ExtentSearch {
        text: &text,
        strict: how.strict,
        enough: how.enough,
        numbers,
        wanted,
        wanted_count: pattern.len(),
        last_seen,
    }
    .best()
}

impl ExtentSearch<'_> {
    fn is_enough(&self, found: f32) -> bool {
        self.enough.is_some_and(|enough| f64::from(found) >= enough)
    }
    fn share(&self, e: WordExtent) -> f32 {
        share(e.common, self.wanted_count, e.all)
    }

    fn best(mut self) -> Result<f32> {
        let mut best = 0.0f32;
        let mut extent = self.strict.then_some(WordExtent { lower: 0, all: 0, common: 0 });
        let mut steps = SmallSteps::default();
        for at in 0..self.numbers.len() {
            steps.step(5)?;
            let number = self.numbers[at];
            let is_wanted = self.wanted[number];
            if extent.is_some() || is_wanted {
                let e = extent.get_or_insert(WordExtent { lower: at, all: 0, common: 0 });
                if self.last_seen[number].is_none() {
                    e.all += 1;
                    e.common += usize::from(is_wanted);
                }
                self.last_seen[number] = Some(at);
            }
            let is_end = if self.strict { self.text.ends[at] } else { is_wanted };
            let Some(current) = extent.filter(|_| is_end) else { continue };
            let (moved, found) = self.shortened(current, at, &mut steps)?;
            best = best.max(found);
            if self.is_enough(best) {
                break;
            }
            for left in current.lower..moved.lower {
                let number = self.numbers[left];
                if self.last_seen[number] == Some(left) {
                    self.last_seen[number] = None;
                }
            }
            extent = Some(moved);
        }
        Ok(best)
    }

    /// The extent from a later start on, if that is better, and how good it is.
    fn shortened(&self, current: WordExtent, upper: usize, steps: &mut SmallSteps) -> Result<(WordExtent, f32)> {
        let (mut best, mut found, mut tried) = (current, self.share(current), current);
        for lower in current.lower..=upper {
            steps.step(5)?;
            if !self.strict || self.text.begins[lower] {
                let share = self.share(tried);
                if share > found {
                    found = share;
                    best = WordExtent { lower, ..tried };
                }
                if self.is_enough(found) {
                    break;
                }
            }
            let number = self.numbers[lower];
            if self.last_seen[number] == Some(lower) {
                tried.all -= 1;
                tried.common -= usize::from(self.wanted[number]);
            }
        }
        Ok((best, found))
    }
}
