//! SQL values to JSON.
//!
//! Invariants
//! 1. The type beside the value decides: one variant of [`Datum`] holds values of several types.

use super::value::{self, JsonValue, escape};
use super::{binary, parse};
use crate::context::DateStyle;
use crate::numeric::Numeric;
use crate::{Datum, EvalContext, Record, io, oids::*, pieces};
use kilndb_base::{Error, Oid, Result, sqlstate, work};

/// The type under all domains.
pub fn base_type(ty: Oid, ctx: &EvalContext) -> Oid {
    let mut ty = ty;
    while let Some((under, _)) = ctx.host.under_domain(ty) {
        ty = under;
    }
    ty
}

fn is_number(ty: Oid) -> bool {
    matches!(ty, INT2 | INT4 | INT8 | FLOAT4 | FLOAT8 | NUMERIC)
}

/// Names of a composite value's fields.
pub(crate) fn field_names(r: &Record, ctx: &EvalContext) -> Vec<String> {
    if let Some(names) = r.names.as_ref().filter(|n| n.len() == r.fields.len()) {
        return names.to_vec();
    }
    let known = if r.type_oid == RECORD { None } else { ctx.host.composite_fields(base_type(r.type_oid, ctx)) };
    match known {
        Some(list) if list.len() == r.fields.len() => list.into_iter().map(|f| f.0).collect(),
        _ => (1..=r.fields.len()).map(|i| format!("f{i}")).collect(),
    }
}

/// Dates and times as ISO 8601 has them, whatever DateStyle says.
fn datetime_text(ty: Oid, d: &Datum, ctx: &EvalContext) -> Result<String> {
    let mut format = ctx.format.clone();
    format.date_style = DateStyle::Iso;
    let iso = EvalContext { format: &format, host: ctx.host, random_state: ctx.random_state, ..*ctx };
    let text = io::output_string(ty, d, &iso)?;
    let Some((date, rest)) = text.split_once(' ').filter(|_| ty != DATE) else { return Ok(text) };
    let (time, era) = rest.split_once(' ').map_or((rest, ""), |(t, e)| (t, e));
    let hours_only = ty == TIMESTAMPTZ && time.rfind(['+', '-']).is_some_and(|at| !time[at..].contains(':'));
    let zone = if hours_only { ":00" } else { "" };
    let era = if era.is_empty() { String::new() } else { format!(" {era}") };
    Ok(format!("{date}T{time}{zone}{era}"))
}

/// Whether the text is a number of JSON.
pub(crate) fn is_json_number(text: &str) -> bool {
    text.bytes().last().is_some_and(|c| c.is_ascii_digit())
        && !text.contains([' ', '\n', '\t', '"'])
        && parse::validate(text).is_ok()
}

#[cold]
fn bad_key() -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, "key value must be scalar, not array, composite, or json")
}

/// Text of an element: what json functions put in place of the value.
pub(crate) fn write_json(ty: Oid, d: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    write_datum(ty, d, false, out, ctx)
}
/// Writes a value as the key of an object.
pub(crate) fn write_json_key(ty: Oid, d: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    write_datum(ty, d, true, out, ctx)
}

fn write_datum(ty: Oid, d: &Datum, as_key: bool, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    let ty = base_type(ty, ctx);
    let quoted_key = |text: &str, out: &mut Vec<u8>| escape(text, out);
    if let (Datum::Opaque(v), false) = (d, as_key)
        && let Some(json) = v.ty.json
    {
        return pieces::append(out, json(d)?.as_bytes());
    }
    match d {
        Datum::Opaque(v) if as_key && v.ty.json.is_some() => return Err(bad_key()),
        Datum::Null => out.extend_from_slice(b"null"),
        Datum::Array(_) | Datum::Record(_) | Datum::Jsonb(_) if as_key && !matches!(ty, INT2VECTOR | OIDVECTOR) => {
            return Err(bad_key());
        }
        Datum::Text(_) if as_key && ty == JSON => return Err(bad_key()),
        Datum::Array(a) if !matches!(ty, INT2VECTOR | OIDVECTOR) => {
            write_array(a.element_type, &a.dims, &a.elements, false, out, ctx)?
        }
        Datum::Record(r) => write_record(r, false, out, ctx)?,
        Datum::Jsonb(b) => binary::decode(b)?.write(out)?,
        Datum::Text(t) if ty == JSON => pieces::append(out, t.as_bytes())?,
        Datum::Bool(b) if as_key => quoted_key(if *b { "true" } else { "false" }, out),
        Datum::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        d if matches!(ty, DATE | TIMESTAMP | TIMESTAMPTZ) => escape(&datetime_text(ty, d, ctx)?, out),
        d => {
            let text = io::output_string(ty, d, ctx)?;
            if is_number(ty) && !as_key && is_json_number(&text) {
                out.extend_from_slice(text.as_bytes());
            } else {
                escape(&text, out);
            }
        }
    }
    Ok(())
}

