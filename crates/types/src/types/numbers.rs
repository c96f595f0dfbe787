//! Booleans, numbers, and what is held in the same way.

use super::{FREE, HeldAs, PLAIN, TypeDescriptor, TypeModifier, fixed};
use crate::Datum;
use crate::io::{self, float, int};
use crate::numeric::Numeric;
use crate::oids::*;
use crate::row::PhysicalType as P;

/// The upper half is the precision, the lower the scale, four more than they are.
static NUMERIC_MODIFIER: TypeModifier = TypeModifier {
    read: |mods| {
        let (p, s) = match mods {
            [p] => (*p, 0),
            [p, s] => (*p, *s),
            _ => return Err("invalid type modifier".into()),
        };
        if !(1..=1000).contains(&p) {
            return Err(format!("NUMERIC precision {p} must be between 1 and 1000"));
        }
        if !(-1000..=1000).contains(&s) {
            return Err(format!("NUMERIC scale {s} must be between -1000 and 1000"));
        }
        Ok(((p << 16) | (s & 0x7ff)) + 4)
    },
    apply: |value, modifier, _| match &value {
        Datum::Numeric(n) => Ok(Datum::Numeric(n.apply_typmod(modifier)?)),
        _ => Ok(value),
    },
};

const IDS: TypeDescriptor = TypeDescriptor {
    receive: |bytes, _, _| Ok(Datum::Oid(u32::from_be_bytes(fixed(bytes)?))),
    storage: P::Oid,
    held_as: HeldAs::Oid,
    ..FREE
};

pub(super) const TYPES: &[TypeDescriptor] = &[
    TypeDescriptor {
        oid: BOOL,
        input: |text, _, _| io::parse_bool(text).map(Datum::Bool),
        receive: |bytes, _, _| Ok(Datum::Bool(fixed::<1>(bytes)?[0] != 0)),
        storage: P::Bool,
        ..PLAIN
    },
    TypeDescriptor {
        oid: INT2,
        input: |text, _, _| {
            int::parse(text, "smallint", i128::from(i16::MIN), i128::from(i16::MAX)).map(|v| Datum::Int2(v as i16))
        },
        receive: |bytes, _, _| Ok(Datum::Int2(i16::from_be_bytes(fixed(bytes)?))),
        storage: P::Int2,
        ..PLAIN
    },
    TypeDescriptor {
        oid: INT4,
        input: |text, _, _| {
            int::parse(text, "integer", i128::from(i32::MIN), i128::from(i32::MAX)).map(|v| Datum::Int4(v as i32))
        },
        receive: |bytes, _, _| Ok(Datum::Int4(i32::from_be_bytes(fixed(bytes)?))),
        storage: P::Int4,
        ..PLAIN
    },
    TypeDescriptor {
        oid: INT8,
        input: |text, _, _| {
            int::parse(text, "bigint", i128::from(i64::MIN), i128::from(i64::MAX)).map(|v| Datum::Int8(v as i64))
        },
        receive: |bytes, _, _| Ok(Datum::Int8(i64::from_be_bytes(fixed(bytes)?))),
        storage: P::Int8,
        ..PLAIN
    },
    TypeDescriptor {
        oid: FLOAT4,
        input: |text, _, _| float::parse_f32(text).map(Datum::Float4),
        receive: |bytes, _, _| Ok(Datum::Float4(f32::from_be_bytes(fixed(bytes)?))),
        storage: P::Float4,
        ..PLAIN
    },
    TypeDescriptor {
        oid: FLOAT8,
        input: |text, _, _| float::parse_f64(text).map(Datum::Float8),
        receive: |bytes, _, _| Ok(Datum::Float8(f64::from_be_bytes(fixed(bytes)?))),
        storage: P::Float8,
        ..PLAIN
    },
    TypeDescriptor {
        oid: NUMERIC,
        input: |text, modifier, _| Ok(Datum::Numeric(Numeric::parse(text)?.apply_typmod(modifier)?)),
        receive: |bytes, modifier, _| Ok(Datum::Numeric(Numeric::receive(bytes)?.apply_typmod(modifier)?)),
        storage: P::Numeric,
        modifier: Some(&NUMERIC_MODIFIER),
        ..PLAIN
    },
    TypeDescriptor {
        oid: OID,
        input: |text, _, _| int::parse_oid(text, "oid").map(Datum::Oid),
        is_self_contained: true,
        ..IDS
    },
    TypeDescriptor {
        oid: XID,
        input: |text, _, _| int::parse_oid(text, "xid").map(Datum::Oid),
        is_ordered: false,
        ..IDS
    },
    TypeDescriptor {
        oid: CID,
        input: |text, _, _| int::parse_oid(text, "cid").map(Datum::Oid),
        is_ordered: false,
        ..IDS
    },
    TypeDescriptor {
        oid: XID8,
        input: |text, _, _| int::parse_u64(text, "xid8").map(Datum::U64),
        receive: |bytes, _, _| Ok(Datum::U64(u64::from_be_bytes(fixed(bytes)?))),
        storage: P::U64,
        ..FREE
    },
    TypeDescriptor {
        oid: PG_LSN,
        input: |text, _, _| io::parse_lsn(text).map(Datum::U64),
        receive: |bytes, _, _| Ok(Datum::U64(u64::from_be_bytes(fixed(bytes)?))),
        output: Some(|value, _, out, _| {
            if let Datum::U64(v) = value {
                io::write(out, format_args!("{:X}/{:X}", v >> 32, v & 0xffff_ffff));
            }
            Ok(())
        }),
        storage: P::U64,
        ..FREE
    },
    TypeDescriptor {
        oid: TID,
        input: |text, _, _| io::parse_tid(text),
        receive: |bytes, _, _| {
            let b: [u8; 6] = fixed(bytes)?;
            let (block, slot) = b.split_at(4);
            Ok(Datum::Tid(u32::from_be_bytes(fixed(block)?), u16::from_be_bytes(fixed(slot)?)))
        },
        storage: P::Tid,
        ..FREE
    },
];
