//! The queue of trees that are to be swept ([`super::sweep`]).
//!
//! Must not know: how.

use super::dead_prefix::FullKey;
use kilndb_base::sync::Mutex;
use std::collections::VecDeque;

#[derive(Default)]
pub(crate) struct SweepQueue {
    /// The trees, and the key up to which each has been swept.
    queue: Mutex<VecDeque<(u32, FullKey)>>,
}

impl SweepQueue {
    pub fn next(&self) -> Option<(u32, FullKey)> {
        crate::lock(&self.queue).pop_front()
    }
    /// The sweep that was taken out with [`SweepQueue::next`] has come so far.
    pub fn go_on(&self, sweep: (u32, FullKey)) {
        crate::lock(&self.queue).push_front(sweep);
    }
    pub fn push(&self, tree: u32) {
        let mut queue = crate::lock(&self.queue);
        // A sweep that is under way may have passed the entries in question, so the tree is queued again.
        if !queue.iter().any(|(id, from)| *id == tree && from.0.is_empty()) {
            queue.push_back((tree, FullKey::default()));
        }
    }
}
