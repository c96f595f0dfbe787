//! Natural numbers of any length for what schoolbook methods on `GroupedNumeric`'s digits would take too long for.
//!
//! Invariants
//! 1. A natural number is a slice or vector of limbs in base 10^6, the least significant first. Leading zero limbs are
//!    allowed wherever a function does not ask for a normalized number; zero may have no limbs at all.
//! 2. Every function is exact: quotients and roots are rounded down, nothing is an approximation.
//! 3. No function takes more than O(n · log² n) steps for n limbs, but `euclid`, which is quadratic.
//!
//! This module must not know `GroupedNumeric`'s signs, weights and scales: it gets groups of four decimals, the most
//! significant first, that are read as one integer.

mod divide;
mod euclid;
mod root;
mod transform;

pub(super) use euclid::gcd_groups;
pub(super) use root::sqrt_floor;

pub(super) const LIMB: u32 = 1_000_000;
pub(super) type Limbs = Vec<u32>;

/// From this many groups in the shorter factor on, limbs multiply faster than groups.
pub(super) const MUL_THRESHOLD_GROUPS: usize = 32;
/// From this many groups in both quotient and divisor on, limbs divide faster than groups.
pub(super) const DIV_THRESHOLD_GROUPS: usize = 8;
/// From this many limbs in the shorter factor on, the transform is faster than schoolbook multiplication.
const TRANSFORM_THRESHOLD_LIMBS: usize = 450;

/// Three groups of four decimals are two limbs of six.
pub(super) fn to_limbs(groups: &[i16]) -> Limbs {
    let mut limbs = Vec::with_capacity(groups.len().div_ceil(3) * 2);
    for three in groups.rchunks(3) {
        let at = |from_end: usize| three.len().checked_sub(from_end).map_or(0, |i| three[i] as u32);
        let (low, middle, high) = (at(1), at(2), at(3));
        limbs.push(middle % 100 * 10_000 + low);
        limbs.push(high * 100 + middle / 100);
    }
    limbs
}

/// The lowest `count` groups of `limbs`, the most significant first.
pub(super) fn to_groups(limbs: &[u32], count: usize) -> Vec<i16> {
    let mut groups = vec![0i16; count];
    for (three, two) in groups.rchunks_mut(3).zip(limbs.chunks(2)) {
        let (low, high) = (two[0], two.get(1).copied().unwrap_or(0));
        let values = [low % 10_000, high % 100 * 100 + low / 10_000, high / 100];
        for (group, value) in three.iter_mut().rev().zip(values) {
            *group = value as i16;
        }
    }
    groups
}

/// The product of two strings of groups, as many groups as both have.
pub(super) fn mul_groups(a: &[i16], b: &[i16]) -> Vec<i16> {
    let product = if std::ptr::eq(a, b) { square(&to_limbs(a)) } else { mul(&to_limbs(a), &to_limbs(b)) };
    to_groups(&product, a.len() + b.len())
}

/// The first `count` digits of the quotient of strings of groups read as fractions of equal weight, truncated.
/// The first group of `den` is not 0.
pub(super) fn div_groups(num: &[i16], den: &[i16], count: usize) -> Vec<i16> {
    // num · 10000^(count − 1) / den as integers, with as many zeros added or groups left out as make it one.
    let take = (count - 1 + den.len()).min(num.len());
    let mut padded = num[..take].to_vec();
    padded.resize(count - 1 + den.len(), 0);
    let quotient = divide::divide(&to_limbs(&padded), &to_limbs(den)).0;
    to_groups(&quotient, count)
}

/// The product, of as many limbs as both factors have.
pub(super) fn mul(a: &[u32], b: &[u32]) -> Limbs {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let mut product = vec![0u32; a.len() + b.len()];
    if short.len() < TRANSFORM_THRESHOLD_LIMBS {
        mul_schoolbook(short, long, &mut product);
        return product;
    }
    // A much longer factor is taken in pieces, so that the transforms are as long as the shorter one needs.
    let piece_len = transform::best_piece(short.len());
    if long.len() <= piece_len {
        transform::mul(short, long, &mut product);
    } else {
        for (i, piece) in long.chunks(piece_len).enumerate() {
            add_to(&mut product[i * piece_len..], &mul(short, piece));
        }
    }
    product
}

pub(super) fn square(a: &[u32]) -> Limbs {
    let mut product = vec![0u32; a.len() * 2];
    if a.len() < TRANSFORM_THRESHOLD_LIMBS {
        mul_schoolbook(a, a, &mut product);
    } else {
        transform::square(a, &mut product);
    }
    product
}

/// Schoolbook multiplication. A column's sum fits 64 bits: it has less than 2^24 products below 10^12.
fn mul_schoolbook(short: &[u32], long: &[u32], product: &mut [u32]) {
    let mut columns = vec![0u64; product.len()];
    for (i, &a) in short.iter().enumerate() {
        for (column, &b) in columns[i..].iter_mut().zip(long) {
            *column += u64::from(a) * u64::from(b);
        }
    }
    let mut carry = 0;
    for (limb, column) in product.iter_mut().zip(columns) {
        let v = column + carry;
        *limb = (v % u64::from(LIMB)) as u32;
        carry = v / u64::from(LIMB);
    }
}

/// Adds in place; says whether a carry leaves `a`. `a` is not shorter than `b`.
fn add_to(a: &mut [u32], b: &[u32]) -> bool {
    let mut carry = 0;
    let (low, high) = a.split_at_mut(b.len());
    for (x, &y) in low.iter_mut().zip(b) {
        let v = *x + y + carry;
        carry = u32::from(v >= LIMB);
        *x = v - carry * LIMB;
    }
    for x in high {
        if carry == 0 {
            break;
        }
        carry = u32::from(*x + 1 == LIMB);
        *x = if carry == 1 { 0 } else { *x + 1 };
    }
    carry == 1
}

/// Subtracts in place; says whether a borrow is asked of what lies above `a`. `a` is not shorter than `b`.
fn sub_from(a: &mut [u32], b: &[u32]) -> bool {
    let mut borrow = 0;
    let (low, high) = a.split_at_mut(b.len());
    for (x, &y) in low.iter_mut().zip(b) {
        let taken = y + borrow;
        borrow = u32::from(*x < taken);
        *x = *x + borrow * LIMB - taken;
    }
    for x in high {
        if borrow == 0 {
            break;
        }
        borrow = u32::from(*x == 0);
        *x = if borrow == 1 { LIMB - 1 } else { *x - 1 };
    }
    borrow == 1
}

/// Multiplies in place by a number below the base and returns what leaves `a`.
fn mul_small(a: &mut [u32], factor: u32) -> u32 {
    let mut carry = 0u64;
    for x in a {
        let v = u64::from(*x) * u64::from(factor) + carry;
        *x = (v % u64::from(LIMB)) as u32;
        carry = v / u64::from(LIMB);
    }
    carry as u32
}

/// Divides in place by a number below the base and returns the remainder.
fn div_small(a: &mut [u32], divisor: u32) -> u32 {
    let mut rest = 0u64;
    for x in a.iter_mut().rev() {
        let v = rest * u64::from(LIMB) + u64::from(*x);
        *x = (v / u64::from(divisor)) as u32;
        rest = v % u64::from(divisor);
    }
    rest as u32
}

/// The limbs without leading zeros.
fn trimmed(a: &[u32]) -> &[u32] {
    &a[..a.iter().rposition(|limb| *limb != 0).map_or(0, |i| i + 1)]
}

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;
