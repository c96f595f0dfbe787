//! Keys of rows as older snapshots see them, in an index that is newer than these snapshots.
//!
//! An index is built of what is there now. A snapshot that is older, and lives on, may see a row that is deleted by now, or
//! one that had another key. So the keys that it sees get entries too, which are retired at once: whoever comes through a
//! retired entry compares the row's key with it, and it goes when nobody sees the old version any more. (PostgreSQL enters
//! rows that are dead for new snapshots alone, and lets old ones not use the index if a row's key has changed.)

use super::Definitions;
use super::build::KeysOf;
use super::key_sort::MergedKeys;
use crate::client::Runtime;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::{Error, Result, RowId};
use kilndb_catalog::{Index, Table};
use kilndb_storage::{Snapshot, Transaction, Uniqueness, is_private};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows whose keys are held against each other at once.
const ROWS_AT_ONCE: usize = 1024;

/// Which older keys an index does not have yet.
pub(super) struct OlderKeys<'a> {
    /// The snapshot that the index has been made of.
    pub than: &'a Snapshot,
    /// It was up to date with this snapshot before, and these rows have changed since.
    pub since: Option<(&'a Snapshot, &'a [RowId])>,
}

impl Definitions<'_> {
    pub(super) fn add_older_keys(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        older: OlderKeys<'_>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if is_private(table.storage) {
            return Ok(());
        }
        let engine = self.context().cluster.engine.clone();
        engine.relation(index.storage)?.set_made_of(older.than);
        // An index of terms is not used with older snapshots.
        if index.has_terms() {
            return Ok(());
        }
        if planted::is(PlantedBug::OlderKeysForgotten) {
            return Ok(());
        }
        let mut snapshots = engine.older_snapshots(older.than);
        if let Some((since, _)) = older.since {
            snapshots.retain(|snapshot| snapshot.csn() > since.csn());
        }
        let heap = engine.relation(table.storage)?;
        let Some(oldest) = snapshots.first() else { return Ok(()) };
        let unseen = match older.since {
            None => heap.rows_unsettled_for(oldest, runtime)?,
            Some((_, rows)) => rows.to_vec(),
        };
        for snapshot in &snapshots {
            let mut rows = Vec::new();
            for rid in &unseen {
                if !heap.is_settled_for(*rid, snapshot)? {
                    rows.push(*rid);
                }
            }
            for rows in rows.chunks(ROWS_AT_ONCE) {
                self.add_keys_seen_by(table, index, rows, (snapshot, older.than), runtime)?;
                runtime.checkpoint()?;
            }
        }
        Ok(())
    }

    fn add_keys_seen_by(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        rows: &[RowId],
        (before, now): (&Snapshot, &Snapshot),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let engine = self.context().cluster.engine.clone();
        let (heap, tree) = (engine.relation(table.storage)?, engine.relation(index.storage)?);
        let mut old = self.gather_keys(table, index, &KeysOf { snapshot: Some(before), rows: Some(rows) }, runtime)?;
        let mut new = self.gather_keys(table, index, &KeysOf { snapshot: Some(now), rows: Some(rows) }, runtime)?;
        let known = MergedKeys::new(&mut new)?.map(|entry| entry.map(|(key, rid, _)| (key, rid)));
        let known: BTreeSet<(Vec<u8>, RowId)> = known.collect::<Result<_>>()?;
        for entry in MergedKeys::new(&mut old)? {
            let (key, rid, _) = entry?;
            let entry = (key, rid);
            if !known.contains(&entry) {
                let at = (&*entry.0, rid);
                tree.index_insert_kept(self.writer()?, &heap, at, Uniqueness::NotUnique, runtime)?;
                tree.index_retire_kept(self.writer()?, &entry.0, rid)?;
            }
        }
        Ok(())
    }

    pub(super) fn writer(&mut self) -> Result<&mut Transaction> {
        let txn = self.context_mut().transaction.txn.as_mut();
        txn.ok_or_else(|| Error::internal("no transaction to fill an index in"))
    }
}
