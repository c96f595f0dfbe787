//! Puts the postings of a batch's terms into a latched leaf.
//!
//! Invariants
//! 1. A posting goes into the last block of the leaf that has its anchor before it. Blocks of a term may overlap where
//!    leaves meet.
//! 2. Changes of a leaf are gathered from left to right and go into one log record. Entries that gathered changes
//!    concern are not looked at again before these are made.
//!
//! Must not know: where postings come from.

use super::entry::{self, ANCHOR_BYTES, Posting};
use super::write::find_own;
use crate::btree::node::{self, FenceSide, KeyAndRow};
use crate::buffer::WriteGuard;
use crate::directory::Relation;
use crate::page::PageView;
use crate::wal::record::{PageOp, PageTarget};
use kilndb_base::Result;
use std::ops::Range;

/// Postings of a term put in at once: with what they meet they fit a leaf.
const POSTINGS_AT_ONCE: usize = 256;
/// The bytes of changes that are gathered at most, so that together with one more they fit a log record.
const MOST_GATHERED: usize = 16 << 10;

/// A term of a batch, and what of it is not in the tree yet.
#[derive(Default)]
pub(super) struct TermGroup {
    /// The bytes that the term's entries begin with.
    own: Vec<u8>,
    /// A key behind the blocks that the first posting may belong to.
    pub target: Vec<u8>,
    postings: Vec<Posting>,
    /// How many of the postings are in the tree.
    placed: usize,
}
impl TermGroup {
    /// Begins with another term, as it is kept.
    pub fn begin(&mut self, term: &[u8]) {
        self.own.clear();
        entry::put_posting_own(&mut self.own, term);
        self.postings.clear();
        self.placed = 0;
    }
    /// Adds a posting; postings come in their order.
    pub fn push(&mut self, posting: Posting) {
        if self.postings.last() != Some(&posting) {
            self.postings.push(posting);
        }
    }
    pub fn placed(&mut self, count: usize) {
        self.placed += count;
    }
    pub fn rest(&self) -> &[Posting] {
        self.postings.get(self.placed..).unwrap_or(&[])
    }
    pub(crate) fn aim(&mut self) {
        self.target.clear();
        if let Some(first) = self.postings.get(self.placed) {
            entry::put_after_block(&mut self.target, &self.own, *first);
        }
    }
}

/// The outcome of putting some terms' postings into a latched leaf.
pub(super) enum PlacingOutcome {
    /// So many of the postings are in the leaf.
    Done(usize),
    /// The leaf is to be split, the next entry would go here.
    Full(usize),
}

enum LeafChangeKind {
    Insert,
    Replace,
    Extend,
}
struct LeafChange {
    kind: LeafChangeKind,
    /// The position of the change, once those before it are made.
    idx: usize,
    bytes: Range<usize>,
}
/// Changes of a leaf that are yet to be made. Its memory is used again.
#[derive(Default)]
pub(super) struct LeafChanges {
    target: Option<PageTarget>,
    list: Vec<LeafChange>,
    bytes: Vec<u8>,
    /// How many entries the changes add.
    added: usize,
    /// How much room the changes take; negative if they free some.
    taken: isize,
    /// The last one is right before this entry, as they stand now.
    end: usize,
    /// The next change is not before this entry.
    near: usize,
    /// How many bytes all entries of the leaf share at their beginning.
    shared: usize,
}
impl LeafChanges {
    /// Begins with another leaf.
    pub fn begin(&mut self, view: &PageView, target: PageTarget) {
        self.clear();
        self.target = Some(target);
        self.near = 0;
        self.shared = node::shared_by_fences(view);
    }
    fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
        (self.added, self.taken, self.end) = (0, 0, 0);
    }
    /// Begins an entry of the term, of which the key is to be gone on with; where it begins.
    fn begin_entry(&mut self, own: &[u8]) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; node::PLAIN_HEAD]);
        self.bytes.extend_from_slice(own);
        start
    }
    /// The entry that began there is complete, and is to be inserted before entry `idx`. False: it does not fit.
    fn insert(&mut self, view: &PageView, start: usize, rid: u64, idx: usize) -> bool {
        node::set_plain_head(&mut self.bytes[start..], rid);
        let takes = (self.bytes.len() - start + node::SLOT) as isize;
        let added = self.add(
            view,
            takes,
            LeafChange { kind: LeafChangeKind::Insert, idx: idx + self.added, bytes: start..self.bytes.len() },
            idx,
        );
        self.added += usize::from(added);
        added
    }
    fn add(&mut self, view: &PageView, takes: isize, change: LeafChange, end: usize) -> bool {
        if self.taken + takes > node::room_of(view) as isize {
            self.bytes.truncate(change.bytes.start);
            return false;
        }
        self.taken += takes;
        self.end = end;
        self.list.push(change);
        true
    }
    fn ops(&self) -> impl Iterator<Item = (PageTarget, PageOp<'_>)> {
        self.list.iter().filter_map(|change| {
            let (idx, bytes) = (change.idx, self.bytes.get(change.bytes.clone()).unwrap_or(&[]));
            let op = match change.kind {
                LeafChangeKind::Insert => PageOp::TreeInsert { idx, entry: bytes },
                LeafChangeKind::Replace => PageOp::TreeReplace { idx, entry: bytes },
                LeafChangeKind::Extend => PageOp::TreeExtend { idx, tail: bytes },
            };
            Some((self.target?, op))
        })
    }
}

