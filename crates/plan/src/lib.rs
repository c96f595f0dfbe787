//! The planner: from a bound query to a plan.
//!
//! Invariants
//! 1. A plan is read-only and holds no state of a run: sessions share it.
//! 2. A column that an expression needs and its input does not have is an execution parameter, which the executor sets
//!    before it runs the part with the expression.
//!
//! Must not know: syntax, sessions, snapshots, transactions, how anything is run.
//!
//! Of storage it knows only what a plan hands on without looking into it: opened relations
//! ([`kilndb_storage::Relation`], so that a statement does not look them up each time it runs;
//! [`kilndb_storage::Engine`] opens them), the modes of table locks, the counters that EXPLAIN shows of planning, and
//! the prefetch of a plan's own parts. It reads no row.

mod access;
mod addresses;
mod agg;
mod bitmap;
mod collated;
mod compile;
mod computed_below;
mod condition_order;
mod cost;
mod cte;
mod decorrelate;
mod dml;
mod estimate;
mod exists_table;
pub mod expression;
mod finished_cost;
mod implied;
mod inline;
mod join;
mod join_build;
mod join_nodes;
mod join_search;
mod join_ways;
pub mod key_ahead;
mod key_bitmap;
mod locking;
pub mod measured;
mod merge;
mod minmax;
pub mod node;
mod one_time;
pub mod operation;
mod operator_count;
mod outer_join;
pub mod partition;
mod partitionwise;
pub mod program;
mod program_builder;
pub mod prune;
mod query;
mod result_joins;
mod rewrite;
mod row_order;
mod scan;
mod scan_node;
mod security;
mod semijoin;
pub mod shown_text;
mod slots;
mod sort;
mod table_size;
mod trigger;
mod values;
mod window;

pub use bitmap::{Bitmap, InvertedAccess, InvertedCondition};
pub use compile::Layout;
pub use compile::int_compare;
use kilndb_base::hash::{HashMap, HashMapExt, HashSet, HashSetExt};
use kilndb_base::{Oid, RelationId, Result};
use kilndb_bind::access::statement_access;
use kilndb_bind::collation::{CollationStrength, DerivedCollation, is_collatable, of_pair};
use kilndb_bind::ir::*;
use kilndb_catalog::CatalogView;
use kilndb_catalog::global::GLOBAL;
use kilndb_storage::{Engine, LockMode, Relation};
use kilndb_types::EvalContext;
use locking::locked_tables;
pub use node::*;
pub use partitionwise::{ByPartition, ShownPartition};
use shown_text::ShownNames;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// How many rows a node is expected to yield, and what they cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub rows: f64,
    pub cost: f64,
}

