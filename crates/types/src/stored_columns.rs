//! Columns of many stored rows at a time.
//!
//! A column of a row begins where the ones before it end, so to find it means to walk over them. Rows are walked over
//! together, one column of all of them after the other: then the processor need not wait for one row's lengths before it
//! looks at the next row's, and what a column is has to be asked once. Where wanted columns begin is kept, so that their
//! values can be read later, for the rows that are left by then.
//!
//! Invariants
//! 1. No byte is trusted: what does not fit is [`Error::corrupted`], never a panic.
//! 2. Rows are walked over for ever fewer rows: each walk is for rows that all earlier ones were for.
//!
//! Must not know: conditions, plans, pages.

use crate::cast::padding_of;
use crate::row::{ColumnFetch, ColumnLayout, NO_VALUE, PhysicalType, RowDescriptor, corrupted, decode_wanted_at};
use crate::vector::{BytesKind, IntegerKind, NullMask, Rows, Vector, VectorValues};
use crate::{Datum, row};
use kilndb_base::bytes::ByteReader;
use kilndb_base::{Error, Result, RowId, shared};

/// The rows of a batch: their bytes one after the other, and each one's id, start and end.
#[derive(Clone, Copy)]
pub struct StoredRows<'a> {
    pub bytes: &'a [u8],
    pub rows: &'a [(RowId, u32, u32)],
}

/// The row was stored before the column was added. No row is that long.
const MISSING: u32 = NO_VALUE - 1;

/// Where the columns of a batch's rows are.
#[derive(Default)]
pub struct StoredColumns {
    /// Where the next column of each row begins.
    positions: Vec<u32>,
    /// The number of the next column.
    next: usize,
    /// Of rows that have NULLs or lack columns: the start of each row's bits, 0 without, and its number of columns.
    /// Empty: there are no such rows in the batch.
    irregular: Vec<(u32, u32)>,
    /// By column: where it begins in each row, if that was kept.
    starts: Vec<Vec<u32>>,
    is_kept: Vec<bool>,
}

impl StoredColumns {
    /// Begins with a batch of rows.
    pub fn begin(&mut self, desc: &RowDescriptor, rows: StoredRows<'_>) -> Result<()> {
        let columns = desc.columns.len();
        self.starts.resize_with(columns, Vec::new);
        self.is_kept.clear();
        self.is_kept.resize(columns, false);
        self.next = 0;
        self.positions.clear();
        self.irregular.clear();
        for (row, (_, from, to)) in rows.rows.iter().enumerate() {
            let bytes = rows.bytes.get(*from as usize..*to as usize).ok_or_else(corrupted)?;
            let mut reader = ByteReader::new(bytes);
            let head = reader.varint().ok_or_else(corrupted)?;
            let count = (head >> 1) as usize;
            if count > columns {
                return Err(corrupted());
            }
            let is_regular = head & 1 == 0 && count == columns;
            if !is_regular && self.irregular.is_empty() {
                self.irregular.resize(row, (0, columns as u32));
            }
            let at = |reader: &ByteReader<'_>| from + (bytes.len() - reader.remaining().len()) as u32;
            let nulls = if head & 1 == 1 { at(&reader) } else { 0 };
            if head & 1 == 1 {
                reader.bytes(count.div_ceil(8)).ok_or_else(corrupted)?;
            }
            if !self.irregular.is_empty() || !is_regular {
                self.irregular.push((nulls, count as u32));
            }
            self.positions.push(at(&reader));
        }
        Ok(())
    }

