//! Passwords as `pg_authid.rolpassword` keeps them: SCRAM-SHA-256 verifiers and MD5 digests, in PostgreSQL's texts.
//!
//! Invariants
//! 1. Nothing is kept from which a password can be read.
//! 2. Deriving a key takes as long as its number of iterations says; it gives way and can be cancelled meanwhile.

use crate::base64;
use crate::saslprep::prepared;
use hmac::{Hmac, Mac};
use kilndb_base::{Error, Result, Severity, sqlstate, work};
use md5::Md5;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What `scram_iterations` is by default.
pub const ITERATIONS_DEFAULT: i32 = 4096;
pub const SALT_BYTES: usize = 16;
/// A verifier that somebody gives is not longer, in bytes.
const VERIFIER_BYTES_MAX: usize = 512;
/// One iteration of a key's derivation, in units of [`work`].
const UNITS_PER_ITERATION: usize = 400;

/// What `password_encryption` names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PasswordMethod {
    ScramSha256,
    Md5,
}

impl PasswordMethod {
    /// By the value of `password_encryption`.
    pub fn of_setting(value: &str) -> Option<PasswordMethod> {
        match value {
            "scram-sha-256" => Some(PasswordMethod::ScramSha256),
            "md5" => Some(PasswordMethod::Md5),
            _ => None,
        }
    }
}

/// What a text is, of those that may be given as a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PasswordKind {
    Plaintext,
    Md5,
    ScramSha256,
}

pub(crate) type Key = [u8; 32];

/// A SCRAM verifier, taken apart.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    pub iterations: i32,
    pub salt: Vec<u8>,
    pub stored_key: Key,
    pub server_key: Key,
}

impl Verifier {
    pub fn parse(text: &str) -> Option<Verifier> {
        let rest = text.strip_prefix("SCRAM-SHA-256$")?;
        let (iterations, rest) = rest.split_once(':')?;
        let (salt, rest) = rest.split_once('$')?;
        let (stored_key, server_key) = rest.split_once(':')?;
        let key = |text: &str| base64::decode(text.as_bytes())?.try_into().ok();
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|n| *n > 0)?,
            salt: base64::decode(salt.as_bytes())?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }
    /// Of a password that is known.
    pub fn derive(password: &[u8], salt: &[u8], iterations: i32) -> Result<Verifier> {
        let salted = salted_password(&prepared(password), salt, iterations)?;
        let client_key = hmac(&salted, &[b"Client Key"]);
        Ok(Verifier {
            iterations,
            salt: salt.to_vec(),
            stored_key: hash(&client_key),
            server_key: hmac(&salted, &[b"Server Key"]),
        })
    }
    fn text(&self) -> String {
        format!(
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            base64::encode(&self.salt),
            base64::encode(&self.stored_key),
            base64::encode(&self.server_key)
        )
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    // A key longer than a block is hashed first, as HMAC has it. (The crate's constructor takes any length, too, but
    // says that it might not.)
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&hash(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    Hmac::new(&block.into())
}

pub(crate) fn hmac(key: &[u8], pieces: &[&[u8]]) -> Key {
    let mut mac = keyed(key);
    pieces.iter().for_each(|piece| mac.update(piece));
    mac.finalize().into_bytes().into()
}

pub(crate) fn hash(bytes: &[u8]) -> Key {
    Sha256::digest(bytes).into()
}

/// `Hi` of RFC 5802.
fn salted_password(password: &[u8], salt: &[u8], iterations: i32) -> Result<Key> {
    let mac = keyed(password);
    let after = |bytes: &[&[u8]]| -> Key {
        let mut mac = mac.clone();
        bytes.iter().for_each(|piece| mac.update(piece));
        mac.finalize().into_bytes().into()
    };
    let mut last = after(&[salt, &1u32.to_be_bytes()]);
    let mut sum = last;
    for _ in 1..iterations {
        work::step(UNITS_PER_ITERATION)?;
        last = after(&[&last]);
        sum.iter_mut().zip(last).for_each(|(sum, byte)| *sum ^= byte);
    }
    Ok(sum)
}

fn md5_hex(pieces: &[&[u8]]) -> String {
    let mut digest = Md5::new();
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `md5` and 32 digits: the password and the role's name, digested.
fn md5_verifier(password: &[u8], role_name: &str) -> String {
    format!("md5{}", md5_hex(&[password, role_name.as_bytes()]))
}

/// As PostgreSQL tells a verifier from a password.
pub fn classify(text: &str) -> PasswordKind {
    let digits = text.strip_prefix("md5").filter(|digits| digits.len() == 32);
    if digits.is_some_and(|digits| digits.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))) {
        return PasswordKind::Md5;
    }
    if Verifier::parse(text).is_some() { PasswordKind::ScramSha256 } else { PasswordKind::Plaintext }
}

/// What is kept of a password. A verifier is kept as it is, whatever `method` says.
pub fn encrypt(
    password: &str,
    method: PasswordMethod,
    role_name: &str,
    iterations: i32,
    salt: [u8; SALT_BYTES],
) -> Result<String> {
    if classify(password) != PasswordKind::Plaintext {
        if password.len() > VERIFIER_BYTES_MAX {
            let detail = format!("Encrypted passwords must be no longer than {VERIFIER_BYTES_MAX} bytes.");
            return Err(
                Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "encrypted password is too long").with_detail(detail)
            );
        }
        return Ok(password.to_string());
    }
    match method {
        PasswordMethod::Md5 => Ok(md5_verifier(password.as_bytes(), role_name)),
        PasswordMethod::ScramSha256 => Ok(Verifier::derive(password.as_bytes(), &salt, iterations.max(1))?.text()),
    }
}

