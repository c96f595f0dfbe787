//! Casts between built-in types and length coercion.

use crate::numeric::{Numeric, ShortNumeric};
use crate::{Datum, EvalContext, datetime, io, oids::*, pieces, types};
use kilndb_base::{Error, Oid, Result, shared, sqlstate};
use std::borrow::Cow;
use std::sync::Arc;

pub type CastFn = fn(&Datum, typmod: i32, explicit: bool, ctx: &EvalContext) -> Result<Datum>;

pub(crate) fn truncate_name(text: &str) -> &str {
    if text.len() < 64 {
        return text;
    }
    let mut end = 63;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
fn too_long(what: &str, limit: i32) -> Error {
    Error::new(sqlstate::STRING_DATA_RIGHT_TRUNCATION, format!("value too long for type {what}({limit})"))
}
/// The first `limit` characters; what is cut must be blank unless the cast is explicit.
fn limit_chars<'a>(text: &'a str, limit: usize, explicit: bool, what: &str) -> Result<&'a str> {
    if text.len() <= limit {
        return Ok(text);
    }
    let at = pieces::char_offset(text, limit)?;
    if !explicit && !pieces::all(&text.as_bytes()[at..], |b| b == b' ')? {
        return Err(too_long(what, limit as i32));
    }
    Ok(&text[..at])
}
pub(crate) fn varchar(text: &str, typmod: i32, explicit: bool) -> Result<Datum> {
    if typmod < 4 {
        return Ok(Datum::Text(shared::text(text)?));
    }
    Ok(Datum::Text(shared::text(limit_chars(text, (typmod - 4) as usize, explicit, "character varying")?)?))
}
/// A value of type character: with a length it has just as many characters, without one it stays as it is, blanks
/// included.
pub(crate) fn bpchar(text: &str, typmod: i32, explicit: bool) -> Result<Datum> {
    if typmod < 4 {
        return Ok(Datum::Text(shared::text(text)?));
    }
    let length = (typmod - 4) as usize;
    Ok(Datum::Text(padded(limit_chars(text, length, explicit, "character")?, length)))
}
/// How many blanks make the text `length` characters long.
pub(crate) fn padding_of(text: &[u8], length: usize) -> Result<usize> {
    let characters = if text.is_ascii() { text.len() } else { crate::vector::text_of(text)?.chars().count() };
    Ok(length.saturating_sub(characters))
}
/// `text` with blanks behind it, `length` characters in all.
pub(crate) fn padded(text: &str, length: usize) -> Arc<str> {
    // Counting characters is needed only where the bytes do not decide.
    let missing =
        if text.is_ascii() { length.saturating_sub(text.len()) } else { length.saturating_sub(text.chars().count()) };
    if missing == 0 {
        return Arc::from(text);
    }
    let bytes = text.len() + missing;
    let mut short = [b' '; SHORT_BYTES];
    if bytes <= SHORT_BYTES {
        short[..text.len()].copy_from_slice(text.as_bytes());
        if let Ok(whole) = std::str::from_utf8(&short[..bytes]) {
            return Arc::from(whole);
        }
    }
    let mut whole = String::with_capacity(bytes);
    whole.push_str(text);
    while whole.len() < bytes {
        whole.push_str(&BLANKS[..BLANKS.len().min(bytes - whole.len())]);
    }
    Arc::from(whole)
}
/// Values of char(n) up to this length are padded without a string of their own in between.
const SHORT_BYTES: usize = 128;
const BLANKS: &str = "                                                                ";
/// A value of bpchar as it is compared and as other types of strings take it: without the blanks at its end.
pub(crate) fn without_padding(text: &str) -> &str {
    // A blank is a whole character, so the end of the bytes is the end of one.
    &text[..without_blanks(text.as_bytes()).len()]
}
/// The bytes of a text without the blanks at its end.
pub(crate) fn without_blanks(mut bytes: &[u8]) -> &[u8] {
    // Eight bytes at a time: all rows of a COPY into char(n) come this way.
    const WORD: [u8; 8] = [b' '; 8];
    while let Some(rest) = bytes.strip_suffix(&WORD) {
        bytes = rest;
    }
    while let Some(rest) = bytes.strip_suffix(b" ") {
        bytes = rest;
    }
    bytes
}
pub(crate) fn parse_bit(type_oid: Oid, text: &str, typmod: i32) -> Result<Datum> {
    let bits = match text.as_bytes().first() {
        Some(b'x' | b'X') => Cow::Owned(bits_of_hex(&text[1..])?),
        Some(b'b' | b'B') => Cow::Borrowed(&text[1..]),
        _ => Cow::Borrowed(text),
    };
    for piece in pieces::of_text(&bits, 1) {
        if let Some(c) = piece?.chars().find(|c| !matches!(c, '0' | '1')) {
            let message = format!("\"{c}\" is not a valid binary digit");
            return Err(Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, message));
        }
    }
    bit_length(type_oid, &bits, typmod, false)
}
fn bits_of_hex(digits: &str) -> Result<String> {
    const NIBBLES: [&str; 16] = [
        "0000", "0001", "0010", "0011", "0100", "0101", "0110", "0111", "1000", "1001", "1010", "1011", "1100", "1101",
        "1110", "1111",
    ];
    let mut bits = String::with_capacity(digits.len() * 4);
    for piece in pieces::of_text(digits, 4) {
        for c in piece?.chars() {
            let nibble = c.to_digit(16).and_then(|d| NIBBLES.get(d as usize)).ok_or_else(|| {
                let message = format!("\"{c}\" is not a valid hexadecimal digit");
                Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, message)
            })?;
            bits.push_str(nibble);
        }
    }
    Ok(bits)
}
pub(crate) fn bit_length(type_oid: Oid, bits: &str, typmod: i32, explicit: bool) -> Result<Datum> {
    let want = if typmod > 0 { typmod as usize } else { bits.len() };
    let kept = match type_oid {
        BIT if bits.len() != want && !explicit => {
            return Err(Error::new(
                sqlstate::STRING_DATA_RIGHT_TRUNCATION,
                format!("bit string length {} does not match type bit({want})", bits.len()),
            ));
        }
        BIT if bits.len() < want => {
            let padded = pieces::concat(&[bits, &pieces::repeat("0", want - bits.len())?])?;
            return Ok(Datum::Text(shared::text(&padded)?));
        }
        VARBIT if bits.len() > want && !explicit => {
            return Err(Error::new(
                sqlstate::STRING_DATA_RIGHT_TRUNCATION,
                format!("bit string too long for type bit varying({want})"),
            ));
        }
        BIT | VARBIT if bits.len() > want => &bits[..want],
        _ => bits,
    };
    Ok(Datum::Text(shared::text(kept)?))
}

