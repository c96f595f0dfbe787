//! What a running statement may look up: catalogs, settings, clock, the session's own state; and the functions that
//! answer from these.
//!
//! Must not know: the session itself, definitions, prepared statements and portals (it asks [`NamedStatements`]).

mod advisory;
pub mod arguments;
mod definitions;
pub mod describe;
mod exported;
mod expression_text;
mod figures;
pub mod functions;
pub mod identifiers;
mod index_class;
mod inverted;
mod large_object;
mod notifications;
mod object_identity;
mod partition_text;
mod privileges;
pub mod routine_definition;
pub(crate) mod rule_files;
mod sequence;
mod sequence_functions;
pub mod session_function;
mod statistics;
mod statistics_objects;
mod subquery_text;
mod text_search;
mod trigger_text;
mod type_host;
pub mod views;

pub use index_class::default_class;
pub use large_object::Descriptors;
pub use notifications::{ListenRequest, Listening, ListeningMark, notify, queue_limit_bytes};
pub use sequence::{SequenceReserve, SequenceState};

use crate::client::Runtime;
use crate::cluster::Cluster;
use crate::exports::Exported;
use crate::privileges::SessionRoles;
use crate::settings::{PendingSettings, SessionSettings};
use kilndb_base::env::Env;
use kilndb_base::hash::HashMap;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::CatalogView;
use kilndb_catalog::cache::{CatalogReader, Database, ObjectCache, SchemaUser};
use kilndb_catalog::qualified_name::{other_database, split_qualified};
use kilndb_catalog::roles::Roles;
use kilndb_catalog::row_security::StatementRole;
use kilndb_catalog::temporary::TemporaryCatalog;
use kilndb_catalog::user_types;
use kilndb_exec::RowSink;
use kilndb_spill::TempSpace;
use kilndb_storage::Snapshot;
use kilndb_types::Datum;
use kilndb_types::EvalContext;
use kilndb_types::context::{ObjectNames, SessionEnvironment, TextSearchCatalog, TypeCatalog, UUID_CLOCK_STEP_NANOS};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Microseconds from 1970 to 2000.
pub const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// What functions may change while a statement runs.
#[derive(Default)]
pub struct Scratch {
    pub notices: RefCell<Vec<Error>>,
    /// As a routine has left them; statements go on with those that they began with, but `current_setting` tells these.
    pub latest_settings: RefCell<Option<Rc<SessionSettings>>>,
    /// Last value per sequence, and the sequence used last.
    pub currval: RefCell<HashMap<Oid, i64>>,
    pub last_sequence: Cell<Option<Oid>>,
    pub sequence_cache: RefCell<HashMap<Oid, SequenceReserve>>,
    /// set_config() calls of the statement: name, value, local.
    pub set_config: RefCell<PendingSettings>,
    pub random_state: Cell<[u64; 2]>,
    /// The last time that a UUID was made of.
    last_uuid_nanos: Cell<i64>,
    /// Advisory locks of the session; none if it holds none.
    pub advisory: RefCell<Option<kilndb_storage::LockOwner>>,
    pub listening: RefCell<Listening>,
    /// Trigger functions that are running, one in the other.
    pub trigger_depth: Cell<i32>,
    /// Snapshots that the transaction has exported.
    pub exported: RefCell<Vec<Arc<Exported>>>,
    /// Large objects that the transaction has open.
    pub large_objects: RefCell<Descriptors>,
}

impl Scratch {
    /// With random numbers of its own.
    pub(crate) fn with_random_seed(env: &dyn Env) -> Scratch {
        let mut seed = [0; 16];
        env.random_bytes(&mut seed);
        let scratch = Scratch::default();
        let (low, high) = seed.split_at(8);
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().unwrap_or([1; 8]));
        scratch.random_state.set([word(low), word(high)]);
        scratch
    }

    /// What has values computed only to guess with them: what they say is said when the statement runs.
    pub fn without_notices<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.notices.borrow().len();
        let result = f();
        self.notices.borrow_mut().truncate(before);
        result
    }
}

/// The prepared statements and cursors of the session, as functions and views ask for them.
pub trait NamedStatements {
    /// Rows of pg_prepared_statement().
    fn prepared_rows(&self) -> Vec<Vec<Datum>>;
    /// Rows of kiln_stat_plans().
    fn plan_rows(&self) -> Vec<Vec<Datum>>;
    /// Rows of pg_cursor().
    fn cursor_rows(&self) -> Vec<Vec<Datum>>;
    /// Where the row is that a cursor stands on: its name, the table that the statement names, the table that the row
    /// must be of. NULL: it is of another partition.
    fn current_place(&self, host: &StatementHost<'_>, arguments: &[Datum]) -> Result<Datum>;
}

/// What a running statement looks at besides its session, which functions that it calls may change meanwhile.
pub struct StatementShared {
    pub cluster: Arc<Cluster>,
    pub database: Arc<Database>,
    pub scratch: Scratch,
    /// Where the session's statements put what does not fit in memory.
    pub temp_space: TempSpace,
    /// The session's temporary objects.
    pub temporary: TemporaryCatalog,
    pub named: Rc<dyn NamedStatements>,
    /// The roles as the session sees them.
    pub roles: SessionRoles,
}

/// A statement's surroundings, made once per statement. It borrows nothing of the session, which belongs to the
/// functions that the statement calls.
pub struct Environment<'a> {
    pub shared: Rc<StatementShared>,
    pub settings: Rc<SessionSettings>,
    pub session_user: Rc<str>,
    pub role_name: Rc<str>,
    pub user: Option<SchemaUser>,
    pub facts: Facts,
    pub runtime: &'a dyn Runtime,
    pub cache: Arc<ObjectCache>,
    pub snapshot: Snapshot,
    pub path: Arc<[Oid]>,
    pub creation_schema: Option<Arc<str>>,
}

