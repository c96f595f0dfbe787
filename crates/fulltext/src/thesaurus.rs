//! Dictionaries of the template thesaurus: a phrase becomes other words.
//!
//! Invariant: a search holds the rules that the words seen so far begin; the next word narrows them down.

use crate::dictionary::{Dictionary, Lexemes, NormalizedLexeme};
use crate::files::{DataFile, bad_file, is_space};
use kilndb_base::Result;
use kilndb_base::hash::{HashMap, HashMapExt};
use std::sync::Arc;

/// A rule's word at a place; words of a place that come together have their number with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RulePosition {
    rule: u32,
    position: u16,
    together: u16,
}

#[derive(Debug)]
struct ThesaurusRule {
    words: u16,
    result: Lexemes,
}

#[derive(Debug)]
pub(crate) struct Thesaurus {
    /// Through which the words of texts and of rules go.
    dictionary: Arc<Dictionary>,
    /// Where each word stands in rules, in order.
    places: HashMap<String, Vec<RulePosition>>,
    /// The places of stop words.
    stop_places: Vec<RulePosition>,
    rules: Vec<ThesaurusRule>,
}

/// Rules that the words up to now begin, the last ones first.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartialMatch {
    rules: Vec<u32>,
    position: u16,
}

/// What a word says.
pub(crate) struct PhraseMatch {
    /// What the words up to this one become.
    pub result: Option<Lexemes>,
    /// More words may make more of it.
    pub begun: Option<PartialMatch>,
}

/// A rule as its line has it: a word of the replacement may be marked to stay as it is.
struct ThesaurusLine<'a> {
    words: Vec<&'a str>,
    replacement: Vec<(&'a str, bool)>,
}

fn parse(line: &str) -> Result<Option<ThesaurusLine<'_>>> {
    let text = line.trim_start_matches(is_space);
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    if text.starts_with(':') {
        return Err(bad_file("unexpected delimiter"));
    }
    let (phrase, rest) = text.split_once(':').ok_or_else(|| bad_file("unexpected end of line"))?;
    let words: Vec<&str> = phrase.split(is_space).filter(|w| !w.is_empty()).collect();
    let mut replacement = Vec::new();
    for word in rest.split(is_space).filter(|w| !w.is_empty()) {
        let bare = word.strip_prefix(['*', '\\']);
        if bare.is_some_and(str::is_empty) {
            return Err(bad_file("unexpected end of line or lexeme"));
        }
        replacement.push((bare.unwrap_or(word), word.starts_with('*')));
    }
    if replacement.is_empty() {
        return Err(bad_file("unexpected end of line"));
    }
    if words.len() > usize::from(u16::MAX) || replacement.len() > usize::from(u16::MAX) {
        return Err(bad_file("too many lexemes in thesaurus entry"));
    }
    Ok(Some(ThesaurusLine { words, replacement }))
}

