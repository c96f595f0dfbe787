//! The texts of routines' statements, expressions and assignments, parsed: the grammar takes whole statements only, so
//! an expression or an assignment becomes a part of one, and positions of errors are told in the routine's own text.

use super::spi::ParseMode;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_syntax::Statement;

/// What stands before an expression in the text that is parsed.
pub(super) const SELECT: &str = "SELECT ";
/// What stands before an assignment in the text that is parsed.
pub(super) const UPDATE: &str = "UPDATE x SET ";

/// The error's position is of `text`, of which what was parsed is `text` behind `before`.
pub(super) fn in_text(mut e: Error, text: &str, before: &str) -> Error {
    if let Some(p) = e.0.position {
        let before = before.chars().count() as u32;
        e.0.position = (p > before).then(|| p - before);
        return e.in_internal_query(text);
    }
    e
}

/// An assignment as the grammar takes it: `:=` becomes ` =`, at the same place.
fn assignment_sql(text: &str) -> Result<String> {
    let bytes = text.as_bytes();
    let (mut depth, mut i) = (0, 0);
    while let Some(b) = bytes.get(i) {
        match b {
            b'"' => i += bytes[i + 1..].iter().position(|b| *b == b'"').map_or(0, |n| n + 1),
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth -= 1,
            b':' if depth == 0 && bytes.get(i + 1) == Some(&b'=') => {
                return Ok(format!("{UPDATE}{} ={}", &text[..i], &text[i + 2..]));
            }
            b'=' if depth == 0 => return Ok(format!("{UPDATE}{text}")),
            _ => {}
        }
        i += 1;
    }
    Err(Error::new(sqlstate::SYNTAX_ERROR, "syntax error at end of input"))
}

pub(super) fn parse(text: &str, mode: ParseMode) -> Result<Statement> {
    let before = match mode {
        ParseMode::Statement => "",
        ParseMode::Expression => SELECT,
        ParseMode::Assignment { .. } => UPDATE,
    };
    let parsed = match mode {
        ParseMode::Assignment { .. } => assignment_sql(text).and_then(|sql| kilndb_syntax::parse(&sql)),
        ParseMode::Statement => kilndb_syntax::parse(text),
        ParseMode::Expression => kilndb_syntax::parse(&format!("{before}{text}")),
    };
    let mut statements = parsed.map_err(|e| in_text(e, text, before))?.statements();
    if statements.len() > 1 {
        return Err(Error::new(
            sqlstate::SYNTAX_ERROR,
            format!("syntax error at or near \"{}\"", statements[1].text()),
        )
        .in_internal_query(text));
    }
    statements.pop().ok_or_else(|| {
        Error::new(sqlstate::SYNTAX_ERROR, "syntax error at end of input").with_position(1).in_internal_query(text)
    })
}
