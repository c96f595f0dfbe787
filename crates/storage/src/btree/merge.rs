//! Makes trees smaller: moves entries to the left sibling, takes out nodes that are empty then, and moves nodes into
//! free blocks.
//!
//! Invariants
//! 1. A change latches the parent first, then its children from left to right without waiting, then a free block: who
//!    splits a node latches the parent when the children are released.
//! 2. A node is changed only if its parent knows it: then its split is over, and nobody is about to name its block.
//! 3. One log record describes a change in all pages. A reader on its way finds a block free or its key left of the
//!    node, and begins again.
//!
//! Must not know: rows, transactions, when it is worthwhile.

use super::dead_prefix::FullKey;
use super::node::{self, KeyAndRow, NodeEntry};
use super::split::separator_at;
use crate::buffer::WriteGuard;
use crate::directory::Relation;
use crate::page::{self, KIND_FREE, KIND_TREE, PAGE, PageBytes, PageView};
use crate::wal::record::PageOp;
use kilndb_base::Result;
use std::cmp::Ordering;

/// What a node that was filled keeps free: as much as one of an index that was just built.
pub(super) const ROOM_KEPT: usize = PAGE / 10;
/// Fewer bytes are not moved from one node to another.
const WORTHWHILE: usize = PAGE / 16;
/// How often a change is tried again if another thread has one of the pages latched.
const TRIES: usize = 64;

/// A node as it was a moment ago.
pub(super) struct SeenNode {
    pub block: u32,
    pub right: u32,
    /// Where the right sibling begins.
    pub high: Option<FullKey>,
    pub room: usize,
    pub used: usize,
}

/// How a try to change a node and its neighbours has ended.
pub(super) enum ChangeOutcome {
    /// The right sibling has gone, its entries have moved into the node.
    Absorbed,
    Done,
    /// Nothing was done: it is not worthwhile, or the nodes are not as the change needs them.
    Unchanged,
    /// There is no free block to move the node to.
    NoBlock,
}
enum Try {
    Ended(ChangeOutcome),
    /// Another thread has a page latched.
    Busy,
}
use ChangeOutcome::{Absorbed, Done, NoBlock, Unchanged};

fn entries_of<'a>(v: &'a PageView) -> Vec<NodeEntry<'a>> {
    (0..node::count(v)).filter_map(|i| node::entry(v, i)).collect()
}
fn bytes_of<'a>(fence: Option<NodeEntry<'a>>) -> &'a [u8] {
    fence.map_or(&[], |e| e.bytes)
}
fn is_at(fence: Option<NodeEntry<'_>>, key: KeyAndRow<'_>) -> bool {
    fence.is_some_and(|e| node::compare(&e, key) == Ordering::Equal)
}

