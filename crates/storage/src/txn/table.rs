//! Transaction states by xid, and live snapshots.
//!
//! Invariants
//! 1. A state is set inside the log's insertion section, before the CSN is published.
//! 2. A snapshot slot is filled with the newest CSN at a moment after the slot became visible, so the horizon
//!    never passes a live snapshot.
//!
//! Must not know: undo, pages.

use crate::reserve::LazyArray;
use kilndb_base::Result;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

pub const IN_PROGRESS: u64 = 0;
pub const WAITED_FOR: u64 = 1;
pub const ABORTED: u64 = u64::MAX;
pub const FIRST_CSN: u64 = 2;

/// Of the shared engine.
pub const XIDS: usize = 1 << 30;
const STATE: usize = 0;
const HEAD: usize = 1;
const PURGE: usize = 2;
const OWNER: usize = 3;
const UNLOGGED_HEAD: usize = 4;
const WORDS: usize = 5;
/// In the owner's word: the transaction ends with its statement.
const BRIEF: u64 = 1 << 63;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    InProgress,
    Committed { csn: u64, asynchronous: bool },
    Aborted,
}

pub struct XidTable {
    /// A power of two: ids this far apart share their place.
    cap: usize,
    words: LazyArray<AtomicU64>,
    pub next: AtomicU64,
    /// Everything below has ended, purge included.
    oldest: AtomicU64,
}

impl XidTable {
    pub fn new(next: u64, cap: usize) -> Result<XidTable> {
        Ok(XidTable {
            cap,
            words: LazyArray::new(cap * WORDS)?,
            next: AtomicU64::new(next),
            oldest: AtomicU64::new(next),
        })
    }
    /// After recovery: everything below `next` has ended.
    pub fn restart_at(&self, next: u64) {
        self.next.fetch_max(next, SeqCst);
        self.oldest.store(self.next.load(SeqCst), SeqCst);
    }
    #[inline]
    fn word(&self, xid: u64, which: usize) -> &AtomicU64 {
        self.words.get((xid as usize & (self.cap - 1)) * WORDS + which)
    }
    /// `brief`: the transaction is expected to end with the statement that writes.
    pub fn assign(&self, owner: u64, brief: bool) -> u64 {
        let xid = self.next.fetch_add(1, SeqCst);
        self.word(xid, HEAD).store(0, Relaxed);
        self.word(xid, UNLOGGED_HEAD).store(0, Relaxed);
        self.word(xid, PURGE).store(0, Relaxed);
        self.word(xid, OWNER).store(owner | if brief { BRIEF } else { 0 }, Relaxed);
        self.word(xid, STATE).store(IN_PROGRESS, Release);
        xid
    }
    #[inline]
    pub fn status(&self, xid: u64) -> Status {
        match self.word(xid, STATE).load(Acquire) {
            IN_PROGRESS | WAITED_FOR => Status::InProgress,
            ABORTED => Status::Aborted,
            s => Status::Committed { csn: s >> 1, asynchronous: s & 1 != 0 },
        }
    }
    /// True if somebody waits for it.
    pub fn set_committed(&self, xid: u64, csn: u64, asynchronous: bool) -> bool {
        self.word(xid, STATE).swap(csn << 1 | u64::from(asynchronous), AcqRel) == WAITED_FOR
    }
    pub fn set_aborted(&self, xid: u64) -> bool {
        self.word(xid, STATE).swap(ABORTED, AcqRel) == WAITED_FOR
    }
    /// False if the transaction has ended.
    pub fn mark_waited_for(&self, xid: u64) -> bool {
        let word = self.word(xid, STATE);
        match word.compare_exchange(IN_PROGRESS, WAITED_FOR, AcqRel, Acquire) {
            Ok(_) => true,
            Err(now) => now == WAITED_FOR,
        }
    }
    /// Committed, rolled back, or of an earlier run.
    pub fn has_ended(&self, xid: u64) -> bool {
        xid < self.oldest.load(Acquire) || self.status(xid) != Status::InProgress
    }
    /// The transaction in progress of an owner, if it has an id. Looks at all: for error messages.
    pub fn running(&self, owner: u64) -> Option<u64> {
        let all = self.oldest.load(Acquire)..self.next.load(SeqCst);
        all.into_iter().find(|xid| self.owner(*xid) == owner && self.status(*xid) == Status::InProgress)
    }
    pub fn owner(&self, xid: u64) -> u64 {
        self.word(xid, OWNER).load(Relaxed) & !BRIEF
    }
    pub fn is_brief(&self, xid: u64) -> bool {
        self.word(xid, OWNER).load(Relaxed) & BRIEF != 0
    }
    /// Newest logged undo record.
    pub fn set_head(&self, xid: u64, address: u64) {
        self.word(xid, HEAD).store(address, Release);
    }
    pub fn head(&self, xid: u64) -> u64 {
        self.word(xid, HEAD).load(Acquire)
    }
    /// Newest undo record of a change that is not logged.
    pub fn set_unlogged_head(&self, xid: u64, address: u64) {
        self.word(xid, UNLOGGED_HEAD).store(address, Release);
    }
    pub fn unlogged_head(&self, xid: u64) -> u64 {
        self.word(xid, UNLOGGED_HEAD).load(Acquire)
    }
    pub fn set_purge(&self, xid: u64, pending: bool) {
        self.word(xid, PURGE).store(u64::from(pending), Release);
    }
    pub fn wants_purge(&self, xid: u64) -> bool {
        self.word(xid, PURGE).load(Acquire) != 0
    }
    /// Unfinished transactions (xid, head, committed and only waiting to be purged).
    pub fn unfinished(&self) -> Vec<(u64, u64, bool)> {
        let mut found = Vec::new();
        let next = self.next.load(SeqCst);
        for xid in self.oldest.load(Acquire)..next {
            let status = self.status(xid);
            let purge = self.word(xid, PURGE).load(Acquire) != 0;
            match status {
                Status::InProgress => found.push((xid, self.head(xid), false)),
                Status::Committed { .. } if purge => found.push((xid, self.head(xid), true)),
                _ => {}
            }
        }
        self.oldest.store(found.first().map_or(next, |(xid, _, _)| *xid), Release);
        found
    }
    /// Gives memory back of ids below the one given (and below every unfinished one).
    pub fn trim(&self, from: u64, below: u64) -> u64 {
        let to = below.min(self.oldest.load(Acquire));
        let place = |xid: u64| xid as usize & (self.cap - 1);
        if to > from && place(from) < place(to) {
            self.words.forget(place(from) * WORDS, place(to) * WORDS);
        }
        to.max(from)
    }
}

