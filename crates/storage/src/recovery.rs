//! Recovery: torn pages, redo, undo of losers, purge of what was committed.
//!
//! Invariants
//! 1. A page is changed only by records newer than its LSN, a cell's aside (`cell`).
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

use crate::api::{Persistence, RelationKind};
use crate::buffer::doublewrite::Area;
use crate::checkpoint::shown_lsn;
use crate::control::Checkpoint;
use crate::core::Core;
use crate::crc::crc32c;
use crate::directory::{extent_pages, kind_of, persistence_of};
use crate::page::{self, PAGE, at};
use crate::space::Space;
use crate::undo::{CHUNK, CHUNK_PAGES};
use crate::wal::record::{Op, Record, Target, decode, encode};
use crate::wal::segment::{Segments, failed, place_of};
use crate::wal::{self, MAX_BODY, SEGMENT, frame, mix};
use kilndb_base::bytes::Reader;
use kilndb_base::env::{Env, File};
use kilndb_base::hash::HashMap;
use kilndb_base::planted::{self, Bug};
use kilndb_base::sync::atomic::Ordering::*;
use kilndb_base::{Error, Result, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a link record with its frame: two varints of at most ten bytes, the CRC, the kind.
const LINK_AT_MOST: u64 = 25;

/// Reads records one after the other until the log ends (or is torn).
pub struct LogReader<'a> {
    segments: &'a Segments,
    pub lsn: u64,
    buffer: Vec<u8>,
    start: u64,
}
impl<'a> LogReader<'a> {
    pub fn new(segments: &'a Segments, lsn: u64) -> LogReader<'a> {
        LogReader { segments, lsn, buffer: Vec::new(), start: lsn }
    }
    fn frame(&self) -> Option<(usize, usize, u32)> {
        let mut r = Reader::new(self.buffer.get((self.lsn - self.start) as usize..)?);
        let before = r.remaining().len();
        let len = r.varint()? as usize;
        let crc = r.u32()?;
        Some((before - r.remaining().len(), len, crc))
    }
    /// Follows a link.
    fn go_on_at(&mut self, lsn: u64) -> Result<()> {
        if lsn < self.lsn {
            return Err(Error::corrupted(format!("log: a link at {:X} leads back to {lsn:X}", self.lsn)));
        }
        self.buffer.clear();
        (self.lsn, self.start) = (lsn, lsn);
        Ok(())
    }
    /// Where the next record ends, links included, which are followed.
    pub fn next_record(&mut self) -> Result<Option<u64>> {
        let at = self.lsn;
        let Some((lsn, body)) = self.next()? else { return Ok(None) };
        if let Record::Link { to } = decode_at(&body, at)? {
            self.go_on_at(to)?;
        }
        Ok(Some(lsn))
    }
    /// End LSN and body of the next record.
    pub fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        for attempt in 0..2 {
            if let Some((head, len, crc)) = self.frame() {
                if len == 0 || len > MAX_BODY {
                    return Ok(None);
                }
                let from = (self.lsn - self.start) as usize + head;
                if let Some(body) = self.buffer.get(from..from + len) {
                    if mix(crc32c(body), self.lsn) != crc {
                        return Ok(None);
                    }
                    let body = body.to_vec();
                    self.lsn += (head + len) as u64;
                    return Ok(Some((self.lsn, body)));
                }
            }
            if attempt == 0 {
                self.start = self.lsn;
                self.buffer.resize(1 << 20, 0);
                let got = self.segments.read(self.lsn, &mut self.buffer)?;
                self.buffer.truncate(got);
            }
        }
        Ok(None)
    }
}

fn decode_at(body: &[u8], lsn: u64) -> Result<Record<'_>> {
    decode(body).map_err(|e| {
        let (file, offset) = place_of(lsn);
        Error::corrupted(format!("{} (file \"{file}\", offset {offset})", e.message()))
    })
}

/// Puts pages right that are not as they were written last: torn, or lost on the way. Pages that are as they were written
/// last are written again: if that write was never synced, or the sync failed, the system may show bytes here that the
/// disk does not have. How many were torn.
pub fn repair_pages(pages: &dyn File, area: &Area) -> Result<usize> {
    let mut torn_pages = 0;
    let mut home = Box::new([0u8; PAGE]);
    for (pid, copy, is_last) in area.last_written() {
        let offset = u64::from(pid) * PAGE as u64;
        let got = pages.read_at(&mut home[..], offset).map_err(|e| failed("read", "pages", e))?;
        home[got..].fill(0);
        let zero = home.iter().all(|&b| b == 0);
        let torn = !page::is_intact(&home) || zero;
        if is_last || torn || *home == *copy {
            pages.write_at(&copy[..], offset).map_err(|e| failed("write to", "pages", e))?;
            torn_pages += usize::from(torn);
        }
    }
    pages.sync_data().map_err(|e| failed("fsync", "pages", e))?;
    Ok(torn_pages)
}

