//! Square roots by halves (Zimmermann, "Karatsuba Square Root"): the root of the upper half gives the root's upper
//! half, and dividing its remainder by twice that gives the lower half.
//!
//! Invariant: a number inside of the recursion has an even count of limbs and is normalized, at least a quarter of the
//! next limb's value; so its root has half as many limbs and is at least half of the next limb's value.
//!
//! This module must not know anything but limbs.

use super::divide::divide_normalized;
use super::{LIMB, Limbs, add_to, div_small, mul_small, square, sub_from, trimmed};

/// What fits 128 bits.
const SHORT_LIMBS: usize = 6;

/// The square root, rounded down.
pub(in super::super) fn sqrt_floor(a: &[u32]) -> Limbs {
    let mut number = trimmed(a).to_vec();
    if number.len() <= SHORT_LIMBS {
        return from_u128(to_u128(&number).isqrt(), SHORT_LIMBS / 2);
    }
    if number.len() % 2 == 1 {
        number.push(0);
    }
    // The square of this power of two brings the number to a quarter of the next limb's value or more.
    let (second, first) = (number[number.len() - 2], number[number.len() - 1]);
    let top = u64::from(first) * u64::from(LIMB) + u64::from(second) + 1;
    let mut factor = 1u64;
    while 4 * factor * factor * top <= u64::from(LIMB).pow(2) {
        factor *= 2;
    }
    let mut factor = factor as u32;
    normalize(&mut number, factor);
    if number[number.len() - 1] < LIMB / 4 {
        normalize(&mut number, 2);
        factor *= 2;
    }
    let mut root = sqrt_normalized(&number).0;
    div_small(&mut root, factor);
    root
}
fn normalize(number: &mut [u32], factor: u32) {
    mul_small(number, factor);
    mul_small(number, factor);
}

fn to_u128(limbs: &[u32]) -> u128 {
    limbs.iter().rev().fold(0, |v, limb| v * u128::from(LIMB) + u128::from(*limb))
}
fn from_u128(mut v: u128, len: usize) -> Limbs {
    let mut limbs = vec![0; len];
    for limb in &mut limbs {
        *limb = (v % u128::from(LIMB)) as u32;
        v /= u128::from(LIMB);
    }
    limbs
}

/// Root, of half as many limbs, and remainder, of one limb more than the root: it is at most twice the root.
fn sqrt_normalized(a: &[u32]) -> (Limbs, Limbs) {
    let n = a.len();
    if n <= SHORT_LIMBS {
        let v = to_u128(a);
        let root = v.isqrt();
        return (from_u128(root, n / 2), from_u128(v - root * root, n / 2 + 1));
    }
    let low = n / 4;
    let (upper_root, upper_rest) = sqrt_normalized(&a[2 * low..]);
    let high = upper_root.len();
    // The upper remainder and the next limbs, by twice the upper root: by the root itself, which is normalized, and
    // then halved.
    let mut rest = a[low..2 * low].to_vec();
    rest.extend_from_slice(&upper_rest);
    let mut quotient = vec![0; low + 1];
    divide_normalized(&mut rest, &upper_root, &mut quotient);
    rest.truncate(high);
    rest.push(0);
    if div_small(&mut quotient, 2) == 1 {
        add_to(&mut rest, &upper_root);
    }
    // One limb more than the root has: before the correction it may be one too large.
    let mut root = vec![0; low];
    root.extend_from_slice(&upper_root);
    root.push(0);
    add_to(&mut root, &quotient);
    let mut remainder = a[..low].to_vec();
    remainder.extend_from_slice(&rest);
    let squared = square(trimmed(&quotient));
    remainder.resize(remainder.len().max(squared.len()) + 1, 0);
    if sub_from(&mut remainder, &squared) {
        add_to(&mut remainder, &root);
        sub_from(&mut root, &[1]);
        add_to(&mut remainder, &root);
    }
    root.truncate(high + low);
    remainder.truncate(high + low + 1);
    (root, remainder)
}
