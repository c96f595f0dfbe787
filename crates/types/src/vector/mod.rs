//! Columns of values: what expression programs compute with, many rows at a time (docs/decisions/0062).
//!
//! A [`Vector`] holds a value for each position of a batch of rows, in the narrowest form that all of them have: machine
//! words for integers, dates and times, words with one number of decimals for short numerics, slices of one buffer for
//! texts, [`Datum`]s for all else. Who writes values one by one ([`Vector::put`]) need not know the form: a value that
//! does not fit makes the whole vector one of `Datum`s.
//!
//! Invariants
//! 1. Only the positions that a vector was computed for have a meaning; others hold anything.
//! 2. A position that is NULL in the mask holds no value, whatever the form has there.
//! 3. Bytes of texts are looked at for UTF-8 when they become a [`Datum`], not before.
//!
//! Must not know: expressions, plans, where rows come from.

mod arithmetic;
mod bytes;
mod compare;
mod conversion;
mod forms;
mod json;
mod nulls;
mod rows;
#[cfg(test)]
mod tests;
mod text;
mod text_change;
mod text_part;

pub use arithmetic::integer_arithmetic;
pub(crate) use bytes::text as text_of;
pub use bytes::{ByteColumn, BytesKind};
pub use compare::compare_integers;
pub use conversion::{apply_typmod, conversion};
pub use forms::form;
pub use nulls::NullMask;
pub use rows::Rows;
pub(crate) use text::texts;

use crate::numeric::{Numeric, ShortNumeric};
use crate::{Datum, key};
use kilndb_base::{Oid, Result};

/// Computes a function of vectors, without NULLs at `rows`. False: it cannot for these values (their forms, their range);
/// then the function is called for one row after the other, which also raises its errors.
pub type VectorFn = fn(Rows<'_>, &[&Vector], &mut Vector) -> bool;

/// Stands for a row that is not there.
pub const NO_ROW: u32 = u32::MAX;

/// Which [`Datum`] a word stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntegerKind {
    Char,
    Int2,
    Int4,
    Int8,
    Oid,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    /// The block, then 16 bits of the slot.
    Tid,
}

#[derive(Clone, Debug, Default)]
pub enum VectorValues {
    /// There has been no value yet but NULL.
    #[default]
    Nothing,
    Bools(Vec<bool>),
    Integers(IntegerKind, Vec<i64>),
    /// Short numerics, all with the same number of decimals.
    Decimals(u8, Vec<i64>),
    Doubles(Vec<f64>),
    Bytes(BytesKind, ByteColumn),
    Datums(Vec<Datum>),
}

#[derive(Clone, Debug, Default)]
pub struct Vector {
    pub values: VectorValues,
    pub nulls: NullMask,
    pub(crate) positions: usize,
    /// The value at the first position stands for all.
    is_constant: bool,
    /// The form is that of earlier values, of which none is left: any other may take its place.
    is_fresh: bool,
}

/// A value by the form that it would have in a vector.
enum Word {
    Bool(bool),
    Integer(IntegerKind, i64),
    Decimal(u8, i64),
    Double(f64),
}

fn word_of(value: &Datum) -> Option<Word> {
    use IntegerKind as K;
    Some(match value {
        Datum::Bool(v) => Word::Bool(*v),
        Datum::Char(v) => Word::Integer(K::Char, i64::from(*v)),
        Datum::Int2(v) => Word::Integer(K::Int2, i64::from(*v)),
        Datum::Int4(v) => Word::Integer(K::Int4, i64::from(*v)),
        Datum::Int8(v) => Word::Integer(K::Int8, *v),
        Datum::Oid(v) => Word::Integer(K::Oid, i64::from(*v)),
        Datum::Date(v) => Word::Integer(K::Date, i64::from(*v)),
        Datum::Time(v) => Word::Integer(K::Time, *v),
        Datum::Timestamp(v) => Word::Integer(K::Timestamp, *v),
        Datum::TimestampTz(v) => Word::Integer(K::TimestampTz, *v),
        Datum::Tid(block, slot) => Word::Integer(K::Tid, tid_word(*block, *slot)),
        Datum::Numeric(Numeric::Short(v)) => Word::Decimal(v.decimals(), v.value()),
        Datum::Float8(v) => Word::Double(*v),
        _ => return None,
    })
}

