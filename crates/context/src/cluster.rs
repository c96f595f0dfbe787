//! The running database system below its sessions: engine, databases, settings, who is connected.
//!
//! Must not know: sessions' insides, plans, routines. What sessions share of these is [`crate::instance::Instance`]'s.

use crate::authentication::Authentication;
use crate::client::{Activity, SessionControl};
use crate::log::LogSink;
use crate::settings::ServerSettings;
use crate::slow_statements::SlowStatements;
use kilndb_base::env::{Env, OpenMode};
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::park::ThreadPark;
use kilndb_base::sync::{Arc, Mutex, MutexGuard, RwLock};
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::bootstrap;
use kilndb_catalog::builtin::BOOTSTRAP_SUPERUSER;
use kilndb_catalog::cache::Database;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::{Privileges, SecuredKind};
use kilndb_catalog::roles::{RoleDirectory, Roles};
use kilndb_catalog::store::CatalogStore;
use kilndb_catalog::temporary::TEMPORARY_OIDS;
use kilndb_exec::helpers::HelperPool;
use kilndb_exec::stats::{Statistics, StoredStatistics};
use kilndb_spill::TempSpace;
use kilndb_storage::{Engine, EngineConfig, Isolation, ReadLockLimits, Snapshot, StorageLimits, Tuning};
use kilndb_types::context::{ObjectNames, SessionEnvironment, TextSearchCatalog, TypeCatalog};
use kilndb_types::{Datum, EvalContext, FormatSettings};
use std::cell::Cell;
use std::path::{Path, PathBuf};

pub struct ClusterOptions {
    pub env: Arc<dyn Env>,
    pub data_dir: PathBuf,
    pub workers: usize,
    pub log: Arc<dyn LogSink>,
    pub config: ServerSettings,
    /// A damaged log is taken for one that ends there: what follows is lost.
    pub accept_lost_log: bool,
    /// How many of a kind the storage may have at a time: tests make them small.
    pub limits: StorageLimits,
}

pub struct Cluster {
    pub engine: Arc<Engine>,
    pub env: Arc<dyn Env>,
    pub data_dir: PathBuf,
    pub helpers: Arc<HelperPool>,
    pub statistics: Statistics,
    pub slow_statements: SlowStatements,
    settings: RwLock<Arc<ServerSettings>>,
    command_line: ServerSettings,
    databases: Mutex<HashMap<Oid, Arc<Database>>>,
    /// Shared system tables (and template1's, which serve where no database is at hand).
    template: CatalogStore,
    sessions: SessionRegistry,
    pub role_directory: RoleDirectory,
    pub authentication: Authentication,
    pub exports: crate::exports::Exports,
    pub notifications: crate::notify::Notifications,
    oids: Mutex<OidRange>,
    log: Arc<dyn LogSink>,
    reload_hooks: Mutex<Vec<ReloadHook>>,
    pub start_unix_micros: i64,
}

/// Takes over new settings that may change while the server runs.
pub type ReloadHook = Arc<dyn Fn(&ServerSettings) + Send + Sync>;

/// Where the system tables of each database are.
pub type BootMap = HashMap<Oid, Vec<(Oid, kilndb_base::RelationId)>>;

struct OidRange {
    next: Oid,
    limit: Oid,
}
/// OIDs taken from the logged counter at once.
const OID_BATCH: Oid = 1024;

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// What value code may ask while there are no catalogs yet.
pub struct BootHost<'a> {
    pub env: &'a dyn Env,
}

impl ObjectNames for BootHost<'_> {
    fn format_type(&self, oid: Oid, _typmod: i32) -> String {
        oid.to_string()
    }
    fn reg_input(&self, _kind: Oid, text: &str) -> Result<Oid> {
        Ok(text.parse().unwrap_or(0))
    }
    fn reg_output(&self, _kind: Oid, oid: Oid) -> String {
        oid.to_string()
    }
}

impl TypeCatalog for BootHost<'_> {
    fn element_type(&self, oid: Oid) -> Oid {
        kilndb_catalog::builtin::BUILTINS.types.get(&oid).map_or(0, |t| t.element)
    }
    fn array_type(&self, oid: Oid) -> Oid {
        kilndb_catalog::builtin::BUILTINS.types.get(&oid).map_or(0, |t| t.array)
    }
    fn composite_fields(&self, _oid: Oid) -> Option<Vec<(String, Oid, i32)>> {
        None
    }
}

