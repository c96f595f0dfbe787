//! The operator classes that columns of indexes have where none is named.

use kilndb_base::{Oid, Result};
use kilndb_catalog::builtin::BUILTINS;
use kilndb_catalog::extension::default_inverted_class;
use kilndb_catalog::{AccessMethod, BTREE_METHOD, CatalogView};
use kilndb_types::oids;

/// The default class of a type.
pub fn default_class(method: Oid, type_oid: Oid, catalog: &dyn CatalogView) -> Result<Option<Oid>> {
    let known = |type_oid: Oid| match method {
        BTREE_METHOD => BUILTINS.btree_classes.get(&type_oid).map(|c| c.oid),
        other => BUILTINS.default_classes.get(&(other, type_oid)).copied(),
    };
    if let Some(class) = known(type_oid) {
        return Ok(Some(class));
    }
    let Some(info) = catalog.type_by_oid(type_oid)? else { return Ok(None) };
    let stand_in = match info.kind {
        b'd' => return default_class(method, info.base_type, catalog),
        b'e' => Some(oids::ANYENUM),
        b'c' => Some(oids::RECORD),
        b'r' => Some(oids::ANYRANGE),
        b'm' => Some(oids::ANYMULTIRANGE),
        _ if info.element != 0 => Some(oids::ANYARRAY),
        _ if type_oid == oids::VARCHAR => Some(oids::TEXT),
        _ if type_oid == oids::CIDR => Some(oids::INET),
        _ => None,
    };
    if let Some(class) = stand_in.and_then(known) {
        return Ok(Some(class));
    }
    // Classes of an extension, if it is there.
    let of_extension = || {
        default_inverted_class(method, type_oid, info.kind == b'e')
            .or_else(|| default_inverted_class(method, stand_in?, false))
    };
    Ok(match AccessMethod::of(method).has_terms().then(of_extension).flatten() {
        Some(class) if catalog.has_operator_class(class)? => Some(class),
        _ => None,
    })
}
