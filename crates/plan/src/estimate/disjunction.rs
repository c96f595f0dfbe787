//! The share of the rows that satisfy an OR whose arms ask for the values of one column. The arms are not independent:
//! equalities with different values exclude each other, ranges and patterns may overlap.

use super::ordering::order;
use super::restriction::EQUAL;
use super::*;
use std::cmp::Ordering;

impl Planner<'_> {
    /// The share of the rows of `rel` that satisfy one of the arms. None: the arms are of different columns, or nothing
    /// is known of the column's values.
    pub(super) fn disjunction_selectivity(&self, rel: u32, e: &Expr, arms: &[Expr]) -> Option<f64> {
        let mut columns = Vec::new();
        e.columns(&mut columns);
        let first = *columns.first()?;
        if first.rel != rel || columns.iter().any(|c| *c != first) {
            return None;
        }
        let shares = || arms.iter().map(|arm| self.condition_selectivity(rel, arm)).collect::<Vec<f64>>();
        if let Some(values) = arms.iter().map(|arm| self.wanted_value(rel, arm)).collect::<Option<Vec<Datum>>>() {
            let ty = self.compared_type(arms);
            return Some(of_exclusive(ty, &values, &shares()));
        }
        let observed = self.observed_selectivity(rel, e)?;
        Some(within_arms(observed, &shares()))
    }

    /// The type that the first arm compares.
    fn compared_type(&self, arms: &[Expr]) -> Oid {
        match arms.first().map(|arm| &arm.kind) {
            Some(ExprKind::Func(f)) => f.args.first().map_or(oids::UNKNOWN, |arg| self.base_type(arg.ty)),
            _ => oids::UNKNOWN,
        }
    }

    /// The value that an arm wants its column to have.
    fn wanted_value(&self, rel: u32, arm: &Expr) -> Option<Datum> {
        let c = self.variable_comparison(rel, arm).filter(|c| c.strategy == EQUAL)?;
        let is_column = matches!(access::strip(c.variable).kind, ExprKind::Column(_));
        access::strip(c.value).as_const().filter(|value| is_column && !value.is_null()).cloned()
    }
}

/// Equalities with different values exclude each other; a value that is asked for twice counts once.
fn of_exclusive(ty: Oid, values: &[Datum], shares: &[f64]) -> f64 {
    let is_new = |at: usize| !values[..at].iter().any(|v| order(ty, v, &values[at]) == Some(Ordering::Equal));
    shares.iter().enumerate().filter(|(at, _)| is_new(*at)).map(|(_, share)| share).sum::<f64>().min(1.0)
}

/// An OR is satisfied by no fewer rows than its widest arm, and by no more than all arms' together.
fn within_arms(observed: f64, shares: &[f64]) -> f64 {
    let widest = shares.iter().copied().fold(0.0, f64::max);
    let together = shares.iter().sum::<f64>().clamp(widest, 1.0);
    observed.clamp(widest, together)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_values_exclude_each_other() {
        let values = [Datum::Int4(1), Datum::Int4(2), Datum::Int4(1)];
        assert_eq!(of_exclusive(oids::INT4, &values, &[0.5, 0.25, 0.5]), 0.75);
        assert_eq!(of_exclusive(oids::INT4, &values[..2], &[0.75, 0.5]), 1.0);
    }

    #[test]
    fn an_or_lies_between_its_widest_arm_and_all_arms() {
        assert_eq!(within_arms(0.5, &[0.25, 0.5, 0.125]), 0.5);
        assert_eq!(within_arms(0.0, &[0.25, 0.125]), 0.25);
        assert_eq!(within_arms(1.0, &[0.25, 0.125]), 0.375);
    }
}
