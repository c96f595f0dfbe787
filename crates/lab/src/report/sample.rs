//! Made-up results that have one of everything, for tests of reports and for whoever wants to see what a report looks like.
//!
//! 1. Nothing in here is random: two calls give the same results.
//! 2. There are two targets, three variants and two numbers of clients; a cell that could not be measured, one of whose runs a check
//!    has failed, stalls, and an experiment of statement times.
//!
//! Must not know: how anything is shown.

use crate::results::{
    BoundFacts, BoundFigure, CellResults, CountedUnit, ExperimentResults, KnownFigureSet, LabResults, LatencyResults,
    MachineFacts, RunResults, SecondResults, ServerUse, StatementResults, TargetFacts, VariantFacts,
};
use std::collections::BTreeMap;

const SECONDS: usize = 20;
const RUNS: usize = 3;

/// A name as an enemy would choose it.
pub const HOSTILE: &str = "<script>alert('\"&amp;\u{1b}')</script>";

/// Two experiments with all that there is.
pub fn results() -> LabResults {
    results_of(vec![hot_row(), commit_times()])
}

/// A run with given experiments.
pub fn results_of(experiments: Vec<ExperimentResults>) -> LabResults {
    let target = |name: &str, version: &str, settings: &[(&str, &str)]| TargetFacts {
        name: name.into(),
        version: version.into(),
        place: "temporary".into(),
        settings: settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        problem: None,
    };
    LabResults {
        began: "2026-11-30T12:00:00Z".into(),
        command: "kilndb lab run hot-row commit-modes --clients 64 1920 --seconds 20".into(),
        machine: MachineFacts {
            processor: "Some Processor 9000".into(),
            cores: 2,
            memory_bytes: 24 << 30,
            kernel: "Linux 6.1.0".into(),
            wire_limit: Some(250_000.0),
        },
        targets: vec![
            target("KilnDB", "PostgreSQL 18.0 (KilnDB 0.1.0)", &[("shared_buffers", "1GB")]),
            target(
                "PostgreSQL",
                "PostgreSQL 18.1 on x86_64",
                &[("max_connections", "2000"), ("shared_buffers", "1GB")],
            ),
        ],
        experiments,
    }
}

/// An experiment with cells that [`cell_of_rates`] has made.
pub fn experiment_of(counted: CountedUnit, cells: Vec<CellResults>) -> ExperimentResults {
    ExperimentResults {
        name: "made-up".into(),
        title: "Made up".into(),
        question: "Which is it?".into(),
        counted,
        variants: Vec::new(),
        setup: String::new(),
        figures: Vec::new(),
        expected: Vec::new(),
        bounds: Vec::new(),
        cells,
    }
}

/// A cell with runs of so many transactions a second.
pub fn cell_of_rates(target: &str, variant: &str, clients: usize, rates: &[f64]) -> CellResults {
    let run = |rate: &f64| RunResults {
        elapsed_s: 10.0,
        transactions: (rate * 10.0).round() as u64,
        changed_rows: (rate * 10.0).round() as u64,
        ..RunResults::default()
    };
    CellResults {
        rate_within_10_ms: None,
        target: target.into(),
        variant: variant.into(),
        clients,
        runs: rates.iter().map(run).collect(),
        problem: None,
    }
}

fn variant(name: &str, title: &str, script: &str) -> VariantFacts {
    VariantFacts { name: name.into(), title: title.into(), script: script.into(), setup: String::new() }
}

