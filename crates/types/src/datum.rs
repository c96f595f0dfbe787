//! One SQL value. Which type it belongs to is known from outside (a type OID beside it): the variant says
//! how the value is held, and several types share one (text, varchar, bpchar, name, json, unknown: `Text`).

use crate::acl::AclItem;
use crate::network::Inet;
use crate::numeric::Numeric;
use crate::range::{Multirange, Range};
use crate::types::OpaqueValue;
use kilndb_base::Oid;
use kilndb_fulltext::{TsQuery, TsVector};
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub enum Datum {
    #[default]
    Null,
    Bool(bool),
    /// The one-byte type `"char"`.
    Char(u8),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    /// oid, xid, cid and the reg… types.
    Oid(Oid),
    /// text, varchar, bpchar (with its blanks), name, cstring, unknown, json, xml.
    Text(Arc<str>),
    Bytea(Arc<[u8]>),
    Numeric(Numeric),
    /// Days since 2000-01-01; i32::MIN / MAX are -infinity / infinity.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since midnight, zone in seconds west of UTC.
    TimeTz(i64, i32),
    /// Microseconds since 2000-01-01; i64::MIN / MAX are -infinity / infinity.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 in UTC.
    TimestampTz(i64),
    Interval(Arc<Interval>),
    Uuid([u8; 16]),
    /// jsonb, as [`crate::json::binary`] writes it.
    Jsonb(Arc<[u8]>),
    /// Block and slot.
    Tid(u32, u16),
    /// xid8, pg_lsn, bit-sized things held in 64 bits.
    U64(u64),
    Array(Arc<Array>),
    /// A composite value.
    Record(Arc<Record>),
    TsVector(Arc<TsVector>),
    TsQuery(Arc<TsQuery>),
    /// inet and cidr.
    Inet(Inet),
    MacAddr([u8; 6]),
    MacAddr8([u8; 8]),
    Range(Arc<Range>),
    Multirange(Arc<Multirange>),
    AclItem(AclItem),
    /// A value that its type's descriptor alone knows.
    Opaque(Arc<OpaqueValue>),
    /// A column as it is stored, with its length, for the next version of its row: nobody looks at the value.
    Stored(Arc<[u8]>),
}

/// [`Datum::Stored`] where a value is wanted.
#[cold]
pub(crate) fn not_decoded() -> kilndb_base::Error {
    kilndb_base::Error::internal("a column that was not decoded is looked at")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

/// An array, int2vector or oidvector. Elements are in row-major order.
#[derive(Clone, Debug)]
pub struct Array {
    pub element_type: Oid,
    /// (lower bound, length) per dimension; empty for the empty array.
    pub dims: Vec<(i32, u32)>,
    pub elements: Vec<Datum>,
}

#[derive(Clone, Debug)]
pub struct Record {
    /// The composite type, or RECORD (2249).
    pub type_oid: Oid,
    pub fields: Vec<(Oid, Datum)>,
    /// Names of the fields, where no type says them.
    pub names: Option<Arc<[String]>>,
}

const _: () = assert!(size_of::<Datum>() <= 24);

impl Datum {
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
    /// Puts a value where NULL is. Nothing is dropped, so the value is not made elsewhere and moved: it would be written in
    /// narrow pieces and read in wide ones, which processors wait for.
    #[inline(always)]
    pub(crate) fn fill(&mut self, value: Datum) {
        debug_assert!(self.is_null());
        std::mem::forget(std::mem::replace(self, value));
    }
    pub fn text(s: impl AsRef<str>) -> Datum {
        Datum::Text(Arc::from(s.as_ref()))
    }
}
