//! Access paths of one table.

use super::access::{self, IndexMatch};
use super::bitmap::{Conditions, TableSize};
use super::expression::CExpr;
use super::*;
use kilndb_base::Error;
use kilndb_catalog::{Index, Table, TableKind};
use kilndb_types::oids;
use kilndb_types::row::ColumnFetch;

pub(crate) struct ScanChoice {
    pub planned: PlannedNode,
    pub sorted: bool,
    /// Rows that one probe yields, and what it costs.
    pub rows: f64,
    pub cost: f64,
}

/// A scan of a table whose access path is not chosen yet, and the columns that it yields.
pub(super) struct TableScan {
    pub scan: Scan,
    pub layout: Layout,
}

/// An index that a scan may use.
struct IndexPath {
    index: Arc<Index>,
    conditions: IndexMatch,
    estimate: Estimate,
    /// The path yields rows in the order wanted.
    sorted: bool,
}

pub(crate) fn table_rows(table: &Table, pages: f64) -> f64 {
    if table.reltuples >= 0.0 && pages > 0.0 { f64::from(table.reltuples).max(1.0) } else { (pages.max(10.0)) * 60.0 }
}

pub(crate) fn selectivity(e: &Expr) -> f64 {
    match &e.kind {
        ExprKind::Func(f) => match &*f.name {
            "=" => 0.005,
            "<>" => 0.995,
            "<" | "<=" | ">" | ">=" => 0.3333,
            "~~" | "~~*" | "~" | "~*" => 0.05,
            // This is PostgreSQL's estimate without statistics.
            "@@" | "@@@" | "@>" | "<@" | "&&" => 0.005,
            "?" | "?|" | "?&" | "@?" => 0.01,
            _ => 0.3333,
        },
        ExprKind::ScalarArray { .. } => 0.02,
        ExprKind::IsNull { negated, .. } => {
            if *negated {
                0.995
            } else {
                0.005
            }
        }
        ExprKind::And(l) => l.iter().map(selectivity).product(),
        ExprKind::Or(l) => l.iter().map(selectivity).sum::<f64>().min(1.0),
        ExprKind::Not(a) => 1.0 - selectivity(a),
        ExprKind::Const(kilndb_types::Datum::Bool(true)) => 1.0,
        ExprKind::Const(_) => 0.0,
        _ => 0.5,
    }
}

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
            },
            layout,
        ))
    }

    pub(super) fn scan_name(&self, rel: &Rel, table: &Table) -> String {
        let alias = self.shown_relation(rel);
        if alias == table.name { table.name.clone() } else { format!("{} {alias}", table.name) }
    }

    /// The cheapest way to the rows of `rel` that satisfy `preds`. Columns of other relations in them are parameters.
    pub(crate) fn plan_table(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        preds: &[Expr],
        wanted: &[SortKey],
        limited: bool,
    ) -> Result<ScanChoice> {
        if table.kind == TableKind::Sequence {
            return Err(Error::unsupported(format!("reading sequence \"{}\" as a table", table.name)));
        }
        self.lock_table(table.oid, LockMode::AccessShare);
        let (scan, layout) = self.make_scan(rel, table)?;
        let table_scan = TableScan { scan, layout };
        let known_pages = match &table_scan.scan.heap {
            Some(heap) => f64::from(heap.pages()),
            None => self.partition_pages(table)?,
        };
        let pages = known_pages.max(if table.reltuples < 0.0 { 10.0 } else { 1.0 });
        let total = table_rows(table, pages);
        let selectivities: Vec<f64> = preds.iter().map(|e| self.selectivity_in(rel, table, e)).collect();
        let all_selectivity: f64 = selectivities.iter().product();
        let out_rows = (total * all_selectivity).max(1.0);
        if let Some((tids, used)) = access::tid_condition(rel.id, preds) {
            let choice = self.tid_scan(rel, table_scan, &tids, used, preds)?;
            return self.over_partitions(rel, table, choice, preds, &[]);
        }
        let switches = self.catalog.planner_switches();
        let seq_cost = pages + total * 0.0125;
        let sort_cost = if wanted.is_empty() { 0.0 } else { out_rows * (out_rows.max(2.0)).log2() * 0.01 };
        let implied = if table.indexes.is_empty() { Vec::new() } else { super::implied::implied(self, preds)? };
        let all: Vec<Expr> =
            if implied.is_empty() { Vec::new() } else { preds.iter().chain(&implied).cloned().collect() };
        let all = if implied.is_empty() { preds } else { &all };
        let mut best: Option<IndexPath> = None;
        for index in &table.indexes {
            if !index.valid || !index.method.finds_keys {
                continue;
            }
            if index.predicate_sql.is_some() && !self.predicate_implied(rel, table, index, preds)? {
                continue;
            }
            let m = self.match_index(rel, table, index, all)?;
            let has_whole_key = m.equal.len() + usize::from(m.any_of.is_some()) == index.keys.len();
            if !index.method.is_ordered && !has_whole_key {
                continue;
            }
            // A global index has one tree for all partitions: it is of use for a key, not for a range or an order.
            if index.is_global && !has_whole_key {
                continue;
            }
            let order = access::order_of(rel.id, index, m.equal.len(), wanted).filter(|_| index.method.is_ordered);
            let useful_order = !wanted.is_empty() && order.is_some() && m.any_of.is_none();
            if m.equal.is_empty() && m.lower.is_none() && m.upper.is_none() && m.any_of.is_none() && !useful_order {
                continue;
            }
            let mut rows = total;
            if index.unique && m.equal.len() == index.keys.len() {
                rows = 1.0;
            } else {
                for _ in 0..m.equal.len() {
                    rows *= 0.005;
                }
                if m.any_of.is_some() {
                    rows *= 0.02;
                }
                if m.lower.is_some() && m.upper.is_some() {
                    rows *= 0.02;
                } else if m.lower.is_some() || m.upper.is_some() {
                    rows *= 0.3333;
                }
            }
            let rows = rows.max(1.0);
            let fetched = if useful_order && limited { rows.min((rows * 0.05).max(10.0)) } else { rows };
            let mut cost = 0.4 + fetched * 0.02 + fetched.min(pages * 2.0) * 0.9 + switches.penalty(switches.indexscan);
            if !useful_order {
                cost += sort_cost;
            }
            if best.as_ref().is_none_or(|b| cost < b.estimate.cost) {
                let estimate = Estimate { rows, cost };
                best = Some(IndexPath { index: index.clone(), conditions: m, estimate, sorted: useful_order });
            }
        }
        let bitmap = match table.indexes.iter().any(|i| i.has_terms()) {
            true => {
                let conditions = Conditions { preds, selectivities: &selectivities };
                self.bitmap_path(rel, table, conditions, TableSize { rows: total, pages })?
            }
            false => None,
        };
        let bitmap =
            bitmap.map(|path| (path.scan_cost(pages) + switches.penalty(switches.bitmapscan) + sort_cost, path));
        let seq_cost = seq_cost + switches.penalty(switches.seqscan);
        let choice = match best {
            _ if bitmap.as_ref().is_some_and(|(cost, _)| {
                *cost < seq_cost + sort_cost && best.as_ref().is_none_or(|b| *cost < b.estimate.cost)
            }) =>
            {
                let Some((cost, path)) = bitmap else { return Err(Error::internal("a bitmap scan without a bitmap")) };
                self.bitmap_scan(rel, table_scan, &path, preds, Estimate { rows: out_rows, cost })
            }
            Some(mut path) if path.estimate.cost < seq_cost + sort_cost => {
                let kept =
                    (!implied.is_empty()).then(|| super::implied::keep_used(preds, &implied, &mut path.conditions));
                let preds = kept.as_deref().unwrap_or(preds);
                let equal = path.conditions.equal.len();
                let backward = path.sorted && access::order_of(rel.id, &path.index, equal, wanted) == Some(true);
                self.index_scan(rel, table_scan, path, preds, backward)
            }
            _ => self.seq_scan(rel, table_scan, preds, Estimate { rows: out_rows, cost: seq_cost }),
        };
        self.over_partitions(rel, table, choice?, preds, wanted)
    }

    pub(super) fn filter_of(
        &self,
        rel: &Rel,
        preds: &[&Expr],
        layout: &Layout,
    ) -> Result<(Option<CExpr>, Vec<String>)> {
        let list: Vec<Expr> = preds.iter().map(|e| (*e).clone()).collect();
        let Some(e) = Expr::and_all(list.clone()) else { return Ok((None, Vec::new())) };
        let filter = self.compile(&e, layout)?;
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
        Ok(ScanChoice { planned: PlannedNode { node, layout }, sorted: false, rows, cost })
    }

    fn tid_scan(
        &self,
        rel: &Rel,
        table_scan: TableScan,
        tids: &[Expr],
        used: usize,
        preds: &[Expr],
    ) -> Result<ScanChoice> {
        let TableScan { mut scan, layout } = table_scan;
        let values = tids.iter().map(|e| self.compile(e, &Layout::default())).collect::<Result<Vec<_>>>()?;
        let rest: Vec<&Expr> = preds.iter().enumerate().filter(|(i, _)| *i != used).map(|(_, e)| e).collect();
        let (filter, mut info) = self.filter_of(rel, &rest, &layout)?;
        scan.filter = filter;
        let several = |e: &Expr| e.ty != kilndb_types::oids::TID;
        let count: f64 = tids.iter().map(|e| if several(e) { 10.0 } else { 1.0 }).sum();
        if self.explains() {
            info.insert(0, format!("TID Cond: {}", self.show_scan(rel.id, &preds[used])));
        }
        let label = format!("Tid Scan on {}", self.scan_name(rel, &scan.table));
        let width = layout.0.len();
        let node = self.node_with(
            Op::TidScan { scan, tids: values },
            width,
            Estimate { rows: count, cost: count },
            label,
            info,
        );
        Ok(ScanChoice { planned: PlannedNode { node, layout }, sorted: false, rows: count, cost: count })
    }

    fn index_scan(
        &self,
        rel: &Rel,
        table_scan: TableScan,
        path: IndexPath,
        preds: &[Expr],
        backward: bool,
    ) -> Result<ScanChoice> {
        let TableScan { mut scan, layout } = table_scan;
        let IndexPath { index, conditions: m, estimate, sorted } = path;
        let rest: Vec<&Expr> = preds.iter().enumerate().filter(|(i, _)| !m.used.contains(i)).map(|(_, e)| e).collect();
        let (filter, mut info) = self.filter_of(rel, &rest, &layout)?;
        scan.filter = match index.method.is_ordered {
            true => filter,
            // What is found may have another key than the one that is looked for.
            false => self.filter_of(rel, &preds.iter().collect::<Vec<_>>(), &layout)?.0,
        };
        let empty = Layout::default();
        let one = |e: &Expr| self.compile(e, &empty);
        let equal = m.equal.iter().map(one).collect::<Result<Vec<_>>>()?;
        let bound = |b: &Option<(Expr, bool)>| -> Result<Option<IndexBound>> {
            b.as_ref().map(|(e, inclusive)| Ok(IndexBound { value: one(e)?, inclusive: *inclusive })).transpose()
        };
        let (mut lower, mut upper) = (bound(&m.lower)?, bound(&m.upper)?);
        if index.keys.get(m.equal.len()).is_some_and(|k| k.descending) {
            std::mem::swap(&mut lower, &mut upper);
        }
        let mut keys = Vec::new();
        if index.keys.iter().any(|k| k.attnum == 0) {
            let row = Layout(scan.table.columns.iter().map(|c| ColId { rel: rel.id, att: c.attnum }).collect());
            for k in &index.keys {
                keys.push(match &k.expression_sql {
                    Some(sql) if k.attnum == 0 => self.compile(&self.index_sql(sql, rel.id, &scan.table)?, &row)?,
                    _ => CExpr::Slot(usize::try_from(k.attnum - 1).unwrap_or(0)),
                });
            }
        }
        let access = IndexAccess {
            keys,
            unique_point: index.unique
                && !index.deferrable
                && equal.len() == index.keys.len()
                && !index.nulls_not_distinct,
            index: index.clone(),
            relation: if scan.heap.is_some() { Some(self.relation(index.storage)?) } else { None },
            equal,
            lower,
            upper,
            any_of: m.any_of.as_ref().map(one).transpose()?,
            not_null: m.not_null,
            backward,
        };
        if self.explains() && !m.used.is_empty() {
            let text: Vec<String> = m.used.iter().map(|i| self.show_scan(rel.id, &preds[*i])).collect();
            info.insert(0, format!("Index Cond: {}", super::shown_text::and_text(&text)));
        }
        let direction = if backward { " Backward" } else { "" };
        let label = format!("Index Scan{direction} using {} on {}", index.name, self.scan_name(rel, &scan.table));
        let width = layout.0.len();
        let node = self.node_with(Op::IndexScan { scan, access }, width, estimate, label, info);
        let Estimate { rows, cost } = estimate;
        Ok(ScanChoice { planned: PlannedNode { node, layout }, sorted, rows, cost })
    }

    /// Index expressions and predicates, bound over `rel`.
    pub(crate) fn index_sql(&self, sql: &str, rel: u32, table: &Table) -> Result<Expr> {
        let binder = kilndb_bind::Binder::new(self.catalog, Arc::from(""), Vec::new());
        let mut expr = binder.bind_catalog_sql(sql, table, rel)?;
        super::inline::inline_in_expression(&mut expr, self.catalog)?;
        Ok(expr)
    }

    pub(super) fn predicate_implied(&self, rel: &Rel, table: &Table, index: &Index, preds: &[Expr]) -> Result<bool> {
        let Some(sql) = &index.predicate_sql else { return Ok(true) };
        Ok(kilndb_bind::implies(self.catalog, preds, &self.index_sql(sql, rel.id, table)?))
    }

    pub(crate) fn match_index(&self, rel: &Rel, table: &Table, index: &Index, preds: &[Expr]) -> Result<IndexMatch> {
        let mut m = IndexMatch::default();
        for key in &index.keys {
            let expression = match &key.expression_sql {
                Some(sql) if key.attnum == 0 => Some(self.index_sql(sql, rel.id, table)?),
                _ => None,
            };
            let mut equal = None;
            let (mut lower, mut upper) = (None, None);
            let mut any_of = None;
            for (i, p) in preds.iter().enumerate() {
                if m.used.contains(&i) {
                    continue;
                }
                let Some((value, strategy, array)) = access::comparison(self, rel.id, key, expression.as_ref(), p)?
                else {
                    continue;
                };
                match (strategy, array) {
                    (3, true) if any_of.is_none() => any_of = Some((i, value)),
                    (_, true) => {}
                    (3, false) if equal.is_none() => equal = Some((i, value)),
                    (1, false) if upper.is_none() => upper = Some((i, (value, false))),
                    (2, false) if upper.is_none() => upper = Some((i, (value, true))),
                    (4, false) if lower.is_none() => lower = Some((i, (value, true))),
                    (5, false) if lower.is_none() => lower = Some((i, (value, false))),
                    _ => {}
                }
            }
            if let Some((i, value)) = equal {
                m.used.push(i);
                m.equal.push(value);
                continue;
            }
            if let Some((i, value)) = any_of {
                m.used.push(i);
                m.any_of = Some(value);
                break;
            }
            if lower.is_none()
                && upper.is_none()
                && let Some(i) = preds.iter().position(|p| matches!(&p.kind, ExprKind::IsNull { arg, negated: true } if access::is_key(arg, rel.id, key, expression.as_ref())))
            {
                m.used.push(i);
                m.not_null = true;
            }
            if let Some((i, b)) = lower {
                m.used.push(i);
                m.lower = Some(b);
            }
            if let Some((i, b)) = upper {
                m.used.push(i);
                m.upper = Some(b);
            }
            break;
        }
        Ok(m)
    }
}

pub(crate) fn text_class(t: Oid) -> bool {
    matches!(t, oids::TEXT | oids::VARCHAR | oids::NAME)
}
