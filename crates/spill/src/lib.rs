//! Rows that do not fit in memory: temporary files, partitions by hash, sorting, kept rows, sets of keys.
//! docs/decisions/0007-spilling.md says which operations use what.
//!
//! Invariants
//! 1. A temporary file is made at the first write that does not fit its buffer, and gone when its owner is.
//! 2. No read or write is larger than [`STEP_BYTES`]; between two of them the statement may give way or be cancelled.
//! 3. Memory used stays near the budget given, whatever the number of rows (one row is always held whole).
//!
//! Must not know: plans, expressions, transactions, catalogs, sessions. Of storage it knows the counters of accesses alone.

mod file;
mod hash;
mod key_filter;
mod key_set;
mod partition;
mod sorter;
mod store;

pub use file::{RemovedFile, STEP_BYTES, SpillCursor, SpillFile, SpillIo, TempSpace};
pub use hash::ByteHasher;
pub use key_filter::KeyFilter;
pub use key_set::KeySet;
pub use partition::SpillPartitions;
pub use sorter::{SortBudget, Sorter};
pub use store::{RowStore, StoreCursor};

use kilndb_types::Datum;

/// The bytes that a value takes in memory: its place in a row, and what it points to.
pub(crate) fn datum_bytes(d: &Datum) -> usize {
    /// The bytes of a shared allocation's counters and padding.
    const SHARED: usize = 32;
    let pointed = match d {
        Datum::Text(t) => t.len() + SHARED,
        Datum::Bytea(b) => b.len() + SHARED,
        Datum::Numeric(n) => match n.pointed_bytes() {
            0 => 0,
            bytes => bytes + SHARED,
        },
        Datum::Interval(_) => 16 + SHARED,
        Datum::Array(a) => a.elements.iter().map(datum_bytes).sum::<usize>() + 48 + SHARED,
        Datum::Record(r) => r.fields.iter().map(|f| datum_bytes(&f.1) + 8).sum::<usize>() + 32 + SHARED,
        _ => 0,
    };
    size_of::<Datum>() + pointed
}

pub fn row_bytes(row: &[Datum]) -> usize {
    row.iter().map(datum_bytes).sum()
}
