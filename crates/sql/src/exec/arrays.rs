//! Array construction, subscripts and comparison with all elements.

use super::context::ExecContext;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::functions::ScalarFn;
use kilndb_types::{Array, Datum};
use std::sync::Arc;

pub fn from_list(element_type: Oid, elements: Vec<Datum>) -> Datum {
    let dims = if elements.is_empty() { Vec::new() } else { vec![(1, elements.len() as u32)] };
    Datum::Array(Arc::new(Array { element_type, dims, elements }))
}

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
        return Ok(from_list(element_type, Vec::new()));
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

fn slice_of(a: &Array, bounds: &[(Option<i32>, Option<i32>)]) -> Datum {
    let empty = || from_list(a.element_type, Vec::new());
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

pub fn assign(element_type: Oid, d: Datum, bounds: &[(Option<i32>, Option<i32>)], slice: bool, value: Datum) -> Result<Datum> {
    let mut a = match d {
        Datum::Array(a) => (*a).clone(),
        _ => Array { element_type, dims: Vec::new(), elements: Vec::new() },
    };
    let [(lower, upper)] = bounds else {
        if slice || a.dims.len() != bounds.len() {
            return Err(Error::unsupported("assignment to a slice of several dimensions"));
        }
        let mut offset = 0usize;
        for ((low, len), (_, i)) in a.dims.iter().zip(bounds) {
            let i = i.unwrap_or(0).checked_sub(*low).and_then(|i| usize::try_from(i).ok()).filter(|i| *i < *len as usize);
            let Some(i) = i else {
                return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "array subscript out of range"));
            };
            offset = offset * *len as usize + i;
        }
        if let Some(e) = a.elements.get_mut(offset) {
            *e = value;
        }
        return Ok(Datum::Array(Arc::new(a)));
    };
    if a.dims.len() > 1 {
        return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts"));
    }
    let (low, len) = a.dims.first().copied().unwrap_or((0, 0));
    let (from, values) = if slice {
        let Datum::Array(v) = &value else { return Ok(Datum::Array(Arc::new(a))) };
        let from = lower.unwrap_or(if a.dims.is_empty() { 1 } else { low });
        let to = upper.unwrap_or(from.saturating_add(v.elements.len() as i32 - 1));
        let count = usize::try_from(i64::from(to) - i64::from(from) + 1).unwrap_or(0);
        if v.elements.len() < count {
            return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "source array too small"));
        }
        (from, v.elements[..count].to_vec())
    } else {
        (upper.unwrap_or(1), vec![value])
    };
    if values.is_empty() {
        return Ok(Datum::Array(Arc::new(a)));
    }
    let too_large = || Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed (134217727)");
    // The bound after the last element must be a number too.
    let to = from.checked_add(values.len() as i32).ok_or_else(too_large)? - 1;
    let (new_low, new_high) = if a.dims.is_empty() {
        (from, to)
    } else {
        (low.min(from), (low + len as i32 - 1).max(to))
    };
    let size = new_high as i64 - new_low as i64 + 1;
    if size > 134_217_727 {
        return Err(too_large());
    }
    let mut elements = vec![Datum::Null; size as usize];
    for (i, e) in a.elements.into_iter().enumerate() {
        elements[(low - new_low) as usize + i] = e;
    }
    for (i, e) in values.into_iter().enumerate() {
        elements[(from - new_low) as usize + i] = e;
    }
    a = Array { element_type, dims: vec![(new_low, size as u32)], elements };
    Ok(Datum::Array(Arc::new(a)))
}

pub fn scalar_array(f: ScalarFn, strict: bool, any: bool, x: Datum, list: &Datum, cx: &ExecContext<'_>) -> Result<Datum> {
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
