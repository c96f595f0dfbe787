//! Moving what is pending to the postings.
//!
//! Invariants
//! 1. One thread at a time merges an index ([`super::State::pass`]).
//! 2. A leaf is latched for few terms at once. Whatever a crash breaks off is done again: postings that are there already stay as they
//!    are.
//! 3. A posting goes into the last block of the leaf that has its anchor before it. Blocks of a term may overlap where leaves meet.
//!
//! Must not know: what terms mean.

use super::entry::{self, ANCHOR_BYTES, PENDING, Posting};
use super::sweep::Pass;
use super::write::find_own;
use crate::ahead;
use crate::btree::node::{self, Key, Side};
use crate::buffer::WriteGuard;
use crate::directory::Relation;
use crate::page::View;
use crate::wal::record::{Op, Target};
use kilndb_base::Result;
use kilndb_base::bytes::Reader;
use kilndb_base::park::Park;
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Row ids that are being merged: from, to (inclusive); none if from is beyond.
pub(crate) struct Range(u64, u64);

impl Default for Range {
    fn default() -> Range {
        Range(1, 0)
    }
}
impl Range {
    pub(super) fn contains(&self, row: u64) -> bool {
        (self.0..=self.1).contains(&row)
    }
}

/// Bytes of pending rows that are merged together: what frequent terms share, and memory.
const BATCH_BYTES: usize = 16 << 20;
/// Terms put in under one latch.
const TERMS_AT_ONCE: usize = 64;
/// Postings of a term put in at once: with what they meet they fit a leaf.
const POSTINGS_AT_ONCE: usize = 256;

const HEAD_BYTES: usize = 8;

struct PendingPosting {
    /// The term's first bytes as a number, zeros behind them: most comparisons need no more.
    head: u64,
    /// Where the term is in the batch.
    start: u32,
    end: u32,
    posting: Posting,
}
impl PendingPosting {
    fn len(&self) -> usize {
        (self.end - self.start) as usize
    }
}

/// A term of a batch, and what of it is not in the tree yet.
struct Group {
    /// What its entries begin with.
    own: Vec<u8>,
    /// Behind its blocks that the first posting may belong to.
    target: Vec<u8>,
    postings: Vec<Posting>,
    /// So many of them are in the tree.
    placed: usize,
}
impl Group {
    fn rest(&self) -> &[Posting] {
        self.postings.get(self.placed..).unwrap_or(&[])
    }
    fn aim(&mut self) {
        self.target.clear();
        if let Some(first) = self.postings.get(self.placed) {
            entry::put_after_block(&mut self.target, &self.own, *first);
        }
    }
}

/// Rows taken out of the pending area for merging. Its memory is used again.
#[derive(Default)]
pub(crate) struct Batch {
    /// In the order of the pending area, with the numbers of their pieces.
    rows: Vec<(Posting, u16)>,
    /// Terms one after the other.
    bytes: Vec<u8>,
    postings: Vec<PendingPosting>,
    /// Pieces whose first one is not there: a crash, or who has just taken the row out, has left them.
    stray: Vec<(Posting, u16)>,
    /// Where pending rows go on; None: that was all.
    rest: Option<u64>,
}

