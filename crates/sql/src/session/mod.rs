//! A session: transaction state, prepared statements, portals, and the way from a message to a result.
//!
//! Invariants
//! 1. A statement runs between [`Session::begin_statement`] and the end of its (implicit or explicit) transaction;
//!    whatever fails goes through [`Session::abort_statement`].
//! 2. A client is told of a commit only after `Engine::wait_flushed`, unless synchronous_commit is off.
//! 3. Plans are shared and read-only; what an execution changes belongs to the session.

mod call_command;
pub(crate) mod command;
mod constraints;
mod cursor;
mod deadlock;
mod definitions;
mod extended;
mod function_call;
mod kept_rows;
mod lock_command;
mod logging;
mod named;
mod notifications;
pub(crate) mod plan_choice;
mod portal;
mod prepared;
mod reported;
pub(crate) mod run;
mod simple;
mod slow;
mod statements;
pub(crate) mod system_views;
mod template;
#[cfg(test)]
pub(crate) mod temporary_instance;
mod transaction;
mod upgrade;
pub(crate) mod utility;
mod utility_rows;

pub(crate) use command::{is_plannable, tag_of};
pub(crate) use cursor::NewCursor;
pub use extended::BindRequest;
pub use function_call::FunctionCallRequest;
pub(crate) use prepared::{CacheKey, StatementCache};
use statements::ClientStatements;
pub(crate) use system_views::create_system_views;
pub(crate) use template::{Body, Template, TemplateCache, TemplatePlan, lifted_values, literal_arguments, look_up};
pub(crate) use upgrade::{check_catalog, upgrade_catalog};

use crate::client::{Client, Runtime};
use crate::context::{Block, Identity, SessionContext};
use crate::instance::Instance;
use crate::routine::RoutineState;
use crate::settings::{CLIENT, SessionSettings};
use kilndb_base::prefetch::prefetch;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::builtin::BOOTSTRAP_SUPERUSER;
use kilndb_catalog::cache::Database;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::secured_objects::DATABASES;
use kilndb_context::cluster::Cluster;
use kilndb_types::Datum;
use std::rc::Rc;

/// What a startup packet asks for.
#[derive(Debug, Default)]
pub struct StartupOptions {
    pub user: String,
    pub database: String,
    pub settings: Vec<(String, String)>,
}

impl StartupOptions {
    pub fn from_parameters(parameters: &[(&str, &str)]) -> Result<StartupOptions> {
        let mut options = StartupOptions::default();
        for (name, value) in parameters {
            match *name {
                "user" => options.user = value.to_string(),
                "database" => options.database = value.to_string(),
                // Parameters of their own win over those among the options.
                "options" => {
                    let mut first = Vec::new();
                    parse_options(value, &mut first)?;
                    first.append(&mut options.settings);
                    options.settings = first;
                }
                "replication" => {
                    if !matches!(*value, "false" | "off" | "no" | "0") {
                        return Err(Error::unsupported("replication connections are not supported"));
                    }
                }
                name if name.starts_with("_pq_.") => {}
                name => options.settings.push((name.to_string(), value.to_string())),
            }
        }
        if options.user.is_empty() {
            return Err(Error::new(
                sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
                "no PostgreSQL user name specified in startup packet",
            ));
        }
        if options.database.is_empty() {
            options.database = options.user.clone();
        }
        Ok(options)
    }
}

/// `-c name=value --name=value`, words separated by blanks, a backslash before a blank that belongs to a word.
fn parse_options(text: &str, settings: &mut Vec<(String, String)>) -> Result<()> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => words.last_mut().into_iter().for_each(|w| w.extend(chars.next())),
            c if c.is_whitespace() => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|w| w.push(c)),
        }
    }
    let mut words = words.into_iter().filter(|w| !w.is_empty());
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next().unwrap_or_default()
        } else if let Some(rest) = word.strip_prefix("-c").or_else(|| word.strip_prefix("--")) {
            rest.to_string()
        } else {
            let message = format!("invalid command-line argument for server process: {word}");
            return Err(Error::new(sqlstate::SYNTAX_ERROR, message));
        };
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| Error::new(sqlstate::SYNTAX_ERROR, format!("-c {setting} requires a value")))?;
        settings.push((name.replace('-', "_"), value.to_string()));
    }
    Ok(())
}

