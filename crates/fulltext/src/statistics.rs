//! ts_stat: in how many documents each lexeme is, and how often.

use crate::vector::{TsVector, weight};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Statistics {
    /// A bit per weight; 0: all.
    pub weights: u8,
    counts: BTreeMap<Box<str>, (u32, u32)>,
}

impl Statistics {
    pub fn new(weights: u8) -> Statistics {
        Statistics { weights, counts: BTreeMap::new() }
    }
    pub fn add(&mut self, vector: &TsVector) {
        for l in &vector.lexemes {
            let n = match self.weights {
                0 => l.positions.len().max(1),
                mask => l.positions.iter().filter(|p| mask & 1 << weight(**p) != 0).count(),
            };
            if n == 0 {
                continue;
            }
            match self.counts.get_mut(&l.word) {
                Some((documents, entries)) => {
                    *documents += 1;
                    *entries += n as u32;
                }
                None => {
                    self.counts.insert(l.word.clone(), (1, n as u32));
                }
            }
        }
    }
    /// (lexeme, documents, entries); the last lexeme comes first, as PostgreSQL has them.
    pub fn rows(&self) -> impl Iterator<Item = (&str, u32, u32)> {
        self.counts.iter().rev().map(|(w, (d, e))| (&**w, *d, *e))
    }
}
