//! A client's connection: messages out, replies in, without waiting for either.

use super::LoadPlan;
use crate::client::{Client, ClientError, Proof};
use mio::event::Source;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

enum Socket {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

impl Socket {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(stream) => stream,
            Socket::Unix(stream) => stream,
        }
    }
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
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
        while self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if !self.waits_for_room {
                        self.waits_for_room = true;
                        let both = Interest::READABLE | Interest::WRITABLE;
                        self.socket.source().reregister(registry, token, both)?;
                    }
                    return Ok(());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.output.clear();
        self.written = 0;
        if self.waits_for_room {
            self.waits_for_room = false;
            self.socket.source().reregister(registry, token, Interest::READABLE)?;
        }
        Ok(())
    }

    /// Reads all that is there. Errors: the connection is at its end.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    if count < buffer.len() {
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
    begin_session(stream.try_clone()?, plan)?;
    stream.set_nonblocking(true)?;
    Ok(Socket::Tcp(mio::net::TcpStream::from_std(stream)))
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
