//! Files of affix rules, in the formats of Ispell and of Hunspell (and MySpell).

use super::flags::*;
use super::pattern::Pattern;
use crate::dictionary::lower;
use crate::files::{DataFile, bad_file, is_space};
use crate::parser::is_letter;
use kilndb_base::Result;
use kilndb_base::hash::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// What an affix makes of a word: at its end (or its beginning) `find` becomes `replacement`.
#[derive(Debug)]
pub(super) struct Affix {
    /// Empty: of every word.
    pub flag: String,
    pub is_suffix: bool,
    pub bits: u8,
    /// What the word without the affix must look like.
    pub pattern: Arc<Pattern>,
    pub find: Box<str>,
    pub replacement: Box<str>,
}

#[derive(Debug, Default)]
pub(super) struct AffixFile {
    pub affixes: Vec<Affix>,
    pub mode: FlagMode,
    pub compound_flags: CompoundFlags,
    /// Sets of flags that words name by their number.
    pub aliases: Option<Vec<String>>,
    patterns: HashMap<(String, bool), Arc<Pattern>>,
}

impl AffixFile {
    pub fn read(file: &DataFile) -> Result<AffixFile> {
        let mut affixes = AffixFile::default();
        if affixes.read_ispell(file)? {
            return Ok(affixes);
        }
        let mut affixes = AffixFile::default();
        affixes.read_hunspell_options(file)?;
        affixes.read_hunspell_rules(file)?;
        Ok(affixes)
    }

