//! What comments in front of a statement say of it, for whoever runs it once and times it (docs/decisions/0073).
//!
//! 1. A note is a line `-- word: value` with one of the words below; all other comments say nothing.
//!
//! Must not know: what notes are used for.

/// What is said of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementNotes {
    /// `name`: what its figure is called. Of a script with names only these statements have figures.
    pub name: Option<String>,
    /// `order: total`: no two rows are equal for its ORDER BY, so the order of its rows is part of its answer.
    pub is_in_order: bool,
    /// `figure: value`: the number that it answers is its figure, and not its time.
    pub is_value: bool,
    /// What its figure must not exceed: of a time, in times of PostgreSQL's.
    pub must: Option<f64>,
    /// What is aimed at.
    pub aim: Option<f64>,
    /// `file`: where COPY TO STDOUT leaves its rows, or COPY FROM STDIN takes them from.
    pub file: Option<String>,
}

impl StatementNotes {
    /// Reads what stands in front of a statement. Errors: a word's value means nothing.
    pub(super) fn read(comments: &str) -> Result<StatementNotes, String> {
        let mut notes = StatementNotes::default();
        for line in comments.lines() {
            let Some((word, value)) = line.trim().strip_prefix("-- ").and_then(|line| line.split_once(": ")) else {
                continue;
            };
            let value = value.trim();
            let number = || match value.parse::<f64>() {
                Ok(number) if number > 0.0 => Ok(Some(number)),
                _ => Err(format!("{word} is no number above zero but {value}")),
            };
            match word {
                "name" => notes.name = Some(value.to_string()),
                "must" => notes.must = number()?,
                "aim" => notes.aim = number()?,
                "order" if value == "total" => notes.is_in_order = true,
                "figure" if value == "value" => notes.is_value = true,
                "file" if !value.is_empty() && !value.contains(['/', '\\']) => notes.file = Some(value.to_string()),
                "order" | "figure" | "file" => return Err(format!("{word} cannot be {value}")),
                _ => {}
            }
        }
        match notes.name.is_none() && (notes.must.is_some() || notes.aim.is_some() || notes.is_value) {
            true => Err("a figure needs a name".into()),
            false => Ok(notes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_lines_with_a_known_word() {
        let text = "-- About: nothing.\n-- name: Q1, twice\n-- must: 0.7\n -- aim: 0.2\n-- order: total\n/* name: x */\n-- file: rows\n";
        let notes = StatementNotes::read(text).expect("they are right");
        assert_eq!(
            notes,
            StatementNotes {
                name: Some("Q1, twice".into()),
                is_in_order: true,
                is_value: false,
                must: Some(0.7),
                aim: Some(0.2),
                file: Some("rows".into()),
            }
        );
        assert_eq!(StatementNotes::read("-- a comment\n"), Ok(StatementNotes::default()));
    }

    #[test]
    fn what_means_nothing_is_told() {
        for (text, told) in [
            ("-- name: a\n-- must: much\n", "must is no number above zero but much"),
            ("-- name: a\n-- aim: 0\n", "aim is no number above zero but 0"),
            ("-- order: by name\n", "order cannot be by name"),
            ("-- figure: time\n", "figure cannot be time"),
            ("-- file: ../x\n", "file cannot be ../x"),
            ("-- must: 1\n", "a figure needs a name"),
        ] {
            assert_eq!(StatementNotes::read(text), Err(told.to_string()));
        }
    }
}
