//! Numerics of any length: digits in base 10000, a display scale, NaN and infinities.
//!
//! Invariants
//! 1. A finite value is ±Σ digits[i] · 10000^(weight − i); neither end of `digits` is 0, zero has no digits.
//! 2. `dscale` counts the decimals shown; no stored decimal lies beyond it.
//! 3. Equality and order ignore `dscale`.
//!
//! Must not know: that most numerics have another form, but for the way to it and back.

mod arith;
mod long;
mod math;
mod text;
pub(super) use arith::quotient_scale;
pub(super) use math::{factorial, width_bucket};

use super::short::ShortNumeric;
use super::{overflow, typmod_parts};
use kilndb_base::{Error, Result, sqlstate};
use std::cmp::Ordering;

pub(crate) const BASE: i32 = 10000;
pub(crate) const DEC_DIGITS: i32 = 4;
/// Largest display scale of a result.
pub(crate) const MAX_DISPLAY_SCALE: i32 = 1000;
pub(crate) const MIN_SIG_DIGITS: i32 = 16;
pub(crate) const MAX_RESULT_SCALE: i32 = 2000;
/// Bounds of what PostgreSQL can store: 131072 digits before, 16383 after the decimal point.
const MAX_WEIGHT: i32 = 0x7fff;
const MAX_STORED_SCALE: i32 = 0x3fff;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum NumericKind {
    Finite,
    NaN,
    PosInf,
    NegInf,
}

#[derive(Clone, Debug)]
pub struct GroupedNumeric {
    pub(crate) kind: NumericKind,
    pub(crate) negative: bool,
    pub(crate) weight: i32,
    pub(crate) dscale: i32,
    pub(crate) digits: Vec<i16>,
}

#[cold]
pub(crate) fn div_by_zero() -> Error {
    Error::new(sqlstate::DIVISION_BY_ZERO, "division by zero")
}

