//! Experiments on targets: each variant on each target in a schema of its own, in turns, with checks.
//!
//! 1. What cannot be done is a cell with a problem in words; the rest goes on.
//! 2. Cells take turns in an order that changes with each round, so that none meets another time of the machine's day; before the
//!    first round that counts, each has one that does not.
//! 3. Nothing is touched outside of the cells' schemas, and these go in the end, whatever has happened, unless they are to be kept.
//! 4. Results are written after each experiment: what is measured is not lost when something ends the lab.
//!
//! Must not know: how results are shown.

mod answers;
mod beside;
mod cell;
mod counters;
mod estimates;
mod observer;
mod progress;
mod rate_search;
mod session;
mod stop;
mod timed;
mod wire_limit;

pub use stop::{StopWatch, is_stopped};

use crate::experiment::{Experiment, Variant};
use crate::results::{
    CellResults, ExperimentResults, KnownFigureSet, LabResults, MachineFacts, TargetFacts, VariantFacts,
};
use crate::target::Target;
use cell::LabCell;
use progress::LabProgress;
use std::path::Path;
use std::time::Duration;

/// How often a thread that waits looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a run is asked to be beside what the experiments say.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Instead of the experiments' numbers of clients.
    pub clients: Option<Vec<usize>>,
    pub seconds: Option<u64>,
    /// Variables and their values, for experiments that have them.
    pub variables: Vec<(String, String)>,
    /// Rounds that count.
    pub rounds: usize,
    /// As long as experiments are at their full length.
    pub full: bool,
    /// Temporary servers are started again between rounds: one start of a server is one sample.
    pub restart: bool,
    /// Schemas stay.
    pub keep: bool,
    /// Search the rate at which 99 % of the transactions still take at most 10 ms.
    pub search_rate: bool,
    /// Servers of other kinds that are installed are started where an experiment has use for them.
    pub counters: bool,
    pub driver: DriverKind,
}

impl LabOptions {
    /// As the experiments say, so many rounds.
    pub fn of_rounds(rounds: usize) -> LabOptions {
        LabOptions {
            clients: None,
            seconds: None,
            variables: Vec::new(),
            rounds,
            full: false,
            restart: false,
            keep: false,
            search_rate: false,
            counters: false,
            driver: DriverKind::Lab,
        }
    }
}

/// Who runs the scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverKind {
    Lab,
    Pgbench,
}

/// Runs experiments on all targets, and writes what came of it into `folder` again and again.
pub fn run(
    experiments: &[Experiment],
    targets: &[Target],
    options: &LabOptions,
    (command, folder): (String, &Path),
) -> Result<LabResults, String> {
    let mut progress = LabProgress::new();
    targets.iter().for_each(Target::pause);
    let mut results = LabResults {
        began: now(),
        command,
        machine: machine(),
        targets: targets.iter().map(|target| target.facts.clone()).collect(),
        experiments: Vec::new(),
    };
    for experiment in experiments {
        if is_stopped() {
            break;
        }
        progress.experiment(&experiment.file.title);
        let (found, others) = run_experiment(experiment, targets, options, &mut progress)?;
        results.experiments.push(found);
        let known: Vec<String> = results.targets.iter().map(|target| target.name.clone()).collect();
        results.targets.extend(others.into_iter().filter(|target| !known.contains(&target.name)));
        results.write(folder)?;
    }
    targets.iter().for_each(Target::go_on);
    Ok(results)
}

