//! Table and advisory locks: PostgreSQL's eight modes, FIFO queues, direct grants.
//!
//! Invariants
//! 1. A waiter is granted its lock by the owner that releases, in queue order, never past an earlier waiter it
//!    conflicts with; only an owner that holds the tag already goes ahead of the queue, and one whose place in it is
//!    part of a circle of waits.
//! 2. An entry exists only while it is held or waited for.
//! 3. Taking and releasing a lock that conflicts with nothing costs the same however many hold it.
//!
//! Must not know: what a tag means.

use super::deadlock;
use super::fast::{FastLock, FastLocks, TagHasher, conflicts_with_fast};
use super::waits_for::{WaitGraph, WaitLink};
use crate::api::{LockInfo, LockMode, LockTag, WaitPolicy};
use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::sync::Mutex;
use kilndb_base::{Error, Result, sqlstate};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

type LockHolder = (u64, LockMode);

/// How often the lock is taken, by owner and mode. Most locks have one holder, which stands here itself.
#[derive(Default)]
struct HolderCounts {
    first: Option<(LockHolder, u32)>,
    others: kilndb_base::hash::HashMap<LockHolder, u32>,
}
impl HolderCounts {
    fn contains(&self, holder: LockHolder) -> bool {
        matches!(self.first, Some((first, _)) if first == holder)
            || !self.others.is_empty() && self.others.contains_key(&holder)
    }
    /// Counts a lock once more; the result is how often it is held.
    fn add(&mut self, holder: LockHolder) -> u32 {
        if let Some((first, times)) = &mut self.first
            && *first == holder
        {
            *times += 1;
            return *times;
        }
        if self.first.is_none() && (self.others.is_empty() || !self.others.contains_key(&holder)) {
            self.first = Some((holder, 1));
            return 1;
        }
        let times = self.others.entry(holder).or_insert(0);
        *times += 1;
        *times
    }
    /// Counts a lock once less; the result is how often it is held. None: it was not held.
    fn take(&mut self, holder: LockHolder) -> Option<u32> {
        if let Some((first, times)) = &mut self.first
            && *first == holder
        {
            *times -= 1;
            let left = *times;
            if left == 0 {
                self.first = None;
            }
            return Some(left);
        }
        let times = self.others.get_mut(&holder)?;
        *times -= 1;
        let left = *times;
        if left == 0 {
            self.others.remove(&holder);
        }
        Some(left)
    }
    fn keys(&self) -> impl Iterator<Item = LockHolder> {
        self.first.iter().map(|(holder, _)| *holder).chain(self.others.keys().copied())
    }
    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }
}

/// What an owner asks of the lock table.
#[derive(Clone, Copy)]
pub(crate) struct LockRequest {
    pub owner: u64,
    pub tag: LockTag,
    pub mode: LockMode,
    pub wait: WaitPolicy,
}

#[derive(Default)]
struct LockEntry {
    /// How often the lock is taken, by owner and mode.
    held: HolderCounts,
    /// The number of owners by mode.
    owners: [u32; LOCK_MODES],
    queue: VecDeque<LockWaiter>,
    /// The number of waiters by mode.
    waiters: [u32; LOCK_MODES],
    /// The number of waiters that hold the lock in another mode.
    upgrading: u32,
}
struct LockWaiter {
    owner: u64,
    mode: LockMode,
    wake: WakeHandle,
    holds: bool,
}
type LockMap = HashMap<LockTag, LockEntry, BuildHasherDefault<TagHasher>>;
pub(crate) struct LockTable {
    shards: Vec<Mutex<LockMap>>,
    fast: FastLocks,
}

/// One more than the greatest number of a mode.
const LOCK_MODES: usize = LockMode::AccessExclusive as usize + 1;

/// Changes of queues that are tried before a cycle is a deadlock.
pub(crate) const UNTANGLE_MAX: usize = 32;

