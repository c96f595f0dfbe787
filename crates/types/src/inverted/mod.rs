//! Operator classes of inverted indexes: which terms a value has, and which terms a condition needs.
//!
//! Invariants
//! 1. A value that satisfies a condition has the terms that the condition's [`TermCondition`] asks for. Not the other way round:
//!    whoever finds a value by its terms evaluates the condition.
//! 2. A value may have no terms at all, and NULL has none: what needs nothing cannot be found here.
//! 3. A term begins with its column and what it stands for, so that those of one column follow one another.
//!
//! Must not know: indexes, rows.

mod arrays;
mod hstore;
mod jsonb;
mod jsonpath;
mod ordered;
mod trigram_regex;
mod trigrams;
mod tsvector;

use crate::Datum;
use crate::hash::hash_bytes;
use crate::trigram::Thresholds;
use kilndb_base::{Error, Oid, Result};

/// What a term stands for, in the two low bits of its first byte.
const EMPTY_VALUE: u8 = 1;
const NULL_ELEMENT: u8 = 2;
const ELEMENT: u8 = 3;

/// OIDs of PostgreSQL's classes.
const ARRAY_OPS: Oid = 10064;
const TSVECTOR_OPS: Oid = 10073;
const JSONB_OPS: Oid = 10090;
const JSONB_PATH_OPS: Oid = 10091;

/// An operator class as a column of an index has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvertedClass {
    /// A class of arrays whose elements are of that type.
    Array(Oid),
    TsVector,
    Jsonb,
    /// A term for each value with the keys that lead to it.
    JsonbPath,
    /// Trigrams of a text.
    Trigram,
    /// Keys and values of an hstore.
    Hstore,
    /// The value itself, of that type.
    Ordered(Oid),
    /// A hash of the value, of that type: bloom's classes.
    Hashed(Oid),
}

/// Terms that a condition looks for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TermRange {
    pub lower: Vec<u8>,
    /// Where the range ends: it has all terms from `lower` to before this one. None: it has `lower` alone.
    pub upper: Option<Vec<u8>>,
}

/// Which of the wanted terms a value must have.
#[derive(Clone, PartialEq, Debug)]
pub enum TermCondition {
    /// No condition that terms would show.
    Anything,
    /// Nothing satisfies the condition.
    Never,
    /// Number of a wanted term.
    Term(usize),
    All(Vec<TermCondition>),
    Any(Vec<TermCondition>),
    /// At least so many of the conditions must be met.
    AtLeast(usize, Vec<TermCondition>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct TermQuery {
    pub wanted: Vec<TermRange>,
    pub need: TermCondition,
}

impl TermCondition {
    pub fn all(parts: Vec<TermCondition>) -> TermCondition {
        let mut list = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                TermCondition::Anything => {}
                TermCondition::Never => return TermCondition::Never,
                TermCondition::All(inner) => list.extend(inner),
                part => list.push(part),
            }
        }
        match list.len() {
            0 => TermCondition::Anything,
            1 => list.remove(0),
            _ => TermCondition::All(list),
        }
    }
    pub fn any(parts: Vec<TermCondition>) -> TermCondition {
        let mut list = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                TermCondition::Anything => return TermCondition::Anything,
                TermCondition::Never => {}
                TermCondition::Any(inner) => list.extend(inner),
                part => list.push(part),
            }
        }
        match list.len() {
            0 => TermCondition::Never,
            1 => list.remove(0),
            _ => TermCondition::Any(list),
        }
    }
    /// `count`, which is no less than 1, of different terms.
    pub fn at_least(count: usize, parts: Vec<TermCondition>) -> TermCondition {
        match count {
            1 => TermCondition::any(parts),
            n if n == parts.len() => TermCondition::all(parts),
            n if n > parts.len() => TermCondition::Never,
            n => TermCondition::AtLeast(n, parts),
        }
    }
    /// The need of one more condition, whose terms come behind those of the first `by`.
    pub fn shifted(self, by: usize) -> TermCondition {
        let all = |list: Vec<TermCondition>| list.into_iter().map(|n| n.shifted(by)).collect();
        match self {
            TermCondition::Term(n) => TermCondition::Term(n + by),
            TermCondition::All(list) => TermCondition::All(all(list)),
            TermCondition::Any(list) => TermCondition::Any(all(list)),
            TermCondition::AtLeast(count, list) => TermCondition::AtLeast(count, all(list)),
            other => other,
        }
    }
    /// Whether a value meets the condition that has the wanted terms of which `has` says so.
    pub fn is_met(&self, has: &mut dyn FnMut(usize) -> bool) -> bool {
        match self {
            TermCondition::Anything => true,
            TermCondition::Never => false,
            TermCondition::Term(n) => has(*n),
            TermCondition::All(list) => list.iter().all(|n| n.is_met(has)),
            TermCondition::Any(list) => list.iter().any(|n| n.is_met(has)),
            TermCondition::AtLeast(count, list) => list.iter().filter(|n| n.is_met(has)).take(*count).count() == *count,
        }
    }
}

