//! Rows in the order of an index.

use super::{RowBytes, ScanProgress, ScanSource, decode_all};
use crate::context::*;
use crate::expr::Evaluate;
use crate::index;
use kilndb_base::{Error, Result, RowId};
use kilndb_catalog::temporary::is_temporary_row;
use kilndb_plan::IndexAccess;
use kilndb_storage::{Fetched, IndexScan, Isolation, Relation};
use std::ops::Bound;

#[derive(Default)]
pub(super) struct IndexCursor {
    ranges: Vec<index::KeyRange>,
    /// The number of the range that is being read.
    position: usize,
    pub scan: Option<IndexScan>,
    keys: Vec<u8>,
    ends: Vec<u32>,
    rids: Vec<RowId>,
    next: usize,
    exhausted: bool,
    /// Entries of the session's own rows of a system table that are still to come, the next one last.
    pub own: Vec<(Vec<u8>, RowId)>,
}

impl IndexCursor {
    /// Puts the own entries among those of the batch: all up to its last one, or all of them if it is the last batch.
    fn merge_own(&mut self, backward: bool) {
        let (keys, ends, rids) =
            (std::mem::take(&mut self.keys), std::mem::take(&mut self.ends), std::mem::take(&mut self.rids));
        let mut start = 0;
        for (end, rid) in ends.iter().zip(&rids) {
            let key = &keys[start..*end as usize];
            start = *end as usize;
            let comes_first =
                |(own, _): &&(Vec<u8>, RowId)| if backward { own.as_slice() > key } else { own.as_slice() < key };
            while self.own.last().filter(comes_first).is_some() {
                self.push_own();
            }
            self.push(key, *rid);
        }
        while self.exhausted && !self.own.is_empty() {
            self.push_own();
        }
    }
    fn push(&mut self, key: &[u8], rid: RowId) {
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len() as u32);
        self.rids.push(rid);
    }
    fn push_own(&mut self) {
        if let Some((key, rid)) = self.own.pop() {
            self.push(&key, rid);
        }
    }
    /// The key of an entry without the bytes at its end that name a heap.
    fn key(&self, at: usize, heap_bytes: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        self.keys.get(from..self.ends[at] as usize - heap_bytes).unwrap_or(&[])
    }
    /// Tells the scan of an entry at its start: whether its row is deleted for good, and since when.
    fn walk(&mut self, at: usize, deleted: Option<u64>) {
        let Some(scan) = &mut self.scan else { return };
        let Some(csn) = deleted else { return scan.found() };
        let from = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        let key = self.keys.get(from..self.ends[at] as usize).unwrap_or(&[]);
        if scan.passed_deleted(key, self.rids[at], csn) {
            self.rids.clear();
            self.ends.clear();
            self.keys.clear();
            self.next = 0;
            self.exhausted = false;
        }
    }
}

