//! The world outside, behind traits, so that a simulation can replace all of it.

use crate::network::{self, NetworkListener, NetworkStream};
use crate::sync::{Arc, JoinHandle};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file addressed by offset. All methods may be called from several threads at once.
pub trait File: Send + Sync {
    /// Fills `buf` from `offset` as far as the file reaches; returns the bytes read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `data` at `offset`, growing the file as needed.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// Returns when everything written before is on stable storage (sizes needed to read it included).
    fn sync_data(&self) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Gives the range's disk blocks back; it reads as zeros afterwards. The length stays.
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Reserves disk blocks for the range, growing the file if it reaches beyond the end.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// Fails if the file is missing.
    Existing,
    /// Opens an existing file for reading alone; does not wait for the other end of a pipe.
    ReadOnly,
    /// Makes the file if it is missing.
    Create,
    /// Makes the file, or empties it.
    Truncate,
    /// The same for a file that others may read, as far as the process's mask lets them: what somebody has asked to be
    /// written for him.
    TruncateForOthers,
}

/// With whom a folder is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FolderLock {
    /// The folder is shared with others who only read.
    Shared,
    /// The folder is shared with nobody.
    Exclusive,
}
/// A lock that ends with this value, or with the process.
pub type FolderLockGuard = Box<dyn Send + Sync>;

/// Clock, files, randomness, threads, connections to other processes.
pub trait Env: Send + Sync {
    /// Microseconds since 1970-01-01 UTC.
    fn unix_micros(&self) -> i64;
    /// Nanoseconds on a clock that never goes back.
    fn monotonic_nanos(&self) -> u64;
    fn sleep(&self, duration: Duration);
    fn random_bytes(&self, buf: &mut [u8]);
    fn random_u64(&self) -> u64 {
        let mut b = [0; 8];
        self.random_bytes(&mut b);
        u64::from_le_bytes(b)
    }
    /// Starts a named thread; joining waits for it.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;
    /// As [`Env::spawn`], for a thread that stands back behind the others where the processor does not suffice for all.
    fn spawn_less_urgent(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        self.spawn(name, body)
    }

    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>>;
    /// False only if there is no such name. What cannot be looked at (no permission, a failing disk) is an error: it is
    /// not known to be absent.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Locks the folder against other processes, and others in this one, that lock it as well; needs no right to write.
    /// None: one of them has it.
    fn lock_dir(&self, path: &Path, how: FolderLock) -> io::Result<Option<FolderLockGuard>>;
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    fn list_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes created, renamed and removed names in the folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Connects to "host:port", where another process listens. `limit`: for each address that the host has.
    fn connect(&self, address: &str, limit: Duration) -> io::Result<Arc<dyn NetworkStream>>;
    /// Listens at "host:port"; port 0: one that is free.
    fn listen(&self, address: &str) -> io::Result<Arc<dyn NetworkListener>>;
}

/// Raises the limit of open files and sockets as far as the process may: thousands of sessions need as many
/// descriptors.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for both calls; failing leaves the old limit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// The real operating system.
pub struct OsEnv;

/// Nanoseconds of the process's clock that never goes back. In a task of a simulation this is its virtual time.
pub fn process_monotonic_nanos() -> u64 {
    #[cfg(feature = "simulation")]
    if crate::sync::scheduler::is_task() {
        return crate::sync::scheduler::now_nanos();
    }
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid place for one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// How much a less urgent thread stands back, in the system's steps of niceness: it gets a tenth of what another gets.
const LESS_URGENT: libc::c_int = 10;

impl Env for OsEnv {
    fn unix_micros(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        since.as_micros() as i64
    }
    fn monotonic_nanos(&self) -> u64 {
        process_monotonic_nanos()
    }
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        let mut filled = 0;
        while filled < buf.len() {
            let rest = &mut buf[filled..];
            // SAFETY: the pointer and length describe `rest`, which is writable.
            let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
            if got > 0 {
                filled += got as usize;
            }
        }
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        let builder = std::thread::Builder::new().name(name.to_string()).stack_size(crate::stack::STACK_BYTES);
        // A simulation has handles of its own, made of the system's.
        #[allow(clippy::useless_conversion)]
        builder.spawn(body).map(JoinHandle::from)
    }
    fn spawn_less_urgent(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        self.spawn(
            name,
            Box::new(move || {
                // SAFETY: the call concerns the calling thread alone. Failing leaves it as urgent as the others.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LESS_URGENT) };
                body();
            }),
        )
    }
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        use std::os::unix::fs::OpenOptionsExt;
        let makes = matches!(how, OpenMode::Create | OpenMode::Truncate | OpenMode::TruncateForOthers);
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(how != OpenMode::ReadOnly)
            .create(makes)
            .truncate(matches!(how, OpenMode::Truncate | OpenMode::TruncateForOthers))
            .mode(if how == OpenMode::TruncateForOthers { 0o644 } else { 0o600 })
            .custom_flags(if how == OpenMode::ReadOnly { libc::O_NONBLOCK } else { 0 })
            .open(path)?;
        Ok(Arc::new(OsFile(file)))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }
    fn lock_dir(&self, path: &Path, how: FolderLock) -> io::Result<Option<FolderLockGuard>> {
        let folder = std::fs::File::open(path)?;
        let taken = match how {
            FolderLock::Shared => folder.try_lock_shared(),
            FolderLock::Exclusive => folder.try_lock(),
        };
        match taken {
            Ok(()) => Ok(Some(Box::new(folder))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(e)) => Err(e),
        }
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::File::open(path)?.sync_all()
    }
    fn connect(&self, address: &str, limit: Duration) -> io::Result<Arc<dyn NetworkStream>> {
        network::connect_tcp(address, limit)
    }
    fn listen(&self, address: &str) -> io::Result<Arc<dyn NetworkListener>> {
        network::listen_tcp(address)
    }
}

struct OsFile(std::fs::File);

impl File for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        self.0.write_all_at(data, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.fallocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, len)
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.fallocate(0, offset, len)
    }
}

impl OsFile {
    fn fallocate(&self, mode: i32, offset: u64, len: u64) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open for as long as `self` lives.
        let rc = unsafe { libc::fallocate(self.0.as_raw_fd(), mode, offset as i64, len as i64) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
