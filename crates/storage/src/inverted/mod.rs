//! Inverted indexes: many terms for a row, many rows for a term (docs/decisions/0023).
//!
//! One B-link tree with three sorts of entries ([`entry`]): pending rows, postings, rows with a history. Statements
//! write pending rows and histories; a background thread moves what is pending to the postings ([`merge`], [`place`])
//! and takes dead postings out.
//!
//! Invariants
//! 1. The pending entry of a row is removed only after all its postings are in the tree; readers look at pending rows
//!    first, then at postings. So a row is found at least once.
//! 2. A posting is (row id, generation). A generation is dead once no snapshot sees the row with its terms, or when it
//!    was rolled back; a row id takes no generation of which there may be a posting. So postings may stay behind: they
//!    lead to rows that are rechecked.
//! 3. The present generation of a row is never made dead by purge, nor is anything of a row that is not deleted for
//!    good when its deletion is purged: purging may be repeated after a crash.
//! 4. Purge and merge agree on whether a dying generation is pending by [`InvertedState::merging`], which is held while
//!    either looks.
//!
//! Must not know: what terms mean, rows' columns.

mod build;
mod check;
mod dead;
mod entry;
mod merge;
pub(crate) mod method;
mod place;
mod scan;
mod sweep;
mod write;

use crate::api::PendingMerge;
use crate::directory::Relation;
use kilndb_base::RelationId;
use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The state that an inverted index has in memory.
#[derive(Default)]
pub(crate) struct InvertedState {
    /// The rows whose pending entries are being merged.
    merging: Mutex<merge::RowIdRange>,
    /// Held by the one thread that goes through the whole index.
    pass: Mutex<sweep::MaintenancePass>,
    /// The bytes of pending rows that were written since the last merge began, their number, and when the merging thread first
    /// found some.
    pending_bytes: AtomicU64,
    pending_rows: AtomicU64,
    pending_since_nanos: AtomicU64,
    /// What the merge that is under way, or was cut off, has begun with: bytes and rows.
    merging_bytes: AtomicU64,
    merging_rows: AtomicU64,
    /// The number of generations that died since the last pass.
    dead: AtomicU64,
    /// Merges are numbered: the last that has begun, and the last that has taken all that was pending when it began.
    begun: AtomicU64,
    finished: AtomicU64,
    /// No merge was cut off since all pending rows were merged: then a pending row has no postings.
    is_sure: AtomicBool,
    /// A session waits for the next merge.
    is_wanted: AtomicBool,
    /// The pending rows that there were at the start have been counted.
    counted: AtomicBool,
}

impl InvertedState {
    /// A merge takes all that is pending.
    fn begin_merging(&self) {
        self.merging_bytes.fetch_add(self.pending_bytes.swap(0, Relaxed), Relaxed);
        self.merging_rows.fetch_add(self.pending_rows.swap(0, Relaxed), Relaxed);
        self.pending_since_nanos.store(0, Relaxed);
    }
    /// A merge has taken all that was pending when it began.
    fn end_merging(&self) {
        self.merging_bytes.store(0, Relaxed);
        self.merging_rows.store(0, Relaxed);
    }
}

/// What is to be merged of an index; None: it is no inverted one.
pub(crate) fn pending_merge(index: &Relation) -> Option<PendingMerge> {
    let state: &InvertedState = index.method_state.of()?;
    let sum = |pending: &AtomicU64, merging: &AtomicU64| pending.load(Relaxed).saturating_add(merging.load(Relaxed));
    Some(PendingMerge {
        index: RelationId(index.id),
        rows: sum(&state.pending_rows, &state.merging_rows),
        bytes: sum(&state.pending_bytes, &state.merging_bytes),
    })
}
