//! Records of the log, one after the other, from the files of its segments; at their end, why there is no further one.
//!
//! Invariants
//! 1. Links are followed: behind a link record the reader stands where it leads.
//! 2. At the end of the log the reader stays where it is and may be asked again, since more may have been written.
//!
//! Must not know: what records do, except links.

use super::end::{LogEnd, judge};
use super::frame::{MAX_BODY, mix};
use super::record::{Record, decode};
use super::segment::{LogSegments, place_of};
use super::tag::RecordKind;
use crate::crc::crc32c;
use kilndb_base::bytes::ByteReader;
use kilndb_base::{Error, Result};

/// Bytes read at once.
const READ_AHEAD: usize = 1 << 20;

/// A record as it stands in the log.
pub struct LogRecord {
    pub start: u64,
    /// The record's LSN, which is its end.
    pub end: u64,
    pub body: Vec<u8>,
}
impl LogRecord {
    /// Decodes the body; an error names the record's place.
    pub fn decode(&self) -> Result<Record<'_>> {
        decode(&self.body).map_err(|e| {
            let (file, offset) = place_of(self.start);
            Error::corrupted(format!("{} (file \"{file}\", offset {offset})", e.message()))
        })
    }
}

/// The next thing in the log: a record, or the end.
pub(crate) enum LogRead {
    Record(LogRecord),
    End(LogEnd),
}

/// Reads records one after the other until the log ends.
pub struct LogReader<'a> {
    segments: &'a LogSegments,
    lsn: u64,
    /// The log was durable up to here at least, as others know.
    durable: u64,
    buffer: Vec<u8>,
    buffer_start: u64,
}
impl<'a> LogReader<'a> {
    /// `durable`: how far the log is known to have been durable, 0 if it is not known.
    pub fn new(segments: &'a LogSegments, lsn: u64, durable: u64) -> LogReader<'a> {
        LogReader { segments, lsn, durable, buffer: Vec::new(), buffer_start: lsn }
    }
    /// The LSN where the next record begins, or the log ends.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }
    /// The log was durable up to there as well: a page says so. A log that ends before that is damaged.
    pub(crate) fn was_durable_to(&mut self, lsn: u64) {
        self.durable = self.durable.max(lsn);
    }
    pub(crate) fn read_next(&mut self) -> Result<LogRead> {
        match self.next_record()? {
            Some(record) => Ok(LogRead::Record(record)),
            None => Ok(LogRead::End(judge(self.segments, self.lsn, self.durable)?)),
        }
    }
    fn next_record(&mut self) -> Result<Option<LogRecord>> {
        let Some(record) = self.read_framed()? else { return Ok(None) };
        if record.body.first().and_then(|head| RecordKind::of_head(*head)) == Some(RecordKind::Link)
            && let Record::Link { to } = record.decode()?
        {
            self.go_on_at(to)?;
        }
        Ok(Some(record))
    }
    /// The body that is framed here as a record, whatever its kind; links are not followed. None: there is no valid
    /// frame.
    pub fn read_framed(&mut self) -> Result<Option<LogRecord>> {
        let start = self.lsn;
        Ok(self.next_body()?.map(|body| LogRecord { start, end: self.lsn, body }))
    }
    fn go_on_at(&mut self, lsn: u64) -> Result<()> {
        if lsn < self.lsn {
            return Err(Error::corrupted(format!("log: a link at {:X} leads back to {lsn:X}", self.lsn)));
        }
        self.buffer.clear();
        (self.lsn, self.buffer_start) = (lsn, lsn);
        Ok(())
    }
    fn frame(&self) -> Option<(usize, usize, u32)> {
        let mut r = ByteReader::new(self.buffer.get((self.lsn - self.buffer_start) as usize..)?);
        let before = r.remaining().len();
        let len = r.varint()? as usize;
        let crc = r.u32()?;
        Some((before - r.remaining().len(), len, crc))
    }
    fn next_body(&mut self) -> Result<Option<Vec<u8>>> {
        assert!(self.buffer_start <= self.lsn);
        for attempt in 0..2 {
            if let Some((head, len, crc)) = self.frame() {
                if len == 0 || len > MAX_BODY {
                    break;
                }
                let from = (self.lsn - self.buffer_start) as usize + head;
                if let Some(body) = self.buffer.get(from..from + len) {
                    if mix(crc32c(body), self.lsn) != crc {
                        break;
                    }
                    let body = body.to_vec();
                    self.lsn += (head + len) as u64;
                    return Ok(Some(body));
                }
            }
            if attempt == 0 {
                self.buffer_start = self.lsn;
                self.buffer.resize(READ_AHEAD, 0);
                let got = self.segments.read(self.lsn, &mut self.buffer)?;
                self.buffer.truncate(got);
            }
        }
        // The buffer is dropped, because other bytes may be here when the reader is asked again.
        self.buffer.clear();
        self.buffer_start = self.lsn;
        Ok(None)
    }
}
