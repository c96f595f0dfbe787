//! What a load has come to: transactions, rows and latencies, by second.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// Latencies in microseconds, to two digits.
const DIGITS: u8 = 2;
const LATENCY_MAX_US: u64 = 3_600_000_000;

/// One second of a run.
#[derive(Clone, Debug)]
pub struct SecondFigures {
    pub transactions: u64,
    /// Rows that statements have changed, as their command tags say.
    pub changed_rows: u64,
    pub failed: u64,
    latencies: Histogram<u32>,
}

impl Default for SecondFigures {
    fn default() -> SecondFigures {
        let latencies = Histogram::new_with_bounds(1, LATENCY_MAX_US, DIGITS).expect("bounds of a histogram");
        SecondFigures { transactions: 0, changed_rows: 0, failed: 0, latencies }
    }
}

impl SecondFigures {
    pub fn percentile_us(&self, percent: f64) -> u64 {
        self.latencies.value_at_percentile(percent)
    }
    pub fn mean_us(&self) -> f64 {
        self.latencies.mean()
    }
    fn add(&mut self, other: &SecondFigures) {
        self.transactions += other.transactions;
        self.changed_rows += other.changed_rows;
        self.failed += other.failed;
        // Both have the same bounds.
        let _ = self.latencies.add(&other.latencies);
    }
}

/// A statement of a script, in all transactions.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatementFigures {
    pub count: u64,
    /// From sending it to its last reply.
    pub time: Duration,
}

/// A whole run, or a thread's part of it.
#[derive(Clone, Debug, Default)]
pub struct LoadFigures {
    /// By second from when the clients began.
    pub seconds: Vec<SecondFigures>,
    /// How often transactions have failed with each SQLSTATE (`08006`: the connection went).
    pub errors: BTreeMap<String, u64>,
    /// The first error's message, for whoever asks what went wrong.
    pub first_error: Option<String>,
    /// From when the clients began to when the last one ended.
    pub elapsed: Duration,
    /// By script and command. Statements of pipelines have no time of their own.
    pub statements: Vec<Vec<StatementFigures>>,
}

/// A transaction that has ended.
pub(crate) struct EndedTransaction {
    /// From when the clients began.
    pub at: Duration,
    pub latency: Duration,
    pub changed_rows: u64,
}

impl LoadFigures {
    fn second(&mut self, at: Duration) -> &mut SecondFigures {
        let second = at.as_secs() as usize;
        if self.seconds.len() <= second {
            self.seconds.resize_with(second + 1, SecondFigures::default);
        }
        &mut self.seconds[second]
    }
    pub(crate) fn ended(&mut self, transaction: &EndedTransaction) {
        let second = self.second(transaction.at);
        second.transactions += 1;
        second.changed_rows += transaction.changed_rows;
        let latency_us = u64::try_from(transaction.latency.as_micros()).unwrap_or(u64::MAX);
        second.latencies.saturating_record(latency_us.max(1));
    }
    pub(crate) fn failed(&mut self, at: Duration, sqlstate: &str, message: &str) {
        self.second(at).failed += 1;
        *self.errors.entry(sqlstate.to_string()).or_default() += 1;
        if self.first_error.is_none() {
            self.first_error = Some(format!("{sqlstate} {message}"));
        }
    }
    pub(crate) fn add(&mut self, other: LoadFigures) {
        for (second, figures) in other.seconds.iter().enumerate() {
            self.second(Duration::from_secs(second as u64)).add(figures);
        }
        for (sqlstate, count) in other.errors {
            *self.errors.entry(sqlstate).or_default() += count;
        }
        self.first_error = self.first_error.take().or(other.first_error);
        self.elapsed = self.elapsed.max(other.elapsed);
        for (script, statements) in other.statements.into_iter().enumerate() {
            for (command, figures) in statements.into_iter().enumerate().filter(|(_, figures)| figures.count > 0) {
                let sum = self.statement(script, command);
                sum.count += figures.count;
                sum.time += figures.time;
            }
        }
    }
    fn statement(&mut self, script: usize, command: usize) -> &mut StatementFigures {
        if self.statements.len() <= script {
            self.statements.resize_with(script + 1, Vec::new);
        }
        let statements = &mut self.statements[script];
        if statements.len() <= command {
            statements.resize_with(command + 1, StatementFigures::default);
        }
        &mut statements[command]
    }
    pub(super) fn statement_ended(&mut self, (script, command): (usize, usize), time: Duration) {
        let figures = self.statement(script, command);
        figures.count += 1;
        figures.time += time;
    }

    pub fn transactions(&self) -> u64 {
        self.seconds.iter().map(|second| second.transactions).sum()
    }
    pub fn changed_rows(&self) -> u64 {
        self.seconds.iter().map(|second| second.changed_rows).sum()
    }
    pub fn failures(&self) -> u64 {
        self.seconds.iter().map(|second| second.failed).sum()
    }
    pub fn transactions_per_second(&self) -> f64 {
        self.transactions() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
    /// The latency that so many percent of all transactions kept within.
    pub fn percentile_us(&self, percent: f64) -> u64 {
        self.all_seconds().percentile_us(percent)
    }
    /// What all seconds come to, with their latencies together.
    pub fn all_seconds(&self) -> SecondFigures {
        let mut all = SecondFigures::default();
        self.seconds.iter().for_each(|second| all.add(second));
        all
    }
}
