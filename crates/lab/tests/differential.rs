//! Joins, orders, groups and windows made at random: every way to run a statement has the answer of every other one.
//!
//! Each statement runs with several sets of `enable_*` settings turned off and with little memory. With a PostgreSQL to
//! compare with (`make differential`) the answers must be its answers too; without one they must be the same whatever is
//! turned off. `KILNDB_SEED` and `KILNDB_SEEDS` say which statements, a hundred for each seed.

use kilndb_lab::both::{self, BothServers};
use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::random::RowRandom;
use std::fmt::Write;

const STATEMENTS_OF_SEED: usize = 100;
/// The tables of tests/differential/schema.sql: name, columns, and those of them that are integers.
const TABLES: [(&str, &[&str], &[&str]); 4] = [
    ("t", &["id", "a", "b", "c"], &["id", "a", "b"]),
    ("u", &["id", "t_id", "v", "w"], &["id", "t_id", "v", "w"]),
    ("d", &["k", "name", "g"], &["k", "g"]),
    ("e", &["x", "y", "z"], &["x", "y", "z"]),
];
const SWITCHES: [&str; 12] = [
    "hashjoin",
    "mergejoin",
    "nestloop",
    "sort",
    "incremental_sort",
    "hashagg",
    "memoize",
    "seqscan",
    "indexscan",
    "bitmapscan",
    "material",
    "self_join_elimination",
];

/// A statement, and whether the order of its rows is said.
struct Statement {
    sql: String,
    is_ordered: bool,
}

struct Generator {
    random: RowRandom,
    /// The tables of the statement's FROM clause, as positions in [`TABLES`]; they are called r0, r1, …
    tables: Vec<usize>,
}

impl Generator {
    fn integer(&mut self, table: usize) -> String {
        format!("r{table}.{}", self.random.choice(TABLES[self.tables[table]].2))
    }
    fn any_integer(&mut self) -> String {
        let table = self.random.index(self.tables.len());
        self.integer(table)
    }
    fn any_column(&mut self) -> String {
        let table = self.random.index(self.tables.len());
        format!("r{table}.{}", self.random.choice(TABLES[self.tables[table]].1))
    }
    fn columns(&mut self, most: usize) -> Vec<String> {
        let mut columns: Vec<String> = Vec::new();
        for _ in 0..=self.random.index(most) {
            let column = self.any_column();
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns
    }
    fn all_columns(&self) -> Vec<String> {
        let of = |(n, table): (usize, &usize)| TABLES[*table].1.iter().map(move |c| format!("r{n}.{c}"));
        self.tables.iter().enumerate().flat_map(of).collect()
    }
    fn direction(&mut self) -> &'static str {
        self.random.choice(&["", "", " desc", " nulls first", " desc nulls last"])
    }

    /// A table of the FROM clause, or a subquery that sorts it and may keep some of its rows.
    fn relation(&mut self, n: usize) -> String {
        let (name, columns, _) = TABLES[self.tables[n]];
        if !self.random.one_in(8) {
            return format!("{name} r{n}");
        }
        let first = self.random.choice(columns);
        let (direction, all) = (self.direction(), columns.join(", "));
        let limit =
            if self.random.one_in(2) { format!(" limit {}", 10 + self.random.index(90)) } else { String::new() };
        format!("(select * from {name} order by {first}{direction}, {all}{limit}) r{n}")
    }

    /// A subquery whose results and conditions use columns of a relation before it.
    fn lateral(&mut self, n: usize) -> String {
        let (name, columns, integers) = TABLES[self.tables[n]];
        let (other, own, limit) = (self.random.index(n), self.random.choice(integers), self.random.index(40));
        let outer = self.integer(other);
        let mut results: Vec<String> = columns.iter().map(|c| format!("s.{c}")).collect();
        let at = columns.iter().position(|c| *c == own).unwrap_or(0);
        results[at] = match self.random.index(4) {
            0 => format!("s.{own} + {outer} as {own}"),
            1 => format!("coalesce(s.{own}, {limit}) as {own}"),
            2 => format!("{outer} as {own}"),
            _ => format!("s.{own}"),
        };
        let filter = match self.random.index(3) {
            0 => format!(" where s.{own} > {limit}"),
            1 => format!(" where s.{own} = {outer}"),
            _ => String::new(),
        };
        format!("lateral (select {} from {name} s{filter}) r{n}", results.join(", "))
    }

