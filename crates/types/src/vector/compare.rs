//! Comparisons of vectors.

use super::bytes::ByteColumn;
use super::{IntegerKind, Rows, Vector, VectorValues, texts};
use crate::Datum;
use crate::cast::without_blanks;
use crate::datetime::calendar::USECS_PER_DAY;
use crate::functions::descriptor::IntOp;
use crate::key::compare_f64;
use crate::numeric::{Numeric, ShortNumeric};
use std::borrow::Cow;
use std::cmp::Ordering;

/// What a comparison makes of an order.
trait Judge {
    fn of<T: Ord>(a: T, b: T) -> bool;
    fn of_order(order: Ordering) -> bool;
}
macro_rules! judges {
    ($($name:ident: $op:tt, $is:ident;)*) => { $(
        struct $name;
        impl Judge for $name {
            #[inline(always)]
            fn of<T: Ord>(a: T, b: T) -> bool {
                a $op b
            }
            #[inline(always)]
            fn of_order(order: Ordering) -> bool {
                order.$is()
            }
        }
    )* };
}
judges! {
    Equal: ==, is_eq;
    Unequal: !=, is_ne;
    Less: <, is_lt;
    LessOrEqual: <=, is_le;
    Greater: >, is_gt;
    GreaterOrEqual: >=, is_ge;
}

/// Calls `f` with the values of both sides at each row, wherever constants are.
#[inline(always)]
fn pairs<T: Copy>(rows: Rows<'_>, (a, b): (&Vector, &Vector), (x, y): (&[T], &[T]), mut f: impl FnMut(usize, T, T)) {
    match (a.is_constant(), b.is_constant()) {
        (false, false) => rows.each(|row| f(row, x[row], y[row])),
        (false, true) => {
            let y = y[0];
            rows.each(|row| f(row, x[row], y))
        }
        (true, false) => {
            let x = x[0];
            rows.each(|row| f(row, x, y[row]))
        }
        (true, true) => {
            let (x, y) = (x[0], y[0]);
            rows.each(|row| f(row, x, y))
        }
    }
}

fn words<J: Judge>(rows: Rows<'_>, (a, b): (&Vector, &Vector), values: (&[i64], &[i64]), out: &mut Vector) -> bool {
    let found = out.start_bools(rows.positions());
    pairs(rows, (a, b), values, |row, x, y| found[row] = J::of(x, y));
    true
}

/// Compares two vectors of words of the same kind, of numbers of any kinds, or of short numerics.
fn comparison<J: Judge>(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let [a, b] = *args else { return false };
    use VectorValues as V;
    match (&a.values, &b.values) {
        (V::Integers(left, x), V::Integers(right, y)) if left == right || left.is_number() && right.is_number() => {
            words::<J>(rows, (a, b), (x, y), out)
        }
        (V::Integers(IntegerKind::Date, x), V::Integers(IntegerKind::Timestamp, y)) => {
            with_days::<J>(rows, (a, b), (x, y), (true, false), out)
        }
        (V::Integers(IntegerKind::Timestamp, x), V::Integers(IntegerKind::Date, y)) => {
            with_days::<J>(rows, (a, b), (x, y), (false, true), out)
        }
        (V::Bools(x), V::Bools(y)) => {
            let found = out.start_bools(rows.positions());
            pairs(rows, (a, b), (x, y), |row, x, y| found[row] = J::of(x, y));
            true
        }
        (V::Decimals(left, x), V::Decimals(right, y)) => match left.cmp(right) {
            Ordering::Equal => words::<J>(rows, (a, b), (x, y), out),
            Ordering::Less => scaled::<J>(rows, (a, b), (x, y), (power(right - left), 1), out),
            Ordering::Greater => scaled::<J>(rows, (a, b), (x, y), (1, power(left - right)), out),
        },
        (V::Doubles(x), V::Doubles(y)) => {
            let found = out.start_bools(rows.positions());
            pairs(rows, (a, b), (x, y), |row, x, y| found[row] = J::of_order(compare_f64(x, y)));
            true
        }
        (V::Datums(_), V::Datums(_) | V::Decimals(..)) | (V::Decimals(..), V::Datums(_)) => {
            numerics::<J>(rows, (a, b), out)
        }
        _ => false,
    }
}

/// Compares numerics of any form; false: there are other values among them.
fn numerics<J: Judge>(rows: Rows<'_>, (a, b): (&Vector, &Vector), out: &mut Vector) -> bool {
    let found = out.start_bools(rows.positions());
    rows.all(|row| match (numeric_of(a, row), numeric_of(b, row)) {
        (Some(x), Some(y)) => {
            found[row] = J::of_order(x.cmp(&y));
            true
        }
        _ => false,
    })
}
#[inline]
fn numeric_of(v: &Vector, row: usize) -> Option<Cow<'_, Numeric>> {
    let at = v.at(row);
    match &v.values {
        VectorValues::Datums(values) => match &values[at] {
            Datum::Numeric(number) => Some(Cow::Borrowed(number)),
            _ => None,
        },
        VectorValues::Decimals(decimals, words) => {
            Some(Cow::Owned(Numeric::Short(ShortNumeric::at(words[at], *decimals))))
        }
        _ => None,
    }
}

