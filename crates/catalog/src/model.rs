//! Catalog objects as the binder, planner and executor see them: immutable, shared, complete.

use super::access_method::AccessMethod;
use super::collation_read::CollationInfo;
use super::column_statistics::{ColumnStatistics, ColumnStatisticsCache};
use super::extended_statistics::ExtendedStatistics;
use super::known_partitions::CachedPartition;
use super::planner_settings::PlannerSettings;
use super::privileges::{Privileges, SecuredKind};
use super::row_security::RolePolicies;
use kilndb_base::{Oid, RelationId, Result};
use kilndb_storage::RelationKind;
use kilndb_types::Datum;
use kilndb_types::acl::AclItem;
use kilndb_types::collation::Collation;
use kilndb_types::row::RowDescriptor;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableKind {
    /// An ordinary table (also TOAST-less catalogs).
    Table,
    Sequence,
    View,
    /// A table whose rows are what its query gave when it was filled last.
    Materialized,
    Index,
    Partitioned,
    Composite,
}

impl TableKind {
    /// It has rows in storage of its own, to be scanned, indexed and counted.
    pub fn has_rows(self) -> bool {
        matches!(self, TableKind::Table | TableKind::Materialized)
    }

    /// It keeps rows, in storage of its own or in its partitions'.
    pub fn keeps_rows(self) -> bool {
        self.has_rows() || self == TableKind::Partitioned
    }

    /// What relations of the kind are called in "This operation is not supported for …".
    pub fn plural(self) -> &'static str {
        match self {
            TableKind::Table => "tables",
            TableKind::Partitioned => "partitioned tables",
            TableKind::Sequence => "sequences",
            TableKind::View => "views",
            TableKind::Materialized => "materialized views",
            TableKind::Index => "indexes",
            TableKind::Composite => "composite types",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Table {
    pub oid: Oid,
    pub name: String,
    pub schema_oid: Oid,
    pub schema_name: String,
    pub owner: Oid,
    /// Who may do what with it; None: nobody has granted or revoked anything.
    pub grants: Option<Arc<[AclItem]>>,
    /// A view whose relations are read with the privileges of whoever reads the view.
    pub is_security_invoker: bool,
    /// A view that hides rows from functions that could tell of them.
    pub is_security_barrier: bool,
    /// WITH CHECK OPTION of a view.
    pub check_option: Option<CheckOption>,
    /// Policies that hide rows; None: row security is not enabled.
    pub row_security: Option<Arc<super::row_security::RowSecurity>>,
    pub kind: TableKind,
    /// 'p', 'u', 't' as in pg_class.relpersistence; 'g': global temporary.
    pub persistence: u8,
    /// A global temporary table whose rows go at the end of the transaction.
    pub delete_rows: bool,
    /// The row's composite type.
    pub type_oid: Oid,
    /// All attributes in attnum order, dropped ones included: index + 1 == attnum.
    pub columns: Vec<Column>,
    /// Storage format of a row: one entry per element of `columns`.
    pub descriptor: Arc<RowDescriptor>,
    /// Relations whose row types are stored in columns of this one: the descriptor is made of their attributes, too.
    pub row_types: Vec<Oid>,
    /// Where the rows are (0 for views).
    pub storage: RelationId,
    pub indexes: Vec<Arc<Index>>,
    pub checks: Vec<CheckConstraint>,
    /// Foreign keys of this table.
    pub foreign_keys: Vec<Arc<ForeignKey>>,
    /// Foreign keys of other tables that point here.
    pub referenced_by: Vec<Arc<ForeignKey>>,
    /// The relation's triggers in the order of their names, in which they fire.
    pub triggers: Vec<Arc<super::trigger::Trigger>>,
    /// The view's SELECT.
    pub view_sql: Option<String>,
    /// Estimates as ANALYZE or the storage size tell; -1 unknown.
    pub reltuples: f32,
    /// The pages that there were when `reltuples` was counted.
    pub relpages: i32,
    /// A catalog of the system: users may not write it.
    pub is_catalog: bool,
    /// False for a materialized view that has not been filled.
    pub is_populated: bool,
    /// The key by which a partitioned table is partitioned.
    pub partition_key: Option<Arc<super::partition::PartitionKey>>,
    /// What it is a partition of, or 0.
    pub partition_of: Oid,
    /// The options of a sequence.
    pub sequence: Option<SequenceOptions>,
    /// The statistics of columns, as far as they have been read.
    pub statistics: Arc<ColumnStatisticsCache>,
}

/// Which conditions a row that is written through a view must meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckOption {
    /// The view's own.
    Local,
    /// Those of all views below it, too.
    Cascaded,
}

impl CheckOption {
    /// What pg_class.reloptions says.
    pub fn of_options(options: &[String]) -> Option<CheckOption> {
        let value = options.iter().find_map(|option| option.strip_prefix("check_option="))?;
        match value {
            "cascaded" => Some(CheckOption::Cascaded),
            _ => Some(CheckOption::Local),
        }
    }
}

/// A sequence's row of pg_sequence.
#[derive(Clone, Debug)]
pub struct SequenceOptions {
    pub type_oid: Oid,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cache: i64,
    pub cycle: bool,
}

/// Where the columns of these numbers are in [`Table::columns`].
pub fn column_places(attnums: &[i16]) -> Vec<usize> {
    attnums.iter().filter_map(|attnum| usize::try_from(*attnum - 1).ok()).collect()
}

/// How large a table was when it was last counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountedSize {
    /// -1: it never was.
    pub rows: f32,
    pub pages: i32,
}

