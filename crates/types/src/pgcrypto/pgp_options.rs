//! Options of the functions of OpenPGP: `name=value, …`.

use super::cipher::PgpCipher;
use super::failed;
use crate::EvalContext;
use kilndb_base::{Error, Result, Severity, sqlstate};

#[cold]
pub(super) fn illegal() -> Error {
    failed("Illegal argument to function")
}
#[cold]
pub(super) fn unsupported_cipher() -> Error {
    failed("Unsupported cipher algorithm")
}
#[cold]
pub(super) fn unsupported_digest() -> Error {
    failed("Unsupported digest algorithm")
}
#[cold]
pub(super) fn unsupported_compression() -> Error {
    failed("Unsupported compression algorithm")
}

/// Numbers of RFC 4880, section 9.
pub(super) const MD5: u8 = 1;
pub(super) const SHA1: u8 = 2;
pub(super) const SHA256: u8 = 8;
pub(super) const SHA384: u8 = 9;
pub(super) const SHA512: u8 = 10;

pub(super) const NO_COMPRESSION: u8 = 0;
pub(super) const ZIP: u8 = 1;
pub(super) const ZLIB: u8 = 2;

/// How a password becomes a key: its digest, with a salt, over and over.
pub(super) const SIMPLE: u8 = 0;
pub(super) const SALTED: u8 = 1;
pub(super) const ITERATED: u8 = 3;

const COUNT_MIN: i64 = 1024;
const COUNT_MAX: i64 = 65_011_712;

/// How a message is made, or was.
#[derive(Clone, Copy)]
pub(super) struct PgpOptions {
    pub cipher: PgpCipher,
    /// What the session's key is encrypted with, if it is another one.
    pub key_cipher: Option<PgpCipher>,
    pub key_mode: u8,
    pub key_digest: u8,
    /// 0: chance decides.
    pub key_count: i64,
    pub has_session_key: bool,
    /// Without a digest of all that would tell of changes.
    pub is_unchecked: bool,
    pub compression: u8,
    pub compression_level: u8,
    pub converts_line_ends: bool,
    pub is_unicode: bool,
}

/// What the caller of a decryption thinks of the message: the name that notices have for it, and the number.
pub(super) type Expectations = Vec<(&'static str, i64)>;

impl Default for PgpOptions {
    fn default() -> PgpOptions {
        PgpOptions {
            cipher: PgpCipher::AES128,
            key_cipher: None,
            key_mode: ITERATED,
            key_digest: SHA1,
            key_count: 0,
            has_session_key: false,
            is_unchecked: false,
            compression: NO_COMPRESSION,
            compression_level: 6,
            converts_line_ends: false,
            is_unicode: false,
        }
    }
}

fn digest_number(name: &str) -> Option<u8> {
    Some(match name {
        "md5" => MD5,
        "sha1" | "sha-1" => SHA1,
        "ripemd160" => 3,
        "sha256" => SHA256,
        "sha384" => SHA384,
        "sha512" => SHA512,
        _ => return None,
    })
}
/// The number that a text begins with; 0 if it begins with none.
fn number(text: &str) -> i64 {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end).and_then(|digits| digits.parse::<i64>().ok()).map_or(0, |n| sign * n)
}
/// A number among those that are known.
fn one_of(value: &str, known: &[u8]) -> Result<u8> {
    let value = number(value);
    known.iter().copied().find(|n| i64::from(*n) == value).ok_or_else(illegal)
}

