//! The objects that GRANT and REVOKE name, and where their owners and lists of grants are.

use super::super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::{Privileges, privilege};
use kilndb_catalog::secured_objects::{
    DATABASES, LANGUAGES, LARGE_OBJECTS, ROUTINES, SCHEMAS, SecuredTable, TABLESPACES, TYPES,
};
use kilndb_catalog::temporary::is_temporary;
use kilndb_catalog::{Table, TableKind};
use kilndb_syntax::raw::ObjectType as O;
use kilndb_syntax::{Node, NodeList, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

/// What GRANT asks of an object that a row stands for.
pub trait GrantableRow {
    /// What the object is called where a privilege is missing.
    fn word(&self, row: &CatalogRow) -> &'static str;
    /// Its name in messages.
    fn shown(&self, row: &CatalogRow) -> String;
    /// Some objects have privileges that nobody grants.
    fn refuse(&self, row: &CatalogRow) -> Result<()>;
}

impl GrantableRow for SecuredTable {
    fn word(&self, row: &CatalogRow) -> &'static str {
        match self.table {
            PG_PROC => crate::privileges::routine_word(row.char("prokind")),
            _ => self.kind.word(),
        }
    }

    fn shown(&self, row: &CatalogRow) -> String {
        match self.table {
            PG_LARGEOBJECT_METADATA => format!("large object {}", row.oid("oid")),
            _ => row.text(self.name).unwrap_or("").to_string(),
        }
    }

    fn refuse(&self, row: &CatalogRow) -> Result<()> {
        let grantless = |message: String, more: fn(Error) -> Error| {
            Err(more(Error::new(sqlstate::INVALID_GRANT_OPERATION, message)))
        };
        match self.table {
            PG_LANGUAGE if !row.bool("lanpltrusted") => {
                let message = format!("language \"{}\" is not trusted", row.text("lanname").unwrap_or(""));
                Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message).with_detail(
                    "GRANT and REVOKE are not allowed on untrusted languages, because only superusers can use untrusted languages.",
                ))
            }
            PG_TYPE if row.char("typcategory") == b'A' && row.oid("typelem") != 0 => {
                grantless("cannot set privileges of array types".to_string(), |e| {
                    e.with_hint("Set the privileges of the element type instead.")
                })
            }
            PG_TYPE if row.char("typtype") == b'm' => {
                grantless("cannot set privileges of multirange types".to_string(), |e| {
                    e.with_hint("Set the privileges of the range type instead.")
                })
            }
            _ => Ok(()),
        }
    }
}

/// An object that a statement names.
pub enum SecuredObject {
    Relation(Arc<Table>),
    Row(&'static SecuredTable, CatalogRow),
    Parameter(String),
}

impl Definitions<'_> {
    fn secured_row(&mut self, table: &'static SecuredTable, index: Oid, key: Datum) -> Result<Option<SecuredObject>> {
        let row = self.context_mut().catalog_lookup(table.table, index, &[key])?.pop();
        Ok(row.map(|row| SecuredObject::Row(table, row)))
    }

    /// An object that its name alone finds.
    fn secured_by_name(&mut self, table: &'static SecuredTable, name: &str) -> Result<SecuredObject> {
        let missing = || Error::new(table.missing, format!("{} \"{name}\" does not exist", table.kind.word()));
        self.secured_row(table, table.by_name, Datum::text(name))?.ok_or_else(missing)
    }

    pub(super) fn named_objects(&mut self, s: &nodes::GrantStmt, runtime: &dyn Runtime) -> Result<Vec<SecuredObject>> {
        let mut objects = Vec::new();
        for node in kilndb_syntax::nodes_of(s.objects()) {
            objects.push(self.named_object(node, s.objtype, runtime)?);
        }
        Ok(objects)
    }

