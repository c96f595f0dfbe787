//! GRANT and REVOKE of roles: rows of pg_auth_members.
//!
//! Invariants
//! 1. A grant is its role's, its member's and its grantor's: the same by another grantor is another one.
//! 2. Who grants has the ADMIN option, which comes from the bootstrap superuser over other ADMIN options, never in a
//!    circle; a grant whose grantor loses it goes with CASCADE, and without holds it up.
//! 3. No role is a member of itself, over others neither.

use super::super::Definitions;
use super::{denied, missing_role};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::builtin::BOOTSTRAP_SUPERUSER;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::roles::{MembershipPath, PG_DATABASE_OWNER, Role};
use kilndb_syntax::raw::DropBehavior;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

/// What a statement says of a membership; None: nothing.
#[derive(Clone, Copy, Default)]
pub struct MembershipOptions {
    pub admin: Option<bool>,
    pub inherit: Option<bool>,
    pub set: Option<bool>,
}

impl MembershipOptions {
    fn read(s: &nodes::GrantRoleStmt, source: &str) -> Result<MembershipOptions> {
        let mut options = MembershipOptions::default();
        for option in s.opt() {
            let Node::DefElem(option) = option else { continue };
            let name = option.defname().unwrap_or("");
            let at = |e: Error| e.or_position(kilndb_syntax::position_of(source, option.location));
            let value = match option.arg() {
                Node::Boolean(b) => Some(b.boolval),
                Node::String(text) => match text.sval().unwrap_or("") {
                    "true" | "on" | "option" => Some(true),
                    "false" | "off" => Some(false),
                    _ => None,
                },
                _ => Some(true),
            };
            let Some(value) = value else {
                let given = option.arg().as_str().unwrap_or("").to_string();
                let message = format!("unrecognized value for role option \"{name}\": \"{given}\"");
                return Err(at(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)));
            };
            match name {
                "admin" => options.admin = Some(value),
                "inherit" => options.inherit = Some(value),
                "set" => options.set = Some(value),
                other => {
                    let message = format!("unrecognized role option \"{other}\"");
                    return Err(at(Error::new(sqlstate::SYNTAX_ERROR, message)));
                }
            }
        }
        Ok(options)
    }
}

/// The role that a statement grants or revokes, and the grantor that it names.
pub struct GrantedRole<'a> {
    pub oid: Oid,
    pub name: &'a str,
    pub grantor: Option<Oid>,
}

/// What becomes of a membership when another one is revoked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Revocation {
    Kept,
    Deleted,
    WithoutAdmin,
    WithoutInherit,
    WithoutSet,
}

/// The memberships of a role, and what a REVOKE makes of each.
struct RevocationPlan {
    rows: Vec<(CatalogRow, Revocation)>,
}

impl RevocationPlan {
    fn new(rows: Vec<CatalogRow>) -> RevocationPlan {
        RevocationPlan { rows: rows.into_iter().map(|row| (row, Revocation::Kept)).collect() }
    }

    /// False: there is no such grant.
    fn revoke(&mut self, member: Oid, grantor: Oid, options: &MembershipOptions, cascades: bool) -> Result<bool> {
        let is_it = |row: &CatalogRow| (row.oid("member"), row.oid("grantor")) == (member, grantor);
        let Some(at) = self.rows.iter().position(|(row, _)| is_it(row)) else { return Ok(false) };
        if options.inherit.is_some() {
            self.rows[at].1 = Revocation::WithoutInherit;
        } else if options.set.is_some() {
            self.rows[at].1 = Revocation::WithoutSet;
        } else {
            self.revoke_at(at, options.admin.is_some(), cascades)?;
        }
        Ok(true)
    }

    fn revoke_at(&mut self, at: usize, option_alone: bool, cascades: bool) -> Result<()> {
        kilndb_base::stack::check()?;
        let known = self.rows[at].1;
        if known == Revocation::Deleted || (known == Revocation::WithoutAdmin && option_alone) {
            return Ok(());
        }
        self.rows[at].1 = if option_alone { Revocation::WithoutAdmin } else { Revocation::Deleted };
        let member = self.rows[at].0.oid("member");
        let is_still_admin = |(row, what): &(CatalogRow, Revocation)| {
            row.oid("member") == member && row.bool("admin_option") && *what == Revocation::Kept
        };
        if !self.rows[at].0.bool("admin_option") || self.rows.iter().any(is_still_admin) {
            return Ok(());
        }
        for next in 0..self.rows.len() {
            if self.rows[next].0.oid("grantor") != member || self.rows[next].1 == Revocation::Deleted {
                continue;
            }
            if !cascades {
                return Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, "dependent privileges exist")
                    .with_hint("Use CASCADE to revoke them too."));
            }
            self.revoke_at(next, false, cascades)?;
        }
        Ok(())
    }

    /// Takes back what a member has, and all that depends on it.
    fn revoke_all_of(&mut self, member: Oid) -> Result<()> {
        for at in 0..self.rows.len() {
            if self.rows[at].0.oid("member") == member {
                self.revoke_at(at, false, true)?;
            }
        }
        Ok(())
    }
}

