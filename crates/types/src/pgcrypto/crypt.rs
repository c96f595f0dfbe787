//! crypt() and gen_salt(): passwords hashed as a setting says, which is what gen_salt() makes, or the hash itself.

use super::sha_crypt::{self, ROUNDS_DEFAULT, ROUNDS_MAX, ROUNDS_MIN, SALT_BYTES};
use super::{CRYPT_DIGITS, des_crypt, failed, invalid, push_digits};
use crate::EvalContext;
use blowfish::Blowfish;
use kilndb_base::{Result, work};
use md5::{Digest, Md5};

/// What mixing a key into Blowfish's state is taken for: that encrypts 521 blocks.
const UNITS_PER_EXPANSION: usize = 50_000;
const UNITS_PER_MD5: usize = 500;

/// bcrypt has an order of digits of its own.
const BCRYPT_DIGITS: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BCRYPT_TEXT: [u8; 24] = *b"OrpheanBeholderScryDoubt";
/// Of a password so many bytes count.
const BCRYPT_KEY_BYTES: usize = 72;

pub(crate) fn crypt(password: &str, setting: &str, ctx: &EvalContext<'_>) -> Result<String> {
    let none = || failed("crypt(3) returned NULL");
    let bytes = password.as_bytes();
    match setting {
        s if s.starts_with("$2a$") || s.starts_with("$2x$") => bcrypt(bytes, s),
        s if s.starts_with("$2$") => Err(none()),
        s if s.starts_with("$1$") => md5_crypt(bytes, s),
        s if s.starts_with("$5$") || s.starts_with("$6$") => sha_crypt::crypt(bytes, s, ctx),
        s => {
            let made = des_crypt::crypt(bytes, s.as_bytes())?.ok_or_else(none)?;
            String::from_utf8(made).map_err(|_| invalid("invalid salt"))
        }
    }
}

/// The digests of `$1$` are those of MD5, mixed a thousand times.
fn md5_crypt(password: &[u8], setting: &str) -> Result<String> {
    let salt = setting.strip_prefix("$1$").and_then(|rest| rest.split('$').next()).unwrap_or("");
    let salt_bytes = salt.as_bytes().get(..8).unwrap_or(salt.as_bytes());
    let inner = Md5::new().chain_update(password).chain_update(salt_bytes).chain_update(password).finalize();
    let mut state = Md5::new().chain_update(password).chain_update("$1$").chain_update(salt_bytes);
    state.update(inner.iter().copied().cycle().take(password.len()).collect::<Vec<u8>>());
    let mut bits = password.len();
    while bits > 0 {
        state.update(if bits & 1 == 1 { &[0][..] } else { password.get(..1).unwrap_or(&[]) });
        bits >>= 1;
    }
    let mut digest = state.finalize();
    for round in 0..1000 {
        work::step(UNITS_PER_MD5 + 10 * password.len())?;
        let is_odd = round & 1 == 1;
        let mut state = Md5::new();
        state.update(if is_odd { password } else { &digest[..] });
        if round % 3 != 0 {
            state.update(salt_bytes);
        }
        if round % 7 != 0 {
            state.update(password);
        }
        state.update(if is_odd { &digest[..] } else { password });
        digest = state.finalize();
    }
    let shown = String::from_utf8(salt_bytes.to_vec()).map_err(|_| invalid("invalid salt"))?;
    let mut out = format!("$1${shown}$");
    for (high, middle, low) in [(0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5)] {
        let triple = [digest[high], digest[middle], digest[low]].map(u32::from);
        push_digits(&mut out, triple[0] << 16 | triple[1] << 8 | triple[2], 4);
    }
    push_digits(&mut out, u32::from(digest[11]), 2);
    Ok(out)
}

/// So many bytes out of bcrypt's digits; None: that is no such digit.
fn bcrypt_decoded(digits: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes + 3);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for at in 0..4 {
            let value = match group.get(at) {
                Some(digit) => BCRYPT_DIGITS.iter().position(|known| known == digit)?,
                None => 0,
            };
            bits = bits << 6 | value as u32;
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    out.truncate(bytes);
    Some(out)
}
fn push_bcrypt(out: &mut String, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digits = (0..=group.len()).map(|at| BCRYPT_DIGITS[(bits >> (18 - 6 * at) & 63) as usize]);
        out.extend(digits.map(char::from));
    }
}

