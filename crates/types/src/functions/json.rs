//! Functions of json; what json and jsonb have in common, and what makes them from other values.
//!
//! Functions that must know the types of their arguments get them in one record, each value beside its type
//! ([`Support::WantsTypes`](super::descriptor::Support::WantsTypes)).

use super::get::arg;
use crate::json::node::{JsonNode, array_index};
use crate::json::populate::{self, OpenedJson};
use crate::json::value::{self, JsonValue, escape};
use crate::json::{aggregate, binary, convert, parse};
use crate::{Array, Datum, EvalContext, Record, oids::*, pieces};
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use std::sync::Arc;

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// Arguments with their types, those of an array spread out.
pub(super) fn typed(args: &[Datum]) -> Result<Option<Vec<(Oid, Datum)>>> {
    let Datum::Record(r) = arg(args, 0)? else { return Err(Error::internal("arguments without their types")) };
    if r.type_oid != ANYARRAY {
        return Ok(Some(r.fields.clone()));
    }
    Ok(match r.fields.last() {
        Some((_, Datum::Array(a))) => Some(a.elements.iter().map(|e| (a.element_type, e.clone())).collect()),
        _ => None,
    })
}
fn one(args: &[Datum]) -> Result<(Oid, Datum)> {
    typed(args)?.and_then(|list| list.into_iter().next()).ok_or_else(|| Error::internal("an argument is missing"))
}
fn text(out: Vec<u8>) -> Result<Datum> {
    String::from_utf8(out).map(Datum::text).map_err(|_| Error::internal("JSON is not UTF-8"))
}

pub(crate) fn to_json(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (ty, v) = one(args)?;
    if v.is_null() {
        return Ok(v);
    }
    let mut out = Vec::new();
    convert::write_json(ty, &v, &mut out, ctx)?;
    text(out)
}
pub(crate) fn to_jsonb(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (ty, v) = one(args)?;
    if v.is_null() {
        return Ok(v);
    }
    binary::datum(&convert::to_value(ty, &v, ctx)?)
}
pub(crate) fn json_build_array(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(list) = typed(args)? else { return Ok(Datum::Null) };
    json_array(&list, false, ctx)
}
pub(super) fn json_array(list: &[(Oid, Datum)], absent_on_null: bool, ctx: &EvalContext) -> Result<Datum> {
    let mut out = b"[".to_vec();
    for (ty, v) in list.iter().filter(|(_, v)| !(absent_on_null && v.is_null())) {
        if out.len() > 1 {
            out.extend_from_slice(b", ");
        }
        convert::write_json(*ty, v, &mut out, ctx)?;
    }
    out.push(b']');
    text(out)
}
pub(crate) fn jsonb_build_array(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(list) = typed(args)? else { return Ok(Datum::Null) };
    jsonb_array(&list, false, ctx)
}
pub(super) fn jsonb_array(list: &[(Oid, Datum)], absent_on_null: bool, ctx: &EvalContext) -> Result<Datum> {
    let kept = list.iter().filter(|(_, v)| !(absent_on_null && v.is_null()));
    let values = kept.map(|(ty, v)| convert::to_value(*ty, v, ctx)).collect::<Result<_>>()?;
    binary::datum(&JsonValue::Array(values))
}
fn pairs<'a>(list: &'a [(Oid, Datum)], function: &str) -> Result<impl Iterator<Item = &'a [(Oid, Datum)]>> {
    if !list.len().is_multiple_of(2) {
        return Err(invalid("argument list must have even number of elements")
            .with_hint(format!("The arguments of {function}() must consist of alternating keys and values.")));
    }
    Ok(list.chunks_exact(2))
}
pub(crate) fn json_build_object(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(list) = typed(args)? else { return Ok(Datum::Null) };
    json_object_of(&list, false, false, ctx)
}
/// JSON_OBJECT's and json_build_object's text.
pub(crate) fn json_object_of(
    list: &[(Oid, Datum)],
    absent_on_null: bool,
    unique: bool,
    ctx: &EvalContext,
) -> Result<Datum> {
    let mut out = b"{".to_vec();
    let mut seen = kilndb_base::hash::HashSet::default();
    for pair in pairs(list, "json_build_object")? {
        let ((key_type, key), (ty, v)) = (&pair[0], &pair[1]);
        let left_out = absent_on_null && v.is_null();
        if left_out && !unique {
            continue;
        }
        if key.is_null() {
            return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key"));
        }
        let mut written = Vec::new();
        convert::write_json_key(*key_type, key, &mut written, ctx)?;
        if unique && !seen.insert(written.clone()) {
            return Err(aggregate::duplicate(&written));
        }
        if left_out {
            continue;
        }
        if out.len() > 1 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(&written);
        out.extend_from_slice(b" : ");
        convert::write_json(*ty, v, &mut out, ctx)?;
    }
    out.push(b'}');
    text(out)
}
pub(crate) fn jsonb_build_object(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(list) = typed(args)? else { return Ok(Datum::Null) };
    jsonb_object_of(&list, false, false, ctx)
}
/// JSON_OBJECT's and jsonb_build_object's value.
pub(super) fn jsonb_object_of(
    list: &[(Oid, Datum)],
    absent_on_null: bool,
    unique: bool,
    ctx: &EvalContext,
) -> Result<Datum> {
    let (mut out, mut seen) = (Vec::new(), kilndb_base::hash::HashSet::default());
    for (i, pair) in pairs(list, "jsonb_build_object")?.enumerate() {
        let ((key_type, key), (ty, v)) = (&pair[0], &pair[1]);
        if key.is_null() {
            return Err(invalid(format!("argument {}: key must not be null", 2 * i + 1)));
        }
        let key = convert::to_key(*key_type, key, ctx)?;
        if unique && !seen.insert(key.clone()) {
            return Err(aggregate::duplicate_of_jsonb());
        }
        if !(absent_on_null && v.is_null()) {
            out.push((key, convert::to_value(*ty, v, ctx)?));
        }
    }
    binary::datum(&value::object(out)?)
}

