//! The double-write area: a ring of page copies, each with a header, so that a torn page can be put right.
//!
//! Invariants
//! 1. A batch is durable here before any of its pages is written in place.
//! 2. Sequence numbers never go back, not even over restarts.
//! 3. A failed write may be tried again (the slots and the pages are written once more); a failed sync may not.
//! 4. A slot is reused only after the data file was synced since its page went in place. A page whose place could not
//!    be written, and may be torn, is written there before any slot is reused.
//!
//! 5. All copies of one pass of the ring are there until the next pass begins, and the data file is synced in between.
//!    The pass line says, durably and before a slot is written over, with which sequence number the pass began. So the
//!    newest copy of a page, if it is not older than that, is the page as it was written last; any other copy is
//!    useless.
//! 6. Each copy names the first slot of its batch: those before it were durable when the batch was written. One of them
//!    that is not valid has rotted, and may have been the last copy of any page: an older copy of a page is not put in
//!    the place of a torn one then, which stays torn, so that whoever reads it is told. Nor does an older copy ever take
//!    the place of a page that is intact and newer. (A copy of the last batch that has rotted looks like one that was
//!    torn when the process died, before its page went in place.)
//! 7. A start writes the last batch here once more, and syncs it, before it puts any page right: the process may have
//!    ended before that batch was synced, or because the sync failed, while the machine stayed up. The start reads
//!    copies then that the disk does not have.
//!
//! Must not know: which pages are written and why.
//!
//! Format: slot i at offset i × 8,224: magic u32, page u32, sequence u64, crc u32 of header and page, the first slot of
//! its batch plus one u32 (0: an older program does not tell), 8 zero bytes, then the page as it goes to its place.
//! Behind the slots the pass line: magic u64, sequence u64, crc u32 of both.

use crate::crc::crc32c;
use crate::page::{self, PAGE, PageBytes};
use crate::stats::{IoEvent, IoObject, Stats};
use crate::wal::Log;
use crate::wal::segment::failed;
use kilndb_base::Result;
use kilndb_base::bytes::ByteReader;
use kilndb_base::env::File;
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::{Arc, Mutex};
use std::collections::BTreeMap;

pub const SLOTS: usize = 2048;
pub const SLOT_BYTES: usize = PAGE + 32;
const MAGIC: u32 = 0x4457_4b31;
const PASS_MAGIC: u64 = u64::from_le_bytes(*b"KilnPas1");
const PASS_OFFSET: u64 = (SLOTS * SLOT_BYTES) as u64;
/// The pass line's sector.
const PASS_BYTES: usize = 512;
/// The size of the whole area on disk.
pub(crate) const AREA_BYTES: u64 = PASS_OFFSET + PASS_BYTES as u64;

/// Which copies of the area are valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AreaPass {
    /// There is no pass line: the area was written by an older version, or never.
    Unknown,
    /// The pass line went bad: no copy is known to be the last.
    Damaged,
    Since(u64),
}

/// A copy of a page as a start finds it.
struct PageCopy {
    slot: usize,
    sequence: u64,
    bytes: Box<PageBytes>,
}

/// What a slot's header says, if header and page are as they were written.
struct SlotHeader {
    pid: u32,
    sequence: u64,
    /// The slots before this one were durable when this one was written.
    batch_start: usize,
}

impl SlotHeader {
    fn of(slot: &mut [u8]) -> Option<SlotHeader> {
        let mut r = ByteReader::new(slot);
        let (magic, pid, sequence, crc, batch) = (r.u32()?, r.u32()?, r.u64()?, r.u32()?, r.u32()?);
        slot[16..20].fill(0);
        let is_valid = magic == MAGIC && crc32c(slot) == crc;
        is_valid.then_some(SlotHeader { pid, sequence, batch_start: batch.saturating_sub(1) as usize })
    }
}

/// The area as a start finds it.
pub(crate) struct DoubleWriteArea {
    /// The newest copy of every page.
    copies: HashMap<u32, PageCopy>,
    pass: AreaPass,
    /// The last slot of the pass whose copy has rotted.
    last_rotten: Option<usize>,
    /// The slots with copies that may not have been synced.
    last_batch: Vec<usize>,
}

