//! DROP.

use super::Session;
use super::operator_class_objects::Kind;
use super::text_search::kind_of;
use super::types::TypeUser;
use crate::catalog::ids::*;
use crate::catalog::temporary::is_temporary;
use crate::catalog::{CatalogView, Index, Table, TableKind};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, RelationId, Result, Severity, sqlstate};
use kilndb_storage::{LockMode, is_private};
use kilndb_syntax::raw::{DropBehavior, ObjectType as O};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

/// What needs an object that is to go.
pub(super) struct Blocker {
    /// As messages call it.
    pub text: String,
    /// What it needs, if that is not what is dropped.
    pub on: Option<String>,
    pub dependent: Dependent,
}

pub(super) enum Dependent {
    Relation(Oid),
    /// Table and column.
    Default(Oid, i16),
    /// Table and column.
    Generated(Oid, i16),
    /// Of the row type.
    Typed(TypeUser),
    Routine(Oid),
    Trigger(Oid),
    Constraint(Oid),
}

impl Session {
    pub(super) fn drop_objects(&mut self, s: &nodes::DropStmt, runtime: &dyn Runtime) -> Result<String> {
        let cascade = s.behavior == DropBehavior::DROP_CASCADE;
        let (kind, tag) = match s.remove_type {
            O::OBJECT_TABLE => (TableKind::Table, "DROP TABLE"),
            O::OBJECT_VIEW => (TableKind::View, "DROP VIEW"),
            O::OBJECT_SEQUENCE => (TableKind::Sequence, "DROP SEQUENCE"),
            O::OBJECT_INDEX => (TableKind::Index, "DROP INDEX"),
            O::OBJECT_SCHEMA => {
                for object in s.objects() {
                    self.drop_schema(object.as_str().unwrap_or(""), s.missing_ok, cascade, runtime)?;
                }
                return Ok("DROP SCHEMA".to_string());
            }
            O::OBJECT_TRIGGER => return self.drop_trigger(s, runtime),
            O::OBJECT_FUNCTION | O::OBJECT_PROCEDURE | O::OBJECT_ROUTINE => return self.drop_routines(s, runtime),
            O::OBJECT_TYPE | O::OBJECT_DOMAIN => return self.drop_types(s, runtime),
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
            let (schema, name) = super::qualified_relation(object, &self.database.name)?;
            if let Some(table) = self.find_to_drop(schema, name, kind, s.missing_ok, runtime)? {
                targets.push(table);
            }
        }
        let mut together: Vec<Oid> = targets.iter().map(|t| t.oid).collect();
        for target in targets.iter().filter(|t| t.kind == TableKind::Partitioned) {
            together.extend(self.with_catalog(runtime, |host| host.reader.partition_tree(target.oid))?);
        }
        for target in &targets {
            // An earlier one of the list may have taken it along.
            if self.with_catalog(runtime, |host| host.reader.table_by_oid(target.oid))?.is_some() {
                if target.kind == TableKind::Sequence {
                    self.refuse_identity_sequence(target, runtime)?;
                }
                self.drop_relation(target, cascade, &together, runtime)?;
            }
        }
        Ok(tag.to_string())
    }

