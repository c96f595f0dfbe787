//! Expressions made at random: whether they are computed for many rows at once or for one row after the other, in a
//! condition, in an aggregate's argument or in a list of results, each row has one value, or the statement one error.
//!
//! With a PostgreSQL to compare with (`make differential`) values and errors must be its own, either those of the same
//! expression or those with columns for its constants: which of two failing parts is never evaluated follows from what
//! the planner makes of constants. With the build before to compare with (`KILNDB_BEFORE`, its program) they must be
//! that build's; where they are not, PostgreSQL says which are right, if it is there as well. `KILNDB_SEED` and
//! `KILNDB_SEEDS` say which expressions, a hundred for each seed.

use kilndb_lab::both::{self, BothClients, BothServers};
use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::random::RowRandom;

const EXPRESSIONS_OF_SEED: usize = 100;
/// More rows than are computed one after the other, NULLs and the ends of ranges among them.
const TABLE: &str = "
    create table x (id int4, i int4, j int4, k int2, b int8, n numeric(15, 2), m numeric, f float8, s text, t varchar(9),
        c char(4), d date, e timestamp, p bool);
    insert into x select g, nullif(g % 7, 3) - 3, case g % 11 when 0 then null when 1 then 2147483647 when 2 then 0 else g end,
        (g % 5 - 2)::int2, case g % 13 when 0 then null when 5 then 9223372036854775807 else g * 1000003 end,
        case g % 9 when 0 then null else (g * 37 % 1000 - 300)::numeric / 100 end,
        case g % 10 when 0 then null when 1 then 'NaN' when 2 then 123456789012345678901234567890.5 when 3 then 0.1 when 4
            then 1.000 else g end,
        case g % 8 when 0 then null when 1 then 'Infinity'::float8 when 2 then 0 else g / 4.0 end,
        case g % 6 when 0 then null when 1 then '' when 2 then 'Straße' else repeat(chr(97 + g % 4), g % 5) end,
        'v' || g % 4, case g % 5 when 0 then null when 1 then 'ab' else 'c' || g % 3 end,
        case g % 12 when 0 then null when 1 then 'infinity'::date else '2000-02-28'::date + g % 60 end,
        case g % 7 when 0 then null else '2000-03-01'::timestamp + g * interval '7 hours' end, nullif(g % 3, 2) = 1
        from generate_series(1, 60) g";

#[derive(Clone, Copy, PartialEq)]
enum Type {
    Int4,
    Int8,
    Numeric,
    Float8,
    Text,
    Date,
    Bool,
}

const TYPES: [Type; 7] = [Type::Int4, Type::Int8, Type::Numeric, Type::Float8, Type::Text, Type::Date, Type::Bool];

/// Constants of expressions, which are columns of the table as well: q0, q1, …
const CONSTANTS: [(Type, &str); 20] = [
    (Type::Int4, "0"),
    (Type::Int4, "1"),
    (Type::Int4, "-3"),
    (Type::Int4, "7"),
    (Type::Int4, "null::int4"),
    (Type::Int8, "5::int8"),
    (Type::Int8, "'-9223372036854775808'::int8"),
    (Type::Numeric, "1.50"),
    (Type::Numeric, "0.07"),
    (Type::Numeric, "'-2'::numeric"),
    (Type::Numeric, "100000000000000000.5"),
    (Type::Float8, "2.5::float8"),
    (Type::Float8, "0::float8"),
    (Type::Float8, "1e200::float8"),
    (Type::Text, "'a'::text"),
    (Type::Text, "'b%'::text"),
    (Type::Text, "null::text"),
    (Type::Date, "'2000-03-10'::date"),
    (Type::Date, "'-infinity'::date"),
    (Type::Bool, "true"),
];

/// The expression with its constants, and with the columns that have them.
fn written(e: &str) -> [String; 2] {
    let mut texts = [e.to_string(), e.to_string()];
    for (n, (_, constant)) in CONSTANTS.iter().enumerate() {
        let mark = format!("«{n}»");
        texts[0] = texts[0].replace(&mark, constant);
        texts[1] = texts[1].replace(&mark, &format!("q{n}"));
    }
    texts
}

