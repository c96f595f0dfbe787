//! The server's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, 7677), from message to message.
//!
//! Invariants
//! 1. A role without a verifier has an exchange like any other's, which fails at its end: its salt is the same each
//!    time, and nobody without the cluster's nonce can tell it from one that was drawn.
//! 2. No key is derived from a password here: an exchange costs the server three hashes, whatever the iterations.
//! 3. With channel binding at hand, a client that could have used it and did not is refused.

use crate::base64;
use crate::password::{Key, SALT_BYTES, Verifier, hash, hmac};
use kilndb_base::{Error, Result, sqlstate};
use subtle::ConstantTimeEq;

pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
pub const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// Drawn for each exchange.
pub const NONCE_BYTES: usize = 18;

/// The mechanisms that a client is offered, the best first.
pub fn mechanisms(has_channel_binding: bool) -> &'static [&'static str] {
    if has_channel_binding { &[SCRAM_SHA_256_PLUS, SCRAM_SHA_256] } else { &[SCRAM_SHA_256] }
}

/// What an exchange is about.
pub struct ExchangeFacts<'a> {
    /// By the startup packet; what the exchange itself says is not looked at.
    pub role_name: &'a str,
    /// None: there is no role, or it has no password, or that has expired.
    pub verifier: Option<&'a str>,
    /// `tls-server-end-point` of the server's certificate, if the connection is encrypted.
    pub channel_binding: Option<&'a [u8]>,
    /// The cluster's own secret, for roles without a verifier.
    pub mock_nonce: &'a [u8; 32],
    /// `scram_iterations`: what a role without a verifier would have.
    pub iterations: i32,
    pub random: [u8; NONCE_BYTES],
}

/// What follows upon a message of the client's.
#[derive(Debug, PartialEq, Eq)]
pub enum ScramStep {
    /// AuthenticationSASLContinue with these bytes.
    Continue(Vec<u8>),
    /// AuthenticationSASLFinal with these bytes: the client knows the password.
    Done(Vec<u8>),
    /// It does not, or nobody could.
    Failed,
}

enum ScramState {
    First,
    Final(SaltSent),
    Over,
}

/// What the final message is judged by.
struct SaltSent {
    /// `n`, `y` or `p`.
    binding_flag: u8,
    client_first_bare: Vec<u8>,
    server_first: Vec<u8>,
    /// The client's and the server's.
    nonce: Vec<u8>,
}

pub struct ScramExchange {
    state: ScramState,
    verifier: Verifier,
    is_doomed: bool,
    has_unusable_verifier: bool,
    uses_binding: bool,
    channel_binding: Option<Vec<u8>>,
    server_nonce: String,
}

impl ScramExchange {
    /// The client has chosen a mechanism.
    pub fn begin(mechanism: &str, facts: &ExchangeFacts<'_>) -> Result<ScramExchange> {
        let uses_binding = match mechanism {
            SCRAM_SHA_256 => false,
            SCRAM_SHA_256_PLUS if facts.channel_binding.is_some() => true,
            _ => return Err(violation("client selected an invalid SASL authentication mechanism")),
        };
        let verifier = facts.verifier.and_then(Verifier::parse);
        Ok(ScramExchange {
            state: ScramState::First,
            is_doomed: verifier.is_none(),
            has_unusable_verifier: facts.verifier.is_some() && verifier.is_none(),
            verifier: verifier.unwrap_or_else(|| mock_verifier(facts)),
            uses_binding,
            channel_binding: facts.channel_binding.map(<[u8]>::to_vec),
            server_nonce: base64::encode(&facts.random),
        })
    }

    /// There is a verifier, but none that this exchange could use.
    pub fn has_unusable_verifier(&self) -> bool {
        self.has_unusable_verifier
    }

