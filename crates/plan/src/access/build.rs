//! What is looked for in an index, compiled.

use super::super::expression::CExpr;
use super::super::*;
use super::matching::{ColumnPoints, IndexMatch};
use kilndb_catalog::Index;

impl Planner<'_> {
    pub(crate) fn index_access(
        &self,
        rel: &Rel,
        scan: &Scan,
        index: &Arc<Index>,
        m: &IndexMatch,
        backward: bool,
    ) -> Result<IndexAccess> {
        let empty = Layout::default();
        let one = |e: &Expr| self.expression(e, &empty);
        let equal = m.equal.iter().map(one).collect::<Result<Vec<_>>>()?;
        let mut keys = Vec::new();
        if index.keys.iter().any(|k| k.attnum == 0) {
            let row = Layout(scan.table.columns.iter().map(|c| ColId { rel: rel.id, att: c.attnum }).collect());
            for k in &index.keys {
                keys.push(match self.key_expression(rel, &scan.table, k)? {
                    Some(e) => self.expression(&e, &row)?,
                    None => CExpr::Slot(usize::try_from(k.attnum - 1).unwrap_or(0)).into(),
                });
            }
        }
        let is_whole = index.unique && !index.deferrable && equal.len() == index.keys.len();
        Ok(IndexAccess {
            keys,
            unique_point: is_whole && !index.nulls_not_distinct,
            index: index.clone(),
            relation: if scan.heap.is_some() { Some(self.relation(index.storage)?) } else { None },
            equal,
            search: self.key_search(m)?,
            backward,
        })
    }

    fn key_search(&self, m: &IndexMatch) -> Result<Option<Box<KeySearch>>> {
        if m.points.is_empty() && m.bounds.is_empty() && !m.not_null {
            return Ok(None);
        }
        let empty = Layout::default();
        let one = |e: &Expr| self.expression(e, &empty);
        let points = m.points.iter().map(|p| {
            Ok(match p {
                ColumnPoints::Equal(value) => KeyPoints::Equal(one(value)?),
                ColumnPoints::AnyOf(array) => KeyPoints::AnyOf(one(array)?),
                ColumnPoints::Null => KeyPoints::Null,
                ColumnPoints::Each(_) => KeyPoints::Each,
            })
        });
        let points = points.collect::<Result<Vec<_>>>()?;
        let bounds = m.bounds.iter().map(|b| {
            let values = b.values.iter().map(one).collect::<Result<Vec<_>>>()?;
            Ok(KeyBound { values, is_lower: b.is_lower, is_inclusive: b.is_inclusive })
        });
        let bounds = bounds.collect::<Result<Vec<_>>>()?;
        Ok(Some(Box::new(KeySearch { points, bounds, not_null: m.not_null })))
    }

    /// The line that EXPLAIN shows for what is looked for.
    pub(crate) fn index_condition_text(&self, rel: &Rel, m: &IndexMatch, preds: &[Expr]) -> Result<String> {
        let mut text = Vec::new();
        for e in m.shown_conditions(preds) {
            // The key stands on the left.
            let turned = match &e.kind {
                ExprKind::Func(f) if f.args.len() == 2 && super::foreign(&f.args[0], rel.id) => self.turned(e)?,
                _ => None,
            };
            text.push(self.show_scan(rel.id, turned.as_ref().unwrap_or(e)));
        }
        Ok(format!("Index Cond: {}", super::super::shown_text::and_text(&text)))
    }
}
