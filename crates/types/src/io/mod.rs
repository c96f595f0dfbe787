//! Text and binary formats of values.
//!
//! Invariants
//! 1. `input(output(v)) == v` for every value of every type that has both.
//! 2. Output appends to the caller's buffer; integers are written without allocating.

pub(crate) mod array;
pub(crate) mod binary;
pub(crate) mod bytea;
mod columns;
pub(crate) mod digits;
pub(crate) mod float;
pub(crate) mod int;
mod quick;
mod range;

pub use binary::{receive, send, send_sized, send_typmod};
pub use columns::ShownColumn;
pub use quick::WrittenColumn;

use crate::datum::not_decoded;
use crate::network;
use crate::types::{self, HeldAs};
use crate::{Datum, EvalContext, datetime, oids::*, pieces};
use kilndb_base::{Error, Oid, Result, SqlState, shared, sqlstate, work};
use std::io::Write;
use std::sync::Arc;

#[cold]
pub(crate) fn invalid_syntax(type_name: &str, text: &str) -> Error {
    Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type {type_name}: \"{text}\""))
}
#[cold]
pub(crate) fn error(state: SqlState, message: impl Into<String>) -> Error {
    Error::new(state, message)
}
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

/// True for the types held as object identifiers that [`crate::context::ObjectNames`] names.
pub fn is_reg_type(oid: Oid) -> bool {
    types::descriptor(oid).is_some_and(|ty| ty.held_as == HeldAs::NamedOid)
}

/// Text input, typmod applied as PostgreSQL's input functions do.
pub fn input(type_oid: Oid, text: &str, typmod: i32, ctx: &EvalContext) -> Result<Datum> {
    match types::descriptor(type_oid) {
        Some(ty) => (ty.input)(text, typmod, ctx),
        None => input_other(type_oid, text, typmod, ctx),
    }
}
pub(crate) use crate::types::FIRST_USER_TYPE;

/// The type under all domains, and the modifier that a domain gives instead of `typmod`.
fn under_domains(type_oid: Oid, typmod: i32, ctx: &EvalContext) -> (Oid, i32) {
    let mut under = (type_oid, typmod);
    while let Some(base) = ctx.host.under_domain(under.0) {
        under = base;
    }
    under
}
fn input_other(type_oid: Oid, text: &str, typmod: i32, ctx: &EvalContext) -> Result<Datum> {
    let base = under_domains(type_oid, typmod, ctx);
    if base.0 != type_oid {
        let value = input(base.0, text, base.1, ctx)?;
        ctx.host.check_domain(type_oid, &value)?;
        return Ok(value);
    }
    if let Some(value) = ctx.host.enum_value(type_oid, text) {
        return value;
    }
    if let Some(ty) = ctx.host.range_type(type_oid) {
        return if ty.oid == type_oid {
            Ok(range::range_in(ty, text, ctx)?.datum())
        } else {
            Ok(range::multirange_in(ty, text, ctx)?.datum())
        };
    }
    let element = ctx.host.element_type(type_oid);
    if element != 0 {
        return array::array_in(element, text, typmod, ctx);
    }
    if let Some(fields) = ctx.host.composite_fields(type_oid) {
        return array::record_in(type_oid, &fields, text, ctx);
    }
    let name = ctx.host.format_type(type_oid, -1);
    if name.starts_with("any") || matches!(type_oid, TRIGGER | INTERNAL) {
        return Err(Error::unsupported(format!("cannot accept a value of type {name}")));
    }
    Err(Error::unsupported(format!("input of type {name} is not supported")))
}

