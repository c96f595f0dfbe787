//! One connection's TLS: records in, plaintext out, and the other way.
//!
//! Invariants
//! 1. `incoming` begins with the first byte that rustls has not taken yet, and rustls is never shown anything else: it
//!    remembers where in it a message that is not whole begins.
//! 2. While the handshake lasts `incoming` holds [`HANDSHAKE_BYTES_MAX`] at most.
//! 3. Nothing of the session is encrypted before the handshake is over, nor after a failure.
//! 4. An idle session has no buffers: what is left of them when they are empty is small.
//!
//! Must not know: sockets, messages.

use super::TlsContext;
use super::certificate::CertificateParts;
use super::cipher_list::name_of;
use super::client_check::ClientCheck;
use super::negotiation::TlsOrder;
use super::words;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_context::tls_facts::{ClientCertificate, TlsFacts};
use rustls::ProtocolVersion;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a client may send in the handshake before the next step is taken. Certificates with their issuers are shorter.
pub const HANDSHAKE_BYTES_MAX: usize = 20 * 1024;
/// Plaintext is encrypted in pieces of this size: several records, as long as they may be.
const ENCRYPTED_AT_ONCE_BYTES: usize = 64 * 1024;
/// What encryption adds to a record of 16 kB at most, and what may have to go before it.
const RECORD_BYTES: usize = 16 * 1024;
const RECORD_OVERHEAD_BYTES: usize = 64;
const MESSAGES_BETWEEN_BYTES: usize = 256;
/// A sent buffer of this size is kept for the next reply.
const KEPT_BYTES: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TlsState {
    Handshake,
    Open,
    Closed,
    Failed,
}

pub struct TlsSession {
    connection: UnbufferedServerConnection,
    context: Arc<TlsContext>,
    client_check: Option<Arc<ClientCheck>>,
    state: TlsState,
    is_direct: bool,
    /// The client sends nothing more.
    has_peer_closed: bool,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Bytes of `outgoing` that the socket has taken.
    sent: usize,
}

/// How far [`process`] has come.
enum Reached {
    /// The handshake waits for the client.
    Blocked,
    /// Plaintext can be sent.
    Open,
    Closed,
}

/// What is to be done once plaintext can be sent.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Nothing,
    Encrypt(&'a [u8]),
    CloseNotify,
}

/// Where plaintext goes.
type Plaintext<'a> = &'a mut dyn FnMut(&[u8]);

impl TlsSession {
    pub fn begin(order: TlsOrder) -> Result<TlsSession> {
        let own = order.context.connection_config()?;
        let connection = UnbufferedServerConnection::new(own.config)
            .map_err(|e| Error::internal(format!("could not initialize SSL connection: {e}")))?;
        Ok(TlsSession {
            connection,
            context: order.context,
            client_check: own.client_check,
            state: TlsState::Handshake,
            is_direct: order.is_direct,
            has_peer_closed: false,
            incoming: order.early,
            outgoing: order.answer.to_vec(),
            sent: 0,
        })
    }