    /// Kinds that cannot exist here: IF EXISTS is content, anything else is an error.
    fn drop_unsupported(&mut self, s: &nodes::DropStmt) -> Result<String> {
        let (word, tag) = match s.remove_type {
            O::OBJECT_AGGREGATE => ("aggregate", "DROP AGGREGATE"),
            O::OBJECT_MATVIEW => ("materialized view", "DROP MATERIALIZED VIEW"),
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
            self.notice(Severity::Notice, format!("{word} \"{object}\" does not exist, skipping"));
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
            && !self.with_catalog(runtime, |host| host.reader.schema_exists(schema))?
        {
            if missing_ok {
                self.notice(Severity::Notice, format!("schema \"{schema}\" does not exist, skipping"));
                return Ok(None);
            }
            return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
        }
        let Some(table) = self.with_catalog(runtime, |host| host.reader.table_by_name(schema, name))? else {
            if missing_ok {
                self.notice(Severity::Notice, format!("{word} \"{name}\" does not exist, skipping"));
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

    pub(crate) fn drop_table_by_oid(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        match self.with_catalog(runtime, |host| host.reader.table_by_oid(oid))? {
            Some(table) => self.drop_relation(&table, true, &[oid], runtime),
            None => Ok(()),
        }
    }

    /// Drops a relation with what belongs to it. `together`: relations that go in the same command.
    pub(super) fn drop_relation(
        &mut self,
        table: &Arc<Table>,
        cascade: bool,
        together: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if table.kind == TableKind::Index {
            return self.drop_index(table, cascade, runtime);
        }
        if table.partition_of != 0 && !together.contains(&table.partition_of) {
            let parent = self.table_by_oid(table.partition_of, runtime)?;
            self.lock_for_ddl(&parent, LockMode::AccessExclusive, runtime)?;
        }
        let table = self.lock_for_ddl(table, LockMode::AccessExclusive, runtime)?;
        if table.partition_of != 0 {
            self.leave_parent(&table, runtime)?;
        }
        if table.kind == TableKind::Table {
            self.note_emptied(table.storage, runtime)?;
        }
        self.drop_dependents(&table, cascade, together, runtime)?;
        self.delete_triggers_of(table.oid, runtime)?;
        self.leave_entries(&table);
        for index in &table.indexes {
            self.delete_class(index.oid, Some(index.storage).filter(|_| !index.is_in_whole), runtime)?;
        }
        self.delete_rows(PG_INDEX, PG_INDEX_INDRELID_INDEX, &[Datum::Oid(table.oid)], runtime)?;
        for constraint in self.catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table.oid)])? {
            self.delete_key_triggers(constraint.oid("oid"), runtime)?;
            self.remove_dependencies((PG_CONSTRAINT, constraint.oid("oid")), None, runtime)?;
            self.write_catalog(runtime, |w| w.delete(&constraint))?;
        }
        self.delete_defaults(table.oid, None, runtime)?;
        match table.kind {
            TableKind::Partitioned => {
                self.delete_rows(
                    PG_PARTITIONED_TABLE,
                    PG_PARTITIONED_TABLE_PARTRELID_INDEX,
                    &[Datum::Oid(table.oid)],
                    runtime,
                )?;
            }
            TableKind::View => {
                self.delete_rows(PG_REWRITE, PG_REWRITE_REL_RULENAME_INDEX, &[Datum::Oid(table.oid)], runtime)?
            }
            TableKind::Sequence => {
                self.delete_rows(PG_SEQUENCE, PG_SEQUENCE_SEQRELID_INDEX, &[Datum::Oid(table.oid)], runtime)?;
            }
            _ => {}
        }
        for type_row in self.catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(table.type_oid)])? {
            let array = type_row.oid("typarray");
            self.delete_rows(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(array)], runtime)?;
            self.write_catalog(runtime, |w| w.delete(&type_row))?;
        }
        let storage = Some(table.storage).filter(|s| s.0 != 0);
        self.delete_class(table.oid, storage, runtime)?;
        Ok(())
    }

    /// Views, defaults that call a sequence, foreign keys and owned sequences.
    fn drop_dependents(
        &mut self,
        table: &Arc<Table>,
        cascade: bool,
        together: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let mut blockers: Vec<Blocker> = Vec::new();
        let word = super::kind_word(table.kind);
        let shown = self.shown_name(table, runtime)?;
        let going: Vec<Oid> = together.iter().copied().chain([table.oid]).collect();
        let mut keys = Vec::new();
        for (key, name, owner) in self.whole_keys(&table.referenced_by)? {
            // Those of tables that it is a partition of, to themselves: they are left before.
            if owner != table.oid {
                let other = self.table_by_oid(owner, runtime)?;
                keys.push((key, name, other));
            }
        }
        let key_texts: Vec<String> = keys
            .iter()
            .filter(|(_, _, other)| !together.contains(&other.oid))
            .map(|(_, name, other)| format!("constraint {name} on table {}", other.name))
            .collect();
        // Those of a partitioned table are its partitions' too: they come before what is found there.
        let is_partitioned = table.kind == TableKind::Partitioned;
        if is_partitioned && !cascade && !key_texts.is_empty() {
            let lines: Vec<String> = key_texts.iter().map(|text| format!("{text} depends on {word} {shown}")).collect();
            return Err(still_needed(Some(&format!("{word} {shown}")), &lines));
        }
        if is_partitioned {
            for (key, ..) in &keys {
                self.delete_constraint(*key, runtime)?;
            }
        }
        for row in self.dependents(PG_CLASS, table.oid, 0)? {
            let dependent = row.oid("objid");
            match (row.oid("classid"), row.char("deptype")) {
                // Owned sequences go with their column.
                (PG_CLASS, b'a' | b'i') => {
                    if let Some(owned) = self.with_catalog(runtime, |host| host.reader.table_by_oid(dependent))? {
                        self.drop_owned(&owned, cascade, &going, &format!("{word} {shown}"), runtime)?;
                    }
                }
                (PG_CLASS, _) if !going.contains(&dependent) => {
                    if let Some(view) = self.with_catalog(runtime, |host| host.reader.table_by_oid(dependent))? {
                        self.note_view(&view, None, &going, &mut blockers, runtime)?;
                    }
                }
                (PG_ATTRDEF, b'n') => {
                    if let Some((owner, attnum)) = self.default_owner(dependent, runtime)?
                        && !going.contains(&owner.oid)
                    {
                        let text = self.default_shown(&owner, attnum, runtime)?;
                        blockers.push(Blocker { text, on: None, dependent: Dependent::Default(owner.oid, attnum) });
                    }
                }
                _ => {}
            }
        }
        for row in self.dependents(PG_CLASS, table.oid, 0)?.into_iter().filter(|r| r.oid("classid") == PG_PROC) {
            let text = self.routine_shown(row.oid("objid"), runtime)?;
            if !blockers.iter().any(|b| b.text == text) {
                blockers.push(Blocker { text, on: None, dependent: Dependent::Routine(row.oid("objid")) });
            }
        }
        let types = self.row_types(table)?;
        for (text, _, user) in self.users_of_type(&types, &going, runtime)? {
            if !blockers.iter().any(|b| b.text == text) {
                blockers.push(Blocker { text, on: None, dependent: Dependent::Typed(user) });
            }
        }
        if !cascade {
            let on = |b: &Blocker| {
                if matches!(b.dependent, Dependent::Typed(_)) { "type" } else { word }
            };
            let line = |b: &Blocker| {
                b.on.as_ref().map_or_else(
                    || format!("{} depends on {} {shown}", b.text, on(b)),
                    |on| format!("{} depends on {on}", b.text),
                )
            };
            let mut lines: Vec<String> = blockers.iter().map(line).collect();
            lines.extend(key_texts.iter().map(|text| format!("{text} depends on {word} {shown}")));
            if !lines.is_empty() {
                return Err(still_needed(Some(&format!("{word} {shown}")), &lines));
            }
        } else {
            let mut lines: Vec<String> = blockers.iter().map(|b| b.text.clone()).collect();
            lines.extend(key_texts);
            self.tell_cascade(&lines);
        }
        for (key, ..) in keys.iter().filter(|_| !is_partitioned) {
            self.delete_constraint(*key, runtime)?;
        }
        self.drop_blockers(blockers, together, runtime)
    }

    /// From the last to the first: who needs another one comes behind that one.
    pub(super) fn drop_blockers(
        &mut self,
        blockers: Vec<Blocker>,
        together: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for blocker in blockers.into_iter().rev() {
            match blocker.dependent {
                Dependent::Default(table, attnum) => self.drop_needing_default(table, attnum, runtime)?,
                Dependent::Generated(table, attnum) => {
                    let table = self.table_by_oid(table, runtime)?;
                    self.drop_column_alone(&table, attnum, true, runtime)?;
                }
                Dependent::Routine(oid) => self.drop_routine(oid, true, runtime)?,
                Dependent::Typed(user) => self.drop_type_users(vec![user], together, runtime)?,
                Dependent::Constraint(oid) => self.delete_constraint(oid, runtime)?,
                Dependent::Trigger(oid) => {
                    if let Some(row) = self.trigger_by_oid(oid)? {
                        self.delete_trigger(&row, runtime)?;
                    }
                }
                Dependent::Relation(oid) => {
                    if let Some(view) = self.with_catalog(runtime, |host| host.reader.table_by_oid(oid))? {
                        self.drop_relation(&view, true, together, runtime)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A view that goes with what it names, and the views that name it. `on`: what it needs, if that is not what is
    /// dropped.
    fn note_view(
        &mut self,
        view: &Arc<Table>,
        on: Option<String>,
        going: &[Oid],
        blockers: &mut Vec<Blocker>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let text = format!("{} {}", super::kind_word(view.kind), self.shown_name(view, runtime)?);
        if blockers.iter().any(|b| b.text == text) {
            return Ok(());
        }
        blockers.push(Blocker { text: text.clone(), on, dependent: Dependent::Relation(view.oid) });
        for row in self.dependents(PG_CLASS, view.oid, 0)? {
            let dependent = row.oid("objid");
            let is_view =
                row.oid("classid") == PG_CLASS && !b"ai".contains(&row.char("deptype")) && !going.contains(&dependent);
            if let Some(next) =
                self.with_catalog(runtime, |host| host.reader.table_by_oid(dependent))?.filter(|_| is_view)
            {
                self.note_view(&next, Some(text.clone()), going, blockers, runtime)?;
            }
        }
        Ok(())
    }

    /// The composite type of a table's rows, and arrays of it.
    pub(super) fn row_types(&mut self, table: &Table) -> Result<Vec<Oid>> {
        if table.type_oid == 0 {
            return Ok(Vec::new());
        }
        let rows = self.catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(table.type_oid)])?;
        Ok(std::iter::once(table.type_oid).chain(rows.first().map(|r| r.oid("typarray")).filter(|t| *t != 0)).collect())
    }

    /// A sequence that goes with what owns it: an error speaks of the owner.
    pub(super) fn drop_owned(
        &mut self,
        owned: &Arc<Table>,
        cascade: bool,
        going: &[Oid],
        owner: &str,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        self.drop_relation(owned, cascade, going, runtime).map_err(|mut e| {
            if e.sqlstate() == sqlstate::DEPENDENT_OBJECTS_STILL_EXIST {
                e.0.message = format!("cannot drop {owner} because other objects depend on it");
            }
            e
        })
    }

    pub(super) fn tell_cascade(&mut self, lines: &[String]) {
        match lines {
            [] => {}
            [one] => self.notice(Severity::Notice, format!("drop cascades to {one}")),
            many => {
                let detail: Vec<String> = many.iter().map(|l| format!("drop cascades to {l}")).collect();
                let notice = Error::notice(
                    sqlstate::SUCCESSFUL_COMPLETION,
                    Severity::Notice,
                    format!("drop cascades to {} other objects", many.len()),
                );
                self.own.scratch.notices.borrow_mut().push(notice.with_detail(detail.join("\n")));
            }
        }
    }

    pub(super) fn delete_constraint(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        self.delete_parts_of_key(oid, runtime)?;
        self.delete_key_triggers(oid, runtime)?;
        self.remove_dependencies((PG_CONSTRAINT, oid), None, runtime)?;
        self.delete_rows(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, &[Datum::Oid(oid)], runtime)
    }

    fn drop_index(&mut self, index: &Arc<Table>, cascade: bool, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(index.oid)])?;
        let row = rows.first().ok_or_else(|| Error::internal("an index without a row in pg_index"))?;
        let row_of = self
            .with_catalog(runtime, |host| host.reader.class_row(index.oid))?
            .ok_or_else(|| Error::internal("an index vanished"))?;
        let table = self.table_by_oid(row.oid("indrelid"), runtime)?;
        let table = self.lock_for_ddl(&table, LockMode::AccessExclusive, runtime)?;
        let constraints = self.catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table.oid)])?;
        if let Some(c) =
            constraints.iter().find(|c| c.oid("conindid") == index.oid && b"pu".contains(&c.char("contype")))
        {
            let name = c.text("conname").unwrap_or("");
            return Err(Error::new(
                sqlstate::DEPENDENT_OBJECTS_STILL_EXIST,
                format!(
                    "cannot drop index {} because constraint {name} on table {} requires it",
                    index.name, table.name
                ),
            )
            .with_hint(format!("You can drop constraint {name} on table {} instead.", table.name)));
        }
        if row_of.bool("relispartition") {
            let whole = self.with_catalog(runtime, |host| host.reader.partition_parent(index.oid))?;
            let whole = self.with_catalog(runtime, |host| host.reader.class_row(whole))?;
            let whole = whole.as_ref().and_then(|c| c.text("relname")).unwrap_or("").to_string();
            return Err(Error::new(
                sqlstate::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop index {} because index {whole} requires it", index.name),
            )
            .with_hint(format!("You can drop index {whole} instead.")));
        }
        let shown = format!("index {}", index.name);
        self.drop_index_users(&table, index.oid, cascade, &shown, &shown, runtime)?;
        let own = table.indexes.iter().find(|i| i.oid == index.oid).cloned();
        let own = own.ok_or_else(|| Error::internal("an index that its table does not have"))?;
        self.remove_index(&own, table.storage, runtime)
    }

    /// Drops the foreign keys that an index of `table` is there for, or refuses to drop `what`, on whose `part` they
    /// depend.
    pub(super) fn drop_index_users(
        &mut self,
        table: &Table,
        index: Oid,
        cascade: bool,
        what: &str,
        part: &str,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let users: Vec<_> = table.referenced_by.iter().filter(|k| k.referenced_index == index).cloned().collect();
        for (user, name, owner) in self.whole_keys(&users)? {
            if !cascade {
                let other = self.table_by_oid(owner, runtime)?;
                return Err(still_needed(
                    Some(what),
                    &[format!("constraint {name} on table {} depends on {part}", other.name)],
                ));
            }
            self.delete_constraint(user, runtime)?;
        }
        Ok(())
    }

    /// The heap takes over what serializable transactions have read by way of the index.
    pub(super) fn remove_index(&mut self, index: &Index, heap: RelationId, runtime: &dyn Runtime) -> Result<()> {
        let oid = index.oid;
        let storage = if index.is_in_whole { RelationId(0) } else { index.storage };
        // Its parts go with an index of a partitioned table.
        for part in self.catalog_lookup(PG_INHERITS, PG_INHERITS_PARENT_INDEX, &[Datum::Oid(oid)])? {
            self.remove_part(part.oid("inhrelid"), runtime)?;
        }
        if storage.0 != 0 && heap.0 != 0 && !is_private(storage) {
            self.instance.engine.move_read_locks(storage, heap)?;
        }
        self.delete_rows(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(oid)], runtime)?;
        self.delete_class(oid, Some(storage), runtime)
    }

    /// The part of an index that goes, with the constraint that it is for.
    fn remove_part(&mut self, part: Oid, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(part)])?;
        let Some(row) = rows.first() else { return Ok(()) };
        let table = self.table_by_oid(row.oid("indrelid"), runtime)?;
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
        self.usage.dropped(oid);
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
        self.remove_dependencies((PG_CLASS, oid), None, runtime)?;
        for row in self.dependents(PG_CLASS, oid, 0)? {
            self.write_catalog(runtime, |w| w.delete(&row))?;
        }
        if let Some(storage) = storage.filter(|s| s.0 != 0) {
            self.drop_storage(storage)?;
            if !is_temporary(oid) && is_private(storage) {
                self.own.temporary.replace_instance(oid, None);
            }
        }
        Ok(())
    }
}

/// DROP without CASCADE. None: several things were to go.
pub(super) fn still_needed(only: Option<&str>, lines: &[String]) -> Error {
    let message = match only {
        Some(what) => format!("cannot drop {what} because other objects depend on it"),
        None => "cannot drop desired object(s) because other objects depend on them".to_string(),
    };
    Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .with_detail(lines.join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
