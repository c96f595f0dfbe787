//! COMMENT ON, and SECURITY LABEL, which nobody is there for.

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::CatalogView;
use kilndb_catalog::ids::*;
use kilndb_storage::WaitPolicy;
use kilndb_syntax::raw::ObjectType as O;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

/// 22023: a module would have to be loaded that knows what labels mean, and none can be.
pub fn refuse_security_label(s: &nodes::SecLabelStmt) -> Error {
    let message = match s.provider() {
        Some(provider) => format!("security label provider \"{provider}\" is not loaded"),
        None => "no security label providers have been loaded".to_string(),
    };
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

impl Definitions<'_> {
    pub fn comment(&mut self, s: &nodes::CommentStmt, runtime: &dyn Runtime) -> Result<()> {
        let text = s.comment().filter(|t| !t.is_empty());
        let (class, object, sub) = match s.objtype {
            O::OBJECT_TABLE | O::OBJECT_VIEW | O::OBJECT_MATVIEW | O::OBJECT_INDEX | O::OBJECT_SEQUENCE => {
                let (schema, name) = super::qualified(s.object());
                let found = self.context_mut().with_catalog(runtime, |host| host.reader.find_relation(schema, name))?;
                let missing = || Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"));
                (PG_CLASS, found.ok_or_else(missing)?, 0)
            }
            O::OBJECT_COLUMN => self.commented_column(s.object(), runtime)?,
            O::OBJECT_SCHEMA => {
                let name = s.object().as_str().unwrap_or("").to_string();
                let found = self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(&name))?;
                let missing = || Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"));
                (PG_NAMESPACE, found.ok_or_else(missing)?, 0)
            }
            O::OBJECT_DATABASE => return self.comment_database(s.object().as_str().unwrap_or(""), text, runtime),
            O::OBJECT_ROLE => return self.comment_role(s.object().as_str().unwrap_or(""), text, runtime),
            O::OBJECT_TRIGGER => self.commented_trigger(s.object(), runtime)?,
            O::OBJECT_POLICY => self.commented_policy(s.object(), runtime)?,
            O::OBJECT_STATISTIC_EXT => (PG_STATISTIC_EXT, self.commented_statistics(s.object(), runtime)?, 0),
            O::OBJECT_COLLATION => (PG_COLLATION, self.commented_collation(s.object(), runtime)?, 0),
            O::OBJECT_LARGEOBJECT => (PG_LARGEOBJECT, self.commented_large_object(s.object())?, 0),
            O::OBJECT_EXTENSION => (PG_EXTENSION, self.commented_extension(s.object())?, 0),
            O::OBJECT_TABCONSTRAINT => self.commented_constraint(s.object(), runtime)?,
            O::OBJECT_TYPE | O::OBJECT_DOMAIN => (PG_TYPE, self.commented_type(s.object(), runtime)?, 0),
            kind @ (O::OBJECT_FUNCTION | O::OBJECT_PROCEDURE | O::OBJECT_ROUTINE) => {
                (PG_PROC, self.commented_routine(s.object(), kind, runtime)?, 0)
            }
            kind if super::text_search::kind_of(kind).is_some() => {
                let kind = super::text_search::kind_of(kind).ok_or_else(|| Error::internal("no text search object"))?;
                let (class, oid) = self.commented_text_search(kind, s.object(), runtime)?;
                (class, oid, 0)
            }
            kind @ (O::OBJECT_OPCLASS | O::OBJECT_OPFAMILY) => {
                let kind =
                    super::operator_class_objects::kind_of(kind).ok_or_else(|| Error::internal("no operator class"))?;
                let (class, oid) = self.commented_operator_object(s.object(), kind, runtime)?;
                (class, oid, 0)
            }
            _ => return Err(Error::unsupported("COMMENT ON this kind of object is not supported")),
        };
        if class == PG_CLASS {
            let mode = self.table_lock();
            self.context_mut().lock_table(object, mode, WaitPolicy::Wait, runtime)?;
        }
        let key = [Datum::Oid(object), Datum::Oid(class), Datum::Int4(sub)];
        self.delete_rows(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &key, runtime)?;
        if let Some(text) = text {
            self.write_catalog(runtime, |w| {
                w.insert(
                    PG_DESCRIPTION,
                    &[
                        ("objoid", Datum::Oid(object)),
                        ("classoid", Datum::Oid(class)),
                        ("objsubid", Datum::Int4(sub)),
                        ("description", Datum::text(text)),
                    ],
                )
                .map(|_| ())
            })?;
        }
        Ok(())
    }

    fn commented_column(&mut self, object: Node<'_>, runtime: &dyn Runtime) -> Result<(Oid, Oid, i32)> {
        let Node::NodeList(list) = object else { return Err(Error::internal("COMMENT ON COLUMN without a column")) };
        let names = super::strings(list);
        let (column, table, schema) = match names.as_slice() {
            [table, column] => (*column, *table, None),
            [.., schema, table, column] => (*column, *table, Some(*schema)),
            _ => return Err(Error::new(sqlstate::SYNTAX_ERROR, "column name must be qualified")),
        };
        let found = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_name(schema, table))?;
        let found = found
            .ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{table}\" does not exist")))?;
        let attnum = found.columns.iter().find(|c| !c.dropped && c.name == column).map(|c| c.attnum);
        let attnum = attnum.ok_or_else(|| {
            Error::new(
                sqlstate::UNDEFINED_COLUMN,
                format!("column \"{column}\" of relation \"{table}\" does not exist"),
            )
        })?;
        Ok((PG_CLASS, found.oid, i32::from(attnum)))
    }

    fn commented_constraint(&mut self, object: Node<'_>, runtime: &dyn Runtime) -> Result<(Oid, Oid, i32)> {
        let Node::NodeList(list) = object else { return Err(Error::internal("COMMENT ON CONSTRAINT without a name")) };
        let names = super::strings(list);
        let (schema, table, name) = match names.as_slice() {
            [table, name] => (None, *table, *name),
            [.., schema, table, name] => (Some(*schema), *table, *name),
            _ => return Err(Error::internal("COMMENT ON CONSTRAINT without a table")),
        };
        let found = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_name(schema, table))?;
        let found = found
            .ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{table}\" does not exist")))?;
        let rows =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(found.oid)])?;
        let row = rows.iter().find(|r| r.text("conname") == Some(name)).map(|r| r.oid("oid"));
        let missing = || {
            Error::new(
                sqlstate::UNDEFINED_OBJECT,
                format!("constraint \"{name}\" for table \"{table}\" does not exist"),
            )
        };
        Ok((PG_CONSTRAINT, row.ok_or_else(missing)?, 0))
    }

    fn comment_database(&mut self, name: &str, text: Option<&str>, runtime: &dyn Runtime) -> Result<()> {
        let row = self.context().cluster.database_row(name)?;
        let row = row
            .ok_or_else(|| Error::new(sqlstate::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist")))?;
        self.comment_shared(PG_DATABASE, row.oid("oid"), text, runtime)
    }

    fn comment_role(&mut self, name: &str, text: Option<&str>, runtime: &dyn Runtime) -> Result<()> {
        let role = self.roles()?.named(name).cloned();
        let role =
            role.ok_or_else(|| Error::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")))?;
        let missing = match role.is_superuser {
            _ if self.context().is_superuser() => None,
            true => Some("SUPERUSER attribute".to_string()),
            false if !self.context().has_attribute(|own| own.creates_roles) => Some("CREATEROLE attribute".to_string()),
            false if self.is_admin_of(role.oid)? => None,
            false => Some(format!("ADMIN option on role \"{name}\"")),
        };
        if let Some(missing) = missing {
            return Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, "permission denied")
                .with_detail(format!("The current user must have the {missing}.")));
        }
        self.comment_shared(PG_AUTHID, role.oid, text, runtime)
    }

    /// The comment on an object that all databases have.
    fn comment_shared(&mut self, class: Oid, object: Oid, text: Option<&str>, runtime: &dyn Runtime) -> Result<()> {
        self.delete_shared_comments(class, object, runtime)?;
        let Some(text) = text else { return Ok(()) };
        self.write_catalog(runtime, |w| {
            let values =
                [("objoid", Datum::Oid(object)), ("classoid", Datum::Oid(class)), ("description", Datum::text(text))];
            w.insert(PG_SHDESCRIPTION, &values).map(|_| ())
        })
    }
}
