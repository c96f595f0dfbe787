//! The client that commands within a routine talk to: it keeps the rows for the routine.

use super::language::{RowColumn, TupleDescriptor};
use crate::client::{Client, CopyStream, FieldInfo, Remarks};
use kilndb_base::{Error, Oid, Result};
use kilndb_exec::RowSink;
use kilndb_types::{Datum, oids};

/// Commands that answer with rows (SHOW, EXPLAIN) do so with texts; others hand their values over as they are.
pub(super) struct Collector<'a> {
    sink: &'a mut dyn RowSink,
    row: Option<TupleDescriptor>,
    rows: u64,
}

impl<'a> Collector<'a> {
    pub fn new(sink: &'a mut dyn RowSink) -> Collector<'a> {
        Collector { sink, row: None, rows: 0 }
    }
    pub fn into_parts(self) -> (Option<TupleDescriptor>, u64) {
        (self.row, self.rows)
    }
}

fn no_copy() -> Error {
    Error::unsupported("cannot COPY to/from client in PL/pgSQL")
}

impl Client for Collector<'_> {
    fn row_description(&mut self, fields: &[FieldInfo<'_>]) {
        let columns = fields
            .iter()
            .map(|f| RowColumn { name: f.name.to_string(), type_oid: f.type_oid, typmod: f.typmod })
            .collect();
        self.row = Some(TupleDescriptor { type_oid: oids::RECORD, columns });
    }
    fn no_data(&mut self) {}
    fn parameter_description(&mut self, _types: &[Oid]) {}
    fn data_row(&mut self, count: usize, write: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<bool>) -> Result<()> {
        let mut values = Vec::with_capacity(count);
        let mut bytes = Vec::new();
        for i in 0..count {
            bytes.clear();
            let has_value = write(i, &mut bytes)?;
            values.push(if has_value { Datum::text(String::from_utf8_lossy(&bytes)) } else { Datum::Null });
        }
        self.rows += 1;
        self.sink.row(&values)
    }
    fn command_complete(&mut self, _tag: &str) {}
    fn empty_query(&mut self) {}
    fn portal_suspended(&mut self) {}
}

impl Remarks for Collector<'_> {
    fn notice(&mut self, _notice: &Error) {}
    fn parameter_status(&mut self, _name: &str, _value: &str) {}
    fn notification(&mut self, _process_id: i32, _channel: &str, _payload: &str) {}
    fn throttle(&mut self) -> Result<()> {
        Ok(())
    }
}

impl CopyStream for Collector<'_> {
    fn copy_in_begin(&mut self, _binary: bool, _columns: usize) -> Result<()> {
        Err(no_copy())
    }
    fn copy_in_read(&mut self, _data: &mut Vec<u8>) -> Result<bool> {
        Err(no_copy())
    }
    fn copy_out_begin(&mut self, _binary: bool, _columns: usize) {}
    fn copy_out_data(&mut self, _data: &[u8]) -> Result<()> {
        Err(no_copy())
    }
    fn copy_out_end(&mut self) {}
}
