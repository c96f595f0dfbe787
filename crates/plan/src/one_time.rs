//! Conditions that use no column of what they stand over: they are met by all rows or by none, and are judged once,
//! before the first row is asked for. Where one is known not to be met nothing is planned to be read.

use super::expression::CExpr;
use super::join::{FromPlan, used_rels};
use super::row_order::RowOrder;
use super::*;
use kilndb_bind::ir::{ATT_CTID, ATT_TABLEOID};
use kilndb_types::Datum;

/// Takes such conditions out of those on the FROM clause of a query.
pub(crate) fn take(q: &Query, conditions: &mut Vec<Expr>) -> Vec<Expr> {
    if conditions.iter().all(uses_column) {
        return Vec::new();
    }
    let level: Vec<u32> = q.rels.iter().map(|r| r.id).collect();
    conditions.extract_if(.., |e| used_rels(e, &level).is_empty() && !e.varies()).collect()
}

/// Does it use a column at first sight? What does not may still do so in a subquery.
fn uses_column(e: &Expr) -> bool {
    e.any(&|e| matches!(e.kind, ExprKind::Column(_)))
}

impl Planner<'_> {
    /// The rows of `plan` if all conditions are met, else none.
    pub(crate) fn one_time_filter(&self, mut plan: FromPlan, conditions: Vec<Expr>) -> Result<FromPlan> {
        let Some(e) = Expr::and_all(conditions) else { return Ok(plan) };
        let condition = self.expression(&e, &Layout::default())?;
        let info = self.one_time_text(&e);
        let input = self.by_partition(plan.planned);
        let (estimate, width) = (Estimate { rows: plan.rows, cost: plan.cost }, input.layout.0.len());
        let op = Op::OneTimeFilter { input: input.node, condition };
        let node = self.node_with(op, width, estimate, "Result", info);
        plan.planned = PlannedNode { node, layout: input.layout };
        Ok(plan)
    }

    pub(crate) fn one_time_text(&self, e: &Expr) -> Vec<String> {
        if self.explains() { vec![format!("One-Time Filter: {}", self.show(e))] } else { Vec::new() }
    }

    /// No row, in the place of those of a FROM clause if one of its conditions is never met. The tables are locked all
    /// the same, as they are by whoever reads them. They have the `order` that is wanted.
    pub(crate) fn no_rows(&self, q: &Query, order: &[SortKey]) -> Result<FromPlan> {
        let mut layout = Layout::default();
        for rel in &q.rels {
            match &rel.kind {
                RelKind::Table(table) => {
                    self.read_table(table);
                    let columns = table.columns.iter().filter(|c| !c.dropped).map(|c| c.attnum);
                    let all = columns.chain(ATT_TABLEOID..=ATT_CTID).map(|att| ColId { rel: rel.id, att });
                    layout.0.extend(all.filter(|id| self.is_needed(*id)));
                }
                RelKind::Pseudo => {}
                _ => layout.0.extend(super::query::all_columns(rel).0),
            }
        }
        let info = self.one_time_text(&Expr::bool(false));
        let op = Op::Result { filter: Some(CExpr::Const(Datum::Bool(false)).into()) };
        let node = self.node_with(op, layout.0.len(), Estimate { rows: 1.0, cost: 0.0 }, "Result", info);
        let planned = PlannedNode { node, layout };
        Ok(FromPlan { order: RowOrder::of_keys(order), ..FromPlan::of(planned, Estimate { rows: 1.0, cost: 0.0 }) })
    }
}

/// Is one of the conditions known not to be met?
pub(crate) fn is_never_met(conditions: &[Expr]) -> bool {
    conditions.iter().any(|e| matches!(e.as_const(), Some(Datum::Bool(false) | Datum::Null)))
}
