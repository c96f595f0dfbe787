//! Reserved virtual memory, touched lazily: the page range and the tables indexed by big numbers.
//!
//! Invariants
//! 1. Memory starts as zeros and is zeros again after [`ReservedMemory::forget`].
//!
//! Must not know: what is kept in it.

use kilndb_base::sync::LazyLock;
use kilndb_base::{Error, Result};
use std::ops::Range;

/// Bytes of a huge page, on every machine that has pages of 4 kB.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

pub(crate) struct ReservedMemory {
    /// Aligned to huge pages.
    ptr: *mut u8,
    len: usize,
    base: *mut u8,
    mapped: usize,
}
// SAFETY: the range is plain memory; users synchronise access to its contents themselves.
unsafe impl Send for ReservedMemory {}
// SAFETY: as above.
unsafe impl Sync for ReservedMemory {}

impl ReservedMemory {
    pub fn new(len: usize) -> Result<ReservedMemory> {
        let mapped = len + HUGE_PAGE_BYTES;
        // SAFETY: an anonymous private mapping at an address the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Error::from(std::io::Error::last_os_error()));
        }
        // SAFETY: the range was just mapped. Huge pages would make every small touch cost 2 MB.
        unsafe { libc::madvise(base, mapped, libc::MADV_NOHUGEPAGE) };
        let base = base.cast::<u8>();
        let aligned = base.align_offset(HUGE_PAGE_BYTES);
        // SAFETY: less than HUGE_PAGE_BYTES on, so `len` bytes of the mapping follow.
        Ok(ReservedMemory { ptr: unsafe { base.add(aligned) }, len, base, mapped })
    }
    /// Reserves as much as the machine allows, from `len` downwards.
    pub fn at_most(mut len: usize, least: usize) -> Result<ReservedMemory> {
        loop {
            match ReservedMemory::new(len) {
                Ok(r) => return Ok(r),
                Err(e) if len / 2 < least => return Err(e),
                Err(_) => len /= 2,
            }
        }
    }
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }
    pub fn len(&self) -> usize {
        self.len
    }
    /// Puts the contents of a range (aligned to huge pages) together in huge pages, as far as the system has any.
    pub fn gather(&self, offset: usize, len: usize) -> std::io::Result<()> {
        self.expect_dense(offset, len)?;
        self.advise(offset, len, libc::MADV_COLLAPSE)
    }
    /// Makes a range (aligned to huge pages) use them for memory that it is given from now on, as far as the system has any.
    pub(crate) fn expect_dense(&self, offset: usize, len: usize) -> std::io::Result<()> {
        self.advise(offset, len, libc::MADV_HUGEPAGE)
    }
    /// Gives advice about a range of the mapping that changes no contents.
    fn advise(&self, offset: usize, len: usize, advice: libc::c_int) -> std::io::Result<()> {
        assert!(offset + len <= self.len);
        // SAFETY: within the mapping; the contents stay what they are, for whoever reads or writes them meanwhile too.
        match unsafe { libc::madvise(self.ptr.add(offset).cast(), len, advice) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
    /// Makes the range use small pages for memory that it is given from now on.
    pub(crate) fn stop_gathering(&self, offset: usize, len: usize) {
        // A system that refuses has no huge pages.
        let _ = self.advise(offset, len, libc::MADV_NOHUGEPAGE);
    }
    /// Gives the memory of a range (whole 4 kB pages) back.
    pub fn forget(&self, offset: usize, len: usize) {
        assert!(offset + len <= self.len);
        // SAFETY: within the mapping.
        unsafe { libc::madvise(self.ptr.add(offset).cast(), len, libc::MADV_DONTNEED) };
    }
    /// As [`ReservedMemory::forget`] for several ranges, with one system call where the system has one for that (Linux
    /// since 6.13): each call makes all processors that run the server drop what they know of addresses, which takes
    /// longer than the call itself.
    pub fn forget_all(&self, ranges: &[Range<usize>]) {
        assert!(ranges.iter().all(|r| r.start <= r.end && r.end <= self.len));
        for ranges in ranges.chunks(RANGES_AT_ONCE) {
            if ranges.len() == 1 || !self.forget_together(ranges) {
                ranges.iter().for_each(|r| self.forget(r.start, r.len()));
            }
        }
    }

    /// False: the system cannot, or has done a part at most.
    fn forget_together(&self, ranges: &[Range<usize>]) -> bool {
        let Some(process) = own_process() else { return false };
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; RANGES_AT_ONCE];
        for (part, range) in parts.iter_mut().zip(ranges) {
            // SAFETY: `forget_all` has made sure that the range lies within the mapping.
            *part = libc::iovec { iov_base: unsafe { self.ptr.add(range.start) }.cast(), iov_len: range.len() };
        }
        // SAFETY: the parts lie within the mapping, and live during the call.
        let forgotten = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                process,
                parts.as_ptr(),
                ranges.len(),
                libc::MADV_DONTNEED as libc::c_long,
                0,
            )
        };
        usize::try_from(forgotten).is_ok_and(|forgotten| forgotten == ranges.iter().map(Range::len).sum())
    }
}

