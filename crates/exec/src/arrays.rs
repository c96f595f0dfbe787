//! Array construction, subscripts and comparison with all elements.

use super::context::ExecContext;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::store::array;
use kilndb_types::functions::ScalarFn;
use kilndb_types::{Array, Datum, pieces};
use std::sync::Arc;

/// ARRAY[[…], […]]: the parts are arrays of one shape.
pub fn join(element_type: Oid, parts: &[Datum]) -> Result<Datum> {
    let mut dims: Option<Vec<(i32, u32)>> = None;
    let mut elements = Vec::new();
    let mismatch = || {
        Error::new(
            sqlstate::ARRAY_SUBSCRIPT_ERROR,
            "multidimensional arrays must have array expressions with matching dimensions",
        )
    };
    let mut count = 0;
    for p in parts {
        let Datum::Array(a) = p else { continue };
        count += 1;
        match &dims {
            None => dims = Some(a.dims.clone()),
            Some(d) if *d == a.dims => {}
            Some(_) => return Err(mismatch()),
        }
        elements.extend(a.elements.iter().cloned());
    }
    if count != parts.len() && count > 0 {
        return Err(mismatch());
    }
    let inner = dims.unwrap_or_default();
    if elements.is_empty() {
        return Ok(array(element_type, Vec::new()));
    }
    let mut dims = vec![(1, count as u32)];
    dims.extend(inner);
    if dims.len() > 6 {
        return Err(Error::new(
            sqlstate::PROGRAM_LIMIT_EXCEEDED,
            format!("number of array dimensions ({}) exceeds the maximum allowed (6)", dims.len()),
        ));
    }
    Ok(Datum::Array(Arc::new(Array { element_type, dims, elements })))
}

pub fn subscript(d: &Datum, bounds: &[(Option<i32>, Option<i32>)], slice: bool) -> Datum {
    if let (Datum::Text(name), [(_, Some(at))]) = (d, bounds) {
        return letter_of_name(name, *at);
    }
    let Datum::Array(a) = d else { return Datum::Null };
    if slice {
        return slice_of(a, bounds);
    }
    if a.dims.len() != bounds.len() {
        return Datum::Null;
    }
    let mut offset = 0usize;
    for ((lower, len), (_, i)) in a.dims.iter().zip(bounds) {
        let Some(i) = i else { return Datum::Null };
        let Some(i) = i.checked_sub(*lower).and_then(|i| usize::try_from(i).ok()).filter(|i| *i < *len as usize) else {
            return Datum::Null;
        };
        offset = offset * *len as usize + i;
    }
    a.elements.get(offset).cloned().unwrap_or_default()
}

/// A name is 64 letters from 0 on, zeros at its end.
fn letter_of_name(name: &str, at: i32) -> Datum {
    match usize::try_from(at) {
        Ok(at) if at < 64 => Datum::Char(name.as_bytes().get(at).copied().unwrap_or(0)),
        _ => Datum::Null,
    }
}

fn slice_of(a: &Array, bounds: &[(Option<i32>, Option<i32>)]) -> Datum {
    let empty = || array(a.element_type, Vec::new());
    if bounds.len() > a.dims.len() {
        return empty();
    }
    let mut ranges = Vec::new();
    for (n, (lower, len)) in a.dims.iter().enumerate() {
        let last = lower.saturating_add(*len as i32 - 1);
        let (from, to) = match bounds.get(n) {
            Some((l, u)) => (l.unwrap_or(*lower).max(*lower), u.unwrap_or(last).min(last)),
            None => (*lower, last),
        };
        if from > to {
            return empty();
        }
        ranges.push(((from - lower) as usize, (to - from + 1) as usize, *len as usize));
    }
    let mut elements = Vec::new();
    collect(&a.elements, &ranges, 0, &mut elements);
    let dims = ranges.iter().map(|r| (1, r.1 as u32)).collect();
    Datum::Array(Arc::new(Array { element_type: a.element_type, dims, elements }))
}

fn collect(elements: &[Datum], ranges: &[(usize, usize, usize)], base: usize, out: &mut Vec<Datum>) {
    let Some(((from, count, len), rest)) = ranges.split_first() else {
        out.extend(elements.get(base).cloned());
        return;
    };
    let _ = len;
    let stride: usize = rest.iter().map(|r| r.2).product();
    for i in *from..from + count {
        collect(elements, rest, base + i * stride, out);
    }
}

fn wrong_subscript(message: &str) -> Error {
    Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, message)
}
fn too_large() -> Error {
    Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed (134217727)")
}

