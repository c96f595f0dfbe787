//! CREATE, ALTER and DROP ROLE.

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_catalog::ids::*;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

fn is_on(d: &nodes::DefElem) -> bool {
    matches!(d.arg(), Node::Boolean(b) if b.boolval)
}

/// (column, value) of pg_authid for the options that are plain attributes.
fn attributes<'n>(options: impl IntoIterator<Item = &'n nodes::DefElem>) -> Result<Vec<(&'static str, Datum)>> {
    let mut values = Vec::new();
    for d in options {
        let flag = Datum::Bool(is_on(d));
        values.push(match d.defname().unwrap_or("") {
            "superuser" => ("rolsuper", flag),
            "inherit" => ("rolinherit", flag),
            "createrole" => ("rolcreaterole", flag),
            "createdb" => ("rolcreatedb", flag),
            "canlogin" => ("rolcanlogin", flag),
            "isreplication" => ("rolreplication", flag),
            "bypassrls" => ("rolbypassrls", flag),
            "connectionlimit" => match d.arg() {
                Node::Integer(i) => ("rolconnlimit", Datum::Int4(i.ival)),
                _ => continue,
            },
            "password" | "validUntil" => continue,
            other => return Err(Error::unsupported(format!("role option \"{other}\" is not supported"))),
        });
    }
    Ok(values)
}

impl Definitions<'_> {
    pub fn create_role(&mut self, s: &nodes::CreateRoleStmt, runtime: &dyn Runtime) -> Result<()> {
        let name = s.role().unwrap_or("");
        if name.starts_with("pg_") {
            return Err(Error::new(sqlstate::RESERVED_NAME, format!("role name \"{name}\" is reserved"))
                .with_detail("Role names starting with \"pg_\" are reserved."));
        }
        if self.context().cluster.role_row(name)?.is_some()
            || !self.context_mut().catalog_lookup(PG_AUTHID, PG_AUTHID_ROLNAME_INDEX, &[Datum::text(name)])?.is_empty()
        {
            return Err(Error::new(sqlstate::DUPLICATE_OBJECT, format!("role \"{name}\" already exists")));
        }
        let oid = self.context().cluster.next_oid()?;
        let is_user = s.stmt_type == kilndb_syntax::raw::RoleStmtType::ROLESTMT_USER;
        let mut row = vec![
            ("oid", Datum::Oid(oid)),
            ("rolname", Datum::text(name)),
            ("rolinherit", Datum::Bool(true)),
            ("rolcanlogin", Datum::Bool(is_user)),
            ("rolconnlimit", Datum::Int4(-1)),
        ];
        row.extend(attributes(s.options())?);
        row.extend(self.password_values(s.options(), name, runtime)?);
        self.write_catalog(runtime, |w| w.insert(PG_AUTHID, &row).map(|_| ()))
    }

    pub fn alter_role(&mut self, s: &nodes::AlterRoleStmt, runtime: &dyn Runtime) -> Result<()> {
        let name = s.role().and_then(|r| r.rolename()).unwrap_or("");
        let mut changes = attributes(s.options())?;
        changes.extend(self.password_values(s.options(), name, runtime)?);
        let oid = self.role_oid(name)?;
        self.update_row(PG_AUTHID, PG_AUTHID_OID_INDEX, oid, runtime, |row| {
            for (column, value) in changes {
                row.set(column, value);
            }
        })
    }

    pub fn drop_role(&mut self, s: &nodes::DropRoleStmt, runtime: &dyn Runtime) -> Result<()> {
        for role in s.roles() {
            let Node::RoleSpec(r) = role else { continue };
            let name = r.rolename().unwrap_or("");
            let rows = self.context_mut().catalog_lookup(PG_AUTHID, PG_AUTHID_ROLNAME_INDEX, &[Datum::text(name)])?;
            let Some(row) = rows.first() else {
                if s.missing_ok {
                    self.context().notice(Severity::Notice, format!("role \"{name}\" does not exist, skipping"));
                    continue;
                }
                return Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")));
            };
            let oid = row.oid("oid");
            if oid == self.context().identity.current_role {
                return Err(Error::new(sqlstate::OBJECT_IN_USE, "current user cannot be dropped"));
            }
            let owned = self.context_mut().catalog_scan(PG_CLASS)?.iter().filter(|c| c.oid("relowner") == oid).count();
            if owned > 0 {
                return Err(Error::new(
                    sqlstate::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!("role \"{name}\" cannot be dropped because some objects depend on it"),
                ));
            }
            self.write_catalog(runtime, |w| w.delete(row))?;
            self.drop_stored("setrole", oid, runtime)?;
        }
        Ok(())
    }
}
