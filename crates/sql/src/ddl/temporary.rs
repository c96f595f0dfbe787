//! A session's temporary schema, and its end.

use super::Session;
use crate::catalog::CatalogView;
use crate::catalog::builtin::BOOTSTRAP_SUPERUSER;
use crate::catalog::ids::*;
use crate::client::Runtime;
use kilndb_base::{Oid, Result, Severity};

impl Session {
    /// `pg_temp_N`, made at first use.
    pub(super) fn own_temporary_schema(&mut self, runtime: &dyn Runtime) -> Result<Oid> {
        let name = format!("pg_temp_{}", self.process_id);
        if let Some(oid) = self.with_catalog(runtime, |host| host.reader.schema_oid(&name))? {
            self.temp_schema = Some(oid);
            return Ok(oid);
        }
        let oid = self.insert_schema(&name, BOOTSTRAP_SUPERUSER, runtime)?;
        self.temp_schema = Some(oid);
        Ok(oid)
    }

    /// DISCARD TEMP: all temporary tables, views and sequences of the session.
    pub(crate) fn drop_own_temporary_objects(&mut self, runtime: &dyn Runtime) -> Result<()> {
        let Some(schema) = self.temp_schema else { return Ok(()) };
        let mut inside = Vec::new();
        for row in self.catalog_scan(PG_CLASS)? {
            if row.oid("relnamespace") == schema && row.char("relkind") != b'i' {
                inside.push(row.oid("oid"));
            }
        }
        for oid in &inside {
            if let Some(table) = self.with_catalog(runtime, |host| host.reader.table_by_oid(*oid))? {
                self.drop_relation(&table, true, &inside, runtime)?;
            }
        }
        // Cascades within one's own scratch space are nobody's news.
        self.scratch.notices.borrow_mut().clear();
        Ok(())
    }

    /// The end of the session.
    pub(crate) fn drop_temporary_objects(&mut self, runtime: &dyn Runtime) {
        if self.temp_schema.is_none() {
            return;
        }
        let dropped = self.begin_statement(runtime).and_then(|()| {
            self.drop_own_temporary_objects(runtime)?;
            if let Some(schema) = self.temp_schema.take() {
                self.delete_rows(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &[kilndb_types::Datum::Oid(schema)], runtime)?;
            }
            self.commit(runtime)
        });
        if let Err(e) = dropped {
            self.instance.log(Severity::Warning, &format!("temporary tables of session {} were not dropped: {e}", self.process_id));
            if let Err(e) = self.rollback(runtime) {
                self.instance.log(Severity::Warning, &format!("rollback at the end of a session failed: {e}"));
            }
        }
    }
}
