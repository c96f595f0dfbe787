//! The first cluster: system tables of template1 filled with the built-in facts, then template0 and postgres copied
//! from it; and the map from system relations to their storage, which is what everything else is found by.
//!
//! Invariants
//! 1. The boot map is the first storage relation ([`BOOT_MAP`]), the OID counter the second ([`OID_COUNTER`]).
//! 2. A boot map row is 12 bytes, little-endian: database OID (0: shared), system relation OID, storage relation id. With
//!    system relation OID 0 its last four bytes are the version of the database's catalogs instead.

use super::access_method::{ACCESS_METHODS, AccessMethod};
use super::builtin::{
    BOOTSTRAP_SUPERUSER, BUILTINS, FILES, FIRST_USER_OID, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC, SystemTable, Tsv,
    number,
};
use super::extension;
use super::ids::*;
use super::store::{CatalogStore, CatalogWriter, SHAPES, vector};
use super::trigger::{FIRST_KEY_FUNCTION, LAST_KEY_FUNCTION};
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::park::Park;
use kilndb_base::{Error, Oid, RelationId, Result};
use kilndb_storage::{Engine, Isolation, Persistence, RelationKind, RowBatch, Transaction};
use kilndb_types::acl::AclItem;
use kilndb_types::{Datum, EvalContext, oids};
use std::sync::Arc;

/// The language's OID.
const PLPGSQL: Oid = 12775;
const PLPGSQL_EXTENSION: Oid = 12779;

pub(crate) const BOOT_MAP: RelationId = RelationId(1);
pub const OID_COUNTER: RelationId = RelationId(2);

/// OIDs of system views and their row types: from here up to the first of extensions.
pub const FIRST_VIEW_OID: Oid = 13100;

/// What a row of the boot map has in place of a system relation's OID if it says the version of a database's catalogs.
const VERSION_ROW: Oid = 0;
/// Version 1: pg_depend has all that follows from definitions. Version 2: pg_proc has the procedures of `own_proc.tsv`.
/// Version 3: those of plan_guard, and pg_stat_plans. Version 4: pg_stat_ssl. Version 5: pg_hba_file_rules,
/// pg_ident_file_mappings. Version 6: the predefined roles, grants on the system's objects, pg_shdepend. Version 7:
/// pg_policies. Version 8: functions of large objects, two of which are not everybody's to call. Version 9: ICU's
/// collations. Version 10: information_schema.sequences asks about sequences only.
/// Version 11: kiln_stat_hot_rows. Version 12: kiln_stat_commits, kiln_stat_undo, kiln_stat_snapshots,
/// kiln_stat_inverted_indexes, kiln_stat_slow_statements. Databases without a version are older.
pub const CATALOG_VERSION: u32 = 12;

pub const TEMPLATE1: Oid = 1;
pub(crate) const TEMPLATE0: Oid = 4;
pub const POSTGRES: Oid = 5;

/// Makes the cluster in a new engine.
pub fn create_cluster(engine: &Arc<Engine>, eval: &EvalContext<'_>, park: &dyn Park) -> Result<()> {
    let mut txn = engine.begin(Isolation::ReadCommitted, 0);
    let boot = engine.create_relation(&mut txn, RelationKind::Heap, Persistence::Logged)?;
    let counter = engine.create_relation(&mut txn, RelationKind::Cell, Persistence::Logged)?;
    if (boot.id(), counter.id()) != (BOOT_MAP, OID_COUNTER) {
        return Err(Error::internal("the first storage relations are not the expected ones"));
    }
    counter.cell_modify(&mut |bytes| {
        bytes.clear();
        bytes.extend_from_slice(&FIRST_USER_OID.to_le_bytes());
        Ok(((), true))
    })?;
    let mut store = CatalogStore::default();
    create_relations(engine, &mut txn, 0, true, &mut store)?;
    create_relations(engine, &mut txn, TEMPLATE1, false, &mut store)?;
    let mut writer = CatalogWriter::plain(&store, TEMPLATE1, &mut txn, park);
    fill_facts(&mut writer, eval)?;
    fill_fixed_rows(&mut writer)?;
    fill_classes(&mut writer)?;
    for (oid, name, allow_connections, is_template) in [
        (TEMPLATE1, "template1", true, true),
        (TEMPLATE0, "template0", false, true),
        (POSTGRES, "postgres", true, false),
    ] {
        let owner = BOOTSTRAP_SUPERUSER;
        let new = NewDatabase { oid, name, owner, allow_connections, is_template, connection_limit: -1 };
        insert_database(&mut writer, &new)?;
    }
    txn.commit(kilndb_storage::CommitMode::Sync, park)?;
    Ok(())
}

