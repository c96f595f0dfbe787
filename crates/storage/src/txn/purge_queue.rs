//! The queue of committed transactions whose deletes are to be purged ([`super::purge`]).
//!
//! Must not know: how.

use super::table::LiveSnapshots;
use kilndb_base::sync::Mutex;
use kilndb_base::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::collections::{BTreeMap, VecDeque};

pub(crate) struct PendingPurge {
    pub xid: u64,
    pub csn: u64,
    pub heads: [u64; 2],
    pub chunks: Vec<u64>,
    pub logged: bool,
}
#[derive(Default)]
pub(crate) struct PurgeQueue {
    /// How many transactions were pushed and are not finished: those that wait and the one at hand.
    pub(super) unfinished: AtomicUsize,
    pub(super) queue: Mutex<VecDeque<PendingPurge>>,
    /// The transactions that a snapshot stands in the way of, by that snapshot.
    pub(super) blocked: Mutex<BTreeMap<u64, Vec<PendingPurge>>>,
}
impl PurgeQueue {
    pub fn push(&self, item: PendingPurge) {
        self.unfinished.fetch_add(1, SeqCst);
        crate::lock(&self.queue).push_back(item);
    }
    /// Includes the transaction that a round has taken out and works on.
    pub fn len(&self) -> usize {
        self.unfinished.load(SeqCst)
    }
    /// Is everything purged that was committed up to `csn`?
    pub fn is_settled(&self, csn: u64) -> bool {
        let blocked = crate::lock(&self.blocked);
        let queue = crate::lock(&self.queue);
        let waiting = || queue.iter().chain(blocked.values().flatten());
        // If the numbers differ, one more transaction is at hand, whose CSN is not known here.
        waiting().count() == self.unfinished.load(SeqCst) && waiting().all(|item| item.csn > csn)
    }
    pub fn ready(&self) -> usize {
        crate::lock(&self.queue).len()
    }
    /// Moves transactions whose snapshot is gone back to the queue.
    pub(super) fn unblock(&self, live: &LiveSnapshots) {
        let mut blocked = crate::lock(&self.blocked);
        let gone: Vec<u64> = blocked.keys().filter(|b| !live.contains(**b)).copied().collect();
        for b in gone {
            crate::lock(&self.queue).extend(blocked.remove(&b).unwrap_or_default());
        }
    }
}
