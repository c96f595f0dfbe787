//! Classes of btree_gin: a value is one term, which is ordered as the value is.

use super::{ELEMENT, TermCollector, TermCondition, TermRange, term};
use crate::{Datum, key};
use kilndb_base::{Error, Oid, Result};

fn bytes(type_oid: Oid, value: &Datum) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    key::encode_value(type_oid, value, &mut out)?;
    Ok(out)
}

pub fn terms(type_oid: Oid, value: &Datum, put: &mut dyn FnMut(u8, &[u8])) -> Result<()> {
    put(ELEMENT, &bytes(type_oid, value)?);
    Ok(())
}

/// Strategies as B-trees have them: 1 <, 2 <=, 3 =, 4 >=, 5 >.
pub fn need(type_oid: Oid, strategy: u16, value: &Datum, terms: &mut TermCollector) -> Result<TermCondition> {
    let own = term(terms.column, ELEMENT, &bytes(type_oid, value)?);
    let (lowest, end) = (term(terms.column, ELEMENT, &[]), super::after_prefix(&term(terms.column, ELEMENT, &[])));
    // Nothing is between the two.
    let above = [own.as_slice(), &[0]].concat();
    let wanted = match strategy {
        1 => TermRange { lower: lowest, upper: Some(own) },
        2 => TermRange { lower: lowest, upper: Some(above) },
        3 => TermRange { lower: own, upper: None },
        4 => TermRange { lower: own, upper: Some(end) },
        5 => TermRange { lower: above, upper: Some(end) },
        other => return Err(Error::internal(format!("strategy {other} of an ordered class"))),
    };
    Ok(terms.push(wanted))
}
