//! The hash that places a row in a hash partition: PostgreSQL's, so that a row lands in the same partition there and
//! here.
//!
//! Invariants
//! 1. Equal values have equal hashes, also across the integer types and across the float types.
//! 2. The figures never change: rows on disk are where they say.

use crate::datum::{Datum, not_decoded};
use crate::hash::{
    hash_bytes_extended, hash_f64_extended, hash_i64_extended, hash_numeric_extended, hash_u32_extended,
};
use crate::{oids, types};
use kilndb_base::{Error, Oid, Result};

/// PostgreSQL's HASH_PARTITION_SEED.
pub const SEED: u64 = 0x7a5b_2236_7996_dcfd;

/// The hash of a key of several columns, of which NULLs do not count. `types`: base types of the values.
pub fn row_hash<'a>(key: impl Iterator<Item = (Oid, &'a Datum)>) -> Result<u64> {
    let mut all = 0u64;
    for (ty, value) in key {
        if !value.is_null() {
            all = combine(all, value_hash(ty, value, SEED)?);
        }
    }
    Ok(all)
}

/// The hash of a key from that of its first columns and that of the next one.
pub fn combine(a: u64, b: u64) -> u64 {
    a ^ b.wrapping_add(0x49a0_f4dd_15e5_a8e3).wrapping_add(a << 54).wrapping_add(a >> 7)
}

/// Whether the type has a hash that places rows in partitions. Arrays and records are asked by the types of their
/// elements.
pub fn is_hashable(ty: Oid) -> bool {
    // Geometry has no values here.
    let is_geometry = || matches!(ty, 600..=604 | 628 | 718);
    types::descriptor(ty).map_or_else(|| !is_geometry(), |ty| ty.is_hashed)
}

/// A value's extended hash. `ty` decides where variants are shared.
pub fn value_hash(ty: Oid, value: &Datum, seed: u64) -> Result<u64> {
    Ok(match value {
        Datum::Null => 0,
        Datum::Bool(v) => hash_u32_extended(u32::from(*v), seed),
        Datum::Char(v) => hash_u32_extended(i32::from(*v as i8) as u32, seed),
        Datum::Int2(v) => hash_u32_extended(i32::from(*v) as u32, seed),
        Datum::Int4(v) | Datum::Date(v) => hash_u32_extended(*v as u32, seed),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => hash_i64_extended(*v, seed),
        Datum::U64(v) => hash_i64_extended(*v as i64, seed),
        Datum::Float4(v) => hash_f64_extended(f64::from(*v), seed),
        Datum::Float8(v) => hash_f64_extended(*v, seed),
        Datum::Oid(v) => hash_u32_extended(*v, seed),
        Datum::Text(s) => hash_bytes_extended(types::folded(ty, s).as_bytes(), seed),
        Datum::Bytea(b) => hash_bytes_extended(b, seed),
        Datum::Uuid(b) => hash_bytes_extended(b, seed),
        Datum::Jsonb(b) => crate::json::binary::hash_extended(b, seed)?,
        Datum::TimeTz(micros, zone) => hash_i64_extended(*micros, seed) ^ hash_u32_extended(*zone as u32, seed),
        Datum::Interval(v) => {
            let days = i128::from(v.months) * 30 + i128::from(v.days);
            hash_i64_extended((days * 86_400_000_000 + i128::from(v.micros)) as i64, seed)
        }
        Datum::Tid(block, slot) => {
            let mut bytes = [0; 6];
            bytes[0..2].copy_from_slice(&((*block >> 16) as u16).to_le_bytes());
            bytes[2..4].copy_from_slice(&(*block as u16).to_le_bytes());
            bytes[4..6].copy_from_slice(&slot.to_le_bytes());
            hash_bytes_extended(&bytes, seed)
        }
        Datum::Numeric(n) => hash_numeric_extended(n, seed),
        Datum::Inet(v) => {
            let (bytes, len) = v.hashed_bytes();
            hash_bytes_extended(&bytes[..len], seed)
        }
        Datum::MacAddr(v) => hash_bytes_extended(v, seed),
        Datum::MacAddr8(v) => hash_bytes_extended(v, seed),
        Datum::AclItem(v) => v.hash_extended(seed),
        Datum::Opaque(v) => v.hash_extended(seed)?,
        Datum::Range(v) => range_hash(v, seed)?,
        Datum::Multirange(v) => {
            let mut all = 1u64;
            for range in &v.ranges {
                all = (all << 5).wrapping_sub(all).wrapping_add(range_hash(range, seed)?);
            }
            all
        }
        Datum::Stored(_) => return Err(not_decoded()),
        Datum::TsVector(_) | Datum::TsQuery(_) => {
            return Err(Error::unsupported("hashing of tsvector and tsquery is not supported"));
        }
        Datum::Array(a) if ty == oids::OIDVECTOR => {
            let mut bytes = Vec::with_capacity(a.elements.len() * 4);
            for element in &a.elements {
                if let Datum::Oid(v) = element {
                    bytes.extend_from_slice(&v.to_le_bytes());
                }
            }
            hash_bytes_extended(&bytes, seed)
        }
        Datum::Array(a) => list_hash(1, a.elements.iter().map(|e| (a.element_type, e)), seed)?,
        Datum::Record(r) => list_hash(0, r.fields.iter().map(|(ty, value)| (*ty, value)), seed)?,
    })
}

fn range_hash(range: &crate::range::Range, seed: u64) -> Result<u64> {
    crate::range::hash_extended(range, seed, &|value| value_hash(range.ty.subtype, value, seed))
}

fn list_hash<'a>(start: u64, list: impl Iterator<Item = (Oid, &'a Datum)>, seed: u64) -> Result<u64> {
    let mut all = start;
    for (ty, value) in list {
        if !value.is_null() && !is_hashable(ty) {
            return Err(Error::unsupported(format!("hash partitioning by values that contain type {ty}")));
        }
        all = (all << 5).wrapping_sub(all).wrapping_add(value_hash(ty, value, seed)?);
    }
    Ok(all)
}
