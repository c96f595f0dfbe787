//! Access paths of one table.

use super::access::{self, IndexMatch};
use super::bitmap::{BitmapPath, Conditions};
use super::cost::{TableSize, TreeSearch};
use super::expression::Expression;
use super::finished_cost::PathCost;
use super::operator_count::operator_count;
use super::row_order::RowOrder;
use super::security::SecuredConditions;
use super::*;
use kilndb_catalog::format_type::quote_identifier;
use kilndb_catalog::{Index, Table, TableKind};
use kilndb_types::oids;
use kilndb_types::row::ColumnFetch;

pub(crate) struct ScanChoice {
    pub planned: PlannedNode,
    pub order: RowOrder,
    /// Rows that one probe yields, and what it costs.
    pub rows: f64,
    pub cost: f64,
}

/// A scan of a table whose access path is not chosen yet, and the columns that it yields.
pub(super) struct TableScan {
    pub scan: Scan,
    pub layout: Layout,
}

/// The order in which rows are wanted, and how many of them: infinitely many if all are.
#[derive(Clone, Copy)]
pub(crate) struct WantedRows<'a> {
    pub order: &'a [SortKey],
    pub limit: f64,
    /// The order serves to group rows: the limit is one of groups.
    pub groups: Option<WantedGroups>,
}

/// What is done with rows that are wanted in an order so that they can be grouped.
#[derive(Clone, Copy)]
pub(crate) struct WantedGroups {
    pub aggregates: usize,
    /// They may be grouped by hashing too.
    pub may_hash: bool,
    /// The groups are wanted in the order.
    pub in_order: bool,
    /// The share of the groups that pass HAVING.
    pub passing: f64,
}

impl WantedRows<'_> {
    pub const ALL: WantedRows<'static> = WantedRows { order: &[], limit: f64::INFINITY, groups: None };
}

/// An index that a scan may use.
pub(super) struct IndexPath {
    index: Arc<Index>,
    conditions: IndexMatch,
    /// How many keys of the order wanted the path sorts its rows by.
    presorted: usize,
}

impl IndexPath {
    /// As [`IndexMatch::finds_one_row`].
    fn finds_one_row(&self) -> bool {
        self.conditions.finds_one_row(&self.index)
    }
}

/// A way to the rows of a table.
pub(super) enum AccessPath {
    /// By row ids: their expressions, and the condition that they are of.
    Tid {
        tids: Vec<Expr>,
        used: usize,
    },
    Seq,
    Index(IndexPath),
    Bitmap(BitmapPath),
}

/// The cheapest way to the rows of a table.
pub(super) struct ChosenAccess {
    pub path: AccessPath,
    pub estimate: Estimate,
    /// Conditions that follow from those of the statement, of which an index may use some.
    implied: Vec<Expr>,
}

impl ChosenAccess {
    /// Does the path find its rows by values that are given to it?
    pub fn is_probe(&self) -> bool {
        !matches!(self.path, AccessPath::Seq)
    }
}

/// From so many rows on an index scan must gain something over a bitmap.
const MANY_ROWS: f64 = 10.0;
/// Costs that differ by less are nearly the same.
const NEARLY: f64 = 1.35;

