//! Merging: moves pending rows to the postings.
//!
//! Invariants
//! 1. One thread at a time merges an index ([`super::InvertedState::pass`]).
//! 2. A leaf is latched for few terms at once. A merge that a crash cuts off is done again: postings that are there
//!    already stay as they are.
//!
//! Must not know: what terms mean.

use super::entry::{self, PENDING, Posting};
use super::place::{LeafChanges, PlacingOutcome, TermGroup};
use super::sweep::MaintenancePass;
use super::write::find_own;
use crate::MAX_KEY;
use crate::ahead;
use crate::btree::node::{self, FenceSide, KeyAndRow};
use crate::directory::Relation;
use crate::wal::record::PageOp;
use kilndb_base::Result;
use kilndb_base::bytes::ByteReader;
use kilndb_base::park::Park;
use kilndb_base::sync::atomic::Ordering::{Acquire, Relaxed};
use std::cmp::Ordering;
use std::sync::Arc;

/// Row ids that are being merged: from, to (inclusive); none if from is beyond.
pub(crate) struct RowIdRange(u64, u64);

impl Default for RowIdRange {
    fn default() -> RowIdRange {
        RowIdRange(1, 0)
    }
}
impl RowIdRange {
    pub(super) fn contains(&self, row: u64) -> bool {
        (self.0..=self.1).contains(&row)
    }
}

/// How many bytes of pending rows are merged together. More bytes let frequent terms share entries, and take more
/// memory.
const BATCH_BYTES: usize = 16 << 20;
/// How many terms are inserted under one latch.
const TERMS_AT_ONCE: usize = 64;

/// How many terms ahead memory is prefetched.
const TERMS_AHEAD: usize = 8;

const HEAD_BYTES: usize = size_of::<u128>();

/// A term of a pending row.
struct PendingPosting {
    /// The term's first bytes as a number, zeros behind them: most terms are no longer, and nobody has to look for them
    /// elsewhere.
    head: u128,
    /// The position of the term in the batch.
    start: u32,
    len: u16,
    /// The position of its row among those of the batch, which are in order.
    row: u32,
}
const _: () = assert!(size_of::<PendingPosting>() == 32 && entry::LONGEST_TERM <= u16::MAX as usize);
impl PendingPosting {
    fn is_whole(&self) -> bool {
        usize::from(self.len) <= HEAD_BYTES
    }
}

/// Rows taken out of the pending area for merging. Its memory is used again.
#[derive(Default)]
pub(crate) struct MergeBatch {
    /// The rows in the order of the pending area, with the numbers of their pieces.
    rows: Vec<(Posting, u16)>,
    /// Terms one after the other.
    bytes: Vec<u8>,
    postings: Vec<PendingPosting>,
    /// Pieces whose first one is not there: a crash, or who has just taken the row out, has left them.
    stray: Vec<(Posting, u16)>,
    /// The row where pending rows go on; None: there are no more.
    rest: Option<u64>,
}

impl MergeBatch {
    fn clear(&mut self) {
        self.rows.clear();
        self.bytes.clear();
        self.postings.clear();
        self.stray.clear();
        self.rest = None;
    }
    fn term<'a>(&'a self, p: &PendingPosting) -> &'a [u8] {
        let start = p.start as usize;
        self.bytes.get(start..start + usize::from(p.len)).unwrap_or(&[])
    }
    /// Adds a row that is to be merged, with its terms.
    fn add(&mut self, row: PendingRow, is_dead: bool) -> Result<()> {
        let number = self.rows.len() as u32;
        self.rows.push((row.posting, row.pieces));
        // A row that died while another merge was under way is only taken out.
        let mut r = ByteReader::new(if is_dead { &[] } else { &row.body });
        while !r.is_empty() {
            let term = r.prefixed().filter(|term| term.len() <= MAX_KEY).ok_or_else(entry::damaged)?;
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(term);
            let mut head = [0; HEAD_BYTES];
            let len = term.len().min(HEAD_BYTES);
            head[..len].copy_from_slice(&term[..len]);
            self.postings.push(PendingPosting {
                head: u128::from_be_bytes(head),
                start,
                len: term.len() as u16,
                row: number,
            });
        }
        Ok(())
    }
    /// The order of two terms with the same head.
    fn compare_rest(&self, a: &PendingPosting, b: &PendingPosting) -> Ordering {
        if a.is_whole() && b.is_whole() { a.len.cmp(&b.len) } else { self.term(a).cmp(self.term(b)) }
    }
    fn sort(&mut self) {
        let mut postings = std::mem::take(&mut self.postings);
        postings
            .sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| self.compare_rest(a, b)).then(a.row.cmp(&b.row)));
        self.postings = postings;
    }
    /// Takes the next term with its postings; false if there is none.
    fn next_group(&self, at: &mut usize, group: &mut TermGroup) -> bool {
        let Some(first) = self.postings.get(*at) else { return false };
        // Long terms lie anywhere in the batch, so they are prefetched.
        if let Some(later) = self.postings.get(*at + TERMS_AHEAD).filter(|later| !later.is_whole()) {
            ahead::fetch(self.bytes.as_ptr() as usize + later.start as usize);
        }
        if first.is_whole() {
            group.begin(&first.head.to_be_bytes()[..usize::from(first.len)]);
        } else {
            group.begin(self.term(first));
        }
        while let Some(p) =
            self.postings.get(*at).filter(|p| p.head == first.head && self.compare_rest(p, first).is_eq())
        {
            if let Some((posting, _)) = self.rows.get(p.row as usize) {
                group.push(*posting);
            }
            *at += 1;
        }
        group.aim();
        true
    }
}

