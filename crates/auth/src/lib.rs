//! Who somebody is: passwords as they are kept, the exchanges that prove that one is known, and the rules of
//! `pg_hba.conf` and `pg_ident.conf`.
//!
//! Invariants
//! 1. Everything here is a function of bytes that are given to it: files, random bytes, the clock and what is known of
//!    roles come from the caller.
//! 2. What depends on a secret is compared in constant time.
//! 3. Whether a role exists shows neither in what an exchange answers nor in how long that takes.
//!
//! Must not know: pages, catalogs, sessions, sockets.

mod base64;
pub mod hba;
pub mod ident;
pub mod lines;
pub mod names;
pub mod password;
mod saslprep;
pub mod scram;
