//! Binary formats, as the protocol carries them (big-endian).

use super::*;
use crate::datum::not_decoded;
use crate::{Array, Record};

#[cold]
fn bad_format() -> Error {
    error(sqlstate::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}
#[cold]
fn short() -> Error {
    error(sqlstate::PROTOCOL_VIOLATION, "insufficient data left in message")
}
/// Binary input.
pub fn receive(type_oid: Oid, bytes: &[u8], typmod: i32, ctx: &EvalContext) -> Result<Datum> {
    match types::descriptor(type_oid) {
        Some(ty) => (ty.receive)(bytes, typmod, ctx),
        None => receive_other(type_oid, bytes, typmod, ctx),
    }
}
fn receive_other(type_oid: Oid, bytes: &[u8], typmod: i32, ctx: &EvalContext) -> Result<Datum> {
    let base = under_domains(type_oid, typmod, ctx);
    if base.0 != type_oid {
        let value = receive(base.0, bytes, base.1, ctx)?;
        ctx.host.check_domain(type_oid, &value)?;
        return Ok(value);
    }
    if type_oid >= FIRST_USER_TYPE
        && let Some(value) = ctx.host.enum_value(type_oid, std::str::from_utf8(bytes).unwrap_or(""))
    {
        return value;
    }
    if let Some(ty) = ctx.host.range_type(type_oid) {
        return if ty.oid == type_oid {
            Ok(range::range_receive(ty, bytes, ctx)?.datum())
        } else {
            Ok(range::multirange_receive(ty, bytes, ctx)?.datum())
        };
    }
    let element = ctx.host.element_type(type_oid);
    if element != 0 {
        return receive_array(element, bytes, typmod, ctx);
    }
    if let Some(fields) = ctx.host.composite_fields(type_oid) {
        return receive_record(type_oid, &fields, bytes, ctx);
    }
    Err(Error::unsupported(format!("binary input of type {} is not supported", ctx.host.format_type(type_oid, -1))))
}

struct BinaryCursor<'a>(&'a [u8]);
impl<'a> BinaryCursor<'a> {
    fn i32(&mut self) -> Result<i32> {
        let (head, rest) = self.0.split_first_chunk::<4>().ok_or_else(short)?;
        self.0 = rest;
        Ok(i32::from_be_bytes(*head))
    }
    fn value(&mut self) -> Result<Option<&'a [u8]>> {
        let len = self.i32()?;
        if len == -1 {
            return Ok(None);
        }
        let len = usize::try_from(len).map_err(|_| short())?;
        let (head, rest) = self.0.split_at_checked(len).ok_or_else(short)?;
        self.0 = rest;
        Ok(Some(head))
    }
}
fn receive_array(element: Oid, bytes: &[u8], typmod: i32, ctx: &EvalContext) -> Result<Datum> {
    let mut c = BinaryCursor(bytes);
    let ndims = c.i32()?;
    if !(0..=6).contains(&ndims) {
        return Err(error(sqlstate::INVALID_BINARY_REPRESENTATION, format!("invalid number of dimensions: {ndims}")));
    }
    let flags = c.i32()?;
    if flags != 0 && flags != 1 {
        return Err(error(sqlstate::INVALID_BINARY_REPRESENTATION, "invalid array flags"));
    }
    let sent = c.i32()? as Oid;
    if sent != element {
        return Err(error(
            sqlstate::DATATYPE_MISMATCH,
            format!(
                "binary data has array element type {sent} ({}) instead of expected {element} ({})",
                ctx.host.format_type(sent, -1),
                ctx.host.format_type(element, -1)
            ),
        ));
    }
    let mut dims = Vec::new();
    let mut count = 1usize;
    for _ in 0..ndims {
        let len = u32::try_from(c.i32()?).map_err(|_| bad_format())?;
        let low = c.i32()?;
        if low.checked_add_unsigned(len).is_none() {
            return Err(error(sqlstate::PROGRAM_LIMIT_EXCEEDED, "array lower bound is too large"));
        }
        count = count.saturating_mul(len as usize);
        dims.push((low, len));
    }
    if ndims == 0 {
        count = 0;
    }
    if count > c.0.len() / 4 {
        return Err(short());
    }
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        work::step(20)?;
        elements.push(match c.value()? {
            Some(b) => receive(element, b, typmod, ctx)?,
            None => Datum::Null,
        });
    }
    if count == 0 {
        dims.clear();
    }
    Ok(Datum::Array(Arc::new(Array { element_type: element, dims, elements })))
}
/// Reads an int2vector or oidvector: one dimension that begins at 0, and no nulls. An empty array has no dimension.
pub(crate) fn receive_vector(element: Oid, name: &str, bytes: &[u8], ctx: &EvalContext) -> Result<Datum> {
    let datum = receive_array(element, bytes, -1, ctx)?;
    match &datum {
        Datum::Array(a) if matches!(a.dims[..], [(0, _)]) && !a.elements.iter().any(Datum::is_null) => Ok(datum),
        _ => Err(error(sqlstate::INVALID_BINARY_REPRESENTATION, format!("invalid {name} data"))),
    }
}
fn receive_record(type_oid: Oid, fields: &[(String, Oid, i32)], bytes: &[u8], ctx: &EvalContext) -> Result<Datum> {
    let mut c = BinaryCursor(bytes);
    let count = c.i32()?;
    if count as usize != fields.len() {
        return Err(error(
            sqlstate::DATATYPE_MISMATCH,
            format!("wrong number of columns: {count}, expected {}", fields.len()),
        ));
    }
    let mut values = Vec::with_capacity(fields.len());
    for (_, oid, typmod) in fields {
        let sent = c.i32()? as Oid;
        if sent != *oid {
            return Err(error(
                sqlstate::DATATYPE_MISMATCH,
                format!("binary data has type {sent} instead of expected {oid} in record column"),
            ));
        }
        let v = match c.value()? {
            Some(b) => receive(*oid, b, *typmod, ctx)?,
            None => Datum::Null,
        };
        values.push((*oid, v));
    }
    Ok(Datum::Record(Arc::new(Record { type_oid, fields: values, names: None })))
}

