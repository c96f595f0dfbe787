//! Keys of index entries as bytes, and ranges of them.

use super::model::IndexKey;
use kilndb_base::Result;
use kilndb_types::{Datum, key};
use std::ops::Bound;

/// Appends a value as the key has it.
#[inline]
pub fn append(k: &IndexKey, d: &Datum, out: &mut Vec<u8>) -> Result<()> {
    key::encode_key(k.order_type, d, k.descending, k.nulls_first, out)
}

/// The smallest byte string above all that begin with `prefix`.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut out = prefix.to_vec();
    while let Some(last) = out.last_mut() {
        if *last < 0xff {
            *last += 1;
            return Some(out);
        }
        out.pop();
    }
    None
}

/// A range of keys as they are stored: from one byte string to another.
pub type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// All keys that begin with `prefix`.
pub fn prefix_range(prefix: Vec<u8>) -> KeyRange {
    if prefix.is_empty() {
        return (Bound::Unbounded, Bound::Unbounded);
    }
    let upper = successor(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(prefix), upper)
}