/// The role of that name, if it may begin one more session.
fn login_role(cluster: &Cluster, name: &str, runtime: &dyn Runtime) -> Result<CatalogRow> {
    let refused = |message| Error::new(sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, message);
    let role = cluster.role_row(name)?.ok_or_else(|| refused(format!("role \"{name}\" does not exist")))?;
    if !role.bool("rolcanlogin") {
        return Err(refused(format!("role \"{name}\" is not permitted to log in")));
    }
    let (oid, limit) = (role.oid("oid"), role.int("rolconnlimit"));
    if limit >= 0 && !role.bool("rolsuper") {
        // Before the others are counted: of two at once, at least one sees the other.
        runtime.control().activity.lock().unwrap_or_else(|e| e.into_inner()).user_oid = oid;
        if cluster.sessions().count(|a| a.user_oid == oid) as i64 > limit {
            let message = format!("too many connections for role \"{name}\"");
            return Err(Error::new(sqlstate::TOO_MANY_CONNECTIONS, message));
        }
    }
    Ok(role)
}

/// 53300 if the database has as many sessions as it may have, of those who are no superusers.
fn refuse_crowded_database(
    cluster: &Cluster,
    database: &CatalogRow,
    role: &CatalogRow,
    runtime: &dyn Runtime,
) -> Result<()> {
    let (oid, limit) = (database.oid("oid"), database.int("datconnlimit"));
    if limit < 0 || role.bool("rolsuper") {
        return Ok(());
    }
    runtime.control().activity.lock().unwrap_or_else(|e| e.into_inner()).database_oid = oid;
    if cluster.sessions().count(|a| a.database_oid == oid) as i64 > limit {
        let name = database.text("datname").unwrap_or("");
        let message = format!("too many connections for database \"{name}\"");
        return Err(Error::new(sqlstate::TOO_MANY_CONNECTIONS, message));
    }
    Ok(())
}

/// Takes the stored settings, then those of the client, which must be right. Returns warnings about the stored ones.
fn starting_settings(
    cluster: &Cluster,
    settings: &mut SessionSettings,
    options: &StartupOptions,
    database: Oid,
    role: &CatalogRow,
) -> Result<Vec<Error>> {
    let mut refused = Vec::new();
    for (source, stored) in cluster.stored_settings(database, role.oid("oid"))? {
        refused.extend(settings.set_session_defaults(stored.iter().filter_map(|item| item.split_once('=')), source));
    }
    for e in &mut refused {
        e.0.severity = Severity::Warning;
    }
    let superuser = role.bool("rolsuper") || role.oid("oid") == BOOTSTRAP_SUPERUSER;
    for (name, _) in &options.settings {
        crate::settings::check_privilege(name, superuser)?;
    }
    let asked = options.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    match settings.set_session_defaults(asked, CLIENT).into_iter().next() {
        Some(e) => Err(e),
        None => Ok(refused),
    }
}

/// 42501 unless a role may connect to a database.
fn refuse_connection(cluster: &Cluster, role: Oid, database: &CatalogRow) -> Result<()> {
    let (_, roles) = cluster.roles()?;
    if DATABASES.privileges(database).has_all(role, privilege::CONNECT, roles.seen_from(database.oid("oid"))) {
        return Ok(());
    }
    let name = database.text("datname").unwrap_or("");
    Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied for database \"{name}\""))
        .with_detail("User does not have CONNECT privilege."))
}

