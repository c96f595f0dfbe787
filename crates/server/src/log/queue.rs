//! Lines on their way to the log's writer.
//!
//! Invariants
//! 1. Whoever appends never waits for whoever reads the log: the mutex is held for copying alone.
//! 2. What waits is bounded: beyond [`PENDING_BYTES_MAX`] lines are counted instead of kept, and the count is told.
//! 3. The lines of a kind are written in the order in which they were appended.

use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use kilndb_base::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Beyond this lines are lost.
pub const PENDING_BYTES_MAX: usize = 4 << 20;
/// Beyond this sessions wait before they append more.
const CONGESTED_BYTES: usize = 1 << 20;
/// A reader that has taken nothing for so long is not waited for.
const READER_PATIENCE_NANOS: u64 = 1_000_000_000;
const STEP_BYTES: usize = 64 << 10;

/// What a line is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Default)]
struct PendingLines {
    text: Vec<u8>,
    json: Vec<u8>,
    /// Records since the last round that found no room.
    lost: u64,
    is_writing: bool,
    has_writer: bool,
}

/// A round's worth of lines.
#[derive(Default)]
pub struct LineBatch {
    pub text: Vec<u8>,
    pub json: Vec<u8>,
    pub lost: u64,
}

#[derive(Default)]
pub struct LogQueue {
    pending: Mutex<PendingLines>,
    work: Condvar,
    written: Condvar,
    /// Bytes that wait or are being written.
    bytes: AtomicUsize,
    /// When the writer has got something written last.
    progress_nanos: AtomicU64,
}

impl LogQueue {
    fn pending(&self) -> MutexGuard<'_, PendingLines> {
        self.pending.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Leaves what is appended from now on to a thread, which has been started.
    pub fn begin(&self) {
        self.progress_nanos.store(process_monotonic_nanos(), Relaxed);
        self.pending().has_writer = true;
    }

    /// False: there is no writer, the caller writes the line.
    pub fn append(&self, format: LogFormat, line: &str) -> bool {
        let mut pending = self.pending();
        if !pending.has_writer {
            return false;
        }
        if self.bytes.load(Relaxed) + line.len() > PENDING_BYTES_MAX {
            pending.lost += 1;
            return true;
        }
        if self.bytes.fetch_add(line.len(), Relaxed) == 0 {
            // An idle writer is not one that makes no progress.
            self.progress_nanos.store(process_monotonic_nanos(), Relaxed);
        }
        match format {
            LogFormat::Text => pending.text.extend_from_slice(line.as_bytes()),
            LogFormat::Json => pending.json.extend_from_slice(line.as_bytes()),
        }
        drop(pending);
        self.work.notify_one();
        true
    }

    /// Much waits, and the reader is alive.
    pub fn is_congested(&self) -> bool {
        self.bytes.load(Relaxed) > CONGESTED_BYTES
            && process_monotonic_nanos().saturating_sub(self.progress_nanos.load(Relaxed)) < READER_PATIENCE_NANOS
    }

    /// The writer's: waits for lines, at most so long.
    pub fn take(&self, limit: Duration) -> LineBatch {
        let mut pending = self.pending();
        pending.is_writing = false;
        self.written.notify_all();
        if pending.text.is_empty() && pending.json.is_empty() && pending.lost == 0 {
            pending = self.work.wait_timeout(pending, limit).unwrap_or_else(|e| e.into_inner()).0;
        }
        let batch = LineBatch {
            text: std::mem::take(&mut pending.text),
            json: std::mem::take(&mut pending.json),
            lost: std::mem::take(&mut pending.lost),
        };
        pending.is_writing = true;
        batch
    }

    /// The writer's: hands `bytes` to `write` piece by piece.
    pub fn write_out(&self, bytes: &[u8], write: &mut dyn FnMut(&[u8])) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let piece = &rest[..piece_bytes(rest)];
            rest = &rest[piece.len()..];
            write(piece);
            self.bytes.fetch_sub(piece.len(), Relaxed);
            self.progress_nanos.store(process_monotonic_nanos(), Relaxed);
        }
    }

    /// Waits until everything is written, as long as the reader takes it.
    pub fn flush(&self) {
        let mut pending = self.pending();
        while pending.has_writer && (pending.is_writing || !pending.text.is_empty() || !pending.json.is_empty()) {
            let waited = self.written.wait_timeout(pending, Duration::from_nanos(READER_PATIENCE_NANOS / 10));
            pending = waited.unwrap_or_else(|e| e.into_inner()).0;
            let idle = process_monotonic_nanos().saturating_sub(self.progress_nanos.load(Relaxed));
            if idle > READER_PATIENCE_NANOS {
                return;
            }
        }
    }
}

/// As many whole lines as fit in a step; of a longer line a step.
fn piece_bytes(bytes: &[u8]) -> usize {
    let most = bytes.len().min(STEP_BYTES);
    if most == bytes.len() {
        return most;
    }
    bytes[..most].iter().rposition(|b| *b == b'\n').map_or(most, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let queue = LogQueue::default();
        assert!(!queue.append(LogFormat::Text, "nobody takes it\n"));
        queue.begin();
        let line = "x".repeat(1 << 20);
        assert!(!queue.is_congested());
        for _ in 0..6 {
            assert!(queue.append(LogFormat::Text, &line));
        }
        assert!(queue.is_congested());
        let batch = queue.take(Duration::ZERO);
        assert_eq!((batch.text.len(), batch.lost), (PENDING_BYTES_MAX, 2));
        let mut written = 0;
        queue.write_out(&batch.text, &mut |piece| written += piece.len());
        assert_eq!(written, PENDING_BYTES_MAX);
        assert!(!queue.is_congested());
        assert!(queue.append(LogFormat::Json, "{}\n"));
        let batch = queue.take(Duration::ZERO);
        assert_eq!((batch.json.as_slice(), batch.lost), (b"{}\n".as_slice(), 0));
    }
}
