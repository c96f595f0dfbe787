//! Stored rows made of columns: what [`crate::row::encode_row`] makes of the values of one row after the other.
//!
//! Invariants
//! 1. The bytes are those that `encode_row` makes.
//!
//! Must not know: pages, where columns come from.

use crate::numeric::ShortNumeric;
use crate::row::{ColumnLayout, PhysicalType, RowDescriptor, encode_column, put_short};
use crate::vector::{ByteColumn, BytesKind, IntegerKind, Rows, Vector, VectorValues};
use kilndb_base::bytes::{put_prefixed, put_varint};
use kilndb_base::{Error, Result};

/// How the values of a column become bytes.
enum ColumnWriter<'a> {
    /// The lowest bytes of words.
    Words(&'a [i64], usize),
    Bools(&'a [bool]),
    Doubles(&'a [f64]),
    /// Numbers with so many decimals.
    Decimals(u8, &'a [i64]),
    /// Bytes behind their length.
    Prefixed(&'a ByteColumn),
    /// Values as they are stored.
    Stored(&'a ByteColumn),
    /// Whatever has no form of its own, or another one than the column's.
    Values(&'a Vector, &'a ColumnLayout),
}

impl<'a> ColumnWriter<'a> {
    fn of(layout: &'a ColumnLayout, vector: &'a Vector) -> ColumnWriter<'a> {
        use {PhysicalType as P, VectorValues as V};
        if vector.is_constant() || layout.is_shaped() {
            return ColumnWriter::Values(vector, layout);
        }
        match (layout.storage, &vector.values) {
            (_, V::Bytes(BytesKind::Stored, column)) => ColumnWriter::Stored(column),
            (P::Text, V::Bytes(BytesKind::Text, column))
            | (P::Bytea, V::Bytes(BytesKind::Bytea, column))
            | (P::Jsonb, V::Bytes(BytesKind::Jsonb, column)) => ColumnWriter::Prefixed(column),
            (P::Bool, V::Bools(values)) => ColumnWriter::Bools(values),
            (P::Float8, V::Doubles(values)) => ColumnWriter::Doubles(values),
            (P::Numeric, V::Decimals(decimals, values)) => ColumnWriter::Decimals(*decimals, values),
            (storage, V::Integers(kind, words)) if stores(*kind) == storage => {
                ColumnWriter::Words(words, storage.width().unwrap_or(0))
            }
            _ => ColumnWriter::Values(vector, layout),
        }
    }
    #[inline]
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match self {
            ColumnWriter::Words(words, width) => out.extend_from_slice(&words[row].to_le_bytes()[..*width]),
            ColumnWriter::Bools(values) => out.push(u8::from(values[row])),
            ColumnWriter::Doubles(values) => out.extend_from_slice(&values[row].to_le_bytes()),
            ColumnWriter::Decimals(decimals, values) => put_short(ShortNumeric::at(values[row], *decimals), out),
            ColumnWriter::Prefixed(column) => put_prefixed(out, column.get(row)),
            ColumnWriter::Stored(column) => out.extend_from_slice(column.get(row)),
            ColumnWriter::Values(vector, layout) => encode_column(layout, &vector.get(row)?, out)?,
        }
        Ok(())
    }
    /// How many bytes each value has, if all have as many and none needs a call.
    fn width(&self) -> Option<usize> {
        match self {
            ColumnWriter::Words(_, width) => Some(*width),
            ColumnWriter::Bools(_) => Some(1),
            ColumnWriter::Doubles(_) => Some(8),
            ColumnWriter::Decimals(..)
            | ColumnWriter::Prefixed(_)
            | ColumnWriter::Stored(_)
            | ColumnWriter::Values(..) => None,
        }
    }
    /// Writes the values of all rows, the first at `at` of `out`, each so many bytes behind the one before.
    fn write_all(&self, rows: Rows<'_>, (at, step): (usize, usize), out: &mut [u8]) {
        macro_rules! put {
            ($values:expr, |$value:ident| $bytes:expr) => {{
                let values = $values;
                let mut at = at;
                rows.each(|row| {
                    let $value = values[row];
                    let bytes = $bytes;
                    out[at..at + bytes.len()].copy_from_slice(&bytes);
                    at += step;
                });
            }};
        }
        match self {
            ColumnWriter::Words(words, 4) => put!(words, |word| (word as u32).to_le_bytes()),
            ColumnWriter::Words(words, 8) => put!(words, |word| word.to_le_bytes()),
            ColumnWriter::Words(words, width) => {
                let mut at = at;
                rows.each(|row| {
                    out[at..at + width].copy_from_slice(&words[row].to_le_bytes()[..*width]);
                    at += step;
                });
            }
            ColumnWriter::Bools(values) => put!(values, |value| [u8::from(value)]),
            ColumnWriter::Doubles(values) => put!(values, |value| value.to_le_bytes()),
            ColumnWriter::Decimals(..)
            | ColumnWriter::Prefixed(_)
            | ColumnWriter::Stored(_)
            | ColumnWriter::Values(..) => {}
        }
    }
}

fn stores(kind: IntegerKind) -> PhysicalType {
    match kind {
        IntegerKind::Char => PhysicalType::Char,
        IntegerKind::Int2 => PhysicalType::Int2,
        IntegerKind::Int4 => PhysicalType::Int4,
        IntegerKind::Int8 => PhysicalType::Int8,
        IntegerKind::Oid => PhysicalType::Oid,
        IntegerKind::Date => PhysicalType::Date,
        IntegerKind::Time => PhysicalType::Time,
        IntegerKind::Timestamp => PhysicalType::Timestamp,
        IntegerKind::TimestampTz => PhysicalType::TimestampTz,
        // A tid's bytes are not the lowest of its word.
        IntegerKind::Tid => PhysicalType::Tagged,
    }
}

/// Appends the rows to `out`, and tells of each where it ends. `columns`: by column of the table.
pub fn encode_rows(
    desc: &RowDescriptor,
    columns: &[&Vector],
    rows: Rows<'_>,
    out: &mut Vec<u8>,
    mut ended: impl FnMut(usize),
) -> Result<()> {
    if columns.len() != desc.columns.len() {
        return Err(Error::internal("rows and their description differ in column count"));
    }
    let writers: Vec<ColumnWriter<'_>> =
        desc.columns.iter().zip(columns).map(|(layout, vector)| ColumnWriter::of(layout, vector)).collect();
    let may_be_null = columns.iter().any(|vector| vector.nulls.has_any());
    let widths: Option<usize> = writers.iter().map(ColumnWriter::width).sum();
    let mut head = Vec::new();
    put_varint(&mut head, (columns.len() as u64) << 1);
    if let (Some(width), false) = (widths, may_be_null) {
        encode_fixed(&writers, (&head, width), rows, out, ended);
        return Ok(());
    }
    let nullable: Vec<(usize, &Vector)> = columns
        .iter()
        .enumerate()
        .filter(|(_, vector)| vector.nulls.has_any())
        .map(|(at, vector)| (at, *vector))
        .collect();
    rows.try_each(|row| {
        let start = out.len();
        let is_null = |vector: &Vector| vector.is_null(row);
        if nullable.iter().any(|(_, vector)| is_null(vector)) {
            put_varint(out, (columns.len() as u64) << 1 | 1);
            let bits = out.len();
            out.resize(bits + columns.len().div_ceil(8), 0);
            for (at, _) in nullable.iter().filter(|(_, vector)| is_null(vector)) {
                out[bits + at / 8] |= 1 << (at % 8);
            }
        } else {
            out.extend_from_slice(&head);
        }
        for (writer, vector) in writers.iter().zip(columns) {
            if !is_null(vector) {
                writer.write(row, out)?;
            }
        }
        debug_assert!(out.len() > start);
        ended(out.len());
        Ok(())
    })
}

/// Rows without NULLs, all of the same length: `width` is that of their values together.
fn encode_fixed(
    writers: &[ColumnWriter<'_>],
    (head, width): (&[u8], usize),
    rows: Rows<'_>,
    out: &mut Vec<u8>,
    mut ended: impl FnMut(usize),
) {
    let start = out.len();
    let step = head.len() + width;
    out.resize(start + rows.len() * step, 0);
    for row in out[start..].chunks_exact_mut(step.max(1)) {
        row[..head.len()].copy_from_slice(head);
    }
    let mut at = start + head.len();
    for writer in writers {
        writer.write_all(rows, (at, step), out);
        at += writer.width().unwrap_or(0);
    }
    (1..=rows.len()).for_each(|row| ended(start + row * step));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::encode_row;
    use crate::{Datum, oids};
    use kilndb_base::shared;

    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *state >> 33
    }
    fn value(ty: kilndb_base::Oid, random: u64) -> Datum {
        match ty {
            oids::INT2 => Datum::Int2(random as i16),
            oids::INT4 => Datum::Int4(random as i32 - (1 << 30)),
            oids::INT8 => Datum::Int8(-(random as i64)),
            oids::BOOL => Datum::Bool(random & 1 == 1),
            oids::FLOAT8 => Datum::Float8(random as f64 / 7.0),
            oids::DATE => Datum::Date(random as i32),
            oids::TIMESTAMP => Datum::Timestamp(random as i64),
            oids::TEXT => Datum::Text(shared::text(&"x".repeat(random as usize % 200)).unwrap()),
            oids::UUID => Datum::Uuid([random as u8; 16]),
            oids::TID => Datum::Tid(random as u32, 7),
            _ => unreachable!("a type of the test"),
        }
    }

    /// Random rows of random columns, some with NULLs, all rows of a batch or some: the bytes are those that the rows
    /// have one by one.
    #[test]
    fn rows_of_columns_are_stored_as_any_others() {
        let types = [
            oids::INT2,
            oids::INT4,
            oids::INT8,
            oids::BOOL,
            oids::FLOAT8,
            oids::DATE,
            oids::TIMESTAMP,
            oids::TEXT,
            oids::UUID,
            oids::TID,
        ];
        let mut state = 7;
        for round in 0..400 {
            let count = 1 + next(&mut state) as usize % 10;
            let fixed = if round % 2 == 0 { 7 } else { types.len() };
            let chosen: Vec<_> = (0..count).map(|_| types[next(&mut state) as usize % fixed]).collect();
            let desc = RowDescriptor::new(&chosen).unwrap();
            let positions = 1 + next(&mut state) as usize % 40;
            let with_nulls = round % 3 == 0;
            let mut vectors = vec![Vector::default(); count];
            vectors.iter_mut().for_each(|vector| vector.start(positions));
            let mut values = vec![vec![Datum::Null; count]; positions];
            for (at, ty) in chosen.iter().enumerate() {
                if round % 5 == 1 && at == 0 {
                    let one = value(*ty, next(&mut state));
                    values.iter_mut().for_each(|row| row[at] = one.clone());
                    vectors[at].make_constant(one);
                    continue;
                }
                for (row, values) in values.iter_mut().enumerate() {
                    if !(with_nulls && next(&mut state).is_multiple_of(4)) {
                        values[at] = value(*ty, next(&mut state));
                    }
                    vectors[at].put(row, values[at].clone());
                }
            }
            let list: Vec<u32> = (0..positions as u32).filter(|_| !next(&mut state).is_multiple_of(3)).collect();
            let rows = if round % 4 < 2 { Rows::All(positions) } else { Rows::Listed(&list, positions) };
            let (mut bytes, mut ends) = (vec![1, 2, 3], Vec::new());
            let columns: Vec<&Vector> = vectors.iter().collect();
            encode_rows(&desc, &columns, rows, &mut bytes, |end| ends.push(end)).unwrap();
            let (mut expected, mut expected_ends) = (vec![1, 2, 3], Vec::new());
            rows.each(|row| {
                encode_row(&desc, &values[row], &mut expected).unwrap();
                expected_ends.push(expected.len());
            });
            assert!(bytes == expected && ends == expected_ends, "round {round}: {chosen:?}");
        }
    }
}