pub struct Planner<'a> {
    pub catalog: &'a dyn CatalogView,
    pub engine: &'a Arc<Engine>,
    exec_params: RefCell<HashMap<ColId, usize>>,
    subplans: RefCell<Vec<Arc<PlanNode>>>,
    /// Subqueries that depend on nothing outside, by `SubLink::id`: number and width of the subplan.
    init_plans: RefCell<HashMap<u32, (usize, usize)>>,
    /// The columns that the query levels being planned use, the innermost level last.
    level_init_plans: RefCell<Vec<Vec<usize>>>,
    node_init_plans: RefCell<HashMap<usize, Vec<usize>>>,
    /// By node id: the WITH queries of the level whose top the node is.
    node_ctes: RefCell<HashMap<usize, Vec<usize>>>,
    /// Subplans that only conditions judged again use: EXPLAIN does not show them.
    hidden_subplans: RefCell<HashSet<usize>>,
    ctes: RefCell<Vec<CtePlan>>,
    cte_numbers: RefCell<HashMap<u32, usize>>,
    /// Columns from further out that WITH queries depend on, by `Cte::id`.
    cte_outer: RefCell<HashMap<u32, Vec<ColId>>>,
    /// (parameter, WITH query that depends on it).
    correlated_ctes: RefCell<Vec<(usize, usize)>>,
    run_always: RefCell<Vec<usize>>,
    once_count: Cell<usize>,
    next_node: Cell<usize>,
    /// Relations that the planner makes count down from the top.
    next_rel: Cell<u32>,
    /// Every column that any expression of the statement uses.
    needed: RefCell<HashSet<ColId>>,
    /// How often expressions use each column. It is not known if rows are locked or changed, because their recheck uses
    /// all columns.
    uses: HashMap<ColId, usize>,
    /// Columns of an UPDATE's table that are only copied to the row's next version, and of no fixed width: they are not
    /// decoded.
    handed_on: RefCell<HashSet<ColId>>,
    locks: RefCell<Vec<(Oid, LockMode)>>,
    unpopulated: RefCell<Option<String>>,
    read_only: Cell<bool>,
    changes_permanent: Cell<bool>,
    /// The names by which EXPLAIN shows columns and relations; None: the plan is not shown.
    names: Option<ShownNames>,
    /// The plan is shown by EXPLAIN (VERBOSE).
    verbose: bool,
    eval: Option<EvalContext<'a>>,
    /// By node id: the division of a node's rows by partitions (see `partitionwise`).
    divisions: RefCell<HashMap<usize, partitionwise::PartitionDivision>>,
    /// The expressions that are compiled run outside of a plan, again and again.
    is_detached: bool,
    /// What estimates know of the statement's relations, by number.
    relations: RefCell<HashMap<u32, estimate::RelationFacts>>,
    /// The statistics of columns of partitioned tables, by table and column.
    merged_statistics: RefCell<HashMap<(Oid, i16), Option<Arc<kilndb_catalog::column_statistics::ColumnStatistics>>>>,
    /// Index expressions and predicates, by relation and text.
    index_expressions: RefCell<HashMap<(u32, String), Expr>>,
    /// Why rows that the statement locks cannot be locked.
    unlockable: RefCell<Option<kilndb_base::Error>>,
    /// The subplans of subqueries that depend on columns outside of them.
    correlated_subplans: RefCell<Vec<compile::CorrelatedSubplan>>,
    /// By node id: the order in which the rows of a query come.
    query_orders: RefCell<HashMap<usize, row_order::RowOrder>>,
    /// Plans are made only to be compared, and not to be compared with others in turn.
    explores: Cell<bool>,
    /// Estimates are made without statistics objects: what these add is counted on top.
    without_objects: Cell<bool>,
    /// Subqueries, by `SubLink::id`, of which it is settled that they run for each row.
    settled_sublinks: RefCell<Vec<u32>>,
    /// With other values of its parameters the statement may deserve another plan.
    depends_on_values: Cell<bool>,
    /// What is known, before a subquery is planned, of the window functions whose rows are of use.
    run_conditions: RefCell<Vec<window::RunBound>>,
}

/// A planned node with the columns that it yields.
#[derive(Clone)]
pub struct PlannedNode {
    pub node: Arc<PlanNode>,
    pub layout: Layout,
}

pub fn plan(
    bound: BoundStatement,
    param_types: Vec<Oid>,
    catalog: &dyn CatalogView,
    engine: &Arc<Engine>,
    eval: &kilndb_types::EvalContext<'_>,
) -> Result<Arc<Plan>> {
    plan_in(bound, param_types, catalog, engine, Some(*eval))
}

pub fn plan_with(
    bound: BoundStatement,
    param_types: Vec<Oid>,
    catalog: &dyn CatalogView,
    engine: &Arc<Engine>,
) -> Result<Arc<Plan>> {
    plan_in(bound, param_types, catalog, engine, None)
}

