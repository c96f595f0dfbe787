//! How much memory each computation holds, all of them together, and how much they may.
//!
//! The program's allocator tells of each block ([`allocated`], [`freed`]); the thread's present account takes note of it.
//! Who suspends a computation puts its account aside with it ([`replace`]). An allocator cannot refuse: the program would
//! end. So the computation is asked at its next look ([`check`]) and fails with 53200. A large block makes that look come
//! before its next step, when hardly a page of the block has been touched. Until then the block takes room from those who
//! hold much, and is no reason to refuse those who hold little: its owner may be refused himself.
//!
//! How much one may hold is what nobody holds yet: who is alone gets one half of what there is, who holds little is
//! let through when those who hold much are refused. (Dynamic thresholds, as for shared buffers in switches: Choudhury and
//! Hahne, "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM ToN 6(2), 1998, with α = 1.) The
//! account's own limit comes first, if it has one.
//!
//! Invariants
//! 1. The sum over all threads is exact but for [`UNTOLD_BYTES`] of each.
//! 2. Nothing here allocates: the allocator calls it.
//! 3. A block that one computation allocates and another frees is taken from the other's account: an account is an
//!    estimate, the sum is not. An account below zero counts as empty.
//!
//! Must not know: allocators, sessions, where the limits come from.

use crate::{Error, Result, sqlstate, work};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// A thread tells the sum of what it has allocated and freed once it is so much.
pub(crate) const UNTOLD_BYTES: i64 = 64 << 10;
/// A computation that holds less than this is not refused for what others hold, in bytes, unless they hold even more
/// than they may.
pub(crate) const LITTLE_BYTES: i64 = 1 << 20;
/// After a block of this size a computation looks at its next step; after so much in small blocks, too.
const LARGE_BYTES: i64 = 1 << 20;

/// What one computation holds.
#[derive(Clone, Copy, Debug)]
pub struct MemoryAccount {
    /// Bytes allocated less bytes freed since it was opened.
    pub held_bytes: i64,
    /// What it may hold whatever there is.
    pub limit_bytes: i64,
}

/// The account of threads that compute for nobody, and of a computation that begins.
pub const EMPTY: MemoryAccount = MemoryAccount { held_bytes: 0, limit_bytes: i64::MAX };

impl Default for MemoryAccount {
    fn default() -> MemoryAccount {
        EMPTY
    }
}

/// What the calling thread counts, in one piece: the allocator finds it by one address.
struct ThreadCounts {
    held: Cell<i64>,
    limit: Cell<i64>,
    /// The value of `held` at which the sum was told last, or the account came, and from which on it is told again.
    told: Cell<i64>,
    above: Cell<i64>,
    below: Cell<i64>,
    /// What the sum has not been told yet of accounts that were put aside.
    untold: Cell<i64>,
    /// The number of held bytes at which the computation has to look.
    look_at: Cell<i64>,
    /// The bytes of large blocks that the computation has not looked at yet.
    unlooked: Cell<i64>,
    /// What the thread has freed, but for little at a time, since somebody asked.
    freed: Cell<u64>,
    /// What the thread has allocated or freed, but for little at a time, since somebody asked.
    moved: Cell<u64>,
}

crate::task_local! {
    static COUNTS: ThreadCounts = const { ThreadCounts {
        held: Cell::new(0),
        limit: Cell::new(i64::MAX),
        told: Cell::new(0),
        above: Cell::new(UNTOLD_BYTES),
        below: Cell::new(-UNTOLD_BYTES),
        untold: Cell::new(0),
        look_at: Cell::new(LARGE_BYTES),
        unlooked: Cell::new(0),
        freed: Cell::new(0),
        moved: Cell::new(0),
    } };
}

/// What all threads hold.
static SUM: AtomicI64 = AtomicI64::new(0);
/// What they may hold together.
static SUM_LIMIT: AtomicI64 = AtomicI64::new(i64::MAX);
/// The part of the sum that is large blocks whose owners have not looked yet.
static UNLOOKED: AtomicI64 = AtomicI64::new(0);
/// What [`is_exhausted`] said last: a hint for those who hold little, who ask again before they are refused.
static IS_EXHAUSTED: AtomicBool = AtomicBool::new(false);

