//! Functions of the extension pgcrypto. What they compute is in [`crate::pgcrypto`].

use super::IntoDatum;
use super::get::{self, arg};
use super::rows::{FunctionRows, RowsCall};
use crate::pgcrypto::armor;
use crate::pgcrypto::cipher::{self, Operands};
use crate::pgcrypto::crypt::{crypt, gen_salt, random_bytes};
use crate::pgcrypto::digest::{digest, hmac};
use crate::pgcrypto::pgp::{self, PgpCall};
use crate::{Array, Datum, EvalContext};
use kilndb_base::{Error, Result, sqlstate, work};

/// The bytes of a text or a bytea.
fn bytes_of(value: &Datum) -> Result<&[u8]> {
    match value {
        Datum::Text(text) => Ok(text.as_bytes()),
        other => get::bytea(other),
    }
}

fn texts(array: &Array) -> Result<Vec<Option<&str>>> {
    if array.dims.len() > 1 {
        return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts"));
    }
    let text = |element| match element {
        &Datum::Null => Ok(None),
        other => get::text(other).map(Some),
    };
    array.elements.iter().map(text).collect()
}
fn armored(bytes: &[u8], keys: &Array, values: &Array) -> Result<String> {
    let (keys, values) = (texts(keys)?, texts(values)?);
    if keys.len() != values.len() {
        return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "mismatched array dimensions"));
    }
    let headers: Vec<_> = keys.into_iter().zip(values).collect();
    armor::encode(bytes, &headers)
}

/// The call of a function with data, a password and options, or without options.
fn pgp_call(args: &[Datum], is_text: bool) -> Result<PgpCall<'_>> {
    let options = args.get(2).map_or(Ok(""), get::text)?;
    Ok(PgpCall { data: bytes_of(arg(args, 0)?)?, password: bytes_of(arg(args, 1)?)?, options, is_text })
}
pub fn pgp_sym_encrypt_text(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    pgp::encrypt(&pgp_call(args, true)?, ctx)?.into_datum()
}
pub fn pgp_sym_encrypt_bytea(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    pgp::encrypt(&pgp_call(args, false)?, ctx)?.into_datum()
}
pub fn pgp_sym_decrypt_text(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let bytes = pgp::decrypt(&pgp_call(args, true)?, ctx)?;
    work::step(bytes.len() / 4)?;
    let text = String::from_utf8(bytes).map_err(|e| not_utf8(&e))?;
    text.into_datum()
}
pub fn pgp_sym_decrypt_bytea(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    pgp::decrypt(&pgp_call(args, false)?, ctx)?.into_datum()
}

/// The bytes that are no character.
fn not_utf8(e: &std::string::FromUtf8Error) -> Error {
    let at = e.utf8_error().valid_up_to();
    let shown: Vec<String> = e.as_bytes().iter().skip(at).take(1).map(|b| format!("0x{b:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    Error::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message)
}

pub fn pgp_armor_headers(call: RowsCall<'_>) -> Result<FunctionRows> {
    let headers = armor::headers(get::text(arg(&call.args, 0)?)?)?;
    let row = |(key, value): (String, String)| vec![Datum::text(key), Datum::text(value)];
    Ok(FunctionRows::table(headers.into_iter().map(row).collect()))
}

scalars! {
    fn pg_digest(_c; data: any, name: text) = digest(bytes_of(data)?, name)?;
    fn pg_hmac(_c; data: any, key: any, name: text) = hmac(bytes_of(data)?, bytes_of(key)?, name)?;
    fn pg_crypt(c; password: text, setting: text) = crypt(password, setting, c)?;
    fn pg_gen_salt(c; name: text) = gen_salt(name, None, c)?;
    fn pg_gen_salt_rounds(c; name: text, rounds: int4) = gen_salt(name, Some(rounds), c)?;
    fn pg_encrypt(_c; data: bytea, key: bytea, name: text) = cipher::encrypt(name, &Operands { data, key, start: &[], call: "encrypt" })?;
    fn pg_decrypt(_c; data: bytea, key: bytea, name: text) = cipher::decrypt(name, &Operands { data, key, start: &[], call: "decrypt" })?;
    fn pg_encrypt_iv(_c; data: bytea, key: bytea, start: bytea, name: text) = cipher::encrypt(name, &Operands { data, key, start, call: "encrypt_iv" })?;
    fn pg_decrypt_iv(_c; data: bytea, key: bytea, start: bytea, name: text) = cipher::decrypt(name, &Operands { data, key, start, call: "decrypt_iv" })?;
    fn pg_random_bytes(c; len: int4) = random_bytes(len, c)?;
    fn pg_random_uuid(c;) = super::bytea::uuid4(c);
    /// No library with such a mode is used.
    fn pg_check_fipsmode(_c;) = false;
    fn p15942_armor(_c; bytes: bytea) = armor::encode(bytes, &[])?;
    fn p15943_armor(_c; bytes: bytea, keys: array, values: array) = armored(bytes, keys, values)?;
    fn pg_dearmor(_c; text: text) = armor::decode(text.as_bytes())?;
}