/// Length coercion: varchar(n), char(n), numeric(p,s), timestamp(p), interval(p), bit(n).
pub fn apply_typmod(type_oid: Oid, datum: Datum, typmod: i32, explicit: bool) -> Result<Datum> {
    if typmod < 0 {
        return Ok(datum);
    }
    if let Some(modifier) = types::descriptor(type_oid).and_then(|ty| ty.modifier) {
        return (modifier.apply)(datum, typmod, explicit);
    }
    match &datum {
        Datum::Array(a) if a.element_type != type_oid => {
            let mut copy = (**a).clone();
            for e in &mut copy.elements {
                *e = apply_typmod(a.element_type, std::mem::take(e), typmod, explicit)?;
            }
            Ok(Datum::Array(Arc::new(copy)))
        }
        _ => Ok(datum),
    }
}
/// The text form of a number of at most 64 bits, for which no memory is needed.
fn short_text<'r>(source: Oid, datum: &Datum, room: &'r mut [u8; 32]) -> Option<&'r str> {
    let number = match (source, datum) {
        (INT2, Datum::Int2(v)) => ShortNumeric::at(i64::from(*v), 0),
        (INT4, Datum::Int4(v)) => ShortNumeric::at(i64::from(*v), 0),
        (INT8, Datum::Int8(v)) if *v != i64::MIN => ShortNumeric::at(*v, 0),
        (NUMERIC, Datum::Numeric(Numeric::Short(number))) => *number,
        _ => return None,
    };
    Some(number.show(room))
}
/// I/O conversion: the text form of `source` read as `target`.
pub fn cast_via_text(
    source: Oid,
    target: Oid,
    datum: &Datum,
    typmod: i32,
    explicit: bool,
    ctx: &EvalContext,
) -> Result<Datum> {
    if datum.is_null() {
        return Ok(Datum::Null);
    }
    let mut room = [0; 32];
    let text = match datum {
        Datum::Text(s) => Cow::Borrowed(&**s),
        _ => match short_text(source, datum, &mut room) {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(io::output_string(source, datum, ctx)?),
        },
    };
    match target {
        VARCHAR => varchar(&text, typmod, explicit),
        BPCHAR => bpchar(&text, typmod, explicit),
        _ => io::input(target, &text, typmod, ctx),
    }
}

