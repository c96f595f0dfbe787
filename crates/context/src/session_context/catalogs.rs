//! The catalogs as a session's transaction sees them: caches of objects, the search path, what look-ups need.
//!
//! Invariants
//! 1. A transaction that has changed the catalogs looks at them through a cache of its own; others share the database's.
//! 2. After each change [`SessionContext::catalog_changed`] is called, so that the next look-up sees it.

use super::{Restriction, SessionContext};
use crate::client::Runtime;
use crate::host::{Environment, Facts};
use kilndb_base::sync::{Arc, Weak};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::builtin::{BOOTSTRAP_SUPERUSER, PG_CATALOG};
use kilndb_catalog::cache::{CatalogReader, ObjectCache, SchemaUser};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::changes::Changes;
use kilndb_catalog::store::{CatalogWriter, WrittenDefinitions};
use kilndb_catalog::{CatalogView, Table, TableKind, temporary};
use kilndb_storage::Snapshot;
use kilndb_syntax::nodes;
use kilndb_types::context::{NoHost, is_self_contained};
use kilndb_types::{Datum, EvalContext};
use std::cell::Cell;

/// The catalogs as a session's transaction sees them.
#[derive(Default)]
pub struct CatalogState {
    /// The open transaction has changed catalogs.
    pub has_ddl: bool,
    /// System views are made with it at the first start.
    pub allow_system_objects: bool,
    /// The database's cache of objects as it was last seen, and its version: most statements find nothing newer.
    /// Sessions that do nothing keep no old one alive.
    seen_cache: Option<(Weak<ObjectCache>, u64)>,
    /// Cache of a transaction with DDL, and the version of the shared catalogs that it goes with.
    pub private_cache: Option<(Arc<ObjectCache>, u64)>,
    /// What the open transaction has changed in the catalogs.
    pub ddl_changes: Changes,
    /// Changes of the catalogs within the open transaction, ever counted on.
    pub own_changes: u64,
    pub path: SearchPath,
}

/// The search path as it was last resolved.
pub struct SearchPath {
    /// The generation of the settings that it is of; 0: it must be resolved again.
    generation: u64,
    /// The latest version of the catalogs that it was found right for.
    version: Cell<u64>,
    /// OIDs of the schemas.
    pub schemas: Arc<[Oid]>,
    /// Where new objects are made.
    creation: Option<Arc<str>>,
}

impl Default for SearchPath {
    fn default() -> SearchPath {
        SearchPath { generation: 0, version: Cell::new(0), schemas: Arc::from([]), creation: None }
    }
}

/// What a change of system tables gives, and the objects whose definitions it has written.
type Written<R> = (Result<R>, WrittenDefinitions);

