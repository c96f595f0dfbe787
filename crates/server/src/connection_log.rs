//! What the log is told of connections: that they come, who they are, that they go, and what fails before there is a
//! session.
//!
//! Must not know: how lines look.

use crate::authentication::Login;
use crate::shared::ServerShared;
use kilndb_base::error::ErrorFields;
use kilndb_base::{Error, Severity, sqlstate};
use kilndb_context::client::{Activity, SessionControl};
use kilndb_context::log::{LogLevel, LogRecord, LoggedSession, Verbosity};
use kilndb_sql::session::{Session, StartupOptions};

const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Whether a list of `log_connections` has this word, or one that stands for it.
fn has_aspect(list: &str, aspect: &str) -> bool {
    list.split(',').map(|word| word.trim().trim_matches('"').to_ascii_lowercase()).any(|word| match word.as_str() {
        "all" => true,
        // What was all there was before PostgreSQL 18.
        "on" | "true" | "yes" | "1" => aspect != "setup_durations",
        word => word == aspect,
    })
}

fn activity_of(control: &SessionControl) -> Activity {
    control.activity.lock().unwrap_or_else(|e| e.into_inner()).clone()
}

fn write(shared: &ServerShared, control: &SessionControl, command: &str, fields: &ErrorFields) {
    let session = LoggedSession { control, command, transaction_id: 0 };
    let record = LogRecord { fields, statement: None, verbosity: Verbosity::Default, session: Some(session) };
    shared.instance.cluster.log_sink().write(&record);
}

/// `host=127.0.0.1 port=34882`
fn whence(activity: &Activity) -> String {
    let host = activity.client_addr.as_deref().unwrap_or("[local]");
    let port = activity.client_port.map_or(String::new(), |port| format!(" port={port}"));
    format!("host={host}{port}")
}

/// A connection has come.
pub fn received(shared: &ServerShared, control: &SessionControl) {
    let settings = shared.instance.cluster.settings();
    let is_told = has_aspect(settings.get("log_connections"), "receipt");
    if is_told && LogLevel::of_setting(settings.get("log_min_messages")).admits(Severity::Log) {
        let message = format!("connection received: {}", whence(&activity_of(control)));
        write(shared, control, "", &Error::notice(sqlstate::SUCCESSFUL_COMPLETION, Severity::Log, message).0);
    }
}

/// A connection has failed before it was a session.
pub fn failed(shared: &ServerShared, control: &SessionControl, e: &Error) {
    if LogLevel::of_setting(shared.instance.cluster.settings().get("log_min_messages")).admits(e.0.severity) {
        write(shared, control, "startup", &e.0);
    }
}

/// A connection's startup packet says who it is.
pub fn introduced(control: &SessionControl, options: &StartupOptions) {
    let mut activity = control.activity.lock().unwrap_or_else(|e| e.into_inner());
    activity.user = options.user.clone();
    activity.database = options.database.clone();
}

/// Whoever is at the other end has proved who he is, or need not.
pub fn authenticated(shared: &ServerShared, control: &SessionControl, login: &Login) {
    if let Some(identity) = &login.identity {
        let mut activity = control.activity.lock().unwrap_or_else(|e| e.into_inner());
        activity.system_user = Some(format!("{}:{identity}", login.rule().method.name()));
    }
    let settings = shared.instance.cluster.settings();
    let is_told = has_aspect(settings.get("log_connections"), "authentication");
    if !is_told || !LogLevel::of_setting(settings.get("log_min_messages")).admits(Severity::Log) {
        return;
    }
    let who = match &login.identity {
        Some(identity) => format!("identity=\"{identity}\""),
        None => format!("user=\"{}\"", login.options.user),
    };
    let rule = login.rule();
    let message = format!(
        "connection authenticated: {who} method={} ({}:{})",
        rule.method.name(),
        rule.file.display(),
        rule.line
    );
    write(shared, control, "authentication", &Error::notice(sqlstate::SUCCESSFUL_COMPLETION, Severity::Log, message).0);
}

/// How long parts of a connection's beginning have taken.
pub struct SetupTimes {
    pub authentication_nanos: u64,
}

/// A connection has become a session.
pub fn authorized(shared: &ServerShared, control: &SessionControl, session: &Session, times: &SetupTimes) {
    let list = session.connection_log();
    if list.is_empty() {
        return;
    }
    let activity = activity_of(control);
    let (user, database) = (&activity.user, &activity.database);
    if has_aspect(list, "authorization") {
        let name = session.application_name();
        let name = if name.is_empty() { String::new() } else { format!(" application_name={name}") };
        let tls = activity.tls.as_ref().map_or(String::new(), |tls| {
            format!(" SSL enabled (protocol={}, cipher={}, bits={})", tls.version, tls.cipher, tls.cipher_bits)
        });
        session.log_message(format!("connection authorized: user={user} database={database}{name}{tls}"));
    }
    if has_aspect(list, "setup_durations") {
        let micros = shared.env.unix_micros() - POSTGRES_EPOCH_MICROS - activity.backend_start;
        let milliseconds = |micros: i64| format!("{}.{:03} ms", micros / 1000, micros % 1000);
        // There is no process to be forked.
        session.log_message(format!(
            "connection ready: setup total={}, fork=0.000 ms, authentication={}",
            milliseconds(micros.max(0)),
            milliseconds((times.authentication_nanos / 1000) as i64)
        ));
    }
}

/// The session is over.
pub fn disconnected(shared: &ServerShared, control: &SessionControl, session: &Session) {
    if !session.tells_of_disconnection() {
        return;
    }
    let activity = activity_of(control);
    let milliseconds = (shared.env.unix_micros() - POSTGRES_EPOCH_MICROS - activity.backend_start).max(0) / 1000;
    let seconds = milliseconds / 1000;
    session.log_message(format!(
        "disconnection: session time: {}:{:02}:{:02}.{:03} user={} database={} {}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        milliseconds % 1000,
        activity.user,
        activity.database,
        whence(&activity)
    ));
}

#[cfg(test)]
mod tests {
    use super::has_aspect;

    #[test]
    fn aspects_are_words_of_a_list() {
        assert!(has_aspect("receipt, authorization", "authorization") && !has_aspect("receipt", "authorization"));
        assert!(
            has_aspect("on", "receipt") && !has_aspect("on", "setup_durations") && has_aspect("all", "setup_durations")
        );
        assert!(!has_aspect("", "receipt"));
    }
}
