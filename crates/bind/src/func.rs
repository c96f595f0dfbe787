//! Function calls: plain functions, casts in function form, aggregates and window functions.

use super::Binder;
use super::agg::AggregateArguments;
use super::ir::*;
use super::resolve::{Candidate, CandidateChoice};
use super::scope::{ClauseKind, Scope};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::CastContext;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_syntax::{Node, nodes};
use kilndb_types::functions::{self, descriptor::Support};
use kilndb_types::oids;

/// The value once for each row that a set-returning argument gives.
fn for_each_row(value: Expr, argument: Expr) -> Expr {
    let (ty, loc) = (value.ty, value.loc);
    let is_null = Expr::new(ExprKind::IsNull { arg: Box::new(argument), negated: false }, oids::BOOL);
    let whens = vec![(is_null, value.clone())];
    Expr::new(ExprKind::Case { arg: None, whens, otherwise: Some(Box::new(value)) }, ty).at(loc)
}

impl Binder<'_> {
    #[inline(never)]
    pub(crate) fn bind_func_call(&self, f: &nodes::FuncCall, scope: &Scope<'_>) -> Result<Expr> {
        let loc = f.location;
        let names: Vec<&str> = f.funcname().iter().filter_map(|n| n.as_str()).collect();
        let (schema, name) = match names.as_slice() {
            [n] => (None, *n),
            [.., s, n] => (Some(*s), *n),
            [] => return Err(Error::internal("a call without a name")),
        };
        let mut args = Vec::new();
        let mut arg_names: Vec<Option<String>> = Vec::new();
        for a in f.args() {
            let (node, arg_name) = match a {
                Node::NamedArgExpr(n) => (n.arg(), n.name().map(str::to_string)),
                other => (other, None),
            };
            if arg_name.is_none() && arg_names.iter().any(Option::is_some) {
                return self.err(sqlstate::SYNTAX_ERROR, "positional argument cannot follow named argument", loc);
            }
            if let Some(n) = &arg_name
                && arg_names.iter().any(|x| x.as_ref() == Some(n))
            {
                return self.err(sqlstate::SYNTAX_ERROR, format!("argument name \"{n}\" used more than once"), loc);
            }
            arg_names.push(arg_name);
            args.push(self.bind_expr(node, scope)?);
        }
        let direct_args = args.len();
        let mut order = Vec::new();
        if f.agg_within_group {
            for s in f.agg_order() {
                let key = self.bind_sort_expr(s, scope)?;
                args.push(key.expr.clone());
                arg_names.push(None);
                order.push(key);
            }
        }
        let plain = !f.agg_star
            && !f.agg_distinct
            && f.agg_order().is_empty()
            && matches!(f.agg_filter(), Node::None)
            && f.over().is_none();
        let reference = FunctionReference {
            schema,
            name,
            arg_names: &arg_names,
            variadic: f.func_variadic,
            star: f.agg_star,
            can_be_cast: plain,
            loc,
        };
        let candidate = match self.find_function(&reference, &args)? {
            FunctionMatch::Cast(ty) => {
                let arg = args.remove(0);
                return self.explicit_cast(arg, ty, -1, loc);
            }
            FunctionMatch::Field(e) => return Ok(e),
            FunctionMatch::Function(c) => c,
        };
        let kind = candidate.info.kind;
        match kind {
            b'p' => {
                let e = Error::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("{} is a procedure", self.signature(name, &args, &arg_names)),
                )
                .with_hint("To call a procedure, use CALL.");
                return Err(self.at(e, loc));
            }
            b'f' => {
                let wrong = |what: &str| format!("{what} specified, but {name} is not an aggregate function");
                if f.agg_star {
                    return self.err(
                        sqlstate::WRONG_OBJECT_TYPE,
                        format!("{name}(*) specified, but {name} is not an aggregate function"),
                        loc,
                    );
                }
                if f.agg_distinct {
                    return self.err(sqlstate::WRONG_OBJECT_TYPE, wrong("DISTINCT"), loc);
                }
                if f.agg_within_group {
                    return self.err(sqlstate::WRONG_OBJECT_TYPE, wrong("WITHIN GROUP"), loc);
                }
                if !f.agg_order().is_empty() {
                    return self.err(sqlstate::WRONG_OBJECT_TYPE, wrong("ORDER BY"), loc);
                }
                if !matches!(f.agg_filter(), Node::None) {
                    return self.err(sqlstate::WRONG_OBJECT_TYPE, wrong("FILTER"), loc);
                }
                if f.over().is_some() {
                    return self.err(
                        sqlstate::WRONG_OBJECT_TYPE,
                        format!("OVER specified, but {name} is not a window function nor an aggregate function"),
                        loc,
                    );
                }
            }
            b'w' if f.over().is_none() => {
                return self.err(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("window function {name} requires an OVER clause"),
                    loc,
                );
            }
            _ => {}
        }
        let first_type = args.first().map(|a| a.ty);
        let (args, ty) = self.call_arguments(&candidate, args, loc)?;
        if kind == b'f' {
            let info = &candidate.info;
            // pg_typeof: what the binder knows, whatever the value; a literal is of no type yet.
            if functions::support(info.oid) == Support::TypeOf
                && let (Some(argument), Some(first)) = (args.first(), first_type)
            {
                let shown = if first == oids::UNKNOWN || first >= FIRST_USER_OID { first } else { argument.ty };
                let shown = Expr::new(ExprKind::Const(kilndb_types::Datum::Oid(shown)), ty).at(loc);
                return Ok(if argument.has_srf() { for_each_row(shown, argument.clone()) } else { shown });
            }
            if functions::support(info.oid) == Support::CollationOf
                && let (Some(argument), Some(first)) = (args.first(), first_type)
            {
                let shown = self
                    .collation_shown(argument, first)?
                    .map_or(Expr::null(ty), |name| Expr::new(ExprKind::Const(kilndb_types::Datum::text(&name)), ty));
                return Ok(shown.at(loc));
            }
            if let Some(e) = self.enum_function(info.oid, &args, ty)? {
                return Ok(e.at(loc));
            }
            if info.returns_set {
                self.check_srf_place(scope, loc)?;
                scope.saw_srf.set(true);
            }
            return Ok(candidate.call(args, f.func_variadic, ty).at(loc));
        }
        if f.over().is_some() {
            return self.bind_window_call(f, &candidate, args, ty, scope);
        }
        if args.iter().any(|a| a.has_srf()) {
            return self.err(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "aggregate function calls cannot contain set-returning function calls",
                loc,
            );
        }
        self.bind_aggregate(f, &candidate, AggregateArguments { args, direct_args, order, ty }, scope)
    }

    /// `unnest(argument)`, one of several in `unnest(a, b, …)` of FROM.
    pub(crate) fn bind_unnest(&self, argument: Node<'_>, scope: &Scope<'_>, loc: i32) -> Result<Expr> {
        let args = vec![self.bind_expr(argument, scope)?];
        let reference = FunctionReference {
            schema: Some("pg_catalog"),
            name: "unnest",
            arg_names: &[None],
            variadic: false,
            star: false,
            can_be_cast: false,
            loc,
        };
        let FunctionMatch::Function(candidate) = self.find_function(&reference, &args)? else {
            return Err(Error::internal("unnest is no function"));
        };
        let (args, ty) = self.call_arguments(&candidate, args, loc)?;
        Ok(candidate.call(args, false, ty).at(loc))
    }

    fn check_srf_place(&self, scope: &Scope<'_>, loc: i32) -> Result<()> {
        let what = match scope.clause {
            ClauseKind::Where => "WHERE",
            ClauseKind::Having => "HAVING",
            ClauseKind::On => "JOIN conditions",
            ClauseKind::Limit => "LIMIT",
            ClauseKind::Offset => "OFFSET",
            ClauseKind::Values => return Ok(()),
            ClauseKind::Returning | ClauseKind::MergeReturning => "RETURNING",
            ClauseKind::MergeWhen => "MERGE WHEN conditions",
            ClauseKind::UpdateSource => "UPDATE",
            ClauseKind::CopyWhere => "COPY FROM WHERE conditions",
            ClauseKind::Policy => "policy expressions",
            _ => return Ok(()),
        };
        self.err(sqlstate::FEATURE_NOT_SUPPORTED, format!("set-returning functions are not allowed in {what}"), loc)
    }

    pub(crate) fn signature(&self, name: &str, args: &[Expr], names: &[Option<String>]) -> String {
        let list: Vec<String> = args
            .iter()
            .zip(names)
            .map(|(a, n)| match n {
                Some(n) => format!("{n} => {}", self.type_name(a.ty)),
                None => self.type_name(a.ty),
            })
            .collect();
        format!("{name}({})", list.join(", "))
    }

    fn find_function(&self, reference: &FunctionReference<'_>, args: &[Expr]) -> Result<FunctionMatch> {
        let &FunctionReference { schema, name, arg_names, variadic, star, can_be_cast, loc } = reference;
        let types: Vec<Oid> = args.iter().map(|a| a.ty).collect();
        let list = self.candidates(schema, name, args.len(), arg_names, variadic)?;
        let exact = list.iter().any(|c| c.args == types);
        // A type's name used as a function of one argument is a cast, where the cast is trivial.
        if !exact
            && can_be_cast
            && let ([arg], None) = (args, arg_names.first().and_then(|n| n.as_ref()))
        {
            if let Some(t) = self.catalog.type_by_name(schema, name)?
                && !matches!(t.kind, b'p')
            {
                use super::coerce::CoercionPath;
                let path = if arg.ty == oids::UNKNOWN {
                    CoercionPath::Relabel
                } else {
                    self.find_path(arg.ty, t.oid, CastContext::Explicit)?
                };
                let is_function_form = match path {
                    CoercionPath::Relabel => true,
                    CoercionPath::InOut => {
                        !((arg.ty == oids::RECORD || self.is_composite(arg.ty)) && t.category == b'S')
                    }
                    _ => false,
                };
                if is_function_form && !matches!(arg.kind, ExprKind::Param(_)) {
                    self.note_type(schema, &t, loc);
                    return Ok(FunctionMatch::Cast(t.oid));
                }
            }
            if list.is_empty()
                && let Some(e) = self.field_of(arg.clone(), name, loc)?
            {
                return Ok(FunctionMatch::Field(e));
            }
        }
        match self.choose_function(&types, list)? {
            CandidateChoice::One(c) => {
                self.note_function(schema, &c.info, loc);
                Ok(FunctionMatch::Function(Box::new(c)))
            }
            other => {
                let shown = schema.map_or_else(|| name.to_string(), |s| format!("{s}.{name}"));
                let signature = if star { format!("{shown}()") } else { self.signature(&shown, args, arg_names) };
                let e = if matches!(other, CandidateChoice::Ambiguous) {
                    Error::new(sqlstate::AMBIGUOUS_FUNCTION, format!("function {signature} is not unique")).with_hint(
                        "Could not choose a best candidate function. You might need to add explicit type casts.",
                    )
                } else {
                    if let Some(s) = schema
                        && !self.catalog.schema_exists(s)?
                    {
                        return self.err(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{s}\" does not exist"), loc);
                    }
                    Error::new(sqlstate::UNDEFINED_FUNCTION, format!("function {signature} does not exist")).with_hint(
                        "No function matches the given name and argument types. You might need to add explicit type casts.",
                    )
                };
                Err(self.at(e, loc))
            }
        }
    }

    /// Arguments in parameter order, defaults filled in, coerced; and the result type.
    pub(crate) fn call_arguments(&self, c: &Candidate, given: Vec<Expr>, loc: i32) -> Result<(Vec<Expr>, Oid)> {
        let info = &c.info;
        let mut declared = c.args.clone();
        let mut args = given;
        let in_order = c.order.iter().enumerate().all(|(i, p)| i == *p);
        if !in_order || args.len() < info.arg_types.len() && c.variadic_count == 0 && info.variadic != oids::ANY {
            let params = info.arg_types.len();
            let mut slots: Vec<Option<Expr>> = vec![None; params];
            for (a, p) in args.into_iter().zip(&c.order) {
                slots[*p] = Some(a);
            }
            let first_default = params - info.defaults.len().min(params);
            args = Vec::with_capacity(params);
            for (i, s) in slots.into_iter().enumerate() {
                match s {
                    Some(e) => args.push(e),
                    None => {
                        let Some(sql) = i.checked_sub(first_default).and_then(|d| info.defaults.get(d)) else {
                            return Err(Error::internal(format!("argument {i} of {} has no default", info.name)));
                        };
                        // The default decides the type of a polymorphic parameter.
                        let ty = info.arg_types.get(i).copied().unwrap_or(oids::ANY);
                        let target = (self.type_info(ty)?.kind != b'p').then_some((ty, -1));
                        let bound = self.trusting(|| super::bind_expression(sql, None, self.catalog, target))?;
                        args.push(bound.expr);
                    }
                }
            }
            declared = info.arg_types.clone();
        }
        let ty = self.resolve_polymorphic(&args, &mut declared, info.return_type).map_err(|e| self.at(e, loc))?;
        let mut out = Vec::with_capacity(args.len());
        for (a, d) in args.into_iter().zip(&declared) {
            out.push(if *d == oids::ANY || functions::support(info.oid) == Support::ShowsArguments {
                self.keep_or_text(a)?
            } else {
                self.coerce(a, *d, CastContext::Implicit)?
            });
        }
        if c.variadic_count > 0 {
            let elements = out.split_off(out.len() - c.variadic_count);
            let element_type = elements.first().map_or(info.variadic, |e| e.ty);
            let array_type = self.array_of(element_type);
            out.push(Expr::new(ExprKind::Array { elements, element_type, multidim: false }, array_type).at(loc));
        }
        Ok((out, ty))
    }

    /// Arguments declared "any" keep their type; literals of unknown type stay literals of type text.
    fn keep_or_text(&self, e: Expr) -> Result<Expr> {
        if e.ty == oids::UNKNOWN {
            return self.resolve_unknown(e);
        }
        // What is not told the type could not know the label.
        if e.ty >= FIRST_USER_OID && self.type_info(self.base_type(e.ty))?.kind == b'e' {
            return self.coerce(e, oids::TEXT, CastContext::Explicit);
        }
        Ok(e)
    }
}

/// What a call's syntax says of the function, beside its arguments.
struct FunctionReference<'a> {
    schema: Option<&'a str>,
    name: &'a str,
    /// The arguments' names, one for each argument; None for one that is given by position.
    arg_names: &'a [Option<String>],
    variadic: bool,
    /// Written with a star for arguments.
    star: bool,
    /// Nothing but arguments is written, so that the name may be that of a type or of a column.
    can_be_cast: bool,
    loc: i32,
}

/// What a call turns out to be.
enum FunctionMatch {
    Function(Box<Candidate>),
    /// A conversion to the type of that name.
    Cast(Oid),
    /// The field of that name of the argument.
    Field(Expr),
}
