//! Array functions and operators.

use super::get::{self, arg};
use crate::functions::float::random_u64;
use crate::io::natural_type;
use crate::key::compare;
use crate::pieces;
use crate::{Array, Datum, EvalContext};
use kilndb_base::work::{self, SmallSteps};
use kilndb_base::{Error, Result, sqlstate};
use std::cmp::Ordering;
use std::sync::Arc;

const MAX_ITEMS: u64 = 134_217_727;
const MAX_DIMS: usize = 6;

// ---- errors and helpers ----

fn subscript(message: impl Into<String>) -> Error {
    Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, message)
}
fn null(message: &str) -> Error {
    Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message)
}
fn out_of_range() -> Error {
    crate::cast::out_of_range("integer")
}
fn incompatible(detail: impl Into<String>) -> Error {
    subscript("cannot concatenate incompatible arrays").with_detail(detail)
}
/// Is an element of `a` equal to that value?
fn equal(a: &Array, element: &Datum, b: &Datum) -> bool {
    compare(a.element_type, element, b) == Ordering::Equal
}
fn empty(like: &Array) -> Array {
    Array { element_type: like.element_type, dims: Vec::new(), elements: Vec::new() }
}
/// NULL stands for no array.
fn optional(d: &Datum) -> Result<Option<&Array>> {
    if d.is_null() { Ok(None) } else { get::array(d).map(Some) }
}
fn upper(low: i32, len: u32) -> i64 {
    i64::from(low) + i64::from(len) - 1
}
/// Refuses sizes and bounds that PostgreSQL could not hold.
fn checked(a: Array) -> Result<Array> {
    let items = a.dims.iter().try_fold(1u64, |n, d| n.checked_mul(u64::from(d.1))).unwrap_or(u64::MAX);
    if items > MAX_ITEMS {
        return Err(too_big());
    }
    for (low, len) in &a.dims {
        if upper(*low, *len) >= i64::from(i32::MAX) {
            return Err(Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, format!("array lower bound is too large: {low}")));
        }
    }
    Ok(a)
}
fn too_big() -> Error {
    Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, format!("array size exceeds the maximum allowed ({MAX_ITEMS})"))
}
/// Elements per step of the first dimension.
fn slice_len(a: &Array) -> usize {
    a.dims.iter().skip(1).map(|d| d.1 as usize).product()
}
fn dimension(a: &Array, n: i32) -> Option<(i32, u32)> {
    usize::try_from(n).ok()?.checked_sub(1).and_then(|i| a.dims.get(i)).copied()
}
fn dims_text(a: &Array) -> Option<String> {
    if a.dims.is_empty() {
        return None;
    }
    Some(a.dims.iter().map(|(low, len)| format!("[{low}:{}]", upper(*low, *len))).collect())
}
/// A list of one dimension, counted from `low`.
fn list(like: &Array, low: i32, elements: Vec<Datum>) -> Array {
    let dims = if elements.is_empty() { Vec::new() } else { vec![(low, elements.len() as u32)] };
    Array { element_type: like.element_type, dims, elements }
}
/// The array at `at` as a list, empty for NULL, with the type of `element`.
fn growable(args: &[Datum], at: usize, element: &Datum) -> Result<Array> {
    match optional(arg(args, at)?)? {
        Some(a) if a.dims.len() > 1 => {
            Err(Error::new(sqlstate::DATA_EXCEPTION, "argument must be empty or one-dimensional array"))
        }
        Some(a) => Ok(a.clone()),
        None => Ok(Array { element_type: natural_type(element), dims: Vec::new(), elements: Vec::new() }),
    }
}
fn array_datum(a: Array) -> Datum {
    Datum::Array(Arc::new(a))
}

// ---- building ----

