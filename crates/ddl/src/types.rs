//! CREATE TYPE (composite types and enums), and what all types have in common: names, owners, users, DROP.
//!
//! Invariants
//! 1. A column depends on its type (pg_depend 'n'), so that a type's users are found without a scan.
//! 2. Stored values of a composite type outlive changes of its attributes, but for changes of their types
//!    (`row_type_users`).

use super::Definitions;
use super::create_table::NewTable;
use super::sequence::ColumnTable;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::CatalogWriter;
use kilndb_catalog::{CatalogView, TableKind, TypeInfo};
use kilndb_syntax::raw::{DropBehavior, ObjectType as O};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

/// What a new row of pg_type says, beyond its name.
pub(super) struct NewType<'a> {
    pub oid: Oid,
    pub name: &'a str,
    pub schema: Oid,
    pub owner: Oid,
    pub array: Oid,
    pub columns: Vec<(&'static str, Datum)>,
}

/// A type and the type of its arrays.
pub(super) fn insert_type(w: &mut CatalogWriter<'_>, new: &NewType<'_>) -> Result<()> {
    let common = |oid: Oid, name: &str| {
        vec![
            ("oid", Datum::Oid(oid)),
            ("typname", Datum::text(name)),
            ("typnamespace", Datum::Oid(new.schema)),
            ("typowner", Datum::Oid(new.owner)),
            ("typisdefined", Datum::Bool(true)),
            ("typdelim", Datum::Char(b',')),
            ("typtypmod", Datum::Int4(-1)),
        ]
    };
    let mut row = common(new.oid, new.name);
    row.push(("typarray", Datum::Oid(new.array)));
    row.extend(new.columns.iter().cloned());
    w.insert(PG_TYPE, &row)?;
    let collation = new.columns.iter().find(|c| c.0 == "typcollation").map(|c| c.1.clone());
    let mut row = common(new.array, &array_name(new.name));
    row.extend([
        ("typlen", Datum::Int2(-1)),
        ("typtype", Datum::Char(b'b')),
        ("typcategory", Datum::Char(b'A')),
        ("typelem", Datum::Oid(new.oid)),
        ("typinput", Datum::Oid(750)),
        ("typoutput", Datum::Oid(751)),
        ("typreceive", Datum::Oid(2400)),
        ("typsend", Datum::Oid(2401)),
        ("typanalyze", Datum::Oid(3816)),
        ("typsubscript", Datum::Oid(6179)),
        (
            "typalign",
            Datum::Char(if new.columns.iter().any(|c| matches!(c, ("typalign", Datum::Char(b'd')))) {
                b'd'
            } else {
                b'i'
            }),
        ),
        ("typstorage", Datum::Char(b'x')),
    ]);
    row.extend(collation.map(|c| ("typcollation", c)));
    w.insert(PG_TYPE, &row).map(|_| ())
}

pub(super) fn array_name(name: &str) -> String {
    let mut short = name;
    while short.len() > 62 {
        let end = short.char_indices().next_back().map_or(0, |(at, _)| at);
        short = &short[..end];
    }
    format!("_{short}")
}

fn missing_type(shown: &str) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("type \"{shown}\" does not exist"))
}