/// The word of a row's place: those of places have their order.
#[inline]
pub fn tid_word(block: u32, slot: u16) -> i64 {
    i64::from(block) << 16 | i64::from(slot)
}

/// The block and slot that such a word is of.
#[inline]
pub fn tid_of(word: i64) -> (u32, u16) {
    ((word >> 16) as u32, word as u16)
}

impl IntegerKind {
    /// `word` is one that [`word_of`] has made, so that nothing of it is lost.
    fn datum(self, word: i64) -> Datum {
        match self {
            IntegerKind::Char => Datum::Char(word as u8),
            IntegerKind::Int2 => Datum::Int2(word as i16),
            IntegerKind::Int4 => Datum::Int4(word as i32),
            IntegerKind::Int8 => Datum::Int8(word),
            IntegerKind::Oid => Datum::Oid(word as u32),
            IntegerKind::Date => Datum::Date(word as i32),
            IntegerKind::Time => Datum::Time(word),
            IntegerKind::Timestamp => Datum::Timestamp(word),
            IntegerKind::TimestampTz => Datum::TimestampTz(word),
            IntegerKind::Tid => {
                let (block, slot) = tid_of(word);
                Datum::Tid(block, slot)
            }
        }
    }
    /// The key of a value, as in [`Vector::short_key`].
    #[inline]
    fn key_bits(self, word: i64) -> (u128, usize) {
        match self {
            IntegerKind::Int4 | IntegerKind::Date => key::int4_bits(word as i32),
            IntegerKind::Int8 | IntegerKind::Time | IntegerKind::Timestamp | IntegerKind::TimestampTz => {
                key::int8_bits(word)
            }
            IntegerKind::Int2 => key::int2_bits(word as i16),
            IntegerKind::Oid => key::oid_bits(word as u32),
            IntegerKind::Char => key::char_bits(word as u8),
            IntegerKind::Tid => {
                let (block, slot) = tid_of(word);
                key::tid_bits(block, slot)
            }
        }
    }
    /// Is it one of int2, int4 and int8?
    pub fn is_number(self) -> bool {
        matches!(self, IntegerKind::Int2 | IntegerKind::Int4 | IntegerKind::Int8)
    }
}

