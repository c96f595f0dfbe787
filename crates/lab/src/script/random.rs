//! Random numbers of scripts, each client's its own sequence, and functions that only look random.
//!
//! `permute` and the hashes are pgbench's own functions (pgbench.sgml, "Built-In Functions"): a script that spreads its keys with
//! them meets the same keys here. What is drawn follows the same distributions, not the same sequence.

use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// A client's sequence.
pub struct ScriptRandom(Xoroshiro128StarStar);

pub const GAUSSIAN_MIN: f64 = 2.0;
pub const ZIPFIAN_MIN: f64 = 1.001;
pub const ZIPFIAN_MAX: f64 = 1000.0;

impl ScriptRandom {
    pub fn of_seed(seed: u64) -> ScriptRandom {
        ScriptRandom(Xoroshiro128StarStar::seed_from_u64(seed))
    }
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// From 0 (included) to 1.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// A number from 0 to `span`, both included: numbers of as many bits are drawn until one is not above it.
    fn up_to(&mut self, span: u64) -> u64 {
        if span == 0 {
            return 0;
        }
        loop {
            let drawn = self.bits() >> span.leading_zeros();
            if drawn <= span {
                return drawn;
            }
        }
    }
    /// `low` to `high`, both included, all alike.
    pub fn uniform(&mut self, low: i64, high: i64) -> i64 {
        low.wrapping_add(self.up_to(high.wrapping_sub(low) as u64) as i64)
    }
    /// Small numbers are the likelier ones, the more so the larger the parameter, which is above zero.
    pub fn exponential(&mut self, low: i64, high: i64, parameter: f64) -> i64 {
        let cut = (-parameter).exp();
        let left = 1.0 - self.fraction();
        at(low, high, -(cut + (1.0 - cut) * left).ln() / parameter)
    }
    /// Numbers in the middle are the likelier ones.
    pub fn gaussian(&mut self, low: i64, high: i64, parameter: f64) -> i64 {
        loop {
            let deviation = self.normal();
            if (-parameter..parameter).contains(&deviation) {
                return at(low, high, (deviation + parameter) / (2.0 * parameter));
            }
        }
    }
    /// A number of the standard normal distribution (Box and Muller).
    fn normal(&mut self) -> f64 {
        let (left, angle) = (1.0 - self.fraction(), self.fraction());
        (-2.0 * left.ln()).sqrt() * (std::f64::consts::TAU * angle).sin()
    }
    /// The first numbers are the likelier ones: `k` is `((k + 1) / k) ^ parameter` times as likely as the one behind it, counted from
    /// 1 (Devroye, "Non-Uniform Random Variate Generation", 1986, page 550).
    pub fn zipfian(&mut self, low: i64, high: i64, parameter: f64) -> i64 {
        let count = (high - low + 1) as f64;
        if count <= 1.0 {
            return low;
        }
        let power = parameter - 1.0;
        let base = 2f64.powf(power);
        loop {
            let (u, v) = (self.fraction(), self.fraction());
            let x = u.powf(-1.0 / power).floor();
            let t = (1.0 + 1.0 / x).powf(power);
            if v * x * (t - 1.0) / (base - 1.0) <= t / base && x <= count {
                return low - 1 + x as i64;
            }
        }
    }
    /// A wait between two events that come `mean` apart on average (an exponential distribution).
    pub fn interval(&mut self, mean: f64) -> f64 {
        -(1.0 - self.fraction()).ln() * mean
    }
}

/// The number so far between two others.
fn at(low: i64, high: i64, fraction: f64) -> i64 {
    low + ((high - low + 1) as f64 * fraction) as i64
}

const FNV_PRIME: u64 = 0x100_0000_01b3;
const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of a number's eight bytes, the lowest first.
pub fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    let begin = FNV_OFFSET_BASIS ^ seed as u64;
    let mixed = value.to_le_bytes().iter().fold(begin, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME));
    mixed as i64
}

const MURMUR_FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const MURMUR_SHIFT: u32 = 47;

