//! TPC-B on the very table that is changed meanwhile, again and again.

use super::figures::Better;
use super::per_second::{PerSecondFigures, by_second};
use super::pgbench::PgbenchLoad;
use super::turns::{BenchStage, ServerTurn};
use kilndb_lab::client::Client;
use kilndb_lab::process::TempDir;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CLIENTS: u32 = 28;
/// Seconds without a change, and beside changes.
const WITHOUT_S: u32 = 10;
const BESIDE_S: u32 = 20;
const TURNS: usize = 2;

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
    CHANGES.into_iter().map(beside).collect()
}

fn beside((name, change, back): TableChange) -> BenchStage {
    BenchStage::new(&format!("TPC-B beside {name}"), move |turn| {
        let without = run(turn, WITHOUT_S)?;
        let is_over = AtomicBool::new(false);
        let at = turn.side.at.clone();
        let (beside, made) = std::thread::scope(|scope| {
            let changes = scope.spawn(|| change_until(&at, (change, back), &is_over));
            std::thread::sleep(Duration::from_millis(500));
            let beside = run(turn, BESIDE_S);
            is_over.store(true, Ordering::SeqCst);
            let made = changes.join().map_err(|_| "the changes were not waited for".to_string())??;
            beside.map(|beside| (beside, made))
        })?;
        let row = format!("TPC-B, {CLIENTS} clients, beside {name}");
        turn.put(&format!("{row}: median second, % of without"), Better::More, 100.0 * beside.median / without.median);
        turn.put(&format!("{row}: worst second, % of its median"), Better::More, 100.0 * beside.worst / beside.median);
        turn.put(&format!("{row}: the longest transaction, ms"), Better::Less, beside.worst_latency_ms);
        turn.put(&format!("{row}: changes made and taken back in {BESIDE_S} s"), Better::More, made as f64);
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
