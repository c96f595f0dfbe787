//! Faults that a simulation can put in, to see that it finds them: each is one of those that storage engines have had.
//! Without the feature `simulation` there is none, and no code for any.

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u32)]
        pub enum PlantedBug { None, $($(#[$doc])* $name,)* }
        /// All planted faults, with their names.
        pub const BUGS: &[(&str, PlantedBug)] = &[$((stringify!($name), PlantedBug::$name),)*];
    };
}

bugs! {
    /// A rolled-back CREATE gives its pages away before the log says that it is gone.
    CreateGoesBeforeTheLogKnows,
    /// After a crash a cell has the contents that its page showed, not those that were logged ahead.
    CellBehindItsLog,
    /// nextval() and setval() alone do not wait for the log.
    SequenceDoesNotWait,
    /// An index entry that comes back to life is not told to those who leave out dead ranges.
    RevivedEntryUntold,
    /// Whoever takes a snapshot later does not count among the live snapshots of a compaction.
    LaterSnapshotsForgotten,
    /// The damaged end of a log is taken for a torn one.
    LogEndsAnywhere,
    /// A copy in the double-write area counts however old it is.
    StaleCopyRepairs,
    /// A commit is acknowledged before it is on disk.
    CommitDoesNotWait,
    /// A snapshot sees one commit too many.
    SnapshotOneTooNew,
    /// At REPEATABLE READ a row that has changed since the snapshot is overwritten.
    FirstUpdaterUnchecked,
    /// At READ COMMITTED a row is written as it was before the wait for it.
    NoRecheckAfterWait,
    /// A transaction does not look for dangerous structures when it commits.
    PivotUncheckedAtCommit,
    /// A reader that has not committed is no part of a dangerous structure.
    OpenReaderHarmless,
    /// A rollback to a savepoint leaves changes of index entries as they are.
    RestampForgotten,
    /// Deleted rows are removed although an old snapshot sees them.
    PurgeIgnoresSnapshots,
    /// Pages go to their places before their copies are synced.
    CopiesUnsynced,
    /// A checkpoint leaves out one of the pages that have changed.
    CheckpointLeavesAPage,
    /// One flush in eight does not sync the log.
    LogSyncSkipped,
    /// Recovery does not take back what was not committed.
    LosersStay,
    /// Who has waited for a row is not woken when it is free.
    RowWakeLost,
    /// Recovery begins where the last checkpoint ended, not where it began.
    RedoBeginsTooLate,
    /// A prepared statement's plan is not checked against the catalog's version.
    PlanNeverStale,
    /// Recovery keeps relations whose drop was committed.
    DropNotRepeated,
    /// Recovery leaves out a record of a page that an older record ends just before.
    RedoSkipsNext,
    /// Compaction takes what one record says of many inserted rows for one of them only.
    RowsOfOneInsertApart,
    /// Transaction ids are given out although their places are those of older ones that are still needed.
    PlacesOfXidsTakenTwice,
    /// A folder without its control file is taken for an empty one.
    NoControlNoCluster,
    /// A copy does not look again at rows whose newest version its snapshot does not see.
    UnsettledRowsForgotten,
    /// A copy does not look for rows that had been changed before it began to watch.
    RowsChangedBeforeForgotten,
    /// An index has nothing of the keys that older snapshots see.
    OlderKeysForgotten,
}

#[cfg(feature = "simulation")]
mod chosen {
    use super::PlantedBug;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Set once, before the engine of a run begins.
    static CHOSEN: AtomicU32 = AtomicU32::new(0);

    pub fn plant(bug: PlantedBug) {
        CHOSEN.store(bug as u32, Ordering::Relaxed);
    }
    pub fn is(bug: PlantedBug) -> bool {
        CHOSEN.load(Ordering::Relaxed) == bug as u32
    }
}
#[cfg(feature = "simulation")]
pub use chosen::{is, plant};

/// Whether this fault is put in.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
pub const fn is(_bug: PlantedBug) -> bool {
    false
}
