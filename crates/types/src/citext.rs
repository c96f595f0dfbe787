//! citext: text that is compared without regard to case, as the extension of that name brings it.
//!
//! Invariants
//! 1. Values are texts as they were written; keys, hashes and comparisons are those of the text in lower case.

use crate::functions::string;
use crate::types::TypeDescriptor;
use crate::types::text::TEXTUAL;
use kilndb_base::{Oid, work};
use std::borrow::Cow;

/// The OID that the extension gives its type, in every database.
pub const CITEXT: Oid = 15894;

pub(crate) const TYPES: &[TypeDescriptor] =
    &[TypeDescriptor { oid: CITEXT, folded: Some(lower), is_self_contained: true, is_settings_free: true, ..TEXTUAL }];

/// Texts up to this length are lowered in no time.
const SHORT: usize = 1024;

/// What lower() makes of a text.
pub(crate) fn lower(text: &str) -> Cow<'_, str> {
    if text.len() > SHORT {
        work::owe(text.len() * 2);
    }
    if text.is_ascii() {
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        return if is_lower { Cow::Borrowed(text) } else { Cow::Owned(text.to_ascii_lowercase()) };
    }
    Cow::Owned(text.chars().map(|c| string::one(c, false)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Datum;
    use crate::functions::hashing::hash_datum;
    use crate::key::{compare, encode_key};
    use crate::partition_hash::{SEED, value_hash};

    #[test]
    fn keys_hashes_and_comparisons_agree() {
        let texts = ["", "a", "A", "Ab", "aB", "b", "É", "é", "Éa", "ß", "İ", "i", "Σ", "σ", "ς", "zZ", "z"];
        let key = |text: &str| {
            let mut out = Vec::new();
            encode_key(CITEXT, &Datum::text(text), false, false, &mut out).unwrap();
            out
        };
        for a in texts {
            for b in texts {
                let order = string::map_case(a, false).unwrap().cmp(&string::map_case(b, false).unwrap());
                let (x, y) = (Datum::text(a), Datum::text(b));
                assert_eq!(compare(CITEXT, &x, &y), order, "{a} {b}");
                assert_eq!(key(a).cmp(&key(b)), order, "{a} {b}");
                if order.is_eq() {
                    assert_eq!(value_hash(CITEXT, &x, SEED).unwrap(), value_hash(CITEXT, &y, SEED).unwrap());
                    let array = |text: &str| {
                        let elements = vec![Datum::text(text)];
                        Datum::Array(crate::Array { element_type: CITEXT, dims: vec![(1, 1)], elements }.into())
                    };
                    assert_eq!(hash_datum(&array(a)).unwrap(), hash_datum(&array(b)).unwrap());
                    assert!(compare(0, &array(a), &array(b)).is_eq());
                }
            }
        }
    }
}
