//! CREATE TABLE AS and SELECT INTO.

use super::Definitions;
use super::create_table::NewTable;
use super::temporary_objects::{on_commit_option, refuse_in_temporary_schema, says_global};
use super::view::{refuse_same_names, result_columns};
use crate::client::Runtime;
use crate::context::PlanRequest;
use kilndb_base::{Error, Result};
use kilndb_catalog::global::GLOBAL;
use kilndb_syntax::raw::ObjectType;
use kilndb_syntax::{Node, nodes};
use std::sync::Arc;

pub(super) const TOO_MANY_NAMES: &str = "too many column names were specified";

/// The query that a new table's rows come from, and the text that was parsed.
#[derive(Clone, Copy)]
struct SourceQuery<'a> {
    node: Node<'a>,
    source: &'a Arc<str>,
}

impl Definitions<'_> {
    pub fn create_table_as(
        &mut self,
        s: &nodes::CreateTableAsStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        if s.objtype == ObjectType::OBJECT_MATVIEW {
            return self.create_materialized_view(s, source, runtime);
        }
        let into = s.into().ok_or_else(|| Error::internal("CREATE TABLE AS without a table"))?;
        if !matches!(s.query(), Node::SelectStmt(_)) {
            return Err(Error::unsupported("CREATE TABLE AS EXECUTE is not supported"));
        }
        let query = SourceQuery { node: s.query(), source };
        self.create_from_query(into, query, s.if_not_exists, runtime)
    }

    pub fn select_into(
        &mut self,
        s: &nodes::SelectStmt,
        node: Node<'_>,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let into = s.into_clause().ok_or_else(|| Error::internal("SELECT INTO without a table"))?;
        self.create_from_query(into, SourceQuery { node, source }, false, runtime)
    }

    fn create_from_query(
        &mut self,
        into: &nodes::IntoClause,
        query: SourceQuery<'_>,
        if_not_exists: bool,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let r = into.rel().ok_or_else(|| Error::internal("CREATE TABLE AS without a table"))?;
        let persistence = r.relpersistence as u8;
        let global = persistence == b't' && says_global(query.source, r.location);
        let temporary = !global && self.will_be_temporary(r, runtime)?;
        let persistence = if global {
            GLOBAL
        } else if temporary {
            b't'
        } else {
            persistence
        };
        let request = PlanRequest::of(query.node, query.source);
        let plan = self.context_mut().plan_with(&request, runtime)?;
        let name = r.relname().unwrap_or("").to_string();
        if !temporary
            && let Some(schema) = self.schema_to_create_in(r.schemaname(), runtime)?
            && self.name_is_taken(schema, &name, "relation", if_not_exists, runtime)?
        {
            return Ok("CREATE TABLE AS".to_string());
        }
        // The rows are read before the table is made.
        if !into.skip_data {
            self.context_mut().check_access(&plan)?;
        }
        let (schema, _) = self.creation_schema(r.schemaname(), temporary, runtime)?;
        if global {
            refuse_in_temporary_schema(schema)?;
        }
        if temporary && self.name_is_taken(schema, &name, "relation", if_not_exists, runtime)? {
            return Ok("CREATE TABLE AS".to_string());
        }
        let columns = result_columns(&plan, &super::strings(into.col_names()), TOO_MANY_NAMES)?;
        refuse_same_names(&columns)?;
        let mut options = self.storage_options(into.options())?;
        if global {
            options.push(on_commit_option(into.on_commit)?);
        }
        let oid = self.insert_table(
            &NewTable { name, schema, kind: b'r', persistence, columns, options, class_columns: Vec::new() },
            runtime,
        )?;
        if !global {
            self.note_on_commit(oid, into.on_commit, persistence)?;
        }
        if into.skip_data {
            return Ok("CREATE TABLE AS".to_string());
        }
        let table = self.context_mut().table_by_oid(oid, runtime)?;
        let request = PlanRequest { insert_into: Some(&table), ..request };
        let plan = self.context_mut().plan_with(&request, runtime)?;
        let rows = self.run_seen(&plan, runtime, &mut crate::host::NullSink)?;
        Ok(format!("SELECT {rows}"))
    }
}