/// A client's session: see the module. Whatever its statements work in is in its context.
pub struct Session {
    pub(crate) instance: Arc<Instance>,
    pub(crate) context: SessionContext,
    /// Prepared statements and portals.
    pub(crate) statements: Rc<ClientStatements>,
    pub(crate) routines: RoutineState,
    /// Since when the session is in its state (active, idle, idle in transaction), microseconds since 2000.
    state_since: i64,
    /// What the Bind has asked for of the utility command that the extended protocol executes; it is described already.
    utility_formats: Option<Vec<i16>>,
    /// Types and values of the parameters that the client has bound for the utility command that runs.
    utility_parameters: Vec<(Oid, Datum)>,
    /// The generation of the settings that others have seen.
    published_settings: u64,
    /// Names given to cursors that have none.
    unnamed_portals: u64,
    /// The number of the prepared statement whose text pg_stat_activity shows: as long as it is the same one, that text is left
    /// alone, which no processor's cache has where there are thousands of sessions.
    shown_statement: Option<u64>,
    /// What the log is told of the running statement.
    log: logging::StatementLog,
    /// Room for scanning simple queries.
    pub(crate) scanned: kilndb_syntax::literals::Scanned,
}

impl Session {
    /// Asks for what a statement touches outside the session's own struct, which is in the cache already.
    pub fn prefetch_further(&self) {
        prefetch(&*self.context.shared);
        prefetch(&*self.statements);
    }

    pub fn connect(instance: Arc<Instance>, options: StartupOptions, runtime: &dyn Runtime) -> Result<Session> {
        let cluster = &*instance.cluster;
        let role = login_role(cluster, &options.user, runtime)?;
        let database = cluster.open_database(&options.database)?;
        if let Some(row) = cluster.database_row(&options.database)? {
            refuse_connection(cluster, role.oid("oid"), &row)?;
            refuse_crowded_database(cluster, &row, &role, runtime)?;
        }
        Session::begin(instance, options, &role, database, runtime)
    }

    /// A session of the server's own, in a database in which others may not be allowed to have one.
    pub(crate) fn of_server(
        instance: Arc<Instance>,
        database: Arc<Database>,
        runtime: &dyn Runtime,
    ) -> Result<Session> {
        let missing = || Error::internal("the role that owns the cluster is missing");
        let name = instance.cluster.role_name(BOOTSTRAP_SUPERUSER)?.ok_or_else(missing)?;
        let role = instance.cluster.role_row(&name)?.ok_or_else(missing)?;
        // What clients' transactions are to be like by default is not for the server's.
        let own = [
            ("default_transaction_isolation", "read committed"),
            ("default_transaction_read_only", "off"),
            ("transaction_timeout", "0"),
        ];
        let settings = own.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let options = StartupOptions { user: name, database: database.name.clone(), settings };
        Session::begin(instance, options, &role, database, runtime)
    }

    fn begin(
        instance: Arc<Instance>,
        options: StartupOptions,
        role: &CatalogRow,
        database: Arc<Database>,
        runtime: &dyn Runtime,
    ) -> Result<Session> {
        let cluster = instance.cluster.clone();
        let mut settings = SessionSettings::new(cluster.settings());
        let refused = starting_settings(&cluster, &mut settings, &options, database.oid, role)?;
        let statements = Rc::new(ClientStatements::new(instance.guards.clone()));
        let routines = RoutineState::new(instance.guards.clone());
        let identity = Identity::of_login(role.oid("oid"), &options.user);
        let context = SessionContext::new(cluster, database, identity, settings, statements.clone(), runtime);
        let now = context.transaction.statement_timestamp;
        let mut session = Session {
            instance,
            context,
            statements,
            routines,
            state_since: now,
            utility_formats: None,
            utility_parameters: Vec::new(),
            published_settings: 0,
            unnamed_portals: 0,
            shown_statement: None,
            log: Default::default(),
            scanned: Default::default(),
        };
        session.context.update_activity(runtime, |a| {
            a.database_oid = session.context.database.oid;
            a.database = session.context.database.name.clone();
            a.user_oid = session.context.identity.login_role;
            a.user = session.context.identity.login_name.to_string();
            a.application_name = session.context.settings.get("application_name").unwrap_or("").to_string();
            if a.backend_start == 0 {
                a.backend_start = now;
            }
            a.state = "idle";
            a.state_change = now;
        });
        session
            .context
            .cluster
            .statistics
            .database_of(session.context.worker, session.context.database.oid, |d| d.sessions += 1);
        session.context.shared.scratch.notices.borrow_mut().extend(refused);
        session.context.take_starting_role();
        session.publish_settings(runtime);
        Ok(session)
    }

