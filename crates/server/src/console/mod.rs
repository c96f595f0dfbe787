//! The console: a page that shows what the server does, metrics for Prometheus, and whether it is well (docs/console.md).
//!
//! Invariants
//! 1. The console is a client like any other: it logs in as whoever asks, by the ordinary rules of pg_hba.conf for a database
//!    named `kiln_console`, and what it shows it has asked for in SQL with that role's rights.
//! 2. It changes nothing: its sessions are read-only, and nothing of a request becomes part of a statement.
//! 3. A request ends its own connection at the worst; there are at most [`CONNECTIONS_MAX`] of them.
//!
//! Must not know: where the figures come from.

mod answer;
mod gate;
mod http;
mod metrics;
mod questions;

use crate::connection::ConsolePeer;
use crate::listen::{self, ConnectionDealer};
use crate::shared::ServerShared;
use gate::ConsoleGate;
use http::{HttpReader, HttpResponse};
use kilndb_base::sync::atomic::{AtomicUsize, Ordering};
use kilndb_base::{Error, Result, sqlstate};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The name that pg_hba.conf knows the console by. No database needs to have it.
pub const DATABASE: &str = "kiln_console";

/// Browsers have some each; a page asks once a second.
const CONNECTIONS_MAX: usize = 32;
/// A connection that says nothing for so long is closed.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Something that a browser speaks over.
trait ConsoleStream: Read + Write {}
impl<S: Read + Write> ConsoleStream for S {}

/// Listens where `console_listen` says: at `host:port`, or at a Unix socket if it begins with a slash. Empty: nowhere.
pub fn start(place: &str, dealer: &Arc<ConnectionDealer>, shared: &Arc<ServerShared>) -> Result<()> {
    if place.is_empty() {
        return Ok(());
    }
    let gate = Arc::new(ConsoleGate::new(dealer.clone(), shared.clone()));
    let open = Arc::new(AtomicUsize::new(0));
    let env = shared.env.clone();
    if place.starts_with('/') {
        let mode = shared.instance.cluster.settings().number("unix_socket_permissions") as u32 & 0o777;
        let listener = listen::bind_unix_path(Path::new(place), mode)?;
        let accept = move || accept_unix(&listener, &gate, &open);
        env.spawn("console", Box::new(accept))?;
        return Ok(());
    }
    let (host, port) = place.rsplit_once(':').ok_or_else(|| bad_place(place))?;
    let port = port.parse().map_err(|_| bad_place(place))?;
    let listener = listen::bind_tcp(host.trim_matches(['[', ']']), port)?;
    let accept = move || accept_tcp(&listener, &gate, &open);
    env.spawn("console", Box::new(accept))?;
    Ok(())
}

fn bad_place(place: &str) -> Error {
    let message = format!("invalid value for parameter \"console_listen\": \"{place}\"");
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
        .with_hint("It is a host and a port (127.0.0.1:8008), or the path of a Unix socket.")
}

fn accept_tcp(listener: &TcpListener, gate: &Arc<ConsoleGate>, open: &Arc<AtomicUsize>) {
    while !gate.is_stopping() {
        let accepted = listener.accept().and_then(|(stream, peer)| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            Ok((stream.local_addr()?, stream, peer))
        });
        match accepted {
            Ok((own, stream, peer)) => {
                let peer = ConsolePeer { ends: Some((peer, own)), user_id: None };
                take(stream, peer, gate, open);
            }
            Err(e) => gate.not_accepted(&e),
        }
    }
}

fn accept_unix(listener: &UnixListener, gate: &Arc<ConsoleGate>, open: &Arc<AtomicUsize>) {
    while !gate.is_stopping() {
        let accepted = listener.accept().and_then(|(stream, _)| {
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            Ok(stream)
        });
        match accepted {
            Ok(stream) => {
                let user_id = crate::connection::user_at_other_end(stream.as_raw_fd());
                take(stream, ConsolePeer { ends: None, user_id }, gate, open);
            }
            Err(e) => gate.not_accepted(&e),
        }
    }
}

/// A thread for the connection, if there is room for one more; else it is closed.
fn take(
    stream: impl ConsoleStream + Send + 'static,
    peer: ConsolePeer,
    gate: &Arc<ConsoleGate>,
    open: &Arc<AtomicUsize>,
) {
    if open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
        open.fetch_sub(1, Ordering::SeqCst);
        return;
    }
    let (of_thread, count) = (gate.clone(), open.clone());
    let serve = move || {
        // A client that is gone is no news.
        let _ = serve(stream, peer, &of_thread);
        count.fetch_sub(1, Ordering::SeqCst);
    };
    if gate.env().spawn("console connection", Box::new(serve)).is_err() {
        open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers one request after the other.
fn serve(mut stream: impl ConsoleStream, peer: ConsolePeer, gate: &ConsoleGate) -> io::Result<()> {
    let mut reader = HttpReader::default();
    let mut visitor = gate::ConsoleVisitor::new(peer);
    while let Some(request) = reader.next(&mut stream)? {
        let (response, goes_on) = match request {
            Ok(request) => {
                let goes_on = request.keeps_alive && !gate.is_stopping();
                (answer::answer(&request, &mut visitor, gate), goes_on)
            }
            Err(wrong) => (HttpResponse::text(400, wrong), false),
        };
        stream.write_all(&response.bytes(goes_on))?;
        if !goes_on {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_place_that_is_none_is_told() {
        assert!(bad_place("8008").message().contains("\"8008\""));
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = std::env::temp_dir().join(format!("kilndb-console-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("socket");
        let bind = || listen::bind_unix_path(&path, 0o700);
        let first = bind().expect("nobody is there");
        assert!(bind().is_err(), "somebody listens");
        drop(first);
        assert!(bind().is_ok(), "what is left over is replaced");
        std::fs::remove_dir_all(&folder).expect("it goes");
    }

    #[test]
    fn streams_have_a_peer() {
        let (a, _b) = UnixStream::pair().expect("a pair");
        // SAFETY: no arguments, cannot fail.
        let own = unsafe { libc::getuid() };
        assert_eq!(crate::connection::user_at_other_end(a.as_raw_fd()), Some(own));
    }
}
