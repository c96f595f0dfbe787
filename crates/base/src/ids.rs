//! Identifiers shared by the layers. All are plain numbers with a type of their own.

use std::fmt;

/// A PostgreSQL object identifier.
pub type Oid = u32;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// Log sequence number: a byte offset in the log. 0 is before every record.
    Lsn, u64);
number_id!(
    /// Commit sequence number. A snapshot is one: it sees every commit with a smaller or equal number.
    Csn, u64);
number_id!(
    /// Transaction id, 64 bits, never reused. 0 is "none".
    Xid, u64);
number_id!(
    /// A page of the one address space: the page's offset in it, counted in pages. 0 is never a data page.
    PageId, u32);
number_id!(
    /// A storage relation (a heap or an index), what PostgreSQL calls a relfilenode.
    RelationId, u32);

/// Where a row lives, for its whole life: `block` counts the pages of its relation, `slot` counts from 1.
/// SQL shows it as `ctid`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct RowId {
    pub block: u32,
    pub slot: u16,
}

impl RowId {
    /// 48 bits, ordered like the row id itself.
    pub fn to_u64(self) -> u64 {
        (u64::from(self.block) << 16) | u64::from(self.slot)
    }
    pub fn from_u64(v: u64) -> RowId {
        RowId { block: (v >> 16) as u32, slot: v as u16 }
    }
}
