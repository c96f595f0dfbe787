//! Operator classes and families as objects: names, schemas, owners, DROP, and members that go with what they are made
//! of.

use super::Definitions;
use super::text_search::split;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::AccessMethod;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_syntax::raw::ObjectType as O;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Class,
    Family,
}

/// Where a kind of object is described.
struct Columns {
    table: Oid,
    by_oid: Oid,
    by_name: Oid,
    name: &'static str,
    schema: &'static str,
    owner: &'static str,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Class => "operator class",
            Kind::Family => "operator family",
        }
    }
    fn columns(self) -> Columns {
        match self {
            Kind::Class => Columns {
                table: PG_OPCLASS,
                by_oid: PG_OPCLASS_OID_INDEX,
                by_name: PG_OPCLASS_AM_NAME_NSP_INDEX,
                name: "opcname",
                schema: "opcnamespace",
                owner: "opcowner",
            },
            Kind::Family => Columns {
                table: PG_OPFAMILY,
                by_oid: PG_OPFAMILY_OID_INDEX,
                by_name: PG_OPFAMILY_AM_NAME_NSP_INDEX,
                name: "opfname",
                schema: "opfnamespace",
                owner: "opfowner",
            },
        }
    }
    fn tag(self, verb: &str) -> String {
        format!("{verb} {}", self.word().to_uppercase())
    }
}

pub(super) fn kind_of(object: O::Type) -> Option<Kind> {
    match object {
        O::OBJECT_OPCLASS => Some(Kind::Class),
        O::OBJECT_OPFAMILY => Some(Kind::Family),
        _ => None,
    }
}

/// Commands name the access method first.
fn name_of_method<'a>(object: Node<'a>) -> Result<(&'a str, Vec<&'a str>)> {
    let Node::NodeList(list) = object else { return Err(Error::internal("an operator class without a name")) };
    let mut names = super::strings(list);
    if names.is_empty() {
        return Err(Error::internal("an operator class without an access method"));
    }
    Ok((names.remove(0), names))
}

fn missing(kind: Kind, method: &AccessMethod, names: &[&str]) -> Error {
    let message =
        format!("{} \"{}\" does not exist for access method \"{}\"", kind.word(), names.join("."), method.name);
    Error::new(sqlstate::UNDEFINED_OBJECT, message)
}