impl GroupedNumeric {
    pub(crate) fn nan() -> GroupedNumeric {
        GroupedNumeric { kind: NumericKind::NaN, negative: false, weight: 0, dscale: 0, digits: Vec::new() }
    }
    pub fn infinity() -> GroupedNumeric {
        GroupedNumeric { kind: NumericKind::PosInf, ..GroupedNumeric::nan() }
    }
    pub(crate) fn neg_infinity() -> GroupedNumeric {
        GroupedNumeric { kind: NumericKind::NegInf, ..GroupedNumeric::nan() }
    }
    pub fn zero(dscale: i32) -> GroupedNumeric {
        GroupedNumeric { kind: NumericKind::Finite, negative: false, weight: 0, dscale, digits: Vec::new() }
    }
    pub fn one() -> GroupedNumeric {
        GroupedNumeric::from(1i64)
    }
    pub fn is_nan(&self) -> bool {
        self.kind == NumericKind::NaN
    }
    pub(crate) fn is_inf(&self) -> bool {
        matches!(self.kind, NumericKind::PosInf | NumericKind::NegInf)
    }
    pub fn is_finite(&self) -> bool {
        self.kind == NumericKind::Finite
    }
    pub fn is_zero(&self) -> bool {
        self.kind == NumericKind::Finite && self.digits.is_empty()
    }
    /// −1, 0, 1; NaN counts as 1.
    pub(crate) fn signum(&self) -> i32 {
        match self.kind {
            NumericKind::NaN | NumericKind::PosInf => 1,
            NumericKind::NegInf => -1,
            NumericKind::Finite if self.digits.is_empty() => 0,
            NumericKind::Finite if self.negative => -1,
            NumericKind::Finite => 1,
        }
    }
    pub fn neg(&self) -> GroupedNumeric {
        let mut r = self.clone();
        match r.kind {
            NumericKind::PosInf => r.kind = NumericKind::NegInf,
            NumericKind::NegInf => r.kind = NumericKind::PosInf,
            NumericKind::NaN => {}
            NumericKind::Finite => r.negative = !r.negative && !r.digits.is_empty(),
        }
        r
    }
    pub fn abs(&self) -> GroupedNumeric {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// Removes zero digits at both ends.
    pub(crate) fn strip(&mut self) {
        let lead = self.digits.iter().take_while(|d| **d == 0).count();
        if lead > 0 {
            self.digits.drain(..lead);
            self.weight -= lead as i32;
        }
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        if self.digits.is_empty() {
            self.negative = false;
            self.weight = 0;
        }
    }
    pub(crate) fn checked(mut self) -> Result<GroupedNumeric> {
        self.strip();
        self.check().map(|()| self)
    }
    /// 22003 if it has more digits than can be stored.
    pub(super) fn check(&self) -> Result<()> {
        let is_too_long = self.weight > MAX_WEIGHT || self.dscale > MAX_STORED_SCALE;
        if self.kind == NumericKind::Finite && is_too_long { Err(overflow()) } else { Ok(()) }
    }
    pub(super) fn short(&self) -> Option<ShortNumeric> {
        let is_finite = self.kind == NumericKind::Finite;
        is_finite.then(|| ShortNumeric::from_groups(self.negative, self.weight, self.dscale, &self.digits))?
    }
    /// See [`super::Numeric::from_digits`].
    pub(super) fn from_digits(negative: bool, weight: i32, dscale: i32, digits: Vec<i16>) -> Option<GroupedNumeric> {
        if !are_digits(&digits) || dscale > MAX_STORED_SCALE {
            return None;
        }
        let negative = negative && !digits.is_empty();
        Some(GroupedNumeric { kind: NumericKind::Finite, negative, weight, dscale, digits })
    }
    pub(super) fn from_short(number: ShortNumeric) -> GroupedNumeric {
        let groups = number.groups();
        GroupedNumeric {
            kind: NumericKind::Finite,
            negative: number.value() < 0,
            weight: groups.weight,
            dscale: i32::from(number.decimals()),
            digits: groups.groups().to_vec(),
        }
    }

    /// The digit of weight `w`.
    pub(crate) fn digit_at(&self, w: i32) -> i32 {
        let index = i64::from(self.weight) - i64::from(w);
        if index < 0 { 0 } else { self.digits.get(index as usize).map_or(0, |d| i32::from(*d)) }
    }

    /// Rounds half away from zero to `scale` decimals (may be negative) and sets dscale to max(scale, 0).
    pub(crate) fn round_to(&self, scale: i32) -> GroupedNumeric {
        let mut r = self.clone();
        r.round_in_place(scale);
        r
    }
    pub(crate) fn round_in_place(&mut self, scale: i32) {
        if self.kind != NumericKind::Finite {
            return;
        }
        self.cut(scale, true);
    }
    /// Cuts decimals beyond `scale`.
    pub(crate) fn trunc_to(&self, scale: i32) -> GroupedNumeric {
        let mut r = self.clone();
        if r.kind == NumericKind::Finite {
            r.cut(scale, false);
        }
        r
    }
    fn cut(&mut self, scale: i32, round: bool) {
        self.dscale = scale.max(0);
        // Decimal digits kept, counted from the first digit group.
        let keep = i64::from(self.weight + 1) * 4 + i64::from(scale);
        if keep < 0 || (keep == 0 && !round) {
            self.digits.clear();
            self.strip();
            return;
        }
        let groups = (keep / 4) as usize;
        let part = (keep % 4) as u32;
        if groups >= self.digits.len() {
            return;
        }
        let pow = [1, 1000, 100, 10][part as usize];
        let carry = if part == 0 {
            let up = round && i32::from(self.digits[groups]) >= BASE / 2;
            self.digits.truncate(groups);
            up
        } else {
            let d = i32::from(self.digits[groups]);
            let rest = d % pow;
            self.digits.truncate(groups + 1);
            let mut kept = d - rest;
            let mut carry = false;
            if round && rest * 2 >= pow {
                kept += pow;
                if kept >= BASE {
                    kept -= BASE;
                    carry = true;
                }
            }
            self.digits[groups] = kept as i16;
            if carry {
                self.carry_before(groups);
            }
            false
        };
        if carry {
            self.carry_before(groups);
        }
        self.strip();
    }
    /// Adds 1 to the digit before index `at`.
    fn carry_before(&mut self, mut at: usize) {
        loop {
            if at == 0 {
                self.digits.insert(0, 1);
                self.weight += 1;
                return;
            }
            at -= 1;
            if i32::from(self.digits[at]) + 1 < BASE {
                self.digits[at] += 1;
                return;
            }
            self.digits[at] = 0;
        }
    }

    pub(crate) fn ceil(&self) -> GroupedNumeric {
        self.toward(true)
    }
    pub fn floor(&self) -> GroupedNumeric {
        self.toward(false)
    }
    fn toward(&self, up: bool) -> GroupedNumeric {
        if self.kind != NumericKind::Finite {
            return self.clone();
        }
        let t = self.trunc_to(0);
        if t == *self || self.negative == up {
            return t;
        }
        if up { t.add(&GroupedNumeric::one()) } else { t.sub(&GroupedNumeric::one()) }
    }

    /// Applies numeric(p,s); `typmod` as PostgreSQL stores it.
    pub fn apply_typmod(&self, typmod: i32) -> Result<GroupedNumeric> {
        if typmod < 4 {
            return Ok(self.clone());
        }
        let (precision, scale) = typmod_parts(typmod);
        if self.kind != NumericKind::Finite {
            if self.kind == NumericKind::NaN {
                return Ok(self.clone());
            }
            return Err(field_overflow().with_detail(format!(
                "A field with precision {precision}, scale {scale} cannot hold an infinite value."
            )));
        }
        let r = self.round_to(scale);
        let max_digits = precision - scale;
        if r.decimal_weight() >= max_digits && !r.digits.is_empty() {
            let bound = if max_digits != 0 { format!("10^{max_digits}") } else { "1".into() };
            return Err(field_overflow().with_detail(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
            )));
        }
        Ok(r)
    }
    /// The decimal exponent of the first nonzero decimal digit (0 for 1..9); very small for zero.
    pub(crate) fn decimal_weight(&self) -> i32 {
        match self.digits.first() {
            None => i32::MIN / 2,
            Some(&d) => {
                self.weight * 4
                    + (if d >= 1000 {
                        3
                    } else if d >= 100 {
                        2
                    } else if d >= 10 {
                        1
                    } else {
                        0
                    })
            }
        }
    }

