//! CREATE, ALTER, RENAME and DROP ROLE.
//!
//! Invariants
//! 1. Who may do what to a role is as in PostgreSQL 16 and later: CREATEROLE makes roles, and the ADMIN option on a role
//!    alters and drops it; a superuser is a superuser's to make, alter and drop.
//! 2. A password is kept as its verifier alone.

mod membership;
mod options;
mod owned;
mod setting;

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::builtin::BOOTSTRAP_SUPERUSER;
use kilndb_catalog::ids::*;
use kilndb_catalog::roles::{Role, Roles};
use kilndb_syntax::raw::{RoleSpecType as R, RoleStmtType};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use membership::{GrantedRole, MembershipOptions};
use options::RoleOptions;
pub(super) use setting::connection_limit;
use std::sync::Arc;

/// 42501 with what would have been needed.
pub(super) fn denied(what: &str, detail: String) -> Error {
    Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied to {what}")).with_detail(detail)
}

/// 42939: names that begin with pg_, and those that mean something else, are nobody's to give.
fn refuse_reserved_name(name: &str) -> Result<()> {
    if name.starts_with("pg_") {
        return Err(Error::new(sqlstate::RESERVED_NAME, format!("role name \"{name}\" is reserved"))
            .with_detail("Role names starting with \"pg_\" are reserved."));
    }
    Ok(())
}

/// A role of the system's own is not altered, nor PUBLIC.
fn refuse_reserved(spec: &nodes::RoleSpec, detail: &str) -> Result<()> {
    let name = match spec.roletype {
        R::ROLESPEC_PUBLIC => "public",
        R::ROLESPEC_CSTRING => spec.rolename().unwrap_or(""),
        _ => return Ok(()),
    };
    if matches!(name, "public" | "none") {
        let message = format!("role \"{name}\" does not exist");
        return Err(Error::new(sqlstate::UNDEFINED_OBJECT, message));
    }
    if name.starts_with("pg_") {
        return Err(
            Error::new(sqlstate::RESERVED_NAME, format!("role name \"{name}\" is reserved")).with_detail(detail)
        );
    }
    Ok(())
}

fn missing_role(name: &str) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