impl PgpOptions {
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let flag = || number(value) != 0;
        let cipher = || PgpCipher::named(value).ok_or_else(unsupported_cipher);
        match name {
            "cipher-algo" => self.cipher = cipher()?,
            "s2k-cipher-algo" => self.key_cipher = Some(cipher()?),
            "s2k-mode" => self.key_mode = one_of(value, &[SIMPLE, SALTED, ITERATED])?,
            "s2k-digest-algo" => self.key_digest = digest_number(value).ok_or_else(unsupported_digest)?,
            "s2k-count" => {
                let is_right = self.key_mode == ITERATED && (COUNT_MIN..=COUNT_MAX).contains(&number(value));
                self.key_count = Some(number(value)).filter(|_| is_right).ok_or_else(illegal)?;
            }
            "disable-mdc" => self.is_unchecked = flag(),
            "sess-key" => self.has_session_key = flag(),
            "compress-algo" => self.compression = one_of(value, &[NO_COMPRESSION, ZIP, ZLIB, 3])?,
            "compress-level" => self.compression_level = one_of(value, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])?,
            "convert-crlf" => self.converts_line_ends = flag(),
            "unicode-mode" => self.is_unicode = flag(),
            _ => return Err(illegal()),
        }
        Ok(())
    }
    /// What the text says, and what it says of the message that is expected.
    pub fn parse(text: &str) -> Result<(PgpOptions, Expectations)> {
        let (mut options, mut expected) = (PgpOptions::default(), Vec::new());
        let text = text.to_ascii_lowercase();
        let is_space = |c: char| matches!(c, ' ' | '\t' | '\n');
        let mut parts = text.split(',').peekable();
        while let Some(part) = parts.next() {
            // Nothing at all says nothing, and so does what is behind the last comma.
            if part.is_empty() && parts.peek().is_none() {
                break;
            }
            let (name, value) = part.split_once('=').ok_or_else(illegal)?;
            let (name, value) = (name.trim_matches(is_space), value.trim_matches(is_space));
            if name.is_empty() || value.is_empty() || name.contains(is_space) || value.contains(['=', ' ', '\t', '\n'])
            {
                return Err(illegal());
            }
            match expectation(name, value) {
                Some(found) => expected.extend(found),
                None => options.set(name, value)?,
            }
        }
        Ok((options, expected))
    }

    /// Notices of what is not as expected.
    pub fn compare(&self, expected: &Expectations, ctx: &EvalContext<'_>) {
        for (name, wanted) in expected {
            let found = match *name {
                "cipher_algo" => i64::from(self.cipher.number()),
                "s2k_mode" => i64::from(self.key_mode),
                "s2k_digest_algo" => i64::from(self.key_digest),
                "use_sess_key" => i64::from(self.has_session_key),
                "s2k_cipher_algo" if !self.has_session_key => continue,
                "s2k_cipher_algo" => i64::from(self.key_cipher.unwrap_or(self.cipher).number()),
                "disable_mdc" => i64::from(self.is_unchecked),
                "compress_algo" => i64::from(self.compression),
                _ => i64::from(self.is_unicode),
            };
            if *wanted >= 0 && *wanted != found {
                let message = format!("pgp_decrypt: unexpected {name}: expected {wanted} got {found}");
                ctx.host.notice(Error::notice(sqlstate::SUCCESSFUL_COMPLETION, Severity::Notice, message));
            }
        }
    }
}

/// None: the option is no expectation. One that says nothing of the message is Some(None).
fn expectation(name: &str, value: &str) -> Option<Option<(&'static str, i64)>> {
    let cipher = || PgpCipher::named(value).map_or(-1, |cipher| i64::from(cipher.number()));
    let found = match name {
        "debug" => return Some(None),
        "expect-cipher-algo" => ("cipher_algo", cipher()),
        "expect-s2k-mode" => ("s2k_mode", number(value)),
        "expect-s2k-digest-algo" => ("s2k_digest_algo", digest_number(value).map_or(-1, i64::from)),
        "expect-sess-key" => ("use_sess_key", number(value)),
        "expect-s2k-cipher-algo" => ("s2k_cipher_algo", cipher()),
        "expect-disable-mdc" => ("disable_mdc", number(value)),
        "expect-compress-algo" => ("compress_algo", number(value)),
        "expect-unicode-mode" => ("unicode_mode", number(value)),
        _ => return None,
    };
    Some(Some(found))
}
