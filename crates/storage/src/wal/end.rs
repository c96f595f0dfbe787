//! Where the log ends, and whether it may end there.
//!
//! Any part of what was not synced may reach the disk, so records behind a hole prove nothing: a crash can leave them.
//! What was durable once must be there: a log that ends before that is damaged (docs/decisions/0028). How far it was
//! durable is known from:
//! 1. the directory file, which notes it;
//! 2. notes in the log itself behind the end ([`newest_note`]);
//! 3. pages: each was written after the log up to its LSN.
//!
//! Must not know: what to do about it.

use super::frame::{MAX_BODY, SEGMENT, mix, shown_lsn};
use super::record::{Record, decode};
use super::segment::{LogSegments, place_of};
use super::tag::RecordKind;
use crate::crc::crc32c;
use kilndb_base::{Error, Result};

/// How many bytes are read at once.
const PART: u64 = 1 << 20;
/// The bytes before the body of a note: its length, in one byte, and the CRC.
const HEAD: usize = 5;
/// The length of a note's body: its kind and a varint.
const BODIES: std::ops::RangeInclusive<u8> = 2..=11;
const NOTE_AT_MOST: u64 = HEAD as u64 + *BODIES.end() as u64;

/// The LSN up to which the log was durable, by the notes that are found from `end` on; 0: there are none.
pub(crate) fn newest_note(segments: &LogSegments, end: u64) -> Result<u64> {
    let mut newest = 0;
    let mut part = Vec::new();
    for number in segments.numbers_from(end)? {
        let mut at = end.max(number * SEGMENT);
        while at < (number + 1) * SEGMENT {
            let last = (number + 1) * SEGMENT;
            part.resize((PART + NOTE_AT_MOST).min(last - at) as usize, 0);
            let got = segments.read(at, &mut part)?;
            newest = newest.max(newest_note_in(&part[..got], at));
            at += PART;
        }
    }
    Ok(newest)
}
fn newest_note_in(bytes: &[u8], first: u64) -> u64 {
    let mut newest = 0;
    for (index, frame) in bytes.windows(HEAD + 1).enumerate() {
        if !BODIES.contains(&frame[0]) || frame[HEAD] != RecordKind::Durable.byte() {
            continue;
        }
        let lsn = first + index as u64;
        let (from, len) = (index + HEAD, usize::from(frame[0]));
        let Some(body) = bytes.get(from..from + len) else { continue };
        let crc = u32::from_le_bytes([frame[1], frame[2], frame[3], frame[4]]);
        if mix(crc32c(body), lsn) == crc
            && let Ok(Record::Durable { to }) = decode(body)
            && to <= lsn
        {
            newest = newest.max(to);
        }
    }
    newest
}

/// Why the log has no further record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LogEnd {
    /// Nothing is missing that is known to have been durable: what is not in the log was never acknowledged.
    Ordinary,
    /// Something that was durable once is missing.
    Damaged(LogDamage),
}

/// Where the log is damaged, and how that is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogDamage {
    pub lsn: u64,
    /// The segment's file, and the offset in it.
    pub file: String,
    pub offset: u64,
    /// The segments' files that should be there.
    pub missing_files: Vec<String>,
    /// The LSN up to which the log was durable at least.
    pub durable_to: u64,
}
impl LogDamage {
    pub fn error(&self) -> Error {
        let mut message =
            format!("the log is damaged at {} (file \"{}\", offset {}", shown_lsn(self.lsn), self.file, self.offset);
        for file in &self.missing_files {
            message += &format!("; there is no file \"{file}\"");
        }
        message += ")";
        if self.durable_to > self.lsn {
            message += &format!("; it was durable up to {} at least", shown_lsn(self.durable_to));
        }
        Error::corrupted(message)
            .with_hint("Restore a backup, or start with --accept-lost-log to go on without what follows.")
    }
}

/// Why the log ends here, which was durable up to `known` as far as others can tell.
pub fn judge(segments: &LogSegments, end: u64, known: u64) -> Result<LogEnd> {
    let durable_to = known.max(newest_note(segments, end)?);
    // A segment is made when its first byte is written.
    let is_missing = !end.is_multiple_of(SEGMENT) && !segments.has(end)?;
    if durable_to <= end && !is_missing {
        return Ok(LogEnd::Ordinary);
    }
    let (file, offset) = place_of(end);
    let mut missing_files = Vec::new();
    let reaches_to = end + MAX_BODY as u64;
    for lsn in [end, reaches_to] {
        if (lsn == end || lsn / SEGMENT > end / SEGMENT) && !segments.has(lsn)? {
            missing_files.push(place_of(lsn).0);
        }
    }
    Ok(LogEnd::Damaged(LogDamage { lsn: end, file, offset, missing_files, durable_to }))
}

#[cfg(test)]
mod tests {
    use super::super::{frame, record::encode};
    use super::*;

    #[test]
    fn notes_are_found_among_anything() {
        let mut bytes: Vec<u8> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let first = 7 * SEGMENT + 1234;
        assert_eq!(newest_note_in(&bytes, first), 0);
        for (at, to) in [(0usize, first - 9), (3000, first + 2000), (4000, first - 77)] {
            let note = frame(&encode(&Record::Durable { to }), first + at as u64);
            bytes[at..at + note.len()].copy_from_slice(&note);
        }
        assert_eq!(newest_note_in(&bytes, first), first + 2000);
        // Elsewhere the same bytes are no note.
        assert_eq!(newest_note_in(&bytes, first + SEGMENT), 0);
        assert_eq!(newest_note_in(&bytes[..3005], first), first - 9);
    }
}
