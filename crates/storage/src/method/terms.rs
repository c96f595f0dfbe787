//! Terms of rows, for index methods that have them.
//!
//! Must not know: what terms mean, how they are kept.

use kilndb_base::bytes::{ByteReader, put_prefixed};
use kilndb_base::{Error, Result, RowId, sqlstate};
use std::borrow::Cow;

/// What a statement has done to a row, and the row's terms from now on (sorted, each once).
#[derive(Clone, Copy)]
pub enum TermChange<'a> {
    Inserted(&'a [Vec<u8>]),
    /// None: it is in the index no longer, and its deletion need not be told of.
    Updated(&'a [Vec<u8>]),
    /// The transaction has just deleted the row: it is to be found no longer once that has committed.
    Deleted,
}

/// Is called with a term, or all that its entry begins with, and some of its rows.
pub(crate) type TermVisitor<'a> = dyn FnMut(&[u8], &[u64]) -> Result<()> + 'a;

/// Finds rows by terms. All that it finds is to be rechecked in the version that the snapshot sees.
pub trait TermScan {
    /// Rows that the index has not sorted in yet, each with its terms. First of all, and once.
    fn pending(&mut self, visit: &mut dyn FnMut(RowId, PendingTerms<'_>) -> Result<()>) -> Result<()>;
    /// The rows (as [`RowId::to_u64`]) that have a term from `lower` up to (not including) `upper`, or exactly `lower`:
    /// some at a time, in no order, and maybe more than once.
    fn rows(&mut self, lower: &[u8], upper: Option<&[u8]>, visit: &mut dyn FnMut(&[u64]) -> Result<()>) -> Result<()>;
    /// All terms, in order, each with its rows: some at a time, so a term may come more than once.
    fn all(&mut self, visit: &mut TermVisitor<'_>) -> Result<()>;
    /// A term as the index keeps it.
    fn kept_term<'t>(&self, term: &'t [u8]) -> Cow<'t, [u8]>;
}

/// The terms of a pending row, in order, as the index keeps them.
#[derive(Clone, Copy)]
pub struct PendingTerms<'a>(pub(crate) &'a [u8]);

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
        let mut r = ByteReader::new(self.0);
        while !r.is_empty() {
            let damaged = || Error::new(sqlstate::INDEX_CORRUPTED, "an entry of an inverted index is damaged");
            terms.push(r.prefixed().ok_or_else(damaged)?);
        }
        Ok(terms)
    }
}