/// What has come of an experiment, and servers of other kinds that were beside. Errors: the experiment itself is wrong.
fn run_experiment(
    experiment: &Experiment,
    targets: &[Target],
    options: &LabOptions,
    progress: &mut LabProgress,
) -> Result<(ExperimentResults, Vec<TargetFacts>), String> {
    let mut cells = Vec::new();
    for variant in &experiment.file.variants {
        for target in targets.iter().filter(|target| is_for(experiment, variant, target)) {
            cells.push(LabCell::new(experiment, variant, target, options)?);
        }
    }
    prepare(&mut cells, progress);
    let clients = clients_of(experiment, options);
    let mut found = Vec::new();
    for clients in clients {
        let mut cells: Vec<&mut LabCell> = cells.iter_mut().filter(|cell| cell.has_clients(clients, options)).collect();
        let mut of_clients: Vec<CellResults> = cells.iter().map(|cell| cell.no_results(clients)).collect();
        run_rounds((&mut cells, &mut of_clients), targets, options, progress);
        found.extend(of_clients);
    }
    clear(&cells, options.keep, progress);
    let (of_others, others) = counters::run(experiment, options, progress);
    found.extend(of_others);
    Ok((results_of(experiment, found)?, others))
}

/// Fills the schemas. Cells of a target that share one have it filled by the first of them.
fn prepare(cells: &mut [LabCell<'_>], progress: &mut LabProgress) {
    for at in 0..cells.len() {
        let (before, rest) = cells.split_at_mut(at);
        let cell = &mut rest[0];
        progress.preparing(&cell.name());
        let first = before.iter().find(|other| other.shares_schema_with(cell));
        cell.prepare(first);
    }
}

/// Takes the schemas away, each once.
fn clear(cells: &[LabCell<'_>], keep: bool, progress: &mut LabProgress) {
    for (at, cell) in cells.iter().enumerate() {
        if !cells[..at].iter().any(|other| other.shares_schema_with(cell)) {
            cell.clear(keep, progress);
        }
    }
}

/// The rounds of all cells with one number of clients.
fn run_rounds(
    (cells, results): (&mut [&mut LabCell<'_>], &mut [CellResults]),
    targets: &[Target],
    options: &LabOptions,
    progress: &mut LabProgress,
) {
    let warm_up = usize::from(cells.first().is_some_and(|cell| cell.warms_up()));
    for round in 0..options.rounds + warm_up {
        let mut order: Vec<usize> = (0..cells.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        if options.restart && round > warm_up && !is_stopped() {
            restart(targets, results);
            // What has just been started has nothing in its caches.
            order.iter().filter(|_| warm_up > 0).for_each(|&at| warm(cells[at], &mut results[at], progress));
        }
        for at in order {
            let (cell, of_cell) = (&mut cells[at], &mut results[at]);
            if is_stopped() && of_cell.runs.is_empty() {
                of_cell.problem.get_or_insert_with(|| "stopped".into());
            }
            if of_cell.problem.is_some() || is_stopped() {
                continue;
            }
            let counts = round >= warm_up;
            progress.begin(&cell.name(), of_cell.clients, if counts { Some(round - warm_up + 1) } else { None });
            match cell.run(of_cell.clients, counts, progress) {
                Ok(run) if counts => {
                    progress.end(run.rate(cell.counted()));
                    of_cell.runs.push(run);
                }
                Ok(_) => {}
                Err(e) => {
                    progress.problem(&e);
                    of_cell.problem = Some(if is_stopped() { "stopped".into() } else { e });
                }
            }
        }
        compare_answers(cells, results, progress);
    }
    if options.search_rate {
        for (cell, of_cell) in cells.iter_mut().zip(results) {
            rate_search::search(cell, of_cell, progress);
        }
    }
}

/// Holds what was answered in a round against what the first target has answered that has the variant.
fn compare_answers(cells: &mut [&mut LabCell<'_>], results: &mut [CellResults], progress: &mut LabProgress) {
    for (at, of_cell) in results.iter_mut().enumerate() {
        let (before, rest) = cells.split_at_mut(at);
        let cell = &mut rest[0];
        if let Some(first) = before.iter().find(|other| other.variant_name() == cell.variant_name())
            && let Some(run) = of_cell.runs.last_mut()
        {
            cell.compare_answers(first, run, progress);
        }
    }
    // What a later round does not answer again is not held against what an earlier one has.
    cells.iter_mut().for_each(|cell| cell.forget_answers());
}

/// Starts the temporary servers again.
fn restart(targets: &[Target], results: &mut [CellResults]) {
    for target in targets {
        if let Err(e) = target.restart() {
            let of_target = results.iter_mut().filter(|cell| cell.target == target.name);
            of_target.for_each(|cell| cell.problem = cell.problem.take().or_else(|| Some(e.clone())));
        }
    }
}

/// A run that does not count.
fn warm(cell: &mut LabCell<'_>, results: &mut CellResults, progress: &mut LabProgress) {
    if results.problem.is_none() && !is_stopped() {
        progress.begin(&cell.name(), results.clients, None);
        results.problem = cell.run(results.clients, false, progress).err();
    }
}

fn is_for(experiment: &Experiment, variant: &Variant, target: &Target) -> bool {
    if target.is_wire() {
        return experiment.file.measure.wire_limit;
    }
    variant.only.is_empty() || target.product.is_none_or(|product| variant.only.contains(&product))
}

/// How long a run of an experiment lasts.
fn seconds_of(experiment: &Experiment, options: &LabOptions) -> u64 {
    let load = &experiment.file.load;
    let full = load.full_seconds.filter(|_| options.full);
    options.seconds.or(full).unwrap_or(load.seconds)
}

fn clients_of(experiment: &Experiment, options: &LabOptions) -> Vec<usize> {
    if experiment.file.count.runs_once() {
        return vec![1];
    }
    let mut all: Vec<usize> =
        experiment.file.variants.iter().flat_map(|v| clients_of_variant(experiment, v, options)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn clients_of_variant(experiment: &Experiment, variant: &Variant, options: &LabOptions) -> Vec<usize> {
    match (&options.clients, variant.clients.as_slice()) {
        // A script that runs once has one client.
        _ if experiment.file.count.runs_once() => vec![1],
        (Some(clients), _) => clients.clone(),
        (None, []) => experiment.file.load.clients.clone(),
        (None, own) => own.to_vec(),
    }
}

fn results_of(experiment: &Experiment, cells: Vec<CellResults>) -> Result<ExperimentResults, String> {
    let file = &experiment.file;
    let variant = |variant: &Variant| {
        Ok::<_, String>(VariantFacts {
            name: variant.name.clone(),
            title: variant.title.clone(),
            script: experiment.load_text(variant)?,
            setup: experiment.setup_text(&[&variant.setup, &variant.session])?,
        })
    };
    let known = |figures: &crate::experiment::KnownFigures| KnownFigureSet {
        source: figures.source.clone(),
        unit: figures.unit.clone(),
        values: figures.values.clone(),
    };
    Ok(ExperimentResults {
        name: experiment.name.clone(),
        title: file.title.clone(),
        question: file.question.clone(),
        counted: file.count,
        variants: file.variants.iter().map(variant).collect::<Result<_, _>>()?,
        setup: data_text(experiment)
            + &experiment.setup_text(&[&file.setup.sql, &file.setup.each_run, &file.setup.session])?,
        figures: file.figures.iter().map(known).collect(),
        expected: file.expected.clone(),
        bounds: experiment.bounds()?,
        cells,
    })
}

/// What is told of data that no SQL makes.
fn data_text(experiment: &Experiment) -> String {
    experiment.file.setup.data.map_or(String::new(), |data| format!("-- The tables of {}.\n", data.name))
}

fn now() -> String {
    jiff::Timestamp::now().round(jiff::Unit::Second).map_or_else(|_| String::new(), |now| now.to_string())
}

fn machine() -> MachineFacts {
    let of_file = |path: &str, label: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(label).map(str::to_string)).unwrap_or_default();
        line.trim_start_matches([' ', '\t', ':']).trim().to_string()
    };
    let kilobytes = of_file("/proc/meminfo", "MemTotal:");
    let kilobytes = kilobytes.split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
    MachineFacts {
        processor: of_file("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().map_or(0, |n| n.get()),
        memory_bytes: kilobytes * 1024,
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string(),
        wire_limit: wire_limit::measure().ok(),
    }
}
