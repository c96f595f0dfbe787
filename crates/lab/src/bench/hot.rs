//! The hot row and the queue (experiment 4). What counts is rows changed, never attempts.

use super::BenchOptions;
use super::pgbench::PgbenchLoad;
use super::turns::{BenchStage, ServerTurn};
use kilndb_lab::client::Client;
use kilndb_lab::statistics::Better;

const HOT_ROW_START: i64 = 2_000_000_000;
const QUEUE_ROWS: i64 = 1_000_000;
const QUEUE_CLIENTS: u32 = 256;
/// The threads of pgbench, as many as in the experiment's calls.
const THREADS: u32 = 8;
const EMPTY: &str = "hot row and queue, all runs: seconds without a commit";

const PLAIN: &str = "update tbl set cnt=cnt-1, ts=now() where id=1;";
const SKIP_LOCKED: &str = "with tmp as ( select id from tbl where id=1 for update skip locked ) update tbl set cnt=cnt-1, ts=now() from tmp where tbl.id=tmp.id returning tbl.id;";
const ADVISORY: &str = "update tbl set cnt=cnt-1, ts=now() where id=1 and pg_try_advisory_xact_lock(1) returning id;";

const QUEUE_MOVE: &str = "with tmp as (delete from t_order_q where id = :vid returning order_id, cts) insert into t_order_u (order_id,cts,uts,status) select tmp.order_id, tmp.cts, now(), 1 from tmp;";
const QUEUE_ADVISORY: &str = "with tmp as (delete from t_order_q where ctid = (select ctid from t_order_q where pg_try_advisory_xact_lock(id) order by id limit 1) returning order_id, cts) insert into t_order_u (order_id,cts,uts,status) select tmp.order_id, tmp.cts, now(), 1 from tmp;";

fn queue_script(claim: &str) -> String {
    format!("begin;\nselect id as vid from t_order_q order by id {claim} \\gset\n{QUEUE_MOVE}\nend;\n")
}

/// What came of a script.
struct HotRowOutcome {
    /// Rows changed per second.
    rate: f64,
    rows: i64,
    transactions: u64,
}

/// Runs a script. `count` asks for a number that each row changed moves by one.
fn run(turn: &mut ServerTurn<'_>, load: PgbenchLoad<'_>, count: &str) -> Result<HotRowOutcome, String> {
    let before = turn.integer(count)?;
    let run = turn.pgbench(&PgbenchLoad { threads: THREADS, ..load })?;
    let rows = (turn.integer(count)? - before).abs();
    turn.add(EMPTY, run.empty_seconds as f64);
    Ok(HotRowOutcome { rate: rows as f64 / run.seconds(), rows, transactions: run.transactions })
}

pub(super) fn stages(_: &BenchOptions) -> Vec<BenchStage> {
    let mut stages = Vec::new();
    for (kind, clients, name, script) in [
        ("unlogged", 1920, "plain", PLAIN),
        ("unlogged", 1920, "SKIP LOCKED", SKIP_LOCKED),
        ("unlogged", 1920, "advisory", ADVISORY),
        ("unlogged", 64, "plain", PLAIN),
        ("", 1920, "plain", PLAIN),
        ("", 64, "plain", PLAIN),
    ] {
        stages.push(hot_row(kind, clients, name, script));
    }
    for (name, script) in [
        ("plain", queue_script("for update limit 1")),
        ("SKIP LOCKED", queue_script("for update skip locked limit 1")),
        ("advisory", QUEUE_ADVISORY.to_string()),
    ] {
        for held in [false, true] {
            stages.push(queue(name, script.clone(), held));
        }
    }
    stages
}

fn hot_row(kind: &'static str, clients: u32, name: &str, script: &'static str) -> BenchStage {
    let logged = if kind.is_empty() { "logged" } else { kind };
    let row = format!("hot row, {logged}, {clients} clients, {name}, rows/s");
    BenchStage::new(&row.clone(), move |turn| {
        let outcome = run(turn, PgbenchLoad::script(script, clients, "prepared"), "select cnt from tbl")?;
        // Each transaction of the plain UPDATE changes the row, once.
        if script == PLAIN && u64::try_from(outcome.rows) != Ok(outcome.transactions) {
            return Err(format!("{} updates have counted down by {}", outcome.transactions, outcome.rows));
        }
        turn.put(&row, Better::More, outcome.rate);
        turn.execute(&["vacuum full tbl"])
    })
    .begin(move |turn| {
        turn.execute(&[
            "drop table if exists tbl",
            &format!("create {kind} table tbl (id int primary key, cnt int, ts timestamp)"),
            &format!("insert into tbl values (1, {HOT_ROW_START}, now())"),
        ])
    })
    .end(|turn| turn.execute(&["drop table if exists tbl"]))
}

fn queue(name: &str, script: String, held: bool) -> BenchStage {
    let beside = if held { ", beside a held snapshot" } else { "" };
    let row = format!("queue, {QUEUE_CLIENTS} clients, {name}{beside}, rows/s");
    BenchStage::new(&row.clone(), move |turn| {
        refill(turn)?;
        let holder = if held { Some(hold_snapshot(turn)?) } else { None };
        let outcome =
            run(turn, PgbenchLoad::script(&script, QUEUE_CLIENTS, "extended"), "select count(*) from t_order_u")?;
        drop(holder);
        turn.put(&row, Better::More, outcome.rate);
        let (left, moved) = counts(turn)?;
        match left + moved == QUEUE_ROWS && left > 0 {
            true => Ok(()),
            false => Err(format!("{left} orders left and {moved} moved do not make {QUEUE_ROWS}, or none is left")),
        }
    })
    .begin(fill)
    .end(|turn| turn.execute(&["drop table if exists t_order_q, t_order_u"]))
}

fn fill(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    turn.execute(&[
        "drop table if exists t_order_q, t_order_u",
        "create unlogged table t_order_q (id serial8 primary key, order_id uuid unique, cts timestamp not null)",
        "create unlogged table t_order_u (id serial8 primary key, order_id uuid unique, cts timestamp not null, uts timestamp not null, status int not null)",
        &format!(
            "insert into t_order_q (order_id, cts) select gen_random_uuid(), clock_timestamp() from generate_series(1,{QUEUE_ROWS})"
        ),
        "vacuum analyze t_order_q",
    ])
}

fn counts(turn: &ServerTurn<'_>) -> Result<(i64, i64), String> {
    Ok((turn.integer("select count(*) from t_order_q")?, turn.integer("select count(*) from t_order_u")?))
}

/// A turn never runs out of orders.
fn refill(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    let (left, _) = counts(turn)?;
    if left < QUEUE_ROWS / 2 { fill(turn) } else { Ok(()) }
}

/// A session with a snapshot as old as the run.
fn hold_snapshot(turn: &ServerTurn<'_>) -> Result<Client, String> {
    let mut holder = turn.connect()?;
    super::turns::execute(&mut holder, &["begin isolation level repeatable read", "select count(*) from t_order_q"])?;
    Ok(holder)
}
