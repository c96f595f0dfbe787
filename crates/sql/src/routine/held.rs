//! The variables of a routine that a utility command's query uses (EXPLAIN, CREATE TABLE AS, DECLARE CURSOR), as they
//! are when it runs.
//!
//! Utility commands plan their queries themselves, some more than once. So names are looked up beforehand, by binding
//! the query once for what it asks, and the session holds the answers while the command runs; plans get values in the
//! place of parameters.

use super::language::TupleDescriptor;
use super::spi::{Spi, Variable, VariableConflict, VariableScope};
use crate::context::held::HeldVariables;
use kilndb_base::Result;
use kilndb_bind::variables::Variables;
use kilndb_syntax::{Node, Statement};
use kilndb_types::Datum;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Notes what is asked.
struct Recorder<'a> {
    scope: &'a dyn VariableScope,
    held: RefCell<HeldVariables>,
}

impl VariableScope for Recorder<'_> {
    fn resolve(&self, parts: &[&str], star: bool, required: bool) -> Result<Option<Variable>> {
        let found = self.scope.resolve(parts, star, required)?;
        if let Some(v) = found {
            self.held.borrow_mut().names.push((parts.iter().map(|p| p.to_string()).collect(), star, v));
        }
        Ok(found)
    }
    fn parameter(&self, number: u32) -> Option<Variable> {
        let found = self.scope.parameter(number)?;
        self.held.borrow_mut().numbered.push((number, found));
        Some(found)
    }
    fn conflict(&self) -> VariableConflict {
        self.scope.conflict()
    }
    fn language(&self) -> &'static str {
        self.scope.language()
    }
    fn row_of(&self, variable: u32) -> Result<Option<Arc<TupleDescriptor>>> {
        self.scope.row_of(variable)
    }
    fn value(&self, variable: u32) -> Result<Datum> {
        self.scope.value(variable)
    }
}

/// The query of a utility command that has one.
fn query_of<'n>(node: &Node<'n>) -> Option<Node<'n>> {
    match node {
        Node::ExplainStmt(s) => Some(kilndb_bind::explained_query(s)),
        Node::CreateTableAsStmt(s) => Some(s.query()),
        Node::DeclareCursorStmt(s) => Some(s.query()),
        Node::SelectStmt(s) if s.into_clause().is_some() => Some(*node),
        _ => None,
    }
}

/// EXPLAIN of something that is planned: its lines can be read by a cursor.
pub(super) fn is_explained_query(node: &Node<'_>) -> bool {
    matches!(node, Node::ExplainStmt(s) if crate::session::is_plannable(&kilndb_bind::explained_query(s)) || matches!(s.query(), Node::ExecuteStmt(_)))
}

impl Spi<'_> {
    /// None: the command has no query, or that uses no variables.
    pub(super) fn hold_variables(
        &mut self,
        statement: &Statement,
        scope: &dyn VariableScope,
    ) -> Result<Option<Rc<HeldVariables>>> {
        let node = statement.node();
        let Some(query) = query_of(&node) else { return Ok(None) };
        let recorder = Recorder { scope, held: RefCell::default() };
        let (runtime, source) = (self.runtime, statement.source().clone());
        // What cannot be bound is refused when the command runs.
        self.session.context.with_catalog(runtime, |host| {
            let variables = Variables::new(&recorder);
            let eval = host.eval();
            let _ = kilndb_bind::bind_with_variables(query, source, &host.reader, &variables, Some(&eval));
            Ok(())
        })?;
        let mut held = recorder.held.into_inner();
        if held.names.is_empty() && held.numbered.is_empty() {
            return Ok(None);
        }
        (held.conflict, held.language) = (scope.conflict(), scope.language());
        let used: Vec<Variable> = held.names.iter().map(|n| n.2).chain(held.numbered.iter().map(|n| n.1)).collect();
        for v in used {
            if !held.values.iter().any(|known| known.0 == v.number) {
                held.rows.push((v.number, scope.row_of(v.number)?));
                held.values.push((v.number, scope.value(v.number)?));
            }
        }
        Ok(Some(Rc::new(held)))
    }
}
