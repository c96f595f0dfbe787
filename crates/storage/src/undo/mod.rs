//! Undo space: chunks of 8 pages, mapped from never-reused addresses; one stream per worker and kind.
//!
//! Invariants
//! 1. Address = chunk number × 64 kB + offset in the chunk; a record does not cross a page.
//! 2. A chunk goes when no unfinished transaction (purge included) has a record in it and every snapshot
//!    sees every transaction that has (`max_csn`). Aborts get a CSN too, for this rule.
//! 3. A version whose record was in a chunk that is gone is visible to all.
//! 4. Logged and unlogged changes never share a chunk.
//! 5. After a crash no chunk number is given again that a page may mention: such numbers are below what the last
//!    checkpoint has promised, or are in the log before a page mentions them.
//!
//! Must not know: what rows look like.

pub mod compact;
pub(crate) mod entries;
pub mod many;
pub mod record;
#[cfg(test)]
mod tests;

use crate::buffer::{Pool, WriteGuard};
use crate::page::{self, HEADER, PAGE};
use crate::reserve::LazyArray;
use crate::space::Space;
use crate::wal::Log;
use crate::wal::record::{Record, encode};
use kilndb_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use kilndb_base::sync::{Mutex, MutexGuard};
use kilndb_base::{Error, Result, sqlstate};
use record::{CHUNK, CHUNK_PAGES, FIXED, UndoKind, UndoRecord};

/// A crash skips this share of the numbers: with these, changes that are not logged take chunks without a word in the
/// log.
const AHEAD_SHARE: usize = 16;
/// So many chunks that have gone keep their memory for those to come: giving it back to the system and asking for it
/// anew costs as much as writing the records that are put there.
const SPARE_CHUNKS: usize = 16;
/// How many sweeps find a stream unchanged before its chunk is closed: about a second.
const IDLE_SWEEPS: u32 = 256;
const WORDS: usize = 5;
const NUMBER: usize = 0;
const PLACE: usize = 1;
const REFS: usize = 2;
const MAX_CSN: usize = 3;
const MIN_XID: usize = 4;
const LOGGED: u64 = 1 << 32;

#[derive(Default)]
pub(crate) struct UndoStream {
    chunk: u64,
    page: u32,
    /// Next free offset in the chunk; 0: no chunk yet.
    offset: u64,
    /// The offset that the sweep found last, and how often it has found it.
    seen: (u64, u32),
}

pub struct Undo {
    /// A power of two: chunks this far apart share their place, so no two such are live at a time.
    cap: usize,
    /// A stream goes on in another chunk after so many bytes of one; at most [`CHUNK`].
    chunk_bytes: u64,
    table: LazyArray<AtomicU64>,
    streams: Vec<[Mutex<UndoStream>; 2]>,
    pub next_chunk: AtomicU64,
    /// Numbers below this one are not given again after a crash, whether the log mentions them or not.
    promised: AtomicU64,
    /// A lower bound of the numbers of live chunks.
    oldest: AtomicU64,
    /// Versions with addresses below this are visible to all.
    horizon: AtomicU64,
    /// The CSN that the last sweep used.
    sweep: Mutex<u64>,
    /// Since that sweep a chunk has lost its last holder, or has gone: the next one finds something at the same CSN.
    /// Transactions are purged when no snapshot is left, and if none can get an id there is no later CSN to wait for.
    is_sweep_due: AtomicBool,
    /// Chunks of what is not logged are being copied, and none of them goes until that is done.
    keep_unlogged: AtomicBool,
    allocation: Mutex<()>,
    chunks: AtomicUsize,
    /// The first pages of chunks that have gone and have kept their pages, with their memory.
    spare: Mutex<Vec<u32>>,
}

/// The fixed part of a record, as it is to each of its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHead {
    pub kind: UndoKind,
    pub mode: u8,
    pub command: u32,
    pub xid: u64,
    pub old_word: u64,
}

/// The room that is reserved for one record, with its page latched.
pub(crate) struct ReservedRecord<'a> {
    pub address: u64,
    page: WriteGuard<'a>,
    _stream: MutexGuard<'a, UndoStream>,
}
impl ReservedRecord<'_> {
    pub fn write(mut self, record: &UndoRecord, lsn: u64) {
        let at = (self.address % PAGE as u64) as usize;
        debug_assert!(at >= HEADER && at + record.len() <= PAGE, "undo record {:#x} crosses its page", self.address);
        debug_assert!(record.prev != self.address, "undo record {:#x} is its own predecessor", self.address);
        let bytes = self.page.bytes();
        record.write(&mut bytes[at..]);
        if lsn != 0 {
            debug_assert!(page::lsn(bytes) <= lsn, "the log goes backwards on an undo page");
            page::set_lsn(bytes, lsn);
        }
        self.page.mark_dirty();
    }
}

