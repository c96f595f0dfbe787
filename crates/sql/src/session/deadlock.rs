//! The words of a deadlock.

use super::Session;
use crate::client::Activity;
use crate::host::views;
use kilndb_base::{Error, sqlstate};
use kilndb_catalog::lock_class::{ADVISORY_PAIR_LOCK, RELATION_LOCK};
use kilndb_storage::{LockTag, WaitLink};
use std::fmt::Write;

impl Session {
    /// Adds what only the session knows: who waits for whom in a deadlock.
    pub fn explain_error(&self, e: Error) -> Error {
        if e.sqlstate() != sqlstate::DEADLOCK_DETECTED || e.0.detail.is_some() {
            return e;
        }
        self.context
            .cluster
            .statistics
            .database_of(self.context.worker, self.context.database.oid, |d| d.deadlocks += 1);
        let Some(txn) = &self.context.transaction.txn else { return e };
        let cycle = self.context.cluster.engine.take_deadlock(txn.lock_owner_id());
        let sessions = self.context.cluster.sessions().all();
        let process = |owner: u64| {
            let is_owner = |a: &Activity| a.lock_owner == Some(owner);
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

fn what(waiting: &WaitLink, xid: Option<u64>) -> String {
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
