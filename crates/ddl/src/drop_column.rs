//! ALTER TABLE … DROP COLUMN, and who uses a column.
//!
//! Invariants
//! 1. Who uses a column stands in pg_depend: whatever in a definition's text reads like the column's name says nothing.
//! 2. A column of a partitioned table goes together with that of its partitions.

use super::Definitions;
use super::dependency::derived::INTERNAL;
use super::renaming::bound_parts;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::{Column, Table, TableKind};
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
        self.refuse_stored_rows(&table, runtime)?;
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
        })
    }

    /// ALTER COLUMN … TYPE is refused where the old type is built in, in PostgreSQL too but for checks and indexes.
    pub(super) fn refuse_new_type(&mut self, table: &Table, column: &Column, runtime: &dyn Runtime) -> Result<()> {
        self.settle_dependencies(runtime)?;
        let name = &column.name;
        for row in self.dependents(PG_CLASS, table.oid, i32::from(column.attnum))? {
            let user = ObjectAddress::object(row.oid("classid"), row.oid("objid"));
            let what = match user.class {
                PG_PROC => "by a function or procedure",
                PG_REWRITE => "by a view or rule",
                PG_TRIGGER => "in a trigger definition",
                PG_ATTRDEF => {
                    self.refuse_generated(table, name, user.object)?;
                    continue;
                }
                PG_CONSTRAINT | PG_CLASS if self.has_expression_of(user, table, column.attnum, runtime)? => {
                    return Err(Error::unsupported(format!(
                        "changing the type of column \"{name}\", which a check or an expression of an index uses, is not supported"
                    )));
                }
                _ => continue,
            };
            let shown = self.object_shown(user, runtime)?;
            return Err(Error::unsupported(format!("cannot alter type of a column used {what}"))
                .with_detail(format!("{shown} depends on column \"{name}\"")));
        }
        Ok(())
    }

    /// 0A000 if the value of a generated column, whose row of pg_attrdef this is, is computed from the column.
    fn refuse_generated(&mut self, table: &Table, name: &str, default: Oid) -> Result<()> {
        let rows = self.context_mut().catalog_lookup(PG_ATTRDEF, PG_ATTRDEF_OID_INDEX, &[Datum::Oid(default)])?;
        let generated = rows
            .first()
            .and_then(|row| table.columns.iter().find(|c| i64::from(c.attnum) == row.int("adnum") && c.generated != 0));
        match generated.filter(|other| other.name != name) {
            Some(other) => Err(Error::unsupported("cannot alter type of a column used by a generated column")
                .with_detail(format!("Column \"{name}\" is used by generated column \"{}\".", other.name))),
            None => Ok(()),
        }
    }

    /// Is it a check, or an index with an expression or a condition, that names the column there?
    fn has_expression_of(
        &mut self,
        user: ObjectAddress,
        table: &Table,
        attnum: i16,
        runtime: &dyn Runtime,
    ) -> Result<bool> {
        let (index, texts) = match user.class {
            PG_CONSTRAINT => (PG_CONSTRAINT_OID_INDEX, &["conbin"][..]),
            _ => (PG_INDEX_INDEXRELID_INDEX, &["indexprs", "indpred"][..]),
        };
        let class = if user.class == PG_CONSTRAINT { PG_CONSTRAINT } else { PG_INDEX };
        let rows = self.context_mut().catalog_lookup(class, index, &[Datum::Oid(user.object)])?;
        self.context_mut().with_catalog(runtime, |host| {
            for (row, column) in rows.iter().flat_map(|row| texts.iter().map(move |column| (row, *column))) {
                let Some(text) = row.text(column) else { continue };
                let parts = bound_parts(host, class, row, column, text)?;
                if parts.iter().any(|(_, part)| part.refers_to(ObjectAddress::column(table.oid, attnum))) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}
