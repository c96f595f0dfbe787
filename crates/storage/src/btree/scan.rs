//! Range scans in both directions. No latch is held between calls; a batch is copied from one leaf.
//!
//! Invariants
//! 1. The scan's position is a key, not a page: whatever happens to pages in between, it goes on after that key.
//! 2. A retired entry may lead to another row than it was made for: its row's slot may be given to a new row before the
//!    entry is purged. The scan tells which entries are retired, and the row's key must be compared with theirs,
//!    whatever the row says.
//! 3. A scan that goes on in the middle of a leaf relies on keys that do not change while they are there. An inverted
//!    index's do (a block of postings grows in its place), but never before the bound of their leaf: such trees are
//!    read by whole leaves.
//!
//! Must not know: rows, snapshots.

use super::dead_prefix::{FullKey, WORTHWHILE};
use super::node::{self, KeyAndRow};
use crate::ahead;
use crate::directory::Relation;
use crate::page::PageView;
use crate::ssi::Reader;
use crate::trace::{self, TracedOperation};
use crate::txn::Snapshot;
use kilndb_base::{Result, RowId};
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

/// Entries read first; each further batch is four times as large. Most scans are for one row, or for the first.
const FIRST_BATCH: usize = 4;
/// The largest batch: no leaf has so many, for each takes a slot.
const WHOLE_LEAF: usize = crate::page::PAGE / 2;
/// The bytes per key that buffers are made for at first.
const USUAL_KEY_BYTES: usize = 16;

/// A range scan; holds no latch between calls. Bounds compare whole keys: pass a prefix with a byte
/// appended (0xFF…) or the successor of the prefix as upper bound for prefix scans.
pub struct IndexScan {
    relation: Arc<Relation>,
    /// Entries at or after this.
    from: FullKey,
    /// Entries before this; None: to the end.
    to: Option<FullKey>,
    backward: bool,
    done: bool,
    hint: u32,
    limit: usize,
    walk: Option<DeadEntryWalk>,
    /// The serializable transaction for which the ranges read are noted.
    reader: Option<Arc<Reader>>,
    /// Places in the last batch of entries that are retired, in order.
    retired: Vec<u32>,
    /// The index is newer than the snapshot, so that entries may lead to versions with other keys.
    compares_all: bool,
}

/// Over entries at the start of a scan whose rows are deleted.
struct DeadEntryWalk {
    start: FullKey,
    snapshot_csn: Option<u64>,
    /// The CSN up to which the entries left out were deleted.
    left_out_csn: u64,
    passed: u32,
    last: FullKey,
    csn: u64,
    /// The ticket of the measurement; 0: entries are only counted so far.
    ticket: u64,
}

enum LeafOutcome {
    /// The scan goes on at this key (forward: from; backward: to) and maybe this block.
    More(FullKey, u32),
    Done,
    Go(u32),
    Restart,
    Broken,
}

impl Relation {
    pub fn index_scan(self: &Arc<Self>, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>, backward: bool) -> IndexScan {
        let from = match lower {
            Bound::Included(k) => (k, 0),
            Bound::Excluded(k) => (k, u64::MAX),
            Bound::Unbounded => (Vec::new(), 0),
        };
        let to = match upper {
            Bound::Included(k) => Some((k, u64::MAX)),
            Bound::Excluded(k) => Some((k, 0)),
            Bound::Unbounded => None,
        };
        IndexScan {
            relation: self.clone(),
            from,
            to,
            backward,
            done: false,
            hint: 0,
            limit: FIRST_BATCH,
            walk: None,
            reader: None,
            retired: Vec::new(),
            compares_all: false,
        }
    }
    /// As [`Relation::index_scan`], with bounds that are keys of rows, for reads that a serializable transaction answers for.
    /// In an index whose keys are kept otherwise there are no ranges: the lower bound is the one key that is looked for. `whole_key`: the lower bound
    /// is a key in all its columns, and the only one that is looked for.
    pub fn index_scan_for(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
        backward: bool,
        whole_key: bool,
    ) -> Result<IndexScan> {
        let snapshot = snapshot.of(self)?;
        let (lower, upper) = self.kept_bounds(lower, upper);
        let mut scan = self.index_scan(lower, upper, backward);
        scan.compares_all = self.is_newer_than(snapshot);
        if let Some(reader) = self.watched(&snapshot.reader)? {
            if whole_key {
                self.note_key(reader, &scan.from.0);
            } else {
                scan.reader = Some(reader.clone());
            }
        }
        Ok(scan)
    }
}

