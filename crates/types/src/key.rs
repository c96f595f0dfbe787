//! Key encoding that sorts as bytes, comparison, and equality keys.
use crate::Datum;
use kilndb_base::{Error, Oid, Result};
use std::cmp::Ordering;

pub fn encode_key(type_oid: Oid, datum: &Datum, descending: bool, nulls_first: bool, out: &mut Vec<u8>) -> Result<()> {
    let _ = (datum, descending, nulls_first, out);
    Err(Error::unsupported(format!("key of type {type_oid}")))
}
pub fn is_indexable(type_oid: Oid) -> bool {
    let _ = type_oid;
    false
}
/// btree order; NULL sorts last.
pub fn compare(type_oid: Oid, a: &Datum, b: &Datum) -> Ordering {
    let _ = (type_oid, a, b);
    Ordering::Equal
}
pub fn hash_equal_key(type_oid: Oid, datum: &Datum, out: &mut Vec<u8>) -> Result<()> {
    encode_key(type_oid, datum, false, false, out)
}
