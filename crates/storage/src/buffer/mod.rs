//! The buffer pool: pages at fixed virtual addresses, one state word each.
//!
//! Invariants
//! 1. State word: bits 0–1 state (evicted, unlocked, marked, latched), bit 2 dirty, bit 3 being written,
//!    bits 8–63 version. The version grows at every unlatch, so a reader that sees it unchanged has read
//!    one consistent state.
//! 2. A page is read from its file only by whoever moved it from evicted to latched.
//! 3. A dirty page goes to disk through the double-write area, after the log up to its LSN.
//! 4. A page being written is not evicted and not written by anybody else. Whoever is writing pages waits for the disk and
//!    the log alone, for no latch and no mutex of others: those may be waiting for the pages.
//! 5. A page may be read from its file without a latch, to be looked at once: what was seen is the page if its state word
//!    was that of an evicted page before, and is the same after the look.
//! 6. Memory: at most `capacity` pages are resident (plus a small slack while threads race). A page that is discarded
//!    gives its frame back at once: what has gone pushes nothing out.
//!
//! Must not know: what pages contain beyond the header.

mod dense;
pub mod doublewrite;
mod evict;
pub use evict::DirtyFilter;

use crate::accesses::{self, AccessKind};
use crate::page::{self, PAGE, PageBytes, PageView};
use crate::reserve::{LazyArray, ReservedMemory};
use crate::space::Space;
use crate::stats::{IoEvent, IoObject, Stats};
use crate::wal::Log;
use crate::wal::segment::failed;
use doublewrite::DoubleWrite;
use kilndb_base::env::File;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence};
use kilndb_base::sync::{Arc, Mutex, OnceLock};
use kilndb_base::{Error, Result};

const STATE: u64 = 3;
const EVICTED: u64 = 0;
const UNLOCKED: u64 = 1;
const MARKED: u64 = 2;
const LATCHED: u64 = 3;
const DIRTY: u64 = 4;
const WRITING: u64 = 8;
const VERSION_ONE: u64 = 1 << 8;
/// Frames beyond the capacity, for threads that race, and for a while in which dirty pages cannot be written.
const SLACK: usize = 256;
/// Of so many pages that a long pass finds missing, one takes the place of another (bimodal insertion, Qureshi et al.,
/// ISCA 2007).
const ONE_KEPT: u32 = 16;
/// The same of pages that passed before, though not so short a while ago that they would still be here.
const ONE_KEPT_LATER: u32 = 4;
/// Pages that a long pass finds in memory are counted so many at a time.
const VISITS_TOLD: u32 = 16;

/// A pass over all pages of a table, by its size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassSize {
    /// Not worth a thought.
    Small,
    /// Huge pages of memory are filled by it; all of it comes to stay at once.
    Medium,
    /// More than a quarter of the pool.
    Large,
}

/// Whether a page that was read is the one that belongs there.
pub(crate) enum PageVerdict {
    Right,
    /// The place was given to undo and not written since: the bytes are those of an earlier owner.
    Unreached,
    /// The page is not the right one; the text says why.
    Wrong(String),
}

type PageJudge = Box<dyn Fn(u32, &PageBytes) -> PageVerdict + Send + Sync>;

pub(crate) struct Pool {
    memory: ReservedMemory,
    states: LazyArray<AtomicU64>,
    /// Resident page per frame, 0 = none. The clock hand runs over it. Which page each frame holds (low half; 0: none)
    /// and how often the frame was taken (high half): the same page may come back to a frame while somebody is about to
    /// free it.
    frames: LazyArray<AtomicU64>,
    /// For each page the number of the frame that it took last.
    frame_of: LazyArray<AtomicU32>,
    /// For each page of a heap how many rows it has, if everybody sees all of them: the number plus one, with the page's
    /// version in the high 48 bits. It holds as long as the page has that version.
    settled: LazyArray<AtomicU64>,
    /// For each page the number of the visit at which it was last read past the pool; 0: never.
    passed_at: LazyArray<AtomicU32>,
    free_frames: Mutex<Vec<u32>>,
    capacity: usize,
    resident: AtomicUsize,
    /// How many pages have come into memory, and how many passes over large tables have looked at, from one on. It wraps
    /// around.
    visits: AtomicU32,
    hand: AtomicUsize,
    dense: dense::HugePageRanges,
    file: Arc<dyn File>,
    pub(crate) file_pages: AtomicU32,
    extend: Mutex<()>,
    /// None in a private pool, of which nothing must survive a crash.
    double_write: Option<DoubleWrite>,
    log: Arc<Log>,
    /// During recovery a page that does not sum up may be about to be formatted anew.
    pub(crate) lenient: AtomicBool,
    /// Whether a page that was read belongs there. None: a private pool, whose pages nobody else sees.
    judge: OnceLock<PageJudge>,
    pub(crate) stats: Arc<Stats>,
    /// The kind of object that reads and writes are counted for.
    object: IoObject,
}