impl Definitions<'_> {
    fn method_and_names<'a>(&mut self, object: Node<'a>) -> Result<(&'static AccessMethod, Vec<&'a str>)> {
        let (method, names) = name_of_method(object)?;
        Ok((self.method_named(method)?, names))
    }

    pub(super) fn operator_object_in(
        &mut self,
        kind: Kind,
        method: &AccessMethod,
        schema: Oid,
        name: &str,
    ) -> Result<Option<Oid>> {
        let columns = kind.columns();
        let key = [Datum::Oid(method.oid), Datum::text(name), Datum::Oid(schema)];
        Ok(self.context_mut().catalog_lookup(columns.table, columns.by_name, &key)?.first().map(|r| r.oid("oid")))
    }

    fn find_operator_object(
        &mut self,
        kind: Kind,
        method: &AccessMethod,
        names: &[&str],
        runtime: &dyn Runtime,
    ) -> Result<Option<Oid>> {
        let (schema, name) = split(names);
        if let Some(schema) = schema
            && self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(schema))?.is_none()
        {
            return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
        }
        for schema in self.context_mut().with_catalog(runtime, |host| host.reader.schemas_to_search(schema, false))? {
            if let Some(found) = self.operator_object_in(kind, method, schema, name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    pub(super) fn operator_object(
        &mut self,
        kind: Kind,
        method: &AccessMethod,
        names: &[&str],
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        self.find_operator_object(kind, method, names, runtime)?.ok_or_else(|| missing(kind, method, names))
    }

    /// 42710 if there is one of that name.
    pub(super) fn refuse_same_operator_object(
        &mut self,
        kind: Kind,
        method: &AccessMethod,
        schema: Oid,
        name: &str,
        says_schema: bool,
    ) -> Result<()> {
        if self.operator_object_in(kind, method, schema, name)?.is_none() {
            return Ok(());
        }
        let mut message = format!("{} \"{name}\" for access method \"{}\" already exists", kind.word(), method.name);
        if says_schema {
            let rows =
                self.context_mut().catalog_lookup(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &[Datum::Oid(schema)])?;
            message.push_str(&format!(" in schema \"{}\"", rows.first().and_then(|r| r.text("nspname")).unwrap_or("")));
        }
        Err(Error::new(sqlstate::DUPLICATE_OBJECT, message))
    }

    pub(super) fn operator_object_shown(&mut self, kind: Kind, oid: Oid, runtime: &dyn Runtime) -> Result<String> {
        let shown = self
            .context_mut()
            .with_catalog(runtime, |host| crate::host::describe::shown(host, kind.columns().table, oid, 0))?;
        Ok(shown.unwrap_or_else(|| format!("{} {oid}", kind.word())))
    }

    /// The row of an object that the session's role may change.
    fn owned_operator_object(&mut self, kind: Kind, oid: Oid, names: &[&str]) -> Result<CatalogRow> {
        let columns = kind.columns();
        let rows = self.context_mut().catalog_lookup(columns.table, columns.by_oid, &[Datum::Oid(oid)])?;
        let row = rows
            .into_iter()
            .next()
            .ok_or_else(|| Error::internal(format!("cache lookup failed for {} {oid}", kind.word())))?;
        if self.context().owns(row.oid(columns.owner)) {
            return Ok(row);
        }
        Err(crate::privileges::not_owner(kind.word(), &names.join(".")))
    }

    pub(super) fn rename_operator_object(
        &mut self,
        s: &nodes::RenameStmt,
        kind: Kind,
        new_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let (method, names) = self.method_and_names(s.object())?;
        let oid = self.operator_object(kind, method, &names, runtime)?;
        let row = self.owned_operator_object(kind, oid, &names)?;
        let columns = kind.columns();
        self.refuse_same_operator_object(kind, method, row.oid(columns.schema), new_name, true)?;
        self.update_row(columns.table, columns.by_oid, oid, runtime, |row| {
            row.set(columns.name, Datum::text(new_name))
        })?;
        Ok(kind.tag("ALTER"))
    }

    pub(super) fn move_operator_object(
        &mut self,
        s: &nodes::AlterObjectSchemaStmt,
        kind: Kind,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let (method, names) = self.method_and_names(s.object())?;
        let oid = self.operator_object(kind, method, &names, runtime)?;
        let (schema, _) = self.creation_schema(s.newschema(), false, runtime)?;
        let row = self.owned_operator_object(kind, oid, &names)?;
        let columns = kind.columns();
        if schema != row.oid(columns.schema) {
            self.refuse_same_operator_object(kind, method, schema, row.text(columns.name).unwrap_or(""), true)?;
            self.update_row(columns.table, columns.by_oid, oid, runtime, |row| {
                row.set(columns.schema, Datum::Oid(schema))
            })?;
        }
        Ok(kind.tag("ALTER"))
    }

    pub(super) fn give_operator_object(
        &mut self,
        s: &nodes::AlterOwnerStmt,
        kind: Kind,
        owner: Oid,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let (method, names) = self.method_and_names(s.object())?;
        let oid = self.operator_object(kind, method, &names, runtime)?;
        self.owned_operator_object(kind, oid, &names)?;
        self.require_new_owner(owner, None, runtime)?;
        let columns = kind.columns();
        self.update_row(columns.table, columns.by_oid, oid, runtime, |row| row.set(columns.owner, Datum::Oid(owner)))?;
        Ok(kind.tag("ALTER"))
    }

    pub(super) fn commented_operator_object(
        &mut self,
        object: Node<'_>,
        kind: Kind,
        runtime: &dyn Runtime,
    ) -> Result<(Oid, Oid)> {
        let (method, names) = self.method_and_names(object)?;
        let oid = self.operator_object(kind, method, &names, runtime)?;
        self.owned_operator_object(kind, oid, &names)?;
        Ok((kind.columns().table, oid))
    }

    pub(super) fn drop_operator_objects(
        &mut self,
        s: &nodes::DropStmt,
        kind: Kind,
        cascade: bool,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let mut targets = Vec::new();
        for object in s.objects() {
            let found = self.method_and_names(object).and_then(|(method, names)| {
                let oid = self.operator_object(kind, method, &names, runtime)?;
                Ok((oid, names))
            });
            match found {
                Ok((oid, names)) => {
                    self.owned_operator_object(kind, oid, &names)?;
                    targets.push(oid);
                }
                Err(e)
                    if s.missing_ok
                        && matches!(e.sqlstate(), sqlstate::UNDEFINED_OBJECT | sqlstate::INVALID_SCHEMA_NAME) =>
                {
                    self.context().notice(Severity::Notice, format!("{}, skipping", e.message()));
                }
                Err(e) => return Err(e),
            }
        }
        let class = kind.columns().table;
        let named: Vec<ObjectAddress> = targets.into_iter().map(|oid| ObjectAddress::object(class, oid)).collect();
        self.delete_objects(&named, cascade, runtime)?;
        Ok(kind.tag("DROP"))
    }

    /// The class that cannot be without a member, if the member is of one.
    pub(super) fn class_of_member(&mut self, table: Oid, member: Oid) -> Result<Option<Oid>> {
        let rows = self.context_mut().catalog_lookup(
            PG_DEPEND,
            PG_DEPEND_DEPENDER_INDEX,
            &[Datum::Oid(table), Datum::Oid(member)],
        )?;
        Ok(rows
            .iter()
            .find(|r| r.char("deptype") == b'i' && r.oid("refclassid") == PG_OPCLASS)
            .map(|r| r.oid("refobjid")))
    }
}
