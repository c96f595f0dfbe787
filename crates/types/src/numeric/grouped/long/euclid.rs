//! Greatest common divisors by Lehmer's method: Euclid's algorithm runs on the leading 16 decimals of both numbers as
//! long as these decide the quotients, and the whole numbers then take its steps at once.
//!
//! Invariant: the gcd of both numbers never changes.
//!
//! The method is quadratic, with a small factor: each pass over the numbers makes both about 7 decimals shorter.
//! This module must not know `GroupedNumeric`.

use super::{divide, to_groups, to_limbs};
use kilndb_base::Result;

/// Two groups of four decimals.
const WORD: i64 = 100_000_000;
type Words = Vec<u32>;

/// The greatest common divisor of two integers, as groups without leading zeros.
pub(in super::super) fn gcd_groups(a: &[i16], b: &[i16]) -> Result<Vec<i16>> {
    let (mut a, mut b) = (to_words(a), to_words(b));
    if less(&a, &b) {
        std::mem::swap(&mut a, &mut b);
    }
    while b.len() > 2 {
        // One pass of this loop takes as long as a multiplication by a short number.
        if a.len() == b.len() + 1 {
            b.push(0);
        }
        match simulate(&a, &b) {
            Some(steps) => apply(&steps, &mut a, &mut b),
            None => {
                trim(&mut b);
                let rest = remainder(&a, &b);
                a = std::mem::replace(&mut b, rest);
            }
        }
    }
    if !b.is_empty() {
        a = remainder(&a, &b);
        let (mut x, mut y) = (to_u64(&b), to_u64(&a));
        while y != 0 {
            (x, y) = (y, x % y);
        }
        a = [x % WORD as u64, x / WORD as u64].iter().map(|w| *w as u32).collect();
        trim(&mut a);
    }
    Ok(to_word_groups(&a))
}

fn to_words(groups: &[i16]) -> Words {
    let mut words: Words =
        groups.rchunks(2).map(|two| two.iter().fold(0, |v, group| v * 10_000 + *group as u32)).collect();
    trim(&mut words);
    words
}
fn to_word_groups(words: &[u32]) -> Vec<i16> {
    let groups = words.iter().rev().flat_map(|w| [(w / 10_000) as i16, (w % 10_000) as i16]);
    groups.skip_while(|group| *group == 0).collect()
}
fn to_u64(words: &[u32]) -> u64 {
    words.iter().rev().fold(0, |v, w| v * WORD as u64 + u64::from(*w))
}
fn trim(words: &mut Words) {
    while words.last() == Some(&0) {
        words.pop();
    }
}
fn less(a: &[u32], b: &[u32]) -> bool {
    a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev())).is_lt()
}
fn remainder(a: &[u32], b: &[u32]) -> Words {
    let rest = divide::divide(&to_limbs(&to_word_groups(a)), &to_limbs(&to_word_groups(b))).1;
    to_words(&to_groups(&rest, b.len() * 2))
}

/// What Euclid's steps make of (a, b): (x0·a + y0·b, x1·a + y1·b), each with factors of different signs.
struct Cofactors {
    x0: i64,
    y0: i64,
    x1: i64,
    y1: i64,
}

/// Euclid's algorithm on the leading decimals, as far as it is sure that the whole numbers have the same quotients
/// (Collins's condition). None if not even the first quotient is sure. a ≥ b, and a has more than two words.
fn simulate(a: &[u32], b: &[u32]) -> Option<Cofactors> {
    if a.len() != b.len() {
        return None;
    }
    let (mut high_a, mut high_b) = (leading(a, a), leading(b, a));
    let mut s = Cofactors { x0: 1, y0: 0, x1: 0, y1: 1 };
    while high_b != 0 {
        let quotient = high_a / high_b;
        let rest = high_a - quotient * high_b;
        if quotient >= WORD {
            break;
        }
        let (x2, y2) = (s.x0 - quotient * s.x1, s.y0 - quotient * s.y1);
        // The next remainder has to be larger than its error, and so does its distance from the one before.
        if x2.abs().max(y2.abs()) >= WORD
            || rest < x2.abs().max(y2.abs())
            || high_b - rest < (x2 - s.x1).abs().max((y2 - s.y1).abs())
        {
            break;
        }
        s = Cofactors { x0: s.x1, y0: s.y1, x1: x2, y1: y2 };
        (high_a, high_b) = (high_b, rest);
    }
    (s.y0 != 0).then_some(s)
}

/// The leading 16 decimals of `a` and what `b`, a number as long, has at their places.
fn leading(b: &[u32], a: &[u32]) -> i64 {
    let n = a.len();
    let shift = 10i64.pow(7 - a[n - 1].ilog10());
    let word = |i: usize| i64::from(b[i]);
    (word(n - 1) * WORD + word(n - 2)) * shift + word(n - 3) / (WORD / shift)
}

/// Both numbers' next values at once.
fn apply(s: &Cofactors, a: &mut Words, b: &mut Words) {
    // What is added to a column to keep it positive: dividing by a constant is faster without signs.
    const ABOVE: i64 = 2 * WORD;
    let (mut carry_a, mut carry_b) = (0i64, 0i64);
    for (a, b) in a.iter_mut().zip(b.iter_mut()) {
        let (x, y) = (i64::from(*a), i64::from(*b));
        let next_a = (s.x0 * x + s.y0 * y + carry_a + ABOVE * WORD) as u64;
        let next_b = (s.x1 * x + s.y1 * y + carry_b + ABOVE * WORD) as u64;
        let (above_a, above_b) = (next_a / WORD as u64, next_b / WORD as u64);
        *a = (next_a - above_a * WORD as u64) as u32;
        *b = (next_b - above_b * WORD as u64) as u32;
        (carry_a, carry_b) = (above_a as i64 - ABOVE, above_b as i64 - ABOVE);
    }
    debug_assert!(carry_a == 0 && carry_b == 0);
    trim(a);
    trim(b);
}