    fn named_object(&mut self, node: Node<'_>, kind: O::Type, runtime: &dyn Runtime) -> Result<SecuredObject> {
        let name = node.as_str().unwrap_or("").to_string();
        match kind {
            O::OBJECT_TABLE | O::OBJECT_SEQUENCE => {
                let Node::RangeVar(r) = node else { return Err(Error::internal("GRANT on no relation")) };
                Ok(SecuredObject::Relation(self.context_mut().relation_of(r, runtime)?))
            }
            O::OBJECT_FUNCTION | O::OBJECT_PROCEDURE | O::OBJECT_ROUTINE => {
                let oid = self.commented_routine(node, kind, runtime)?;
                let found = self.secured_row(&ROUTINES, PG_PROC_OID_INDEX, Datum::Oid(oid))?;
                found.ok_or_else(|| {
                    // Functions of PostgreSQL that there are none of here have names all the same.
                    let Node::ObjectWithArgs(o) = node else { return Error::internal("GRANT on no function") };
                    let name = super::super::strings(o.objname()).join(".");
                    Error::unsupported(format!("function {name} is not supported"))
                })
            }
            O::OBJECT_TYPE | O::OBJECT_DOMAIN => self.secured_type(node, kind, runtime),
            O::OBJECT_SCHEMA => {
                let oid = self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(&name))?;
                match oid {
                    // A session's own is found by a word that is not its name.
                    Some(oid) => self.secured_row(&SCHEMAS, SCHEMAS.by_oid, Datum::Oid(oid))?,
                    None => None,
                }
                .map_or_else(|| self.secured_by_name(&SCHEMAS, &name), Ok)
            }
            O::OBJECT_DATABASE => self.secured_by_name(&DATABASES, &name),
            O::OBJECT_LANGUAGE => self.secured_by_name(&LANGUAGES, &name),
            O::OBJECT_LARGEOBJECT => Ok(SecuredObject::Row(&LARGE_OBJECTS, self.large_object_named(node)?)),
            O::OBJECT_TABLESPACE => self.secured_by_name(&TABLESPACES, &name),
            O::OBJECT_PARAMETER_ACL => {
                let known = crate::settings::definition(&name).map(|d| d.name.to_ascii_lowercase());
                let is_custom = name.contains('.');
                let found = known.or_else(|| is_custom.then(|| name.to_ascii_lowercase()));
                found.map(SecuredObject::Parameter).ok_or_else(|| crate::settings::unrecognized(&name))
            }
            _ => Err(Error::unsupported("GRANT and REVOKE on this kind of object are not supported")),
        }
    }

    fn secured_type(&mut self, node: Node<'_>, kind: O::Type, runtime: &dyn Runtime) -> Result<SecuredObject> {
        let (schema, name) = super::super::qualified(node);
        let found = self.context_mut().with_catalog(runtime, |host| {
            use kilndb_catalog::CatalogView;
            host.reader.type_by_name(schema, name)
        })?;
        let shown = schema.map_or_else(|| name.to_string(), |schema| format!("{schema}.{name}"));
        let missing = || Error::new(sqlstate::UNDEFINED_OBJECT, format!("type \"{shown}\" does not exist"));
        let info = found.ok_or_else(missing)?;
        if kind == O::OBJECT_DOMAIN && info.kind != b'd' {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a domain")));
        }
        self.secured_row(&TYPES, PG_TYPE_OID_INDEX, Datum::Oid(info.oid))?.ok_or_else(missing)
    }

    /// ALL TABLES, SEQUENCES, FUNCTIONS … IN SCHEMA.
    pub(super) fn objects_in_schemas(
        &mut self,
        s: &nodes::GrantStmt,
        runtime: &dyn Runtime,
    ) -> Result<Vec<SecuredObject>> {
        let mut objects = Vec::new();
        for schema in self.schemas_of_list(kilndb_syntax::nodes_of(s.objects()), runtime)? {
            match s.objtype {
                O::OBJECT_TABLE | O::OBJECT_SEQUENCE => {
                    let is_sequences = s.objtype == O::OBJECT_SEQUENCE;
                    let kinds: &[u8] = if is_sequences { b"S" } else { b"rvmfp" };
                    for row in self.context_mut().catalog_scan(PG_CLASS)? {
                        if row.oid("relnamespace") == schema && kinds.contains(&row.char("relkind")) {
                            let table = self.context_mut().table_by_oid(row.oid("oid"), runtime)?;
                            objects.push(SecuredObject::Relation(table));
                        }
                    }
                }
                kind => {
                    let is_of_kind = |letter: u8| match kind {
                        O::OBJECT_FUNCTION => letter != b'p',
                        O::OBJECT_PROCEDURE => letter == b'p',
                        _ => true,
                    };
                    let rows = self.context_mut().catalog_scan(PG_PROC)?;
                    let of_schema =
                        rows.into_iter().filter(|r| r.oid("pronamespace") == schema && is_of_kind(r.char("prokind")));
                    objects.extend(of_schema.map(|row| SecuredObject::Row(&ROUTINES, row)));
                }
            }
        }
        Ok(objects)
    }

    /// OIDs of the schemas that a statement lists, which its role may use.
    pub(super) fn schemas_of_list(&mut self, list: &NodeList, runtime: &dyn Runtime) -> Result<Vec<Oid>> {
        let mut schemas = Vec::new();
        for name in super::super::strings(list) {
            let missing = || Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"));
            let oid = self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(name))?;
            let oid = oid.ok_or_else(missing)?;
            self.require_on_schema(oid, privilege::USAGE, runtime)?;
            schemas.push(oid);
        }
        Ok(schemas)
    }

    /// 42501 unless the role in force has a privilege on a schema.
    pub(crate) fn require_on_schema(&mut self, schema: Oid, wanted: u64, runtime: &dyn Runtime) -> Result<()> {
        let (privileges, wanted, name) = self.privileges_in_schema(schema, wanted, runtime)?;
        let Some(privileges) = privileges else { return Ok(()) };
        self.context_mut().require(&privileges, wanted, ("schema", &name))
    }

    /// Whose privileges on what allow something in a schema, the privilege on that, and the schema's name. Those who may
    /// make temporary tables in the database may do everything in their temporary schemas.
    pub(crate) fn privileges_in_schema(
        &mut self,
        schema: Oid,
        wanted: u64,
        runtime: &dyn Runtime,
    ) -> Result<(Option<Privileges>, u64, String)> {
        let (found, name) = self.context_mut().with_catalog(runtime, |host| {
            Ok((host.reader.schema_privileges(schema)?, host.reader.schema_name(schema)?.unwrap_or_default()))
        })?;
        if !is_temporary(schema) {
            return Ok((found, wanted, name));
        }
        Ok((self.own_database_privileges()?, privilege::TEMPORARY, name))
    }

    /// What a relation's kind has privileges for.
    pub(super) fn refuse_kind(table: &Table, wanted: O::Type) -> Result<()> {
        let refused =
            |what: &str| Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is {what}", table.name)));
        match table.kind {
            TableKind::Index => refused("an index"),
            TableKind::Composite => refused("a composite type"),
            kind if wanted == O::OBJECT_SEQUENCE && kind != TableKind::Sequence => refused("not a sequence"),
            _ => Ok(()),
        }
    }
}
