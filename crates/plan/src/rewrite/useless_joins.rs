//! LEFT joins that change nothing: PostgreSQL's remove_useless_joins.
//!
//! A table whose columns nobody looks at, joined by a key of it, has one row at most for each row of the left side, and
//! where it has none the row is kept.

use super::super::access;
use super::strictness::not_null_relations;
use super::*;
use kilndb_catalog::{Index, Table};

/// Removes such joins from the FROM clause, until none is left.
pub(super) fn remove(q: &mut Query, catalog: &dyn CatalogView) -> Result<()> {
    if !matches!(q.body, QueryBody::Select) {
        return Ok(());
    }
    while let Some(rel) = find_useless(q, catalog)? {
        q.from.iter_mut().for_each(|t| take_out(t, rel));
        q.rels.retain(|r| r.id != rel);
    }
    Ok(())
}

/// A table that changes nothing where it stands. Without it another one may be of no use any more.
fn find_useless(q: &Query, catalog: &dyn CatalogView) -> Result<Option<u32>> {
    let mut candidates = Vec::new();
    q.from.iter().for_each(|t| find(t, q, &mut candidates));
    candidates.retain(|rel| !q.locks.iter().any(|l| l.rel == *rel));
    if candidates.is_empty() {
        return Ok(None);
    }
    let uses = uses_of(q);
    for rel in candidates {
        let in_join = q.from.iter().map(|t| uses_in_join(t, rel)).sum::<usize>();
        if uses.iter().filter(|c| c.rel == rel).count() == in_join && joined_by_key(q, rel, catalog)? {
            return Ok(Some(rel));
        }
    }
    Ok(None)
}

/// Tables that are the right side of a LEFT join.
fn find(t: &JoinTree, q: &Query, out: &mut Vec<u32>) {
    let JoinTree::Join { kind, left, right, on } = t else { return };
    find(left, q, out);
    find(right, q, out);
    if let (JoinKind::Left, JoinTree::Rel(rel), Some(on)) = (kind, &**right, on)
        && q.rels.iter().any(|r| r.id == *rel && matches!(r.kind, RelKind::Table(_)))
        && not_null_relations(on).contains(rel)
    {
        out.push(*rel);
    }
}

/// Every column that the level or a query in it uses, as often as it is used.
fn uses_of(q: &Query) -> Vec<ColId> {
    let mut uses = Vec::new();
    q.for_exprs(&mut |e| e.columns(&mut uses));
    q.for_subqueries(&mut |inner| inner.outer_columns(&mut uses));
    uses
}

/// How often the condition of the join with `rel` on its right side uses columns of it.
fn uses_in_join(t: &JoinTree, rel: u32) -> usize {
    let JoinTree::Join { left, right, on, .. } = t else { return 0 };
    if matches!(**right, JoinTree::Rel(r) if r == rel) {
        let mut uses = Vec::new();
        on.iter().for_each(|e| e.columns(&mut uses));
        return uses.iter().filter(|c| c.rel == rel).count();
    }
    uses_in_join(left, rel) + uses_in_join(right, rel)
}

fn condition_of(t: &JoinTree, rel: u32) -> Option<&Expr> {
    let JoinTree::Join { left, right, on, .. } = t else { return None };
    if matches!(**right, JoinTree::Rel(r) if r == rel) {
        return on.as_ref();
    }
    condition_of(left, rel).or_else(|| condition_of(right, rel))
}

/// Does the condition of the join say what all columns of a unique key of the table equal?
fn joined_by_key(q: &Query, rel: u32, catalog: &dyn CatalogView) -> Result<bool> {
    let Some(on) = q.from.iter().find_map(|t| condition_of(t, rel)) else { return Ok(false) };
    let Some(Rel { kind: RelKind::Table(table), .. }) = q.rels.iter().find(|r| r.id == rel) else { return Ok(false) };
    if on.is_volatile() || !table.kind.has_rows() || table.partition_key.is_some() {
        return Ok(false);
    }
    let mut conditions = Vec::new();
    on.clone().conjuncts(&mut conditions);
    let mut fixed = Vec::new();
    for e in &conditions {
        fixed.extend(access::fixed_column(e, rel, catalog)?);
    }
    Ok(has_unique_key(table, &fixed))
}

fn has_unique_key(table: &Table, fixed: &[i16]) -> bool {
    let is_fixed = |index: &Arc<Index>| index.keys.iter().all(|k| fixed.contains(&k.attnum));
    table.indexes.iter().any(|index| index.tells_rows_apart() && !index.deferrable && is_fixed(index))
}

fn take_out(t: &mut JoinTree, rel: u32) {
    let JoinTree::Join { left, right, .. } = t else { return };
    if matches!(**right, JoinTree::Rel(r) if r == rel) {
        *t = std::mem::replace(&mut **left, JoinTree::Rel(0));
        return;
    }
    take_out(left, rel);
    take_out(right, rel);
}
