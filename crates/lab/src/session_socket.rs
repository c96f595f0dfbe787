//! Sockets of sessions that have logged in: logging in waits, nothing after it does.
//!
//! 1. Who logs in, and what the session begins with, is said once for all kinds of clients that do not wait.
//!
//! Must not know: what the sessions are for.

use crate::client::{Address, Client, ClientError, Proof};
use crate::tls::{self, OpenedStream};
use mio::event::Source;
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    Tls(Box<TlsSocket>),
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
        match tls::open(address, stream)? {
            OpenedStream::Plain(stream) => {
                login.begin(stream.try_clone()?)?;
                stream.set_nonblocking(true)?;
                Ok(SessionSocket::Tcp(mio::net::TcpStream::from_std(stream)))
            }
            OpenedStream::Encrypted(stream) => {
                let lent = LentStream(Arc::new(Mutex::new(Some(stream))));
                login.begin(lent.clone())?;
                let (session, stream) = lent.take_back()?.into_parts();
                stream.set_nonblocking(true)?;
                Ok(SessionSocket::Tls(Box::new(TlsSocket { session, stream: mio::net::TcpStream::from_std(stream) })))
            }
        }
    }
    /// What a poll looks at.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            SessionSocket::Tcp(stream) => stream,
            SessionSocket::Tls(socket) => &mut socket.stream,
            SessionSocket::Unix(stream) => stream,
        }
    }
    /// Fewer bytes than there was room for are all that there were. What was decrypted comes in pieces of TLS's records.
    pub fn gives_all_at_once(&self) -> bool {
        !matches!(self, SessionSocket::Tls(_))
    }
}

impl Read for SessionSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            SessionSocket::Tcp(stream) => stream.read(buffer),
            SessionSocket::Tls(socket) => socket.read(buffer),
            SessionSocket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for SessionSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            SessionSocket::Tcp(stream) => stream.write(bytes),
            SessionSocket::Tls(socket) => socket.write(bytes),
            SessionSocket::Unix(stream) => stream.write(bytes),
        }
    }
    /// Sends what was encrypted and has not gone out.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            SessionSocket::Tcp(_) | SessionSocket::Unix(_) => Ok(()),
            SessionSocket::Tls(socket) => socket.send(),
        }
    }
}

/// A socket that does not wait, with what encrypts it.
pub(crate) struct TlsSocket {
    session: ClientConnection,
    stream: mio::net::TcpStream,
}

impl TlsSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.session.read_tls(&mut self.stream)? == 0 {
                return Ok(0);
            }
            self.session.process_new_packets().map_err(io::Error::other)?;
        }
    }
    /// Bytes are taken once those before have gone out.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send()?;
        self.session.writer().write(bytes)
    }
    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.stream)?;
        }
        Ok(())
    }
}

type TlsStream = Box<StreamOwned<ClientConnection, std::net::TcpStream>>;

/// A stream that a client has while it logs in, and that goes on without it: what encrypts it cannot be there twice.
#[derive(Clone)]
struct LentStream(Arc<Mutex<Option<TlsStream>>>);

impl LentStream {
    fn take_back(&self) -> io::Result<TlsStream> {
        self.lock().take().ok_or_else(|| ErrorKind::NotConnected.into())
    }
    fn lock(&self) -> MutexGuard<'_, Option<TlsStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn with<T>(&self, action: impl FnOnce(&mut TlsStream) -> io::Result<T>) -> io::Result<T> {
        action(self.lock().as_mut().ok_or(ErrorKind::NotConnected)?)
    }
}

impl Read for LentStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.with(|stream| stream.read(buffer))
    }
}

impl Write for LentStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|stream| stream.write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        self.with(|stream| stream.flush())
    }
}