    /// Walks over the columns up to `column`, itself included, and keeps where those begin that are wanted.
    pub fn find(
        &mut self,
        desc: &RowDescriptor,
        (column, wanted): (usize, &[ColumnFetch]),
        stored: StoredRows<'_>,
        rows: Rows<'_>,
    ) -> Result<()> {
        // Fixed widths that have not been added to the positions yet.
        let mut ahead = 0;
        while self.next <= column {
            let layout = desc.columns.get(self.next).ok_or_else(corrupted)?;
            let is_wanted = wanted.get(self.next).is_some_and(|want| *want != ColumnFetch::Nothing);
            if self.irregular.is_empty() {
                let width = layout.storage.width();
                if is_wanted || width.is_none() {
                    advance(&mut self.positions, rows, std::mem::take(&mut ahead));
                }
                if is_wanted {
                    self.keep();
                }
                match width {
                    Some(width) => ahead += width as u32,
                    None => skip_lengths(&mut self.positions, stored.bytes, rows)?,
                }
            } else {
                self.walk_irregular(layout, stored.bytes, rows)?;
            }
            self.next += 1;
        }
        advance(&mut self.positions, rows, ahead);
        Ok(())
    }
    fn keep(&mut self) {
        let starts = &mut self.starts[self.next];
        starts.clear();
        starts.extend_from_slice(&self.positions);
        self.is_kept[self.next] = true;
    }
    /// Walks over a column of rows some of which may not have it.
    fn walk_irregular(&mut self, layout: &ColumnLayout, bytes: &[u8], rows: Rows<'_>) -> Result<()> {
        match layout.storage.width() {
            Some(width) => self.walk_with(bytes, rows, |at| Ok(at + width as u32)),
            None => self.walk_with(bytes, rows, |at| end_of_prefixed(bytes, at)),
        }
    }
    /// The same of values that end where `end_of` says.
    #[inline(always)]
    fn walk_with(&mut self, bytes: &[u8], rows: Rows<'_>, end_of: impl Fn(u32) -> Result<u32>) -> Result<()> {
        let column = self.next;
        let starts = &mut self.starts[column];
        starts.clear();
        starts.resize(self.positions.len(), NO_VALUE);
        self.is_kept[column] = true;
        let (irregular, positions) = (&self.irregular[..], &mut self.positions[..]);
        rows.try_each(|row| {
            let (nulls, count) = irregular[row];
            if column >= count as usize {
                starts[row] = MISSING;
                return Ok(());
            }
            if nulls != 0 {
                let bits = bytes.get(nulls as usize + column / 8).ok_or_else(corrupted)?;
                if bits >> (column % 8) & 1 == 1 {
                    return Ok(());
                }
            }
            let at = positions[row];
            starts[row] = at;
            positions[row] = end_of(at)?;
            Ok(())
        })
    }

    /// Writes the column's values at `rows` to `out`, which has room for the batch. [`StoredColumns::find`] has been
    /// there. `missing` is the value of rows that were stored before there was the column.
    pub fn read(
        &self,
        (layout, column): (&ColumnLayout, usize),
        missing: &Datum,
        stored: StoredRows<'_>,
        rows: Rows<'_>,
        out: &mut Vector,
    ) -> Result<()> {
        let starts = self.starts_of(column)?;
        if !layout.is_shaped() && read_words(layout.storage, starts, stored, rows, out)? {
            return Ok(());
        }
        rows.try_each(|row| {
            let value = match starts[row] {
                NO_VALUE => Datum::Null,
                MISSING => missing.clone(),
                start => {
                    let row = bytes_from(stored, row, start)?;
                    decode_wanted_at(layout, row)?
                }
            };
            out.put(row, value);
            Ok(())
        })
    }

    /// As [`StoredColumns::read`], of values that are handed on as they are stored.
    pub fn read_stored(
        &self,
        (layout, column): (&ColumnLayout, usize),
        missing: &Datum,
        stored: StoredRows<'_>,
        rows: Rows<'_>,
        out: &mut Vector,
    ) -> Result<()> {
        let starts = self.starts_of(column)?;
        out.take_bytes(BytesKind::Stored);
        rows.try_each(|row| {
            let start = match starts[row] {
                NO_VALUE => {
                    out.nulls.set(row);
                    return Ok(());
                }
                MISSING => {
                    out.put(row, missing.clone());
                    return Ok(());
                }
                start => start,
            };
            let rest = bytes_from(stored, row, start)?;
            let length = end_of_value(layout.storage, stored.bytes, start)? - start;
            let value = rest.get(..length as usize).ok_or_else(corrupted)?;
            if let VectorValues::Bytes(BytesKind::Stored, column) = &mut out.values
                && column.put(row, value)
            {
                return Ok(());
            }
            out.put(row, Datum::Stored(shared::bytes(value)?));
            Ok(())
        })
    }

    /// Where a column that was looked for begins in each row.
    fn starts_of(&self, column: usize) -> Result<&[u32]> {
        match self.is_kept.get(column) {
            Some(true) => Ok(&self.starts[column]),
            _ => Err(Error::internal("a column that was not looked for is read")),
        }
    }
}

fn advance(positions: &mut [u32], rows: Rows<'_>, width: u32) {
    if width > 0 {
        rows.each(|row| positions[row] += width);
    }
}

/// Walks over a value that begins with its length.
fn skip_lengths(positions: &mut [u32], bytes: &[u8], rows: Rows<'_>) -> Result<()> {
    rows.try_each(|row| {
        positions[row] = end_of_prefixed(bytes, positions[row])?;
        Ok(())
    })
}