/// Appends the binary form. Never called with NULL.
pub fn send(type_oid: Oid, datum: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    send_typmod(type_oid, -1, datum, out, ctx)
}
/// Like [`send`]; pads char(n) to its declared length.
pub fn send_typmod(type_oid: Oid, typmod: i32, datum: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    match datum {
        Datum::Null => {}
        Datum::Int4(v) | Datum::Date(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => {
            out.extend_from_slice(&v.to_be_bytes());
        }
        Datum::Int2(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Bool(v) => out.push(u8::from(*v)),
        Datum::Char(v) => out.push(*v),
        Datum::Float4(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Float8(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Oid(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::U64(v) => match ctx.host.enum_label(type_oid, *v).filter(|_| type_oid >= FIRST_USER_TYPE) {
            Some(label) => out.extend_from_slice(label.as_bytes()),
            None => out.extend_from_slice(&v.to_be_bytes()),
        },
        Datum::Text(v) => match types::descriptor(type_oid).and_then(|ty| ty.send) {
            Some(send) => send(datum, typmod, out, ctx)?,
            None => pieces::append_mostly_short(out, v.as_bytes())?,
        },
        Datum::Opaque(v) => v.ty.send.map_or(Ok(()), |send| send(datum, typmod, out, ctx))?,
        Datum::Bytea(v) => pieces::append_mostly_short(out, v)?,
        Datum::Stored(_) => return Err(not_decoded()),
        Datum::TsVector(v) => v.send(out),
        Datum::TsQuery(v) => v.send(out),
        Datum::Inet(v) => v.send(out),
        Datum::MacAddr(v) => out.extend_from_slice(v),
        Datum::MacAddr8(v) => out.extend_from_slice(v),
        Datum::AclItem(_) => {
            return Err(error(sqlstate::UNDEFINED_FUNCTION, "no binary output function available for type aclitem"));
        }
        Datum::Range(v) => range::range_send(v, out, ctx)?,
        Datum::Multirange(v) => range::multirange_send(v, out, ctx)?,
        Datum::Numeric(v) => v.send(out),
        Datum::TimeTz(t, z) => {
            out.extend_from_slice(&t.to_be_bytes());
            out.extend_from_slice(&z.to_be_bytes());
        }
        Datum::Interval(v) => {
            out.extend_from_slice(&v.micros.to_be_bytes());
            out.extend_from_slice(&v.days.to_be_bytes());
            out.extend_from_slice(&v.months.to_be_bytes());
        }
        Datum::Uuid(v) => out.extend_from_slice(v),
        Datum::Jsonb(v) => {
            out.push(1);
            crate::json::binary::decode(v)?.write(out)?;
        }
        Datum::Tid(block, slot) => {
            out.extend_from_slice(&block.to_be_bytes());
            out.extend_from_slice(&slot.to_be_bytes());
        }
        Datum::Array(a) => {
            out.extend_from_slice(&(a.dims.len() as i32).to_be_bytes());
            out.extend_from_slice(&i32::from(a.elements.iter().any(Datum::is_null)).to_be_bytes());
            out.extend_from_slice(&a.element_type.to_be_bytes());
            for (low, len) in &a.dims {
                out.extend_from_slice(&len.to_be_bytes());
                out.extend_from_slice(&low.to_be_bytes());
            }
            for e in work::steps(&a.elements, 20) {
                send_sized(a.element_type, -1, e?, out, ctx)?;
            }
        }
        Datum::Record(r) => {
            out.extend_from_slice(&(r.fields.len() as i32).to_be_bytes());
            for (oid, f) in &r.fields {
                out.extend_from_slice(&oid.to_be_bytes());
                send_sized(*oid, -1, f, out, ctx)?;
            }
        }
    }
    Ok(())
}
/// Appends the binary form behind its length of 32 bits, -1 alone for NULL.
pub fn send_sized(type_oid: Oid, typmod: i32, v: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    if v.is_null() {
        out.extend_from_slice(&(-1i32).to_be_bytes());
        return Ok(());
    }
    put_sized(out, |out| send_typmod(type_oid, typmod, v, out, ctx))
}
/// Lets `write` append bytes behind their length of 32 bits.
#[inline]
pub(super) fn put_sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}
