//! The stored row format; docs/format-row.md draws it byte by byte.
//!
//! Invariants
//! 1. Decoding never trusts a byte: what does not fit is [`Error::corrupted`], never a panic.
//! 2. A fixed-width column takes the same number of bytes whatever its value.
//!
//! Must not know: pages, versions, catalogs.

use crate::acl::AclItem;
use crate::network::Inet;
use crate::numeric::{Numeric, NumericDigits, NumericKind, ShortNumeric};
use crate::range::{self, Multirange, Range, RangeBound, RangeType};
use crate::row_shape::StoredShape;
use crate::types::{self, OpaqueValue};
use crate::{Array, Datum, Interval, Record, cast};
use kilndb_base::bytes::{ByteReader, put_prefixed, put_varint};
use kilndb_base::{Error, Oid, Result};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhysicalType {
    Bool,
    Char,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Oid,
    Text,
    /// char(n): stored without the blanks at its end, read with as many as make it n characters.
    Padded(u32),
    Bytea,
    Jsonb,
    Numeric,
    Date,
    Time,
    TimeTz,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Tid,
    U64,
    Inet,
    MacAddr,
    MacAddr8,
    /// Arrays, records and whatever else: self-describing.
    Tagged,
}
/// What is wanted of a stored column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ColumnFetch {
    #[default]
    Nothing,
    Value,
    /// [`Datum::Stored`].
    Stored,
}

#[derive(Clone, Debug)]
pub struct RowDescriptor {
    pub columns: Vec<ColumnLayout>,
}
#[derive(Clone, Debug)]
pub struct ColumnLayout {
    pub type_oid: Oid,
    pub storage: PhysicalType,
    /// Of a type that has composite values in it.
    shape: Option<Arc<StoredShape>>,
}

/// How values of a type are stored. Types not known here are stored self-describing.
pub(crate) fn physical_type(type_oid: Oid) -> PhysicalType {
    types::descriptor(type_oid).map_or(PhysicalType::Tagged, |ty| ty.storage)
}
impl RowDescriptor {
    pub fn new(type_oids: &[Oid]) -> Result<RowDescriptor> {
        Ok(RowDescriptor {
            columns: type_oids
                .iter()
                .map(|&type_oid| ColumnLayout { type_oid, storage: physical_type(type_oid), shape: None })
                .collect(),
        })
    }
}
impl ColumnLayout {
    /// A column of char(n): the blanks at the end of its values are not stored.
    pub fn pad_to(&mut self, characters: u32) {
        self.storage = PhysicalType::Padded(characters);
    }
    /// A column whose values are stored with a field for each attribute that their type has ever had.
    pub fn shape_by(&mut self, shape: Arc<StoredShape>) {
        self.shape = Some(shape);
    }
    /// Are its values stored with a field for each attribute that their type has ever had?
    pub(crate) fn is_shaped(&self) -> bool {
        self.shape.is_some()
    }
    /// What is stored, where that is not the value as it is.
    fn shaped(&self, value: &Datum) -> Option<Datum> {
        let shape = self.shape.as_ref().filter(|shape| !shape.writes_plainly())?;
        (!matches!(value, Datum::Stored(_))).then(|| shape.written(value.clone()))
    }
}
impl PhysicalType {
    /// Bytes of a fixed-width value; None for variable length.
    pub fn width(self) -> Option<usize> {
        use PhysicalType as P;
        Some(match self {
            P::Bool | P::Char => 1,
            P::Int2 => 2,
            P::Int4 | P::Float4 | P::Oid | P::Date => 4,
            P::Int8 | P::Float8 | P::Time | P::Timestamp | P::TimestampTz | P::U64 | P::MacAddr8 => 8,
            P::TimeTz => 12,
            P::Interval | P::Uuid => 16,
            P::Tid | P::MacAddr => 6,
            P::Text | P::Padded(_) | P::Bytea | P::Jsonb | P::Numeric | P::Inet | P::Tagged => return None,
        })
    }
}

#[cold]
pub(crate) fn corrupted() -> Error {
    Error::corrupted("stored row does not match its description")
}

