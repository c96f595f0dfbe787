//! Splits nodes, and takes empty leaves out.
//!
//! Invariants
//! 1. An empty leaf takes over its right sibling's range (the sibling must hang under the same parent): entries move
//!    left, the sibling's block is freed. So the leftmost leaf of a queue never stays empty.
//!
//! Must not know: rows, transactions.

use super::node::{self, KeyAndRow, NodeEntry};
use crate::buffer::WriteGuard;
use crate::directory::Relation;
use crate::page::{PAGE, PageView};
use crate::wal::record::PageOp;
use kilndb_base::Result;
use std::cmp::Ordering;

/// Blocks without a hint that are looked at (with the node to be split latched) before the file grows by one.
const PROBED: usize = 8;

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}
/// The key that separates the entries before `at` from the others: on leaves as few bytes as tell them apart.
pub(super) fn separator_at(entries: &[NodeEntry<'_>], at: usize, level: u8) -> (Vec<u8>, u64) {
    let first = entries[at];
    let shared = common(entries[at - 1].key, first.key);
    if level > 0 || shared == first.key.len() {
        return (first.key.to_vec(), first.rid);
    }
    (first.key[..=shared].to_vec(), 0)
}

/// The entry to split at: `wanted` (from 1 on), or as near to it as both halves fit with their fences. Few large keys
/// fit into a node, and the middle one may be too large for the half that gets it.
fn place(sizes: &[usize], low: usize, high: usize, fence: impl Fn(usize) -> usize, wanted: usize) -> usize {
    let total: usize = sizes.iter().map(|s| s + 2).sum();
    let larger = |at: usize| {
        let left: usize = sizes.iter().take(at).map(|s| s + 2).sum();
        node::SLOTS + fence(at) + (low + left).max(high + total - left)
    };
    if larger(wanted) <= PAGE {
        return wanted;
    }
    let fitting = (1..sizes.len()).filter(|at| larger(*at) <= PAGE).min_by_key(|at| at.abs_diff(wanted));
    fitting.or_else(|| (1..sizes.len()).min_by_key(|at| larger(*at))).unwrap_or(wanted)
}

impl Relation {
    /// A formatted page for a node: a freed block, or a new one.
    pub(super) fn new_node(&self, level: u8) -> Result<(u32, WriteGuard<'_>)> {
        if let Some(free) = self.claim_free(u32::MAX)? {
            return Ok(free);
        }
        let is_free = |v: PageView, _| v.u8(crate::page::at::KIND) == crate::page::KIND_FREE;
        if let Some(block) = self.look_for(PROBED, is_free)
            && let Some(guard) = self.latch_free(block)?
        {
            return Ok((block, guard));
        }
        self.extend(level)
    }
    /// A free block before `end` that a hint leads to, latched.
    pub(super) fn claim_free(&self, end: u32) -> Result<Option<(u32, WriteGuard<'_>)>> {
        for _ in 0..PROBED {
            let hinted = {
                let mut hints = crate::lock(&self.hints);
                hints.pop_if(|block| *block < end)
            };
            let Some(block) = hinted else { return Ok(None) };
            if let Some(guard) = self.latch_free(block)? {
                return Ok(Some((block, guard)));
            }
        }
        Ok(None)
    }
    /// Latches a block if it is free. An outdated hint may lead to a node that is latched, by the caller even: it is not
    /// waited for. Or to a block that the tree has given up, or is about to.
    fn latch_free(&self, block: u32) -> Result<Option<WriteGuard<'_>>> {
        let Some(pid) = self.node_pid(block)? else { return Ok(None) };
        self.core.pool.try_read(pid, |_| ());
        let guard = self.core.pool.try_latch(pid);
        Ok(guard.filter(|g| {
            let v = g.view();
            v.is(crate::page::KIND_FREE, self.id, block) && self.is_at(block, pid) && self.is_usable(block)
        }))
    }
    /// Splits a full node; the entry that is to come would go to `idx`. Everything is unlatched afterwards.
    pub(crate) fn split<'a>(&'a self, block: u32, mut page: WriteGuard<'a>, idx: usize) -> Result<()> {
        let _under_way = self.tree_changes.begin_split();
        let copy = *page.page();
        let v = PageView::of(&copy);
        let n = node::count(&v);
        let level = node::level(&v);
        let entries: Vec<node::NodeEntry<'_>> = (0..n).filter_map(|i| node::entry(&v, i)).collect();
        if entries.len() != n || n < 2 {
            return Err(self.broken_tree(block));
        }
        let wanted = if idx >= n && node::right(&v) == 0 {
            n - 1
        } else {
            let total: usize = entries.iter().map(|e| e.bytes.len()).sum();
            let mut sum = 0;
            entries
                .iter()
                .position(|e| {
                    sum += e.bytes.len();
                    sum > total / 2
                })
                .unwrap_or(n / 2)
                .clamp(1, n - 1)
        };
        let fence_at = |at: usize| {
            let (key, rid) = separator_at(&entries, at, level);
            node::build(&key, rid, None, 0)
        };
        let high = node::high(&v).map_or(&[][..], |e| e.bytes);
        let low = node::low(&v).map_or(&[][..], |e| e.bytes);
        let sizes: Vec<usize> = entries.iter().map(|e| e.bytes.len()).collect();
        let at = place(&sizes, low.len(), high.len(), |at| fence_at(at).len(), wanted);
        let (separator, fence) = (separator_at(&entries, at, level), fence_at(at));
        let left_bytes: Vec<&[u8]> = entries[..at].iter().map(|e| e.bytes).collect();
        let right_bytes: Vec<&[u8]> = entries[at..].iter().map(|e| e.bytes).collect();
        assert!(0 < at && at < n, "both halves of node {block} have entries");
        let (right_block, mut right) = self.new_node(level)?;
        assert!(right_block != 0 && right_block != block, "the root is no node's half");
        let right_image = node::image(node::right(&v), &fence, high, &right_bytes);
        if block != 0 {
            let ops = [
                (self.target(right_block), PageOp::Init { kind: crate::page::KIND_TREE, level }),
                (self.target(right_block), PageOp::TreeImage { level, image: &right_image }),
                (self.target(block), PageOp::TreeCut { idx: at, right: right_block, high: &fence }),
            ];
            self.core.emit_plain(self, 0, &ops, &[0, 0, 1], &mut [&mut right, &mut page])?;
            drop(right);
            drop(page);
            return self.insert_separator(level + 1, KeyAndRow(&separator.0, separator.1), right_block);
        }
        let (left_block, mut left) = self.new_node(level)?;
        let left_image = node::image(right_block, low, &fence, &left_bytes);
        let first = node::build(&[], 0, Some(left_block), 0);
        let second = node::build(&separator.0, separator.1, Some(right_block), 0);
        let root_image = node::image(0, &[], &[], &[&first, &second]);
        let ops = [
            (self.target(right_block), PageOp::Init { kind: crate::page::KIND_TREE, level }),
            (self.target(right_block), PageOp::TreeImage { level, image: &right_image }),
            (self.target(left_block), PageOp::Init { kind: crate::page::KIND_TREE, level }),
            (self.target(left_block), PageOp::TreeImage { level, image: &left_image }),
            (self.target(0), PageOp::TreeImage { level: level + 1, image: &root_image }),
        ];
        self.core.emit_plain(self, 0, &ops, &[0, 0, 1, 1, 2], &mut [&mut right, &mut left, &mut page])
    }
    pub(super) fn insert_separator(&self, level: u8, key: KeyAndRow<'_>, child: u32) -> Result<()> {
        let entry = node::build(key.0, key.1, Some(child), 0);
        loop {
            let (block, mut page) = self.latch_node(level, key)?;
            let idx = node::lower_bound(&page.view(), key);
            if Relation::find_exact(&page.view(), key).is_some() {
                return Ok(());
            }
            if node::room(page.page()) < entry.len() + 2 {
                self.split(block, page, idx)?;
                continue;
            }
            let ops = [(self.target(block), PageOp::TreeInsert { idx, entry: &entry })];
            return self.core.emit_plain(self, 0, &ops, &[0], &mut [&mut page]);
        }
    }
    /// Merges an empty leaf with its right sibling, if both hang under one parent. Best effort.
    pub(crate) fn unlink_empty(&self, block: u32) -> Result<()> {
        assert!(block != 0, "the root stays");
        for _ in 0..64 {
            if self.try_unlink(block)? {
                break;
            }
            kilndb_base::sync::yield_now();
        }
        Ok(())
    }
    /// Takes an empty leaf out. False: another thread had one of the pages latched, so it must be tried again.
    fn try_unlink(&self, block: u32) -> Result<bool> {
        let Some(pid) = self.node_pid(block)? else { return Ok(true) };
        let Some((low, right)) = self.core.pool.read(pid, |v| {
            if !self.is_node_in(&v, block, pid) || node::count(&v) != 0 || node::level(&v) != 0 {
                return None;
            }
            let low = node::low(&v).map_or((Vec::new(), 0), |e| (e.key.to_vec(), e.rid));
            Some((low, node::right(&v)))
        })?
        else {
            return Ok(true);
        };
        if right == 0 {
            return Ok(true);
        }
        // Parent first, then its children from left to right; the children without waiting, since others
        // latch a child and then (without it) the parent, but purge may meet itself.
        let (parent_block, mut parent) = self.latch_node(1, KeyAndRow(&low.0, low.1))?;
        let v = parent.view();
        let i = node::child_index(&v, KeyAndRow(&low.0, low.1));
        let (Some(mine), Some(next)) = (node::entry(&v, i), node::entry(&v, i + 1)) else { return Ok(true) };
        if i + 1 >= node::count(&v) || mine.child != block || next.child != right {
            return Ok(true);
        }
        let (Some(mut left_page), Some(mut right_page)) = (self.try_latch_block(block)?, self.try_latch_block(right)?)
        else {
            return Ok(false);
        };
        let right_copy = *right_page.page();
        let rv = PageView::of(&right_copy);
        let left_copy = *left_page.page();
        let lv = PageView::of(&left_copy);
        let fits = node::count(&lv) == 0
            && node::right(&lv) == right
            && node::level(&rv) == 0
            && rv.is(crate::page::KIND_TREE, self.id, right)
            && node::low(&rv).is_some_and(|e| node::compare(&e, KeyAndRow(next.key, next.rid)) == Ordering::Equal);
        if !fits {
            return Ok(true);
        }
        let entries: Vec<&[u8]> = (0..node::count(&rv)).filter_map(|i| node::entry(&rv, i)).map(|e| e.bytes).collect();
        let low_bytes = node::low(&lv).map_or(&[][..], |e| e.bytes);
        let high_bytes = node::high(&rv).map_or(&[][..], |e| e.bytes);
        let used: usize = low_bytes.len() + high_bytes.len() + entries.iter().map(|e| e.len() + 2).sum::<usize>();
        if used + 44 > crate::page::PAGE {
            return Ok(true);
        }
        let image = node::image(node::right(&rv), low_bytes, high_bytes, &entries);
        let ops = [
            (self.target(block), PageOp::TreeImage { level: 0, image: &image }),
            (self.target(right), PageOp::Init { kind: crate::page::KIND_FREE, level: 0 }),
            (self.target(parent_block), PageOp::TreeRemove { idx: i + 1 }),
        ];
        self.core.emit_plain(self, 0, &ops, &[0, 1, 2], &mut [&mut left_page, &mut right_page, &mut parent])?;
        drop((left_page, right_page, parent));
        self.note_free(right);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn both_halves_fit() {
        // Few large entries and a long high fence: the middle one is too much for the right half.
        assert_eq!(place(&[1908, 1998, 1108, 1108], 10, 1998, |_| 1998, 1), 2);
        // The other way round.
        assert_eq!(place(&[1108, 1108, 1998, 1908], 1998, 10, |_| 1998, 3), 2);
        // Where it fits, it is as wanted: in the middle, or at the end for keys that grow.
        assert_eq!(place(&[100; 70], 50, 50, |_| 50, 35), 35);
        assert_eq!(place(&[100; 70], 50, 50, |_| 50, 69), 69);
    }
}