impl Definitions<'_> {
    /// Schema and name of a type that is to be made.
    pub(super) fn new_type_name(&mut self, names: &[String], runtime: &dyn Runtime) -> Result<(Oid, String)> {
        let (schema, name) = match names {
            [name] => (None, name.clone()),
            [.., schema, name] => (Some(schema.as_str()), name.clone()),
            [] => return Err(Error::internal("a type without a name")),
        };
        let temporary = schema == Some("pg_temp");
        let (schema, _) = self.creation_schema(schema, temporary, runtime)?;
        self.refuse_taken_type(schema, &name, runtime)?;
        Ok((schema, name))
    }

    /// 42710 if there is a type of that name; one that was made for arrays gives way.
    pub(super) fn refuse_taken_type(&mut self, schema: Oid, name: &str, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.context_mut().catalog_lookup(
            PG_TYPE,
            PG_TYPE_TYPNAME_NSP_INDEX,
            &[Datum::text(name), Datum::Oid(schema)],
        )?;
        let Some(row) = rows.first() else { return Ok(()) };
        let element = self
            .type_info(row.oid("typelem"), runtime)
            .ok()
            .filter(|e| e.array == row.oid("oid") && e.oid >= FIRST_USER_OID);
        let Some(element) = element else {
            return Err(Error::new(sqlstate::DUPLICATE_OBJECT, format!("type \"{name}\" already exists")));
        };
        let plain = array_name(&element.name);
        for number in 0.. {
            let other = if number == 0 {
                plain.clone()
            } else {
                format!("{}_{number}", plain.chars().take(50).collect::<String>())
            };
            if other != name
                && self
                    .context_mut()
                    .catalog_lookup(PG_TYPE, PG_TYPE_TYPNAME_NSP_INDEX, &[Datum::text(&other), Datum::Oid(schema)])?
                    .is_empty()
            {
                self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, element.array, runtime, |row| {
                    row.set("typname", Datum::text(&other))
                })?;
                break;
            }
        }
        if let Some(txn) = &mut self.context_mut().transaction.txn {
            txn.next_command();
        }
        Ok(())
    }

    pub fn create_composite_type(
        &mut self,
        s: &nodes::CompositeTypeStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let relation = s.typevar().ok_or_else(|| Error::internal("CREATE TYPE without a name"))?;
        let name = relation.relname().unwrap_or("").to_string();
        kilndb_bind::refuse_other_database(relation, &self.context().database.name)?;
        let names: Vec<String> = relation.schemaname().map(str::to_string).into_iter().chain([name.clone()]).collect();
        let (schema, _) = self.new_type_name(&names, runtime)?;
        if self.context_mut().with_catalog(runtime, |host| host.reader.relation_oid(schema, &name))?.is_some() {
            return Err(Error::new(sqlstate::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
        }
        let persistence = if kilndb_catalog::temporary::is_temporary(schema) { b't' } else { b'p' };
        let mut columns: Vec<super::create_table::NewColumn> = Vec::new();
        for c in s.coldeflist() {
            let column =
                self.new_column(c, ColumnTable { name: &name, schema, persistence, owner: None }, source, runtime)?;
            if columns.iter().any(|known| known.name == column.name) {
                return Err(Error::new(
                    sqlstate::DUPLICATE_COLUMN,
                    format!("column \"{}\" specified more than once", column.name),
                ));
            }
            columns.push(column);
        }
        self.insert_table(
            &NewTable {
                name,
                schema,
                kind: b'c',
                persistence,
                columns,
                options: Vec::new(),
                class_columns: Vec::new(),
            },
            runtime,
        )?;
        Ok(())
    }

    pub fn create_enum(&mut self, s: &nodes::CreateEnumStmt, runtime: &dyn Runtime) -> Result<()> {
        let names: Vec<String> = s.type_name().iter().filter_map(|n| n.sval().map(str::to_string)).collect();
        let (schema, name) = self.new_type_name(&names, runtime)?;
        refuse_temporary(schema)?;
        let (oid, array, owner) = (self.new_oid(schema)?, self.new_oid(schema)?, self.context().identity.current_role);
        let columns = vec![
            ("typlen", Datum::Int2(4)),
            ("typbyval", Datum::Bool(true)),
            ("typtype", Datum::Char(b'e')),
            ("typcategory", Datum::Char(b'E')),
            ("typinput", Datum::Oid(3506)),
            ("typoutput", Datum::Oid(3507)),
            ("typreceive", Datum::Oid(3532)),
            ("typsend", Datum::Oid(3533)),
            ("typalign", Datum::Char(b'i')),
            ("typstorage", Datum::Char(b'p')),
        ];
        self.write_catalog(runtime, |w| insert_type(w, &NewType { oid, name: &name, schema, owner, array, columns }))?;
        let labels: Vec<&str> = s.vals().iter().filter_map(|n| n.sval()).collect();
        for (i, label) in labels.iter().enumerate() {
            check_label(label)?;
            if labels[..i].contains(label) {
                return Err(Error::new(
                    sqlstate::UNIQUE_VIOLATION,
                    "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"",
                )
                .with_detail(format!("Key (enumtypid, enumlabel)=({oid}, {label}) already exists.")));
            }
            self.insert_label(oid, i as f32 + 1.0, label, runtime)?;
        }
        Ok(())
    }

    fn insert_label(&mut self, enum_type: Oid, order: f32, label: &str, runtime: &dyn Runtime) -> Result<()> {
        let oid = self.new_oid(enum_type)?;
        let row = [
            ("oid", Datum::Oid(oid)),
            ("enumtypid", Datum::Oid(enum_type)),
            ("enumsortorder", Datum::Float4(order)),
            ("enumlabel", Datum::text(label)),
        ];
        self.write_catalog(runtime, |w| w.insert(PG_ENUM, &row).map(|_| ()))
    }

    /// ALTER TYPE … ADD VALUE and RENAME VALUE.
    pub fn alter_enum(&mut self, s: &nodes::AlterEnumStmt, runtime: &dyn Runtime) -> Result<()> {
        let names: Vec<String> = s.type_name().iter().filter_map(|n| n.sval().map(str::to_string)).collect();
        let info = self.type_named(&names, runtime)?;
        if info.kind != b'e' {
            let shown = self.type_shown(info.oid, runtime)?;
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("{shown} is not an enum")));
        }
        self.refuse_other_owner_of_type(info.oid, runtime)?;
        let labels = &info.labels;
        let at = |label: &str| labels.iter().position(|l| l.label == label);
        let new = s.new_val().unwrap_or("");
        let missing = |label: &str| {
            Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("\"{label}\" is not an existing enum label"))
        };
        let exists = || Error::new(sqlstate::DUPLICATE_OBJECT, format!("enum label \"{new}\" already exists"));
        if let Some(old) = s.old_val() {
            check_label(new)?;
            let found = at(old).ok_or_else(|| missing(old))?;
            if at(new).is_some() {
                return Err(exists());
            }
            let rows =
                self.context_mut().catalog_lookup(PG_ENUM, PG_ENUM_TYPID_LABEL_INDEX, &[Datum::Oid(info.oid)])?;
            let row = rows
                .iter()
                .find(|r| r.oid("oid") == labels[found].oid)
                .ok_or_else(|| Error::internal("an enum label without a row"))?;
            let mut changed = row.clone();
            changed.set("enumlabel", Datum::text(new));
            // Within arrays, rows and quotes a label has escapes, but never between letters and digits.
            let word = old.split(|c: char| !c.is_alphanumeric()).max_by_key(|run| run.len()).unwrap_or("");
            return self.with_texts_renamed(&[word.to_string()], &[], runtime, |definitions| {
                definitions.write_catalog(runtime, |w| w.update(row, changed.values()))
            });
        }
        check_label(new)?;
        if at(new).is_some() {
            if s.skip_if_new_val_exists {
                self.notice_of(sqlstate::DUPLICATE_OBJECT, format!("enum label \"{new}\" already exists, skipping"));
                return Ok(());
            }
            return Err(exists());
        }
        let order = match s.new_val_neighbor() {
            None => labels.last().map_or(1.0, |l| l.order + 1.0),
            Some(neighbor) => {
                let at = at(neighbor).ok_or_else(|| missing(neighbor))?;
                let (before, after) = if s.new_val_is_after { (Some(at), at + 1) } else { (at.checked_sub(1), at) };
                let before = before.and_then(|i| labels.get(i)).map(|l| l.order);
                match (before, labels.get(after).map(|l| l.order)) {
                    (Some(a), Some(b)) => {
                        let middle = a + (b - a) / 2.0;
                        if middle <= a || middle >= b {
                            // Stored values hold their label's place in the order.
                            return Err(Error::unsupported(format!(
                                "there is no more room between the labels beside \"{neighbor}\", and renumbering an enum is not supported"
                            )));
                        }
                        middle
                    }
                    (Some(a), None) => a + 1.0,
                    (None, Some(b)) => b - 1.0,
                    (None, None) => 1.0,
                }
            }
        };
        self.insert_label(info.oid, order, new, runtime)
    }

    /// The type of that name; 42704.
    pub(super) fn type_named(&mut self, names: &[String], runtime: &dyn Runtime) -> Result<Arc<TypeInfo>> {
        let (schema, name) = match names {
            [name] => (None, name.as_str()),
            [.., schema, name] => (Some(schema.as_str()), name.as_str()),
            [] => return Err(Error::internal("a type without a name")),
        };
        if let Some(schema) = schema
            && !self.context_mut().with_catalog(runtime, |host| host.reader.schema_exists(schema))?
        {
            return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
        }
        let found = self.context_mut().with_catalog(runtime, |host| host.reader.type_by_name(schema, name))?;
        found.ok_or_else(|| missing_type(&names.join(".")))
    }

    pub(super) fn type_shown(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<String> {
        self.context_mut().with_catalog(runtime, |host| Ok(host.reader.format_type(oid, -1)))
    }

    pub(super) fn refuse_other_owner_of_type(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.context_mut().catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(oid)])?;
        let owner = rows.first().map_or(0, |r| r.oid("typowner"));
        if self.context().owns(owner) {
            return Ok(());
        }
        let shown = self.type_shown(oid, runtime)?;
        Err(crate::privileges::not_owner("type", &shown))
    }

    pub(super) fn notice_of(&mut self, state: kilndb_base::SqlState, message: String) {
        self.context().shared.scratch.notices.borrow_mut().push(Error::notice(state, Severity::Notice, message));
    }

    /// DROP TYPE and DROP DOMAIN.
    pub(super) fn drop_types(&mut self, s: &nodes::DropStmt, runtime: &dyn Runtime) -> Result<String> {
        let is_domain = s.remove_type == O::OBJECT_DOMAIN;
        let cascade = s.behavior == DropBehavior::DROP_CASCADE;
        let mut targets = Vec::new();
        for object in s.objects() {
            let Node::TypeName(t) = object else { continue };
            let names: Vec<String> = t.names().iter().filter_map(|n| n.sval().map(str::to_string)).collect();
            let mut found = self.type_named(&names, runtime);
            if let (Ok(info), false) = (&found, t.array_bounds().is_empty()) {
                let array = info.array;
                found = self.type_info(array, runtime);
            }
            match found {
                Ok(info) => targets.push(info),
                Err(e)
                    if s.missing_ok
                        && matches!(e.sqlstate(), sqlstate::UNDEFINED_OBJECT | sqlstate::INVALID_SCHEMA_NAME) =>
                {
                    self.context().notice(Severity::Notice, format!("{}, skipping", e.message()));
                }
                Err(e) => return Err(e),
            }
        }
        for info in &targets {
            let shown = self.type_shown(info.oid, runtime)?;
            if is_domain && info.kind != b'd' {
                return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a domain")));
            }
        }
        for info in &targets {
            if !self.owns_schema(info.schema_oid)? {
                self.refuse_other_owner_of_type(info.oid, runtime)?;
            }
        }
        let named: Vec<ObjectAddress> = targets.iter().map(|info| ObjectAddress::object(PG_TYPE, info.oid)).collect();
        self.delete_objects(&named, cascade, runtime)?;
        Ok(if is_domain { "DROP DOMAIN" } else { "DROP TYPE" }.to_string())
    }

    pub(super) fn delete_type_row(&mut self, row: &CatalogRow, runtime: &dyn Runtime) -> Result<()> {
        let oid = row.oid("oid");
        if row.char("typtype") == b'e' {
            self.delete_rows(PG_ENUM, PG_ENUM_TYPID_LABEL_INDEX, &[Datum::Oid(oid)], runtime)?;
        }
        if row.char("typtype") == b'r'
            && let Some(ty) = self.type_info(oid, runtime)?.range
        {
            self.delete_range_rows(ty, runtime)?;
        }
        if row.char("typtype") == b'd' {
            let key = [Datum::Oid(oid)];
            for constraint in self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONTYPID_INDEX, &key)? {
                self.delete_constraint(constraint.oid("oid"), runtime)?;
            }
        }
        self.delete_rows(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &[Datum::Oid(oid), Datum::Oid(PG_TYPE)], runtime)?;
        if row.oid("typarray") != 0 {
            self.delete_rows(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(row.oid("typarray"))], runtime)?;
        }
        self.write_catalog(runtime, |w| w.delete(row))
    }

    /// 42P16 if a value of the type may hold one of the row type: as an element, a field, a bound, or under a domain.
    pub(super) fn refuse_inner_self(
        &mut self,
        row_type: Oid,
        type_oid: Oid,
        depth: usize,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if type_oid < FIRST_USER_OID || row_type == 0 || depth > 64 {
            return Ok(());
        }
        if type_oid == row_type {
            let shown = self.type_shown(row_type, runtime)?;
            return Err(Error::new(
                sqlstate::INVALID_TABLE_DEFINITION,
                format!("composite type {shown} cannot be made a member of itself"),
            ));
        }
        let info = self.type_info(type_oid, runtime)?;
        let mut inner = vec![
            info.base_type,
            if info.category == b'A' { info.element } else { 0 },
            info.range.map_or(0, |r| r.subtype),
        ];
        if info.kind == b'c'
            && let Some(table) =
                self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(info.table_oid))?
        {
            inner.extend(table.columns.iter().filter(|c| !c.dropped).map(|c| c.type_oid));
        }
        inner.into_iter().try_for_each(|ty| self.refuse_inner_self(row_type, ty, depth + 1, runtime))
    }

    /// ALTER TYPE … RENAME TO.
    pub(super) fn rename_type(
        &mut self,
        s: &nodes::RenameStmt,
        new_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let is_domain = s.rename_type == O::OBJECT_DOMAIN;
        let info = self.type_of_object(s.object(), runtime)?;
        self.refuse_other_owner_of_type(info.oid, runtime)?;
        let shown = self.type_shown(info.oid, runtime)?;
        if is_domain && info.kind != b'd' {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("{shown} is not a domain")));
        }
        if info.element != 0 && info.category == b'A' {
            let element = self.type_shown(info.element, runtime)?;
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("cannot alter array type {shown}"))
                .with_hint(format!("You can alter type {element}, which will alter the array type as well.")));
        }
        if let Some(table) =
            self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(info.table_oid))?
            && info.kind == b'c'
        {
            if table.kind != TableKind::Composite {
                return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("{shown} is a table's row type"))
                    .with_hint("Use ALTER TABLE instead."));
            }
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
                row.set("relname", Datum::text(new_name))
            })?;
        }
        self.refuse_taken_type(info.schema_oid, new_name, runtime)?;
        self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, info.oid, runtime, |row| {
            row.set("typname", Datum::text(new_name))
        })?;
        if info.array != 0 {
            self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, info.array, runtime, |row| {
                row.set("typname", Datum::text(array_name(new_name)))
            })?;
        }
        Ok(if is_domain { "ALTER DOMAIN" } else { "ALTER TYPE" }.to_string())
    }

    fn type_of_object(&mut self, object: Node<'_>, runtime: &dyn Runtime) -> Result<Arc<TypeInfo>> {
        let names: Vec<String> = match object {
            Node::TypeName(t) => t.names().iter().filter_map(|n| n.sval().map(str::to_string)).collect(),
            Node::NodeList(list) => super::strings(list).into_iter().map(str::to_string).collect(),
            _ => Vec::new(),
        };
        self.type_named(&names, runtime)
    }

    /// ALTER TYPE … SET SCHEMA.
    pub(super) fn move_type(&mut self, s: &nodes::AlterObjectSchemaStmt, runtime: &dyn Runtime) -> Result<String> {
        let info = self.type_of_object(s.object(), runtime)?;
        let (schema, _) = self.creation_schema(s.newschema(), false, runtime)?;
        self.refuse_other_owner_of_type(info.oid, runtime)?;
        if kilndb_catalog::temporary::is_temporary(info.schema_oid) {
            return Err(Error::unsupported("cannot move objects into or out of temporary schemas"));
        }
        if schema != info.schema_oid {
            self.refuse_taken_type(schema, &info.name, runtime)?;
        }
        for oid in [info.oid, info.array].into_iter().filter(|o| *o != 0) {
            self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, oid, runtime, |row| {
                row.set("typnamespace", Datum::Oid(schema))
            })?;
        }
        if info.kind == b'c' {
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, info.table_oid, runtime, |row| {
                row.set("relnamespace", Datum::Oid(schema))
            })?;
        }
        Ok(if s.object_type == O::OBJECT_DOMAIN { "ALTER DOMAIN" } else { "ALTER TYPE" }.to_string())
    }

    /// ALTER TYPE … OWNER TO.
    pub(super) fn give_type(&mut self, s: &nodes::AlterOwnerStmt, owner: Oid, runtime: &dyn Runtime) -> Result<String> {
        let info = self.type_of_object(s.object(), runtime)?;
        let rows = self.context_mut().catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(info.oid)])?;
        if rows.first().is_some_and(|row| row.oid("typowner") == owner) {
            return Ok(if s.object_type == O::OBJECT_DOMAIN { "ALTER DOMAIN" } else { "ALTER TYPE" }.to_string());
        }
        self.refuse_other_owner_of_type(info.oid, runtime)?;
        self.require_new_owner(owner, Some(info.schema_oid), runtime)?;
        let mut types = vec![info.oid, info.array];
        if let Some(range) = info.range {
            if info.kind == b'm' {
                let (shown, range) = (self.type_shown(info.oid, runtime)?, self.type_shown(range.oid, runtime)?);
                return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("cannot alter multirange type {shown}"))
                    .with_hint(format!("You can alter type {range}, which will alter the multirange type as well.")));
            }
            types.extend([range.multirange, self.type_info(range.multirange, runtime)?.array]);
        }
        for oid in types.into_iter().filter(|o| *o != 0) {
            self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, oid, runtime, |row| row.set("typowner", Datum::Oid(owner)))?;
        }
        if info.kind == b'c' {
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, info.table_oid, runtime, |row| {
                row.set("relowner", Datum::Oid(owner))
            })?;
        }
        Ok(if s.object_type == O::OBJECT_DOMAIN { "ALTER DOMAIN" } else { "ALTER TYPE" }.to_string())
    }

    pub(super) fn commented_type(&mut self, object: Node<'_>, runtime: &dyn Runtime) -> Result<Oid> {
        Ok(self.type_of_object(object, runtime)?.oid)
    }
}

/// A session's own rows of system tables have no place for labels and conditions.
pub(super) fn refuse_temporary(schema: Oid) -> Result<()> {
    if kilndb_catalog::temporary::is_temporary(schema) {
        return Err(Error::unsupported("enums and domains in temporary schemas are not supported"));
    }
    Ok(())
}

fn check_label(label: &str) -> Result<()> {
    if label.len() < 64 {
        return Ok(());
    }
    Err(Error::new(sqlstate::INVALID_NAME, format!("invalid enum label \"{label}\""))
        .with_detail("Labels must be 63 bytes or less."))
}
