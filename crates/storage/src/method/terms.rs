//! Terms of rows, for index methods that have them.
//!
//! Must not know: what terms mean, how they are kept.

use kilndb_base::bytes::{ByteReader, put_prefixed};
use kilndb_base::{Error, Result, RowId, sqlstate};
use std::borrow::Cow;

/// A statement's change of a row, with the row's terms from now on (sorted, each once).
#[derive(Clone, Copy)]
pub enum TermChange<'a> {
    Inserted(&'a [Vec<u8>]),
    /// None: the row is no longer in the index, and its deletion need not be noted.
    Updated(&'a [Vec<u8>]),
    /// The transaction has just deleted the row: it is to be found no longer once that has committed.
    Deleted,
}

/// A function that is called with a term, or the beginning of its entry, and some of its rows.
pub(crate) type TermVisitor<'a> = dyn FnMut(&[u8], &[u64]) -> Result<()> + 'a;

/// Finds rows by terms. All that it finds is to be rechecked in the version that the snapshot sees.
pub trait TermScan {
    /// Rows that the index has not sorted in yet, each with its terms. First of all, and once.
    fn pending(&mut self, visit: &mut dyn FnMut(RowId, PendingTerms<'_>) -> Result<()>) -> Result<()>;
    /// The rows (as [`RowId::to_u64`]) that have a term from `lower` up to (not including) `upper`, or exactly `lower`:
    /// some at a time, in no order, and maybe more than once.
    fn rows(&mut self, lower: &[u8], upper: Option<&[u8]>, visit: &mut dyn FnMut(&[u64]) -> Result<()>) -> Result<()>;
    /// Visits all terms in order, each with its rows. The rows come some at a time, so a term may come more than once.
    fn all(&mut self, visit: &mut TermVisitor<'_>) -> Result<()>;
    /// The term in the form in which the index keeps it.
    fn kept_term<'t>(&self, term: &'t [u8]) -> Cow<'t, [u8]>;
}

/// The terms of a pending row, in order, as the index keeps them.
#[derive(Clone, Copy)]
pub struct PendingTerms<'a>(pub(crate) &'a [u8]);

impl<'a> PendingTerms<'a> {
    /// The terms, each behind its length. Most rows do not have the term that is looked for: a search in these bytes
    /// for those of [`PendingTerms::bytes_of`] finds nothing then, and is far quicker than a look at each term. A hit
    /// may be by chance.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
    /// The bytes of a kept term as they stand in [`PendingTerms::bytes`].
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
