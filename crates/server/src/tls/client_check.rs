//! Verification of clients' certificates by rustls, which tells why one is refused but not which one it was.
//!
//! Invariants
//! 1. Who shows no certificate is let through, as somebody without one; who shows one that is not valid is not.
//! 2. A [`ClientCheck`] belongs to one connection.
//!
//! Must not know: what a verified certificate allows.

use super::certificate::CertificateParts;
use kilndb_base::sync::{Arc, Mutex};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Asks another verifier, and notes which certificate that has refused.
#[derive(Debug)]
pub struct ClientCheck {
    verifier: Arc<dyn ClientCertVerifier>,
    refusal: Mutex<Option<String>>,
}

impl ClientCheck {
    pub fn new(verifier: Arc<dyn ClientCertVerifier>) -> ClientCheck {
        ClientCheck { verifier, refusal: Mutex::new(None) }
    }
    /// For the log: why and which certificate was refused.
    pub fn take_refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

impl ClientCertVerifier for ClientCheck {
    fn client_auth_mandatory(&self) -> bool {
        self.verifier.client_auth_mandatory()
    }
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now);
        let Err(Error::InvalidCertificate(why)) = verified else { return verified };
        let is_self_signed = is_self_issued(end_entity);
        // To rustls one that may sign others is no client's; to clients its issuer is one that nobody knows.
        let why = match why {
            CertificateError::Other(_) if is_self_signed => CertificateError::UnknownIssuer,
            why => why,
        };
        let reason = match &why {
            CertificateError::UnknownIssuer if is_self_signed => "self-signed certificate".into(),
            why => reason(why),
        };
        // Beside authorities of others, which one was refused is not known; roots are shown for nothing.
        let is_alone = intermediates.iter().all(|certificate| is_self_issued(certificate));
        *self.refusal.lock().unwrap_or_else(|e| e.into_inner()) = Some(refusal_of(&reason, end_entity, is_alone));
        Err(Error::InvalidCertificate(why))
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// OpenSSL's words.
fn reason(why: &CertificateError) -> String {
    let words = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "certificate is not yet valid",
        CertificateError::Revoked => "certificate revoked",
        CertificateError::UnknownIssuer => "unable to get local issuer certificate",
        CertificateError::UnknownRevocationStatus => "unable to get certificate CRL",
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
            "CRL has expired"
        }
        CertificateError::BadSignature => "certificate signature failure",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "unsuitable certificate purpose"
        }
        CertificateError::UnhandledCriticalExtension => "unhandled critical extension",
        other => return other.to_string(),
    };
    words.to_string()
}

/// Names in the log are no longer than this, in bytes. Their ends say most.
const NAME_BYTES_MAX: usize = 71;

fn for_log(name: &str) -> String {
    let ascii: String = name
        .bytes()
        .map(|byte| match byte {
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        })
        .collect();
    match ascii.len().checked_sub(NAME_BYTES_MAX) {
        None | Some(0) => ascii,
        Some(_) => format!("...{}", &ascii[ascii.len() - NAME_BYTES_MAX + 3..]),
    }
}

fn is_self_issued(certificate: &[u8]) -> bool {
    CertificateParts::of(certificate).is_some_and(|parts| parts.is_self_issued())
}

fn refusal_of(reason: &str, end_entity: &[u8], is_alone: bool) -> String {
    let depth = if is_alone { " at depth 0" } else { "" };
    let text = format!("Client certificate verification failed{depth}: {reason}.");
    let Some(facts) = CertificateParts::of(end_entity).and_then(|parts| parts.facts()) else { return text };
    format!(
        "{text}\nFailed certificate data (unverified): subject \"{}\", serial number {}, issuer \"{}\".",
        for_log(&facts.subject),
        facts.serial,
        for_log(&facts.issuer)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_their_ends() {
        assert_eq!(for_log("/CN=someone"), "/CN=someone");
        let long = for_log(&format!("/O={}/CN=ö", "x".repeat(100)));
        assert!(long.starts_with("...xxx") && long.ends_with("/CN=\\xc3\\xb6"), "{long}");
        assert_eq!(long.len(), NAME_BYTES_MAX);
    }
}
