//! Runs sessions against a server, kills it in between, and has the history checked.

use super::session::{Session, SessionEnd, read_everything};
use super::workload::{self, SharedCounters};
use super::{Anomaly, AnomalyKind, History, IsolationLevel, TransactionOutcome, check};
use crate::random::Random;
use kilndb_lab::client::{Address, Client, ClientError};
use kilndb_lab::postgres;
use kilndb_lab::process::{self, Server, TempDir};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use super::session::PlantedFault;

/// Whose behaviour is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryTarget {
    /// KilnDB in a temporary folder, killed now and then.
    Killed,
    /// KilnDB in a temporary folder, never killed.
    Spared,
    /// A PostgreSQL started in a temporary folder, never killed.
    Postgres,
    /// Whatever listens on this port of 127.0.0.1, never killed.
    At(u16),
}

pub struct HistoryOptions {
    pub levels: Vec<IsolationLevel>,
    pub target: HistoryTarget,
    pub plant: PlantedFault,
    pub sessions: u32,
    /// Under load; starts, final reads and checks come on top.
    pub load: Duration,
    pub seed: u64,
}

/// A history is checked after so much load, and the next one begins with an empty table.
const HISTORY_MAX: Duration = Duration::from_secs(12);
/// The longest time under load before a kill.
const KILL_AFTER_MAX_MS: u64 = 1500;

#[derive(Debug, Default)]
pub struct HistoryReport {
    pub committed: usize,
    pub aborted: usize,
    pub unknown: usize,
    pub histories: usize,
    pub kills: usize,
    pub checking: Duration,
    pub anomalies: Vec<Anomaly>,
    /// What KilnDB's transactions may see of each other before it is on disk (docs/decisions/0003), and a crash took
    /// away: no anomalies.
    pub unconfirmed_reads: usize,
    /// Where the history and the data of an anomaly were put.
    pub kept: Option<PathBuf>,
}

struct HistoryBench<'a> {
    options: &'a HistoryOptions,
    folder: TempDir,
    address: Address,
    database: String,
    server: Option<Server>,
    random: Random,
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

/// Ends early when something has been found. An error is what nothing may ever show: a lost server, an unexpected
/// SQLSTATE, a torn row.
pub fn run(options: &HistoryOptions, mut progress: impl FnMut(&str)) -> Result<HistoryReport, String> {
    let mut bench = HistoryBench::new(options)?;
    let mut report = HistoryReport::default();
    let mut left = options.load;
    while !left.is_zero() && report.anomalies.is_empty() {
        let load = left.min(HISTORY_MAX);
        left -= load;
        let done = bench.one_history(load, &mut report);
        if done.is_err() || !report.anomalies.is_empty() && options.plant == PlantedFault::Nothing {
            report.kept = bench.keep();
        }
        done.map_err(|e| format!("{e} (kept in {:?})", report.kept))?;
        progress(&format!(
            "{} histories, {} kills: {} committed, {} aborted, {} unknown, {} anomalies ({} unconfirmed reads), checked in {:.1} s",
            report.histories,
            report.kills,
            report.committed,
            report.aborted,
            report.unknown,
            report.anomalies.len(),
            report.unconfirmed_reads,
            report.checking.as_secs_f64()
        ));
    }
    bench.end()?;
    Ok(report)
}

