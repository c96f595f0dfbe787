//! A client that keeps what it is told.

use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_context::client::{Client, CopyStream, FieldInfo, Remarks};

/// Keeps the rows as text, and the tag of the last command.
#[derive(Default)]
pub struct CollectingClient {
    pub rows: Vec<Vec<String>>,
    pub tag: String,
}

impl Client for CollectingClient {
    fn row_description(&mut self, _fields: &[FieldInfo<'_>]) {}
    fn no_data(&mut self) {}
    fn parameter_description(&mut self, _types: &[Oid]) {}
    fn data_row(&mut self, count: usize, write: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<bool>) -> Result<()> {
        let mut row = Vec::with_capacity(count);
        for column in 0..count {
            let mut bytes = Vec::new();
            write(column, &mut bytes)?;
            row.push(String::from_utf8_lossy(&bytes).into_owned());
        }
        self.rows.push(row);
        Ok(())
    }
    fn command_complete(&mut self, tag: &str) {
        self.tag = tag.to_string();
    }
    fn empty_query(&mut self) {}
    fn portal_suspended(&mut self) {}
}

impl Remarks for CollectingClient {
    fn notice(&mut self, _notice: &Error) {}
    fn parameter_status(&mut self, _name: &str, _value: &str) {}
    fn notification(&mut self, _process_id: i32, _channel: &str, _payload: &str) {}
    fn throttle(&mut self) -> Result<()> {
        Ok(())
    }
}

impl CopyStream for CollectingClient {
    fn copy_in_begin(&mut self, _binary: bool, _columns: usize) -> Result<()> {
        Err(Error::new(sqlstate::QUERY_CANCELED, "golden files have no rows for COPY"))
    }
    fn copy_in_read(&mut self, _data: &mut Vec<u8>) -> Result<bool> {
        Ok(false)
    }
    fn copy_out_begin(&mut self, _binary: bool, _columns: usize) {}
    fn copy_out_data(&mut self, _data: &[u8]) -> Result<()> {
        Ok(())
    }
    fn copy_out_end(&mut self) {}
}
