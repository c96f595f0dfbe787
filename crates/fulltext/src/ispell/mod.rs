//! Dictionaries of the template ispell: a word's basic forms, by a list of words and rules for affixes.
//!
//! Invariants
//! 1. A look-up walks two trees, of words and of affixes: it does not depend on how many there are.
//! 2. What is tried for a compound word is limited, whatever the files say.

mod affixes;
mod compound;
mod flags;
mod pattern;
mod sort;
mod trie;
mod words;

use crate::dictionary::{Lexemes, NormalizedLexeme};
use crate::files::DataFile;
use affixes::{Affix, AffixFile};
use flags::*;
use kilndb_base::Result;
use kilndb_base::hash::{HashMap, HashMapExt};
use trie::Trie;
use words::WordFacts;

/// PostgreSQL's limits: forms of a word, and its bytes.
const FORMS_MAX: usize = 1024;
const WORD_BYTES_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Ispell {
    words: Trie<WordFacts>,
    /// Flags by the number of their set, as numbers.
    sets: Vec<Box<[u32]>>,
    affixes: Vec<AffixRule>,
    prefixes: Affixes,
    suffixes: Affixes,
    /// What may stand between the parts of a compound word; None: there are no compound words.
    joints: Option<Vec<CompoundJoint>>,
}

#[derive(Debug)]
struct AffixRule {
    rule: Affix,
    /// None: of every word; a flag that no word has is a number that no set has.
    flag: Option<u32>,
}

/// Numbers of affixes by what they put at a word's beginning (or, read backwards, at its end).
#[derive(Debug)]
struct Affixes {
    /// The rules whose affix is empty.
    empty: Vec<u32>,
    by_text: Trie<Vec<u32>>,
}

#[derive(Debug)]
struct CompoundJoint {
    text: Box<str>,
    is_suffix: bool,
}

impl Affixes {
    /// The rules come in the order of their replacements.
    fn new(rules: &[AffixRule], are_suffixes: bool) -> Affixes {
        let (mut empty, mut keys) = (Vec::new(), Vec::<(Vec<u8>, Vec<u32>)>::new());
        for (number, a) in rules.iter().enumerate().filter(|(_, a)| a.rule.is_suffix == are_suffixes) {
            let key = sort_key(&a.rule);
            match keys.last_mut() {
                _ if key.is_empty() => empty.push(number as u32),
                Some((last, numbers)) if *last == key => numbers.push(number as u32),
                _ => keys.push((key, vec![number as u32])),
            }
        }
        Affixes { empty, by_text: Trie::new(keys) }
    }
    /// The rules whose affix a word's bytes begin with (its bytes backwards for suffixes), shortest first.
    fn of<'a>(&'a self, bytes: impl Iterator<Item = u8> + 'a) -> impl Iterator<Item = u32> + 'a {
        self.empty.iter().chain(self.by_text.prefixes(bytes).flatten()).copied()
    }
}

/// Suffixes are looked at from their ends.
fn sort_key(affix: &Affix) -> Vec<u8> {
    let bytes = affix.replacement.bytes();
    if affix.is_suffix { bytes.rev().collect() } else { bytes.collect() }
}

impl Ispell {
    pub fn new(words: &DataFile, affixes: &DataFile) -> Result<Ispell> {
        let entries = words::read(words)?;
        Ispell::build(entries, AffixFile::read(affixes)?)
    }
    fn build(entries: Vec<words::DictionaryLine>, file: AffixFile) -> Result<Ispell> {
        let uses_compounds = !file.compound_flags.is_empty();
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let (words, sets) = words::build(entries, &file, &mut numbers)?;
        let mut rules: Vec<((bool, Vec<u8>), Affix)> =
            file.affixes.into_iter().map(|a| ((a.is_suffix, sort_key(&a)), a)).collect();
        sort::sort(&mut rules, &|a, b| a.0.cmp(&b.0));
        let number_of = |flag: &str| (!flag.is_empty()).then(|| numbers.get(flag).copied().unwrap_or(u32::MAX));
        let affixes: Vec<AffixRule> =
            rules.into_iter().map(|(_, rule)| AffixRule { flag: number_of(&rule.flag), rule }).collect();
        let (prefixes, suffixes) = (Affixes::new(&affixes, false), Affixes::new(&affixes, true));
        let joints = uses_compounds.then(|| compound::joints(&affixes));
        Ok(Ispell { words, sets, affixes, prefixes, suffixes, joints })
    }

