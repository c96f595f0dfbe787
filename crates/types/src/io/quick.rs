//! Values read to where they belong, for rows that are filled in place: through a result a value would be written in narrow
//! pieces and read in wide ones, which processors wait for.
//!
//! Invariant: only what is written plainly is read here, and means the same to the type's own function. All else is left to
//! that, which makes the errors, too.

use super::*;
use crate::datetime::iso;
use crate::numeric::Numeric;
use crate::types::text::utf8;
use crate::vector::{BytesKind, IntegerKind, Vector};

/// [`input`] to where NULL is.
fn input_into(type_oid: Oid, text: &str, typmod: i32, ctx: &EvalContext, out: &mut Datum) -> Result<()> {
    match type_oid {
        TEXT => out.fill(Datum::Text(shared::text(text)?)),
        VARCHAR if fits(text.as_bytes(), typmod) => out.fill(Datum::Text(shared::text(text)?)),
        _ if is_plain(type_oid, text, typmod, |value| out.fill(value)) => {}
        _ => out.fill(input(type_oid, text, typmod, ctx)?),
    }
    Ok(())
}

/// A column that texts or messages are written to, one value after the other.
#[derive(Clone, Copy, Debug)]
pub struct WrittenColumn {
    type_oid: Oid,
    typmod: i32,
    form: WrittenForm,
}

/// How the bytes of a value become one of a vector.
#[derive(Clone, Copy, Debug)]
enum WrittenForm {
    /// Integers of a kind, and the least and greatest of them.
    Integers(IntegerKind, i64, i64),
    /// Texts of at most so many characters.
    Texts(usize),
    /// All others, whose values are [`Datum`]s first.
    Values,
}

impl WrittenColumn {
    pub fn new(type_oid: Oid, typmod: i32) -> WrittenColumn {
        let form = match type_oid {
            INT2 => WrittenForm::Integers(IntegerKind::Int2, i64::from(i16::MIN), i64::from(i16::MAX)),
            INT4 => WrittenForm::Integers(IntegerKind::Int4, i64::from(i32::MIN), i64::from(i32::MAX)),
            INT8 => WrittenForm::Integers(IntegerKind::Int8, i64::MIN, i64::MAX),
            TEXT => WrittenForm::Texts(usize::MAX),
            VARCHAR => WrittenForm::Texts(longest(typmod)),
            _ => WrittenForm::Values,
        };
        WrittenColumn { type_oid, typmod, form }
    }
    /// [`input`] to where NULL is.
    #[inline]
    pub fn put_text_value(&self, text: &str, ctx: &EvalContext, to: &mut Datum) -> Result<()> {
        input_into(self.type_oid, text, self.typmod, ctx, to)
    }
    /// [`receive`] to where NULL is.
    #[inline]
    pub fn put_message_value(&self, bytes: &[u8], ctx: &EvalContext, to: &mut Datum) -> Result<()> {
        receive_into(self.type_oid, bytes, self.typmod, ctx, to)
    }
    /// [`input`] to a row.
    #[inline]
    pub fn put_text(&self, text: &str, ctx: &EvalContext, row: usize, to: &mut Vector) -> Result<()> {
        let done = match self.form {
            WrittenForm::Integers(kind, least, most) => {
                let word = int::parse_plain(text).filter(|word| (least..=most).contains(word));
                word.map(|word| to.put_integer(row, kind, word)).is_some()
            }
            // No text has more characters than bytes.
            WrittenForm::Texts(most) => text.len() <= most && to.put_bytes(row, BytesKind::Text, text.as_bytes()),
            WrittenForm::Values => is_plain(self.type_oid, text, self.typmod, |value| to.put(row, value)),
        };
        if !done {
            to.put(row, input(self.type_oid, text, self.typmod, ctx)?);
        }
        Ok(())
    }
    /// [`receive`] to a row.
    #[inline]
    pub fn put_message(&self, bytes: &[u8], ctx: &EvalContext, row: usize, to: &mut Vector) -> Result<()> {
        let done = match self.form {
            WrittenForm::Integers(kind, ..) => {
                let word = match (kind, bytes.len()) {
                    (IntegerKind::Int2, 2) => bytes.first_chunk().map(|b| i64::from(i16::from_be_bytes(*b))),
                    (IntegerKind::Int4, 4) => bytes.first_chunk().map(|b| i64::from(i32::from_be_bytes(*b))),
                    (IntegerKind::Int8, 8) => bytes.first_chunk().map(|b| i64::from_be_bytes(*b)),
                    _ => None,
                };
                word.map(|word| to.put_integer(row, kind, word)).is_some()
            }
            WrittenForm::Texts(most) => {
                bytes.len() <= most && to.put_bytes(row, BytesKind::Text, utf8(bytes)?.as_bytes())
            }
            WrittenForm::Values => is_received_plain(self.type_oid, bytes, self.typmod, |value| to.put(row, value)),
        };
        if !done {
            to.put(row, receive(self.type_oid, bytes, self.typmod, ctx)?);
        }
        Ok(())
    }
}

