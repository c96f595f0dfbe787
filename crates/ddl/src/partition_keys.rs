//! Foreign keys that reference partitioned tables, and what ATTACH and DETACH do to foreign keys.
//!
//! Invariants
//! 1. A foreign key that references a partitioned table has a row in pg_constraint for each of its partitions, at every
//!    level, pointing at the row of the level above (`conparentid`): by it a partition knows whose rows point at its
//!    own. The referencing table is the same in all of them, which tells them from the rows that partitions of a
//!    *referencing* table have.
//! 2. New rows of the referencing table are checked for the first of them alone.

use super::Definitions;
use super::build::key_text;
use super::constraint::KeyPair;
use super::partition::own_columns;
use crate::client::Runtime;
use kilndb_base::hash::HashSet;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::engine_query::KeyJoin;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::array;
use kilndb_catalog::{ForeignKey, Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// Names for the rows of one foreign key: `name_1`, `name_2`, … that are free.
#[derive(Default)]
pub(super) struct NameCounter {
    last: u32,
}

impl Definitions<'_> {
    pub(super) fn constraint_row(&mut self, oid: Oid) -> Result<Option<CatalogRow>> {
        Ok(self
            .context_mut()
            .catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, &[Datum::Oid(oid)])?
            .into_iter()
            .next())
    }

    /// The rows of pg_constraint that point at a foreign key's.
    pub(super) fn parts_of_key(&mut self, key: &CatalogRow) -> Result<Vec<CatalogRow>> {
        self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONPARENTID_INDEX, &[Datum::Oid(key.oid("oid"))])
    }

    fn free_key_name(&mut self, base: &str, schema: Oid, counter: &mut NameCounter) -> Result<String> {
        loop {
            counter.last += 1;
            let name = super::constraint::object_name(base, "", &counter.last.to_string());
            let taken = self.context_mut().catalog_lookup(
                PG_CONSTRAINT,
                PG_CONSTRAINT_CONNAME_NSP_INDEX,
                &[Datum::text(&name), Datum::Oid(schema)],
            )?;
            if taken.is_empty() {
                return Ok(name);
            }
        }
    }

    /// The foreign key of which this row is a part on the referenced side.
    fn whole_key(&mut self, row: &CatalogRow) -> Result<CatalogRow> {
        let mut at = row.clone();
        while at.oid("conparentid") != 0 {
            match self.constraint_row(at.oid("conparentid"))? {
                Some(above) if above.oid("conrelid") == at.oid("conrelid") => at = above,
                _ => break,
            }
        }
        Ok(at)
    }

    /// A new foreign key, for the partitions of the table that it references.
    pub(super) fn reference_partitions(
        &mut self,
        key: Oid,
        target: &Arc<Table>,
        counter: &mut NameCounter,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if target.kind != TableKind::Partitioned {
            return Ok(());
        }
        let Some(row) = self.constraint_row(key)? else { return Ok(()) };
        // All of them first: what is written makes the catalogs' foreign keys be read anew.
        let mut partitions = Vec::new();
        for partition in self.partition_oids(target.oid, runtime)? {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            partitions.push(self.lock_for_ddl(&child, LockMode::ShareRowExclusive, runtime)?);
        }
        let base = self.whole_key(&row)?;
        for child in &partitions {
            self.reference_partition(&row, &base, target, child, counter, runtime)?;
        }
        Ok(())
    }

    fn reference_partition(
        &mut self,
        row: &CatalogRow,
        base: &CatalogRow,
        target: &Arc<Table>,
        child: &Arc<Table>,
        counter: &mut NameCounter,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let part = child.indexes.iter().find(|i| i.part_of == row.oid("conindid"));
        let index = part
            .ok_or_else(|| Error::internal(format!("partition \"{}\" has no index for a foreign key", child.name)))?
            .oid;
        let name = self.free_key_name(base.text("conname").unwrap_or(""), row.oid("connamespace"), counter)?;
        let oid = self.new_oid(row.oid("conrelid"))?;
        let columns = own_columns(target, child, &row.numbers("confkey"));
        let mut copy = row.clone();
        copy.set("oid", Datum::Oid(oid));
        copy.set("conname", Datum::text(name));
        copy.set("confrelid", Datum::Oid(child.oid));
        copy.set("conindid", Datum::Oid(index));
        copy.set("confkey", array(oids::INT2, columns.into_iter().map(Datum::Int2).collect()));
        copy.set("conparentid", Datum::Oid(row.oid("oid")));
        copy.set("conislocal", Datum::Bool(false));
        copy.set("coninhcount", Datum::Int2(1));
        copy.set("connoinherit", Datum::Bool(false));
        self.write_catalog(runtime, |w| w.insert_row(PG_CONSTRAINT, copy.values()).map(|_| ()))?;
        self.settle_key_triggers(oid, runtime)?;
        self.reference_partitions(oid, child, counter, runtime)
    }

    /// The foreign keys that reference a table reference its new partition too.
    pub(super) fn copy_references(&mut self, parent: &Arc<Table>, child: Oid, runtime: &dyn Runtime) -> Result<()> {
        for key in &parent.referenced_by {
            if let Some(row) = self.constraint_row(key.oid)? {
                let base = self.whole_key(&row)?;
                let child = self.context_mut().table_by_oid(child, runtime)?;
                self.reference_partition(&row, &base, parent, &child, &mut NameCounter::default(), runtime)?;
            }
        }
        Ok(())
    }

    /// DETACH: no row may point at those of the partition by a foreign key of the whole table. Returns what is to go of
    /// these keys.
    pub(super) fn leave_references(
        &mut self,
        parent: &Table,
        child: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<Vec<Oid>> {
        let parts: Vec<_> = child
            .referenced_by
            .iter()
            .filter(|k| parent.referenced_by.iter().any(|above| above.oid == k.part_of))
            .cloned()
            .collect();
        for key in parts.iter().filter(|key| key.enforced) {
            let other = self.context_mut().table_by_oid(key.table, runtime)?;
            self.lock_for_ddl(&other, LockMode::Share, runtime)?;
            self.refuse_referenced_rows(child, key, &other, runtime)?;
        }
        Ok(parts.iter().map(|key| key.oid).collect())
    }

    fn refuse_referenced_rows(
        &mut self,
        child: &Arc<Table>,
        key: &ForeignKey,
        other: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let query = KeyJoin {
            referencing: other,
            columns: &key.columns,
            referenced: child,
            referenced_columns: &key.referenced_columns,
            is_dangling: false,
        };
        let found = self.first_row_of(&query, runtime)?;
        let Some((_, row)) = found.as_deref().and_then(<[Datum]>::split_first) else { return Ok(()) };
        let values: Vec<String> = row.iter().map(key_text).collect();
        let name =
            |t: &Table, n: &i16| t.columns.get((*n - 1).max(0) as usize).map_or(String::new(), |c| c.name.clone());
        let names: Vec<String> = key.columns.iter().map(|n| name(other, n)).collect();
        let message = format!("removing partition \"{}\" violates foreign key constraint \"{}\"", child.name, key.name);
        Err(Error::new(sqlstate::FOREIGN_KEY_VIOLATION, message)
            .with_detail(format!(
                "Key ({})=({}) is still referenced from table \"{}\".",
                names.join(", "),
                values.join(", "),
                other.name
            ))
            .with_table(&other.schema_name, &other.name)
            .with_constraint(&key.name))
    }

    /// ATTACH: the rows of the new partition have keys that its parent's foreign keys find. Those that it has been held
    /// to before do.
    pub(super) fn check_foreign_keys(
        &mut self,
        parent: &Arc<Table>,
        child: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for key in &parent.foreign_keys {
            if key.referenced_table == child.oid {
                let message = format!(
                    "cannot attach table \"{}\" as a partition because it is referenced by foreign key \"{}\"",
                    child.name, key.name
                );
                return Err(Error::unsupported(message));
            }
            let like = like_key(parent, key, child);
            if !key.validated || like.is_some_and(|own| own.validated) {
                continue;
            }
            let name = like.map_or(&key.name, |own| &own.name);
            let target = self.context_mut().table_by_oid(key.referenced_table, runtime)?;
            let columns = own_columns(parent, child, &key.columns.iter().map(|n| i64::from(*n)).collect::<Vec<_>>());
            let pair = KeyPair {
                referencing: child,
                columns: &columns,
                referenced: &target,
                referenced_columns: &key.referenced_columns,
            };
            self.validate_foreign_key(pair, name, runtime)?;
        }
        Ok(())
    }

    /// A foreign key holds, and so do all rows that point at it.
    pub(super) fn mark_key_valid(&mut self, key: Oid, runtime: &dyn Runtime) -> Result<()> {
        let Some(row) = self.constraint_row(key)? else { return Ok(()) };
        if !row.bool("convalidated") {
            self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, key, runtime, |row| {
                row.set("convalidated", Datum::Bool(true))
            })?;
        }
        for part in self.parts_of_key(&row)? {
            self.mark_key_valid(part.oid("oid"), runtime)?;
        }
        Ok(())
    }

    /// ATTACH: the partition's own foreign key that is like its parent's becomes a part of it. False: it has none.
    pub(super) fn adopt_foreign_key(
        &mut self,
        parent: &Arc<Table>,
        key: &ForeignKey,
        child: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<bool> {
        let like = like_key(parent, key, child);
        let Some(own) = like.cloned() else { return Ok(false) };
        let Some(row) = self.constraint_row(own.oid)? else { return Ok(false) };
        for part in self.parts_of_key(&row)? {
            if part.oid("conrelid") == child.oid {
                self.delete_constraint(part.oid("oid"), runtime)?;
            }
        }
        self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, own.oid, runtime, |row| {
            row.set("conparentid", Datum::Oid(key.oid));
            row.set("conislocal", Datum::Bool(false));
            row.set("coninhcount", Datum::Int2(1));
        })?;
        self.settle_key_triggers(own.oid, runtime)?;
        if key.validated {
            self.mark_key_valid(own.oid, runtime)?;
        }
        Ok(true)
    }

    /// DETACH: foreign keys that a table had from its parent are its own; those to partitioned tables get rows for
    /// these.
    pub(super) fn own_foreign_keys(&mut self, child: &Arc<Table>, runtime: &dyn Runtime) -> Result<()> {
        for key in child.foreign_keys.iter().filter(|k| k.part_of != 0) {
            let target = self.context_mut().table_by_oid(key.referenced_table, runtime)?;
            self.reference_partitions(key.oid, &target, &mut NameCounter::default(), runtime)?;
        }
        Ok(())
    }

    /// A foreign key goes with all rows that point at it.
    pub(super) fn delete_parts_of_key(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        let Some(row) = self.constraint_row(oid)?.filter(|row| row.char("contype") == b'f') else { return Ok(()) };
        for part in self.parts_of_key(&row)? {
            self.delete_constraint(part.oid("oid"), runtime)?;
        }
        Ok(())
    }
}

