//! What the tests and experiments that see KilnDB from outside have in common: a client, servers in temporary
//! folders, files of SQL with expected results, specs of concurrent sessions, and experiments on servers side by side.
//!
//! It must not know the server's crates: everything here works through the protocol and the command line, so that it
//! runs against any server that speaks the protocol.

pub mod both;
pub mod canned;
pub mod client;
pub mod command;
pub mod commit_latency;
pub mod conversation;
pub mod counter;
pub mod driver;
pub mod experiment;
pub mod explained;
mod filled_tables;
pub mod films;
pub mod guard;
pub mod isolation;
pub mod kind;
pub mod postgres;
pub mod process;
pub mod proof;
pub mod questions;
pub mod random;
pub mod report;
pub mod results;
pub mod run;
pub mod script;
pub mod session_socket;
pub mod slt;
pub mod statistics;
pub mod suite;
pub mod target;
pub mod tls;
pub mod top;
pub mod tpcc;
pub mod tpch;
