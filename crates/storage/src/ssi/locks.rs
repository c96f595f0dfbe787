//! SIREAD locks: what serializable transactions have read. They block nobody; writers look for them.
//!
//! Invariants
//! 1. A writer changes the page first and looks for readers afterwards; a reader notes its lock first and reads (or
//!    compares) afterwards, both under the mutex of the same target. So one of the two finds the other.
//! 2. A coarser lock is there before the finer ones go, and writers look from the finest to the coarsest: promotion
//!    hides no lock.
//! 3. A reader holds no more than its limits: beyond them rows become pages, pages tables, keys and ranges whole
//!    indexes.
//! 4. Mutexes: a reader's own list, then a target's; never two targets', and not the graph's inside.
//!
//! Must not know: what a conflict means.

use super::Reader;
use super::ranges::{FullKey, KeyRange, OwnRanges, RangeMap, is_empty};
use crate::directory::{Directory, Relation};
use kilndb_base::RowId;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU32, Ordering::*, fence};
use kilndb_base::sync::{Arc, Mutex};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

const SHARDS: usize = 256;

/// How many locks a transaction may hold before they become coarser, as PostgreSQL's settings say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLockLimits {
    /// `max_pred_locks_per_transaction`
    pub per_transaction: i64,
    /// `max_pred_locks_per_relation`: negative is a fraction of `per_transaction`
    pub per_relation: i64,
    /// `max_pred_locks_per_page`
    pub per_page: i64,
    /// Committed transactions that are remembered one by one.
    pub remembered: usize,
}
impl Default for ReadLockLimits {
    fn default() -> ReadLockLimits {
        ReadLockLimits { per_transaction: 64, per_relation: -2, per_page: 2, remembered: 1000 }
    }
}
/// Keys and ranges count less than rows: a lock of PostgreSQL's on an index is a whole page.
const KEYS_PER_LOCK: usize = 16;

