//! Huge pages for the parts of the pool that are mostly resident.
//!
//! With 4 kB pages of memory each random row costs the processor walks through page tables, on a virtual machine twice
//! as long. A huge page spares them, but is 2 MB or nothing: so a range of the page file becomes one when at least half
//! of its pages are resident. The others are holes: blocks that a relation has not used yet, undo that has gone. They
//! take memory without being resident, and count with what is resident before another range is gathered. A range of which
//! nothing is resident becomes a huge page at once when somebody begins to read page after page of it, or to use it: pages are given out in
//! the order of the file.
//!
//! Invariants
//! 1. A range asks for huge pages only while it is one; before memory of it is given back, it stops asking: else the
//!    system could fill the hole, or make a huge page of a range that is nearly empty.
//! 2. A pool that is about to evict gathers nothing. A pool that evicts scatters a range as a whole, with its holes.
//! 3. A page that is not resident may have any bytes: all of it is written when it becomes resident.
//!
//! Must not know: what pages contain.

use super::*;
use crate::reserve::HUGE_PAGE_BYTES as HUGE_BYTES;

pub(super) const PAGES: usize = HUGE_BYTES / PAGE;
/// Ranges looked at, and made huge pages of, in one round: each copies 2 MB.
const LOOKED_AT: usize = 64;
/// How many ranges a round looks at while there seems to be nothing to do. Each look reads 2 kB, which displaces from
/// the cache what sessions need.
const LOOKED_AT_IDLE: usize = 1;
/// Ranges looked at for one that is a huge page without a resident page: mostly the first page of each tells.
const LOOKED_AT_FOR_ROOM: usize = 4 * LOOKED_AT;
const GATHERED: usize = 1;
const MOST_HOLES: usize = PAGES / 2;
/// After this many refusals in a row, none because memory is short, the system is taken to have no huge pages. A single
/// refusal may come from a range that was scattered while it was being gathered.
const REFUSALS: usize = 16;

/// Which ranges of a pool are huge pages.
pub(super) struct HugePageRanges {
    /// For each range: 1 if it is a huge page, else 0.
    is_huge: LazyArray<AtomicU32>,
    /// The range to look at next.
    next: AtomicUsize,
    /// How many ranges were looked at since one was gathered.
    in_vain: AtomicUsize,
    /// About how many holes all huge pages have together.
    holes: AtomicUsize,
    /// How many refusals there were since a range was gathered.
    refusals: AtomicUsize,
    /// The system has none, or has been told not to give any.
    is_off: AtomicBool,
}

impl HugePageRanges {
    pub fn new(memory_bytes: usize, wanted: bool) -> Result<HugePageRanges> {
        let is_huge = LazyArray::new(memory_bytes / HUGE_BYTES)?;
        Ok(HugePageRanges {
            is_huge,
            next: AtomicUsize::new(0),
            in_vain: AtomicUsize::new(0),
            holes: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            is_off: AtomicBool::new(!wanted),
        })
    }
    fn has(&self, pid: u32) -> bool {
        let range = pid as usize / PAGES;
        range < self.is_huge.count() && self.is_huge.get(range).load(Acquire) != 0
    }
    fn fewer_holes(&self, n: usize) {
        let _ = self.holes.fetch_update(Relaxed, Relaxed, |holes| Some(holes.saturating_sub(n)));
    }
}

