//! Times, for whoever changes a threshold:
//! `cargo test --release -p kilndb-types --lib numeric::long::measure -- --ignored --nocapture --test-threads 1`.

use super::super::arith::{long_division, schoolbook_product};
use super::super::{GroupedNumeric, factorial};
use super::tests::Random;
use super::*;
use std::hint::black_box;
use std::time::Instant;

/// How long this thread has run, where the system tells; other processes do not count then.
fn now_us(begin: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ran_ns = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    ran_ns.map_or_else(|| begin.elapsed().as_secs_f64() * 1e6, |ns| ns / 1e3)
}
/// The shortest of some runs; short work is repeated until the clock's steps do not matter.
fn time_us<R>(mut work: impl FnMut() -> R) -> f64 {
    let begin = Instant::now();
    black_box(work());
    let repeat = (4e-2 / begin.elapsed().as_secs_f64()).clamp(1.0, 20_000.0) as u32;
    let mut best = f64::MAX;
    for _ in 0..3 {
        let start = now_us(begin);
        for _ in 0..repeat {
            black_box(work());
        }
        best = best.min((now_us(begin) - start) / f64::from(repeat));
    }
    best
}
fn show<R>(name: &str, work: impl FnMut() -> R) {
    println!("{name}: {:.2} ms", time_us(work) / 1e3);
}
fn number(digits: usize) -> String {
    let mut random = Random(digits as u64);
    std::iter::once('7').chain((1..digits).map(|_| char::from(b'0' + random.below(10) as u8))).collect()
}
fn parsed(text: &str) -> GroupedNumeric {
    GroupedNumeric::parse(text).unwrap()
}

#[test]
#[ignore = "measures"]
fn thresholds() {
    let mut random = Random(11);
    for n in [4, 8, 12, 16, 24, 32, 40, 48, 64, 96, 128, 256, 512, 1024] {
        let (a, b, c) = (random.groups(n), random.groups(n), random.groups(2 * n));
        println!(
            "{n:5} groups: mul {:9.2} {:9.2}, by ten times as many {:9.2} {:9.2}, div {:9.2} {:9.2} us",
            time_us(|| schoolbook_product(&a, &b)),
            time_us(|| mul_groups(&a, &b)),
            time_us(|| schoolbook_product(&a, &[&c[..]; 5].concat())),
            time_us(|| mul_groups(&a, &[&c[..]; 5].concat())),
            time_us(|| long_division(&c, &b, n)),
            time_us(|| div_groups(&c, &b, n)),
        );
        let (x, y) = (to_limbs(&a), to_limbs(&b));
        let mut product = vec![0; x.len() + y.len()];
        println!(
            "{:5} limbs: schoolbook {:9.2}, transform {:9.2} us",
            x.len(),
            time_us(|| mul_schoolbook(&x, &y, &mut product)),
            time_us(|| transform::mul(&x, &y, &mut product)),
        );
    }
}

#[test]
#[ignore = "measures"]
fn longest() {
    let (a_text, b_text) = (number(131_000), number(65_000));
    show("parse 131000 digits", || parsed(&a_text));
    let (a, b) = (parsed(&a_text), parsed(&b_text));
    show("print 131000 digits", || a.to_string());
    let hex = format!("0x{}", "f1".repeat(54_000));
    show("parse 108000 hexadecimal digits", || parsed(&hex));
    show("131000 digits * 65000", || a.mul(&b));
    show("131000 digits * 1000", || a.mul(&parsed(&number(1000))));
    show("131000 digits / 65000", || a.div(&b).unwrap());
    show("131000 digits / 1000", || a.div(&parsed(&number(1000))).unwrap());
    show("131000 digits / 130000", || a.div(&parsed(&number(130_000))).unwrap());
    show("131000 digits % 65000", || a.rem(&b).unwrap());
    let power = |n: i64| GroupedNumeric::from(10i64).power(&GroupedNumeric::from(n)).unwrap();
    let (c, d) = (power(131_000).sub(&GroupedNumeric::one()), power(65_000).sub(&GroupedNumeric::one()));
    show("(10^131000 - 1) / (10^65000 - 1)", || c.div(&d).unwrap());
    let full = parsed(&format!("{}.{}", number(131_072), number(16_383)));
    show("147455 digits * 147455", || full.mul(&full.clone()));
    show("147455 digits / 16383", || full.div(&parsed(&format!("7.{}", number(16_383)))).unwrap());
    show("sqrt of 147455 digits", || full.sqrt().unwrap());
    show("ln of 147455 digits", || full.ln().unwrap());
    show("ln of 16383 decimals near 0", || parsed(&format!("0.{}1", "0".repeat(16_000))).ln().unwrap());
    show("log of 147455 digits", || GroupedNumeric::log(&GroupedNumeric::from(10i64), &full).unwrap());
    show("exp of 5999 and 16000 decimals", || parsed(&format!("5999.{}", number(16_000))).exp().unwrap());
    show("exp of -5999", || parsed(&format!("-5999.{}", number(1000))).exp().unwrap());
    show("power of 1000 decimals", || {
        parsed(&format!("7.{}", number(1000))).power(&parsed(&format!("2000.{}", number(1000)))).unwrap()
    });
    show("2 ^ 435000", || GroupedNumeric::from(2i64).power(&GroupedNumeric::from(435_000i64)).unwrap());
    show("1.000001 ^ 2147483647", || parsed("1.000001").power(&GroupedNumeric::from(2_147_483_647i64)).unwrap());
    show("gcd of 100000 digits", || parsed(&number(100_000)).gcd(&parsed(&number(99_999))).unwrap());
    show("gcd of 147455 digits", || full.gcd(&parsed(&format!("{}.5", number(131_071)))).unwrap());
    show("lcm of 60000 digits", || parsed(&number(60_000)).lcm(&parsed(&number(59_999))).unwrap());
    show("32177!", || factorial(32_177).unwrap());
}

#[test]
#[ignore = "measures"]
fn short() {
    for text in ["1.5", "123456.789", "12345678901234567890.123456789012345678"] {
        let (a, b) = (parsed(text), parsed("98765.4321"));
        println!(
            "{text}: mul {:.3}, div {:.3}, rem {:.3}, sqrt {:.3}, ln {:.3}, exp(1.5) {:.3}, gcd {:.3}, print {:.3}, \
             parse {:.3} us",
            time_us(|| a.mul(&b)),
            time_us(|| a.div(&b)),
            time_us(|| a.rem(&b)),
            time_us(|| a.sqrt()),
            time_us(|| a.ln()),
            time_us(|| parsed("1.5").exp()),
            time_us(|| a.gcd(&b)),
            time_us(|| a.to_string()),
            time_us(|| parsed(text)),
        );
    }
}