    /// What there is to be said about the start.
    pub fn send_first_notices(&self, client: &mut dyn Client) {
        self.send_notices(client);
    }

    /// 53300 if so few places are `left` that they are kept for others than this session's role.
    pub fn refuse_reserved_place(&self, left: usize) -> Result<()> {
        let settings = self.context.cluster.settings();
        let places = |name: &str| settings.number(name) as usize;
        let for_superusers = places("superuser_reserved_connections");
        if left >= for_superusers + places("reserved_connections") || self.context.is_superuser() {
            return Ok(());
        }
        let whom = if left < for_superusers {
            "roles with the SUPERUSER attribute"
        } else {
            "roles with privileges of the \"pg_use_reserved_connections\" role"
        };
        Err(Error::new(sqlstate::TOO_MANY_CONNECTIONS, format!("remaining connection slots are reserved for {whom}")))
    }

    /// `I` idle, `T` in a transaction, `E` in a failed one.
    pub fn status(&self) -> u8 {
        match self.context.transaction.block {
            Block::None | Block::Implicit => b'I',
            Block::Explicit => b'T',
            Block::Failed => b'E',
        }
    }

    /// The end of the session: rolls back, drops what was its own.
    pub fn close(&mut self, runtime: &dyn Runtime) {
        self.statements.portals.clear();
        if let Some(mut txn) = self.context.transaction.txn.take()
            && let Err(e) = txn.rollback(runtime)
        {
            self.context.cluster.log(Severity::Warning, &format!("rollback at the end of a session failed: {e}"));
        }
        self.statements.prepared.clear();
        self.context.close_temporary();
        self.count_time(false, self.context.now());
        self.context.cluster.statistics.session_ended(
            self.context.worker,
            self.context.database.oid,
            &mut self.context.transaction.usage,
        );
        self.context.shared.scratch.advisory.borrow_mut().take();
        self.context.shared.scratch.listening.borrow_mut().listener.take();
    }

    /// Counts the time since the session's state changed last. `active`: a statement was running.
    pub(crate) fn count_time(&mut self, active: bool, now: i64) {
        let elapsed_us = (now - self.state_since).max(0) as u64;
        self.state_since = now;
        self.context.transaction.usage.session_us += elapsed_us;
        if active {
            self.context.transaction.usage.active_us += elapsed_us;
        } else if self.context.in_explicit_block() {
            self.context.transaction.usage.idle_in_transaction_us += elapsed_us;
        }
    }

    /// Others see application_name as it is now, and what the log is told of waits follows its settings.
    pub(crate) fn publish_settings(&mut self, runtime: &dyn Runtime) {
        if self.published_settings == self.context.settings.generation {
            return;
        }
        self.published_settings = self.context.settings.generation;
        let name = self.context.settings.get("application_name").unwrap_or("");
        self.context.update_activity(runtime, |a| {
            if a.application_name != name {
                a.application_name = name.to_string();
            }
        });
        self.publish_log_switches(runtime);
    }

    /// What there is to tell goes to the client while the statement still runs.
    pub(crate) fn tell_notices(&self, runtime: &dyn Runtime) -> Result<()> {
        let wanted = self.context.wanted_severity();
        for notice in self.context.shared.scratch.notices.take() {
            self.log_notice(&notice);
            if (notice.0.severity >= wanted || notice.0.severity == Severity::Info) && !runtime.tell(&notice)? {
                self.context.shared.scratch.notices.borrow_mut().push(notice);
            }
        }
        Ok(())
    }

    pub(crate) fn send_notices(&self, client: &mut dyn Client) {
        if self.context.shared.scratch.notices.borrow().is_empty() {
            return;
        }
        let wanted = self.context.wanted_severity();
        for notice in self.context.shared.scratch.notices.take() {
            self.log_notice(&notice);
            // INFO is always sent.
            if notice.0.severity >= wanted || notice.0.severity == Severity::Info {
                client.notice(&notice);
            }
        }
    }
}
