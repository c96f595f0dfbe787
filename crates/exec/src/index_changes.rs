//! The index entries that an UPDATE of many rows changes: they are gathered while the rows are stored, and changed in the
//! order of their keys, many of a leaf at once (docs/decisions/0065).
//!
//! Invariants
//! 1. The entries of a row are changed before anything can look for it as it is now: before the command ends, and before
//!    RETURNING and the checks of views are evaluated. If the statement's input calls a volatile function, which sees what the
//!    statement has done so far, no entry waits: the planner has rows stored one by one.
//! 2. Only entries of indexes that are not unique wait so: see [`kilndb_plan::IndexPlan::may_wait`].
//! 3. Memory: what waits has `work_mem`, and one batch of rows more.
//!
//! Must not know: pages.

use super::context::*;
use super::index;
use super::modify_many::{BatchScratch, begin_keys, skip_keys};
use kilndb_base::Result;
use kilndb_plan::{IndexPlan, ModifyPlan};
use kilndb_storage::{EntryChanges, Relation};
use kilndb_types::Datum;
use kilndb_types::vector::Vector;
use std::borrow::Cow;

/// The most bytes of entries that wait, whatever `work_mem` is: places in them are 32 bits wide.
const GATHERED_BYTES_MAX: usize = 1 << 30;

/// The indexes of a table whose entries an UPDATE may change.
pub(super) struct TouchedIndexes {
    /// Positions in `ModifyTarget::indexes`.
    positions: Vec<usize>,
    /// The columns that their entries depend on, as positions in the table.
    columns: Vec<usize>,
}

impl TouchedIndexes {
    pub fn of(m: &ModifyPlan) -> TouchedIndexes {
        let is_touched = |n: &usize| m.indexes[*n].is_touched(&m.changed) && !m.indexes[*n].has_terms();
        let positions: Vec<usize> = (0..m.indexes.len()).filter(is_touched).collect();
        let touched = || positions.iter().map(|n| &m.indexes[*n]);
        let mut columns: Vec<usize> = match touched().any(|p| p.predicate.is_some()) {
            // A condition may be about any of them.
            true => (0..m.table.columns.len()).collect(),
            false => touched().flat_map(|p| p.shape.depends.iter().copied()).collect(),
        };
        columns.sort_unstable();
        columns.dedup();
        TouchedIndexes { positions, columns }
    }
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }
    /// Makes the scratch ready for the rows of a batch.
    pub fn begin(&self, s: &mut BatchScratch) {
        s.rekeyed.clear();
        [&mut s.entries, &mut s.new_entries].into_iter().for_each(|keys| begin_keys(keys, self.positions.len()));
    }
    /// Notes the entries of the next row of the batch that change. `input` names the row; `BatchScratch::values` is the
    /// row as it is to be.
    pub fn put_row(
        &self,
        m: &ModifyPlan,
        input: &[Datum],
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        s.old.resize(m.table.columns.len(), Datum::Null);
        for column in &self.columns {
            let value = m.old_columns[*column].and_then(|slot| input.get(slot));
            s.old[*column] = value.cloned().unwrap_or_default();
        }
        self.put_keys(m, s, rt, cx)
    }
    /// The same of a row that is the one at a position of columns: of the table's columns as they are and as they are to
    /// be.
    pub fn put_position(
        &self,
        m: &ModifyPlan,
        ((old, new), position): ((&[&Vector], &[&Vector]), usize),
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        for (columns, values) in [(old, &mut s.old), (new, &mut s.values)] {
            values.resize(m.table.columns.len(), Datum::Null);
            for at in &self.columns {
                values[*at] = columns[*at].get(position)?;
            }
        }
        self.put_keys(m, s, rt, cx)
    }
    /// Of a row in `BatchScratch::old` and `BatchScratch::values`.
    fn put_keys(
        &self,
        m: &ModifyPlan,
        s: &mut BatchScratch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let row = s.rekeyed.len();
        let mut is_rekeyed = false;
        for (at, n) in self.positions.iter().enumerate() {
            let (old, new) = (&mut s.entries[at], &mut s.new_entries[at]);
            let starts = (old.keys.len(), new.keys.len());
            let before = put_kept(&m.indexes[*n], &s.old, &mut old.keys, rt, cx)?;
            let after = put_kept(&m.indexes[*n], &s.values, &mut new.keys, rt, cx)?;
            if before == after && old.keys[starts.0..] == new.keys[starts.1..] {
                old.keys.truncate(starts.0);
                new.keys.truncate(starts.1);
                continue;
            }
            is_rekeyed = true;
            if before {
                old.end_key(row);
            }
            if after {
                new.end_key(row);
            }
        }
        s.rekeyed.push(is_rekeyed);
        Ok(())
    }
    /// The rows up to the one at `end` are done with: somebody else has changed their entries, or there were none.
    pub fn skip_rows(&self, s: &mut BatchScratch, end: usize) {
        [&mut s.entries, &mut s.new_entries].into_iter().for_each(|keys| skip_keys(keys, end));
    }
}

