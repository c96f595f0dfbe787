//! A disk in memory that loses power, or fails, at an operation chosen beforehand.
//!
//! What it does (as docs/format.md assumes of the medium): a sector of 512 bytes is written whole or not at all;
//! unsynced writes survive a power loss in any part; names survive it in the order of their changes. A failed write
//! gets through in part. After a failed sync the system takes the bytes for written: they are read, but no later sync
//! makes them durable.
use crate::random::Chooser;
use kilndb_base::Result;
use kilndb_base::env::{Env, File, FolderLock, FolderLockGuard, OpenMode, OsEnv};
use kilndb_base::network::{NetworkListener, NetworkStream};
use kilndb_base::park::{Park, ThreadPark, WakeHandle};
use kilndb_base::sync::JoinHandle;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFault {
    PowerLoss,
    /// The next writes (so many) fail with this error number.
    Write(i32, u32),
    /// Files do not grow from then on, with this error number.
    Full(i32),
    /// The next sync fails.
    Sync,
    /// No hole can be made in a file from then on, with this error number.
    Hole(i32),
}
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    Write,
    Sync,
    /// Names and sizes: may fail as writes do.
    Meta,
    /// Room for a file.
    Growth,
    /// Room of a file that goes back.
    Hole,
}

#[derive(Default)]
struct FileContent {
    durable: Vec<u8>,
    current: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}
/// One life of a process.
pub struct ProcessSwitch {
    pub dead: AtomicBool,
    /// Operations until the fault.
    left: AtomicI64,
    fault: Mutex<Option<DiskFault>>,
    /// A read of this file at the first offset that gives what is at the second.
    astray: Mutex<Option<(PathBuf, u64, u64)>>,
    /// Files can only be opened for reading.
    is_read_only: AtomicBool,
    /// A file that cannot be opened, and with which error.
    denied: Mutex<Option<(PathBuf, i32)>>,
    /// How often something failed.
    pub fired: AtomicU64,
    /// Reads of pages until one of them has a wrong bit, and which.
    flip: AtomicI64,
    bit: AtomicU64,
    /// Every read of pages that this thread makes has a wrong bit.
    damaged_reader: Mutex<Option<ThreadId>>,
    /// Called after each pause of a background thread, with the thread's name.
    after_pauses: Mutex<Option<Arc<dyn Fn(&str) + Send + Sync>>>,
}
impl ProcessSwitch {
    fn check(&self) -> io::Result<()> {
        if self.dead.load(SeqCst) { Err(io::Error::other("crashed")) } else { Ok(()) }
    }
    fn step(&self, kind: OperationKind) -> io::Result<()> {
        self.check()?;
        if self.left.fetch_sub(1, SeqCst) > 0 {
            return Ok(());
        }
        let mut fault = self.fault.lock().unwrap();
        let failed = match (*fault, kind) {
            (None, _) => return Ok(()),
            (Some(DiskFault::PowerLoss), _) => {
                self.dead.store(true, SeqCst);
                io::Error::other("power loss")
            }
            (Some(DiskFault::Full(number)), OperationKind::Growth)
            | (Some(DiskFault::Hole(number)), OperationKind::Hole) => io::Error::from_raw_os_error(number),
            (
                Some(DiskFault::Write(number, times)),
                OperationKind::Write | OperationKind::Meta | OperationKind::Growth | OperationKind::Hole,
            ) => {
                *fault = (times > 1).then_some(DiskFault::Write(number, times - 1));
                io::Error::from_raw_os_error(number)
            }
            (Some(DiskFault::Sync), OperationKind::Sync) => {
                *fault = None;
                io::Error::from_raw_os_error(5)
            }
            _ => return Ok(()),
        };
        self.fired.fetch_add(1, SeqCst);
        Err(failed)
    }
}
struct MemFile {
    content: Arc<Mutex<FileContent>>,
    switch: Arc<ProcessSwitch>,
    path: PathBuf,
    /// Whether the file's contents have checksums page by page.
    is_of_pages: bool,
}
fn put(v: &mut Vec<u8>, at: usize, data: &[u8]) {
    if v.len() < at + data.len() {
        v.resize(at + data.len(), 0);
    }
    v[at..at + data.len()].copy_from_slice(data);
}
impl File for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.switch.check()?;
        let mut astray = self.switch.astray.lock().unwrap();
        let offset = match astray.take_if(|(path, from, _)| *path == self.path && *from == offset) {
            Some((_, _, to)) => to,
            None => offset,
        };
        drop(astray);
        let c = self.content.lock().unwrap();
        let at = (offset as usize).min(c.current.len());
        let n = buf.len().min(c.current.len() - at);
        buf[..n].copy_from_slice(&c.current[at..at + n]);
        if self.is_of_pages && n > 0 && *self.switch.damaged_reader.lock().unwrap() == Some(thread::current().id()) {
            buf[n / 2] ^= 1;
        }
        if self.is_of_pages && n > 0 && self.switch.flip.fetch_sub(1, SeqCst) == 0 {
            let bit = self.switch.bit.load(SeqCst) as usize % (n * 8);
            buf[bit / 8] ^= 1 << (bit % 8);
            self.switch.fired.fetch_add(1, SeqCst);
        }
        Ok(n)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut c = self.content.lock().unwrap();
        self.switch.check()?;
        let grows = c.current.len() < offset as usize + data.len();
        let verdict = self.switch.step(if grows { OperationKind::Growth } else { OperationKind::Write });
        let data = if verdict.is_ok() { data } else { &data[..data.len() / 2 / 512 * 512] };
        put(&mut c.current, offset as usize, data);
        c.pending.push((offset as usize, data.to_vec()));
        verdict
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut c = self.content.lock().unwrap();
        self.switch.check()?;
        if let Err(e) = self.switch.step(OperationKind::Sync) {
            if !self.switch.dead.load(SeqCst) {
                c.pending.clear();
            }
            return Err(e);
        }
        let c = &mut *c;
        if c.durable.len() < c.current.len() {
            c.durable.resize(c.current.len(), 0);
        }
        for (at, data) in c.pending.drain(..) {
            put(&mut c.durable, at, &data);
        }
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().unwrap().current.len() as u64)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.content.lock().unwrap().current.resize(len as usize, 0);
        Ok(())
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut c = self.content.lock().unwrap();
        self.switch.step(OperationKind::Hole)?;
        let len = (len as usize).min(c.current.len().saturating_sub(offset as usize));
        let zeros = vec![0; len];
        put(&mut c.current, offset as usize, &zeros);
        c.pending.push((offset as usize, zeros));
        Ok(())
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut c = self.content.lock().unwrap();
        self.switch.step(OperationKind::Growth)?;
        let want = (offset + len) as usize;
        if c.current.len() < want {
            c.current.resize(want, 0);
        }
        Ok(())
    }
}

