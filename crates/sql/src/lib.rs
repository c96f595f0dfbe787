//! Catalogs, binder, planner, executor, session state.
//!
//! Must not know: sockets, protocol messages, coroutines (it waits through `kilndb_base::park::Park`).

pub mod bind;
pub mod catalog;
pub mod exec;
pub mod explain;
pub mod functions;
pub mod plan;