/// A block of so many bytes has been allocated by the calling thread.
#[inline]
pub fn allocated(bytes: usize) {
    COUNTS.with(|c| {
        let held = c.held.get() + bytes as i64;
        c.held.set(held);
        if held > c.above.get() {
            tell(c);
        }
    });
}

/// A block of so many bytes has been freed by the calling thread.
#[inline]
pub fn freed(bytes: usize) {
    COUNTS.with(|c| {
        let held = c.held.get() - bytes as i64;
        c.held.set(held);
        if held < c.below.get() {
            tell(c);
        }
    });
}

/// The sum hears of everything; a computation that holds much more than at its last look looks soon.
#[cold]
fn tell(c: &ThreadCounts) {
    let held = c.held.get();
    let change = held - c.told.get();
    c.moved.set(c.moved.get() + change.unsigned_abs());
    if change < 0 {
        c.freed.set(c.freed.get() + change.unsigned_abs());
    }
    if change >= LARGE_BYTES {
        set_unlooked(c, c.unlooked.get() + change);
    }
    add_to_sum(change + c.untold.replace(0));
    if change < 0 && c.unlooked.get() > 0 {
        set_unlooked(c, (c.unlooked.get() + change).max(0));
    }
    begin_telling(c, held);
    if held >= c.look_at.get() {
        c.look_at.set(held + LARGE_BYTES);
        work::look_at_next_step();
    }
}

fn add_to_sum(bytes: i64) {
    SUM.fetch_add(bytes, Ordering::SeqCst);
    renew_hint();
}

fn set_unlooked(c: &ThreadCounts, bytes: i64) {
    UNLOOKED.fetch_add(bytes - c.unlooked.replace(bytes), Ordering::SeqCst);
    renew_hint();
}

fn renew_hint() {
    let is_exhausted = is_exhausted();
    if is_exhausted != IS_EXHAUSTED.load(Ordering::Relaxed) {
        IS_EXHAUSTED.store(is_exhausted, Ordering::Relaxed);
    }
}

/// The computation keeps what it has allocated: it has looked, or somebody else goes on with what it held.
fn settle_unlooked(c: &ThreadCounts) {
    if c.unlooked.get() != 0 {
        set_unlooked(c, 0);
    }
}

/// Whether all computations hold an eighth more than they may together, large blocks that are still to be judged left
/// out: nobody is let through then, however little he holds.
fn is_exhausted() -> bool {
    let limit = SUM_LIMIT.load(Ordering::Relaxed);
    // A block comes and goes in two steps: whichever of them are seen, it is not taken for one that was judged.
    let unlooked_before = UNLOOKED.load(Ordering::SeqCst);
    let sum = SUM.load(Ordering::SeqCst);
    let unlooked = UNLOOKED.load(Ordering::SeqCst).max(unlooked_before);
    sum.saturating_sub(unlooked) > limit.saturating_add(limit / 8)
}

fn begin_telling(c: &ThreadCounts, held: i64) {
    c.told.set(held);
    c.above.set(held + UNTOLD_BYTES);
    c.below.set(held - UNTOLD_BYTES);
}

/// The thread counts for `next` from now on. Returns what it has counted for until now.
pub fn replace(next: MemoryAccount) -> MemoryAccount {
    COUNTS.with(|c| {
        settle_unlooked(c);
        let held = c.held.replace(next.held_bytes);
        let untold = c.untold.get() + held - c.told.get();
        c.untold.set(untold);
        if untold.abs() >= UNTOLD_BYTES {
            add_to_sum(c.untold.replace(0));
        }
        begin_telling(c, next.held_bytes);
        c.look_at.set(next.held_bytes + LARGE_BYTES);
        MemoryAccount { held_bytes: held, limit_bytes: c.limit.replace(next.limit_bytes) }
    })
}

/// What the present computation holds and may hold.
pub fn account() -> MemoryAccount {
    COUNTS.with(|c| MemoryAccount { held_bytes: c.held.get(), limit_bytes: c.limit.get() })
}