/// A large batch has terms for nearly every leaf, so that the next one is found without a descent, and can be fetched
/// while this one is worked on; a small one jumps.
struct NextLeaf {
    right: u32,
    /// About how often the right neighbour was the next leaf lately.
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
    /// After this many leaves the neighbour is tried all the same.
    const EVERY: u32 = 16;

    fn is_likely(&self) -> bool {
        self.right != 0 && self.hits >= NextLeaf::LIKELY
    }
    /// The leaf to look at first; 0: none.
    fn guess(&self) -> u32 {
        if self.is_likely() || self.leaves.is_multiple_of(NextLeaf::EVERY) { self.right } else { 0 }
    }
    fn found(&mut self, guess: u32, block: u32, right: u32) {
        self.leaves = self.leaves.wrapping_add(1);
        if guess != 0 {
            self.hits = if guess == block { (self.hits + 1).min(NextLeaf::MOST) } else { self.hits.saturating_sub(2) };
        }
        self.right = right;
    }
}

/// Pieces of pending rows, joined. A row whose pieces are not all there is left out.
pub(super) struct PendingRow {
    pub posting: Posting,
    pub pieces: u16,
    pub body: Vec<u8>,
}
#[derive(Default)]
pub(super) struct PieceJoiner {
    row: Option<PendingRow>,
    wanted: u16,
    /// The last piece, if it belonged to no row.
    pub(super) stray: Option<(Posting, u16)>,
}
impl PieceJoiner {
    /// The next entry of the pending area; a row that is complete with it.
    pub(super) fn push(&mut self, key: &[u8]) -> Result<Option<PendingRow>> {
        let (posting, piece, rest) = entry::split_pending(key).ok_or_else(entry::damaged)?;
        if piece == 0 {
            let mut r = ByteReader::new(rest);
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
    fn merge_some(self: &Arc<Self>, from: u64, batch: &mut MergeBatch) -> Result<Option<u64>> {
        let state = self.state()?;
        *crate::lock(&state.merging) = RowIdRange(from, u64::MAX);
        let merged = self.merge_batch(from, batch);
        *crate::lock(&state.merging) = RowIdRange::default();
        merged
    }
    fn merge_batch(self: &Arc<Self>, from: u64, batch: &mut MergeBatch) -> Result<Option<u64>> {
        self.gather_pending(from, batch)?;
        if let Some(rest) = batch.rest {
            // Other threads need not wait for the rows that are done.
            *crate::lock(&self.state()?.merging) = RowIdRange(from, rest.saturating_sub(1));
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
    fn gather_pending(self: &Arc<Self>, from: u64, batch: &mut MergeBatch) -> Result<()> {
        batch.clear();
        let mut joiner = PieceJoiner::default();
        self.each_between(entry::pending_own((from, 0), 0), vec![PENDING + 1], &mut |key, _| {
            let Some(row) = joiner.push(key)? else {
                batch.stray.extend(joiner.stray.take());
                return Ok(true);
            };
            if batch.bytes.len() > BATCH_BYTES && batch.rows.last().is_some_and(|(last, _)| last.0 != row.posting.0) {
                batch.rest = Some(row.posting.0);
                return Ok(false);
            }
            let is_dead = self.history(row.posting.0)?.is_dead(row.posting.1);
            batch.add(row, is_dead)?;
            Ok(true)
        })
    }
    /// Puts a batch into the tree; false: it was cut off because the server stops.
    fn put_batch(&self, batch: &MergeBatch) -> Result<bool> {
        let mut at = 0;
        let mut group = TermGroup::default();
        let mut changes = LeafChanges::default();
        let mut more = batch.next_group(&mut at, &mut group);
        let mut next_leaf = NextLeaf::default();
        while more {
            if self.core.stop.load(Acquire) {
                return Ok(false);
            }
            let near = next_leaf.guess();
            let (block, mut page) = self.latch_leaf_near(near, KeyAndRow(&group.target, 0))?;
            next_leaf.found(near, block, node::right(&page.view()));
            if next_leaf.is_likely() {
                ahead::fetch_page(self, next_leaf.right);
            }
            let mut full = None;
            changes.begin(&page.view(), self.target(block));
            for _ in 0..TERMS_AT_ONCE {
                match self.place(&mut page, &group, &mut changes)? {
                    PlacingOutcome::Done(count) => group.placed(count),
                    PlacingOutcome::Full(idx) => {
                        full = Some(idx);
                        break;
                    }
                }
                if group.rest().is_empty() {
                    more = batch.next_group(&mut at, &mut group);
                } else {
                    group.aim();
                }
                if !more || !node::is_before_end(&page.view(), KeyAndRow(&group.target, 0)) {
                    break;
                }
            }
            self.make(&mut page, &mut changes)?;
            if let Some(idx) = full {
                self.split(block, page, idx)?;
                next_leaf.right = block;
            }
        }
        Ok(true)
    }
    /// Takes merged rows out of the pending area, a leaf at a time.
    fn remove_pending(&self, rows: &[(Posting, u16)]) -> Result<()> {
        let mut owns = rows
            .iter()
            .flat_map(|(posting, pieces)| (0..*pieces).map(|piece| entry::pending_own(*posting, piece)))
            .peekable();
        while let Some(next) = owns.peek().cloned() {
            let (block, mut page) = self.latch_node(0, KeyAndRow(&next, 0))?;
            let target = self.target(block);
            let mut found = Vec::new();
            while let Some(own) = owns.next_if(|own| node::side(&page.view(), KeyAndRow(own, 0)) == FenceSide::Inside) {
                if let (idx, Some(_)) = find_own(&page.view(), &own) {
                    found.push(idx);
                }
            }
            if !found.is_empty() {
                let ops: Vec<_> = found.iter().rev().map(|idx| (target, PageOp::TreeRemove { idx: *idx })).collect();
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
    /// Does one round of the background thread; true if there is more to do.
    pub(super) fn inverted_step(self: &Arc<Self>, now_nanos: u64, batch: &mut MergeBatch) -> Result<bool> {
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
    fn merge_step(self: &Arc<Self>, pass: &mut MaintenancePass, batch: &mut MergeBatch) -> Result<()> {
        let state = self.state()?;
        if !pass.is_merging() {
            state.begun.fetch_add(1, Relaxed);
            state.is_wanted.store(false, Relaxed);
            state.begin_merging();
        }
        let from = pass.merge_from.take().unwrap_or(0);
        let merged = self.merge_some(from, batch);
        pass.merge_from = merged.as_ref().ok().and_then(|rest| *rest);
        if merged.is_err() {
            // The merge is tried again later.
            state.pending_bytes.fetch_add(1, Relaxed);
            state.is_sure.store(false, Relaxed);
            pass.sweep = None;
        }
        if merged?.is_none() {
            state.end_merging();
            state.finished.store(state.begun.load(Relaxed), Relaxed);
            state.is_sure.store(!self.core.stop.load(Acquire), Relaxed);
        }
        Ok(())
    }
    /// Waits until all that is pending now has been merged; how many bytes that was, about.
    pub(crate) fn flush_pending(self: &Arc<Self>, park: &dyn Park) -> Result<u64> {
        let state = self.state()?;
        let bytes = state.pending_bytes.load(Relaxed);
        // No other session is affected by how long a private store takes.
        let is_private = self.core.log.is_none();
        let begun = state.begun.load(Relaxed);
        while state.finished.load(Relaxed) <= begun {
            state.is_wanted.store(true, Relaxed);
            if is_private {
                self.merge_step(&mut crate::lock(&state.pass), &mut MergeBatch::default())?;
            } else {
                park.park(Some(self.core.env.monotonic_nanos() + POLL_NANOS))?;
                self.pid(0)?;
            }
        }
        Ok(bytes)
    }
}

const POLL_NANOS: u64 = 1_000_000;
/// The bytes of pending rows that are due to be merged: the more postings a term has in a merge, the fewer blocks are
/// rewritten for each of them.
const WORTHWHILE_BYTES: u64 = BATCH_BYTES as u64;
/// Pending rows are also merged after this time.
const LONGEST_PENDING_NANOS: u64 = 1_000_000_000;
