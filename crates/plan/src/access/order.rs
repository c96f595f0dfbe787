//! The order in which an index yields rows.

use super::super::*;
use super::{is_key, strip};
use kilndb_catalog::{Index, IndexKey, Table};

impl Planner<'_> {
    /// Does the index, whose first `fixed` columns have one value each, give `wanted` order? Some(true): when read
    /// backward.
    pub(crate) fn order_of_index(
        &self,
        rel: &Rel,
        table: &Table,
        index: &Index,
        fixed: usize,
        wanted: &[SortKey],
    ) -> Result<Option<bool>> {
        if wanted.is_empty() || !index.method.is_ordered {
            return Ok(None);
        }
        let mut backward: Option<bool> = None;
        let mut position = fixed;
        for w in wanted {
            // A column that is fixed by an equality is sorted anyway.
            let mut is_fixed = false;
            for key in &index.keys[..fixed] {
                is_fixed |= self.sorts_by_key(rel, table, key, &w.expr)?;
            }
            if is_fixed {
                continue;
            }
            let Some(key) = index.keys.get(position) else { return Ok(None) };
            if !self.sorts_by_key(rel, table, key, &w.expr)? {
                return Ok(None);
            }
            let same = key.descending == w.descending && key.nulls_first == w.nulls_first;
            let reverse = key.descending != w.descending && key.nulls_first != w.nulls_first;
            match backward {
                None if same => backward = Some(false),
                None if reverse => backward = Some(true),
                Some(false) if same => {}
                Some(true) if reverse => {}
                _ => return Ok(None),
            }
            position += 1;
        }
        Ok(Some(backward.unwrap_or(false)))
    }

    fn sorts_by_key(&self, rel: &Rel, table: &Table, key: &IndexKey, wanted: &Expr) -> Result<bool> {
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
