//! The order in which an index yields rows.

use super::super::row_order::{OrderKey, RowOrder};
use super::super::*;
use super::{is_key, strip};
use kilndb_catalog::{Index, IndexKey, Table};
use kilndb_types::collation::{Collation, rules_of, same_rules};
use kilndb_types::types::compare_alike;

impl Planner<'_> {
    /// How many of the `wanted` keys the index, whose first `fixed` columns have one value each, sorts its rows by; true:
    /// when read backward.
    pub(crate) fn order_of_index(
        &self,
        rel: &Rel,
        table: &Table,
        index: &Index,
        fixed: usize,
        wanted: &[SortKey],
    ) -> Result<(usize, bool)> {
        if wanted.is_empty() || !index.method.is_ordered {
            return Ok((0, false));
        }
        let mut backward: Option<bool> = None;
        let mut position = fixed;
        for (n, w) in wanted.iter().enumerate() {
            // A column that is fixed by an equality is sorted anyway.
            let mut is_fixed = false;
            for key in &index.keys[..position] {
                is_fixed |= self.sorts_by_key(rel, table, key, &w.expr)?;
            }
            if is_fixed {
                continue;
            }
            // Constants at the beginning alone are no order.
            let so_far = (if position == fixed { 0 } else { n }, backward.unwrap_or(false));
            let Some(key) = index.keys.get(position) else { return Ok(so_far) };
            if !self.sorts_by_key(rel, table, key, &w.expr)? {
                return Ok(so_far);
            }
            let same = key.descending == w.descending && key.nulls_first == w.nulls_first;
            let reverse = key.descending != w.descending && key.nulls_first != w.nulls_first;
            match backward {
                None if same => backward = Some(false),
                None if reverse => backward = Some(true),
                Some(false) if same => {}
                Some(true) if reverse => {}
                _ => return Ok(so_far),
            }
            position += 1;
        }
        Ok((wanted.len(), backward.unwrap_or(false)))
    }

    /// The order in which the index yields rows, if its first `fixed` columns have one value each.
    pub(crate) fn rows_of_index(
        &self,
        rel: &Rel,
        table: &Table,
        index: &Index,
        fixed: usize,
        backward: bool,
    ) -> Result<RowOrder> {
        let mut order = RowOrder::default();
        if !index.method.is_ordered {
            return Ok(order);
        }
        for (position, key) in index.keys.iter().enumerate() {
            let expression = match self.key_expression(rel, table, key)? {
                Some(e) => e,
                None => {
                    let Some(c) = table.columns.get(usize::from(key.attnum.unsigned_abs()) - 1) else { break };
                    Expr::column(ColId { rel: rel.id, att: key.attnum }, c.type_oid, -1).collated(c.collation)
                }
            };
            let mut expressions = vec![expression];
            // A key may be sorted by another collation than its column's, which a query asks for by COLLATE.
            if key.collation != 0 && key.collation != expressions[0].collation.collation.oid {
                let collation = Collation { oid: key.collation, rules: rules_of(key.order_type) };
                let kind = ExprKind::Collate { arg: Box::new(expressions[0].clone()), collation, name: String::new() };
                let collated = Expr::new(kind, expressions[0].ty);
                match self.is_compared_as(&expressions[0], key) {
                    true => expressions.push(collated),
                    false => expressions = vec![collated],
                }
            }
            if position < fixed {
                order.fixed.extend(expressions);
                continue;
            }
            order.keys.push(OrderKey {
                expressions,
                descending: key.descending != backward,
                nulls_first: key.nulls_first != backward,
            });
        }
        Ok(order)
    }

    /// Whether values of the expression are compared as the index compares those of the key.
    fn is_compared_as(&self, e: &Expr, key: &IndexKey) -> bool {
        let rules = e.collation.collation.rules.filter(|_| kilndb_bind::collation::is_collatable(e.ty));
        same_rules(rules, rules_of(key.order_type))
    }

    fn sorts_by_key(&self, rel: &Rel, table: &Table, key: &IndexKey, wanted: &Expr) -> Result<bool> {
        if !compare_alike(self.base_type(key.type_oid), self.base_type(wanted.ty)) || !self.is_compared_as(wanted, key)
        {
            return Ok(false);
        }
        Ok(match (&strip(wanted).kind, key.attnum) {
            (ExprKind::Column(_), 0) => false,
            (ExprKind::Column(c), attnum) => c.rel == rel.id && c.att == attnum,
            (_, 0) => {
                let expression = self.key_expression(rel, table, key)?;
                is_key(wanted, rel.id, key, expression.as_ref())
            }
            _ => false,
        })
    }
}
