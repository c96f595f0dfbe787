//! The calls of an index's method, generated from the registry: one match on the relation's kind each.
//!
//! Must not know: what the methods do.

use super::terms::{TermChange, TermScan};
use super::{IndexEntries, IndexMethod, IndexWorker, MethodProperties, MovedRows, NewKey, cannot};
use crate::api::{IndexInsert, RelationKind, RowBatch, Uniqueness};
use crate::core::Core;
use crate::directory::Relation;
use crate::entry_changes::EntryChanges;
use crate::report::CheckReport;
use crate::trace::{self, TracedOperation};
use crate::txn::{Snapshot, Transaction};
use crate::undo::record::UndoRecord;
use kilndb_base::park::Park;
use kilndb_base::{Result, RowId};
use std::borrow::Cow;
use std::sync::Arc;

macro_rules! make_dispatch {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, pages: $pages:ident, has_background_work: $works:literal,
       $($method:ident)::+;)*) => {
        impl RelationKind {
            /// The properties of the relation's method; None: it is no index.
            pub fn method(self) -> Option<&'static MethodProperties> {
                match self {
                    $(RelationKind::$kind => Some(&<crate::$($method)::+ as IndexMethod>::PROPERTIES),)*
                    RelationKind::Heap | RelationKind::Cell => None,
                }
            }
            /// The term as indexes of this kind keep it, and sort it.
            pub fn kept_term(self, term: &[u8]) -> Cow<'_, [u8]> {
                match self {
                    $(RelationKind::$kind => <crate::$($method)::+>::kept_term(term),)*
                    RelationKind::Heap | RelationKind::Cell => Cow::Borrowed(term),
                }
            }
            /// The key as indexes of this kind keep it, and sort it.
            #[inline]
            pub fn kept_key(self, key: &[u8]) -> Cow<'_, [u8]> {
                match self {
                    $(RelationKind::$kind => <crate::$($method)::+>::kept_key(key),)*
                    RelationKind::Heap | RelationKind::Cell => Cow::Borrowed(key),
                }
            }
            pub(crate) fn worker(self) -> Option<Box<dyn IndexWorker>> {
                match self {
                    $(RelationKind::$kind => <crate::$($method)::+>::worker(),)*
                    RelationKind::Heap | RelationKind::Cell => None,
                }
            }
        }

        impl Relation {
            /// Builds an empty index from sorted entries: (key, row id) with keys as [`RelationKind::kept_key`] makes them,
            /// or (term, row id) with terms as [`RelationKind::kept_term`] does.
            pub fn index_build(
                &self,
                txn: &mut Transaction,
                entries: &mut dyn IndexEntries,
                park: &dyn Park,
            ) -> Result<()> {
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::build(self, txn, entries, park),)*
                    RelationKind::Heap | RelationKind::Cell => Err(cannot(self, "be built")),
                }
            }
            /// Fills the empty index with what another of the same method has of rows that have moved.
            pub fn index_copy(
                self: &Arc<Self>,
                txn: &mut Transaction,
                source: (&Arc<Relation>, &Snapshot),
                moved: &MovedRows<'_>,
                park: &dyn Park,
            ) -> Result<()> {
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::copy(self, txn, source, moved, park),)*
                    RelationKind::Heap | RelationKind::Cell => Err(cannot(self, "be copied")),
                }
            }
            /// `heap` is where the row ids lead (to see who is alive). Waits for undecided conflicting rows.
            #[inline]
            pub fn index_insert(
                &self,
                txn: &mut Transaction,
                heap: &Relation,
                key: &[u8],
                rid: RowId,
                uniqueness: Uniqueness,
                park: &dyn Park,
            ) -> Result<IndexInsert> {
                let new = NewKey { heap, key, rid, uniqueness };
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::insert(self, txn, &new, park),)*
                    RelationKind::Heap | RelationKind::Cell => Err(cannot(self, "take keys")),
                }
            }
            /// As [`Relation::index_insert`], of a key as the index keeps it.
            pub fn index_insert_kept(
                &self,
                txn: &mut Transaction,
                heap: &Relation,
                (key, rid): (&[u8], RowId),
                uniqueness: Uniqueness,
                park: &dyn Park,
            ) -> Result<IndexInsert> {
                let new = NewKey { heap, key, rid, uniqueness };
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::insert_kept(self, txn, &new, park),)*
                    RelationKind::Heap | RelationKind::Cell => Err(cannot(self, "take keys")),
                }
            }
            /// The row, which stays, is no longer to be found by this key, which is as the index keeps it.
            pub fn index_retire_kept(&self, txn: &mut Transaction, key: &[u8], rid: RowId) -> Result<()> {
                let txn = txn.of(self)?;
                txn.begin_removal()?;
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::retire_kept(self, txn, key, rid),)*
                    RelationKind::Heap | RelationKind::Cell => Err(cannot(self, "retire keys")),
                }
            }
            /// As [`Relation::index_insert`] for one entry after the other (keys, and the row ids that they lead to).
            /// The result is the first entry that could not be inserted, and why; those before it are in.
            pub fn index_insert_many(
                &self,
                txn: &mut Transaction,
                heap: &Relation,
                entries: &RowBatch,
                uniqueness: Uniqueness,
                park: &dyn Park,
            ) -> Result<Option<(usize, IndexInsert)>> {
                let new = NewKey { heap, key: &[], rid: RowId::from_u64(0), uniqueness };
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::insert_many(self, txn, entries, &new, park),)*
                    RelationKind::Heap | RelationKind::Cell => Err(cannot(self, "take keys")),
                }
            }
            /// Makes some of the changes to the entries of rows that this transaction has updated, from the first that is left
            /// on; they are sorted. The index is not unique.
            pub fn index_change_many(&self, txn: &mut Transaction, changes: &mut EntryChanges) -> Result<()> {
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::change_many(self, txn, changes),)*
                    RelationKind::Heap | RelationKind::Cell => Err(cannot(self, "take keys")),
                }
            }
            /// Rows that this transaction has changed, or that stay, have these keys no longer.
            pub(crate) fn index_retire_of(&self, txn: &mut Transaction, key: &[u8], rid: RowId) -> Result<()> {
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::retire(self, txn, key, rid),)*
                    RelationKind::Heap | RelationKind::Cell => Err(cannot(self, "retire keys")),
                }
            }
            /// Changes the terms that the index has for a row.
            pub fn change_terms(&self, txn: &mut Transaction, rid: RowId, change: TermChange<'_>) -> Result<()> {
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::change_terms(self, txn, rid, change),)*
                    RelationKind::Heap | RelationKind::Cell => Err(cannot(self, "take terms")),
                }
            }
            pub fn term_scan(self: &Arc<Self>, snapshot: &Snapshot) -> Result<Box<dyn TermScan>> {
                trace::note(|| TracedOperation::ScanTerms { index: self.id() });
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::term_scan(self, snapshot),)*
                    RelationKind::Heap | RelationKind::Cell => Err(cannot(self, "look for terms")),
                }
            }
            /// Waits until what statements have left to the background is done; how many bytes that were.
            pub fn index_flush(self: &Arc<Self>, park: &dyn Park) -> Result<u64> {
                match self.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::flush(self, park),)*
                    RelationKind::Heap | RelationKind::Cell => Ok(0),
                }
            }
        }

        impl Core {
            pub(crate) fn undo_of_method(&self, index: &Arc<Relation>, record: &UndoRecord) -> Result<()> {
                match index.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::undo(self, index, record),)*
                    RelationKind::Heap | RelationKind::Cell => Err(UndoRecord::bad()),
                }
            }
            pub(crate) fn purge_of_method(&self, index: &Arc<Relation>, record: &UndoRecord) -> Result<()> {
                match index.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::purge(self, index, record),)*
                    RelationKind::Heap | RelationKind::Cell => Err(UndoRecord::bad()),
                }
            }
            pub(crate) fn check_index(&self, index: &Arc<Relation>, report: &mut CheckReport) -> Result<()> {
                match index.kind {
                    $(RelationKind::$kind => <crate::$($method)::+>::check(self, index, report),)*
                    RelationKind::Heap | RelationKind::Cell => Ok(()),
                }
            }
        }
    };
}
index_methods!(make_dispatch);
