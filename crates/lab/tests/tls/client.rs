//! A blocking client of TLS, by rustls.

use crate::authority::{Authority, Issued};
use kilndb_lab::client::Client;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
pub const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 48];

/// A startup packet of protocol 3.`minor`.
pub fn startup_packet(minor: u8) -> Vec<u8> {
    let body = [&[0, 3, 0, minor][..], b"user\0postgres\0database\0postgres\0\0"].concat();
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

pub fn tcp(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
    stream.set_nodelay(true).expect("a socket can be told not to wait");
    stream
}

/// Whom to believe, and what to show and to speak.
pub struct TlsClient {
    pub config: ClientConfig,
}

impl TlsClient {
    pub fn new(
        believed: &Authority,
        versions: &[&'static SupportedProtocolVersion],
        shown: Option<&Issued>,
    ) -> TlsClient {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(believed.der())).expect("a root");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(versions).expect("versions").with_root_certificates(roots);
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some(shown) => {
                let certificate = CertificateDer::from_pem_slice(shown.certificate.as_bytes()).expect("PEM");
                let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(vec![certificate], key).expect("a key of the certificate")
            }
        };
        TlsClient { config }
    }

    pub fn connection(&self) -> ClientConnection {
        let name = ServerName::try_from("localhost").expect("a name");
        ClientConnection::new(Arc::new(self.config.clone()), name).expect("a connection")
    }

    /// Asks for TLS, and gets through the handshake.
    pub fn open(&self, port: u16) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut stream = tcp(port);
        stream.write_all(&SSL_REQUEST)?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        assert_eq!(answer, *b"S", "TLS is refused");
        self.shake_hands(stream)
    }

    /// Gets through the handshake without having asked.
    pub fn shake_hands(&self, mut stream: TcpStream) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut connection = self.connection();
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }

    pub fn connect(&self, port: u16) -> io::Result<Client> {
        Client::over(self.open(port)?, "postgres", "postgres").map_err(|e| io::Error::other(e.to_string()))
    }
}

/// What the server says until it closes the connection.
pub fn rest(mut stream: impl Read) -> Vec<u8> {
    let mut rest = Vec::new();
    // A connection that was reset has ended, too.
    let _ = stream.read_to_end(&mut rest);
    rest
}
