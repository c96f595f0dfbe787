//! What JSON_OBJECT(…) and JSON_ARRAY(…) call: functions that pg_proc does not have. Their first argument says what the
//! clauses say.

use super::json::{json_array, json_object_of, typed};
use crate::json::value::{self, JsonValue};
use crate::json::{binary, convert};
use crate::{Datum, EvalContext};
use kilndb_base::hash::HashSet;
use kilndb_base::{Error, Oid, Result, sqlstate};

pub const JSON_OBJECT: Oid = 9911;
pub const JSONB_OBJECT: Oid = 9912;
pub const JSON_ARRAY: Oid = 9913;
pub const JSONB_ARRAY: Oid = 9914;

/// ABSENT ON NULL: what is NULL is left out.
pub const ABSENT_ON_NULL: i32 = 1;
/// WITH UNIQUE KEYS.
pub const UNIQUE_KEYS: i32 = 2;

struct Clauses {
    absent_on_null: bool,
    unique: bool,
}

/// The clauses, and the values with their types.
fn given(args: &[Datum]) -> Result<(Clauses, Vec<(Oid, Datum)>)> {
    let mut list = typed(args)?.unwrap_or_default();
    if list.is_empty() {
        return Err(Error::internal("a constructor of JSON without its clauses"));
    }
    let Datum::Int4(flags) = list.remove(0).1 else {
        return Err(Error::internal("clauses of a constructor of JSON are no number"));
    };
    let has = |flag: i32| flags & flag != 0;
    Ok((Clauses { absent_on_null: has(ABSENT_ON_NULL), unique: has(UNIQUE_KEYS) }, list))
}

pub(crate) fn p9911_json_object(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (clauses, list) = given(args)?;
    json_object_of(&list, clauses.absent_on_null, clauses.unique, ctx)
}

pub(crate) fn p9912_json_object(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (clauses, list) = given(args)?;
    let (mut out, mut seen) = (Vec::new(), HashSet::default());
    for (at, pair) in list.chunks_exact(2).enumerate() {
        let ((key_type, key), (ty, v)) = (&pair[0], &pair[1]);
        if key.is_null() {
            let message = format!("argument {}: key must not be null", 2 * at + 1);
            return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        let key = convert::to_key(*key_type, key, ctx)?;
        if clauses.unique && !seen.insert(key.clone()) {
            let message = "duplicate JSON object key value";
            return Err(Error::new(sqlstate::DUPLICATE_JSON_OBJECT_KEY_VALUE, message));
        }
        if !(clauses.absent_on_null && v.is_null()) {
            out.push((key, convert::to_value(*ty, v, ctx)?));
        }
    }
    binary::datum(&value::object(out)?)
}

pub(crate) fn p9913_json_array(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (clauses, list) = given(args)?;
    json_array(&list, clauses.absent_on_null, ctx)
}

pub(crate) fn p9914_json_array(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (clauses, list) = given(args)?;
    let kept = list.iter().filter(|(_, v)| !(clauses.absent_on_null && v.is_null()));
    let values = kept.map(|(ty, v)| convert::to_value(*ty, v, ctx)).collect::<Result<_>>()?;
    binary::datum(&JsonValue::Array(values))
}