impl Definitions<'_> {
    /// The roles, as what the command has done so far has left them.
    pub(super) fn roles(&mut self) -> Result<Arc<Roles>> {
        self.context_mut().roles()
    }

    /// The role that a statement means; 42704 if there is none.
    pub(super) fn role_by_spec(&mut self, spec: &nodes::RoleSpec) -> Result<Role> {
        let name = match spec.roletype {
            R::ROLESPEC_CURRENT_ROLE | R::ROLESPEC_CURRENT_USER => self.context().identity.role_name.to_string(),
            R::ROLESPEC_SESSION_USER => self.context().identity.session_user.to_string(),
            R::ROLESPEC_PUBLIC => "public".to_string(),
            _ => spec.rolename().unwrap_or("").to_string(),
        };
        self.roles()?.named(&name).cloned().ok_or_else(|| missing_role(&name))
    }

    pub(super) fn is_admin_of(&mut self, role: Oid) -> Result<bool> {
        let current = self.context().identity.current_role;
        self.context_mut().with_roles(|roles| roles.is_admin(current, role))
    }

    pub fn create_role(&mut self, s: &nodes::CreateRoleStmt, source: &str, runtime: &dyn Runtime) -> Result<()> {
        let name = s.role().unwrap_or("").to_string();
        let options = RoleOptions::read(s.options(), source)?;
        if options.is_sysid_given {
            self.context().notice(Severity::Notice, "SYSID can no longer be specified");
        }
        self.refuse_creation(&options)?;
        refuse_reserved_name(&name)?;
        if self.roles()?.named(&name).is_some() {
            return Err(Error::new(sqlstate::DUPLICATE_OBJECT, format!("role \"{name}\" already exists")));
        }
        let oid = self.context().cluster.next_oid()?;
        let mut row = vec![
            ("oid", Datum::Oid(oid)),
            ("rolname", Datum::text(&name)),
            ("rolinherit", Datum::Bool(true)),
            ("rolcanlogin", Datum::Bool(s.stmt_type == RoleStmtType::ROLESTMT_USER)),
            ("rolconnlimit", Datum::Int4(-1)),
        ];
        row.extend(self.attribute_values(&options, &name, runtime)?);
        self.write_catalog(runtime, |w| w.insert(PG_AUTHID, &row).map(|_| ()))?;
        self.create_memberships(oid, &name, &options, runtime)
    }

    /// Who may make such a role.
    fn refuse_creation(&mut self, options: &RoleOptions<'_>) -> Result<()> {
        let context = self.context();
        if context.is_superuser() {
            return Ok(());
        }
        let refused = |detail: String| Err(denied("create role", detail));
        if !context.has_attribute(|role| role.creates_roles) {
            return refused("Only roles with the CREATEROLE attribute may create roles.".to_string());
        }
        let held = [
            ("SUPERUSER", options.superuser, false),
            ("CREATEDB", options.createdb, context.has_attribute(|role| role.creates_databases)),
            ("REPLICATION", options.replication, context.has_attribute(|role| role.replicates)),
            ("BYPASSRLS", options.bypassrls, context.has_attribute(|role| role.bypasses_row_security)),
        ];
        match held.iter().find(|(_, wanted, has)| *wanted == Some(true) && !has) {
            Some((attribute, ..)) => refused(format!(
                "Only roles with the {attribute} attribute may create roles with the {attribute} attribute."
            )),
            None => Ok(()),
        }
    }

    /// The memberships that a new role begins with.
    fn create_memberships(
        &mut self,
        oid: Oid,
        name: &str,
        options: &RoleOptions<'_>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let of_new = |oid, name: &str| (oid, name.to_string());
        let plain = MembershipOptions::default();
        for spec in &options.in_roles {
            let role = self.role_by_spec(spec)?;
            self.refuse_granting(&role, true)?;
            let granted = GrantedRole { oid: role.oid, name: &role.name, grantor: None };
            self.add_members(&granted, &[of_new(oid, name)], &plain, runtime)?;
        }
        if !self.context().is_superuser() {
            self.grant_to_creator(oid, name, runtime)?;
        }
        let granted = GrantedRole { oid, name, grantor: None };
        let members = self.members_of_specs(&options.members)?;
        self.add_members(&granted, &members, &plain, runtime)?;
        let admins = self.members_of_specs(&options.admins)?;
        self.add_members(&granted, &admins, &MembershipOptions { admin: Some(true), ..plain }, runtime)
    }

    /// Who makes a role without being a superuser is its administrator, and by `createrole_self_grant` a member.
    fn grant_to_creator(&mut self, oid: Oid, name: &str, runtime: &dyn Runtime) -> Result<()> {
        let identity = &self.context().identity;
        let creator = [(identity.current_role, identity.role_name.to_string())];
        let by_system = GrantedRole { oid, name, grantor: Some(BOOTSTRAP_SUPERUSER) };
        let as_admin = MembershipOptions { admin: Some(true), inherit: Some(false), set: Some(false) };
        self.write_memberships(&by_system, BOOTSTRAP_SUPERUSER, &creator, &as_admin, runtime)?;
        let setting = self.context().settings.get("createrole_self_grant").unwrap_or("").to_ascii_lowercase();
        let words: Vec<&str> = setting.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            return Ok(());
        }
        let has = |word: &str| Some(words.contains(&word));
        let options = MembershipOptions { admin: Some(false), inherit: has("inherit"), set: has("set") };
        let by_itself = GrantedRole { oid, name, grantor: Some(creator[0].0) };
        self.write_memberships(&by_itself, creator[0].0, &creator, &options, runtime)
    }

    pub fn alter_role(&mut self, s: &nodes::AlterRoleStmt, source: &str, runtime: &dyn Runtime) -> Result<()> {
        let spec = s.role().ok_or_else(|| Error::internal("ALTER ROLE without a role"))?;
        refuse_reserved(spec, "Cannot alter reserved roles.")?;
        let options = RoleOptions::read(s.options(), source)?;
        let role = self.role_by_spec(spec)?;
        self.refuse_altering(&role, &options)?;
        if role.oid == BOOTSTRAP_SUPERUSER && options.superuser == Some(false) {
            return Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, "permission denied to alter role")
                .with_detail("The bootstrap superuser must have the SUPERUSER attribute."));
        }
        let changes = self.attribute_values(&options, &role.name, runtime)?;
        if !changes.is_empty() {
            self.update_row(PG_AUTHID, PG_AUTHID_OID_INDEX, role.oid, runtime, |row| {
                for (column, value) in changes {
                    row.set(column, value);
                }
            })?;
        }
        let members = self.members_of_specs(&options.members)?;
        let granted = GrantedRole { oid: role.oid, name: &role.name, grantor: None };
        if s.action > 0 {
            self.add_members(&granted, &members, &MembershipOptions::default(), runtime)
        } else {
            self.remove_members(&granted, &members, &MembershipOptions::default(), false, runtime)
        }
    }

    /// Who may alter a role so.
    fn refuse_altering(&mut self, role: &Role, options: &RoleOptions<'_>) -> Result<()> {
        if self.context().is_superuser() {
            return Ok(());
        }
        let refused = |detail: String| Err(denied("alter role", detail));
        if role.is_superuser {
            return refused(
                "Only roles with the SUPERUSER attribute may alter roles with the SUPERUSER attribute.".to_string(),
            );
        }
        let may_change = |attribute: &str| {
            format!("Only roles with the {attribute} attribute may change the {attribute} attribute.")
        };
        if options.superuser.is_some() {
            return refused(may_change("SUPERUSER"));
        }
        let is_admin = self.is_admin_of(role.oid)?;
        let context = self.context();
        if !context.has_attribute(|own| own.creates_roles) || !is_admin {
            if options.changes_attributes() {
                let name = &role.name;
                return refused(format!(
                    "Only roles with the CREATEROLE attribute and the ADMIN option on role \"{name}\" may alter this role."
                ));
            }
            if options.password.is_some() && role.oid != context.identity.current_role {
                return refused(
                    "To change another role's password, the current user must have the CREATEROLE attribute and the ADMIN option on the role."
                        .to_string(),
                );
            }
        } else {
            let held = [
                ("CREATEDB", options.createdb, context.has_attribute(|own| own.creates_databases)),
                ("REPLICATION", options.replication, context.has_attribute(|own| own.replicates)),
                ("BYPASSRLS", options.bypassrls, context.has_attribute(|own| own.bypasses_row_security)),
            ];
            if let Some((attribute, ..)) = held.iter().find(|(_, wanted, has)| wanted.is_some() && !has) {
                return refused(may_change(attribute));
            }
        }
        if !options.members.is_empty() && !is_admin {
            let name = &role.name;
            return refused(format!("Only roles with the ADMIN option on role \"{name}\" may add or drop members."));
        }
        Ok(())
    }

    /// ALTER ROLE … RENAME TO.
    pub(super) fn rename_role(&mut self, old: &str, new: &str, runtime: &dyn Runtime) -> Result<String> {
        let roles = self.roles()?;
        let role = roles.named(old).ok_or_else(|| missing_role(old))?;
        let identity = &self.context().identity;
        if *identity.session_user == *old {
            return Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, "session user cannot be renamed"));
        }
        if identity.current_role == role.oid {
            return Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, "current user cannot be renamed"));
        }
        refuse_reserved_name(old)?;
        refuse_reserved_name(new)?;
        if roles.named(new).is_some() {
            return Err(Error::new(sqlstate::DUPLICATE_OBJECT, format!("role \"{new}\" already exists")));
        }
        if !self.context().is_superuser() {
            let refused = |detail: String| Err(denied("rename role", detail));
            if role.is_superuser {
                return refused(
                    "Only roles with the SUPERUSER attribute may rename roles with the SUPERUSER attribute."
                        .to_string(),
                );
            }
            if !self.context().has_attribute(|own| own.creates_roles) || !self.is_admin_of(role.oid)? {
                return refused(format!(
                    "Only roles with the CREATEROLE attribute and the ADMIN option on role \"{old}\" may rename this role."
                ));
            }
        }
        let row = self.authid_row(role.oid)?;
        let has_digest = row
            .text("rolpassword")
            .is_some_and(|p| kilndb_auth::password::classify(p) == kilndb_auth::password::PasswordKind::Md5);
        if has_digest {
            // The digest is made with the role's name.
            self.context().notice(Severity::Notice, "MD5 password cleared because of role rename");
        }
        self.rewrite_row(&row, runtime, |row| {
            row.set("rolname", Datum::text(new));
            if has_digest {
                row.set("rolpassword", Datum::Null);
            }
        })?;
        Ok("ALTER ROLE".to_string())
    }

    fn authid_row(&mut self, oid: Oid) -> Result<kilndb_catalog::catalog_row::CatalogRow> {
        let found = self.context_mut().catalog_lookup(PG_AUTHID, PG_AUTHID_OID_INDEX, &[Datum::Oid(oid)])?.pop();
        found.ok_or_else(|| Error::internal(format!("cache lookup failed for role {oid}")))
    }

    pub fn drop_role(&mut self, s: &nodes::DropRoleStmt, runtime: &dyn Runtime) -> Result<()> {
        if !self.context().has_attribute(|own| own.creates_roles) {
            return Err(denied(
                "drop role",
                "Only roles with the CREATEROLE attribute and the ADMIN option on the target roles may drop roles."
                    .to_string(),
            ));
        }
        let mut gone: Vec<Role> = Vec::new();
        for role in s.roles() {
            let Node::RoleSpec(spec) = role else { continue };
            if spec.roletype != R::ROLESPEC_CSTRING {
                return Err(Error::new(
                    sqlstate::INVALID_PARAMETER_VALUE,
                    "cannot use special role specifier in DROP ROLE",
                ));
            }
            let name = spec.rolename().unwrap_or("");
            let Some(role) = self.roles()?.named(name).cloned() else {
                if s.missing_ok {
                    self.context().notice(Severity::Notice, format!("role \"{name}\" does not exist, skipping"));
                    continue;
                }
                return Err(missing_role(name));
            };
            self.refuse_dropping(&role)?;
            self.delete_memberships_of(role.oid, runtime)?;
            if !gone.iter().any(|known| known.oid == role.oid) {
                gone.push(role);
            }
        }
        for role in &gone {
            self.refuse_while_needed(role, runtime)?;
            let row = self.authid_row(role.oid)?;
            self.write_catalog(runtime, |w| w.delete(&row))?;
            self.delete_shared_comments(PG_AUTHID, role.oid, runtime)?;
            self.drop_stored("setrole", role.oid, runtime)?;
        }
        Ok(())
    }

    fn refuse_dropping(&mut self, role: &Role) -> Result<()> {
        let identity = &self.context().identity;
        if role.oid == identity.current_role {
            return Err(Error::new(sqlstate::OBJECT_IN_USE, "current user cannot be dropped"));
        }
        if *role.name == *identity.session_user {
            return Err(Error::new(sqlstate::OBJECT_IN_USE, "session user cannot be dropped"));
        }
        if self.context().is_superuser() {
            return Ok(());
        }
        if role.is_superuser {
            return Err(denied(
                "drop role",
                "Only roles with the SUPERUSER attribute may drop roles with the SUPERUSER attribute.".to_string(),
            ));
        }
        if !self.is_admin_of(role.oid)? {
            let name = &role.name;
            return Err(denied(
                "drop role",
                format!(
                    "Only roles with the CREATEROLE attribute and the ADMIN option on role \"{name}\" may drop this role."
                ),
            ));
        }
        Ok(())
    }

    pub(crate) fn delete_shared_comments(&mut self, class: Oid, object: Oid, runtime: &dyn Runtime) -> Result<()> {
        let of_object = |row: &&kilndb_catalog::catalog_row::CatalogRow| {
            (row.oid("classoid"), row.oid("objoid")) == (class, object)
        };
        for row in self.context_mut().catalog_scan(PG_SHDESCRIPTION)?.iter().filter(of_object) {
            self.write_catalog(runtime, |w| w.delete(row))?;
        }
        Ok(())
    }
}
