//! Routines as they are called: definitions with types settled, and what their languages have made of them.
//!
//! Invariants
//! 1. What is compiled is used for as long as the definition is the same, whatever else changes in the catalogs.
//! 2. What a transaction has changed itself and not committed is in its session's cache alone.

use super::built_in::BuiltIn;
use super::language::*;
use super::sql_language::SqlLanguage;
use super::types::row_of_type;
use crate::client::Runtime;
use crate::session::Session;
use crate::session::environment::StatementHost;
use kilndb_base::hash::HashMap;
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::Binder;
use kilndb_catalog::routine::declared_arguments;
use kilndb_catalog::temporary::is_temporary;
use kilndb_catalog::{CatalogView, FunctionInfo};
use kilndb_types::functions::is_routine;
use kilndb_types::oids;

/// One way of calling a routine.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RoutineKey {
    pub oid: Oid,
    /// Types of the input arguments and of the result; empty unless some are polymorphic.
    pub types: Vec<Oid>,
    /// Of a trigger function.
    pub table: Oid,
    /// Of a trigger function, if its trigger names tables of changed rows.
    pub trigger: Oid,
}

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

/// `f(integer,text)`.
pub(crate) fn signature_of(host: &StatementHost<'_>, info: &FunctionInfo) -> Result<String> {
    let quote = kilndb_catalog::format_type::quote_identifier;
    let types: Vec<String> =
        info.arg_types.iter().map(|t| kilndb_catalog::format_type::format_type(&host.reader, *t, None)).collect();
    let visible = host
        .reader
        .functions(None, &info.name)?
        .iter()
        .find(|f| f.arg_types == info.arg_types)
        .is_some_and(|f| f.oid == info.oid);
    let schema = if visible {
        String::new()
    } else {
        format!("{}.", quote(&host.reader.schema_name(info.schema_oid)?.unwrap_or_default()))
    };
    Ok(format!("{schema}{}({})", quote(&info.name), types.join(",")))
}

/// The definition for a call with these types: of the input arguments, then of the result.
pub(crate) fn definition_of(
    host: &StatementHost<'_>,
    info: &FunctionInfo,
    key: &RoutineKey,
    is_validation: bool,
) -> Result<Definition> {
    let mut arguments = declared_arguments(info);
    let mut result_type = info.return_type;
    if let Some((result, inputs)) = key.types.split_last() {
        let outputs = Binder::new(&host.reader, Arc::from(""), Vec::new()).settle_polymorphic(&arguments, inputs)?;
        for (argument, settled) in arguments.iter_mut().zip(outputs) {
            argument.type_oid = settled;
        }
        result_type = *result;
    }
    let kind = match (info.kind, info.return_type) {
        (b'p', _) => RoutineKind::Procedure,
        (_, oids::TRIGGER) => RoutineKind::Trigger,
        (_, oids::EVENT_TRIGGER) => RoutineKind::EventTrigger,
        _ => RoutineKind::Function,
    };
    if info.kind == b'p' && result_type == oids::VOID && arguments.iter().any(|a| a.mode.is_output()) {
        result_type = oids::RECORD;
    }
    let outputs: Vec<RowColumn> = arguments
        .iter()
        .filter(|a| a.mode.is_output())
        .enumerate()
        .map(|(i, a)| RowColumn {
            name: if a.name.is_empty() { format!("column{}", i + 1) } else { a.name.clone() },
            type_oid: a.type_oid,
            typmod: -1,
        })
        .collect();
    let row = if result_type == oids::RECORD && !outputs.is_empty() {
        Some(Arc::new(RowShape { type_oid: oids::RECORD, columns: outputs }))
    } else {
        row_of_type(&host.reader, result_type)?
    };
    let trigger_table = match host.reader.table_by_oid(key.table)? {
        Some(table) if key.table != 0 => Some(TriggerTable { oid: table.oid, row: super::types::row_of_table(&table) }),
        _ => None,
    };
    Ok(Definition {
        oid: info.oid,
        schema: host.reader.schema_name(info.schema_oid)?.unwrap_or_default(),
        name: info.name.clone(),
        signature: signature_of(host, info)?,
        kind,
        arguments,
        result_type,
        returns_set: info.returns_set,
        row,
        body: Arc::from(info.source.as_str()),
        volatility: match info.volatility {
            b'i' => Volatility::Immutable,
            b's' => Volatility::Stable,
            _ => Volatility::Volatile,
        },
        trigger_table,
        is_validation,
    })
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
        let (catalog_version, own, temporary) =
            (self.database.version(), self.own_changes, self.own.temporary.generation());
        let known = self.routines.0.get(key);
        if let Some(known) = known
            && (known.catalog_version, known.own, known.temporary) == (catalog_version, own, temporary)
            && self.database.is_current(catalog_version)
        {
            return Ok(known.clone());
        }
        let (definition, info) = self.with_catalog(runtime, |host| {
            let info = host.reader.function_by_oid(key.oid)?;
            let info = info.ok_or_else(|| {
                Error::new(sqlstate::UNDEFINED_FUNCTION, format!("function with OID {} does not exist", key.oid))
            })?;
            Ok((definition_of(host, &info, key, false)?, info))
        })?;
        // Of a temporary one the OID is the session's own.
        let is_shared = !self.has_ddl && !is_temporary(key.oid);
        let shared = is_shared.then(|| self.instance.routines.of(self.database.oid));
        let known = shared.as_ref().and_then(|shared| shared.get(key));
        let mut same = None;
        for candidate in [self.routines.0.get(key).cloned(), known].into_iter().flatten() {
            if *candidate.definition == definition && candidate.info.language == info.language {
                let mut spi = super::Spi { session: self, runtime, read_only: false, atomic: true, snapshot: None };
                if candidate.routine.is_current(&mut spi)? {
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
                let mut spi = super::Spi { session: self, runtime, read_only: false, atomic: true, snapshot: None };
                let routine = language.compile(&definition, &mut spi)?;
                (definition, routine)
            }
        };
        let compiled = Compiled { definition, info, routine, catalog_version, own, temporary };
        if self.routines.0.len() >= ROUTINES_MAX {
            self.routines.0.clear();
        }
        self.routines.0.insert(key.clone(), compiled.clone());
        if let Some(shared) = shared {
            shared.put(key.clone(), compiled.clone());
        }
        Ok(compiled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_calling_a_routine_is_its_own() {
        let key = RoutineKey { oid: 1, types: Vec::new(), table: 2, trigger: 3 };
        assert_eq!(key, key.clone());
        for other in [
            RoutineKey { oid: 9, ..key.clone() },
            RoutineKey { types: vec![23], ..key.clone() },
            RoutineKey { table: 9, ..key.clone() },
            RoutineKey { trigger: 9, ..key.clone() },
        ] {
            assert_ne!(key, other);
        }
        let of_integers = RoutineKey { types: vec![23], ..key };
        assert_ne!(of_integers, RoutineKey { types: vec![25], ..of_integers.clone() });
    }
}