impl Planner<'_> {
    fn make_scan(&self, rel: &Rel, table: &Arc<Table>) -> Result<(Scan, Layout)> {
        let heap = self.heap_of(table)?;
        let mut outputs = Vec::new();
        let mut layout = Layout::default();
        let mut needed = vec![ColumnFetch::Nothing; table.columns.len()];
        for (i, c) in table.columns.iter().enumerate() {
            let id = ColId { rel: rel.id, att: c.attnum };
            if !c.dropped && self.is_needed(id) {
                outputs.push(ScanOutput::Column(i));
                needed[i] =
                    if self.handed_on.borrow().contains(&id) { ColumnFetch::Stored } else { ColumnFetch::Value };
                layout.0.push(id);
            }
        }
        let leading = outputs.len();
        for (att, out) in [
            (ATT_CTID, ScanOutput::Ctid),
            (ATT_TABLEOID, ScanOutput::TableOid),
            (-2, ScanOutput::Fixed(2)),
            (-3, ScanOutput::Fixed(0)),
            (-4, ScanOutput::Fixed(0)),
            (-5, ScanOutput::Fixed(0)),
        ] {
            let id = ColId { rel: rel.id, att };
            if self.is_needed(id) {
                outputs.push(out);
                layout.0.push(id);
            }
        }
        Ok((
            Scan {
                table: table.clone(),
                heap,
                outputs,
                needed,
                leading,
                filter: None,
                is_self_contained: false,
                tests: Vec::new(),
                program: Default::default(),
            },
            layout,
        ))
    }

    pub(super) fn scan_name(&self, rel: &Rel, table: &Table) -> String {
        let alias = self.shown_relation(rel);
        let name = quote_identifier(&table.name);
        if alias == table.name { name } else { format!("{name} {}", quote_identifier(&alias)) }
    }

    /// The cheapest way to the rows of `rel` that satisfy `preds`. Columns of other relations in them are parameters.
    pub(crate) fn plan_table(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        preds: &[Expr],
        wanted: WantedRows<'_>,
    ) -> Result<ScanChoice> {
        self.read_table(table);
        let conditions = SecuredConditions::of(self, rel, preds)?;
        let chosen = self.choose_secured(rel, table, &conditions, wanted)?;
        self.build_access(rel, table, chosen, &conditions, wanted)
    }

    /// Compares the ways to the rows without building any.
    pub(super) fn choose_access(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        preds: &[Expr],
        wanted: WantedRows<'_>,
    ) -> Result<ChosenAccess> {
        self.choose_secured(rel, table, &SecuredConditions::of(self, rel, preds)?, wanted)
    }

    fn choose_secured(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        conditions: &SecuredConditions<'_>,
        wanted: WantedRows<'_>,
    ) -> Result<ChosenAccess> {
        let mut chosen = self.choose_path(rel, table, conditions.finding(), wanted)?;
        if !conditions.telling().is_empty() {
            let rows = chosen.estimate.rows;
            chosen.estimate.cost += self.costs().filter(rows, operator_count(conditions.telling()));
            chosen.estimate.rows = (rows * self.restriction_selectivity(rel.id, conditions.telling())).max(1.0);
        }
        Ok(chosen)
    }

    fn choose_path(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        preds: &[Expr],
        wanted: WantedRows<'_>,
    ) -> Result<ChosenAccess> {
        let size = self.size_of(rel, table)?;
        let rows = self.table_rows_left(rel, table, preds, size)?;
        let (costs, settings) = (self.costs(), self.catalog.planner_settings());
        if settings.tidscan
            && let Some((tids, used)) = access::tid_condition(rel.id, preds)
        {
            let several = |e: &Expr| e.ty != oids::TID;
            let count: f64 = tids.iter().map(|e| if several(e) { 10.0 } else { 1.0 }).sum();
            let estimate = Estimate { rows: count.min(rows.max(1.0)), cost: count * costs.row_by_id() };
            return Ok(ChosenAccess { path: AccessPath::Tid { tids, used }, estimate, implied: Vec::new() });
        }
        let unsorted = |cost| self.finished_cost(wanted, PathCost { rows, first: 0.0, cost }, 0);
        let operators = operator_count(preds);
        let of_seq_scan = |size| unsorted(costs.seq_scan(size, operators)) + settings.penalty(settings.seqscan);
        let (mut best_cost, grown_cost) = (of_seq_scan(size), of_seq_scan(size.grown()));
        let cost =
            self.cost_of_share(wanted, costs.seq_scan(size, operators), rows) + settings.penalty(settings.seqscan);
        let estimate = Estimate { rows, cost };
        let mut best = ChosenAccess { path: AccessPath::Seq, estimate, implied: Vec::new() };
        let implied = if table.indexes.is_empty() { Vec::new() } else { super::implied::implied(self, preds)? };
        let with_implied: Vec<Expr> =
            if implied.is_empty() { Vec::new() } else { preds.iter().chain(&implied).cloned().collect() };
        let all = if implied.is_empty() { preds } else { &with_implied };
        for index in &table.indexes {
            let Some(path) = self.index_path(rel, table, index, all, preds, wanted)? else { continue };
            let search = self.tree_search(rel, table, index, &path.conditions, all, size)?;
            let search = TreeSearch { filters: path.conditions.operators_left(all), ..search };
            let whole = costs.index_scan(size, search);
            let is_ordered = path.presorted > 0;
            let own = PathCost { rows, first: 0.0, cost: whole };
            let cost = self.finished_cost(wanted, own, path.presorted) + settings.penalty(settings.indexscan);
            // Values to skip through may become many when the table grows.
            // Alternatives that are written out are not how a queue's rows are looked up.
            let used = &path.conditions.used;
            let is_or = !used.is_empty() && used.iter().all(|at| matches!(all[*at].kind, ExprKind::Or(_)));
            let looks_up = path.conditions.has_conditions() && !is_or && path.conditions.skipped_values() == 0.0;
            let may_leave_out_rows = looks_up || is_ordered && wanted.limit.is_finite();
            let finds_one_row = path.finds_one_row();
            let rival = match &best.path {
                AccessPath::Seq if may_leave_out_rows => grown_cost,
                // That a range has one row as well is an estimate, which may be of what was there a moment ago: values that grow with
                // time are beyond what statistics have seen.
                AccessPath::Index(known) if known.finds_one_row() && !finds_one_row => continue,
                AccessPath::Index(known) if !known.finds_one_row() && finds_one_row => grown_cost,
                _ => best_cost,
            };
            if cost < rival {
                let own = self.cost_of_share(wanted, whole, rows) + settings.penalty(settings.indexscan);
                let estimate = Estimate { rows, cost: own };
                best_cost = cost;
                best = ChosenAccess { path: AccessPath::Index(path), estimate, implied: Vec::new() };
            }
        }
        let index_cost = if let AccessPath::Index(_) = best.path { Some(best_cost) } else { None };
        // No bitmap is better than a search for one row, unless index scans are disabled.
        let finds_one_row = matches!(&best.path, AccessPath::Index(path) if path.finds_one_row());
        if !(finds_one_row && settings.indexscan)
            && self.wants_bitmap(table, preds, index_cost, wanted.limit.is_finite())
        {
            let selectivities: Vec<f64> = preds.iter().map(|e| self.condition_selectivity(rel.id, e)).collect();
            let conditions = Conditions { preds, selectivities: &selectivities };
            if let Some(path) = self.bitmap_path(rel, table, conditions, all, size)? {
                // All conditions are judged for each row.
                let filters = costs.filter(path.rows, operators);
                let own = path.compared_cost(size.pages, wanted.limit.is_finite()) + filters;
                // A bitmap is complete before its first row.
                let cost = self.finished_cost(wanted, PathCost { rows, first: own, cost: own }, 0)
                    + settings.penalty(settings.bitmapscan);
                // Of many rows in no order nearly the same cost is no gain: a bitmap reads each page once, wherever they lie.
                let is_scattered =
                    matches!(&best.path, AccessPath::Index(path) if path.presorted == 0 && rows >= MANY_ROWS);
                let rival = if is_scattered { best_cost * NEARLY } else { best_cost };
                if cost < rival {
                    let estimate = Estimate { rows, cost: own + settings.penalty(settings.bitmapscan) };
                    best = ChosenAccess { path: AccessPath::Bitmap(path), estimate, implied: Vec::new() };
                }
            }
        }
        if let AccessPath::Index(_) = best.path {
            best.implied = implied;
        }
        Ok(best)
    }

    /// The cheapest way to all rows by an index that sorts them by the first of these keys, or more of them; None: there
    /// is no such index.
    pub(super) fn ordered_table(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        preds: &[Expr],
        order: &[SortKey],
    ) -> Result<Option<ScanChoice>> {
        let conditions = SecuredConditions::of(self, rel, preds)?;
        let preds = conditions.finding();
        if table.kind == TableKind::Sequence || access::tid_condition(rel.id, preds).is_some() {
            return Ok(None);
        }
        let size = self.size_of(rel, table)?;
        let rows = self.table_rows_left(rel, table, preds, size)?;
        let (costs, settings) = (self.costs(), self.catalog.planner_settings());
        let wanted = WantedRows { order, ..WantedRows::ALL };
        let mut best: Option<(IndexPath, f64)> = None;
        for index in &table.indexes {
            let Some(path) = self.index_path(rel, table, index, preds, preds, wanted)? else { continue };
            if path.presorted == 0 {
                continue;
            }
            // Of a table that may grow all rows are not taken for few.
            let size = if path.conditions.has_conditions() { size } else { size.grown() };
            let search = self.tree_search(rel, table, index, &path.conditions, preds, size)?;
            let search = TreeSearch { filters: path.conditions.operators_left(preds), ..search };
            let cost = costs.index_scan(size, search) + settings.penalty(settings.indexscan);
            let is_better = |(known, least): &(IndexPath, f64)| {
                path.presorted > known.presorted || path.presorted == known.presorted && cost < *least
            };
            if best.as_ref().is_none_or(is_better) {
                best = Some((path, cost));
            }
        }
        let Some((path, cost)) = best else { return Ok(None) };
        self.read_table(table);
        let order = &order[..path.presorted];
        let chosen =
            ChosenAccess { path: AccessPath::Index(path), estimate: Estimate { rows, cost }, implied: Vec::new() };
        self.build_access(rel, table, chosen, &conditions, WantedRows { order, ..WantedRows::ALL }).map(Some)
    }

    /// How many rows of the table the conditions leave.
    fn table_rows_left(&self, rel: &Rel, table: &Table, preds: &[Expr], size: TableSize) -> Result<f64> {
        let own: Vec<&Expr> = preds.iter().filter(|p| only_uses(p, rel.id)).collect();
        let rows = size.rows * self.restriction_selectivity(rel.id, own.iter().copied());
        self.note_rows(rel.id, rows.max(1.0));
        let rows =
            if own.len() == preds.len() { rows } else { size.rows * self.restriction_selectivity(rel.id, preds) };
        let mut fixed = Vec::new();
        for p in preds {
            fixed.extend(access::fixed_column(p, rel.id, self.catalog)?);
        }
        let is_point = |i: &Arc<Index>| i.tells_rows_apart() && i.keys.iter().all(|k| fixed.contains(&k.attnum));
        let most = if table.indexes.iter().any(is_point) { 1.0 } else { f64::INFINITY };
        Ok(rows.min(most).max(1.0))
    }

    /// The index as a way to the rows, if it is one.
    fn index_path(
        &self,
        rel: &Rel,
        table: &Table,
        index: &Arc<Index>,
        all: &[Expr],
        preds: &[Expr],
        wanted: WantedRows<'_>,
    ) -> Result<Option<IndexPath>> {
        if !index.valid || !index.method.finds_keys {
            return Ok(None);
        }
        if index.predicate_sql.is_some() && !self.predicate_implied(rel, table, index, preds)? {
            return Ok(None);
        }
        let m = self.match_index(rel, table, index, all)?;
        let has_whole_key = m.has_whole_key(index);
        // A global index has one tree for all partitions: it is of use for a key, not for a range or an order.
        if (!index.method.is_ordered || index.is_global) && !has_whole_key {
            return Ok(None);
        }
        let (presorted, _) = self.order_of_index(rel, table, index, m.fixed_columns(), wanted.order)?;
        // All of a partial index may be a small part of the table.
        if !m.has_conditions() && presorted == 0 && index.predicate_sql.is_none() {
            return Ok(None);
        }
        Ok(Some(IndexPath { index: index.clone(), conditions: m, presorted }))
    }

    /// What the search for these conditions reads of an index.
    pub(super) fn tree_search(
        &self,
        rel: &Rel,
        table: &Table,
        index: &Index,
        m: &IndexMatch,
        all: &[Expr],
        size: TableSize,
    ) -> Result<TreeSearch> {
        let used = m.used.iter().map(|i| &all[*i]);
        let mut entries = size.rows * self.restriction_selectivity(rel.id, used);
        if m.finds_one_row(index) {
            entries = 1.0;
        }
        if let Some(sql) = &index.predicate_sql {
            let predicate = self.index_sql(sql, rel.id, table)?;
            let of_predicate = self.condition_selectivity(rel.id, &predicate);
            entries = entries.min(size.rows * of_predicate);
        }
        let of_array = |e: &Expr| match &e.kind {
            ExprKind::Const(kilndb_types::Datum::Array(list)) => list.elements.len() as f64,
            _ => 10.0,
        };
        let ranges = m.arrays().map(of_array).product::<f64>() * m.skipped_values().max(1.0);
        let index_pages = match table.partition_key {
            None => f64::from(self.relation(index.storage)?.pages()),
            Some(_) => size.pages * 0.3,
        };
        let of_first = index.keys.first().filter(|k| k.attnum != 0).map_or(0.0, |k| {
            self.column_variable(ColId { rel: rel.id, att: k.attnum }, k.type_oid)
                .statistics
                .map_or(0.0, |s| s.correlation)
        });
        let correlation = if index.keys.len() > 1 { of_first * 0.75 } else { of_first };
        Ok(TreeSearch { entries: entries.max(1.0), ranges: ranges.max(1.0), index_pages, correlation, filters: 0.0 })
    }

    fn build_access(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        chosen: ChosenAccess,
        conditions: &SecuredConditions<'_>,
        wanted: WantedRows<'_>,
    ) -> Result<ScanChoice> {
        let preds = conditions.all();
        let (scan, layout) = self.make_scan(rel, table)?;
        let table_scan = TableScan { scan, layout };
        let estimate = chosen.estimate;
        let choice = match chosen.path {
            AccessPath::Tid { tids, used } => {
                let choice = self.tid_scan(rel, table_scan, (&tids, used), preds, estimate)?;
                return self.over_partitions(rel, table, choice, preds, &[]);
            }
            AccessPath::Seq => self.seq_scan(rel, table_scan, preds, estimate),
            AccessPath::Bitmap(path) => self.bitmap_scan(rel, table_scan, &path, preds, estimate),
            AccessPath::Index(mut path) => {
                let implied = &chosen.implied;
                let kept = (!implied.is_empty()).then(|| {
                    let found_by = conditions.finding();
                    let mut kept = super::implied::keep_used(found_by, implied, &mut path.conditions);
                    kept.extend_from_slice(conditions.telling());
                    kept
                });
                let preds = kept.as_deref().unwrap_or(preds);
                let fixed = path.conditions.fixed_columns();
                let (presorted, backward) = self.order_of_index(rel, table, &path.index, fixed, wanted.order)?;
                let order = match presorted {
                    0 => RowOrder::default(),
                    _ => self.rows_of_index(rel, table, &path.index, fixed, backward)?,
                };
                self.index_scan(rel, table_scan, (path, estimate), preds, backward).map(|c| ScanChoice { order, ..c })
            }
        };
        self.over_partitions(rel, table, choice?, preds, wanted.order)
    }

    pub(super) fn filter_of(
        &self,
        rel: &Rel,
        preds: &[&Expr],
        layout: &Layout,
    ) -> Result<(Option<Expression>, Vec<String>)> {
        let list: Vec<Expr> = preds.iter().map(|e| (*e).clone()).collect();
        let Some(e) = Expr::and_all(list.clone()) else { return Ok((None, Vec::new())) };
        let filter = self.expression(&e, layout)?;
        let mut info = Vec::new();
        if self.explains() {
            let text: Vec<String> = list.iter().map(|e| self.show_scan(rel.id, e)).collect();
            info.push(format!("Filter: {}", super::shown_text::and_text(&text)));
        }
        Ok((Some(filter), info))
    }

    fn seq_scan(&self, rel: &Rel, table_scan: TableScan, preds: &[Expr], estimate: Estimate) -> Result<ScanChoice> {
        let TableScan { mut scan, layout } = table_scan;
        let layout = self.set_conditions(rel, &mut scan, layout, preds)?;
        let info = self.filter_text(rel, preds.iter()).into_iter().collect();
        scan.is_self_contained = preds.iter().all(Expr::is_self_contained);
        let label = format!("Seq Scan on {}", self.scan_name(rel, &scan.table));
        let width = layout.0.len();
        let node = self.node_with(Op::SeqScan(scan), width, estimate, label, info);
        let Estimate { rows, cost } = estimate;
        Ok(ScanChoice { planned: PlannedNode { node, layout }, order: RowOrder::default(), rows, cost })
    }

    fn tid_scan(
        &self,
        rel: &Rel,
        table_scan: TableScan,
        (tids, used): (&[Expr], usize),
        preds: &[Expr],
        estimate: Estimate,
    ) -> Result<ScanChoice> {
        let TableScan { mut scan, layout } = table_scan;
        let values = tids.iter().map(|e| self.expression(e, &Layout::default())).collect::<Result<Vec<_>>>()?;
        let rest: Vec<&Expr> = preds.iter().enumerate().filter(|(i, _)| *i != used).map(|(_, e)| e).collect();
        let (filter, mut info) = self.filter_of(rel, &rest, &layout)?;
        scan.filter = filter;
        if self.explains() {
            info.insert(0, format!("TID Cond: {}", self.show_scan(rel.id, &preds[used])));
        }
        let label = format!("Tid Scan on {}", self.scan_name(rel, &scan.table));
        let width = layout.0.len();
        let node = self.node_with(Op::TidScan { scan, tids: values }, width, estimate, label, info);
        let Estimate { rows, cost } = estimate;
        Ok(ScanChoice { planned: PlannedNode { node, layout }, order: RowOrder::default(), rows, cost })
    }

    fn index_scan(
        &self,
        rel: &Rel,
        table_scan: TableScan,
        (path, estimate): (IndexPath, Estimate),
        preds: &[Expr],
        backward: bool,
    ) -> Result<ScanChoice> {
        let TableScan { mut scan, layout } = table_scan;
        let IndexPath { index, conditions: m, .. } = path;
        // An entry that is not of the row as it is now is judged by all of the index's keys.
        let has_columns = index.keys.iter().all(|key| key.attnum != 0);
        scan.is_self_contained = has_columns && preds.iter().all(Expr::is_self_contained);
        let rest: Vec<&Expr> = preds.iter().enumerate().filter(|(i, _)| m.is_filter(*i)).map(|(_, e)| e).collect();
        let (filter, mut info) = self.filter_of(rel, &rest, &layout)?;
        let checked = |i: &usize| !index.method.is_ordered || m.is_filter(*i) || m.unshown.contains(i);
        scan.filter = match index.method.is_ordered && m.unshown.is_empty() {
            true => filter,
            // What is found may have another key than the one that is looked for.
            false => {
                let checked: Vec<&Expr> =
                    preds.iter().enumerate().filter(|(i, _)| checked(i)).map(|(_, e)| e).collect();
                self.filter_of(rel, &checked, &layout)?.0
            }
        };
        let access = self.index_access(rel, &scan, &index, &m, backward)?;
        if self.explains() && !m.used.is_empty() {
            info.insert(0, self.index_condition_text(rel, &m, preds)?);
        }
        let direction = if backward { " Backward" } else { "" };
        let label = format!(
            "Index Scan{direction} using {} on {}",
            quote_identifier(&index.name),
            self.scan_name(rel, &scan.table)
        );
        let width = layout.0.len();
        let node = self.node_with(Op::IndexScan { scan, access }, width, estimate, label, info);
        let Estimate { rows, cost } = estimate;
        Ok(ScanChoice { planned: PlannedNode { node, layout }, order: RowOrder::default(), rows, cost })
    }

    /// Index expressions and predicates, bound over `rel`.
    pub(crate) fn index_sql(&self, sql: &str, rel: u32, table: &Table) -> Result<Expr> {
        let key = (rel, sql.to_string());
        if let Some(known) = self.index_expressions.borrow().get(&key) {
            return Ok(known.clone());
        }
        let binder = kilndb_bind::Binder::new(self.catalog, Arc::from(""), Vec::new());
        let mut expr = binder.bind_catalog_sql(sql, table, rel)?;
        super::inline::inline_in_expression(&mut expr, self.catalog)?;
        super::rewrite::fold_expression(&mut expr, self.catalog, self.engine)?;
        self.index_expressions.borrow_mut().insert(key, expr.clone());
        Ok(expr)
    }

    pub(super) fn predicate_implied(&self, rel: &Rel, table: &Table, index: &Index, preds: &[Expr]) -> Result<bool> {
        let Some(sql) = &index.predicate_sql else { return Ok(true) };
        let predicate = super::rewrite::canonical(self.index_sql(sql, rel.id, table)?);
        let is_implied = kilndb_bind::implies(self.catalog, preds, &predicate);
        if !is_implied && preds.iter().any(super::values::has_parameter) {
            // A value may be one that the predicate admits.
            self.depends_on_values.set(true);
        }
        Ok(is_implied)
    }
}

/// Does a condition use no columns of other relations?
fn only_uses(e: &Expr, rel: u32) -> bool {
    let mut used = Vec::new();
    e.columns(&mut used);
    used.iter().all(|c| c.rel == rel)
}

pub(crate) fn text_class(t: Oid) -> bool {
    matches!(t, oids::TEXT | oids::VARCHAR | oids::NAME)
}
