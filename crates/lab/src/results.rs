//! What experiments have come to, as it is kept in `results.json`: all that reports are made of, whoever makes them and when.
//!
//! 1. What is here was measured; what follows from it (medians, intervals, verdicts) is computed where it is shown.
//! 2. A cell that could not be measured says why and has no runs; it is never left out.
//! 3. Fields may be added, and none of them changes its meaning: older files can be read by newer programs.
//!
//! Must not know: servers, and how anything is shown.

use crate::statistics::median;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The file's name in the folder of a run.
pub const RESULTS_FILE: &str = "results.json";

/// All that one `lab run` has measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabResults {
    /// When it began, in ISO 8601 and UTC.
    pub began: String,
    /// The command line, as somebody would type it again.
    pub command: String,
    pub machine: MachineFacts,
    pub targets: Vec<TargetFacts>,
    pub experiments: Vec<ExperimentResults>,
}

/// The machine that the lab ran on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MachineFacts {
    pub processor: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Transactions of one statement a second that the driver gets from a server which does nothing but answer: what is left to win.
    #[serde(default)]
    pub wire_limit: Option<f64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TargetFacts {
    pub name: String,
    /// What `version()` says. Empty: it could not be asked.
    pub version: String,
    /// Where it is, without a password; `temporary` for one that the lab has started.
    pub place: String,
    /// Settings that differ from their defaults, by name.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Why nothing could be measured on it.
    #[serde(default)]
    pub problem: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExperimentResults {
    pub name: String,
    pub title: String,
    pub question: String,
    /// What is counted, in a second: `rows changed`, `transactions`.
    pub counted: CountedUnit,
    pub variants: Vec<VariantFacts>,
    /// Statements that were run before, of all variants.
    #[serde(default)]
    pub setup: String,
    #[serde(default)]
    pub figures: Vec<KnownFigureSet>,
    /// Variants from the best to the worst, as whoever wrote the experiment expects them.
    #[serde(default)]
    pub expected: Vec<String>,
    /// Figures that are held to bounds.
    #[serde(default)]
    pub bounds: Vec<BoundFacts>,
    pub cells: Vec<CellResults>,
}

/// A figure, what it must not exceed (or must reach) and what is aimed at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoundFacts {
    pub name: String,
    pub figure: BoundFigure,
    pub variant: String,
    /// The name of a statement, for figures of one.
    #[serde(default)]
    pub statement: String,
    /// The variant that a figure of a load is held against. Empty: none.
    #[serde(default)]
    pub than: String,
    /// The number of clients, of a figure of a load. None: the least that the variant has.
    #[serde(default)]
    pub clients: Option<usize>,
    /// What memory is divided by.
    #[serde(default)]
    pub of: Option<f64>,
    #[serde(default)]
    pub must: Option<f64>,
    #[serde(default)]
    pub aim: Option<f64>,
}

/// What a bound is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoundFigure {
    /// The time of a statement, in times of PostgreSQL's.
    Time,
    /// The number that a statement has answered.
    Value,
    /// The times of all statements together, in times of PostgreSQL's.
    TotalTime,
    /// The largest ratio of a statement's times.
    WorstTime,
    /// The median ratio of the statements' times.
    MedianTime,
    /// The rows that pass through all nodes of all plans, in times of PostgreSQL's.
    TotalRows,
    /// The largest ratio of a plan's rows.
    WorstRows,
    /// The share of nodes of plans whose estimates are far from the truth, in times of PostgreSQL's.
    FarEstimates,
    /// The share of long queries, in %, whose plan takes more than twice as long as another one.
    PoorPlans,
    /// What the experiment counts in a second, in % of another variant's on the same server.
    Rate,
    /// The transactions of the median second, in % of another variant's.
    MedianSecond,
    /// The transactions of the worst second, in % of the median second of the same run.
    WorstSecond,
    /// The latency that 99 of a hundred transactions kept within, in % of another variant's.
    P99,
    /// The bytes of memory that the server has more than with another variant, divided by a number.
    Memory,
}

impl BoundFigure {
    /// Bounds are what must be reached, and not what must not be exceeded.
    pub fn more_is_better(self) -> bool {
        matches!(self, BoundFigure::Rate | BoundFigure::MedianSecond | BoundFigure::WorstSecond)
    }
    /// It is of clients that run for a time, and of one server by itself.
    pub fn is_of_load(self) -> bool {
        self.more_is_better() || matches!(self, BoundFigure::P99 | BoundFigure::Memory)
    }
    /// It is held against another variant.
    pub fn wants_other_variant(self) -> bool {
        self.is_of_load() && self != BoundFigure::WorstSecond
    }
    /// It is of one statement, in front of which its bounds stand.
    pub fn is_of_statement(self) -> bool {
        matches!(self, BoundFigure::Time | BoundFigure::Value)
    }
}

