//! What the server itself does with the definitions of a database: brings those of an earlier build up to date when it
//! starts, and checks all of them (`kilndb check`).

use super::Session;
use super::system_views::{StartRuntime, renew_views};
use crate::client::Runtime;
use crate::instance::Instance;
use kilndb_base::sync::Arc;
use kilndb_base::{Oid, Result, Severity};
use kilndb_catalog::bootstrap::{self, note_catalog_version};
use kilndb_catalog::cache::Database;
use kilndb_catalog::initial_grants;
use kilndb_catalog::store::CatalogWriter;
use kilndb_types::EvalContext;

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

fn upgrade_definitions(session: &mut Session, database: Oid, runtime: &dyn Runtime) -> Result<Vec<String>> {
    session.begin_block(runtime)?;
    add_missing(session, bootstrap::add_missing_procedures, runtime)?;
    add_missing(session, bootstrap::add_missing_collations, runtime)?;
    renew_views(session, runtime)?;
    add_missing_grants(session, runtime)?;
    let problems = session.definitions("").settle_all_definitions(runtime)?;
    let engine = session.context.cluster.engine.clone();
    if let Some(txn) = &mut session.context.transaction.txn {
        note_catalog_version(&engine, txn, database)?;
    }
    session.commit(runtime)?;
    Ok(problems)
}

/// Adds rows that an earlier build did not have.
fn add_missing(
    session: &mut Session,
    add: fn(&mut CatalogWriter<'_>, &EvalContext<'_>) -> Result<()>,
    runtime: &dyn Runtime,
) -> Result<()> {
    let environment = session.context.environment(runtime)?;
    let host = environment.host();
    let eval = host.eval();
    session.context.write_catalog(runtime, |writer| add(writer, &eval))?.0
}

