//! Asking for memory before it is needed: many small relations are in no cache of the processor, and what a point query
//! reads of one is found step by step, each of which waits for memory.
//!
//! Invariants
//! 1. Nothing is read through the addresses kept here, so they may point to memory that was freed.
//! 2. A value that is read without a latch may be half-changed: it decides what is prefetched, and nothing else.
//!
//! Must not know: what is read.

use crate::btree::node;
use crate::directory::Relation;
use crate::page::PAGE;
use crate::txn::Transaction;
use kilndb_base::prefetch::LINE_BYTES;
pub use kilndb_base::prefetch::{fetch, fetch_range, fetch_to_write};
use kilndb_base::sync::atomic::Ordering::Relaxed;

/// The address of a relation.
pub type RelationAddress = usize;

pub fn whereabouts(relation: &Relation) -> RelationAddress {
    std::ptr::from_ref(relation) as usize
}

#[inline]
pub fn fetch_relation(at: RelationAddress) {
    fetch(at);
    fetch(at + LINE_BYTES);
}

impl Transaction {
    /// A row is to be stored in a moment: the page that this worker's last one went to.
    pub fn will_insert(&self, relation: &Relation) {
        let last = relation.insertion_target(self.worker).load(Relaxed);
        if let Some(pid) = last.checked_sub(1).and_then(|block| relation.pid_raw(block)) {
            let (state, page) = relation.core.pool.whereabouts(pid);
            fetch(state);
            fetch(page);
        }
    }
}

/// The addresses that a search in an index reads first.
#[derive(Clone, Copy, Default, Debug)]
pub struct IndexRootAddress {
    relation: RelationAddress,
    /// The address of the root page's latch.
    state: usize,
    page: usize,
}

impl IndexRootAddress {
    pub fn of_index(relation: &Relation) -> IndexRootAddress {
        let (state, page) = relation.pid_raw(0).map_or((0, 0), |pid| relation.core.pool.whereabouts(pid));
        IndexRootAddress { relation: whereabouts(relation), state, page }
    }
    #[inline]
    pub fn fetch(&self) {
        fetch_relation(self.relation);
        fetch_node_at((self.state, self.page));
        fetch_range(self.page + LINE_BYTES, SLOT_LINES * LINE_BYTES - LINE_BYTES);
    }
}

/// Prefetches the slots of a small root page, whose entries may be anywhere in it.
const SLOT_LINES: usize = 4;

/// An index is searched in a moment, and its root has been asked for: the entries between which the search guesses
/// where a key is.
pub fn fetch_bounds(index: &Relation) {
    if let Some(pid) = index.pid_raw(0)
        && let Some(ends) = index.core.pool.peek(pid, |v| node::ends(&v))
    {
        let (_, page) = index.core.pool.whereabouts(pid);
        ends.into_iter().for_each(|off| fetch(page + off));
    }
}

/// The latch of a node, its header, and its end: what separates it from its neighbours, and a small root's entries.
#[inline]
fn fetch_node_at((state, page): (usize, usize)) {
    fetch(state);
    fetch(page);
    fetch(page.wrapping_add(PAGE - LINE_BYTES));
    fetch(page.wrapping_add(PAGE - 2 * LINE_BYTES));
}

/// A node that a search goes to next: it would wait for one of these after the other.
#[inline]
pub(crate) fn fetch_node(relation: &Relation, block: u32) {
    if let Some(pid) = relation.pid_raw(block) {
        fetch_node_at(relation.core.pool.whereabouts(pid));
    }
}

/// A page, most of which is looked at in a moment.
pub(crate) fn fetch_page(relation: &Relation, block: u32) {
    if let Some(pid) = relation.pid_raw(block) {
        let (state, page) = relation.core.pool.whereabouts(pid);
        fetch(state);
        fetch_range(page, PAGE - LINE_BYTES);
    }
}
