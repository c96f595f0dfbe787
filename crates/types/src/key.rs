//! Key encoding that sorts as bytes, comparison, and equality keys.
//!
//! Each column is a marker byte (0 NULL first, 1 value, 2 NULL last) and, for a value, its bytes, inverted for
//! a descending column. Every value ends where its own bytes say so, so columns can follow one another.

use crate::collation::{self, FIRST_ORDER_TYPE};
use crate::datum::not_decoded;
use crate::numeric::{Numeric, NumericKind};
use crate::{Array, Datum, Interval, oids, range, types};
use kilndb_base::{Error, Oid, Result, work};
use std::cmp::Ordering;

pub(crate) const NULL_FIRST_MARKER: u8 = 0;
pub(crate) const VALUE_MARKER: u8 = 1;
pub(crate) const NULL_LAST_MARKER: u8 = 2;

pub fn encode_key(type_oid: Oid, datum: &Datum, descending: bool, nulls_first: bool, out: &mut Vec<u8>) -> Result<()> {
    if datum.is_null() {
        out.push(if nulls_first { NULL_FIRST_MARKER } else { NULL_LAST_MARKER });
        return Ok(());
    }
    out.push(VALUE_MARKER);
    let start = out.len();
    encode_value(type_oid, datum, out)?;
    if descending {
        for b in &mut out[start..] {
            *b = !*b;
        }
    }
    Ok(())
}

