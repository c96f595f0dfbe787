//! What a jsonpath needs of a value. Accessors need their keys, comparisons an item on each side, and one with a
//! literal that value. What is computed (methods, arithmetic, variables, NOT) needs nothing.

use super::jsonb::{KEY, ROOT, STRING, below, leaf, scalar, text};
use super::{TermCollector, TermCondition};
use crate::json::JsonValue;
use crate::json::path_parse::{JsonPath, PathAccessor, PathExpr, PathOperator};

/// Where accessors have led to.
#[derive(Clone, Copy)]
struct PathPosition {
    /// The item is a part of the document.
    is_known: bool,
    /// The keys above it.
    path: Option<u64>,
}
const NOWHERE: PathPosition = PathPosition { is_known: false, path: None };

struct JsonpathExtractor<'t> {
    /// Whether terms are those of jsonb_path_ops.
    by_path: bool,
    terms: &'t mut TermCollector,
}

/// `is_condition`: the path's result must be true (@@); else it must have one (@?).
pub fn need(by_path: bool, is_condition: bool, path: &JsonPath, terms: &mut TermCollector) -> TermCondition {
    let root = PathPosition { is_known: true, path: Some(ROOT) };
    let mut reader = JsonpathExtractor { by_path, terms };
    match &path.expr {
        e @ (PathExpr::Root | PathExpr::Chain(..)) => reader.path(e, root).0,
        e if is_condition => reader.condition(e, root),
        // Whatever a condition says, it is a result.
        _ => TermCondition::Anything,
    }
}

impl JsonpathExtractor<'_> {
    /// What it needs to have an item, and where that is. `current`: what @ means.
    fn path(&mut self, e: &PathExpr, current: PathPosition) -> (TermCondition, PathPosition) {
        let root = PathPosition { is_known: true, path: Some(ROOT) };
        match e {
            PathExpr::Root => (TermCondition::Anything, root),
            PathExpr::Current => (TermCondition::Anything, current),
            PathExpr::Chain(base, steps) => {
                let (need, mut place) = self.path(base, current);
                let mut parts = vec![need];
                for step in steps {
                    match step {
                        PathAccessor::Key(key) => {
                            if place.is_known && !self.by_path {
                                parts.push(self.terms.element(&text(KEY, key)));
                            }
                            place.path = place.path.map(|path| below(path, key));
                        }
                        PathAccessor::AnyKey | PathAccessor::Any(..) => place.path = None,
                        PathAccessor::AnyArray | PathAccessor::Index(_) => {}
                        PathAccessor::Filter(condition) => parts.push(self.condition(condition, place)),
                        PathAccessor::Method(..) => place = NOWHERE,
                    }
                }
                (TermCondition::all(parts), place)
            }
            _ => (TermCondition::Anything, NOWHERE),
        }
    }

    /// What it needs to be true.
    fn condition(&mut self, e: &PathExpr, current: PathPosition) -> TermCondition {
        match e {
            PathExpr::Binary(PathOperator::And, l, r) => {
                TermCondition::all(vec![self.condition(l, current), self.condition(r, current)])
            }
            PathExpr::Binary(PathOperator::Or, l, r) => {
                TermCondition::any(vec![self.condition(l, current), self.condition(r, current)])
            }
            PathExpr::Exists(inner) | PathExpr::LikeRegex(inner, ..) => self.path(inner, current).0,
            PathExpr::Binary(
                PathOperator::Eq
                | PathOperator::Ne
                | PathOperator::Lt
                | PathOperator::Gt
                | PathOperator::Le
                | PathOperator::Ge
                | PathOperator::StartsWith,
                l,
                r,
            ) => {
                let ((left, left_place), (right, right_place)) = (self.path(l, current), self.path(r, current));
                let mut parts = vec![left, right];
                if matches!(e, PathExpr::Binary(PathOperator::Eq, ..)) {
                    for (place, other) in [(left_place, r), (right_place, l)] {
                        parts.extend(literal(other).map(|v| self.value(place, &v)));
                    }
                }
                TermCondition::all(parts)
            }
            _ => TermCondition::Anything,
        }
    }

    /// That the value is there, as such or as an element of an array.
    fn value(&mut self, place: PathPosition, v: &JsonValue) -> TermCondition {
        match (place, self.by_path, v) {
            (PathPosition { is_known: false, .. }, ..) | (PathPosition { path: None, .. }, true, _) => {
                TermCondition::Anything
            }
            (PathPosition { path: Some(path), .. }, true, v) => self.terms.element(&leaf(path, v)),
            // Strings in arrays count as keys.
            (_, false, JsonValue::String(s)) => {
                TermCondition::any(vec![self.terms.element(&text(STRING, s)), self.terms.element(&text(KEY, s))])
            }
            (_, false, v) => self.terms.element(&scalar(v)),
        }
    }
}

fn literal(e: &PathExpr) -> Option<JsonValue> {
    match e {
        PathExpr::Null => Some(JsonValue::Null),
        PathExpr::Bool(b) => Some(JsonValue::Bool(*b)),
        PathExpr::Number(n) => Some(JsonValue::Number(n.clone())),
        PathExpr::String(s) => Some(JsonValue::String(s.clone())),
        _ => None,
    }
}
