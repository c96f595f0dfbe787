//! The queue of trees that may have become larger than their entries need ([`super::shrink`]), and what is counted for
//! it.
//!
//! Must not know: how a tree becomes smaller.

use super::dead_prefix::FullKey;
use crate::page::PAGE;
use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::collections::VecDeque;

/// Smaller trees stay as they are.
pub(crate) const LEAST_BLOCKS: u32 = 8;
/// A tree is queued when entries of so many bytes per page have been taken out since the last pass.
const REMOVED_PER_BLOCK: u64 = PAGE as u64 / 5;

/// What has happened to a tree since the process started.
#[derive(Default)]
pub(crate) struct TreeChanges {
    /// Bytes of entries that were taken out since the last pass.
    removed: AtomicU64,
    /// How many entries were taken out.
    removals: AtomicU64,
    splits: AtomicU64,
    /// Splits whose new node its parent may not know yet.
    splitting: AtomicU32,
    is_queued: AtomicBool,
}

/// A split that is under way.
pub(crate) struct SplitUnderWay<'a>(&'a TreeChanges);
impl Drop for SplitUnderWay<'_> {
    fn drop(&mut self) {
        self.0.splitting.fetch_sub(1, SeqCst);
    }
}

impl TreeChanges {
    /// Notes that an entry was taken out. True: the tree is to be queued.
    #[inline]
    pub fn removed(&self, bytes: usize, blocks: u32) -> bool {
        self.removals.fetch_add(1, Relaxed);
        let removed = self.removed.fetch_add(bytes as u64, Relaxed) + bytes as u64;
        blocks >= LEAST_BLOCKS
            && removed > u64::from(blocks) * REMOVED_PER_BLOCK
            && !self.is_queued.load(Relaxed)
            && !self.is_queued.swap(true, SeqCst)
    }
    pub fn begin_split(&self) -> SplitUnderWay<'_> {
        self.splits.fetch_add(1, Relaxed);
        self.splitting.fetch_add(1, SeqCst);
        SplitUnderWay(self)
    }
    /// Whoever has seen a node before, and is told here that no split is under way, knows that its split is over.
    pub fn is_splitting(&self) -> bool {
        self.splitting.load(SeqCst) != 0
    }
    /// A number that changes while the tree is in use.
    pub fn events(&self) -> u64 {
        self.removals.load(Relaxed) + self.splits()
    }
    pub fn splits(&self) -> u64 {
        self.splits.load(Relaxed)
    }
    /// A pass begins: what is taken out from here on counts for the next one.
    pub fn begin_pass(&self) {
        self.removed.store(0, Relaxed);
        self.is_queued.store(false, SeqCst);
    }
}

/// A tree that waits for its pass.
#[derive(Default)]
pub(crate) struct QueuedTree {
    pub id: u32,
    /// Somebody has asked for the pass: it does not wait until the tree is at rest.
    pub is_asked_for: bool,
    pub since_ns: u64,
    /// When the tree was looked at last, and its events then.
    pub looked_ns: u64,
    pub events: u64,
}

/// What a pass is about to do.
pub(crate) enum ShrinkPhase {
    /// Adds up the bytes that the leaves have in use, and the leaves.
    Measure { bytes: u64, leaves: u64 },
    /// Moves entries to the left on this level, and takes out nodes that become empty.
    Merge { level: u8 },
    /// Gathers the free blocks, up to this one so far.
    Count { next: u32, free: Vec<u32> },
    /// Moves the nodes of this level that are in blocks from `target` on into free blocks before it.
    Relocate { level: u8, target: u32 },
    /// Gives up the blocks at the end, but none before `target`.
    Truncate { target: u32 },
}

/// A pass through a tree, between two rounds.
pub(crate) struct ShrinkPass {
    pub id: u32,
    pub is_asked_for: bool,
    /// The pass is cut off when the tree has had so many splits.
    pub most_splits: u64,
    pub phase: ShrinkPhase,
    /// The phases that walk through a level go on at the node that covers this key.
    pub at: FullKey,
    /// Passes of relocation that are left: nodes may have gone to the end of the tree meanwhile.
    pub tries: u32,
}

#[derive(Default)]
pub(crate) struct ShrinkQueue {
    pub trees: Mutex<VecDeque<QueuedTree>>,
    pub pass: Mutex<Option<ShrinkPass>>,
}

impl ShrinkQueue {
    pub fn push(&self, id: u32) {
        let mut trees = crate::lock(&self.trees);
        if !trees.iter().any(|tree| tree.id == id) {
            trees.push_back(QueuedTree { id, ..QueuedTree::default() });
        }
    }
    /// Somebody asks for a pass through the tree.
    pub fn ask(&self, id: u32) {
        self.push(id);
        crate::lock(&self.trees).iter_mut().filter(|tree| tree.id == id).for_each(|tree| tree.is_asked_for = true);
    }
    pub fn is_idle(&self) -> bool {
        crate::lock(&self.trees).is_empty() && crate::lock(&self.pass).is_none()
    }
}
