//! The waits-for graph. Nodes are lock owners (sessions' transactions).
//!
//! Invariants
//! 1. An owner that waits for a row has edges from before it parks until it runs again.
//! 2. An owner that waits for a table or advisory lock has no edges of its own: they follow from the holders and from
//!    the queue before it, of which the graph keeps a copy while anybody waits. So no edge is left behind when an owner
//!    gives up or goes first.
//! 3. A cycle can only be closed by the wait that is being added, and only if somebody waits for its owner: otherwise
//!    nothing is searched.
//!
//! Must not know: what the locks protect.

use super::waiting::{LockWait, RowWait, WaitedObject};
use crate::api::{LockMode, LockTag};
use kilndb_base::hash::{HashMap, HashSet};
use kilndb_base::sync::Mutex;
use kilndb_base::{RelationId, RowId};
use std::collections::VecDeque;

#[derive(Default)]
pub(crate) struct WaitGraph {
    inner: Mutex<WaitEdges>,
}
#[derive(Default)]
struct WaitEdges {
    /// The edges of waits for rows.
    out: HashMap<u64, RowEdges>,
    incoming: HashMap<u64, u32>,
    /// Tables and advisory locks that are waited for.
    tags: HashMap<LockTag, AwaitedLock>,
    /// The lock that each owner waits for, if it waits for one of these.
    wanted: HashMap<u64, (LockTag, LockMode)>,
    /// How many locks that somebody waits for each owner holds.
    holding: HashMap<u64, u32>,
    /// The cycles that were refused, by the owner that would have closed them.
    refused: HashMap<u64, Vec<WaitLink>>,
}

/// The edges of an owner that waits for a row.
struct RowEdges {
    blockers: Vec<u64>,
    wait: RowWait,
}

/// The copy of a lock that somebody waits for.
#[derive(Default)]
struct AwaitedLock {
    /// The modes held, by owner, as bits `1 << mode`.
    held: HashMap<u64, u16>,
    queue: VecDeque<(u64, LockMode)>,
}

impl AwaitedLock {
    /// Does an owner of `modes` stand in the way of `wanted`?
    fn conflict(modes: u16, wanted: LockMode) -> bool {
        modes & wanted.conflict_bits() != 0
    }
    fn holders(&self, owner: u64, wanted: LockMode) -> impl Iterator<Item = u64> {
        self.held
            .iter()
            .filter(move |(o, modes)| **o != owner && AwaitedLock::conflict(**modes, wanted))
            .map(|(o, _)| *o)
    }
    /// The waiters in a part of the queue that stand in the way of an owner behind it.
    fn waiters(&self, owner: u64, wanted: LockMode, part: std::ops::Range<usize>) -> impl Iterator<Item = u64> {
        // An owner that holds the lock in another mode goes ahead of the queue.
        let part = if self.held.contains_key(&owner) { 0..0 } else { part };
        let queue = self.queue.range(part);
        queue.filter(move |(o, mode)| *o != owner && AwaitedLock::conflict(1 << *mode as u16, wanted)).map(|(o, _)| *o)
    }
    fn place_of(&self, owner: u64) -> usize {
        self.queue.iter().position(|(o, _)| *o == owner).unwrap_or(self.queue.len())
    }
    /// A wait for it. Whoever holds it and wants more of it counts among those who wait.
    fn wait_for(&self, tag: LockTag, mode: LockMode) -> LockWait {
        let queue: Vec<u64> = self.queue.iter().map(|(owner, _)| *owner).collect();
        let waiting: HashSet<u64> = queue.iter().copied().collect();
        let holders = self.held.keys().copied().filter(|owner| !waiting.contains(owner)).collect();
        LockWait { object: WaitedObject::Lock(tag, mode), holders, queue }
    }
}

/// A link of a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitLink {
    pub owner: u64,
    pub blocker: u64,
    /// The lock that is waited for; None: a row.
    pub wanted: Option<(LockTag, LockMode)>,
}

