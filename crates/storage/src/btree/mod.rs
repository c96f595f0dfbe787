//! B-link trees (Lehman and Yao) over byte keys.
//!
//! Invariants
//! 1. Every node has a right sibling and both fences; a reader that finds its key right of the node moves right, left
//!    of it starts again from the root. So a page may be reused while stale pointers to it are about.
//! 2. Block 0 is the root for ever; when it is full its contents move into two new children.
//! 3. A split is one log record (both halves), its entry in the parent another.
//! 4. Latches: leaf to right sibling, left to right; the parent after the children are released.
//!
//! Must not know: what keys mean.

pub mod build;
mod change_many;
pub(crate) mod check;
pub mod dead_prefix;
pub mod insert;
pub mod insert_many;
pub(crate) mod merge;
pub mod method;
pub mod node;
pub(crate) mod retire;
pub mod scan;
pub mod search;
mod settle_many;
pub(crate) mod shrink;
pub(crate) mod shrink_queue;
pub mod split;
pub mod sweep;
pub mod sweep_queue;