#[cold]
fn no_chunk() -> Error {
    Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "the space for earlier versions of rows is used up").with_hint(
        "A transaction that began very long ago is still open. Its end, or that of its session, frees space.",
    )
}

impl Undo {
    pub fn new(workers: usize, next_chunk: u64, cap: usize, chunk_bytes: u64) -> Result<Undo> {
        Ok(Undo {
            cap,
            chunk_bytes: chunk_bytes.min(CHUNK - HEADER as u64),
            table: LazyArray::new(cap * WORDS)?,
            streams: (0..workers).map(|_| Default::default()).collect(),
            next_chunk: AtomicU64::new(next_chunk),
            promised: AtomicU64::new(0),
            oldest: AtomicU64::new(next_chunk),
            horizon: AtomicU64::new(next_chunk * CHUNK),
            sweep: Mutex::new(0),
            is_sweep_due: AtomicBool::new(false),
            keep_unlogged: AtomicBool::new(false),
            allocation: Mutex::new(()),
            chunks: AtomicUsize::new(0),
            spare: Mutex::default(),
        })
    }
    #[inline]
    fn word(&self, chunk: u64, which: usize) -> &AtomicU64 {
        self.table.get((chunk as usize & (self.cap - 1)) * WORDS + which)
    }
    #[inline]
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon.load(Acquire)
    }
    /// The first page of a live chunk.
    #[inline]
    fn page_of(&self, chunk: u64) -> Option<u32> {
        let place = self.word(chunk, PLACE).load(Acquire);
        (self.word(chunk, NUMBER).load(Acquire) == chunk).then_some(place as u32)
    }
    /// First page of the live chunk with this low half of its number: live ones are less than 2^32 apart.
    pub(crate) fn page_of_low(&self, low: u32) -> Option<u32> {
        let next = self.next_chunk.load(Acquire);
        let number = next & !u64::from(u32::MAX) | u64::from(low);
        let number = if number < next { number } else { number.checked_sub(1 << 32)? };
        self.page_of(number)
    }
    pub fn is_live(&self, chunk: u64) -> bool {
        self.page_of(chunk).is_some()
    }
    pub fn is_gone(&self, address: u64) -> bool {
        address < self.horizon() || self.page_of(address / CHUNK).is_none()
    }
    /// Makes a chunk known in recovery; its number may be from before the crash.
    pub fn register(&self, chunk: u64, page: u32, logged: bool) {
        if chunk < self.oldest.load(Relaxed) {
            self.set_oldest(chunk);
        }
        self.put(chunk, page, logged, 0);
    }
    /// Gives a stream the next chunk, which it holds. Nobody sees a number below `next_chunk` that is not registered:
    /// it would be taken for one that is gone, and what its records say for known to all.
    /// Err: the chunk would come too close to the place of one that is still needed.
    fn allocate(&self, pool: &Pool, space: &Mutex<Space>, logged: bool) -> Result<(u64, u32)> {
        let _one = crate::lock(&self.allocation);
        let number = self.next_chunk.load(Relaxed);
        // After a crash numbers go on further up, where they must not meet those from before either.
        let most = self.cap as u64 - self.ahead();
        if number - self.oldest.load(Acquire) >= most && number - self.find_oldest() >= most {
            return Err(no_chunk());
        }
        let spare = crate::lock(&self.spare).pop();
        let page = spare.map_or_else(|| pool.take_pages(space, CHUNK_PAGES), Ok)?;
        assert!(number != 0 && page != 0, "undo chunk {number} at page {page}");
        self.put(number, page, logged, 1);
        Ok((number, page))
    }
    fn ahead(&self) -> u64 {
        (self.cap / AHEAD_SHARE) as u64
    }
    fn find_oldest(&self) -> u64 {
        let next = self.next_chunk.load(Acquire);
        (self.oldest.load(Acquire)..next).find(|n| self.page_of(*n).is_some()).unwrap_or(next)
    }
    fn put(&self, chunk: u64, page: u32, logged: bool, holders: u64) {
        self.word(chunk, REFS).store(holders, Relaxed);
        self.word(chunk, MAX_CSN).store(0, Relaxed);
        self.word(chunk, MIN_XID).store(u64::MAX, Relaxed);
        self.word(chunk, PLACE).store(u64::from(page) | if logged { LOGGED } else { 0 }, Release);
        if self.word(chunk, NUMBER).swap(chunk, Release) != chunk {
            self.chunks.fetch_add(1, Relaxed);
        }
        self.next_chunk.fetch_max(chunk + 1, SeqCst);
    }
    /// Notes at a start that no chunk below `number` is live.
    pub(crate) fn set_oldest(&self, number: u64) {
        self.oldest.store(number, Relaxed);
        self.horizon.store(number * CHUNK, Relaxed);
    }
    pub fn forget(&self, chunk: u64) {
        if self.word(chunk, NUMBER).swap(0, Release) == chunk {
            self.chunks.fetch_sub(1, Relaxed);
        }
    }
    /// Notes in recovery that a chunk is gone, and its number must not be given again.
    pub(crate) fn was_used(&self, chunk: u64) {
        self.forget(chunk);
        self.next_chunk.fetch_max(chunk + 1, Relaxed);
    }
    /// The number that a crash after this checkpoint would go on with: beyond what is given out until the next one.
    pub(crate) fn number_after_crash(&self) -> u64 {
        self.next_chunk.load(SeqCst) + self.ahead()
    }
    /// Notes that a durable checkpoint promises that chunk numbers below `below` are not given again.
    pub fn promise(&self, below: u64) {
        self.promised.fetch_max(below, Release);
    }
    /// How many chunks are live.
    pub fn count(&self) -> usize {
        self.chunks.load(Relaxed)
    }
    /// Of the live chunks that no transaction holds, the newest CSN in each, in ascending order: it goes once every snapshot sees that
    /// one.
    pub(crate) fn unheld_csns(&self) -> Vec<u64> {
        let unheld = self.live().into_iter().filter(|(number, _, _)| self.unheld(*number));
        let mut csns: Vec<u64> = unheld.map(|(number, _, _)| self.word(number, MAX_CSN).load(Relaxed)).collect();
        csns.sort_unstable();
        csns
    }
    /// Is the chunk neither written to by a stream nor held by a transaction?
    pub(crate) fn unheld(&self, chunk: u64) -> bool {
        self.page_of(chunk).is_some() && self.word(chunk, REFS).load(Acquire) == 0
    }
    /// The live chunks: number, first page, whether it is logged.
    pub fn live(&self) -> Vec<(u64, u32, bool)> {
        (self.oldest.load(Acquire)..self.next_chunk.load(Acquire))
            .filter_map(|n| {
                let place = self.word(n, PLACE).load(Acquire);
                self.page_of(n).map(|page| (n, page, place & LOGGED != 0))
            })
            .collect()
    }
    pub fn reserve<'a>(
        &'a self,
        pool: &'a Pool,
        space: &Mutex<Space>,
        log: &Log,
        worker: usize,
        logged: bool,
        len: usize,
    ) -> Result<ReservedRecord<'a>> {
        if len > PAGE - HEADER {
            return Err(Error::internal("undo record is longer than a page"));
        }
        let pair = &self.streams[worker % self.streams.len()];
        let mut stream = crate::lock(&pair[usize::from(!logged)]);
        let in_page = stream.offset % PAGE as u64;
        if stream.offset != 0 && in_page != 0 && in_page + len as u64 > PAGE as u64 {
            stream.offset = stream.offset.next_multiple_of(PAGE as u64);
        }
        if stream.offset == 0 || stream.offset >= self.chunk_bytes {
            let (number, first) = self.allocate(pool, space, logged)?;
            if stream.chunk != 0 {
                self.drop_holder(stream.chunk);
            }
            if logged {
                log.append(&encode(&Record::Chunk { number, page: first }));
            } else if number >= self.promised.load(Acquire) {
                log.append(&encode(&Record::ChunkGone { number }));
            }
            *stream = UndoStream { chunk: number, page: first, offset: 0, seen: (0, 0) };
        }
        let index = (stream.offset / PAGE as u64) as u32;
        let pid = stream.page + index;
        let page = if stream.offset.is_multiple_of(PAGE as u64) {
            let mut page = pool.write_new(pid)?;
            let flags = if logged { 0 } else { page::FLAG_UNLOGGED };
            page::format(page.bytes(), page::KIND_UNDO, flags, 0, stream.chunk as u32, index);
            page::set_lsn(page.bytes(), log.insert_lsn());
            page.mark_dirty();
            stream.offset += HEADER as u64;
            page
        } else {
            pool.write(pid)?
        };
        debug_assert!(stream.chunk != 0 && stream.offset + len as u64 <= CHUNK, "an undo record beyond its chunk");
        let address = stream.chunk * CHUNK + stream.offset;
        stream.offset += len as u64;
        Ok(ReservedRecord { address, page, _stream: stream })
    }
    /// A transaction has (one more) record in the chunk: holds it until [`Undo::release`].
    pub fn hold(&self, chunk: u64, xid: u64) {
        self.word(chunk, REFS).fetch_add(1, Relaxed);
        self.word(chunk, MIN_XID).fetch_min(xid, Relaxed);
    }
    pub fn release(&self, chunk: u64, csn: u64) {
        self.word(chunk, MAX_CSN).fetch_max(csn, Relaxed);
        self.drop_holder(chunk);
    }
    fn drop_holder(&self, chunk: u64) {
        let holders = self.word(chunk, REFS).fetch_sub(1, Release);
        assert!(holders > 0, "an undo chunk is let go of by who does not hold it");
        if holders == 1 {
            self.is_sweep_due.store(true, Release);
        }
    }
    fn copy<R>(&self, pool: &Pool, address: u64, mut f: impl FnMut(&[u8]) -> Option<R>) -> Result<Option<R>> {
        let Some(first) = self.page_of(address / CHUNK) else { return Ok(None) };
        let pid = first + (address % CHUNK / PAGE as u64) as u32;
        let at = (address % PAGE as u64) as usize;
        let got = pool.read(pid, |v| {
            let len = v.u16(at);
            v.bytes(at, len).and_then(&mut f)
        })?;
        // The chunk may have gone meanwhile, and the page may be another's.
        if self.page_of(address / CHUNK) != Some(first) {
            return Ok(None);
        }
        got.map(Some).ok_or_else(|| {
            let offset = u64::from(pid) * PAGE as u64;
            Error::corrupted(format!("undo record {address:#x} is not readable (file \"pages\", offset {offset})"))
        })
    }
    /// Reads a record; None: its chunk is gone.
    #[inline]
    pub fn head(&self, pool: &Pool, address: u64) -> Result<Option<RecordHead>> {
        if address < self.horizon() {
            return Ok(None);
        }
        self.copy(pool, address, |b| {
            let b: &[u8; FIXED] = b.first_chunk()?;
            Some(RecordHead {
                kind: UndoKind::from_u8(b[2])?.of_row(),
                mode: b[3],
                command: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
                xid: page::get64(b, 8),
                old_word: page::get64(b, 24),
            })
        })
    }
    pub fn read(&self, pool: &Pool, address: u64) -> Result<Option<UndoRecord>> {
        self.copy(pool, address, UndoRecord::parse)
    }
    /// Reads a record as it applies to one of its rows.
    pub(crate) fn read_row(&self, pool: &Pool, address: u64, slot: usize) -> Result<Option<UndoRecord>> {
        self.copy(pool, address, |b| UndoRecord::parse_row(b, slot))
    }
    /// Is the record about several rows?
    pub(crate) fn is_of_many(&self, pool: &Pool, address: u64) -> Result<bool> {
        let kind = self.copy(pool, address, |b| UndoKind::from_u8(*b.get(2)?))?;
        Ok(matches!(kind, Some(UndoKind::UpdateMany | UndoKind::DeleteMany)))
    }
    /// Discards chunks that nobody needs: all transactions in them ended at or before `csn`.
    pub fn discard(&self, pool: &Pool, space: &Mutex<Space>, log: &Log, csn: u64) -> usize {
        self.close_idle_streams();
        let mut last = crate::lock(&self.sweep);
        let is_due = self.is_sweep_due.swap(false, AcqRel);
        if !is_due && *last == csn && csn != u64::MAX {
            return 0;
        }
        *last = csn;
        let next = self.next_chunk.load(Acquire);
        let mut oldest = next;
        let mut gone = 0;
        for number in self.oldest.load(Relaxed)..next {
            let Some(page) = self.page_of(number) else { continue };
            if self.is_kept(number)
                || self.word(number, REFS).load(Acquire) != 0
                || self.word(number, MAX_CSN).load(Relaxed) > csn
            {
                oldest = oldest.min(number);
                continue;
            }
            self.drop_chunk(pool, space, log, number, page);
            gone += 1;
        }
        self.oldest.store(oldest, Release);
        self.horizon.fetch_max(oldest * CHUNK, Release);
        gone
    }
    fn is_kept(&self, number: u64) -> bool {
        self.keep_unlogged.load(Acquire) && self.word(number, PLACE).load(Relaxed) & LOGGED == 0
    }
    /// While it is on, no chunk of what is not logged goes.
    pub(crate) fn keep_unlogged(&self, on: bool) {
        let mut last = crate::lock(&self.sweep);
        self.keep_unlogged.store(on, Release);
        *last = 0;
    }
    pub(crate) fn first_page(&self, chunk: u64) -> Option<u32> {
        self.page_of(chunk)
    }
    /// The chunk's space is free again, or kept for the next one. The caller knows that nobody needs its records.
    fn drop_chunk(&self, pool: &Pool, space: &Mutex<Space>, log: &Log, number: u64, page: u32) {
        let logged = self.word(number, PLACE).load(Relaxed) & LOGGED != 0;
        self.forget(number);
        if logged {
            log.append(&encode(&Record::ChunkGone { number }));
        }
        let pages = page..page + CHUNK_PAGES;
        // Nobody else adds spare chunks meanwhile, since `sweep` is held. `spare` is not: a page may have to be waited for
        // while it is written, and those who take a spare chunk have a page latched.
        let has_room = crate::lock(&self.spare).len() < SPARE_CHUNKS;
        if has_room && pool.is_shared() {
            pages.for_each(|pid| pool.discard_spare(pid));
            return crate::lock(&self.spare).push(page);
        }
        pages.for_each(|pid| pool.discard(pid));
        crate::lock(space).give(page, CHUNK_PAGES);
    }
    /// A chunk that no chain leads into goes, whatever snapshots there are.
    fn let_go(&self, pool: &Pool, space: &Mutex<Space>, log: &Log, number: u64) {
        let _sweep = crate::lock(&self.sweep);
        if let Some(page) = self.page_of(number).filter(|_| !self.is_kept(number)) {
            self.drop_chunk(pool, space, log, number, page);
            self.is_sweep_due.store(true, Release);
        }
    }
    /// Streams let go of their chunks (before a clean shutdown).
    pub(crate) fn close_streams(&self) {
        self.streams.iter().flatten().for_each(|stream| self.close(&mut crate::lock(stream)));
    }
    fn close(&self, stream: &mut UndoStream) {
        if stream.chunk != 0 {
            self.drop_holder(stream.chunk);
        }
        *stream = UndoStream::default();
    }
    /// Streams that nobody has written to for a while let go of their chunks: the horizon cannot pass them, and above
    /// it the version of every row is looked up.
    fn close_idle_streams(&self) {
        for stream in self.streams.iter().flatten() {
            // A stream that is locked is being written to.
            let Ok(mut stream) = stream.try_lock() else { continue };
            if stream.chunk == 0 || stream.seen.0 != stream.offset {
                stream.seen = (stream.offset, 0);
                continue;
            }
            stream.seen.1 += 1;
            if stream.seen.1 >= IDLE_SWEEPS {
                self.close(&mut stream);
            }
        }
    }
    /// Smallest transaction id that a live chunk may mention.
    pub(crate) fn oldest_xid(&self) -> u64 {
        self.live().iter().map(|(n, _, _)| self.word(*n, MIN_XID).load(Relaxed)).min().unwrap_or(u64::MAX)
    }
    /// Recovery: writes a record where the log says it was.
    /// False: the page is not that chunk's. It was never written if the chunk was dropped while the checkpoint ran.
    pub fn redo(&self, pool: &Pool, address: u64, record: &UndoRecord, lsn: u64) -> Result<bool> {
        let chunk = address / CHUNK;
        let Some(first) = self.page_of(chunk) else { return Ok(true) };
        let index = (address % CHUNK / PAGE as u64) as u32;
        let at = (address % PAGE as u64) as usize;
        let mut page = pool.write(first + index)?;
        if page::lsn(page.page()) >= lsn && page.page()[page::at::KIND] != 0 {
            page.mark_dirty();
            // The page may belong to another owner by now, if the chunk goes later in the log.
            return Ok(page.view().is(page::KIND_UNDO, chunk as u32, index));
        }
        if at == HEADER {
            page::format(page.bytes(), page::KIND_UNDO, 0, 0, chunk as u32, index);
        }
        if page::lsn(page.page()) >= lsn {
            return Ok(true);
        }
        if !page.view().is(page::KIND_UNDO, chunk as u32, index) || at + record.len() > PAGE {
            return Ok(false);
        }
        record.write(&mut page.bytes()[at..]);
        page::set_lsn(page.bytes(), lsn);
        page.mark_dirty();
        Ok(true)
    }
}
