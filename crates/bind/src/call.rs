//! CALL: which procedure is meant, and its input arguments.

use super::Binder;
use super::ir::*;
use super::resolve::CandidateChoice;
use super::scope::Scope;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::routine::declared_arguments;
use kilndb_catalog::{CatalogView, FunctionInfo};
use kilndb_syntax::{Node, nodes};
use kilndb_types::EvalContext;
use std::sync::Arc;

pub struct BoundCall {
    pub oid: Oid,
    /// What settles polymorphic types: of the input arguments, then of the result; empty if none is polymorphic.
    pub types: Vec<Oid>,
    /// A query of one row: the input arguments.
    pub arguments: BoundStatement,
    /// The types of the client's parameters among the arguments.
    pub param_types: Vec<Oid>,
    /// The output arguments in their order: the name of each, and the number of the parameter that was given for it, if
    /// one was.
    pub outputs: Vec<(String, Option<u32>)>,
}

/// The procedure with its output arguments as further ones, as CALL counts them.
fn with_outputs(info: &Arc<FunctionInfo>) -> Arc<FunctionInfo> {
    if info.all_arg_types.is_empty() {
        return info.clone();
    }
    let mut whole = info.as_ref().clone();
    whole.arg_types = info.all_arg_types.clone();
    whole.arg_modes = vec![b'i'; info.all_arg_types.len()];
    Arc::new(whole)
}

struct ResolvedCall {
    oid: Oid,
    inputs: Vec<Expr>,
    types: Vec<Oid>,
    outputs: Vec<(String, Option<u32>)>,
}

/// The expression inside of all the conversions around it.
fn inner(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Cast { arg, explicit: false, .. } => inner(arg),
        ExprKind::Func(f) if f.form == FuncForm::ImplicitCast => f.args.first().map_or(e, inner),
        _ => e,
    }
}

impl Binder<'_> {
    fn bind_call(&self, f: &nodes::FuncCall) -> Result<ResolvedCall> {
        let loc = f.location;
        let scope = Scope::new(None);
        let names: Vec<&str> = f.funcname().iter().filter_map(|n| n.as_str()).collect();
        let (schema, name) = match names.as_slice() {
            [n] => (None, *n),
            [.., s, n] => (Some(*s), *n),
            [] => return Err(Error::internal("a call without a name")),
        };
        let (mut args, mut arg_names) = (Vec::new(), Vec::new());
        for a in f.args() {
            let (node, arg_name) = match a {
                Node::NamedArgExpr(n) => (n.arg(), n.name().map(str::to_string)),
                other => (other, None),
            };
            arg_names.push(arg_name);
            args.push(self.bind_expr(node, &scope)?);
        }
        let types: Vec<Oid> = args.iter().map(|a| a.ty).collect();
        let list = self.procedures(schema, name, args.len(), &arg_names, f.func_variadic)?;
        let chosen = match self.choose_function(&types, list)? {
            CandidateChoice::One(c) => c,
            other => {
                let shown = schema.map_or_else(|| name.to_string(), |s| format!("{s}.{name}"));
                let signature = self.signature(&shown, &args, &arg_names);
                let e = if matches!(other, CandidateChoice::Ambiguous) {
                    Error::new(sqlstate::AMBIGUOUS_FUNCTION, format!("procedure {signature} is not unique")).with_hint(
                        "Could not choose a best candidate procedure. You might need to add explicit type casts.",
                    )
                } else {
                    Error::new(sqlstate::UNDEFINED_FUNCTION, format!("procedure {signature} does not exist"))
                        .with_hint("No procedure matches the given name and argument types. You might need to add explicit type casts.")
                };
                return Err(self.at(e, loc));
            }
        };
        if chosen.info.kind != b'p' {
            let e = Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                format!("{} is not a procedure", self.signature(name, &args, &arg_names)),
            )
            .with_hint("To call a function, use SELECT.");
            return Err(self.at(e, loc));
        }
        let oid = chosen.info.oid;
        let (args, _) = self.call_arguments(&chosen, args, loc)?;
        let info = self.catalog.function_by_oid(oid)?.ok_or_else(|| Error::internal("a procedure vanished"))?;
        let declared = declared_arguments(&info);
        let given = |e: &Expr| match &e.kind {
            ExprKind::Param(p) => Some(*p),
            _ => None,
        };
        // Arguments that a conversion stands around are looked through: what comes back is converted the other way.
        let outputs = declared
            .iter()
            .enumerate()
            .filter(|(_, a)| a.mode.is_output())
            .map(|(i, a)| (a.name.clone(), args.get(i).and_then(|e| given(inner(e)))));
        let outputs = outputs.collect();
        let inputs: Vec<Expr> = args
            .into_iter()
            .enumerate()
            .filter(|(i, _)| declared.get(*i).is_none_or(|a| a.mode.is_input()))
            .map(|(_, e)| e)
            .collect();
        let polymorphic = info.arg_types.iter().chain(&info.all_arg_types).any(|t| super::is_polymorphic(*t));
        let types =
            if polymorphic { inputs.iter().map(|e| e.ty).chain([info.return_type]).collect() } else { Vec::new() };
        Ok(ResolvedCall { oid, inputs, types, outputs })
    }

    fn procedures(
        &self,
        schema: Option<&str>,
        name: &str,
        count: usize,
        names: &[Option<String>],
        variadic: bool,
    ) -> Result<Vec<super::resolve::Candidate>> {
        let known = self
            .catalog
            .functions(schema, name)?
            .into_iter()
            .map(|info| if info.kind == b'p' { with_outputs(&info) } else { info })
            .collect();
        self.candidates_of(known, count, names, variadic)
    }
}

/// `variables`: of the routine that calls. Without them a client does, and its parameters have these types where it has
/// said so (0: it has not).
pub fn bind_call(
    f: &nodes::FuncCall,
    source: Arc<str>,
    catalog: &dyn CatalogView,
    (variables, declared_types): (Option<&super::variables::Variables<'_>>, &[Oid]),
    eval: Option<&EvalContext<'_>>,
) -> Result<BoundCall> {
    let binder = Binder { eval, variables, ..Binder::new(catalog, source, declared_types.to_vec()) };
    let ResolvedCall { oid, inputs, types, outputs } = binder.bind_call(f)?;
    let param_types = binder.finish_params()?;
    let targets = inputs
        .into_iter()
        .map(|expr| Target { expr, name: String::new(), junk: false, table_oid: 0, attnum: 0 })
        .collect();
    let query = Query { targets, ..Query::default() };
    Ok(BoundCall { oid, types, arguments: BoundStatement::Query(SharedQuery::new(query)), param_types, outputs })
}