/// Where a value ends that begins at `at`.
fn end_of_value(storage: PhysicalType, bytes: &[u8], at: u32) -> Result<u32> {
    match storage.width() {
        Some(width) => Ok(at + width as u32),
        None => end_of_prefixed(bytes, at),
    }
}

/// The same of a value that begins with its length.
#[inline]
fn end_of_prefixed(bytes: &[u8], at: u32) -> Result<u32> {
    match bytes.get(at as usize) {
        Some(length) if *length < 0x80 => Ok(at + 1 + u32::from(*length)),
        _ => end_of_long(bytes, at),
    }
}

#[cold]
fn end_of_long(bytes: &[u8], at: u32) -> Result<u32> {
    let from = bytes.get(at as usize..).ok_or_else(corrupted)?;
    let mut reader = ByteReader::new(from);
    reader.prefixed().ok_or_else(corrupted)?;
    u32::try_from(bytes.len() - reader.remaining().len()).map_err(|_| corrupted())
}

/// The bytes of a row from a column's start.
#[inline]
fn bytes_from<'a>(stored: StoredRows<'a>, row: usize, start: u32) -> Result<&'a [u8]> {
    let end = stored.rows.get(row).ok_or_else(corrupted)?.2;
    stored.bytes.get(start as usize..end as usize).ok_or_else(corrupted)
}

#[inline(always)]
fn first<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.first_chunk().copied().ok_or_else(corrupted)
}

/// Reads values of types that vectors have a narrow form for. False: it is none of them, or they do not fit what `out`
/// has.
fn read_words(
    storage: PhysicalType,
    starts: &[u32],
    stored: StoredRows<'_>,
    rows: Rows<'_>,
    out: &mut Vector,
) -> Result<bool> {
    use IntegerKind as K;
    use PhysicalType as P;
    macro_rules! integers {
        ($kind:expr, |$bytes:ident| $word:expr) => {
            read_integers($kind, starts, stored, rows, out, |$bytes| Ok($word))
        };
    }
    match storage {
        P::Char => integers!(K::Char, |b| i64::from(first::<1>(b)?[0])),
        P::Int2 => integers!(K::Int2, |b| i64::from(i16::from_le_bytes(first(b)?))),
        P::Int4 => integers!(K::Int4, |b| i64::from(i32::from_le_bytes(first(b)?))),
        P::Int8 => integers!(K::Int8, |b| i64::from_le_bytes(first(b)?)),
        P::Oid => integers!(K::Oid, |b| i64::from(u32::from_le_bytes(first(b)?))),
        P::Date => integers!(K::Date, |b| i64::from(i32::from_le_bytes(first(b)?))),
        P::Time => integers!(K::Time, |b| i64::from_le_bytes(first(b)?)),
        P::Timestamp => integers!(K::Timestamp, |b| i64::from_le_bytes(first(b)?)),
        P::TimestampTz => integers!(K::TimestampTz, |b| i64::from_le_bytes(first(b)?)),
        P::Text => read_bytes(BytesKind::Text, 0, starts, stored, (rows, out)),
        P::Padded(length) => read_bytes(BytesKind::Text, length as usize, starts, stored, (rows, out)),
        P::Bytea => read_bytes(BytesKind::Bytea, 0, starts, stored, (rows, out)),
        P::Jsonb => read_bytes(BytesKind::Jsonb, 0, starts, stored, (rows, out)),
        P::Numeric => read_decimals(starts, stored, rows, out),
        P::Float8 => read_doubles(starts, stored, rows, out),
        P::Bool => read_bools(starts, stored, rows, out),
        _ => Ok(false),
    }
}

/// Calls `f` for the rows that have a value, and notes which are NULL. False: a row lacks the column.
#[inline(always)]
fn each_value(
    starts: &[u32],
    rows: Rows<'_>,
    nulls: &mut NullMask,
    mut f: impl FnMut(usize, u32) -> Result<()>,
) -> Result<bool> {
    let mut is_missing = false;
    rows.try_each(|row| match starts[row] {
        NO_VALUE => {
            nulls.set(row);
            Ok(())
        }
        MISSING => {
            is_missing = true;
            Ok(())
        }
        start => f(row, start),
    })?;
    Ok(!is_missing)
}

