//! sum, avg and the variance family over float4 and float8.

use super::{Accumulator, GroupState, GroupedAccumulator, PartialAggregate, SumResult};
use super::{first, mixed, overflow, states_of};
use crate::functions::get;
use crate::vector::{Rows, Vector, VectorValues};
use crate::{Datum, EvalContext};
use kilndb_base::Result;

/// Float sums as PostgreSQL keeps them: count, sum, sum of squared differences.
#[derive(Clone)]
struct FloatSums {
    want: SumResult,
    single: bool,
    n: f64,
    sx: f64,
    sxx: f64,
    sum4: f32,
}
impl GroupState for FloatSums {
    fn add_pairs(states: &mut [Self], pairs: &[(u32, u32)], args: &[&Vector]) -> Result<bool> {
        let [arg] = args else { return Ok(false) };
        let VectorValues::Doubles(values) = &arg.values else { return Ok(false) };
        for (row, group) in pairs.iter().filter(|(row, _)| !arg.is_null(*row as usize)) {
            states[*group as usize].add_value(values[arg.at(*row as usize)])?;
        }
        Ok(true)
    }
}
impl Accumulator for FloatSums {
    fn add(&mut self, args: &[Datum], _: &EvalContext) -> Result<()> {
        let d = first(args);
        if d.is_null() {
            return Ok(());
        }
        self.add_value(get::float8(d)?)
    }
    fn add_vectors(&mut self, rows: Rows<'_>, args: &[&Vector], ctx: &EvalContext) -> Result<()> {
        let [arg] = args else { return self.add_each(rows, args, ctx) };
        let VectorValues::Doubles(values) = &arg.values else { return self.add_each(rows, args, ctx) };
        rows.try_each(|row| if arg.is_null(row) { Ok(()) } else { self.add_value(values[arg.at(row)]) })
    }
    fn finish(&mut self, _: &EvalContext) -> Result<Datum> {
        if self.n == 0.0 || (self.want.sample() && self.n <= 1.0) {
            return Ok(Datum::Null);
        }
        Ok(match self.want {
            SumResult::Sum if self.single => Datum::Float4(self.sum4),
            SumResult::Sum => Datum::Float8(self.sx),
            SumResult::Avg => Datum::Float8(self.sx / self.n),
            w => {
                let v = self.sxx / if w.sample() { self.n - 1.0 } else { self.n };
                Datum::Float8(if w.root() { v.sqrt() } else { v })
            }
        })
    }
    fn partial(&self) -> Option<PartialAggregate> {
        let FloatSums { n, sx, sxx, sum4, .. } = *self;
        Some(PartialAggregate::Floats { n, sx, sxx, sum4 })
    }
    fn absorb(&mut self, other: PartialAggregate, _: &EvalContext) -> Result<()> {
        let PartialAggregate::Floats { n, sx, sxx, sum4 } = other else { return Err(mixed()) };
        if n == 0.0 {
            return Ok(());
        }
        if self.n == 0.0 {
            (self.n, self.sx, self.sxx, self.sum4) = (n, sx, sxx, sum4);
            return Ok(());
        }
        if self.want == SumResult::Sum {
            let rows = self.n + n;
            // A sum comes in as a value does.
            self.add_value(if self.single { f64::from(sum4) } else { sx })?;
            self.n = rows;
            return Ok(());
        }
        let distance = self.sx / self.n - sx / n;
        self.sxx = combined_squares((self.n, self.sxx), (n, sxx), (distance, distance))?;
        self.sx = combined_sum(self.sx, sx)?;
        self.n += n;
        Ok(())
    }
    fn grouped(&self) -> Option<Box<dyn GroupedAccumulator>> {
        Some(states_of(self.clone()))
    }
}
/// The sum of two parts' sums. Errors: it is infinite, and neither of them was.
pub(super) fn combined_sum(a: f64, b: f64) -> Result<f64> {
    let sum = a + b;
    if sum.is_infinite() && !a.is_infinite() && !b.is_infinite() { Err(overflow()) } else { Ok(sum) }
}
/// The sum of products of differences from the mean of two parts, each with its number of rows. `x` and `y` are how far the
/// means of the two parts are apart.
pub(super) fn combined_squares(
    (n, squares): (f64, f64),
    (other_n, other_squares): (f64, f64),
    (x, y): (f64, f64),
) -> Result<f64> {
    let sum = squares + other_squares + n * other_n * x * y / (n + other_n);
    if sum.is_infinite() && !squares.is_infinite() && !other_squares.is_infinite() { Err(overflow()) } else { Ok(sum) }
}
impl FloatSums {
    #[inline]
    fn add_value(&mut self, v: f64) -> Result<()> {
        if self.want == SumResult::Sum {
            if self.single {
                let r = if self.n == 0.0 { v as f32 } else { self.sum4 + v as f32 };
                if r.is_infinite() && !v.is_infinite() && !self.sum4.is_infinite() {
                    return Err(overflow());
                }
                self.sum4 = r;
            } else {
                let r = if self.n == 0.0 { v } else { self.sx + v };
                if r.is_infinite() && !v.is_infinite() && !self.sx.is_infinite() {
                    return Err(overflow());
                }
                self.sx = r;
            }
            self.n += 1.0;
            return Ok(());
        }
        let (n, old) = (self.n + 1.0, self.sx);
        self.sx += v;
        if self.n > 0.0 {
            let t = v * n - self.sx;
            self.sxx += t * t / (n * self.n);
            if self.sx.is_infinite() || self.sxx.is_infinite() {
                if !old.is_infinite() && !v.is_infinite() {
                    return Err(overflow());
                }
                self.sxx = f64::NAN;
            }
        } else if v.is_nan() || v.is_infinite() {
            self.sxx = f64::NAN;
        }
        self.n = n;
        Ok(())
    }
}
pub(super) fn floats(want: SumResult, single: bool) -> Box<dyn Accumulator> {
    Box::new(FloatSums { want, single, n: 0.0, sx: 0.0, sxx: 0.0, sum4: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::with_context;

    const ALL: [SumResult; 6] = [
        SumResult::Sum,
        SumResult::Avg,
        SumResult::VarSamp,
        SumResult::VarPop,
        SumResult::StddevSamp,
        SumResult::StddevPop,
    ];

    /// The result of values that are gathered in parts.
    fn of_parts(want: SumResult, parts: &[&[f64]]) -> Result<Option<f64>> {
        with_context(|context| {
            let mut whole = floats(want, false);
            for part in parts {
                let mut gathered = floats(want, false);
                part.iter().try_for_each(|v| gathered.add(&[Datum::Float8(*v)], context))?;
                whole.absorb(gathered.partial().ok_or_else(mixed)?, context)?;
            }
            Ok(match whole.finish(context)? {
                Datum::Float8(v) => Some(v),
                _ => None,
            })
        })
    }

    #[test]
    fn parts_give_what_all_values_give() {
        let values: Vec<f64> = (0..40).map(|i| f64::from(i * i % 23) / 4.0 - 2.0).collect();
        for want in ALL {
            let expected = of_parts(want, &[&values]).unwrap().unwrap();
            for at in 0..=values.len() {
                let (a, b) = values.split_at(at);
                let found = of_parts(want, &[a, &[], b]).unwrap().unwrap();
                assert!((found - expected).abs() < 1e-12, "{found} {expected}");
            }
            assert_eq!(of_parts(want, &[&[], &[]]).unwrap(), None);
        }
    }

    #[test]
    fn infinities_stay_and_overflow_is_an_error() {
        const INF: f64 = f64::INFINITY;
        for want in [SumResult::Sum, SumResult::Avg] {
            assert_eq!(of_parts(want, &[&[INF], &[1.0]]).unwrap(), Some(INF));
            assert_eq!(of_parts(want, &[&[1.0], &[-INF]]).unwrap(), Some(-INF));
            assert!(of_parts(want, &[&[INF], &[-INF]]).unwrap().is_some_and(f64::is_nan));
            assert!(of_parts(want, &[&[1e308], &[1e308]]).is_err());
        }
        for parts in [[&[INF, 2.0][..], &[1.0]], [&[1.0], &[f64::NAN, 3.0]]] {
            assert!(of_parts(SumResult::VarPop, &parts).unwrap().is_some_and(f64::is_nan));
        }
        assert!(of_parts(SumResult::VarPop, &[&[1e200], &[-1e200]]).is_err());
    }
}