pub(crate) fn array_append(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let element = arg(args, 1)?;
    let mut a = growable(args, 0, element)?;
    let (low, len) = a.dims.first().copied().unwrap_or((1, 0));
    if i64::from(low) + i64::from(len) > i64::from(i32::MAX) {
        return Err(out_of_range());
    }
    a.elements.push(element.clone());
    a.dims = vec![(low, len + 1)];
    checked(a).map(array_datum)
}
pub(crate) fn array_prepend(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let element = arg(args, 0)?;
    let mut a = growable(args, 1, element)?;
    let (low, len) = a.dims.first().copied().unwrap_or((1, 0));
    if len > 0 && low == i32::MIN {
        return Err(out_of_range());
    }
    a.elements.insert(0, element.clone());
    a.dims = vec![(low, len + 1)];
    checked(a).map(array_datum)
}
pub(crate) fn array_cat(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let (a, b) = match (optional(arg(args, 0)?)?, optional(arg(args, 1)?)?) {
        (None, _) => return arg(args, 1).cloned(),
        (_, None) => return arg(args, 0).cloned(),
        (Some(a), Some(b)) => (a, b),
    };
    if a.dims.is_empty() && !b.dims.is_empty() {
        return arg(args, 1).cloned();
    }
    if b.dims.is_empty() {
        return arg(args, 0).cloned();
    }
    let dims = joined_dims(&a.dims, &b.dims)?;
    let mut elements = Vec::with_capacity(a.elements.len() + b.elements.len());
    pieces::append_elements(&mut elements, &a.elements)?;
    pieces::append_elements(&mut elements, &b.elements)?;
    checked(Array { element_type: a.element_type, dims, elements }).map(array_datum)
}
fn joined_dims(a: &[(i32, u32)], b: &[(i32, u32)]) -> Result<Vec<(i32, u32)>> {
    let differing = || incompatible("Arrays with differing dimensions are not compatible for concatenation.");
    let rest = |d: &[(i32, u32)]| d.get(1..).unwrap_or(&[]).to_vec();
    let (mut dims, more) = if a.len() == b.len() {
        if rest(a) != rest(b) {
            return Err(incompatible("Arrays with differing element dimensions are not compatible for concatenation."));
        }
        (a.to_vec(), b.first().map_or(0, |d| d.1))
    } else if a.len() + 1 == b.len() {
        if rest(b) != a {
            return Err(differing());
        }
        (b.to_vec(), 1)
    } else if a.len() == b.len() + 1 {
        if rest(a) != b {
            return Err(differing());
        }
        (a.to_vec(), 1)
    } else {
        return Err(incompatible(format!(
            "Arrays of {} and {} dimensions are not compatible for concatenation.",
            a.len(),
            b.len()
        )));
    };
    if let Some(first) = dims.first_mut() {
        first.1 = first.1.checked_add(more).ok_or_else(too_big)?;
    }
    Ok(dims)
}
/// Numbers of a dimension or lower-bound list.
fn bounds(d: &Datum) -> Result<&Array> {
    optional(d)?.ok_or_else(|| null("dimension array or low bound array cannot be null"))
}
fn bound_values(a: &Array) -> Result<Vec<i32>> {
    let one = |d: &Datum| if d.is_null() { Err(null("dimension values cannot be null")) } else { get::int4(d) };
    a.elements.iter().map(one).collect()
}
fn fill(value: &Datum, dims: &Array, lows: Option<&Array>) -> Result<Datum> {
    if dims.dims.len() > 1 {
        return Err(
            subscript("wrong number of array subscripts").with_detail("Dimension array must be one dimensional.")
        );
    }
    let lengths = bound_values(dims)?;
    let low = match lows {
        None => vec![1; lengths.len()],
        Some(l) => {
            if l.dims.len() > 1 {
                return Err(subscript("wrong number of array subscripts")
                    .with_detail("Dimension array must be one dimensional."));
            }
            if l.elements.len() != lengths.len() {
                return Err(subscript("wrong number of array subscripts")
                    .with_detail("Low bound array has different size than dimensions array."));
            }
            bound_values(l)?
        }
    };
    if lengths.len() > MAX_DIMS {
        return Err(Error::new(
            sqlstate::PROGRAM_LIMIT_EXCEEDED,
            format!("number of array dimensions ({}) exceeds the maximum allowed ({MAX_DIMS})", lengths.len()),
        ));
    }
    let mut items = 1u64;
    for n in &lengths {
        let n = u64::try_from(*n).map_err(|_| too_big())?;
        items = items.checked_mul(n).filter(|v| *v <= MAX_ITEMS).ok_or_else(too_big)?;
    }
    let element_type = natural_type(value);
    if lengths.is_empty() || items == 0 {
        return Ok(array_datum(Array { element_type, dims: Vec::new(), elements: Vec::new() }));
    }
    let dims = low.into_iter().zip(lengths.iter().map(|n| *n as u32)).collect();
    let a = Array { element_type, dims, elements: Vec::new() };
    let mut a = checked(a)?;
    a.elements.reserve_exact(items as usize);
    for _ in 0..items {
        work::step(8)?;
        a.elements.push(value.clone());
    }
    Ok(array_datum(a))
}
pub fn array_fill(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    fill(arg(args, 0)?, bounds(arg(args, 1)?)?, None)
}
pub(crate) fn array_fill_with_lower_bounds(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let dims = bounds(arg(args, 1)?)?;
    fill(arg(args, 0)?, dims, Some(bounds(arg(args, 2)?)?))
}

