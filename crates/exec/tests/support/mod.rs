//! A catalog of built-in objects and tables made by hand, over a real engine, for tests of the query pipeline.
#![allow(dead_code)]
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_base::{Error, Oid, Result};
use kilndb_catalog::builtin::BUILTINS;
use kilndb_catalog::*;
use kilndb_exec::*;
use kilndb_storage::*;
use kilndb_types::functions::SessionFunction;
use kilndb_types::row::RowDescriptor;
use kilndb_types::{Datum, EvalContext, FormatSettings, io};
use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

pub struct TestCatalog {
    pub tables: HashMap<Oid, Arc<Table>>,
}

impl CatalogView for TestCatalog {
    fn table_by_name(&self, _schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        Ok(self.tables.values().find(|t| t.name == name).cloned())
    }
    fn table_by_oid(&self, oid: Oid) -> Result<Option<Arc<Table>>> {
        Ok(self.tables.get(&oid).cloned())
    }
    fn database_name(&self) -> &str {
        "postgres"
    }
    fn schema_exists(&self, name: &str) -> Result<bool> {
        Ok(matches!(name, "public" | "pg_catalog"))
    }
    fn type_by_name(&self, _schema: Option<&str>, name: &str) -> Result<Option<Arc<TypeInfo>>> {
        Ok(BUILTINS.types_by_name.get(name).and_then(|o| BUILTINS.types.get(o)).cloned())
    }
    fn type_by_oid(&self, oid: Oid) -> Result<Option<Arc<TypeInfo>>> {
        Ok(BUILTINS.types.get(&oid).cloned())
    }
    fn functions(&self, _schema: Option<&str>, name: &str) -> Result<Vec<Arc<FunctionInfo>>> {
        Ok(BUILTINS.functions_by_name.get(name).cloned().unwrap_or_default())
    }
    fn function_by_oid(&self, oid: Oid) -> Result<Option<Arc<FunctionInfo>>> {
        Ok(BUILTINS.functions.get(&oid).cloned())
    }
    fn operators(&self, _schema: Option<&str>, name: &str) -> Result<Vec<Arc<OperatorInfo>>> {
        Ok(BUILTINS.operators_by_name.get(name).cloned().unwrap_or_default())
    }
    fn operator_by_oid(&self, oid: Oid) -> Result<Option<Arc<OperatorInfo>>> {
        Ok(BUILTINS.operators.get(&oid).cloned())
    }
    fn cast(&self, source: Oid, target: Oid) -> Result<Option<CastInfo>> {
        Ok(BUILTINS.casts.get(&(source, target)).copied())
    }
    fn ordering_operators(&self, type_oid: Oid) -> Result<Option<OrderingOperators>> {
        Ok(BUILTINS
            .orderings
            .get(&type_oid)
            .copied()
            .or_else(|| BUILTINS.orderings.get(&25).copied().filter(|_| type_oid == 1043)))
    }
    fn btree_strategy(&self, operator: Oid) -> Result<Option<u8>> {
        Ok(BUILTINS.btree_strategies.get(&operator).copied())
    }
    fn format_type(&self, oid: Oid, _typmod: i32) -> String {
        match oid {
            23 => "integer".into(),
            20 => "bigint".into(),
            16 => "boolean".into(),
            _ => BUILTINS.types.get(&oid).map_or_else(|| oid.to_string(), |t| t.name.clone()),
        }
    }
    fn current_schema(&self) -> Option<String> {
        Some("public".into())
    }
    fn schema_name_of(&self, _oid: Oid) -> Option<String> {
        Some("public".into())
    }
}

struct NoSession;
impl SessionHost for NoSession {
    fn call_function(&self, _: SessionFunction, _: &[Datum], _: &mut CallEnv<'_>) -> Result<Datum> {
        Err(Error::internal("there is no session"))
    }
    fn call_for_rows(&self, _: SessionFunction, _: &[Datum], _: &mut CallEnv<'_>) -> Result<Vec<Vec<Datum>>> {
        Err(Error::internal("there is no session"))
    }
    fn current_user(&self) -> String {
        "postgres".into()
    }
    fn session_user(&self) -> String {
        "postgres".into()
    }
    fn current_database(&self) -> String {
        "postgres".into()
    }
    fn current_schema(&self) -> Option<String> {
        Some("public".into())
    }
}

pub struct Db {
    pub engine: Arc<Engine>,
    pub catalog: TestCatalog,
    next_oid: Oid,
    dir: PathBuf,
    temp: kilndb_spill::TempSpace,
}

