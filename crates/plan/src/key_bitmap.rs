//! Bitmaps of what trees, and other indexes of keys, find.
//!
//! Must not know: how conditions are matched with keys.

use super::access::IndexMatch;
use super::bitmap::{Bitmap, BitmapPath, BitmapSource};
use super::cost::TableSize;
use super::*;
use kilndb_catalog::{Index, Table};

/// Below this cost of an index scan no bitmap is looked for.
const CHEAP: f64 = 1.5;

/// What is looked for in one index.
pub(super) struct KeyBitmap {
    index: Arc<Index>,
    conditions: IndexMatch,
    /// The conditions that `conditions` has the positions of.
    preds: Vec<Expr>,
}

impl KeyBitmap {
    /// The conditions by which rows of whole blocks would be checked, as EXPLAIN shows them.
    pub fn conditions_text(&self, planner: &Planner<'_>, rel: &Rel) -> String {
        let partial = |at: &usize| self.conditions.partial.contains(at);
        let (shown, used) = (&self.conditions.shown, &self.conditions.used);
        let of = |at: &usize| match shown.iter().find(|(of, _)| of == at).filter(|_| partial(at)) {
            Some((_, e)) => planner.show_scan(rel.id, e),
            None => planner.show_scan(rel.id, &self.preds[*at]),
        };
        super::shown_text::and_text(&used.iter().map(of).collect::<Vec<_>>())
    }
}

/// May the index find keys for a bitmap? Rows of a session's own in system tables are not in their trees.
pub(super) fn may_find_keys(table: &Table, index: &Index) -> bool {
    index.valid && index.method.finds_keys && !index.is_global && !table.is_catalog
}

impl Planner<'_> {
    /// May a bitmap be better than an index scan of that cost, the cheapest one?
    pub(super) fn wants_bitmap(&self, table: &Table, preds: &[Expr], index_scan: Option<f64>, limited: bool) -> bool {
        let may_combine = preds.len() > 1 || preds.iter().any(|p| matches!(p.kind, ExprKind::Or(_)));
        table.indexes.iter().any(|i| i.has_terms())
            || (may_combine || !limited)
                && !preds.is_empty()
                && index_scan.is_none_or(|cost| cost > CHEAP)
                && table.indexes.iter().any(|i| may_find_keys(table, i))
    }

    /// The rows that the index finds by those of `preds` that it can look for.
    pub(super) fn key_path(
        &self,
        rel: &Rel,
        table: &Arc<Table>,
        index: &Arc<Index>,
        preds: &[Expr],
        size: TableSize,
    ) -> Result<Option<BitmapPath>> {
        let conditions = self.match_index(rel, table, index, preds)?;
        if !conditions.has_conditions() || !index.method.is_ordered && !conditions.has_whole_key(index) {
            return Ok(None);
        }
        let search = self.tree_search(rel, table, index, &conditions, preds, size)?;
        let rows = search.entries;
        let (used, partial) = (conditions.used.clone(), conditions.partial.clone());
        let cost = self.costs().tree_search(size, search);
        let found = KeyBitmap { index: index.clone(), conditions, preds: preds.to_vec() };
        let source = BitmapSource::Keys(Arc::new(found));
        Ok(Some(BitmapPath { source, used, partial, rows, cost }))
    }

    pub(super) fn key_bitmap(
        &self,
        rel: &Rel,
        path: &BitmapPath,
        found: &KeyBitmap,
        scan: &Scan,
    ) -> Result<(Bitmap, Arc<PlanNode>)> {
        let KeyBitmap { index, conditions, preds } = found;
        let info = match self.explains() {
            true => vec![self.index_condition_text(rel, conditions, preds)?],
            false => Vec::new(),
        };
        let shown = self.node_with(
            Op::Shown { index: index.oid, below: Vec::new() },
            0,
            Estimate { rows: path.rows, cost: path.cost },
            format!("Bitmap Index Scan on {}", index.name),
            info,
        );
        let access = self.index_access(rel, scan, index, conditions, false)?;
        Ok((Bitmap::Keys(Box::new(access), shown.id), shown))
    }
}