// ---- searching and replacing ----

fn one_dimensional<'a>(a: &'a Array, doing: &str) -> Result<&'a Array> {
    if a.dims.len() > 1 {
        return Err(Error::unsupported(format!("{doing} multidimensional arrays is not supported")));
    }
    Ok(a)
}
fn position(args: &[Datum], start: Option<&Datum>) -> Result<Datum> {
    let Some(a) = optional(arg(args, 0)?)? else { return Ok(Datum::Null) };
    let a = one_dimensional(a, "searching for elements in")?;
    let low = a.dims.first().map_or(1, |d| d.0);
    let from = match start {
        None => low,
        Some(Datum::Null) => return Err(null("initial position must not be null")),
        Some(d) => get::int4(d)?,
    };
    let wanted = arg(args, 1)?;
    for (e, at) in a.elements.iter().zip(i64::from(low)..) {
        work::step(20)?;
        if at >= i64::from(from) && equal(a, e, wanted) {
            return Ok(Datum::Int4(at as i32));
        }
    }
    Ok(Datum::Null)
}
pub(crate) fn array_position(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    position(args, None)
}
pub(crate) fn array_position_start(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    position(args, Some(arg(args, 2)?))
}
pub(crate) fn array_positions(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(a) = optional(arg(args, 0)?)? else { return Ok(Datum::Null) };
    let a = one_dimensional(a, "searching for elements in")?;
    let low = a.dims.first().map_or(1, |d| d.0);
    let wanted = arg(args, 1)?;
    let mut hits = Vec::new();
    for (e, at) in a.elements.iter().zip(low..) {
        work::step(20)?;
        if equal(a, e, wanted) {
            hits.push(Datum::Int4(at));
        }
    }
    let like = Array { element_type: crate::oids::INT4, dims: Vec::new(), elements: Vec::new() };
    Ok(array_datum(list(&like, 1, hits)))
}
pub(crate) fn array_remove(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(a) = optional(arg(args, 0)?)? else { return Ok(Datum::Null) };
    let a = one_dimensional(a, "removing elements from")?;
    let gone = arg(args, 1)?;
    let mut kept = Vec::new();
    for e in &a.elements {
        work::step(30)?;
        if !equal(a, e, gone) {
            kept.push(e.clone());
        }
    }
    Ok(array_datum(list(a, a.dims.first().map_or(1, |d| d.0), kept)))
}
pub(crate) fn array_replace(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(a) = optional(arg(args, 0)?)? else { return Ok(Datum::Null) };
    let (old, new) = (arg(args, 1)?, arg(args, 2)?);
    let mut elements = Vec::with_capacity(a.elements.len());
    for e in &a.elements {
        work::step(30)?;
        elements.push(if equal(a, e, old) { new.clone() } else { e.clone() });
    }
    Ok(array_datum(Array { element_type: a.element_type, dims: a.dims.clone(), elements }))
}
/// Whether `a` has every element of `b` (`all`), or one. A NULL equals nothing.
fn has(a: &Array, b: &Array, all: bool) -> Result<bool> {
    let known = |e: &&Datum| !e.is_null();
    let mut sorted: Vec<&Datum> = Vec::new();
    let is_long = a.elements.len().saturating_mul(b.elements.len()) > 1 << 16;
    if is_long {
        sorted.extend(a.elements.iter().filter(known));
        work::sort_by(&mut sorted, |x, y| compare(a.element_type, x, y))?;
    }
    let within = |e: &Datum| {
        if is_long {
            sorted.binary_search_by(|x| compare(a.element_type, x, e)).is_ok()
        } else {
            a.elements.iter().filter(known).any(|x| equal(a, x, e))
        }
    };
    let mut steps = SmallSteps::default();
    for e in &b.elements {
        steps.step(50)?;
        if (!e.is_null() && within(e)) != all {
            return Ok(!all);
        }
    }
    Ok(all)
}
fn bucket(v: &Datum, a: &Array) -> Result<i32> {
    if a.dims.len() > 1 {
        return Err(subscript("thresholds must be one-dimensional array"));
    }
    if a.elements.iter().any(Datum::is_null) {
        return Err(null("thresholds array must not contain NULLs"));
    }
    Ok(a.elements.partition_point(|t| compare(a.element_type, t, v) != Ordering::Greater) as i32)
}

