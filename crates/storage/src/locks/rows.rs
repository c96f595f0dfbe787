//! Queues of row waiters, and shared row locks. An exclusive row lock is the writer's undo record.
//!
//! Invariants
//! 1. A row has an entry only while somebody waits for it; entries and shares change under the shard's mutex, and
//!    waiters enter while they hold the row's page latch.
//! 2. First come, first served: only the head of a queue may take the row; newcomers queue behind. But while the row is
//!    free and its head, which has been woken, is not there yet, a newcomer may take it, for [`HEAD_START_NANOS`] in
//!    all.
//! 3. A transaction that ends wakes the heads of the queues of the rows it held, and nobody else.
//! 4. A queue is found through its [`AwaitedRow`], which says for which row it waits now: a queue whose row is gone
//!    goes with its head to the row that this takes instead (see [`RowTurn`]). A waiter holds its queue's place, not
//!    the row's key.
//!
//! Must not know: pages, undo.

use super::shares::{BlockKey, SharedLock, SharedRows};
use crate::api::RowLockMode;
use kilndb_base::RowId;
use kilndb_base::hash::HashMap;
use kilndb_base::park::WakeHandle;
use kilndb_base::planted::{self, PlantedBug};
use kilndb_base::sync::atomic::{AtomicU32, Ordering::*};
use kilndb_base::sync::{Arc, Mutex, MutexGuard};
use std::collections::VecDeque;

pub type RowKey = (u32, u64);
const SHARDS: usize = 64;
/// How long a free row may go to newcomers before the first waiter gets it.
const HEAD_START_NANOS: u64 = 1_000_000;

/// The row that a queue waits for. Changes under the mutexes of the old and the new row's shard.
pub(crate) struct AwaitedRow(Mutex<RowKey>);
impl AwaitedRow {
    fn key(&self) -> RowKey {
        *crate::lock(&self.0)
    }
}

/// The right of a queue's head, whose row is gone, to take another row before the next one looks. If all look for their
/// rows in the same way (same token), the others would only find that one taken, one after the other, for each row that
/// goes: with n waiters, n wake-ups a row. So they are led there: they sleep on, as if they had queued for it. Whoever
/// has the turn takes a row or passes it on before it waits for anything, and at the end of its statement at the
/// latest.
pub(crate) struct RowTurn {
    place: Arc<AwaitedRow>,
    leads: bool,
}

