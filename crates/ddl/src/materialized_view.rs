//! Materialized views: tables whose rows are what a query gave when they were filled last.
//!
//! Invariants
//! 1. Nobody but REFRESH changes the rows.
//! 2. A view that is not populated has no rows, and a plan that reads it does not run (`Plan::unpopulated`).
//! 3. REFRESH gives the view new storage, and others wait for it. REFRESH CONCURRENTLY changes the rows that differ, and
//!    whoever reads goes on.

use super::Definitions;
use super::create_table::{NewColumn, NewTable};
use super::table_as::TOO_MANY_NAMES;
use super::view::{refuse_same_names, result_columns};
use crate::client::Runtime;
use crate::context::PlanRequest;
use crate::host::NullSink;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::engine_query::ViewStatement;
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::*;
use kilndb_catalog::{Column, Index, Table, TableKind};
use kilndb_exec::RowSink;
use kilndb_storage::LockMode;
use kilndb_syntax::raw::AlterTableType as A;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

const CREATE: &str = "CREATE MATERIALIZED VIEW";

impl Definitions<'_> {
    pub(super) fn create_materialized_view(
        &mut self,
        s: &nodes::CreateTableAsStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let into = s.into().ok_or_else(|| Error::internal("CREATE MATERIALIZED VIEW without a name"))?;
        let r = into.rel().ok_or_else(|| Error::internal("CREATE MATERIALIZED VIEW without a name"))?;
        if r.relpersistence as u8 == b'u' {
            return Err(Error::unsupported("materialized views cannot be unlogged"));
        }
        if changes_rows(s.query()) {
            return Err(Error::unsupported("materialized views must not use data-modifying statements in WITH"));
        }
        let plan = self
            .context_mut()
            .plan_with(&PlanRequest { is_definition: true, ..PlanRequest::of(s.query(), source) }, runtime)?;
        if self.uses_temporary(&plan, runtime)? {
            return Err(Error::unsupported("materialized views must not use temporary tables or views"));
        }
        if !plan.param_types.is_empty() {
            return Err(Error::unsupported("materialized views may not be defined using bound parameters"));
        }
        let (schema, _) = self.creation_schema(r.schemaname(), false, runtime)?;
        let name = r.relname().unwrap_or("").to_string();
        if self.name_is_taken(schema, &name, "relation", s.if_not_exists, runtime)? {
            return Ok(CREATE.to_string());
        }
        let names = super::strings(into.col_names());
        let columns = result_columns(&plan, &names, TOO_MANY_NAMES)?;
        refuse_same_names(&columns)?;
        let text = self.view_text(s.query(), !names.is_empty(), &columns, runtime)?;
        let options = self.storage_options(into.options())?;
        let new = NewTable { name, schema, kind: b'm', persistence: b'p', columns, options, class_columns: Vec::new() };
        let oid = self.insert_table(&new, runtime)?;
        self.insert_rule(oid, &text, runtime)?;
        if into.skip_data {
            return Ok(CREATE.to_string());
        }
        Ok(format!("SELECT {}", self.fill_view(oid, runtime)?))
    }

    pub fn refresh_materialized_view(&mut self, s: &nodes::RefreshMatViewStmt, runtime: &dyn Runtime) -> Result<()> {
        let r = s.relation().ok_or_else(|| Error::internal("REFRESH MATERIALIZED VIEW without a name"))?;
        let view = self.context_mut().relation_of(r, runtime)?;
        let mode = if s.concurrent { LockMode::Exclusive } else { LockMode::AccessExclusive };
        let view = self.lock_for_ddl(&view, mode, runtime)?;
        if view.kind != TableKind::Materialized {
            return Err(Error::unsupported(format!("\"{}\" is not a materialized view", view.name)));
        }
        if s.concurrent && !view.is_populated {
            let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
            return Err(Error::unsupported(message));
        }
        if s.concurrent && s.skip_data {
            let message = "CONCURRENTLY and WITH NO DATA options cannot be used together";
            return Err(Error::new(sqlstate::SYNTAX_ERROR, message));
        }
        if s.concurrent {
            return self.as_role(view.owner, |definitions| definitions.bring_up_to_date(&view, runtime));
        }
        self.note_emptied(view.storage, runtime)?;
        self.empty_table(&view, runtime)?;
        match s.skip_data {
            true => self.mark_populated(view.oid, false, runtime),
            false => self.as_role(view.owner, |definitions| definitions.fill_view(view.oid, runtime).map(|_| ())),
        }
    }

    /// Enters what the query gives now in a view without rows, and builds its indexes. Returns how many rows there are.
    fn fill_view(&mut self, view: Oid, runtime: &dyn Runtime) -> Result<u64> {
        let view = self.context_mut().table_by_oid(view, runtime)?;
        let heap = Arc::new(Table { indexes: Vec::new(), ..Table::clone(&view) });
        let rows = self.run_for_view(query_of(&view)?, Some(&heap), 0, &mut NullSink, runtime)?;
        for index in &view.indexes {
            self.build_index_for(super::build::REINDEX, &view, index, runtime)?;
        }
        self.mark_populated(view.oid, true, runtime)?;
        Ok(rows)
    }

    fn mark_populated(&mut self, view: Oid, is_populated: bool, runtime: &dyn Runtime) -> Result<()> {
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, view, runtime, |row| {
            row.set("relispopulated", Datum::Bool(is_populated))
        })
    }

    fn run_for_view(
        &mut self,
        sql: &str,
        into: Option<&Arc<Table>>,
        maintained: Oid,
        sink: &mut dyn RowSink,
        runtime: &dyn Runtime,
    ) -> Result<u64> {
        let plan = self.context_mut().plan_engine_query(&ViewStatement { sql, into, maintained }, runtime)?;
        self.context_mut().check_access(&plan)?;
        let rows = self.run_seen(&plan, runtime, sink)?;
        if let Some(txn) = &mut self.context_mut().transaction.txn {
            txn.next_command();
        }
        Ok(rows)
    }

    /// Removes the rows that the query does not give any more and adds those that are new. What it gives is kept in a
    /// temporary table, since it may give something else when it is asked twice.
    fn bring_up_to_date(&mut self, view: &Arc<Table>, runtime: &dyn Runtime) -> Result<()> {
        let shown = format!("{}.{}", quote(&view.schema_name), quote(&view.name));
        let Some(unique) = view.indexes.iter().find(|i| tells_all_rows_apart(i)) else {
            let message = format!("cannot refresh materialized view \"{shown}\" concurrently");
            return Err(Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint(
                "Create a unique index with no WHERE clause on one or more columns of the materialized view.",
            ));
        };
        let given = self.given_rows(view, runtime)?;
        let columns: Vec<&Column> = view.columns.iter().filter(|c| !c.dropped).collect();
        let keys = unique.keys.iter().filter_map(|k| columns.iter().find(|c| c.attnum == k.attnum));
        let keys: Vec<String> = keys.map(|c| quote(&c.name)).collect();
        let row = |of: &str| {
            let values: Vec<String> = columns.iter().map(|c| format!("{of}.{}", quote(&c.name))).collect();
            format!("ROW({})::pg_catalog.text", values.join(", "))
        };
        let same: Vec<String> = keys.iter().map(|k| format!("given.{k} = kept.{k}")).collect();
        let same = format!("{} AND {} = {}", same.join(" AND "), row("given"), row("kept"));
        let from = format!("pg_temp.{}", quote(&given.name));
        self.refuse_twins(view, &from, (&keys, &row("given")), runtime)?;
        // PostgreSQL notes the differences in a temporary table of its own.
        self.require_temporary_tables()?;
        let delete = format!("DELETE FROM {shown} kept WHERE NOT EXISTS (SELECT 1 FROM {from} given WHERE {same})");
        let insert = format!(
            "INSERT INTO {shown} SELECT given.* FROM {from} given WHERE NOT EXISTS (SELECT 1 FROM {shown} kept WHERE {same})"
        );
        for sql in [delete, insert] {
            self.run_for_view(&sql, None, view.oid, &mut NullSink, runtime)?;
        }
        self.drop_table_by_oid(given.oid, runtime)
    }

    /// A temporary table of what the query gives now.
    fn given_rows(&mut self, view: &Arc<Table>, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        if self.context().shared.temporary.schema().is_none() {
            self.require_temporary_tables()?;
        }
        let schema = self.own_temporary_schema(runtime)?;
        let columns = view.columns.iter().filter(|c| !c.dropped).map(|c| NewColumn {
            name: c.name.clone(),
            type_oid: c.type_oid,
            typmod: c.typmod,
            collation: c.collation.oid,
            ..NewColumn::default()
        });
        let new = NewTable {
            name: format!("pg_temp_{}", view.oid),
            schema,
            kind: b'r',
            persistence: b't',
            columns: columns.collect(),
            options: Vec::new(),
            class_columns: Vec::new(),
        };
        let oid = self.insert_table(&new, runtime)?;
        let given = self.context_mut().table_by_oid(oid, runtime)?;
        self.run_for_view(query_of(view)?, Some(&given), 0, &mut NullSink, runtime)?;
        Ok(given)
    }

    /// 21000 if the query gives the same row twice, and none of its keys is null.
    fn refuse_twins(
        &mut self,
        view: &Table,
        from: &str,
        (keys, row): (&[String], &str),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let known: Vec<String> = keys.iter().map(|k| format!("given.{k} IS NOT NULL")).collect();
        let sql = format!(
            "SELECT {row} FROM {from} given WHERE {} GROUP BY 1 HAVING pg_catalog.count(*) > 1 LIMIT 1",
            known.join(" AND ")
        );
        let mut twins = crate::host::RowsSink::default();
        self.run_for_view(&sql, None, 0, &mut twins, runtime)?;
        let Some(Datum::Text(twin)) = twins.rows.first().and_then(|row| row.first()) else { return Ok(()) };
        let message = format!(
            "new data for materialized view \"{}\" contains duplicate rows without any null columns",
            view.name
        );
        Err(Error::new(sqlstate::CARDINALITY_VIOLATION, message).with_detail(format!("Row: {twin}")))
    }
}

