//! Random and mutated protocol messages and SQL texts against a running server: errors are fine, a panic, an internal
//! error, a statement that no timeout ends, a lost server, growing memory or a damaged cluster is not.

mod corpus;
mod messages;
mod mutate;
mod texts;

pub use corpus::Corpus;

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, Server, TempDir};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

/// How much to send; a seed replays what one client sends, not how two of them interleave.
pub struct FuzzOptions {
    pub messages: u64,
    pub texts: u64,
    pub clients: u64,
    pub seed: u64,
    /// A folder of .sql files beside those of tests/sql.
    pub corpus: Option<std::path::PathBuf>,
}

/// What a run has seen.
#[derive(Default, Debug)]
pub struct FuzzReport {
    pub messages: u64,
    pub texts: u64,
    pub connections: u64,
    /// Texts that were answered without an error.
    pub succeeded: u64,
    /// How often which SQLSTATE was the answer to a text.
    pub errors: BTreeMap<String, u64>,
    /// Internal errors with a text that gave each.
    pub internal_errors: BTreeMap<String, String>,
    /// Batches that were not answered in time.
    pub stuck: Vec<String>,
    /// Resident kilobytes after a quarter of the run and at its end.
    pub memory_warm_kb: u64,
    pub memory_end_kb: u64,
    pub seconds: u64,
}

impl FuzzReport {
    fn add(&mut self, other: FuzzReport) {
        self.messages += other.messages;
        self.texts += other.texts;
        self.connections += other.connections;
        self.succeeded += other.succeeded;
        for (code, count) in other.errors {
            *self.errors.entry(code).or_default() += count;
        }
        self.internal_errors.extend(other.internal_errors);
        self.stuck.extend(other.stuck);
    }
}

fn resident_kb(server: &Server) -> u64 {
    let engine_pid = server.engine_pid().unwrap_or_default();
    let status = std::fs::read_to_string(format!("/proc/{engine_pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or("");
    line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Everything found wrong with the server after a run, beyond what the report holds.
pub fn run(options: &FuzzOptions, mut progress: impl FnMut(&str)) -> Result<FuzzReport, String> {
    let folder = TempDir::new("fuzz").map_err(|e| e.to_string())?;
    let data = folder.path().join("data");
    let port = process::free_port().map_err(|e| e.to_string())?;
    // An engine that crashes is not to be hidden by its successor.
    let settings = ["statement_timeout=300ms", "shared_buffers=64MB", "max_wal_size=128MB", "restart_after_crash=off"];
    let mut server = process::start_kilndb(&data, port, &settings).map_err(|e| e.to_string())?;
    let corpus = Corpus::load(options.corpus.as_deref());
    progress(&format!("{} statements to begin with", corpus.len()));
    let started = Instant::now();
    let mut report = FuzzReport::default();
    const SLICES: u64 = 8;
    for slice in 0..SLICES {
        let part = slice_of(options, &corpus, port, slice, SLICES)?;
        report.add(part);
        let log = std::fs::read_to_string(data.with_extension("log")).unwrap_or_default();
        if let Some(found) = panics(&log) {
            return Err(format!("panics with seed {}:\n{found}\n{:#?}", options.seed, report.internal_errors));
        }
        if !server.is_running() {
            return Err(format!("the server died with seed {}: {}", options.seed, server.log_tail()));
        }
        if !report.stuck.is_empty() {
            return Err(format!("no answer with seed {}: {:#?}", options.seed, report.stuck));
        }
        report.memory_end_kb = resident_kb(&server);
        if slice == 1 {
            report.memory_warm_kb = report.memory_end_kb;
        }
        progress(&format!(
            "{} messages, {} texts ({} without an error), {} s, {} MB",
            report.messages,
            report.texts,
            report.succeeded,
            started.elapsed().as_secs(),
            report.memory_end_kb / 1024
        ));
    }
    report.seconds = started.elapsed().as_secs();
    let mut last =
        Client::connect(server.address(), "postgres").map_err(|e| format!("the server takes no connections: {e}"))?;
    if last.integer("select 1").ok() != Some(1) {
        return Err("the server does not answer".into());
    }
    drop(last);
    server.stop().map_err(|e| e.to_string())?;
    process::check_kilndb(&data).map_err(|e| e.to_string())?;
    Ok(report)
}

/// The lines of a log that tell of panics, with the line after each.
fn panics(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let mut found = BTreeMap::new();
    for (i, line) in lines.iter().enumerate().filter(|(_, l)| l.contains("panicked at")) {
        let place = line.split("panicked at").nth(1).unwrap_or(line);
        let _ = found.insert(place, lines.get(i + 1).copied().unwrap_or(""));
    }
    let text: Vec<String> = found.iter().map(|(place, message)| format!("{place} {message}")).collect();
    (!text.is_empty()).then(|| text.join("\n"))
}

fn slice_of(options: &FuzzOptions, corpus: &Corpus, port: u16, slice: u64, slices: u64) -> Result<FuzzReport, String> {
    let total = Mutex::new(Ok(FuzzReport::default()));
    let clients = options.clients.max(1);
    std::thread::scope(|scope| {
        for client in 0..clients {
            let total = &total;
            scope.spawn(move || {
                let mut random = mutate::Random(options.seed ^ (slice << 32) ^ (client << 48));
                let share = |n: u64| n.div_ceil(slices * clients);
                let result =
                    messages::run(&mut random, corpus, port, share(options.messages)).and_then(|mut report| {
                        report.add(texts::run(&mut random, corpus, port, client, share(options.texts))?);
                        Ok(report)
                    });
                let mut total = total.lock().unwrap_or_else(|e| e.into_inner());
                match (total.as_mut(), result) {
                    (Ok(sum), Ok(part)) => sum.add(part),
                    (Ok(_), Err(e)) => *total = Err(e),
                    (Err(_), _) => {}
                }
            });
        }
    });
    total.into_inner().unwrap_or_else(|e| e.into_inner())
}
