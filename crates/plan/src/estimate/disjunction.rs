//! The share of the rows that satisfy an OR whose arms ask for the values of one column. The arms are not independent:
//! ranges and patterns may overlap. Equalities alone are taken for independent all the same, as PostgreSQL does it.

use super::restriction::EQUAL;
use super::*;

impl Planner<'_> {
    /// The share of the rows of `rel` that satisfy one of the arms. None: the arms are of different columns or equalities
    /// alone, or nothing is known of the column's values.
    pub(super) fn disjunction_selectivity(&self, rel: u32, e: &Expr, arms: &[Expr]) -> Option<f64> {
        let mut columns = Vec::new();
        e.columns(&mut columns);
        let first = *columns.first()?;
        if first.rel != rel || columns.iter().any(|c| *c != first) {
            return None;
        }
        if arms.iter().all(|arm| self.is_equality(rel, arm)) {
            return None;
        }
        let observed = self.observed_selectivity(rel, e)?;
        let shares: Vec<f64> = arms.iter().map(|arm| self.condition_selectivity(rel, arm)).collect();
        Some(within_arms(observed, &shares))
    }

    /// Does the condition want a column to have one value?
    fn is_equality(&self, rel: u32, arm: &Expr) -> bool {
        self.variable_comparison(rel, arm).is_some_and(|c| c.strategy == EQUAL)
    }
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
    fn an_or_lies_between_its_widest_arm_and_all_arms() {
        assert_eq!(within_arms(0.5, &[0.25, 0.5, 0.125]), 0.5);
        assert_eq!(within_arms(0.0, &[0.25, 0.125]), 0.25);
        assert_eq!(within_arms(1.0, &[0.25, 0.125]), 0.375);
    }
}
