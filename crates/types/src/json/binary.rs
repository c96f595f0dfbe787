//! jsonb's bytes: compact, keys sorted, a key or element found without reading the others. docs/format-row.md draws
//! them.
//!
//! Invariants
//! 1. Equal values have equal bytes, but for the display scale of numbers.
//! 2. Reading never trusts a byte: what does not fit is None or [`Error::corrupted`].
//! 3. Order and hash are those of PostgreSQL's jsonb.

use super::parse::MAX_DEPTH;
use super::value::{JsonValue, key_order};
use crate::hash::{hash_bytes, hash_bytes_extended, hash_numeric, hash_numeric_extended, hash_u32_extended};
use crate::pieces;
use crate::row;
use crate::{Datum, numeric::Numeric};
use kilndb_base::{Error, Result, shared, stack, work};
use std::cmp::Ordering;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const STRING: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;

/// PostgreSQL's flags of containers, which its hash knows.
const ARRAY_FLAG: u32 = 0x4000_0000;
const OBJECT_FLAG: u32 = 0x2000_0000;

#[cold]
fn corrupted() -> Error {
    Error::corrupted("stored jsonb value")
}

pub fn encode(v: &JsonValue) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    put(v, &mut out)?;
    Ok(out)
}
pub fn datum(v: &JsonValue) -> Result<Datum> {
    Ok(Datum::Jsonb(shared::bytes(&encode(v)?)?))
}

fn put(v: &JsonValue, out: &mut Vec<u8>) -> Result<()> {
    work::step(10)?;
    match v {
        JsonValue::Null => out.push(NULL),
        JsonValue::Bool(b) => out.push(if *b { TRUE } else { FALSE }),
        JsonValue::Number(n) => {
            out.push(NUMBER);
            row::put_numeric(n, out);
        }
        JsonValue::String(s) => {
            out.push(STRING);
            pieces::append(out, s.as_bytes())?;
        }
        JsonValue::Array(list) => {
            let (mut body, mut ends) = (Vec::new(), Vec::with_capacity(list.len()));
            for v in list {
                put(v, &mut body)?;
                ends.push(body.len());
            }
            put_container(ARRAY, list.len(), &ends, &body, out)?;
        }
        JsonValue::Object(list) => {
            let (mut body, mut ends) = (Vec::new(), Vec::with_capacity(2 * list.len()));
            for (k, _) in list {
                body.extend_from_slice(k.as_bytes());
                ends.push(body.len());
            }
            for (_, v) in list {
                put(v, &mut body)?;
                ends.push(body.len());
            }
            put_container(OBJECT, list.len(), &ends, &body, out)?;
        }
    }
    Ok(())
}
fn put_container(tag: u8, count: usize, ends: &[usize], body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let width = match body.len().max(count) {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        _ => 2,
    };
    out.push(tag | width << 3);
    for n in std::iter::once(&count).chain(ends) {
        out.extend_from_slice(&(*n as u32).to_le_bytes()[..1 << width]);
    }
    pieces::append(out, body)
}

/// A stored array or object.
struct Container<'a> {
    is_object: bool,
    count: usize,
    width: usize,
    ends: &'a [u8],
    body: &'a [u8],
}
impl<'a> Container<'a> {
    fn open(b: &'a [u8]) -> Option<Container<'a>> {
        let (&head, rest) = b.split_first()?;
        let is_object = match head & 7 {
            ARRAY => false,
            OBJECT => true,
            _ => return None,
        };
        let width = match head >> 3 {
            0 => 1,
            1 => 2,
            2 => 4,
            _ => return None,
        };
        let count = number(rest.get(..width)?);
        let table = count.checked_mul(width)?.checked_mul(if is_object { 2 } else { 1 })?;
        let ends = rest.get(width..width.checked_add(table)?)?;
        Some(Container { is_object, count, width, ends, body: rest.get(width + table..)? })
    }
    /// Part number `i` of the body: elements, or keys and then values.
    fn part(&self, i: usize) -> Option<&'a [u8]> {
        let end = |i: usize| Some(number(self.ends.get(i * self.width..(i + 1) * self.width)?));
        let start = if i == 0 { 0 } else { end(i - 1)? };
        self.body.get(start..end(i)?)
    }
    fn find(&self, key: &str) -> Option<&'a [u8]> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            let here = self.part(middle)?;
            match here.len().cmp(&key.len()).then_with(|| here.cmp(key.as_bytes())) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return self.part(self.count + middle),
            }
        }
        None
    }
}
fn number(b: &[u8]) -> usize {
    b.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b))
}