    pub fn is_in_handshake(&self) -> bool {
        self.state == TlsState::Handshake
    }
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }
    pub fn has_peer_closed(&self) -> bool {
        self.has_peer_closed
    }
    /// There is something to go on with.
    pub fn has_incoming(&self) -> bool {
        !self.incoming.is_empty()
    }
    /// How much may be received now.
    pub fn room_bytes(&self) -> usize {
        match self.state {
            TlsState::Handshake => HANDSHAKE_BYTES_MAX.saturating_sub(self.incoming.len()),
            _ => usize::MAX,
        }
    }

    // ---- what comes

    /// Keeps what the client has sent for the handshake's next step.
    pub fn keep(&mut self, bytes: &[u8]) {
        self.incoming.extend_from_slice(bytes);
    }

    /// Goes on with the handshake. True: it is over.
    pub fn shake_hands(&mut self, plaintext: Plaintext<'_>) -> Result<bool> {
        if let Err(why) = self.go_on(&mut [], plaintext) {
            let detail = self.client_check.as_ref().and_then(|check| check.take_refusal());
            return Err(words::failed_handshake(&why, detail, self.context.version_names));
        }
        let is_over = self.state == TlsState::Open;
        if !is_over && self.room_bytes() == 0 {
            self.fail();
            let why = rustls::Error::General("the handshake is too long".into());
            return Err(words::failed_handshake(&why, None, self.context.version_names));
        }
        Ok(is_over)
    }

    /// Decrypts what the client has sent.
    pub fn receive(&mut self, bytes: &mut [u8], plaintext: Plaintext<'_>) -> Result<()> {
        self.go_on(bytes, plaintext).map_err(|why| words::failed_connection(&why))
    }

    /// Works off `incoming` and then `bytes`.
    fn go_on(&mut self, bytes: &mut [u8], plaintext: Plaintext<'_>) -> std::result::Result<(), rustls::Error> {
        let own = self.incoming.is_empty();
        let mut kept = std::mem::take(&mut self.incoming);
        if !own {
            kept.extend_from_slice(bytes);
        }
        let records = if own { bytes } else { &mut kept[..] };
        let (taken, done) = self.process(records, Wanted::Nothing, plaintext);
        if own {
            self.incoming = records[taken..].to_vec();
        } else if taken < kept.len() {
            kept.drain(..taken);
            self.incoming = kept;
        }
        match done {
            Ok(Reached::Open) if self.state == TlsState::Handshake && !self.connection.is_handshaking() => {
                self.state = TlsState::Open;
            }
            Ok(Reached::Closed) => self.state = TlsState::Closed,
            Ok(_) => {}
            Err(why) => {
                self.fail();
                return Err(why);
            }
        }
        Ok(())
    }

    /// Nothing more can be understood or said.
    fn fail(&mut self) {
        self.state = TlsState::Failed;
        self.incoming = Vec::new();
    }

    /// Lets rustls work off `records`, and does what is wanted as soon as that is possible. Answers how many bytes of
    /// `records` are done with. Should rustls panic, that is the end of this connection only.
    fn process(
        &mut self,
        records: &mut [u8],
        wanted: Wanted<'_>,
        plaintext: Plaintext<'_>,
    ) -> (usize, std::result::Result<Reached, rustls::Error>) {
        let mut taken = 0;
        let done = catch_unwind(AssertUnwindSafe(|| self.process_records(records, &mut taken, wanted, plaintext)));
        let done = done.unwrap_or_else(|_| Err(rustls::Error::General("internal error".into())));
        (taken, done)
    }

    fn process_records(
        &mut self,
        records: &mut [u8],
        taken: &mut usize,
        wanted: Wanted<'_>,
        plaintext: Plaintext<'_>,
    ) -> std::result::Result<Reached, rustls::Error> {
        loop {
            let UnbufferedStatus { discard, state, .. } = self.connection.process_tls_records(&mut records[*taken..]);
            let mut also = 0;
            let reached = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        also += record.discard;
                        plaintext(record.payload);
                    }
                    None
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    append(&mut self.outgoing, MESSAGES_BETWEEN_BYTES, |room| message.encode(room))?;
                    None
                }
                Ok(ConnectionState::TransmitTlsData(transmitted)) => {
                    transmitted.done();
                    None
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    match wanted {
                        Wanted::Nothing => {}
                        Wanted::Encrypt(text) => {
                            append(&mut self.outgoing, encrypted_bytes(text.len()), |room| traffic.encrypt(text, room))?
                        }
                        Wanted::CloseNotify => {
                            append(&mut self.outgoing, MESSAGES_BETWEEN_BYTES, |room| traffic.queue_close_notify(room))?
                        }
                    }
                    Some(Reached::Open)
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.has_peer_closed = true;
                    None
                }
                Ok(ConnectionState::Closed) => Some(Reached::Closed),
                Ok(ConnectionState::BlockedHandshake) => Some(Reached::Blocked),
                // Data before the handshake is never accepted.
                Ok(_) => return Err(rustls::Error::General("unexpected state".into())),
                Err(why) => {
                    *taken += discard;
                    self.take_alert(&mut records[*taken..]);
                    return Err(why);
                }
            };
            *taken += discard + also;
            if let Some(reached) = reached {
                return Ok(reached);
            }
        }
    }

    /// After an error: what the client is told of it, and what was to be sent before. Without anything to be sent rustls
    /// would look at the wrong records once more.
    fn take_alert(&mut self, records: &mut [u8]) {
        while self.connection.wants_write() {
            let state = self.connection.process_tls_records(records).state;
            let Ok(ConnectionState::EncodeTlsData(mut message)) = state else { return };
            if append(&mut self.outgoing, MESSAGES_BETWEEN_BYTES, |room| message.encode(room)).is_err() {
                return;
            }
        }
    }

    // ---- what goes

    /// Encrypts the next part of `text`; answers how much of it that was. Without a handshake, or after a failure, nobody
    /// could read it: it is dropped.
    pub fn encrypt(&mut self, text: &[u8], plaintext: Plaintext<'_>) -> Result<usize> {
        if self.state != TlsState::Open {
            return Ok(text.len());
        }
        let part = &text[..text.len().min(ENCRYPTED_AT_ONCE_BYTES)];
        self.send(Wanted::Encrypt(part), plaintext)?;
        Ok(part.len())
    }

    /// Says goodbye. Nothing follows.
    pub fn close(&mut self, plaintext: Plaintext<'_>) {
        if self.state == TlsState::Open {
            // Whoever does not hear it sees the socket close.
            let _ = self.send(Wanted::CloseNotify, plaintext);
            self.state = TlsState::Closed;
        }
    }

    fn send(&mut self, wanted: Wanted<'_>, plaintext: Plaintext<'_>) -> Result<()> {
        let mut records = std::mem::take(&mut self.incoming);
        let (taken, done) = self.process(&mut records, wanted, plaintext);
        records.drain(..taken);
        self.incoming = records;
        done.map(|_| ()).map_err(|why| {
            self.fail();
            words::failed_connection(&why)
        })
    }

    /// What the socket is to take next.
    pub fn pending(&self) -> &[u8] {
        self.outgoing.get(self.sent..).unwrap_or(&[])
    }
    pub fn has_pending(&self) -> bool {
        self.sent < self.outgoing.len()
    }
    /// The socket has taken so much.
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if !self.has_pending() {
            self.drop_pending();
        }
    }
    /// Nothing is pending any more.
    pub fn drop_pending(&mut self) {
        self.sent = 0;
        self.outgoing.clear();
        if self.outgoing.capacity() > KEPT_BYTES {
            self.outgoing = Vec::new();
        }
    }

    // ---- what is known

    /// The client has agreed to speak PostgreSQL's protocol.
    pub fn has_agreed_on_protocol(&self) -> bool {
        self.connection.alpn_protocol() == Some(super::context::ALPN_PROTOCOL)
    }

    /// After the handshake.
    pub fn facts(&self) -> Result<TlsFacts> {
        let version = match self.connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        };
        let suite = self.connection.negotiated_cipher_suite();
        let (cipher, cipher_bits) = suite.map_or(("unknown", 0), |suite| name_of(suite.suite()));
        let server_certificate_hash = self.context.certificate_hash.clone();
        let shown = self.connection.peer_certificates().and_then(|chain| chain.first());
        let client = shown.map(|certificate| client_of(certificate)).transpose()?;
        Ok(TlsFacts { version, cipher, cipher_bits, client, server_certificate_hash })
    }
}

