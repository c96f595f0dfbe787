//! Bitmap scans: rows found by indexes, several of them if need be, read in their order.
//!
//! Invariants
//! 1. The indexes find a superset of the rows wanted: the scan's filter has all conditions.
//!
//! Must not know: terms.

use super::cost::{self, TableSize};
use super::expression::Expression;
use super::key_bitmap::{KeyBitmap, may_find_keys};
use super::scan::{ScanChoice, TableScan};
use super::*;
use kilndb_catalog::operator_class::EQUAL;
use kilndb_catalog::{Index, Table, inverted};
use kilndb_types::inverted::InvertedClass;
use kilndb_types::oids;
use kilndb_types::row::ColumnFetch;

/// OIDs of the operators @@ and @@@ of documents and queries.
const VECTOR_MATCHES: Oid = 3636;
const QUERY_MATCHES: Oid = 3637;
const VECTOR_MATCHES_OLD: Oid = 3660;
const QUERY_MATCHES_OLD: Oid = 3661;

/// The rows to read, as combinations of index searches. Each combination has the number of the node that EXPLAIN shows.
pub enum Bitmap {
    Index(InvertedAccess),
    /// What is looked for in a tree, or another index of keys.
    Keys(Box<IndexAccess>, usize),
    All(Vec<Bitmap>, usize),
    Any(Vec<Bitmap>, usize),
}

pub struct InvertedAccess {
    pub index: Arc<Index>,
    /// The index; None if the table is partitioned.
    pub relation: Option<Arc<Relation>>,
    pub conditions: Vec<InvertedCondition>,
    /// The node that EXPLAIN shows.
    pub shown: usize,
}

/// A condition that an inverted index can look for.
pub struct InvertedCondition {
    /// The number of the index's column.
    pub column: u8,
    pub class: InvertedClass,
    pub strategy: u16,
    pub value: Expression,
}

/// A way to find rows with indexes.
#[derive(Clone)]
pub(crate) struct BitmapPath {
    pub(super) source: BitmapSource,
    /// Positions of the conditions that it answers; of an alternative its own.
    pub(super) used: Vec<usize>,
    /// Those of `used` that it answers only in part: EXPLAIN shows them as a filter.
    pub(super) partial: Vec<usize>,
    pub(super) rows: f64,
    pub(super) cost: f64,
}
#[derive(Clone)]
pub(super) enum BitmapSource {
    Index(Arc<Index>, Vec<InvertedMatch>),
    Keys(Arc<KeyBitmap>),
    All(Vec<BitmapPath>),
    Any(Vec<BitmapPath>),
}
#[derive(Clone)]
pub(super) struct InvertedMatch {
    column: u8,
    class: InvertedClass,
    strategy: u16,
    value: Expr,
    condition: Expr,
    /// The condition with the column on its left.
    turned: Expr,
}

/// The column (index in `Table::columns`) and the query of `tsvector @@ tsquery`.
fn searched<'e>(rel: &Rel, table: &Table, p: &'e Expr) -> Option<(usize, &'e Expr)> {
    let ExprKind::Func(f) = &p.kind else { return None };
    let [l, r] = f.args.as_slice() else { return None };
    let (column, query) = match f.operator {
        VECTOR_MATCHES | VECTOR_MATCHES_OLD => (l, r),
        QUERY_MATCHES | QUERY_MATCHES_OLD => (r, l),
        _ => return None,
    };
    // A test is made before the scan's other conditions.
    if !rel.security_quals.is_empty() {
        return None;
    }
    let ExprKind::Column(c) = &column.kind else { return None };
    let at = usize::try_from(c.att - 1).ok().filter(|_| c.rel == rel.id && access::foreign(query, rel.id))?;
    table.columns.get(at).is_some_and(|c| c.type_oid == oids::TSVECTOR).then_some((at, query))
}

/// Conditions, and for each of them the share of a table's rows that it leaves.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'a> {
    pub preds: &'a [Expr],
    pub selectivities: &'a [f64],
}

