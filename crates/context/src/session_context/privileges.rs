//! What the role in force may do: checked when a statement runs, by the privileges as they are then.
//!
//! Invariants
//! 1. A plan that others may have made runs only after [`SessionContext::check_access`], which costs two comparisons if
//!    the same role was found to be allowed it last, by the same roles. A plan goes when the grants on what it uses
//!    change, so that it need not be asked about again.
//! 2. A transaction that has changed roles goes by its own changes.

use super::SessionContext;
use crate::cluster::Cluster;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::access::{FunctionAccess, RelationAccess};
use kilndb_catalog::privileges::{Privileges, SecuredKind, privilege};
use kilndb_catalog::roles::{Roles, RolesInDatabase};
use kilndb_catalog::{Column, Table, TableKind};
use kilndb_plan::Plan;
use kilndb_storage::Snapshot;
use std::cell::{Cell, RefCell};

/// The roles as a session sees them.
#[derive(Default)]
pub struct SessionRoles {
    shared: RefCell<Option<(u64, Arc<Roles>)>>,
    /// Of a transaction that has changed roles: as its commands have left them, once somebody has asked.
    own: RefCell<Option<Arc<Roles>>>,
    is_changed: Cell<bool>,
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

/// What a relation is called where a privilege is missing.
pub fn relation_word(table: &Table) -> &'static str {
    match table.kind {
        TableKind::View => "view",
        TableKind::Materialized => "materialized view",
        TableKind::Sequence => "sequence",
        TableKind::Index => "index",
        TableKind::Composite => "type",
        TableKind::Table | TableKind::Partitioned => "table",
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

/// Whether a role may do to a relation what a statement does (PostgreSQL's ExecCheckOneRelPerms).
fn may_access(role: Oid, access: &RelationAccess, roles: RolesInDatabase<'_>) -> bool {
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

impl SessionContext {
    /// The roles as this transaction sees them.
    pub fn roles(&mut self) -> Result<Arc<Roles>> {
        Ok(self.versioned_roles()?.1)
    }

    /// The roles as they were last read, or are now. None: they cannot be read.
    pub(crate) fn seen_roles(&self) -> Option<Arc<Roles>> {
        let snapshot = || Err(Error::internal("roles are asked about before the transaction's own are known"));
        let known = self.shared.roles.get(&self.cluster, snapshot).or_else(|_| self.cluster.roles());
        known.ok().map(|(_, roles)| roles)
    }

    /// A transaction that has changed roles reads them again after each change.
    pub(super) fn read_own_roles(&mut self) {
        self.shared.roles.forget_own();
        if self.shared.roles.is_changed.get() {
            // What cannot be read now is read when somebody asks, who is told.
            let _ = self.versioned_roles();
        }
    }

    fn versioned_roles(&mut self) -> Result<(u64, Arc<Roles>)> {
        let shared = self.shared.clone();
        let cluster = self.cluster.clone();
        shared.roles.get(&cluster, || self.catalog_snapshot())
    }

    /// Asks about roles as they are in the session's database.
    pub fn with_roles<R>(&mut self, ask: impl FnOnce(RolesInDatabase<'_>) -> R) -> Result<R> {
        let roles = self.roles()?;
        Ok(ask(roles.seen_from(self.database.oid)))
    }

    /// Whether the role in force has all that another one may do.
    pub fn has_privileges_of(&mut self, role: Oid) -> Result<bool> {
        let current = self.identity.current_role;
        self.with_roles(|roles| roles.has_privileges_of(current, role))
    }

    /// 42501 unless the role in force has the privileges wanted on an object. `what`: the object's kind and name in the
    /// message.
    pub fn require(&mut self, privileges: &Privileges, wanted: u64, what: (&str, &str)) -> Result<()> {
        let current = self.identity.current_role;
        if self.with_roles(|roles| privileges.has_all(current, wanted, roles))? {
            return Ok(());
        }
        Err(permission_denied(what.0, what.1))
    }

    /// 42501 unless the role in force has a privilege on a relation as a whole.
    pub fn require_on_table(&mut self, table: &Table, wanted: u64) -> Result<()> {
        self.require(&table.privileges(), wanted, (relation_word(table), &table.name))
    }

    /// 42501 unless the role in force has a privilege on the relation or on all of these columns of it.
    pub fn require_on_columns(&mut self, table: &Table, columns: &[i16], wanted: u64) -> Result<()> {
        let current = self.identity.current_role;
        let may = |roles: RolesInDatabase<'_>| {
            table.privileges().has_all(current, wanted, roles) || has_on_columns(current, table, columns, wanted, roles)
        };
        if self.with_roles(may)? { Ok(()) } else { Err(permission_denied(relation_word(table), &table.name)) }
    }

    /// 42501 unless the role in force is the owner, or has the owner's privileges.
    pub fn require_owner(&mut self, owner: Oid, what: (&str, &str)) -> Result<()> {
        if self.has_privileges_of(owner)? {
            return Ok(());
        }
        let (kind, name) = what;
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("must be owner of {kind} {name}")))
    }

    /// 42501 unless the role in force may do what the plan does.
    #[inline]
    pub fn check_access(&mut self, plan: &Plan) -> Result<()> {
        let role = self.identity.current_role;
        if plan.allowed.is(role, self.cluster.role_directory.version()) && !self.shared.roles.is_changed.get() {
            return Ok(());
        }
        self.check_access_anew(plan)
    }

    #[cold]
    fn check_access_anew(&mut self, plan: &Plan) -> Result<()> {
        let role = self.identity.current_role;
        // Views are not their user's: what one may read for its owner a superuser may not read through it, either.
        if role == kilndb_catalog::builtin::BOOTSTRAP_SUPERUSER
            && plan.access.relations.iter().all(|access| access.check_as.is_none_or(|owner| owner == role))
        {
            return Ok(());
        }
        let (version, roles) = self.versioned_roles()?;
        let seen = roles.seen_from(self.database.oid);
        for access in &plan.access.relations {
            if !may_access(access.check_as.unwrap_or(role), access, seen) {
                return Err(permission_denied(relation_word(&access.table), &access.table.name));
            }
        }
        for (name, schema) in &plan.access.schemas {
            if !schema.has_all(role, privilege::USAGE, seen) {
                return Err(permission_denied("schema", name));
            }
        }
        refuse_functions(&plan.access.functions, role, seen)?;
        if version != 0 {
            plan.allowed.note(role, version);
        }
        Ok(())
    }

    /// Whether the role in force may look into all the schemas that the plan's statement names.
    pub fn may_use_schemas(&mut self, plan: &Plan) -> bool {
        let role = self.identity.current_role;
        let may = |roles: RolesInDatabase<'_>| {
            plan.access.schemas.iter().all(|(_, schema)| schema.has_all(role, privilege::USAGE, roles))
        };
        plan.access.schemas.is_empty() || self.with_roles(may).unwrap_or(false)
    }

    /// 42501 unless the role in force may call all of these.
    pub fn check_functions(&mut self, functions: &[FunctionAccess]) -> Result<()> {
        if functions.is_empty() {
            return Ok(());
        }
        let role = self.identity.current_role;
        self.with_roles(|roles| refuse_functions(functions, role, roles))?
    }
}

/// 42501 unless a role may call all of these.
pub fn refuse_functions(functions: &[FunctionAccess], role: Oid, roles: RolesInDatabase<'_>) -> Result<()> {
    for function in functions {
        if !function.privileges.has_all(role, privilege::EXECUTE, roles) {
            return Err(permission_denied(routine_word(function.kind), &function.name));
        }
    }
    Ok(())
}