pub fn encode_row(desc: &RowDescriptor, values: &[Datum], out: &mut Vec<u8>) -> Result<()> {
    if values.len() != desc.columns.len() {
        return Err(Error::internal("row and its description differ in column count"));
    }
    let has_nulls = values.iter().any(Datum::is_null);
    put_varint(out, (values.len() as u64) << 1 | u64::from(has_nulls));
    if has_nulls {
        let start = out.len();
        out.resize(start + values.len().div_ceil(8), 0);
        for (i, v) in values.iter().enumerate() {
            if v.is_null() {
                out[start + i / 8] |= 1 << (i % 8);
            }
        }
    }
    for (column, value) in desc.columns.iter().zip(values) {
        if value.is_null() {
            continue;
        }
        encode_column(column, value, out)?;
    }
    Ok(())
}
/// Appends a value that is not NULL.
#[inline]
pub(crate) fn encode_column(column: &ColumnLayout, value: &Datum, out: &mut Vec<u8>) -> Result<()> {
    match column.shape.is_some().then(|| column.shaped(value)).flatten() {
        None => encode_value(column.storage, value, out),
        Some(shaped) => encode_value(column.storage, &shaped, out),
    }
}
fn encode_value(storage: PhysicalType, value: &Datum, out: &mut Vec<u8>) -> Result<()> {
    use PhysicalType as P;
    match (storage, value) {
        (_, Datum::Stored(v)) => out.extend_from_slice(v),
        (P::Bool, Datum::Bool(v)) => out.push(u8::from(*v)),
        (P::Char, Datum::Char(v)) => out.push(*v),
        (P::Int2, Datum::Int2(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (P::Int4, Datum::Int4(v)) | (P::Date, Datum::Date(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (P::Int8, Datum::Int8(v))
        | (P::Time, Datum::Time(v))
        | (P::Timestamp, Datum::Timestamp(v))
        | (P::TimestampTz, Datum::TimestampTz(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (P::Float4, Datum::Float4(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (P::Float8, Datum::Float8(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (P::Oid, Datum::Oid(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (P::U64, Datum::U64(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (P::TimeTz, Datum::TimeTz(t, z)) => {
            out.extend_from_slice(&t.to_le_bytes());
            out.extend_from_slice(&z.to_le_bytes());
        }
        (P::Interval, Datum::Interval(v)) => put_interval(v, out),
        (P::Uuid, Datum::Uuid(v)) => out.extend_from_slice(v),
        (P::Tid, Datum::Tid(block, slot)) => {
            out.extend_from_slice(&block.to_le_bytes());
            out.extend_from_slice(&slot.to_le_bytes());
        }
        (P::Text, Datum::Text(v)) => put_prefixed(out, v.as_bytes()),
        (P::Padded(_), Datum::Text(v)) => put_prefixed(out, cast::without_padding(v).as_bytes()),
        (P::Bytea, Datum::Bytea(v)) | (P::Jsonb, Datum::Jsonb(v)) => put_prefixed(out, v),
        (P::Numeric, Datum::Numeric(Numeric::Short(v))) => put_short(*v, out),
        (P::Numeric, Datum::Numeric(v)) => {
            let digits = v.digits();
            let bytes = if v.is_finite() { NUMERIC_HEAD + digits.digits().len() * 2 } else { 1 };
            put_varint(out, bytes as u64);
            put_digits(v, &digits, out);
        }
        (P::Inet, Datum::Inet(v)) => {
            let (mut bytes, len) = v.hashed_bytes();
            bytes[0] |= if v.is_cidr { CIDR_BIT } else { 0 };
            put_prefixed(out, &bytes[..len]);
        }
        (P::MacAddr, Datum::MacAddr(v)) => out.extend_from_slice(v),
        (P::MacAddr8, Datum::MacAddr8(v)) => out.extend_from_slice(v),
        (P::Tagged, v) => {
            let mut body = Vec::new();
            put_tagged(v, &mut body);
            put_prefixed(out, &body);
        }
        (storage, value) => {
            return Err(Error::internal(format!("value {value:?} cannot be stored as {storage:?}")));
        }
    }
    Ok(())
}
fn put_interval(v: &Interval, out: &mut Vec<u8>) {
    out.extend_from_slice(&v.micros.to_le_bytes());
    out.extend_from_slice(&v.days.to_le_bytes());
    out.extend_from_slice(&v.months.to_le_bytes());
}
pub(crate) fn put_numeric(v: &Numeric, out: &mut Vec<u8>) {
    put_digits(v, &v.digits(), out);
}
/// Appends a number, of which the digits have been made.
fn put_digits(v: &Numeric, digits: &NumericDigits<'_>, out: &mut Vec<u8>) {
    let head = match v.kind() {
        NumericKind::Finite => u8::from(digits.is_negative),
        NumericKind::NaN => 2,
        NumericKind::PosInf => 3,
        NumericKind::NegInf => 4,
    };
    out.push(head);
    if head <= 1 {
        put_groups((digits.weight, v.dscale() as u16), digits.digits(), out);
    }
}
/// Appends a finite number's weight, scale and digits in base 10000.
fn put_groups((weight, dscale): (i32, u16), groups: &[i16], out: &mut Vec<u8>) {
    out.extend_from_slice(&(weight as i16).to_le_bytes());
    out.extend_from_slice(&dscale.to_le_bytes());
    groups.iter().for_each(|group| out.extend_from_slice(&group.to_le_bytes()));
}
/// Appends what a row has of a short number, its length first.
pub(crate) fn put_short(v: ShortNumeric, out: &mut Vec<u8>) {
    let digits = v.groups();
    let groups = digits.groups();
    put_varint(out, (NUMERIC_HEAD + 2 * groups.len()) as u64);
    out.push(u8::from(v.value() < 0));
    put_groups((digits.weight, u16::from(v.decimals())), groups, out);
}
/// Bytes of a finite number before its digits.
const NUMERIC_HEAD: usize = 1 + 2 + 2;
pub(crate) fn get_numeric(bytes: &[u8]) -> Option<Numeric> {
    let mut r = ByteReader::new(bytes);
    let head = r.u8()?;
    match head {
        0 | 1 => {}
        2 => return r.is_empty().then(Numeric::nan),
        3 => return r.is_empty().then(Numeric::infinity),
        4 => return r.is_empty().then(Numeric::neg_infinity),
        _ => return None,
    }
    let weight = i32::from(r.i16()?);
    let dscale = i32::from(r.u16()?);
    let rest = r.remaining();
    if !rest.len().is_multiple_of(2) {
        return None;
    }
    let digits = rest.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
    Numeric::from_digits(head == 1, weight, dscale, digits)
}

/// The bytes that a value is stored as, which differ where values look different.
pub(crate) fn image(value: &Datum) -> Vec<u8> {
    let mut out = Vec::new();
    put_tagged(value, &mut out);
    out
}

/// Whether two values of one type that compare equal look the same, too.
pub fn looks_the_same(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Text(a), Datum::Text(b)) => a == b,
        (Datum::Numeric(_) | Datum::Float4(_) | Datum::Float8(_) | Datum::Interval(_), _)
        | (Datum::Array(_) | Datum::Record(_) | Datum::Range(_) | Datum::Multirange(_) | Datum::Jsonb(_), _) => {
            image(a) == image(b)
        }
        _ => true,
    }
}

/// Self-describing: a tag, then the value.
fn put_tagged(value: &Datum, out: &mut Vec<u8>) {
    let fixed = |tag: u8, storage: PhysicalType, out: &mut Vec<u8>| {
        out.push(tag);
        // The pair matches by construction.
        let _ = encode_value(storage, value, out);
    };
    use PhysicalType as P;
    match value {
        Datum::Null => out.push(0),
        Datum::Bool(_) => fixed(1, P::Bool, out),
        Datum::Char(_) => fixed(2, P::Char, out),
        Datum::Int2(_) => fixed(3, P::Int2, out),
        Datum::Int4(_) => fixed(4, P::Int4, out),
        Datum::Int8(_) => fixed(5, P::Int8, out),
        Datum::Float4(_) => fixed(6, P::Float4, out),
        Datum::Float8(_) => fixed(7, P::Float8, out),
        Datum::Oid(_) => fixed(8, P::Oid, out),
        Datum::Text(_) => fixed(9, P::Text, out),
        Datum::Bytea(_) => fixed(10, P::Bytea, out),
        Datum::Numeric(_) => fixed(11, P::Numeric, out),
        Datum::Date(_) => fixed(12, P::Date, out),
        Datum::Time(_) => fixed(13, P::Time, out),
        Datum::TimeTz(..) => fixed(14, P::TimeTz, out),
        Datum::Timestamp(_) => fixed(15, P::Timestamp, out),
        Datum::TimestampTz(_) => fixed(16, P::TimestampTz, out),
        Datum::Interval(_) => fixed(17, P::Interval, out),
        Datum::Uuid(_) => fixed(18, P::Uuid, out),
        Datum::Tid(..) => fixed(19, P::Tid, out),
        Datum::U64(_) => fixed(20, P::U64, out),
        Datum::Array(a) => {
            out.push(21);
            out.extend_from_slice(&a.element_type.to_le_bytes());
            out.push(a.dims.len() as u8);
            for (lower, len) in &a.dims {
                out.extend_from_slice(&lower.to_le_bytes());
                out.extend_from_slice(&len.to_le_bytes());
            }
            put_varint(out, a.elements.len() as u64);
            for e in &a.elements {
                put_tagged(e, out);
            }
        }
        Datum::Jsonb(_) => fixed(23, P::Jsonb, out),
        Datum::Record(r) => {
            match &r.names {
                Some(names) => {
                    out.push(24);
                    put_varint(out, names.len() as u64);
                    names.iter().for_each(|n| put_prefixed(out, n.as_bytes()));
                }
                None => out.push(22),
            }
            out.extend_from_slice(&r.type_oid.to_le_bytes());
            put_varint(out, r.fields.len() as u64);
            for (oid, f) in &r.fields {
                out.extend_from_slice(&oid.to_le_bytes());
                put_tagged(f, out);
            }
        }
        Datum::Inet(_) => fixed(INET_TAG, P::Inet, out),
        Datum::MacAddr(_) => fixed(MACADDR_TAG, P::MacAddr, out),
        Datum::MacAddr8(_) => fixed(MACADDR8_TAG, P::MacAddr8, out),
        Datum::Opaque(v) => {
            out.push(OPAQUE_TAG);
            out.extend_from_slice(&v.ty.oid.to_le_bytes());
            put_prefixed(out, &v.bytes);
        }
        Datum::Stored(v) => {
            out.push(STORED_TAG);
            put_prefixed(out, v);
        }
        Datum::AclItem(v) => {
            out.push(ACLITEM_TAG);
            out.extend_from_slice(&v.to_bytes());
        }
        Datum::Range(v) => {
            out.push(RANGE_TAG);
            put_range_type(v.ty, out);
            put_range(v, out);
        }
        Datum::Multirange(v) => {
            out.push(MULTIRANGE_TAG);
            put_range_type(v.ty, out);
            put_varint(out, v.ranges.len() as u64);
            v.ranges.iter().for_each(|r| put_range(r, out));
        }
        Datum::TsVector(v) => {
            let mut body = Vec::new();
            kilndb_fulltext::stored::write(v, &mut body);
            out.push(TSVECTOR_TAG);
            put_prefixed(out, &body);
        }
        Datum::TsQuery(v) => {
            let mut body = Vec::new();
            v.send(&mut body);
            out.push(TSQUERY_TAG);
            put_prefixed(out, &body);
        }
    }
}
const TSVECTOR_TAG: u8 = 38;
/// A tsvector in its binary form alone, as earlier versions stored it.
const PLAIN_TSVECTOR_TAG: u8 = 30;
const TSQUERY_TAG: u8 = 31;
const INET_TAG: u8 = 32;
const MACADDR_TAG: u8 = 33;
const MACADDR8_TAG: u8 = 34;
const RANGE_TAG: u8 = 35;
const MULTIRANGE_TAG: u8 = 36;
const ACLITEM_TAG: u8 = 37;
/// A [`Datum::Stored`], which only temporary files have.
const STORED_TAG: u8 = 39;
/// The type's OID, then the value's bytes, as its descriptor reads them.
const OPAQUE_TAG: u8 = 40;
/// Stands where a built-in range type has its number: the OIDs of another type follow.
const OTHER_RANGE_TYPE: u8 = 255;

fn put_range_type(ty: RangeType, out: &mut Vec<u8>) {
    match range::BUILT_IN.iter().position(|t| *t == ty) {
        Some(at) => out.push(at as u8),
        None => {
            out.push(OTHER_RANGE_TYPE);
            [ty.oid, ty.multirange, ty.subtype].iter().for_each(|oid| out.extend_from_slice(&oid.to_le_bytes()));
        }
    }
}
fn get_range_type(r: &mut ByteReader) -> Option<RangeType> {
    match r.u8()? {
        OTHER_RANGE_TYPE => Some(RangeType { oid: r.u32()?, multirange: r.u32()?, subtype: r.u32()? }),
        at => range::BUILT_IN.get(usize::from(at)).copied(),
    }
}
fn put_range(v: &Range, out: &mut Vec<u8>) {
    out.push(v.flags());
    for bound in v.bounds.iter().flat_map(|(lower, upper)| [lower, upper]).filter(|b| !b.is_infinite()) {
        put_tagged(&bound.value, out);
    }
}
fn get_range(ty: RangeType, r: &mut ByteReader, depth: usize) -> Option<Range> {
    let flags = r.u8()?;
    if flags & range::EMPTY != 0 {
        return (flags == range::EMPTY).then(|| Range::empty(ty));
    }
    let mut value = |absent: u8| {
        if flags & absent != 0 { Some(Datum::Null) } else { get_tagged(r, depth + 1).filter(|v| !v.is_null()) }
    };
    let lower = RangeBound::lower(value(range::LOWER_INFINITE)?, flags & range::LOWER_INCLUSIVE != 0);
    let upper = RangeBound::upper(value(range::UPPER_INFINITE)?, flags & range::UPPER_INCLUSIVE != 0);
    Some(Range { ty, bounds: Some((lower, upper)) })
}

/// The bytes of a value that says its length.
fn get_prefixed<'a>(r: &mut ByteReader<'a>) -> Option<&'a [u8]> {
    let len = usize::try_from(r.varint()?).ok()?;
    r.bytes(len)
}
/// How deep values may nest; stored bytes must not exhaust the stack.
const MAX_DEPTH: usize = 64;

fn get_tagged(r: &mut ByteReader, depth: usize) -> Option<Datum> {
    use PhysicalType as P;
    const FIXED: [PhysicalType; 20] = [
        P::Bool,
        P::Char,
        P::Int2,
        P::Int4,
        P::Int8,
        P::Float4,
        P::Float8,
        P::Oid,
        P::Text,
        P::Bytea,
        P::Numeric,
        P::Date,
        P::Time,
        P::TimeTz,
        P::Timestamp,
        P::TimestampTz,
        P::Interval,
        P::Uuid,
        P::Tid,
        P::U64,
    ];
    if depth > MAX_DEPTH {
        return None;
    }
    match r.u8()? {
        0 => Some(Datum::Null),
        TSVECTOR_TAG => Some(Datum::TsVector(Arc::new(kilndb_fulltext::stored::read(get_prefixed(r)?).ok()?))),
        PLAIN_TSVECTOR_TAG => {
            Some(Datum::TsVector(Arc::new(kilndb_fulltext::TsVector::receive(get_prefixed(r)?).ok()?)))
        }
        TSQUERY_TAG => Some(Datum::TsQuery(Arc::new(kilndb_fulltext::TsQuery::receive(get_prefixed(r)?).ok()?))),
        INET_TAG => get_value(P::Inet, r),
        MACADDR_TAG => get_value(P::MacAddr, r),
        MACADDR8_TAG => get_value(P::MacAddr8, r),
        STORED_TAG => Some(Datum::Stored(get_prefixed(r)?.into())),
        OPAQUE_TAG => OpaqueValue::of_type(r.u32()?, r.prefixed()?),
        ACLITEM_TAG => Some(Datum::AclItem(AclItem::from_bytes(r.bytes(16)?.try_into().ok()?))),
        RANGE_TAG => {
            let ty = get_range_type(r)?;
            get_range(ty, r, depth).map(Range::datum)
        }
        MULTIRANGE_TAG => {
            let ty = get_range_type(r)?;
            let count = r.varint()?;
            let ranges = (0..count).map(|_| get_range(ty, r, depth)).collect::<Option<Vec<Range>>>()?;
            Some(Multirange { ty, ranges }.datum())
        }
        tag @ 1..=20 => get_value(*FIXED.get(usize::from(tag) - 1)?, r),
        21 => {
            let element_type = r.u32()?;
            let ndims = r.u8()?;
            let mut dims = Vec::new();
            for _ in 0..ndims {
                dims.push((r.i32()?, r.u32()?));
            }
            let count = r.varint()?;
            let mut elements = Vec::with_capacity((count as usize).min(r.remaining().len()));
            for _ in 0..count {
                elements.push(get_tagged(r, depth + 1)?);
            }
            let expected =
                if dims.is_empty() { 0 } else { dims.iter().try_fold(1u64, |n, d| n.checked_mul(u64::from(d.1)))? };
            (expected == count).then(|| Datum::Array(Arc::new(Array { element_type, dims, elements })))
        }
        23 => get_value(P::Jsonb, r),
        tag @ (22 | 24) => {
            let names = if tag == 24 {
                let count = r.varint()?;
                let name = |r: &mut ByteReader| Some(std::str::from_utf8(r.prefixed()?).ok()?.to_string());
                Some((0..count).map(|_| name(r)).collect::<Option<Arc<[String]>>>()?)
            } else {
                None
            };
            let type_oid = r.u32()?;
            let count = r.varint()?;
            let mut fields = Vec::with_capacity((count as usize).min(r.remaining().len()));
            for _ in 0..count {
                let oid = r.u32()?;
                fields.push((oid, get_tagged(r, depth + 1)?));
            }
            Some(Datum::Record(Arc::new(Record { type_oid, fields, names })))
        }
        _ => None,
    }
}
#[inline]
fn get_value(storage: PhysicalType, r: &mut ByteReader) -> Option<Datum> {
    // By far the most frequent.
    if storage == PhysicalType::Int4 {
        return Some(Datum::Int4(r.i32()?));
    }
    get_other(storage, r)
}
/// Reads a value to where NULL is, the most frequent ones without a detour.
#[inline]
fn fill_value(storage: PhysicalType, r: &mut ByteReader, to: &mut Datum) -> Option<()> {
    use PhysicalType as P;
    match storage {
        P::Int4 => to.fill(Datum::Int4(r.i32()?)),
        P::Int8 => to.fill(Datum::Int8(r.i64()?)),
        P::Text => to.fill(Datum::Text(Arc::from(std::str::from_utf8(r.prefixed()?).ok()?))),
        P::Date => to.fill(Datum::Date(r.i32()?)),
        P::Timestamp => to.fill(Datum::Timestamp(r.i64()?)),
        P::TimestampTz => to.fill(Datum::TimestampTz(r.i64()?)),
        P::Float8 => to.fill(Datum::Float8(f64::from_bits(r.u64()?))),
        P::Numeric => {
            let bytes = r.prefixed()?;
            match short_numeric(bytes) {
                Some(number) => to.fill(Datum::Numeric(Numeric::Short(number))),
                None => to.fill(Datum::Numeric(get_numeric(bytes)?)),
            }
        }
        other => to.fill(get_other(other, r)?),
    }
    Some(())
}
/// Reads what is wanted of a column to where NULL is.
#[inline(always)]
fn fill_wanted(column: &ColumnLayout, want: ColumnFetch, r: &mut ByteReader, to: &mut Datum) -> Option<()> {
    if want == ColumnFetch::Value && column.shape.is_none() {
        return fill_value(column.storage, r, to);
    }
    to.fill(get_wanted(column, want, r)?);
    Some(())
}
/// A stored number of few digits.
#[inline(always)]
fn short_numeric(bytes: &[u8]) -> Option<ShortNumeric> {
    let (head, digits) = bytes.split_first_chunk::<5>()?;
    let (weight, dscale) = (i16::from_le_bytes([head[1], head[2]]), u16::from_le_bytes([head[3], head[4]]));
    (head[0] <= 1).then(|| Numeric::stored_plain(head[0] == 1, i32::from(weight), i32::from(dscale), digits))?
}
fn get_other(storage: PhysicalType, r: &mut ByteReader) -> Option<Datum> {
    use PhysicalType as P;
    Some(match storage {
        P::Bool => match r.u8()? {
            0 => Datum::Bool(false),
            1 => Datum::Bool(true),
            _ => return None,
        },
        P::Char => Datum::Char(r.u8()?),
        P::Int2 => Datum::Int2(r.i16()?),
        P::Int4 => Datum::Int4(r.i32()?),
        P::Date => Datum::Date(r.i32()?),
        P::Int8 => Datum::Int8(r.i64()?),
        P::Time => Datum::Time(r.i64()?),
        P::Timestamp => Datum::Timestamp(r.i64()?),
        P::TimestampTz => Datum::TimestampTz(r.i64()?),
        P::Float4 => Datum::Float4(f32::from_bits(r.u32()?)),
        P::Float8 => Datum::Float8(f64::from_bits(r.u64()?)),
        P::Oid => Datum::Oid(r.u32()?),
        P::U64 => Datum::U64(r.u64()?),
        P::TimeTz => Datum::TimeTz(r.i64()?, r.i32()?),
        P::Interval => {
            let micros = r.i64()?;
            let days = r.i32()?;
            let months = r.i32()?;
            Datum::Interval(Arc::new(Interval { months, days, micros }))
        }
        P::Uuid => Datum::Uuid(r.bytes(16)?.try_into().ok()?),
        P::Tid => Datum::Tid(r.u32()?, r.u16()?),
        P::Text => Datum::Text(Arc::from(std::str::from_utf8(r.prefixed()?).ok()?)),
        P::Padded(length) => Datum::Text(cast::padded(std::str::from_utf8(r.prefixed()?).ok()?, length as usize)),
        P::Bytea => Datum::Bytea(Arc::from(r.prefixed()?)),
        P::Jsonb => Datum::Jsonb(Arc::from(r.prefixed()?)),
        P::Numeric => Datum::Numeric(get_numeric(r.prefixed()?)?),
        P::Inet => Datum::Inet(get_inet(r.prefixed()?)?),
        P::MacAddr => Datum::MacAddr(r.bytes(6)?.try_into().ok()?),
        P::MacAddr8 => Datum::MacAddr8(r.bytes(8)?.try_into().ok()?),
        P::Tagged => {
            let mut inner = ByteReader::new(r.prefixed()?);
            let v = get_tagged(&mut inner, 0)?;
            if !inner.is_empty() {
                return None;
            }
            v
        }
    })
}
/// Beside the family: a cidr.
const CIDR_BIT: u8 = 0x80;

/// Family, mask length, address.
fn get_inet(bytes: &[u8]) -> Option<Inet> {
    let (head, address) = bytes.split_first_chunk::<2>()?;
    let family = head[0] & !CIDR_BIT;
    let mut value = Inet::new(family == 3).as_cidr(head[0] & CIDR_BIT != 0);
    if family != value.family_byte() || head[1] > value.max_bits() || address.len() != value.bytes().len() {
        return None;
    }
    value.bits = head[1];
    value.bytes_mut().copy_from_slice(address);
    Some(value)
}
fn skip_value(storage: PhysicalType, r: &mut ByteReader) -> Option<()> {
    match storage.width() {
        Some(width) => r.bytes(width)?,
        None => r.prefixed()?,
    };
    Some(())
}

struct Header<'a> {
    count: usize,
    nulls: &'a [u8],
}
impl Header<'_> {
    fn is_null(&self, i: usize) -> bool {
        !self.nulls.is_empty() && self.nulls[i / 8] >> (i % 8) & 1 == 1
    }
}
fn header<'a>(r: &mut ByteReader<'a>) -> Option<Header<'a>> {
    let head = r.varint()?;
    let count = usize::try_from(head >> 1).ok()?;
    let nulls = if head & 1 == 1 { r.bytes(count.div_ceil(8))? } else { &[] };
    Some(Header { count, nulls })
}

#[inline(always)]
fn get_wanted(column: &ColumnLayout, want: ColumnFetch, r: &mut ByteReader<'_>) -> Option<Datum> {
    if want != ColumnFetch::Stored {
        let value = get_value(column.storage, r)?;
        return Some(match &column.shape {
            None => value,
            Some(shape) => shape.read(value),
        });
    }
    let bytes = r.remaining();
    skip_value(column.storage, r)?;
    Some(Datum::Stored(bytes[..bytes.len() - r.remaining().len()].into()))
}
/// Appends exactly one datum per described column: NULL where a column is not needed or not stored.
pub fn decode_row(
    desc: &RowDescriptor,
    bytes: &[u8],
    needed: Option<&[ColumnFetch]>,
    out: &mut Vec<Datum>,
) -> Result<()> {
    let mut r = ByteReader::new(bytes);
    let head = header(&mut r).ok_or_else(corrupted)?;
    if head.count > desc.columns.len() {
        return Err(corrupted());
    }
    // Behind the last needed column nothing has to be walked over.
    let last = needed
        .map_or(head.count, |n| n.iter().rposition(|x| *x != ColumnFetch::Nothing).map_or(0, |i| i + 1))
        .min(head.count);
    let start = out.len();
    out.resize_with(start + desc.columns.len(), Datum::default);
    for ((i, column), to) in desc.columns.iter().enumerate().take(last).zip(&mut out[start..]) {
        let want = needed.map_or(ColumnFetch::Value, |n| n.get(i).copied().unwrap_or_default());
        if head.is_null(i) {
            continue;
        }
        match want {
            ColumnFetch::Nothing => skip_value(column.storage, &mut r).ok_or_else(corrupted)?,
            want => fill_wanted(column, want, &mut r, to).ok_or_else(corrupted)?,
        }
    }
    if needed.is_none() && !r.is_empty() {
        return Err(corrupted());
    }
    Ok(())
}
/// Appends the needed columns only, if the row was stored with all columns that are described; false: it was not, and
/// nothing is appended.
pub fn decode_needed(desc: &RowDescriptor, bytes: &[u8], needed: &[ColumnFetch], out: &mut Vec<Datum>) -> Result<bool> {
    let mut r = ByteReader::new(bytes);
    let head = header(&mut r).ok_or_else(corrupted)?;
    if head.count != desc.columns.len() {
        return Ok(false);
    }
    let wanted = needed.iter().filter(|n| **n != ColumnFetch::Nothing).count();
    let start = out.len();
    out.resize_with(start + wanted, Datum::default);
    let mut places = out[start..].iter_mut();
    for (i, (column, want)) in desc.columns.iter().zip(needed).enumerate() {
        if *want == ColumnFetch::Nothing {
            // Behind the last needed column nothing has to be walked over.
            if places.len() == 0 {
                break;
            }
            if !head.is_null(i) {
                skip_value(column.storage, &mut r).ok_or_else(corrupted)?;
            }
        } else if let Some(to) = places.next()
            && !head.is_null(i)
        {
            fill_wanted(column, *want, &mut r, to).ok_or_else(corrupted)?;
        }
    }
    Ok(true)
}
/// Values without a description beside them, as temporary files hold them.
pub fn encode_self_describing(values: &[Datum], out: &mut Vec<u8>) {
    values.iter().for_each(|v| put_tagged(v, out));
}
/// Appends the `count` values that `bytes` consists of.
pub fn decode_self_describing(bytes: &[u8], count: usize, out: &mut Vec<Datum>) -> Result<()> {
    let mut r = ByteReader::new(bytes);
    for _ in 0..count {
        out.push(get_tagged(&mut r, 0).ok_or_else(corrupted)?);
    }
    if r.is_empty() { Ok(()) } else { Err(corrupted()) }
}
/// Appends where each column's value begins in a stored row, [`NO_VALUE`] for one that is NULL or not stored: with
/// that, [`decode_at`] and [`text_at`] read single columns without walking over those before. All of the row is looked
/// at except for what is behind the length of a value of variable length.
pub fn column_starts(desc: &RowDescriptor, bytes: &[u8], starts: &mut Vec<u32>) -> Result<()> {
    let mut r = ByteReader::new(bytes);
    let head = header(&mut r).ok_or_else(corrupted)?;
    if head.count > desc.columns.len() {
        return Err(corrupted());
    }
    starts.reserve(desc.columns.len());
    for (i, column) in desc.columns.iter().enumerate().take(head.count) {
        if head.is_null(i) {
            starts.push(NO_VALUE);
        } else {
            starts.push((bytes.len() - r.remaining().len()) as u32);
            skip_value(column.storage, &mut r).ok_or_else(corrupted)?;
        }
    }
    if !r.is_empty() {
        return Err(corrupted());
    }
    starts.extend(desc.columns.iter().skip(head.count).map(|_| NO_VALUE));
    Ok(())
}
/// What [`column_starts`] has for a column without a value. No row is that long.
pub const NO_VALUE: u32 = u32::MAX;
/// The value of a column that begins at `start` in a stored row ([`column_starts`]).
pub fn decode_at(column: &ColumnLayout, bytes: &[u8], start: u32) -> Result<Datum> {
    if start == NO_VALUE {
        return Ok(Datum::Null);
    }
    decode_wanted_at(column, bytes.get(start as usize..).ok_or_else(corrupted)?)
}
/// The value of a column that `bytes` begin with.
pub(crate) fn decode_wanted_at(column: &ColumnLayout, bytes: &[u8]) -> Result<Datum> {
    get_wanted(column, ColumnFetch::Value, &mut ByteReader::new(bytes)).ok_or_else(corrupted)
}
/// A stored numeric; None: it is no short one.
#[inline]
pub(crate) fn stored_short(bytes: &[u8]) -> Option<ShortNumeric> {
    if let Some(number) = short_numeric(bytes) {
        return Some(number);
    }
    match get_numeric(bytes)? {
        Numeric::Short(number) => Some(number),
        Numeric::Grouped(_) => None,
    }
}
/// The text of a column of [`PhysicalType::Text`] that begins at `start`, in place.
pub fn text_at(bytes: &[u8], start: u32) -> Result<&str> {
    let bytes = bytes.get(start as usize..).ok_or_else(corrupted)?;
    let text = ByteReader::new(bytes).prefixed().ok_or_else(corrupted)?;
    std::str::from_utf8(text).map_err(|_| corrupted())
}
/// Reads one column of a stored row; NULL if the row was stored without it.
pub fn decode_column(desc: &RowDescriptor, bytes: &[u8], index: usize) -> Result<Datum> {
    let mut r = ByteReader::new(bytes);
    let head = header(&mut r).ok_or_else(corrupted)?;
    if head.count > desc.columns.len() {
        return Err(corrupted());
    }
    if index >= head.count || head.is_null(index) {
        return Ok(Datum::Null);
    }
    for (i, column) in desc.columns.iter().enumerate().take(index) {
        if !head.is_null(i) {
            skip_value(column.storage, &mut r).ok_or_else(corrupted)?;
        }
    }
    let column = desc.columns.get(index).ok_or_else(corrupted)?;
    get_wanted(column, ColumnFetch::Value, &mut r).ok_or_else(corrupted)
}
/// A tsvector column as it is stored.
pub enum StoredVector<'a> {
    Null,
    /// The column was added after the row was stored.
    Missing,
    /// The bytes that [`kilndb_fulltext::stored`] searches.
    Bytes(&'a [u8]),
    /// The bytes that a client would get.
    Plain(&'a [u8]),
}
pub fn stored_vector<'a>(desc: &RowDescriptor, bytes: &'a [u8], index: usize) -> Result<StoredVector<'a>> {
    let mut r = ByteReader::new(bytes);
    let head = header(&mut r).ok_or_else(corrupted)?;
    if head.count > desc.columns.len() {
        return Err(corrupted());
    }
    if index >= head.count {
        return Ok(StoredVector::Missing);
    }
    if head.is_null(index) {
        return Ok(StoredVector::Null);
    }
    for (i, column) in desc.columns.iter().enumerate().take(index) {
        if !head.is_null(i) {
            skip_value(column.storage, &mut r).ok_or_else(corrupted)?;
        }
    }
    let mut inner = ByteReader::new(r.prefixed().ok_or_else(corrupted)?);
    match inner.u8() {
        Some(TSVECTOR_TAG) => Ok(StoredVector::Bytes(inner.prefixed().ok_or_else(corrupted)?)),
        Some(PLAIN_TSVECTOR_TAG) => Ok(StoredVector::Plain(inner.prefixed().ok_or_else(corrupted)?)),
        _ => Err(corrupted()),
    }
}
/// How many columns the row was stored with.
pub fn stored_column_count(bytes: &[u8]) -> Result<usize> {
    Ok(header(&mut ByteReader::new(bytes)).ok_or_else(corrupted)?.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oids;
    fn sample() -> (RowDescriptor, Vec<Datum>) {
        let desc = RowDescriptor::new(&[oids::INT4, oids::TEXT, oids::NUMERIC, oids::INT4_ARRAY, oids::INT8]).unwrap();
        let array = Array { element_type: oids::INT4, dims: vec![(1, 2)], elements: vec![Datum::Int4(7), Datum::Null] };
        let values = vec![
            Datum::Int4(42),
            Datum::text("héllo"),
            Datum::Numeric(Numeric::parse("-12345.6700").unwrap()),
            Datum::Array(Arc::new(array)),
            Datum::Null,
        ];
        (desc, values)
    }
    #[test]
    fn rows_come_back() {
        let (desc, values) = sample();
        let mut bytes = Vec::new();
        encode_row(&desc, &values, &mut bytes).unwrap();
        let mut back = Vec::new();
        decode_row(&desc, &bytes, None, &mut back).unwrap();
        assert_eq!(format!("{values:?}"), format!("{back:?}"));
        back.clear();
        decode_row(&desc, &bytes, Some(&[ColumnFetch::Nothing, ColumnFetch::Value]), &mut back).unwrap();
        assert_eq!(back.len(), 5);
        assert!(back[0].is_null() && !back[1].is_null() && back[2].is_null());
        assert!(
            matches!(decode_column(&desc, &bytes, 2).unwrap(), Datum::Numeric(n) if n.to_string() == "-12345.6700")
        );
        assert_eq!(stored_column_count(&bytes).unwrap(), 5);
    }
    #[test]
    fn self_describing_rows_come_back() {
        let (_, values) = sample();
        let mut bytes = Vec::new();
        encode_self_describing(&values, &mut bytes);
        let mut back = Vec::new();
        decode_self_describing(&bytes, values.len(), &mut back).unwrap();
        assert_eq!(format!("{values:?}"), format!("{back:?}"));
        assert!(decode_self_describing(&bytes, values.len() - 1, &mut back).is_err());
        assert!(decode_self_describing(&bytes[1..], values.len(), &mut back).is_err());
    }
    #[test]
    fn damage_is_reported() {
        let (desc, values) = sample();
        let mut bytes = Vec::new();
        encode_row(&desc, &values, &mut bytes).unwrap();
        for cut in 0..bytes.len() {
            assert!(decode_row(&desc, &bytes[..cut], None, &mut Vec::new()).is_err());
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let _ = decode_row(&desc, &damaged, None, &mut Vec::new());
            }
        }
    }
}
