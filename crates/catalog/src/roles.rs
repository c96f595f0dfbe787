//! Roles and who is a member of which: what every question about privileges is asked of.
//!
//! Invariants
//! 1. A [`Roles`] is what pg_authid, pg_auth_members and pg_database said at one moment; it never changes. Whoever
//!    changes those tables has everybody read them again ([`RoleDirectory::forget`]).
//! 2. A role is a member of itself. The owner of a database is a member of pg_database_owner there, and of it alone is no
//!    row of pg_auth_members.
//! 3. Memberships never run in a circle, which GRANT sees to.

use super::catalog_row::CatalogRow;
use super::ids::*;
use super::store::CatalogStore;
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::sync::atomic::{AtomicU64, Ordering};
use kilndb_base::sync::{Arc, Mutex, PoisonError, RwLock};
use kilndb_base::{Oid, Result};
use kilndb_storage::Snapshot;

/// The roles that every cluster has: OID and name.
pub const PREDEFINED_ROLES: [(Oid, &str); 16] = [
    (PG_MONITOR, "pg_monitor"),
    (PG_READ_ALL_SETTINGS, "pg_read_all_settings"),
    (PG_READ_ALL_STATS, "pg_read_all_stats"),
    (3377, "pg_stat_scan_tables"),
    (PG_SIGNAL_BACKEND, "pg_signal_backend"),
    (PG_CHECKPOINT, "pg_checkpoint"),
    (PG_USE_RESERVED_CONNECTIONS, "pg_use_reserved_connections"),
    (PG_READ_SERVER_FILES, "pg_read_server_files"),
    (PG_WRITE_SERVER_FILES, "pg_write_server_files"),
    (PG_EXECUTE_SERVER_PROGRAM, "pg_execute_server_program"),
    (PG_DATABASE_OWNER, "pg_database_owner"),
    (PG_READ_ALL_DATA, "pg_read_all_data"),
    (PG_WRITE_ALL_DATA, "pg_write_all_data"),
    (6304, "pg_create_subscription"),
    (PG_MAINTAIN, "pg_maintain"),
    (6392, "pg_signal_autovacuum_worker"),
];

pub const PG_MONITOR: Oid = 3373;
pub const PG_READ_ALL_SETTINGS: Oid = 3374;
pub const PG_READ_ALL_STATS: Oid = 3375;
pub const PG_SIGNAL_BACKEND: Oid = 4200;
pub const PG_CHECKPOINT: Oid = 4544;
pub const PG_USE_RESERVED_CONNECTIONS: Oid = 4550;
pub const PG_READ_SERVER_FILES: Oid = 4569;
pub const PG_WRITE_SERVER_FILES: Oid = 4570;
pub const PG_EXECUTE_SERVER_PROGRAM: Oid = 4571;
pub const PG_DATABASE_OWNER: Oid = 6171;
pub const PG_READ_ALL_DATA: Oid = 6181;
pub const PG_WRITE_ALL_DATA: Oid = 6182;
pub const PG_MAINTAIN: Oid = 6337;

/// Memberships that every cluster begins with: OID of the row, role, member.
pub const PREDEFINED_MEMBERSHIPS: [(Oid, Oid, Oid); 3] =
    [(10308, PG_READ_ALL_SETTINGS, PG_MONITOR), (10309, PG_READ_ALL_STATS, PG_MONITOR), (10310, 3377, PG_MONITOR)];

/// A row of pg_authid.
#[derive(Clone, Debug)]
pub struct Role {
    pub oid: Oid,
    pub name: String,
    pub is_superuser: bool,
    pub inherits: bool,
    pub creates_roles: bool,
    pub creates_databases: bool,
    pub logs_in: bool,
    pub replicates: bool,
    pub bypasses_row_security: bool,
    /// -1: as many as there are.
    pub connection_limit: i32,
}

#[cfg(test)]
impl Role {
    /// One that inherits and logs in, and may do nothing else.
    pub fn plain(oid: Oid) -> Role {
        Role {
            oid,
            name: format!("r{oid}"),
            is_superuser: false,
            inherits: true,
            creates_roles: false,
            creates_databases: false,
            logs_in: true,
            replicates: false,
            bypasses_row_security: false,
            connection_limit: -1,
        }
    }
}

/// A row of pg_auth_members.
#[derive(Clone, Debug)]
pub struct Membership {
    pub oid: Oid,
    pub role: Oid,
    pub member: Oid,
    pub grantor: Oid,
    pub admin: bool,
    pub inherit: bool,
    pub set: bool,
}

/// Which memberships count on the way from a role to those that it is a member of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MembershipPath {
    /// Those that hand privileges down.
    Inherit,
    /// Those that SET ROLE may follow.
    Set,
    Any,
}

type Reached = Arc<[Oid]>;

/// All roles, as they were at a moment.
pub struct Roles {
    by_oid: HashMap<Oid, Role>,
    by_name: HashMap<String, Oid>,
    /// By member.
    memberships: HashMap<Oid, Vec<Membership>>,
    /// The owners of databases.
    owners: HashMap<Oid, Oid>,
    reached: Mutex<HashMap<(MembershipPath, Oid, Oid), Reached>>,
}

