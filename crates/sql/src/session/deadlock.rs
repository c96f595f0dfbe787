//! What an error about a deadlock tells: who waits for whom.

use super::Session;
use kilndb_base::{Error, sqlstate};
use kilndb_context::lock_waits::{LockProcesses, lock_words, transaction_words};
use kilndb_storage::WaitLink;
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
        let processes = LockProcesses::of(self.context.cluster.sessions());
        let mut detail = String::new();
        for (waiting, xid) in cycle {
            let line_break = if detail.is_empty() { "" } else { "\n" };
            let _ = write!(
                detail,
                "{line_break}Process {} waits for {}; blocked by process {}.",
                processes.id_of(waiting.owner),
                waited_for(&waiting, xid),
                processes.id_of(waiting.blocker)
            );
        }
        if detail.is_empty() { e } else { e.with_detail(detail).with_hint("See server log for query details.") }
    }
}

fn waited_for(waiting: &WaitLink, xid: Option<u64>) -> String {
    match waiting.wanted {
        Some((tag, mode)) => lock_words(tag, mode),
        None => transaction_words(xid.unwrap_or(0)),
    }
}