impl TextSearchCatalog for BootHost<'_> {}

impl SessionEnvironment for BootHost<'_> {
    fn clock_unix_micros(&self) -> i64 {
        self.env.unix_micros()
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        self.env.random_bytes(buf);
    }
    fn notice(&self, _notice: Error) {}
}

fn read_lock_limits(c: &ServerSettings) -> ReadLockLimits {
    ReadLockLimits {
        per_transaction: c.number("max_pred_locks_per_transaction"),
        per_relation: c.number("max_pred_locks_per_relation"),
        per_page: c.number("max_pred_locks_per_page"),
        // As PostgreSQL has room for.
        remembered: 10 * c.number("max_connections").clamp(10, 10_000) as usize,
    }
}

fn tuning(c: &ServerSettings) -> Tuning {
    let number = |name: &str| c.number(name).max(0) as u64;
    Tuning {
        max_wal_size_bytes: number("max_wal_size") << 20,
        min_wal_size_bytes: number("min_wal_size") << 20,
        checkpoint_timeout_s: number("checkpoint_timeout"),
        checkpoint_completion_target: c.real("checkpoint_completion_target"),
        checkpoint_warning_s: number("checkpoint_warning"),
        log_checkpoints: c.flag("log_checkpoints"),
        wal_writer_delay_ms: number("wal_writer_delay"),
        wal_writer_flush_after_bytes: number("wal_writer_flush_after") * 8192,
        fsync: c.flag("fsync"),
    }
}

impl Cluster {
    /// Settings for a start in `data_dir`; makes no files.
    pub fn read_config(data_dir: &Path, command_line: &[(String, String)]) -> Result<ServerSettings> {
        ServerSettings::read(data_dir, command_line)
    }

    /// The second result is a new cluster's map, which lacks all databases but template1.
    pub fn open(options: ClusterOptions) -> Result<(Arc<Cluster>, Option<BootMap>)> {
        let c = &options.config;
        let config = EngineConfig {
            data_dir: options.data_dir.clone(),
            shared_buffers_bytes: c.number("shared_buffers") as u64 * 8192,
            huge_pages: c.get("huge_pages") != "off",
            wal_buffers_bytes: (c.number("wal_buffers").max(512) as u64) * 8192,
            max_wal_size_bytes: c.number("max_wal_size") as u64 * 1024 * 1024,
            checkpoint_timeout_s: c.number("checkpoint_timeout") as u64,
            checkpoint_completion_target: c.real("checkpoint_completion_target"),
            wal_writer_delay_ms: c.number("wal_writer_delay") as u64,
            startup_progress_interval_ms: c.number("log_startup_progress_interval") as u64,
            limits: options.limits,
            fsync: c.flag("fsync"),
            accept_lost_log: options.accept_lost_log,
            workers: options.workers,
            log: {
                let log = options.log.clone();
                Arc::new(move |severity, message: &str| log.tell(severity, message))
            },
        };
        if !config.fsync {
            options.log.tell(Severity::Warning, "fsync is off: a crash of the machine can lose or damage data");
        }
        let helpers = Arc::new(HelperPool::new(options.env.clone(), options.workers));
        let engine = Engine::open(options.env.clone(), config)?;
        // Now that the folder is ours: they may be a running server's.
        TempSpace::new(options.env.clone(), &options.data_dir).clear()?;
        engine.set_read_lock_limits(&read_lock_limits(&options.config));
        engine.set_tuning(tuning(&options.config));
        let park = ThreadPark::new();
        let mut map = bootstrap::read_boot_map_if_any(&engine)?;
        if !map.contains_key(&bootstrap::POSTGRES) {
            // A new cluster, or one whose making was cut short before its last step.
            if map.is_empty() {
                let host = BootHost { env: &*options.env };
                let random_state = Cell::new([1, 2]);
                let format = FormatSettings::default();
                let eval = EvalContext {
                    format: &format,
                    transaction_timestamp: 0,
                    statement_timestamp: 0,
                    host: &host,
                    random_state: &random_state,
                    clock_was_read: None,
                };
                bootstrap::create_cluster(&engine, &eval, &park)?;
                map = bootstrap::read_boot_map(&engine)?;
            }
        }
        let template = bootstrap::open_store(&engine, &map, bootstrap::TEMPLATE1)?;
        let cluster = Arc::new(Cluster {
            engine,
            start_unix_micros: options.env.unix_micros(),
            env: options.env,
            data_dir: options.data_dir,
            helpers,
            statistics: Statistics::new(options.workers),
            slow_statements: SlowStatements::default(),
            command_line: options.config.clone(),
            settings: RwLock::new(Arc::new(options.config)),
            databases: Mutex::new(HashMap::new()),
            template,
            sessions: SessionRegistry::default(),
            role_directory: RoleDirectory::default(),
            authentication: Authentication::default(),
            exports: Default::default(),
            notifications: Default::default(),
            oids: Mutex::new(OidRange { next: 0, limit: 0 }),
            log: options.log,
            reload_hooks: Mutex::default(),
        });
        cluster.resume_statistics();
        let is_new = !map.contains_key(&bootstrap::POSTGRES);
        Ok((cluster, is_new.then_some(map)))
    }