impl Roles {
    /// Reads the shared tables as the snapshot sees them.
    pub fn read(store: &CatalogStore, snapshot: &Snapshot) -> Result<Roles> {
        let roles: Vec<Role> = store.scan(PG_AUTHID, snapshot)?.iter().map(role_of_row).collect();
        let memberships = store.scan(PG_AUTH_MEMBERS, snapshot)?.iter().map(membership_of_row).collect();
        let owners = store.scan(PG_DATABASE, snapshot)?.iter().map(|row| (row.oid("oid"), row.oid("datdba"))).collect();
        Ok(Roles::new(roles, memberships, owners))
    }

    pub fn new(roles: Vec<Role>, memberships: Vec<Membership>, owners: Vec<(Oid, Oid)>) -> Roles {
        let mut by_member: HashMap<Oid, Vec<Membership>> = HashMap::new();
        for membership in memberships {
            by_member.entry(membership.member).or_default().push(membership);
        }
        by_member.values_mut().for_each(|list| list.sort_by_key(|m| (m.role, m.grantor)));
        Roles {
            by_name: roles.iter().map(|role| (role.name.clone(), role.oid)).collect(),
            by_oid: roles.into_iter().map(|role| (role.oid, role)).collect(),
            memberships: by_member,
            owners: owners.into_iter().collect(),
            reached: Mutex::new(HashMap::new()),
        }
    }

    pub fn role(&self, oid: Oid) -> Option<&Role> {
        self.by_oid.get(&oid)
    }
    pub fn named(&self, name: &str) -> Option<&Role> {
        self.role(*self.by_name.get(name)?)
    }
    /// The role's name, or what PostgreSQL shows of one that is gone.
    pub fn name(&self, oid: Oid) -> String {
        self.role(oid).map_or_else(|| format!("unknown (OID={oid})"), |role| role.name.clone())
    }
    pub fn is_superuser(&self, role: Oid) -> bool {
        self.role(role).is_some_and(|role| role.is_superuser)
    }
    pub fn memberships(&self) -> impl Iterator<Item = &Membership> {
        self.memberships.values().flatten()
    }
    pub fn memberships_of(&self, member: Oid) -> &[Membership] {
        self.memberships.get(&member).map_or(&[], Vec::as_slice)
    }
    pub fn database_owner(&self, database: Oid) -> Oid {
        self.owners.get(&database).copied().unwrap_or(0)
    }
    /// The roles as sessions of a database see them.
    pub fn seen_from(&self, database: Oid) -> RolesInDatabase<'_> {
        RolesInDatabase { roles: self, owner: self.database_owner(database) }
    }
}

/// The roles as they are in a database, whose owner has a membership more.
#[derive(Clone, Copy)]
pub struct RolesInDatabase<'r> {
    pub roles: &'r Roles,
    pub owner: Oid,
}

impl RolesInDatabase<'_> {
    /// The roles that `member` is a member of on such a path, itself first, then the nearest ones.
    pub fn reached(&self, path: MembershipPath, member: Oid) -> Reached {
        let key = (path, member, self.owner);
        if let Some(known) = self.lock().get(&key) {
            return known.clone();
        }
        let mut found = vec![member];
        let mut next = 0;
        while let Some(&role) = found.get(next) {
            next += 1;
            let follows = |m: &&Membership| match path {
                MembershipPath::Inherit => m.inherit,
                MembershipPath::Set => m.set,
                MembershipPath::Any => true,
            };
            for membership in self.roles.memberships_of(role).iter().filter(follows) {
                if !found.contains(&membership.role) {
                    found.push(membership.role);
                }
            }
            if role == self.owner && !found.contains(&PG_DATABASE_OWNER) {
                found.push(PG_DATABASE_OWNER);
            }
        }
        let reached: Reached = found.into();
        self.lock().insert(key, reached.clone());
        reached
    }

    fn lock(&self) -> kilndb_base::sync::MutexGuard<'_, HashMap<(MembershipPath, Oid, Oid), Reached>> {
        self.roles.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a role has all that another one may do, because it is that one, is a superuser or inherits from it.
    pub fn has_privileges_of(&self, member: Oid, role: Oid) -> bool {
        member == role
            || self.roles.is_superuser(member)
            || self.reached(MembershipPath::Inherit, member).contains(&role)
    }
    /// Whether no policy counts for a role, whatever the table.
    pub fn bypasses_row_security(&self, role: Oid) -> bool {
        self.roles.role(role).is_some_and(|r| r.is_superuser || r.bypasses_row_security)
    }
    /// Whether SET ROLE may go from one role to another.
    pub fn may_set(&self, member: Oid, role: Oid) -> bool {
        member == role || self.roles.is_superuser(member) || self.reached(MembershipPath::Set, member).contains(&role)
    }
    pub fn is_member(&self, member: Oid, role: Oid) -> bool {
        self.roles.is_superuser(member) || self.is_member_by_row(member, role)
    }
    /// Membership that a superuser does not have by itself.
    pub fn is_member_by_row(&self, member: Oid, role: Oid) -> bool {
        member == role || self.reached(MembershipPath::Any, member).contains(&role)
    }
    /// Whether a role may grant another one and alter it.
    pub fn is_admin(&self, member: Oid, role: Oid) -> bool {
        self.roles.is_superuser(member)
            || (member != role && self.administrator(MembershipPath::Any, member, role).is_some())
    }
    /// The nearest role with the ADMIN option on `role` among those that `member` reaches.
    pub fn administrator(&self, path: MembershipPath, member: Oid, role: Oid) -> Option<Oid> {
        let reached = self.reached(path, member);
        let has_option = |of: &&Oid| self.roles.memberships_of(**of).iter().any(|m| m.role == role && m.admin);
        reached.iter().find(has_option).copied()
    }
}

