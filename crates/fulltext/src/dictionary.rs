//! Dictionaries: a token becomes lexemes, or nothing (a stop word), or is not known.

use crate::files::{BuiltInSource, DataFile, DictionarySource};
use crate::ispell::Ispell;
use crate::remembered;
use crate::synonym::Synonyms;
use crate::thesaurus::Thesaurus;
use crate::unaccent::Unaccent;
use kilndb_base::hash::{HashSet, HashSetExt};
use kilndb_base::sync::atomic::AtomicU64;
use kilndb_base::sync::atomic::Ordering::Relaxed;
use kilndb_base::work::SmallSteps;
use kilndb_base::{Error, Result, sqlstate};
use std::borrow::Cow;
use waken_snowball::Algorithm;

/// Longer tokens are no words of a language: they are not stemmed.
const STEMMED_BYTES_MAX: usize = 1000;

/// What replacing a character is taken for.
const FILTER_UNITS_PER_CHARACTER: usize = 30;

/// A lexeme that a token becomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NormalizedLexeme {
    pub word: String,
    /// Lexemes with the same number belong together, others are alternatives.
    pub variant: u16,
    /// Stands for all words that begin with it.
    pub prefix: bool,
    /// Stands one place behind the lexeme before it.
    pub adds_position: bool,
}
impl From<String> for NormalizedLexeme {
    fn from(word: String) -> NormalizedLexeme {
        NormalizedLexeme { word, ..NormalizedLexeme::default() }
    }
}
/// None of them: a stop word.
pub type Lexemes = Vec<NormalizedLexeme>;

#[derive(Debug)]
enum DictionaryKind {
    /// `accept`: what is no stop word is a lexeme; otherwise the next dictionary is asked.
    Simple {
        accept: bool,
    },
    Snowball(Algorithm),
    Synonym(Synonyms),
    Ispell(Box<Ispell>),
    Thesaurus(Thesaurus),
    Unaccent(Unaccent),
}

#[derive(Debug)]
pub struct Dictionary {
    kind: DictionaryKind,
    stop_words: HashSet<String>,
    /// No other dictionary of this process has it, or has had it.
    number: u64,
}

/// What one lexeme at most was made of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SingleLexeme {
    Lexeme,
    StopWord,
}