impl Relation {
    /// Where keys within these bounds are.
    #[inline]
    fn kept_bounds(&self, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        if self.kind.method().is_none_or(|method| method.is_ordered) {
            return (lower, upper);
        }
        let Bound::Included(key) = lower else { return (Bound::Unbounded, Bound::Unbounded) };
        let kept = self.kind.kept_key(&key).into_owned();
        (Bound::Included(kept.clone()), Bound::Included(kept))
    }
}

/// Entries at the start that lead to deleted rows: see [`super::dead_prefix`].
impl IndexScan {
    /// Lets the scan leave out dead prefixes. To be called first, by a caller that then tells of the rows with
    /// [`IndexScan::passed_deleted`] and [`IndexScan::found`]. `csn` is that of the snapshot; None: the caller wants
    /// rows in their newest committed state.
    pub fn leave_out_deleted(&mut self, csn: Option<u64>) {
        // A serializable transaction answers for the ranges it reads, with what comes into them.
        if self.backward || self.reader.is_some() {
            return;
        }
        let start = self.from.clone();
        if let Some((end, _)) = self.relation.dead_prefixes.begin(&start, csn) {
            self.from = end;
        }
        self.walk = Some(DeadEntryWalk {
            start,
            snapshot_csn: csn,
            left_out_csn: 0,
            passed: 0,
            last: FullKey::default(),
            csn: 0,
            ticket: 0,
        });
    }
    /// Does the scan want to be told of entries whose rows are deleted?
    #[inline]
    pub fn walks(&self) -> bool {
        self.walk.is_some()
    }
    /// The entry's row was deleted by a transaction that committed with this CSN. True: the scan begins once more, and
    /// the rest of the batch is to be forgotten.
    pub fn passed_deleted(&mut self, key: &[u8], rid: RowId, csn: u64) -> bool {
        let Some(walk) = &mut self.walk else { return false };
        walk.passed += 1;
        walk.csn = walk.csn.max(csn);
        if walk.ticket != 0 {
            walk.last.0.clear();
            walk.last.0.extend_from_slice(key);
            walk.last.1 = rid.to_u64();
            return false;
        }
        if walk.passed != WORTHWHILE {
            return false;
        }
        let Some((ticket, left_out)) = self.relation.dead_prefixes.measure(&walk.start, walk.snapshot_csn) else {
            return false;
        };
        walk.ticket = ticket;
        (walk.passed, walk.csn) = (0, 0);
        (self.from, walk.left_out_csn) = left_out.unwrap_or_else(|| (walk.start.clone(), 0));
        self.hint = 0;
        self.done = false;
        true
    }
    /// The entry's row is not deleted, or not for good.
    pub fn found(&mut self) {
        let Some(walk) = self.walk.take().filter(|w| w.ticket != 0) else { return };
        let found = (walk.passed > 0).then(|| ((walk.last.0, walk.last.1 + 1), walk.csn.max(walk.left_out_csn)));
        self.relation.dead_prefixes.finish(&walk.start, walk.ticket, found);
    }
}
impl Drop for IndexScan {
    fn drop(&mut self) {
        self.found();
    }
}

fn full(e: &node::NodeEntry<'_>) -> FullKey {
    (e.key.to_vec(), e.rid)
}

