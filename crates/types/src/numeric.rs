//! NUMERIC with PostgreSQL's semantics: arbitrary precision, a display scale, NaN and infinities.
//!
//! Invariants
//! 1. A value that fits a [`ShortNumeric`] is one, with its display scale as the number of decimals; all others are
//!    [`GroupedNumeric`]s. So there is one form for each value and display scale.
//! 2. Equality, order and hashes ignore the display scale.
//!
//! Must not know: SQL NULL, types' modifiers beyond numeric(p, s).

mod grouped;
mod short;
#[cfg(test)]
mod tests;

pub use grouped::GroupedNumeric;
pub(crate) use grouped::NumericKind;
pub use short::ShortNumeric;
/// The most decimals of a short number.
pub(crate) const SHORT_DECIMALS_MAX: u8 = short::DECIMALS_MAX as u8;

use kilndb_base::{Error, Result, sqlstate};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Numeric {
    Short(ShortNumeric),
    Grouped(Arc<GroupedNumeric>),
}
use Numeric::{Grouped, Short};

const _: () = assert!(size_of::<Numeric>() == 16);

/// The digits of a number in base 10000: ± Σ digits[i] · 10000^(weight − i), without zeros at either end.
pub struct NumericDigits<'a> {
    pub is_negative: bool,
    pub weight: i32,
    digits: DigitsOf<'a>,
}
enum DigitsOf<'a> {
    Short(short::ShortGroups),
    Grouped(&'a [i16]),
}
impl NumericDigits<'_> {
    pub fn digits(&self) -> &[i16] {
        match &self.digits {
            DigitsOf::Short(groups) => groups.groups(),
            DigitsOf::Grouped(digits) => digits,
        }
    }
}

impl From<GroupedNumeric> for Numeric {
    fn from(number: GroupedNumeric) -> Numeric {
        match number.short() {
            Some(short) => Short(short),
            None => Grouped(Arc::new(number)),
        }
    }
}
impl From<i64> for Numeric {
    fn from(v: i64) -> Numeric {
        Numeric::from(i128::from(v))
    }
}
impl From<i32> for Numeric {
    fn from(v: i32) -> Numeric {
        Short(ShortNumeric::at(i64::from(v), 0))
    }
}
impl From<i128> for Numeric {
    fn from(v: i128) -> Numeric {
        Numeric::from_scaled(v, 0)
    }
}