#[inline(always)]
fn read_integers(
    kind: IntegerKind,
    starts: &[u32],
    stored: StoredRows<'_>,
    rows: Rows<'_>,
    out: &mut Vector,
    word: impl Fn(&[u8]) -> Result<i64>,
) -> Result<bool> {
    out.take_integers(kind);
    let Vector { values: VectorValues::Integers(own, values), nulls, .. } = out else { return Ok(false) };
    if *own != kind {
        return Ok(false);
    }
    read_fixed((values, nulls), starts, stored, rows, word)
}

/// Reads values that all have the same width.
#[inline(always)]
fn read_fixed<T>(
    (values, nulls): (&mut [T], &mut NullMask),
    starts: &[u32],
    stored: StoredRows<'_>,
    rows: Rows<'_>,
    value: impl Fn(&[u8]) -> Result<T>,
) -> Result<bool> {
    each_value(starts, rows, nulls, |row, start| {
        values[row] = value(bytes_from(stored, row, start)?)?;
        Ok(())
    })
}

fn read_doubles(starts: &[u32], stored: StoredRows<'_>, rows: Rows<'_>, out: &mut Vector) -> Result<bool> {
    let Some(doubles) = out.take_doubles() else { return Ok(false) };
    read_fixed(doubles, starts, stored, rows, |bytes| Ok(f64::from_le_bytes(first(bytes)?)))
}

fn read_bools(starts: &[u32], stored: StoredRows<'_>, rows: Rows<'_>, out: &mut Vector) -> Result<bool> {
    let Some(bools) = out.take_bools() else { return Ok(false) };
    read_fixed(bools, starts, stored, rows, |bytes| match first(bytes)? {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(corrupted()),
    })
}

