//! CREATE, ALTER and DROP EXTENSION (docs/decisions/0024).
//!
//! Invariants
//! 1. What belongs to an extension comes and goes with it alone.

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::extension::{self, Extension, MEMBER_TABLES, PLPGSQL, schema_column};
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::temporary::is_temporary;
use kilndb_catalog::text_search::TextSearchKind;
use kilndb_syntax::raw::DropBehavior;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

fn missing(name: &str) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("extension \"{name}\" does not exist"))
}
fn invalid(message: String) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

fn check_name(name: &str) -> Result<()> {
    let wrong = |detail: &str| Err(invalid(format!("invalid extension name: \"{name}\"")).with_detail(detail));
    match name {
        "" => wrong("Extension names must not be empty."),
        _ if name.contains("--") => wrong("Extension names must not contain \"--\"."),
        _ if name.starts_with('-') || name.ends_with('-') => wrong("Extension names must not begin or end with \"-\"."),
        _ if name.contains(['/', '\\']) => wrong("Extension names must not contain directory separator characters."),
        _ => Ok(()),
    }
}

/// Clauses of CREATE EXTENSION.
#[derive(Default)]
struct Options {
    schema: Option<String>,
    version: Option<String>,
    cascade: bool,
}

impl Options {
    fn of(s: &nodes::CreateExtensionStmt, source: &str) -> Result<Options> {
        let mut out = Options::default();
        for d in s.options() {
            let text = || d.arg().as_str().unwrap_or("").to_string();
            let is_second = match d.defname() {
                Some("schema") => out.schema.replace(text()).is_some(),
                Some("new_version") => out.version.replace(text()).is_some(),
                Some("cascade") => std::mem::replace(&mut out.cascade, true),
                other => return Err(Error::internal(format!("unrecognized option: {}", other.unwrap_or("")))),
            };
            if is_second {
                let e = Error::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options");
                return Err(e.or_position(kilndb_syntax::position_of(source, d.location)));
            }
        }
        Ok(out)
    }
}

