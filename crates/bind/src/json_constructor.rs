//! JSON_OBJECT(…) and JSON_ARRAY(…): the constructors of SQL/JSON that take lists of values.
//!
//! Each is a call of a function that pg_proc does not have, with the clauses as its first argument; the result is json or
//! jsonb, and becomes what RETURNING says.

use super::Binder;
use super::ir::*;
use super::scope::Scope;
use kilndb_base::{Error, Oid, Result, SqlState, sqlstate};
use kilndb_catalog::CastContext;
use kilndb_syntax::{nodes, raw};
use kilndb_types::functions::json_constructor::*;
use kilndb_types::{Datum, oids};

const CONVERT_FROM: Oid = 1714;
const CONVERT_TO: Oid = 1717;

/// What is made, and what of it RETURNING says.
struct Constructor<'a> {
    /// The functions that make json and jsonb.
    functions: [Oid; 2],
    name: &'static str,
    flags: i32,
    output: Option<&'a nodes::JsonOutput>,
    loc: i32,
}

fn is_string(binder: &Binder<'_>, ty: Oid) -> bool {
    matches!(binder.base_type(ty), oids::TEXT | oids::VARCHAR | oids::BPCHAR | oids::NAME)
}

/// The bytes of a text in UTF-8, or the text of such bytes.
fn converted(function: Oid, name: &str, value: Expr, ty: Oid) -> Expr {
    let (loc, encoding) = (value.loc, Expr::new(ExprKind::Const(Datum::text("UTF8")), oids::NAME));
    let call = FuncExpr::internal(function, name.into(), vec![value, encoding], true, b's');
    Expr::new(ExprKind::Func(Box::new(call)), ty).at(loc)
}

impl Binder<'_> {
    #[inline(never)]
    pub(crate) fn bind_json_object(&self, o: &nodes::JsonObjectConstructor, scope: &Scope<'_>) -> Result<Expr> {
        let mut args = Vec::new();
        for pair in o.exprs() {
            args.push(self.resolve_unknown(self.bind_expr(pair.key(), scope)?)?);
            let value = pair.value().ok_or_else(|| Error::internal("a key without a value"))?;
            args.push(self.bind_json_value(value, scope)?);
        }
        let flags = if o.absent_on_null { ABSENT_ON_NULL } else { 0 } | if o.unique { UNIQUE_KEYS } else { 0 };
        let functions = [JSON_OBJECT, JSONB_OBJECT];
        let what = Constructor { functions, name: "json_object", flags, output: o.output(), loc: o.location };
        self.json_constructor(&what, args)
    }

    #[inline(never)]
    pub(crate) fn bind_json_array(&self, a: &nodes::JsonArrayConstructor, scope: &Scope<'_>) -> Result<Expr> {
        let args = a.exprs().iter().map(|value| self.bind_json_value(value, scope)).collect::<Result<Vec<_>>>()?;
        let flags = if a.absent_on_null { ABSENT_ON_NULL } else { 0 };
        let functions = [JSON_ARRAY, JSONB_ARRAY];
        let what = Constructor { functions, name: "json_array", flags, output: a.output(), loc: a.location };
        self.json_constructor(&what, args)
    }

    /// A value; with FORMAT JSON its text is JSON already.
    fn bind_json_value(&self, value: &nodes::JsonValueExpr, scope: &Scope<'_>) -> Result<Expr> {
        let e = self.resolve_unknown(self.bind_expr(value.raw_expr(), scope)?)?;
        let Some(format) = value.format().filter(|f| f.format_type != raw::JsonFormatType::JS_FORMAT_DEFAULT) else {
            return Ok(e);
        };
        let loc = format.location;
        let base = self.base_type(e.ty);
        if base != oids::BYTEA {
            self.refuse_encoding(
                format,
                sqlstate::DATATYPE_MISMATCH,
                "JSON ENCODING clause is only allowed for bytea input type",
            )?;
        }
        let text = match base {
            oids::JSON | oids::JSONB => return Ok(e),
            oids::BYTEA => converted(CONVERT_FROM, "convert_from", e, oids::TEXT),
            _ if is_string(self, e.ty) => e,
            _ => {
                let message = "cannot use non-string types with explicit FORMAT JSON clause";
                return self.err(sqlstate::DATATYPE_MISMATCH, message, loc);
            }
        };
        self.explicit_cast(text, oids::JSON, -1, loc)
    }

    fn refuse_encoding(&self, format: &nodes::JsonFormat, state: SqlState, message: &str) -> Result<()> {
        match format.encoding {
            raw::JsonEncoding::JS_ENC_DEFAULT => Ok(()),
            _ => self.err(state, message, format.location),
        }
    }

    fn json_constructor(&self, what: &Constructor<'_>, args: Vec<Expr>) -> Result<Expr> {
        let returning = match what.output.and_then(|output| Some((output, output.type_name()?))) {
            Some((output, name)) => {
                let (ty, typmod) = self.resolve_type(name)?;
                if let Some(format) = output.returning().and_then(|r| r.format())
                    && self.base_type(ty) != oids::BYTEA
                {
                    self.refuse_encoding(
                        format,
                        sqlstate::FEATURE_NOT_SUPPORTED,
                        "cannot set JSON encoding for non-bytea output types",
                    )?;
                }
                Some((ty, typmod))
            }
            None => None,
        };
        // Without RETURNING one jsonb among the values makes the whole jsonb.
        let is_binary = match returning {
            Some((ty, _)) => ty == oids::JSONB,
            None => args.iter().any(|arg| arg.ty == oids::JSONB),
        };
        let [json, jsonb] = what.functions;
        let (function, made) = if is_binary { (jsonb, oids::JSONB) } else { (json, oids::JSON) };
        let flags = Expr::new(ExprKind::Const(Datum::Int4(what.flags)), oids::INT4);
        let args = std::iter::once(flags).chain(args).collect();
        let call = FuncExpr::internal(function, what.name.into(), args, false, b's');
        let e = Expr::new(ExprKind::Func(Box::new(call)), made).at(what.loc);
        match returning {
            Some((ty, typmod)) => self.json_returned(e, ty, typmod, what.loc),
            None => Ok(e),
        }
    }

    fn json_returned(&self, e: Expr, ty: Oid, typmod: i32, loc: i32) -> Result<Expr> {
        if e.ty == ty {
            return Ok(e);
        }
        if self.base_type(ty) == oids::BYTEA {
            let text = self.explicit_cast(e, oids::TEXT, -1, loc)?;
            return self.explicit_cast(converted(CONVERT_TO, "convert_to", text, oids::BYTEA), ty, typmod, loc);
        }
        match self.coerce_to_target(e, ty, typmod, CastContext::Assignment, false)? {
            Ok(e) => Ok(e.at(loc)),
            Err(e) => {
                let message = format!("cannot cast type {} to {}", self.type_name(e.ty), self.type_name(ty));
                self.err(sqlstate::CANNOT_COERCE, message, -1)
            }
        }
    }
}
