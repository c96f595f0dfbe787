//! JSON to SQL values: json_populate_record, json_to_record, json_each's texts.

use super::node::JsonNode;
use super::value::JsonValue;
use super::{binary, convert, parse};
use crate::{Array, Datum, EvalContext, Record, cast, io, oids::*};
use kilndb_base::{Error, Oid, Result, sqlstate};
use std::sync::Arc;

/// A field's (name, type, modifier).
pub type FieldType = (String, Oid, i32);

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// Where in the value something is, for hints.
#[derive(Clone, Default)]
pub struct JsonLocation {
    column: String,
    subscripts: Vec<usize>,
}
impl JsonLocation {
    fn hint(&self) -> Option<String> {
        let list: String = self.subscripts.iter().map(|s| format!("[{s}]")).collect();
        match (self.column.is_empty(), list.is_empty()) {
            (true, true) => None,
            (true, false) => Some(format!("See the array element {list}.")),
            (false, true) => Some(format!("See the value of key \"{}\".", self.column)),
            (false, false) => Some(format!("See the array element {list} of key \"{}\".", self.column)),
        }
    }
    fn expected_array(&self) -> Error {
        let e = Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, "expected JSON array");
        match self.hint() {
            Some(hint) => e.with_hint(hint),
            None => e,
        }
    }
}

/// The fields of a row type, or those of a value.
pub fn fields_of(ty: Oid, base: &Datum, ctx: &EvalContext) -> Option<Vec<FieldType>> {
    let under = convert::base_type(ty, ctx);
    if under != RECORD
        && let Some(fields) = ctx.host.composite_fields(under)
    {
        return Some(fields);
    }
    match base {
        Datum::Record(r) => {
            Some(convert::field_names(r, ctx).into_iter().zip(&r.fields).map(|(n, (t, _))| (n, *t, -1)).collect())
        }
        _ => None,
    }
}

/// Fails unless the row that is given has the columns that a definition list names.
pub fn check_columns(columns: &[FieldType], given: &[FieldType], ctx: &EvalContext) -> Result<()> {
    let mismatch = |detail: String| {
        Err(Error::new(sqlstate::DATATYPE_MISMATCH, "function return row and query-specified return row do not match")
            .with_detail(detail))
    };
    if columns.len() != given.len() {
        let plural = if given.len() == 1 { "" } else { "s" };
        return mismatch(format!(
            "Returned row contains {} attribute{plural}, but query expects {}.",
            given.len(),
            columns.len()
        ));
    }
    for (i, (wanted, given)) in columns.iter().zip(given).enumerate() {
        if wanted.1 != given.1 {
            let (given, wanted) = (ctx.host.format_type(given.1, -1), ctx.host.format_type(wanted.1, -1));
            return mismatch(format!(
                "Returned type {given} at ordinal position {}, but query expects {wanted}.",
                i + 1
            ));
        }
    }
    Ok(())
}

/// A value of the type. A missing one is what `default` says.
pub fn field(
    ty: Oid,
    typmod: i32,
    node: Option<JsonNode<'_>>,
    default: &Datum,
    place: &JsonLocation,
    ctx: &EvalContext,
) -> Result<Datum> {
    if let Some((under, typmod_under)) = ctx.host.under_domain(ty) {
        let v = field(under, if typmod_under >= 0 { typmod_under } else { typmod }, node, default, place, ctx)?;
        ctx.host.check_domain(ty, &v)?;
        return Ok(v);
    }
    let Some(node) = node.filter(|n| !n.is_null()) else { return Ok(Datum::Null) };
    let element = ctx.host.element_type(ty);
    if element != 0 && !matches!(ty, INT2VECTOR | OIDVECTOR) {
        return array(ty, element, typmod, node, place, ctx);
    }
    if let Some(fields) = ctx.host.composite_fields(ty) {
        if let Some(s) = node.string() {
            return io::input(ty, s, -1, ctx);
        }
        let base = match default {
            Datum::Record(r) => Some(r.clone()),
            _ => None,
        };
        return record(ty, &fields, base.as_deref(), node, "populate_composite", ctx);
    }
    scalar(ty, typmod, node, ctx)
}

fn scalar(ty: Oid, typmod: i32, node: JsonNode<'_>, ctx: &EvalContext) -> Result<Datum> {
    match ty {
        JSON => return Ok(Datum::text(node.json_text()?)),
        JSONB => {
            return Ok(match node {
                JsonNode::Jsonb(v) => binary::datum(v)?,
                JsonNode::Json(p, text) => binary::datum(&JsonValue::from_parsed(p, text)?)?,
            });
        }
        _ => {}
    }
    let text = node.plain_text()?.unwrap_or_default();
    let v = io::input(ty, &text, typmod, ctx)?;
    if typmod >= 0 { cast::apply_typmod(ty, v, typmod, false) } else { Ok(v) }
}