impl Definitions<'_> {
    pub(super) fn extension_row(&mut self, name: &str) -> Result<Option<CatalogRow>> {
        Ok(self.context_mut().catalog_lookup(PG_EXTENSION, PG_EXTENSION_NAME_INDEX, &[Datum::text(name)])?.pop())
    }

    pub(super) fn commented_extension(&mut self, object: Node<'_>) -> Result<Oid> {
        let name = object.as_str().unwrap_or("");
        self.extension_row(name)?.map(|row| row.oid("oid")).ok_or_else(|| missing(name))
    }

    pub fn create_extension(
        &mut self,
        s: &nodes::CreateExtensionStmt,
        source: &str,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let name = s.extname().unwrap_or("");
        check_name(name)?;
        if self.extension_row(name)?.is_some() {
            let message = format!("extension \"{name}\" already exists");
            if !s.if_not_exists {
                return Err(Error::new(sqlstate::DUPLICATE_OBJECT, message));
            }
            let notice = Error::notice(sqlstate::DUPLICATE_OBJECT, Severity::Notice, format!("{message}, skipping"));
            self.context().shared.scratch.notices.borrow_mut().push(notice);
            return Ok(());
        }
        let options = Options::of(s, source)?;
        let Some(e) = extension::extension(name) else {
            return Err(Error::unsupported(format!("extension \"{name}\" is not available"))
                .with_hint("The extension must first be installed on the system where PostgreSQL is running."));
        };
        if let Some(version) = options.version.filter(|v| v != e.version) {
            return Err(invalid(format!(
                "extension \"{name}\" has no installation script nor update path for version \"{version}\""
            )));
        }
        if !self.context().is_superuser() && e.trusted {
            self.require_on_own_database(privilege::CREATE).map_err(|_| {
                let message = format!("permission denied to create extension \"{name}\"");
                Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
                    .with_hint("Must have CREATE privilege on current database to create this extension.")
            })?;
        }
        if !self.context().is_superuser() && !e.trusted {
            return Err(Error::new(
                sqlstate::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to create extension \"{name}\""),
            )
            .with_hint("Must be superuser to create this extension."));
        }
        let (schema, schema_name) = self.creation_schema(options.schema.as_deref().or(e.schema), false, runtime)?;
        if is_temporary(schema) {
            return Err(Error::unsupported("extensions in temporary schemas are not supported"));
        }
        if let Some(fixed) = e.schema.filter(|fixed| *fixed != schema_name) {
            return Err(Error::unsupported(format!("extension \"{name}\" must be installed in schema \"{fixed}\"")));
        }
        self.refuse_installed_names(e, schema, runtime)?;
        let (oid, owner) = (self.context().cluster.next_oid()?, self.context().identity.current_role);
        let environment = self.context_mut().environment(runtime)?;
        let host = environment.host();
        self.write_catalog(runtime, |w| {
            extension::insert_members(w, name, schema, owner, &host.eval())?;
            extension::insert_extension(w, oid, e, schema, owner, &extension::members(name))
        })
    }

    /// Somebody's function may have a signature of the extension's, and a type a name.
    fn refuse_installed_names(&mut self, e: &Extension, schema: Oid, runtime: &dyn Runtime) -> Result<()> {
        for name in extension::type_names(e.name) {
            self.refuse_taken_type(schema, name, runtime)?;
        }
        for kind in [TextSearchKind::Template, TextSearchKind::Dictionary] {
            for name in extension::text_search_names(e.name, kind) {
                self.refuse_taken_text_search(kind, schema, name)?;
            }
        }
        for (function, types) in extension::signatures(e.name) {
            let rows =
                self.context_mut().catalog_lookup(PG_PROC, PG_PROC_PRONAME_ARGS_NSP_INDEX, &[Datum::text(function)])?;
            let is_twin = |r: &CatalogRow| {
                r.oid("pronamespace") == schema
                    && r.numbers("proargtypes").iter().map(|n| *n as Oid).eq(types.iter().copied())
            };
            if rows.iter().any(is_twin) {
                return Err(Error::new(
                    sqlstate::DUPLICATE_FUNCTION,
                    format!("function \"{function}\" already exists with same argument types"),
                ));
            }
        }
        Ok(())
    }

    fn owned_extension(&mut self, row: &CatalogRow) -> Result<()> {
        if self.context().owns(row.oid("extowner")) {
            return Ok(());
        }
        Err(crate::privileges::not_owner("extension", row.text("extname").unwrap_or("")))
    }

    pub fn alter_extension(&mut self, s: &nodes::AlterExtensionStmt) -> Result<()> {
        let name = s.extname().unwrap_or("");
        let row = self.extension_row(name)?.ok_or_else(|| missing(name))?;
        self.owned_extension(&row)?;
        let installed = row.text("extversion").unwrap_or("").to_string();
        let asked = s
            .options()
            .iter()
            .find(|d| d.defname() == Some("new_version"))
            .and_then(|d| d.arg().as_str().map(str::to_string));
        let wanted =
            asked.unwrap_or_else(|| extension::extension(name).map_or(installed.clone(), |e| e.version.to_string()));
        if wanted != installed {
            return Err(invalid(format!(
                "extension \"{name}\" has no update path from version \"{installed}\" to version \"{wanted}\""
            )));
        }
        self.context()
            .notice(Severity::Notice, format!("version \"{installed}\" of extension \"{name}\" is already installed"));
        Ok(())
    }

    /// ALTER EXTENSION … SET SCHEMA.
    pub(super) fn move_extension(&mut self, s: &nodes::AlterObjectSchemaStmt, runtime: &dyn Runtime) -> Result<String> {
        let tag = "ALTER EXTENSION".to_string();
        let name = s.object().as_str().unwrap_or("").to_string();
        let row = self.extension_row(&name)?.ok_or_else(|| missing(&name))?;
        self.owned_extension(&row)?;
        let (schema, _) = self.creation_schema(s.newschema(), false, runtime)?;
        if is_temporary(schema) {
            return Err(Error::unsupported("cannot move objects into or out of temporary schemas"));
        }
        let (oid, old) = (row.oid("oid"), row.oid("extnamespace"));
        if old == schema {
            return Ok(tag);
        }
        let Some(e) = extension::extension(&name).filter(|e| e.is_relocatable()) else {
            return Err(Error::unsupported(format!("extension \"{name}\" does not support SET SCHEMA")));
        };
        self.refuse_installed_names(e, schema, runtime)?;
        for (table, member) in self.members_of(oid)? {
            if let Some((_, index)) = MEMBER_TABLES.iter().find(|(known, _)| *known == table)
                && let Some(column) = schema_column(table)
            {
                self.update_row(table, *index, member, runtime, |row| row.set(column, Datum::Oid(schema)))?;
            }
        }
        self.update_row(PG_EXTENSION, PG_EXTENSION_OID_INDEX, oid, runtime, |row| {
            row.set("extnamespace", Datum::Oid(schema))
        })?;
        Ok(tag)
    }

    fn members_of(&mut self, oid: Oid) -> Result<Vec<(Oid, Oid)>> {
        let rows = self.dependents(PG_EXTENSION, oid, 0)?;
        Ok(rows.iter().filter(|r| r.char("deptype") == b'e').map(|r| (r.oid("classid"), r.oid("objid"))).collect())
    }

    pub(super) fn drop_extensions(&mut self, s: &nodes::DropStmt, runtime: &dyn Runtime) -> Result<String> {
        let mut going = Vec::new();
        for object in s.objects() {
            let name = object.as_str().unwrap_or("");
            match self.extension_row(name)? {
                Some(row) => {
                    self.owned_extension(&row)?;
                    going.push((name.to_string(), row.oid("oid")));
                }
                None if s.missing_ok => {
                    self.context().notice(Severity::Notice, format!("extension \"{name}\" does not exist, skipping"))
                }
                None => return Err(missing(name)),
            }
        }
        if going.iter().any(|(name, _)| name == PLPGSQL) {
            return Err(Error::unsupported("dropping the extension plpgsql is not supported"));
        }
        let named: Vec<ObjectAddress> =
            going.iter().map(|(_, oid)| ObjectAddress::object(PG_EXTENSION, *oid)).collect();
        self.delete_objects(&named, s.behavior == DropBehavior::DROP_CASCADE, runtime)?;
        Ok("DROP EXTENSION".to_string())
    }

    pub(super) fn delete_object(&mut self, table: Oid, index: Oid, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        self.remove_dependencies((table, oid), None, runtime)?;
        self.delete_rows(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &[Datum::Oid(oid), Datum::Oid(table)], runtime)?;
        self.delete_rows(table, index, &[Datum::Oid(oid)], runtime)
    }
}
