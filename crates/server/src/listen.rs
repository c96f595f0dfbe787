//! Listening sockets: TCP and Unix, dealt out to the workers in turn.

use crate::connection::Socket;
use crate::shared::Shared;
use crate::worker::{Inbox, Mail};
use kilndb_base::{Error, Result, Severity, sqlstate};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Deals connections to the workers in turn.
pub struct Dealer {
    inboxes: Vec<Arc<Inbox>>,
    next: AtomicUsize,
}

impl Dealer {
    pub fn new(inboxes: Vec<Arc<Inbox>>) -> Dealer {
        Dealer { inboxes, next: AtomicUsize::new(0) }
    }
    fn deal(&self, socket: Socket) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.inboxes.len();
        self.inboxes[turn].send(Mail::Connection(socket));
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

fn socket2_listen(host: &str, port: u16) -> std::io::Result<TcpListener> {
    let host = if host == "*" { "0.0.0.0" } else { host };
    let listener = TcpListener::bind((host, port))?;
    // std listens with a backlog of 128 only; a storm of connects needs more. listen(2) may be called again.
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is the open listening socket.
    unsafe { libc::listen(listener.as_raw_fd(), 4096) };
    Ok(listener)
}

/// Binds `.s.PGSQL.PORT`. A socket file that nobody answers on is left over from a crash and is replaced.
pub fn bind_unix(dir: &Path, port: u16) -> Result<(UnixListener, PathBuf)> {
    let path = dir.join(format!(".s.PGSQL.{port}"));
    let fail =
        |e: std::io::Error| Error::new(sqlstate::IO_ERROR, format!("could not listen on {}: {e}", path.display()));
    if path.exists() {
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            return Err(fail(std::io::Error::from_raw_os_error(libc::EADDRINUSE)));
        }
        std::fs::remove_file(&path).map_err(fail)?;
    }
    let listener = UnixListener::bind(&path).map_err(fail)?;
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is the open listening socket.
    unsafe { libc::listen(listener.as_raw_fd(), 4096) };
    Ok((listener, path))
}

pub fn accept_tcp(listener: TcpListener, dealer: Arc<Dealer>, shared: Arc<Shared>) {
    while !shared.stopping() {
        match listener.accept() {
            Ok((stream, _)) => {
                // Without it a reply may wait for the client's delayed acknowledgement; failure costs only speed.
                let _ = stream.set_nodelay(true);
                if stream.set_nonblocking(true).is_ok() {
                    dealer.deal(Socket::Tcp(mio::net::TcpStream::from_std(stream)));
                }
            }
            Err(e) => accept_failed(&shared, &e),
        }
    }
}

pub fn accept_unix(listener: UnixListener, dealer: Arc<Dealer>, shared: Arc<Shared>) {
    while !shared.stopping() {
        match listener.accept() {
            Ok((stream, _)) => {
                if stream.set_nonblocking(true).is_ok() {
                    dealer.deal(Socket::Unix(mio::net::UnixStream::from_std(stream)));
                }
            }
            Err(e) => accept_failed(&shared, &e),
        }
    }
}

/// Out of descriptors, mostly: wait for some to be closed instead of spinning.
fn accept_failed(shared: &Shared, e: &std::io::Error) {
    if !shared.stopping() {
        shared.instance.log(Severity::Log, &format!("could not accept a connection: {e}"));
        shared.env.sleep(Duration::from_millis(50));
    }
}
