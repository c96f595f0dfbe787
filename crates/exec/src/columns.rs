//! Rows as columns, between operators.

use kilndb_types::vector::{Rows, Vector};

/// Some rows, each column of them in a vector.
#[derive(Default)]
pub(crate) struct ColumnBatch {
    /// Only the columns that were asked for have values.
    pub columns: Vec<Vector>,
    positions: usize,
    /// The positions that have rows, unless all have.
    list: Vec<u32>,
}

impl ColumnBatch {
    pub fn clear(&mut self) {
        self.positions = 0;
        self.list.clear();
    }
    /// Has the rows of a list, whose memory changes hands, of so many positions.
    pub fn take_rows(&mut self, list: &mut Vec<u32>, positions: usize) {
        self.positions = positions;
        std::mem::swap(&mut self.list, list);
    }
    /// The columns, and which rows they have.
    pub fn parts(&mut self) -> (&mut [Vector], Rows<'_>) {
        let rows = match self.list.len() == self.positions {
            true => Rows::All(self.positions),
            false => Rows::Listed(&self.list, self.positions),
        };
        (&mut self.columns, rows)
    }
    pub fn rows(&self) -> Rows<'_> {
        match self.list.len() == self.positions {
            true => Rows::All(self.positions),
            false => Rows::Listed(&self.list, self.positions),
        }
    }
}
