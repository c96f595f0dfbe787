//! A table's new heap that follows the rows of the old one.
//!
//! A copied row has another place, so a tree of its own keeps for each old place the table that the row is in now (of a
//! table that becomes partitioned one of several) and its place there. A row that has changed is deleted and copied once
//! more, with its entries in the new indexes.

use super::pace::{COPYING, PacedRuntime};
use super::progress::count_row;
use super::{Definitions, ROWS_AT_ONCE};
use crate::client::Runtime;
use crate::key_sort::{KeySorter, MergedKeys};
use crate::persistence::UNLOGGED;
use kilndb_base::{Error, Oid, RelationId, Result, RowId};
use kilndb_bind::engine_query::{ColumnChange, CopyRows, DeleteRows, FillValue, RowCondition};
use kilndb_catalog::{AccessMethod, IndexKey, Table};
use kilndb_exec::RowSink;
use kilndb_storage::{IndexInsert, Snapshot, Uniqueness};
use kilndb_types::Datum;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The access method of the tree that keeps places.
const BTREE: Oid = 403;

/// A copy of a table, which follows it.
pub(crate) struct CopiedTable {
    pub source: Arc<Table>,
    /// The OID of the table that the copies are in; its description is read anew in each round.
    pub target: Oid,
    pub changes: Vec<OwnedChange>,
    /// The tree of places.
    pub places: RelationId,
}

/// A [`ColumnChange`] that outlives the command's parts.
#[derive(Clone, Debug)]
pub(crate) enum OwnedChange {
    Converted { attnum: i16, value: String, ty: (Oid, i32) },
    Added { attnum: i16, value: FillValue },
}

impl OwnedChange {
    pub fn of(change: &ColumnChange<'_>) -> OwnedChange {
        match *change {
            ColumnChange::Converted { attnum, value, ty } => {
                OwnedChange::Converted { attnum, value: value.to_string(), ty }
            }
            ColumnChange::Added { attnum, value } => OwnedChange::Added { attnum, value },
        }
    }
    pub fn borrowed(&self) -> ColumnChange<'_> {
        match self {
            OwnedChange::Converted { attnum, value, ty } => ColumnChange::Converted { attnum: *attnum, value, ty: *ty },
            OwnedChange::Added { attnum, value } => ColumnChange::Added { attnum: *attnum, value: *value },
        }
    }
}

/// The tree's key of a copied row, and the row's new place.
fn place_key(old: RowId, table: Oid) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&old.to_u64().to_be_bytes());
    key[8..].copy_from_slice(&table.to_be_bytes());
    key
}

struct PlaceSink<'a>(&'a mut dyn FnMut(&[u8], RowId) -> Result<()>);

impl RowSink for PlaceSink<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        let [Datum::Tid(block, slot), Datum::Tid(new_block, new_slot), Datum::Oid(table)] = values else {
            return Err(Error::internal("a copied row without its places"));
        };
        let old = RowId { block: *block, slot: *slot };
        (self.0)(&place_key(old, *table), RowId { block: *new_block, slot: *new_slot })
    }
}