const RANGES_AT_ONCE: usize = 64;

/// A descriptor of this process, which stays open. None: the system has none.
fn own_process() -> Option<libc::c_long> {
    static PROCESS: LazyLock<libc::c_long> = LazyLock::new(|| {
        // SAFETY: neither call takes or returns anything but numbers.
        unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) }
    });
    Some(*PROCESS).filter(|process| *process >= 0)
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), self.mapped) };
    }
}

/// A lazily touched array of `T`, which must be valid as zeros (atomics).
pub(crate) struct LazyArray<T> {
    memory: ReservedMemory,
    count: usize,
    _items: std::marker::PhantomData<T>,
}
// SAFETY: only shared references to `T` are handed out.
unsafe impl<T: Sync> Sync for LazyArray<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for LazyArray<T> {}

/// Types that are valid when all their bytes are zero and need no drop.
/// # Safety
/// That is what the implementer promises.
pub(crate) unsafe trait Zeroed {}
// SAFETY: zero is a valid atomic.
unsafe impl Zeroed for kilndb_base::sync::atomic::AtomicU64 {}
// SAFETY: zero is a valid atomic.
unsafe impl Zeroed for kilndb_base::sync::atomic::AtomicU32 {}

impl<T: Zeroed> LazyArray<T> {
    pub fn new(count: usize) -> Result<LazyArray<T>> {
        Ok(LazyArray { memory: ReservedMemory::new(count * size_of::<T>())?, count, _items: std::marker::PhantomData })
    }
    #[inline]
    pub fn get(&self, index: usize) -> &T {
        assert!(index < self.count);
        // SAFETY: in bounds, zero is valid for T, mmap aligns to pages.
        unsafe { &*self.memory.ptr().cast::<T>().add(index) }
    }
    pub fn count(&self) -> usize {
        self.count
    }
}

impl LazyArray<kilndb_base::sync::atomic::AtomicU64> {
    /// Zeroes the items, whose memory goes back to the system where it is whole pages of 4 kB.
    pub fn zero(&self, from: usize, to: usize) {
        let bytes = size_of::<kilndb_base::sync::atomic::AtomicU64>();
        let a = (from * bytes).next_multiple_of(4096);
        let b = to * bytes / 4096 * 4096;
        let clear = |from: usize, to: usize| {
            (from..to).for_each(|index| self.get(index).store(0, kilndb_base::sync::atomic::Ordering::Release))
        };
        if b <= a {
            return clear(from, to);
        }
        clear(from, a / bytes);
        self.memory.forget(a, b - a);
        clear(b / bytes, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_together_is_zeros_and_the_rest_stays() {
        const PAGE: usize = 4096;
        let memory = ReservedMemory::new(400 * PAGE).unwrap();
        // SAFETY: the test alone uses the memory, within its length.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.ptr(), 400 * PAGE) };
        for forgotten in [1, 2, 64, 65, 199] {
            bytes.fill(7);
            let ranges: Vec<Range<usize>> = (0..forgotten).map(|i| 2 * i * PAGE..(2 * i + 1) * PAGE).collect();
            memory.forget_all(&ranges);
            for page in 0..400 {
                let expected = if page % 2 == 0 && page / 2 < forgotten { 0 } else { 7 };
                assert!(bytes[page * PAGE..][..PAGE].iter().all(|b| *b == expected), "page {page} of {forgotten}");
            }
        }
    }
}