/// MurmurHash2 (64 bits) of a number's eight bytes.
pub fn hash_murmur2(value: i64, seed: i64) -> i64 {
    let mix = |word: u64| word ^ (word >> MURMUR_SHIFT);
    let word = mix((value as u64).wrapping_mul(MURMUR_FACTOR)).wrapping_mul(MURMUR_FACTOR);
    let hash = (seed as u64 ^ MURMUR_FACTOR.wrapping_mul(8) ^ word).wrapping_mul(MURMUR_FACTOR);
    mix(mix(hash).wrapping_mul(MURMUR_FACTOR)) as i64
}

const PERMUTE_ROUNDS: usize = 6;

/// Where `value` stands in a permutation of the numbers below `size`, which the seed chooses. `size` is above zero.
pub fn permute(value: i64, size: i64, seed: i64) -> i64 {
    if size < 2 {
        return 0;
    }
    let mut random = ScriptRandom::of_seed(seed as u64);
    let size = size as u64;
    let mut place = value as u64 % size;
    // Each round turns the numbers below a power of two, then those as many from the end, and shifts all.
    let bits = size.ilog2();
    let mask = (1u64 << bits) - 1;
    for _ in 0..PERMUTE_ROUNDS {
        place = turned(place, (mask, bits), &mut random);
        place = size - 1 - turned(size - 1 - place, (mask, bits), &mut random);
        let shift = random.up_to(size - 1);
        place = (place + shift) % size;
    }
    place as i64
}

/// A number below a power of two, multiplied, crossed and turned within its bits; another one as it is.
fn turned(number: u64, (mask, bits): (u64, u32), random: &mut ScriptRandom) -> u64 {
    let (factor, cross) = ((random.bits() & mask) | 1, random.bits() & mask);
    if number > mask {
        return number;
    }
    let crossed = (number.wrapping_mul(factor) ^ cross) & mask;
    ((crossed << 1) & mask) | (crossed >> (bits - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_manual() {
        assert_eq!(hash_fnv1a(10, 5432), -7793829335365542153);
        assert_eq!(hash_murmur2(10, 5432), -5817877081768721676);
    }

    #[test]
    fn a_permutation_has_each_number_once() {
        for size in [1i64, 2, 3, 7, 64, 1000] {
            for seed in [0, 1, -5, 4711] {
                let mut seen: Vec<i64> = (0..size).map(|value| permute(value, size, seed)).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..size).collect::<Vec<i64>>(), "size {size}, seed {seed}");
            }
        }
    }

    #[test]
    fn what_is_drawn_lies_between_the_bounds() {
        let mut random = ScriptRandom::of_seed(1);
        for _ in 0..10_000 {
            for drawn in [
                random.uniform(-3, 5),
                random.exponential(-3, 5, 2.5),
                random.gaussian(-3, 5, 2.0),
                random.zipfian(-3, 5, 1.07),
            ] {
                assert!((-3..=5).contains(&drawn), "{drawn}");
            }
        }
        assert_eq!(random.uniform(i64::MIN, i64::MIN), i64::MIN);
        random.uniform(i64::MIN, i64::MAX);
    }

    /// How often each of ten numbers is drawn, of 100,000 times.
    fn shares(mut draw: impl FnMut(&mut ScriptRandom) -> i64) -> [f64; 10] {
        let mut random = ScriptRandom::of_seed(42);
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|_| counts[draw(&mut random) as usize] += 1);
        counts.map(|count| f64::from(count) / 100_000.0)
    }

    #[test]
    fn distributions_have_their_shapes() {
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.01, "{found}, not {wanted}");
        shares(|r| r.uniform(0, 9)).iter().for_each(|share| near(*share, 0.1));
        // The density of an exponential distribution that is cut off at 2.
        let exponential = shares(|r| r.exponential(0, 9, 2.0));
        let density = |x: f64| (-2.0 * x).exp() / (1.0 - (-2.0f64).exp());
        (0..10).for_each(|k| near(exponential[k], density(k as f64 / 10.0) - density((k + 1) as f64 / 10.0)));
        let gaussian = shares(|r| r.gaussian(0, 9, 2.0));
        near(gaussian[0], gaussian[9]);
        assert!(gaussian[4] > 2.0 * gaussian[0], "{gaussian:?}");
        let zipfian = shares(|r| r.zipfian(0, 9, 2.0));
        near(zipfian[1], zipfian[0] / 4.0);
        near(zipfian[2], zipfian[0] / 9.0);
    }
}