impl Relation {
    /// Makes the changes that have been gathered.
    pub(super) fn make(&self, page: &mut WriteGuard<'_>, changes: &mut LeafChanges) -> Result<()> {
        if !changes.list.is_empty() {
            let ops: Vec<_> = changes.ops().collect();
            self.core.emit_plain(self, 0, &ops, &vec![0; ops.len()], &mut [page])?;
            changes.clear();
        }
        Ok(())
    }
    /// Puts the first of a term's postings into a leaf that covers them, or among its changes. Terms come in their
    /// order.
    pub(super) fn place(
        &self,
        page: &mut WriteGuard<'_>,
        group: &TermGroup,
        changes: &mut LeafChanges,
    ) -> Result<PlacingOutcome> {
        let (own, postings) = (&group.own[..], group.rest());
        let view = page.view();
        let idx = node::lower_bound_from(&view, KeyAndRow(&group.target, 0), changes.near, changes.shared);
        changes.near = idx;
        let meets_changed = group.placed > 0 && idx <= changes.end;
        if !changes.list.is_empty() && (meets_changed || changes.bytes.len() > MOST_GATHERED) {
            self.make(page, changes)?;
            return self.place(page, group, changes);
        }
        // Postings before the term's next block.
        let limit = match node::entry(&view, idx).filter(|_| idx < node::count(&view)) {
            Some(next) => next_anchor(next.key, own),
            None => node::high(&view).and_then(|high| next_anchor(high.key, own)),
        };
        let taken =
            postings.iter().take(POSTINGS_AT_ONCE).take_while(|p| limit.is_none_or(|limit| **p < limit)).count().max(1);
        let new = postings.get(..taken).unwrap_or(postings);
        let before =
            idx.checked_sub(1).and_then(|at| node::entry(&view, at)).and_then(|e| Some((e, e.key.strip_prefix(own)?)));
        let placed = match before {
            None => changes.put_first(&view, idx, own, new),
            Some((e, rest)) if !rest.is_empty() => changes.put_among(&view, idx, own, (&e, rest), new)?,
            Some(_) => None,
        };
        if let Some(placed) = placed {
            return Ok(placed);
        }
        if !changes.list.is_empty() {
            self.make(page, changes)?;
            return self.place(page, group, changes);
        }
        let Some(target) = changes.target else { return Err(entry::damaged()) };
        changes.near = 0;
        self.put_together(page, idx, own, new, limit, target)
    }
    /// Puts postings, all before `limit`, together with what the term has before `idx`, whatever that is.
    fn put_together(
        &self,
        page: &mut WriteGuard<'_>,
        idx: usize,
        own: &[u8],
        new: &[Posting],
        limit: Option<Posting>,
        target: PageTarget,
    ) -> Result<PlacingOutcome> {
        let view = page.view();
        let old = before(&view, idx, own, limit)?;
        if let ([posting @ (row, 0)], true, None) = (new, old.postings.is_empty(), old.anchor)
            && let Some(entry) = lone(&view, own, *posting)
        {
            // The posting becomes an entry of its own among others of the term.
            if node::room(page.page()) < entry.len() + 2 {
                return Ok(PlacingOutcome::Full(idx));
            }
            let idx = node::lower_bound(&view, KeyAndRow(own, *row));
            self.core.emit_plain(self, 0, &[(target, PageOp::TreeInsert { idx, entry: &entry })], &[0], &mut [page])?;
            return Ok(PlacingOutcome::Done(1));
        }
        let merged = union(&old.postings, new);
        if merged.len() == old.postings.len() {
            return Ok(PlacingOutcome::Done(new.len()));
        }
        let appended = old.postings.last().is_none_or(|last| new.first().is_some_and(|p| p > last));
        let entries = divided(&view, own, old.anchor, &merged, appended);
        let needed: usize = entries.iter().map(|e| e.len() + 2).sum();
        let freed: usize = (old.first..idx).filter_map(|i| node::entry(&view, i)).map(|e| e.bytes.len() + 2).sum();
        if node::room(page.page()) + freed < needed {
            return Ok(PlacingOutcome::Full(idx));
        }
        let mut ops: Vec<(PageTarget, PageOp<'_>)> = Vec::with_capacity(entries.len() + idx - old.first);
        let mut inserts =
            entries.iter().zip(old.first..).map(|(entry, idx)| (target, PageOp::TreeInsert { idx, entry }));
        match (old.anchor, entries.first()) {
            (Some(_), Some(entry)) => {
                ops.push((target, PageOp::TreeReplace { idx: old.first, entry }));
                inserts.next();
            }
            // Entries are removed from the right, so that the positions of the others stay.
            _ => ops.extend((old.first..idx).rev().map(|idx| (target, PageOp::TreeRemove { idx }))),
        }
        ops.extend(inserts);
        let which = vec![0; ops.len()];
        self.core.emit_plain(self, 0, &ops, &which, &mut [page])?;
        Ok(PlacingOutcome::Done(new.len()))
    }
}

impl LeafChanges {
    /// Postings before which the leaf has none of the term; None: no single entry holds them.
    fn put_first(&mut self, view: &PageView, idx: usize, own: &[u8], new: &[Posting]) -> Option<PlacingOutcome> {
        let first = *new.first()?;
        // A key behind another entry of the leaf belongs to the leaf.
        let is_inside = |key: &[u8], rid| idx > 0 || node::side(view, KeyAndRow(key, rid)) == FenceSide::Inside;
        let start = self.begin_entry(own);
        let rid = match new {
            [(row, 0)] => *row,
            _ => {
                entry::put_anchor(&mut self.bytes, first);
                entry::put_postings(&mut self.bytes, first.0, new);
                0
            }
        };
        let key = &self.bytes[start + node::PLAIN_HEAD..];
        if key.len() > own.len() + ANCHOR_BYTES + entry::largest_block(own) || !is_inside(key, rid) {
            self.bytes.truncate(start);
            return None;
        }
        Some(if self.insert(view, start, rid, idx) {
            PlacingOutcome::Done(new.len())
        } else {
            PlacingOutcome::Full(idx + self.added)
        })
    }
    /// Postings among those of the block before `idx`, of which `rest` is behind the term; None: it would become too
    /// large.
    fn put_among(
        &mut self,
        view: &PageView,
        idx: usize,
        own: &[u8],
        (block, rest): (&node::NodeEntry<'_>, &[u8]),
        new: &[Posting],
    ) -> Result<Option<PlacingOutcome>> {
        let start = self.begin_entry(own);
        let same = entry::put_among(&mut self.bytes, rest, new)?;
        let Some(same) = same else {
            self.bytes.truncate(start);
            return Ok(Some(PlacingOutcome::Done(new.len())));
        };
        let rest_start = start + node::PLAIN_HEAD + own.len();
        if self.bytes.len() - rest_start > ANCHOR_BYTES + entry::largest_block(own) {
            self.bytes.truncate(start);
            return Ok(None);
        }
        let takes = (self.bytes.len() - start) as isize - block.bytes.len() as isize;
        node::set_plain_head(&mut self.bytes[start..], block.rid);
        // If the entry only grows at its end, only the end is logged.
        let (kind, from) = if same == rest.len() {
            (LeafChangeKind::Extend, rest_start + same)
        } else {
            (LeafChangeKind::Replace, start)
        };
        let change = LeafChange { kind, idx: idx - 1 + self.added, bytes: from..self.bytes.len() };
        Ok(Some(if self.add(view, takes, change, idx) {
            PlacingOutcome::Done(new.len())
        } else {
            PlacingOutcome::Full(idx + self.added)
        }))
    }
}

/// Entries of a term that new postings are put together with: a block, or all rows that stand alone. They end where it
/// was asked.
struct ExistingPostings {
    first: usize,
    /// The anchor, if it is a block.
    anchor: Option<Posting>,
    postings: Vec<Posting>,
}

/// The term's entries right before `idx`; none if they reach beyond the next block.
fn before(view: &PageView, idx: usize, own: &[u8], limit: Option<Posting>) -> Result<ExistingPostings> {
    let mut old = ExistingPostings { first: idx, anchor: None, postings: Vec::new() };
    while let Some(e) = old.first.checked_sub(1).and_then(|i| node::entry(view, i)) {
        let Some((_, rest)) = entry::split_posting(e.key).filter(|(term, _)| *term == own) else { break };
        if !rest.is_empty() && old.first != idx {
            break;
        }
        entry::read_postings(rest, e.rid, &mut |p| old.postings.push(p))?;
        old.first -= 1;
        if !rest.is_empty() {
            old.anchor = Some(entry::anchor_of(rest).ok_or_else(entry::damaged)?);
            break;
        }
    }
    old.postings.sort_unstable();
    if old.anchor.is_none() && old.postings.last().is_some_and(|last| limit.is_some_and(|limit| *last >= limit)) {
        return Ok(ExistingPostings { first: idx, anchor: None, postings: Vec::new() });
    }
    Ok(old)
}
/// The entry of a term with this posting alone; None: it would stand on another leaf.
fn lone(view: &PageView, own: &[u8], posting: Posting) -> Option<Vec<u8>> {
    let (bytes, rid) = match posting {
        (row, 0) => (own.to_vec(), row),
        _ => (entry::block(own, posting, &[posting]), 0),
    };
    let key = bytes.get(..own.len() + ANCHOR_BYTES).unwrap_or(&bytes);
    (node::side(view, KeyAndRow(key, rid)) == FenceSide::Inside).then(|| node::build(&bytes, rid, None, 0))
}
/// The anchor of the term's next block, if this is one of its entries (or a fence that is the beginning of one).
fn next_anchor(key: &[u8], own: &[u8]) -> Option<Posting> {
    let rest = key.strip_prefix(own)?;
    let mut anchor = [0; ANCHOR_BYTES];
    let len = rest.len().min(ANCHOR_BYTES);
    anchor[..len].copy_from_slice(rest.get(..len)?);
    entry::anchor_of(&anchor)
}
/// The union of two lists in order, each without repetitions.
fn union(mut existing: &[Posting], new: &[Posting]) -> Vec<Posting> {
    let mut all = Vec::with_capacity(existing.len() + new.len());
    for posting in new {
        let (before, after) = existing.split_at(existing.partition_point(|p| p < posting));
        all.extend_from_slice(before);
        all.push(*posting);
        existing = if after.first() == Some(posting) { &after[1..] } else { after };
    }
    all.extend_from_slice(existing);
    all
}
/// Entries for these postings, which stand side by side. `anchor`: of the block that there is.
fn divided(view: &PageView, own: &[u8], anchor: Option<Posting>, postings: &[Posting], appended: bool) -> Vec<Vec<u8>> {
    if let ([posting @ (_, 0)], None) = (postings, anchor)
        && let Some(entry) = lone(view, own, *posting)
    {
        return vec![entry];
    }
    // Postings may reach beyond the leaf, and into the next block, but no block may begin there.
    let may_begin = |p: &Posting| {
        let key = entry::block_own(own, *p);
        node::side(view, KeyAndRow(&key, 0)) == FenceSide::Inside && find_own(view, &key).1.is_none()
    };
    let largest = entry::largest_block(own);
    let mut entries = Vec::new();
    let mut rest = postings;
    let mut anchor = anchor.or(rest.first().copied());
    while let Some(begin) = anchor.take() {
        let mut count = entry::fitting(begin, rest, largest);
        // A list that only grows at its end leaves full blocks behind.
        if count < rest.len() && !appended {
            count = count.min(rest.len().div_ceil(2));
        }
        let earlier = || (1..=count).rev().find(|at| rest.get(*at).is_some_and(may_begin));
        count = match if count < rest.len() { earlier() } else { Some(count) } {
            Some(earlier) => earlier,
            None => (count..rest.len()).find(|at| rest.get(*at).is_some_and(may_begin)).unwrap_or(rest.len()),
        };
        let (here, later) = rest.split_at(count);
        entries.push(node::build(&entry::block(own, begin, here), 0, None, 0));
        anchor = later.first().copied();
        rest = later;
    }
    entries
}