impl TermRange {
    /// What is among both.
    pub fn narrowed(&self, other: &TermRange) -> Option<TermRange> {
        let end = |w: &TermRange| w.upper.clone().unwrap_or_else(|| [w.lower.as_slice(), &[0]].concat());
        let (lower, upper) = (self.lower.as_slice().max(&other.lower), end(self).min(end(other)));
        if lower >= upper.as_slice() {
            return None;
        }
        let exact = [self, other].into_iter().find(|w| w.upper.is_none());
        Some(exact.cloned().unwrap_or_else(|| TermRange { lower: lower.to_vec(), upper: Some(upper) }))
    }
    /// Whether the range has one of the terms, which are sorted.
    pub fn is_among<T: AsRef<[u8]>>(&self, terms: &[T]) -> bool {
        let at = terms.partition_point(|t| t.as_ref() < self.lower.as_slice());
        terms.get(at).is_some_and(|t| match &self.upper {
            None => t.as_ref() == self.lower,
            Some(upper) => t.as_ref() < upper.as_slice(),
        })
    }
}

/// A condition's terms as they are found.
struct TermCollector {
    column: u8,
    wanted: Vec<TermRange>,
}
impl TermCollector {
    fn push(&mut self, wanted: TermRange) -> TermCondition {
        let at = self.wanted.iter().position(|w| *w == wanted).unwrap_or_else(|| {
            self.wanted.push(wanted);
            self.wanted.len() - 1
        });
        TermCondition::Term(at)
    }
    fn exact(&mut self, kind: u8, bytes: &[u8]) -> TermCondition {
        self.push(TermRange { lower: term(self.column, kind, bytes), upper: None })
    }
    fn element(&mut self, bytes: &[u8]) -> TermCondition {
        self.exact(ELEMENT, bytes)
    }
    fn prefix(&mut self, bytes: &[u8]) -> TermCondition {
        let lower = term(self.column, ELEMENT, bytes);
        let upper = after_prefix(&lower);
        self.push(TermRange { lower, upper: Some(upper) })
    }
}

fn term(column: u8, kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 1);
    out.push(column << 2 | kind);
    out.extend_from_slice(bytes);
    out
}

/// What is kept of a value that is only ever asked whether it equals another one.
fn hashed(type_oid: Oid, value: &Datum) -> Result<[u8; 4]> {
    let mut key = Vec::new();
    crate::key::encode_value(type_oid, value, &mut key)?;
    Ok(hash_bytes(&key).to_be_bytes())
}

/// The smallest bytes above all that begin with `prefix`, whose first byte is no 255.
fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut out = prefix.to_vec();
    while out.last() == Some(&0xff) {
        out.pop();
    }
    if let Some(last) = out.last_mut() {
        *last += 1;
    }
    out
}

impl InvertedClass {
    /// The class for a column by its operator class, and by the type of its elements if it is an array. None: the
    /// operator class is none of an inverted index.
    pub fn of(opclass: Oid, element_type: Oid) -> Option<InvertedClass> {
        match opclass {
            ARRAY_OPS => Some(InvertedClass::Array(element_type)),
            TSVECTOR_OPS => Some(InvertedClass::TsVector),
            JSONB_OPS => Some(InvertedClass::Jsonb),
            JSONB_PATH_OPS => Some(InvertedClass::JsonbPath),
            _ => None,
        }
    }

