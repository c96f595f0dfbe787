//! How pgbench is run, and what it says.

use super::turns::ServerTurn;
use super::{BenchOptions, command};
use kilndb_lab::client::Address;
use kilndb_lab::process::TempDir;

/// What pgbench is to do.
#[derive(Clone, Copy)]
pub(super) struct PgbenchLoad<'a> {
    pub clients: u32,
    /// `simple`, `extended` or `prepared`.
    pub mode: &'a str,
    /// The script that runs; None: TPC-B.
    pub script: Option<&'a str>,
    pub select_only: bool,
    /// How long pgbench runs; None: as long as the options say.
    pub duration_s: Option<u32>,
    pub more: &'a [&'a str],
}

impl<'a> PgbenchLoad<'a> {
    pub(super) fn tpcb(clients: u32, mode: &'a str) -> PgbenchLoad<'a> {
        PgbenchLoad { clients, mode, script: None, select_only: false, duration_s: None, more: &[] }
    }
    pub(super) fn select(clients: u32, mode: &'a str) -> PgbenchLoad<'a> {
        PgbenchLoad { select_only: true, ..PgbenchLoad::tpcb(clients, mode) }
    }
    pub(super) fn script(script: &'a str, clients: u32, mode: &'a str) -> PgbenchLoad<'a> {
        PgbenchLoad { script: Some(script), ..PgbenchLoad::tpcb(clients, mode) }
    }
}

pub(super) struct PgbenchRun {
    pub tps: f64,
    pub transactions: u64,
}

/// On a busy machine so many clients may take longer to connect than a run lasts: then it is a longer one.
pub(super) fn run(at: &Address, options: &BenchOptions, load: &PgbenchLoad<'_>) -> Result<PgbenchRun, String> {
    let duration_s = seconds(options, load);
    let mut run = run_for(at, load, duration_s)?;
    if run.transactions == 0 {
        run = run_for(at, load, duration_s * 5)?;
    }
    match run.transactions {
        0 => Err(format!("{} clients have done nothing in {} s", load.clients, duration_s * 5)),
        _ => Ok(run),
    }
}

/// Starting thousands of processes takes PostgreSQL longer than a short run lasts.
fn seconds(options: &BenchOptions, load: &PgbenchLoad<'_>) -> u32 {
    let duration_s = load.duration_s.unwrap_or(options.duration_s);
    match (load.clients >= 500, &options.before) {
        (true, None) => duration_s.max(10),
        (true, Some(_)) => duration_s.max(3),
        _ => duration_s,
    }
}

fn run_for(at: &Address, load: &PgbenchLoad<'_>, duration_s: u32) -> Result<PgbenchRun, String> {
    let folder = TempDir::new("bench-script").map_err(|e| e.to_string())?;
    let file = folder.path().join("script.sql");
    let threads = load.clients.min(2);
    let mut pgbench = command("pgbench", at)?;
    pgbench.args(["-n", "-c", &load.clients.to_string(), "-j", &threads.to_string(), "-M", load.mode]);
    if let Some(script) = load.script {
        std::fs::write(&file, script).map_err(|e| e.to_string())?;
        pgbench.arg("-f").arg(&file);
    }
    if load.select_only {
        pgbench.arg("-S");
    }
    pgbench.args(["-T", &duration_s.to_string()]);
    let output = pgbench.args(load.more).arg("postgres").output().map_err(|e| format!("pgbench: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    match read(&text) {
        Some(run) if output.status.success() => Ok(run),
        _ => Err(format!("{pgbench:?}: {text}{errors}")),
    }
}

/// Reads pgbench's summary. None: it has failed, or transactions have. A run in which nothing
/// was done has no rate.
fn read(text: &str) -> Option<PgbenchRun> {
    let find = |start: &str| text.lines().find_map(|l| l.strip_prefix(start)).map(str::trim);
    // The line tells how many were done of how many, where a number was asked for.
    let transactions = find("number of transactions actually processed:")?.split('/').next()?.parse().ok()?;
    let tps = match find("tps = ") {
        Some(tps) => tps.split(' ').next()?.parse().ok()?,
        None if transactions == 0 => 0.0,
        None => return None,
    };
    let unfailed = find("number of failed transactions:").is_none_or(|t| t.starts_with("0 "));
    unfailed.then_some(PgbenchRun { tps, transactions })
}

/// The 99th percentile of the latencies of point SELECTs.
pub(super) fn p99_ms(turn: &ServerTurn<'_>, clients: u32) -> Result<f64, String> {
    let folder = TempDir::new("bench-latency").map_err(|e| e.to_string())?;
    let prefix = folder.path().join("log").to_string_lossy().into_owned();
    turn.pgbench(&PgbenchLoad { more: &["-l", "--log-prefix", &prefix], ..PgbenchLoad::select(clients, "prepared") })?;
    let mut latencies_us: Vec<u64> = Vec::new();
    for file in std::fs::read_dir(folder.path()).map_err(|e| e.to_string())?.flatten() {
        let text = std::fs::read_to_string(file.path()).map_err(|e| e.to_string())?;
        latencies_us.extend(text.lines().filter_map(|l| l.split(' ').nth(2)?.parse::<u64>().ok()));
    }
    latencies_us.sort_unstable();
    let at = latencies_us.len() * 99 / 100;
    latencies_us.get(at).map(|us| *us as f64 / 1000.0).ok_or_else(|| "pgbench has logged nothing".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = "number of transactions actually processed: 390/400\n\
                           number of failed transactions: 0 (0.000%)\n\
                           tps = 1234.500000 (without initial connection time)\n";

    #[test]
    fn a_summary_is_read() {
        let run = read(SUMMARY).expect("a run");
        assert_eq!((run.tps, run.transactions), (1234.5, 390));
        // pgbench prints no rate of nothing.
        let run = read("number of transactions actually processed: 0\n").expect("a run");
        assert_eq!((run.tps, run.transactions), (0.0, 0));
        assert!(read(&SUMMARY.replace("transactions: 0 (", "transactions: 7 (")).is_none());
        assert!(read("connection to server failed\n").is_none());
    }
}
