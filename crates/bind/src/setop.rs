//! UNION, INTERSECT, EXCEPT.

use super::Binder;
use super::ir::*;
use super::locking::not_allowed_with;
use super::scope::{ClauseKind, NsColumn, NsItem, Scope};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::CastContext;
use kilndb_syntax::{nodes, raw};
use kilndb_types::oids;

impl Binder<'_> {
    #[inline(never)]
    pub(crate) fn bind_set_operation(&self, s: &nodes::SelectStmt, outer: Option<&Scope<'_>>) -> Result<Query> {
        let mut q = Query::default();
        let mut scope = Scope::new(outer);
        if let Some(w) = s.with_clause() {
            self.bind_with(w, &mut scope, &mut q)?;
        }
        let (Some(l), Some(r)) = (s.larg(), s.rarg()) else {
            return Err(Error::internal("set operation without sides"));
        };
        let left = self.bind_select_as(l, Some(&scope), false)?;
        let right = self.bind_select_as(r, Some(&scope), false)?;
        let op = match s.op {
            raw::SetOperation::SETOP_UNION => SetOp::Union,
            raw::SetOperation::SETOP_INTERSECT => SetOp::Intersect,
            _ => SetOp::Except,
        };
        if let Some(clause) = s.locking_clause().first() {
            return Err(not_allowed_with(LockStrength::of(clause), "UNION/INTERSECT/EXCEPT"));
        }
        self.finish_set_operation(s, q, scope, op, left, right)
    }

    pub(crate) fn finish_set_operation(
        &self,
        s: &nodes::SelectStmt,
        mut q: Query,
        mut scope: Scope<'_>,
        op: SetOp,
        mut left: Query,
        mut right: Query,
    ) -> Result<Query> {
        let name = match op {
            SetOp::Union => "UNION",
            SetOp::Intersect => "INTERSECT",
            SetOp::Except => "EXCEPT",
        };
        let visible = |q: &Query| q.targets.iter().filter(|t| !t.junk).count();
        if visible(&left) != visible(&right) {
            let loc = right.targets.first().map_or(-1, |t| t.expr.loc);
            return self.err(
                sqlstate::SYNTAX_ERROR,
                format!("each {name} query must have the same number of columns"),
                loc,
            );
        }
        let rel = self.new_rel();
        let mut columns = Vec::new();
        let count = visible(&left);
        for i in 0..count {
            let (lt, rt) = (nth(&left, i)?, nth(&right, i)?);
            let ty = self.common_type(&[&lt.expr, &rt.expr], name)?;
            let typmod = if lt.expr.typmod == rt.expr.typmod && lt.expr.ty == rt.expr.ty { lt.expr.typmod } else { -1 };
            let column_name = lt.name.clone();
            self.coerce_output(&mut left, i, ty, name)?;
            self.coerce_output(&mut right, i, ty, name)?;
            let collation = self.common_collation([nth(&left, i)?, nth(&right, i)?], s.all)?;
            let column = RelColumn { name: column_name.clone(), ty, typmod, collation };
            let expr = column.expr(ColId { rel, att: i as i16 + 1 });
            q.targets.push(Target { expr, name: column_name, junk: false, table_oid: 0, attnum: 0 });
            columns.push(column);
        }
        let ns = columns
            .iter()
            .enumerate()
            .map(|(i, c)| NsColumn {
                name: c.name.clone(),
                expr: c.expr(ColId { rel, att: i as i16 + 1 }),
                table_oid: 0,
                attnum: 0,
                is_named_here: false,
            })
            .collect();
        scope.items = vec![NsItem::new(None, rel, ns)];
        scope.clause = ClauseKind::OrderBy;
        for sort in s.sort_clause() {
            let key = self.bind_order_item(sort, &scope, &q.targets, true)?;
            if !q.targets.iter().any(|t| super::same::same(&t.expr, &key.expr)) {
                let e = Error::new(sqlstate::FEATURE_NOT_SUPPORTED, "invalid UNION/INTERSECT/EXCEPT ORDER BY clause")
                    .with_detail("Only result column names can be used, not expressions or functions.")
                    .with_hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.");
                return Err(self.at(e, key.expr.loc));
            }
            q.order_by.push(key);
        }
        scope.items.clear();
        self.bind_limit(s, &mut scope, &mut q)?;
        q.body = QueryBody::SetOp { op, all: s.all, left: SharedQuery::new(left), right: SharedQuery::new(right), rel };
        self.note_cte_uses(&scope, &mut q);
        Ok(q)
    }

    /// Makes output column `i` of a finished query be of type `ty`.
    pub(crate) fn coerce_output(&self, q: &mut Query, i: usize, ty: kilndb_base::Oid, what: &str) -> Result<()> {
        let from = nth(q, i)?.expr.ty;
        if from == ty {
            return Ok(());
        }
        // Sorting, DISTINCT and set operations below see the old type: convert in a query around it.
        let simple = matches!(q.body, QueryBody::Select) && matches!(q.distinct, Distinct::No) && q.order_by.is_empty();
        if simple || from == oids::UNKNOWN && matches!(q.body, QueryBody::Select) {
            let Some(t) = q.targets.iter_mut().filter(|t| !t.junk).nth(i) else {
                return Err(Error::internal("output column"));
            };
            let e = std::mem::replace(&mut t.expr, Expr::bool(true));
            // Columns of a VALUES list that are still unknown: convert the list itself.
            if let (ExprKind::Column(id), oids::UNKNOWN) = (&e.kind, e.ty) {
                let id = *id;
                if let Some(Rel { kind: RelKind::Values(rows), columns, .. }) =
                    q.rels.iter_mut().find(|r| r.id == id.rel)
                {
                    let c = id.att as usize - 1;
                    for r in rows.iter_mut() {
                        let v = std::mem::replace(&mut r[c], Expr::bool(true));
                        r[c] = self.coerce_to_common(v, ty, what)?;
                    }
                    columns[c].ty = ty;
                    columns[c].collation = super::collation::of_type(ty);
                    t.expr = Expr::column(id, ty, -1);
                    return Ok(());
                }
            }
            t.expr = self.coerce_to_common(e, ty, what)?;
            return Ok(());
        }
        let columns = super::with::output_columns(q);
        let inner = std::mem::take(q);
        let rel = self.new_rel();
        for (n, c) in columns.iter().enumerate() {
            let mut expr = c.expr(ColId { rel, att: n as i16 + 1 });
            if n == i {
                if !self.can_coerce(expr.ty, ty, CastContext::Implicit)? {
                    return self.err(
                        sqlstate::CANNOT_COERCE,
                        format!("{what} could not convert type {} to {}", self.type_name(expr.ty), self.type_name(ty)),
                        -1,
                    );
                }
                expr = self.coerce(expr, ty, CastContext::Implicit)?;
            }
            q.targets.push(Target { expr, name: c.name.clone(), junk: false, table_oid: 0, attnum: 0 });
        }
        q.rels.push(Rel {
            id: rel,
            alias: "unnamed_subquery".into(),
            columns,
            kind: RelKind::Subquery(SharedQuery::new(inner)),
            lateral: false,
            security_quals: Vec::new(),
        });
        q.from.push(JoinTree::Rel(rel));
        Ok(())
    }
}

fn nth(q: &Query, i: usize) -> Result<&Target> {
    q.targets.iter().filter(|t| !t.junk).nth(i).ok_or_else(|| Error::internal("output column"))
}
