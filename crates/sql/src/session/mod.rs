//! A session: transaction state, prepared statements, portals, and the way from a message to a result.
//!
//! Invariants
//! 1. A statement runs between [`Session::begin_statement`] and the end of its (implicit or explicit) transaction;
//!    whatever fails goes through [`Session::abort_statement`].
//! 2. A client is told of a commit only after `Engine::wait_flushed`, unless synchronous_commit is off.
//! 3. Plans are shared and read-only; what an execution changes belongs to the session.

mod advisory;
mod arguments;
mod call_command;
mod constraints;
mod copy_on_write;
mod cursor;
mod definitions;
pub(crate) mod describe;
pub(crate) mod environment;
mod exported;
mod expression_text;
mod extended;
pub(crate) mod functions;
pub(crate) mod host;
pub(crate) mod identifiers;
mod inverted;
mod kept_rows;
mod listen;
mod logging;
mod modes;
mod named;
mod partition_text;
mod portal;
mod prepared;
mod reported;
mod roles;
pub(crate) mod run;
mod simple;
mod statistics;
mod system_views;
mod template;
mod text_search;
mod transaction;
mod trigger_text;
pub(crate) mod type_host;
mod upgrade;
pub(crate) mod utility;
mod utility_rows;
mod views;

pub(crate) use copy_on_write::CopyOnWrite;
pub(crate) use environment::Environment;
pub(crate) use exported::Exports;
pub use extended::BindRequest;
use named::PreparedByName;
use portal::Portals;
pub(crate) use prepared::{StatementCache, is_plannable, reads_the_clock};
pub(crate) use template::{Body, Template, TemplateCache};
use transaction::Block;

use crate::client::{Client, Runtime};
use crate::ddl::sequence_functions::SequenceReserve;
use crate::instance::Instance;
use crate::settings::{CLIENT, LiveValue, PendingSettings, SessionSettings, definition, show_value};
use kilndb_base::hash::HashMap;
use kilndb_base::prefetch::prefetch;
use kilndb_base::sync::{Arc, Weak};
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::builtin::{BOOTSTRAP_SUPERUSER, PG_CATALOG};
use kilndb_catalog::cache::{CatalogReader, Database, ObjectCache};
use kilndb_catalog::store::CatalogRow;
use kilndb_catalog::temporary::TemporaryCatalog;
use kilndb_storage::{Snapshot, Transaction};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Microseconds from 1970 to 2000.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

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

/// What functions may change while a statement runs.
#[derive(Default)]
pub(crate) struct Scratch {
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
    /// Advisory locks of the session; none if it holds none.
    pub advisory: RefCell<Option<kilndb_storage::LockOwner>>,
    pub listening: RefCell<listen::Listening>,
    /// Trigger functions that are running, one in the other.
    pub trigger_depth: Cell<i32>,
    /// Snapshots that the transaction has exported.
    pub exported: RefCell<Vec<Arc<exported::Exported>>>,
}

impl Scratch {
    /// What has values computed only to guess with them: what they say is said when the statement runs.
    pub fn without_notices<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.notices.borrow().len();
        let result = f();
        self.notices.borrow_mut().truncate(before);
        result
    }
}

