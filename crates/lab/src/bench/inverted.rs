//! A GIN index beside updates that do not touch it, and what it costs and finds (experiment 2).

use super::BenchOptions;
use super::per_second::{PerSecondFigures, by_second};
use super::pgbench::PgbenchLoad;
use super::turns::{BenchStage, ServerTurn, execute};
use kilndb_lab::process::TempDir;
use kilndb_lab::statistics::{Better, median};
use std::time::{Duration, Instant};

const DOCUMENTS: u32 = 50_000;
/// Texts that new documents are made of.
const TEXTS: u32 = 5_000;
const LIMITS_KB: [u32; 3] = [64, 4096, 131_072];
const CLIENTS: [u32; 2] = [4, 64];
/// Searches for one thing in a turn.
const SEARCHES_A_TURN: usize = 5;
/// Turns of what lasts longer, because it is about what happens now and then.
const LONG_TURNS: usize = 3;
const EMPTY: &str = "updates beside a GIN index, all runs: seconds without a commit";

const RANDOM_TEXT: &str = "CREATE OR REPLACE FUNCTION public.gen_rand_str(integer) RETURNS text LANGUAGE sql STRICT AS $function$ select string_agg(a[random()*6+1],'') from generate_series(1,$1), (select array['a','b','c','d','e','f',' ']) t(a); $function$";

const UPDATE_OTHER: &str = "\\set id random(1,{documents})\nupdate test set crt_time=now() where id=:id;\n";
const INSERT: &str =
    "\\set n random(1,{texts})\ninsert into test select 0, to_tsvector(t), now() from texts where n = :n;\n";
const UPDATE_INDEXED: &str = "\\set id random(1,{documents})\n\\set n random(1,{texts})\nupdate test set info = (select to_tsvector(t) from texts where n = :n) where id=:id;\n";

/// What is looked for; the words are ones that there are in many thousand random texts.
const SEARCHES: [(&str, &str); 4] = [
    ("one rare word", "select count(*) from test where info @@ to_tsquery('fbcad')"),
    ("two words ANDed", "select count(*) from test where info @@ to_tsquery('fb & dc')"),
    ("a phrase", "select count(*) from test where info @@ to_tsquery('fb <-> dc')"),
    ("a prefix", "select count(*) from test where info @@ to_tsquery('fbcad:*')"),
];

pub(super) fn stages(options: &BenchOptions) -> Vec<BenchStage> {
    let mut stages = vec![build(), searches(""), searches(", much of it pending").begin(pend).end(clean)];
    for limit in LIMITS_KB {
        for (number, clients) in CLIENTS.into_iter().enumerate() {
            let stage = updates(limit, clients);
            // PostgreSQL spares the index rows that have been updated before: then there is room for a new version
            // beside the old one.
            stages.push(if number == 0 { stage.begin(move |turn| begin_updates(turn, limit)) } else { stage });
        }
    }
    // Long enough for what happens now and then.
    let seconds = if options.duration_s >= 10 { 60 } else { 3 * options.duration_s };
    stages.push(checkpointed_updates(seconds));
    stages.push(with_and_without());
    stages.push(new_documents(seconds));
    stages.push(updates_of_indexed());
    stages
}

/// The documents, and the table as the experiment begins with it, for all stages after.
fn documents(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    let fill = format!("insert into documents select generate_series(1,{DOCUMENTS}), to_tsvector(gen_rand_str(512))");
    let texts = format!("insert into texts select n, gen_rand_str(512) from generate_series(1,{TEXTS}) n");
    // In one session: the same texts for everybody.
    execute(
        &mut turn.connect()?,
        &[
            "drop table if exists documents, texts, test",
            "create table documents (id int, info tsvector)",
            RANDOM_TEXT,
            "create table texts (n int primary key, t text)",
            "select setseed(0.25)",
            &fill,
            &texts,
        ],
    )?;
    fresh(turn).map(|_| ())
}

/// A new table of the documents with its indexes. What it took to build the GIN index, in seconds.
fn fresh(turn: &ServerTurn<'_>) -> Result<f64, String> {
    turn.execute(&[
        "drop table if exists test",
        "create table test(id int, info tsvector, crt_time timestamp)",
        "insert into test select id, info, now() from documents",
        "vacuum analyze test",
    ])?;
    let seconds = turn.timed("create index idx_test_info on test using gin (info)")?;
    turn.execute(&["create index idx_test_id on test (id)", "vacuum analyze test", "checkpoint"])?;
    Ok(seconds)
}

fn build() -> BenchStage {
    let row = format!("GIN index on {DOCUMENTS} documents");
    BenchStage::new(&row.clone(), move |turn| {
        turn.execute(&["drop index if exists idx_test_info"])?;
        let seconds = turn.timed("create index idx_test_info on test using gin (info)")?;
        turn.put(&format!("{row}, seconds"), Better::Less, seconds);
        let bytes = turn.integer("select pg_relation_size('idx_test_info')")?;
        turn.put(&format!("{row}, size, MB"), Better::Less, bytes as f64 / 1e6);
        Ok(())
    })
    .begin(documents)
}