/// What the figures of an experiment count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedUnit {
    /// Rows that were changed and committed, in a second: more is better.
    ChangedRows,
    /// Transactions in a second: more is better.
    Transactions,
    /// The milliseconds of each statement of a script that runs once: less is better.
    StatementTime,
    /// The milliseconds that 99 of a hundred transactions kept within: less is better.
    P99Latency,
    /// The bytes of log for each transaction: less is better.
    LogBytes,
    /// What the experiment's query says behind a script that runs once: less is better.
    Bytes,
}

impl CountedUnit {
    /// The script runs once in each round, with one client.
    pub fn runs_once(self) -> bool {
        matches!(self, CountedUnit::StatementTime | CountedUnit::Bytes)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VariantFacts {
    pub name: String,
    /// What it is, in a few words.
    #[serde(default)]
    pub title: String,
    /// The text of its script, as it stands.
    pub script: String,
    /// Statements that were run before, of this variant alone.
    #[serde(default)]
    pub setup: String,
}

/// What others have measured: `source` says who, with what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KnownFigureSet {
    pub source: String,
    pub unit: String,
    pub values: BTreeMap<String, f64>,
}

/// A variant on a target with a number of clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellResults {
    pub target: String,
    pub variant: String,
    pub clients: usize,
    /// In the order in which they were made. The n-th runs of all cells were made within one round.
    pub runs: Vec<RunResults>,
    /// Transactions a second that come at times of their own (an open loop) up to which 99 % take at most 10 ms, if it was searched.
    #[serde(default)]
    pub rate_within_10_ms: Option<f64>,
    /// Why there are no runs, or no more: the server's words, in one line.
    #[serde(default)]
    pub problem: Option<String>,
}

/// One run of a script by all clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunResults {
    /// From when the clients began to when the last one ended.
    pub elapsed_s: f64,
    pub transactions: u64,
    /// Rows changed and committed: counted by the experiment's query, or by command tags where it has none.
    pub changed_rows: u64,
    pub failed: u64,
    /// By SQLSTATE (`08006`: the connection went).
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// Of whole seconds; what is behind the last whole one is left out.
    pub seconds: Vec<SecondResults>,
    pub latency: LatencyResults,
    /// Each statement of the script, in its order.
    #[serde(default)]
    pub statements: Vec<StatementResults>,
    pub server: ServerUse,
    /// What the experiment's query has said behind the run, where it has one.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// How often all scripts beside the load were run to their ends, where they run again and again.
    #[serde(default)]
    pub beside_rounds: Option<u64>,
    /// How often sessions were seen to wait for what, of `samples` times that they were looked at.
    #[serde(default)]
    pub waits: BTreeMap<String, u64>,
    #[serde(default)]
    pub samples: u64,
    /// Checks that were not met, by name. None of a run that counts.
    #[serde(default)]
    pub failed_checks: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SecondResults {
    pub transactions: u64,
    /// As command tags say.
    pub changed_rows: u64,
    pub failed: u64,
    pub median_us: u64,
    pub p99_us: u64,
}

/// Latencies of transactions in microseconds. With a rate they begin when the transaction was due.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencyResults {
    pub mean_us: f64,
    /// Pairs of a percentage and the latency that so many percent kept within, from 0 to 100.
    pub percentiles: Vec<(f64, u64)>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StatementResults {
    /// The statement, in one line.
    pub text: String,
    /// What its script calls it. Empty: nothing.
    #[serde(default)]
    pub name: String,
    pub count: u64,
    pub mean_us: f64,
    /// The number that it has answered, where that is its figure and not its time.
    #[serde(default)]
    pub value: Option<f64>,
    /// The rows that passed through all nodes of its plan, where they were counted.
    #[serde(default)]
    pub plan_rows: Option<f64>,
    /// How good its plan is, where that was measured.
    #[serde(default)]
    pub estimates: Option<EstimateResults>,
    /// Why it has no time: the server's words.
    #[serde(default)]
    pub problem: Option<String>,
}

