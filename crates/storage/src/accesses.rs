//! The accesses of a thread to buffers, temporary files and the log, counted for EXPLAIN.
//!
//! Invariants
//! 1. A thread counts for itself, always: one addition to memory of its own for a page, no branch, nothing shared.
//! 2. The numbers only grow: what something has cost is the difference of two [`now`].
//! 3. They belong to the statement that runs on the thread. When a statement is put aside, its [`now`] is kept and
//!    handed back with [`resume`] when it goes on, so that what other statements do on the thread meanwhile is not
//!    counted as its work.
//!
//! Must not know: plans, who looks at the numbers.

use std::cell::Cell;

/// The kinds of accesses that are counted. For each kind of page access, the counter of shared pages stands before that
/// of a session's private pages.
#[derive(Clone, Copy)]
pub(crate) enum AccessKind {
    /// A page was read or latched, wherever it came from.
    Page = 0,
    /// The page came from the file.
    Read = 2,
    Dirtied = 4,
    Written = 6,
    LogRecords = 10,
    LogBytes,
    LogBuffersFull,
}
const TEMPORARY_READ: usize = 8;
const TEMPORARY_WRITTEN: usize = 9;
const COUNTS: usize = 13;

kilndb_base::task_local! {
    static COUNTED: [Cell<u64>; COUNTS] = const { [const { Cell::new(0) }; COUNTS] };
}

#[inline]
fn add(place: usize, n: u64) {
    COUNTED.with(|counted| counted[place].set(counted[place].get().wrapping_add(n)));
}

/// Counts an access to a page; `is_private`: it is in a session's private store.
#[inline]
pub(crate) fn count_pages(count: AccessKind, is_private: bool, n: u64) {
    add(count as usize + usize::from(is_private), n);
}
#[inline]
pub(crate) fn count(count: AccessKind, n: u64) {
    add(count as usize, n);
}

fn blocks(bytes: usize) -> u64 {
    bytes.div_ceil(crate::page::PAGE) as u64
}
/// Counts bytes read from a temporary file.
pub fn count_temporary_read(bytes: usize) {
    add(TEMPORARY_READ, blocks(bytes));
}
pub fn count_temporary_written(bytes: usize) {
    add(TEMPORARY_WRITTEN, blocks(bytes));
}

/// The accesses counted up to a moment, or between two moments.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Accesses([u64; COUNTS]);

/// The accesses to pages of one kind.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct PageAccesses {
    pub hit: u64,
    pub read: u64,
    pub dirtied: u64,
    pub written: u64,
}

/// All accesses that this thread has counted since it began.
pub fn now() -> Accesses {
    COUNTED.with(|counted| Accesses(std::array::from_fn(|i| counted[i].get())))
}

/// A statement goes on that had counted so much when it was put aside.
pub fn resume(kept: &Accesses) {
    COUNTED.with(|counted| counted.iter().zip(kept.0).for_each(|(cell, n)| cell.set(n)));
}

/// Adds the accesses of a helper thread that did a part of the statement's work.
pub fn take_over(theirs: &Accesses) {
    theirs.0.iter().enumerate().for_each(|(place, n)| add(place, *n));
}

impl Accesses {
    /// The accesses counted since `before`.
    pub fn since(&self, before: &Accesses) -> Accesses {
        Accesses(std::array::from_fn(|i| self.0[i].wrapping_sub(before.0[i])))
    }
    pub fn add(&mut self, more: &Accesses) {
        self.0.iter_mut().zip(more.0).for_each(|(n, more)| *n += more);
    }
    fn pages(&self, private: usize) -> PageAccesses {
        let of = |count: AccessKind| self.0[count as usize + private];
        let read = of(AccessKind::Read);
        PageAccesses {
            hit: of(AccessKind::Page).saturating_sub(read),
            read,
            dirtied: of(AccessKind::Dirtied),
            written: of(AccessKind::Written),
        }
    }
    pub fn shared(&self) -> PageAccesses {
        self.pages(0)
    }
    /// The accesses to pages of temporary relations.
    pub fn local(&self) -> PageAccesses {
        self.pages(1)
    }
    /// The blocks read from temporary files.
    pub fn temporary_read(&self) -> u64 {
        self.0[TEMPORARY_READ]
    }
    pub fn temporary_written(&self) -> u64 {
        self.0[TEMPORARY_WRITTEN]
    }
    pub fn log_records(&self) -> u64 {
        self.0[AccessKind::LogRecords as usize]
    }
    pub fn log_bytes(&self) -> u64 {
        self.0[AccessKind::LogBytes as usize]
    }
    pub fn log_buffers_full(&self) -> u64 {
        self.0[AccessKind::LogBuffersFull as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_do_meanwhile_is_not_counted() {
        let before = now();
        count_pages(AccessKind::Page, false, 3);
        count_pages(AccessKind::Read, false, 1);
        let kept = now();
        count_pages(AccessKind::Page, true, 5);
        count(AccessKind::LogBytes, 7);
        resume(&kept);
        count_pages(AccessKind::Page, true, 1);
        count_temporary_written(8193);
        let helper = std::thread::spawn(|| {
            count_pages(AccessKind::Page, false, 4);
            now()
        });
        take_over(&helper.join().expect("a helper"));
        let found = now().since(&before);
        assert_eq!(found.shared(), PageAccesses { hit: 6, read: 1, dirtied: 0, written: 0 });
        assert_eq!((found.local().hit, found.temporary_written(), found.log_bytes()), (1, 2, 0));
    }
}