    /// What has OIDs of the system is made while `make` runs: its views.
    pub fn with_system_oids<R>(&self, make: impl FnOnce() -> R) -> R {
        let range = OidRange { next: bootstrap::FIRST_VIEW_OID, limit: kilndb_catalog::builtin::FIRST_EXTENSION_OID };
        *locked(&self.oids) = range;
        let made = make();
        *locked(&self.oids) = OidRange { next: 0, limit: 0 };
        made
    }

    /// The databases that a new cluster has besides template1, which has its views by now.
    pub fn complete(&self, map: &BootMap, park: &ThreadPark) -> Result<()> {
        bootstrap::create_initial_databases(&self.engine, &self.template, map, park)?;
        self.engine.checkpoint(park)
    }

    /// All databases, those that take no connections included.
    pub fn all_databases(&self) -> Result<Vec<Arc<Database>>> {
        let mut txn = self.engine.begin(Isolation::ReadCommitted, 0);
        let snapshot = txn.take_snapshot();
        let rows = self.template.scan(PG_DATABASE, &snapshot)?;
        rows.iter().map(|row| self.database_of_row(row)).collect()
    }

    pub fn shutdown(&self) -> Result<()> {
        if let Err(e) = self.keep_statistics() {
            // They are lost, as they are in a crash.
            self.log(Severity::Warning, &format!("could not keep the statistics of use: {e}"));
        }
        self.engine.shutdown()
    }

    fn statistics_path(&self) -> PathBuf {
        self.data_dir.join("statistics")
    }
    /// Writes the counters for the next start. A file that is not whole is recognized as such.
    fn keep_statistics(&self) -> std::io::Result<()> {
        let file = self.env.open(&self.statistics_path(), OpenMode::Truncate)?;
        file.write_at(&self.statistics.to_stored().to_bytes(), 0)?;
        file.sync_data()
    }
    /// Reads what an orderly stop has left. After a crash there is nothing: the file goes before anything is counted.
    fn resume_statistics(&self) {
        let path = self.statistics_path();
        let read = || {
            let file = self.env.open(&path, OpenMode::ReadOnly)?;
            let mut bytes = vec![0; file.len()? as usize];
            let filled = file.read_at(&mut bytes, 0)?;
            bytes.truncate(filled);
            self.env.remove_file(&path)?;
            std::io::Result::Ok(bytes)
        };
        if let Some(stored) = read().ok().as_deref().and_then(StoredStatistics::from_bytes) {
            self.statistics.resume(stored);
        }
    }
    pub fn log(&self, severity: Severity, message: &str) {
        self.log.tell(severity, message);
    }
    pub fn log_sink(&self) -> &dyn LogSink {
        &*self.log
    }
    pub fn sessions(&self) -> &SessionRegistry {
        &self.sessions
    }
    pub fn max_connections(&self) -> usize {
        self.settings().number("max_connections") as usize
    }
    pub fn settings(&self) -> Arc<ServerSettings> {
        self.settings.read().unwrap_or_else(|e| e.into_inner()).clone()
    }
    /// Re-reads the files (pg_reload_conf); what needs a restart keeps its value.
    pub fn reload_settings(&self) -> Result<()> {
        // One at a time: what was read last is what holds.
        let hooks = locked(&self.reload_hooks);
        let fresh = ServerSettings::read(&self.data_dir, &[])?;
        let merged = self.command_line.reloaded(&fresh);
        self.engine.set_read_lock_limits(&read_lock_limits(&merged));
        self.engine.set_tuning(tuning(&merged));
        self.log.configure(&merged);
        self.authentication.reload(&*self.env, &merged, &*self.log);
        let merged = Arc::new(merged);
        *self.settings.write().unwrap_or_else(|e| e.into_inner()) = merged.clone();
        hooks.iter().for_each(|hook| hook(&merged));
        Ok(())
    }
    /// From now on `hook` is told of the settings each time they have been read again. It must not read them again itself.
    pub fn on_reload(&self, hook: ReloadHook) {
        locked(&self.reload_hooks).push(hook);
    }

