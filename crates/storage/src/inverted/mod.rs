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

use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU64};

/// The state that an inverted index has in memory.
#[derive(Default)]
pub(crate) struct InvertedState {
    /// The rows whose pending entries are being merged.
    merging: Mutex<merge::RowIdRange>,
    /// Held by the one thread that goes through the whole index.
    pass: Mutex<sweep::MaintenancePass>,
    /// The bytes of pending rows that were written since the last merge began, and when the merging thread first found
    /// some.
    pending_bytes: AtomicU64,
    pending_since_nanos: AtomicU64,
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
