//! What the extension pgcrypto computes: digests, ciphers, password hashes, messages of OpenPGP, ASCII armor.
//!
//! The primitives are RustCrypto's. What is here is what PostgreSQL makes of them: the names of algorithms, keys that are
//! cut or filled up, modes and padding, crypt(3)'s older and newer hashes.
//!
//! Must not know: SQL values, sessions. Chance comes from whoever calls.

pub(crate) mod armor;
pub(crate) mod cipher;
pub(crate) mod crypt;
mod des_crypt;
pub(crate) mod digest;
pub(crate) mod pgp;
mod pgp_options;
mod sha_crypt;

use kilndb_base::{Error, sqlstate};

/// What goes wrong within a function of the extension.
#[cold]
pub(crate) fn failed(message: impl Into<String>) -> Error {
    Error::new(sqlstate::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, message)
}
#[cold]
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// The name of an algorithm as messages show it: in lower case, and no longer than an identifier.
pub(crate) fn algorithm_name(name: &str) -> String {
    const BYTES_MAX: usize = 63;
    let end = (0..=BYTES_MAX.min(name.len())).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    name.get(..end).unwrap_or("").to_ascii_lowercase()
}

/// The digits in which crypt(3) writes six bits.
pub(crate) const CRYPT_DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Appends so many digits of a number, those of the lowest bits first.
pub(crate) fn push_digits(out: &mut String, mut bits: u32, digits: usize) {
    for _ in 0..digits {
        out.push(char::from(CRYPT_DIGITS[(bits & 0x3f) as usize]));
        bits >>= 6;
    }
}
