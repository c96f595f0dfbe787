//! Log segments: files `wal/<number>` of 16 MB, preallocated, recycled by renaming.
//!
//! Invariants
//! 1. Segment n holds the stream's bytes [n × 16 MB, (n + 1) × 16 MB).
//! 2. A recycled segment's old bytes are never taken for records: checksums are mixed with the LSN.
//!
//! Must not know: records.

use super::SEGMENT;
use crate::stats::{Event, IoObject, Stats};
use kilndb_base::env::{Env, File, Open};
use kilndb_base::{Error, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub struct Segments {
    env: Arc<dyn Env>,
    dir: PathBuf,
    open: Mutex<BTreeMap<u64, Arc<dyn File>>>,
    spare: Mutex<Vec<PathBuf>>,
    stats: Arc<Stats>,
}

/// What became of segments that nobody needs any more.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Recycled {
    pub removed: usize,
    pub recycled: usize,
}

/// The error of an operation on a file, as one line.
pub fn failed(what: &str, name: &str, e: std::io::Error) -> Error {
    let text = format!("could not {what} file \"{name}\": {e}");
    Error::new(Error::from(e).sqlstate(), text)
}
fn name_of(number: u64) -> String {
    format!("wal/{number:016x}")
}

impl Segments {
    /// `dir` is there.
    pub fn new(env: Arc<dyn Env>, dir: PathBuf, stats: Arc<Stats>) -> Segments {
        Segments { env, dir, open: Mutex::default(), spare: Mutex::default(), stats }
    }
    /// No segment is ever made.
    pub fn none(env: &Arc<dyn Env>) -> Segments {
        Segments {
            env: env.clone(),
            dir: PathBuf::new(),
            open: Mutex::default(),
            spare: Mutex::default(),
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
        if !self.env.exists(&path).map_err(|e| failed("open", &name_of(number), e))? {
            if !create {
                return Ok(None);
            }
            let spare = crate::lock(&self.spare).pop();
            match spare {
                Some(old) => self.env.rename(&old, &path),
                None => {
                    self.stats.count(IoObject::WalInit, Event::Write, 1, SEGMENT);
                    self.env.open(&path, Open::Create).and_then(|f| f.allocate(0, SEGMENT))
                }
            }
            .map_err(|e| failed("create", &name_of(number), e))?;
            self.env.sync_dir(&self.dir).map_err(|e| failed("fsync", "wal", e))?;
        }
        let file = self.env.open(&path, Open::Existing).map_err(|e| failed("open", &name_of(number), e))?;
        let mut open = crate::lock(&self.open);
        open.insert(number, file.clone());
        while open.len() > 4 {
            open.pop_first();
        }
        Ok(Some(file))
    }
    pub fn write(&self, mut lsn: u64, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let (part, rest) = data.split_at(data.len().min((SEGMENT - lsn % SEGMENT) as usize));
            let file = self.file(lsn / SEGMENT, true)?.ok_or_else(|| Error::internal("no log segment"))?;
            file.write_at(part, lsn % SEGMENT).map_err(|e| failed("write to", &name_of(lsn / SEGMENT), e))?;
            self.stats.count(IoObject::Wal, Event::Write, 1, part.len() as u64);
            lsn += part.len() as u64;
            data = rest;
        }
        Ok(())
    }
    pub fn sync(&self, from: u64, to: u64) -> Result<()> {
        for number in from / SEGMENT..=to.saturating_sub(1) / SEGMENT {
            if let Some(file) = self.file(number, false)? {
                file.sync_data().map_err(|e| failed("fsync", &name_of(number), e))?;
                self.stats.count(IoObject::Wal, Event::Sync, 1, 0);
            }
        }
        Ok(())
    }
    /// Before recovery: what can be read of the log from `lsn` on is durable afterwards. The last flush of the process
    /// before (at most `unsynced` bytes) may have failed to sync; a sync alone would not help then, so it is written
    /// again.
    pub fn harden(&self, lsn: u64, unsynced: u64) -> Result<()> {
        let mut numbers = Vec::new();
        for path in self.env.list_dir(&self.dir)? {
            let number = path.file_name().and_then(|n| n.to_str()).and_then(|n| u64::from_str_radix(n, 16).ok());
            numbers.extend(number.filter(|n| *n >= lsn / SEGMENT));
        }
        numbers.sort_unstable();
        let Some(last) = numbers.last().copied() else { return Ok(()) };
        let again = last.saturating_sub(unsynced.div_ceil(SEGMENT));
        let mut bytes = Vec::new();
        for number in numbers {
            let file = self.env.open(&self.path(number), Open::Existing)?;
            if number >= again {
                bytes.resize(SEGMENT as usize, 0);
                let got = file.read_at(&mut bytes, 0)?;
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
            let got = file.read_at(&mut buf[..part], lsn % SEGMENT)?;
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
    pub fn recycle(&self, lsn: u64, keep: usize) -> Result<Recycled> {
        let mut done = Recycled::default();
        let first = lsn / SEGMENT;
        for path in self.env.list_dir(&self.dir)? {
            let Some(name) = path.file_name().and_then(|n| n.to_str()) else { continue };
            let stale = match u64::from_str_radix(name, 16) {
                Ok(number) if number >= first => continue,
                Ok(number) => number,
                Err(_) => {
                    if name.ends_with(".spare") && !crate::lock(&self.spare).contains(&path) {
                        self.env.remove_file(&path)?;
                    }
                    continue;
                }
            };
            crate::lock(&self.open).remove(&stale);
            let room = crate::lock(&self.spare).len() < keep;
            if room {
                let spare = self.dir.join(format!("{stale:016x}.spare"));
                self.env.rename(&path, &spare)?;
                crate::lock(&self.spare).push(spare);
                done.recycled += 1;
            } else {
                self.env.remove_file(&path)?;
                done.removed += 1;
            }
        }
        Ok(done)
    }
}
