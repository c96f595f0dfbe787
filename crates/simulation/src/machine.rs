//! A machine: a disk that stays, and processes on it that come and go.

use crate::network::Network;
use crate::session::Channel;
use kilndb_base::Severity;
use kilndb_base::env::{Env, File, FolderLock, FolderLockGuard, OpenMode};
use kilndb_base::network::{NetworkListener, NetworkStream};
use kilndb_base::sync::scheduler::{self, ProcessLife, Scheduler};
use kilndb_base::sync::{Arc, JoinHandle, Weak};
use kilndb_context::ClusterOptions;
use kilndb_context::settings::ServerSettings;
use kilndb_sim::disk::SimEnv;
use kilndb_sim::random::Chooser;
use kilndb_sql::Instance;
use kilndb_storage::StorageLimits;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// 2026-01-01: every simulated machine starts then.
const FIRST_UNIX_MICROS: i64 = 1_767_225_600_000_000;
/// The folder of the cluster.
pub(crate) const FOLDER: &str = "/sim";

/// The number of workers. A server would have as many threads; here they are places in statistics.
pub(crate) const WORKERS: usize = 2;

/// Choices out of the scheduler's sequence.
pub struct SeedChoice<'a>(pub &'a Scheduler);
impl Chooser for SeedChoice<'_> {
    fn below(&mut self, n: u64) -> u64 {
        self.0.random() % n.max(1)
    }
}

/// Where the log was written last: damage there looks like a torn end (docs/faults.md), before that it does not.
#[derive(Default)]
struct LogWrites {
    /// Begins of what was written and not synced yet, of the last flush, and of the one before.
    unsynced: Option<(PathBuf, u64)>,
    last: Option<(PathBuf, u64)>,
    before: Option<(PathBuf, u64)>,
}

/// What stays while processes come and go.
#[derive(Clone)]
pub struct Hardware {
    pub scheduler: Arc<Scheduler>,
    pub disk: Arc<SimEnv>,
    /// What connects it with other machines.
    pub network: Network,
    /// How far the clock of the day has been set forward.
    pub clock_ahead_micros: Arc<AtomicI64>,
}

/// What a medium may do wrong without a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mischief {
    /// A write is reported as done and is not.
    LostWrite,
    /// A write goes to another place of the same file.
    StrayWrite,
    /// Syncs are reported as done and are not, from some moment on.
    LyingSyncs,
}

/// A mischief, in which files, and after how many more writes or syncs of theirs.
#[derive(Clone, Copy, Debug)]
pub struct PlannedMischief {
    pub mischief: Mischief,
    pub of_log: bool,
    pub after: u64,
}

/// The environment of one process: the machine's disk with what it takes to reach it, virtual time, seeded randomness.
pub struct MachineEnv {
    hardware: Hardware,
    life: ProcessLife,
    log_writes: Arc<Mutex<LogWrites>>,
    mischief: Arc<Mutex<Option<PlannedMischief>>>,
}

