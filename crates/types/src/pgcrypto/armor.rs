//! ASCII armor of OpenPGP: bytes as lines of base64 between two marks, with headers and a checksum.

use super::{failed, invalid};
use crate::pieces;
use kilndb_base::work::SmallSteps;
use kilndb_base::{Error, Result, sqlstate};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Bytes that a line of base64 holds, which has 76 characters.
const BYTES_PER_LINE: usize = 57;
const UNITS_PER_BYTE: usize = 10;

#[cold]
fn corrupt() -> Error {
    failed("Corrupt ascii-armor")
}

/// The checksum of RFC 4880, section 6.1.
fn crc24(bytes: &[u8]) -> Result<u32> {
    let mut crc = 0xb7_04ce_u32;
    for piece in pieces::of_bytes(bytes, UNITS_PER_BYTE) {
        for byte in piece? {
            crc ^= u32::from(*byte) << 16;
            for _ in 0..8 {
                crc = if crc & 0x80_0000 == 0 { crc << 1 } else { crc << 1 ^ 0x186_4cfb };
            }
            crc &= 0xff_ffff;
        }
    }
    Ok(crc)
}

fn push_base64(out: &mut String, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            out.push(if at <= group.len() { char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]) } else { '=' });
        }
    }
}

/// The bytes of base64 with white space in it.
fn decoded(text: &[u8]) -> Result<Vec<u8>> {
    let (mut out, mut steps) = (Vec::with_capacity(text.len() / 4 * 3), SmallSteps::default());
    let (mut bits, mut digits, mut last) = (0u32, 0, 3);
    for byte in text {
        steps.step(1)?;
        let value = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b'=' if last < 3 => 0,
            b'=' if digits >= 2 => {
                last = digits - 1;
                0
            }
            other => DIGITS.iter().position(|digit| digit == other).ok_or_else(corrupt)?,
        };
        bits = bits << 6 | value as u32;
        digits += 1;
        if digits == 4 {
            out.extend_from_slice(bits.to_be_bytes().get(1..=last).unwrap_or(&[]));
            (bits, digits) = (0, 0);
        }
    }
    if digits == 0 { Ok(out) } else { Err(corrupt()) }
}

/// One half of a header.
fn check_part(part: Option<&str>, what: &str) -> Result<()> {
    let null = || Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, format!("null value not allowed for header {what}"));
    let text = part.ok_or_else(null)?;
    if !pieces::all(text.as_bytes(), |byte| byte.is_ascii())? {
        return Err(invalid(format!("header {what} must not contain non-ASCII characters")));
    }
    if what == "key" && text.contains(": ") {
        return Err(invalid("header key must not contain \": \""));
    }
    if text.contains('\n') {
        return Err(invalid(format!("header {what} must not contain newlines")));
    }
    Ok(())
}

pub(crate) fn encode(bytes: &[u8], headers: &[(Option<&str>, Option<&str>)]) -> Result<String> {
    let mut out = "-----BEGIN PGP MESSAGE-----\n".to_string();
    for (key, value) in headers {
        check_part(*key, "key")?;
        check_part(*value, "value")?;
        out.push_str(&format!("{}: {}\n", key.unwrap_or(""), value.unwrap_or("")));
    }
    out.push('\n');
    let mut steps = SmallSteps::default();
    for line in bytes.chunks(BYTES_PER_LINE) {
        steps.step(UNITS_PER_BYTE * BYTES_PER_LINE)?;
        push_base64(&mut out, line);
        out.push('\n');
    }
    out.push('=');
    push_base64(&mut out, crc24(bytes)?.to_be_bytes().get(1..).unwrap_or(&[]));
    out.push_str("\n-----END PGP MESSAGE-----\n");
    Ok(out)
}

/// Where a line begins that has a mark, and where the next one does.
fn marked_line(text: &[u8], mark: &[u8]) -> Result<(usize, usize)> {
    let is_mark = |at: &usize| {
        text.get(*at..).is_some_and(|rest| rest.starts_with(mark)) && (*at == 0 || text.get(*at - 1) == Some(&b'\n'))
    };
    let mut steps = SmallSteps::default();
    let mut found = None;
    for at in 0..text.len() {
        steps.step(1)?;
        if is_mark(&at) {
            found = Some(at);
            break;
        }
    }
    let start = found.ok_or_else(corrupt)?;
    let mut at = start + mark.len();
    while let Some(byte) = text.get(at).filter(|byte| **byte != b'-') {
        if *byte < b' ' {
            return Err(corrupt());
        }
        at += 1;
    }
    if !text.get(at..).is_some_and(|rest| rest.starts_with(b"-----")) {
        return Err(corrupt());
    }
    at += 5;
    match text.get(at..).unwrap_or(&[]) {
        [] => Ok((start, at)),
        [b'\r', b'\n', ..] => Ok((start, at + 2)),
        [b'\n' | b'\r', ..] => Ok((start, at + 1)),
        _ => Err(corrupt()),
    }
}

/// What is between the marks: the lines of headers, and what is behind the empty line that ends them.
fn parts(text: &[u8]) -> Result<(&[u8], &[u8])> {
    let (_, begin) = marked_line(text, b"-----BEGIN")?;
    let rest = text.get(begin..).unwrap_or(&[]);
    let (end, _) = marked_line(rest, b"-----END")?;
    let inside = rest.get(..end).unwrap_or(&[]);
    let mut at = 0;
    while let Some(line) = inside.get(at..).filter(|line| !line.is_empty() && !matches!(line[0], b'\n' | b'\r')) {
        at += line.iter().position(|byte| *byte == b'\n').ok_or_else(corrupt)? + 1;
    }
    Ok(inside.split_at_checked(at).unwrap_or((inside, &[])))
}

pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>> {
    let (_, body) = parts(text)?;
    let sign = body.iter().rposition(|byte| *byte == b'=').filter(|at| *at > 0).ok_or_else(corrupt)?;
    let checksum = decoded(body.get(sign + 1..sign + 5).ok_or_else(corrupt)?)?;
    // The byte before the sign ends the last line.
    let bytes = decoded(body.get(..sign - 1).unwrap_or(&[]))?;
    if crc24(&bytes)?.to_be_bytes().get(1..) != Some(&checksum) {
        return Err(corrupt());
    }
    Ok(bytes)
}

/// Keys and values of the headers.
pub(crate) fn headers(text: &str) -> Result<Vec<(String, String)>> {
    let (head, _) = parts(text.as_bytes())?;
    let mut out = Vec::new();
    for line in head.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = std::str::from_utf8(line).map_err(|_| corrupt())?;
        let (key, value) = line.split_once(": ").ok_or_else(corrupt)?;
        out.push((key.to_string(), value.to_string()));
    }
    Ok(out)
}
