//! Privileges on objects: who may do what by an object's list of grants, and how GRANT and REVOKE change the list.
//!
//! Invariants
//! 1. An object without a list has the default one of its kind ([`Privileges::items`]). One with a list has what the
//!    list says, and no more: whoever has taken the owner's own privileges from it has taken them.
//! 2. The owner, and whoever has the owner's privileges, may grant whatever the list says.
//! 3. A grant option comes from the owner over other grant options, never in a circle; who loses one loses what it was
//!    given on for (PostgreSQL's chapter "Privileges").
//!
//! Must not know: sessions, statements. It asks the roles as they are.

use super::roles::{MembershipPath, PG_MAINTAIN, PG_READ_ALL_DATA, PG_WRITE_ALL_DATA, RolesInDatabase};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::acl::{AclItem, default_privileges};
use std::sync::Arc;

/// The bits of privileges.
pub mod privilege {
    pub const INSERT: u64 = 1;
    pub const SELECT: u64 = 1 << 1;
    pub const UPDATE: u64 = 1 << 2;
    pub const DELETE: u64 = 1 << 3;
    pub const TRUNCATE: u64 = 1 << 4;
    pub const REFERENCES: u64 = 1 << 5;
    pub const TRIGGER: u64 = 1 << 6;
    pub const EXECUTE: u64 = 1 << 7;
    pub const USAGE: u64 = 1 << 8;
    pub const CREATE: u64 = 1 << 9;
    pub const TEMPORARY: u64 = 1 << 10;
    pub const CONNECT: u64 = 1 << 11;
    pub const SET: u64 = 1 << 12;
    pub const ALTER_SYSTEM: u64 = 1 << 13;
    pub const MAINTAIN: u64 = 1 << 14;
    /// Privileges that columns may have.
    pub const OF_COLUMNS: u64 = INSERT | SELECT | UPDATE | REFERENCES;
}
use privilege::*;

/// The options to grant these privileges.
pub const fn grant_options(privileges: u64) -> u64 {
    privileges << 32
}
/// The privileges that these options are for.
pub const fn granted_on(options: u64) -> u64 {
    options >> 32
}
const PRIVILEGES: u64 = 0xffff_ffff;

/// PUBLIC, as a grantee.
pub const PUBLIC_ROLE: Oid = 0;

/// Kinds of objects that privileges are granted on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecuredKind {
    Column,
    Relation,
    Sequence,
    Database,
    Function,
    Language,
    LargeObject,
    Schema,
    Parameter,
    Tablespace,
    Type,
}

impl SecuredKind {
    /// PostgreSQL's letter for it, as `acldefault` takes it.
    pub fn letter(self) -> u8 {
        match self {
            SecuredKind::Column => b'c',
            SecuredKind::Relation => b'r',
            SecuredKind::Sequence => b's',
            SecuredKind::Database => b'd',
            SecuredKind::Function => b'f',
            SecuredKind::Language => b'l',
            SecuredKind::LargeObject => b'L',
            SecuredKind::Schema => b'n',
            SecuredKind::Parameter => b'p',
            SecuredKind::Tablespace => b't',
            SecuredKind::Type => b'T',
        }
    }
    /// All privileges that there are on such an object.
    pub fn all(self) -> u64 {
        match self {
            SecuredKind::Column => OF_COLUMNS,
            _ => default_privileges(self.letter()).map_or(0, |(_, owner)| owner),
        }
    }
    /// The kind in messages: "invalid privilege type … for …".
    pub fn word(self) -> &'static str {
        match self {
            SecuredKind::Column => "column",
            SecuredKind::Relation => "relation",
            SecuredKind::Sequence => "sequence",
            SecuredKind::Database => "database",
            SecuredKind::Function => "function",
            SecuredKind::Language => "language",
            SecuredKind::LargeObject => "large object",
            SecuredKind::Schema => "schema",
            SecuredKind::Parameter => "parameter",
            SecuredKind::Tablespace => "tablespace",
            SecuredKind::Type => "type",
        }
    }
}

/// An object's owner and list of grants; no list: nobody has granted or revoked anything.
#[derive(Clone, Debug)]
pub struct Privileges {
    pub kind: SecuredKind,
    pub owner: Oid,
    pub list: Option<Arc<[AclItem]>>,
}

impl Privileges {
    /// The list, or the one that objects of the kind begin with.
    pub fn items(&self) -> Vec<AclItem> {
        match &self.list {
            Some(list) => list.to_vec(),
            None => default_items(self.kind, self.owner),
        }
    }

