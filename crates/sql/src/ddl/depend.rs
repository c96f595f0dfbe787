//! pg_depend: who needs whom.

use super::Session;
use crate::bind::ir::Expr;
use crate::bind::names::{BoundText, Over};
use crate::catalog::ids::*;
use crate::catalog::store::CatalogRow;
use crate::catalog::temporary::is_temporary;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result};
use kilndb_types::Datum;

/// (catalog, object, column or 0).
pub(super) type ObjectAddress = (Oid, Oid, i32);

fn temporary_routine() -> Error {
    Error::unsupported("temporary functions in the definition of a permanent object are not supported")
}

/// What is temporary would have to go with the session, and the permanent object with it.
pub(super) fn refuse_temporary_routines(e: &Expr) -> Result<()> {
    let mut functions = Vec::new();
    e.user_functions(&mut functions);
    match functions.into_iter().any(is_temporary) {
        true => Err(temporary_routine()),
        false => Ok(()),
    }
}

impl Session {
    pub(super) fn add_dependency(
        &mut self,
        dependent: ObjectAddress,
        referenced: ObjectAddress,
        kind: u8,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if referenced.0 == PG_PROC && is_temporary(referenced.1) && !is_temporary(dependent.1) {
            return Err(temporary_routine());
        }
        self.write_catalog(runtime, |w| {
            w.insert(
                PG_DEPEND,
                &[
                    ("classid", Datum::Oid(dependent.0)),
                    ("objid", Datum::Oid(dependent.1)),
                    ("objsubid", Datum::Int4(dependent.2)),
                    ("refclassid", Datum::Oid(referenced.0)),
                    ("refobjid", Datum::Oid(referenced.1)),
                    ("refobjsubid", Datum::Int4(referenced.2)),
                    ("deptype", Datum::Char(kind)),
                ],
            )?;
            Ok(())
        })
    }

    /// The functions of users that an expression calls are needed.
    pub(super) fn need_functions_of(
        &mut self,
        dependent: ObjectAddress,
        sql: &str,
        over: Over<'_>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let references =
            self.with_catalog(runtime, |host| Ok(BoundText::expression(sql, over, &host.reader)?.references()))?;
        for needed in references.iter().filter(|r| r.class == PG_PROC && super::is_user_object(r.object)) {
            self.add_dependency(dependent, (PG_PROC, needed.object, 0), b'n', runtime)?;
        }
        Ok(())
    }

    /// Rows of pg_depend that refer to an object (any column of it if `column` is 0).
    pub(super) fn dependents(&mut self, class: Oid, object: Oid, column: i32) -> Result<Vec<CatalogRow>> {
        let key = [Datum::Oid(class), Datum::Oid(object)];
        let rows = self.catalog_lookup(PG_DEPEND, PG_DEPEND_REFERENCE_INDEX, &key)?;
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
        let rows = self.catalog_lookup(PG_DEPEND, PG_DEPEND_DEPENDER_INDEX, &key)?;
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
        let mut rows = self.catalog_lookup(table, index, &[Datum::Oid(oid)])?;
        let row = rows.pop().ok_or_else(|| Error::internal(format!("cache lookup failed for object {oid}")))?;
        let mut new = row.clone();
        change(&mut new);
        self.write_catalog(runtime, |w| w.update(&row, &new.values))
    }

    pub(super) fn update_attribute(
        &mut self,
        table: Oid,
        attnum: i16,
        runtime: &dyn Runtime,
        change: impl FnOnce(&mut CatalogRow),
    ) -> Result<()> {
        let key = [Datum::Oid(table), Datum::Int2(attnum)];
        let mut rows = self.catalog_lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key)?;
        let row = rows
            .pop()
            .ok_or_else(|| Error::internal(format!("column {attnum} of table {table} is not in the catalogs")))?;
        let mut new = row.clone();
        change(&mut new);
        self.write_catalog(runtime, |w| w.update(&row, &new.values))
    }

    /// Deletes all rows of a system table that an index finds by a key prefix.
    pub(super) fn delete_rows(&mut self, table: Oid, index: Oid, key: &[Datum], runtime: &dyn Runtime) -> Result<()> {
        for row in self.catalog_lookup(table, index, key)? {
            self.write_catalog(runtime, |w| w.delete(&row))?;
        }
        Ok(())
    }
}
