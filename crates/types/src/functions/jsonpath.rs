//! Functions and operators of jsonpath. A value of the type is held as its normalised text.

use super::get::arg;
use crate::json::path_parse::{self, JsonPath};
use crate::json::{JsonValue, binary, path_run};
use crate::{Datum, EvalContext};
use kilndb_base::{Error, Result, sqlstate};

/// The arguments of a call: path, value, variables, silent.
struct JsonpathCall {
    path: JsonPath,
    root: JsonValue,
    vars: Option<JsonValue>,
    silent: bool,
}
impl JsonpathCall {
    fn new(args: &[Datum]) -> Result<JsonpathCall> {
        let (Datum::Jsonb(root), Datum::Text(path)) = (arg(args, 0)?, arg(args, 1)?) else {
            return Err(Error::internal("no jsonpath call"));
        };
        let vars = match args.get(2) {
            Some(Datum::Jsonb(v)) => Some(binary::decode(v)?),
            _ => None,
        };
        let silent = matches!(args.get(3), Some(Datum::Bool(true)));
        Ok(JsonpathCall { path: path_parse::parse(path)?, root: binary::decode(root)?, vars, silent })
    }
    fn list(&self, ctx: &EvalContext) -> Result<Vec<JsonValue>> {
        path_run::query(&self.path, &self.root, self.vars.as_ref(), self.silent, ctx)
    }
    fn exists(&self, ctx: &EvalContext) -> Result<Datum> {
        Ok(path_run::exists(&self.path, &self.root, self.vars.as_ref(), self.silent, ctx)?
            .map_or(Datum::Null, Datum::Bool))
    }
    fn matches(&self, ctx: &EvalContext) -> Result<Datum> {
        match self.list(ctx)?.as_slice() {
            [JsonValue::Bool(b)] => Ok(Datum::Bool(*b)),
            [JsonValue::Null] => Ok(Datum::Null),
            _ if self.silent => Ok(Datum::Null),
            _ => Err(Error::new(sqlstate::SINGLETON_SQL_JSON_ITEM_REQUIRED, "single boolean result is expected")),
        }
    }
}

pub(crate) fn jsonb_path_exists(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    JsonpathCall::new(args)?.exists(ctx)
}
pub(crate) fn jsonb_path_match(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    JsonpathCall::new(args)?.matches(ctx)
}
pub(crate) fn jsonb_path_exists_opr(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    JsonpathCall { silent: true, ..JsonpathCall::new(args)? }.exists(ctx)
}
pub(crate) fn jsonb_path_match_opr(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    JsonpathCall { silent: true, ..JsonpathCall::new(args)? }.matches(ctx)
}
pub(crate) fn jsonb_path_query_array(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    binary::datum(&JsonValue::Array(JsonpathCall::new(args)?.list(ctx)?))
}
pub(crate) fn jsonb_path_query_first(ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    JsonpathCall::new(args)?.list(ctx)?.first().map_or(Ok(Datum::Null), binary::datum)
}
/// The rows of jsonb_path_query.
pub fn query(args: &[Datum], ctx: &EvalContext) -> Result<Vec<Datum>> {
    JsonpathCall::new(args)?.list(ctx)?.iter().map(binary::datum).collect()
}
