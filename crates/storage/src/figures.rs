//! What an engine tells of its work to whoever looks: how long commits take, what there is of undo and which snapshots keep it, what
//! inverted indexes have yet to merge.
//!
//! Invariants
//! 1. Whoever looks holds nothing up: figures are read one after the other, and fit together only about.
//!
//! Must not know: how they are shown, and who may see them.

use crate::api::{CommitTimeBucket, LiveSnapshot, PendingMerge, UndoUse};
use crate::engine::Engine;
use crate::inverted;
use crate::undo::record::CHUNK;
use kilndb_base::Csn;

impl Engine {
    /// What there is of undo, and what it waits for. It looks at every chunk.
    pub fn undo_use(&self) -> UndoUse {
        let core = self.core();
        // Snapshots first: one that is taken later keeps nothing that these let go.
        let oldest = core.snapshots.oldest(core.log.last_csn());
        let unheld = core.undo.unheld_csns();
        let kept = unheld.len() - unheld.partition_point(|csn| *csn <= oldest);
        let bytes = self.undo_bytes();
        UndoUse {
            bytes,
            of_transactions_bytes: bytes.saturating_sub(unheld.len() as u64 * CHUNK),
            of_snapshots_bytes: (kept as u64 * CHUNK).min(bytes),
        }
    }
    /// The snapshots that live, the oldest first. It looks at every chunk of undo.
    pub fn live_snapshots(&self) -> Vec<LiveSnapshot> {
        let core = self.core();
        let (holders, newest) = (core.snapshots.holders(), core.log.last_csn());
        let unheld = core.undo.unheld_csns();
        let snapshot = |(csn, owner): (u64, u64)| LiveSnapshot {
            csn: Csn(csn),
            owner,
            transactions_since: newest.saturating_sub(csn),
            undo_bytes: (unheld.len() - unheld.partition_point(|other| *other <= csn)) as u64 * CHUNK,
        };
        holders.into_iter().map(snapshot).collect()
    }
    /// What inverted indexes have yet to merge, those too that have nothing.
    pub fn pending_merges(&self) -> Vec<PendingMerge> {
        let ids = crate::lock(&self.core().worked_indexes).clone();
        let indexes = ids.into_iter().filter_map(|id| self.core().directory.get(id));
        indexes.filter_map(|index| inverted::pending_merge(&index)).collect()
    }
    /// A commit of `worker` begins: when, if it is one of those that are timed ([`Engine::note_commit`]). `now_micros`: when its
    /// statement began, by any clock.
    #[inline]
    pub fn time_commit(&self, worker: usize, now_micros: i64) -> Option<u64> {
        self.core().commit_times.is_due(worker, now_micros).then(|| self.core().env.monotonic_nanos())
    }
    /// A commit that began then, and is timed, is as durable as its client was promised.
    pub fn note_commit(&self, worker: usize, began_nanos: u64) {
        let nanos = self.core().env.monotonic_nanos().saturating_sub(began_nanos);
        self.core().commit_times.note(worker, nanos);
    }
    /// How long commits took since the start, by samples.
    pub fn commit_times(&self) -> Vec<CommitTimeBucket> {
        self.core().commit_times.buckets()
    }
}
