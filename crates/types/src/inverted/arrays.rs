//! array_ops: a term for each element, as keys of B-trees have it.

use super::{ELEMENT, EMPTY_VALUE, NULL_ELEMENT, TermCollector, TermCondition};
use crate::key::encode_value;
use crate::{Array, Datum};
use kilndb_base::{Error, Oid, Result};

const OVERLAPS: u16 = 1;
const CONTAINS: u16 = 2;
const IS_CONTAINED: u16 = 3;
const EQUALS: u16 = 4;

fn bytes_of(element: Oid, value: &Datum) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    encode_value(element, value, &mut out)?;
    Ok(out)
}

pub fn terms(element: Oid, a: &Array, put: &mut dyn FnMut(u8, &[u8])) -> Result<()> {
    if a.elements.is_empty() {
        put(EMPTY_VALUE, &[]);
    }
    for value in &a.elements {
        match value {
            Datum::Null => put(NULL_ELEMENT, &[]),
            value => put(ELEMENT, &bytes_of(element, value)?),
        }
    }
    Ok(())
}

pub fn need(element: Oid, strategy: u16, a: &Array, terms: &mut TermCollector) -> Result<TermCondition> {
    let has_null = a.elements.iter().any(Datum::is_null);
    let mut parts = Vec::new();
    for value in a.elements.iter().filter(|v| !v.is_null()) {
        parts.push(terms.element(&bytes_of(element, value)?));
    }
    Ok(match strategy {
        OVERLAPS => TermCondition::any(parts),
        // NULL is in no array.
        CONTAINS if has_null => TermCondition::Never,
        CONTAINS => TermCondition::all(parts),
        IS_CONTAINED => {
            parts.push(terms.exact(EMPTY_VALUE, &[]));
            TermCondition::any(parts)
        }
        EQUALS if a.elements.is_empty() => terms.exact(EMPTY_VALUE, &[]),
        EQUALS => {
            if has_null {
                parts.push(terms.exact(NULL_ELEMENT, &[]));
            }
            TermCondition::all(parts)
        }
        other => return Err(Error::internal(format!("strategy {other} of array_ops"))),
    })
}