#[cold]
pub(crate) fn out_of_range(type_name: &str) -> Error {
    Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("{type_name} out of range"))
}
fn int_value(d: &Datum, type_name: &str) -> Result<i64> {
    Ok(match d {
        Datum::Int2(v) => i64::from(*v),
        Datum::Int4(v) => i64::from(*v),
        Datum::Int8(v) => *v,
        Datum::Oid(v) => i64::from(*v),
        Datum::Bool(v) => i64::from(*v),
        Datum::Char(v) => i64::from(*v as i8),
        Datum::Float4(v) => float_to_int(f64::from(*v), type_name)?,
        Datum::Float8(v) => float_to_int(*v, type_name)?,
        Datum::Numeric(n) => {
            if !n.is_finite() {
                let what = if n.is_nan() { "NaN" } else { "infinity" };
                return Err(Error::unsupported(format!("cannot convert {what} to {type_name}")));
            }
            n.to_i64().ok_or_else(|| out_of_range(type_name))?
        }
        _ => return Err(mismatch(d)),
    })
}
fn float_to_int(v: f64, type_name: &str) -> Result<i64> {
    let v = v.round_ties_even();
    if v.is_nan() || !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&v) {
        return Err(out_of_range(type_name));
    }
    Ok(v as i64)
}
#[cold]
fn mismatch(d: &Datum) -> Error {
    Error::internal(format!("cast does not take {d:?}"))
}
fn to_int2(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    i16::try_from(int_value(d, "smallint")?).map(Datum::Int2).map_err(|_| out_of_range("smallint"))
}
fn to_int4(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    if let Datum::Oid(v) = d {
        return Ok(Datum::Int4(*v as i32));
    }
    i32::try_from(int_value(d, "integer")?).map(Datum::Int4).map_err(|_| out_of_range("integer"))
}
pub(crate) fn to_int8(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    int_value(d, "bigint").map(Datum::Int8)
}
fn to_float8(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    Ok(Datum::Float8(match d {
        Datum::Int2(v) => f64::from(*v),
        Datum::Int4(v) => f64::from(*v),
        Datum::Int8(v) => *v as f64,
        Datum::Float4(v) => f64::from(*v),
        Datum::Float8(v) => *v,
        Datum::Numeric(n) => {
            let v = n.to_f64();
            if n.is_finite() && (v.is_infinite() || (v == 0.0 && !n.is_zero())) {
                return Err(Error::new(
                    sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("\"{n}\" is out of range for type double precision"),
                ));
            }
            v
        }
        _ => return Err(mismatch(d)),
    }))
}
fn to_float4(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    Ok(Datum::Float4(match d {
        Datum::Int2(v) => f32::from(*v),
        Datum::Int4(v) => *v as f32,
        Datum::Int8(v) => *v as f32,
        Datum::Float4(v) => *v,
        Datum::Float8(v) => {
            let r = *v as f32;
            if r.is_infinite() && !v.is_infinite() {
                return Err(Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
            }
            if r == 0.0 && *v != 0.0 {
                return Err(Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"));
            }
            r
        }
        Datum::Numeric(n) => {
            let v = n.to_f32();
            if n.is_finite() && (v.is_infinite() || (v == 0.0 && !n.is_zero())) {
                return Err(Error::new(
                    sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("\"{n}\" is out of range for type real"),
                ));
            }
            v
        }
        _ => return Err(mismatch(d)),
    }))
}
fn to_numeric(d: &Datum, typmod: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    let n = match d {
        Datum::Int2(v) => Numeric::from(i64::from(*v)),
        Datum::Int4(v) => Numeric::from(*v),
        Datum::Int8(v) => Numeric::from(*v),
        Datum::Float4(v) => Numeric::from_f32(*v),
        Datum::Float8(v) => Numeric::from_f64(*v),
        Datum::Numeric(n) => n.clone(),
        _ => return Err(mismatch(d)),
    };
    Ok(Datum::Numeric(n.apply_typmod(typmod)?))
}
fn to_bool(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    Ok(Datum::Bool(int_value(d, "boolean")? != 0))
}
fn to_oid(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    Ok(Datum::Oid(match d {
        Datum::Oid(v) => *v,
        Datum::Int4(v) => *v as u32,
        Datum::Int2(v) => i32::from(*v) as u32,
        Datum::Int8(v) => {
            u32::try_from(*v).map_err(|_| Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range"))?
        }
        _ => return Err(mismatch(d)),
    }))
}
fn text_to_reg(d: &Datum, _: i32, _: bool, ctx: &EvalContext) -> Result<Datum> {
    match d {
        Datum::Text(s) => Ok(Datum::Oid(ctx.host.reg_input(REGCLASS, s)?)),
        _ => Err(mismatch(d)),
    }
}
fn same(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    Ok(d.clone())
}
fn text_of(d: &Datum, ctx: &EvalContext) -> Result<String> {
    match d {
        Datum::Text(s) => Ok(s.to_string()),
        Datum::Char(c) => {
            let mut out = Vec::new();
            io::write_char(*c, &mut out);
            Ok(String::from_utf8_lossy(&out).into_owned())
        }
        Datum::Bool(b) => Ok(if *b { "true" } else { "false" }.into()),
        d => io::output_string(io::natural_type(d), d, ctx),
    }
}
fn to_text(d: &Datum, _: i32, _: bool, ctx: &EvalContext) -> Result<Datum> {
    if let Datum::Text(_) = d {
        return Ok(d.clone());
    }
    Ok(Datum::Text(shared::text(&text_of(d, ctx)?)?))
}
fn stripped(d: &Datum) -> Datum {
    match d {
        Datum::Text(s) if s.ends_with(' ') => Datum::text(without_padding(s)),
        _ => d.clone(),
    }
}
pub(crate) fn bpchar_to_text(d: &Datum, typmod: i32, explicit: bool, ctx: &EvalContext) -> Result<Datum> {
    to_text(&stripped(d), typmod, explicit, ctx)
}
fn bpchar_to_varchar(d: &Datum, typmod: i32, explicit: bool, ctx: &EvalContext) -> Result<Datum> {
    to_varchar(&stripped(d), typmod, explicit, ctx)
}
pub(crate) fn bpchar_to_name(d: &Datum, typmod: i32, explicit: bool, ctx: &EvalContext) -> Result<Datum> {
    to_name(&stripped(d), typmod, explicit, ctx)
}
fn bpchar_to_char(d: &Datum, typmod: i32, explicit: bool, ctx: &EvalContext) -> Result<Datum> {
    to_char(&stripped(d), typmod, explicit, ctx)
}
fn to_varchar(d: &Datum, typmod: i32, explicit: bool, ctx: &EvalContext) -> Result<Datum> {
    varchar(&text_of(d, ctx)?, typmod, explicit)
}
fn to_bpchar(d: &Datum, typmod: i32, explicit: bool, ctx: &EvalContext) -> Result<Datum> {
    bpchar(&text_of(d, ctx)?, typmod, explicit)
}
fn to_name(d: &Datum, _: i32, _: bool, ctx: &EvalContext) -> Result<Datum> {
    Ok(Datum::text(truncate_name(&text_of(d, ctx)?)))
}
fn to_char(d: &Datum, _: i32, _: bool, ctx: &EvalContext) -> Result<Datum> {
    if let Datum::Int4(v) = d {
        return i8::try_from(*v)
            .map(|v| Datum::Char(v as u8))
            .map_err(|_| Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "\"char\" out of range"));
    }
    io::input(CHAR, &text_of(d, ctx)?, -1, ctx)
}
fn to_date(d: &Datum, _: i32, _: bool, ctx: &EvalContext) -> Result<Datum> {
    Ok(Datum::Date(match d {
        Datum::Timestamp(v) => datetime::timestamp_to_date(*v),
        Datum::TimestampTz(v) => {
            datetime::timestamp_to_date(datetime::utc_to_local(*v, &datetime::parse::session_zone(ctx))?)
        }
        _ => return Err(mismatch(d)),
    }))
}
fn to_timestamp(d: &Datum, typmod: i32, _: bool, ctx: &EvalContext) -> Result<Datum> {
    let v = match d {
        Datum::Date(v) => datetime::date_to_timestamp(*v)?,
        Datum::TimestampTz(v) => datetime::utc_to_local(*v, &datetime::parse::session_zone(ctx))?,
        Datum::Timestamp(v) => *v,
        _ => return Err(mismatch(d)),
    };
    Ok(Datum::Timestamp(datetime::round_timestamp(v, typmod)?))
}
fn to_timestamptz(d: &Datum, typmod: i32, _: bool, ctx: &EvalContext) -> Result<Datum> {
    let v = match d {
        Datum::Date(v) => {
            datetime::local_to_utc(datetime::date_to_timestamp(*v)?, &datetime::parse::session_zone(ctx))?
        }
        Datum::Timestamp(v) => datetime::local_to_utc(*v, &datetime::parse::session_zone(ctx))?,
        Datum::TimestampTz(v) => *v,
        _ => return Err(mismatch(d)),
    };
    Ok(Datum::TimestampTz(datetime::round_timestamp(v, typmod)?))
}
fn to_time(d: &Datum, typmod: i32, _: bool, ctx: &EvalContext) -> Result<Datum> {
    use datetime::calendar::USECS_PER_DAY;
    let v = match d {
        Datum::Timestamp(v) if datetime::is_finite_ts(*v) => v.rem_euclid(USECS_PER_DAY),
        Datum::TimestampTz(v) if datetime::is_finite_ts(*v) => {
            datetime::utc_to_local(*v, &datetime::parse::session_zone(ctx))?.rem_euclid(USECS_PER_DAY)
        }
        Datum::Timestamp(_) | Datum::TimestampTz(_) => return Ok(Datum::Null),
        Datum::Interval(v) => {
            if v.is_infinite() {
                return Err(Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, "cannot convert infinite interval to time"));
            }
            v.micros.rem_euclid(USECS_PER_DAY)
        }
        Datum::TimeTz(v, _) | Datum::Time(v) => *v,
        _ => return Err(mismatch(d)),
    };
    Ok(Datum::Time(datetime::round_time(v, typmod)))
}
fn to_timetz(d: &Datum, typmod: i32, _: bool, ctx: &EvalContext) -> Result<Datum> {
    use datetime::calendar::{USECS_PER_DAY, USECS_PER_SEC};
    let zone = datetime::parse::session_zone(ctx);
    let (t, west) = match d {
        Datum::Time(v) => {
            let now = datetime::local_now(ctx);
            let local = i64::from(now.date()) * USECS_PER_DAY + v;
            (*v, -zone.offset_for_local(local))
        }
        Datum::TimestampTz(v) if datetime::is_finite_ts(*v) => {
            let off = zone.offset_at(*v);
            ((v + i64::from(off) * USECS_PER_SEC).rem_euclid(USECS_PER_DAY), -off)
        }
        Datum::TimestampTz(_) => return Ok(Datum::Null),
        Datum::TimeTz(v, z) => (*v, *z),
        _ => return Err(mismatch(d)),
    };
    Ok(Datum::TimeTz(datetime::round_time(t, typmod), west))
}
fn to_interval(d: &Datum, typmod: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    let v = match d {
        Datum::Time(v) => crate::Interval { months: 0, days: 0, micros: *v },
        Datum::Interval(v) => **v,
        _ => return Err(mismatch(d)),
    };
    Ok(Datum::Interval(Arc::new(datetime::interval_typmod(v, typmod)?)))
}
fn int_bytea(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    Ok(Datum::Bytea(match d {
        Datum::Int2(v) => Arc::from(&v.to_be_bytes()[..]),
        Datum::Int4(v) => Arc::from(&v.to_be_bytes()[..]),
        Datum::Int8(v) => Arc::from(&v.to_be_bytes()[..]),
        _ => return Err(mismatch(d)),
    }))
}
fn bytea_int(bytes: &[u8], width: usize, name: &str) -> Result<i64> {
    if bytes.len() > width {
        return Err(out_of_range(name));
    }
    let negative = bytes.len() == width && bytes.first().is_some_and(|b| b & 0x80 != 0);
    Ok(bytes.iter().fold(if negative { -1i64 } else { 0 }, |v, b| v << 8 | i64::from(*b)))
}
fn bytea_to_int2(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    let Datum::Bytea(b) = d else { return Err(mismatch(d)) };
    Ok(Datum::Int2(bytea_int(b, 2, "smallint")? as i16))
}
fn bytea_to_int4(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    let Datum::Bytea(b) = d else { return Err(mismatch(d)) };
    Ok(Datum::Int4(bytea_int(b, 4, "integer")? as i32))
}
fn bytea_to_int8(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    let Datum::Bytea(b) = d else { return Err(mismatch(d)) };
    Ok(Datum::Int8(bytea_int(b, 8, "bigint")?))
}
fn xid8_to_xid(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    let Datum::U64(v) = d else { return Err(mismatch(d)) };
    Ok(Datum::Oid(*v as u32))
}
fn int_to_bit(d: &Datum, typmod: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    let v = match d {
        Datum::Int4(v) => i64::from(*v),
        Datum::Int8(v) => *v,
        _ => return Err(mismatch(d)),
    };
    let want = if typmod > 0 { typmod } else { 1 };
    // What is beyond a word repeats the sign.
    let low = want.min(64);
    let beyond = pieces::repeat(if v < 0 { "1" } else { "0" }, (want - low) as usize)?;
    let bits: String = (0..low).rev().map(|i| if v >> i & 1 == 1 { '1' } else { '0' }).collect();
    Ok(Datum::Text(shared::text(&pieces::concat(&[&beyond, &bits])?)?))
}
fn bit_to_int(d: &Datum, width: usize) -> Result<i64> {
    let Datum::Text(s) = d else { return Err(mismatch(d)) };
    if s.len() > width {
        return Err(out_of_range(if width == 32 { "integer" } else { "bigint" }));
    }
    Ok(s.bytes().fold(0u64, |v, b| v << 1 | u64::from(b == b'1')) as i64)
}
fn bit_to_int4(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    Ok(Datum::Int4(bit_to_int(d, 32)? as i32))
}
fn bit_to_int8(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    Ok(Datum::Int8(bit_to_int(d, 64)?))
}
fn bit_same(d: &Datum, typmod: i32, explicit: bool, _: &EvalContext) -> Result<Datum> {
    let Datum::Text(s) = d else { return Err(mismatch(d)) };
    bit_length(BIT, s, typmod, explicit)
}
fn varbit_same(d: &Datum, typmod: i32, explicit: bool, _: &EvalContext) -> Result<Datum> {
    let Datum::Text(s) = d else { return Err(mismatch(d)) };
    bit_length(VARBIT, s, typmod, explicit)
}

fn cidr_to_inet(d: &Datum, _: i32, _: bool, _: &EvalContext) -> Result<Datum> {
    let Datum::Inet(v) = d else { return Err(mismatch(d)) };
    Ok(Datum::Inet(v.as_cidr(false)))
}

/// The built-in cast by function or binary coercion, if there is one.
pub fn lookup_cast(source: Oid, target: Oid) -> Option<CastFn> {
    let integer = |o| matches!(o, INT2 | INT4 | INT8);
    let number = |o| matches!(o, INT2 | INT4 | INT8 | FLOAT4 | FLOAT8 | NUMERIC);
    let string = |o| matches!(o, TEXT | VARCHAR | BPCHAR);
    let reg = io::is_reg_type;
    Some(match (source, target) {
        (s, INT2) if number(s) => to_int2,
        (s, INT4) if number(s) => to_int4,
        (s, INT8) if number(s) => to_int8,
        (s, FLOAT4) if number(s) => to_float4,
        (s, FLOAT8) if number(s) => to_float8,
        (s, NUMERIC) if number(s) => to_numeric,
        (INT4, BOOL) => to_bool,
        (BOOL, INT4) | (CHAR, INT4) => to_int4,
        (INT4, CHAR) => to_char,
        (s, OID) if integer(s) || reg(s) => to_oid,
        (OID, INT8) => to_int8,
        (OID, INT4) => to_int4,
        (s, t) if reg(t) && (integer(s) || s == OID) => to_oid,
        (s, INT4) if reg(s) => to_int4,
        (s, INT8) if reg(s) => to_int8,
        (REGPROC, REGPROCEDURE) | (REGPROCEDURE, REGPROC) | (REGOPER, REGOPERATOR) | (REGOPERATOR, REGOPER) => same,
        (TEXT | VARCHAR, REGCLASS) => text_to_reg,
        (BPCHAR, VARCHAR) => bpchar_to_varchar,
        (BPCHAR, TEXT) => bpchar_to_text,
        (BPCHAR, NAME) => bpchar_to_name,
        (BPCHAR, CHAR) => bpchar_to_char,
        (s, VARCHAR) if string(s) || matches!(s, NAME | CHAR | BOOL) => to_varchar,
        (s, BPCHAR) if string(s) || matches!(s, NAME | CHAR | BOOL) => to_bpchar,
        (s, TEXT) if string(s) || matches!(s, NAME | CHAR | BOOL | PG_NODE_TREE | XML) => to_text,
        (s, NAME) if string(s) => to_name,
        (s, CHAR) if string(s) => to_char,
        (XML, _) if string(target) => to_varchar,
        (TIMESTAMP | TIMESTAMPTZ, DATE) => to_date,
        (DATE | TIMESTAMPTZ | TIMESTAMP, TIMESTAMP) => to_timestamp,
        (DATE | TIMESTAMP | TIMESTAMPTZ, TIMESTAMPTZ) => to_timestamptz,
        (TIMESTAMP | TIMESTAMPTZ | INTERVAL | TIMETZ | TIME, TIME) => to_time,
        (TIME | TIMESTAMPTZ | TIMETZ, TIMETZ) => to_timetz,
        (TIME | INTERVAL, INTERVAL) => to_interval,
        (s, BYTEA) if integer(s) => int_bytea,
        (BYTEA, INT2) => bytea_to_int2,
        (BYTEA, INT4) => bytea_to_int4,
        (BYTEA, INT8) => bytea_to_int8,
        (XID8, XID) => xid8_to_xid,
        (INT4 | INT8, BIT) => int_to_bit,
        (BIT, INT4) => bit_to_int4,
        (BIT, INT8) => bit_to_int8,
        (BIT | VARBIT, BIT) => bit_same,
        (BIT | VARBIT, VARBIT) => varbit_same,
        (CIDR, INET) => cidr_to_inet,
        (OIDVECTOR, OID_ARRAY) | (INT2VECTOR, INT2_ARRAY) => same,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn padding_is_added_and_taken_away() {
        for text in ["", "a", "  b", "word", "é", "日本語", "a longer text, of more than one word of eight bytes"] {
            let characters = text.chars().count();
            for length in 0..300usize {
                let expected: String =
                    text.chars().chain(std::iter::repeat_n(' ', length.saturating_sub(characters))).collect();
                let whole = padded(text, length);
                assert_eq!(*whole, *expected, "{length}");
                assert_eq!(without_padding(&whole), text, "{length}");
            }
        }
        assert_eq!(without_padding("                 "), "");
    }

    #[test]
    fn bits_get_the_length_of_their_type() {
        let shown = |type_oid, text: &str, typmod, explicit| match bit_length(type_oid, text, typmod, explicit) {
            Ok(Datum::Text(bits)) => bits.to_string(),
            other => other.unwrap_err().message().to_string(),
        };
        assert_eq!(shown(BIT, "101", -1, false), "101");
        assert_eq!(shown(BIT, "101", 5, true), "10100");
        assert_eq!(shown(BIT, "101", 2, true), "10");
        assert_eq!(shown(BIT, "101", 2, false), "bit string length 3 does not match type bit(2)");
        assert_eq!(shown(VARBIT, "101", 5, false), "101");
        assert_eq!(shown(VARBIT, "101", 2, true), "10");
        assert_eq!(shown(VARBIT, "101", 2, false), "bit string too long for type bit varying(2)");
        let text = |d: Result<Datum>| if let Ok(Datum::Text(t)) = d { t.to_string() } else { String::new() };
        assert_eq!(text(parse_bit(VARBIT, "x1eF", -1)), "000111101111");
        assert_eq!(text(parse_bit(VARBIT, "B01", -1)), "01");
        assert!(parse_bit(VARBIT, "xg", -1).is_err() && parse_bit(VARBIT, "012", -1).is_err());
    }

    #[test]
    fn long_bits_give_way() {
        let bits = "10".repeat(1_000_000);
        asks(worth(2 * bits.len()), |_| parse_bit(VARBIT, &bits, -1));
        asks(worth(4 * bits.len()), |_| parse_bit(VARBIT, &format!("x{bits}"), -1));
        asks(worth(2_000_000), |cx| int_to_bit(&Datum::Int4(-5), 2_000_000, true, cx));
    }
}
