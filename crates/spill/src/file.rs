//! Temporary files of records.
//!
//! A record: u32 length of the key, u32 length of the row, key bytes, row bytes; little-endian.

use kilndb_base::env::{Env, File, OpenMode};
use kilndb_base::park::Park;
use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use kilndb_base::{Error, Result};
use kilndb_storage::accesses;
use kilndb_types::{Datum, row};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most bytes that one read or write moves.
pub const STEP_BYTES: usize = 64 * 1024;
pub const HEAD_BYTES: usize = 8;

/// The folder of temporary files, and their names.
#[derive(Clone)]
pub struct TempSpace {
    env: Arc<dyn Env>,
    directory: PathBuf,
    /// The number of the next file, shared by all copies.
    files: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
    /// Of a session, which may want to tell of its files.
    removed: Option<Arc<RemovedFiles>>,
}

/// A temporary file that is gone.
pub struct RemovedFile {
    /// From the data folder on.
    pub path: PathBuf,
    pub bytes: u64,
}

/// The files of a session that have gone since it asked last.
#[derive(Default)]
struct RemovedFiles {
    /// Somebody asks. If nobody does, they are not kept.
    is_asked: AtomicBool,
    files: Mutex<Vec<RemovedFile>>,
}

impl TempSpace {
    pub fn new(env: Arc<dyn Env>, data_dir: &Path) -> TempSpace {
        TempSpace { env, directory: data_dir.join("tmp"), files: Arc::default(), bytes: Arc::default(), removed: None }
    }
    /// The same place for one session, which can ask what has gone of its files.
    pub fn of_session(&self) -> TempSpace {
        TempSpace { removed: Some(Arc::default()), ..self.clone() }
    }
    /// From now on files that go are kept for [`TempSpace::take_removed`], or no longer.
    pub fn ask_for_removed(&self, is_asked: bool) {
        if let Some(removed) = &self.removed
            && removed.is_asked.load(Relaxed) != is_asked
        {
            removed.is_asked.store(is_asked, Relaxed);
        }
    }
    /// The session's files that have gone since this was asked last.
    pub fn take_removed(&self) -> Vec<RemovedFile> {
        match self.removed.as_ref().filter(|removed| removed.is_asked.load(Relaxed)) {
            Some(removed) => std::mem::take(&mut removed.files.lock().unwrap_or_else(|e| e.into_inner())),
            None => Vec::new(),
        }
    }
    /// Files made, and bytes written to them, since the start or the last reset.
    pub fn totals(&self) -> (u64, u64) {
        (self.files.load(Relaxed), self.bytes.load(Relaxed))
    }
    pub fn reset_totals(&self) {
        self.files.store(0, Relaxed);
        self.bytes.store(0, Relaxed);
    }
    /// Removes the files that a crash has left.
    pub fn clear(&self) -> Result<()> {
        if self.env.exists(&self.directory)? {
            for file in self.env.list_dir(&self.directory)? {
                self.env.remove_file(&file)?;
            }
        }
        Ok(())
    }
    fn create(&self) -> Result<OpenFile> {
        self.env.create_dir_all(&self.directory)?;
        let path = self.directory.join(format!("exec.{:016x}", self.env.random_u64()));
        let file = self.env.open(&path, OpenMode::Truncate)?;
        self.files.fetch_add(1, Relaxed);
        Ok(OpenFile { env: self.env.clone(), path, file, bytes: 0, removed: self.removed.clone() })
    }
}

/// What reading and writing need from the statement: the folder, and the way to wait.
#[derive(Clone, Copy)]
pub struct SpillIo<'a> {
    pub space: &'a TempSpace,
    pub park: &'a dyn Park,
}

struct OpenFile {
    env: Arc<dyn Env>,
    path: PathBuf,
    file: Arc<dyn File>,
    bytes: u64,
    removed: Option<Arc<RemovedFiles>>,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // A file that stays behind is removed at the next start.
        let _ = self.env.remove_file(&self.path);
        if let Some(removed) = self.removed.as_ref().filter(|removed| removed.is_asked.load(Relaxed)) {
            let names: Vec<_> = self.path.components().rev().take(2).collect();
            let file = RemovedFile { path: names.into_iter().rev().collect(), bytes: self.bytes };
            removed.files.lock().unwrap_or_else(|e| e.into_inner()).push(file);
        }
    }
}

