//! Scans of tables whose rows policies hide: in which order conditions are asked.
//!
//! Invariants
//! 1. A row meets all security quals of its table before a condition that could tell of it sees it: such a condition
//!    ([`super::rewrite::tells_nothing`]) is asked above the scan, and is of no use to an index.
//! 2. Whoever reads a table through [`Planner::plan_table`] and its like gives the statement's own conditions; security
//!    quals are added here and nowhere else.

use super::scan::ScanChoice;
use super::*;
use std::borrow::Cow;

/// The conditions on one table.
pub(super) struct SecuredConditions<'c> {
    /// What the scan asks: security quals first.
    pub scanned: Cow<'c, [Expr]>,
    /// What is asked of the rows that the scan has let through.
    pub above: Vec<Expr>,
}

impl<'c> SecuredConditions<'c> {
    pub fn of(rel: &Rel, conditions: &'c [Expr]) -> SecuredConditions<'c> {
        if rel.security_quals.is_empty() {
            return SecuredConditions { scanned: Cow::Borrowed(conditions), above: Vec::new() };
        }
        let (safe, above): (Vec<Expr>, Vec<Expr>) = conditions.iter().cloned().partition(super::rewrite::tells_nothing);
        let mut quals = Vec::new();
        rel.security_quals.iter().for_each(|e| e.clone().conjuncts(&mut quals));
        SecuredConditions { scanned: quals.into_iter().chain(safe).collect::<Vec<_>>().into(), above }
    }
}

impl Planner<'_> {
    /// The security quals of rows that are about to be changed or locked, for their newest versions.
    pub(super) fn rechecked_security(&self, q: &Query) -> Vec<Expr> {
        let target = if let QueryBody::Dml(d) = &q.body { d.rel } else { 0 };
        let is_taken = |rel: &&Rel| rel.id == target || q.locks.iter().any(|lock| lock.rel == rel.id);
        q.rels.iter().filter(is_taken).flat_map(|rel| rel.security_quals.iter().cloned()).collect()
    }

    /// The scan with the conditions that are asked of its rows.
    pub(super) fn secured(&self, rel: &Rel, choice: ScanChoice, above: &[Expr]) -> Result<ScanChoice> {
        let Some(condition) = Expr::and_all(above.to_vec()) else { return Ok(choice) };
        let rows = (choice.rows * self.restriction_selectivity(rel.id, above)).max(1.0);
        let cost = choice.cost + self.costs().filter(choice.rows, super::operator_count::operator_count(above));
        let planned = self.filter(choice.planned, &condition, rows)?;
        Ok(ScanChoice { planned, rows, cost, ..choice })
    }
}
