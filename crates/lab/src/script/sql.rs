//! A statement's text, cut where variables stand in it.

use super::expression::name_at;
use super::variables::{VariableNames, Variables};

/// What becomes of the rows that a statement gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlResults {
    Ignored,
    /// `\gset`: the columns of the one row become variables, whose names begin so.
    OneRow {
        prefix: String,
    },
    /// `\aset`: the columns of each statement's last row do.
    LastRows {
        prefix: String,
    },
}

/// A statement, or several that are sent as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlText {
    /// What stands before each variable, and behind the last one.
    pieces: Vec<String>,
    /// The numbers of the variables between the pieces.
    variables: Vec<usize>,
    pub results: SqlResults,
}

impl SqlText {
    /// `:name` is a variable wherever it stands, within quotes too, but not behind another colon.
    pub fn read(text: &str, results: SqlResults, names: &mut VariableNames) -> SqlText {
        let (mut pieces, mut variables) = (vec![String::new()], Vec::new());
        let mut rest = text;
        while let Some(at) = rest.find(':') {
            let (before, behind) = rest.split_at(at);
            let colons = behind.bytes().take_while(|c| *c == b':').count();
            let name = name_at(&behind[1..]);
            let piece = pieces.last_mut().expect("there is a piece");
            piece.push_str(before);
            if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
                // All colons of a row of them are skipped at once.
                piece.push_str(&behind[..colons]);
                rest = &behind[colons..];
                continue;
            }
            variables.push(names.number(name));
            pieces.push(String::new());
            rest = &behind[1 + name.len()..];
        }
        pieces.last_mut().expect("there is a piece").push_str(rest);
        SqlText { pieces, variables, results }
    }

    pub fn variables(&self) -> &[usize] {
        &self.variables
    }
    /// The text as it was read, in one line of at most `chars_max` characters.
    pub fn in_one_line(&self, names: &VariableNames, chars_max: usize) -> String {
        let mut text = self.pieces[0].clone();
        for (variable, piece) in self.variables.iter().zip(&self.pieces[1..]) {
            text.extend([":", names.name(*variable), piece]);
        }
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(chars_max) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
    /// The text with `$1`, `$2` and so on where the variables stand.
    pub fn with_parameters(&self) -> String {
        let mut text = String::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            if at > 0 {
                text.push_str(&format!("${at}"));
            }
            text.push_str(piece);
        }
        text
    }
    /// Writes the text with the variables' values behind `out`; what is not defined stays as it is.
    pub fn write_with_values(&self, variables: &Variables, names: &VariableNames, out: &mut String) {
        for (at, piece) in self.pieces.iter().enumerate() {
            if let Some(variable) = at.checked_sub(1).and_then(|before| self.variables.get(before))
                && !variables.write(*variable, out)
            {
                out.push(':');
                out.push_str(names.name(*variable));
            }
            out.push_str(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::ScriptValue;
    use super::*;

    #[test]
    fn variables_are_found_where_they_stand() {
        let mut names = VariableNames::default();
        let sql = "select :a::int, ':b', '12:30', x[1:2], :::c, :a";
        let text = SqlText::read(sql, SqlResults::Ignored, &mut names);
        assert_eq!(text.with_parameters(), "select $1::int, '$2', '12:30', x[1:2], :::c, $3");
        let mut variables = Variables::default();
        variables.set(names.number("a"), ScriptValue::Int(7));
        let mut out = String::new();
        text.write_with_values(&variables, &names, &mut out);
        assert_eq!(out, "select 7::int, ':b', '12:30', x[1:2], :::c, 7");
    }
}
