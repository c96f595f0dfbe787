//! Trees as an index method.
//!
//! Must not know: what keys mean.

use crate::api::{IndexInsert, RowBatch};
use crate::core::Core;
use crate::directory::Relation;
use crate::entry_changes::EntryChanges;
use crate::method::{IndexContents, IndexEntries, IndexMethod, IteratorEntries, MethodProperties, MovedRows, NewKey};
use crate::report::CheckReport;
use crate::txn::{Snapshot, Transaction};
use kilndb_base::park::Park;
use kilndb_base::{Result, RowId};
use std::ops::Bound;
use std::sync::Arc;

pub(crate) struct TreeMethod;

impl IndexMethod for TreeMethod {
    const PROPERTIES: MethodProperties = MethodProperties {
        name: "tree",
        contents: IndexContents::Keys,
        is_ordered: true,
        can_be_unique: true,
        can_span_heaps: true,
        leads_to_all_rows: true,
    };

    fn build(index: &Relation, txn: &mut Transaction, entries: &mut dyn IndexEntries, park: &dyn Park) -> Result<()> {
        index.tree_build(txn, entries, park)
    }
    fn copy(
        index: &Arc<Relation>,
        txn: &mut Transaction,
        (source, _): (&Arc<Relation>, &Snapshot),
        moved: &MovedRows<'_>,
        park: &dyn Park,
    ) -> Result<()> {
        let mut entries = Vec::new();
        let mut scan = source.index_scan(Bound::Unbounded, Bound::Unbounded, false);
        let (mut keys, mut ends, mut rids) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let more = scan.next_batch(&mut keys, &mut ends, &mut rids)?;
            let mut start = 0;
            for (at, (rid, end)) in rids.iter().zip(&ends).enumerate() {
                // A retired entry is not one of the row as it is.
                if let Some(rid) = moved(*rid).filter(|_| !scan.is_retired(at)) {
                    entries.push((keys[start..*end as usize].to_vec(), rid));
                }
                start = *end as usize;
            }
            keys.clear();
            ends.clear();
            rids.clear();
            if !more {
                break;
            }
        }
        entries.sort();
        index.tree_build(txn, &mut IteratorEntries::new(entries.into_iter().map(Ok)), park)
    }
    fn check(core: &Core, index: &Arc<Relation>, report: &mut CheckReport) -> Result<()> {
        super::check::check(core, index, report)
    }
    #[inline]
    fn insert(index: &Relation, txn: &mut Transaction, new: &NewKey<'_>, park: &dyn Park) -> Result<IndexInsert> {
        index.tree_insert(txn, new, park)
    }
    fn insert_many(
        index: &Relation,
        txn: &mut Transaction,
        entries: &RowBatch,
        new: &NewKey<'_>,
        park: &dyn Park,
    ) -> Result<Option<(usize, IndexInsert)>> {
        index.tree_insert_many(txn, entries, new, park)
    }
    fn change_many(index: &Relation, txn: &mut Transaction, changes: &mut EntryChanges) -> Result<()> {
        index.tree_change_many(txn, changes)
    }
    #[inline]
    fn retire(index: &Relation, txn: &mut Transaction, key: &[u8], rid: RowId) -> Result<()> {
        index.entry_retire(txn, key, rid.to_u64())
    }
}
