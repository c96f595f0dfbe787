//! The stack of a statement: large, of which only what is touched costs memory.
//!
//! Invariants
//! 1. The lowest page of the mapping is never accessible: whoever runs over the end is stopped by a signal.
//! 2. The kernel does not join its pages to huge ones: a waiting session costs what it has touched, in pages of 4 kB.
//! 3. A stack that was deep has given its memory back before it is used again.
//!
//! Must not know: who runs on it.

use corosensei::stack::{Stack, StackPointer};
use kilndb_base::stack::{SHALLOW_BYTES, STACK_BYTES, StackLimit};
use std::io::{Error, Result};
use std::ptr::null_mut;

/// A guard that frames of code without stack probes, as the C parser's, do not step over.
const GUARD_BYTES: usize = 64 << 10;
const MAPPED_BYTES: usize = STACK_BYTES + GUARD_BYTES;

pub struct StatementStack {
    /// The mapping's first address, of the guard.
    start: usize,
}

impl StatementStack {
    pub fn new() -> Result<StatementStack> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a new mapping, where nothing else is.
        let start = unsafe { libc::mmap(null_mut(), MAPPED_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        // From here on dropping it unmaps it.
        let stack = StatementStack { start: start as usize };
        // SAFETY: the guard's pages and the mapping are this value's, and nobody uses them yet. The advice may fail on a
        // kernel without huge pages.
        unsafe {
            if libc::mprotect(start, GUARD_BYTES, libc::PROT_NONE) != 0 {
                return Err(Error::last_os_error());
            }
            libc::madvise(start, MAPPED_BYTES, libc::MADV_NOHUGEPAGE);
        }
        Ok(stack)
    }

    fn end(&self) -> usize {
        self.start + GUARD_BYTES
    }
    fn top(&self) -> usize {
        self.start + MAPPED_BYTES
    }

    /// What computations on this stack are told of it, of which they may use `depth_bytes`.
    pub fn limit(&self, depth_bytes: usize) -> StackLimit {
        StackLimit::new(self.top(), self.end(), depth_bytes)
    }

    /// Gives the memory back that only a deep computation has touched. Nobody runs on the stack.
    pub fn trim(&mut self) {
        // SAFETY: the range is inside of the mapping and in no use; its bytes read as zeros afterwards.
        unsafe { libc::madvise(self.end() as *mut _, STACK_BYTES - SHALLOW_BYTES, libc::MADV_DONTNEED) };
    }
}

impl Drop for StatementStack {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nobody runs on it.
        unsafe { libc::munmap(self.start as *mut _, MAPPED_BYTES) };
    }
}

// SAFETY: the guard stops an overflow (invariant 1), the addresses are page-aligned, and the mapping lives as long as the
// value.
unsafe impl Stack for StatementStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.top()).unwrap_or(StackPointer::MAX)
    }
    fn limit(&self) -> StackPointer {
        StackPointer::new(self.start).unwrap_or(StackPointer::MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::stack::{self, DEPTH_MAX_BYTES};

    fn resident_pages(stack: &StatementStack) -> usize {
        let mut pages = vec![0u8; MAPPED_BYTES / 4096];
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        let done = unsafe { libc::mincore(stack.start as *mut _, MAPPED_BYTES, pages.as_mut_ptr()) };
        assert_eq!(done, 0);
        pages.iter().filter(|p| **p & 1 == 1).count()
    }
    fn levels() -> usize {
        let room = std::hint::black_box([0u8; 1000]);
        if stack::check().is_err() { 0 } else { 1 + levels() + usize::from(room[7]) }
    }

    #[test]
    fn a_deep_computation_ends_at_the_limit_and_its_memory_goes_back() {
        let stack = StatementStack::new().unwrap();
        let mut limit = stack.limit(DEPTH_MAX_BYTES);
        let mut coroutine = corosensei::Coroutine::<(), (), usize, _>::with_stack(stack, |_, ()| levels());
        let done = stack::on_stack(&mut limit, || coroutine.resume(()));
        let corosensei::CoroutineResult::Return(reached) = done else { panic!("it does not suspend") };
        assert!((5_000..41_000).contains(&reached), "{reached}");
        assert!(limit.was_deep());
        let mut stack = coroutine.into_stack();
        assert!(resident_pages(&stack) > 9_000);
        stack.trim();
        assert!(resident_pages(&stack) <= SHALLOW_BYTES / 4096);
    }
}