    fn from(&mut self) -> String {
        let count = 1 + self.random.index(5).min(self.random.index(5));
        self.tables = (0..count).map(|_| self.random.index(TABLES.len())).collect();
        let mut sql = self.relation(0);
        for n in 1..count {
            let kind =
                self.random.choice(&["join", "join", "join", "left join", "left join", "full join", "right join"]);
            let other = self.random.index(n);
            let mut on = format!("{} = {}", self.integer(other), self.integer(n));
            // A table with itself by its key.
            if self.random.one_in(4) {
                self.tables[n] = self.tables[other];
                let key = TABLES[self.tables[n]].1[0];
                on = format!("r{other}.{key} = r{n}.{key}");
            }
            if self.random.one_in(3) {
                let other = self.random.index(n);
                write!(on, " and {} = {}", self.integer(other), self.integer(n)).expect("text");
            }
            if kind != "full join" && self.random.one_in(4) {
                let operator = self.random.choice(&["<", ">", "<>"]);
                write!(on, " and {} {operator} {}", self.integer(n), self.random.index(40)).expect("text");
            }
            if kind != "full join" && self.random.one_in(10) {
                write!(on, " and {} < {}", self.integer(other), self.integer(n)).expect("text");
            }
            let relation = match kind.starts_with("left") || kind == "join" {
                true if self.random.one_in(8) => self.lateral(n),
                _ => self.relation(n),
            };
            write!(sql, " {kind} {relation} on {on}").expect("text");
        }
        sql
    }

    fn filter(&mut self) -> String {
        let mut conditions = Vec::new();
        for n in 0..self.tables.len() {
            if self.random.one_in(2) {
                let operator = self.random.choice(&["<", ">", "=", "<="]);
                conditions.push(format!("{} {operator} {}", self.integer(n), self.random.index(60)));
            }
        }
        if self.random.one_in(8) {
            conditions.push(format!("{} is null", self.any_integer()));
        }
        if self.random.one_in(8) {
            let (a, b) = (self.any_integer(), self.any_integer());
            conditions.push(format!("({a} < {} or {b} > {})", self.random.index(20), 20 + self.random.index(20)));
        }
        if self.random.one_in(3) {
            let (table, _, columns) = TABLES[self.random.index(TABLES.len())];
            let not = self.random.choice(&["", "", "not "]);
            let (inner, own) = (self.random.choice(columns), self.random.choice(columns));
            let (outer, limit) = (self.any_integer(), self.random.index(50));
            conditions.push(match self.random.one_in(2) {
                true => {
                    format!("{not}exists (select 1 from {table} s where s.{inner} = {outer} and s.{own} < {limit})")
                }
                false => format!("{outer} {not}in (select s.{inner} from {table} s where s.{own} < {limit})"),
            });
        }
        if self.random.one_in(4) {
            conditions.push(self.grouped_condition());
        }
        if conditions.is_empty() { String::new() } else { format!(" where {}", conditions.join(" and ")) }
    }

    /// A condition on an aggregate of the rows that belong to a row.
    fn grouped_condition(&mut self) -> String {
        let (table, _, columns) = TABLES[self.random.index(TABLES.len())];
        let (key, own, value) = (self.random.choice(columns), self.random.choice(columns), self.random.choice(columns));
        let aggregate = self.random.choice(&["min", "max", "count", "sum", "count(distinct", "avg"]);
        let end = if aggregate.contains('(') { ")" } else { "" };
        let (outer, other, limit) = (self.any_integer(), self.any_integer(), self.random.index(60));
        let more = match self.random.index(4) {
            0 => format!(" and s.{own} < {limit}"),
            1 => format!(" and s.{own} = {other}"),
            _ => String::new(),
        };
        let value = format!("(select {aggregate}(s.{value}){end} from {table} s where s.{key} = {outer}{more})");
        match self.random.index(5) {
            0 => format!("{value} is null"),
            1 => format!("coalesce({value}, {limit}) > {other}"),
            2 => format!("({other} = {limit} or {value} < {limit})"),
            _ => format!("{other} {} {value}", self.random.choice(&["<", ">", "="])),
        }
    }