impl BitmapPath {
    pub(crate) fn scan_cost(&self, pages: f64) -> f64 {
        self.cost + cost::rows_in_order(self.rows, pages)
    }
    /// The cost as it is compared with that of an index scan. A bitmap of one index sorts its entries by their rows, and
    /// yields no row before it is complete.
    pub(crate) fn compared_cost(&self, pages: f64, limited: bool) -> f64 {
        match self.source {
            BitmapSource::Keys(_) if limited => f64::INFINITY,
            BitmapSource::Keys(_) => self.scan_cost(pages) + cost::sorted_entries(self.rows),
            _ => self.scan_cost(pages),
        }
    }
}

/// The cheapest way to use one of these indexes or several at once.
fn combined(mut paths: Vec<BitmapPath>, size: TableSize) -> Option<BitmapPath> {
    let pages = size.pages;
    paths.sort_by(|a, b| a.scan_cost(pages).total_cmp(&b.scan_cost(pages)));
    let mut chosen: Vec<BitmapPath> = Vec::new();
    let (mut rows, mut cost) = (size.rows, f64::INFINITY);
    for path in paths {
        // Another index is worth its cost if it saves more rows.
        let adds = path.used.iter().any(|n| !chosen.iter().any(|c| c.used.contains(n)));
        let fewer = if chosen.is_empty() { path.rows } else { (rows * path.rows / size.rows.max(1.0)).max(1.0) };
        let searched: f64 = chosen.iter().map(|c| c.cost).sum::<f64>() + path.cost;
        let whole = searched + cost::rows_in_order(fewer, pages);
        if adds && whole < cost {
            (rows, cost) = (fewer, whole);
            chosen.push(path);
        }
    }
    match chosen.len() {
        0 | 1 => chosen.pop(),
        _ => {
            let used = chosen.iter().flat_map(|c| c.used.clone()).collect();
            // What one index answers in part another may answer.
            let is_partial = |at: &usize| chosen.iter().all(|c| !c.used.contains(at) || c.partial.contains(at));
            let partial = chosen.iter().flat_map(|c| c.partial.clone()).filter(is_partial).collect();
            let cost = chosen.iter().map(|c| c.cost).sum();
            Some(BitmapPath { source: BitmapSource::All(chosen), used, partial, rows, cost })
        }
    }
}

/// Whether an inverted index finds all that a condition is true of: its terms are told apart and sorted by their bytes,
/// which a collation's rules may not do.
fn is_told_by_terms(p: &Expr, class: &InvertedClass, strategy: u16) -> bool {
    let is_sorted = matches!(class, InvertedClass::Ordered(_)) && strategy != u16::from(EQUAL);
    p.collation.collation.rules.is_none_or(|rules| rules.is_deterministic && !is_sorted)
}

