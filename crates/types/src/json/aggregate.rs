//! json_agg, json_object_agg and their kin.

use super::value::{self, JsonValue};
use super::{binary, convert};
use crate::aggregates::{Accumulator, aggregates};
use crate::functions::limits;
use crate::{Datum, EvalContext, oids::*};
use kilndb_base::hash::{HashSet, HashSetExt};
use kilndb_base::{Error, Oid, Result, sqlstate};

#[derive(Default)]
struct JsonAggregateOptions {
    types: Vec<Oid>,
    /// Null values are left out.
    strict: bool,
    unique: bool,
}
impl JsonAggregateOptions {
    fn argument(&self, args: &[Datum], i: usize) -> (Oid, Datum) {
        (self.types.get(i).copied().unwrap_or(TEXT), args.get(i).cloned().unwrap_or_default())
    }
}

/// json_agg: the text as it grows.
struct JsonList {
    options: JsonAggregateOptions,
    text: Option<Vec<u8>>,
}
impl Accumulator for JsonList {
    fn add(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<()> {
        let (ty, v) = self.options.argument(args, 0);
        let first = self.text.is_none();
        let text = self.text.get_or_insert_with(|| b"[".to_vec());
        if v.is_null() && self.options.strict {
            return Ok(());
        }
        if !first && text.len() > 1 {
            text.extend_from_slice(b", ");
            // Rows and arrays begin a line.
            if matches!(v, Datum::Array(_) | Datum::Record(_)) {
                text.extend_from_slice(b"\n ");
            }
        }
        convert::write_json(ty, &v, text, ctx)?;
        limits::room(text.len(), 0)
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        Ok(self.text.as_ref().map_or(Datum::Null, |t| Datum::text(format!("{}]", String::from_utf8_lossy(t)))))
    }
}

struct JsonbList {
    options: JsonAggregateOptions,
    list: Option<Vec<JsonValue>>,
}
impl Accumulator for JsonbList {
    fn add(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<()> {
        let (ty, v) = self.options.argument(args, 0);
        let list = self.list.get_or_insert_default();
        if !(v.is_null() && self.options.strict) {
            list.push(convert::to_value(ty, &v, ctx)?);
        }
        Ok(())
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        self.list.as_ref().map_or(Ok(Datum::Null), |list| binary::datum(&JsonValue::Array(list.clone())))
    }
}

struct JsonObject {
    options: JsonAggregateOptions,
    text: Option<Vec<u8>>,
    seen: HashSet<Vec<u8>>,
}
impl Accumulator for JsonObject {
    fn add(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<()> {
        let ((key_type, key), (ty, v)) = (self.options.argument(args, 0), self.options.argument(args, 1));
        let text = self.text.get_or_insert_with(|| b"{ ".to_vec());
        if key.is_null() {
            return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key"));
        }
        let leave_out = self.options.strict && v.is_null();
        if leave_out && !self.options.unique {
            return Ok(());
        }
        let mut written = Vec::new();
        convert::write_json_key(key_type, &key, &mut written, ctx)?;
        if self.options.unique && !self.seen.insert(written.clone()) {
            return Err(duplicate(&written));
        }
        if leave_out {
            return Ok(());
        }
        if text.len() > 2 {
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(&written);
        text.extend_from_slice(b" : ");
        convert::write_json(ty, &v, text, ctx)?;
        limits::room(text.len(), 0)
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        Ok(self.text.as_ref().map_or(Datum::Null, |t| Datum::text(format!("{} }}", String::from_utf8_lossy(t)))))
    }
}

/// The key as it is written, quotes included.
pub fn duplicate(key: &[u8]) -> Error {
    Error::new(
        sqlstate::DUPLICATE_JSON_OBJECT_KEY_VALUE,
        format!("duplicate JSON object key value: {}", String::from_utf8_lossy(key)),
    )
}

/// The same of jsonb, which does not say which key it is.
pub fn duplicate_of_jsonb() -> Error {
    Error::new(sqlstate::DUPLICATE_JSON_OBJECT_KEY_VALUE, "duplicate JSON object key value")
}

struct JsonbObject {
    options: JsonAggregateOptions,
    pairs: Option<Vec<(String, JsonValue)>>,
    seen: HashSet<String>,
}
impl Accumulator for JsonbObject {
    fn add(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<()> {
        let ((key_type, key), (ty, v)) = (self.options.argument(args, 0), self.options.argument(args, 1));
        let pairs = self.pairs.get_or_insert_default();
        if key.is_null() {
            return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, "field name must not be null"));
        }
        let leave_out = self.options.strict && v.is_null();
        if leave_out && !self.options.unique {
            return Ok(());
        }
        let key = convert::to_key(key_type, &key, ctx)?;
        if self.options.unique && !self.seen.insert(key.clone()) {
            return Err(duplicate_of_jsonb());
        }
        if !leave_out {
            pairs.push((key, convert::to_value(ty, &v, ctx)?));
        }
        Ok(())
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        self.pairs.as_ref().map_or(Ok(Datum::Null), |pairs| binary::datum(&value::object(pairs.clone())?))
    }
}

fn options(types: &[Oid], strict: bool, unique: bool) -> JsonAggregateOptions {
    JsonAggregateOptions { types: types.to_vec(), strict, unique }
}
fn list(options: JsonAggregateOptions) -> Box<dyn Accumulator> {
    Box::new(JsonList { options, text: None })
}
fn binary_list(options: JsonAggregateOptions) -> Box<dyn Accumulator> {
    Box::new(JsonbList { options, list: None })
}
fn object(options: JsonAggregateOptions) -> Box<dyn Accumulator> {
    Box::new(JsonObject { options, text: None, seen: HashSet::new() })
}
fn binary_object(options: JsonAggregateOptions) -> Box<dyn Accumulator> {
    Box::new(JsonbObject { options, pairs: None, seen: HashSet::new() })
}

aggregates! {
    fn json_agg(types; 3175) = list(options(types, false, false));
    fn json_agg_strict(types; 6276) = list(options(types, true, false));
    fn jsonb_agg(types; 3267) = binary_list(options(types, false, false));
    fn jsonb_agg_strict(types; 6284) = binary_list(options(types, true, false));
    fn json_object_agg(types; 3197) = object(options(types, false, false));
    fn json_object_agg_strict(types; 6280) = object(options(types, true, false));
    fn json_object_agg_unique(types; 6281) = object(options(types, false, true));
    fn json_object_agg_unique_strict(types; 6282) = object(options(types, true, true));
    fn jsonb_object_agg(types; 3270) = binary_object(options(types, false, false));
    fn jsonb_object_agg_strict(types; 6288) = binary_object(options(types, true, false));
    fn jsonb_object_agg_unique(types; 6289) = binary_object(options(types, false, true));
    fn jsonb_object_agg_unique_strict(types; 6290) = binary_object(options(types, true, true));
}
