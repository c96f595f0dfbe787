//! The first process of a server: it keeps the listening sockets and starts the engine again when that crashes.
//!
//! A server begins as a process that reads the settings and binds the sockets. It then runs this program again in its
//! place (exec: the same process), so that what remains is small. Sockets, the lock on the folder and a pipe for reports are inherited by the engine, a child process that does
//! everything else. While there is none, connections wait in the sockets' backlogs. See
//! docs/decisions/0033-restart-after-crash.md.
//!
//! Invariants
//! 1. There is at most one engine, and none is started before the one before has been waited for.
//! 2. An engine ends with its supervisor (`crate::handover`).
//! 3. One thread, and little memory, which does not grow: nothing here reads settings or catalogs. What takes down engines is not to take down this process.
//! 4. Every end of an engine is in the log, unless the engine has said itself why.
//!
//! Must not know: what is in the data folder, what clients say.

use crate::cli::{ENGINE, ServeOptions};
use crate::folder;
use crate::handover::Handover;
use crate::listen;
use crate::log::write as log_line;
use crate::notify::{Notifier, SOCKET_VARIABLE};
use crate::signals::{self, SignalFd};
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_context::Cluster;
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// The exit status of an engine whose storage can make nothing durable any more. Others are 0, after a stop, and 1,
/// after an immediate stop or a failure that the engine has told.
pub const STORAGE_PANIC_STATUS: i32 = 3;
/// The exit status of an engine that is not to be replaced after a crash.
pub const NO_RESTART_STATUS: i32 = 4;
/// What an engine reports, one byte each.
pub const READY: u8 = b'R';
pub const RELOADED: u8 = b'L';

/// How many crashes within a minute make the next start wait.
const MANY_CRASHES: usize = 3;
const MANY_WITHIN: Duration = Duration::from_secs(60);
/// How long the start after the first of many crashes waits; twice as long for each further one, but no more than 16
/// seconds.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const DOUBLINGS_MAX: usize = 4;
/// A port may be an ended engine's for a moment after its lock is gone.
const PORT_IS_FREE_WITHIN: Duration = Duration::from_secs(2);

const STATUS_READY: &str = "Ready to accept connections";

/// What the process hands over to itself: a [`Handover`], and the values of [`BOUND`] that the sockets were bound by,
/// one a line.
const SELF_VARIABLE: &str = "KILNDB_SUPERVISOR";
const BOUND: [&str; 3] = ["listen_addresses", "port", "unix_socket_directories"];

/// Runs the server until it is stopped or gives up; answers what the process is to end with.
pub fn serve(options: ServeOptions) -> Result<ExitCode> {
    signals::block();
    if let Some((handover, bound)) = handed_over_to_self() {
        return Supervisor::new(options, handover, bound)?.run().map_err(failed);
    }
    folder::prepare(&options.data_dir)?;
    let lock = folder::lock(&options.data_dir)?;
    let config = Cluster::read_config(&options.data_dir, &options.command_line_settings())?;
    // Ports first: a taken one must not cost a recovery.
    let patience = if lock.has_waited { PORT_IS_FREE_WITHIN } else { Duration::ZERO };
    let port = config.port();
    let bind_tcp = |host: &String| insist(patience, || listen::bind_tcp(host, port));
    let tcp: Vec<TcpListener> = config.listen_addresses().iter().map(bind_tcp).collect::<Result<_>>()?;
    let socket_mode = config.number("unix_socket_permissions") as u32 & 0o777;
    let bind_unix = |dir: &String| insist(patience, || listen::bind_unix(Path::new(dir), port, socket_mode));
    let unix: Vec<UnixListener> = config.socket_directories().iter().map(bind_unix).collect::<Result<_>>()?;
    let handover = Handover {
        supervisor: std::process::id() as i32,
        lock: Some(lock.file.as_raw_fd()),
        tcp: tcp.iter().map(AsRawFd::as_raw_fd).collect(),
        unix: unix.iter().map(AsRawFd::as_raw_fd).collect(),
        ..Handover::default()
    };
    let bound = BOUND.map(|name| config.get(name)).join("\n");
    let mut command = this_program();
    command.args(std::env::args_os().skip(1)).env(SELF_VARIABLE, format!("{handover}\n{bound}"));
    // SAFETY: nothing is forked; the process has one thread.
    unsafe { command.pre_exec(move || handover.keep_in_exec()) };
    Err(failed(command.exec()))
}

fn handed_over_to_self() -> Option<(Handover, Vec<String>)> {
    let text = std::env::var(SELF_VARIABLE).ok()?;
    let mut lines = text.split('\n').map(str::to_string);
    let handover: Handover = lines.next()?.parse().ok()?;
    // The variable of another process says nothing.
    (handover.supervisor == std::process::id() as i32).then(|| (handover, lines.collect()))
}

/// The file that this process runs, also if another build has taken its place by now.
fn this_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(std::env::args_os().next().unwrap_or_else(|| "kilndb".into()));
    command
}

