//! Sockets of sessions that have logged in: logging in waits, nothing after it does.
//!
//! 1. Who logs in, and what the session begins with, is said once for all kinds of clients that do not wait.
//!
//! Must not know: what the sessions are for.

use crate::client::{Address, Client, ClientError, Proof};
use mio::event::Source;
use std::io::{self, Read, Write};
use std::time::Duration;

/// A server that does not answer when a client logs in is taken for one that is down.
const LOGIN_MAX: Duration = Duration::from_secs(60);

/// Who logs in where.
#[derive(Clone, Copy, Debug)]
pub struct SessionLogin<'l> {
    pub address: &'l Address,
    pub database: &'l str,
    pub password: Option<&'l str>,
    /// What the session says before anything else; empty: nothing.
    pub session: &'l str,
}

impl<'l> SessionLogin<'l> {
    /// Somebody who is let in without a password, and says nothing first.
    pub fn to(address: &'l Address, database: &'l str) -> SessionLogin<'l> {
        SessionLogin { address, database, password: None, session: "" }
    }

    /// Logs in and says what the session begins with.
    fn begin(&self, stream: impl Read + Write + Send + 'static) -> Result<(), ClientError> {
        let proof = Proof { password: self.password.map(str::to_string), ..Proof::default() };
        let mut client = Client::over_with(stream, &self.address.user, self.database, proof)?;
        if !self.session.is_empty() {
            client.query(self.session)?;
        }
        client.hand_over();
        Ok(())
    }
}

pub(crate) enum SessionSocket {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

impl SessionSocket {
    pub fn open(login: &SessionLogin<'_>) -> Result<SessionSocket, ClientError> {
        let address = login.address;
        if address.host.starts_with('/') {
            let path = format!("{}/.s.PGSQL.{}", address.host, address.port);
            let stream = std::os::unix::net::UnixStream::connect(path)?;
            stream.set_read_timeout(Some(LOGIN_MAX))?;
            login.begin(stream.try_clone()?)?;
            stream.set_nonblocking(true)?;
            return Ok(SessionSocket::Unix(mio::net::UnixStream::from_std(stream)));
        }
        let stream = std::net::TcpStream::connect((address.host.as_str(), address.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOGIN_MAX))?;
        login.begin(stream.try_clone()?)?;
        stream.set_nonblocking(true)?;
        Ok(SessionSocket::Tcp(mio::net::TcpStream::from_std(stream)))
    }
    /// What a poll looks at.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            SessionSocket::Tcp(stream) => stream,
            SessionSocket::Unix(stream) => stream,
        }
    }
}

impl Read for SessionSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            SessionSocket::Tcp(stream) => stream.read(buffer),
            SessionSocket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for SessionSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            SessionSocket::Tcp(stream) => stream.write(bytes),
            SessionSocket::Unix(stream) => stream.write(bytes),
        }
    }
    /// Nothing is kept back.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
