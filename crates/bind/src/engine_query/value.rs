//! Values of expressions without a table.

use super::*;
use crate::scope::Scope;
use kilndb_catalog::{CastContext, FunctionInfo};
use kilndb_syntax::Node;

/// Where an expression comes from.
#[derive(Clone, Copy)]
pub enum ValueSource<'a> {
    /// A node of a statement, and the text that was parsed: errors have positions in it.
    Statement(Node<'a>, &'a Arc<str>),
    /// The text of an expression as it is kept.
    Kept(&'a str),
}

/// The value of an expression that names no columns, converted as an assignment does.
pub struct ValueQuery<'a> {
    pub source: ValueSource<'a>,
    /// The type and modifier that the value is wanted in.
    pub ty: (Oid, i32),
    /// The error for an expression of a type, whose name is given, that cannot be converted.
    pub mismatch: &'a dyn Fn(&str) -> Error,
}

impl EngineQuery for ValueQuery<'_> {
    fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement> {
        let (ty, typmod) = self.ty;
        let (binder, expr) = match self.source {
            ValueSource::Statement(node, source) => {
                let binder = Binder { allow_params: false, ..Binder::new(catalog, source.clone(), Vec::new()) };
                let expr = binder.bind_expr(node, &Scope::new(None))?;
                (binder, expr)
            }
            ValueSource::Kept(sql) => {
                let binder = binder_of(catalog);
                let expr = binder.bind_sql_text(sql, &Scope::new(None))?;
                (binder, expr)
            }
        };
        let loc = expr.loc;
        let converted = binder.coerce_to_target(expr, ty, typmod, CastContext::Assignment, false)?;
        let expr = converted.map_err(|e| binder.at((self.mismatch)(&binder.type_name(e.ty)), loc))?;
        Ok(statement(Query { targets: vec![target(expr, "?column?")], ..Query::default() }))
    }
}

/// What a function returns for these arguments, which are of the types that it has been chosen for.
pub struct CallQuery<'a> {
    pub function: &'a FunctionInfo,
    pub arguments: Vec<(Oid, Datum)>,
}

impl EngineQuery for CallQuery<'_> {
    fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement> {
        let binder = binder_of(catalog);
        let f = self.function;
        let args: Vec<Expr> =
            self.arguments.iter().map(|(ty, value)| Expr::new(ExprKind::Const(value.clone()), *ty)).collect();
        let mut declared = f.arg_types.clone();
        let ty = binder.resolve_polymorphic(&args, &mut declared, f.return_type)?;
        let args = args.into_iter().zip(&declared).map(|(arg, ty)| binder.coerce(arg, *ty, CastContext::Implicit));
        let args = args.collect::<Result<Vec<_>>>()?;
        let call = FuncExpr {
            internal: f.language == "internal",
            ..FuncExpr::internal(f.oid, f.name.as_str().into(), args, f.strict, f.volatility)
        };
        let expr = Expr::new(ExprKind::Func(Box::new(call)), ty);
        Ok(statement(Query { targets: vec![target(expr, &f.name)], ..Query::default() }))
    }
}