/// Makes expressions.
struct ExpressionMaker(RowRandom);

impl ExpressionMaker {
    fn below(&mut self, limit: usize) -> usize {
        self.0.index(limit)
    }
    fn pick<'t>(&mut self, list: &[&'t str]) -> &'t str {
        self.0.choice(list)
    }
    fn leaf(&mut self, ty: Type) -> String {
        if self.below(3) == 0 {
            let of_type: Vec<usize> = (0..CONSTANTS.len()).filter(|n| CONSTANTS[*n].0 == ty).collect();
            return format!("«{}»", of_type[self.below(of_type.len())]);
        }
        self.pick(match ty {
            Type::Int4 => &["i", "j", "id", "i", "k::int4"],
            Type::Int8 => &["b", "b", "id::int8"],
            Type::Numeric => &["n", "n", "m", "i::numeric"],
            Type::Float8 => &["f", "f", "i::float8"],
            Type::Text => &["s", "s", "t", "c::text", "i::text", "b::text", "n::text"],
            Type::Date => &["d", "d", "d::text::date"],
            Type::Bool => &["p"],
        })
        .to_string()
    }

    fn operator(&mut self) -> &'static str {
        self.pick(&["<", "<=", "=", "<>", ">=", ">"])
    }

    fn comparison(&mut self, depth: usize) -> String {
        let ty = TYPES[self.below(TYPES.len())];
        let (l, r) = (self.expression(ty, depth), self.expression(ty, depth));
        match self.below(12) {
            0 => format!("({l} is null)"),
            1 => format!("({l} is not null)"),
            2 => format!("({l} is distinct from {r})"),
            3 => format!("({l} in ({r}, {}))", self.leaf(ty)),
            4 => format!("({l} between {r} and {})", self.leaf(ty)),
            5 => format!("(c {} {})", self.operator(), self.pick(&["'ab'::char(4)", "'c1'::char(9)", "c"])),
            6 => format!("(e {} {})", self.operator(), self.pick(&["d", "'2000-03-05 07:00'::timestamp", "e"])),
            _ => format!("({l} {} {r})", self.operator()),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let (l, r) = (self.expression(Type::Bool, depth), self.expression(Type::Bool, depth));
        match self.below(12) {
            0 => format!("({l} and {r})"),
            1 => format!("({l} or {r})"),
            2 => format!("(not {l})"),
            3 => {
                format!("({l} is {})", self.pick(&["true", "not true", "false", "not false", "unknown", "not unknown"]))
            }
            4 => {
                let text = self.expression(Type::Text, depth);
                let pattern = self.pick(&["a%", "%b", "%a%", "%", "_a%", "a", "%ß%", "b%c%a"]);
                format!("({text} {} '{pattern}')", self.pick(&["like", "not like"]))
            }
            // Guards of what would fail.
            5 => format!("(i <> 0 and {} / i > 1)", self.expression(Type::Int4, depth)),
            6 => format!("(i = 0 or {} / i > 1)", self.expression(Type::Int4, depth)),
            7 => format!("starts_with({}, {})", self.expression(Type::Text, depth), self.leaf(Type::Text)),
            _ => self.comparison(depth),
        }
    }

    fn arithmetic(&mut self, ty: Type, depth: usize) -> String {
        let (l, r) = (self.expression(ty, depth), self.expression(ty, depth));
        match (ty, self.below(8)) {
            (Type::Int4, 0) => format!("length({})", self.expression(Type::Text, depth)),
            (Type::Int4, 1) => format!("({} - {})", self.expression(Type::Date, depth), self.leaf(Type::Date)),
            (Type::Int4, 2) => format!("abs({l})"),
            (Type::Int4, 4) => format!("strpos({}, {})", self.expression(Type::Text, depth), self.leaf(Type::Text)),
            (Type::Int4, 5) => {
                let function = self.pick(&["ascii", "octet_length", "char_length", "bit_length"]);
                format!("{function}({})", self.expression(Type::Text, depth))
            }
            (Type::Int8, 5) => format!("({l}::text)::int8"),
            (Type::Numeric, 3) => format!("({l}::text)::numeric"),
            (Type::Float8, 1) => format!("({}::text)::float8", self.expression(Type::Numeric, depth)),
            (Type::Int4 | Type::Int8, 3) => format!("({l} % {r})"),
            (Type::Int8, 4) => format!("({l} {} {})", self.pick(&["+", "-", "*"]), self.leaf(Type::Int4)),
            (Type::Numeric, 0) => format!("round({l}, {})", self.below(4)),
            (Type::Numeric, 1) => format!("{}::numeric", self.expression(Type::Int4, depth)),
            (Type::Numeric, 2) => format!("({l})::numeric(12, 1)"),
            (Type::Float8, 0) => format!("{}::float8", self.expression(Type::Int4, depth)),
            _ => format!("({l} {} {r})", self.pick(&["+", "-", "*", "/", "+"])),
        }
    }

    /// A call that makes a text of two.
    fn text_call(&mut self, l: &str, r: &str) -> String {
        let n = self.pick(&["1", "i", "2", "-1", "k", "4"]);
        match self.below(12) {
            0 => format!("substr({l}, {n}, 2)"),
            1 => format!("substr({l}, {n})"),
            2 => format!("substr({l}, 1, {n})"),
            3 => format!("left({l}, {n})"),
            4 => format!("right({l}, {n})"),
            5 => format!("replace({l}, {}, {r})", self.leaf(Type::Text)),
            6 => format!("{}({l}, {n}, {r})", self.pick(&["lpad", "rpad"])),
            7 => format!("{}({l}, {r})", self.pick(&["btrim", "ltrim", "rtrim"])),
            8 => format!("repeat({l}, {n})"),
            9 => format!("split_part({l}, {r}, {n})"),
            10 => format!("({l} || {})", self.pick(&["i", "b", "n", "p", "k"])),
            _ => format!("({} || chr(60 + id) || {l})", self.pick(&["i", "b", "n", "p", "k"])),
        }
    }

    fn expression(&mut self, ty: Type, depth: usize) -> String {
        if depth == 0 || self.below(5) == 0 {
            return self.leaf(ty);
        }
        let depth = depth - 1;
        let (l, r) = (self.expression(ty, depth), self.expression(ty, depth));
        match (self.below(9), ty) {
            (0, _) => format!("(case when {} then {l} else {r} end)", self.condition(depth)),
            (1, _) => format!("coalesce({l}, {r})"),
            (2, _) if ty != Type::Bool => format!("nullif({l}, {r})"),
            (3, Type::Int4) => format!("(case when j <> 0 then {l} / j else {r} end)"),
            (3, _) if ty != Type::Bool => format!("{}({l}, {r})", self.pick(&["greatest", "least"])),
            (4, Type::Int4) => format!("(case {l} when {r} then 1 when 2 then 3 end)"),
            (_, Type::Bool) => self.condition(depth),
            (5, Type::Text) => {
                format!("{}({l})", self.pick(&["upper", "lower", "trim", "reverse", "ltrim", "rtrim", "md5"]))
            }
            (6 | 7, Type::Text) => self.text_call(&l, &r),
            (_, Type::Text) => format!("({l} || {r})"),
            (_, Type::Date) => format!("({l} {} {} % 500)", self.pick(&["+", "-"]), self.leaf(Type::Int4)),
            _ => self.arithmetic(ty, depth),
        }
    }
}