pub fn role_of_row(row: &CatalogRow) -> Role {
    Role {
        oid: row.oid("oid"),
        name: row.text("rolname").unwrap_or("").to_string(),
        is_superuser: row.bool("rolsuper"),
        inherits: row.bool("rolinherit"),
        creates_roles: row.bool("rolcreaterole"),
        creates_databases: row.bool("rolcreatedb"),
        logs_in: row.bool("rolcanlogin"),
        replicates: row.bool("rolreplication"),
        bypasses_row_security: row.bool("rolbypassrls"),
        connection_limit: row.int("rolconnlimit") as i32,
    }
}

fn membership_of_row(row: &CatalogRow) -> Membership {
    Membership {
        oid: row.oid("oid"),
        role: row.oid("roleid"),
        member: row.oid("member"),
        grantor: row.oid("grantor"),
        admin: row.bool("admin_option"),
        inherit: row.bool("inherit_option"),
        set: row.bool("set_option"),
    }
}

/// The roles that all sessions share, read again when they have changed.
#[derive(Default)]
pub struct RoleDirectory {
    /// Moves when a change of roles has been committed.
    version: AtomicU64,
    known: RwLock<Option<(u64, Arc<Roles>)>>,
}

impl RoleDirectory {
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    /// Roles have changed, and whoever reads them from now on sees it.
    pub fn forget(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }
    /// The roles with the version that they are of. `read` reads them as they are now.
    pub fn roles(&self, read: impl FnOnce() -> Result<Roles>) -> Result<(u64, Arc<Roles>)> {
        let now = self.version();
        if let Some((version, roles)) = &*self.known.read().unwrap_or_else(PoisonError::into_inner)
            && *version == now
        {
            return Ok((now, roles.clone()));
        }
        let fresh = Arc::new(read()?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(version, _)| *version < now) {
            *known = Some((now, fresh.clone()));
        }
        Ok((now, fresh))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(oid: Oid, is_superuser: bool) -> Role {
        Role { is_superuser, ..Role::plain(oid) }
    }

    fn member(member: Oid, role: Oid, [admin, inherit, set]: [bool; 3]) -> Membership {
        Membership { oid: member * 100 + role, role, member, grantor: 10, admin, inherit, set }
    }

    #[test]
    fn paths_follow_their_options_alone() {
        let rows = vec![
            member(2, 1, [true, false, true]),
            member(3, 2, [false, true, false]),
            member(4, 3, [false, true, true]),
        ];
        let roles =
            Roles::new((1..=4).map(|oid| role(oid, oid == 9)).chain([role(9, true)]).collect(), rows, vec![(5, 4)]);
        let seen = roles.seen_from(5);
        assert!(seen.has_privileges_of(4, 2) && !seen.has_privileges_of(4, 1));
        assert!(seen.may_set(4, 3) && !seen.may_set(4, 2) && seen.may_set(2, 1));
        assert!(seen.is_member(4, 1) && !seen.is_member(1, 4));
        assert!(seen.is_admin(2, 1) && seen.is_admin(4, 1) && !seen.is_admin(1, 1) && !seen.is_admin(2, 3));
        assert_eq!(seen.administrator(MembershipPath::Inherit, 4, 1), Some(2));
        assert!(seen.is_member(9, 1) && !seen.is_member_by_row(9, 1));
        assert!(seen.has_privileges_of(4, PG_DATABASE_OWNER) && !seen.has_privileges_of(3, PG_DATABASE_OWNER));
        assert!(!roles.seen_from(6).has_privileges_of(4, PG_DATABASE_OWNER));
    }

    #[test]
    fn a_directory_is_read_again_after_a_change() {
        let directory = RoleDirectory::default();
        let read = |oid| move || Ok(Roles::new(vec![role(oid, false)], Vec::new(), Vec::new()));
        assert!(directory.roles(read(1)).unwrap().1.role(1).is_some());
        assert!(directory.roles(read(2)).unwrap().1.role(1).is_some());
        directory.forget();
        assert!(directory.roles(read(2)).unwrap().1.role(2).is_some());
    }
}
