//! What a session tells the server's log: statements, how long they took, what failed, what was remarked.
//!
//! Invariants
//! 1. With nothing to be told, a statement costs a few stores and two looks at flags.
//! 2. A line about a statement is written while its session holds nothing that others may wait for briefly: it may park
//!    there while the log is congested.
//! 3. Telling never fails a statement, and takes no cancel request away from it.

use super::Session;
use super::command::logged_class;
use super::portal::Portal;
use super::prepared::Prepared;
use super::statements::ClientStatements;
use crate::client::Runtime;
use crate::context::SessionContext;
use crate::log::{CONGESTION_PAUSE_NANOS, LogLevel, LogRecord, LoggedSession, LoggedStatements};
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::error::ErrorFields;
use kilndb_base::sync::atomic::Ordering;
use kilndb_base::{Error, Oid, Severity, sqlstate};
use kilndb_syntax::{Node, Statement};
use kilndb_types::{Datum, io};
use std::sync::Arc;

/// What the session knows of its running statement for the log alone.
#[derive(Default)]
pub(super) struct StatementLog {
    /// What is running, as its command tag begins; nothing before that is known, and between statements.
    command: &'static str,
    /// The statement's text is in the log already.
    is_told: bool,
    /// Microseconds since 2000.
    started: i64,
    /// What EXECUTE runs.
    detail: Option<String>,
    /// The text of the statement that has just failed, where the message that ran it does not have it.
    failed_text: Option<Arc<str>>,
}

impl StatementLog {
    pub(super) fn begin(&mut self, now: i64) {
        self.started = now;
        self.is_told = false;
        self.command = "";
    }
    /// Nothing runs any more; of a statement that has failed, its failure is told.
    pub(super) fn end(&mut self) {
        self.command = "";
    }
}

/// What a line about a statement is of.
#[derive(Clone, Copy)]
pub(super) enum LoggedStep<'a> {
    /// A message of the simple protocol.
    Query {
        sql: &'a str,
    },
    Parse {
        name: &'a str,
        sql: &'a str,
    },
    Bind {
        name: &'a str,
        portal: &'a str,
        bound: &'a Portal,
    },
    /// `fetches`: it goes on with rows of an earlier Execute.
    Execute {
        portal: &'a str,
        bound: &'a Portal,
        fetches: bool,
    },
}

impl LoggedStep<'_> {
    /// `statement: …`, `execute s1/p1: …`
    fn words(&self) -> String {
        let named = |verb: &str, name: &str, portal: &str, sql: &str| {
            let name = if name.is_empty() { "<unnamed>" } else { name };
            let slash = if portal.is_empty() { "" } else { "/" };
            format!("{verb} {name}{slash}{portal}: {sql}")
        };
        match self {
            LoggedStep::Query { sql } => format!("statement: {sql}"),
            LoggedStep::Parse { name, sql } => named("parse", name, "", sql),
            LoggedStep::Bind { name, portal, bound } => named("bind", name, portal, &bound.prepared.sql),
            LoggedStep::Execute { portal, bound, fetches } => {
                let verb = if *fetches { "execute fetch from" } else { "execute" };
                named(verb, bound.statement_name.as_deref().unwrap_or(""), portal, &bound.prepared.sql)
            }
        }
    }
    fn bound(&self) -> Option<&Portal> {
        match self {
            LoggedStep::Bind { bound, .. } | LoggedStep::Execute { bound, .. } => Some(bound),
            LoggedStep::Query { .. } | LoggedStep::Parse { .. } => None,
        }
    }
}

impl Session {
    /// The clock of a step that has none of its own begins.
    pub(super) fn time_step(&mut self) {
        if self.context.times_statement() {
            self.log.started = self.context.now();
        }
        self.log.is_told = false;
    }

