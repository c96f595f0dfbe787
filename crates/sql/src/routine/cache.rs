//! Routines as they are called: definitions with types settled, and what their languages have made of them.
//!
//! Invariants
//! 1. What is compiled is used for as long as the definition is the same, whatever else changes in the catalogs.
//! 2. What a transaction has changed itself and not committed is in its session's cache alone.

use super::built_in::BuiltIn;
use super::language::*;
use super::sql_language::SqlLanguage;
use crate::client::Runtime;
use crate::host::routine_definition::{RoutineKey, definition_of};
use crate::session::Session;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::temporary::is_temporary;
use kilndb_catalog::{CatalogView, FunctionInfo};
use kilndb_types::functions::is_routine;

#[derive(Clone)]
pub(crate) struct Compiled {
    pub definition: Arc<Definition>,
    pub info: Arc<FunctionInfo>,
    pub routine: Arc<dyn CompiledRoutine>,
    /// The state of the catalogs that it was looked at in.
    catalog_version: u64,
    own: u64,
    temporary: u64,
}

/// Of a session, and one that a database's sessions share.
#[derive(Default)]
pub(crate) struct RoutineCache(HashMap<RoutineKey, Compiled>);

#[derive(Default)]
pub struct SharedRoutines(Mutex<HashMap<RoutineKey, Compiled>>);

const ROUTINES_MAX: usize = 4096;

/// Those of each database that somebody has used since the start.
#[derive(Default)]
pub struct RoutinesByDatabase(Mutex<HashMap<Oid, Arc<SharedRoutines>>>);

impl RoutinesByDatabase {
    /// Those that the sessions of a database share.
    pub fn of(&self, database: Oid) -> Arc<SharedRoutines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(database).or_default().clone()
    }
    /// After DROP DATABASE or a renaming.
    pub fn forget(&self, database: Oid) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&database);
    }
}

impl SharedRoutines {
    fn get(&self, key: &RoutineKey) -> Option<Compiled> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
    fn put(&self, key: RoutineKey, compiled: Compiled) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= ROUTINES_MAX {
            all.clear();
        }
        all.insert(key, compiled);
    }
}

impl Session {
    pub(crate) fn language_of(&self, name: &str) -> Result<Arc<dyn ProceduralLanguage>> {
        if name == "sql" {
            return Ok(Arc::new(SqlLanguage));
        }
        let known = self.instance.language(name).cloned();
        known.ok_or_else(|| Error::unsupported(format!("language \"{name}\" is not supported")))
    }

    /// The routine, ready to be called.
    pub(crate) fn compiled(&mut self, key: &RoutineKey, runtime: &dyn Runtime) -> Result<Compiled> {
        let (catalog_version, own, temporary) = (
            self.context.database.version(),
            self.context.catalogs.own_changes,
            self.context.shared.temporary.generation(),
        );
        let known = self.routines.cache.0.get(key);
        if let Some(known) = known
            && (known.catalog_version, known.own, known.temporary) == (catalog_version, own, temporary)
            && self.context.database.is_current(catalog_version)
        {
            return Ok(known.clone());
        }
        let (definition, info) = self.context.with_catalog(runtime, |host| {
            let info = host.reader.function_by_oid(key.oid)?;
            let info = info.ok_or_else(|| {
                Error::new(sqlstate::UNDEFINED_FUNCTION, format!("function with OID {} does not exist", key.oid))
            })?;
            Ok((definition_of(host, &info, key, false)?, info))
        })?;
        // Of a temporary one the OID is the session's own.
        let is_shared = !self.context.catalogs.has_ddl && !is_temporary(key.oid);
        let shared = is_shared.then(|| self.instance.routines.of(self.context.database.oid));
        let known = shared.as_ref().and_then(|shared| shared.get(key));
        let mut same = None;
        for candidate in [self.routines.cache.0.get(key).cloned(), known].into_iter().flatten() {
            if *candidate.definition == definition && candidate.info.language == info.language {
                let is_current = self.within_clauses(&info, |session| {
                    let mut spi = super::Spi { session, runtime, read_only: false, atomic: true, snapshot: None };
                    candidate.routine.is_current(&mut spi)
                });
                if is_current? {
                    same = Some(candidate);
                    break;
                }
            }
        }
        let (definition, routine) = match same {
            Some(c) => (c.definition, c.routine),
            None => {
                let definition = Arc::new(definition);
                let language = if is_routine(key.oid) { Arc::new(BuiltIn) } else { self.language_of(&info.language)? };
                let routine = self.within_clauses(&info, |session| {
                    let mut spi = super::Spi { session, runtime, read_only: false, atomic: true, snapshot: None };
                    language.compile(&definition, &mut spi)
                })?;
                (definition, routine)
            }
        };
        let compiled = Compiled { definition, info, routine, catalog_version, own, temporary };
        if self.routines.cache.0.len() >= ROUTINES_MAX {
            self.routines.cache.0.clear();
        }
        self.routines.cache.0.insert(key.clone(), compiled.clone());
        if let Some(shared) = shared {
            shared.put(key.clone(), compiled.clone());
        }
        Ok(compiled)
    }
}
