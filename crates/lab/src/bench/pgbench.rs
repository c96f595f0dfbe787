//! pgbench's own scripts: point SELECT and TPC-B, by number of clients and by protocol. And how pgbench is run.

use super::turns::{BenchStage, ServerTurn};
use super::{BenchOptions, command};
use kilndb_lab::client::Address;
use kilndb_lab::process::TempDir;
use kilndb_lab::statistics::Better;

/// What pgbench is to do.
#[derive(Clone, Copy)]
pub(super) struct PgbenchLoad<'a> {
    pub clients: u32,
    /// The threads of pgbench; 0: two, or one for one client.
    pub threads: u32,
    /// `simple`, `extended` or `prepared`.
    pub mode: &'a str,
    /// The script that runs; None: TPC-B.
    pub script: Option<&'a str>,
    pub select_only: bool,
    /// The transactions of each client; None: as many as fit in the time that the options say.
    pub transactions: Option<u32>,
    /// How long pgbench runs; None: as long as the options say.
    pub duration_s: Option<u32>,
    pub more: &'a [&'a str],
}

impl<'a> PgbenchLoad<'a> {
    pub(super) fn tpcb(clients: u32, mode: &'a str) -> PgbenchLoad<'a> {
        PgbenchLoad {
            clients,
            threads: 0,
            mode,
            script: None,
            select_only: false,
            transactions: None,
            duration_s: None,
            more: &[],
        }
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
    /// Seconds in which no transaction ended.
    pub empty_seconds: usize,
}

impl PgbenchRun {
    /// That the clients were at work.
    pub(super) fn seconds(&self) -> f64 {
        self.transactions as f64 / self.tps.max(1e-9)
    }
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
    let threads = if load.threads == 0 { load.clients.min(2) } else { load.threads };
    let mut pgbench = command("pgbench", at)?;
    pgbench.args(["-n", "-c", &load.clients.to_string(), "-j", &threads.to_string(), "-P", "1", "-M", load.mode]);
    if let Some(script) = load.script {
        std::fs::write(&file, script).map_err(|e| e.to_string())?;
        pgbench.arg("-f").arg(&file);
    }
    if load.select_only {
        pgbench.arg("-S");
    }
    match load.transactions {
        Some(transactions) => pgbench.args(["-t", &transactions.to_string()]),
        None => pgbench.args(["-T", &duration_s.to_string()]),
    };
    let output = pgbench.args(load.more).arg("postgres").output().map_err(|e| format!("pgbench: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    match read(&text, &errors) {
        Some(run) if output.status.success() => Ok(run),
        _ => Err(format!("{pgbench:?}: {text}{errors}")),
    }
}

/// Reads pgbench's summary and its lines of progress. None: it has failed, or transactions have. A run in which nothing
/// was done has no rate.
fn read(text: &str, progress: &str) -> Option<PgbenchRun> {
    let find = |start: &str| text.lines().find_map(|l| l.strip_prefix(start)).map(str::trim);
    // The line tells how many were done of how many, where a number was asked for.
    let transactions = find("number of transactions actually processed:")?.split('/').next()?.parse().ok()?;
    let tps = match find("tps = ") {
        Some(tps) => tps.split(' ').next()?.parse().ok()?,
        None if transactions == 0 => 0.0,
        None => return None,
    };
    let empty_seconds = progress.lines().filter(|l| l.starts_with("progress: ") && l.contains(" s, 0.0 tps")).count();
    let unfailed = find("number of failed transactions:").is_none_or(|t| t.starts_with("0 "));
    unfailed.then_some(PgbenchRun { tps, transactions, empty_seconds })
}

pub(super) fn stages(options: &BenchOptions) -> Vec<BenchStage> {
    let mut stages = Vec::new();
    let mut put = |row: String, load: PgbenchLoad<'static>, with_wire: bool| {
        let stage = BenchStage::new(&row.clone(), move |turn| {
            let run = turn.pgbench(&load)?;
            turn.put(&row, Better::More, run.tps);
            Ok(())
        });
        stages.push(if with_wire { stage.with_wire() } else { stage });
    };
    for &clients in &options.clients {
        put(format!("point SELECT, prepared, {clients} clients, tps"), PgbenchLoad::select(clients, "prepared"), true);
    }
    for mode in ["simple", "extended"] {
        put(format!("point SELECT, {mode}, 8 clients, tps"), PgbenchLoad::select(8, mode), true);
    }
    for &clients in &options.clients {
        let with_wire = clients == 28;
        put(format!("TPC-B, prepared, {clients} clients, tps"), PgbenchLoad::tpcb(clients, "prepared"), with_wire);
    }
    put("TPC-B, simple, 28 clients, tps".into(), PgbenchLoad::tpcb(28, "simple"), false);
    let bytes = "log bytes per TPC-B transaction";
    stages.push(BenchStage::new(bytes, |turn| log_bytes(turn, bytes)).turns(3));
    // What the changes alone cost in the log. KilnDB never writes images.
    let bytes = "log bytes per TPC-B transaction, no full-page images";
    let images = |value: &'static str| {
        move |turn: &mut ServerTurn<'_>| turn.execute(&[value, "select pg_reload_conf()", "checkpoint"])
    };
    stages.push(
        BenchStage::new(bytes, |turn| log_bytes(turn, bytes))
            .turns(3)
            .begin(images("alter system set full_page_writes = off"))
            .end(images("alter system reset full_page_writes")),
    );
    stages
}

/// No checkpoint is asked for in between.
fn log_bytes(turn: &mut ServerTurn<'_>, row: &str) -> Result<(), String> {
    let mut admin = turn.connect()?;
    let mut position = || admin.log_position().map_err(|e| e.to_string());
    let before = position()?;
    let run = turn.pgbench(&PgbenchLoad::tpcb(28, "prepared"))?;
    let after = position()?;
    turn.put(row, Better::Less, after.saturating_sub(before) as f64 / run.transactions.max(1) as f64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = "number of transactions actually processed: 390/400\n\
                           number of failed transactions: 0 (0.000%)\n\
                           tps = 1234.500000 (without initial connection time)\n";

    #[test]
    fn a_summary_is_read() {
        let progress = "progress: 1.0 s, 10.0 tps, lat 1\nprogress: 2.0 s, 0.0 tps, lat 0.000 ms\n";
        let run = read(SUMMARY, progress).expect("a run");
        assert_eq!((run.tps, run.transactions, run.empty_seconds), (1234.5, 390, 1));
        // pgbench prints no rate of nothing.
        let run = read("number of transactions actually processed: 0\n", "").expect("a run");
        assert_eq!((run.tps, run.transactions), (0.0, 0));
        assert!(read(&SUMMARY.replace("transactions: 0 (", "transactions: 7 ("), "").is_none());
        assert!(read("connection to server failed\n", "").is_none());
    }
}
