//! Log segments: files `wal/<number>` of 16 MB, preallocated, recycled by renaming.
//!
//! Invariants
//! 1. Segment n holds the stream's bytes [n × 16 MB, (n + 1) × 16 MB).
//! 2. A recycled segment's old bytes are never taken for records: checksums are mixed with the LSN.
//! 3. A segment that is likely to be synced often has its blocks written before it is used: where blocks are only
//!    reserved, the first write to each changes the file's own record of them, which then is part of that sync.
//!
//! Must not know: records.

use super::frame::SEGMENT;
use crate::stats::{IoEvent, IoObject, Stats};
use kilndb_base::env::{Env, File, OpenMode};
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kilndb_base::sync::{Arc, Mutex};
use kilndb_base::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub struct LogSegments {
    env: Arc<dyn Env>,
    dir: PathBuf,
    open: Mutex<BTreeMap<u64, Arc<dyn File>>>,
    spare: Mutex<Vec<PathBuf>>,
    /// Held by the thread that opens or makes a file.
    making: Mutex<()>,
    /// Files are opened for reading only.
    reads_only: bool,
    /// Syncs since a segment was made last.
    syncs: AtomicU64,
    stats: Arc<Stats>,
}

/// A segment that was synced fewer times took large writes: writing its blocks ahead would cost more than it saves.
const OFTEN_SYNCED: u64 = 64;
/// Blocks are written ahead in steps, each synced by itself: a commit's sync waits for no more than one of them.
const STEP_BYTES: u64 = 1 << 20;

/// How many segments that are no longer needed were removed, and how many recycled.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct RecycledSegments {
    pub removed: usize,
    pub recycled: usize,
}

/// The error of an operation on a file, as one line.
pub fn failed(what: &str, name: &str, e: std::io::Error) -> Error {
    let text = format!("could not {what} file \"{name}\": {e}");
    Error::new(Error::from(e).sqlstate(), text)
}
/// The file that has a place of the log, and where it is in that.
pub fn place_of(lsn: u64) -> (String, u64) {
    (name_of(lsn / SEGMENT), lsn % SEGMENT)
}
fn name_of(number: u64) -> String {
    format!("wal/{number:016x}")
}

