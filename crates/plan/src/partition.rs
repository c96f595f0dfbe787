//! Partitioned tables: one plan, whatever the number of partitions (docs/decisions/0018).
//!
//! Invariants
//! 1. A plan holds nothing of a partition: it has a scan in terms of the partitioned table, which runs on one partition
//!    after another.
//! 2. Conditions on columns decide which partitions may have rows. They are evaluated when the plan runs.

use super::access;
use super::expression::{CExpr, Expression};
use super::prune::PruneValues;
use super::row_order::RowOrder;
use super::scan::ScanChoice;
use super::*;
use kilndb_base::sync::OnceLock;
use kilndb_base::sync::atomic::{AtomicU32, Ordering};
use kilndb_bind::access::{FunctionAccess, restricted_rules};
use kilndb_catalog::operator_class::{self, EQUAL, SupportFunctionCaller, UserOperatorClass};
use kilndb_catalog::partition::PartitionMap;
use kilndb_catalog::{FunctionInfo, IndexKey, Table};
use kilndb_types::Datum;

/// The OID of the operator = of booleans.
const BOOLEAN_EQUAL: Oid = 91;

/// What a pruning condition is about: a column of the partitioned table, or an expression of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PruneSubject {
    Column(i16),
    /// The expression at this position in the key.
    Expression(usize),
}

/// Conditions by which partitions are left out.
pub enum PruneCondition {
    All(Vec<PruneCondition>),
    Any(Vec<PruneCondition>),
    /// `strategy`: 1 <, 2 <=, 3 =, 4 >=, 5 >.
    Compare {
        subject: PruneSubject,
        strategy: u8,
        operator: Oid,
        value: Expression,
    },
    /// Equality with one of the elements of an array.
    AnyOf {
        subject: PruneSubject,
        operator: Oid,
        array: Expression,
    },
    Null {
        subject: PruneSubject,
        negated: bool,
    },
}

impl PruneCondition {
    pub fn any_value(&self, test: &dyn Fn(&CExpr) -> bool) -> bool {
        match self {
            PruneCondition::All(parts) | PruneCondition::Any(parts) => parts.iter().any(|p| p.any_value(test)),
            PruneCondition::Compare { value, .. } => test(value),
            PruneCondition::AnyOf { array, .. } => test(array),
            PruneCondition::Null { .. } => false,
        }
    }
}

pub struct PartitionScan {
    pub table: Arc<Table>,
    /// The scan that runs on each partition.
    pub template: Arc<PlanNode>,
    pub prune: PruneCondition,
    /// The order that each partition's rows have, if it is to be that of all.
    pub order: Option<PartitionOrder>,
    /// The partitions' scans as EXPLAIN shows them.
    pub shown: Vec<ShownScan>,
}

/// A scan of a partition as EXPLAIN shows it. It never runs; what is counted of that partition is counted as its.
pub struct ShownScan {
    pub oid: Oid,
    /// The partition of the named table that it is, or is below of.
    pub position: usize,
    pub node: Arc<PlanNode>,
}

pub struct PartitionOrder {
    pub keys: Vec<SortSpec>,
    /// The ranges follow one another in this order, or (true) the other way round: if there is no default partition and
    /// none has partitions of its own, nothing need be merged.
    pub ranges: Option<bool>,
}

/// The key by which rows of a partitioned table are routed to partitions.
pub struct Routing {
    /// The expressions of the key, over a table row; None: a column.
    pub key: Vec<Option<Expression>>,
    /// UPDATE, DELETE: the slot that says which partition a row is in.
    pub tableoid: usize,
    /// Does the UPDATE assign to a column of the key?
    pub changes_key: bool,
    /// The key of plans for partitions, made when it is first asked for.
    shape: OnceLock<Option<Arc<TargetKey>>>,
    /// How often the plan has run, up to [`Routing::OFTEN`].
    runs: AtomicU32,
}

impl Routing {
    const OFTEN: u32 = 16;

    /// The key of the plan that has this routing; `make` computes it the first time. None: plans for partitions cannot
    /// be shared.
    #[inline]
    pub fn shape(&self, make: impl FnOnce() -> Option<Arc<TargetKey>>) -> Option<&Arc<TargetKey>> {
        self.shape.get_or_init(make).as_ref()
    }

