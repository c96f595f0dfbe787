//! Regular expressions outside statements: they are compiled once, and kept by whoever asks with them.

use crate::functions::regex::translated;
use fancy_regex::Regex;
use kilndb_base::{Error, Result, sqlstate};

/// PostgreSQL's advanced regular expression, as it is without options.
pub struct Pattern(Regex);

fn invalid(reason: impl std::fmt::Display) -> Error {
    Error::new(sqlstate::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
}

impl Pattern {
    pub fn compile(text: &str) -> Result<Pattern> {
        Regex::new(&translated(text, false)?).map(Pattern).map_err(invalid)
    }
    /// None: no match. Else what the first group of the first match has matched, if it has.
    pub fn first_group(&self, text: &str) -> Result<Option<Option<String>>> {
        let found = self.0.captures(text).map_err(invalid)?;
        Ok(found.map(|found| found.get(1).map(|group| group.as_str().to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn groups_are_found() {
        let pattern = Pattern::compile(r"^(.*)@example\.org$").unwrap();
        assert_eq!(pattern.first_group("anna@example.org").unwrap(), Some(Some("anna".into())));
        assert_eq!(pattern.first_group("anna@example-org").unwrap(), None);
        assert_eq!(Pattern::compile("a|b").unwrap().first_group("xb").unwrap(), Some(None));
        assert!(Pattern::compile("(").is_err());
    }
}
