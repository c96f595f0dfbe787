//! What a line's prefix and its JSON tell besides the message.

use super::moment::LogMoment;
use kilndb_context::client::Activity;
use kilndb_context::log::LogRecord;
use kilndb_types::datetime::zone::Zone;

const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// The process or session that speaks, and when.
pub struct LineFacts<'a> {
    pub now: LogMoment,
    pub start: LogMoment,
    pub process_id: i32,
    /// The session that the line is about; None: the server speaks of itself.
    pub session: Option<SessionFacts<'a>>,
}

pub struct SessionFacts<'a> {
    pub activity: Activity,
    pub command: &'a str,
    pub transaction_id: u64,
}

/// The server's own process.
#[derive(Clone, Copy)]
pub struct ProcessFacts {
    pub id: i32,
    pub start_unix_micros: i64,
}

impl<'a> LineFacts<'a> {
    pub fn of(record: &LogRecord<'a>, process: ProcessFacts, now_unix_micros: i64, zone: &Zone) -> LineFacts<'a> {
        let now = LogMoment::new(now_unix_micros, zone);
        let Some(session) = record.session else {
            let start = LogMoment::new(process.start_unix_micros, zone);
            return LineFacts { now, start, process_id: process.id, session: None };
        };
        let activity = session.control.activity.lock().unwrap_or_else(|e| e.into_inner()).clone();
        LineFacts {
            now,
            start: LogMoment::new(activity.backend_start + POSTGRES_EPOCH_MICROS, zone),
            process_id: session.control.process_id,
            session: Some(SessionFacts { activity, command: session.command, transaction_id: session.transaction_id }),
        }
    }

    /// PostgreSQL's: when it began and its number, in hexadecimal digits.
    pub fn session_id(&self) -> String {
        format!("{:x}.{:x}", self.start.unix_seconds(), self.process_id)
    }
    pub fn backend_type(&self) -> &'static str {
        match &self.session {
            None => "postmaster",
            Some(session) if session.activity.user.is_empty() => "not initialized",
            Some(session) => session.activity.kind.words(),
        }
    }
    /// The transaction's virtual id as `pg_locks.virtualtransaction` has it.
    pub fn virtual_id(&self) -> Option<String> {
        let session = self.session.as_ref().filter(|session| !session.activity.user.is_empty())?;
        Some(format!("{}/{}", self.process_id, session.activity.lock_owner.unwrap_or(0)))
    }
}

impl SessionFacts<'_> {
    pub fn remote_host(&self) -> &str {
        self.activity.client_addr.as_deref().unwrap_or("[local]")
    }
    pub fn local_host(&self) -> &str {
        self.activity.server_addr.as_deref().unwrap_or("[local]")
    }
}
