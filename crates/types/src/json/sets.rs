//! Set-returning functions of json and jsonb. They look at domains themselves.

use super::node::JsonNode;
use super::populate::{self, OpenedJson};
use super::{binary, convert};
use crate::functions::rows::{FunctionRows, RowsCall};
use crate::{Datum, Record, oids::*};
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use std::sync::Arc;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

fn shown(node: JsonNode<'_>, as_text: bool) -> Result<Datum> {
    work::step(50)?;
    Ok(match node {
        _ if as_text => node.plain_text()?.map_or(Datum::Null, Datum::text),
        JsonNode::Jsonb(v) => binary::datum(v)?,
        JsonNode::Json(..) => Datum::text(node.json_text()?),
    })
}

fn first<'c>(call: &'c RowsCall<'_>) -> Result<&'c Datum> {
    call.args.first().ok_or_else(|| Error::internal("function called with too few arguments"))
}

/// Defines functions over the first argument, opened.
macro_rules! of_document {
    ($( fn $name:ident($call:ident, $node:ident) = $rows:expr; )*) => { $(
        pub fn $name($call: RowsCall<'_>) -> Result<FunctionRows> {
            let opened = OpenedJson::new(first(&$call)?)?;
            let $node = opened.node();
            $rows.map(FunctionRows::table)
        }
    )* };
}
of_document! {
    fn json_array_elements(call, node) = elements(&call, node, false);
    fn jsonb_array_elements(call, node) = elements(&call, node, false);
    fn json_array_elements_text(call, node) = elements(&call, node, true);
    fn jsonb_array_elements_text(call, node) = elements(&call, node, true);
    fn json_object_keys(call, node) = keys(&call, node);
    fn jsonb_object_keys(call, node) = keys(&call, node);
    fn json_each(call, node) = members(&call, node, false);
    fn jsonb_each(call, node) = members(&call, node, false);
    fn json_each_text(call, node) = members(&call, node, true);
    fn jsonb_each_text(call, node) = members(&call, node, true);
}
pub(crate) fn jsonb_path_query(call: RowsCall<'_>) -> Result<FunctionRows> {
    crate::functions::jsonpath::query(&call.args, call.ctx).map(FunctionRows::list)
}
pub(crate) fn jsonb_path_query_tz(call: RowsCall<'_>) -> Result<FunctionRows> {
    jsonb_path_query(call)
}
pub(crate) fn json_populate_recordset(call: RowsCall<'_>) -> Result<FunctionRows> {
    let missing = || Error::internal("function called with too few arguments");
    let (base, json) = (first(&call)?, call.args.get(1).ok_or_else(missing)?);
    record_rows(&call, call.types.first().copied().unwrap_or(RECORD), base, json)
}
pub(crate) fn jsonb_populate_recordset(call: RowsCall<'_>) -> Result<FunctionRows> {
    json_populate_recordset(call)
}
pub(crate) fn json_to_recordset(call: RowsCall<'_>) -> Result<FunctionRows> {
    record_rows(&call, RECORD, &Datum::Null, first(&call)?)
}
pub(crate) fn jsonb_to_recordset(call: RowsCall<'_>) -> Result<FunctionRows> {
    json_to_recordset(call)
}

fn elements(call: &RowsCall<'_>, node: JsonNode<'_>, as_text: bool) -> Result<Vec<Vec<Datum>>> {
    let Some(list) = node.elements() else {
        return Err(match (node, node.is_object()) {
            (JsonNode::Jsonb(_), true) => invalid("cannot extract elements from an object"),
            (JsonNode::Jsonb(_), false) => invalid("cannot extract elements from a scalar"),
            (_, true) => invalid(format!("cannot call {} on a non-array", call.name)),
            (_, false) => invalid(format!("cannot call {} on a scalar", call.name)),
        });
    };
    list.into_iter().map(|n| Ok(vec![shown(n, as_text)?])).collect()
}
fn keys(call: &RowsCall<'_>, node: JsonNode<'_>) -> Result<Vec<Vec<Datum>>> {
    let Some(list) = node.members() else {
        let what = if node.is_array() { "an array" } else { "a scalar" };
        return Err(invalid(format!("cannot call {} on {what}", call.name)));
    };
    Ok(list.into_iter().map(|(k, _)| vec![Datum::text(k)]).collect())
}
fn members(call: &RowsCall<'_>, node: JsonNode<'_>, as_text: bool) -> Result<Vec<Vec<Datum>>> {
    let Some(list) = node.members() else {
        return Err(match node {
            JsonNode::Jsonb(_) => invalid(format!("cannot call {} on a non-object", call.name)),
            _ if node.is_array() => invalid("cannot deconstruct an array as an object"),
            _ => invalid("cannot deconstruct a scalar"),
        });
    };
    let value_type = match (as_text, node) {
        (true, _) => TEXT,
        (_, JsonNode::Jsonb(_)) => JSONB,
        _ => JSON,
    };
    let rows = list.into_iter().map(|(k, v)| {
        let (key, value) = (Datum::text(k), shown(v, as_text)?);
        if call.spread {
            return Ok(vec![key, value]);
        }
        let names = Some(Arc::from(["key".to_string(), "value".to_string()]));
        let fields = vec![(TEXT, key), (value_type, value)];
        Ok(vec![Datum::Record(Arc::new(Record { type_oid: RECORD, fields, names }))])
    });
    rows.collect()
}

fn record_rows(call: &RowsCall<'_>, ty: Oid, base: &Datum, json: &Datum) -> Result<FunctionRows> {
    let ctx = call.ctx;
    let columns = match &call.columns {
        Some(columns) => {
            if let Some(given) = populate::fields_of(ty, base, ctx) {
                populate::check_columns(columns, &given, ctx)?;
            }
            Some(columns.clone())
        }
        None => populate::fields_of(ty, base, ctx),
    };
    let Some(columns) = columns else {
        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("could not determine row type for result of {}", call.name))
            .with_hint("Provide a non-null record argument, or call the function in the FROM clause using a column definition list."));
    };
    if json.is_null() {
        return Ok(FunctionRows::none());
    }
    let opened = OpenedJson::new(json)?;
    let node = opened.node();
    let Some(list) = node.elements() else {
        let what = if node.is_object() { "an object" } else { "a scalar" };
        let what = if matches!(node, JsonNode::Jsonb(_)) { "a non-array" } else { what };
        return Err(invalid(format!("cannot call {} on {what}", call.name)));
    };
    let old = match base {
        Datum::Record(r) => Some(&**r),
        _ => None,
    };
    let mut rows = Vec::with_capacity(list.len());
    for item in list {
        if !item.is_object() {
            return Err(invalid(format!("argument of {} must be an array of objects", call.name)));
        }
        let values = populate::fields(&columns, old, item, call.name, ctx)?;
        let under = convert::base_type(ty, ctx);
        if call.spread && under == ty {
            rows.push(values);
            continue;
        }
        let fields: Vec<(Oid, Datum)> = columns.iter().zip(values).map(|(c, v)| (c.1, v)).collect();
        let record = Datum::Record(Arc::new(Record { type_oid: under, fields: fields.clone(), names: None }));
        if under != ty {
            ctx.host.check_domain(ty, &record)?;
        }
        rows.push(if call.spread { fields.into_iter().map(|f| f.1).collect() } else { vec![record] });
    }
    Ok(FunctionRows::table(rows))
}
