//! Prepared statements: parsed once, planned once per catalog version, shared between sessions.

use super::Session;
use crate::bind;
use crate::client::Runtime;
use crate::plan::{self, Plan};
use crate::session::environment::statement_host;
use kilndb_base::{Oid, Result};
use kilndb_syntax::{Node, Statement};
use std::sync::{Arc, Mutex};

/// A named or unnamed statement. Without a statement it is the empty query.
pub(crate) struct Prepared {
    pub sql: Arc<str>,
    pub statement: Option<Statement>,
    /// As declared by the client, 0 = to be inferred.
    pub declared_types: Vec<Oid>,
    pub param_types: Vec<Oid>,
    /// SQL-level PREPARE.
    pub from_sql: bool,
    pub prepare_time: i64,
    planned: Mutex<Option<Planned>>,
}

#[derive(Clone)]
struct Planned {
    catalog_version: u64,
    path: Arc<[Oid]>,
    plan: Arc<Plan>,
}

/// Statements that are bound and planned; the others are utility commands.
pub(crate) fn is_plannable(node: &Node<'_>) -> bool {
    matches!(
        node,
        Node::SelectStmt(_) | Node::InsertStmt(_) | Node::UpdateStmt(_) | Node::DeleteStmt(_) | Node::MergeStmt(_)
    ) && !is_select_into(node)
}

fn is_select_into(node: &Node<'_>) -> bool {
    matches!(node, Node::SelectStmt(s) if s.into_clause().is_some())
}

impl Prepared {
    /// None for what has no result.
    pub(crate) fn result_types(&self) -> Option<Vec<Oid>> {
        let planned = self.planned.lock().unwrap_or_else(|e| e.into_inner());
        let columns = &planned.as_ref()?.plan.columns;
        (!columns.is_empty()).then(|| columns.iter().map(|c| c.type_oid).collect())
    }
}

impl Session {
    /// Parses and, if it can be planned, plans: errors show at PREPARE.
    pub(crate) fn prepare_statement(
        &mut self,
        sql: &str,
        statement: Option<Statement>,
        declared_types: &[Oid],
        from_sql: bool,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Prepared>> {
        let mut prepared = Prepared {
            sql: Arc::from(sql),
            statement,
            declared_types: declared_types.to_vec(),
            param_types: declared_types.to_vec(),
            from_sql,
            prepare_time: self.now(),
            planned: Mutex::new(None),
        };
        if let Some(statement) = prepared.statement.clone()
            && is_plannable(&statement.node())
        {
            let catalog_version = self.database.version();
            let plan = self.make_plan(&statement, declared_types, runtime)?;
            prepared.param_types = plan.param_types.clone();
            self.remember(&prepared, plan, catalog_version);
        }
        Ok(Arc::new(prepared))
    }

    /// Binds and plans a statement as the catalogs are now.
    pub(crate) fn make_plan(&mut self, statement: &Statement, declared_types: &[Oid], runtime: &dyn Runtime) -> Result<Arc<Plan>> {
        self.make_plan_of(statement.node(), statement.source().clone(), declared_types, runtime)
    }

    pub(crate) fn make_plan_of(&mut self, node: Node<'_>, source: Arc<str>, declared_types: &[Oid], runtime: &dyn Runtime) -> Result<Arc<Plan>> {
        let environment = self.environment(runtime)?;
        let host = statement_host!(self, environment);
        let mut param_types = declared_types.to_vec();
        let mut planned = Err(kilndb_base::Error::internal("a statement was not planned"));
        // Binding and planning recurse as deep as the statement nests.
        runtime.on_large_stack(&mut || {
            let bound = bind::bind_node(node, source.clone(), &host.reader, &mut param_types);
            planned = bound.and_then(|bound| plan::plan(bound, std::mem::take(&mut param_types), &host.reader, &self.instance.engine, &host.eval()));
        });
        planned
    }

    /// The plan of a prepared statement, made anew if the catalogs have changed.
    pub(crate) fn plan_of(&mut self, prepared: &Prepared, runtime: &dyn Runtime) -> Result<Arc<Plan>> {
        let known = prepared.planned.lock().unwrap_or_else(|e| e.into_inner()).clone();
        if let Some(known) = known
            && !self.has_ddl
            && self.database.is_current(known.catalog_version)
            && self.path_is(&known.path)
        {
            return Ok(known.plan);
        }
        let statement = prepared.statement.clone().ok_or_else(|| kilndb_base::Error::internal("an empty statement has no plan"))?;
        let catalog_version = self.database.version();
        let plan = self.make_plan(&statement, &prepared.param_types, runtime)?;
        self.remember(prepared, plan.clone(), catalog_version);
        Ok(plan)
    }

    fn path_is(&self, path: &Arc<[Oid]>) -> bool {
        self.path.0 == self.settings.generation && (Arc::ptr_eq(&self.path.2, path) || self.path.2 == *path)
    }

    /// `catalog_version`: as it was before the plan was made.
    fn remember(&self, prepared: &Prepared, plan: Arc<Plan>, catalog_version: u64) {
        if !self.has_ddl {
            let path = self.path.2.clone();
            *prepared.planned.lock().unwrap_or_else(|e| e.into_inner()) = Some(Planned { catalog_version, path, plan });
        }
    }
}