/// [`receive`] to where NULL is.
fn receive_into(type_oid: Oid, bytes: &[u8], typmod: i32, ctx: &EvalContext, out: &mut Datum) -> Result<()> {
    match type_oid {
        TEXT => out.fill(Datum::Text(shared::text(utf8(bytes)?)?)),
        VARCHAR if fits(bytes, typmod) => out.fill(Datum::Text(shared::text(utf8(bytes)?)?)),
        _ if is_received_plain(type_oid, bytes, typmod, |value| out.fill(value)) => {}
        _ => out.fill(receive(type_oid, bytes, typmod, ctx)?),
    }
    Ok(())
}

/// The most characters that a varchar may have.
fn longest(typmod: i32) -> usize {
    usize::try_from(i64::from(typmod) - 4).unwrap_or(usize::MAX)
}

/// No text has more characters than bytes.
fn fits(text: &[u8], typmod: i32) -> bool {
    text.len() <= longest(typmod)
}

/// Microseconds are kept as they are.
fn keeps_micros(typmod: i32) -> bool {
    !(0..6).contains(&typmod)
}

/// Writes the value of a plain text; false: it is none.
#[inline]
fn is_plain(type_oid: Oid, text: &str, typmod: i32, mut write: impl FnMut(Datum)) -> bool {
    let mut put = |value: Datum| {
        write(value);
        true
    };
    match type_oid {
        INT4 => match int::parse_plain(text).map(i32::try_from) {
            Some(Ok(v)) => put(Datum::Int4(v)),
            _ => false,
        },
        INT8 => int::parse_plain(text).is_some_and(|v| put(Datum::Int8(v))),
        INT2 => match int::parse_plain(text).map(i16::try_from) {
            Some(Ok(v)) => put(Datum::Int2(v)),
            _ => false,
        },
        NUMERIC => Numeric::parse_plain(text, typmod).is_some_and(|v| put(Datum::Numeric(Numeric::Short(v)))),
        FLOAT8 => Numeric::parse_plain_f64(text).is_some_and(|v| put(Datum::Float8(v))),
        DATE => iso::date(text).is_some_and(|v| put(Datum::Date(v))),
        TIMESTAMP if keeps_micros(typmod) => iso::timestamp(text).is_some_and(|v| put(Datum::Timestamp(v))),
        TIMESTAMPTZ if keeps_micros(typmod) => iso::timestamptz(text).is_some_and(|v| put(Datum::TimestampTz(v))),
        BOOL => match text {
            "t" => put(Datum::Bool(true)),
            "f" => put(Datum::Bool(false)),
            _ => false,
        },
        _ => false,
    }
}

