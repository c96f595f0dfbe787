//! The body of a SQL function as a query whose parameters are the function's arguments, for the planner to put in the
//! call's place.

use super::Binder;
use super::ir::*;
use super::variables::Variables;
use super::variables::{Variable, VariableConflict, VariableScope};
use kilndb_base::{Error, Oid, Result};
use kilndb_catalog::{CastContext, CatalogView, FunctionInfo};
use kilndb_syntax::Node;
use kilndb_types::Datum;
use kilndb_types::collation::Collation;
use std::sync::Arc;

/// Numbers for relations and CTEs that the statement around does not use.
#[derive(Clone, Copy)]
pub struct FreeNumbers {
    pub rel: u32,
    pub cte: u32,
}

pub struct BoundBody {
    pub query: Query,
    /// The argument that each parameter stands for.
    pub arguments: Vec<usize>,
    /// What the body has not used.
    pub free: FreeNumbers,
}

/// The arguments by number, by name, and by the function's name and theirs.
struct FormalParameters<'a> {
    info: &'a FunctionInfo,
    names: Vec<String>,
    types: &'a [Oid],
    /// The collation that the call's arguments have in common.
    collation: Collation,
}

impl FormalParameters<'_> {
    fn numbered(&self, index: usize) -> Option<Variable> {
        let (number, collation) = (index as u32, self.collation);
        self.types.get(index).map(|type_oid| Variable { number, type_oid: *type_oid, typmod: -1, collation })
    }
    fn named(&self, name: &str) -> Option<Variable> {
        self.names.iter().position(|n| !n.is_empty() && n == name).and_then(|i| self.numbered(i))
    }
}

impl VariableScope for FormalParameters<'_> {
    fn resolve(&self, parts: &[&str], _star: bool, _required: bool) -> Result<Option<Variable>> {
        Ok(match parts {
            [name] => self.named(name),
            [function, name] if *function == self.info.name => self.named(name),
            _ => None,
        })
    }
    fn parameter(&self, number: u32) -> Option<Variable> {
        self.numbered(number.checked_sub(1)? as usize)
    }
    fn conflict(&self) -> VariableConflict {
        VariableConflict::UseColumn
    }
    fn language(&self) -> &'static str {
        "SQL"
    }
    fn value(&self, _variable: u32) -> Result<Datum> {
        Err(Error::internal("an argument of a function that is not called"))
    }
}

/// Binds a body that is one SELECT; its columns become those of `result` (type and modifier). None: it is something
/// else, or does not fit.
pub fn bind_body(
    info: &FunctionInfo,
    (types, collation): (&[Oid], Collation),
    result: &[(Oid, i32)],
    catalog: &dyn CatalogView,
    free: FreeNumbers,
) -> Result<Option<BoundBody>> {
    let script = kilndb_syntax::parse(&info.source)?;
    let statements = script.statements();
    let [statement] = statements.as_slice() else { return Ok(None) };
    let Node::SelectStmt(select) = statement.node() else { return Ok(None) };
    if select.into_clause().is_some() {
        return Ok(None);
    }
    let formals = FormalParameters { info, names: super::resolve::input_names(info), types, collation };
    let variables = Variables::new(&formals);
    let binder = Binder { variables: Some(&variables), ..Binder::new(catalog, Arc::from(&*info.source), Vec::new()) };
    binder.next_rel.set(free.rel);
    binder.next_cte.set(free.cte);
    let bind = || binder.bind_select(select, None);
    // A body that was bound when the function was made is a definition's text.
    let bound = if info.is_sql_body { binder.trusting(bind) } else { bind() };
    let mut query = binder.with_accesses(bound?)?;
    if !binder.shape_result(&mut query, result)? {
        return Ok(None);
    }
    let free = FreeNumbers { rel: binder.next_rel.get(), cte: binder.next_cte.get() };
    let arguments = variables.used().iter().map(|v| v.number as usize).collect();
    Ok(Some(BoundBody { query, arguments, free }))
}

impl Binder<'_> {
    /// Converts a query's columns as the result of a function is converted. False: there are more or fewer, or a column
    /// cannot be converted in place.
    fn shape_result(&self, query: &mut Query, result: &[(Oid, i32)]) -> Result<bool> {
        if query.targets.iter().filter(|t| !t.junk).count() != result.len() {
            return Ok(false);
        }
        let in_place = matches!(query.body, QueryBody::Select) && matches!(query.distinct, Distinct::No);
        for (target, (ty, typmod)) in query.targets.iter_mut().filter(|t| !t.junk).zip(result) {
            if target.expr.ty == *ty && (*typmod < 0 || target.expr.typmod == *typmod) {
                continue;
            }
            if !in_place {
                return Ok(false);
            }
            match self.coerce_to_target(target.expr.clone(), *ty, *typmod, CastContext::Assignment, false)? {
                Ok(converted) => target.expr = converted,
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}