    /// Those of the privileges wanted, grant options among them, that a role has by the list.
    pub fn listed(&self, role: Oid, wanted: u64, roles: RolesInDatabase<'_>) -> u64 {
        match &self.list {
            Some(list) => mask(list, role, self.owner, wanted, roles),
            None => mask(&default_items(self.kind, self.owner), role, self.owner, wanted, roles),
        }
    }

    /// Those of the privileges wanted that a role has: by the list, as a superuser, or by one of the predefined roles.
    pub fn held(&self, role: Oid, wanted: u64, roles: RolesInDatabase<'_>) -> u64 {
        if roles.roles.is_superuser(role) {
            return wanted;
        }
        let mut held = self.listed(role, wanted, roles);
        for (predefined, privileges) in predefined_privileges(self.kind) {
            // As in PostgreSQL, who has one of them by the list has the others only by it.
            if wanted & privileges != 0 && held & privileges == 0 && roles.has_privileges_of(role, *predefined) {
                held |= wanted & privileges;
            }
        }
        held
    }

    pub fn has_all(&self, role: Oid, wanted: u64, roles: RolesInDatabase<'_>) -> bool {
        self.held(role, wanted, roles) == wanted
    }
    pub fn has_any(&self, role: Oid, wanted: u64, roles: RolesInDatabase<'_>) -> bool {
        self.held(role, wanted, roles) != 0
    }

    /// Who is written down as the grantor of a grant that `role` makes, and the grant options that it has.
    pub fn best_grantor(&self, role: Oid, wanted: u64, roles: RolesInDatabase<'_>) -> (Oid, u64) {
        let needed = grant_options(wanted);
        if role == self.owner || roles.roles.is_superuser(role) {
            return (self.owner, needed);
        }
        let items = self.items();
        let (mut best, mut most) = ((role, 0), 0);
        for candidate in roles.reached(MembershipPath::Inherit, role).iter() {
            let own = direct_mask(&items, *candidate, needed, self.owner);
            if own == needed {
                return (*candidate, own);
            }
            if own.count_ones() > most {
                (best, most) = ((*candidate, own), own.count_ones());
            }
        }
        best
    }
}

/// What members of predefined roles may do with all objects of a kind.
fn predefined_privileges(kind: SecuredKind) -> &'static [(Oid, u64)] {
    match kind {
        SecuredKind::Relation => {
            &[(PG_READ_ALL_DATA, SELECT), (PG_WRITE_ALL_DATA, INSERT | UPDATE | DELETE), (PG_MAINTAIN, MAINTAIN)]
        }
        SecuredKind::Sequence => &[(PG_READ_ALL_DATA, SELECT), (PG_WRITE_ALL_DATA, UPDATE)],
        SecuredKind::Schema => &[(PG_READ_ALL_DATA, USAGE), (PG_WRITE_ALL_DATA, USAGE)],
        _ => &[],
    }
}

/// The list that objects of a kind begin with.
pub fn default_items(kind: SecuredKind, owner: Oid) -> Vec<AclItem> {
    let (public, own) = default_privileges(kind.letter()).unwrap_or((0, 0));
    let given = [(PUBLIC_ROLE, public), (owner, own)];
    let item = |(grantee, privileges)| AclItem { grantee, grantor: owner, privileges };
    given.into_iter().filter(|(_, privileges)| *privileges != 0).map(item).collect()
}

/// Those of the privileges wanted that a role has by a list. The owner's grant options are not in it.
fn mask(items: &[AclItem], role: Oid, owner: Oid, wanted: u64, roles: RolesInDatabase<'_>) -> u64 {
    let mut held = 0;
    if wanted & !PRIVILEGES != 0 && roles.has_privileges_of(role, owner) {
        held = wanted & !PRIVILEGES;
    }
    // What is granted to all and to the role itself needs no question about memberships.
    for item in items.iter().filter(|item| item.grantee == PUBLIC_ROLE || item.grantee == role) {
        held |= item.privileges & wanted;
    }
    for item in items {
        if item.privileges & wanted & !held != 0 && roles.has_privileges_of(role, item.grantee) {
            held |= item.privileges & wanted;
        }
    }
    held
}

