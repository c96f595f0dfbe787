//! Pages, buffer pool, heap, B+tree, undo, transactions, locks, log, checkpoint, recovery, check.
//!
//! Invariants
//! 1. Nothing is held across `Park::park`: no latch, no mutex.
//! 2. Readers take no locks and dirty no pages.
//! 3. One function, `wal::record::PageOp::apply`, changes pages for log records, forward and in recovery.
//!
//! Must not know: SQL values, types, plans, sessions, sockets. It compares bytes.

#[macro_use]
#[path = "method/registry.rs"]
mod registry;

pub mod accesses;
pub mod ahead;
mod api;
mod btree;
mod buffer;
mod cell;
mod changed_rows;
mod check;
mod checkpoint;
mod cleaner;
#[cfg(test)]
#[path = "../tests/support/cluster.rs"]
mod cluster;
mod commit_times;
mod control;
mod core;
mod crc;
mod directory;
mod engine;
mod entry_changes;
mod figures;
mod hash;
mod heap;
#[cfg(test)]
#[path = "../tests/support/hooked.rs"]
mod hooked;
mod hot_rows;
mod image;
mod inspect;
mod inverted;
mod locks;
mod method;
mod page;
mod places;
mod private;
mod recovery;
mod report;
mod reserve;
mod restore;
mod space;
mod ssi;
mod stats;
#[cfg(test)]
mod stops;
mod sync_switch;
pub mod trace;
mod tuning;
mod txn;
mod undo;
mod wal;

/// The fuzz target of the log needs private functions, so it is compiled into this crate.
#[cfg(any(test, feature = "fuzz"))]
#[path = "../../../fuzz/targets/log_records.rs"]
pub mod fuzz_log_records;

pub use api::*;
pub use btree::node::MAX_KEY;
pub use btree::scan::IndexScan;
pub use check::{check, check_report};
pub use directory::Relation;
pub use engine::Engine;
pub use entry_changes::EntryChanges;
pub use heap::lock::RowAccess;
pub use heap::watch::ChangeWatch;
pub use heap::write::RetiredKey;
pub use inspect::{Inspector, LineSink, LogRange};
pub use locks::owner::LockOwner;
pub use locks::waiting::{LockWait, WaitedObject};
pub use locks::waits_for::WaitLink;
pub use method::terms::{PendingTerms, TermChange, TermScan};
pub use method::{IndexContents, IndexEntries, IteratorEntries, MethodProperties, MovedRows};
pub use private::{PrivateStore, is_private};
pub use report::CheckReport;
pub use ssi::locks::{ReadLockInfo, ReadLockKind, ReadLockLimits};
pub use stats::{
    ACTORS, BackgroundWriterStats, CheckpointStats, IoActor, IoLine, IoObject, OBJECTS, Stats, StatsGroup,
};
pub use tuning::Tuning;
pub use txn::{Savepoint, Snapshot, Transaction};

/// A poisoned mutex is one whose holder panicked; its data is still the best there is.
pub(crate) fn lock<T>(mutex: &kilndb_base::sync::Mutex<T>) -> kilndb_base::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
