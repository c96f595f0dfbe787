//! NOTIFY: one queue per database, read by those who listen.
//!
//! Invariants
//! 1. Entries stand in the order in which their transactions were committed: appending and committing are one step.
//! 2. Nobody reads past an entry whose transaction's end is not known to be durable. Whoever settles the first such
//!    entry wakes those concerned by everything that can be read from then on.
//! 3. A listener reads every entry that could not be read when it was registered.
//! 4. An entry lives until all who listen have read it: positions are references into a chain, and nobody looks for the
//!    oldest.
//!
//! Must not know: transactions, messages of the protocol.

use crate::client::SessionControl;
use kilndb_base::hash::{HashMap, HashSet};
use kilndb_base::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use kilndb_base::sync::{Arc, Mutex, MutexGuard, OnceLock};
use kilndb_base::{Error, Oid, Result, sqlstate};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Listeners woken under one hold of the list's lock.
const WOKEN_AT_ONCE: usize = 128;
/// The least time between two warnings about a queue that fills up.
const WARNING_INTERVAL_NANOS: u64 = 5_000_000_000;

/// Channel and payload.
pub type Notification = (Box<str>, Box<str>);

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// The queues of all databases, and the room they share.
#[derive(Default)]
pub struct Notifications {
    queues: Mutex<HashMap<Oid, Arc<Queue>>>,
    used_bytes: Arc<AtomicU64>,
}

impl Notifications {
    pub fn queue(&self, database: Oid) -> Arc<Queue> {
        let used_bytes = self.used_bytes.clone();
        locked(&self.queues).entry(database).or_insert_with(|| Arc::new(Queue::new(used_bytes))).clone()
    }
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

const PENDING: u8 = 0;
const COMMITTED: u8 = 1;
const ABORTED: u8 = 2;

/// The place after an entry (or before the first one).
struct Position {
    number: u64,
    next: OnceLock<Arc<QueueItem>>,
}

/// What one transaction has sent.
struct QueueItem {
    message: Arc<Message>,
    state: AtomicU8,
    after: Arc<Position>,
}

pub struct Message {
    /// The process id of the sender.
    pub sender: i32,
    pub notifications: Vec<Notification>,
    _room: Room,
}

/// A share of the queue's room.
pub struct Room {
    used_bytes: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for Position {
    /// A chain that nobody else holds goes without recursion.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(entry) = next.and_then(Arc::into_inner) {
            next = Arc::into_inner(entry.after).and_then(|mut place| place.next.take());
        }
    }
}

struct Tail {
    last: Arc<Position>,
    /// Everything before it can be read.
    readable: Arc<Position>,
}

#[derive(Default)]
struct Listeners {
    channels: HashMap<Box<str>, BTreeMap<i32, Arc<SessionControl>>>,
    /// How far each has read: numbers of places.
    positions: BTreeMap<i32, Arc<AtomicU64>>,
}

pub struct Queue {
    tail: Mutex<Tail>,
    listeners: Mutex<Listeners>,
    used_bytes: Arc<AtomicU64>,
    warned_nanos: AtomicU64,
}

/// A queue fuller than half: how much of it in percent, and who has read least.
pub struct Fullness {
    pub percent: f64,
    pub slowest: Option<i32>,
}

impl Queue {
    fn new(used_bytes: Arc<AtomicU64>) -> Queue {
        let first = Arc::new(Position { number: 0, next: OnceLock::new() });
        let tail = Tail { last: first.clone(), readable: first };
        Queue { tail: Mutex::new(tail), listeners: Mutex::default(), used_bytes, warned_nanos: AtomicU64::new(0) }
    }

