//! COPY FROM's binary format.

use super::Input;
use super::reader::{Converted, RowReader, bad_format, check_null};
use super::target::ReadTarget;
use kilndb_base::Result;
use kilndb_types::EvalContext;

impl RowReader {
    fn need(&mut self, count: usize, input: &mut dyn Input) -> Result<bool> {
        while self.data.len() - self.at < count {
            if !self.more(input)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take(&mut self, count: usize, input: &mut dyn Input) -> Result<usize> {
        if !self.need(count, input)? {
            return Err(bad_format("unexpected EOF in COPY data"));
        }
        self.at += count;
        Ok(self.at - count)
    }

    fn take_i32(&mut self, input: &mut dyn Input) -> Result<i32> {
        if let Some(bytes) = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<4>()) {
            self.at += 4;
            return Ok(i32::from_be_bytes(*bytes));
        }
        let at = self.take(4, input)?;
        Ok(i32::from_be_bytes([self.data[at], self.data[at + 1], self.data[at + 2], self.data[at + 3]]))
    }

    fn binary_header(&mut self, input: &mut dyn Input) -> Result<()> {
        let at = self.take(11, input)?;
        if &self.data[at..at + 11] != b"PGCOPY\n\xff\r\n\0" {
            return Err(bad_format("COPY file signature not recognized"));
        }
        if self.take_i32(input)? & !0xffff != 0 {
            return Err(bad_format("unrecognized critical flags in COPY file header"));
        }
        let extension = self.take_i32(input)?;
        let extension =
            usize::try_from(extension).map_err(|_| bad_format("invalid COPY file header (missing length)"))?;
        self.take(extension, input)?;
        Ok(())
    }

    pub(super) fn binary_row(
        &mut self,
        out: &mut impl ReadTarget,
        eval: &EvalContext<'_>,
        input: &mut dyn Input,
    ) -> Result<bool> {
        if !self.header_seen {
            self.header_seen = true;
            self.binary_header(input)?;
        }
        self.line += 1;
        if !self.need(2, input)? {
            return Ok(false);
        }
        let at = self.take(2, input)?;
        let count = i16::from_be_bytes([self.data[at], self.data[at + 1]]);
        if count == -1 {
            self.end(input)?;
            return Ok(false);
        }
        if usize::try_from(count).ok() != Some(self.layout.columns.len()) {
            return Err(bad_format(format!("row field count is {count}, expected {}", self.layout.columns.len())));
        }
        out.begin_row(self.layout.columns.len());
        for i in 0..self.layout.columns.len() {
            self.converted = Some((i, Converted::Binary));
            let length = self.take_i32(input)?;
            if length == -1 {
                check_null(&self.layout.columns[i], eval)?;
                out.put_null(i);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| bad_format("invalid field size"))?;
            let at = self.take(length, input)?;
            out.put_message(i, &self.layout.columns[i].written, &self.data[at..at + length], eval)?;
        }
        self.converted = None;
        out.end_row();
        Ok(true)
    }
}
