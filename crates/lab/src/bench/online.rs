//! TPC-B on the very table that is changed meanwhile, again and again; and beside ANALYZE by itself and a long report.

use super::per_second::{PerSecondFigures, by_second};
use super::pgbench::PgbenchLoad;
use super::turns::{BenchStage, ServerTurn};
use kilndb_lab::client::Client;
use kilndb_lab::process::TempDir;
use kilndb_lab::statistics::Better;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: u32 = 28;
/// Seconds without a change, and beside changes; the latter in those of `--duration`, since a change of many rows gives
/// way for longer than one of few, and its last step is to be among what is measured.
const WITHOUT_S: u32 = 10;
const BESIDE_S: u32 = 20;
/// Seconds that the clients have before the changes begin. A thread of pgbench waits for the answer when a client of its
/// prepares a statement: behind a change that waits for another client of the same thread, it would wait for ever.
const PREPARING_S: u32 = 2;
const TURNS: usize = 2;

/// Seconds that a report takes: as many rounds of its query in one snapshot as fit.
const REPORT_S: u32 = 30;
const REPORT: &str = "select count(*), sum(n), sum(total) from (select bid, count(*) n, sum(abalance) total from pgbench_accounts group by bid) groups";

/// What it is called, the statement, and what takes it back.
type TableChange = (&'static str, &'static str, &'static str);

const CHANGES: [TableChange; 4] = [
    ("CREATE INDEX", "create index online_index on pgbench_accounts (abalance)", "drop index online_index"),
    (
        "ALTER TYPE",
        "alter table pgbench_accounts alter bid type bigint",
        "alter table pgbench_accounts alter bid type int",
    ),
    (
        "ADD COLUMN DEFAULT gen_random_uuid()",
        "alter table pgbench_accounts add online_column uuid default gen_random_uuid()",
        "alter table pgbench_accounts drop online_column",
    ),
    ("CLUSTER", "cluster pgbench_accounts using pgbench_accounts_pkey", "select 1"),
];

pub(super) fn stages() -> Vec<BenchStage> {
    CHANGES.into_iter().map(beside).chain([beside_report()]).collect()
}

/// Statistics that are taken by themselves every second or so, and a report in one snapshot.
fn beside_report() -> BenchStage {
    let row = format!("TPC-B, {CLIENTS} clients, beside ANALYZE by itself and a report");
    BenchStage::new("TPC-B beside ANALYZE and a report", move |turn| {
        let analyzes = "select autoanalyze_count from pg_stat_all_tables where relname = 'pgbench_accounts'";
        let without = run(turn, WITHOUT_S)?;
        turn.execute(&[
            "alter table pgbench_accounts set (autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0)",
            "alter system set autovacuum_naptime = '1s'",
            "select pg_reload_conf()",
        ])?;
        let before = turn.integer(analyzes)?;
        let at = turn.side.at.clone();
        let (beside, rounds) = std::thread::scope(|scope| {
            let reports = scope.spawn(|| report_for(&at, Duration::from_secs(u64::from(REPORT_S))));
            let beside = run(turn, REPORT_S)?;
            let rounds = reports.join().map_err(|_| "the report was not waited for".to_string())??;
            Ok::<_, String>((beside, rounds))
        })?;
        let analyzed = turn.integer(analyzes)? - before;
        turn.execute(&[
            "alter table pgbench_accounts reset (autovacuum_analyze_threshold, autovacuum_analyze_scale_factor)",
            "alter system reset autovacuum_naptime",
            "select pg_reload_conf()",
        ])?;
        if analyzed == 0 {
            return Err(format!("no ANALYZE by itself in {REPORT_S} s"));
        }
        turn.put(&format!("{row}: median second, % of without"), Better::More, 100.0 * beside.median / without.median);
        turn.put(&format!("{row}: worst second, % of its median"), Better::More, 100.0 * beside.worst / beside.median);
        turn.put(&format!("{row}: rounds of the report in {REPORT_S} s"), Better::More, f64::from(rounds));
        turn.put(&format!("{row}: ANALYZE by itself, times in {REPORT_S} s"), Better::More, analyzed as f64);
        Ok(())
    })
    .turns(TURNS)
    .unjudged()
}

/// Asks the report's query in one snapshot until the time is over. Returns how often; each answer is the same.
fn report_for(at: &kilndb_lab::client::Address, time: Duration) -> Result<u32, String> {
    let mut client = Client::connect(at, "postgres").map_err(|e| e.to_string())?;
    let start = Instant::now();
    let mut ask = |sql: &str| client.query(sql).map_err(|e| format!("{sql}: {e}"));
    ask("begin isolation level repeatable read")?;
    let first = ask(REPORT)?;
    let mut rounds = 1;
    while start.elapsed() < time {
        if ask(REPORT)? != first {
            return Err("two reports of one snapshot differ".into());
        }
        rounds += 1;
    }
    ask("commit")?;
    Ok(rounds)
}

fn beside((name, change, back): TableChange) -> BenchStage {
    BenchStage::new(&format!("TPC-B beside {name}"), move |turn| {
        let without = run(turn, WITHOUT_S)?;
        let beside_s = BESIDE_S * turn.options.duration_s;
        let is_over = AtomicBool::new(false);
        let at = turn.side.at.clone();
        let (beside, made) = std::thread::scope(|scope| {
            let changes = scope.spawn(|| {
                std::thread::sleep(Duration::from_secs(u64::from(PREPARING_S)));
                change_until(&at, (change, back), &is_over)
            });
            let beside = run(turn, PREPARING_S + beside_s);
            is_over.store(true, Ordering::SeqCst);
            let made = changes.join().map_err(|_| "the changes were not waited for".to_string())??;
            beside.map(|beside| (beside, made))
        })?;
        let row = format!("TPC-B, {CLIENTS} clients, beside {name}");
        turn.put(&format!("{row}: median second, % of without"), Better::More, 100.0 * beside.median / without.median);
        turn.put(&format!("{row}: worst second, % of its median"), Better::More, 100.0 * beside.worst / beside.median);
        turn.put(&format!("{row}: the longest transaction, ms"), Better::Less, beside.worst_latency_ms);
        turn.put(&format!("{row}: changes made and taken back in {beside_s} s"), Better::More, made as f64);
        Ok(())
    })
    .turns(TURNS)
    .unjudged()
}

/// Makes the change and takes it back, until it is told that it is over. Returns how often it was made.
fn change_until(
    at: &kilndb_lab::client::Address,
    (change, back): (&str, &str),
    is_over: &AtomicBool,
) -> Result<u32, String> {
    let mut client = Client::connect(at, "postgres").map_err(|e| e.to_string())?;
    let mut made = 0;
    while !is_over.load(Ordering::SeqCst) {
        client.query(change).map_err(|e| format!("{change}: {e}"))?;
        made += u32::from(!is_over.load(Ordering::SeqCst));
        client.query(back).map_err(|e| format!("{back}: {e}"))?;
    }
    Ok(made)
}

fn run(turn: &ServerTurn<'_>, seconds: u32) -> Result<PerSecondFigures, String> {
    let logs = TempDir::new("bench-online-log").map_err(|e| e.to_string())?;
    let prefix = logs.path().join("log").to_string_lossy().into_owned();
    let more = ["-l", "--aggregate-interval=1", "--log-prefix", &prefix];
    let load = PgbenchLoad { duration_s: Some(seconds), more: &more, ..PgbenchLoad::tpcb(CLIENTS, "prepared") };
    turn.pgbench(&load)?;
    by_second(&logs)
}