    /// A statement begins: what is running, as its command tag begins, and how long it waits for locks. Another statement
    /// of the same message may have changed that.
    pub(super) fn note_command(&mut self, command: &'static str, runtime: &dyn Runtime) {
        let lock_timeout_ns = self.context.settings.lock_timeout_ms.saturating_mul(1_000_000);
        runtime.control().lock_timeout_nanos.store(lock_timeout_ns, Ordering::Relaxed);
        if self.context.routine_depth == 0 {
            self.log.command = command;
            if self.context.settings.log.lock_waits {
                self.publish_log_switches(runtime);
            }
        }
    }

    /// Whoever makes the session wait has it told as the settings are now.
    #[cold]
    pub(super) fn publish_log_switches(&self, runtime: &dyn Runtime) {
        runtime.control().tell_waits(&self.context.settings.log, self.log.command);
    }

    /// The statements of a message of the simple protocol, now that they are parsed.
    pub(super) fn log_script(&mut self, statements: &[Statement], sql: &str, runtime: &dyn Runtime) {
        self.log.detail = statements.iter().find_map(|s| text_of_prepared(&self.statements, &s.node()));
        let wanted = self.context.settings.log.statements;
        if statements.iter().any(|s| wanted.includes(class_of(&self.statements, &s.node()))) {
            self.log_statement(LoggedStep::Query { sql }, runtime);
        }
    }

    /// Before an Execute: the statement, if log_statement wants it.
    pub(super) fn log_execute(&mut self, step: LoggedStep<'_>, runtime: &dyn Runtime) {
        let Some(statement) = step.bound().and_then(|portal| portal.prepared.statement.as_ref()) else { return };
        if self.context.settings.log.statements.includes(class_of(&self.statements, &statement.node())) {
            self.log_statement(step, runtime);
        }
    }

    /// Tells of a statement before it runs; once.
    pub(super) fn log_statement(&mut self, step: LoggedStep<'_>, runtime: &dyn Runtime) {
        if !std::mem::replace(&mut self.log.is_told, true) {
            let detail = self.detail_of(step, runtime);
            self.log_line(step.words(), detail, runtime);
        }
    }

    /// Tells how long a step took, as far as the settings want it. To be called where [`Session::times_statement`].
    pub(super) fn log_duration(&mut self, step: LoggedStep<'_>, runtime: &dyn Runtime) {
        let elapsed_us = (self.context.now() - self.log.started).max(0) as u64;
        self.log_temporary_files();
        let switches = self.context.settings.log;
        let exceeds = |limit_ms: Option<u64>| limit_ms.is_some_and(|limit| elapsed_us / 1000 >= limit);
        let is_long = exceeds(switches.min_duration_ms);
        let is_drawn = exceeds(switches.min_duration_sample_ms)
            && switches.statement_sample_rate > 0.0
            && self.context.is_drawn(switches.statement_sample_rate);
        let tells_text = is_long || is_drawn || self.context.transaction.is_sampled;
        if !tells_text && !switches.duration {
            return;
        }
        let duration = format!("duration: {}.{:03} ms", elapsed_us / 1000, elapsed_us % 1000);
        if tells_text && !self.log.is_told {
            let detail = self.detail_of(step, runtime);
            self.log_line(format!("{duration}  {}", step.words()), detail, runtime);
        } else {
            self.log_line(duration, None, runtime);
        }
    }

    /// `Parameters: …`, or what EXECUTE runs.
    fn detail_of(&mut self, step: LoggedStep<'_>, runtime: &dyn Runtime) -> Option<String> {
        let Some(portal) = step.bound() else { return self.log.detail.clone() };
        let most = self.context.settings.log.parameter_max_bytes;
        let values = parameters_as_text(&mut self.context, &portal.prepared, &portal.params, most, runtime)?;
        Some(format!("Parameters: {values}"))
    }

