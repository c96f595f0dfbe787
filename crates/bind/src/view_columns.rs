//! The columns of a view that a statement changes become expressions over the rows of the relation that the view reads.
//!
//! Invariants
//! 1. Each kind of row that the statement knows (as it is, old, new, proposed) of the view becomes the same kind of row
//!    of the relation, under a number of its own.
//! 2. Where RETURNING speaks of a row that there may not be, what the view computes from it is NULL then, and so is the
//!    row as a whole.

use super::Binder;
use super::ir::*;
use super::updatable::ViewOfRelation;
use super::view_target::{SettledTarget, ViewChange};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::Table;
use kilndb_types::oids;

pub(super) struct ColumnSubstitution<'b, 'c> {
    binder: &'b Binder<'c>,
    pub of: ViewOfRelation,
    view_type: Oid,
    kind: DmlKind,
    updates_conflicting: bool,
    /// Of the view: the row as it is, old, new, proposed.
    from: RowNumbers,
    to: RowNumbers,
    old_values_rel: u32,
}

#[derive(Clone, Copy)]
struct RowNumbers {
    rel: u32,
    old: u32,
    new: u32,
    excluded: u32,
}

impl RowNumbers {
    fn of(dml: &Dml) -> RowNumbers {
        RowNumbers { rel: dml.rel, old: dml.old_rel, new: dml.new_rel, excluded: dml.excluded_rel }
    }
    fn all(&self) -> [u32; 4] {
        [self.rel, self.old, self.new, self.excluded]
    }
}

/// Whether there is such a row where RETURNING speaks of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Always,
    Sometimes,
    Never,
}

impl<'b, 'c> ColumnSubstitution<'b, 'c> {
    pub fn new(binder: &'b Binder<'c>, dml: &Dml, of: ViewOfRelation, view: &Table) -> ColumnSubstitution<'b, 'c> {
        let numbers = binder.new_dml(dml.kind, of.base.clone());
        ColumnSubstitution {
            binder,
            view_type: view.type_oid,
            kind: dml.kind,
            updates_conflicting: dml.on_conflict.as_ref().is_some_and(|c| c.update.is_some()),
            from: RowNumbers::of(dml),
            to: RowNumbers::of(&numbers),
            old_values_rel: numbers.old_values_rel,
            of,
        }
    }

    /// Replaces the view's columns in the whole statement.
    pub fn apply(&self, s: &mut ViewChange<'_>, target: &mut SettledTarget) -> Result<()> {
        for t in &mut s.dml.returning {
            t.expr.rewrite(&mut |e| self.guard_row(e))?;
            t.expr.rewrite(&mut |e| self.place_returned(e))?;
        }
        let mut place = |e: &mut Expr| self.place(e).map(|_| ());
        s.query.rewrite(&mut place)?;
        s.dml.rewrite(&mut place)?;
        target.security_quals.iter_mut().try_for_each(|e| e.rewrite(&mut place))?;
        match &mut s.inference {
            Some(inference) => inference.exprs_mut().try_for_each(|e| e.rewrite(&mut place)),
            None => Ok(()),
        }
    }

    /// Makes the relation the one that is changed. Positions of columns become the relation's.
    pub fn finish(self, s: &mut ViewChange<'_>) -> Result<ViewOfRelation> {
        let place = |position: usize| self.of.base_column(position).ok().and_then(|c| usize::try_from(c - 1).ok());
        let base = &self.of.base;
        s.for_lists(&mut |_, list| {
            for n in 0..list.len() {
                let Some(column) = place(list[n].column) else {
                    return Err(Error::internal("an assignment to no column of the view's relation"));
                };
                if list[..n].iter().any(|a| a.column == column) {
                    let message = format!("multiple assignments to same column \"{}\"", base.columns[column].name);
                    return Err(Error::new(sqlstate::SYNTAX_ERROR, message));
                }
                list[n].column = column;
            }
            Ok(())
        })?;
        let inserted = s.inserted.iter().filter_map(|c| self.of.base_column(usize::try_from(c - 1).ok()?).ok());
        s.inserted = inserted.collect();
        let dml = &mut *s.dml;
        dml.table = base.clone();
        (dml.rel, dml.old_rel) = (self.to.rel, self.to.old);
        (dml.new_rel, dml.excluded_rel) = (self.to.new, self.to.excluded);
        dml.old_values_rel = self.old_values_rel;
        Ok(self.of)
    }

