//! The vector form of each function against the function itself.

use super::{Rows, Vector};
use crate::functions::{self, FunctionKind, descriptor::descriptors};
use crate::numeric::Numeric;
use crate::{Datum, EvalContext};

/// A generator that a test can run again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
    /// Small numbers, and the ends of the range.
    fn integer(&mut self, bits: u32) -> i64 {
        let (min, max) = (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1);
        match self.below(8) {
            0 => (min + i128::from(self.below(3))) as i64,
            1 => (max - i128::from(self.below(3))) as i64,
            _ => self.below(40) as i64 - 20,
        }
    }
}

/// Types of arguments, by the names of functions that take them. None: it is a type that nothing is known of here.
fn kinds(name: &str, count: usize) -> Option<Vec<&'static str>> {
    const PREFIXES: [(&str, &str, &str); 29] = [
        ("date_pli", "date", "int4"),
        ("date_mii", "date", "int4"),
        ("date_eq_timestamp", "date", "timestamp"),
        ("date_ne_timestamp", "date", "timestamp"),
        ("date_lt_timestamp", "date", "timestamp"),
        ("date_le_timestamp", "date", "timestamp"),
        ("date_gt_timestamp", "date", "timestamp"),
        ("date_ge_timestamp", "date", "timestamp"),
        ("date_", "date", "date"),
        ("timestamptz_", "timestamptz", "timestamptz"),
        ("timestamp_", "timestamp", "timestamp"),
        ("time_", "time", "time"),
        ("numeric_", "numeric", "numeric"),
        ("float8", "float8", "float8"),
        ("bool", "bool", "bool"),
        ("oid", "oid", "oid"),
        ("char", "char", "char"),
        ("bpchar", "text", "text"),
        ("text", "text", "text"),
        ("int84", "int8", "int4"),
        ("int82", "int8", "int2"),
        ("int28", "int2", "int8"),
        ("int24", "int2", "int4"),
        ("int42", "int4", "int2"),
        ("int2", "int2", "int2"),
        ("int48", "int4", "int8"),
        ("int4", "int4", "int4"),
        ("int8", "int8", "int8"),
        ("like", "text", "text"),
    ];
    let flipped = name.strip_prefix("timestamp_").is_some_and(|rest| rest.ends_with("_date"));
    let pair = match name {
        _ if flipped => ("timestamp", "date"),
        "jsonb_object_field" | "jsonb_object_field_text" => ("jsonb", "key"),
        "notlike" | "length" => ("text", "text"),
        "mod" | "numeric" | "float8" => ("int4", "int4"),
        "int4" => ("int8", "int8"),
        _ => PREFIXES.iter().find(|(prefix, ..)| name.starts_with(prefix)).map(|(_, a, b)| (*a, *b))?,
    };
    Some([pair.0, pair.1][..count].to_vec())
}

/// Types of the arguments of functions of texts, by OID. None: it is no such function.
fn kinds_of_text(function: u32) -> Option<&'static [&'static str]> {
    Some(match function {
        1317 | 1369 | 1381 | 1318 | 1367 | 1372 | 1374 | 1375 | 1811 => &["text"],
        870 | 871 | 6412 | 3062 | 2311 | 1620 | 885 | 881 | 882 => &["text"],
        884 | 875 | 876 | 849 | 868 | 3696 => &["text", "text"],
        877 | 936 => &["text", "place", "count"],
        883 | 937 | 3060 | 3061 => &["text", "place"],
        879 | 880 | 1622 => &["text", "count"],
        873 | 874 => &["text", "count", "text"],
        2087 => &["text", "text", "text"],
        2088 => &["text", "text", "count"],
        1621 => &["count"],
        2003 => &["text", "shown"],
        2004 => &["shown", "text"],
        _ => return None,
    })
}

/// A number of characters, mostly few; `least` is what it mostly is at least.
fn count(least: i32, random: &mut Random) -> Datum {
    Datum::Int4(match random.below(150) {
        0 => i32::MAX,
        1 => i32::MIN,
        2 => -1,
        _ => least + random.below(8) as i32,
    })
}