/// Facts about the session that functions tell.
#[derive(Clone, Copy)]
pub struct Facts {
    pub current_role: Oid,
    pub process_id: i32,
    pub is_superuser: bool,
    /// A command does something for the owner of a table.
    pub is_restricted: bool,
    pub read_only: bool,
    pub deferrable: bool,
    pub in_savepoint: bool,
    pub isolation: &'static str,
    pub transaction_timestamp: i64,
    pub statement_timestamp: i64,
}

/// Answers value code's, the executor's and functions' questions during one statement.
pub struct StatementHost<'s> {
    pub reader: CatalogReader<'s>,
    pub runtime: &'s dyn Runtime,
    pub cluster: &'s Arc<Cluster>,
    pub settings: &'s SessionSettings,
    pub scratch: &'s Scratch,
    pub session_user: &'s str,
    pub role_name: &'s str,
    pub facts: Facts,
    pub named: &'s dyn NamedStatements,
    pub session_roles: &'s SessionRoles,
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
    /// The roles as the statement's transaction sees them.
    pub fn roles(&self) -> Result<Arc<Roles>> {
        Ok(self.session_roles.get(self.cluster, || Ok(self.reader.snapshot.clone()))?.1)
    }
    /// Whether the role in force has all that another one may do.
    pub fn has_privileges_of(&self, role: Oid) -> Result<bool> {
        let roles = self.roles()?;
        Ok(roles.seen_from(self.database().oid).has_privileges_of(self.facts.current_role, role))
    }
    pub fn eval<'e>(&'e self) -> EvalContext<'e> {
        EvalContext {
            format: &self.settings.format,
            transaction_timestamp: self.facts.transaction_timestamp,
            statement_timestamp: self.facts.statement_timestamp,
            host: self,
            random_state: &self.scratch.random_state,
            clock_was_read: None,
        }
    }
}

impl StatementRole for Environment<'_> {
    fn oid(&self) -> Oid {
        self.facts.current_role
    }
    fn roles(&self) -> Result<(u64, Arc<Roles>)> {
        self.shared.roles.get(&self.shared.cluster, || Ok(self.snapshot.clone()))
    }
    fn applies_row_security(&self) -> bool {
        self.settings.row_security
    }
}

impl Environment<'_> {
    pub fn host(&self) -> StatementHost<'_> {
        StatementHost {
            reader: CatalogReader {
                database: &self.shared.database,
                snapshot: &self.snapshot,
                cache: &self.cache,
                search_path: &self.path,
                creation_schema: self.creation_schema.as_deref(),
                temporary: &self.shared.temporary,
                asked: None,
                former: None,
                switches: self.settings.switches,
                user: self.user.as_ref(),
                role: Some(self),
            },
            runtime: self.runtime,
            cluster: &self.shared.cluster,
            settings: &self.settings,
            scratch: &self.shared.scratch,
            session_user: &self.session_user,
            role_name: &self.role_name,
            facts: self.facts,
            named: &*self.shared.named,
            session_roles: &self.shared.roles,
            domains: RefCell::default(),
        }
    }
}

impl ObjectNames for StatementHost<'_> {
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
        functions::reg_lookup(self, kind, text)
    }
    fn reg_output(&self, kind: Oid, oid: Oid) -> String {
        if oid == 0 {
            return "-".to_string();
        }
        functions::reg_name(self, kind, oid).unwrap_or_else(|| oid.to_string())
    }
}

impl TypeCatalog for StatementHost<'_> {
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
    fn check_domain(&self, oid: Oid, value: &Datum) -> Result<()> {
        self.check_value(oid, value)
    }
    fn enum_value(&self, oid: Oid, label: &str) -> Option<Result<Datum>> {
        user_types::enum_value(&self.reader, oid, label)
    }
    fn enum_label(&self, oid: Oid, value: u64) -> Option<String> {
        user_types::enum_label(&self.reader, oid, value)
    }
}

impl TextSearchCatalog for StatementHost<'_> {
    fn text_search_config(&self, oid: Oid) -> Result<Arc<kilndb_fulltext::Config>> {
        self.reader.text_search_config(oid)
    }
    fn default_text_search_config(&self) -> Result<Oid> {
        let name = self.settings.get("default_text_search_config").unwrap_or("");
        functions::reg_lookup(self, kilndb_types::oids::REGCONFIG, name)
    }
    fn text_search_dictionary(&self, oid: Oid) -> Result<Arc<kilndb_fulltext::Dictionary>> {
        self.reader.text_search_dictionary(oid)
    }
}

impl SessionEnvironment for StatementHost<'_> {
    fn clock_unix_micros(&self) -> i64 {
        self.cluster.env.unix_micros()
    }
    fn ascending_unix_nanos(&self) -> i64 {
        let now = self.cluster.env.unix_micros().saturating_mul(1000);
        let nanos = now.max(self.scratch.last_uuid_nanos.get() + UUID_CLOCK_STEP_NANOS);
        self.scratch.last_uuid_nanos.set(nanos);
        nanos
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        self.cluster.env.random_bytes(buf);
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

/// A sink for statements whose rows nobody wants.
pub struct NullSink;
impl RowSink for NullSink {
    fn row(&mut self, _values: &[Datum]) -> Result<()> {
        Ok(())
    }
}

/// Keeps the rows.
#[derive(Default)]
pub struct RowsSink {
    pub rows: Vec<Vec<Datum>>,
}
impl RowSink for RowsSink {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.rows.push(values.to_vec());
        Ok(())
    }
}