/// The map that [`read_boot_map`] reads; an empty one in a new engine.
pub fn read_boot_map_if_any(engine: &Arc<Engine>) -> Result<HashMap<Oid, Vec<(Oid, RelationId)>>> {
    if engine.relation(BOOT_MAP).is_err() { Ok(HashMap::new()) } else { read_boot_map(engine) }
}

/// The other two databases, once template1 is complete.
pub fn create_initial_databases(
    engine: &Arc<Engine>,
    template: &CatalogStore,
    made: &HashMap<Oid, Vec<(Oid, RelationId)>>,
    park: &dyn Park,
) -> Result<()> {
    for oid in [TEMPLATE0, POSTGRES].into_iter().filter(|oid| !made.contains_key(oid)) {
        let mut txn = engine.begin(Isolation::ReadCommitted, 0);
        copy_database(engine, &mut txn, template, oid, park)?;
        txn.commit(kilndb_storage::CommitMode::Sync, park)?;
    }
    Ok(())
}

/// The superuser that the cluster is made with gets another name, and a password.
pub fn set_first_superuser(
    engine: &Arc<Engine>,
    template: &CatalogStore,
    name: &str,
    verifier: Option<&str>,
    park: &dyn Park,
) -> Result<()> {
    let mut txn = engine.begin(Isolation::ReadCommitted, 0);
    let snapshot = txn.take_snapshot();
    let key = [Datum::Oid(BOOTSTRAP_SUPERUSER)];
    let found = template.lookup(PG_AUTHID, PG_AUTHID_OID_INDEX, &key, &snapshot)?.pop();
    let old = found.ok_or_else(|| Error::internal("the role that owns the cluster is missing"))?;
    let mut new = old.clone();
    new.set("rolname", Datum::text(name));
    if let Some(verifier) = verifier {
        new.set("rolpassword", Datum::text(verifier));
    }
    let mut writer = CatalogWriter::plain(template, TEMPLATE1, &mut txn, park);
    writer.update(&old, new.values())?;
    txn.commit(kilndb_storage::CommitMode::Sync, park)?;
    Ok(())
}

/// A database's row of pg_database.
pub struct NewDatabase<'a> {
    pub oid: Oid,
    pub name: &'a str,
    pub owner: Oid,
    pub allow_connections: bool,
    pub is_template: bool,
    /// -1: as many as there are.
    pub connection_limit: i32,
}

pub fn insert_database(writer: &mut CatalogWriter<'_>, new: &NewDatabase<'_>) -> Result<()> {
    writer.insert(
        PG_DATABASE,
        &[
            ("oid", Datum::Oid(new.oid)),
            ("datname", Datum::text(new.name)),
            ("datdba", Datum::Oid(new.owner)),
            ("encoding", Datum::Int4(6)),
            ("datlocprovider", Datum::Char(b'b')),
            ("datistemplate", Datum::Bool(new.is_template)),
            ("datallowconn", Datum::Bool(new.allow_connections)),
            ("datconnlimit", Datum::Int4(new.connection_limit)),
            ("dattablespace", Datum::Oid(1663)),
            ("datcollate", Datum::text("C.UTF-8")),
            ("datctype", Datum::text("C.UTF-8")),
            ("datlocale", Datum::text("C.UTF-8")),
        ],
    )?;
    Ok(())
}

fn boot_row(database: Oid, relation: Oid, storage: RelationId) -> Vec<u8> {
    [database.to_le_bytes(), relation.to_le_bytes(), storage.0.to_le_bytes()].concat()
}

/// Where every database's system relations are.
pub fn read_boot_map(engine: &Arc<Engine>) -> Result<HashMap<Oid, Vec<(Oid, RelationId)>>> {
    let mut map: HashMap<Oid, Vec<(Oid, RelationId)>> = HashMap::new();
    for (database, relation, storage) in boot_rows(engine)? {
        if relation != VERSION_ROW {
            map.entry(database).or_default().push((relation, RelationId(storage)));
        }
    }
    Ok(map)
}

/// The version of a database's catalogs; 0: of a build that wrote none.
pub fn catalog_version(engine: &Arc<Engine>, database: Oid) -> Result<u32> {
    let versions = boot_rows(engine)?.into_iter().filter(|row| (row.0, row.1) == (database, VERSION_ROW));
    Ok(versions.map(|row| row.2).max().unwrap_or(0))
}

/// Notes that a database's catalogs are what this build makes of them.
pub fn note_catalog_version(engine: &Arc<Engine>, txn: &mut Transaction, database: Oid) -> Result<()> {
    engine.relation(BOOT_MAP)?.insert(txn, &boot_row(database, VERSION_ROW, RelationId(CATALOG_VERSION))).map(|_| ())
}

