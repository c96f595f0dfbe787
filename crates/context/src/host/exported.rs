//! pg_export_snapshot.

use super::StatementHost;
use super::session_function::session_functions;
use crate::exports::Exported;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_exec::CallEnv;
use kilndb_storage::Isolation;
use kilndb_types::Datum;

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
    let name = host.cluster.exports.add(host.facts.process_id, &exported);
    host.scratch.exported.borrow_mut().push(exported);
    Ok(Datum::text(name))
}
