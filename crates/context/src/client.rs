//! What a session needs of the world above: someone to talk to, and someone who lets it wait.

use crate::lock_waits::WaitLines;
use crate::tls_facts::TlsFacts;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use kilndb_base::sync::{Arc, Mutex};
use kilndb_base::{Error, Oid, Result, Severity, memory, sqlstate};

/// A result column as RowDescription tells it.
#[derive(Clone, Debug)]
pub struct FieldInfo<'a> {
    pub name: &'a str,
    pub table_oid: Oid,
    pub attnum: i16,
    pub type_oid: Oid,
    pub type_len: i16,
    pub typmod: i32,
    pub format: i16,
}

/// The client's end of a session: results of statements. Nothing is sent until a flush point.
pub trait Client: Remarks + CopyStream {
    fn row_description(&mut self, fields: &[FieldInfo<'_>]);
    fn no_data(&mut self);
    fn parameter_description(&mut self, types: &[Oid]);
    /// `write` appends column `i`'s bytes, or returns false for NULL.
    fn data_row(&mut self, count: usize, write: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<bool>) -> Result<()>;
    fn command_complete(&mut self, tag: &str);
    fn empty_query(&mut self);
    fn portal_suspended(&mut self);
    /// How other threads make messages of rows for this client. None: it wants them one by one.
    fn messages(&self) -> Option<&'static dyn MessageMaker> {
        None
    }
    /// Sends whole messages that [`Client::messages`] has made.
    fn send_made(&mut self, _messages: &[u8]) -> Result<()> {
        Err(Error::internal("made messages for a client that wants rows"))
    }
}

/// Makes messages of rows, on any thread.
pub trait MessageMaker: Send + Sync {
    /// Appends a message as [`Client::data_row`] would send it.
    fn data_row(
        &self,
        count: usize,
        write: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<bool>,
        out: &mut Vec<u8>,
    ) -> Result<()>;
    /// Appends a message as [`CopyStream::copy_out_data`] would send it.
    fn copy_data(&self, data: &[u8], out: &mut Vec<u8>);
}

/// What a client is told besides results, at any time.
pub trait Remarks {
    fn notice(&mut self, notice: &Error);
    fn parameter_status(&mut self, name: &str, value: &str);
    fn notification(&mut self, process_id: i32, channel: &str, payload: &str);
    /// Waits while too much output is pending.
    fn throttle(&mut self) -> Result<()>;
}

/// COPY from and to the client.
pub trait CopyStream {
    fn copy_in_begin(&mut self, binary: bool, columns: usize) -> Result<()>;
    /// Appends the next piece of COPY data; false at the end. A CopyFail is an error.
    fn copy_in_read(&mut self, data: &mut Vec<u8>) -> Result<bool>;
    fn copy_out_begin(&mut self, binary: bool, columns: usize);
    fn copy_out_data(&mut self, data: &[u8]) -> Result<()>;
    fn copy_out_end(&mut self);
}

/// Waiting, and reaching the client in the midst of a statement.
pub trait Runtime: Park {
    fn control(&self) -> &SessionControl;
    /// A message for the client now, while a statement runs; it waits (the session, not the thread) while too much is
    /// on its way. False: there is nobody who could be told.
    fn tell(&self, _notice: &Error) -> Result<bool> {
        Ok(false)
    }
    fn worker(&self) -> usize;
}

/// What a running statement waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitKind {
    Nothing,
    Lock,
    Time,
    ClientRead,
    ClientWrite,
}

