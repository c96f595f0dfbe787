//! Flags: what a word's entry allows, written as characters, pairs of characters or numbers.

use crate::files::{bad_file, is_space};
use kilndb_base::Result;
use kilndb_base::hash::HashMap;

/// Parts of compound words, as bits of a word's entry or of an affix.
pub(super) const COMPOUND_ONLY: u8 = 1;
pub(super) const COMPOUND_BEGIN: u8 = 2;
pub(super) const COMPOUND_MIDDLE: u8 = 4;
pub(super) const COMPOUND_LAST: u8 = 8;
pub(super) const COMPOUND_ANY: u8 = COMPOUND_BEGIN | COMPOUND_MIDDLE | COMPOUND_LAST;
/// A word's entry has these alone.
pub(super) const WORD_BITS: u8 = COMPOUND_ONLY | COMPOUND_ANY;
pub(super) const COMPOUND_PERMIT: u8 = 0x10;
pub(super) const COMPOUND_FORBID: u8 = 0x20;
/// A prefix and a suffix may come together.
pub(super) const CROSS_PRODUCT: u8 = 0x40;

const NUMBER_MAX: i64 = 1 << 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FlagMode {
    #[default]
    Character,
    Pair,
    Number,
}

fn invalid(text: &str) -> kilndb_base::Error {
    bad_file(format!("invalid affix flag \"{text}\""))
}

/// The number that a text begins with, and what comes behind it.
pub(super) fn leading_number(text: &str) -> Option<(i64, &str)> {
    let start = text.trim_start_matches(is_space);
    let digits_at = usize::from(start.starts_with(['+', '-']));
    let digits = start.bytes().skip(digits_at).take_while(u8::is_ascii_digit).count();
    let (number, rest) = start.split_at_checked(digits_at + digits).filter(|_| digits > 0)?;
    Some((number.parse().ok()?, rest))
}

impl FlagMode {
    /// The first flag of a set, and what is left of the set.
    fn next(self, set: &str) -> Result<(String, &str)> {
        if self == FlagMode::Number {
            return next_number(set);
        }
        let mut ends = set.char_indices().map(|(at, c)| at + c.len_utf8());
        let end = if self == FlagMode::Pair { ends.nth(1) } else { ends.next() };
        let too_short = || bad_file(format!("invalid affix flag \"{set}\" with \"long\" flag value"));
        let (flag, rest) = end.and_then(|end| set.split_at_checked(end)).ok_or_else(too_short)?;
        Ok((flag.to_string(), rest))
    }
    pub fn split(self, set: &str) -> Result<Vec<String>> {
        let (mut flags, mut rest) = (Vec::new(), set);
        while !rest.is_empty() {
            let (flag, more) = self.next(rest)?;
            flags.push(flag);
            rest = more;
        }
        Ok(flags)
    }
    /// A flag in the one spelling that all spellings of it share: numbers may have zeros before them.
    pub fn canonical(self, flag: &str) -> Result<String> {
        if self == FlagMode::Number { checked_number(flag).map(|(n, _)| n.to_string()) } else { Ok(flag.to_string()) }
    }
}

fn checked_number(text: &str) -> Result<(i64, &str)> {
    let (number, rest) = leading_number(text).ok_or_else(|| invalid(text))?;
    if !(0..=NUMBER_MAX).contains(&number) {
        return Err(bad_file(format!("affix flag \"{text}\" is out of range")));
    }
    Ok((number, rest))
}
/// Numbers have one comma between them.
fn next_number(set: &str) -> Result<(String, &str)> {
    let (number, mut rest) = checked_number(set)?;
    let mut had_comma = false;
    while let Some(c) = rest.chars().next() {
        match c {
            '0'..='9' if had_comma => break,
            '0'..='9' => return Err(invalid(rest)),
            ',' if had_comma => return Err(invalid(rest)),
            ',' => had_comma = true,
            c if is_space(c) => {}
            _ => return Err(bad_file(format!("invalid character in affix flag \"{rest}\""))),
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    Ok((number.to_string(), rest))
}

/// Which flags are about compound words.
#[derive(Debug, Default)]
pub(super) struct CompoundFlags(HashMap<String, u8>);

impl CompoundFlags {
    pub fn add(&mut self, mode: FlagMode, flag: &str, bits: u8) -> Result<()> {
        *self.0.entry(mode.canonical(flag)?).or_default() |= bits;
        Ok(())
    }
    pub fn of(&self, flags: &[String]) -> u8 {
        flags.iter().fold(0, |bits, flag| bits | self.0.get(flag).copied().unwrap_or(0))
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::FlagMode;

    #[test]
    fn sets_come_apart() {
        assert_eq!(FlagMode::Character.split("a\u{e4}1").expect("a set"), ["a", "\u{e4}", "1"]);
        assert_eq!(FlagMode::Pair.split("cZs\\").expect("a set"), ["cZ", "s\\"]);
        assert_eq!(FlagMode::Number.split("7, 012,9").expect("a set"), ["7", "12", "9"]);
        let message = |mode: FlagMode, set| mode.split(set).expect_err("no set").message().to_string();
        assert_eq!(message(FlagMode::Pair, "abc"), "invalid affix flag \"c\" with \"long\" flag value");
        assert_eq!(message(FlagMode::Number, "1,x"), "invalid character in affix flag \"x\"");
        assert_eq!(message(FlagMode::Number, "1,,2"), "invalid affix flag \",2\"");
        assert_eq!(message(FlagMode::Number, "70000"), "affix flag \"70000\" is out of range");
    }
}
