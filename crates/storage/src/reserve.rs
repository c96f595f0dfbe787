//! Reserved virtual memory, touched lazily: the page range and the tables indexed by big numbers.
//!
//! Invariants
//! 1. Memory starts as zeros and is zeros again after [`ReservedMemory::forget`].
//!
//! Must not know: what is kept in it.

use kilndb_base::{Error, Result};

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
        assert!(offset + len <= self.len);
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_COLLAPSE] {
            // SAFETY: within the mapping; the contents stay what they are, for whoever reads or writes them meanwhile
            // too.
            if unsafe { libc::madvise(self.ptr.add(offset).cast(), len, advice) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    }
    /// Makes the range use small pages for memory that it is given from now on.
    pub(crate) fn stop_gathering(&self, offset: usize, len: usize) {
        assert!(offset + len <= self.len);
        // SAFETY: within the mapping; nothing but what the system does later depends on it.
        unsafe { libc::madvise(self.ptr.add(offset).cast(), len, libc::MADV_NOHUGEPAGE) };
    }
    /// Gives the memory of a range (whole 4 kB pages) back.
    pub fn forget(&self, offset: usize, len: usize) {
        assert!(offset + len <= self.len);
        // SAFETY: within the mapping.
        unsafe { libc::madvise(self.ptr.add(offset).cast(), len, libc::MADV_DONTNEED) };
    }
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
