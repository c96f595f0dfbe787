//! Listening sockets: TCP and Unix, dealt out to the workers in turn.

use crate::connection::Socket;
use crate::shared::ServerShared;
use crate::worker::{WorkerInbox, WorkerMessage};
use kilndb_base::sync::atomic::{AtomicUsize, Ordering};
use kilndb_base::{Error, Result, Severity, sqlstate};
use std::fs::Permissions;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Descriptors that those who connect do not get: storage opens files while it runs, and fails without.
const RESERVED_DESCRIPTORS: usize = 64;
/// A worker closes a socket soon after it was asked to.
const ROOM_IS_MADE_WITHIN: Duration = Duration::from_millis(1);
/// The log is told of closed connections at most so often.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Deals connections to the workers in turn.
pub struct ConnectionDealer {
    inboxes: Vec<Arc<WorkerInbox>>,
    next: AtomicUsize,
}

impl ConnectionDealer {
    pub fn new(inboxes: Vec<Arc<WorkerInbox>>) -> ConnectionDealer {
        ConnectionDealer { inboxes, next: AtomicUsize::new(0) }
    }
    pub fn deal(&self, socket: Socket) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.inboxes.len();
        self.inboxes[turn].send(WorkerMessage::Connection(socket));
    }
    pub fn nudge_all(&self) {
        self.inboxes.iter().for_each(|i| i.nudge());
    }
}

pub fn bind_tcp(host: &str, port: u16) -> Result<TcpListener> {
    let listener = socket2_listen(host, port)
        .map_err(|e| Error::new(sqlstate::IO_ERROR, format!("could not listen on {host}:{port}: {e}")))?;
    Ok(listener)
}

fn socket2_listen(host: &str, port: u16) -> io::Result<TcpListener> {
    let host = if host == "*" { "0.0.0.0" } else { host };
    let listener = TcpListener::bind((host, port))?;
    // std listens with a backlog of 128 only; a storm of connects needs more. listen(2) may be called again.
    // SAFETY: the descriptor is the open listening socket.
    unsafe { libc::listen(listener.as_raw_fd(), 4096) };
    Ok(listener)
}

/// Binds `.s.PGSQL.PORT`. A socket file that nobody answers on is left over from a crash and is replaced.
/// `mode`: `unix_socket_permissions`; whoever may write to the socket may connect.
pub fn bind_unix(dir: &Path, port: u16, mode: u32) -> Result<UnixListener> {
    bind_unix_path(&dir.join(format!(".s.PGSQL.{port}")), mode)
}

/// As [`bind_unix`], with a name of its own.
pub fn bind_unix_path(path: &Path, mode: u32) -> Result<UnixListener> {
    let fail = |e: io::Error| Error::new(sqlstate::IO_ERROR, format!("could not listen on {}: {e}", path.display()));
    if path.exists() {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(fail(io::Error::from_raw_os_error(libc::EADDRINUSE)));
        }
        std::fs::remove_file(path).map_err(fail)?;
    }
    let listener = UnixListener::bind(path).map_err(fail)?;
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(fail)?;
    // SAFETY: the descriptor is the open listening socket.
    unsafe { libc::listen(listener.as_raw_fd(), 4096) };
    Ok(listener)
}

pub fn accept_tcp(listener: TcpListener, dealer: Arc<ConnectionDealer>, shared: Arc<ServerShared>) {
    accept_all(&listener, &dealer, &shared, || {
        let (stream, _) = listener.accept()?;
        // Without it a reply may wait for the client's delayed acknowledgement; failure costs only speed.
        let _ = stream.set_nodelay(true);
        stream.set_nonblocking(true)?;
        Ok(Socket::Tcp(mio::net::TcpStream::from_std(stream)))
    });
}

pub fn accept_unix(listener: UnixListener, dealer: Arc<ConnectionDealer>, shared: Arc<ServerShared>) {
    accept_all(&listener, &dealer, &shared, || {
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        Ok(Socket::Unix(mio::net::UnixStream::from_std(stream)))
    });
}

/// When descriptors are used up, or all but those that storage may need, the oldest go that have not sent their startup
/// packets.
fn accept_all(
    listener: &impl AsFd,
    dealer: &ConnectionDealer,
    shared: &ServerShared,
    accept: impl Fn() -> io::Result<Socket>,
) {
    let mut crowd = RefusedConnections { connections_max: connections_max(), closed: 0, told: None };
    while !shared.stopping() {
        // accept() itself fails for want of a descriptor also when nobody is there.
        wait_for_client(listener);
        match accept() {
            Ok(socket) => {
                let connections = shared.connection_begins();
                dealer.deal(socket);
                if connections > crowd.connections_max && crowd.make_room(shared) {
                    // Two go for one that comes, until there is room again.
                    crowd.make_room(shared);
                    shared.env.sleep(ROOM_IS_MADE_WITHIN);
                }
            }
            Err(_) if shared.stopping() => {}
            Err(e) if is_shortage(&e) && crowd.make_room(shared) => shared.env.sleep(ROOM_IS_MADE_WITHIN),
            Err(e) => {
                shared.instance.cluster.log(Severity::Log, &format!("could not accept a connection: {e}"));
                shared.env.sleep(Duration::from_millis(50));
            }
        }
    }
}

fn is_shortage(e: &io::Error) -> bool {
    [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM].contains(&e.raw_os_error().unwrap_or(0))
}

fn wait_for_client(listener: &impl AsFd) {
    let mut polled = libc::pollfd { fd: listener.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid structure. Whatever wakes it, accept() waits for what is not there.
    unsafe { libc::poll(&mut polled, 1, -1) };
}

/// How many connections leave storage the descriptors that it may need; there are more only if all have sent their
/// startup packets. Called when the server has opened what it always has open.
fn connections_max() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the call.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let limit = usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(RESERVED_DESCRIPTORS, |all| all.count());
    limit.saturating_sub(open + RESERVED_DESCRIPTORS.min(limit / 4))
}

/// Who has been closed to let others in.
struct RefusedConnections {
    connections_max: usize,
    /// Since the log was told.
    closed: usize,
    told: Option<Instant>,
}

impl RefusedConnections {
    /// Closes the oldest session without a startup packet; false: everybody has sent one.
    fn make_room(&mut self, shared: &ServerShared) -> bool {
        if !shared.close_oldest_stranger() {
            return false;
        }
        self.closed += 1;
        if self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            let message = format!(
                "file descriptors are short: closed {} connections that had not sent a startup packet yet",
                self.closed
            );
            shared.instance.cluster.log(Severity::Log, &message);
            *self = RefusedConnections { closed: 0, told: Some(Instant::now()), ..*self };
        }
        true
    }
}
