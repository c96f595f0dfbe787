//! How many bytes PostgreSQL takes to store a value in a row: what pg_stats calls its width.
//!
//! Our own row format differs (docs/format-row.md); statistics, which the planner and tools compare with PostgreSQL's,
//! are in its bytes. Compression is not imitated: a value that PostgreSQL would compress counts in full.
//!
//! Must not know: our row format.

use crate::numeric::Numeric;
use crate::types::OpaqueWidth;
use crate::{Array, Datum, oids};
use kilndb_base::Oid;

/// A length word of four bytes, as values have it in memory.
const LONG_HEADER: usize = 4;

/// Bytes of a value of variable length with its length word in memory.
pub fn plain_width(type_oid: Oid, value: &Datum) -> usize {
    LONG_HEADER
        + match value {
            // Bits come packed, behind their number.
            Datum::Text(bits) if matches!(type_oid, oids::BIT | oids::VARBIT) => 4 + bits.len().div_ceil(8),
            Datum::Text(text) => text.len(),
            Datum::Bytea(bytes) | Datum::Jsonb(bytes) => bytes.len(),
            Datum::Numeric(number) => numeric_width(number),
            Datum::Array(array) => array_width(array),
            Datum::TsVector(v) => v.stored_bytes(),
            Datum::TsQuery(v) => v.stored_bytes(),
            Datum::Inet(v) => 2 + v.bytes().len(),
            // The type, bounds, flags.
            Datum::Range(v) => bounds_end(8, v) - 4 + 1,
            // The type, a count, offsets, flags, bounds.
            Datum::Multirange(v) => {
                let count = v.ranges.len();
                let head = (12 + 4 * count.saturating_sub(1) + count).next_multiple_of(4);
                v.ranges.iter().fold(head, bounds_end) - 4
            }
            // A row's header, then its fields.
            Datum::Record(record) => 20 + record.fields.iter().fold(0, |at, (oid, field)| field_end(at, *oid, field)),
            Datum::Opaque(v) => match v.ty.opaque.as_ref().map(|o| o.width) {
                Some(OpaqueWidth::Of(width)) => width(&v.bytes),
                _ => fixed_width(value),
            },
            other => fixed_width(other),
        }
}

/// The bytes that a value takes in a row of PostgreSQL's, of fixed length or not.
pub fn width(type_oid: Oid, value: &Datum) -> usize {
    if is_variable(value) { stored_width(type_oid, value) } else { fixed_width(value) }
}

/// The bytes that a value takes in a row of PostgreSQL's, where a short value has a length word of one byte.
pub fn stored_width(type_oid: Oid, value: &Datum) -> usize {
    let plain = plain_width(type_oid, value);
    if plain - LONG_HEADER < 127 { plain - LONG_HEADER + 1 } else { plain }
}

fn numeric_width(number: &Numeric) -> usize {
    if !number.is_finite() {
        return 2;
    }
    let digits = number.digits();
    let is_short = number.dscale() <= 63 && (-64..64).contains(&digits.weight);
    (if is_short { 2 } else { 4 }) + 2 * digits.digits().len()
}

fn fixed_width(value: &Datum) -> usize {
    match value {
        Datum::Bool(_) | Datum::Char(_) => 1,
        Datum::Int2(_) => 2,
        Datum::Int4(_) | Datum::Float4(_) | Datum::Oid(_) | Datum::Date(_) => 4,
        Datum::Tid(..) | Datum::MacAddr(_) => 6,
        Datum::Opaque(v) => match v.ty.opaque.as_ref().map(|o| o.width) {
            Some(OpaqueWidth::Fixed(width)) => width,
            _ => 8,
        },
        Datum::TimeTz(..) => 12,
        Datum::Interval(_) | Datum::Uuid(_) | Datum::AclItem(_) => 16,
        _ => 8,
    }
}
fn alignment(value: &Datum) -> usize {
    match value {
        Datum::Opaque(v) => v.ty.opaque.as_ref().map_or(4, |o| o.alignment),
        Datum::Bool(_) | Datum::Char(_) | Datum::Uuid(_) => 1,
        Datum::Int2(_) | Datum::Tid(..) => 2,
        Datum::Int8(_)
        | Datum::Float8(_)
        | Datum::U64(_)
        | Datum::Time(_)
        | Datum::TimeTz(..)
        | Datum::Timestamp(_) => 8,
        Datum::TimestampTz(_) | Datum::Interval(_) | Datum::AclItem(_) => 8,
        _ => 4,
    }
}
fn is_variable(value: &Datum) -> bool {
    matches!(
        value,
        Datum::Text(_)
            | Datum::Bytea(_)
            | Datum::Jsonb(_)
            | Datum::Numeric(_)
            | Datum::Array(_)
            | Datum::Record(_)
            | Datum::TsVector(_)
            | Datum::TsQuery(_)
            | Datum::Inet(_)
            | Datum::Range(_)
            | Datum::Multirange(_)
    ) || matches!(value, Datum::Opaque(v) if v.ty.opaque.as_ref().is_some_and(|o| matches!(o.width, OpaqueWidth::Of(_))))
}
/// Where a field ends that begins at `at` or, for its alignment, behind it.
fn field_end(at: usize, type_oid: Oid, value: &Datum) -> usize {
    match value {
        Datum::Null => at,
        _ if type_oid == oids::NAME => at + 64,
        _ if is_variable(value) => at.next_multiple_of(4) + plain_width(type_oid, value),
        _ => at.next_multiple_of(alignment(value)) + fixed_width(value),
    }
}

