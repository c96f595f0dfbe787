//! Casts through the text form of values, in vectors.

use super::text::{ShortTexts, put_integers};
use super::{IntegerKind, Rows, Vector, VectorFn, VectorValues, text_change};
use crate::Datum;
use crate::datetime::iso;
use crate::io::{float, int};
use crate::numeric::{Numeric, ShortNumeric};
use crate::oids::*;
use kilndb_base::Oid;

/// The vector form of the cast from one type to another through the text form, without a modifier.
pub fn conversion(from: Oid, to: Oid) -> Option<VectorFn> {
    Some(match (from, to) {
        (TEXT | VARCHAR, INT2) => int2_of_text,
        (TEXT | VARCHAR, INT4) => int4_of_text,
        (TEXT | VARCHAR, INT8) => int8_of_text,
        (TEXT | VARCHAR, NUMERIC) => numeric_of_text,
        (TEXT | VARCHAR, FLOAT8) => float8_of_text,
        (TEXT | VARCHAR, DATE) => date_of_text,
        (TEXT | VARCHAR, TIMESTAMP) => timestamp_of_text,
        (INT2 | INT4 | INT8 | NUMERIC, TEXT | VARCHAR) => text_change::to_text,
        _ => return None,
    })
}

/// Integers as their input function reads them. What it refuses is left to it.
fn integers(kind: IntegerKind, rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text] = *args else { return false };
    let Some(text) = ShortTexts::of(rows, text) else { return false };
    let (min, max) = match kind {
        IntegerKind::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        IntegerKind::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    put_integers(kind, rows, out, |row| {
        text.text(row).and_then(|text| match int::parse_plain(text) {
            Some(value) => Some(value).filter(|value| (min..=max).contains(value)),
            None => int::parse(text, "", i128::from(min), i128::from(max)).ok().map(|value| value as i64),
        })
    })
}
fn int2_of_text(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    integers(IntegerKind::Int2, rows, args, out)
}
fn int4_of_text(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    integers(IntegerKind::Int4, rows, args, out)
}
fn int8_of_text(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    integers(IntegerKind::Int8, rows, args, out)
}

/// Gives each row the numeric that `f` finds; false as soon as there is none. Numerics that all have the same number of
/// decimals become words; others stay values.
fn put_numerics(rows: Rows<'_>, out: &mut Vector, f: impl Fn(usize) -> Option<Numeric>) -> bool {
    out.start(rows.positions());
    rows.all(|row| {
        f(row).is_some_and(|number| {
            out.put(row, Datum::Numeric(number));
            true
        })
    })
}
fn numeric_of_text(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text] = *args else { return false };
    let Some(text) = ShortTexts::of(rows, text) else { return false };
    put_numerics(rows, out, |row| text.text(row).and_then(|text| Numeric::parse(text).ok()))
}

/// A modifier applied to numerics, which all get the decimals that it says. What does not fit is an error of the cast's.
pub fn apply_typmod(type_oid: Oid, typmod: i32, rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [arg] = *args else { return false };
    let (NUMERIC, VectorValues::Decimals(decimals, words)) = (type_oid, &arg.values) else { return false };
    put_numerics(rows, out, |row| {
        Numeric::Short(ShortNumeric::at(words[arg.at(row)], *decimals)).apply_typmod(typmod).ok()
    })
}

fn float8_of_text(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [text] = *args else { return false };
    let Some(text) = ShortTexts::of(rows, text) else { return false };
    let found = out.start_doubles(rows.positions());
    rows.all(|row| {
        let plain = |text| Numeric::parse_plain_f64(text).or_else(|| float::parse_f64(text).ok());
        text.text(row).and_then(plain).is_some_and(|value| {
            found[row] = value;
            true
        })
    })
}

/// Dates and times that mean the same whatever the settings are.
fn moments(
    kind: IntegerKind,
    read: impl Fn(&str) -> Option<i64>,
    rows: Rows<'_>,
    args: &[&Vector],
    out: &mut Vector,
) -> bool {
    let [text] = *args else { return false };
    let Some(text) = ShortTexts::of(rows, text) else { return false };
    put_integers(kind, rows, out, |row| text.text(row).and_then(&read))
}
fn date_of_text(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    moments(IntegerKind::Date, |text| iso::date(text).map(i64::from), rows, args, out)
}
fn timestamp_of_text(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    moments(IntegerKind::Timestamp, iso::timestamp, rows, args, out)
}