impl Drop for Db {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

struct Lines(Vec<String>, Vec<Oid>);
impl RowSink for Lines {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        let list: Vec<String> = values
            .iter()
            .zip(&self.1)
            .map(|(v, t)| {
                if v.is_null() {
                    return "NULL".to_string();
                }
                let catalog = TestCatalog { tables: HashMap::new() };
                let format = FormatSettings::default();
                let cell = Cell::new([1, 2]);
                let host = kilndb_catalog::value_host::CatalogHost(&catalog);
                let eval = EvalContext {
                    format: &format,
                    transaction_timestamp: 0,
                    statement_timestamp: 0,
                    host: &host,
                    random_state: &cell,
                    clock_was_read: None,
                };
                let mut out = Vec::new();
                io::output(*t, v, &mut out, &eval).unwrap();
                String::from_utf8(out).unwrap()
            })
            .collect();
        self.0.push(list.join("|"));
        Ok(())
    }
}

impl Db {
    pub fn new(name: &str) -> Db {
        let dir = std::env::temp_dir().join(format!("kilndb-sql-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let engine = Engine::open(
            Arc::new(OsEnv),
            EngineConfig {
                data_dir: dir.clone(),
                shared_buffers_bytes: 64 << 20,
                huge_pages: true,
                wal_buffers_bytes: 4 << 20,
                max_wal_size_bytes: 256 << 20,
                checkpoint_timeout_s: 300,
                checkpoint_completion_target: 0.9,
                wal_writer_delay_ms: 20,
                startup_progress_interval_ms: 0,
                limits: Default::default(),
                fsync: false,
                accept_lost_log: false,
                workers: 1,
                log: Arc::new(|_, _| ()),
            },
        )
        .unwrap();
        let temp = kilndb_spill::TempSpace::new(Arc::new(OsEnv), &dir);
        Db { engine, catalog: TestCatalog { tables: HashMap::new() }, next_oid: 20000, dir, temp }
    }

    fn oid(&mut self) -> Oid {
        self.next_oid += 1;
        self.next_oid
    }

    /// `columns`: name, type, not null, default. `indexes`: name, columns, unique, primary.
    pub fn table(
        &mut self,
        name: &str,
        columns: &[(&str, &str, bool, Option<&str>)],
        indexes: &[(&str, &[&str], bool, bool)],
    ) {
        let oid = self.oid();
        let mut txn = self.engine.begin(Isolation::ReadCommitted, 0);
        let park = ThreadPark::new();
        let heap = self.engine.create_relation(&mut txn, RelationKind::Heap, Persistence::Logged).unwrap();
        let cols: Vec<Column> = columns
            .iter()
            .enumerate()
            .map(|(i, (n, t, nn, d))| Column {
                name: n.to_string(),
                attnum: i as i16 + 1,
                type_oid: BUILTINS.types_by_name[t],
                typmod: -1,
                collation: Default::default(),
                not_null: *nn,
                is_never_null: *nn,
                dropped: false,
                default_sql: d.map(str::to_string),
                identity: 0,
                identity_sequence: None,
                generated: 0,
                missing: Datum::Null,
                grants: None,
            })
            .collect();
        let mut list = Vec::new();
        for (n, keys, unique, primary) in indexes {
            let storage = self.engine.create_relation(&mut txn, RelationKind::BTree, Persistence::Logged).unwrap();
            list.push(Arc::new(Index {
                constraint: 0,
                initially_deferred: false,
                oid: self.oid(),
                name: n.to_string(),
                table_oid: oid,
                storage: storage.id(),
                unique: *unique,
                primary: *primary,
                nulls_not_distinct: false,
                is_constraint: *unique,
                deferrable: false,
                keys: keys
                    .iter()
                    .map(|k| {
                        let c = cols.iter().find(|c| c.name == *k).unwrap();
                        IndexKey {
                            attnum: c.attnum,
                            expression_sql: None,
                            type_oid: c.type_oid,
                            order_type: c.type_oid,
                            descending: false,
                            nulls_first: false,
                            collation: 0,
                            opclass: 0,
                        }
                    })
                    .collect(),
                include: Vec::new(),
                predicate_sql: None,
                valid: true,
                method: kilndb_catalog::AccessMethod::of(kilndb_catalog::BTREE_METHOD),
                part_of: 0,
                is_global: false,
                is_in_whole: false,
            }));
        }
        txn.commit(CommitMode::Async, &park).unwrap();
        let types: Vec<Oid> = cols.iter().map(|c| c.type_oid).collect();
        let t = Table {
            oid,
            name: name.into(),
            schema_oid: 2200,
            schema_name: "public".into(),
            owner: 10,
            grants: None,
            is_security_invoker: false,
            is_security_barrier: false,
            check_option: None,
            row_security: None,
            kind: TableKind::Table,
            persistence: b'p',
            delete_rows: false,
            type_oid: 0,
            columns: cols,
            descriptor: Arc::new(RowDescriptor::new(&types).unwrap()),
            row_types: Vec::new(),
            storage: heap.id(),
            indexes: list,
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            referenced_by: Vec::new(),
            triggers: Vec::new(),
            view_sql: None,
            reltuples: -1.0,
            relpages: 0,
            statistics: Default::default(),
            is_catalog: false,
            is_populated: true,
            partition_key: None,
            partition_of: 0,
            sequence: None,
        };
        self.catalog.tables.insert(oid, Arc::new(t));
    }

    /// A foreign key `child(columns) → parent's first index`.
    pub fn foreign_key(&mut self, child: &str, column: i16, parent: &str, on_delete: u8) {
        let oid = self.oid();
        let find = |db: &Db, n: &str| db.catalog.tables.values().find(|t| t.name == n).cloned().unwrap();
        let (c, p) = (find(self, child), find(self, parent));
        let key = Arc::new(ForeignKey {
            oid,
            name: format!("{child}_fkey"),
            table: c.oid,
            columns: vec![column],
            referenced_table: p.oid,
            referenced_columns: vec![p.indexes[0].keys[0].attnum],
            referenced_index: p.indexes[0].oid,
            on_update: b'a',
            on_delete,
            delete_columns: Vec::new(),
            match_type: b's',
            deferrable: false,
            initially_deferred: false,
            validated: true,
            enforced: true,
            part_of: 0,
            firing: Default::default(),
        });
        let mut c2 = (*c).clone();
        c2.foreign_keys.push(key.clone());
        self.catalog.tables.insert(c2.oid, Arc::new(c2));
        let mut p2 = (*find(self, parent)).clone();
        p2.referenced_by.push(key);
        self.catalog.tables.insert(p2.oid, Arc::new(p2));
    }

    pub fn try_run(&self, sql: &str, params: &[Datum]) -> Result<(Vec<String>, u64)> {
        let script = kilndb_syntax::parse(sql)?;
        let mut result = (Vec::new(), 0);
        for statement in script.statements() {
            let mut types = Vec::new();
            let bound = kilndb_bind::bind(&statement, &self.catalog, &mut types)?;
            let plan = kilndb_plan::plan_with(bound, types, &self.catalog, &self.engine)?;
            let mut txn = kilndb_exec::TransactionSlot::new(self.engine.begin(Isolation::ReadCommitted, 0));
            let snapshot = txn.take_snapshot();
            let park = ThreadPark::new();
            let format = FormatSettings::default();
            let cell = Cell::new([1, 2]);
            let host = kilndb_catalog::value_host::CatalogHost(&self.catalog);
            let mut pending = PendingChecks::default();
            let mut usage = kilndb_exec::stats::Usage::default();
            let mut cx = ExecContext {
                engine: &self.engine,
                txn: &mut txn,
                snapshot: snapshot.into(),
                park: &park,
                eval: EvalContext {
                    format: &format,
                    transaction_timestamp: 0,
                    statement_timestamp: 0,
                    host: &host,
                    random_state: &cell,
                    clock_was_read: None,
                },
                catalog: &self.catalog,
                session: &NoSession,
                work_mem_bytes: 4 << 20,
                hash_mem_bytes: 8 << 20,
                temp: &self.temp,
                source: None,
                pending: &mut pending,
                helpers: None,
                usage: &mut usage,
                routines: None,
            };
            let mut sink = Lines(Vec::new(), plan.columns.iter().map(|c| c.type_oid).collect());
            let mut x = Execution::start(plan.clone(), params, &mut cx)?;
            let progress = x.run(&mut cx, None, &mut sink);
            drop(x);
            drop(cx);
            match progress {
                Ok(p) => {
                    txn.commit(CommitMode::Async, &park)?;
                    result = (sink.0, p.rows);
                }
                Err(e) => {
                    txn.rollback(&park)?;
                    return Err(e);
                }
            }
        }
        Ok(result)
    }
    /// Binds and plans each statement that has a plan, and runs none.
    pub fn try_plan(&self, sql: &str) -> Result<()> {
        use kilndb_syntax::Node;
        for statement in kilndb_syntax::parse(sql)?.statements() {
            let has_plan = matches!(
                statement.node(),
                Node::SelectStmt(_)
                    | Node::InsertStmt(_)
                    | Node::UpdateStmt(_)
                    | Node::DeleteStmt(_)
                    | Node::MergeStmt(_)
                    | Node::ExplainStmt(_)
            );
            if has_plan {
                let mut types = Vec::new();
                let bound = kilndb_bind::bind(&statement, &self.catalog, &mut types)?;
                kilndb_plan::plan_with(bound, types, &self.catalog, &self.engine)?;
            }
        }
        Ok(())
    }
    /// The folder's name goes now; the engine still has its files.
    pub fn forget_folder(&self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
    pub fn rows(&self, sql: &str) -> Vec<String> {
        match self.try_run(sql, &[]) {
            Ok(r) => r.0,
            Err(e) => panic!("{sql}: {e:?}"),
        }
    }
    pub fn run(&self, sql: &str) -> u64 {
        match self.try_run(sql, &[]) {
            Ok(r) => r.1,
            Err(e) => panic!("{sql}: {e:?}"),
        }
    }
    pub fn error(&self, sql: &str) -> Error {
        match self.try_run(sql, &[]) {
            Ok(r) => panic!("{sql}: no error but {:?}", r.0),
            Err(e) => e,
        }
    }
}
