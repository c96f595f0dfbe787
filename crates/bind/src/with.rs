//! WITH: common table expressions.

use super::Binder;
use super::ir::*;
use super::scope::{CteRef, Scope};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_syntax::{Node, nodes, raw};

impl Binder<'_> {
    pub(crate) fn bind_with(&self, w: &nodes::WithClause, scope: &mut Scope<'_>, q: &mut Query) -> Result<()> {
        for c in w.ctes() {
            let name = c.ctename().unwrap_or("").to_string();
            if q.ctes.iter().any(|x| x.name == name) {
                return self.err(
                    sqlstate::DUPLICATE_ALIAS,
                    format!("WITH query name \"{name}\" specified more than once"),
                    c.location,
                );
            }
            if c.search_clause().is_some() || c.cycle_clause().is_some() {
                return Err(Error::unsupported("SEARCH and CYCLE clauses"));
            }
            let id = self.new_cte();
            let mut recursive = false;
            let bound = match c.ctequery() {
                Node::SelectStmt(s)
                    if w.recursive
                        && s.op == raw::SetOperation::SETOP_UNION
                        && mentions(Node::SelectStmt(s), &name) =>
                {
                    recursive = true;
                    self.bind_recursive(s, id, &name, c, scope)?
                }
                node => self.bind_statement(node, Some(scope))?,
            };
            let columns = self.cte_columns(&bound, c)?;
            let is_silent = matches!(&bound.body, QueryBody::Dml(d) if d.returning.is_empty());
            scope.ctes.push(CteRef { name: name.clone(), id, columns, recursive_self: false, is_silent });
            let materialized = match c.ctematerialized {
                raw::CTEMaterialize::CTEMaterializeAlways => Some(true),
                raw::CTEMaterialize::CTEMaterializeNever => Some(false),
                _ => None,
            };
            q.ctes.push(Cte { id, name, query: SharedQuery::new(bound), recursive, materialized, references: 0 });
        }
        Ok(())
    }

    fn cte_columns(&self, q: &Query, c: &nodes::CommonTableExpr) -> Result<Vec<RelColumn>> {
        let mut columns = output_columns(q);
        let given: Vec<&str> = c.aliascolnames().iter().filter_map(|n| n.as_str()).collect();
        if given.len() > columns.len() {
            return self.err(
                sqlstate::INVALID_COLUMN_REFERENCE,
                format!(
                    "WITH query \"{}\" has {} columns available but {} columns specified",
                    c.ctename().unwrap_or(""),
                    columns.len(),
                    given.len()
                ),
                c.location,
            );
        }
        for (col, n) in columns.iter_mut().zip(given) {
            col.name = n.to_string();
        }
        Ok(columns)
    }

    fn bind_recursive(
        &self,
        s: &nodes::SelectStmt,
        id: u32,
        name: &str,
        c: &nodes::CommonTableExpr,
        scope: &Scope<'_>,
    ) -> Result<Query> {
        let (Some(l), Some(r)) = (s.larg(), s.rarg()) else {
            return Err(Error::internal("set operation without sides"));
        };
        if mentions(Node::SelectStmt(l), name) {
            return self.err(
                sqlstate::INVALID_RECURSION,
                format!("recursive reference to query \"{name}\" must not appear within its non-recursive term"),
                c.location,
            );
        }
        let mut q = Query::default();
        let mut inner = Scope::new(Some(scope));
        if let Some(w) = s.with_clause() {
            self.bind_with(w, &mut inner, &mut q)?;
        }
        let left = self.bind_select(l, Some(&inner))?;
        let columns = self.cte_columns(&left, c)?;
        inner.ctes.push(CteRef {
            name: name.to_string(),
            id,
            columns: columns.clone(),
            recursive_self: true,
            is_silent: false,
        });
        if !r.locking_clause().is_empty() || !s.locking_clause().is_empty() {
            return Err(Error::unsupported("FOR UPDATE/SHARE in a recursive query is not implemented"));
        }
        let right = self.bind_select(r, Some(&inner))?;
        check_recursive_term(&right, id, name)?;
        for (lt, rt) in left.targets.iter().filter(|t| !t.junk).zip(right.targets.iter().filter(|t| !t.junk)) {
            if lt.expr.ty != rt.expr.ty && rt.expr.ty != kilndb_types::oids::UNKNOWN {
                let common = self.common_type(&[&lt.expr, &rt.expr], "UNION")?;
                if common != lt.expr.ty {
                    let position = left.targets.iter().position(|t| std::ptr::eq(t, lt)).unwrap_or(0) + 1;
                    let e = Error::new(
                        sqlstate::DATATYPE_MISMATCH,
                        format!(
                            "recursive query \"{name}\" column {position} has type {} in non-recursive term but type {} overall",
                            self.type_name(lt.expr.ty),
                            self.type_name(common)
                        ),
                    )
                    .with_hint("Cast the output of the non-recursive term to the correct type.");
                    return Err(self.at(e, lt.expr.loc));
                }
            }
        }
        self.note_cte_uses(&inner, &mut q);
        self.finish_set_operation(s, q, inner, SetOp::Union, left, right)
    }

    pub(crate) fn note_cte_uses(&self, scope: &Scope<'_>, q: &mut Query) {
        let _ = scope;
        let ids: Vec<u32> = q.ctes.iter().map(|c| c.id).collect();
        if ids.is_empty() {
            return;
        }
        let mut counts = kilndb_base::hash::HashMap::default();
        count_cte_uses(q, &mut counts);
        for c in &mut q.ctes {
            c.references = counts.get(&c.id).copied().unwrap_or(0);
        }
    }
}