    fn add(&mut self, flag: &str, bits: u8, mask: &str, find: &str, replacement: &str, is_suffix: bool) -> Result<()> {
        let pattern = match self.patterns.entry((mask.to_string(), is_suffix)) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => new.insert(Arc::new(Pattern::new(mask, is_suffix)?)).clone(),
        };
        let needs_place = bits & (COMPOUND_ONLY | COMPOUND_PERMIT) != 0 && bits & COMPOUND_ANY == 0;
        let bits = if needs_place { bits | COMPOUND_ANY } else { bits };
        self.affixes.push(Affix {
            flag: flag.to_string(),
            is_suffix,
            bits,
            pattern,
            find: find.into(),
            replacement: replacement.into(),
        });
        Ok(())
    }
    /// A line that names a flag of compound words.
    fn add_compound_flag(&mut self, rest: &str, bits: u8) -> Result<()> {
        let flag = rest.split(is_space).find(|w| !w.is_empty()).ok_or_else(|| bad_file("syntax error"))?;
        self.compound_flags.add(self.mode, flag, bits)
    }

    /// False: the file is in the other format.
    fn read_ispell(&mut self, file: &DataFile) -> Result<bool> {
        let mut state = IspellState::default();
        file.each_line(|line| if state.is_other_format { Ok(()) } else { self.read_ispell_line(line, &mut state) })?;
        Ok(!state.is_other_format)
    }
    fn read_ispell_line(&mut self, line: &str, state: &mut IspellState) -> Result<()> {
        let small = lower(line);
        if small.starts_with(['#', '\n']) {
            return Ok(());
        }
        if small.starts_with("compoundwords")
            && let Some(at) = line.find(['l', 'L'])
        {
            let rest =
                line.get(at..).unwrap_or_default().trim_start_matches(|c| !is_space(c)).trim_start_matches(is_space);
            if rest.starts_with(|c: char| c.is_ascii()) {
                self.add_compound_flag(rest, COMPOUND_ANY)?;
            }
            state.has_ispell_lines = true;
            return Ok(());
        }
        for (word, are_suffixes) in [("suffixes", true), ("prefixes", false)] {
            if small.starts_with(word) {
                (state.suffixes, state.has_ispell_lines) = (Some(are_suffixes), true);
                return Ok(());
            }
        }
        if small.starts_with("flag") {
            return state.take_flag(line.get(4..).unwrap_or_default());
        }
        if ["COMPOUNDFLAG", "COMPOUNDMIN", "PFX", "SFX"].iter().any(|word| line.starts_with(word)) {
            return state.other_format();
        }
        let Some(is_suffix) = state.suffixes else { return Ok(()) };
        match ispell_rule(&small)? {
            Some([mask, find, replacement]) => self.add(&state.flag, state.bits, &mask, &find, &replacement, is_suffix),
            None => Ok(()),
        }
    }

    fn read_hunspell_options(&mut self, file: &DataFile) -> Result<()> {
        const COMPOUND: &[(&str, u8)] = &[
            ("COMPOUNDFLAG", COMPOUND_ANY),
            ("COMPOUNDBEGIN", COMPOUND_BEGIN),
            ("COMPOUNDLAST", COMPOUND_LAST),
            ("COMPOUNDEND", COMPOUND_LAST),
            ("COMPOUNDMIDDLE", COMPOUND_MIDDLE),
            ("ONLYINCOMPOUND", COMPOUND_ONLY),
            ("COMPOUNDPERMITFLAG", COMPOUND_PERMIT),
            ("COMPOUNDFORBIDFLAG", COMPOUND_FORBID),
        ];
        // What flags look like may be said behind the first of them.
        file.each_line(|line| match line.strip_prefix("FLAG").map(|rest| rest.trim_start_matches(is_space)) {
            Some(mode) if mode.starts_with("long") => {
                let _: () = self.mode = FlagMode::Pair;
                Ok(())
            }
            Some(mode) if mode.starts_with("num") => {
                let _: () = self.mode = FlagMode::Number;
                Ok(())
            }
            Some(mode) if mode.is_empty() || mode.starts_with("default") => Ok(()),
            Some(_) => Err(bad_file("Ispell dictionary supports only \"default\", \"long\", and \"num\" flag values")),
            None => Ok(()),
        })?;
        file.each_line(|line| {
            let found = COMPOUND.iter().find_map(|(word, bits)| Some((line.strip_prefix(word)?, *bits)));
            found.map_or(Ok(()), |(rest, bits)| self.add_compound_flag(rest, bits))
        })
    }

    fn read_hunspell_rules(&mut self, file: &DataFile) -> Result<()> {
        let mut state = HunspellState::default();
        file.each_line(|line| self.read_hunspell_line(line, &mut state))?;
        match &self.aliases {
            Some(known) if known.len() <= state.aliases => {
                Err(bad_file(format!("number of aliases is less than specified number {}", state.aliases)))
            }
            _ => Ok(()),
        }
    }
    fn read_hunspell_line(&mut self, line: &str, state: &mut HunspellState) -> Result<()> {
        if line.starts_with(|c| is_space(c) || c == '#') {
            return Ok(());
        }
        let fields: Vec<&str> =
            line.split(is_space).filter(|f| !f.is_empty()).take(5).take_while(|f| !f.starts_with('#')).collect();
        let kind = fields.first().map(|k| lower(k)).unwrap_or_default();
        if kind.starts_with("af") {
            return self.read_alias(fields.get(1).copied().unwrap_or(""), state);
        }
        let is_suffix = kind.starts_with("sfx");
        if !is_suffix && !kind.starts_with("pfx") {
            return Ok(());
        }
        match fields[..] {
            [_, flag, ..] if !self.fits(flag) => Ok(()),
            [_, _, cross, _] => {
                state.is_suffix = is_suffix;
                state.bits = if cross.starts_with(['y', 'Y']) { CROSS_PRODUCT } else { 0 };
                Ok(())
            }
            [_, flag, find, replacement, mask] => {
                let (text, own_flags) =
                    replacement.split_once('/').map_or((replacement, None), |(text, flags)| (text, Some(flags)));
                let bits = match own_flags {
                    Some(flags) if !self.compound_flags.is_empty() => {
                        self.compound_flags.of(&self.mode.split(self.alias(flags)?)?)
                    }
                    _ => 0,
                };
                let shown = |text: &str, whole: &str| {
                    if whole.starts_with('0') { String::new() } else { lower(text).into_owned() }
                };
                self.add(
                    flag,
                    state.bits | bits,
                    &lower(mask),
                    &shown(find, find),
                    &shown(text, replacement),
                    state.is_suffix,
                )
            }
            _ => Ok(()),
        }
    }
    /// Flags that are longer than flags of the file's kind are passed over.
    fn fits(&self, flag: &str) -> bool {
        match self.mode {
            FlagMode::Character => flag.len() <= 1,
            FlagMode::Pair => flag.len() <= 2,
            FlagMode::Number => true,
        }
    }
    fn read_alias(&mut self, set: &str, state: &mut HunspellState) -> Result<()> {
        let Some(aliases) = &mut self.aliases else {
            let count = leading_number(set).map_or(0, |(n, _)| n);
            state.aliases = usize::try_from(count)
                .ok()
                .filter(|n| *n > 0)
                .ok_or_else(|| bad_file("invalid number of flag vector aliases"))?;
            self.aliases = Some(vec![String::new()]);
            return Ok(());
        };
        if aliases.len() > state.aliases {
            return Err(bad_file(format!("number of aliases exceeds specified number {}", state.aliases)));
        }
        aliases.push(set.to_string());
        Ok(())
    }
    /// The set of flags that is meant, where sets are named by numbers.
    fn alias<'a>(&'a self, set: &'a str) -> Result<&'a str> {
        let Some(aliases) = self.aliases.as_ref().filter(|_| !set.is_empty()) else { return Ok(set) };
        let invalid = || bad_file(format!("invalid affix alias \"{set}\""));
        let (number, _) = leading_number(set).ok_or_else(invalid)?;
        match usize::try_from(number) {
            Ok(number) => aliases.get(number).map(String::as_str).ok_or_else(invalid),
            Err(_) => Ok(""),
        }
    }
}