/// A session as others see and disturb it.
pub struct SessionControl {
    pub process_id: i32,
    /// Whoever knows it may cancel the session's statements.
    secret: Vec<u8>,
    /// How much of it the client was told: nothing yet, 4 bytes by protocol 3.0, all by 3.2.
    told_secret_bytes: AtomicUsize,
    pub cancel_requested: AtomicBool,
    pub terminate_requested: AtomicBool,
    /// Monotonic nanoseconds at which the statement times out; 0 is never.
    pub statement_deadline_nanos: AtomicU64,
    /// How long a wait for a lock may last, in nanoseconds; 0 is for ever.
    pub lock_timeout_nanos: AtomicU64,
    /// Monotonic nanoseconds at which the open transaction has lasted too long; 0 is never.
    pub transaction_deadline_nanos: AtomicU64,
    /// Monotonic nanoseconds at which the session has been idle for too long; 0 is never.
    pub idle_deadline_nanos: AtomicU64,
    /// A [`WaitKind`].
    waits_for: AtomicU8,
    pub wake: WakeHandle,
    /// Makes an idle session look around; one that waits or runs is not disturbed.
    pub attention: WakeHandle,
    /// There may be notifications to be read.
    notified: AtomicBool,
    pub activity: Mutex<Activity>,
    pub progress: ProgressSlot,
    /// Of the log, that told of this session so far.
    pub log_lines: AtomicU64,
    /// A wait for a lock that lasts longer is told to the log, in nanoseconds; 0: none is.
    pub told_wait_nanos: AtomicU64,
    pub(crate) wait_lines: Mutex<WaitLines>,
    /// See [`SessionControl::keep_up`].
    keeps_up: AtomicBool,
}

/// A part of a statement in which it must keep up with other sessions.
pub struct KeepingUp<'a> {
    control: &'a SessionControl,
}

impl Drop for KeepingUp<'_> {
    fn drop(&mut self) {
        self.control.keeps_up.store(false, Ordering::Relaxed);
    }
}

/// How far a long command is: PostgreSQL's numbers, by their places in its progress views (from 0).
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub relation: Oid,
    pub values: [i64; 20],
}

/// A session's place for [`Progress`]: written by the session, read by whoever looks. Numbers change one by one.
#[derive(Default)]
pub struct ProgressSlot {
    /// A [`ProgressKind`], or 0.
    kind: AtomicU8,
    relation: AtomicU32,
    values: [AtomicI64; 20],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgressKind {
    Copy = 1,
    CreateIndex,
    Analyze,
    /// A table's rows go into new storage.
    Cluster,
}

impl ProgressSlot {
    pub fn begin(&self, kind: ProgressKind, relation: Oid) {
        self.values.iter().for_each(|v| v.store(0, Ordering::Relaxed));
        self.relation.store(relation, Ordering::Relaxed);
        self.kind.store(kind as u8, Ordering::Release);
    }
    /// The relation became known.
    pub fn concerns(&self, relation: Oid) {
        self.relation.store(relation, Ordering::Relaxed);
    }
    pub fn set(&self, place: usize, value: i64) {
        if let Some(v) = self.values.get(place) {
            v.store(value, Ordering::Relaxed);
        }
    }
    pub fn add(&self, place: usize, more: i64) {
        if let Some(v) = self.values.get(place) {
            v.fetch_add(more, Ordering::Relaxed);
        }
    }
    pub fn end(&self) {
        self.kind.store(0, Ordering::Release);
    }
    /// None unless a command of that kind (PostgreSQL's word) runs.
    pub fn read(&self, kind: &str) -> Option<Progress> {
        let wanted = match kind {
            "COPY" => ProgressKind::Copy,
            "CREATE INDEX" => ProgressKind::CreateIndex,
            "ANALYZE" => ProgressKind::Analyze,
            "CLUSTER" => ProgressKind::Cluster,
            _ => return None,
        };
        if self.kind.load(Ordering::Acquire) != wanted as u8 {
            return None;
        }
        let mut progress = Progress { relation: self.relation.load(Ordering::Relaxed), ..Progress::default() };
        progress.values.iter_mut().zip(&self.values).for_each(|(v, shared)| *v = shared.load(Ordering::Relaxed));
        Some(progress)
    }
}

/// Whose session it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum BackendKind {
    #[default]
    Client,
    /// One of the server's own, which analyzes tables.
    Autoanalyze,
}

