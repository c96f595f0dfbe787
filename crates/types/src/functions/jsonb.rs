//! Functions and operators of jsonb.

use super::json::{invalid, object_key, path, text_lists, text_pairs};
use crate::cast;
use crate::json::binary;
use crate::json::node::{JsonNode, array_index};
use crate::json::path_set::{PathAssignment, PathChange};
use crate::json::value::{self, JsonValue};
use crate::{Array, Datum, EvalContext, oids::*};
use kilndb_base::hash::HashSet;
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use std::sync::Arc;

fn jsonb(b: &[u8]) -> Datum {
    Datum::Jsonb(Arc::from(b))
}
/// ->> of a value's bytes.
fn plain(b: &[u8]) -> Result<Datum> {
    if let Some(s) = binary::string(b) {
        return Ok(Datum::text(s));
    }
    Ok(binary::decode(b)?.plain_text()?.map_or(Datum::Null, Datum::text))
}
/// The text of a scalar, None if it is null. Objects and arrays, and damaged values, give None in its place.
pub(crate) fn scalar_text(b: &[u8]) -> Option<Option<String>> {
    if binary::is_object(b) || binary::is_array(b) {
        return None;
    }
    binary::decode(b).and_then(|value| value.plain_text()).ok()
}
fn found(b: Option<&[u8]>, as_text: bool) -> Result<Datum> {
    match b {
        Some(b) if as_text => plain(b),
        Some(b) => Ok(jsonb(b)),
        None => Ok(Datum::Null),
    }
}
/// An element of the root, where a scalar is an array of itself.
fn root_element(b: &[u8], index: i32) -> Option<&[u8]> {
    let is_scalar = !binary::is_array(b) && !binary::is_object(b);
    if is_scalar && matches!(index, 0 | -1) { Some(b) } else { binary::element(b, i64::from(index)) }
}
fn along(b: &[u8], steps: &Array, as_text: bool) -> Result<Datum> {
    let Some(steps) = path(steps) else { return Ok(Datum::Null) };
    let mut at = b;
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
    found(Some(at), as_text)
}

fn exists(b: &[u8], key: &str) -> Result<bool> {
    if binary::is_object(b) {
        return Ok(binary::get(b, key).is_some());
    }
    if binary::is_array(b) {
        for i in work::steps(0..binary::count(b), 20) {
            if binary::element(b, i? as i64).and_then(binary::string) == Some(key) {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    Ok(binary::string(b) == Some(key))
}
/// Whether all keys exist, or one of them.
fn all_exist(b: &[u8], keys: &Array, all: bool) -> Result<bool> {
    for key in work::steps(each_key(keys), 100) {
        if exists(b, key?)? != all {
            return Ok(!all);
        }
    }
    Ok(all)
}
fn each_key(keys: &Array) -> impl Iterator<Item = &str> {
    keys.elements.iter().filter_map(|k| if let Datum::Text(t) = k { Some(&**t) } else { None })
}

fn root_contains(a: &[u8], b: &[u8]) -> Result<bool> {
    binary::contains(a, b, true)
}

fn concat(a: &[u8], b: &[u8]) -> Result<Datum> {
    let list = |v: JsonValue| if let JsonValue::Array(list) = v { list } else { vec![v] };
    let joined = match (binary::decode(a)?, binary::decode(b)?) {
        (JsonValue::Object(mut a), JsonValue::Object(b)) => {
            a.extend(b);
            value::object(a)?
        }
        (a, b) => {
            let mut all = list(a);
            all.extend(list(b));
            JsonValue::Array(all)
        }
    };
    binary::datum(&joined)
}

/// The elements or members that stay.
fn kept<T>(list: Vec<T>, stays: impl Fn(&T) -> bool) -> Result<Vec<T>> {
    work::steps(list, 50).filter(|item| item.as_ref().map_or(true, &stays)).collect()
}
fn delete_keys<'a>(b: &[u8], keys: impl Iterator<Item = &'a str>) -> Result<Datum> {
    let keys = work::steps(keys, 50).collect::<Result<HashSet<&str>>>()?;
    binary::datum(&match binary::decode(b)? {
        JsonValue::Object(list) => JsonValue::Object(kept(list, |(k, _)| !keys.contains(k.as_str()))?),
        JsonValue::Array(list) => {
            JsonValue::Array(kept(list, |v| !matches!(v, JsonValue::String(s) if keys.contains(s.as_str())))?)
        }
        _ => return Err(invalid("cannot delete from scalar")),
    })
}
fn delete_element(b: &[u8], index: i32) -> Result<Datum> {
    binary::datum(&match binary::decode(b)? {
        JsonValue::Object(_) => return Err(invalid("cannot delete from object using integer index")),
        JsonValue::Array(mut list) => {
            let index = if index < 0 { i64::from(index) + list.len() as i64 } else { i64::from(index) };
            if let Ok(at) = usize::try_from(index)
                && at < list.len()
            {
                list.remove(at);
            }
            JsonValue::Array(list)
        }
        _ => return Err(invalid("cannot delete from scalar")),
    })
}

fn change(b: &[u8], steps: &Array, change: PathChange, new: &[u8]) -> Result<Datum> {
    if steps.dims.len() > 1 {
        return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts"));
    }
    let target = binary::decode(b)?;
    if target.is_scalar() {
        return Err(invalid(if change == PathChange::Delete {
            "cannot delete path in scalar"
        } else {
            "cannot set path in scalar"
        }));
    }
    if binary::count(b) == 0 && matches!(change, PathChange::Replace | PathChange::Delete) {
        return Ok(jsonb(b));
    }
    let steps: Vec<Option<&str>> =
        steps.elements.iter().map(|e| if let Datum::Text(t) = e { Some(&**t) } else { None }).collect();
    let new = if new.is_empty() { JsonValue::Null } else { binary::decode(new)? };
    binary::datum(&PathAssignment { steps: &steps, change, new: &new }.apply(target, 0)?)
}
fn set(create: bool) -> PathChange {
    if create { PathChange::Create } else { PathChange::Replace }
}
pub(crate) fn jsonb_set_lax(_: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let [Datum::Jsonb(b), Datum::Array(steps), new, Datum::Bool(create), treatment] = args else {
        return Ok(Datum::Null);
    };
    let Datum::Text(treatment) = treatment else {
        return Err(invalid(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
        ));
    };
    if let Datum::Jsonb(new) = new {
        return change(b, steps, set(*create), new);
    }
    match &**treatment {
        "raise_exception" => Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "JSON value must not be null")
            .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
            .with_hint(
                "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.",
            )),
        "use_json_null" => change(b, steps, set(*create), &binary::encode(&JsonValue::Null)?),
        "delete_key" => change(b, steps, PathChange::Delete, &[]),
        "return_target" => Ok(jsonb(b)),
        _ => Err(invalid(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
        )),
    }
}

