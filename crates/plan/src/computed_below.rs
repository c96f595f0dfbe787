//! Rows that are sorted to be grouped: what their groups and aggregates are made of is computed before the sort.
//!
//! So that the sort moves a key and a number in place of the document that both were read from, and neither is computed
//! again above.
//!
//! Invariant: nothing is computed here that would not be computed for the row anyway, so arguments under FILTER stay above.

use super::expression::{CExpr, Expression};
use super::*;
use kilndb_bind::{is_constant, same};

/// The expressions over the rows that are grouped.
#[derive(Clone)]
pub(super) struct GroupedExpressions {
    pub groups: Vec<Expr>,
    pub aggs: Vec<Expr>,
    /// What the rows are sorted by.
    pub keys: Vec<SortKey>,
}

impl GroupedExpressions {
    /// Calls `f` with each expression that is computed for every row.
    fn each_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        self.groups.iter_mut().for_each(&mut *f);
        self.keys.iter_mut().for_each(|key| f(&mut key.expr));
        for a in &mut self.aggs {
            if let ExprKind::Agg(call) = &mut a.kind
                && call.filter.is_none()
            {
                call.args.iter_mut().for_each(&mut *f);
                call.order.iter_mut().for_each(|key| f(&mut key.expr));
            }
        }
    }
    fn columns(&self) -> Vec<ColId> {
        let mut used = Vec::new();
        let keys = self.keys.iter().map(|key| &key.expr);
        self.groups.iter().chain(&self.aggs).chain(keys).for_each(|e| e.columns(&mut used));
        used.sort();
        used.dedup();
        used
    }
}

fn columns_in<'e>(e: &'e Expr, out: &mut Vec<(ColId, &'e Expr)>) {
    match &e.kind {
        ExprKind::Column(c) => out.push((*c, e)),
        _ => e.for_children(&mut |child| columns_in(child, out)),
    }
}

impl Planner<'_> {
    /// The rows with the expressions as columns, and the expressions over these. None: what would be sorted is not less.
    pub(super) fn compute_below(
        &self,
        input: &PlannedNode,
        over: &GroupedExpressions,
    ) -> Result<Option<(PlannedNode, GroupedExpressions)>> {
        let rel = self.new_rel();
        let mut computed: Vec<Expr> = Vec::new();
        let mut above = over.clone();
        above.each_mut(&mut |e| {
            let is_plain = matches!(access::strip(e).kind, ExprKind::Column(_)) || is_constant(e);
            if is_plain || e.is_volatile() || e.has_sublink() || e.has_srf() {
                return;
            }
            let at = computed.iter().position(|known| same(known, e)).unwrap_or_else(|| {
                computed.push(e.clone());
                computed.len() - 1
            });
            *e = e.as_column(ColId { rel, att: at as i16 + 1 }).at(e.loc);
        });
        let kept: Vec<ColId> = above.columns().into_iter().filter(|c| c.rel != rel).collect();
        let is_known = kept.iter().all(|c| input.layout.find(*c).is_some());
        if computed.is_empty() || !is_known || !self.is_narrower(&computed, &kept) {
            return Ok(None);
        }
        let slots = kept.iter().filter_map(|c| input.layout.find(*c)).map(|slot| Ok(CExpr::Slot(slot).into()));
        let of_computed = computed.iter().map(|e| self.expression(e, &input.layout));
        let exprs = slots.chain(of_computed).collect::<Result<Vec<Expression>>>()?;
        if let Some(names) = &self.names {
            for (e, att) in computed.iter().zip(1..) {
                names.name_as(ColId { rel, att }, self.show_computed(e));
            }
        }
        let layout = kept.into_iter().chain((1..=computed.len() as i16).map(|att| ColId { rel, att }));
        let layout = Layout(layout.collect());
        let (rows, cost) = (input.node.rows, input.node.cost);
        let is_self_contained = computed.iter().all(Expr::is_self_contained);
        let op = Op::Project { input: input.node.clone(), exprs, is_self_contained, program: Default::default() };
        let node = self.node(op, layout.0.len(), rows, cost, "Project");
        Ok(Some((PlannedNode { node, layout }, above)))
    }
    /// Are the expressions narrower than those of their columns that are not kept beside them?
    fn is_narrower(&self, computed: &[Expr], kept: &[ColId]) -> bool {
        let mut columns = Vec::new();
        computed.iter().for_each(|e| columns_in(e, &mut columns));
        columns.sort_by_key(|(c, _)| *c);
        columns.dedup_by_key(|(c, _)| *c);
        columns.retain(|(c, _)| !kept.contains(c));
        let dropped: f64 = columns.iter().map(|(_, e)| self.width(e)).sum();
        !columns.is_empty() && computed.iter().map(|e| self.width(e)).sum::<f64>() <= dropped
    }
    fn width(&self, e: &Expr) -> f64 {
        let of_statistics = self.variable(e).statistics.map(|s| s.width_bytes).filter(|width| *width > 0.0);
        of_statistics.unwrap_or_else(|| self.value_width(e.ty, e.typmod))
    }
}
