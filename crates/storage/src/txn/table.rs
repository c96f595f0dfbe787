//! Transaction states by xid, and live snapshots.
//!
//! Invariants
//! 1. A state is set inside the log's insertion section, before the CSN is published.
//! 2. A snapshot slot is filled with the newest CSN at a moment after the slot became visible, so the horizon
//!    never passes a live snapshot.
//! 3. Who has taken a slot is noted after that: who looks may see the owner before, and nothing but figures depends on it.
//!
//! Must not know: undo, pages.

use crate::reserve::LazyArray;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use kilndb_base::{Error, Result, sqlstate};

pub(crate) const IN_PROGRESS: u64 = 0;
pub(crate) const WAITED_FOR: u64 = 1;
pub const ABORTED: u64 = u64::MAX;
pub(crate) const FIRST_CSN: u64 = 2;

const STATE: usize = 0;
const HEAD: usize = 1;
const PURGE: usize = 2;
const OWNER: usize = 3;
const UNLOGGED_HEAD: usize = 4;
const WORDS: usize = 5;
/// A flag in the owner's word: the transaction ends with its statement.
const BRIEF: u64 = 1 << 63;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    InProgress,
    Committed { csn: u64, asynchronous: bool },
    Aborted,
}

pub(crate) struct XidTable {
    /// A power of two: ids this far apart share their place, so no two such are needed at a time.
    cap: usize,
    words: LazyArray<AtomicU64>,
    pub next: AtomicU64,
    /// All transactions below this id have ended, purge included.
    oldest: AtomicU64,
    /// The entries of ids below this one are zeros, ready for new ids: nobody asks for them any more.
    floor: AtomicU64,
    freeing: Mutex<()>,
}