impl MachineEnv {
    fn random(&self) -> u64 {
        self.hardware.scheduler.random()
    }
    /// An operation of the disk takes so long, more or less.
    fn take(&self, most_micros: u64) {
        if self.random().is_multiple_of(4) {
            let micros = 1 + self.random() % most_micros;
            scheduler::sleep(Duration::from_micros(micros));
        } else {
            scheduler::give_way();
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
enum FileKind {
    /// A file of the log, with its path.
    Log(PathBuf),
    Pages,
    Other,
}

impl FileKind {
    fn of(path: &Path) -> FileKind {
        match path {
            path if path.parent().is_some_and(|folder| folder.ends_with("wal")) => FileKind::Log(path.to_path_buf()),
            path if path.ends_with("pages") => FileKind::Pages,
            _ => FileKind::Other,
        }
    }
}

struct MachineFile {
    inner: Arc<dyn File>,
    env: Arc<MachineEnv>,
    kind: FileKind,
}

impl MachineFile {
    /// Whether the mischief planned happens now, at a write or a sync.
    fn mischief(&self, at_sync: bool) -> Option<Mischief> {
        let mut planned = self.env.mischief.lock().unwrap_or_else(|e| e.into_inner());
        let now = planned.as_mut()?;
        let is_concerned = match self.kind {
            FileKind::Log(_) => now.of_log,
            FileKind::Pages => !now.of_log,
            FileKind::Other => false,
        };
        if !is_concerned || at_sync != (now.mischief == Mischief::LyingSyncs) {
            return None;
        }
        if now.after > 0 {
            now.after -= 1;
            return None;
        }
        let mischief = now.mischief;
        if !at_sync {
            *planned = None;
        }
        Some(mischief)
    }
    /// Another place of the file, in whole pages.
    fn another_place(&self, offset: u64) -> io::Result<u64> {
        let pages = (self.inner.len()? / STRAY_STEP).max(1);
        let away = self.env.random() % pages * STRAY_STEP;
        Ok(away + offset % STRAY_STEP)
    }
    fn log_writes(&self) -> MutexGuard<'_, LogWrites> {
        self.env.log_writes.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Writes go astray by multiples of so many bytes.
const STRAY_STEP: u64 = 8192;
const READ_MICROS: u64 = 100;
const WRITE_MICROS: u64 = 60;
const SYNC_MICROS: u64 = 3000;

impl File for MachineFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.env.take(READ_MICROS);
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.env.take(WRITE_MICROS);
        if let FileKind::Log(path) = &self.kind {
            self.log_writes().unsynced.get_or_insert_with(|| (path.clone(), offset));
        }
        match self.mischief(false) {
            Some(Mischief::LostWrite) => Ok(()),
            Some(_) => self.inner.write_at(data, self.another_place(offset)?),
            None => self.inner.write_at(data, offset),
        }
    }
    fn sync_data(&self) -> io::Result<()> {
        if matches!(self.kind, FileKind::Log(_)) {
            let mut writes = self.log_writes();
            if let Some(flush) = writes.unsynced.take() {
                writes.before = writes.last.replace(flush);
            }
        }
        if self.mischief(true).is_some() {
            self.env.take(SYNC_MICROS);
            return Ok(());
        }
        // What others write meanwhile may be synced with it or not.
        if self.env.random().is_multiple_of(2) {
            self.env.take(SYNC_MICROS);
            return self.inner.sync_data();
        }
        let done = self.inner.sync_data();
        self.env.take(SYNC_MICROS);
        done
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.env.take(WRITE_MICROS);
        self.inner.set_len(len)
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.env.take(WRITE_MICROS);
        self.inner.punch_hole(offset, len)
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.env.take(WRITE_MICROS);
        self.inner.allocate(offset, len)
    }
}

/// Files keep the environment alive, so it is handed around in this form.
struct SharedEnv(Arc<MachineEnv>);

impl Env for SharedEnv {
    fn unix_micros(&self) -> i64 {
        let ahead_micros = self.0.hardware.clock_ahead_micros.load(Ordering::Relaxed);
        FIRST_UNIX_MICROS + ahead_micros + (scheduler::now_nanos() / 1000) as i64
    }
    fn monotonic_nanos(&self) -> u64 {
        scheduler::now_nanos()
    }
    fn sleep(&self, duration: Duration) {
        scheduler::sleep(duration);
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        for piece in buf.chunks_mut(8) {
            let bytes = self.0.random().to_le_bytes();
            piece.copy_from_slice(&bytes[..piece.len()]);
        }
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        scheduler::spawn(name, None, body)
    }
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn File>> {
        self.0.take(WRITE_MICROS);
        let inner = self.0.hardware.disk.open(path, how)?;
        Ok(Arc::new(MachineFile { inner, env: self.0.clone(), kind: FileKind::of(path) }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.hardware.disk.exists(path)
    }
    fn lock_dir(&self, path: &Path, how: FolderLock) -> io::Result<Option<FolderLockGuard>> {
        self.0.hardware.disk.lock_dir(path, how)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.take(WRITE_MICROS);
        self.0.hardware.disk.create_dir_all(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.take(WRITE_MICROS);
        self.0.hardware.disk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.take(WRITE_MICROS);
        self.0.hardware.disk.remove_file(path)
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.hardware.disk.list_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.take(SYNC_MICROS);
        self.0.hardware.disk.sync_dir(path)
    }
    fn connect(&self, address: &str, limit: Duration) -> io::Result<Arc<dyn NetworkStream>> {
        self.0.hardware.network.connect(self.0.life, address, limit)
    }
    fn listen(&self, address: &str) -> io::Result<Arc<dyn NetworkListener>> {
        self.0.hardware.network.listen(self.0.life, address)
    }
}

/// How a process is set up.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    pub settings: Vec<(String, String)>,
    pub limits: StorageLimits,
    /// SQLSTATEs of errors that these limits may bring.
    pub excused: Vec<&'static str>,
}

/// The clients of a process's sessions, who are told when it ends.
#[derive(Default)]
struct Clientele {
    channels: Vec<Weak<Channel>>,
    /// Whether the process takes no new clients.
    is_closed: bool,
}

/// A process: an instance over the machine's disk, and how it ended if it did so by itself.
pub struct Process {
    pub life: ProcessLife,
    hardware: Hardware,
    started: Mutex<Option<Result<Arc<Instance>, String>>>,
    /// The engine has asked to be ended: why.
    ended: Mutex<Option<String>>,
    clients: Mutex<Clientele>,
    sessions: AtomicU32,
    is_killed: AtomicBool,
    log_writes: Arc<Mutex<LogWrites>>,
    mischief: Arc<Mutex<Option<PlannedMischief>>>,
    /// Clients ask nothing before this moment.
    quiet_until_nanos: AtomicU64,
    /// Errors that the machine's troubles explain.
    excused: Mutex<Vec<&'static str>>,
}

impl Process {
    /// Starts one; the caller waits for its instance.
    pub fn start(hardware: &Hardware, life: ProcessLife, options: &ProcessOptions) -> Arc<Process> {
        let process = Arc::new(Process {
            life,
            hardware: hardware.clone(),
            started: Mutex::default(),
            ended: Mutex::default(),
            clients: Mutex::default(),
            sessions: AtomicU32::new(0),
            is_killed: AtomicBool::new(false),
            log_writes: Arc::default(),
            mischief: Arc::default(),
            quiet_until_nanos: AtomicU64::new(0),
            excused: Mutex::new(options.excused.clone()),
        });
        let (own, options) = (process.clone(), options.clone());
        let starter = scheduler::spawn("start", Some(life), move || {
            let opened = own.open(&options);
            *own.started.lock().unwrap_or_else(|e| e.into_inner()) = Some(opened);
        });
        starter.expect("there is memory for a stack");
        process
    }

    fn open(self: &Arc<Process>, options: &ProcessOptions) -> Result<Arc<Instance>, String> {
        let env = MachineEnv {
            hardware: self.hardware.clone(),
            life: self.life,
            log_writes: self.log_writes.clone(),
            mischief: self.mischief.clone(),
        };
        let mut config = ServerSettings::default();
        for (name, value) in &options.settings {
            config.set(name, value, "command line").map_err(|e| e.to_string())?;
        }
        let process = self.clone();
        let log = move |severity: Severity, text: &str| {
            if std::env::var_os("KILNDB_TELL").is_some() {
                eprintln!("[{:?}] {severity:?}: {text}", process.life);
            }
            if severity >= Severity::Panic {
                process.ended.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert_with(|| text.to_string());
                process.kill();
            }
        };
        let cluster = ClusterOptions {
            env: Arc::new(SharedEnv(Arc::new(env))),
            data_dir: PathBuf::from(FOLDER),
            workers: WORKERS,
            log: Arc::new(log),
            config,
            accept_lost_log: false,
            limits: options.limits,
        };
        let instance = Instance::open(cluster, vec![Arc::new(kilndb_plpgsql::PlPgSql)]);
        let started = instance.and_then(|instance| instance.start_autoanalyze().map(|()| instance));
        started.map_err(|e| format!("{} {}", e.sqlstate().as_str(), e.message()))
    }

    /// None while it is starting.
    pub fn instance(&self) -> Option<Result<Arc<Instance>, String>> {
        self.started.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(crate) fn why_ended(&self) -> Option<String> {
        self.ended.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// The client is told when the process ends. False: it has ended.
    pub(crate) fn keep(&self, channel: &Arc<Channel>) -> bool {
        let mut clients = self.clients.lock().unwrap_or_else(|e| e.into_inner());
        if !clients.is_closed {
            clients.channels.push(Arc::downgrade(channel));
        }
        !clients.is_closed
    }
    /// Clients ask nothing for so long; what they have begun stays open.
    pub(crate) fn be_quiet(&self, time: Duration) {
        let until = scheduler::now_nanos() + time.as_nanos() as u64;
        self.quiet_until_nanos.store(until, Ordering::Relaxed);
    }
    /// A client waits until it may ask.
    pub(crate) fn wait_for_quiet_to_end(&self) {
        let left = self.quiet_until_nanos.load(Ordering::Relaxed).saturating_sub(scheduler::now_nanos());
        if left > 0 {
            scheduler::sleep(Duration::from_nanos(left));
        }
    }
    /// Whether the process takes no clients any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.clients.lock().unwrap_or_else(|e| e.into_inner()).is_closed
    }
    /// No new ones from now on; those that there are.
    fn end_clientele(&self) -> Vec<Arc<Channel>> {
        let mut clients = self.clients.lock().unwrap_or_else(|e| e.into_inner());
        clients.is_closed = true;
        clients.channels.iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn next_session(&self) -> u32 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// A place of the log, file and offset, that damage to is told from a torn end: before the last two flushes.
    pub(crate) fn settled_log(&self) -> Option<(PathBuf, u64)> {
        self.log_writes.lock().unwrap_or_else(|e| e.into_inner()).before.clone()
    }

    /// Errors with these codes are the machine's fault from now on.
    pub(crate) fn excuse(&self, codes: &[&'static str]) {
        self.excused.lock().unwrap_or_else(|e| e.into_inner()).extend(codes);
    }
    pub(crate) fn is_excused(&self, code: &str) -> bool {
        self.excused.lock().unwrap_or_else(|e| e.into_inner()).contains(&code)
    }
    pub fn plan(&self, mischief: PlannedMischief) {
        *self.mischief.lock().unwrap_or_else(|e| e.into_inner()) = Some(mischief);
    }

    /// Clients are answered what they have asked, and then find that the connection is lost; there are no new ones.
    pub fn close(&self) {
        self.end_clientele().iter().for_each(|client| client.close());
    }

    /// What clients have asked and were not answered.
    pub(crate) fn open_statements(&self) -> Vec<String> {
        let clients = self.clients.lock().unwrap_or_else(|e| e.into_inner());
        clients.channels.iter().filter_map(Weak::upgrade).filter_map(|channel| channel.open_statement()).collect()
    }
    /// What its sessions say does not reach their clients any more.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    /// Nothing of it runs, or reaches the disk, any more.
    pub fn kill(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
        self.hardware.disk.kill();
        self.end_clientele().iter().for_each(|client| client.lose());
        self.hardware.network.end_life(self.life);
        self.hardware.scheduler.end_life(self.life);
    }
}
