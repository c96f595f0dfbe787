//! The allocator: small blocks that a worker has freed are used again by it, the last one first.
//!
//! A transaction asks for a hundred small blocks and frees them all at its end. An allocator that goes round all blocks
//! of a size before it comes back to one (mimalloc takes from one list and frees to another) makes each of them one
//! that has left the processor's cache. Here the block freed last is in the cache still. See
//! docs/decisions/0026-allocation.md.
//!
//! Invariants
//! 1. A block of a class was allocated with the class's layout, whoever asked and whichever thread frees it.
//! 2. A kept block is in one list of one thread, and its first word is the address of the next one.
//! 3. There is one such allocator in the program: what a thread keeps came from the same inner one.
//! 4. Only threads that have asked for it keep blocks: those that live as long as the server does.
//!
//! What comes from the inner allocator and goes back to it is counted ([`CountingAllocator`]), in whole steps of 16 bytes, as blocks
//! are made: a million texts of one byte take sixteen million. A kept block counts for who has allocated it first, until
//! the thread keeps it no more: with that, counting costs short transactions nothing.
//!
//! Must not know: who allocates, and for what.

use kilndb_base::memory;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::null_mut;

/// Classes are multiples of so many bytes, which are aligned to as many.
const STEP_BYTES: usize = 16;
const LARGEST_BYTES: usize = 2048;
const CLASSES: usize = LARGEST_BYTES / STEP_BYTES;
/// The most that a thread keeps of each class, in bytes; it is not exact.
const KEPT_BYTES: usize = 32 << 10;
const KEPT_BLOCKS: usize = 256;

/// The blocks of one class that a thread keeps.
struct SizeClass {
    first: Cell<*mut u8>,
    count: Cell<usize>,
}

struct KeptBlocks {
    is_kept: Cell<bool>,
    classes: [SizeClass; CLASSES],
}

thread_local! {
    static KEPT: KeptBlocks = const { KeptBlocks { is_kept: Cell::new(false), classes: [const { SizeClass { first: Cell::new(null_mut()), count: Cell::new(0) } }; CLASSES] } };
}

/// Lets the calling thread keep what it frees from now on. The thread does not give it back when it ends.
pub fn keep_freed_blocks() {
    KEPT.with(|kept| kept.is_kept.set(true));
}

/// An allocator that gives out again what was freed last. It stands in front of another one, which large blocks are
/// left to.
pub struct FreeListAllocator<A>(pub A);

/// The class of a block, if it is small.
#[inline]
fn class_of(layout: Layout) -> Option<usize> {
    let size = layout.size();
    (size.wrapping_sub(1) < LARGEST_BYTES && layout.align() <= STEP_BYTES).then(|| (size - 1) / STEP_BYTES)
}

#[inline]
fn layout_of(class: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and the size is small.
    unsafe { Layout::from_size_align_unchecked((class + 1) * STEP_BYTES, STEP_BYTES) }
}

/// A kept block of the class.
#[inline]
fn take(class: usize) -> Option<*mut u8> {
    KEPT.with(|kept| {
        let class = &kept.classes[class];
        let first = class.first.get();
        if first.is_null() {
            return None;
        }
        // SAFETY: invariant 2: the first word of a kept block, which is this thread's alone, is the next one's address.
        class.first.set(unsafe { first.cast::<*mut u8>().read() });
        class.count.set(class.count.get() - 1);
        Some(first)
    })
}

/// False: the thread keeps none, or has enough.
#[inline]
fn keep(block: *mut u8, class: usize) -> bool {
    KEPT.with(|kept| {
        let most = (KEPT_BYTES / ((class + 1) * STEP_BYTES)).min(KEPT_BLOCKS);
        let class = &kept.classes[class];
        let count = class.count.get();
        if !kept.is_kept.get() || count >= most {
            return false;
        }
        // SAFETY: the block has been freed, is aligned for an address and large enough for one.
        unsafe { block.cast::<*mut u8>().write(class.first.get()) };
        class.first.set(block);
        class.count.set(count + 1);
        true
    })
}

/// An allocator that counts for the thread's account (`kilndb_base::memory`). It stands in front of another one, which
/// allocates.
pub struct CountingAllocator<A>(pub A);

/// What a block takes, about: no allocator here has blocks of fewer than a step, or between two multiples of it.
#[inline]
fn taken_bytes(size: usize) -> usize {
    (size + (STEP_BYTES - 1)) & !(STEP_BYTES - 1)
}

// SAFETY: the inner allocator does all of it; counting neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        memory::allocated(taken_bytes(layout.size()));
        // SAFETY: the caller's.
        unsafe { self.0.alloc(layout) }
    }
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        memory::allocated(taken_bytes(layout.size()));
        // SAFETY: the caller's.
        unsafe { self.0.alloc_zeroed(layout) }
    }
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        memory::freed(taken_bytes(layout.size()));
        // SAFETY: the caller's.
        unsafe { self.0.dealloc(block, layout) }
    }
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let (old_bytes, new_bytes) = (taken_bytes(layout.size()), taken_bytes(new_size));
        match new_bytes.checked_sub(old_bytes) {
            Some(more) => memory::allocated(more),
            None => memory::freed(old_bytes - new_bytes),
        }
        // SAFETY: the caller's.
        unsafe { self.0.realloc(block, layout, new_size) }
    }
}