/// The OIDs of a table's rows of pg_constraint: a row that points at one of them is a part of a foreign key on the
/// referenced side.
pub(super) fn is_reference_part(row: &CatalogRow, own: &[CatalogRow]) -> bool {
    row.oid("conparentid") != 0 && own.iter().any(|other| other.oid("oid") == row.oid("conparentid"))
}

/// A foreign key that a table has by itself and that is like one of its parent-to-be's.
fn like_key<'t>(parent: &Table, key: &ForeignKey, child: &'t Table) -> Option<&'t Arc<ForeignKey>> {
    let columns = own_columns(parent, child, &key.columns.iter().map(|n| i64::from(*n)).collect::<Vec<_>>());
    let pairs = |mine: &[i16], theirs: &[i16]| mine.iter().copied().zip(theirs.iter().copied()).collect::<HashSet<_>>();
    let wanted = pairs(&columns, &key.referenced_columns);
    child.foreign_keys.iter().find(|own| {
        own.part_of == 0
            && own.referenced_table == key.referenced_table
            && pairs(&own.columns, &own.referenced_columns) == wanted
            && (own.on_update, own.on_delete, own.match_type) == (key.on_update, key.on_delete, key.match_type)
            && (own.deferrable, own.initially_deferred, own.enforced)
                == (key.deferrable, key.initially_deferred, key.enforced)
            && own.delete_columns
                == own_columns(parent, child, &key.delete_columns.iter().map(|n| i64::from(*n)).collect::<Vec<_>>())
    })
}