impl LogSegments {
    /// `dir` is there.
    pub fn new(env: Arc<dyn Env>, dir: PathBuf, stats: Arc<Stats>) -> LogSegments {
        LogSegments {
            env,
            dir,
            open: Mutex::default(),
            spare: Mutex::default(),
            making: Mutex::default(),
            reads_only: false,
            syncs: AtomicU64::new(0),
            stats,
        }
    }
    /// The segments of a log that is only read.
    pub(crate) fn to_read(env: Arc<dyn Env>, dir: PathBuf) -> LogSegments {
        LogSegments { reads_only: true, ..LogSegments::new(env, dir, Arc::default()) }
    }
    /// The segments of a log that never writes.
    pub fn none(env: &Arc<dyn Env>) -> LogSegments {
        LogSegments {
            env: env.clone(),
            dir: PathBuf::new(),
            open: Mutex::default(),
            spare: Mutex::default(),
            making: Mutex::default(),
            reads_only: false,
            syncs: AtomicU64::new(0),
            stats: Arc::default(),
        }
    }
    pub fn env(&self) -> &dyn Env {
        &*self.env
    }
    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:016x}"))
    }
    fn file(&self, number: u64, create: bool) -> Result<Option<Arc<dyn File>>> {
        if let Some(file) = crate::lock(&self.open).get(&number) {
            return Ok(Some(file.clone()));
        }
        let path = self.path(number);
        // A file that is being made may have no room yet, and goes if it gets none.
        let _one = crate::lock(&self.making);
        if !self.env.exists(&path).map_err(|e| failed("open", &name_of(number), e))? {
            if !create {
                return Ok(None);
            }
            let spare = crate::lock(&self.spare).pop();
            let made = spare.map_or_else(|| self.make(&path), |old| self.env.rename(&old, &path));
            made.map_err(|e| failed("create", &name_of(number), e))?;
            self.env.sync_dir(&self.dir).map_err(|e| failed("fsync", "wal", e))?;
        }
        let how = if self.reads_only { OpenMode::ReadOnly } else { OpenMode::Existing };
        let file = self.env.open(&path, how).map_err(|e| failed("open", &name_of(number), e))?;
        let mut open = crate::lock(&self.open);
        open.insert(number, file.clone());
        while open.len() > 4 {
            open.pop_first();
        }
        Ok(Some(file))
    }
    /// Makes a segment's file with all of its room, or not at all.
    fn make(&self, path: &Path) -> std::io::Result<()> {
        self.stats.count(IoObject::WalInit, IoEvent::Write, 1, SEGMENT);
        let is_synced_often = self.syncs.swap(0, Relaxed) >= OFTEN_SYNCED;
        let made = self.env.open(path, OpenMode::Create).and_then(|file| {
            file.allocate(0, SEGMENT)?;
            if is_synced_often { write_zeros(&*file) } else { Ok(()) }
        });
        if made.is_err() {
            let _ = self.env.remove_file(path);
        }
        made
    }
    /// Makes the file that has this place of the log, if there is none.
    pub fn prepare(&self, lsn: u64) -> Result<()> {
        self.file(lsn / SEGMENT, true).map(|_| ())
    }
    /// Is there a file for this LSN?
    pub fn has(&self, lsn: u64) -> Result<bool> {
        Ok(self.file(lsn / SEGMENT, false)?.is_some())
    }
    /// Numbers of the segments from that of `lsn` on, in order.
    pub(crate) fn numbers_from(&self, lsn: u64) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for path in self.env.list_dir(&self.dir).map_err(|e| failed("read", "wal", e))? {
            let number = path.file_name().and_then(|n| n.to_str()).and_then(|n| u64::from_str_radix(n, 16).ok());
            numbers.extend(number.filter(|n| *n >= lsn / SEGMENT));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
    pub fn write(&self, mut lsn: u64, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let (part, rest) = data.split_at(data.len().min((SEGMENT - lsn % SEGMENT) as usize));
            let file = self.file(lsn / SEGMENT, true)?.ok_or_else(|| Error::internal("no log segment"))?;
            file.write_at(part, lsn % SEGMENT).map_err(|e| failed("write to", &name_of(lsn / SEGMENT), e))?;
            self.stats.count(IoObject::Wal, IoEvent::Write, 1, part.len() as u64);
            lsn += part.len() as u64;
            data = rest;
        }
        Ok(())
    }
    pub fn sync(&self, from: u64, to: u64) -> Result<()> {
        for number in from / SEGMENT..=to.saturating_sub(1) / SEGMENT {
            if planted::is(PlantedBug::LogSyncSkipped) && to.is_multiple_of(8) {
                continue;
            }
            if let Some(file) = self.file(number, false)? {
                file.sync_data().map_err(|e| failed("fsync", &name_of(number), e))?;
                self.syncs.fetch_add(1, Relaxed);
                self.stats.count(IoObject::Wal, IoEvent::Sync, 1, 0);
            }
        }
        Ok(())
    }
    /// To be called before recovery: makes durable what can be read of the log from `lsn` on. The last flush of the
    /// earlier process (at most `unsynced` bytes) may have failed to sync. Another sync alone would not help then, so
    /// the bytes are written again.
    pub(crate) fn harden(&self, lsn: u64, unsynced: u64) -> Result<()> {
        let numbers = self.numbers_from(lsn)?;
        let Some(last) = numbers.last().copied() else { return Ok(()) };
        let again = last.saturating_sub(unsynced.div_ceil(SEGMENT));
        let mut bytes = Vec::new();
        for number in numbers {
            let file = self
                .env
                .open(&self.path(number), OpenMode::Existing)
                .map_err(|e| failed("open", &name_of(number), e))?;
            if number >= again {
                bytes.resize(SEGMENT as usize, 0);
                let got = file.read_at(&mut bytes, 0).map_err(|e| failed("read", &name_of(number), e))?;
                file.write_at(&bytes[..got], 0).map_err(|e| failed("write to", &name_of(number), e))?;
            }
            file.sync_data().map_err(|e| failed("fsync", &name_of(number), e))?;
        }
        self.env.sync_dir(&self.dir).map_err(|e| failed("fsync", "wal", e))
    }
    /// Reads as far as the log's files reach.
    pub fn read(&self, mut lsn: u64, mut buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while !buf.is_empty() {
            let Some(file) = self.file(lsn / SEGMENT, false)? else { break };
            let part = buf.len().min((SEGMENT - lsn % SEGMENT) as usize);
            let got = file
                .read_at(&mut buf[..part], lsn % SEGMENT)
                .map_err(|e| failed("read", &name_of(lsn / SEGMENT), e))?;
            if got == 0 {
                break;
            }
            done += got;
            lsn += got as u64;
            buf = &mut buf[got..];
        }
        Ok(done)
    }
    /// Segments wholly below `lsn` become spares (up to `keep`) or are removed.
    pub(crate) fn recycle(&self, lsn: u64, keep: usize) -> Result<RecycledSegments> {
        let mut done = RecycledSegments::default();
        let first = lsn / SEGMENT;
        for path in self.env.list_dir(&self.dir).map_err(|e| failed("read", "wal", e))? {
            let Some(name) = path.file_name().and_then(|n| n.to_str()) else { continue };
            let stale = match u64::from_str_radix(name, 16) {
                Ok(number) if number >= first => continue,
                Ok(number) => number,
                Err(_) => {
                    if name.ends_with(".spare") {
                        self.remove_leftover(&path).map_err(|e| failed("remove", &format!("wal/{name}"), e))?;
                    }
                    continue;
                }
            };
            crate::lock(&self.open).remove(&stale);
            let room = crate::lock(&self.spare).len() < keep;
            if room {
                let spare = self.dir.join(format!("{stale:016x}.spare"));
                self.env.rename(&path, &spare).map_err(|e| failed("rename", &name_of(stale), e))?;
                crate::lock(&self.spare).push(spare);
                done.recycled += 1;
            } else {
                self.env.remove_file(&path).map_err(|e| failed("remove", &name_of(stale), e))?;
                done.removed += 1;
            }
        }
        Ok(done)
    }
    /// Removes a spare file of a process before this one.
    fn remove_leftover(&self, path: &Path) -> std::io::Result<()> {
        // Held while a spare file becomes a segment: from when it is no longer listed until it has its new name.
        let _one = crate::lock(&self.making);
        if crate::lock(&self.spare).iter().any(|spare| spare == path) || !self.env.exists(path)? {
            return Ok(());
        }
        self.env.remove_file(path)
    }
}