impl Table {
    pub fn privileges(&self) -> Privileges {
        let kind = if self.kind == TableKind::Sequence { SecuredKind::Sequence } else { SecuredKind::Relation };
        Privileges { kind, owner: self.owner, list: self.grants.clone() }
    }
    /// The schema as definitions name it, for whichever session will read them.
    pub fn shown_schema(&self) -> &str {
        if super::temporary::is_temporary(self.schema_oid) { "pg_temp" } else { &self.schema_name }
    }
    pub fn counted_size(&self) -> CountedSize {
        CountedSize { rows: self.reltuples, pages: self.relpages }
    }
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub attnum: i16,
    pub type_oid: Oid,
    pub typmod: i32,
    pub collation: Collation,
    pub not_null: bool,
    /// It is NOT NULL, and that is known to hold for all rows: a constraint that is NOT VALID is asked of new rows alone.
    pub is_never_null: bool,
    pub dropped: bool,
    /// Default expression as SQL text (as pg_get_expr prints it); for generated columns the generation expression.
    pub default_sql: Option<String>,
    /// 0, or 'a' (ALWAYS) / 'd' (BY DEFAULT).
    pub identity: u8,
    /// The sequence behind an identity column.
    pub identity_sequence: Option<Oid>,
    /// 0, or 's' (STORED) / 'v' (VIRTUAL).
    pub generated: u8,
    /// Value of rows stored before the column was added (attmissingval).
    pub missing: Datum,
    /// Who may do what with the column; None: nobody has granted anything.
    pub grants: Option<Arc<[AclItem]>>,
}

#[derive(Clone, Debug)]
pub struct Index {
    pub oid: Oid,
    pub name: String,
    pub table_oid: Oid,
    pub storage: RelationId,
    pub unique: bool,
    pub primary: bool,
    pub nulls_not_distinct: bool,
    /// Backs a constraint: its name in error messages is the index's.
    pub is_constraint: bool,
    /// The constraint that it backs, or 0.
    pub constraint: Oid,
    pub deferrable: bool,
    pub initially_deferred: bool,
    pub keys: Vec<IndexKey>,
    /// INCLUDE columns (attnums); not stored in the key, kept for the definition.
    pub include: Vec<i16>,
    /// Partial index predicate as SQL text.
    pub predicate_sql: Option<String>,
    pub valid: bool,
    pub method: &'static AccessMethod,
    /// The index of the partitioned table that it is a part of, or 0.
    pub part_of: Oid,
    /// Whether the index has one tree for all partitions (docs/decisions/0022), or is a part of one that has.
    pub is_global: bool,
    /// Whether the index has no storage of its own, because it is a part of an index that has one for all partitions.
    pub is_in_whole: bool,
}

