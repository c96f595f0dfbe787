//! A client's connection: messages out, replies in, without waiting for either.

use super::LoadPlan;
use crate::session_socket::SessionSocket;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, Read, Write};

pub(super) struct LoadLink {
    socket: SessionSocket,
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
        let socket = SessionSocket::open(&plan.login()).map_err(|e| e.to_string())?;
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

    /// Reads all that is there. Errors: the connection is at its end. `is_closed`: the poll says that the server has said its last,
    /// and will not say so again.
    pub fn read(&mut self, buffer: &mut [u8], is_closed: bool) -> io::Result<()> {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    if count < buffer.len() && !is_closed && self.socket.gives_all_at_once() {
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
