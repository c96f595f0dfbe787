//! Inverted indexes as an index method.
//!
//! Must not know: what terms mean.

use super::entry;
use super::merge::MergeBatch;
use crate::btree;
use crate::core::Core;
use crate::directory::Relation;
use crate::method::terms::{TermChange, TermScan};
use crate::method::{
    IndexContents, IndexEntries, IndexMethod, IndexWorker, IteratorEntries, MethodProperties, MovedRows,
};
use crate::report::CheckReport;
use crate::txn::{Snapshot, Transaction};
use crate::undo::record::UndoRecord;
use kilndb_base::park::Park;
use kilndb_base::{Result, RowId};
use std::borrow::Cow;
use std::sync::Arc;

pub(crate) struct Inverted;

impl IndexMethod for Inverted {
    const PROPERTIES: MethodProperties = MethodProperties {
        name: "inverted",
        contents: IndexContents::Terms,
        is_ordered: false,
        can_be_unique: false,
        can_span_heaps: false,
        leads_to_all_rows: false,
    };

    fn build(index: &Relation, txn: &mut Transaction, entries: &mut dyn IndexEntries, park: &dyn Park) -> Result<()> {
        index.inverted_build(txn, entries, park)
    }
    fn copy(
        index: &Arc<Relation>,
        txn: &mut Transaction,
        (source, snapshot): (&Arc<Relation>, &Snapshot),
        moved: &MovedRows<'_>,
        park: &dyn Park,
    ) -> Result<()> {
        let mut postings = Vec::new();
        let mut scan = source.inverted_scan(snapshot)?;
        scan.pending(&mut |rid, terms| {
            if let Some(rid) = moved(rid) {
                postings.extend(terms.terms()?.into_iter().map(|term| (term.to_vec(), rid)));
            }
            Ok(())
        })?;
        scan.all(&mut |term, rows| {
            let rows = rows.iter().filter_map(|row| moved(RowId::from_u64(*row)));
            postings.extend(rows.map(|rid| (term.to_vec(), rid)));
            park.checkpoint()
        })?;
        postings.sort();
        postings.dedup();
        index.inverted_build(txn, &mut IteratorEntries::new(postings.into_iter().map(Ok)), park)
    }
    fn check(core: &Core, index: &Arc<Relation>, report: &mut CheckReport) -> Result<()> {
        btree::check::check(core, index, report)?;
        super::check::check(core, index, report)
    }
    fn change_terms(index: &Relation, txn: &mut Transaction, rid: RowId, change: TermChange<'_>) -> Result<()> {
        match change {
            TermChange::Inserted(terms) => index.inverted_insert(txn, rid, terms),
            TermChange::Updated(terms) => index.inverted_update(txn, rid, terms),
            TermChange::Deleted => index.inverted_delete(txn, rid),
        }
    }
    fn term_scan(index: &Arc<Relation>, snapshot: &Snapshot) -> Result<Box<dyn TermScan>> {
        Ok(Box::new(index.inverted_scan(snapshot)?))
    }
    fn kept_term(term: &[u8]) -> Cow<'_, [u8]> {
        entry::kept_term(term)
    }
    fn undo(core: &Core, index: &Arc<Relation>, record: &UndoRecord) -> Result<()> {
        core.undo_terms(index, record)
    }
    fn purge(core: &Core, index: &Arc<Relation>, record: &UndoRecord) -> Result<()> {
        core.purge_terms(index, record)
    }
    fn worker() -> Option<Box<dyn IndexWorker>> {
        Some(Box::new(MergeWorker::default()))
    }
    fn flush(index: &Arc<Relation>, park: &dyn Park) -> Result<u64> {
        index.flush_pending(park)
    }
}

/// Merges what is pending, and takes out what is dead.
#[derive(Default)]
struct MergeWorker(MergeBatch);

impl IndexWorker for MergeWorker {
    fn step(&mut self, index: &Arc<Relation>) -> Result<bool> {
        index.inverted_step(index.core.env.monotonic_nanos(), &mut self.0)
    }
}
