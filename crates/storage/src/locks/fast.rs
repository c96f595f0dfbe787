//! Fast locks: weak modes, which conflict with none of each other, held without an entry in the lock table.
//!
//! Each worker has groups of places; an owner uses one group. For each hash of a tag a worker also has a word: how many
//! places of its own have such a tag (lower half), and how many hold or want such a tag in a mode that conflicts (upper
//! half, the same with all workers). PostgreSQL's fast path locks are the model, but there each backend has places.
//!
//! Invariants
//! 1. A place counts in its worker's word before its owner relies on it, and the owner relies on it only if the upper
//!    half was zero then. An owner that wants a conflicting mode adds to the upper halves first and looks at the places
//!    afterwards. So one of the two sees the other.
//! 2. A place is moved into the table under the latch of its tag's shard, by clearing its tag. It belongs to the owner
//!    until the owner itself gives it back, after it has held that latch. So whoever clears a tag reads the right
//!    owner.
//! 3. A full group, or a tag that fits into no place, is no error: the table takes it.
//!
//! Must not know: the table.

use crate::api::{LockMode, LockTag};
use kilndb_base::sync::atomic::{AtomicU64, Ordering::*};
use std::hash::{Hash, Hasher};

/// A hasher for the tags of locks.
#[derive(Default, Clone)]
pub(crate) struct TagHasher(u64);
impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(23) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }
}

/// Few, as a transaction begins with the next group each time: what they have of the first places fits into the nearest
/// cache.
const GROUPS: usize = 64;
const GROUP: usize = 16;
const WORDS: usize = 1024;
/// The number that counts one in the upper half of a word.
const CONFLICTING: u64 = 1 << 32;
/// A flag in a place's tag: the place is taken.
const TAKEN: u64 = 1 << 63;
const MODE_SHIFT: u32 = 60;
const FIRST_BITS: u32 = 28;

/// The modes that fast locks can have, as bits.
const WEAK: u16 =
    1 << LockMode::AccessShare as u16 | 1 << LockMode::RowShare as u16 | 1 << LockMode::RowExclusive as u16;

#[derive(Default)]
struct LockSlot {
    /// The owner's number; 0: the place is free.
    owner: AtomicU64,
    /// The lock's tag and mode.
    tag: AtomicU64,
}

#[repr(align(128))]
#[derive(Default)]
struct SlotGroup([LockSlot; GROUP]);

struct FastLockShard {
    groups: Box<[SlotGroup]>,
    words: Box<[AtomicU64]>,
}

pub(crate) struct FastLocks(Box<[FastLockShard]>);

/// A lock that is, or was, held in a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FastLock {
    worker: u32,
    place: u32,
    word: usize,
    tag: u64,
}

fn packed(tag: &LockTag, mode: LockMode) -> Option<u64> {
    let fits = tag.0 == LockTag::MOSTLY_SHARED && tag.1 >> FIRST_BITS == 0 && tag.2 >> 32 == 0;
    fits.then_some(TAKEN | (mode as u64) << MODE_SHIFT | tag.1 << 32 | tag.2)
}

fn unpacked(word: u64) -> Option<(LockTag, LockMode)> {
    let mode = match word >> MODE_SHIFT & 7 {
        1 => LockMode::AccessShare,
        2 => LockMode::RowShare,
        3 => LockMode::RowExclusive,
        _ => return None,
    };
    (word & TAKEN != 0).then_some((
        LockTag(LockTag::MOSTLY_SHARED, word >> 32 & ((1 << FIRST_BITS) - 1), word & u64::from(u32::MAX)),
        mode,
    ))
}

fn word_of(tag: &LockTag) -> usize {
    let mut hasher = TagHasher::default();
    tag.hash(&mut hasher);
    (hasher.finish() >> 40) as usize % WORDS
}

/// Does the mode conflict with one of those that places are for?
pub(crate) fn conflicts_with_fast(tag: &LockTag, mode: LockMode) -> bool {
    tag.0 == LockTag::MOSTLY_SHARED && mode.conflict_bits() & WEAK != 0
}