/// Refused are names that others would read only up to a zero.
fn client_of(certificate: &[u8]) -> Result<ClientCertificate> {
    let refusal = |text: &str| Error::new(sqlstate::PROTOCOL_VIOLATION, text.to_string()).with_severity(Severity::Log);
    let facts = CertificateParts::of(certificate).and_then(|parts| parts.facts());
    let facts = facts.ok_or_else(|| refusal("SSL certificate's names cannot be read"))?;
    if facts.common_name.as_ref().is_some_and(|name| name.contains('\0')) {
        return Err(refusal("SSL certificate's common name contains embedded null"));
    }
    Ok(facts)
}

fn encrypted_bytes(length: usize) -> usize {
    length + (length / RECORD_BYTES + 1) * RECORD_OVERHEAD_BYTES + MESSAGES_BETWEEN_BYTES
}

/// How much room rustls would have needed.
trait RoomNeeded {
    fn room_needed(&self) -> Option<usize>;
}
impl RoomNeeded for EncodeError {
    fn room_needed(&self) -> Option<usize> {
        match self {
            EncodeError::InsufficientSize(needed) => Some(needed.required_size),
            EncodeError::AlreadyEncoded => None,
        }
    }
}
impl RoomNeeded for EncryptError {
    fn room_needed(&self) -> Option<usize> {
        match self {
            EncryptError::InsufficientSize(needed) => Some(needed.required_size),
            EncryptError::EncryptExhausted => None,
        }
    }
}