/// json_populate_record and json_to_record: the row's type and value, the object, and for a record what its columns are
/// (a record of their modifiers).
fn populated(function: &str, ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let list = typed(args)?.unwrap_or_default();
    let to_record = function.ends_with("to_record");
    let mut items = list.iter();
    let (ty, base) =
        if to_record { (RECORD, Datum::Null) } else { items.next().cloned().unwrap_or((RECORD, Datum::Null)) };
    let json = items.next().map_or(Datum::Null, |i| i.1.clone());
    let shape = items.filter_map(|(_, v)| if let Datum::Record(r) = v { Some(r) } else { None }).next_back();
    let columns = match shape {
        Some(r) => {
            let typmod = |v: &Datum| if let Datum::Int4(m) = v { *m } else { -1 };
            let columns: Vec<_> =
                convert::field_names(r, ctx).into_iter().zip(&r.fields).map(|(n, (t, v))| (n, *t, typmod(v))).collect();
            if let Some(given) = populate::fields_of(ty, &base, ctx) {
                populate::check_columns(&columns, &given, ctx)?;
            }
            Some(columns)
        }
        None => populate::fields_of(ty, &base, ctx),
    };
    if json.is_null() {
        return Ok(base);
    }
    let Some(columns) = columns else {
        return Err(invalid(format!("could not determine row type for result of {function}"))
            .with_hint("Provide a non-null record argument, or call the function in the FROM clause using a column definition list."));
    };
    let opened = OpenedJson::new(&json)?;
    let old = if let Datum::Record(r) = &base { Some(&**r) } else { None };
    let under = convert::base_type(ty, ctx);
    let row = populate::record(under, &columns, old, opened.node(), function, ctx)?;
    if under != ty {
        ctx.host.check_domain(ty, &row)?;
    }
    Ok(row)
}
pub(crate) fn json_populate_record(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    populated("json_populate_record", ctx, args)
}
pub(crate) fn jsonb_populate_record(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    populated("jsonb_populate_record", ctx, args)
}
pub(crate) fn json_to_record(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    populated("json_to_record", ctx, args)
}
pub(crate) fn jsonb_to_record(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    populated("jsonb_to_record", ctx, args)
}
pub(crate) fn jsonb_populate_record_valid(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    if typed(args)?.is_some_and(|list| list.get(1).is_some_and(|a| a.1.is_null())) {
        return Ok(Datum::Null);
    }
    match populated("jsonb_populate_record_valid", ctx, args) {
        Ok(_) => Ok(Datum::Bool(true)),
        Err(e) if e.sqlstate().as_str().starts_with("22") || e.sqlstate().as_str().starts_with("23") => {
            Ok(Datum::Bool(false))
        }
        Err(e) => Err(e),
    }
}

