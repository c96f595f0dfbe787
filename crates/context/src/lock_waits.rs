//! Waits for locks in PostgreSQL's words, and those that the log is told of (log_lock_waits).
//!
//! Invariants
//! 1. Telling takes nothing that a session holds while it waits: what a line needs of the session is kept beside its
//!    control ([`WaitLines`]).
//! 2. Telling never waits and never fails.
//!
//! Must not know: how a session waits.

use crate::client::SessionControl;
use crate::cluster::{Cluster, SessionRegistry};
use crate::host::views::mode_name;
use crate::log::{LogRecord, LogSwitches, LoggedSession, Verbosity};
use kilndb_base::hash::HashMap;
use kilndb_base::sync::atomic::Ordering;
use kilndb_base::{Error, Oid, RelationId, Severity, sqlstate};
use kilndb_catalog::lock_class::{ADVISORY_PAIR_LOCK, RELATION_LOCK};
use kilndb_storage::{LockMode, LockTag, LockWait, RowLockMode, WaitedObject};

/// The process ids of the sessions by the numbers of their transactions in the lock table.
pub struct LockProcesses(HashMap<u64, i32>);

impl LockProcesses {
    pub fn of(sessions: &SessionRegistry) -> LockProcesses {
        let owner = |c: &SessionControl| c.activity.lock().unwrap_or_else(|e| e.into_inner()).lock_owner;
        LockProcesses(sessions.all().iter().filter_map(|c| Some((owner(c)?, c.process_id))).collect())
    }
    /// 0: no session has that transaction, or not any more.
    pub fn id_of(&self, owner: u64) -> i32 {
        self.0.get(&owner).copied().unwrap_or(0)
    }
    fn list(&self, owners: &[u64]) -> String {
        owners.iter().map(|owner| self.id_of(*owner).to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// `ShareLock on relation 16384 of database 5`
pub fn lock_words(LockTag(class, database, object): LockTag, mode: LockMode) -> String {
    let mode = mode_name(mode);
    if class == RELATION_LOCK {
        return format!("{mode} on relation {object} of database {database}");
    }
    let keys = if class == ADVISORY_PAIR_LOCK { 2 } else { 1 };
    format!("{mode} on advisory lock [{database},{},{},{keys}]", object >> 32, object as u32)
}

/// What waits for another transaction's end; 0: it has no id.
pub fn transaction_words(xid: u64) -> String {
    format!("ShareLock on transaction {xid}")
}

/// The mode of PostgreSQL's lock on a tuple, by which those stand in line who want the row.
fn tuple_lock_mode(mode: RowLockMode) -> LockMode {
    match mode {
        RowLockMode::KeyShare => LockMode::AccessShare,
        RowLockMode::Share => LockMode::RowShare,
        RowLockMode::NoKeyUpdate => LockMode::Exclusive,
        RowLockMode::Update => LockMode::AccessExclusive,
    }
}

fn object_words(cluster: &Cluster, database: Oid, object: &WaitedObject) -> String {
    match object {
        WaitedObject::Lock(tag, mode) => lock_words(*tag, *mode),
        WaitedObject::Transaction(xid) => transaction_words(*xid),
        WaitedObject::Row { relation, row, mode, holder } => match table_of_storage(cluster, database, *relation) {
            Some(table) => format!(
                "{} on tuple ({},{}) of relation {table} of database {database}",
                mode_name(tuple_lock_mode(*mode)),
                row.block,
                row.slot
            ),
            None => transaction_words(*holder),
        },
    }
}

fn table_of_storage(cluster: &Cluster, database: Oid, relation: RelationId) -> Option<Oid> {
    cluster.used_database(database)?.table_of_storage(relation)
}

/// What the log's lines about a session's waits have of it besides what others see of it anyway.
#[derive(Clone, Copy, Debug)]
pub struct WaitLines {
    pub verbosity: Verbosity,
    pub tells_statement: bool,
    /// What is running, as its command tag begins.
    pub command: &'static str,
}

impl Default for WaitLines {
    fn default() -> WaitLines {
        WaitLines { verbosity: Verbosity::Default, tells_statement: true, command: "" }
    }
}

impl SessionControl {
    /// Waits are told from now on as these settings have it.
    pub fn tell_waits(&self, switches: &LogSwitches, command: &'static str) {
        let limit_ns = if switches.tells_lock_waits() { switches.long_wait_ms.saturating_mul(1_000_000) } else { 0 };
        *self.wait_lines.lock().unwrap_or_else(|e| e.into_inner()) = WaitLines {
            verbosity: switches.verbosity,
            tells_statement: switches.min_error_statement.admits(Severity::Log),
            command,
        };
        self.told_wait_nanos.store(limit_ns, Ordering::Relaxed);
    }
}

/// A wait that the log was told of.
pub struct ToldWait {
    owner: u64,
    /// The lock, in words.
    object: String,
}

impl ToldWait {
    /// Tells of a session that still waits. None: it does not wait for a lock any more.
    pub fn tell(cluster: &Cluster, control: &SessionControl, waited_nanos: u64) -> Option<ToldWait> {
        let (owner, database) = {
            let activity = control.activity.lock().unwrap_or_else(|e| e.into_inner());
            (activity.lock_owner?, activity.database_oid)
        };
        let wait = cluster.engine.lock_wait(owner)?;
        let told = ToldWait { owner, object: object_words(cluster, database, &wait.object) };
        let message = format!("still waiting for {}", told.object);
        told.write(cluster, control, &message, waited_nanos, Some(holders_and_queue(cluster, wait)));
        Some(told)
    }

    /// Tells that the session has got what it has waited for, if it has.
    pub fn tell_end(&self, cluster: &Cluster, control: &SessionControl, waited_nanos: u64) {
        if !cluster.engine.is_waiting(self.owner) {
            self.write(cluster, control, &format!("acquired {}", self.object), waited_nanos, None);
        }
    }

    fn write(
        &self,
        cluster: &Cluster,
        control: &SessionControl,
        what: &str,
        waited_nanos: u64,
        detail: Option<String>,
    ) {
        let waited_us = waited_nanos / 1000;
        let (process, ms, us) = (control.process_id, waited_us / 1000, waited_us % 1000);
        let message = format!("process {process} {what} after {ms}.{us:03} ms");
        let mut line = Error::notice(sqlstate::SUCCESSFUL_COMPLETION, Severity::Log, message);
        line.0.detail = detail;
        let lines = *control.wait_lines.lock().unwrap_or_else(|e| e.into_inner());
        let statement = lines
            .tells_statement
            .then(|| control.activity.lock().unwrap_or_else(|e| e.into_inner()).query.clone())
            .filter(|text| !text.is_empty());
        let command = format!("{} waiting", lines.command);
        let transaction_id = cluster.engine.running_transaction(self.owner).unwrap_or(0);
        let session = LoggedSession { control, command: &command, transaction_id };
        let record = LogRecord {
            fields: &line.0,
            statement: statement.as_deref(),
            verbosity: lines.verbosity,
            session: Some(session),
        };
        cluster.log_sink().write(&record);
    }
}

/// `Process holding the lock: 7. Wait queue: 8, 9.`
fn holders_and_queue(cluster: &Cluster, wait: LockWait) -> String {
    let processes = LockProcesses::of(cluster.sessions());
    let mut holders = wait.holders;
    holders.sort_unstable_by_key(|owner| processes.id_of(*owner));
    let noun = if holders.len() == 1 { "Process" } else { "Processes" };
    let (holders, queue) = (processes.list(&holders), processes.list(&wait.queue));
    format!("{noun} holding the lock: {holders}. Wait queue: {queue}.")
}