impl XidTable {
    pub fn new(next: u64, cap: usize) -> Result<XidTable> {
        Ok(XidTable {
            cap,
            words: LazyArray::new(cap * WORDS)?,
            next: AtomicU64::new(next),
            oldest: AtomicU64::new(next),
            floor: AtomicU64::new(next),
            freeing: Mutex::default(),
        })
    }
    /// Sets the next id after recovery: all transactions below it have ended.
    pub(crate) fn restart_at(&self, next: u64) {
        self.next.fetch_max(next, SeqCst);
        let next = self.next.load(SeqCst);
        self.oldest.store(next, SeqCst);
        self.floor.store(next, SeqCst);
    }
    /// How many ids have an entry in the table.
    pub(crate) fn in_use(&self) -> u64 {
        self.next.load(Relaxed) - self.floor.load(Relaxed)
    }
    #[inline]
    fn word(&self, xid: u64, which: usize) -> &AtomicU64 {
        self.words.get((xid as usize & (self.cap - 1)) * WORDS + which)
    }
    /// `brief`: the transaction is expected to end with the statement that writes.
    /// Err: an id so much older is still needed that the new one would come to its place.
    pub fn assign(&self, owner: u64, brief: bool) -> Result<u64> {
        let floor = self.floor.load(Acquire);
        let is_free = |xid: u64| xid - floor < self.cap as u64 || planted::is(PlantedBug::PlacesOfXidsTakenTwice);
        let next = self.next.fetch_update(SeqCst, Relaxed, |xid| is_free(xid).then(|| xid + 1));
        let xid = next.map_err(|_| no_xid())?;
        // The rest of the entry is zeros, which means "in progress".
        self.word(xid, OWNER).store(owner | if brief { BRIEF } else { 0 }, Release);
        Ok(xid)
    }
    #[inline]
    pub fn status(&self, xid: u64) -> Status {
        match self.word(xid, STATE).load(Acquire) {
            IN_PROGRESS | WAITED_FOR => Status::InProgress,
            ABORTED => Status::Aborted,
            s => Status::Committed { csn: s >> 1, asynchronous: s & 1 != 0 },
        }
    }
    /// Notes the commit; true if a transaction waits for this one.
    pub(crate) fn set_committed(&self, xid: u64, csn: u64, asynchronous: bool) -> bool {
        debug_assert!((FIRST_CSN..ABORTED >> 1).contains(&csn), "transaction {xid} commits with number {csn}");
        let before = self.word(xid, STATE).swap(csn << 1 | u64::from(asynchronous), AcqRel);
        assert!(before <= WAITED_FOR, "a transaction commits after its end");
        before == WAITED_FOR
    }
    pub(crate) fn set_aborted(&self, xid: u64) -> bool {
        let before = self.word(xid, STATE).swap(ABORTED, AcqRel);
        // A transaction may be left open, and rolled back, at a shutdown, and by its owner once more.
        assert!(before <= WAITED_FOR || before == ABORTED, "transaction {xid} rolls back after its commit");
        before == WAITED_FOR
    }
    /// Notes that a transaction waits for this one; false if it has ended already.
    pub(crate) fn mark_waited_for(&self, xid: u64) -> bool {
        let word = self.word(xid, STATE);
        match word.compare_exchange(IN_PROGRESS, WAITED_FOR, AcqRel, Acquire) {
            Ok(_) => true,
            Err(now) => now == WAITED_FOR,
        }
    }
    /// Has the transaction ended? Transactions of an earlier run have.
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
    pub(crate) fn is_brief(&self, xid: u64) -> bool {
        self.word(xid, OWNER).load(Relaxed) & BRIEF != 0
    }
    /// Sets the address of the newest logged undo record.
    pub(crate) fn set_head(&self, xid: u64, address: u64) {
        self.word(xid, HEAD).store(address, Release);
    }
    pub fn head(&self, xid: u64) -> u64 {
        self.word(xid, HEAD).load(Acquire)
    }
    /// Sets the address of the newest undo record of a change that is not logged.
    pub(crate) fn set_unlogged_head(&self, xid: u64, address: u64) {
        self.word(xid, UNLOGGED_HEAD).store(address, Release);
    }
    pub(crate) fn unlogged_head(&self, xid: u64) -> u64 {
        self.word(xid, UNLOGGED_HEAD).load(Acquire)
    }
    pub(crate) fn set_purge(&self, xid: u64, pending: bool) {
        self.word(xid, PURGE).store(u64::from(pending), Release);
    }
    pub(crate) fn wants_purge(&self, xid: u64) -> bool {
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
    /// Frees the entries of ids below the one given, which nobody will ask for, except those of unfinished
    /// transactions: they become zeros, and their memory goes back to the system.
    pub(crate) fn free_below(&self, below: u64) {
        let _one = crate::lock(&self.freeing);
        let from = self.floor.load(Acquire);
        let to = below.min(self.oldest.load(Acquire));
        if to <= from {
            return;
        }
        let place = |xid: u64| xid as usize & (self.cap - 1);
        let first = (to - from).min((self.cap - place(from)) as u64);
        for (start, count) in [(place(from), first), (0, to - from - first)] {
            self.words.zero(start * WORDS, (start + count as usize) * WORDS);
        }
        self.floor.store(to, Release);
    }
}

#[cold]
fn no_xid() -> Error {
    Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "all transaction ids are in use").with_hint(
        "A transaction that began very long ago is still open. Its end, or that of its session, sets ids free.",
    )
}

const SLOTS: usize = 1 << 16;