fn bounds_end(at: usize, range: &crate::range::Range) -> usize {
    let bounds = range.bounds.iter().flat_map(|(lower, upper)| [&lower.value, &upper.value]);
    bounds.fold(at, |at, value| field_end(at, range.ty.subtype, value))
}
/// The bytes of an array, without the length word.
fn array_width(array: &Array) -> usize {
    if matches!(array.dims.first(), Some((0, _)))
        && matches!(array.element_type, oids::INT2 | oids::OID)
        && array.dims.len() == 1
    {
        // int2vector and oidvector say their length and lower bound like any array.
        return 20 + array.elements.iter().map(fixed_width).sum::<usize>();
    }
    let has_nulls = array.elements.iter().any(Datum::is_null);
    let bitmap = if has_nulls { array.elements.len().div_ceil(8) } else { 0 };
    let header = (16 + 8 * array.dims.len() + bitmap).next_multiple_of(8);
    // Each element but the last is filled up to the next one's place.
    let end = array.elements.iter().fold(header, |at, e| {
        let end = field_end(at, array.element_type, e);
        if e.is_null() || array.element_type == oids::NAME {
            end
        } else {
            end.next_multiple_of(if is_variable(e) { 4 } else { alignment(e) })
        }
    });
    end - LONG_HEADER
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Figures of pg_column_size on PostgreSQL 18, of columns of tables.
    #[test]
    fn widths_are_postgresqls() {
        let number = |text: &str| Datum::Numeric(Numeric::parse(text).expect("a number"));
        let array = |element_type, elements: Vec<Datum>| {
            let dims = if elements.is_empty() { Vec::new() } else { vec![(1, elements.len() as u32)] };
            Datum::Array(Arc::new(Array { element_type, dims, elements }))
        };
        let cases = [
            (oids::TEXT, Datum::text(""), 1),
            (oids::TEXT, Datum::text("abc"), 4),
            (oids::TEXT, Datum::text("x".repeat(126)), 127),
            (oids::TEXT, Datum::text("x".repeat(127)), 131),
            (oids::NUMERIC, number("0"), 3),
            (oids::NUMERIC, number("1.5"), 7),
            (oids::NUMERIC, number("12345678"), 7),
            (oids::NUMERIC, number("NaN"), 3),
            (oids::VARBIT, Datum::text("101"), 6),
            (oids::INT4_ARRAY, array(oids::INT4, [1, 2, 3].map(Datum::Int4).to_vec()), 33),
            (oids::TEXT_ARRAY, array(oids::TEXT, vec![Datum::text("a"), Datum::text("bcd"), Datum::Null]), 45),
            (oids::INT8_ARRAY, array(oids::INT8, [1, 2].map(Datum::Int8).to_vec()), 37),
            (oids::BOOL_ARRAY, array(oids::BOOL, [true, false, true].map(Datum::Bool).to_vec()), 24),
            (oids::INT4_ARRAY, array(oids::INT4, Vec::new()), 13),
        ];
        for (oid, value, width) in cases {
            assert_eq!(stored_width(oid, &value), width, "{value:?}");
        }
    }
}
