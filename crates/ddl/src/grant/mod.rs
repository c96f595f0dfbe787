//! GRANT and REVOKE on objects.
//!
//! Invariants
//! 1. A list of grants is changed by [`kilndb_catalog::privileges::changed_items`] alone. An object that nobody has
//!    granted anything on gets the list that it has had without one.
//! 2. Who has no grant option on an object is told so (42501 if it has no privilege at all), and what it may not grant
//!    is left out with a warning.
//! 3. REVOKE on a table revokes the same on its columns.

mod columns;
mod defaults;
mod object;

use super::Definitions;
use crate::client::Runtime;
use crate::privileges::permission_denied;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::{
    GrantChange, PUBLIC_ROLE, Privileges, SecuredKind, changed_items, grant_options, granted_on, same_items,
};
use kilndb_catalog::secured_objects::{SECURED_TABLES, SecuredTable};
use kilndb_catalog::store::array;
use kilndb_syntax::nodes;
use kilndb_syntax::raw::{DropBehavior, GrantTargetType, ObjectType as O, RoleSpecType};
use kilndb_types::acl::{AclItem, privileges_named};
use kilndb_types::{Datum, oids};
use object::{GrantableRow, SecuredObject};

/// A list of grants as a column has it.
pub fn grants_value(items: &[AclItem]) -> Datum {
    array(oids::ACLITEM, items.iter().map(|item| Datum::AclItem(*item)).collect())
}

/// Privileges on columns that a statement names.
struct ColumnGrant<'n> {
    privileges: u64,
    columns: Vec<&'n str>,
}

/// What a statement grants or revokes, and whom.
struct Grant<'n> {
    is_grant: bool,
    option: bool,
    cascades: bool,
    /// Of whole objects. 0 with `all`: whatever there is for the kind.
    privileges: u64,
    all: bool,
    columns: Vec<ColumnGrant<'n>>,
    grantees: Vec<Oid>,
}

impl<'n> Grant<'n> {
    /// REVOKE ALL … FROM a role CASCADE.
    fn all_from(role: Oid) -> Grant<'static> {
        Grant {
            is_grant: false,
            option: false,
            cascades: true,
            privileges: 0,
            all: true,
            columns: Vec::new(),
            grantees: vec![role],
        }
    }

    fn change(&self, privileges: u64, grantor: Oid) -> GrantChange<'_> {
        let (is_grant, option, cascades) = (self.is_grant, self.option, self.cascades);
        GrantChange { is_grant, option, cascades, grantees: &self.grantees, privileges, grantor }
    }
}

/// Privileges by a word of a statement, which may be one that there is not.
fn privilege_word(word: &str) -> Result<u64> {
    privileges_named(word)
        .map_err(|_| Error::new(sqlstate::SYNTAX_ERROR, format!("unrecognized privilege type \"{word}\"")))
}

/// The name of the lowest of some privileges.
fn name_of(privileges: u64) -> &'static str {
    let item = AclItem { grantee: 0, grantor: 0, privileges };
    item.named_privileges().next().map_or("", |(name, _)| name)
}

fn invalid_privilege(privileges: u64, of: &str) -> Error {
    let message = format!("invalid privilege type {} for {of}", name_of(privileges));
    Error::new(sqlstate::INVALID_GRANT_OPERATION, message)
}

/// The privileges that a statement may name for objects of a kind, and what it calls the kind.
fn nameable(kind: O::Type) -> Result<(u64, &'static str)> {
    let relation = SecuredKind::Relation.all() | SecuredKind::Sequence.all();
    Ok(match kind {
        O::OBJECT_TABLE => (relation, "relation"),
        O::OBJECT_SEQUENCE => (SecuredKind::Sequence.all(), "sequence"),
        O::OBJECT_DATABASE => (SecuredKind::Database.all(), "database"),
        O::OBJECT_DOMAIN => (SecuredKind::Type.all(), "domain"),
        O::OBJECT_TYPE => (SecuredKind::Type.all(), "type"),
        O::OBJECT_FUNCTION => (SecuredKind::Function.all(), "function"),
        O::OBJECT_PROCEDURE => (SecuredKind::Function.all(), "procedure"),
        O::OBJECT_ROUTINE => (SecuredKind::Function.all(), "routine"),
        O::OBJECT_LANGUAGE => (SecuredKind::Language.all(), "language"),
        O::OBJECT_SCHEMA => (SecuredKind::Schema.all(), "schema"),
        O::OBJECT_TABLESPACE => (SecuredKind::Tablespace.all(), "tablespace"),
        O::OBJECT_PARAMETER_ACL => (SecuredKind::Parameter.all(), "parameter"),
        O::OBJECT_LARGEOBJECT => (SecuredKind::LargeObject.all(), "large object"),
        O::OBJECT_FDW => return Err(Error::unsupported("foreign-data wrappers are not supported")),
        O::OBJECT_FOREIGN_SERVER => return Err(Error::unsupported("foreign servers are not supported")),
        _ => return Err(Error::unsupported("GRANT and REVOKE on this kind of object are not supported")),
    })
}

