//! Functions of the extension hstore. What a value is, is said in [`crate::hstore`].

use super::json::typed;
use super::rows::{FunctionRows, RowsCall};
use super::string::text_array;
use crate::hstore::{self, HSTORE, Hstore, Pair, key_order, keys_of, made, text_datum};
use crate::json::{self, JsonValue, convert, populate};
use crate::numeric::Numeric;
use crate::oids::{RECORD, TEXT};
use crate::{Array, Datum, EvalContext, Record, io};
use kilndb_base::{Error, Result, sqlstate, work};
use std::cmp::Ordering;
use std::sync::Arc;

#[cold]
fn wrong_subscripts(message: &str) -> Error {
    Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, message)
}
#[cold]
fn null_key() -> Error {
    Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "null value not allowed for hstore key")
}

fn element_text(element: &Datum) -> Option<&str> {
    match element {
        Datum::Text(text) => Some(text),
        _ => None,
    }
}

/// The pairs of which `keep` says so.
fn kept(value: &Datum, mut keep: impl FnMut(&Pair<'_>) -> Result<bool>) -> Result<Datum> {
    let mut pairs = Hstore::of(value)?.pairs()?;
    let mut left = Vec::with_capacity(pairs.len());
    for pair in pairs.drain(..) {
        if keep(&pair)? {
            left.push(pair);
        }
    }
    made(&left)
}

/// Pairs of both values; of those with one key the second's.
fn joined(a: &Datum, b: &Datum) -> Result<Datum> {
    let (a, b) = (Hstore::of(a)?.pairs()?, Hstore::of(b)?.pairs()?);
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut left, mut right) = (a.into_iter().peekable(), b.into_iter().peekable());
    loop {
        work::step(5)?;
        let order = match (left.peek(), right.peek()) {
            (None, None) => return made(&out),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => key_order(a.0, b.0),
        };
        if order.is_le() {
            out.extend(left.next().filter(|_| order.is_lt()));
        }
        if order.is_ge() {
            out.extend(right.next());
        }
    }
}

/// The values of the keys of an array, in its shape.
fn slice_array(value: &Datum, keys: &Array) -> Result<Datum> {
    let value = Hstore::of(value)?;
    let mut elements = Vec::with_capacity(keys.elements.len());
    for key in work::steps(&keys.elements, 10) {
        let found = element_text(key?).map(|key| value.find(key)).transpose()?;
        elements.push(text_datum(found.flatten().flatten()));
    }
    let dims = if elements.is_empty() { Vec::new() } else { keys.dims.clone() };
    Ok(Datum::Array(Arc::new(Array { element_type: TEXT, dims, elements })))
}
fn slice(value: &Datum, keys: &Array) -> Result<Datum> {
    let value = Hstore::of(value)?;
    let mut pairs = Vec::new();
    for key in keys_of(keys)? {
        pairs.extend(value.find(key)?.map(|found| (key, found)));
    }
    made(&pairs)
}