/// What is made of one number or two, short or not.
impl Numeric {
    fn grouped(&self) -> Cow<'_, GroupedNumeric> {
        match self {
            Short(number) => Cow::Owned(GroupedNumeric::from_short(*number)),
            Grouped(number) => Cow::Borrowed(number),
        }
    }
    fn either(
        &self,
        other: &Numeric,
        short: impl FnOnce(ShortNumeric, ShortNumeric) -> Option<ShortNumeric>,
        grouped: impl FnOnce(&GroupedNumeric, &GroupedNumeric) -> GroupedNumeric,
    ) -> Numeric {
        if let (Short(a), Short(b)) = (self, other)
            && let Some(result) = short(*a, *b)
        {
            return Short(result);
        }
        grouped(&self.grouped(), &other.grouped()).into()
    }
    pub fn add(&self, other: &Numeric) -> Numeric {
        self.either(other, ShortNumeric::add, GroupedNumeric::add)
    }
    pub fn sub(&self, other: &Numeric) -> Numeric {
        self.either(other, ShortNumeric::sub, GroupedNumeric::sub)
    }
    /// The product; rounded when its scale passes what can be stored.
    pub(crate) fn mul(&self, other: &Numeric) -> Numeric {
        self.either(other, ShortNumeric::mul, GroupedNumeric::mul)
    }
    pub(crate) fn rem(&self, other: &Numeric) -> Result<Numeric> {
        if let (Short(a), Short(b)) = (self, other)
            && let Some(rest) = a.rem(*b)
        {
            return Ok(Short(rest));
        }
        Ok(self.grouped().rem(&other.grouped())?.into())
    }
    pub(crate) fn div(&self, other: &Numeric) -> Result<Numeric> {
        if let (Short(a), Short(b)) = (self, other) {
            let scale = self.select_div_scale(other);
            if let Some(quotient) = a.quotient(*b, scale) {
                return Ok(Numeric::from_scaled(quotient, scale));
            }
        }
        Ok(self.grouped().div(&other.grouped())?.into())
    }
    /// The scale of a quotient: at least 16 significant digits, and no less than either input shows.
    pub(crate) fn select_div_scale(&self, other: &Numeric) -> i32 {
        let first = |n: &Numeric| {
            if let Short(number) = n {
                return number.first_group();
            }
            let digits = n.digits();
            digits.digits().first().map_or((0, 0), |d| (digits.weight, i32::from(*d)))
        };
        grouped::quotient_scale(first(self), first(other), self.dscale().max(other.dscale()))
    }
    /// Quotient of finite values with `scale` decimals, rounded or truncated. The divisor is not zero.
    pub(crate) fn div_scale(&self, other: &Numeric, scale: i32, round: bool) -> Numeric {
        self.grouped().div_scale(&other.grouped(), scale, round).into()
    }
    /// Truncating integer quotient, `div(a, b)`.
    pub(crate) fn div_trunc(&self, other: &Numeric) -> Result<Numeric> {
        Ok(self.grouped().div_trunc(&other.grouped())?.into())
    }
    pub fn sqrt(&self) -> Result<Numeric> {
        Ok(self.grouped().sqrt()?.into())
    }
    pub(crate) fn sqrt_scale(&self, scale: i32) -> Numeric {
        self.grouped().sqrt_scale(scale).into()
    }
    pub fn exp(&self) -> Result<Numeric> {
        Ok(self.grouped().exp()?.into())
    }
    pub fn ln(&self) -> Result<Numeric> {
        Ok(self.grouped().ln()?.into())
    }
    pub fn log(base: &Numeric, number: &Numeric) -> Result<Numeric> {
        Ok(GroupedNumeric::log(&base.grouped(), &number.grouped())?.into())
    }
    pub fn power(&self, exponent: &Numeric) -> Result<Numeric> {
        Ok(self.grouped().power(&exponent.grouped())?.into())
    }
    pub(crate) fn gcd(&self, other: &Numeric) -> Result<Numeric> {
        Ok(self.grouped().gcd(&other.grouped())?.into())
    }
    pub(crate) fn lcm(&self, other: &Numeric) -> Result<Numeric> {
        Ok(self.grouped().lcm(&other.grouped())?.into())
    }
    pub fn neg(&self) -> Numeric {
        match self {
            Short(number) => Short(number.neg()),
            Grouped(number) => number.neg().into(),
        }
    }
    pub fn abs(&self) -> Numeric {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }
    pub(crate) fn ceil(&self) -> Numeric {
        self.whole(true)
    }
    pub fn floor(&self) -> Numeric {
        self.whole(false)
    }
    fn whole(&self, up: bool) -> Numeric {
        match self {
            Short(number) => Short(number.whole(up)),
            Grouped(number) => if up { number.ceil() } else { number.floor() }.into(),
        }
    }
    /// Rounds half away from zero to `scale` decimals (may be negative) and sets the display scale to max(scale, 0).
    pub(crate) fn round_to(&self, scale: i32) -> Numeric {
        self.with_scale(scale, true)
    }
    /// Cuts decimals beyond `scale`.
    pub(crate) fn trunc_to(&self, scale: i32) -> Numeric {
        self.with_scale(scale, false)
    }
    fn with_scale(&self, scale: i32, is_rounded: bool) -> Numeric {
        if let Short(number) = self
            && let Some(result) = number.with_scale(scale, is_rounded)
        {
            return Short(result);
        }
        let number = self.grouped();
        if is_rounded { number.round_to(scale) } else { number.trunc_to(scale) }.into()
    }
    /// Applies numeric(p,s); `typmod` as PostgreSQL stores it.
    pub fn apply_typmod(&self, typmod: i32) -> Result<Numeric> {
        if typmod < 4 {
            return Ok(self.clone());
        }
        if let Short(number) = self
            && let Some(rounded) = number.within(typmod)
        {
            return Ok(Short(rounded));
        }
        Ok(self.grouped().apply_typmod(typmod)?.into())
    }
    /// 22003 if it has more digits than can be stored.
    pub(crate) fn checked(self) -> Result<Numeric> {
        match self {
            Short(_) => Ok(self),
            Grouped(ref number) => number.check().map(|()| self),
        }
    }
    pub(crate) fn trim_scale(&self) -> Numeric {
        match self {
            Short(number) => Short(number.trimmed()),
            Grouped(number) => number.trim_scale().into(),
        }
    }
    /// Exact multiplication by 10^power; the display scale is left to the caller.
    pub(crate) fn scale_by_power_of_ten(&self, power: i32) -> GroupedNumeric {
        self.grouped().scale_by_power_of_ten(power)
    }
}