pub fn assign(
    element_type: Oid,
    d: Datum,
    bounds: &[(Option<i32>, Option<i32>)],
    slice: bool,
    value: Datum,
) -> Result<Datum> {
    let a = match d {
        Datum::Array(a) => (*a).clone(),
        _ => Array { element_type, dims: Vec::new(), elements: Vec::new() },
    };
    if !slice {
        let places: Vec<(i32, i32)> = bounds.iter().map(|(_, i)| (i.unwrap_or(1), i.unwrap_or(1))).collect();
        if a.dims.len() > 1 || bounds.len() > 1 {
            return set_range(a, &places, vec![value], true);
        }
        let (from, to) = places.first().copied().unwrap_or((1, 1));
        return set_extended(a, from, to, vec![value]);
    }
    let Datum::Array(source) = &value else { return Ok(Datum::Array(Arc::new(a))) };
    let mut ranges = Vec::with_capacity(bounds.len());
    for (n, (lower, upper)) in bounds.iter().enumerate() {
        let range = match (a.dims.get(n), lower, upper) {
            (_, Some(lower), Some(upper)) => (*lower, *upper),
            (Some((low, len)), ..) => (lower.unwrap_or(*low), upper.unwrap_or(low.saturating_add(*len as i32 - 1))),
            _ if a.dims.is_empty() => {
                return Err(wrong_subscript("array slice subscript must provide both boundaries").with_detail(
                    "When assigning to a slice of an empty array value, slice boundaries must be fully specified.",
                ));
            }
            _ => return Err(wrong_subscript("wrong number of array subscripts")),
        };
        ranges.push(range);
    }
    match (a.dims.len(), &ranges[..]) {
        (1, [(from, to)]) => {
            if from > to {
                return Err(wrong_subscript("upper bound cannot be less than lower bound"));
            }
            let count = usize::try_from(i64::from(*to) - i64::from(*from) + 1).unwrap_or(0);
            let values = source.elements.get(..count).ok_or_else(|| wrong_subscript("source array too small"))?;
            set_extended(a, *from, *to, pieces::cloned(values)?)
        }
        _ => set_range(a, &ranges, pieces::cloned(&source.elements)?, false),
    }
}

/// Assigns to a slice of an array of one dimension, or of an empty one, which becomes as large as it must be.
fn set_extended(a: Array, from: i32, to: i32, values: Vec<Datum>) -> Result<Datum> {
    // The bound after the last element must be a number too.
    to.checked_add(1).ok_or_else(too_large)?;
    let (low, len) = a.dims.first().copied().unwrap_or((0, 0));
    let (new_low, new_high) =
        if a.dims.is_empty() { (from, to) } else { (low.min(from), (low + len as i32 - 1).max(to)) };
    let size = i64::from(new_high) - i64::from(new_low) + 1;
    if size > 134_217_727 {
        return Err(too_large());
    }
    let mut elements = vec![Datum::Null; size as usize];
    for (start, list) in [(low, a.elements), (from, values)] {
        for (i, e) in list.into_iter().enumerate() {
            elements[(start - new_low) as usize + i] = e;
        }
    }
    Ok(Datum::Array(Arc::new(Array { element_type: a.element_type, dims: vec![(new_low, size as u32)], elements })))
}

/// Assigns to a slice of an array of several dimensions, which stays as large as it is; an empty array gets the
/// dimensions of the slice.
fn set_range(mut a: Array, ranges: &[(i32, i32)], values: Vec<Datum>, is_element: bool) -> Result<Datum> {
    let too_small = || wrong_subscript("source array too small");
    if a.dims.is_empty() {
        let mut count = 1i64;
        for (from, to) in ranges {
            let len = i64::from(*to) - i64::from(*from) + 1;
            count = count.saturating_mul(len);
            if len < 0 || count > 134_217_727 || to.checked_add(1).is_none() {
                return Err(too_large());
            }
            a.dims.push((*from, len as u32));
        }
        a.elements = values;
        if a.elements.len() < count as usize {
            return Err(too_small());
        }
        a.elements.truncate(count as usize);
        if count == 0 {
            a.dims.clear();
        }
        return Ok(Datum::Array(Arc::new(a)));
    }
    if a.dims.len() < ranges.len() || is_element && a.dims.len() != ranges.len() {
        return Err(wrong_subscript("wrong number of array subscripts"));
    }
    let mut parts = Vec::with_capacity(a.dims.len());
    for (n, (low, len)) in a.dims.iter().enumerate() {
        let last = low.saturating_add(*len as i32 - 1);
        let (from, to) = ranges.get(n).copied().unwrap_or((*low, last));
        if from > to {
            return Err(wrong_subscript("upper bound cannot be less than lower bound"));
        }
        if from < *low || to > last {
            return Err(wrong_subscript("array subscript out of range"));
        }
        parts.push(((from - low) as usize, (to - from + 1) as usize, *len as usize));
    }
    if values.len() < parts.iter().map(|p| p.1).product() {
        return Err(too_small());
    }
    replace(&mut a.elements, &parts, 0, &mut values.into_iter());
    Ok(Datum::Array(Arc::new(a)))
}
fn replace(
    elements: &mut [Datum],
    ranges: &[(usize, usize, usize)],
    base: usize,
    values: &mut impl Iterator<Item = Datum>,
) {
    let Some(((from, count, _), rest)) = ranges.split_first() else {
        if let (Some(place), Some(value)) = (elements.get_mut(base), values.next()) {
            *place = value;
        }
        return;
    };
    let stride: usize = rest.iter().map(|r| r.2).product();
    for i in *from..from + count {
        replace(elements, rest, base + i * stride, values);
    }
}

pub fn scalar_array(
    f: ScalarFn,
    strict: bool,
    any: bool,
    x: Datum,
    list: &Datum,
    cx: &ExecContext<'_>,
) -> Result<Datum> {
    let Datum::Array(a) = list else { return Ok(Datum::Null) };
    if a.elements.is_empty() {
        return Ok(Datum::Bool(!any));
    }
    if strict && x.is_null() {
        return Ok(Datum::Null);
    }
    let mut null = false;
    let mut args = [x, Datum::Null];
    for e in &a.elements {
        if strict && e.is_null() {
            null = true;
            continue;
        }
        args[1] = e.clone();
        match f(&cx.eval, &args)? {
            Datum::Bool(b) if b == any => return Ok(Datum::Bool(any)),
            Datum::Null => null = true,
            _ => {}
        }
    }
    Ok(if null { Datum::Null } else { Datum::Bool(!any) })
}
