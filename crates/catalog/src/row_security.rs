//! Row security as the binder sees it: a table's policies, and what of them counts for a role (PostgreSQL's
//! `utils/misc/rls.c` and `rewrite/rowsecurity.c`).
//!
//! Invariants
//! 1. A table without row security has none of this, whatever policies it has in pg_policy.
//! 2. Policies stand in the order of their names.
//!
//! Must not know: syntax, plans, how a policy's expressions are judged.

use super::cache::CatalogReader;
use super::catalog_row::CatalogRow;
use super::ids::*;
use super::model::Table;
use super::roles::{Roles, RolesInDatabase};
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::Datum;

/// What a policy is for: a row of pg_policy.
#[derive(Clone, Debug)]
pub struct Policy {
    pub oid: Oid,
    pub name: String,
    /// 'r' SELECT, 'a' INSERT, 'w' UPDATE, 'd' DELETE, '*' all.
    pub command: u8,
    /// Rows must meet one of the permissive policies, and all that are restrictive.
    pub is_permissive: bool,
    /// For whom it counts; 0 is PUBLIC, and then the only one.
    pub roles: Vec<Oid>,
    /// Which rows are there, as SQL over the table's columns.
    pub using_sql: Option<String>,
    /// Which rows may be written; None: those of `using_sql`.
    pub check_sql: Option<String>,
}

/// A table's row security, if it is enabled.
#[derive(Clone, Debug, Default)]
pub struct RowSecurity {
    /// It counts for the table's owner too.
    pub is_forced: bool,
    pub policies: Vec<Policy>,
}

/// What of a table's row security counts for somebody.
#[derive(Clone, Debug)]
pub enum RolePolicies {
    /// Nothing: all rows are there.
    Passed,
    /// These policies, of whatever command.
    Counting(Vec<Policy>),
}

/// Who runs a statement.
pub trait StatementRole {
    fn oid(&self) -> Oid;
    /// The roles, and the version that they are of; 0: the transaction's own.
    fn roles(&self) -> Result<(u64, Arc<Roles>)>;
    /// The setting row_security: whether policies are applied, or what they would change is refused.
    fn applies_row_security(&self) -> bool;
}

/// For whom a plan was made that would be another one for another role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanRole {
    pub role: Oid,
    pub roles_version: u64,
    pub applies_row_security: bool,
}

impl CatalogReader<'_> {
    /// What of the table's row security counts for a role: whoever runs the statement, or the owner of a view. 42501 if
    /// something does and the session wants to be told. A statement that is not planned, such as a view's as it is made,
    /// has none.
    pub(super) fn policies_for(&self, table: &Table, check_as: Option<Oid>) -> Result<RolePolicies> {
        let (Some(security), Some(asking), Some(asked)) = (&table.row_security, self.role, self.asked) else {
            return Ok(RolePolicies::Passed);
        };
        let (roles_version, roles) = asking.roles()?;
        let of_plan =
            PlanRole { role: asking.oid(), roles_version, applies_row_security: asking.applies_row_security() };
        asked.role.set(Some(of_plan));
        let role = check_as.unwrap_or(asking.oid());
        let seen = roles.seen_from(self.database.oid);
        if !table.row_security_counts(role, seen, asking.applies_row_security())? {
            return Ok(RolePolicies::Passed);
        }
        let counts = |p: &&Policy| p.roles.iter().any(|r| *r == 0 || seen.has_privileges_of(role, *r));
        Ok(RolePolicies::Counting(security.policies.iter().filter(counts).cloned().collect()))
    }

    /// The row security of the relation that this row of pg_class is of.
    pub(super) fn load_row_security(&self, class: &CatalogRow) -> Result<Option<Arc<RowSecurity>>> {
        if !class.bool("relrowsecurity") {
            return Ok(None);
        }
        let rows = self.lookup(PG_POLICY, PG_POLICY_POLRELID_POLNAME_INDEX, &[Datum::Oid(class.oid("oid"))])?;
        let policies = rows.iter().map(Policy::of_row).collect();
        Ok(Some(Arc::new(RowSecurity { is_forced: class.bool("relforcerowsecurity"), policies })))
    }
}

impl Table {
    /// Whether row security counts for a role, whatever its policies say.
    pub fn hides_rows_from(&self, role: Oid, roles: RolesInDatabase<'_>) -> bool {
        let Some(security) = &self.row_security else { return false };
        !roles.bypasses_row_security(role) && (security.is_forced || !roles.has_privileges_of(role, self.owner))
    }
    /// The same; 42501 if it counts and the session wants to be told rather than to have policies applied.
    pub fn row_security_counts(&self, role: Oid, roles: RolesInDatabase<'_>, is_applied: bool) -> Result<bool> {
        match self.hides_rows_from(role, roles) {
            true if !is_applied => Err(refused(self, roles.has_privileges_of(role, self.owner))),
            counts => Ok(counts),
        }
    }
}

fn refused(table: &Table, is_owner: bool) -> Error {
    let message = format!("query would be affected by row-level security policy for table \"{}\"", table.name);
    let e = Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message);
    match is_owner {
        true => {
            e.with_hint("To disable the policy for the table's owner, use ALTER TABLE NO FORCE ROW LEVEL SECURITY.")
        }
        false => e,
    }
}

impl Policy {
    pub fn of_row(row: &CatalogRow) -> Policy {
        let text = |column: &str| row.text(column).map(str::to_string);
        Policy {
            oid: row.oid("oid"),
            name: text("polname").unwrap_or_default(),
            command: row.char("polcmd"),
            is_permissive: row.bool("polpermissive"),
            roles: row.numbers("polroles").iter().map(|n| *n as Oid).collect(),
            using_sql: text("polqual"),
            check_sql: text("polwithcheck"),
        }
    }
}