/// Constants and conversions.
impl Numeric {
    pub(crate) fn nan() -> Numeric {
        GroupedNumeric::nan().into()
    }
    pub fn infinity() -> Numeric {
        GroupedNumeric::infinity().into()
    }
    pub(crate) fn neg_infinity() -> Numeric {
        GroupedNumeric::neg_infinity().into()
    }
    pub fn zero(dscale: i32) -> Numeric {
        Numeric::from_scaled(0, dscale)
    }
    pub fn one() -> Numeric {
        Numeric::from(1)
    }
    /// `value / 10^scale`, exactly, shown with `scale` decimals.
    pub(crate) fn from_scaled(value: i128, scale: i32) -> Numeric {
        match ShortNumeric::new(value, scale) {
            Some(number) => Short(number),
            None => GroupedNumeric::from_scaled(value, scale).into(),
        }
    }
    /// From digits in base 10000, the first of which has the weight `weight`. None: there are others than digits, or zeros at
    /// one of their ends, or more decimals than can be stored.
    pub(crate) fn from_digits(
        is_negative: bool,
        weight: i32,
        dscale: i32,
        digits: impl ExactSizeIterator<Item = i16> + Clone,
    ) -> Option<Numeric> {
        let mut few = [0; short::GROUPS_MAX];
        let count = digits.len();
        if count <= few.len() {
            few.iter_mut().zip(digits.clone()).for_each(|(to, digit)| *to = digit);
            let few = &few[..count];
            if !grouped::are_digits(few) {
                return None;
            }
            if let Some(number) = ShortNumeric::from_groups(is_negative, weight, dscale, few) {
                return Some(Short(number));
            }
        }
        Some(GroupedNumeric::from_digits(is_negative, weight, dscale, digits.collect())?.into())
    }
    /// The number that a cast makes of a double: 15 significant digits.
    pub(crate) fn from_f64(v: f64) -> Numeric {
        GroupedNumeric::from_f64(v).into()
    }
    /// The number that a cast makes of a real: 6 significant digits.
    pub(crate) fn from_f32(v: f32) -> Numeric {
        GroupedNumeric::from_f32(v).into()
    }
    /// Text input: optional sign, digits with underscores, exponent, 0x/0o/0b integers, NaN, infinities.
    pub fn parse(text: &str) -> Result<Numeric> {
        match ShortNumeric::parse(text.as_bytes()) {
            Some(number) => Ok(Short(number)),
            None => Ok(GroupedNumeric::parse(text)?.into()),
        }
    }
    /// A plainly written number with its modifier applied; None: it is written otherwise, or does not fit.
    #[inline]
    pub(crate) fn parse_plain(text: &str, typmod: i32) -> Option<ShortNumeric> {
        ShortNumeric::parse(text.as_bytes())?.within(typmod)
    }
    /// The double that a plainly written number other than zero is, if it takes one exact division to find.
    #[inline]
    pub(crate) fn parse_plain_f64(text: &str) -> Option<f64> {
        // Zero may have a sign.
        ShortNumeric::parse(text.as_bytes()).filter(|number| number.value() != 0)?.to_f64()
    }
    /// What [`Numeric::receive`] reads, if it has few digits and fits its modifier.
    #[inline]
    pub(crate) fn receive_plain(bytes: &[u8], typmod: i32) -> Option<ShortNumeric> {
        let (head, digits) = bytes.split_first_chunk::<8>()?;
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let (digits, rest) = digits.as_chunks::<2>();
        if !rest.is_empty() || digits.len() != usize::from(word(0)) || !matches!(word(4), 0 | 0x4000) {
            return None;
        }
        let digits = digits.iter().map(|pair| u16::from_be_bytes(*pair));
        let weight = i32::from(word(2) as i16);
        ShortNumeric::from_few_groups(word(4) != 0, weight, i32::from(word(6)), digits)?.within(typmod)
    }
    /// From the little-endian digits of a finite number, if they are few.
    #[inline(always)]
    pub(crate) fn stored_plain(is_negative: bool, weight: i32, dscale: i32, digits: &[u8]) -> Option<ShortNumeric> {
        let (digits, rest) = digits.as_chunks::<2>();
        let digits = digits.iter().map(|pair| u16::from_le_bytes(*pair));
        rest.is_empty().then(|| ShortNumeric::from_few_groups(is_negative, weight, dscale, digits))?
    }
    pub fn receive(bytes: &[u8]) -> Result<Numeric> {
        Ok(GroupedNumeric::receive(bytes)?.into())
    }
    /// Binary form: digit count, weight, sign, dscale, digits, big-endian.
    pub fn send(&self, out: &mut Vec<u8>) {
        let Short(number) = self else { return self.grouped().send(out) };
        let groups = number.groups();
        let sign: u16 = if number.value() < 0 { 0x4000 } else { 0 };
        let head = [groups.groups().len() as u16, groups.weight as u16, sign, u16::from(number.decimals())];
        head.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        groups.groups().iter().for_each(|digit| out.extend_from_slice(&digit.to_be_bytes()));
    }
    /// Appends the number as it is shown.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Short(number) => out.extend_from_slice(number.show(&mut [0; 32]).as_bytes()),
            Grouped(number) => crate::io::write(out, format_args!("{number}")),
        }
    }
    /// Scientific form, as to_char's EEEE needs it: mantissa digits after the point, exponent.
    pub(crate) fn to_scientific(&self, decimals: i32) -> (String, i32) {
        self.grouped().to_scientific(decimals)
    }
    pub(crate) fn to_i128(&self) -> Option<i128> {
        match self {
            Short(number) => number.with_scale(0, true).map(|whole| i128::from(whole.value())),
            Grouped(number) => number.to_i128(),
        }
    }
    pub(crate) fn to_i64(&self) -> Option<i64> {
        i64::try_from(self.to_i128()?).ok()
    }
    pub fn to_f64(&self) -> f64 {
        match self {
            Short(number) => number.to_f64().unwrap_or_else(|| self.grouped().to_f64()),
            Grouped(number) => number.to_f64(),
        }
    }
    pub(crate) fn to_f32(&self) -> f32 {
        self.grouped().to_f32()
    }
}

