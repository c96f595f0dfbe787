//! systemd's notify protocol: how the service is, as datagrams to the socket that `NOTIFY_SOCKET` names.
//!
//! Invariants
//! 1. Nothing here fails for the server: without a socket, or with one that takes nothing, nothing is told.
//!
//! Must not know: why the service is as it is.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

pub const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

pub struct Notifier(Option<(UnixDatagram, SocketAddr)>);

impl Notifier {
    pub fn from_environment() -> Notifier {
        let name = std::env::var_os(SOCKET_VARIABLE);
        Notifier(name.and_then(|name| Some((UnixDatagram::unbound().ok()?, address(&name)?))))
    }

    /// The service works. `MAINPID` is for services that a shell has started.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nMAINPID={}\nSTATUS={status}", std::process::id()));
    }
    pub fn status(&self, status: &str) {
        self.tell(&format!("STATUS={status}"));
    }
    /// Until the next `ready`.
    pub fn reloading(&self) {
        let micros = kilndb_base::env::process_monotonic_nanos() / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }
    pub fn stopping(&self, status: &str) {
        self.tell(&format!("STOPPING=1\nSTATUS={status}"));
    }

    fn tell(&self, text: &str) {
        if let Some((socket, to)) = &self.0 {
            // Invariant 1.
            let _ = socket.send_to_addr(text.as_bytes(), to);
        }
    }
}

/// A path, or after an `@` a name in the abstract namespace. Other kinds (vsock) are for virtual machines.
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_or_abstract() {
        assert!(address(OsStr::new("/run/notify")).is_some_and(|a| a.as_pathname().is_some()));
        assert!(address(OsStr::new("@kiln/1")).is_some_and(|a| a.as_abstract_name() == Some(b"kiln/1")));
        assert!(address(OsStr::new("vsock:2:1")).is_none() && address(OsStr::new("")).is_none());
    }

    #[test]
    fn who_listens_is_told_and_nobody_is_no_failure() {
        let name = format!("kilndb-notify-{}", std::process::id());
        let to = address(OsStr::new(&format!("@{name}"))).unwrap();
        let notifier = Notifier(Some((UnixDatagram::unbound().unwrap(), to.clone())));
        notifier.status("nobody");
        let listener = UnixDatagram::bind_addr(&to).unwrap();
        notifier.ready("at work");
        let mut got = [0; 200];
        let length = listener.recv(&mut got).unwrap();
        let text = String::from_utf8_lossy(&got[..length]).into_owned();
        assert_eq!(text, format!("READY=1\nMAINPID={}\nSTATUS=at work", std::process::id()));
    }
}
