//! Scans of tables whose rows policies hide: in which order conditions are asked.
//!
//! Invariants
//! 1. A row meets all security quals of its table before a condition that could tell of it sees it: such a condition
//!    ([`super::rewrite::tells_nothing`]) stands behind them in the scan's filter, which ends at the first one that is
//!    not met, and is of no use to an index.
//! 2. Whoever reads a table through [`Planner::plan_table`] and its like gives the statement's own conditions; security
//!    quals are added here and nowhere else.

use super::*;
use std::borrow::Cow;

/// The conditions on one table in the order in which they are asked.
pub(super) struct SecuredConditions<'c> {
    all: Cow<'c, [Expr]>,
    /// Those from here on could tell of a row.
    open: usize,
}

impl<'c> SecuredConditions<'c> {
    pub fn of(rel: &Rel, conditions: &'c [Expr]) -> SecuredConditions<'c> {
        if rel.security_quals.is_empty() {
            return SecuredConditions { all: Cow::Borrowed(conditions), open: conditions.len() };
        }
        let (safe, telling): (Vec<Expr>, Vec<Expr>) =
            conditions.iter().cloned().partition(super::rewrite::tells_nothing);
        let mut all = Vec::new();
        rel.security_quals.iter().for_each(|e| e.clone().conjuncts(&mut all));
        all.extend(safe);
        let open = all.len();
        all.extend(telling);
        SecuredConditions { all: all.into(), open }
    }
    pub fn all(&self) -> &[Expr] {
        &self.all
    }
    /// What may find rows, by an index or otherwise.
    pub fn finding(&self) -> &[Expr] {
        &self.all[..self.open]
    }
    /// What is asked of rows that all others have let through.
    pub fn telling(&self) -> &[Expr] {
        &self.all[self.open..]
    }
}

impl Planner<'_> {
    /// The security quals of rows that are about to be changed or locked, for their newest versions.
    pub(super) fn rechecked_security(&self, q: &Query) -> Vec<Expr> {
        let target = if let QueryBody::Dml(d) = &q.body { d.rel } else { 0 };
        let is_taken = |rel: &&Rel| rel.id == target || q.locks.iter().any(|lock| lock.rel == rel.id);
        q.rels.iter().filter(is_taken).flat_map(|rel| rel.security_quals.iter().cloned()).collect()
    }
}
