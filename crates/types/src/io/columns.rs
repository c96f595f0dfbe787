//! Columns of values in text and binary formats: what [`output_typmod`] and [`send_typmod`] make of the values of a
//! vector, without a [`Datum`] for each.
//!
//! Invariants
//! 1. The bytes are those that the functions for single values make.
//! 2. What has no form of its own here is left to them.

use super::binary::put_sized;
use super::{int, output_typmod, send_typmod};
use crate::numeric::{Numeric, ShortNumeric};
use crate::oids::BPCHAR;
use crate::types::{self, FIRST_USER_TYPE};
use crate::vector::{ByteColumn, BytesKind, IntegerKind, Vector, VectorValues};
use crate::{EvalContext, datetime, io::float};
use kilndb_base::{Oid, Result};

/// How the values of a column become bytes.
#[derive(Clone, Copy)]
enum ShownForm<'a> {
    /// Integers, and how many bytes each has in the binary format.
    Integers(&'a [i64], usize),
    Dates(&'a [i64]),
    Timestamps(&'a [i64]),
    Decimals(u8, &'a [i64]),
    Doubles(&'a [f64]),
    /// Texts that look like what they are in both formats.
    Texts(&'a ByteColumn),
    /// All others, whose values are [`Datum`](crate::Datum)s first.
    Values,
}

/// A column of values that are shown to somebody, one row after the other.
pub struct ShownColumn<'a> {
    vector: &'a Vector,
    form: ShownForm<'a>,
    type_oid: Oid,
    typmod: i32,
}

fn is_text_as_it_is(type_oid: Oid) -> bool {
    type_oid < FIRST_USER_TYPE
        && type_oid != BPCHAR
        && types::descriptor(type_oid).is_none_or(|descriptor| descriptor.send.is_none())
}

fn form_of(vector: &Vector, type_oid: Oid) -> ShownForm<'_> {
    if vector.is_constant() {
        return ShownForm::Values;
    }
    match &vector.values {
        VectorValues::Integers(IntegerKind::Int2, words) => ShownForm::Integers(words, 2),
        VectorValues::Integers(IntegerKind::Int4, words) => ShownForm::Integers(words, 4),
        VectorValues::Integers(IntegerKind::Int8, words) => ShownForm::Integers(words, 8),
        VectorValues::Integers(IntegerKind::Date, words) => ShownForm::Dates(words),
        VectorValues::Integers(IntegerKind::Timestamp, words) => ShownForm::Timestamps(words),
        VectorValues::Decimals(decimals, words) => ShownForm::Decimals(*decimals, words),
        VectorValues::Doubles(values) => ShownForm::Doubles(values),
        VectorValues::Bytes(BytesKind::Text, column) if is_text_as_it_is(type_oid) => ShownForm::Texts(column),
        _ => ShownForm::Values,
    }
}

impl<'a> ShownColumn<'a> {
    pub fn new(vector: &'a Vector, type_oid: Oid, typmod: i32) -> ShownColumn<'a> {
        ShownColumn { vector, form: form_of(vector, type_oid), type_oid, typmod }
    }
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.vector.is_null(row)
    }
    /// The bytes of a text that is the same in both formats; None: it is no such text.
    #[inline]
    pub fn text(&self, row: usize) -> Option<&'a [u8]> {
        match self.form {
            ShownForm::Texts(column) => Some(column.get(row)),
            _ => None,
        }
    }
    /// Appends the text of a number, a date or a time. False: it is none of these, and nothing is appended.
    #[inline]
    pub fn append_number(&self, row: usize, out: &mut Vec<u8>, ctx: &EvalContext<'_>) -> Result<bool> {
        match self.form {
            ShownForm::Integers(words, _) => int::write_i64(words[row], out),
            ShownForm::Dates(words) => datetime::date_out(words[row] as i32, ctx, out),
            ShownForm::Timestamps(words) => datetime::timestamp_out(words[row], ctx, out)?,
            ShownForm::Decimals(decimals, words) => Numeric::Short(ShortNumeric::at(words[row], decimals)).write(out),
            ShownForm::Doubles(values) => float::write_f64(values[row], ctx.format.extra_float_digits, out),
            ShownForm::Texts(_) | ShownForm::Values => return Ok(false),
        }
        Ok(true)
    }
    /// Appends the text form of a value that is not NULL.
    pub fn append_text(&self, row: usize, out: &mut Vec<u8>, ctx: &EvalContext<'_>) -> Result<()> {
        if let Some(text) = self.text(row) {
            return crate::pieces::append_mostly_short(out, text);
        }
        match self.append_number(row, out, ctx)? {
            true => Ok(()),
            false => output_typmod(self.type_oid, self.typmod, &self.vector.get(row)?, out, ctx),
        }
    }
    /// Appends the binary form of a value that is not NULL.
    pub fn append_binary(&self, row: usize, out: &mut Vec<u8>, ctx: &EvalContext<'_>) -> Result<()> {
        match self.form {
            ShownForm::Integers(words, 4) | ShownForm::Dates(words) => {
                out.extend_from_slice(&(words[row] as i32).to_be_bytes());
            }
            ShownForm::Integers(words, 8) | ShownForm::Timestamps(words) => {
                out.extend_from_slice(&words[row].to_be_bytes());
            }
            ShownForm::Integers(words, _) => out.extend_from_slice(&(words[row] as i16).to_be_bytes()),
            ShownForm::Decimals(decimals, words) => Numeric::Short(ShortNumeric::at(words[row], decimals)).send(out),
            ShownForm::Doubles(values) => out.extend_from_slice(&values[row].to_be_bytes()),
            ShownForm::Texts(column) => crate::pieces::append_mostly_short(out, column.get(row))?,
            ShownForm::Values => send_typmod(self.type_oid, self.typmod, &self.vector.get(row)?, out, ctx)?,
        }
        Ok(())
    }
    /// Appends the binary form of a value behind its length of 32 bits, -1 alone for NULL: what a column of a row is in
    /// the protocol and in COPY's binary format.
    pub fn append_sized(&self, row: usize, out: &mut Vec<u8>, ctx: &EvalContext<'_>) -> Result<()> {
        if self.is_null(row) {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            return Ok(());
        }
        // Length and value are one number of the width of both where the value is a word.
        match self.form {
            ShownForm::Integers(words, 4) | ShownForm::Dates(words) => {
                let value = u64::from(words[row] as u32);
                out.extend_from_slice(&(4 << 32 | value).to_be_bytes());
            }
            ShownForm::Integers(words, 8) | ShownForm::Timestamps(words) => put_eight(words[row] as u64, out),
            ShownForm::Doubles(values) => put_eight(values[row].to_bits(), out),
            _ => put_sized(out, |out| self.append_binary(row, out, ctx))?,
        }
        Ok(())
    }
}

/// Appends eight bytes behind their length.
#[inline]
fn put_eight(bits: u64, out: &mut Vec<u8>) {
    let sized: u128 = 8 << 64 | u128::from(bits);
    out.extend_from_slice(&sized.to_be_bytes()[4..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Datum;
    use crate::io::input;
    use crate::oids::*;

    /// Values by their texts, NULL for an empty one.
    fn column(type_oid: Oid, texts: &[&str], ctx: &EvalContext<'_>) -> (Vec<Datum>, Vector) {
        let read = |text: &&str| if text.is_empty() { Datum::Null } else { input(type_oid, text, -1, ctx).unwrap() };
        let values: Vec<Datum> = texts.iter().map(read).collect();
        let mut vector = Vector::default();
        vector.start(values.len());
        values.iter().enumerate().for_each(|(row, value)| vector.put(row, value.clone()));
        (values, vector)
    }

    fn check(shown: &ShownColumn<'_>, row: usize, value: &Datum, ctx: &EvalContext<'_>) {
        assert_eq!(shown.is_null(row), value.is_null());
        let mut sized = Vec::new();
        shown.append_sized(row, &mut sized, ctx).unwrap();
        if value.is_null() {
            assert_eq!(sized, [0xff; 4]);
            return;
        }
        let (mut text, mut binary, mut expected) = (Vec::new(), Vec::new(), (Vec::new(), Vec::new()));
        shown.append_text(row, &mut text, ctx).unwrap();
        shown.append_binary(row, &mut binary, ctx).unwrap();
        output_typmod(shown.type_oid, shown.typmod, value, &mut expected.0, ctx).unwrap();
        send_typmod(shown.type_oid, shown.typmod, value, &mut expected.1, ctx).unwrap();
        let (length, rest) = sized.split_first_chunk().unwrap();
        assert_eq!((u32::from_be_bytes(*length) as usize, rest), (binary.len(), &binary[..]));
        assert_eq!((text, binary), expected, "{}: {value:?}", shown.type_oid);
    }

    #[test]
    fn columns_look_like_their_values() {
        let columns: [(Oid, &[&str]); 12] = [
            (INT2, &["-32768", "0", "", "32767"]),
            (INT4, &["-2147483648", "7", ""]),
            (INT8, &["-9223372036854775808", "9223372036854775807", ""]),
            (DATE, &["2020-02-29", "infinity", "-infinity", "", "0044-03-15 BC"]),
            (TIMESTAMP, &["2020-02-29 12:34:56.789", "infinity", ""]),
            (TIME, &["12:34:56.789", ""]),
            (NUMERIC, &["1.50", "-0.01", "", "99999999.99"]),
            (NUMERIC, &["1.50", "NaN", "", "1e40"]),
            (FLOAT8, &["1.5", "-0", "NaN", "Infinity", "1e300", "0.1", "123456789012345680", ""]),
            (TEXT, &["a text", "", "\u{e9}"]),
            (BPCHAR, &["ab", ""]),
            (BOOL, &["t", "f", ""]),
        ];
        crate::looks::with_context(|ctx| {
            for (type_oid, texts) in columns {
                let (values, vector) = column(type_oid, texts, ctx);
                let shown = ShownColumn::new(&vector, type_oid, 9);
                values.iter().enumerate().for_each(|(row, value)| check(&shown, row, value, ctx));
                let constant = Vector::constant(values[0].clone());
                check(&ShownColumn::new(&constant, type_oid, 9), 2, &values[0], ctx);
            }
        });
    }
}