/// All rows of the boot map: database, system relation, storage relation or version.
fn boot_rows(engine: &Arc<Engine>) -> Result<Vec<(Oid, Oid, u32)>> {
    let boot = engine.relation(BOOT_MAP)?;
    let mut txn = engine.begin(Isolation::ReadCommitted, 0);
    let snapshot = txn.take_snapshot();
    let mut rows = Vec::new();
    let mut batch = RowBatch::default();
    for block in 0..boot.pages() {
        batch.bytes.clear();
        batch.rows.clear();
        boot.scan_block(block, &snapshot, &mut batch)?;
        for (_, start, end) in &batch.rows {
            let mut reader = kilndb_base::bytes::ByteReader::new(&batch.bytes[*start as usize..*end as usize]);
            let (Some(database), Some(relation), Some(storage)) = (reader.u32(), reader.u32(), reader.u32()) else {
                return Err(Error::corrupted("the boot map has a row that is too short"));
            };
            rows.push((database, relation, storage));
        }
    }
    Ok(rows)
}

/// Removes a database's rows from the boot map.
pub fn remove_from_boot_map(engine: &Arc<Engine>, txn: &mut Transaction, database: Oid, park: &dyn Park) -> Result<()> {
    let boot = engine.relation(BOOT_MAP)?;
    let snapshot = txn.take_snapshot();
    let mut batch = RowBatch::default();
    let options =
        kilndb_storage::WriteOptions { wait: kilndb_storage::WaitPolicy::Wait, latest: true, key_update: true };
    for block in 0..boot.pages() {
        batch.bytes.clear();
        batch.rows.clear();
        boot.scan_block(block, &snapshot, &mut batch)?;
        for (rid, start, _) in &batch.rows {
            if batch.bytes.get(*start as usize..*start as usize + 4) == Some(&database.to_le_bytes()) {
                boot.delete(txn, *rid, &[], &options.with(&snapshot, park))?;
            }
        }
    }
    Ok(())
}

/// Creates the storage of the shared (or the other) system tables and notes it in the boot map.
fn create_relations(
    engine: &Arc<Engine>,
    txn: &mut Transaction,
    database: Oid,
    shared: bool,
    store: &mut CatalogStore,
) -> Result<()> {
    let boot = engine.relation(BOOT_MAP)?;
    for table in BUILTINS.tables.iter().filter(|t| t.shared == shared) {
        let heap = engine.create_relation(txn, RelationKind::Heap, Persistence::Logged)?;
        boot.insert(txn, &boot_row(database, table.oid, heap.id()))?;
        store.relations.insert(table.oid, heap.clone());
        for index in &table.indexes {
            let tree = engine.create_relation(txn, RelationKind::BTree, Persistence::Logged)?;
            tree.set_heap_of_all_rows(heap.id());
            boot.insert(txn, &boot_row(database, index.oid, tree.id()))?;
            store.relations.insert(index.oid, tree);
        }
    }
    if shared { Ok(()) } else { note_catalog_version(engine, txn, database) }
}

/// A field of a facts file as a value of the column's type.
fn field_value(column_type: Oid, text: &str, eval: &EvalContext<'_>) -> Result<Datum> {
    use oids::*;
    match column_type {
        REGPROC | REGTYPE | REGCLASS | REGOPER | OID | XID => Ok(Datum::Oid(text.parse().unwrap_or(0))),
        PG_NODE_TREE | 5017 | 3361 | 3402 => Ok(Datum::text(text)),
        _ => kilndb_types::io::input(column_type, text, -1, eval),
    }
}

pub(super) fn fill_from(
    writer: &mut CatalogWriter<'_>,
    table: Oid,
    file: &'static Tsv,
    eval: &EvalContext<'_>,
    keep: &dyn Fn(&[Option<&str>]) -> bool,
    extra: &[(&str, Datum)],
) -> Result<()> {
    let definition = super::store::shape(table)?.table;
    for row in file.rows.iter().filter(|r| keep(r)) {
        let mut values: Vec<(&str, Datum)> = extra.to_vec();
        for (name, field) in file.header.iter().zip(row) {
            let Some(column) = definition.column(name) else { continue };
            let Some(text) = field else { continue };
            values.push((name, field_value(definition.columns[column].type_oid, text, eval)?));
        }
        writer.insert(table, &values)?;
    }
    Ok(())
}

