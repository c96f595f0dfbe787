//! The offline check of pg_depend: every definition is bound again, and what it needs compared with its stored rows.

use super::{Dependency, is_pinned};
use crate::client::Runtime;
use crate::ddl::Definitions;
use kilndb_base::hash::HashMap;
use kilndb_base::{Oid, Result};
use kilndb_catalog::ids::PG_DEPEND;
use std::collections::BTreeSet;

impl Definitions<'_> {
    /// What is wrong with the rows of any object, in words.
    pub(crate) fn compare_all_definitions(&mut self, runtime: &dyn Runtime) -> Result<Vec<String>> {
        let mut problems: Vec<String> = self.orphaned_dependencies()?.into_iter().collect();
        for object in self.all_definitions()? {
            let compared = match self.compare_definition(object, runtime) {
                Ok(compared) => compared,
                Err(e) => {
                    problems.push(self.unbound(object, &e, runtime)?);
                    continue;
                }
            };
            let superfluous = compared.superfluous();
            let wrong = compared
                .missing()
                .into_iter()
                .map(|d| (d, "lacks"))
                .chain(superfluous.iter().map(|row| (Dependency::of_row(row), "should not have")));
            for (d, verb) in wrong {
                let (of, on) = (self.object_shown(d.dependent, runtime)?, self.object_shown(d.referenced, runtime)?);
                let kind = d.kind as char;
                problems.push(format!("pg_depend {verb} that {of} depends on {on} (deptype {kind})"));
            }
        }
        Ok(problems)
    }

    /// Rows of objects that do not exist.
    fn orphaned_dependencies(&mut self) -> Result<BTreeSet<String>> {
        let mut existing: HashMap<Oid, BTreeSet<Oid>> = HashMap::default();
        let mut problems = BTreeSet::new();
        for row in self.context_mut().catalog_scan(PG_DEPEND)? {
            let Dependency { dependent, referenced, .. } = Dependency::of_row(&row);
            for object in [dependent, referenced] {
                if is_pinned(object) {
                    continue;
                }
                if !existing.contains_key(&object.class) {
                    let oids =
                        self.context_mut().catalog_scan(object.class)?.iter().map(|row| row.oid("oid")).collect();
                    existing.insert(object.class, oids);
                }
                if !existing.get(&object.class).is_some_and(|oids| oids.contains(&object.object)) {
                    let (class, oid) = (object.class, object.object);
                    problems.insert(format!(
                        "pg_depend has a row with object {oid} of catalog {class}, which does not exist"
                    ));
                }
            }
        }
        Ok(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterOptions;
    use crate::instance::Instance;
    use crate::session::{Session, StartRuntime};
    use crate::settings::ServerSettings;
    use kilndb_base::env::OsEnv;
    use kilndb_base::{Result, Severity};
    use kilndb_syntax::Node;
    use std::sync::Arc;

    struct Folder(std::path::PathBuf);
    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn create_views(definitions: &mut Definitions<'_>, sql: &str, runtime: &StartRuntime) -> Result<()> {
        let script = kilndb_syntax::parse(sql)?;
        for statement in script.statements() {
            let Node::ViewStmt(view) = statement.node() else { panic!("not a view") };
            definitions.create_view(view, statement.source(), runtime)?;
        }
        definitions.settle_dependencies(runtime)
    }

    #[test]
    fn lost_added_and_orphaned_rows_are_told() {
        let folder = Folder(std::env::temp_dir().join(format!("kilndb-definitions-{}", std::process::id())));
        let options = ClusterOptions {
            env: Arc::new(OsEnv),
            data_dir: folder.0.clone(),
            workers: 1,
            log: Arc::new(|_: Severity, _: &str| {}),
            config: ServerSettings::default(),
            accept_lost_log: false,
            limits: Default::default(),
        };
        let instance = Instance::open(options, Vec::new()).unwrap();
        let runtime = StartRuntime::new();
        let database = instance.cluster.open_database("postgres").unwrap();
        let mut session = Session::of_server(instance.clone(), database, &runtime).unwrap();
        session.begin_block(&runtime).unwrap();
        let mut definitions = session.definitions("");
        create_views(&mut definitions, "create view a as select 1 as x; create view b as select x from a", &runtime)
            .unwrap();
        assert_eq!(definitions.compare_all_definitions(&runtime).unwrap(), Vec::<String>::new());

        let rows = definitions.context_mut().catalog_scan(PG_DEPEND).unwrap();
        let column = rows.iter().find(|row| Dependency::of_row(row).referenced.column == 1).unwrap();
        let lost = Dependency::of_row(column);
        let added = Dependency { referenced: lost.dependent, ..lost };
        let mut orphan = lost;
        orphan.dependent.object = 4_000_000_000;
        definitions
            .write_catalog(&runtime, |w| {
                w.delete(column)?;
                w.insert(PG_DEPEND, &added.values())?;
                w.insert(PG_DEPEND, &orphan.values())
            })
            .unwrap();
        definitions.changed.clear();
        definitions.context_mut().transaction.txn.as_mut().unwrap().next_command();
        let problems = definitions.compare_all_definitions(&runtime).unwrap();
        let expected = [
            "pg_depend has a row with object 4000000000 of catalog 2618, which does not exist",
            "pg_depend lacks that rule _RETURN on view b depends on column x of view a (deptype n)",
            "pg_depend should not have that rule _RETURN on view b depends on rule _RETURN on view b (deptype n)",
        ];
        assert_eq!(problems, expected);
        drop(definitions);
        session.close(&runtime);
        instance.cluster.shutdown().unwrap();
    }
}