/// What is asked of a number.
impl Numeric {
    pub(crate) fn kind(&self) -> NumericKind {
        match self {
            Short(_) => NumericKind::Finite,
            Grouped(number) => number.kind,
        }
    }
    pub fn is_nan(&self) -> bool {
        self.kind() == NumericKind::NaN
    }
    pub(crate) fn is_inf(&self) -> bool {
        matches!(self.kind(), NumericKind::PosInf | NumericKind::NegInf)
    }
    pub fn is_finite(&self) -> bool {
        self.kind() == NumericKind::Finite
    }
    pub fn is_zero(&self) -> bool {
        self.is_finite() && self.signum() == 0
    }
    /// −1, 0, 1; NaN counts as 1.
    pub(crate) fn signum(&self) -> i32 {
        match self {
            Short(number) => number.value().signum() as i32,
            Grouped(number) => number.signum(),
        }
    }
    pub(crate) fn dscale(&self) -> i32 {
        match self {
            Short(number) => i32::from(number.decimals()),
            Grouped(number) => number.dscale,
        }
    }
    pub(crate) fn min_scale(&self) -> i32 {
        match self {
            Short(number) => i32::from(number.trimmed().decimals()),
            Grouped(number) => number.min_scale(),
        }
    }
    pub(crate) fn is_integral(&self) -> bool {
        match self {
            Short(number) => number.is_integral(),
            Grouped(number) => number.is_integral(),
        }
    }
    pub fn digits(&self) -> NumericDigits<'_> {
        match self {
            Short(number) => {
                let groups = number.groups();
                let (is_negative, weight) = (number.value() < 0, groups.weight);
                NumericDigits { is_negative, weight, digits: DigitsOf::Short(groups) }
            }
            Grouped(number) => NumericDigits {
                is_negative: number.negative,
                weight: number.weight,
                digits: DigitsOf::Grouped(&number.digits),
            },
        }
    }
    /// The bytes that the number has beside its place.
    pub fn pointed_bytes(&self) -> usize {
        match self {
            Short(_) => 0,
            Grouped(number) => number.digits.len() * 2 + size_of::<GroupedNumeric>(),
        }
    }
    /// hash_numeric's and hash_numeric_extended's input: digits as native-endian i16, and the weight.
    pub(crate) fn hash_parts(&self) -> Option<(Vec<u8>, i32)> {
        let digits = self.is_finite().then(|| self.digits())?;
        Some((digits.digits().iter().flat_map(|d| d.to_le_bytes()).collect(), digits.weight))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Eq for Numeric {}
impl Ord for Numeric {
    /// NaN is greatest and equals itself.
    fn cmp(&self, other: &Numeric) -> Ordering {
        match (self, other) {
            (Short(a), Short(b)) => a.cmp(*b),
            _ => self.grouped().cmp(&other.grouped()),
        }
    }
}
impl std::hash::Hash for Numeric {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let digits = self.digits();
        self.kind().hash(state);
        digits.is_negative.hash(state);
        digits.weight.hash(state);
        digits.digits().hash(state);
    }
}
impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Short(number) => f.write_str(number.show(&mut [0; 32])),
            Grouped(number) => number.fmt(f),
        }
    }
}

/// (precision, scale) of a numeric typmod.
pub(crate) fn typmod_parts(typmod: i32) -> (i32, i32) {
    let t = typmod - 4;
    let precision = (t >> 16) & 0xffff;
    let scale = ((t & 0x7ff) ^ 1024) - 1024;
    (precision, scale)
}

pub(crate) fn factorial(n: i64) -> Result<Numeric> {
    Ok(grouped::factorial(n)?.into())
}
pub(crate) fn width_bucket(operand: &Numeric, low: &Numeric, high: &Numeric, count: i32) -> Result<i32> {
    grouped::width_bucket(&operand.grouped(), &low.grouped(), &high.grouped(), count)
}

#[cold]
fn overflow() -> Error {
    Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}