// ---- rearranging ----

/// The slices of the first dimension in the order that `order` makes of their numbers.
fn rearranged(a: &Array, order: impl FnOnce(&mut Vec<usize>, &dyn Fn(usize) -> Array) -> Result<()>) -> Result<Array> {
    let step = slice_len(a);
    let mut numbers: Vec<usize> = (0..a.dims.first().map_or(0, |d| d.1 as usize)).collect();
    let slice = |i: usize| Array {
        element_type: a.element_type,
        dims: a.dims.get(1..).unwrap_or(&[]).to_vec(),
        elements: a.elements.get(i * step..(i + 1) * step).unwrap_or(&[]).to_vec(),
    };
    order(&mut numbers, &slice)?;
    if numbers.is_empty() {
        return Ok(empty(a));
    }
    let mut dims = a.dims.clone();
    if let Some(d) = dims.first_mut() {
        d.1 = numbers.len() as u32;
    }
    let mut elements = Vec::with_capacity(numbers.len() * step);
    for i in &numbers {
        pieces::append_elements(&mut elements, a.elements.get(i * step..(i + 1) * step).unwrap_or(&[]))?;
    }
    Ok(Array { element_type: a.element_type, dims, elements })
}
fn sorted(a: &Array, descending: bool, nulls_first: bool) -> Result<Array> {
    if a.dims.first().is_none_or(|d| d.1 < 2) {
        return Ok(a.clone());
    }
    let order = |x: &Datum, y: &Datum| match (x.is_null(), y.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ if descending => compare(a.element_type, y, x),
        _ => compare(a.element_type, x, y),
    };
    if a.dims.len() == 1 {
        let mut elements = pieces::cloned(&a.elements)?;
        work::sort_by(&mut elements, order)?;
        return Ok(Array { element_type: a.element_type, dims: a.dims.clone(), elements });
    }
    rearranged(a, |numbers, slice| {
        let keys: Vec<Datum> =
            work::steps(&*numbers, 200).map(|i| i.map(|i| array_datum(slice(*i)))).collect::<Result<_>>()?;
        work::sort_by(numbers, |x, y| match (keys.get(*x), keys.get(*y)) {
            (Some(x), Some(y)) => order(x, y),
            _ => Ordering::Equal,
        })
    })
}
/// `n` slices picked at random, in random order.
fn picked(c: &EvalContext, a: &Array, n: usize) -> Result<Array> {
    rearranged(a, |numbers, _| {
        let len = numbers.len();
        for i in 0..n.min(len) {
            work::step(30)?;
            let j = i + (random_u64(c) % (len - i) as u64) as usize;
            numbers.swap(i, j);
        }
        numbers.truncate(n);
        Ok(())
    })
}
fn sample(c: &EvalContext, a: &Array, n: i32) -> Result<Array> {
    let len = a.dims.first().map_or(0, |d| d.1);
    let n = u32::try_from(n).ok().filter(|n| *n <= len).ok_or_else(|| {
        Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("sample size must be between 0 and {len}"))
    })?;
    let mut r = picked(c, a, n as usize)?;
    if let Some(d) = r.dims.first_mut() {
        d.0 = 1;
    }
    Ok(r)
}
fn trim(a: &Array, n: i32) -> Result<Array> {
    let len = a.dims.first().map_or(0, |d| d.1);
    let n = u32::try_from(n)
        .ok()
        .filter(|n| *n <= len)
        .ok_or_else(|| subscript(format!("number of elements to trim must be between 0 and {len}")))?;
    let mut r = rearranged(a, |numbers, _| {
        numbers.truncate((len - n) as usize);
        Ok(())
    })?;
    for d in &mut r.dims {
        d.0 = 1;
    }
    Ok(r)
}

