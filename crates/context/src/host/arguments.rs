//! Arguments of system functions as plain values; what is of another type counts as absent.
//!
//! Must not know: what the functions do.

use kilndb_base::Oid;
use kilndb_types::Datum;

pub fn text_of(d: Option<&Datum>) -> String {
    match d {
        Some(Datum::Text(s)) => s.to_string(),
        Some(Datum::Int4(i)) => i.to_string(),
        Some(Datum::Oid(o)) => o.to_string(),
        _ => String::new(),
    }
}

pub fn oid_of(d: Option<&Datum>) -> Oid {
    match d {
        Some(Datum::Oid(o)) => *o,
        Some(Datum::Int4(i)) => *i as Oid,
        Some(Datum::Int8(i)) => *i as Oid,
        _ => 0,
    }
}

pub fn int_of(d: Option<&Datum>) -> i64 {
    match d {
        Some(Datum::Int2(i)) => i64::from(*i),
        Some(Datum::Int4(i)) => i64::from(*i),
        Some(Datum::Int8(i)) => *i,
        _ => 0,
    }
}

pub(crate) fn bool_of(d: Option<&Datum>) -> bool {
    matches!(d, Some(Datum::Bool(true)))
}