/// A page that the area has a copy of.
pub(crate) struct LastCopy<'a> {
    pub pid: u32,
    pub bytes: &'a PageBytes,
    /// The page was written so last, as far as the area knows; false: an older program does not tell.
    pub is_last: bool,
    /// A newer copy may have rotted.
    pub is_doubtful: bool,
}

impl DoubleWriteArea {
    pub fn read(file: &dyn File) -> Result<DoubleWriteArea> {
        let fail = |e| failed("read", "doublewrite", e);
        let mut copies: HashMap<u32, PageCopy> = HashMap::new();
        let mut headers = Vec::with_capacity(SLOTS);
        let mut slot = vec![0u8; SLOT_BYTES];
        for i in 0..SLOTS {
            if file.read_at(&mut slot, (i * SLOT_BYTES) as u64).map_err(fail)? < SLOT_BYTES {
                break;
            }
            let header = SlotHeader::of(&mut slot);
            if let Some(SlotHeader { pid, sequence, .. }) = header
                && copies.get(&pid).is_none_or(|have| have.sequence < sequence)
            {
                let mut bytes = Box::new([0u8; PAGE]);
                bytes.copy_from_slice(&slot[32..]);
                copies.insert(pid, PageCopy { slot: i, sequence, bytes });
            }
            headers.push(header);
        }
        let mut line = [0u8; 20];
        file.read_at(&mut line, PASS_OFFSET).map_err(fail)?;
        let pass = read_pass(&line);
        let last_rotten = match pass {
            AreaPass::Since(first) => last_rotten(&headers, first),
            AreaPass::Unknown | AreaPass::Damaged => None,
        };
        let last_batch = match pass {
            AreaPass::Since(first) => last_batch(&headers, first),
            AreaPass::Unknown => last_batch(&headers, 0),
            AreaPass::Damaged => Vec::new(),
        };
        Ok(DoubleWriteArea { copies, pass, last_rotten, last_batch })
    }
    /// Makes durable what may not be (invariant 7). Another sync alone would not do after one that has failed, so the
    /// slots are written again.
    pub(crate) fn harden(&self, file: &dyn File) -> Result<()> {
        let mut slot = vec![0u8; SLOT_BYTES];
        for index in &self.last_batch {
            let offset = (index * SLOT_BYTES) as u64;
            let got = file.read_at(&mut slot, offset).map_err(|e| failed("read", "doublewrite", e))?;
            file.write_at(&slot[..got], offset).map_err(|e| failed("write to", "doublewrite", e))?;
        }
        if self.last_batch.is_empty() {
            return Ok(());
        }
        file.sync_data().map_err(|e| failed("fsync", "doublewrite", e))
    }
    pub(crate) fn has_copies(&self) -> bool {
        !self.copies.is_empty()
    }
    pub fn is_damaged(&self) -> bool {
        self.pass == AreaPass::Damaged
    }
    /// A slot whose copy has rotted, if there is one.
    pub fn rotten_slot(&self) -> Option<usize> {
        self.last_rotten
    }
    /// Pages as they were written last, or maybe.
    pub(crate) fn last_written(&self) -> impl Iterator<Item = LastCopy<'_>> {
        self.copies.iter().filter_map(|(pid, copy)| {
            let is_last = match self.pass {
                AreaPass::Unknown => false,
                AreaPass::Since(first) if copy.sequence >= first || planted::is(PlantedBug::StaleCopyRepairs) => true,
                AreaPass::Since(_) | AreaPass::Damaged => return None,
            };
            let is_doubtful = self.last_rotten.is_some_and(|rotten| rotten > copy.slot);
            Some(LastCopy { pid: *pid, bytes: &copy.bytes, is_last, is_doubtful })
        })
    }
    /// The log was durable up to here: it goes before any page.
    pub(crate) fn newest_lsn(&self) -> u64 {
        self.copies.values().map(|copy| page::lsn(&copy.bytes)).max().unwrap_or(0)
    }
    fn next_sequence(&self) -> u64 {
        let newest = self.copies.values().map(|copy| copy.sequence).max().unwrap_or(0);
        match self.pass {
            AreaPass::Since(first) => newest.max(first) + 1,
            _ => newest + 1,
        }
    }
}
/// The slots with the copies of the last batch of the pass that began with the sequence number `first`, and what an
/// earlier batch that could not be synced has left behind those.
fn last_batch(headers: &[Option<SlotHeader>], first: u64) -> Vec<usize> {
    let of_pass = |(slot, header): (usize, &Option<SlotHeader>)| {
        header.as_ref().filter(|header| header.sequence >= first).map(|header| (slot, header.batch_start))
    };
    let valid = || headers.iter().enumerate().filter_map(of_pass);
    let start = valid().map(|(_, batch_start)| batch_start).max().unwrap_or(0);
    valid().map(|(slot, _)| slot).filter(|slot| *slot >= start).collect()
}
/// The last slot that was durable in the pass that began with the sequence number `first`, and is not valid.
fn last_rotten(headers: &[Option<SlotHeader>], first: u64) -> Option<usize> {
    let of_pass = |header: &&SlotHeader| header.sequence >= first;
    let durable = headers.iter().flatten().filter(of_pass).map(|header| header.batch_start).max().unwrap_or(0);
    let is_valid = |header: &Option<SlotHeader>| header.as_ref().filter(of_pass).is_some();
    headers.iter().take(durable).rposition(|header| !is_valid(header))
}
fn read_pass(line: &[u8; 20]) -> AreaPass {
    if line.iter().all(|b| *b == 0) {
        return AreaPass::Unknown;
    }
    let mut r = ByteReader::new(line);
    match (r.u64(), r.u64(), r.u32()) {
        (Some(PASS_MAGIC), Some(first), Some(crc)) if crc == crc32c(&line[..16]) => AreaPass::Since(first),
        _ => AreaPass::Damaged,
    }
}
fn pass_line(first: u64) -> Vec<u8> {
    let mut line = [PASS_MAGIC.to_le_bytes(), first.to_le_bytes()].concat();
    let crc = crc32c(&line);
    line.extend_from_slice(&crc.to_le_bytes());
    line.resize(PASS_BYTES, 0);
    line
}

