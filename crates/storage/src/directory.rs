//! The directory: which relations exist, and where their pages are.
//!
//! Invariants
//! 1. Extent i of a relation has 1, 1, 2, 4, … 512, 1024, 1024, … pages; block → page is arithmetic and one load.
//! 2. Blocks below `pages()` are formatted, in order: the log has their Init records in block order.
//! 3. Temporary relations are never logged; of unlogged ones only their existence is.
//! 4. Before the pages of a relation are given to another owner, the log says that the relation is gone, and from
//!    before that record on no checkpoint notes it. So no page has two owners, whatever part of the log a crash leaves.
//!
//! Must not know: what is in the pages.

use crate::api::{Persistence, RelationKind};
use crate::btree::dead_prefix::DeadPrefixes;
use crate::btree::shrink_queue::TreeChanges;
use crate::buffer::WriteGuard;
use crate::changed_rows::ChangedRows;
use crate::core::Core;
use crate::image::RelationImage;
use crate::page::{self, PageView, at};
use crate::space::Space;
use crate::ssi::locks::RelationReads;
use crate::wal::record::{PageOp, PageTarget, Record, encode};
use kilndb_base::hash::HashMap;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::prefetch::LINE_BYTES;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use kilndb_base::sync::{Arc, Mutex, OnceLock, RwLock};
use kilndb_base::{Error, RelationId, Result, sqlstate};
use std::any::Any;

const MOST_HINTS: usize = 1024;
/// The number that stands in place of a tree's heap if the tree has entries of several heaps: the key of each entry
/// ends with the number of its heap.
const NAMED_BY_ENTRIES: u32 = u32::MAX;
pub(crate) const HEAP_NAME_BYTES: usize = 4;
const INLINE: usize = 24;
const LEAF: usize = 4096;
type ExtentLeaf = OnceLock<Box<[AtomicU32]>>;

#[derive(Default)]
#[repr(C)]
struct Extents {
    inline: [AtomicU32; INLINE],
    more: OnceLock<Box<[ExtentLeaf]>>,
}
impl Extents {
    fn slot(&self, index: usize, make: bool) -> Option<&AtomicU32> {
        if index < INLINE {
            return self.inline.get(index);
        }
        let more = match self.more.get() {
            Some(m) => m,
            None if make => self.more.get_or_init(|| (0..1024).map(|_| OnceLock::new()).collect()),
            None => return None,
        };
        let leaf = more.get(index / LEAF)?;
        let leaf = match leaf.get() {
            Some(l) => l,
            None if make => leaf.get_or_init(|| (0..LEAF).map(|_| AtomicU32::new(0)).collect()),
            None => return None,
        };
        leaf.get(index % LEAF)
    }
}
/// The index of a block's extent, and the block's offset in it.
#[inline]
pub(crate) fn locate(block: u32) -> (usize, u32) {
    match block {
        0 => (0, 0),
        1..1024 => {
            let k = block.ilog2();
            (k as usize + 1, block - (1 << k))
        }
        _ => (11 + (block as usize - 1024) / 1024, (block - 1024) % 1024),
    }
}
/// The block that is so far into an extent: what [`locate`] takes apart.
pub(crate) fn block_at(index: usize, offset: u32) -> u32 {
    match index {
        0 => offset,
        1..=10 => (1 << (index - 1)) + offset,
        _ => 1024 + (index as u32 - 11) * 1024 + offset,
    }
}
pub(crate) fn extent_pages(index: usize) -> u32 {
    match index {
        0 => 1,
        1..=10 => 1 << (index - 1),
        _ => 1024,
    }
}

const FEW_TARGETS: usize = 4;

/// The number that stands in place of the dropping transaction if a relation goes whatever becomes of any transaction.
pub(crate) const GONE: u64 = u64::MAX;

/// Private relations of so many extents leave their memory to the next ones.
const SMALL_EXTENTS: usize = 5;