    /// `message`: the payload that the client has sent; None: it has chosen a mechanism and sent nothing with that.
    pub fn step(&mut self, message: Option<&[u8]>) -> Result<ScramStep> {
        let Some(message) = message else {
            return match self.state {
                ScramState::First => Ok(ScramStep::Continue(Vec::new())),
                _ => Err(malformed("The message is empty.")),
            };
        };
        if message.is_empty() {
            return Err(malformed("The message is empty."));
        }
        if message.contains(&0) {
            return Err(malformed("Message length does not match input length."));
        }
        match std::mem::replace(&mut self.state, ScramState::Over) {
            ScramState::First => {
                let sent = self.read_first(message)?;
                let answer = sent.server_first.clone();
                self.state = ScramState::Final(sent);
                Ok(ScramStep::Continue(answer))
            }
            ScramState::Final(sent) => self.read_final(&sent, message),
            ScramState::Over => Err(violation("invalid SCRAM exchange state")),
        }
    }

    fn read_first(&self, message: &[u8]) -> Result<SaltSent> {
        let mut rest = Attributes(message);
        let binding_flag = rest.peek();
        self.check_binding_flag(binding_flag)?;
        if binding_flag == b'p' {
            let kind = rest.value(b'p')?;
            if kind != b"tls-server-end-point" {
                let kind = sanitized(kind);
                return Err(violation(format!("unsupported SCRAM channel-binding type \"{kind}\"")));
            }
        } else {
            rest.skip();
            if rest.peek() != b',' {
                let found = shown(rest.peek());
                return Err(malformed(format!("Comma expected, but found character \"{found}\".")));
            }
            rest.skip();
        }
        match rest.peek() {
            b'a' => {
                return Err(Error::unsupported("client uses authorization identity, but it is not supported"));
            }
            b',' => rest.skip(),
            other => {
                let other = shown(other);
                return Err(malformed(format!("Unexpected attribute \"{other}\" in client-first-message.")));
            }
        }
        let client_first_bare = rest.0.to_vec();
        if rest.peek() == b'm' {
            return Err(Error::unsupported("client requires an unsupported SCRAM extension"));
        }
        rest.value(b'n')?;
        let client_nonce = rest.value(b'r')?;
        if !client_nonce.iter().all(|c| (0x21..=0x7e).contains(c) && *c != b',') {
            return Err(violation("non-printable characters in SCRAM nonce"));
        }
        while !rest.0.is_empty() {
            rest.any()?;
        }
        let nonce = [client_nonce, self.server_nonce.as_bytes()].concat();
        let tail = format!(",s={},i={}", base64::encode(&self.verifier.salt), self.verifier.iterations);
        let server_first = [b"r=", &nonce[..], tail.as_bytes()].concat();
        Ok(SaltSent { binding_flag, client_first_bare, server_first, nonce })
    }

    fn check_binding_flag(&self, flag: u8) -> Result<()> {
        match flag {
            b'n' | b'y' if self.uses_binding => Err(malformed(
                "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data.",
            )),
            b'y' if self.channel_binding.is_some() => Err(Error::new(
                sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
                "SCRAM channel binding negotiation error",
            )
            .with_detail(
                "The client supports SCRAM channel binding but thinks the server does not.  However, this server does \
                 support channel binding.",
            )),
            b'p' if !self.uses_binding => Err(malformed(
                "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel \
                 binding data.",
            )),
            b'n' | b'y' | b'p' => Ok(()),
            other => Err(malformed(format!("Unexpected channel-binding flag \"{}\".", shown(other)))),
        }
    }

    fn read_final(&self, sent: &SaltSent, message: &[u8]) -> Result<ScramStep> {
        let mut rest = Attributes(message);
        self.check_binding(sent, rest.value(b'c')?)?;
        let nonce = rest.value(b'r')?;
        let (without_proof, proof) = loop {
            // The comma before the attribute belongs to it.
            let before = (message.len() - rest.0.len()).saturating_sub(1);
            if let (b'p', value) = rest.any()? {
                break (&message[..before], value);
            }
        };
        let proof: Key = base64::decode(proof)
            .and_then(|proof| proof.try_into().ok())
            .ok_or_else(|| malformed("Malformed proof in client-final-message."))?;
        if !rest.0.is_empty() {
            return Err(malformed("Garbage found at the end of client-final-message."));
        }
        if !bool::from(nonce.ct_eq(&sent.nonce)) {
            return Err(violation("invalid SCRAM response").with_detail("Nonce does not match."));
        }
        let pieces = [&sent.client_first_bare[..], b",", &sent.server_first, b",", without_proof];
        let signature = hmac(&self.verifier.stored_key, &pieces);
        let client_key: Key = std::array::from_fn(|i| proof[i] ^ signature[i]);
        let is_known = hash(&client_key).ct_eq(&self.verifier.stored_key);
        let server_signature = hmac(&self.verifier.server_key, &pieces);
        if !bool::from(is_known) || self.is_doomed {
            return Ok(ScramStep::Failed);
        }
        Ok(ScramStep::Done(format!("v={}", base64::encode(&server_signature)).into_bytes()))
    }