impl Definitions<'_> {
    pub fn grant_role(&mut self, s: &nodes::GrantRoleStmt, source: &str, runtime: &dyn Runtime) -> Result<()> {
        let options = MembershipOptions::read(s, source)?;
        let grantor = s.grantor().map(|spec| self.role_by_spec(spec)).transpose()?.map(|role| role.oid);
        let spec = |node| if let Node::RoleSpec(spec) = node { Some(spec) } else { None };
        let specs: Vec<&nodes::RoleSpec> = s.grantee_roles().iter().filter_map(spec).collect();
        let members = self.members_of_specs(&specs)?;
        let cascades = s.behavior == DropBehavior::DROP_CASCADE;
        for privilege in s.granted_roles() {
            let Node::AccessPriv(privilege) = privilege else { continue };
            let (name, has_columns) = (privilege.priv_name().unwrap_or(""), !privilege.cols().is_empty());
            if name.is_empty() || has_columns {
                let message = "column names cannot be included in GRANT/REVOKE ROLE";
                return Err(Error::new(sqlstate::INVALID_GRANT_OPERATION, message));
            }
            let role = self.roles()?.named(name).cloned().ok_or_else(|| missing_role(name))?;
            self.refuse_granting(&role, s.is_grant)?;
            let granted = GrantedRole { oid: role.oid, name: &role.name, grantor };
            if s.is_grant {
                self.add_members(&granted, &members, &options, runtime)?;
            } else {
                self.remove_members(&granted, &members, &options, cascades, runtime)?;
            }
        }
        Ok(())
    }

    pub(super) fn members_of_specs(&mut self, specs: &[&nodes::RoleSpec]) -> Result<Vec<(Oid, String)>> {
        let mut members = Vec::with_capacity(specs.len());
        for spec in specs {
            let role = self.role_by_spec(spec)?;
            members.push((role.oid, role.name));
        }
        Ok(members)
    }

    /// Who may grant a role, or revoke it.
    pub(super) fn refuse_granting(&mut self, role: &Role, is_grant: bool) -> Result<()> {
        if is_grant && role.oid == PG_DATABASE_OWNER {
            let message = format!("role \"{}\" cannot have explicit members", role.name);
            return Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        let word = if is_grant { "grant" } else { "revoke" };
        let name = &role.name;
        if role.is_superuser && !self.context().is_superuser() {
            return Err(denied(
                &format!("{word} role \"{name}\""),
                format!("Only roles with the SUPERUSER attribute may {word} roles with the SUPERUSER attribute."),
            ));
        }
        if !role.is_superuser && !self.is_admin_of(role.oid)? {
            return Err(denied(
                &format!("{word} role \"{name}\""),
                format!("Only roles with the ADMIN option on role \"{name}\" may {word} this role."),
            ));
        }
        Ok(())
    }

    /// Who is written down as the grantor of a role.
    fn grantor_of(&mut self, granted: &GrantedRole<'_>, is_grant: bool) -> Result<Oid> {
        let current = self.context().identity.current_role;
        let is_superuser = self.context().is_superuser();
        let nearest = |definitions: &mut Self, role: Oid| {
            definitions.context_mut().with_roles(|roles| {
                roles.administrator(MembershipPath::Inherit, role, granted.oid).filter(|_| role != granted.oid)
            })
        };
        let Some(grantor) = granted.grantor else {
            if is_superuser {
                return Ok(BOOTSTRAP_SUPERUSER);
            }
            return nearest(self, current)?.ok_or_else(|| Error::internal("no possible grantors"));
        };
        let name = self.roles()?.name(grantor);
        if !self.context_mut().has_privileges_of(grantor)? {
            return Err(if is_grant {
                denied(
                    &format!("grant privileges as role \"{name}\""),
                    format!("Only roles with privileges of role \"{name}\" may grant privileges as this role."),
                )
            } else {
                denied(
                    &format!("revoke privileges granted by role \"{name}\""),
                    format!(
                        "Only roles with privileges of role \"{name}\" may revoke privileges granted by this role."
                    ),
                )
            });
        }
        if is_grant && grantor != BOOTSTRAP_SUPERUSER && nearest(self, grantor)? != Some(grantor) {
            return Err(denied(
                &format!("grant privileges as role \"{name}\""),
                format!("The grantor must have the ADMIN option on role \"{}\".", granted.name),
            ));
        }
        Ok(grantor)
    }

    pub(super) fn add_members(
        &mut self,
        granted: &GrantedRole<'_>,
        members: &[(Oid, String)],
        options: &MembershipOptions,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if members.is_empty() {
            return Ok(());
        }
        let grantor = self.grantor_of(granted, true)?;
        for (member, name) in members {
            if *member == PG_DATABASE_OWNER {
                let message = format!("role \"{name}\" cannot be a member of any role");
                return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message));
            }
            if self.context_mut().with_roles(|roles| roles.is_member_by_row(granted.oid, *member))? {
                let message = format!("role \"{}\" is a member of role \"{name}\"", granted.name);
                return Err(Error::new(sqlstate::INVALID_GRANT_OPERATION, message));
            }
        }
        if options.admin == Some(true) && grantor != BOOTSTRAP_SUPERUSER {
            self.refuse_circle(granted, grantor, members)?;
        }
        self.write_memberships(granted, grantor, members, options, runtime)
    }

    /// Nobody gives the ADMIN option to whoever it has it from.
    fn refuse_circle(&mut self, granted: &GrantedRole<'_>, grantor: Oid, members: &[(Oid, String)]) -> Result<()> {
        let mut plan = RevocationPlan::new(self.membership_rows(granted.oid)?);
        for (member, _) in members {
            plan.revoke_all_of(*member)?;
        }
        let has_option = |(row, what): &(CatalogRow, Revocation)| {
            *what == Revocation::Kept && row.oid("member") == grantor && row.bool("admin_option")
        };
        if plan.rows.iter().any(has_option) {
            return Ok(());
        }
        let message = "ADMIN option cannot be granted back to your own grantor";
        Err(Error::new(sqlstate::INVALID_GRANT_OPERATION, message))
    }

    fn membership_rows(&mut self, role: Oid) -> Result<Vec<CatalogRow>> {
        let key = [Datum::Oid(role)];
        self.context_mut().catalog_lookup(PG_AUTH_MEMBERS, PG_AUTH_MEMBERS_ROLE_MEMBER_INDEX, &key)
    }

    /// Writes memberships that are found to be allowed.
    pub(super) fn write_memberships(
        &mut self,
        granted: &GrantedRole<'_>,
        grantor: Oid,
        members: &[(Oid, String)],
        options: &MembershipOptions,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let wanted =
            [("admin_option", options.admin), ("inherit_option", options.inherit), ("set_option", options.set)];
        for (member, name) in members {
            let rows = self.membership_rows(granted.oid)?;
            let is_it = |row: &&CatalogRow| (row.oid("member"), row.oid("grantor")) == (*member, grantor);
            if let Some(row) = rows.iter().find(is_it) {
                let changes: Vec<_> = wanted
                    .iter()
                    .filter_map(|(column, value)| Some((*column, (*value)?)))
                    .filter(|(column, value)| row.bool(column) != *value)
                    .collect();
                if changes.is_empty() {
                    let by = self.roles()?.name(grantor);
                    let message = format!(
                        "role \"{name}\" has already been granted membership in role \"{}\" by role \"{by}\"",
                        granted.name
                    );
                    self.context().notice(Severity::Notice, message);
                    continue;
                }
                self.rewrite_row(row, runtime, |row| {
                    changes.iter().for_each(|(column, value)| row.set(column, Datum::Bool(*value)));
                })?;
                continue;
            }
            let inherits = self.roles()?.role(*member).is_none_or(|role| role.inherits);
            let row = [
                ("oid", Datum::Oid(self.context().cluster.next_oid()?)),
                ("roleid", Datum::Oid(granted.oid)),
                ("member", Datum::Oid(*member)),
                ("grantor", Datum::Oid(grantor)),
                ("admin_option", Datum::Bool(options.admin.unwrap_or(false))),
                ("inherit_option", Datum::Bool(options.inherit.unwrap_or(inherits))),
                ("set_option", Datum::Bool(options.set.unwrap_or(true))),
            ];
            self.write_catalog(runtime, |w| w.insert(PG_AUTH_MEMBERS, &row).map(|_| ()))?;
        }
        Ok(())
    }

    pub(super) fn remove_members(
        &mut self,
        granted: &GrantedRole<'_>,
        members: &[(Oid, String)],
        options: &MembershipOptions,
        cascades: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if members.is_empty() {
            return Ok(());
        }
        let grantor = self.grantor_of(granted, false)?;
        let mut plan = RevocationPlan::new(self.membership_rows(granted.oid)?);
        for (member, name) in members {
            if !plan.revoke(*member, grantor, options, cascades)? {
                let by = self.roles()?.name(grantor);
                let message = format!(
                    "role \"{name}\" has not been granted membership in role \"{}\" by role \"{by}\"",
                    granted.name
                );
                self.context().notice(Severity::Warning, message);
            }
        }
        for (row, what) in &plan.rows {
            let column = match what {
                Revocation::Kept => continue,
                Revocation::Deleted => {
                    self.write_catalog(runtime, |w| w.delete(row))?;
                    continue;
                }
                Revocation::WithoutAdmin => "admin_option",
                Revocation::WithoutInherit => "inherit_option",
                Revocation::WithoutSet => "set_option",
            };
            self.rewrite_row(row, runtime, |row| row.set(column, Datum::Bool(false)))?;
        }
        Ok(())
    }

    /// The memberships of a role that goes, and in it.
    pub(super) fn delete_memberships_of(&mut self, role: Oid, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.context_mut().catalog_scan(PG_AUTH_MEMBERS)?;
        for row in rows.iter().filter(|row| row.oid("roleid") == role || row.oid("member") == role) {
            self.write_catalog(runtime, |w| w.delete(row))?;
        }
        Ok(())
    }
}
