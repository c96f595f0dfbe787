//! Advisory locks.

use super::StatementHost;
use super::session_function::{Call, session_functions};
use super::views;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_catalog::lock_class::{ADVISORY_LOCK, ADVISORY_PAIR_LOCK};
use kilndb_exec::CallEnv;
use kilndb_storage::{LockMode, LockTag, WaitPolicy};
use kilndb_types::Datum;

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