/// Appends the key of a row's entry as the index keeps it: an index on hash codes has one entry for two keys with the same
/// code. False: the row has no entry.
fn put_kept(
    p: &IndexPlan,
    row: &[Datum],
    out: &mut Vec<u8>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<bool> {
    let start = out.len();
    if index::put_entry(p, row, out, rt, cx)?.is_none() {
        return Ok(false);
    }
    if let Cow::Owned(kept) = p.relation.kind().kept_key(&out[start..]) {
        out.truncate(start);
        out.extend_from_slice(&kept);
    }
    // At the row's own turn, and before any row waits for more.
    Relation::check_key(&out[start..])?;
    Ok(true)
}

/// Entries of a table's indexes that are still to be changed, by the indexes' positions.
#[derive(Default)]
pub(super) struct GatheredEntries(Vec<EntryChanges>);

impl GatheredEntries {
    /// Takes the entries of the rows of a batch, up to the one at `end`, which are stored.
    pub fn take_rows(&mut self, touched: &TouchedIndexes, s: &mut BatchScratch, end: usize) {
        for (at, n) in touched.positions.iter().enumerate() {
            if self.0.len() <= *n {
                self.0.resize_with(n + 1, EntryChanges::default);
            }
            let (changes, rows) = (&mut self.0[*n], &s.rows.rows);
            s.entries[at].take(end).for_each(|(row, key)| changes.retire(key, rows[row].0));
            s.new_entries[at].take(end).for_each(|(row, key)| changes.insert(key, rows[row].0));
        }
    }
    /// Changes the entries once they have used up their memory.
    pub fn apply_most(&mut self, m: &ModifyPlan, cx: &mut ExecContext<'_>) -> Result<()> {
        let size_bytes: usize = self.0.iter().map(EntryChanges::size_bytes).sum();
        if size_bytes > cx.work_mem_bytes.min(GATHERED_BYTES_MAX) { self.apply(m, cx) } else { Ok(()) }
    }
    /// Changes the entries.
    pub fn apply(&mut self, m: &ModifyPlan, cx: &mut ExecContext<'_>) -> Result<()> {
        for (p, changes) in m.indexes.iter().zip(&mut self.0).filter(|(_, changes)| !changes.is_empty()) {
            changes.sort();
            let done = apply_to(p, changes, cx);
            cx.usage.wrote_index(p.oid, changes.inserted());
            changes.clear();
            done?;
        }
        Ok(())
    }
}

fn apply_to(p: &IndexPlan, changes: &mut EntryChanges, cx: &mut ExecContext<'_>) -> Result<()> {
    while !changes.is_done() {
        cx.park.checkpoint()?;
        cx.engine.pace_bulk(changes.len(), cx.park)?;
        p.relation.index_change_many(cx.txn, changes)?;
    }
    Ok(())
}