fn value(kind: &str, random: &mut Random) -> Datum {
    match kind {
        "count" => count(1, random),
        "place" => count(-3, random),
        "int2" => Datum::Int2(random.integer(16) as i16),
        "int4" => Datum::Int4(random.integer(32) as i32),
        "int8" => Datum::Int8(random.integer(64)),
        "date" => Datum::Date(random.integer(32) as i32),
        "timestamp" => Datum::Timestamp(match random.below(2) {
            0 => random.integer(64),
            _ => (random.below(40) as i64 - 20) * 86_400_000_000,
        }),
        "timestamptz" => Datum::TimestampTz(random.integer(64)),
        "time" => Datum::Time(random.below(86_400_000_000) as i64),
        "numeric" => {
            let decimals = if random.below(4) > 0 { 2 } else { random.below(19) };
            let mut digits = random.integer(62).to_string();
            if decimals > 0 {
                let sign = if digits.starts_with('-') { 1 } else { 0 };
                while digits.len() - sign <= decimals as usize {
                    digits.insert(sign, '0');
                }
                digits.insert(digits.len() - decimals as usize, '.');
            }
            let text = if random.below(50) == 0 { "NaN" } else { &digits };
            Datum::Numeric(Numeric::parse(text).unwrap())
        }
        "float8" => Datum::Float8(random.pick(&[0.0, -0.0, 1.5, -2.25, 1e308, 1e-308, f64::NAN, f64::INFINITY])),
        "bool" => Datum::Bool(random.below(2) == 0),
        "oid" => Datum::Oid(random.pick(&[0, 1, 7, u32::MAX])),
        "char" => Datum::Char(random.pick(b"ab\x80")),
        "key" => Datum::text(random.pick(&["a", "b", "ab"])),
        "jsonb" => {
            let text = random.pick(&[
                r#"{"a": 1.50, "b": "x"}"#,
                r#"{"a": null, "b": true}"#,
                r#"{"a": [1], "ab": {"a": 2}}"#,
                r#"{"b": "ä"}"#,
                "[1]",
                "7",
            ]);
            crate::looks::with_context(|context| crate::io::input(crate::oids::JSONB, text, -1, context)).unwrap()
        }
        _ => {
            const TEXTS: [&str; 18] = [
                "",
                "a",
                "a ",
                "ab",
                "äb",
                "abab",
                "xaby",
                "%",
                "a%",
                "%b%",
                "a_",
                "\\%",
                "%äb",
                " AB ",
                "Straße",
                "İß",
                "ä",
                "日本語",
            ];
            Datum::text(random.pick(&TEXTS))
        }
    }
}

fn vector(kind: &str, rows: usize, is_uniform: bool, random: &mut Random) -> Vector {
    if random.below(4) == 0 {
        return Vector::constant(value(kind, random));
    }
    let mut vector = Vector::default();
    vector.start(rows);
    for row in 0..rows {
        let next = if is_uniform {
            // Values that no operation fails for.
            match value(kind, random) {
                Datum::Int4(v) if kind == "int4" => Datum::Int4(v % 1000 + 1001),
                Datum::Int4(v) if kind == "count" => Datum::Int4(v.clamp(1, 9)),
                Datum::Int8(v) => Datum::Int8(v % 1000 + 1001),
                Datum::Date(v) => Datum::Date(v % 10_000),
                Datum::Numeric(_) => {
                    Datum::Numeric(Numeric::parse(&format!("{}.{:02}", random.below(1000), random.below(100))).unwrap())
                }
                Datum::Float8(_) => Datum::Float8(random.below(1000) as f64 / 8.0 + 1.0),
                other => other,
            }
        } else {
            value(kind, random)
        };
        vector.put(row, next);
    }
    vector
}

/// Where the vector form says that it has results, they are the function's, at exactly the rows that were asked for.
#[test]
fn vector_forms_compute_what_their_functions_do() {
    crate::looks::with_context(check_forms);
}

