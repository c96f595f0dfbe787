//! jsonb_ops and jsonb_path_ops.
//!
//! jsonb_ops has a term for each key and each scalar, wherever they are; strings that are elements of arrays count as
//! keys, because the operator ? looks for both. jsonb_path_ops has one for each scalar, a hash of it and the keys above
//! it; arrays leave no trace in it.

use super::{TermCollector, TermCondition};
use crate::Datum;
use crate::hash::hash_bytes_extended;
use crate::json::{JsonValue, binary};
use crate::key::encode_numeric;
use kilndb_base::{Error, Result};

const CONTAINS: u16 = 7;
const EXISTS: u16 = 9;
const EXISTS_ANY: u16 = 10;
const EXISTS_ALL: u16 = 11;

const NULL: u8 = 1;
const BOOL: u8 = 2;
const NUMBER: u8 = 3;
pub(crate) const STRING: u8 = 4;
pub const KEY: u8 = 5;
/// Long texts stand in the index as hashes.
const HASHED: u8 = 0x10;
const LONGEST: usize = 125;

/// Hash of the empty path.
pub(crate) const ROOT: u64 = 0x6b69_6c6e;

pub fn text(tag: u8, s: &str) -> Vec<u8> {
    if s.len() > LONGEST {
        let mut out = vec![tag | HASHED];
        out.extend_from_slice(&hash_bytes_extended(s.as_bytes(), 0).to_be_bytes());
        return out;
    }
    let mut out = vec![tag];
    out.extend_from_slice(s.as_bytes());
    out
}

/// A scalar, with its type; a string is a value, not a key.
pub fn scalar(v: &JsonValue) -> Vec<u8> {
    match v {
        JsonValue::Bool(b) => vec![BOOL, u8::from(*b)],
        JsonValue::Number(n) => {
            let mut out = vec![NUMBER];
            encode_numeric(n, &mut out);
            out
        }
        JsonValue::String(s) => text(STRING, s),
        _ => vec![NULL],
    }
}

pub fn below(path: u64, key: &str) -> u64 {
    hash_bytes_extended(key.as_bytes(), path)
}
pub fn leaf(path: u64, v: &JsonValue) -> [u8; 8] {
    hash_bytes_extended(&scalar(v), path).to_be_bytes()
}

pub fn terms(v: &JsonValue, put: &mut dyn FnMut(&[u8])) {
    match v {
        JsonValue::Array(list) => list.iter().for_each(|e| element_terms(e, put)),
        JsonValue::Object(list) => {
            for (key, v) in list {
                put(&text(KEY, key));
                match v {
                    JsonValue::Array(_) | JsonValue::Object(_) => terms(v, put),
                    v => put(&scalar(v)),
                }
            }
        }
        // A scalar that stands alone is an array of itself.
        v => element_terms(v, put),
    }
}
fn element_terms(v: &JsonValue, put: &mut dyn FnMut(&[u8])) {
    match v {
        JsonValue::String(s) => put(&text(KEY, s)),
        JsonValue::Array(_) | JsonValue::Object(_) => terms(v, put),
        v => put(&scalar(v)),
    }
}

pub(crate) fn path_terms(v: &JsonValue, put: &mut dyn FnMut(&[u8])) {
    terms_below(ROOT, v, put);
}
fn terms_below(path: u64, v: &JsonValue, put: &mut dyn FnMut(&[u8])) {
    match v {
        JsonValue::Array(list) => list.iter().for_each(|v| terms_below(path, v, put)),
        JsonValue::Object(list) => list.iter().for_each(|(key, v)| terms_below(below(path, key), v, put)),
        v => put(&leaf(path, v)),
    }
}

pub(crate) fn path_need(v: &JsonValue, wanted: &mut TermCollector) -> TermCondition {
    let mut parts = Vec::new();
    path_terms(v, &mut |bytes| parts.push(wanted.element(bytes)));
    TermCondition::all(parts)
}

fn keys(query: &Datum, wanted: &mut TermCollector) -> Vec<TermCondition> {
    let Datum::Array(list) = query else { return Vec::new() };
    list.elements
        .iter()
        .filter_map(|e| if let Datum::Text(s) = e { Some(wanted.element(&text(KEY, s))) } else { None })
        .collect()
}

pub fn need(strategy: u16, query: &Datum, wanted: &mut TermCollector) -> Result<TermCondition> {
    Ok(match (strategy, query) {
        (CONTAINS, Datum::Jsonb(b)) => {
            let mut parts = Vec::new();
            terms(&binary::decode(b)?, &mut |bytes| parts.push(wanted.element(bytes)));
            TermCondition::all(parts)
        }
        (EXISTS, Datum::Text(key)) => wanted.element(&text(KEY, key)),
        (EXISTS_ANY, query) => TermCondition::any(keys(query, wanted)),
        (EXISTS_ALL, query) => TermCondition::all(keys(query, wanted)),
        (other, _) => return Err(Error::internal(format!("strategy {other} of jsonb_ops"))),
    })
}
