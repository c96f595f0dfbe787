//! Columns whose values are rows of a relation's type, and what happens to them when the relation's attributes change.
//!
//! Invariants
//! 1. Stored values stay as they are: whoever reads them knows the attributes that there are now
//!    (`kilndb_types::row_shape`).
//! 2. What was computed from whole values and is stored elsewhere, keys of indexes and statistics, is made anew or goes.
//!    Rows do not move between partitions: a key that such values decide keeps the type as it is.

use super::Definitions;
use super::alter_type::names_column;
use super::dependency::derived::{RowsRead, dependencies_of};
use crate::client::Runtime;
use kilndb_base::hash::{HashMap, HashMapExt, HashSet};
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_storage::LockMode;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A column in which rows of a type are stored, by itself or in whatever its values hold.
struct StoredRows {
    table: Arc<Table>,
    attnum: i16,
}

/// Who uses a row type.
#[derive(Default)]
struct RowTypeUsers {
    /// The type, and the types whose values have such rows in them.
    types: Vec<Oid>,
    columns: Vec<StoredRows>,
    /// What else needs one of the types, by catalog and OID.
    definitions: BTreeSet<(Oid, Oid)>,
}

impl Definitions<'_> {
    /// Who uses the relation's row type, in PostgreSQL's order.
    fn row_type_users(&mut self, relation: &Table, runtime: &dyn Runtime) -> Result<RowTypeUsers> {
        let mut users = RowTypeUsers::default();
        self.note_users(relation.type_oid, relation, &mut users, runtime)?;
        Ok(users)
    }

    fn note_users(&mut self, ty: Oid, relation: &Table, users: &mut RowTypeUsers, runtime: &dyn Runtime) -> Result<()> {
        if ty == 0 || users.types.contains(&ty) {
            return Ok(());
        }
        users.types.push(ty);
        let array = self.type_info(ty, runtime)?.array;
        self.note_users(array, relation, users, runtime)?;
        // Rows of pg_depend take the places of others, so that their own order is none.
        let mut dependents = self.dependents(PG_TYPE, ty, 0)?;
        dependents.sort_by_key(|row| (row.oid("objid"), row.int("objsubid")));
        for row in dependents {
            let (class, object) = (row.oid("classid"), row.oid("objid"));
            match class {
                PG_TYPE => self.note_users(object, relation, users, runtime)?,
                PG_CLASS => match self.user_of_row(object, runtime)? {
                    Some(user) if user.kind == TableKind::Composite => {
                        self.note_users(user.type_oid, relation, users, runtime)?;
                    }
                    // Whatever else of a table needs the type, as its partition key's expressions, is a definition.
                    Some(table) if table.oid != relation.oid && row.int("objsubid") != 0 => {
                        users.columns.push(StoredRows { table, attnum: row.int("objsubid") as i16 });
                    }
                    _ => _ = users.definitions.insert((class, object)),
                },
                _ => _ = users.definitions.insert((class, object)),
            }
        }
        Ok(())
    }

    /// A relation with attributes or rows of its own.
    fn user_of_row(&mut self, relation: Oid, runtime: &dyn Runtime) -> Result<Option<Arc<Table>>> {
        let user = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(relation))?;
        Ok(user.filter(|user| user.kind.keeps_rows() || user.kind == TableKind::Composite))
    }

    /// 0A000 if there may be stored values of the relation's row type: they would have to be computed anew.
    pub(super) fn refuse_stored_rows(&mut self, relation: &Table, runtime: &dyn Runtime) -> Result<()> {
        match self.row_type_users(relation, runtime)?.columns.first() {
            None => Ok(()),
            Some(user) => {
                let uses = if relation.kind == TableKind::Composite { "it" } else { "its row type" };
                Err(user.refused(relation, &format!("uses {uses}")))
            }
        }
    }

    /// Sees to the columns that store rows of a relation whose attributes have changed.
    pub(super) fn follow_row_type(&mut self, relation: Oid, runtime: &dyn Runtime) -> Result<()> {
        let relation = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(relation))?;
        let Some(relation) = relation.filter(|relation| relation.type_oid != 0) else { return Ok(()) };
        let RowTypeUsers { columns: users, definitions, .. } = self.row_type_users(&relation, runtime)?;
        self.refuse_rows_made(&relation, definitions, runtime)?;
        // Nobody begins an index over the old values meanwhile.
        for user in &users {
            self.lock_for_ddl(&user.table, LockMode::ShareUpdateExclusive, runtime)?;
        }
        for user in users {
            let table = self.context_mut().table_by_oid(user.table.oid, runtime)?;
            let user = StoredRows { table, ..user };
            if self.is_partitioned_by(&user, runtime)? {
                return Err(user.refused(&relation, "is in the partition key of its table"));
            }
            self.delete_statistics(user.table.oid, Some(user.attnum), runtime)?;
            self.rebuild_indexes_of(&user, runtime)?;
        }
        Ok(())
    }

    /// 0A000 if a definition makes rows of the type, by a cast of ROW or a constant, that have the wrong number of
    /// fields now.
    fn refuse_rows_made(
        &mut self,
        relation: &Table,
        mut definitions: BTreeSet<(Oid, Oid)>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        // Where a row becomes one of the type without its name, each attribute is used.
        let mut used: HashMap<(Oid, Oid), HashSet<i64>> = HashMap::new();
        for row in self.dependents(PG_CLASS, relation.oid, 0)? {
            used.entry((row.oid("classid"), row.oid("objid"))).or_default().insert(row.int("refobjsubid"));
        }
        // One attribute may be new.
        let live = relation.columns.iter().filter(|column| !column.dropped).count();
        definitions
            .extend(used.into_iter().filter(|(_, attributes)| attributes.len() + 1 >= live).map(|(user, _)| user));
        for (class, object) in definitions {
            let bound = self
                .context_mut()
                .with_catalog(runtime, |host| dependencies_of(&RowsRead::new(host), class, object).map(|_| ()));
            if let Err(e) = bound {
                let shown = self.object_shown(ObjectAddress::object(class, object), runtime)?;
                return Err(
                    refused(relation, &format!("{shown} makes rows of it")).with_detail(e.message().to_string())
                );
            }
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

fn refused(relation: &Table, why: &str) -> Error {
    let word = if relation.kind == TableKind::Composite { "type" } else { "table" };
    Error::unsupported(format!("cannot alter {word} \"{}\" because {why}", relation.name))
}

impl StoredRows {
    fn refused(&self, relation: &Table, why: &str) -> Error {
        let column = self.table.columns.iter().find(|column| column.attnum == self.attnum);
        let column = column.map_or("", |column| column.name.as_str());
        refused(relation, &format!("column \"{}.{column}\" {why}", self.table.name))
    }
}