/// `length` is that of character(n), 0 for others.
fn read_bytes(
    kind: BytesKind,
    length: usize,
    starts: &[u32],
    stored: StoredRows<'_>,
    (rows, out): (Rows<'_>, &mut Vector),
) -> Result<bool> {
    out.take_bytes(kind);
    let Vector { values: VectorValues::Bytes(own, column), nulls, .. } = out else { return Ok(false) };
    if *own != kind {
        return Ok(false);
    }
    let mut fits = true;
    let read = each_value(starts, rows, nulls, |row, start| {
        let value = ByteReader::new(bytes_from(stored, row, start)?).prefixed().ok_or_else(corrupted)?;
        let blanks = if length == 0 { 0 } else { padding_of(value, length)? };
        fits &= column.put_padded(row, value, blanks);
        Ok(())
    })?;
    Ok(read && fits)
}

/// Reads numerics, if all of them are short and have as many decimals.
fn read_decimals(starts: &[u32], stored: StoredRows<'_>, rows: Rows<'_>, out: &mut Vector) -> Result<bool> {
    let mut decimals = match out.form() {
        None => None,
        Some(VectorValues::Decimals(known, _)) => Some(*known),
        Some(_) => return Ok(false),
    };
    let before = decimals;
    let mut is_uniform = true;
    let mut words = out.take_words();
    let read = each_value(starts, rows, &mut out.nulls, |row, start| {
        let value = ByteReader::new(bytes_from(stored, row, start)?).prefixed().ok_or_else(corrupted)?;
        match row::stored_short(value) {
            Some(number) if *decimals.get_or_insert(number.decimals()) == number.decimals() => {
                words[row] = number.value();
            }
            _ => is_uniform = false,
        }
        Ok(())
    })?;
    // Values of earlier calls are words still, and those of this call are written again if they do not fit.
    let is_read = read && is_uniform;
    if let Some(decimals) = if is_read { decimals } else { before } {
        out.values = VectorValues::Decimals(decimals, words);
    }
    Ok(is_read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::Numeric;
    use crate::oids::*;

    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 24
    }

    fn value(ty: kilndb_base::Oid, state: &mut u64) -> Datum {
        let n = next(state);
        match ty {
            _ if n.is_multiple_of(7) => Datum::Null,
            BOOL => Datum::Bool(n.is_multiple_of(2)),
            INT2 => Datum::Int2(n as i16),
            INT4 => Datum::Int4(n as i32),
            INT8 => Datum::Int8(n as i64),
            DATE => Datum::Date(n as i32),
            TIMESTAMP => Datum::Timestamp(n as i64),
            FLOAT8 => Datum::Float8(n as f64 / 3.0),
            BPCHAR => Datum::text("abc   "),
            TEXT => Datum::text("ä".repeat(n as usize % 100)),
            NUMERIC if n.is_multiple_of(11) => {
                Datum::Numeric(Numeric::parse("123456789012345678901234567890.5").unwrap())
            }
            NUMERIC => Datum::Numeric(Numeric::parse(&format!("{}.{:02}", n % 10_000, n % 100)).unwrap()),
            _ => Datum::Uuid([n as u8; 16]),
        }
    }

    struct Sample {
        desc: RowDescriptor,
        /// What each row has in each column.
        values: Vec<Vec<Datum>>,
        bytes: Vec<u8>,
        spans: Vec<(RowId, u32, u32)>,
    }

    /// Rows of which some were stored before the last columns were added.
    fn sample(seed: u64) -> Sample {
        let state = &mut { seed };
        let types = [BOOL, INT2, TEXT, INT4, NUMERIC, INT8, BPCHAR, DATE, TIMESTAMP, FLOAT8, UUID, NUMERIC, TEXT];
        let count = 1 + next(state) as usize % types.len();
        let types: Vec<_> = (0..count).map(|_| types[next(state) as usize % types.len()]).collect();
        let mut desc = RowDescriptor::new(&types).unwrap();
        desc.columns.iter_mut().zip(&types).filter(|(_, ty)| **ty == BPCHAR).for_each(|(c, _)| c.pad_to(6));
        let (has_nulls, has_old) = (next(state).is_multiple_of(2), next(state).is_multiple_of(4));
        let (mut values, mut bytes, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        for slot in 0..1 + next(state) % 90 {
            let mut row: Vec<Datum> = Vec::new();
            for ty in &types {
                let mut v = value(*ty, state);
                while !has_nulls && v.is_null() {
                    v = value(*ty, state);
                }
                row.push(v);
            }
            let stored = if has_old { 1 + next(state) as usize % count } else { count };
            let old = RowDescriptor { columns: desc.columns[..stored].to_vec() };
            let from = bytes.len() as u32;
            row::encode_row(&old, &row[..stored], &mut bytes).unwrap();
            spans.push((RowId { block: 0, slot: slot as u16 }, from, bytes.len() as u32));
            row.truncate(stored);
            row.resize(count, Datum::Int4(-77));
            values.push(row);
        }
        Sample { desc, values, bytes, spans }
    }

    #[test]
    fn columns_are_what_rows_have() {
        for seed in 0..400 {
            let Sample { desc, values, bytes, spans } = sample(seed);
            let stored = StoredRows { bytes: &bytes, rows: &spans };
            let wanted = vec![ColumnFetch::Value; desc.columns.len()];
            let mut columns = StoredColumns::default();
            columns.begin(&desc, stored).unwrap();
            let mut left: Vec<u32> = (0..spans.len() as u32).collect();
            let state = &mut { seed };
            for (column, layout) in desc.columns.iter().enumerate() {
                // Ever fewer rows are asked for, each column in two parts.
                left.retain(|_| !next(state).is_multiple_of(10));
                let rows = Rows::Listed(&left, spans.len());
                columns.find(&desc, (column, &wanted), stored, rows).unwrap();
                let (a, b) = left.split_at(left.len() / 2);
                let mut vector = Vector::default();
                vector.start(spans.len());
                for part in [a, b] {
                    let part = Rows::Listed(part, spans.len());
                    columns.read((layout, column), &Datum::Int4(-77), stored, part, &mut vector).unwrap();
                }
                for row in &left {
                    let (found, expected) = (vector.get(*row as usize).unwrap(), &values[*row as usize][column]);
                    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "seed {seed}, column {column}");
                }
            }
        }
    }

    #[test]
    fn damage_is_an_error_or_another_value() {
        for seed in 0..20 {
            let Sample { desc, mut bytes, spans, .. } = sample(seed);
            let wanted = vec![ColumnFetch::Value; desc.columns.len()];
            for at in (seed as usize % 5..bytes.len()).step_by(5) {
                let before = bytes[at];
                bytes[at] ^= 0xff >> (at % 8);
                let stored = StoredRows { bytes: &bytes, rows: &spans };
                let rows = Rows::All(spans.len());
                let mut columns = StoredColumns::default();
                let read = columns.begin(&desc, stored).and_then(|()| {
                    (0..desc.columns.len()).try_for_each(|column| {
                        columns.find(&desc, (column, &wanted), stored, rows)?;
                        let mut vector = Vector::default();
                        vector.start(spans.len());
                        columns.read((&desc.columns[column], column), &Datum::Null, stored, rows, &mut vector)?;
                        (0..spans.len()).try_for_each(|row| vector.get(row).map(drop))
                    })
                });
                let _ = read;
                bytes[at] = before;
            }
        }
    }
}
