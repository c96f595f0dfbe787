//! Item methods of jsonpath. Those of dates and times, and .keyvalue(), are not there yet: 0A000.

use super::path_parse::PathExpr;
use super::value::JsonValue;
use crate::functions::get;
use crate::numeric::Numeric;
use crate::{EvalContext, io, oids::*};
use kilndb_base::{Error, Result, sqlstate};

fn wrong(message: String) -> Error {
    Error::new(sqlstate::NON_NUMERIC_SQL_JSON_ITEM, message)
}
fn only(name: &str, what: &str) -> Error {
    wrong(format!("jsonpath item method .{name}() can only be applied to a {what} value"))
}
fn bad(text: &str, name: &str, type_name: &str) -> Error {
    wrong(format!("argument \"{text}\" of jsonpath item method .{name}() is invalid for type {type_name}"))
}
/// That the statement is cancelled says nothing about the text.
fn bad_unless_interrupted(e: Error, text: &str, name: &str, type_name: &str) -> Error {
    if e.is_interruption() { e } else { bad(text, name, type_name) }
}
fn finite(n: Numeric, name: &str) -> Result<JsonValue> {
    if n.is_finite() {
        Ok(JsonValue::Number(n))
    } else {
        Err(wrong(format!("NaN or Infinity is not allowed for jsonpath item method .{name}()")))
    }
}

pub fn call(name: &str, args: &[PathExpr], v: &JsonValue, forgiving: bool, ctx: &EvalContext) -> Result<JsonValue> {
    Ok(match (name, v) {
        ("type", v) => JsonValue::String(v.type_name().to_string()),
        ("size", JsonValue::Array(list)) => JsonValue::Number(Numeric::from(list.len() as i64)),
        ("size", _) if forgiving => JsonValue::Number(Numeric::from(1i64)),
        ("size", _) => {
            return Err(Error::new(
                sqlstate::SQL_JSON_ARRAY_NOT_FOUND,
                "jsonpath item method .size() can only be applied to an array",
            ));
        }
        ("abs", JsonValue::Number(n)) => JsonValue::Number(n.abs()),
        ("floor", JsonValue::Number(n)) => JsonValue::Number(n.floor()),
        ("ceiling", JsonValue::Number(n)) => JsonValue::Number(n.ceil()),
        ("abs" | "floor" | "ceiling", _) => return Err(only(name, "numeric")),
        ("double" | "bigint" | "integer" | "number" | "decimal", JsonValue::Number(_) | JsonValue::String(_)) => {
            number(name, args, v, ctx)?
        }
        ("double" | "bigint" | "integer" | "number" | "decimal", _) => return Err(only(name, "string or numeric")),
        ("boolean", JsonValue::Bool(_)) => v.clone(),
        ("boolean", JsonValue::Number(n)) => {
            let whole = n.to_i64().filter(|i| n.is_integral() && i32::try_from(*i).is_ok());
            JsonValue::Bool(whole.ok_or_else(|| bad(&n.to_string(), name, "boolean"))? != 0)
        }
        ("boolean", JsonValue::String(s)) => JsonValue::Bool(io::parse_bool(s).map_err(|_| bad(s, name, "boolean"))?),
        ("boolean", _) => {
            return Err(wrong(
                "jsonpath item method .boolean() can only be applied to a boolean, string, or numeric value".into(),
            ));
        }
        ("string", JsonValue::String(_)) => v.clone(),
        ("string", JsonValue::Number(n)) => JsonValue::String(n.to_string()),
        ("string", JsonValue::Bool(b)) => JsonValue::String(b.to_string()),
        ("string", _) => {
            return Err(wrong(
                "jsonpath item method .string() can only be applied to a boolean, string, numeric, or datetime value"
                    .into(),
            ));
        }
        _ => return Err(Error::unsupported(format!("jsonpath item method .{name}() is not supported"))),
    })
}

fn number(name: &str, args: &[PathExpr], v: &JsonValue, ctx: &EvalContext) -> Result<JsonValue> {
    let text = match v {
        JsonValue::Number(n) => n.to_string(),
        JsonValue::String(s) => s.clone(),
        _ => String::new(),
    };
    match name {
        "double" => {
            let d = io::input(FLOAT8, &text, -1, ctx)
                .map_err(|e| bad_unless_interrupted(e, &text, name, "double precision"))?;
            finite(if let JsonValue::Number(n) = v { n.clone() } else { Numeric::from_f64(get::float8(&d)?) }, name)
        }
        "bigint" | "integer" => {
            let (low, high, type_name) = if name == "bigint" {
                (i64::MIN, i64::MAX, "bigint")
            } else {
                (i64::from(i32::MIN), i64::from(i32::MAX), "integer")
            };
            let whole = match v {
                JsonValue::Number(n) => n.round_to(0).to_i64(),
                _ => {
                    let read = io::input(INT8, &text, -1, ctx);
                    let d = read.map_err(|e| bad_unless_interrupted(e, &text, name, type_name))?;
                    Some(get::int8(&d)?)
                }
            };
            let whole = whole.filter(|i| (low..=high).contains(i)).ok_or_else(|| bad(&text, name, type_name))?;
            Ok(JsonValue::Number(Numeric::from(whole)))
        }
        _ => {
            let n = Numeric::parse(&text).map_err(|e| bad_unless_interrupted(e, &text, name, "numeric"))?;
            let JsonValue::Number(n) = finite(n, name)? else { return Err(Error::internal("a number")) };
            let argument = |i: usize| -> Option<i64> {
                match args.get(i)? {
                    PathExpr::Number(n) => n.to_i64(),
                    PathExpr::Plus(inner) => {
                        if let PathExpr::Number(n) = &**inner {
                            n.to_i64()
                        } else {
                            None
                        }
                    }
                    PathExpr::Minus(inner) => {
                        if let PathExpr::Number(n) = &**inner {
                            n.neg().to_i64()
                        } else {
                            None
                        }
                    }
                    _ => None,
                }
            };
            let Some(precision) = argument(0) else { return Ok(JsonValue::Number(n)) };
            let scale = argument(1).unwrap_or(0);
            if !(1..=1000).contains(&precision) {
                return Err(Error::new(
                    sqlstate::INVALID_PARAMETER_VALUE,
                    format!("NUMERIC precision {precision} must be between 1 and 1000"),
                ));
            }
            if !(-1000..=1000).contains(&scale) {
                return Err(Error::new(
                    sqlstate::INVALID_PARAMETER_VALUE,
                    format!("NUMERIC scale {scale} must be between -1000 and 1000"),
                ));
            }
            let typmod = ((precision as i32) << 16 | (scale as i32 & 0x7ff)) + 4;
            Ok(JsonValue::Number(n.apply_typmod(typmod).map_err(|_| bad(&text, name, "numeric"))?))
        }
    }
}
