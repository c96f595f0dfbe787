//! What a jsonpath needs of a value. Accessors need their keys, comparisons an item on each side, and one with a
//! literal that value. What is computed (methods, arithmetic, variables, NOT) needs nothing.

use super::jsonb::{KEY, ROOT, STRING, below, leaf, scalar, text};
use super::{Need, Terms};
use crate::json::Value;
use crate::json::path_parse::{Expr, JsonPath, Op, Step};

/// Where accessors have led to.
#[derive(Clone, Copy)]
struct Place {
    /// The item is a part of the document.
    is_known: bool,
    /// The keys above it.
    path: Option<u64>,
}
const NOWHERE: Place = Place { is_known: false, path: None };

struct Reader<'t> {
    /// For jsonb_path_ops.
    by_path: bool,
    terms: &'t mut Terms,
}

/// `is_condition`: the path's result must be true (@@); else it must have one (@?).
pub fn need(by_path: bool, is_condition: bool, path: &JsonPath, terms: &mut Terms) -> Need {
    let root = Place { is_known: true, path: Some(ROOT) };
    let mut reader = Reader { by_path, terms };
    match &path.expr {
        e @ (Expr::Root | Expr::Chain(..)) => reader.path(e, root).0,
        e if is_condition => reader.condition(e, root),
        // Whatever a condition says, it is a result.
        _ => Need::Anything,
    }
}

impl Reader<'_> {
    /// What it needs to have an item, and where that is. `current`: what @ means.
    fn path(&mut self, e: &Expr, current: Place) -> (Need, Place) {
        let root = Place { is_known: true, path: Some(ROOT) };
        match e {
            Expr::Root => (Need::Anything, root),
            Expr::Current => (Need::Anything, current),
            Expr::Chain(base, steps) => {
                let (need, mut place) = self.path(base, current);
                let mut parts = vec![need];
                for step in steps {
                    match step {
                        Step::Key(key) => {
                            if place.is_known && !self.by_path {
                                parts.push(self.terms.element(&text(KEY, key)));
                            }
                            place.path = place.path.map(|path| below(path, key));
                        }
                        Step::AnyKey | Step::Any(..) => place.path = None,
                        Step::AnyArray | Step::Index(_) => {}
                        Step::Filter(condition) => parts.push(self.condition(condition, place)),
                        Step::Method(..) => place = NOWHERE,
                    }
                }
                (Need::all(parts), place)
            }
            _ => (Need::Anything, NOWHERE),
        }
    }

    /// What it needs to be true.
    fn condition(&mut self, e: &Expr, current: Place) -> Need {
        match e {
            Expr::Binary(Op::And, l, r) => Need::all(vec![self.condition(l, current), self.condition(r, current)]),
            Expr::Binary(Op::Or, l, r) => Need::any(vec![self.condition(l, current), self.condition(r, current)]),
            Expr::Exists(inner) | Expr::LikeRegex(inner, ..) => self.path(inner, current).0,
            Expr::Binary(Op::Eq | Op::Ne | Op::Lt | Op::Gt | Op::Le | Op::Ge | Op::StartsWith, l, r) => {
                let ((left, left_place), (right, right_place)) = (self.path(l, current), self.path(r, current));
                let mut parts = vec![left, right];
                if matches!(e, Expr::Binary(Op::Eq, ..)) {
                    for (place, other) in [(left_place, r), (right_place, l)] {
                        parts.extend(literal(other).map(|v| self.value(place, &v)));
                    }
                }
                Need::all(parts)
            }
            _ => Need::Anything,
        }
    }

    /// That the value is there, as such or as an element of an array.
    fn value(&mut self, place: Place, v: &Value) -> Need {
        match (place, self.by_path, v) {
            (Place { is_known: false, .. }, ..) | (Place { path: None, .. }, true, _) => Need::Anything,
            (Place { path: Some(path), .. }, true, v) => self.terms.element(&leaf(path, v)),
            // Strings in arrays count as keys.
            (_, false, Value::String(s)) => {
                Need::any(vec![self.terms.element(&text(STRING, s)), self.terms.element(&text(KEY, s))])
            }
            (_, false, v) => self.terms.element(&scalar(v)),
        }
    }
}

fn literal(e: &Expr) -> Option<Value> {
    match e {
        Expr::Null => Some(Value::Null),
        Expr::Bool(b) => Some(Value::Bool(*b)),
        Expr::Number(n) => Some(Value::Number(n.clone())),
        Expr::String(s) => Some(Value::String(s.clone())),
        _ => None,
    }
}