impl Relation {
    /// The node of a level that covers the key.
    pub(super) fn see_node(&self, level: u8, key: &FullKey) -> Result<SeenNode> {
        self.read_node(level, KeyAndRow(&key.0, key.1), |v, block| SeenNode {
            block,
            right: node::right(v),
            high: node::high(v).map(|e| (e.key.to_vec(), e.rid)),
            room: node::room_of(v),
            used: PAGE.saturating_sub(node::SLOTS + node::room_of(v)),
        })
    }
    /// Moves entries of the right sibling into a node, as many as find room.
    pub(super) fn pull_left(&self, level: u8, seen: &SeenNode) -> Result<ChangeOutcome> {
        let Some(high) = seen.high.as_ref().filter(|_| seen.room > ROOM_KEPT + WORTHWHILE) else {
            return Ok(Unchanged);
        };
        self.repeat(|| self.try_pull_left(level, seen, KeyAndRow(&high.0, high.1)))
    }
    /// Moves the right sibling of a node, or the first node of a level, into a free block before `target`.
    pub(super) fn relocate(
        &self,
        level: u8,
        left: Option<&SeenNode>,
        block: u32,
        target: u32,
    ) -> Result<ChangeOutcome> {
        let none = (Vec::new(), 0);
        let low = left.and_then(|left| left.high.as_ref()).unwrap_or(&none);
        self.repeat(|| self.try_relocate(level, (left, KeyAndRow(&low.0, low.1)), block, target))
    }
    fn repeat(&self, change: impl Fn() -> Result<Try>) -> Result<ChangeOutcome> {
        for _ in 0..TRIES {
            if let Try::Ended(outcome) = change()? {
                return Ok(outcome);
            }
            kilndb_base::sync::yield_now();
        }
        Ok(Unchanged)
    }
    /// Latches a block of the tree if nobody else has it.
    pub(super) fn try_latch_block(&self, block: u32) -> Result<Option<WriteGuard<'_>>> {
        Ok(self.node_pid(block)?.and_then(|pid| self.core.pool.try_latch(pid)))
    }
    fn is_node(&self, v: &PageView, block: u32, level: u8) -> bool {
        v.is(KIND_TREE, self.id, block) && node::level(v) == level
    }
    fn try_pull_left(&self, level: u8, seen: &SeenNode, high: KeyAndRow<'_>) -> Result<Try> {
        let (parent_block, mut parent) = self.latch_node(level + 1, high)?;
        let pv = parent.view();
        let at = node::child_index(&pv, high);
        let before = at.checked_sub(1).and_then(|before| node::entry(&pv, before));
        let (Some(mine), Some(next)) = (before, node::entry(&pv, at)) else { return Ok(Try::Ended(Unchanged)) };
        if mine.child != seen.block || next.child != seen.right || !is_at(Some(next), high) {
            return Ok(Try::Ended(Unchanged));
        }
        let Some(mut left) = self.try_latch_block(seen.block)? else { return Ok(Try::Busy) };
        let Some(mut right) = self.try_latch_block(seen.right)? else { return Ok(Try::Busy) };
        let (left_copy, right_copy) = (*left.page(), *right.page());
        let (lv, rv) = (PageView::of(&left_copy), PageView::of(&right_copy));
        let are_siblings = self.is_node(&lv, seen.block, level)
            && self.is_node(&rv, seen.right, level)
            && node::right(&lv) == seen.right
            && is_at(node::low(&rv), high);
        if !are_siblings {
            return Ok(Try::Ended(Unchanged));
        }
        let entries = entries_of(&rv);
        let Some(shift) = Shift::plan(&left_copy, &rv, &entries, level) else { return Ok(Try::Ended(Unchanged)) };
        let moved = shift.moved(&entries);
        let (left_target, right_target) = (self.target(seen.block), self.target(seen.right));
        let parent_target = self.target(parent_block);
        if shift.count == entries.len() {
            let ops = [
                (left_target, PageOp::TreeAppend { right: node::right(&rv), high: &shift.high, entries: &moved }),
                (right_target, PageOp::Init { kind: KIND_FREE, level: 0 }),
                (parent_target, PageOp::TreeRemove { idx: at }),
            ];
            self.core.emit_plain(self, 0, &ops, &[0, 1, 2], &mut [&mut left, &mut right, &mut parent])?;
            drop((left, right, parent));
            self.note_free(seen.right);
            return Ok(Try::Ended(Absorbed));
        }
        let Some((key, rid)) = node::parse(&shift.high) else { return Err(self.broken_tree(seen.right)) };
        let entry = node::build(&key, rid, Some(seen.right), 0);
        if node::room_of(&pv) + next.bytes.len() < entry.len() {
            return Ok(Try::Ended(Unchanged));
        }
        let ops = [
            (left_target, PageOp::TreeAppend { right: seen.right, high: &shift.high, entries: &moved }),
            (right_target, PageOp::TreeDropFront { count: shift.count, low: &shift.high }),
            (parent_target, PageOp::TreeReplace { idx: at, entry: &entry }),
        ];
        self.core.emit_plain(self, 0, &ops, &[0, 1, 2], &mut [&mut left, &mut right, &mut parent])?;
        Ok(Try::Ended(Done))
    }
    fn try_relocate(
        &self,
        level: u8,
        (left, low): (Option<&SeenNode>, KeyAndRow<'_>),
        block: u32,
        target: u32,
    ) -> Result<Try> {
        let (parent_block, mut parent) = self.latch_node(level + 1, low)?;
        let pv = parent.view();
        let at = node::child_index(&pv, low);
        let Some(mine) = node::entry(&pv, at).filter(|e| e.child == block && is_at(Some(*e), low)) else {
            return Ok(Try::Ended(Unchanged));
        };
        let mut left_page = None;
        if let Some(left) = left {
            let Some(page) = self.try_latch_block(left.block)? else { return Ok(Try::Busy) };
            if !self.is_node(&page.view(), left.block, level) || node::right(&page.view()) != block {
                return Ok(Try::Ended(Unchanged));
            }
            left_page = Some((left.block, page));
        }
        let Some(mut page) = self.try_latch_block(block)? else { return Ok(Try::Busy) };
        let copy = *page.page();
        let v = PageView::of(&copy);
        if !self.is_node(&v, block, level) {
            return Ok(Try::Ended(Unchanged));
        }
        let Some((new_block, mut new)) = self.claim_free(target)? else { return Ok(Try::Ended(NoBlock)) };
        let image = image_of(&copy);
        let entry = node::build(mine.key, mine.rid, Some(new_block), 0);
        let mut ops = vec![
            (self.target(new_block), PageOp::Init { kind: KIND_TREE, level }),
            (self.target(new_block), PageOp::TreeImage { level, image: &image }),
            (self.target(block), PageOp::Init { kind: KIND_FREE, level: 0 }),
            (self.target(parent_block), PageOp::TreeReplace { idx: at, entry: &entry }),
        ];
        let Some((left_block, mut left)) = left_page else {
            self.core.emit_plain(self, 0, &ops, &[0, 0, 1, 2], &mut [&mut new, &mut page, &mut parent])?;
            return Ok(Try::Ended(Done));
        };
        let left_copy = *left.page();
        let lv = PageView::of(&left_copy);
        let high = bytes_of(node::high(&lv));
        ops.push((self.target(left_block), PageOp::TreeCut { idx: node::count(&lv), right: new_block, high }));
        let pages = &mut [&mut new, &mut page, &mut parent, &mut left];
        self.core.emit_plain(self, 0, &ops, &[0, 0, 1, 2, 3], pages)?;
        Ok(Try::Ended(Done))
    }
    /// Tells the parent of a node that it does not know, as a crash between the two records of a split has left it.
    /// Whoever calls this has seen the node.
    pub(super) fn complete_split(&self, level: u8, low: &FullKey, block: u32) -> Result<()> {
        // A split from here on may give the block to another node, whose split is under way; and who takes an empty leaf
        // out needs the parent to know it.
        let splits = self.tree_changes.splits();
        if self.tree_changes.is_splitting() {
            return Ok(());
        }
        let low = KeyAndRow(&low.0, low.1);
        let is_known = self.read_node(level + 1, low, |v, _| {
            node::entry(v, node::child_index(v, low)).is_some_and(|e| is_at(Some(e), low))
        })?;
        let is_there = self.read_node(level, low, |v, found| found == block && is_at(node::low(v), low))?;
        if is_known || !is_there || self.tree_changes.splits() != splits {
            return Ok(());
        }
        self.insert_separator(level + 1, low, block)
    }
}

