//! The server's log: records become lines, on standard error or in files (docs/decisions/0038).
//!
//! Invariants
//! 1. Nobody fails because nobody reads the log, and no worker's thread waits for who reads it ([`queue`]).
//! 2. A line goes out in one system call where the kernel lets it: those of the engine and of its supervisor do not mix.
//! 3. What is said before the process ends is written before it ends, if somebody takes it ([`ServerLog::flush`]).
//!
//! Must not know: who writes, and why.

mod config;
mod facts;
mod files;
mod json;
mod moment;
mod prefix;
mod queue;
mod text;

use config::LogConfig;
use facts::{LineFacts, ProcessFacts};
use files::LogFiles;
use kilndb_base::env::{Env, OsEnv};
use kilndb_base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kilndb_base::sync::{Arc, RwLock};
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_context::log::{LogRecord, LogSink, Verbosity};
use kilndb_context::settings::ServerSettings;
use moment::LogMoment;
use queue::{LogFormat, LogQueue};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How long the writer rests at most: so late may files follow one another that nobody writes to.
const WRITER_REST: Duration = Duration::from_secs(10);

/// A line of the process that reads no settings, at once.
pub fn write(severity: Severity, message: &str) {
    let env: Arc<dyn Env> = Arc::new(OsEnv);
    ServerLog::new(env, PathBuf::new()).write_message(severity, message);
}

pub struct ServerLog {
    env: Arc<dyn Env>,
    data_dir: PathBuf,
    process: ProcessFacts,
    config: RwLock<Arc<LogConfig>>,
    queue: LogQueue,
    /// Lines that the server has written of itself.
    lines: AtomicU64,
}

impl ServerLog {
    pub fn new(env: Arc<dyn Env>, data_dir: PathBuf) -> ServerLog {
        let process = ProcessFacts { id: std::process::id() as i32, start_unix_micros: env.unix_micros() };
        ServerLog {
            env,
            data_dir,
            process,
            config: RwLock::new(Arc::new(LogConfig::unconfigured())),
            queue: LogQueue::default(),
            lines: AtomicU64::new(0),
        }
    }

    /// Starts the thread that writes what is logged.
    pub fn start_writer(self: &Arc<Self>) -> Result<()> {
        let log = self.clone();
        self.queue.begin();
        self.env.spawn("log writer", Box::new(move || log.run_writer()))?;
        Ok(())
    }

    /// Waits until what was logged is written, as long as somebody takes it.
    pub fn flush(&self) {
        self.queue.flush();
    }

    fn config(&self) -> Arc<LogConfig> {
        self.config.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    fn write_message(&self, severity: Severity, message: &str) {
        let state =
            if severity >= Severity::Error { sqlstate::INTERNAL_ERROR } else { sqlstate::SUCCESSFUL_COMPLETION };
        let error = Error::notice(state, severity, message);
        self.write(&LogRecord { fields: &error.0, statement: None, verbosity: Verbosity::Default, session: None });
    }

    fn run_writer(&self) {
        let mut files = LogFiles::default();
        loop {
            let batch = self.queue.take(WRITER_REST);
            let config = self.config();
            let now = LogMoment::new(self.env.unix_micros(), &config.zone);
            if let Some(settings) = &config.files {
                files.follow(settings, &now);
            }
            let mut write = |format: LogFormat, bytes: &[u8]| match &config.files {
                None => write_to_stderr(bytes),
                Some(settings) => {
                    if let Err(e) = files.write(format, bytes, &now) {
                        let folder = settings.directory.display();
                        write(Severity::Log, &format!("could not write to a log file in \"{folder}\": {e}"));
                        write_to_stderr(bytes);
                    }
                }
            };
            self.queue.write_out(&batch.text, &mut |piece| write(LogFormat::Text, piece));
            self.queue.write_out(&batch.json, &mut |piece| write(LogFormat::Json, piece));
            if batch.lost > 0 {
                let message = format!("{} messages were lost because the log was not read", batch.lost);
                self.write_message(Severity::Warning, &message);
            }
        }
    }

    /// Hands a line on, or writes it if there is no writer.
    fn send(&self, format: LogFormat, line: &str) {
        if !self.queue.append(format, line) {
            write_to_stderr(line.as_bytes());
        }
    }
}

impl LogSink for ServerLog {
    fn write(&self, record: &LogRecord<'_>) {
        let config = self.config();
        let facts = LineFacts::of(record, self.process, self.env.unix_micros(), &config.zone);
        let lines = record.session.map_or(&self.lines, |session| &session.control.log_lines);
        let first_line = lines.fetch_add(text::count_lines(record), Relaxed) + 1;
        if config.has_text {
            let mut out = String::new();
            text::write(&mut out, record, &facts, &config.prefix, first_line);
            self.send(LogFormat::Text, &out);
        }
        if config.has_json {
            let mut out = String::new();
            json::write(&mut out, record, &facts, first_line);
            self.send(LogFormat::Json, &out);
        }
    }

    fn tell(&self, severity: Severity, message: &str) {
        if self.config().min_messages.admits(severity) {
            self.write_message(severity, message);
        }
    }

    fn configure(&self, settings: &ServerSettings) {
        let config = Arc::new(LogConfig::new(settings, &self.data_dir));
        *self.config.write().unwrap_or_else(|e| e.into_inner()) = config;
    }

    fn is_congested(&self) -> bool {
        self.queue.is_congested()
    }
}

fn write_to_stderr(bytes: &[u8]) {
    // Invariant 1.
    let _ = std::io::stderr().write_all(bytes);
}
