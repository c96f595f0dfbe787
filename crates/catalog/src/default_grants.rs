//! The grants that a new object begins with, as ALTER DEFAULT PRIVILEGES has them in pg_default_acl.
//!
//! Invariants
//! 1. A role's row for all schemas takes the place of the kind's own defaults; its row for a schema is added to that.
//! 2. An object whose grants would be the kind's own defaults has no list.

use super::catalog_row::CatalogRow;
use super::ids::*;
use super::privileges::{SecuredKind, default_items, same_items};
use super::store::shape;
use kilndb_base::{Oid, Result};
use kilndb_types::Datum;
use kilndb_types::acl::AclItem;

/// A new row whose object has grants by default.
pub struct NewObject {
    /// The letter of pg_default_acl.
    pub letter: u8,
    pub kind: SecuredKind,
    pub owner: Oid,
    pub schema: Oid,
    /// The column of the row with the list of grants.
    pub grants: usize,
}

/// What a new row stands for, if it is something that default privileges are for and has no list of grants yet.
pub fn new_object(table: Oid, row: &[Datum]) -> Option<NewObject> {
    let (owner, schema, grants) = match table {
        PG_CLASS => ("relowner", "relnamespace", "relacl"),
        PG_PROC => ("proowner", "pronamespace", "proacl"),
        PG_TYPE => ("typowner", "typnamespace", "typacl"),
        PG_NAMESPACE => ("nspowner", "", "nspacl"),
        PG_LARGEOBJECT_METADATA => ("lomowner", "", "lomacl"),
        _ => return None,
    };
    let shape = shape(table).ok()?;
    let value = |name: &str| shape.table.column(name).and_then(|i| row.get(i));
    let oid = |name: &str| if let Some(Datum::Oid(oid)) = value(name) { *oid } else { 0 };
    let letter = |name: &str| if let Some(Datum::Char(c)) = value(name) { *c } else { 0 };
    let (letter, kind) = match table {
        PG_CLASS => match letter("relkind") {
            b'r' | b'v' | b'm' | b'p' | b'f' => (b'r', SecuredKind::Relation),
            b'S' => (b'S', SecuredKind::Sequence),
            _ => return None,
        },
        PG_PROC => (b'f', SecuredKind::Function),
        PG_NAMESPACE => (b'n', SecuredKind::Schema),
        PG_LARGEOBJECT_METADATA => (b'L', SecuredKind::LargeObject),
        // The types of rows and of arrays go with others.
        _ if letter("typcategory") == b'A' || matches!(letter("typtype"), b'c' | b'm') => return None,
        _ => (b'T', SecuredKind::Type),
    };
    let grants = shape.table.column(grants)?;
    row.get(grants)?.is_null().then(|| NewObject { letter, kind, owner: oid(owner), schema: oid(schema), grants })
}

impl NewObject {
    /// The list that the object begins with; None: it needs none. `lookup` finds rows of pg_default_acl by role, schema
    /// and letter.
    pub fn grants(
        &self,
        lookup: &mut dyn FnMut([Datum; 3]) -> Result<Vec<CatalogRow>>,
    ) -> Result<Option<Vec<AclItem>>> {
        let mut list = |schema: Oid| -> Result<Option<Vec<AclItem>>> {
            let rows = lookup([Datum::Oid(self.owner), Datum::Oid(schema), Datum::Char(self.letter)])?;
            Ok(rows.first().and_then(|row| row.grants("defaclacl")).map(|list| list.to_vec()))
        };
        let of_all = list(0)?;
        let of_schema = if self.schema == 0 { None } else { list(self.schema)? };
        if of_all.is_none() && of_schema.is_none() {
            return Ok(None);
        }
        let usual = default_items(self.kind, self.owner);
        let mut items = of_all.unwrap_or_else(|| usual.clone());
        for item in of_schema.into_iter().flatten() {
            match items.iter_mut().find(|known| (known.grantee, known.grantor) == (item.grantee, item.grantor)) {
                Some(known) => known.privileges |= item.privileges,
                None => items.push(item),
            }
        }
        items.sort_unstable();
        Ok((!same_items(&items, &usual)).then_some(items))
    }
}
