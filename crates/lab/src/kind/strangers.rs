//! Strangers at a server's door: connections that say nothing, TLS handshakes that are never ended, and wrong passwords.
//!
//! 1. All of them have come before the load begins, and go when it has ended; passwords are guessed meanwhile.
//! 2. Nobody waits for the answers to wrong passwords, which are late: whoever guesses has many guesses on their way.
//!
//! Must not know: experiments and targets.

use super::{BesideStart, BesideWork};
use crate::client::{Address, extended};
use crate::tls;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Who guesses, and whose password: a role of the experiment's setup.
const GUESSED: &str = "kiln_lab_guessed";
/// Answers to guesses are waited for so long, in seconds of guesses.
const GUESSES_ON_THEIR_WAY_S: usize = 10;
/// A server that does not answer a stranger for so long is taken for one that is down.
const PATIENCE: Duration = Duration::from_secs(30);
/// The bytes of a handshake's first message that those have sent who have not sent all of it.
const HELLO_PART: usize = 100;

struct Strangers {
    _connections: Vec<TcpStream>,
    is_over: Arc<AtomicBool>,
    guessing: Option<JoinHandle<io::Result<()>>>,
}

pub(super) fn start(start: &BesideStart<'_>) -> Result<Box<dyn BesideWork>, String> {
    let half_open: usize = start.variables.number("half_open", (0, 50_000))?;
    let idle: usize = start.variables.number("idle", (0, 50_000))?;
    let guesses: u32 = start.variables.number("guesses", (1, 10_000))?;
    let connections = connect(&start.address, half_open, idle).map_err(|e| format!("strangers: {e}"))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let (address, database) = (start.address.clone(), start.database.to_string());
    let seen = is_over.clone();
    let guessing = std::thread::spawn(move || guess_until(&address, &database, guesses, &seen));
    Ok(Box::new(Strangers { _connections: connections, is_over, guessing: Some(guessing) }))
}

impl Strangers {
    fn stop(&mut self) -> Result<(), String> {
        self.is_over.store(true, Ordering::SeqCst);
        match self.guessing.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(e))) => Err(format!("wrong passwords: {e}")),
            Some(Err(_)) => Err("wrong passwords: the thread has panicked".into()),
        }
    }
}

impl BesideWork for Strangers {
    fn end(mut self: Box<Self>) -> Result<(), String> {
        self.stop()
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        // Whoever wants to know how it went has ended it.
        let _ = self.stop();
    }
}

/// Connections that have begun a handshake, and others that have said nothing. Of the first, a half have sent the beginning of their first
/// message, the others wait for what follows the server's answer to it.
fn connect(address: &Address, half_open: usize, idle: usize) -> io::Result<Vec<TcpStream>> {
    let mut connections = Vec::with_capacity(half_open + idle);
    for number in 0..half_open + idle {
        let mut stream = TcpStream::connect((address.host.as_str(), address.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if number < half_open {
            let hello = tls::first_message(address, &mut stream)?;
            let sent = if number % 2 == 0 { hello.len() } else { hello.len().min(HELLO_PART) };
            stream.write_all(&hello[..sent])?;
        }
        connections.push(stream);
    }
    Ok(connections)
}

fn guess_until(address: &Address, database: &str, guesses: u32, is_over: &AtomicBool) -> io::Result<()> {
    let mut waiting = VecDeque::new();
    let pause = Duration::from_secs(1) / guesses;
    let mut next = Instant::now();
    while !is_over.load(Ordering::SeqCst) {
        waiting.push_back(guess(address, database)?);
        if waiting.len() > GUESSES_ON_THEIR_WAY_S * guesses as usize {
            waiting.pop_front();
        }
        next += pause;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Logs in with a proof that is none, and does not wait for the server to say so.
fn guess(address: &Address, database: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect((address.host.as_str(), address.port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let startup = format!("\0\x03\0\0user\0{GUESSED}\0database\0{database}\0\0");
    stream.write_all(&(startup.len() as u32 + 4).to_be_bytes())?;
    stream.write_all(startup.as_bytes())?;
    let mut received = [0; 1024];
    if stream.read(&mut received)? == 0 || received[0] != b'R' {
        return Err(io::Error::new(ErrorKind::InvalidData, "the server asks for no password"));
    }
    let first = b"n,,n=,r=abcdefghijklmnopqrstuvwx";
    let mut body = b"SCRAM-SHA-256\0".to_vec();
    body.extend_from_slice(&(first.len() as u32).to_be_bytes());
    body.extend_from_slice(first);
    let mut message = Vec::new();
    extended(&mut message, b'p', &body);
    stream.write_all(&message)?;
    let length = stream.read(&mut received)?;
    let text = String::from_utf8_lossy(&received[9.min(length)..length]).into_owned();
    let nonce = text.split(',').next().filter(|part| part.starts_with("r="));
    let nonce = nonce.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no answer of SCRAM's"))?;
    let proof = "A".repeat(43) + "=";
    message.clear();
    extended(&mut message, b'p', format!("c=biws,{nonce},p={proof}").as_bytes());
    stream.write_all(&message)?;
    Ok(stream)
}