/// A member of an object.
pub fn get<'a>(b: &'a [u8], key: &str) -> Option<&'a [u8]> {
    Container::open(b).filter(|c| c.is_object)?.find(key)
}
/// An element of an array; negative numbers count from the end.
pub fn element(b: &[u8], index: i64) -> Option<&[u8]> {
    let c = Container::open(b).filter(|c| !c.is_object)?;
    let index = if index < 0 { index + c.count as i64 } else { index };
    let index = usize::try_from(index).ok().filter(|i| *i < c.count)?;
    c.part(index)
}
/// Whether two stored scalars are equal.
fn scalars_equal(a: &[u8], b: &[u8]) -> Result<bool> {
    let number = |b: &[u8]| row::get_numeric(b.get(1..).unwrap_or(&[])).ok_or_else(corrupted);
    match (a.first(), b.first()) {
        (Some(&NUMBER), Some(&NUMBER)) if a != b => Ok(number(a)?.cmp(&number(b)?).is_eq()),
        _ => Ok(a == b),
    }
}
fn is_scalar(b: &[u8]) -> bool {
    !is_array(b) && !is_object(b)
}
/// Whether `a` contains `b`. At the root (`is_root`) an array contains a scalar that it has as an element.
pub fn contains(a: &[u8], b: &[u8], is_root: bool) -> Result<bool> {
    fn part<'c>(c: &Container<'c>, i: usize) -> Result<&'c [u8]> {
        c.part(i).ok_or_else(corrupted)
    }
    stack::check()?;
    match (Container::open(a), Container::open(b)) {
        (None, None) => Ok(is_scalar(a) && is_scalar(b) && scalars_equal(a, b)?),
        (Some(list), None) if is_root && !list.is_object && is_scalar(b) => {
            for i in 0..list.count {
                work::step(20)?;
                let element = part(&list, i)?;
                if is_scalar(element) && scalars_equal(element, b)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Some(members), Some(wanted)) if members.is_object && wanted.is_object => {
            for i in 0..wanted.count {
                work::step(50)?;
                let key = std::str::from_utf8(part(&wanted, i)?).map_err(|_| corrupted())?;
                let value = part(&wanted, wanted.count + i)?;
                match members.find(key) {
                    Some(found) if contains(found, value, false)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Some(list), Some(wanted)) if !list.is_object && !wanted.is_object => {
            for i in 0..wanted.count {
                let value = part(&wanted, i)?;
                let mut is_there = false;
                for n in 0..list.count {
                    work::step(20)?;
                    let element = part(&list, n)?;
                    is_there = match is_scalar(value) {
                        true => is_scalar(element) && scalars_equal(element, value)?,
                        false => contains(element, value, false)?,
                    };
                    if is_there {
                        break;
                    }
                }
                if !is_there {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}
pub(crate) fn is_object(b: &[u8]) -> bool {
    b.first().is_some_and(|h| h & 7 == OBJECT)
}
pub fn is_array(b: &[u8]) -> bool {
    b.first().is_some_and(|h| h & 7 == ARRAY)
}
pub fn is_string(b: &[u8]) -> bool {
    b.first() == Some(&STRING)
}
/// The text of a string.
pub fn string(b: &[u8]) -> Option<&str> {
    match b.split_first() {
        Some((&STRING, rest)) => std::str::from_utf8(rest).ok(),
        _ => None,
    }
}
/// The value of a number.
pub(crate) fn numeric(b: &[u8]) -> Option<Numeric> {
    match b.split_first() {
        Some((&NUMBER, rest)) => row::get_numeric(rest),
        _ => None,
    }
}
/// Elements of an array, members of an object.
pub fn count(b: &[u8]) -> usize {
    Container::open(b).map_or(0, |c| c.count)
}

pub fn decode(b: &[u8]) -> Result<JsonValue> {
    let mut refused = None;
    read_nested(b, 0, &mut refused, true).ok_or_else(|| refused.unwrap_or_else(corrupted))
}
/// Reads a stored value to be compared. Comparing has one answer: it depends on the bytes alone, is not cancelled and
/// goes as deep as values do.
fn read(b: &[u8]) -> Option<JsonValue> {
    read_nested(b, 0, &mut None, false)
}
/// `refused`: why there is none although the bytes are in order; `asks` at each value whether to go on.
fn read_nested(b: &[u8], depth: usize, refused: &mut Option<Error>, asks: bool) -> Option<JsonValue> {
    let goes_on = match asks {
        _ if depth > 2 * MAX_DEPTH => Err(stack::too_deep()),
        true => stack::check().and_then(|()| work::step(30)),
        false => Ok(()),
    };
    if let Err(e) = goes_on {
        *refused = Some(e);
        return None;
    }
    let (&head, rest) = b.split_first()?;
    let text = |b: &[u8]| std::str::from_utf8(b).ok().map(str::to_string);
    Some(match head & 7 {
        NULL => JsonValue::Null,
        FALSE => JsonValue::Bool(false),
        TRUE => JsonValue::Bool(true),
        NUMBER => JsonValue::Number(row::get_numeric(rest)?),
        STRING => JsonValue::String(text(rest)?),
        ARRAY => {
            let c = Container::open(b)?;
            JsonValue::Array(
                (0..c.count).map(|i| read_nested(c.part(i)?, depth + 1, refused, asks)).collect::<Option<_>>()?,
            )
        }
        OBJECT => {
            let c = Container::open(b)?;
            let pair =
                |i: usize| Some((text(c.part(i)?)?, read_nested(c.part(c.count + i)?, depth + 1, refused, asks)?));
            let list = (0..c.count).map(pair).collect::<Option<Vec<_>>>()?;
            // What is looked up by halving must be sorted.
            if !list.windows(2).all(|w| key_order(&w[0].0, &w[1].0).is_lt()) {
                return None;
            }
            JsonValue::Object(list)
        }
        _ => return None,
    })
}

fn rank(v: &JsonValue) -> u8 {
    match v {
        JsonValue::Null => 0,
        JsonValue::String(_) => 1,
        JsonValue::Number(_) => 2,
        JsonValue::Bool(_) => 3,
        JsonValue::Array(_) => 4,
        JsonValue::Object(_) => 5,
    }
}
fn order(a: &JsonValue, b: &JsonValue) -> Ordering {
    match (a, b) {
        (JsonValue::Bool(a), JsonValue::Bool(b)) => a.cmp(b),
        (JsonValue::Number(a), JsonValue::Number(b)) => a.cmp(b),
        (JsonValue::String(a), JsonValue::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (JsonValue::Array(a), JsonValue::Array(b)) => a
            .len()
            .cmp(&b.len())
            .then_with(|| a.iter().zip(b).map(|(a, b)| order(a, b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)),
        (JsonValue::Object(a), JsonValue::Object(b)) => a.len().cmp(&b.len()).then_with(|| {
            let pairs =
                a.iter().zip(b).map(|(a, b)| a.0.as_bytes().cmp(b.0.as_bytes()).then_with(|| order(&a.1, &b.1)));
            pairs.into_iter().find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
        }),
        _ => rank(a).cmp(&rank(b)),
    }
}
/// btree order. A scalar that stands alone is to PostgreSQL an array of one element, below the other such arrays.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let (Some(a), Some(b)) = (read(a), read(b)) else { return a.cmp(b) };
    match (&a, &b) {
        (a, b) if a.is_scalar() && b.is_scalar() => order(a, b),
        (a, JsonValue::Array(list)) if a.is_scalar() => {
            if list.is_empty() {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (JsonValue::Array(list), b) if b.is_scalar() => {
            if list.is_empty() {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (a, JsonValue::Object(_)) if a.is_scalar() => Ordering::Less,
        (JsonValue::Object(_), b) if b.is_scalar() => Ordering::Greater,
        (a, b) => order(a, b),
    }
}

/// Bytes that sort as the values do, and end where they say.
pub fn encode_key(b: &[u8], numeric: &dyn Fn(&Numeric, &mut Vec<u8>), out: &mut Vec<u8>) -> Result<()> {
    fn put(v: &JsonValue, numeric: &dyn Fn(&Numeric, &mut Vec<u8>), out: &mut Vec<u8>) {
        let text = |s: &str, out: &mut Vec<u8>| {
            out.extend_from_slice(s.as_bytes());
            out.push(0);
        };
        out.push(rank(v));
        match v {
            JsonValue::Null => {}
            JsonValue::String(s) => text(s, out),
            JsonValue::Number(n) => numeric(n, out),
            JsonValue::Bool(b) => out.push(u8::from(*b)),
            JsonValue::Array(list) => {
                out.extend_from_slice(&(list.len() as u32).to_be_bytes());
                list.iter().for_each(|v| put(v, numeric, out));
            }
            JsonValue::Object(list) => {
                out.extend_from_slice(&(list.len() as u32).to_be_bytes());
                for (k, v) in list {
                    text(k, out);
                    put(v, numeric, out);
                }
            }
        }
    }
    let v = decode(b)?;
    if v.is_scalar() {
        // Between the empty array and all others.
        out.extend_from_slice(&[4, 0, 0, 0, 0, 1]);
    }
    put(&v, numeric, out);
    if matches!(&v, JsonValue::Array(list) if list.is_empty()) {
        out.push(0);
    }
    Ok(())
}

pub fn hash(b: &[u8]) -> Result<u32> {
    fn scalar(tmp: u32, all: &mut u32) {
        *all = all.rotate_left(1) ^ tmp;
    }
    fn walk(v: &JsonValue, all: &mut u32) {
        match v {
            JsonValue::Null => scalar(1, all),
            JsonValue::Bool(b) => scalar(if *b { 2 } else { 4 }, all),
            JsonValue::Number(n) => scalar(hash_numeric(n), all),
            JsonValue::String(s) => scalar(hash_bytes(s.as_bytes()), all),
            JsonValue::Array(list) => {
                *all ^= ARRAY_FLAG;
                list.iter().for_each(|v| walk(v, all));
            }
            JsonValue::Object(list) => {
                *all ^= OBJECT_FLAG;
                for (k, v) in list {
                    scalar(hash_bytes(k.as_bytes()), all);
                    walk(v, all);
                }
            }
        }
    }
    let v = decode(b)?;
    let mut all = 0;
    if v.is_scalar() {
        all ^= ARRAY_FLAG;
    } else if count(b) == 0 {
        return Ok(0);
    }
    walk(&v, &mut all);
    Ok(all)
}
pub(crate) fn hash_extended(b: &[u8], seed: u64) -> Result<u64> {
    fn scalar(tmp: u64, all: &mut u64) {
        *all = (*all << 1 & 0xffff_fffe_ffff_fffe | *all >> 31 & 0x1_0000_0001) ^ tmp;
    }
    fn flag(flag: u32) -> u64 {
        u64::from(flag) << 32 | u64::from(flag)
    }
    fn walk(v: &JsonValue, seed: u64, all: &mut u64) {
        match v {
            JsonValue::Null => scalar(seed.wrapping_add(1), all),
            JsonValue::Bool(b) if seed != 0 => scalar(hash_u32_extended(u32::from(*b), seed), all),
            JsonValue::Bool(b) => scalar(if *b { 2 } else { 4 }, all),
            JsonValue::Number(n) => scalar(hash_numeric_extended(n, seed), all),
            JsonValue::String(s) => scalar(hash_bytes_extended(s.as_bytes(), seed), all),
            JsonValue::Array(list) => {
                *all ^= flag(ARRAY_FLAG);
                list.iter().for_each(|v| walk(v, seed, all));
            }
            JsonValue::Object(list) => {
                *all ^= flag(OBJECT_FLAG);
                for (k, v) in list {
                    scalar(hash_bytes_extended(k.as_bytes(), seed), all);
                    walk(v, seed, all);
                }
            }
        }
    }
    let v = decode(b)?;
    let mut all = 0;
    if v.is_scalar() {
        all ^= flag(ARRAY_FLAG);
    } else if count(b) == 0 {
        return Ok(seed);
    }
    walk(&v, seed, &mut all);
    Ok(all)
}
