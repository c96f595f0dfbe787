//! Multiplication by a number-theoretic transform: the product of numbers is the convolution of their limbs, and a
//! convolution is a pointwise product of Fourier transforms, here modulo the prime 2^64 − 2^32 + 1.
//!
//! Invariants
//! 1. Residues between functions are below the prime.
//! 2. A column of the convolution is below the prime, so that its residue is its value: a column has less than 2^24
//!    products below 10^12 each, together less than 2^64 − 2^32.
//!
//! This module must not know anything but limbs.

use super::LIMB;

const PRIME: u64 = 0xffff_ffff_0000_0001;
/// 2^64 modulo the prime.
const EPSILON: u64 = 0xffff_ffff;
/// A generator of the prime's multiplicative group, which has 2^32 · (2^32 − 1) elements.
const GENERATOR: u64 = 7;

/// 2^64 more or less, where a step over- or underflowed. Not a branch: half of all sums do so, unforeseeably.
fn only_if(condition: bool, value: u64) -> u64 {
    value & u64::from(condition).wrapping_neg()
}
fn add(a: u64, b: u64) -> u64 {
    sub(a, PRIME - b)
}
fn sub(a: u64, b: u64) -> u64 {
    let (difference, under) = a.overflowing_sub(b);
    difference.wrapping_sub(only_if(under, EPSILON))
}
/// 2^64 = 2^32 − 1 and 2^96 = −1 modulo the prime: a product of 128 bits is folded by these.
fn mul_mod(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let (low, high) = (product as u64, (product >> 64) as u64);
    let folded = sub(low, high >> 32);
    let (r, over) = folded.overflowing_add((high & EPSILON) * EPSILON);
    let r = r.wrapping_add(only_if(over, EPSILON));
    r.wrapping_sub(only_if(r >= PRIME, PRIME))
}
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut r = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            r = mul_mod(r, base);
        }
        base = mul_mod(base, base);
        exponent >>= 1;
    }
    r
}

/// The powers of the roots of unity for a transform of `len` values, layer by layer: for blocks of 2h values the
/// powers 0..h of a root of order 2h stand at h..2h.
fn roots(len: usize, inverse: bool) -> Vec<u64> {
    let mut table = vec![1u64; len.max(2)];
    let mut half = len / 2;
    let mut root = power(GENERATOR, (PRIME - 1) / len as u64);
    if inverse {
        root = power(root, PRIME - 2);
    }
    let mut value = 1;
    for slot in &mut table[half..] {
        *slot = value;
        value = mul_mod(value, root);
    }
    while half > 1 {
        let (lower, upper) = table.split_at_mut(half);
        half /= 2;
        for (slot, value) in lower[half..].iter_mut().zip(upper.iter().step_by(2)) {
            *slot = *value;
        }
    }
    table
}

/// The transform of `values` in bit-reversed order (decimation in frequency).
fn forward(values: &mut [u64], roots: &[u64]) {
    let mut half = values.len() / 2;
    while half > 0 {
        let roots = &roots[half..2 * half];
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), root) in low.iter_mut().zip(high).zip(roots) {
                let (x, y) = (*a, *b);
                *a = add(x, y);
                *b = mul_mod(sub(x, y), *root);
            }
        }
        half /= 2;
    }
}

/// Undoes `forward`, with the inverse roots, but for a factor of the length (decimation in time).
fn backward(values: &mut [u64], roots: &[u64]) {
    let mut half = 1;
    while half < values.len() {
        let roots = &roots[half..2 * half];
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), root) in low.iter_mut().zip(high).zip(roots) {
                let (x, y) = (*a, mul_mod(*b, *root));
                *a = add(x, y);
                *b = sub(x, y);
            }
        }
        half *= 2;
    }
}

fn spread(limbs: &[u32], len: usize) -> Vec<u64> {
    let mut values = Vec::with_capacity(len);
    values.extend(limbs.iter().map(|limb| u64::from(*limb)));
    values.resize(len, 0);
    values
}

/// `product` is as long as both factors.
pub(super) fn mul(a: &[u32], b: &[u32], product: &mut [u32]) {
    let len = product.len().next_power_of_two();
    let roots = roots(len, false);
    let mut values = spread(a, len);
    forward(&mut values, &roots);
    let mut others = spread(b, len);
    forward(&mut others, &roots);
    for (x, y) in values.iter_mut().zip(&others) {
        *x = mul_mod(*x, *y);
    }
    finish(values, product);
}

/// `product` is twice as long as `a`.
pub(super) fn square(a: &[u32], product: &mut [u32]) {
    let len = product.len().next_power_of_two();
    let mut values = spread(a, len);
    forward(&mut values, &roots(len, false));
    for x in &mut values {
        *x = mul_mod(*x, *x);
    }
    finish(values, product);
}

/// Transforms back and carries.
fn finish(mut values: Vec<u64>, product: &mut [u32]) {
    let len = values.len();
    backward(&mut values, &roots(len, true));
    let per_len = power(len as u64, PRIME - 2);
    let mut carry = 0u64;
    for (limb, value) in product.iter_mut().zip(values) {
        // A column and a carry fit 64 bits together: see the second invariant.
        let v = mul_mod(value, per_len) + carry;
        *limb = (v % u64::from(LIMB)) as u32;
        carry = v / u64::from(LIMB);
    }
}

/// How many limbs of a long factor are best multiplied at once by `len` limbs: as many as fill up a transform of
/// which `len` is at most a quarter.
pub(super) fn best_piece(len: usize) -> usize {
    (4 * len).next_power_of_two() - len
}