pub(crate) struct SnapshotRegistry {
    slots: LazyArray<AtomicU64>,
    /// The lock owners that have the slots, or had them.
    owners: LazyArray<AtomicU64>,
    hints: Vec<(AtomicU32, AtomicU32)>,
}
impl SnapshotRegistry {
    pub fn new(workers: usize) -> Result<SnapshotRegistry> {
        Ok(SnapshotRegistry {
            slots: LazyArray::new(workers * SLOTS)?,
            owners: LazyArray::new(workers * SLOTS)?,
            hints: (0..workers).map(|_| Default::default()).collect(),
        })
    }
    /// Registers the newest CSN for a lock owner; returns slot and CSN.
    #[inline]
    pub fn enter(&self, worker: usize, owner: u64, newest: &AtomicU64Ref<'_>) -> (u32, u64) {
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
                kilndb_base::sync::yield_now();
            }
        }
        if high.load(Relaxed) <= index as u32 {
            high.fetch_max(index as u32 + 1, SeqCst);
        }
        let slot = (worker * SLOTS + index) as u32;
        self.owners.get(slot as usize).store(owner, Relaxed);
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
        let slot_word = self.slots.get(slot as usize);
        debug_assert!(slot_word.load(Relaxed) != 0, "snapshot slot {slot} is left by who has not entered it");
        slot_word.store(0, Release);
        let worker = slot as usize / SLOTS;
        self.hints[worker].0.store((slot as usize % SLOTS) as u32, Relaxed);
    }
    fn each(&self, mut f: impl FnMut(u64)) {
        self.each_slot(|_, csn| f(csn));
    }
    #[inline]
    fn each_slot(&self, mut f: impl FnMut(usize, u64)) {
        for (worker, (_, high)) in self.hints.iter().enumerate() {
            for index in 0..high.load(SeqCst) as usize {
                let slot = worker * SLOTS + index;
                let csn = self.slots.get(slot).load(SeqCst);
                if csn != 0 {
                    f(slot, csn);
                }
            }
        }
    }
    /// The live snapshots with the lock owners that have taken them, the oldest first: CSN, owner.
    pub fn holders(&self) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        self.each_slot(|slot, csn| found.push((csn, self.owners.get(slot).load(Relaxed))));
        found.sort_unstable();
        found
    }
    /// The oldest live snapshot, or `newest` (read before the call).
    pub fn oldest(&self, newest: u64) -> u64 {
        let mut oldest = newest;
        self.each(|csn| oldest = oldest.min(csn));
        oldest
    }
    /// The live snapshots; `newest` is the newest CSN, read before the call.
    pub fn live(&self, newest: u64) -> LiveSnapshots {
        let mut csns = vec![newest];
        self.each(|csn| {
            if csn < newest {
                csns.push(csn)
            }
        });
        csns.sort_unstable();
        csns.dedup();
        LiveSnapshots { csns }
    }
}
/// The CSNs of the snapshots that live at one moment, or may still be taken. It stays valid for any time: a snapshot
/// that is taken after that moment has a CSN not below the newest of that moment, so every version that was replaced
/// later counts as seen.
pub(crate) struct LiveSnapshots {
    /// The CSNs in ascending order. The last one is the newest CSN of that moment, which stands for all snapshots taken
    /// later.
    csns: Vec<u64>,
}
impl LiveSnapshots {
    /// For when there is nobody left, and nobody will come.
    pub fn none() -> LiveSnapshots {
        LiveSnapshots { csns: Vec::new() }
    }
    /// Whatever committed at or before this CSN is seen by everybody; without anybody, `newest`.
    pub fn oldest(&self, newest: u64) -> u64 {
        self.csns.first().copied().unwrap_or(newest)
    }
    pub fn csns(self) -> Vec<u64> {
        self.csns
    }
    pub fn contains(&self, csn: u64) -> bool {
        self.csns.binary_search(&csn).is_ok()
    }
    /// A snapshot that sees a version valid in [birth, death).
    pub(crate) fn first_between(&self, birth: u64, death: u64) -> Option<u64> {
        let at = self.csns.partition_point(|s| *s < birth);
        if planted::is(PlantedBug::LaterSnapshotsForgotten) {
            return self.csns.split_last()?.1.get(at).copied().filter(|s| *s < death);
        }
        // A version that was born after the moment can only be seen by later snapshots.
        self.csns.get(at).or(self.csns.last()).copied().filter(|s| *s < death)
    }
}

/// The source of the newest CSN.
pub(crate) struct AtomicU64Ref<'a>(pub &'a crate::wal::Log);
impl AtomicU64Ref<'_> {
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.last_csn()
    }
}
