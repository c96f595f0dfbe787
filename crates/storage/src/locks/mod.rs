//! Locks: of rows, of tables, advisory ones, and the waits-for graph that finds deadlocks.
//!
//! Must not know: what is locked, SQL.

pub mod fast;
pub mod owner;
pub mod rows;
pub mod shares;
pub mod table;
pub mod waiting;
pub mod waits_for;

use kilndb_base::{Error, sqlstate};

#[cold]
pub fn deadlock() -> Error {
    Error::new(sqlstate::DEADLOCK_DETECTED, "deadlock detected")
}
