//! The whole engine on one scheduler: sessions, cleaner, merger, flusher, checkpointer and recovery take turns as a seed
//! says, in virtual time, on a disk in memory, and are killed anywhere. docs/simulation.md says how to run it and how to
//! read what it finds.
//!
//! Invariants
//! 1. All that a run does follows from its seed: a second run has the same trace.
//! 2. What runs under the scheduler waits through `kilndb_base::sync` and reaches files, clock and randomness through the
//!    [`machine::MachineEnv`].
//! 3. A run ends its process: tasks of machines that were killed stay behind.
//!
//! Must not know: sockets, workers and coroutines of the server: a session in a task of its own stands for them.

pub mod clients;
pub mod machine;
pub mod network;
pub mod parts;
pub mod run;
pub mod session;
pub mod trouble;
pub mod workloads;
