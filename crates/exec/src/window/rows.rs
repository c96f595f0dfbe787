//! The rows of a partition, or of the part of it that is kept.
//!
//! Invariants
//! 1. Rows are read by their number, which is that of the first one that is kept plus their distance from it.
//! 2. Where a budget was given, no more than that is in memory, but for the row that was added last and one for each
//!    reader; what is beyond is in a temporary file.

use kilndb_base::Result;
use kilndb_spill::{RowStore, SpillIo, StoreCursor, row_bytes};
use kilndb_types::Datum;

pub(super) struct PartitionRows {
    /// The number of values of one row.
    width: usize,
    values: Vec<Datum>,
    /// How many rows are in `values`, and about how many bytes; the bytes are counted where there is a budget.
    in_memory: usize,
    used_bytes: usize,
    /// The rows behind those in memory.
    beyond: Option<Box<RowStore>>,
    /// The row that was added last, if it is not in memory.
    last: Vec<Datum>,
}

impl PartitionRows {
    pub fn new(width: usize) -> PartitionRows {
        PartitionRows { width, values: Vec::new(), in_memory: 0, used_bytes: 0, beyond: None, last: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.in_memory + self.beyond.as_ref().map_or(0, |rows| rows.len())
    }
    /// Are there rows in a file?
    pub fn is_spilled(&self) -> bool {
        self.beyond.is_some()
    }

    /// Adds a row, whose values nobody needs any more. Beyond the budget, if there is one, it goes to the file.
    pub fn push(&mut self, row: &mut [Datum], budget_bytes: Option<usize>, io: SpillIo<'_>) -> Result<()> {
        if let Some(budget_bytes) = budget_bytes {
            self.used_bytes += row_bytes(row);
            // The store of those beyond has an eighth, for what it writes and reads at once.
            let of_store = budget_bytes / 8;
            if self.is_spilled() || self.in_memory > 0 && self.used_bytes > budget_bytes - of_store {
                let beyond = self.beyond.get_or_insert_with(|| Box::new(RowStore::new(self.width, of_store)));
                beyond.push(row, io)?;
                self.last.clear();
                move_values(row, &mut self.last);
                return Ok(());
            }
        }
        move_values(row, &mut self.values);
        self.in_memory += 1;
        Ok(())
    }

    /// The row that was added last.
    pub fn last(&self) -> Option<&[Datum]> {
        if self.is_spilled() {
            return Some(&self.last);
        }
        let at = self.in_memory.checked_sub(1)?;
        self.values.get(at * self.width..)
    }

    /// Row number `n`, which must be there.
    pub fn row<'s>(&'s self, n: usize, reader: &'s mut StoreCursor, io: SpillIo<'_>) -> Result<&'s [Datum]> {
        if n < self.in_memory {
            return Ok(self.values.get(n * self.width..(n + 1) * self.width).unwrap_or(&[]));
        }
        match &self.beyond {
            Some(beyond) => beyond.row(n - self.in_memory, reader, io),
            None => Ok(&[]),
        }
    }

    /// Moves the values of a row in memory to the end of `out`: nobody looks at it again.
    pub fn take(&mut self, n: usize, out: &mut Vec<Datum>) {
        move_values(self.values.get_mut(n * self.width..(n + 1) * self.width).unwrap_or(&mut []), out);
    }

    /// The first rows go. Of rows in a file all do, or none.
    pub fn forget(&mut self, rows: usize) {
        if rows < self.in_memory {
            self.values.drain(..rows * self.width);
            self.in_memory -= rows;
        } else {
            self.clear();
        }
    }
    pub fn clear(&mut self) {
        self.values.clear();
        (self.in_memory, self.used_bytes) = (0, 0);
        self.beyond = None;
        self.last.clear();
    }
}

/// Nobody looks at the row again, so its values need not be copied.
pub(super) fn move_values(row: &mut [Datum], to: &mut Vec<Datum>) {
    to.extend(row.iter_mut().map(std::mem::take));
}
