//! What every other crate stands on: identifiers, errors that carry an SQLSTATE, byte codecs,
//! and `Env`, through which clock, files, randomness, threads and other processes are reached.
//!
//! Invariants
//! 1. An [`Error`] has its SQLSTATE from the place where it arises; nobody guesses it later.
//! 2. Nothing outside [`env`] touches the operating system's clock, files or randomness, and nothing outside [`sync`] its
//!    threads.
//!
//! Must not know: pages, SQL values, the protocol.

pub mod bytes;
pub mod env;
pub mod error;
pub mod hash;
pub mod ids;
pub mod loser_tree;
pub mod memory;
pub mod network;
pub mod overlay;
pub mod park;
pub mod planted;
pub mod prefetch;
pub mod shared;
pub mod stack;
pub mod sync;
pub mod work;
pub mod worker_load;

pub use error::{Error, Result, Severity, SqlState, sqlstate};
pub use ids::{Csn, Lsn, Oid, PageId, RelationId, RowId, Xid};