    /// A new OID, never given before in this cluster.
    pub fn next_oid(&self) -> Result<Oid> {
        let mut range = locked(&self.oids);
        if range.next == range.limit {
            let counter = self.engine.relation(bootstrap::OID_COUNTER)?;
            let (first, _) = counter.cell_modify(&mut |bytes| {
                let known = bytes.first_chunk::<4>().map(|b| u32::from_le_bytes(*b));
                let mut first = known.ok_or_else(|| Error::corrupted("the OID counter is empty"))?;
                if first + OID_BATCH > TEMPORARY_OIDS.start && first < TEMPORARY_OIDS.end {
                    first = TEMPORARY_OIDS.end;
                }
                bytes.clear();
                bytes.extend_from_slice(&(first + OID_BATCH).to_le_bytes());
                Ok((first, true))
            })?;
            *range = OidRange { next: first, limit: first + OID_BATCH };
        }
        range.next += 1;
        Ok(range.next - 1)
    }

    /// The roles as they are now, with their version.
    pub fn roles(&self) -> Result<(u64, Arc<Roles>)> {
        self.role_directory.roles(|| {
            let mut txn = self.engine.begin(Isolation::ReadCommitted, 0);
            self.read_roles(&txn.take_snapshot())
        })
    }
    /// The roles as the snapshot sees them.
    pub fn read_roles(&self, snapshot: &Snapshot) -> Result<Roles> {
        Roles::read(&self.template, snapshot)
    }

    /// The row of pg_database of that name.
    pub fn database_row(&self, name: &str) -> Result<Option<CatalogRow>> {
        let mut txn = self.engine.begin(Isolation::ReadCommitted, 0);
        let snapshot = txn.take_snapshot();
        Ok(self.template.lookup(PG_DATABASE, PG_DATABASE_DATNAME_INDEX, &[Datum::text(name)], &snapshot)?.pop())
    }

    /// Who may set a parameter that only superusers may set else; None: nobody has granted it.
    pub fn parameter_privileges(&self, name: &str) -> Result<Option<Privileges>> {
        let mut txn = self.engine.begin(Isolation::ReadCommitted, 0);
        let snapshot = txn.take_snapshot();
        let key = [Datum::text(name.to_ascii_lowercase())];
        let row = self.template.lookup(PG_PARAMETER_ACL, PG_PARAMETER_ACL_PARNAME_INDEX, &key, &snapshot)?.pop();
        Ok(row.map(|row| Privileges {
            kind: SecuredKind::Parameter,
            owner: BOOTSTRAP_SUPERUSER,
            list: row.grants("paracl"),
        }))
    }

    pub fn role_row(&self, name: &str) -> Result<Option<CatalogRow>> {
        let mut txn = self.engine.begin(Isolation::ReadCommitted, 0);
        let snapshot = txn.take_snapshot();
        Ok(self.template.lookup(PG_AUTHID, PG_AUTHID_ROLNAME_INDEX, &[Datum::text(name)], &snapshot)?.pop())
    }

    pub fn role_name(&self, oid: Oid) -> Result<Option<String>> {
        let mut txn = self.engine.begin(Isolation::ReadCommitted, 0);
        let snapshot = txn.take_snapshot();
        let row = self.template.lookup(PG_AUTHID, PG_AUTHID_OID_INDEX, &[Datum::Oid(oid)], &snapshot)?.pop();
        Ok(row.and_then(|r| r.text("rolname").map(str::to_string)))
    }

