//! Servers as child processes in temporary folders. Dropping one kills it and removes its folder.

use crate::client::{Address, Client};
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What a server is given to end at once. PostgreSQL itself takes up to five seconds for processes that do not.
const END_PATIENCE: Duration = Duration::from_secs(8);

/// A port that nobody listens on, kept for this process until it ends: no other call returns it, in this process or in
/// another one. It is none of those that the kernel gives to connections, one of which could otherwise have it by the
/// time a server wants to listen there.
pub fn free_port() -> io::Result<u16> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let ports = ports_for_servers();
    let count = u32::from(ports.end - ports.start);
    let start = std::process::id().wrapping_mul(61) % count;
    for _ in 0..count {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let port = ports.start + (start.wrapping_add(call) % count) as u16;
        if keep_port(port) && !is_listened_on(port) {
            return Ok(port);
        }
    }
    Err(io::Error::from(io::ErrorKind::AddrInUse))
}

/// The ports between those that well-known services have and those that the kernel gives to outgoing connections.
fn ports_for_servers() -> std::ops::Range<u16> {
    const FIRST: u16 = 10_000;
    const LINUX_DEFAULT: u16 = 32_768;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let of_connections = range.split_whitespace().next().and_then(|port| port.parse().ok());
    let end = of_connections.filter(|end| *end >= FIRST + 1_000).unwrap_or(LINUX_DEFAULT);
    FIRST..end
}

/// Whether this process is the first to take `port`. A name among the abstract Unix sockets says so: it is gone with
/// the process, however that ends.
fn keep_port(port: u16) -> bool {
    let name = SocketAddr::from_abstract_name(format!("kilndb-test-port-{port}"));
    let kept = name.and_then(|name| UnixDatagram::bind_addr(&name));
    kept.map(std::mem::forget).is_ok()
}

/// A connection tells, not a listener of this process's own: one that another thread's new child inherits would be there
/// until the child runs its program, which can be after the server has begun to listen.
fn is_listened_on(port: u16) -> bool {
    !matches!(TcpStream::connect(("127.0.0.1", port)), Err(e) if e.kind() == io::ErrorKind::ConnectionRefused)
}

