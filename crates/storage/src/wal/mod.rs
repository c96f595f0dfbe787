//! The log: a byte stream of records in 16 MB segments; ring buffer, flusher thread, group commit.
//!
//! Invariants
//! 1. An LSN is an offset in the stream; a record's LSN is its end. Everything below the insert LSN is
//!    complete in the ring or on disk.
//! 2. Commit records get their CSN inside the insertion section: log order is commit order.
//! 3. The flusher takes no page latch, so an inserter may wait for ring space while it holds latches.
//! 4. After a failed write or sync of the log, or a failed sync of any file, nothing is tried again (the kernel may
//!    have dropped the pages and call the next sync a success): what was not flushed is never acknowledged, whoever
//!    waits gets an error, and the owner of the engine is told with [`Severity::Panic`] to end the process.
//! 5. Framing: varint length of the body, u32 CRC-32C of the body mixed with the start LSN, body.
//! 6. A flush has a note with it of how far the log was durable before ([`record::Record::Durable`]): if it is found
//!    behind a hole, the hole is damage and not a torn end ([`end`]).
//!
//! Must not know: pages, what other bodies mean.

pub mod end;
pub mod frame;
#[cfg(test)]
mod fuzz;
pub mod reader;
pub mod record;
pub mod room;
pub mod segment;
pub mod tag;
#[cfg(test)]
mod tests;

use self::frame::{MAX_BODY, SEGMENT, frame, frame_head, mix};
use crate::accesses::{self, AccessKind};
use crate::api::WalStats;
use crate::crc::crc32c;
use crate::trace;
use crate::tuning::Tuning;
use kilndb_base::env::{Env, File};
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use kilndb_base::sync::{Arc, Condvar, Mutex};
use kilndb_base::{Error, Result, Severity, sqlstate};
use room::{LogRoom, SpaceUse};
use segment::LogSegments;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// A thread with sessions of its own may be kept for so long by a flush.
const QUICK_FLUSH_NANOS: u64 = 400_000;
/// After this many flushes for one session each, it is assumed that there is only one session.
const LONELY_FLUSHES: u64 = 8;

type Reporter = Arc<dyn Fn(Severity, &str) + Send + Sync>;

pub struct Log {
    insert: Mutex<InsertPosition>,
    ring: LogRing,
    insert_lsn: AtomicU64,
    written: AtomicU64,
    flushed: AtomicU64,
    last_csn: AtomicU64,
    flushed_csn: AtomicU64,
    control: Mutex<FlushControl>,
    work: Condvar,
    done: Condvar,
    idle: AtomicBool,
    /// A session waits for a flush that is not due yet.
    is_wanted: AtomicBool,
    /// Held by the thread that writes and syncs: the flusher, or a worker that has nothing else to do.
    flushing: Mutex<()>,
    /// The moving average of how long a flush takes.
    flush_nanos: AtomicU64,
    /// How many flushes in a row were for a single session.
    lonely_flushes: AtomicU64,
    waiters: Mutex<Vec<(u64, WakeHandle)>>,
    /// The LSN that the last note of durability has.
    noted: AtomicU64,
    segments: LogSegments,
    pub room: LogRoom,
    delay_ms: AtomicU64,
    flush_after_bytes: AtomicU64,
    buffers_full: AtomicU64,
    records: AtomicU64,
    flushes: AtomicU64,
    start: AtomicU64,
    failed: AtomicBool,
    /// Held by who syncs the file of pages.
    syncing_pages: Mutex<()>,
    tell: Reporter,
    /// The flusher has gone: nothing more reaches the disk.
    stopped: AtomicBool,
    /// There is no log: it belongs to a private store and only gives commit sequence numbers.
    is_none: bool,
}
struct InsertPosition {
    pos: u64,
    /// The LSNs from which recovery must be able to begin for the sake of records that belong together, one for each
    /// [`RedoHold`].
    redo_holds: Vec<u64>,
    /// The commits that are not flushed yet: (CSN, end LSN).
    commits: VecDeque<(u64, u64)>,
}
#[derive(Default)]
struct FlushControl {
    wanted: u64,
    /// A flush is to begin.
    is_due: bool,
    commit_delay_us: u64,
    stop: bool,
}
struct LogRing {
    bytes: Box<[std::cell::UnsafeCell<u8>]>,
}
// SAFETY: inserters write disjoint parts under the insert mutex; the flusher reads only below the insert LSN.
unsafe impl Sync for LogRing {}
// SAFETY: plain bytes.
unsafe impl Send for LogRing {}

