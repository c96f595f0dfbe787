//! Division by halves (Burnikel and Ziegler, "Fast Recursive Division"): the quotient's upper half comes from the
//! numbers' upper parts, is multiplied by the rest of the divisor, and the remainder gives the lower half.
//!
//! Invariant: a divisor inside of the recursion is normalized, its highest limb is at least half the base. So a
//! quotient guessed from upper parts is at most 2 too large.
//!
//! This module must not know anything but limbs.

use super::{LIMB, Limbs, add_to, div_small, mul, mul_small, sub_from, trimmed};

/// Below this many quotient limbs schoolbook division is faster.
const RECURSION_THRESHOLD_LIMBS: usize = 50;

/// Quotient and remainder. The divisor is not zero.
pub(super) fn divide(a: &[u32], b: &[u32]) -> (Limbs, Limbs) {
    let b = trimmed(b);
    let factor = LIMB / (b[b.len() - 1] + 1);
    let mut divisor = b.to_vec();
    mul_small(&mut divisor, factor);
    // A zero above makes the highest limbs less than the divisor.
    let mut rest = trimmed(a).to_vec();
    rest.push(0);
    mul_small(&mut rest, factor);
    if rest.len() <= divisor.len() {
        rest.resize(divisor.len() + 1, 0);
    }
    let mut quotient = vec![0; rest.len() - divisor.len()];
    divide_normalized(&mut rest, &divisor, &mut quotient);
    rest.truncate(divisor.len());
    div_small(&mut rest, factor);
    (quotient, rest)
}

/// Divides `a` by the normalized `b`; the remainder stays in the lower limbs of `a`, zeros above it. `a` is as long as
/// `b` and `quotient` together, and its highest `b.len()` limbs are less than `b`.
pub(super) fn divide_normalized(a: &mut [u32], b: &[u32], quotient: &mut [u32]) {
    let (m, n) = (quotient.len(), b.len());
    debug_assert!(a.len() == m + n && b[n - 1] >= LIMB / 2);
    if m < RECURSION_THRESHOLD_LIMBS || n < RECURSION_THRESHOLD_LIMBS {
        divide_schoolbook(a, b, quotient);
    } else if m > n {
        // Blocks as long as the divisor, the highest one shorter.
        let mut end = m;
        while end > 0 {
            let start = (end - 1) / n * n;
            divide_normalized(&mut a[start..end + n], b, &mut quotient[start..end]);
            end = start;
        }
    } else if m == n {
        let half = m / 2;
        divide_narrow(&mut a[half..], b, &mut quotient[half..]);
        divide_narrow(&mut a[..half + n], b, &mut quotient[..half]);
    } else {
        divide_narrow(a, b, quotient);
    }
}

/// As `divide_normalized` for a quotient shorter than the divisor: the highest limbs give a quotient that is right or
/// slightly too large.
fn divide_narrow(a: &mut [u32], b: &[u32], quotient: &mut [u32]) {
    let (m, n) = (quotient.len(), b.len());
    let (b_low, b_high) = b.split_at(n - m);
    if a[n..] == *b_high {
        // The quotient would not fit: the largest one leaves the rest plus the divisor once more.
        quotient.fill(LIMB - 1);
        a[n..].fill(0);
        let carry = add_to(&mut a[n - m..n], b_high);
        a[n] = u32::from(carry);
    } else {
        divide_normalized(&mut a[n - m..], b_high, quotient);
    }
    let product = mul(quotient, b_low);
    let mut negative = sub_from(a, &product);
    while negative {
        sub_from(quotient, &[1]);
        negative = !add_to(a, b);
    }
}

/// Knuth's algorithm D. Three limbs of the dividend by two of the divisor give a digit that is at most 1 too large.
fn divide_schoolbook(a: &mut [u32], b: &[u32], quotient: &mut [u32]) {
    let base = u64::from(LIMB);
    let n = b.len();
    let below = |limbs: &[u32], at: usize| if at == 0 { 0 } else { u64::from(limbs[at - 1]) };
    let divisor = u64::from(b[n - 1]) * base + below(b, n - 1);
    for (j, digit) in quotient.iter_mut().enumerate().rev() {
        let window = &mut a[j..=j + n];
        let third = if n == 1 { 0 } else { u64::from(window[n - 2]) };
        let head = (u64::from(window[n]) * base + u64::from(window[n - 1])) * base + third;
        let mut guess = (head / divisor).min(base - 1);
        let mut carry = 0;
        for (x, &y) in window.iter_mut().zip(b) {
            let v = guess * u64::from(y) + carry;
            let (taken, above) = ((v % base) as u32, v / base);
            let borrow = u32::from(*x < taken);
            *x = *x + borrow * LIMB - taken;
            carry = above + u64::from(borrow);
        }
        if carry > u64::from(window[n]) {
            guess -= 1;
            add_to(&mut window[..n], b);
        }
        window[n] = 0;
        *digit = guess as u32;
    }
}
