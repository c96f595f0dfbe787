//! Row waits and shared row locks. The exclusive row lock itself is the writer's undo record.
//!
//! Invariants
//! 1. A row has an entry only while it is shared or somebody waits for it; entries change under the shard's
//!    mutex, and waiters enter while they hold the row's page latch.
//! 2. First come, first served: only the head of a queue may take the row; newcomers queue behind.
//! 3. Whoever ends wakes the heads of the queues of the rows it held, and nobody else.
//!
//! Must not know: pages, undo.

use crate::api::RowLockMode;
use kilndb_base::park::WakeHandle;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::*};

pub type RowKey = (u32, u64);
const SHARDS: usize = 64;

#[derive(Default)]
struct Entry {
    shared: Vec<(u64, RowLockMode)>,
    /// In order of arrival, which is the order of tickets.
    queue: VecDeque<Waiter>,
    /// Tickets by owner.
    tickets: foldhash::HashMap<u64, u64>,
    next_ticket: u64,
}
struct Waiter {
    ticket: u64,
    owner: u64,
    wake: WakeHandle,
}
impl Entry {
    fn head(&self) -> Option<WakeHandle> {
        self.queue.front().map(|w| w.wake.clone())
    }
    fn place_of(&self, owner: u64) -> Option<usize> {
        let ticket = self.tickets.get(&owner)?;
        self.queue.binary_search_by_key(ticket, |w| w.ticket).ok()
    }
    /// Takes the owner out of the queue; true: it was the head.
    fn remove(&mut self, owner: u64) -> bool {
        let place = self.place_of(owner);
        if let Some(at) = place {
            self.queue.remove(at);
            self.tickets.remove(&owner);
        }
        place == Some(0)
    }
}
#[derive(Default)]
struct Shard {
    rows: Mutex<HashMap<RowKey, Entry>>,
    count: AtomicU32,
}
pub struct RowLocks {
    shards: Vec<Shard>,
    /// Rows to look after when an owner ends.
    watched: Vec<Mutex<HashMap<u64, Vec<RowKey>>>>,
}
impl Default for RowLocks {
    fn default() -> RowLocks {
        RowLocks {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            watched: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }
}

/// What stands in the way of `owner` taking a row.
#[derive(Default, Debug)]
pub struct InTheWay {
    pub shared: Vec<u64>,
    /// Queued directly before.
    pub ahead: Option<u64>,
}
impl InTheWay {
    pub fn is_clear(&self) -> bool {
        self.shared.is_empty() && self.ahead.is_none()
    }
}

impl RowLocks {
    fn shard(&self, key: RowKey) -> &Shard {
        let h = (key.1 ^ u64::from(key.0) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(h >> 58) as usize]
    }
    /// `holds`: the owner has the row already (in whatever mode), so it does not queue behind others. The cost
    /// does not depend on the queue's length.
    #[inline]
    pub fn in_the_way(&self, key: RowKey, owner: u64, mode: RowLockMode, holds: bool) -> InTheWay {
        let shard = self.shard(key);
        if shard.count.load(Acquire) == 0 {
            return InTheWay::default();
        }
        let rows = crate::lock(&shard.rows);
        let Some(entry) = rows.get(&key) else { return InTheWay::default() };
        let shared = entry.shared.iter().filter(|(o, m)| *o != owner && m.conflicts(mode)).map(|(o, _)| *o).collect();
        let holds = holds || entry.shared.iter().any(|(o, _)| *o == owner);
        let before = entry.place_of(owner).unwrap_or(entry.queue.len());
        let ahead = if holds { None } else { before.checked_sub(1).and_then(|i| entry.queue.get(i)).map(|w| w.owner) };
        InTheWay { shared, ahead }
    }
    /// Queues the owner (unless it is queued).
    pub fn enqueue(&self, key: RowKey, owner: u64, wake: WakeHandle) {
        let shard = self.shard(key);
        let mut rows = crate::lock(&shard.rows);
        let entry = rows.entry(key).or_insert_with(|| {
            shard.count.fetch_add(1, Release);
            Entry::default()
        });
        let ticket = entry.next_ticket;
        if let std::collections::hash_map::Entry::Vacant(free) = entry.tickets.entry(owner) {
            free.insert(ticket);
            entry.next_ticket += 1;
            entry.queue.push_back(Waiter { ticket, owner, wake });
        }
    }
    /// When `holder` ends, the row's head is to be woken.
    pub fn watch(&self, holder: u64, key: RowKey) {
        let mut watched = crate::lock(&self.watched[holder as usize % SHARDS]);
        let rows = watched.entry(holder).or_default();
        if !rows.contains(&key) {
            rows.push(key);
        }
    }
    /// Out of the queue, whether the row was taken or not. True if others still wait. `wake_next`: they may go on.
    pub fn leave(&self, key: RowKey, owner: u64, wake_next: bool) -> bool {
        let shard = self.shard(key);
        if shard.count.load(Acquire) == 0 {
            return false;
        }
        let mut next = None;
        let mut waiting = false;
        {
            let mut rows = crate::lock(&shard.rows);
            if let Some(entry) = rows.get_mut(&key) {
                let was_head = entry.remove(owner);
                waiting = !entry.queue.is_empty();
                if wake_next && was_head {
                    next = entry.head();
                }
                if !waiting && entry.shared.is_empty() {
                    rows.remove(&key);
                    shard.count.fetch_sub(1, Release);
                }
            }
        }
        if let Some(next) = next {
            next.wake();
        }
        waiting
    }
    pub fn has_shared(&self, key: RowKey, owner: u64, mode: RowLockMode) -> bool {
        let shard = self.shard(key);
        shard.count.load(Acquire) != 0
            && crate::lock(&shard.rows)
                .get(&key)
                .is_some_and(|e| e.shared.iter().any(|(o, m)| *o == owner && *m >= mode))
    }
    pub fn add_shared(&self, key: RowKey, owner: u64, mode: RowLockMode) {
        let shard = self.shard(key);
        let mut rows = crate::lock(&shard.rows);
        let entry = rows.entry(key).or_insert_with(|| {
            shard.count.fetch_add(1, Release);
            Entry::default()
        });
        entry.shared.push((owner, mode));
    }
    /// One shared lock less; the head of the queue looks again.
    pub fn drop_shared(&self, key: RowKey, owner: u64, mode: RowLockMode) {
        let shard = self.shard(key);
        let mut head = None;
        {
            let mut rows = crate::lock(&shard.rows);
            if let Some(entry) = rows.get_mut(&key) {
                if let Some(at) = entry.shared.iter().position(|(o, m)| *o == owner && *m == mode) {
                    entry.shared.swap_remove(at);
                }
                head = entry.head();
                if entry.queue.is_empty() && entry.shared.is_empty() {
                    rows.remove(&key);
                    shard.count.fetch_sub(1, Release);
                }
            }
        }
        if let Some(head) = head {
            head.wake();
        }
    }
    /// The owner's rows are free (or may be): their heads look again.
    pub fn wake_watched(&self, owner: u64) {
        let keys = crate::lock(&self.watched[owner as usize % SHARDS]).remove(&owner).unwrap_or_default();
        for key in keys {
            let shard = self.shard(key);
            let head = crate::lock(&shard.rows).get(&key).and_then(|e| e.head());
            if let Some(head) = head {
                head.wake();
            }
        }
    }
}
