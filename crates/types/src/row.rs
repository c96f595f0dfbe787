//! The stored row format; docs/format-row.md draws it byte by byte.
use crate::Datum;
use kilndb_base::{Error, Oid, Result};

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
    Bytea,
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
    Array,
    Record,
}
#[derive(Clone, Debug)]
pub struct RowDescriptor {
    pub columns: Vec<ColumnLayout>,
}
#[derive(Clone, Debug)]
pub struct ColumnLayout {
    pub type_oid: Oid,
    pub storage: PhysicalType,
}
impl RowDescriptor {
    pub fn new(type_oids: &[Oid]) -> Result<RowDescriptor> {
        let _ = type_oids;
        Err(Error::unsupported("rows"))
    }
}
pub fn encode_row(desc: &RowDescriptor, values: &[Datum], out: &mut Vec<u8>) -> Result<()> {
    let _ = (desc, values, out);
    Err(Error::unsupported("rows"))
}
pub fn decode_row(desc: &RowDescriptor, bytes: &[u8], needed: Option<&[bool]>, out: &mut Vec<Datum>) -> Result<()> {
    let _ = (desc, bytes, needed, out);
    Err(Error::unsupported("rows"))
}
pub fn decode_column(desc: &RowDescriptor, bytes: &[u8], index: usize) -> Result<Datum> {
    let _ = (desc, bytes, index);
    Err(Error::unsupported("rows"))
}
pub fn stored_column_count(bytes: &[u8]) -> Result<usize> {
    let _ = bytes;
    Err(Error::unsupported("rows"))
}
