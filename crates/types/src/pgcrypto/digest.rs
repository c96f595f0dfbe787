//! digest() and hmac(): algorithms by OpenSSL's names.

use super::{algorithm_name, invalid};
use crate::pieces;
use hmac::digest::core_api::BlockSizeUser;
use hmac::{Mac, SimpleHmac};
use kilndb_base::{Error, Result};
use sha2::Digest;

/// What hashing a byte is taken for.
const UNITS_PER_BYTE: usize = 5;

/// Names that OpenSSL knows and this program does not.
const OTHERS: &[&str] = &[
    "blake2b512",
    "blake2s256",
    "md4",
    "md5-sha1",
    "ripemd",
    "ripemd160",
    "rmd160",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "shake128",
    "shake256",
    "sm3",
    "whirlpool",
];

struct Algorithm {
    digest: fn(&[u8]) -> Result<Vec<u8>>,
    hmac: fn(&[u8], &[u8]) -> Result<Vec<u8>>,
}

fn digest_of<D: Digest>(data: &[u8]) -> Result<Vec<u8>> {
    let mut state = D::new();
    for piece in pieces::of_bytes(data, UNITS_PER_BYTE) {
        state.update(piece?);
    }
    Ok(state.finalize().to_vec())
}

fn hmac_of<D: Digest + BlockSizeUser>(data: &[u8], key: &[u8]) -> Result<Vec<u8>> {
    // A key that is longer than a block stands for its digest; that is made here since it may take long.
    let short_key = if key.len() > D::block_size() { digest_of::<D>(key)? } else { key.to_vec() };
    let mut state =
        SimpleHmac::<D>::new_from_slice(&short_key).map_err(|_| Error::internal("a key is too long for its HMAC"))?;
    for piece in pieces::of_bytes(data, UNITS_PER_BYTE) {
        state.update(piece?);
    }
    Ok(state.finalize().into_bytes().to_vec())
}

fn of<D: Digest + BlockSizeUser>() -> Algorithm {
    Algorithm { digest: digest_of::<D>, hmac: hmac_of::<D> }
}

fn algorithm(name: &str) -> Result<Algorithm> {
    let name = algorithm_name(name);
    Ok(match name.as_str() {
        "md5" => of::<md5::Md5>(),
        "sha1" => of::<sha1::Sha1>(),
        "sha224" => of::<sha2::Sha224>(),
        "sha256" => of::<sha2::Sha256>(),
        "sha384" => of::<sha2::Sha384>(),
        "sha512" => of::<sha2::Sha512>(),
        "sha512-224" => of::<sha2::Sha512_224>(),
        "sha512-256" => of::<sha2::Sha512_256>(),
        other if OTHERS.contains(&other) => {
            return Err(Error::unsupported(format!("hash algorithm \"{other}\" is not supported")));
        }
        other => return Err(invalid(format!("Cannot use \"{other}\": No such hash algorithm"))),
    })
}

pub(crate) fn digest(data: &[u8], name: &str) -> Result<Vec<u8>> {
    (algorithm(name)?.digest)(data)
}
pub(crate) fn hmac(data: &[u8], key: &[u8], name: &str) -> Result<Vec<u8>> {
    (algorithm(name)?.hmac)(data, key)
}
