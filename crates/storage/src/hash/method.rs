//! Hash codes in a tree as an index method.
//!
//! Must not know: what keys mean.

use super::code::{CODE_BYTES, code_of};
use crate::api::{IndexInsert, RowBatch};
use crate::btree::method::TreeMethod;
use crate::core::Core;
use crate::directory::Relation;
use crate::entry_changes::EntryChanges;
use crate::method::{IndexContents, IndexEntries, IndexMethod, IteratorEntries, MethodProperties, MovedRows, NewKey};
use crate::report::CheckReport;
use crate::txn::{Snapshot, Transaction};
use kilndb_base::park::Park;
use kilndb_base::{Result, RowId};
use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

pub(crate) struct Hash;

impl IndexMethod for Hash {
    const PROPERTIES: MethodProperties = MethodProperties {
        name: "hash",
        contents: IndexContents::Keys,
        is_ordered: false,
        can_be_unique: false,
        can_span_heaps: false,
        leads_to_all_rows: true,
    };

    #[inline]
    fn kept_key(key: &[u8]) -> Cow<'_, [u8]> {
        Cow::Owned(code_of(key).to_vec())
    }
    fn build(index: &Relation, txn: &mut Transaction, entries: &mut dyn IndexEntries, park: &dyn Park) -> Result<()> {
        TreeMethod::build(index, txn, entries, park)
    }
    /// The source may be a tree with the keys themselves, as earlier builds made hash indexes.
    fn copy(
        index: &Arc<Relation>,
        txn: &mut Transaction,
        (source, _): (&Arc<Relation>, &Snapshot),
        moved: &MovedRows<'_>,
        park: &dyn Park,
    ) -> Result<()> {
        let has_codes = source.kind == index.kind;
        let mut entries = Vec::new();
        each_entry(source, &mut |key, rid, is_retired| {
            // A retired entry is not one of the row as it is.
            if let Some(rid) = moved(rid).filter(|_| !is_retired) {
                entries.push((if has_codes { key.to_vec() } else { code_of(key).to_vec() }, rid));
            }
        })?;
        entries.sort();
        index.tree_build(txn, &mut IteratorEntries::new(entries.into_iter().map(Ok)), park)
    }
    fn change_many(index: &Relation, txn: &mut Transaction, changes: &mut EntryChanges) -> Result<()> {
        index.tree_change_many(txn, changes)
    }
    fn check(core: &Core, index: &Arc<Relation>, report: &mut CheckReport) -> Result<()> {
        TreeMethod::check(core, index, report)?;
        each_entry(index, &mut |key, RowId { block, slot }, _| {
            if key.len() != CODE_BYTES {
                let (id, bytes) = (index.id, key.len());
                report.problems.push(format!(
                    "index {id}: the entry of row ({block},{slot}) has {bytes} bytes, and is no hash code"
                ));
            }
        })
    }
    fn insert(index: &Relation, txn: &mut Transaction, new: &NewKey<'_>, park: &dyn Park) -> Result<IndexInsert> {
        index.tree_insert(txn, &NewKey { key: &code_of(new.key), ..*new }, park)
    }
    fn insert_kept(index: &Relation, txn: &mut Transaction, new: &NewKey<'_>, park: &dyn Park) -> Result<IndexInsert> {
        index.tree_insert(txn, new, park)
    }
    fn retire_kept(index: &Relation, txn: &mut Transaction, key: &[u8], rid: RowId) -> Result<()> {
        TreeMethod::retire(index, txn, key, rid)
    }
    fn insert_many(
        index: &Relation,
        txn: &mut Transaction,
        entries: &RowBatch,
        new: &NewKey<'_>,
        park: &dyn Park,
    ) -> Result<Option<(usize, IndexInsert)>> {
        let mut codes = RowBatch::default();
        for (at, (rid, ..)) in entries.rows.iter().enumerate() {
            codes.push(*rid, &code_of(entries.row(at)));
        }
        index.tree_insert_many(txn, &codes, new, park)
    }
    fn retire(index: &Relation, txn: &mut Transaction, key: &[u8], rid: RowId) -> Result<()> {
        TreeMethod::retire(index, txn, &code_of(key), rid)
    }
}

/// Calls `visit` with each entry's key, row, and whether it is retired.
fn each_entry(tree: &Arc<Relation>, visit: &mut dyn FnMut(&[u8], RowId, bool)) -> Result<()> {
    let mut scan = tree.index_scan(Bound::Unbounded, Bound::Unbounded, false);
    let (mut keys, mut ends, mut rids) = (Vec::new(), Vec::new(), Vec::new());
    while scan.next_batch(&mut keys, &mut ends, &mut rids)? {
        let mut start = 0;
        for (at, (rid, end)) in rids.iter().zip(&ends).enumerate() {
            visit(&keys[start..*end as usize], *rid, scan.is_retired(at));
            start = *end as usize;
        }
        keys.clear();
        ends.clear();
        rids.clear();
    }
    Ok(())
}