    fn ordered(&mut self, columns: &[String]) -> String {
        let keys: Vec<String> = columns.iter().map(|c| format!("{c}{}", self.direction())).collect();
        format!(" order by {}", keys.join(", "))
    }

    fn limit(&mut self) -> String {
        if self.random.one_in(2) { format!(" limit {}", 1 + self.random.index(20)) } else { String::new() }
    }

    fn grouped(&mut self, source: &str) -> Statement {
        let groups = self.columns(3);
        let (a, b) = (self.any_integer(), self.any_integer());
        let aggregates = [
            "count(*)".to_string(),
            format!("sum({a})"),
            format!("count(distinct {a})"),
            format!("min({a}), max({b})"),
            format!("count({a}) filter (where {b} > 9)"),
        ];
        let aggregate = &aggregates[self.random.index(aggregates.len())];
        let having = self.random.choice(&["", "", " having count(*) > 1"]);
        let list = groups.join(", ");
        let mut sql = format!("select {list}, {aggregate} from {source} group by {list}{having}");
        let is_ordered = self.random.one_in(2);
        if is_ordered {
            let mut keys = groups;
            let turn = self.random.index(keys.len());
            keys.rotate_left(turn);
            sql += &self.ordered(&keys);
            sql += &self.limit();
        }
        Statement { sql, is_ordered }
    }

    fn distinct(&mut self, source: &str) -> Statement {
        let columns = self.columns(2);
        let mut sql = format!("select distinct {} from {source}", columns.join(", "));
        let is_ordered = self.random.one_in(2);
        if is_ordered {
            sql += &self.ordered(&columns);
            sql += &self.limit();
        }
        Statement { sql, is_ordered }
    }

    /// The first row of each value of a column.
    fn first_rows(&mut self, source: &str) -> Statement {
        let all = self.all_columns().join(", ");
        let key = self.any_integer();
        let direction = self.direction();
        let limit = self.limit();
        let sql = format!("select distinct on ({key}) {all} from {source} order by {key}{direction}, {all}{limit}");
        Statement { sql, is_ordered: true }
    }

    fn windows(&mut self, source: &str) -> Statement {
        let all = self.all_columns().join(", ");
        let (partition, order, direction) = (self.any_integer(), self.any_integer(), self.direction());
        let windows = format!(
            "sum(1) over (partition by {partition} order by {order}), count(*) over (partition by {partition}), \
             rank() over (order by {order}{direction})"
        );
        if self.random.one_in(2) {
            let (function, most) =
                (self.random.choice(&["rank()", "dense_rank()", "count(*)"]), 1 + self.random.index(5));
            let partition = if self.random.one_in(3) { String::new() } else { format!("partition by {partition} ") };
            let window = format!("{function} over ({partition}order by {order}{direction}) as place");
            let names: Vec<String> = (0..self.all_columns().len()).map(|n| format!("c{n}")).collect();
            let named: Vec<String> =
                self.all_columns().iter().zip(&names).map(|(column, name)| format!("{column} as {name}")).collect();
            let sql =
                format!("select * from (select {}, {window} from {source}) x where place <= {most}", named.join(", "));
            return Statement { sql, is_ordered: false };
        }
        let limit = self.limit();
        let sql = match limit.as_str() {
            "" => format!("select {all}, {windows} from {source}"),
            limit => format!("select {all}, {windows} from {source} order by {all}{limit}"),
        };
        Statement { sql, is_ordered: !limit.is_empty() }
    }

