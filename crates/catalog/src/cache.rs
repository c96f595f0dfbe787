//! Catalog objects built from the system tables' rows, kept until a DDL transaction commits.
//!
//! Invariants
//! 1. The shared cache holds what is committed. A transaction that has done DDL reads through a cache of its own,
//!    without what it has changed ([`Changes`]), nor what others have since.
//! 2. A DDL transaction's commit replaces the shared cache ([`Database::publish`]) by one without what it has changed;
//!    while one is committing nobody fills or reads the shared cache.
//! 3. Objects are immutable: a plan may hold them for as long as its catalog version is current.
//! 4. Temporary objects, and tables with a session's own storage, are in the session's own cache alone
//!    ([`TemporaryCatalog::cache`]).

use super::builtin::{BUILTINS, FIRST_USER_OID, PG_CATALOG};
use super::catalog_row::CatalogRow;
pub use super::changes::PlanDependencies;
use super::changes::{ChangeLog, Changes};
use super::collation_read::CollationInfo;
use super::column_statistics::FormerStatistics;
use super::extension::is_member;
use super::global::{GLOBAL, GlobalTableInstances};
use super::ids::*;
use super::known_partitions::{CachedPartition, PartitionMapCache, SharedPartitions};
use super::model::*;
use super::partition::PartitionMap;
use super::planner_settings::PlannerSettings;
use super::privileges::{Privileges, privilege};
use super::roles::Roles;
use super::row_security::{RolePolicies, StatementRole};
use super::secured_objects::SCHEMAS;
use super::store::CatalogStore;
use super::temporary::{self, TemporaryCatalog, is_temporary};
use kilndb_base::hash::{HashMap, HashSet};
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use kilndb_base::sync::{Arc, Mutex, MutexGuard};
use kilndb_base::{Csn, Error, Oid, RelationId, Result, sqlstate};
use kilndb_storage::Snapshot;
use kilndb_types::collation::Collation;
use kilndb_types::{Datum, oids};
use std::cell::Cell;

#[derive(Default)]
pub(super) struct CachedObjects {
    tables: HashMap<Oid, Option<Arc<Table>>>,
    /// Tables whose statistics have changed, with the commit that has done it: who does not see it keeps none here.
    analyzed: HashMap<Oid, Csn>,
    /// The tables of the indexes of `tables`.
    tables_of_indexes: HashMap<Oid, Oid>,
    /// The tables that store rows of a relation's type.
    tables_of_row_types: HashMap<Oid, HashSet<Oid>>,
    table_names: HashMap<(Oid, String), Option<Oid>>,
    types: HashMap<Oid, Option<Arc<TypeInfo>>>,
    type_names: HashMap<(Oid, String), Option<Oid>>,
    schemas: HashMap<String, Option<Oid>>,
    schema_names: HashMap<Oid, Option<String>>,
    pub(super) functions: HashMap<String, Vec<Arc<FunctionInfo>>>,
    pub(super) functions_by_oid: HashMap<Oid, Option<Arc<FunctionInfo>>>,
    pub(super) function_privileges: HashMap<Oid, Option<Privileges>>,
    pub(super) schema_privileges: HashMap<Oid, Option<Privileges>>,
    pub(super) operators: HashMap<String, Vec<Arc<OperatorInfo>>>,
    pub(super) operators_by_oid: HashMap<Oid, Option<Arc<OperatorInfo>>>,
    /// From or to types that extensions bring.
    casts: HashMap<(Oid, Oid), Option<CastInfo>>,
    /// Foreign keys by the table they point at.
    pub(super) referencing: Option<HashMap<Oid, Vec<Arc<ForeignKey>>>>,
    pub(super) partition_maps: HashMap<Oid, Arc<PartitionMap>>,
    /// What is kept of opened partitions: by partition, then by the table that statements name.
    kept_partitions: HashMap<Oid, Vec<Arc<dyn CachedPartition>>>,
    pub(super) text_search_configs: HashMap<Oid, Arc<kilndb_fulltext::Config>>,
    pub(super) text_search_dictionaries: HashMap<Oid, Arc<kilndb_fulltext::Dictionary>>,
}

