//! Workloads that try to break the server, and the checkers that tell whether they did. Never shipped.
//!
//! It sees the server from outside only, through `kilndb-lab`'s client and processes: what it proves holds for the
//! program a user runs. What replaces `Env` below a server, a disk that fails, is here as well ([`disk`]), for the storage
//! crate's own tests and for the simulation.

pub mod crash;
pub mod definitions;
pub mod disk;
pub mod fuzz;
pub mod history;
pub mod random;
pub mod rest;
pub mod sequences;
pub mod sessions;