fn fill_facts(writer: &mut CatalogWriter<'_>, eval: &EvalContext<'_>) -> Result<()> {
    let owner = Datum::Oid(BOOTSTRAP_SUPERUSER);
    let namespace = Datum::Oid(PG_CATALOG);
    let types = &FILES.pg_type;
    let type_extra = [("typnamespace", namespace.clone()), ("typowner", owner.clone()), ("typtypmod", Datum::Int4(-1))];
    fill_from(writer, PG_TYPE, types, eval, &|r| number::<Oid>(r[0]) < 12000, &type_extra)?;
    let io_columns: Vec<usize> = ["typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout"]
        .iter()
        .map(|c| types.column(c))
        .collect();
    let mut needed: kilndb_base::hash::HashSet<Oid> =
        types.rows.iter().flat_map(|r| io_columns.iter().map(|c| number(r[*c]))).collect();
    let amproc = &FILES.pg_amproc;
    let (family, function) = (amproc.column("amprocfamily"), amproc.column("amproc"));
    let opfamily = &FILES.pg_opfamily;
    let method = opfamily.column("opfmethod");
    // The functions of a family are needed if its method is one that indexes can have.
    let has_method =
        |field: Option<&str>| AccessMethod::of_oid(number(field)).is_some_and(|method| method.kind.is_some());
    let families: kilndb_base::hash::HashSet<Oid> =
        opfamily.rows.iter().filter(|r| has_method(r[method])).map(|r| number(r[0])).collect();
    needed.insert(HEAP_METHOD.2);
    needed.extend(ACCESS_METHODS.iter().map(|method| method.handler));
    needed.extend(
        amproc.rows.iter().filter(|r| families.contains(&number(r[family]))).map(|r| number::<Oid>(r[function])),
    );

    needed.extend(text_search_functions());
    // What triggers of foreign keys name.
    needed.extend(FIRST_KEY_FUNCTION..=LAST_KEY_FUNCTION);
    let implemented = |oid: Oid| needed.contains(&oid) || kilndb_types::functions::descriptor(oid).is_some();
    let proc_extra = [("proowner", owner.clone()), ("pronamespace", namespace.clone())];
    fill_from(writer, PG_PROC, &FILES.pg_proc, eval, &|r| implemented(number(r[0])), &proc_extra)?;
    add_own_procedures(writer, &KnownProcedures::default(), eval)?;
    let code = FILES.pg_operator.column("oprcode");
    let operator_extra = [("oprnamespace", namespace.clone()), ("oprowner", owner.clone())];
    fill_from(writer, PG_OPERATOR, &FILES.pg_operator, eval, &|r| implemented(number(r[code])), &operator_extra)?;
    let cast_function = FILES.pg_cast.column("castfunc");
    fill_from(
        writer,
        PG_CAST,
        &FILES.pg_cast,
        eval,
        &|r| {
            let f = number(r[cast_function]);
            f == 0 || implemented(f)
        },
        &[],
    )?;
    fill_from(writer, PG_AGGREGATE, &FILES.pg_aggregate, eval, &|r| implemented(number(r[0])), &[])?;
    let opclass_method = FILES.pg_opclass.column("opcmethod");
    let class_extra = [("opcowner", owner.clone())];
    fill_from(writer, PG_OPCLASS, &FILES.pg_opclass, eval, &|r| has_method(r[opclass_method]), &class_extra)?;
    let family_extra = [("opfowner", owner.clone())];
    fill_from(writer, PG_OPFAMILY, &FILES.pg_opfamily, eval, &|r| has_method(r[method]), &family_extra)?;
    let amop_family = FILES.pg_amop.column("amopfamily");
    fill_from(writer, PG_AMOP, &FILES.pg_amop, eval, &|r| families.contains(&number(r[amop_family])), &[])?;
    fill_from(writer, PG_AMPROC, amproc, eval, &|r| families.contains(&number(r[family])), &[])?;
    fill_collations(writer, eval, &|_| true)?;
    fill_from(writer, PG_RANGE, &FILES.pg_range, eval, &|_| true, &[])?;
    fill_text_search(writer, eval)
}

/// Enters the procedures that PostgreSQL does not have (`data/own_proc.tsv`) in pg_proc, but for those that are there.
fn add_own_procedures(writer: &mut CatalogWriter<'_>, known: &KnownProcedures, eval: &EvalContext<'_>) -> Result<()> {
    let extra = [("proowner", Datum::Oid(BOOTSTRAP_SUPERUSER)), ("pronamespace", Datum::Oid(PG_CATALOG))];
    fill_from(writer, PG_PROC, &FILES.own_proc, eval, &|row| !known.has(&FILES.own_proc, row), &extra)
}

/// The procedures of pg_catalog: by their OIDs, and by their names and arguments.
#[derive(Default)]
struct KnownProcedures {
    oids: kilndb_base::hash::HashSet<Oid>,
    signatures: kilndb_base::hash::HashSet<(String, String)>,
}

impl KnownProcedures {
    fn has(&self, file: &Tsv, row: &[Option<&str>]) -> bool {
        let field = |name| row[file.column(name)].unwrap_or("").to_string();
        self.oids.contains(&number(row[0])) || self.signatures.contains(&(field("proname"), field("proargtypes")))
    }
}