/// A cache of catalog objects. One is shared by a database's sessions; a session that does DDL has its own. What is
/// read without the lock has no cache line with the count of those who hold it.
#[derive(Default)]
#[repr(align(64))]
pub struct ObjectCache {
    /// DDL has committed since: this one is for statements that began before.
    is_replaced: AtomicBool,
    /// The shared cache's; None: what is in the cache may still change.
    partitions: Option<Box<PartitionMapCache>>,
    /// A session's own: the version of the catalogs that its statement began with. 0: the shared one.
    version: AtomicU64,
    objects: Mutex<CachedObjects>,
}

impl ObjectCache {
    /// A session's own cache is used by a statement that begins now.
    pub fn begin_statement(&self, version: u64) {
        self.version.store(version, Ordering::Relaxed);
    }
    fn is_older_than(&self, version: u64) -> bool {
        let own = self.version.load(Ordering::Relaxed);
        own != 0 && own != version
    }
}

impl CachedObjects {
    fn keep_table(&mut self, oid: Oid, found: &Option<Arc<Table>>) {
        for index in found.iter().flat_map(|table| &table.indexes) {
            self.tables_of_indexes.insert(index.oid, oid);
        }
        for relation in found.iter().flat_map(|table| &table.row_types) {
            self.tables_of_row_types.entry(*relation).or_default().insert(oid);
        }
        self.tables.insert(oid, found.clone());
    }
    /// Forgets everything. The maps keep their room: a session's own cache is emptied after each row that it writes.
    fn clear(&mut self) {
        let CachedObjects {
            tables,
            analyzed,
            tables_of_indexes,
            tables_of_row_types,
            table_names,
            types,
            type_names,
            schemas,
            schema_names,
            functions,
            functions_by_oid,
            function_privileges,
            schema_privileges,
            operators,
            operators_by_oid,
            casts,
            referencing,
            partition_maps,
            kept_partitions,
            text_search_configs,
            text_search_dictionaries,
        } = self;
        tables.clear();
        analyzed.clear();
        tables_of_indexes.clear();
        tables_of_row_types.clear();
        table_names.clear();
        types.clear();
        type_names.clear();
        schemas.clear();
        schema_names.clear();
        functions.clear();
        functions_by_oid.clear();
        function_privileges.clear();
        schema_privileges.clear();
        operators.clear();
        operators_by_oid.clear();
        casts.clear();
        *referencing = None;
        partition_maps.clear();
        kept_partitions.clear();
        text_search_configs.clear();
        text_search_dictionaries.clear();
    }
    /// Tables with other statistics are read anew. What a reader who does not see that commit finds is not kept for
    /// others.
    fn forget_statistics(&mut self, changes: &Changes, csn: Csn) {
        for oid in &changes.statistics {
            let table = *self.tables_of_indexes.get(oid).unwrap_or(oid);
            self.tables.remove(&table);
            self.kept_partitions.remove(&table);
            self.analyzed.insert(table, csn);
        }
    }
    /// Forgets what has changed.
    fn forget(&mut self, changes: &Changes) {
        if changes.everything {
            *self = CachedObjects::default();
            return;
        }
        for oid in &changes.statistics {
            self.tables.remove(oid);
            self.kept_partitions.remove(oid);
        }
        for oid in &changes.objects {
            self.tables.remove(oid);
            self.types.remove(oid);
            self.kept_partitions.remove(oid);
            for user in self.tables_of_row_types.remove(oid).into_iter().flatten() {
                self.tables.remove(&user);
                self.kept_partitions.remove(&user);
            }
        }
        for name in &changes.names {
            self.table_names.remove(name);
            self.type_names.remove(name);
        }
        for table in &changes.maps {
            self.partition_maps.remove(table);
        }
        if changes.foreign_keys {
            self.referencing = None;
        }
        for index in changes.indexes.iter().chain(&changes.statistics) {
            if let Some(table) = self.tables_of_indexes.get(index) {
                self.tables.remove(table);
                self.kept_partitions.remove(table);
            }
        }
    }
}

impl ObjectCache {
    /// What a transaction that begins to change catalogs need not read again.
    pub fn copy(&self) -> ObjectCache {
        let known = self.lock();
        let objects = CachedObjects {
            tables: known.tables.clone(),
            tables_of_indexes: known.tables_of_indexes.clone(),
            tables_of_row_types: known.tables_of_row_types.clone(),
            types: known.types.clone(),
            schemas: known.schemas.clone(),
            schema_names: known.schema_names.clone(),
            referencing: known.referencing.clone(),
            partition_maps: known.partition_maps.clone(),
            ..CachedObjects::default()
        };
        ObjectCache { objects: Mutex::new(objects), ..ObjectCache::default() }
    }
    /// What is shared by sessions: objects once known stay, until another cache takes its place.
    fn shared(objects: CachedObjects) -> ObjectCache {
        ObjectCache { objects: Mutex::new(objects), partitions: Some(Box::default()), ..ObjectCache::default() }
    }
    pub fn forget(&self, changes: &Changes) {
        self.lock().forget(changes);
    }
    pub(super) fn lock(&self) -> MutexGuard<'_, CachedObjects> {
        self.objects.lock().unwrap_or_else(|e| e.into_inner())
    }
    pub(super) fn clear(&self) {
        self.lock().clear();
    }
}

