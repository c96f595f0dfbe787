//! The order in which a scan judges the conditions on its rows: PostgreSQL's, so that EXPLAIN shows them in the same one.
//! An expensive condition comes after a cheap one, which may have left the row out already.
//!
//! Must not know: indexes, estimates.

use super::*;

/// What a condition costs with a subquery in it: more than anything else.
const SUBQUERY_COST: f64 = 1e6;
/// How many elements an array has that is not known yet.
const UNKNOWN_ELEMENTS: f64 = 10.0;
/// A btree operator that says that two values are equal.
const EQUAL: u8 = 3;

impl Planner<'_> {
    /// The conditions of a scan in order: equalities behind others (PostgreSQL makes equivalence classes of them, and
    /// conditions of those again at the end), then cheap ones before expensive ones.
    pub(super) fn conditions_in_order(&self, conditions: &[Expr]) -> Result<Vec<Expr>> {
        let mut all = Vec::with_capacity(conditions.len());
        for e in conditions {
            all.push((self.is_equivalence(e)?, self.evaluation_cost(e)?, e));
        }
        all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        Ok(all.into_iter().map(|(_, _, e)| e.clone()).collect())
    }

    fn is_equivalence(&self, e: &Expr) -> Result<bool> {
        let ExprKind::Func(f) = &e.kind else { return Ok(false) };
        let is_pair = f.operator != 0 && f.args.len() == 2 && !e.is_volatile();
        Ok(is_pair && self.catalog.btree_strategy(f.operator)? == Some(EQUAL))
    }

    /// What an expression costs for a row, in `cpu_operator_cost`.
    pub(super) fn evaluation_cost(&self, e: &Expr) -> Result<f64> {
        let mut cost = match &e.kind {
            ExprKind::Func(f) => self.call_cost(f.oid)?,
            ExprKind::ScalarArray { func, .. } => {
                let elements = match func.args.get(1).map(|array| &array.kind) {
                    Some(ExprKind::Const(kilndb_types::Datum::Array(array))) => array.elements.len() as f64,
                    Some(ExprKind::Array { elements, .. }) => elements.len() as f64,
                    _ => UNKNOWN_ELEMENTS,
                };
                self.call_cost(func.oid)? * elements * 0.5
            }
            ExprKind::SubLink(_) => return Ok(SUBQUERY_COST),
            _ => 0.0,
        };
        let mut failed = None;
        e.for_children(&mut |child| match self.evaluation_cost(child) {
            Ok(more) => cost += more,
            Err(e) => failed = Some(e),
        });
        failed.map_or(Ok(cost), Err)
    }

    fn call_cost(&self, function: Oid) -> Result<f64> {
        Ok(self.catalog.function_by_oid(function)?.map_or(1.0, |f| f64::from(f.cost)))
    }
}
