//! sum, avg and the variance family over numeric.

use super::{Accumulator, GroupState, GroupedAccumulator, PartialAggregate, SumResult};
use super::{each_word, first, mixed, moments, numeric, states_of, sum_of_words};
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
#[derive(Clone)]
struct NumericSums {
    /// What has been summed and is not in `rest`, as a [`ShortSum`].
    value: i128,
    decimals: u8,
    want: SumResult,
    count: i64,
    rest: Option<Box<NumericRest>>,
}
/// What sums of numerics need that are not all short and few enough for one integer.
#[derive(Clone)]
struct NumericRest {
    nan: i64,
    pos_inf: i64,
    neg_inf: i64,
    sum: Numeric,
    squares: Numeric,
    /// What of the squares has not been added to them yet.
    short_squares: ShortSum,
    /// Where rows can be taken out again: the most decimals that a value had, and how many have so many. Those are the decimals
    /// of the sum, so it cannot go without the last of these.
    decimals_most: Option<(i32, i64)>,
}
impl Default for NumericRest {
    fn default() -> NumericRest {
        NumericRest {
            nan: 0,
            pos_inf: 0,
            neg_inf: 0,
            sum: Numeric::zero(0),
            squares: Numeric::zero(0),
            short_squares: ShortSum::default(),
            decimals_most: None,
        }
    }
}
impl NumericRest {
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
        let Some((most, with_most)) = &mut self.decimals_most else { return };
        match decimals.cmp(most) {
            Ordering::Less => {}
            Ordering::Equal => *with_most += 1,
            Ordering::Greater => (*most, *with_most) = (decimals, 1),
        }
    }
    /// Can a value with so many decimals go, and leave the sum with the decimals of those that stay?
    #[inline]
    fn forget_decimals(&mut self, decimals: i32) -> bool {
        let Some((most, with_most)) = &mut self.decimals_most else { return false };
        if decimals == *most {
            if decimals > 0 && *with_most <= 1 {
                return false;
            }
            *with_most -= 1;
        }
        true
    }
    fn add_square(&mut self, square: i128, decimals: u8) {
        if !self.short_squares.add(square, decimals) {
            self.squares = self.squares.add(&self.short_squares.total());
            self.short_squares = ShortSum { value: square, decimals };
        }
    }
    /// NaN, or an infinity, if that is the sum.
    fn special(&self) -> Option<Numeric> {
        if self.nan > 0 || (self.pos_inf > 0 && self.neg_inf > 0) {
            Some(Numeric::nan())
        } else if self.pos_inf > 0 {
            Some(Numeric::infinity())
        } else {
            (self.neg_inf > 0).then(Numeric::neg_infinity)
        }
    }
}
impl NumericSums {
    fn rest(&mut self) -> &mut NumericRest {
        self.rest.get_or_insert_default()
    }
    #[inline]
    fn add_to_sum(&mut self, value: i128, decimals: u8) {
        let mut short = ShortSum { value: self.value, decimals: self.decimals };
        if !short.add(value, decimals) {
            let rest = self.rest();
            rest.sum = rest.sum.add(&short.total());
            short = ShortSum { value, decimals };
        }
        (self.value, self.decimals) = (short.value, short.decimals);
    }
    /// Adds the value and its square, or (`sign` -1) what makes up for them.
    #[inline]
    fn add_short(&mut self, number: ShortNumeric, sign: i128) {
        let (value, decimals) = (i128::from(number.value()), number.decimals());
        self.add_to_sum(sign * value, decimals);
        if self.want.squares() {
            self.rest().add_square(sign * value * value, 2 * decimals);
        }
    }
    fn totals(&self) -> (Numeric, Numeric) {
        let short = ShortSum { value: self.value, decimals: self.decimals }.total();
        match &self.rest {
            None => (short, Numeric::zero(0)),
            Some(rest) => (rest.sum.add(&short), rest.squares.add(&rest.short_squares.total())),
        }
    }
}
impl GroupState for NumericSums {
    fn add_pairs(states: &mut [Self], pairs: &[(u32, u32)], args: &[&Vector]) -> Result<bool> {
        let [arg] = args else { return Ok(false) };
        let VectorValues::Decimals(decimals, words) = &arg.values else { return Ok(false) };
        if states.first().is_some_and(|state| state.want.squares()) {
            return Ok(false);
        }
        each_word(pairs, arg, words, |group, word| {
            let state = &mut states[group];
            // The decimals are those of numbers that may all belong to other rows.
            state.add_to_sum(i128::from(word), *decimals);
            state.count += 1;
        });
        Ok(true)
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
            if let Some(rest) = &mut self.rest {
                rest.note_decimals(i32::from(number.decimals()));
            }
            self.add_short(*number, 1);
            return Ok(());
        }
        let has_squares = self.want.squares();
        let rest = self.rest();
        if let Some(counter) = rest.counter_of(v) {
            *counter += 1;
        } else {
            rest.note_decimals(v.dscale());
            rest.sum = rest.sum.add(v);
            if has_squares {
                rest.squares = rest.squares.add(&v.mul(v));
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
        let has_squares = self.want.squares();
        let rest = self.rest();
        if let Numeric::Short(number) = v {
            if !rest.forget_decimals(i32::from(number.decimals())) {
                return Ok(false);
            }
            self.add_short(*number, -1);
        } else if let Some(counter) = rest.counter_of(v) {
            *counter -= 1;
        } else {
            if !rest.forget_decimals(v.dscale()) {
                return Ok(false);
            }
            rest.sum = rest.sum.sub(v);
            if has_squares {
                rest.squares = rest.squares.sub(&v.mul(v));
            }
        }
        self.count -= 1;
        Ok(true)
    }
    fn for_moving_frames(&self) -> Option<Box<dyn Accumulator>> {
        let rest = NumericRest { decimals_most: Some((0, 0)), ..NumericRest::default() };
        Some(Box::new(NumericSums { rest: Some(Box::new(rest)), ..empty(self.want) }))
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
        if let Some(v) = self.rest.as_ref().and_then(|rest| rest.special()) {
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
        let counts = |rest: &NumericRest| (rest.nan, rest.pos_inf, rest.neg_inf);
        let (nan, pos_inf, neg_inf) = self.rest.as_deref().map_or((0, 0, 0), counts);
        Some(PartialAggregate::Numerics { count: self.count, nan, pos_inf, neg_inf, sum, squares })
    }
    fn absorb(&mut self, other: PartialAggregate, _: &EvalContext) -> Result<()> {
        let PartialAggregate::Numerics { count, nan, pos_inf, neg_inf, sum, squares } = other else {
            return Err(mixed());
        };
        self.count += count;
        match sum {
            Numeric::Short(sum) => self.add_to_sum(i128::from(sum.value()), sum.decimals()),
            sum => {
                let rest = self.rest();
                rest.sum = rest.sum.add(&sum);
            }
        }
        if self.want.squares() {
            let rest = self.rest();
            rest.squares = rest.squares.add(&squares);
        }
        if (nan, pos_inf, neg_inf) != (0, 0, 0) {
            let rest = self.rest();
            rest.nan += nan;
            rest.pos_inf += pos_inf;
            rest.neg_inf += neg_inf;
        }
        Ok(())
    }
    fn grouped(&self) -> Option<Box<dyn GroupedAccumulator>> {
        Some(states_of(self.clone()))
    }
}
fn empty(want: SumResult) -> NumericSums {
    NumericSums { value: 0, decimals: 0, want, count: 0, rest: None }
}
pub(super) fn numerics(want: SumResult) -> Box<dyn Accumulator> {
    Box::new(empty(want))
}