struct RowQueue {
    place: Arc<AwaitedRow>,
    /// The token of how all waiters look for rows; 0: they do not all look in the same way.
    token: u64,
    /// The waiters in the order of arrival, which is the order of tickets.
    queue: VecDeque<RowWaiter>,
    /// The waiters' tickets, by owner.
    tickets: kilndb_base::hash::HashMap<u64, u64>,
    next_ticket: u64,
    /// The time at which the row was first found free while the queue's head had not come yet; 0: it was not.
    free_since_nanos: u64,
}
struct RowWaiter {
    ticket: u64,
    owner: u64,
    wake: WakeHandle,
}
impl RowWaiter {
    fn next(&self) -> NextWaiter {
        NextWaiter { owner: self.owner, wake: self.wake.clone() }
    }
}
impl RowQueue {
    fn new(key: RowKey) -> RowQueue {
        RowQueue {
            place: Arc::new(AwaitedRow(Mutex::new(key))),
            token: 0,
            queue: VecDeque::new(),
            tickets: kilndb_base::hash::HashMap::default(),
            next_ticket: 0,
            free_since_nanos: 0,
        }
    }
    fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }
    fn head(&self) -> Option<NextWaiter> {
        self.queue.front().map(RowWaiter::next)
    }
    fn place_of(&self, owner: u64) -> Option<usize> {
        let ticket = self.tickets.get(&owner)?;
        self.queue.binary_search_by_key(ticket, |w| w.ticket).ok()
    }
    /// Takes the owner out of the queue; who was behind it.
    fn remove(&mut self, owner: u64) -> Option<NextWaiter> {
        let at = self.place_of(owner)?;
        self.queue.remove(at);
        self.tickets.remove(&owner);
        if at == 0 {
            self.free_since_nanos = 0;
        }
        self.queue.get(at).map(RowWaiter::next)
    }
}
/// The waiter that looks next. It counts as waiting for nobody until it has looked: [`crate::core::Core::let_look`].
pub(crate) struct NextWaiter {
    pub owner: u64,
    pub wake: WakeHandle,
}
/// How many wait for a row.
pub(crate) struct RowQueueLength {
    pub key: RowKey,
    pub waiters: usize,
    /// The owner that has waited the longest.
    pub first: u64,
}
/// The result of leaving a queue.
#[derive(Default)]
pub(crate) struct QueueDeparture {
    /// Others are still waiting.
    pub waiting: bool,
    /// The waiter behind, which waited for the owner. As the new head it can go on, else it must wait for another.
    pub next: Option<NextWaiter>,
}
/// Rows of some blocks: the queues of those that are waited for, and who shares which.
#[derive(Default)]
struct ShardRows {
    queues: HashMap<RowKey, RowQueue>,
    shares: SharedRows,
}
impl ShardRows {
    fn sharers(&self, key: RowKey) -> impl Iterator<Item = (u64, RowLockMode)> {
        let (block, slot) = split(key);
        self.shares.of(block, slot)
    }
    fn is_nobodys(&self, key: RowKey) -> bool {
        !self.queues.contains_key(&key) && self.sharers(key).next().is_none()
    }
}
/// A row's block and slot. A key that is no row's, but a transaction's, has some too.
fn split(key: RowKey) -> (BlockKey, u16) {
    let row = RowId::from_u64(key.1);
    ((key.0, row.block), row.slot)
}
#[derive(Default)]
struct RowShard {
    rows: Mutex<ShardRows>,
    /// The number of queues and of blocks with shared rows.
    count: AtomicU32,
}
impl RowShard {
    /// The row's queue, which is made if there is none.
    fn entry<'a>(&self, rows: &'a mut ShardRows, key: RowKey) -> &'a mut RowQueue {
        rows.queues.entry(key).or_insert_with(|| {
            self.count.fetch_add(1, Release);
            RowQueue::new(key)
        })
    }
    fn forget_idle(&self, rows: &mut ShardRows, key: RowKey) {
        if rows.queues.get(&key).is_some_and(RowQueue::is_idle) {
            rows.queues.remove(&key);
            self.count.fetch_sub(1, Release);
        }
    }
    /// Updates the count after shares were added or removed; `before` is the number of blocks before.
    fn count_shares(&self, rows: &ShardRows, before: usize) {
        if rows.shares.len() > before {
            self.count.fetch_add(1, Release);
        } else if rows.shares.len() < before {
            self.count.fetch_sub(1, Release);
        }
    }
}
pub(crate) struct RowLocks {
    shards: Vec<RowShard>,
    /// The rows whose queues are woken when an owner ends, by owner.
    watched: Vec<Mutex<HashMap<u64, Vec<RowKey>>>>,
}
impl Default for RowLocks {
    fn default() -> RowLocks {
        RowLocks {
            shards: (0..SHARDS).map(|_| RowShard::default()).collect(),
            watched: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }
}

/// The owners that stand in the way of taking a row.
#[derive(Default, Debug)]
pub(crate) struct RowBlockers {
    pub shared: Vec<u64>,
    /// The owner that is queued directly before.
    pub ahead: Option<u64>,
}
impl RowBlockers {
    pub(crate) fn is_clear(&self) -> bool {
        self.shared.is_empty() && self.ahead.is_none()
    }
}

/// Whether the row's queue is the one of that place: an older one may have gone, and left its name to another.
fn is_queue(rows: &ShardRows, key: RowKey, place: &Arc<AwaitedRow>) -> bool {
    rows.queues.get(&key).is_some_and(|e| Arc::ptr_eq(&e.place, place))
}
fn remove_from(shard: &RowShard, mut rows: MutexGuard<'_, ShardRows>, key: RowKey, owner: u64) -> QueueDeparture {
    let Some(entry) = rows.queues.get_mut(&key) else { return QueueDeparture::default() };
    let next = entry.remove(owner);
    let waiting = !entry.queue.is_empty();
    shard.forget_idle(&mut rows, key);
    QueueDeparture { waiting, next }
}

impl RowLocks {
    fn shard(&self, key: RowKey) -> &RowShard {
        self.shard_of_block(split(key).0)
    }
    /// The shard of a block: all rows of a block are in the same one.
    fn shard_of_block(&self, (rel, block): BlockKey) -> &RowShard {
        let h = (u64::from(block) ^ u64::from(rel) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(h >> 58) as usize]
    }
    /// Does nobody share any row of the block or wait for one? For rows of a latched page this stays true.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.count.load(Acquire) == 0)
    }
    /// Does nobody share the row or wait for it? This stays true while its page is latched.
    #[inline]
    pub(crate) fn is_nobodys(&self, key: RowKey) -> bool {
        let shard = self.shard(key);
        shard.count.load(Acquire) == 0 || crate::lock(&shard.rows).is_nobodys(key)
    }
    /// `holds`: the owner has the row already (in whatever mode), so it does not queue behind others. The cost
    /// does not depend on the queue's length.
    #[inline]
    pub(crate) fn in_the_way(&self, key: RowKey, owner: u64, mode: RowLockMode, holds: bool) -> RowBlockers {
        let shard = self.shard(key);
        if shard.count.load(Acquire) == 0 {
            return RowBlockers::default();
        }
        let rows = crate::lock(&shard.rows);
        let shared = rows.sharers(key).filter(|(o, m)| *o != owner && m.conflicts(mode)).map(|(o, _)| o).collect();
        let Some(entry) = rows.queues.get(&key) else { return RowBlockers { shared, ahead: None } };
        let holds = holds || rows.sharers(key).any(|(o, _)| o == owner);
        let before = entry.place_of(owner).unwrap_or(entry.queue.len());
        let ahead = if holds { None } else { before.checked_sub(1).and_then(|i| entry.queue.get(i)).map(|w| w.owner) };
        RowBlockers { shared, ahead }
    }
    /// Whether a newcomer may take a row that is free although others wait for it: its head has been woken, but its
    /// thread may not be running just now. Else all that come until then would have to wait too, and those behind them.
    pub(crate) fn may_go_ahead(&self, key: RowKey, owner: u64, now_nanos: u64) -> bool {
        let mut rows = crate::lock(&self.shard(key).rows);
        let Some(entry) = rows.queues.get_mut(&key) else { return true };
        if entry.token != 0 || entry.tickets.contains_key(&owner) {
            return false;
        }
        if entry.free_since_nanos == 0 {
            entry.free_since_nanos = now_nanos;
        }
        now_nanos.saturating_sub(entry.free_since_nanos) < HEAD_START_NANOS
    }
    /// Queues the owner (unless it is queued). `token`: how it looks for rows; 0: not to be led elsewhere. `register`
    /// notes in the graph whom it waits for, given who is directly before it, and says whether it may: then nobody can
    /// let it look before that is noted. None: it may not.
    pub(crate) fn enqueue(
        &self,
        key: RowKey,
        owner: u64,
        wake: WakeHandle,
        token: u64,
        register: impl FnOnce(Option<u64>) -> bool,
    ) -> Option<Arc<AwaitedRow>> {
        let shard = self.shard(key);
        let mut rows = crate::lock(&shard.rows);
        let entry = shard.entry(&mut rows, key);
        let at = entry.place_of(owner).unwrap_or(entry.queue.len());
        let ahead = at.checked_sub(1).and_then(|i| entry.queue.get(i)).map(|w| w.owner);
        if !register(ahead) {
            shard.forget_idle(&mut rows, key);
            return None;
        }
        if entry.queue.is_empty() {
            entry.token = token;
        }
        let ticket = entry.next_ticket;
        if let std::collections::hash_map::Entry::Vacant(free) = entry.tickets.entry(owner) {
            free.insert(ticket);
            entry.next_ticket += 1;
            entry.queue.push_back(RowWaiter { ticket, owner, wake });
            if entry.token != token {
                entry.token = 0;
            }
        }
        Some(entry.place.clone())
    }
    /// Each row that somebody waits for, with how many do, and the first of them. Rows change meanwhile: for whoever looks on.
    pub(crate) fn queues(&self) -> Vec<RowQueueLength> {
        let awaited = self.shards.iter().filter(|shard| shard.count.load(Acquire) != 0);
        let lengths = awaited.flat_map(|shard| {
            let rows = crate::lock(&shard.rows);
            let length = |(key, entry): (&RowKey, &RowQueue)| {
                let first = entry.queue.front()?.owner;
                Some(RowQueueLength { key: *key, waiters: entry.queue.len(), first })
            };
            rows.queues.iter().filter_map(length).collect::<Vec<_>>()
        });
        lengths.collect()
    }
    /// Who waits for the row, in order.
    pub(crate) fn waiters(&self, key: RowKey) -> Vec<u64> {
        let rows = crate::lock(&self.shard(key).rows);
        rows.queues.get(&key).map_or_else(Vec::new, |entry| entry.queue.iter().map(|w| w.owner).collect())
    }
    /// The shard of the row that the queue is waiting for. None: the queue is empty, and has gone.
    fn shard_of(&self, place: &Arc<AwaitedRow>) -> Option<(RowKey, &RowShard, MutexGuard<'_, ShardRows>)> {
        loop {
            let key = place.key();
            let shard = self.shard(key);
            let rows = crate::lock(&shard.rows);
            if place.key() == key {
                return is_queue(&rows, key, place).then_some((key, shard, rows));
            }
        }
    }
    /// As [`RowLocks::leave`], for an owner that has waited, wherever its queue is by now.
    pub(crate) fn leave_queue(&self, place: &Arc<AwaitedRow>, owner: u64) -> QueueDeparture {
        self.shard_of(place)
            .map_or_else(QueueDeparture::default, |(key, shard, rows)| remove_from(shard, rows, key, owner))
    }
    /// The row is gone: who has waited for it leaves. None: nobody was behind it.
    pub(crate) fn take_turn(&self, place: &Arc<AwaitedRow>, owner: u64, token: u64) -> Option<RowTurn> {
        let (key, shard, rows) = self.shard_of(place)?;
        let leads = rows.queues.get(&key).is_some_and(|e| e.token == token && e.place_of(owner) == Some(0))
            && rows.sharers(key).next().is_none();
        let left = remove_from(shard, rows, key, owner);
        left.next.map(|_| RowTurn { place: place.clone(), leads })
    }
    /// The waiter that has the turn after this one.
    pub fn behind(&self, turn: &RowTurn) -> Option<NextWaiter> {
        let (key, _, rows) = self.shard_of(&turn.place)?;
        rows.queues.get(&key).and_then(|e| e.head())
    }
    /// The row is taken: the others wait for it from here on. False: they do not; they look in another way, or a queue
    /// is there already. The caller has the row's page latched.
    #[must_use]
    pub(crate) fn lead_to(&self, turn: &RowTurn, to: RowKey) -> bool {
        let place = &turn.place;
        if !turn.leads {
            return false;
        }
        loop {
            let from = place.key();
            if from == to {
                return true;
            }
            let (old, new) = (self.shard(from), self.shard(to));
            // Both mutexes are locked, always in the order of the shards.
            let (mut first, mut second) = match (std::ptr::from_ref(old), std::ptr::from_ref(new)) {
                (a, b) if a == b => (crate::lock(&old.rows), None),
                (a, b) if a < b => {
                    let first = crate::lock(&old.rows);
                    (first, Some(crate::lock(&new.rows)))
                }
                _ => {
                    let second = crate::lock(&new.rows);
                    (crate::lock(&old.rows), Some(second))
                }
            };
            if place.key() != from {
                continue;
            }
            if !is_queue(&first, from, place) {
                return true;
            }
            if !second.as_ref().unwrap_or(&first).is_nobodys(to) {
                return false;
            }
            let Some(entry) = first.queues.remove(&from) else { return true };
            old.count.fetch_sub(1, Release);
            new.count.fetch_add(1, Release);
            *crate::lock(&place.0) = to;
            second.as_mut().unwrap_or(&mut first).queues.insert(to, entry);
            return true;
        }
    }
    /// Ends the leading of a queue: all waiters that were led to the row look for themselves.
    pub(crate) fn dissolve(&self, key: RowKey) -> Vec<NextWaiter> {
        let mut rows = crate::lock(&self.shard(key).rows);
        let Some(entry) = rows.queues.get_mut(&key) else { return Vec::new() };
        entry.token = 0;
        entry.queue.iter().map(RowWaiter::next).collect()
    }
    /// Notes that the head of the row's queue is to be woken when `holder` ends.
    pub fn watch(&self, holder: u64, key: RowKey) {
        let mut watched = crate::lock(&self.watched[holder as usize % SHARDS]);
        let rows = watched.entry(holder).or_default();
        if !rows.contains(&key) {
            rows.push(key);
        }
    }
    /// Out of the queue, whether the row was taken or not.
    pub fn leave(&self, key: RowKey, owner: u64) -> QueueDeparture {
        let shard = self.shard(key);
        if shard.count.load(Acquire) == 0 {
            return QueueDeparture::default();
        }
        remove_from(shard, crate::lock(&shard.rows), key, owner)
    }
    pub(crate) fn has_shared(&self, key: RowKey, owner: u64, mode: RowLockMode) -> bool {
        let shard = self.shard(key);
        shard.count.load(Acquire) != 0 && crate::lock(&shard.rows).sharers(key).any(|(o, m)| o == owner && m >= mode)
    }
    /// Returns what to give back for it, unless that is given back already with another row of its block. `singly`: this
    /// row may have to be given back before others.
    pub(crate) fn add_shared(&self, key: RowKey, owner: u64, mode: RowLockMode, singly: bool) -> Option<SharedLock> {
        let shard = self.shard(key);
        let (block, slot) = split(key);
        let mut rows = crate::lock(&shard.rows);
        let before = rows.shares.len();
        let is_first = rows.shares.add(block, slot, owner, mode)?;
        shard.count_shares(&rows, before);
        (singly || is_first).then_some(SharedLock { block, mode, slot: singly.then_some(slot) })
    }
    /// Shared locks less; the heads of the rows' queues are to look again.
    pub(crate) fn drop_shared(&self, lock: &SharedLock, owner: u64) -> Vec<NextWaiter> {
        let shard = self.shard_of_block(lock.block);
        let mut rows = crate::lock(&shard.rows);
        let before = rows.shares.len();
        let freed = rows.shares.remove(lock, owner);
        shard.count_shares(&rows, before);
        let (rel, block) = lock.block;
        let keys = freed.into_iter().map(|slot| (rel, RowId { block, slot }.to_u64()));
        keys.filter_map(|key| rows.queues.get(&key).and_then(RowQueue::head)).collect()
    }
    /// The owner's rows are free (or may be): their heads are to look again.
    pub(crate) fn free_watched(&self, owner: u64) -> Vec<NextWaiter> {
        let keys = crate::lock(&self.watched[owner as usize % SHARDS]).remove(&owner).unwrap_or_default();
        if planted::is(PlantedBug::RowWakeLost) {
            return Vec::new();
        }
        let head = |key| crate::lock(&self.shard(key).rows).queues.get(&key).and_then(RowQueue::head);
        keys.into_iter().filter_map(head).collect()
    }
}