/// An array's text; `lines`: an element on each line.
pub(crate) fn write_array(
    element: Oid,
    dims: &[(i32, u32)],
    list: &[Datum],
    lines: bool,
    out: &mut Vec<u8>,
    ctx: &EvalContext,
) -> Result<()> {
    let separator: &[u8] = if lines { b",\n " } else { b"," };
    out.push(b'[');
    if let Some((first, rest)) = dims.split_first() {
        let size = list.len() / (first.1 as usize).max(1);
        for (i, part) in list.chunks(size.max(1)).enumerate() {
            work::step(60)?;
            if i > 0 {
                out.extend_from_slice(separator);
            }
            match part {
                [one] if rest.is_empty() => write_json(element, one, out, ctx)?,
                part => write_array(element, rest, part, false, out, ctx)?,
            }
        }
    }
    out.push(b']');
    Ok(())
}
pub(crate) fn write_record(r: &Record, lines: bool, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    let separator: &[u8] = if lines { b",\n " } else { b"," };
    out.push(b'{');
    for (i, (name, (ty, v))) in field_names(r, ctx).iter().zip(&r.fields).enumerate() {
        if i > 0 {
            out.extend_from_slice(separator);
        }
        escape(name, out);
        out.push(b':');
        write_json(*ty, v, out, ctx)?;
    }
    out.push(b'}');
    Ok(())
}

/// The value as jsonb.
pub(crate) fn to_value(ty: Oid, d: &Datum, ctx: &EvalContext) -> Result<JsonValue> {
    let ty = base_type(ty, ctx);
    if let Datum::Opaque(v) = d
        && let Some(json) = v.ty.json
    {
        return JsonValue::parse(&json(d)?);
    }
    Ok(match d {
        Datum::Null => JsonValue::Null,
        Datum::Array(a) if !matches!(ty, INT2VECTOR | OIDVECTOR) => {
            array_value(a.element_type, &a.dims, &a.elements, ctx)?
        }
        Datum::Record(r) => {
            let pairs = field_names(r, ctx).into_iter().zip(&r.fields);
            value::object(pairs.map(|(name, (ty, v))| Ok((name, to_value(*ty, v, ctx)?))).collect::<Result<_>>()?)?
        }
        Datum::Jsonb(b) => binary::decode(b)?,
        Datum::Text(t) if ty == JSON => JsonValue::parse(t)?,
        Datum::Bool(b) => JsonValue::Bool(*b),
        Datum::Numeric(n) if n.is_finite() => JsonValue::Number(n.clone()),
        d if matches!(ty, DATE | TIMESTAMP | TIMESTAMPTZ) => JsonValue::String(datetime_text(ty, d, ctx)?),
        d => {
            let text = io::output_string(ty, d, ctx)?;
            match is_number(ty).then(|| Numeric::parse(&text)) {
                Some(Ok(n)) if n.is_finite() => JsonValue::Number(n),
                _ => JsonValue::String(text),
            }
        }
    })
}
fn array_value(element: Oid, dims: &[(i32, u32)], list: &[Datum], ctx: &EvalContext) -> Result<JsonValue> {
    let Some((first, rest)) = dims.split_first() else { return Ok(JsonValue::Array(Vec::new())) };
    let size = list.len() / (first.1 as usize).max(1);
    let parts = list.chunks(size.max(1)).map(|part| match part {
        [one] if rest.is_empty() => to_value(element, one, ctx),
        part => array_value(element, rest, part, ctx),
    });
    Ok(JsonValue::Array(parts.collect::<Result<_>>()?))
}
/// The value as a key of jsonb.
pub(crate) fn to_key(ty: Oid, d: &Datum, ctx: &EvalContext) -> Result<String> {
    let ty = base_type(ty, ctx);
    match d {
        Datum::Array(_) | Datum::Record(_) | Datum::Jsonb(_) if !matches!(ty, INT2VECTOR | OIDVECTOR) => Err(bad_key()),
        Datum::Opaque(v) if v.ty.json.is_some() => Err(bad_key()),
        Datum::Text(_) if ty == JSON => Err(bad_key()),
        Datum::Text(t) if ty != BPCHAR => Ok(t.to_string()),
        Datum::Bool(b) => Ok(if *b { "true" } else { "false" }.to_string()),
        d if matches!(ty, DATE | TIMESTAMP | TIMESTAMPTZ) => datetime_text(ty, d, ctx),
        d => io::output_string(ty, d, ctx),
    }
}