/// Records in the order of writing; the last ones are still in memory.
pub struct SpillFile {
    disk: Option<OpenFile>,
    written: u64,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    pub records: u64,
}

impl SpillFile {
    pub fn new(buffer_bytes: usize) -> SpillFile {
        SpillFile {
            disk: None,
            written: 0,
            buffer: Vec::new(),
            buffer_bytes: buffer_bytes.clamp(512, STEP_BYTES),
            records: 0,
        }
    }
    /// The size in bytes of all records.
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }
    pub fn disk_bytes(&self) -> u64 {
        self.written
    }

    pub fn push(&mut self, key: &[u8], values: &[Datum], io: SpillIo<'_>) -> Result<()> {
        append_record(&mut self.buffer, key, (values, &[]))?;
        self.end_record(io)
    }
    /// A record as another file or a sorter holds it.
    pub fn push_record(&mut self, record: &[u8], io: SpillIo<'_>) -> Result<()> {
        self.buffer.extend_from_slice(record);
        self.end_record(io)
    }
    fn end_record(&mut self, io: SpillIo<'_>) -> Result<()> {
        self.records += 1;
        if self.buffer.len() >= self.buffer_bytes { self.flush(io) } else { Ok(()) }
    }
    /// Writes the buffered records to the file.
    pub fn flush(&mut self, io: SpillIo<'_>) -> Result<()> {
        if self.disk.is_none() {
            self.disk = Some(io.space.create()?);
        }
        let Some(disk) = &mut self.disk else { return Ok(()) };
        for piece in self.buffer.chunks(STEP_BYTES) {
            disk.file.write_at(piece, self.written)?;
            self.written += piece.len() as u64;
            disk.bytes = self.written;
            accesses::count_temporary_written(piece.len());
            io.space.bytes.fetch_add(piece.len() as u64, Relaxed);
            io.park.checkpoint()?;
        }
        self.buffer.clear();
        Ok(())
    }
    /// Ends the writing: no more records will come, so the buffer is freed.
    pub fn finish(&mut self, io: SpillIo<'_>) -> Result<()> {
        if self.disk.is_some() {
            self.flush(io)?;
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Appends at most `want` bytes from `offset` on; fewer at the end of the file, or of its part on disk.
    fn read(&self, offset: u64, want: usize, out: &mut Vec<u8>) -> Result<()> {
        match &self.disk {
            Some(disk) if offset < self.written => {
                let want = (want as u64).min(self.written - offset) as usize;
                let from = out.len();
                out.resize(from + want, 0);
                accesses::count_temporary_read(want);
                if disk.file.read_at(&mut out[from..], offset)? < want {
                    return Err(Error::corrupted(format!(
                        "temporary file {} is shorter than it was written",
                        disk.path.display()
                    )));
                }
            }
            _ => {
                let from = ((offset - self.written) as usize).min(self.buffer.len());
                let to = (from + want).min(self.buffer.len());
                out.extend_from_slice(&self.buffer[from..to]);
            }
        }
        Ok(())
    }
}

/// Appends a record.
/// `tail`: what the row ends with, behind its values.
pub(crate) fn append_record(out: &mut Vec<u8>, key: &[u8], (values, tail): (&[Datum], &[u8])) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    out.extend_from_slice(key);
    row::encode_self_describing(values, out);
    out.extend_from_slice(tail);
    let row_length = out.len() - start - HEAD_BYTES - key.len();
    let too_long =
        |_| Error::new(kilndb_base::sqlstate::PROGRAM_LIMIT_EXCEEDED, "row is too long for a temporary file");
    let key_length = u32::try_from(key.len()).map_err(too_long)?;
    let row_length = u32::try_from(row_length).map_err(too_long)?;
    out[start..start + 4].copy_from_slice(&key_length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&row_length.to_le_bytes());
    Ok(())
}

/// Lengths of the key and the row of the record that begins with `head`.
pub fn lengths(head: &[u8]) -> (usize, usize) {
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
    (word(0), word(4))
}

/// Reads a file's records one after the other.
pub struct SpillCursor {
    buffer: Vec<u8>,
    buffer_bytes: usize,
    /// The offset in the file of the bytes behind `buffer`.
    offset: u64,
    /// The present record in `buffer`: start, end of the key, end.
    record: (usize, usize, usize),
}

