//! A machine: a disk that stays, and processes on it that come and go.

use crate::session::Channel;
use kilndb_base::Severity;
use kilndb_base::env::{Env, File, Lock, Locked, Open};
use kilndb_base::sync::scheduler::{self, Life, Scheduler};
use kilndb_base::sync::{Arc, JoinHandle, Weak};
use kilndb_sim::disk::SimEnv;
use kilndb_sim::random::Choice;
use kilndb_sql::settings::ServerSettings;
use kilndb_sql::{Instance, InstanceOptions};
use kilndb_storage::StorageLimits;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// 2026-01-01: every simulated machine starts then.
const FIRST_UNIX_MICROS: i64 = 1_767_225_600_000_000;
/// The folder of the cluster.
pub const FOLDER: &str = "/sim";

/// Of a server there would be so many; here they are places in statistics.
pub const WORKERS: usize = 2;

/// Choices out of the scheduler's sequence.
pub struct SeedChoice<'a>(pub &'a Scheduler);
impl Choice for SeedChoice<'_> {
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

/// The environment of one process: the machine's disk with what it takes to reach it, virtual time, seeded randomness.
pub struct MachineEnv {
    disk: Arc<SimEnv>,
    scheduler: Arc<Scheduler>,
    log_writes: Arc<Mutex<LogWrites>>,
}

impl MachineEnv {
    /// An operation of the disk takes so long, more or less.
    fn take(&self, most_micros: u64) {
        if self.scheduler.random().is_multiple_of(4) {
            let micros = 1 + self.scheduler.random() % most_micros;
            scheduler::sleep(Duration::from_micros(micros));
        } else {
            scheduler::give_way();
        }
    }
}

struct MachineFile {
    inner: Arc<dyn File>,
    env: Arc<MachineEnv>,
    /// Of a file of the log.
    log_path: Option<PathBuf>,
}

impl MachineFile {
    fn log_writes(&self) -> MutexGuard<'_, LogWrites> {
        self.env.log_writes.lock().unwrap_or_else(|e| e.into_inner())
    }
}

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
        if let Some(path) = &self.log_path {
            self.log_writes().unsynced.get_or_insert_with(|| (path.clone(), offset));
        }
        self.inner.write_at(data, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.log_path.is_some() {
            let mut writes = self.log_writes();
            if let Some(flush) = writes.unsynced.take() {
                writes.before = writes.last.replace(flush);
            }
        }
        // What others write meanwhile may be synced with it or not.
        if self.env.scheduler.random().is_multiple_of(2) {
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
        FIRST_UNIX_MICROS + (scheduler::now_nanos() / 1000) as i64
    }
    fn monotonic_nanos(&self) -> u64 {
        scheduler::now_nanos()
    }
    fn sleep(&self, duration: Duration) {
        scheduler::sleep(duration);
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        for piece in buf.chunks_mut(8) {
            let bytes = self.0.scheduler.random().to_le_bytes();
            piece.copy_from_slice(&bytes[..piece.len()]);
        }
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        scheduler::spawn(name, None, body)
    }
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.0.take(WRITE_MICROS);
        let inner = self.0.disk.open(path, how)?;
        let is_log = path.parent().is_some_and(|folder| folder.ends_with("wal"));
        let log_path = is_log.then(|| path.to_path_buf());
        Ok(Arc::new(MachineFile { inner, env: self.0.clone(), log_path }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.disk.exists(path)
    }
    fn lock_dir(&self, path: &Path, how: Lock) -> io::Result<Option<Locked>> {
        self.0.disk.lock_dir(path, how)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.take(WRITE_MICROS);
        self.0.disk.create_dir_all(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.take(WRITE_MICROS);
        self.0.disk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.take(WRITE_MICROS);
        self.0.disk.remove_file(path)
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.disk.list_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.take(SYNC_MICROS);
        self.0.disk.sync_dir(path)
    }
}

/// How a process is set up.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    pub settings: Vec<(String, String)>,
    pub limits: StorageLimits,
}

/// A process: an instance over the machine's disk, and how it ended if it did so by itself.
pub struct Process {
    pub life: Life,
    disk: Arc<SimEnv>,
    scheduler: Arc<Scheduler>,
    started: Mutex<Option<Result<Arc<Instance>, String>>>,
    /// The engine has asked to be ended: why.
    ended: Mutex<Option<String>>,
    /// Clients of its sessions, who are told when it ends; none any more if it has ended.
    clients: Mutex<Option<Vec<Weak<Channel>>>>,
    sessions: AtomicU32,
    log_writes: Arc<Mutex<LogWrites>>,
}

impl Process {
    /// Starts one; the caller waits for its instance.
    pub fn start(scheduler: &Arc<Scheduler>, disk: &Arc<SimEnv>, life: Life, options: &ProcessOptions) -> Arc<Process> {
        let process = Arc::new(Process {
            life,
            disk: disk.clone(),
            scheduler: scheduler.clone(),
            started: Mutex::default(),
            ended: Mutex::default(),
            clients: Mutex::new(Some(Vec::new())),
            sessions: AtomicU32::new(0),
            log_writes: Arc::default(),
        });
        let (own, options) = (process.clone(), options.clone());
        let starter = scheduler::spawn("start", Some(life), move || {
            let opened = own.open(&options);
            *own.started.lock().unwrap_or_else(|e| e.into_inner()) = Some(opened);
        });
        starter.expect("a thread can be started");
        process
    }

    fn open(self: &Arc<Process>, options: &ProcessOptions) -> Result<Arc<Instance>, String> {
        let env = MachineEnv {
            disk: self.disk.clone(),
            scheduler: self.scheduler.clone(),
            log_writes: self.log_writes.clone(),
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
        let instance = Instance::open(InstanceOptions {
            env: Arc::new(SharedEnv(Arc::new(env))),
            data_dir: PathBuf::from(FOLDER),
            workers: WORKERS,
            log: Arc::new(log),
            config,
            accept_lost_log: false,
            limits: options.limits,
            languages: vec![Arc::new(kilndb_plpgsql::PlPgSql)],
        });
        instance.map_err(|e| format!("{} {}", e.sqlstate().as_str(), e.message()))
    }

    /// None while it is starting.
    pub fn instance(&self) -> Option<Result<Arc<Instance>, String>> {
        self.started.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub fn why_ended(&self) -> Option<String> {
        self.ended.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// The client is told when the process ends. False: it has ended.
    pub(crate) fn keep(&self, channel: &Arc<Channel>) -> bool {
        let mut clients = self.clients.lock().unwrap_or_else(|e| e.into_inner());
        clients.as_mut().map(|list| list.push(Arc::downgrade(channel))).is_some()
    }

    pub(crate) fn next_session(&self) -> u32 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// A place of the log, file and offset, that damage to is told from a torn end: before the last two flushes.
    pub fn settled_log(&self) -> Option<(PathBuf, u64)> {
        self.log_writes.lock().unwrap_or_else(|e| e.into_inner()).before.clone()
    }

    /// Nothing of it runs, or reaches the disk, any more.
    pub fn kill(&self) {
        self.disk.kill();
        let clients = self.clients.lock().unwrap_or_else(|e| e.into_inner()).take();
        clients.into_iter().flatten().filter_map(|client| client.upgrade()).for_each(|client| client.lose());
        self.scheduler.end_life(self.life);
    }
}
