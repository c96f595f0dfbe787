//! Sums, differences and products of integers, for expression programs that have no function call for them.

use super::ScalarFn;
use super::descriptor::Arithmetic;
use crate::{Datum, EvalContext};
use kilndb_base::Result;

impl Arithmetic {
    #[inline]
    pub fn of_int4(self, l: i32, r: i32) -> Option<i32> {
        match self {
            Arithmetic::Plus => l.checked_add(r),
            Arithmetic::Minus => l.checked_sub(r),
            Arithmetic::Times => l.checked_mul(r),
        }
    }
    /// The value; what is out of range is `f`'s to tell.
    pub fn of(self, wide: bool, l: i64, r: i64, f: ScalarFn, cx: &EvalContext<'_>) -> Result<Datum> {
        let of_int4 = |l: i64, r: i64| self.of_int4(i32::try_from(l).ok()?, i32::try_from(r).ok()?).map(Datum::Int4);
        match if wide { self.of_int8(l, r).map(Datum::Int8) } else { of_int4(l, r) } {
            Some(v) => Ok(v),
            None if wide => f(cx, &[Datum::Int8(l), Datum::Int8(r)]),
            None => f(cx, &[Datum::Int4(l as i32), Datum::Int4(r as i32)]),
        }
    }
    #[inline]
    pub fn of_int8(self, l: i64, r: i64) -> Option<i64> {
        match self {
            Arithmetic::Plus => l.checked_add(r),
            Arithmetic::Minus => l.checked_sub(r),
            Arithmetic::Times => l.checked_mul(r),
        }
    }
}
