//! What a word must begin or end with for an affix to be possible.

use crate::parser::is_letter;
use kilndb_base::{Error, Result, sqlstate};
use regex::Regex;

#[derive(Debug)]
pub(super) enum Pattern {
    Any,
    /// Characters one after the other, at the end of a word or at its beginning.
    Classes {
        at_end: bool,
        classes: Vec<CharacterClass>,
    },
    Expression(Box<Regex>),
}

#[derive(Debug, Default)]
pub(super) struct CharacterClass {
    is_negated: bool,
    characters: Vec<char>,
}
impl CharacterClass {
    fn has(&self, c: char) -> bool {
        self.characters.contains(&c) != self.is_negated
    }
}

impl Pattern {
    pub fn new(mask: &str, at_end: bool) -> Result<Pattern> {
        if mask.is_empty() || mask == "." {
            return Ok(Pattern::Any);
        }
        if let Some(classes) = classes(mask) {
            return Ok(Pattern::Classes { at_end, classes });
        }
        let expression = escaped(mask);
        let anchored = if at_end { format!("{expression}$") } else { format!("^{expression}") };
        let invalid = |e: regex::Error| {
            let reason = e.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_string();
            Error::new(sqlstate::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
        };
        Regex::new(&anchored).map(|r| Pattern::Expression(Box::new(r))).map_err(invalid)
    }
    pub fn matches(&self, word: &str) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Classes { at_end: true, classes } => {
                let mut characters = word.chars().rev();
                classes.iter().rev().all(|class| characters.next().is_some_and(|c| class.has(c)))
            }
            Pattern::Classes { classes, .. } => {
                let mut characters = word.chars();
                classes.iter().all(|class| characters.next().is_some_and(|c| class.has(c)))
            }
            Pattern::Expression(e) => e.is_match(word),
        }
    }
}

/// Letters and brackets with letters; None: the mask is more than that.
fn classes(mask: &str) -> Option<Vec<CharacterClass>> {
    let (mut classes, mut characters) = (Vec::new(), mask.chars());
    while let Some(c) = characters.next() {
        let mut class = CharacterClass::default();
        if c == '[' {
            loop {
                match characters.next()? {
                    '^' if class.characters.is_empty() && !class.is_negated => class.is_negated = true,
                    // A bracket that closes at once is a character of the class.
                    ']' if class.is_negated || !class.characters.is_empty() => break,
                    c if is_letter(c) => class.characters.push(c),
                    _ => return None,
                }
            }
        } else if is_letter(c) {
            class.characters.push(c);
        } else {
            return None;
        }
        classes.push(class);
    }
    Some(classes)
}

/// Inside of brackets some characters mean more to the library than they do to PostgreSQL.
fn escaped(mask: &str) -> String {
    let (mut out, mut is_inside) = (String::new(), false);
    let mut characters = mask.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '[' if !is_inside => {
                is_inside = true;
                out.push(c);
                out.extend(characters.next_if_eq(&'^'));
                if characters.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
                continue;
            }
            '[' if !matches!(characters.peek(), Some(':')) => out.push('\\'),
            '&' | '~' if is_inside => out.push('\\'),
            ']' if is_inside => is_inside = false,
            _ => {}
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn masks_match_where_they_should() {
        let ends = |mask: &str, word: &str| Pattern::new(mask, true).expect(mask).matches(word);
        assert!(ends("[^aeiou]y", "sky") && !ends("[^aeiou]y", "day") && !ends("[^aeiou]y", "y"));
        assert!(ends("", "") && ends(".", "x"));
        assert!(ends("[^]a-c]d", "xd") && !ends("[^]a-c]d", "bd") && !ends("[^]a-c]d", "]d"));
        assert!(ends("y{1}", "sky") && ends("y*", "sk") && !ends("k{1}", "sky"));
        assert!(ends("[a&&b]", "&") && ends("[[']", "["));
        assert!(Pattern::new("[^e]x", false).expect("a mask").matches("axe"));
        assert!(Pattern::new("(", true).is_err());
    }
}
