//! The bound query: what the statement means once names and types are resolved.
//!
//! Every relation of a statement (table, subquery, function, join alias …) has a number that is unique in the
//! whole statement, so a column is (`rel`, `att`) wherever it is used, correlated or not.

use super::collation::{self, DerivedCollation};
use kilndb_base::{Oid, Result};
use kilndb_catalog::{Column, Index, Table};
use kilndb_types::Datum;
use kilndb_types::collation::Collation;
use std::sync::Arc;

/// `att`: 1-based column; negative: system column as PostgreSQL numbers them; 0: the whole row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ColId {
    pub rel: u32,
    pub att: i16,
}

pub const ATT_CTID: i16 = -1;
pub const ATT_TABLEOID: i16 = -6;

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: Oid,
    pub typmod: i32,
    /// Byte offset in the statement's text, -1 unknown.
    pub loc: i32,
    /// By which collation the value is compared, or, if its type has none, what the inputs are compared by.
    pub collation: DerivedCollation,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FuncForm {
    Call,
    Operator,
    ImplicitCast,
    ExplicitCast,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CastKind {
    /// The value's bits stay as they are.
    Relabel,
    /// Through the text form.
    InOut,
    /// Element by element; the inner function or 0 for relabel or I/O as `kilndb_types::cast` decides.
    Array,
    /// Length coercion to `typmod`.
    Typmod,
    /// ROW to a composite type: field by field.
    Row,
    /// The value is of the domain's base type, and belongs to the domain if the domain's conditions say so.
    Domain,
}

#[derive(Clone, Debug)]
pub struct FuncExpr {
    pub oid: Oid,
    pub name: Arc<str>,
    pub args: Vec<Expr>,
    pub strict: bool,
    pub volatility: u8,
    pub returns_set: bool,
    pub form: FuncForm,
    /// The operator, if called as one.
    pub operator: Oid,
    /// The last argument is an array given with VARIADIC, or gathered for it.
    pub variadic: bool,
    /// pg_proc says it is not ours to run: SQL, PL/pgSQL.
    pub internal: bool,
    /// A routine that returns RECORD: what its column definition list says.
    pub expected: Option<Arc<kilndb_catalog::routine::TupleDescriptor>>,
}

impl FuncExpr {
    /// A plain call of a function that gives one value.
    pub fn internal(oid: Oid, name: Arc<str>, args: Vec<Expr>, strict: bool, volatility: u8) -> FuncExpr {
        let form = FuncForm::Call;
        FuncExpr {
            oid,
            name,
            args,
            strict,
            volatility,
            returns_set: false,
            form,
            operator: 0,
            variadic: false,
            internal: true,
            expected: None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoolTestKind {
    True,
    NotTrue,
    False,
    NotFalse,
    Unknown,
    NotUnknown,
}

impl BoolTestKind {
    /// Is the test met by a value? None: NULL.
    pub fn is_met_by(self, value: Option<bool>) -> bool {
        match self {
            BoolTestKind::True => value == Some(true),
            BoolTestKind::NotTrue => value != Some(true),
            BoolTestKind::False => value == Some(false),
            BoolTestKind::NotFalse => value != Some(false),
            BoolTestKind::Unknown => value.is_none(),
            BoolTestKind::NotUnknown => value.is_some(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareKind {
    Lt,
    Le,
    Ge,
    Gt,
    Eq,
    Ne,
}

impl CompareKind {
    /// What the operator of this name asks; None: it is none of comparison.
    pub fn of_operator(name: &str) -> Option<CompareKind> {
        Some(match name {
            "=" => CompareKind::Eq,
            "<>" => CompareKind::Ne,
            "<" => CompareKind::Lt,
            "<=" => CompareKind::Le,
            ">" => CompareKind::Gt,
            ">=" => CompareKind::Ge,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SqlValue {
    CurrentDate,
    CurrentTime,
    CurrentTimestamp,
    LocalTime,
    LocalTimestamp,
    CurrentUser,
    SessionUser,
    CurrentCatalog,
    CurrentSchema,
}
impl SqlValue {
    /// The word that stands for the value in SQL.
    pub fn keyword(self) -> &'static str {
        match self {
            SqlValue::CurrentDate => "CURRENT_DATE",
            SqlValue::CurrentTime => "CURRENT_TIME",
            SqlValue::CurrentTimestamp => "CURRENT_TIMESTAMP",
            SqlValue::LocalTime => "LOCALTIME",
            SqlValue::LocalTimestamp => "LOCALTIMESTAMP",
            SqlValue::CurrentUser => "CURRENT_USER",
            SqlValue::SessionUser => "SESSION_USER",
            SqlValue::CurrentCatalog => "CURRENT_CATALOG",
            SqlValue::CurrentSchema => "CURRENT_SCHEMA",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Subscript {
    pub lower: Option<Expr>,
    pub upper: Option<Expr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubKind {
    Exists,
    Scalar,
    Any,
    All,
    Array,
    /// (a, b) = (SELECT …)
    RowCompare,
    /// UPDATE … SET (a, b) = (SELECT …): the row of the subquery's only row.
    Row,
}

#[derive(Clone, Debug)]
pub struct SubLink {
    /// A number that all copies of the expression share, and no relation has.
    pub id: u32,
    pub kind: SubKind,
    pub query: SharedQuery,
    /// ANY/ALL/RowCompare: the left sides, and per column the comparison's function over
    /// `Column(test_rel, i)` for the subquery's columns.
    pub left: Vec<Expr>,
    /// The condition with the subquery's columns as columns of relation `test_rel`.
    pub test: Option<Box<Expr>>,
    pub test_rel: u32,
    /// `left = column` for all columns: can be hashed.
    pub equality: bool,
}

/// A query within another. Copies share it until one of them is changed: who copies an expression at each level of
/// nested subqueries would hold a copy of all levels below for each.
#[derive(Clone, Debug)]
pub struct SharedQuery(Arc<Query>);

impl SharedQuery {
    pub fn new(query: Query) -> SharedQuery {
        SharedQuery(Arc::new(query))
    }
    pub fn into_inner(self) -> Query {
        Arc::unwrap_or_clone(self.0)
    }
    /// Are they copies of which none has been changed?
    pub fn is_shared_with(&self, other: &SharedQuery) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl std::ops::Deref for SharedQuery {
    type Target = Query;
    fn deref(&self) -> &Query {
        &self.0
    }
}
impl std::ops::DerefMut for SharedQuery {
    fn deref_mut(&mut self) -> &mut Query {
        Arc::make_mut(&mut self.0)
    }
}

#[derive(Clone, Debug)]
pub struct SortKey {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug)]
pub struct AggCall {
    pub oid: Oid,
    pub name: Arc<str>,
    pub args: Vec<Expr>,
    /// WITHIN GROUP (ORDER BY …): the direct arguments precede.
    pub direct_args: usize,
    pub distinct: bool,
    pub order: Vec<SortKey>,
    pub filter: Option<Box<Expr>>,
    pub star: bool,
}

#[derive(Clone, Debug)]
pub struct WindowCall {
    pub oid: Oid,
    pub name: Arc<str>,
    pub args: Vec<Expr>,
    pub is_aggregate: bool,
    pub filter: Option<Box<Expr>>,
    /// Index in `Query::windows`.
    pub window: usize,
    pub star: bool,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Const(Datum),
    /// 0-based.
    Param(u32),
    Column(ColId),
    Func(Box<FuncExpr>),
    Cast {
        arg: Box<Expr>,
        kind: CastKind,
        explicit: bool,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        arg: Box<Expr>,
        negated: bool,
    },
    BoolTest {
        arg: Box<Expr>,
        test: BoolTestKind,
    },
    /// `args` of the = function.
    IsDistinct {
        eq: Box<FuncExpr>,
        negated: bool,
    },
    NullIf(Box<FuncExpr>),
    Case {
        arg: Option<Box<Expr>>,
        whens: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    /// The value of the innermost CASE argument, while its WHENs are evaluated.
    CaseArg,
    Coalesce(Vec<Expr>),
    MinMax {
        greatest: bool,
        args: Vec<Expr>,
    },
    Array {
        elements: Vec<Expr>,
        element_type: Oid,
        multidim: bool,
    },
    Row {
        fields: Vec<Expr>,
        names: Vec<String>,
    },
    Field {
        arg: Box<Expr>,
        index: usize,
        name: String,
    },
    Subscript {
        arg: Box<Expr>,
        subscripts: Vec<Subscript>,
        slice: bool,
    },
    /// Assignment to an element or slice.
    SubscriptAssign {
        arg: Box<Expr>,
        subscripts: Vec<Subscript>,
        slice: bool,
        value: Box<Expr>,
    },
    FieldAssign {
        arg: Box<Expr>,
        index: usize,
        value: Box<Expr>,
        count: usize,
        types: Vec<Oid>,
    },
    /// `func` has two arguments: the scalar, and the array whose elements are the right side.
    ScalarArray {
        func: Box<FuncExpr>,
        any: bool,
    },
    RowCompare {
        kind: CompareKind,
        left: Vec<Expr>,
        right: Vec<Expr>,
    },
    SubLink(Box<SubLink>),
    Agg(Box<AggCall>),
    Window(Box<WindowCall>),
    Grouping(Vec<Expr>),
    SqlValue(SqlValue),
    Collate {
        arg: Box<Expr>,
        collation: Collation,
        /// As it is shown: with its schema if that is not searched.
        name: String,
    },
    /// DEFAULT in VALUES of an INSERT, until it is replaced.
    Default,
    CurrentOf(String),
    MergeAction,
}

#[derive(Clone, Debug)]
pub struct Target {
    pub expr: Expr,
    pub name: String,
    /// The column is not part of the result: an ORDER BY expression that the query does not return, for example.
    pub junk: bool,
    pub table_oid: Oid,
    pub attnum: i16,
}

#[derive(Clone, Debug)]
pub struct RelColumn {
    pub name: String,
    pub ty: Oid,
    pub typmod: i32,
    pub collation: DerivedCollation,
}

impl From<&Column> for RelColumn {
    fn from(c: &Column) -> RelColumn {
        RelColumn { name: c.name.clone(), ty: c.type_oid, typmod: c.typmod, collation: c.collation.into() }
    }
}

impl RelColumn {
    /// One with its type's own collation.
    pub fn plain(name: impl Into<String>, ty: Oid, typmod: i32) -> RelColumn {
        RelColumn { name: name.into(), ty, typmod, collation: collation::of_type(ty) }
    }
    /// Its value, where its place is `id`.
    pub fn expr(&self, id: ColId) -> Expr {
        Expr::column(id, self.ty, self.typmod).collated(self.collation)
    }
}

#[derive(Clone, Debug)]
pub struct Rel {
    pub id: u32,
    pub alias: String,
    pub columns: Vec<RelColumn>,
    pub kind: RelKind,
    pub lateral: bool,
    /// What row security lets through of a table, and that there are no rows in a partitioned table itself: a row must meet all of them, in this order, before anything that could
    /// tell of it is asked of it.
    pub security_quals: Vec<Expr>,
}

#[derive(Clone, Debug)]
pub enum RelKind {
    Table(Arc<Table>),
    Subquery(SharedQuery),
    Function {
        calls: Vec<TableFunc>,
        ordinality: bool,
    },
    Values(Vec<Vec<Expr>>),
    Cte {
        cte: u32,
        recursive_self: bool,
    },
    /// Rows a statement hands over: EXCLUDED, OLD, NEW, and results of aggregates and the like.
    Pseudo,
}

#[derive(Clone, Debug)]
pub struct TableFunc {
    pub expr: Expr,
    pub columns: usize,
    /// Fields come from a composite value.
    pub composite: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Semi,
    Anti,
}

#[derive(Clone, Debug)]
pub enum JoinTree {
    Rel(u32),
    Join { kind: JoinKind, left: Box<JoinTree>, right: Box<JoinTree>, on: Option<Expr> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOp {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug)]
pub enum QueryBody {
    Select,
    /// VALUES lists as a query of their own.
    Values(Vec<Vec<Expr>>),
    SetOp {
        op: SetOp,
        all: bool,
        left: SharedQuery,
        right: SharedQuery,
        rel: u32,
    },
    Dml(Box<Dml>),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockStrength {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockWait {
    Wait,
    SkipLocked,
    NoWait,
}
/// A table, or a view or subquery that tables are read from, whose rows a query locks.
#[derive(Clone, Copy, Debug)]
pub struct RowLock {
    pub rel: u32,
    pub strength: LockStrength,
    pub wait: LockWait,
    /// The query has it of the one that it stands in, which locks what it reads from this one.
    pub is_inherited: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameMode {
    Rows,
    Range,
    Groups,
}
#[derive(Clone, Debug)]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}
#[derive(Clone, Debug)]
pub struct WindowSpec {
    pub name: Option<String>,
    pub partition: Vec<Expr>,
    pub order: Vec<SortKey>,
    pub mode: FrameMode,
    pub start: FrameBound,
    pub end: FrameBound,
    /// What EXCLUDE leaves out of the frame: 0 nothing, 1 the current row, 2 its group, 3 its ties.
    pub exclude: u8,
    pub default_frame: bool,
    /// The frame is written with BETWEEN.
    pub is_between: bool,
}

#[derive(Clone, Debug)]
pub struct Cte {
    pub id: u32,
    pub name: String,
    pub query: SharedQuery,
    pub recursive: bool,
    pub materialized: Option<bool>,
    pub references: u32,
}

/// One query level.
#[derive(Clone, Debug)]
pub struct Query {
    pub ctes: Vec<Cte>,
    pub body: QueryBody,
    pub rels: Vec<Rel>,
    pub from: Vec<JoinTree>,
    pub filter: Option<Expr>,
    pub targets: Vec<Target>,
    /// Grouping expressions; `grouping_sets` index them (one set of all if there is none).
    pub group_by: Vec<Expr>,
    pub grouping_sets: Option<Vec<Vec<usize>>>,
    /// Constants that are grouped: which target is which element of `group_by`. Other constants are never NULL for a
    /// grouping set, equal ones included.
    pub constant_keys: Vec<(usize, usize)>,
    pub having: Option<Expr>,
    pub has_aggs: bool,
    /// Aggregates that stand in subqueries and belong to this level: there they are columns of this relation.
    pub outer_aggs: Vec<Expr>,
    /// The number that aggregates of an outer level stand under; 0: there are none.
    pub outer_agg_rel: u32,
    pub windows: Vec<WindowSpec>,
    pub has_srf: bool,
    /// Sort keys over the FROM's columns.
    pub order_by: Vec<SortKey>,
    pub distinct: Distinct,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    pub with_ties: bool,
    /// Of a view or subquery its own relations are locked in it, or here once it has been merged.
    pub locks: Vec<RowLock>,
    /// How many of the targets, the last ones, tell a cursor where its row is. The statement does not read them.
    pub told_places: usize,
    /// A view's that hides rows: nothing that could tell of them is asked of rows that it has not let through.
    pub is_barrier: bool,
    /// Of the whole of a statement, or of a body that was put into one: the relations that it names.
    pub accesses: Vec<super::access::RelationAccess>,
}

#[derive(Clone, Debug)]
pub enum Distinct {
    No,
    All,
    On(Vec<Expr>),
}

impl Cte {
    /// One that is used once, selects, and is not volatile, becomes a subquery where it is used.
    pub fn becomes_subquery(&self) -> bool {
        self.references == 1
            && self.materialized != Some(true)
            && !self.recursive
            && !matches!(self.query.body, QueryBody::Dml(_))
            && self.query.locks.is_empty()
            && !self.query.is_volatile()
    }

    /// One that nobody uses is not run.
    pub fn is_unused(&self) -> bool {
        self.references == 0 && !matches!(self.query.body, QueryBody::Dml(_))
    }
}

impl Query {
    /// Do conditions alone decide which rows the query has, or that it has its only one?
    pub fn only_conditions(&self) -> bool {
        matches!(self.body, QueryBody::Select)
            && self.ctes.is_empty()
            && !self.has_aggs
            && self.group_by.is_empty()
            && self.grouping_sets.is_none()
            && self.having.is_none()
            && self.windows.is_empty()
            && !self.has_srf
            && self.limit.is_none()
            && self.offset.is_none()
            && self.locks.iter().all(|lock| lock.is_inherited)
            && !matches!(self.distinct, Distinct::On(_))
    }
}

impl Default for Query {
    fn default() -> Query {
        Query {
            ctes: Vec::new(),
            body: QueryBody::Select,
            rels: Vec::new(),
            from: Vec::new(),
            filter: None,
            targets: Vec::new(),
            group_by: Vec::new(),
            grouping_sets: None,
            constant_keys: Vec::new(),
            having: None,
            has_aggs: false,
            outer_aggs: Vec::new(),
            outer_agg_rel: 0,
            windows: Vec::new(),
            has_srf: false,
            order_by: Vec::new(),
            distinct: Distinct::No,
            limit: None,
            offset: None,
            with_ties: false,
            locks: Vec::new(),
            told_places: 0,
            accesses: Vec::new(),
            is_barrier: false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DmlKind {
    Insert,
    Update,
    Delete,
    Merge,
}

#[derive(Clone, Debug)]
pub struct Assignment {
    /// Index in `Table::columns`.
    pub column: usize,
    pub expr: Expr,
}

#[derive(Clone, Debug)]
pub struct OnConflict {
    /// Candidate arbiters; empty: any unique index (DO NOTHING only).
    pub arbiters: Vec<Arc<Index>>,
    pub update: Option<ConflictUpdate>,
}
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    pub assignments: Vec<Assignment>,
    pub filter: Option<Expr>,
}

/// The functions that a changed row's rules call, as far as somebody may be asked about them, by when they are.
#[derive(Clone, Default, Debug)]
pub struct RuleFunctions<F> {
    pub generated: F,
    /// Those of CHECK constraints: columns that may not be NULL come before them.
    pub checks: F,
    /// Those of index expressions: no constraint is behind them.
    pub indexes: F,
}

impl<F> RuleFunctions<F> {
    pub fn try_map<G>(&self, f: impl Fn(&F) -> Result<G>) -> Result<RuleFunctions<G>> {
        Ok(RuleFunctions { generated: f(&self.generated)?, checks: f(&self.checks)?, indexes: f(&self.indexes)? })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MergeWhen {
    Matched,
    NotMatchedBySource,
    NotMatchedByTarget,
}

#[derive(Clone, Debug)]
pub struct MergeAction {
    pub when: MergeWhen,
    pub condition: Option<Expr>,
    pub action: MergeCommand,
}
#[derive(Clone, Debug)]
pub enum MergeCommand {
    Nothing,
    Delete,
    Update(Vec<Assignment>),
    Insert(Vec<Assignment>),
}

/// INSERT, UPDATE, DELETE, MERGE. In `Query`, `rels`/`from`/`filter` describe the rows to work on.
#[derive(Clone, Debug)]
pub struct Dml {
    pub kind: DmlKind,
    pub table: Arc<Table>,
    /// What the statement, or the view that it names, calls the table.
    pub alias: String,
    /// The target relation (its current row; for INSERT the existing row of ON CONFLICT).
    pub rel: u32,
    /// The row proposed for insertion (EXCLUDED). In RETURNING of MERGE: the new row, or the one that was deleted.
    pub excluded_rel: u32,
    pub old_rel: u32,
    pub new_rel: u32,
    /// INSERT: the source of rows and, per table column, the expression over it. UPDATE: assignments.
    pub source: Option<SharedQuery>,
    pub source_rel: u32,
    pub assignments: Vec<Assignment>,
    /// Expressions of defaults and generated columns, checks: over `new_rel`.
    pub generated: Vec<Assignment>,
    pub checks: Vec<(String, Expr)>,
    /// What row security and views want of new rows, and of rows that are found on the way.
    pub row_checks: Vec<RowCheck>,
    /// Functions that generated columns, checks and index expressions call, which whoever changes a row must be allowed
    /// to call.
    pub rule_functions: RuleFunctions<Vec<Oid>>,
    pub on_conflict: Option<OnConflict>,
    pub merge: Vec<MergeAction>,
    /// MERGE: does a row of the join have both sides, and do they match? `None` in other statements.
    pub merge_on: Option<Expr>,
    pub returning: Vec<Target>,
    /// COPY FROM … WHERE, over `new_rel`: other rows are left out.
    pub row_filter: Option<Expr>,
    /// The rows are those that the table has had, and move: no trigger fires, and references hold as they are.
    pub moves_rows: bool,
    /// It is what a foreign key does to the referencing table, and so that table's owner's.
    pub is_of_key: bool,
    pub triggers: Vec<super::trigger::BoundTrigger>,
    /// The row before the change, for conditions of triggers.
    pub old_values_rel: u32,
    /// Index predicates and expressions over `new_rel`, by index OID.
    pub indexes: Vec<BoundIndex>,
}

/// What a row is asked about by a [`RowCheck`]: PostgreSQL's WCOKind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowCheckKind {
    /// A row that is inserted: over `new_rel`.
    Insert,
    /// A row as it is after an update: over `new_rel`.
    Update,
    /// The row that ON CONFLICT DO UPDATE has found: over `rel`.
    Conflict,
    /// The row that MERGE is about to update: over `rel`.
    MergeUpdate,
    /// The row that MERGE is about to delete: over `rel`.
    MergeDelete,
    /// A row that has been inserted or updated through a view WITH CHECK OPTION: over `new_rel`.
    View,
}

/// A condition of row security or of a view that a row must meet, or the statement fails.
#[derive(Clone, Debug)]
pub struct RowCheck {
    pub kind: RowCheckKind,
    /// The restrictive policy that it is, or the view; None: it stands for all policies that are permissive.
    pub policy: Option<String>,
    pub condition: Expr,
}

#[derive(Clone, Debug)]
pub struct BoundIndex {
    pub index: Arc<Index>,
    /// The expressions of the index, one for each key: None for a plain column.
    pub expressions: Vec<Option<Expr>>,
    pub predicate: Option<Expr>,
}

impl BoundIndex {
    /// Columns (attnums) that a row's entry, and whether it has one, depends on.
    pub fn columns(&self) -> Vec<i16> {
        let mut used = Vec::new();
        self.expressions.iter().flatten().chain(&self.predicate).for_each(|e| e.columns(&mut used));
        self.index.keys.iter().map(|k| k.attnum).chain(used.iter().map(|c| c.att)).collect()
    }
}

/// What [`super::bind`] returns.
#[derive(Clone, Debug)]
pub enum BoundStatement {
    Query(SharedQuery),
    Explain { options: ExplainOptions, inner: SharedQuery },
}

#[derive(Clone, Debug, Default)]
pub struct ExplainOptions {
    pub analyze: bool,
    pub verbose: bool,
    pub costs: bool,
    pub timing: bool,
    pub summary: bool,
    pub buffers: bool,
    /// What was written to the log.
    pub wal: bool,
    /// Settings that are not as they come.
    pub settings: bool,
    /// Parameters have no values.
    pub generic_plan: bool,
    pub serialize: ExplainSerialize,
    pub format: ExplainFormat,
}

/// EXPLAIN ANALYZE: whether the result is made ready for the client, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ExplainSerialize {
    #[default]
    None,
    Text,
    Binary,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ExplainFormat {
    #[default]
    Text,
    Json,
    Yaml,
    Xml,
}

impl ExplainFormat {
    /// Type of the result's column.
    pub fn type_oid(self) -> Oid {
        match self {
            ExplainFormat::Json => kilndb_types::oids::JSON,
            ExplainFormat::Xml => kilndb_types::oids::XML,
            _ => kilndb_types::oids::TEXT,
        }
    }
}

impl Expr {
    pub fn new(kind: ExprKind, ty: Oid) -> Expr {
        let collation = collation::derived(&kind, ty);
        Expr { kind, ty, typmod: -1, loc: -1, collation }
    }
    pub fn at(mut self, loc: i32) -> Expr {
        self.loc = loc;
        self
    }
    pub(crate) fn with_typmod(mut self, typmod: i32) -> Expr {
        self.typmod = typmod;
        self
    }
    pub fn column(id: ColId, ty: Oid, typmod: i32) -> Expr {
        Expr { kind: ExprKind::Column(id), ty, typmod, loc: -1, collation: collation::of_type(ty) }
    }
    /// The value of a table's column, where the table is the relation `rel`.
    pub fn of_column(rel: u32, column: &Column) -> Expr {
        let id = ColId { rel, att: column.attnum };
        Expr::column(id, column.type_oid, column.typmod).collated(column.collation)
    }
    /// The column that has the expression's value once it has been computed.
    pub fn as_column(&self, id: ColId) -> Expr {
        Expr::column(id, self.ty, self.typmod).collated(self.collation)
    }
    /// The column of a relation whose query computes the expression.
    pub fn rel_column(&self, name: impl Into<String>) -> RelColumn {
        RelColumn { name: name.into(), ty: self.ty, typmod: self.typmod, collation: self.collation.implicit() }
    }
    /// With the collation of the column, or of the expression that has the value.
    pub fn collated(mut self, collation: impl Into<DerivedCollation>) -> Expr {
        self.collation = collation.into().implicit();
        self
    }
    pub fn null(ty: Oid) -> Expr {
        Expr::new(ExprKind::Const(Datum::Null), ty)
    }
    pub fn bool(value: bool) -> Expr {
        Expr::new(ExprKind::Const(Datum::Bool(value)), kilndb_types::oids::BOOL)
    }
    pub fn as_const(&self) -> Option<&Datum> {
        match &self.kind {
            ExprKind::Const(d) => Some(d),
            _ => None,
        }
    }
    /// An AND of all, without needless nesting.
    pub fn and_all(mut list: Vec<Expr>) -> Option<Expr> {
        match list.len() {
            0 => None,
            1 => list.pop(),
            _ => Some(Expr::new(ExprKind::And(list), kilndb_types::oids::BOOL)),
        }
    }
    /// Splits top-level ANDs.
    pub fn conjuncts(self, out: &mut Vec<Expr>) {
        match self.kind {
            ExprKind::And(list) => list.into_iter().for_each(|e| e.conjuncts(out)),
            _ => out.push(self),
        }
    }
}
