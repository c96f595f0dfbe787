//! The interface of index methods: properties, and operations for statements, rollback, purge and checks.
//!
//! Relation kinds that are methods, and the calls of a relation's method (`Relation::index_insert` and so on, in
//! [`dispatch`]), are generated from [`crate::registry`]: one match each, no dynamic dispatch.
//!
//! Invariants
//! 1. Users of an index ask for properties, never for a method by its name.
//! 2. A method with keys gets each key of a row; a method with terms gets a row once, with all its terms.
//!
//! Must not know: what keys and terms mean.

mod dispatch;
pub(crate) mod terms;
pub(crate) mod work;

use crate::api::{IndexInsert, RowBatch, Uniqueness};
use crate::core::Core;
use crate::directory::Relation;
use crate::entry_changes::EntryChanges;
use crate::report::CheckReport;
use crate::txn::{Snapshot, Transaction};
use crate::undo::record::UndoRecord;
use kilndb_base::park::Park;
use kilndb_base::{Error, Result, RowId};
use std::borrow::Cow;
use std::sync::Arc;
use terms::{TermChange, TermScan};

/// The contents of an index's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexContents {
    /// Each row has one key (or none); scans walk from key to key as the method keeps them
    /// ([`Relation::index_scan_for`]).
    Keys,
    /// Each row has many terms (or none); scans find the rows of a term, in no order ([`Relation::term_scan`]), and what
    /// they find is to be rechecked.
    Terms,
}

/// The properties of a method that planning, building and defining an index depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MethodProperties {
    pub name: &'static str,
    pub contents: IndexContents,
    /// Scans can give the entries in the order of their keys, forwards and backwards, and those within bounds.
    pub is_ordered: bool,
    /// The index can refuse a second live row with the same key.
    pub can_be_unique: bool,
    /// One index can have the entries of several heaps, which the keys name.
    pub can_span_heaps: bool,
    /// A checker can tell which rows have no entry.
    pub leads_to_all_rows: bool,
}

/// Keys or terms with the rows that have them, sorted.
pub trait IndexEntries {
    /// The next entry, whose key is there until the next call. None: there are no more.
    fn next_entry(&mut self) -> Result<Option<(&[u8], RowId)>>;
}

/// The entries that an iterator gives.
pub struct IteratorEntries<I> {
    entries: I,
    key: Vec<u8>,
}

impl<I> IteratorEntries<I> {
    pub fn new(entries: I) -> IteratorEntries<I> {
        IteratorEntries { entries, key: Vec::new() }
    }
}

impl<I: Iterator<Item = Result<(Vec<u8>, RowId)>>> IndexEntries for IteratorEntries<I> {
    fn next_entry(&mut self) -> Result<Option<(&[u8], RowId)>> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        let (key, rid) = entry?;
        self.key = key;
        Ok(Some((&self.key, rid)))
    }
}

/// The key of a new row.
#[derive(Clone, Copy)]
pub(crate) struct NewKey<'a> {
    /// The heap that the row is in.
    pub heap: &'a Relation,
    pub key: &'a [u8],
    pub rid: RowId,
    pub uniqueness: Uniqueness,
}

/// Maps the id of a row in another heap to its new id.
pub type MovedRows<'a> = dyn Fn(RowId) -> Option<RowId> + 'a;

/// The state that a background thread keeps from one index of a method to the next.
pub(crate) trait IndexWorker: Send {
    /// Does some work on one index; true if there is more to do.
    fn step(&mut self, index: &Arc<Relation>) -> Result<bool>;
}

/// An index method. What a method cannot do is an internal error: its properties say so.
pub(crate) trait IndexMethod {
    const PROPERTIES: MethodProperties;