/// What a search for cycles knows of the lock queues so far.
#[derive(Default)]
struct SearchedQueues {
    places: HashMap<LockTag, HashMap<u64, usize>>,
    /// Whose part of a queue up to here, looked at by somebody who wants that mode, is known.
    parts: HashMap<(LockTag, LockMode), usize>,
}

impl WaitEdges {
    /// The owners that `owner` waits for, except some that the search knows already.
    fn blockers(&self, owner: u64, seen: &mut SearchedQueues) -> Vec<u64> {
        if let Some(edges) = self.out.get(&owner) {
            return edges.blockers.clone();
        }
        let Some((tag, mode)) = self.wanted.get(&owner) else { return Vec::new() };
        let Some(waited) = self.tags.get(tag) else { return Vec::new() };
        let places = seen
            .places
            .entry(*tag)
            .or_insert_with(|| waited.queue.iter().enumerate().map(|(at, w)| (w.0, at)).collect());
        let place = places.get(&owner).copied().unwrap_or(waited.queue.len());
        let known = seen.parts.get(&(*tag, *mode)).copied();
        let mut found: Vec<u64> = if known.is_none() { waited.holders(owner, *mode).collect() } else { Vec::new() };
        let from = known.unwrap_or(0).min(place);
        found.extend(waited.waiters(owner, *mode, from..place));
        // A holder of the lock has not looked at the queue, and has left itself out.
        if !waited.held.contains_key(&owner) {
            seen.parts.insert((*tag, *mode), known.unwrap_or(0).max(place));
        }
        found
    }
    /// All owners that this one waits for, directly or through others.
    fn reachable(&self, owner: u64) -> HashSet<u64> {
        let mut seen = SearchedQueues::default();
        let mut todo = vec![owner];
        let mut found = HashSet::default();
        while let Some(at) = todo.pop() {
            todo.extend(self.blockers(at, &mut seen).into_iter().filter(|next| found.insert(*next)));
        }
        found
    }
    /// The owners on a path from the blockers to the owner, without it; None: there is none.
    fn path_to(&self, owner: u64, blockers: &[u64]) -> Option<Vec<u64>> {
        let mut seen = SearchedQueues::default();
        let mut todo = blockers.to_vec();
        let mut from: HashMap<u64, u64> = blockers.iter().map(|b| (*b, owner)).collect();
        while let Some(at) = todo.pop() {
            for next in self.blockers(at, &mut seen) {
                if next == owner {
                    let mut path = vec![at];
                    while let Some(before) =
                        path.last().and_then(|last| from.get(last)).filter(|before| **before != owner)
                    {
                        path.push(*before);
                    }
                    path.reverse();
                    return Some(path);
                }
                from.entry(next).or_insert_with(|| {
                    todo.push(next);
                    at
                });
            }
        }
        None
    }
    /// The cycle that the wait closes, beginning with it.
    fn cycle(&self, owner: u64, blockers: &[u64], wanted: Option<(LockTag, LockMode)>) -> Option<Vec<WaitLink>> {
        if !self.is_waited_for(owner) {
            return None;
        }
        let path = self.path_to(owner, blockers)?;
        let mut cycle = vec![WaitLink { owner, blocker: path.first().copied().unwrap_or(owner), wanted }];
        for (i, at) in path.iter().enumerate() {
            let blocker = path.get(i + 1).copied().unwrap_or(owner);
            cycle.push(WaitLink { owner: *at, blocker, wanted: self.wanted.get(at).copied() });
        }
        Some(cycle)
    }
    /// Does anybody wait for the owner?
    fn is_waited_for(&self, owner: u64) -> bool {
        let waited = self.wanted.get(&owner).and_then(|(tag, _)| self.tags.get(tag));
        let is_last = waited.is_none_or(|w| w.queue.back().is_none_or(|(last, _)| *last == owner));
        !is_last || self.incoming.contains_key(&owner) || self.holding.contains_key(&owner)
    }
    fn cycle_of(&self, owner: u64) -> Option<Vec<WaitLink>> {
        let wanted = *self.wanted.get(&owner)?;
        if !self.is_waited_for(owner) {
            return None;
        }
        self.cycle(owner, &self.blockers(owner, &mut SearchedQueues::default()), Some(wanted))
    }
    fn is_in_line(&self, owner: u64) -> bool {
        let is_waiting = |ahead: &u64| self.out.contains_key(ahead);
        self.out.get(&owner).is_some_and(|edges| edges.wait.in_line && edges.blockers.iter().all(is_waiting))
    }
    fn row_wait_of(&self, owner: u64) -> Option<LockWait> {
        let RowEdges { blockers, wait } = self.out.get(&owner)?;
        // Whoever has changed the row comes after those that share it.
        let blocker = *blockers.last()?;
        if let Some((key, mode)) = wait.row
            && self.is_in_line(owner)
        {
            let (relation, row) = (RelationId(key.0), RowId::from_u64(key.1));
            let object = WaitedObject::Row { relation, row, mode, holder: wait.xid };
            return Some(LockWait { object, holders: blockers.clone(), queue: vec![owner] });
        }
        // If the one ahead has got the row meanwhile, its transaction is what is waited for.
        let xid = if wait.in_line { 0 } else { wait.xid };
        let waits_too = |(other, edges): (&u64, &RowEdges)| {
            (*other == owner || !self.is_in_line(*other) && edges.blockers.contains(&blocker)).then_some(*other)
        };
        let mut queue: Vec<u64> = self.out.iter().filter_map(waits_too).collect();
        queue.sort_unstable();
        Some(LockWait { object: WaitedObject::Transaction(xid), holders: vec![blocker], queue })
    }
    fn remove(&mut self, owner: u64) {
        for to in self.out.remove(&owner).map_or_else(Vec::new, |edges| edges.blockers) {
            if let Some(n) = self.incoming.get_mut(&to) {
                *n -= 1;
                if *n == 0 {
                    self.incoming.remove(&to);
                }
            }
        }
    }
    /// Sets the modes that the owner holds now.
    fn set_held(&mut self, tag: LockTag, owner: u64, modes: u16) {
        let Some(waited) = self.tags.get_mut(&tag) else { return };
        if modes != 0 {
            if waited.held.insert(owner, modes).is_none() {
                *self.holding.entry(owner).or_default() += 1;
            }
        } else if waited.held.remove(&owner).is_some() {
            self.holds_one_less(owner);
        }
    }
    fn holds_one_less(&mut self, owner: u64) {
        if let Some(n) = self.holding.get_mut(&owner) {
            *n -= 1;
            if *n == 0 {
                self.holding.remove(&owner);
            }
        }
    }
    /// Drops the copy of a lock that nobody waits for.
    fn forget_unwanted(&mut self, tag: LockTag) {
        if self.tags.get(&tag).is_some_and(|w| w.queue.is_empty()) {
            for owner in self.tags.remove(&tag).into_iter().flat_map(|w| w.held.into_keys()) {
                self.holds_one_less(owner);
            }
        }
    }
}
impl WaitGraph {
    /// `owner` now waits for `blockers` (instead of any before) because of a row. Some: that closes a cycle, and
    /// nothing was added.
    #[must_use]
    pub fn wait(&self, owner: u64, blockers: &[u64], wait: RowWait) -> Option<Vec<WaitLink>> {
        let mut g = crate::lock(&self.inner);
        g.remove(owner);
        if let Some(cycle) = g.cycle(owner, blockers, None) {
            return Some(cycle);
        }
        for b in blockers {
            *g.incoming.entry(*b).or_default() += 1;
        }
        g.out.insert(owner, RowEdges { blockers: blockers.to_vec(), wait });
        None
    }
    /// `owner` now waits, last of all, for a table or advisory lock. `held`: who holds it, and the bits of the modes.
    /// Some: that closes a cycle, which is to be undone.
    #[must_use]
    pub fn wait_for(
        &self,
        owner: u64,
        tag: LockTag,
        mode: LockMode,
        held: &mut dyn Iterator<Item = (u64, u16)>,
    ) -> Option<Vec<WaitLink>> {
        let mut guard = crate::lock(&self.inner);
        let g = &mut *guard;
        let known = g.tags.contains_key(&tag);
        g.tags.entry(tag).or_default();
        if !known {
            for (holder, bits) in held {
                let modes = g.tags.get(&tag).and_then(|w| w.held.get(&holder)).copied().unwrap_or(0);
                g.set_held(tag, holder, modes | bits);
            }
        }
        g.wanted.insert(owner, (tag, mode));
        if let Some(waited) = g.tags.get_mut(&tag) {
            waited.queue.push_back((owner, mode));
        }
        g.cycle_of(owner)
    }
    /// The cycle that a table or advisory lock's waiter is part of.
    pub(crate) fn cycle_of(&self, owner: u64) -> Option<Vec<WaitLink>> {
        crate::lock(&self.inner).cycle_of(owner)
    }
    /// The lock in whose queue the first stands behind the second, who does not hold it: the wait would not be if they
    /// stood the other way round.
    pub(crate) fn only_in_line(&self, wait: &WaitLink) -> Option<LockTag> {
        let (tag, mode) = wait.wanted?;
        let g = crate::lock(&self.inner);
        let waited = g.tags.get(&tag)?;
        let holds = waited.held.get(&wait.blocker).is_some_and(|modes| AwaitedLock::conflict(*modes, mode));
        (!holds && waited.place_of(wait.blocker) < waited.place_of(wait.owner)).then_some(tag)
    }
    /// Puts one waiter directly before another, unless it waits, by way of whomever, for somebody whom it would go
    /// past. Answers whether it was done.
    pub(crate) fn move_ahead(&self, tag: LockTag, owner: u64, before: u64) -> bool {
        let mut g = crate::lock(&self.inner);
        let Some(waited) = g.tags.get_mut(&tag) else { return false };
        let (from, to) = (waited.place_of(owner), waited.place_of(before));
        if to >= from {
            return false;
        }
        let Some(moved) = waited.queue.remove(from) else { return false };
        waited.queue.insert(to, moved);
        let passed: Vec<u64> = waited.queue.range(to + 1..=from).map(|(o, _)| *o).collect();
        let waits_for = g.reachable(owner);
        if !passed.iter().any(|o| waits_for.contains(o)) {
            return true;
        }
        if let Some(waited) = g.tags.get_mut(&tag)
            && let Some(moved) = waited.queue.remove(to)
        {
            waited.queue.insert(from, moved);
        }
        false
    }
    /// The cycle that the owner is refused for is told by `take_refused`.
    pub fn refuse(&self, owner: u64, cycle: Vec<WaitLink>) {
        crate::lock(&self.inner).refused.insert(owner, cycle);
    }
    /// The owner waits for the lock no more: it has it, or has given up.
    pub fn left(&self, owner: u64, tag: LockTag) {
        let mut g = crate::lock(&self.inner);
        g.wanted.remove(&owner);
        if let Some(waited) = g.tags.get_mut(&tag)
            && let Some(at) = waited.queue.iter().position(|(o, _)| *o == owner)
        {
            waited.queue.remove(at);
        }
        g.forget_unwanted(tag);
    }
    /// `modes` are the bits of all modes in which the owner holds, from now on, a lock that others may wait for.
    pub fn holds(&self, owner: u64, tag: LockTag, modes: u16) {
        crate::lock(&self.inner).set_held(tag, owner, modes);
    }
    /// The cycle that the owner would have closed, beginning with its own wait. It is told once.
    pub(crate) fn take_refused(&self, owner: u64) -> Vec<WaitLink> {
        crate::lock(&self.inner).refused.remove(&owner).unwrap_or_default()
    }
    /// The owner has given all its rows back and goes on under the same number: those who waited for one of them do not
    /// wait for it any more, though they may not run yet.
    pub(crate) fn rows_released(&self, owner: u64) {
        let mut guard = crate::lock(&self.inner);
        let WaitEdges { out, incoming, .. } = &mut *guard;
        if incoming.remove(&owner).is_some() {
            out.values_mut().for_each(|edges| edges.blockers.retain(|b| *b != owner));
        }
    }
    /// Notes that the owner no longer waits for a row.
    pub fn done(&self, owner: u64) {
        crate::lock(&self.inner).remove(owner);
    }
    /// Does the owner wait behind others for a row?
    pub(crate) fn is_in_line(&self, owner: u64) -> bool {
        crate::lock(&self.inner).is_in_line(owner)
    }
    /// Does the owner wait for anything? It does not from the moment on at which somebody lets it have what it waited
    /// for, or look for it, though it may not run yet.
    pub(crate) fn is_waiting(&self, owner: u64) -> bool {
        let g = crate::lock(&self.inner);
        g.wanted.contains_key(&owner) || g.out.get(&owner).is_some_and(|edges| !edges.blockers.is_empty())
    }
    /// What the owner waits for, as far as it is known here: a transaction may be 0, and who is in line for a row is
    /// its queue's to tell.
    pub(crate) fn wait_of(&self, owner: u64) -> Option<LockWait> {
        let g = crate::lock(&self.inner);
        match g.wanted.get(&owner) {
            Some((tag, mode)) => Some(g.tags.get(tag)?.wait_for(*tag, *mode)),
            None => g.row_wait_of(owner),
        }
    }
    /// The owners that this one waits for.
    pub fn blockers_of(&self, owner: u64) -> Vec<u64> {
        let g = crate::lock(&self.inner);
        match g.wanted.get(&owner).and_then(|(tag, mode)| Some((g.tags.get(tag)?, *mode))) {
            Some((waited, mode)) => {
                let place = waited.place_of(owner);
                waited.holders(owner, mode).chain(waited.waiters(owner, mode, 0..place)).collect()
            }
            None => g.out.get(&owner).map_or_else(Vec::new, |edges| edges.blockers.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::RowLockMode;

    fn wait_for(graph: &WaitGraph, owner: u64, wanted: (LockTag, LockMode), holders: &[u64]) -> bool {
        graph
            .wait_for(owner, wanted.0, wanted.1, &mut holders.iter().map(|h| (*h, 1 << LockMode::Exclusive as u16)))
            .is_some()
    }

    const ROW: RowWait = RowWait { xid: 70, row: Some(((3, 9), RowLockMode::Update)), in_line: false };

    fn wait(graph: &WaitGraph, owner: u64, blockers: &[u64]) -> bool {
        let cycle = graph.wait(owner, blockers, ROW);
        cycle.map(|c| graph.refuse(owner, c)).is_some()
    }

    #[test]
    fn who_leaves_a_queue_leaves_no_edge() {
        let graph = WaitGraph::default();
        let tag = LockTag(2, 0, 7);
        let exclusive = (tag, LockMode::Exclusive);
        assert!(!wait_for(&graph, 1, exclusive, &[9]));
        assert!(!wait_for(&graph, 2, exclusive, &[]));
        assert!(!wait_for(&graph, 3, exclusive, &[]));
        assert_eq!(graph.blockers_of(3), [9, 1, 2]);
        // The one in the middle gives up; it may wait for the last one then, the first one may not.
        graph.left(2, tag);
        assert!(graph.wait(2, &[3], ROW).is_none());
        graph.done(2);
        graph.left(1, tag);
        graph.holds(1, tag, exclusive.1.conflict_bits());
        graph.holds(9, tag, 0);
        assert!(graph.wait(9, &[3], ROW).is_none());
        assert!(wait(&graph, 1, &[3]));
    }

    #[test]
    fn a_long_queue_is_searched_once() {
        let graph = WaitGraph::default();
        let exclusive = (LockTag(2, 0, 7), LockMode::Exclusive);
        for owner in 1..5_000 {
            assert!(!wait_for(&graph, owner, exclusive, &[9_000]));
        }
        assert!(graph.wait(9_001, &[4_999], ROW).is_none());
        assert!(wait(&graph, 9_000, &[9_001]));
        assert_eq!(graph.take_refused(9_000).len(), 3);
    }

    #[test]
    fn a_cycle_is_refused_and_told() {
        let graph = WaitGraph::default();
        let table = (LockTag(1, 2, 3), LockMode::Exclusive);
        assert!(graph.wait(1, &[2, 9], ROW).is_none());
        assert!(!wait_for(&graph, 2, table, &[8, 3]));
        assert!(wait(&graph, 3, &[7, 1]));
        let waiting = |owner, blocker, wanted| WaitLink { owner, blocker, wanted };
        assert_eq!(graph.take_refused(3), [waiting(3, 1, None), waiting(1, 2, None), waiting(2, 3, Some(table))]);
        assert!(graph.take_refused(3).is_empty());
        graph.left(2, table.0);
        assert!(graph.wait(3, &[1], ROW).is_none());
        assert!(graph.inner.lock().unwrap().tags.is_empty() && graph.inner.lock().unwrap().holding.is_empty());
    }

    #[test]
    fn who_waited_for_a_row_given_back_waits_no_more() {
        let graph = WaitGraph::default();
        let advisory = (LockTag(2, 0, 7), LockMode::Exclusive);
        assert!(graph.wait(1, &[5], ROW).is_none());
        assert!(!wait_for(&graph, 2, advisory, &[5]));
        graph.rows_released(5);
        assert!(graph.wait(5, &[1], ROW).is_none());
        graph.done(5);
        assert!(wait(&graph, 5, &[2]));
        graph.left(2, advisory.0);
        assert!(graph.wait(5, &[2], ROW).is_none());
    }

    #[test]
    fn a_wait_is_described() {
        let graph = WaitGraph::default();
        let shared = (LockTag(2, 0, 7), LockMode::Share);
        assert!(graph.wait_of(1).is_none() && !graph.is_waiting(1));
        assert!(!wait_for(&graph, 1, shared, &[9]));
        assert!(!wait_for(&graph, 9, shared, &[]));
        let wait = graph.wait_of(1).expect("a wait");
        // Nobody but the one who wants it in another mode too holds it.
        assert_eq!(
            (wait.object, wait.holders, wait.queue),
            (WaitedObject::Lock(shared.0, shared.1), vec![], vec![1, 9])
        );
        graph.left(1, shared.0);
        assert!(graph.wait_of(1).is_none() && !graph.is_waiting(1));

        assert!(graph.wait(2, &[5], ROW).is_none());
        assert!(graph.wait(3, &[2], RowWait { in_line: true, ..ROW }).is_none());
        assert!(graph.wait(4, &[5], RowWait { row: None, ..ROW }).is_none());
        let of = |owner| graph.wait_of(owner).map(|wait| (wait.object, wait.holders, wait.queue));
        assert_eq!(of(2), Some((WaitedObject::Transaction(70), vec![5], vec![2, 4])));
        let (relation, row) = (RelationId(3), RowId::from_u64(9));
        let row = WaitedObject::Row { relation, row, mode: RowLockMode::Update, holder: 70 };
        assert_eq!(of(3), Some((row, vec![2], vec![3])));
        // The first one has the row: it is the second one's transaction that the third waits for.
        graph.done(2);
        assert_eq!(of(3), Some((WaitedObject::Transaction(0), vec![2], vec![3])));
        graph.rows_released(2);
        assert!(of(3).is_none() && !graph.is_waiting(3));
    }
}