/// `eval`: where values may be asked for that tell how many rows there will be.
fn plan_in<'a>(
    bound: BoundStatement,
    param_types: Vec<Oid>,
    catalog: &'a dyn CatalogView,
    engine: &'a Arc<Engine>,
    eval: Option<EvalContext<'a>>,
) -> Result<Arc<Plan>> {
    let (mut query, explain) = match bound {
        BoundStatement::Query(q) => (q, None),
        BoundStatement::Explain { options, inner } => (inner, Some(options)),
    };
    let mut access = statement_access(&query, catalog)?;
    inline::inline_functions(&mut query, catalog)?;
    if access.calls_routines {
        // A call that is replaced by the function's body is a call all the same.
        access = access.with_bodies(statement_access(&query, catalog)?);
    }
    rewrite::rewrite(&mut query, catalog, engine)?;
    let names = explain.is_some().then(|| ShownNames::of_query(&query));
    let (mut needed, mut uses) = (HashSet::new(), HashMap::new());
    collect_needed(&query, &mut needed, &mut uses);
    let verbose = explain.as_ref().is_some_and(|o| o.verbose);
    let planner = Planner { uses, verbose, eval, ..Planner::new(catalog, engine, needed, names) };
    let values_may_simplify = values::decide_about(&query);
    let root = planner.plan_query(&query, 0)?;
    access.unlockable = planner.unlockable.take();
    let (targets, tag, has_returning) = match &query.body {
        QueryBody::Dml(d) => {
            let tag = match d.kind {
                DmlKind::Insert => CommandTag::Insert,
                DmlKind::Update => CommandTag::Update,
                DmlKind::Delete => CommandTag::Delete,
                DmlKind::Merge => CommandTag::Merge,
            };
            (&d.returning, tag, !d.returning.is_empty())
        }
        _ => (&query.targets, CommandTag::Select, false),
    };
    let mut columns: Vec<OutputColumn> = targets
        .iter()
        .filter(|t| !t.junk)
        .map(|t| (t, kilndb_catalog::user_types::shown_type(t.expr.ty, t.expr.typmod, catalog)))
        .map(|(t, shown)| OutputColumn {
            name: t.name.clone(),
            type_oid: t.expr.ty,
            typmod: t.expr.typmod,
            collation: t.expr.collation,
            type_len: type_length(shown.0, catalog),
            shown_type: shown.0,
            shown_typmod: shown.1,
            table_oid: t.table_oid,
            attnum: t.attnum,
        })
        .collect();
    let mut tag = tag;
    let mut explained_columns = Vec::new();
    if let Some(options) = &explain {
        tag = CommandTag::Explain;
        explained_columns = columns.iter().map(|c| (c.type_oid, c.typmod)).collect();
        let type_oid = options.format.type_oid();
        columns = vec![OutputColumn {
            name: "QUERY PLAN".into(),
            type_oid,
            typmod: -1,
            collation: Default::default(),
            type_len: type_length(type_oid, catalog),
            shown_type: type_oid,
            shown_typmod: -1,
            table_oid: 0,
            attnum: 0,
        }];
    }
    let (subplans, ctes, exec_params) =
        (planner.subplans.into_inner(), planner.ctes.into_inner(), planner.exec_params.into_inner().len());
    let tops = [&root.node].into_iter().chain(&subplans).chain(ctes.iter().map(|cte| &cte.node));
    let addresses = addresses::PlanAddresses::of(tops);
    let keeps_state = subplans.is_empty()
        && ctes.is_empty()
        && exec_params == 0
        && explain.is_none()
        && node::is_pipeline(&root.node);
    let key_ahead = key_ahead::KeyAhead::of(&root.node).filter(|_| explain.is_none());
    Ok(Arc::new(Plan {
        command: tag.name(),
        root: root.node,
        subplans,
        init_plans: planner.node_init_plans.into_inner(),
        level_ctes: planner.node_ctes.into_inner(),
        hidden_subplans: planner.hidden_subplans.into_inner(),
        ctes,
        correlated_ctes: planner.correlated_ctes.into_inner(),
        exec_params,
        once: planner.once_count.get(),
        nodes: planner.next_node.get(),
        columns,
        locks: planner.locks.into_inner(),
        unpopulated: planner.unpopulated.into_inner().filter(|_| explain.as_ref().is_none_or(|e| e.analyze)),
        is_read_only: planner.read_only.get() && explain.as_ref().is_none_or(|e| e.analyze)
            || explain.as_ref().is_some_and(|e| !e.analyze),
        changes_permanent: planner.changes_permanent.get() && explain.as_ref().is_none_or(|e| e.analyze),
        param_types,
        tag,
        has_returning,
        explain,
        explained_columns,
        planning: node::PlanningReport::default(),
        run_always: planner.run_always.into_inner(),
        names: Vec::new(),
        objects: Vec::new(),
        is_private: false,
        depends_on_values: planner.depends_on_values.get(),
        values_may_simplify,
        measured: None,
        statistics: None,
        relations: planner.relations.into_inner().len(),
        reads_moment: false,
        role: None,
        places: Vec::new(),
        keeps_state,
        addresses,
        key_ahead,
        access,
        allowed: AllowedFor::default(),
    }))
}