    /// Fills an empty index. Keys come as [`IndexMethod::kept_key`] makes them, terms as [`IndexMethod::kept_term`] does.
    fn build(index: &Relation, txn: &mut Transaction, entries: &mut dyn IndexEntries, park: &dyn Park) -> Result<()>;
    /// Fills an empty index with what another of the same method has, as the snapshot sees it, of rows that have moved.
    fn copy(
        index: &Arc<Relation>,
        txn: &mut Transaction,
        source: (&Arc<Relation>, &Snapshot),
        moved: &MovedRows<'_>,
        park: &dyn Park,
    ) -> Result<()>;
    /// Checks the structure of an index, and where its entries lead.
    fn check(core: &Core, index: &Arc<Relation>, report: &mut CheckReport) -> Result<()>;

    // ---- methods with keys

    /// The key as the index keeps it, which is what scans return and what [`IndexMethod::build`] is given. Where it is not
    /// the key itself, rows that are found are to be compared with what was sought.
    fn kept_key(key: &[u8]) -> Cow<'_, [u8]> {
        Cow::Borrowed(key)
    }
    fn insert(index: &Relation, _: &mut Transaction, _: &NewKey<'_>, _: &dyn Park) -> Result<IndexInsert> {
        Err(cannot(index, "take keys"))
    }
    /// As `insert`, of a key as the index keeps it.
    fn insert_kept(index: &Relation, txn: &mut Transaction, new: &NewKey<'_>, park: &dyn Park) -> Result<IndexInsert> {
        Self::insert(index, txn, new, park)
    }
    /// As `insert` for one entry after the other. The result is the first entry that could not be inserted, and why;
    /// those before it are in. `new` has what is the same for all.
    fn insert_many(
        index: &Relation,
        txn: &mut Transaction,
        entries: &RowBatch,
        new: &NewKey<'_>,
        park: &dyn Park,
    ) -> Result<Option<(usize, IndexInsert)>> {
        let _ = (txn, entries, new, park);
        Err(cannot(index, "take keys"))
    }
    /// The row, which stays or has just been changed by the transaction, has this key no longer.
    fn retire(index: &Relation, _: &mut Transaction, _key: &[u8], _: RowId) -> Result<()> {
        Err(cannot(index, "retire keys"))
    }

    /// Makes some of the changes to the entries of updated rows, from the first that is left on. The keys are as the index
    /// keeps them.
    fn change_many(index: &Relation, txn: &mut Transaction, changes: &mut EntryChanges) -> Result<()> {
        let _ = (txn, changes);
        Err(cannot(index, "take keys"))
    }

    /// As `retire`, of a key as the index keeps it.
    fn retire_kept(index: &Relation, txn: &mut Transaction, key: &[u8], rid: RowId) -> Result<()> {
        Self::retire(index, txn, key, rid)
    }

    // ---- methods with terms

    fn change_terms(index: &Relation, _: &mut Transaction, _: RowId, _: TermChange<'_>) -> Result<()> {
        Err(cannot(index, "take terms"))
    }
    fn term_scan(index: &Arc<Relation>, _: &Snapshot) -> Result<Box<dyn TermScan>> {
        Err(cannot(index, "look for terms"))
    }
    /// The term as the index keeps it: long ones may be cut.
    fn kept_term(term: &[u8]) -> Cow<'_, [u8]> {
        Cow::Borrowed(term)
    }

    // ---- what a method has of its own

    /// Takes back what an undo record of the method's own says ([`crate::undo::record::UndoKind::OfMethod`]).
    fn undo(_: &Core, index: &Arc<Relation>, _: &UndoRecord) -> Result<()> {
        Err(cannot(index, "undo a record"))
    }
    /// The transaction of the record has committed, and nobody sees any more what it has replaced.
    fn purge(_: &Core, index: &Arc<Relation>, _: &UndoRecord) -> Result<()> {
        Err(cannot(index, "purge a record"))
    }
    /// The worker of a method with background work.
    fn worker() -> Option<Box<dyn IndexWorker>> {
        None
    }
    /// Waits until what statements have left to the background is done; how many bytes that were.
    fn flush(_: &Arc<Relation>, _: &dyn Park) -> Result<u64> {
        Ok(0)
    }
}

fn cannot(index: &Relation, what: &str) -> Error {
    Error::internal(format!("storage relation {} is no index that can {what}", index.id))
}