fn array(
    ty: Oid,
    element: Oid,
    typmod: i32,
    node: JsonNode<'_>,
    place: &JsonLocation,
    ctx: &EvalContext,
) -> Result<Datum> {
    if let Some(s) = node.string() {
        return io::input(ty, s, typmod, ctx);
    }
    let Some(list) = node.elements() else { return Err(place.expected_array()) };
    let mut gathered = ArrayBuilder { element, typmod, dims: Vec::new(), depth: None, elements: Vec::new() };
    gathered.level(&list, 0, place, ctx)?;
    if gathered.elements.is_empty() {
        return Ok(Datum::Array(Arc::new(Array { element_type: element, dims: Vec::new(), elements: Vec::new() })));
    }
    let dims = gathered.dims.iter().map(|n| (1, *n)).collect();
    Ok(Datum::Array(Arc::new(Array { element_type: element, dims, elements: gathered.elements })))
}
/// An array of several dimensions in the making.
struct ArrayBuilder {
    element: Oid,
    typmod: i32,
    dims: Vec<u32>,
    /// How many dimensions: known once a value is not an array.
    depth: Option<usize>,
    elements: Vec<Datum>,
}
impl ArrayBuilder {
    fn level(&mut self, list: &[JsonNode<'_>], level: usize, place: &JsonLocation, ctx: &EvalContext) -> Result<()> {
        let malformed = || {
            Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, "malformed JSON array")
                .with_detail("Multidimensional arrays must have sub-arrays with matching dimensions.")
        };
        match self.dims.get(level) {
            Some(n) if *n != list.len() as u32 => return Err(malformed()),
            Some(_) => {}
            None => self.dims.push(list.len() as u32),
        }
        for (i, node) in list.iter().enumerate() {
            let mut here = place.clone();
            here.subscripts.push(i);
            let nested = node.elements().filter(|_| self.depth.is_none_or(|d| level + 1 < d));
            match nested {
                Some(inner) => self.level(&inner, level + 1, &here, ctx)?,
                None => {
                    match self.depth {
                        None => self.depth = Some(level + 1),
                        Some(d) if d != level + 1 => return Err(here.expected_array()),
                        Some(_) => {}
                    }
                    let place = JsonLocation { column: place.column.clone(), subscripts: here.subscripts };
                    self.elements.push(field(self.element, self.typmod, Some(*node), &Datum::Null, &place, ctx)?);
                }
            }
        }
        Ok(())
    }
}

/// The values of a row's fields from an object's members.
pub fn fields(
    list: &[FieldType],
    base: Option<&Record>,
    node: JsonNode<'_>,
    function: &str,
    ctx: &EvalContext,
) -> Result<Vec<Datum>> {
    if !node.is_object() {
        let what = if node.is_array() { "an array" } else { "a scalar" };
        return Err(invalid(format!("cannot call {function} on {what}")));
    }
    list.iter()
        .enumerate()
        .map(|(i, (name, ty, typmod))| {
            let old = base.and_then(|r| r.fields.get(i)).map_or(Datum::Null, |f| f.1.clone());
            match node.get(name) {
                None if base.is_some() => Ok(old),
                found => field(
                    *ty,
                    *typmod,
                    found,
                    &old,
                    &JsonLocation { column: name.clone(), subscripts: Vec::new() },
                    ctx,
                ),
            }
        })
        .collect()
}
pub fn record(
    ty: Oid,
    list: &[FieldType],
    base: Option<&Record>,
    node: JsonNode<'_>,
    function: &str,
    ctx: &EvalContext,
) -> Result<Datum> {
    // Nothing to take over: the row stays as it is.
    let values = fields(list, base, node, function, ctx)?;
    let fields = list.iter().zip(values).map(|(f, v)| (f.1, v)).collect();
    let names = (ty == RECORD).then(|| list.iter().map(|f| f.0.clone()).collect());
    Ok(Datum::Record(Arc::new(Record { type_oid: ty, fields, names })))
}

/// A json or jsonb datum opened.
pub enum OpenedJson {
    Json(parse::ParsedJson, Arc<str>),
    Jsonb(JsonValue),
}
impl OpenedJson {
    pub fn new(d: &Datum) -> Result<OpenedJson> {
        match d {
            Datum::Jsonb(b) => Ok(OpenedJson::Jsonb(binary::decode(b)?)),
            Datum::Text(t) => Ok(OpenedJson::Json(parse::parse(t)?, t.clone())),
            _ => Err(Error::internal("no JSON value")),
        }
    }
    pub fn node(&self) -> JsonNode<'_> {
        match self {
            OpenedJson::Json(p, text) => JsonNode::Json(p, text),
            OpenedJson::Jsonb(v) => JsonNode::Jsonb(v),
        }
    }
}
