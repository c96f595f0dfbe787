//! Operator classes of inverted indexes: where an operator says yes, the value has the terms that the condition needs.

#[path = "../../../fuzz/generate.rs"]
#[allow(dead_code)]
mod generate;

use generate::Generator;
use kilndb_types::context::NoHost;
use kilndb_types::functions;
use kilndb_types::inverted::InvertedClass;
use kilndb_types::oids::*;
use kilndb_types::{Array, Datum, EvalContext, FormatSettings, io};
use std::cell::Cell;

const COLUMN: u8 = 2;

fn with_context<R>(f: impl FnOnce(&EvalContext<'_>) -> R) -> R {
    let (format, random_state) = (FormatSettings::default(), Cell::new([1, 2]));
    f(&EvalContext {
        format: &format,
        transaction_timestamp: 0,
        statement_timestamp: 0,
        host: &NoHost,
        random_state: &random_state,
        clock_was_read: None,
    })
}

fn read(type_oid: u32, text: &str) -> Option<Datum> {
    with_context(|ctx| io::input(type_oid, text, -1, ctx).ok())
}

/// Checks one pair; whether the operator (a function's OID) said yes, and whether the terms said no.
fn check(class: InvertedClass, strategy: u16, function: u32, value: &Datum, query: &Datum) -> (bool, bool) {
    let answer = with_context(|ctx| {
        functions::lookup(function).expect("a built-in function")(ctx, &[value.clone(), query.clone()])
    });
    // What cannot be evaluated is not found.
    let yes = matches!(answer, Ok(Datum::Bool(true)));
    let mut terms = Vec::new();
    class.terms(COLUMN, value, &mut terms).expect("terms of a value");
    assert!(terms.is_sorted_by(|a, b| a < b), "{value:?}: {terms:?}");
    assert!(terms.iter().all(|t| t[0] >> 2 == COLUMN), "{terms:?}");
    let asked = class.query(COLUMN, strategy, query, &FormatSettings::default().trigram).expect("terms of a condition");
    let met = asked.need.is_met(&mut |n| asked.wanted[n].is_among(&terms));
    assert!(met || !yes, "{class:?} {strategy} {value:?} {query:?}: {asked:?}");
    (yes, !met)
}

struct Tally(u32, u32, u32);
impl Tally {
    fn add(&mut self, (yes, no): (bool, bool)) {
        self.0 += 1;
        self.1 += u32::from(yes);
        self.2 += u32::from(no);
    }
    /// Both answers must have come often enough to mean something.
    fn check(&self) {
        let Tally(all, yes, no) = self;
        assert!(yes * 50 > *all && no * 20 > *all, "{yes} of {all} found, {no} ruled out");
    }
}

fn array(random: &mut Generator) -> Datum {
    let elements: Vec<Datum> = (0..random.below(5))
        .map(|_| if random.below(9) == 0 { Datum::Null } else { Datum::Int4(random.below(6) as i32 - 2) })
        .collect();
    let dims = if elements.is_empty() { Vec::new() } else { vec![(1, elements.len() as u32)] };
    Datum::Array(std::sync::Arc::new(Array { element_type: INT4, dims, elements }))
}

#[test]
fn arrays() {
    let mut random = Generator(7);
    // arrayoverlap, arraycontains, arraycontained, array_eq
    for (strategy, function) in [(1, 2747), (2, 2748), (3, 2749), (4, 744)] {
        let mut tally = Tally(0, 0, 0);
        for _ in 0..20_000 {
            let (value, query) = (array(&mut random), array(&mut random));
            tally.add(check(InvertedClass::Array(INT4), strategy, function, &value, &query));
        }
        tally.check();
    }
}

const WORDS: &[&str] = &["a", "ab", "abc", "b", "bc", "c"];

fn document(random: &mut Generator) -> String {
    let weights: &[&str] = &["", "A", "B", "C"];
    (0..random.below(6)).map(|i| format!("{}:{}{} ", random.one_of(WORDS), i + 1, random.one_of(weights))).collect()
}
fn search(random: &mut Generator, depth: usize) -> String {
    if depth == 0 || random.below(3) == 0 {
        let suffix: &[&str] = &["", "", "", ":*", ":A", ":*BC"];
        return format!("{}{}", random.one_of(WORDS), random.one_of(suffix));
    }
    let (l, r) = (search(random, depth - 1), search(random, depth - 1));
    match random.below(5) {
        0 => format!("!({l})"),
        1 => format!("({l}) | ({r})"),
        2 => format!("({l}) <-> ({r})"),
        3 => format!("({l}) <2> ({r})"),
        _ => format!("({l}) & ({r})"),
    }
}

#[test]
fn documents() {
    let mut random = Generator(8);
    let mut tally = Tally(0, 0, 0);
    for _ in 0..60_000 {
        let value = read(TSVECTOR, &document(&mut random)).expect("a tsvector");
        let query = read(TSQUERY, &search(&mut random, 3)).expect("a tsquery");
        tally.add(check(InvertedClass::TsVector, 1, 3634, &value, &query));
    }
    tally.check();
}

const LONG: &str = "\"long enough to be hashed: 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789\"";
const SCALARS: &[&str] = &["1", "1.0", "2", "-3", "\"a\"", "\"b\"", "\"x\"", "true", "false", "null", LONG];
const KEYS: &[&str] = &["a", "b", "c"];

fn json(random: &mut Generator, depth: usize) -> String {
    if depth == 0 || random.below(4) == 0 {
        return random.one_of(SCALARS).to_string();
    }
    let count = random.below(4);
    if random.below(2) == 0 {
        let list: Vec<String> = (0..count).map(|_| json(random, depth - 1)).collect();
        return format!("[{}]", list.join(", "));
    }
    let list: Vec<String> =
        (0..count).map(|_| format!("\"{}\": {}", random.one_of(KEYS), json(random, depth - 1))).collect();
    format!("{{{}}}", list.join(", "))
}

fn steps(random: &mut Generator, depth: usize) -> String {
    let mut out = String::new();
    for _ in 0..random.below(4) {
        let step = match random.below(12) {
            0..=4 => format!(".{}", random.one_of(KEYS)),
            5 | 6 => "[*]".into(),
            7 => "[0]".into(),
            8 => ".*".into(),
            9 => ".**".into(),
            10 if depth > 0 => format!(" ? ({})", condition(random, depth - 1, "@")),
            _ => [".type()", ".size()", ".abs()", ".double()"][random.below(4)].into(),
        };
        out.push_str(&step);
    }
    out
}
fn condition(random: &mut Generator, depth: usize, base: &str) -> String {
    let base = if random.below(5) == 0 { "$" } else { base };
    let path = format!("{base}{}", steps(random, depth));
    if depth == 0 || random.below(2) == 0 {
        let literal = random.one_of(SCALARS);
        return match random.below(8) {
            0..=3 => format!("{path} == {literal}"),
            4 => format!("{literal} == {path}"),
            5 => format!("exists({path})"),
            6 => format!("{path} {} {literal}", ["<", ">", "!=", ">="][random.below(4)]),
            _ => format!("{path} == {base}{}", steps(random, 0)),
        };
    }
    let (l, r) = (condition(random, depth - 1, base), condition(random, depth - 1, base));
    match random.below(5) {
        0 => format!("!({l})"),
        1 => format!("(({l}) is unknown)"),
        2 => format!("({l} || {r})"),
        _ => format!("({l} && {r})"),
    }
}

fn pairs(random: &mut Generator) -> String {
    let count = random.below(4);
    let pair = |random: &mut Generator| {
        let value = if random.below(4) == 0 { "NULL" } else { random.one_of(SCALARS) };
        format!("{}=>{value}", random.one_of(&["a", "b", LONG]))
    };
    let list: Vec<String> = (0..count).map(|_| pair(random)).collect();
    list.join(", ")
}

#[test]
fn sets_of_pairs() {
    use kilndb_types::hstore::HSTORE;
    let mut random = Generator(12);
    let mut tallies = [Tally(0, 0, 0), Tally(0, 0, 0), Tally(0, 0, 0), Tally(0, 0, 0)];
    for _ in 0..20_000 {
        let value = read(HSTORE, &pairs(&mut random)).expect("an hstore");
        let query = read(HSTORE, &pairs(&mut random)).expect("an hstore");
        let key = |random: &mut Generator| Datum::text(random.one_of(&["a", "b", "c", LONG]).trim_matches('"'));
        let elements: Vec<Datum> = (0..random.below(3)).map(|_| key(&mut random)).collect();
        let dims = vec![(1, elements.len() as u32)];
        let list = Datum::Array(Array { element_type: TEXT, dims, elements }.into());
        let key = key(&mut random);
        // The functions of @>, ?, ?| and ?&.
        tallies[0].add(check(InvertedClass::Hstore, 7, 15618, &value, &query));
        tallies[1].add(check(InvertedClass::Hstore, 9, 15609, &value, &key));
        tallies[2].add(check(InvertedClass::Hstore, 10, 15610, &value, &list));
        tallies[3].add(check(InvertedClass::Hstore, 11, 15611, &value, &list));
    }
    tallies.iter().for_each(Tally::check);
}

#[test]
fn json_documents() {
    let mut random = Generator(9);
    let classes = [
        (InvertedClass::Jsonb, 7, 4046),
        (InvertedClass::JsonbPath, 7, 4046),
        (InvertedClass::Jsonb, 9, 4047),
        (InvertedClass::Jsonb, 10, 4048),
        (InvertedClass::Jsonb, 11, 4049),
    ];
    for (class, strategy, function) in classes {
        let mut tally = Tally(0, 0, 0);
        for _ in 0..30_000 {
            let value = read(JSONB, &json(&mut random, 3)).expect("jsonb");
            let query = match strategy {
                7 => read(JSONB, &json(&mut random, 2)),
                9 => Some(Datum::text(random.one_of(KEYS))),
                _ => {
                    let elements: Vec<Datum> = (0..random.below(3)).map(|_| Datum::text(random.one_of(KEYS))).collect();
                    let dims = if elements.is_empty() { Vec::new() } else { vec![(1, elements.len() as u32)] };
                    Some(Datum::Array(std::sync::Arc::new(Array { element_type: TEXT, dims, elements })))
                }
            };
            tally.add(check(class, strategy, function, &value, &query.expect("a query")));
        }
        tally.check();
    }
}

#[test]
fn json_paths() {
    let mut random = Generator(10);
    for class in [InvertedClass::Jsonb, InvertedClass::JsonbPath] {
        let mut tally = Tally(0, 0, 0);
        for n in 0..100_000 {
            let value = read(JSONB, &json(&mut random, 3)).expect("jsonb");
            let mode = ["", "strict "][random.below(2)];
            let is_condition = n % 2 == 0;
            let text =
                if is_condition { condition(&mut random, 2, "$") } else { format!("${}", steps(&mut random, 2)) };
            let Some(query) = read(JSONPATH, &format!("{mode}{text}")) else { panic!("jsonpath {text}") };
            let (strategy, function) = if is_condition { (16, 4011) } else { (15, 4010) };
            tally.add(check(class, strategy, function, &value, &query));
        }
        tally.check();
    }
}

const LETTERS: &[&str] = &["a", "b", "c", "A", "B", "s", "S", "K", "é", "É", "ſ", " ", "-", "_", "1"];
fn some_text(random: &mut Generator) -> String {
    (0..random.below(12)).map(|_| random.one_of(LETTERS).to_string()).collect()
}
fn some_like(random: &mut Generator) -> String {
    let parts: &[&str] = &["%", "_", "\\%", "\\a", "ab", "bc", "a", "b", "c", "S", "k", "é", " ", "-"];
    let inner: String = (0..1 + random.below(3)).map(|_| random.one_of(parts).to_string()).collect();
    if random.below(4) == 0 { inner } else { format!("%{inner}%") }
}
fn some_regex(random: &mut Generator, depth: usize) -> String {
    let atoms: &[&str] = &[
        "a",
        "b",
        "c",
        "ab",
        "abc",
        "s",
        "K",
        "é",
        " ",
        "-",
        "_",
        "1",
        ".",
        "[abc]",
        "[^a]",
        "[a-c]",
        "[[:alpha:]]",
        "\\d",
        "\\s",
        "\\w",
        "\\W",
        "^",
        "$",
        "\\m",
        "\\M",
        "\\y",
        "(?=a)",
        "(?!b)",
    ];
    let inner = |random: &mut Generator| {
        if depth == 0 { random.one_of(atoms).to_string() } else { some_regex(random, depth - 1) }
    };
    match random.below(9) {
        0 => format!("({})*", inner(random)),
        1 => format!("({})+", inner(random)),
        2 => format!("({})?", inner(random)),
        3 => format!("({}){{2}}", inner(random)),
        4 => format!("({}){{1,3}}", inner(random)),
        5 => format!("({}|{})", inner(random), inner(random)),
        6 => random.one_of(atoms).to_string(),
        _ => format!("{}{}", inner(random), inner(random)),
    }
}

#[test]
fn trigrams_of_patterns() {
    let mut random = Generator(23);
    // textlike, texticlike; texteq, similarity_op, word_similarity_commutator_op, strict_word_similarity_commutator_op
    let mut tally = Tally(0, 0, 0);
    for _ in 0..60_000 {
        let (value, pattern) = (Datum::text(some_text(&mut random)), Datum::text(some_like(&mut random)));
        tally.add(check(InvertedClass::Trigram, 3, 850, &value, &pattern));
        tally.add(check(InvertedClass::Trigram, 4, 1633, &value, &pattern));
    }
    tally.check();
    let mut tally = Tally(0, 0, 0);
    for _ in 0..20_000 {
        let text = some_text(&mut random);
        let other =
            if random.below(2) == 0 { some_text(&mut random) } else { format!("{text}{}", some_text(&mut random)) };
        let (value, other) = (Datum::text(text), Datum::text(other));
        for (strategy, function) in [(1, 15004), (7, 15007), (9, 15017), (11, 67)] {
            tally.add(check(InvertedClass::Trigram, strategy, function, &value, &other));
        }
    }
    tally.check();
}

#[test]
fn trigrams_of_regular_expressions() {
    let mut random = Generator(5);
    let mut tally = Tally(0, 0, 0);
    for _ in 0..1_500 {
        let pattern = Datum::text(some_regex(&mut random, 3));
        for _ in 0..10 {
            let value = Datum::text(some_text(&mut random));
            // textregexeq, texticregexeq
            tally.add(check(InvertedClass::Trigram, 5, 1254, &value, &pattern));
            tally.add(check(InvertedClass::Trigram, 6, 1238, &value, &pattern));
        }
    }
    tally.check();
}

#[test]
fn ordered_values() {
    let mut random = Generator(77);
    let mut tally = Tally(0, 0, 0);
    for _ in 0..20_000 {
        let mut number = || Datum::Int4(random.below(20) as i32 - 10);
        let (value, other) = (number(), number());
        // int4lt, int4le, int4eq, int4ge, int4gt
        for (strategy, function) in [(1, 66), (2, 149), (3, 65), (4, 150), (5, 147)] {
            tally.add(check(InvertedClass::Ordered(INT4), strategy, function, &value, &other));
        }
    }
    tally.check();
}

#[test]
fn hashed_values() {
    let mut random = Generator(78);
    let mut tallies = [Tally(0, 0, 0), Tally(0, 0, 0)];
    for _ in 0..20_000 {
        let (value, other) = (random.below(10), random.below(10));
        let number = |n: usize| Datum::Int4(n as i32 - 5);
        let text = |n: usize| Datum::text("ab".repeat(n));
        // int4eq, texteq
        tallies[0].add(check(InvertedClass::Hashed(INT4), 1, 65, &number(value), &number(other)));
        tallies[1].add(check(InvertedClass::Hashed(TEXT), 1, 67, &text(value), &text(other)));
    }
    tallies.iter().for_each(Tally::check);
}
