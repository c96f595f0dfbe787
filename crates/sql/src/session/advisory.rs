//! Advisory locks, and the words of a deadlock.

use super::environment::StatementHost;
use super::functions::{Call, session_functions};
use super::{Session, views};
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_catalog::lock_class::{ADVISORY_LOCK, ADVISORY_PAIR_LOCK, RELATION_LOCK};
use kilndb_exec::CallEnv;
use kilndb_storage::{LockMode, LockTag, WaitPolicy, Waiting};
use kilndb_types::Datum;
use std::fmt::Write;

fn integer(d: Option<&Datum>) -> i64 {
    match d {
        Some(Datum::Int4(v)) => i64::from(*v),
        Some(Datum::Int8(v)) => *v,
        _ => 0,
    }
}

fn tag(host: &StatementHost<'_>, args: &[Datum]) -> LockTag {
    let (class, key) = match args {
        [key] => (ADVISORY_LOCK, integer(Some(key)) as u64),
        _ => {
            let half = |d: Option<&Datum>| u64::from(integer(d) as u32);
            (ADVISORY_PAIR_LOCK, (half(args.first()) << 32) | half(args.get(1)))
        }
    };
    LockTag(class, u64::from(host.database().oid), key)
}

session_functions! {
    fn pg_advisory_lock(call) = for_session(call, LockMode::Exclusive);
    fn pg_advisory_lock_shared(call) = for_session(call, LockMode::Share);
    fn pg_try_advisory_lock(call) = try_for_session(call, LockMode::Exclusive);
    fn pg_try_advisory_lock_shared(call) = try_for_session(call, LockMode::Share);
    fn pg_advisory_xact_lock(call) = for_transaction(call, LockMode::Exclusive);
    fn pg_advisory_xact_lock_shared(call) = for_transaction(call, LockMode::Share);
    fn pg_try_advisory_xact_lock(call) = try_for_transaction(call, LockMode::Exclusive);
    fn pg_try_advisory_xact_lock_shared(call) = try_for_transaction(call, LockMode::Share);
    fn pg_advisory_unlock(call) = Ok(Datum::Bool(unlock(call.host, tag(call.host, call.args), LockMode::Exclusive)));
    fn pg_advisory_unlock_shared(call) = Ok(Datum::Bool(unlock(call.host, tag(call.host, call.args), LockMode::Share)));
    fn pg_advisory_unlock_all(call) = {
        call.host.scratch.advisory.borrow_mut().take();
        Ok(Datum::text(""))
    };
}

fn for_session(call: &mut Call<'_, '_>, mode: LockMode) -> Result<Datum> {
    lock_for_session(call.host, tag(call.host, call.args), mode, WaitPolicy::Wait, call.env)?;
    Ok(Datum::text(""))
}
fn try_for_session(call: &mut Call<'_, '_>, mode: LockMode) -> Result<Datum> {
    attempted(lock_for_session(call.host, tag(call.host, call.args), mode, WaitPolicy::NoWait, call.env))
}
fn for_transaction(call: &mut Call<'_, '_>, mode: LockMode) -> Result<Datum> {
    call.env.txn.lock(tag(call.host, call.args), mode, WaitPolicy::Wait, call.env.park)?;
    Ok(Datum::text(""))
}
fn try_for_transaction(call: &mut Call<'_, '_>, mode: LockMode) -> Result<Datum> {
    attempted(call.env.txn.lock(tag(call.host, call.args), mode, WaitPolicy::NoWait, call.env.park))
}
fn attempted(granted: Result<bool>) -> Result<Datum> {
    match granted {
        Err(e) if e.sqlstate() == sqlstate::LOCK_NOT_AVAILABLE => Ok(Datum::Bool(false)),
        other => other.map(Datum::Bool),
    }
}

fn lock_for_session(
    host: &StatementHost<'_>,
    tag: LockTag,
    mode: LockMode,
    wait: WaitPolicy,
    env: &mut CallEnv<'_>,
) -> Result<bool> {
    // Taken out meanwhile: nothing stays borrowed while the session waits.
    let held = host.scratch.advisory.borrow_mut().take();
    let mut session = held.unwrap_or_else(|| env.engine.lock_owner_of(env.txn));
    let granted = session.lock(tag, mode, wait, env.park);
    if !session.holds_nothing() {
        *host.scratch.advisory.borrow_mut() = Some(session);
    }
    granted
}

fn unlock(host: &StatementHost<'_>, tag: LockTag, mode: LockMode) -> bool {
    let mut advisory = host.scratch.advisory.borrow_mut();
    let unlocked = advisory.as_mut().is_some_and(|session| session.unlock(tag, mode));
    if advisory.as_ref().is_some_and(kilndb_storage::LockOwner::holds_nothing) {
        *advisory = None;
    }
    if !unlocked {
        let warning = format!("you don't own a lock of type {}", views::mode_name(mode));
        host.scratch.notices.borrow_mut().push(Error::notice(sqlstate::WARNING, Severity::Warning, warning));
    }
    unlocked
}

impl Session {
    /// Adds what only the session knows: who waits for whom in a deadlock.
    pub fn explain_error(&self, e: Error) -> Error {
        if e.sqlstate() != sqlstate::DEADLOCK_DETECTED || e.0.detail.is_some() {
            return e;
        }
        self.instance.statistics.database_of(self.worker, self.database.oid, |d| d.deadlocks += 1);
        let Some(txn) = &self.txn else { return e };
        let cycle = self.instance.engine.take_deadlock(txn.lock_owner_id());
        let sessions = self.instance.sessions().all();
        let process = |owner: u64| {
            let is_owner = |a: &crate::client::Activity| a.lock_owner == Some(owner);
            sessions
                .iter()
                .find(|c| is_owner(&c.activity.lock().unwrap_or_else(|e| e.into_inner())))
                .map_or(0, |c| c.process_id)
        };
        let mut detail = String::new();
        for (waiting, xid) in cycle {
            let line_break = if detail.is_empty() { "" } else { "\n" };
            let _ = write!(
                detail,
                "{line_break}Process {} waits for {}; blocked by process {}.",
                process(waiting.owner),
                what(&waiting, xid),
                process(waiting.blocker)
            );
        }
        if detail.is_empty() { e } else { e.with_detail(detail).with_hint("See server log for query details.") }
    }
}

fn what(waiting: &Waiting, xid: Option<u64>) -> String {
    let Some((LockTag(class, database, object), mode)) = waiting.wanted else {
        return format!("ShareLock on transaction {}", xid.unwrap_or(0));
    };
    let mode = views::mode_name(mode);
    if class == RELATION_LOCK {
        return format!("{mode} on relation {object} of database {database}");
    }
    let keys = if class == ADVISORY_PAIR_LOCK { 2 } else { 1 };
    format!("{mode} on advisory lock [{database},{},{},{keys}]", object >> 32, object as u32)
}