    pub(crate) fn min_scale(&self) -> i32 {
        let Some(&last) = self.digits.last() else { return 0 };
        let mut scale = (self.digits.len() as i32 - 1 - self.weight) * DEC_DIGITS;
        if scale <= 0 {
            return 0;
        }
        let mut last = last;
        while last % 10 == 0 {
            scale -= 1;
            last /= 10;
        }
        scale.max(0)
    }
    pub(crate) fn trim_scale(&self) -> GroupedNumeric {
        let mut r = self.clone();
        r.dscale = r.min_scale();
        r
    }
    pub(crate) fn is_integral(&self) -> bool {
        self.is_finite() && self.digits.len() as i32 <= self.weight + 1 || self.is_zero()
    }

    pub(crate) fn to_i128(&self) -> Option<i128> {
        if self.kind != NumericKind::Finite {
            return None;
        }
        if self.is_integral() && self.weight < 4 {
            let digits = (0..=self.weight).map(|i| i64::from(self.digits.get(i as usize).copied().unwrap_or(0)));
            let v = digits.fold(0i64, |v, digit| v * i64::from(BASE) + digit);
            return Some(i128::from(if self.negative { -v } else { v }));
        }
        let r = self.round_to(0);
        let mut v = 0i128;
        for w in (0..=r.weight).rev() {
            v = v.checked_mul(i128::from(BASE))?.checked_add(i128::from(r.digit_at(w)))?;
            if r.digits.is_empty() {
                break;
            }
        }
        Some(if r.negative { -v } else { v })
    }
    pub(crate) fn to_i64(&self) -> Option<i64> {
        i64::try_from(self.to_i128()?).ok()
    }
    pub fn to_f64(&self) -> f64 {
        match self.kind {
            NumericKind::NaN => f64::NAN,
            NumericKind::PosInf => f64::INFINITY,
            NumericKind::NegInf => f64::NEG_INFINITY,
            NumericKind::Finite => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }
    pub(crate) fn to_f32(&self) -> f32 {
        match self.kind {
            NumericKind::Finite => self.to_string().parse().unwrap_or(f32::NAN),
            _ => self.to_f64() as f32,
        }
    }
    /// The number that a cast makes of a double: 15 significant digits.
    pub(crate) fn from_f64(v: f64) -> GroupedNumeric {
        GroupedNumeric::from_float(v, 15)
    }
    /// The number that a cast makes of a real: 6 significant digits.
    pub(crate) fn from_f32(v: f32) -> GroupedNumeric {
        GroupedNumeric::from_float(f64::from(v), 6)
    }
    fn from_float(v: f64, digits: usize) -> GroupedNumeric {
        if v.is_nan() {
            return GroupedNumeric::nan();
        }
        if v.is_infinite() {
            return if v > 0.0 { GroupedNumeric::infinity() } else { GroupedNumeric::neg_infinity() };
        }
        GroupedNumeric::parse(&crate::io::float::general(v, digits)).unwrap_or_else(|_| GroupedNumeric::nan())
    }
    /// `value / 10^scale`, exactly, shown with `scale` decimals.
    pub(crate) fn from_scaled(value: i128, scale: i32) -> GroupedNumeric {
        let mut n = GroupedNumeric::from(value);
        if scale > 0 {
            n = n.scale_by_power_of_ten(-scale);
        }
        n.dscale = scale;
        n
    }
    /// Exact multiplication by 10^power; dscale is left to the caller.
    pub(crate) fn scale_by_power_of_ten(&self, power: i32) -> GroupedNumeric {
        let mut r = self.clone();
        let groups = power.div_euclid(4);
        let part = power.rem_euclid(4);
        if part != 0 && !r.digits.is_empty() {
            let f = [1, 10, 100, 1000][part as usize];
            let mut carry = 0;
            for d in r.digits.iter_mut().rev() {
                let v = i32::from(*d) * f + carry;
                *d = (v % BASE) as i16;
                carry = v / BASE;
            }
            if carry != 0 {
                r.digits.insert(0, carry as i16);
                r.weight += 1;
            }
        }
        r.weight += groups;
        r.strip();
        r
    }
}

/// Are these digits in base 10000, without a zero at either end?
pub(super) fn are_digits(digits: &[i16]) -> bool {
    digits.iter().all(|digit| (0..10_000).contains(digit)) && digits.first() != Some(&0) && digits.last() != Some(&0)
}

#[cold]
fn field_overflow() -> Error {
    Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
}

impl From<i64> for GroupedNumeric {
    fn from(v: i64) -> GroupedNumeric {
        GroupedNumeric::from(i128::from(v))
    }
}
impl From<i32> for GroupedNumeric {
    fn from(v: i32) -> GroupedNumeric {
        GroupedNumeric::from(i128::from(v))
    }
}
impl From<i128> for GroupedNumeric {
    fn from(v: i128) -> GroupedNumeric {
        let mut digits = Vec::with_capacity(5);
        let mut rest = v.unsigned_abs();
        while rest > u128::from(u64::MAX) {
            digits.push((rest % 10000) as i16);
            rest /= 10000;
        }
        // Much faster.
        let mut rest = rest as u64;
        while rest > 0 {
            digits.push((rest % 10000) as i16);
            rest /= 10000;
        }
        digits.reverse();
        let mut n = GroupedNumeric {
            kind: NumericKind::Finite,
            negative: v < 0,
            weight: digits.len() as i32 - 1,
            dscale: 0,
            digits,
        };
        n.strip();
        n
    }
}

impl PartialEq for GroupedNumeric {
    fn eq(&self, other: &GroupedNumeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl PartialOrd for GroupedNumeric {
    fn partial_cmp(&self, other: &GroupedNumeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Eq for GroupedNumeric {}
impl Ord for GroupedNumeric {
    /// NaN is greatest and equals itself.
    fn cmp(&self, other: &GroupedNumeric) -> Ordering {
        let rank = |n: &GroupedNumeric| match n.kind {
            NumericKind::NegInf => 0,
            NumericKind::Finite => 1,
            NumericKind::PosInf => 2,
            NumericKind::NaN => 3,
        };
        match rank(self).cmp(&rank(other)) {
            Ordering::Equal if self.kind == NumericKind::Finite => {}
            other => return other,
        }
        match self.signum().cmp(&other.signum()) {
            Ordering::Equal => {}
            other => return other,
        }
        let magnitude = self.cmp_abs(other);
        if self.negative { magnitude.reverse() } else { magnitude }
    }
}
impl GroupedNumeric {
    pub(crate) fn cmp_abs(&self, other: &GroupedNumeric) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            _ => {}
        }
        self.weight.cmp(&other.weight).then_with(|| self.digits.cmp(&other.digits))
    }
}
