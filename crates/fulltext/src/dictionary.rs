//! Dictionaries: a token becomes lexemes, or nothing (a stop word), or is not known.

use kilndb_base::{Error, Result, sqlstate};
use std::borrow::Cow;
use std::collections::HashSet;
use waken_snowball::Algorithm;

/// The languages that have stop words, and these.
const STOP_WORDS: &[(&str, &str)] = &[
    ("danish", include_str!("../data/danish.stop")),
    ("dutch", include_str!("../data/dutch.stop")),
    ("english", include_str!("../data/english.stop")),
    ("finnish", include_str!("../data/finnish.stop")),
    ("french", include_str!("../data/french.stop")),
    ("german", include_str!("../data/german.stop")),
    ("hungarian", include_str!("../data/hungarian.stop")),
    ("italian", include_str!("../data/italian.stop")),
    ("nepali", include_str!("../data/nepali.stop")),
    ("norwegian", include_str!("../data/norwegian.stop")),
    ("portuguese", include_str!("../data/portuguese.stop")),
    ("russian", include_str!("../data/russian.stop")),
    ("spanish", include_str!("../data/spanish.stop")),
    ("swedish", include_str!("../data/swedish.stop")),
    ("turkish", include_str!("../data/turkish.stop")),
];

/// Longer tokens are no words of a language: they are not stemmed.
const STEMMED_BYTES_MAX: usize = 1000;

#[derive(Debug)]
enum Kind {
    /// `accept`: what is no stop word is a lexeme; otherwise the next dictionary is asked.
    Simple { accept: bool },
    Snowball(Algorithm),
}

#[derive(Debug)]
pub struct Dictionary {
    kind: Kind,
    stop_words: HashSet<String>,
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

fn stop_words(name: &str) -> Result<HashSet<String>> {
    let found = STOP_WORDS.iter().find(|(n, _)| *n == name);
    let Some((_, text)) = found else {
        if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
            return Err(invalid(format!("invalid text search configuration file name \"{name}\"")));
        }
        let message = format!("could not open stop-word file \"tsearch_data/{name}.stop\": No such file or directory");
        return Err(Error::new(sqlstate::CONFIG_FILE_ERROR, message));
    };
    let words = text.lines().map(|l| l.split(char::is_whitespace).next().unwrap_or(""));
    Ok(words.filter(|w| !w.is_empty()).map(|w| lower(w).into_owned()).collect())
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(Error::new(sqlstate::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
    }
}

impl Dictionary {
    /// By the name of its template and its options, as they are in pg_ts_dict.
    pub fn new(template: &str, options: &[(String, String)]) -> Result<Dictionary> {
        match template {
            "simple" => Dictionary::simple(options),
            "snowball" => Dictionary::snowball(options),
            other => Err(Error::unsupported(format!("dictionaries of text search template \"{other}\" are not supported"))),
        }
    }
    fn simple(options: &[(String, String)]) -> Result<Dictionary> {
        let (mut words, mut accept) = (None, None);
        for (name, value) in options {
            match name.as_str() {
                "stopwords" if words.is_some() => return Err(invalid("multiple StopWords parameters")),
                "stopwords" => words = Some(stop_words(value)?),
                "accept" if accept.is_some() => return Err(invalid("multiple Accept parameters")),
                "accept" => accept = Some(boolean(name, value)?),
                _ => return Err(invalid(format!("unrecognized simple dictionary parameter: \"{name}\""))),
            }
        }
        Ok(Dictionary { kind: Kind::Simple { accept: accept.unwrap_or(true) }, stop_words: words.unwrap_or_default() })
    }
    fn snowball(options: &[(String, String)]) -> Result<Dictionary> {
        let (mut words, mut algorithm) = (None, None);
        for (name, value) in options {
            match name.as_str() {
                "stopwords" if words.is_some() => return Err(invalid("multiple StopWords parameters")),
                "stopwords" => words = Some(stop_words(value)?),
                "language" if algorithm.is_some() => return Err(invalid("multiple Language parameters")),
                "language" => algorithm = Some(stemmer(value)?),
                _ => return Err(invalid(format!("unrecognized Snowball parameter: \"{name}\""))),
            }
        }
        let algorithm = algorithm.ok_or_else(|| invalid("missing Language parameter"))?;
        Ok(Dictionary { kind: Kind::Snowball(algorithm), stop_words: words.unwrap_or_default() })
    }

    /// The token's lexeme; an empty one: a stop word; None: not known here.
    pub fn lexize(&self, token: &str) -> Option<Option<String>> {
        let word = lower(token);
        match &self.kind {
            Kind::Simple { accept } => match () {
                () if word.is_empty() || self.stop_words.contains(&*word) => Some(None),
                () if *accept => Some(Some(word.into_owned())),
                () => None,
            },
            Kind::Snowball(_) if token.len() > STEMMED_BYTES_MAX => Some(Some(word.into_owned())),
            Kind::Snowball(algorithm) => {
                if word.is_empty() || self.stop_words.contains(&*word) {
                    return Some(None);
                }
                let stem = waken_snowball::stem(*algorithm, &word);
                Some(Some(if stem.is_empty() { word.into_owned() } else { stem.into_owned() }))
            }
        }
    }
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
        let mut value = String::new();
        if let Some(escape) = chars.next_if(|c| *c == 'E') {
            if chars.peek() != Some(&'\'') {
                value.push(escape);
            }
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
            }
        }
        options.push((name, value));
    }
}
/// Up to the closing quote; a doubled one is one, and so is a doubled backslash in a literal.
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
