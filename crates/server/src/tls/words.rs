//! Why a handshake or a connection has failed, in the words that PostgreSQL's log has from OpenSSL.
//!
//! Must not know: connections.

use kilndb_base::{Error, Severity, sqlstate};
use rustls::{AlertDescription, PeerIncompatible};

/// For the log alone: the client gets an alert of TLS, if anything.
fn for_log(message: String) -> Error {
    Error::new(sqlstate::PROTOCOL_VIOLATION, message).with_severity(Severity::Log)
}

/// The client has gone in the middle of the handshake.
pub fn ended_in_handshake() -> Error {
    for_log("could not accept SSL connection: EOF detected".into())
}

/// A handshake has failed. `versions`: the lowest and the highest that the server speaks.
pub fn failed_handshake(why: &rustls::Error, detail: Option<String>, versions: (&str, &str)) -> Error {
    let mut error = for_log(format!("could not accept SSL connection: {}", reason(why)));
    if let Some(detail) = detail {
        error = error.with_detail(detail);
    }
    if !is_about_versions(why) {
        return error;
    }
    let (lowest, highest) = versions;
    error.with_hint(format!(
        "This may indicate that the client does not support any SSL protocol version between {lowest} and {highest}."
    ))
}

/// An established connection has failed.
pub fn failed_connection(why: &rustls::Error) -> Error {
    for_log(format!("SSL error: {}", reason(why)))
}

fn is_about_versions(why: &rustls::Error) -> bool {
    use PeerIncompatible::*;
    match why {
        // Whatever this is, it is no TLS.
        rustls::Error::InvalidMessage(_) => true,
        rustls::Error::AlertReceived(alert) => *alert == AlertDescription::ProtocolVersion,
        rustls::Error::PeerIncompatible(what) => matches!(
            what,
            ServerDoesNotSupportTls12Or13
                | ServerTlsVersionIsDisabledByOurConfig
                | SupportedVersionsExtensionRequired
                | Tls12NotOffered
                | Tls12NotOfferedOrEnabled
        ),
        _ => false,
    }
}

fn reason(why: &rustls::Error) -> String {
    let words = match why {
        rustls::Error::InvalidMessage(_) => "wrong version number",
        rustls::Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => "no shared cipher",
        rustls::Error::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon) => "no suitable key share",
        rustls::Error::PeerIncompatible(_) if is_about_versions(why) => "unsupported protocol",
        rustls::Error::NoApplicationProtocol => "no application protocol",
        rustls::Error::InvalidCertificate(_) => "certificate verify failed",
        rustls::Error::DecryptError => "decryption failed or bad record mac",
        rustls::Error::PeerSentOversizedRecord => "packet length too long",
        rustls::Error::AlertReceived(alert) => return alert_received(*alert),
        other => return other.to_string(),
    };
    words.to_string()
}

fn alert_received(alert: AlertDescription) -> String {
    let words = match alert {
        AlertDescription::UnknownCA => "tlsv1 alert unknown ca",
        AlertDescription::BadCertificate => "sslv3 alert bad certificate",
        AlertDescription::CertificateExpired => "sslv3 alert certificate expired",
        AlertDescription::CertificateRevoked => "sslv3 alert certificate revoked",
        AlertDescription::CertificateUnknown => "sslv3 alert certificate unknown",
        AlertDescription::UnsupportedCertificate => "sslv3 alert unsupported certificate",
        AlertDescription::HandshakeFailure => "sslv3 alert handshake failure",
        AlertDescription::UnexpectedMessage => "sslv3 alert unexpected message",
        AlertDescription::IllegalParameter => "sslv3 alert illegal parameter",
        AlertDescription::ProtocolVersion => "tlsv1 alert protocol version",
        AlertDescription::DecryptError => "tlsv1 alert decrypt error",
        AlertDescription::InternalError => "tlsv1 alert internal error",
        AlertDescription::AccessDenied => "tlsv1 alert access denied",
        AlertDescription::UserCanceled => "tlsv1 alert user cancelled",
        other => return format!("alert received: {other:?}"),
    };
    words.to_string()
}
