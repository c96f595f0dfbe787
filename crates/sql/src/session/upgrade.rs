//! What the server itself does with the definitions of a database: brings those of an earlier build up to date when it
//! starts, and checks all of them (`kilndb check`).

use super::Session;
use super::system_views::StartRuntime;
use crate::client::Runtime;
use crate::instance::Instance;
use kilndb_base::sync::Arc;
use kilndb_base::{Result, Severity};
use kilndb_catalog::bootstrap::note_catalog_version;
use kilndb_catalog::cache::Database;

/// Writes what pg_depend lacks for definitions of an earlier build. A definition that cannot be bound any more stays as
/// it is, and the log says so.
pub(crate) fn upgrade_catalog(instance: Arc<Instance>, database: Arc<Database>) -> Result<()> {
    let (name, oid) = (database.name.clone(), database.oid);
    instance.cluster.log(Severity::Log, &format!("noting what the definitions of database \"{name}\" depend on"));
    let runtime = StartRuntime::new();
    let mut session = Session::of_server(instance.clone(), database, &runtime)?;
    let done = upgrade_definitions(&mut session, oid, &runtime);
    session.close(&runtime);
    for problem in done? {
        instance.cluster.log(Severity::Warning, &format!("database \"{name}\": {problem}"));
    }
    Ok(())
}

fn upgrade_definitions(
    session: &mut Session,
    database: kilndb_base::Oid,
    runtime: &dyn Runtime,
) -> Result<Vec<String>> {
    session.begin_block(runtime)?;
    let problems = session.definitions("").settle_all_definitions(runtime)?;
    let engine = session.context.cluster.engine.clone();
    if let Some(txn) = &mut session.context.transaction.txn {
        note_catalog_version(&engine, txn, database)?;
    }
    session.commit(runtime)?;
    Ok(problems)
}

/// Definitions of a database whose stored dependencies are not those that binding them finds.
pub(crate) fn check_catalog(instance: Arc<Instance>, database: Arc<Database>) -> Result<Vec<String>> {
    let name = database.name.clone();
    let runtime = StartRuntime::new();
    let mut session = Session::of_server(instance, database, &runtime)?;
    let problems =
        session.begin_block(&runtime).and_then(|()| session.definitions("").compare_all_definitions(&runtime));
    session.close(&runtime);
    Ok(problems?.into_iter().map(|problem| format!("database \"{name}\": {problem}")).collect())
}