impl Planner<'_> {
    /// The cheapest bitmap for these conditions. `with_implied`: the conditions, and those that follow from them.
    pub(super) fn bitmap_path(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        conditions: Conditions<'_>,
        with_implied: &[Expr],
        size: TableSize,
    ) -> Result<Option<BitmapPath>> {
        let preds = conditions.preds;
        let mut paths = Vec::new();
        for index in table.indexes.iter().filter(|i| i.valid && i.has_terms()) {
            if self.predicate_implied(rel, table, index, preds)? {
                paths.extend(self.inverted_path(rel, table, index, conditions, size.rows)?);
            }
        }
        for index in table.indexes.iter().filter(|i| may_find_keys(table, i)) {
            if self.predicate_implied(rel, table, index, preds)? {
                paths.extend(self.key_path(rel, table, index, with_implied, size)?);
            }
        }
        for (at, p) in preds.iter().enumerate() {
            if let ExprKind::Or(list) = &p.kind {
                paths.extend(self.alternatives(rel, table, list, preds, size)?.map(|path| {
                    let partial = if path.partial.is_empty() { Vec::new() } else { vec![at] };
                    BitmapPath { used: vec![at], partial, ..path }
                }));
            }
        }
        Ok(combined(paths, size))
    }

    fn inverted_path(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        index: &Arc<Index>,
        Conditions { preds, selectivities }: Conditions<'_>,
        total: f64,
    ) -> Result<Option<BitmapPath>> {
        let (mut found, mut used) = (Vec::new(), Vec::new());
        for (key, column) in index.keys.iter().zip(0..) {
            let expression = self.key_expression(rel, table, key)?;
            for (at, p) in preds.iter().enumerate() {
                let ExprKind::Func(f) = &p.kind else { continue };
                let [l, r] = f.args.as_slice() else { continue };
                let is_key = |e: &Expr| access::is_key(e, rel.id, key, expression.as_ref());
                let (value, turned) = if f.operator != 0 && is_key(l) && access::foreign(r, rel.id) {
                    (r, Some(p.clone()))
                } else if f.operator != 0 && is_key(r) && access::foreign(l, rel.id) {
                    (l, self.turned(p)?)
                } else {
                    continue;
                };
                let Some(turned) = turned else { continue };
                let operator = if let ExprKind::Func(f) = &turned.kind { f.operator } else { 0 };
                let Some(strategy) = inverted::strategy(key.opclass, operator) else { continue };
                let class = inverted::inverted_class(key.opclass, key.type_oid, self.catalog)?;
                if !is_told_by_terms(p, &class, strategy) {
                    continue;
                }
                found.push(InvertedMatch {
                    column,
                    class,
                    strategy,
                    value: value.clone(),
                    condition: p.clone(),
                    turned,
                });
                used.push(at);
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
        used.sort_unstable();
        used.dedup();
        let rows = (total * used.iter().map(|n| selectivities[*n]).product::<f64>()).max(1.0);
        // A term of a path tells more than the terms of its keys and values.
        let is_telling = found.iter().all(|f| f.class == InvertedClass::JsonbPath);
        let cost = cost::inverted_search(found.len(), rows, is_telling);
        let source = BitmapSource::Index(index.clone(), found);
        Ok(Some(BitmapPath { source, used, partial: Vec::new(), rows, cost }))
    }

    /// `a op b` as `b commutator a`.
    pub(super) fn turned(&self, p: &Expr) -> Result<Option<Expr>> {
        let mut turned = p.clone();
        let ExprKind::Func(f) = &mut turned.kind else { return Ok(None) };
        let Some(operator) = self.catalog.operator_by_oid(f.operator)? else { return Ok(None) };
        let Some(commutator) = self.catalog.operator_by_oid(operator.commutator)? else { return Ok(None) };
        f.args.reverse();
        f.operator = commutator.oid;
        f.name = commutator.name.as_str().into();
        Ok(Some(turned))
    }

    /// All of the alternatives have to be found by indexes.
    fn alternatives(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        list: &[Expr],
        preds: &[Expr],
        size: TableSize,
    ) -> Result<Option<BitmapPath>> {
        let mut paths = Vec::new();
        let mut answers_all = true;
        for e in list {
            let mut parts = Vec::new();
            e.clone().conjuncts(&mut parts);
            let written = parts.len();
            // Conditions of the whole scan may imply the predicate of a partial index.
            parts.extend(super::implied::implied(self, &parts)?);
            let own = parts.len();
            parts.extend(preds.iter().filter(|p| !matches!(p.kind, ExprKind::Or(_))).cloned());
            let selectivities: Vec<f64> = parts[..own].iter().map(|e| self.condition_selectivity(rel.id, e)).collect();
            let conditions = Conditions { preds: &parts[..own], selectivities: &selectivities };
            let mut found = Vec::new();
            for index in table.indexes.iter().filter(|i| i.valid && i.has_terms()) {
                if !self.predicate_implied(rel, table, index, &parts)? {
                    continue;
                }
                found.extend(self.inverted_path(rel, table, index, conditions, size.rows)?);
            }
            for index in table.indexes.iter().filter(|i| may_find_keys(table, i)) {
                if self.predicate_implied(rel, table, index, &parts)? {
                    let path = self.key_path(rel, table, index, &parts, size)?;
                    found.extend(path.filter(|path| path.used.iter().any(|at| *at < own)));
                }
            }
            match combined(found, size) {
                Some(path) => {
                    answers_all &= (0..written).all(|at| path.used.contains(&at) && !path.partial.contains(&at));
                    paths.push(path);
                }
                None => return Ok(None),
            }
        }
        let rows = paths.iter().map(|p| p.rows).sum::<f64>().min(size.rows);
        let cost = paths.iter().map(|p| p.cost).sum();
        // The caller knows where the condition stands.
        let partial = if answers_all { Vec::new() } else { vec![0] };
        Ok(Some(BitmapPath { source: BitmapSource::Any(paths), used: Vec::new(), partial, rows, cost }))
    }

    pub(super) fn bitmap_scan(
        &self,
        rel: &Rel,
        table_scan: TableScan,
        path: &BitmapPath,
        preds: &[Expr],
        estimate: Estimate,
    ) -> Result<ScanChoice> {
        let TableScan { mut scan, layout } = table_scan;
        let layout = self.set_conditions(rel, &mut scan, layout, preds)?;
        let (bitmap, shown) = self.bitmap_of(rel, path, &scan)?;
        let mut info = Vec::new();
        if self.explains() {
            info.push(format!("Recheck Cond: {}", self.conditions_text(rel, path)));
            let is_left = |at: &usize| !path.used.contains(at) || path.partial.contains(at);
            let rest = preds.iter().enumerate().filter(|(i, _)| is_left(i));
            info.extend(self.filter_text(rel, rest.map(|(_, e)| e)));
        }
        let label = format!("Bitmap Heap Scan on {}", self.scan_name(rel, &scan.table));
        let width = layout.0.len();
        let node = self.node_with(Op::BitmapScan { scan, bitmap, shown: vec![shown] }, width, estimate, label, info);
        let Estimate { rows, cost } = estimate;
        Ok(ScanChoice {
            planned: PlannedNode { node, layout },
            order: super::row_order::RowOrder::default(),
            rows,
            cost,
        })
    }

    /// The filter of a scan that reads whole rows, and its tests of stored documents; the columns without those that
    /// only tests use.
    pub(super) fn set_conditions(&self, rel: &Rel, scan: &mut Scan, layout: Layout, preds: &[Expr]) -> Result<Layout> {
        let layout = self.take_tests(rel, scan, layout, preds)?;
        let left: Vec<Expr> = preds.iter().filter(|p| searched(rel, &scan.table, p).is_none()).cloned().collect();
        scan.filter = Expr::and_all(left).map(|e| self.expression(&e, &layout)).transpose()?;
        Ok(layout)
    }

    fn take_tests(&self, rel: &Rel, scan: &mut Scan, layout: Layout, preds: &[Expr]) -> Result<Layout> {
        let empty = Layout::default();
        let mut uses: HashMap<i16, usize> = HashMap::new();
        for p in preds {
            if let Some((column, query)) = searched(rel, &scan.table, p) {
                scan.tests.push(StoredTest { column, query: self.expression(query, &empty)? });
                *uses.entry(scan.table.columns[column].attnum).or_default() += 1;
            }
        }
        let is_free = |c: &ColId| uses.get(&c.att).is_some_and(|n| self.uses.get(c) == Some(n));
        let (mut kept, mut outputs) = (Layout::default(), Vec::new());
        for (id, out) in layout.0.iter().zip(&scan.outputs) {
            match out {
                ScanOutput::Column(i) if is_free(id) => {
                    scan.needed[*i] = ColumnFetch::Nothing;
                    scan.leading -= 1;
                }
                out => {
                    outputs.push(*out);
                    kept.0.push(*id);
                }
            }
        }
        scan.outputs = outputs;
        Ok(kept)
    }

    fn bitmap_of(&self, rel: &Rel, path: &BitmapPath, scan: &Scan) -> Result<(Bitmap, Arc<PlanNode>)> {
        let several = |paths: &[BitmapPath]| -> Result<(Vec<Bitmap>, Vec<Arc<PlanNode>>)> {
            Ok(paths.iter().map(|p| self.bitmap_of(rel, p, scan)).collect::<Result<Vec<_>>>()?.into_iter().unzip())
        };
        Ok(match &path.source {
            BitmapSource::All(paths) => {
                let (list, shown) = several(paths)?;
                let shown = self.node_with(
                    Op::Shown { index: 0, below: shown },
                    0,
                    Estimate { rows: path.rows, cost: path.cost },
                    "BitmapAnd",
                    Vec::new(),
                );
                (Bitmap::All(list, shown.id), shown)
            }
            BitmapSource::Any(paths) => {
                let (list, shown) = several(paths)?;
                let shown = self.node_with(
                    Op::Shown { index: 0, below: shown },
                    0,
                    Estimate { rows: path.rows, cost: path.cost },
                    "BitmapOr",
                    Vec::new(),
                );
                (Bitmap::Any(list, shown.id), shown)
            }
            BitmapSource::Keys(found) => self.key_bitmap(rel, path, found, scan)?,
            BitmapSource::Index(index, found) => {
                let info = if self.explains() {
                    vec![format!(
                        "Index Cond: {}",
                        super::shown_text::and_text(
                            &found.iter().map(|f| self.show_scan(rel.id, &f.turned)).collect::<Vec<_>>()
                        )
                    )]
                } else {
                    Vec::new()
                };
                let label = format!("Bitmap Index Scan on {}", index.name);
                let shown = self.node_with(
                    Op::Shown { index: index.oid, below: Vec::new() },
                    0,
                    Estimate { rows: path.rows, cost: path.cost },
                    label,
                    info,
                );
                let empty = Layout::default();
                let condition = |f: &InvertedMatch| -> Result<InvertedCondition> {
                    Ok(InvertedCondition {
                        column: f.column,
                        class: f.class,
                        strategy: f.strategy,
                        value: self.expression(&f.value, &empty)?,
                    })
                };
                let access = InvertedAccess {
                    index: index.clone(),
                    relation: if scan.heap.is_some() { Some(self.relation(index.storage)?) } else { None },
                    conditions: found.iter().map(condition).collect::<Result<_>>()?,
                    shown: shown.id,
                };
                (Bitmap::Index(access), shown)
            }
        })
    }

    /// The line that EXPLAIN shows for a filter.
    pub(super) fn filter_text<'e>(&self, rel: &Rel, preds: impl Iterator<Item = &'e Expr>) -> Option<String> {
        let shown: Vec<String> = preds.filter(|_| self.explains()).map(|e| self.show_scan(rel.id, e)).collect();
        (!shown.is_empty()).then(|| format!("Filter: {}", super::shown_text::and_text(&shown)))
    }

    fn conditions_text(&self, rel: &Rel, path: &BitmapPath) -> String {
        let all = |paths: &[BitmapPath]| paths.iter().map(|p| self.conditions_text(rel, p)).collect::<Vec<_>>();
        match &path.source {
            BitmapSource::Index(_, found) => super::shown_text::and_text(
                &found.iter().map(|f| self.show_scan(rel.id, &f.condition)).collect::<Vec<_>>(),
            ),
            BitmapSource::Keys(found) => found.conditions_text(self, rel),
            BitmapSource::All(paths) => super::shown_text::and_text(&all(paths)),
            BitmapSource::Any(paths) => format!("({})", all(paths).join(" OR ")),
        }
    }

    /// The nodes that EXPLAIN shows for the indexes below a partition's bitmap scan.
    pub(super) fn bitmap_of_leaf(&self, leaf: &Table, node: &PlanNode) -> Vec<Arc<PlanNode>> {
        let mut all = Vec::new();
        for n in node.children() {
            let Op::Shown { index, .. } = &n.op else { continue };
            let label = match leaf.indexes.iter().find(|i| self.is_part_of(i, *index)) {
                Some(own) => format!("Bitmap Index Scan on {}", own.name),
                None => n.label.clone(),
            };
            let op = Op::Shown { index: *index, below: self.bitmap_of_leaf(leaf, n) };
            all.push(Arc::new(PlanNode {
                id: n.id,
                op,
                width: 0,
                rows: n.rows,
                startup: n.startup,
                cost: n.cost,
                info: n.info.clone(),
                label,
            }));
        }
        all
    }
}