fn searches(beside: &'static str) -> BenchStage {
    BenchStage::new(&format!("searches{beside}"), move |turn| {
        let mut client = turn.connect()?;
        for (name, sql) in SEARCHES {
            let mut times_ms = Vec::new();
            for _ in 0..SEARCHES_A_TURN {
                let began = Instant::now();
                client.integer(sql).map_err(|e| format!("{sql}: {e}"))?;
                times_ms.push(began.elapsed().as_secs_f64() * 1000.0);
            }
            turn.put(&format!("search for {name}{beside}, ms"), Better::Less, median(times_ms));
        }
        Ok(())
    })
}

/// Leaves as much pending as there is room for, where there is a limit.
fn pend(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    let fill = format!("insert into test select 0, to_tsvector(t), now() from texts where n <= {}", TEXTS / 2);
    turn.execute(&["alter index idx_test_info set (gin_pending_list_limit = 131072)", &fill])
}

fn clean(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    turn.execute(&[
        "select gin_clean_pending_list('idx_test_info')",
        "alter index idx_test_info reset (gin_pending_list_limit)",
    ])
}

fn begin_updates(turn: &mut ServerTurn<'_>, limit_kb: u32) -> Result<(), String> {
    fresh(turn)?;
    turn.execute(&[&format!("alter index idx_test_info set (gin_pending_list_limit = {limit_kb})")])
}

fn updates(limit_kb: u32, clients: u32) -> BenchStage {
    let row = format!("update of the other column, limit {limit_kb} kB, {clients} clients, tps");
    BenchStage::new(&row.clone(), move |turn| {
        let run = run(turn, UPDATE_OTHER, clients, turn.options.duration_s, false)?;
        turn.put(&row, Better::More, run.tps);
        turn.add(EMPTY, run.empty as f64);
        Ok(())
    })
}

fn checkpointed_updates(seconds: u32) -> BenchStage {
    let row = format!("update of the other column, 64 clients, {seconds} s with a checkpoint");
    BenchStage::new(&row.clone(), move |turn| {
        let run = run(turn, UPDATE_OTHER, 64, seconds, true)?;
        turn.add(EMPTY, run.empty as f64);
        turn.put(&format!("{row}: worst second, % of the median"), Better::More, 100.0 * run.worst / run.median);
        turn.put(&format!("{row}: worst latency, ms"), Better::Less, run.worst_latency_ms);
        Ok(())
    })
    .turns(LONG_TURNS)
    .unjudged()
}

/// Measures a table with and without the index in one turn: the two are held against each other too.
fn with_and_without() -> BenchStage {
    BenchStage::new("updates with and without a GIN index", |turn| {
        let seconds = turn.options.duration_s;
        let with = run(turn, UPDATE_OTHER, 64, seconds, false)?;
        let without = run(turn, &UPDATE_OTHER.replace("test", "without"), 64, seconds, false)?;
        turn.put("update of the other column, 64 clients, tps", Better::More, with.tps);
        turn.put("the same without a GIN index, tps", Better::More, without.tps);
        Ok(())
    })
    .begin(|turn| {
        turn.execute(&[
            "create table without as select * from test",
            "create index on without (id)",
            "vacuum analyze without",
            "checkpoint",
        ])
    })
    .end(|turn| turn.execute(&["drop table if exists without"]))
}

fn new_documents(seconds: u32) -> BenchStage {
    let row = format!("new documents, 16 clients, {seconds} s");
    BenchStage::new(&row.clone(), move |turn| {
        let run = run(turn, INSERT, 16, seconds, false)?;
        turn.put(&format!("{row}: median second, rows"), Better::More, run.median);
        turn.put(&format!("{row}: worst second, % of the median"), Better::More, 100.0 * run.worst / run.median);
        turn.add(&format!("{row}: seconds without a commit"), run.empty as f64);
        Ok(())
    })
    .begin(|turn| turn.execute(&["alter index idx_test_info reset (gin_pending_list_limit)"]))
    .turns(LONG_TURNS)
    .unjudged()
}

fn updates_of_indexed() -> BenchStage {
    let row = "update of the indexed column, 16 clients, tps";
    BenchStage::new(row, move |turn| {
        let run = run(turn, UPDATE_INDEXED, 16, turn.options.duration_s, false)?;
        turn.put(row, Better::More, run.tps);
        Ok(())
    })
    // Whoever put in more new documents would have the larger index here.
    .begin(|turn| fresh(turn).map(|_| ()))
    .end(|turn| turn.execute(&["drop table if exists documents, texts, test"]))
}

fn run(
    turn: &ServerTurn<'_>,
    script: &str,
    clients: u32,
    seconds: u32,
    checkpoint: bool,
) -> Result<PerSecondFigures, String> {
    let script = script.replace("{documents}", &DOCUMENTS.to_string()).replace("{texts}", &TEXTS.to_string());
    let logs = TempDir::new("bench-inverted-log").map_err(|e| e.to_string())?;
    let prefix = logs.path().join("log").to_string_lossy().into_owned();
    let more = ["-l", "--aggregate-interval=1", "--log-prefix", &prefix];
    let load =
        PgbenchLoad { duration_s: Some(seconds), more: &more, ..PgbenchLoad::script(&script, clients, "prepared") };
    let run = std::thread::scope(|scope| {
        let running = scope.spawn(|| turn.pgbench(&load));
        if checkpoint {
            std::thread::sleep(Duration::from_secs(u64::from(seconds) / 2));
            turn.execute(&["checkpoint"])?;
        }
        running.join().map_err(|_| "pgbench was not waited for".to_string())?
    })?;
    Ok(PerSecondFigures { tps: run.tps, ..by_second(&logs)? })
}