/// Where a new log may begin.
pub fn fresh_lsn(env: &Arc<dyn Env>, wal: &Path, at_least: u64) -> Result<u64> {
    let mut next = at_least.div_ceil(SEGMENT).max(1);
    for path in env.list_dir(wal)? {
        if let Some(n) = path
            .file_name()
            .and_then(|n| n.to_str())
            .and_then(|n| u64::from_str_radix(n.trim_end_matches(".spare"), 16).ok())
        {
            next = next.max(n + 1);
        }
    }
    Ok(next * SEGMENT)
}

/// Says when it is time to tell how far recovery is.
struct Ticks {
    started: u64,
    next: u64,
}
impl Ticks {
    fn new(core: &Core, started: u64) -> Ticks {
        Ticks { started, next: started + core.config.startup_progress_interval_ms * 1_000_000 }
    }
    /// The time elapsed, if it is to be told now.
    fn due(&mut self, core: &Core) -> Option<String> {
        let interval = core.config.startup_progress_interval_ms * 1_000_000;
        let now = core.env.monotonic_nanos();
        if interval == 0 || now < self.next {
            return None;
        }
        self.next = now + interval;
        Some(seconds_since(core, self.started))
    }
}
fn seconds_since(core: &Core, started: u64) -> String {
    let hundredths = (core.env.monotonic_nanos() - started) / 10_000_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[derive(Default)]
struct Redo {
    /// Chain head, only its purge is due.
    txns: BTreeMap<u64, (u64, bool)>,
    max_xid: u64,
    /// Relations that must be gone at the end, as a page was not theirs, or not as a record needs it; and which.
    suspects: BTreeMap<u32, String>,
    suspect_chunks: BTreeSet<u64>,
    /// Relations by the transaction that has made them and has not ended.
    made: HashMap<u64, Vec<u32>>,
    /// Relations that go if the transaction commits.
    doomed: HashMap<u64, Vec<u32>>,
    /// Of the transactions that were ending when the images were taken, those that have committed.
    ended_well: BTreeSet<u64>,
    ending: BTreeSet<u64>,
    /// Of the pages that the log mentions.
    newest_page_lsn: u64,
}

impl Redo {
    /// The page is another's, or there is none.
    fn suspect(&mut self, target: Target, pid: Option<u32>) {
        let rel = target.rel;
        self.suspects.entry(rel).or_insert_with(|| {
            let place = pid.map_or(String::new(), |pid| {
                format!(" (page {pid}: file \"pages\", offset {})", u64::from(pid) * PAGE as u64)
            });
            format!("a page of storage relation {rel} is not what the log says it should be{place}")
        });
    }
}

impl Core {
    pub(crate) fn load_checkpoint(self: &Arc<Core>, c: &Checkpoint) -> Result<()> {
        for r in &c.relations {
            let (Some(kind), Some(persistence)) = (kind_of(r.kind), persistence_of(r.persistence)) else {
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
        let mut redo = Redo { max_xid: c.next_xid.saturating_sub(1), ..Redo::default() };
        for r in c.relations.iter().filter(|r| r.creator != 0) {
            redo.made.entry(r.creator).or_default().push(r.id);
        }
        redo.ending = c.unended.iter().filter(|t| t.ending).map(|t| t.xid).collect();
        for (xid, head, purge) in &c.unfinished {
            redo.txns.insert(*xid, (*head, *purge));
        }
        let mut reader = LogReader::new(self.log.segments(), c.redo);
        let mut records = 0u64;
        let mut ticks = Ticks::new(self, started);
        loop {
            let at = reader.lsn;
            let Some((lsn, body)) = reader.next()? else { break };
            let record = decode_at(&body, at)?;
            if let Record::Link { to } = record {
                // Its sync may have failed: then it is in the system's memory only.
                self.log.segments().write(at, &frame(&body, at))?;
                self.log.segments().sync(at, lsn)?;
                reader.go_on_at(to)?;
                continue;
            }
            self.redo_record(lsn, record, &mut redo)?;
            records += 1;
            if records.is_multiple_of(1024)
                && let Some(elapsed) = ticks.due(self)
            {
                self.tell(
                    Severity::Log,
                    &format!("redo in progress, elapsed time: {elapsed} s, current LSN: {}", shown_lsn(lsn)),
                );
            }
        }
        let known = self.judge_end(reader.lsn, &redo)?;
        self.pool.lenient.store(false, SeqCst);
        let elapsed = seconds_since(self, started);
        self.tell(
            Severity::Log,
            &format!("redo done at {}, {records} records, elapsed time: {elapsed} s", shown_lsn(reader.lsn)),
        );
        self.link_log(reader.lsn, known, c.next_csn + records + 1)?;
        self.xids.restart_at(redo.max_xid + 1);
        self.judge_suspects(&redo)?;
        self.rebuild_space().map_err(|e| Error::corrupted(format!("free space: {}", e.message())))?;
        // Losers back, newest first within each.
        let losers: Vec<(u64, u64)> =
            redo.txns.iter().filter(|(_, (_, purge))| !purge).map(|(x, (h, _))| (*x, *h)).collect();
        let mut steps = 0u64;
        for (xid, head) in &losers {
            let mut address = if planted::is(Bug::LosersStay) { 0 } else { *head };
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
                let mut item = crate::txn::purge::Pending {
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
        self.tell(Severity::Log, &format!("{} transactions rolled back, {purged} purged", losers.len()));
        // The undo's pages must not go to others before the undo is not needed: a recovery that is cut off begins
        // again.
        self.restore_images(c, &redo.ended_well)
    }
    /// May the log end here? A new one must begin beyond what is returned: pages may know of so much.
    fn judge_end(&self, end: u64, redo: &Redo) -> Result<u64> {
        let known = self.known_durable.load(Relaxed).max(redo.newest_page_lsn);
        match if planted::is(Bug::LogEndsAnywhere) { Ok(()) } else { wal::end::judge(self.log.segments(), end, known) }
        {
            Err(e) if self.config.accept_lost_log => {
                let text = "what follows is given up, as asked; what is left may contradict itself: dump it, and restore \
                            it into a new cluster";
                self.tell(Severity::Warning, &format!("{}: {text}", e.message()));
                self.newest_lsn_of_all()
            }
            judged => judged.map(|()| end),
        }
    }
    /// Reads every page.
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
    /// What was not as the log says it should be is gone by the end of the log, or damaged.
    fn judge_suspects(&self, redo: &Redo) -> Result<()> {
        let relations = redo.suspects.iter().filter(|(rel, _)| self.directory.get(**rel).is_some());
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
    /// Where the old log ends, leads to a new segment beyond `known`, and lets the log go on there.
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
    /// After recovery, or a clean start: no undo is needed any more.
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
    /// Unlogged relations begin anew after a crash.
    pub(crate) fn empty_unlogged(&self) -> Result<()> {
        for r in self.directory.list() {
            let unlogged = matches!(r.persistence, Persistence::Unlogged | Persistence::Kept);
            if unlogged && r.kind != RelationKind::Heap && r.pages() == 0 {
                let (_, mut page) = r.extend(0)?;
                let initial = crate::lock(&r.initial);
                if r.kind == RelationKind::Cell && !initial.is_empty() {
                    Op::Cell { bytes: &initial }.apply(page.bytes(), r.target(0))?;
                    page.mark_dirty();
                }
            }
        }
        Ok(())
    }
    fn redo_record(self: &Arc<Core>, lsn: u64, record: Record<'_>, redo: &mut Redo) -> Result<()> {
        match record {
            Record::Change { xid, undo, ops } => {
                redo.max_xid = redo.max_xid.max(xid);
                if let Some((address, record)) = &undo {
                    redo.txns.insert(xid, (*address, false));
                    if !self.undo.redo(&self.pool, *address, record, lsn)? {
                        redo.suspect_chunks.insert(*address / CHUNK);
                    }
                }
                self.redo_ops(lsn, &ops, redo)?;
            }
            Record::Compensate { xid, next, ops } => {
                redo.txns.insert(xid, (next, false));
                self.redo_ops(lsn, &ops, redo)?;
            }
            Record::Commit { xid, purge, drops } => {
                redo.max_xid = redo.max_xid.max(xid);
                if redo.ending.contains(&xid) {
                    redo.ended_well.insert(xid);
                }
                match redo.txns.get_mut(&xid) {
                    Some(t) if purge => t.1 = true,
                    _ => {
                        redo.txns.remove(&xid);
                    }
                }
                for made in redo.made.remove(&xid).unwrap_or_default().iter().filter_map(|id| self.directory.get(*id)) {
                    made.creator.store(0, Relaxed);
                }
                for id in redo.doomed.remove(&xid).unwrap_or_default().into_iter().chain(drops) {
                    if planted::is(Bug::DropNotRepeated) {
                        continue;
                    }
                    self.directory.remove(self, id);
                }
            }
            Record::Doom { xid, rels } => redo.doomed.entry(xid).or_default().extend(rels),
            Record::Abort { xid } => {
                redo.txns.remove(&xid);
                redo.doomed.remove(&xid);
                for id in redo.made.remove(&xid).unwrap_or_default() {
                    self.directory.remove(self, id);
                }
            }
            Record::PurgeDone { xid } => {
                redo.txns.remove(&xid);
            }
            Record::Create { xid, rel, kind, persistence } => {
                redo.max_xid = redo.max_xid.max(xid);
                if xid != 0 {
                    redo.txns.entry(xid).or_insert((0, false));
                }
                let (Some(kind), Some(persistence)) = (kind_of(kind), persistence_of(persistence)) else {
                    return Err(Error::corrupted("log: unknown relation kind"));
                };
                match self.directory.get(rel) {
                    // The checkpoint may know the future: that its creator has committed.
                    Some(_) => {}
                    None => {
                        self.directory.add(self, rel, kind, persistence, xid);
                        redo.made.entry(xid).or_default().push(rel);
                    }
                }
            }
            Record::Extent { rel, index, start } => {
                if let Some(r) = self.directory.get(rel) {
                    r.set_extent(index as usize, start);
                }
            }
            Record::Drop { rel } => self.directory.remove(self, rel),
            Record::Chunk { number, page } => self.undo.register(number, page, true),
            Record::ChunkGone { number } => self.undo.was_used(number),
            Record::Initial { rel, bytes } => {
                if let Some(r) = self.directory.get(rel) {
                    *crate::lock(&r.initial) = bytes.to_vec();
                }
            }
            // Followed by who reads, and looked for by who judges the end.
            Record::Link { .. } | Record::Durable { .. } => {}
            Record::Belongs { rel, heap, has_all_rows } => {
                if let Some(r) = self.directory.get(rel) {
                    r.heap.store(heap, Relaxed);
                    r.has_all_rows.store(has_all_rows, Relaxed);
                }
            }
        }
        Ok(())
    }
    fn redo_ops(&self, lsn: u64, ops: &[(Target, Op<'_>)], redo: &mut Redo) -> Result<()> {
        // Operations on one page of one record belong together: the LSN is set after the last.
        let mut done: Vec<Target> = Vec::new();
        for (index, (target, _)) in ops.iter().enumerate() {
            if done.contains(target) {
                continue;
            }
            done.push(*target);
            let Some(relation) = self.directory.get(target.rel) else { continue };
            let Some(pid) = relation.pid_raw(target.block) else {
                redo.suspect(*target, None);
                continue;
            };
            let mine = ops[index..].iter().filter(|(t, _)| t == target).map(|(_, op)| op);
            let init = ops[index].1.is_init();
            if init {
                relation.blocks.fetch_max(target.block + 1, Relaxed);
            }
            let mut page = self.pool.write(pid)?;
            let header = page.view();
            redo.newest_page_lsn = redo.newest_page_lsn.max(page::lsn(page.page()));
            let is_its_own = header.u8(at::KIND) != page::KIND_UNDO
                && header.u32(at::REL) == target.rel
                && header.u32(at::BLOCK) == target.block;
            let ahead = u64::from(planted::is(Bug::RedoSkipsNext)) * 64;
            if page::lsn(page.page()) + ahead >= lsn && header.u8(at::KIND) != 0 {
                if is_its_own {
                    for op in mine.filter(|op| op.is_of_cell() && !planted::is(Bug::CellBehindItsLog)) {
                        op.apply(page.bytes(), *target)?;
                    }
                } else {
                    // Another's by now, if the relation goes later in the log.
                    redo.suspect(*target, Some(pid));
                }
                // Read as it should be, but maybe never synced: written again before the log goes.
                page.mark_dirty();
                continue;
            }
            let has_its_page = is_its_own && header.u8(at::KIND) != 0;
            if !init && !has_its_page {
                redo.suspect(*target, Some(pid));
                continue;
            }
            if init {
                page.bytes()[at::FLAGS] = 0;
            }
            let before = page::lsn(page.page());
            let applied = mine.map(|op| op.apply(page.bytes(), *target)).collect::<Result<()>>();
            if let Err(e) = applied {
                // A checkpoint leaves out the pages of a relation that has gone before it came to them: they are as an
                // earlier one has left them. What they hold is of no use to anybody, and is not written.
                let Target { rel, block } = target;
                let place = format!("log record {lsn:X}, relation {rel} block {block} (page {pid}, LSN {before:X})");
                redo.suspects.entry(*rel).or_insert_with(|| format!("{place}: {}", e.message()));
                continue;
            }
            page::set_lsn(page.bytes(), lsn);
            page.mark_dirty();
        }
        Ok(())
    }
}