impl Definitions<'_> {
    /// Copies all rows of `source`, in the order of these keys if there are any, into the new storage that `target`
    /// describes. Indexes and what else holds for the rows
    /// are the caller's business; beside others the copy follows the source from now on.
    pub(crate) fn copy_table(
        &mut self,
        source: &Arc<Table>,
        target: &Arc<Table>,
        (changes, order): (&[ColumnChange<'_>], &[IndexKey]),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let bare = Arc::new(bare(target));
        let follows = self.is_online(source);
        let query =
            CopyRows { source, target: &bare, changes, condition: RowCondition::All, order, tells_places: true };
        let snapshot = match follows {
            true => self.followed_snapshot(source, runtime)?,
            false => self.newest_snapshot()?,
        };
        let context = self.context();
        let heap = context.shared.temporary.relation(&context.cluster.engine, source.storage);
        let blocks = heap.map_or(0, |heap| heap.pages());
        self.begin_copying(source.oid, blocks, runtime);
        let mut sorter = self.new_key_sorter(1)();
        let mut sink = |key: &[u8], new| {
            count_row(runtime);
            if follows { sorter.push(key, new, false) } else { Ok(()) }
        };
        let paced = PacedRuntime::new(runtime, &self.context().cluster.engine, COPYING);
        let pace: &dyn Runtime = if follows { &paced } else { runtime };
        let copied = self.rows_at(&query, snapshot, pace, &mut PlaceSink(&mut sink));
        runtime.control().progress.end();
        copied?;
        self.next_command()?;
        if !follows {
            return Ok(());
        }
        let places = self.tree_of_places(sorter, &paced)?;
        let (source, changes) = (source.clone(), changes.iter().map(OwnedChange::of).collect());
        self.follow_with_copy(CopiedTable { source, target: target.oid, changes, places });
        Ok(())
    }

    fn tree_of_places(&mut self, sorter: KeySorter, runtime: &dyn Runtime) -> Result<RelationId> {
        let places = self.new_storage(AccessMethod::of(BTREE).storage_kind(), UNLOGGED)?;
        let tree = self.context().cluster.engine.relation(places)?;
        let mut sorters = [sorter];
        let mut keys = MergedKeys::new(&mut sorters)?;
        tree.index_build(self.writer()?, &mut keys, runtime)?;
        Ok(places)
    }

    /// The copies of these rows become what the snapshot sees.
    pub(super) fn follow_copy(
        &mut self,
        copy: &CopiedTable,
        rows: &[RowId],
        now: &Snapshot,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        // All old copies go before the first new one comes: a key may have gone from one row to another.
        for rows in rows.chunks(ROWS_AT_ONCE) {
            self.delete_copies(copy, rows, runtime)?;
        }
        let target = self.context_mut().table_by_oid(copy.target, runtime)?;
        let target = Arc::new(with_valid_checks(&target));
        let changes: Vec<ColumnChange<'_>> = copy.changes.iter().map(OwnedChange::borrowed).collect();
        for rows in rows.chunks(ROWS_AT_ONCE) {
            let query = CopyRows {
                source: &copy.source,
                target: &target,
                changes: &changes,
                condition: RowCondition::Among(rows),
                order: &[],
                tells_places: true,
            };
            let mut made = Vec::new();
            let mut sink = |key: &[u8], new| {
                made.push((key.to_vec(), new));
                Ok(())
            };
            self.rows_at(&query, now.clone(), runtime, &mut PlaceSink(&mut sink))?;
            self.next_command()?;
            self.note_places(copy.places, &made, runtime)?;
        }
        Ok(())
    }

    fn note_places(&mut self, places: RelationId, made: &[(Vec<u8>, RowId)], runtime: &dyn Runtime) -> Result<()> {
        let tree = self.context().cluster.engine.relation(places)?;
        for (key, new) in made {
            // The tree has no heap: its entries lead nowhere.
            let inserted = tree.index_insert(self.writer()?, &tree, key, *new, Uniqueness::NotUnique, runtime)?;
            assert!(inserted == IndexInsert::Inserted, "the place of a copied row is noted once");
        }
        Ok(())
    }

    fn delete_copies(&mut self, copy: &CopiedTable, rows: &[RowId], runtime: &dyn Runtime) -> Result<()> {
        let tree = self.context().cluster.engine.relation(copy.places)?;
        let mut of_tables: BTreeMap<Oid, Vec<RowId>> = BTreeMap::new();
        for old in rows {
            let (lower, upper) = (place_key(*old, 0).to_vec(), place_key(*old, Oid::MAX).to_vec());
            let mut scan = tree.index_scan(Bound::Included(lower), Bound::Included(upper), false);
            let (mut keys, mut ends, mut rids) = (Vec::new(), Vec::new(), Vec::new());
            loop {
                let has_more = scan.next_batch(&mut keys, &mut ends, &mut rids)?;
                let mut start = 0;
                for (n, (rid, end)) in rids.iter().zip(&ends).enumerate() {
                    let key = &keys[start..*end as usize];
                    start = *end as usize;
                    let table = key.last_chunk().map_or(0, |oid| Oid::from_be_bytes(*oid));
                    if !scan.is_retired(n) {
                        of_tables.entry(table).or_default().push(*rid);
                        tree.index_retire(self.writer()?, key, *rid)?;
                    }
                }
                keys.clear();
                ends.clear();
                rids.clear();
                if !has_more {
                    break;
                }
            }
        }
        for (table, rows) in of_tables {
            let table = self.context_mut().table_by_oid(table, runtime)?;
            for rows in rows.chunks(ROWS_AT_ONCE) {
                self.rows_into(&DeleteRows { table: &table, rows }, runtime, &mut crate::host::NullSink)?;
            }
            self.next_command()?;
        }
        Ok(())
    }

    fn next_command(&mut self) -> Result<()> {
        self.writer()?.next_command();
        Ok(())
    }
}

/// The table as its first copies need it: all that holds for its rows is seen to afterwards.
fn bare(table: &Table) -> Table {
    let mut bare = table.clone();
    (bare.indexes, bare.checks) = Default::default();
    bare.columns.iter_mut().for_each(|c| c.not_null = false);
    bare
}

/// Rows that were there before a constraint need not fulfil it.
fn with_valid_checks(table: &Table) -> Table {
    let mut valid = table.clone();
    valid.checks.retain(|check| check.validated);
    valid
}