pub struct Database {
    pub oid: Oid,
    pub name: String,
    pub store: CatalogStore,
    version: AtomicU64,
    /// DDL transactions between their commit record and `publish`. Whoever commits gives its locks back before it
    /// publishes; so a version of the catalogs only tells something if this was zero before the version was read.
    committing: AtomicU64,
    /// A snapshot with this commit sequence number sees all that `shared` may tell of.
    published_csn: AtomicU64,
    shared: Mutex<Arc<ObjectCache>>,
    changes: ChangeLog,
    pub global_users: Arc<GlobalTableInstances>,
    /// Where its sessions' statements put what does not fit in memory.
    pub temp: kilndb_spill::TempSpace,
    pub(super) text_search: super::text_search::TextSearchFiles,
}

impl Database {
    pub fn new(
        oid: Oid,
        name: String,
        store: CatalogStore,
        env: Arc<dyn kilndb_base::env::Env>,
        data_dir: &std::path::Path,
    ) -> Database {
        Database {
            oid,
            name,
            store,
            version: AtomicU64::new(1),
            committing: AtomicU64::new(0),
            published_csn: AtomicU64::new(0),
            shared: Mutex::new(Arc::new(ObjectCache::shared(CachedObjects::default()))),
            changes: ChangeLog::default(),
            global_users: Arc::default(),
            temp: kilndb_spill::TempSpace::new(env.clone(), data_dir),
            text_search: super::text_search::TextSearchFiles::new(env, data_dir),
        }
    }
    /// The table whose rows are in this storage, if sessions have used it lately.
    pub fn table_of_storage(&self, storage: RelationId) -> Option<Oid> {
        let shared = self.shared.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let objects = shared.lock();
        objects.tables.values().flatten().find(|table| table.storage == storage).map(|table| table.oid)
    }
    /// Changes whenever a cached object may have changed.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    /// The version that holds now; None while a DDL transaction commits: its changes may be visible, and its locks
    /// given back, while the version does not tell of them yet.
    #[inline]
    pub fn settled_version(&self) -> Option<u64> {
        // In this order: a transaction that has published meanwhile has moved the version before.
        (self.committing.load(Ordering::SeqCst) == 0).then(|| self.version())
    }
    /// True if plans and objects of `version` are still right.
    #[inline]
    pub fn is_current(&self, version: u64) -> bool {
        self.settled_version() == Some(version)
    }
    /// True if what is read of the catalogs with that snapshot is no older than what sessions share.
    pub fn is_recent(&self, snapshot: &Snapshot) -> bool {
        snapshot.csn().0 >= self.published_csn.load(Ordering::SeqCst)
    }
    pub fn begin_publish(&self) {
        self.committing.fetch_add(1, Ordering::SeqCst);
    }
    /// After the commit of a transaction that has done DDL (or its failure). `csn`: no older than the commit. `own`: its
    /// cache, and the version that this was of.
    pub fn publish(&self, changes: Changes, csn: Csn, own: Option<(&ObjectCache, u64)>) {
        self.published_csn.fetch_max(csn.0, Ordering::SeqCst);
        let mut shared = self.shared.lock().unwrap_or_else(|e| e.into_inner());
        shared.is_replaced.store(true, Ordering::Release);
        let mut objects = std::mem::take(&mut *shared.lock());
        objects.forget(&changes);
        // Maps that the transaction knows, if nobody else can have changed them meanwhile.
        if let Some((own, version)) = own
            && version == self.version()
            && self.committing.load(Ordering::SeqCst) == 1
            && !changes.everything
        {
            let own = own.lock();
            let known =
                changes.maps.iter().filter_map(|oid| own.partition_maps.get(oid).map(|map| (*oid, map.clone())));
            objects.partition_maps.extend(known);
        }
        *shared = Arc::new(ObjectCache::shared(objects));
        self.tell_of_version(changes);
        self.committing.fetch_sub(1, Ordering::SeqCst);
    }
    /// The next version, which whoever sees it finds in the log: what a thread that gives way to others has not written
    /// yet would make all of them plan anew. The shared cache is locked.
    fn tell_of_version(&self, changes: Changes) {
        let version = self.version() + 1;
        self.changes.push(version, Arc::new(changes));
        self.version.store(version, Ordering::SeqCst);
    }
    /// What has changed between two versions; None: too much to tell.
    pub fn changes_between(&self, from: u64, to: u64) -> Option<Vec<Arc<Changes>>> {
        self.changes.between(from, to)
    }
    /// As [`Database::publish`], without [`Database::begin_publish`], after a transaction that has changed nothing but
    /// statistics. Nobody need wait for them, and all else that is shared stays, so that tables that are analyzed one
    /// after another cost others nothing.
    pub fn publish_statistics(&self, changes: Changes, csn: Csn) {
        let shared = self.shared.lock().unwrap_or_else(|e| e.into_inner());
        shared.lock().forget_statistics(&changes, csn);
        self.tell_of_version(changes);
    }
    /// The version that a plan of `version` is still right for, by the objects and names that it uses. None: it is
    /// stale, or definitions are being changed.
    #[inline]
    pub fn still_fits(&self, version: u64, objects: &[Oid], names: &[String]) -> Option<u64> {
        let now = self.settled_version()?;
        if now == version || planted::is(PlantedBug::PlanNeverStale) {
            return Some(now);
        }
        let changes = self.changes.between(version, now)?;
        (!changes.iter().any(|c| c.concerns(objects, names))).then_some(now)
    }
    /// As [`Database::still_fits`], of a plan whose tables may have other statistics now.
    pub fn is_defined_alike(&self, version: u64, objects: &[Oid], names: &[String]) -> Option<u64> {
        let now = self.settled_version()?;
        let changes = self.changes.between(version, now)?;
        (!changes.iter().any(|c| c.redefines(objects, names))).then_some(now)
    }
    /// The shared cache with its version, or none while a DDL transaction commits.
    pub fn shared_cache(&self) -> Option<(Arc<ObjectCache>, u64)> {
        let shared = self.shared.lock().unwrap_or_else(|e| e.into_inner());
        self.settled_version().map(|version| (shared.clone(), version))
    }
}

