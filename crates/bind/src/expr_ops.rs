//! A_Expr: operators and the constructs that the grammar spells with them.

use super::Binder;
use super::ir::*;
use super::scope::Scope;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_syntax::{Node, NodeList, nodes, raw};
use kilndb_types::{Datum, oids};

fn operator_name(list: &NodeList) -> (Option<&str>, &str) {
    let names: Vec<&str> = list.iter().filter_map(|n| n.as_str()).collect();
    match names.as_slice() {
        [n] => (None, n),
        [.., s, n] => (Some(s), n),
        [] => (None, ""),
    }
}

impl Binder<'_> {
    #[inline(never)]
    pub(crate) fn bind_a_expr(&self, x: &nodes::A_Expr, scope: &Scope<'_>) -> Result<Expr> {
        use raw::A_Expr_Kind as K;
        match x.kind {
            K::AEXPR_OP => self.bind_op(x, scope),
            K::AEXPR_OP_ANY => self.bind_op_any(x, scope, true),
            K::AEXPR_OP_ALL => self.bind_op_any(x, scope, false),
            K::AEXPR_DISTINCT => self.bind_distinct(x, scope, false),
            K::AEXPR_NOT_DISTINCT => self.bind_distinct(x, scope, true),
            K::AEXPR_NULLIF => self.bind_nullif(x, scope),
            K::AEXPR_IN => self.bind_in(x, scope),
            K::AEXPR_LIKE | K::AEXPR_ILIKE | K::AEXPR_SIMILAR => self.bind_op(x, scope),
            K::AEXPR_BETWEEN | K::AEXPR_NOT_BETWEEN | K::AEXPR_BETWEEN_SYM | K::AEXPR_NOT_BETWEEN_SYM => {
                self.bind_between(x, scope)
            }
            _ => Err(Error::unsupported("expression kind")),
        }
    }

    #[inline(never)]
    fn bind_op(&self, x: &nodes::A_Expr, scope: &Scope<'_>) -> Result<Expr> {
        let (schema, name) = operator_name(x.name());
        // Row-wise comparison.
        if let (Node::RowExpr(l), Node::SubLink(s)) = (x.lexpr(), x.rexpr())
            && s.sub_link_type == raw::SubLinkType::EXPR_SUBLINK
        {
            let left = self.bind_row_fields(l, scope)?;
            return self.bind_row_sublink(left, name, s, scope, x.location);
        }
        if let (Node::RowExpr(l), Node::RowExpr(r)) = (x.lexpr(), x.rexpr()) {
            let left = self.bind_row_fields(l, scope)?;
            let right = self.bind_row_fields(r, scope)?;
            return self.row_compare(name, left, right, x.location);
        }
        let left = match x.lexpr() {
            Node::None => None,
            n => Some(self.bind_operand(name, n, scope)?),
        };
        if left.is_none() {
            let right = self.bind_expr(x.rexpr(), scope)?;
            return self.bind_prefix(schema, name, right, x.location);
        }
        let right = self.bind_operand(name, x.rexpr(), scope)?;
        self.make_operator(schema, name, left, right, x.location)
    }

    /// Unary minus of a literal is folded so that -9223372036854775808 is a bigint.
    fn bind_prefix(&self, schema: Option<&str>, name: &str, right: Expr, loc: i32) -> Result<Expr> {
        if name == "-" {
            let folded = match right.kind {
                ExprKind::Const(Datum::Int4(v)) => v.checked_neg().map(Datum::Int4),
                ExprKind::Const(Datum::Int8(v)) => v.checked_neg().map(Datum::Int8),
                _ => None,
            };
            if let Some(d) = folded {
                return Ok(Expr::new(ExprKind::Const(d), right.ty).at(loc));
            }
        }
        self.make_operator(schema, name, None, right, loc)
    }

    pub(crate) fn row_compare(&self, name: &str, left: Vec<Expr>, right: Vec<Expr>, loc: i32) -> Result<Expr> {
        if left.len() != right.len() {
            return self.err(sqlstate::SYNTAX_ERROR, "unequal number of entries in row expressions", loc);
        }
        if left.is_empty() {
            return self.err(sqlstate::FEATURE_NOT_SUPPORTED, "cannot compare rows of zero length", loc);
        }
        let Some(kind) = CompareKind::of_operator(name) else {
            let e = Error::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("could not determine interpretation of row comparison operator {name}"),
            )
            .with_hint("Row comparison operators must be associated with btree operator families.");
            return Err(self.at(e, loc));
        };
        if matches!(kind, CompareKind::Eq | CompareKind::Ne) {
            let pairs = left
                .into_iter()
                .zip(right)
                .map(|(l, r)| self.make_operator(None, name, Some(l), r, loc))
                .collect::<Result<Vec<_>>>()?;
            let all = if kind == CompareKind::Eq { ExprKind::And(pairs) } else { ExprKind::Or(pairs) };
            return Ok(Expr::new(all, oids::BOOL).at(loc));
        }
        let mut l2 = Vec::new();
        let mut r2 = Vec::new();
        for (l, r) in left.into_iter().zip(right) {
            // The operator must exist; both sides then meet at a common type for the comparison itself.
            let probe = self.make_operator(None, name, Some(l.clone()), r.clone(), loc)?;
            let ExprKind::Func(f) = probe.kind else { return Err(Error::internal("row comparison")) };
            let [pl, pr] = <[Expr; 2]>::try_from(f.args).map_err(|_| Error::internal("row comparison"))?;
            let (both, _) = self.to_common(vec![pl, pr], "ROW")?;
            let [pl, pr] = <[Expr; 2]>::try_from(both).map_err(|_| Error::internal("row comparison"))?;
            l2.push(pl);
            r2.push(pr);
        }
        Ok(Expr::new(ExprKind::RowCompare { kind, left: l2, right: r2 }, oids::BOOL).at(loc))
    }

    /// `scalar op ANY (array)`.
    #[inline(never)]
    fn bind_op_any(&self, x: &nodes::A_Expr, scope: &Scope<'_>, any: bool) -> Result<Expr> {
        let (schema, name) = operator_name(x.name());
        let left = self.bind_expr(x.lexpr(), scope)?;
        let right = self.bind_expr(x.rexpr(), scope)?;
        self.scalar_array(schema, name, left, right, any, x.location)
    }

    pub(crate) fn scalar_array(
        &self,
        schema: Option<&str>,
        name: &str,
        left: Expr,
        right: Expr,
        any: bool,
        loc: i32,
    ) -> Result<Expr> {
        let element = if right.ty == oids::UNKNOWN {
            oids::UNKNOWN
        } else {
            let e = self.element_of(right.ty);
            if e == 0 {
                return self.err(sqlstate::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires array on right side", loc);
            }
            e
        };
        let op = self.find_operator(schema, name, Some(left.ty), element, loc)?;
        let mut declared = vec![op.left, op.right];
        let stand_in = Expr::null(element);
        let result = self.resolve_polymorphic(&[left.clone(), stand_in], &mut declared, op.result)?;
        if result != oids::BOOL {
            return self.err(sqlstate::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires operator to yield boolean", loc);
        }
        let Some(info) = self.catalog.function_by_oid(op.function)? else {
            return Err(Error::internal("operator without a function"));
        };
        let right_type = if declared[1] == element { right.ty } else { self.array_of(declared[1]) };
        if right_type == 0 {
            return self.err(
                sqlstate::UNDEFINED_OBJECT,
                format!("could not find array type for data type {}", self.type_name(declared[1])),
                loc,
            );
        }
        let implicit = kilndb_catalog::CastContext::Implicit;
        let left = self.coerce(left, declared[0], implicit)?;
        let right = self.coerce(right, right_type, implicit)?;
        let func = FuncExpr {
            oid: op.function,
            name: op.name.as_str().into(),
            args: vec![left, right],
            strict: info.strict,
            volatility: info.volatility,
            returns_set: false,
            form: FuncForm::Operator,
            operator: op.oid,
            variadic: false,
            internal: true,
            expected: None,
        };
        Ok(Expr::new(ExprKind::ScalarArray { func: Box::new(func), any }, oids::BOOL).at(loc))
    }

    fn equality(&self, name: &str, left: Expr, right: Expr, loc: i32, what: &str) -> Result<FuncExpr> {
        let e = self.make_operator(None, name, Some(left), right, loc)?;
        if e.ty != oids::BOOL {
            return self.err(sqlstate::DATATYPE_MISMATCH, format!("{what} requires = operator to yield boolean"), loc);
        }
        match e.kind {
            ExprKind::Func(f) => Ok(*f),
            _ => Err(Error::internal("operator is not a call")),
        }
    }

    #[inline(never)]
    fn bind_distinct(&self, x: &nodes::A_Expr, scope: &Scope<'_>, negated: bool) -> Result<Expr> {
        if let (Node::RowExpr(l), Node::RowExpr(r)) = (x.lexpr(), x.rexpr()) {
            let left = self.bind_row_fields(l, scope)?;
            let right = self.bind_row_fields(r, scope)?;
            if left.len() != right.len() {
                return self.err(sqlstate::SYNTAX_ERROR, "unequal number of entries in row expressions", x.location);
            }
            let mut parts = Vec::new();
            for (l, r) in left.into_iter().zip(right) {
                let eq = self.equality("=", l, r, x.location, "IS DISTINCT FROM")?;
                parts.push(Expr::new(ExprKind::IsDistinct { eq: Box::new(eq), negated }, oids::BOOL));
            }
            let kind = if negated { ExprKind::And(parts) } else { ExprKind::Or(parts) };
            return Ok(Expr::new(kind, oids::BOOL).at(x.location));
        }
        let left = self.bind_expr(x.lexpr(), scope)?;
        let right = self.bind_expr(x.rexpr(), scope)?;
        let is_null = |e: &Expr| matches!(e.kind, ExprKind::Const(Datum::Null));
        if is_null(&right) || is_null(&left) {
            let arg = if is_null(&right) { left } else { right };
            return Ok(Expr::new(ExprKind::IsNull { arg: Box::new(arg), negated: !negated }, oids::BOOL).at(x.location));
        }
        let eq = self.equality("=", left, right, x.location, "IS DISTINCT FROM")?;
        Ok(Expr::new(ExprKind::IsDistinct { eq: Box::new(eq), negated }, oids::BOOL).at(x.location))
    }

    #[inline(never)]
    fn bind_nullif(&self, x: &nodes::A_Expr, scope: &Scope<'_>) -> Result<Expr> {
        let left = self.bind_expr(x.lexpr(), scope)?;
        let right = self.bind_expr(x.rexpr(), scope)?;
        let eq = self.equality("=", left, right, x.location, "NULLIF")?;
        let (ty, typmod) = eq.args.first().map_or((oids::TEXT, -1), |a| (a.ty, a.typmod));
        Ok(Expr::new(ExprKind::NullIf(Box::new(eq)), ty).with_typmod(typmod).at(x.location))
    }

    #[inline(never)]
    fn bind_in(&self, x: &nodes::A_Expr, scope: &Scope<'_>) -> Result<Expr> {
        let (_, name) = operator_name(x.name());
        let negated = name == "<>";
        let Some(list) = x.rexpr().as_node_list() else { return Err(Error::internal("IN without a list")) };
        if let Node::RowExpr(l) = x.lexpr() {
            let mut parts = Vec::new();
            for item in list {
                let Node::RowExpr(r) = item else {
                    // The row as one value, beside another that must be a row.
                    let (left, right) = (self.bind_expr(x.lexpr(), scope)?, self.bind_expr(item, scope)?);
                    parts.push(self.make_operator(None, name, Some(left), right, x.location)?);
                    continue;
                };
                let left = self.bind_row_fields(l, scope)?;
                let right = self.bind_row_fields(r, scope)?;
                parts.push(self.row_compare(name, left, right, x.location)?);
            }
            let kind = if negated { ExprKind::And(parts) } else { ExprKind::Or(parts) };
            return Ok(Expr::new(kind, oids::BOOL).at(x.location));
        }
        let left = self.bind_expr(x.lexpr(), scope)?;
        let mut plain = Vec::new();
        let mut other = Vec::new();
        for item in list {
            let e = self.bind_value(item, scope)?;
            let mut columns = Vec::new();
            e.columns(&mut columns);
            if columns.is_empty() && !e.has_sublink() { plain.push(e) } else { other.push(e) }
        }
        let mut parts = Vec::new();
        if plain.len() > 1 {
            // One array, if all elements and the left side meet at one type that has arrays.
            let mut all: Vec<&Expr> = vec![&left];
            all.extend(plain.iter());
            let ty = self.common_type(&all, "")?;
            let array = if ty == 0 || ty == oids::RECORD { 0 } else { self.array_of(ty) };
            let fits = array != 0
                && plain
                    .iter()
                    .all(|e| self.can_coerce(e.ty, ty, kilndb_catalog::CastContext::Implicit).unwrap_or(false));
            if fits {
                let elements =
                    plain.drain(..).map(|e| self.coerce_to_common(e, ty, "IN")).collect::<Result<Vec<_>>>()?;
                let array =
                    Expr::new(ExprKind::Array { elements, element_type: ty, multidim: false }, array).at(x.location);
                parts.push(self.scalar_array(None, name, left.clone(), array, !negated, x.location)?);
            }
        }
        for e in plain.into_iter().chain(other) {
            parts.push(self.make_operator(None, name, Some(left.clone()), e, x.location)?);
        }
        if parts.len() == 1 {
            return parts.pop().ok_or_else(|| Error::internal("IN"));
        }
        let kind = if negated { ExprKind::And(parts) } else { ExprKind::Or(parts) };
        Ok(Expr::new(kind, oids::BOOL).at(x.location))
    }

    #[inline(never)]
    fn bind_between(&self, x: &nodes::A_Expr, scope: &Scope<'_>) -> Result<Expr> {
        use raw::A_Expr_Kind as K;
        let Some([low, high]) = x.rexpr().as_node_list().map(|l| [l.get(0), l.get(1)]) else {
            return Err(Error::internal("BETWEEN without bounds"));
        };
        let (Some(low), Some(high)) = (low, high) else { return Err(Error::internal("BETWEEN without bounds")) };
        let loc = x.location;
        let compare = |op: &str, bound: Node<'_>| -> Result<Expr> {
            let left = self.bind_expr(x.lexpr(), scope)?;
            let right = self.bind_value(bound, scope)?;
            self.make_operator(None, op, Some(left), right, loc)
        };
        let and = |a: Expr, b: Expr| Expr::new(ExprKind::And(vec![a, b]), oids::BOOL).at(loc);
        let or = |a: Expr, b: Expr| Expr::new(ExprKind::Or(vec![a, b]), oids::BOOL).at(loc);
        Ok(match x.kind {
            K::AEXPR_BETWEEN => and(compare(">=", low)?, compare("<=", high)?),
            K::AEXPR_NOT_BETWEEN => or(compare("<", low)?, compare(">", high)?),
            K::AEXPR_BETWEEN_SYM => {
                or(and(compare(">=", low)?, compare("<=", high)?), and(compare(">=", high)?, compare("<=", low)?))
            }
            _ => and(or(compare("<", low)?, compare(">", high)?), or(compare("<", high)?, compare(">", low)?)),
        })
    }
}
