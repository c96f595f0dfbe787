//! A client's connection: messages out, replies in, without waiting for either.

use super::LoadPlan;
use crate::client::{Client, ClientError, Proof};
use crate::tls::{self, OpenedStream};
use mio::event::Source;
use mio::{Interest, Registry, Token};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

enum Socket {
    Tcp(mio::net::TcpStream),
    Tls(Box<TlsSocket>),
    Unix(mio::net::UnixStream),
}

impl Socket {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(stream) => stream,
            Socket::Tls(socket) => &mut socket.stream,
            Socket::Unix(stream) => stream,
        }
    }
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Tls(socket) => socket.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Tls(socket) => socket.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }
    /// Sends what was encrypted and has not gone out.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Tcp(_) | Socket::Unix(_) => Ok(()),
            Socket::Tls(socket) => socket.send(),
        }
    }
    /// Fewer bytes than there was room for are all that there were. What was decrypted comes in pieces of TLS's records.
    fn gives_all_at_once(&self) -> bool {
        !matches!(self, Socket::Tls(_))
    }
}

/// A socket that does not wait, with what encrypts it.
struct TlsSocket {
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

/// A server that does not answer when a client logs in is taken for one that is down.
const LOGIN_MAX: Duration = Duration::from_secs(60);

pub(super) struct LoadLink {
    socket: Socket,
    /// Messages that have not gone out.
    pub output: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    /// What of the input has been taken.
    taken: usize,
    waits_for_room: bool,
}

/// One message of the server.
pub(super) struct Reply<'r> {
    pub kind: u8,
    pub body: &'r [u8],
}

impl LoadLink {
    /// Connects and logs in, which waits.
    pub fn open(plan: &LoadPlan) -> Result<LoadLink, String> {
        let socket = connect(plan).map_err(|e| e.to_string())?;
        let (output, input) = (Vec::new(), Vec::new());
        Ok(LoadLink { socket, output, written: 0, input, taken: 0, waits_for_room: false })
    }
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.socket.source().register(registry, token, Interest::READABLE)
    }

    /// Sends what there is; what finds no room goes when there is some, of which the poll tells.
    pub fn flush(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self.send() {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if !self.waits_for_room {
                    self.waits_for_room = true;
                    let both = Interest::READABLE | Interest::WRITABLE;
                    self.socket.source().reregister(registry, token, both)?;
                }
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        self.output.clear();
        self.written = 0;
        if self.waits_for_room {
            self.waits_for_room = false;
            self.socket.source().reregister(registry, token, Interest::READABLE)?;
        }
        Ok(())
    }
    fn send(&mut self) -> io::Result<()> {
        loop {
            let rest = &self.output[self.written..];
            let sent =
                if rest.is_empty() { self.socket.flush().map(|()| None) } else { self.socket.write(rest).map(Some) };
            match sent {
                Ok(None) => return Ok(()),
                Ok(Some(0)) => return Err(ErrorKind::WriteZero.into()),
                Ok(Some(count)) => self.written += count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Reads all that is there. Errors: the connection is at its end.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    if count < buffer.len() && self.socket.gives_all_at_once() {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// The next whole message. None: the rest has not come.
    pub fn next_reply(&mut self) -> Option<Reply<'_>> {
        let left = &self.input[self.taken..];
        let length = match left.get(1..5) {
            Some(length) => u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize,
            None => 0,
        };
        if length < 4 || left.len() < 1 + length {
            self.input.drain(..self.taken);
            self.taken = 0;
            return None;
        }
        let begin = self.taken;
        self.taken += 1 + length;
        Some(Reply { kind: self.input[begin], body: &self.input[begin + 5..begin + 1 + length] })
    }
}

fn connect(plan: &LoadPlan) -> Result<Socket, ClientError> {
    let address = &plan.address;
    if address.host.starts_with('/') {
        let path = format!("{}/.s.PGSQL.{}", address.host, address.port);
        let stream = std::os::unix::net::UnixStream::connect(path)?;
        stream.set_read_timeout(Some(LOGIN_MAX))?;
        begin_session(stream.try_clone()?, plan)?;
        stream.set_nonblocking(true)?;
        return Ok(Socket::Unix(mio::net::UnixStream::from_std(stream)));
    }
    let stream = std::net::TcpStream::connect((address.host.as_str(), address.port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOGIN_MAX))?;
    match tls::open(address, stream)? {
        OpenedStream::Plain(stream) => {
            begin_session(stream.try_clone()?, plan)?;
            stream.set_nonblocking(true)?;
            Ok(Socket::Tcp(mio::net::TcpStream::from_std(stream)))
        }
        OpenedStream::Encrypted(stream) => {
            let lent = LentStream(Arc::new(Mutex::new(Some(stream))));
            begin_session(lent.clone(), plan)?;
            let (session, stream) = lent.take_back()?.into_parts();
            stream.set_nonblocking(true)?;
            Ok(Socket::Tls(Box::new(TlsSocket { session, stream: mio::net::TcpStream::from_std(stream) })))
        }
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

/// Logs in and says what a session begins with.
fn begin_session(stream: impl Read + Write + Send + 'static, plan: &LoadPlan) -> Result<(), ClientError> {
    let proof = Proof { password: plan.password.clone(), ..Proof::default() };
    let mut client = Client::over_with(stream, &plan.address.user, &plan.database, proof)?;
    if !plan.session.is_empty() {
        client.query(&plan.session)?;
    }
    client.hand_over();
    Ok(())
}
