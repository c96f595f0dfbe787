//! The waits-for graph. Nodes are lock owners (sessions' transactions).
//!
//! Invariants
//! 1. An edge is there from before its owner parks until it runs again.
//! 2. A cycle can only be closed by the edge that is being added, and only if somebody waits for its owner:
//!    otherwise nothing is searched.
//!
//! Must not know: what is waited for.

use std::collections::HashMap;
use std::sync::Mutex;

#[derive(Default)]
pub struct WaitGraph {
    inner: Mutex<Graph>,
}
#[derive(Default)]
struct Graph {
    out: HashMap<u64, Vec<u64>>,
    incoming: HashMap<u64, u32>,
}
impl Graph {
    fn remove(&mut self, owner: u64) {
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
        let mut g = crate::lock(&self.inner);
        g.remove(owner);
        if g.incoming.contains_key(&owner) {
            let mut todo = blockers.to_vec();
            let mut seen = std::collections::HashSet::new();
            while let Some(at) = todo.pop() {
                if at == owner {
                    return true;
                }
                if seen.insert(at)
                    && let Some(next) = g.out.get(&at)
                {
                    todo.extend_from_slice(next);
                }
            }
        }
        for b in blockers {
            *g.incoming.entry(*b).or_default() += 1;
        }
        g.out.insert(owner, blockers.to_vec());
        false
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
    pub fn done(&self, owner: u64) {
        crate::lock(&self.inner).remove(owner);
    }
}