pub(crate) fn encode_value(type_oid: Oid, datum: &Datum, out: &mut Vec<u8>) -> Result<()> {
    match datum {
        Datum::Null => {}
        Datum::Bool(v) => out.push(u8::from(*v)),
        Datum::Char(v) => out.push(*v),
        Datum::Int2(v) => out.extend_from_slice(&((*v as u16) ^ 0x8000).to_be_bytes()),
        Datum::Int4(v) | Datum::Date(v) => out.extend_from_slice(&flip32(*v)),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => {
            out.extend_from_slice(&flip64(*v));
        }
        Datum::Float4(v) => out.extend_from_slice(&float_key(f64::from(*v)).to_be_bytes()),
        Datum::Float8(v) => out.extend_from_slice(&float_key(*v).to_be_bytes()),
        Datum::Oid(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Text(v) => {
            if type_oid >= FIRST_ORDER_TYPE && collation::encode_text(type_oid, v, out) {
                return Ok(());
            }
            // Text has no zero bytes, so one ends it.
            match types::folding(type_oid) {
                None => out.extend_from_slice(v.as_bytes()),
                Some(fold) => out.extend_from_slice(fold(v).as_bytes()),
            }
            out.push(0);
        }
        Datum::Bytea(v) => {
            for &b in v.iter() {
                out.push(b);
                if b == 0 {
                    out.push(0xff);
                }
            }
            out.extend_from_slice(&[0, 0]);
        }
        Datum::Numeric(v) => encode_numeric(v, out),
        Datum::TimeTz(time, zone) => {
            out.extend_from_slice(&flip64(timetz_utc(*time, *zone)));
            out.extend_from_slice(&flip32(*zone));
        }
        Datum::Interval(v) => out.extend_from_slice(&((interval_span(v) as u128) ^ (1 << 127)).to_be_bytes()),
        Datum::Uuid(v) => out.extend_from_slice(v),
        Datum::Jsonb(v) => crate::json::binary::encode_key(v, &encode_numeric, out)?,
        Datum::Tid(block, slot) => {
            out.extend_from_slice(&block.to_be_bytes());
            out.extend_from_slice(&slot.to_be_bytes());
        }
        Datum::U64(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Array(v) => encode_array(type_oid, v, out)?,
        Datum::Record(v) => {
            for (oid, field) in &v.fields {
                encode_key(*oid, field, false, false, out)?;
            }
            out.push(0);
        }
        Datum::Stored(_) => return Err(not_decoded()),
        Datum::TsVector(v) => v.sort_key(out),
        Datum::TsQuery(v) => v.sort_key(out),
        Datum::Inet(v) => v.sort_key(out),
        Datum::MacAddr(v) => out.extend_from_slice(v),
        Datum::MacAddr8(v) => out.extend_from_slice(v),
        Datum::AclItem(v) => out.extend_from_slice(&v.to_bytes()),
        Datum::Opaque(v) => out.extend_from_slice(&v.bytes),
        Datum::Range(v) => range::sort_key(v, &encode_value, out)?,
        Datum::Multirange(v) => {
            for r in &v.ranges {
                out.push(1);
                range::sort_key(r, &encode_value, out)?;
            }
            out.push(0);
        }
    }
    Ok(())
}
/// Is the key of a text of the type the text as it is?
pub(crate) fn is_text_as_it_is(type_oid: Oid) -> bool {
    type_oid < FIRST_ORDER_TYPE && types::folding(type_oid).is_none()
}
/// What [`encode_key`] makes of a text whose key is the text as it is.
pub(crate) fn append_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(VALUE_MARKER);
    out.extend_from_slice(text);
    out.push(0);
}
/// What [`encode_key`] makes of a value, as a number whose lowest byte is the first one, and the number of bytes.
type KeyBits = (u128, usize);

#[inline]
fn marked(bits: u64, bytes: usize) -> KeyBits {
    (u128::from(VALUE_MARKER) | u128::from(bits) << 8, bytes + 1)
}
pub(crate) fn null_bits() -> KeyBits {
    (u128::from(NULL_LAST_MARKER), 1)
}
#[inline]
pub(crate) fn int4_bits(v: i32) -> KeyBits {
    marked(u64::from(u32::from_le_bytes(flip32(v))), 4)
}
#[inline]
pub(crate) fn int8_bits(v: i64) -> KeyBits {
    marked(u64::from_le_bytes(flip64(v)), 8)
}
pub(crate) fn int2_bits(v: i16) -> KeyBits {
    marked(u64::from(((v as u16) ^ 0x8000).swap_bytes()), 2)
}
pub(crate) fn oid_bits(v: u32) -> KeyBits {
    marked(u64::from(v.swap_bytes()), 4)
}
pub(crate) fn tid_bits(block: u32, slot: u16) -> KeyBits {
    marked(u64::from(block.swap_bytes()) | u64::from(slot.swap_bytes()) << 32, 6)
}
pub(crate) fn char_bits(v: u8) -> KeyBits {
    marked(u64::from(v), 1)
}
/// Of a text whose key is the text as it is. None: it is too long.
#[inline]
pub(crate) fn text_bits(text: &[u8]) -> Option<KeyBits> {
    const BYTES_MAX: usize = 13;
    if text.len() > BYTES_MAX {
        return None;
    }
    let mut bytes = [0; 16];
    bytes[0] = VALUE_MARKER;
    bytes[1..=text.len()].copy_from_slice(text);
    Some((u128::from_le_bytes(bytes), text.len() + 2))
}

/// How long the encoded values of a type are.
enum EncodedLength {
    Bytes(usize),
    /// Up to a byte that no text has.
    Text,
}

/// None: it takes more to tell where a value of the type ends.
fn encoded_length(type_oid: Oid) -> Option<EncodedLength> {
    Some(match type_oid {
        oids::BOOL => EncodedLength::Bytes(1),
        oids::INT2 => EncodedLength::Bytes(2),
        oids::INT4 | oids::DATE | oids::OID => EncodedLength::Bytes(4),
        oids::INT8 | oids::TIME | oids::TIMESTAMP | oids::TIMESTAMPTZ => EncodedLength::Bytes(8),
        oids::FLOAT4 | oids::FLOAT8 => EncodedLength::Bytes(8),
        oids::UUID => EncodedLength::Bytes(16),
        oids::TEXT | oids::VARCHAR | oids::BPCHAR | oids::NAME => EncodedLength::Text,
        _ => return None,
    })
}

/// Does [`column_len`] tell where a column of this type ends?
pub fn has_column_len(type_oid: Oid) -> bool {
    encoded_length(type_oid).is_some()
}

/// How many bytes a key's first column takes, its marker with them; None: its type is not one of those of which that is
/// easily told, or there is no such column.
pub fn column_len(type_oid: Oid, key: &[u8], descending: bool) -> Option<usize> {
    if *key.first()? != VALUE_MARKER {
        return Some(1);
    }
    let value = match encoded_length(type_oid)? {
        EncodedLength::Bytes(len) => len,
        EncodedLength::Text => {
            let end = if descending { 0xff } else { 0 };
            key[1..].iter().position(|b| *b == end)? + 1
        }
    };
    Some(1 + value).filter(|len| *len <= key.len())
}
fn flip32(v: i32) -> [u8; 4] {
    ((v as u32) ^ 0x8000_0000).to_be_bytes()
}
fn flip64(v: i64) -> [u8; 8] {
    ((v as u64) ^ (1 << 63)).to_be_bytes()
}
/// An integer ordered as PostgreSQL orders floats: −0 is 0, NaN is greatest.
fn float_key(v: f64) -> u64 {
    if v.is_nan() {
        return u64::MAX;
    }
    let bits = if v == 0.0 { 0 } else { v.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}
pub(crate) fn encode_numeric(v: &Numeric, out: &mut Vec<u8>) {
    let class = match v.kind() {
        NumericKind::NegInf => 0,
        NumericKind::PosInf => 4,
        NumericKind::NaN => 5,
        NumericKind::Finite => (v.signum() + 2) as u8,
    };
    out.push(class);
    if class != 1 && class != 3 {
        return;
    }
    let start = out.len();
    let digits = v.digits();
    out.extend_from_slice(&flip32(digits.weight));
    for d in digits.digits() {
        out.extend_from_slice(&(*d as u16 + 1).to_be_bytes());
    }
    out.extend_from_slice(&[0, 0]);
    if class == 1 {
        for b in &mut out[start..] {
            *b = !*b;
        }
    }
}
fn encode_array(type_oid: Oid, v: &Array, out: &mut Vec<u8>) -> Result<()> {
    if !is_indexable(v.element_type) && v.element_type != 0 && v.element_type < types::FIRST_USER_TYPE {
        return Err(Error::unsupported(format!("key of array type {type_oid}")));
    }
    let element_type = collation::element_order_type(type_oid, v.element_type);
    for e in &v.elements {
        encode_key(element_type, e, false, false, out)?;
    }
    // Below every element's marker: a prefix sorts first.
    out.push(0);
    out.push(v.dims.len() as u8);
    for (_, len) in &v.dims {
        out.extend_from_slice(&len.to_be_bytes());
    }
    for (lower, _) in &v.dims {
        out.extend_from_slice(&flip32(*lower));
    }
    Ok(())
}

/// True if the type has a btree operator class.
pub fn is_indexable(type_oid: Oid) -> bool {
    if let Some(ty) = types::descriptor(type_oid) {
        return ty.is_ordered;
    }
    // What is made of other types: arrays (of what is ordered), ranges, users' types.
    match type_oid {
        oids::ACLITEM_ARRAY | 199 | 143 | 1011 | 1012 | 1017..=1020 | 1027 => false,
        oids::ANYARRAY | 3807 | oids::TSVECTOR_ARRAY | oids::TSQUERY_ARRAY => true,
        1000..=1034
        | 651
        | 775
        | 791
        | 1040
        | 1041
        | 271
        | 1115
        | 1182
        | 1183
        | 1185
        | 1187
        | 1231
        | 1270
        | 1561
        | 1563 => true,
        2951 | 3221 | 2287 | 2207..=2211 => true,
        3905 | 3907 | 3909 | 3911 | 3913 | 3927 | 6150..=6153 | 6155 | 6157 => true,
        // Of an extension's types only arrays have no descriptors.
        _ => type_oid >= types::FIRST_EXTENSION_TYPE || range::built_in(type_oid).is_some(),
    }
}

fn interval_span(v: &Interval) -> i128 {
    (i128::from(v.months) * 30 + i128::from(v.days)) * 86_400_000_000 + i128::from(v.micros)
}
/// The span btree compares: months as 30 days, days as 24 hours, in microseconds.
pub(crate) fn interval_order(v: &Interval) -> i128 {
    interval_span(v)
}
fn timetz_utc(time: i64, zone: i32) -> i64 {
    time.saturating_add(i64::from(zone) * 1_000_000)
}
pub(crate) fn compare_f64(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// btree order; NULL sorts last. Values of one type (mixed integer widths compare by value).
pub fn compare(type_oid: Oid, a: &Datum, b: &Datum) -> Ordering {
    use Datum::*;
    match (a, b) {
        (Null, Null) => Ordering::Equal,
        (Null, _) => Ordering::Greater,
        (_, Null) => Ordering::Less,
        (Bool(a), Bool(b)) => a.cmp(b),
        (Char(a), Char(b)) => a.cmp(b),
        (Int2(a), Int2(b)) => a.cmp(b),
        (Int4(a), Int4(b)) | (Date(a), Date(b)) => a.cmp(b),
        (Int8(a), Int8(b)) | (Time(a), Time(b)) | (Timestamp(a), Timestamp(b)) | (TimestampTz(a), TimestampTz(b)) => {
            a.cmp(b)
        }
        (Float4(a), Float4(b)) => compare_f64(f64::from(*a), f64::from(*b)),
        (Float8(a), Float8(b)) => compare_f64(*a, *b),
        (Oid(a), Oid(b)) => a.cmp(b),
        (Text(a), Text(b)) => match types::folding(type_oid) {
            None if type_oid >= FIRST_ORDER_TYPE => {
                collation::compare_texts(type_oid, a, b).unwrap_or_else(|| a.as_bytes().cmp(b.as_bytes()))
            }
            None => a.as_bytes().cmp(b.as_bytes()),
            Some(fold) => fold(a).as_bytes().cmp(fold(b).as_bytes()),
        },
        (Bytea(a), Bytea(b)) => a.cmp(b),
        (Numeric(a), Numeric(b)) => a.cmp(b),
        (TimeTz(a, za), TimeTz(b, zb)) => timetz_utc(*a, *za).cmp(&timetz_utc(*b, *zb)).then(za.cmp(zb)),
        (Interval(a), Interval(b)) => interval_span(a).cmp(&interval_span(b)),
        (Uuid(a), Uuid(b)) => a.cmp(b),
        (Jsonb(a), Jsonb(b)) => crate::json::binary::compare(a, b),
        (Tid(a, sa), Tid(b, sb)) => (a, sa).cmp(&(b, sb)),
        (U64(a), U64(b)) => a.cmp(b),
        (Array(a), Array(b)) => compare_arrays(type_oid, a, b),
        (TsVector(a), TsVector(b)) => a.compare(b),
        (TsQuery(a), TsQuery(b)) => a.compare(b),
        (Inet(a), Inet(b)) => a.compare(b),
        (MacAddr(a), MacAddr(b)) => a.cmp(b),
        (MacAddr8(a), MacAddr8(b)) => a.cmp(b),
        (AclItem(a), AclItem(b)) => a.cmp(b),
        (Opaque(a), Opaque(b)) => a.compare(b),
        (Range(a), Range(b)) => a.compare(b),
        (Multirange(a), Multirange(b)) => a.compare(b),
        (Record(a), Record(b)) => {
            for ((oid, x), (_, y)) in a.fields.iter().zip(&b.fields) {
                match compare(*oid, x, y) {
                    Ordering::Equal => {}
                    other => return other,
                }
            }
            a.fields.len().cmp(&b.fields.len())
        }
        _ => match (integer(a), integer(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => {
                // Values held differently are not of one type; keep the order total all the same.
                let (mut x, mut y) = (Vec::new(), Vec::new());
                let _ = encode_value(type_oid, a, &mut x);
                let _ = encode_value(type_oid, b, &mut y);
                x.cmp(&y)
            }
        },
    }
}
fn integer(d: &Datum) -> Option<i64> {
    match d {
        Datum::Int2(v) => Some(i64::from(*v)),
        Datum::Int4(v) => Some(i64::from(*v)),
        Datum::Int8(v) => Some(*v),
        Datum::Oid(v) => Some(i64::from(*v)),
        _ => None,
    }
}
fn compare_arrays(type_oid: Oid, a: &Array, b: &Array) -> Ordering {
    let element_type = collation::element_order_type(type_oid, a.element_type);
    let length = a.elements.len().min(b.elements.len());
    if length > 64 {
        work::owe(length * 6);
    }
    for (x, y) in a.elements.iter().zip(&b.elements) {
        match compare(element_type, x, y) {
            Ordering::Equal => {}
            other => return other,
        }
    }
    a.elements
        .len()
        .cmp(&b.elements.len())
        .then(a.dims.len().cmp(&b.dims.len()))
        .then_with(|| a.dims.iter().map(|d| d.1).cmp(b.dims.iter().map(|d| d.1)))
        .then_with(|| a.dims.iter().map(|d| d.0).cmp(b.dims.iter().map(|d| d.0)))
}

/// Bytes equal iff the values are equal by the type's `=`; NULL equals NULL.
pub fn hash_equal_key(type_oid: Oid, datum: &Datum, out: &mut Vec<u8>) -> Result<()> {
    encode_key(type_oid, datum, false, false, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn key(d: &Datum, desc: bool) -> Vec<u8> {
        let mut out = Vec::new();
        encode_key(0, d, desc, false, &mut out).unwrap();
        out
    }
    #[test]
    fn columns_end_where_their_length_says() {
        let values = [
            (oids::BOOL, Datum::Bool(true)),
            (oids::INT2, Datum::Int2(-7)),
            (oids::INT4, Datum::Int4(i32::MIN)),
            (oids::DATE, Datum::Date(5)),
            (oids::OID, Datum::Oid(9)),
            (oids::INT8, Datum::Int8(-1)),
            (oids::TIMESTAMPTZ, Datum::TimestampTz(0)),
            (oids::FLOAT4, Datum::Float4(1.5)),
            (oids::FLOAT8, Datum::Float8(-1.5)),
            (oids::UUID, Datum::Uuid([7; 16])),
            (oids::TEXT, Datum::Text("täxt".into())),
            (oids::TEXT, Datum::Text("".into())),
            (oids::BPCHAR, Datum::Text("a  ".into())),
            (oids::INT4, Datum::Null),
        ];
        for (ty, value) in &values {
            for descending in [false, true] {
                let mut bytes = Vec::new();
                encode_key(*ty, value, descending, descending, &mut bytes).unwrap();
                let len = bytes.len();
                assert_eq!(column_len(*ty, &bytes[..len - 1], descending).filter(|l| *l == len), None, "{value:?}");
                encode_key(oids::INT4, &Datum::Int4(3), false, false, &mut bytes).unwrap();
                assert_eq!(column_len(*ty, &bytes, descending), Some(len), "{value:?}");
            }
        }
        assert_eq!(column_len(oids::NUMERIC, &key(&Datum::Int4(1), false), false), None);
    }
    #[test]
    fn memcmp_is_the_order() {
        let numbers = [
            "-Infinity",
            "-10000.5",
            "-10000",
            "-1.5",
            "-0.00012",
            "0.000",
            "0.00011",
            "1",
            "1.00001",
            "9999",
            "10000",
            "1e300",
            "Infinity",
            "NaN",
        ];
        let rows: Vec<Vec<Datum>> = vec![
            numbers.iter().map(|s| Datum::Numeric(Numeric::parse(s).unwrap())).collect(),
            [f64::NEG_INFINITY, -1e300, -1.0, -0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN].map(Datum::Float8).to_vec(),
            [i32::MIN, -1, 0, 1, i32::MAX].map(Datum::Int4).to_vec(),
            ["", "a", "a\u{1}", "ab", "b", "é"].map(Datum::text).to_vec(),
            [&b""[..], b"\0", b"\0\0", b"\0\x01", b"\x01"].map(|b| Datum::Bytea(Arc::from(b))).to_vec(),
        ];
        for row in rows {
            for (i, a) in row.iter().enumerate() {
                for (j, b) in row.iter().enumerate() {
                    assert_eq!(key(a, false).cmp(&key(b, false)), i.cmp(&j), "{a:?} {b:?}");
                    assert_eq!(key(a, true).cmp(&key(b, true)), j.cmp(&i), "{a:?} {b:?}");
                    assert_eq!(compare(0, a, b), i.cmp(&j));
                }
            }
        }
    }
    #[test]
    fn display_scale_does_not_matter() {
        let n = |s: &str| Datum::Numeric(Numeric::parse(s).unwrap());
        assert_eq!(key(&n("1.50"), false), key(&n("1.5"), false));
        assert_eq!(key(&Datum::Float8(-0.0), false), key(&Datum::Float8(0.0), false));
        assert_eq!(key(&Datum::Int4(5), false).len(), 5);
    }
}
