//! gin_hstore_ops: a term for each key and one for each value, which say nothing of each other.

use super::{TermCollector, TermCondition};
use crate::Datum;
use crate::hash::hash_bytes_extended;
use crate::hstore::Hstore;
use kilndb_base::{Error, Result};

const CONTAINS: u16 = 7;
const EXISTS: u16 = 9;
const EXISTS_ANY: u16 = 10;
const EXISTS_ALL: u16 = 11;

const KEY: u8 = b'K';
const VALUE: u8 = b'V';
const NULL: u8 = b'N';
/// Long texts stand in the index as hashes.
const HASHED: u8 = 0x80;
const LONGEST: usize = 125;

fn text(tag: u8, s: &str) -> Vec<u8> {
    if s.len() > LONGEST {
        let mut out = vec![tag | HASHED];
        out.extend_from_slice(&hash_bytes_extended(s.as_bytes(), 0).to_be_bytes());
        return out;
    }
    [&[tag], s.as_bytes()].concat()
}

pub(super) fn terms(value: &Hstore<'_>, put: &mut dyn FnMut(&[u8])) -> Result<()> {
    for (key, value) in value.pairs()? {
        put(&text(KEY, key));
        match value {
            Some(value) => put(&text(VALUE, value)),
            None => put(&[NULL]),
        }
    }
    Ok(())
}

pub(super) fn need(strategy: u16, query: &Datum, wanted: &mut TermCollector) -> Result<TermCondition> {
    let keys = |query: &Datum, wanted: &mut TermCollector| match query {
        Datum::Array(list) => list
            .elements
            .iter()
            .filter_map(|e| if let Datum::Text(s) = e { Some(wanted.element(&text(KEY, s))) } else { None })
            .collect(),
        _ => Vec::new(),
    };
    Ok(match (strategy, query) {
        (CONTAINS, query @ Datum::Opaque(_)) => {
            let mut parts = Vec::new();
            terms(&Hstore::of(query)?, &mut |bytes| parts.push(wanted.element(bytes)))?;
            TermCondition::all(parts)
        }
        (EXISTS, Datum::Text(key)) => wanted.element(&text(KEY, key)),
        (EXISTS_ANY, query) => TermCondition::any(keys(query, wanted)),
        (EXISTS_ALL, query) => TermCondition::all(keys(query, wanted)),
        (other, _) => return Err(Error::internal(format!("strategy {other} of gin_hstore_ops"))),
    })
}
