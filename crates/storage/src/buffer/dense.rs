//! Huge pages for the parts of the pool that are wholly resident.
//!
//! With 4 kB pages of memory each random row costs the processor walks through page tables, on a virtual machine twice as
//! long. A huge page spares them, but is 2 MB or nothing: so only a range of the page file all of whose pages are resident
//! becomes one, which takes no memory that it has not taken before.
//!
//! Invariants
//! 1. A range asks for huge pages only while it is one; before a page of it is let go of, it stops asking: else the system
//!    could fill the hole, or make a huge page of a range that is nearly empty.
//! 2. A pool that is about to evict gathers nothing.
//!
//! Must not know: what pages contain.

use super::*;
use crate::reserve::HUGE_PAGE_BYTES as HUGE_BYTES;

const PAGES: usize = HUGE_BYTES / PAGE;
/// Ranges looked at, and made huge pages of, in one round: each copies 2 MB.
const LOOKED_AT: usize = 64;
const GATHERED: usize = 1;

/// Which ranges of a pool are huge pages.
pub(super) struct Dense {
    /// By range: 0 or 1.
    is_huge: LazyArray<AtomicU32>,
    /// The range to look at next.
    next: AtomicUsize,
    /// The system has none, or has been told not to give any.
    is_off: AtomicBool,
}

impl Dense {
    pub fn new(memory_bytes: usize, wanted: bool) -> Result<Dense> {
        let is_huge = LazyArray::new(memory_bytes / HUGE_BYTES)?;
        Ok(Dense { is_huge, next: AtomicUsize::new(0), is_off: AtomicBool::new(!wanted) })
    }
}

impl Pool {
    /// One round: for a background thread, now and then.
    pub fn gather_dense(&self) {
        let ranges = self.file_pages.load(Acquire) as usize / PAGES;
        let is_full = self.resident() + self.capacity / 8 >= self.capacity;
        if ranges == 0 || is_full || self.dense.is_off.load(Relaxed) {
            return;
        }
        let mut gathered = 0;
        for _ in 0..LOOKED_AT.min(ranges) {
            let range = self.dense.next.fetch_add(1, Relaxed) % ranges;
            if self.dense.is_huge.get(range).load(Relaxed) != 0 || !self.is_resident(range) {
                continue;
            }
            self.dense.is_huge.get(range).store(1, Release);
            if let Err(e) = self.memory.gather(range * HUGE_BYTES, HUGE_BYTES) {
                self.scatter(range);
                // Memory may be in pieces now and not later; anything else will not change.
                let may_change = matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::EBUSY));
                self.dense.is_off.store(!may_change, Relaxed);
                return;
            }
            gathered += 1;
            if gathered == GATHERED {
                return;
            }
        }
    }

    fn is_resident(&self, range: usize) -> bool {
        let first = range * PAGES;
        (first..first + PAGES).all(|page| self.states.get(page).load(Relaxed) & STATE != EVICTED)
    }

    /// A page is about to be let go of.
    pub(super) fn leave_dense(&self, pid: u32) {
        let range = pid as usize / PAGES;
        if range < self.dense.is_huge.count() && self.dense.is_huge.get(range).load(Acquire) != 0 {
            self.scatter(range);
        }
    }

    #[cold]
    fn scatter(&self, range: usize) {
        self.memory.stop_gathering(range * HUGE_BYTES, HUGE_BYTES);
        self.dense.is_huge.get(range).store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the system makes of the request, what is there stays there, and a page that is let go of is zeros again.
    #[test]
    fn gathering_changes_no_bytes() {
        let memory = Reserved::new(HUGE_BYTES).unwrap();
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
