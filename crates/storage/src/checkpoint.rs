//! Checkpoints: they are fuzzy, spread over time, and run in a thread of their own.
//!
//! Invariants
//! 1. The redo LSN is taken first. All that a checkpoint notes afterwards may be newer, and replaying it again is
//!    harmless.
//! 2. A checkpoint that fails changes nothing: the last complete one counts, and the log that it needs stays.
//! 3. Pages that were dirty (or latched by a writer) at that time are on disk, and synced, before the control file
//!    changes.
//!
//! Must not know: SQL.

use crate::buffer::DirtyFilter;
use crate::control::{self, Checkpoint, RelationEntry};
use crate::core::Core;
use crate::directory::{GONE, persistence_number};
use crate::image::taking::ImageTaking;
use crate::stats::{IoEvent, IoObject};
use crate::tuning::Tuning;
use crate::txn::table::Status;
use crate::wal::frame::SEGMENT;
use crate::wal::frame::shown_lsn;
use crate::wal::segment::RecycledSegments;
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use kilndb_base::{Error, Result, Severity};
use std::time::Duration;

/// Pages written with one sync of the double-write area.
const BATCH_PAGES: usize = 64;

/// A transaction that waits for room in the log looks again after this time at the latest.
const ROOM_LOOK_NANOS: u64 = 100_000_000;

/// The reasons for a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CheckpointReason {
    Time,
    /// The log has grown by the volume after which a checkpoint is due.
    Volume,
    Requested,
    EndOfRecovery,
    /// The start of a server that was shut down properly.
    Start,
    Shutdown,
}

impl CheckpointReason {
    /// The words that PostgreSQL logs for the reason.
    fn words(self) -> &'static str {
        match self {
            CheckpointReason::Time => "time",
            CheckpointReason::Volume => "wal",
            CheckpointReason::Requested => "immediate force wait",
            CheckpointReason::Start => "immediate",
            CheckpointReason::EndOfRecovery => "end-of-recovery immediate wait",
            CheckpointReason::Shutdown => "shutdown immediate",
        }
    }
    /// Is the checkpoint spread over time, because nobody waits for it?
    fn is_spread(self) -> bool {
        matches!(self, CheckpointReason::Time | CheckpointReason::Volume)
    }
}

#[derive(Default)]
pub struct Checkpointer {
    state: Mutex<CheckpointerState>,
    pub generation: AtomicU64,
    last_redo: AtomicU64,
    distance_estimate: AtomicU64,
    /// Bulk changes that wait for room in the log: the checkpoint that runs does not spread its work any more.
    in_need: AtomicUsize,
}
#[derive(Default)]
struct CheckpointerState {
    asked: u64,
    done: u64,
    failed: Option<Error>,
    waiters: Vec<WakeHandle>,
    /// Transactions that are to be in the images if they commit, by their requests.
    ending: Vec<(u64, u64)>,
    failures: u64,
}