impl BackendKind {
    /// PostgreSQL's word for it, in pg_stat_activity.
    pub fn words(self) -> &'static str {
        match self {
            BackendKind::Client => "client backend",
            BackendKind::Autoanalyze => "autovacuum worker",
        }
    }
}

/// A row of pg_stat_activity.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    pub kind: BackendKind,
    /// The method by which the client has proved who he is, and who that is. None: he has not been asked.
    pub system_user: Option<String>,
    pub database_oid: Oid,
    pub database: String,
    pub user_oid: Oid,
    pub user: String,
    pub application_name: String,
    pub client_addr: Option<String>,
    pub backend_start: i64,
    pub xact_start: Option<i64>,
    pub query_start: Option<i64>,
    pub state_change: i64,
    pub state: &'static str,
    pub query: String,
    /// The open transaction's number in the lock table.
    pub lock_owner: Option<u64>,
    /// Other transactions, by their numbers in the lock table, whose end is waited for without a lock being asked for.
    pub waits_for_owners: Vec<u64>,
    pub client_port: Option<i32>,
    /// The server's end of the connection; None for a Unix-domain socket.
    pub server_addr: Option<String>,
    /// None: it is not encrypted.
    pub tls: Option<Arc<TlsFacts>>,
}

/// Has this moment (0: none) come? The clock is looked at only if there is one.
fn is_over(deadline_nanos: &AtomicU64) -> bool {
    let deadline = deadline_nanos.load(Ordering::Relaxed);
    deadline != 0 && process_monotonic_nanos() >= deadline
}