/// Appends the text form. Never called with NULL.
pub fn output(type_oid: Oid, datum: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    output_typmod(type_oid, -1, datum, out, ctx)
}
/// Like [`output`]; pads char(n) to its declared length.
pub fn output_typmod(type_oid: Oid, typmod: i32, datum: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    match datum {
        Datum::Null => {}
        Datum::Int4(v) => int::write_i64(i64::from(*v), out),
        Datum::Int8(v) => int::write_i64(*v, out),
        Datum::Int2(v) => int::write_i64(i64::from(*v), out),
        Datum::Text(v) => {
            pieces::append_mostly_short(out, v.as_bytes())?;
            let (base, typmod) =
                if type_oid >= FIRST_USER_TYPE { under_domains(type_oid, typmod, ctx) } else { (type_oid, typmod) };
            if base == BPCHAR && typmod >= 4 {
                pad(v, typmod, out);
            }
        }
        Datum::Bool(v) => out.push(if *v { b't' } else { b'f' }),
        Datum::Char(v) => write_char(*v, out),
        Datum::Float8(v) => float::write_f64(*v, ctx.format.extra_float_digits, out),
        Datum::Float4(v) => float::write_f32(*v, ctx.format.extra_float_digits, out),
        Datum::Numeric(v) => v.write(out),
        Datum::Oid(_) | Datum::U64(_) | Datum::Opaque(_) => return output_by_type(type_oid, typmod, datum, out, ctx),
        Datum::Bytea(v) => bytea::write(v, ctx.format.bytea_output_hex, out)?,
        Datum::Uuid(v) => write_uuid(v, out),
        Datum::Jsonb(v) => crate::json::binary::decode(v)?.write(out)?,
        Datum::Tid(block, slot) => write(out, format_args!("({block},{slot})")),
        Datum::Date(v) => datetime::date_out(*v, ctx, out),
        Datum::Time(v) => datetime::time_out(*v, out),
        Datum::TimeTz(t, z) => datetime::timetz_out(*t, *z, out),
        Datum::Timestamp(v) => datetime::timestamp_out(*v, ctx, out)?,
        Datum::TimestampTz(v) => datetime::timestamptz_out(*v, ctx, out)?,
        Datum::Interval(v) => datetime::interval_out(v, ctx.format.interval_style, out),
        Datum::Array(v) => array::array_out(type_oid, v, out, ctx)?,
        Datum::Record(v) => array::record_out(v, out, ctx)?,
        Datum::Stored(_) => return Err(not_decoded()),
        Datum::TsVector(v) => v.write(out),
        Datum::TsQuery(v) => v.write(out),
        Datum::Inet(v) => v.write(out),
        Datum::MacAddr(v) => network::write_mac(v, out),
        Datum::MacAddr8(v) => network::write_mac(v, out),
        Datum::AclItem(v) => v.write(out, ctx),
        Datum::Range(v) => range::range_out(v, out, ctx)?,
        Datum::Multirange(v) => range::multirange_out(v, out, ctx)?,
    }
    Ok(())
}
/// Writes a value that looks as its type wants it, not as its kind of datum does.
fn output_by_type(type_oid: Oid, typmod: i32, datum: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    if let Datum::Opaque(v) = datum {
        return v.ty.output.map_or(Ok(()), |output| output(datum, typmod, out, ctx));
    }
    if type_oid >= FIRST_USER_TYPE {
        if let Datum::U64(v) = datum
            && let Some(label) = ctx.host.enum_label(type_oid, *v)
        {
            out.extend_from_slice(label.as_bytes());
            return Ok(());
        }
        let base = under_domains(type_oid, typmod, ctx).0;
        if base != type_oid {
            return output_typmod(base, typmod, datum, out, ctx);
        }
    }
    if let Some(output) = types::descriptor(type_oid).and_then(|ty| ty.output) {
        return output(datum, typmod, out, ctx);
    }
    match datum {
        Datum::Oid(v) => int::write_i64(i64::from(*v), out),
        Datum::U64(v) => write(out, format_args!("{v}")),
        _ => {}
    }
    Ok(())
}
/// The text form as a string.
pub fn output_string(type_oid: Oid, datum: &Datum, ctx: &EvalContext) -> Result<String> {
    let mut out = Vec::new();
    output(type_oid, datum, &mut out, ctx)?;
    work::step(out.len() / 4)?;
    String::from_utf8(out).map_err(|_| Error::internal("text form is not UTF-8"))
}
pub(crate) fn write(out: &mut Vec<u8>, args: std::fmt::Arguments) {
    // A Vec takes every write.
    let _ = out.write_fmt(args);
}
/// Puts quotes around what was written from `start` on; quotes and backslashes in there are doubled.
fn double_quote(out: &mut Vec<u8>, start: usize) -> Result<()> {
    let text = out.split_off(start);
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut steps = work::SmallSteps::default();
    for b in text {
        steps.step(3)?;
        if matches!(b, b'"' | b'\\') {
            out.push(b);
        }
        out.push(b);
    }
    out.push(b'"');
    Ok(())
}
/// Blanks that char(n) shows after a trimmed value.
pub(crate) fn pad(v: &str, typmod: i32, out: &mut Vec<u8>) {
    let want = (typmod - 4) as usize;
    let have = v.chars().count();
    out.resize(out.len() + want.saturating_sub(have), b' ');
}
/// The type a datum most plausibly has, for functions that take "any" and are not told the type.
pub(crate) fn natural_type(datum: &Datum) -> Oid {
    match datum {
        Datum::Null => UNKNOWN,
        Datum::Bool(_) => BOOL,
        Datum::Char(_) => CHAR,
        Datum::Int2(_) => INT2,
        Datum::Int4(_) => INT4,
        Datum::Int8(_) => INT8,
        Datum::Float4(_) => FLOAT4,
        Datum::Float8(_) => FLOAT8,
        Datum::Oid(_) => OID,
        Datum::Text(_) => TEXT,
        Datum::Bytea(_) => BYTEA,
        Datum::Numeric(_) => NUMERIC,
        Datum::Date(_) => DATE,
        Datum::Time(_) => TIME,
        Datum::TimeTz(..) => TIMETZ,
        Datum::Timestamp(_) => TIMESTAMP,
        Datum::TimestampTz(_) => TIMESTAMPTZ,
        Datum::Interval(_) => INTERVAL,
        Datum::Uuid(_) => UUID,
        Datum::Jsonb(_) => JSONB,
        Datum::Tid(..) => TID,
        Datum::U64(_) => XID8,
        Datum::Array(_) => ANYARRAY,
        Datum::Record(r) => r.type_oid,
        Datum::Stored(_) => UNKNOWN,
        Datum::Opaque(v) => v.ty.oid,
        Datum::TsVector(_) => TSVECTOR,
        Datum::TsQuery(_) => TSQUERY,
        Datum::Inet(v) => {
            if v.is_cidr {
                CIDR
            } else {
                INET
            }
        }
        Datum::MacAddr(_) => MACADDR,
        Datum::MacAddr8(_) => MACADDR8,
        Datum::AclItem(_) => ACLITEM,
        Datum::Range(v) => v.ty.oid,
        Datum::Multirange(v) => v.ty.multirange,
    }
}

