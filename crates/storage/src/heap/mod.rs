//! Heaps: rows with stable ids.
//!
//! Must not know: columns, keys, which statement changes a row.

pub mod bulk;
pub mod lock;
pub mod many;
pub mod page;
#[cfg(test)]
mod passing_tests;
pub mod pieces;
pub mod prune;
pub mod read;
#[cfg(test)]
mod settled_tests;
pub mod watch;
pub mod write;
