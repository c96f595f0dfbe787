//! Outer joins that cannot yield rows filled with NULLs: PostgreSQL's reduce_outer_joins.
//!
//! A condition above that is never true of a row filled with NULLs leaves of a LEFT join what an inner join yields. Then
//! its sides may be joined in any order. A condition above that is true of nothing but rows filled with NULLs makes it an
//! anti join, whose rows have NULLs for all columns of the right side.

use super::strictness::{not_null_columns, not_null_relations, null_column};
use super::*;

pub(super) fn reduce(q: &mut Query) {
    fn has_outer(t: &JoinTree) -> bool {
        match t {
            JoinTree::Rel(_) => false,
            JoinTree::Join { kind, left, right, .. } => {
                !matches!(kind, JoinKind::Inner) || has_outer(left) || has_outer(right)
            }
        }
    }
    if !q.from.iter().any(has_outer) {
        return;
    }
    let above = q.filter.as_ref().map_or_else(Vec::new, not_null_relations);
    let mut conditions = take_conjuncts(&mut q.filter);
    // A row that is locked or changed is judged again by conditions that tell missing rows by their NULLs.
    let may_be_anti = matches!(q.body, QueryBody::Select) && q.locks.is_empty();
    let mut null = if may_be_anti { conditions.iter().filter_map(null_column).collect() } else { Vec::new() };
    let never_null = if null.is_empty() { Vec::new() } else { never_null(&q.rels, &null) };
    let mut joins = OuterJoins { null: &mut null, never_null, settled: Vec::new() };
    q.from.iter_mut().for_each(|t| joins.reduce(t, &above, true));
    let settled = joins.settled;
    conditions.retain(|e| null_column(e).is_none_or(|c| !settled.contains(&c)));
    q.filter = Expr::and_all(conditions);
}

struct OuterJoins<'a> {
    /// Columns that are NULL in all rows that pass the conditions above.
    null: &'a mut Vec<ColId>,
    /// Those of them that are never NULL in a row of their table.
    never_null: Vec<ColId>,
    /// Those of them that are NULL in all rows of an anti join.
    settled: Vec<ColId>,
}

impl OuterJoins<'_> {
    /// `above`: the relations that cannot be filled with NULLs in rows that pass the conditions above. `is_kept`: those
    /// conditions decide which of the tree's rows there are.
    fn reduce(&mut self, t: &mut JoinTree, above: &[u32], is_kept: bool) {
        let JoinTree::Join { kind, left, right, on } = t else { return };
        let own = on.as_ref().map_or_else(Vec::new, not_null_relations);
        *kind = reduced(*kind, left, right, above);
        if *kind == JoinKind::Right {
            std::mem::swap(left, right);
            *kind = JoinKind::Left;
        }
        if *kind == JoinKind::Left && is_kept && self.is_anti(right, on.as_ref()) {
            *kind = JoinKind::Anti;
        }
        let both: Vec<u32> = own.iter().chain(above).copied().collect();
        let (for_left, for_right): (&[u32], &[u32]) = match kind {
            JoinKind::Inner | JoinKind::Semi => (&both, &both),
            // A row of the left side that meets no condition of the join is kept.
            JoinKind::Full => (&[], &[]),
            _ => (above, &own),
        };
        self.reduce(left, for_left, is_kept && *kind != JoinKind::Full);
        self.reduce(right, for_right, is_kept && *kind == JoinKind::Inner);
    }

    /// Must a column of the right side be NULL that is never NULL in its table, or of which the condition of the join says that it
    /// is not?
    fn is_anti(&mut self, right: &JoinTree, on: Option<&Expr>) -> bool {
        if self.null.is_empty() {
            return false;
        }
        let (inside, not_null) = (relations_of(right), on.map_or_else(Vec::new, not_null_columns));
        let is_refuted = self.null.iter().any(|c| {
            inside.contains(&c.rel)
                && (not_null.contains(c) || self.never_null.contains(c) && is_never_filled(right, c.rel))
        });
        if is_refuted {
            self.settled.extend(self.null.extract_if(.., |c| inside.contains(&c.rel)));
        }
        is_refuted
    }
}

/// The columns of a list that are never NULL in a row of their table.
fn never_null(rels: &[Rel], columns: &[ColId]) -> Vec<ColId> {
    let is_never_null = |c: &&ColId| {
        let Some(Rel { kind: RelKind::Table(table), .. }) = rels.iter().find(|rel| rel.id == c.rel) else {
            return false;
        };
        let at = usize::try_from(c.att - 1).ok();
        at.and_then(|at| table.columns.get(at)).is_some_and(|column| column.is_never_null)
    };
    columns.iter().filter(is_never_null).copied().collect()
}

/// Does no join within a tree fill the relation with NULLs?
fn is_never_filled(t: &JoinTree, rel: u32) -> bool {
    match t {
        JoinTree::Rel(r) => *r == rel,
        JoinTree::Join { kind, left, right, .. } => match kind {
            JoinKind::Inner => is_never_filled(left, rel) || is_never_filled(right, rel),
            JoinKind::Right => is_never_filled(right, rel),
            JoinKind::Full => false,
            JoinKind::Left | JoinKind::Semi | JoinKind::Anti => is_never_filled(left, rel),
        },
    }
}

/// What is left of a join, given the relations that cannot be filled with NULLs.
fn reduced(kind: JoinKind, left: &JoinTree, right: &JoinTree, above: &[u32]) -> JoinKind {
    let is_kept = |t: &JoinTree| relations_of(t).iter().any(|r| above.contains(r));
    match kind {
        JoinKind::Left if is_kept(right) => JoinKind::Inner,
        JoinKind::Right if is_kept(left) => JoinKind::Inner,
        JoinKind::Full => match (is_kept(left), is_kept(right)) {
            (true, true) => JoinKind::Inner,
            (true, false) => JoinKind::Left,
            (false, true) => JoinKind::Right,
            (false, false) => JoinKind::Full,
        },
        kind => kind,
    }
}
