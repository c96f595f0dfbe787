//! The system's own environment, with something of the test's in each background thread's pauses, after each look at a
//! folder, and before each write.
use kilndb_base::env::{Env, File, FolderLock, FolderLockGuard, OpenMode, OsEnv};
use kilndb_base::network::{NetworkListener, NetworkStream};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// `0` is called with the thread's name after each pause, with "list_dir" when the names in a folder have been read, and
/// with "write" and the file's name before it is written to.
pub struct HookedEnv<F>(Arc<F>);

impl<F: Fn(&str) + Send + Sync + 'static> HookedEnv<F> {
    pub fn new(hook: F) -> HookedEnv<F> {
        HookedEnv(Arc::new(hook))
    }
}

struct HookedFile<F> {
    file: Arc<dyn File>,
    event: String,
    hook: Arc<F>,
}
impl<F: Fn(&str) + Send + Sync + 'static> File for HookedFile<F> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        (self.hook)(&self.event);
        self.file.write_at(data, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
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

impl<F: Fn(&str) + Send + Sync + 'static> Env for HookedEnv<F> {
    fn unix_micros(&self) -> i64 {
        OsEnv.unix_micros()
    }
    fn monotonic_nanos(&self) -> u64 {
        OsEnv.monotonic_nanos()
    }
    fn sleep(&self, duration: Duration) {
        OsEnv.sleep(duration);
        (self.0)(std::thread::current().name().unwrap_or_default());
    }
    fn random_bytes(&self, bytes: &mut [u8]) {
        OsEnv.random_bytes(bytes)
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        OsEnv.spawn(name, body)
    }
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = OsEnv.open(path, how)?;
        let event = format!("write {}", path.file_name().unwrap_or_default().display());
        Ok(Arc::new(HookedFile { file, event, hook: self.0.clone() }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        OsEnv.exists(path)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        OsEnv.create_dir_all(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsEnv.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        OsEnv.remove_file(path)
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let names = OsEnv.list_dir(path)?;
        (self.0)("list_dir");
        Ok(names)
    }
    fn lock_dir(&self, path: &Path, how: FolderLock) -> io::Result<Option<FolderLockGuard>> {
        OsEnv.lock_dir(path, how)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        OsEnv.sync_dir(path)
    }
    fn connect(&self, address: &str, limit: Duration) -> io::Result<Arc<dyn NetworkStream>> {
        OsEnv.connect(address, limit)
    }
    fn listen(&self, address: &str) -> io::Result<Arc<dyn NetworkListener>> {
        OsEnv.listen(address)
    }
}