fn collect_needed(q: &Query, out: &mut HashSet<ColId>, uses: &mut HashMap<ColId, usize>) {
    let mut list = Vec::new();
    q.for_exprs(&mut |e| note_expr(e, &mut list, out, uses));
    // Elsewhere than in a query of one table conditions may be wanted in several places: more often than any of them.
    let each =
        if q.locks.is_empty() && !matches!(q.body, QueryBody::Dml(_)) && q.rels.len() == 1 { 1 } else { 1 << 32 };
    for c in list {
        out.insert(c);
        *uses.entry(c).or_default() += each;
    }
    q.for_subqueries(&mut |s| collect_needed(s, out, uses));
    for (rel, table) in locked_tables(q) {
        out.insert(ColId { rel, att: ATT_CTID });
        if table.partition_key.is_some() {
            out.insert(ColId { rel, att: ATT_TABLEOID });
        }
    }
    if let QueryBody::Dml(d) = &q.body {
        out.insert(ColId { rel: d.rel, att: ATT_CTID });
        if d.table.partition_key.is_some() {
            out.insert(ColId { rel: d.rel, att: ATT_TABLEOID });
        }
        let used = of_deleted_rows(d);
        for c in
            d.table.columns.iter().filter(|c| !c.dropped && used.as_ref().is_none_or(|used| used.contains(&c.attnum)))
        {
            out.insert(ColId { rel: d.rel, att: c.attnum });
        }
    }
}

/// The columns that a DELETE must know of the rows that it deletes, apart from those in its expressions; None: all.
fn of_deleted_rows(d: &Dml) -> Option<HashSet<i16>> {
    let has_triggers = d.triggers.iter().any(|t| t.trigger.for_each_row() || t.trigger.has_transition_tables());
    if d.kind != DmlKind::Delete || !d.returning.is_empty() || d.table.partition_key.is_some() || has_triggers {
        return None;
    }
    // Rows are taken out of an index of terms by their ids.
    let (of_terms, of_keys): (Vec<_>, Vec<_>) = d.indexes.iter().partition(|index| index.index.has_terms());
    let mut used: Vec<ColId> = Vec::new();
    of_terms.iter().flat_map(|index| &index.predicate).for_each(|e| e.columns(&mut used));
    let referenced = d.table.referenced_by.iter().flat_map(|key| key.referenced_columns.iter().copied());
    Some(of_keys.iter().flat_map(|index| index.columns()).chain(referenced).chain(used.iter().map(|c| c.att)).collect())
}

fn note_expr(e: &Expr, list: &mut Vec<ColId>, out: &mut HashSet<ColId>, uses: &mut HashMap<ColId, usize>) {
    if let ExprKind::Column(c) = &e.kind {
        list.push(*c);
    }
    if let ExprKind::SubLink(s) = &e.kind {
        collect_needed(&s.query, out, uses);
    }
    e.for_children(&mut |c| note_expr(c, list, out, uses));
}

impl<'a> Planner<'a> {
    fn new(
        catalog: &'a dyn CatalogView,
        engine: &'a Arc<Engine>,
        needed: HashSet<ColId>,
        names: Option<ShownNames>,
    ) -> Planner<'a> {
        Planner {
            catalog,
            engine,
            exec_params: Default::default(),
            subplans: Default::default(),
            init_plans: Default::default(),
            level_init_plans: Default::default(),
            node_init_plans: Default::default(),
            node_ctes: Default::default(),
            hidden_subplans: Default::default(),
            ctes: Default::default(),
            cte_numbers: Default::default(),
            cte_outer: Default::default(),
            correlated_ctes: Default::default(),
            run_always: Default::default(),
            once_count: Cell::new(0),
            next_node: Cell::new(0),
            next_rel: Cell::new(u32::MAX),
            needed: RefCell::new(needed),
            handed_on: Default::default(),
            uses: HashMap::new(),
            locks: Default::default(),
            unpopulated: Default::default(),
            read_only: Cell::new(true),
            changes_permanent: Cell::new(false),
            names,
            verbose: false,
            eval: None,
            divisions: Default::default(),
            is_detached: false,
            relations: Default::default(),
            merged_statistics: Default::default(),
            index_expressions: Default::default(),
            unlockable: Default::default(),
            correlated_subplans: Default::default(),
            query_orders: Default::default(),
            explores: Cell::new(false),
            without_objects: Cell::new(false),
            settled_sublinks: Default::default(),
            depends_on_values: Cell::new(false),
            run_conditions: Default::default(),
        }
    }
}

