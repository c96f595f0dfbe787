//! Statistics of two variables, as PostgreSQL keeps them (Youngs-Cramer).

use super::float::{combined_squares, combined_sum};
use super::{Accumulator, PartialAggregate, mixed, overflow};
use crate::functions::get;
use crate::{Datum, EvalContext};
use kilndb_base::Result;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Regr {
    Count,
    Sxx,
    Syy,
    Sxy,
    AvgX,
    AvgY,
    R2,
    Slope,
    Intercept,
    CovarPop,
    CovarSamp,
    Corr,
}
/// What has been summed of two variables.
#[derive(Clone, Copy, Debug, Default)]
pub struct RegressionSums {
    n: f64,
    sx: f64,
    sxx: f64,
    sy: f64,
    syy: f64,
    sxy: f64,
}
impl RegressionSums {
    fn add(&mut self, y: f64, x: f64) -> Result<()> {
        let before = self.n;
        self.n += 1.0;
        let (old_sx, old_sy) = (self.sx, self.sy);
        self.sx += x;
        self.sy += y;
        if before > 0.0 {
            let tx = x * self.n - self.sx;
            let ty = y * self.n - self.sy;
            let scale = 1.0 / (self.n * before);
            self.sxx += tx * tx * scale;
            self.syy += ty * ty * scale;
            self.sxy += tx * ty * scale;
            let inf = [self.sx, self.sxx, self.sy, self.syy, self.sxy].iter().any(|v| v.is_infinite());
            if inf {
                let given = |old: f64, v: f64| old.is_infinite() || v.is_infinite();
                if (self.sx.is_infinite() || self.sxx.is_infinite()) && !given(old_sx, x)
                    || (self.sy.is_infinite() || self.syy.is_infinite()) && !given(old_sy, y)
                    || self.sxy.is_infinite() && !given(old_sx, x) && !given(old_sy, y)
                {
                    return Err(overflow());
                }
                if self.sxx.is_infinite() {
                    self.sxx = f64::NAN;
                }
                if self.syy.is_infinite() {
                    self.syy = f64::NAN;
                }
                if self.sxy.is_infinite() {
                    self.sxy = f64::NAN;
                }
            }
        } else {
            if !x.is_finite() {
                self.sxx = f64::NAN;
                self.sxy = f64::NAN;
            }
            if !y.is_finite() {
                self.syy = f64::NAN;
                self.sxy = f64::NAN;
            }
        }
        Ok(())
    }
    fn combined(self, other: RegressionSums) -> Result<RegressionSums> {
        if self.n == 0.0 {
            return Ok(other);
        }
        if other.n == 0.0 {
            return Ok(self);
        }
        // How far the means of the parts are apart.
        let (x, y) = (self.sx / self.n - other.sx / other.n, self.sy / self.n - other.sy / other.n);
        let squares = |own, others, apart| combined_squares((self.n, own), (other.n, others), apart);
        Ok(RegressionSums {
            n: self.n + other.n,
            sx: combined_sum(self.sx, other.sx)?,
            sxx: squares(self.sxx, other.sxx, (x, x))?,
            sy: combined_sum(self.sy, other.sy)?,
            syy: squares(self.syy, other.syy, (y, y))?,
            sxy: squares(self.sxy, other.sxy, (x, y))?,
        })
    }
}

/// Two-argument statistics: (Y, X).
struct Regression {
    want: Regr,
    sums: RegressionSums,
}
impl Accumulator for Regression {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        let (Some(y), Some(x)) = (args.first(), args.get(1)) else { return Ok(()) };
        if x.is_null() || y.is_null() {
            return Ok(());
        }
        self.sums.add(get::float8(y)?, get::float8(x)?)
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        let RegressionSums { n, sx, sxx, sy, syy, sxy } = self.sums;
        if self.want == Regr::Count {
            return Ok(Datum::Int8(n as i64));
        }
        if n < 1.0 || (self.want == Regr::CovarSamp && n < 2.0) {
            return Ok(Datum::Null);
        }
        let v = match self.want {
            Regr::Sxx => sxx,
            Regr::Syy => syy,
            Regr::Sxy => sxy,
            Regr::AvgX => sx / n,
            Regr::AvgY => sy / n,
            Regr::CovarPop => sxy / n,
            Regr::CovarSamp => sxy / (n - 1.0),
            Regr::Corr => {
                if sxx == 0.0 || syy == 0.0 {
                    return Ok(Datum::Null);
                }
                sxy / (sxx * syy).sqrt()
            }
            Regr::R2 | Regr::Slope | Regr::Intercept if sxx == 0.0 => return Ok(Datum::Null),
            Regr::R2 if syy == 0.0 => 1.0,
            Regr::R2 => sxy * sxy / (sxx * syy),
            Regr::Slope => sxy / sxx,
            Regr::Intercept => (sy - sx * sxy / sxx) / n,
            Regr::Count => n,
        };
        Ok(Datum::Float8(v))
    }
    fn partial(&self) -> Option<PartialAggregate> {
        Some(PartialAggregate::Regression(self.sums))
    }
    fn absorb(&mut self, other: PartialAggregate, _: &EvalContext) -> Result<()> {
        let PartialAggregate::Regression(other) = other else { return Err(mixed()) };
        self.sums = self.sums.combined(other)?;
        Ok(())
    }
}
pub(super) fn regression(want: Regr) -> Box<dyn Accumulator> {
    Box::new(Regression { want, sums: RegressionSums::default() })
}