/// A warning that less was granted or revoked than asked for. `of`: what, with a column's table.
fn shortfall(is_grant: bool, has_any: bool, of: &str) -> Error {
    let (state, verb) = if is_grant {
        (sqlstate::PRIVILEGE_NOT_GRANTED, "were granted")
    } else {
        (sqlstate::PRIVILEGE_NOT_REVOKED, "could be revoked")
    };
    let none = if has_any { "not all privileges" } else { "no privileges" };
    Error::notice(state, Severity::Warning, format!("{none} {verb} for {of}"))
}

impl Definitions<'_> {
    pub fn grant(&mut self, s: &nodes::GrantStmt, runtime: &dyn Runtime) -> Result<()> {
        if let Some(grantor) = s.grantor()
            && self.role_by_spec(grantor)?.oid != self.context().identity.current_role
        {
            return Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, "grantor must be current user"));
        }
        let grant = self.read_grant(s)?;
        let objects = match s.targtype {
            GrantTargetType::ACL_TARGET_ALL_IN_SCHEMA => self.objects_in_schemas(s, runtime)?,
            _ => self.named_objects(s, runtime)?,
        };
        for object in objects {
            match object {
                SecuredObject::Relation(table) => self.grant_on_relation(&table, &grant, s.objtype, runtime)?,
                SecuredObject::Parameter(name) => self.grant_on_parameter(&name, &grant, runtime)?,
                SecuredObject::Row(table, row) => self.grant_on_row(table, &row, &grant, runtime)?,
            }
        }
        Ok(())
    }

    /// REVOKE ALL ON an object FROM a role CASCADE.
    pub(crate) fn revoke_all_grants(&mut self, object: ObjectAddress, role: Oid, runtime: &dyn Runtime) -> Result<()> {
        let grant = Grant::all_from(role);
        if object.class == PG_CLASS {
            let table = self.context_mut().table_by_oid(object.object, runtime)?;
            return self.grant_on_relation(&table, &grant, O::OBJECT_TABLE, runtime);
        }
        if let Some(table) = SECURED_TABLES.iter().find(|table| table.class() == object.class) {
            let found = self.context_mut().catalog_lookup(table.table, table.by_oid, &[Datum::Oid(object.object)])?;
            return found.first().map_or(Ok(()), |row| self.grant_on_row(table, row, &grant, runtime));
        }
        if object.class != PG_PARAMETER_ACL {
            return Ok(());
        }
        let rows = self.context_mut().catalog_scan(PG_PARAMETER_ACL)?;
        let Some(row) = rows.iter().find(|row| row.oid("oid") == object.object) else { return Ok(()) };
        self.grant_on_parameter(row.text("parname").unwrap_or(""), &grant, runtime)
    }

    fn read_grant<'n>(&mut self, s: &'n nodes::GrantStmt) -> Result<Grant<'n>> {
        let (valid, kind) = nameable(s.objtype)?;
        let grantees = self.grantees(s.grantees())?;
        let mut grant = Grant {
            is_grant: s.is_grant,
            option: s.grant_option,
            cascades: s.behavior == DropBehavior::DROP_CASCADE,
            privileges: 0,
            all: s.privileges().is_empty(),
            columns: Vec::new(),
            grantees,
        };
        for privilege in s.privileges() {
            let columns: Vec<&str> = super::strings(kilndb_syntax::nodes_of(privilege.cols()));
            if !columns.is_empty() {
                if s.objtype != O::OBJECT_TABLE {
                    let message = "column privileges are only valid for relations";
                    return Err(Error::new(sqlstate::INVALID_GRANT_OPERATION, message));
                }
                let privileges = match privilege.priv_name() {
                    Some(word) => privilege_word(word)?,
                    None => SecuredKind::Column.all(),
                };
                if privileges & !SecuredKind::Column.all() != 0 {
                    return Err(invalid_privilege(privileges & !SecuredKind::Column.all(), "column"));
                }
                grant.columns.push(ColumnGrant { privileges, columns });
                continue;
            }
            let wanted = privilege_word(privilege.priv_name().unwrap_or(""))?;
            if wanted & !valid != 0 {
                return Err(invalid_privilege(wanted & !valid, kind));
            }
            grant.privileges |= wanted;
        }
        Ok(grant)
    }

    fn grantees<'n>(&mut self, specs: impl IntoIterator<Item = &'n nodes::RoleSpec>) -> Result<Vec<Oid>> {
        let mut grantees = Vec::new();
        for spec in specs {
            grantees.push(match spec.roletype {
                RoleSpecType::ROLESPEC_PUBLIC => PUBLIC_ROLE,
                _ => self.role_by_spec(spec)?.oid,
            });
        }
        Ok(grantees)
    }

    /// What the role in force may grant of `wanted`, and as whom. `shown` is the object's name; `denied` the error for
    /// who has no privilege on it at all.
    fn grantable(
        &mut self,
        privileges: &Privileges,
        wanted: u64,
        grant: &Grant<'_>,
        (shown, denied): (&str, &dyn Fn() -> Error),
    ) -> Result<(u64, Oid)> {
        self.grantable_within(privileges, privileges, wanted, grant, (shown, denied))
    }

    /// As [`Self::grantable`] of a part: who has a privilege on the `whole` has one on the part.
    fn grantable_within(
        &mut self,
        privileges: &Privileges,
        whole: &Privileges,
        wanted: u64,
        grant: &Grant<'_>,
        (shown, denied): (&str, &dyn Fn() -> Error),
    ) -> Result<(u64, Oid)> {
        let current = self.context().identity.current_role;
        let all = privileges.kind.all();
        let (grantor, options, has_any) = self.context_mut().with_roles(|roles| {
            let (grantor, options) = privileges.best_grantor(current, wanted, roles);
            let any = all | grant_options(all);
            let has_any = options != 0 || privileges.has_any(grantor, any, roles) || whole.has_any(grantor, any, roles);
            (grantor, options, has_any)
        })?;
        if !has_any {
            return Err(denied());
        }
        let allowed = wanted & granted_on(options);
        if allowed == 0 || (!grant.all && allowed != wanted) {
            let warning = shortfall(grant.is_grant, allowed != 0, shown);
            self.context().shared.scratch.notices.borrow_mut().push(warning);
        }
        Ok((allowed, grantor))
    }

    /// The list of an object after the statement; None: as it was.
    fn changed_grants(
        &mut self,
        privileges: &Privileges,
        allowed: u64,
        grantor: Oid,
        grant: &Grant<'_>,
    ) -> Result<Option<Vec<AclItem>>> {
        let items = privileges.items();
        let changed = self
            .context_mut()
            .with_roles(|roles| changed_items(&items, &grant.change(allowed, grantor), privileges.owner, roles))??;
        let is_same = privileges.list.is_some() && same_items(&items, &changed);
        Ok((!is_same).then_some(changed))
    }

    /// GRANT on an object that a row of a system table stands for.
    fn grant_on_row(
        &mut self,
        table: &'static SecuredTable,
        row: &CatalogRow,
        grant: &Grant<'_>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        table.refuse(row)?;
        let privileges = table.privileges(row);
        let name = table.shown(row);
        let wanted = if grant.all { table.kind.all() } else { grant.privileges };
        let denied = || permission_denied(table.word(row), &name);
        let shown = format!("\"{name}\"");
        let (allowed, grantor) = self.grantable(&privileges, wanted, grant, (&shown, &denied))?;
        if let Some(items) = self.changed_grants(&privileges, allowed, grantor, grant)? {
            self.rewrite_row(row, runtime, |row| row.set(table.grants, grants_value(&items)))?;
        }
        Ok(())
    }

    /// GRANT … ON PARAMETER: a row of pg_parameter_acl, which is there while the list says something.
    fn grant_on_parameter(&mut self, name: &str, grant: &Grant<'_>, runtime: &dyn Runtime) -> Result<()> {
        let key = [Datum::text(name)];
        let row = self.context_mut().catalog_lookup(PG_PARAMETER_ACL, PG_PARAMETER_ACL_PARNAME_INDEX, &key)?.pop();
        if row.is_none() && !grant.is_grant {
            return Ok(());
        }
        let owner = kilndb_catalog::builtin::BOOTSTRAP_SUPERUSER;
        let list = row.as_ref().and_then(|row| row.grants("paracl"));
        let privileges = Privileges { kind: SecuredKind::Parameter, owner, list };
        let wanted = if grant.all { SecuredKind::Parameter.all() } else { grant.privileges };
        let denied = || permission_denied("parameter", name);
        let shown = format!("\"{name}\"");
        let (allowed, grantor) = self.grantable(&privileges, wanted, grant, (&shown, &denied))?;
        let Some(items) = self.changed_grants(&privileges, allowed, grantor, grant)? else { return Ok(()) };
        let is_default = same_items(&items, &kilndb_catalog::privileges::default_items(SecuredKind::Parameter, owner));
        match &row {
            Some(row) if is_default => self.write_catalog(runtime, |w| w.delete(row)),
            Some(row) => self.rewrite_row(row, runtime, |row| row.set("paracl", grants_value(&items))),
            None if is_default => Ok(()),
            None => {
                let oid = self.context().cluster.next_oid()?;
                let values =
                    [("oid", Datum::Oid(oid)), ("parname", Datum::text(name)), ("paracl", grants_value(&items))];
                self.write_catalog(runtime, |w| w.insert(PG_PARAMETER_ACL, &values).map(|_| ()))
            }
        }
    }
}
