//! Literals as parameters, so that statements that differ in their literals only share a plan.
//!
//! Invariants
//! 1. Only a literal that stands as an operand of a comparison or of arithmetic, in an IN list, or as a value that
//!    INSERT or UPDATE stores is lifted. The meaning of all others (LIMIT, ORDER BY 1, patterns, type modifiers,
//!    arguments of functions, …) may depend on their values.
//! 2. A lifted literal has the type that it would have had.
//! 3. Literals inside views, defaults and the like are never lifted: their locations belong to other texts.

use super::Binder;
use super::ir::{Expr, ExprKind};
use super::scope::Scope;
use kilndb_base::{Oid, Result};
use kilndb_syntax::literals::{Literal, LiteralKind};
use kilndb_syntax::{ConstValue, Node, nodes};
use kilndb_types::oids;
use std::cell::RefCell;
use std::sync::Arc;

/// A parameter that stands for a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiftedParam {
    /// Which literal of the scanned statement.
    pub literal: usize,
    pub negated: bool,
    pub type_oid: Oid,
}

/// What of a statement's literals became parameters.
pub struct Lifting {
    source: Arc<str>,
    literals: Vec<Literal>,
    /// Strings that may be lifted as soon as their type is known.
    offered: RefCell<Vec<i32>>,
    params: RefCell<Vec<LiftedParam>>,
}

/// Operators whose operands may vary without another plan being better or another meaning being meant.
fn is_plain_operator(name: &str) -> bool {
    matches!(name, "=" | "<>" | "<" | "<=" | ">" | ">=" | "+" | "-" | "*" | "/" | "%")
}

impl Lifting {
    pub fn new(source: Arc<str>, literals: Vec<Literal>) -> Lifting {
        Lifting { source, literals, offered: RefCell::default(), params: RefCell::default() }
    }
    pub fn into_params(self) -> Vec<LiftedParam> {
        self.params.into_inner()
    }
    /// The literal that the grammar placed at `loc`, and whether it has been negated.
    fn find(&self, loc: i32, is_string: bool) -> Option<(usize, bool)> {
        let loc = u32::try_from(loc).ok()?;
        self.literals.iter().enumerate().find_map(|(i, literal)| {
            if (literal.kind == LiteralKind::String) != is_string {
                return None;
            }
            let here = literal.start == loc;
            (here || !is_string && literal.minus_at == Some(loc)).then_some((i, !here))
        })
    }
}

impl Binder<'_> {
    /// The lifting in force for the text being bound.
    fn lifting(&self) -> Option<&Lifting> {
        self.lifting.filter(|lifting| Arc::ptr_eq(&self.source.borrow(), &lifting.source))
    }

    /// Has a literal of this expression become a parameter? Then it is not for us to say which others it equals.
    pub(crate) fn has_lifted(&self, e: &Expr) -> bool {
        let mut found = false;
        if self.lifting.is_some() {
            let mut look = |x: &mut Expr| {
                found |= matches!(x.kind, ExprKind::Param(_));
                Ok(())
            };
            // `rewrite` is the only walk that goes into subqueries; this one changes nothing.
            let _ = e.clone().rewrite(&mut look);
        }
        found
    }

    /// Binds an operand of operator `name`: a literal may become a parameter.
    pub(crate) fn bind_operand(&self, name: &str, node: Node<'_>, scope: &Scope<'_>) -> Result<Expr> {
        if is_plain_operator(name) { self.bind_value(node, scope) } else { self.bind_expr(node, scope) }
    }

    /// Binds a value to be stored or compared: a literal may become a parameter.
    pub(crate) fn bind_value(&self, node: Node<'_>, scope: &Scope<'_>) -> Result<Expr> {
        if let Node::A_Const(c) = node
            && let Some(lifting) = self.lifting()
        {
            if let Some(param) = self.lift_integer(lifting, c) {
                return Ok(param);
            }
            if matches!(c.val(), Some(ConstValue::String(_))) {
                lifting.offered.borrow_mut().push(c.location);
            }
        }
        self.bind_expr(node, scope)
    }

    fn lift_integer(&self, lifting: &Lifting, c: &nodes::A_Const) -> Option<Expr> {
        let (value, type_oid) = match c.val()? {
            ConstValue::Integer(i) => (i64::from(i), oids::INT4),
            ConstValue::Float(text) => (text.parse().ok().filter(|n| i32::try_from(*n).is_err())?, oids::INT8),
            _ => return None,
        };
        let (literal, negated) = lifting.find(c.location, false)?;
        let found = lifting.literals[literal];
        let kind = if type_oid == oids::INT4 { LiteralKind::Int4 } else { LiteralKind::Int8 };
        let number = if negated { -found.number } else { found.number };
        (found.kind == kind && number == value && !c.isnull)
            .then(|| self.new_lifted(lifting, LiftedParam { literal, negated, type_oid }, c.location))
    }

    /// The parameter for a string literal that is to become a `to`; None: it stays a literal.
    pub(crate) fn lift_string(&self, to: Oid, loc: i32) -> Option<Expr> {
        let lifting = self.lifting()?;
        if !lifting.offered.borrow().contains(&loc)
            || matches!(to, oids::UNKNOWN | oids::CSTRING)
            || self.base_type(to) != to
        {
            return None;
        }
        let (literal, _) = lifting.find(loc, true)?;
        Some(self.new_lifted(lifting, LiftedParam { literal, negated: false, type_oid: to }, loc))
    }

    fn new_lifted(&self, lifting: &Lifting, param: LiftedParam, loc: i32) -> Expr {
        let type_oid = param.type_oid;
        let mut params = lifting.params.borrow_mut();
        let index = params.len();
        params.push(param);
        self.params.borrow_mut().push(type_oid);
        Expr::new(ExprKind::Param(index as u32), type_oid).at(loc)
    }
}
