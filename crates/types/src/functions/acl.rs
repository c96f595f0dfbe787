//! Functions of aclitem.

use super::get;
use crate::acl::{AclItem, privileges_named};
use crate::{Array, Datum, EvalContext, io, oids::ACLITEM};
use kilndb_base::{Error, Oid, Result, sqlstate, work};

pub fn items(list: &Array) -> Result<Vec<AclItem>> {
    if list.dims.len() != 1 {
        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, "ACL arrays must be one-dimensional"));
    }
    let mut items = Vec::with_capacity(list.elements.len());
    for element in work::steps(&list.elements, 10) {
        let element = element?;
        if element.is_null() {
            return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "ACL arrays must not contain null values"));
        }
        items.push(*get::aclitem(element)?);
    }
    Ok(items)
}

scalars! {
    fn aclitemin(c; t: text) = io::input(ACLITEM, t, -1, c)?;
    fn aclitemout(c; a: any) = io::output_string(ACLITEM, a, c)?;
    fn aclitem_eq(_c; a: aclitem, b: aclitem) = a == b;
    fn aclcontains(_c; list: array, item: aclitem) = items(list)?.iter().any(|i| i.covers(item));
    fn acldefault_sql(_c; kind: character, owner: oid) = default_list(kind, owner)?;
    fn makeaclitem(_c; grantee: oid, grantor: oid, list: text, grantable: boolean) = {
        let privileges = privileges_named(list)?;
        Datum::AclItem(AclItem { grantee, grantor, privileges: privileges | if grantable { privileges << 32 } else { 0 } })
    };
}
/// The privileges that an object has while nobody has granted any: those of PUBLIC, then those of its owner.
fn default_list(kind: u8, owner: Oid) -> Result<Array> {
    let (public, own) = crate::acl::default_privileges(kind).ok_or_else(|| {
        Error::new(sqlstate::INTERNAL_ERROR, format!("unrecognized object type abbreviation: {}", kind as char))
    })?;
    let given = [(0, public), (owner, own)].into_iter().filter(|(_, privileges)| *privileges != 0);
    let elements: Vec<Datum> =
        given.map(|(grantee, privileges)| Datum::AclItem(AclItem { grantee, grantor: owner, privileges })).collect();
    // Without elements it still has a dimension, as PostgreSQL's lists of privileges do.
    Ok(Array { element_type: ACLITEM, dims: vec![(1, elements.len() as u32)], elements })
}

pub(crate) fn aclinsert(_: &EvalContext<'_>, _: &[Datum]) -> Result<Datum> {
    Err(Error::unsupported("aclinsert is no longer supported"))
}
pub(crate) fn aclremove(_: &EvalContext<'_>, _: &[Datum]) -> Result<Datum> {
    Err(Error::unsupported("aclremove is no longer supported"))
}
