//! Physical plans: read-only, shared between sessions.

use super::expression::{Expression, RoutineCall};
use super::measured::MeasuredCost;
use super::program::{LazyAggregateProgram, LazyCondition, LazyJoinProgram, LazyValuesProgram};
pub use super::scan_node::*;
use kilndb_base::Oid;
use kilndb_base::hash::{HashMap, HashSet};
use kilndb_base::sync::atomic::{AtomicU64, Ordering};
use kilndb_bind::access::{FunctionAccess, StatementAccess};
use kilndb_bind::collation::DerivedCollation;
use kilndb_bind::ir::{
    DmlKind, ExplainOptions, JoinKind, LockStrength, LockWait, MergeWhen, RowCheckKind, RuleFunctions, SetOp,
};
use kilndb_catalog::column_statistics::FormerStatistics;
use kilndb_catalog::row_security::PlanRole;
use kilndb_catalog::{ForeignKey, Index, IndexKey, Table};
use kilndb_storage::accesses::Accesses;
use kilndb_storage::{LockMode, Relation};
use kilndb_types::aggregates::{AggregateFn, PartialAggregate};
use kilndb_types::functions::FunctionKind;
use kilndb_types::inverted::InvertedClass;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct OutputColumn {
    pub name: String,
    pub type_oid: Oid,
    pub typmod: i32,
    pub collation: DerivedCollation,
    /// The size in bytes of a value, -1 if it varies.
    pub type_len: i16,
    /// The type that clients see: for a domain the type under it, with its modifier.
    pub shown_type: Oid,
    pub shown_typmod: i32,
    pub table_oid: Oid,
    pub attnum: i16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandTag {
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    Explain,
}

impl CommandTag {
    pub fn name(self) -> &'static str {
        match self {
            CommandTag::Select => "SELECT",
            CommandTag::Insert => "INSERT",
            CommandTag::Update => "UPDATE",
            CommandTag::Delete => "DELETE",
            CommandTag::Merge => "MERGE",
            CommandTag::Explain => "EXPLAIN",
        }
    }
}

pub struct Plan {
    pub root: Arc<PlanNode>,
    /// The subplans, by the number that `CExpr::SubPlan` refers to.
    pub subplans: Vec<Arc<PlanNode>>,
    /// By node id: which of `subplans` run once for the query level whose top the node is.
    pub init_plans: HashMap<usize, Vec<usize>>,
    /// By node id: which of `ctes` the query level has whose top the node is.
    pub level_ctes: HashMap<usize, Vec<usize>>,
    /// The subplans that EXPLAIN does not show.
    pub hidden_subplans: HashSet<usize>,
    pub ctes: Vec<CtePlan>,
    /// (parameter, WITH query): the query's rows are those of the parameter's present value.
    pub correlated_ctes: Vec<(usize, usize)>,
    pub exec_params: usize,
    pub once: usize,
    pub nodes: usize,
    pub columns: Vec<OutputColumn>,
    /// The table locks that are taken before the plan runs.
    pub locks: Vec<(Oid, LockMode)>,
    /// A materialized view that the plan reads and that has not been filled: the plan does not run.
    pub unpopulated: Option<String>,
    pub is_read_only: bool,
    /// The plan writes to tables that are not temporary, or locks rows of them.
    pub changes_permanent: bool,
    pub param_types: Vec<Oid>,
    pub tag: CommandTag,
    /// The text of the command tag.
    pub command: &'static str,
    /// Data-modifying statements report rows changed; with RETURNING they also return rows.
    pub has_returning: bool,
    /// EXPLAIN: the statement's own columns are in `columns`, the plan is to be shown.
    pub explain: Option<ExplainOptions>,
    /// EXPLAIN: types and modifiers of the statement's own columns; what its planning has taken.
    pub explained_columns: Vec<(Oid, i32)>,
    pub planning: PlanningReport,
    /// Data-modifying CTEs: run to the end even if nobody reads them.
    pub run_always: Vec<usize>,
    /// Names for which no temporary object was found, and would be.
    pub names: Vec<String>,
    /// The relations and types that the plan depends on, in order.
    pub objects: Vec<Oid>,
    /// The plan uses temporary objects, so it is of no use to another session, nor when these have changed.
    pub is_private: bool,
    /// With other values of the parameters another plan may be better.
    pub depends_on_values: bool,
    /// With known values of the parameters a condition or a LIMIT may become another one.
    pub values_may_simplify: bool,
    /// How many relations there were to find the best way for.
    pub relations: usize,
    /// What its executions cost, if that is measured (plan_guard).
    pub measured: Option<Arc<MeasuredCost>>,
    /// The tables as they were when it was made, if its cost is measured.
    pub statistics: Option<Arc<FormerStatistics>>,
    /// A constant of it is a literal such as 'now', which was read by the clock of the transaction that made the plan,
    /// or a role's name: the same text means something else to others, or later.
    pub reads_moment: bool,
    /// For whom it was made, if policies of its tables make it another one for others.
    pub role: Option<PlanRole>,
    /// A cursor's: tables whose rows' `ctid` and `tableoid` each row of the result has behind its columns.
    pub places: Vec<Oid>,
    /// A small one whose execution can be run again, and holds nothing much meanwhile.
    pub keeps_state: bool,
    pub addresses: super::addresses::PlanAddresses,
    pub key_ahead: Option<super::key_ahead::KeyAhead>,
    /// What whoever runs the plan must be allowed to do.
    pub access: StatementAccess,
    pub allowed: AllowedFor,
}