/// The values of an enum from one to another; NULL: from the first, to the last. The binder adds all of them.
fn enum_range(lower: &Datum, upper: &Datum, all: &Array) -> Datum {
    let number = |d: &Datum| if let Datum::U64(v) = d { Some(*v) } else { None };
    let (lower, upper) = (number(lower), number(upper));
    let fits = |v: u64| lower.is_none_or(|l| v >= l) && upper.is_none_or(|u| v <= u);
    let elements: Vec<Datum> = all.elements.iter().filter(|d| number(d).is_some_and(fits)).cloned().collect();
    let dims = if elements.is_empty() { Vec::new() } else { vec![(1, elements.len() as u32)] };
    Datum::Array(Arc::new(Array { element_type: all.element_type, dims, elements }))
}

scalars! {
    fn enum_range_bounds(_c; lower: any, upper: any, all: array) = enum_range(lower, upper, all);
    fn array_ndims(_c; a: array) = (!a.dims.is_empty()).then_some(a.dims.len() as i32);
    fn array_dims(_c; a: array) = dims_text(a);
    fn array_lower(_c; a: array, n: int4) = dimension(a, n).map(|d| d.0);
    fn array_upper(_c; a: array, n: int4) = dimension(a, n).map(|d| upper(d.0, d.1) as i32);
    fn array_length(_c; a: array, n: int4) = dimension(a, n).map(|d| d.1 as i32);
    fn array_cardinality(_c; a: array) = a.elements.len() as i32;
    fn arraycontains(_c; a: array, b: array) = has(a, b, true)?;
    fn arraycontained(_c; a: array, b: array) = has(b, a, true)?;
    fn arrayoverlap(_c; a: array, b: array) = has(a, b, false)?;
    fn width_bucket_array(_c; v: any, a: array) = bucket(v, a)?;
    fn trim_array(_c; a: array, n: int4) = trim(a, n)?;
    fn array_shuffle(c; a: array) = picked(c, a, usize::MAX)?;
    fn array_sample(c; a: array, n: int4) = sample(c, a, n)?;
    fn array_reverse(_c; a: array) = rearranged(a, |numbers, _| { numbers.reverse(); Ok(()) })?;
    fn array_sort(_c; a: array) = sorted(a, false, false)?;
    fn array_sort_order(_c; a: array, descending: boolean) = sorted(a, descending, descending)?;
    fn array_sort_order_nulls_first(_c; a: array, descending: boolean, first: boolean) = sorted(a, descending, first)?;
}