fn conflicts(a: LockMode, b: LockMode) -> bool {
    a.conflict_bits() & (1 << b as u16) != 0
}
impl LockEntry {
    fn add(&mut self, owner: u64, mode: LockMode) {
        if self.held.add((owner, mode)) == 1 {
            self.owners[mode as usize] += 1;
        }
    }
    fn holds(&self, owner: u64) -> bool {
        LockMode::ALL.iter().any(|m| self.held.contains((owner, *m)))
    }
    /// Does another owner hold a mode that conflicts?
    fn is_held_against(&self, owner: u64, mode: LockMode) -> bool {
        LockMode::ALL.iter().any(|m| {
            let owners = self.owners[*m as usize];
            owners != 0 && conflicts(*m, mode) && (owners > 1 || !self.held.contains((owner, *m)))
        })
    }
    /// Bits of the modes in which the owner holds it.
    fn modes_of(&self, owner: u64) -> u16 {
        LockMode::ALL.iter().filter(|m| self.held.contains((owner, **m))).fold(0, |bits, m| bits | 1 << *m as u16)
    }
    /// May it be given to the owner? `ahead`: bits of the modes that are waited for before it.
    fn is_free_for(&self, owner: u64, mode: LockMode, ahead: u16) -> bool {
        !self.is_held_against(owner, mode) && (mode.conflict_bits() & ahead == 0 || self.holds(owner))
    }
    fn waited_modes(&self) -> u16 {
        LockMode::ALL.iter().filter(|m| self.waiters[**m as usize] != 0).fold(0, |bits, m| bits | 1 << *m as u16)
    }
    fn enqueue(&mut self, owner: u64, mode: LockMode, wake: WakeHandle) {
        let holds = self.holds(owner);
        self.waiters[mode as usize] += 1;
        self.upgrading += u32::from(holds);
        self.queue.push_back(LockWaiter { owner, mode, wake, holds });
    }
    fn dequeue(&mut self, at: usize) -> Option<LockWaiter> {
        let waiter = self.queue.remove(at)?;
        self.waiters[waiter.mode as usize] -= 1;
        self.upgrading -= u32::from(waiter.holds);
        Some(waiter)
    }
    fn place_of(&self, owner: u64) -> Option<usize> {
        self.queue.iter().position(|w| w.owner == owner)
    }
    /// Might one of those who wait have the lock now?
    fn may_grant(&self) -> bool {
        let held =
            LockMode::ALL.iter().filter(|m| self.owners[**m as usize] != 0).fold(0, |bits, m| bits | 1 << *m as u16);
        self.upgrading != 0
            || LockMode::ALL.iter().any(|m| self.waiters[*m as usize] != 0 && m.conflict_bits() & held == 0)
    }
    fn grant_to(&mut self, owner: u64, tag: LockTag, mode: LockMode, waits: &WaitGraph) {
        self.add(owner, mode);
        if !self.queue.is_empty() {
            waits.holds(owner, tag, self.modes_of(owner));
        }
    }
    /// Grants the lock to all waiters that can have it now.
    fn grant(&mut self, tag: LockTag, waits: &WaitGraph, woken: &mut Vec<WakeHandle>) {
        let (mut at, mut ahead) = (0, 0);
        while at < self.queue.len() && self.may_grant() {
            let (owner, mode) = (self.queue[at].owner, self.queue[at].mode);
            if !self.is_free_for(owner, mode, ahead) {
                ahead |= 1 << mode as u16;
                at += 1;
                continue;
            }
            if let Some(waiter) = self.dequeue(at) {
                // From now on the owner does not wait, although it does not run yet.
                waits.left(owner, tag);
                self.grant_to(owner, tag, mode, waits);
                woken.push(waiter.wake);
            }
        }
    }
}

