//! What the role in force may do: checked when a statement runs, by the privileges as they are then.
//!
//! Invariants
//! 1. A plan that others may have made runs only after [`SessionContext::check_access`], which costs two comparisons if
//!    the same role was found to be allowed it last, by the same roles. A plan goes when the grants on what it uses
//!    change, so that it need not be asked about again.

use super::SessionContext;
use crate::client::Runtime;
use crate::privileges::{has_on_columns, may_access, not_owner, permission_denied, refuse_functions, relation_word};
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::access::{RelationAccess, StatementAccess, restricted_functions};
use kilndb_catalog::privileges::{Privileges, privilege};
use kilndb_catalog::roles::{Roles, RolesInDatabase};
use kilndb_catalog::secured_objects::LANGUAGES;
use kilndb_catalog::{Table, TableKind};
use kilndb_plan::Plan;
use kilndb_types::Datum;

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

    /// Whether row security counts for the role in force; 42501 if it does and the session wants to be told.
    pub fn row_security_counts(&mut self, table: &Table) -> Result<bool> {
        if table.row_security.is_none() {
            return Ok(false);
        }
        let (role, is_applied) = (self.identity.current_role, self.settings.row_security);
        self.with_roles(|roles| table.row_security_counts(role, roles, is_applied))?
    }

    /// 42501 unless the role in force may write code in a language.
    pub fn require_language(&mut self, name: &str) -> Result<()> {
        if self.is_superuser() {
            return Ok(());
        }
        let row = self.catalog_lookup(LANGUAGES.table, LANGUAGES.by_name, &[Datum::text(name)])?.pop();
        match row {
            Some(row) if !row.bool("lanpltrusted") => Err(permission_denied("language", name)),
            Some(row) => self.require(&LANGUAGES.privileges(&row), privilege::USAGE, ("language", name)),
            None => Ok(()),
        }
    }

    /// 42501 unless the role in force is the owner, or has the owner's privileges.
    pub fn require_owner(&mut self, owner: Oid, what: (&str, &str)) -> Result<()> {
        if self.has_privileges_of(owner)? {
            return Ok(());
        }
        Err(not_owner(what.0, what.1))
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
            return refuse_locks(&plan.access);
        }
        let (version, roles) = self.versioned_roles()?;
        let seen = roles.seen_from(self.database.oid);
        // Views come first; what is behind them is planned when their users have been asked about.
        let first_table = plan.access.relations.iter().position(|access| access.table.kind != TableKind::View);
        let (views, tables) = plan.access.relations.split_at(first_table.unwrap_or(plan.access.relations.len()));
        let require = |access: &RelationAccess| match may_access(access.check_as.unwrap_or(role), access, seen) {
            true => Ok(()),
            false => Err(permission_denied(relation_word(&access.table), &access.table.name)),
        };
        views.iter().try_for_each(require)?;
        plan.access.unlockable.clone().map_or(Ok(()), Err)?;
        tables.iter().try_for_each(require)?;
        refuse_locks(&plan.access)?;
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

    /// 42501 unless the role in force may call a routine. `shown`: its name in the message, if it is not the
    /// plain one.
    pub fn require_call(&mut self, routine: Oid, shown: Option<&str>, runtime: &dyn Runtime) -> Result<()> {
        let mut restricted = self.with_catalog(runtime, |host| restricted_functions(&[routine], &host.reader))?;
        if restricted.is_empty() {
            return Ok(());
        }
        if let Some(shown) = shown {
            restricted.iter_mut().for_each(|function| function.name = shown.to_string());
        }
        let role = self.identity.current_role;
        self.with_roles(|roles| refuse_functions(&restricted, role, roles))?
    }
}

/// 42809 if the statement locks rows that nobody but a REFRESH may change, or a sequence's. Whoever may not read them is
/// told that first.
fn refuse_locks(access: &StatementAccess) -> Result<()> {
    access.unlockable.clone().map_or(Ok(()), Err)?;
    let mut locked = access.relations.iter().filter(|access| access.required & privilege::UPDATE != 0);
    let is_unlockable = |table: &Table| matches!(table.kind, TableKind::Materialized | TableKind::Sequence);
    let Some(found) = locked.find(|access| is_unlockable(&access.table)) else { return Ok(()) };
    let message = format!("cannot lock rows in {} \"{}\"", relation_word(&found.table), found.table.name);
    Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message))
}
