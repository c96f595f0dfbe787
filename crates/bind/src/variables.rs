//! Variables of a routine as parameters of the statements that it runs.

use super::Binder;
use super::collation::is_collatable;
use super::ir::{Expr, ExprKind, Query, Target};
use super::scope::Scope;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::routine::TupleDescriptor;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use kilndb_types::collation::Collation;
use std::cell::RefCell;
use std::sync::Arc;

/// A variable of the routine, as a parameter of a statement. The number is the language's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    pub number: u32,
    pub type_oid: Oid,
    pub typmod: i32,
    /// By what its texts are compared; none: its type's.
    pub collation: Collation,
}

/// Which of the two a name means that is a variable as well as a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VariableConflict {
    /// 42702.
    #[default]
    Error,
    UseVariable,
    UseColumn,
}

/// The variables that a statement's text can see, and their values when it runs.
pub trait VariableScope {
    /// `parts` of a column reference: `x`, `rec.field`, `label.x`, `label.rec.field`; with `star`: `rec.*`, the whole
    /// row. None: no such variable. `required`: no column has that name, so a field that a record lacks is an error.
    fn resolve(&self, parts: &[&str], star: bool, required: bool) -> Result<Option<Variable>>;
    /// `$n`, n from 1.
    fn parameter(&self, number: u32) -> Option<Variable>;
    fn conflict(&self) -> VariableConflict {
        VariableConflict::Error
    }
    /// The language's name in "It could refer to either a … variable or a table column."
    fn language(&self) -> &'static str {
        "PL/pgSQL"
    }
    /// The columns of a variable of type RECORD as it is now.
    fn row_of(&self, variable: u32) -> Result<Option<Arc<TupleDescriptor>>> {
        let _ = variable;
        Ok(None)
    }
    fn value(&self, variable: u32) -> Result<Datum>;
    /// The value as [`VariableScope::value`] gives it; an error if the variable is no longer of the type that the
    /// statement was planned for.
    fn checked_value(&self, variable: &Variable) -> Result<Datum> {
        self.value(variable.number)
    }
}

/// Who is asked, and which variables a statement uses: its parameters, in this order.
pub struct Variables<'a> {
    pub scope: &'a dyn VariableScope,
    used: RefCell<Vec<Variable>>,
}

impl<'a> Variables<'a> {
    pub fn new(scope: &'a dyn VariableScope) -> Variables<'a> {
        Variables { scope, used: RefCell::default() }
    }
    /// The variables that have been found so far.
    pub fn used(&self) -> std::cell::Ref<'_, Vec<Variable>> {
        self.used.borrow()
    }
    pub fn into_used(self) -> Vec<Variable> {
        self.used.into_inner()
    }
    pub(super) fn use_of(&self, v: Variable) -> Expr {
        self.parameter(v)
    }
    fn parameter(&self, v: Variable) -> Expr {
        let mut used = self.used.borrow_mut();
        let at = used.iter().position(|u| u.number == v.number).unwrap_or_else(|| {
            used.push(v);
            used.len() - 1
        });
        let value = Expr::new(ExprKind::Param(at as u32), v.type_oid).with_typmod(v.typmod);
        let is_given = v.collation.oid != 0 && is_collatable(v.type_oid);
        if is_given { value.collated(v.collation) } else { value }
    }
    /// The variable that a parameter stands for.
    pub fn variable(&self, parameter: u32) -> Option<Variable> {
        self.used.borrow().get(parameter as usize).copied()
    }
}