/// Lower case, character by character.
pub fn lower(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
        return Cow::Borrowed(text);
    }
    // One character stays one: of the few that would become two, the first is taken.
    Cow::Owned(text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

fn stop_words(name: &str, source: &dyn DictionarySource) -> Result<HashSet<String>> {
    let mut words = HashSet::new();
    if name.is_empty() {
        return Ok(words);
    }
    DataFile::open(source, name, "stop", "stop-word")?.each_line(|line| {
        let word = line.split(char::is_whitespace).next().unwrap_or("");
        if !word.is_empty() {
            words.insert(lower(word).into_owned());
        }
        Ok(())
    })?;
    Ok(words)
}

/// An option that is given once at most.
fn set_once<T>(place: &mut Option<T>, name: &str, value: impl FnOnce() -> Result<T>) -> Result<()> {
    if place.is_some() {
        return Err(invalid(format!("multiple {name} parameters")));
    }
    *place = Some(value()?);
    Ok(())
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(Error::new(sqlstate::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
    }
}

impl Dictionary {
    /// A dictionary by the name of its template and its options, as they are in pg_ts_dict.
    pub fn new(template: &str, options: &[(String, String)], source: &dyn DictionarySource) -> Result<Dictionary> {
        match template {
            "simple" => Dictionary::simple(options, source),
            "snowball" => Dictionary::snowball(options, source),
            "synonym" => Dictionary::synonym(options, source),
            "ispell" => Dictionary::ispell(options, source),
            "thesaurus" => Dictionary::thesaurus_with(options, source),
            "unaccent" => Dictionary::unaccent(options, source),
            other => {
                Err(Error::unsupported(format!("dictionaries of text search template \"{other}\" are not supported")))
            }
        }
    }
    /// A dictionary that needs nothing but what is part of this crate.
    pub fn built_in(template: &str, options: &[(String, String)]) -> Result<Dictionary> {
        Dictionary::new(template, options, &BuiltInSource)
    }
    fn of(kind: DictionaryKind, stop_words: HashSet<String>) -> Dictionary {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Dictionary { kind, stop_words, number: LAST.fetch_add(1, Relaxed) + 1 }
    }
    fn simple(options: &[(String, String)], source: &dyn DictionarySource) -> Result<Dictionary> {
        let (mut words, mut accept) = (None, None);
        for (name, value) in options {
            match name.as_str() {
                "stopwords" => set_once(&mut words, "StopWords", || stop_words(value, source))?,
                "accept" => set_once(&mut accept, "Accept", || boolean(name, value))?,
                _ => return Err(invalid(format!("unrecognized simple dictionary parameter: \"{name}\""))),
            }
        }
        Ok(Dictionary::of(DictionaryKind::Simple { accept: accept.unwrap_or(true) }, words.unwrap_or_default()))
    }
    fn snowball(options: &[(String, String)], source: &dyn DictionarySource) -> Result<Dictionary> {
        let (mut words, mut algorithm) = (None, None);
        for (name, value) in options {
            match name.as_str() {
                "stopwords" => set_once(&mut words, "StopWords", || stop_words(value, source))?,
                "language" => set_once(&mut algorithm, "Language", || stemmer(value))?,
                _ => return Err(invalid(format!("unrecognized Snowball parameter: \"{name}\""))),
            }
        }
        let algorithm = algorithm.ok_or_else(|| invalid("missing Language parameter"))?;
        Ok(Dictionary::of(DictionaryKind::Snowball(algorithm), words.unwrap_or_default()))
    }
    fn synonym(options: &[(String, String)], source: &dyn DictionarySource) -> Result<Dictionary> {
        let (mut file, mut is_case_sensitive) = (None, false);
        for (name, value) in options {
            match name.as_str() {
                "synonyms" => file = Some(value),
                "casesensitive" => is_case_sensitive = boolean(name, value)?,
                _ => return Err(invalid(format!("unrecognized synonym parameter: \"{name}\""))),
            }
        }
        let file = file.ok_or_else(|| invalid("missing Synonyms parameter"))?;
        let file = DataFile::open(source, file, "syn", "synonym")?;
        Ok(Dictionary::of(DictionaryKind::Synonym(Synonyms::new(&file, is_case_sensitive)?), HashSet::new()))
    }
    fn ispell(options: &[(String, String)], source: &dyn DictionarySource) -> Result<Dictionary> {
        let (mut words, mut affixes, mut stop) = (None, None, None);
        for (name, value) in options {
            match name.as_str() {
                "dictfile" => set_once(&mut words, "DictFile", || DataFile::open(source, value, "dict", "dictionary"))?,
                "afffile" => set_once(&mut affixes, "AffFile", || DataFile::open(source, value, "affix", "affix"))?,
                "stopwords" => set_once(&mut stop, "StopWords", || stop_words(value, source))?,
                _ => return Err(invalid(format!("unrecognized Ispell parameter: \"{name}\""))),
            }
        }
        let affixes = affixes.ok_or_else(|| invalid("missing AffFile parameter"))?;
        let words = words.ok_or_else(|| invalid("missing DictFile parameter"))?;
        Ok(Dictionary::of(DictionaryKind::Ispell(Box::new(Ispell::new(&words, &affixes)?)), stop.unwrap_or_default()))
    }
    fn thesaurus_with(options: &[(String, String)], source: &dyn DictionarySource) -> Result<Dictionary> {
        let (mut file, mut dictionary) = (None, None);
        for (name, value) in options {
            match name.as_str() {
                "dictfile" => set_once(&mut file, "DictFile", || DataFile::open(source, value, "ths", "thesaurus"))?,
                "dictionary" => set_once(&mut dictionary, "Dictionary", || Ok(value))?,
                _ => return Err(invalid(format!("unrecognized Thesaurus parameter: \"{name}\""))),
            }
        }
        let file = file.ok_or_else(|| invalid("missing DictFile parameter"))?;
        let dictionary = source.dictionary(dictionary.ok_or_else(|| invalid("missing Dictionary parameter"))?)?;
        if dictionary.thesaurus().is_some() {
            return Err(nested_thesaurus());
        }
        Ok(Dictionary::of(DictionaryKind::Thesaurus(Thesaurus::new(&file, dictionary)?), HashSet::new()))
    }

    fn unaccent(options: &[(String, String)], source: &dyn DictionarySource) -> Result<Dictionary> {
        let mut rules = None;
        for (name, value) in options {
            match name.as_str() {
                "rules" => set_once(&mut rules, "Rules", || DataFile::open(source, value, "rules", "unaccent"))?,
                _ => return Err(invalid(format!("unrecognized Unaccent parameter: \"{name}\""))),
            }
        }
        let rules = rules.ok_or_else(|| invalid("missing Rules parameter"))?;
        Ok(Dictionary::of(DictionaryKind::Unaccent(Unaccent::new(&rules)?), HashSet::new()))
    }

    /// What a filtering dictionary makes of a token for the dictionaries behind it; None: it leaves it as it is, or the
    /// dictionary is no such one.
    pub(crate) fn filtered(&self, token: &str) -> Option<String> {
        match &self.kind {
            DictionaryKind::Unaccent(unaccent) => unaccent.replaced(token),
            _ => None,
        }
    }
    /// The same of a long text, which the session may cancel.
    pub fn filtered_text(&self, text: &str) -> Result<Option<String>> {
        let mut steps = SmallSteps::default();
        match &self.kind {
            DictionaryKind::Unaccent(unaccent) => {
                unaccent.replaced_in_steps(text, || steps.step(FILTER_UNITS_PER_CHARACTER))
            }
            _ => Ok(None),
        }
    }
    /// Whether the dictionary changes tokens for those behind it, and never knows one itself.
    pub fn is_filter(&self) -> bool {
        matches!(self.kind, DictionaryKind::Unaccent(_))
    }
    /// Whether the dictionary gives one lexeme at most, for one token, so that [`Dictionary::lexize`] tells all.
    pub(crate) fn gives_single_lexemes(&self) -> bool {
        matches!(self.kind, DictionaryKind::Simple { .. } | DictionaryKind::Snowball(_))
    }
    pub fn is_thesaurus(&self) -> bool {
        matches!(self.kind, DictionaryKind::Thesaurus(_))
    }
    pub(crate) fn thesaurus(&self) -> Option<&Thesaurus> {
        if let DictionaryKind::Thesaurus(thesaurus) = &self.kind { Some(thesaurus) } else { None }
    }
    /// What a token becomes on its own; None: it is not known here.
    pub fn lexemes(&self, token: &str) -> Option<Lexemes> {
        match &self.kind {
            DictionaryKind::Simple { .. } | DictionaryKind::Snowball(_) => {
                self.lexize(token).map(|lexeme| lexeme.map(NormalizedLexeme::from).into_iter().collect())
            }
            DictionaryKind::Synonym(synonyms) => synonyms.lexemes(token),
            DictionaryKind::Thesaurus(thesaurus) => thesaurus.step(None, token).result,
            DictionaryKind::Unaccent(unaccent) => {
                unaccent.replaced(token).map(|word| vec![NormalizedLexeme::from(word)])
            }
            DictionaryKind::Ispell(ispell) => {
                let mut found = ispell.lexemes(&lower(token))?;
                found.retain(|l| !self.stop_words.contains(&l.word));
                Some(found)
            }
        }
    }
    /// The token's lexeme, of a dictionary that gives no more; an empty one: a stop word; None: not known here.
    pub fn lexize(&self, token: &str) -> Option<Option<String>> {
        let mut lexeme = String::new();
        self.lexize_to(token, &mut lexeme).map(|single| (single == SingleLexeme::Lexeme).then_some(lexeme))
    }
    /// Lexizes as [`Dictionary::lexize`] does; a lexeme is appended to `out`.
    pub(crate) fn lexize_to(&self, token: &str, out: &mut String) -> Option<SingleLexeme> {
        match &self.kind {
            DictionaryKind::Simple { accept } => {
                let word = lower(token);
                match () {
                    () if word.is_empty() || self.stop_words.contains(&*word) => Some(SingleLexeme::StopWord),
                    () if *accept => {
                        out.push_str(&word);
                        Some(SingleLexeme::Lexeme)
                    }
                    () => None,
                }
            }
            DictionaryKind::Snowball(algorithm) => {
                Some(remembered::or_made(self.number, token, out, |out| self.stem_to(*algorithm, token, out)))
            }
            DictionaryKind::Synonym(_)
            | DictionaryKind::Ispell(_)
            | DictionaryKind::Thesaurus(_)
            | DictionaryKind::Unaccent(_) => self.lexemes(token).map(|all| match all.into_iter().next() {
                Some(lexeme) => {
                    out.push_str(&lexeme.word);
                    SingleLexeme::Lexeme
                }
                None => SingleLexeme::StopWord,
            }),
        }
    }
    fn stem_to(&self, algorithm: Algorithm, token: &str, out: &mut String) -> SingleLexeme {
        let word = lower(token);
        if token.len() > STEMMED_BYTES_MAX {
            out.push_str(&word);
            return SingleLexeme::Lexeme;
        }
        if word.is_empty() || self.stop_words.contains(&*word) {
            return SingleLexeme::StopWord;
        }
        let stem = waken_snowball::stem(algorithm, &word);
        out.push_str(if stem.is_empty() { &word } else { &stem });
        SingleLexeme::Lexeme
    }
}

/// A thesaurus wants the whole text: there can be none within one.
pub fn nested_thesaurus() -> Error {
    Error::internal("forbidden call of thesaurus or nested call")
}

fn stemmer(language: &str) -> Result<Algorithm> {
    let name = language.to_ascii_lowercase();
    let known = match name.as_str() {
        // What PostgreSQL 18 has under this name the library has under another.
        "dutch" => Some(Algorithm::DutchPorter),
        // These are the library's, not PostgreSQL's.
        "lovins" | "esperanto" | "dutch_porter" => None,
        _ => Algorithm::from_str(&name),
    };
    known.ok_or_else(|| {
        let message = format!("no Snowball stemmer available for language \"{language}\" and encoding \"UTF8\"");
        Error::new(sqlstate::UNDEFINED_OBJECT, message)
    })
}

/// `name = value, other = 'a value'`: options as pg_ts_dict and ts_headline have them.
pub fn parse_options(text: &str) -> Result<Vec<(String, String)>> {
    Ok(parse_given_options(text)?.into_iter().map(|o| (o.name, o.value)).collect())
}

/// An option as it is written: a number stands without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryOption {
    pub name: String,
    pub value: String,
    pub is_number: bool,
}

pub fn parse_given_options(text: &str) -> Result<Vec<DictionaryOption>> {
    let bad = || Error::new(sqlstate::SYNTAX_ERROR, format!("invalid parameter list format: \"{text}\""));
    let mut chars = text.chars().peekable();
    let mut options = Vec::new();
    loop {
        while chars.next_if(|c| c.is_ascii_whitespace() || *c == ',').is_some() {}
        if chars.peek().is_none() {
            return Ok(options);
        }
        let mut name = String::new();
        if chars.next_if_eq(&'"').is_some() {
            quoted('"', &mut chars, &mut name).ok_or_else(bad)?;
        } else {
            while let Some(c) = chars.next_if(|c| !c.is_ascii_whitespace() && *c != '=') {
                name.push(c);
            }
        }
        while chars.next_if(char::is_ascii_whitespace).is_some() {}
        chars.next_if_eq(&'=').ok_or_else(bad)?;
        while chars.next_if(char::is_ascii_whitespace).is_some() {}
        let (mut value, mut is_number) = (String::new(), false);
        if let Some(escape) = chars.next_if(|c| *c == 'E')
            && chars.peek() != Some(&'\'')
        {
            value.push(escape);
        }
        match chars.peek() {
            None => return Err(bad()),
            Some('\'') if value.is_empty() => {
                chars.next();
                quoted('\'', &mut chars, &mut value).ok_or_else(bad)?;
            }
            Some('"') if value.is_empty() => {
                chars.next();
                quoted('"', &mut chars, &mut value).ok_or_else(bad)?;
            }
            Some(_) => {
                while let Some(c) = chars.next_if(|c| !c.is_ascii_whitespace() && *c != ',') {
                    value.push(c);
                }
                is_number = value.parse::<f64>().is_ok() && value.ends_with(|c: char| c.is_ascii_digit() || c == '.');
            }
        }
        options.push(DictionaryOption { name, value, is_number });
    }
}
/// Reads up to the closing quote; a doubled quote is one, and so is a doubled backslash in a literal.
fn quoted(quote: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) -> Option<()> {
    loop {
        let c = chars.next()?;
        if c == quote && chars.next_if_eq(&quote).is_none() {
            return Some(());
        }
        if c == '\\' && quote == '\'' {
            chars.next_if_eq(&'\\');
        }
        out.push(c);
    }
}
