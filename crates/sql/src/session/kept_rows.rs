//! Rows that a utility command has given and the client has not asked for yet.

use crate::client::{Client, CopyStream, FieldInfo, Remarks};
use kilndb_base::{Error, Oid, Result};
use std::collections::VecDeque;

/// A row as it will be sent.
type SentRow = Vec<Option<Vec<u8>>>;

#[derive(Default)]
pub(crate) struct KeptRows {
    rows: VecDeque<SentRow>,
    /// Of the command.
    pub tag: String,
    sent_last: u64,
}

impl KeptRows {
    /// All of them were sent.
    pub fn none(tag: String) -> KeptRows {
        KeptRows { tag, ..KeptRows::default() }
    }

    /// A client that keeps rows here and tells `client` everything else.
    pub fn filled_for<'a>(&'a mut self, client: &'a mut dyn Client) -> Keeper<'a> {
        Keeper { rows: &mut self.rows, client }
    }

    /// Sends so many of them. False: there are, or may be, more.
    pub fn send(&mut self, max_rows: Option<u64>, client: &mut dyn Client) -> Result<bool> {
        self.sent_last = 0;
        while max_rows.is_none_or(|max| self.sent_last < max) {
            let Some(row) = self.rows.pop_front() else { return Ok(true) };
            client.data_row(row.len(), &mut |i, out| {
                let value = row.get(i).and_then(Option::as_ref);
                out.extend_from_slice(value.map_or(&[], Vec::as_slice));
                Ok(value.is_some())
            })?;
            self.sent_last += 1;
        }
        Ok(false)
    }

    /// The command's tag, with the number of rows that were sent at last where it has one.
    pub fn tag_of_sent(&self) -> String {
        match self.tag.rsplit_once(' ') {
            Some((word, count)) if count.parse::<u64>().is_ok() => format!("{word} {}", self.sent_last),
            _ => self.tag.clone(),
        }
    }
}

pub(crate) struct Keeper<'a> {
    rows: &'a mut VecDeque<SentRow>,
    client: &'a mut dyn Client,
}

impl Client for Keeper<'_> {
    fn data_row(&mut self, count: usize, write: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<bool>) -> Result<()> {
        let mut row = Vec::with_capacity(count);
        for i in 0..count {
            let mut value = Vec::new();
            let is_there = write(i, &mut value)?;
            row.push(is_there.then_some(value));
        }
        self.rows.push_back(row);
        Ok(())
    }
    fn row_description(&mut self, fields: &[FieldInfo<'_>]) {
        self.client.row_description(fields);
    }
    fn no_data(&mut self) {
        self.client.no_data();
    }
    fn parameter_description(&mut self, types: &[Oid]) {
        self.client.parameter_description(types);
    }
    fn command_complete(&mut self, tag: &str) {
        self.client.command_complete(tag);
    }
    fn empty_query(&mut self) {
        self.client.empty_query();
    }
    fn portal_suspended(&mut self) {
        self.client.portal_suspended();
    }
}

impl Remarks for Keeper<'_> {
    fn notice(&mut self, notice: &Error) {
        self.client.notice(notice);
    }
    fn parameter_status(&mut self, name: &str, value: &str) {
        self.client.parameter_status(name, value);
    }
    fn notification(&mut self, process_id: i32, channel: &str, payload: &str) {
        self.client.notification(process_id, channel, payload);
    }
    fn throttle(&mut self) -> Result<()> {
        self.client.throttle()
    }
}

impl CopyStream for Keeper<'_> {
    fn copy_in_begin(&mut self, binary: bool, columns: usize) -> Result<()> {
        self.client.copy_in_begin(binary, columns)
    }
    fn copy_in_read(&mut self, data: &mut Vec<u8>) -> Result<bool> {
        self.client.copy_in_read(data)
    }
    fn copy_out_begin(&mut self, binary: bool, columns: usize) {
        self.client.copy_out_begin(binary, columns);
    }
    fn copy_out_data(&mut self, data: &[u8]) -> Result<()> {
        self.client.copy_out_data(data)
    }
    fn copy_out_end(&mut self) {
        self.client.copy_out_end();
    }
}
