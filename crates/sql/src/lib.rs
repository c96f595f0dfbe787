//! Sessions and what they do: definitions, COPY, routines, settings, the way from a statement to its result.
//!
//! Below it are crates of their own: catalogs, binder, planner, executor.
//!
//! Must not know: sockets, protocol messages, coroutines (it waits through `kilndb_base::park::Park`).

pub mod client;
mod copy;
mod ddl;
pub mod instance;
pub mod log;
pub mod logged_changes;
pub mod notify;
pub mod routine;
pub mod session;
pub mod settings;

pub use instance::{Instance, InstanceOptions};

/// What clients are told: the PostgreSQL whose protocol and dialect this is.
pub const SERVER_VERSION: &str = "18.0";