/// Takes the stored settings, then those of the client, which must be right. Returns warnings about the stored ones.
fn starting_settings(
    instance: &Instance,
    settings: &mut SessionSettings,
    options: &StartupOptions,
    database: Oid,
    role: &CatalogRow,
) -> Result<Vec<Error>> {
    let mut refused = Vec::new();
    for (source, stored) in instance.stored_settings(database, role.oid("oid"))? {
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

/// What a running statement looks at besides its session, which functions that it calls may change meanwhile.
pub(crate) struct Own {
    pub instance: Arc<Instance>,
    pub database: Arc<Database>,
    pub scratch: Scratch,
    pub prepared: PreparedByName,
    pub portals: Portals,
    /// The session's temporary objects.
    pub temporary: TemporaryCatalog,
}

pub struct Session {
    pub(crate) instance: Arc<Instance>,
    pub(crate) database: Arc<Database>,
    pub(crate) login_role: Oid,
    pub(crate) login_name: Rc<str>,
    /// SET SESSION AUTHORIZATION's; the one who has logged in else.
    pub(crate) session_user: Rc<str>,
    /// The role in force (SET ROLE).
    pub(crate) current_role: Oid,
    pub(crate) role_name: Rc<str>,
    pub(crate) process_id: i32,
    pub(crate) settings: CopyOnWrite<SessionSettings>,
    pub(crate) txn: Option<Transaction>,
    block: Block,
    /// The defaults when the open transaction began.
    modes_at_begin: modes::Modes,
    /// The open transaction has changed catalogs.
    pub(crate) has_ddl: bool,
    /// While ALTER TABLE plans the statement that stores a table's rows anew.
    pub(crate) is_rewriting: bool,
    /// The database's cache of objects as it was last seen, and its version: most statements find nothing newer.
    /// Sessions that do nothing keep no old one alive.
    seen_cache: Option<(Weak<ObjectCache>, u64)>,
    /// Cache of a transaction with DDL, and the version of the shared catalogs that it goes with.
    private_cache: Option<(Arc<ObjectCache>, u64)>,
    /// What the open transaction has changed in the catalogs.
    ddl_changes: kilndb_catalog::changes::Changes,
    pub(crate) savepoints: Vec<transaction::SavepointEntry>,
    pub(crate) transaction_timestamp: i64,
    pub(crate) statement_timestamp: i64,
    pub(crate) own: Rc<Own>,
    /// OIDs of the schemas on the search path, and the settings generation and catalog version they are of.
    path: (u64, u64, Arc<[Oid]>, Option<Arc<str>>),
    /// What happens at commit to temporary tables.
    pub(crate) on_commit: Vec<(Oid, OnCommit)>,
    /// Constraint checks put off to the end of the transaction.
    pub(crate) pending: kilndb_exec::PendingChecks,
    /// What the open transaction has done, for the statistics views.
    pub(crate) usage: kilndb_exec::stats::Usage,
    worker: usize,
    /// Since when the session is in its state (active, idle, idle in transaction), microseconds since 2000.
    state_since: i64,
    /// System views are made with it at the first start.
    pub(crate) allow_system_objects: bool,
    /// What the Bind has asked for of the utility command that the extended protocol executes; it is described already.
    utility_formats: Option<Vec<i16>>,
    /// A cursor is being planned: its rows are to tell where they are.
    pub(crate) wants_places: bool,
    /// Of the routine whose utility command is running.
    pub(crate) held_variables: Option<Rc<crate::routine::held::HeldVariables>>,
    /// The generation of the settings that others have seen.
    published_settings: u64,
    /// Outer ones first.
    pub(crate) running_routines: Vec<std::rc::Rc<dyn crate::routine::ContextSource>>,
    /// Of statements that are running while a routine runs others.
    pub(crate) running_plans: Vec<Arc<kilndb_plan::Plan>>,
    /// The definition that is being changed, as messages call the command.
    pub(crate) ddl_command: &'static str,
    /// Objects whose definitions have been written, and whose dependencies are not settled yet.
    pub(crate) changed_definitions: std::collections::BTreeSet<(Oid, Oid)>,
    /// Changes of the catalogs within the open transaction, ever counted on.
    pub(crate) own_changes: u64,
    pub(crate) routine_plans: crate::routine::RoutinePlans,
    pub(crate) routines: crate::routine::RoutineCache,
    /// Routines that are running, one in the other.
    pub(crate) routine_depth: usize,
    /// Names given to cursors that have none.
    unnamed_portals: u64,
    /// What the log is told of the running statement.
    log: logging::StatementLog,
    /// Room for scanning simple queries.
    pub(crate) scanned: kilndb_syntax::literals::Scanned,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnCommit {
    DeleteRows,
    Drop,
}

impl Session {
    /// Asks for what a statement touches outside the session's own struct, which is in the cache already.
    pub fn prefetch_further(&self) {
        prefetch(&*self.own);
    }

    pub fn connect(instance: Arc<Instance>, options: StartupOptions, runtime: &dyn Runtime) -> Result<Session> {
        let role = instance.role_row(&options.user)?.filter(|r| r.bool("rolcanlogin"));
        let role = role.ok_or_else(|| {
            Error::new(
                sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
                format!("role \"{}\" does not exist", options.user),
            )
        })?;
        let database = instance.open_database(&options.database)?;
        Session::begin(instance, options, &role, database, runtime)
    }

    /// A session of the server's own, in a database in which others may not be allowed to have one.
    pub(crate) fn of_server(
        instance: Arc<Instance>,
        database: Arc<Database>,
        runtime: &dyn Runtime,
    ) -> Result<Session> {
        let missing = || Error::internal("the role that owns the cluster is missing");
        let name = instance.role_name(BOOTSTRAP_SUPERUSER)?.ok_or_else(missing)?;
        let role = instance.role_row(&name)?.ok_or_else(missing)?;
        let options = StartupOptions { user: name, database: database.name.clone(), settings: Vec::new() };
        Session::begin(instance, options, &role, database, runtime)
    }

    fn begin(
        instance: Arc<Instance>,
        options: StartupOptions,
        role: &CatalogRow,
        database: Arc<Database>,
        runtime: &dyn Runtime,
    ) -> Result<Session> {
        let mut settings = SessionSettings::new(instance.settings());
        let refused = starting_settings(&instance, &mut settings, &options, database.oid, role)?;
        let now = instance.env.unix_micros() - POSTGRES_EPOCH_MICROS;
        let mut seed = [0; 16];
        instance.env.random_bytes(&mut seed);
        let scratch = Scratch::default();
        let (low, high) = seed.split_at(8);
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().unwrap_or([1; 8]));
        scratch.random_state.set([word(low), word(high)]);
        let mut session = Session {
            login_role: role.oid("oid"),
            login_name: options.user.as_str().into(),
            session_user: options.user.as_str().into(),
            current_role: role.oid("oid"),
            role_name: options.user.as_str().into(),
            process_id: runtime.control().process_id,
            settings: CopyOnWrite::new(settings),
            txn: None,
            block: Block::None,
            modes_at_begin: Default::default(),
            has_ddl: false,
            is_rewriting: false,
            seen_cache: None,
            private_cache: None,
            ddl_changes: Default::default(),
            savepoints: Vec::new(),
            transaction_timestamp: now,
            statement_timestamp: now,
            own: Rc::new(Own {
                temporary: TemporaryCatalog::new(
                    instance.engine.clone(),
                    database.global_users.clone(),
                    runtime.control().process_id,
                ),
                instance: instance.clone(),
                database: database.clone(),
                scratch,
                prepared: Default::default(),
                portals: Default::default(),
            }),
            path: (0, 0, Arc::from([]), None),
            on_commit: Vec::new(),
            pending: Default::default(),
            usage: Default::default(),
            worker: runtime.worker(),
            state_since: now,
            allow_system_objects: false,
            utility_formats: None,
            wants_places: false,
            held_variables: None,
            running_routines: Vec::new(),
            running_plans: Vec::new(),
            ddl_command: "",
            changed_definitions: Default::default(),
            own_changes: 0,
            routine_plans: Default::default(),
            routines: Default::default(),
            routine_depth: 0,
            unnamed_portals: 0,
            log: Default::default(),
            scanned: Default::default(),
            published_settings: 0,
            database,
            instance,
        };
        session.update_activity(runtime, |a| {
            a.database_oid = session.database.oid;
            a.database = session.database.name.clone();
            a.user_oid = session.login_role;
            a.user = session.login_name.to_string();
            a.application_name = session.settings.get("application_name").unwrap_or("").to_string();
            if a.backend_start == 0 {
                a.backend_start = now;
            }
            a.state = "idle";
            a.state_change = now;
        });
        session.instance.statistics.database_of(session.worker, session.database.oid, |d| d.sessions += 1);
        session.own.scratch.notices.borrow_mut().extend(refused);
        session.take_starting_role();
        Ok(session)
    }

    /// What there is to be said about the start.
    pub fn send_first_notices(&self, client: &mut dyn Client) {
        self.send_notices(client);
    }

    /// 53300 if so few places are `left` that they are kept for others than this session's role.
    pub fn refuse_reserved_place(&self, left: usize) -> Result<()> {
        let settings = self.instance.settings();
        let places = |name: &str| settings.number(name) as usize;
        let for_superusers = places("superuser_reserved_connections");
        if left >= for_superusers + places("reserved_connections") || self.is_superuser() {
            return Ok(());
        }
        let whom = if left < for_superusers {
            "roles with the SUPERUSER attribute"
        } else {
            "roles with privileges of the \"pg_use_reserved_connections\" role"
        };
        Err(Error::new(sqlstate::TOO_MANY_CONNECTIONS, format!("remaining connection slots are reserved for {whom}")))
    }

    /// As SHOW prints it.
    pub(crate) fn shown(&self, name: &str) -> String {
        let definition = definition(name);
        let on_or_off = |on| if on { "on" } else { "off" }.to_string();
        match definition.and_then(|d| d.descriptor.live) {
            Some(LiveValue::SessionUser) => self.session_user.to_string(),
            Some(LiveValue::IsSuperuser) => on_or_off(self.is_superuser()),
            Some(LiveValue::DataDirectory) => self.instance.data_dir.display().to_string(),
            Some(LiveValue::Isolation) => self.isolation_name().to_string(),
            Some(LiveValue::ReadOnly) => on_or_off(self.is_read_only()),
            Some(LiveValue::Deferrable) => on_or_off(self.modes().deferrable),
            None => {
                let value = self.settings.get(name).unwrap_or("");
                definition.map_or(value.to_string(), |d| show_value(d, value))
            }
        }
    }

    pub(crate) fn is_superuser(&self) -> bool {
        self.current_role == BOOTSTRAP_SUPERUSER || self.role_flag("rolsuper")
    }

    pub(crate) fn role_flag(&self, flag: &str) -> bool {
        self.instance.role_row(&self.role_name).ok().flatten().is_some_and(|r| r.bool(flag))
    }

    /// `I` idle, `T` in a transaction, `E` in a failed one.
    pub fn status(&self) -> u8 {
        match self.block {
            Block::None | Block::Implicit => b'I',
            Block::Explicit => b'T',
            Block::Failed => b'E',
        }
    }

    /// The end of the session: rolls back, drops what was its own.
    pub fn close(&mut self, runtime: &dyn Runtime) {
        self.own.portals.clear();
        if let Some(mut txn) = self.txn.take()
            && let Err(e) = txn.rollback(runtime)
        {
            self.instance.log(Severity::Warning, &format!("rollback at the end of a session failed: {e}"));
        }
        self.drop_temporary_objects();
        self.count_time(false, self.now());
        self.instance.statistics.session_ended(self.worker, self.database.oid, &mut self.usage);
        self.own.scratch.advisory.borrow_mut().take();
        self.own.scratch.listening.borrow_mut().listener.take();
    }

    /// Counts the time since the session's state changed last. `active`: a statement was running.
    pub(crate) fn count_time(&mut self, active: bool, now: i64) {
        let elapsed_us = (now - self.state_since).max(0) as u64;
        self.state_since = now;
        self.usage.session_us += elapsed_us;
        if active {
            self.usage.active_us += elapsed_us;
        } else if self.in_explicit_block() {
            self.usage.idle_in_transaction_us += elapsed_us;
        }
    }

    /// Others see application_name as it is now.
    pub(crate) fn publish_settings(&mut self, runtime: &dyn Runtime) {
        if self.published_settings == self.settings.generation {
            return;
        }
        self.published_settings = self.settings.generation;
        let name = self.settings.get("application_name").unwrap_or("");
        self.update_activity(runtime, |a| {
            if a.application_name != name {
                a.application_name = name.to_string();
            }
        });
    }

    pub(crate) fn update_activity(&self, runtime: &dyn Runtime, change: impl FnOnce(&mut crate::client::Activity)) {
        change(&mut runtime.control().activity.lock().unwrap_or_else(|e| e.into_inner()));
    }

    pub(crate) fn now(&self) -> i64 {
        self.instance.env.unix_micros() - POSTGRES_EPOCH_MICROS
    }

    pub(crate) fn notice(&self, severity: Severity, message: impl Into<String>) {
        let state = if severity == Severity::Warning { sqlstate::WARNING } else { sqlstate::SUCCESSFUL_COMPLETION };
        self.own.scratch.notices.borrow_mut().push(Error::notice(state, severity, message));
    }

    /// What there is to tell goes to the client while the statement still runs.
    pub(crate) fn tell_notices(&self, runtime: &dyn Runtime) -> Result<()> {
        let wanted = self.wanted_severity();
        for notice in self.own.scratch.notices.take() {
            self.log_notice(&notice);
            if (notice.0.severity >= wanted || notice.0.severity == Severity::Info) && !runtime.tell(&notice)? {
                self.own.scratch.notices.borrow_mut().push(notice);
            }
        }
        Ok(())
    }

    fn wanted_severity(&self) -> Severity {
        match self.settings.get("client_min_messages") {
            Some("error") => Severity::Error,
            Some("warning") => Severity::Warning,
            Some(level) if level.starts_with("debug") => Severity::Debug,
            _ => Severity::Notice,
        }
    }

    pub(crate) fn send_notices(&self, client: &mut dyn Client) {
        if self.own.scratch.notices.borrow().is_empty() {
            return;
        }
        let wanted = self.wanted_severity();
        for notice in self.own.scratch.notices.take() {
            self.log_notice(&notice);
            // INFO is always sent.
            if notice.0.severity >= wanted || notice.0.severity == Severity::Info {
                client.notice(&notice);
            }
        }
    }

    /// The objects a statement may use: the shared cache, or an own one in a transaction with DDL.
    fn object_cache(&mut self) -> Arc<ObjectCache> {
        self.own.temporary.settle(self.database.version());
        if !self.has_ddl {
            if let Some((cache, version)) = &self.seen_cache
                && self.database.is_current(*version)
                && let Some(cache) = cache.upgrade()
            {
                return cache;
            }
            if let Some((cache, version)) = self.database.shared_cache() {
                self.seen_cache = Some((Arc::downgrade(&cache), version));
                return cache;
            }
        }
        self.own_cache()
    }

    /// The cache of a transaction with DDL, without what others have changed since; an empty one while others commit
    /// changes, which are not told of yet.
    fn own_cache(&mut self) -> Arc<ObjectCache> {
        let settled = self.database.settled_version();
        if let (Some((cache, version)), Some(now)) = (&mut self.private_cache, settled)
            && let Some(changes) = self.database.changes_between(*version, now)
        {
            changes.iter().for_each(|c| cache.forget(c));
            *version = now;
            cache.begin_statement(now);
            return cache.clone();
        }
        // Before anything is read into the cache.
        let now = self.database.version();
        let cache: Arc<ObjectCache> = Arc::default();
        cache.begin_statement(now);
        self.private_cache = Some((cache.clone(), now));
        cache
    }

    /// Catalogs changed within this transaction: what was read before of what has changed is stale.
    pub(crate) fn catalog_changed(&mut self, changes: &kilndb_catalog::changes::Changes) {
        if !self.has_ddl {
            self.private_cache = self.database.shared_cache().map(|(cache, version)| (Arc::new(cache.copy()), version));
        }
        self.has_ddl = true;
        self.ddl_changes.add(changes);
        if let Some((cache, _)) = &self.private_cache {
            cache.forget(changes);
        }
        self.own.temporary.forget_objects();
        self.path.0 = 0;
    }

    /// What was read of the catalogs within this transaction is stale: there was a change, or one was taken back.
    pub(crate) fn forget_catalog(&mut self) {
        self.private_cache = None;
        self.own_changes += 1;
        self.own.temporary.forget_objects();
        self.path.0 = 0;
    }

    /// The search path must be resolved again.
    pub(crate) fn forget_path(&mut self) {
        self.path.0 = 0;
    }

    /// A snapshot for catalog look-ups: the newest committed state and the transaction's own changes.
    pub(crate) fn catalog_snapshot(&mut self) -> Result<Snapshot> {
        let txn = self.txn.as_mut().ok_or_else(|| Error::internal("no transaction for a catalog look-up"))?;
        if let Some(store) = self.own.temporary.store() {
            txn.attach(store);
        }
        Ok(txn.catalog_snapshot())
    }

    /// False if search_path or the catalogs have changed since the path was resolved.
    fn is_path_current(&self) -> bool {
        (self.path.0, self.path.1) == (self.settings.generation, self.database.version())
    }

    pub(crate) fn search_path(&self) -> Arc<[Oid]> {
        self.path.2.clone()
    }

    /// Schemas of search_path that exist, pg_catalog in front unless it is named.
    fn resolve_path(&mut self, cache: &Arc<ObjectCache>, snapshot: &Snapshot) -> Result<Arc<[Oid]>> {
        let key = (self.settings.generation, self.database.version());
        if (self.path.0, self.path.1) == key && !self.has_ddl {
            return Ok(self.path.2.clone());
        }
        let reader = CatalogReader {
            database: &self.database,
            snapshot,
            cache,
            search_path: &[],
            creation_schema: None,
            temporary: &self.own.temporary,
            asked: None,
            switches: self.settings.switches,
            is_rewriting: false,
        };
        let (mut oids, mut creation) = (Vec::new(), None);
        for name in &self.settings.search_path {
            if name == "pg_temp" {
                // There may be no such schema yet.
                creation.get_or_insert_with(|| Arc::from(name.as_str()));
            }
            let name = if name == "$user" { &*self.role_name } else { name.as_str() };
            if let Some(oid) = reader.schema_oid(name)?
                && !oids.contains(&oid)
            {
                oids.push(oid);
                creation.get_or_insert_with(|| Arc::from(name));
            }
        }
        if !oids.contains(&PG_CATALOG) {
            oids.insert(0, PG_CATALOG);
        }
        let oids: Arc<[Oid]> = oids.into();
        self.path = (key.0, key.1, oids.clone(), creation);
        Ok(oids)
    }

    /// As [`Session::environment`], looking at the catalogs as of the statement's own snapshot where that is as good.
    pub(crate) fn environment_at<'a>(
        &mut self,
        snapshot: &Snapshot,
        runtime: &'a dyn Runtime,
    ) -> Result<Environment<'a>> {
        if self.has_ddl || self.isolation_name() != "read committed" {
            return self.environment(runtime);
        }
        let cache = self.object_cache();
        // A cursor's snapshot, or one from before a wait: what it sees is not to be told to others as how things are.
        if !self.database.is_recent(snapshot) {
            return self.environment(runtime);
        }
        let path = self.resolve_path(&cache, snapshot)?;
        Ok(self.environment_of(runtime, cache, snapshot.clone(), path))
    }

    /// Everything a statement needs to look things up and evaluate.
    pub(crate) fn environment<'a>(&mut self, runtime: &'a dyn Runtime) -> Result<Environment<'a>> {
        let cache = self.object_cache();
        let snapshot = self.catalog_snapshot()?;
        let path = self.resolve_path(&cache, &snapshot)?;
        Ok(self.environment_of(runtime, cache, snapshot, path))
    }
}
