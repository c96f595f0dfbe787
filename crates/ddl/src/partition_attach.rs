//! ATTACH PARTITION, of tables and of indexes.

use super::Definitions;
use super::partition::{NewPartition, own_columns};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::engine_query::RowCondition;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::partition::PartitionBound;
use kilndb_catalog::{Index, Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::nodes;
use kilndb_types::Datum;
use std::sync::Arc;

fn mismatch(message: String) -> Error {
    Error::new(sqlstate::DATATYPE_MISMATCH, message)
}

pub(super) fn wrong_object(message: String) -> Error {
    Error::new(sqlstate::WRONG_OBJECT_TYPE, message)
}

impl Definitions<'_> {
    pub(super) fn attach_partition(
        &mut self,
        parent: &Arc<Table>,
        p: &nodes::PartitionCmd,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let r = p.name().ok_or_else(|| Error::internal("ATTACH PARTITION without a table"))?;
        if parent.kind == TableKind::Index {
            return self.attach_index(parent, r, runtime);
        }
        if parent.kind != TableKind::Partitioned {
            return Err(wrong_object(format!(
                "ALTER action ATTACH PARTITION cannot be performed on relation \"{}\"",
                parent.name
            ))
            .with_detail("This operation is not supported for tables."));
        }
        let child = self.context_mut().relation_of(r, runtime)?;
        self.require_table_owner(&child)?;
        if !matches!(child.kind, TableKind::Table | TableKind::Partitioned) {
            return Err(wrong_object(format!("\"{}\" is not a table", child.name)));
        }
        let child = self.lock_for_ddl(&child, LockMode::AccessExclusive, runtime)?;
        if child.partition_of != 0 {
            return Err(wrong_object(format!("\"{}\" is already a partition", child.name)));
        }
        let below = self.context_mut().with_catalog(runtime, |host| host.reader.partition_tree(child.oid))?;
        if below.contains(&parent.oid) {
            return Err(Error::new(sqlstate::DUPLICATE_TABLE, "circular inheritance not allowed")
                .with_detail(format!("\"{}\" is already a child of \"{}\".", parent.name, child.name)));
        }
        match (parent.persistence == b't', child.persistence == b't') {
            (false, true) => {
                return Err(wrong_object(format!(
                    "cannot attach a temporary relation as partition of permanent relation \"{}\"",
                    parent.name
                )));
            }
            (true, false) => {
                return Err(wrong_object(format!(
                    "cannot attach a permanent relation as partition of temporary relation \"{}\"",
                    parent.name
                )));
            }
            _ => {}
        }
        super::trigger_clone::refuse_transitions(&child)?;
        let spec = p.bound().ok_or_else(|| Error::internal("ATTACH PARTITION without a bound"))?;
        let location = kilndb_syntax::position_of(source, spec.location);
        let bound = self.bound_of(parent, &child.name, spec, source, runtime)?;
        let map = self.check_bound(parent, &child.name, &bound, location, runtime)?;
        self.check_columns(parent, &child, runtime)?;
        self.take_over_constraints(parent, &child, runtime)?;
        self.check_rows(parent, &child, &bound, runtime)?;
        self.check_default_partition(&map, &bound, runtime)?;
        let place = NewPartition { bound, map, is_partitioned: child.kind == TableKind::Partitioned };
        let marks = self.partition_columns_of_class(&place, runtime)?;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, child.oid, runtime, |row| {
            marks.into_iter().for_each(|(column, value)| row.set(column, value));
        })?;
        self.insert_partition(parent, child.oid, place, runtime)?;
        for column in child.columns.iter().filter(|c| !c.dropped) {
            self.update_attribute(child.oid, column.attnum, runtime, |row| {
                row.set("attislocal", Datum::Bool(false));
                row.set("attinhcount", Datum::Int2(1));
            })?;
        }
        for index in &parent.indexes {
            let child = self.context_mut().table_by_oid(child.oid, runtime)?;
            self.copy_index_to(parent, index, &child, runtime)?;
        }
        self.clone_triggers(parent, child.oid, runtime)?;
        self.copy_references(parent, child.oid, runtime)?;
        self.check_foreign_keys(parent, &child, runtime)?;
        for key in &parent.foreign_keys {
            self.copy_foreign_key(parent, key.oid, child.oid, runtime)?;
        }
        Ok(())
    }

    fn check_columns(&mut self, parent: &Table, child: &Table, runtime: &dyn Runtime) -> Result<()> {
        for c in child.columns.iter().filter(|c| !c.dropped) {
            if !parent.columns.iter().any(|p| !p.dropped && p.name == c.name) {
                return Err(mismatch(format!(
                    "table \"{}\" contains column \"{}\" not found in parent \"{}\"",
                    child.name, c.name, parent.name
                ))
                .with_detail("The new partition may contain only the columns present in parent."));
            }
            if c.identity != 0 {
                return Err(Error::new(
                    sqlstate::INVALID_OBJECT_DEFINITION,
                    format!("table \"{}\" being attached contains an identity column \"{}\"", child.name, c.name),
                )
                .with_detail("The new partition may not contain an identity column."));
            }
        }
        for p in parent.columns.iter().filter(|c| !c.dropped) {
            let Some(c) = child.columns.iter().find(|c| !c.dropped && c.name == p.name) else {
                return Err(mismatch(format!("child table is missing column \"{}\"", p.name)));
            };
            if (c.type_oid, c.typmod) != (p.type_oid, p.typmod) {
                return Err(mismatch(format!(
                    "child table \"{}\" has different type for column \"{}\"",
                    child.name, p.name
                )));
            }
            if c.collation != p.collation {
                return Err(Error::new(
                    sqlstate::COLLATION_MISMATCH,
                    format!("child table \"{}\" has different collation for column \"{}\"", child.name, p.name),
                ));
            }
            if p.not_null && !c.not_null {
                return Err(mismatch(format!(
                    "column \"{}\" in child table \"{}\" must be marked NOT NULL",
                    p.name, child.name
                )));
            }
            if c.generated != 0 && p.generated == 0 {
                return Err(mismatch(format!("column \"{}\" in child table must not be a generated column", p.name)));
            }
            if p.generated != 0 && c.generated == 0 {
                return Err(mismatch(format!("column \"{}\" in child table must be a generated column", p.name)));
            }
        }
        let _ = runtime;
        Ok(())
    }

    /// The parent's checks and not-null constraints must be the child's already.
    fn take_over_constraints(&mut self, parent: &Table, child: &Table, runtime: &dyn Runtime) -> Result<()> {
        let own =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(child.oid)])?;
        for row in
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(parent.oid)])?
        {
            let name = row.text("conname").unwrap_or("");
            let found = match row.char("contype") {
                b'c' if !row.bool("connoinherit") => {
                    let Some(found) = own.iter().find(|r| r.char("contype") == b'c' && r.text("conname") == Some(name))
                    else {
                        return Err(mismatch(format!("child table is missing constraint \"{name}\"")));
                    };
                    if found.text("conbin") != row.text("conbin") {
                        return Err(mismatch(format!(
                            "child table \"{}\" has different definition for check constraint \"{name}\"",
                            child.name
                        )));
                    }
                    found
                }
                b'n' => {
                    let columns: Vec<i64> =
                        own_columns(parent, child, &row.numbers("conkey")).iter().map(|n| i64::from(*n)).collect();
                    match own.iter().find(|r| r.char("contype") == b'n' && r.numbers("conkey") == columns) {
                        Some(found) => found,
                        None => continue,
                    }
                }
                _ => continue,
            };
            let conflict = match (found.bool("conenforced"), found.bool("convalidated")) {
                _ if found.bool("connoinherit") => Some("non-inherited"),
                (true, false) if row.bool("convalidated") => Some("NOT VALID"),
                (false, _) if row.bool("conenforced") => Some("NOT ENFORCED"),
                _ => None,
            };
            if let Some(what) = conflict {
                let message = format!(
                    "constraint \"{}\" conflicts with {what} constraint on child table \"{}\"",
                    found.text("conname").unwrap_or(""),
                    child.name
                );
                return Err(Error::new(sqlstate::INVALID_OBJECT_DEFINITION, message));
            }
            self.change_constraint(found, runtime, |row| {
                row.set("coninhcount", Datum::Int2(row.int("coninhcount") as i16 + 1));
                row.set("conislocal", Datum::Bool(false));
            })?;
        }
        Ok(())
    }

    pub(super) fn change_constraint(
        &mut self,
        row: &CatalogRow,
        runtime: &dyn Runtime,
        change: impl FnOnce(&mut CatalogRow),
    ) -> Result<()> {
        self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, row.oid("oid"), runtime, change)
    }

    /// All rows must be within the bound, and within those above.
    fn check_rows(
        &mut self,
        parent: &Arc<Table>,
        child: &Arc<Table>,
        bound: &PartitionBound,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let key = parent.partition_key.clone().ok_or_else(|| Error::internal("a partitioned table without a key"))?;
        let condition = self.context_mut().with_catalog(runtime, |host| {
            let own = host.bound_condition(parent, &key, bound)?;
            Ok(match host.partition_condition(parent)? {
                Some(above) => format!("({above}) AND ({own})"),
                None => own,
            })
        })?;
        if self.table_with_row(child, RowCondition::NotTrue(&condition), runtime)?.is_none() {
            return Ok(());
        }
        let message = format!("partition constraint of relation \"{}\" is violated by some row", child.name);
        Err(Error::new(sqlstate::CHECK_VIOLATION, message).with_table(&child.schema_name, &child.name))
    }

    /// ALTER INDEX … ATTACH PARTITION.
    fn attach_index(&mut self, whole: &Arc<Table>, r: &nodes::RangeVar, runtime: &dyn Runtime) -> Result<()> {
        let part = self.context_mut().relation_of(r, runtime)?;
        if part.kind != TableKind::Index {
            return Err(wrong_object(format!("\"{}\" is not an index", part.name)));
        }
        let (parent, whole) = self.index_and_table(whole.oid, runtime)?;
        let (child, own) = self.index_and_table(part.oid, runtime)?;
        if parent.kind != TableKind::Partitioned {
            return Err(wrong_object(format!(
                "ALTER action ATTACH PARTITION cannot be performed on relation \"{}\"",
                whole.name
            ))
            .with_detail("This operation is not supported for indexes."));
        }
        // Where its entries are changes for all who look.
        let mode = if whole.is_global { LockMode::AccessExclusive } else { LockMode::Share };
        let child = self.lock_for_ddl(&child, mode, runtime)?;
        let refused = |detail: String| {
            Error::new(
                sqlstate::INVALID_OBJECT_DEFINITION,
                format!("cannot attach index \"{}\" as a partition of index \"{}\"", own.name, whole.name),
            )
            .with_detail(detail)
        };
        if own.part_of == whole.oid {
            return Ok(());
        }
        if own.part_of != 0 {
            return Err(refused(format!("Index \"{}\" is already attached to another index.", own.name)));
        }
        if child.partition_of != parent.oid {
            return Err(refused(format!(
                "Index \"{}\" is not an index on any partition of table \"{}\".",
                own.name, parent.name
            )));
        }
        if !self.is_like_part(&parent, &whole, &child, &own, runtime)? {
            return Err(refused("The index definitions do not match.".into()));
        }
        if whole.constraint != 0 && own.constraint == 0 {
            return Err(refused(format!(
                "The index \"{}\" belongs to a constraint in table \"{}\" but no constraint exists for index \"{}\".",
                whole.name, parent.name, own.name
            )));
        }
        if child.indexes.iter().any(|i| i.part_of == whole.oid) {
            return Err(refused(format!("Another index is already attached for partition \"{}\".", child.name)));
        }
        self.mark_part(own.oid, runtime)?;
        self.make_part(&whole, own.oid, &child, runtime)?;
        if whole.is_global {
            self.move_into_whole(&child, &own, whole.storage, runtime)?;
        }
        self.validate_whole(&parent, &whole, runtime)
    }

    pub(super) fn index_and_table(&mut self, index: Oid, runtime: &dyn Runtime) -> Result<(Arc<Table>, Arc<Index>)> {
        let rows = self.context_mut().catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(index)])?;
        let row = rows.first().ok_or_else(|| Error::internal("an index without a row in pg_index"))?;
        let table = self.context_mut().table_by_oid(row.oid("indrelid"), runtime)?;
        let found = table.indexes.iter().find(|i| i.oid == index).cloned();
        found.map(|i| (table, i)).ok_or_else(|| Error::internal("an index that its table does not have"))
    }

    /// An index of a partitioned table is valid once each partition has its part.
    fn validate_whole(&mut self, parent: &Arc<Table>, whole: &Index, runtime: &dyn Runtime) -> Result<()> {
        if whole.valid {
            return Ok(());
        }
        for partition in self.partition_oids(parent.oid, runtime)? {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            if !child.indexes.iter().any(|i| i.part_of == whole.oid && i.valid) {
                return Ok(());
            }
        }
        self.update_row(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, whole.oid, runtime, |row| {
            row.set("indisvalid", Datum::Bool(true))
        })?;
        if whole.part_of != 0 {
            let (above, index) = self.index_and_table(whole.part_of, runtime)?;
            return self.validate_whole(&above, &index, runtime);
        }
        Ok(())
    }
}