/// The values of a statement's last column by its first one, or its error.
type Outcome = Result<Vec<(String, Option<String>)>, String>;

fn outcome(client: &mut Client, sql: &str) -> Outcome {
    match client.query(sql) {
        Ok(answers) => {
            let pair = |row: &Vec<Option<String>>| {
                let first = row.first().cloned().flatten().unwrap_or_default();
                (first, row.last().cloned().flatten())
            };
            let mut rows: Vec<_> = answers.iter().flat_map(|a| &a.rows).map(pair).collect();
            rows.sort_by_key(|row| row.0.parse::<i64>().unwrap_or(0));
            Ok(rows)
        }
        Err(ClientError::Server(e)) => Err(format!("{}: {}", e.code, e.message)),
        Err(e) => panic!("{sql}: {e}"),
    }
}

/// Panics unless the values of a list of results are PostgreSQL's, with constants or with columns that have them.
fn compare_with_postgres(postgres: &mut Client, seed: u64, forms: [&str; 2], found: &Outcome) {
    let expected = forms.map(|e| outcome(postgres, &format!("select id, {e} from x")));
    // What is constant is computed when PostgreSQL plans, even if no row comes to it.
    let is_planned = outcome(postgres, &format!("select id, {} from x where false", forms[0])).is_ok();
    assert!(!is_planned || expected.contains(found), "seed {seed}: {}\n{found:?}\n{expected:?}", forms[0]);
}