/// As [`mask`], without what the role has as a member of others.
fn direct_mask(items: &[AclItem], role: Oid, wanted: u64, owner: Oid) -> u64 {
    let own = if role == owner { wanted & !PRIVILEGES } else { 0 };
    let granted = items.iter().filter(|item| item.grantee == role);
    granted.fold(own, |held, item| held | (item.privileges & wanted))
}

/// What GRANT or REVOKE does to a list.
#[derive(Clone, Copy)]
pub struct GrantChange<'a> {
    pub is_grant: bool,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    pub option: bool,
    /// Of REVOKE: what depends on it goes, too.
    pub cascades: bool,
    pub grantees: &'a [Oid],
    pub privileges: u64,
    pub grantor: Oid,
}

/// The list after a GRANT or REVOKE. 0LP01: an option to PUBLIC or in a circle; 2BP01: others depend on what is revoked.
pub fn changed_items(
    items: &[AclItem],
    change: &GrantChange<'_>,
    owner: Oid,
    roles: RolesInDatabase<'_>,
) -> Result<Vec<AclItem>> {
    let mut items = items.to_vec();
    for grantee in change.grantees {
        if change.is_grant && change.option && *grantee == PUBLIC_ROLE {
            return Err(Error::new(sqlstate::INVALID_GRANT_OPERATION, "grant options can only be granted to roles"));
        }
        let plain = if change.is_grant || !change.option { change.privileges } else { 0 };
        let options = if !change.is_grant || change.option { change.privileges } else { 0 };
        let item = AclItem { grantee: *grantee, grantor: change.grantor, privileges: plain | grant_options(options) };
        let list = GrantList { owner, cascades: change.cascades, roles };
        items = if change.is_grant { list.with(items, item)? } else { list.without(items, item)? };
    }
    Ok(items)
}

/// What a change of a list of grants must know besides the list.
#[derive(Clone, Copy)]
struct GrantList<'r> {
    owner: Oid,
    cascades: bool,
    roles: RolesInDatabase<'r>,
}

impl GrantList<'_> {
    fn with(self, mut items: Vec<AclItem>, item: AclItem) -> Result<Vec<AclItem>> {
        if granted_on(item.privileges) != 0 {
            self.refuse_circle(&items, &item)?;
        }
        match items.iter_mut().find(|known| (known.grantee, known.grantor) == (item.grantee, item.grantor)) {
            Some(known) => known.privileges |= item.privileges,
            None => items.push(item),
        }
        items.retain(|item| item.privileges != 0);
        Ok(items)
    }

    fn without(self, mut items: Vec<AclItem>, item: AclItem) -> Result<Vec<AclItem>> {
        kilndb_base::stack::check()?;
        let found = items.iter_mut().find(|known| (known.grantee, known.grantor) == (item.grantee, item.grantor));
        let Some(known) = found else { return Ok(items) };
        let before = known.privileges;
        known.privileges &= !item.privileges;
        let lost = granted_on(before & !known.privileges);
        items.retain(|item| item.privileges != 0);
        if lost == 0 { Ok(items) } else { self.revoke_dependent(items, item.grantee, lost) }
    }

    /// Takes back what a role has granted by options that it has lost.
    fn revoke_dependent(self, mut items: Vec<AclItem>, role: Oid, lost: u64) -> Result<Vec<AclItem>> {
        // An owner never really loses them.
        if role == self.owner {
            return Ok(items);
        }
        let kept = mask(&items, role, self.owner, grant_options(lost), self.roles);
        let lost = lost & !granted_on(kept);
        while let Some(item) = items.iter().find(|item| item.grantor == role && item.privileges & lost != 0) {
            if !self.cascades {
                return Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, "dependent privileges exist")
                    .with_hint("Use CASCADE to revoke them too."));
            }
            let gone = AclItem { privileges: lost | grant_options(lost), ..*item };
            items = self.without(items, gone)?;
        }
        Ok(items)
    }

    /// An option is not to come from somebody who would not have it but for whom it is given to.
    fn refuse_circle(self, items: &[AclItem], item: &AclItem) -> Result<()> {
        if item.grantor == self.owner {
            return Ok(());
        }
        let all = GrantList { cascades: true, ..self };
        let mut left = items.to_vec();
        let has_options = |known: &&AclItem| known.grantee == item.grantee && granted_on(known.privileges) != 0;
        while let Some(known) = left.iter().find(has_options).copied() {
            left = all.without(left, known)?;
        }
        let options = item.privileges & !PRIVILEGES;
        if options & !mask(&left, item.grantor, self.owner, options, self.roles) != 0 {
            let message = "grant options cannot be granted back to your own grantor";
            return Err(Error::new(sqlstate::INVALID_GRANT_OPERATION, message));
        }
        Ok(())
    }
}