fn check_forms(context: &EvalContext<'_>) {
    let mut random = Random(7);
    let mut checked = 0;
    for d in descriptors() {
        let Some(form) = d.vector else { continue };
        let FunctionKind::Scalar(scalar) = d.kind else { panic!("{}: only scalar functions have a form", d.name) };
        assert!(d.strict, "{}", d.name);
        let arguments = if matches!(d.oid, 1257 | 481 | 754 | 1740 | 1781 | 1782 | 235 | 316 | 482) { 1 } else { 2 };
        let kinds: Vec<&str> = match d.oid {
            oid if kinds_of_text(oid).is_some() => kinds_of_text(oid).unwrap_or_default().to_vec(),
            945 | 947 | 1781 | 482 => vec!["int8"; arguments],
            481 | 1740 | 316 => vec!["int4"; arguments],
            754 | 1782 | 235 => vec!["int2"; arguments],
            _ => kinds(d.name, arguments).unwrap_or_else(|| panic!("{} takes what?", d.name)),
        };
        let mut computed = 0;
        for round in 0..300 {
            let rows = 1 + random.below(70) as usize;
            let kind_of = |kind: &'static str, random: &mut Random| match kind {
                "shown" => random.pick(&["int2", "int4", "int8", "numeric", "bool", "text"]),
                kind => kind,
            };
            let arg = |kind: &&'static str| {
                let kind = kind_of(kind, &mut random);
                vector(kind, rows, round % 2 == 0, &mut random)
            };
            let args: Vec<Vector> = kinds.iter().map(arg).collect();
            let refs: Vec<&Vector> = args.iter().collect();
            let listed: Vec<u32> = (0..rows as u32).filter(|_| random.below(3) > 0).collect();
            let wanted = if random.below(2) == 0 { Rows::All(rows) } else { Rows::Listed(&listed, rows) };
            let mut out = Vector::default();
            if !form(wanted, &refs, &mut out) {
                continue;
            }
            computed += 1;
            wanted.each(|row| {
                let values: Vec<Datum> = args.iter().map(|arg| arg.get(row).unwrap()).collect();
                let expected = scalar(context, &values).unwrap_or_else(|e| panic!("{} {values:?}: {e:?}", d.name));
                let found = out.get(row).unwrap();
                assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{}({}) of {values:?}", d.name, d.oid);
            });
        }
        assert!(computed > 0, "{} ({}): its form never computes anything", d.name, d.oid);
        checked += 1;
    }
    assert!(checked > 125, "{checked}");
    assert!(functions::descriptor(177).is_some_and(|d| d.vector.is_none()), "int4pl is a step of its own");
}

/// What a form gives is what `expected` gives for each row, NULLs among the arguments left out.
fn check_cast(
    form: super::VectorFn,
    arg: &Vector,
    rows: usize,
    expected: impl Fn(&Datum) -> kilndb_base::Result<Datum>,
) -> bool {
    let listed: Vec<u32> = (0..rows as u32).filter(|row| !arg.is_null(*row as usize)).collect();
    let mut out = Vector::default();
    if !form(Rows::of(&listed, rows), &[arg], &mut out) {
        return false;
    }
    for row in listed {
        let value = arg.get(row as usize).unwrap();
        let expected = expected(&value).unwrap_or_else(|e| panic!("{value:?}: {e:?}"));
        assert_eq!(format!("{:?}", out.get(row as usize).unwrap()), format!("{expected:?}"), "{value:?}");
    }
    true
}

fn vector_of(values: Vec<Datum>) -> Vector {
    let mut vector = Vector::default();
    vector.start(values.len());
    values.into_iter().enumerate().for_each(|(row, value)| vector.put(row, value));
    vector
}

#[test]
fn casts_through_text_compute_what_their_types_do() {
    use crate::oids::*;
    const TEXTS: [&str; 24] = [
        "0",
        "1",
        "-1",
        "+7",
        " 42 ",
        "32767",
        "32768",
        "-2147483648",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "1.5",
        "-0.00",
        "1e3",
        "NaN",
        "Infinity",
        "0x1f",
        "1_000",
        "2000-02-29",
        "2001-02-29",
        "2000-02-29 12:34:56.5",
        "123456789012345678901234567890.5",
        "",
        "x",
    ];
    let mut random = Random(17);
    let targets = [INT2, INT4, INT8, NUMERIC, FLOAT8, DATE, TIMESTAMP];
    crate::looks::with_context(|context| {
        for to in targets {
            let form = super::conversion(TEXT, to).unwrap();
            let cast = |value: &Datum| crate::cast::cast_via_text(TEXT, to, value, -1, false, context);
            let mut computed = 0;
            for _ in 0..600 {
                let rows = 1 + random.below(4) as usize;
                let text = |random: &mut Random| match random.below(8) {
                    0 => Datum::Null,
                    _ => Datum::text(random.pick(&TEXTS)),
                };
                let arg = vector_of((0..rows).map(|_| text(&mut random)).collect());
                computed += usize::from(check_cast(form, &arg, rows, cast));
            }
            assert!(computed > 0, "{to}");
        }
        for (from, kind) in [(INT2, "int2"), (INT4, "int4"), (INT8, "int8"), (NUMERIC, "numeric")] {
            let form = super::conversion(from, TEXT).unwrap();
            let cast = |value: &Datum| crate::cast::cast_via_text(from, TEXT, value, -1, false, context);
            let values = (0..90).map(|_| value(kind, &mut random)).collect();
            assert!(check_cast(form, &vector_of(values), 90, cast) || kind == "numeric");
        }
    });
    assert!(super::conversion(BPCHAR, INT4).is_none() && super::conversion(TEXT, TIMESTAMPTZ).is_none());
}

