//! Calls of SQL functions that are replaced by what they stand for, under PostgreSQL's rules: an expression in the
//! place of a scalar call, a subquery in the place of a set-returning one in FROM.
//!
//! Invariants
//! 1. A call is replaced only if the result, the errors and the number of evaluations of volatile or expensive
//!    arguments stay the same.
//! 2. A function that cannot be replaced is called, and raises its errors when it runs.
//! 3. A plan is made anew when any function changes (`catalog::changes` counts a change of pg_proc as one of
//!    everything).

use kilndb_base::{Oid, Result};
use kilndb_bind::inline::{BoundBody, FreeNumbers, bind_body};
use kilndb_bind::ir::*;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::{CatalogView, FunctionInfo};
use kilndb_types::oids;
use std::sync::Arc;

/// Relations of bodies are numbered from here: below are those of the statement, the planner's own count down from the
/// top.
const FIRST_REL: u32 = 0x4000_0000;

/// How deep functions may be nested in functions.
const DEPTH_MAX: usize = 32;

struct Inliner<'a> {
    catalog: &'a dyn CatalogView,
    free: FreeNumbers,
    /// Functions whose bodies are being replaced: a recursive one is called.
    active: Vec<Oid>,
}

pub(super) fn inline_functions(query: &mut Query, catalog: &dyn CatalogView) -> Result<()> {
    Inliner::new(catalog, FIRST_REL).query(query)
}

/// As [`inline_functions`], in an expression of a definition.
pub(super) fn inline_in_expression(expr: &mut Expr, catalog: &dyn CatalogView) -> Result<()> {
    let mut inliner = Inliner::new(catalog, FIRST_REL);
    expr.rewrite(&mut |e| inliner.scalar(e))
}