fn hot_row() -> ExperimentResults {
    let mut cells = Vec::new();
    for clients in [64, 1920] {
        for (target, of_target) in
            [("KilnDB", [61_000.0, 29_000.0, 31_000.0]), ("PostgreSQL", [230.0, 2_900.0, 3_400.0])]
        {
            for (name, rate) in ["plain", "skip-locked", "advisory"].into_iter().zip(of_target) {
                cells.push(hot_cell(target, name, clients, rate));
            }
        }
    }
    let figures = KnownFigureSet {
        source: "the document, PostgreSQL 14, 64 cores, 1,920 clients".into(),
        unit: "transactions a second".into(),
        values: [("plain", 230.0), ("skip-locked", 23_915.0), ("advisory", 116_928.0)]
            .map(|(name, value)| (name.to_string(), value))
            .into(),
    };
    ExperimentResults {
        name: "hot-row".into(),
        title: "One row that everybody updates".into(),
        question: "How many updates a second does one row take, and which statement is the fastest?".into(),
        variants: vec![
            variant("plain", "a plain UPDATE", "update tbl set cnt = cnt - 1 where id = 1;\n"),
            variant(
                "skip-locked",
                "only if nobody has it",
                "update tbl set cnt = cnt - 1 where id in\n  (select id from tbl where id = 1 for update skip locked);\n",
            ),
            variant(
                "advisory",
                "behind an advisory lock",
                "update tbl set cnt = cnt - 1 where id = 1 and pg_try_advisory_xact_lock(1);\n",
            ),
        ],
        setup: "create table tbl (id int primary key, cnt int);\ninsert into tbl values (1, 2000000000);\n".into(),
        figures: vec![figures],
        expected: ["plain", "skip-locked", "advisory"].map(String::from).into(),
        bounds: Vec::new(),
        ..experiment_of(CountedUnit::ChangedRows, cells)
    }
}

fn hot_cell(target: &str, name: &str, clients: usize, rate: f64) -> CellResults {
    let mut cell = cell_of_rates(target, name, clients, &[]);
    if (target, name, clients) == ("PostgreSQL", "advisory", 1920) {
        cell.problem = Some("53300: sorry, too many clients already".into());
        return cell;
    }
    let stalls = target == "PostgreSQL" && name == "plain";
    cell.runs = (0..RUNS)
        .map(|number| hot_run(rate * noise(number, name.len() + target.len() + clients), clients, stalls))
        .collect();
    if (target, name, clients) == ("KilnDB", "advisory", 64)
        && let Some(run) = cell.runs.last_mut()
    {
        run.failed_checks.push("the count is what is left".into());
    }
    cell
}

/// A few percent, which differ from run to run.
fn noise(run: usize, cell: usize) -> f64 {
    1.0 + 0.02 * ((run * 7 + cell * 3) as f64).sin()
}

fn hot_run(rate: f64, clients: usize, stalls: bool) -> RunResults {
    let per_second = |at: usize| {
        let wave = 1.0 + 0.04 * (at as f64 * 1.3).sin();
        let is_stalled = stalls && (at % 9 == 5 || at == 6);
        let changed_rows = if is_stalled { 3 } else { (rate * wave) as u64 };
        SecondResults {
            transactions: changed_rows,
            changed_rows,
            failed: u64::from(is_stalled),
            median_us: (clients as f64 * 1e6 / rate) as u64,
            p99_us: (clients as f64 * 4e6 / rate) as u64,
        }
    };
    let seconds: Vec<SecondResults> = (0..SECONDS).map(per_second).collect();
    let changed_rows: u64 = seconds.iter().map(|second| second.changed_rows).sum();
    let typical_us = clients as f64 * 1e6 / rate;
    let spread =
        [(0.0, 0.2), (50.0, 1.0), (90.0, 1.6), (99.0, 4.0), (99.9, 9.0), (100.0, if stalls { 90.0 } else { 20.0 })];
    RunResults {
        elapsed_s: SECONDS as f64,
        transactions: changed_rows,
        changed_rows,
        failed: seconds.iter().map(|second| second.failed).sum(),
        errors: if stalls { [("40P01".to_string(), 2)].into() } else { BTreeMap::new() },
        seconds,
        latency: LatencyResults {
            mean_us: typical_us * 1.1,
            percentiles: spread.map(|(percent, times)| (percent, (typical_us * times) as u64)).into(),
        },
        statements: Vec::new(),
        server: ServerUse {
            log_bytes: Some(changed_rows * 90),
            disk_bytes: Some(if stalls { 8 << 20 } else { -8192 }),
            cpu_s: Some(SECONDS as f64 * 1.7),
            memory_bytes: Some(300 << 20),
        },
        bytes: None,
        beside_rounds: None,
        waits: [("Lock: tuple".to_string(), 900 * clients as u64 / 64), ("IO: WalSync".to_string(), 120)].into(),
        samples: 200,
        failed_checks: Vec::new(),
    }
}