fn image_of(page: &PageBytes) -> Vec<u8> {
    let v = PageView::of(page);
    let entries: Vec<&[u8]> = entries_of(&v).iter().map(|e| e.bytes).collect();
    node::image(node::right(&v), bytes_of(node::low(&v)), bytes_of(node::high(&v)), &entries)
}

/// Which entries move to the left sibling.
struct Shift {
    count: usize,
    /// The fence between the two nodes afterwards; of the node to the right, if that becomes empty.
    high: Vec<u8>,
}

impl Shift {
    /// As many entries as the left node has room for. None: it is not worthwhile.
    fn plan(left: &PageBytes, right: &PageView, entries: &[NodeEntry<'_>], level: u8) -> Option<Shift> {
        if entries.len() != node::count(right) {
            return None;
        }
        let old_high = bytes_of(node::high(&PageView::of(left))).len();
        let room = (node::room(left) + old_high).saturating_sub(ROOM_KEPT);
        let mut sizes = Vec::with_capacity(entries.len());
        let mut sum = 0;
        for e in entries {
            sum += e.bytes.len() + node::SLOT;
            sizes.push(sum);
        }
        let high = bytes_of(node::high(right));
        if sum + high.len() <= room {
            return Some(Shift { count: entries.len(), high: high.to_vec() });
        }
        // An inner node's separator may be longer than the entries before it, which make room for it on the right.
        let right_room = node::room_of(right) + bytes_of(node::low(right)).len();
        let most = sizes.partition_point(|size| *size <= room).min(entries.len().saturating_sub(1));
        (1..=most).rev().find_map(|count| {
            let (key, rid) = separator_at(entries, count, level);
            let high = node::build(&key, rid, None, 0);
            let moved = *sizes.get(count - 1)?;
            let fits = moved + high.len() <= room && high.len() <= right_room + moved;
            (moved >= WORTHWHILE && fits).then_some(Shift { count, high })
        })
    }
    /// The entries, each with its length.
    fn moved(&self, entries: &[NodeEntry<'_>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(PAGE);
        entries.iter().take(self.count).for_each(|e| kilndb_base::bytes::put_prefixed(&mut out, e.bytes));
        out
    }
}

impl Relation {
    /// Counts the free blocks among some of the tree's, and gathers them.
    pub(super) fn gather_free(&self, blocks: std::ops::Range<u32>, free: &mut Vec<u32>) -> Result<()> {
        for block in blocks {
            let Some(pid) = self.node_pid(block)? else { return Ok(()) };
            if self.core.pool.read(pid, |v| v.u8(page::at::KIND) == KIND_FREE)? {
                free.push(block);
            }
        }
        Ok(())
    }
    /// Gives up free blocks at the end of the tree, `most` at once and none before `least`. True: there may be more.
    pub(super) fn cut_free_end(&self, least: u32, most: u32) -> Result<bool> {
        self.cut_off(least.max(1), most, |block| self.is_unused(block))
    }
    /// Is the block free? One that a crash has left without a node is made so. The tree gives out no block there
    /// meanwhile, and one that another thread has latched is in use. No latch is waited for: the tree cannot grow
    /// meanwhile, and who waits for that has nodes latched.
    fn is_unused(&self, block: u32) -> Result<bool> {
        let pid = self.pid(block)?;
        let kind = |v: &PageView| v.u8(page::at::KIND);
        let Some((is_bare, level)) = self.core.pool.try_read(pid, |v| (self.is_bare(&v, block), node::level(&v)))
        else {
            return Ok(false);
        };
        // The first node of a level may have neither entries nor neighbours.
        if is_bare && self.is_first_of_level(block, level)? != Some(false) {
            return Ok(false);
        }
        let Some(mut page) = self.core.pool.try_latch(pid) else { return Ok(false) };
        if kind(&page.view()) == KIND_FREE {
            return Ok(true);
        }
        if !is_bare || !self.is_bare(&page.view(), block) {
            return Ok(false);
        }
        let ops = [(self.target(block), PageOp::Init { kind: KIND_FREE, level: 0 })];
        self.core.emit_plain(self, 0, &ops, &[0], &mut [&mut page])?;
        Ok(true)
    }
    /// Is the block the first node of a level? None: that cannot be found out now.
    fn is_first_of_level(&self, block: u32, level: u8) -> Result<Option<bool>> {
        let mut at = 0;
        for _ in 0..=u8::MAX {
            let Some(pid) = self.node_pid(at)? else { return Ok(None) };
            let look = |v: PageView| {
                let first = node::entry(&v, 0).filter(|_| node::count(&v) > 0);
                self.is_node_in(&v, at, pid).then(|| (node::level(&v), first.map_or(0, |e| e.child)))
            };
            match self.core.pool.try_read(pid, look).flatten() {
                Some((here, _)) if here == level => return Ok(Some(at == block)),
                // The tree has no such level.
                Some((here, _)) if here < level => return Ok(Some(false)),
                Some((_, child)) if child != 0 => at = child,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }
    /// A page that was given out and never written to.
    fn is_bare(&self, v: &PageView, block: u32) -> bool {
        v.is(KIND_TREE, self.id, block)
            && node::count(v) == 0
            && node::right(v) == 0
            && node::low(v).is_none()
            && node::high(v).is_none()
    }
}

#[cfg(test)]
mod tests;