/// Enters the functions in pg_proc that an earlier build did not have. They begin without grants: the caller adds those
/// that they are to have.
pub fn add_missing_procedures(writer: &mut CatalogWriter<'_>, eval: &EvalContext<'_>) -> Result<()> {
    let snapshot = writer.txn.catalog_snapshot();
    let mut known = KnownProcedures::default();
    for row in writer.store.scan(PG_PROC, &snapshot)? {
        known.oids.insert(row.oid("oid"));
        if row.oid("pronamespace") == PG_CATALOG {
            let types: Vec<String> = row.numbers("proargtypes").iter().map(i64::to_string).collect();
            known.signatures.insert((row.text("proname").unwrap_or("").to_string(), types.join(" ")));
        }
    }
    // Nobody has made them, so nobody's default privileges are theirs.
    writer.grants_defaults = false;
    let is_missing = |row: &[Option<&str>]| {
        kilndb_types::functions::descriptor(number(row[0])).is_some() && !known.has(&FILES.pg_proc, row)
    };
    let extra = [("proowner", Datum::Oid(BOOTSTRAP_SUPERUSER)), ("pronamespace", Datum::Oid(PG_CATALOG))];
    fill_from(writer, PG_PROC, &FILES.pg_proc, eval, &is_missing, &extra)?;
    add_own_procedures(writer, &known, eval)
}

fn fill_collations(
    writer: &mut CatalogWriter<'_>,
    eval: &EvalContext<'_>,
    is_wanted: &dyn Fn(&[Option<&str>]) -> bool,
) -> Result<()> {
    let extra = [("collowner", Datum::Oid(BOOTSTRAP_SUPERUSER)), ("collnamespace", Datum::Oid(PG_CATALOG))];
    fill_from(writer, PG_COLLATION, &FILES.pg_collation, eval, is_wanted, &extra)
}

/// Enters the collations that an earlier build did not have.
pub fn add_missing_collations(writer: &mut CatalogWriter<'_>, eval: &EvalContext<'_>) -> Result<()> {
    let snapshot = writer.txn.catalog_snapshot();
    let rows = writer.store.scan(PG_COLLATION, &snapshot)?;
    let known: kilndb_base::hash::HashSet<Oid> = rows.iter().map(|row| row.oid("oid")).collect();
    fill_collations(writer, eval, &|row| !known.contains(&number(row[0])))
}

/// The access method of tables: OID, name, handler.
const HEAP_METHOD: (Oid, &str, Oid) = (2, "heap", 3);

/// What parser and templates name; it is never called by statements.
fn text_search_functions() -> impl Iterator<Item = Oid> {
    let of = |file: &'static Tsv| file.rows.iter().flat_map(|r| r.iter().skip(3).map(|field| number(*field)));
    of(&FILES.pg_ts_parser).chain(of(&FILES.pg_ts_template))
}

fn fill_text_search(writer: &mut CatalogWriter<'_>, eval: &EvalContext<'_>) -> Result<()> {
    let files = [
        (PG_TS_PARSER, &FILES.pg_ts_parser),
        (PG_TS_TEMPLATE, &FILES.pg_ts_template),
        (PG_TS_DICT, &FILES.pg_ts_dict),
        (PG_TS_CONFIG, &FILES.pg_ts_config),
        (PG_TS_CONFIG_MAP, &FILES.pg_ts_config_map),
    ];
    for (table, file) in files {
        fill_from(writer, table, file, eval, &|_| true, &[])?;
    }
    fill_from(writer, PG_DESCRIPTION, &FILES.pg_ts_description, eval, &|_| true, &[("objsubid", Datum::Int4(0))])?;
    fill_from(writer, PG_DESCRIPTION, &FILES.pg_description, eval, &|_| true, &[("objsubid", Datum::Int4(0))])?;
    let text = Datum::text("PL/pgSQL procedural language");
    let row = [
        ("objoid", Datum::Oid(PLPGSQL)),
        ("classoid", Datum::Oid(PG_LANGUAGE)),
        ("objsubid", Datum::Int4(0)),
        ("description", text),
    ];
    writer.insert(PG_DESCRIPTION, &row).map(|_| ())
}

/// The privileges of a schema that everybody may use and its owner may create in.
fn schema_privileges(owner: Oid) -> Datum {
    let item = |grantee: Oid, list: &str| {
        let privileges = kilndb_types::acl::privileges_named(list).unwrap_or_default();
        Datum::AclItem(AclItem { grantee, grantor: owner, privileges })
    };
    super::store::array(oids::ACLITEM, vec![item(owner, "usage, create"), item(0, "usage")])
}

