//! The offline check of pg_depend: every definition is bound again, and what it needs compared with its stored rows.

use super::{Dependency, is_pinned};
use crate::Definitions;
use crate::client::Runtime;
use kilndb_base::hash::HashMap;
use kilndb_base::{Oid, Result};
use kilndb_catalog::ids::PG_DEPEND;
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

impl Definitions<'_> {
    /// What is wrong with the rows of any object, in words.
    pub fn compare_all_definitions(&mut self, runtime: &dyn Runtime) -> Result<Vec<String>> {
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
                let oids = match existing.entry(object.class) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => {
                        let rows = self.context_mut().catalog_scan(object.class)?;
                        unknown.insert(rows.iter().map(|row| row.oid("oid")).collect())
                    }
                };
                if !oids.contains(&object.object) {
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
