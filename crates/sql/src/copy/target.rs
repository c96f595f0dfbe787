//! Where COPY FROM writes the values of a row: to a batch of rows, or to columns.
//!
//! Must not know: how values are written in the input.

use kilndb_base::{Error, Result};
use kilndb_exec::Batch;
use kilndb_types::io::WrittenColumn;
use kilndb_types::vector::Vector;
use kilndb_types::{Datum, EvalContext};

/// The rows that are read. A row is begun, its values are written in the order of the columns or left out, which are NULL
/// then, and it is ended. One that is not ended is none.
pub(super) trait ReadTarget {
    fn begin_row(&mut self, columns: usize);
    /// The value is NULL.
    fn put_null(&mut self, at: usize);
    fn put_text(&mut self, at: usize, of: &WrittenColumn, text: &str, eval: &EvalContext<'_>) -> Result<()>;
    fn put_message(&mut self, at: usize, of: &WrittenColumn, bytes: &[u8], eval: &EvalContext<'_>) -> Result<()>;
    fn end_row(&mut self);
}

impl ReadTarget for Batch {
    fn begin_row(&mut self, columns: usize) {
        self.cancel_row();
        self.data.resize_with(self.data.len() + columns, Datum::default);
    }
    fn put_null(&mut self, _: usize) {}
    #[inline]
    fn put_text(&mut self, at: usize, of: &WrittenColumn, text: &str, eval: &EvalContext<'_>) -> Result<()> {
        of.put_text_value(text, eval, unfinished(self, at)?)
    }
    #[inline]
    fn put_message(&mut self, at: usize, of: &WrittenColumn, bytes: &[u8], eval: &EvalContext<'_>) -> Result<()> {
        of.put_message_value(bytes, eval, unfinished(self, at)?)
    }
    fn end_row(&mut self) {
        Batch::end_row(self);
    }
}

/// The place of a value of the row that is not ended.
fn unfinished(batch: &mut Batch, at: usize) -> Result<&mut Datum> {
    let first = batch.rows * batch.width;
    batch.data.get_mut(first + at).ok_or_else(missing)
}

fn missing() -> Error {
    Error::internal("COPY reads more columns than are wanted")
}

/// Columns that are filled from the first position on.
pub(super) struct FilledColumns<'a> {
    pub columns: &'a mut [Vector],
    /// How many rows there are.
    pub rows: usize,
}

impl ReadTarget for FilledColumns<'_> {
    fn begin_row(&mut self, _: usize) {}
    fn put_null(&mut self, at: usize) {
        if let Some(column) = self.columns.get_mut(at) {
            column.put(self.rows, Datum::Null);
        }
    }
    #[inline]
    fn put_text(&mut self, at: usize, of: &WrittenColumn, text: &str, eval: &EvalContext<'_>) -> Result<()> {
        of.put_text(text, eval, self.rows, self.columns.get_mut(at).ok_or_else(missing)?)
    }
    #[inline]
    fn put_message(&mut self, at: usize, of: &WrittenColumn, bytes: &[u8], eval: &EvalContext<'_>) -> Result<()> {
        of.put_message(bytes, eval, self.rows, self.columns.get_mut(at).ok_or_else(missing)?)
    }
    fn end_row(&mut self) {
        self.rows += 1;
    }
}
