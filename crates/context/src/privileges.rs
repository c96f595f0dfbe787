//! The roles as a session sees them, and whether a role may do what a statement does.
//!
//! Invariants
//! 1. A transaction that has changed roles goes by its own changes.
//!
//! Must not know: sessions and their statements, which ask.

use crate::cluster::Cluster;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::access::{FunctionAccess, RelationAccess};
use kilndb_catalog::privileges::{Privileges, SecuredKind, privilege};
use kilndb_catalog::roles::{Roles, RolesInDatabase};
use kilndb_catalog::{Column, Table, TableKind};
use kilndb_storage::Snapshot;
use std::cell::{Cell, RefCell};

/// The roles as a session sees them.
#[derive(Default)]
pub struct SessionRoles {
    shared: RefCell<Option<(u64, Arc<Roles>)>>,
    /// Of a transaction that has changed roles: as its commands have left them, once somebody has asked.
    own: RefCell<Option<Arc<Roles>>>,
    pub(crate) is_changed: Cell<bool>,
}

impl SessionRoles {
    /// The roles, with the version that they are of; 0: the transaction's own. `snapshot` is asked for only if the
    /// transaction has changed them.
    pub fn get(&self, cluster: &Cluster, snapshot: impl FnOnce() -> Result<Snapshot>) -> Result<(u64, Arc<Roles>)> {
        if self.is_changed.get() {
            if let Some(own) = &*self.own.borrow() {
                return Ok((0, own.clone()));
            }
            let own = Arc::new(cluster.read_roles(&snapshot()?)?);
            *self.own.borrow_mut() = Some(own.clone());
            return Ok((0, own));
        }
        if let Some((version, roles)) = &*self.shared.borrow()
            && *version == cluster.role_directory.version()
        {
            return Ok((*version, roles.clone()));
        }
        let found = cluster.roles()?;
        *self.shared.borrow_mut() = Some(found.clone());
        Ok(found)
    }

    /// The transaction has changed roles, or has taken a change back.
    pub fn note_changed(&self) {
        self.is_changed.set(true);
        self.forget_own();
    }
    pub fn forget_own(&self) {
        *self.own.borrow_mut() = None;
    }
    pub fn end_transaction(&self) {
        self.is_changed.set(false);
        self.forget_own();
    }
}

/// 42501 as PostgreSQL words it: `permission denied for table accounts`.
pub fn permission_denied(what: &str, name: &str) -> Error {
    Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied for {what} {name}"))
}

/// 42501 as PostgreSQL words it: `must be owner of table accounts`.
pub fn not_owner(kind: &str, name: &str) -> Error {
    Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("must be owner of {kind} {name}"))
}

/// What a relation is called where a privilege is missing.
pub fn relation_word(table: &Table) -> &'static str {
    match table.kind {
        TableKind::View => "view",
        TableKind::Materialized => "materialized view",
        TableKind::Sequence => "sequence",
        TableKind::Index => "index",
        TableKind::Table | TableKind::Partitioned | TableKind::Composite => "table",
    }
}

/// What a routine is called there.
pub fn routine_word(kind: u8) -> &'static str {
    match kind {
        b'p' => "procedure",
        b'a' => "aggregate",
        _ => "function",
    }
}

/// Whether a role has a privilege on a column by the column's own grants.
fn has_on_column(role: Oid, column: &Column, table: &Table, wanted: u64, roles: RolesInDatabase<'_>) -> bool {
    let Some(list) = &column.grants else { return false };
    let privileges = Privileges { kind: SecuredKind::Column, owner: table.owner, list: Some(list.clone()) };
    privileges.has_all(role, wanted, roles)
}

/// Whether a role has, by their own grants, a privilege on these columns; if there are none, on any column of the table.
/// 0 is all columns.
pub fn has_on_columns(role: Oid, table: &Table, columns: &[i16], wanted: u64, roles: RolesInDatabase<'_>) -> bool {
    let mut present = table.columns.iter().filter(|c| !c.dropped);
    let has = |column: &Column| has_on_column(role, column, table, wanted, roles);
    if columns.is_empty() {
        return present.any(has);
    }
    columns.iter().all(|attnum| match attnum {
        0 => table.columns.iter().filter(|c| !c.dropped).all(has),
        attnum => table.columns.iter().find(|c| c.attnum == *attnum).is_some_and(has),
    })
}

/// Whether a role may read these columns of a table as they are: all of them, with no policy in between. No columns:
/// the whole table.
pub fn may_read(role: Oid, table: &Table, columns: &[i16], roles: RolesInDatabase<'_>) -> bool {
    if table.hides_rows_from(role, roles) {
        return false;
    }
    table.privileges().has_all(role, privilege::SELECT, roles)
        || (!columns.is_empty() && has_on_columns(role, table, columns, privilege::SELECT, roles))
}

/// 42501 unless the owner of a table has each of these privileges on it or on the columns: foreign keys are checked as
/// the owner.
pub fn require_of_owner(table: &Table, wanted: u64, columns: &[i16], roles: RolesInDatabase<'_>) -> Result<()> {
    let has = |bit: u64| {
        table.privileges().has_all(table.owner, bit, roles) || has_on_columns(table.owner, table, columns, bit, roles)
    };
    let missing = (0..u64::BITS).map(|n| 1_u64 << n).any(|bit| wanted & bit != 0 && !has(bit));
    if missing { Err(permission_denied("table", &table.name)) } else { Ok(()) }
}

/// Whether a role may do to a relation what a statement does (PostgreSQL's ExecCheckOneRelPerms).
pub(crate) fn may_access(role: Oid, access: &RelationAccess, roles: RolesInDatabase<'_>) -> bool {
    let table = &access.table;
    let missing = access.required & !table.privileges().held(role, access.required, roles);
    if missing & !(privilege::SELECT | privilege::INSERT | privilege::UPDATE) != 0 {
        return false;
    }
    let by_columns = [
        (privilege::SELECT, &access.selected),
        (privilege::INSERT, &access.inserted),
        (privilege::UPDATE, &access.updated),
    ];
    by_columns
        .iter()
        .all(|(wanted, columns)| missing & wanted == 0 || has_on_columns(role, table, columns, *wanted, roles))
}

/// 42501 unless a role may call all of these.
pub(crate) fn refuse_functions(functions: &[FunctionAccess], role: Oid, roles: RolesInDatabase<'_>) -> Result<()> {
    for function in functions {
        if !function.privileges.has_all(role, privilege::EXECUTE, roles) {
            return Err(permission_denied(routine_word(function.kind), &function.name));
        }
    }
    Ok(())
}