    fn plain(&mut self, source: &str) -> Statement {
        let all = self.all_columns();
        let mut sql = format!("select {} from {source}", all.join(", "));
        let is_ordered = self.random.one_in(2);
        if is_ordered {
            let mut keys = self.columns(2);
            let rest = all.iter().filter(|c| !keys.contains(c)).cloned().collect::<Vec<_>>();
            sql += &self.ordered(&keys);
            keys.clear();
            rest.iter().for_each(|c| sql += &format!(", {c}"));
            sql += &self.limit();
        }
        Statement { sql, is_ordered }
    }

    fn statement(&mut self) -> Statement {
        let source = self.from();
        let source = source + &self.filter();
        match self.random.index(8) {
            0 | 1 => self.grouped(&source),
            2 => self.distinct(&source),
            3 => self.first_rows(&source),
            4 => self.windows(&source),
            _ => self.plain(&source),
        }
    }
}

fn make_tables(client: &mut Client) {
    let schema = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/differential/schema.sql");
    client.query(&std::fs::read_to_string(schema).expect("the schema")).expect("the tables");
}

/// The rows of a statement as text; None: it took too long. Those that have no order are sorted.
fn rows_of(client: &mut Client, statement: &Statement) -> Option<Vec<String>> {
    let answers = match client.query(&statement.sql) {
        Err(ClientError::Server(e)) if e.code == "57014" => return None,
        answers => answers.unwrap_or_else(|e| panic!("{}: {e}", statement.sql)),
    };
    let mut rows: Vec<String> = answers.iter().flat_map(|a| &a.rows).map(|row| format!("{row:?}")).collect();
    if !statement.is_ordered {
        rows.sort();
    }
    Some(rows)
}

/// What is turned off for a run.
fn variants(random: &mut RowRandom) -> Vec<Vec<&'static str>> {
    let mut all =
        vec![Vec::new(), vec!["hashjoin", "nestloop"], vec!["hashagg", "hashjoin"], vec!["mergejoin", "hashjoin"]];
    for _ in 0..2 {
        all.push((0..=random.index(4)).map(|_| random.choice(&SWITCHES)).collect());
    }
    all
}

fn compare(kilndb: &mut Client, postgres: Option<&mut Client>, seed: u64) {
    let mut generator = Generator { random: RowRandom::of_seed(seed), tables: Vec::new() };
    let statements: Vec<Statement> = (0..STATEMENTS_OF_SEED).map(|_| generator.statement()).collect();
    let mut expected: Vec<Option<Vec<String>>> = match postgres {
        Some(postgres) => {
            // PostgreSQL 18.6 loses a condition when it takes self-joins out of some statements (u.v = d.g where u.w = d.g).
            postgres.query("set statement_timeout = 4000; set enable_self_join_elimination = off").expect("settings");
            statements.iter().map(|s| rows_of(postgres, s)).collect()
        }
        None => statements.iter().map(|_| None).collect(),
    };
    for off in variants(&mut generator.random) {
        let memory = generator.random.choice(&["64kB", "4MB"]);
        let mut settings = format!("reset all; set statement_timeout = 4000; set work_mem = '{memory}'");
        off.iter().for_each(|name| settings += &format!("; set enable_{name} = off"));
        kilndb.query(&settings).expect("settings");
        for (statement, expected) in statements.iter().zip(&mut expected) {
            let Some(found) = rows_of(kilndb, statement) else { continue };
            match expected {
                Some(expected) => assert!(
                    *expected == found,
                    "seed {seed}, {settings}:\n{}\nexpected {} rows: {:?} …\nfound {} rows: {:?} …",
                    statement.sql,
                    expected.len(),
                    expected.iter().take(5).collect::<Vec<_>>(),
                    found.len(),
                    found.iter().take(5).collect::<Vec<_>>(),
                ),
                None => *expected = Some(found),
            }
        }
    }
}

#[test]
fn every_way_has_the_same_answer() {
    let servers = BothServers::start("differential");
    let mut clients = servers.connect(make_tables);
    for seed in both::seeds(2) {
        compare(&mut clients.kilndb, clients.postgres.as_mut(), seed);
    }
    drop(clients);
    servers.stop();
}