#[derive(Default)]
struct HunspellState {
    is_suffix: bool,
    bits: u8,
    /// How many the file says that there are.
    aliases: usize,
}

#[derive(Default)]
struct IspellState {
    suffixes: Option<bool>,
    flag: String,
    bits: u8,
    /// Something that only this format has.
    has_ispell_lines: bool,
    is_other_format: bool,
}

impl IspellState {
    fn other_format(&mut self) -> Result<()> {
        if self.has_ispell_lines {
            return Err(bad_file("affix file contains both old-style and new-style commands"));
        }
        self.is_other_format = true;
        Ok(())
    }
    /// `flag *X:`, with one character.
    fn take_flag(&mut self, rest: &str) -> Result<()> {
        let mut rest = rest.trim_start_matches(is_space);
        self.bits = 0;
        for (mark, bit) in [('*', CROSS_PRODUCT), ('~', COMPOUND_ONLY)] {
            if let Some(behind) = rest.strip_prefix(mark) {
                (rest, self.bits) = (behind, bit);
                break;
            }
        }
        let mut characters = rest.strip_prefix('\\').unwrap_or(rest).chars();
        if let Some(flag) = characters.next().filter(char::is_ascii) {
            self.flag = flag.to_string();
            if characters.next().is_none_or(|c| matches!(c, '#' | ':') || is_space(c)) {
                self.has_ispell_lines = true;
                return Ok(());
            }
        }
        self.other_format()
    }
}

/// `mask > -find,replacement` as mask, find and replacement; None: the line is no rule.
fn ispell_rule(line: &str) -> Result<Option<[String; 3]>> {
    let line = line.trim_start_matches(is_space);
    let Some((mask, rule)) = line.split_once('>').filter(|(mask, _)| !mask.is_empty() && !mask.starts_with('#')) else {
        return Ok(None);
    };
    let mask: String = mask.chars().filter(|c| !is_space(*c)).collect();
    let rule = rule.trim_start_matches(is_space);
    let syntax_error = || bad_file("syntax error");
    let letters = |text: &str| -> Result<String> {
        let kept: String = text.chars().filter(|c| !is_space(*c)).collect();
        if kept.chars().all(is_letter) { Ok(kept) } else { Err(syntax_error()) }
    };
    let (find, replacement) = match rule.strip_prefix('-') {
        None => (String::new(), rule),
        Some(behind) => match behind.split_once(',') {
            Some((find, replacement)) => (letters(find)?, replacement.trim_start_matches(is_space)),
            None => (letters(behind)?, ""),
        },
    };
    let is_first = rule.starts_with('\'');
    let text = replacement.split('#').next().unwrap_or_default();
    let replacement = match text {
        _ if text.starts_with('-') => String::new(),
        _ if is_first => format!("'{}", letters(text.get(1..).unwrap_or_default())?),
        _ if text.is_empty() && replacement.starts_with('#') => return Err(syntax_error()),
        _ => letters(text)?,
    };
    Ok((!mask.is_empty() && !(find.is_empty() && replacement.is_empty())).then_some([mask, find, replacement]))
}