impl Batch {
    fn clear(&mut self) {
        self.rows.clear();
        self.bytes.clear();
        self.postings.clear();
        self.stray.clear();
        self.rest = None;
    }
    fn term(&self, p: &PendingPosting) -> &[u8] {
        self.bytes.get(p.start as usize..p.end as usize).unwrap_or(&[])
    }
    fn add_terms(&mut self, posting: Posting, body: &[u8]) -> Result<()> {
        let mut r = Reader::new(body);
        while !r.is_empty() {
            let term = r.prefixed().ok_or_else(entry::damaged)?;
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(term);
            let mut head = [0; HEAD_BYTES];
            let len = term.len().min(HEAD_BYTES);
            head[..len].copy_from_slice(&term[..len]);
            self.postings.push(PendingPosting { head: u64::from_be_bytes(head), start, end: self.bytes.len() as u32, posting });
        }
        Ok(())
    }
    /// The order of two terms with the same head. Most are no longer than that, and need not be looked at.
    fn compare_rest(&self, a: &PendingPosting, b: &PendingPosting) -> Ordering {
        if a.len() <= HEAD_BYTES && b.len() <= HEAD_BYTES { a.len().cmp(&b.len()) } else { self.term(a).cmp(self.term(b)) }
    }
    fn sort(&mut self) {
        let mut postings = std::mem::take(&mut self.postings);
        postings.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| self.compare_rest(a, b)).then(a.posting.cmp(&b.posting)));
        self.postings = postings;
    }
    /// The next term; false: there is none.
    fn next_group(&self, at: &mut usize, group: &mut Group) -> bool {
        let Some(first) = self.postings.get(*at) else { return false };
        let term = self.term(first);
        group.own.clear();
        entry::put_posting_own(&mut group.own, term);
        group.postings.clear();
        group.placed = 0;
        while let Some(p) = self.postings.get(*at).filter(|p| p.head == first.head && self.compare_rest(p, first).is_eq()) {
            if group.postings.last() != Some(&p.posting) {
                group.postings.push(p.posting);
            }
            *at += 1;
        }
        group.aim();
        true
    }
}

/// Entries of terms that a latched leaf has none of yet, to be put in together, with their places then.
struct NewTerms {
    target: Target,
    entries: Vec<(usize, Vec<u8>)>,
    /// What they take.
    bytes: usize,
}

/// A large batch has terms for nearly every leaf, so that the next one is found without a descent, and can be fetched while this one
/// is worked on; a small one jumps.
struct NextLeaf {
    right: u32,
    /// How often it was the next one lately, more or less.
    hits: u32,
    leaves: u32,
}
impl Default for NextLeaf {
    fn default() -> NextLeaf {
        NextLeaf { right: 0, hits: NextLeaf::LIKELY, leaves: 0 }
    }
}
impl NextLeaf {
    const LIKELY: u32 = 4;
    const MOST: u32 = 8;
    /// So often it is tried all the same.
    const EVERY: u32 = 16;

    fn is_likely(&self) -> bool {
        self.right != 0 && self.hits >= NextLeaf::LIKELY
    }
    /// Where to look first; 0: nowhere.
    fn guess(&self) -> u32 {
        if self.is_likely() || self.leaves % NextLeaf::EVERY == 0 { self.right } else { 0 }
    }
    fn found(&mut self, guess: u32, block: u32, right: u32) {
        self.leaves = self.leaves.wrapping_add(1);
        if guess != 0 {
            self.hits = if guess == block { (self.hits + 1).min(NextLeaf::MOST) } else { self.hits.saturating_sub(2) };
        }
        self.right = right;
    }
}

/// What was made of some terms' postings on a latched leaf.
enum Placed {
    /// So many of the postings are there.
    Done(usize),
    /// The leaf is to be split, the next entry would go here.
    Full(usize),
}

/// Pieces of pending rows, joined. A row whose pieces are not all there is left out.
pub(super) struct PendingRow {
    pub posting: Posting,
    pub pieces: u16,
    pub body: Vec<u8>,
}
#[derive(Default)]
pub(super) struct Joiner {
    row: Option<PendingRow>,
    wanted: u16,
    /// The last piece, if it belonged to no row.
    pub(super) stray: Option<(Posting, u16)>,
}
impl Joiner {
    /// The next entry of the pending area; a row that is complete with it.
    pub(super) fn push(&mut self, key: &[u8]) -> Result<Option<PendingRow>> {
        let (posting, piece, rest) = entry::split_pending(key).ok_or_else(entry::damaged)?;
        if piece == 0 {
            let mut r = Reader::new(rest);
            self.wanted = r.varint().and_then(|n| u16::try_from(n).ok()).ok_or_else(entry::damaged)?;
            self.row = Some(PendingRow { posting, pieces: 1, body: r.remaining().to_vec() });
        } else {
            match &mut self.row {
                Some(row) if row.posting == posting && row.pieces == piece => {
                    row.body.extend_from_slice(rest);
                    row.pieces += 1;
                }
                _ => {
                    self.row = None;
                    self.stray = Some((posting, piece));
                }
            }
        }
        Ok(self.row.take_if(|row| row.pieces == self.wanted))
    }
}

