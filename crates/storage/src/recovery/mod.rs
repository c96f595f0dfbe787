//! Recovery: torn pages, redo, undo of losers, purge of what was committed.
//!
//! Invariants
//! 1. A page is changed only by records newer than its LSN, except a cell's page (see `cell`).
//! 2. A record for a page that is not what the record expects is passed over; that is legitimate only if the relation
//!    (or undo chunk) is dropped later in the log, so at the end it must be gone.
//! 3. The log goes on in a segment number never used before: no stale record can be taken for a new one. A link record
//!    at the old end, durable before anything follows it, leads there.
//! 4. Recovery may be cut off anywhere and begin again: what it changes it logs as everybody else does, and the next
//!    one repeats that before it goes on.
//! 5. What was read may be in the system's memory only: the log is made durable before a page follows it, and every
//!    page that the log mentions is written again, even if it needs no change.
//!
//! Must not know: SQL.

mod progress;
mod replay;
mod replayer;
#[cfg(test)]
mod tests;

use crate::api::{Persistence, RelationKind};
use crate::control::Checkpoint;
use crate::core::Core;
use crate::directory::{extent_pages, persistence_of};
use crate::page::{self, PAGE};
use crate::space::Space;
use crate::undo::record::{CHUNK, CHUNK_PAGES};
use crate::wal::end::LogEnd;
use crate::wal::frame::shown_lsn;
use crate::wal::reader::LogReader;
use crate::wal::record::{PageOp, Record, encode};
use crate::wal::segment::{failed, fresh_lsn};
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::Ordering::*;
use kilndb_base::{Error, Result, Severity};
use progress::{ProgressTimer, seconds_since};
use replay::RedoState;
use replayer::{NobodyLooks, ReplayStop, Replayer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The size of a link record with its frame: two varints of at most ten bytes, the CRC, the kind.
const LINK_AT_MOST: u64 = 25;
/// After this many bytes of log recovery looks whether it is time to report its progress.
const PROGRESS_BYTES: u64 = 64 << 10;

impl Core {
    pub(crate) fn load_checkpoint(self: &Arc<Core>, c: &Checkpoint) -> Result<()> {
        for r in &c.relations {
            let (Some(kind), Some(persistence)) = (RelationKind::of_number(r.kind), persistence_of(r.persistence))
            else {
                return Err(Error::corrupted("directory: unknown relation kind"));
            };
            let relation = self.directory.add(self, r.id, kind, persistence, r.creator);
            relation.heap.store(r.heap, Relaxed);
            relation.has_all_rows.store(r.has_all_rows, Relaxed);
            crate::lock(&relation.initial).clone_from(&r.initial);
            if c.clean
                && let Some(image) = &relation.image
            {
                image.set_current(r.image.as_ref(), r.blocks);
            }
            if persistence == Persistence::Logged || c.clean {
                for (index, start) in r.extents.iter().enumerate() {
                    relation.set_extent(index, *start);
                }
                relation.blocks.store(r.blocks, Relaxed);
            }
        }
        self.directory.next_id.fetch_max(c.next_relation, Relaxed);
        for (number, page, logged) in &c.chunks {
            self.undo.register(*number, *page, *logged);
        }
        Ok(())
    }
    /// Brings everything to the state of the last flushed commit.
    pub(crate) fn recover(self: &Arc<Core>, c: &Checkpoint) -> Result<()> {
        self.tell(Severity::Log, &format!("redo starts at {}", shown_lsn(c.redo)));
        let started = self.env.monotonic_nanos();
        // What is read from here on must not be taken back by a second crash.
        self.log.segments().harden(c.redo, self.config.wal_buffers_bytes)?;
        self.pool.lenient.store(true, SeqCst);
        *crate::lock(&self.directory.space) = Space::unknown();
        let mut nobody = NobodyLooks;
        let mut replayer = Replayer::new(self, c, &mut nobody);
        let mut reader = LogReader::new(self.log.segments(), c.redo, self.known_durable.load(Relaxed));
        let mut ticks = ProgressTimer::new(self, started);
        let end = loop {
            let pause = reader.lsn() + PROGRESS_BYTES;
            match replayer.replay_to(&mut reader, pause)? {
                ReplayStop::End(end) => break end,
                ReplayStop::Reached | ReplayStop::ByObserver => {
                    if let Some(elapsed) = ticks.due(self) {
                        let lsn = shown_lsn(reader.lsn());
                        let text = format!("redo in progress, elapsed time: {elapsed} s, current LSN: {lsn}");
                        self.tell(Severity::Log, &text);
                    }
                }
            }
        };
        let known = self.judge_end(reader.lsn(), end)?;
        self.pool.lenient.store(false, SeqCst);
        let elapsed = seconds_since(self, started);
        let (records, redo) = replayer.finish();
        self.tell(
            Severity::Log,
            &format!("redo done at {}, {records} records, elapsed time: {elapsed} s", shown_lsn(reader.lsn())),
        );
        self.link_log(reader.lsn(), known, c.next_csn + records + 1)?;
        self.xids.restart_at(redo.max_xid + 1);
        self.judge_suspects(&redo)?;
        self.rebuild_space().map_err(|e| Error::corrupted(format!("free space: {}", e.message())))?;
        let (losers, purged) = self.end_unfinished(&redo, &mut ticks)?;
        self.tell(Severity::Log, &format!("{losers} transactions rolled back, {purged} purged"));
        // The undo's pages must not go to others before the undo is not needed: a recovery that is cut off begins
        // again.
        self.restore_images(c, &redo.ended_well)
    }
    /// Rolls back the transactions that had not ended, and purges for those that had committed: how many of each.
    fn end_unfinished(self: &Arc<Core>, redo: &RedoState, ticks: &mut ProgressTimer) -> Result<(usize, usize)> {
        // The losers are rolled back, newest changes first within each.
        let losers: Vec<(u64, u64)> =
            redo.txns.iter().filter(|(_, (_, purge))| !purge).map(|(x, (h, _))| (*x, *h)).collect();
        let mut steps = 0u64;
        for (xid, head) in &losers {
            let mut address = if planted::is(PlantedBug::LosersStay) { 0 } else { *head };
            while address != 0 {
                address = self.undo_step(*xid, address)?;
                steps += 1;
                if steps.is_multiple_of(1024)
                    && let Some(elapsed) = ticks.due(self)
                {
                    self.tell(
                        Severity::Log,
                        &format!("undo in progress, elapsed time: {elapsed} s, current transaction: {xid}"),
                    );
                }
            }
        }
        for r in self.directory.list() {
            match r.creator.load(Relaxed) {
                0 => {}
                creator if redo.txns.contains_key(&creator) => {
                    self.directory.remove_uncommitted(self, r.id);
                }
                _ => r.creator.store(0, Relaxed),
            }
        }
        let mut purged = 0;
        for (xid, (head, purge)) in &redo.txns {
            if *purge {
                let mut item = crate::txn::purge_queue::PendingPurge {
                    xid: *xid,
                    csn: 0,
                    heads: [*head, 0],
                    chunks: Vec::new(),
                    logged: true,
                };
                if self.purge_chain(&mut item)? {
                    self.log.append(&encode(&Record::PurgeDone { xid: *xid }));
                }
                purged += 1;
            }
        }
        Ok((losers.len(), purged))
    }
    /// May the log end here? A new one must begin beyond what is returned: pages may know of so much.
    fn judge_end(&self, lsn: u64, end: LogEnd) -> Result<u64> {
        let damage = match end {
            LogEnd::Damaged(damage) if !planted::is(PlantedBug::LogEndsAnywhere) => damage.error(),
            LogEnd::Damaged(_) | LogEnd::Ordinary => return Ok(lsn),
        };
        if !self.config.accept_lost_log {
            return Err(damage);
        }
        let text = "what follows is given up, as asked; what is left may contradict itself: dump it, and restore it into \
                    a new cluster";
        self.tell(Severity::Warning, &format!("{}: {text}", damage.message()));
        self.newest_lsn_of_all()
    }
    /// The newest LSN of all pages; it reads every page.
    fn newest_lsn_of_all(&self) -> Result<u64> {
        let (file, mut page) = (self.pool.file(), Box::new([0; PAGE]));
        let mut newest = self.known_durable.load(Relaxed);
        for pid in 0..file.len()? / PAGE as u64 {
            let got = file.read_at(&mut page[..], pid * PAGE as u64).map_err(|e| failed("read", "pages", e))?;
            page[got..].fill(0);
            if page::is_intact(&page) {
                newest = newest.max(page::lsn(&page));
            }
        }
        Ok(newest)
    }
    /// A page that was not as the log needs it must belong to a relation that is gone by the end of the log; otherwise
    /// it is damaged.
    fn judge_suspects(&self, redo: &RedoState) -> Result<()> {
        let relations = redo.suspects.iter().filter(|((rel, _), _)| self.directory.get(*rel).is_some());
        let relations = relations.map(|(_, what)| what.clone());
        let chunks = redo.suspect_chunks.iter().filter(|chunk| self.undo.is_live(**chunk));
        let chunks = chunks.map(|chunk| format!("a page of undo chunk {chunk} is not what the log says it should be"));
        for what in relations.chain(chunks) {
            if !self.config.accept_lost_log {
                return Err(Error::corrupted(what));
            }
            self.tell(Severity::Warning, &what);
        }
        Ok(())
    }
    /// Ends the old log with a link to a new segment beyond `known`, and lets the log go on there.
    fn link_log(&self, end: u64, known: u64, csn: u64) -> Result<()> {
        // The record itself may reach into the next segment.
        let at_least = (end + LINK_AT_MOST).max(known);
        let to = fresh_lsn(&self.env, &self.config.data_dir.join("wal"), at_least)?;
        self.log.restart_at(end, csn);
        let linked = self.log.append(&encode(&Record::Link { to }));
        assert!(linked - end <= LINK_AT_MOST);
        self.log.flush_blocking(linked)?;
        self.log.restart_at(to, csn);
        Ok(())
    }
    /// Drops all undo, after recovery or at a clean start, when none is needed.
    pub(crate) fn drop_all_undo(&self) -> Result<()> {
        self.directory.list().iter().for_each(|r| r.look_everywhere());
        for (number, page, _) in self.undo.live() {
            self.undo.forget(number);
            for pid in page..page + CHUNK_PAGES {
                self.pool.discard(pid);
            }
        }
        let next = self.undo.next_chunk.load(SeqCst);
        self.undo.set_oldest(next);
        debug_assert!(self.undo.horizon() == next * CHUNK);
        self.rebuild_space()
    }
    pub(crate) fn rebuild_space(&self) -> Result<()> {
        let mut used = BTreeMap::new();
        let mut add = |start: u32, len: u32, what: String| match used.insert(start, len) {
            None => Ok(()),
            Some(_) => Err(Error::corrupted(format!("{what}: page {start} is used twice"))),
        };
        for r in self.directory.list() {
            for (index, start) in r.extent_list().into_iter().enumerate() {
                add(start, extent_pages(index), format!("storage relation {}", r.id))?;
            }
        }
        for (number, page, _) in self.undo.live() {
            add(page, CHUNK_PAGES, format!("undo chunk {number}"))?;
        }
        *crate::lock(&self.directory.space) =
            Space::rebuild(self.pool.page_limit(), self.pool.file_pages.load(Acquire), &used)?;
        Ok(())
    }
    /// Empties unlogged relations after a crash.
    pub(crate) fn empty_unlogged(&self) -> Result<()> {
        for r in self.directory.list() {
            let unlogged = matches!(r.persistence, Persistence::Unlogged | Persistence::Kept);
            if unlogged && r.kind != RelationKind::Heap && r.pages() == 0 {
                let (_, mut page) = r.extend(0)?;
                let initial = crate::lock(&r.initial);
                if r.kind == RelationKind::Cell && !initial.is_empty() {
                    PageOp::Cell { bytes: &initial }.apply(page.bytes(), r.target(0))?;
                    page.mark_dirty();
                }
            }
        }
        Ok(())
    }
}