fn fill_fixed_rows(writer: &mut CatalogWriter<'_>) -> Result<()> {
    let owner = Datum::Oid(BOOTSTRAP_SUPERUSER);
    for (oid, name) in
        [(PG_CATALOG, "pg_catalog"), (99, "pg_toast"), (PUBLIC, "public"), (INFORMATION_SCHEMA, "information_schema")]
    {
        // public belongs to the database's owner.
        let nspowner = if oid == PUBLIC { Datum::Oid(6171) } else { owner.clone() };
        let privileges = if name == "pg_toast" {
            Datum::Null
        } else {
            schema_privileges(if oid == PUBLIC { 6171 } else { BOOTSTRAP_SUPERUSER })
        };
        let row = [
            ("oid", Datum::Oid(oid)),
            ("nspname", Datum::text(name)),
            ("nspowner", nspowner),
            ("nspacl", privileges.clone()),
        ];
        writer.insert(PG_NAMESPACE, &row)?;
        if !privileges.is_null() {
            let object =
                [("objoid", Datum::Oid(oid)), ("classoid", Datum::Oid(PG_NAMESPACE)), ("objsubid", Datum::Int4(0))];
            writer.insert(
                PG_INIT_PRIVS,
                &[&object[..], &[("privtype", Datum::Char(b'i')), ("initprivs", privileges)]].concat(),
            )?;
        }
    }
    let yes = Datum::Bool(true);
    writer.insert(
        PG_AUTHID,
        &[
            ("oid", owner.clone()),
            ("rolname", Datum::text("postgres")),
            ("rolsuper", yes.clone()),
            ("rolinherit", yes.clone()),
            ("rolcreaterole", yes.clone()),
            ("rolcreatedb", yes.clone()),
            ("rolcanlogin", yes.clone()),
            ("rolreplication", yes.clone()),
            ("rolbypassrls", yes.clone()),
            ("rolconnlimit", Datum::Int4(-1)),
        ],
    )?;
    super::initial_grants::add_missing_roles(writer)?;
    for (oid, name) in [(1663, "pg_default"), (1664, "pg_global")] {
        writer.insert(
            PG_TABLESPACE,
            &[("oid", Datum::Oid(oid)), ("spcname", Datum::text(name)), ("spcowner", owner.clone())],
        )?;
    }
    for (oid, name, trusted) in
        [(12, "internal", false), (13, "c", false), (14, "sql", true), (PLPGSQL, "plpgsql", true)]
    {
        writer.insert(
            PG_LANGUAGE,
            &[
                ("oid", Datum::Oid(oid)),
                ("lanname", Datum::text(name)),
                ("lanowner", owner.clone()),
                ("lanispl", Datum::Bool(oid == PLPGSQL)),
                ("lanpltrusted", Datum::Bool(trusted)),
            ],
        )?;
    }
    if let Some(plpgsql) = extension::extension(extension::PLPGSQL) {
        extension::insert_extension(
            writer,
            PLPGSQL_EXTENSION,
            plpgsql,
            PG_CATALOG,
            BOOTSTRAP_SUPERUSER,
            &[(PG_LANGUAGE, PLPGSQL)],
        )?;
    }
    // Extensions bring theirs.
    let built_in = ACCESS_METHODS.iter().filter(|method| !extension::is_member(method.oid));
    let indexes = built_in.map(|method| ((method.oid, method.name, method.handler), b'i'));
    for ((oid, name, handler), kind) in std::iter::once((HEAP_METHOD, b't')).chain(indexes) {
        let row = [
            ("oid", Datum::Oid(oid)),
            ("amname", Datum::text(name)),
            ("amhandler", Datum::Oid(handler)),
            ("amtype", Datum::Char(kind)),
        ];
        writer.insert(PG_AM, &row)?;
    }
    let descriptions = [
        (TEMPLATE1, "default template for new databases"),
        (TEMPLATE0, "unmodifiable empty database"),
        (POSTGRES, "default administrative connection database"),
    ];
    for (oid, text) in descriptions {
        writer.insert(
            PG_SHDESCRIPTION,
            &[("objoid", Datum::Oid(oid)), ("classoid", Datum::Oid(PG_DATABASE)), ("description", Datum::text(text))],
        )?;
    }
    Ok(())
}

/// pg_class, pg_attribute and pg_index rows of the system tables themselves.
fn fill_classes(writer: &mut CatalogWriter<'_>) -> Result<()> {
    for table in &BUILTINS.tables {
        let storage = writer.store.relation(table.oid)?.id();
        let class = SystemClass {
            oid: table.oid,
            name: table.name,
            kind: b'r',
            shared: table.shared,
            type_oid: table.type_oid,
            columns: table.columns.len(),
            has_index: !table.indexes.is_empty(),
        };
        insert_class(writer, &class, storage)?;
        for (i, column) in table.columns.iter().enumerate() {
            insert_attribute(writer, table.oid, i + 1, column, column.not_null)?;
        }
        for index in &table.indexes {
            insert_system_index(writer, table, index)?;
        }
    }
    Ok(())
}