/// The catalogs as one statement sees them.
pub struct CatalogReader<'a> {
    pub database: &'a Database,
    pub snapshot: &'a Snapshot,
    pub cache: &'a ObjectCache,
    /// OIDs of the schemas searched, pg_catalog included where it stands.
    pub search_path: &'a [Oid],
    /// Schema for new objects, if any on the path exists.
    pub creation_schema: Option<&'a str>,
    /// The session's temporary objects; found under the names that stand without a schema.
    pub temporary: &'a TemporaryCatalog,
    /// While a statement is planned.
    pub asked: Option<&'a PlanDependencies>,
    /// Statistics as they were, for a plan as it was.
    pub former: Option<&'a FormerStatistics>,
    pub switches: PlannerSettings,
    /// Who looks, if there are schemas that it may not look into.
    pub user: Option<&'a SchemaUser>,
    /// Who runs the statement; None: nobody does, and row security counts for nobody.
    pub role: Option<&'a dyn StatementRole>,
}

/// A role that is no superuser, for the question which schemas it may use.
pub struct SchemaUser {
    pub role: Oid,
    pub roles: Arc<Roles>,
    /// What is read is no text of the user's.
    pub is_trusting: Cell<bool>,
}

impl CatalogReader<'_> {
    pub(super) fn store(&self) -> &CatalogStore {
        &self.database.store
    }

    /// Rows of a system table by the first columns of an index, the session's own among them.
    pub fn lookup(&self, table: Oid, index: Oid, key: &[Datum]) -> Result<Vec<CatalogRow>> {
        temporary::lookup(self.store(), self.temporary, table, index, key, self.snapshot)
    }
    pub fn scan(&self, table: Oid) -> Result<Vec<CatalogRow>> {
        temporary::scan(self.store(), self.temporary, table, self.snapshot)
    }
    /// What `pg_temp` means for this session.
    pub fn temporary_schema(&self) -> Option<Oid> {
        self.temporary.schema()
    }
    /// Where the object of that OID is kept: what is temporary never gets into a cache that others see.
    pub(super) fn objects(&self, oid: Oid) -> MutexGuard<'_, CachedObjects> {
        if is_temporary(oid) { self.temporary.cache().lock() } else { self.cache.lock() }
    }

    pub fn schema_oid(&self, name: &str) -> Result<Option<Oid>> {
        if name.starts_with("pg_temp") {
            if name == "pg_temp" {
                return Ok(self.temporary_schema());
            }
            let own = self.temporary.lookup(PG_NAMESPACE, PG_NAMESPACE_NSPNAME_INDEX, &[Datum::text(name)])?;
            if let Some(row) = own.first() {
                return Ok(Some(row.oid("oid")));
            }
        }
        if let Some(found) = self.cache.lock().schemas.get(name) {
            return Ok(*found);
        }
        let rows = self.lookup(PG_NAMESPACE, PG_NAMESPACE_NSPNAME_INDEX, &[Datum::text(name)])?;
        let oid = rows.first().map(|r| r.oid("oid"));
        self.cache.lock().schemas.insert(name.to_string(), oid);
        Ok(oid)
    }

    pub fn schema_name(&self, oid: Oid) -> Result<Option<String>> {
        if let Some(found) = self.objects(oid).schema_names.get(&oid) {
            return Ok(found.clone());
        }
        let rows = self.lookup(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &[Datum::Oid(oid)])?;
        let name = rows.first().and_then(|r| r.text("nspname")).map(str::to_string);
        self.objects(oid).schema_names.insert(oid, name.clone());
        Ok(name)
    }

    /// Owner and grants of a schema.
    pub fn schema_privileges(&self, oid: Oid) -> Result<Option<Privileges>> {
        if let Some(found) = self.objects(oid).schema_privileges.get(&oid) {
            return Ok(found.clone());
        }
        let rows = self.lookup(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &[Datum::Oid(oid)])?;
        let found = rows.first().map(|row| SCHEMAS.privileges(row));
        self.objects(oid).schema_privileges.insert(oid, found.clone());
        Ok(found)
    }

    /// The relation of that name in that schema, whatever its kind.
    pub fn relation_oid(&self, schema: Oid, name: &str) -> Result<Option<Oid>> {
        let key = (schema, name.to_string());
        if let Some(found) = self.objects(schema).table_names.get(&key) {
            return Ok(*found);
        }
        let rows = self.lookup(PG_CLASS, PG_CLASS_RELNAME_NSP_INDEX, &[Datum::text(name), Datum::Oid(schema)])?;
        let oid = rows.first().map(|r| r.oid("oid"));
        self.objects(schema).table_names.insert(key, oid);
        Ok(oid)
    }

    /// Schemas to search for a name: the one given, or the path (temporary objects first for relations and types).
    pub fn schemas_to_search(&self, schema: Option<&str>, temporary_first: bool) -> Result<Vec<Oid>> {
        match schema {
            Some(name) => {
                let found = self.schema_oid(name)?;
                if let Some(schema) = found {
                    self.refuse_schema(schema, name)?;
                }
                Ok(found.into_iter().collect())
            }
            None => {
                // Unless the path itself says where temporary objects come.
                let temp = self.temporary_schema().filter(|t| temporary_first && !self.search_path.contains(t));
                // Functions and operators are never looked for in it.
                let path = self.search_path.iter().copied().filter(|s| temporary_first || !is_temporary(*s));
                Ok(temp.into_iter().chain(path).collect())
            }
        }
    }

    /// 42501 unless the role may use a schema that is named. A plan notes that it was, for others who may run it.
    fn refuse_schema(&self, schema: Oid, name: &str) -> Result<()> {
        if is_temporary(schema) {
            return Ok(());
        }
        if let Some(asked) = self.asked.filter(|asked| !asked.is_trusting.get()) {
            asked.schemas.borrow_mut().insert(schema);
        }
        if self.may_use_schema(schema)? {
            return Ok(());
        }
        let message = format!("permission denied for schema {name}");
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message))
    }

    /// Whether the role may look for objects in a schema.
    pub fn may_use_schema(&self, schema: Oid) -> Result<bool> {
        let user = self.user.filter(|user| !is_temporary(schema) && !user.is_trusting.get());
        let Some(user) = user else { return Ok(true) };
        let Some(privileges) = self.schema_privileges(schema)? else { return Ok(true) };
        Ok(privileges.has_all(user.role, privilege::USAGE, user.roles.seen_from(self.database.oid)))
    }

    pub(super) fn note_asked(&self, schema: Option<&str>, name: &str) {
        if let Some(asked) = self.asked.filter(|_| schema.is_none()) {
            let mut asked = asked.names.borrow_mut();
            if !asked.iter().any(|known| known == name) {
                asked.push(name.to_string());
            }
        }
    }

    /// A global temporary table with this session's storage; anything else as it is.
    fn own_instance(&self, found: Option<Arc<Table>>) -> Result<Option<Arc<Table>>> {
        let Some(shared) =
            found.as_ref().filter(|t| t.persistence == GLOBAL && matches!(t.kind, TableKind::Table | TableKind::Index))
        else {
            return Ok(found);
        };
        if let Some(asked) = self.asked {
            asked.is_private.set(true);
        }
        let known = self.temporary.cache().lock().tables.get(&shared.oid).cloned();
        if let Some(own) = known {
            return Ok(own);
        }
        let own = Some(Arc::new(self.temporary.instance_of(shared)?));
        if shared.kind == TableKind::Index {
            return Ok(own);
        }
        self.temporary.cache().lock().keep_table(shared.oid, &own);
        Ok(own)
    }

    pub(super) fn note_found(&self, oid: Oid) {
        let Some(asked) = self.asked else { return };
        if is_temporary(oid) {
            asked.is_private.set(true);
        } else if oid >= FIRST_USER_OID {
            asked.objects.borrow_mut().insert(oid);
        }
    }

    /// What a table that is found consists of.
    fn note_parts(&self, found: &Option<Arc<Table>>) {
        let Some(table) = found.as_ref().filter(|_| self.asked.is_some()) else { return };
        table.indexes.iter().for_each(|index| self.note_found(index.oid));
        table.row_types.iter().for_each(|relation| self.note_found(*relation));
        if let Some(asked) = self.asked
            && let Some(tables) = &mut *asked.tables.borrow_mut()
            && !tables.iter().any(|known| known.oid == table.oid)
        {
            tables.push(table.clone());
        }
    }

    pub fn find_relation(&self, schema: Option<&str>, name: &str) -> Result<Option<Oid>> {
        self.note_asked(schema, name);
        for schema in self.schemas_to_search(schema, true)? {
            if let Some(oid) = self.relation_oid(schema, name)? {
                self.note_found(oid);
                return Ok(Some(oid));
            }
        }
        Ok(None)
    }

    pub fn class_row(&self, oid: Oid) -> Result<Option<CatalogRow>> {
        let mut rows = self.lookup(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(oid)])?;
        Ok(rows.pop())
    }
}

