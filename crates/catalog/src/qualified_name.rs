//! Names of objects as functions and settings take them in a text: `schema.name`, folded or quoted.

use kilndb_base::{Error, Result, sqlstate};

/// A name has so many bytes at most (NAMEDATALEN less one).
const LONGEST_NAME_BYTES: usize = 63;

/// An object's name and that of its schema, if one is given, as functions take them in a text. The name may begin with
/// `database`.
pub fn object_name(text: &str, database: &str) -> Result<(Option<String>, String)> {
    let invalid = || Error::new(sqlstate::INVALID_NAME, "invalid name syntax");
    let mut parts = split_qualified(text).ok_or_else(invalid)?;
    let last = parts.pop().ok_or_else(invalid)?;
    let schema = parts.pop();
    match (parts.pop(), parts.is_empty()) {
        (Some(_), false) => {
            let message = format!("improper qualified name (too many dotted names): {text}");
            Err(Error::new(sqlstate::SYNTAX_ERROR, message))
        }
        (Some(other), true) if other != database => Err(other_database(text)),
        _ => Ok((schema, last)),
    }
}

/// `a.b` or `b`, each part folded or quoted, and no longer than a name may be; None if it is not of that form.
pub fn split_qualified(text: &str) -> Option<Vec<String>> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let mut parts = Vec::new();
    let mut rest = text.trim_matches(is_space);
    loop {
        let (part, after) = if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut chars = quoted.char_indices().peekable();
            let end = loop {
                match chars.next()? {
                    (_, '"') if chars.peek().is_some_and(|(_, c)| *c == '"') => {
                        chars.next();
                        name.push('"');
                    }
                    (at, '"') => break at + 1,
                    (_, c) => name.push(c),
                }
            };
            (name, &quoted[end..])
        } else {
            let end = rest.find(|c: char| c == '.' || is_space(c)).unwrap_or(rest.len());
            if end == 0 {
                return None;
            }
            let (name, after) = rest.split_at(end);
            (name[..name.floor_char_boundary(LONGEST_NAME_BYTES)].to_ascii_lowercase(), after)
        };
        parts.push(part[..part.floor_char_boundary(LONGEST_NAME_BYTES)].to_string());
        match after.trim_start_matches(is_space).strip_prefix('.') {
            Some(more) => rest = more.trim_start_matches(is_space),
            None if after.is_empty() => return Some(parts),
            None => return None,
        }
    }
}

/// 0A000 for a name with a database in it that is not the session's.
pub fn other_database(name: &str) -> Error {
    Error::unsupported(format!("cross-database references are not implemented: {name}"))
}