/// Appends what `write` writes, which `expected` bytes should suffice for.
fn append<E: RoomNeeded>(
    outgoing: &mut Vec<u8>,
    expected: usize,
    mut write: impl FnMut(&mut [u8]) -> std::result::Result<usize, E>,
) -> std::result::Result<(), rustls::Error> {
    let before = outgoing.len();
    let mut room = expected;
    loop {
        outgoing.resize(before + room, 0);
        match write(&mut outgoing[before..]) {
            Ok(written) => {
                outgoing.truncate(before + written);
                return Ok(());
            }
            Err(e) => match e.room_needed() {
                Some(needed) if needed > room => room = needed,
                _ => {
                    outgoing.truncate(before);
                    return Err(rustls::Error::EncryptError);
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TlsContext;
    use super::*;
    use kilndb_context::settings::ServerSettings;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::crypto::ring;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A server's session, and a client that believes it.
    fn pair(version: &'static rustls::SupportedProtocolVersion) -> (TlsSession, ClientConnection) {
        static PAIRS: AtomicU32 = AtomicU32::new(0);
        let number = PAIRS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("kilndb-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(folder.join("server.crt"), certificate.pem()).unwrap();
        std::fs::write(folder.join("server.key"), key.serialize_pem()).unwrap();
        std::fs::set_permissions(folder.join("server.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
        let context = TlsContext::load(&ServerSettings::default(), &folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let order = TlsOrder { context: context.unwrap().into(), answer: b"", early: Vec::new(), is_direct: false };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(certificate.der().to_vec())).unwrap();
        let config = ClientConfig::builder_with_provider(ring::default_provider().into());
        let config = config.with_protocol_versions(&[version]).unwrap().with_root_certificates(roots);
        let config = config.with_no_client_auth().into();
        let client = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
        (TlsSession::begin(order).unwrap(), client)
    }

    /// Bytes on their way in pieces of changing lengths.
    struct Wire {
        session: TlsSession,
        client: ClientConnection,
        received: Vec<u8>,
        pieces: usize,
    }

    impl Wire {
        /// What the client has to say comes to the server in pieces, between which the server says something itself.
        fn carry_to_server(&mut self, between: &[u8]) -> Vec<u8> {
            let mut bytes = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut bytes).unwrap();
            }
            let mut rest = &mut bytes[..];
            let mut said = Vec::new();
            while !rest.is_empty() {
                self.pieces = self.pieces * 7 % 101 + 1;
                let length = self.pieces.min(rest.len());
                let (piece, others) = rest.split_at_mut(length);
                rest = others;
                let received = &mut self.received;
                let mut plaintext = |bytes: &[u8]| received.extend_from_slice(bytes);
                if self.session.is_in_handshake() {
                    self.session.keep(piece);
                    self.session.shake_hands(&mut plaintext).unwrap();
                } else {
                    self.session.receive(piece, &mut plaintext).unwrap();
                    assert_eq!(self.session.encrypt(between, &mut plaintext).unwrap(), between.len());
                    said.extend_from_slice(between);
                }
            }
            said
        }
        fn carry_to_client(&mut self) -> Vec<u8> {
            let mut text = Vec::new();
            while self.session.has_pending() {
                let length = self.session.pending().len().min(1000);
                let taken = self.client.read_tls(&mut &self.session.pending()[..length]).unwrap();
                self.session.note_sent(taken);
                self.client.process_new_packets().unwrap();
                let mut part = vec![0; 70_000];
                while let Ok(length @ 1..) = self.client.reader().read(&mut part) {
                    text.extend_from_slice(&part[..length]);
                }
            }
            text
        }
    }

    #[test]
    fn records_in_pieces_make_the_same_text_and_keys_may_change_meanwhile() {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let (session, client) = pair(version);
            let mut wire = Wire { session, client, received: Vec::new(), pieces: 1 };
            while wire.session.is_in_handshake() || wire.client.is_handshaking() {
                wire.carry_to_server(b"");
                wire.carry_to_client();
            }
            assert!(wire.session.facts().unwrap().server_certificate_hash.is_some());
            let mut sent = Vec::new();
            for round in 0..40_usize {
                let text: Vec<u8> = (0..round * 700).map(|n| (n * 31 + round) as u8).collect();
                wire.client.writer().write_all(&text).unwrap();
                sent.extend_from_slice(&text);
                if version.version == ProtocolVersion::TLSv1_3 && round % 3 == 0 {
                    wire.client.refresh_traffic_keys().unwrap();
                }
                let said = wire.carry_to_server(&[round as u8; 50]);
                assert_eq!(wire.carry_to_client(), said, "in round {round}");
            }
            assert_eq!(wire.received, sent);
            let long = vec![7; 1 << 20];
            let mut at = 0;
            while at < long.len() {
                at += wire.session.encrypt(&long[at..], &mut |_| {}).unwrap();
            }
            assert_eq!(wire.carry_to_client(), long);
            assert_eq!(
                (wire.session.incoming.capacity(), wire.session.outgoing.capacity()),
                (0, 0),
                "buffers are kept"
            );
            // Goodbyes.
            wire.session.close(&mut |_| {});
            wire.carry_to_client();
            assert_eq!(wire.client.reader().read(&mut [0]).unwrap(), 0, "the end was not told");
            assert!(!wire.session.has_peer_closed());
        }
    }

    #[test]
    fn damaged_records_end_the_session_and_nothing_else() {
        for at in [0, 1, 3, 4, 5, 20, 40] {
            let (session, client) = pair(&rustls::version::TLS13);
            let mut wire = Wire { session, client, received: Vec::new(), pieces: 1 };
            while wire.session.is_in_handshake() || wire.client.is_handshaking() {
                wire.carry_to_server(b"");
                wire.carry_to_client();
            }
            wire.client.writer().write_all(&[9; 100]).unwrap();
            let mut bytes = Vec::new();
            wire.client.write_tls(&mut bytes).unwrap();
            bytes[at] ^= 0x11;
            // A length that is too long waits for more, which then does not fit.
            bytes.extend_from_slice(&[0; 40_000]);
            assert!(wire.session.receive(&mut bytes, &mut |_| panic!("damaged text was taken")).is_err(), "at {at}");
            assert_eq!(wire.session.encrypt(b"unheard", &mut |_| {}).unwrap(), 7);
            assert!(wire.session.has_pending(), "there is no alert");
        }
    }
}
