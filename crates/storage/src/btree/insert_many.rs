//! Inserts several entries: those that belong to one leaf under one latch.
//!
//! Invariants
//! 1. An entry is inserted here only if [`super::insert`] would insert it without a look at any row: no entry has the
//!    key, and none can stand further right. Every other entry is left to that module.
//!
//! Must not know: which constraint it is.

use super::node::{self, FenceSide, KeyAndRow, MAX_KEY};
use crate::api::{IndexInsert, RowBatch, Uniqueness};
use crate::directory::Relation;
use crate::method::NewKey;
use crate::page::PageView;
use crate::txn::Transaction;
use kilndb_base::Result;
use kilndb_base::park::Park;

/// Entries put in under one latch: others wait for it.
const AT_ONCE: usize = 64;

/// The position of a new entry on this leaf, if no other entry there or further right must be looked at first.
pub(super) fn free_place(v: &PageView, key: &[u8], rid: u64, unique: bool) -> Option<usize> {
    let least = KeyAndRow(key, if unique { 0 } else { rid });
    if node::side(v, least) != FenceSide::Inside || node::side(v, KeyAndRow(key, rid)) != FenceSide::Inside {
        return None;
    }
    if unique && node::high(v).is_some_and(|high| high.key == key) {
        return None;
    }
    let idx = node::lower_bound(v, least);
    let next = node::entry(v, idx).filter(|_| idx < node::count(v));
    let meets = next.is_some_and(|e| e.key == key && (unique || e.rid == rid));
    (!meets).then_some(idx)
}

impl Relation {
    /// As [`Relation::tree_insert`] for one entry after the other. The result is the first entry that could not be
    /// inserted, and why; those before it are in.
    pub(crate) fn tree_insert_many(
        &self,
        txn: &mut Transaction,
        entries: &RowBatch,
        new: &NewKey<'_>,
        park: &dyn Park,
    ) -> Result<Option<(usize, IndexInsert)>> {
        let mut done = 0;
        loop {
            done += self.insert_run(txn, entries, done, new.uniqueness)?;
            let Some((rid, ..)) = entries.rows.get(done) else { return Ok(None) };
            let next = NewKey { key: entries.row(done), rid: *rid, ..*new };
            match self.tree_insert(txn, &next, park)? {
                IndexInsert::Inserted => done += 1,
                other => return Ok(Some((done, other))),
            }
        }
    }
    /// Puts in what belongs to the first entry's leaf; how many that were.
    fn insert_run(
        &self,
        txn: &mut Transaction,
        entries: &RowBatch,
        from: usize,
        uniqueness: Uniqueness,
    ) -> Result<usize> {
        let unique = uniqueness != Uniqueness::NotUnique;
        let rest = entries.rows.get(from..).unwrap_or(&[]);
        // A single entry is inserted in the usual way.
        if self.entries_name_heap() || rest.len() < 2 {
            return Ok(0);
        }
        let txn = txn.of(self)?;
        txn.begin_write()?;
        let first = KeyAndRow(entries.row(from), if unique { 0 } else { rest[0].0.to_u64() });
        if first.0.len() > MAX_KEY {
            return Ok(0);
        }
        let (block, mut page) = self.latch_node(0, first)?;
        let target = self.target(block);
        let mut count = 0;
        for (n, (rid, ..)) in rest.iter().enumerate().take(AT_ONCE) {
            let (key, rid) = (entries.row(from + n), rid.to_u64());
            if key.len() > MAX_KEY {
                break;
            }
            let Some(idx) = free_place(&page.view(), key, rid, unique) else { break };
            let entry = node::build(key, rid, None, 0);
            if node::room(page.page()) < entry.len() + 2 {
                break;
            }
            self.add_entry(txn, &mut page, (target, idx), &entry, KeyAndRow(key, rid))?;
            count += 1;
        }
        drop(page);
        for (n, (rid, ..)) in rest.iter().enumerate().take(count) {
            txn.wrote_key(self, entries.row(from + n), rid.to_u64())?;
        }
        Ok(count)
    }
}
