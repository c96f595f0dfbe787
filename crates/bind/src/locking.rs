//! FOR UPDATE and its relatives: whose rows a query locks.
//!
//! Invariants
//! 1. A lock on a view or subquery is one on all relations that its query reads rows from in FROM, at any depth. Each of
//!    them needs UPDATE, of whoever reads it.
//! 2. What the statement itself says is refused here where rows cannot be told from one another any more. What a view
//!    says is refused when it is planned: only then is it known which views have been merged.

use super::Binder;
use super::ir::*;
use super::scope::Scope;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_syntax::{Node, nodes, raw};

impl LockStrength {
    pub(super) fn of(clause: &nodes::LockingClause) -> LockStrength {
        match clause.strength {
            raw::LockClauseStrength::LCS_FORKEYSHARE => LockStrength::KeyShare,
            raw::LockClauseStrength::LCS_FORSHARE => LockStrength::Share,
            raw::LockClauseStrength::LCS_FORNOKEYUPDATE => LockStrength::NoKeyUpdate,
            _ => LockStrength::Update,
        }
    }

    fn clause(self) -> &'static str {
        match self {
            LockStrength::KeyShare => "FOR KEY SHARE",
            LockStrength::Share => "FOR SHARE",
            LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
            LockStrength::Update => "FOR UPDATE",
        }
    }
}

/// 0A000 if the rows of a query are not those of its relations.
pub fn refuse_unlockable(q: &Query, strength: LockStrength) -> Result<()> {
    let reason = if matches!(q.body, QueryBody::SetOp { .. }) {
        "UNION/INTERSECT/EXCEPT"
    } else if !matches!(q.distinct, Distinct::No) {
        "DISTINCT clause"
    } else if !q.group_by.is_empty() || q.grouping_sets.is_some() {
        "GROUP BY clause"
    } else if q.having.is_some() {
        "HAVING clause"
    } else if q.has_aggs {
        "aggregate functions"
    } else if !q.windows.is_empty() {
        "window functions"
    } else if q.has_srf {
        "set-returning functions in the target list"
    } else {
        return Ok(());
    };
    Err(not_allowed_with(strength, reason))
}

pub(super) fn not_allowed_with(strength: LockStrength, reason: &str) -> Error {
    Error::unsupported(format!("{} is not allowed with {reason}", strength.clause()))
}

fn not_applied_to(strength: LockStrength, what: &str) -> Error {
    Error::unsupported(format!("{} cannot be applied to {what}", strength.clause()))
}

/// 0A000 if an outer join may fill a locked relation with NULLs: there is no row then to be locked.
pub fn refuse_nullable(q: &Query) -> Result<()> {
    let refused = |lock: &&RowLock| q.from.iter().any(|tree| may_be_missing(tree, lock.rel, false));
    match q.locks.iter().find(refused) {
        Some(lock) => Err(not_applied_to(lock.strength, "the nullable side of an outer join")),
        None => Ok(()),
    }
}

/// Whether outer joins of the tree have rows without one of the relation.
fn may_be_missing(tree: &JoinTree, rel: u32, is_nullable: bool) -> bool {
    match tree {
        JoinTree::Rel(id) => is_nullable && *id == rel,
        JoinTree::Join { kind, left, right, .. } => {
            let of_left = is_nullable || matches!(kind, JoinKind::Right | JoinKind::Full);
            let of_right = is_nullable || matches!(kind, JoinKind::Left | JoinKind::Full | JoinKind::Anti);
            may_be_missing(left, rel, of_left) || may_be_missing(right, rel, of_right)
        }
    }
}

fn add_lock(locks: &mut Vec<RowLock>, new: RowLock) {
    match locks.iter_mut().find(|lock| lock.rel == new.rel) {
        Some(lock) => {
            lock.strength = lock.strength.max(new.strength);
            lock.wait = lock.wait.max(new.wait);
            lock.is_inherited &= new.is_inherited;
        }
        None => locks.push(new),
    }
}

