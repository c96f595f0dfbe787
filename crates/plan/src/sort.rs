//! Sorts, and the orders that clauses above FROM and WHERE want rows in.

use super::finished_cost::PathCost;
use super::row_order::RowOrder;
use super::*;
use kilndb_bind::collation::of_type;

impl Planner<'_> {
    /// The input sorted by these keys; `order`: as it is sorted already.
    pub(crate) fn sort(&self, input: PlannedNode, keys: &[SortKey], order: &RowOrder) -> Result<PlannedNode> {
        let settings = self.catalog.planner_settings();
        let presorted = match order.presorted(keys) {
            all if all == keys.len() => return Ok(input),
            some if settings.incremental_sort => some,
            _ => 0,
        };
        let specs = self.sort_specs(keys, &input.layout)?;
        let (width, rows) = (input.layout.0.len(), input.node.rows);
        let own = PathCost { rows, first: input.node.startup, cost: input.node.cost };
        let cost = self.sorted_cost(keys, own, presorted).cost;
        let mut info = Vec::new();
        if self.explains() {
            let text: Vec<String> = keys.iter().map(|k| self.show_key(k)).collect();
            info.push(format!("Sort Key: {}", text.join(", ")));
            if presorted > 0 {
                let text: Vec<String> = keys[..presorted].iter().map(|k| self.show_computed(&k.expr)).collect();
                info.push(format!("Presorted Key: {}", text.join(", ")));
            }
        }
        let label = if presorted > 0 { "Incremental Sort" } else { "Sort" };
        let is_self_contained = keys.iter().all(|k| k.expr.is_self_contained());
        let op = Op::Sort { input: input.node, keys: specs, presorted, is_self_contained };
        let node = self.node_with(op, width, Estimate { rows, cost }, label, info);
        Ok(PlannedNode { node, layout: input.layout })
    }

    /// A sort key as EXPLAIN shows it.
    pub(crate) fn show_key(&self, k: &SortKey) -> String {
        let mut text = match &k.expr.kind {
            ExprKind::Collate { arg, .. } => self.show_computed(arg),
            _ => self.show_computed(&k.expr),
        };
        if let Some(collation) = self.shown_collation(&k.expr) {
            text.push_str(&format!(" COLLATE {collation}"));
        }
        if k.descending {
            text.push_str(" DESC");
        }
        if k.nulls_first != k.descending {
            text.push_str(if k.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
        }
        text
    }

    /// The collation that a sort key is sorted by, if that is not its type's own.
    fn shown_collation(&self, e: &Expr) -> Option<String> {
        let (own, oid) = (of_type(e.ty).collation.oid, e.collation.collation.oid);
        if !is_collatable(e.ty) || oid == own || oid == 0 {
            return None;
        }
        let info = self.catalog.collation_info_by_oid(oid).ok()??;
        Some(kilndb_catalog::format_type::quote_identifier(&info.name))
    }

    /// An expression whose value another node below has computed, as EXPLAIN shows it.
    pub(crate) fn show_computed(&self, e: &Expr) -> String {
        match e.kind {
            ExprKind::Column(_) | ExprKind::Const(_) | ExprKind::Param(_) => self.show(e),
            _ => format!("({})", self.show(e)),
        }
    }

    /// The order that is of use to what stands above the FROM clause of a query without groups.
    pub(super) fn wanted_order(&self, q: &Query) -> Vec<SortKey> {
        if q.has_srf || q.order_by.iter().any(|k| k.expr.is_volatile() || k.expr.has_sublink()) {
            return Vec::new();
        }
        if let Some(first) = q.windows.first() {
            return window_order(first);
        }
        match &q.distinct {
            Distinct::No => q.order_by.clone(),
            Distinct::On(exprs) => distinct_order(&q.order_by, exprs),
            Distinct::All => Vec::new(),
        }
    }
}

/// The order in which DISTINCT ON takes its rows: by its expressions, in the order that ORDER BY asks for.
pub(super) fn distinct_order(order: &[SortKey], exprs: &[Expr]) -> Vec<SortKey> {
    let mut keys = order.to_vec();
    for e in exprs {
        if !keys.iter().any(|k| kilndb_bind::same(&k.expr, e)) {
            let at = keys.iter().take_while(|k| exprs.iter().any(|x| kilndb_bind::same(x, &k.expr))).count();
            keys.insert(at, SortKey { expr: e.clone(), descending: false, nulls_first: false });
        }
    }
    keys
}

/// The order in which a window takes its rows.
pub(super) fn window_order(w: &WindowSpec) -> Vec<SortKey> {
    let ascending = |e: &Expr| SortKey { expr: e.clone(), descending: false, nulls_first: false };
    w.partition.iter().map(ascending).chain(w.order.iter().cloned()).collect()
}
