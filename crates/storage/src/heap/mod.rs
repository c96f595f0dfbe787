//! Heaps: rows with stable ids.
pub mod bulk;
pub mod lock;
pub mod page;
pub mod pieces;
pub mod read;
pub mod splice;
pub mod write;
