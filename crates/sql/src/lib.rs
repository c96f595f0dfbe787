//! Sessions: from a message to a result. Prepared statements, portals, transaction blocks, COPY, routines.
//!
//! Below it are crates of their own: what statements work in (`kilndb-context`), definitions (`kilndb-ddl`), executor,
//! planner, binder, catalogs.
//!
//! Must not know: sockets, protocol messages, coroutines (it waits through `kilndb_base::park::Park`).

mod autoanalyze;
mod copy;
#[cfg(test)]
mod golden;
pub mod instance;
mod plan_guard;
pub mod routine;
pub mod session;

pub use instance::Instance;
use kilndb_context::{client, host, log, privileges, session_context as context, settings};
use kilndb_ddl as ddl;