/// What is said of an MD5 password that is set while `md5_password_warnings` is on.
pub fn md5_warning() -> Error {
    Error::notice(sqlstate::WARNING_DEPRECATED_FEATURE, Severity::Warning, "setting an MD5-encrypted password")
        .with_detail("MD5 password support is deprecated and will be removed in a future release of PostgreSQL.")
        .with_hint("Refer to the PostgreSQL documentation for details about migrating to another password type.")
}

/// Whether the empty password, which nobody may log in with, is this one.
pub fn is_empty(text: &str, role_name: &str) -> Result<bool> {
    Ok(text.is_empty() || (classify(text) != PasswordKind::Plaintext && verify(b"", text, role_name)?))
}

/// Whether a verifier is this password's.
pub fn verify(password: &[u8], verifier: &str, role_name: &str) -> Result<bool> {
    if classify(verifier) == PasswordKind::Md5 {
        return Ok(md5_verifier(password, role_name).as_bytes().ct_eq(verifier.as_bytes()).into());
    }
    let Some(verifier) = Verifier::parse(verifier) else { return Ok(false) };
    let derived = Verifier::derive(password, &verifier.salt, verifier.iterations)?;
    Ok(derived.server_key.ct_eq(&verifier.server_key).into())
}

/// Takes as long as [`verify`] of a verifier with so many iterations: for a role that has none.
pub fn verify_nothing(password: &[u8], iterations: i32) -> Result<()> {
    Verifier::derive(password, &[0; SALT_BYTES], iterations.max(1)).map(drop)
}

/// Whether the answer to a challenge of the method md5 is that of somebody who knows the password.
pub fn verify_md5_answer(answer: &[u8], verifier: &str, challenge: [u8; 4]) -> bool {
    let digits = verifier.strip_prefix("md5").unwrap_or_default();
    let wanted = format!("md5{}", md5_hex(&[digits.as_bytes(), &challenge]));
    answer.ct_eq(wanted.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677's example has this password, salt and number of iterations; the keys follow from its proof.
    const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                          wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    fn salt() -> [u8; SALT_BYTES] {
        base64::decode(b"W22ZaJ0SNY7soEsUEjb6gQ==").unwrap().try_into().unwrap()
    }

    #[test]
    fn a_verifier_has_postgresqls_text() {
        let made = encrypt("pencil", PasswordMethod::ScramSha256, "x", 4096, salt()).unwrap();
        assert_eq!(made, PENCIL);
        assert!(verify(b"pencil", PENCIL, "x").unwrap() && !verify(b"Pencil", PENCIL, "x").unwrap());
        let md5 = encrypt("secret", PasswordMethod::Md5, "anna", 0, salt()).unwrap();
        assert_eq!(md5, "md53671d1c06464e8ec9d68bf36dd1d5f7e");
        assert!(verify(b"secret", &md5, "anna").unwrap() && !verify(b"secret", &md5, "bob").unwrap());
    }

    #[test]
    fn verifiers_are_told_from_passwords() {
        let md5 = "md5d41d8cd98f00b204e9800998ecf8427e";
        for (text, kind) in [
            (PENCIL, PasswordKind::ScramSha256),
            (md5, PasswordKind::Md5),
            ("md5D41D8CD98F00B204E9800998ECF8427E", PasswordKind::Plaintext),
            ("md5d41d8cd98f00b204e9800998ecf8427", PasswordKind::Plaintext),
            ("SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$AAAA:BBBB", PasswordKind::Plaintext),
            ("SCRAM-SHA-256$x", PasswordKind::Plaintext),
            ("", PasswordKind::Plaintext),
        ] {
            assert_eq!(classify(text), kind, "{text}");
        }
        // What is a verifier already is kept.
        assert_eq!(encrypt(md5, PasswordMethod::ScramSha256, "x", 4096, salt()).unwrap(), md5);
        assert_eq!(encrypt(PENCIL, PasswordMethod::Md5, "x", 4096, salt()).unwrap(), PENCIL);
        let long = PENCIL.replace("W22ZaJ0SNY7soEsUEjb6gQ==", &"QUJD".repeat(200));
        let refused = encrypt(&long, PasswordMethod::Md5, "x", 4096, salt()).unwrap_err();
        assert_eq!(refused.sqlstate(), sqlstate::PROGRAM_LIMIT_EXCEEDED);
    }

    #[test]
    fn the_empty_password_is_found_behind_a_verifier() {
        for method in [PasswordMethod::ScramSha256, PasswordMethod::Md5] {
            let empty = encrypt("", method, "x", 10, salt()).unwrap();
            assert!(is_empty(&empty, "x").unwrap());
        }
        assert!(is_empty("", "x").unwrap() && !is_empty("a", "x").unwrap() && !is_empty(PENCIL, "x").unwrap());
    }

    #[test]
    fn a_long_key_is_hashed() {
        // RFC 4231, case 6.
        let key = [0xaa; 131];
        let made = hmac(&key, &[b"Test Using Larger Than Block-Size Key - Hash Key First"]);
        assert_eq!(made[..4], [0x60, 0xe4, 0x31, 0x59]);
    }

    #[test]
    fn an_md5_challenge_is_answered() {
        let verifier = md5_verifier(b"secret", "anna");
        let answer = format!("md5{}", md5_hex(&[&verifier.as_bytes()[3..], b"salt"]));
        assert!(verify_md5_answer(answer.as_bytes(), &verifier, *b"salt"));
        assert!(!verify_md5_answer(answer.as_bytes(), &verifier, *b"sal2"));
        assert!(!verify_md5_answer(b"", &verifier, *b"salt"));
    }
}
