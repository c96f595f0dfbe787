//! Columns whose values are rows of a relation's type, and what happens to them when the relation's attributes change.
//!
//! Invariants
//! 1. Stored values stay as they are: whoever reads them knows the attributes that there are now
//!    (`kilndb_types::row_shape`).
//! 2. What was computed from whole values and is stored elsewhere, keys of indexes and statistics, is made anew or goes.
//!    Rows do not move between partitions: a key that such values decide keeps the type as it is.

use super::Definitions;
use super::alter_type::names_column;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_types::Datum;
use std::sync::Arc;

/// A column in which rows of a type are stored, by itself or in whatever its values hold.
pub(super) struct StoredRows {
    pub table: Arc<Table>,
    pub attnum: i16,
}

impl Definitions<'_> {
    /// Columns that store rows of the relation's type.
    fn stored_rows(&mut self, relation: &Table, runtime: &dyn Runtime) -> Result<Vec<StoredRows>> {
        let mut types = self.row_types(relation)?;
        let mut found = Vec::new();
        let mut looked = 0;
        while let Some(ty) = types.get(looked).copied() {
            looked += 1;
            for row in self.dependents(PG_TYPE, ty, 0)? {
                let object = row.oid("objid");
                let more = match row.oid("classid") {
                    PG_TYPE => self.type_and_arrays(object)?,
                    PG_CLASS => match self.user_of_row(object, runtime)? {
                        Some(user) if user.kind == TableKind::Composite => self.row_types(&user)?,
                        Some(table) if table.oid != relation.oid => {
                            found.push(StoredRows { table, attnum: row.int("objsubid") as i16 });
                            continue;
                        }
                        _ => continue,
                    },
                    _ => continue,
                };
                let new: Vec<Oid> = more.into_iter().filter(|ty| !types.contains(ty)).collect();
                types.extend(new);
            }
        }
        Ok(found)
    }

    /// A relation with attributes or rows of its own.
    fn user_of_row(&mut self, relation: Oid, runtime: &dyn Runtime) -> Result<Option<Arc<Table>>> {
        let user = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(relation))?;
        let kinds = [TableKind::Table, TableKind::Partitioned, TableKind::Composite];
        Ok(user.filter(|user| kinds.contains(&user.kind)))
    }

    /// A type that is made of another one, and the types of its arrays.
    fn type_and_arrays(&mut self, ty: Oid) -> Result<Vec<Oid>> {
        let rows = self.context_mut().catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(ty)])?;
        Ok(std::iter::once(ty).chain(rows.first().map(|row| row.oid("typarray")).filter(|ty| *ty != 0)).collect())
    }

    /// 0A000 if there may be stored values of the relation's row type: they would have to be computed anew.
    pub(super) fn refuse_stored_rows(&mut self, relation: &Table, runtime: &dyn Runtime) -> Result<()> {
        match self.stored_rows(relation, runtime)?.first() {
            None => Ok(()),
            Some(user) => {
                let uses = if relation.kind == TableKind::Composite { "it" } else { "its row type" };
                Err(refused(relation, user, &format!("uses {uses}")))
            }
        }
    }

    /// Sees to the columns that store rows of a relation whose attributes have changed.
    pub(super) fn follow_row_type(&mut self, relation: Oid, runtime: &dyn Runtime) -> Result<()> {
        let relation = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(relation))?;
        let Some(relation) = relation.filter(|relation| relation.type_oid != 0) else { return Ok(()) };
        let users = self.stored_rows(&relation, runtime)?;
        // Nobody begins an index over the old values meanwhile.
        for user in &users {
            self.lock_for_ddl(&user.table, LockMode::ShareUpdateExclusive, runtime)?;
        }
        for user in users {
            let table = self.context_mut().table_by_oid(user.table.oid, runtime)?;
            let user = StoredRows { table, ..user };
            if self.is_partitioned_by(&user, runtime)? {
                return Err(refused(&relation, &user, "is in the partition key of its table"));
            }
            self.delete_statistics(user.table.oid, Some(user.attnum), runtime)?;
            self.rebuild_indexes_of(&user, runtime)?;
        }
        Ok(())
    }

    fn is_partitioned_by(&mut self, user: &StoredRows, runtime: &dyn Runtime) -> Result<bool> {
        let Some(key) = &user.table.partition_key else { return Ok(false) };
        let column = ObjectAddress::column(user.table.oid, user.attnum);
        self.context_mut().with_catalog(runtime, |host| {
            for sql in key.parts.iter().filter_map(|part| part.expression_sql.as_deref()) {
                if names_column(host, &user.table, sql, column)? {
                    return Ok(true);
                }
            }
            Ok(key.uses(user.attnum))
        })
    }

    /// The column's values have other keys now: indexes that have some are built anew.
    fn rebuild_indexes_of(&mut self, user: &StoredRows, runtime: &dyn Runtime) -> Result<()> {
        let table = user.table.clone();
        let column = ObjectAddress::column(table.oid, user.attnum);
        let stale: Vec<Oid> = self.context_mut().with_catalog(runtime, |host| {
            let mut stale = Vec::new();
            // Partitions have their turn; what they share is the partitioned table's.
            let own = |index: &&Arc<kilndb_catalog::Index>| {
                !index.is_in_whole && (index.is_global || table.kind != TableKind::Partitioned)
            };
            for index in table.indexes.iter().filter(own) {
                let mut uses = index.keys.iter().any(|key| key.attnum == user.attnum);
                let expressions = index.keys.iter().filter_map(|key| key.expression_sql.as_deref());
                for sql in expressions.chain(index.predicate_sql.as_deref()) {
                    uses = uses || names_column(host, &table, sql, column)?;
                }
                stale.extend(uses.then_some(index.oid));
            }
            Ok(stale)
        })?;
        if stale.is_empty() {
            return Ok(());
        }
        let table = self.lock_for_ddl(&table, LockMode::AccessExclusive, runtime)?;
        stale.into_iter().try_for_each(|index| self.rebuild_index(&table, index, runtime))
    }
}

fn refused(relation: &Table, user: &StoredRows, why: &str) -> Error {
    let column = user.table.columns.get(user.attnum as usize - 1).map_or("", |column| column.name.as_str());
    let word = if relation.kind == TableKind::Composite { "type" } else { "table" };
    Error::unsupported(format!(
        "cannot alter {word} \"{}\" because column \"{}.{column}\" {why}",
        relation.name, user.table.name
    ))
}