fn exists_any(value: &Datum, keys: &Array) -> Result<bool> {
    let value = Hstore::of(value)?;
    for key in work::steps(keys.elements.iter().filter_map(element_text), 10) {
        if value.find(key?)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
fn exists_all(value: &Datum, keys: &Array) -> Result<bool> {
    let value = Hstore::of(value)?;
    for key in work::steps(keys.elements.iter().filter_map(element_text), 10) {
        if value.find(key?)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Keys and values one after another, two to a row if there are two dimensions.
fn flat(value: &Datum, has_rows: bool) -> Result<Datum> {
    let value = Hstore::of(value)?;
    let elements: Vec<Datum> =
        value.pairs()?.into_iter().flat_map(|(key, value)| [Datum::text(key), text_datum(value)]).collect();
    if elements.is_empty() || !has_rows {
        return Ok(text_array(elements));
    }
    let dims = vec![(1, value.len() as u32), (1, 2)];
    Ok(Datum::Array(Arc::new(Array { element_type: TEXT, dims, elements })))
}

/// A value that looks like a boolean or a number is one.
fn guessed(text: &str) -> Result<JsonValue> {
    Ok(match text {
        "t" => JsonValue::Bool(true),
        "f" => JsonValue::Bool(false),
        text if convert::is_json_number(text) => JsonValue::Number(Numeric::parse(text)?),
        text => JsonValue::String(text.to_string()),
    })
}
pub(crate) fn json_text(value: &Datum, is_loose: bool) -> Result<String> {
    let mut out = b"{".to_vec();
    for (at, (key, value)) in Hstore::of(value)?.pairs()?.into_iter().enumerate() {
        work::step(20)?;
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        json::value::escape(key, &mut out);
        out.extend_from_slice(b": ");
        match value {
            None => out.extend_from_slice(b"null"),
            Some("t") if is_loose => out.extend_from_slice(b"true"),
            Some("f") if is_loose => out.extend_from_slice(b"false"),
            // A number stays as it is written.
            Some(text) if is_loose && convert::is_json_number(text) => out.extend_from_slice(text.as_bytes()),
            Some(text) => json::value::escape(text, &mut out),
        }
    }
    out.push(b'}');
    String::from_utf8(out).map_err(|_| Error::internal("JSON text is not UTF-8"))
}
fn jsonb(value: &Datum, is_loose: bool) -> Result<Datum> {
    let mut pairs = Vec::new();
    for (key, value) in Hstore::of(value)?.pairs()? {
        pairs.push((
            key.to_string(),
            match value {
                None => JsonValue::Null,
                Some(text) if is_loose => guessed(text)?,
                Some(text) => JsonValue::String(text.to_string()),
            },
        ));
    }
    json::binary::datum(&json::value::object(pairs)?)
}

scalars! {
    fn hstore_in(c; v: text) = io::input(HSTORE, v, -1, c)?;
    fn hstore_out(c; v: any) = io::output_string(HSTORE, v, c)?;
    fn hstore_send(c; v: any) = { let mut out = Vec::new(); io::binary::send(HSTORE, v, &mut out, c)?; out };
    /// Values have been of one version only.
    fn hstore_version_diag(_c; v: any) = { Hstore::of(v)?; 2i32 };
    fn hstore_fetchval(_c; h: any, key: text) = text_datum(Hstore::of(h)?.find(key)?.flatten());
    fn hstore_slice_to_array(_c; h: any, keys: array) = slice_array(h, keys)?;
    fn hstore_slice_to_hstore(_c; h: any, keys: array) = slice(h, keys)?;
    fn hstore_exists(_c; h: any, key: text) = Hstore::of(h)?.find(key)?.is_some();
    fn hstore_exists_any(_c; h: any, keys: array) = exists_any(h, keys)?;
    fn hstore_exists_all(_c; h: any, keys: array) = exists_all(h, keys)?;
    fn hstore_defined(_c; h: any, key: text) = Hstore::of(h)?.find(key)?.flatten().is_some();
    fn hstore_delete(_c; h: any, key: text) = kept(h, |pair| Ok(pair.0 != key))?;
    fn hstore_delete_array(_c; h: any, keys: array) = {
        let keys = keys_of(keys)?;
        kept(h, |pair| { work::step(10)?; Ok(keys.binary_search_by(|key| key_order(key, pair.0)).is_err()) })?
    };
    fn hstore_delete_hstore(_c; h: any, other: any) = {
        let other = Hstore::of(other)?;
        kept(h, |pair| { work::step(10)?; Ok(other.find(pair.0)? != Some(pair.1)) })?
    };
    fn hstore_concat(_c; a: any, b: any) = joined(a, b)?;
    fn hstore_contains(_c; a: any, b: any) = Hstore::of(a)?.contains(&Hstore::of(b)?)?;
    fn hstore_contained(_c; a: any, b: any) = Hstore::of(b)?.contains(&Hstore::of(a)?)?;
    fn hstore_to_json(_c; h: any) = json_text(h, false)?;
    fn hstore_to_json_loose(_c; h: any) = json_text(h, true)?;
    fn hstore_to_jsonb(_c; h: any) = jsonb(h, false)?;
    fn hstore_to_jsonb_loose(_c; h: any) = jsonb(h, true)?;
    fn hstore_to_array(_c; h: any) = flat(h, false)?;
    fn hstore_to_matrix(_c; h: any) = flat(h, true)?;
    fn hstore_akeys(_c; h: any) = text_array(keys(h)?);
    fn hstore_avals(_c; h: any) = text_array(values(h)?);
    fn hstore_from_array(_c; list: array) = from_array(list)?;
}

fn keys(h: &Datum) -> Result<Vec<Datum>> {
    Ok(Hstore::of(h)?.pairs()?.into_iter().map(|pair| Datum::text(pair.0)).collect())
}
fn values(h: &Datum) -> Result<Vec<Datum>> {
    Ok(Hstore::of(h)?.pairs()?.into_iter().map(|pair| text_datum(pair.1)).collect())
}

/// A key with its value.
pub(crate) fn hstore_from_text(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(Datum::Text(key)) = args.first() else { return Ok(Datum::Null) };
    made(&[(&**key, args.get(1).and_then(element_text))])
}

fn from_elements<'a>(pairs: impl Iterator<Item = (&'a Datum, Option<&'a Datum>)>) -> Result<Datum> {
    let mut list = Vec::new();
    for pair in work::steps(pairs, 10) {
        let (key, value) = pair?;
        list.push((element_text(key).ok_or_else(null_key)?, value.and_then(element_text)));
    }
    hstore::datum(list)
}
fn from_array(list: &Array) -> Result<Datum> {
    match list.dims.as_slice() {
        [] => return made(&[]),
        [(_, len)] if len % 2 == 1 => return Err(wrong_subscripts("array must have even number of elements")),
        [_] => {}
        [_, (_, 2)] => {}
        [_, _] => return Err(wrong_subscripts("array must have two columns")),
        _ => return Err(wrong_subscripts("wrong number of array subscripts")),
    }
    from_elements(list.elements.chunks_exact(2).map(|pair| (&pair[0], Some(&pair[1]))))
}
/// Keys and their values, in two arrays.
pub(crate) fn hstore_from_arrays(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(Datum::Array(keys)) = args.first() else { return Ok(Datum::Null) };
    if keys.dims.len() > 1 {
        return Err(wrong_subscripts("wrong number of array subscripts"));
    }
    let Some(Datum::Array(values)) = args.get(1) else {
        return from_elements(keys.elements.iter().map(|key| (key, None)));
    };
    if values.dims.len() > 1 {
        return Err(wrong_subscripts("wrong number of array subscripts"));
    }
    if keys.dims != values.dims {
        return Err(wrong_subscripts("arrays must have same bounds"));
    }
    from_elements(keys.elements.iter().zip(values.elements.iter().map(Some)))
}

#[cold]
fn unknown_row() -> Error {
    Error::new(sqlstate::WRONG_OBJECT_TYPE, "record type has not been registered")
}

/// The names and texts of a row's fields.
pub(crate) fn hstore_from_record(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some((ty, row)) = typed(args)?.and_then(|list| list.into_iter().next()) else { return Err(unknown_row()) };
    let fields = populate::fields_of(ty, &row, ctx).ok_or_else(unknown_row)?;
    let mut pairs = Vec::with_capacity(fields.len());
    for (at, (name, _, typmod)) in fields.into_iter().enumerate() {
        let field = match &row {
            Datum::Record(r) => r.fields.get(at).filter(|(_, value)| !value.is_null()),
            _ => None,
        };
        let mut text = Vec::new();
        if let Some((ty, value)) = field {
            io::output_typmod(*ty, typmod, value, &mut text, ctx)?;
        }
        let text = String::from_utf8(text).map_err(|_| Error::internal("text form is not UTF-8"))?;
        pairs.push((name, field.map(|_| text)));
    }
    hstore::datum(pairs)
}

/// A row with the fields that the second argument has keys for.
pub(crate) fn hstore_populate_record(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let list = typed(args)?.unwrap_or_default();
    let [(ty, base), (_, pairs)] = list.as_slice() else {
        return Err(Error::internal("populate_record wants two arguments"));
    };
    let under = convert::base_type(*ty, ctx);
    if under != RECORD && ctx.host.composite_fields(under).is_none() {
        return Err(Error::new(sqlstate::DATATYPE_MISMATCH, "first argument must be a rowtype"));
    }
    if pairs.is_null() {
        return Ok(base.clone());
    }
    let pairs = Hstore::of(pairs)?;
    let old = if let Datum::Record(r) = base { Some(r) } else { None };
    if pairs.len() == 0 && old.is_some() {
        return Ok(base.clone());
    }
    let fields = populate::fields_of(*ty, base, ctx).ok_or_else(unknown_row)?;
    let mut out = Vec::with_capacity(fields.len());
    for (at, (name, ty, typmod)) in fields.iter().enumerate() {
        let value = match (pairs.find(name)?, old) {
            (None, Some(old)) => old.fields.get(at).map(|f| f.1.clone()).unwrap_or_default(),
            (Some(Some(text)), _) => io::input(*ty, text, *typmod, ctx)?,
            (None | Some(None), _) => {
                if ctx.host.under_domain(*ty).is_some() {
                    ctx.host.check_domain(*ty, &Datum::Null)?;
                }
                Datum::Null
            }
        };
        out.push((*ty, value));
    }
    let names = (under == RECORD).then(|| fields.iter().map(|f| f.0.clone()).collect());
    let row = Datum::Record(Arc::new(Record { type_oid: under, fields: out, names }));
    if under != *ty {
        ctx.host.check_domain(*ty, &row)?;
    }
    Ok(row)
}

fn argument<'a>(call: &'a RowsCall<'_>) -> Result<&'a Datum> {
    super::get::arg(&call.args, 0)
}
pub(crate) fn hstore_skeys(call: RowsCall<'_>) -> Result<FunctionRows> {
    keys(argument(&call)?).map(FunctionRows::list)
}
pub(crate) fn hstore_svals(call: RowsCall<'_>) -> Result<FunctionRows> {
    values(argument(&call)?).map(FunctionRows::list)
}
pub(crate) fn hstore_each(call: RowsCall<'_>) -> Result<FunctionRows> {
    let pairs = Hstore::of(argument(&call)?)?.pairs()?;
    let rows = pairs.into_iter().map(|(key, value)| vec![Datum::text(key), text_datum(value)]);
    Ok(FunctionRows::table(rows.collect()))
}
