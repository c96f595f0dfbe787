//! bytea functions, digests, encode and decode.

use crate::io::bytea::{decode_hex, encode_hex};
use crate::{Datum, io, pieces};
use kilndb_base::work::{self, SmallSteps};
use kilndb_base::{Error, Result, sqlstate};

fn parameter(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}
fn index(b: &[u8], n: i64, limit: i64) -> Result<usize> {
    let _ = b;
    if n < 0 || n >= limit {
        return Err(Error::new(
            sqlstate::ARRAY_SUBSCRIPT_ERROR,
            format!("index {n} out of valid range, 0..{}", limit - 1),
        ));
    }
    Ok(n as usize)
}
fn substr(b: &[u8], start: i32, len: Option<i32>) -> Result<Vec<u8>> {
    let start = i64::from(start);
    let end = match len {
        None => i64::MAX,
        Some(l) if l < 0 => {
            return Err(Error::new(sqlstate::SUBSTRING_ERROR, "negative substring length not allowed"));
        }
        Some(l) => start + i64::from(l),
    };
    let from = (start.max(1) - 1).min(b.len() as i64) as usize;
    let to = (end - 1).clamp(from as i64, b.len() as i64) as usize;
    pieces::concat_bytes(&[&b[from..to]])
}
fn overlay(b: &[u8], new: &[u8], start: i32, len: i32) -> Result<Vec<u8>> {
    if start <= 0 {
        return Err(Error::new(sqlstate::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let end = start
        .checked_add(len)
        .ok_or_else(|| Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))?;
    pieces::concat_bytes(&[&substr(b, 1, Some(start - 1))?, new, &substr(b, end, None)?])
}
fn trim<'a>(b: &'a [u8], set: &[u8], left: bool, right: bool) -> Result<&'a [u8]> {
    let mut is_in_set = [false; 256];
    for piece in pieces::of_bytes(set, 1) {
        piece?.iter().for_each(|b| is_in_set[usize::from(*b)] = true);
    }
    let mut rest = b;
    if left {
        rest = &rest[pieces::count_leading(rest, |b| is_in_set[usize::from(b)])?..];
    }
    let mut steps = SmallSteps::default();
    while let (true, Some((last, before))) = (right, rest.split_last()) {
        if !is_in_set[usize::from(*last)] {
            break;
        }
        steps.step(1)?;
        rest = before;
    }
    Ok(rest)
}
fn position(b: &[u8], sub: &[u8]) -> Result<i32> {
    if sub.is_empty() {
        return Ok(1);
    }
    let mut steps = SmallSteps::default();
    for (i, window) in b.windows(sub.len()).enumerate() {
        steps.step(2)?;
        if window == sub {
            return Ok(i as i32 + 1);
        }
    }
    Ok(0)
}
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
fn base64(b: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(b.len() * 4 / 3 + 4);
    let mut column = 0;
    let mut steps = SmallSteps::default();
    for chunk in b.chunks(3) {
        steps.step(15)?;
        let v = chunk.iter().enumerate().fold(0u32, |v, (i, b)| v | u32::from(*b) << (16 - 8 * i));
        for i in 0..4 {
            out.push(if i <= chunk.len() { BASE64[(v >> (18 - 6 * i) & 63) as usize] } else { b'=' });
        }
        column += 4;
        if column >= 76 {
            out.push(b'\n');
            column = 0;
        }
    }
    if out.last() == Some(&b'\n') && !b.len().is_multiple_of(57) {
        out.pop();
    }
    Ok(out)
}
fn unbase64(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let (mut v, mut n, mut end) = (0u32, 0, 0);
    let mut steps = SmallSteps::default();
    for c in text.chars() {
        steps.step(20)?;
        let d = match c {
            ' ' | '\t' | '\n' | '\r' => continue,
            '=' => {
                if end == 0 {
                    match n {
                        2 => end = 1,
                        3 => end = 2,
                        _ => return Err(parameter("unexpected \"=\" while decoding base64 sequence")),
                    }
                }
                0
            }
            c => match BASE64.iter().position(|b| char::from(*b) == c) {
                Some(d) => d as u32,
                None => return Err(parameter(format!("invalid symbol \"{c}\" found while decoding base64 sequence"))),
            },
        };
        v = v << 6 | d;
        n += 1;
        if n == 4 {
            out.push((v >> 16) as u8);
            if end == 0 || end > 1 {
                out.push((v >> 8) as u8);
            }
            if end == 0 || end > 2 {
                out.push(v as u8);
            }
            (v, n) = (0, 0);
        }
    }
    if n != 0 {
        return Err(parameter("invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}
#[derive(Clone, Copy)]
enum Encoding {
    Hex,
    Base64,
    Escape,
}
/// The encoding of this name in any case. The name may be a long text: it is not copied but for the error.
fn encoding(name: &str) -> Result<Encoding> {
    let known = [("hex", Encoding::Hex), ("base64", Encoding::Base64), ("escape", Encoding::Escape)];
    if let Some((_, encoding)) = known.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known)) {
        return Ok(encoding);
    }
    work::step(name.len())?;
    Err(parameter(format!("unrecognized encoding: \"{name}\"")))
}
fn encode(b: &[u8], format: &str) -> Result<String> {
    let mut out = Vec::new();
    match encoding(format)? {
        Encoding::Hex => {
            out.reserve(2 * b.len());
            for piece in pieces::of_bytes(b, 2) {
                encode_hex(piece?, &mut out);
            }
        }
        Encoding::Base64 => out = base64(b)?,
        Encoding::Escape => {
            let mut steps = SmallSteps::default();
            for &c in b {
                steps.step(10)?;
                match c {
                    0 | 0x80.. => out.extend([b'\\', b'0' + (c >> 6), b'0' + (c >> 3 & 7), b'0' + (c & 7)]),
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    c => out.push(c),
                }
            }
        }
    }
    String::from_utf8(out).map_err(|_| Error::internal("encoded text is not UTF-8"))
}
fn decode(s: &str, format: &str) -> Result<Vec<u8>> {
    match encoding(format)? {
        Encoding::Hex => decode_hex(s),
        Encoding::Base64 => unbase64(s),
        Encoding::Escape => io::bytea::parse(&s.replacen("\\x", "\\170", usize::from(s.starts_with("\\x")))),
    }
}
fn crc(b: &[u8], poly: u32) -> Result<i64> {
    let mut c = u32::MAX;
    let mut steps = SmallSteps::default();
    for &x in b {
        steps.step(10)?;
        c ^= u32::from(x);
        for _ in 0..8 {
            c = if c & 1 == 1 { c >> 1 ^ poly } else { c >> 1 };
        }
    }
    Ok(i64::from(!c))
}
fn sha<D: sha2::Digest>(b: &[u8]) -> Result<Vec<u8>> {
    let mut digest = D::new();
    for piece in pieces::of_bytes(b, 5) {
        digest.update(piece?);
    }
    Ok(digest.finalize().to_vec())
}
fn uuid_version(u: &[u8; 16]) -> Option<i16> {
    (u[8] & 0xc0 == 0x80).then(|| i16::from(u[6] >> 4))
}
fn uuid_time(u: &[u8; 16]) -> Option<Datum> {
    let be = |r: std::ops::Range<usize>| u[r].iter().fold(0u64, |v, b| v << 8 | u64::from(*b));
    match uuid_version(u)? {
        1 => {
            let ticks = be(0..4) | be(4..6) << 32 | (be(6..8) & 0xfff) << 48;
            // 1582-10-15 to 2000-01-01 in microseconds.
            Some(Datum::TimestampTz((ticks / 10) as i64 - 13_165_977_600_000_000))
        }
        7 => Some(Datum::TimestampTz(be(0..6) as i64 * 1000 - 946_684_800_000_000)),
        _ => None,
    }
}
pub(super) fn uuid4(c: &crate::EvalContext) -> [u8; 16] {
    let mut u = [0; 16];
    c.host.random_bytes(&mut u);
    u[6] = u[6] & 0x0f | 0x40;
    u[8] = u[8] & 0x3f | 0x80;
    u
}
/// Milliseconds, then 12 bits of the fraction, then randomness.
/// A UUID of version 7 of a time: microseconds since 1970 and the nanoseconds beyond them.
fn uuid7(c: &crate::EvalContext, (micros, nanos): (i64, i64)) -> [u8; 16] {
    let mut u = uuid4(c);
    let ms = micros.div_euclid(1000);
    u[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
    let fraction = ((micros.rem_euclid(1000) * 1000 + nanos) * 4096 / 1_000_000) as u16;
    u[6] = 0x70 | (fraction >> 8) as u8;
    u[7] = fraction as u8;
    u
}
/// The session's clock, which is later at each call: microseconds since 1970 and the nanoseconds beyond them.
fn ascending_clock(c: &crate::EvalContext) -> (i64, i64) {
    let nanos = c.host.ascending_unix_nanos();
    (nanos.div_euclid(1000), nanos.rem_euclid(1000))
}
fn shifted(c: &crate::EvalContext, by: crate::Interval) -> Result<(i64, i64)> {
    const EPOCH: i64 = 946_684_800_000_000;
    let (now, nanos) = ascending_clock(c);
    let zone = crate::datetime::parse::session_zone(c);
    let ts = super::datetime::timestamptz_add(now - EPOCH, &by, &zone)?;
    Ok((ts + EPOCH, nanos))
}

/// No other encoding is known yet.
pub(super) fn only_utf8(encoding: &str) -> Result<()> {
    if encoding.eq_ignore_ascii_case("utf8") || encoding.eq_ignore_ascii_case("utf-8") {
        return Ok(());
    }
    Err(Error::unsupported(format!("conversion to or from encoding \"{encoding}\" is not supported")))
}

scalars! {
    fn byteaoctetlen(_c; b: bytea) = b.len() as i32;
    fn byteacat(_c; a: bytea, b: bytea) = { super::limits::joined(a.len(), b.len())?; pieces::concat_bytes(&[a, b])? };
    fn bytea_substr(_c; b: bytea, start: int4, len: int4) = substr(b, start, Some(len))?;
    fn bytea_substr_no_len(_c; b: bytea, start: int4) = substr(b, start, None)?;
    fn byteaoverlay(_c; b: bytea, new: bytea, start: int4, len: int4) = overlay(b, new, start, len)?;
    fn byteaoverlay_no_len(_c; b: bytea, new: bytea, start: int4) = overlay(b, new, start, new.len() as i32)?;
    fn byteapos(_c; b: bytea, sub: bytea) = position(b, sub)?;
    fn byteatrim(_c; b: bytea, set: bytea) = trim(b, set, true, true)?;
    fn bytealtrim(_c; b: bytea, set: bytea) = trim(b, set, true, false)?;
    fn byteartrim(_c; b: bytea, set: bytea) = trim(b, set, false, true)?;
    fn bytea_reverse(_c; b: bytea) = work::steps(b.iter().rev(), 2).map(|b| b.copied()).collect::<Result<Vec<u8>>>()?;
    fn p721_get_byte(_c; b: bytea, n: int4) = i32::from(b[index(b, i64::from(n), b.len() as i64)?]);
    fn p722_set_byte(_c; b: bytea, n: int4, v: int4) = { let at = index(b, i64::from(n), b.len() as i64)?; let mut r = b.to_vec(); r[at] = v as u8; r };
    fn p723_get_bit(_c; b: bytea, n: int8) = { let at = index(b, n, b.len() as i64 * 8)?; i32::from(b[at / 8] >> (at % 8) & 1) };
    fn p724_set_bit(_c; b: bytea, n: int8, v: int4) = { let at = index(b, n, b.len() as i64 * 8)?; if v != 0 && v != 1 { return Err(parameter("new bit must be 0 or 1")); } let mut r = b.to_vec(); r[at / 8] = r[at / 8] & !(1 << (at % 8)) | (v as u8) << (at % 8); r };
    fn bytea_bit_count(_c; b: bytea) = pieces::of_bytes(b, 1).try_fold(0, |sum, p| Ok::<_, Error>(sum + p?.iter().map(|x| i64::from(x.count_ones())).sum::<i64>()))?;
    fn binary_encode(_c; b: bytea, format: text) = encode(b, format)?;
    fn binary_decode(_c; s: text, format: text) = decode(s, format)?;
    fn sha224_bytea(_c; b: bytea) = sha::<sha2::Sha224>(b)?;
    fn sha256_bytea(_c; b: bytea) = sha::<sha2::Sha256>(b)?;
    fn sha384_bytea(_c; b: bytea) = sha::<sha2::Sha384>(b)?;
    fn sha512_bytea(_c; b: bytea) = sha::<sha2::Sha512>(b)?;
    fn crc32_bytea(_c; b: bytea) = crc(b, 0xedb8_8320)?;
    fn crc32c_bytea(_c; b: bytea) = crc(b, 0x82f6_3b78)?;
    fn pg_convert_from(_c; b: bytea, e: text) = { only_utf8(e)?; work::step(b.len() / 4)?; std::str::from_utf8(b).map_err(|_| Error::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\""))? };
    fn pg_convert_to(_c; s: text, e: text) = { only_utf8(e)?; s.as_bytes() };
    fn gen_random_uuid(c;) = uuid4(c);
    fn uuidv7(c;) = uuid7(c, ascending_clock(c));
    fn uuidv7_interval(c; by: interval) = uuid7(c, shifted(c, by)?);
    fn uuid_extract_timestamp(_c; u: uuid) = uuid_time(u);
    fn uuid_extract_version(_c; u: uuid) = uuid_version(u);
}