    /// Notes that the plan runs. Has it run so often that what it makes of a partition's rules is worth keeping?
    pub fn runs_often(&self) -> bool {
        let runs = self.runs.load(Ordering::Relaxed);
        if runs < Routing::OFTEN {
            self.runs.store(runs + 1, Ordering::Relaxed);
        }
        runs >= Routing::OFTEN
    }
}

/// All properties of a statement, and of the table that it names, on which a [`ModifyTarget`] of a partition depends:
/// statements with equal keys, of whatever session, share what a partition keeps.
#[derive(PartialEq, Eq)]
pub struct TargetKey {
    kind: DmlKind,
    arbiters: Option<Vec<Oid>>,
    upserts: bool,
    ahead: bool,
    changed: Arc<[bool]>,
    assigned: Arc<[bool]>,
    old_columns: Arc<[Option<usize>]>,
}

impl TargetKey {
    /// None: the plan depends on more than these properties.
    pub fn of(plan: &ModifyPlan) -> Option<TargetKey> {
        if plan.triggers.as_ref().is_some_and(|t| t.captures_any()) || plan.statement.moves_rows {
            return None;
        }
        let conflict = plan.statement.conflict.as_ref();
        Some(TargetKey {
            kind: plan.statement.kind,
            arbiters: conflict.map(|c| c.arbiters.clone()),
            upserts: conflict.is_some_and(|c| c.update.is_some()),
            ahead: plan.statement.ahead,
            changed: plan.changed.clone(),
            assigned: plan.statement.assigned.clone(),
            old_columns: plan.old_columns.clone(),
        })
    }
}

/// A partition's columns and those of the table that the statement names, each by the other (indexes in
/// `Table::columns`).
pub struct PartitionColumns {
    pub own: Arc<[Option<usize>]>,
    pub named: Vec<Option<usize>>,
}

impl PartitionColumns {
    pub fn new(own: Arc<[Option<usize>]>, width: usize) -> PartitionColumns {
        let mut named = vec![None; width];
        for (i, place) in own.iter().enumerate() {
            if let Some(place) = place {
                named[*place] = Some(i);
            }
        }
        PartitionColumns { own, named }
    }
    /// A row of the partition from one of the named table.
    pub fn to_own(&self, row: &[Datum]) -> Vec<Datum> {
        self.named.iter().map(|i| i.and_then(|i| row.get(i).cloned()).unwrap_or_default()).collect()
    }
    pub fn to_named(&self, row: &[Datum]) -> Vec<Datum> {
        self.own.iter().map(|i| i.and_then(|i| row.get(i).cloned()).unwrap_or_default()).collect()
    }
}

/// The rules that hold for the rows of one table, over its rows.
pub struct TableRules {
    pub generated: Arc<[(usize, Expression)]>,
    pub checks: Arc<[(String, Expression)]>,
    pub functions: RuleFunctions<Arc<[FunctionAccess]>>,
    pub not_null: Arc<[usize]>,
    pub indexes: Arc<[IndexPlan]>,
    pub foreign_keys: Arc<[ForeignKeyPlan]>,
    pub referenced_by: Arc<[ReferencedPlan]>,
    /// The row triggers of the partition.
    pub triggers: Vec<Arc<super::node::PlannedTrigger>>,
    /// The tables that foreign keys look at.
    pub locks: Arc<[(Oid, LockMode)]>,
}

