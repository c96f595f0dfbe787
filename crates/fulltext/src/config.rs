//! A text search configuration: which dictionaries see tokens of which type; and what a document becomes through it.

use crate::dictionary::{Dictionary, SingleLexeme};
use crate::lexeme_scan::LEXEME_BYTES;
use crate::parser::{Parser, Token};
use crate::vector::{Lexeme, POSITIONS_MAX, TsVector, limited};
use kilndb_base::{Error, Result, Severity, sqlstate, work};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct ConfigEntry {
    /// The dictionary's OID.
    pub oid: u32,
    pub dictionary: Arc<Dictionary>,
}

#[derive(Debug, Default)]
pub struct Config {
    /// The dictionaries of each token type, by its number.
    map: [Vec<ConfigEntry>; 24],
    /// A dictionary gives several lexemes for a token, or wants several tokens.
    has_several_lexemes: bool,
}

pub struct DocumentWord {
    pub word: String,
    pub position: u32,
    /// Words of one token with different numbers are alternatives.
    pub variant: u16,
    pub prefix: bool,
}

/// Words of a document's parts, numbered through.
#[derive(Default)]
pub struct DocumentWords {
    /// The words' texts, one behind the other.
    text: String,
    list: Vec<WordOccurrence>,
    position: u32,
}
struct WordOccurrence {
    /// The word's first bytes as a number, zeros behind them.
    head: u64,
    /// Where it is in the text.
    start: usize,
    len: u32,
    position: u32,
    variant: u16,
    prefix: bool,
}

#[cold]
fn too_long() -> Error {
    Error::notice(sqlstate::PROGRAM_LIMIT_EXCEEDED, Severity::Notice, "word is too long to be indexed")
        .with_detail(format!("Words longer than {LEXEME_BYTES} characters are ignored."))
}

impl Config {
    /// Adds a dictionary behind those that the token type has already; a type that does not exist gets none.
    pub fn add(&mut self, kind: usize, entry: ConfigEntry) {
        if let Some(list) = self.map.get_mut(kind).filter(|_| kind > 0) {
            self.has_several_lexemes |= !entry.dictionary.gives_single_lexemes();
            list.push(entry);
        }
    }
    pub(crate) fn gives_single_lexemes(&self) -> bool {
        !self.has_several_lexemes
    }
    pub fn dictionaries(&self, kind: u8) -> &[ConfigEntry] {
        self.map.get(usize::from(kind)).map(Vec::as_slice).unwrap_or_default()
    }
    /// What the first dictionary says that knows the token, where none gives several lexemes; None: none knows it.
    pub fn lexize(&self, token: Token<'_>) -> Option<Option<String>> {
        self.dictionaries(token.kind).iter().find_map(|d| d.dictionary.lexize(token.text))
    }
    /// The words of a text.
    pub fn parse(&self, text: &str, notices: &mut Vec<Error>) -> Result<Vec<DocumentWord>> {
        let mut words = DocumentWords::default();
        words.add(self, text, notices)?;
        let word = |w: &WordOccurrence| DocumentWord {
            word: words.word(w).to_string(),
            position: w.position,
            variant: w.variant,
            prefix: w.prefix,
        };
        Ok(words.list.iter().map(word).collect())
    }
    pub fn vector(&self, text: &str, notices: &mut Vec<Error>) -> Result<TsVector> {
        let mut words = DocumentWords::default();
        words.add(self, text, notices)?;
        words.into_vector()
    }
    /// Tokens with their lexemes; too long ones are left out with a notice.
    pub(crate) fn tokens<'a>(&self, text: &'a str, notices: &mut Vec<Error>) -> impl Iterator<Item = Token<'a>> {
        Parser::new(text).filter(move |token| {
            let fits = token.text.len() < LEXEME_BYTES;
            if !fits {
                notices.push(too_long());
            }
            fits
        })
    }
}

/// What a token costs on its way through parser and dictionaries.
pub(crate) fn token_units(token: Token<'_>) -> usize {
    200 + 5 * token.text.len()
}

impl DocumentWords {
    /// Appends a text's words behind those that are there.
    pub fn add(&mut self, config: &Config, text: &str, notices: &mut Vec<Error>) -> Result<()> {
        if !config.gives_single_lexemes() {
            return self.add_groups(config, text, notices);
        }
        for token in config.tokens(text, notices) {
            work::step(token_units(token))?;
            let start = self.text.len();
            let Some(single) =
                config.dictionaries(token.kind).iter().find_map(|d| d.dictionary.lexize_to(token.text, &mut self.text))
            else {
                continue;
            };
            self.position = self.position.saturating_add(1);
            if single == SingleLexeme::Lexeme {
                self.push_from(start, 0, false);
            }
        }
        Ok(())
    }
    /// Adds a text as [`DocumentWords::add`] does, so that no phrase reaches from it into the next.
    pub fn add_apart(&mut self, config: &Config, text: &str, notices: &mut Vec<Error>) -> Result<()> {
        let before = self.list.len();
        self.add(config, text, notices)?;
        if self.list.len() > before {
            self.position = self.position.saturating_add(1);
        }
        Ok(())
    }
    fn add_groups(&mut self, config: &Config, text: &str, notices: &mut Vec<Error>) -> Result<()> {
        config.each_group(config.tokens(text, notices), &mut |group| {
            let Some(lexemes) = group.lexemes else { return Ok(()) };
            self.position = self.position.saturating_add(1);
            for l in lexemes {
                self.position = self.position.saturating_add(u32::from(l.adds_position));
                let start = self.text.len();
                self.text.push_str(&l.word);
                self.push_from(start, l.variant, l.prefix);
            }
            Ok(())
        })
    }
    /// The text from there on is the next word.
    fn push_from(&mut self, start: usize, variant: u16, prefix: bool) {
        let word = &self.text.as_bytes()[start..];
        let mut head = [0; 8];
        let len = word.len().min(head.len());
        head[..len].copy_from_slice(&word[..len]);
        let position = u32::from(limited(self.position));
        self.list.push(WordOccurrence {
            head: u64::from_be_bytes(head),
            start,
            len: word.len() as u32,
            position,
            variant,
            prefix,
        });
    }
    fn word(&self, at: &WordOccurrence) -> &str {
        self.text.get(at.start..at.start + at.len as usize).unwrap_or_default()
    }
    /// The document: each word once, with its first positions.
    pub fn into_vector(mut self) -> Result<TsVector> {
        let mut list = std::mem::take(&mut self.list);
        work::sort_by(&mut list, |a, b| {
            let by_rest = || if a.len <= 8 && b.len <= 8 { a.len.cmp(&b.len) } else { self.word(a).cmp(self.word(b)) };
            a.head.cmp(&b.head).then_with(by_rest).then(a.position.cmp(&b.position))
        })?;
        let mut lexemes: Vec<Lexeme> = Vec::with_capacity(list.len());
        for w in list {
            work::step(40)?;
            let (position, word) = (limited(w.position), self.word(&w));
            match lexemes.last_mut() {
                Some(last) if *last.word == *word => {
                    let end = last.positions.last().copied().unwrap_or(0);
                    if last.positions.len() < POSITIONS_MAX - 1 && end != 16383 && end != position {
                        last.positions.push(position);
                    }
                }
                _ => lexemes.push(Lexeme { word: word.into(), positions: vec![position] }),
            }
        }
        TsVector::checked(lexemes)
    }
}
