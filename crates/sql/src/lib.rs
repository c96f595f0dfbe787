//! Sessions and what they do: definitions, COPY, routines, settings, the way from a statement to its result.
//!
//! Below it are crates of their own: catalogs, binder, planner, executor.
//!
//! Must not know: sockets, protocol messages, coroutines (it waits through `kilndb_base::park::Park`).

pub mod client;
pub mod cluster;
mod context;
mod copy;
mod ddl;
mod exports;
mod host;
pub mod instance;
pub mod log;
pub mod logged_changes;
pub mod notify;
pub mod routine;
pub mod session;
pub mod settings;

pub use cluster::{Cluster, ClusterOptions};
pub use instance::Instance;

/// What clients are told: the PostgreSQL whose protocol and dialect this is.
pub const SERVER_VERSION: &str = "18.0";