    /// Replaces a column of the view; which kind of row it is of is returned.
    fn place(&self, e: &mut Expr) -> Result<Option<u32>> {
        let ExprKind::Column(c) = e.kind else { return Ok(None) };
        let Some(n) = self.from.all().iter().position(|rel| *rel == c.rel) else { return Ok(None) };
        let to = self.to.all()[n];
        let position = usize::try_from(c.att).ok().and_then(|att| att.checked_sub(1));
        let Some(position) = position else {
            e.kind = ExprKind::Column(ColId { rel: to, att: c.att });
            return Ok(None);
        };
        let Some(mut column) = self.of.columns.get(position).cloned() else {
            return Err(Error::internal("a column that the view does not have"));
        };
        column.rewrite(&mut |e| {
            match &mut e.kind {
                ExprKind::Column(c) if c.rel == self.of.rel => c.rel = to,
                // The same subquery over another row is another one.
                ExprKind::SubLink(link) => link.id = self.binder.new_rel(),
                _ => {}
            }
            Ok(())
        })?;
        *e = column.at(e.loc);
        Ok(Some(c.rel))
    }

    fn place_returned(&self, e: &mut Expr) -> Result<()> {
        let Some(rel) = self.place(e)? else { return Ok(()) };
        if !matches!(e.kind, ExprKind::Column(_)) {
            let at = self.from.all().iter().position(|from| *from == rel).map_or(rel, |n| self.to.all()[n]);
            self.guard(e, self.presence(rel), at);
        }
        Ok(())
    }

    /// The view's row as a whole, of a row that there may not be.
    fn guard_row(&self, e: &mut Expr) -> Result<()> {
        let ExprKind::Row { fields, .. } = &e.kind else { return Ok(()) };
        if e.ty != self.view_type || fields.len() != self.of.columns.len() {
            return Ok(());
        }
        let Some(ExprKind::Column(first)) = fields.first().map(|field| &field.kind) else { return Ok(()) };
        let rel = first.rel;
        if fields.iter().all(|field| matches!(&field.kind, ExprKind::Column(c) if c.rel == rel)) {
            self.guard(e, self.presence(rel), rel);
        }
        Ok(())
    }

    /// `rel`: the number under which the row is known by its place, which is NULL where there is none.
    fn guard(&self, e: &mut Expr, presence: Presence, rel: u32) {
        match presence {
            Presence::Always => {}
            Presence::Never => e.kind = ExprKind::Const(kilndb_types::Datum::Null),
            Presence::Sometimes => {
                let place = Expr::column(ColId { rel, att: ATT_CTID }, oids::TID, -1);
                let is_absent = Expr::new(ExprKind::IsNull { arg: Box::new(place), negated: false }, oids::BOOL);
                let (null, value) = (Expr::null(e.ty), e.clone());
                e.kind = ExprKind::Case { arg: None, whens: vec![(is_absent, null)], otherwise: Some(Box::new(value)) };
            }
        }
    }

    fn presence(&self, rel: u32) -> Presence {
        match self.kind {
            DmlKind::Insert if rel == self.from.old && self.updates_conflicting => Presence::Sometimes,
            DmlKind::Insert if rel == self.from.old => Presence::Never,
            DmlKind::Delete if rel == self.from.new => Presence::Never,
            DmlKind::Merge if rel == self.from.old || rel == self.from.new => Presence::Sometimes,
            _ => Presence::Always,
        }
    }
}