impl FastLocks {
    pub fn new(workers: usize) -> FastLocks {
        let part = || FastLockShard {
            groups: (0..GROUPS).map(|_| SlotGroup::default()).collect(),
            words: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
        };
        FastLocks((0..workers.max(1)).map(|_| part()).collect())
    }
    fn place(&self, lock: &FastLock) -> &LockSlot {
        &self.0[lock.worker as usize].groups[lock.place as usize / GROUP].0[lock.place as usize % GROUP]
    }
    fn word(&self, lock: &FastLock) -> &AtomicU64 {
        &self.0[lock.worker as usize].words[lock.word]
    }
    /// Takes a lock in a place. None: the lock must be taken in the table.
    pub fn take(&self, worker: usize, owner: u64, tag: &LockTag, mode: LockMode) -> Option<FastLock> {
        if WEAK & 1 << mode as u16 == 0 {
            return None;
        }
        let packed = packed(tag, mode)?;
        let worker = worker % self.0.len();
        let group = owner as usize % GROUPS;
        let free = |place: &LockSlot| {
            place.owner.load(Relaxed) == 0 && place.owner.compare_exchange(0, owner, Acquire, Relaxed).is_ok()
        };
        let at = self.0[worker].groups[group].0.iter().position(free)?;
        let lock =
            FastLock { worker: worker as u32, place: (group * GROUP + at) as u32, word: word_of(tag), tag: packed };
        self.place(&lock).tag.store(packed, Release);
        if self.word(&lock).fetch_add(1, SeqCst) >= CONFLICTING && self.clear(&lock) {
            self.leave(&lock);
            return None;
        }
        // If the tag can no longer be cleared here, the lock was moved and is held in the table.
        Some(lock)
    }
    /// Gives a lock back. False: it was moved into the table, where the caller releases it, and then calls
    /// [`FastLocks::leave`].
    pub fn give_back(&self, lock: &FastLock) -> bool {
        let is_here = self.clear(lock);
        if is_here {
            self.leave(lock);
        }
        is_here
    }
    fn clear(&self, lock: &FastLock) -> bool {
        self.place(lock).tag.compare_exchange(lock.tag, 0, AcqRel, Acquire).is_ok()
    }
    pub fn leave(&self, lock: &FastLock) {
        self.place(lock).owner.store(0, Release);
        self.word(lock).fetch_sub(1, Release);
    }
    /// Prevents that the tag is taken in a place from now on. It is called once for each owner that holds the tag, or
    /// waits for it, in a conflicting mode.
    pub(crate) fn forbid(&self, tag: &LockTag) {
        let word = word_of(tag);
        self.0.iter().for_each(|part| _ = part.words[word].fetch_add(CONFLICTING, SeqCst));
    }
    pub fn allow(&self, tag: &LockTag) {
        let word = word_of(tag);
        self.0.iter().for_each(|part| _ = part.words[word].fetch_sub(CONFLICTING, Release));
    }
    /// Takes what is held of a tag out of its places. The caller has the latch of its shard, and has called
    /// [`FastLocks::forbid`].
    pub(crate) fn move_out(&self, tag: &LockTag, mut put: impl FnMut(u64, LockMode)) {
        let word = word_of(tag);
        for part in self.0.iter().filter(|part| part.words[word].load(SeqCst) % CONFLICTING != 0) {
            for place in part.groups.iter().flat_map(|group| &group.0) {
                let packed = place.tag.load(Acquire);
                if let Some((found, mode)) = unpacked(packed)
                    && found == *tag
                    && place.tag.compare_exchange(packed, 0, AcqRel, Acquire).is_ok()
                {
                    put(place.owner.load(Acquire), mode);
                }
            }
        }
    }
    /// Shows all locks held in places; some may have been given back meanwhile.
    pub fn each(&self, mut show: impl FnMut(u64, LockTag, LockMode)) {
        for place in self.0.iter().flat_map(|part| part.groups.iter()).flat_map(|group| &group.0) {
            let owner = place.owner.load(Acquire);
            if let (Some((tag, mode)), true) = (unpacked(place.tag.load(Acquire)), owner != 0) {
                show(owner, tag, mode);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(n: u64) -> LockTag {
        LockTag(LockTag::MOSTLY_SHARED, 5, n)
    }

    #[test]
    fn taken_given_back_and_moved() {
        let fast = FastLocks::new(2);
        let a = fast.take(0, 7, &tag(1), LockMode::RowExclusive).unwrap();
        let b = fast.take(1, 8, &tag(1), LockMode::AccessShare).unwrap();
        assert!(fast.give_back(&a));
        fast.forbid(&tag(1));
        assert_eq!(fast.take(0, 9, &tag(1), LockMode::AccessShare), None);
        let mut moved = Vec::new();
        fast.move_out(&tag(1), |owner, mode| moved.push((owner, mode)));
        assert_eq!(moved, [(8, LockMode::AccessShare)]);
        assert!(!fast.give_back(&b));
        fast.leave(&b);
        fast.allow(&tag(1));
        let c = fast.take(0, 9, &tag(1), LockMode::AccessShare).unwrap();
        let mut shown = Vec::new();
        fast.each(|owner, tag, mode| shown.push((owner, tag, mode)));
        assert_eq!(shown, [(9, tag(1), LockMode::AccessShare)]);
        assert!(fast.give_back(&c));
    }

    #[test]
    fn what_fits_nowhere_is_refused() {
        let fast = FastLocks::new(1);
        assert_eq!(fast.take(0, 1, &tag(1), LockMode::Share), None);
        assert_eq!(fast.take(0, 1, &tag(1 << 32), LockMode::AccessShare), None);
        assert_eq!(fast.take(0, 1, &LockTag(LockTag::MOSTLY_SHARED + 1, 0, 1), LockMode::AccessShare), None);
        let taken: Vec<_> =
            (0..GROUP as u64).map(|n| fast.take(0, 1, &tag(n), LockMode::AccessShare).unwrap()).collect();
        assert_eq!(fast.take(0, 1, &tag(100), LockMode::AccessShare), None);
        assert!(fast.give_back(&taken[3]));
        assert!(fast.take(0, 1, &tag(100), LockMode::AccessShare).is_some());
    }
}
