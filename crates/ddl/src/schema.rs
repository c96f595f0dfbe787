//! Schemas, and moving and renaming what is in them.

use super::DefinitionStatement;
use super::create_table::refuse_system_name;
use super::text_search::kind_of;
use super::{Definitions, operator_class_objects};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::TableKind;
use kilndb_catalog::ids::*;
use kilndb_catalog::temporary::is_temporary;
use kilndb_syntax::raw::ObjectType as O;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

/// What others may need comes first.
fn turn(element: &Node<'_>) -> u8 {
    match element {
        Node::CreateSeqStmt(_) => 0,
        Node::CreateStmt(_) => 1,
        Node::ViewStmt(_) => 2,
        Node::IndexStmt(_) => 3,
        _ => 4,
    }
}

fn relation_of_element<'s>(element: &Node<'s>) -> Option<&'s nodes::RangeVar> {
    match element {
        Node::CreateSeqStmt(s) => s.sequence(),
        Node::CreateStmt(s) => s.relation(),
        Node::ViewStmt(s) => s.view(),
        Node::IndexStmt(s) => s.relation(),
        Node::CreateTrigStmt(s) => s.relation(),
        _ => None,
    }
}

impl Definitions<'_> {
    pub fn create_schema(
        &mut self,
        s: &nodes::CreateSchemaStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let role = s.authrole().map(|spec| self.role_by_spec(spec)).transpose()?;
        let name = s.schemaname().map(str::to_string).or(role.as_ref().map(|role| role.name.clone()));
        let name = name.unwrap_or_default();
        if name.starts_with("pg_") {
            return Err(Error::new(sqlstate::RESERVED_NAME, format!("unacceptable schema name \"{name}\""))
                .with_detail("The prefix \"pg_\" is reserved for system schemas."));
        }
        let owner = match &role {
            Some(role) => role.oid,
            None => self.context().identity.current_role,
        };
        if self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(&name))?.is_some() {
            if s.if_not_exists {
                self.context().shared.scratch.notices.borrow_mut().push(Error::notice(
                    sqlstate::DUPLICATE_SCHEMA,
                    Severity::Notice,
                    format!("schema \"{name}\" already exists, skipping"),
                ));
                return Ok(());
            }
            return Err(Error::new(sqlstate::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists")));
        }
        self.insert_schema(&name, owner, runtime)?;
        let mut elements: Vec<Node<'_>> = s.schema_elts().iter().collect();
        elements.sort_by_key(turn);
        for element in elements {
            self.create_element(&name, element, source, runtime)?;
        }
        Ok(())
    }

    /// CREATE SCHEMA … CREATE …: with the new schema in front of the search path.
    fn create_element(
        &mut self,
        schema: &str,
        element: Node<'_>,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if let Some(other) = relation_of_element(&element).and_then(|r| r.schemaname()).filter(|other| *other != schema)
        {
            let message =
                format!("CREATE specifies a schema ({other}) different from the one being created ({schema})");
            return Err(Error::new(sqlstate::INVALID_SCHEMA_DEFINITION, message));
        }
        let path = self.context().settings.search_path.clone();
        self.context_mut().settings.search_path.insert(0, schema.to_string());
        self.context_mut().forget_path();
        let done = self.host.define(&DefinitionStatement { node: element, source, runtime });
        self.context_mut().settings.search_path = path;
        self.context_mut().forget_path();
        done.map(|_| ())
    }

    pub(super) fn insert_schema(&mut self, name: &str, owner: Oid, runtime: &dyn Runtime) -> Result<Oid> {
        let oid = self.context().cluster.next_oid()?;
        self.write_catalog(runtime, |w| {
            w.insert(
                PG_NAMESPACE,
                &[("oid", Datum::Oid(oid)), ("nspname", Datum::text(name)), ("nspowner", Datum::Oid(owner))],
            )
            .map(|_| ())
        })?;
        Ok(oid)
    }

    pub(crate) fn role_oid(&mut self, name: &str) -> Result<Oid> {
        let oid = self.roles()?.named(name).map(|role| role.oid);
        oid.ok_or_else(|| Error::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")))
    }

    pub(super) fn drop_schemas(&mut self, s: &nodes::DropStmt, cascade: bool, runtime: &dyn Runtime) -> Result<String> {
        let mut named = Vec::new();
        for object in s.objects() {
            let name = object.as_str().unwrap_or("");
            // `pg_temp` is a word for a schema, not the name of one.
            let found = match name {
                "pg_temp" => None,
                _ => self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(name))?,
            };
            match found {
                Some(oid) => named.push(ObjectAddress::object(PG_NAMESPACE, oid)),
                None if s.missing_ok => {
                    self.context().notice(Severity::Notice, format!("schema \"{name}\" does not exist, skipping"))
                }
                None => {
                    let message = format!("schema \"{name}\" does not exist");
                    return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, message));
                }
            }
        }
        self.delete_objects(&named, cascade, runtime)?;
        Ok("DROP SCHEMA".to_string())
    }

    pub fn rename(&mut self, s: &nodes::RenameStmt, runtime: &dyn Runtime) -> Result<String> {
        let mut words = words_of(s.object());
        words.extend(s.subname().map(str::to_string));
        words.extend(s.relation().and_then(|r| r.relname()).map(str::to_string));
        // Columns are looked for by `rename_column`; nobody names constraints.
        if matches!(
            s.rename_type,
            O::OBJECT_COLUMN
                | O::OBJECT_ATTRIBUTE
                | O::OBJECT_TABCONSTRAINT
                | O::OBJECT_DOMCONSTRAINT
                | O::OBJECT_TRIGGER
                | O::OBJECT_POLICY
        ) {
            words.clear();
        }
        self.with_texts_renamed(&words, &[], runtime, |definitions| definitions.rename_object(s, runtime))
    }

    fn rename_object(&mut self, s: &nodes::RenameStmt, runtime: &dyn Runtime) -> Result<String> {
        let new_name = s.newname().unwrap_or("").to_string();
        match s.rename_type {
            O::OBJECT_TABLE | O::OBJECT_INDEX | O::OBJECT_SEQUENCE | O::OBJECT_VIEW | O::OBJECT_MATVIEW => {
                self.rename_relation(s, &new_name, runtime)
            }
            O::OBJECT_COLUMN | O::OBJECT_ATTRIBUTE => self.rename_column(s, &new_name, runtime),
            O::OBJECT_TABCONSTRAINT => self.rename_constraint(s, &new_name, runtime),
            O::OBJECT_SCHEMA => {
                let old = s.subname().unwrap_or("");
                let oid = self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(old))?;
                let oid = oid.ok_or_else(|| {
                    Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{old}\" does not exist"))
                })?;
                self.update_row(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, oid, runtime, |row| {
                    row.set("nspname", Datum::text(&new_name))
                })?;
                Ok("ALTER SCHEMA".to_string())
            }
            O::OBJECT_TYPE | O::OBJECT_DOMAIN => self.rename_type(s, &new_name, runtime),
            O::OBJECT_DOMCONSTRAINT => self.rename_domain_constraint(s, &new_name, runtime),
            O::OBJECT_ROLE => self.rename_role(s.subname().unwrap_or(""), &new_name, runtime),
            O::OBJECT_STATISTIC_EXT => self.rename_statistics(s, &new_name, runtime),
            O::OBJECT_TRIGGER => self.rename_trigger(s, &new_name, runtime),
            O::OBJECT_POLICY => self.rename_policy(s, &new_name, runtime),
            O::OBJECT_COLLATION => self.rename_collation(s.object(), &new_name, runtime),
            O::OBJECT_FUNCTION | O::OBJECT_PROCEDURE | O::OBJECT_ROUTINE => self.rename_routine(s, &new_name, runtime),
            other => match (kind_of(other), operator_class_objects::kind_of(other)) {
                (Some(kind), _) => self.rename_text_search(s, kind, &new_name, runtime),
                (_, Some(kind)) => self.rename_operator_object(s, kind, &new_name, runtime),
                (None, None) => Err(Error::unsupported("renaming this kind of object is not supported")),
            },
        }
    }

    fn rename_relation(&mut self, s: &nodes::RenameStmt, new_name: &str, runtime: &dyn Runtime) -> Result<String> {
        let word = super::object_word(s.rename_type);
        let tag = format!("ALTER {}", word.to_uppercase());
        let r = s.relation().ok_or_else(|| Error::internal("RENAME without a relation"))?;
        let Some(table) = self.relation_if_any(r, s.missing_ok, runtime)? else { return Ok(tag) };
        super::alter_table::refuse_plain(s.rename_type, &table)?;
        let table = self.lock_for_ddl(&table, self.table_lock(), runtime)?;
        self.name_is_taken(table.schema_oid, new_name, "relation", false, runtime)?;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
            row.set("relname", Datum::text(new_name))
        })?;
        let names = [new_name.to_string(), super::types::array_name(new_name)];
        for (row_type, name) in self.row_types(&table)?.into_iter().zip(names) {
            self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, row_type, runtime, |row| {
                row.set("typname", Datum::text(name))
            })?;
        }
        if table.kind == TableKind::Index {
            // A constraint shares its index's name.
            for row in self.context_mut().catalog_scan(PG_CONSTRAINT)? {
                if row.oid("conindid") == table.oid && b"pu".contains(&row.char("contype")) {
                    let mut new = row.clone();
                    new.set("conname", Datum::text(new_name));
                    self.write_catalog(runtime, |w| w.update(&row, new.values()))?;
                }
            }
        }
        Ok(tag)
    }

    fn rename_column(&mut self, s: &nodes::RenameStmt, new_name: &str, runtime: &dyn Runtime) -> Result<String> {
        let r = s.relation().ok_or_else(|| Error::internal("RENAME without a relation"))?;
        let table = self.context_mut().relation_of(r, runtime)?;
        let table = self.lock_for_ddl(&table, self.table_lock(), runtime)?;
        let old = s.subname().unwrap_or("");
        if !table.columns.iter().any(|c| !c.dropped && c.name == old) {
            return Err(Error::new(sqlstate::UNDEFINED_COLUMN, format!("column \"{old}\" does not exist")));
        }
        if !matches!(table.kind, TableKind::Composite | TableKind::View) {
            refuse_system_name(new_name)?;
        }
        if table.columns.iter().any(|c| !c.dropped && c.name == new_name) {
            return Err(Error::new(
                sqlstate::DUPLICATE_COLUMN,
                format!("column \"{new_name}\" of relation \"{}\" already exists", table.name),
            ));
        }
        if table.partition_of != 0 {
            return Err(Error::new(
                sqlstate::INVALID_TABLE_DEFINITION,
                format!("cannot rename inherited column \"{old}\""),
            ));
        }
        let mut renamed = Vec::new();
        for oid in self.context_mut().with_catalog(runtime, |host| host.reader.partition_tree(table.oid))? {
            let member = self.context_mut().table_by_oid(oid, runtime)?;
            let member = self.lock_for_ddl(&member, self.table_lock(), runtime)?;
            self.require_table_owner(&member)?;
            if let Some(column) = member.columns.iter().find(|c| !c.dropped && c.name == old) {
                renamed.push((ObjectAddress::column(oid, column.attnum), old.to_string()));
            }
        }
        // A text that has the new name may mean something else by it.
        let words = [old, new_name].map(|name| name.replace('"', "\"\""));
        self.with_texts_renamed(&words, &renamed, runtime, |definitions| {
            for (column, _) in &renamed {
                let new_name = Datum::text(new_name);
                definitions
                    .update_attribute(column.object, column.column, runtime, |row| row.set("attname", new_name))?;
            }
            Ok(())
        })?;
        let tag = match (table.kind, s.relation_type) {
            (TableKind::Composite, _) => "ALTER TYPE",
            (_, O::OBJECT_VIEW) => "ALTER VIEW",
            (_, O::OBJECT_MATVIEW) => "ALTER MATERIALIZED VIEW",
            _ => "ALTER TABLE",
        };
        Ok(tag.to_string())
    }

    fn rename_constraint(&mut self, s: &nodes::RenameStmt, new_name: &str, runtime: &dyn Runtime) -> Result<String> {
        let r = s.relation().ok_or_else(|| Error::internal("RENAME without a relation"))?;
        let table = self.context_mut().table_of(r, runtime)?;
        let old = s.subname().unwrap_or("");
        let rows =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table.oid)])?;
        let row = rows.iter().find(|r| r.text("conname") == Some(old)).ok_or_else(|| {
            Error::new(
                sqlstate::UNDEFINED_OBJECT,
                format!("constraint \"{old}\" for table \"{}\" does not exist", table.name),
            )
        })?;
        let mut new = row.clone();
        new.set("conname", Datum::text(new_name));
        self.write_catalog(runtime, |w| w.update(row, new.values()))?;
        let index = row.oid("conindid");
        if index != 0 && b"pu".contains(&row.char("contype")) {
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, index, runtime, |row| {
                row.set("relname", Datum::text(new_name))
            })?;
        }
        Ok("ALTER TABLE".to_string())
    }

    pub fn set_schema(&mut self, s: &nodes::AlterObjectSchemaStmt, runtime: &dyn Runtime) -> Result<String> {
        let mut words = words_of(s.object());
        words.extend(s.relation().and_then(|r| r.relname()).map(str::to_string));
        if s.object_type == O::OBJECT_EXTENSION {
            // Whatever it has may be named.
            words = vec![String::new()];
        }
        self.with_texts_renamed(&words, &[], runtime, |definitions| definitions.move_object(s, runtime))
    }

    fn move_object(&mut self, s: &nodes::AlterObjectSchemaStmt, runtime: &dyn Runtime) -> Result<String> {
        if matches!(s.object_type, O::OBJECT_FUNCTION | O::OBJECT_PROCEDURE | O::OBJECT_ROUTINE) {
            return self.move_routine(s, runtime);
        }
        if s.object_type == O::OBJECT_STATISTIC_EXT {
            return self.move_statistics(s, runtime);
        }
        if s.object_type == O::OBJECT_EXTENSION {
            return self.move_extension(s, runtime);
        }
        if matches!(s.object_type, O::OBJECT_TYPE | O::OBJECT_DOMAIN) {
            return self.move_type(s, runtime);
        }
        if s.object_type == O::OBJECT_COLLATION {
            return self.move_collation(s.object(), s.newschema(), runtime);
        }
        if let Some(kind) = kind_of(s.object_type) {
            return self.move_text_search(s, kind, runtime);
        }
        if let Some(kind) = operator_class_objects::kind_of(s.object_type) {
            return self.move_operator_object(s, kind, runtime);
        }
        let word = super::object_word(s.object_type);
        let Some(r) = s.relation() else {
            return Err(Error::unsupported(
                "ALTER … SET SCHEMA is supported for tables, views, sequences and indexes only",
            ));
        };
        let table = self.context_mut().relation_of(r, runtime)?;
        super::alter_table::refuse_plain(s.object_type, &table)?;
        self.refuse_owned_sequence(&table, "cannot move an owned sequence into another schema", runtime)?;
        let (schema, _) = self.creation_schema(s.newschema(), s.newschema() == Some("pg_temp"), runtime)?;
        if is_temporary(schema) != is_temporary(table.schema_oid) {
            return Err(Error::unsupported("cannot move objects into or out of temporary schemas"));
        }
        let tag = format!("ALTER {}", word.to_uppercase());
        if schema == table.schema_oid {
            return Ok(tag);
        }
        self.name_is_taken(schema, &table.name, "relation", false, runtime)?;
        let moved = self.with_own_relations(&table)?;
        for oid in moved {
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, oid, runtime, |row| {
                row.set("relnamespace", Datum::Oid(schema))
            })?;
        }
        if table.type_oid != 0 {
            self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, table.type_oid, runtime, |row| {
                row.set("typnamespace", Datum::Oid(schema))
            })?;
        }
        Ok(tag)
    }

    pub fn set_owner(&mut self, s: &nodes::AlterOwnerStmt, runtime: &dyn Runtime) -> Result<String> {
        let role = s.newowner().ok_or_else(|| Error::internal("OWNER TO without a role"))?;
        let owner = self.role_of(role)?.oid("oid");
        match s.object_type {
            O::OBJECT_SCHEMA => {
                let name = s.object().as_str().unwrap_or("").to_string();
                let oid = self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(&name))?;
                let oid = oid.ok_or_else(|| {
                    Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
                })?;
                let key = [Datum::Oid(oid)];
                let rows = self.context_mut().catalog_lookup(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &key)?;
                if rows.first().is_some_and(|row| row.oid("nspowner") == owner) {
                    return Ok("ALTER SCHEMA".to_string());
                }
                self.require_schema_owner(&name, runtime)?;
                self.require_new_schema_owner(owner)?;
                self.update_row(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, oid, runtime, |row| {
                    row.set("nspowner", Datum::Oid(owner))
                })?;
                Ok("ALTER SCHEMA".to_string())
            }
            O::OBJECT_STATISTIC_EXT => self.give_statistics(s, owner, runtime),
            O::OBJECT_LARGEOBJECT => self.give_large_object(s, owner, runtime),
            O::OBJECT_COLLATION => self.give_collation(s.object(), owner, runtime),
            O::OBJECT_DATABASE => self.give_database(s.object().as_str().unwrap_or(""), owner, runtime),
            O::OBJECT_FUNCTION | O::OBJECT_PROCEDURE | O::OBJECT_ROUTINE => self.give_routine(s, owner, runtime),
            O::OBJECT_TYPE | O::OBJECT_DOMAIN => self.give_type(s, owner, runtime),
            other => match (kind_of(other), operator_class_objects::kind_of(other)) {
                (Some(kind), _) => self.give_text_search(s, kind, owner, runtime),
                (_, Some(kind)) => self.give_operator_object(s, kind, owner, runtime),
                (None, None) => Err(Error::unsupported("ALTER … OWNER TO is not supported for this kind of object")),
            },
        }
    }
}

/// The last part of the name of what a statement is about.
fn words_of(object: Node<'_>) -> Vec<String> {
    match object {
        Node::NodeList(list) => super::strings(list).last().map(|word| word.to_string()).into_iter().collect(),
        Node::ObjectWithArgs(o) => {
            super::strings(o.objname()).last().map(|word| word.to_string()).into_iter().collect()
        }
        Node::TypeName(t) => {
            t.names().iter().filter_map(|s| s.sval()).next_back().map(str::to_string).into_iter().collect()
        }
        other => other.as_str().map(str::to_string).into_iter().collect(),
    }
}
