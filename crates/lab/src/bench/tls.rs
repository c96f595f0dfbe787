//! Point SELECT over TLS and over plain TCP, by clients of our own: a pgbench's libpq may have been built without TLS.
//!
//! Few threads serve all clients, as pgbench's do, so that as much of the processor as can be is the servers'.

use super::BenchOptions;
use super::turns::{BenchStage, ServerTurn};
use kilndb_lab::client::extended;
use kilndb_lab::statistics::Better;
use mio::{Events, Interest, Poll, Token};
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

const THREADS: usize = 2;
/// More clients than this tell more of the clients than of the servers.
const CLIENTS_MAX: u32 = 64;
pub(super) const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const STARTUP: &[u8] = b"\0\0\0\x29\0\x03\0\0user\0postgres\0database\0postgres\0\0";
const READY: &[u8] = b"Z\0\0\0\x05I";
const STATEMENT: &[u8] = b"q\0select abalance from pgbench_accounts where aid = $1\0\0\x01\0\0\0\x17";
/// A server that answers nobody for so long is taken for hung.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn stages(options: &BenchOptions) -> Vec<BenchStage> {
    let mut stages = Vec::new();
    for &clients in options.clients.iter().filter(|clients| **clients <= CLIENTS_MAX) {
        for (is_encrypted, over) in [(false, "TCP"), (true, "TLS")] {
            let row = format!("point SELECT, prepared, {clients} clients, over {over}, tps");
            let stage = BenchStage::new(&row.clone(), move |turn| {
                let rate = rate(turn, clients as usize, is_encrypted).map_err(|e| e.to_string())?;
                turn.put(&row, Better::More, rate);
                Ok(())
            });
            stages.push(stage.begin(|turn| switch_on(turn)));
        }
    }
    stages
}

