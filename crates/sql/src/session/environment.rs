//! What a running statement may look up: catalogs, settings, clock, the session's own state.

use super::{Own, Scratch, Session};
use crate::client::Runtime;
use crate::instance::Instance;
use crate::settings::SessionSettings;
use kilndb_base::hash::HashMap;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::CatalogView;
use kilndb_catalog::builtin::BOOTSTRAP_SUPERUSER;
use kilndb_catalog::cache::{CatalogReader, Database, ObjectCache};
use kilndb_catalog::qualified_name::{other_database, split_qualified};
use kilndb_catalog::user_types;
use kilndb_storage::Snapshot;
use kilndb_types::EvalContext;
use kilndb_types::context::{Host, NoHost, is_self_contained};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A statement's surroundings, made once per statement. It borrows nothing of the session, which belongs to the
/// functions that the statement calls.
pub(crate) struct Environment<'a> {
    pub own: Rc<Own>,
    pub settings: Rc<SessionSettings>,
    session_user: Rc<str>,
    role_name: Rc<str>,
    facts: Facts,
    pub runtime: &'a dyn Runtime,
    pub cache: Arc<ObjectCache>,
    pub snapshot: Snapshot,
    pub path: Arc<[Oid]>,
    pub creation_schema: Option<Arc<str>>,
}

/// Facts about the session that functions tell.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    pub current_role: Oid,
    pub process_id: i32,
    pub is_superuser: bool,
    pub read_only: bool,
    pub deferrable: bool,
    pub in_savepoint: bool,
    pub is_rewriting: bool,
    pub isolation: &'static str,
    pub transaction_timestamp: i64,
    pub statement_timestamp: i64,
}

/// Answers value code's, the executor's and functions' questions during one statement.
pub(crate) struct StatementHost<'s> {
    pub reader: CatalogReader<'s>,
    pub runtime: &'s dyn Runtime,
    pub instance: &'s Arc<Instance>,
    pub settings: &'s SessionSettings,
    pub scratch: &'s Scratch,
    pub session_user: &'s str,
    pub role_name: &'s str,
    pub facts: Facts,
    pub prepared: &'s super::named::PreparedByName,
    pub portals: &'s super::portal::Portals,
    /// What values of domains are checked with.
    pub domains: RefCell<HashMap<Oid, Option<Arc<kilndb_plan::Plan>>>>,
}

impl<'s> StatementHost<'s> {
    pub fn database(&self) -> &'s Database {
        self.reader.database
    }
    /// The same with another search path.
    pub fn with_path<'p>(&'p self, path: &'p [Oid]) -> StatementHost<'p> {
        let reader = CatalogReader { search_path: path, creation_schema: None, ..self.reader };
        StatementHost { reader, domains: RefCell::default(), ..*self }
    }
    pub fn eval<'e>(&'e self) -> EvalContext<'e> {
        EvalContext {
            format: &self.settings.format,
            transaction_timestamp: self.facts.transaction_timestamp,
            statement_timestamp: self.facts.statement_timestamp,
            host: self,
            random_state: &self.scratch.random_state,
        }
    }
}

impl Environment<'_> {
    pub fn host(&self) -> StatementHost<'_> {
        StatementHost {
            reader: CatalogReader {
                database: &self.own.database,
                snapshot: &self.snapshot,
                cache: &self.cache,
                search_path: &self.path,
                creation_schema: self.creation_schema.as_deref(),
                temporary: &self.own.temporary,
                asked: None,
                switches: self.settings.switches,
                is_rewriting: self.facts.is_rewriting,
            },
            runtime: self.runtime,
            instance: &self.own.instance,
            settings: &self.settings,
            scratch: &self.own.scratch,
            session_user: &self.session_user,
            role_name: &self.role_name,
            facts: self.facts,
            prepared: &self.own.prepared,
            portals: &self.own.portals,
            domains: RefCell::default(),
        }
    }
}

impl Session {
    pub(super) fn environment_of<'a>(
        &self,
        runtime: &'a dyn Runtime,
        cache: Arc<ObjectCache>,
        snapshot: Snapshot,
        path: Arc<[Oid]>,
    ) -> Environment<'a> {
        Environment {
            own: self.own.clone(),
            settings: self.settings.held(),
            session_user: self.session_user.clone(),
            role_name: self.role_name.clone(),
            facts: Facts {
                current_role: self.current_role,
                process_id: self.process_id,
                is_superuser: self.current_role == BOOTSTRAP_SUPERUSER,
                read_only: self.is_read_only(),
                deferrable: self.modes().deferrable,
                in_savepoint: !self.savepoints.is_empty(),
                is_rewriting: self.is_rewriting,
                isolation: self.isolation_name(),
                transaction_timestamp: self.transaction_timestamp,
                statement_timestamp: self.statement_timestamp,
            },
            runtime,
            cache,
            snapshot,
            path,
            creation_schema: self.path.3.clone(),
        }
    }

    /// Calls `read` with what reading values of `types` needs: the catalogs only if one of them needs them.
    pub(crate) fn with_value_context<R>(
        &mut self,
        mut types: impl Iterator<Item = Oid>,
        runtime: &dyn Runtime,
        read: impl FnOnce(&EvalContext<'_>) -> Result<R>,
    ) -> Result<R> {
        if types.all(is_self_contained) {
            return read(&EvalContext {
                format: &self.settings.format,
                transaction_timestamp: self.transaction_timestamp,
                statement_timestamp: self.statement_timestamp,
                host: &NoHost,
                random_state: &self.own.scratch.random_state,
            });
        }
        let environment = self.environment(runtime)?;
        let host = environment.host();
        read(&host.eval())
    }
}

