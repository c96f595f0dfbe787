//! Objects with owners and grants that a row of a system table stands for: where their names, owners and lists are.

use super::catalog_row::CatalogRow;
use super::ids::*;
use super::privileges::{Privileges, SecuredKind};
use kilndb_base::{Oid, SqlState, sqlstate};

/// A system table whose rows are objects that privileges are granted on.
pub struct SecuredTable {
    pub table: Oid,
    pub kind: SecuredKind,
    /// Its index by OID.
    pub by_oid: Oid,
    /// Its index by names that stand alone, 0 if objects are found otherwise.
    pub by_name: Oid,
    /// The SQLSTATE of an object that is not there.
    pub missing: SqlState,
    /// The columns.
    pub name: &'static str,
    pub owner: &'static str,
    pub grants: &'static str,
}

macro_rules! secured {
    ($name:ident, $table:ident, $kind:ident, ($by_oid:ident, $by_name:expr), $missing:ident, [$($column:literal),*]) => {
        pub static $name: SecuredTable = secured!(@ $table, $kind, ($by_oid, $by_name), $missing, $($column),*);
    };
    (@ $table:ident, $kind:ident, ($by_oid:ident, $by_name:expr), $missing:ident, $name:literal, $owner:literal, $grants:literal) => {
        SecuredTable {
            table: $table,
            kind: SecuredKind::$kind,
            by_oid: $by_oid,
            by_name: $by_name,
            missing: sqlstate::$missing,
            name: $name,
            owner: $owner,
            grants: $grants,
        }
    };
}

secured!(
    SCHEMAS,
    PG_NAMESPACE,
    Schema,
    (PG_NAMESPACE_OID_INDEX, PG_NAMESPACE_NSPNAME_INDEX),
    INVALID_SCHEMA_NAME,
    ["nspname", "nspowner", "nspacl"]
);
secured!(
    DATABASES,
    PG_DATABASE,
    Database,
    (PG_DATABASE_OID_INDEX, PG_DATABASE_DATNAME_INDEX),
    INVALID_CATALOG_NAME,
    ["datname", "datdba", "datacl"]
);
secured!(
    LANGUAGES,
    PG_LANGUAGE,
    Language,
    (PG_LANGUAGE_OID_INDEX, PG_LANGUAGE_NAME_INDEX),
    UNDEFINED_OBJECT,
    ["lanname", "lanowner", "lanacl"]
);
secured!(
    TABLESPACES,
    PG_TABLESPACE,
    Tablespace,
    (PG_TABLESPACE_OID_INDEX, PG_TABLESPACE_SPCNAME_INDEX),
    UNDEFINED_OBJECT,
    ["spcname", "spcowner", "spcacl"]
);
secured!(ROUTINES, PG_PROC, Function, (PG_PROC_OID_INDEX, 0), UNDEFINED_FUNCTION, ["proname", "proowner", "proacl"]);
secured!(TYPES, PG_TYPE, Type, (PG_TYPE_OID_INDEX, 0), UNDEFINED_OBJECT, ["typname", "typowner", "typacl"]);
// They have numbers for names.
secured!(
    LARGE_OBJECTS,
    PG_LARGEOBJECT_METADATA,
    LargeObject,
    (PG_LARGEOBJECT_METADATA_OID_INDEX, 0),
    UNDEFINED_OBJECT,
    ["oid", "lomowner", "lomacl"]
);

/// Those with rows for objects that are neither relations nor parameters.
pub static SECURED_TABLES: [&SecuredTable; 7] =
    [&SCHEMAS, &ROUTINES, &LANGUAGES, &TYPES, &TABLESPACES, &DATABASES, &LARGE_OBJECTS];

impl SecuredTable {
    /// What pg_shdepend, pg_description and others call the class of its objects.
    pub fn class(&self) -> Oid {
        super::shared_dependencies::class_of(self.table)
    }
    pub fn privileges(&self, row: &CatalogRow) -> Privileges {
        Privileges { kind: self.kind, owner: row.oid(self.owner), list: row.grants(self.grants) }
    }
}
