//! Records of the log, one after the other, from the files of its segments.
//!
//! Must not know: what records do, a link aside.

use super::record::{Record, decode};
use super::segment::{Segments, place_of};
use super::{MAX_BODY, mix};
use crate::crc::crc32c;
use kilndb_base::bytes::Reader;
use kilndb_base::{Error, Result};

/// Reads records one after the other until the log ends (or is torn).
pub struct LogReader<'a> {
    segments: &'a Segments,
    pub lsn: u64,
    buffer: Vec<u8>,
    start: u64,
}
impl<'a> LogReader<'a> {
    pub fn new(segments: &'a Segments, lsn: u64) -> LogReader<'a> {
        LogReader { segments, lsn, buffer: Vec::new(), start: lsn }
    }
    fn frame(&self) -> Option<(usize, usize, u32)> {
        let mut r = Reader::new(self.buffer.get((self.lsn - self.start) as usize..)?);
        let before = r.remaining().len();
        let len = r.varint()? as usize;
        let crc = r.u32()?;
        Some((before - r.remaining().len(), len, crc))
    }
    /// Follows a link.
    pub fn go_on_at(&mut self, lsn: u64) -> Result<()> {
        if lsn < self.lsn {
            return Err(Error::corrupted(format!("log: a link at {:X} leads back to {lsn:X}", self.lsn)));
        }
        self.buffer.clear();
        (self.lsn, self.start) = (lsn, lsn);
        Ok(())
    }
    /// Where the next record ends, links included, which are followed.
    pub fn next_record(&mut self) -> Result<Option<u64>> {
        let at = self.lsn;
        let Some((lsn, body)) = self.next()? else { return Ok(None) };
        if let Record::Link { to } = decode_at(&body, at)? {
            self.go_on_at(to)?;
        }
        Ok(Some(lsn))
    }
    /// End LSN and body of the next record.
    pub fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        for attempt in 0..2 {
            if let Some((head, len, crc)) = self.frame() {
                if len == 0 || len > MAX_BODY {
                    return Ok(None);
                }
                let from = (self.lsn - self.start) as usize + head;
                if let Some(body) = self.buffer.get(from..from + len) {
                    if mix(crc32c(body), self.lsn) != crc {
                        return Ok(None);
                    }
                    let body = body.to_vec();
                    self.lsn += (head + len) as u64;
                    return Ok(Some((self.lsn, body)));
                }
            }
            if attempt == 0 {
                self.start = self.lsn;
                self.buffer.resize(1 << 20, 0);
                let got = self.segments.read(self.lsn, &mut self.buffer)?;
                self.buffer.truncate(got);
            }
        }
        Ok(None)
    }
}

pub fn decode_at(body: &[u8], lsn: u64) -> Result<Record<'_>> {
    decode(body).map_err(|e| {
        let (file, offset) = place_of(lsn);
        Error::corrupted(format!("{} (file \"{file}\", offset {offset})", e.message()))
    })
}