/// The list of an object that another role owns from now on: grants of and to the former owner are the new one's.
pub fn items_of_new_owner(items: &[AclItem], old: Oid, new: Oid) -> Vec<AclItem> {
    let of_new = |role: Oid| if role == old { new } else { role };
    let mut changed: Vec<AclItem> = Vec::with_capacity(items.len());
    for item in items {
        let item = AclItem { grantee: of_new(item.grantee), grantor: of_new(item.grantor), ..*item };
        match changed.iter_mut().find(|known| (known.grantee, known.grantor) == (item.grantee, item.grantor)) {
            Some(known) => known.privileges |= item.privileges,
            None => changed.push(item),
        }
    }
    changed
}

/// The roles that a list names, in order.
pub fn roles_of_items(items: &[AclItem]) -> Vec<Oid> {
    let mut roles: Vec<Oid> =
        items.iter().flat_map(|item| [item.grantee, item.grantor]).filter(|oid| *oid != 0).collect();
    roles.sort_unstable();
    roles.dedup();
    roles
}

/// Two lists with the same grants, whatever their order.
pub fn same_items(a: &[AclItem], b: &[AclItem]) -> bool {
    let sorted = |items: &[AclItem]| {
        let mut items = items.to_vec();
        items.sort_unstable();
        items
    };
    sorted(a) == sorted(b)
}

#[cfg(test)]
mod tests {
    use super::super::roles::{Role, Roles};
    use super::*;

    const OWNER: Oid = 1;

    fn roles() -> Roles {
        Roles::new((1..=4).map(Role::plain).collect(), Vec::new(), Vec::new())
    }

    fn change(is_grant: bool, option: bool, cascades: bool, from: Oid, to: &[Oid]) -> GrantChange<'_> {
        GrantChange { is_grant, option, cascades, grantees: to, privileges: SELECT, grantor: from }
    }

    #[test]
    fn options_are_taken_back_along_their_chain() {
        let roles = roles();
        let seen = roles.seen_from(0);
        let apply = |items: &[AclItem], c: GrantChange<'_>| changed_items(items, &c, OWNER, seen);
        let mut items = default_items(SecuredKind::Relation, OWNER);
        items = apply(&items, change(true, true, false, OWNER, &[2])).unwrap();
        items = apply(&items, change(true, true, false, 2, &[3])).unwrap();
        items = apply(&items, change(true, false, false, 3, &[4, PUBLIC_ROLE])).unwrap();
        let kind = SecuredKind::Relation;
        let held = |items: &[AclItem], role| {
            let of = Privileges { kind, owner: OWNER, list: Some(items.into()) };
            of.has_all(role, SELECT, seen)
        };
        assert!(held(&items, 4) && !held(&default_items(kind, OWNER), 4));
        let refused = apply(&items, change(false, false, false, OWNER, &[2])).unwrap_err();
        assert_eq!(refused.message(), "dependent privileges exist");
        let circle = apply(&items, change(true, true, false, 3, &[2])).unwrap_err();
        assert_eq!(circle.sqlstate(), sqlstate::INVALID_GRANT_OPERATION);
        let public = apply(&items, change(true, true, false, OWNER, &[PUBLIC_ROLE])).unwrap_err();
        assert_eq!(public.message(), "grant options can only be granted to roles");
        let left = apply(&items, change(false, false, true, OWNER, &[2])).unwrap();
        assert!(same_items(&left, &default_items(kind, OWNER)), "{left:?}");
        let without_option = apply(&items, change(false, true, true, OWNER, &[2])).unwrap();
        assert!(held(&without_option, 2) && !held(&without_option, 3));
    }

    #[test]
    fn a_new_owner_takes_over_grants() {
        let items = [
            AclItem { grantee: 1, grantor: 1, privileges: SELECT | INSERT },
            AclItem { grantee: 2, grantor: 1, privileges: UPDATE },
        ];
        let changed = items_of_new_owner(&items, 1, 2);
        assert_eq!(changed, [AclItem { grantee: 2, grantor: 2, privileges: SELECT | INSERT | UPDATE }]);
        assert_eq!(roles_of_items(&items), [1, 2]);
    }
}
