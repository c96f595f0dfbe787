//! Builds an inverted index from sorted postings.
//!
//! Must not know: where the postings come from.

use super::entry::{self, Posting};
use crate::directory::Relation;
use crate::method::{IndexEntries, IteratorEntries};
use crate::txn::Transaction;
use kilndb_base::park::Park;
use kilndb_base::{Result, RowId};

/// Groups sorted postings into entries of the tree.
struct EntryBuilder<'i> {
    postings: &'i mut dyn IndexEntries,
    /// The current term, the bytes that its entries begin with, and its rows that have no entry yet.
    term: Option<Vec<u8>>,
    own: Vec<u8>,
    rows: Vec<Posting>,
    /// The term has blocks already: rows that stand alone would belong before them.
    has_block: bool,
    next: Option<(Vec<u8>, RowId)>,
    failed: bool,
}

/// The number of rows of a term that wait for an entry at most.
const MOST_WAITING: usize = 4096;

impl EntryBuilder<'_> {
    /// Reads on until an entry's rows are known; false: that was all.
    fn gather(&mut self) -> Result<bool> {
        loop {
            let next = match self.next.take() {
                Some(next) => next,
                None => match self.postings.next_entry()? {
                    Some((term, rid)) => (term.to_vec(), rid),
                    None => return Ok(!self.rows.is_empty()),
                },
            };
            let (term, rid) = next;
            if self.term.as_ref() != Some(&term) {
                if !self.rows.is_empty() {
                    self.next = Some((term, rid));
                    return Ok(true);
                }
                self.own = entry::posting_own(&term);
                self.has_block = false;
                self.term = Some(term);
            }
            let posting = (rid.to_u64(), 0);
            if self.rows.last() != Some(&posting) {
                self.rows.push(posting);
            }
            if self.rows.len() >= MOST_WAITING {
                return Ok(true);
            }
        }
    }
}
impl Iterator for EntryBuilder<'_> {
    type Item = Result<(Vec<u8>, RowId)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match self.gather() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(e) => {
                self.failed = true;
                return Some(Err(e));
            }
        }
        if let ([only], false) = (&self.rows[..], self.has_block) {
            let only = *only;
            self.rows.clear();
            return Some(Ok((self.own.clone(), RowId::from_u64(only.0))));
        }
        self.has_block = true;
        let first = self.rows.first().copied()?;
        let count = entry::fitting(first, &self.rows, entry::largest_block(&self.own));
        let key = entry::block(&self.own, first, &self.rows[..count]);
        self.rows.drain(..count);
        Some(Ok((key, RowId::from_u64(0))))
    }
}

impl Relation {
    /// Fills an empty index with postings sorted by (term, row id). Long terms that are cut alike may come in any order
    /// among themselves.
    pub(super) fn inverted_build(
        &self,
        txn: &mut Transaction,
        postings: &mut dyn IndexEntries,
        park: &dyn Park,
    ) -> Result<()> {
        self.state()?;
        let entries = EntryBuilder {
            postings,
            term: None,
            own: Vec::new(),
            rows: Vec::new(),
            has_block: false,
            next: None,
            failed: false,
        };
        self.tree_build(txn, &mut IteratorEntries::new(entries), park)
    }
}
