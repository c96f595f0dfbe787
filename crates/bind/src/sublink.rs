//! Subqueries in expressions.

use super::Binder;
use super::ir::*;
use super::scope::Scope;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_syntax::{Node, nodes, raw};
use kilndb_types::oids;

impl Binder<'_> {
    fn bind_inner(&self, s: &nodes::SubLink, scope: &Scope<'_>) -> Result<Query> {
        let Node::SelectStmt(select) = s.subselect() else {
            return Err(Error::internal("a subquery that is not a SELECT"));
        };
        self.bind_select(select, Some(scope))
    }

    #[inline(never)]
    pub(crate) fn bind_sublink(&self, s: &nodes::SubLink, scope: &Scope<'_>) -> Result<Expr> {
        use raw::SubLinkType as S;
        if scope.clause == super::scope::ClauseKind::CopyWhere {
            return self.err(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "cannot use subquery in COPY FROM WHERE condition",
                s.location,
            );
        }
        let query = self.bind_inner(s, scope)?;
        let visible: Vec<&Target> = query.targets.iter().filter(|t| !t.junk).collect();
        let loc = s.location;
        let single = || -> Result<(kilndb_base::Oid, i32)> {
            match visible.as_slice() {
                [t] => Ok((t.expr.ty, t.expr.typmod)),
                _ => self.err(sqlstate::SYNTAX_ERROR, "subquery must return only one column", loc),
            }
        };
        let make = |kind, query, ty, typmod| {
            let link = SubLink {
                id: self.new_rel(),
                kind,
                query: SharedQuery::new(query),
                left: Vec::new(),
                test: None,
                test_rel: 0,
                equality: false,
            };
            Expr::new(ExprKind::SubLink(Box::new(link)), ty).with_typmod(typmod).at(loc)
        };
        match s.sub_link_type {
            S::EXISTS_SUBLINK => Ok(make(SubKind::Exists, query, oids::BOOL, -1)),
            S::EXPR_SUBLINK => {
                let (ty, typmod) = single()?;
                Ok(make(SubKind::Scalar, query, ty, typmod))
            }
            S::ARRAY_SUBLINK => {
                let (ty, _) = single()?;
                let array = if self.element_of(ty) != 0 { ty } else { self.array_of(ty) };
                if array == 0 {
                    return self.err(
                        sqlstate::UNDEFINED_OBJECT,
                        format!("could not find array type for data type {}", self.type_name(ty)),
                        loc,
                    );
                }
                Ok(make(SubKind::Array, query, array, -1))
            }
            S::ANY_SUBLINK | S::ALL_SUBLINK => {
                let left = match s.testexpr() {
                    Node::RowExpr(r) => self.bind_row_fields(r, scope)?,
                    n => vec![self.bind_expr(n, scope)?],
                };
                let names: Vec<&str> = s.oper_name().iter().filter_map(|n| n.as_str()).collect();
                let name = names.last().copied().unwrap_or("=");
                let kind = if s.sub_link_type == S::ANY_SUBLINK { SubKind::Any } else { SubKind::All };
                self.quantified(kind, left, name, query, loc)
            }
            _ => Err(Error::unsupported("this kind of subquery")),
        }
    }

    /// (a, b) op (SELECT …): the subquery yields at most one row.
    pub(crate) fn bind_row_sublink(
        &self,
        left: Vec<Expr>,
        name: &str,
        s: &nodes::SubLink,
        scope: &Scope<'_>,
        loc: i32,
    ) -> Result<Expr> {
        let query = self.bind_inner(s, scope)?;
        self.quantified(SubKind::RowCompare, left, name, query, loc)
    }

    fn quantified(&self, kind: SubKind, left: Vec<Expr>, name: &str, query: Query, loc: i32) -> Result<Expr> {
        let test_rel = self.new_rel();
        let columns: Vec<Expr> = query
            .targets
            .iter()
            .filter(|t| !t.junk)
            .enumerate()
            .map(|(i, t)| t.expr.as_column(ColId { rel: test_rel, att: i as i16 + 1 }).at(loc))
            .collect();
        if columns.len() < left.len() {
            return self.err(sqlstate::SYNTAX_ERROR, "subquery has too few columns", loc);
        }
        if columns.len() > left.len() {
            return self.err(sqlstate::SYNTAX_ERROR, "subquery has too many columns", loc);
        }
        let count = left.len();
        let test = if count == 1 {
            let (l, c) = (left.into_iter().next(), columns.into_iter().next());
            let (Some(l), Some(c)) = (l, c) else { return Err(Error::internal("subquery comparison")) };
            let e = self.make_operator(None, name, Some(l), c, loc)?;
            if e.ty != oids::BOOL {
                return self.err(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("operator {name} must return type boolean, not type {}", self.type_name(e.ty)),
                    loc,
                );
            }
            e
        } else {
            self.row_compare(name, left, columns, loc)?
        };
        let link = SubLink {
            id: self.new_rel(),
            kind,
            query: SharedQuery::new(query),
            left: Vec::new(),
            test: Some(Box::new(test)),
            test_rel,
            equality: name == "=",
        };
        Ok(Expr::new(ExprKind::SubLink(Box::new(link)), oids::BOOL).at(loc))
    }
}