/// Rules of a partition, found when a statement first changes it.
pub fn table_rules(table: &Arc<Table>, catalog: &dyn CatalogView, engine: &Arc<Engine>) -> Result<TableRules> {
    let binder = kilndb_bind::Binder::new(catalog, Arc::from(""), Vec::new());
    let rel = binder.new_rel();
    let bound = binder.bind_rules(table, rel)?;
    let planner = Planner { is_detached: true, ..Planner::new(catalog, engine, HashSet::new(), None) };
    let row = Planner::row_layout(table, rel);
    let mut generated = Vec::new();
    for a in &bound.generated {
        generated.push((a.column, planner.expression(&a.expr, &row)?));
    }
    let mut checks = Vec::new();
    for (name, e) in &bound.checks {
        checks.push((name.clone(), planner.expression(e, &row)?));
    }
    let indexes = planner.index_plans(table, &bound.indexes, &row)?;
    let foreign_keys = planner.foreign_key_plans(table, &vec![true; table.columns.len()])?;
    let referenced_by = planner.references_to(table, &|_| true)?;
    let triggers = if table.triggers.is_empty() { Vec::new() } else { planner.row_triggers(table, &binder)? };
    Ok(TableRules {
        generated: generated.into(),
        checks: checks.into(),
        functions: restricted_rules(&bound.rule_functions, catalog)?,
        not_null: table.columns.iter().enumerate().filter(|(_, c)| c.not_null && !c.dropped).map(|(i, _)| i).collect(),
        indexes: indexes.into(),
        foreign_keys: foreign_keys.into(),
        referenced_by: referenced_by.into(),
        triggers,
        locks: planner.locks.into_inner().into(),
    })
}

/// The expressions of a partition key, over rows of its table.
pub fn key_expressions(
    table: &Table,
    catalog: &dyn CatalogView,
    engine: &Arc<Engine>,
) -> Result<Vec<Option<Expression>>> {
    let planner = Planner { is_detached: true, ..Planner::new(catalog, engine, HashSet::new(), None) };
    planner.compile_key(table, 1, &Planner::row_layout(table, 1))
}

