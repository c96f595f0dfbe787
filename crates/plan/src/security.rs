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

/// What a condition costs less than that may be asked before a policy: PostgreSQL's order_qual_clauses.
const CHEAP: f64 = 10.0;

/// The conditions on one table in the order in which they are asked.
pub(super) struct SecuredConditions<'c> {
    all: Cow<'c, [Expr]>,
    /// Those from here on could tell of a row.
    open: usize,
}

impl<'c> SecuredConditions<'c> {
    pub fn of(planner: &Planner<'_>, rel: &Rel, conditions: &'c [Expr]) -> Result<SecuredConditions<'c>> {
        if rel.security_quals.is_empty() {
            return Ok(SecuredConditions { all: Cow::Borrowed(conditions), open: conditions.len() });
        }
        let (safe, telling): (Vec<Expr>, Vec<Expr>) =
            conditions.iter().cloned().partition(super::rewrite::tells_nothing);
        let mut quals = rel.security_quals.iter().map(|e| {
            let mut parts = Vec::new();
            e.clone().conjuncts(&mut parts);
            parts
        });
        // Cheap conditions that tell nothing may leave a row out before the first policy is asked.
        let mut cheap = quals.next().unwrap_or_default();
        let mut dear = Vec::new();
        for e in safe {
            if planner.evaluation_cost(&e)? < CHEAP { cheap.push(e) } else { dear.push(e) }
        }
        let mut all = planner.conditions_in_order(&cheap)?;
        quals.for_each(|parts| all.extend(parts));
        all.extend(dear);
        let open = all.len();
        all.extend(telling);
        Ok(SecuredConditions { all: all.into(), open })
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
