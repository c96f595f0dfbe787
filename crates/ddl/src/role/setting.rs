//! ALTER ROLE … SET, ALTER DATABASE … SET and their RESET: settings that sessions start with, kept in
//! pg_db_role_setting.
//!
//! Invariants
//! 1. An item of `setconfig` is `name=value` with the setting's own spelling of its name and the value as it was
//!    written; it was checked when it was stored, and is checked again by whoever starts with it.
//! 2. A row without items is deleted.

use crate::Definitions;
use crate::client::Runtime;
use crate::context::settings::given_value;
use crate::settings::{check_setting, definition, unrecognized};
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::array;
use kilndb_syntax::raw::{RoleSpecType as R, VariableSetKind as V};
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};

impl Definitions<'_> {
    /// The role that a statement means; 42704 if there is none.
    pub(crate) fn role_of(&mut self, role: &nodes::RoleSpec) -> Result<CatalogRow> {
        let name = match role.roletype {
            R::ROLESPEC_CURRENT_ROLE | R::ROLESPEC_CURRENT_USER => self.context().identity.role_name.to_string(),
            R::ROLESPEC_SESSION_USER => self.context().identity.session_user.to_string(),
            R::ROLESPEC_PUBLIC => "public".to_string(),
            _ => role.rolename().unwrap_or("").to_string(),
        };
        let found = self.context_mut().catalog_lookup(PG_AUTHID, PG_AUTHID_ROLNAME_INDEX, &[Datum::text(&name)])?.pop();
        found.ok_or_else(|| Error::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")))
    }

    fn database_of(&mut self, name: &str) -> Result<CatalogRow> {
        let found =
            self.context_mut().catalog_lookup(PG_DATABASE, PG_DATABASE_DATNAME_INDEX, &[Datum::text(name)])?.pop();
        found.ok_or_else(|| Error::new(sqlstate::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist")))
    }

    fn refuse_unless_owner(&self, database: &CatalogRow) -> Result<()> {
        if self.context().owns(database.oid("datdba")) {
            return Ok(());
        }
        Err(crate::privileges::not_owner("database", database.text("datname").unwrap_or("")))
    }

    /// ALTER DATABASE … OWNER TO.
    pub(crate) fn give_database(&mut self, name: &str, owner: Oid, runtime: &dyn Runtime) -> Result<String> {
        let database = self.database_of(name)?;
        self.refuse_unless_owner(&database)?;
        if !self.context().is_superuser() {
            self.require_set_role(owner)?;
            if !self.context().has_attribute(|role| role.creates_databases) {
                let message = "permission denied to change owner of database";
                return Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message));
            }
        }
        let mut new = database.clone();
        new.set("datdba", Datum::Oid(owner));
        self.write_catalog(runtime, |w| w.update(&database, new.values()))?;
        Ok("ALTER DATABASE".to_string())
    }

    pub fn alter_role_set(&mut self, s: &nodes::AlterRoleSetStmt, runtime: &dyn Runtime) -> Result<()> {
        let mut role_oid = 0;
        if let Some(spec) = s.role() {
            refuse_reserved(spec)?;
            let role = self.role_of(spec)?;
            role_oid = role.oid("oid");
            self.refuse_foreign_role(&role, role_oid == self.context().identity.current_role)?;
        }
        let mut database_oid = 0;
        if let Some(name) = s.database() {
            let database = self.database_of(name)?;
            database_oid = database.oid("oid");
            if s.role().is_none() {
                self.refuse_unless_owner(&database)?;
            }
        }
        if role_oid == 0 && database_oid == 0 && !self.context().is_superuser() {
            return Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, "permission denied to alter setting")
                .with_detail("Only roles with the SUPERUSER attribute may alter settings globally."));
        }
        self.change_stored(database_oid, role_oid, s.setstmt(), runtime)
    }

    /// A superuser is altered by superusers, another role by who may make roles and has the ADMIN option on it (or by
    /// itself, where that is all right).
    pub(crate) fn refuse_foreign_role(&mut self, role: &CatalogRow, is_own: bool) -> Result<()> {
        if self.context().is_superuser() {
            return Ok(());
        }
        let refused = |detail: String| {
            Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, "permission denied to alter role").with_detail(detail))
        };
        if role.bool("rolsuper") {
            return refused(
                "Only roles with the SUPERUSER attribute may alter roles with the SUPERUSER attribute.".to_string(),
            );
        }
        let is_admin = self.is_admin_of(role.oid("oid"))?;
        if is_own || is_admin && self.context().has_attribute(|role| role.creates_roles) {
            return Ok(());
        }
        let name = role.text("rolname").unwrap_or("");
        refused(format!(
            "Only roles with the CREATEROLE attribute and the ADMIN option on role \"{name}\" may alter this role."
        ))
    }

    pub fn alter_database_set(&mut self, s: &nodes::AlterDatabaseSetStmt, runtime: &dyn Runtime) -> Result<()> {
        let database = self.database_of(s.dbname().unwrap_or(""))?;
        self.refuse_unless_owner(&database)?;
        self.change_stored(database.oid("oid"), 0, s.setstmt(), runtime)
    }

    fn change_stored(
        &mut self,
        database: Oid,
        role: Oid,
        set: Option<&nodes::VariableSetStmt>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let Some(set) = set else { return Err(Error::internal("no setting to be stored")) };
        let name = definition(set.name().unwrap_or("")).map_or(set.name().unwrap_or(""), |d| d.name);
        let value = match set.kind {
            V::VAR_SET_VALUE => Some(given_value(set)?),
            V::VAR_SET_CURRENT => {
                self.context().settings.get(name).ok_or_else(|| unrecognized(name))?;
                Some(self.context().shown(name))
            }
            _ => None,
        };
        let key = [Datum::Oid(database), Datum::Oid(role)];
        let row =
            self.context_mut().catalog_lookup(PG_DB_ROLE_SETTING, PG_DB_ROLE_SETTING_DATABASE_ROLE_INDEX, &key)?.pop();
        let mut items = row.as_ref().map_or(Vec::new(), |r| r.texts("setconfig"));
        if set.kind == V::VAR_RESET_ALL {
            items.retain(|item| self.refuse_storing(item.split('=').next().unwrap_or(""), None).is_err());
        } else {
            self.refuse_storing(name, value.as_deref())?;
            let old = items.iter().position(|item| item.split('=').next() == Some(name));
            match (old, value.map(|value| format!("{name}={value}"))) {
                (Some(at), Some(item)) => items[at] = item,
                (None, Some(item)) => items.push(item),
                (Some(at), None) => {
                    items.remove(at);
                }
                (None, None) => {}
            }
        }
        let config = array(oids::TEXT, items.iter().map(Datum::text).collect());
        self.write_catalog(runtime, |w| match &row {
            Some(row) if items.is_empty() => w.delete(row),
            Some(row) => {
                let mut new = row.clone();
                new.set("setconfig", config);
                w.update(row, new.values())
            }
            None if items.is_empty() => Ok(()),
            None => {
                let [database, role] = key;
                w.insert(PG_DB_ROLE_SETTING, &[("setdatabase", database), ("setrole", role), ("setconfig", config)])
                    .map(|_| ())
            }
        })
    }

    /// An error unless the value is a right one and the role in force may set it (or reset it).
    fn refuse_storing(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        check_setting(name, value)?;
        match definition(name) {
            Some(_) => self.context().refuse_setting(name)?,
            // What an unknown setting is for, and who may set it, is not known either.
            None if !self.context().is_superuser() => {
                return Err(Error::new(
                    sqlstate::INSUFFICIENT_PRIVILEGE,
                    format!("permission denied to set parameter \"{name}\""),
                ));
            }
            None => {}
        }
        if let ("role" | "session_authorization", Some(role)) = (name, value)
            && role != "none"
            && self.context().cluster.role_row(role)?.is_none()
        {
            let message = format!("role \"{role}\" does not exist");
            self.context().shared.scratch.notices.borrow_mut().push(Error::notice(
                sqlstate::UNDEFINED_OBJECT,
                Severity::Notice,
                message,
            ));
        }
        Ok(())
    }

    /// The settings of a role or a database that goes.
    pub(crate) fn drop_stored(&mut self, column: &str, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        for row in self.context_mut().catalog_scan(PG_DB_ROLE_SETTING)?.iter().filter(|row| row.oid(column) == oid) {
            self.write_catalog(runtime, |w| w.delete(row))?;
        }
        Ok(())
    }

    /// ALTER DATABASE with options.
    pub fn alter_database(&mut self, s: &nodes::AlterDatabaseStmt, source: &str, runtime: &dyn Runtime) -> Result<()> {
        let mut changes: Vec<(&str, Datum)> = Vec::new();
        let at = |e: Error, d: &nodes::DefElem| e.or_position(kilndb_syntax::position_of(source, d.location));
        for d in s.options() {
            let (name, arg) = (d.defname().unwrap_or(""), d.arg());
            let (column, value) = match name {
                "is_template" => {
                    ("datistemplate", Datum::Bool(matches!(arg, Node::None) || crate::vacuum::flag(name, arg)?))
                }
                "allow_connections" => {
                    ("datallowconn", Datum::Bool(matches!(arg, Node::None) || crate::vacuum::flag(name, arg)?))
                }
                "connection_limit" => ("datconnlimit", Datum::Int4(connection_limit(arg)?)),
                "tablespace" => return Err(Error::unsupported("tablespaces are not supported")),
                other => {
                    return Err(at(
                        Error::new(sqlstate::SYNTAX_ERROR, format!("option \"{other}\" not recognized")),
                        d,
                    ));
                }
            };
            if changes.iter().any(|(known, _)| *known == column) {
                return Err(at(Error::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options"), d));
            }
            changes.push((column, value));
        }
        let database = self.database_of(s.dbname().unwrap_or(""))?;
        self.refuse_unless_owner(&database)?;
        if database.oid("oid") == self.context().database.oid
            && changes.iter().any(|c| matches!(c, ("datallowconn", Datum::Bool(false))))
        {
            return Err(Error::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                "cannot disallow connections for current database",
            ));
        }
        let mut new = database.clone();
        changes.into_iter().for_each(|(column, value)| new.set(column, value));
        self.write_catalog(runtime, |w| w.update(&database, new.values()))
    }
}

/// A limit of connections, -1 for none; 22023 for any other negative number.
pub(crate) fn connection_limit(arg: Node<'_>) -> Result<i32> {
    let limit = match arg {
        Node::None => -1,
        Node::Integer(i) => i.ival,
        _ => return Err(Error::new(sqlstate::SYNTAX_ERROR, "connection_limit requires an integer value")),
    };
    if limit < -1 {
        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("invalid connection limit: {limit}")));
    }
    Ok(limit)
}

/// Roles of the system are not altered.
pub(crate) fn refuse_reserved(role: &nodes::RoleSpec) -> Result<()> {
    let name = role.rolename().unwrap_or("");
    if role.roletype == R::ROLESPEC_CSTRING && name.starts_with("pg_") {
        return Err(Error::new(sqlstate::RESERVED_NAME, format!("role name \"{name}\" is reserved"))
            .with_detail("Cannot alter reserved roles."));
    }
    Ok(())
}
