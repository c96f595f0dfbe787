//! Comparisons of rows, `(a, b) > (x, y)`, as bounds of an index's columns.
//!
//! A row comparison decides by the first columns that differ, as an index sorts. So its columns from the first on that
//! are the index's, one after the other and sorted in one direction, are bounded by its values together. An entry within
//! the bound may still have NULL in a column after the first, where the comparison is not true: if there can be NULL,
//! rows are checked.

use super::super::*;
use super::condition::{ColumnCondition, RowCheck, shown_operator};
use super::matching::RowBound;
use super::{comparable, foreign, is_key};
use kilndb_bind::collation::of_pair;
use kilndb_catalog::{IndexKey, Table};
use kilndb_types::collation::{rules_of, same_rules};
use kilndb_types::oids;

/// An integer without a cast to a wider integer type.
fn unwidened(e: &Expr) -> &Expr {
    let width = |ty: Oid| [oids::INT2, oids::INT4, oids::INT8].iter().position(|t| *t == ty);
    match &e.kind {
        ExprKind::Func(f) if f.form == FuncForm::ImplicitCast => match f.args.as_slice() {
            [arg] if width(arg.ty).is_some() && width(arg.ty) < width(e.ty) => arg,
            _ => e,
        },
        _ => e,
    }
}

/// The comparison with its sides exchanged.
fn flipped(kind: CompareKind) -> CompareKind {
    match kind {
        CompareKind::Lt => CompareKind::Gt,
        CompareKind::Le => CompareKind::Ge,
        CompareKind::Ge => CompareKind::Le,
        CompareKind::Gt => CompareKind::Lt,
        same => same,
    }
}

impl Planner<'_> {
    /// What a row comparison says of the first of `keys` and of those after it.
    pub(super) fn row_condition(
        &self,
        rel: &Rel,
        table: &Table,
        keys: &[IndexKey],
        p: &Expr,
    ) -> Result<Option<ColumnCondition>> {
        let ExprKind::RowCompare { kind, left, right } = &p.kind else { return Ok(None) };
        let Some(first) = left.first() else { return Ok(None) };
        let (kind, columns, values) =
            if foreign(first, rel.id) { (flipped(*kind), right, left) } else { (*kind, left, right) };
        let is_greater = match kind {
            CompareKind::Gt | CompareKind::Ge => true,
            CompareKind::Lt | CompareKind::Le => false,
            CompareKind::Eq | CompareKind::Ne => return Ok(None),
        };
        // How many are keys one after the other, and how many of those are sorted in one direction.
        let (mut matched, mut alike, mut may_be_null) = (0, 0, false);
        for ((column, value), key) in columns.iter().zip(values).zip(keys) {
            let expression = self.key_expression(rel, table, key)?;
            let is_it = is_key(unwidened(column), rel.id, key, expression.as_ref())
                && foreign(value, rel.id)
                && comparable(self.base_type(key.type_oid), self.base_type(value.ty))
                && same_rules(of_pair(column, value).collation.rules, rules_of(key.order_type));
            if !is_it {
                break;
            }
            if alike == matched && key.descending == keys[0].descending {
                alike += 1;
                may_be_null |= matched > 0 && !is_never_null(table, key);
            }
            matched += 1;
        }
        if matched == 0 {
            return Ok(None);
        }
        let is_whole = matched == columns.len();
        let bound = RowBound {
            values: values[..alike].to_vec(),
            is_lower: is_greater != keys[0].descending,
            is_inclusive: alike < columns.len() || matches!(kind, CompareKind::Ge | CompareKind::Le),
        };
        let check = match is_whole {
            false => RowCheck::Shown,
            true if may_be_null || alike < matched => RowCheck::Unshown,
            true => RowCheck::None,
        };
        let kind = match kind {
            kind if is_whole => kind,
            _ if is_greater => CompareKind::Ge,
            _ => CompareKind::Le,
        };
        let columns: Vec<Expr> = columns[..matched].iter().map(|e| unwidened(e).clone()).collect();
        let shown = self.shown_row_comparison(kind, columns, values[..matched].to_vec());
        Ok(Some(ColumnCondition::Bound { bound, shown, check }))
    }

    fn shown_row_comparison(&self, kind: CompareKind, mut left: Vec<Expr>, mut right: Vec<Expr>) -> Option<Expr> {
        if !self.explains() {
            return None;
        }
        if left.len() > 1 {
            return Some(Expr::new(ExprKind::RowCompare { kind, left, right }, oids::BOOL));
        }
        let operator = if kind == CompareKind::Ge { ">=" } else { "<=" };
        Some(shown_operator(left.pop()?, operator, right.pop()?))
    }
}

fn is_never_null(table: &Table, key: &IndexKey) -> bool {
    let column = usize::try_from(key.attnum - 1).ok().and_then(|at| table.columns.get(at));
    column.is_some_and(|c| c.is_never_null)
}
