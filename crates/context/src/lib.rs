//! What the statements of a session work in, whoever runs them: who is at work, settings, the transaction, the catalogs
//! as it sees them, what they may look up, and the cluster around all of it.
//!
//! Must not know: definitions, prepared statements, portals, routines' languages, messages, sockets (it waits through
//! `kilndb_base::park::Park`).

pub mod authentication;
pub mod client;
pub mod cluster;
pub mod exports;
pub mod host;
pub mod lock_waits;
pub mod log;
pub mod logged_changes;
pub mod notify;
pub mod privileges;
pub mod server_files;
pub mod session_context;
pub mod settings;
pub mod slow_statements;
pub mod tls_facts;

pub use cluster::{Cluster, ClusterOptions};
pub use session_context::SessionContext;

/// What clients are told: the PostgreSQL whose protocol and dialect this is.
pub const SERVER_VERSION: &str = "18.0";