fn row_text(r: &Record, lines: bool, ctx: &EvalContext) -> Result<Datum> {
    let mut out = Vec::new();
    convert::write_record(r, lines, &mut out, ctx)?;
    text(out)
}
fn array_text(a: &Array, lines: bool, ctx: &EvalContext) -> Result<Datum> {
    let mut out = Vec::new();
    convert::write_array(a.element_type, &a.dims, &a.elements, lines, &mut out, ctx)?;
    text(out)
}
fn record(d: &Datum) -> Result<&Record> {
    match d {
        Datum::Record(r) => Ok(r),
        _ => Err(Error::internal("function wants a record")),
    }
}
/// A path of texts; None: one of them is null.
pub(super) fn path(a: &Array) -> Option<Vec<&str>> {
    a.elements.iter().map(|e| if let Datum::Text(t) = e { Some(&**t) } else { None }).collect()
}
fn found(node: Option<JsonNode<'_>>, as_text: bool) -> Result<Datum> {
    Ok(match node {
        Some(node) if as_text => node.plain_text()?.map_or(Datum::Null, Datum::text),
        Some(JsonNode::Jsonb(v)) => binary::datum(v)?,
        Some(node) => Datum::text(node.json_text()?),
        None => Datum::Null,
    })
}
fn json_get(
    json: &str,
    as_text: bool,
    find: impl for<'a> FnOnce(JsonNode<'a>) -> Option<JsonNode<'a>>,
) -> Result<Datum> {
    let p = parse::parse(json)?;
    found(find(JsonNode::Json(&p, json)), as_text)
}
fn json_path(json: &str, steps: &Array, as_text: bool) -> Result<Datum> {
    match path(steps) {
        Some(steps) => json_get(json, as_text, |n| n.follow(&steps)),
        None => Ok(Datum::Null),
    }
}

/// Writes json text without blanks. `keeps` tells which members, and (true) which elements stay; `string` writes
/// strings.
pub(super) fn write_compact(
    p: &parse::ParsedJson,
    source: &str,
    keeps: &dyn Fn(&parse::ParsedJson, bool) -> bool,
    string: &dyn Fn(&str, &mut Vec<u8>) -> Result<()>,
    out: &mut Vec<u8>,
) -> Result<()> {
    work::step(50)?;
    match &p.kind {
        parse::ParsedJsonKind::Array(list) => {
            out.push(b'[');
            for (i, v) in list.iter().filter(|v| keeps(v, true)).enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_compact(v, source, keeps, string, out)?;
            }
            out.push(b']');
        }
        parse::ParsedJsonKind::Object(list) => {
            out.push(b'{');
            for (i, (k, v)) in list.iter().filter(|(_, v)| keeps(v, false)).enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                escape(k, out);
                out.push(b':');
                write_compact(v, source, keeps, string, out)?;
            }
            out.push(b'}');
        }
        parse::ParsedJsonKind::String(s) => string(s, out)?,
        _ => pieces::append(out, source.get(p.start..p.end).unwrap_or("").as_bytes())?,
    }
    Ok(())
}
/// A json text without members that are null; with `in_arrays`, without elements that are null either.
fn strip(json: &str, in_arrays: bool) -> Result<Datum> {
    let mut out = Vec::new();
    let keeps = |p: &parse::ParsedJson, is_element: bool| {
        !matches!(p.kind, parse::ParsedJsonKind::Null) || is_element && !in_arrays
    };
    let string = |s: &str, out: &mut Vec<u8>| {
        escape(s, out);
        Ok(())
    };
    write_compact(&parse::parse(json)?, json, &keeps, &string, &mut out)?;
    text(out)
}
fn array_length(json: &str) -> Result<i32> {
    let p = parse::parse(json)?;
    match &p.kind {
        parse::ParsedJsonKind::Array(list) => Ok(list.len() as i32),
        parse::ParsedJsonKind::Object(_) => Err(invalid("cannot get array length of a non-array")),
        _ => Err(invalid("cannot get array length of a scalar")),
    }
}

