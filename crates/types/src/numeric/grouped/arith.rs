//! The four operations, modulo, division by integers.

use super::*;

impl GroupedNumeric {
    pub fn add(&self, other: &GroupedNumeric) -> GroupedNumeric {
        self.add_signed(other, false)
    }
    pub fn sub(&self, other: &GroupedNumeric) -> GroupedNumeric {
        self.add_signed(other, true)
    }
    fn add_signed(&self, other: &GroupedNumeric, minus: bool) -> GroupedNumeric {
        if self.kind != NumericKind::Finite || other.kind != NumericKind::Finite {
            let other = if minus { other.neg() } else { other.clone() };
            return match (self.kind, other.kind) {
                (NumericKind::NaN, _) | (_, NumericKind::NaN) => GroupedNumeric::nan(),
                (NumericKind::PosInf, NumericKind::NegInf) | (NumericKind::NegInf, NumericKind::PosInf) => {
                    GroupedNumeric::nan()
                }
                (NumericKind::Finite, _) => other,
                _ => self.clone(),
            };
        }
        let dscale = self.dscale.max(other.dscale);
        let other_negative = other.negative != minus;
        let mut r = if self.negative == other_negative {
            let mut r = add_abs(self, other);
            r.negative = self.negative;
            r
        } else {
            match self.cmp_abs(other) {
                Ordering::Equal => GroupedNumeric::zero(dscale),
                Ordering::Greater => {
                    let mut r = sub_abs(self, other);
                    r.negative = self.negative;
                    r
                }
                Ordering::Less => {
                    let mut r = sub_abs(other, self);
                    r.negative = other_negative;
                    r
                }
            }
        };
        r.dscale = dscale;
        r.strip();
        r
    }

    /// The product; rounded when its scale passes what can be stored.
    pub(crate) fn mul(&self, other: &GroupedNumeric) -> GroupedNumeric {
        if self.kind != NumericKind::Finite || other.kind != NumericKind::Finite {
            if self.is_nan() || other.is_nan() || self.signum() * other.signum() == 0 {
                return GroupedNumeric::nan();
            }
            return if self.signum() == other.signum() {
                GroupedNumeric::infinity()
            } else {
                GroupedNumeric::neg_infinity()
            };
        }
        let mut r = self.mul_exact(other);
        if r.dscale > MAX_STORED_SCALE {
            r.round_in_place(MAX_STORED_SCALE);
        }
        r
    }
    pub(crate) fn mul_exact(&self, other: &GroupedNumeric) -> GroupedNumeric {
        let dscale = self.dscale + other.dscale;
        if self.digits.is_empty() || other.digits.is_empty() {
            return GroupedNumeric::zero(dscale);
        }
        let short = self.digits.len().min(other.digits.len());
        let digits = if short < long::MUL_THRESHOLD_GROUPS {
            schoolbook_product(&self.digits, &other.digits)
        } else {
            long::mul_groups(&self.digits, &other.digits)
        };
        let mut r = GroupedNumeric {
            kind: NumericKind::Finite,
            negative: self.negative != other.negative,
            weight: self.weight + other.weight + 1,
            dscale,
            digits,
        };
        r.strip();
        r
    }