fn failed(e: io::Error) -> Error {
    Error::new(sqlstate::IO_ERROR, format!("could not start the server: {e}"))
}

fn insist<T>(patience: Duration, bind: impl Fn() -> Result<T>) -> Result<T> {
    let end = Instant::now() + patience;
    loop {
        match bind() {
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}

struct Supervisor {
    options: ServeOptions,
    /// Values of [`BOUND`].
    bound: Vec<String>,
    lock: Option<OwnedFd>,
    tcp: Vec<TcpListener>,
    unix: Vec<UnixListener>,
    signals: SignalFd,
    notifier: Notifier,
    /// The server is to stop, by this signal.
    stop: Option<libc::c_int>,
    /// The crashes of the last minute.
    crashes: Vec<Instant>,
}

struct Engine {
    pid: libc::pid_t,
    reports: UnixStream,
    is_ready: bool,
}

impl Supervisor {
    fn new(options: ServeOptions, handover: Handover, bound: Vec<String>) -> Result<Supervisor> {
        let adopted = handover.adopt()?;
        Ok(Supervisor {
            options,
            bound,
            lock: adopted.lock,
            tcp: adopted.tcp,
            unix: adopted.unix,
            signals: SignalFd::new().map_err(failed)?,
            notifier: Notifier::from_environment(),
            stop: None,
            crashes: Vec::new(),
        })
    }

    fn run(mut self) -> io::Result<ExitCode> {
        let mut is_restart = false;
        loop {
            let mut engine = self.start(is_restart)?;
            let status = self.watch(&mut engine)?;
            let started = engine.is_ready || is_restart;
            if let Some(code) = self.verdict(&engine, status, started) {
                self.remove_socket_files();
                return Ok(code);
            }
            is_restart = true;
            if !self.wait_before_restart()? {
                self.remove_socket_files();
                log_line(Severity::Log, "database system is shut down");
                return Ok(ExitCode::FAILURE);
            }
        }
    }

    fn start(&mut self, is_restart: bool) -> io::Result<Engine> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let handover = Handover {
            supervisor: std::process::id() as i32,
            lock: self.lock.as_ref().map(AsRawFd::as_raw_fd),
            reports: Some(theirs.as_raw_fd()),
            tcp: self.tcp.iter().map(AsRawFd::as_raw_fd).collect(),
            unix: self.unix.iter().map(AsRawFd::as_raw_fd).collect(),
            is_restart,
        };
        let mut command = this_program();
        command.arg(ENGINE).arg(handover.to_string()).args(self.options.arguments());
        command.env_remove(SOCKET_VARIABLE).env_remove(SELF_VARIABLE);
        if is_restart {
            // The sockets are what they were, whatever the files say now.
            for (name, value) in BOUND.iter().zip(&self.bound) {
                command.arg("-c").arg(format!("{name}={value}"));
            }
        }
        // SAFETY: this process has one thread, so that a child may do what any process may.
        unsafe { command.pre_exec(move || handover.keep_in_child()) };
        let child = command.spawn()?;
        Ok(Engine { pid: child.id() as libc::pid_t, reports: ours, is_ready: false })
    }

    /// Passes signals on until the engine has ended.
    fn watch(&mut self, engine: &mut Engine) -> io::Result<ExitStatus> {
        let mut listens = true;
        loop {
            let reports = listens.then_some(&engine.reports);
            wait_for_one(&self.signals, reports, None)?;
            listens &= self.read_reports(engine);
            while let Some(signal) = self.signals.take() {
                match signal {
                    libc::SIGCHLD => {}
                    libc::SIGHUP => {
                        self.notifier.reloading();
                        send(engine.pid, signal);
                    }
                    _ => self.pass_on_stop(engine.pid, signal),
                }
            }
            if let Some(status) = reap(engine.pid)? {
                self.read_reports(engine);
                return Ok(status);
            }
        }
    }

    fn pass_on_stop(&mut self, pid: libc::pid_t, signal: libc::c_int) {
        self.notifier.stopping("Shutting down");
        self.remove_socket_files();
        match self.stop {
            None => send(pid, signal),
            // The engine is at its end and listens no more.
            Some(_) if signal == libc::SIGQUIT => {
                log_line(Severity::Log, "received immediate shutdown request");
                send(pid, libc::SIGKILL);
            }
            Some(_) => {}
        }
        self.stop = Some(signal);
    }

    /// Reads what the engine reports; false: there will be no more of it.
    fn read_reports(&mut self, engine: &mut Engine) -> bool {
        let mut bytes = [0; 16];
        loop {
            let length = match engine.reports.read(&mut bytes) {
                Ok(0) => return false,
                Ok(length) => length,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            engine.is_ready |= bytes[..length].contains(&READY);
            if self.stop.is_none() {
                self.notifier.ready(STATUS_READY);
            }
        }
    }

    /// What the process ends with, if it is to end. `has_started`: this engine, or one before it, has served clients.
    fn verdict(&mut self, engine: &Engine, status: ExitStatus, has_started: bool) -> Option<ExitCode> {
        let code = status.code();
        if code == Some(NO_RESTART_STATUS) {
            return Some(ExitCode::FAILURE);
        }
        if let Some(code @ (0 | 1)) = code {
            if has_started && !engine.is_ready {
                // It has said itself what it failed of.
                log_line(Severity::Log, "aborting startup due to startup process failure");
            }
            return Some(ExitCode::from(code as u8));
        }
        let process = if engine.is_ready { "server process" } else { "startup process" };
        log_line(Severity::Log, &how_it_ended(process, engine.pid, status));
        if self.stop.is_some() {
            log_line(Severity::Log, "abnormal database system shutdown");
            return Some(ExitCode::FAILURE);
        }
        if !has_started {
            log_line(Severity::Log, "aborting startup due to startup process failure");
            return Some(ExitCode::FAILURE);
        }
        log_line(Severity::Log, "terminating any other active server processes");
        self.notifier.status("Recovering after a crash");
        // Whoever has accepted a loss has accepted that of the start, not of this crash.
        self.options.accept_lost_log = false;
        None
    }

    /// Waits before a restart if there have been many crashes. False: the server is to stop.
    fn wait_before_restart(&mut self) -> io::Result<bool> {
        let now = Instant::now();
        self.crashes.retain(|crash| now.duration_since(*crash) < MANY_WITHIN);
        self.crashes.push(now);
        let Some(delay) = delay_after(self.crashes.len()) else { return Ok(self.stop.is_none()) };
        let message = format!(
            "server processes have crashed {} times within a minute: the cause needs looking at; next start in {} s",
            self.crashes.len(),
            delay.as_secs()
        );
        log_line(Severity::Warning, &message);
        self.notifier.status(&message);
        let end = now + delay;
        while self.stop.is_none() && Instant::now() < end {
            wait_for_one(&self.signals, None, Some(end.saturating_duration_since(Instant::now())))?;
            while let Some(signal) = self.signals.take() {
                if [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT].contains(&signal) {
                    self.notifier.stopping("Shutting down");
                    self.stop = Some(signal);
                }
            }
        }
        Ok(self.stop.is_none())
    }

    fn remove_socket_files(&self) {
        for socket in &self.unix {
            if let Some(path) = socket.local_addr().ok().as_ref().and_then(|a| a.as_pathname()) {
                // Already gone is as good.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn delay_after(crashes: usize) -> Option<Duration> {
    let doublings = crashes.checked_sub(MANY_CRASHES)?.min(DOUBLINGS_MAX);
    Some(FIRST_DELAY * (1 << doublings))
}

fn how_it_ended(process: &str, pid: libc::pid_t, status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("{process} (PID {pid}) exited with exit code {code}"),
        (None, Some(signal)) => {
            format!("{process} (PID {pid}) was terminated by signal {signal}: {}", signals::describe(signal))
        }
        (None, None) => format!("{process} (PID {pid}) exited with unrecognized status {}", status.into_raw()),
    }
}

fn send(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: a system call without pointers. The engine has not been waited for: the number is its own.
    unsafe { libc::kill(pid, signal) };
}

/// Waits for all children that have ended (as a container's first process this one gets others' too); the engine's
/// status if it was among them.
fn reap(engine: libc::pid_t) -> io::Result<Option<ExitStatus>> {
    let mut found = None;
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for the call.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            0 => return Ok(found),
            pid if pid == engine => found = Some(ExitStatus::from_raw(status)),
            -1 => {
                let e = io::Error::last_os_error();
                match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ECHILD) if found.is_some() => return Ok(found),
                    _ => return Err(e),
                }
            }
            _ => {}
        }
    }
}

