//! What is known of a session's encryption: for whoever authenticates the client, and for the views that show it.
//!
//! Invariants
//! 1. A value is complete when it is made, after the handshake, and never changes: what it says was proved by then.
//! 2. A client's certificate is here only if it was verified against the server's authorities and revocation lists.
//!
//! Must not know: how a handshake works.

use kilndb_base::sync::Arc;

/// Of a session that is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// OpenSSL's name for it, which PostgreSQL shows.
    pub cipher: &'static str,
    pub cipher_bits: i32,
    /// None: the client has shown no certificate.
    pub client: Option<ClientCertificate>,
    /// The hash of the server's certificate for the channel binding `tls-server-end-point` (RFC 5929). None: its
    /// signature has no hash that this binding could use.
    pub server_certificate_hash: Option<Arc<[u8]>>,
}

/// What a verified certificate says of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    pub common_name: Option<String>,
    /// The subject as RFC 2253 has it, the most specific part first: what `clientname=DN` in pg_hba.conf compares.
    pub distinguished_name: String,
    /// The subject with a slash before each part, the most general first: what pg_stat_ssl shows.
    pub subject: String,
    /// In decimal.
    pub serial: String,
    /// In the form of `subject`.
    pub issuer: String,
}