impl<'a> HistoryBench<'a> {
    fn new(options: &'a HistoryOptions) -> Result<HistoryBench<'a>, String> {
        let folder = TempDir::new("history").map_err(text)?;
        let port = match options.target {
            HistoryTarget::At(port) => port,
            _ => process::free_port().map_err(text)?,
        };
        let database = match options.target {
            HistoryTarget::At(_) => format!("kilndb_history_{}_{:x}", std::process::id(), options.seed),
            _ => "postgres".to_string(),
        };
        let random = Random(options.seed | 1);
        let mut bench = HistoryBench { options, folder, address: Address::local(port), database, server: None, random };
        if let HistoryTarget::At(_) = options.target {
            let mut client = Client::connect(&bench.address, "postgres").map_err(text)?;
            client.query(&format!("create database {}", bench.database)).map_err(text)?;
        }
        bench.start()?;
        Ok(bench)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn start(&mut self) -> Result<(), String> {
        let port = self.address.port;
        self.server = match self.options.target {
            HistoryTarget::At(_) => None,
            HistoryTarget::Postgres => Some(postgres::start(self.folder.path(), port, &[]).map_err(text)?),
            // Small, so that pages are evicted and checkpoints run while the load does.
            _ => Some(process::start_kilndb(&self.data(), port, &["shared_buffers=16MB"]).map_err(text)?),
        };
        Ok(())
    }

    fn client(&self) -> Result<Client, String> {
        Client::connect(&self.address, &self.database).map_err(text)
    }

    fn is_kilndb(&self) -> bool {
        matches!(self.options.target, HistoryTarget::Killed | HistoryTarget::Spared)
    }

    fn one_history(&mut self, load: Duration, report: &mut HistoryReport) -> Result<(), String> {
        self.client()?.query(&format!("drop table if exists t; {}", workload::TABLE)).map_err(text)?;
        let board = SharedCounters::default();
        let mut history = History::default();
        let began = Instant::now();
        while let Some(left) = load.checked_sub(began.elapsed()) {
            let kill = self.options.target == HistoryTarget::Killed;
            let until_kill = Duration::from_millis(100 + self.random.below(KILL_AFTER_MAX_MS));
            self.load(
                &board,
                if kill { until_kill.min(left.max(Duration::from_millis(100))) } else { left },
                kill,
                &mut history,
            )?;
            if kill {
                report.kills += 1;
                if self.random.one_in(4) {
                    let after = Duration::from_millis(self.random.below(150));
                    process::die_in_start(&self.data(), self.address.port, after).map_err(text)?;
                }
                self.start()?;
            }
        }
        history.last = read_everything(&mut self.client()?)?;
        let began = Instant::now();
        let mut anomalies = check(&history);
        report.checking += began.elapsed();
        if self.is_kilndb() {
            let found = anomalies.len();
            anomalies.retain(|a| a.kind != AnomalyKind::UnconfirmedRead);
            report.unconfirmed_reads += found - anomalies.len();
        }
        report.histories += 1;
        for transaction in &history.transactions {
            match transaction.outcome {
                TransactionOutcome::Committed => report.committed += 1,
                TransactionOutcome::Aborted => report.aborted += 1,
                TransactionOutcome::Unknown => report.unknown += 1,
            }
        }
        if !anomalies.is_empty() && self.options.plant == PlantedFault::Nothing {
            self.write(&history, &anomalies)?;
        }
        report.anomalies.extend(anomalies);
        if self.is_kilndb() {
            self.check_cluster()?;
        }
        Ok(())
    }

    /// All sessions at work, for so long.
    fn load(
        &mut self,
        board: &SharedCounters,
        time: Duration,
        kill: bool,
        history: &mut History,
    ) -> Result<(), String> {
        let killed = AtomicBool::new(false);
        board.stop.store(false, Ordering::SeqCst);
        let (address, database, options) = (self.address.clone(), self.database.clone(), self.options);
        let mut sessions = Vec::new();
        for number in 0..options.sessions {
            let random = Random(self.random.number() | 1);
            let shared = (board, &options.levels[..], options.plant);
            let session =
                Client::connect(&address, &database).and_then(|client| Session::new(client, number, random, shared));
            sessions.push(session.map_err(|e| format!("session {number}: {e}"))?);
        }
        let is_kilndb = self.is_kilndb();
        let server = &mut self.server;
        std::thread::scope(|scope| {
            let threads: Vec<_> = sessions
                .iter_mut()
                .map(|session| {
                    let killed = &killed;
                    scope.spawn(move || match session.run() {
                        SessionEnd::Wrong(message) => Err(message),
                        SessionEnd::Lost if !killed.load(Ordering::SeqCst) => Err("a connection was lost".to_string()),
                        _ => Ok(()),
                    })
                })
                .collect();
            let maintenance = is_kilndb.then(|| scope.spawn(|| maintain(&address, board)));
            std::thread::sleep(time);
            let mut result = Ok(());
            if kill && let Some(server) = server.take() {
                killed.store(true, Ordering::SeqCst);
                result = server.kill().map_err(text);
            }
            board.stop.store(true, Ordering::SeqCst);
            for thread in threads {
                result = result.and(thread.join().unwrap_or_else(|_| Err("a session panicked".into())));
            }
            if let Some(thread) = maintenance {
                match thread.join() {
                    Ok(Err(ClientError::Server(e))) if !kill => {
                        result = result.and(Err(format!("checkpoint: {} {}", e.code, e.message)))
                    }
                    Err(_) => result = result.and(Err("the maintenance panicked".into())),
                    Ok(_) => {}
                }
            }
            result
        })?;
        history.transactions.extend(sessions.into_iter().flat_map(|s| s.transactions));
        Ok(())
    }

    /// A clean stop, `kilndb check`, and a start.
    fn check_cluster(&mut self) -> Result<(), String> {
        if let Some(server) = self.server.take() {
            let status = server.stop().map_err(text)?;
            if !status.success() {
                return Err(format!("a clean stop ended with {status}"));
            }
        }
        process::check_kilndb(&self.data()).map_err(text)?;
        self.start()
    }

    fn write(&self, history: &History, anomalies: &[Anomaly]) -> Result<(), String> {
        let mut lines: Vec<String> = anomalies.iter().map(ToString::to_string).collect();
        lines.extend(history.transactions.iter().enumerate().map(|(number, t)| format!("T{number}: {t}")));
        lines.extend(history.last.iter().map(|(key, list)| format!("at the end {key}={list:?}")));
        std::fs::write(self.folder.path().join("history.txt"), lines.join("\n")).map_err(text)
    }

    /// Keeps the data for a post-mortem. The server goes: its data is to stay as it is.
    fn keep(&mut self) -> Option<PathBuf> {
        self.server = None;
        let kept =
            std::env::temp_dir().join(format!("kilndb-history-failed-{}-{:x}", std::process::id(), self.options.seed));
        std::fs::rename(self.folder.path(), &kept).ok().map(|()| kept)
    }

    fn end(&mut self) -> Result<(), String> {
        if let HistoryTarget::At(_) = self.options.target {
            let mut client = Client::connect(&self.address, "postgres").map_err(text)?;
            client.query(&format!("drop database {} with (force)", self.database)).map_err(text)?;
        }
        match self.server.take() {
            Some(server) => server.stop().map_err(text).map(|_| ()),
            None => Ok(()),
        }
    }
}

/// Checkpoints beside the load.
fn maintain(address: &Address, board: &SharedCounters) -> Result<(), ClientError> {
    let mut client = Client::connect(address, "postgres")?;
    while !board.stop.load(Ordering::Relaxed) {
        client.query("checkpoint")?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
