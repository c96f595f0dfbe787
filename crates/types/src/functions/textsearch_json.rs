//! Text search in json and jsonb: documents made of the strings (or of more) of a value, and headlines of its strings.

use super::json::write_compact;
use super::textsearch::{config, shown, tell};
use crate::json::binary;
use crate::json::node::JsonNode;
use crate::json::populate::OpenedJson;
use crate::json::value::{JsonValue, escape};
use crate::{Datum, EvalContext};
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use kilndb_fulltext::config::DocumentWords;
use kilndb_fulltext::{TsQuery, TsVector};

/// Which parts of a value become words.
#[derive(Clone, Copy, Default)]
struct JsonParts {
    keys: bool,
    strings: bool,
    numbers: bool,
    booleans: bool,
}
const STRINGS: JsonParts = JsonParts { keys: false, strings: true, numbers: false, booleans: false };

const POSSIBLE: &str = "Possible values are: \"string\", \"numeric\", \"boolean\", \"key\", and \"all\".";

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

impl JsonParts {
    fn named(filter: &Datum) -> Result<JsonParts> {
        let opened = OpenedJson::new(filter)?;
        let node = opened.node();
        let names = match node.elements() {
            Some(list) => list,
            None if node.is_object() => return Err(invalid("wrong flag type, only arrays and scalars are allowed")),
            None => vec![node],
        };
        let mut parts = JsonParts::default();
        for name in names {
            let name =
                name.string().ok_or_else(|| invalid("flag array element is not a string").with_hint(POSSIBLE))?;
            match name.to_ascii_lowercase().as_str() {
                "all" => parts = JsonParts { keys: true, strings: true, numbers: true, booleans: true },
                "key" => parts.keys = true,
                "string" => parts.strings = true,
                "numeric" => parts.numbers = true,
                "boolean" => parts.booleans = true,
                _ => return Err(invalid(format!("wrong flag in flag array: \"{name}\"")).with_hint(POSSIBLE)),
            }
        }
        Ok(parts)
    }
    fn each(self, node: JsonNode<'_>, visit: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        work::step(50)?;
        if let Some(members) = node.members() {
            for (key, value) in members {
                if self.keys {
                    visit(key)?;
                }
                self.each(value, visit)?;
            }
            Ok(())
        } else if let Some(elements) = node.elements() {
            elements.into_iter().try_for_each(|e| self.each(e, visit))
        } else {
            match node.type_name() {
                "string" if self.strings => visit(node.string().unwrap_or_default()),
                "number" if self.numbers => visit(&node.json_text()?),
                "boolean" if self.booleans => visit(&node.json_text()?),
                _ => Ok(()),
            }
        }
    }
}

fn vector(ctx: &EvalContext<'_>, oid: Option<Oid>, document: &Datum, parts: JsonParts) -> Result<TsVector> {
    let (config, mut words, mut notices) = (config(ctx, oid)?, DocumentWords::default(), Vec::new());
    let opened = OpenedJson::new(document)?;
    parts.each(opened.node(), &mut |text| words.add_apart(&config, text, &mut notices))?;
    tell(ctx, notices);
    words.into_vector()
}

/// A value with its strings as headlines: json as text without spaces, jsonb as it is.
struct JsonHeadlines<'a> {
    ctx: &'a EvalContext<'a>,
    config: Option<Oid>,
    query: &'a TsQuery,
    options: &'a str,
}

impl JsonHeadlines<'_> {
    fn of(&self, text: &str) -> Result<String> {
        shown(self.ctx, self.config, text, self.query, self.options)
    }
    fn value(&self, value: &JsonValue) -> Result<JsonValue> {
        Ok(match value {
            JsonValue::String(s) => JsonValue::String(self.of(s)?),
            JsonValue::Array(list) => JsonValue::Array(list.iter().map(|v| self.value(v)).collect::<Result<_>>()?),
            JsonValue::Object(list) => {
                JsonValue::Object(list.iter().map(|(k, v)| Ok((k.clone(), self.value(v)?))).collect::<Result<_>>()?)
            }
            other => other.clone(),
        })
    }
}

fn headlines(
    ctx: &EvalContext<'_>,
    config: Option<Oid>,
    document: &Datum,
    query: &TsQuery,
    options: &str,
) -> Result<Datum> {
    let headlines = JsonHeadlines { ctx, config, query, options };
    let opened = OpenedJson::new(document)?;
    match opened.node() {
        JsonNode::Jsonb(value) => binary::datum(&headlines.value(value)?),
        JsonNode::Json(parsed, source) => {
            let mut out = Vec::new();
            let string = |s: &str, out: &mut Vec<u8>| {
                escape(&headlines.of(s)?, out);
                Ok(())
            };
            write_compact(parsed, source, &|_, _| true, &string, &mut out)?;
            Ok(Datum::text(String::from_utf8_lossy(&out)))
        }
    }
}

scalars! {
    fn strings_to_tsvector(ctx; d: any) = vector(ctx, None, d, STRINGS)?;
    fn strings_to_tsvector_byid(ctx; c: oid, d: any) = vector(ctx, Some(c), d, STRINGS)?;
    fn parts_to_tsvector(ctx; d: any, f: any) = vector(ctx, None, d, JsonParts::named(f)?)?;
    fn parts_to_tsvector_byid(ctx; c: oid, d: any, f: any) = vector(ctx, Some(c), d, JsonParts::named(f)?)?;
    fn ts_headline(ctx; d: any, q: tsquery) = headlines(ctx, None, d, q, "")?;
    fn ts_headline_opt(ctx; d: any, q: tsquery, o: text) = headlines(ctx, None, d, q, o)?;
    fn ts_headline_byid(ctx; c: oid, d: any, q: tsquery) = headlines(ctx, Some(c), d, q, "")?;
    fn ts_headline_byid_opt(ctx; c: oid, d: any, q: tsquery, o: text) = headlines(ctx, Some(c), d, q, o)?;
}