impl ScanProgress {
    pub(super) fn index(
        &mut self,
        source: ScanSource<'_>,
        access: &IndexAccess,
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let ScanSource { scan, leaf } = source;
        let heap = self.heap(scan, leaf)?;
        let tree = match (leaf, &access.relation) {
            (Some(leaf), _) => &leaf.index(access.index.oid)?.relation,
            (None, Some(tree)) => tree,
            (None, None) => return Err(Error::internal("an index of a partitioned table has no entries of its own")),
        };
        let suffix = tree.entries_name_heap().then(|| Relation::heap_name(heap.id()));
        if !self.started {
            self.started = true;
            let c = &mut self.cursor;
            c.ranges = index::ranges(access, tree, rt, cx)?;
            if let Some(suffix) = &suffix {
                index::narrow(access, &mut c.ranges, suffix);
            }
            index::join_equal(tree.kind(), &mut c.ranges);
            if access.backward {
                c.ranges.reverse();
            }
            c.position = 0;
            c.scan = None;
            c.rids.clear();
            c.ends.clear();
            c.keys.clear();
            c.next = 0;
            c.exhausted = true;
        }
        while !out.full() {
            let c = &mut self.cursor;
            if c.next >= c.rids.len() {
                if c.exhausted {
                    // A range is read once, so it can be moved out: a rescan makes new ones.
                    let Some(range) = c
                        .ranges
                        .get_mut(c.position)
                        .map(|range| std::mem::replace(range, (Bound::Unbounded, Bound::Unbounded)))
                    else {
                        self.done = true;
                        return Ok(());
                    };
                    c.position += 1;
                    let whole_key = access.unique_point;
                    if scan.table.is_catalog
                        && let Some(own) = cx.catalog.temporary()
                    {
                        c.own = own.entries(scan.table.oid, access.index.oid, &range);
                        // The next one is the last.
                        if !access.backward {
                            c.own.reverse();
                        }
                    }
                    self.tally.scans += 1;
                    let (lower, upper) = range;
                    let mut new = tree.index_scan_for(&cx.snapshot, lower, upper, access.backward, whole_key)?;
                    let newest = self.to_lock.is_some() && cx.txn.isolation() == Isolation::ReadCommitted;
                    if !whole_key {
                        new.leave_out_deleted((!newest).then(|| cx.snapshot.csn().0));
                    }
                    c.scan = Some(new);
                }
                c.rids.clear();
                c.ends.clear();
                c.keys.clear();
                c.next = 0;
                let Some(s) = &mut c.scan else { return Ok(()) };
                c.exhausted = !s.next_batch(&mut c.keys, &mut c.ends, &mut c.rids)?;
                if !c.own.is_empty() {
                    c.merge_own(access.backward);
                }
                cx.park.checkpoint()?;
                continue;
            }
            let at = c.next;
            c.next += 1;
            let rid = c.rids[at];
            self.tally.read += 1;
            if let Some(suffix) = &suffix
                && !c.keys.get(..c.ends[at] as usize).is_some_and(|key| key.ends_with(suffix))
            {
                // The entry belongs to another heap: the tree has those of all partitions.
                if c.scan.as_ref().is_some_and(IndexScan::walks) {
                    c.walk(at, None);
                }
                continue;
            }
            let fetched = self.fetch(scan, heap, rid, cx)?;
            if !(scan.table.is_catalog && is_temporary_row(rid))
                && self.cursor.scan.as_ref().is_some_and(IndexScan::walks)
            {
                let deleted = if fetched == Fetched::Invisible { heap.deleted_at(cx.txn, rid)? } else { None };
                self.cursor.walk(at, deleted);
            }
            match fetched {
                Fetched::Invisible => continue,
                Fetched::Visible { recheck } => {
                    let recheck = recheck || self.cursor.scan.as_ref().is_some_and(|s| s.is_retired(at));
                    let heap_bytes = suffix.map_or(0, |s| s.len());
                    if recheck {
                        let key = self.key_now(source, access, rt, cx)?;
                        if *tree.kind().kept_key(&key) != *self.cursor.key(at, heap_bytes) {
                            continue;
                        }
                    }
                }
            }
            self.tally.fetched += 1;
            self.emit(source, RowBytes::Fetched, rid, &mut out.data)?;
            Self::keep(scan, out, rt, cx)?;
            if access.unique_point && out.rows > 0 {
                self.done = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// The key that the visible version has in the index. That of the entry which led to the row may be older.
    fn key_now(
        &self,
        source: ScanSource<'_>,
        access: &IndexAccess,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Vec<u8>> {
        let ScanSource { scan, leaf } = source;
        let mut values = Vec::new();
        if let Some(leaf) = leaf {
            decode_all(&leaf.table, &self.bytes, &mut values)?;
            if access.keys.is_empty() {
                return index::plain_key(&leaf.index(access.index.oid)?.index, &values);
            }
            if let Some(columns) = &leaf.columns {
                values = columns.to_named(&values);
            }
        } else {
            decode_all(&scan.table, &self.bytes, &mut values)?;
        }
        if access.keys.is_empty() {
            return index::plain_key(&access.index, &values);
        }
        let mut key = Vec::new();
        for (k, e) in access.index.keys.iter().zip(&access.keys) {
            let d = e.eval(&values, rt, cx)?;
            index::append(k, &d, &mut key)?;
        }
        Ok(key)
    }
}