impl LogRing {
    fn put(&self, pos: u64, data: &[u8]) {
        let size = self.bytes.len();
        let at = pos as usize % size;
        let first = data.len().min(size - at);
        // SAFETY: both parts lie in the ring; the caller holds the insert mutex and has checked the space.
        unsafe {
            let base = self.bytes.as_ptr() as *mut u8;
            std::ptr::copy_nonoverlapping(data.as_ptr(), base.add(at), first);
            std::ptr::copy_nonoverlapping(data.as_ptr().add(first), base, data.len() - first);
        }
    }
    /// The part from `pos` that is contiguous in memory.
    fn get(&self, pos: u64, len: usize) -> &[u8] {
        let size = self.bytes.len();
        let at = pos as usize % size;
        // SAFETY: in bounds; nobody overwrites it until `written` moves past it.
        unsafe { std::slice::from_raw_parts((self.bytes.as_ptr() as *const u8).add(at), len.min(size - at)) }
    }
}

/// While it lives, no checkpoint lets recovery begin behind its LSN.
pub(crate) struct RedoHold<'a> {
    log: &'a Log,
    lsn: u64,
}
impl Drop for RedoHold<'_> {
    fn drop(&mut self) {
        let holds = &mut crate::lock(&self.log.insert).redo_holds;
        if let Some(at) = holds.iter().position(|lsn| *lsn == self.lsn) {
            holds.swap_remove(at);
        }
    }
}

impl Log {
    pub fn new(segments: LogSegments, start: u64, csn: u64, ring_bytes: u64, tuning: &Tuning, tell: Reporter) -> Log {
        let size = (ring_bytes as usize).clamp(1 << 20, 1 << 30);
        let log = Log::with_ring(segments, start, csn, size, tell);
        log.set_tuning(tuning);
        log
    }
    fn with_ring(segments: LogSegments, start: u64, csn: u64, size: usize, tell: Reporter) -> Log {
        Log {
            insert: Mutex::new(InsertPosition { pos: start, redo_holds: Vec::new(), commits: VecDeque::new() }),
            // SAFETY: UnsafeCell<u8> is valid as zero.
            ring: LogRing {
                bytes: unsafe { Box::<[std::cell::UnsafeCell<u8>]>::new_zeroed_slice(size).assume_init() },
            },
            insert_lsn: AtomicU64::new(start),
            written: AtomicU64::new(start),
            flushed: AtomicU64::new(start),
            last_csn: AtomicU64::new(csn),
            flushed_csn: AtomicU64::new(csn),
            control: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            idle: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            flushing: Mutex::new(()),
            flush_nanos: AtomicU64::new(QUICK_FLUSH_NANOS * 2),
            lonely_flushes: AtomicU64::new(0),
            waiters: Mutex::default(),
            noted: AtomicU64::new(start),
            segments,
            room: LogRoom::default(),
            delay_ms: AtomicU64::new(200),
            flush_after_bytes: AtomicU64::new(1 << 20),
            buffers_full: AtomicU64::new(0),
            records: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            start: AtomicU64::new(start),
            failed: AtomicBool::new(false),
            syncing_pages: Mutex::new(()),
            tell,
            stopped: AtomicBool::new(false),
            is_none: false,
        }
    }
    /// For what is never recovered: records go nowhere, everything counts as flushed.
    pub fn none(env: &Arc<dyn Env>, csn: u64, tell: Reporter) -> Log {
        Log { is_none: true, ..Log::with_ring(LogSegments::none(env), SEGMENT, csn, 0, tell) }
    }
    pub fn is_none(&self) -> bool {
        self.is_none
    }
    /// Sets where the log ends, once recovery has found it. Nothing may have been inserted before.
    pub(crate) fn restart_at(&self, lsn: u64, csn: u64) {
        let mut insert = crate::lock(&self.insert);
        assert!(insert.redo_holds.is_empty() && insert.commits.is_empty(), "the log has been used");
        assert!(lsn >= insert.pos, "the log would go backwards");
        insert.pos = lsn;
        for a in [&self.insert_lsn, &self.written, &self.flushed, &self.start, &self.noted] {
            a.store(lsn, SeqCst);
        }
        self.last_csn.store(csn, SeqCst);
        self.flushed_csn.store(csn, SeqCst);
    }
    pub fn segments(&self) -> &LogSegments {
        &self.segments
    }
    /// Err: the disk is so full that the log may not get such a change.
    #[inline]
    pub(crate) fn check_room(&self, what: SpaceUse) -> Result<()> {
        if self.room.allows(what) {
            return Ok(());
        }
        // There may be room again since the cleaner has looked last.
        self.prepare_room();
        self.room.check(what)
    }
    /// Makes the next segment's file: see [`LogRoom::prepare`].
    pub(crate) fn prepare_room(&self) {
        self.room.prepare(&self.segments, self.insert_lsn());
    }
    pub fn insert_lsn(&self) -> u64 {
        self.insert_lsn.load(Acquire)
    }
    pub fn flushed(&self) -> u64 {
        self.flushed.load(Acquire)
    }
    #[inline]
    pub fn last_csn(&self) -> u64 {
        self.last_csn.load(SeqCst)
    }
    #[inline]
    pub(crate) fn flushed_csn(&self) -> u64 {
        self.flushed_csn.load(Acquire)
    }
    pub fn stats(&self) -> WalStats {
        WalStats {
            records: self.records.load(Relaxed),
            bytes: self.insert_lsn().saturating_sub(self.start.load(Relaxed)),
            flushes: self.flushes.load(Relaxed),
            buffers_full: self.buffers_full.load(Relaxed),
        }
    }
    pub fn reset_stats(&self) {
        self.records.store(0, Relaxed);
        self.flushes.store(0, Relaxed);
        self.buffers_full.store(0, Relaxed);
        self.start.store(self.insert_lsn(), Relaxed);
    }
    pub fn set_tuning(&self, tuning: &Tuning) {
        self.delay_ms.store(tuning.wal_writer_delay_ms.max(1), Relaxed);
        self.flush_after_bytes.store(tuning.wal_writer_flush_after_bytes, Relaxed);
        self.work.notify_all();
    }