/// The state that an index's method has in memory, made when it is first asked for.
#[derive(Default)]
pub(crate) struct MethodMemory(OnceLock<Box<dyn Any + Send + Sync>>);
impl MethodMemory {
    /// The state as `T`. None: the relation is of another method, whose state is of another type.
    pub(crate) fn of<T: Default + Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get_or_init(|| Box::new(T::default())).downcast_ref()
    }
}

/// A storage relation, cheap to keep in a cached plan. What every statement looks at comes first: among thousands of
/// relations each is in no cache of the processor, and one line is asked for ahead, with the one behind it
/// ([`crate::ahead`]).
#[repr(C, align(64))]
pub struct Relation {
    pub(crate) core: Arc<Core>,
    pub(crate) id: u32,
    pub(crate) kind: RelationKind,
    pub(crate) persistence: Persistence,
    pub(crate) dropped: AtomicBool,
    /// Somebody wants to know which rows change: see [`crate::heap::watch`].
    pub(crate) is_watched: AtomicBool,
    pub(crate) blocks: AtomicU32,
    /// The heap of an index, if known (for the checker).
    pub(crate) heap: AtomicU32,
    /// Insertion target of the first workers, block + 1.
    targets: [AtomicU32; FEW_TARGETS],
    /// The image of a relation that is kept at checkpoints.
    pub(crate) image: Option<Box<RelationImage>>,
    pub(crate) dead_prefixes: DeadPrefixes,
    extents: Extents,
    more_targets: Box<[AtomicU32]>,
    /// The transaction that made it, until that commits.
    pub(crate) creator: AtomicU64,
    /// The transaction that drops it when it commits, or [`GONE`].
    pub(crate) doomed: AtomicU64,
    /// The transaction that is going to drop the relation, until it commits.
    pub(crate) dropper: AtomicU64,
    extend: Mutex<()>,
    /// Blocks with room (heap), or out of use (tree).
    pub(crate) hints: Mutex<Vec<u32>>,
    /// Blocks that may have room without a hint: hints are not kept over a restart, and not without limit.
    unseen: Mutex<std::ops::Range<u32>>,
    /// The contents that an unlogged cell has after a crash.
    pub(crate) initial: Mutex<Vec<u8>>,
    pub(crate) method_state: MethodMemory,
    /// The serializable transactions that have read the whole relation, or ranges of it.
    pub(crate) reads: RelationReads,
    /// The relation is an index with exactly one entry for each row of its heap or heaps, which the checker relies on.
    pub(crate) has_all_rows: AtomicBool,
    pub(crate) changed_rows: Mutex<Option<Arc<ChangedRows>>>,
    /// The relation is an index that was made of what this CSN sees: see [`Relation::set_made_of`].
    pub(crate) made_of_csn: AtomicU64,
    pub(crate) tree_changes: TreeChanges,
    /// Free blocks from this one on are about to be given up.
    usable_blocks: AtomicU32,
}

const _: () = assert!(std::mem::offset_of!(Relation, extents) == LINE_BYTES);

