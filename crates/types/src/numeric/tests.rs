//! The two forms of a number say the same of it, and compute the same.

use super::*;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Numbers of all lengths and scales, with those at the ends of what is short.
struct Numbers(u64);
impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn number(&mut self) -> Numeric {
        let decimals = (self.next() % 19) as i32;
        let value = match self.next() % 8 {
            0 => 0,
            1 => i64::MAX - (self.next() % 3) as i64,
            2 => 10i64.pow((self.next() % 19) as u32),
            3 => 5 * 10i64.pow((self.next() % 18) as u32),
            _ => (self.next() >> (1 + self.next() % 63)) as i64,
        };
        let number =
            Numeric::from_scaled(i128::from(if self.next().is_multiple_of(2) { value } else { -value }), decimals);
        assert!(matches!(number, Short(_)), "{number} is short");
        number
    }
}

/// How a number looks, with its display scale.
fn shown(number: &Numeric) -> String {
    let (form, scale) = (if matches!(number, Short(_)) { "short" } else { "grouped" }, number.dscale());
    format!("{number} ({form}, {scale})")
}
fn of(result: Result<Numeric>) -> String {
    result.map_or_else(|e| e.message().to_string(), |number| shown(&number))
}
fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn both_forms_compute_the_same() {
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    for _ in 0..30_000 {
        let (a, b) = (numbers.number(), numbers.number());
        let (long_a, long_b) = (a.grouped().into_owned(), b.grouped().into_owned());
        let long = |result: GroupedNumeric| shown(&result.into());
        let told = format!("{} and {}", shown(&a), shown(&b));
        assert_eq!(shown(&a.add(&b)), long(long_a.add(&long_b)), "sum of {told}");
        assert_eq!(shown(&a.sub(&b)), long(long_a.sub(&long_b)), "difference of {told}");
        assert_eq!(shown(&a.mul(&b)), long(long_a.mul(&long_b)), "product of {told}");
        assert_eq!(of(a.div(&b)), of(long_a.div(&long_b).map(Numeric::from)), "quotient of {told}");
        assert_eq!(of(a.rem(&b)), of(long_a.rem(&long_b).map(Numeric::from)), "rest of {told}");
        assert_eq!(a.cmp(&b), long_a.cmp(&long_b), "order of {told}");
        assert_eq!(shown(&a.neg()), long(long_a.neg()), "{told}");
        assert_eq!(shown(&a.abs()), long(long_a.abs()), "{told}");
        assert_eq!(shown(&a.ceil()), long(long_a.ceil()), "{told}");
        assert_eq!(shown(&a.floor()), long(long_a.floor()), "{told}");
        assert_eq!(shown(&a.trim_scale()), long(long_a.trim_scale()), "{told}");
        assert_eq!(a.min_scale(), long_a.min_scale(), "{told}");
        assert_eq!(a.is_integral(), long_a.is_integral(), "{told}");
        assert_eq!(a.to_i128(), long_a.to_i128(), "{told}");
        assert_eq!(a.to_f64(), long_a.to_f64(), "{told}");
        let scale = (numbers.next() % 48) as i32 - 24;
        assert_eq!(shown(&a.round_to(scale)), long(long_a.round_to(scale)), "{told}, to {scale}");
        assert_eq!(shown(&a.trunc_to(scale)), long(long_a.trunc_to(scale)), "{told}, to {scale}");
        let (precision, scale) = (1 + (numbers.next() % 24) as i32, (numbers.next() % 30) as i32 - 8);
        let typmod = ((precision << 16) | (scale & 0x7ff)) + 4;
        let declared = |result: Result<GroupedNumeric>| of(result.map(Numeric::from));
        assert_eq!(
            of(a.apply_typmod(typmod)),
            declared(long_a.apply_typmod(typmod)),
            "{told} as numeric({precision},{scale})"
        );
    }
}

#[test]
fn both_forms_look_the_same() {
    let mut numbers = Numbers(0xfeed_5678_9abc_def1);
    for _ in 0..30_000 {
        let number = numbers.number();
        let long = number.grouped().into_owned();
        assert_eq!(number.to_string(), long.to_string());
        assert_eq!(shown(&Numeric::parse(&long.to_string()).unwrap()), shown(&number));
        assert_eq!(shown(&long.clone().into()), shown(&number), "there and back");
        let long = Grouped(Arc::new(long));
        assert_eq!(hash(&number), hash(&long), "{number}");
        assert_eq!(number.hash_parts(), long.hash_parts(), "{number}");
        let (mut bytes, mut as_long) = (Vec::new(), Vec::new());
        crate::row::put_numeric(&number, &mut bytes);
        crate::row::put_numeric(&long, &mut as_long);
        assert_eq!(bytes, as_long, "{number}");
        assert_eq!(shown(&crate::row::get_numeric(&bytes).unwrap()), shown(&number));
    }
}

/// What [`ShortNumeric::parse`] takes is what the long way makes of it.
#[test]
fn texts_are_read_as_the_long_way_reads_them() {
    let texts = [
        "0",
        "-0",
        "00",
        "-0.00",
        "1",
        "-1",
        "+1",
        "007",
        "1.",
        ".5",
        "-.5",
        "1.50",
        "1e3",
        "0x1f",
        "1_000",
        " 1 ",
        "--1",
        "-",
        "",
        ".",
        "1.2.3",
        "123456789012345678",
        "1234567890123456789",
        "0.123456789012345678",
        "0.1234567890123456789",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "999999999999999999.9",
        "NaN",
        "Infinity",
        "1a",
    ];
    for text in texts {
        assert_eq!(of(Numeric::parse(text)), of(GroupedNumeric::parse(text).map(Numeric::from)), "{text:?}");
    }
}