    /// Is the word in the list, for an affix with the flag, at this place of a compound word (0: on its own)?
    fn has(&self, word: &str, flag: Option<u32>, place: u8) -> bool {
        let Some(entry) = self.words.get(word.as_bytes()) else { return false };
        let may_stand =
            if place & WORD_BITS == 0 { entry.bits & COMPOUND_ONLY == 0 } else { entry.bits & place & WORD_BITS != 0 };
        may_stand && flag.is_none_or(|flag| self.sets.get(entry.set as usize).is_some_and(|set| set.contains(&flag)))
    }

    /// The basic forms of a word.
    fn forms(&self, word: &str, place: u8) -> Vec<String> {
        let mut forms = Vec::new();
        if word.len() > WORD_BYTES_MAX {
            return forms;
        }
        if self.has(word, None, place) {
            forms.push(word.to_string());
        }
        for prefix in self.prefixes.of(word.bytes()).filter_map(|n| self.affixes.get(n as usize)) {
            if let Some(base) = without_prefix(word, &prefix.rule, place, None)
                && self.has(&base, prefix.flag, place)
            {
                add_form(&mut forms, base);
            }
        }
        for suffix in self.suffixes.of(word.bytes().rev()).filter_map(|n| self.affixes.get(n as usize)) {
            let Some((base, kept)) = without_suffix(word, &suffix.rule, place) else { continue };
            if self.has(&base, suffix.flag, place) {
                add_form(&mut forms, base.clone());
            }
            for prefix in self.prefixes.of(base.bytes()).filter_map(|n| self.affixes.get(n as usize)) {
                let Some(inner) = without_prefix(&base, &prefix.rule, place, Some(kept)) else { continue };
                let is_cross = prefix.rule.bits & suffix.rule.bits & CROSS_PRODUCT != 0;
                if self.has(&inner, if is_cross { None } else { prefix.flag }, place) {
                    add_form(&mut forms, inner);
                }
            }
        }
        forms
    }

    /// A word in small letters; None: it is not known.
    pub fn lexemes(&self, word: &str) -> Option<Lexemes> {
        let mut found: Lexemes = Vec::new();
        let mut variant = 1u16;
        let mut add = |words: &[String], variant: &mut u16| {
            let room = (FORMS_MAX - 1).saturating_sub(found.len());
            found.extend(words.iter().take(room).map(|w| NormalizedLexeme {
                word: w.clone(),
                variant: *variant,
                ..NormalizedLexeme::default()
            }));
            *variant = variant.wrapping_add(1);
        };
        for form in self.forms(word, 0) {
            add(&[form], &mut variant);
        }
        for mut parts in self.parted(word) {
            let Some(last) = parts.pop().filter(|_| !parts.is_empty()) else { continue };
            for form in self.forms(&last, COMPOUND_LAST) {
                parts.push(form);
                add(&parts, &mut variant);
                parts.pop();
            }
        }
        (!found.is_empty()).then_some(found)
    }
}

fn add_form(forms: &mut Vec<String>, form: String) {
    if forms.len() < FORMS_MAX - 1 && forms.last() != Some(&form) {
        forms.push(form);
    }
}

/// May the affix be used at this place of a compound word?
fn is_allowed(affix: &Affix, place: u8) -> bool {
    let has = |bit: u8| affix.bits & bit != 0;
    if place == 0 {
        !has(COMPOUND_ONLY)
    } else if place & COMPOUND_BEGIN != 0 {
        !has(COMPOUND_FORBID) && (has(COMPOUND_BEGIN) || !affix.is_suffix)
    } else if place & COMPOUND_MIDDLE != 0 {
        has(COMPOUND_MIDDLE) && !has(COMPOUND_FORBID)
    } else {
        !has(COMPOUND_FORBID) && (has(COMPOUND_LAST) || affix.is_suffix)
    }
}
/// The word before it got the suffix, and how many of its bytes are left as they were.
fn without_suffix(word: &str, affix: &Affix, place: u8) -> Option<(String, usize)> {
    let kept = word.strip_suffix(&*affix.replacement).filter(|_| is_allowed(affix, place))?;
    if kept.len() + affix.find.len() >= 2 * WORD_BYTES_MAX {
        return None;
    }
    let base = format!("{kept}{}", affix.find);
    affix.pattern.matches(&base).then_some((base, kept.len()))
}
/// `unchanged`: so many bytes were there before a suffix; not all of them may be the prefix.
fn without_prefix(word: &str, affix: &Affix, place: u8, unchanged: Option<usize>) -> Option<String> {
    let kept = word.strip_prefix(&*affix.replacement).filter(|_| is_allowed(affix, place))?;
    let is_all = unchanged.is_some_and(|len| len + affix.find.len() <= affix.replacement.len());
    if is_all || kept.len() + affix.find.len() >= 2 * WORD_BYTES_MAX {
        return None;
    }
    let base = format!("{}{kept}", affix.find);
    affix.pattern.matches(&base).then_some(base)
}
