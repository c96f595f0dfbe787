//! json and jsonb read in one way: what takes both asks a [`JsonNode`].

use super::parse::{ParsedJson, ParsedJsonKind};
use super::value::JsonValue;
use crate::pieces;
use kilndb_base::Result;

#[derive(Clone, Copy)]
pub enum JsonNode<'a> {
    /// A value and the text that it is a part of.
    Json(&'a ParsedJson, &'a str),
    Jsonb(&'a JsonValue),
}

impl<'a> JsonNode<'a> {
    pub fn is_null(self) -> bool {
        matches!(
            self,
            JsonNode::Json(ParsedJson { kind: ParsedJsonKind::Null, .. }, _) | JsonNode::Jsonb(JsonValue::Null)
        )
    }
    pub fn is_array(self) -> bool {
        matches!(
            self,
            JsonNode::Json(ParsedJson { kind: ParsedJsonKind::Array(_), .. }, _) | JsonNode::Jsonb(JsonValue::Array(_))
        )
    }
    pub(crate) fn is_object(self) -> bool {
        matches!(
            self,
            JsonNode::Json(ParsedJson { kind: ParsedJsonKind::Object(_), .. }, _)
                | JsonNode::Jsonb(JsonValue::Object(_))
        )
    }
    pub fn string(self) -> Option<&'a str> {
        match self {
            JsonNode::Json(ParsedJson { kind: ParsedJsonKind::String(s), .. }, _)
            | JsonNode::Jsonb(JsonValue::String(s)) => Some(s),
            _ => None,
        }
    }
    pub fn type_name(self) -> &'static str {
        match self {
            JsonNode::Jsonb(v) => v.type_name(),
            JsonNode::Json(p, _) => match p.kind {
                ParsedJsonKind::Null => "null",
                ParsedJsonKind::Bool(_) => "boolean",
                ParsedJsonKind::Number => "number",
                ParsedJsonKind::String(_) => "string",
                ParsedJsonKind::Array(_) => "array",
                ParsedJsonKind::Object(_) => "object",
            },
        }
    }
    pub fn elements(self) -> Option<Vec<JsonNode<'a>>> {
        match self {
            JsonNode::Json(ParsedJson { kind: ParsedJsonKind::Array(list), .. }, text) => {
                Some(list.iter().map(|v| JsonNode::Json(v, text)).collect())
            }
            JsonNode::Jsonb(JsonValue::Array(list)) => Some(list.iter().map(JsonNode::Jsonb).collect()),
            _ => None,
        }
    }
    pub fn members(self) -> Option<Vec<(&'a str, JsonNode<'a>)>> {
        match self {
            JsonNode::Json(ParsedJson { kind: ParsedJsonKind::Object(list), .. }, text) => {
                Some(list.iter().map(|(k, v)| (k.as_str(), JsonNode::Json(v, text))).collect())
            }
            JsonNode::Jsonb(JsonValue::Object(list)) => {
                Some(list.iter().map(|(k, v)| (k.as_str(), JsonNode::Jsonb(v))).collect())
            }
            _ => None,
        }
    }
    /// The member with this key. Of equal keys the last one counts.
    pub fn get(self, key: &str) -> Option<JsonNode<'a>> {
        match self {
            JsonNode::Json(ParsedJson { kind: ParsedJsonKind::Object(list), .. }, text) => {
                list.iter().rev().find(|(k, _)| k == key).map(|(_, v)| JsonNode::Json(v, text))
            }
            JsonNode::Jsonb(v) => v.get(key).map(JsonNode::Jsonb),
            _ => None,
        }
    }
    pub fn element(self, index: i64) -> Option<JsonNode<'a>> {
        let count = match self {
            JsonNode::Json(ParsedJson { kind: ParsedJsonKind::Array(list), .. }, _) => list.len(),
            JsonNode::Jsonb(JsonValue::Array(list)) => list.len(),
            _ => return None,
        };
        let index = usize::try_from(if index < 0 { index + count as i64 } else { index }).ok()?;
        match self {
            JsonNode::Json(ParsedJson { kind: ParsedJsonKind::Array(list), .. }, text) => {
                list.get(index).map(|v| JsonNode::Json(v, text))
            }
            JsonNode::Jsonb(JsonValue::Array(list)) => list.get(index).map(JsonNode::Jsonb),
            _ => None,
        }
    }
    /// As JSON.
    pub(crate) fn json_text(self) -> Result<String> {
        match self {
            JsonNode::Json(p, text) => pieces::concat(&[text.get(p.start..p.end).unwrap_or("")]),
            JsonNode::Jsonb(v) => v.text(),
        }
    }
    /// As ->> gives it: a string without quotes, null as none.
    pub(crate) fn plain_text(self) -> Result<Option<String>> {
        match self.string() {
            Some(s) => pieces::concat(&[s]).map(Some),
            None if self.is_null() => Ok(None),
            None => self.json_text().map(Some),
        }
    }
    /// Along a path; numbers find elements.
    pub fn follow(self, path: &[&str]) -> Option<JsonNode<'a>> {
        let Some((step, rest)) = path.split_first() else { return Some(self) };
        match self {
            // The path leads on through the last of the members with one key.
            JsonNode::Json(ParsedJson { kind: ParsedJsonKind::Object(list), .. }, text) => {
                list.iter().rev().filter(|(k, _)| k == step).find_map(|(_, v)| JsonNode::Json(v, text).follow(rest))
            }
            node if node.is_array() => node.element(array_index(step)?)?.follow(rest),
            node => node.get(step)?.follow(rest),
        }
    }
}

/// A path's step as a number, as C reads one.
pub(crate) fn array_index(step: &str) -> Option<i64> {
    let digits = step.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    digits.strip_prefix('+').filter(|d| !d.starts_with(['-', '+'])).unwrap_or(digits).parse::<i32>().ok().map(i64::from)
}
