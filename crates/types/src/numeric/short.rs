//! Numbers of 64 bits with a decimal point in them: what nearly all numerics are, computed without an allocation.
//!
//! Each function returns None where the result is no short number, or would take more than is worth doing here: then the
//! caller computes with groups of digits.
//!
//! Must not know: NaN, infinities, and what a long result looks like.

use crate::io::digits;
use std::cmp::Ordering;
use std::num::NonZeroU8;
use std::ops::{Div, Rem};

/// The most decimals of a short number.
pub(super) const DECIMALS_MAX: i32 = 18;
/// The most groups of four decimals in one.
pub(super) const GROUPS_MAX: usize = 6;

const POWERS: [i64; DECIMALS_MAX as usize + 1] = {
    let mut powers = [1; DECIMALS_MAX as usize + 1];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

fn power(exponent: i32) -> Option<i64> {
    POWERS.get(usize::try_from(exponent).ok()?).copied()
}

/// None if there is a rest.
fn exact_quotient<N: Copy + Div<Output = N> + Rem<Output = N> + Default + PartialEq>(whole: N, power: N) -> Option<N> {
    (whole % power == N::default()).then(|| whole / power)
}

/// `value / 10^decimals`, shown with that many decimals. `value` is not `i64::MIN`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortNumeric {
    value: i64,
    /// One more than the decimals, so that there is a value to tell [`super::Numeric`]'s forms apart by.
    above_decimals: NonZeroU8,
}

/// The base-10000 digits of a short number, which take no memory of their own.
#[derive(Clone, Copy)]
pub(crate) struct ShortGroups {
    pub weight: i32,
    groups: [i16; GROUPS_MAX],
    from: u8,
    to: u8,
}
impl ShortGroups {
    pub fn groups(&self) -> &[i16] {
        &self.groups[usize::from(self.from)..usize::from(self.to)]
    }
}

