//! The server's log, as those see it who have something to say: what a line tells, and where it goes.
//!
//! Invariants
//! 1. Writing a record never fails and never waits: a session that should wait for a slow reader asks
//!    [`LogSink::is_congested`] first, and parks.
//! 2. Whether a line is wanted is decided before it is made: by the session's settings ([`LogSwitches`]) for what a session
//!    says, by the sink for what the server says of itself.
//!
//! Must not know: how lines look, files, sockets (docs/decisions/0038).

pub use crate::settings::{LogLevel, LogSwitches, LoggedStatements, Verbosity};

use crate::client::SessionControl;
use crate::settings::ServerSettings;
use kilndb_base::error::ErrorFields;
use kilndb_base::{Error, Severity, sqlstate};

/// How long a session waits until it looks again whether the log has room.
pub const CONGESTION_PAUSE_NANOS: u64 = 2_000_000;

/// One message for the log.
pub struct LogRecord<'a> {
    pub fields: &'a ErrorFields,
    /// Text of the statement that was running, if the line is to have it.
    pub statement: Option<&'a str>,
    pub verbosity: Verbosity,
    /// None: the server speaks of itself.
    pub session: Option<LoggedSession<'a>>,
}

/// The session that a line is about.
#[derive(Clone, Copy)]
pub struct LoggedSession<'a> {
    pub control: &'a SessionControl,
    /// The command's tag, or what else the session is at (`idle`, `authentication`).
    pub command: &'a str,
    /// The open transaction's id; 0 if it has none.
    pub transaction_id: u64,
}

/// Where the log goes.
pub trait LogSink: Send + Sync {
    fn write(&self, record: &LogRecord<'_>);

    /// The server's own message, if `log_min_messages` in the server's settings lets it through.
    fn tell(&self, severity: Severity, message: &str) {
        let state =
            if severity >= Severity::Error { sqlstate::INTERNAL_ERROR } else { sqlstate::SUCCESSFUL_COMPLETION };
        let error = Error::notice(state, severity, message);
        self.write(&LogRecord { fields: &error.0, statement: None, verbosity: Verbosity::Default, session: None });
    }

    /// The server's settings are these from now on.
    fn configure(&self, _settings: &ServerSettings) {}

    /// What reads the log is behind, but reads: whoever can wait should, before it writes more.
    fn is_congested(&self) -> bool {
        false
    }
}

/// A log without sessions and lines: severity and message are handed to a function.
impl<F: Fn(Severity, &str) + Send + Sync> LogSink for F {
    fn write(&self, record: &LogRecord<'_>) {
        self(record.fields.severity, &record.fields.message);
    }
}