    /// See [`quotient_scale`].
    fn select_div_scale(&self, other: &GroupedNumeric) -> i32 {
        let first = |n: &GroupedNumeric| n.digits.first().map_or((0, 0), |d| (n.weight, i32::from(*d)));
        quotient_scale(first(self), first(other), self.dscale.max(other.dscale))
    }
    pub(crate) fn div(&self, other: &GroupedNumeric) -> Result<GroupedNumeric> {
        if self.kind != NumericKind::Finite || other.kind != NumericKind::Finite {
            return self.div_special(other);
        }
        if other.digits.is_empty() {
            return Err(div_by_zero());
        }
        self.div_scale(other, self.select_div_scale(other), true).checked()
    }
    fn div_special(&self, other: &GroupedNumeric) -> Result<GroupedNumeric> {
        if self.is_nan() || other.is_nan() {
            return Ok(GroupedNumeric::nan());
        }
        if self.is_inf() {
            if other.is_inf() {
                return Ok(GroupedNumeric::nan());
            }
            return match other.signum() {
                0 => Err(div_by_zero()),
                s if s == self.signum() => Ok(GroupedNumeric::infinity()),
                _ => Ok(GroupedNumeric::neg_infinity()),
            };
        }
        Ok(GroupedNumeric::zero(0))
    }
    /// Truncating integer quotient, `div(a, b)`.
    pub(crate) fn div_trunc(&self, other: &GroupedNumeric) -> Result<GroupedNumeric> {
        if self.kind != NumericKind::Finite || other.kind != NumericKind::Finite {
            return self.div_special(other);
        }
        if other.digits.is_empty() {
            return Err(div_by_zero());
        }
        Ok(self.div_scale(other, 0, false))
    }
    pub(crate) fn rem(&self, other: &GroupedNumeric) -> Result<GroupedNumeric> {
        if self.is_nan() || other.is_nan() {
            return Ok(GroupedNumeric::nan());
        }
        if self.is_inf() {
            return if other.is_zero() { Err(div_by_zero()) } else { Ok(GroupedNumeric::nan()) };
        }
        if other.is_inf() {
            return Ok(self.clone());
        }
        if other.digits.is_empty() {
            return Err(div_by_zero());
        }
        let q = self.div_scale(other, 0, false);
        let mut r = self.sub(&q.mul_exact(other));
        r.dscale = self.dscale.max(other.dscale);
        Ok(r)
    }

    /// Quotient of finite values with `scale` decimals, rounded or truncated. The divisor is not zero.
    pub(crate) fn div_scale(&self, other: &GroupedNumeric, scale: i32, round: bool) -> GroupedNumeric {
        if self.digits.is_empty() {
            return GroupedNumeric::zero(scale.max(0));
        }
        // One decimal more than asked decides the rounding (half up needs no sticky digit).
        let want = scale + 1;
        let frac_groups = want.div_euclid(4) + 1;
        let top = self.weight - other.weight;
        let qdigits = top + 1 + frac_groups;
        if qdigits <= 0 {
            return GroupedNumeric::zero(scale.max(0));
        }
        let qdigits = qdigits as usize;
        let digits = if qdigits.min(other.digits.len()) < long::DIV_THRESHOLD_GROUPS {
            long_division(&self.digits, &other.digits, qdigits)
        } else {
            long::div_groups(&self.digits, &other.digits, qdigits)
        };
        let mut r = GroupedNumeric {
            kind: NumericKind::Finite,
            negative: self.negative != other.negative,
            weight: top,
            dscale: scale.max(0),
            digits,
        };
        r.strip();
        if round {
            r.round_in_place(scale)
        } else {
            r = r.trunc_to(scale)
        }
        r
    }
}

/// The scale of a quotient of numbers, of which weights and first digits are given: at least 16 significant digits, and no
/// less than `shown`.
pub(in crate::numeric) fn quotient_scale(dividend: (i32, i32), divisor: (i32, i32), shown: i32) -> i32 {
    let smaller = i32::from(dividend.1 <= divisor.1);
    let weight = dividend.0 - divisor.0 - smaller;
    (MIN_SIG_DIGITS - weight * DEC_DIGITS).max(shown).clamp(0, MAX_DISPLAY_SCALE)
}

