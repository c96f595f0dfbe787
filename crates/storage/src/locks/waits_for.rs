//! The waits-for graph. Nodes are lock owners (sessions' transactions).
//!
//! Invariants
//! 1. An edge is there from before its owner parks until it runs again.
//! 2. A cycle can only be closed by the edge that is being added, and only if somebody waits for its owner:
//!    otherwise nothing is searched.
//!
//! Must not know: what is waited for; it only tells.

use crate::api::{LockMode, LockTag};
use foldhash::HashMap;
use std::sync::Mutex;

#[derive(Default)]
pub struct WaitGraph {
    inner: Mutex<Graph>,
}
#[derive(Default)]
struct Graph {
    out: HashMap<u64, Vec<u64>>,
    incoming: HashMap<u64, u32>,
    /// What those wait for who wait for a table or advisory lock.
    wanted: HashMap<u64, (LockTag, LockMode)>,
    /// The cycles that were refused, by the owner that would have closed them.
    refused: HashMap<u64, Vec<Waiting>>,
}

/// A link of a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    pub owner: u64,
    pub blocker: u64,
    /// None: a row.
    pub wanted: Option<(LockTag, LockMode)>,
}

impl Graph {
    /// The owners on a path from the blockers to the owner, without it; None: there is none.
    fn path_to(&self, owner: u64, blockers: &[u64]) -> Option<Vec<u64>> {
        let mut todo = blockers.to_vec();
        let mut from: HashMap<u64, u64> = blockers.iter().map(|b| (*b, owner)).collect();
        while let Some(at) = todo.pop() {
            for next in self.out.get(&at).into_iter().flatten() {
                if *next == owner {
                    let mut path = vec![at];
                    while let Some(before) = path.last().and_then(|last| from.get(last)).filter(|before| **before != owner) {
                        path.push(*before);
                    }
                    path.reverse();
                    return Some(path);
                }
                if !from.contains_key(next) {
                    from.insert(*next, at);
                    todo.push(*next);
                }
            }
        }
        None
    }
    fn refuse(&mut self, owner: u64, path: &[u64], wanted: Option<(LockTag, LockMode)>) {
        let mut cycle = vec![Waiting { owner, blocker: path.first().copied().unwrap_or(owner), wanted }];
        for (i, at) in path.iter().enumerate() {
            let blocker = path.get(i + 1).copied().unwrap_or(owner);
            cycle.push(Waiting { owner: *at, blocker, wanted: self.wanted.get(at).copied() });
        }
        self.refused.insert(owner, cycle);
    }
    fn remove(&mut self, owner: u64) {
        self.wanted.remove(&owner);
        for to in self.out.remove(&owner).unwrap_or_default() {
            if let Some(n) = self.incoming.get_mut(&to) {
                *n -= 1;
                if *n == 0 {
                    self.incoming.remove(&to);
                }
            }
        }
    }
}
impl WaitGraph {
    /// `owner` now waits for `blockers` (instead of any before). True: that closes a cycle, and nothing was added.
    #[must_use]
    pub fn wait(&self, owner: u64, blockers: &[u64]) -> bool {
        self.wait_for(owner, blockers, None)
    }
    /// As [`WaitGraph::wait`], for a table or advisory lock.
    #[must_use]
    pub fn wait_for(&self, owner: u64, blockers: &[u64], wanted: Option<(LockTag, LockMode)>) -> bool {
        let mut g = crate::lock(&self.inner);
        g.remove(owner);
        if g.incoming.contains_key(&owner)
            && let Some(path) = g.path_to(owner, blockers)
        {
            g.refuse(owner, &path, wanted);
            return true;
        }
        if let Some(wanted) = wanted {
            g.wanted.insert(owner, wanted);
        }
        for b in blockers {
            *g.incoming.entry(*b).or_default() += 1;
        }
        g.out.insert(owner, blockers.to_vec());
        false
    }
    /// The cycle that the owner would have closed, beginning with its own wait. It is told once.
    pub fn take_refused(&self, owner: u64) -> Vec<Waiting> {
        crate::lock(&self.inner).refused.remove(&owner).unwrap_or_default()
    }
    /// A running owner got in the way of one that waits.
    pub fn add(&self, owner: u64, blocker: u64) {
        let mut g = crate::lock(&self.inner);
        if let Some(out) = g.out.get_mut(&owner)
            && !out.contains(&blocker)
        {
            out.push(blocker);
            *g.incoming.entry(blocker).or_default() += 1;
        }
    }
    /// The owner has given all its rows back and goes on under the same number: those who waited for one of them do not wait
    /// for it any more, though they may not run yet.
    pub fn rows_released(&self, owner: u64) {
        let mut guard = crate::lock(&self.inner);
        let Graph { out, incoming, wanted, .. } = &mut *guard;
        if !incoming.contains_key(&owner) {
            return;
        }
        let mut left = 0;
        for (waiting, blockers) in out.iter_mut() {
            if wanted.contains_key(waiting) {
                left += blockers.iter().filter(|b| **b == owner).count() as u32;
            } else {
                blockers.retain(|b| *b != owner);
            }
        }
        if left == 0 { incoming.remove(&owner) } else { incoming.insert(owner, left) };
    }
    pub fn done(&self, owner: u64) {
        crate::lock(&self.inner).remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_refused_and_told() {
        let graph = WaitGraph::default();
        let table = (LockTag(1, 2, 3), LockMode::Exclusive);
        assert!(!graph.wait(1, &[2, 9]));
        assert!(!graph.wait_for(2, &[8, 3], Some(table)));
        assert!(graph.wait(3, &[7, 1]));
        let waiting = |owner, blocker, wanted| Waiting { owner, blocker, wanted };
        assert_eq!(graph.take_refused(3), [waiting(3, 1, None), waiting(1, 2, None), waiting(2, 3, Some(table))]);
        assert!(graph.take_refused(3).is_empty());
        graph.done(2);
        assert!(!graph.wait(3, &[1]));
    }

    #[test]
    fn who_waited_for_a_row_given_back_waits_no_more() {
        let graph = WaitGraph::default();
        let advisory = (LockTag(2, 0, 7), LockMode::Exclusive);
        assert!(!graph.wait(1, &[5]));
        assert!(!graph.wait_for(2, &[5], Some(advisory)));
        graph.rows_released(5);
        assert!(!graph.wait(5, &[1]));
        assert!(graph.wait(5, &[2]));
        graph.done(2);
        assert!(!graph.wait(5, &[2]));
    }
}
