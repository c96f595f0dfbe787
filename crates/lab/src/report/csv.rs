//! All runs as lines of CSV (RFC 4180), for whoever computes with them.
//!
//! 1. Each run of each cell is one line; a cell's problem is a line of its own, without a run.
//! 2. Names of columns end in their units; what is not known is empty.
//!
//! Must not know: what the figures mean for a verdict.

use super::summary::run_value;
use crate::results::{CellResults, CountedUnit, ExperimentResults, LabResults, RunResults};

const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];
const HEADER: [&str; 25] = [
    "experiment",
    "target",
    "variant",
    "clients",
    "run",
    "counts",
    "elapsed_s",
    "transactions",
    "changed_rows",
    "failed_transactions",
    "rate_per_s",
    "statements_total_ms",
    "latency_mean_us",
    "latency_p50_us",
    "latency_p90_us",
    "latency_p99_us",
    "latency_p99.9_us",
    "latency_max_us",
    "stalls_s",
    "longest_stall_s",
    "log_bytes",
    "disk_bytes",
    "cpu_s",
    "memory_bytes",
    "measured_bytes",
];
/// Of text, and so behind the numbers.
const LAST_COLUMNS: [&str; 2] = ["failed_checks", "problem"];

/// A header, and the lines of all runs.
pub fn lines(results: &LabResults) -> String {
    let header = HEADER.iter().chain(&LAST_COLUMNS).map(|name| name.to_string()).collect();
    let mut text = line(header);
    for experiment in &results.experiments {
        for cell in &experiment.cells {
            let of_run = |(number, run)| run_fields(experiment, cell, number, run);
            cell.runs.iter().enumerate().map(of_run).for_each(|fields| text += &line(fields));
            if let Some(problem) = &cell.problem {
                text += &line(problem_fields(experiment, cell, problem));
            }
        }
    }
    text
}

fn cell_fields(experiment: &ExperimentResults, cell: &CellResults) -> Vec<String> {
    vec![experiment.name.clone(), cell.target.clone(), cell.variant.clone(), cell.clients.to_string()]
}

fn problem_fields(experiment: &ExperimentResults, cell: &CellResults, problem: &str) -> Vec<String> {
    let mut fields = cell_fields(experiment, cell);
    fields.resize(HEADER.len() + LAST_COLUMNS.len() - 1, String::new());
    fields.push(problem.to_string());
    fields
}

fn run_fields(experiment: &ExperimentResults, cell: &CellResults, number: usize, run: &RunResults) -> Vec<String> {
    let counted = experiment.counted;
    let total_ms = run_value(run, counted).filter(|_| counted == CountedUnit::StatementTime);
    let mut fields = cell_fields(experiment, cell);
    fields.extend([
        (number + 1).to_string(),
        if run.failed_checks.is_empty() { "yes" } else { "no" }.to_string(),
        run.elapsed_s.to_string(),
        run.transactions.to_string(),
        run.changed_rows.to_string(),
        run.failed.to_string(),
        known(run.rate(counted)),
        known(total_ms),
        run.latency.mean_us.to_string(),
    ]);
    fields.extend(PERCENTILES.map(|percent| known(run.percentile_us(percent))));
    let (stalls_s, longest_s) = run.stalls();
    fields.extend([stalls_s.to_string(), longest_s.to_string()]);
    let server = &run.server;
    fields.extend([
        known(server.log_bytes),
        known(server.disk_bytes),
        known(server.cpu_s),
        known(server.memory_bytes),
        known(run.bytes),
        run.failed_checks.join("; "),
        String::new(),
    ]);
    fields
}

fn known(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn line(fields: Vec<String>) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    quoted.join(",") + "\r\n"
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Reads CSV by the letter of RFC 4180.
    fn parsed(text: &str) -> Vec<Vec<String>> {
        let mut lines = vec![vec![String::new()]];
        let mut is_quoted = false;
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let line = lines.last_mut().expect("a line");
            match letter {
                '"' if is_quoted && letters.next_if_eq(&'"').is_some() => line.last_mut().expect("a field").push('"'),
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => line.push(String::new()),
                '\r' if !is_quoted => {
                    assert_eq!(letters.next(), Some('\n'));
                    lines.push(vec![String::new()]);
                }
                other => line.last_mut().expect("a field").push(other),
            }
        }
        assert_eq!(lines.pop(), Some(vec![String::new()]), "the last line ends");
        lines
    }

    #[test]
    fn all_runs_can_be_read_back() {
        for (mut results, has_hostile) in [(sample::results(), false), (sample::hostile_results(), true)] {
            results.experiments[0].name = "a \"name\", of\r\ntwo lines".into();
            let lines = parsed(&lines(&results));
            let (header, lines) = lines.split_first().expect("a header");
            assert!(lines.iter().all(|line| line.len() == header.len()));
            let cells = || results.experiments.iter().flat_map(|e| e.cells.iter().map(move |cell| (e, cell)));
            let expected: usize = cells().map(|(_, cell)| cell.runs.len() + usize::from(cell.problem.is_some())).sum();
            assert_eq!(lines.len(), expected);
            let column = |name: &str| header.iter().position(|known| known == name).expect("a column");
            let field = |line: usize, name: &str| lines[line][column(name)].as_str();
            let mut at = 0;
            for (experiment, cell) in cells() {
                for run in &cell.runs {
                    assert_eq!(field(at, "experiment"), experiment.name);
                    assert_eq!(field(at, "variant"), cell.variant);
                    assert_eq!(field(at, "changed_rows").parse(), Ok(run.changed_rows));
                    assert_eq!(field(at, "rate_per_s").parse().ok(), run.rate(experiment.counted));
                    assert_eq!(field(at, "latency_p99_us").parse().ok(), run.percentile_us(99.0));
                    assert_eq!(field(at, "disk_bytes").parse().ok(), run.server.disk_bytes);
                    assert_eq!(field(at, "counts") == "no", !run.failed_checks.is_empty());
                    at += 1;
                }
                if let Some(problem) = &cell.problem {
                    assert_eq!((field(at, "run"), field(at, "problem")), ("", problem.as_str()));
                    at += 1;
                }
            }
            assert_eq!(lines.iter().flatten().any(|field| field.contains(sample::HOSTILE)), has_hostile);
        }
    }
}
