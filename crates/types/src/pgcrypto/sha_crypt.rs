//! sha256crypt and sha512crypt: `$5$` and `$6$`.

use super::{CRYPT_DIGITS, invalid, push_digits};
use crate::EvalContext;
use kilndb_base::{Error, Result, Severity, sqlstate, work};
use sha2::Digest;

pub(super) const ROUNDS_DEFAULT: i32 = 5000;
pub(super) const ROUNDS_MIN: i32 = 1000;
pub(super) const ROUNDS_MAX: i32 = 999_999_999;
pub(super) const SALT_BYTES: usize = 16;

const ROUNDS: &str = "rounds=";
/// What a round is taken for, and each byte that is hashed in it.
const UNITS_PER_ROUND: usize = 500;
const UNITS_PER_BYTE: usize = 5;

/// What is said before the password's hash.
struct Setting {
    /// Some if they were named.
    rounds: Option<i32>,
    salt: String,
    /// The text that the salt was taken from, as long as the salt. It is another one if the salt begins with `$`, which
    /// belongs to no salt; PostgreSQL hashes this in some places.
    salt_as_written: String,
}

/// The number of rounds, and where the text goes on behind it.
fn rounds_of<'a>(text: &'a str, ctx: &EvalContext<'_>) -> Result<(i32, &'a str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let wrong = || Error::new(sqlstate::SYNTAX_ERROR, "could not parse salt options");
    let rest = rest.strip_prefix('$').ok_or_else(wrong)?;
    let asked = if number.is_empty() { 0 } else { number.parse().unwrap_or(i32::MAX) };
    let rounds = asked.clamp(ROUNDS_MIN, ROUNDS_MAX);
    if rounds != asked {
        let how = if asked > ROUNDS_MAX { "exceeds maximum" } else { "is below" };
        let message = format!("rounds={asked} {how} supported value ({rounds}), using {rounds} instead");
        ctx.host.notice(Error::notice(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, Severity::Notice, message));
    }
    Ok((rounds, rest))
}

impl Setting {
    fn parse(text: &str, ctx: &EvalContext<'_>) -> Result<Setting> {
        let (rounds, rest) = match text.strip_prefix(ROUNDS) {
            Some(rest) => {
                let (rounds, rest) = rounds_of(rest, ctx)?;
                (Some(rounds), rest)
            }
            None => (None, text),
        };
        if rest.contains("$5$") || rest.contains("$6$") {
            return Err(Error::internal("bogus magic byte found in salt string"));
        }
        if rest.contains(ROUNDS) {
            return Err(Error::internal("invalid rounds option specified in salt string"));
        }
        let mut salt = String::new();
        for (_, c) in rest.char_indices().take_while(|(at, _)| *at < SALT_BYTES) {
            if c == '$' && !salt.is_empty() {
                break;
            } else if u8::try_from(c).is_ok_and(|byte| CRYPT_DIGITS.contains(&byte)) {
                salt.push(c);
            } else if c != '$' {
                return Err(invalid(format!("invalid character in salt string: \"{c}\"")));
            }
        }
        let salt_as_written = rest.get(..salt.len()).unwrap_or("").to_string();
        Ok(Setting { rounds, salt, salt_as_written })
    }
}

/// So many bytes of a digest, repeated as often as need be.
fn repeated(digest: &[u8], len: usize) -> Vec<u8> {
    digest.iter().copied().cycle().take(len).collect()
}

fn first_digest<D: Digest>(password: &[u8], setting: &Setting) -> Result<Vec<u8>> {
    let inner =
        D::new().chain_update(password).chain_update(&setting.salt_as_written).chain_update(password).finalize();
    let mut state = D::new().chain_update(password).chain_update(&setting.salt);
    state.update(repeated(&inner, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        work::step(UNITS_PER_BYTE * password.len())?;
        if bits & 1 == 1 {
            state.update(&inner);
        } else {
            state.update(password);
        }
        bits >>= 1;
    }
    Ok(state.finalize().to_vec())
}

fn hash<D: Digest>(password: &[u8], setting: &Setting) -> Result<Vec<u8>> {
    let mut digest = first_digest::<D>(password, setting)?;
    let mut state = D::new();
    for _ in 0..password.len() {
        work::step(UNITS_PER_BYTE * password.len())?;
        state.update(password);
    }
    let of_password = repeated(&state.finalize(), password.len());
    let mut state = D::new();
    for _ in 0..16 + usize::from(digest.first().copied().unwrap_or(0)) {
        state.update(&setting.salt_as_written);
    }
    let of_salt = repeated(&state.finalize(), setting.salt.len());
    for round in 0..setting.rounds.unwrap_or(ROUNDS_DEFAULT) {
        work::step(UNITS_PER_ROUND + 2 * UNITS_PER_BYTE * of_password.len())?;
        let is_odd = round & 1 == 1;
        let mut state = D::new();
        state.update(if is_odd { &of_password } else { &digest });
        if round % 3 != 0 {
            state.update(&of_salt);
        }
        if round % 7 != 0 {
            state.update(&of_password);
        }
        state.update(if is_odd { &digest } else { &of_password });
        digest = state.finalize().to_vec();
    }
    Ok(digest)
}

/// Bytes of the digest are written three at a time, each triple from the three thirds of it; `turn` says by how many
/// places the order within a triple turns from one to the next.
fn push_digest(out: &mut String, digest: &[u8], turn: usize) {
    let third = digest.len() / 3;
    let byte = |at: usize| u32::from(digest.get(at).copied().unwrap_or(0));
    for row in 0..third {
        let places = [row, row + third, row + 2 * third];
        let at = |k: usize| byte(places[(k + row * turn) % 3]);
        push_digits(out, at(0) << 16 | at(1) << 8 | at(2), 4);
    }
    match digest.len() {
        32 => push_digits(out, byte(31) << 8 | byte(30), 3),
        _ => push_digits(out, byte(63), 2),
    }
}

pub(super) fn crypt(password: &[u8], text: &str, ctx: &EvalContext<'_>) -> Result<String> {
    let (magic, rest) = text.split_at_checked(3).ok_or_else(|| invalid("invalid salt"))?;
    let setting = Setting::parse(rest, ctx)?;
    let mut out = magic.to_string();
    if let Some(rounds) = setting.rounds {
        out.push_str(&format!("{ROUNDS}{rounds}$"));
    }
    out.push_str(&setting.salt);
    out.push('$');
    if magic == "$5$" {
        push_digest(&mut out, &hash::<sha2::Sha256>(password, &setting)?, 2);
    } else {
        push_digest(&mut out, &hash::<sha2::Sha512>(password, &setting)?, 1);
    }
    Ok(out)
}
