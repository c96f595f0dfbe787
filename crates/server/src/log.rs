//! The server's log: lines on standard error.
//!
//! Invariants
//! 1. Nobody fails because nobody reads the log.
//!
//! Must not know: who writes, and why.

use kilndb_base::Severity;
use std::io::Write;

pub fn write(severity: Severity, message: &str) {
    // One system call: lines of the two processes do not mix. Invariant 1.
    let _ = std::io::stderr().write_all(format!("{}:  {message}\n", severity.as_str()).as_bytes());
}