const SLOTS: usize = 1 << 16;

pub struct Registry {
    slots: LazyArray<AtomicU64>,
    hints: Vec<(AtomicU32, AtomicU32)>,
}
impl Registry {
    pub fn new(workers: usize) -> Result<Registry> {
        Ok(Registry {
            slots: LazyArray::new(workers * SLOTS)?,
            hints: (0..workers).map(|_| Default::default()).collect(),
        })
    }
    /// Registers the newest CSN; returns slot and CSN.
    #[inline]
    pub fn enter(&self, worker: usize, newest: &AtomicU64Ref<'_>) -> (u32, u64) {
        let (hint, high) = &self.hints[worker];
        let mut index = hint.load(Relaxed) as usize;
        let mut csn = newest.get();
        let mut tries = 0;
        loop {
            let slot = self.slots.get(worker * SLOTS + index);
            if slot.load(Relaxed) == 0 && slot.compare_exchange(0, csn, SeqCst, Relaxed).is_ok() {
                break;
            }
            index = if tries == 0 { 0 } else { (index + 1) % SLOTS };
            tries += 1;
            if tries > SLOTS {
                std::thread::yield_now();
            }
        }
        if high.load(Relaxed) <= index as u32 {
            high.fetch_max(index as u32 + 1, SeqCst);
        }
        let slot = (worker * SLOTS + index) as u32;
        csn = self.settle(slot, csn, newest);
        (slot, csn)
    }
    /// The slot is ours: brings it to the newest CSN.
    #[inline]
    pub fn settle(&self, slot: u32, mut csn: u64, newest: &AtomicU64Ref<'_>) -> u64 {
        loop {
            let now = newest.get();
            if now == csn {
                return csn;
            }
            csn = now;
            self.slots.get(slot as usize).store(csn, SeqCst);
        }
    }
    #[inline]
    pub fn leave(&self, slot: u32) {
        self.slots.get(slot as usize).store(0, Release);
        let worker = slot as usize / SLOTS;
        self.hints[worker].0.store((slot as usize % SLOTS) as u32, Relaxed);
    }
    fn each(&self, mut f: impl FnMut(u64)) {
        for (worker, (_, high)) in self.hints.iter().enumerate() {
            for index in 0..high.load(SeqCst) as usize {
                let csn = self.slots.get(worker * SLOTS + index).load(SeqCst);
                if csn != 0 {
                    f(csn);
                }
            }
        }
    }
    /// The oldest live snapshot, or `newest` (read before the call).
    pub fn oldest(&self, newest: u64) -> u64 {
        let mut oldest = newest;
        self.each(|csn| oldest = oldest.min(csn));
        oldest
    }
    pub fn sorted(&self) -> Vec<u64> {
        let mut all = Vec::new();
        self.each(|csn| all.push(csn));
        all.sort_unstable();
        all.dedup();
        all
    }
}
/// Where the newest CSN is read.
pub struct AtomicU64Ref<'a>(pub &'a crate::wal::Log);
impl AtomicU64Ref<'_> {
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.last_csn()
    }
}
