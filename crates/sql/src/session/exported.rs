//! Snapshots that other transactions may read with: pg_export_snapshot and SET TRANSACTION SNAPSHOT.
//!
//! Invariants
//! 1. A snapshot can be taken over while the transaction lives that has exported it, and holds then for whoever has
//!    taken it over.
//! 2. Of the exporter's own changes nobody else sees any.

use super::Session;
use super::environment::StatementHost;
use super::functions::session_functions;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_exec::CallEnv;
use kilndb_storage::{Isolation, Snapshot};
use kilndb_types::Datum;

pub(crate) struct Exported {
    snapshot: Snapshot,
    database: Oid,
    is_serializable: bool,
}

/// All that are exported, by name.
#[derive(Default)]
pub(crate) struct Exports {
    list: Mutex<(u64, HashMap<String, Weak<Exported>>)>,
}

impl Exports {
    fn locked(&self) -> MutexGuard<'_, (u64, HashMap<String, Weak<Exported>>)> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names look as PostgreSQL's do: process, a number, a number.
    fn add(&self, process_id: i32, exported: &Arc<Exported>) -> String {
        let mut list = self.locked();
        list.1.retain(|_, known| known.strong_count() > 0);
        list.0 += 1;
        let name = format!("{process_id:08X}-{:08X}-1", list.0);
        list.1.insert(name.clone(), Arc::downgrade(exported));
        name
    }

    fn find(&self, name: &str) -> Option<Arc<Exported>> {
        self.locked().1.get(name)?.upgrade()
    }
}

session_functions! {
    fn pg_export_snapshot(call) = export(call.host, call.env);
}

/// pg_export_snapshot().
fn export(host: &StatementHost<'_>, env: &CallEnv<'_>) -> Result<Datum> {
    if host.facts.in_savepoint {
        return Err(Error::new(sqlstate::ACTIVE_SQL_TRANSACTION, "cannot export a snapshot from a subtransaction"));
    }
    let is_serializable = env.txn.isolation() == Isolation::Serializable;
    let exported = Arc::new(Exported {
        snapshot: env.snapshot.clone().untracked(),
        database: host.database().oid,
        is_serializable,
    });
    let name = host.instance.exports.add(host.facts.process_id, &exported);
    host.scratch.exported.borrow_mut().push(exported);
    Ok(Datum::text(name))
}

impl Session {
    /// SET TRANSACTION SNAPSHOT.
    pub(super) fn import_snapshot(&mut self, name: &str) -> Result<()> {
        let too_late =
            || Error::new(sqlstate::ACTIVE_SQL_TRANSACTION, "SET TRANSACTION SNAPSHOT must be called before any query");
        let in_savepoint = !self.savepoints.is_empty();
        let database = self.database.oid;
        let txn = self.txn.as_mut().ok_or_else(|| Error::internal("no transaction to set the snapshot of"))?;
        if txn.has_snapshot() || txn.xid().is_some() || in_savepoint {
            return Err(too_late());
        }
        if txn.isolation() == Isolation::ReadCommitted {
            return Err(Error::unsupported(
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ",
            ));
        }
        if !name.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'A'..=b'F' | b'-')) {
            return Err(Error::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("invalid snapshot identifier: \"{name}\""),
            ));
        }
        let missing = || Error::new(sqlstate::UNDEFINED_OBJECT, format!("snapshot \"{name}\" does not exist"));
        let exported = self.own.instance.exports.find(name).ok_or_else(missing)?;
        if txn.isolation() == Isolation::Serializable {
            return Err(Error::unsupported(match exported.is_serializable {
                true => "importing a snapshot into a serializable transaction is not supported",
                false => "a serializable transaction cannot import a snapshot from a non-serializable transaction",
            }));
        }
        if exported.database != database {
            return Err(Error::unsupported("cannot import a snapshot from a different database"));
        }
        if txn.adopt_snapshot(&exported.snapshot) { Ok(()) } else { Err(too_late()) }
    }
}