/// Keys and values of json_object(text[]): pairs one after the other, or two columns.
pub(super) fn text_pairs(a: &Array) -> Result<Vec<(&Datum, &Datum)>> {
    let subscripts = |m: &str| Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, m);
    match a.dims.as_slice() {
        [] => Ok(Vec::new()),
        [(_, n)] if n % 2 == 1 => Err(subscripts("array must have even number of elements")),
        [_] | [_, (_, 2)] => Ok(a.elements.chunks_exact(2).map(|p| (&p[0], &p[1])).collect()),
        [_, _] => Err(subscripts("array must have two columns")),
        _ => Err(subscripts("wrong number of array subscripts")),
    }
}
pub(super) fn text_lists<'a>(keys: &'a Array, values: &'a Array) -> Result<Vec<(&'a Datum, &'a Datum)>> {
    if keys.dims.len() > 1 || keys.dims.len() != values.dims.len() {
        return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts"));
    }
    if keys.elements.len() != values.elements.len() {
        return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "mismatched array dimensions"));
    }
    Ok(keys.elements.iter().zip(&values.elements).collect())
}
pub(super) fn object_key(d: &Datum) -> Result<&str> {
    match d {
        Datum::Text(t) => Ok(t),
        _ => Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key")),
    }
}
fn text_object(pairs: Vec<(&Datum, &Datum)>) -> Result<Datum> {
    let mut out = b"{".to_vec();
    for (i, (k, v)) in pairs.into_iter().enumerate() {
        work::step(100)?;
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        escape(object_key(k)?, &mut out);
        out.extend_from_slice(b" : ");
        match v {
            Datum::Text(t) => escape(t, &mut out),
            _ => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    text(out)
}

scalars! {
    fn json_in(c; v: text) = { parse::validate(v)?; v };
    fn json_out(c; v: text) = v;
    fn json_send(c; v: text) = v.as_bytes().to_vec();
    fn json_build_array_noargs(c;) = "[]";
    fn json_build_object_noargs(c;) = "{}";
    fn array_to_json(c; a: array) = array_text(a, false, c)?;
    fn array_to_json_pretty(c; a: array, lines: boolean) = array_text(a, lines, c)?;
    fn row_to_json(c; r: any) = row_text(record(r)?, false, c)?;
    fn row_to_json_pretty(c; r: any, lines: boolean) = row_text(record(r)?, lines, c)?;
    fn json_object_field(c; j: text, k: text) = json_get(j, false, |n| n.get(k))?;
    fn json_object_field_text(c; j: text, k: text) = json_get(j, true, |n| n.get(k))?;
    fn json_array_element(c; j: text, i: int4) = json_get(j, false, |n| n.element(i64::from(i)))?;
    fn json_array_element_text(c; j: text, i: int4) = json_get(j, true, |n| n.element(i64::from(i)))?;
    fn json_extract_path(c; j: text, p: array) = json_path(j, p, false)?;
    fn json_extract_path_text(c; j: text, p: array) = json_path(j, p, true)?;
    fn json_array_length(c; j: text) = array_length(j)?;
    fn json_typeof(c; j: text) = JsonNode::Json(&parse::parse(j)?, j).type_name();
    fn json_strip_nulls(c; j: text, in_arrays: boolean) = strip(j, in_arrays)?;
    fn json_object(c; a: array) = text_object(text_pairs(a)?)?;
    fn json_object_two_arg(c; k: array, v: array) = text_object(text_lists(k, v)?)?;
}

/// What a jsonb subscript says, as a step of a path.
pub fn subscript_step(d: &Datum) -> Option<String> {
    match d {
        Datum::Int4(n) => Some(n.to_string()),
        Datum::Text(t) => Some(t.to_string()),
        _ => None,
    }
}
/// Assignment to a subscript: `old` may be NULL.
pub fn assign(old: &Datum, steps: &[Option<String>], first_is_number: bool, new: &Datum) -> Result<Datum> {
    use crate::json::path_set::{PathAssignment, PathChange};
    let target = match old {
        Datum::Jsonb(b) => binary::decode(b)?,
        _ if first_is_number => JsonValue::Array(Vec::new()),
        _ => JsonValue::Object(Vec::new()),
    };
    let new = match new {
        Datum::Jsonb(b) => binary::decode(b)?,
        _ => JsonValue::Null,
    };
    let steps: Vec<Option<&str>> = steps.iter().map(Option::as_deref).collect();
    binary::datum(&PathAssignment { steps: &steps, change: PathChange::Assign, new: &new }.apply(target, 0)?)
}
/// Along subscripts.
pub fn fetch(d: &Datum, steps: &[String]) -> Result<Datum> {
    let Datum::Jsonb(b) = d else { return Ok(Datum::Null) };
    let mut at: &[u8] = b;
    for step in steps {
        let next = if binary::is_array(at) {
            array_index(step).and_then(|i| binary::element(at, i))
        } else {
            binary::get(at, step)
        };
        match next {
            Some(next) => at = next,
            None => return Ok(Datum::Null),
        }
    }
    Ok(Datum::Jsonb(Arc::from(at)))
}
