//! pg_depend: who needs whom.

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::ir::Expr;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::temporary::is_temporary;
use kilndb_types::Datum;

/// What is temporary would have to go with the session, and the permanent object with it.
pub(super) fn refuse_temporary_routines(e: &Expr) -> Result<()> {
    let mut functions = Vec::new();
    e.user_functions(&mut functions);
    match functions.into_iter().any(is_temporary) {
        true => Err(super::dependency::temporary_routine()),
        false => Ok(()),
    }
}

impl Definitions<'_> {
    /// Rows of pg_depend that refer to an object (any column of it if `column` is 0).
    pub(super) fn dependents(&mut self, class: Oid, object: Oid, column: i32) -> Result<Vec<CatalogRow>> {
        let key = [Datum::Oid(class), Datum::Oid(object)];
        let rows = self.context_mut().catalog_lookup(PG_DEPEND, PG_DEPEND_REFERENCE_INDEX, &key)?;
        Ok(rows.into_iter().filter(|r| column == 0 || r.int("refobjsubid") == i64::from(column)).collect())
    }

    /// Forgets what an object depends on.
    pub(super) fn remove_dependencies(
        &mut self,
        dependent: (Oid, Oid),
        kind: Option<u8>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let key = [Datum::Oid(dependent.0), Datum::Oid(dependent.1)];
        let rows = self.context_mut().catalog_lookup(PG_DEPEND, PG_DEPEND_DEPENDER_INDEX, &key)?;
        for row in rows.iter().filter(|r| kind.is_none_or(|k| r.char("deptype") == k)) {
            self.write_catalog(runtime, |w| w.delete(row))?;
        }
        Ok(())
    }

    /// Changes the one row that an index finds by OID.
    pub(super) fn update_row(
        &mut self,
        table: Oid,
        index: Oid,
        oid: Oid,
        runtime: &dyn Runtime,
        change: impl FnOnce(&mut CatalogRow),
    ) -> Result<()> {
        let mut rows = self.context_mut().catalog_lookup(table, index, &[Datum::Oid(oid)])?;
        let row = rows.pop().ok_or_else(|| Error::internal(format!("cache lookup failed for object {oid}")))?;
        self.rewrite_row(&row, runtime, change)
    }

    /// Changes a row that has been looked up.
    pub(super) fn rewrite_row(
        &mut self,
        row: &CatalogRow,
        runtime: &dyn Runtime,
        change: impl FnOnce(&mut CatalogRow),
    ) -> Result<()> {
        let mut new = row.clone();
        change(&mut new);
        self.write_catalog(runtime, |w| w.update(row, new.values()))
    }

    pub(super) fn update_attribute(
        &mut self,
        table: Oid,
        attnum: i16,
        runtime: &dyn Runtime,
        change: impl FnOnce(&mut CatalogRow),
    ) -> Result<()> {
        let key = [Datum::Oid(table), Datum::Int2(attnum)];
        let mut rows = self.context_mut().catalog_lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key)?;
        let row = rows
            .pop()
            .ok_or_else(|| Error::internal(format!("column {attnum} of table {table} is not in the catalogs")))?;
        self.rewrite_row(&row, runtime, change)
    }

    /// Deletes all rows of a system table that an index finds by a key prefix.
    pub(super) fn delete_rows(&mut self, table: Oid, index: Oid, key: &[Datum], runtime: &dyn Runtime) -> Result<()> {
        for row in self.context_mut().catalog_lookup(table, index, key)? {
            self.write_catalog(runtime, |w| w.delete(&row))?;
        }
        Ok(())
    }
}
