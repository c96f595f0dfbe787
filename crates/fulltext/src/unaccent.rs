//! Dictionaries of the template unaccent: parts of a word are replaced, and the word goes on to the next dictionary.

use crate::files::{DataFile, is_space};
use kilndb_base::Result;
use kilndb_base::hash::{HashMap, HashMapExt};
use std::convert::Infallible;

/// What follows the first character of a text that is replaced, and what it is replaced by.
type Replacement = (Box<str>, Box<str>);

#[derive(Debug)]
pub(crate) struct Unaccent {
    /// Replacements by their first characters, those of longer texts first.
    rules: HashMap<char, Vec<Replacement>>,
}

/// A line of a file: a text, and what it is replaced by, which may be nothing, or in quotes. None: it is no rule, and says
/// nothing.
fn rule_of(line: &str) -> Option<(&str, String)> {
    let line = line.trim_matches(is_space);
    let (from, rest) = line.split_at(line.find(is_space).unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_space);
    let Some(quoted) = rest.strip_prefix('"') else {
        return (!from.is_empty() && !rest.contains(is_space)).then(|| (from, rest.to_string()));
    };
    let inner = quoted.strip_suffix('"')?;
    let to = inner.replace("\"\"", "\0");
    (!to.contains('"')).then(|| (from, to.replace('\0', "\"")))
}

impl Unaccent {
    pub fn new(file: &DataFile) -> Result<Unaccent> {
        let mut rules: HashMap<char, Vec<Replacement>> = HashMap::new();
        file.each_line(|line| {
            let Some((from, to)) = rule_of(line) else { return Ok(()) };
            let mut rest = from.chars();
            let Some(first) = rest.next() else { return Ok(()) };
            let known = rules.entry(first).or_default();
            // Of two rules for one text the first one counts.
            if known.iter().all(|(other, _)| **other != *rest.as_str()) {
                known.push((rest.as_str().into(), to.into()));
            }
            Ok(())
        })?;
        rules.values_mut().for_each(|list| list.sort_by_key(|(rest, _)| std::cmp::Reverse(rest.len())));
        Ok(Unaccent { rules })
    }
    /// The word with its replacements; None: there are none.
    pub fn replaced(&self, word: &str) -> Option<String> {
        let Ok(out) = self.replaced_in_steps(word, || Ok::<(), Infallible>(()));
        out
    }
    /// The same; `step` is called for each character.
    pub fn replaced_in_steps<E>(
        &self,
        word: &str,
        mut step: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let mut out: Option<String> = None;
        let mut rest = word;
        let mut chars = rest.chars();
        while let Some(first) = chars.next() {
            step()?;
            let found = self.rules.get(&first).and_then(|list| {
                list.iter().find_map(|(more, to)| chars.as_str().strip_prefix(&**more).map(|behind| (behind, &**to)))
            });
            match found {
                Some((behind, to)) => {
                    let before = word.get(..word.len() - rest.len()).unwrap_or("");
                    out.get_or_insert_with(|| before.to_string()).push_str(to);
                    chars = behind.chars();
                }
                None => {
                    if let Some(out) = &mut out {
                        out.push(first);
                    }
                }
            }
            rest = chars.as_str();
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::rule_of;

    #[test]
    fn lines_are_rules_or_nothing() {
        let rule = |line| rule_of(line).map(|(from, to)| format!("{from}>{to}"));
        assert_eq!(rule(" a\tb \n").as_deref(), Some("a>b"));
        assert_eq!(rule("ab").as_deref(), Some("ab>"));
        assert_eq!(rule("a \" b \"").as_deref(), Some("a> b "));
        assert_eq!(rule("a \"\"\"\"").as_deref(), Some("a>\""));
        for wrong in ["", " \n", "a b c", "a \"b", "a \"b\" c", "a \"b\"c\""] {
            assert_eq!(rule(wrong), None, "{wrong}");
        }
    }
}
