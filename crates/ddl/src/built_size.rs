//! What is known of the size of a table and an index once the index has been filled: reading all rows has counted them.
//!
//! Must not know: how an index is filled.

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Oid, RelationId, Result};
use kilndb_catalog::ids::*;
use kilndb_catalog::storage_parameters::StorageParameters;
use kilndb_catalog::{Index, Table};
use kilndb_types::Datum;

impl Definitions<'_> {
    /// Notes the rows and pages of an index that has been filled, and those of its table if the index has all rows.
    pub(super) fn note_built_size(
        &mut self,
        table: &Table,
        index: &Index,
        entries: u64,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        // Others use the trees that an index shares with a whole table, and the rows that describe system tables.
        if index.is_in_whole || table.is_catalog || table.persistence == kilndb_catalog::global::GLOBAL {
            return Ok(());
        }
        let (pages, rows) = (self.page_count(index.storage)?, entries as f32);
        self.note_size(index.oid, (pages, rows), runtime)?;
        // An index of terms has any number of entries for a row.
        let has_all_rows = index.predicate_sql.is_none() && !index.has_terms();
        if !has_all_rows || !self.is_counted_by_itself(table.oid)? {
            return Ok(());
        }
        // Of a table without rows it is not taken for known that it stays so.
        if entries == 0 && table.reltuples < 0.0 {
            return Ok(());
        }
        let pages = self.page_count(table.storage)?;
        self.note_size(table.oid, (pages, rows), runtime)
    }

    fn page_count(&self, storage: RelationId) -> Result<u32> {
        let relation = self.context().shared.temporary.relation(&self.context().cluster.engine, storage)?;
        Ok(relation.pages())
    }

    /// May sizes be noted that nobody has asked for? Where ANALYZE does not run by itself they may have been set on purpose.
    fn is_counted_by_itself(&mut self, table: Oid) -> Result<bool> {
        if !self.context().cluster.settings().flag("autovacuum") {
            return Ok(false);
        }
        let found = self.context_mut().catalog_lookup(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(table)])?;
        let is_off = |options| StorageParameters(options).is_off("autovacuum_enabled");
        Ok(found.first().is_some_and(|class| !is_off(class.texts("reloptions"))))
    }

    /// Several indexes of a table may be made at once: who holds the row has noted the same, or will.
    fn note_size(&mut self, relation: Oid, (pages, rows): (u32, f32), runtime: &dyn Runtime) -> Result<()> {
        let mut found = self.context_mut().catalog_lookup(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(relation)])?;
        let Some(old) = found.pop() else { return Ok(()) };
        let pages = i32::try_from(pages).unwrap_or(i32::MAX);
        if old.int("relpages") == i64::from(pages) && old.float4("reltuples") == rows {
            return Ok(());
        }
        let mut new = old.clone();
        new.set("relpages", Datum::Int4(pages));
        new.set("reltuples", Datum::Float4(rows));
        self.write_catalog(runtime, |w| w.update_unless_held(&old, new.values()))
    }
}
