//! What changes of rows do to inverted indexes.
//!
//! Invariants
//! 1. An UPDATE that leaves alone what an index depends on neither extracts terms nor touches the index.
//! 2. A row is changed in the heap first, then in the index.

use super::context::{ExecContext, RunState};
use super::expr::Evaluate;
use super::index;
use kilndb_base::{Result, RowId};
use kilndb_bind::ir::DmlKind;
use kilndb_plan::{IndexPlan, ModifyPlan};
use kilndb_storage::{Relation, TermChange};
use kilndb_types::{Datum, key};
use std::sync::Arc;

/// The terms of a table row; none if it is not in the (partial) index.
fn terms(p: &IndexPlan, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<Vec<Vec<u8>>> {
    let mut out = Vec::new();
    if let Some(f) = &p.predicate
        && !f.is_true(row, rt, cx)?
    {
        return Ok(out);
    }
    for ((column, class), e) in (0..).zip(&p.shape.classes).zip(&p.shape.values) {
        match e.tree() {
            kilndb_plan::expression::CExpr::Slot(i) => {
                class.terms(column, row.get(*i).unwrap_or(&Datum::Null), &mut out)?
            }
            _ => class.terms(column, &e.eval(row, rt, cx)?, &mut out)?,
        }
    }
    Ok(out)
}

pub fn insert(p: &IndexPlan, row: &[Datum], rid: RowId, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
    let terms = terms(p, row, rt, cx)?;
    if terms.is_empty() {
        return Ok(());
    }
    cx.usage.wrote_index(p.oid, 1);
    p.relation.change_terms(cx.txn, rid, TermChange::Inserted(&terms))
}

/// Are two values the same or equal? A value that an assignment did not touch is the same piece of memory, so most
/// comparisons end there.
fn is_same(type_oid: kilndb_base::Oid, a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::TsVector(a), Datum::TsVector(b)) => Arc::ptr_eq(a, b) || a == b,
        (Datum::Array(a), Datum::Array(b)) if Arc::ptr_eq(a, b) => true,
        (Datum::Jsonb(a), Datum::Jsonb(b)) => a == b,
        (a, b) => key::compare(type_oid, a, b).is_eq(),
    }
}

/// Is it certain without extracting terms that a row has other ones than before? Then the old terms need not be
/// extracted.
fn differ(p: &IndexPlan, old: &[Datum], new: &[Datum]) -> bool {
    let columns = p.shape.classes.iter().zip(&p.shape.values);
    p.predicate.is_none()
        && columns.into_iter().any(|(class, e)| match e.tree() {
            kilndb_plan::expression::CExpr::Slot(i) => {
                old.get(*i).zip(new.get(*i)).is_some_and(|(old, new)| class.differ(old, new))
            }
            _ => false,
        })
}

/// An inverted index and the terms that a row has in it from now on.
pub(crate) type NewTerms = (usize, Vec<Vec<u8>>);

/// Which inverted indexes have other terms for the new row than for the old one.
pub fn changes(
    m: &ModifyPlan,
    old: &[Datum],
    new: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Vec<NewTerms>> {
    let mut out = Vec::new();
    let is_insert = m.statement.kind == DmlKind::Insert;
    for (n, p) in m.indexes.iter().enumerate().filter(|(_, p)| p.has_terms()) {
        let differs = |c: &usize| match (old.get(*c), new.get(*c), m.table.columns.get(*c)) {
            (Some(old), Some(new), Some(column)) => !is_same(column.type_oid, old, new),
            _ => true,
        };
        if !is_insert && !p.is_touched(&m.changed) || !p.shape.depends.iter().any(differs) {
            continue;
        }
        let now = terms(p, new, rt, cx)?;
        if differ(p, old, new) || now != terms(p, old, rt, cx)? {
            out.push((n, now));
        }
    }
    Ok(out)
}

pub fn apply(m: &ModifyPlan, rid: RowId, changes: &[NewTerms], cx: &mut ExecContext<'_>) -> Result<()> {
    changes.iter().try_for_each(|(n, terms)| {
        let p = &m.indexes[*n];
        cx.usage.wrote_index(p.oid, 1);
        p.relation.change_terms(cx.txn, rid, TermChange::Updated(terms))
    })
}

/// The index entries of a row that is deleted.
#[derive(Default)]
pub struct RetiredEntries {
    keys: Vec<(usize, Vec<u8>)>,
    inverted: Vec<usize>,
}
impl RetiredEntries {
    pub fn of(m: &ModifyPlan, old: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<RetiredEntries> {
        let mut out = RetiredEntries::default();
        for (n, p) in m.indexes.iter().enumerate() {
            match index::entry(p, old, rt, cx)? {
                Some(_) if p.has_terms() => out.inverted.push(n),
                Some((key, _)) => out.keys.push((n, key)),
                None => {}
            }
        }
        Ok(out)
    }
    /// The trees that have the row, with its key in each.
    pub fn keys<'a>(&'a self, m: &'a ModifyPlan) -> Vec<(&'a Relation, &'a [u8])> {
        self.keys.iter().map(|(n, key)| (&*m.indexes[*n].relation, key.as_slice())).collect()
    }
    /// Takes the row out of inverted indexes, after it has been deleted from the heap.
    pub fn apply(&self, m: &ModifyPlan, rid: RowId, cx: &mut ExecContext<'_>) -> Result<()> {
        self.inverted.iter().try_for_each(|n| m.indexes[*n].relation.change_terms(cx.txn, rid, TermChange::Deleted))
    }
}
