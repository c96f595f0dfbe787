//! Roots, powers, logarithms, integer number theory. Result scales follow PostgreSQL's rules; the inner
//! computation keeps a few more digits than it shows.

use super::*;
use kilndb_base::work;

/// As many digits as PostgreSQL takes: they decide how many of a result are shown.
#[expect(clippy::approx_constant)]
const LOG10_E: f64 = 0.434294481903252;
/// As many digits as PostgreSQL takes.
#[expect(clippy::approx_constant)]
const LOG10_2: f64 = 0.301029995663981;
const LOG2_10: f64 = std::f64::consts::LOG2_10;

fn power_error(message: &str) -> Error {
    Error::new(sqlstate::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}
fn log_error(message: &str) -> Error {
    Error::new(sqlstate::INVALID_ARGUMENT_FOR_LOG, message)
}
fn clamp_scale(scale: i32) -> i32 {
    scale.clamp(0, MAX_DISPLAY_SCALE)
}
fn check_log_argument(n: &GroupedNumeric) -> Result<()> {
    match n.signum() {
        -1 => Err(log_error("cannot take logarithm of a negative number")),
        0 => Err(log_error("cannot take logarithm of zero")),
        _ => Ok(()),
    }
}

impl GroupedNumeric {
    fn mul_round(&self, other: &GroupedNumeric, scale: i32) -> GroupedNumeric {
        let mut r = self.mul_exact(other);
        if r.dscale > scale {
            r.round_in_place(scale);
        }
        r.dscale = scale.max(0);
        r
    }
    /// The value as a float: infinite where it is beyond a float's range, never NaN.
    fn approx(&self) -> f64 {
        let mut v = 0.0;
        for (i, d) in self.digits.iter().take(6).enumerate().filter(|(_, d)| **d != 0) {
            // The power may be infinite, and so is the sum then: a zero group must not make it NaN.
            v += f64::from(*d) * 10f64.powi((self.weight - i as i32) * 4);
        }
        if self.negative { -v } else { v }
    }

    pub fn sqrt(&self) -> Result<GroupedNumeric> {
        if self.signum() < 0 {
            return Err(power_error("cannot take square root of a negative number"));
        }
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let sweight = self.weight * DEC_DIGITS / 2 + 1;
        let rscale = clamp_scale((MIN_SIG_DIGITS - sweight).max(self.dscale));
        Ok(self.sqrt_scale(rscale))
    }
    /// The square root, rounded to `rscale` decimals.
    pub(crate) fn sqrt_scale(&self, rscale: i32) -> GroupedNumeric {
        // One decimal more than asked decides the rounding, whatever follows it.
        let mut r = self.sqrt_groups(rscale.div_euclid(DEC_DIGITS) + 1);
        r.round_in_place(rscale);
        r
    }
    /// The square root, cut after `groups` groups behind the point (less than 0 are groups before it).
    fn sqrt_groups(&self, groups: i32) -> GroupedNumeric {
        let len = (self.weight + 1 + 2 * groups).max(0) as usize;
        let mut digits = self.digits[..len.min(self.digits.len())].to_vec();
        digits.resize(len, 0);
        let root_len = len.div_ceil(2);
        let digits = long::to_groups(&long::sqrt_floor(&long::to_limbs(&digits)), root_len);
        let weight = root_len as i32 - 1 - groups;
        let mut r = GroupedNumeric {
            kind: NumericKind::Finite,
            negative: false,
            weight,
            dscale: (groups * DEC_DIGITS).max(0),
            digits,
        };
        r.strip();
        r
    }

    pub fn exp(&self) -> Result<GroupedNumeric> {
        match self.kind {
            NumericKind::NegInf => return Ok(GroupedNumeric::zero(0)),
            NumericKind::Finite => {}
            _ => return Ok(self.clone()),
        }
        let limit = f64::from(MAX_RESULT_SCALE);
        let val = (self.approx() * LOG10_E).clamp(-limit, limit);
        let rscale = clamp_scale((MIN_SIG_DIGITS - val as i32).max(self.dscale));
        self.exp_scale(rscale)
    }
    fn exp_scale(&self, rscale: i32) -> Result<GroupedNumeric> {
        let mut val = self.approx();
        if val.abs() >= f64::from(MAX_RESULT_SCALE * 3) {
            return if val > 0.0 { Err(overflow()) } else { Ok(GroupedNumeric::zero(rscale)) };
        }
        let dweight = (val * LOG10_E) as i32;
        // The more digits are wanted, the more halvings pay: each costs a multiplication, and makes the series shorter.
        let wanted = f64::from((1 + dweight + rscale).max(0));
        let small = 10f64.powf(-(wanted / 4.0).sqrt().clamp(2.0, 30.0));
        let mut halvings = 0;
        while val.abs() > small {
            halvings += 1;
            val /= 2.0;
        }
        let sig_digits = (1 + dweight + rscale + (f64::from(halvings) * LOG10_2) as i32).max(0) + 10;
        let mut scale = sig_digits + 2;
        let two = GroupedNumeric::from(1i128 << halvings);
        let x = if halvings > 0 { self.div_scale(&two, scale + halvings, true) } else { self.clone() };
        let mut sum = GroupedNumeric::one().add(&x);
        let mut term = x.clone();
        let mut n = 1i64;
        loop {
            n += 1;
            work::step(term.digits.len() * x.digits.len().min(100))?;
            term = term.mul_round(&x, scale + 8).div_scale(&GroupedNumeric::from(n), scale + 8, true);
            if term.is_zero() {
                break;
            }
            sum = sum.add(&term);
        }
        sum.round_in_place(scale);
        for _ in 0..halvings {
            work::step(sum.digits.len() * 100)?;
            // Squaring moves the decimal point: keep the number of significant digits.
            let weight = sum.decimal_weight() * 2;
            scale = (sig_digits - weight + 2).max(0);
            sum = sum.mul_round(&sum, scale);
            if sum.is_zero() {
                break;
            }
        }
        sum.round_in_place(rscale);
        sum.checked()
    }

    fn estimate_ln_dweight(&self) -> i32 {
        if self.signum() <= 0 || self.digits.is_empty() {
            return 0;
        }
        if *self >= GroupedNumeric::from_scaled(9, 1) && *self <= GroupedNumeric::from_scaled(11, 1) {
            let x = self.sub(&GroupedNumeric::one());
            return match x.digits.first() {
                Some(d) => x.weight * DEC_DIGITS + f64::from(*d).log10() as i32,
                None => 0,
            };
        }
        let mut digits = f64::from(self.digits[0]);
        let mut dweight = self.weight * DEC_DIGITS;
        if let Some(d) = self.digits.get(1) {
            digits = digits * 10000.0 + f64::from(*d);
            dweight -= DEC_DIGITS;
        }
        let ln = digits.ln() + f64::from(dweight) * std::f64::consts::LN_10;
        ln.abs().log10() as i32
    }
    pub fn ln(&self) -> Result<GroupedNumeric> {
        if self.kind == NumericKind::NegInf {
            return Err(log_error("cannot take logarithm of a negative number"));
        }
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let rscale = clamp_scale((MIN_SIG_DIGITS - self.estimate_ln_dweight()).max(self.dscale));
        self.ln_scale(rscale)
    }
    /// ln through repeated square roots and the series of artanh.
    fn ln_scale(&self, rscale: i32) -> Result<GroupedNumeric> {
        check_log_argument(self)?;
        let mut x = self.clone();
        let mut factor = GroupedNumeric::from(2);
        let mut roots = 0;
        // Roots as precise as PostgreSQL's and no more: in results of many digits before the point, the last decimal
        // shows that.
        while x <= GroupedNumeric::from_scaled(9, 1) || x >= GroupedNumeric::from_scaled(11, 1) {
            work::step(x.digits.len() * 100)?;
            x = x.sqrt_scale(rscale - x.weight * DEC_DIGITS / 2 + 8);
            factor = factor.add(&factor);
            roots += 1;
        }
        // The more digits are wanted, the more roots pay: each brings the argument nearer to 1 and makes the series
        // shorter.
        let near = ((f64::from(rscale) / 13.0).sqrt() as i32).max(1);
        let distance = GroupedNumeric::from_scaled(11, near + 1);
        let most_roots = f64::from(roots) + f64::from(near) * LOG2_10;
        let scale = rscale + 14 + (most_roots / LOG2_10) as i32;
        let groups = scale / DEC_DIGITS + 2;
        x.digits.truncate(groups as usize);
        while x.sub(&GroupedNumeric::one()).abs() >= distance {
            work::step(x.digits.len() * 100)?;
            x = x.sqrt_groups(groups);
            factor = factor.add(&factor);
        }
        let one = GroupedNumeric::one();
        let z = x.sub(&one).div_scale(&x.add(&one), scale, true);
        let z2 = z.mul_round(&z, scale);
        let mut sum = z.clone();
        let mut power = z;
        let mut n = 1i64;
        loop {
            n += 2;
            work::step(power.digits.len() * z2.digits.len().min(100))?;
            power = power.mul_round(&z2, scale);
            let term = power.div_scale(&GroupedNumeric::from(n), scale, true);
            if term.is_zero() {
                break;
            }
            sum = sum.add(&term);
        }
        let mut r = sum.mul_exact(&factor);
        r.round_in_place(rscale);
        r.checked()
    }
    /// Logarithm of `self` to `base`.
    pub fn log(base: &GroupedNumeric, num: &GroupedNumeric) -> Result<GroupedNumeric> {
        if base.is_nan() || num.is_nan() {
            return Ok(GroupedNumeric::nan());
        }
        if !base.is_finite() || !num.is_finite() {
            let (s1, s2) = (base.signum(), num.signum());
            if s1 < 0 || s2 < 0 {
                return Err(log_error("cannot take logarithm of a negative number"));
            }
            if s1 == 0 || s2 == 0 {
                return Err(log_error("cannot take logarithm of zero"));
            }
            return Ok(match (base.kind, num.kind) {
                (NumericKind::PosInf, NumericKind::PosInf) => GroupedNumeric::nan(),
                (NumericKind::PosInf, _) => GroupedNumeric::zero(0),
                _ => GroupedNumeric::infinity(),
            });
        }
        let base_dweight = base.estimate_ln_dweight();
        let num_dweight = num.estimate_ln_dweight();
        let result_dweight = num_dweight - base_dweight;
        let rscale = clamp_scale((MIN_SIG_DIGITS - result_dweight).max(base.dscale).max(num.dscale));
        let ln_base = base.ln_scale((rscale + result_dweight - base_dweight + 8).max(0))?;
        let ln_num = num.ln_scale((rscale + result_dweight - num_dweight + 8).max(0))?;
        if ln_base.is_zero() {
            return Err(div_by_zero());
        }
        ln_num.div_scale(&ln_base, rscale, true).checked()
    }

    pub fn power(&self, exp: &GroupedNumeric) -> Result<GroupedNumeric> {
        if !self.is_finite() || !exp.is_finite() {
            return self.power_special(exp);
        }
        if self.signum() == 0 && exp.signum() < 0 {
            return Err(power_error("zero raised to a negative power is undefined"));
        }
        if let (true, Some(e)) = (exp.is_integral(), exp.to_i128())
            && let Ok(e) = i32::try_from(e)
        {
            return self.power_int(e, exp.dscale)?.checked();
        }
        if self.is_zero() {
            return Ok(GroupedNumeric::zero(MIN_SIG_DIGITS));
        }
        let mut negative = false;
        if self.negative {
            if !exp.is_integral() {
                return Err(power_error("a negative number raised to a non-integer power yields a complex result"));
            }
            negative = exp.digit_at(0) & 1 == 1;
        }
        let base = self.abs();
        let ln_dweight = base.estimate_ln_dweight();
        let rough_scale = (8 - ln_dweight).max(0);
        let val = base.ln_scale(rough_scale)?.mul_round(exp, rough_scale).approx();
        if val.abs() > f64::from(MAX_RESULT_SCALE) * 3.01 {
            return if val > 0.0 { Err(overflow()) } else { Ok(GroupedNumeric::zero(MAX_DISPLAY_SCALE)) };
        }
        let dweight = (val * LOG10_E) as i32;
        let rscale = clamp_scale((MIN_SIG_DIGITS - dweight).max(self.dscale).max(exp.dscale));
        let sig_digits = (rscale + dweight).max(0);
        let scale = (sig_digits - ln_dweight + 8).max(0);
        let ln = base.ln_scale(scale)?.mul_round(exp, scale);
        let mut r = ln.exp_scale(rscale)?;
        r.negative = negative && !r.digits.is_empty();
        r.checked()
    }
    fn power_special(&self, exp: &GroupedNumeric) -> Result<GroupedNumeric> {
        let one = GroupedNumeric::one();
        if self.is_nan() {
            return Ok(if exp.is_zero() { one } else { GroupedNumeric::nan() });
        }
        if exp.is_nan() {
            return Ok(if *self == one { one } else { GroupedNumeric::nan() });
        }
        let (s1, s2) = (self.signum(), exp.signum());
        if s1 == 0 && s2 < 0 {
            return Err(power_error("zero raised to a negative power is undefined"));
        }
        if s1 < 0 && !exp.is_inf() && !exp.is_integral() {
            return Err(power_error("a negative number raised to a non-integer power yields a complex result"));
        }
        if *self == one || s2 == 0 {
            return Ok(one);
        }
        if s1 == 0 {
            return Ok(GroupedNumeric::zero(0));
        }
        if exp.is_inf() {
            if *self == one.neg() {
                return Ok(one);
            }
            let large = self.is_inf() || self.abs() > one;
            return Ok(if large == (s2 > 0) { GroupedNumeric::infinity() } else { GroupedNumeric::zero(0) });
        }
        if s2 < 0 {
            return Ok(GroupedNumeric::zero(0));
        }
        if self.kind == NumericKind::NegInf && exp.digit_at(0) & 1 == 1 {
            return Ok(GroupedNumeric::neg_infinity());
        }
        Ok(GroupedNumeric::infinity())
    }
    fn power_int(&self, exp: i32, exp_dscale: i32) -> Result<GroupedNumeric> {
        let mut f = 0.0;
        if !self.digits.is_empty() {
            let mut m = 0.0;
            let mut p = self.weight * DEC_DIGITS + DEC_DIGITS;
            for d in self.digits.iter().take(4) {
                m = m * 10000.0 + f64::from(*d);
                p -= DEC_DIGITS;
            }
            f = f64::from(exp) * (m.log10() + f64::from(p));
        }
        if f > f64::from((MAX_WEIGHT + 1) * DEC_DIGITS) {
            return Err(overflow());
        }
        if f + 1.0 < f64::from(-MAX_DISPLAY_SCALE) {
            return Ok(GroupedNumeric::zero(MAX_DISPLAY_SCALE));
        }
        let rscale = clamp_scale((MIN_SIG_DIGITS - f as i32).max(self.dscale).max(exp_dscale));
        match exp {
            0 => {
                let mut one = GroupedNumeric::one();
                one.dscale = rscale;
                return Ok(one);
            }
            1 => return Ok(self.round_to(rscale)),
            -1 => {
                if self.is_zero() {
                    return Err(div_by_zero());
                }
                return Ok(GroupedNumeric::one().div_scale(self, rscale, true));
            }
            2 => return Ok(self.mul_round(self, rscale)),
            _ => {}
        }
        if self.is_zero() {
            return if exp < 0 { Err(div_by_zero()) } else { Ok(GroupedNumeric::zero(rscale)) };
        }
        let sig_digits = 1 + rscale + f as i32 + f64::from(exp).abs().ln() as i32 + 8;
        let mut mask = exp.unsigned_abs();
        let mut base = self.clone();
        let mut r = if mask & 1 == 1 { self.clone() } else { GroupedNumeric::one() };
        loop {
            mask >>= 1;
            if mask == 0 {
                break;
            }
            work::step((base.digits.len() + r.digits.len()) * 100)?;
            let scale = (sig_digits - 2 * base.decimal_weight().div_euclid(4) * 4).clamp(0, 100_000);
            let scale = scale.min(2 * base.dscale);
            base = base.mul_round(&base, scale);
            if mask & 1 == 1 {
                let w = base.decimal_weight() + r.decimal_weight();
                let scale = (sig_digits - w).max(0).min(base.dscale + r.dscale);
                r = r.mul_round(&base, scale);
            }
            if base.weight > MAX_WEIGHT || r.weight > MAX_WEIGHT {
                if exp > 0 {
                    return Err(overflow());
                }
                return Ok(GroupedNumeric::zero(rscale));
            }
        }
        if exp < 0 {
            if r.is_zero() {
                return Err(overflow());
            }
            return Ok(GroupedNumeric::one().div_scale(&r, rscale, true));
        }
        Ok(r.round_to(rscale))
    }

    pub(crate) fn gcd(&self, other: &GroupedNumeric) -> Result<GroupedNumeric> {
        if !self.is_finite() || !other.is_finite() {
            return Ok(GroupedNumeric::nan());
        }
        let dscale = self.dscale.max(other.dscale);
        let mut r = if self.is_zero() {
            other.abs()
        } else if other.is_zero() {
            self.abs()
        } else {
            // Both as integers, counted in the lowest group of either.
            let behind = |n: &GroupedNumeric| n.digits.len() as i32 - 1 - n.weight;
            let lowest = behind(self).max(behind(other));
            let integer = |n: &GroupedNumeric| {
                let mut digits = n.digits.clone();
                digits.resize(digits.len() + (lowest - behind(n)) as usize, 0);
                digits
            };
            let digits = long::gcd_groups(&integer(self), &integer(other))?;
            let weight = digits.len() as i32 - 1 - lowest;
            GroupedNumeric { kind: NumericKind::Finite, negative: false, weight, dscale, digits }
        };
        r.strip();
        r.dscale = dscale;
        Ok(r)
    }
    pub(crate) fn lcm(&self, other: &GroupedNumeric) -> Result<GroupedNumeric> {
        if !self.is_finite() || !other.is_finite() {
            return Ok(GroupedNumeric::nan());
        }
        let dscale = self.dscale.max(other.dscale);
        if self.is_zero() || other.is_zero() {
            return Ok(GroupedNumeric::zero(dscale));
        }
        let gcd = self.gcd(other)?;
        let mut r = self.abs().div_scale(&gcd, 0, true).mul_exact(&other.abs());
        r.dscale = dscale;
        r.checked()
    }
}

pub(crate) fn factorial(n: i64) -> Result<GroupedNumeric> {
    if n < 0 {
        return Err(Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "factorial of a negative number is undefined"));
    }
    if n > 32177 {
        return Err(overflow());
    }
    Ok(product(1, n))
}