impl Binder<'_> {
    pub(super) fn bind_locks(&self, s: &nodes::SelectStmt, scope: &Scope<'_>, q: &mut Query) -> Result<()> {
        for clause in s.locking_clause() {
            let wait = match clause.wait_policy {
                raw::LockWaitPolicy::LockWaitSkip => LockWait::SkipLocked,
                raw::LockWaitPolicy::LockWaitError => LockWait::NoWait,
                _ => LockWait::Wait,
            };
            let lock = RowLock { rel: 0, strength: LockStrength::of(clause), wait, is_inherited: false };
            refuse_unlockable(q, lock.strength)?;
            if clause.locked_rels().is_empty() {
                let all: Vec<u32> = q.rels.iter().map(|rel| rel.id).collect();
                all.into_iter().try_for_each(|rel| self.lock_relation(q, RowLock { rel, ..lock }, true))?;
            }
            for named in clause.locked_rels() {
                let Node::RangeVar(named) = named else { continue };
                let rel = self.named_relation(named, lock.strength, scope, q)?;
                self.lock_relation(q, RowLock { rel, ..lock }, true)?;
            }
        }
        Ok(())
    }

    /// The relation that a locking clause names.
    fn named_relation(&self, v: &nodes::RangeVar, strength: LockStrength, scope: &Scope<'_>, q: &Query) -> Result<u32> {
        let (alias, clause) = (v.relname().unwrap_or(""), strength.clause());
        if v.schemaname().is_some() || v.catalogname().is_some() {
            let message = format!("{clause} must specify unqualified relation names");
            return self.err(sqlstate::SYNTAX_ERROR, message, v.location);
        }
        let Some(item) = scope.items.iter().find(|item| item.alias.as_deref() == Some(alias)) else {
            let message = format!("relation \"{alias}\" in {clause} clause not found in FROM clause");
            return self.err(sqlstate::UNDEFINED_TABLE, message, v.location);
        };
        let refused = match q.rels.iter().find(|rel| rel.id == item.rel).map(|rel| &rel.kind) {
            Some(RelKind::Table(_) | RelKind::Subquery(_)) => return Ok(item.rel),
            // A sequence.
            Some(RelKind::Function { .. }) if self.is_accessed(item.rel) => return Ok(item.rel),
            None => "a join",
            Some(RelKind::Function { .. }) => "a function",
            Some(RelKind::Values(_)) => "VALUES",
            Some(RelKind::Cte { .. }) => "a WITH query",
            Some(RelKind::Pseudo) => "a named tuplestore",
        };
        Err(self.at(not_applied_to(strength, refused), v.location))
    }

    /// Locks the rows of a relation, and of those that it reads them from. `is_said_here`: the statement itself says
    /// what the query is, not a view.
    fn lock_relation(&self, q: &mut Query, lock: RowLock, is_said_here: bool) -> Result<()> {
        kilndb_base::stack::check()?;
        let Some(rel) = q.rels.iter_mut().find(|rel| rel.id == lock.rel) else { return Ok(()) };
        match &mut rel.kind {
            RelKind::Table(_) => {}
            // A sequence: whoever may read it is told that its row cannot be locked.
            RelKind::Function { .. } if self.is_accessed(lock.rel) => {
                self.note_locked(lock.rel);
                return Ok(());
            }
            RelKind::Subquery(inner) => {
                let is_said_here = is_said_here && !self.is_accessed(lock.rel);
                if is_said_here {
                    refuse_unlockable(inner, lock.strength)?;
                }
                let below: Vec<u32> = inner.rels.iter().map(|rel| rel.id).collect();
                for rel in below {
                    self.lock_relation(inner, RowLock { rel, is_inherited: true, ..lock }, is_said_here)?;
                }
            }
            _ => return Ok(()),
        }
        self.note_locked(lock.rel);
        add_lock(&mut q.locks, lock);
        Ok(())
    }
}
