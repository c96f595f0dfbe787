//! Table and advisory locks: PostgreSQL's eight modes, FIFO queues, direct grants.
//!
//! Invariants
//! 1. A waiter is granted by whoever releases, in queue order, never past an earlier waiter it conflicts with;
//!    only an owner that holds the tag already goes ahead of the queue.
//! 2. An entry exists only while it is held or waited for.
//! 3. Taking and releasing a lock that conflicts with nothing costs the same however many hold it.
//!
//! Must not know: what a tag means.

use super::{deadlock, waits_for::WaitGraph};
use crate::api::{LockInfo, LockMode, LockTag, WaitPolicy};
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::{Error, Result, sqlstate};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Mutex;

#[derive(Default, Clone)]
pub struct TagHasher(u64);
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

#[derive(Default)]
struct Entry {
    /// Times taken, by owner and mode.
    held: foldhash::HashMap<(u64, LockMode), u32>,
    /// Owners per mode.
    owners: [u32; LOCK_MODES],
    queue: VecDeque<(u64, LockMode, WakeHandle)>,
}
type Map = HashMap<LockTag, Entry, BuildHasherDefault<TagHasher>>;
pub struct LockTable {
    shards: Vec<Mutex<Map>>,
}
impl Default for LockTable {
    fn default() -> LockTable {
        LockTable { shards: (0..64).map(|_| Mutex::default()).collect() }
    }
}

/// One more than the greatest number of a mode.
const LOCK_MODES: usize = LockMode::AccessExclusive as usize + 1;

fn conflicts(a: LockMode, b: LockMode) -> bool {
    a.conflict_bits() & (1 << b as u16) != 0
}
impl Entry {
    fn add(&mut self, owner: u64, mode: LockMode) {
        let times = self.held.entry((owner, mode)).or_insert(0);
        *times += 1;
        if *times == 1 {
            self.owners[mode as usize] += 1;
        }
    }
    fn holds(&self, owner: u64) -> bool {
        LockMode::ALL.iter().any(|m| self.held.contains_key(&(owner, *m)))
    }
    /// Does anybody else hold a mode that conflicts?
    fn is_held_against(&self, owner: u64, mode: LockMode) -> bool {
        LockMode::ALL.iter().any(|m| {
            let owners = self.owners[*m as usize];
            owners != 0 && conflicts(*m, mode) && (owners > 1 || !self.held.contains_key(&(owner, *m)))
        })
    }
    fn blockers(&self, owner: u64, mode: LockMode, ahead: usize) -> Vec<u64> {
        let mut b = Vec::new();
        if self.is_held_against(owner, mode) {
            b.extend(self.held.keys().filter(|(o, m)| *o != owner && conflicts(*m, mode)).map(|h| h.0));
        }
        if ahead != 0 && !self.queue.is_empty() && !self.holds(owner) {
            b.extend(self.queue.iter().take(ahead).filter(|(o, m, _)| *o != owner && conflicts(*m, mode)).map(|q| q.0));
        }
        b
    }
    /// Grants whoever may go now.
    fn grant(&mut self, waits: &WaitGraph, woken: &mut Vec<WakeHandle>) {
        let mut i = 0;
        while i < self.queue.len() {
            let (owner, mode) = (self.queue[i].0, self.queue[i].1);
            if self.blockers(owner, mode, i).is_empty() {
                if let Some((_, _, wake)) = self.queue.remove(i) {
                    self.add(owner, mode);
                    // From now on it does not wait, though it does not run yet.
                    waits.done(owner);
                    woken.push(wake);
                }
                for (o, m, _) in self.queue.iter().take(i) {
                    if conflicts(*m, mode) {
                        waits.add(*o, owner);
                    }
                }
            } else {
                i += 1;
            }
        }
    }
}

