//! An [`Env`] whose syncs can be switched off (`fsync = off`), while it runs too.
//!
//! Invariants
//! 1. Switched off, no file and no folder is synced by anybody who got them here; all else goes through unchanged.
//! 2. What was written while it was off is not made durable by switching it on: the next sync of the file does that.
//!
//! Must not know: what the files are.

use kilndb_base::env::{Env, File, FolderLock, FolderLockGuard, OpenMode};
use kilndb_base::network::{NetworkListener, NetworkStream};
use kilndb_base::sync::atomic::{AtomicBool, Ordering::*};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct SyncSwitch {
    env: Arc<dyn Env>,
    on: Arc<AtomicBool>,
}

impl SyncSwitch {
    pub fn new(env: Arc<dyn Env>, on: Arc<AtomicBool>) -> SyncSwitch {
        SyncSwitch { env, on }
    }
}

struct SwitchedFile {
    file: Arc<dyn File>,
    on: Arc<AtomicBool>,
}

impl File for SwitchedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(data, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.on.load(Relaxed) { self.file.sync_data() } else { Ok(()) }
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch_hole(offset, len)
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }
}

impl Env for SyncSwitch {
    fn unix_micros(&self) -> i64 {
        self.env.unix_micros()
    }
    fn monotonic_nanos(&self) -> u64 {
        self.env.monotonic_nanos()
    }
    fn sleep(&self, duration: Duration) {
        self.env.sleep(duration);
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        self.env.random_bytes(buf);
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<kilndb_base::sync::JoinHandle<()>> {
        self.env.spawn(name, body)
    }
    fn spawn_less_urgent(
        &self,
        name: &str,
        body: Box<dyn FnOnce() + Send>,
    ) -> io::Result<kilndb_base::sync::JoinHandle<()>> {
        self.env.spawn_less_urgent(name, body)
    }
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = self.env.open(path, how)?;
        Ok(Arc::new(SwitchedFile { file, on: self.on.clone() }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.env.exists(path)
    }
    fn lock_dir(&self, path: &Path, how: FolderLock) -> io::Result<Option<FolderLockGuard>> {
        self.env.lock_dir(path, how)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.env.create_dir_all(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.env.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.env.remove_file(path)
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.env.list_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if self.on.load(Relaxed) { self.env.sync_dir(path) } else { Ok(()) }
    }
    fn connect(&self, address: &str, limit: Duration) -> io::Result<Arc<dyn NetworkStream>> {
        self.env.connect(address, limit)
    }
    fn listen(&self, address: &str) -> io::Result<Arc<dyn NetworkListener>> {
        self.env.listen(address)
    }
}
