//! Functions that join, extend and thin out arrays.

use kilndb_base::{Error, Oid, Result, sqlstate, work};
use kilndb_catalog::store::array;
use kilndb_types::{Array, Datum, key, oids, pieces};
use std::sync::Arc;

const ARRAY_APPEND: Oid = 378;
const ARRAY_PREPEND: Oid = 379;
const ARRAY_CAT: Oid = 383;
const ARRAY_REMOVE: Oid = 3167;
const ENUM_RANGE: Oid = 3530;

/// None: not one of these.
pub fn call(oid: Oid, args: &[Datum]) -> Option<Result<Datum>> {
    if let (ENUM_RANGE, [lower, upper, Datum::Array(all)]) = (oid, args) {
        return Some(Ok(enum_range(lower, upper, all)));
    }
    let [first, second] = args else { return None };
    Some(match oid {
        ARRAY_APPEND => extend(first, second.clone(), false),
        ARRAY_PREPEND => extend(second, first.clone(), true),
        ARRAY_CAT => concatenate(first, second),
        ARRAY_REMOVE => remove(first, second),
        _ => return None,
    })
}

/// The values from one to another; NULL: from the first, to the last.
fn enum_range(lower: &Datum, upper: &Datum, all: &Array) -> Datum {
    let number = |d: &Datum| if let Datum::U64(v) = d { Some(*v) } else { None };
    let (lower, upper) = (number(lower), number(upper));
    let fits = |v: u64| lower.is_none_or(|l| v >= l) && upper.is_none_or(|u| v <= u);
    array(all.element_type, all.elements.iter().filter(|d| number(d).is_some_and(fits)).cloned().collect())
}

fn incompatible(detail: &str) -> Error {
    Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "cannot concatenate incompatible arrays").with_detail(detail)
}

/// Element types that a value alone tells; a NULL array has none of its own.
fn type_of_value(value: &Datum) -> Oid {
    match value {
        Datum::Bool(_) => oids::BOOL,
        Datum::Int2(_) => oids::INT2,
        Datum::Int4(_) => oids::INT4,
        Datum::Int8(_) => oids::INT8,
        Datum::Float4(_) => oids::FLOAT4,
        Datum::Float8(_) => oids::FLOAT8,
        Datum::Numeric(_) => oids::NUMERIC,
        Datum::TimestampTz(_) => oids::TIMESTAMPTZ,
        Datum::Oid(_) => oids::OID,
        _ => oids::TEXT,
    }
}

fn extend(list: &Datum, element: Datum, front: bool) -> Result<Datum> {
    let Datum::Array(a) = list else { return Ok(array(type_of_value(&element), vec![element])) };
    if a.dims.len() > 1 {
        return Err(Error::new(sqlstate::DATA_EXCEPTION, "argument must be empty or one-dimensional array"));
    }
    let lower = a.dims.first().map_or(1, |d| d.0);
    let mut elements = Vec::with_capacity(a.elements.len() + 1);
    if front {
        elements.push(element);
        pieces::append_elements(&mut elements, &a.elements)?;
    } else {
        pieces::append_elements(&mut elements, &a.elements)?;
        elements.push(element);
    }
    let dims = vec![(lower, elements.len() as u32)];
    Ok(Datum::Array(Arc::new(Array { element_type: a.element_type, dims, elements })))
}

fn concatenate(left: &Datum, right: &Datum) -> Result<Datum> {
    let (Datum::Array(a), Datum::Array(b)) = (left, right) else {
        return Ok(if left.is_null() { right.clone() } else { left.clone() });
    };
    if a.dims.is_empty() || b.dims.is_empty() {
        return Ok(if a.dims.is_empty() { right.clone() } else { left.clone() });
    }
    let inner_differ =
        || incompatible("Arrays with differing element dimensions are not compatible for concatenation.");
    let lengths = |dims: &[(i32, u32)]| dims.iter().map(|d| d.1).collect::<Vec<_>>();
    let dims = match a.dims.len() as i64 - b.dims.len() as i64 {
        0 => {
            if lengths(&a.dims[1..]) != lengths(&b.dims[1..]) {
                return Err(inner_differ());
            }
            let mut dims = a.dims.clone();
            dims[0].1 += b.dims[0].1;
            dims
        }
        1 if lengths(&a.dims[1..]) == lengths(&b.dims) => {
            let mut dims = a.dims.clone();
            dims[0].1 += 1;
            dims
        }
        -1 if lengths(&b.dims[1..]) == lengths(&a.dims) => {
            let mut dims = b.dims.clone();
            dims[0].1 += 1;
            dims
        }
        1 | -1 => return Err(inner_differ()),
        _ => {
            let detail = format!(
                "Arrays of {} and {} dimensions are not compatible for concatenation.",
                a.dims.len(),
                b.dims.len()
            );
            return Err(incompatible(&detail));
        }
    };
    let mut elements = Vec::with_capacity(a.elements.len() + b.elements.len());
    pieces::append_elements(&mut elements, &a.elements)?;
    pieces::append_elements(&mut elements, &b.elements)?;
    Ok(Datum::Array(Arc::new(Array { element_type: a.element_type, dims, elements })))
}

fn remove(list: &Datum, value: &Datum) -> Result<Datum> {
    let Datum::Array(a) = list else { return Ok(Datum::Null) };
    if a.dims.len() > 1 {
        return Err(Error::unsupported("removing elements from multidimensional arrays is not supported"));
    }
    let equal = |e: &Datum| match (e.is_null(), value.is_null()) {
        (false, false) => key::compare(a.element_type, e, value).is_eq(),
        (x, y) => x == y,
    };
    let mut elements = Vec::new();
    for element in work::steps(&a.elements, 20) {
        let element = element?;
        if !equal(element) {
            elements.push(element.clone());
        }
    }
    Ok(array(a.element_type, elements))
}