impl Planner<'_> {
    pub(crate) fn exec_param(&self, c: ColId) -> usize {
        let mut params = self.exec_params.borrow_mut();
        let next = params.len();
        *params.entry(c).or_insert(next)
    }
    /// The columns from outside that a query's rows depend on, also through WITH queries that it reads.
    pub fn outer_columns(&self, q: &Query) -> Vec<ColId> {
        let (mut columns, mut ctes) = (Vec::new(), Vec::new());
        q.outer_columns(&mut columns);
        q.outer_ctes(&mut ctes);
        let known = self.cte_outer.borrow();
        columns.extend(ctes.iter().filter_map(|id| known.get(id)).flatten());
        columns.sort();
        columns.dedup();
        columns
    }
    pub(crate) fn add_subplan(&self, node: Arc<PlanNode>) -> usize {
        let mut list = self.subplans.borrow_mut();
        list.push(node);
        list.len() - 1
    }
    pub fn new_rel(&self) -> u32 {
        let n = self.next_rel.get();
        self.next_rel.set(n - 1);
        n
    }
    pub fn node(&self, op: Op, width: usize, rows: f64, cost: f64, label: impl Into<String>) -> Arc<PlanNode> {
        let id = self.next_node.get();
        self.next_node.set(id + 1);
        let startup = startup_of(&op, cost);
        let label = label.into();
        let info = if self.explains() { self.marked_disabled(&label, Vec::new()) } else { Vec::new() };
        Arc::new(PlanNode { id, op, width, rows: rows.max(1.0), startup, cost, info, label })
    }
    /// Makes a node with its EXPLAIN lines.
    pub(crate) fn node_with(
        &self,
        op: Op,
        width: usize,
        estimate: Estimate,
        label: impl Into<String>,
        info: Vec<String>,
    ) -> Arc<PlanNode> {
        let Estimate { rows, cost } = estimate;
        let id = self.next_node.get();
        self.next_node.set(id + 1);
        let startup = startup_of(&op, cost);
        let label = label.into();
        let info = if self.explains() { self.marked_disabled(&label, info) } else { info };
        Arc::new(PlanNode { id, op, width, rows: rows.max(1.0), startup, cost, info, label })
    }
    /// The EXPLAIN lines of a node, with one more if a setting turns such nodes off.
    fn marked_disabled(&self, label: &str, mut info: Vec<String>) -> Vec<String> {
        const DISABLED: &str = "Disabled: true";
        let is_join = label.ends_with("Join") || label == "Nested Loop";
        let s = self.catalog.planner_settings();
        let is_wanted = match label.split(' ').next() {
            Some("Seq") => s.seqscan,
            Some("Index") => s.indexscan,
            Some("Bitmap") if label.starts_with("Bitmap Heap Scan") => s.bitmapscan,
            Some("Nested") if is_join => s.nestloop,
            Some("Hash") if is_join => s.hashjoin,
            Some("Merge") if is_join => s.mergejoin,
            Some("Sort") => s.sort,
            Some("HashAggregate") => s.hashagg,
            _ => true,
        };
        if !is_wanted && info.first().is_none_or(|line| line != DISABLED) {
            info.insert(0, DISABLED.to_string());
        }
        info
    }
    /// Notes that the plan reads a table.
    pub fn read_table(&self, table: &kilndb_catalog::Table) {
        self.lock_table(table.oid, LockMode::AccessShare);
        if !table.is_populated {
            self.unpopulated.borrow_mut().get_or_insert_with(|| table.name.clone());
        }
    }
    pub fn lock_table(&self, oid: Oid, mode: LockMode) {
        let mut locks = self.locks.borrow_mut();
        match locks.iter_mut().find(|l| l.0 == oid) {
            Some(l) => l.1 = l.1.max(mode),
            None => locks.push((oid, mode)),
        }
    }
    /// Opens a relation, of the shared storage or of the session's own.
    pub fn relation(&self, id: RelationId) -> Result<Arc<Relation>> {
        match self.catalog.temporary() {
            Some(own) => own.relation(self.engine, id),
            None => self.engine.relation(id),
        }
    }
    pub(crate) fn note_change(&self, table: &kilndb_catalog::Table) {
        if !matches!(table.persistence, b't' | GLOBAL) {
            self.changes_permanent.set(true);
        }
    }
    pub(crate) fn is_needed(&self, c: ColId) -> bool {
        self.needed.borrow().contains(&c)
    }
    pub fn base_type(&self, oid: Oid) -> Oid {
        let mut oid = oid;
        for _ in 0..32 {
            if oid < 10_000 {
                break;
            }
            match self.catalog.type_by_oid(oid) {
                Ok(Some(t)) if t.kind == b'd' => oid = t.base_type,
                _ => break,
            }
        }
        oid
    }
    pub fn element_type(&self, oid: Oid) -> Oid {
        match self.catalog.type_by_oid(self.base_type(oid)) {
            Ok(Some(t)) if t.category == b'A' => t.element,
            _ => 0,
        }
    }
    pub fn is_composite(&self, oid: Oid) -> bool {
        oid >= 10_000 && self.catalog.type_by_oid(oid).ok().flatten().is_some_and(|t| t.kind == b'c')
    }
    /// What values of the expression are sorted and compared as. Errors: 42P22 where its collation is not known.
    pub(crate) fn compared_type(&self, e: &Expr) -> Result<Oid> {
        let base = self.base_type(e.ty);
        if is_collatable(e.ty) { e.collation.order_type(base) } else { Ok(base) }
    }
    /// What values of the expression are told apart as: where equal means equal bytes, as their type.
    pub(crate) fn told_apart_type(&self, e: &Expr) -> Result<Oid> {
        self.told_apart_as(e, e.collation)
    }
    /// As [`Planner::told_apart_type`], by a collation that is not the expression's own.
    pub(crate) fn told_apart_as(&self, e: &Expr, collation: DerivedCollation) -> Result<Oid> {
        let base = self.base_type(e.ty);
        let is_by_bytes = !is_collatable(e.ty) || collation.collation.is_deterministic();
        if is_by_bytes { Ok(base) } else { collation.order_type(base) }
    }
    pub(crate) fn sort_specs(&self, keys: &[SortKey], layout: &Layout) -> Result<Vec<SortSpec>> {
        keys.iter()
            .map(|k| {
                Ok(SortSpec {
                    expr: self.expression(&k.expr, layout)?,
                    ty: self.compared_type(&k.expr)?,
                    descending: k.descending,
                    nulls_first: k.nulls_first,
                })
            })
            .collect()
    }
    /// Is the plan made to be shown by EXPLAIN?
    pub(crate) fn explains(&self) -> bool {
        self.names.is_some()
    }
    /// An expression as a node that reads relation `rel` shows it.
    pub(crate) fn show_scan(&self, rel: u32, e: &Expr) -> String {
        self.names.as_ref().map_or_else(String::new, |names| names.scan_text(e, rel, self.value_names()))
    }
    /// What tells how values and objects are written.
    pub(crate) fn value_names(&self) -> shown_text::ValueNames<'_> {
        shown_text::ValueNames { catalog: self.catalog, eval: self.eval.as_ref() }
    }
    pub fn show(&self, e: &Expr) -> String {
        self.names.as_ref().map_or_else(String::new, |names| names.text(e, self.value_names()))
    }
    /// A relation as EXPLAIN calls it.
    pub(crate) fn shown_relation(&self, rel: &Rel) -> String {
        let shown = self.names.as_ref().and_then(|names| names.relation(rel.id));
        shown.unwrap_or(&rel.alias).to_string()
    }
}