    fn check_binding(&self, sent: &SaltSent, given: &[u8]) -> Result<()> {
        if self.uses_binding {
            let data = self.channel_binding.as_deref().unwrap_or_default();
            let wanted = base64::encode(&[b"p=tls-server-end-point,,", data].concat());
            if !bool::from(given.ct_eq(wanted.as_bytes())) {
                return Err(Error::new(
                    sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
                    "SCRAM channel binding check failed",
                ));
            }
        } else if !matches!((given, sent.binding_flag), (b"biws", b'n') | (b"eSws", b'y')) {
            return Err(violation("unexpected SCRAM channel-binding attribute in client-final-message"));
        }
        Ok(())
    }
}

/// Invariant 1. Its keys are nobody's: the exchange fails whatever the client proves.
fn mock_verifier(facts: &ExchangeFacts<'_>) -> Verifier {
    let digest = hmac(facts.mock_nonce, &[facts.role_name.as_bytes()]);
    Verifier {
        iterations: facts.iterations.max(1),
        salt: digest[..SALT_BYTES].to_vec(),
        stored_key: [0; 32],
        server_key: [0; 32],
    }
}

fn violation(message: impl Into<String>) -> Error {
    Error::new(sqlstate::PROTOCOL_VIOLATION, message)
}
fn malformed(detail: impl Into<String>) -> Error {
    violation("malformed SCRAM message").with_detail(detail)
}

/// One byte for an error's text.
fn shown(c: u8) -> String {
    if (0x21..=0x7e).contains(&c) { format!("'{}'", char::from(c)) } else { format!("0x{c:02x}") }
}
/// The beginning of what the client has sent, for an error's text.
fn sanitized(bytes: &[u8]) -> String {
    bytes.iter().take(30).map(|c| if (0x21..=0x7e).contains(c) { char::from(*c) } else { '?' }).collect()
}

/// The rest of a message, which is a list of attributes with commas between them.
struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// 0: there is nothing more.
    fn peek(&self) -> u8 {
        self.0.first().copied().unwrap_or(0)
    }
    fn skip(&mut self) {
        self.0 = self.0.get(1..).unwrap_or_default();
    }
    fn after_name(&mut self, name: u8) -> Result<&'a [u8]> {
        self.skip();
        if self.peek() != b'=' {
            let name = char::from(name);
            return Err(malformed(format!("Expected character \"=\" for attribute \"{name}\".")));
        }
        self.skip();
        let end = self.0.iter().position(|c| *c == b',').unwrap_or(self.0.len());
        let value = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        Ok(value)
    }
    /// The value of the attribute that has to come now.
    fn value(&mut self, name: u8) -> Result<&'a [u8]> {
        if self.peek() != name {
            let (name, found) = (char::from(name), shown(self.peek()));
            return Err(malformed(format!("Expected attribute \"{name}\" but found \"{found}\".")));
        }
        self.after_name(name)
    }
    fn any(&mut self) -> Result<(u8, &'a [u8])> {
        let name = self.peek();
        if self.0.is_empty() {
            return Err(malformed("Attribute expected, but found end of string."));
        }
        if !name.is_ascii_alphabetic() {
            let found = shown(name);
            return Err(malformed(format!("Attribute expected, but found invalid character \"{found}\".")));
        }
        Ok((name, self.after_name(name)?))
    }
}

#[cfg(test)]
mod tests;
