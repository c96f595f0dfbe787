//! A session's settings of the log, made ready for use when they change: what runs often asks single flags of them.

use super::LoggedStatements;
use kilndb_base::Severity;

/// PostgreSQL's order of severities in the log's settings: LOG stands between ERROR and FATAL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogLevel {
    Debug5,
    Debug4,
    Debug3,
    Debug2,
    Debug1,
    Info,
    Notice,
    Warning,
    Error,
    Log,
    Fatal,
    Panic,
}

impl LogLevel {
    /// `debug5` … `panic`; `warning`, which is the settings' default, for any other word.
    pub fn of_setting(word: &str) -> LogLevel {
        match word {
            "debug5" => LogLevel::Debug5,
            "debug4" => LogLevel::Debug4,
            "debug3" => LogLevel::Debug3,
            "debug2" | "debug" => LogLevel::Debug2,
            "debug1" => LogLevel::Debug1,
            "info" => LogLevel::Info,
            "notice" => LogLevel::Notice,
            "error" => LogLevel::Error,
            "log" => LogLevel::Log,
            "fatal" => LogLevel::Fatal,
            "panic" => LogLevel::Panic,
            _ => LogLevel::Warning,
        }
    }
    pub(crate) fn of_severity(severity: Severity) -> LogLevel {
        match severity {
            Severity::Debug => LogLevel::Debug1,
            Severity::Info => LogLevel::Info,
            Severity::Notice => LogLevel::Notice,
            Severity::Warning => LogLevel::Warning,
            Severity::Error => LogLevel::Error,
            Severity::Log => LogLevel::Log,
            Severity::Fatal => LogLevel::Fatal,
            Severity::Panic => LogLevel::Panic,
        }
    }
    /// Does a setting of this level let a message of that severity through?
    pub fn admits(self, severity: Severity) -> bool {
        LogLevel::of_severity(severity) >= self
    }
}

/// log_error_verbosity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verbosity {
    /// Messages alone.
    Terse,
    Default,
    /// With SQLSTATEs.
    Verbose,
}

/// What a session has the log told.
#[derive(Clone, Copy, Debug)]
pub struct LogSwitches {
    /// log_statement.
    pub statements: LoggedStatements,
    /// log_duration.
    pub duration: bool,
    /// log_min_duration_statement in milliseconds; None is -1.
    pub min_duration_ms: Option<u64>,
    /// log_min_duration_sample and log_statement_sample_rate.
    pub min_duration_sample_ms: Option<u64>,
    pub statement_sample_rate: f64,
    pub transaction_sample_rate: f64,
    /// Any of the settings above that ask how long a statement took.
    pub times_statements: bool,
    pub min_messages: LogLevel,
    pub min_error_statement: LogLevel,
    pub verbosity: Verbosity,
    /// Most bytes of a parameter that are told; None is -1, all of them.
    pub parameter_max_bytes: Option<usize>,
    /// Some(0): no parameters.
    pub parameter_max_bytes_on_error: Option<usize>,
    /// log_temp_files in bytes; None is -1.
    pub temp_files_bytes: Option<u64>,
    pub lock_waits: bool,
    /// deadlock_timeout: a wait that is longer is told of.
    pub long_wait_ms: u64,
    pub disconnections: bool,
}

impl LogSwitches {
    /// `get` answers a setting's canonical value.
    pub fn new<'s>(get: impl Fn(&str) -> &'s str) -> LogSwitches {
        let limit = |name: &str| get(name).parse::<i64>().ok().and_then(|n| u64::try_from(n).ok());
        let rate = |name: &str| get(name).parse::<f64>().unwrap_or(0.0);
        let is_on = |name: &str| get(name) == "on";
        let (min_duration_ms, min_duration_sample_ms) =
            (limit("log_min_duration_statement"), limit("log_min_duration_sample"));
        let duration = is_on("log_duration");
        LogSwitches {
            statements: LoggedStatements::of_setting(get("log_statement")),
            duration,
            min_duration_ms,
            min_duration_sample_ms,
            statement_sample_rate: rate("log_statement_sample_rate"),
            transaction_sample_rate: rate("log_transaction_sample_rate"),
            times_statements: duration || min_duration_ms.is_some() || min_duration_sample_ms.is_some(),
            min_messages: LogLevel::of_setting(get("log_min_messages")),
            min_error_statement: LogLevel::of_setting(get("log_min_error_statement")),
            verbosity: match get("log_error_verbosity") {
                "terse" => Verbosity::Terse,
                "verbose" => Verbosity::Verbose,
                _ => Verbosity::Default,
            },
            parameter_max_bytes: limit("log_parameter_max_length").map(|n| n as usize),
            parameter_max_bytes_on_error: limit("log_parameter_max_length_on_error").map(|n| n as usize),
            temp_files_bytes: limit("log_temp_files").map(|kilobytes| kilobytes << 10),
            lock_waits: is_on("log_lock_waits"),
            long_wait_ms: limit("deadlock_timeout").unwrap_or(1000),
            disconnections: is_on("log_disconnections"),
        }
    }
    /// Are long waits for locks told?
    pub fn tells_lock_waits(&self) -> bool {
        self.lock_waits && self.min_messages.admits(Severity::Log)
    }
}

impl Default for LogSwitches {
    /// As the settings come.
    fn default() -> LogSwitches {
        LogSwitches::new(|name| crate::settings::definition(name).map_or("", |d| d.boot_value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_stand_in_the_log_s_order() {
        // LOG passes where ERROR does, and where only LOG and worse are wanted.
        assert!(LogLevel::Error.admits(Severity::Log) && LogLevel::Log.admits(Severity::Log));
        assert!(!LogLevel::Log.admits(Severity::Error) && LogLevel::Log.admits(Severity::Fatal));
        assert!(!LogLevel::Fatal.admits(Severity::Log));
        assert!(LogLevel::Warning.admits(Severity::Warning) && !LogLevel::Warning.admits(Severity::Notice));
    }

    #[test]
    fn nothing_is_watched_as_the_settings_come() {
        let switches = LogSwitches::default();
        assert!(!switches.times_statements && switches.statements == LoggedStatements::None);
        assert_eq!((switches.min_messages, switches.min_error_statement), (LogLevel::Warning, LogLevel::Error));
        assert_eq!((switches.parameter_max_bytes, switches.parameter_max_bytes_on_error), (None, Some(0)));
        assert_eq!((switches.temp_files_bytes, switches.long_wait_ms), (None, 1000));
    }
}