/// `exponent` is no more than the decimals of a short numeric.
pub(super) fn power(exponent: u8) -> i64 {
    10i64.pow(u32::from(exponent))
}

/// Compares words after each side was multiplied by a power of ten.
fn scaled<J: Judge>(
    rows: Rows<'_>,
    (a, b): (&Vector, &Vector),
    values: (&[i64], &[i64]),
    (left, right): (i64, i64),
    out: &mut Vector,
) -> bool {
    let found = out.start_bools(rows.positions());
    let (left, right) = (i128::from(left), i128::from(right));
    pairs(rows, (a, b), values, |row, x, y| found[row] = J::of(i128::from(x) * left, i128::from(y) * right));
    true
}

/// The days up to which a date is surely a timestamp. Those beyond, and the infinite ones, are for the function itself.
const PLAIN_DAYS_MAX: i64 = 100_000_000;

/// Compares dates with timestamps; `are_days` says which side has dates.
fn with_days<J: Judge>(
    rows: Rows<'_>,
    (a, b): (&Vector, &Vector),
    (x, y): (&[i64], &[i64]),
    are_days: (bool, bool),
    out: &mut Vector,
) -> bool {
    let is_plain = |v: &Vector, words: &[i64]| rows.all(|row| (-2_400_000..PLAIN_DAYS_MAX).contains(&words[v.at(row)]));
    if are_days.0 && !is_plain(a, x) || are_days.1 && !is_plain(b, y) {
        return false;
    }
    let found = out.start_bools(rows.positions());
    let (left, right) = (if are_days.0 { USECS_PER_DAY } else { 1 }, if are_days.1 { USECS_PER_DAY } else { 1 });
    pairs(rows, (a, b), (x, y), |row, x, y| found[row] = J::of(x * left, y * right));
    true
}

/// Calls `f` with the bytes of both sides at each row.
#[inline(always)]
fn byte_pairs(
    rows: Rows<'_>,
    (a, b): (&Vector, &Vector),
    (x, y): (&ByteColumn, &ByteColumn),
    mut f: impl FnMut(usize, &[u8], &[u8]),
) {
    if b.is_constant() {
        let y = y.get(0);
        rows.each(|row| f(row, x.get(a.at(row)), y));
    } else {
        rows.each(|row| f(row, x.get(a.at(row)), y.get(b.at(row))));
    }
}

fn both_texts<'a>(args: &[&'a Vector]) -> Option<([&'a Vector; 2], [&'a ByteColumn; 2])> {
    let [a, b] = *args else { return None };
    Some(([a, b], [texts(a)?, texts(b)?]))
}

/// Compares texts as bytes: the functions of other collations are others.
fn text_comparison<J: Judge>(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let Some(([a, b], [x, y])) = both_texts(args) else { return false };
    let found = out.start_bools(rows.positions());
    byte_pairs(rows, (a, b), (x, y), |row, x, y| found[row] = J::of(x, y));
    true
}

/// Compares values of character(n), whose blanks at the end do not count.
fn padded_comparison<J: Judge>(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let Some(([a, b], [x, y])) = both_texts(args) else { return false };
    let found = out.start_bools(rows.positions());
    byte_pairs(rows, (a, b), (x, y), |row, x, y| {
        found[row] = match (x.first(), y.first()) {
            // Mostly the first bytes tell, of which neither is a blank at the end.
            (Some(x), Some(y)) if x != y && *x != b' ' && *y != b' ' => J::of(x, y),
            _ => J::of(without_blanks(x), without_blanks(y)),
        }
    });
    true
}

macro_rules! families {
    ($($family:ident = $function:ident;)*) => { $(
        pub(super) mod $family {
            use super::*;
            pub fn eq(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
                $function::<Equal>(rows, args, out)
            }
            pub fn ne(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
                $function::<Unequal>(rows, args, out)
            }
            pub fn lt(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
                $function::<Less>(rows, args, out)
            }
            pub fn le(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
                $function::<LessOrEqual>(rows, args, out)
            }
            pub fn gt(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
                $function::<Greater>(rows, args, out)
            }
            pub fn ge(rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
                $function::<GreaterOrEqual>(rows, args, out)
            }
        }
    )* };
}
families! {
    plain = comparison;
    text = text_comparison;
    padded = padded_comparison;
}

/// Compares integers of any widths.
pub fn compare_integers(op: IntOp, rows: Rows<'_>, args: &[&Vector], out: &mut Vector) -> bool {
    let function = match op {
        IntOp::Eq => plain::eq,
        IntOp::Ne => plain::ne,
        IntOp::Lt => plain::lt,
        IntOp::Le => plain::le,
        IntOp::Gt => plain::gt,
        IntOp::Ge => plain::ge,
    };
    function(rows, args, out)
}