/// What is spent before the first row of a node comes.
fn startup_of(op: &Op, cost: f64) -> f64 {
    match op {
        Op::Sort { presorted: 0, .. } | Op::Aggregate { sorted: false, .. } => cost,
        Op::HashJoin { probe, build, .. } => (build.cost + probe.startup).min(cost),
        Op::MergeJoin { outer, inner, .. } => (outer.startup + inner.startup).min(cost),
        Op::NestLoop { outer, .. } => outer.startup.min(cost),
        Op::Sort { input, .. }
        | Op::Aggregate { input, .. }
        | Op::Filter { input, .. }
        | Op::OneTimeFilter { input, .. }
        | Op::Project { input, .. }
        | Op::ProjectSet { input, .. }
        | Op::Limit { input, .. }
        | Op::Distinct { input, .. }
        | Op::Window { input, .. }
        | Op::Memoize { input, .. }
        | Op::LockRows { input, .. } => input.startup.min(cost),
        _ => 0.0,
    }
}

pub(crate) fn type_length(type_oid: Oid, catalog: &dyn CatalogView) -> i16 {
    match kilndb_catalog::builtin::BUILTINS.types.get(&type_oid) {
        Some(t) => t.len,
        None => catalog.type_by_oid(type_oid).ok().flatten().map_or(-1, |t| t.len),
    }
}