impl Thesaurus {
    pub fn new(file: &DataFile, dictionary: Arc<Dictionary>) -> Result<Thesaurus> {
        let mut lines = Vec::new();
        file.each_line(|line| {
            lines.extend(parse(line)?);
            Ok(())
        })?;
        let mut thesaurus =
            Thesaurus { dictionary, places: HashMap::new(), stop_places: Vec::new(), rules: Vec::new() };
        for (rule, line) in lines.iter().enumerate() {
            for (position, word) in line.words.iter().enumerate() {
                thesaurus.add_word(word, rule as u32, position as u16)?;
            }
        }
        for lists in thesaurus.places.values_mut().chain([&mut thesaurus.stop_places]) {
            lists.sort_unstable();
            lists.dedup();
        }
        for (rule, line) in lines.iter().enumerate() {
            let result = thesaurus.replacement(&line.replacement, rule + 1)?;
            thesaurus.rules.push(ThesaurusRule { words: line.words.len() as u16, result });
        }
        Ok(thesaurus)
    }
    fn add_word(&mut self, word: &str, rule: u32, position: u16) -> Result<()> {
        if word == "?" {
            self.stop_places.push(RulePosition { rule, position, together: 1 });
            return Ok(());
        }
        let number = rule + 1;
        let unknown =
            || bad_file(format!("thesaurus sample word \"{word}\" isn't recognized by subdictionary (rule {number})"));
        let lexemes = self.dictionary.lexemes(word).ok_or_else(unknown)?;
        if lexemes.is_empty() {
            return Err(bad_file(format!("thesaurus sample word \"{word}\" is a stop word (rule {number})"))
                .with_hint("Use \"?\" to represent a stop word within a sample phrase."));
        }
        for variant in lexemes.chunk_by(|a, b| a.variant == b.variant) {
            for lexeme in variant {
                let place = RulePosition { rule, position, together: variant.len() as u16 };
                self.places.entry(lexeme.word.clone()).or_default().push(place);
            }
        }
        Ok(())
    }
    fn replacement(&self, words: &[(&str, bool)], number: usize) -> Result<Lexemes> {
        let mut result = Lexemes::new();
        for (i, (word, stays)) in words.iter().enumerate() {
            let lexemes = if *stays {
                vec![NormalizedLexeme { word: word.to_string(), variant: i as u16, ..NormalizedLexeme::default() }]
            } else {
                let unknown = || {
                    bad_file(format!(
                        "thesaurus substitute word \"{word}\" isn't recognized by subdictionary (rule {number})"
                    ))
                };
                self.dictionary.lexemes(word).ok_or_else(unknown)?
            };
            if lexemes.is_empty() {
                return Err(bad_file(format!("thesaurus substitute word \"{word}\" is a stop word (rule {number})")));
            }
            let first = result.len();
            result.extend(lexemes);
            if let Some(lexeme) = result.get_mut(first).filter(|_| first > 0) {
                lexeme.adds_position = true;
            }
        }
        Ok(result)
    }

    /// The next word of a text.
    pub fn step(&self, begun: Option<&PartialMatch>, token: &str) -> PhraseMatch {
        let position = begun.map_or(0, |b| b.position + 1);
        let goes_on = |rule: u32| begun.is_none_or(|b| b.rules.contains(&rule));
        let mut rules: Vec<u32> = Vec::new();
        let mut add = |found: Vec<u32>| {
            for rule in found {
                if goes_on(rule) && !rules.contains(&rule) {
                    rules.insert(0, rule);
                }
            }
        };
        match self.dictionary.lexemes(token) {
            None => {}
            Some(lexemes) if lexemes.is_empty() => add(rules_at(&self.stop_places, position, 1)),
            Some(lexemes) => {
                for variant in lexemes.chunk_by(|a, b| a.variant == b.variant) {
                    let lists: Option<Vec<&Vec<RulePosition>>> =
                        variant.iter().map(|l| self.places.get(&l.word)).collect();
                    let Some((first, others)) = lists.as_ref().and_then(|l| l.split_first()) else { continue };
                    let together = variant.len() as u16;
                    let mut common = rules_at(first, position, together);
                    common.retain(|rule| {
                        others.iter().all(|list| list.contains(&RulePosition { rule: *rule, position, together }))
                    });
                    add(common);
                }
            }
        }
        let ends = |rule: &u32| self.rules.get(*rule as usize).filter(|r| r.words == position + 1);
        let result = rules.iter().find_map(ends).map(|r| r.result.clone());
        let may_go_on = !rules.is_empty() && (result.is_none() || rules.len() > 1) && position < u16::MAX - 1;
        PhraseMatch { result, begun: may_go_on.then_some(PartialMatch { rules, position }) }
    }
}

fn rules_at(places: &[RulePosition], position: u16, together: u16) -> Vec<u32> {
    places.iter().filter(|p| p.position == position && p.together == together).map(|p| p.rule).collect()
}
