//! Descends the tree, and changes single entries for rollback, purge and key updates.
//!
//! Must not know: uniqueness.

use super::node::{self, FenceSide, KeyAndRow};
use crate::ahead;
use crate::buffer::WriteGuard;
use crate::core::RollbackStep;
use crate::directory::Relation;
use crate::heap::page::ADDRESS;
use crate::page::{KIND_TREE, PageView};
use crate::txn::leaf_hints::LeafHint;
use crate::wal::record::PageOp;
use kilndb_base::sync::atomic::Ordering::Relaxed;
use kilndb_base::{Error, Result};
use std::cmp::Ordering;

/// Where a descent goes on.
pub(super) enum DescentStep {
    Here,
    To(u32),
    Restart,
    Broken,
}
const PATIENCE: u32 = 1_000_000;
/// How often one search meets a block that the tree has given up since it was named, before the name counts as damaged.
const MOST_GIVEN_UP: u32 = 1000;

impl Relation {
    pub(crate) fn broken_tree(&self, block: u32) -> Error {
        Error::new(
            kilndb_base::sqlstate::INDEX_CORRUPTED,
            format!("index page {block} of storage relation {} is damaged", self.id),
        )
    }
    /// Takes one step towards the node of `level` that covers `key`, in a block and its page.
    pub(super) fn step(&self, v: PageView, (block, pid): (u32, u32), level: u8, key: KeyAndRow<'_>) -> DescentStep {
        if !self.is_node_in(&v, block, pid) || node::level(&v) < level {
            return DescentStep::Restart;
        }
        match node::side(&v, key) {
            FenceSide::Left => DescentStep::Restart,
            FenceSide::Right => match node::right(&v) {
                0 => DescentStep::Broken,
                right => DescentStep::To(right),
            },
            FenceSide::Inside if node::level(&v) == level => DescentStep::Here,
            FenceSide::Inside => match node::entry(&v, node::child_index(&v, key)) {
                Some(e) if e.child != 0 => DescentStep::To(e.child),
                _ => DescentStep::Broken,
            },
        }
    }
    /// The page of a block that another node has named a moment ago. None: the tree has given the block up.
    #[inline]
    pub(super) fn node_pid(&self, block: u32) -> Result<Option<u32>> {
        match self.pid_raw(block) {
            Some(pid) if block < self.pages() && !self.dropped.load(Relaxed) => Ok(Some(pid)),
            _ => self.no_node(block),
        }
    }
    #[cold]
    fn no_node(&self, block: u32) -> Result<Option<u32>> {
        match self.pid(block) {
            Err(e) if block == 0 || self.dropped.load(Relaxed) => Err(e),
            Err(_) => Ok(None),
            // The tree has grown meanwhile.
            Ok(pid) => Ok(Some(pid)),
        }
    }
    /// The block of `level` that covers the key (as of now).
    pub(crate) fn descend(&self, level: u8, key: KeyAndRow<'_>) -> Result<u32> {
        let mut block = 0;
        let mut given_up = 0;
        for _ in 0..PATIENCE {
            let Some(pid) = self.node_pid(block)? else {
                given_up += 1;
                if given_up > MOST_GIVEN_UP {
                    break;
                }
                block = 0;
                continue;
            };
            match self.core.pool.read(pid, |v| self.step(v, (block, pid), level, key))? {
                DescentStep::Here => return Ok(block),
                DescentStep::To(next) => {
                    ahead::fetch_node(self, next);
                    block = next;
                }
                DescentStep::Restart if block == 0 => return Err(self.broken_tree(block)),
                DescentStep::Restart => block = 0,
                DescentStep::Broken => return Err(self.broken_tree(block)),
            }
        }
        Err(self.broken_tree(block))
    }
    /// Is the block still in this page, which is latched or being read? The tree may have given it up since; then the
    /// page may have become another's, and have been dropped by that one, and be read from the disk as it was earlier.
    #[inline]
    pub(super) fn is_at(&self, block: u32, pid: u32) -> bool {
        block < self.pages() && self.pid_raw(block) == Some(pid)
    }
    /// Is the page, which is latched or being read, the node in this block of the tree?
    #[inline]
    pub(super) fn is_node_in(&self, v: &PageView, block: u32, pid: u32) -> bool {
        v.is(KIND_TREE, self.id, block) && self.is_at(block, pid)
    }
    /// The level of the root.
    pub(super) fn root_level(&self) -> Result<u8> {
        self.core.pool.read(self.pid(0)?, |v| node::level(&v))
    }
    /// The node of `level` that covers the key, latched.
    pub(crate) fn latch_node(&self, level: u8, key: KeyAndRow<'_>) -> Result<(u32, WriteGuard<'_>)> {
        let mut block = self.descend(level, key)?;
        for _ in 0..PATIENCE {
            let Some(pid) = self.node_pid(block)? else {
                block = self.descend(level, key)?;
                continue;
            };
            let guard = self.core.pool.write(pid)?;
            match self.step(guard.view(), (block, pid), level, key) {
                DescentStep::Here => return Ok((block, guard)),
                DescentStep::To(next) if node::level(&guard.view()) == level => block = next,
                DescentStep::Broken => return Err(self.broken_tree(block)),
                _ => {
                    drop(guard);
                    block = self.descend(level, key)?;
                }
            }
        }
        Err(self.broken_tree(block))
    }
    /// Latches the leaf that covers `key`, where a transaction has changed the tree last if the hint says so.
    pub(super) fn latch_leaf_by(&self, hint: &mut LeafHint, key: KeyAndRow<'_>) -> Result<(u32, WriteGuard<'_>)> {
        let near = if hint.is_leaf_likely { hint.block } else { 0 };
        let (block, page) = self.latch_leaf_near(near, key)?;
        hint.found_leaf(block);
        Ok((block, page))
    }
    /// As [`Relation::place_of`], on the leaf that the hint has been told of.
    pub(super) fn place_by(v: &PageView, hint: &mut LeafHint, key: KeyAndRow<'_>) -> (usize, Option<u64>) {
        let idx = match hint.place() {
            Some(near) => node::lower_bound_near(v, key, near),
            None => node::lower_bound(v, key),
        };
        hint.found_place(idx);
        let next = node::entry(v, idx).filter(|_| idx < node::count(v));
        (idx, next.filter(|e| node::compare(e, key) == Ordering::Equal).map(|e| e.stamp))
    }
    /// Latches the leaf that covers `key`, which is likely to be `near` (0: unknown).
    pub(crate) fn latch_leaf_near(&self, near: u32, key: KeyAndRow<'_>) -> Result<(u32, WriteGuard<'_>)> {
        if near != 0
            && let Some(pid) = self.node_pid(near)?
            && matches!(self.core.pool.read(pid, |v| self.step(v, (near, pid), 0, key))?, DescentStep::Here)
        {
            let guard = self.core.pool.write(pid)?;
            if matches!(self.step(guard.view(), (near, pid), 0, key), DescentStep::Here) {
                return Ok((near, guard));
            }
        }
        self.latch_node(0, key)
    }
    /// Reads the leaf that covers the key, without a latch.
    pub(crate) fn read_leaf<R>(&self, key: KeyAndRow<'_>, mut read: impl FnMut(&PageView) -> R) -> Result<R> {
        self.read_node(0, key, |v, _| read(v))
    }
    /// Reads the node of a level that covers the key, without a latch, and tells its block.
    pub(super) fn read_node<R>(
        &self,
        level: u8,
        key: KeyAndRow<'_>,
        mut read: impl FnMut(&PageView, u32) -> R,
    ) -> Result<R> {
        loop {
            let block = self.descend(level, key)?;
            let Some(pid) = self.node_pid(block)? else { continue };
            let is_here = |v| matches!(self.step(v, (block, pid), level, key), DescentStep::Here);
            let found = self.core.pool.read(pid, |v| is_here(v).then(|| read(&v, block)))?;
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }
    /// The index where this entry is or would be, and its stamp if it is there.
    pub(super) fn place_of(v: &PageView, key: KeyAndRow<'_>) -> (usize, Option<u64>) {
        let idx = node::lower_bound(v, key);
        let next = node::entry(v, idx).filter(|_| idx < node::count(v));
        (idx, next.filter(|e| node::compare(e, key) == Ordering::Equal).map(|e| e.stamp))
    }
    /// The index of exactly this entry, and its stamp.
    pub(super) fn find_exact(v: &PageView, key: KeyAndRow<'_>) -> Option<(usize, u64)> {
        let (idx, stamp) = Relation::place_of(v, key);
        stamp.map(|stamp| (idx, stamp))
    }
    /// Takes an entry out, if it is there and (given an address) its stamp points there. `rollback`: transaction and
    /// the rest of its chain. False: somebody who has not finished has changed the stamp, and may take that back.
    pub(crate) fn entry_remove(
        &self,
        key: &[u8],
        rid: u64,
        stamp: Option<u64>,
        rollback: Option<RollbackStep>,
    ) -> Result<bool> {
        let (block, mut page) = self.latch_node(0, KeyAndRow(key, rid))?;
        let Some((idx, found)) = Relation::find_exact(&page.view(), KeyAndRow(key, rid)) else { return Ok(true) };
        if stamp.is_some_and(|a| found & ADDRESS != a) {
            return self.is_stamp_final(found);
        }
        self.note_removal(key);
        let ops = [(self.target(block), PageOp::TreeRemove { idx })];
        match rollback {
            Some(step) => self.core.emit_compensate(self, step, &ops, &[0], &mut [&mut page])?,
            None => self.core.emit_plain(self, 0, &ops, &[0], &mut [&mut page])?,
        }
        let empty = node::count(&page.view()) == 0 && block != 0;
        drop(page);
        if empty && rollback.is_none() {
            self.unlink_empty(block)?;
        }
        Ok(true)
    }
    /// Has whoever gave an entry this stamp finished? Judged under the leaf's latch: a rollback restores the stamp before it
    /// ends.
    pub(super) fn is_stamp_final(&self, stamp: u64) -> Result<bool> {
        let head = self.core.undo.head(&self.core.pool, stamp & ADDRESS)?;
        Ok(head.is_none_or(|head| self.core.xids.has_ended(head.xid)))
    }
    /// Counts an entry that is about to be removed: the tree may be worth shrinking then.
    pub(super) fn note_removal(&self, key: &[u8]) {
        if self.tree_changes.removed(key.len() + node::PLAIN_HEAD + node::SLOT, self.pages()) {
            self.core.shrinks.push(self.id);
        }
    }
    /// Takes back the retirement or revival of an entry.
    pub(crate) fn entry_restamp(&self, key: &[u8], rid: u64, address: u64, old: u64, step: RollbackStep) -> Result<()> {
        let (block, mut page) = self.latch_node(0, KeyAndRow(key, rid))?;
        let Some((idx, found)) = Relation::find_exact(&page.view(), KeyAndRow(key, rid)) else { return Ok(()) };
        if found & ADDRESS != address {
            return Ok(());
        }
        let entry = node::build(key, rid, None, old);
        let ops = [(self.target(block), PageOp::TreeReplace { idx, entry: &entry })];
        self.core.emit_compensate(self, step, &ops, &[0], &mut [&mut page])
    }
}