impl Relation {
    /// The block where the worker's last row went, plus one; 0: none yet.
    pub(crate) fn insertion_target(&self, worker: usize) -> &AtomicU32 {
        let beyond = worker.checked_sub(FEW_TARGETS).filter(|_| !self.more_targets.is_empty());
        beyond.map_or_else(|| &self.targets[worker % FEW_TARGETS], |n| &self.more_targets[n % self.more_targets.len()])
    }
    pub fn id(&self) -> RelationId {
        RelationId(self.id)
    }
    pub fn pages(&self) -> u32 {
        self.blocks.load(Acquire)
    }
    pub fn kind(&self) -> RelationKind {
        self.kind
    }
    pub fn persistence(&self) -> Persistence {
        self.persistence
    }
    /// For an index: which heap its row ids lead to. Lets the checker compare the two. A row has one entry at most, but
    /// for inverted indexes.
    pub fn set_heap(&self, heap: RelationId) {
        self.set_heap_as(heap, false);
    }
    /// Sets the heap of an index that has exactly one entry for each row of the heap. A partial index is none.
    pub fn set_heap_of_all_rows(&self, heap: RelationId) {
        self.set_heap_as(heap, true);
    }
    fn set_heap_as(&self, heap: RelationId, has_all_rows: bool) {
        let had = (self.heap.swap(heap.0, Relaxed), self.has_all_rows.swap(has_all_rows, Relaxed));
        if had != (heap.0, has_all_rows) && (self.logged() || self.image.is_some()) {
            self.core.log.append(&encode(&Record::Belongs { rel: self.id, heap: heap.0, has_all_rows }));
        }
    }
    /// Has the index one entry for each row? See [`Relation::set_heap_of_all_rows`].
    pub fn has_all_rows(&self) -> bool {
        self.has_all_rows.load(Relaxed)
    }
    /// For an index of several heaps: the key of an entry ends with [`Relation::heap_name`] of its heap, which does not
    /// count for uniqueness. Before the first entry.
    pub fn set_entries_name_heap(&self) {
        self.set_heap(RelationId(NAMED_BY_ENTRIES));
    }
    /// Notes that an index of several heaps has exactly one entry for each row of these. A partial index has not. The
    /// checker relies on it.
    pub fn set_entries_name_heap_of_all_rows(&self) {
        self.set_heap_of_all_rows(RelationId(NAMED_BY_ENTRIES));
    }
    pub fn entries_name_heap(&self) -> bool {
        self.heap.load(Relaxed) == NAMED_BY_ENTRIES
    }
    /// The bytes that the keys of a heap's entries end with in an index of several heaps.
    pub fn heap_name(heap: RelationId) -> [u8; HEAP_NAME_BYTES] {
        heap.0.to_be_bytes()
    }
    /// The heap that an entry of this index leads to.
    pub(crate) fn heap_of_entry(&self, key: &[u8]) -> u32 {
        match self.heap.load(Relaxed) {
            NAMED_BY_ENTRIES => key.last_chunk().map_or(0, |name| u32::from_be_bytes(*name)),
            heap => heap,
        }
    }
    /// The part of a key that must be unique, which is also the part that a serializable transaction looks for.
    pub(crate) fn unique_part<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        if self.entries_name_heap() { &key[..key.len().saturating_sub(HEAP_NAME_BYTES)] } else { key }
    }
    pub(crate) fn logged(&self) -> bool {
        self.persistence == Persistence::Logged
    }
    fn page_flags(&self) -> u8 {
        match self.persistence {
            Persistence::Logged => 0,
            Persistence::Unlogged | Persistence::Kept => page::FLAG_UNLOGGED,
            Persistence::Temporary => page::FLAG_TEMPORARY,
        }
    }
    pub(crate) fn target(&self, block: u32) -> PageTarget {
        PageTarget { rel: self.id, block }
    }
    /// The page of a block, whether formatted or not.
    #[inline]
    pub(crate) fn pid_raw(&self, block: u32) -> Option<u32> {
        let (index, off) = locate(block);
        let start = self.extents.slot(index, false)?.load(Acquire);
        (start != 0).then(|| start + off)
    }
    #[inline]
    pub(crate) fn pid(&self, block: u32) -> Result<u32> {
        match self.pid_raw(block) {
            Some(pid) if block < self.blocks.load(Acquire) && !self.dropped.load(Relaxed) => Ok(pid),
            _ => Err(self.no_block(block)),
        }
    }
    #[cold]
    fn no_block(&self, block: u32) -> Error {
        if self.dropped.load(Relaxed) {
            return Error::new(sqlstate::UNDEFINED_TABLE, format!("storage relation {} was dropped", self.id));
        }
        Error::corrupted(format!("storage relation {} has no block {block}", self.id))
    }
    pub(crate) fn set_extent(&self, index: usize, start: u32) {
        if let Some(slot) = self.extents.slot(index, true) {
            slot.store(start, Release);
        }
    }
    pub(crate) fn extent_list(&self) -> Vec<u32> {
        let mut list = Vec::new();
        while let Some(start) = self.extents.slot(list.len(), false).map(|s| s.load(Acquire)).filter(|&s| s != 0) {
            list.push(start);
        }
        list
    }
    /// Appends a formatted block to the relation.
    pub(crate) fn extend(&self, level: u8) -> Result<(u32, WriteGuard<'_>)> {
        let core = &*self.core;
        let _one = crate::lock(&self.extend);
        let block = self.blocks.load(Relaxed);
        if self.dropped.load(Relaxed) || block == u32::MAX {
            return Err(self.no_block(block));
        }
        let (index, off) = locate(block);
        let start = match self.extents.slot(index, true) {
            None => return Err(Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "relation is full")),
            Some(slot) => match slot.load(Acquire) {
                0 => {
                    let start = core.pool.take_pages(&core.directory.space, extent_pages(index))?;
                    assert!(start != 0, "page 0 is nobody's");
                    // The extent is noted in memory before it is logged: a checkpoint in between may note it twice, but
                    // never misses it.
                    slot.store(start, Release);
                    if self.logged() {
                        core.log.append(&encode(&Record::Extent { rel: self.id, index: index as u32, start }));
                    }
                    start
                }
                start => start,
            },
        };
        let mut guard = core.pool.write_new(start + off)?;
        guard.bytes()[at::FLAGS] = self.page_flags();
        let kind = self.kind.page_kind();
        // Readers of the new block wait for its latch, which is still held.
        self.blocks.store(block + 1, Release);
        core.emit_plain(self, 0, &[(self.target(block), PageOp::Init { kind, level })], &[0], &mut [&mut guard])?;
        if !self.logged() {
            // The relation that owned the page before must be gone for good before this write overwrites the page on
            // disk.
            let lsn = core.log.insert_lsn();
            page::set_lsn(guard.bytes(), lsn);
        }
        Ok((block, guard))
    }
    /// Gives up blocks at the end of the relation: `most` at once, none before `least`, and only as long as `is_unused`
    /// says that they are free; they become no others meanwhile. Their pages stay in memory as they are, free, until
    /// another owner formats them: whoever still has such a block's number must not read from the disk what the page was
    /// earlier. True: there may be more of them.
    pub(crate) fn cut_off(
        &self,
        least: u32,
        most: u32,
        mut is_unused: impl FnMut(u32) -> Result<bool>,
    ) -> Result<bool> {
        let _no_extension = crate::lock(&self.extend);
        let blocks = self.blocks.load(Relaxed);
        let floor = least.max(blocks.saturating_sub(most));
        if self.dropped.load(Relaxed) || floor >= blocks {
            return Ok(false);
        }
        self.usable_blocks.store(floor, SeqCst);
        let mut end = blocks;
        let outcome = loop {
            match (end > floor).then(|| is_unused(end - 1)) {
                Some(Ok(true)) => end -= 1,
                Some(Err(e)) => break Err(e),
                _ => break Ok(end == floor && floor > least),
            }
        };
        if end < blocks {
            self.end_at(end);
        }
        self.usable_blocks.store(u32::MAX, SeqCst);
        outcome
    }
    /// May a free block be used?
    pub(crate) fn is_usable(&self, block: u32) -> bool {
        block < self.usable_blocks.load(SeqCst)
    }
    /// Logs that the relation ends at this block, and gives up what lies behind it. The caller keeps it from growing.
    fn end_at(&self, end: u32) {
        let core = &*self.core;
        let mut given_up = Vec::new();
        // In one step with the record: a checkpoint that begins behind it notes the relation without these blocks.
        let mut forget = || given_up = self.forget_blocks(end);
        if self.logged() {
            core.log.append_then(&encode(&Record::Truncate { rel: self.id, blocks: end }), forget);
        } else {
            forget();
        }
        for (index, start) in given_up {
            crate::lock(&core.directory.space).give(start, extent_pages(index));
        }
        crate::lock(&self.hints).retain(|block| *block < end);
    }
    /// The relation has no blocks from `end` on. The result is the extents behind it, by their indexes and first pages.
    pub(crate) fn forget_blocks(&self, end: u32) -> Vec<(usize, u32)> {
        self.blocks.fetch_min(end, SeqCst);
        let (index, offset) = locate(end);
        let first = index + usize::from(offset > 0);
        let list = self.extent_list();
        // From the last one on: the list ends where there is none.
        let given_up: Vec<_> = list.into_iter().enumerate().skip(first).rev().collect();
        given_up.iter().for_each(|(index, _)| self.set_extent(*index, 0));
        given_up
    }
    /// Notes that a block is free.
    pub(crate) fn note_free(&self, block: u32) {
        crate::lock(&self.hints).push(block);
    }
    /// These blocks are free, and no others are looked for but those with a hint, which may have become free since these
    /// were gathered. The lowest is used first.
    pub(crate) fn set_free(&self, mut blocks: Vec<u32>) {
        *crate::lock(&self.unseen) = 0..0;
        let mut hints = crate::lock(&self.hints);
        blocks.append(&mut hints);
        blocks.sort_unstable_by(|a, b| b.cmp(a));
        blocks.dedup();
        *hints = blocks;
    }
    /// Notes that this block may have room.
    pub(crate) fn hint(&self, block: u32) {
        // A hint is not worth waiting for the mutex.
        if let Ok(mut hints) = self.hints.try_lock()
            && hints.len() < MOST_HINTS
        {
            if hints.last() != Some(&block) {
                hints.push(block);
            }
            return;
        }
        let mut unseen = crate::lock(&self.unseen);
        *unseen = if unseen.is_empty() { block..block + 1 } else { unseen.start.min(block)..unseen.end.max(block + 1) };
    }
    /// Forgets where there is room: every block is looked at again.
    pub(crate) fn look_everywhere(&self) {
        *crate::lock(&self.unseen) = 0..self.pages();
    }
    /// Looks at the next blocks that nobody has a hint for (`most` of them at once) until one is `good`.
    pub(crate) fn look_for(&self, most: usize, good: impl Fn(PageView, u32) -> bool) -> Option<u32> {
        for _ in 0..most {
            let block = crate::lock(&self.unseen).next()?;
            // A page that is latched, or cannot be read, is passed by.
            let found = self.pid(block).ok().and_then(|pid| self.core.pool.try_read(pid, |v| good(v, block)));
            if found.unwrap_or(false) {
                return Some(block);
            }
        }
        None
    }
}