/// `low * … * high`, by halves: a few long multiplications instead of many by short numbers.
fn product(low: i64, high: i64) -> GroupedNumeric {
    if high - low < 4 {
        return (low.max(1)..=high).fold(GroupedNumeric::one(), |p, i| p.mul_exact(&GroupedNumeric::from(i)));
    }
    let middle = low + (high - low) / 2;
    product(low, middle).mul_exact(&product(middle + 1, high))
}

pub(crate) fn width_bucket(
    operand: &GroupedNumeric,
    low: &GroupedNumeric,
    high: &GroupedNumeric,
    count: i32,
) -> Result<i32> {
    let bad = |m: &str| Error::new(sqlstate::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, m.to_string());
    if count <= 0 {
        return Err(bad("count must be greater than zero"));
    }
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(bad("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_inf() || high.is_inf() {
        return Err(bad("lower and upper bounds must be finite"));
    }
    let too_big = || Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
    let ascending = match low.cmp(high) {
        Ordering::Equal => return Err(bad("lower bound cannot equal upper bound")),
        Ordering::Less => true,
        Ordering::Greater => false,
    };
    let below = if ascending { operand < low } else { operand > low };
    if below {
        return Ok(0);
    }
    let above = if ascending { operand >= high } else { operand <= high };
    if above {
        return count.checked_add(1).ok_or_else(too_big);
    }
    let offset = operand.sub(low).abs().mul_exact(&GroupedNumeric::from(count));
    let q = offset.div_trunc(&high.sub(low).abs())?;
    let q = q.to_i64().unwrap_or(i64::MAX).min(i64::from(count) - 1);
    i32::try_from(q + 1).map_err(|_| too_big())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factorials() {
        let one_by_one = |n: i64| (2..=n).fold(GroupedNumeric::one(), |p, i| p.mul_exact(&GroupedNumeric::from(i)));
        for n in [0, 1, 2, 5, 6, 25, 100, 1001] {
            assert!(
                factorial(n).is_ok_and(|f| f.digits == one_by_one(n).digits && f.weight == one_by_one(n).weight),
                "{n}!"
            );
        }
    }
}
