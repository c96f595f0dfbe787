//! json and jsonb read in one way: what takes both asks a [`Node`].

use super::parse::{Kind, Parsed};
use super::value::Value;
use crate::pieces;
use kilndb_base::Result;

#[derive(Clone, Copy)]
pub enum Node<'a> {
    /// A value and the text that it is a part of.
    Json(&'a Parsed, &'a str),
    Jsonb(&'a Value),
}

impl<'a> Node<'a> {
    pub fn is_null(self) -> bool {
        matches!(self, Node::Json(Parsed { kind: Kind::Null, .. }, _) | Node::Jsonb(Value::Null))
    }
    pub fn is_array(self) -> bool {
        matches!(self, Node::Json(Parsed { kind: Kind::Array(_), .. }, _) | Node::Jsonb(Value::Array(_)))
    }
    pub fn is_object(self) -> bool {
        matches!(self, Node::Json(Parsed { kind: Kind::Object(_), .. }, _) | Node::Jsonb(Value::Object(_)))
    }
    pub fn string(self) -> Option<&'a str> {
        match self {
            Node::Json(Parsed { kind: Kind::String(s), .. }, _) | Node::Jsonb(Value::String(s)) => Some(s),
            _ => None,
        }
    }
    pub fn type_name(self) -> &'static str {
        match self {
            Node::Jsonb(v) => v.type_name(),
            Node::Json(p, _) => match p.kind {
                Kind::Null => "null",
                Kind::Bool(_) => "boolean",
                Kind::Number => "number",
                Kind::String(_) => "string",
                Kind::Array(_) => "array",
                Kind::Object(_) => "object",
            },
        }
    }
    pub fn elements(self) -> Option<Vec<Node<'a>>> {
        match self {
            Node::Json(Parsed { kind: Kind::Array(list), .. }, text) => {
                Some(list.iter().map(|v| Node::Json(v, text)).collect())
            }
            Node::Jsonb(Value::Array(list)) => Some(list.iter().map(Node::Jsonb).collect()),
            _ => None,
        }
    }
    pub fn members(self) -> Option<Vec<(&'a str, Node<'a>)>> {
        match self {
            Node::Json(Parsed { kind: Kind::Object(list), .. }, text) => {
                Some(list.iter().map(|(k, v)| (k.as_str(), Node::Json(v, text))).collect())
            }
            Node::Jsonb(Value::Object(list)) => Some(list.iter().map(|(k, v)| (k.as_str(), Node::Jsonb(v))).collect()),
            _ => None,
        }
    }
    /// Of equal keys the last one counts.
    pub fn get(self, key: &str) -> Option<Node<'a>> {
        match self {
            Node::Json(Parsed { kind: Kind::Object(list), .. }, text) => {
                list.iter().rev().find(|(k, _)| k == key).map(|(_, v)| Node::Json(v, text))
            }
            Node::Jsonb(v) => v.get(key).map(Node::Jsonb),
            _ => None,
        }
    }
    pub fn element(self, index: i64) -> Option<Node<'a>> {
        let count = match self {
            Node::Json(Parsed { kind: Kind::Array(list), .. }, _) => list.len(),
            Node::Jsonb(Value::Array(list)) => list.len(),
            _ => return None,
        };
        let index = usize::try_from(if index < 0 { index + count as i64 } else { index }).ok()?;
        match self {
            Node::Json(Parsed { kind: Kind::Array(list), .. }, text) => list.get(index).map(|v| Node::Json(v, text)),
            Node::Jsonb(Value::Array(list)) => list.get(index).map(Node::Jsonb),
            _ => None,
        }
    }
    /// As JSON.
    pub fn json_text(self) -> Result<String> {
        match self {
            Node::Json(p, text) => pieces::concat(&[text.get(p.start..p.end).unwrap_or("")]),
            Node::Jsonb(v) => v.text(),
        }
    }
    /// As ->> gives it: a string without quotes, null as none.
    pub fn plain_text(self) -> Result<Option<String>> {
        match self.string() {
            Some(s) => pieces::concat(&[s]).map(Some),
            None if self.is_null() => Ok(None),
            None => self.json_text().map(Some),
        }
    }
    /// Along a path; numbers find elements.
    pub fn follow(self, path: &[&str]) -> Option<Node<'a>> {
        let Some((step, rest)) = path.split_first() else { return Some(self) };
        match self {
            // Of members with one key, the last one through which the path leads on.
            Node::Json(Parsed { kind: Kind::Object(list), .. }, text) => {
                list.iter().rev().filter(|(k, _)| k == step).find_map(|(_, v)| Node::Json(v, text).follow(rest))
            }
            node if node.is_array() => node.element(array_index(step)?)?.follow(rest),
            node => node.get(step)?.follow(rest),
        }
    }
}

/// A path's step as a number, as C reads one.
pub fn array_index(step: &str) -> Option<i64> {
    let digits = step.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    digits.strip_prefix('+').filter(|d| !d.starts_with(['-', '+'])).unwrap_or(digits).parse::<i32>().ok().map(i64::from)
}
