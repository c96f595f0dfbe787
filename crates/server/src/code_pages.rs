//! The server's own instructions in huge pages.
//!
//! What a statement runs through is some megabytes of instructions, and each transaction passes through most of what it
//! needs of them once: with 4 kB pages the processor looks up more translations than it can keep (in a virtual machine
//! each look-up that misses goes through two page tables). The system makes huge pages of anonymous memory only, so the
//! middle of the code is copied into such memory, which then takes the place of the file's pages.
//!
//! Invariants
//! 1. At every moment all of the code can be executed at its address: the copy is complete before it takes the place of
//!    what it is a copy of, and the system puts it there in one step.
//! 2. No page can be written and executed at once.
//!
//! 3. Only where instructions that were written as data need no further step before they are executed: on x86-64.
//!
//! Must not know: what the server does. Profilers see no file behind such pages: `huge_pages = off` leaves all where it
//! was.

use std::ops::Range;

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Puts the code of this program into huge pages as far as whole ones fit; returns how many bytes. Any failure leaves
/// what is there.
pub fn gather() -> usize {
    if !cfg!(target_arch = "x86_64") {
        return 0;
    }
    gather_whole(HUGE_PAGE_BYTES)
}

/// Gathers as `gather` does, with whole pages of `page_bytes`.
fn gather_whole(page_bytes: usize) -> usize {
    program_code().map_or(0, |code| {
        let start = code.start.next_multiple_of(page_bytes);
        let end = code.end / page_bytes * page_bytes;
        if start < end && replace(start, end - start, page_bytes) { end - start } else { 0 }
    })
}

/// Addresses of the program's executable segment, if it has just one.
fn program_code() -> Option<Range<usize>> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, found: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the loader hands over a valid description of the object, `dlpi_phnum` headers long.
        let (base, headers) = unsafe {
            ((*info).dlpi_addr as usize, std::slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum)))
        };
        // SAFETY: what `program_code` passes.
        let found = unsafe { &mut *found.cast::<Option<Range<usize>>>() };
        let mut code = headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0);
        if let (Some(only), None) = (code.next(), code.next()) {
            let start = base + only.p_vaddr as usize;
            *found = Some(start..start + only.p_memsz as usize);
        }
        // The program comes first; libraries stay as they are.
        1
    }
    let mut found = None;
    // SAFETY: `visit` takes the pointer for what it is, and does not keep it.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// `start` and `len` are multiples of `page_bytes`, and the range is executable code of this program.
fn replace(start: usize, len: usize, page_bytes: usize) -> bool {
    let mapped = len + page_bytes;
    // SAFETY: an anonymous private mapping at an address the kernel chooses.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            mapped,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return false;
    }
    let copy_start = (base as usize).next_multiple_of(page_bytes);
    let copy = copy_start as *mut libc::c_void;
    // SAFETY: `copy` is `len` bytes of the new mapping, which nobody else knows; the code is readable and does not
    // change. The last call replaces the code by what is equal to it, as one change of the address space (invariants 1
    // and 2).
    let moved = unsafe {
        libc::madvise(copy, len, libc::MADV_HUGEPAGE);
        std::ptr::copy_nonoverlapping(start as *const u8, copy.cast::<u8>(), len);
        (page_bytes < HUGE_PAGE_BYTES || libc::madvise(copy, len, libc::MADV_COLLAPSE) == 0)
            && libc::mprotect(copy, len, libc::PROT_READ | libc::PROT_EXEC) == 0
            && libc::mremap(copy, len, len, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, start as *mut libc::c_void)
                != libc::MAP_FAILED
    };
    // SAFETY: what is left of the mapping is ours: all but the copy, or all. The copy's addresses belong to nobody once
    // it has moved, and are left out because another thread may have got them since.
    unsafe {
        libc::munmap(base, copy_start - base as usize);
        libc::munmap((copy_start + len) as *mut libc::c_void, base as usize + mapped - copy_start - len);
        if !moved {
            libc::munmap(copy, len);
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use kilndb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

    /// Code that runs before, while and after it is replaced, on two threads. In small pages: a test has less code than
    /// a huge page.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore)]
    fn code_runs_on_while_its_pages_are_replaced() {
        let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        let wait_for_rounds = || {
            let seen = rounds.load(Relaxed);
            while rounds.load(Relaxed) < seen + 1000 {
                kilndb_base::sync::yield_now();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    rounds.fetch_add(
                        u64::from(format!("{}", rounds.load(Relaxed)).parse::<u64>() == Ok(rounds.load(Relaxed))),
                        Relaxed,
                    );
                }
            });
            wait_for_rounds();
            let code = super::program_code().expect("a program has code");
            assert!(code.contains(&(super::gather as *const () as usize)));
            let whole = code.end / 4096 * 4096 - code.start.next_multiple_of(4096);
            for _ in 0..20 {
                assert_eq!(super::gather_whole(4096), whole);
            }
            wait_for_rounds();
            stop.store(true, Relaxed);
        });
        assert!(
            std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(7))).is_err(),
            "unwinding finds its tables"
        );
        let file_behind = std::fs::read_to_string("/proc/self/maps").expect("the system tells the mappings");
        let here = super::gather as *const () as usize;
        let line = file_behind.lines().find(|line| {
            let (start, end) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).expect("a range");
            (usize::from_str_radix(start, 16).expect("hex")..usize::from_str_radix(end, 16).expect("hex"))
                .contains(&here)
        });
        let line = line.expect("the code is somewhere");
        assert!(line.contains("r-xp") && !line.contains('/'), "no file behind it, and it cannot be written: {line}");
    }
}
