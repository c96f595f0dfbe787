//! Changes of a jsonb value along a path: jsonb_set, jsonb_insert, #-, assignment to subscripts.

use super::node::array_index;
use super::value::{JsonValue, key_order};
use kilndb_base::{Error, Result, sqlstate};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathChange {
    /// Replaced, or made where only the last step is missing.
    Create,
    Replace,
    Delete,
    InsertBefore,
    InsertAfter,
    /// Assignment to a subscript: whatever is missing is made.
    Assign,
}
impl PathChange {
    fn creates(self) -> bool {
        !matches!(self, PathChange::Replace | PathChange::Delete)
    }
    fn inserts(self) -> bool {
        matches!(self, PathChange::InsertBefore | PathChange::InsertAfter)
    }
}

/// What is done, and where.
pub struct PathAssignment<'a> {
    pub steps: &'a [Option<&'a str>],
    pub change: PathChange,
    pub new: &'a JsonValue,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}
fn scalar_in_the_way() -> Error {
    invalid("cannot replace existing key")
        .with_detail("The path assumes key is a composite object, but it is a scalar value.")
}

impl PathAssignment<'_> {
    pub fn apply(&self, target: JsonValue, level: usize) -> Result<JsonValue> {
        let Some(step) = self.steps.get(level) else { return Ok(target) };
        let Some(step) = step else {
            return Err(Error::new(
                sqlstate::NULL_VALUE_NOT_ALLOWED,
                format!("path element at position {} is null", level + 1),
            ));
        };
        match target {
            JsonValue::Array(list) => self.in_array(list, step, level),
            JsonValue::Object(list) => self.in_object(list, step, level),
            _ if self.change == PathChange::Assign => Err(scalar_in_the_way()),
            scalar => Ok(scalar),
        }
    }
    fn is_last(&self, level: usize) -> bool {
        level + 1 == self.steps.len()
    }

    fn in_array(&self, mut list: Vec<JsonValue>, step: &str, level: usize) -> Result<JsonValue> {
        let Some(asked) = array_index(step) else {
            let message = format!("path element at position {} is not an integer: \"{step}\"", level + 1);
            return Err(Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, message));
        };
        let count = list.len() as i64;
        if asked < 0 && -asked > count && self.change == PathChange::Assign {
            return Err(invalid(format!("path element at position {} is out of range: {asked}", level + 1)));
        }
        let before_all = asked < 0 && -asked > count;
        let index = if asked < 0 { asked + count } else { asked };
        if let Some(at) = usize::try_from(index).ok().filter(|i| *i < list.len()) {
            if !self.is_last(level) {
                list[at] = self.apply(std::mem::replace(&mut list[at], JsonValue::Null), level + 1)?;
                return Ok(JsonValue::Array(list));
            }
            match self.change {
                PathChange::Delete => {
                    list.remove(at);
                }
                PathChange::InsertBefore => list.insert(at, self.new.clone()),
                PathChange::InsertAfter => list.insert(at + 1, self.new.clone()),
                PathChange::Create | PathChange::Replace | PathChange::Assign => list[at] = self.new.clone(),
            }
            return Ok(JsonValue::Array(list));
        }
        if self.is_last(level) && self.change.creates() {
            if before_all {
                list.insert(0, self.new.clone());
                return Ok(JsonValue::Array(list));
            }
            if self.change == PathChange::Assign {
                fill(&mut list, index)?;
            }
            list.push(self.new.clone());
        } else if self.change == PathChange::Assign {
            fill(&mut list, index)?;
            list.push(self.made(level + 1)?);
        }
        Ok(JsonValue::Array(list))
    }

    fn in_object(&self, mut list: Vec<(String, JsonValue)>, step: &str, level: usize) -> Result<JsonValue> {
        match list.binary_search_by(|p| key_order(&p.0, step)) {
            Ok(at) if !self.is_last(level) => {
                list[at].1 = self.apply(std::mem::replace(&mut list[at].1, JsonValue::Null), level + 1)?;
            }
            Ok(_) if self.change.inserts() => {
                return Err(invalid("cannot replace existing key")
                    .with_hint("Try using the function jsonb_set to replace key value."));
            }
            Ok(at) if self.change == PathChange::Delete => {
                list.remove(at);
            }
            Ok(at) => list[at].1 = self.new.clone(),
            Err(at) if self.is_last(level) && self.change.creates() => {
                list.insert(at, (step.to_string(), self.new.clone()))
            }
            Err(at) if self.change == PathChange::Assign => {
                let value = self.made(level + 1)?;
                list.insert(at, (step.to_string(), value));
            }
            Err(_) => {}
        }
        Ok(JsonValue::Object(list))
    }

    /// What stands behind the steps before `level`: arrays where steps are numbers, objects elsewhere.
    fn made(&self, level: usize) -> Result<JsonValue> {
        let Some(step) = self.steps.get(level) else { return Ok(self.new.clone()) };
        let Some(step) = step else {
            return Err(Error::new(
                sqlstate::NULL_VALUE_NOT_ALLOWED,
                format!("path element at position {} is null", level + 1),
            ));
        };
        let inner = self.made(level + 1)?;
        Ok(match array_index(step) {
            Some(index) => {
                let mut list = Vec::new();
                fill(&mut list, index)?;
                list.push(inner);
                JsonValue::Array(list)
            }
            None => JsonValue::Object(vec![(step.to_string(), inner)]),
        })
    }
}

/// Nulls up to `count` elements.
fn fill(list: &mut Vec<JsonValue>, count: i64) -> Result<()> {
    const MOST: i64 = 0x0fff_ffff / 16;
    if count > MOST {
        return Err(Error::new(
            sqlstate::PROGRAM_LIMIT_EXCEEDED,
            format!("number of jsonb array elements exceeds the maximum allowed ({MOST})"),
        ));
    }
    if let Ok(count) = usize::try_from(count)
        && count > list.len()
    {
        list.resize(count, JsonValue::Null);
    }
    Ok(())
}
