//! TLS: which certificate and rules hold now, how a connection is encrypted, what a client has shown
//! (docs/decisions/0055-tls.md).
//!
//! Invariants
//! 1. A handshake never waits: it goes on when bytes have come, as one step of the worker's loop.
//! 2. What a client has sent before the handshake is part of the handshake or an error, never a message.
//! 3. Connections keep the certificate and the rules that they began with; new ones have those that were read last.
//!
//! Must not know: messages, beyond the two requests that come before all others.

mod certificate;
mod cipher_list;
mod client_check;
mod context;
pub mod negotiation;
mod session;
mod words;

pub use context::TlsContext;
pub use session::TlsSession;
pub use words::ended_in_handshake;

use kilndb_base::sync::{Arc, RwLock};
use kilndb_base::{Error, Result, Severity};
use kilndb_context::log::LogSink;
use kilndb_context::settings::ServerSettings;
use std::path::{Path, PathBuf};

/// What new connections are offered.
#[derive(Clone)]
pub enum TlsOffer {
    Nothing,
    Tls(Arc<TlsContext>),
    /// The engine has crashed, and what it had read cannot be read again. Who asks for TLS is not to go on without.
    Broken,
}

pub struct TlsSwitch {
    data_dir: PathBuf,
    current: RwLock<TlsOffer>,
}

impl TlsSwitch {
    /// For a start: what cannot be had is an error, unless another engine has had it, which is to be replaced.
    pub fn start(settings: &ServerSettings, data_dir: &Path, is_restart: bool, log: &dyn LogSink) -> Result<TlsSwitch> {
        let offer = match load(settings, data_dir) {
            Ok(offer) => offer,
            Err(e) if is_restart => {
                tell(log, &e);
                TlsOffer::Broken
            }
            Err(e) => return Err(e),
        };
        Ok(TlsSwitch { data_dir: data_dir.to_path_buf(), current: RwLock::new(offer) })
    }

    pub fn current(&self) -> TlsOffer {
        self.current.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Settings, or the files that they name, may have changed. If they are wrong, what was there stays, and the log
    /// says why.
    pub fn reload(&self, settings: &ServerSettings, log: &dyn LogSink) {
        match load(settings, &self.data_dir) {
            Ok(offer) => *self.current.write().unwrap_or_else(|e| e.into_inner()) = offer,
            Err(e) => {
                tell(log, &e);
                log.tell(Severity::Log, "SSL configuration was not reloaded");
            }
        }
    }
}

fn load(settings: &ServerSettings, data_dir: &Path) -> Result<TlsOffer> {
    if !settings.flag("ssl") {
        return Ok(TlsOffer::Nothing);
    }
    TlsContext::load(settings, data_dir).map(|context| TlsOffer::Tls(Arc::new(context)))
}

fn tell(log: &dyn LogSink, e: &Error) {
    use kilndb_context::log::{LogRecord, Verbosity};
    let e = e.clone().with_severity(Severity::Log);
    log.write(&LogRecord { fields: &e.0, statement: None, verbosity: Verbosity::Default, session: None });
}