/// Gives the server a certificate, unless it has one.
pub(super) fn switch_on(turn: &ServerTurn<'_>) -> Result<(), String> {
    let data = &turn.side.data;
    if !data.join("server.crt").exists() {
        provide_certificate(data).map_err(|e| format!("no certificate: {e}"))?;
        turn.execute(&["alter system set ssl = on", "select pg_reload_conf()"])?;
    }
    let end = Instant::now() + PATIENCE;
    loop {
        match BenchSession::open(turn.side.at.port, config(data).ok()) {
            Ok(_) => return Ok(()),
            Err(e) if Instant::now() > end => return Err(format!("no TLS: {e}")),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn provide_certificate(data: &Path) -> io::Result<()> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let params = CertificateParams::new(vec!["localhost".into()]).map_err(io::Error::other)?;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    let folder = std::fs::metadata(data)?;
    for (name, text) in [("server.key", key.serialize_pem()), ("server.crt", certificate.pem())] {
        let path = data.join(name);
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        chown(&path, Some(folder.uid()), Some(folder.gid()))?;
    }
    Ok(())
}

/// For clients that believe the server's certificate.
pub(super) fn config(data: &Path) -> io::Result<Arc<ClientConfig>> {
    let certificate = CertificateDer::from_pem_file(data.join("server.crt")).map_err(io::Error::other)?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).map_err(io::Error::other)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// Transactions a second.
fn rate(turn: &ServerTurn<'_>, clients: usize, is_encrypted: bool) -> io::Result<f64> {
    let data = &turn.side.data;
    let config = is_encrypted.then(|| config(data)).transpose()?;
    let threads = THREADS.min(clients);
    let (rows, port) = (turn.options.scale * 100_000, turn.side.at.port);
    let duration = Duration::from_secs(turn.options.duration_s.into());
    let begin = Barrier::new(threads);
    std::thread::scope(|scope| {
        let run = |thread: usize| {
            let sessions = (thread..clients).step_by(threads).map(|_| BenchSession::open(port, config.clone()));
            let sessions: io::Result<Vec<BenchSession>> = sessions.collect();
            // Whoever has failed lets the others begin.
            begin.wait();
            run_sessions(sessions?, thread as u32, rows, duration)
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let rates = running.into_iter().map(|thread| thread.join().map_err(|_| io::Error::other("a thread failed"))?);
        rates.sum()
    })
}

/// Each session asks again as soon as it has its answer.
fn run_sessions(mut sessions: Vec<BenchSession>, seed: u32, rows: u32, duration: Duration) -> io::Result<f64> {
    let mut poll = Poll::new()?;
    let mut random = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut ask = |session: &mut BenchSession| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        session.send(&question((random >> 8) % rows + 1))
    };
    for (number, session) in sessions.iter_mut().enumerate() {
        poll.registry().register(&mut session.socket, Token(number), Interest::READABLE)?;
        ask(session)?;
    }
    let mut events = Events::with_capacity(sessions.len());
    let (began, mut answers) = (Instant::now(), 0_u64);
    while began.elapsed() < duration {
        poll.poll(&mut events, Some(PATIENCE))?;
        if events.is_empty() {
            return Err(io::Error::new(ErrorKind::TimedOut, "the server answers nobody any more"));
        }
        for event in &events {
            let session = &mut sessions[event.token().0];
            session.receive()?;
            if session.received.ends_with(READY) {
                // BindComplete; anything else is an error.
                if session.received.first() != Some(&b'2') {
                    return Err(io::Error::other(String::from_utf8_lossy(&session.received).into_owned()));
                }
                session.received.clear();
                answers += 1;
                ask(session)?;
            }
        }
    }
    Ok(answers as f64 / began.elapsed().as_secs_f64())
}

/// Bind, Execute and Sync.
fn question(id: u32) -> Vec<u8> {
    let mut bind = b"\0q\0\0\x01\0\x01\0\x01\0\0\0\x04".to_vec();
    bind.extend_from_slice(&id.to_be_bytes());
    bind.extend_from_slice(&[0, 0]);
    let mut messages = Vec::new();
    extended(&mut messages, b'B', &bind);
    extended(&mut messages, b'E', &[0; 5]);
    extended(&mut messages, b'S', b"");
    messages
}

struct BenchSession {
    socket: mio::net::TcpStream,
    tls: Option<ClientConnection>,
    received: Vec<u8>,
}

impl BenchSession {
    /// Connects and prepares the statement, which waits for the server; what follows does not.
    fn open(port: u16, config: Option<Arc<ClientConfig>>) -> io::Result<BenchSession> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut tls = None;
        if let Some(config) = config {
            stream.write_all(&SSL_REQUEST)?;
            let mut answer = [0];
            stream.read_exact(&mut answer)?;
            if answer != *b"S" {
                return Err(io::Error::other("TLS is refused"));
            }
            let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
            let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
            while connection.is_handshaking() {
                connection.complete_io(&mut stream)?;
            }
            tls = Some(connection);
        }
        let mut prepare = Vec::new();
        extended(&mut prepare, b'P', STATEMENT);
        extended(&mut prepare, b'S', b"");
        let mut session = BenchSession { socket: mio::net::TcpStream::from_std(stream), tls, received: Vec::new() };
        for (message, what) in [(STARTUP, "a session"), (&prepare, "the statement")] {
            session.send(message)?;
            while !session.received.ends_with(READY) {
                session.receive()?;
            }
            if session.received.first() == Some(&b'E') {
                return Err(io::Error::other(format!("{what} is refused")));
            }
            session.received.clear();
        }
        // Up to here the socket waits for the server.
        let stream = std::net::TcpStream::from(session.socket);
        stream.set_nonblocking(true)?;
        Ok(BenchSession { socket: mio::net::TcpStream::from_std(stream), ..session })
    }

    /// So little always fits into the socket.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.socket.write_all(bytes) };
        tls.writer().write_all(bytes)?;
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Takes what is there.
    fn receive(&mut self) -> io::Result<()> {
        let mut part = [0; 4096];
        loop {
            let read = match &mut self.tls {
                None => self.socket.read(&mut part),
                Some(tls) => tls.read_tls(&mut self.socket),
            };
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.take_in(&part[..length.min(part.len())])?;
                    // While the session is opened one read may wait for the server, but not a second one.
                    if self.received.ends_with(READY) {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn take_in(&mut self, plain: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            self.received.extend_from_slice(plain);
            return Ok(());
        };
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        let before = self.received.len();
        self.received.resize(before + state.plaintext_bytes_to_read(), 0);
        tls.reader().read_exact(&mut self.received[before..])
    }
}
