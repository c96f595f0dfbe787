//! What value code asks of types that users have made: enums' labels, what is under domains.

use super::builtin::FIRST_USER_OID;
use super::model::CatalogView;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::Datum;

/// The value of an enum's label.
pub fn enum_value(catalog: &dyn CatalogView, type_oid: Oid, label: &str) -> Option<Result<Datum>> {
    let info = catalog.type_by_oid(type_oid).ok().flatten().filter(|t| t.kind == b'e')?;
    Some(match info.labels.iter().find(|l| l.label == label) {
        Some(found) => Ok(found.value()),
        None => {
            let shown = catalog.format_type(type_oid, -1);
            Err(Error::new(
                sqlstate::INVALID_TEXT_REPRESENTATION,
                format!("invalid input value for enum {shown}: \"{label}\""),
            ))
        }
    })
}

/// The label of an enum's value.
pub fn enum_label(catalog: &dyn CatalogView, type_oid: Oid, value: u64) -> Option<String> {
    let mut info = catalog.type_by_oid(type_oid).ok().flatten()?;
    while info.kind == b'd' {
        info = catalog.type_by_oid(info.base_type).ok().flatten()?;
    }
    (info.kind == b'e')
        .then(|| info.label(value).map_or_else(|| (value & 0xffff_ffff).to_string(), |l| l.label.clone()))
}

/// The type right under a domain.
pub fn under_domain(catalog: &dyn CatalogView, type_oid: Oid) -> Option<(Oid, i32)> {
    if type_oid < FIRST_USER_OID {
        return None;
    }
    catalog.type_by_oid(type_oid).ok().flatten().filter(|t| t.kind == b'd').map(|t| (t.base_type, t.typmod))
}

/// What clients see of a type: of a domain, the type under it.
pub fn shown_type(ty: Oid, typmod: i32, catalog: &dyn CatalogView) -> (Oid, i32) {
    let mut shown = (ty, typmod);
    while shown.0 >= FIRST_USER_OID
        && let Ok(Some(info)) = catalog.type_by_oid(shown.0)
        && info.kind == b'd'
    {
        shown = (info.base_type, info.typmod);
    }
    shown
}