    /// Whether `role` is a member of `of`, directly or not. Unknown roles are members of nothing.
    pub fn is_member(&self, role: &str, of: &str) -> Result<bool> {
        let (_, roles) = self.roles()?;
        let (Some(role), Some(of)) = (roles.named(role), roles.named(of)) else { return Ok(false) };
        Ok(roles.seen_from(0).is_member_by_row(role.oid, of.oid))
    }

    /// What the superuser that the cluster began with is called, and what his password is kept as.
    pub fn set_first_superuser(&self, name: &str, verifier: Option<&str>, park: &ThreadPark) -> Result<()> {
        bootstrap::set_first_superuser(&self.engine, &self.template, name, verifier, park)?;
        self.role_directory.forget();
        Ok(())
    }

    /// Settings of ALTER ROLE and ALTER DATABASE for a session, by PostgreSQL's words for their sources; what stands
    /// later wins.
    pub fn stored_settings(&self, database: Oid, role: Oid) -> Result<Vec<(&'static str, Vec<String>)>> {
        let mut txn = self.engine.begin(Isolation::ReadCommitted, 0);
        let snapshot = txn.take_snapshot();
        let mut found = Vec::new();
        for (database, role, source) in
            [(0, 0, "global"), (database, 0, "database"), (0, role, "user"), (database, role, "database user")]
        {
            let key = [Datum::Oid(database), Datum::Oid(role)];
            for row in
                self.template.lookup(PG_DB_ROLE_SETTING, PG_DB_ROLE_SETTING_DATABASE_ROLE_INDEX, &key, &snapshot)?
            {
                found.push((source, row.texts("setconfig")));
            }
        }
        Ok(found)
    }

    pub fn open_database(&self, name: &str) -> Result<Arc<Database>> {
        let missing = || Error::new(sqlstate::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"));
        let row = self.database_row(name)?.ok_or_else(missing)?;
        if !row.bool("datallowconn") {
            return Err(Error::new(
                sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("database \"{name}\" is not currently accepting connections"),
            ));
        }
        self.database_of_row(&row)
    }

    fn database_of_row(&self, row: &CatalogRow) -> Result<Arc<Database>> {
        let (oid, name) = (row.oid("oid"), row.text("datname").unwrap_or(""));
        if let Some(open) = locked(&self.databases).get(&oid) {
            return Ok(open.clone());
        }
        let map = bootstrap::read_boot_map(&self.engine)?;
        let store = bootstrap::open_store(&self.engine, &map, oid)?;
        let database = Arc::new(Database::new(oid, name.to_string(), store, self.env.clone(), &self.data_dir));
        Ok(locked(&self.databases).entry(oid).or_insert(database).clone())
    }

    /// A database that somebody has used since the start.
    pub(crate) fn used_database(&self, oid: Oid) -> Option<Arc<Database>> {
        locked(&self.databases).get(&oid).cloned()
    }

    /// After DROP DATABASE or a renaming.
    pub fn forget_database(&self, oid: Oid) {
        locked(&self.databases).remove(&oid);
        self.statistics.forget_database(oid);
    }
}

/// Everybody who is connected.
#[derive(Default)]
pub struct SessionRegistry {
    sessions: Mutex<HashMap<i32, Arc<SessionControl>>>,
}

impl SessionRegistry {
    pub fn add(&self, control: Arc<SessionControl>) {
        locked(&self.sessions).insert(control.process_id, control);
    }
    pub fn remove(&self, process_id: i32) {
        locked(&self.sessions).remove(&process_id);
    }
    pub fn get(&self, process_id: i32) -> Option<Arc<SessionControl>> {
        locked(&self.sessions).get(&process_id).cloned()
    }
    /// How many sessions `is_counted` says yes of.
    pub fn count(&self, is_counted: impl Fn(&Activity) -> bool) -> usize {
        self.all().iter().filter(|c| is_counted(&locked(&c.activity))).count()
    }
    /// Ordered by process id.
    pub fn all(&self) -> Vec<Arc<SessionControl>> {
        let mut all: Vec<_> = locked(&self.sessions).values().cloned().collect();
        all.sort_by_key(|c| c.process_id);
        all
    }
}