#[derive(Default)]
pub(crate) struct Directory {
    pub relations: RwLock<HashMap<u32, Arc<Relation>>>,
    pub space: Mutex<Space>,
    pub next_id: AtomicU32,
    /// Are there, or were there, relations that are kept at checkpoints?
    pub has_kept: AtomicBool,
}

impl Directory {
    pub fn get(&self, id: u32) -> Option<Arc<Relation>> {
        self.relations.read().unwrap_or_else(|e| e.into_inner()).get(&id).cloned()
    }
    pub fn list(&self) -> Vec<Arc<Relation>> {
        let mut list: Vec<_> = self.relations.read().unwrap_or_else(|e| e.into_inner()).values().cloned().collect();
        list.sort_by_key(|r| r.id);
        list
    }
    /// Ids are never given twice: the log and the pages of a dropped relation may still mention its own.
    pub(crate) fn new_id(&self, limit: u32) -> Result<u32> {
        let next = self.next_id.fetch_update(SeqCst, SeqCst, |id| (id < limit).then(|| id + 1));
        next.map_err(|_| {
            Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "all ids of storage relations have been used")
                .with_hint("Dump the databases and restore them into a new cluster.")
        })
    }
    pub fn add(
        &self,
        core: &Arc<Core>,
        id: u32,
        kind: RelationKind,
        persistence: Persistence,
        creator: u64,
    ) -> Arc<Relation> {
        let relation = Arc::new(Relation {
            core: core.clone(),
            id,
            kind,
            persistence,
            heap: AtomicU32::new(0),
            creator: AtomicU64::new(creator),
            doomed: AtomicU64::new(0),
            dropper: AtomicU64::new(0),
            blocks: AtomicU32::new(0),
            extents: Extents::default(),
            extend: Mutex::new(()),
            targets: Default::default(),
            more_targets: (FEW_TARGETS..core.workers()).map(|_| AtomicU32::new(0)).collect(),
            hints: Mutex::default(),
            unseen: Mutex::default(),
            dropped: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            changed_rows: Mutex::default(),
            made_of_csn: AtomicU64::new(0),
            tree_changes: TreeChanges::default(),
            usable_blocks: AtomicU32::new(u32::MAX),
            initial: Mutex::default(),
            image: (persistence == Persistence::Kept).then(|| Box::new(RelationImage::new(&core.config.data_dir, id))),
            dead_prefixes: DeadPrefixes::default(),
            method_state: MethodMemory::default(),
            reads: RelationReads::default(),
            has_all_rows: AtomicBool::new(false),
        });
        if persistence == Persistence::Kept {
            self.has_kept.store(true, Release);
        }
        if kind.has_background_work() {
            crate::lock(&core.worked_indexes).push(id);
        }
        if persistence == Persistence::Temporary {
            relation.exclude_from_serializability();
        }
        self.relations.write().unwrap_or_else(|e| e.into_inner()).insert(id, relation.clone());
        self.next_id.fetch_max(id + 1, Relaxed);
        relation
    }
    /// Takes a relation out that no commit has dropped: its creation is rolled back.
    pub(crate) fn remove_uncommitted(&self, core: &Core, id: u32) {
        let Some(relation) = self.get(id) else { return };
        relation.doomed.store(GONE, SeqCst);
        if planted::is(PlantedBug::CreateGoesBeforeTheLogKnows) {
            return self.remove(core, id);
        }
        if relation.persistence != Persistence::Temporary {
            core.log.append(&encode(&Record::Drop { rel: id }));
            #[cfg(test)]
            crate::stops::reach(crate::stops::StopPoint::RelationGoneInLog);
        }
        self.remove(core, id);
    }
    /// Takes the relation out and frees its pages. The log says already that it is gone.
    pub fn remove(&self, core: &Core, id: u32) {
        let Some(relation) = self.relations.write().unwrap_or_else(|e| e.into_inner()).remove(&id) else { return };
        let _no_extension = crate::lock(&relation.extend);
        relation.dropped.store(true, SeqCst);
        let extents = relation.extent_list();
        let is_small = extents.len() <= SMALL_EXTENTS;
        for (index, start) in extents.into_iter().enumerate() {
            for pid in start..start + extent_pages(index) {
                if is_small { core.pool.discard_kept(pid) } else { core.pool.discard(pid) }
            }
            crate::lock(&self.space).give(start, extent_pages(index));
        }
    }
    pub fn clear(&self) {
        self.relations.write().unwrap_or_else(|e| e.into_inner()).clear();
    }
}

pub(crate) fn persistence_number(p: Persistence) -> u8 {
    match p {
        Persistence::Logged => 1,
        Persistence::Unlogged => 2,
        Persistence::Temporary => 3,
        Persistence::Kept => 4,
    }
}
pub(crate) fn persistence_of(number: u8) -> Option<Persistence> {
    [Persistence::Logged, Persistence::Unlogged, Persistence::Temporary, Persistence::Kept]
        .into_iter()
        .find(|p| persistence_number(*p) == number)
}