pub(crate) struct DoubleWrite {
    file: Arc<dyn File>,
    ring: Mutex<CopyRing>,
}
struct CopyRing {
    /// The next slot to write; None: the next write begins a pass.
    next: Option<usize>,
    sequence: u64,
    buffer: Vec<u8>,
    /// Pages whose places may be torn: their last write failed.
    owed: BTreeMap<u32, Box<PageBytes>>,
}
impl CopyRing {
    /// `batch_start`: the slot of the batch's first page.
    fn add(&mut self, pid: u32, bytes: &PageBytes, batch_start: usize) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&MAGIC.to_le_bytes());
        self.buffer.extend_from_slice(&pid.to_le_bytes());
        self.buffer.extend_from_slice(&self.sequence.to_le_bytes());
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&(batch_start as u32 + 1).to_le_bytes());
        self.buffer.extend_from_slice(&[0; 8]);
        self.buffer.extend_from_slice(bytes);
        let crc = crc32c(&self.buffer[start..]);
        self.buffer[start + 16..start + 20].copy_from_slice(&crc.to_le_bytes());
        self.sequence += 1;
    }
}

fn put(home: &dyn File, pid: u32, bytes: &PageBytes) -> Result<()> {
    home.write_at(bytes, u64::from(pid) * PAGE as u64).map_err(|e| failed("write to", "pages", e))
}