/// Waits, but not for a process that has died.
pub fn while_alive(env: &Arc<SimEnv>) -> impl Park {
    struct WhileAlive(ThreadPark, Arc<SimEnv>);
    impl Park for WhileAlive {
        fn wake_handle(&self) -> WakeHandle {
            self.0.wake_handle()
        }
        fn park(&self, _: Option<u64>) -> kilndb_base::Result<()> {
            self.0.park(Some(kilndb_base::env::process_monotonic_nanos() + 5_000_000))?;
            if self.1.dead() { Err(kilndb_base::Error::internal("the process has died")) } else { Ok(()) }
        }
        fn park_uninterruptible(&self) {
            let _ = self.park(None);
        }
        fn checkpoint(&self) -> kilndb_base::Result<()> {
            Ok(())
        }
    }
    WhileAlive(ThreadPark::new(), env.clone())
}

type DirectoryNames = BTreeMap<PathBuf, Arc<Mutex<FileContent>>>;
#[derive(Default)]
struct Disk {
    current: DirectoryNames,
    /// What the directory durably says.
    durable: DirectoryNames,
    /// Changes since, oldest first: state after each.
    log: Vec<DirectoryNames>,
    /// Whoever has the folder locked: in which process, and how.
    locks: Vec<(Weak<()>, Arc<ProcessSwitch>, FolderLock)>,
}
pub struct SimEnv {
    disk: Arc<Mutex<Disk>>,
    pub switch: Arc<ProcessSwitch>,
}
impl Default for SimEnv {
    fn default() -> SimEnv {
        SimEnv::over(Arc::default())
    }
}
impl SimEnv {
    fn over(disk: Arc<Mutex<Disk>>) -> SimEnv {
        let switch = ProcessSwitch {
            dead: AtomicBool::new(false),
            left: AtomicI64::new(i64::MAX),
            fault: Mutex::new(None),
            astray: Mutex::new(None),
            is_read_only: AtomicBool::new(false),
            denied: Mutex::new(None),
            fired: AtomicU64::new(0),
            flip: AtomicI64::new(i64::MAX),
            bit: AtomicU64::new(0),
            damaged_reader: Mutex::new(None),
            after_pauses: Mutex::new(None),
        };
        SimEnv { disk, switch: Arc::new(switch) }
    }
    /// Has `f` called after each pause of a background thread from now on, with the thread's name.
    pub fn after_pauses(&self, f: impl Fn(&str) + Send + Sync + 'static) {
        *self.switch.after_pauses.lock().unwrap() = Some(Arc::new(f));
    }
    /// After so many more operations, this happens.
    pub fn arm(&self, operations: i64, fault: DiskFault) {
        *self.switch.fault.lock().unwrap() = Some(fault);
        self.switch.left.store(operations, SeqCst);
    }
    /// After so many more reads of pages, one has this bit wrong.
    pub fn flip(&self, reads: i64, bit: u64) {
        self.switch.bit.store(bit, SeqCst);
        self.switch.flip.store(reads, SeqCst);
    }
    /// Runs `f` with a wrong bit in whatever the calling thread reads of the pages meanwhile. Other threads read what is
    /// there.
    pub fn with_damaged_reads<T>(&self, f: impl FnOnce() -> T) -> T {
        *self.switch.damaged_reader.lock().unwrap() = Some(thread::current().id());
        let result = f();
        *self.switch.damaged_reader.lock().unwrap() = None;
        result
    }
    /// Operations so far, if [`SimEnv::arm`] was called with `from`.
    pub fn since(&self, from: i64) -> i64 {
        from - self.switch.left.load(SeqCst)
    }
    pub fn disarm(&self) {
        *self.switch.fault.lock().unwrap() = None;
    }
    pub fn dead(&self) -> bool {
        self.switch.dead.load(SeqCst)
    }
    pub fn fired(&self) -> bool {
        self.switch.fired.load(SeqCst) > 0
    }
    /// The process ends: nothing of it reaches the disk any more.
    pub fn kill(&self) {
        self.switch.dead.store(true, SeqCst);
    }
    /// The next process on a machine that stayed up.
    pub fn restart(&self) -> Arc<SimEnv> {
        self.kill();
        Arc::new(SimEnv::over(self.disk.clone()))
    }
    /// The next process after a power loss.
    pub fn after_power_loss(&self, rng: &mut impl Chooser) -> Arc<SimEnv> {
        self.kill();
        let disk = self.disk.lock().unwrap();
        let pick = rng.below(disk.log.len() as u64 + 1) as usize;
        let names = if pick == 0 { &disk.durable } else { &disk.log[pick - 1] };
        let mut made = DirectoryNames::new();
        for (path, content) in names {
            let c = content.lock().unwrap();
            let mut bytes = c.durable.clone();
            if bytes.len() < c.current.len() && rng.below(2) == 0 {
                bytes.resize(c.current.len(), 0);
            }
            let all = rng.below(4) == 0;
            for (at, data) in &c.pending {
                let mut from = 0;
                while from < data.len() {
                    let to = (from + 512 - (at + from) % 512).min(data.len());
                    if all || rng.below(2) == 0 {
                        put(&mut bytes, at + from, &data[from..to]);
                    }
                    from = to;
                }
            }
            let content = FileContent { current: bytes.clone(), durable: bytes, pending: Vec::new() };
            made.insert(path.clone(), Arc::new(Mutex::new(content)));
        }
        Arc::new(SimEnv::over(Arc::new(Mutex::new(Disk { current: made.clone(), durable: made, ..Disk::default() }))))
    }
    /// Every file as a process would read it now.
    pub fn image(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let disk = self.disk.lock().unwrap();
        disk.current.iter().map(|(path, c)| (path.clone(), c.lock().unwrap().current.clone())).collect()
    }
    /// The medium changes what lies on it: bits that rot, a write that went astray or was lost.
    pub fn spoil<R>(&self, path: impl AsRef<Path>, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let disk = self.disk.lock().unwrap();
        let path = Path::new("/sim").join(path);
        let content = disk.current.get(&path).unwrap_or_else(|| panic!("no file {}", path.display()));
        let mut content = content.lock().unwrap();
        let content = &mut *content;
        let result = f(&mut content.current);
        content.durable.clone_from(&content.current);
        content.pending.clear();
        result
    }
    /// A file goes, behind the back of everybody.
    pub fn lose(&self, path: impl AsRef<Path>) {
        let mut disk = self.disk.lock().unwrap();
        let path = Path::new("/sim").join(path);
        disk.current.remove(&path).unwrap_or_else(|| panic!("no file {}", path.display()));
        disk.durable = disk.current.clone();
        disk.log.clear();
    }
    /// Names of the files that there are, without the folder of the cluster.
    pub fn names(&self) -> Vec<String> {
        let disk = self.disk.lock().unwrap();
        disk.current.keys().filter_map(|p| Some(p.strip_prefix("/sim").ok()?.display().to_string())).collect()
    }
    /// The next read of this file at `from` gives what is at `to`.
    pub fn misread(&self, path: impl AsRef<Path>, from: u64, to: u64) {
        *self.switch.astray.lock().unwrap() = Some((Path::new("/sim").join(path), from, to));
    }
    /// Lets nothing be written from now on.
    pub fn make_read_only(&self) {
        self.switch.is_read_only.store(true, SeqCst);
        self.arm(0, DiskFault::PowerLoss);
    }
    /// Lets nobody open this file from now on; `number` is that of the error.
    pub fn deny(&self, path: impl AsRef<Path>, number: i32) {
        *self.switch.denied.lock().unwrap() = Some((Path::new("/sim").join(path), number));
    }
    fn change(&self, f: impl FnOnce(&mut DirectoryNames)) -> io::Result<()> {
        let mut d = self.disk.lock().unwrap();
        self.switch.step(OperationKind::Meta)?;
        let d = &mut *d;
        f(&mut d.current);
        d.log.push(d.current.clone());
        Ok(())
    }
}
impl Env for SimEnv {
    fn unix_micros(&self) -> i64 {
        OsEnv.unix_micros()
    }
    fn monotonic_nanos(&self) -> u64 {
        OsEnv.monotonic_nanos()
    }
    fn sleep(&self, d: Duration) {
        std::thread::sleep(d);
        let hook = self.switch.after_pauses.lock().unwrap().clone();
        if let Some(hook) = hook {
            hook(std::thread::current().name().unwrap_or_default());
        }
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        OsEnv.random_bytes(buf);
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        OsEnv.spawn(name, body)
    }
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        self.switch.check()?;
        if let Some((denied, number)) = &*self.switch.denied.lock().unwrap()
            && denied == path
        {
            return Err(io::Error::from_raw_os_error(*number));
        }
        if how != OpenMode::ReadOnly && self.switch.is_read_only.load(SeqCst) {
            return Err(io::Error::from_raw_os_error(30));
        }
        let have = self.disk.lock().unwrap().current.get(path).cloned();
        let content = match (have, how) {
            (Some(c), OpenMode::Truncate | OpenMode::TruncateForOthers) => {
                let mut inner = c.lock().unwrap();
                inner.current.clear();
                inner.pending.clear();
                inner.durable.clear();
                drop(inner);
                c
            }
            (Some(c), _) => c,
            (None, OpenMode::Existing | OpenMode::ReadOnly) => return Err(io::Error::from(io::ErrorKind::NotFound)),
            (None, _) => {
                let c = Arc::new(Mutex::new(FileContent::default()));
                self.change(|n| {
                    n.insert(path.to_path_buf(), c.clone());
                })?;
                c
            }
        };
        let is_of_pages = path.ends_with("pages") || path.parent().is_some_and(|p| p.ends_with("images"));
        Ok(Arc::new(MemFile { content, switch: self.switch.clone(), path: path.to_path_buf(), is_of_pages }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        let disk = self.disk.lock().unwrap();
        Ok(disk.current.contains_key(path) || disk.current.keys().any(|p| p.parent() == Some(path)))
    }
    fn lock_dir(&self, _: &Path, how: FolderLock) -> io::Result<Option<FolderLockGuard>> {
        self.switch.check()?;
        let mut disk = self.disk.lock().unwrap();
        disk.locks.retain(|(held, process, _)| held.strong_count() > 0 && !process.dead.load(SeqCst));
        if disk.locks.iter().any(|(_, _, other)| how == FolderLock::Exclusive || *other == FolderLock::Exclusive) {
            return Ok(None);
        }
        let held = Arc::new(());
        disk.locks.push((Arc::downgrade(&held), self.switch.clone(), how));
        Ok(Some(Box::new(held)))
    }
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|n| {
            if let Some(c) = n.remove(from) {
                n.insert(to.to_path_buf(), c);
            }
        })
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(|n| {
            n.remove(path);
        })
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.disk.lock().unwrap().current.keys().filter(|p| p.parent() == Some(path)).cloned().collect())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        let mut d = self.disk.lock().unwrap();
        self.switch.step(OperationKind::Sync)?;
        d.durable = d.current.clone();
        d.log.clear();
        Ok(())
    }
    fn connect(&self, address: &str, limit: Duration) -> io::Result<Arc<dyn NetworkStream>> {
        OsEnv.connect(address, limit)
    }
    fn listen(&self, address: &str) -> io::Result<Arc<dyn NetworkListener>> {
        OsEnv.listen(address)
    }
}

/// Waits as a session does, and is interrupted when the process has died.
pub struct SimPark {
    inner: ThreadPark,
    env: Arc<SimEnv>,
}
impl SimPark {
    pub fn new(env: &Arc<SimEnv>) -> SimPark {
        SimPark { inner: ThreadPark::new(), env: env.clone() }
    }
}
impl Park for SimPark {
    fn wake_handle(&self) -> WakeHandle {
        self.inner.wake_handle()
    }
    fn park(&self, _: Option<u64>) -> Result<()> {
        self.inner.park(Some(kilndb_base::env::process_monotonic_nanos() + 5_000_000))?;
        if self.env.dead() { Err(kilndb_base::Error::internal("the process has died")) } else { Ok(()) }
    }
    fn park_uninterruptible(&self) {
        let _ = self.park(None);
    }
    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }
}