impl Relation {
    /// Merges some rows from `from` on; where to go on.
    fn merge_some(self: &Arc<Self>, from: u64, batch: &mut Batch) -> Result<Option<u64>> {
        let state = self.state()?;
        *crate::lock(&state.merging) = Range(from, u64::MAX);
        let merged = self.merge_batch(from, batch);
        *crate::lock(&state.merging) = Range::default();
        merged
    }
    fn merge_batch(self: &Arc<Self>, from: u64, batch: &mut Batch) -> Result<Option<u64>> {
        self.gather_pending(from, batch)?;
        if let Some(rest) = batch.rest {
            // Others need not wait for these.
            *crate::lock(&self.state()?.merging) = Range(from, rest.saturating_sub(1));
        }
        batch.sort();
        if self.put_batch(batch)? {
            self.remove_pending(&batch.rows)?;
            for (posting, piece) in &batch.stray {
                if !self.is_pending(*posting)? {
                    self.remove_own(&entry::pending_own(*posting, *piece))?;
                }
            }
            return Ok(batch.rest);
        }
        Ok(None)
    }
    fn gather_pending(self: &Arc<Self>, from: u64, batch: &mut Batch) -> Result<()> {
        batch.clear();
        let mut joiner = Joiner::default();
        self.each_between(entry::pending_own((from, 0), 0), vec![PENDING + 1], &mut |key, _| {
            let Some(row) = joiner.push(key)? else {
                batch.stray.extend(joiner.stray.take());
                return Ok(true);
            };
            if batch.bytes.len() > BATCH_BYTES && batch.rows.last().is_some_and(|(last, _)| last.0 != row.posting.0) {
                batch.rest = Some(row.posting.0);
                return Ok(false);
            }
            // One that died while another merge was under way is only taken out.
            if !self.history(row.posting.0)?.is_dead(row.posting.1) {
                batch.add_terms(row.posting, &row.body)?;
            }
            batch.rows.push((row.posting, row.pieces));
            Ok(true)
        })
    }
    /// False: the server stops, it was broken off.
    fn put_batch(&self, batch: &Batch) -> Result<bool> {
        let mut at = 0;
        let mut group = Group { own: Vec::new(), target: Vec::new(), postings: Vec::new(), placed: 0 };
        let mut more = batch.next_group(&mut at, &mut group);
        let mut next_leaf = NextLeaf::default();
        while more {
            if self.core.stop.load(Acquire) {
                return Ok(false);
            }
            let near = next_leaf.guess();
            let (block, mut page) = self.latch_leaf_near(near, Key(&group.target, 0))?;
            next_leaf.found(near, block, node::right(&page.view()));
            if next_leaf.is_likely() {
                ahead::fetch_page(self, next_leaf.right);
            }
            let mut full = None;
            let mut new = NewTerms { target: self.target(block), entries: Vec::new(), bytes: 0 };
            for _ in 0..TERMS_AT_ONCE {
                match self.place(&mut page, &group, &mut new)? {
                    Placed::Done(count) => group.placed += count,
                    Placed::Full(idx) => {
                        full = Some(idx);
                        break;
                    }
                }
                if group.rest().is_empty() {
                    more = batch.next_group(&mut at, &mut group);
                } else {
                    group.aim();
                }
                if !more || node::side(&page.view(), Key(&group.target, 0)) != Side::Inside {
                    break;
                }
            }
            self.put_new(&mut page, &mut new)?;
            if let Some(idx) = full {
                self.split(block, page, idx)?;
                next_leaf.right = block;
            }
        }
        Ok(true)
    }
    /// Puts terms that were not there yet into their leaf.
    fn put_new(&self, page: &mut WriteGuard<'_>, new: &mut NewTerms) -> Result<()> {
        if new.entries.is_empty() {
            return Ok(());
        }
        let ops: Vec<_> = new.entries.iter().map(|(idx, entry)| (new.target, Op::TreeInsert { idx: *idx, entry })).collect();
        self.core.emit_plain(self, 0, &ops, &vec![0; ops.len()], &mut [page])?;
        new.entries.clear();
        new.bytes = 0;
        Ok(())
    }
    /// Puts the first of a term's postings into a leaf that covers them. Terms come in their order.
    fn place(&self, page: &mut WriteGuard<'_>, group: &Group, new: &mut NewTerms) -> Result<Placed> {
        let (own, postings) = (&group.own[..], group.rest());
        let view = page.view();
        let idx = node::lower_bound(&view, Key(&group.target, 0));
        let next = node::entry(&view, idx).filter(|_| idx < node::count(&view));
        let is_own = |e: node::Entry<'_>| e.key.starts_with(own);
        if let [posting] = postings
            && !next.is_some_and(is_own)
            && !idx.checked_sub(1).and_then(|i| node::entry(&view, i)).is_some_and(is_own)
            && let Some(entry) = lone(&view, own, *posting)
        {
            // A term that is not there yet. Those before it will stand before it.
            if node::room(page.page()) < new.bytes + entry.len() + 2 {
                return Ok(Placed::Full(idx + new.entries.len()));
            }
            new.bytes += entry.len() + 2;
            new.entries.push((idx + new.entries.len(), entry));
            return Ok(Placed::Done(1));
        }
        if !new.entries.is_empty() {
            self.put_new(page, new)?;
            return self.place(page, group, new);
        }
        // Postings before the term's next block.
        let limit = match next {
            Some(next) => next_anchor(next.key, own),
            None => node::high(&view).and_then(|high| next_anchor(high.key, own)),
        };
        let taken = postings.iter().take(POSTINGS_AT_ONCE).take_while(|p| limit.is_none_or(|limit| **p < limit)).count().max(1);
        let taken_now = postings.get(..taken).unwrap_or(postings);
        if self.extend_block(page, idx, own, taken_now, new.target)? {
            return Ok(Placed::Done(taken));
        }
        self.put_among(page, idx, own, taken_now, limit, new.target)
    }
    /// Puts postings behind all others of the block before `idx`, if that is what they are and the block can take them.
    fn extend_block(&self, page: &mut WriteGuard<'_>, idx: usize, own: &[u8], new: &[Posting], target: Target) -> Result<bool> {
        let view = page.view();
        let Some((at, block)) = idx.checked_sub(1).and_then(|at| Some((at, node::entry(&view, at)?))) else { return Ok(false) };
        let Some(rest) = block.key.strip_prefix(own).filter(|rest| !rest.is_empty()) else { return Ok(false) };
        let mut last = (0, 0);
        entry::read_postings(rest, 0, &mut |p| last = p)?;
        if new.first().is_none_or(|first| *first <= last) {
            return Ok(false);
        }
        let mut tail = Vec::with_capacity(4 * new.len());
        entry::put_postings(&mut tail, last.0, new);
        if rest.len() - ANCHOR_BYTES + tail.len() > entry::largest_block(own) || node::room(page.page()) < tail.len() {
            return Ok(false);
        }
        self.core.emit_plain(self, 0, &[(target, Op::TreeExtend { idx: at, tail: &tail })], &[0], &mut [page])?;
        Ok(true)
    }
    /// Puts postings, all before `limit`, together with what the term has before `idx`.
    fn put_among(&self, page: &mut WriteGuard<'_>, idx: usize, own: &[u8], new: &[Posting], limit: Option<Posting>, target: Target) -> Result<Placed> {
        let view = page.view();
        let old = before(&view, idx, own, limit)?;
        if let ([posting @ (row, 0)], true, None) = (new, old.postings.is_empty(), old.anchor)
            && let Some(entry) = lone(&view, own, *posting)
        {
            // It stands alone, among others of the term that do not concern it.
            if node::room(page.page()) < entry.len() + 2 {
                return Ok(Placed::Full(idx));
            }
            let idx = node::lower_bound(&view, Key(own, *row));
            self.core.emit_plain(self, 0, &[(target, Op::TreeInsert { idx, entry: &entry })], &[0], &mut [page])?;
            return Ok(Placed::Done(1));
        }
        let merged = union(&old.postings, new);
        if merged.len() == old.postings.len() {
            return Ok(Placed::Done(new.len()));
        }
        let appended = old.postings.last().is_none_or(|last| new.first().is_some_and(|p| p > last));
        let entries = divided(&view, own, old.anchor, &merged, appended);
        let needed: usize = entries.iter().map(|e| e.len() + 2).sum();
        let freed: usize = (old.first..idx).filter_map(|i| node::entry(&view, i)).map(|e| e.bytes.len() + 2).sum();
        if node::room(page.page()) + freed < needed {
            return Ok(Placed::Full(idx));
        }
        let mut ops: Vec<(Target, Op<'_>)> = Vec::with_capacity(entries.len() + idx - old.first);
        let mut inserts = entries.iter().zip(old.first..).map(|(entry, idx)| (target, Op::TreeInsert { idx, entry }));
        match (old.anchor, entries.first()) {
            (Some(_), Some(entry)) => {
                ops.push((target, Op::TreeReplace { idx: old.first, entry }));
                inserts.next();
            }
            // From the right, so that places stay.
            _ => ops.extend((old.first..idx).rev().map(|idx| (target, Op::TreeRemove { idx }))),
        }
        ops.extend(inserts);
        let which = vec![0; ops.len()];
        self.core.emit_plain(self, 0, &ops, &which, &mut [page])?;
        Ok(Placed::Done(new.len()))
    }
    /// Takes merged rows out, a leaf at a time.
    fn remove_pending(&self, rows: &[(Posting, u16)]) -> Result<()> {
        let mut owns = rows.iter().flat_map(|(posting, pieces)| (0..*pieces).map(|piece| entry::pending_own(*posting, piece))).peekable();
        while let Some(next) = owns.peek().cloned() {
            let (block, mut page) = self.latch_node(0, Key(&next, 0))?;
            let target = self.target(block);
            let mut found = Vec::new();
            while let Some(own) = owns.next_if(|own| node::side(&page.view(), Key(own, 0)) == Side::Inside) {
                if let (idx, Some(_)) = find_own(&page.view(), &own) {
                    found.push(idx);
                }
            }
            if !found.is_empty() {
                let ops: Vec<_> = found.iter().rev().map(|idx| (target, Op::TreeRemove { idx: *idx })).collect();
                let which = vec![0; ops.len()];
                self.core.emit_plain(self, 0, &ops, &which, &mut [&mut page])?;
            }
            let is_empty = node::count(&page.view()) == 0 && block != 0;
            drop(page);
            if is_empty {
                self.unlink_empty(block)?;
            }
        }
        Ok(())
    }
    /// One round of the background thread; true: there is more to do.
    pub(super) fn inverted_step(self: &Arc<Self>, now_nanos: u64, batch: &mut Batch) -> Result<bool> {
        let state = self.state()?;
        let Ok(mut pass) = state.pass.try_lock() else { return Ok(true) };
        if !state.counted.swap(true, Relaxed) {
            self.count_left_over()?;
        }
        let pending = state.pending_bytes.load(Relaxed);
        if pending > 0 && state.pending_since_nanos.load(Relaxed) == 0 {
            state.pending_since_nanos.store(now_nanos.max(1), Relaxed);
        }
        let since = state.pending_since_nanos.load(Relaxed);
        let is_old = since != 0 && now_nanos.saturating_sub(since) > LONGEST_PENDING_NANOS;
        if pending > WORTHWHILE_BYTES || pending > 0 && is_old || pass.is_merging() || state.is_wanted.load(Relaxed) {
            self.merge_step(&mut pass, batch)?;
            return Ok(pass.is_merging());
        }
        self.sweep_step(&mut pass)
    }
    fn merge_step(self: &Arc<Self>, pass: &mut Pass, batch: &mut Batch) -> Result<()> {
        let state = self.state()?;
        if !pass.is_merging() {
            state.begun.fetch_add(1, Relaxed);
            state.is_wanted.store(false, Relaxed);
            state.pending_bytes.store(0, Relaxed);
            state.pending_since_nanos.store(0, Relaxed);
        }
        let from = pass.merge_from.take().unwrap_or(0);
        let merged = self.merge_some(from, batch);
        pass.merge_from = merged.as_ref().ok().and_then(|rest| *rest);
        if merged.is_err() {
            // Later once more.
            state.pending_bytes.fetch_add(1, Relaxed);
            state.is_sure.store(false, Relaxed);
            pass.sweep = None;
        }
        if merged?.is_none() {
            state.finished.store(state.begun.load(Relaxed), Relaxed);
            state.is_sure.store(!self.core.stop.load(Acquire), Relaxed);
        }
        Ok(())
    }
    /// Waits until all that is pending now has been merged; how many bytes that was, about.
    pub(crate) fn flush_pending(self: &Arc<Self>, park: &dyn Park) -> Result<u64> {
        let state = self.state()?;
        let bytes = state.pending_bytes.load(Relaxed);
        // Of a private store nobody else minds how long it takes.
        let is_private = self.core.log.is_none();
        let begun = state.begun.load(Relaxed);
        while state.finished.load(Relaxed) <= begun {
            state.is_wanted.store(true, Relaxed);
            if is_private {
                self.merge_step(&mut crate::lock(&state.pass), &mut Batch::default())?;
            } else {
                park.park(Some(self.core.env.monotonic_nanos() + POLL_NANOS))?;
                self.pid(0)?;
            }
        }
        Ok(bytes)
    }
}

const POLL_NANOS: u64 = 1_000_000;
/// So much is merged at once: the more there is of a term, the fewer blocks are written anew for each of its postings ...
const WORTHWHILE_BYTES: u64 = BATCH_BYTES as u64;
/// ... or what has waited so long.
const LONGEST_PENDING_NANOS: u64 = 1_000_000_000;

/// Entries of a term that new postings are put together with: a block, or all rows that stand alone. They end where it was asked.
struct Old {
    first: usize,
    /// Of a block.
    anchor: Option<Posting>,
    postings: Vec<Posting>,
}

/// The term's entries right before `idx`; none if they reach beyond the next block.
fn before(view: &View, idx: usize, own: &[u8], limit: Option<Posting>) -> Result<Old> {
    let mut old = Old { first: idx, anchor: None, postings: Vec::new() };
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
        return Ok(Old { first: idx, anchor: None, postings: Vec::new() });
    }
    Ok(old)
}
/// The entry of a term with this posting alone; None: it would stand on another leaf.
fn lone(view: &View, own: &[u8], posting: Posting) -> Option<Vec<u8>> {
    let (bytes, rid) = match posting {
        (row, 0) => (own.to_vec(), row),
        _ => (entry::block(own, posting, &[posting]), 0),
    };
    let key = bytes.get(..own.len() + ANCHOR_BYTES).unwrap_or(&bytes);
    (node::side(view, Key(key, rid)) == Side::Inside).then(|| node::build(&bytes, rid, None, 0))
}
/// The anchor of the term's next block, if this is one of its entries (or a fence that is the beginning of one).
fn next_anchor(key: &[u8], own: &[u8]) -> Option<Posting> {
    let rest = key.strip_prefix(own)?;
    let mut anchor = [0; ANCHOR_BYTES];
    let len = rest.len().min(ANCHOR_BYTES);
    anchor[..len].copy_from_slice(rest.get(..len)?);
    entry::anchor_of(&anchor)
}
/// Of two lists in order, each without repetitions.
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
fn divided(view: &View, own: &[u8], anchor: Option<Posting>, postings: &[Posting], appended: bool) -> Vec<Vec<u8>> {
    if let ([posting @ (_, 0)], None) = (postings, anchor)
        && let Some(entry) = lone(view, own, *posting)
    {
        return vec![entry];
    }
    // Postings may reach beyond the leaf, and into the next block, but no block may begin there.
    let may_begin = |p: &Posting| {
        let key = entry::block_own(own, *p);
        node::side(view, Key(&key, 0)) == Side::Inside && find_own(view, &key).1.is_none()
    };
    let largest = entry::largest_block(own);
    let mut entries = Vec::new();
    let mut rest = postings;
    let mut anchor = anchor.or(rest.first().copied());
    while let Some(begin) = anchor.take() {
        let mut count = entry::fitting(begin, rest, largest);
        // What only grows at its end leaves full blocks behind.
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