impl SpillCursor {
    pub fn new(buffer_bytes: usize) -> SpillCursor {
        SpillCursor {
            buffer: Vec::new(),
            buffer_bytes: buffer_bytes.clamp(512, STEP_BYTES),
            offset: 0,
            record: (0, 0, 0),
        }
    }
    /// The next record will be the one that begins at `offset`.
    pub fn seek(&mut self, offset: u64) {
        self.buffer.clear();
        self.record = (0, 0, 0);
        self.offset = offset;
    }
    /// Moves to the next record; false at the end.
    pub fn advance(&mut self, file: &SpillFile, io: SpillIo<'_>) -> Result<bool> {
        let start = self.record.2;
        if self.buffer.len() == start && self.offset >= file.bytes() {
            return Ok(false);
        }
        let start = self.available(start, HEAD_BYTES, file, io)?;
        let (key, row) = lengths(&self.buffer[start..]);
        let start = self.available(start, HEAD_BYTES + key + row, file, io)?;
        self.record = (start, start + HEAD_BYTES + key, start + HEAD_BYTES + key + row);
        Ok(true)
    }
    /// Has `count` bytes from `start` on in the buffer; where they begin now.
    fn available(&mut self, start: usize, count: usize, file: &SpillFile, io: SpillIo<'_>) -> Result<usize> {
        if self.buffer.len() - start >= count {
            return Ok(start);
        }
        self.buffer.drain(..start);
        while self.buffer.len() < count {
            let before = self.buffer.len();
            file.read(self.offset, self.buffer_bytes, &mut self.buffer)?;
            let got = self.buffer.len() - before;
            if got == 0 {
                return Err(Error::corrupted("a temporary file ends within a record"));
            }
            self.offset += got as u64;
            io.park.checkpoint()?;
        }
        self.record = (0, 0, 0);
        Ok(0)
    }
    pub fn key(&self) -> &[u8] {
        &self.buffer[(self.record.0 + HEAD_BYTES).min(self.record.1)..self.record.1]
    }
    pub fn row(&self) -> &[u8] {
        &self.buffer[self.record.1..self.record.2]
    }
    pub fn record(&self) -> &[u8] {
        &self.buffer[self.record.0..self.record.2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::env::OsEnv;
    use kilndb_base::park::ThreadPark;

    #[test]
    fn records_come_back_and_files_go() {
        let dir = std::env::temp_dir().join(format!("kilndb-spill-{}", std::process::id()));
        let space = TempSpace::new(Arc::new(OsEnv), &dir);
        let park = ThreadPark::new();
        let io = SpillIo { space: &space, park: &park };
        let mut file = SpillFile::new(512);
        for n in 0..1000i32 {
            let text = "x".repeat((n as usize * 7) % 900);
            file.push(&n.to_be_bytes(), &[Datum::Int4(n), Datum::text(&text), Datum::Null], io).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.join("tmp")).unwrap().count(), 1);
        for buffer in [512, 5000, STEP_BYTES] {
            let mut cursor = SpillCursor::new(buffer);
            let mut n = 0i32;
            while cursor.advance(&file, io).unwrap() {
                assert_eq!(cursor.key(), n.to_be_bytes());
                let mut values = Vec::new();
                row::decode_self_describing(cursor.row(), 3, &mut values).unwrap();
                assert!(matches!(values[0], Datum::Int4(m) if m == n));
                assert!(matches!(&values[1], Datum::Text(t) if t.len() == (n as usize * 7) % 900));
                n += 1;
            }
            assert_eq!(n, 1000);
        }
        drop(file);
        assert!(space.take_removed().is_empty(), "nobody has asked");
        let of_session = space.of_session();
        let io = SpillIo { space: &of_session, park: &park };
        for is_asked in [false, true] {
            of_session.ask_for_removed(is_asked);
            let mut file = SpillFile::new(512);
            file.push(&[7; 600], &[], io).unwrap();
            let bytes = file.bytes();
            drop(file);
            let told: Vec<u64> = of_session.take_removed().iter().map(|removed| removed.bytes).collect();
            assert_eq!(told, vec![bytes; usize::from(is_asked)]);
        }
        assert_eq!(std::fs::read_dir(dir.join("tmp")).unwrap().count(), 0);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
