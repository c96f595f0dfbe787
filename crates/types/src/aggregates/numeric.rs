//! sum, avg and the variance family over numeric.

use super::{Accumulator, PartialAggregate, SumResult, first, mixed, moments, numeric, sum_of_words};
use crate::functions::get;
use crate::numeric::{Numeric, ShortNumeric};
use crate::vector::{Rows, Vector, VectorValues};
use crate::{Datum, EvalContext};
use kilndb_base::Result;
use std::cmp::Ordering;

/// A sum of short numbers in one integer, which is handed on when it gets too large.
#[derive(Clone, Copy, Default)]
struct ShortSum {
    value: i128,
    decimals: u8,
}
impl ShortSum {
    fn total(self) -> Numeric {
        Numeric::from_scaled(self.value, i32::from(self.decimals))
    }
    /// Adds `value / 10^decimals`. False: the sum would be too large, and is as it was.
    #[inline]
    fn add(&mut self, value: i128, decimals: u8) -> bool {
        if decimals == self.decimals {
            let Some(sum) = self.value.checked_add(value) else { return false };
            self.value = sum;
            return true;
        }
        self.add_rescaled(value, decimals).is_some()
    }
    fn add_rescaled(&mut self, value: i128, decimals: u8) -> Option<()> {
        let scaled = |value: i128, from: u8, to: u8| value.checked_mul(10i128.checked_pow(u32::from(to - from))?);
        let most = self.decimals.max(decimals);
        let sum = scaled(self.value, self.decimals, most)?.checked_add(scaled(value, decimals, most)?)?;
        *self = ShortSum { value: sum, decimals: most };
        Some(())
    }
}
/// sum, avg and the variance family over numeric.
struct NumericSums {
    want: SumResult,
    count: i64,
    nan: i64,
    pos_inf: i64,
    neg_inf: i64,
    sum: Numeric,
    squares: Numeric,
    /// What of the sums has not been added to them yet.
    short_sum: ShortSum,
    short_squares: ShortSum,
    /// The most decimals that a value had. Those are the decimals of the sum, so it cannot go without the last value
    /// that has so many.
    decimals_most: i32,
    with_most: i64,
}
impl NumericSums {
    fn add_to_sum(&mut self, value: i128, decimals: u8) {
        if !self.short_sum.add(value, decimals) {
            self.sum = self.sum.add(&self.short_sum.total());
            self.short_sum = ShortSum { value, decimals };
        }
    }
    /// Adds the value and its square, or (`sign` -1) what makes up for them.
    #[inline]
    fn add_short(&mut self, number: ShortNumeric, sign: i128) {
        let (value, decimals) = (i128::from(number.value()), number.decimals());
        self.add_to_sum(sign * value, decimals);
        if self.want.squares() {
            let square = sign * value * value;
            if !self.short_squares.add(square, 2 * decimals) {
                self.squares = self.squares.add(&self.short_squares.total());
                self.short_squares = ShortSum { value: square, decimals: 2 * decimals };
            }
        }
    }
    /// The counter of such values, if it is NaN or an infinity.
    fn counter_of(&mut self, v: &Numeric) -> Option<&mut i64> {
        if v.is_nan() {
            Some(&mut self.nan)
        } else if v.is_inf() {
            Some(if v.signum() > 0 { &mut self.pos_inf } else { &mut self.neg_inf })
        } else {
            None
        }
    }
    #[inline]
    fn note_decimals(&mut self, decimals: i32) {
        match decimals.cmp(&self.decimals_most) {
            Ordering::Less => {}
            Ordering::Equal => self.with_most += 1,
            Ordering::Greater => (self.decimals_most, self.with_most) = (decimals, 1),
        }
    }
    /// Can a value with so many decimals go, and leave the sum with the decimals of those that stay?
    #[inline]
    fn forget_decimals(&mut self, decimals: i32) -> bool {
        if decimals == self.decimals_most {
            if decimals > 0 && self.with_most <= 1 {
                return false;
            }
            self.with_most -= 1;
        }
        true
    }
    fn totals(&self) -> (Numeric, Numeric) {
        (self.sum.add(&self.short_sum.total()), self.squares.add(&self.short_squares.total()))
    }
}
impl Accumulator for NumericSums {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        let d = first(args);
        if d.is_null() {
            return Ok(());
        }
        let v = get::numeric(d)?;
        self.count += 1;
        if let Numeric::Short(number) = v {
            self.note_decimals(i32::from(number.decimals()));
            self.add_short(*number, 1);
        } else if let Some(counter) = self.counter_of(v) {
            *counter += 1;
        } else {
            self.note_decimals(v.dscale());
            self.sum = self.sum.add(v);
            if self.want.squares() {
                self.squares = self.squares.add(&v.mul(v));
            }
        }
        Ok(())
    }
    fn remove(&mut self, args: &[Datum], _: &EvalContext) -> Result<bool> {
        let d = first(args);
        if d.is_null() {
            return Ok(true);
        }
        let v = get::numeric(d)?;
        if let Numeric::Short(number) = v {
            if !self.forget_decimals(i32::from(number.decimals())) {
                return Ok(false);
            }
            self.add_short(*number, -1);
        } else if let Some(counter) = self.counter_of(v) {
            *counter -= 1;
        } else {
            if !self.forget_decimals(v.dscale()) {
                return Ok(false);
            }
            self.sum = self.sum.sub(v);
            if self.want.squares() {
                self.squares = self.squares.sub(&v.mul(v));
            }
        }
        self.count -= 1;
        Ok(true)
    }
    fn add_vectors(&mut self, rows: Rows<'_>, args: &[&Vector], ctx: &EvalContext) -> Result<()> {
        let [arg] = args else { return self.add_each(rows, args, ctx) };
        let (VectorValues::Decimals(decimals, words), false) = (&arg.values, self.want.squares()) else {
            return self.add_each(rows, args, ctx);
        };
        let (sum, count) = sum_of_words(rows, arg, words);
        // The decimals are those of numbers that may all belong to other rows.
        if count > 0 {
            self.add_to_sum(sum, *decimals);
            self.count += count;
        }
        Ok(())
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        let special = if self.nan > 0 || (self.pos_inf > 0 && self.neg_inf > 0) {
            Some(Numeric::nan())
        } else if self.pos_inf > 0 {
            Some(Numeric::infinity())
        } else if self.neg_inf > 0 {
            Some(Numeric::neg_infinity())
        } else {
            None
        };
        if let Some(v) = special {
            if self.want.squares() {
                let null = self.want.sample() && self.count <= 1;
                return Ok(if null { Datum::Null } else { numeric(Numeric::nan()) });
            }
            return Ok(numeric(v));
        }
        let (sum, squares) = self.totals();
        moments(self.want, self.count, sum, &squares)
    }
    fn partial(&self) -> Option<PartialAggregate> {
        let (sum, squares) = self.totals();
        Some(PartialAggregate::Numerics {
            count: self.count,
            nan: self.nan,
            pos_inf: self.pos_inf,
            neg_inf: self.neg_inf,
            sum,
            squares,
        })
    }
    fn absorb(&mut self, other: PartialAggregate, _: &EvalContext) -> Result<()> {
        let PartialAggregate::Numerics { count, nan, pos_inf, neg_inf, sum, squares } = other else {
            return Err(mixed());
        };
        self.count += count;
        self.nan += nan;
        self.pos_inf += pos_inf;
        self.neg_inf += neg_inf;
        self.sum = self.sum.add(&sum);
        self.squares = self.squares.add(&squares);
        Ok(())
    }
}
pub(super) fn numerics(want: SumResult) -> Box<dyn Accumulator> {
    let zero = || Numeric::zero(0);
    let (sum, squares) = (zero(), zero());
    let (short_sum, short_squares) = Default::default();
    Box::new(NumericSums {
        want,
        count: 0,
        nan: 0,
        pos_inf: 0,
        neg_inf: 0,
        sum,
        squares,
        short_sum,
        short_squares,
        decimals_most: 0,
        with_most: 0,
    })
}
