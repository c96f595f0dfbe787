//! pg_shdepend: which roles the objects of all databases need. Whoever writes a row of a system table with an owner or a
//! list of grants writes it, so that no command need think of it.
//!
//! Invariants
//! 1. An object has one row for its owner, and one for each other role that its list of grants names; none for the role
//!    that every cluster has from its beginning, nor for PUBLIC.
//!    A column has none for its relation's owner, which is not in the column's row: the writer leaves that one out.
//! 2. What goes with another object (an index, a row type, an array type) has no owner of its own here.
//!
//! Must not know: what the objects are, beyond which columns name roles.

use super::builtin::FIRST_USER_OID;
use super::ids::*;
use super::store::shape;
use kilndb_base::Oid;
use kilndb_types::Datum;

pub const OWNER: u8 = b'o';
pub const GRANTED: u8 = b'a';
pub const INITIALLY_GRANTED: u8 = b'i';
pub const POLICY: u8 = b'r';

/// A system table whose rows name roles.
pub struct OwnedTable {
    pub table: Oid,
    pub owner: Option<&'static str>,
    pub grants: Option<&'static str>,
    /// The databases share it.
    pub is_shared: bool,
}

const fn owned(table: Oid, owner: &'static str, grants: Option<&'static str>) -> OwnedTable {
    OwnedTable { table, owner: Some(owner), grants, is_shared: false }
}

pub const OWNED_TABLES: [OwnedTable; 21] = [
    owned(PG_CLASS, "relowner", Some("relacl")),
    OwnedTable { table: PG_ATTRIBUTE, owner: None, grants: Some("attacl"), is_shared: false },
    owned(PG_TYPE, "typowner", Some("typacl")),
    owned(PG_PROC, "proowner", Some("proacl")),
    owned(PG_NAMESPACE, "nspowner", Some("nspacl")),
    owned(PG_LANGUAGE, "lanowner", Some("lanacl")),
    owned(PG_OPERATOR, "oprowner", None),
    owned(PG_OPCLASS, "opcowner", None),
    owned(PG_OPFAMILY, "opfowner", None),
    owned(PG_EXTENSION, "extowner", None),
    owned(PG_STATISTIC_EXT, "stxowner", None),
    owned(PG_COLLATION, "collowner", None),
    owned(PG_TS_CONFIG, "cfgowner", None),
    owned(PG_TS_DICT, "dictowner", None),
    owned(PG_DEFAULT_ACL, "defaclrole", Some("defaclacl")),
    owned(PG_LARGEOBJECT_METADATA, "lomowner", Some("lomacl")),
    OwnedTable { table: PG_POLICY, owner: None, grants: None, is_shared: false },
    OwnedTable { is_shared: true, ..owned(PG_DATABASE, "datdba", Some("datacl")) },
    OwnedTable { is_shared: true, ..owned(PG_TABLESPACE, "spcowner", Some("spcacl")) },
    OwnedTable { table: PG_PARAMETER_ACL, owner: None, grants: Some("paracl"), is_shared: true },
    OwnedTable { table: PG_AUTH_MEMBERS, owner: None, grants: None, is_shared: true },
];

pub fn owned_table(table: Oid) -> Option<&'static OwnedTable> {
    OWNED_TABLES.iter().find(|owned| owned.table == table)
}

/// The class of the objects that the rows of a system table stand for. Large objects are known by the table of their
/// bytes.
pub fn class_of(table: Oid) -> Oid {
    if table == PG_LARGEOBJECT_METADATA { PG_LARGEOBJECT } else { table }
}

/// The system table whose rows stand for the objects of a class.
pub fn table_of_class(class: Oid) -> Oid {
    if class == PG_LARGEOBJECT { PG_LARGEOBJECT_METADATA } else { class }
}

/// A row's object and part of it, and the roles that it needs with how it needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeededRoles {
    pub class: Oid,
    pub object: Oid,
    pub part: i32,
    pub roles: Vec<(Oid, u8)>,
}

/// The roles that a row needs; None: rows of the table need none.
pub fn needed_roles(table: Oid, row: &[Datum]) -> Option<NeededRoles> {
    let owned = owned_table(table)?;
    let shape = shape(table).ok()?;
    let value = |name: &str| shape.table.column(name).and_then(|i| row.get(i));
    let oid = |name: &str| if let Some(Datum::Oid(oid)) = value(name) { *oid } else { 0 };
    let letter = |name: &str| if let Some(Datum::Char(c)) = value(name) { *c } else { 0 };
    let (class, object, part) = match table {
        PG_ATTRIBUTE => {
            let attnum = if let Some(Datum::Int2(n)) = value("attnum") { i32::from(*n) } else { 0 };
            (PG_CLASS, oid("attrelid"), attnum)
        }
        // A composite type is known as a type.
        PG_CLASS if letter("relkind") == b'c' => (PG_TYPE, oid("reltype"), 0),
        _ => (class_of(table), oid("oid"), 0),
    };
    let has_owner = match table {
        PG_CLASS => !matches!(letter("relkind"), b'i' | b'I' | b't'),
        // Array types, multiranges and types of rows go with others.
        PG_TYPE => letter("typcategory") != b'A' && !matches!(letter("typtype"), b'm' | b'c'),
        _ => true,
    };
    let mut needed = NeededRoles { class, object, part, roles: Vec::new() };
    let owner = owned.owner.map(&oid).unwrap_or(0);
    let is_named = |role: Oid| role >= FIRST_USER_OID;
    if has_owner && is_named(owner) {
        needed.roles.push((owner, OWNER));
    }
    if table == PG_AUTH_MEMBERS {
        needed.roles.extend([oid("grantor")].into_iter().filter(|role| is_named(*role)).map(|role| (role, GRANTED)));
    }
    if let (PG_POLICY, Some(Datum::Array(list))) = (table, value("polroles")) {
        for element in &list.elements {
            if let Datum::Oid(role) = element
                && is_named(*role)
                && !needed.roles.contains(&(*role, POLICY))
            {
                needed.roles.push((*role, POLICY));
            }
        }
    }
    if let Some(Datum::Array(list)) = owned.grants.and_then(value) {
        for element in &list.elements {
            let Datum::AclItem(item) = element else { continue };
            for role in [item.grantee, item.grantor] {
                if is_named(role) && role != owner && !needed.roles.iter().any(|(known, _)| *known == role) {
                    needed.roles.push((role, GRANTED));
                }
            }
        }
    }
    Some(needed)
}
