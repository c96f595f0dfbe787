//! Text search, snapshots, and access control lists' items.

use super::{BASE, StatisticsKind, TypeDescriptor, error};
use crate::acl::AclItem;
use crate::oids::*;
use crate::row::PhysicalType as P;
use crate::snapshot::SnapshotText;
use crate::{Datum, EvalContext, io};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_fulltext::{TsQuery, TsVector};
use std::sync::Arc;

fn tsquery_in(text: &str, _: i32, ctx: &EvalContext<'_>) -> Result<Datum> {
    let parsed = TsQuery::parse(text)?;
    parsed.notices.into_iter().for_each(|n| ctx.host.notice(n));
    Ok(Datum::TsQuery(Arc::new(parsed.query)))
}

/// pg_snapshot, and txid_snapshot as it was called before.
const SNAPSHOT: TypeDescriptor = TypeDescriptor {
    input: |text, _, _| Ok(Datum::text(SnapshotText::parse(text)?.text()?)),
    receive: |bytes, _, _| {
        let snapshot = SnapshotText::receive(bytes)?
            .ok_or_else(|| error(sqlstate::INVALID_BINARY_REPRESENTATION, "invalid external pg_snapshot data"))?;
        Ok(Datum::text(snapshot.text()?))
    },
    send: Some(|value, _, out, _| {
        if let Datum::Text(v) = value {
            SnapshotText::parse(v)?.send(out);
        }
        Ok(())
    }),
    storage: P::Text,
    is_ordered: false,
    ..BASE
};

pub(super) const TYPES: &[TypeDescriptor] = &[
    TypeDescriptor {
        oid: TSVECTOR,
        input: |text, _, _| Ok(Datum::TsVector(Arc::new(TsVector::parse(text)?))),
        receive: |bytes, _, _| Ok(Datum::TsVector(Arc::new(TsVector::receive(bytes)?))),
        is_hashed: false,
        statistics: StatisticsKind::Lexemes,
        ..BASE
    },
    TypeDescriptor {
        oid: TSQUERY,
        input: tsquery_in,
        receive: |bytes, _, _| Ok(Datum::TsQuery(Arc::new(TsQuery::receive(bytes)?))),
        is_hashed: false,
        ..BASE
    },
    TypeDescriptor { oid: PG_SNAPSHOT, ..SNAPSHOT },
    TypeDescriptor { oid: TXID_SNAPSHOT, ..SNAPSHOT },
    TypeDescriptor {
        oid: ACLITEM,
        input: |text, _, ctx| AclItem::parse(text, ctx).map(Datum::AclItem),
        receive: |_, _, _| {
            Err(error(sqlstate::UNDEFINED_FUNCTION, "no binary input function available for type aclitem"))
        },
        is_ordered: false,
        ..BASE
    },
    TypeDescriptor {
        oid: RECORD,
        input: |_, _, _| Err(Error::unsupported("input of anonymous composite types is not implemented")),
        receive: |_, _, _| Err(Error::unsupported("binary input of type record is not supported")),
        ..BASE
    },
    TypeDescriptor {
        oid: INT2VECTOR,
        is_ordered: false,
        input: |text, _, _| io::array::vector_in(INT2VECTOR, text),
        receive: |bytes, _, ctx| io::binary::receive_vector(INT2, "int2vector", bytes, ctx),
        ..BASE
    },
    TypeDescriptor {
        oid: OIDVECTOR,
        input: |text, _, _| io::array::vector_in(OIDVECTOR, text),
        receive: |bytes, _, ctx| io::binary::receive_vector(OID, "oidvector", bytes, ctx),
        ..BASE
    },
];