impl ShortNumeric {
    /// `decimals` is at most [`DECIMALS_MAX`], and `value` not `i64::MIN`.
    pub(crate) const fn at(value: i64, decimals: u8) -> ShortNumeric {
        ShortNumeric { value, above_decimals: NonZeroU8::MIN.saturating_add(decimals) }
    }
    #[inline]
    pub fn value(self) -> i64 {
        self.value
    }
    #[inline]
    pub fn decimals(self) -> u8 {
        self.above_decimals.get() - 1
    }
    pub(super) fn new(value: i128, decimals: i32) -> Option<ShortNumeric> {
        if !(0..=DECIMALS_MAX).contains(&decimals) {
            return None;
        }
        let value = i64::try_from(value).ok().filter(|value| *value != i64::MIN)?;
        Some(ShortNumeric::at(value, decimals as u8))
    }
    fn of(value: Option<i64>, decimals: u8) -> Option<ShortNumeric> {
        value.filter(|value| *value != i64::MIN).map(|value| ShortNumeric::at(value, decimals))
    }
    /// Decimals as they are shown, of at most [`DECIMALS_MAX`] digits; None also for all that is written otherwise.
    pub(super) fn parse(text: &[u8]) -> Option<ShortNumeric> {
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        if digits.len() > DECIMALS_MAX as usize + 1 {
            return None;
        }
        let (mut value, mut point) = (0u64, None);
        for (at, byte) in digits.iter().enumerate() {
            match byte {
                b'0'..=b'9' => value = value * 10 + u64::from(byte - b'0'),
                b'.' if point.is_none() && at > 0 => point = Some(at),
                _ => return None,
            }
        }
        let decimals = point.map_or(0, |at| digits.len() - at - 1);
        let has_all_digits = !digits.is_empty() && (point.is_none() || decimals > 0);
        let fits = digits.len() - usize::from(point.is_some()) <= DECIMALS_MAX as usize;
        if !has_all_digits || !fits {
            return None;
        }
        let value = value as i64;
        Some(ShortNumeric::at(if negative { -value } else { value }, decimals as u8))
    }
    /// From digits in base 10000: the first one has the weight `weight`.
    pub(super) fn from_groups(negative: bool, weight: i32, decimals: i32, groups: &[i16]) -> Option<ShortNumeric> {
        if groups.len() > GROUPS_MAX || !(-(DECIMALS_MAX / 4 + 1)..GROUPS_MAX as i32).contains(&weight) {
            return None;
        }
        let excess = decimals - 4 * (groups.len() as i32 - 1 - weight);
        if groups.is_empty() {
            return ShortNumeric::new(0, decimals);
        }
        // Four groups fit in 64 bits, which are much quicker to divide than 128.
        let value = if groups.len() <= 4 {
            let whole = groups.iter().fold(0i64, |whole, group| whole * 10_000 + i64::from(*group));
            match excess {
                0.. => i128::from(whole).checked_mul(i128::from(power(excess)?))?,
                _ => i128::from(exact_quotient(whole, power(-excess)?)?),
            }
        } else {
            let whole = groups.iter().fold(0i128, |whole, group| whole * 10_000 + i128::from(*group));
            match excess {
                0.. => whole.checked_mul(i128::from(power(excess)?))?,
                _ => exact_quotient(whole, i128::from(power(-excess)?))?,
            }
        };
        ShortNumeric::new(if negative { -value } else { value }, decimals)
    }
    /// The same of at most four digits, which may be any numbers of 16 bits.
    #[inline(always)]
    pub(super) fn from_few_groups(
        negative: bool,
        weight: i32,
        decimals: i32,
        groups: impl ExactSizeIterator<Item = u16>,
    ) -> Option<ShortNumeric> {
        let count = groups.len();
        if count > 4 || decimals > DECIMALS_MAX {
            return None;
        }
        let (mut whole, mut are_digits) = (0i64, true);
        for (at, group) in groups.enumerate() {
            are_digits &= group < 10_000 && (group != 0 || (at > 0 && at + 1 < count));
            whole = whole * 10_000 + i64::from(group);
        }
        if !are_digits {
            return None;
        }
        // Divisions by constants are much quicker.
        let value = match decimals - 4 * (count as i32 - 1 - weight) {
            _ if count == 0 => 0,
            0 => whole,
            -1 => exact_quotient(whole, 10)?,
            -2 => exact_quotient(whole, 100)?,
            -3 => exact_quotient(whole, 1000)?,
            excess => whole.checked_mul(power(excess)?)?,
        };
        Some(ShortNumeric::at(if negative { -value } else { value }, decimals as u8))
    }
    /// With the modifier of numeric(p, s) applied; None: it has too many digits for it, too.
    #[inline]
    pub(super) fn within(self, typmod: i32) -> Option<ShortNumeric> {
        if typmod < 4 {
            return Some(self);
        }
        let (precision, scale) = super::typmod_parts(typmod);
        let rounded = if i32::from(self.decimals()) == scale { self } else { self.with_scale(scale, true)? };
        rounded.is_below_power(precision - scale).then_some(rounded)
    }
    pub(crate) fn groups(self) -> ShortGroups {
        let decimals = i32::from(self.decimals());
        let padding = (4 - decimals % 4) % 4;
        let behind = (decimals + padding) / 4;
        let magnitude = self.value.unsigned_abs();
        let scale = POWERS[padding as usize] as u64;
        let mut groups = [0; GROUPS_MAX];
        let mut from = GROUPS_MAX;
        let mut push = |group: u64| {
            from -= 1;
            groups[from] = group as i16;
        };
        match magnitude.checked_mul(scale) {
            Some(mut left) => {
                while left > 0 {
                    push(left % 10_000);
                    left /= 10_000;
                }
            }
            None => {
                let mut left = u128::from(magnitude) * u128::from(scale);
                while left > 0 {
                    push((left % 10_000) as u64);
                    left /= 10_000;
                }
            }
        }
        let mut to = GROUPS_MAX;
        while to > from && groups[to - 1] == 0 {
            to -= 1;
        }
        let weight = if from == to { 0 } else { (GROUPS_MAX - from) as i32 - 1 - behind };
        ShortGroups { weight, groups, from: from as u8, to: to as u8 }
    }