impl DoubleWrite {
    /// `area`: what it has. All pages are in their places, and synced.
    pub fn new(file: Arc<dyn File>, area: &DoubleWriteArea) -> DoubleWrite {
        // Sequence numbers go on where the last run stopped, or its copies would look newer than ours.
        let sequence = area.next_sequence();
        DoubleWrite {
            file,
            ring: Mutex::new(CopyRing { next: None, sequence, buffer: Vec::new(), owed: BTreeMap::new() }),
        }
    }
    /// Begins a new pass when no slot is needed any more: the pass line says so durably before the first slot is
    /// written over.
    fn begin_pass(&self, ring: &mut CopyRing, home: &dyn File, log: &Log, stats: &Stats) -> Result<usize> {
        for (pid, bytes) in &ring.owed {
            put(home, *pid, bytes)?;
        }
        log.sync_pages(home)?;
        stats.count(IoObject::Relation, IoEvent::Sync, 1, 0);
        ring.owed.clear();
        let line = pass_line(ring.sequence);
        self.file.write_at(&line, PASS_OFFSET).map_err(|e| failed("write to", "doublewrite", e))?;
        log.sync(&*self.file, "doublewrite")?;
        stats.count(IoObject::Relation, IoEvent::Sync, 1, 0);
        Ok(0)
    }
    /// Writes sealed pages: area, sync, then their places.
    pub fn write(&self, home: &dyn File, log: &Log, pages: &[(u32, Box<PageBytes>)], stats: &Stats) -> Result<()> {
        let mut ring = crate::lock(&self.ring);
        let ring = &mut *ring;
        for part in pages.chunks(SLOTS / 4) {
            ring.buffer.clear();
            let next = match ring.next {
                Some(next) if next + part.len() <= SLOTS => next,
                _ => self.begin_pass(ring, home, log, stats)?,
            };
            ring.next = Some(next);
            part.iter().for_each(|(pid, bytes)| ring.add(*pid, bytes, next));
            let at = (next * SLOT_BYTES) as u64;
            self.file.write_at(&ring.buffer, at).map_err(|e| failed("write to", "doublewrite", e))?;
            if !planted::is(PlantedBug::CopiesUnsynced) {
                log.sync(&*self.file, "doublewrite")?;
            }
            stats.count(IoObject::Relation, IoEvent::Sync, 1, 0);
            ring.next = Some(next + part.len());
            for (pid, bytes) in part {
                let done = put(home, *pid, bytes);
                if done.is_err() {
                    ring.owed.insert(*pid, bytes.clone());
                } else if !ring.owed.is_empty() {
                    ring.owed.remove(pid);
                }
                done?;
            }
        }
        if ring.buffer.capacity() > 4 << 20 {
            ring.buffer = Vec::new();
        }
        Ok(())
    }
}

/// Puts pages right that are not as they were written last: torn, or lost on the way. Pages that are as they were written
/// last are written again: if that write was never synced, or the sync failed, the system may show bytes here that the
/// disk does not have. How many were torn, and how many of them stay so.
pub(crate) fn repair_pages(pages: &dyn File, area: &DoubleWriteArea) -> Result<RepairedPages> {
    let mut repaired = RepairedPages::default();
    let mut home = Box::new([0u8; PAGE]);
    for LastCopy { pid, bytes: copy, is_last, is_doubtful } in area.last_written() {
        let offset = u64::from(pid) * PAGE as u64;
        let got = pages.read_at(&mut home[..], offset).map_err(|e| failed("read", "pages", e))?;
        home[got..].fill(0);
        // A page of zeros was never synced, so any copy is as new as the log wants it.
        let is_zero = home.iter().all(|&b| b == 0);
        let torn = !page::is_intact(&home) || is_zero;
        if torn && !is_zero && is_doubtful {
            repaired.left += 1;
            continue;
        }
        // A page without an LSN is one that the log does not have: its copy alone tells.
        let is_newer = !torn && page::lsn(copy) != 0 && page::lsn(&home) > page::lsn(copy);
        if is_last || torn || *home == *copy {
            let last = if is_newer { &*home } else { copy };
            pages.write_at(&last[..], offset).map_err(|e| failed("write to", "pages", e))?;
            repaired.restored += usize::from(torn);
        }
    }
    pages.sync_data().map_err(|e| failed("fsync", "pages", e))?;
    Ok(repaired)
}

/// Torn pages that a start has found.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RepairedPages {
    pub restored: usize,
    /// Those whose last copy may have rotted.
    pub left: usize,
}