impl Vector {
    /// A vector whose every position has the value.
    pub fn constant(value: Datum) -> Vector {
        let mut vector = Vector::default();
        vector.make_constant(value);
        vector
    }
    pub fn make_constant(&mut self, value: Datum) {
        self.start(1);
        self.put(0, value);
        self.is_constant = true;
    }
    pub fn is_constant(&self) -> bool {
        self.is_constant
    }
    /// Where the value of a row is.
    #[inline]
    pub fn at(&self, row: usize) -> usize {
        if self.is_constant { 0 } else { row }
    }
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.has_any() && self.nulls.is_null(self.at(row))
    }

    /// Forgets all values, and makes room for as many. No position is NULL, and none has a value.
    pub fn start(&mut self, positions: usize) {
        self.nulls.clear(positions);
        self.positions = positions;
        self.is_constant = false;
        self.is_fresh = true;
        // Buffers are kept: most vectors get values of the same form in each batch.
        match &mut self.values {
            VectorValues::Nothing => {}
            VectorValues::Bools(v) => v.resize(positions, false),
            VectorValues::Integers(_, v) | VectorValues::Decimals(_, v) => v.resize(positions, 0),
            VectorValues::Doubles(v) => v.resize(positions, 0.0),
            VectorValues::Bytes(_, v) => v.start(positions),
            VectorValues::Datums(_) => self.values = VectorValues::Nothing,
        }
    }
    /// As [`Vector::start`], for values of this form.
    pub fn start_bools(&mut self, positions: usize) -> &mut [bool] {
        self.start(positions);
        let Some((values, _)) = self.take_bools() else { unreachable!("no value has another form") };
        values
    }
    pub fn start_integers(&mut self, kind: IntegerKind, positions: usize) -> &mut [i64] {
        self.start(positions);
        self.take_integers(kind);
        let VectorValues::Integers(_, values) = &mut self.values else { unreachable!("the form was just made") };
        values
    }
    pub fn start_decimals(&mut self, decimals: u8, positions: usize) -> &mut [i64] {
        self.start(positions);
        let words = self.take_words();
        self.values = VectorValues::Decimals(decimals, words);
        let VectorValues::Decimals(_, values) = &mut self.values else { unreachable!("the form was just made") };
        values
    }
    pub fn start_doubles(&mut self, positions: usize) -> &mut [f64] {
        self.start(positions);
        let Some((values, _)) = self.take_doubles() else { unreachable!("no value has another form") };
        values
    }
    pub fn start_bytes(&mut self, kind: BytesKind, positions: usize) -> &mut ByteColumn {
        self.start(positions);
        self.take_bytes(kind);
        let VectorValues::Bytes(_, values) = &mut self.values else { unreachable!("the form was just made") };
        values
    }
    /// Takes the form of integers of a kind, unless there are values of another form.
    pub(crate) fn take_integers(&mut self, kind: IntegerKind) {
        if self.is_fresh || matches!(self.values, VectorValues::Nothing) {
            let words = self.take_words();
            self.values = VectorValues::Integers(kind, words);
        }
    }
    /// Takes the form of doubles; None: there are values of another form.
    pub(crate) fn take_doubles(&mut self) -> Option<(&mut [f64], &mut NullMask)> {
        if self.form().is_none() && !matches!(self.values, VectorValues::Doubles(_)) {
            self.values = VectorValues::Doubles(vec![0.0; self.positions]);
        }
        let VectorValues::Doubles(values) = &mut self.values else { return None };
        self.is_fresh = false;
        Some((values, &mut self.nulls))
    }
    /// Takes the form of booleans; None: there are values of another form.
    pub(crate) fn take_bools(&mut self) -> Option<(&mut [bool], &mut NullMask)> {
        if self.form().is_none() && !matches!(self.values, VectorValues::Bools(_)) {
            self.values = VectorValues::Bools(vec![false; self.positions]);
        }
        let VectorValues::Bools(values) = &mut self.values else { return None };
        self.is_fresh = false;
        Some((values, &mut self.nulls))
    }
    /// Takes the form of bytes of a kind, unless there are values of another form.
    pub(crate) fn take_bytes(&mut self, kind: BytesKind) {
        if !self.is_fresh && !matches!(self.values, VectorValues::Nothing) {
            return;
        }
        self.is_fresh = false;
        match &mut self.values {
            VectorValues::Bytes(known, _) => *known = kind,
            values => {
                let mut column = ByteColumn::default();
                column.start(self.positions);
                *values = VectorValues::Bytes(kind, column);
            }
        }
    }
    /// Words to be written in place of all values, and with them the form.
    pub(crate) fn take_words(&mut self) -> Vec<i64> {
        self.is_fresh = false;
        match std::mem::take(&mut self.values) {
            VectorValues::Integers(_, words) | VectorValues::Decimals(_, words) => words,
            _ => vec![0; self.positions],
        }
    }
    /// The form, None as long as no value has been written.
    pub(crate) fn form(&self) -> Option<&VectorValues> {
        (!self.is_fresh && !matches!(self.values, VectorValues::Nothing)).then_some(&self.values)
    }
    /// Makes the form one of `Datum`s.
    fn widen(&mut self) {
        if matches!(self.values, VectorValues::Datums(_)) {
            return;
        }
        // Positions that were never computed give whatever their words say: nobody reads them.
        let value = |row| if self.nulls.is_null(row) { Datum::Null } else { self.value(row).unwrap_or_default() };
        self.values = VectorValues::Datums((0..self.positions).map(value).collect());
    }

    /// Writes the bytes of a row's value. False: the vector has values of another form, or no room, and nothing is written.
    #[inline]
    pub fn put_bytes(&mut self, row: usize, kind: BytesKind, value: &[u8]) -> bool {
        self.take_bytes(kind);
        let is_put = match &mut self.values {
            VectorValues::Bytes(own, column) => *own == kind && column.put(row, value),
            _ => false,
        };
        if is_put {
            self.nulls.unset(row);
        }
        is_put
    }
    /// Writes an integer of this kind as the value of a row.
    #[inline]
    pub fn put_integer(&mut self, row: usize, kind: IntegerKind, word: i64) {
        match &mut self.values {
            VectorValues::Integers(own, words) if *own == kind => {
                words[row] = word;
                self.is_fresh = false;
                self.nulls.unset(row);
            }
            _ => self.put_any(row, kind.datum(word)),
        }
    }
    /// Writes the value of a row. All vectors but constants are written so.
    #[inline]
    pub fn put(&mut self, row: usize, value: Datum) {
        // Most values have the form of those before them.
        let is_number = !value.is_null() && !matches!(self.values, VectorValues::Datums(_) | VectorValues::Bytes(..));
        if is_number && self.put_as_form(row, &value) {
            self.nulls.unset(row);
        } else {
            self.put_any(row, value);
        }
    }
    fn put_any(&mut self, row: usize, value: Datum) {
        if value.is_null() {
            self.nulls.set(row);
            if let VectorValues::Datums(values) = &mut self.values {
                values[row] = Datum::Null;
            }
            return;
        }
        self.nulls.unset(row);
        if let VectorValues::Datums(values) = &mut self.values {
            values[row] = value;
            return;
        }
        if !self.put_as_form(row, &value) {
            self.take_form(&value);
            if !self.put_as_form(row, &value) {
                self.widen();
                if let VectorValues::Datums(values) = &mut self.values {
                    values[row] = value;
                }
            }
        }
    }
    /// False: the value is of another form.
    #[inline]
    fn put_as_form(&mut self, row: usize, value: &Datum) -> bool {
        match (&mut self.values, word_of(value)) {
            (VectorValues::Bools(values), Some(Word::Bool(v))) => values[row] = v,
            (VectorValues::Integers(kind, values), Some(Word::Integer(own, v))) if *kind == own => values[row] = v,
            (VectorValues::Decimals(decimals, values), Some(Word::Decimal(own, v))) if *decimals == own => {
                values[row] = v
            }
            (VectorValues::Doubles(values), Some(Word::Double(v))) => values[row] = v,
            (VectorValues::Bytes(kind, column), None) => match bytes::of(value) {
                Some((own, v)) if *kind == own && column.put(row, v) => {}
                _ => return false,
            },
            (VectorValues::Datums(values), _) => values[row] = value.clone(),
            _ => return false,
        }
        self.is_fresh = false;
        true
    }
    /// Takes the form of a value if no other one has been written.
    fn take_form(&mut self, value: &Datum) {
        if self.form().is_some() {
            return;
        }
        let positions = self.positions;
        self.values = match word_of(value) {
            Some(Word::Bool(_)) => VectorValues::Bools(vec![false; positions]),
            Some(Word::Integer(kind, _)) => VectorValues::Integers(kind, vec![0; positions]),
            Some(Word::Decimal(decimals, _)) => VectorValues::Decimals(decimals, vec![0; positions]),
            Some(Word::Double(_)) => VectorValues::Doubles(vec![0.0; positions]),
            None => match bytes::of(value) {
                Some((kind, _)) => {
                    let mut column = ByteColumn::default();
                    column.start(positions);
                    VectorValues::Bytes(kind, column)
                }
                None => VectorValues::Datums(vec![Datum::Null; positions]),
            },
        };
    }

    /// The value of a row.
    pub fn get(&self, row: usize) -> Result<Datum> {
        let row = self.at(row);
        if self.nulls.is_null(row) { Ok(Datum::Null) } else { self.value(row) }
    }
    fn value(&self, at: usize) -> Result<Datum> {
        Ok(match &self.values {
            VectorValues::Nothing => Datum::Null,
            VectorValues::Bools(values) => Datum::Bool(values[at]),
            VectorValues::Integers(kind, values) => kind.datum(values[at]),
            VectorValues::Decimals(decimals, values) => {
                Datum::Numeric(Numeric::Short(ShortNumeric::at(values[at], *decimals)))
            }
            VectorValues::Doubles(values) => Datum::Float8(values[at]),
            VectorValues::Bytes(kind, column) => bytes::datum(*kind, column.get(at))?,
            VectorValues::Datums(values) => values[at].clone(),
        })
    }
    /// Is the value of a row true? NULL is not.
    #[inline]
    pub fn is_true(&self, row: usize) -> bool {
        let at = self.at(row);
        match &self.values {
            VectorValues::Bools(values) => values[at] && !self.nulls.is_null(at),
            VectorValues::Datums(values) => matches!(values[at], Datum::Bool(true)),
            _ => false,
        }
    }
    /// Is the value of a row false? NULL is not.
    #[inline]
    pub fn is_false(&self, row: usize) -> bool {
        let at = self.at(row);
        match &self.values {
            VectorValues::Bools(values) => !values[at] && !self.nulls.is_null(at),
            VectorValues::Datums(values) => matches!(values[at], Datum::Bool(false)),
            _ => false,
        }
    }
    /// Appends what [`crate::key::hash_equal_key`] makes of the value of a row.
    #[inline]
    pub fn append_key(&self, type_oid: Oid, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let at = self.at(row);
        match &self.values {
            VectorValues::Bytes(BytesKind::Text, column)
                if !self.nulls.is_null(at) && key::is_text_as_it_is(type_oid) =>
            {
                key::append_text(column.get(at), out);
                Ok(())
            }
            _ => key::hash_equal_key(type_oid, &self.get(row)?, out),
        }
    }
    /// The bytes that [`Vector::append_key`] would append, as a number whose lowest byte is the first of them, and how many
    /// they are, at most 15. None: they are more, or not so easily told.
    #[inline]
    pub fn short_key(&self, type_oid: Oid, row: usize) -> Option<(u128, usize)> {
        let at = self.at(row);
        if self.nulls.has_any() && self.nulls.is_null(at) {
            return Some(key::null_bits());
        }
        match &self.values {
            VectorValues::Integers(kind, words) => Some(kind.key_bits(words[at])),
            VectorValues::Bytes(BytesKind::Text, column) if key::is_text_as_it_is(type_oid) => {
                key::text_bits(column.get(at))
            }
            _ => None,
        }
    }
    /// Appends the values of rows of another vector.
    pub fn extend(&mut self, from: &Vector, rows: Rows<'_>) -> Result<()> {
        use VectorValues as V;
        let (mut next, count) = (self.positions, rows.len());
        self.grow(count);
        if self.form().is_none()
            && let V::Integers(kind, _) = &from.values
        {
            self.take_integers(*kind);
        }
        match (&mut self.values, &from.values) {
            (V::Integers(own, words), V::Integers(other, values)) if own == other && !from.is_constant => {
                rows.each(|row| {
                    words[next] = values[row];
                    if from.nulls.is_null(row) {
                        self.nulls.set(next);
                    }
                    next += 1;
                });
                Ok(())
            }
            _ => rows.try_each(|row| {
                self.put_from(next, from, row)?;
                next += 1;
                Ok(())
            }),
        }
    }
    /// Writes the value of a row of another vector.
    #[inline]
    fn put_from(&mut self, at: usize, from: &Vector, row: usize) -> Result<()> {
        if let (VectorValues::Bytes(own, column), VectorValues::Bytes(other, values)) = (&mut self.values, &from.values)
            && own == other
            && !self.is_fresh
            && !from.is_null(row)
            && column.put(at, values.get(from.at(row)))
        {
            self.nulls.unset(at);
            return Ok(());
        }
        self.put(at, from.get(row)?);
        Ok(())
    }
    /// So many positions more, which have no values yet.
    fn grow(&mut self, positions: usize) {
        // Nothing has been written to the buffers, or all positions have been.
        let all = self.positions + positions;
        self.nulls.grow(positions);
        match &mut self.values {
            VectorValues::Nothing => {}
            VectorValues::Bools(v) => v.resize(all, false),
            VectorValues::Integers(_, v) | VectorValues::Decimals(_, v) => v.resize(all, 0),
            VectorValues::Doubles(v) => v.resize(all, 0.0),
            VectorValues::Bytes(_, v) => v.grow(positions),
            VectorValues::Datums(v) => v.resize(all, Datum::Null),
        }
        self.positions = all;
    }
    /// Has, in place of all values, those of a list of another vector's rows: NULL for [`NO_ROW`].
    pub fn gather(&mut self, from: &Vector, list: &[u32]) -> Result<()> {
        use VectorValues as V;
        let has_nulls = from.nulls.has_any();
        macro_rules! copy {
            ($found:expr, $values:expr) => {{
                let found = $found;
                let mut is_whole = true;
                for (value, row) in found.iter_mut().zip(list) {
                    match $values.get(*row as usize) {
                        Some(v) => *value = *v,
                        None => is_whole = false,
                    }
                }
                if has_nulls || !is_whole {
                    self.note_nulls(from, list);
                }
                Ok(())
            }};
        }
        match &from.values {
            V::Bools(values) if !from.is_constant => copy!(self.start_bools(list.len()), values),
            V::Integers(kind, values) if !from.is_constant => copy!(self.start_integers(*kind, list.len()), values),
            V::Decimals(decimals, values) if !from.is_constant => {
                copy!(self.start_decimals(*decimals, list.len()), values)
            }
            V::Doubles(values) if !from.is_constant => copy!(self.start_doubles(list.len()), values),
            V::Bytes(kind, _) => {
                self.start_bytes(*kind, list.len());
                self.gather_each(from, list)
            }
            _ => {
                self.start(list.len());
                self.gather_each(from, list)
            }
        }
    }
    fn gather_each(&mut self, from: &Vector, list: &[u32]) -> Result<()> {
        for (at, row) in list.iter().enumerate() {
            match *row {
                NO_ROW => self.put(at, Datum::Null),
                row => self.put_from(at, from, row as usize)?,
            }
        }
        Ok(())
    }
    fn note_nulls(&mut self, from: &Vector, list: &[u32]) {
        for (at, row) in list.iter().enumerate() {
            if *row == NO_ROW || from.nulls.is_null(*row as usize) {
                self.nulls.set(at);
            }
        }
    }
    /// The memory of its values, beside what these point to.
    pub fn heap_bytes(&self) -> usize {
        let values = match &self.values {
            VectorValues::Nothing => 0,
            VectorValues::Bools(v) => v.len(),
            VectorValues::Integers(_, v) | VectorValues::Decimals(_, v) => v.len() * 8,
            VectorValues::Doubles(v) => v.len() * 8,
            VectorValues::Bytes(_, v) => v.heap_bytes(),
            VectorValues::Datums(v) => v.len() * size_of::<Datum>(),
        };
        values + self.nulls.heap_bytes()
    }
    /// Takes over the values of other rows of a vector: those for which it is read from now on.
    pub fn copy_rows(&mut self, from: &Vector, rows: Rows<'_>) -> Result<()> {
        use VectorValues as V;
        if self.form().is_none()
            && let V::Integers(kind, _) = &from.values
        {
            self.take_integers(*kind);
        }
        match (&mut self.values, &from.values) {
            (V::Integers(own, words), V::Integers(other, values)) if own == other => {
                rows.each(|row| words[row] = values[from.at(row)]);
            }
            (V::Decimals(own, words), V::Decimals(other, values)) if own == other && !self.is_fresh => {
                rows.each(|row| words[row] = values[from.at(row)]);
            }
            _ => {
                return rows.try_each(|row| {
                    self.put(row, from.get(row)?);
                    Ok(())
                });
            }
        }
        rows.each(|row| if from.is_null(row) { self.nulls.set(row) } else { self.nulls.unset(row) });
        Ok(())
    }
}