impl Index {
    /// Each row has many terms in it, rather than one key (docs/decisions/0023).
    pub fn has_terms(&self) -> bool {
        self.method.has_terms()
    }
    pub fn storage_kind(&self) -> RelationKind {
        self.method.storage_kind()
    }
    /// Do the index's columns tell all rows of the table apart, NULLs aside?
    pub fn tells_rows_apart(&self) -> bool {
        self.unique && self.valid && self.predicate_sql.is_none() && self.keys.iter().all(|k| k.attnum != 0)
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct IndexKey {
    /// attnum, or 0 for an expression.
    pub attnum: i16,
    pub expression_sql: Option<String>,
    pub type_oid: Oid,
    /// What the key's values are compared as, and what keys are made of: the type, or for texts under rules an order
    /// type (`types::collation`).
    pub order_type: Oid,
    pub descending: bool,
    pub nulls_first: bool,
    pub collation: Oid,
    pub opclass: Oid,
}

#[derive(Clone, Debug)]
pub struct CheckConstraint {
    pub oid: Oid,
    pub name: String,
    pub sql: String,
    pub validated: bool,
    /// NOT ENFORCED: nobody looks whether it holds.
    pub enforced: bool,
    pub no_inherit: bool,
    /// Defined for this table, and so often by what it is a part of.
    pub is_local: bool,
    pub inherited: i16,
}

#[derive(Clone, Debug)]
pub struct ForeignKey {
    pub oid: Oid,
    pub name: String,
    pub table: Oid,
    pub columns: Vec<i16>,
    pub referenced_table: Oid,
    pub referenced_columns: Vec<i16>,
    /// The unique index on the referenced side.
    pub referenced_index: Oid,
    /// 'a' no action, 'r' restrict, 'c' cascade, 'n' set null, 'd' set default.
    pub on_update: u8,
    pub on_delete: u8,
    /// 's' simple, 'f' full.
    pub match_type: u8,
    pub deferrable: bool,
    pub initially_deferred: bool,
    pub validated: bool,
    /// NOT ENFORCED: nobody looks whether it holds.
    pub enforced: bool,
    /// ON DELETE SET NULL (…), SET DEFAULT (…): columns of `table`; none: all of the key.
    pub delete_columns: Vec<i16>,
    /// The foreign key of the partitioned table that it is a part of, or 0.
    pub part_of: Oid,
    pub firing: super::trigger::ForeignKeyFiring,
}

#[derive(Clone, Debug)]
pub struct TypeInfo {
    pub oid: Oid,
    pub name: String,
    pub schema_oid: Oid,
    pub len: i16,
    /// PostgreSQL's letter of how large values of a column are stored unless the column says otherwise.
    pub storage: u8,
    /// 'b' base, 'c' composite, 'd' domain, 'e' enum, 'p' pseudo, 'r' range, 'm' multirange.
    pub kind: u8,
    /// PostgreSQL's type category letter and preferred flag, for function resolution.
    pub category: u8,
    pub preferred: bool,
    pub element: Oid,
    pub array: Oid,
    /// Table of a composite type.
    pub table_oid: Oid,
    pub collation: Oid,
    pub base_type: Oid,
    pub typmod: i32,
    /// What makes the type a domain.
    pub domain: Option<Arc<Domain>>,
    /// What makes the type a range or a multirange.
    pub range: Option<kilndb_types::range::RangeType>,
    /// The labels of an enum, in their order; empty for other types.
    pub labels: Arc<[EnumLabel]>,
}

#[derive(Clone, Debug)]
pub struct Domain {
    pub not_null: bool,
    pub default_sql: Option<String>,
    /// The domain's checks in the order of their names, in which they are asked.
    pub checks: Vec<DomainCheck>,
}

#[derive(Clone, Debug)]
pub struct DomainCheck {
    pub name: String,
    pub sql: String,
}

#[derive(Clone, Debug)]
pub struct EnumLabel {
    pub oid: Oid,
    pub order: f32,
    pub label: String,
}

impl EnumLabel {
    /// The value: its place in the order above its OID, so that values compare as numbers do.
    pub fn value(&self) -> Datum {
        let bits = self.order.to_bits();
        let place = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        Datum::U64(u64::from(place) << 32 | u64::from(self.oid))
    }
}

impl TypeInfo {
    /// The label of an enum's value.
    pub fn label(&self, value: u64) -> Option<&EnumLabel> {
        self.labels.iter().find(|l| u64::from(l.oid) == value & 0xffff_ffff)
    }
}

#[derive(Clone, Debug)]
pub struct FunctionInfo {
    pub oid: Oid,
    pub name: String,
    pub schema_oid: Oid,
    /// 'f' function, 'a' aggregate, 'w' window, 'p' procedure.
    pub kind: u8,
    pub strict: bool,
    pub returns_set: bool,
    /// 'i', 's', 'v'.
    pub volatility: u8,
    pub return_type: Oid,
    pub arg_types: Vec<Oid>,
    pub arg_names: Vec<String>,
    /// Types, modes ('i','o','b','v','t') of all arguments, if any is not plain IN.
    pub all_arg_types: Vec<Oid>,
    pub arg_modes: Vec<u8>,
    /// Element type of the VARIADIC array, or 0.
    pub variadic: Oid,
    /// Default expressions (SQL) of the last arguments.
    pub defaults: Vec<String>,
    /// 'internal', 'sql', 'plpgsql'.
    pub language: String,
    pub source: String,
    /// The body is SQL that was bound when the function was made (RETURN, BEGIN ATOMIC).
    pub is_sql_body: bool,
    /// What a call costs, in `cpu_operator_cost`.
    pub cost: f32,
    pub rows: f32,
    pub owner: Oid,
    pub security_definer: bool,
    /// SET clauses: `name=value`.
    pub config: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct OperatorInfo {
    pub oid: Oid,
    pub name: String,
    pub schema_oid: Oid,
    /// The type of the left operand; 0 for a prefix operator.
    pub left: Oid,
    pub right: Oid,
    pub result: Oid,
    pub function: Oid,
    pub commutator: Oid,
    pub negator: Oid,
    pub can_hash: bool,
    pub can_merge: bool,
    /// The functions in pg_proc that estimate what it leaves of a table and of a join; 0: there are none.
    pub restriction: Oid,
    pub join: Oid,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CastContext {
    Implicit,
    Assignment,
    Explicit,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CastMethod {
    Binary,
    InOut,
    Function(Oid),
}
impl CastContext {
    /// What pg_cast.castcontext says.
    pub(super) fn of(letter: u8) -> CastContext {
        match letter {
            b'i' => CastContext::Implicit,
            b'a' => CastContext::Assignment,
            _ => CastContext::Explicit,
        }
    }
}
impl CastMethod {
    /// What pg_cast.castmethod and castfunc say.
    pub(super) fn of(letter: u8, function: Oid) -> CastMethod {
        match letter {
            b'b' => CastMethod::Binary,
            b'i' => CastMethod::InOut,
            _ => CastMethod::Function(function),
        }
    }
}
#[derive(Clone, Copy, Debug)]
pub struct CastInfo {
    pub context: CastContext,
    pub method: CastMethod,
}

/// The catalogs as one statement sees them. Name look-ups without a schema follow search_path.
pub trait CatalogView {
    fn table_by_name(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>>;
    fn table_by_oid(&self, oid: Oid) -> Result<Option<Arc<Table>>>;
    fn schema_exists(&self, name: &str) -> Result<bool>;
    /// Whether whoever asks may do everything.
    fn is_for_superuser(&self) -> bool {
        true
    }
    /// What of a table's row security counts for whoever runs the statement, or for the owner of a view.
    fn row_policies(&self, _table: &Table, _check_as: Option<Oid>) -> Result<RolePolicies> {
        Ok(RolePolicies::Passed)
    }
    /// Whether names with schemas are found from now on, whoever asks: a definition's text is read, of which its maker
    /// was asked. Returns how it was before.
    fn trust_names(&self, _is_trusting: bool) -> bool {
        false
    }
    /// Has what was named since be forgotten, whose text does not become part of the statement: as many schemas are left
    /// as were named before.
    fn keep_named_schemas(&self, _named: &[Oid]) {}
    /// Schemas that the statement has named so far.
    fn named_schemas(&self) -> Vec<Oid> {
        Vec::new()
    }
    /// The only database whose objects there are.
    fn database_name(&self) -> &str;
    fn type_by_name(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<TypeInfo>>>;
    fn type_by_oid(&self, oid: Oid) -> Result<Option<Arc<TypeInfo>>>;
    fn collation_by_name(&self, _schema: Option<&str>, _name: &str) -> Result<Option<CollationInfo>> {
        Ok(None)
    }
    fn collation_info_by_oid(&self, _oid: Oid) -> Result<Option<CollationInfo>> {
        Ok(None)
    }
    /// What is compared by the collation with this OID.
    fn collation(&self, oid: Oid) -> Result<Collation> {
        Ok(Collation::of_bytes(oid))
    }
    /// All functions of that name in scope (kinds 'f', 'a', 'w', 'p').
    fn functions(&self, schema: Option<&str>, name: &str) -> Result<Vec<Arc<FunctionInfo>>>;
    fn function_by_oid(&self, oid: Oid) -> Result<Option<Arc<FunctionInfo>>>;
    /// Who may call a function, if somebody has granted or revoked it; None: everybody.
    fn function_privileges(&self, _oid: Oid) -> Result<Option<Privileges>> {
        Ok(None)
    }
    fn operators(&self, schema: Option<&str>, name: &str) -> Result<Vec<Arc<OperatorInfo>>>;
    fn operator_by_oid(&self, oid: Oid) -> Result<Option<Arc<OperatorInfo>>>;
    fn cast(&self, source: Oid, target: Oid) -> Result<Option<CastInfo>>;
    /// Default btree ordering of a type: oids of the `<`, `=` and `>` operators, for ORDER BY, DISTINCT, GROUP BY.
    fn ordering_operators(&self, type_oid: Oid) -> Result<Option<OrderingOperators>>;
    /// Is `operator` a btree comparison, and which strategy (1 <, 2 <=, 3 =, 4 >=, 5 >)? Left and right types are the
    /// operator's.
    fn btree_strategy(&self, operator: Oid) -> Result<Option<u8>>;
    /// Whether the operator class is there; that of an extension may not be.
    fn has_operator_class(&self, _oid: Oid) -> Result<bool> {
        Ok(false)
    }
    /// What ANALYZE says of a column.
    fn column_statistics(&self, _table: &Table, _attnum: i16) -> Result<Option<Arc<ColumnStatistics>>> {
        Ok(None)
    }
    /// How large the table was when it was last counted.
    fn counted_size(&self, table: &Table) -> CountedSize {
        table.counted_size()
    }
    /// The statistics objects of a table.
    fn extended_statistics(&self, _table: &Table) -> Result<Arc<[ExtendedStatistics]>> {
        Ok(Arc::new([]))
    }
    /// What ANALYZE says of an expression that is a column of one of the table's indexes or statistics objects.
    fn index_statistics(&self, _table: &Table, _index: Oid, _attnum: i16) -> Result<Option<Arc<ColumnStatistics>>> {
        Ok(None)
    }
    /// The type's name as format_type prints it.
    fn format_type(&self, oid: Oid, typmod: i32) -> String;
    fn schema_name_of(&self, oid: Oid) -> Option<String>;
    fn current_schema(&self) -> Option<String>;
    /// How the rows of a partitioned table are divided.
    fn partition_map(&self, table: Oid) -> Result<Arc<super::partition::PartitionMap>> {
        Err(kilndb_base::Error::internal(format!("no catalogs to find the partitions of table {table} in")))
    }
    /// The map of a table's partitions with what is kept of them; None: neither is shared, or not this way.
    fn shared_partitions(&self, _table: Oid) -> Option<&super::known_partitions::SharedPartitions> {
        None
    }
    /// What was kept of a partition, under the table that a statement names.
    fn kept_partition(&self, _ancestor: Oid, _partition: Oid) -> Option<Arc<dyn CachedPartition>> {
        None
    }
    fn keep_partition(&self, _kept: Arc<dyn CachedPartition>) {}
    /// The table as it is now, if the catalogs have changed since this statement began to look at them.
    fn table_now(&self, oid: Oid, _now: &kilndb_storage::Snapshot) -> Result<Option<Arc<Table>>> {
        self.table_by_oid(oid)
    }
    /// The partitions of a table likewise.
    fn partition_map_now(
        &self,
        table: Oid,
        _now: &kilndb_storage::Snapshot,
    ) -> Result<Arc<crate::partition::PartitionMap>> {
        self.partition_map(table)
    }
    /// The catalogs have changed since this statement began to look at them.
    fn is_stale(&self) -> bool {
        false
    }
    fn database_oid(&self) -> Oid {
        0
    }
    fn planner_settings(&self) -> PlannerSettings {
        PlannerSettings::default()
    }
    /// The table of changed rows that has this name for the running trigger function, and whether it is that of new
    /// rows.
    fn transition_table(&self, name: &str) -> Option<(Arc<Table>, bool)> {
        let _ = name;
        None
    }
    /// The session's own rows of system tables.
    fn temporary(&self) -> Option<&super::temporary::TemporaryCatalog> {
        None
    }
}

#[derive(Clone, Copy, Debug)]
pub struct OrderingOperators {
    pub less: Oid,
    pub equal: Oid,
    pub greater: Oid,
}