impl SessionControl {
    pub fn new(
        process_id: i32,
        secret: Vec<u8>,
        wake: WakeHandle,
        attention: WakeHandle,
        activity: Activity,
    ) -> SessionControl {
        SessionControl {
            process_id,
            secret,
            told_secret_bytes: AtomicUsize::new(0),
            cancel_requested: AtomicBool::new(false),
            terminate_requested: AtomicBool::new(false),
            statement_deadline_nanos: AtomicU64::new(0),
            lock_timeout_nanos: AtomicU64::new(0),
            transaction_deadline_nanos: AtomicU64::new(0),
            idle_deadline_nanos: AtomicU64::new(0),
            waits_for: AtomicU8::new(WaitKind::Nothing as u8),
            wake,
            attention,
            notified: AtomicBool::new(false),
            activity: Mutex::new(activity),
            progress: ProgressSlot::default(),
            log_lines: AtomicU64::new(0),
            told_wait_nanos: AtomicU64::new(0),
            wait_lines: Mutex::default(),
            keeps_up: AtomicBool::new(false),
        }
    }
    /// The statement has lasted longer than statement_timeout.
    pub(crate) fn refuse_long_statement(&self) -> Result<()> {
        if !is_over(&self.statement_deadline_nanos) {
            return Ok(());
        }
        Err(Error::new(sqlstate::QUERY_CANCELED, "canceling statement due to statement timeout"))
    }
    /// The transaction has lasted longer than transaction_timeout.
    pub(crate) fn refuse_long_transaction(&self) -> Result<()> {
        if !is_over(&self.transaction_deadline_nanos) {
            return Ok(());
        }
        Err(Error::new(sqlstate::TRANSACTION_TIMEOUT, "terminating connection due to transaction timeout")
            .with_severity(Severity::Fatal))
    }
    /// Whether the statement may go on: it is not cancelled, its time is not over, and it has not taken too much memory.
    pub fn check_interrupts(&self) -> Result<()> {
        if self.terminate_requested.load(Ordering::Acquire) {
            return Err(Error::new(sqlstate::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
                .with_severity(Severity::Fatal));
        }
        if self.cancel_requested.load(Ordering::Relaxed) && self.cancel_requested.swap(false, Ordering::AcqRel) {
            return Err(Error::new(sqlstate::QUERY_CANCELED, "canceling statement due to user request"));
        }
        self.refuse_long_statement()?;
        self.refuse_long_transaction()?;
        memory::check()
    }
    /// For a session without anything to do: an error if it is to end.
    pub fn refuse_long_idleness(&self) -> Result<()> {
        self.refuse_long_transaction()?;
        if !is_over(&self.idle_deadline_nanos) {
            return Ok(());
        }
        let state = self.activity.lock().unwrap_or_else(|e| e.into_inner()).state;
        let error = if state == "idle" {
            Error::new(sqlstate::IDLE_SESSION_TIMEOUT, "terminating connection due to idle-session timeout")
        } else {
            Error::new(
                sqlstate::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "terminating connection due to idle-in-transaction timeout",
            )
        };
        Err(error.with_severity(Severity::Fatal))
    }
    /// When an idle session is to be looked at again, in monotonic nanoseconds.
    pub fn idle_until_nanos(&self) -> Option<u64> {
        let deadlines = [&self.transaction_deadline_nanos, &self.idle_deadline_nanos];
        deadlines.iter().map(|d| d.load(Ordering::Relaxed)).filter(|d| *d != 0).min()
    }
    /// What the client is told for cancel requests: the first so many bytes of the session's secret.
    pub fn tell_secret(&self, bytes: usize) -> &[u8] {
        let told = &self.secret[..bytes.min(self.secret.len())];
        self.told_secret_bytes.store(told.len(), Ordering::Release);
        told
    }
    /// Whether this is exactly what the client was told. How long that takes depends on the lengths alone.
    pub fn has_told_secret(&self, secret: &[u8]) -> bool {
        let told = self.secret.get(..self.told_secret_bytes.load(Ordering::Acquire)).unwrap_or(&[]);
        let differences = told.iter().zip(secret).fold(0, |found, (a, b)| found | (a ^ b));
        !told.is_empty() && told.len() == secret.len() && differences == 0
    }
    /// None: the session is not encrypted.
    pub fn tls(&self) -> Option<Arc<TlsFacts>> {
        self.activity.lock().unwrap_or_else(|e| e.into_inner()).tls.clone()
    }
    pub fn request_cancel(&self) {
        self.cancel_requested.store(true, Ordering::Release);
        self.wake.wake();
    }
    pub fn set_waits_for(&self, kind: WaitKind) {
        self.waits_for.store(kind as u8, Ordering::Relaxed);
    }
    pub fn waits_for(&self) -> WaitKind {
        let kinds = [WaitKind::Lock, WaitKind::Time, WaitKind::ClientRead, WaitKind::ClientWrite];
        let number = self.waits_for.load(Ordering::Relaxed);
        kinds.into_iter().find(|k| *k as u8 == number).unwrap_or(WaitKind::Nothing)
    }
    /// Until the end of what is returned the statement must be faster than what other sessions do (it follows their
    /// changes), so it does not stand back behind them as other long statements do.
    pub fn keep_up(&self) -> KeepingUp<'_> {
        self.keeps_up.store(true, Ordering::Relaxed);
        KeepingUp { control: self }
    }
    pub fn keeps_up(&self) -> bool {
        self.keeps_up.load(Ordering::Relaxed)
    }
    /// Something was sent to a channel that the session listens to.
    pub fn notify(&self) {
        if !self.notified.swap(true, Ordering::AcqRel) {
            self.attention.wake();
        }
    }
    pub fn is_notified(&self) -> bool {
        self.notified.load(Ordering::Acquire)
    }
    pub fn take_notified(&self) -> bool {
        self.is_notified() && self.notified.swap(false, Ordering::AcqRel)
    }
    pub fn request_terminate(&self) {
        self.terminate_requested.store(true, Ordering::Release);
        self.wake.wake();
    }
}

/// Monotonic nanoseconds; 0 for no limit.
pub fn deadline_after(limit_ms: u64) -> u64 {
    match limit_ms {
        0 => 0,
        ms => process_monotonic_nanos().saturating_add(ms.saturating_mul(1_000_000)),
    }
}