/// The key as Blowfish gets it: the password and a zero, over and over.
///
/// Of `$2x$` bytes have a sign, which spreads over the bytes before: so a program made hashes once, and they are still
/// there to be compared with.
fn bcrypt_key(password: &[u8], has_signs: bool) -> [u8; BCRYPT_KEY_BYTES] {
    let mut bytes = password.iter().copied().chain([0]).cycle();
    let mut key = [0; BCRYPT_KEY_BYTES];
    for word in key.chunks_mut(4) {
        let mut value = 0u32;
        for _ in 0..4 {
            let byte = bytes.next().unwrap_or(0);
            let wide = if has_signs { i32::from(byte as i8) as u32 } else { u32::from(byte) };
            value = value << 8 | wide;
        }
        word.copy_from_slice(&value.to_be_bytes());
    }
    key
}

fn bcrypt(password: &[u8], setting: &str) -> Result<String> {
    let wrong = || invalid("invalid salt");
    let bytes = setting.as_bytes();
    let (head, digits) = (bytes.get(..7).ok_or_else(wrong)?, bytes.get(7..29).ok_or_else(wrong)?);
    let cost = match head[4..] {
        [tens @ b'0'..=b'3', ones @ b'0'..=b'9', b'$'] => u32::from(tens - b'0') * 10 + u32::from(ones - b'0'),
        _ => return Err(wrong()),
    };
    let salt = bcrypt_decoded(digits, 16).filter(|_| (4..=31).contains(&cost)).ok_or_else(wrong)?;
    let key = bcrypt_key(password, head[2] == b'x');
    let mut state: Blowfish = Blowfish::bc_init_state();
    state.salted_expand_key(&salt, &key);
    for _ in 0..1u64 << cost {
        work::step(2 * UNITS_PER_EXPANSION)?;
        state.bc_expand_key(&key);
        state.bc_expand_key(&salt);
    }
    let mut text = BCRYPT_TEXT;
    for pair in text.chunks_mut(8) {
        let word = |at: usize| pair.iter().skip(at).take(4).fold(0, |out, byte| out << 8 | u32::from(*byte));
        let mut words = [word(0), word(4)];
        for _ in 0..64 {
            words = state.bc_encrypt(words);
        }
        let made: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        pair.copy_from_slice(&made);
    }
    let mut out: String = head.iter().copied().map(char::from).collect();
    // The last digit of the salt has two bits that count.
    push_bcrypt(&mut out, &salt);
    push_bcrypt(&mut out, text.get(..23).unwrap_or(&text));
    Ok(out)
}

/// A setting for crypt(), with chance in it.
pub(crate) fn gen_salt(name: &str, rounds: Option<i32>, ctx: &EvalContext<'_>) -> Result<String> {
    let refused = |what: &str| invalid(format!("gen_salt: {what}"));
    let wrong_rounds = || refused("Incorrect number of rounds");
    let mut chance = [0; SALT_BYTES];
    ctx.host.random_bytes(&mut chance);
    let rounds = rounds.unwrap_or(0);
    let checked = |default: i32, min: i32, max: i32| -> Result<i32> {
        let rounds = if rounds == 0 { default } else { rounds };
        if (min..=max).contains(&rounds) { Ok(rounds) } else { Err(wrong_rounds()) }
    };
    let digits = |count: usize| chance.iter().take(count).map(|b| char::from(CRYPT_DIGITS[usize::from(b & 63)]));
    let mut out = String::new();
    match name.to_ascii_lowercase().as_str() {
        "des" if matches!(rounds, 0 | 25) => out.extend(digits(2)),
        "md5" if matches!(rounds, 0 | 1000) => {
            out.push_str("$1$");
            out.extend(digits(8));
        }
        "des" | "md5" => return Err(wrong_rounds()),
        "xdes" => {
            let rounds = checked(29 * 25, 1, 0xff_ffff)?;
            // An even number would make weak keys easier to see.
            if rounds % 2 == 0 {
                return Err(wrong_rounds());
            }
            out.push('_');
            push_digits(&mut out, rounds as u32, 4);
            out.extend(digits(4));
        }
        "bf" => {
            out = format!("$2a${:02}$", checked(6, 4, 31)?);
            push_bcrypt(&mut out, &chance);
        }
        sha @ ("sha256crypt" | "sha512crypt") => {
            let magic = if sha == "sha256crypt" { 5 } else { 6 };
            out = format!("${magic}$rounds={}$", checked(ROUNDS_DEFAULT, ROUNDS_MIN, ROUNDS_MAX)?);
            out.extend(digits(SALT_BYTES));
        }
        _ => return Err(refused("Unknown salt algorithm")),
    }
    Ok(out)
}

/// gen_random_bytes().
pub(crate) fn random_bytes(len: i32, ctx: &EvalContext<'_>) -> Result<Vec<u8>> {
    let len = usize::try_from(len).ok().filter(|len| (1..=1024).contains(len));
    let mut out = vec![0; len.ok_or_else(|| failed("Length not in range"))?];
    ctx.host.random_bytes(&mut out);
    Ok(out)
}