/// A latch: exclusive access to a page while it lives.
pub(crate) struct WriteGuard<'a> {
    pool: &'a Pool,
    pub pid: u32,
    dirty: bool,
}

/// The memory of a pool.
#[derive(Clone, Copy)]
pub(crate) struct PoolMemory {
    /// The bytes of pages that are in memory at the same time.
    pub resident_bytes: u64,
    /// The bytes of address space to reserve, and how few of them are enough.
    pub most_bytes: usize,
    pub least_bytes: usize,
    /// The system is asked for huge pages.
    pub huge_pages: bool,
}

impl PoolMemory {
    /// The address space of a cluster's pages.
    pub fn of_cluster(resident_bytes: u64, huge_pages: bool) -> PoolMemory {
        PoolMemory { resident_bytes, most_bytes: 32 << 40, least_bytes: 64 << 30, huge_pages }
    }
}

impl Pool {
    /// Free pages side by side, for which the file of pages has room.
    pub(crate) fn take_pages(&self, space: &Mutex<Space>, pages: u32) -> Result<u32> {
        crate::lock(space).take(pages, &mut |start, pages| self.fill_hole(start, pages))
    }
    /// Makes a pool. Without a double-write area its pages are never recovered: they are written in place, and only to
    /// make room.
    pub fn new(
        file: Arc<dyn File>,
        double_write: Option<DoubleWrite>,
        log: Arc<Log>,
        memory: PoolMemory,
        stats: Arc<Stats>,
    ) -> Result<Pool> {
        let PoolMemory { resident_bytes, most_bytes: most, least_bytes: least, huge_pages } = memory;
        let capacity = (resident_bytes as usize / PAGE).max(64);
        let memory = ReservedMemory::at_most(most, least)?;
        let (memory_bytes, pages) = (memory.len(), memory.len() / PAGE);
        let frame_count = capacity + SLACK;
        let file_pages = (file.len()? / PAGE as u64) as u32;
        Ok(Pool {
            states: LazyArray::new(pages)?,
            memory,
            frames: LazyArray::new(frame_count)?,
            frame_of: LazyArray::new(pages)?,
            settled: LazyArray::new(pages)?,
            passed_at: LazyArray::new(pages)?,
            free_frames: Mutex::new((0..frame_count as u32).rev().collect()),
            capacity,
            resident: AtomicUsize::new(0),
            visits: AtomicU32::new(1),
            hand: AtomicUsize::new(0),
            dense: dense::HugePageRanges::new(memory_bytes, huge_pages)?,
            file,
            file_pages: AtomicU32::new(file_pages),
            extend: Mutex::new(()),
            object: if double_write.is_some() { IoObject::Relation } else { IoObject::TemporaryRelation },
            double_write,
            log,
            lenient: AtomicBool::new(false),
            judge: OnceLock::new(),
            stats,
        })
    }
    pub(crate) fn judge_with(&self, judge: PageJudge) {
        let _ = self.judge.set(judge);
    }
    pub(crate) fn page_limit(&self) -> u32 {
        self.states.count().min(u32::MAX as usize) as u32
    }
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    pub fn resident(&self) -> usize {
        self.resident.load(Relaxed)
    }
    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }
    #[inline]
    fn state(&self, pid: u32) -> &AtomicU64 {
        self.states.get(pid as usize)
    }
    #[inline]
    fn address(&self, pid: u32) -> *mut u8 {
        assert!((pid as usize) < self.states.count());
        // SAFETY: within the reserved range.
        unsafe { self.memory.ptr().add(pid as usize * PAGE) }
    }

    #[inline]
    fn count(&self, count: AccessKind, n: u64) {
        accesses::count_pages(count, self.object == IoObject::TemporaryRelation, n);
    }

    /// The addresses of a page's state and of itself, for [`crate::ahead`].
    pub fn whereabouts(&self, pid: u32) -> (usize, usize) {
        (std::ptr::from_ref(self.state(pid)) as usize, self.address(pid) as usize)
    }

    /// Optimistic read: `f` may run several times and on torn data; its last result was on a consistent page.
    #[inline]
    pub fn read<R>(&self, pid: u32, mut f: impl FnMut(PageView) -> R) -> Result<R> {
        self.count(AccessKind::Page, 1);
        let state = self.state(pid);
        let mut spins = 0u32;
        loop {
            let before = state.load(Acquire);
            match before & STATE {
                UNLOCKED | MARKED => {
                    // SAFETY: the address is the start of a page of the pool.
                    let result = f(unsafe { PageView::new(self.address(pid)) });
                    fence(Acquire);
                    let after = state.load(Relaxed);
                    if (after ^ before) >> 8 == 0 && after & STATE != LATCHED && after & STATE != EVICTED {
                        if before & STATE == MARKED {
                            let _ = state.compare_exchange(after, (after & !STATE) | UNLOCKED, Relaxed, Relaxed);
                        }
                        return Ok(result);
                    }
                }
                EVICTED => self.fault(pid)?,
                _ => backoff(&mut spins),
            }
        }
    }

    /// As [`Pool::read`], for a pass over all pages of a table. Most pages of a large one that are not in memory are read
    /// past it at first, so that they push nothing out and need no memory (docs/decisions/0067).
    pub(crate) fn read_passing<R>(&self, pid: u32, size: PassSize, mut f: impl FnMut(PageView) -> R) -> Result<R> {
        if size == PassSize::Small {
            return self.read(pid, f);
        }
        let before = self.state(pid).load(Acquire);
        if before & STATE == EVICTED && size == PassSize::Large && self.is_passed(pid) {
            let mut page: Box<PageBytes> = Box::new([0; PAGE]);
            let outcome = self.read_page(pid, &mut page).map(|()| f(PageView::of(&page)));
            // Whoever takes a page into memory changes its word, and its file is written only while it is there. The word is
            // looked at after `f`, which may ask what holds only for as long as the page is as it was: a row's undo is dropped
            // once the page names it no more.
            fence(Acquire);
            if self.state(pid).load(Relaxed) == before {
                self.count(AccessKind::Page, 1);
                return outcome;
            }
        }
        if before & STATE == EVICTED {
            self.expect_dense(pid);
        } else if size == PassSize::Large && pid.is_multiple_of(VISITS_TOLD) {
            // One by one, threads that scan together would have the counter from each other at each page.
            self.visits.fetch_add(VISITS_TOLD, Relaxed);
        }
        self.read(pid, f)
    }
    /// What a pass over so many pages means for the pool.
    pub(crate) fn pass_size(&self, pages: u32) -> PassSize {
        match pages as usize {
            pages if pages > self.capacity / 4 => PassSize::Large,
            pages if pages >= dense::PAGES => PassSize::Medium,
            _ => PassSize::Small,
        }
    }
    /// Does a page that is not in memory pass by? It comes to stay if it has passed a short while ago: had it stayed then, it
    /// would probably still be here. So does one of [`ONE_KEPT_LATER`] or [`ONE_KEPT`], for tables that do not fit into the
    /// pool, or not with others, and are read again and again; and what comes while there is little in memory.
    fn is_passed(&self, pid: u32) -> bool {
        if self.resident.load(Relaxed) < self.capacity / 4 || self.lenient.load(Relaxed) {
            return false;
        }
        let now = self.visits.load(Relaxed);
        let passed_at = self.passed_at.get(pid as usize);
        let last = passed_at.load(Relaxed);
        let visits_since = if last == 0 { usize::MAX } else { now.wrapping_sub(last) as usize };
        let one_of = match visits_since / self.capacity {
            0 => 1,
            1 => ONE_KEPT_LATER,
            _ => ONE_KEPT,
        };
        if now.is_multiple_of(one_of) {
            return false;
        }
        passed_at.store(now.max(1), Relaxed);
        self.visits.fetch_add(1, Relaxed);
        true
    }

    /// The version of a page that is in memory and not latched.
    #[inline]
    pub(crate) fn version(&self, pid: u32) -> Option<u64> {
        let now = self.state(pid).load(Acquire);
        matches!(now & STATE, UNLOCKED | MARKED).then_some(now >> 8)
    }
    /// The number that was noted of a page that has not been changed since, nor gone from memory.
    #[inline]
    pub(crate) fn settled_rows(&self, pid: u32) -> Option<u32> {
        let known = self.settled.get(pid as usize).load(Relaxed);
        let is_now = known != 0 && self.version(pid).is_some_and(|version| version << 16 == known & !0xffff);
        is_now.then(|| {
            self.count(AccessKind::Page, 1);
            (known as u32 & 0xffff) - 1
        })
    }
    /// Notes the number of a page's rows, all of which everybody sees, as they were at this version.
    #[inline]
    pub(crate) fn note_settled(&self, pid: u32, version: u64, rows: usize) {
        let (known, now) = (self.settled.get(pid as usize), version << 16 | (rows as u64 + 1));
        // The word is written only if it changes, because other processors read it.
        if rows < 0xffff && known.load(Relaxed) != now {
            known.store(now, Relaxed);
        }
    }

    /// As [`Pool::read`], but None where that would wait: for callers that have a page latched, which may be this one.
    pub fn try_read<R>(&self, pid: u32, f: impl Fn(PageView) -> R) -> Option<R> {
        self.count(AccessKind::Page, 1);
        let state = self.state(pid);
        for _ in 0..3 {
            let before = state.load(Acquire);
            match before & STATE {
                EVICTED => self.fault(pid).ok()?,
                LATCHED => return None,
                _ => {
                    // SAFETY: the address is the start of a page of the pool.
                    let result = f(unsafe { PageView::new(self.address(pid)) });
                    fence(Acquire);
                    let after = state.load(Relaxed);
                    if (after ^ before) >> 8 == 0 && after & STATE != LATCHED && after & STATE != EVICTED {
                        return Some(result);
                    }
                }
            }
        }
        None
    }

    /// Reads a page without validation, for hints: the bytes may be changing, and the access is not counted. None: the
    /// page is not resident.
    #[inline]
    pub fn peek<R>(&self, pid: u32, f: impl FnOnce(PageView) -> R) -> Option<R> {
        let is_resident = self.state(pid).load(Acquire) & STATE != EVICTED;
        // SAFETY: the address is the start of a page of the pool.
        is_resident.then(|| f(unsafe { PageView::new(self.address(pid)) }))
    }

    pub fn write(&self, pid: u32) -> Result<WriteGuard<'_>> {
        let mut spins = 0u32;
        loop {
            match self.try_latch(pid) {
                Some(guard) => return Ok(guard),
                None if self.state(pid).load(Relaxed) & STATE == EVICTED => self.fault(pid)?,
                None => backoff(&mut spins),
            }
        }
    }
    /// Latches the page if it is resident and not latched.
    pub(crate) fn try_latch(&self, pid: u32) -> Option<WriteGuard<'_>> {
        let state = self.state(pid);
        let now = state.load(Relaxed);
        if now & STATE != UNLOCKED && now & STATE != MARKED {
            return None;
        }
        state.compare_exchange(now, (now & !STATE) | LATCHED, Acquire, Relaxed).ok()?;
        fence(Release);
        self.count(AccessKind::Page, 1);
        Some(WriteGuard { pool: self, pid, dirty: false })
    }
    /// A page whose old contents do not matter: zeroed, latched, not read from disk.
    pub(crate) fn write_new(&self, pid: u32) -> Result<WriteGuard<'_>> {
        self.ensure_file(pid)?;
        let state = self.state(pid);
        if state.load(Relaxed) & STATE == EVICTED {
            self.expect_dense(pid);
        }
        let mut spins = 0u32;
        loop {
            if let Some(mut guard) = self.try_latch(pid) {
                guard.bytes().fill(0);
                return Ok(guard);
            }
            let now = state.load(Relaxed);
            if now & STATE == EVICTED {
                self.make_room()?;
                if state.compare_exchange(now, (now & !STATE) | LATCHED, Acquire, Relaxed).is_ok() {
                    self.take_frame(pid);
                    let mut guard = WriteGuard { pool: self, pid, dirty: false };
                    // A page that was discarded may have kept its memory, so it is cleared.
                    guard.bytes().fill(0);
                    return Ok(guard);
                }
            } else {
                backoff(&mut spins);
            }
        }
    }

    #[cold]
    fn fault(&self, pid: u32) -> Result<()> {
        self.make_room()?;
        let state = self.state(pid);
        let now = state.load(Relaxed);
        if now & STATE != EVICTED || state.compare_exchange(now, (now & !STATE) | LATCHED, Acquire, Relaxed).is_err() {
            return Ok(());
        }
        // SAFETY: latched by us and not resident: nobody else writes; optimistic readers will not validate.
        let bytes: &mut PageBytes = unsafe { &mut *self.address(pid).cast() };
        let outcome = self.read_page(pid, bytes);
        match outcome {
            Ok(()) => {
                self.take_frame(pid);
                self.release(pid, false);
                Ok(())
            }
            Err(e) => {
                self.memory.forget(pid as usize * PAGE, PAGE);
                let version = (state.load(Relaxed) >> 8) + 1;
                state.store(version << 8 | EVICTED, Release);
                Err(e)
            }
        }
    }
    /// Reads a page from the disk and checks that it is the one that belongs there; the error names the place.
    fn read_page(&self, pid: u32, bytes: &mut PageBytes) -> Result<()> {
        self.stats.count(self.object, IoEvent::Read, 1, PAGE as u64);
        self.count(AccessKind::Read, 1);
        let offset = u64::from(pid) * PAGE as u64;
        let name = if self.double_write.is_some() { "pages" } else { "temporary pages" };
        let got = self.file.read_at(bytes, offset).map_err(|e| failed("read", name, e))?;
        bytes[got..].fill(0);
        let is_intact = page::is_intact(bytes);
        if self.lenient.load(Relaxed) {
            if !is_intact {
                bytes.fill(0);
            }
            return Ok(());
        }
        if !is_intact {
            return Err(Error::corrupted(format!(
                "checksum of page {pid} is wrong (file \"{name}\", offset {offset})"
            )));
        }
        match self.judge.get().map_or(PageVerdict::Right, |judge| judge(pid, bytes)) {
            PageVerdict::Right => Ok(()),
            PageVerdict::Unreached => {
                bytes.fill(0);
                Ok(())
            }
            PageVerdict::Wrong(what) => Err(Error::corrupted(format!(
                "page {pid} is not the one that belongs there: {what} (file \"{name}\", offset {offset})"
            ))),
        }
    }
    fn release(&self, pid: u32, dirty: bool) {
        let state = self.state(pid);
        let mut now = state.load(Relaxed);
        assert!(now & STATE == LATCHED, "a page is unlatched by who has not latched it");
        loop {
            let mut next = ((now & !STATE) | UNLOCKED).wrapping_add(VERSION_ONE);
            if dirty {
                next |= DIRTY;
            }
            match state.compare_exchange_weak(now, next, Release, Relaxed) {
                Ok(_) => {
                    self.count(AccessKind::Dirtied, u64::from(dirty && now & DIRTY == 0));
                    return;
                }
                Err(seen) => now = seen,
            }
        }
    }
    fn take_frame(&self, pid: u32) {
        let mut spins = 0;
        loop {
            let frame = crate::lock(&self.free_frames).pop();
            if let Some(frame) = frame {
                let entry = self.frames.get(frame as usize);
                let taken = (entry.load(Relaxed) >> 32).wrapping_add(1);
                entry.store(taken << 32 | u64::from(pid), Release);
                self.frame_of.get(pid as usize).store(frame, Relaxed);
                self.enter_dense(pid);
                self.resident.fetch_add(1, Relaxed);
                self.visits.fetch_add(1, Relaxed);
                self.stats.buffers_alloc.fetch_add(1, Relaxed);
                return;
            }
            backoff(&mut spins);
        }
    }
    /// The data file covers the page; grown by steps, so that a full disk is an error here and not at a write, which
    /// may be for a rollback. A private pool has no file for as long as all pages fit into memory.
    fn ensure_file(&self, pid: u32) -> Result<()> {
        let fits = self.double_write.is_none() && (pid as usize) < self.capacity;
        if fits || pid < self.file_pages.load(Acquire) {
            return Ok(());
        }
        let _one = crate::lock(&self.extend);
        let have = self.file_pages.load(Acquire);
        if pid >= have {
            let step = (have / 8).clamp(256, 16384);
            let want = pid.saturating_add(1).max(have.saturating_add(step)).min(self.page_limit());
            let bytes = u64::from(want - have) * PAGE as u64;
            self.file.allocate(u64::from(have) * PAGE as u64, bytes)?;
            self.stats.count(self.object, IoEvent::Extend, u64::from(want - have), bytes);
            self.file_pages.store(want, Release);
        }
        Ok(())
    }
    /// Makes sure that the file has room for pages that may have been given back, so that a full disk is an error here
    /// too. Nothing is read of them before they are written.
    pub(crate) fn fill_hole(&self, start: u32, pages: u32) -> Result<()> {
        assert!(u64::from(start) + u64::from(pages) <= u64::from(self.page_limit()), "pages from {start} do not exist");
        let pages = pages.min(self.file_pages.load(Acquire).saturating_sub(start));
        if pages > 0 {
            self.file.allocate(u64::from(start) * PAGE as u64, u64::from(pages) * PAGE as u64)?;
        }
        Ok(())
    }
    /// Gives the room that the file has for these pages, which nobody uses, back to the file system; false: that cannot
    /// take it.
    pub(crate) fn make_hole(&self, start: u32, pages: u32) -> Result<bool> {
        assert!(start > 0 && pages > 0, "a hole of {pages} pages at page {start}");
        match self.file.punch_hole(u64::from(start) * PAGE as u64, u64::from(pages) * PAGE as u64) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::Unsupported => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
    /// The page's contents are of no more use: drops them without writing.
    pub fn discard(&self, pid: u32) {
        self.discard_page(pid, false);
    }
    /// Discards a page of a private pool that will soon be used again: its memory stays.
    pub(crate) fn discard_kept(&self, pid: u32) {
        self.discard_page(pid, self.double_write.is_none());
    }
    /// Discards a page whose place is kept for another that is written soon: its memory stays.
    pub(crate) fn discard_spare(&self, pid: u32) {
        self.discard_page(pid, true);
    }
    /// Is it the pool that all sessions share, and not one of a session's own?
    pub(crate) fn is_shared(&self) -> bool {
        self.double_write.is_some()
    }
    fn discard_page(&self, pid: u32, keep: bool) {
        let state = self.state(pid);
        let mut spins = 0;
        loop {
            let now = state.load(Relaxed);
            match now & STATE {
                EVICTED => return,
                LATCHED => backoff(&mut spins),
                _ if now & WRITING != 0 => backoff(&mut spins),
                _ => {
                    if state.compare_exchange(now, (now & !STATE) | LATCHED, Acquire, Relaxed).is_ok() {
                        return self.drop_latched(pid, keep);
                    }
                }
            }
        }
    }
    /// Latched by the caller. `keep`: its memory stays.
    fn drop_latched(&self, pid: u32, keep: bool) {
        assert!(self.state(pid).load(Relaxed) & STATE == LATCHED, "page {pid} is dropped by who has not latched it");
        if !keep && !self.is_kept_dense(pid) {
            self.memory.forget(pid as usize * PAGE, PAGE);
        }
        let index = self.frame_of.get(pid as usize).load(Relaxed) as usize;
        let entry = self.frames.get(index).load(Acquire);
        self.set_evicted(pid);
        // From here on the page may be read again, into another frame: `entry` tells which of its times in a frame this
        // was.
        if entry as u32 == pid {
            self.free_frame(index, entry);
        }
    }
    fn set_evicted(&self, pid: u32) {
        let state = self.state(pid);
        let version = (state.load(Relaxed) >> 8) + 1;
        state.store(version << 8 | EVICTED, Release);
    }
}

#[inline]
pub(crate) fn backoff(spins: &mut u32) {
    *spins += 1;
    if *spins < 64 {
        kilndb_base::sync::spin_loop();
    } else {
        kilndb_base::sync::yield_now();
    }
}

impl WriteGuard<'_> {
    #[inline]
    pub fn bytes(&mut self) -> &mut PageBytes {
        // SAFETY: the latch is ours, so we are the only writer; optimistic readers validate.
        unsafe { &mut *self.pool.address(self.pid).cast() }
    }
    #[inline]
    pub fn page(&self) -> &PageBytes {
        // SAFETY: as in `bytes`.
        unsafe { &*self.pool.address(self.pid).cast() }
    }
    pub fn view(&self) -> PageView {
        PageView::of(self.page())
    }
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
    #[inline]
    pub(crate) fn mark_dirty(&mut self) {
        self.dirty = true;
    }
}
impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.pool.release(self.pid, self.dirty);
    }
}