#[test]
fn modifiers_are_applied_to_numerics() {
    use crate::oids::NUMERIC;
    let typmod = ((6 << 16) | 1) + 4;
    let numbers =
        |texts: &[&str]| vector_of(texts.iter().map(|text| Datum::Numeric(Numeric::parse(text).unwrap())).collect());
    let apply =
        |arg: &Vector, out: &mut Vector| super::apply_typmod(NUMERIC, typmod, Rows::All(arg.positions), &[arg], out);
    let (arg, mut out) = (numbers(&["1.25", "-0.05", "99999.94"]), Vector::default());
    assert!(apply(&arg, &mut out));
    for (row, expected) in ["1.3", "-0.1", "99999.9"].iter().enumerate() {
        let expected = Datum::Numeric(Numeric::parse(expected).unwrap());
        assert_eq!(format!("{:?}", out.get(row).unwrap()), format!("{expected:?}"));
    }
    assert!(!apply(&numbers(&["1.25", "99999.95"]), &mut out), "more digits than there is room for");
}

#[test]
fn any_value_comes_back_from_a_vector() {
    let mut random = Random(11);
    let kinds =
        ["int2", "int4", "int8", "date", "timestamp", "time", "numeric", "float8", "bool", "oid", "char", "text"];
    for _ in 0..2000 {
        let rows = 1 + random.below(100) as usize;
        let mixed = random.below(3) == 0;
        let kind = random.pick(&kinds);
        let mut vector = Vector::default();
        // Values of an earlier batch do not show.
        vector.start(5);
        vector.put(3, value(random.pick(&kinds), &mut random));
        vector.start(rows);
        let mut expected = vec![Datum::Null; rows];
        for _ in 0..2 * rows {
            let row = random.below(rows as u64) as usize;
            let kind = if mixed { random.pick(&kinds) } else { kind };
            let next = if random.below(5) == 0 { Datum::Null } else { value(kind, &mut random) };
            vector.put(row, next.clone());
            expected[row] = next;
        }
        for (row, expected) in expected.iter().enumerate() {
            if matches!(expected, Datum::Null) && !vector.is_null(row) {
                // A position that was never written.
                continue;
            }
            assert_eq!(format!("{:?}", vector.get(row).unwrap()), format!("{expected:?}"));
            let (mut as_vector, mut as_value) = (Vec::new(), Vec::new());
            vector.append_key(0, row, &mut as_vector).unwrap();
            crate::key::hash_equal_key(0, expected, &mut as_value).unwrap();
            assert_eq!(as_vector, as_value);
        }
    }
}

#[test]
fn rows_are_gathered_and_appended() {
    let mut random = Random(13);
    let kinds = ["int4", "int8", "date", "numeric", "float8", "bool", "text", "oid"];
    for _ in 0..600 {
        let mut whole = Vector::default();
        let mut expected: Vec<Datum> = Vec::new();
        let kind = random.pick(&kinds);
        for _ in 0..random.below(4) {
            let rows = 1 + random.below(80) as usize;
            let kind = if random.below(8) == 0 { random.pick(&kinds) } else { kind };
            let mut part = Vector::default();
            part.start(rows);
            for row in 0..rows {
                part.put(row, if random.below(9) == 0 { Datum::Null } else { value(kind, &mut random) });
            }
            let listed: Vec<u32> = (0..rows as u32).filter(|_| random.below(3) > 0).collect();
            let taken = if random.below(2) == 0 { Rows::All(rows) } else { Rows::Listed(&listed, rows) };
            whole.extend(&part, taken).unwrap();
            taken.each(|row| expected.push(part.get(row).unwrap()));
        }
        for (row, value) in expected.iter().enumerate() {
            assert_eq!(format!("{:?}", whole.get(row).unwrap()), format!("{value:?}"));
        }
        let pick = |random: &mut Random| match random.below(expected.len() as u64 + 1) {
            0 => super::NO_ROW,
            n => n as u32 - 1,
        };
        let list: Vec<u32> = (0..random.below(90)).map(|_| pick(&mut random)).collect();
        let mut gathered = Vector::default();
        gathered.start(3);
        gathered.put(1, value(kind, &mut random));
        gathered.gather(&whole, &list).unwrap();
        for (at, row) in list.iter().enumerate() {
            let value = expected.get(*row as usize).cloned().unwrap_or_default();
            assert_eq!(format!("{:?}", gathered.get(at).unwrap()), format!("{value:?}"));
        }
    }
}
