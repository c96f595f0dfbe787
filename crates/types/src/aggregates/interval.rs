//! sum and avg over interval.

use super::{Accumulator, PartialAggregate, first, mixed};
use crate::functions::get;
use crate::{Datum, EvalContext, Interval};
use kilndb_base::{Error, Result, sqlstate};
use std::sync::Arc;

/// What has been summed of intervals.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntervalTotals {
    count: i64,
    months: i64,
    days: i64,
    micros: i128,
    pos_inf: i64,
    neg_inf: i64,
}
struct IntervalSums {
    avg: bool,
    totals: IntervalTotals,
}
impl IntervalSums {
    /// Takes a value in, or (`sign` -1) out.
    fn count_in(&mut self, args: &[Datum], sign: i64) -> Result<()> {
        let d = first(args);
        if d.is_null() {
            return Ok(());
        }
        let v = get::interval(d)?;
        self.totals.count += sign;
        if v.is_infinite() {
            if v.months > 0 {
                self.totals.pos_inf += sign
            } else {
                self.totals.neg_inf += sign
            }
            return Ok(());
        }
        self.totals.months += sign * i64::from(v.months);
        self.totals.days += sign * i64::from(v.days);
        self.totals.micros += i128::from(sign) * i128::from(v.micros);
        Ok(())
    }
}
impl Accumulator for IntervalSums {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        self.count_in(args, 1)
    }
    fn remove(&mut self, args: &[Datum], _: &EvalContext) -> Result<bool> {
        self.count_in(args, -1)?;
        Ok(true)
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        use crate::datetime::interval::{INFINITY, NEG_INFINITY};
        let range = || Error::new(sqlstate::DATETIME_FIELD_OVERFLOW, "interval out of range");
        if self.totals.count == 0 {
            return Ok(Datum::Null);
        }
        let (pos_inf, neg_inf) = (self.totals.pos_inf > 0, self.totals.neg_inf > 0);
        if pos_inf || neg_inf {
            if pos_inf && neg_inf {
                return Err(range());
            }
            return Ok(Datum::Interval(Arc::new(if pos_inf { INFINITY } else { NEG_INFINITY })));
        }
        let sum = Interval {
            months: i32::try_from(self.totals.months).map_err(|_| range())?,
            days: i32::try_from(self.totals.days).map_err(|_| range())?,
            micros: i64::try_from(self.totals.micros).map_err(|_| range())?,
        };
        let v =
            if self.avg { crate::functions::datetime::interval_divide(&sum, self.totals.count as f64)? } else { sum };
        Ok(Datum::Interval(Arc::new(v)))
    }
    fn partial(&self) -> Option<PartialAggregate> {
        Some(PartialAggregate::Intervals(self.totals))
    }
    fn absorb(&mut self, other: PartialAggregate, _: &EvalContext) -> Result<()> {
        let PartialAggregate::Intervals(other) = other else { return Err(mixed()) };
        let totals = &mut self.totals;
        totals.count += other.count;
        totals.months += other.months;
        totals.days += other.days;
        totals.micros += other.micros;
        totals.pos_inf += other.pos_inf;
        totals.neg_inf += other.neg_inf;
        Ok(())
    }
}
pub(super) fn intervals(avg: bool) -> Box<dyn Accumulator> {
    Box::new(IntervalSums { avg, totals: IntervalTotals::default() })
}