    /// Room for notifications that are about to be sent.
    pub fn reserve(&self, list: &[Arc<Notification>], limit_bytes: u64) -> Result<Room> {
        let bytes = list.iter().map(|n| (18 + n.0.len() + n.1.len()).next_multiple_of(4) as u64).sum();
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit_bytes);
        match self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Room { used_bytes: self.used_bytes.clone(), bytes }),
            Err(_) => Err(Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "too many notifications in the NOTIFY queue")),
        }
    }

    /// Something to warn of, every few seconds at most.
    pub(crate) fn fullness(&self, limit_bytes: u64, now_nanos: u64) -> Option<Fullness> {
        let used = self.used_bytes.load(Ordering::Relaxed);
        if used < limit_bytes / 2 {
            return None;
        }
        let warned = self.warned_nanos.load(Ordering::Relaxed);
        if warned != 0 && now_nanos < warned.saturating_add(WARNING_INTERVAL_NANOS) {
            return None;
        }
        self.warned_nanos.store(now_nanos, Ordering::Relaxed);
        let listeners = locked(&self.listeners);
        let slowest = listeners.positions.iter().min_by_key(|(_, at)| at.load(Ordering::Relaxed)).map(|(pid, _)| *pid);
        Some(Fullness { percent: used as f64 * 100.0 / limit_bytes as f64, slowest })
    }

    /// Appends a transaction's notifications and ends it with `commit`, before anybody else who notifies.
    pub fn append<R>(
        self: &Arc<Queue>,
        sender: i32,
        list: Vec<Arc<Notification>>,
        room: Room,
        commit: impl FnOnce() -> R,
    ) -> (R, Appended) {
        let notifications = list.into_iter().map(Arc::unwrap_or_clone).collect();
        let message = Arc::new(Message { sender, notifications, _room: room });
        let mut tail = locked(&self.tail);
        let after = Arc::new(Position { number: tail.last.number + 1, next: OnceLock::new() });
        let entry = Arc::new(QueueItem { message, state: AtomicU8::new(PENDING), after: after.clone() });
        // The last place has no next one: only this function sets it, under the lock.
        let _ = tail.last.next.set(entry.clone());
        tail.last = after;
        let appended = Appended { queue: self.clone(), entry };
        let ended = commit();
        drop(tail);
        (ended, appended)
    }

    /// The end of an entry's transaction is known.
    fn settle(&self, entry: &QueueItem, state: u8) {
        entry.state.store(state, Ordering::Release);
        let mut readable = Vec::new();
        {
            let mut tail = locked(&self.tail);
            while let Some(next) = tail.readable.next.get().cloned() {
                if next.state.load(Ordering::Acquire) == PENDING {
                    break;
                }
                tail.readable = next.after.clone();
                readable.push(next);
            }
        }
        let sent = readable.iter().filter(|e| e.state.load(Ordering::Relaxed) == COMMITTED);
        let channels: HashSet<&str> = sent.flat_map(|e| e.message.notifications.iter().map(|n| &*n.0)).collect();
        for channel in channels {
            self.wake(channel);
        }
    }

    fn wake(&self, channel: &str) {
        let mut last = None;
        loop {
            let listeners = locked(&self.listeners);
            let Some(sessions) = listeners.channels.get(channel) else { return };
            let from = last.map_or(Bound::Unbounded, Bound::Excluded);
            let mut count = 0;
            for (process_id, control) in sessions.range((from, Bound::Unbounded)).take(WOKEN_AT_ONCE) {
                control.notify();
                last = Some(*process_id);
                count += 1;
            }
            if count < WOKEN_AT_ONCE {
                return;
            }
        }
    }

    /// A new listener, still without channels.
    pub fn listen(self: &Arc<Queue>, control: Arc<SessionControl>) -> Listener {
        let place = locked(&self.tail).readable.clone();
        let position = Arc::new(AtomicU64::new(place.number));
        locked(&self.listeners).positions.insert(control.process_id, position.clone());
        Listener { queue: self.clone(), control, place, position, channels: Vec::new() }
    }
}

/// Notifications in the queue whose transaction has ended, or is about to. Not committed unless it is told so.
pub struct Appended {
    queue: Arc<Queue>,
    entry: Arc<QueueItem>,
}

impl Appended {
    pub fn committed(self) {
        self.queue.settle(&self.entry, COMMITTED);
    }
}

impl Drop for Appended {
    fn drop(&mut self) {
        if self.entry.state.load(Ordering::Relaxed) == PENDING {
            self.queue.settle(&self.entry, ABORTED);
        }
    }
}

/// A session that listens.
pub struct Listener {
    queue: Arc<Queue>,
    control: Arc<SessionControl>,
    place: Arc<Position>,
    position: Arc<AtomicU64>,
    channels: Vec<Box<str>>,
}

impl Listener {
    /// In the order in which they were asked for.
    pub fn channels(&self) -> &[Box<str>] {
        &self.channels
    }

