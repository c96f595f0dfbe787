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
use kilndb_base::sync::Arc;
use kilndb_base::{Oid, Result};
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

/// Whether row security counts for somebody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowSecurityState {
    /// The table has none: nobody's rows are hidden.
    Disabled,
    /// It has, but not for this role as things stand.
    Passed,
    Enabled,
}

impl CatalogReader<'_> {
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
