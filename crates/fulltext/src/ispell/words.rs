//! Lists of words with the flags of their affixes.

use super::affixes::AffixFile;
use super::flags::*;
use super::trie::Trie;
use crate::dictionary::lower;
use crate::files::{DataFile, bad_file, is_space};
use kilndb_base::Result;
use kilndb_base::hash::{HashMap, HashMapExt};

/// A line: a word in small letters, and its flags as they stand there.
pub(super) struct DictionaryLine {
    word: Box<str>,
    flags: Box<str>,
}

/// What is known of a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordFacts {
    pub set: u32,
    /// Where the word may stand in compound words, a bit for each place.
    pub bits: u8,
}

pub(super) fn read(file: &DataFile) -> Result<Vec<DictionaryLine>> {
    let mut entries = Vec::new();
    file.each_line(|line| {
        let (word, flags) = line.split_once('/').unwrap_or((line, ""));
        let end = flags.find(|c: char| !c.is_ascii_graphic()).unwrap_or(flags.len());
        let word = word.split(is_space).next().unwrap_or_default();
        entries.push(DictionaryLine { word: lower(word).into(), flags: flags.get(..end).unwrap_or_default().into() });
        Ok(())
    })?;
    Ok(entries)
}

/// Sets of flags: each once, as numbers, with what they say of compound words.
struct FlagSets<'a> {
    file: &'a AffixFile,
    numbers: &'a mut HashMap<String, u32>,
    known: HashMap<Vec<String>, u32>,
    sets: Vec<Box<[u32]>>,
    flags: Vec<(Vec<String>, u8)>,
}

impl FlagSets<'_> {
    fn add(&mut self, flags: Vec<String>) -> u32 {
        if let Some(known) = self.known.get(&flags) {
            return *known;
        }
        let next = self.sets.len() as u32;
        let mut number = |flag: &String| {
            let unused = self.numbers.len() as u32;
            *self.numbers.entry(flag.clone()).or_insert(unused)
        };
        self.sets.push(flags.iter().map(&mut number).collect());
        let bits = self.file.compound_flags.of(&flags) & WORD_BITS;
        self.flags.push((flags.clone(), bits));
        self.known.insert(flags, next);
        next
    }
    fn of(&self, set: u32) -> (&[String], u8) {
        self.flags.get(set as usize).map_or((&[], 0), |(flags, bits)| (flags, *bits))
    }
    /// A word that is there twice has the flags of both.
    fn merged(&mut self, word: WordFacts, other: u32) -> WordFacts {
        let (new, other_bits) = self.of(other);
        let (old, _) = self.of(word.set);
        let set = match (old.is_empty(), new.is_empty()) {
            (true, _) => other,
            (_, true) => word.set,
            _ => {
                let both = old.iter().chain(new).cloned().collect();
                self.add(both)
            }
        };
        let stays_part = word.bits & other_bits & COMPOUND_ONLY != 0;
        let merged = self.word(set);
        WordFacts { bits: if stays_part { merged.bits } else { merged.bits & !COMPOUND_ONLY }, ..merged }
    }
    fn word(&self, set: u32) -> WordFacts {
        let bits = self.of(set).1;
        let is_part_anywhere = bits & COMPOUND_ONLY != 0 && bits & COMPOUND_ANY == 0;
        WordFacts { set, bits: if is_part_anywhere { bits | COMPOUND_ANY } else { bits } }
    }
}

type WordsAndSets = (Trie<WordFacts>, Vec<Box<[u32]>>);

/// `numbers` gets a number for each flag that a word has.
pub(super) fn build(
    mut entries: Vec<DictionaryLine>,
    file: &AffixFile,
    numbers: &mut HashMap<String, u32>,
) -> Result<WordsAndSets> {
    if let Some(aliases) = &file.aliases {
        for entry in &mut entries {
            entry.flags = aliased(&entry.flags, aliases)?;
        }
    }
    entries.sort_by(|a, b| a.word.cmp(&b.word).then_with(|| a.flags.cmp(&b.flags)));
    let mut sets = FlagSets { file, numbers, known: HashMap::new(), sets: Vec::new(), flags: Vec::new() };
    for set in file.aliases.iter().flatten() {
        sets.add(file.mode.split(set)?);
    }
    let mut by_text: HashMap<Box<str>, u32> = HashMap::new();
    let mut keys: Vec<(Vec<u8>, WordFacts)> = Vec::new();
    for entry in entries.into_iter().filter(|e| !e.word.is_empty()) {
        let set = match by_text.get(&entry.flags) {
            Some(set) => *set,
            None => {
                let set = sets.add(file.mode.split(&entry.flags)?);
                by_text.insert(entry.flags, set);
                set
            }
        };
        match keys.last_mut() {
            Some((last, word)) if **last == *entry.word.as_bytes() => {
                if word.set != set {
                    *word = sets.merged(*word, set);
                }
            }
            _ => keys.push((entry.word.as_bytes().to_vec(), sets.word(set))),
        }
    }
    Ok((Trie::new(keys), sets.sets))
}

fn aliased(number: &str, aliases: &[String]) -> Result<Box<str>> {
    if number.is_empty() {
        return Ok("".into());
    }
    let invalid = || bad_file(format!("invalid affix alias \"{number}\""));
    let (value, rest) = leading_number(number).ok_or_else(invalid)?;
    if rest.starts_with(|c: char| !is_space(c)) {
        return Err(invalid());
    }
    let set = usize::try_from(value).ok().and_then(|n| aliases.get(n)).ok_or_else(invalid)?;
    Ok(set.as_str().into())
}