    /// Both with as many decimals as the one that has more.
    fn aligned(self, other: ShortNumeric) -> Option<(i64, i64, u8)> {
        let more = i32::from(self.decimals()) - i32::from(other.decimals());
        Some(match more.cmp(&0) {
            Ordering::Equal => (self.value, other.value, self.decimals()),
            Ordering::Greater => (self.value, other.value.checked_mul(power(more)?)?, self.decimals()),
            Ordering::Less => (self.value.checked_mul(power(-more)?)?, other.value, other.decimals()),
        })
    }
    pub(super) fn add(self, other: ShortNumeric) -> Option<ShortNumeric> {
        let (a, b, decimals) = self.aligned(other)?;
        ShortNumeric::of(a.checked_add(b), decimals)
    }
    pub(super) fn sub(self, other: ShortNumeric) -> Option<ShortNumeric> {
        let (a, b, decimals) = self.aligned(other)?;
        ShortNumeric::of(a.checked_sub(b), decimals)
    }
    pub(super) fn mul(self, other: ShortNumeric) -> Option<ShortNumeric> {
        let decimals = self.decimals() + other.decimals();
        if i32::from(decimals) > DECIMALS_MAX {
            return None;
        }
        ShortNumeric::of(self.value.checked_mul(other.value), decimals)
    }
    /// The quotient with `decimals` decimals, not less than this number's, rounded half away from zero, as an integer.
    pub(super) fn quotient(self, other: ShortNumeric, decimals: i32) -> Option<i128> {
        let exponent = decimals + i32::from(other.decimals()) - i32::from(self.decimals());
        // Divisions of 64 bits are several times quicker.
        if let Some(dividend) = power(exponent).and_then(|power| self.value.checked_mul(power)) {
            let whole = dividend.checked_div(other.value)?;
            let rest = dividend - whole * other.value;
            let away = i128::from(rest.unsigned_abs() >= other.value.unsigned_abs() - rest.unsigned_abs());
            let is_negative = (dividend < 0) != (other.value < 0);
            return Some(i128::from(whole) + if is_negative { -away } else { away });
        }
        let dividend = i128::from(self.value).checked_mul(10i128.checked_pow(u32::try_from(exponent).ok()?)?)?;
        let divisor = i128::from(other.value);
        let whole = dividend.checked_div(divisor)?;
        let rest = dividend - whole * divisor;
        let away = i128::from(rest.unsigned_abs() * 2 >= divisor.unsigned_abs());
        Some(if (dividend < 0) == (divisor < 0) { whole + away } else { whole - away })
    }
    /// The first digit in base 10000 and its weight, weight first; zeros of zero.
    pub(super) fn first_group(self) -> (i32, i32) {
        let magnitude = self.value.unsigned_abs();
        let Some(last) = magnitude.checked_ilog10() else { return (0, 0) };
        let decimals = i32::from(self.decimals());
        let weight = (last as i32 - decimals).div_euclid(4);
        let group = match 4 * weight + decimals {
            exponent @ 0.. => magnitude / POWERS[exponent as usize] as u64,
            exponent => magnitude * POWERS[-exponent as usize] as u64,
        };
        (weight, group as i32)
    }
    /// The remainder of the truncated quotient.
    pub(super) fn rem(self, other: ShortNumeric) -> Option<ShortNumeric> {
        let (a, b, decimals) = self.aligned(other)?;
        ShortNumeric::of(a.checked_rem(b), decimals)
    }
    pub(super) fn neg(self) -> ShortNumeric {
        ShortNumeric { value: -self.value, ..self }
    }
    pub(super) fn cmp(self, other: ShortNumeric) -> Ordering {
        if self.decimals() == other.decimals() {
            return self.value.cmp(&other.value);
        }
        let wide = |number: ShortNumeric, with: ShortNumeric| {
            i128::from(number.value) * i128::from(POWERS[usize::from(with.decimals())])
        };
        wide(self, other).cmp(&wide(other, self))
    }
    /// With `scale` decimals, which may be negative: rounded half away from zero, or cut.
    pub(super) fn with_scale(self, scale: i32, is_rounded: bool) -> Option<ShortNumeric> {
        let fewer = i32::from(self.decimals()).checked_sub(scale).filter(|_| scale <= DECIMALS_MAX)?;
        let value = if fewer <= 0 {
            self.value.checked_mul(power(-fewer)?)?
        } else {
            let power = power(fewer)?;
            let away = i64::from(is_rounded && (self.value % power).abs() * 2 >= power);
            self.value / power + away * self.value.signum()
        };
        let zeros = power((-scale).max(0))?;
        ShortNumeric::of(value.checked_mul(zeros), u8::try_from(scale.max(0)).ok()?)
    }
    /// The largest integer that is not greater, or the smallest that is not less.
    pub(super) fn whole(self, up: bool) -> ShortNumeric {
        let power = POWERS[usize::from(self.decimals())];
        let floor = self.value.div_euclid(power);
        let above = i64::from(up && !self.is_integral());
        ShortNumeric::at(floor + above, 0)
    }
    pub(super) fn is_integral(self) -> bool {
        self.value % POWERS[usize::from(self.decimals())] == 0
    }
    /// Is the magnitude less than `10^exponent`?
    pub(super) fn is_below_power(self, exponent: i32) -> bool {
        power(exponent + i32::from(self.decimals())).is_none_or(|bound| self.value.abs() < bound)
    }
    /// Without zeros at the end of its decimals.
    pub(super) fn trimmed(self) -> ShortNumeric {
        let (mut value, mut decimals) = (self.value, self.decimals());
        while decimals > 0 && value % 10 == 0 {
            value /= 10;
            decimals -= 1;
        }
        ShortNumeric::at(value, decimals)
    }
    /// The nearest double, if one division of exact doubles gives it.
    pub(super) fn to_f64(self) -> Option<f64> {
        let is_exact = self.value.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS;
        is_exact.then(|| self.value as f64 / POWERS[usize::from(self.decimals())] as f64)
    }
    /// Writes the number as it is shown, and returns what was written.
    pub(crate) fn show(self, out: &mut [u8; 32]) -> &str {
        let (decimals, magnitude) = (usize::from(self.decimals()), self.value.unsigned_abs());
        let (mut at, mut whole) = (out.len(), magnitude);
        if decimals > 0 {
            let power = POWERS[decimals] as u64;
            whole = magnitude / power;
            at = digits::write_padded_before(out, at, magnitude % power, decimals) - 1;
            out[at] = b'.';
        }
        at = digits::write_before(out, at, whole);
        if self.value < 0 {
            at -= 1;
            out[at] = b'-';
        }
        std::str::from_utf8(&out[at..]).unwrap_or_default()
    }
}
