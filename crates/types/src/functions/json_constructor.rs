//! What JSON_OBJECT(…) and JSON_ARRAY(…) call: functions that pg_proc does not have. Their first argument says what the
//! clauses say.

use super::json::{json_array, json_object_of, jsonb_array, jsonb_object_of, typed};
use crate::{Datum, EvalContext};
use kilndb_base::{Error, Oid, Result};

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
    jsonb_object_of(&list, clauses.absent_on_null, clauses.unique, ctx)
}

pub(crate) fn p9913_json_array(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (clauses, list) = given(args)?;
    json_array(&list, clauses.absent_on_null, ctx)
}

pub(crate) fn p9914_json_array(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (clauses, list) = given(args)?;
    jsonb_array(&list, clauses.absent_on_null, ctx)
}