impl Pool {
    /// Does one round of gathering; a background thread calls it now and then.
    pub(crate) fn gather_dense(&self) {
        let ranges = self.file_pages.load(Acquire) as usize / PAGES;
        if ranges == 0 || self.dense.is_off.load(Relaxed) {
            return;
        }
        let taken = self.taken();
        if taken + self.capacity / 8 >= self.capacity {
            if taken + self.capacity / 16 >= self.capacity && self.dense.holes.load(Relaxed) > 0 {
                self.scatter_first(LOOKED_AT.min(ranges), |range| self.holes(range).next().is_some());
            }
            return;
        }
        let mut gathered = 0;
        let looked_at = if self.dense.in_vain.load(Relaxed) < ranges { LOOKED_AT } else { LOOKED_AT_IDLE };
        for _ in 0..looked_at.min(ranges) {
            let range = self.dense.next.fetch_add(1, Relaxed) % ranges;
            self.dense.in_vain.fetch_add(1, Relaxed);
            if self.dense.is_huge.get(range).load(Relaxed) != 0 {
                continue;
            }
            let holes = self.holes(range).take(MOST_HOLES + 1).count();
            if holes > MOST_HOLES {
                continue;
            }
            self.dense.in_vain.store(0, Relaxed);
            self.dense.holes.fetch_add(holes, Relaxed);
            self.dense.is_huge.get(range).store(1, Release);
            if let Err(e) = self.memory.gather(range * HUGE_BYTES, HUGE_BYTES) {
                self.scatter(range);
                // These errors say that memory is short or fragmented now, which may change.
                let may_change = matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::EBUSY));
                let refusals =
                    self.dense.refusals.fetch_add(usize::from(!may_change), Relaxed) + usize::from(!may_change);
                self.dense.is_off.store(refusals >= REFUSALS, Relaxed);
                return;
            }
            self.dense.refusals.store(0, Relaxed);
            gathered += 1;
            if gathered == GATHERED {
                return;
            }
        }
    }

    /// How many huge pages there are.
    #[cfg(test)]
    pub(crate) fn huge_ranges(&self) -> usize {
        (0..self.dense.is_huge.count()).filter(|range| self.dense.is_huge.get(*range).load(Relaxed) != 0).count()
    }

    /// Is any page of a range resident?
    fn is_any_resident(&self, range: usize) -> bool {
        (range * PAGES..(range + 1) * PAGES).any(|page| self.states.get(page).load(Relaxed) & STATE != EVICTED)
    }

    /// The pages of a range that are not resident.
    fn holes(&self, range: usize) -> impl Iterator<Item = usize> + '_ {
        let first = range * PAGES;
        (first..first + PAGES).filter(|page| self.states.get(*page).load(Relaxed) & STATE == EVICTED)
    }

    /// How many pages have memory: those that are resident, and the holes of huge pages.
    fn taken(&self) -> usize {
        self.resident() + self.dense.holes.load(Relaxed)
    }

    /// Scatters the first huge page that meets the test, among so many `ranges` of the file that are looked at next. False:
    /// there is none.
    fn scatter_first(&self, ranges: usize, is_wanted: impl Fn(usize) -> bool) -> bool {
        let all = self.file_pages.load(Acquire) as usize / PAGES;
        let mut looked_at = (0..ranges).map(|_| self.dense.next.fetch_add(1, Relaxed) % all);
        let found = looked_at.find(|range| self.dense.is_huge.get(*range).load(Relaxed) != 0 && is_wanted(*range));
        found.inspect(|range| self.scatter(*range)).is_some()
    }

    /// Someone who reads many pages of a table is about to read this one into memory, or begins to use it. If it is the first of a range of
    /// which nothing is resident, the others will follow, so the range becomes a huge page: one that is given as a whole costs a
    /// fraction of what its small pages do one by one, and gathering them later.
    pub(super) fn expect_dense(&self, pid: u32) {
        let range = pid as usize / PAGES;
        if !(pid as usize).is_multiple_of(PAGES) {
            return;
        }
        let ranges = self.file_pages.load(Acquire) as usize / PAGES;
        // The last range of the file may not be whole.
        if range >= ranges || self.dense.is_off.load(Relaxed) || self.dense.has(pid) {
            return;
        }
        if self.is_any_resident(range) {
            return;
        }
        let has_room = self.taken() + PAGES + self.capacity / 8 < self.capacity;
        // A huge page without a resident page, as a dropped table leaves it, makes room for one.
        if !has_room && !self.scatter_first(LOOKED_AT_FOR_ROOM.min(ranges), |range| !self.is_any_resident(range)) {
            return;
        }
        if self.dense.is_huge.get(range).swap(1, AcqRel) != 0 {
            return;
        }
        self.dense.holes.fetch_add(PAGES, Relaxed);
        if self.memory.expect_dense(range * HUGE_BYTES, HUGE_BYTES).is_err() {
            self.scatter(range);
        }
    }

    /// Notes that a page has become resident.
    pub(super) fn enter_dense(&self, pid: u32) {
        if self.dense.has(pid) {
            self.dense.fewer_holes(1);
        }
    }

    /// Notes that a page, which the caller has latched, is discarded. True: it is a hole of a huge page now, and its
    /// memory stays.
    pub(super) fn is_kept_dense(&self, pid: u32) -> bool {
        let kept = self.dense.has(pid);
        if kept {
            self.dense.holes.fetch_add(1, Relaxed);
        }
        kept
    }

    /// A page is about to be let go of, and its memory given back.
    pub(super) fn leave_dense(&self, pid: u32) {
        if self.dense.has(pid) {
            self.scatter(pid as usize / PAGES);
        }
    }

    #[cold]
    fn scatter(&self, range: usize) {
        if self.dense.is_huge.get(range).swap(0, AcqRel) == 0 {
            return;
        }
        self.memory.stop_gathering(range * HUGE_BYTES, HUGE_BYTES);
        let is_latched = |page: &usize| {
            let state = self.states.get(*page);
            let now = state.load(Relaxed);
            let latched = (now & !STATE) | LATCHED;
            now & STATE == EVICTED && state.compare_exchange(now, latched, Acquire, Relaxed).is_ok()
        };
        // Nothing is waited for while they are latched.
        let latched: Vec<u32> = self.holes(range).filter(is_latched).map(|page| page as u32).collect();
        self.give_back(&latched);
        self.dense.fewer_holes(latched.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the system makes of the request, what is there stays there, and a page that is let go of is zeros
    /// again.
    #[test]
    fn gathering_changes_no_bytes() {
        let memory = ReservedMemory::new(HUGE_BYTES).unwrap();
        // SAFETY: all of a mapping that is ours alone.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.ptr(), HUGE_BYTES) };
        for (i, b) in bytes.iter_mut().enumerate() {
            *b = (i / PAGE + i) as u8;
        }
        let _ = memory.gather(0, HUGE_BYTES);
        assert!(bytes.iter().enumerate().all(|(i, b)| *b == (i / PAGE + i) as u8));
        memory.stop_gathering(0, HUGE_BYTES);
        memory.forget(PAGE, PAGE);
        assert!(bytes[PAGE..2 * PAGE].iter().all(|b| *b == 0));
        assert!(bytes[2 * PAGE..].iter().enumerate().all(|(i, b)| *b == (i / PAGE + 2 + i + 2 * PAGE) as u8));
    }
}
