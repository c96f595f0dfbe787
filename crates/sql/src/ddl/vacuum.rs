//! VACUUM and ANALYZE. There is nothing to vacuum; ANALYZE counts.

use super::Session;
use crate::catalog::global::GLOBAL;
use crate::catalog::ids::*;
use crate::catalog::{CatalogView, Table, TableKind};
use crate::client::Runtime;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_storage::{LockMode, WaitPolicy};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

impl Session {
    pub(crate) fn vacuum_command(&mut self, s: &nodes::VacuumStmt, runtime: &dyn Runtime) -> Result<String> {
        let word = if s.is_vacuumcmd { "VACUUM" } else { "ANALYZE" };
        let mut analyze = !s.is_vacuumcmd;
        for option in s.options() {
            let name = option.defname().unwrap_or("");
            let on = !matches!(option.arg(), Node::String(v) if matches!(v.sval(), Some("off" | "false" | "0")))
                && !matches!(option.arg(), Node::Integer(i) if i.ival == 0);
            match name {
                "analyze" => analyze |= on,
                "full" | "freeze" | "verbose" | "disable_page_skipping" | "skip_locked" | "index_cleanup" | "process_main"
                | "process_toast" | "truncate" | "parallel" | "skip_database_stats" | "only_database_stats" | "buffer_usage_limit" => {}
                other => {
                    return Err(Error::new(sqlstate::SYNTAX_ERROR, format!("unrecognized {word} option \"{other}\"")));
                }
            }
        }
        if s.is_vacuumcmd {
            self.refuse_in_block("VACUUM")?;
        }
        self.begin_statement(runtime)?;
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for target in s.rels() {
            if let Some(r) = target.relation() {
                let table = self.relation_of(r, runtime)?;
                for column in super::strings(target.va_cols()) {
                    if !table.columns.iter().any(|c| !c.dropped && c.name == column) {
                        let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                        return Err(Error::new(sqlstate::UNDEFINED_COLUMN, message));
                    }
                }
                tables.push(table);
            }
        }
        if s.rels().len() == 0 && analyze {
            for row in self.catalog_scan(PG_CLASS)? {
                if row.char("relkind") == b'r' && row.oid("oid") >= crate::catalog::builtin::FIRST_USER_OID {
                    // Another session may have dropped it meanwhile.
                    let found = self.with_catalog(runtime, |host| host.reader.table_by_oid(row.oid("oid")))?;
                    tables.extend(found);
                }
            }
        }
        for table in tables {
            if table.kind == TableKind::Table && !table.is_catalog {
                // Definitions and other ANALYZEs change the same rows of pg_class.
                self.lock_table(table.oid, LockMode::ShareUpdateExclusive, WaitPolicy::Wait, runtime)?;
                // What one session has in a global temporary table says nothing about the others'.
                if analyze
                    && table.persistence != GLOBAL
                    && let Some(table) = self.with_catalog(runtime, |host| host.reader.table_by_oid(table.oid))?
                {
                    self.analyze_table(&table, runtime)?;
                }
            }
        }
        self.finish_implicit(runtime)?;
        Ok(word.to_string())
    }

    /// Counts rows and pages; the planner and users read them in pg_class.
    fn analyze_table(&mut self, table: &Arc<Table>, runtime: &dyn Runtime) -> Result<()> {
        let heap = self.temporary.relation(&self.instance.engine, table.storage)?;
        let snapshot = self.take_snapshot(runtime)?.untracked();
        let (pages, mut rows) = (heap.pages(), 0u64);
        for block in 0..pages {
            rows += u64::from(heap.count_block(block, &snapshot)?);
            if block % 64 == 0 {
                runtime.checkpoint()?;
            }
        }
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
            row.set("relpages", Datum::Int4(pages as i32));
            row.set("reltuples", Datum::Float4(rows as f32));
        })?;
        for index in &table.indexes {
            let index_pages = self.temporary.relation(&self.instance.engine, index.storage)?.pages();
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, index.oid, runtime, |row| {
                row.set("relpages", Datum::Int4(index_pages as i32));
                row.set("reltuples", Datum::Float4(rows as f32));
            })?;
        }
        Ok(())
    }
}