/// Writes a value that was sent as it is kept; false: it is none, or may be out of range.
#[inline]
fn is_received_plain(type_oid: Oid, bytes: &[u8], typmod: i32, mut write: impl FnMut(Datum)) -> bool {
    let mut put = |value: Datum| {
        write(value);
        true
    };
    let four = || bytes.try_into().ok().map(i32::from_be_bytes);
    let eight = || bytes.try_into().ok().map(i64::from_be_bytes);
    match type_oid {
        INT4 => four().is_some_and(|v| put(Datum::Int4(v))),
        INT8 => eight().is_some_and(|v| put(Datum::Int8(v))),
        INT2 => bytes.try_into().is_ok_and(|v| put(Datum::Int2(i16::from_be_bytes(v)))),
        NUMERIC => Numeric::receive_plain(bytes, typmod).is_some_and(|v| put(Datum::Numeric(Numeric::Short(v)))),
        FLOAT8 => eight().is_some_and(|v| put(Datum::Float8(f64::from_bits(v as u64)))),
        BOOL => bytes.len() == 1 && put(Datum::Bool(bytes[0] != 0)),
        DATE => four().filter(|v| datetime::is_finite_date(*v)).is_some_and(|v| put(Datum::Date(v))),
        TIMESTAMP | TIMESTAMPTZ => {
            let moment = eight().filter(|v| keeps_micros(typmod) && datetime::check_timestamp(*v).is_ok());
            moment.is_some_and(|v| put(if type_oid == TIMESTAMP { Datum::Timestamp(v) } else { Datum::TimestampTz(v) }))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{DateOrder, DateStyle, FormatSettings};
    use crate::looks::with_context;

    struct Random(u64);
    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
        fn one<'a>(&mut self, list: &[&'a str]) -> &'a str {
            list[self.below(list.len() as u64) as usize]
        }
        /// A number of this many digits, as it is mostly written, or with a mistake in it.
        fn digits(&mut self, digits: usize, most: u64) -> String {
            let number = format!("{:0digits$}", self.below(most + 3));
            if self.below(40) == 0 { number.replacen('1', "x", 1) } else { number }
        }
        fn number(&mut self) -> String {
            let whole = self.below(10u64.pow(self.0 as u32 % 19));
            let sign = self.one(&["", "", "-", "+", " "]);
            match self.below(4) {
                0 => format!("{sign}{whole}"),
                1 => format!("{sign}{whole}.{}", self.one(&["", "0", "5", "05", "500", "123456789", "x"])),
                2 => format!("{sign}0.{whole:09}{}", self.one(&["", "e2", "0", "_1"])),
                _ => format!("{sign}{whole}.{:02}", self.below(100)),
            }
        }
        fn date(&mut self) -> String {
            let separator = self.one(&["-", "-", "-", "-", "/", ""]);
            let (month, day) = (self.digits(2, 12), self.digits(2, 31));
            format!("{}{separator}{month}{separator}{day}", self.digits(4, 9999))
        }
        fn moment(&mut self) -> String {
            let time = format!("{}:{}:{}", self.digits(2, 23), self.digits(2, 59), self.digits(2, 59));
            let fraction = self.one(&["", "", ".5", ".000001", ".123456", ".1234567", ".", ".999999"]);
            let zone = self.one(&[
                "",
                "+00",
                "-08",
                "+05:30",
                "+13:59",
                "-14:00",
                "+15",
                "+16",
                "Z",
                " UTC",
                "+1",
                "+00:00:30",
            ]);
            format!("{}{}{time}{fraction}{zone}", self.date(), self.one(&[" ", " ", "T", "  "]))
        }
    }

    /// What was read, or what is said instead.
    fn told(value: Result<Datum>) -> String {
        value.map_or_else(|e| format!("{:?} {}", e.sqlstate(), e.message()), |value| format!("{value:?}"))
    }

    /// What is read of a value that is written behind a NULL and another value, to a column that has had others before.
    fn of_column(mut write: impl FnMut(usize, &mut Vector) -> Result<()>) -> Result<Datum> {
        let mut column = Vector::default();
        for _ in 0..2 {
            column.start(3);
            column.put(0, Datum::Null);
            write(1, &mut column)?;
            write(2, &mut column)?;
            assert!(column.is_null(0));
        }
        column.get(2)
    }

    fn is_same_input(type_oid: Oid, text: &str, typmod: i32, ctx: &EvalContext) {
        let mut quick = Datum::Null;
        let read = input_into(type_oid, text, typmod, ctx, &mut quick).map(|()| quick);
        let expected = told(input(type_oid, text, typmod, ctx));
        assert_eq!(told(read), expected, "{text} as {type_oid}, modifier {typmod}");
        let written = WrittenColumn::new(type_oid, typmod);
        let read = of_column(|row, column| written.put_text(text, ctx, row, column));
        assert_eq!(told(read), expected, "{text} in a column as {type_oid}, modifier {typmod}");
    }

    /// Both for the text and for what is sent of the value.
    fn is_same(type_oid: Oid, text: &str, typmod: i32, ctx: &EvalContext) {
        is_same_input(type_oid, text, typmod, ctx);
        let Ok(value) = input(type_oid, text, -1, ctx) else { return };
        let mut bytes = Vec::new();
        send(type_oid, &value, &mut bytes, ctx).unwrap();
        for bytes in [&bytes[..], &bytes[..bytes.len().saturating_sub(1)], &[&bytes[..], &[0]].concat()] {
            let mut quick = Datum::Null;
            let read = receive_into(type_oid, bytes, typmod, ctx, &mut quick).map(|()| quick);
            let expected = told(receive(type_oid, bytes, typmod, ctx));
            assert_eq!(told(read), expected, "{bytes:?} as {type_oid}, modifier {typmod}");
            let written = WrittenColumn::new(type_oid, typmod);
            let read = of_column(|row, column| written.put_message(bytes, ctx, row, column));
            assert_eq!(told(read), expected, "{bytes:?} in a column as {type_oid}, modifier {typmod}");
        }
    }

    #[test]
    fn numbers_and_texts_are_read_as_their_types_read_them() {
        let mut random = Random(0x1234_5678_9abc_def1);
        with_context(|ctx| {
            for _ in 0..30_000 {
                let text = random.number();
                for type_oid in [INT2, INT4, INT8, FLOAT8] {
                    is_same(type_oid, &text, -1, ctx);
                }
                for typmod in [-1, (12 << 16 | 2) + 4, (4 << 16) + 4, (5 << 16 | 2046) + 4] {
                    is_same(NUMERIC, &text, typmod, ctx);
                }
                is_same(VARCHAR, &text, 4 + 8, ctx);
            }
            for text in [
                "t",
                "f",
                "true",
                "x",
                "",
                "0",
                "-0",
                "-0.0",
                "NaN",
                "Infinity",
                "9223372036854775808",
                "Äpfel",
                "1e400",
            ] {
                for type_oid in [BOOL, TEXT, VARCHAR, INT2, INT4, INT8, FLOAT8, NUMERIC, DATE, TIMESTAMP, TIMESTAMPTZ] {
                    is_same(type_oid, text, -1, ctx);
                }
                is_same(VARCHAR, text, 4 + 5, ctx);
            }
        });
    }

    #[test]
    fn dates_and_times_are_read_alike_whatever_the_settings() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let orders = [DateOrder::Mdy, DateOrder::Dmy, DateOrder::Ymd];
        let settings = orders.map(|date_order| FormatSettings {
            date_order,
            date_style: DateStyle::Sql,
            time_zone: "Europe/Berlin".into(),
            ..FormatSettings::default()
        });
        with_context(|ctx| {
            for n in 0..30_000 {
                let ctx = EvalContext { format: &settings[n % 3], ..*ctx };
                is_same(DATE, &random.date(), -1, &ctx);
                let moment = random.moment();
                for typmod in [-1, 0, 3, 6] {
                    is_same(TIMESTAMP, &moment, typmod, &ctx);
                    is_same(TIMESTAMPTZ, &moment, typmod, &ctx);
                }
            }
            for text in
                ["infinity", "-infinity", "epoch", "0044-03-15 BC", "2024-02-29", "2023-02-29", "1900-02-29 00:00:00"]
            {
                for type_oid in [DATE, TIMESTAMP, TIMESTAMPTZ] {
                    is_same(type_oid, text, -1, ctx);
                }
            }
        });
    }
}
