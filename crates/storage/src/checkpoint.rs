//! Checkpoints: fuzzy, spread over time, in a thread of their own.
//!
//! Invariants
//! 1. The redo LSN is taken first; everything noted afterwards may be newer, and replaying it again is harmless.
//! 2. A checkpoint that fails changes nothing: the last one counts, and its log stays.
//! 3. Pages that were dirty (or latched by a writer) at that time are on disk, and synced, before the control file changes.
//!
//! Must not know: SQL.

use crate::buffer::Which;
use crate::control::{self, Checkpoint, RelationEntry};
use crate::core::Core;
use crate::image::Taking;
use crate::directory::{kind_number, persistence_number};
use crate::txn::table::Status;
use crate::wal::SEGMENT;
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::{Error, Result, Severity};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

#[derive(Default)]
pub struct Checkpointer {
    state: Mutex<State>,
    pub generation: AtomicU64,
}
#[derive(Default)]
struct State {
    asked: u64,
    done: u64,
    failed: Option<Error>,
    waiters: Vec<WakeHandle>,
    /// Transactions that are to be in the images if they commit, by their requests.
    ending: Vec<(u64, u64)>,
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
    /// Who asks for one: up to which request, and the transactions that end with it.
    fn asked(&self) -> Option<(u64, Vec<u64>)> {
        let s = crate::lock(&self.state);
        (s.asked > s.done).then(|| (s.asked, s.ending.iter().filter(|(request, _)| *request > s.done).map(|(_, xid)| *xid).collect()))
    }
    fn finish(&self, upto: u64, outcome: Result<()>) {
        let waiters = {
            let mut s = crate::lock(&self.state);
            s.done = s.done.max(upto);
            s.ending.retain(|(request, _)| *request > upto);
            s.failed = outcome.err();
            std::mem::take(&mut s.waiters)
        };
        waiters.iter().for_each(|w| w.wake());
    }
    /// The checkpointer thread's body.
    pub fn run(&self, core: &Core) {
        let mut last = core.env.monotonic_nanos();
        let mut last_redo = core.log.insert_lsn();
        while !core.stop.load(Acquire) {
            core.env.sleep(Duration::from_millis(20));
            let asked = self.asked();
            let timeout = core.env.monotonic_nanos().saturating_sub(last) > core.config.checkpoint_timeout_s.max(1) * 1_000_000_000;
            let written = core.log.insert_lsn() - last_redo;
            let full = written > core.config.max_wal_size_bytes.max(2 * SEGMENT) / 2;
            if asked.is_none() && !full && !(timeout && (written > 0 || core.kept_changed.load(Relaxed))) {
                if timeout {
                    last = core.env.monotonic_nanos();
                }
                continue;
            }
            let upto = asked.as_ref().map_or(0, |(upto, _)| *upto);
            last = core.env.monotonic_nanos();
            last_redo = core.log.insert_lsn();
            let ending = asked.as_ref().map_or(&[][..], |(_, ending)| ending);
            let outcome = self.checkpoint(core, false, asked.is_none(), ending);
            if let Err(e) = &outcome {
                core.tell(Severity::Error, &format!("checkpoint failed: {}", e.message()));
            }
            self.finish(upto, outcome);
        }
        self.finish(u64::MAX, Ok(()));
    }
    /// `ending`: transactions that wait for this checkpoint to commit.
    pub fn checkpoint(&self, core: &Core, clean: bool, spread: bool, ending: &[u64]) -> Result<()> {
        let started = core.env.monotonic_nanos();
        let redo = core.log.settled_lsn();
        core.redo.store(redo, SeqCst);
        let generation = self.generation.load(Relaxed) + 1;
        let mut images = core.begin_images(generation, ending);
        let mut note = note(core, redo, clean, generation);
        images.save()?;
        note_images(&mut note, &images);
        let pids = core.pool.dirty_pages();
        let which = if clean { Which::Durable } else { Which::Logged };
        let budget = core.config.checkpoint_timeout_s as f64 * 1e9 * core.config.checkpoint_completion_target.clamp(0.0, 1.0);
        let budget = budget.min(60e9);
        let total = pids.len().max(1);
        for (index, part) in pids.chunks(64).enumerate() {
            core.pool.write_pages(part, which)?;
            while spread && !core.stop.load(Relaxed) && self.asked().is_none() {
                let log_share = (core.log.insert_lsn() - redo) as f64 / (core.config.max_wal_size_bytes.max(2 * SEGMENT) as f64 / 2.0);
                let time_share = (core.env.monotonic_nanos() - started) as f64 / budget.max(1.0);
                if ((index + 1) * 64) as f64 / total as f64 <= time_share.max(log_share * 1.5) {
                    break;
                }
                core.env.sleep(Duration::from_millis(5));
            }
        }
        core.log.flush_blocking(core.log.insert_lsn())?;
        core.log.sync(&**core.pool.file(), "pages")?;
        control::write(&core.env, &core.config.data_dir, &core.log, &note)?;
        // A failed one keeps its generation: the slot of the last good checkpoint is not written before there is a newer.
        self.generation.store(generation, Relaxed);
        if !note.clean {
            core.undo.promise(note.next_chunk);
        }
        images.complete(&note.relations.iter().map(|r| r.id).collect());
        core.log.segments().recycle(redo, 4)?;
        core.checkpoints.fetch_add(1, Relaxed);
        let ms = (core.env.monotonic_nanos() - started) / 1_000_000;
        core.tell(Severity::Log, &format!("checkpoint complete: {} pages, {ms} ms, redo LSN {redo:X}", pids.len()));
        Ok(())
    }
}

fn note_images(note: &mut Checkpoint, images: &Taking<'_>) {
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
            kind: kind_number(r.kind),
            persistence: persistence_number(r.persistence),
            heap: r.heap.load(Relaxed),
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