/// Several expressions in one text column are kept apart by this.
pub const EXPRESSION_SEPARATOR: char = '\u{1f}';

pub fn split_expressions(text: &str) -> Vec<String> {
    text.split(EXPRESSION_SEPARATOR).map(str::to_string).collect()
}

impl CatalogView for CatalogReader<'_> {
    fn planner_settings(&self) -> PlannerSettings {
        self.switches
    }
    fn database_name(&self) -> &str {
        &self.database.name
    }
    fn table_by_name(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        match self.find_relation(schema, name)? {
            Some(oid) => self.table_by_oid(oid),
            None => Ok(None),
        }
    }

    fn table_by_oid(&self, oid: Oid) -> Result<Option<Arc<Table>>> {
        self.note_found(oid);
        let known = self.objects(oid).tables.get(&oid).cloned();
        if let Some(known) = known {
            self.note_parts(&known);
            return self.own_instance(known);
        }
        let found = match BUILTINS.tables.iter().find(|t| t.oid == oid) {
            Some(system) => Some(self.system_table(system)?),
            None => self.load_table(oid)?,
        };
        self.note_parts(&found);
        let mut objects = self.objects(oid);
        if objects.analyzed.get(&oid).is_none_or(|csn| self.snapshot.csn() >= *csn) {
            objects.keep_table(oid, &found);
        }
        drop(objects);
        self.own_instance(found)
    }

    fn column_statistics(
        &self,
        table: &Table,
        attnum: i16,
    ) -> Result<Option<Arc<super::column_statistics::ColumnStatistics>>> {
        self.statistics_of(table, table.oid, attnum)
    }
    fn extended_statistics(&self, table: &Table) -> Result<Arc<[super::extended_statistics::ExtendedStatistics]>> {
        self.extended_statistics_of(table)
    }
    fn index_statistics(
        &self,
        table: &Table,
        index: Oid,
        attnum: i16,
    ) -> Result<Option<Arc<super::column_statistics::ColumnStatistics>>> {
        self.statistics_of(table, index, attnum)
    }
    fn counted_size(&self, table: &Table) -> CountedSize {
        self.former.and_then(|former| former.table(table.oid)).map_or(table.counted_size(), |was| was.counted_size())
    }
    fn schema_exists(&self, name: &str) -> Result<bool> {
        Ok(self.schema_oid(name)?.is_some())
    }

    fn type_by_name(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<TypeInfo>>> {
        self.note_asked(schema, name);
        for schema in self.schemas_to_search(schema, true)? {
            if schema == PG_CATALOG {
                if let Some(oid) = BUILTINS.types_by_name.get(name) {
                    return Ok(BUILTINS.types.get(oid).cloned());
                }
                continue;
            }
            let key = (schema, name.to_string());
            let known = self.objects(schema).type_names.get(&key).copied();
            let oid = match known {
                Some(known) => known,
                None => {
                    let key_values = [Datum::text(name), Datum::Oid(schema)];
                    let rows = self.lookup(PG_TYPE, PG_TYPE_TYPNAME_NSP_INDEX, &key_values)?;
                    let oid = rows.first().map(|r| r.oid("oid"));
                    self.objects(schema).type_names.insert(key, oid);
                    oid
                }
            };
            if let Some(oid) = oid {
                return self.type_by_oid(oid);
            }
        }
        Ok(None)
    }

    fn collation_by_name(&self, schema: Option<&str>, name: &str) -> Result<Option<CollationInfo>> {
        self.collation_named(schema, name)
    }
    fn collation_info_by_oid(&self, oid: Oid) -> Result<Option<CollationInfo>> {
        self.collation_info(oid)
    }
    fn collation(&self, oid: Oid) -> Result<Collation> {
        self.collation_of(oid)
    }

    fn type_by_oid(&self, oid: Oid) -> Result<Option<Arc<TypeInfo>>> {
        if let Some(builtin) = BUILTINS.types.get(&oid) {
            return Ok(Some(builtin.clone()));
        }
        self.note_found(oid);
        if let Some(found) = self.objects(oid).types.get(&oid) {
            return Ok(found.clone());
        }
        let rows = self.lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(oid)])?;
        let found = rows.first().map(|r| self.load_type(r).map(Arc::new)).transpose()?;
        self.objects(oid).types.insert(oid, found.clone());
        Ok(found)
    }

    fn functions(&self, schema: Option<&str>, name: &str) -> Result<Vec<Arc<FunctionInfo>>> {
        self.functions_named(schema, name)
    }

    fn function_by_oid(&self, oid: Oid) -> Result<Option<Arc<FunctionInfo>>> {
        self.function(oid)
    }

    fn is_for_superuser(&self) -> bool {
        self.user.is_none()
    }
    fn row_policies(&self, table: &Table, check_as: Option<Oid>) -> Result<RolePolicies> {
        self.policies_for(table, check_as)
    }
    fn trust_names(&self, is_trusting: bool) -> bool {
        let before = self.asked.map(|asked| asked.is_trusting.replace(is_trusting));
        let of_user = self.user.map(|user| user.is_trusting.replace(is_trusting));
        before.or(of_user).unwrap_or(false)
    }

    fn named_schemas(&self) -> Vec<Oid> {
        self.asked.map_or_else(Vec::new, |asked| asked.schemas.borrow().iter().copied().collect())
    }
    fn keep_named_schemas(&self, named: &[Oid]) {
        if let Some(asked) = self.asked {
            asked.schemas.borrow_mut().retain(|schema| named.contains(schema));
        }
    }

    fn function_privileges(&self, oid: Oid) -> Result<Option<Privileges>> {
        self.restricted_function(oid)
    }

    fn operators(&self, schema: Option<&str>, name: &str) -> Result<Vec<Arc<OperatorInfo>>> {
        self.operators_named(schema, name)
    }

    fn operator_by_oid(&self, oid: Oid) -> Result<Option<Arc<OperatorInfo>>> {
        self.operator(oid)
    }

    fn cast(&self, source: Oid, target: Oid) -> Result<Option<CastInfo>> {
        if source >= FIRST_USER_OID
            && let Some(range) = self.type_by_oid(source)?.and_then(|t| t.range)
            && (range.oid, range.multirange) == (source, target)
        {
            return self.load_cast(source, target);
        }
        if is_member(source) || is_member(target) {
            if let Some(found) = self.cache.lock().casts.get(&(source, target)) {
                return Ok(*found);
            }
            let found = self.load_cast(source, target)?;
            self.cache.lock().casts.insert((source, target), found);
            return Ok(found);
        }
        Ok(BUILTINS.casts.get(&(source, target)).copied())
    }

    fn ordering_operators(&self, type_oid: Oid) -> Result<Option<OrderingOperators>> {
        if let Some(found) = BUILTINS.orderings.get(&type_oid) {
            return Ok(Some(*found));
        }
        // Types without a class of their own use a binary-compatible or polymorphic one.
        let Some(t) = self.type_by_oid(type_oid)? else { return Ok(None) };
        let stand_in = match t.kind {
            b'd' => return self.ordering_operators(t.base_type),
            b'e' => oids::ANYENUM,
            b'c' => oids::RECORD,
            b'r' => oids::ANYRANGE,
            b'm' => oids::ANYMULTIRANGE,
            _ if t.element != 0 => oids::ANYARRAY,
            _ if type_oid == oids::VARCHAR => oids::TEXT,
            _ if type_oid == oids::CIDR => oids::INET,
            // regclass and its kin are ordered as the OIDs that they are.
            _ if t.schema_oid == PG_CATALOG && t.name.starts_with("reg") => oids::OID,
            _ => return Ok(None),
        };
        Ok(BUILTINS.orderings.get(&stand_in).copied())
    }

    fn btree_strategy(&self, operator: Oid) -> Result<Option<u8>> {
        Ok(BUILTINS.btree_strategies.get(&operator).copied())
    }

    fn has_operator_class(&self, oid: Oid) -> Result<bool> {
        Ok(!self.lookup(PG_OPCLASS, PG_OPCLASS_OID_INDEX, &[Datum::Oid(oid)])?.is_empty())
    }

    fn format_type(&self, oid: Oid, typmod: i32) -> String {
        super::format_type::format_type(self, oid, Some(typmod))
    }

    fn schema_name_of(&self, oid: Oid) -> Option<String> {
        self.schema_name(oid).ok().flatten()
    }

    fn current_schema(&self) -> Option<String> {
        self.creation_schema.map(str::to_string)
    }

    fn transition_table(&self, name: &str) -> Option<(Arc<Table>, bool)> {
        let found = self.temporary.transition_table(name);
        if let (Some(_), Some(asked)) = (&found, self.asked) {
            asked.is_private.set(true);
        }
        found
    }
    fn temporary(&self) -> Option<&TemporaryCatalog> {
        Some(self.temporary)
    }

    fn partition_map(&self, table: Oid) -> Result<Arc<PartitionMap>> {
        self.load_partition_map(table)
    }
    fn shared_partitions(&self, table: Oid) -> Option<&SharedPartitions> {
        let known = self.cache.partitions.as_ref().filter(|_| !is_temporary(table))?;
        known.get(table, || self.load_partition_map(table).ok())
    }
    fn kept_partition(&self, ancestor: Oid, partition: Oid) -> Option<Arc<dyn CachedPartition>> {
        let objects = self.objects(partition);
        objects.kept_partitions.get(&partition)?.iter().find(|kept| kept.ancestor() == ancestor).cloned()
    }
    fn keep_partition(&self, kept: Arc<dyn CachedPartition>) {
        let table = kept.table().clone();
        let mut objects = self.objects(table.oid);
        for index in &table.indexes {
            objects.tables_of_indexes.insert(index.oid, table.oid);
        }
        objects.kept_partitions.entry(table.oid).or_default().push(kept);
    }
    fn table_now(&self, oid: Oid, now: &Snapshot) -> Result<Option<Arc<Table>>> {
        self.read_anew(oid, now)
    }
    fn partition_map_now(&self, table: Oid, now: &Snapshot) -> Result<Arc<PartitionMap>> {
        self.read_map_anew(table, now)
    }
    fn is_stale(&self) -> bool {
        let Some(version) = self.database.settled_version() else { return true };
        self.cache.is_replaced.load(Ordering::Acquire) || self.cache.is_older_than(version)
    }
    fn database_oid(&self) -> Oid {
        self.database.oid
    }
}