#[derive(Default)]
pub(super) struct EscalationLimits {
    per_relation: AtomicU32,
    per_page: AtomicU32,
}
impl EscalationLimits {
    pub fn set(&self, given: &ReadLockLimits) {
        let per_relation = match given.per_relation {
            n if n < 0 => given.per_transaction / -n - 1,
            n => n,
        };
        self.per_relation.store(per_relation.clamp(0, i64::from(u32::MAX)) as u32, Relaxed);
        self.per_page.store(given.per_page.clamp(0, i64::from(u32::MAX)) as u32, Relaxed);
    }
    fn rows(&self, reader: &Reader) -> usize {
        // A reader that stands for many transactions may hold more.
        self.per_relation.load(Relaxed) as usize * if reader.stands_for_many { 64 } else { 1 }
    }
    fn keys(&self, reader: &Reader) -> usize {
        (self.rows(reader) + 1) * KEYS_PER_LOCK
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum ReadTarget {
    Row(u32, u64),
    Page(u32, u32),
    /// A whole key of an index, by its hash.
    Key(u32, u64),
}

type ReadLockShard = Mutex<kilndb_base::hash::HashMap<ReadTarget, Vec<Arc<Reader>>>>;

pub(super) struct LockTable {
    shards: Vec<ReadLockShard>,
}
impl Default for LockTable {
    fn default() -> LockTable {
        LockTable { shards: (0..SHARDS).map(|_| ReadLockShard::default()).collect() }
    }
}
fn hash_of(value: &impl std::hash::Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
impl LockTable {
    fn shard(&self, target: &ReadTarget) -> &ReadLockShard {
        &self.shards[(hash_of(target) % SHARDS as u64) as usize]
    }
    fn add(&self, target: ReadTarget, reader: &Arc<Reader>) {
        let mut shard = crate::lock(self.shard(&target));
        let readers = shard.entry(target).or_default();
        if !readers.iter().any(|r| Arc::ptr_eq(r, reader)) {
            readers.push(reader.clone());
        }
    }
    fn remove(&self, target: ReadTarget, reader: &Arc<Reader>) {
        let mut shard = crate::lock(self.shard(&target));
        if let Some(readers) = shard.get_mut(&target) {
            readers.retain(|r| !Arc::ptr_eq(r, reader));
            if readers.is_empty() {
                shard.remove(&target);
            }
        }
    }
    fn collect(&self, target: ReadTarget, found: &mut Vec<Arc<Reader>>) {
        if let Some(readers) = crate::lock(self.shard(&target)).get(&target) {
            found.extend(readers.iter().cloned());
        }
    }
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|s| crate::lock(s).is_empty())
    }
}

/// Locks on a relation as a whole, and on ranges of an index.
#[derive(Default)]
pub(crate) struct RelationReads {
    whole: Mutex<Vec<Arc<Reader>>>,
    whole_count: AtomicU32,
    ranges: Mutex<RangeMap>,
    range_count: AtomicU32,
    /// System tables and temporary ones: not under snapshots that serializability is promised for.
    pub(crate) excluded: AtomicBool,
}
impl RelationReads {
    fn add_whole(&self, reader: &Arc<Reader>) {
        let mut whole = crate::lock(&self.whole);
        if !whole.iter().any(|r| Arc::ptr_eq(r, reader)) {
            whole.push(reader.clone());
            self.whole_count.fetch_add(1, SeqCst);
        }
        drop(whole);
        fence(SeqCst);
    }
    fn remove_whole(&self, reader: &Arc<Reader>) {
        let mut whole = crate::lock(&self.whole);
        if let Some(at) = whole.iter().position(|r| Arc::ptr_eq(r, reader)) {
            whole.swap_remove(at);
            self.whole_count.fetch_sub(1, SeqCst);
        }
    }
    fn add_range(&self, reader: &Arc<Reader>, range: &KeyRange, joined: &[KeyRange]) {
        self.range_count.fetch_add(1, SeqCst);
        crate::lock(&self.ranges).add(reader, range, joined);
        self.range_count.fetch_sub(joined.len() as u32, SeqCst);
        fence(SeqCst);
    }
    fn remove_range(&self, reader: &Arc<Reader>, range: &KeyRange) {
        crate::lock(&self.ranges).remove(reader, range);
        self.range_count.fetch_sub(1, SeqCst);
    }
}

/// The locks that a reader holds in one relation.
#[derive(Default)]
struct RelationReadLocks {
    whole: bool,
    /// The locks by block: the slots, or None for the whole page.
    pages: kilndb_base::hash::HashMap<u32, Option<Vec<u16>>>,
    /// The number of locks in `pages`.
    rows: usize,
    keys: kilndb_base::hash::HashSet<u64>,
    ranges: OwnRanges,
}
/// The list that a reader keeps of its own locks.
#[derive(Default)]
pub(crate) struct OwnReadLocks {
    relations: kilndb_base::hash::HashMap<u32, RelationReadLocks>,
    /// No further locks are noted, because the reader does not matter any more.
    closed: bool,
}

/// One SIREAD lock, for pg_locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLockInfo {
    pub relation: kilndb_base::RelationId,
    pub kind: ReadLockKind,
    /// The number of the transaction's session; None: it stands for several that have ended.
    pub session: Option<u64>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLockKind {
    Relation,
    Page(u32),
    Row(RowId),
    /// A key or a range of keys of an index.
    KeyRange,
}

pub(super) struct ReadLocks {
    pub table: LockTable,
    pub limits: EscalationLimits,
}

impl ReadLocks {
    /// Locks a row. True if the lock is new: then a version that was read before may be outdated.
    pub fn lock_row(&self, reader: &Arc<Reader>, relation: &Relation, rid: RowId) -> bool {
        let mut held = crate::lock(&reader.held);
        if held.closed {
            return false;
        }
        let here = held.relations.entry(relation.id).or_default();
        let per_page = self.limits.per_page.load(Relaxed) as usize;
        if here.whole {
            return false;
        }
        let mut coarser = false;
        match here.pages.entry(rid.block).or_insert_with(|| Some(Vec::new())) {
            None => return false,
            Some(slots) if slots.contains(&rid.slot) => return false,
            Some(slots) if slots.len() >= per_page => coarser = true,
            Some(slots) => slots.push(rid.slot),
        }
        if coarser {
            self.lock_page_of(reader, here, relation.id, rid.block);
        } else {
            here.rows += 1;
            self.table.add(ReadTarget::Row(relation.id, rid.to_u64()), reader);
        }
        if here.rows > self.limits.rows(reader) {
            self.make_whole(reader, here, relation);
        }
        true
    }
    fn lock_page_of(&self, reader: &Arc<Reader>, here: &mut RelationReadLocks, relation: u32, block: u32) {
        self.table.add(ReadTarget::Page(relation, block), reader);
        here.rows += 1;
        if let Some(slots) = here.pages.insert(block, None).flatten() {
            here.rows -= slots.len();
            slots.iter().for_each(|slot| self.table.remove(row_target(relation, block, *slot), reader));
        }
    }
    pub(crate) fn lock_whole(&self, reader: &Arc<Reader>, relation: &Relation) {
        let mut held = crate::lock(&reader.held);
        if held.closed {
            return;
        }
        let here = held.relations.entry(relation.id).or_default();
        if !here.whole {
            self.make_whole(reader, here, relation);
        }
    }
    fn make_whole(&self, reader: &Arc<Reader>, here: &mut RelationReadLocks, relation: &Relation) {
        relation.reads.add_whole(reader);
        self.drop_parts(reader, here, relation.id, Some(relation));
        here.whole = true;
    }
    fn drop_parts(&self, reader: &Arc<Reader>, here: &mut RelationReadLocks, id: u32, relation: Option<&Relation>) {
        for (block, slots) in here.pages.drain() {
            match slots {
                None => self.table.remove(ReadTarget::Page(id, block), reader),
                Some(slots) => slots.iter().for_each(|slot| self.table.remove(row_target(id, block, *slot), reader)),
            }
        }
        here.rows = 0;
        here.keys.drain().for_each(|hash| self.table.remove(ReadTarget::Key(id, hash), reader));
        let ranges = std::mem::take(&mut here.ranges);
        if let Some(relation) = relation {
            ranges.iter().for_each(|range| relation.reads.remove_range(reader, &range));
        }
    }
    /// Locks a key of an index, in all its columns.
    pub(crate) fn lock_key(&self, reader: &Arc<Reader>, index: &Relation, key: &[u8]) {
        let mut held = crate::lock(&reader.held);
        if held.closed {
            return;
        }
        let here = held.relations.entry(index.id).or_default();
        let hash = hash_of(&key);
        if here.whole || !here.keys.insert(hash) {
            return;
        }
        self.table.add(ReadTarget::Key(index.id, hash), reader);
        if here.keys.len() + here.ranges.len() > self.limits.keys(reader) {
            self.make_whole(reader, here, index);
        }
    }
    /// Locks a range of keys. True if a part of it is new: then entries that were read before may be outdated.
    pub(crate) fn lock_range(&self, reader: &Arc<Reader>, index: &Relation, range: &KeyRange) -> bool {
        let mut held = crate::lock(&reader.held);
        if held.closed || is_empty(range) {
            return false;
        }
        let here = held.relations.entry(index.id).or_default();
        if here.whole || here.ranges.covers(range) {
            return false;
        }
        let joined = here.ranges.add(range);
        index.reads.add_range(reader, range, &joined);
        if here.keys.len() + here.ranges.len() > self.limits.keys(reader) {
            self.make_whole(reader, here, index);
        }
        true
    }
    /// The reader has written the row: nobody else can unseen.
    pub(crate) fn unlock_row(&self, reader: &Arc<Reader>, relation: &Relation, rid: RowId) {
        let mut held = crate::lock(&reader.held);
        let Some(here) = held.relations.get_mut(&relation.id) else { return };
        let Some(Some(slots)) = here.pages.get_mut(&rid.block) else { return };
        if let Some(at) = slots.iter().position(|slot| *slot == rid.slot) {
            slots.swap_remove(at);
            here.rows -= 1;
            if slots.is_empty() {
                here.pages.remove(&rid.block);
            }
            self.table.remove(ReadTarget::Row(relation.id, rid.to_u64()), reader);
        }
    }
    /// The readers of the row, of its page (unless the row is new) or of the table. A lock on the row is one on the
    /// version that its reader sees: if the version replaced is a later one, the reader has its edge to the transaction
    /// that made the first of those, and needs no other (README-SSI of PostgreSQL has the proof).
    pub(crate) fn readers_of_row(
        &self,
        relation: &Relation,
        rid: RowId,
        replaced_csn: Option<u64>,
        found: &mut Vec<Arc<Reader>>,
    ) {
        fence(SeqCst);
        if let Some(replaced) = replaced_csn {
            self.table.collect(ReadTarget::Row(relation.id, rid.to_u64()), found);
            found.retain(|r| r.stands_for_many || r.snapshot_csn.load(Relaxed) >= replaced);
            self.table.collect(ReadTarget::Page(relation.id, rid.block), found);
        }
        self.readers_of_whole(relation, found);
    }
    pub(crate) fn readers_of_key(&self, index: &Relation, entry: &FullKey, found: &mut Vec<Arc<Reader>>) {
        fence(SeqCst);
        self.table.collect(ReadTarget::Key(index.id, hash_of(&index.unique_part(&entry.0))), found);
        if index.reads.range_count.load(SeqCst) != 0 {
            found.extend(crate::lock(&index.reads.ranges).readers_of(entry).iter().cloned());
        }
        self.readers_of_whole(index, found);
    }
    fn readers_of_whole(&self, relation: &Relation, found: &mut Vec<Arc<Reader>>) {
        if relation.reads.whole_count.load(SeqCst) != 0 {
            found.extend(crate::lock(&relation.reads.whole).iter().cloned());
        }
    }
    /// The reader's locks go, and it gets no new ones.
    pub fn release(&self, reader: &Arc<Reader>, directory: &Directory) {
        let mut held = crate::lock(&reader.held);
        held.closed = true;
        for (id, mut here) in std::mem::take(&mut held.relations) {
            let relation = directory.get(id);
            self.drop_parts(reader, &mut here, id, relation.as_deref());
            if let Some(relation) = relation.filter(|_| here.whole) {
                relation.reads.remove_whole(reader);
            }
        }
    }
    /// Moves the locks of one reader to another.
    pub fn fold(&self, from: &Arc<Reader>, into: &Arc<Reader>, directory: &Directory) {
        let mut copies: Vec<(Arc<Relation>, CopiedLock)> = Vec::new();
        for (id, here) in &crate::lock(&from.held).relations {
            let Some(relation) = directory.get(*id) else { continue };
            if here.whole {
                copies.push((relation, CopiedLock::Whole));
                continue;
            }
            for (block, slots) in &here.pages {
                match slots {
                    None => copies.push((relation.clone(), CopiedLock::Page(*block))),
                    Some(slots) => {
                        let rows = slots.iter().map(|slot| RowId { block: *block, slot: *slot });
                        copies.extend(rows.map(|rid| (relation.clone(), CopiedLock::Row(rid))));
                    }
                }
            }
            copies.extend(here.keys.iter().map(|hash| (relation.clone(), CopiedLock::Key(*hash))));
            copies.extend(here.ranges.iter().map(|range| (relation.clone(), CopiedLock::Range(range))));
        }
        for (relation, copied) in copies {
            match copied {
                CopiedLock::Whole => self.lock_whole(into, &relation),
                CopiedLock::Row(rid) => {
                    self.lock_row(into, &relation, rid);
                }
                CopiedLock::Range(range) => {
                    self.lock_range(into, &relation, &range);
                }
                CopiedLock::Page(_) | CopiedLock::Key(_) => self.lock_copied(into, &relation, &copied),
            }
        }
        self.release(from, directory);
    }
    fn lock_copied(&self, reader: &Arc<Reader>, relation: &Relation, copied: &CopiedLock) {
        let mut held = crate::lock(&reader.held);
        let here = held.relations.entry(relation.id).or_default();
        if here.whole {
            return;
        }
        match copied {
            CopiedLock::Page(block) if here.pages.get(block) != Some(&None) => {
                self.lock_page_of(reader, here, relation.id, *block)
            }
            CopiedLock::Key(hash) if here.keys.insert(*hash) => {
                self.table.add(ReadTarget::Key(relation.id, *hash), reader)
            }
            _ => {}
        }
        if here.rows > self.limits.rows(reader) || here.keys.len() + here.ranges.len() > self.limits.keys(reader) {
            self.make_whole(reader, here, relation);
        }
    }
    pub(crate) fn holds_in(&self, reader: &Reader, relation: u32) -> bool {
        let held = crate::lock(&reader.held);
        held.relations.get(&relation).is_some_and(|h| h.whole || h.rows > 0 || !h.keys.is_empty() || h.ranges.len() > 0)
    }
    pub fn list(&self, reader: &Reader, all: &mut Vec<ReadLockInfo>) {
        let session = (!reader.stands_for_many).then_some(reader.session);
        for (id, here) in &crate::lock(&reader.held).relations {
            let mut push = |kind| all.push(ReadLockInfo { relation: kilndb_base::RelationId(*id), kind, session });
            if here.whole {
                push(ReadLockKind::Relation);
            }
            for (block, slots) in &here.pages {
                match slots {
                    None => push(ReadLockKind::Page(*block)),
                    Some(slots) => {
                        slots.iter().for_each(|slot| push(ReadLockKind::Row(RowId { block: *block, slot: *slot })))
                    }
                }
            }
            (0..here.keys.len() + here.ranges.len()).for_each(|_| push(ReadLockKind::KeyRange));
        }
    }
}

enum CopiedLock {
    Whole,
    Page(u32),
    Row(RowId),
    Key(u64),
    Range(KeyRange),
}

fn row_target(relation: u32, block: u32, slot: u16) -> ReadTarget {
    ReadTarget::Row(relation, RowId { block, slot }.to_u64())
}