    pub fn append(&self, body: &[u8]) -> u64 {
        self.append_with(body, |_, _| {})
    }
    /// Appends a record; `then` runs inside the insertion section.
    pub(crate) fn append_then(&self, body: &[u8], then: impl FnOnce()) -> u64 {
        self.append_with(body, |_, _| then())
    }
    /// The LSN from which recovery would begin after a checkpoint that begins now: the insert LSN, with every earlier
    /// insertion's `then` done, or the oldest [`RedoHold`].
    pub(crate) fn settled_lsn(&self) -> u64 {
        let insert = crate::lock(&self.insert);
        insert.redo_holds.iter().copied().min().unwrap_or(insert.pos)
    }
    /// For records that mean something only together: recovery reads all that are appended while the guard lives, or
    /// none.
    pub(crate) fn hold_redo(&self) -> RedoHold<'_> {
        let mut insert = crate::lock(&self.insert);
        let lsn = insert.pos;
        insert.redo_holds.push(lsn);
        RedoHold { log: self, lsn }
    }
    /// A CSN for an end that needs no record: of an unlogged or read-mostly transaction.
    pub(crate) fn next_csn(&self, publish: impl FnOnce(u64)) -> u64 {
        let mut insert = crate::lock(&self.insert);
        let csn = self.last_csn.load(Relaxed) + 1;
        publish(csn);
        let pos = insert.pos;
        self.note_commit(&mut insert, csn, pos);
        self.last_csn.store(csn, SeqCst);
        csn
    }
    fn note_commit(&self, insert: &mut InsertPosition, csn: u64, end: u64) {
        if end <= self.flushed.load(Acquire) && insert.commits.is_empty() {
            self.flushed_csn.store(csn, Release);
        } else {
            insert.commits.push_back((csn, end));
        }
    }
    /// A commit or abort record: `publish` runs with the new CSN before any snapshot can contain it.
    pub(crate) fn append_end(&self, body: &[u8], publish: impl FnOnce(u64)) -> (u64, u64) {
        let mut given = 0;
        let lsn = self.append_with(body, |insert, end| {
            let csn = self.last_csn.load(Relaxed) + 1;
            debug_assert!(
                insert.commits.back().is_none_or(|(last, at)| *last < csn && *at <= end),
                "commits are in log order"
            );
            publish(csn);
            insert.commits.push_back((csn, end));
            self.last_csn.store(csn, SeqCst);
            given = csn;
        });
        (lsn, given)
    }
    fn append_with(&self, body: &[u8], then: impl FnOnce(&mut InsertPosition, u64)) -> u64 {
        assert!(!body.is_empty() && body.len() <= MAX_BODY);
        if self.is_none {
            let mut insert = crate::lock(&self.insert);
            let pos = insert.pos;
            then(&mut insert, pos);
            return pos;
        }
        let crc = crc32c(body);
        // Only the frame's length is needed here: the LSN is not known yet.
        let (mut head, n) = frame_head(body, 0, crc);
        let total = (n + body.len()) as u64;
        let mut insert = crate::lock(&self.insert);
        while insert.pos + total - self.written.load(Acquire) > self.ring.bytes.len() as u64
            && !self.stopped.load(Acquire)
        {
            drop(insert);
            self.wait_written();
            insert = crate::lock(&self.insert);
        }
        let pos = insert.pos;
        head[n - 4..n].copy_from_slice(&mix(crc, pos).to_le_bytes());
        let end = self.put(&mut insert, &[&head[..n], body]);
        debug_assert!(end == pos + total, "a record has the length that it was given room for");
        self.room.came_to(end);
        then(&mut insert, end);
        self.insert_lsn.store(end, Release);
        drop(insert);
        self.records.fetch_add(1, Relaxed);
        accesses::count(AccessKind::LogRecords, 1);
        accesses::count(AccessKind::LogBytes, total);
        trace::note_log_record(body);
        end
    }
    /// The parts of a frame, for which there is room in the ring; where they end.
    fn put(&self, insert: &mut InsertPosition, frame: &[&[u8]]) -> u64 {
        for part in frame {
            self.ring.put(insert.pos, part);
            insert.pos += part.len() as u64;
        }
        insert.pos
    }
    /// Notes for whoever reads the log after a crash how far it is durable. It goes with a flush of other records, and
    /// is left out if the ring is full: the flusher cannot wait for itself.
    fn note_durable(&self) {
        let flushed = self.flushed();
        if flushed <= self.noted.load(Relaxed) {
            return;
        }
        let body = record::encode(&record::Record::Durable { to: flushed });
        let mut insert = crate::lock(&self.insert);
        let frame = frame(&body, insert.pos);
        if insert.pos + frame.len() as u64 - self.written.load(Acquire) <= self.ring.bytes.len() as u64 {
            let end = self.put(&mut insert, &[&frame]);
            self.insert_lsn.store(end, Release);
            self.noted.store(flushed, Relaxed);
        }
    }
    /// The first record of a new log, which is then known to have a file. Without room for that there is none yet: the
    /// first change will want it.
    pub fn begin(&self) -> Result<()> {
        let start = self.insert_lsn();
        if self.segments.prepare(start).is_err_and(|e| e.sqlstate() == sqlstate::DISK_FULL) {
            return Ok(());
        }
        let end = self.append(&record::encode(&record::Record::Durable { to: start }));
        self.flush_blocking(end)
    }
    /// To be called after a commit that nobody waits for: the flusher runs when the delay is over, or now if much has
    /// gathered.
    pub fn nudge(&self, lsn: u64) {
        if lsn.saturating_sub(self.flushed()) >= self.flush_after_bytes.load(Relaxed) {
            self.request(lsn);
        }
    }
    /// The next flush waits so long for more commits.
    pub(crate) fn delay_next_flush(&self, delay_us: u64) {
        let mut control = crate::lock(&self.control);
        control.commit_delay_us = control.commit_delay_us.max(delay_us);
    }
    #[cold]
    fn wait_written(&self) {
        self.buffers_full.fetch_add(1, Relaxed);
        accesses::count(AccessKind::LogBuffersFull, 1);
        self.request(self.insert_lsn());
        let control = crate::lock(&self.control);
        let _ = self.done.wait_timeout(control, Duration::from_millis(1));
    }
    fn request(&self, lsn: u64) {
        let mut control = crate::lock(&self.control);
        control.wanted = control.wanted.max(lsn);
        control.is_due = true;
        drop(control);
        if self.idle.load(SeqCst) {
            self.work.notify_one();
        }
    }
    /// As [`Log::request`], but the flush begins with [`Log::begin_flush`], or when the flusher looks around by itself.
    fn request_with_others(&self, lsn: u64) {
        let mut control = crate::lock(&self.control);
        control.wanted = control.wanted.max(lsn);
        drop(control);
        self.is_wanted.store(true, SeqCst);
    }
    /// Does somebody wait for a flush that has not begun?
    pub fn is_flush_wanted(&self) -> bool {
        self.is_wanted.load(Relaxed)
    }
    /// Starts the flush that is wanted. A caller who has nothing else to do does it himself if that takes no longer
    /// than handing it over to another thread, and nobody else is likely to need him meanwhile (docs/decisions/0005).
    pub fn begin_flush(&self, is_caller_idle: bool) {
        if self.is_wanted.swap(false, SeqCst) && !(is_caller_idle && self.flush_here()) {
            self.request(0);
        }
    }
    /// Flushes on this thread. False: another thread is flushing, or the flush may take long.
    fn flush_here(&self) -> bool {
        let is_quick =
            self.flush_nanos.load(Relaxed) <= QUICK_FLUSH_NANOS && self.lonely_flushes.load(Relaxed) >= LONELY_FLUSHES;
        if !is_quick || self.stopped.load(Acquire) || crate::lock(&self.control).commit_delay_us > 0 {
            return false;
        }
        let Ok(_flushing) = self.flushing.try_lock() else { return false };
        if self.insert_lsn() != self.flushed()
            && let Err(e) = self.flush_once()
        {
            self.fail(&e);
        }
        true
    }

    /// Err: it is not known to be on disk, and will not be.
    pub fn wait_flushed(&self, lsn: u64, park: &dyn Park) -> Result<()> {
        while self.flushed.load(SeqCst) < lsn {
            crate::lock(&self.waiters).push((lsn, park.wake_handle()));
            if park.is_flushed_for() {
                self.request_with_others(lsn);
            } else {
                self.request(lsn);
            }
            if self.flushed.load(SeqCst) >= lsn {
                break;
            }
            if self.failed.load(SeqCst) {
                return Err(self.gone());
            }
            park.park_uninterruptible();
        }
        Ok(())
    }
    fn gone(&self) -> Error {
        Error::new(sqlstate::IO_ERROR, "the log cannot be written").with_severity(Severity::Panic)
    }
    /// Marks the log as failed: nothing more reaches the disk (invariant 4). Only the first failure is reported.
    pub fn fail(&self, why: &Error) {
        if self.is_none {
            // A private store has no other session's data, so the process need not end.
            return (self.tell)(Severity::Warning, why.message());
        }
        self.stopped.store(true, Release);
        if self.failed.swap(true, SeqCst) {
            return;
        }
        (self.tell)(Severity::Panic, why.message());
        {
            let _control = crate::lock(&self.control);
            self.done.notify_all();
            self.work.notify_all();
        }
        let waiters = std::mem::take(&mut *crate::lock(&self.waiters));
        waiters.iter().for_each(|(_, wake)| wake.wake());
    }
    /// Syncs the file of pages, for whoever needs what anybody has written there: as [`Log::sync`], one after the other. A
    /// sync that fails may lose what it should have synced, and the next one does not fail for that: it must not begin
    /// before the first one's failure is known.
    pub fn sync_pages(&self, file: &dyn File) -> Result<()> {
        let _one = crate::lock(&self.syncing_pages);
        if self.failed.load(SeqCst) {
            return Err(self.gone());
        }
        self.sync(file, "pages")
    }
    /// Syncs a file; a failure makes the log fail (invariant 4).
    pub fn sync(&self, file: &dyn File, name: &str) -> Result<()> {
        file.sync_data().map_err(|e| {
            let e = segment::failed("fsync", name, e);
            self.fail(&e);
            e
        })
    }
    /// Syncs the names in a folder; a failure makes the log fail.
    pub fn sync_dir(&self, env: &dyn Env, dir: &Path) -> Result<()> {
        env.sync_dir(dir).map_err(|e| {
            let e = segment::failed("fsync", &dir.display().to_string(), e);
            self.fail(&e);
            e
        })
    }
    /// Waits for a flush by blocking the thread, for evictions and checkpoints.
    pub(crate) fn flush_blocking(&self, lsn: u64) -> Result<()> {
        let lsn = lsn.min(self.insert_lsn());
        while self.flushed() < lsn {
            if self.failed.load(SeqCst) || self.stopped.load(Acquire) {
                return Err(self.gone());
            }
            self.request(lsn);
            let control = crate::lock(&self.control);
            if self.flushed() < lsn {
                let _ = self.done.wait_timeout(control, Duration::from_millis(5));
            }
        }
        Ok(())
    }
    pub fn stop(&self) {
        self.stopped.store(true, Release);
        crate::lock(&self.control).stop = true;
        self.work.notify_all();
    }

    /// Runs the flusher thread until it is stopped.
    pub(crate) fn run_flusher(&self) {
        loop {
            let commit_delay_us = {
                let mut control = crate::lock(&self.control);
                self.idle.store(true, SeqCst);
                if !control.is_due && !control.stop {
                    let delay = Duration::from_millis(self.delay_ms.load(Relaxed));
                    control = self.work.wait_timeout(control, delay).unwrap_or_else(|e| e.into_inner()).0;
                }
                self.idle.store(false, SeqCst);
                control.is_due = false;
                if control.stop || self.failed.load(SeqCst) {
                    return;
                }
                std::mem::take(&mut control.commit_delay_us)
            };
            if self.insert_lsn() == self.flushed() {
                continue;
            }
            if commit_delay_us > 0 {
                self.segments.env().sleep(Duration::from_micros(commit_delay_us));
            }
            let _flushing = crate::lock(&self.flushing);
            if let Err(e) = self.flush_once() {
                self.fail(&e);
                return;
            }
        }
    }
    /// Flushes once; the caller has locked `flushing`.
    fn flush_once(&self) -> Result<()> {
        let began_nanos = self.segments.env().monotonic_nanos();
        self.note_durable();
        let end = self.insert_lsn();
        let mut at = self.written.load(Acquire);
        assert!(self.flushed() <= at && at <= end, "what is flushed was written, and what is written was inserted");
        let from = at;
        while at < end {
            let in_segment = (SEGMENT - at % SEGMENT).min(end - at) as usize;
            let part = self.ring.get(at, in_segment);
            self.segments.write(at, part)?;
            at += part.len() as u64;
        }
        // The room in the ring is free from here on: the bytes are not read there again, whatever becomes of the sync.
        self.written.store(end, Release);
        self.segments.sync(from, end)?;
        {
            let mut insert = crate::lock(&self.insert);
            let mut last = None;
            while let Some(&(csn, lsn)) = insert.commits.front() {
                if lsn > end {
                    break;
                }
                last = Some(csn);
                insert.commits.pop_front();
            }
            if let Some(csn) = last {
                self.flushed_csn.store(csn, Release);
            }
            self.flushed.store(end, SeqCst);
        }
        self.flushes.fetch_add(1, Relaxed);
        let took_nanos = self.segments.env().monotonic_nanos().saturating_sub(began_nanos);
        self.flush_nanos.store((self.flush_nanos.load(Relaxed) / 8 * 7).saturating_add(took_nanos / 8), Relaxed);
        {
            let _control = crate::lock(&self.control);
            self.done.notify_all();
        }
        let woken: Vec<WakeHandle> = {
            let mut waiters = crate::lock(&self.waiters);
            let mut woken = Vec::new();
            waiters.retain(|(lsn, wake)| {
                if *lsn <= end {
                    woken.push(wake.clone());
                }
                *lsn > end
            });
            woken
        };
        let lonely = if woken.len() == 1 { self.lonely_flushes.load(Relaxed) + 1 } else { 0 };
        self.lonely_flushes.store(lonely, Relaxed);
        for wake in woken {
            wake.wake();
        }
        Ok(())
    }
    /// LSN of the newest unflushed commit up to `csn`, if there is one.
    pub(crate) fn unflushed_commit(&self, csn: u64) -> Option<u64> {
        let insert = crate::lock(&self.insert);
        insert.commits.iter().rev().find(|(c, _)| *c <= csn).map(|(_, lsn)| *lsn)
    }
}