/// What ALTER TABLE cannot do with a materialized view, as PostgreSQL calls it.
pub(super) fn refuse_alter(view: &Table, c: &nodes::AlterTableCmd) -> Result<()> {
    let action = match c.subtype {
        A::AT_AddColumn => "ADD COLUMN",
        A::AT_DropColumn => "DROP COLUMN",
        A::AT_ColumnDefault => "ALTER COLUMN ... SET DEFAULT",
        A::AT_SetNotNull => "ALTER COLUMN ... SET NOT NULL",
        A::AT_DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
        A::AT_AlterColumnType => "ALTER COLUMN ... SET DATA TYPE",
        A::AT_AddIdentity => "ALTER COLUMN ... ADD IDENTITY",
        A::AT_SetIdentity => "ALTER COLUMN ... SET IDENTITY",
        A::AT_DropIdentity => "ALTER COLUMN ... DROP IDENTITY",
        A::AT_AddConstraint => "ADD CONSTRAINT",
        A::AT_AlterConstraint => "ALTER CONSTRAINT",
        A::AT_ValidateConstraint => "VALIDATE CONSTRAINT",
        A::AT_DropConstraint => "DROP CONSTRAINT",
        A::AT_SetLogged => "SET LOGGED",
        A::AT_SetUnLogged => "SET UNLOGGED",
        A::AT_EnableTrig | A::AT_EnableAlwaysTrig | A::AT_EnableReplicaTrig => "ENABLE TRIGGER",
        A::AT_DisableTrig => "DISABLE TRIGGER",
        A::AT_EnableTrigAll => "ENABLE TRIGGER ALL",
        A::AT_DisableTrigAll => "DISABLE TRIGGER ALL",
        A::AT_EnableTrigUser => "ENABLE TRIGGER USER",
        A::AT_DisableTrigUser => "DISABLE TRIGGER USER",
        A::AT_AddInherit => "INHERIT",
        A::AT_DropInherit => "NO INHERIT",
        A::AT_AttachPartition => "ATTACH PARTITION",
        A::AT_DetachPartition => "DETACH PARTITION",
        _ => return Ok(()),
    };
    let message = format!("ALTER action {action} cannot be performed on relation \"{}\"", view.name);
    Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message).with_detail(super::identity::not_for(view.kind)))
}

fn query_of(view: &Table) -> Result<&str> {
    view.view_sql.as_deref().ok_or_else(|| Error::internal("a materialized view without a query"))
}

/// A unique index of plain columns, in which all rows have an entry.
fn tells_all_rows_apart(index: &Index) -> bool {
    index.unique && index.predicate_sql.is_none() && index.keys.iter().all(|k| k.attnum > 0)
}

/// WITH queries of the statement that change rows.
fn changes_rows(query: Node<'_>) -> bool {
    let Node::SelectStmt(s) = query else { return false };
    let is_change = |e: &nodes::CommonTableExpr| !matches!(e.ctequery(), Node::SelectStmt(_));
    s.with_clause().is_some_and(|w| w.ctes().iter().any(is_change))
}