fn check(clients: &mut BothClients, seed: u64) -> (usize, usize) {
    let BothClients { kilndb, postgres, before } = clients;
    let mut random = ExpressionMaker(RowRandom::of_seed(seed));
    let (mut values, mut errors) = (0, 0);
    for _ in 0..EXPRESSIONS_OF_SEED {
        let ty = TYPES[random.below(TYPES.len())];
        let [e, of_columns] = written(&random.expression(ty, 3));
        let listed = format!("select id, {e} from x");
        let by_rows = outcome(kilndb, &listed);
        let of_before = before.as_mut().map(|before| outcome(before, &listed));
        match (postgres.as_mut(), of_before) {
            (_, Some(of_before)) if of_before == by_rows => {}
            (Some(postgres), _) => compare_with_postgres(postgres, seed, [&e, &of_columns], &by_rows),
            (None, Some(of_before)) => panic!("seed {seed}: {listed}\n{by_rows:?}\n{of_before:?}"),
            (None, None) => {}
        }
        match &by_rows {
            Ok(_) => values += 1,
            Err(_) => errors += 1,
        }
        let grouped = format!("select id, any_value({e}) from x group by id");
        assert_eq!(outcome(kilndb, &grouped), by_rows, "seed {seed}: {grouped}");
        let (condition, is_met): (String, fn(&Option<String>) -> bool) = match ty {
            Type::Bool => (e, |value| value.as_deref() == Some("t")),
            _ => (format!("(({e}) is not null)"), Option::is_some),
        };
        let expected = by_rows.map(|rows| {
            let met = rows.into_iter().filter(|(_, value)| is_met(value));
            met.map(|(id, _)| (id, Some("t".to_string()))).collect()
        });
        // Conditions that are joined by AND may be asked in another order, unless they are parts of something else.
        let whole = format!("select id, 't' from x where case when {condition} then true end");
        assert_eq!(outcome(kilndb, &whole), expected, "seed {seed}: {whole}");
        if expected.is_ok() {
            let filtered = format!("select id, 't' from x where {condition}");
            let found = outcome(kilndb, &filtered);
            assert!(found == expected || found.is_err(), "seed {seed}: {filtered}\n{found:?}\n{expected:?}");
        }
    }
    (values, errors)
}

fn make_table(client: &mut Client) {
    client.query(TABLE).expect("the table");
    for (n, (_, constant)) in CONSTANTS.iter().enumerate() {
        let ty = client.value(&format!("select pg_typeof({constant})")).expect("a type").expect("a type");
        client.query(&format!("alter table x add q{n} {ty}; update x set q{n} = {constant}")).expect("a constant");
    }
}

#[test]
fn every_way_computes_the_same() {
    let servers = BothServers::start("expressions");
    let mut clients = servers.connect(make_table);
    let (mut values, mut errors) = (0, 0);
    for seed in both::seeds(10) {
        let of_seed = check(&mut clients, seed);
        (values, errors) = (values + of_seed.0, errors + of_seed.1);
    }
    println!("{values} expressions with values, {errors} with errors");
    assert!(
        values > errors && errors * 50 > values,
        "of {values} expressions with values and {errors} with errors, one kind is rare"
    );
    drop(clients);
    servers.stop();
}