/// bool's input: unique prefixes of true, false, yes, no; on, off, 1, 0.
pub(crate) fn parse_bool(text: &str) -> Result<bool> {
    let t = trim(text);
    // No word is longer, and a long text is not copied.
    let t = t.get(..6).unwrap_or(t).to_ascii_lowercase();
    let prefix = |word: &str| !t.is_empty() && word.starts_with(t.as_str());
    if prefix("true") || prefix("yes") || t == "on" || t == "1" {
        return Ok(true);
    }
    if prefix("false") || prefix("no") || t == "off" || t == "of" || t == "0" {
        return Ok(false);
    }
    Err(invalid_syntax("boolean", text))
}
/// "char": one byte, or a backslash and three octal digits for a byte beyond ASCII.
pub(crate) fn parse_char(text: &str) -> u8 {
    let b = text.as_bytes();
    match b {
        [b'\\', x @ b'0'..=b'3', y @ b'0'..=b'7', z @ b'0'..=b'7'] => (x - b'0') << 6 | (y - b'0') << 3 | (z - b'0'),
        [first, ..] => *first,
        [] => 0,
    }
}
pub(crate) fn write_char(v: u8, out: &mut Vec<u8>) {
    match v {
        0 => {}
        1..=127 => out.push(v),
        _ => write(out, format_args!("\\{v:03o}")),
    }
}
pub(crate) fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let bad = || invalid_syntax("uuid", text);
    let mut b = text.as_bytes();
    if b.first() == Some(&b'{') {
        b = b[1..].strip_suffix(b"}").ok_or_else(bad)?;
    }
    let mut r = [0u8; 16];
    let mut at = 0;
    for (i, slot) in r.iter_mut().enumerate() {
        let hex = |c: Option<&u8>| c.and_then(|c| (*c as char).to_digit(16)).ok_or_else(bad);
        *slot = (hex(b.get(at))? << 4 | hex(b.get(at + 1))?) as u8;
        at += 2;
        // A dash may follow every group of four digits.
        if i % 2 == 1 && i < 15 && b.get(at) == Some(&b'-') {
            at += 1;
        }
    }
    if at != b.len() { Err(bad()) } else { Ok(r) }
}
fn write_uuid(v: &[u8; 16], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (i, b) in v.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.push(HEX[usize::from(b >> 4)]);
        out.push(HEX[usize::from(b & 15)]);
    }
}
pub(crate) fn parse_tid(text: &str) -> Result<Datum> {
    let parts = || {
        let (block, slot) = text.trim_start().strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
        // A negative block wraps, as strtoul does.
        let block: i64 = block.parse().ok()?;
        let block = u32::try_from(block).or_else(|_| i32::try_from(block).map(|v| v as u32)).ok()?;
        Some(Datum::Tid(block, slot.parse().ok()?))
    };
    parts().ok_or_else(|| invalid_syntax("tid", text))
}
pub(crate) fn parse_lsn(text: &str) -> Result<u64> {
    let parts = || {
        let (high, low) = text.split_once('/')?;
        let hex = |s: &str| {
            let ok = (1..=8).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_hexdigit());
            if ok { u64::from_str_radix(s, 16).ok() } else { None }
        };
        Some(hex(high)? << 32 | hex(low)?)
    };
    parts().ok_or_else(|| invalid_syntax("pg_lsn", text))
}
