//! A jsonb value as a tree, and its text.

use super::parse::{self, ParsedJson, ParsedJsonKind};
use crate::numeric::Numeric;
use kilndb_base::{Error, Result, sqlstate, work};
use std::io::Write;

#[derive(Clone, Debug)]
pub enum JsonValue {
    Null,
    Bool(bool),
    Number(Numeric),
    String(String),
    Array(Vec<JsonValue>),
    /// Sorted by [`key_order`], no key twice.
    Object(Vec<(String, JsonValue)>),
}

/// Shorter keys first, equally long ones by their bytes.
pub(crate) fn key_order(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// The object of these pairs: of equal keys the last one counts.
pub fn object(mut pairs: Vec<(String, JsonValue)>) -> Result<JsonValue> {
    work::sort_by(&mut pairs, |a, b| key_order(&a.0, &b.0))?;
    let mut list: Vec<(String, JsonValue)> = Vec::with_capacity(pairs.len());
    for pair in work::steps(pairs, 10) {
        let pair = pair?;
        match list.last_mut() {
            Some(last) if last.0 == pair.0 => *last = pair,
            _ => list.push(pair),
        }
    }
    Ok(JsonValue::Object(list))
}

impl JsonValue {
    pub fn parse(text: &str) -> Result<JsonValue> {
        JsonValue::from_parsed(&parse::parse(text)?, text)
    }
    pub(crate) fn from_parsed(p: &ParsedJson, text: &str) -> Result<JsonValue> {
        work::step(30)?;
        Ok(match &p.kind {
            ParsedJsonKind::Null => JsonValue::Null,
            ParsedJsonKind::Bool(b) => JsonValue::Bool(*b),
            ParsedJsonKind::Number => JsonValue::Number(Numeric::parse(text.get(p.start..p.end).unwrap_or(""))?),
            ParsedJsonKind::String(s) => JsonValue::String(long_enough(s)?),
            ParsedJsonKind::Array(list) => {
                JsonValue::Array(list.iter().map(|v| JsonValue::from_parsed(v, text)).collect::<Result<_>>()?)
            }
            ParsedJsonKind::Object(list) => object(
                list.iter()
                    .map(|(k, v)| Ok((long_enough(k)?, JsonValue::from_parsed(v, text)?)))
                    .collect::<Result<_>>()?,
            )?,
        })
    }
    pub fn type_name(&self) -> &'static str {
        match self {
            JsonValue::Null => "null",
            JsonValue::Bool(_) => "boolean",
            JsonValue::Number(_) => "number",
            JsonValue::String(_) => "string",
            JsonValue::Array(_) => "array",
            JsonValue::Object(_) => "object",
        }
    }
    pub(crate) fn is_scalar(&self) -> bool {
        !matches!(self, JsonValue::Array(_) | JsonValue::Object(_))
    }
    pub fn get(&self, key: &str) -> Option<&JsonValue> {
        let JsonValue::Object(list) = self else { return None };
        list.binary_search_by(|p| key_order(&p.0, key)).ok().map(|i| &list[i].1)
    }
    /// jsonb's text.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        work::step(10)?;
        match self {
            JsonValue::Null => out.extend_from_slice(b"null"),
            JsonValue::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
            JsonValue::Number(n) => {
                let _ = write!(out, "{n}");
            }
            JsonValue::String(s) => {
                work::step(2 * s.len())?;
                escape(s, out);
            }
            JsonValue::Array(list) => {
                out.push(b'[');
                for (i, v) in list.iter().enumerate() {
                    if i > 0 {
                        out.extend_from_slice(b", ");
                    }
                    v.write(out)?;
                }
                out.push(b']');
            }
            JsonValue::Object(list) => {
                out.push(b'{');
                for (i, (k, v)) in list.iter().enumerate() {
                    if i > 0 {
                        out.extend_from_slice(b", ");
                    }
                    escape(k, out);
                    out.extend_from_slice(b": ");
                    v.write(out)?;
                }
                out.push(b'}');
            }
        }
        Ok(())
    }
    /// jsonb_pretty's text.
    pub(crate) fn write_pretty(&self, level: usize, out: &mut Vec<u8>) -> Result<()> {
        work::step(10 + 2 * level)?;
        let indent = |level: usize, out: &mut Vec<u8>| {
            out.push(b'\n');
            out.resize(out.len() + 4 * level, b' ');
        };
        match self {
            JsonValue::Array(list) => {
                out.push(b'[');
                for (i, v) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    indent(level + 1, out);
                    v.write_pretty(level + 1, out)?;
                }
                indent(level, out);
                out.push(b']');
            }
            JsonValue::Object(list) => {
                out.push(b'{');
                for (i, (k, v)) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    indent(level + 1, out);
                    escape(k, out);
                    out.extend_from_slice(b": ");
                    v.write_pretty(level + 1, out)?;
                }
                indent(level, out);
                out.push(b'}');
            }
            scalar => scalar.write(out)?,
        }
        Ok(())
    }
    pub fn text(&self) -> Result<String> {
        let mut out = Vec::new();
        self.write(&mut out)?;
        Ok(String::from_utf8(out).unwrap_or_default())
    }
    /// What ->> gives: a string without quotes, null as none.
    pub(crate) fn plain_text(&self) -> Result<Option<String>> {
        Ok(match self {
            JsonValue::Null => None,
            JsonValue::String(s) => Some(s.clone()),
            v => Some(v.text()?),
        })
    }
    /// As btree says, but for root scalars, which [`super::binary::compare`] knows.
    pub fn equals(&self, other: &JsonValue) -> bool {
        match (self, other) {
            (JsonValue::Null, JsonValue::Null) => true,
            (JsonValue::Bool(a), JsonValue::Bool(b)) => a == b,
            (JsonValue::Number(a), JsonValue::Number(b)) => a.cmp(b).is_eq(),
            (JsonValue::String(a), JsonValue::String(b)) => a == b,
            (JsonValue::Array(a), JsonValue::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
            }
            (JsonValue::Object(a), JsonValue::Object(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.equals(&b.1))
            }
            _ => false,
        }
    }
}

/// PostgreSQL keeps the length of a string in 28 bits.
fn long_enough(s: &str) -> Result<String> {
    const LONGEST: usize = 0x0fff_ffff;
    if s.len() > LONGEST {
        return Err(Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "string too long to represent as jsonb string")
            .with_detail(format!(
                "Due to an implementation restriction, jsonb strings cannot exceed {LONGEST} bytes."
            )));
    }
    Ok(s.to_string())
}

/// A string with its quotes and escapes.
pub fn escape(s: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for &c in s.as_bytes() {
        match c {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=31 => {
                let _ = write!(out, "\\u{c:04x}");
            }
            c => out.push(c),
        }
    }
    out.push(b'"');
}