/// Predefined roles, grants on the system's objects and rows of pg_shdepend that an earlier build did not write.
pub(super) fn add_missing_grants(session: &mut Session, runtime: &dyn Runtime) -> Result<()> {
    session.context.write_catalog(runtime, initial_grants::add_missing_roles)?.0?;
    session.context.write_catalog(runtime, initial_grants::add_missing_grants)?.0?;
    let settle = |writer: &mut CatalogWriter<'_>| initial_grants::add_missing_role_dependencies(writer, true);
    session.context.write_catalog(runtime, settle)?.0
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::temporary_instance::TemporaryInstance;
    use kilndb_catalog::catalog_row::CatalogRow;
    use kilndb_catalog::ids::*;
    use kilndb_catalog::privileges::PUBLIC_ROLE;
    use kilndb_syntax::Node;
    use kilndb_types::Datum;
    use kilndb_types::acl::AclItem;

    fn create_views(session: &mut Session, sql: &str, runtime: &StartRuntime) -> Result<()> {
        let script = kilndb_syntax::parse(sql)?;
        let mut definitions = session.definitions("CREATE VIEW");
        for statement in script.statements() {
            let Node::ViewStmt(view) = statement.node() else { panic!("not a view") };
            definitions.create_view(view, statement.source(), runtime)?;
        }
        definitions.settle_dependencies(runtime)
    }

    /// A row of pg_depend, by class, object and part of what depends and of what it depends on.
    fn dependency(row: &CatalogRow, [dependent, referenced]: [(Oid, Oid, i64); 2]) -> [(&'static str, Datum); 7] {
        [
            ("classid", Datum::Oid(dependent.0)),
            ("objid", Datum::Oid(dependent.1)),
            ("objsubid", Datum::Int4(dependent.2 as i32)),
            ("refclassid", Datum::Oid(referenced.0)),
            ("refobjid", Datum::Oid(referenced.1)),
            ("refobjsubid", Datum::Int4(referenced.2 as i32)),
            ("deptype", Datum::Char(row.char("deptype"))),
        ]
    }

    #[test]
    fn lost_added_and_orphaned_rows_are_told() {
        let temporary = TemporaryInstance::open("definitions");
        let instance = &temporary.instance;
        let runtime = StartRuntime::new();
        let database = instance.cluster.open_database("postgres").unwrap();
        let mut session = Session::of_server(instance.clone(), database, &runtime).unwrap();
        session.begin_block(&runtime).unwrap();
        create_views(&mut session, "create view a as select 1 as x; create view b as select x from a", &runtime)
            .unwrap();
        assert_eq!(session.definitions("").compare_all_definitions(&runtime).unwrap(), Vec::<String>::new());

        let rows = session.context.catalog_scan(PG_DEPEND).unwrap();
        let lost = rows.iter().find(|row| row.int("refobjsubid") == 1).unwrap();
        let dependent = (lost.oid("classid"), lost.oid("objid"), lost.int("objsubid"));
        let referenced = (lost.oid("refclassid"), lost.oid("refobjid"), lost.int("refobjsubid"));
        // What has changed so is not noted, as it would be by a command.
        session
            .definitions("")
            .write_catalog(&runtime, |w| {
                w.delete(lost)?;
                w.insert(PG_DEPEND, &dependency(lost, [dependent, dependent]))?;
                w.insert(PG_DEPEND, &dependency(lost, [(dependent.0, 4_000_000_000, dependent.2), referenced]))
            })
            .unwrap();
        session.context.transaction.txn.as_mut().unwrap().next_command();
        let problems = session.definitions("").compare_all_definitions(&runtime).unwrap();
        let expected = [
            "pg_depend has a row with object 4000000000 of catalog 2618, which does not exist",
            "pg_depend lacks that rule _RETURN on view b depends on column x of view a (deptype n)",
            "pg_depend should not have that rule _RETURN on view b depends on rule _RETURN on view b (deptype n)",
        ];
        assert_eq!(problems, expected);
        session.close(&runtime);
    }

    #[test]
    fn collations_of_later_builds_come_too() {
        const SWEDISH: &str = "sv-x-icu";
        let temporary = TemporaryInstance::open("collations");
        let instance = &temporary.instance;
        let runtime = StartRuntime::new();
        let database = instance.cluster.open_database("postgres").unwrap();
        let oid = database.oid;
        let mut session = Session::of_server(instance.clone(), database, &runtime).unwrap();
        session.begin_block(&runtime).unwrap();
        let all = |session: &mut Session| {
            let mut rows = session.context.catalog_scan(PG_COLLATION).unwrap();
            rows.sort_by_key(|row| row.oid("oid"));
            rows
        };
        let before = all(&mut session);
        let lost = before.iter().find(|row| row.text("collname") == Some(SWEDISH)).unwrap();
        session.definitions("").write_catalog(&runtime, |w| w.delete(lost)).unwrap();
        session.commit(&runtime).unwrap();
        upgrade_definitions(&mut session, oid, &runtime).unwrap();
        session.begin_block(&runtime).unwrap();
        let after = all(&mut session);
        assert_eq!(after.len(), before.len());
        assert!(after.iter().any(|row| row.text("collname") == Some(SWEDISH)));
        session.close(&runtime);
    }

    /// Files of the server are not everybody's in a cluster of a build that had no large objects.
    #[test]
    fn functions_of_later_builds_come_with_their_grants() {
        const LO_IMPORT: Oid = 764;
        let temporary = TemporaryInstance::open("procedures");
        let instance = &temporary.instance;
        let runtime = StartRuntime::new();
        let database = instance.cluster.open_database("postgres").unwrap();
        let oid = database.oid;
        let mut session = Session::of_server(instance.clone(), database, &runtime).unwrap();
        session.begin_block(&runtime).unwrap();
        let row_of = |session: &mut Session, key: Oid| {
            session.context.catalog_lookup(PG_PROC, PG_PROC_OID_INDEX, &[Datum::Oid(key)]).unwrap().pop()
        };
        let import = row_of(&mut session, LO_IMPORT).unwrap();
        let everybody = AclItem { grantee: PUBLIC_ROLE, grantor: 10, privileges: 1 << 7 };
        let defaults = [
            ("oid", Datum::Oid(70_000)),
            ("defaclrole", Datum::Oid(10)),
            ("defaclobjtype", Datum::Char(b'f')),
            ("defaclacl", kilndb_catalog::store::array(1033, vec![Datum::AclItem(everybody)])),
        ];
        let init = session.context.catalog_scan(PG_INIT_PRIVS).unwrap();
        let init = init.into_iter().find(|row| row.oid("objoid") == LO_IMPORT).unwrap();
        session
            .definitions("")
            .write_catalog(&runtime, |w| {
                w.insert(PG_DEFAULT_ACL, &defaults)?;
                w.delete(&init)?;
                w.delete(&import)
            })
            .unwrap();
        session.commit(&runtime).unwrap();
        upgrade_definitions(&mut session, oid, &runtime).unwrap();
        session.begin_block(&runtime).unwrap();
        let import = row_of(&mut session, LO_IMPORT).expect("the function is there again");
        let grants = import.grants("proacl").expect("it has grants");
        assert!(!grants.is_empty() && grants.iter().all(|item| item.grantee != PUBLIC_ROLE));
        session.close(&runtime);
    }
}