fn insert_system_index(
    writer: &mut CatalogWriter<'_>,
    table: &SystemTable,
    index: &super::builtin::SystemIndex,
) -> Result<()> {
    let storage = writer.store.relation(index.oid)?.id();
    let class = SystemClass {
        oid: index.oid,
        name: index.name,
        kind: b'i',
        shared: table.shared,
        type_oid: 0,
        columns: index.keys.len(),
        has_index: false,
    };
    insert_class(writer, &class, storage)?;
    for (i, key) in index.keys.iter().enumerate() {
        insert_attribute(writer, index.oid, i + 1, &table.columns[*key], false)?;
    }
    let numbers = |f: &dyn Fn(usize) -> Datum| (0..index.keys.len()).map(f).collect::<Vec<_>>();
    writer.insert(
        PG_INDEX,
        &[
            ("indexrelid", Datum::Oid(index.oid)),
            ("indrelid", Datum::Oid(table.oid)),
            ("indnatts", Datum::Int2(index.keys.len() as i16)),
            ("indnkeyatts", Datum::Int2(index.keys.len() as i16)),
            ("indisunique", Datum::Bool(index.unique)),
            ("indisprimary", Datum::Bool(index.primary)),
            ("indimmediate", Datum::Bool(true)),
            ("indisvalid", Datum::Bool(true)),
            ("indisready", Datum::Bool(true)),
            ("indislive", Datum::Bool(true)),
            ("indkey", vector(oids::INT2, numbers(&|i| Datum::Int2(index.keys[i] as i16 + 1)))),
            ("indcollation", vector(oids::OID, numbers(&|i| Datum::Oid(table.columns[index.keys[i]].collation)))),
            ("indclass", vector(oids::OID, index.opclasses.iter().map(|o| Datum::Oid(*o)).collect())),
            ("indoption", vector(oids::INT2, numbers(&|_| Datum::Int2(0)))),
        ],
    )?;
    Ok(())
}

/// What differs between the pg_class rows of the system tables and their indexes.
struct SystemClass {
    oid: Oid,
    name: &'static str,
    /// `relkind`.
    kind: u8,
    shared: bool,
    /// The type of the rows; 0 of an index.
    type_oid: Oid,
    columns: usize,
    has_index: bool,
}

fn insert_class(writer: &mut CatalogWriter<'_>, class: &SystemClass, storage: RelationId) -> Result<()> {
    writer.insert(
        PG_CLASS,
        &[
            ("oid", Datum::Oid(class.oid)),
            ("relname", Datum::text(class.name)),
            ("relnamespace", Datum::Oid(PG_CATALOG)),
            ("reltype", Datum::Oid(class.type_oid)),
            ("relowner", Datum::Oid(BOOTSTRAP_SUPERUSER)),
            ("relam", Datum::Oid(if class.kind == b'i' { 403 } else { 2 })),
            ("relfilenode", Datum::Oid(storage.0)),
            ("reltuples", Datum::Float4(-1.0)),
            ("relhasindex", Datum::Bool(class.has_index)),
            ("relisshared", Datum::Bool(class.shared)),
            ("relpersistence", Datum::Char(b'p')),
            ("relkind", Datum::Char(class.kind)),
            ("relnatts", Datum::Int2(class.columns as i16)),
            ("relispopulated", Datum::Bool(true)),
            ("relreplident", Datum::Char(b'n')),
        ],
    )?;
    Ok(())
}

/// Writes the pg_attribute row of a table's column, or of an index's that has its values.
fn insert_attribute(
    writer: &mut CatalogWriter<'_>,
    relation: Oid,
    attnum: usize,
    column: &super::builtin::SystemColumn,
    not_null: bool,
) -> Result<()> {
    writer.insert(
        PG_ATTRIBUTE,
        &[
            ("attrelid", Datum::Oid(relation)),
            ("attname", Datum::text(column.name)),
            ("atttypid", Datum::Oid(column.type_oid)),
            ("attlen", Datum::Int2(BUILTINS.types.get(&column.type_oid).map_or(-1, |t| t.len))),
            ("attnum", Datum::Int2(attnum as i16)),
            ("atttypmod", Datum::Int4(-1)),
            ("attalign", Datum::Char(b'i')),
            ("attstorage", Datum::Char(b'p')),
            ("attnotnull", Datum::Bool(not_null)),
            ("attislocal", Datum::Bool(true)),
            ("attcollation", Datum::Oid(column.collation)),
        ],
    )?;
    Ok(())
}

