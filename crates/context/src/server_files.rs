//! Errors of operations on the server's files that a user has named.

use kilndb_base::{Error, sqlstate};
use std::io;

/// The error of an operation on a file, with PostgreSQL's code for it.
pub fn failed(what: String, e: &io::Error) -> Error {
    let state = match e.raw_os_error() {
        Some(libc::ENOENT) => sqlstate::UNDEFINED_FILE,
        Some(libc::EPERM | libc::EACCES | libc::EROFS) => sqlstate::INSUFFICIENT_PRIVILEGE,
        Some(libc::EEXIST) => sqlstate::DUPLICATE_FILE,
        Some(libc::ENOTDIR | libc::EISDIR | libc::ENOTEMPTY) => sqlstate::WRONG_OBJECT_TYPE,
        Some(libc::ENOSPC) => sqlstate::DISK_FULL,
        Some(libc::EIO) => sqlstate::IO_ERROR,
        Some(libc::ESPIPE) => return Error::unsupported(format!("{what}: only regular files are supported")),
        _ => sqlstate::INTERNAL_ERROR,
    };
    let text = e.to_string();
    let reason = text.split(" (os error").next().unwrap_or("").to_string();
    Error::new(state, format!("{what}: {reason}"))
}