impl<'a> Inliner<'a> {
    fn new(catalog: &'a dyn CatalogView, first: u32) -> Inliner<'a> {
        Inliner { catalog, free: FreeNumbers { rel: first, cte: first }, active: Vec::new() }
    }

    fn query(&mut self, query: &mut Query) -> Result<()> {
        query.rewrite(&mut |e| self.scalar(e))?;
        self.tables(query)?;
        if let QueryBody::Dml(d) = &mut query.body {
            self.rules(d)?;
        }
        query.rewrite(&mut |e| match &mut e.kind {
            ExprKind::SubLink(s) => self.tables(&mut s.query),
            _ => Ok(()),
        })
    }

    /// Inlines functions in the expressions that a table's definition adds to a change of its rows.
    fn rules(&mut self, d: &mut Dml) -> Result<()> {
        let definitions = d.generated.iter_mut().map(|a| &mut a.expr).chain(d.checks.iter_mut().map(|(_, e)| e));
        let keys = d.indexes.iter_mut().flat_map(|i| i.expressions.iter_mut().flatten().chain(i.predicate.as_mut()));
        for e in definitions.chain(keys) {
            e.rewrite(&mut |e| self.scalar(e))?;
        }
        Ok(())
    }

    /// The function that a call is of, if one of its kind may be replaced at all.
    fn candidate(&self, f: &FuncExpr) -> Result<Option<Arc<FunctionInfo>>> {
        if f.oid < FIRST_USER_OID || self.active.len() >= DEPTH_MAX || self.active.contains(&f.oid) {
            return Ok(None);
        }
        let Some(info) = self.catalog.function_by_oid(f.oid)? else { return Ok(None) };
        let fits = info.language == "sql"
            && info.kind == b'f'
            && !info.security_definer
            && info.config.is_empty()
            && info.arg_types.len() == f.args.len();
        Ok(fits.then_some(info))
    }

    /// A body that cannot be bound is left to the call.
    fn body(&mut self, info: &FunctionInfo, f: &FuncExpr, result: &[(Oid, i32)]) -> Option<BoundBody> {
        let types: Vec<Oid> = f.args.iter().map(|a| a.ty).collect();
        let collation = kilndb_bind::collation::of_arguments(&f.args);
        let bound = bind_body(info, (&types, collation), result, self.catalog, self.free).ok()??;
        self.free = bound.free;
        Some(bound)
    }

    /// What a body names is named by the statement only if the body takes the call's place.
    fn scalar(&mut self, e: &mut Expr) -> Result<()> {
        if !matches!(&e.kind, ExprKind::Func(f) if f.oid >= FIRST_USER_OID) {
            return Ok(());
        }
        let named = self.catalog.named_schemas();
        if !self.replace_scalar(e)? {
            self.catalog.keep_named_schemas(&named);
        }
        Ok(())
    }

    fn replace_scalar(&mut self, e: &mut Expr) -> Result<bool> {
        let ExprKind::Func(f) = &e.kind else { return Ok(false) };
        if f.oid < FIRST_USER_OID || f.returns_set || matches!(e.ty, oids::RECORD | oids::VOID) {
            return Ok(false);
        }
        let is_row = self.catalog.type_by_oid(e.ty)?.is_some_and(|t| t.kind == b'c');
        let Some(info) = self.candidate(f)?.filter(|info| !info.returns_set && !is_row) else { return Ok(false) };
        let Some(body) = self.body(&info, f, &[(e.ty, -1)]) else { return Ok(false) };
        let Some(mut expr) = only_expression(body.query) else { return Ok(false) };
        let volatility_fits = match info.volatility {
            b'i' => expr.is_immutable(),
            b's' => !expr.is_volatile(),
            _ => true,
        };
        // These kinds of expressions are never NULL.
        let is_known =
            info.volatility == b'i' && f.args.iter().all(|a| matches!(&a.kind, ExprKind::Const(d) if !d.is_null()));
        let strict = info.strict && !is_known;
        if !volatility_fits || (strict && is_nonstrict(&expr)) || !arguments_may_move(&expr, &body.arguments, f, strict)
        {
            return Ok(false);
        }
        self.active.push(f.oid);
        let inner = expr.rewrite(&mut |e| self.scalar(e));
        self.active.pop();
        inner?;
        substitute(&mut expr, &body.arguments, &f.args)?;
        let loc = e.loc;
        *e = expr.at(loc);
        Ok(true)
    }

    /// Set-returning calls in FROM, at all levels that are not subqueries of expressions.
    fn tables(&mut self, query: &mut Query) -> Result<()> {
        for rel in &mut query.rels {
            if let RelKind::Subquery(inner) = &mut rel.kind {
                self.tables(inner)?;
                continue;
            }
            let named = self.catalog.named_schemas();
            let Some(inner) = self.table(rel)? else {
                self.catalog.keep_named_schemas(&named);
                continue;
            };
            let mut outer = Vec::new();
            inner.outer_columns(&mut outer);
            // A CTE is computed once, but this would be run for each row.
            if !outer.is_empty() && has_ctes(&inner) {
                self.catalog.keep_named_schemas(&named);
                continue;
            }
            rel.lateral = !outer.is_empty();
            rel.kind = RelKind::Subquery(SharedQuery::new(inner));
        }
        for cte in &mut query.ctes {
            self.tables(&mut cte.query)?;
        }
        match &mut query.body {
            QueryBody::SetOp { left, right, .. } => {
                self.tables(left)?;
                self.tables(right)
            }
            QueryBody::Dml(d) => d.source.as_mut().map_or(Ok(()), |source| self.tables(source)),
            _ => Ok(()),
        }
    }

    fn table(&mut self, rel: &Rel) -> Result<Option<Query>> {
        let RelKind::Function { calls, ordinality: false } = &rel.kind else { return Ok(None) };
        let [TableFunc { expr: Expr { kind: ExprKind::Func(f), ty, .. }, .. }] = calls.as_slice() else {
            return Ok(None);
        };
        if !f.returns_set || *ty == oids::VOID {
            return Ok(None);
        }
        let Some(info) = self.candidate(f)?.filter(|i| i.returns_set && !i.strict && i.volatility != b'v') else {
            return Ok(None);
        };
        if f.args.iter().any(|a| a.is_volatile() || a.has_sublink()) {
            return Ok(None);
        }
        let result: Vec<(Oid, i32)> = rel.columns.iter().map(|c| (c.ty, -1)).collect();
        let Some(body) = self.body(&info, f, &result) else { return Ok(None) };
        let mut inner = body.query;
        if !inner.locks.is_empty() || inner.ctes.iter().any(|c| matches!(c.query.body, QueryBody::Dml(_))) {
            return Ok(None);
        }
        self.active.push(f.oid);
        let nested = self.query(&mut inner);
        self.active.pop();
        nested?;
        inner.rewrite(&mut |e| replace_parameter(e, &body.arguments, &f.args))?;
        Ok(Some(inner))
    }
}

/// Has the query a WITH clause at any level?
fn has_ctes(q: &Query) -> bool {
    let mut found = !q.ctes.is_empty();
    q.for_exprs(&mut |e| found |= e.any(&|e| matches!(&e.kind, ExprKind::SubLink(s) if has_ctes(&s.query))));
    q.for_subqueries(&mut |inner| found |= has_ctes(inner));
    found
}

/// The expression of `SELECT expression` and nothing else.
fn only_expression(mut q: Query) -> Option<Expr> {
    let plain = matches!(q.body, QueryBody::Select)
        && q.ctes.is_empty()
        && q.rels.is_empty()
        && q.from.is_empty()
        && q.filter.is_none()
        && q.group_by.is_empty()
        && q.grouping_sets.is_none()
        && q.having.is_none()
        && !q.has_aggs
        && q.windows.is_empty()
        && q.order_by.is_empty()
        && matches!(q.distinct, Distinct::No)
        && q.limit.is_none()
        && q.offset.is_none()
        && q.targets.len() == 1;
    let target = q.targets.pop().filter(|_| plain)?;
    let e = target.expr;
    (!e.has_sublink() && !e.has_agg() && !e.has_window() && !e.has_srf()).then_some(e)
}

/// May it be something else than NULL with a NULL in it?
fn is_nonstrict(e: &Expr) -> bool {
    e.any(&|e| match &e.kind {
        ExprKind::Func(f) | ExprKind::ScalarArray { func: f, .. } => !f.strict,
        ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::Column(_) | ExprKind::Not(_) | ExprKind::Collate { .. } => {
            false
        }
        ExprKind::Cast { kind, .. } => matches!(kind, CastKind::Row | CastKind::Domain),
        ExprKind::Field { .. } | ExprKind::Subscript { .. } => false,
        _ => true,
    })
}

/// Is each argument evaluated as often as in a call, or cheap and not volatile?
fn arguments_may_move(body: &Expr, arguments: &[usize], f: &FuncExpr, strict: bool) -> bool {
    let uses = |argument: usize| {
        let count = std::cell::Cell::new(0);
        body.any(&|e| {
            if let ExprKind::Param(n) = &e.kind
                && arguments.get(*n as usize) == Some(&argument)
            {
                count.set(count.get() + 1);
            }
            false
        });
        count.get()
    };
    f.args.iter().enumerate().all(|(i, a)| match uses(i) {
        0 => !strict,
        1 => true,
        _ => !a.is_volatile() && !a.has_sublink() && cost(a) <= EXPENSIVE,
    })
}

/// Operators that an argument that is evaluated twice may have.
const EXPENSIVE: f64 = 10.0;

/// The cost of an expression in operators; a routine costs as much as PostgreSQL assumes by default.
fn cost(e: &Expr) -> f64 {
    let own = match &e.kind {
        ExprKind::Func(f) if f.oid >= FIRST_USER_OID => 100.0,
        ExprKind::Func(_) | ExprKind::NullIf(_) | ExprKind::IsDistinct { .. } | ExprKind::ScalarArray { .. } => 1.0,
        ExprKind::Cast { kind: CastKind::InOut, .. } => 2.0,
        _ => 0.0,
    };
    let mut sum = own;
    e.for_children(&mut |c| sum += cost(c));
    sum
}

fn replace_parameter(e: &mut Expr, arguments: &[usize], values: &[Expr]) -> Result<()> {
    if let ExprKind::Param(n) = &e.kind
        && let Some(value) = arguments.get(*n as usize).and_then(|a| values.get(*a))
    {
        *e = value.clone();
    } else {
        // The position would be one in another text.
        e.loc = -1;
    }
    Ok(())
}

fn substitute(body: &mut Expr, arguments: &[usize], values: &[Expr]) -> Result<()> {
    body.rewrite(&mut |e| replace_parameter(e, arguments, values))
}
