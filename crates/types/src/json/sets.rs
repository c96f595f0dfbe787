//! Set-returning functions of json and jsonb.

use super::node::Node;
use super::populate::{self, Field, Opened};
use super::{binary, convert};
use crate::{Datum, EvalContext, Record, oids::*};
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use std::sync::Arc;

/// The functions of this module.
pub const SETS: [Oid; 16] =
    [4006, 1179, 3208, 3219, 3465, 3931, 3932, 3955, 3957, 3958, 3959, 3969, 3475, 3961, 3205, 3491];

/// A call: types beside values, and the columns that a definition list names.
pub struct Call<'a> {
    pub oid: Oid,
    pub name: &'a str,
    pub types: &'a [Oid],
    pub args: &'a [Datum],
    pub columns: Option<&'a [Field]>,
    /// Are rows of fields wanted, or records?
    pub spread: bool,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

fn shown(node: Node<'_>, as_text: bool) -> Result<Datum> {
    work::step(50)?;
    Ok(match node {
        _ if as_text => node.plain_text()?.map_or(Datum::Null, Datum::text),
        Node::Jsonb(v) => binary::datum(v)?,
        Node::Json(..) => Datum::text(node.json_text()?),
    })
}

pub fn rows(call: &Call<'_>, ctx: &EvalContext) -> Result<Vec<Vec<Datum>>> {
    let missing = || Error::internal("function called with too few arguments");
    match call.oid {
        3475 | 3961 => {
            let (Some(base), Some(json)) = (call.args.first(), call.args.get(1)) else { return Err(missing()) };
            let ty = call.types.first().copied().unwrap_or(RECORD);
            record_rows(call, ty, base, json, ctx)
        }
        4006 | 1179 => Ok(crate::functions::jsonpath::query(call.args, ctx)?.into_iter().map(|v| vec![v]).collect()),
        3205 | 3491 => record_rows(call, RECORD, &Datum::Null, call.args.first().ok_or_else(missing)?, ctx),
        _ => {
            let opened = Opened::new(call.args.first().ok_or_else(missing)?)?;
            let node = opened.node();
            match call.oid {
                3219 | 3955 => elements(call, node, false),
                3465 | 3969 => elements(call, node, true),
                3931 | 3957 => keys(call, node),
                3208 | 3958 => members(call, node, false),
                _ => members(call, node, true),
            }
        }
    }
}

fn elements(call: &Call<'_>, node: Node<'_>, as_text: bool) -> Result<Vec<Vec<Datum>>> {
    let Some(list) = node.elements() else {
        return Err(match (node, node.is_object()) {
            (Node::Jsonb(_), true) => invalid("cannot extract elements from an object"),
            (Node::Jsonb(_), false) => invalid("cannot extract elements from a scalar"),
            (_, true) => invalid(format!("cannot call {} on a non-array", call.name)),
            (_, false) => invalid(format!("cannot call {} on a scalar", call.name)),
        });
    };
    list.into_iter().map(|n| Ok(vec![shown(n, as_text)?])).collect()
}
fn keys(call: &Call<'_>, node: Node<'_>) -> Result<Vec<Vec<Datum>>> {
    let Some(list) = node.members() else {
        let what = if node.is_array() { "an array" } else { "a scalar" };
        return Err(invalid(format!("cannot call {} on {what}", call.name)));
    };
    Ok(list.into_iter().map(|(k, _)| vec![Datum::text(k)]).collect())
}
fn members(call: &Call<'_>, node: Node<'_>, as_text: bool) -> Result<Vec<Vec<Datum>>> {
    let Some(list) = node.members() else {
        return Err(match node {
            Node::Jsonb(_) => invalid(format!("cannot call {} on a non-object", call.name)),
            _ if node.is_array() => invalid("cannot deconstruct an array as an object"),
            _ => invalid("cannot deconstruct a scalar"),
        });
    };
    let value_type = match (as_text, node) {
        (true, _) => TEXT,
        (_, Node::Jsonb(_)) => JSONB,
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

fn record_rows(call: &Call<'_>, ty: Oid, base: &Datum, json: &Datum, ctx: &EvalContext) -> Result<Vec<Vec<Datum>>> {
    let columns = match call.columns {
        Some(columns) => {
            if let Some(given) = populate::fields_of(ty, base, ctx) {
                populate::check_columns(columns, &given, ctx)?;
            }
            Some(columns.to_vec())
        }
        None => populate::fields_of(ty, base, ctx),
    };
    let Some(columns) = columns else {
        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("could not determine row type for result of {}", call.name))
            .with_hint("Provide a non-null record argument, or call the function in the FROM clause using a column definition list."));
    };
    if json.is_null() {
        return Ok(Vec::new());
    }
    let opened = Opened::new(json)?;
    let node = opened.node();
    let Some(list) = node.elements() else {
        let what = if node.is_object() { "an object" } else { "a scalar" };
        let what = if matches!(node, Node::Jsonb(_)) { "a non-array" } else { what };
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
    Ok(rows)
}
