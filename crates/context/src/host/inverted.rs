//! gin_clean_pending_list.

use super::StatementHost;
use super::session_function::session_functions;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::CatalogView;
use kilndb_catalog::ids::{PG_INDEX, PG_INDEX_INDEXRELID_INDEX};
use kilndb_types::Datum;

session_functions! {
    fn gin_clean_pending_list(call) = clean_pending_list(call.host, call.oid(0));
}

/// Waits until what is pending is merged; pages of it, as large as PostgreSQL's.
fn clean_pending_list(host: &StatementHost<'_>, oid: Oid) -> Result<Datum> {
    const PAGE_BYTES: u64 = 8192;
    let rows = host.reader.lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(oid)])?;
    let table = rows.first().map_or(Ok(None), |row| host.reader.table_by_oid(row.oid("indrelid")))?;
    let index = table.as_ref().and_then(|t| t.indexes.iter().find(|i| i.oid == oid));
    let Some(index) = index.filter(|i| i.has_terms() && i.storage.0 != 0) else {
        let name = host.reader.class_row(oid)?.and_then(|c| c.text("relname").map(str::to_string));
        return Err(match name {
            Some(name) => Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a GIN index")),
            None => Error::new(sqlstate::UNDEFINED_TABLE, format!("could not open relation with OID {oid}")),
        });
    };
    let relation = host.reader.temporary.relation(&host.cluster.engine, index.storage)?;
    let bytes = relation.index_flush(host.runtime)?;
    Ok(Datum::Int8(bytes.div_ceil(PAGE_BYTES) as i64))
}
