//! Sums, differences and products of integers, for expression programs that have no function call for them.

use super::ScalarFn;
use super::descriptor::{Arithmetic, IntWidth};
use crate::{Datum, EvalContext};
use kilndb_base::Result;

impl Arithmetic {
    /// The function of two integers of one width.
    pub fn function(self, width: IntWidth) -> Option<ScalarFn> {
        let [of_int4, of_int8] = match self {
            Arithmetic::Plus => [177, 463],
            Arithmetic::Minus => [181, 464],
            Arithmetic::Times => [141, 465],
            Arithmetic::Divide => [154, 466],
            Arithmetic::Modulo => [156, 945],
        };
        super::lookup(if width == IntWidth::Int8 { of_int8 } else { of_int4 })
    }
    #[inline(always)]
    pub fn of_int4(self, l: i32, r: i32) -> Option<i32> {
        match self {
            Arithmetic::Plus => l.checked_add(r),
            Arithmetic::Minus => l.checked_sub(r),
            Arithmetic::Times => l.checked_mul(r),
            Arithmetic::Divide => l.checked_div(r),
            Arithmetic::Modulo => l.checked_rem(r),
        }
    }
    /// The value, if it is in range.
    #[inline(always)]
    pub fn within(self, wide: bool, l: i64, r: i64) -> Option<i64> {
        if wide {
            self.of_int8(l, r)
        } else {
            self.of_int4(i32::try_from(l).ok()?, i32::try_from(r).ok()?).map(i64::from)
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
    #[inline(always)]
    pub fn of_int8(self, l: i64, r: i64) -> Option<i64> {
        match self {
            Arithmetic::Plus => l.checked_add(r),
            Arithmetic::Minus => l.checked_sub(r),
            Arithmetic::Times => l.checked_mul(r),
            Arithmetic::Divide => l.checked_div(r),
            Arithmetic::Modulo => l.checked_rem(r),
        }
    }
}