    /// An error in a portal with parameters: tells them, if log_parameter_max_length_on_error has it so.
    pub(super) fn add_parameters(&mut self, mut e: Error, name: &str, portal: &Portal, runtime: &dyn Runtime) -> Error {
        let most = self.context.settings.log.parameter_max_bytes_on_error;
        if most == Some(0) || e.is_interruption() {
            return e;
        }
        if let Some(values) = parameters_as_text(&mut self.context, &portal.prepared, &portal.params, most, runtime) {
            let whose = if name.is_empty() { "unnamed portal".to_string() } else { format!("portal \"{name}\"") };
            e.add_context(&format!("{whose} with parameters: {values}"));
        }
        e
    }

    /// The statement that has failed, for who logs the failure.
    pub(super) fn note_failed_text(&mut self, text: &Arc<str>) {
        self.log.failed_text = Some(text.clone());
    }

    /// Text of a prepared statement, for the line about a failure.
    pub fn prepared_text(&self, name: &str) -> Option<Arc<str>> {
        self.statements.prepared.get(name).map(|prepared| prepared.sql.clone())
    }

    /// Tells of a failure. `text`: of the message's statement, if it has one.
    pub fn log_error(&mut self, e: &Error, text: Option<&str>, runtime: &dyn Runtime) {
        let failed = self.log.failed_text.take();
        if self.context.settings.log.min_messages.admits(e.0.severity) {
            let text = text
                .or(failed.as_deref())
                .filter(|_| self.context.settings.log.min_error_statement.admits(e.0.severity));
            self.await_room(runtime);
            self.write_log(&e.0, text);
        }
    }

    /// What routines and commands remark, as far as log_min_messages lets it through.
    pub(super) fn log_notice(&self, notice: &Error) {
        let severity = notice.0.severity;
        if !self.context.settings.log.min_messages.admits(severity) {
            return;
        }
        let control = self.context.cluster.sessions().get(self.context.process_id);
        // Of a long text only what others see of it, too.
        let text = control
            .filter(|_| self.context.settings.log.min_error_statement.admits(severity))
            .map(|c| c.activity.lock().unwrap_or_else(|e| e.into_inner()).query.clone());
        self.write_log(&notice.0, text.as_deref());
    }

    /// The statement's temporary files that have gone by now, those that are as long as log_temp_files says.
    pub(super) fn log_temporary_files(&self) {
        let Some(least) = self.context.settings.log.temp_files_bytes else { return };
        for file in self.context.shared.temp_space.take_removed() {
            if file.bytes >= least {
                let message = format!("temporary file: path \"{}\", size {}", file.path.display(), file.bytes);
                self.log_notice(&Error::notice(sqlstate::SUCCESSFUL_COMPLETION, Severity::Log, message));
            }
        }
    }

    /// A message of the session's own, such as that it ends.
    pub fn log_message(&self, message: String) {
        if self.context.settings.log.min_messages <= LogLevel::Log {
            let record = Error::notice(sqlstate::SUCCESSFUL_COMPLETION, Severity::Log, message);
            self.write_log(&record.0, None);
        }
    }

    fn log_line(&self, message: String, detail: Option<String>, runtime: &dyn Runtime) {
        if !self.context.settings.log.min_messages.admits(Severity::Log) {
            return;
        }
        let mut record = Error::notice(sqlstate::SUCCESSFUL_COMPLETION, Severity::Log, message);
        record.0.detail = detail;
        self.await_room(runtime);
        self.write_log(&record.0, None);
    }

    /// Waits while what reads the log is behind.
    fn await_room(&self, runtime: &dyn Runtime) {
        while self.context.cluster.log_sink().is_congested() {
            let until = process_monotonic_nanos() + CONGESTION_PAUSE_NANOS;
            if let Err(e) = runtime.park(Some(until)) {
                if e.sqlstate() == sqlstate::QUERY_CANCELED {
                    // It is told once: whoever looks next finds it again.
                    runtime.control().cancel_requested.store(true, Ordering::Release);
                }
                return;
            }
        }
    }