impl Checkpointer {
    /// `ending`: a transaction that has nothing left to do but to commit, or 0.
    pub fn request(&self, ending: u64, park: &dyn Park) -> Result<()> {
        let mine = {
            let mut s = crate::lock(&self.state);
            s.asked += 1;
            let mine = s.asked;
            if ending != 0 {
                s.ending.push((mine, ending));
            }
            s.waiters.push(park.wake_handle());
            s.asked
        };
        loop {
            park.park(None)?;
            let mut s = crate::lock(&self.state);
            if s.done >= mine {
                return s.failed.clone().map_or(Ok(()), Err);
            }
            s.waiters.push(park.wake_handle());
        }
    }
    /// Requests of checkpoints: how many were made, how many are done, and the transactions that end with one.
    fn asked(&self) -> Option<(u64, Vec<u64>)> {
        let s = crate::lock(&self.state);
        (s.asked > s.done)
            .then(|| (s.asked, s.ending.iter().filter(|(request, _)| *request > s.done).map(|(_, xid)| *xid).collect()))
    }
    /// The last checkpoint has failed, and somebody waits for one to make room: until the next one nobody may write any
    /// more, so that there would be none before its time.
    fn is_to_be_repeated(&self) -> bool {
        self.in_need.load(SeqCst) > 0 && crate::lock(&self.state).failed.is_some()
    }
    fn finish(&self, upto: u64, outcome: Result<()>) {
        let waiters = {
            let mut s = crate::lock(&self.state);
            s.done = s.done.max(upto);
            s.ending.retain(|(request, _)| *request > upto);
            s.failures += u64::from(outcome.is_err());
            s.failed = outcome.err();
            std::mem::take(&mut s.waiters)
        };
        waiters.iter().for_each(|w| w.wake());
    }
    /// Waits, as long as the log that recovery would need leaves no room in `max_wal_size` for what a bulk change adds
    /// between two calls, until a checkpoint has made some, or has failed to.
    pub fn await_room(&self, core: &Core, park: &dyn Park) -> Result<()> {
        let before = crate::lock(&self.state).failures;
        while self.needed_bytes(core) > core.tuning.get().wal_before_bulk_waits() && !core.stop.load(Acquire) {
            {
                let mut s = crate::lock(&self.state);
                if s.failures != before {
                    break;
                }
                s.waiters.push(park.wake_handle());
            }
            self.in_need.fetch_add(1, SeqCst);
            let parked = park.park(Some(core.env.monotonic_nanos() + ROOM_LOOK_NANOS));
            self.in_need.fetch_sub(1, SeqCst);
            parked?;
        }
        Ok(())
    }
    /// How many bytes of log recovery would need if the server crashed now.
    fn needed_bytes(&self, core: &Core) -> u64 {
        core.log.insert_lsn().saturating_sub(self.last_redo.load(Acquire))
    }
    /// Runs the checkpointer thread until it is stopped.
    pub fn run(&self, core: &Core) {
        let mut last = core.env.monotonic_nanos();
        let mut last_redo = core.log.insert_lsn();
        while !core.stop.load(Acquire) {
            core.env.sleep(Duration::from_millis(20));
            let tuning = core.tuning.get();
            let asked = self.asked();
            let written = core.log.insert_lsn() - last_redo;
            let upto = asked.as_ref().map_or(0, |(upto, _)| *upto);
            let elapsed_ns = core.env.monotonic_nanos().saturating_sub(last);
            let reason = if asked.is_some() {
                CheckpointReason::Requested
            } else if written > tuning.wal_between_checkpoints()
                || core.log.room.is_short() && written > SEGMENT / 4
                || self.is_to_be_repeated()
            {
                CheckpointReason::Volume
            } else if elapsed_ns > tuning.checkpoint_timeout_s.max(1) * 1_000_000_000 {
                CheckpointReason::Time
            } else {
                continue;
            };
            last = core.env.monotonic_nanos();
            let counters = &core.stats.checkpoints;
            if reason == CheckpointReason::Time {
                counters.timed.fetch_add(1, Relaxed);
                if written == 0 && !core.kept_changed.load(Relaxed) {
                    continue;
                }
            } else {
                counters.requested.fetch_add(1, Relaxed);
            }
            if reason == CheckpointReason::Volume && elapsed_ns < tuning.checkpoint_warning_s * 1_000_000_000 {
                let seconds = elapsed_ns / 1_000_000_000;
                core.tell(
                    Severity::Log,
                    &format!("checkpoints are occurring too frequently ({seconds} seconds apart)"),
                );
            }
            last_redo = core.log.insert_lsn();
            let ending = asked.as_ref().map_or(&[][..], |(_, ending)| ending);
            let outcome = self.checkpoint(core, reason, ending);
            if let Err(e) = &outcome {
                core.tell(Severity::Error, &format!("checkpoint failed: {}", e.message()));
            }
            self.finish(upto, outcome);
        }
        self.finish(u64::MAX, Ok(()));
    }

