//! What aggregates have gathered of a part of the rows, to be combined with other parts.

use super::regression::RegressionSums;
use super::{IntervalTotals, mixed};
use crate::Datum;
use crate::functions::get;
use crate::numeric::Numeric;
use kilndb_base::Result;

/// What an [`Accumulator`](super::Accumulator) has gathered of a part of the rows.
#[derive(Debug)]
pub enum PartialAggregate {
    /// The number of rows or values.
    Count(i64),
    Integers {
        count: i64,
        sum: i128,
        squares: i128,
    },
    Numerics {
        count: i64,
        nan: i64,
        pos_inf: i64,
        neg_inf: i64,
        sum: Numeric,
        squares: Numeric,
    },
    Floats {
        n: f64,
        sx: f64,
        sxx: f64,
        sum4: f32,
    },
    /// Of two variables.
    Regression(RegressionSums),
    Intervals(IntervalTotals),
    /// A value that counts as if it were a row's.
    Value(Datum),
}

/// What [`PartialAggregate`]s of one kind look like as values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PartialForm {
    Count,
    Integers,
    Numerics,
    Value,
}

/// A count, for which NULL stands if it is 0: there are many of these, and NULL is short.
fn some_or_0(count: &Datum) -> Result<i64> {
    if count.is_null() { Ok(0) } else { get::int8(count) }
}

impl PartialForm {
    /// How many values it is.
    pub fn width(self) -> usize {
        match self {
            PartialForm::Count | PartialForm::Value => 1,
            PartialForm::Integers => 3,
            PartialForm::Numerics => 6,
        }
    }
    /// What the values say, of which there are [as many as it takes](PartialForm::width). They are taken out.
    pub fn read(self, values: &mut [Datum]) -> Result<PartialAggregate> {
        Ok(match (self, values) {
            (PartialForm::Count, [count]) => PartialAggregate::Count(get::int8(count)?),
            (PartialForm::Value, [value]) => PartialAggregate::Value(std::mem::take(value)),
            (PartialForm::Integers, [count, sum, squares]) => {
                let whole = |value: &Datum| get::numeric(value)?.to_i128().ok_or_else(mixed);
                PartialAggregate::Integers { count: get::int8(count)?, sum: whole(sum)?, squares: whole(squares)? }
            }
            (PartialForm::Numerics, [count, nan, pos_inf, neg_inf, sum, squares]) => PartialAggregate::Numerics {
                count: get::int8(count)?,
                nan: some_or_0(nan)?,
                pos_inf: some_or_0(pos_inf)?,
                neg_inf: some_or_0(neg_inf)?,
                sum: get::numeric(sum)?.clone(),
                squares: get::numeric(squares)?.clone(),
            },
            _ => return Err(mixed()),
        })
    }
}

impl PartialAggregate {
    /// What it looks like as values. None: it does not give the same result whatever the parts, so that there had better be one.
    pub fn form(&self) -> Option<PartialForm> {
        match self {
            PartialAggregate::Count(_) => Some(PartialForm::Count),
            PartialAggregate::Integers { .. } => Some(PartialForm::Integers),
            PartialAggregate::Numerics { .. } => Some(PartialForm::Numerics),
            PartialAggregate::Value(_) => Some(PartialForm::Value),
            PartialAggregate::Floats { .. } | PartialAggregate::Regression(_) | PartialAggregate::Intervals(_) => None,
        }
    }
    /// Appends the values that its [form](PartialAggregate::form) reads; none without a form.
    pub fn append_to(self, values: &mut Vec<Datum>) {
        match self {
            PartialAggregate::Count(count) => values.push(Datum::Int8(count)),
            PartialAggregate::Value(value) => values.push(value),
            PartialAggregate::Integers { count, sum, squares } => {
                values.push(Datum::Int8(count));
                values.extend([sum, squares].map(|sum| Datum::Numeric(Numeric::from(sum))));
            }
            PartialAggregate::Numerics { count, nan, pos_inf, neg_inf, sum, squares } => {
                values.push(Datum::Int8(count));
                values.extend([nan, pos_inf, neg_inf].map(|n| if n == 0 { Datum::Null } else { Datum::Int8(n) }));
                values.extend([sum, squares].map(Datum::Numeric));
            }
            PartialAggregate::Floats { .. } | PartialAggregate::Regression(_) | PartialAggregate::Intervals(_) => {}
        }
    }
}
