//! Catalogs, binder, planner, executor, session state.
//!
//! Must not know: sockets, protocol messages, coroutines (it waits through `kilndb_base::park::Park`).

pub mod bind;
pub mod catalog;
pub mod client;
mod copy;
mod ddl;
pub mod exec;
pub mod explain;
pub mod functions;
pub mod helpers;
pub mod instance;
pub mod notify;
pub mod plan;
pub mod routine;
pub mod session;
pub mod settings;
pub mod stats;

pub use instance::{Instance, InstanceOptions};

/// What clients are told: the PostgreSQL whose protocol and dialect this is.
pub const SERVER_VERSION: &str = "18.0";
