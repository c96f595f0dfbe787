//! The order in which rows come: what a path says of it, and how much of a wanted order that is.
//!
//! Must not know: how paths are found, what they cost.

use super::*;

/// One expression that rows are sorted by, with all that are equal to it in the rows of the statement.
#[derive(Clone)]
pub(crate) struct OrderKey {
    pub expressions: Vec<Expr>,
    pub descending: bool,
    pub nulls_first: bool,
}

/// Rows are sorted by the first key, those with the same value by the next one, and so on.
#[derive(Clone, Default)]
pub(crate) struct RowOrder {
    pub keys: Vec<OrderKey>,
    /// Expressions with one value in all rows: any order has them.
    pub fixed: Vec<Expr>,
}

impl OrderKey {
    pub fn of(key: &SortKey) -> OrderKey {
        OrderKey { expressions: vec![key.expr.clone()], descending: key.descending, nulls_first: key.nulls_first }
    }
    fn has(&self, e: &Expr) -> bool {
        has_same(&self.expressions, e)
    }
    fn sorts_by(&self, key: &SortKey) -> bool {
        self.descending == key.descending && self.nulls_first == key.nulls_first && self.has(&key.expr)
    }
}

/// Is the expression one of the list, whatever the modifiers of their types?
pub(crate) fn has_same(list: &[Expr], e: &Expr) -> bool {
    let e = access::strip(e);
    list.iter().any(|other| match (&access::strip(other).kind, &e.kind) {
        (ExprKind::Column(a), ExprKind::Column(b)) => a == b,
        (ExprKind::Column(_), _) | (_, ExprKind::Column(_)) => false,
        _ => kilndb_bind::same(access::strip(other), e),
    })
}

impl RowOrder {
    pub fn of_keys(keys: &[SortKey]) -> RowOrder {
        RowOrder { keys: keys.iter().map(OrderKey::of).collect(), fixed: Vec::new() }
    }

    /// How many of the wanted keys, from the first on, the rows are sorted by.
    pub fn presorted(&self, wanted: &[SortKey]) -> usize {
        if self.keys.is_empty() && self.fixed.is_empty() {
            return 0;
        }
        let mut position = 0;
        for (n, key) in wanted.iter().enumerate() {
            if has_same(&self.fixed, &key.expr) || self.keys[..position].iter().any(|k| k.has(&key.expr)) {
                continue;
            }
            if !self.keys.get(position).is_some_and(|own| own.sorts_by(key)) {
                // A constant at the beginning alone is no order.
                return if position == 0 { 0 } else { n };
            }
            position += 1;
        }
        wanted.len()
    }

    /// Are the rows sorted by all of the wanted keys?
    pub fn gives(&self, wanted: &[SortKey]) -> bool {
        self.presorted(wanted) == wanted.len()
    }

    /// Adds to each key what is equal to it.
    pub fn with_equal(mut self, classes: &[Vec<Expr>]) -> RowOrder {
        let extend = |list: &mut Vec<Expr>| {
            for class in classes {
                if list.iter().any(|e| has_same(class, e)) {
                    let more: Vec<Expr> = class.iter().filter(|e| !has_same(list, e)).cloned().collect();
                    list.extend(more);
                }
            }
        };
        self.keys.iter_mut().for_each(|key| extend(&mut key.expressions));
        extend(&mut self.fixed);
        self
    }
}