/// The present computation goes on as if it held so much: what it held before has become others', or was its own.
pub fn set_held(bytes: i64) {
    let limit_bytes = COUNTS.with(|c| c.limit.get());
    replace(MemoryAccount { held_bytes: bytes, limit_bytes });
}

/// Limits what the present computation may hold from now on, in bytes; `i64::MAX`: whatever there is.
pub fn limit_account(limit_bytes: i64) {
    COUNTS.with(|c| c.limit.set(limit_bytes));
}

/// Limits what all computations together may hold from now on, in bytes.
pub fn limit_sum(limit_bytes: u64) {
    SUM_LIMIT.store(i64::try_from(limit_bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
}

/// What the calling thread has freed since [`forget_freed`], but for little at a time.
pub fn freed_bytes() -> u64 {
    COUNTS.with(|c| c.freed.get())
}

pub fn forget_freed() {
    COUNTS.with(|c| c.freed.set(0));
}

/// What the calling thread has allocated or freed since [`forget_moved`], but for little at a time.
pub fn moved_bytes() -> u64 {
    COUNTS.with(|c| c.moved.get())
}

pub fn forget_moved() {
    COUNTS.with(|c| c.moved.set(0));
}

/// What all hold together.
pub(crate) fn sum_bytes() -> i64 {
    SUM.load(Ordering::Relaxed)
}

/// What all may hold together.
pub(crate) fn sum_limit_bytes() -> i64 {
    SUM_LIMIT.load(Ordering::Relaxed)
}

/// Whether a computation that holds nothing yet could hold so many bytes.
pub fn is_room_for(bytes: usize) -> bool {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    bytes <= sum_limit_bytes().saturating_sub(sum_bytes()).saturating_sub(bytes)
}

/// Fails with 53200 when the present computation holds more than it may.
#[inline]
pub fn check() -> Result<()> {
    room_for(0)
}

/// Fails with 53200 when the present computation held more than it may if it held so many bytes more: for what is
/// allocated where nobody can look.
#[inline]
pub(crate) fn room_for(bytes: usize) -> Result<()> {
    let (held, limit) = COUNTS.with(|c| (c.held.get(), c.limit.get()));
    let wanted = held.max(0).saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
    let is_little = wanted < LITTLE_BYTES.min(limit) && !IS_EXHAUSTED.load(Ordering::Relaxed);
    if is_little { Ok(()) } else { judge(wanted, bytes, limit) }
}

#[cold]
fn judge(wanted: i64, more: usize, limit: i64) -> Result<()> {
    if wanted > limit {
        return Err(refused(wanted, more, &format!("\"statement_mem_limit\" is {} kB", limit >> 10)));
    }
    let more = more as i64;
    let free = SUM_LIMIT.load(Ordering::Relaxed).saturating_sub(SUM.load(Ordering::Relaxed)).saturating_sub(more);
    let least = if is_exhausted() { 0 } else { LITTLE_BYTES };
    if wanted <= free.max(least) {
        COUNTS.with(settle_unlooked);
        return Ok(());
    }
    Err(refused(wanted, more as usize, &format!("the server has {} kB left for all statements", free.max(0) >> 10)))
}

fn refused(wanted: i64, more: usize, why: &str) -> Error {
    let what = if more == 0 {
        format!("The statement holds {} kB", wanted >> 10)
    } else {
        format!("The statement would hold {} kB", wanted >> 10)
    };
    Error::new(sqlstate::OUT_OF_MEMORY, "out of memory").with_detail(format!("{what}, and {why}."))
}

/// Memory that another allocator takes on the computation's behalf, as long as the value lives. The estimate of how
/// much it is counts for the account and for the sum.
#[derive(Debug)]
pub struct MemoryClaim {
    bytes: usize,
}

impl MemoryClaim {
    /// Fails with 53200 if there is not so much room.
    pub fn new(bytes: usize) -> Result<MemoryClaim> {
        room_for(bytes)?;
        allocated(bytes);
        Ok(MemoryClaim { bytes })
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        freed(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard};

    /// The limit and the sum are the program's: tests that change them take turns.
    fn alone(limit_bytes: u64) -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
        limit_sum(limit_bytes);
        turn
    }
    const MB: usize = 1 << 20;

    #[test]
    fn who_is_alone_gets_one_half() {
        let _turn = alone(100 << 20);
        let before = replace(EMPTY);
        let start = sum_bytes();
        assert!(start.abs() < 1 << 20, "{start}");
        allocated(49 * MB);
        check().unwrap();
        assert!(room_for(2 * MB).is_err());
        allocated(2 * MB);
        let e = check().unwrap_err();
        assert_eq!(e.sqlstate(), sqlstate::OUT_OF_MEMORY);
        // Another that holds little is let through, and one that wants much is not.
        let large = replace(EMPTY);
        check().unwrap();
        allocated(MB / 2);
        check().unwrap();
        assert!(room_for(30 * MB).is_err());
        freed(MB / 2);
        replace(large);
        freed(51 * MB);
        check().unwrap();
        replace(before);
        limit_sum(u64::MAX);
        assert!((sum_bytes() - start).abs() <= UNTOLD_BYTES);
    }

    #[test]
    fn nobody_is_let_through_when_all_is_gone() {
        let _turn = alone(100 << 20);
        let before = replace(EMPTY);
        // What others keep: sessions' definitions, queues.
        allocated(111 * MB);
        replace(EMPTY);
        allocated(1000);
        check().unwrap();
        let little = replace(EMPTY);
        allocated(2 * MB);
        let last = replace(little);
        assert!(check().is_err());
        replace(last);
        freed(2 * MB);
        replace(little);
        check().unwrap();
        freed(1000 + 111 * MB);
        replace(before);
        limit_sum(u64::MAX);
    }

    #[test]
    fn a_block_that_is_not_judged_yet_refuses_nobody_who_holds_little() {
        let _turn = alone(100 << 20);
        let before = replace(EMPTY);
        allocated(300 * MB);
        std::thread::scope(|scope| {
            let others = scope.spawn(|| {
                allocated(1000);
                check().unwrap();
                allocated(2 * MB);
                assert!(check().is_err(), "who holds much has no room");
                freed(1000 + 2 * MB);
            });
            others.join().unwrap();
        });
        assert!(check().is_err());
        freed(300 * MB);
        assert_eq!(UNLOOKED.load(Ordering::Relaxed), 0);
        // What has been let through is judged, as is what others go on with.
        allocated(40 * MB);
        assert_eq!(UNLOOKED.load(Ordering::Relaxed), 40 << 20);
        check().unwrap();
        assert_eq!(UNLOOKED.load(Ordering::Relaxed), 0);
        allocated(300 * MB);
        let large = replace(EMPTY);
        assert!(is_exhausted());
        replace(large);
        freed(340 * MB);
        replace(before);
        limit_sum(u64::MAX);
    }

    #[test]
    fn the_accounts_own_limit_comes_first() {
        let _turn = alone(u64::MAX);
        let before = replace(EMPTY);
        limit_account(100 << 10);
        allocated(99 << 10);
        check().unwrap();
        let claim = MemoryClaim::new(10 << 10);
        assert!(claim.is_err());
        drop(claim);
        let claim = MemoryClaim::new(1 << 10).unwrap();
        assert_eq!(account().held_bytes, 100 << 10);
        drop(claim);
        assert_eq!(account().held_bytes, 99 << 10);
        limit_account(i64::MAX);
        allocated(MB);
        check().unwrap();
        freed(MB + (99 << 10));
        replace(before);
    }

    #[test]
    fn the_sum_misses_little_however_often_accounts_change() {
        let _turn = alone(u64::MAX);
        let start = sum_bytes();
        let before = replace(EMPTY);
        for _ in 0..10_000 {
            let account = replace(EMPTY);
            allocated(1000);
            replace(account);
        }
        assert!((sum_bytes() - start - 10_000_000).abs() <= UNTOLD_BYTES, "{}", sum_bytes() - start);
        freed(10_000_000);
        assert!((sum_bytes() - start).abs() <= UNTOLD_BYTES);
        replace(before);
    }
}