/// Gives a new database copies of all that its template has.
pub fn copy_database(
    engine: &Arc<Engine>,
    txn: &mut Transaction,
    template: &CatalogStore,
    database: Oid,
    park: &dyn Park,
) -> Result<CatalogStore> {
    let mut store = CatalogStore::default();
    for table in BUILTINS.tables.iter().filter(|t| t.shared) {
        for oid in std::iter::once(table.oid).chain(table.indexes.iter().map(|i| i.oid)) {
            store.relations.insert(oid, template.relation(oid)?.clone());
        }
    }
    create_relations(engine, txn, database, false, &mut store)?;
    let snapshot = txn.take_snapshot();
    let mut moved: HashMap<Oid, Oid> = HashMap::new();
    for table in BUILTINS.tables.iter().filter(|t| !t.shared) {
        for oid in std::iter::once(table.oid).chain(table.indexes.iter().map(|i| i.oid)) {
            moved.insert(template.relation(oid)?.id().0, store.relation(oid)?.id().0);
        }
    }
    copy_user_relations(engine, txn, template, &snapshot, &mut moved, park)?;
    let mut writer = CatalogWriter::plain(&store, database, txn, park);
    for table in BUILTINS.tables.iter().filter(|t| !t.shared) {
        for mut row in template.scan(table.oid, &snapshot)? {
            if table.oid == PG_CLASS
                && let Some(new) = moved.get(&row.oid("relfilenode"))
            {
                row.set("relfilenode", Datum::Oid(*new));
            }
            writer.insert_row(table.oid, row.values())?;
        }
        park.checkpoint()?;
    }
    Ok(store)
}

/// Storage of the template's own tables: rows get new ids, so index entries are carried over through a map of them.
fn copy_user_relations(
    engine: &Arc<Engine>,
    txn: &mut Transaction,
    template: &CatalogStore,
    snapshot: &kilndb_storage::Snapshot,
    moved: &mut HashMap<Oid, Oid>,
    park: &dyn Park,
) -> Result<()> {
    let classes = template.scan(PG_CLASS, snapshot)?;
    let indexes = template.scan(PG_INDEX, snapshot)?;
    for class in classes.iter().filter(|c| c.oid("oid") >= FIRST_USER_OID && b"rS".contains(&c.char("relkind"))) {
        let source = engine.relation(RelationId(class.oid("relfilenode")))?;
        let target = engine.create_relation(txn, source.kind(), source.persistence())?;
        moved.insert(source.id().0, target.id().0);
        if class.char("relkind") == b'S' {
            let state = source.cell_read()?;
            let initial = source.cell_initial();
            target.cell_init(if initial.is_empty() { &state } else { &initial })?;
            target.cell_modify(&mut |bytes| {
                bytes.clone_from(&state);
                Ok(((), true))
            })?;
            continue;
        }
        let mut new_rids = HashMap::new();
        let (mut batch, mut rids) = (RowBatch::default(), Vec::new());
        for block in 0..source.pages() {
            batch.bytes.clear();
            batch.rows.clear();
            rids.clear();
            source.scan_block(block, snapshot, &mut batch)?;
            target.insert_many(txn, &batch, &mut rids)?;
            new_rids.extend(batch.rows.iter().map(|r| r.0).zip(rids.iter().copied()));
            park.checkpoint()?;
        }
        for index in indexes.iter().filter(|i| i.oid("indrelid") == class.oid("oid")) {
            let Some(index_class) = classes.iter().find(|c| c.oid("oid") == index.oid("indexrelid")) else { continue };
            let old = engine.relation(RelationId(index_class.oid("relfilenode")))?;
            let new = engine.create_relation(txn, old.kind(), old.persistence())?;
            if old.has_all_rows() {
                new.set_heap_of_all_rows(target.id());
            } else {
                new.set_heap(target.id());
            }
            moved.insert(old.id().0, new.id().0);
            new.index_copy(txn, (&old, snapshot), &|rid| new_rids.get(&rid).copied(), park)?;
        }
    }
    Ok(())
}

/// All system relations of a database, opened.
pub fn open_store(
    engine: &Arc<Engine>,
    map: &HashMap<Oid, Vec<(Oid, RelationId)>>,
    database: Oid,
) -> Result<CatalogStore> {
    let mut store = CatalogStore::default();
    for owner in [0, database] {
        for (oid, storage) in map.get(&owner).into_iter().flatten() {
            let relation = engine.relation(*storage)?;
            relation.exclude_from_serializability();
            store.relations.insert(*oid, relation);
        }
    }
    let complete = SHAPES.keys().all(|oid| store.relations.contains_key(oid));
    if complete {
        Ok(store)
    } else {
        Err(Error::corrupted(format!("database {database} lacks system tables in the boot map")))
    }
}