/// Writes all blocks of a new segment's file.
fn write_zeros(file: &dyn File) -> std::io::Result<()> {
    let zeros = vec![0; STEP_BYTES as usize];
    (0..SEGMENT / STEP_BYTES).try_for_each(|step| {
        file.write_at(&zeros, step * STEP_BYTES)?;
        file.sync_data()
    })
}

/// The LSN where a new log may begin.
pub(crate) fn fresh_lsn(env: &Arc<dyn Env>, wal: &Path, at_least: u64) -> Result<u64> {
    let mut next = at_least.div_ceil(SEGMENT).max(1);
    for path in env.list_dir(wal)? {
        if let Some(n) = path
            .file_name()
            .and_then(|n| n.to_str())
            .and_then(|n| u64::from_str_radix(n.trim_end_matches(".spare"), 16).ok())
        {
            next = next.max(n + 1);
        }
    }
    Ok(next * SEGMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::sync::OnceLock;
    use kilndb_base::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// Blocks that a segment's file really has on the disk would tell it too, but not on every file system.
    #[test]
    fn a_log_that_is_synced_often_writes_its_segments_ahead() {
        let dir = crate::cluster::Dir::new("segments-ahead");
        std::fs::create_dir_all(&dir.0).unwrap();
        let writes = Arc::new(AtomicU64::new(0));
        let counted = writes.clone();
        let env = crate::hooked::HookedEnv::new(move |what: &str| {
            if what.starts_with("write ") {
                counted.fetch_add(1, SeqCst);
            }
        });
        let segments = LogSegments::new(Arc::new(env), dir.0.clone(), Arc::default());
        let written_for = |number: u64, syncs: u64| {
            segments.write(0, b"a commit").unwrap();
            (0..syncs).for_each(|_| segments.sync(0, 8).unwrap());
            let before = writes.load(SeqCst);
            segments.prepare(number * SEGMENT).unwrap();
            writes.load(SeqCst) - before
        };
        assert_eq!(written_for(1, OFTEN_SYNCED - 1), 0);
        assert_eq!(written_for(2, OFTEN_SYNCED), SEGMENT / STEP_BYTES);
        // What was counted before belongs to the segment before.
        assert_eq!(written_for(3, 1), 0);
        assert_eq!(std::fs::metadata(segments.path(2)).unwrap().len(), SEGMENT);
    }
    /// A checkpoint looks at the folder while a spare file becomes the next segment.
    #[test]
    fn a_spare_file_may_be_taken_while_segments_are_recycled() {
        let dir = crate::cluster::Dir::new("segments");
        std::fs::create_dir_all(&dir.0).unwrap();
        let segments: Arc<OnceLock<LogSegments>> = Arc::default();
        let next = Arc::new(AtomicU64::new(0));
        let (by, prepared) = (segments.clone(), next.clone());
        let env = crate::hooked::HookedEnv::new(move |what: &str| {
            if let ("list_dir", Some(segments), n @ 1..) = (what, by.get(), prepared.load(SeqCst)) {
                segments.prepare(n * SEGMENT).unwrap();
            }
        });
        let segments = segments.get_or_init(|| LogSegments::new(Arc::new(env), dir.0.clone(), Arc::default()));
        std::fs::write(dir.0.join("0000000000000007.spare"), "of a process before").unwrap();
        (0..3).for_each(|n| segments.prepare(n * SEGMENT).unwrap());
        let recycled = segments.recycle(2 * SEGMENT, 2).unwrap();
        assert_eq!(recycled, RecycledSegments { removed: 0, recycled: 2 });
        for n in 3..5 {
            next.store(n, SeqCst);
            segments.recycle(2 * SEGMENT, 2).unwrap();
            assert!(segments.has(n * SEGMENT).unwrap());
        }
        let mut names: Vec<_> = std::fs::read_dir(&dir.0).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["0000000000000002", "0000000000000003", "0000000000000004"]);
    }
}
