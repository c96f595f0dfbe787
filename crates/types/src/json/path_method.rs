//! Item methods of jsonpath. Those of dates and times, and .keyvalue(), are not there yet: 0A000.

use super::path_parse::Expr;
use super::value::Value;
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
fn finite(n: Numeric, name: &str) -> Result<Value> {
    if n.is_finite() {
        Ok(Value::Number(n))
    } else {
        Err(wrong(format!("NaN or Infinity is not allowed for jsonpath item method .{name}()")))
    }
}

pub fn call(name: &str, args: &[Expr], v: &Value, forgiving: bool, ctx: &EvalContext) -> Result<Value> {
    Ok(match (name, v) {
        ("type", v) => Value::String(v.type_name().to_string()),
        ("size", Value::Array(list)) => Value::Number(Numeric::from(list.len() as i64)),
        ("size", _) if forgiving => Value::Number(Numeric::from(1i64)),
        ("size", _) => {
            return Err(Error::new(
                sqlstate::SQL_JSON_ARRAY_NOT_FOUND,
                "jsonpath item method .size() can only be applied to an array",
            ));
        }
        ("abs", Value::Number(n)) => Value::Number(n.abs()),
        ("floor", Value::Number(n)) => Value::Number(n.floor()),
        ("ceiling", Value::Number(n)) => Value::Number(n.ceil()),
        ("abs" | "floor" | "ceiling", _) => return Err(only(name, "numeric")),
        ("double" | "bigint" | "integer" | "number" | "decimal", Value::Number(_) | Value::String(_)) => {
            number(name, args, v, ctx)?
        }
        ("double" | "bigint" | "integer" | "number" | "decimal", _) => return Err(only(name, "string or numeric")),
        ("boolean", Value::Bool(_)) => v.clone(),
        ("boolean", Value::Number(n)) => {
            let whole = n.to_i64().filter(|i| n.is_integral() && i32::try_from(*i).is_ok());
            Value::Bool(whole.ok_or_else(|| bad(&n.to_string(), name, "boolean"))? != 0)
        }
        ("boolean", Value::String(s)) => Value::Bool(io::parse_bool(s).map_err(|_| bad(s, name, "boolean"))?),
        ("boolean", _) => {
            return Err(wrong(
                "jsonpath item method .boolean() can only be applied to a boolean, string, or numeric value".into(),
            ));
        }
        ("string", Value::String(_)) => v.clone(),
        ("string", Value::Number(n)) => Value::String(n.to_string()),
        ("string", Value::Bool(b)) => Value::String(b.to_string()),
        ("string", _) => {
            return Err(wrong(
                "jsonpath item method .string() can only be applied to a boolean, string, numeric, or datetime value"
                    .into(),
            ));
        }
        _ => return Err(Error::unsupported(format!("jsonpath item method .{name}() is not supported"))),
    })
}

fn number(name: &str, args: &[Expr], v: &Value, ctx: &EvalContext) -> Result<Value> {
    let text = match v {
        Value::Number(n) => n.to_string(),
        Value::String(s) => s.clone(),
        _ => String::new(),
    };
    match name {
        "double" => {
            let d = io::input(FLOAT8, &text, -1, ctx)
                .map_err(|e| bad_unless_interrupted(e, &text, name, "double precision"))?;
            finite(if let Value::Number(n) = v { n.clone() } else { Numeric::from_f64(get::float8(&d)?) }, name)
        }
        "bigint" | "integer" => {
            let (low, high, type_name) = if name == "bigint" {
                (i64::MIN, i64::MAX, "bigint")
            } else {
                (i64::from(i32::MIN), i64::from(i32::MAX), "integer")
            };
            let whole = match v {
                Value::Number(n) => n.round_to(0).to_i64(),
                _ => {
                    let read = io::input(INT8, &text, -1, ctx);
                    let d = read.map_err(|e| bad_unless_interrupted(e, &text, name, type_name))?;
                    Some(get::int8(&d)?)
                }
            };
            let whole = whole.filter(|i| (low..=high).contains(i)).ok_or_else(|| bad(&text, name, type_name))?;
            Ok(Value::Number(Numeric::from(whole)))
        }
        _ => {
            let n = Numeric::parse(&text).map_err(|e| bad_unless_interrupted(e, &text, name, "numeric"))?;
            let Value::Number(n) = finite(n, name)? else { return Err(Error::internal("a number")) };
            let argument = |i: usize| -> Option<i64> {
                match args.get(i)? {
                    Expr::Number(n) => n.to_i64(),
                    Expr::Plus(inner) => {
                        if let Expr::Number(n) = &**inner {
                            n.to_i64()
                        } else {
                            None
                        }
                    }
                    Expr::Minus(inner) => {
                        if let Expr::Number(n) = &**inner {
                            n.neg().to_i64()
                        } else {
                            None
                        }
                    }
                    _ => None,
                }
            };
            let Some(precision) = argument(0) else { return Ok(Value::Number(n)) };
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
            Ok(Value::Number(n.apply_typmod(typmod).map_err(|_| bad(&text, name, "numeric"))?))
        }
    }
}