    /// `ending`: transactions that wait for this checkpoint to commit.
    pub fn checkpoint(&self, core: &Core, reason: CheckpointReason, ending: &[u64]) -> Result<()> {
        let clean = reason == CheckpointReason::Shutdown;
        let mut progress = CheckpointProgress::new(core);
        let tell = reason != CheckpointReason::Start && core.tuning.get().log_checkpoints;
        if tell {
            core.tell(Severity::Log, &format!("checkpoint starting: {}", reason.words()));
        }
        let redo = core.log.settled_lsn();
        let before = core.redo.swap(redo, SeqCst);
        assert!(redo >= before, "recovery would begin before where an earlier checkpoint lets it begin");
        let generation = self.generation.load(Relaxed) + 1;
        let mut images = core.begin_images(generation, ending);
        let mut note = note(core, redo, clean, generation);
        images.save()?;
        note_images(&mut note, &images);
        let mut pids = core.pool.dirty_pages();
        if planted::is(PlantedBug::CheckpointLeavesAPage) {
            pids.pop();
        }
        let which = if clean { DirtyFilter::Durable } else { DirtyFilter::Logged };
        for (index, part) in pids.chunks(BATCH_PAGES).enumerate() {
            progress.written += core.pool.write_pages(part, which)?;
            let share = ((index + 1) * BATCH_PAGES) as f64 / pids.len() as f64;
            while reason.is_spread()
                && self.asked().is_none()
                && self.in_need.load(SeqCst) == 0
                && !core.stop.load(Relaxed)
                && progress.is_early(core, redo, share)
            {
                core.env.sleep(Duration::from_millis(5));
            }
        }
        core.log.flush_blocking(core.log.insert_lsn())?;
        progress.writing_done_ns = core.env.monotonic_nanos();
        core.log.sync_pages(&**core.pool.file())?;
        core.stats.count(IoObject::Relation, IoEvent::Sync, 1, 0);
        progress.syncing_done_ns = core.env.monotonic_nanos();
        note.durable = core.log.flushed();
        if planted::is(PlantedBug::RedoBeginsTooLate) {
            note.redo = core.log.settled_lsn();
        }
        control::write(&core.env, &core.config.data_dir, &core.log, &note)?;
        // A failed one keeps its generation: the slot of the last good checkpoint is not written before there is a
        // newer.
        self.generation.store(generation, Relaxed);
        if !note.clean {
            core.undo.promise(note.next_chunk);
        }
        images.complete(&note.relations.iter().map(|r| r.id).collect());
        let before = self.last_redo.swap(redo, Relaxed);
        let distance = if before == 0 { 0 } else { redo - before.min(redo) };
        let estimate = self.estimate(distance, reason);
        let live = core.log.insert_lsn() / SEGMENT + 1 - redo / SEGMENT;
        let recycled = core.log.segments().recycle(redo, spare_segments(&core.tuning.get(), estimate, live))?;
        progress.finish(core);
        if let Err(e) = core.give_space_back() {
            // The checkpoint counts already; what stays in the file is free all the same, and is tried again.
            core.tell(Severity::Warning, &format!("could not give free space of file \"pages\" back: {}", e.message()));
        }
        if tell {
            progress.tell(core, redo, recycled, (distance, estimate));
        }
        Ok(())
    }

    /// An estimate of the bytes of log between two checkpoints. It follows a longer distance at once and a shorter one
    /// gradually.
    fn estimate(&self, distance: u64, reason: CheckpointReason) -> u64 {
        let before = self.distance_estimate.load(Relaxed);
        let estimate = match reason {
            CheckpointReason::EndOfRecovery | CheckpointReason::Start => before,
            _ if distance > before => distance,
            _ => (before * 9 + distance) / 10,
        };
        self.distance_estimate.store(estimate, Relaxed);
        estimate
    }
}

/// How many segments are kept to be used again, beside those with log that is needed (`live`): together they stay
/// within `max_wal_size`.
fn spare_segments(tuning: &Tuning, estimate: u64, live: u64) -> usize {
    let (least, most) = (tuning.min_wal_size_bytes / SEGMENT, tuning.max_wal_size_bytes / SEGMENT);
    let wanted = (estimate.div_ceil(SEGMENT) + 1).clamp(least.min(most), most.max(1));
    wanted.min(most.saturating_sub(live).max(1)) as usize
}

/// The progress of one checkpoint, and the times that are reported.
struct CheckpointProgress {
    started_ns: u64,
    writing_done_ns: u64,
    syncing_done_ns: u64,
    written: usize,
}