fn commit_times() -> ExperimentResults {
    let mut cells = Vec::new();
    for (target, slower) in [("KilnDB", 1.0), ("PostgreSQL", 2.5)] {
        for (name, factor) in [("plain", 1.0), ("logged", 3.0)] {
            let mut cell = cell_of_rates(target, name, 1, &[1.0, 1.0, 1.0]);
            for (number, run) in cell.runs.iter_mut().enumerate() {
                let statement = |text: &str, ms: f64| StatementResults {
                    text: text.into(),
                    count: 2,
                    mean_us: ms * 1e3 * slower * factor * noise(number, text.len() + target.len()),
                    ..StatementResults::default()
                };
                run.statements = vec![
                    statement("create table t (id int)", 4.0),
                    statement("insert into t select generate_series(1, 1000000)", 800.0),
                ];
            }
            cells.push(cell);
        }
    }
    ExperimentResults {
        name: "commit-modes".into(),
        title: "What filling a table takes".into(),
        question: "How long do the statements take that fill a table, logged and not?".into(),
        variants: vec![
            variant(
                "plain",
                "unlogged",
                "create unlogged table t (id int);\ninsert into t select generate_series(1, 1000000);\n",
            ),
            variant("logged", "", "create table t (id int);\ninsert into t select generate_series(1, 1000000);\n"),
        ],
        bounds: vec![BoundFacts {
            name: "all, unlogged".into(),
            figure: BoundFigure::TotalTime,
            variant: "plain".into(),
            statement: String::new(),
            than: String::new(),
            clients: None,
            of: None,
            must: Some(0.5),
            aim: Some(0.2),
        }],
        ..experiment_of(CountedUnit::StatementTime, cells)
    }
}

/// The same with hostile names wherever there is text.
pub fn hostile_results() -> LabResults {
    let mut results = results();
    let hostile = || HOSTILE.to_string();
    (results.command, results.began, results.machine.processor) = (hostile(), hostile(), hostile());
    for target in &mut results.targets {
        target.name += HOSTILE;
        (target.version, target.place, target.problem) = (hostile(), hostile(), Some(hostile()));
        target.settings.insert(hostile(), hostile());
    }
    for experiment in &mut results.experiments {
        experiment.name += HOSTILE;
        (experiment.title, experiment.question) = (hostile(), hostile());
        experiment.setup = hostile();
        experiment.expected = vec![hostile()];
        experiment.bounds.iter_mut().for_each(|bound| bound.name = hostile());
        experiment.figures.iter_mut().for_each(|set| {
            (set.source, set.unit) = (hostile(), hostile());
            set.values.insert(hostile(), 1.0);
        });
        for variant in &mut experiment.variants {
            variant.name += HOSTILE;
            (variant.title, variant.script, variant.setup) = (hostile(), hostile(), hostile());
        }
        for cell in &mut experiment.cells {
            cell.target += HOSTILE;
            cell.variant += HOSTILE;
            cell.problem = cell.problem.as_ref().map(|_| hostile());
            for run in &mut cell.runs {
                run.waits.insert(hostile(), 5);
                run.errors.insert(hostile(), 5);
                run.statements.iter_mut().for_each(|statement| statement.text = hostile());
                run.failed_checks.iter_mut().for_each(|check| *check = hostile());
            }
        }
    }
    results
}