fn count_cte_uses(q: &Query, counts: &mut kilndb_base::hash::HashMap<u32, u32>) {
    for r in &q.rels {
        if let RelKind::Cte { cte, .. } = &r.kind {
            *counts.entry(*cte).or_insert(0) += 1;
        }
    }
    q.for_subqueries(&mut |s| count_cte_uses(s, counts));
    q.for_exprs(&mut |e| count_in_expr(e, counts));
}

fn count_in_expr(e: &Expr, counts: &mut kilndb_base::hash::HashMap<u32, u32>) {
    if let ExprKind::SubLink(s) = &e.kind {
        count_cte_uses(&s.query, counts);
    }
    e.for_children(&mut |c| count_in_expr(c, counts));
}

/// Where a recursive query may refer to itself: once, in FROM, in no expression's subquery.
fn check_recursive_term(q: &Query, id: u32, name: &str) -> Result<()> {
    let invalid = |what: &str| {
        Error::new(
            sqlstate::INVALID_RECURSION,
            format!("recursive reference to query \"{name}\" must not appear {what}"),
        )
    };
    let mut all = kilndb_base::hash::HashMap::default();
    count_cte_uses(q, &mut all);
    let in_from = uses_in_from(q, id);
    if all.get(&id).copied().unwrap_or(0) > in_from {
        return Err(invalid("within a subquery"));
    }
    if in_from > 1 {
        return Err(invalid("more than once"));
    }
    if !q.locks.is_empty() {
        return Err(Error::unsupported("FOR UPDATE/SHARE in a recursive query is not implemented"));
    }
    if q.has_aggs && q.rels.iter().any(|r| matches!(&r.kind, RelKind::Cte { cte, .. } if *cte == id)) {
        return Err(Error::new(
            sqlstate::INVALID_RECURSION,
            "aggregate functions are not allowed in a recursive query's recursive term",
        ));
    }
    Ok(())
}

fn uses_in_from(q: &Query, id: u32) -> u32 {
    let mut count = q.rels.iter().filter(|r| matches!(&r.kind, RelKind::Cte { cte, .. } if *cte == id)).count() as u32;
    q.for_subqueries(&mut |s| count += uses_in_from(s, id));
    count
}

/// Result columns of a bound query.
pub(crate) fn output_columns(q: &Query) -> Vec<RelColumn> {
    let targets = match &q.body {
        QueryBody::Dml(d) => &d.returning,
        _ => &q.targets,
    };
    targets.iter().filter(|t| !t.junk).map(|t| t.expr.rel_column(&t.name)).collect()
}

/// Does the text of the tree name a relation `name`? (Coarse: shadowing inside is not looked at.)
fn mentions(node: Node<'_>, name: &str) -> bool {
    let text = format!("{node:?}");
    let needle = format!("relname: Some(\n{:width$}", "", width = 0);
    let _ = needle;
    // RangeVar nodes print `relname: Some("x")`, perhaps over several lines.
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    compact.contains(&format!("relname:Some({:?}", name).replace(' ', ""))
}