/// Until there is a signal or a report, or the time is over.
fn wait_for_one(signals: &SignalFd, reports: Option<&UnixStream>, limit: Option<Duration>) -> io::Result<()> {
    let of = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut polled = [of(signals.as_fd().as_raw_fd()), of(reports.map_or(-1, AsRawFd::as_raw_fd))];
    let limit_ms = limit.map_or(-1, |l| l.as_millis().min(60_000) as libc::c_int + 1);
    // SAFETY: the array is valid and as long as is told; a descriptor below zero is passed over.
    let done = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit_ms) };
    match io::Error::last_os_error() {
        e if done < 0 && e.kind() != io::ErrorKind::Interrupted => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_crashes_slow_restarts_down() {
        assert_eq!([0, 1, 2].map(delay_after), [None; 3]);
        let seconds: Vec<u64> = (3..10).filter_map(delay_after).map(|d| d.as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 16, 16]);
    }

    #[test]
    fn ends_are_told_as_in_postgresql() {
        let told = |raw| how_it_ended("server process", 7, ExitStatus::from_raw(raw));
        assert_eq!(told(11), "server process (PID 7) was terminated by signal 11: Segmentation fault");
        assert_eq!(told(6 | 0x80), "server process (PID 7) was terminated by signal 6: Aborted");
        assert_eq!(told(3 << 8), "server process (PID 7) exited with exit code 3");
    }
}
