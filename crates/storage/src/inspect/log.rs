//! Shows the log, record by record.
//!
//! Must not know: what layers above mean by the bytes that they have put into records.

use super::words::{in_words, undo_place};
use super::{Inspector, LineSink};
use crate::wal::end::LogEnd;
use crate::wal::frame::shown_lsn;
use crate::wal::reader::{LogRead, LogReader, LogRecord};
use crate::wal::record::{PageOp, PageTarget, Record};
use crate::wal::segment::{LogSegments, place_of};
use kilndb_base::{Lsn, Result};

/// The range of records to show: those that begin at `from` (None: where recovery would begin) or later, and before
/// `to`.
#[derive(Clone, Copy, Default, Debug)]
pub struct LogRange {
    pub from: Option<Lsn>,
    pub to: Option<Lsn>,
}

impl Inspector {
    /// Records in order, and why there are no more. `describe` says in words what a commit has changed in the catalogs.
    pub fn log(&self, range: LogRange, describe: &dyn Fn(&[u8]) -> String, lines: &mut LineSink<'_>) -> Result<()> {
        let segments = LogSegments::to_read(self.env.clone(), self.dir.join("wal"));
        let from = range.from.map_or(self.checkpoint.redo, |lsn| lsn.0);
        let (file, offset) = place_of(from);
        lines(format!("from {} (file \"{file}\", offset {offset})", shown_lsn(from)));
        // After a proper stop the log need not be there, and a reader that begins elsewhere cannot judge its end.
        let durable = if self.checkpoint.clean { 0 } else { self.checkpoint.durable };
        let mut reader = LogReader::new(&segments, from, durable);
        loop {
            if range.to.is_some_and(|to| reader.lsn() >= to.0) {
                return Ok(());
            }
            match reader.read_next()? {
                LogRead::Record(record) => lines(line(&record, describe)),
                LogRead::End(LogEnd::Ordinary) => {
                    lines(format!("the log ends at {}", shown_lsn(reader.lsn())));
                    return Ok(());
                }
                LogRead::End(LogEnd::Damaged(damage)) => {
                    lines(damage.error().message().to_string());
                    return Ok(());
                }
            }
        }
    }
}

fn line(record: &LogRecord, describe: &dyn Fn(&[u8]) -> String) -> String {
    let (start, bytes) = (shown_lsn(record.start), record.end - record.start);
    let decoded = match record.decode() {
        Ok(decoded) => decoded,
        Err(e) => return format!("{start} {bytes} bytes: {}", e.message()),
    };
    format!("{start} {bytes} bytes: {}", in_record(&decoded, describe))
}

fn in_record(record: &Record<'_>, describe: &dyn Fn(&[u8]) -> String) -> String {
    let kind = record.kind().words();
    match record {
        Record::Change { xid, undo: None, ops } => format!("{kind}, transaction {xid}{}", operations(ops)),
        Record::Change { xid, undo: Some((address, undo)), ops } => {
            let (what, place) = (in_words(&undo.kind), undo_place(*address));
            let before = undo_place(undo.prev);
            let ops = operations(ops);
            format!("{kind}, transaction {xid}, {what}, {place}, before it {before}{ops}")
        }
        Record::Compensate { xid, next, ops } => {
            format!("{kind}, transaction {xid}, its chain goes on at {}{}", undo_place(*next), operations(ops))
        }
        Record::Commit { xid, purge, drops, catalog_changes } => {
            let purge = if *purge { ", a purge is due" } else { "" };
            let drops = match drops.as_slice() {
                [] => String::new(),
                drops => format!(", drops {}", relations(drops)),
            };
            let changes = match catalog_changes {
                [] => String::new(),
                changes => format!(", catalog changes: {}", describe(changes)),
            };
            format!("{kind}, transaction {xid}{purge}{drops}{changes}")
        }
        Record::Abort { xid } | Record::PurgeDone { xid } => format!("{kind}, transaction {xid}"),
        Record::Doom { xid, rels } => format!("{kind}, transaction {xid} would drop {}", relations(rels)),
        Record::Create { xid, rel, kind: number, persistence } => {
            format!("{kind}, transaction {xid}, relation {rel}, kind {number}, persistence {persistence}")
        }
        Record::Extent { rel, index, start } => {
            format!("{kind}, relation {rel}, extent {index} begins at page {start}")
        }
        Record::Truncate { rel, blocks } => format!("{kind}, relation {rel} to {blocks} blocks"),
        Record::Drop { rel } => format!("{kind}, relation {rel}"),
        Record::Chunk { number, page } => format!("{kind}, chunk {number} begins at page {page}"),
        Record::ChunkGone { number } => format!("{kind}, chunk {number}"),
        Record::Belongs { rel, heap, has_all_rows } => {
            let all = if *has_all_rows { ", each row of it has one entry" } else { "" };
            format!("{kind}, relation {rel} is of heap {heap}{all}")
        }
        Record::Link { to } => format!("{kind}, the log goes on at {}", shown_lsn(*to)),
        Record::Initial { rel, bytes } => format!("{kind}, relation {rel}, {} bytes", bytes.len()),
        Record::Durable { to } => format!("{kind}, up to {}", shown_lsn(*to)),
    }
}
fn relations(ids: &[u32]) -> String {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    format!("relations {}", ids.join(", "))
}
fn operations(ops: &[(PageTarget, PageOp<'_>)]) -> String {
    let shown = ops.iter().map(|(target, op)| {
        let place = match op.place() {
            Some(place) => format!(" at {place}"),
            None => String::new(),
        };
        format!("; {}{place} of relation {} block {}", op.tag().words(), target.rel, target.block)
    });
    shown.collect()
}
