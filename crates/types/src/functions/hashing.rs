//! Hash support functions, one for all types: the datum says what it is.

use super::get::{self, arg, int8};
use crate::cast::without_padding;
use crate::datum::not_decoded;
use crate::hash::*;
use crate::{Datum, EvalContext, key, range, types};
use kilndb_base::{Error, Oid, Result};

/// bpchar: equal values have equal hashes, whatever blanks are at their ends.
pub(crate) fn bpchar_hash(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(hash_bytes(without_padding(get::text(arg(args, 0)?)?).as_bytes()) as i32))
}
pub(crate) fn bpchar_hash_extended(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let text = without_padding(get::text(arg(args, 0)?)?).as_bytes();
    Ok(Datum::Int8(hash_bytes_extended(text, int8(arg(args, 1)?)? as u64) as i64))
}
/// A part of an array or a record, whose type says how it is compared.
fn stripped(type_oid: Oid, part: &Datum) -> Datum {
    match part {
        Datum::Text(v) => match types::folding(type_oid) {
            Some(fold) => Datum::text(fold(v)),
            None => part.clone(),
        },
        _ => part.clone(),
    }
}

/// The hash PostgreSQL's hash operator class gives.
pub(crate) fn hash_datum(d: &Datum) -> Result<u32> {
    Ok(match d {
        Datum::Null => 0,
        Datum::Bool(v) => hash_u32(u32::from(*v)),
        Datum::Char(v) => hash_u32(i32::from(*v as i8) as u32),
        Datum::Int2(v) => hash_u32(i32::from(*v) as u32),
        Datum::Int4(v) | Datum::Date(v) => hash_u32(*v as u32),
        Datum::Oid(v) => hash_u32(*v),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => hash_i64(*v),
        Datum::U64(v) => hash_i64(*v as i64),
        Datum::Float4(v) => hash_f64(f64::from(*v)),
        Datum::Float8(v) => hash_f64(*v),
        Datum::Text(v) => hash_bytes(v.as_bytes()),
        Datum::Bytea(v) => hash_bytes(v),
        Datum::Uuid(v) => hash_bytes(v),
        Datum::Jsonb(v) => crate::json::binary::hash(v)?,
        Datum::Tid(block, slot) => hash_bytes(&tid_bytes(*block, *slot)),
        Datum::Inet(v) => {
            let (bytes, len) = v.hashed_bytes();
            hash_bytes(&bytes[..len])
        }
        Datum::MacAddr(v) => hash_bytes(v),
        Datum::MacAddr8(v) => hash_bytes(v),
        Datum::AclItem(v) => v.hash(),
        Datum::Opaque(v) => v.hash()?,
        Datum::Range(v) => range::hash(v, &|d| hash_datum(d))?,
        Datum::Multirange(v) => {
            let mut r = 1u32;
            for range in &v.ranges {
                let h = range::hash(range, &|d| hash_datum(d))?;
                r = r.wrapping_shl(5).wrapping_sub(r).wrapping_add(h);
            }
            r
        }
        Datum::TimeTz(t, z) => hash_i64(*t) ^ hash_u32(*z as u32),
        Datum::Interval(v) => hash_i64(key::interval_order(v) as i64),
        Datum::Numeric(n) => hash_numeric(n),
        Datum::Stored(_) => return Err(not_decoded()),
        Datum::TsVector(_) | Datum::TsQuery(_) => {
            return Err(Error::unsupported("hashing of tsvector and tsquery is not supported"));
        }
        Datum::Array(a) => {
            let mut r = 1u32;
            for e in &a.elements {
                let h = if e.is_null() { 0 } else { hash_datum(&stripped(a.element_type, e))? };
                r = r.wrapping_shl(5).wrapping_sub(r).wrapping_add(h);
            }
            r
        }
        Datum::Record(r) => {
            let mut h = 0u32;
            for (ty, f) in &r.fields {
                let e = if f.is_null() { 0 } else { hash_datum(&stripped(*ty, f))? };
                h = h.wrapping_shl(5).wrapping_sub(h).wrapping_add(e);
            }
            h
        }
    })
}
pub(crate) fn hash_datum_extended(d: &Datum, seed: u64) -> Result<u64> {
    Ok(match d {
        Datum::Null => 0,
        Datum::Bool(v) => hash_u32_extended(u32::from(*v), seed),
        Datum::Char(v) => hash_u32_extended(i32::from(*v as i8) as u32, seed),
        Datum::Int2(v) => hash_u32_extended(i32::from(*v) as u32, seed),
        Datum::Int4(v) | Datum::Date(v) => hash_u32_extended(*v as u32, seed),
        Datum::Oid(v) => hash_u32_extended(*v, seed),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => hash_i64_extended(*v, seed),
        Datum::U64(v) => hash_i64_extended(*v as i64, seed),
        Datum::Float4(v) => hash_f64_extended(f64::from(*v), seed),
        Datum::Float8(v) => hash_f64_extended(*v, seed),
        Datum::Text(v) => hash_bytes_extended(v.as_bytes(), seed),
        Datum::Bytea(v) => hash_bytes_extended(v, seed),
        Datum::Uuid(v) => hash_bytes_extended(v, seed),
        Datum::Jsonb(v) => crate::json::binary::hash_extended(v, seed)?,
        Datum::Tid(block, slot) => hash_bytes_extended(&tid_bytes(*block, *slot), seed),
        Datum::Inet(v) => {
            let (bytes, len) = v.hashed_bytes();
            hash_bytes_extended(&bytes[..len], seed)
        }
        Datum::MacAddr(v) => hash_bytes_extended(v, seed),
        Datum::MacAddr8(v) => hash_bytes_extended(v, seed),
        Datum::AclItem(v) => v.hash_extended(seed),
        Datum::Opaque(v) => v.hash_extended(seed)?,
        Datum::Range(v) => range::hash_extended(v, seed, &|d| hash_datum_extended(d, seed))?,
        Datum::Multirange(v) => {
            let mut r = 1u64;
            for range in &v.ranges {
                let h = range::hash_extended(range, seed, &|d| hash_datum_extended(d, seed))?;
                r = r.wrapping_shl(5).wrapping_sub(r).wrapping_add(h);
            }
            r
        }
        Datum::TimeTz(t, z) => hash_i64_extended(*t, seed) ^ hash_u32_extended(*z as u32, seed),
        Datum::Interval(v) => hash_i64_extended(key::interval_order(v) as i64, seed),
        Datum::Numeric(n) => hash_numeric_extended(n, seed),
        Datum::Stored(_) => return Err(not_decoded()),
        Datum::TsVector(_) | Datum::TsQuery(_) => {
            return Err(Error::unsupported("hashing of tsvector and tsquery is not supported"));
        }
        Datum::Array(a) => {
            let mut r = 1u64;
            for e in &a.elements {
                let h = if e.is_null() { 0 } else { hash_datum_extended(&stripped(a.element_type, e), seed)? };
                r = r.wrapping_shl(5).wrapping_sub(r).wrapping_add(h);
            }
            r
        }
        Datum::Record(r) => {
            let mut h = 0u64;
            for (ty, f) in &r.fields {
                let e = if f.is_null() { 0 } else { hash_datum_extended(&stripped(*ty, f), seed)? };
                h = h.wrapping_shl(5).wrapping_sub(h).wrapping_add(e);
            }
            h
        }
    })
}
/// PostgreSQL stores the block number as two 16-bit halves, high first.
fn tid_bytes(block: u32, slot: u16) -> [u8; 6] {
    let h = ((block >> 16) as u16).to_le_bytes();
    let l = (block as u16).to_le_bytes();
    let s = slot.to_le_bytes();
    [h[0], h[1], l[0], l[1], s[0], s[1]]
}
pub(crate) fn any_hash(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(hash_datum(arg(args, 0)?)? as i32))
}
pub(crate) fn any_hash_extended(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let seed = int8(arg(args, 1)?)? as u64;
    Ok(Datum::Int8(hash_datum_extended(arg(args, 0)?, seed)? as i64))
}
pub(crate) fn hashoidvector(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    match arg(args, 0)? {
        Datum::Array(a) => {
            let bytes: Vec<u8> =
                a.elements.iter().flat_map(|e| if let Datum::Oid(v) = e { v.to_le_bytes() } else { [0; 4] }).collect();
            Ok(Datum::Int4(hash_bytes(&bytes) as i32))
        }
        _ => Err(Error::internal("hashoidvector wants an oidvector")),
    }
}