    pub fn add(&mut self, channel: &str) {
        if !self.channels.iter().any(|c| **c == *channel) {
            self.channels.push(channel.into());
            let mut listeners = locked(&self.queue.listeners);
            listeners.channels.entry(channel.into()).or_default().insert(self.control.process_id, self.control.clone());
        }
    }

    pub fn remove(&mut self, channel: &str) {
        let Some(at) = self.channels.iter().position(|c| **c == *channel) else { return };
        self.channels.remove(at);
        let mut listeners = locked(&self.queue.listeners);
        if let Some(sessions) = listeners.channels.get_mut(channel) {
            sessions.remove(&self.control.process_id);
            if sessions.is_empty() {
                listeners.channels.remove(channel);
            }
        }
    }

    /// As if it had been woken.
    pub(crate) fn look_again(&self) {
        self.control.notify();
    }

    /// The next transaction's notifications, those of other channels among them.
    pub fn read(&mut self) -> Option<Arc<Message>> {
        loop {
            let entry = self.place.next.get()?.clone();
            let state = entry.state.load(Ordering::Acquire);
            if state == PENDING {
                return None;
            }
            self.place = entry.after.clone();
            self.position.store(self.place.number, Ordering::Relaxed);
            if state == COMMITTED {
                return Some(entry.message.clone());
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        while let Some(channel) = self.channels.last().cloned() {
            self.remove(&channel);
        }
        locked(&self.queue.listeners).positions.remove(&self.control.process_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Activity;
    use kilndb_base::park::{Park, ThreadPark};

    fn control(process_id: i32) -> Arc<SessionControl> {
        let wake = ThreadPark::new().wake_handle();
        Arc::new(SessionControl::new(process_id, Vec::new(), wake.clone(), wake, Activity::default()))
    }

    fn send(queue: &Arc<Queue>, payload: &str) -> Appended {
        let list = vec![Arc::new((Box::from("c"), Box::from(payload)))];
        let room = queue.reserve(&list, 1 << 20).unwrap();
        queue.append(1, list, room, || ()).1
    }

    fn heard(listener: &mut Listener) -> Vec<String> {
        std::iter::from_fn(|| listener.read())
            .flat_map(|m| m.notifications.iter().map(|n| n.1.to_string()).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn what_was_committed_first_is_read_first_whoever_is_settled_first() {
        let all = Notifications::default();
        let queue = all.queue(1);
        let (early, other) = (control(1), control(2));
        let mut listener = queue.listen(early.clone());
        listener.add("c");
        let (one, two, three) = (send(&queue, "1"), send(&queue, "2"), send(&queue, "3"));
        three.committed();
        assert!(heard(&mut listener).is_empty() && !early.take_notified());
        let mut late = queue.listen(other.clone());
        late.add("c");
        drop(two);
        one.committed();
        assert!(early.take_notified() && other.take_notified());
        assert_eq!(heard(&mut listener), ["1", "3"]);
        // Nothing of it could be read when the second one began to listen.
        assert_eq!(heard(&mut late), ["1", "3"]);
        assert_eq!(all.used_bytes(), 0);
        send(&queue, "4").committed();
        assert_eq!(heard(&mut late), ["4"]);
        assert!(all.used_bytes() > 0);
        drop(listener);
        assert_eq!(all.used_bytes(), 0);
        send(&queue, "5").committed();
        assert_eq!(heard(&mut late), ["5"]);
    }

    #[test]
    fn a_full_queue_refuses_and_a_long_one_goes_at_once() {
        let all = Notifications::default();
        let queue = all.queue(1);
        let mut listener = queue.listen(control(1));
        for n in 0..200_000 {
            let list = vec![Arc::new((Box::from("c"), Box::from(n.to_string().as_str())))];
            let room = queue.reserve(&list, u64::MAX).unwrap();
            queue.append(1, list, room, || ()).1.committed();
        }
        let list = vec![Arc::new((Box::from("c"), Box::from("x")))];
        let full = queue.reserve(&list, all.used_bytes()).err().unwrap();
        assert_eq!(full.sqlstate(), sqlstate::PROGRAM_LIMIT_EXCEEDED);
        let fullness = queue.fullness(all.used_bytes(), 1).unwrap();
        assert_eq!((fullness.percent, fullness.slowest), (100.0, Some(1)));
        assert!(listener.read().is_some());
        drop(listener);
        assert_eq!(all.used_bytes(), 0);
    }
}
