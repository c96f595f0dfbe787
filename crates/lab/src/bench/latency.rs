//! How long point queries take while other sessions scan and rewrite a whole table.

use super::pgbench::PgbenchLoad;
use super::turns::{BenchStage, ServerTurn};
use kilndb_lab::guard::SetAtEnd;
use kilndb_lab::process::TempDir;
use kilndb_lab::statistics::Better;
use std::sync::atomic::{AtomicBool, Ordering};

const CLIENTS: u32 = 16;
const LONG: [&str; 2] =
    ["select sum(abalance), count(distinct filler) from pgbench_accounts", "update beside set n = n + 1"];

pub(super) fn stages() -> Vec<BenchStage> {
    let alone = format!("point SELECT, {CLIENTS} clients, p99, ms");
    let beside = format!("point SELECT, {CLIENTS} clients, p99 beside a full scan and a huge UPDATE, ms");
    vec![
        BenchStage::new(&alone.clone(), move |turn| {
            let found = p99_ms(turn)?;
            turn.put(&alone, Better::Less, found);
            Ok(())
        }),
        BenchStage::new(&beside.clone(), move |turn| {
            let found = p99_beside_ms(turn)?;
            turn.put(&beside, Better::Less, found);
            Ok(())
        })
        .begin(|turn| {
            turn.execute(&[
                "drop table if exists beside",
                "create table beside as select aid as id, 0 as n from pgbench_accounts",
            ])
        })
        .end(|turn| turn.execute(&["drop table if exists beside"])),
    ]
}

/// The 99th percentile of latencies.
pub(super) fn p99_ms(turn: &ServerTurn<'_>) -> Result<f64, String> {
    let folder = TempDir::new("bench-latency").map_err(|e| e.to_string())?;
    let prefix = folder.path().join("log").to_string_lossy().into_owned();
    turn.pgbench(&PgbenchLoad { more: &["-l", "--log-prefix", &prefix], ..PgbenchLoad::select(CLIENTS, "prepared") })?;
    let mut latencies_us: Vec<u64> = Vec::new();
    for file in std::fs::read_dir(folder.path()).map_err(|e| e.to_string())?.flatten() {
        let text = std::fs::read_to_string(file.path()).map_err(|e| e.to_string())?;
        latencies_us.extend(text.lines().filter_map(|l| l.split(' ').nth(2)?.parse::<u64>().ok()));
    }
    latencies_us.sort_unstable();
    let at = latencies_us.len() * 99 / 100;
    latencies_us.get(at).map(|us| *us as f64 / 1000.0).ok_or_else(|| "pgbench has logged nothing".to_string())
}

fn p99_beside_ms(turn: &ServerTurn<'_>) -> Result<f64, String> {
    let done = AtomicBool::new(false);
    let mut admin = turn.connect()?;
    std::thread::scope(|scope| {
        let _guard = SetAtEnd(&done);
        for sql in LONG {
            let mut client = turn.connect()?;
            let done = &done;
            scope.spawn(move || while !done.load(Ordering::SeqCst) && client.query(sql).is_ok() {});
        }
        let found = p99_ms(turn);
        done.store(true, Ordering::SeqCst);
        // The statement on its way would last much longer than the turn.
        let cancel = "select count(pg_cancel_backend(pid)) from pg_stat_activity where state = 'active' and pid <> pg_backend_pid()";
        admin.query(cancel).map_err(|e| format!("{cancel}: {e}"))?;
        found
    })
}
