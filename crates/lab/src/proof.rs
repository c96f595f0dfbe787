//! The client's side of proving who one is: passwords as they are, MD5 challenges, SCRAM-SHA-256.
//!
//! It is written on its own, from RFC 5802 and PostgreSQL's documentation, so that a mistake of the server's is not
//! repeated here.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, Mac};
use md5::Md5;
use sha2::{Digest, Sha256};
use std::io;

type Key = [u8; 32];

fn hmac(key: &[u8], text: &[u8]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

fn hex_md5(pieces: &[&[u8]]) -> String {
    let mut digest = Md5::new();
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What AuthenticationMD5Password wants to hear.
pub fn md5_answer(user: &str, password: &str, challenge: &[u8]) -> String {
    let kept = hex_md5(&[password.as_bytes(), user.as_bytes()]);
    format!("md5{}", hex_md5(&[kept.as_bytes(), challenge]))
}

/// What a client says of channel binding.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Binding {
    /// It does not know it.
    #[default]
    Unknown,
    /// It knows it, and believes that the server does not.
    NotOffered,
    /// It has this hash of the server's certificate.
    EndPoint(Vec<u8>),
}

impl Binding {
    fn header(&self) -> &'static str {
        match self {
            Binding::Unknown => "n,,",
            Binding::NotOffered => "y,,",
            Binding::EndPoint(_) => "p=tls-server-end-point,,",
        }
    }
    pub fn mechanism(&self) -> &'static str {
        if matches!(self, Binding::EndPoint(_)) { "SCRAM-SHA-256-PLUS" } else { "SCRAM-SHA-256" }
    }
}

/// One exchange.
pub struct Scram {
    password: String,
    binding: Binding,
    first_bare: String,
    /// What the server's last message has to be.
    server_signature: String,
}

impl Scram {
    /// `nonce`: text that was not used before.
    pub fn new(password: &str, nonce: &str, binding: Binding) -> Scram {
        let first_bare = format!("n=,r={nonce}");
        Scram { password: password.into(), binding, first_bare, server_signature: String::new() }
    }
    pub fn first(&self) -> String {
        format!("{}{}", self.binding.header(), self.first_bare)
    }
    /// The answer to the server's first message.
    pub fn last(&mut self, server_first: &str) -> io::Result<String> {
        let field = |name: &str| {
            let found = server_first.split(',').find_map(|part| part.strip_prefix(name));
            found.ok_or_else(|| io::Error::other(format!("no {name} in {server_first}")))
        };
        let (nonce, salt) = (field("r=")?, BASE64_STANDARD.decode(field("s=")?).map_err(io::Error::other)?);
        let iterations: u32 = field("i=")?.parse().map_err(io::Error::other)?;
        let mut block = hmac(self.password.as_bytes(), &[&salt[..], &[0, 0, 0, 1]].concat());
        let mut salted = block;
        for _ in 1..iterations {
            block = hmac(self.password.as_bytes(), &block);
            salted.iter_mut().zip(block).for_each(|(sum, byte)| *sum ^= byte);
        }
        let data: &[u8] = if let Binding::EndPoint(data) = &self.binding { data } else { &[] };
        let input = [self.binding.header().as_bytes(), data].concat();
        let without_proof = format!("c={},r={nonce}", BASE64_STANDARD.encode(input));
        let message = format!("{},{server_first},{without_proof}", self.first_bare);
        let client_key = hmac(&salted, b"Client Key");
        let signature = hmac(&Sha256::digest(client_key), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, byte)| key ^ byte).collect();
        self.server_signature = BASE64_STANDARD.encode(hmac(&hmac(&salted, b"Server Key"), message.as_bytes()));
        Ok(format!("{without_proof},p={}", BASE64_STANDARD.encode(proof)))
    }
    /// Whether the server knows the password as well.
    pub fn is_servers(&self, server_last: &str) -> bool {
        server_last.strip_prefix("v=") == Some(&self.server_signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_7677_example() {
        let mut scram = Scram::new("pencil", "rOprNGfwEbeRWgbNEkqO", Binding::Unknown);
        // The example names a user, which PostgreSQL's clients leave out.
        scram.first_bare = "n=user,r=rOprNGfwEbeRWgbNEkqO".into();
        let server_first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let last = scram.last(server_first).expect("an answer");
        assert!(last.ends_with(",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), "{last}");
        assert!(scram.is_servers("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }
}
