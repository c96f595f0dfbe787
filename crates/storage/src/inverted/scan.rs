//! Reading an inverted index.
//!
//! Invariants
//! 1. Pending rows are read before postings: see [`super`].
//! 2. A scan goes on where a leaf ended, never at an entry in the midst of one: a merge may have changed that entry to
//!    one that compares below what it was. A leaf's bound is within the own part of the first entry after it
//!    ([`entry`], invariant 1), which stays.
//!
//! Must not know: what terms mean; which rows the snapshot sees.

use super::entry::{self, PENDING};
use super::merge::Joiner;
use crate::ahead;
use crate::directory::Relation;
use crate::txn::Snapshot;
use kilndb_base::bytes::{Reader, put_prefixed};
use kilndb_base::sync::atomic::Ordering::Relaxed;
use kilndb_base::{Error, Result, RowId};
use std::ops::Bound;
use std::sync::Arc;

/// Finds rows by terms. All that it finds is to be rechecked in the version that the snapshot sees.
pub struct InvertedScan {
    relation: Arc<Relation>,
    has_read_pending: bool,
}

impl Relation {
    /// A serializable transaction counts as having read the whole table.
    pub fn inverted_scan(self: &Arc<Self>, snapshot: &Snapshot) -> Result<InvertedScan> {
        self.state()?;
        if let Some(heap) = self.core.directory.get(self.heap.load(Relaxed)) {
            heap.begin_scan(snapshot)?;
        }
        Ok(InvertedScan { relation: self.clone(), has_read_pending: false })
    }
}

impl Relation {
    /// Entries of a sort, in order, until `visit` says false.
    pub(super) fn each_entry(
        self: &Arc<Self>,
        sort: u8,
        visit: &mut dyn FnMut(&[u8], u64) -> Result<bool>,
    ) -> Result<()> {
        self.each_between(vec![sort], vec![sort + 1], visit)
    }
    pub(super) fn each_between(
        self: &Arc<Self>,
        from: Vec<u8>,
        to: Vec<u8>,
        visit: &mut dyn FnMut(&[u8], u64) -> Result<bool>,
    ) -> Result<()> {
        let mut scan = self.index_scan(Bound::Included(from), Bound::Excluded(to), false).by_whole_leaves();
        let (mut keys, mut ends, mut rids) = (Vec::new(), Vec::new(), Vec::new());
        while scan.next_batch(&mut keys, &mut ends, &mut rids)? {
            // The next leaf arrives while this one is looked at.
            if let Some(next) = scan.next_leaf() {
                ahead::fetch_page(self, next);
            }
            let mut start = 0;
            for (end, rid) in ends.iter().zip(&rids) {
                let key = keys.get(start..*end as usize).unwrap_or(&[]);
                start = *end as usize;
                if !visit(key, rid.to_u64())? {
                    return Ok(());
                }
            }
            keys.clear();
            ends.clear();
            rids.clear();
        }
        Ok(())
    }
}

/// Is called with a term, or all that a posting's entry begins with, and some of its rows.
pub type TermVisitor<'a> = dyn FnMut(&[u8], &[u64]) -> Result<()> + 'a;

/// The terms of a pending row, in order, as [`super::kept_term`] makes them.
#[derive(Clone, Copy)]
pub struct PendingTerms<'a>(&'a [u8]);

impl<'a> PendingTerms<'a> {
    /// Each behind its length. Most rows have not what is looked for: then a search in these bytes for what
    /// [`PendingTerms::bytes_of`] says of it finds nothing, and is far quicker than going through the terms. If it
    /// does, it may be by chance.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
    /// What a term (as it is kept) looks like among [`PendingTerms::bytes`].
    pub fn bytes_of(kept: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(kept.len() + 2);
        put_prefixed(&mut bytes, kept);
        bytes
    }
    pub fn terms(self) -> Result<Vec<&'a [u8]>> {
        let mut terms = Vec::with_capacity(self.0.len() / 8 + 1);
        let mut r = Reader::new(self.0);
        while !r.is_empty() {
            terms.push(r.prefixed().ok_or_else(entry::damaged)?);
        }
        Ok(terms)
    }
}

impl InvertedScan {
    /// Rows that are not merged yet, each with its terms. First of all, and once.
    pub fn pending(&mut self, visit: &mut dyn FnMut(RowId, PendingTerms<'_>) -> Result<()>) -> Result<()> {
        self.has_read_pending = true;
        let mut joiner = Joiner::default();
        self.relation.each_entry(PENDING, &mut |key, _| {
            // Most rows are in one piece.
            if let Some((posting, body)) = entry::whole_pending(key) {
                visit(RowId::from_u64(posting.0), PendingTerms(body))?;
            } else if let Some(row) = joiner.push(key)? {
                visit(RowId::from_u64(row.posting.0), PendingTerms(&row.body))?;
            }
            Ok(true)
        })
    }
    /// The rows (as [`RowId::to_u64`]) that have a term from `lower` up to (not including) `upper`, or exactly `lower`:
    /// some at a time, in no order, and maybe more than once.
    pub fn rows(
        &mut self,
        lower: &[u8],
        upper: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u64]) -> Result<()>,
    ) -> Result<()> {
        let (from, to) = match upper {
            Some(upper) => (entry::term_bound(lower, false), entry::term_bound(upper, true)),
            None => {
                let from = entry::posting_own(lower);
                let mut to = from.clone();
                if let Some(last) = to.last_mut() {
                    *last = 2;
                }
                (from, to)
            }
        };
        self.read(from, to, &mut |_, rows| visit(rows))
    }
    /// All terms, in order, each with its rows: some at a time, so a term may come more than once.
    pub fn all(&mut self, visit: &mut TermVisitor<'_>) -> Result<()> {
        let (from, to) = (entry::term_bound(&[], false), vec![entry::POSTING + 1]);
        self.read(from, to, &mut |own, rows| visit(&entry::unescaped(own), rows))
    }
    fn read(&mut self, from: Vec<u8>, to: Vec<u8>, visit: &mut TermVisitor<'_>) -> Result<()> {
        if !self.has_read_pending {
            return Err(Error::internal("an inverted index was read before its pending rows"));
        }
        if from >= to {
            return Ok(());
        }
        let mut rows = Vec::new();
        self.relation.each_between(from, to, &mut |key, rid| {
            let (own, rest) = entry::split_posting(key).ok_or_else(entry::damaged)?;
            rows.clear();
            entry::read_postings(rest, rid, &mut |(row, _)| rows.push(row))?;
            visit(own, &rows)?;
            Ok(true)
        })
    }
}