fn add_abs(a: &GroupedNumeric, b: &GroupedNumeric) -> GroupedNumeric {
    let (low, high) = span(a, b);
    let mut digits = vec![0i16; (high - low + 2) as usize];
    let mut carry = 0;
    for (i, w) in (low..=high).enumerate() {
        let v = a.digit_at(w) + b.digit_at(w) + carry;
        carry = i32::from(v >= BASE);
        let at = digits.len() - 1 - i;
        digits[at] = (v - carry * BASE) as i16;
    }
    digits[0] = carry as i16;
    GroupedNumeric { kind: NumericKind::Finite, negative: false, weight: high + 1, dscale: 0, digits }
}
/// |a| − |b|, |a| ≥ |b|.
fn sub_abs(a: &GroupedNumeric, b: &GroupedNumeric) -> GroupedNumeric {
    let (low, high) = span(a, b);
    let mut digits = vec![0i16; (high - low + 1) as usize];
    let mut borrow = 0;
    for (i, w) in (low..=high).enumerate() {
        let v = a.digit_at(w) - b.digit_at(w) - borrow;
        borrow = i32::from(v < 0);
        let at = digits.len() - 1 - i;
        digits[at] = (v + borrow * BASE) as i16;
    }
    GroupedNumeric { kind: NumericKind::Finite, negative: false, weight: high, dscale: 0, digits }
}
/// Lowest and highest digit weight of two values (at least one digit).
fn span(a: &GroupedNumeric, b: &GroupedNumeric) -> (i32, i32) {
    let low = |n: &GroupedNumeric| n.weight - n.digits.len() as i32 + 1;
    match (a.digits.is_empty(), b.digits.is_empty()) {
        (true, true) => (0, 0),
        (true, false) => (low(b), b.weight),
        (false, true) => (low(a), a.weight),
        _ => (low(a).min(low(b)), a.weight.max(b.weight)),
    }
}

/// The product of two factors, with as many groups as both have.
pub(super) fn schoolbook_product(a: &[i16], b: &[i16]) -> Vec<i16> {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let n = short.len() + long.len();
    let mut acc = vec![0u64; n];
    for (i, &a) in short.iter().enumerate() {
        let a = a as u64;
        for (slot, &b) in acc[i + 1..].iter_mut().zip(long) {
            *slot += a * b as u64;
        }
    }
    let mut digits = vec![0i16; n];
    let mut carry = 0u64;
    for (d, v) in digits.iter_mut().zip(&acc).rev() {
        let v = v + carry;
        *d = (v % 10000) as i16;
        carry = v / 10000;
    }
    digits
}

/// Schoolbook division (Knuth's algorithm D) of digit strings read as fractions of equal weight:
/// the first `count` quotient digits, truncated.
pub(super) fn long_division(num: &[i16], den: &[i16], count: usize) -> Vec<i16> {
    let mut q = vec![0i16; count];
    if den.len() == 1 {
        let d = i64::from(den[0]);
        let mut rem = 0i64;
        for (i, slot) in q.iter_mut().enumerate() {
            let v = rem * 10000 + num.get(i).map_or(0, |x| i64::from(*x));
            *slot = (v / d) as i16;
            rem = v % d;
        }
        return q;
    }
    let norm = 10000 / (i64::from(den[0]) + 1);
    let scale = |src: &[i16], len: usize| -> Vec<i64> {
        let mut out = vec![0i64; len + 1];
        let mut carry = 0;
        for i in (0..len).rev() {
            let v = src.get(i).map_or(0, |x| i64::from(*x)) * norm + carry;
            out[i + 1] = v % 10000;
            carry = v / 10000;
        }
        out[0] = carry;
        out
    };
    let n = den.len();
    let b = &scale(den, n)[1..];
    let mut a = scale(num, num.len().max(count + n));
    for j in 0..count {
        let head = a[j] * 10000 + a[j + 1];
        let mut guess = head / b[0];
        let mut rem = head % b[0];
        while guess >= 10000 || guess * b[1] > rem * 10000 + a[j + 2] {
            guess -= 1;
            rem += b[0];
            if rem >= 10000 {
                break;
            }
        }
        if guess > 0 {
            let mut borrow = 0i64;
            for i in (0..n).rev() {
                let v = a[j + 1 + i] - guess * b[i] - borrow;
                let low = v.rem_euclid(10000);
                borrow = (low - v) / 10000;
                a[j + 1 + i] = low;
            }
            let top = a[j] - borrow;
            a[j] = 0;
            if top < 0 {
                guess -= 1;
                let mut carry = 0;
                for i in (0..n).rev() {
                    let v = a[j + 1 + i] + b[i] + carry;
                    a[j + 1 + i] = v % 10000;
                    carry = v / 10000;
                }
            }
        }
        q[j] = guess as i16;
    }
    q
}
