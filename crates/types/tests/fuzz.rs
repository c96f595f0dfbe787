//! The fuzz target of fuzz/targets/types.rs over changed and random values, repeatable.

#[path = "../../../fuzz/generate.rs"]
#[allow(dead_code)]
mod generate;
#[path = "../../../fuzz/targets/types.rs"]
mod target;

use generate::Generator;

const TEXTS: &[&str] = &[
    "t",
    "off",
    "-32768",
    "2147483647",
    "9223372036854775807",
    "4294967295",
    "0x1f",
    "0b101",
    "1_000",
    "-0",
    "1.50",
    "1e-30",
    "-12345.678e20",
    "NaN",
    "-Infinity",
    "inf",
    "1e308",
    "5e-324",
    "3.4e38",
    "\\xdeadbeef",
    "\\000a\\\\",
    "a",
    "\\377",
    "héllo",
    "  x ",
    "",
    "2024-02-29",
    "1999-01-08 BC",
    "January 8, 1999",
    "8-Jan-99",
    "J2451187",
    "y2001m02d04",
    "epoch",
    "5874897-12-31",
    "294276-12-31 23:59:59.999999",
    "4714-11-24 BC",
    "04:05:06.789-08",
    "24:00:00",
    "23:59:60",
    "040506.789+08:15:30",
    "2004-10-19 10:23:54+02",
    "Wed Dec 17 07:37:16 1997 PST",
    "20040102T101112Z",
    "12/31/99 11:59 PM",
    "infinity",
    "1 year 2 mons -3 days 04:05:06.7",
    "@ 1 year ago",
    "P1Y2M3DT4H5M6.5S",
    "P0001-02-03T04:05:06",
    "-1-2 +3 -4:05:06",
    "1.5 months",
    "178956970 years 7 mons 2147483647 days 2562047788:00:54.775807",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "{A0EEBC999C0B4EF8-BB6D6BB9BD380A11}",
    "(0,1)",
    "(4294967295,65535)",
    "16/B374D848",
    "0/0",
    "101",
    "B1",
    "XfF",
    "{\"a\": [1, null, \"\\u00e9\"]}",
    "[1e5]",
    "10.1.2.3/8",
    "10.1/16",
    "::ffff:1.2.3.4/96",
    "2001:db8::/32",
    "08:00:2b:01:02:03",
    "08002b.010203",
    "12:20:13,15",
    "[1,5)",
    "(1.5,]",
    "empty",
    "[2020-01-01,infinity)",
    "(2020-01-01 10:00,\"2021-01-01 11:00\"]",
    "{[1,3),(5,7],(9,)}",
    "{[2020-01-01,2020-02-01)}",
    "{}",
    "{1,2,NULL}",
    "{{1,2},{3,4}}",
    "[0:1]={1,2}",
    "[-1:0][2:2]={{a},{\"b,\\\"c\"}}",
    "{\"NULL\",null,\"\",\\ }",
    "a=>1, \"b c\"=>\"x\\\"y\", d => NULL",
    "\\=a=>q=w,aa=>NuLl",
    "{\"a=>1\",NULL,\"\\\"b\\\"=>\\\"2\\\"\"}",
    "1 2 3",
    "(1,two,\"{1.0,NaN}\")",
    "(,,)",
    "{\"(1,\\\"a b\\\",)\"}",
];

/// `value` as text and as binary.
fn run(which: u8, format: u8, modifier: u8, value: &[u8]) {
    let mut data = vec![which, format, modifier];
    data.extend_from_slice(value);
    target::run(&data);
}

#[test]
fn texts_of_every_type_come_back() {
    for which in 0..target::TYPES.len() {
        for text in TEXTS {
            for format in 0..192 {
                run(which as u8, format, 0, text.as_bytes());
            }
            for modifier in [192, 193, 195, 200, 210] {
                run(which as u8, 0, modifier, text.as_bytes());
            }
        }
    }
}

#[test]
fn changed_texts_are_refused_or_come_back() {
    let mut random = Generator(1);
    let all: Vec<&[u8]> = TEXTS.iter().map(|s| s.as_bytes()).collect();
    for _ in 0..400_000 {
        let mut value = random.one_of(&all).to_vec();
        random.mutate(&mut value, &all);
        run(random.byte(), random.byte(), random.byte(), &value);
    }
}

#[test]
fn random_bytes_are_refused_or_come_back() {
    let mut random = Generator(2);
    for _ in 0..400_000 {
        let value: Vec<u8> = (0..random.one_of(&[&[1usize, 2, 4, 6, 8][..], &[10, 12, 16, 20, 24, 28, 40]])
            [random.below(5)])
            .map(|_| if random.below(3) == 0 { 0 } else { random.byte() })
            .collect();
        run(random.byte(), random.byte(), random.byte(), &value);
    }
}

/// Arrays, records and numerics in binary have a head that random bytes seldom hit.
#[test]
fn structured_binary_values_are_refused_or_come_back() {
    let mut random = Generator(3);
    for _ in 0..200_000 {
        let which = random.below(target::TYPES.len());
        let element = target::TYPES[which].1;
        let mut value = Vec::new();
        if element != 0 {
            let (rows, columns) = (random.below(3) as u32, random.below(3) as u32);
            value.extend_from_slice(&2u32.to_be_bytes());
            value.extend_from_slice(&1u32.to_be_bytes());
            value.extend_from_slice(&element.to_be_bytes());
            for length in [rows, columns] {
                value.extend_from_slice(&length.to_be_bytes());
                value.extend_from_slice(&(random.below(5) as i32 - 1).to_be_bytes());
            }
            for _ in 0..rows * columns {
                let length = random.one_of(&[&[1u32, 2, 4][..], &[8, 10, u32::MAX]])[random.below(3)];
                value.extend_from_slice(&length.to_be_bytes());
                value.extend((0..if length == u32::MAX { 0 } else { length }).map(|_| random.byte() & 0x3f));
            }
        } else {
            // A numeric: digits, weight, sign, scale.
            let digits = random.below(4) as u16;
            value.extend_from_slice(&digits.to_be_bytes());
            for part in [
                random.below(5) as u16,
                random.one_of(&[&[0u16, 0x4000][..], &[0xc000, 0xf000]])[random.below(2)],
                random.below(20) as u16,
            ] {
                value.extend_from_slice(&part.to_be_bytes());
            }
            for _ in 0..digits {
                value.extend_from_slice(&(random.below(10_001) as u16).to_be_bytes());
            }
        }
        if random.below(4) == 0 {
            random.mutate(&mut value, &[b"\0\0\0\x01"]);
        }
        run(which as u8, random.byte(), random.byte(), &value);
    }
}
