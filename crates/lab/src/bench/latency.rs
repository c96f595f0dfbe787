//! How long point queries take while other sessions scan and rewrite a whole table.

use super::{Better, Figures, Options, connect, pgbench_with};
use kilndb_lab::guard::SetAtEnd;
use kilndb_lab::process::{Server, TempDir};
use std::sync::atomic::{AtomicBool, Ordering};

const CLIENTS: u32 = 16;
const LONG: [&str; 2] =
    ["select sum(abalance), count(distinct filler) from pgbench_accounts", "update beside set n = n + 1"];

/// The 99th percentile of latencies, in ms.
fn p99_ms(server: &Server, options: &Options) -> Result<f64, String> {
    let folder = TempDir::new("bench-latency").map_err(|e| e.to_string())?;
    let prefix = folder.path().join("log").to_string_lossy().into_owned();
    pgbench_with(server.address(), options, CLIENTS, 2, &["-S", "-M", "prepared", "-l", "--log-prefix", &prefix])?;
    let mut latencies_us: Vec<u64> = Vec::new();
    for file in std::fs::read_dir(folder.path()).map_err(|e| e.to_string())?.flatten() {
        let text = std::fs::read_to_string(file.path()).map_err(|e| e.to_string())?;
        latencies_us.extend(text.lines().filter_map(|l| l.split(' ').nth(2)?.parse::<u64>().ok()));
    }
    latencies_us.sort_unstable();
    let at = latencies_us.len() * 99 / 100;
    latencies_us.get(at).map(|us| *us as f64 / 1000.0).ok_or_else(|| "pgbench has logged nothing".to_string())
}

pub(super) fn measure(
    engine: &'static str,
    options: &Options,
    figures: &mut Figures,
    server: &Server,
) -> Result<(), String> {
    let alone = p99_ms(server, options)?;
    figures.put(engine, &format!("point SELECT, {CLIENTS} clients, p99, ms"), Better::Less, alone);
    let mut admin = connect(server)?;
    for sql in ["drop table if exists beside", "create table beside as select aid as id, 0 as n from pgbench_accounts"]
    {
        admin.query(sql).map_err(|e| e.to_string())?;
    }
    let done = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        let _guard = SetAtEnd(&done);
        for sql in LONG {
            let mut client = connect(server)?;
            let done = &done;
            scope.spawn(move || while !done.load(Ordering::Relaxed) && client.query(sql).is_ok() {});
        }
        p99_ms(server, options)
    })?;
    admin.query("drop table beside").map_err(|e| e.to_string())?;
    figures.put(
        engine,
        &format!("point SELECT, {CLIENTS} clients, p99 beside a full scan and a huge UPDATE, ms"),
        Better::Less,
        beside,
    );
    Ok(())
}