impl Binder<'_> {
    /// `$n` of a routine.
    pub(super) fn numbered_variable(&self, variables: &Variables<'_>, number: i32, loc: i32) -> Result<Expr> {
        let known = u32::try_from(number).ok().and_then(|n| variables.scope.parameter(n));
        match known {
            Some(v) => Ok(variables.parameter(v).at(loc)),
            None => self.err(sqlstate::UNDEFINED_PARAMETER, format!("there is no parameter ${number}"), loc),
        }
    }

    /// A name that may mean a variable or a column.
    pub(super) fn column_or_variable(
        &self,
        variables: &Variables<'_>,
        c: &nodes::ColumnRef,
        scope: &Scope<'_>,
    ) -> Result<Expr> {
        let loc = c.location;
        let names: Vec<&str> = c.fields().iter().filter_map(|f| f.as_str()).collect();
        let star = c.fields().iter().any(|f| matches!(f, Node::A_Star(_)));
        let find = |required: bool| -> Result<Option<Expr>> {
            let found = variables.scope.resolve(&names, star, required).map_err(|e| self.at(e, loc))?;
            // A field of a variable that is a row.
            if let (None, true, [variable @ .., field]) = (found, required && names.len() > 1, names.as_slice())
                && let Some(v) = variables.scope.resolve(variable, false, false).map_err(|e| self.at(e, loc))?
            {
                return self.field_of(variables.parameter(v).at(loc), field, loc);
            }
            if let (Some(v), [name]) = (&found, names.as_slice()) {
                self.note_argument(v.number, name, scope, loc);
            }
            Ok(found.map(|v| variables.parameter(v).at(loc)))
        };
        let conflict = variables.scope.conflict();
        if conflict == VariableConflict::UseVariable
            && let Some(found) = find(false)?
        {
            return Ok(found);
        }
        match self.bind_plain_column_ref(c, scope) {
            Ok(column) => {
                if conflict == VariableConflict::Error
                    && variables.scope.resolve(&names, star, false).is_ok_and(|v| v.is_some())
                {
                    let e = Error::new(
                        sqlstate::AMBIGUOUS_COLUMN,
                        format!("column reference \"{}\" is ambiguous", names.join(".")),
                    )
                    .with_detail(format!(
                        "It could refer to either a {} variable or a table column.",
                        variables.scope.language()
                    ));
                    return Err(self.at(e, loc));
                }
                Ok(column)
            }
            Err(e) if matches!(e.sqlstate(), sqlstate::UNDEFINED_COLUMN | sqlstate::UNDEFINED_TABLE) => {
                match find(true)? {
                    Some(found) => Ok(found),
                    None => Err(e),
                }
            }
            Err(e) => Err(e),
        }
    }

    /// `v.*` of a variable that is a row.
    pub(super) fn row_variable(&self, names: &[&str], loc: i32) -> Result<Option<Expr>> {
        let Some(variables) = self.variables else { return Ok(None) };
        let found = variables.scope.resolve(names, true, true).map_err(|e| self.at(e, loc))?;
        Ok(found.map(|v| variables.parameter(v).at(loc)))
    }

    /// `target := value`: a query of the variable's new value. The first `names` names of the target are the variable.
    pub(super) fn bind_assignment_target(&self, target: &nodes::ResTarget, names: usize) -> Result<Query> {
        let scope = Scope::new(None);
        let steps: Vec<Node<'_>> = target.indirection().iter().collect();
        let mut parts = vec![target.name().unwrap_or("")];
        parts.extend(steps.iter().take(names.saturating_sub(1)).filter_map(|s| s.as_str()));
        let value = self.bind_expr(target.val(), &scope)?;
        let value = self.resolve_unknown_unless_target(value, steps.len() >= names)?;
        let variable = match self.variables {
            Some(variables) => variables.scope.resolve(&parts, false, true)?.map(|v| variables.parameter(v)),
            None => None,
        };
        let base = variable.ok_or_else(|| {
            Error::new(sqlstate::SYNTAX_ERROR, format!("\"{}\" is not a known variable", parts.join(".")))
        })?;
        let steps = steps.get(names.saturating_sub(1)..).unwrap_or_default();
        let expr = if steps.is_empty() {
            value
        } else {
            self.assign_steps(base, steps, value, parts.first().copied().unwrap_or(""), None, &scope)?
        };
        let targets = vec![Target { expr, name: "?column?".to_string(), junk: false, table_oid: 0, attnum: 0 }];
        Ok(Query { targets, ..Query::default() })
    }

    fn resolve_unknown_unless_target(&self, value: Expr, has_steps: bool) -> Result<Expr> {
        if has_steps { Ok(value) } else { self.resolve_unknown(value) }
    }
}