fn strip(v: JsonValue, in_arrays: bool) -> Result<JsonValue> {
    let stripped = |v: JsonValue| strip(v, in_arrays);
    Ok(match v {
        JsonValue::Array(list) => {
            let list = kept(list, |v| !(in_arrays && matches!(v, JsonValue::Null)))?;
            JsonValue::Array(list.into_iter().map(stripped).collect::<Result<_>>()?)
        }
        JsonValue::Object(list) => {
            let list = kept(list, |(_, v)| !matches!(v, JsonValue::Null))?;
            JsonValue::Object(list.into_iter().map(|(k, v)| Ok((k, stripped(v)?))).collect::<Result<_>>()?)
        }
        scalar => scalar,
    })
}
fn array_length(b: &[u8]) -> Result<i32> {
    if binary::is_array(b) {
        return Ok(binary::count(b) as i32);
    }
    Err(invalid(if binary::is_object(b) {
        "cannot get array length of a non-array"
    } else {
        "cannot get array length of a scalar"
    }))
}
fn pretty(b: &[u8]) -> Result<String> {
    let mut out = Vec::new();
    binary::decode(b)?.write_pretty(0, &mut out)?;
    String::from_utf8(out).map_err(|_| Error::internal("JSON is not UTF-8"))
}
fn text_object(pairs: Vec<(&Datum, &Datum)>) -> Result<Datum> {
    let value = |v: &Datum| if let Datum::Text(t) = v { JsonValue::String(t.to_string()) } else { JsonValue::Null };
    let pairs = work::steps(pairs, 100)
        .map(|pair| pair.and_then(|(k, v)| Ok((object_key(k)?.to_string(), value(v)))))
        .collect::<Result<_>>()?;
    binary::datum(&value::object(pairs)?)
}

/// What a jsonb number or boolean is as SQL's. JSON's null is NULL.
fn to_number(b: &[u8], target: Oid, name: &str, c: &EvalContext) -> Result<Datum> {
    match binary::decode(b)? {
        JsonValue::Null => Ok(Datum::Null),
        JsonValue::Number(n) => match cast::lookup_cast(NUMERIC, target) {
            Some(f) if target != NUMERIC => f(&Datum::Numeric(n), -1, true, c),
            _ => Ok(Datum::Numeric(n)),
        },
        other => Err(cannot_cast(&other, name)),
    }
}
fn to_bool(b: &[u8]) -> Result<Datum> {
    match binary::decode(b)? {
        JsonValue::Null => Ok(Datum::Null),
        JsonValue::Bool(b) => Ok(Datum::Bool(b)),
        other => Err(cannot_cast(&other, "boolean")),
    }
}
fn cannot_cast(v: &JsonValue, name: &str) -> Error {
    let what = match v {
        JsonValue::Null => "null",
        JsonValue::String(_) => "string",
        JsonValue::Number(_) => "numeric",
        JsonValue::Bool(_) => "boolean",
        JsonValue::Array(_) => "array",
        JsonValue::Object(_) => "object",
    };
    invalid(format!("cannot cast jsonb {what} to type {name}"))
}