/// A folder that goes away with this value.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new(name: &str) -> io::Result<TempDir> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kilndb-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(TempDir(path))
    }

    /// A folder for Unix sockets, which any user's server may write to: PostgreSQL's may be another one.
    pub fn for_sockets() -> io::Result<TempDir> {
        let folder = TempDir::new("sockets")?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777))?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn remove(&self) {
        // What stays behind is in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A server that runs as a child process.
pub struct Server {
    child: Child,
    address: Address,
    log: PathBuf,
}

impl Server {
    /// Starts `command` with its output in `log` and waits until it answers.
    pub fn start(command: Command, address: Address, log: &Path, patience: Duration) -> io::Result<Server> {
        let is_ready = || Client::connect(&address, "postgres").is_ok();
        let mut server = Server::start_until(command, log, patience, is_ready)?;
        server.address = address;
        Ok(server)
    }
    /// As [`Server::start`], of a server that speaks another protocol: whoever starts it knows where it is and when it answers.
    pub fn start_until(
        mut command: Command,
        log: &Path,
        patience: Duration,
        is_ready: impl Fn() -> bool,
    ) -> io::Result<Server> {
        let output = File::options().create(true).append(true).open(log)?;
        let child = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn()?;
        let mut server = Server { child, address: Address::local(0), log: log.to_path_buf() };
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("the server ended with {status}:\n{}", server.log_tail())));
            }
            if is_ready() {
                return Ok(server);
            }
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("the server did not start:\n{}", server.log_tail())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A child process that is no server, for tests of what happens to processes.
    #[cfg(test)]
    pub(crate) fn of_child(child: Child) -> Server {
        Server { child, address: Address::local(0), log: PathBuf::new() }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Makes the server be reached through its Unix socket in `folder` from now on.
    pub fn reach_in(&mut self, folder: &Path) {
        self.address.host = folder.display().to_string();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The id of the process that does KilnDB's work: a child of the one that was started. One that has crashed may not
    /// have its successor yet, which is waited for.
    pub fn engine_pid(&self) -> io::Result<u32> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(pid) = children_of(self.pid()).first() {
                return Ok(*pid);
            }
            if Instant::now() >= end {
                return Err(io::Error::other(format!("the server has no engine: {}", self.log_tail())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// All its processes stand still: what it does in the background disturbs nobody until it goes on.
    pub fn pause(&self) {
        self.signal_all(libc::SIGSTOP);
    }
    pub fn go_on(&self) {
        self.signal_all(libc::SIGCONT);
    }
    fn signal_all(&self, signal: libc::c_int) {
        // Whoever might start others comes first.
        for pid in [vec![self.pid()], children_of(self.pid())].concat() {
            // SAFETY: a system call without pointers. The server is our child and not waited for yet, and its children
            // stay its own as long.
            unsafe { libc::kill(pid as libc::pid_t, signal) };
        }
    }
    /// Sends the server's first process a signal. The program `kill` is not everywhere.
    pub fn signal(&self, signal: libc::c_int) -> io::Result<()> {
        // SAFETY: a system call without pointers. The process id is the child's own: it stays so until the child is
        // waited for, which whoever has the server alone does.
        match unsafe { libc::kill(self.child.id() as libc::pid_t, signal) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The last lines the server wrote.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Ends without a last checkpoint. SIGQUIT lets PostgreSQL take away its shared memory, which `kill -9` leaves to the machine.
    pub fn end_at_once(&self) {
        self.go_on();
        let deadline = Instant::now() + END_PATIENCE;
        // One that has ended already cannot be sent anything.
        let mut waits = self.signal(libc::SIGQUIT).is_ok();
        while waits && !self.has_ended() {
            waits = Instant::now() < deadline;
            std::thread::sleep(Duration::from_millis(2));
        }
        if !self.has_ended() {
            self.signal_all(libc::SIGKILL);
        }
    }
    /// It stays to be waited for.
    fn has_ended(&self) -> bool {
        // SAFETY: zeros are a value of this structure of integers.
        let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the structure is ours and as large as the call wants it.
        let asked = unsafe { libc::waitid(libc::P_PID, self.pid(), &mut ended, how) };
        // SAFETY: the process id is filled in by waitid, and zero as long as there is nothing to tell.
        asked != 0 || unsafe { ended.si_pid() } != 0
    }

    /// `kill -9`.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// An orderly stop: SIGINT is PostgreSQL's fast shutdown too.
    pub fn stop(mut self) -> io::Result<ExitStatus> {
        // One that has ended already is waited for all the same.
        let _ = self.signal(libc::SIGINT);
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("the server did not stop"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process id of one that has been waited for may be somebody else's.
        if self.is_running() {
            self.end_at_once();
        }
        // Already ended is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server's program: `KILNDB` in the environment, or the one built beside this program.
pub fn kilndb_program() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("KILNDB") {
        return Ok(path.into());
    }
    let here = std::env::current_exe()?;
    here.ancestors()
        .skip(1)
        .take(3)
        .map(|folder| folder.join("kilndb"))
        .find(|path| path.is_file())
        .ok_or_else(|| io::Error::other("the program kilndb is not built: cargo build -p kilndb-server"))
}

/// Starts KilnDB on `data` with settings of the form `name=value`.
pub fn start_kilndb(data: &Path, port: u16, settings: &[&str]) -> io::Result<Server> {
    start_program(&kilndb_program()?, data, port, settings)
}

/// Starts another build of KilnDB as [`start_kilndb`] does its own. Unless a setting says so, tables are not analyzed by
/// themselves: plans and views that tests compare would change with time. KILNDB_SETTINGS may have more settings, with blanks
/// between them, as `make memory` has them.
pub fn start_program(program: &Path, data: &Path, port: u16, settings: &[&str]) -> io::Result<Server> {
    let mut command = Command::new(program);
    command.arg("serve").arg("-D").arg(data).args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    command.args(["-c", "autovacuum=off"]);
    let of_environment = std::env::var("KILNDB_SETTINGS").unwrap_or_default();
    for setting in of_environment.split_whitespace().chain(settings.iter().copied()) {
        command.args(["-c", setting]);
    }
    let log = data.with_extension("log");
    Server::start(command, Address::local(port), &log, Duration::from_secs(120))
}

/// Processes whose parent is this one.
fn children_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // "pid (name) state parent …"; the name may have blanks and brackets in it.
    let parent_of = |pid: u32| -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        status.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// Starts KilnDB and kills it (`kill -9`) while it recovers, or soon after.
pub fn die_in_start(data: &Path, port: u16, after: Duration) -> io::Result<()> {
    let mut command = Command::new(kilndb_program()?);
    command.arg("serve").arg("-D").arg(data).args(["-p", &port.to_string()]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    std::thread::sleep(after);
    child.kill()?;
    child.wait().map(|_| ())
}

/// Runs `kilndb check`; an error carries what it found.
pub fn check_kilndb(data: &Path) -> io::Result<()> {
    check_program(&kilndb_program()?, data)
}

/// Checks a data folder as [`check_kilndb`] does, with another build of KilnDB.
pub fn check_program(program: &Path, data: &Path) -> io::Result<()> {
    let output = Command::new(program).arg("check").arg("-D").arg(data).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "kilndb check: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_port_is_given_once_and_no_connection_gets_it() {
        let (first, second) = (free_port().expect("a port"), free_port().expect("a port"));
        assert_ne!(first, second);
        assert!(!keep_port(first) && !keep_port(second), "another process would have got them too");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let of_kernel = listener.local_addr().expect("its address").port();
        assert!(!ports_for_servers().contains(&of_kernel), "{of_kernel} is the kernel's to give");
        TcpListener::bind(("127.0.0.1", first)).expect("nobody listens there");
    }

    #[test]
    fn a_port_is_free_while_other_threads_start_programs() {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        Command::new("true").status().expect("true");
                    }
                });
            }
            let refused = (0..300).filter(|_| TcpListener::bind(("127.0.0.1", free_port().expect("a port"))).is_err());
            let refused = refused.count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(refused, 0);
        });
    }

    #[test]
    fn a_port_that_is_listened_on_is_not_free() {
        let listener = TcpListener::bind(("127.0.0.1", free_port().expect("a port"))).expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        assert!(is_listened_on(port));
    }
}