    fn write_log(&self, fields: &ErrorFields, statement: Option<&str>) {
        let Some(control) = self.context.cluster.sessions().get(self.context.process_id) else { return };
        let command = match (self.log.command, self.status()) {
            ("", b'T') => "idle in transaction",
            ("", b'E') => "idle in transaction (aborted)",
            ("", _) => "idle",
            (command, _) => command,
        };
        let transaction_id = self.context.transaction.txn.as_ref().and_then(|txn| txn.xid()).map_or(0, |xid| xid.0);
        let session = LoggedSession { control: &control, command, transaction_id };
        let record =
            LogRecord { fields, statement, verbosity: self.context.settings.log.verbosity, session: Some(session) };
        self.context.cluster.log_sink().write(&record);
    }

    /// Does log_disconnections have the end of this session told?
    pub fn tells_of_disconnection(&self) -> bool {
        self.context.settings.log.disconnections
    }

    /// The name of the client's program, if it has told one.
    pub fn application_name(&self) -> &str {
        self.context.settings.get("application_name").unwrap_or("")
    }

    /// What log_connections lists, as the session began with it.
    pub fn connection_log(&self) -> &str {
        self.context.settings.get("log_connections").unwrap_or("")
    }
}

fn class_of(statements: &ClientStatements, node: &Node<'_>) -> LoggedStatements {
    logged_class(node, &|name| {
        let prepared = statements.prepared.get(name)?;
        let statement = prepared.statement.as_ref()?;
        // What EXECUTE runs is no EXECUTE itself.
        Some(logged_class(&statement.node(), &|_| None))
    })
}

/// `prepare: …`, for EXECUTE.
fn text_of_prepared(statements: &ClientStatements, node: &Node<'_>) -> Option<String> {
    let Node::ExecuteStmt(s) = node else { return None };
    let prepared = statements.prepared.get(s.name().unwrap_or(""))?;
    prepared.from_sql.then(|| format!("prepare: {}", prepared.sql))
}

/// `$1 = '7', $2 = NULL`. `most`: so many bytes of each. None: there are none to be told.
fn parameters_as_text(
    context: &mut SessionContext,
    prepared: &Prepared,
    params: &[Datum],
    most: Option<usize>,
    runtime: &dyn Runtime,
) -> Option<String> {
    if params.is_empty() || most == Some(0) {
        return None;
    }
    let types: Vec<Oid> = prepared.param_types.clone();
    let told = context.with_value_context(types.iter().copied(), runtime, |eval| {
        let mut told = String::new();
        for (i, (value, ty)) in params.iter().zip(&types).enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            told.push_str(&format!("{comma}${} = ", i + 1));
            if value.is_null() {
                told.push_str("NULL");
                continue;
            }
            let mut text = Vec::new();
            io::output(*ty, value, &mut text, eval)?;
            push_quoted(&mut told, &String::from_utf8_lossy(&text), most);
        }
        Ok(told)
    });
    // A value that cannot be told is not.
    told.ok()
}

/// In quotes, with quotes inside doubled. Of a text longer than `most` bytes the beginning, and three dots.
fn push_quoted(told: &mut String, text: &str, most: Option<usize>) {
    let end = most
        .filter(|most| *most < text.len())
        .map(|most| (0..=most).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0));
    told.push('\'');
    told.push_str(&text[..end.unwrap_or(text.len())].replace('\'', "''"));
    told.push_str(if end.is_some() { "...'" } else { "'" });
}

#[cfg(test)]
mod tests {
    use super::push_quoted;

    #[test]
    fn parameters_are_quoted_and_clipped_between_characters() {
        let quoted = |text: &str, most| {
            let mut told = String::new();
            push_quoted(&mut told, text, most);
            told
        };
        assert_eq!(quoted("it's", None), "'it''s'");
        assert_eq!(quoted("abcdefgh", Some(3)), "'abc...'");
        assert_eq!(quoted("abc", Some(3)), "'abc'");
        assert_eq!(quoted("aöö", Some(2)), "'a...'");
    }
}
