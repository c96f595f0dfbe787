//! Statistics of two variables, as PostgreSQL keeps them (Youngs-Cramer).

use super::{Accumulator, overflow};
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
/// Two-argument statistics: (Y, X).
struct Regression {
    want: Regr,
    n: f64,
    sx: f64,
    sxx: f64,
    sy: f64,
    syy: f64,
    sxy: f64,
}
impl Accumulator for Regression {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        let (Some(y), Some(x)) = (args.first(), args.get(1)) else { return Ok(()) };
        if x.is_null() || y.is_null() {
            return Ok(());
        }
        let (y, x) = (get::float8(y)?, get::float8(x)?);
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
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        let n = self.n;
        if self.want == Regr::Count {
            return Ok(Datum::Int8(n as i64));
        }
        if n < 1.0 || (self.want == Regr::CovarSamp && n < 2.0) {
            return Ok(Datum::Null);
        }
        let v = match self.want {
            Regr::Sxx => self.sxx,
            Regr::Syy => self.syy,
            Regr::Sxy => self.sxy,
            Regr::AvgX => self.sx / n,
            Regr::AvgY => self.sy / n,
            Regr::CovarPop => self.sxy / n,
            Regr::CovarSamp => self.sxy / (n - 1.0),
            Regr::Corr => {
                if self.sxx == 0.0 || self.syy == 0.0 {
                    return Ok(Datum::Null);
                }
                self.sxy / (self.sxx * self.syy).sqrt()
            }
            Regr::R2 | Regr::Slope | Regr::Intercept if self.sxx == 0.0 => return Ok(Datum::Null),
            Regr::R2 if self.syy == 0.0 => 1.0,
            Regr::R2 => self.sxy * self.sxy / (self.sxx * self.syy),
            Regr::Slope => self.sxy / self.sxx,
            Regr::Intercept => (self.sy - self.sx * self.sxy / self.sxx) / n,
            Regr::Count => n,
        };
        Ok(Datum::Float8(v))
    }
}
pub(super) fn regression(want: Regr) -> Box<dyn Accumulator> {
    Box::new(Regression { want, n: 0.0, sx: 0.0, sxx: 0.0, sy: 0.0, syy: 0.0, sxy: 0.0 })
}
