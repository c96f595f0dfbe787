//! PostgreSQL's protocol 3.0 / 3.2: messages in and out, as bytes in memory.
//!
//! Invariants
//! 1. Decoding never trusts a length: what does not fit is a protocol error (08P01).
//! 2. Encoding appends to one buffer; nothing here decides when it is written.
//!
//! Must not know: sockets, sessions, SQL values (a column value is bytes or NULL).

pub mod backend;
pub mod frontend;

pub use backend::OutputBuffer;
pub use frontend::{Frontend, Startup};
