//! REASSIGN OWNED: what some roles own in this database, and the databases that they own, get another owner.
//!
//! Must not know: what the objects are, beyond which column names their owner.

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::builtin::{BOOTSTRAP_SUPERUSER, FIRST_USER_OID};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_storage::{LockMode, WaitPolicy};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

/// The system tables whose rows have an owner, and the column that names it.
const OWNERS: &[(Oid, &str)] = &[
    (PG_CLASS, "relowner"),
    (PG_TYPE, "typowner"),
    (PG_PROC, "proowner"),
    (PG_NAMESPACE, "nspowner"),
    (PG_OPCLASS, "opcowner"),
    (PG_OPFAMILY, "opfowner"),
    (PG_EXTENSION, "extowner"),
    (PG_STATISTIC_EXT, "stxowner"),
    (PG_COLLATION, "collowner"),
    (PG_TS_CONFIG, "cfgowner"),
    (PG_TS_DICT, "dictowner"),
    (PG_LARGEOBJECT_METADATA, "lomowner"),
    (PG_DATABASE, "datdba"),
];

impl Definitions<'_> {
    pub fn reassign_owned(&mut self, s: &nodes::ReassignOwnedStmt, runtime: &dyn Runtime) -> Result<()> {
        let mut old_owners = Vec::new();
        for role in s.roles() {
            let Node::RoleSpec(role) = role else { continue };
            let role = self.role_of(role)?;
            self.refuse_other_role(&role, "owned by it")?;
            old_owners.push(role);
        }
        let new_owner = s.newrole().ok_or_else(|| Error::internal("REASSIGN OWNED without a new owner"))?;
        let new_owner = self.role_of(new_owner)?;
        self.refuse_other_role(&new_owner, "to it")?;
        for role in &old_owners {
            if role.oid("oid") == BOOTSTRAP_SUPERUSER {
                let name = role.text("rolname").unwrap_or("");
                let message = format!(
                    "cannot reassign ownership of objects owned by role {name} because they are required by the database system"
                );
                return Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
        }
        let old_owners: Vec<Oid> = old_owners.iter().map(|role| role.oid("oid")).collect();
        self.lock_owned_relations(&old_owners, runtime)?;
        for (catalog, column) in OWNERS {
            let mut rows = self.context_mut().catalog_scan(*catalog)?;
            rows.retain(|row| old_owners.contains(&row.oid(column)));
            self.require_new_owners(*catalog, &rows, &new_owner, runtime)?;
            self.write_catalog(runtime, |writer| {
                rows.iter().try_for_each(|row| {
                    let mut given = row.clone();
                    given.set(column, Datum::Oid(new_owner.oid("oid")));
                    writer.update(row, given.values())
                })
            })?;
        }
        Ok(())
    }

    /// Routines and schemas are given as ALTER … OWNER TO gives them; of others the two roles are enough.
    fn require_new_owners(
        &mut self,
        catalog: Oid,
        rows: &[CatalogRow],
        owner: &CatalogRow,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let owner = owner.oid("oid");
        let is_given = |row: &&CatalogRow| match catalog {
            PG_PROC => row.oid("proowner") != owner,
            PG_NAMESPACE => row.oid("nspowner") != owner,
            _ => false,
        };
        for row in rows.iter().filter(is_given) {
            match catalog {
                PG_PROC => self.require_new_owner(owner, Some(row.oid("pronamespace")), runtime)?,
                PG_NAMESPACE => self.require_new_schema_owner(owner)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Definitions of relations do not change while others use them. The rows are read again afterwards.
    fn lock_owned_relations(&mut self, owners: &[Oid], runtime: &dyn Runtime) -> Result<()> {
        let rows = self.context_mut().catalog_scan(PG_CLASS)?;
        for row in rows.iter().filter(|row| owners.contains(&row.oid("relowner"))) {
            let oid = row.oid("oid");
            // An index is locked with its table, and a row type needs no lock.
            if oid >= FIRST_USER_OID && matches!(row.char("relkind"), b'r' | b'p' | b'v' | b'm' | b'S') {
                self.context_mut().lock_table(oid, LockMode::AccessExclusive, WaitPolicy::Wait, runtime)?;
            }
        }
        Ok(())
    }

    fn refuse_other_role(&self, role: &CatalogRow, direction: &str) -> Result<()> {
        if self.context().owns(role.oid("oid")) {
            return Ok(());
        }
        let name = role.text("rolname").unwrap_or("");
        let detail = format!("Only roles with privileges of role \"{name}\" may reassign objects {direction}.");
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, "permission denied to reassign objects").with_detail(detail))
    }
}
