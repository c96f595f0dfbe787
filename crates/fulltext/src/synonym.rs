//! Dictionaries of the template synonym: a word stands for another.

use crate::dictionary::{Lexemes, NormalizedLexeme, lower};
use crate::files::{DataFile, is_space};
use kilndb_base::Result;
use kilndb_base::hash::{HashMap, HashMapExt};

#[derive(Debug)]
pub(crate) struct Synonyms {
    is_case_sensitive: bool,
    /// What each word stands for; true: for all words that begin with that.
    words: HashMap<Box<str>, (Box<str>, bool)>,
}

impl Synonyms {
    pub fn new(file: &DataFile, is_case_sensitive: bool) -> Result<Synonyms> {
        let mut words = HashMap::new();
        let folded = |word: &str| -> Box<str> { if is_case_sensitive { word.into() } else { lower(word).into() } };
        file.each_line(|line| {
            let mut parts = line.split(is_space).filter(|p| !p.is_empty());
            // A line with a single word says nothing.
            if let (Some(word), Some(other)) = (parts.next(), parts.next()) {
                let (other, is_prefix) = other.strip_suffix('*').map_or((other, false), |stem| (stem, true));
                words.entry(folded(word)).or_insert_with(|| (folded(other), is_prefix));
            }
            Ok(())
        })?;
        Ok(Synonyms { is_case_sensitive, words })
    }
    pub fn lexemes(&self, token: &str) -> Option<Lexemes> {
        let found = if self.is_case_sensitive { self.words.get(token) } else { self.words.get(&*lower(token)) };
        found.map(|(word, prefix)| {
            vec![NormalizedLexeme { word: word.to_string(), prefix: *prefix, ..NormalizedLexeme::default() }]
        })
    }
}
