//! ALTER TABLE … DROP COLUMN, and who uses a column.
//!
//! Invariants
//! 1. Who uses a column stands in pg_depend: whatever in a definition's text reads like the column's name says nothing.
//! 2. A column of a partitioned table goes together with that of its partitions.

use super::Definitions;
use super::dependency::derived::INTERNAL;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::row_shape::HAS_FIELD;
use kilndb_catalog::store::array;
use kilndb_catalog::{Table, TableKind};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

impl Definitions<'_> {
    /// Does an expression of the table's partition key name the column?
    pub(super) fn is_in_key_expression(&mut self, table: &Table, attnum: i16) -> Result<bool> {
        let keys = self.context_mut().catalog_lookup(
            PG_PARTITIONED_TABLE,
            PG_PARTITIONED_TABLE_PARTRELID_INDEX,
            &[Datum::Oid(table.oid)],
        )?;
        let is_plain = keys.iter().any(|row| row.numbers("partattrs").contains(&i64::from(attnum)));
        let rows = self.dependents(PG_CLASS, table.oid, 0)?;
        let is_part = rows.iter().any(|row| {
            (row.oid("classid"), row.oid("objid")) == (PG_CLASS, table.oid)
                && row.int("objsubid") == i64::from(attnum)
                && row.char("deptype") == INTERNAL
        });
        Ok(is_part && !is_plain)
    }

    pub(super) fn drop_column(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        cascade: bool,
        missing_ok: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let Some(column) = table.columns.iter().find(|c| !c.dropped && c.name == name) else {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            if missing_ok {
                self.context().notice(Severity::Notice, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(Error::new(sqlstate::UNDEFINED_COLUMN, message));
        };
        let mut named = vec![ObjectAddress::column(table.oid, column.attnum)];
        if table.kind == TableKind::Partitioned {
            for partition in self.context_mut().with_catalog(runtime, |host| host.reader.partition_tree(table.oid))? {
                let partition = self.context_mut().table_by_oid(partition, runtime)?;
                let own = partition.columns.iter().find(|c| !c.dropped && c.name == name);
                named.extend(own.map(|own| ObjectAddress::column(partition.oid, own.attnum)));
            }
        }
        self.delete_objects(&named, cascade, runtime)
    }

    /// A column that nobody needs any more goes.
    pub(super) fn delete_column(&mut self, table: Oid, attnum: i16, runtime: &dyn Runtime) -> Result<()> {
        let table = self.context_mut().table_by_oid(table, runtime)?;
        let Some(column) = table.columns.iter().find(|c| !c.dropped && c.attnum == attnum) else { return Ok(()) };
        self.delete_statistics(table.oid, Some(attnum), runtime)?;
        let comment = [Datum::Oid(table.oid), Datum::Oid(PG_CLASS), Datum::Int4(i32::from(attnum))];
        self.delete_rows(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &comment, runtime)?;
        // Rows keep the value: what it is stored as must be known when the type is gone.
        let type_oid = column.type_oid;
        let stored = self.context_mut().with_catalog(runtime, |host| host.reader.storage_type(type_oid))?;
        let stored = if stored >= kilndb_catalog::builtin::FIRST_USER_OID { oids::RECORD } else { stored };
        self.update_attribute(table.oid, attnum, runtime, |row| {
            row.set("atttypid", Datum::Oid(stored));
            row.set("attisdropped", Datum::Bool(true));
            row.set("attnotnull", Datum::Bool(false));
            row.set("atthasdef", Datum::Bool(false));
            row.set("attname", Datum::text(format!("........pg.dropped.{attnum}........")));
            row.set("attfdwoptions", array(oids::TEXT, vec![Datum::text(HAS_FIELD)]));
        })?;
        if table.type_oid != 0 {
            self.narrowed.insert(table.oid);
        }
        Ok(())
    }
}
