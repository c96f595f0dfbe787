//! DROP.

use super::Definitions;
use super::operator_class_objects::Kind;
use super::text_search::kind_of;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, RelationId, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::temporary::is_temporary;
use kilndb_catalog::{CatalogView, Index, Table, TableKind};
use kilndb_storage::{LockMode, is_private};
use kilndb_syntax::raw::{DropBehavior, ObjectType as O};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

impl Definitions<'_> {
    pub fn drop_objects(&mut self, s: &nodes::DropStmt, runtime: &dyn Runtime) -> Result<String> {
        let cascade = s.behavior == DropBehavior::DROP_CASCADE;
        let (kind, tag) = match s.remove_type {
            O::OBJECT_TABLE => (TableKind::Table, "DROP TABLE"),
            O::OBJECT_VIEW => (TableKind::View, "DROP VIEW"),
            O::OBJECT_MATVIEW => (TableKind::Materialized, "DROP MATERIALIZED VIEW"),
            O::OBJECT_SEQUENCE => (TableKind::Sequence, "DROP SEQUENCE"),
            O::OBJECT_INDEX => (TableKind::Index, "DROP INDEX"),
            O::OBJECT_SCHEMA => return self.drop_schemas(s, cascade, runtime),
            O::OBJECT_TRIGGER => return self.drop_trigger(s, runtime),
            O::OBJECT_POLICY => return self.drop_policies(s, cascade, runtime),
            O::OBJECT_FUNCTION | O::OBJECT_PROCEDURE | O::OBJECT_ROUTINE => return self.drop_routines(s, runtime),
            O::OBJECT_TYPE | O::OBJECT_DOMAIN => return self.drop_types(s, runtime),
            O::OBJECT_STATISTIC_EXT => return self.drop_statistics(s, cascade, runtime),
            O::OBJECT_COLLATION => return self.drop_collations(s, cascade, runtime),
            O::OBJECT_EXTENSION => return self.drop_extensions(s, runtime),
            O::OBJECT_OPCLASS => return self.drop_operator_objects(s, Kind::Class, cascade, runtime),
            O::OBJECT_OPFAMILY => return self.drop_operator_objects(s, Kind::Family, cascade, runtime),
            other => {
                return match kind_of(other) {
                    Some(kind) => self.drop_text_search(s, kind, cascade, runtime),
                    None => self.drop_unsupported(s),
                };
            }
        };
        let mut targets: Vec<Arc<Table>> = Vec::new();
        for object in s.objects() {
            let (schema, name) = super::qualified_relation(object, &self.context().database.name)?;
            if let Some(table) = self.find_to_drop(schema, name, kind, s.missing_ok, runtime)? {
                targets.push(table);
            }
        }
        let mut named = Vec::with_capacity(targets.len());
        for target in &targets {
            self.lock_to_drop(target, &targets, runtime)?;
            let object = ObjectAddress::object(PG_CLASS, target.oid);
            if !named.contains(&object) {
                named.push(object);
            }
        }
        self.delete_objects(&named, cascade, runtime)?;
        Ok(tag.to_string())
    }

    /// Kinds that cannot exist here: IF EXISTS is content, anything else is an error.
    fn drop_unsupported(&mut self, s: &nodes::DropStmt) -> Result<String> {
        let (word, tag) = match s.remove_type {
            O::OBJECT_AGGREGATE => ("aggregate", "DROP AGGREGATE"),
            _ => return Err(Error::unsupported("DROP of this kind of object is not supported")),
        };
        for object in s.objects() {
            let object = match object {
                Node::ObjectWithArgs(o) => super::strings(o.objname()).last().map_or(String::new(), |s| s.to_string()),
                other => super::qualified(other).1.to_string(),
            };
            if !s.missing_ok {
                return Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("{word} \"{object}\" does not exist")));
            }
            self.context().notice(Severity::Notice, format!("{word} \"{object}\" does not exist, skipping"));
        }
        Ok(tag.to_string())
    }

    fn find_to_drop(
        &mut self,
        schema: Option<&str>,
        name: &str,
        kind: TableKind,
        missing_ok: bool,
        runtime: &dyn Runtime,
    ) -> Result<Option<Arc<Table>>> {
        let word = super::kind_word(kind);
        if let Some(schema) = schema
            && !self.context_mut().with_catalog(runtime, |host| host.reader.schema_exists(schema))?
        {
            if missing_ok {
                self.context().notice(Severity::Notice, format!("schema \"{schema}\" does not exist, skipping"));
                return Ok(None);
            }
            return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
        }
        let Some(table) = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_name(schema, name))?
        else {
            if missing_ok {
                self.context().notice(Severity::Notice, format!("{word} \"{name}\" does not exist, skipping"));
                return Ok(None);
            }
            let code = if word == "index" { sqlstate::UNDEFINED_OBJECT } else { sqlstate::UNDEFINED_TABLE };
            return Err(Error::new(code, format!("{word} \"{name}\" does not exist")));
        };
        if table.kind != kind && !(kind == TableKind::Table && table.kind == TableKind::Partitioned) {
            let actual = super::kind_word(table.kind);
            let article = |w: &str| if w.starts_with('i') { "an" } else { "a" };
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {} {word}", article(word)))
                .with_hint(format!("Use DROP {} to remove {} {actual}.", actual.to_uppercase(), article(actual))));
        }
        Ok(Some(table))
    }

    /// Locks a relation that is to be dropped; an index by its table, a partition after the partitioned table.
    fn lock_to_drop(&mut self, target: &Table, all: &[Arc<Table>], runtime: &dyn Runtime) -> Result<()> {
        let mut locked = target.oid;
        if target.kind == TableKind::Index {
            let rows =
                self.context_mut().catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(target.oid)])?;
            locked = rows.first().map_or(0, |row| row.oid("indrelid"));
        } else if target.partition_of != 0 && !all.iter().any(|t| t.oid == target.partition_of) {
            let parent = self.context_mut().table_by_oid(target.partition_of, runtime)?;
            self.lock_for_ddl(&parent, LockMode::AccessExclusive, runtime)?;
        }
        let table = self.context_mut().table_by_oid(locked, runtime)?;
        self.lock_for_ddl(&table, LockMode::AccessExclusive, runtime).map(|_| ())
    }

    pub(crate) fn drop_table_by_oid(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        match self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(oid))? {
            Some(table) => self.delete_objects(&[ObjectAddress::object(PG_CLASS, table.oid)], true, runtime),
            None => Ok(()),
        }
    }

    /// Deletes a relation that nothing needs any more, with what belongs to it. `with_parent`: what it is a partition of
    /// goes too.
    pub(super) fn delete_relation(
        &mut self,
        table: &Arc<Table>,
        with_parent: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if table.partition_of != 0 && !with_parent {
            self.leave_parent(table, runtime)?;
        }
        if table.kind.has_rows() {
            self.note_emptied(table.storage, runtime)?;
        }
        // Catalogs that have nothing of the table, as its description says, are not searched.
        let has_keys = !table.foreign_keys.is_empty() || !table.referenced_by.is_empty();
        if !table.triggers.is_empty() || has_keys {
            self.delete_triggers_of(table.oid, runtime)?;
        }
        self.leave_entries(table);
        for index in &table.indexes {
            self.delete_class(index.oid, Some(index.storage).filter(|_| !index.is_in_whole), runtime)?;
        }
        if !table.indexes.is_empty() {
            self.delete_rows(PG_INDEX, PG_INDEX_INDRELID_INDEX, &[Datum::Oid(table.oid)], runtime)?;
        }
        if has_constraints(table) {
            let key = [Datum::Oid(table.oid)];
            for constraint in self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &key)? {
                self.delete_key_triggers(constraint.oid("oid"), runtime)?;
                self.write_catalog(runtime, |w| w.delete(&constraint))?;
            }
        }
        if table.columns.iter().any(|c| c.default_sql.is_some() || c.generated != 0) {
            self.delete_defaults(table.oid, None, runtime)?;
        }
        let own_rows = match table.kind {
            TableKind::Partitioned => Some((PG_PARTITIONED_TABLE, PG_PARTITIONED_TABLE_PARTRELID_INDEX)),
            TableKind::View | TableKind::Materialized => Some((PG_REWRITE, PG_REWRITE_REL_RULENAME_INDEX)),
            TableKind::Sequence => Some((PG_SEQUENCE, PG_SEQUENCE_SEQRELID_INDEX)),
            _ => None,
        };
        if let Some((catalog, index)) = own_rows {
            self.delete_rows(catalog, index, &[Datum::Oid(table.oid)], runtime)?;
        }
        for type_row in self.context_mut().catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(table.type_oid)])? {
            let array = type_row.oid("typarray");
            self.delete_rows(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(array)], runtime)?;
            let comment = [Datum::Oid(table.type_oid), Datum::Oid(PG_TYPE)];
            self.delete_rows(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &comment, runtime)?;
            self.write_catalog(runtime, |w| w.delete(&type_row))?;
        }
        let storage = Some(table.storage).filter(|s| s.0 != 0);
        self.delete_class(table.oid, storage, runtime)
    }

    /// The composite type of a table's rows, and arrays of it.
    pub(super) fn row_types(&mut self, table: &Table) -> Result<Vec<Oid>> {
        if table.type_oid == 0 {
            return Ok(Vec::new());
        }
        let rows = self.context_mut().catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(table.type_oid)])?;
        Ok(std::iter::once(table.type_oid).chain(rows.first().map(|r| r.oid("typarray")).filter(|t| *t != 0)).collect())
    }

    pub(super) fn delete_constraint(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        self.delete_parts_of_key(oid, runtime)?;
        self.delete_key_triggers(oid, runtime)?;
        self.delete_rows(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, &[Datum::Oid(oid)], runtime)
    }

    /// The heap takes over what serializable transactions have read by way of the index.
    pub(super) fn remove_index(&mut self, index: &Index, heap: RelationId, runtime: &dyn Runtime) -> Result<()> {
        let oid = index.oid;
        let storage = if index.is_in_whole { RelationId(0) } else { index.storage };
        // Its parts go with an index of a partitioned table.
        for part in self.context_mut().catalog_lookup(PG_INHERITS, PG_INHERITS_PARENT_INDEX, &[Datum::Oid(oid)])? {
            self.remove_part(part.oid("inhrelid"), runtime)?;
        }
        if storage.0 != 0 && heap.0 != 0 && !is_private(storage) {
            self.context().cluster.engine.move_read_locks(storage, heap)?;
        }
        self.delete_rows(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(oid)], runtime)?;
        self.delete_class(oid, Some(storage), runtime)
    }

    /// The part of an index that goes, with the constraint that it is for.
    fn remove_part(&mut self, part: Oid, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.context_mut().catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(part)])?;
        let Some(row) = rows.first() else { return Ok(()) };
        let table = self.context_mut().table_by_oid(row.oid("indrelid"), runtime)?;
        let table = self.lock_for_ddl(&table, LockMode::AccessExclusive, runtime)?;
        let Some(own) = table.indexes.iter().find(|i| i.oid == part).cloned() else { return Ok(()) };
        if own.constraint != 0 {
            self.delete_constraint(own.constraint, runtime)?;
        }
        self.remove_index(&own, table.storage, runtime)
    }

    /// A partition that goes.
    fn leave_parent(&mut self, table: &Table, runtime: &dyn Runtime) -> Result<()> {
        let map = self.partition_map(table.partition_of, runtime)?;
        if map.default_partition().is_some_and(|at| map.partitions[at].oid == table.oid) {
            self.set_default_partition(table.partition_of, 0, runtime)?;
        }
        Ok(())
    }

    /// pg_class, pg_attribute, pg_depend, comments and storage of a relation.
    fn delete_class(&mut self, oid: Oid, storage: Option<RelationId>, runtime: &dyn Runtime) -> Result<()> {
        self.context_mut().transaction.usage.dropped(oid);
        self.delete_rows(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(oid)], runtime)?;
        self.delete_rows(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &[Datum::Oid(oid)], runtime)?;
        self.delete_rows(PG_INHERITS, PG_INHERITS_RELID_SEQNO_INDEX, &[Datum::Oid(oid)], runtime)?;
        self.delete_rows(
            PG_DESCRIPTION,
            PG_DESCRIPTION_O_C_O_INDEX,
            &[Datum::Oid(oid), Datum::Oid(PG_CLASS)],
            runtime,
        )?;
        self.delete_statistics(oid, None, runtime)?;
        if let Some(storage) = storage.filter(|s| s.0 != 0) {
            self.drop_storage(storage)?;
            if !is_temporary(oid) && is_private(storage) {
                self.context().shared.temporary.replace_instance(oid, None);
            }
        }
        Ok(())
    }
}

/// May the table have rows of pg_constraint?
fn has_constraints(table: &Table) -> bool {
    !table.checks.is_empty()
        || !table.foreign_keys.is_empty()
        || !table.referenced_by.is_empty()
        || !table.triggers.is_empty()
        || !table.indexes.is_empty()
        || table.columns.iter().any(|c| c.not_null)
}
