//! What a condition says of one key column.

use super::super::*;
use super::matching::{ColumnPoints, RowBound};
use super::{comparison, foreign, is_key};
use kilndb_catalog::IndexKey;
use kilndb_catalog::operator_class::EQUAL;
use kilndb_types::{Datum, oids};

/// What a condition says of a key column, and how EXPLAIN shows it if not as it is.
pub(super) enum ColumnCondition {
    Equal { value: Expr, shown: Option<Expr> },
    AnyOf { array: Expr, shown: Option<Expr> },
    Null,
    NotNull,
    Bound { bound: RowBound, shown: Option<Expr>, check: RowCheck },
}

/// Whether rows within a bound have to be checked by its condition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowCheck {
    None,
    /// EXPLAIN shows the condition as a filter.
    Shown,
    Unshown,
}

impl ColumnCondition {
    /// Does it leave values, rather than a range or NULL?
    pub fn is_of_values(&self) -> bool {
        matches!(self, ColumnCondition::Equal { .. } | ColumnCondition::AnyOf { .. })
    }
    /// Of conditions that leave single values the one with the lowest rank is looked for.
    pub fn rank(&self) -> Option<u8> {
        match self {
            ColumnCondition::Equal { .. } => Some(0),
            ColumnCondition::Null => Some(1),
            ColumnCondition::AnyOf { .. } => Some(2),
            ColumnCondition::NotNull | ColumnCondition::Bound { .. } => None,
        }
    }
    pub fn shown(&self) -> Option<Expr> {
        match self {
            ColumnCondition::Equal { shown, .. }
            | ColumnCondition::AnyOf { shown, .. }
            | ColumnCondition::Bound { shown, .. } => shown.clone(),
            ColumnCondition::Null | ColumnCondition::NotNull => None,
        }
    }
    pub fn into_points(self) -> Option<ColumnPoints> {
        match self {
            ColumnCondition::Equal { value, .. } => Some(ColumnPoints::Equal(value)),
            ColumnCondition::AnyOf { array, .. } => Some(ColumnPoints::AnyOf(array)),
            ColumnCondition::Null => Some(ColumnPoints::Null),
            ColumnCondition::NotNull | ColumnCondition::Bound { .. } => None,
        }
    }
}

/// `left operator right`, to be shown only.
pub(super) fn shown_operator(left: Expr, operator: &str, right: Expr) -> Expr {
    let call = FuncExpr::internal(0, operator.into(), vec![left, right], true, b'i');
    Expr::new(ExprKind::Func(Box::new(FuncExpr { form: FuncForm::Operator, ..call })), oids::BOOL)
}

impl Planner<'_> {
    /// What a condition says of the key column, if it says something that an index can look for.
    pub(super) fn column_condition(
        &self,
        rel: u32,
        key: &IndexKey,
        expression: Option<&Expr>,
        p: &Expr,
    ) -> Result<Option<ColumnCondition>> {
        if let Some((value, strategy, is_array)) = comparison(self, rel, key, expression, p)? {
            return Ok(match (strategy, is_array) {
                (_, true) => Some(ColumnCondition::AnyOf { array: value, shown: None }),
                (EQUAL, false) => Some(ColumnCondition::Equal { value, shown: None }),
                (1 | 2 | 4 | 5, false) => {
                    let bound = RowBound {
                        values: vec![value],
                        is_lower: (strategy > EQUAL) != key.descending,
                        is_inclusive: matches!(strategy, 2 | 4),
                    };
                    Some(ColumnCondition::Bound { bound, shown: None, check: RowCheck::None })
                }
                _ => None,
            });
        }
        let is_it = |e: &Expr| is_key(e, rel, key, expression);
        let is_boolean = key.type_oid == oids::BOOL;
        let equals = |e: &Expr, value: bool| {
            let value = Expr::new(ExprKind::Const(Datum::Bool(value)), oids::BOOL);
            Some(ColumnCondition::Equal { shown: Some(shown_operator(e.clone(), "=", value.clone())), value })
        };
        Ok(match &p.kind {
            ExprKind::IsNull { arg, negated } if is_it(arg) => {
                Some(if *negated { ColumnCondition::NotNull } else { ColumnCondition::Null })
            }
            ExprKind::BoolTest { arg, test: BoolTestKind::True } if is_boolean && is_it(arg) => equals(arg, true),
            ExprKind::BoolTest { arg, test: BoolTestKind::False } if is_boolean && is_it(arg) => equals(arg, false),
            ExprKind::BoolTest { arg, test: BoolTestKind::Unknown } if is_boolean && is_it(arg) => {
                Some(ColumnCondition::Null)
            }
            ExprKind::Not(arg) if is_boolean && is_it(arg) => equals(arg, false),
            ExprKind::Or(list) => self.alternatives_as_array(rel, key, expression, list)?,
            _ if is_boolean && is_it(p) => equals(p, true),
            _ => None,
        })
    }

    /// `key = x OR key = y` as `key = ANY (ARRAY[x, y])`.
    fn alternatives_as_array(
        &self,
        rel: u32,
        key: &IndexKey,
        expression: Option<&Expr>,
        list: &[Expr],
    ) -> Result<Option<ColumnCondition>> {
        let mut elements: Vec<Expr> = Vec::new();
        for p in list {
            let Some((value, EQUAL, false)) = comparison(self, rel, key, expression, p)? else { return Ok(None) };
            let is_alike = elements.first().is_none_or(|first| first.ty == value.ty);
            if !is_alike || !matches!(value.kind, ExprKind::Const(_) | ExprKind::Param(_)) {
                return Ok(None);
            }
            elements.push(value);
        }
        let (Some(first), Some(element_type)) = (list.first(), elements.first().map(|e| e.ty)) else {
            return Ok(None);
        };
        let Some(ty) = self.catalog.type_by_oid(element_type)? else { return Ok(None) };
        let array = Expr::new(ExprKind::Array { elements, element_type, multidim: false }, ty.array);
        let ExprKind::Func(f) = &first.kind else { return Ok(None) };
        let column = f.args.iter().find(|e| !foreign(e, rel)).cloned();
        let shown = column.map(|column| {
            let func = FuncExpr::internal(0, f.name.clone(), vec![column, array.clone()], true, b'i');
            Expr::new(ExprKind::ScalarArray { func: Box::new(func), any: true }, oids::BOOL)
        });
        Ok(Some(ColumnCondition::AnyOf { array, shown }))
    }
}