scalars! {
    fn jsonb_in(c; v: text) = binary::datum(&JsonValue::parse(v)?)?;
    fn jsonb_out(c; v: jsonb) = binary::decode(v)?.text()?;
    fn jsonb_send(c; v: jsonb) = [&[1u8], binary::decode(v)?.text()?.as_bytes()].concat();
    fn jsonb_build_array_noargs(c;) = binary::datum(&JsonValue::Array(Vec::new()))?;
    fn jsonb_build_object_noargs(c;) = binary::datum(&JsonValue::Object(Vec::new()))?;
    fn jsonb_object_field(c; j: jsonb, k: text) = found(binary::get(j, k), false)?;
    fn jsonb_object_field_text(c; j: jsonb, k: text) = found(binary::get(j, k), true)?;
    fn jsonb_array_element(c; j: jsonb, i: int4) = found(root_element(j, i), false)?;
    fn jsonb_array_element_text(c; j: jsonb, i: int4) = found(root_element(j, i), true)?;
    fn jsonb_extract_path(c; j: jsonb, p: array) = along(j, p, false)?;
    fn jsonb_extract_path_text(c; j: jsonb, p: array) = along(j, p, true)?;
    fn jsonb_array_length(c; j: jsonb) = array_length(j)?;
    fn jsonb_typeof(c; j: jsonb) = JsonNode::Jsonb(&binary::decode(j)?).type_name();
    fn jsonb_strip_nulls(c; j: jsonb, in_arrays: boolean) = binary::datum(&strip(binary::decode(j)?, in_arrays)?)?;
    fn jsonb_pretty(c; j: jsonb) = pretty(j)?;
    fn jsonb_object(c; a: array) = text_object(text_pairs(a)?)?;
    fn jsonb_object_two_arg(c; k: array, v: array) = text_object(text_lists(k, v)?)?;
    fn jsonb_exists(c; j: jsonb, k: text) = exists(j, k)?;
    fn jsonb_exists_any(c; j: jsonb, k: array) = all_exist(j, k, false)?;
    fn jsonb_exists_all(c; j: jsonb, k: array) = all_exist(j, k, true)?;
    fn jsonb_contains(c; a: jsonb, b: jsonb) = root_contains(a, b)?;
    fn jsonb_contained(c; a: jsonb, b: jsonb) = root_contains(b, a)?;
    fn jsonb_concat(c; a: jsonb, b: jsonb) = concat(a, b)?;
    fn jsonb_delete(c; j: jsonb, k: text) = delete_keys(j, std::iter::once(k))?;
    fn jsonb_delete_idx(c; j: jsonb, i: int4) = delete_element(j, i)?;
    fn jsonb_delete_array(c; j: jsonb, k: array) = delete_keys(j, each_key(k))?;
    fn jsonb_delete_path(c; j: jsonb, p: array) = change(j, p, PathChange::Delete, &[])?;
    fn jsonb_set(c; j: jsonb, p: array, v: jsonb, create: boolean) = change(j, p, set(create), v)?;
    fn jsonb_insert(c; j: jsonb, p: array, v: jsonb, after: boolean) = change(j, p, if after { PathChange::InsertAfter } else { PathChange::InsertBefore }, v)?;
    fn jsonb_bool(c; j: jsonb) = to_bool(j)?;
    fn jsonb_numeric(c; j: jsonb) = to_number(j, NUMERIC, "numeric", c)?;
    fn jsonb_int2(c; j: jsonb) = to_number(j, INT2, "smallint", c)?;
    fn jsonb_int4(c; j: jsonb) = to_number(j, INT4, "integer", c)?;
    fn jsonb_int8(c; j: jsonb) = to_number(j, INT8, "bigint", c)?;
    fn jsonb_float4(c; j: jsonb) = to_number(j, FLOAT4, "real", c)?;
    fn jsonb_float8(c; j: jsonb) = to_number(j, FLOAT8, "double precision", c)?;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn many_keys_give_way() {
        let count = 20_000;
        let names: Vec<String> = (0..count).map(|i| format!("\"k{i}\"")).collect();
        let list = JsonValue::parse(&format!("[{}]", names.join(", "))).unwrap();
        let (list, keys) = (binary::encode(&list).unwrap(), vec![Datum::text("none"); 1000]);
        let keys = Array { element_type: TEXT, dims: vec![(1, 1000)], elements: keys };
        asks(worth(count * 20), |_| exists(&list, "none"));
        asks(worth(count * 20 * 1000 / 4), |_| all_exist(&list, &keys, false));
        assert!(
            all_exist(&list, &Array { elements: vec![Datum::text("k7"), Datum::text("k8")], ..keys }, true).unwrap()
        );
        let values: Vec<JsonValue> = (0..count).map(|_| JsonValue::Null).collect();
        asks(worth(count * 50), |_| strip(JsonValue::Array(values.clone()), false));
        asks(worth(count * 50), |_| kept(values.clone(), |_| true));
    }
}