impl LockTable {
    fn shard(&self, tag: &LockTag) -> &Mutex<Map> {
        use std::hash::Hash;
        let mut h = TagHasher::default();
        tag.hash(&mut h);
        &self.shards[(h.finish() >> 58) as usize]
    }
    /// Ok(false): not free, and the caller did not want to wait.
    pub fn lock(&self, waits: &WaitGraph, owner: u64, tag: LockTag, mode: LockMode, wait: WaitPolicy, park: &dyn Park) -> Result<bool> {
        let shard = self.shard(&tag);
        {
            let mut map = crate::lock(shard);
            let entry = map.entry(tag).or_default();
            let blockers = entry.blockers(owner, mode, entry.queue.len());
            if blockers.is_empty() {
                entry.add(owner, mode);
                for (o, m, _) in &entry.queue {
                    if conflicts(*m, mode) {
                        waits.add(*o, owner);
                    }
                }
                return Ok(true);
            }
            if wait != WaitPolicy::Wait {
                return Ok(false);
            }
            if waits.wait_for(owner, &blockers, Some((tag, mode))) {
                return Err(deadlock());
            }
            entry.queue.push_back((owner, mode, park.wake_handle()));
        }
        loop {
            let parked = park.park(None);
            let mut map = crate::lock(shard);
            let Some(entry) = map.get_mut(&tag) else {
                waits.done(owner);
                return Err(Error::internal("a lock that is waited for has no entry"));
            };
            let Some(at) = entry.queue.iter().position(|(o, m, _)| *o == owner && *m == mode) else {
                waits.done(owner);
                return Ok(true);
            };
            if let Err(e) = parked {
                entry.queue.remove(at);
                let mut woken = Vec::new();
                entry.grant(waits, &mut woken);
                drop(map);
                waits.done(owner);
                woken.iter().for_each(|w| w.wake());
                return Err(e);
            }
        }
    }
    /// One less; false if it was not held.
    pub fn unlock(&self, waits: &WaitGraph, owner: u64, tag: LockTag, mode: LockMode) -> bool {
        let mut woken = Vec::new();
        {
            let mut map = crate::lock(self.shard(&tag));
            let Some(entry) = map.get_mut(&tag) else { return false };
            let Some(times) = entry.held.get_mut(&(owner, mode)) else { return false };
            *times -= 1;
            if *times == 0 {
                entry.held.remove(&(owner, mode));
                entry.owners[mode as usize] -= 1;
                if !entry.queue.is_empty() {
                    entry.grant(waits, &mut woken);
                }
                if entry.held.is_empty() && entry.queue.is_empty() {
                    map.remove(&tag);
                }
            }
        }
        woken.iter().for_each(|w| w.wake());
        true
    }
    pub fn snapshot(&self) -> Vec<LockInfo> {
        let mut all = Vec::new();
        for shard in &self.shards {
            for (tag, entry) in crate::lock(shard).iter() {
                all.extend(entry.held.keys().map(|h| LockInfo { tag: *tag, owner: h.0, mode: h.1, granted: true }));
                all.extend(entry.queue.iter().map(|q| LockInfo { tag: *tag, owner: q.0, mode: q.1, granted: false }));
            }
        }
        all.sort_by_key(|l| (l.tag, l.owner, l.mode));
        all
    }
}

/// Holds advisory locks apart from transactions (a session). Dropping it releases them.
pub struct LockOwner {
    pub(crate) core: std::sync::Arc<crate::core::Core>,
    pub(crate) owner: u64,
    held: Vec<(LockTag, LockMode)>,
}
impl LockOwner {
    /// With the number of the session's transaction, for the two not to block each other.
    pub(crate) fn new(core: std::sync::Arc<crate::core::Core>, owner: u64) -> LockOwner {
        LockOwner { core, owner, held: Vec::new() }
    }
    pub fn holds_nothing(&self) -> bool {
        self.held.is_empty()
    }
    /// Ok(false): NoWait/SkipLocked and not free.
    pub fn lock(&mut self, tag: LockTag, mode: LockMode, wait: WaitPolicy, park: &dyn Park) -> Result<bool> {
        let got = self.core.locks.lock(&self.core.waits, self.owner, tag, mode, wait, park)?;
        if got {
            self.held.push((tag, mode));
        }
        Ok(got)
    }
    /// False if this owner does not hold it.
    pub fn unlock(&mut self, tag: LockTag, mode: LockMode) -> bool {
        let Some(at) = self.held.iter().rposition(|h| *h == (tag, mode)) else { return false };
        self.held.remove(at);
        self.core.locks.unlock(&self.core.waits, self.owner, tag, mode)
    }
    pub fn unlock_all(&mut self) {
        for (tag, mode) in std::mem::take(&mut self.held) {
            self.core.locks.unlock(&self.core.waits, self.owner, tag, mode);
        }
    }
    /// The number that `Engine::locks_snapshot` shows.
    pub fn id(&self) -> u64 {
        self.owner
    }
}
impl Drop for LockOwner {
    fn drop(&mut self) {
        self.unlock_all();
    }
}
pub fn not_available() -> Error {
    Error::new(sqlstate::LOCK_NOT_AVAILABLE, "could not obtain lock on row in relation")
}