impl Planner<'_> {
    /// The table's storage; a partitioned one has none.
    pub fn heap_of(&self, table: &Table) -> Result<Option<Arc<Relation>>> {
        if table.partition_key.is_some() { Ok(None) } else { self.relation(table.storage).map(Some) }
    }

    fn compile_key(&self, table: &Table, rel: u32, row: &Layout) -> Result<Vec<Option<Expression>>> {
        let Some(key) = &table.partition_key else { return Ok(Vec::new()) };
        key.parts
            .iter()
            .map(|part| match &part.expression_sql {
                Some(sql) => Ok(Some(self.expression(&self.index_sql(sql, rel, table)?, row)?)),
                None => Ok(None),
            })
            .collect()
    }

    pub fn routing(&self, d: &Dml, input: &Layout, changed: &[bool]) -> Result<Option<Arc<Routing>>> {
        let Some(key) = &d.table.partition_key else { return Ok(None) };
        let row = Self::row_layout(&d.table, d.new_rel);
        let tableoid = input.find(ColId { rel: d.rel, att: ATT_TABLEOID });
        if tableoid.is_none() && d.kind != DmlKind::Insert {
            return Err(kilndb_base::Error::unsupported(
                "UPDATE or DELETE of a partitioned table's rows that cannot be identified in this plan",
            ));
        }
        let changes_key = key.has_expressions()
            || key.parts.iter().any(|p| changed.get((p.attnum - 1).max(0) as usize).copied().unwrap_or(true));
        Ok(Some(Arc::new(Routing {
            key: self.compile_key(&d.table, d.new_rel, &row)?,
            tableoid: tableoid.unwrap_or(0),
            changes_key,
            shape: OnceLock::new(),
            runs: AtomicU32::new(0),
        })))
    }

    /// May assignments make a row belong to another partition?
    pub fn may_move(&self, table: &Table, assignments: &[Assignment]) -> Result<bool> {
        let Some(key) = &table.partition_key else { return Ok(table.partition_of != 0) };
        let assigned = assignments.iter().any(|a| table.columns.get(a.column).is_some_and(|c| key.uses(c.attnum)));
        Ok(assigned
            || key.has_expressions()
            || self.catalog.partition_map(table.oid)?.partitions.iter().any(|p| p.is_partitioned))
    }

    /// The scan of a partition as one of all that may have rows.
    pub(crate) fn over_partitions(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        choice: ScanChoice,
        preds: &[Expr],
        wanted: &[SortKey],
    ) -> Result<ScanChoice> {
        if table.partition_key.is_none() {
            return Ok(choice);
        }
        let prune = self.prune_all(rel, table, preds)?;
        let template = choice.planned.node;
        let (width, rows, cost) = (template.width, template.rows, template.cost);
        let wanted = &wanted[..choice.order.presorted(wanted)];
        let sorted = !wanted.is_empty();
        let order = match sorted {
            true => Some(PartitionOrder {
                keys: self.sort_specs(wanted, &choice.planned.layout)?,
                ranges: ranges_in_order(rel, table, wanted),
            }),
            false => None,
        };
        let shown = if self.explains() { self.show_partitions(table, &template, &prune)? } else { Vec::new() };
        let (label, info, shown) = match shown.as_slice() {
            [] if self.explains() => ("Result".to_string(), vec!["One-Time Filter: false".to_string()], shown),
            [one] => (one.node.label.clone(), one.node.info.clone(), shown),
            _ if order.as_ref().is_some_and(|o| o.ranges.is_none() || !self.has_plain_ranges(table)) => {
                let keys: Vec<String> = wanted.iter().map(|k| self.show_key(k)).collect();
                ("Merge Append".to_string(), vec![format!("Sort Key: {}", keys.join(", "))], shown)
            }
            _ => ("Append".to_string(), Vec::new(), shown),
        };
        let scan = PartitionScan { table: table.clone(), template, prune, order, shown };
        let node = self.node_with(Op::Partitions(Box::new(scan)), width, Estimate { rows, cost }, label, info);
        self.note_divided_scan(&node, rel, table)?;
        let order = RowOrder::of_keys(wanted);
        Ok(ScanChoice { planned: PlannedNode { node, layout: choice.planned.layout }, order, ..choice })
    }

    fn has_plain_ranges(&self, table: &Table) -> bool {
        self.catalog.partition_map(table.oid).is_ok_and(|map| map.has_plain_ranges())
    }

    fn prune_all(&self, rel: &Rel, table: &Table, preds: &[Expr]) -> Result<PruneCondition> {
        let mut parts = Vec::new();
        if self.catalog.planner_settings().partition_pruning {
            preds.iter().for_each(|p| p.clone().conjuncts(&mut parts));
        }
        let mut all = Vec::new();
        for p in &parts {
            all.extend(self.prune_by(rel, table, p)?);
        }
        Ok(PruneCondition::All(all))
    }

    fn prune_by(&self, rel: &Rel, table: &Table, p: &Expr) -> Result<Option<PruneCondition>> {
        if let ExprKind::Or(list) = &p.kind {
            let mut any = Vec::new();
            for e in list {
                match self.prune_all(rel, table, std::slice::from_ref(e))? {
                    PruneCondition::All(parts) if parts.is_empty() => return Ok(None),
                    part => any.push(part),
                }
            }
            return Ok(Some(PruneCondition::Any(any)));
        }
        if let Some(key) = &table.partition_key {
            for (i, part) in key.parts.iter().enumerate() {
                let Some(sql) = &part.expression_sql else { continue };
                let e = self.index_sql(sql, rel.id, table)?;
                if let Some(found) = self.prune_subject(rel, PruneSubject::Expression(i), part.type_oid, Some(&e), p)? {
                    return Ok(Some(found));
                }
            }
        }
        let mut used = Vec::new();
        p.columns(&mut used);
        for c in used.iter().filter(|c| c.rel == rel.id && c.att > 0) {
            let Some(column) = table.columns.get(c.att as usize - 1) else { continue };
            if let Some(found) = self.prune_subject(rel, PruneSubject::Column(c.att), column.type_oid, None, p)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn prune_subject(
        &self,
        rel: &Rel,
        subject: PruneSubject,
        type_oid: Oid,
        expression: Option<&Expr>,
        p: &Expr,
    ) -> Result<Option<PruneCondition>> {
        let attnum = if let PruneSubject::Column(attnum) = subject { attnum } else { 0 };
        let key = IndexKey {
            attnum,
            expression_sql: None,
            type_oid,
            order_type: type_oid,
            descending: false,
            nulls_first: false,
            collation: 0,
            opclass: 0,
        };
        let empty = Layout::default();
        if let Some((value, strategy, array)) = access::comparison(self, rel.id, &key, expression, p)? {
            let value = self.expression(&value, &empty)?;
            let operator =
                if let ExprKind::Func(f) | ExprKind::ScalarArray { func: f, .. } = &p.kind { f.operator } else { 0 };
            return Ok(Some(if array {
                PruneCondition::AnyOf { subject, operator, array: value }
            } else {
                PruneCondition::Compare { subject, strategy, operator, value }
            }));
        }
        let is_it = |e: &Expr| access::is_key(e, rel.id, &key, expression);
        let equals = |value: bool| {
            Some(PruneCondition::Compare {
                subject,
                strategy: EQUAL,
                operator: BOOLEAN_EQUAL,
                value: CExpr::Const(Datum::Bool(value)).into(),
            })
        };
        Ok(match &p.kind {
            ExprKind::IsNull { arg, negated } if is_it(arg) => {
                Some(PruneCondition::Null { subject, negated: *negated })
            }
            ExprKind::BoolTest { arg, test: BoolTestKind::True } if is_it(arg) => equals(true),
            ExprKind::BoolTest { arg, test: BoolTestKind::False } if is_it(arg) => equals(false),
            ExprKind::BoolTest { arg, test: BoolTestKind::Unknown } if is_it(arg) => {
                Some(PruneCondition::Null { subject, negated: false })
            }
            ExprKind::Not(arg) if type_oid == kilndb_types::oids::BOOL && is_it(arg) => equals(false),
            _ if type_oid == kilndb_types::oids::BOOL && is_it(p) => equals(true),
            _ => None,
        })
    }

    /// The scans that EXPLAIN shows: of the partitions that constants leave.
    fn show_partitions(
        &self,
        table: &Arc<Table>,
        template: &Arc<PlanNode>,
        prune: &PruneCondition,
    ) -> Result<Vec<ShownScan>> {
        let mut leaves = Vec::new();
        self.show_level(table, table, None, prune, &mut leaves)?;
        let mut shown = Vec::new();
        let several = leaves.len() > 1;
        for (position, leaf) in leaves {
            let number = if several { shown.len() + 1 } else { 0 };
            let label = self.partition_label(table, &leaf, template, number);
            let below = self.bitmap_of_leaf(&leaf, template);
            let node = self.node_with(
                Op::Shown { index: 0, below },
                template.width,
                Estimate { rows: template.rows, cost: template.cost },
                label,
                template.info.clone(),
            );
            shown.push(ShownScan { oid: leaf.oid, position, node });
        }
        Ok(shown)
    }

    fn show_level(
        &self,
        named: &Arc<Table>,
        at: &Arc<Table>,
        position: Option<usize>,
        prune: &PruneCondition,
        out: &mut Vec<(usize, Arc<Table>)>,
    ) -> Result<()> {
        let map: Arc<PartitionMap> = self.catalog.partition_map(at.oid)?;
        let columns = kilndb_catalog::partition::column_map(named, at);
        let mut constants = PlanTimeValues { planner: self, calls_later: false };
        let found = super::prune::candidates(&map, prune, columns.as_deref(), named.oid == at.oid, &mut constants);
        let all = || (0..map.partitions.len()).collect();
        for i in if constants.calls_later { all() } else { found? } {
            let Some(partition) = map.partitions.get(i) else { continue };
            let Some(table) = self.catalog.table_by_oid(partition.oid)? else { continue };
            let position = position.unwrap_or(i);
            if table.partition_key.is_some() {
                self.show_level(named, &table, Some(position), prune, out)?
            } else {
                out.push((position, table))
            }
        }
        Ok(())
    }

    fn partition_label(&self, named: &Table, leaf: &Table, template: &PlanNode, number: usize) -> String {
        let alias = template
            .label
            .rsplit(" on ")
            .next()
            .and_then(|t| t.split_once(' '))
            .map_or(named.name.clone(), |(_, alias)| alias.to_string());
        let alias = if number == 0 { alias } else { format!("{alias}_{number}") };
        let place = if alias == leaf.name { alias } else { format!("{} {alias}", leaf.name) };
        match &template.op {
            Op::IndexScan { access, .. } => {
                let own =
                    leaf.indexes.iter().find(|i| self.is_part_of(i, access.index.oid)).map_or("?", |i| i.name.as_str());
                let direction = if access.backward { " Backward" } else { "" };
                format!("Index Scan{direction} using {own} on {place}")
            }
            Op::TidScan { .. } => format!("Tid Scan on {place}"),
            Op::BitmapScan { .. } => format!("Bitmap Heap Scan on {place}"),
            _ => format!("Seq Scan on {place}"),
        }
    }

    pub(super) fn is_part_of(&self, index: &kilndb_catalog::Index, whole: Oid) -> bool {
        index_is_part_of(self.catalog, index, whole).unwrap_or(false)
    }
}

/// Are range partitions, one after the other, in the order that is wanted? Some(true): from the last to the first.
fn ranges_in_order(rel: &Rel, table: &Table, wanted: &[SortKey]) -> Option<bool> {
    let key = table
        .partition_key
        .as_ref()
        .filter(|k| k.strategy == kilndb_catalog::partition::PartitionStrategy::Range && !k.has_user_classes())?;
    let descending = wanted.first()?.descending;
    let fits = key.parts.iter().zip(wanted).all(|(part, w)| {
        let is_part = matches!(&access::strip(&w.expr).kind, ExprKind::Column(c) if c.rel == rel.id && part.attnum != 0 && c.att == part.attnum);
        is_part && w.descending == descending
    });
    fits.then_some(descending)
}

/// The values of conditions that are known while a plan is made. Functions of users' operator classes are called then
/// if they can be inlined.
struct PlanTimeValues<'p, 'c> {
    planner: &'p Planner<'c>,
    /// One of these functions cannot be called before the plan runs.
    calls_later: bool,
}

impl SupportFunctionCaller for PlanTimeValues<'_, '_> {
    fn call(&mut self, function: &FunctionInfo, class: &UserOperatorClass, arguments: [&Datum; 2]) -> Result<Datum> {
        let constant = |(value, ty): (&Datum, Oid)| Expr::new(ExprKind::Const(value.clone()), ty);
        let arguments =
            arguments.into_iter().zip(operator_class::argument_types(function, class)).map(constant).collect();
        let is_internal = function.language == "internal";
        let call = FuncExpr {
            internal: is_internal,
            ..FuncExpr::internal(
                function.oid,
                function.name.as_str().into(),
                arguments,
                function.strict,
                function.volatility,
            )
        };
        let mut call = Expr::new(ExprKind::Func(Box::new(call)), function.return_type);
        super::inline::inline_in_expression(&mut call, self.planner.catalog)?;
        match self.planner.compile(&call, &Layout::default())? {
            CExpr::Const(value) if function.volatility == b'i' => Ok(value),
            _ => {
                self.calls_later = true;
                Err(kilndb_base::Error::internal("a function of an operator class cannot be called yet"))
            }
        }
    }
}

impl PruneValues for PlanTimeValues<'_, '_> {
    fn value(&mut self, e: &Expression) -> Result<Option<Datum>> {
        Ok(if let CExpr::Const(d) = e.tree() { Some(d.clone()) } else { None })
    }
}

/// Is an index of a partition a part of `whole`, at whatever distance?
pub fn index_is_part_of(catalog: &dyn CatalogView, index: &kilndb_catalog::Index, whole: Oid) -> Result<bool> {
    let mut at = index.part_of;
    let mut table = index.table_oid;
    while at != 0 {
        if at == whole {
            return Ok(true);
        }
        let Some(own) = catalog.table_by_oid(table)? else { return Ok(false) };
        let Some(above) = catalog.table_by_oid(own.partition_of)? else { return Ok(false) };
        table = above.oid;
        at = above.indexes.iter().find(|i| i.oid == at).map_or(0, |i| i.part_of);
    }
    Ok(false)
}

impl ModifyPlan {
    /// The position in the partition of a column of the table that the statement names.
    #[inline]
    pub fn own_column(&self, named: usize) -> Option<usize> {
        match &self.columns {
            None => Some(named),
            Some(columns) => columns.own.get(named).copied().flatten(),
        }
    }
    #[inline]
    pub fn named_width(&self) -> usize {
        self.columns.as_ref().map_or(self.table.columns.len(), |c| c.own.len())
    }
    /// Appends a row of this table as one of the table that the statement names.
    #[inline]
    pub fn extend_named(&self, out: &mut Vec<Datum>, row: &[Datum]) {
        match &self.columns {
            None => out.extend_from_slice(row),
            Some(columns) => out.extend(columns.to_named(row)),
        }
    }
}
