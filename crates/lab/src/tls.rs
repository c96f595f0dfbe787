//! TLS of the lab's sessions: who wants it and what is checked, as libpq's `sslmode` and `sslrootcert` say it (libpq.sgml, "SSL Support").
//!
//! 1. What a mode does not check is not checked: `prefer` and `require` encrypt, and believe any certificate.
//! 2. Unix sockets are never encrypted.
//!
//! Must not know: messages, but for the one that asks for TLS.

use crate::client::Address;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// The message that asks whether the server speaks TLS (protocol.sgml, "SSLRequest").
const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// The authorities that the system believes, where Debian and its like keep them.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// How a session is encrypted.
#[derive(Clone, Debug)]
pub struct TlsChoice {
    config: Arc<ClientConfig>,
    /// A server without TLS is refused, and not talked to in the clear.
    is_required: bool,
    /// The mode, as a program of PostgreSQL's is told it.
    pub mode: String,
    pub roots: Option<String>,
}

/// A connection of which the server has said whether it is encrypted.
pub enum OpenedStream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl TlsChoice {
    /// By the names that libpq has for it; None: nothing is encrypted. `roots`: a file of certificates, or `system`.
    /// Errors: the mode is none, or the file cannot be read.
    pub fn of_mode(mode: &str, roots: Option<&str>) -> Result<Option<TlsChoice>, String> {
        let provider = Arc::new(ring::default_provider());
        let lenient = |authorities| Arc::new(LenientVerifier { authorities, provider: provider.clone() });
        let verifier: Arc<dyn ServerCertVerifier> = match (mode, roots) {
            ("disable" | "allow", _) => return Ok(None),
            ("prefer", _) | ("require", None) => lenient(None),
            // Whoever names authorities wants them to be asked.
            ("require" | "verify-ca", roots) => lenient(Some(authorities(roots, &provider)?)),
            ("verify-full", roots) => authorities(roots, &provider)?,
            _ => return Err(format!("there is no sslmode {mode}")),
        };
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().map_err(|e| e.to_string())?;
        let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Some(TlsChoice {
            config: Arc::new(config),
            is_required: mode != "prefer",
            mode: mode.to_string(),
            roots: roots.map(str::to_string),
        }))
    }

    /// The same for who must not be talked to in the clear.
    pub fn required(&self) -> TlsChoice {
        let mode = if self.is_required { self.mode.clone() } else { "require".into() };
        TlsChoice { is_required: true, mode, ..self.clone() }
    }

    /// Asks for TLS on a new connection. None: the server has none, and does not have to.
    fn ask(&self, stream: &mut TcpStream, host: &str) -> io::Result<Option<ClientConnection>> {
        stream.write_all(&REQUEST)?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        match answer {
            [b'S'] => {}
            [b'N'] if !self.is_required => return Ok(None),
            [b'N'] => return Err(io::Error::other("the server does not speak TLS, which was required")),
            _ => return Err(io::Error::other("the server answers SSLRequest with something else")),
        }
        let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
        ClientConnection::new(self.config.clone(), name).map(Some).map_err(io::Error::other)
    }
    /// Asks for TLS and encrypts a new connection. Errors: the server has none, or is not who it should be.
    fn begin(&self, mut stream: TcpStream, host: &str) -> io::Result<OpenedStream> {
        let Some(mut session) = self.ask(&mut stream, host)? else { return Ok(OpenedStream::Plain(stream)) };
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(OpenedStream::Encrypted(Box::new(StreamOwned::new(session, stream))))
    }
}

/// Begins a connection over TCP to where a server listens, encrypted as the address says.
pub fn open(address: &Address, stream: TcpStream) -> io::Result<OpenedStream> {
    match &address.tls {
        Some(choice) => choice.begin(stream, &address.host),
        None => Ok(OpenedStream::Plain(stream)),
    }
}

/// Asks for TLS on a new connection and gives the first message of the handshake, which whoever asked may send or not.
/// Errors: the address is one without TLS, or the server is.
pub(crate) fn first_message(address: &Address, stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let choice = address.tls.as_ref().ok_or_else(|| io::Error::other("the connection is not to be encrypted"))?;
    let session = choice.required().ask(stream, &address.host)?;
    let mut message = Vec::new();
    if let Some(mut session) = session {
        session.write_tls(&mut message)?;
    }
    Ok(message)
}

impl Read for OpenedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            OpenedStream::Plain(stream) => stream.read(buffer),
            OpenedStream::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for OpenedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OpenedStream::Plain(stream) => stream.write(bytes),
            OpenedStream::Encrypted(stream) => stream.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            OpenedStream::Plain(stream) => stream.flush(),
            OpenedStream::Encrypted(stream) => stream.flush(),
        }
    }
}

/// Who believes certificates of the authorities in a file: libpq's own if none is named.
fn authorities(file: Option<&str>, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let file = match file {
        Some("system") => SYSTEM_ROOTS.to_string(),
        Some(file) => file.to_string(),
        None => {
            let home = std::env::var("HOME").unwrap_or_default();
            format!("{home}/.postgresql/root.crt")
        }
    };
    let fail = |e: &dyn std::fmt::Display| format!("{file}: {e}");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&file).map_err(|e| fail(&e))? {
        roots.add(certificate.map_err(|e| fail(&e))?).map_err(|e| fail(&e))?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().map_err(|e| fail(&e))
}

/// Believes certificates of the authorities, whatever name they are for; without authorities, whoever has the key of the certificate
/// that is shown.
#[derive(Debug)]
struct LenientVerifier {
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for LenientVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        // The name is looked at when all else is found to be right.
        match authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