impl IndexScan {
    /// Makes each batch the entries of one leaf.
    pub(crate) fn by_whole_leaves(mut self) -> IndexScan {
        self.limit = WHOLE_LEAF;
        self
    }
    /// The block where a forward scan is likely to go on.
    pub(crate) fn next_leaf(&self) -> Option<u32> {
        Some(self.hint).filter(|next| *next != 0 && !self.done)
    }
    fn before_end(&self, e: &node::NodeEntry<'_>) -> bool {
        self.to.as_ref().is_none_or(|to| node::compare(e, KeyAndRow(&to.0, to.1)) == Ordering::Less)
    }
    /// Whether the entry whose row id is at this place in `rids`, after the last [`IndexScan::next_batch`], is retired, or
    /// may be for the snapshot.
    #[inline]
    pub fn is_retired(&self, at: usize) -> bool {
        self.compares_all || !self.retired.is_empty() && self.retired.binary_search(&(at as u32)).is_ok()
    }
    /// Appends up to about one leaf's entries: keys into `keys` (end offsets in `ends`) and row ids. False at the end.
    pub fn next_batch(&mut self, keys: &mut Vec<u8>, ends: &mut Vec<u32>, rids: &mut Vec<RowId>) -> Result<bool> {
        let before = rids.len();
        let has_more = if self.reader.is_some() {
            self.watched_batch(keys, ends, rids)
        } else {
            self.read_batch(keys, ends, rids)
        }?;
        trace::note(|| {
            let (tree, entries) = (self.relation.id(), rids.len() - before);
            TracedOperation::ReadEntries { tree, entries, is_backward: self.backward }
        });
        Ok(has_more)
    }
    /// The range of a batch is known when it is read: noted then, and read once more, for what came in between.
    #[cold]
    fn watched_batch(&mut self, keys: &mut Vec<u8>, ends: &mut Vec<u32>, rids: &mut Vec<RowId>) -> Result<bool> {
        let start = (keys.len(), ends.len(), rids.len());
        let (from, to) = (self.from.clone(), self.to.clone());
        let more = self.read_batch(keys, ends, rids)?;
        let range = match (self.backward, self.done) {
            (_, true) => (from, to),
            (false, false) => (from, Some(self.from.clone())),
            (true, false) => (self.to.clone().unwrap_or_default(), to),
        };
        let is_new = self.reader.as_ref().is_some_and(|reader| self.relation.note_range(reader, &range));
        if !is_new {
            return Ok(more);
        }
        keys.truncate(start.0);
        ends.truncate(start.1);
        rids.truncate(start.2);
        let (from, to) = range;
        let relation = self.relation.clone();
        let mut again = IndexScan {
            relation,
            from,
            to,
            backward: self.backward,
            done: false,
            hint: 0,
            limit: WHOLE_LEAF,
            walk: None,
            reader: None,
            retired: Vec::new(),
            compares_all: false,
        };
        self.retired.clear();
        while again.read_batch(keys, ends, rids)? {
            self.retired.append(&mut again.retired);
        }
        Ok(more || rids.len() > start.2)
    }
    #[inline]
    fn read_batch(&mut self, keys: &mut Vec<u8>, ends: &mut Vec<u32>, rids: &mut Vec<RowId>) -> Result<bool> {
        let start = (keys.len(), ends.len(), rids.len());
        if self.limit == FIRST_BATCH {
            keys.reserve(FIRST_BATCH * USUAL_KEY_BYTES);
            ends.reserve(FIRST_BATCH);
            rids.reserve(FIRST_BATCH);
        }
        let mut block = self.hint;
        let mut patience = 1_000_000u32;
        let mut retired = std::mem::take(&mut self.retired);
        retired.clear();
        while !self.done {
            patience = patience.saturating_sub(1);
            let relation = &self.relation;
            // The tree may have given up a block since it was named.
            let Some(pid) = relation.node_pid(block)?.filter(|_| patience > 0) else {
                match patience {
                    0 => return Err(relation.broken_tree(block)),
                    _ => block = 0,
                }
                continue;
            };
            let outcome = relation.core.pool.read(pid, |v| {
                keys.truncate(start.0);
                ends.truncate(start.1);
                rids.truncate(start.2);
                retired.clear();
                if !relation.is_node_in(&v, block, pid) {
                    return LeafOutcome::Restart;
                }
                if self.backward {
                    self.visit_backward(v, keys, ends, rids, &mut retired)
                } else {
                    self.visit_forward(v, keys, ends, rids, &mut retired)
                }
            })?;
            match outcome {
                LeafOutcome::Go(next) => {
                    ahead::fetch_node(relation, next);
                    block = next;
                }
                LeafOutcome::Restart if block != 0 => block = 0,
                LeafOutcome::More(key, next) => {
                    if self.backward {
                        self.to = Some(key);
                    } else {
                        self.from = key;
                    }
                    self.hint = next;
                    block = next;
                }
                LeafOutcome::Done => self.done = true,
                _ => return Err(relation.broken_tree(block)),
            }
            if rids.len() > start.2 {
                self.limit = (self.limit * 4).min(WHOLE_LEAF);
                self.retired = retired;
                return Ok(true);
            }
        }
        Ok(false)
    }
    fn visit_forward(
        &self,
        v: PageView,
        keys: &mut Vec<u8>,
        ends: &mut Vec<u32>,
        rids: &mut Vec<RowId>,
        retired: &mut Vec<u32>,
    ) -> LeafOutcome {
        let from = KeyAndRow(&self.from.0, self.from.1);
        match node::side(&v, from) {
            node::FenceSide::Left => return LeafOutcome::Restart,
            node::FenceSide::Right => return LeafOutcome::Go(node::right(&v)),
            node::FenceSide::Inside => {}
        }
        if node::level(&v) > 0 {
            return match node::entry(&v, node::child_index(&v, from)) {
                Some(e) if e.child != 0 => LeafOutcome::Go(e.child),
                _ => LeafOutcome::Broken,
            };
        }
        let first = node::lower_bound(&v, from);
        for idx in first..node::count(&v) {
            let Some(e) = node::entry(&v, idx) else { return LeafOutcome::Broken };
            if !self.before_end(&e) {
                return LeafOutcome::Done;
            }
            if idx - first >= self.limit {
                return LeafOutcome::More(full(&e), u32::MAX).with_block(&v);
            }
            keys.extend_from_slice(e.key);
            ends.push(keys.len() as u32);
            if e.stamp & node::RETIRED != 0 {
                retired.push(rids.len() as u32);
            }
            rids.push(RowId::from_u64(e.rid));
        }
        match node::high(&v) {
            Some(high) if self.before_end(&high) => LeafOutcome::More(full(&high), node::right(&v)),
            _ => LeafOutcome::Done,
        }
    }
    fn visit_backward(
        &self,
        v: PageView,
        keys: &mut Vec<u8>,
        ends: &mut Vec<u32>,
        rids: &mut Vec<RowId>,
        retired: &mut Vec<u32>,
    ) -> LeafOutcome {
        // Covers the entry before `to`: low < to ≤ high.
        let n = node::count(&v);
        let bound = match &self.to {
            None => {
                if node::high(&v).is_some() {
                    return LeafOutcome::Go(node::right(&v));
                }
                n
            }
            Some(to) => {
                let key = KeyAndRow(&to.0, to.1);
                if node::low(&v).is_some_and(|e| node::compare(&e, key) != Ordering::Less) {
                    return LeafOutcome::Restart;
                }
                if node::high(&v).is_some_and(|e| node::compare(&e, key) == Ordering::Less) {
                    return LeafOutcome::Go(node::right(&v));
                }
                node::lower_bound(&v, key)
            }
        };
        if node::level(&v) > 0 {
            return match node::entry(&v, bound.max(1) - 1) {
                Some(e) if e.child != 0 => LeafOutcome::Go(e.child),
                _ => LeafOutcome::Broken,
            };
        }
        let from = KeyAndRow(&self.from.0, self.from.1);
        for (taken, idx) in (0..bound).rev().enumerate() {
            let Some(e) = node::entry(&v, idx) else { return LeafOutcome::Broken };
            if node::compare(&e, from) == Ordering::Less {
                return LeafOutcome::Done;
            }
            if taken >= self.limit {
                // A backward scan goes on before the entry taken last.
                return match node::entry(&v, idx + 1) {
                    Some(last) => LeafOutcome::More(full(&last), u32::MAX).with_block(&v),
                    None => LeafOutcome::Broken,
                };
            }
            keys.extend_from_slice(e.key);
            ends.push(keys.len() as u32);
            if e.stamp & node::RETIRED != 0 {
                retired.push(rids.len() as u32);
            }
            rids.push(RowId::from_u64(e.rid));
        }
        match node::low(&v) {
            Some(low) if node::compare(&low, from) == Ordering::Greater => LeafOutcome::More(full(&low), 0),
            _ => LeafOutcome::Done,
        }
    }
}
impl LeafOutcome {
    /// There are more entries in the same block.
    fn with_block(self, v: &PageView) -> LeafOutcome {
        match self {
            LeafOutcome::More(key, _) => LeafOutcome::More(key, v.u32(crate::page::at::BLOCK)),
            other => other,
        }
    }
}