/// How near the estimates of a plan come to the truth, and the plan to the best that switches of the planner can force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EstimateResults {
    /// Nodes of the plan that ran, and those whose estimate is within ten times of the rows that they yielded.
    pub nodes: usize,
    pub near: usize,
    pub planning_ms: f64,
    /// The time of the fastest plan, of a query that takes long enough to be held against other plans.
    pub best_ms: Option<f64>,
    /// What was off for it. Empty: it is the one that was chosen.
    #[serde(default)]
    pub best_without: String,
}

impl StatementResults {
    /// What it took in all; None: it was not done.
    pub fn total_ms(&self) -> Option<f64> {
        self.problem.is_none().then_some(self.count as f64 * self.mean_us / 1e3)
    }
    /// How it is called: by its script, or by its text.
    pub fn title(&self) -> &str {
        if self.name.is_empty() { &self.text } else { &self.name }
    }
}

/// What the server used during the run. None: it could not be told, as of a server elsewhere.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerUse {
    pub log_bytes: Option<u64>,
    /// By how much the database became larger; below zero: smaller.
    pub disk_bytes: Option<i64>,
    pub cpu_s: Option<f64>,
    /// The memory that its processes had at the end, shared memory counted once.
    pub memory_bytes: Option<u64>,
}

impl RunResults {
    /// What the experiment counts, in a second. None: it counts no such thing.
    pub fn rate(&self, counted: CountedUnit) -> Option<f64> {
        let count = match counted {
            CountedUnit::ChangedRows => self.changed_rows,
            CountedUnit::Transactions => self.transactions,
            CountedUnit::StatementTime | CountedUnit::P99Latency | CountedUnit::LogBytes | CountedUnit::Bytes => {
                return None;
            }
        };
        Some(count as f64 / self.elapsed_s.max(1e-9))
    }
    /// Seconds in which fewer than half as many transactions ended as in the run's median second, and the longest row of such
    /// seconds.
    pub fn stalls(&self) -> (usize, usize) {
        let mut sorted: Vec<u64> = self.seconds.iter().map(|second| second.transactions).collect();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        let (mut all, mut row, mut longest) = (0, 0, 0);
        for second in &self.seconds {
            let is_stalled = second.transactions * 2 < median;
            row = if is_stalled { row + 1 } else { 0 };
            all += usize::from(is_stalled);
            longest = longest.max(row);
        }
        (all, longest)
    }
    /// The transactions of the median second and of the worst one. What is begun and ended in the first and the last second is not all
    /// that a second has, so they do not count, unless there are no others. None: there is no whole second.
    pub fn median_and_worst_second(&self) -> Option<(f64, f64)> {
        let all = self.seconds.as_slice();
        let inner = if all.len() > 2 { &all[1..all.len() - 1] } else { all };
        let counts: Vec<f64> = inner.iter().map(|second| second.transactions as f64).collect();
        let worst = counts.iter().copied().reduce(f64::min)?;
        Some((median(counts), worst))
    }
    pub fn percentile_us(&self, percent: f64) -> Option<u64> {
        self.latency.percentiles.iter().find(|(at, _)| *at >= percent).map(|(_, latency)| *latency)
    }
}

impl LabResults {
    /// Reads the file of a folder.
    pub fn read(folder: &Path) -> Result<LabResults, String> {
        let path = folder.join(RESULTS_FILE);
        let shown = path.display();
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{shown}: {e}"))?;
        serde_json::from_str(&text).map_err(|e| format!("{shown}: {e}"))
    }
    /// Writes the file of a folder. What was there stays until the new one is whole.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let path = folder.join(RESULTS_FILE);
        let new = path.with_extension("new");
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
        written.map_err(|e| format!("{}: {e}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_seconds_under_half_the_median() {
        let second = |transactions| SecondResults { transactions, ..SecondResults::default() };
        let counts = [100, 100, 40, 0, 100, 10, 100, 100];
        let run = RunResults { seconds: counts.map(second).to_vec(), ..RunResults::default() };
        assert_eq!(run.stalls(), (3, 2));
        assert_eq!(RunResults::default().stalls(), (0, 0));
    }

    #[test]
    fn the_first_and_the_last_second_do_not_count() {
        let run = |counts: &[u64]| {
            let second = |&transactions: &u64| SecondResults { transactions, ..SecondResults::default() };
            RunResults { seconds: counts.iter().map(second).collect(), ..RunResults::default() }
        };
        assert_eq!(run(&[3, 100, 60, 80, 5]).median_and_worst_second(), Some((80.0, 60.0)));
        // A very short run has no others.
        assert_eq!(run(&[40, 20]).median_and_worst_second(), Some((30.0, 20.0)));
        assert_eq!(run(&[]).median_and_worst_second(), None);
    }
}
