//! The wire limit: a server that answers every protocol message with prepared bytes. Nothing that speaks the protocol
//! can be faster, so its figures say what is left to win.

use crate::client::Address;
use crate::process::TempDir;
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const READY: &[u8] = b"Z\0\0\0\x05I";
/// One row of one int4 column: description, value, end.
const DESCRIPTION: &[u8] = b"T\0\0\0\x21\0\x01abalance\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
const ROW: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x011C\0\0\0\x0dSELECT 1\0";
const DONE: &[u8] = b"C\0\0\0\x0dUPDATE 1\0";
/// What pgbench asks for at its start: whether pgbench_accounts is partitioned. It is not.
const PARTITIONS: &[u8] = b"T\0\0\0\x48\0\x03a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0b\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0c\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0D\0\0\0\x14\0\x03\0\0\0\x011\xff\xff\xff\xff\0\0\0\x010C\0\0\0\x0dSELECT 1\0";

/// How long the socket may take to be there.
const START_MAX: Duration = Duration::from_secs(5);

/// Serves from this process as long as that runs. The folder has the socket: without it nobody gets there any more.
pub fn start() -> io::Result<(Address, TempDir)> {
    let folder = TempDir::for_sockets()?;
    let address = Address { host: folder.path().display().to_string(), ..Address::local(5432) };
    let socket = folder.path().join(format!(".s.PGSQL.{}", address.port));
    let listens_at = socket.clone();
    std::thread::spawn(move || {
        if let Err(e) = serve(&listens_at) {
            eprintln!("wire limit: {e}");
        }
    });
    let began = Instant::now();
    while !socket.exists() {
        if began.elapsed() > START_MAX {
            return Err(io::Error::from(ErrorKind::TimedOut));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok((address, folder))
}

/// Serves for ever on a Unix socket.
pub fn serve(socket: &Path) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    let mut workers: Vec<(Sender<std::os::unix::net::UnixStream>, Arc<Waker>)> = Vec::new();
    for _ in 0..threads {
        let (sender, receiver) = channel();
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);
        workers.push((sender, waker));
        std::thread::spawn(move || {
            if let Err(e) = work(poll, receiver) {
                eprintln!("canned server: {e}");
            }
        });
    }
    for next in (0..workers.len()).cycle() {
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        let (sender, waker) = &workers[next];
        if sender.send(stream).is_err() {
            return Err(io::Error::other("a thread ended"));
        }
        waker.wake()?;
    }
    Ok(())
}

struct CannedConnection {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    started: bool,
    /// Which prepared statements answer rows.
    selects: HashMap<Vec<u8>, bool>,
    /// Whether the bound one does.
    bound: bool,
}

fn work(mut poll: Poll, newcomers: Receiver<std::os::unix::net::UnixStream>) -> io::Result<()> {
    let mut connections: HashMap<Token, CannedConnection> = HashMap::new();
    let mut events = Events::with_capacity(1024);
    let mut next = 1;
    loop {
        if let Err(e) = poll.poll(&mut events, None) {
            if e.kind() == ErrorKind::Interrupted {
                continue;
            }
            return Err(e);
        }
        for event in &events {
            if event.token() == Token(0) {
                while let Ok(stream) = newcomers.try_recv() {
                    let mut stream = UnixStream::from_std(stream);
                    poll.registry().register(&mut stream, Token(next), Interest::READABLE)?;
                    let connection = CannedConnection {
                        stream,
                        input: Vec::new(),
                        output: Vec::new(),
                        started: false,
                        selects: HashMap::new(),
                        bound: true,
                    };
                    connections.insert(Token(next), connection);
                    next += 1;
                }
            } else if let Some(connection) = connections.get_mut(&event.token())
                && connection.step().is_err()
            {
                connections.remove(&event.token());
            }
        }
    }
}

impl CannedConnection {
    /// Reads what is there and answers it. An error ends the connection.
    fn step(&mut self) -> io::Result<()> {
        let mut buffer = [0_u8; 16384];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.input.extend_from_slice(&buffer[..n]);
                    if n < buffer.len() {
                        break;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while let Some(used) = self.message(rest)? {
            rest = &rest[used..];
        }
        self.input = rest.to_vec();
        // The answers are small and the client waits for them: the socket's buffer always has room.
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Answers the first message of `input`; tells its length, or none when it is not complete.
    fn message(&mut self, input: &[u8]) -> io::Result<Option<usize>> {
        let head = if self.started { 1 } else { 0 };
        let Some(length) = input.get(head..head + 4) else { return Ok(None) };
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let Some(body) = input.get(head + 4..head + length.max(4)) else { return Ok(None) };
        if !self.started {
            // SSLRequest and GSSENCRequest are the only ones this short that are no start-up message.
            if length == 8 {
                self.output.push(b'N');
            } else {
                self.started = true;
                self.output.extend_from_slice(b"R\0\0\0\x08\0\0\0\0S\0\0\0\x18server_version\x0018.0\0S\0\0\0\x19client_encoding\0UTF8\0S\0\0\0\x23standard_conforming_strings\0on\0");
                self.output.extend_from_slice(READY);
            }
            return Ok(Some(length));
        }
        match input[0] {
            b'Q' => {
                let text = String::from_utf8_lossy(body);
                if text.contains("partstrat") {
                    self.output.extend_from_slice(PARTITIONS);
                } else if is_select(body) {
                    self.output.extend_from_slice(DESCRIPTION);
                    self.output.extend_from_slice(ROW);
                } else {
                    self.output.extend_from_slice(DONE);
                }
                self.output.extend_from_slice(READY);
            }
            b'P' => {
                let mut parts = body.split(|&b| b == 0);
                let name = parts.next().unwrap_or_default();
                let select = is_select(parts.next().unwrap_or_default());
                self.selects.insert(name.to_vec(), select);
                self.output.extend_from_slice(b"1\0\0\0\x04");
            }
            b'B' => {
                let statement = body.split(|&b| b == 0).nth(1).unwrap_or_default();
                self.bound = self.selects.get(statement).copied().unwrap_or(true);
                self.output.extend_from_slice(b"2\0\0\0\x04");
            }
            b'D' if self.bound => self.output.extend_from_slice(DESCRIPTION),
            b'D' => self.output.extend_from_slice(b"n\0\0\0\x04"),
            b'E' if self.bound => self.output.extend_from_slice(ROW),
            b'E' => self.output.extend_from_slice(DONE),
            b'S' => self.output.extend_from_slice(READY),
            b'C' => self.output.extend_from_slice(b"3\0\0\0\x04"),
            b'X' => return Err(ErrorKind::UnexpectedEof.into()),
            _ => {}
        }
        Ok(Some(length + 1))
    }
}

fn is_select(sql: &[u8]) -> bool {
    sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"select"))
}
