//! Functions that judge text: pg_input_is_valid, pg_input_error_info, parse_ident.

use super::StatementHost;
use super::session_function::session_functions;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::{Datum, Record, oids};
use std::sync::Arc;

/// The type that text names, with its modifier.
fn type_of(host: &StatementHost<'_>, text: &str) -> Result<(Oid, i32)> {
    let cast = format!("CAST(NULL AS {text})");
    let found = kilndb_bind::bind_expression(&cast, None, &host.reader, None);
    found.map(|b| (b.expr.ty, b.expr.typmod)).map_err(|mut e| {
        e.0.position = None;
        e
    })
}

fn problem(host: &StatementHost<'_>, value: &str, type_name: &str) -> Result<Option<Error>> {
    let (type_oid, typmod) = type_of(host, type_name)?;
    match kilndb_types::io::input(type_oid, value, typmod, &host.eval()) {
        // That the statement is cancelled says nothing about the value.
        Err(e) if e.is_interruption() => Err(e),
        read => Ok(read.err()),
    }
}

session_functions! {
    fn pg_input_is_valid(call) = Ok(Datum::Bool(problem(call.host, &call.text(0), &call.text(1))?.is_none()));
    fn pg_input_error_info(call) = input_error_info(call.host, &call.text(0), &call.text(1));
    fn p1268_parse_ident(call) = parse_ident(&call.text(0), call.arg(1).is_none_or(|_| call.flag(1)));
}

/// (message, detail, hint, sql_error_code); all NULL for valid input.
fn input_error_info(host: &StatementHost<'_>, value: &str, type_name: &str) -> Result<Datum> {
    let optional = |text: Option<&str>| text.map_or(Datum::Null, Datum::text);
    let fields = match problem(host, value, type_name)? {
        None => vec![Datum::Null; 4],
        Some(e) => vec![
            Datum::text(&e.0.message),
            optional(e.0.detail.as_deref()),
            optional(e.0.hint.as_deref()),
            Datum::text(String::from_utf8_lossy(&e.sqlstate().0)),
        ],
    };
    Ok(record(fields.into_iter().map(|f| (oids::TEXT, f)).collect()))
}

pub fn record(fields: Vec<(Oid, Datum)>) -> Datum {
    Datum::Record(Arc::new(Record { type_oid: oids::RECORD, fields, names: None }))
}

/// `a."B c".d` as an array of its parts. `strict`: nothing may follow.
fn parse_ident(text: &str, strict: bool) -> Result<Datum> {
    let invalid = |detail: Option<&str>| {
        let e = Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("string is not a valid identifier: \"{text}\""));
        match detail {
            Some(detail) => e.with_detail(detail),
            None => e,
        }
    };
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    let mut after_dot = false;
    loop {
        let starts = |c: char| c.is_alphabetic() || c == '_' || !c.is_ascii();
        if let Some(quoted) = rest.strip_prefix('"') {
            let (name, after) =
                quoted_name(quoted).ok_or_else(|| invalid(Some("String has unclosed double quotes.")))?;
            if name.is_empty() {
                return Err(invalid(Some("Quoted identifier must not be empty.")));
            }
            parts.push(Datum::text(name));
            rest = after;
        } else if rest.starts_with(starts) {
            let end = rest.find(|c: char| !(starts(c) || c.is_ascii_digit() || c == '$')).unwrap_or(rest.len());
            parts.push(Datum::text(rest[..end].to_ascii_lowercase()));
            rest = &rest[end..];
        } else if rest.starts_with('.') {
            return Err(invalid(Some("No valid identifier before \".\".")));
        } else if after_dot {
            return Err(invalid(Some("No valid identifier after \".\".")));
        } else {
            return Err(invalid(None));
        }
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(more) => {
                after_dot = true;
                rest = more.trim_start();
            }
            None if rest.is_empty() || !strict => return Ok(kilndb_catalog::store::array(oids::TEXT, parts)),
            None => return Err(invalid(None)),
        }
    }
}

/// A quoted name up to its closing quote, and what follows.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '"' {
            name.push(c);
        } else if chars.next_if(|(_, c)| *c == '"').is_some() {
            name.push('"');
        } else {
            return Some((name, &text[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, strict: bool) -> Option<Vec<String>> {
        match parse_ident(text, strict).ok()? {
            Datum::Array(a) => Some(
                a.elements.iter().map(|d| if let Datum::Text(t) = d { t.to_string() } else { String::new() }).collect(),
            ),
            _ => None,
        }
    }

    #[test]
    fn identifiers_are_taken_apart() {
        assert_eq!(parts("Foo.\"B\"\"c\" . d1", true), Some(vec!["foo".into(), "B\"c".into(), "d1".into()]));
        assert_eq!(parts("a.b c", false), Some(vec!["a".into(), "b".into()]));
        for wrong in ["a.b c", "", ".a", "a.", "\"\"", "\"a", "1a"] {
            assert_eq!(parts(wrong, true), None, "{wrong}");
        }
    }
}