impl LockTable {
    pub fn new(workers: usize) -> LockTable {
        LockTable { shards: (0..64).map(|_| Mutex::default()).collect(), fast: FastLocks::new(workers) }
    }
    /// Takes a lock without the table, if that is possible.
    pub(crate) fn lock_fast(&self, worker: usize, owner: u64, tag: &LockTag, mode: LockMode) -> Option<FastLock> {
        self.fast.take(worker, owner, tag, mode)
    }
    pub(crate) fn unlock_fast(&self, waits: &WaitGraph, owner: u64, tag: LockTag, mode: LockMode, lock: &FastLock) {
        if !self.fast.give_back(lock) {
            self.unlock(waits, owner, tag, mode);
            self.fast.leave(lock);
        }
    }
    fn shard(&self, tag: &LockTag) -> &Mutex<LockMap> {
        use std::hash::Hash;
        let mut h = TagHasher::default();
        tag.hash(&mut h);
        &self.shards[(h.finish() >> 58) as usize]
    }
    /// Ok(false): not free, and the caller did not want to wait.
    pub fn lock(&self, waits: &WaitGraph, request: LockRequest, park: &dyn Park) -> Result<bool> {
        let LockRequest { tag, mode, .. } = request;
        let conflicts = conflicts_with_fast(&tag, mode);
        if conflicts {
            self.fast.forbid(&tag);
        }
        let got = self.lock_here(waits, request, park);
        if conflicts && !matches!(got, Ok(true)) {
            self.fast.allow(&tag);
        }
        got
    }
    fn lock_here(&self, waits: &WaitGraph, request: LockRequest, park: &dyn Park) -> Result<bool> {
        let LockRequest { owner, tag, mode, wait } = request;
        let shard = self.shard(&tag);
        let closed;
        {
            let mut map = crate::lock(shard);
            let entry = map.entry(tag).or_default();
            if conflicts_with_fast(&tag, mode) {
                self.fast.move_out(&tag, |holder, mode| entry.grant_to(holder, tag, mode, waits));
            }
            if entry.is_free_for(owner, mode, entry.waited_modes()) {
                entry.grant_to(owner, tag, mode, waits);
                return Ok(true);
            }
            if wait != WaitPolicy::Wait {
                return Ok(false);
            }
            let mut held = entry.held.keys().map(|(holder, mode)| (holder, 1 << mode as u16));
            closed = waits.wait_for(owner, tag, mode, &mut held);
            drop(held);
            entry.enqueue(owner, mode, park.wake_handle());
        }
        if let Some(cycle) = closed
            && !self.untangle(waits, &cycle, || waits.cycle_of(owner))
            && self.give_up(waits, owner, tag)
        {
            waits.refuse(owner, cycle);
            return Err(deadlock());
        }
        loop {
            let parked = park.park(None);
            let mut map = crate::lock(shard);
            let Some(entry) = map.get_mut(&tag) else {
                waits.left(owner, tag);
                return Err(Error::internal("a lock that is waited for has no entry"));
            };
            // An owner that waits for a mode does not hold it.
            if entry.held.contains((owner, mode)) {
                return Ok(true);
            }
            drop(map);
            if let Err(e) = parked {
                return if self.give_up(waits, owner, tag) { Err(e) } else { Ok(true) };
            }
        }
    }
    /// Out of the queue. False: the lock has been granted meanwhile.
    fn give_up(&self, waits: &WaitGraph, owner: u64, tag: LockTag) -> bool {
        let mut woken = Vec::new();
        {
            let mut map = crate::lock(self.shard(&tag));
            let Some(entry) = map.get_mut(&tag) else { return false };
            let Some(at) = entry.place_of(owner) else { return false };
            entry.dequeue(at);
            waits.left(owner, tag);
            entry.grant(tag, waits, &mut woken);
        }
        woken.iter().for_each(|w| w.wake());
        true
    }
    /// Resolves a cycle by another order of a queue, as far from the wait that closed it as possible. `again`: the
    /// cycle that is left. False: it stays.
    pub(crate) fn untangle(
        &self,
        waits: &WaitGraph,
        cycle: &[WaitLink],
        again: impl Fn() -> Option<Vec<WaitLink>>,
    ) -> bool {
        let mut cycle = cycle.to_vec();
        for _ in 0..UNTANGLE_MAX {
            let moved = cycle.iter().rev().any(|wait| {
                waits.only_in_line(wait).is_some_and(|tag| self.move_ahead(waits, tag, wait.owner, wait.blocker))
            });
            if !moved {
                return false;
            }
            match again() {
                None => return true,
                Some(left) => cycle = left,
            }
        }
        false
    }
    fn move_ahead(&self, waits: &WaitGraph, tag: LockTag, owner: u64, before: u64) -> bool {
        let mut woken = Vec::new();
        {
            let mut map = crate::lock(self.shard(&tag));
            let Some(entry) = map.get_mut(&tag) else { return false };
            let (Some(from), Some(to)) = (entry.place_of(owner), entry.place_of(before)) else { return false };
            if !waits.move_ahead(tag, owner, before) {
                return false;
            }
            if let Some(waiter) = entry.queue.remove(from) {
                entry.queue.insert(to, waiter);
            }
            entry.grant(tag, waits, &mut woken);
        }
        woken.iter().for_each(|w| w.wake());
        true
    }
    /// Releases a lock once; false if it was not held.
    pub fn unlock(&self, waits: &WaitGraph, owner: u64, tag: LockTag, mode: LockMode) -> bool {
        let mut woken = Vec::new();
        {
            let mut map = crate::lock(self.shard(&tag));
            let Some(entry) = map.get_mut(&tag) else { return false };
            let Some(times) = entry.held.take((owner, mode)) else { return false };
            if conflicts_with_fast(&tag, mode) {
                self.fast.allow(&tag);
            }
            if times == 0 {
                entry.owners[mode as usize] -= 1;
                if !entry.queue.is_empty() {
                    waits.holds(owner, tag, entry.modes_of(owner));
                    entry.grant(tag, waits, &mut woken);
                }
                if entry.held.is_empty() && entry.queue.is_empty() {
                    map.remove(&tag);
                }
            }
        }
        woken.iter().for_each(|w| w.wake());
        true
    }
    /// Whether somebody waits for the tag.
    pub(crate) fn is_waited_for(&self, tag: &LockTag) -> bool {
        crate::lock(self.shard(tag)).get(tag).is_some_and(|entry| !entry.queue.is_empty())
    }
    pub fn snapshot(&self) -> Vec<LockInfo> {
        let mut all = Vec::new();
        self.fast.each(|owner, tag, mode| all.push(LockInfo { tag, owner, mode, granted: true, fast: true }));
        for shard in &self.shards {
            for (tag, entry) in crate::lock(shard).iter() {
                all.extend(entry.held.keys().map(|h| LockInfo {
                    tag: *tag,
                    owner: h.0,
                    mode: h.1,
                    granted: true,
                    fast: false,
                }));
                all.extend(entry.queue.iter().map(|q| LockInfo {
                    tag: *tag,
                    owner: q.owner,
                    mode: q.mode,
                    granted: false,
                    fast: false,
                }));
            }
        }
        all.sort_by_key(|l| (l.tag, l.owner, l.mode));
        all
    }
}

pub(crate) fn not_available() -> Error {
    Error::new(sqlstate::LOCK_NOT_AVAILABLE, "could not obtain lock on row in relation")
}
