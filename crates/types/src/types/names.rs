//! The reg… types: OIDs of objects, read and shown as their names, which the host knows.

use super::{BASE, HeldAs, TypeDescriptor, fixed};
use crate::oids::*;
use crate::row::PhysicalType as P;
use crate::{Datum, EvalContext};
use kilndb_base::Result;

fn receive(bytes: &[u8], _: i32, _: &EvalContext<'_>) -> Result<Datum> {
    Ok(Datum::Oid(u32::from_be_bytes(fixed(bytes)?)))
}

macro_rules! named {
    ($($oid:ident)*) => {
        &[$(TypeDescriptor {
            oid: $oid,
            input: |text, _, ctx| ctx.host.reg_input($oid, text).map(Datum::Oid),
            receive,
            output: Some(|value, _, out, ctx| {
                if let Datum::Oid(oid) = value {
                    out.extend_from_slice(ctx.host.reg_output($oid, *oid).as_bytes());
                }
                Ok(())
            }),
            storage: P::Oid,
            held_as: HeldAs::NamedOid,
            ..BASE
        }),*]
    };
}

pub(super) const TYPES: &[TypeDescriptor] = named! {
    REGPROC REGPROCEDURE REGOPER REGOPERATOR REGCLASS REGTYPE REGCONFIG REGDICTIONARY REGNAMESPACE REGROLE REGCOLLATION
};