// SAFETY: a block comes from the inner allocator, or was freed by its last owner and is in no list any more; it has the
// size and the alignment of its class, which are at least those asked for.
unsafe impl<A: GlobalAlloc> GlobalAlloc for FreeListAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class_of(layout) {
            // SAFETY: a layout of a size that is not zero.
            Some(class) => take(class).unwrap_or_else(|| unsafe { self.0.alloc(layout_of(class)) }),
            // SAFETY: the caller's.
            None => unsafe { self.0.alloc(layout) },
        }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class_of(layout) else {
            // SAFETY: the caller's.
            return unsafe { self.0.alloc_zeroed(layout) };
        };
        match take(class) {
            Some(block) => {
                // SAFETY: the block is at least as large.
                unsafe { block.write_bytes(0, layout.size()) };
                block
            }
            // SAFETY: a layout of a size that is not zero.
            None => unsafe { self.0.alloc_zeroed(layout_of(class)) },
        }
    }
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class_of(layout) {
            Some(class) if keep(block, class) => {}
            // SAFETY: invariant 1.
            Some(class) => unsafe { self.0.dealloc(block, layout_of(class)) },
            // SAFETY: the caller's.
            None => unsafe { self.0.dealloc(block, layout) },
        }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller answers for size and alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (class_of(layout), class_of(new_layout)) {
            (Some(old), Some(new)) if old == new => block,
            // SAFETY: neither layout is one of a class: the block is the inner allocator's, as the caller describes it.
            (None, None) => unsafe { self.0.realloc(block, layout, new_size) },
            _ => {
                // SAFETY: the size is not zero; the old block has `layout.size()` bytes, the new one `new_size`, and
                // they are two.
                unsafe {
                    let moved = self.alloc(new_layout);
                    if !moved.is_null() {
                        std::ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
                        self.dealloc(block, layout);
                    }
                    moved
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    // The tests' own is the program's: there is one for all that a thread keeps.
    use crate::ALLOCATOR;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn the_last_freed_is_the_first_used() {
        std::thread::spawn(|| {
            // SAFETY: each block is freed once, with the layout it was asked for with, or one of the same class.
            unsafe {
                keep_freed_blocks();
                let (a, b) = (ALLOCATOR.alloc(layout(100)), ALLOCATOR.alloc(layout(100)));
                ALLOCATOR.dealloc(a, layout(100));
                ALLOCATOR.dealloc(b, layout(100));
                assert_eq!(ALLOCATOR.alloc(layout(97)), b);
                assert_eq!(ALLOCATOR.alloc_zeroed(layout(112)), a);
                assert!((0..112).all(|i| *a.add(i) == 0));
                ALLOCATOR.dealloc(a, layout(112));
                let larger = ALLOCATOR.alloc(layout(113));
                assert_ne!(larger, a);
                assert_eq!(ALLOCATOR.realloc(b, layout(97), 110), b);
                ALLOCATOR.dealloc(larger, layout(113));
                ALLOCATOR.dealloc(b, layout(110));
            }
        })
        .join()
        .unwrap();
    }

    /// Blocks of all sizes grow, shrink, and come and go: each keeps its bytes, and nobody else's.
    #[test]
    fn blocks_keep_their_bytes() {
        std::thread::spawn(|| {
            keep_freed_blocks();
            let mut random = 12345u64;
            let mut next = |below: u64| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 33) % below
            };
            let mut blocks: Vec<(*mut u8, usize, u8)> = Vec::new();
            // SAFETY: as in the other test; only bytes of blocks that are not freed yet are looked at.
            unsafe {
                let intact =
                    |&(block, size, byte): &(*mut u8, usize, u8)| assert!((0..size).all(|i| *block.add(i) == byte));
                for step in 0..if cfg!(miri) { 300 } else { 20_000 } {
                    let size = 1 + next(if step % 7 == 0 { 5000 } else { 300 }) as usize;
                    let byte = next(256) as u8;
                    let place = next(40) as usize;
                    let fresh = match (next(3), place < blocks.len()) {
                        (0, true) => {
                            let old = blocks.swap_remove(place);
                            intact(&old);
                            let moved = ALLOCATOR.realloc(old.0, layout(old.1), size);
                            intact(&(moved, size.min(old.1), old.2));
                            moved
                        }
                        (_, true) => {
                            let old = blocks.swap_remove(place);
                            intact(&old);
                            ALLOCATOR.dealloc(old.0, layout(old.1));
                            continue;
                        }
                        _ => ALLOCATOR.alloc(layout(size)),
                    };
                    fresh.write_bytes(byte, size);
                    blocks.push((fresh, size, byte));
                }
                for block in &blocks {
                    intact(block);
                    ALLOCATOR.dealloc(block.0, layout(block.1));
                }
            }
        })
        .join()
        .unwrap();
    }
}
