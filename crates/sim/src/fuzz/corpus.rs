//! Statements to begin with: a few of all kinds, those of tests/sql, and a folder of .sql files if one is given.

use super::mutate::Random;
use std::path::Path;

const SEEDS: &[&str] = &[
    "select * from t where a = 1 and b like 'x%' order by a desc nulls last limit 3 offset 1",
    "insert into t (a, b) values (1, 'x'), (2, null) on conflict (a) do update set b = excluded.b returning *",
    "update t set b = upper(b) || 'é', c = c + 1.5e3 where a in (select a from t where c is not null)",
    "delete from t using t as u where t.a = u.a and u.c > 10 returning t.*",
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select sum(n), array_agg(n) from r",
    "select a, count(*) filter (where c > 1), sum(c) over (partition by b order by a) from t group by rollup(a, b, c) having count(*) > 0",
    "select case when a > 1 then 'x' else b end, coalesce(b, 'y'), nullif(a, 2), extract(year from now()) from t left join t u using (a)",
    "create table x (id serial primary key, v numeric(10,2) check (v > 0), d timestamptz default now(), unique (v))",
    "alter table x add column z int default 5, drop column v; drop table x",
    "begin; savepoint s; insert into t values (7); rollback to s; commit",
    "select to_char(now(), 'YYYY-MM-DD'), '2020-02-30'::date, interval '1 year 2 days' * 3, '{1,2,{3}}'::int[]",
    "explain (analyze, costs off) select * from t where a between 1 and 5",
    "select E'\\x41' || U&'\\0441' || $tag$a$tag$ || B'101'::text",
    "prepare p(int) as select $1 + a from t; execute p(3); deallocate p",
    "copy (select * from t) to stdout with (format csv, header)",
    "copy t from stdin with (format csv, delimiter ';', null 'x')",
    "declare c scroll cursor for select * from t; fetch backward 2 from c; move 1 in c; close c",
    "create view v as select a, b || 'x' as bx from t where c > 0; select * from v; drop view v",
    "select * from pg_class c join pg_attribute a on a.attrelid = c.oid where relname ~ '^pg_t' and not attisdropped",
];

/// Words of texts that are left out: they would wait, end other sessions, or take the bounds of a run away.
const LEFT_OUT: &[&str] = &[
    "statement_timeout",
    "transaction_timeout",
    "pg_sleep",
    "pg_terminate",
    "pg_cancel",
    "alter system",
    "pg_reload",
    "idle_",
    "generate_series(1, 1000",
    "server_version",
    "drop database",
    "create database",
    // The role that the clients log in as.
    "alter role postgres",
    "nologin",
    "\\",
];

/// Longer texts would make rounds slow without finding more.
const LONGEST: usize = 1500;

pub struct Corpus {
    texts: Vec<String>,
}

impl Corpus {
    pub fn load(folder: Option<&Path>) -> Corpus {
        let mut texts: Vec<String> = SEEDS.iter().map(ToString::to_string).collect();
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
        for (name, text) in files(&own) {
            if name.ends_with(".slt") {
                texts.extend(statements_of_slt(&text));
            }
        }
        for (name, text) in folder.map(files).unwrap_or_default() {
            if name.ends_with(".sql") {
                texts.extend(statements_of_script(&text));
            }
        }
        texts.retain(|t| {
            let lower = t.to_lowercase();
            !t.trim().is_empty()
                && t.len() <= LONGEST
                && !LEFT_OUT
                    .iter()
                    .skip(usize::from(SEEDS.contains(&t.as_str())) * LEFT_OUT.len())
                    .any(|w| lower.contains(w))
        });
        Corpus { texts }
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// A text of the corpus; the short ones of all kinds more often.
    pub fn any(&self, random: &mut Random) -> &str {
        let bound = if random.below(3) == 0 { SEEDS.len() } else { self.texts.len() };
        &self.texts[random.below(bound)]
    }
}

fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some((e.file_name().into_string().ok()?, std::fs::read_to_string(e.path()).ok()?)))
        .collect();
    found.sort();
    found
}

fn statements_of_slt(text: &str) -> Vec<String> {
    let records = kilndb_lab::slt::parse(text).unwrap_or_default();
    records.into_iter().map(|r| r.sql).collect()
}

/// Good enough for seeds: a statement ends with the line that ends with a semicolon.
fn statements_of_script(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in text.lines().filter(|l| !l.starts_with("--") && !l.starts_with('\\')) {
        if let Some(last) = found.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
        if line.trim_end().ends_with(';') {
            found.push(String::new());
        }
    }
    found
}
