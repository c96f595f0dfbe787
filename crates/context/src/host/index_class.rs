//! The operator classes that columns of indexes have where none is named.

use kilndb_base::{Oid, Result};
use kilndb_catalog::builtin::BUILTINS;
use kilndb_catalog::extension::default_inverted_class;
use kilndb_catalog::{BTREE_METHOD, CatalogView, GIN_METHOD};
use kilndb_types::oids;

/// Inverted classes that are the default of their types.
const GIN_ARRAY_OPS: Oid = 10064;
const GIN_TSVECTOR_OPS: Oid = 10073;
const GIN_JSONB_OPS: Oid = 10090;

/// The default class of a type.
pub fn default_class(method: Oid, type_oid: Oid, catalog: &dyn CatalogView) -> Result<Option<Oid>> {
    if method == GIN_METHOD {
        let Some(info) = catalog.type_by_oid(type_oid)? else { return Ok(None) };
        return Ok(match type_oid {
            _ if info.kind == b'd' => return default_class(method, info.base_type, catalog),
            oids::TSVECTOR => Some(GIN_TSVECTOR_OPS),
            oids::JSONB => Some(GIN_JSONB_OPS),
            _ if info.element != 0 => Some(GIN_ARRAY_OPS),
            // Classes of an extension, if it is there.
            _ => match default_inverted_class(type_oid, info.kind == b'e') {
                Some(oid) if catalog.has_operator_class(oid)? => Some(oid),
                _ => None,
            },
        });
    }
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
        b'e' => oids::ANYENUM,
        b'c' => oids::RECORD,
        b'r' => oids::ANYRANGE,
        b'm' => oids::ANYMULTIRANGE,
        _ if info.element != 0 => oids::ANYARRAY,
        _ if type_oid == oids::VARCHAR => oids::TEXT,
        _ if type_oid == oids::CIDR => oids::INET,
        _ => return Ok(None),
    };
    Ok(known(stand_in))
}
