//! Large blocks of memory come from the system and go back to it at once.
//!
//! A text that grows to a gigabyte is moved at each doubling. Within an allocator that is a copy, and for a while both
//! copies are there; what was freed stays with the allocator for some time. The system moves a block by its page table,
//! and forgets a freed one. See docs/decisions/0035-memory-of-statements.md.
//!
//! Invariants
//! 1. Whether a block is large is told by its layout alone, at its allocation and at its end.
//! 2. A large block is a mapping of its own: whole pages, zeros at first.
//!
//! Must not know: who allocates, and for what.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;

/// The size from which on a page fault for each page costs little beside what fills it.
const LARGE_BYTES: usize = 4 << 20;
/// What a mapping is aligned to on every machine.
const PAGE_BYTES: usize = 4096;

/// An allocator that maps large blocks by themselves. It stands in front of another one, which the other blocks are
/// left to.
pub struct LargeBlocks<A>(pub A);

#[inline]
fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE_BYTES && layout.align() <= PAGE_BYTES
}

#[cold]
fn map(size: usize) -> *mut u8 {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping, where nothing else is.
    let block = unsafe { libc::mmap(null_mut(), size, access, kind, -1, 0) };
    if block == libc::MAP_FAILED {
        return null_mut();
    }
    block.cast()
}

/// Asks for huge pages on behalf of somebody who is going to write all of the block: touching a huge page takes an
/// eighth of what its small pages take. Where there are none, nothing changes.
#[cold]
fn map_for_writing(size: usize) -> *mut u8 {
    let block = map(size);
    if !block.is_null() {
        // SAFETY: the mapping is this size.
        unsafe { libc::madvise(block.cast(), size, libc::MADV_HUGEPAGE) };
    }
    block
}

// SAFETY: a large block is a new mapping of at least its size, aligned to a page; the inner allocator does all others.
unsafe impl<A: GlobalAlloc> GlobalAlloc for LargeBlocks<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map_for_writing(layout.size());
        }
        // SAFETY: the caller's.
        unsafe { self.0.alloc(layout) }
    }
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            // A table of zeros may never be full: only the pages that are used are taken.
            return map(layout.size());
        }
        // SAFETY: the caller's.
        unsafe { self.0.alloc_zeroed(layout) }
    }
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: the block is a mapping of this size (invariants 1 and 2), and its owner is done with it.
            unsafe { libc::munmap(block.cast(), layout.size()) };
            return;
        }
        // SAFETY: the caller's.
        unsafe { self.0.dealloc(block, layout) }
    }
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller answers for size and alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (is_large(layout), is_large(new_layout)) {
            // SAFETY: the caller's.
            (false, false) => unsafe { self.0.realloc(block, layout, new_size) },
            (true, true) => {
                // SAFETY: the block is a mapping of the old size; it may move, since its owner uses what is returned.
                let moved = unsafe { libc::mremap(block.cast(), layout.size(), new_size, libc::MREMAP_MAYMOVE) };
                if moved == libc::MAP_FAILED { null_mut() } else { moved.cast() }
            }
            // SAFETY: the old block has `layout.size()` bytes, the new one `new_size`, and they are two.
            _ => unsafe {
                let moved = self.alloc(new_layout);
                if !moved.is_null() {
                    std::ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
                    self.dealloc(block, layout);
                }
                moved
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    const LARGE: LargeBlocks<System> = LargeBlocks(System);

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    /// A block keeps its bytes while it becomes large, larger, smaller and small again.
    #[test]
    fn blocks_keep_their_bytes() {
        let sizes = [100, LARGE_BYTES - 1, LARGE_BYTES, 3 * LARGE_BYTES + 5, 40 * LARGE_BYTES, LARGE_BYTES, 200];
        // SAFETY: each block is used with its present size, and freed once.
        unsafe {
            let mut block = LARGE.alloc(layout(sizes[0]));
            block.write_bytes(7, 100);
            for pair in sizes.windows(2) {
                block = LARGE.realloc(block, layout(pair[0]), pair[1]);
                assert!((0..100).all(|i| *block.add(i) == 7));
                // The whole block can be written, up to its last byte.
                block.add(pair[1] - 1).write(7);
            }
            LARGE.dealloc(block, layout(200));
        }
    }

    #[test]
    fn a_large_block_is_zeros() {
        // SAFETY: as above.
        unsafe {
            let block = LARGE.alloc_zeroed(layout(LARGE_BYTES));
            assert!((0..LARGE_BYTES).step_by(1000).all(|i| *block.add(i) == 0));
            LARGE.dealloc(block, layout(LARGE_BYTES));
        }
    }
}