    /// Appends the terms of column `column`'s value, sorted, each once.
    pub fn terms(self, column: u8, value: &Datum, out: &mut Vec<Vec<u8>>) -> Result<()> {
        let start = out.len();
        let mut put = |kind: u8, bytes: &[u8]| out.push(term(column, kind, bytes));
        match (self, value) {
            (_, Datum::Null) => {}
            (InvertedClass::Array(element), Datum::Array(a)) => arrays::terms(element, a, &mut put)?,
            (InvertedClass::TsVector, Datum::TsVector(v)) => {
                v.lexemes.iter().for_each(|l| put(ELEMENT, l.word.as_bytes()))
            }
            (InvertedClass::Jsonb, Datum::Jsonb(b)) => {
                jsonb::terms(&crate::json::binary::decode(b)?, &mut |bytes| put(ELEMENT, bytes))
            }
            (InvertedClass::JsonbPath, Datum::Jsonb(b)) => {
                jsonb::path_terms(&crate::json::binary::decode(b)?, &mut |bytes| put(ELEMENT, bytes))
            }
            (InvertedClass::Trigram, Datum::Text(text)) => trigrams::terms(text, &mut |bytes| put(ELEMENT, bytes))?,
            (InvertedClass::Hstore, value @ Datum::Opaque(_)) => {
                hstore::terms(&crate::hstore::Hstore::of(value)?, &mut |bytes| put(ELEMENT, bytes))?
            }
            (InvertedClass::Ordered(type_oid), value) => ordered::terms(type_oid, value, &mut put)?,
            (InvertedClass::Hashed(type_oid), value) => put(ELEMENT, &hashed(type_oid, value)?),
            _ => return Err(Error::internal("a value of another type than its index has")),
        }
        let own = &mut out[start..];
        if !own.is_sorted_by(|a, b| a < b) {
            own.sort_unstable();
            let mut kept = start;
            for at in start..out.len() {
                if at == start || out[at] != out[kept - 1] {
                    out.swap(kept, at);
                    kept += 1;
                }
            }
            out.truncate(kept);
        }
        Ok(())
    }

    /// Whether two values have different terms for sure. This is quicker than to look at the terms, where the answer is
    /// yes.
    pub fn differ(self, a: &Datum, b: &Datum) -> bool {
        match (self, a, b) {
            (InvertedClass::TsVector, Datum::TsVector(a), Datum::TsVector(b)) => {
                !a.lexemes.iter().map(|l| &l.word).eq(b.lexemes.iter().map(|l| &l.word))
            }
            _ => false,
        }
    }

    /// What a condition, an operator of the class by its strategy number and what is compared with, looks for.
    pub fn query(self, column: u8, strategy: u16, query: &Datum, thresholds: &Thresholds) -> Result<TermQuery> {
        let mut terms = TermCollector { column, wanted: Vec::new() };
        let need = match (self, strategy, query) {
            (_, _, Datum::Null) => TermCondition::Never,
            (InvertedClass::Array(element), _, Datum::Array(a)) => arrays::need(element, strategy, a, &mut terms)?,
            (InvertedClass::TsVector, 1 | 2, Datum::TsQuery(q)) => tsvector::need(q, &mut terms),
            (InvertedClass::Jsonb | InvertedClass::JsonbPath, 15 | 16, Datum::Text(path)) => {
                let path = crate::json::path_parse::parse(path)?;
                jsonpath::need(self == InvertedClass::JsonbPath, strategy == 16, &path, &mut terms)
            }
            (InvertedClass::Jsonb, ..) => jsonb::need(strategy, query, &mut terms)?,
            (InvertedClass::JsonbPath, 7, Datum::Jsonb(b)) => {
                jsonb::path_need(&crate::json::binary::decode(b)?, &mut terms)
            }
            (InvertedClass::Trigram, _, Datum::Text(text)) => trigrams::need(strategy, text, thresholds, &mut terms)?,
            (InvertedClass::Hstore, ..) => hstore::need(strategy, query, &mut terms)?,
            (InvertedClass::Ordered(type_oid), _, value) => ordered::need(type_oid, strategy, value, &mut terms)?,
            (InvertedClass::Hashed(type_oid), 1, value) => terms.element(&hashed(type_oid, value)?),
            _ => return Err(Error::internal(format!("strategy {strategy} of an inverted index"))),
        };
        Ok(TermQuery { need, wanted: terms.wanted })
    }
}