impl Host for StatementHost<'_> {
    fn format_type(&self, oid: Oid, typmod: i32) -> String {
        self.reader.format_type(oid, typmod)
    }
    fn reg_input(&self, kind: Oid, text: &str) -> Result<Oid> {
        if text == "-" {
            return Ok(0);
        }
        if let Ok(oid) = text.trim().parse::<u32>() {
            return Ok(oid);
        }
        super::host::reg_lookup(self, kind, text)
    }
    fn reg_output(&self, kind: Oid, oid: Oid) -> String {
        if oid == 0 {
            return "-".to_string();
        }
        super::host::reg_name(self, kind, oid).unwrap_or_else(|| oid.to_string())
    }
    fn element_type(&self, oid: Oid) -> Oid {
        self.reader.type_by_oid(oid).ok().flatten().map_or(0, |t| t.element)
    }
    fn array_type(&self, oid: Oid) -> Oid {
        self.reader.type_by_oid(oid).ok().flatten().map_or(0, |t| t.array)
    }
    fn composite_fields(&self, oid: Oid) -> Option<Vec<(String, Oid, i32)>> {
        let info = self.reader.type_by_oid(oid).ok()??;
        if info.table_oid == 0 {
            return None;
        }
        let table = self.reader.table_by_oid(info.table_oid).ok()??;
        Some(table.columns.iter().filter(|c| !c.dropped).map(|c| (c.name.clone(), c.type_oid, c.typmod)).collect())
    }
    fn range_type(&self, oid: Oid) -> Option<kilndb_types::range::RangeType> {
        self.reader.type_by_oid(oid).ok().flatten().and_then(|t| t.range)
    }
    fn under_domain(&self, oid: Oid) -> Option<(Oid, i32)> {
        user_types::under_domain(&self.reader, oid)
    }
    fn check_domain(&self, oid: Oid, value: &kilndb_types::Datum) -> Result<()> {
        self.check_value(oid, value)
    }
    fn enum_value(&self, oid: Oid, label: &str) -> Option<Result<kilndb_types::Datum>> {
        user_types::enum_value(&self.reader, oid, label)
    }
    fn enum_label(&self, oid: Oid, value: u64) -> Option<String> {
        user_types::enum_label(&self.reader, oid, value)
    }
    fn text_search_config(&self, oid: Oid) -> Result<Arc<kilndb_fulltext::Config>> {
        self.reader.text_search_config(oid)
    }
    fn default_text_search_config(&self) -> Result<Oid> {
        let name = self.settings.get("default_text_search_config").unwrap_or("");
        super::host::reg_lookup(self, kilndb_types::oids::REGCONFIG, name)
    }
    fn text_search_dictionary(&self, oid: Oid) -> Result<Arc<kilndb_fulltext::Dictionary>> {
        self.reader.text_search_dictionary(oid)
    }
    fn clock_unix_micros(&self) -> i64 {
        self.instance.env.unix_micros()
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        self.instance.env.random_bytes(buf);
    }
    fn notice(&self, notice: Error) {
        self.scratch.notices.borrow_mut().push(notice);
    }
}

/// A relation by the text of a regclass.
pub(crate) fn relation_by_text(host: &StatementHost<'_>, text: &str) -> Result<Oid> {
    let parts = split_qualified(text).ok_or_else(|| Error::new(sqlstate::INVALID_NAME, "invalid name syntax"))?;
    let (schema, name) = match parts.as_slice() {
        [name] => (None, name),
        [schema, name] => (Some(schema.as_str()), name),
        [database, schema, name] if *database == host.database().name => (Some(schema.as_str()), name),
        [_, _, _] => return Err(other_database(&format!("\"{}\"", parts.join(".")))),
        _ => {
            return Err(Error::new(
                sqlstate::SYNTAX_ERROR,
                format!("improper relation name (too many dotted names): {text}"),
            ));
        }
    };
    if let Some(schema) = schema
        && host.reader.schema_oid(schema)?.is_none()
    {
        return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
    }
    let shown = parts.join(".");
    host.reader
        .find_relation(schema, name)?
        .ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist")))
}
