//! Scans of inverted indexes.
//!
//! Invariants
//! 1. Pending rows are read before postings: see [`super`].
//! 2. A scan goes on where a leaf ended, never at an entry in the midst of one: a merge may have changed that entry to
//!    one that compares below what it was. A leaf's bound is within the own part of the first entry after it
//!    ([`entry`], invariant 1), which stays.
//!
//! Must not know: what terms mean; which rows the snapshot sees.

use super::entry::{self, PENDING};
use super::merge::PieceJoiner;
use crate::ahead;
use crate::directory::Relation;
use crate::method::terms::{PendingTerms, TermScan, TermVisitor};
use crate::txn::Snapshot;
use kilndb_base::sync::atomic::Ordering::Relaxed;
use kilndb_base::{Error, Result, RowId};
use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

/// A scan that finds rows by terms.
pub(super) struct InvertedScan {
    relation: Arc<Relation>,
    has_read_pending: bool,
}

impl Relation {
    /// A serializable transaction counts as having read the whole table.
    pub(super) fn inverted_scan(self: &Arc<Self>, snapshot: &Snapshot) -> Result<InvertedScan> {
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

impl TermScan for InvertedScan {
    fn pending(&mut self, visit: &mut dyn FnMut(RowId, PendingTerms<'_>) -> Result<()>) -> Result<()> {
        self.has_read_pending = true;
        let mut joiner = PieceJoiner::default();
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
    fn rows(&mut self, lower: &[u8], upper: Option<&[u8]>, visit: &mut dyn FnMut(&[u64]) -> Result<()>) -> Result<()> {
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
    fn all(&mut self, visit: &mut TermVisitor<'_>) -> Result<()> {
        let (from, to) = (entry::term_bound(&[], false), vec![entry::POSTING + 1]);
        self.read(from, to, &mut |own, rows| visit(&entry::unescaped(own), rows))
    }
    fn kept_term<'t>(&self, term: &'t [u8]) -> Cow<'t, [u8]> {
        entry::kept_term(term)
    }
}

impl InvertedScan {
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