impl CheckpointProgress {
    fn new(core: &Core) -> CheckpointProgress {
        let now = core.env.monotonic_nanos();
        CheckpointProgress { started_ns: now, writing_done_ns: now, syncing_done_ns: now, written: 0 }
    }
    /// `share` of the pages have been written: that is more than time and log would have it.
    fn is_early(&self, core: &Core, redo: u64, share: f64) -> bool {
        let tuning = core.tuning.get();
        let done = share * tuning.checkpoint_completion_target.clamp(0.0, 1.0);
        let log_share = (core.log.insert_lsn() - redo) as f64 / tuning.wal_between_checkpoints() as f64;
        let elapsed_s = (core.env.monotonic_nanos() - self.started_ns) as f64 / 1e9;
        done > log_share && done > elapsed_s / tuning.checkpoint_timeout_s.max(1) as f64
    }
    /// The milliseconds spent on writing and on syncing.
    fn times(&self) -> (u64, u64) {
        let ms = |from: u64, to: u64| to.saturating_sub(from) / 1_000_000;
        (ms(self.started_ns, self.writing_done_ns), ms(self.writing_done_ns, self.syncing_done_ns))
    }
    fn finish(&self, core: &Core) {
        let (write_ms, sync_ms) = self.times();
        let counters = &core.stats.checkpoints;
        counters.done.fetch_add(1, Relaxed);
        counters.write_ms.fetch_add(write_ms, Relaxed);
        counters.sync_ms.fetch_add(sync_ms, Relaxed);
        counters.buffers_written.fetch_add(self.written as u64, Relaxed);
    }
    fn tell(&self, core: &Core, redo: u64, recycled: RecycledSegments, (distance, estimate): (u64, u64)) {
        let (write_ms, sync_ms) = self.times();
        let seconds = |ms: u64| format!("{}.{:03} s", ms / 1000, ms % 1000);
        let total_ms = (core.env.monotonic_nanos() - self.started_ns) / 1_000_000;
        let percent = self.written as f64 * 100.0 / core.pool.capacity() as f64;
        let RecycledSegments { removed, recycled } = recycled;
        let times = format!("write={}, sync={}, total={}", seconds(write_ms), seconds(sync_ms), seconds(total_ms));
        let files = format!("sync files=1, longest={0}, average={0}", seconds(sync_ms));
        let text = format!(
            "checkpoint complete: wrote {} buffers ({percent:.1}%), wrote 0 SLRU buffers; 0 WAL file(s) added, {removed} removed, \
             {recycled} recycled; {times}; {files}; distance={} kB, estimate={} kB; lsn={}, redo lsn={}",
            self.written,
            distance / 1024,
            estimate / 1024,
            shown_lsn(core.log.insert_lsn()),
            shown_lsn(redo)
        );
        core.tell(Severity::Log, &text);
    }
}

fn note_images(note: &mut Checkpoint, images: &ImageTaking<'_>) {
    for r in &mut note.relations {
        r.image = images.entries.get(&r.id).cloned();
    }
    note.unended.clone_from(&images.unended);
    note.image_chunks.clone_from(&images.chunks);
}

fn note(core: &Core, redo: u64, clean: bool, generation: u64) -> Checkpoint {
    let unfinished = core.xids.unfinished();
    let mut relations = Vec::new();
    for r in core.directory.list() {
        let doomed = r.doomed.load(Acquire);
        if r.persistence == crate::api::Persistence::Temporary
            || doomed == GONE
            || doomed != 0 && matches!(core.xids.status(doomed), Status::Committed { .. })
        {
            continue;
        }
        let creator = r.creator.load(Acquire);
        let settled = creator == 0 || matches!(core.xids.status(creator), Status::Committed { .. });
        // Blocks before extents would miss the extent of a block.
        let blocks = r.blocks.load(Acquire);
        relations.push(RelationEntry {
            id: r.id,
            kind: r.kind.number(),
            persistence: persistence_number(r.persistence),
            heap: r.heap.load(Relaxed),
            has_all_rows: r.has_all_rows(),
            creator: if settled { 0 } else { creator },
            blocks,
            extents: r.extent_list(),
            initial: crate::lock(&r.initial).clone(),
            image: None,
        });
    }
    Checkpoint {
        generation,
        redo,
        clean: clean && unfinished.is_empty(),
        next_xid: core.xids.next.load(SeqCst),
        next_csn: core.log.last_csn(),
        next_relation: core.directory.next_id.load(SeqCst),
        next_chunk: if clean { core.undo.next_chunk.load(SeqCst) } else { core.undo.number_after_crash() },
        relations,
        chunks: core.undo.live().into_iter().filter(|(_, _, logged)| *logged).collect(),
        unfinished,
        ..Checkpoint::default()
    }
}
