//! Advisory locks.

use super::StatementHost;
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

pub fn call(host: &StatementHost<'_>, name: &str, args: &[Datum], env: &mut CallEnv<'_>) -> Result<Datum> {
    let mode = if name.ends_with("_shared") { LockMode::Share } else { LockMode::Exclusive };
    if name == "pg_advisory_unlock_all" {
        host.scratch.advisory.borrow_mut().take();
        return Ok(Datum::text(""));
    }
    if name.starts_with("pg_advisory_unlock") {
        return Ok(Datum::Bool(unlock(host, tag(host, args), mode)));
    }
    let attempt = name.starts_with("pg_try");
    let wait = if attempt { WaitPolicy::NoWait } else { WaitPolicy::Wait };
    let granted = if name.contains("_xact_") {
        env.txn.lock(tag(host, args), mode, wait, env.park)
    } else {
        lock_for_session(host, tag(host, args), mode, wait, env)
    };
    let granted = match granted {
        Err(e) if attempt && e.sqlstate() == sqlstate::LOCK_NOT_AVAILABLE => false,
        other => other?,
    };
    Ok(if attempt { Datum::Bool(granted) } else { Datum::text("") })
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
