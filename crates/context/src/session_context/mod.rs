//! What the statements of a session work in: who is at work, settings, the transaction, the catalogs as it sees them.
//!
//! Invariants
//! 1. A statement runs between [`SessionContext::begin_statement`] and the end of its (implicit or explicit) transaction,
//!    which is the session's to end.
//!
//! Must not know: prepared statements, portals, messages, definitions, routines and their languages.

mod catalogs;
mod copy_on_write;
pub mod exported;
pub mod held;
mod identity;
pub mod modes;
pub mod notifications;
mod planning;
mod privileges;
pub mod settings;
mod transaction;

pub use catalogs::{CatalogState, missing_relation};
pub use copy_on_write::CopyOnWrite;
pub use identity::{Identity, Restriction, SuspendedRole};
pub use planning::{Explained, MeasuredPlan, PlanRequest, note_origin, plan_by};
pub use transaction::{Block, OnCommit, TransactionState};

use crate::client::Runtime;
use crate::cluster::Cluster;
use crate::host::{NamedStatements, POSTGRES_EPOCH_MICROS, Scratch, StatementShared};
use crate::settings::{LiveValue, SessionSettings, definition, show_value};
use held::HeldVariables;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Severity, sqlstate};
use kilndb_catalog::builtin::BOOTSTRAP_SUPERUSER;
use kilndb_catalog::cache::Database;
use kilndb_catalog::roles::Role;
use kilndb_catalog::temporary::TemporaryCatalog;
use std::rc::Rc;

/// See the module.
pub struct SessionContext {
    pub cluster: Arc<Cluster>,
    pub database: Arc<Database>,
    pub process_id: i32,
    pub worker: usize,
    pub identity: Identity,
    pub settings: CopyOnWrite<SessionSettings>,
    pub transaction: TransactionState,
    pub catalogs: CatalogState,
    /// What functions may look at, and change, while a statement runs.
    pub shared: Rc<StatementShared>,
    /// Routines that are running, one in the other.
    pub routine_depth: usize,
    /// Of the routine whose utility command is running.
    pub held_variables: Option<Rc<HeldVariables>>,
}

impl SessionContext {
    pub fn new(
        cluster: Arc<Cluster>,
        database: Arc<Database>,
        identity: Identity,
        settings: SessionSettings,
        named: Rc<dyn NamedStatements>,
        runtime: &dyn Runtime,
    ) -> SessionContext {
        let process_id = runtime.control().process_id;
        let now = cluster.env.unix_micros() - POSTGRES_EPOCH_MICROS;
        let shared = StatementShared {
            scratch: Scratch::with_random_seed(&*cluster.env),
            temporary: TemporaryCatalog::new(cluster.engine.clone(), database.global_users.clone(), process_id),
            temp_space: database.temp.of_session(),
            cluster: cluster.clone(),
            database: database.clone(),
            named,
            roles: Default::default(),
        };
        let transaction =
            TransactionState { transaction_timestamp: now, statement_timestamp: now, ..TransactionState::default() };
        SessionContext {
            cluster,
            database,
            process_id,
            worker: runtime.worker(),
            identity,
            settings: CopyOnWrite::new(settings),
            transaction,
            catalogs: CatalogState::default(),
            shared: Rc::new(shared),
            routine_depth: 0,
            held_variables: None,
        }
    }

    /// As SHOW prints it.
    pub fn shown(&self, name: &str) -> String {
        let definition = definition(name);
        let on_or_off = |on| if on { "on" } else { "off" }.to_string();
        match definition.and_then(|d| d.descriptor.live) {
            Some(LiveValue::SessionUser) => self.identity.session_user.to_string(),
            Some(LiveValue::IsSuperuser) => on_or_off(self.is_superuser()),
            Some(LiveValue::DataDirectory) => self.cluster.data_dir.display().to_string(),
            Some(LiveValue::Isolation) => self.isolation_name().to_string(),
            Some(LiveValue::ReadOnly) => on_or_off(self.is_read_only()),
            Some(LiveValue::Deferrable) => on_or_off(self.modes().deferrable),
            None => {
                let value = self.settings.get(name).unwrap_or("");
                definition.map_or(value.to_string(), |d| show_value(d, value))
            }
        }
    }

    /// What the session's temporary schema is called, whether it has one yet or not.
    pub fn temporary_schema_name(&self) -> String {
        format!("pg_temp_{}", self.process_id)
    }

    pub fn is_superuser(&self) -> bool {
        self.identity.current_role == BOOTSTRAP_SUPERUSER || self.has_attribute(|role| role.is_superuser)
    }

    /// Whether the role in force has an attribute, or is a superuser.
    pub fn has_attribute(&self, attribute: impl FnOnce(&Role) -> bool) -> bool {
        let Some(roles) = self.seen_roles() else { return false };
        roles.role(self.identity.current_role).is_some_and(|role| role.is_superuser || attribute(role))
    }

    /// Whether the role in force has all that an object's owner may do.
    pub fn owns(&self, owner: Oid) -> bool {
        let current = self.identity.current_role;
        self.seen_roles().is_some_and(|roles| roles.seen_from(self.database.oid).has_privileges_of(current, owner))
    }

    pub fn update_activity(&self, runtime: &dyn Runtime, change: impl FnOnce(&mut crate::client::Activity)) {
        change(&mut runtime.control().activity.lock().unwrap_or_else(|e| e.into_inner()));
    }

    pub fn now(&self) -> i64 {
        self.cluster.env.unix_micros() - POSTGRES_EPOCH_MICROS
    }

    pub fn notice(&self, severity: Severity, message: impl Into<String>) {
        let state = if severity == Severity::Warning { sqlstate::WARNING } else { sqlstate::SUCCESSFUL_COMPLETION };
        self.send_notice(Error::notice(state, severity, message));
    }
    /// A notice or warning with what else there is to say.
    pub fn send_notice(&self, notice: Error) {
        self.shared.scratch.notices.borrow_mut().push(notice);
    }

    pub fn wanted_severity(&self) -> Severity {
        match self.settings.get("client_min_messages") {
            Some("error") => Severity::Error,
            Some("warning") => Severity::Warning,
            Some(level) if level.starts_with("debug") => Severity::Debug,
            _ => Severity::Notice,
        }
    }

    /// The end of the session, whose transaction is over: nobody else knows of its temporary objects, and no statement
    /// runs that looks at them.
    pub fn close_temporary(&mut self) {
        if let Some(shared) = Rc::get_mut(&mut self.shared) {
            shared.temporary.close();
        }
    }

    /// The log is to have the text of some statements.
    pub fn tells_of_statements(&self) -> bool {
        self.settings.log.statements != crate::log::LoggedStatements::None || self.times_statement()
    }
    /// The log may have to be told how long the statement took.
    pub fn times_statement(&self) -> bool {
        self.settings.log.times_statements || self.transaction.is_sampled
    }
}