impl SessionContext {
    /// Changes system tables. What was looked up before is stale afterwards.
    pub fn write_catalog<R>(
        &mut self,
        runtime: &dyn Runtime,
        change: impl FnOnce(&mut CatalogWriter<'_>) -> Result<R>,
    ) -> Result<Written<R>> {
        let txn =
            self.transaction.txn.as_mut().ok_or_else(|| Error::internal("no transaction for a catalog change"))?;
        let mut writer = CatalogWriter {
            temporary: Some(&self.shared.temporary),
            grants_defaults: true,
            ..CatalogWriter::plain(&self.database.store, self.database.oid, txn, runtime)
        };
        let done = change(&mut writer);
        let CatalogWriter { wrote_shared, changes, definitions, .. } = writer;
        if wrote_shared {
            txn.next_command();
            self.catalog_changed(&changes);
        }
        Ok((done, definitions))
    }

    /// The objects a statement may use: the shared cache, or an own one in a transaction with DDL.
    #[inline]
    pub(crate) fn object_cache(&mut self) -> Arc<ObjectCache> {
        self.shared.temporary.settle(self.database.version());
        if !self.catalogs.has_ddl {
            if let Some((cache, version)) = &self.catalogs.seen_cache
                && self.database.is_current(*version)
                && let Some(cache) = cache.upgrade()
            {
                return cache;
            }
            if let Some((cache, version)) = self.database.shared_cache() {
                self.catalogs.seen_cache = Some((Arc::downgrade(&cache), version));
                return cache;
            }
        }
        self.own_cache()
    }

    /// The cache of a transaction with DDL, without what others have changed since; an empty one while others commit
    /// changes, which are not told of yet.
    pub(crate) fn own_cache(&mut self) -> Arc<ObjectCache> {
        let settled = self.database.settled_version();
        if let (Some((cache, version)), Some(now)) = (&mut self.catalogs.private_cache, settled)
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
        self.catalogs.private_cache = Some((cache.clone(), now));
        cache
    }

    /// Catalogs changed within this transaction: what was read before of what has changed is stale.
    pub fn catalog_changed(&mut self, changes: &Changes) {
        if !self.catalogs.has_ddl {
            self.catalogs.private_cache =
                self.database.shared_cache().map(|(cache, version)| (Arc::new(cache.copy()), version));
        }
        self.catalogs.has_ddl = true;
        self.catalogs.ddl_changes.add(changes);
        if let Some((cache, _)) = &self.catalogs.private_cache {
            cache.forget(changes);
        }
        if changes.roles {
            self.shared.roles.note_changed();
            self.read_own_roles();
        }
        self.shared.temporary.forget_objects();
        self.catalogs.path.generation = 0;
    }

    /// What was read of the catalogs within this transaction is stale: there was a change, or one was taken back.
    pub fn forget_catalog(&mut self) {
        self.catalogs.private_cache = None;
        self.catalogs.own_changes += 1;
        self.read_own_roles();
        self.shared.temporary.forget_objects();
        self.catalogs.path.generation = 0;
    }

    /// The search path must be resolved again.
    pub fn forget_path(&mut self) {
        self.catalogs.path.generation = 0;
    }

    /// A snapshot for catalog look-ups: the newest committed state and the transaction's own changes.
    pub fn catalog_snapshot(&mut self) -> Result<Snapshot> {
        let txn =
            self.transaction.txn.as_mut().ok_or_else(|| Error::internal("no transaction for a catalog look-up"))?;
        if let Some(store) = self.shared.temporary.store() {
            txn.attach(store);
        }
        Ok(txn.catalog_snapshot())
    }

    /// False if search_path or schemas have changed since the path was resolved.
    #[inline]
    pub fn is_path_current(&self) -> bool {
        let (path, now) = (&self.catalogs.path, self.database.version());
        path.generation == self.settings.generation && (path.version.get() == now || self.outlasts(path, now))
    }

    /// Whether no schema has changed between the versions: that would be a change of everything.
    #[cold]
    fn outlasts(&self, path: &SearchPath, now: u64) -> bool {
        let changes = self.database.changes_between(path.version.get(), now);
        let outlasts = changes.is_some_and(|changes| changes.iter().all(|c| !c.everything));
        if outlasts {
            path.version.set(now);
        }
        outlasts
    }

    pub fn search_path(&self) -> Arc<[Oid]> {
        self.catalogs.path.schemas.clone()
    }

    /// Schemas of search_path that exist, pg_catalog in front unless it is named.
    pub(crate) fn resolve_path(&mut self, cache: &Arc<ObjectCache>, snapshot: &Snapshot) -> Result<Arc<[Oid]>> {
        let key = (self.settings.generation, self.database.version());
        if !self.catalogs.has_ddl && self.is_path_current() {
            return Ok(self.catalogs.path.schemas.clone());
        }
        let user = self.schema_user();
        let reader = CatalogReader {
            database: &self.database,
            snapshot,
            cache,
            search_path: &[],
            creation_schema: None,
            temporary: &self.shared.temporary,
            asked: None,
            former: None,
            switches: self.settings.switches,
            user: user.as_ref(),
            role: None,
        };
        let (mut oids, mut creation) = (Vec::new(), None);
        for name in &self.settings.search_path {
            if name == "pg_temp" {
                // There may be no such schema yet.
                creation.get_or_insert_with(|| Arc::from(name.as_str()));
            }
            let name = if name == "$user" { &*self.identity.role_name } else { name.as_str() };
            if let Some(oid) = reader.schema_oid(name)?
                && !oids.contains(&oid)
                && reader.may_use_schema(oid)?
            {
                oids.push(oid);
                creation.get_or_insert_with(|| Arc::from(name));
            }
        }
        if !oids.contains(&PG_CATALOG) {
            oids.insert(0, PG_CATALOG);
        }
        let oids: Arc<[Oid]> = oids.into();
        self.catalogs.path =
            SearchPath { generation: key.0, version: Cell::new(key.1), schemas: oids.clone(), creation };
        Ok(oids)
    }

    /// As [`SessionContext::environment`], looking at the catalogs as of the statement's own snapshot where that is as good.
    pub fn environment_at<'a>(&mut self, snapshot: &Snapshot, runtime: &'a dyn Runtime) -> Result<Environment<'a>> {
        if self.catalogs.has_ddl || self.isolation_name() != "read committed" {
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
    pub fn environment<'a>(&mut self, runtime: &'a dyn Runtime) -> Result<Environment<'a>> {
        let cache = self.object_cache();
        let snapshot = self.catalog_snapshot()?;
        let path = self.resolve_path(&cache, &snapshot)?;
        Ok(self.environment_of(runtime, cache, snapshot, path))
    }

    pub(crate) fn environment_of<'a>(
        &self,
        runtime: &'a dyn Runtime,
        cache: Arc<ObjectCache>,
        snapshot: Snapshot,
        path: Arc<[Oid]>,
    ) -> Environment<'a> {
        Environment {
            shared: self.shared.clone(),
            settings: self.settings.held(),
            session_user: self.identity.session_user.clone(),
            role_name: self.identity.role_name.clone(),
            user: self.schema_user(),
            facts: Facts {
                current_role: self.identity.current_role,
                process_id: self.process_id,
                is_superuser: self.is_superuser(),
                is_restricted: self.identity.restriction == Restriction::Operation,
                read_only: self.is_read_only(),
                deferrable: self.modes().deferrable,
                in_savepoint: !self.transaction.savepoints.is_empty(),
                isolation: self.isolation_name(),
                transaction_timestamp: self.transaction.transaction_timestamp,
                statement_timestamp: self.transaction.statement_timestamp,
            },
            runtime,
            cache,
            snapshot,
            path,
            creation_schema: self.catalogs.path.creation.clone(),
        }
    }

    /// Who looks for objects, unless it may use all schemas.
    fn schema_user(&self) -> Option<SchemaUser> {
        let role = self.identity.current_role;
        if role == BOOTSTRAP_SUPERUSER {
            return None;
        }
        let roles = self.seen_roles()?;
        (!roles.is_superuser(role)).then_some(SchemaUser { role, roles, is_trusting: Cell::new(false) })
    }

    /// Calls `read` with what reading values of `types` needs: the catalogs only if one of them needs them.
    #[inline]
    pub fn with_value_context<R>(
        &mut self,
        mut types: impl Iterator<Item = Oid>,
        runtime: &dyn Runtime,
        read: impl FnOnce(&EvalContext<'_>) -> Result<R>,
    ) -> Result<R> {
        if types.all(is_self_contained) {
            return read(&EvalContext {
                format: &self.settings.format,
                transaction_timestamp: self.transaction.transaction_timestamp,
                statement_timestamp: self.transaction.statement_timestamp,
                host: &NoHost,
                random_state: &self.shared.scratch.random_state,
                clock_was_read: None,
            });
        }
        let environment = self.environment(runtime)?;
        let host = environment.host();
        read(&host.eval())
    }

    /// Rows of a system table as this transaction sees them.
    pub fn catalog_lookup(&mut self, table: Oid, index: Oid, key: &[Datum]) -> Result<Vec<CatalogRow>> {
        // Rows about the session's own objects are nowhere else, and need no snapshot.
        if temporary::names_own(key) {
            return self.shared.temporary.lookup(table, index, key);
        }
        let snapshot = self.catalog_snapshot()?;
        temporary::lookup(&self.database.store, &self.shared.temporary, table, index, key, &snapshot)
    }

    pub fn catalog_scan(&mut self, table: Oid) -> Result<Vec<CatalogRow>> {
        let snapshot = self.catalog_snapshot()?;
        temporary::scan(&self.database.store, &self.shared.temporary, table, &snapshot)
    }

    /// Asks the catalogs.
    pub fn with_catalog<R>(
        &mut self,
        runtime: &dyn Runtime,
        ask: impl FnOnce(&crate::host::StatementHost<'_>) -> Result<R>,
    ) -> Result<R> {
        let environment = self.environment(runtime)?;
        let host = environment.host();
        ask(&host)
    }

    /// The same for texts of definitions, which may name what the role in force may not look for.
    pub fn with_trusted_catalog<R>(
        &mut self,
        runtime: &dyn Runtime,
        ask: impl FnOnce(&crate::host::StatementHost<'_>) -> Result<R>,
    ) -> Result<R> {
        self.with_catalog(runtime, |host| {
            host.reader.trust_names(true);
            ask(host)
        })
    }

    pub fn resolve_type(
        &mut self,
        t: &nodes::TypeName,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<(Oid, i32)> {
        self.with_catalog(runtime, |host| {
            kilndb_bind::Binder::new(&host.reader, source.clone(), Vec::new()).resolve_type(t)
        })
    }

    /// The relation named, of any kind; 42P01 if there is none.
    pub fn relation_of(&mut self, r: &nodes::RangeVar, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        self.find_relation_of(r, runtime)?.ok_or_else(|| missing_relation(r))
    }

    pub fn find_relation_of(&mut self, r: &nodes::RangeVar, runtime: &dyn Runtime) -> Result<Option<Arc<Table>>> {
        kilndb_bind::refuse_other_database(r, &self.database.name)?;
        let (schema, name) = (r.schemaname(), r.relname().unwrap_or(""));
        self.with_catalog(runtime, |host| host.reader.table_by_name(schema, name))
    }

    /// An ordinary table; 42809 for anything else.
    pub fn table_of(&mut self, r: &nodes::RangeVar, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        let table = self.relation_of(r, runtime)?;
        if matches!(table.kind, TableKind::Table | TableKind::Partitioned) {
            return Ok(table);
        }
        Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", table.name)))
    }

    pub fn table_by_oid(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        let found = self.with_catalog(runtime, |host| host.reader.table_by_oid(oid))?;
        found.ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("relation with OID {oid} does not exist")))
    }
}

/// 42P01.
pub fn missing_relation(r: &nodes::RangeVar) -> Error {
    let name = match r.schemaname() {
        Some(schema) => format!("{schema}.{}", r.relname().unwrap_or("")),
        None => r.relname().unwrap_or("").to_string(),
    };
    Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}