/// The role that was last found to be allowed all that a plan does, with the version of the roles that it was found by.
/// Roles that take turns are asked about each time.
#[derive(Default)]
pub struct AllowedFor(AtomicU64);

impl AllowedFor {
    fn of(role: Oid, version: u64) -> u64 {
        u64::from(role) << 32 | (version & 0xffff_ffff)
    }
    #[inline]
    pub fn is(&self, role: Oid, version: u64) -> bool {
        self.0.load(Ordering::Relaxed) == AllowedFor::of(role, version)
    }
    pub fn note(&self, role: Oid, version: u64) {
        self.0.store(AllowedFor::of(role, version), Ordering::Relaxed);
    }
}

/// Does the plan consist of scans and nodes that pass their rows on?
pub(super) fn is_pipeline(node: &PlanNode) -> bool {
    match &node.op {
        Op::Result { .. } | Op::SeqScan(_) | Op::IndexScan { .. } => true,
        Op::Filter { input, .. }
        | Op::OneTimeFilter { input, .. }
        | Op::Project { input, .. }
        | Op::Limit { input, .. } => is_pipeline(input),
        _ => false,
    }
}

/// What EXPLAIN shows about the planning of a statement.
#[derive(Default)]
pub struct PlanningReport {
    pub nanos: u64,
    pub accesses: Accesses,
    /// Settings that plans depend on and that are not as they come, if they are wanted.
    pub settings: Vec<(&'static str, String)>,
}

pub struct CtePlan {
    pub id: u32,
    pub name: String,
    pub node: Arc<PlanNode>,
    /// The recursive term; `node` is the first one.
    pub recursive: Option<Arc<PlanNode>>,
    pub union_all: bool,
    pub types: Vec<Oid>,
    pub width: usize,
    /// WITH queries of the recursive term: they start anew in each round.
    pub inner: std::ops::Range<usize>,
}

pub struct PlanNode {
    pub id: usize,
    pub op: Op,
    pub width: usize,
    pub rows: f64,
    pub startup: f64,
    pub cost: f64,
    /// Lines under the node in EXPLAIN, filled only then.
    pub info: Vec<String>,
    pub label: String,
}

pub struct SortSpec {
    pub expr: Expression,
    pub ty: Oid,
    pub descending: bool,
    pub nulls_first: bool,
}

pub struct AggSpec {
    pub oid: Oid,
    /// The aggregate's implementation. None: this build has none, which is an error when the plan runs.
    pub make: Option<AggregateFn>,
    /// What it has gathered of no rows, if what it gathers of parts of the rows can be made one.
    pub partial: Option<PartialAggregate>,
    pub name: Arc<str>,
    pub args: Vec<Expression>,
    pub arg_types: Vec<Oid>,
    /// What DISTINCT tells the arguments apart as.
    pub told_apart_types: Vec<Oid>,
    pub result: Oid,
    pub filter: Option<Expression>,
    pub distinct: bool,
    pub order: Vec<SortSpec>,
    pub direct_args: usize,
    pub within_group: bool,
    pub star: bool,
}

/// count("any").
pub const COUNT_ANY: Oid = 2147;

impl AggSpec {
    /// Are its arguments kept until the group's end?
    pub fn keeps_arguments(&self) -> bool {
        !self.order.is_empty() || self.distinct || self.within_group
    }
    /// Does only the number of different arguments count? Then nobody wants them in order, nor the arguments themselves.
    pub fn counts_different(&self) -> bool {
        self.oid == COUNT_ANY && self.distinct && self.order.is_empty()
    }
}

/// What EXPLAIN shows about a function in FROM.
pub struct ShownFunction {
    /// The schema and name, if it is one function.
    pub name: Option<(String, String)>,
    pub alias: String,
}

pub struct FunctionCall {
    /// The implementation, if it is a built-in function.
    pub function: Option<FunctionKind>,
    pub name: Arc<str>,
    pub args: Vec<Expression>,
    pub arg_types: Vec<Oid>,
    pub strict: bool,
    pub returns_set: bool,
    /// The expression, if it is no set-returning call.
    pub scalar: Option<Expression>,
    pub columns: usize,
    pub composite: bool,
    /// The row type of a column definition list.
    pub shape: Option<Arc<kilndb_catalog::routine::TupleDescriptor>>,
    /// The call, if it is no built-in function.
    pub routine: Option<Arc<RoutineCall>>,
}

pub enum ProjectItem {
    Expr(Expression),
    Set(FunctionCall),
}

/// How the values of a merge join's key are compared.
#[derive(Clone, Copy, Debug)]
pub struct MergeKeyKind {
    pub ty: Oid,
    pub descending: bool,
}

pub struct WindowFn {
    pub oid: Oid,
    /// The function's implementation. None: this build has none, which is an error when the plan runs.
    pub function: Option<FunctionKind>,
    pub name: Arc<str>,
    pub args: Vec<Expression>,
    pub arg_types: Vec<Oid>,
    pub result: Oid,
    pub is_aggregate: bool,
    pub filter: Option<Expression>,
    pub star: bool,
    /// Arguments and FILTER may give other values when they are evaluated again: rows cannot be taken out of the aggregate.
    pub varies: bool,
    /// It is an aggregate that more rows may come to after its value was asked for.
    pub outlives_value: bool,
}
pub enum CFrameBound {
    UnboundedPreceding,
    Preceding(Expression),
    CurrentRow,
    Following(Expression),
    UnboundedFollowing,
}
pub struct WindowPlan {
    pub partition: Vec<SortSpec>,
    pub order: Vec<SortSpec>,
    pub mode: kilndb_bind::ir::FrameMode,
    pub start: CFrameBound,
    pub end: CFrameBound,
    /// RANGE offsets: functions order_key + offset and order_key - offset.
    pub range_plus: Option<kilndb_types::functions::ScalarFn>,
    pub range_minus: Option<kilndb_types::functions::ScalarFn>,
    pub exclude: u8,
    pub functions: Vec<WindowFn>,
    /// Rows are of use as long as these functions, which never sink within a partition, are within bounds.
    pub run: Vec<RunCondition>,
}

/// A bound of a window function's value.
pub struct RunCondition {
    /// The position among the window's functions.
    pub function: usize,
    pub most: Expression,
    pub is_inclusive: bool,
}

pub struct LockTarget {
    pub table: Arc<Table>,
    pub heap: Option<Arc<Relation>>,
    /// The slot that says which partition the row is in, if the table is partitioned.
    pub tableoid: Option<usize>,
    /// Slot of ctid, and (slot, output) of the other columns of the row.
    pub ctid: usize,
    pub columns: Vec<(usize, ScanOutput)>,
    pub strength: LockStrength,
    pub wait: LockWait,
}

pub enum Op {
    /// One row without columns.
    Result {
        filter: Option<Expression>,
    },
    SeqScan(Scan),
    IndexScan {
        scan: Scan,
        access: IndexAccess,
    },
    TidScan {
        scan: Scan,
        tids: Vec<Expression>,
    },
    /// Rows that inverted indexes find, in their order. `shown`: the nodes that EXPLAIN shows below.
    BitmapScan {
        scan: Scan,
        bitmap: super::Bitmap,
        shown: Vec<Arc<PlanNode>>,
    },
    /// A node that only EXPLAIN shows, and that is not run. `index`: the index that it is about, or 0.
    Shown {
        index: Oid,
        below: Vec<Arc<PlanNode>>,
    },
    /// A scan of each partition that may have rows.
    Partitions(Box<super::partition::PartitionScan>),
    /// The input for one partition, or a few, after the other.
    ByPartition(Box<super::partitionwise::ByPartition>),
    /// One row with the number of visible rows of the heap. `is_system`: the session's temporary rows of the system
    /// table count too.
    CountScan {
        heap: Arc<Relation>,
        table: Oid,
        is_system: bool,
    },
    /// If `rows` is None they come from `ExecContext::source`.
    Values {
        rows: Vec<Vec<Expression>>,
    },
    Function {
        calls: Vec<FunctionCall>,
        ordinality: bool,
        shown: Option<Box<ShownFunction>>,
    },
    CteScan {
        cte: usize,
    },
    WorkTable {
        cte: usize,
    },
    Filter {
        input: Arc<PlanNode>,
        condition: Expression,
    },
    /// The input's rows, or none: the condition uses no column of the input and is judged before its first row.
    OneTimeFilter {
        input: Arc<PlanNode>,
        condition: Expression,
    },
    Project {
        input: Arc<PlanNode>,
        exprs: Vec<Expression>,
        /// Any thread can compute the expressions.
        is_self_contained: bool,
        program: LazyValuesProgram,
    },
    ProjectSet {
        input: Arc<PlanNode>,
        items: Vec<ProjectItem>,
    },
    /// `params`: (exec param, outer slot) set for each outer row before the inner side starts again.
    NestLoop {
        outer: Arc<PlanNode>,
        inner: Arc<PlanNode>,
        kind: JoinKind,
        on: Option<Expression>,
        params: Vec<(usize, usize)>,
        materialize: bool,
        switch: Option<Box<LoopSwitch>>,
        /// The inner side is looked up in an index, for which no session is needed, nor for the condition: any thread can join
        /// a part of the outer rows.
        is_self_contained: bool,
        program: Box<LazyCondition>,
    },
    HashJoin {
        probe: Arc<PlanNode>,
        build: Arc<PlanNode>,
        kind: JoinKind,
        probe_keys: Vec<Expression>,
        build_keys: Vec<Expression>,
        types: Vec<Oid>,
        on: Option<Expression>,
        /// The rows come in the order of the probe side.
        keeps_order: bool,
        /// The keys and the condition depend on nothing but the rows and the parameters.
        is_self_contained: bool,
        program: Box<LazyJoinProgram>,
    },
    /// Both sides are sorted by their keys, ascending with NULL last.
    MergeJoin {
        outer: Arc<PlanNode>,
        inner: Arc<PlanNode>,
        kind: JoinKind,
        outer_keys: Vec<Expression>,
        inner_keys: Vec<Expression>,
        kinds: Vec<MergeKeyKind>,
        on: Option<Expression>,
    },
    /// The inner side of a nested loop, whose rows are kept by the values of the parameters that it depends on.
    Memoize {
        input: Arc<PlanNode>,
        params: Vec<usize>,
        /// One row of each run is enough.
        single: bool,
    },
    Aggregate {
        input: Arc<PlanNode>,
        groups: Vec<Expression>,
        types: Vec<Oid>,
        sets: Option<Vec<Vec<usize>>>,
        aggs: Vec<AggSpec>,
        /// The indexes of group expressions for each GROUPING(…).
        groupings: Vec<Vec<usize>>,
        /// The rows of one group follow one another in the input.
        sorted: bool,
        /// Several threads may each aggregate a part of the table that is the input.
        in_parts: bool,
        program: LazyAggregateProgram,
    },
    /// `presorted`: the input is sorted by so many of the first keys.
    Sort {
        input: Arc<PlanNode>,
        keys: Vec<SortSpec>,
        presorted: usize,
        /// Any thread can compute the keys.
        is_self_contained: bool,
    },
    Limit {
        input: Arc<PlanNode>,
        limit: Option<Expression>,
        offset: Option<Expression>,
        ties: Option<Vec<SortSpec>>,
    },
    /// Keeps the first row of each distinct `keys`; `sorted`: rows with equal keys follow one another.
    Distinct {
        input: Arc<PlanNode>,
        keys: Vec<SortSpec>,
        sorted: bool,
    },
    SetOp {
        op: SetOp,
        all: bool,
        left: Arc<PlanNode>,
        right: Arc<PlanNode>,
        types: Vec<Oid>,
    },
    Window {
        input: Arc<PlanNode>,
        plan: WindowPlan,
    },
    /// `early`: the input is a scan of the one table, and nobody would notice if a row that cannot be locked were
    /// passed over there already.
    LockRows {
        input: Arc<PlanNode>,
        targets: Vec<LockTarget>,
        recheck: RowRecheck,
        early: bool,
    },
    Modify(Box<ModifyPlan>),
}

#[derive(Clone)]
pub struct IndexPlan {
    /// The index's: what is told of it elsewhere is in no cache of the processor.
    pub oid: Oid,
    pub index: Arc<Index>,
    pub relation: Arc<Relation>,
    pub shape: Arc<IndexShape>,
    pub predicate: Option<Arc<Expression>>,
    /// The bytes that a key ends with: the heap's name, in a tree that has entries of several heaps.
    pub suffix: Option<[u8; 4]>,
}

/// The plans of a table's indexes. Most tables have one index, whose plan is stored inline with the target's other
/// fields.
pub enum IndexPlans {
    One(IndexPlan),
    Several(Arc<[IndexPlan]>),
}

impl FromIterator<IndexPlan> for IndexPlans {
    fn from_iter<I: IntoIterator<Item = IndexPlan>>(plans: I) -> IndexPlans {
        let mut plans: Vec<IndexPlan> = plans.into_iter().collect();
        match plans.pop() {
            Some(one) if plans.is_empty() => IndexPlans::One(one),
            last => IndexPlans::Several(plans.into_iter().chain(last).collect()),
        }
    }
}

impl std::ops::Deref for IndexPlans {
    type Target = [IndexPlan];
    #[inline]
    fn deref(&self) -> &[IndexPlan] {
        match self {
            IndexPlans::One(one) => std::slice::from_ref(one),
            IndexPlans::Several(list) => list,
        }
    }
}

/// How index entries are made from rows. Partitions share it where it is the same: a thousand copies would be in no
/// cache.
pub struct IndexShape {
    pub unique: bool,
    pub nulls_not_distinct: bool,
    pub deferrable: bool,
    pub keys: Vec<IndexKey>,
    /// The expressions are over a row of the table.
    pub values: Vec<Expression>,
    /// Columns (indexes in `Table::columns`) that the entry depends on.
    pub depends: Vec<usize>,
    /// The term classes of the columns of an inverted index; empty for other indexes.
    pub classes: Vec<InvertedClass>,
}

impl IndexPlan {
    #[inline]
    pub fn has_terms(&self) -> bool {
        !self.shape.classes.is_empty()
    }
    /// May the row's entry be another one after an UPDATE that changes these columns?
    #[inline]
    pub fn is_touched(&self, changed: &[bool]) -> bool {
        self.predicate.is_some() && !self.has_terms()
            || self.shape.depends.iter().any(|c| changed.get(*c).copied().unwrap_or(true))
    }
    /// May the entries of updated rows wait until many of them can be changed together? Nobody is refused because of
    /// one then, and it is the index's own.
    pub fn may_wait(&self) -> bool {
        !self.shape.unique && !self.shape.deferrable && !self.has_terms() && self.suffix.is_none()
    }
    /// UPDATE: may rows be stored many at a time, as far as this index goes? `is_watched`: the statement's input may look
    /// at rows that the statement has changed.
    pub fn lets_store_at_once(&self, changed: &[bool], is_watched: bool) -> bool {
        !self.is_touched(changed) || !is_watched && self.may_wait()
    }
}

impl IndexShape {
    /// Does it say what there is to say of that index of a table with the same columns?
    pub fn is_of(&self, index: &Index) -> bool {
        let is_plain = self.keys.iter().all(|k| k.attnum != 0) && index.predicate_sql.is_none();
        let flags = (self.unique, self.nulls_not_distinct, self.deferrable);
        is_plain
            && self.classes.is_empty() != index.has_terms()
            && flags == (index.unique, index.nulls_not_distinct, index.deferrable)
            && self.keys == index.keys
    }
}

/// The conditions by which a joined row is checked again after one of its tables' rows has changed.
#[derive(Default)]
pub struct RowRecheck {
    /// The security quals of the tables whose rows are taken: they come before all else.
    pub security: Option<Expression>,
    /// Conditions of outer joins, inner ones first, and the slots that become null where they are not true.
    pub outer: Vec<(Expression, Vec<usize>)>,
    /// Conditions with a subquery that are joins with its rows, and the slots they use: the row stays joined with what
    /// it was joined with unless one of those has changed.
    pub semi: Vec<(Vec<usize>, Expression)>,
    /// All other conditions.
    pub filter: Option<Expression>,
    /// The statement calls volatile functions, which see what it has changed so far.
    pub is_volatile: bool,
}

pub struct ForeignKeyPlan {
    pub key: Arc<ForeignKey>,
    /// The columns of this table (indexes in `Table::columns`).
    pub columns: Vec<usize>,
    pub parent: Arc<Table>,
    /// The heap and the index of the referenced key; None if the table is partitioned: its partitions have them.
    pub target: Option<(Arc<Relation>, Arc<Relation>)>,
    /// The index's keys: which foreign-key column, its type, descending, nulls first.
    pub index_keys: Vec<(usize, Oid, bool, bool)>,
}

pub struct ReferencedPlan {
    pub key: Arc<ForeignKey>,
    /// The columns of this table, which is the referenced one.
    pub columns: Vec<usize>,
    pub child: Arc<Table>,
    pub child_columns: Vec<usize>,
}

/// What a loop that looks up the inner rows of each outer row becomes if there are many more of these than was thought: a
/// table of the whole inner side (docs/decisions/0053).
pub struct LoopSwitch {
    /// So many outer rows and inner rows that are found for them come first, which cost as much as making the table.
    pub after_steps: u64,
    /// The inner side, found without the outer rows. Its rows have the same columns as those that are looked up.
    pub build: Arc<PlanNode>,
    pub outer_keys: Vec<Expression>,
    pub build_keys: Vec<Expression>,
    pub types: Vec<Oid>,
    /// What is to hold for a pair beside its keys, over the outer and the inner row.
    pub on: Option<Expression>,
    /// No session is needed to make the table, nor to look in it.
    pub is_self_contained: bool,
}

/// The plan of MERGE: for each row of the join the first step whose conditions hold is executed.
pub struct MergePlan {
    pub steps: Vec<MergeStep>,
    /// The join condition over the input's row: do its two sides match?
    pub on: Expression,
    /// Are there steps for rows of the target without a source (NOT MATCHED BY SOURCE)?
    pub by_source: bool,
    /// The slots of the target's row.
    pub target: Vec<usize>,
}
pub struct MergeStep {
    pub when: MergeWhen,
    pub condition: Option<Expression>,
    /// The INSERT, UPDATE or DELETE; None: DO NOTHING.
    pub change: Option<ModifyPlan>,
}

pub struct ConflictPlan {
    /// The OIDs of the arbiter indexes; empty: all unique indexes.
    pub arbiters: Vec<Oid>,
    pub update: Option<ConflictUpdatePlan>,
}
pub struct ConflictUpdatePlan {
    /// A row may come to belong to another partition.
    pub may_move: bool,
    pub assignments: Vec<(usize, Expression)>,
    pub filter: Option<Expression>,
}

/// The triggers that a statement may fire, by name.
pub struct TriggerPlan {
    pub list: Vec<Arc<PlannedTrigger>>,
    /// By operation: are the old rows and the new rows kept for transition tables?
    pub captures: [(bool, bool); 3],
    /// As [`ModifyStatement::assigned`], by this table's columns.
    pub assigned: Arc<[bool]>,
    pub has_before_row: bool,
    /// There is a trigger BEFORE UPDATE … FOR EACH ROW, which may change the new row.
    pub may_change_row: bool,
    /// The table is a view; INSTEAD OF triggers do what is to be done.
    pub is_instead: bool,
}
pub struct PlannedTrigger {
    pub trigger: Arc<kilndb_catalog::trigger::Trigger>,
    /// Over the old row's columns, then the new one's.
    pub when: Option<Expression>,
}

/// What a statement does with rows, whichever table or partition they are in.
pub struct ModifyStatement {
    pub kind: DmlKind,
    pub input: Arc<PlanNode>,
    pub input_width: usize,
    /// UPDATE, DELETE, MERGE: the slot of the old row's ctid. MERGE into a view: of what is not null if there is such a
    /// row.
    pub old_ctid: usize,
    pub assignments: Arc<[(usize, Expression)]>,
    /// The program that computes them.
    pub program: LazyValuesProgram,
    /// Columns that the UPDATE, or ON CONFLICT DO UPDATE, sets, by the named table's columns.
    pub assigned: Arc<[bool]>,
    /// UPDATE, DELETE: all conditions, for rows that changed meanwhile.
    pub recheck: Arc<RowRecheck>,
    /// COPY FROM … WHERE, over a table row with its defaults.
    pub row_filter: Option<Arc<Expression>>,
    /// The rows are those that the table has had, and move: no trigger fires, and references hold as they are.
    pub moves_rows: bool,
    /// A foreign key's action: what it calls is called for the table's owner.
    pub is_of_key: bool,
    pub conflict: Option<Arc<ConflictPlan>>,
    /// What row security wants of rows: of new ones over the named table's row, of those that are found over the row
    /// that assignments see.
    pub row_checks: Arc<[PlannedRowCheck]>,
    pub returning: Option<Arc<[Expression]>>,
    /// A key column of some unique index that may be referenced changes.
    pub key_update: bool,
    /// UPDATE: new rows may be made before others are stored, whatever the indexes.
    pub ahead: bool,
    /// The routing to partitions, if the table is partitioned.
    pub routing: Option<Arc<super::partition::Routing>>,
    pub merge: Option<Arc<MergePlan>>,
}

/// A condition of row security that a row must meet, or the statement fails.
pub struct PlannedRowCheck {
    pub kind: RowCheckKind,
    /// The restrictive policy that it is; None: it stands for all that are permissive.
    pub policy: Option<String>,
    /// The table that the statement names, for the error.
    pub table: Arc<str>,
    pub condition: Expression,
}

/// The table that a row is in, and the rules that hold for it there: the table that the statement names, or one of its
/// partitions. Partitions keep theirs for all statements that do the same to their rows
/// ([`super::partition::TargetKey`]).
pub struct ModifyTarget {
    pub table: Arc<Table>,
    /// Whose description stored rows follow: the named table's, if the partition's are the same.
    pub stored_as: Arc<Table>,
    /// The heap; None for a partitioned table, whose partitions have the rows, and for a view.
    pub heap: Option<Arc<Relation>>,
    pub indexes: IndexPlans,
    pub rules: Arc<TargetRules>,
}

impl std::ops::Deref for ModifyTarget {
    type Target = TargetRules;
    #[inline]
    fn deref(&self) -> &TargetRules {
        &self.rules
    }
}

/// The rules for the rows of a target, apart from its storage. Partitions share them where they are the same: thousands
/// of copies would be in no cache.
pub struct TargetRules {
    /// Does the statement name the table?
    pub is_named: bool,
    /// UPDATE, DELETE, MERGE: slots of the old row's columns (by index in `Table::columns`).
    pub old_columns: Arc<[Option<usize>]>,
    /// The expressions are over a row of the table.
    pub generated: Arc<[(usize, Expression)]>,
    pub checks: Arc<[(String, Expression)]>,
    /// Those of the functions that these and index expressions call that not everybody may call.
    pub functions: RuleFunctions<Arc<[FunctionAccess]>>,
    pub not_null: Arc<[usize]>,
    pub foreign_keys: Arc<[ForeignKeyPlan]>,
    pub referenced_by: Arc<[ReferencedPlan]>,
    /// The columns that an UPDATE assigns or that are generated.
    pub changed: Arc<[bool]>,
    /// UPDATE: new rows may be made before others are stored, and the index entries that change may wait.
    pub at_once: bool,
    /// The arbiters of ON CONFLICT, as positions in `indexes`.
    pub arbiters: Arc<[usize]>,
    /// The statement names a partition: new rows must belong to it.
    pub must_belong: bool,
    /// The column mapping of a partition whose columns are not those of the table that the statement names.
    pub columns: Option<Arc<super::partition::PartitionColumns>>,
    pub triggers: Option<Arc<TriggerPlan>>,
    /// The tables that a partition's foreign keys look at, to be locked.
    pub locks: Arc<[(Oid, LockMode)]>,
}

impl TargetRules {
    /// Are there no rules but which columns are set and which must not be NULL?
    pub fn is_plain(&self) -> bool {
        let has_expressions = !self.generated.is_empty() || !self.checks.is_empty();
        let has_keys = !self.foreign_keys.is_empty() || !self.referenced_by.is_empty() || !self.locks.is_empty();
        !has_expressions && !has_keys && self.columns.is_none() && self.triggers.is_none()
    }
    /// Are two plain sets of rules the same?
    pub fn is_like(&self, other: &TargetRules) -> bool {
        let flags = |r: &TargetRules| (r.is_named, r.at_once, r.must_belong);
        flags(self) == flags(other)
            && self.not_null == other.not_null
            && self.changed == other.changed
            && self.old_columns == other.old_columns
            && self.arbiters == other.arbiters
    }
}

/// INSERT, UPDATE, DELETE, MERGE. The row that expressions see is: the input's columns, then (INSERT only) the existing
/// row with its ctid and the proposed row; and in RETURNING after those the new row with its ctid.
#[derive(Clone)]
pub struct ModifyPlan {
    pub statement: Arc<ModifyStatement>,
    pub target: Arc<ModifyTarget>,
}

impl std::ops::Deref for ModifyPlan {
    type Target = ModifyTarget;
    #[inline]
    fn deref(&self) -> &ModifyTarget {
        &self.target
    }
}

impl ModifyPlan {
    /// The routing, if this is the plan of a partitioned table that the statement names.
    #[inline]
    pub fn routing(&self) -> Option<&Arc<super::partition::Routing>> {
        self.statement.routing.as_ref().filter(|_| self.target.is_named)
    }
}

impl Plan {
    /// Whether it means the same to all sessions, and later, so that its costs tell of their plans too.
    pub fn may_be_guarded(&self) -> bool {
        !self.is_private && !self.reads_moment && self.role.is_none()
    }
    /// A plan for known values of the parameters may be a better one.
    pub fn is_better_for_values(&self) -> bool {
        self.depends_on_values || self.values_may_simplify
    }
    /// Is the plan a SELECT whose WITH queries change nothing?
    pub fn is_query(&self) -> bool {
        self.command == "SELECT" && self.run_always.is_empty()
    }
    /// Columns of the rows that it hands out, also those that the client does not see.
    #[inline]
    pub fn row_width(&self) -> usize {
        if self.explain.is_some() { self.columns.len() } else { self.root.width }
    }
    /// Subplans that EXPLAIN shows after the plan: numbers and nodes.
    /// WITH queries that no node of a query level stands for.
    pub fn other_ctes(&self) -> impl Iterator<Item = &CtePlan> {
        let shown = |i: &usize| self.level_ctes.values().flatten().any(|n| n == i);
        self.ctes.iter().enumerate().filter(move |(i, _)| !shown(i)).map(|(_, c)| c)
    }
    pub fn other_subplans(&self) -> impl Iterator<Item = (usize, &Arc<PlanNode>)> {
        let shown =
            |i: usize| !self.hidden_subplans.contains(&i) && !self.init_plans.values().flatten().any(|n| *n == i);
        self.subplans.iter().enumerate().filter(move |(i, _)| shown(*i))
    }
}

impl PlanNode {
    pub fn children(&self) -> Vec<&Arc<PlanNode>> {
        match &self.op {
            Op::Filter { input, .. }
            | Op::OneTimeFilter { input, .. }
            | Op::Project { input, .. }
            | Op::ProjectSet { input, .. }
            | Op::Aggregate { input, .. }
            | Op::Sort { input, .. }
            | Op::Limit { input, .. }
            | Op::Distinct { input, .. }
            | Op::Window { input, .. }
            | Op::Memoize { input, .. }
            | Op::LockRows { input, .. } => vec![input],
            Op::MergeJoin { outer, inner, .. } => vec![outer, inner],
            Op::NestLoop { outer, inner, .. } => vec![outer, inner],
            Op::HashJoin { probe, build, .. } => vec![probe, build],
            Op::SetOp { left, right, .. } => vec![left, right],
            Op::Modify(m) => vec![&m.statement.input],
            Op::Partitions(p) => match p.shown.as_slice() {
                // A single partition is shown as the node itself.
                [one] => one.node.children(),
                several => several.iter().map(|s| &s.node).collect(),
            },
            Op::ByPartition(p) => p.shown.iter().map(|s| &s.node).collect(),
            Op::BitmapScan { shown, .. } | Op::Shown { below: shown, .. } => shown.iter().collect(),
            _ => Vec::new(),
        }
    }
}

impl ConflictPlan {
    /// The positions among `indexes` of the arbiters, or of the partition's indexes that are parts of them.
    pub fn positions(arbiters: &[Oid], indexes: &[IndexPlan]) -> Vec<usize> {
        let is_arbiter =
            |p: &IndexPlan| if arbiters.is_empty() { p.index.unique } else { arbiters.contains(&p.index.oid) };
        (0..indexes.len()).filter(|i| is_arbiter(&indexes[*i])).collect()
    }
}

impl ModifyPlan {
    #[inline]
    pub fn heap(&self) -> kilndb_base::Result<&Arc<Relation>> {
        self.heap.as_ref().ok_or_else(|| kilndb_base::Error::internal("a partitioned table has no rows of its own"))
    }
}

impl Op {
    /// Finds its rows by values that are given to it.
    pub(crate) fn is_probe(&self) -> bool {
        match self {
            Op::IndexScan { .. } | Op::TidScan { .. } | Op::BitmapScan { .. } => true,
            Op::Partitions(p) => p.template.op.is_probe(),
            _ => false,
        }
    }
    /// Are the rows those of a whole table, joined with others or not, and may several threads take parts of them?
    pub fn reads_whole_table(&self) -> bool {
        match self {
            Op::SeqScan(_) => self.reads_one_table(),
            Op::Partitions(p) => p.order.is_none() && p.template.op.reads_whole_table(),
            Op::HashJoin { probe, kind, is_self_contained: true, .. } => {
                !matches!(kind, JoinKind::Right | JoinKind::Full) && probe.op.reads_whole_table()
            }
            Op::NestLoop { outer, kind, is_self_contained: true, .. } => {
                *kind != JoinKind::Full && outer.op.reads_whole_table()
            }
            _ => false,
        }
    }
    /// Is it a scan of a table, whole or by an index, that any thread can do without a session?
    pub(crate) fn reads_one_table(&self) -> bool {
        match self {
            Op::SeqScan(scan) | Op::IndexScan { scan, .. } => {
                scan.is_self_contained && !scan.table.is_catalog && matches!(scan.table.persistence, b'p' | b'u')
            }
            _ => false,
        }
    }
}
