//! What roles are needed for in all databases (pg_shdepend): DROP ROLE is held up by it, DROP OWNED does away with it.

use super::super::Definitions;
use super::denied;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::roles::Role;
use kilndb_catalog::shared_dependencies::{GRANTED, INITIALLY_GRANTED, OWNER, POLICY};
use kilndb_syntax::raw::DropBehavior;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::collections::BTreeMap;

/// As many objects as an error names.
const SHOWN_MAX: usize = 100;

/// What a role is to an object, as the detail of an error begins.
fn relation_to(kind: u8) -> &'static str {
    match kind {
        OWNER => "owner of",
        GRANTED => "privileges for",
        INITIALLY_GRANTED => "initial privileges for",
        POLICY => "target of",
        _ => "reference from",
    }
}

impl Definitions<'_> {
    fn needs_of(&mut self, role: Oid) -> Result<Vec<CatalogRow>> {
        let key = [Datum::Oid(PG_AUTHID), Datum::Oid(role)];
        self.context_mut().catalog_lookup(PG_SHDEPEND, PG_SHDEPEND_REFERENCE_INDEX, &key)
    }

    /// 2BP01 while something in some database needs a role.
    pub(super) fn refuse_while_needed(&mut self, role: &Role, runtime: &dyn Runtime) -> Result<()> {
        let message = format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
        if role.oid < FIRST_USER_OID {
            let message = format!("cannot drop role {} because it is required by the database system", role.name);
            return Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        let mut rows = self.needs_of(role.oid)?;
        if rows.is_empty() {
            return Ok(());
        }
        rows.sort_by_key(|row| (row.oid("objid"), row.oid("classid"), row.int("objsubid")));
        let own = self.context().database.oid;
        let (here, elsewhere): (Vec<CatalogRow>, Vec<CatalogRow>) =
            rows.into_iter().partition(|row| row.oid("dbid") == own || row.oid("dbid") == 0);
        let mut lines = Vec::new();
        for row in here.iter().take(SHOWN_MAX) {
            let object = ObjectAddress {
                class: row.oid("classid"),
                object: row.oid("objid"),
                column: row.int("objsubid") as i16,
            };
            let shown = self.object_shown(object, runtime)?;
            lines.push(format!("{} {shown}", relation_to(row.char("deptype"))));
        }
        if here.len() > SHOWN_MAX {
            let rest = here.len() - SHOWN_MAX;
            let objects = if rest == 1 { "object" } else { "objects" };
            lines.push(format!("and {rest} other {objects} (see server log for list)"));
        }
        let mut counts: BTreeMap<Oid, usize> = BTreeMap::new();
        for row in &elsewhere {
            *counts.entry(row.oid("dbid")).or_default() += 1;
        }
        for (database, count) in counts {
            let shown = self.object_shown(ObjectAddress::object(PG_DATABASE, database), runtime)?;
            lines.push(format!("{count} {} in {shown}", if count == 1 { "object" } else { "objects" }));
        }
        Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message).with_detail(lines.join("\n")))
    }

    pub fn drop_owned(&mut self, s: &nodes::DropOwnedStmt, runtime: &dyn Runtime) -> Result<()> {
        let mut roles = Vec::new();
        for node in s.roles() {
            let Node::RoleSpec(spec) = node else { continue };
            let role = self.role_by_spec(spec)?;
            if !self.context_mut().has_privileges_of(role.oid)? {
                return Err(denied(
                    "drop objects",
                    format!("Only roles with privileges of role \"{}\" may drop objects owned by it.", role.name),
                ));
            }
            if role.oid < FIRST_USER_OID {
                let message = format!(
                    "cannot drop objects owned by role {} because they are required by the database system",
                    role.name
                );
                return Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
            roles.push(role.oid);
        }
        let own = self.context().database.oid;
        let mut owned = Vec::new();
        for role in roles {
            for row in self.needs_of(role)? {
                let database = row.oid("dbid");
                if database != own && database != 0 {
                    continue;
                }
                let object = ObjectAddress {
                    class: row.oid("classid"),
                    object: row.oid("objid"),
                    column: row.int("objsubid") as i16,
                };
                match row.char("deptype") {
                    OWNER if database == own => owned.push(object),
                    GRANTED => self.revoke_all_on(object, role, runtime)?,
                    POLICY if !self.leave_policy(object.object, role, runtime)? => owned.push(object),
                    _ => {}
                }
            }
        }
        self.delete_objects(&owned, s.behavior == DropBehavior::DROP_CASCADE, runtime)
    }

    /// Takes what a role has on an object from it, as REVOKE ALL … CASCADE by the role in force does.
    fn revoke_all_on(&mut self, object: ObjectAddress, role: Oid, runtime: &dyn Runtime) -> Result<()> {
        match object.class {
            PG_AUTH_MEMBERS => {
                let key = [Datum::Oid(object.object)];
                self.delete_rows(PG_AUTH_MEMBERS, PG_AUTH_MEMBERS_OID_INDEX, &key, runtime)
            }
            PG_DEFAULT_ACL => self.revoke_default_grants(object.object, role, runtime),
            _ => self.revoke_all_grants(object, role, runtime),
        }
    }
}
