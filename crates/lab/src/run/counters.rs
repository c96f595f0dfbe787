//! Servers of other kinds beside an experiment that moves a counter: the same numbers of clients, as long and as often.
//!
//! 1. They run behind the experiment's own cells, whose servers stand still meanwhile.
//! 2. One that is installed and cannot be measured is a cell with a problem.
//!
//! Must not know: what protocol they speak.

use super::cell::run_results;
use super::observer::Observed;
use super::progress::LabProgress;
use super::{LabOptions, clients_of, is_stopped, seconds_of};
use crate::counter::CounterServer;
use crate::experiment::{CounterSection, Experiment};
use crate::results::{CellResults, RunResults, ServerUse, TargetFacts};
use std::time::Duration;

/// A warm-up.
const WARM_UP: Duration = Duration::from_secs(1);

/// What came of them, and what they are.
pub(super) fn run(
    experiment: &Experiment,
    options: &LabOptions,
    progress: &mut LabProgress,
) -> (Vec<CellResults>, Vec<TargetFacts>) {
    let (mut cells, mut facts) = (Vec::new(), Vec::new());
    let Some(counter) = experiment.file.counter.as_ref().filter(|_| options.counters && !is_stopped()) else {
        return (cells, facts);
    };
    for (name, server) in CounterServer::installed(counter.durable) {
        let version = server.as_ref().map_or_else(|_| String::new(), |server| server.version.clone());
        let problem = server.as_ref().err().map(|e| e.lines().collect::<Vec<_>>().join(" "));
        let place = "temporary".to_string();
        facts.push(TargetFacts {
            name: name.into(),
            version,
            place,
            problem: problem.clone(),
            ..TargetFacts::default()
        });
        for clients in clients_of(experiment, options) {
            let mut cell = CellResults {
                target: name.into(),
                variant: counter.variant.clone(),
                clients,
                runs: Vec::new(),
                rate_within_10_ms: None,
                problem: problem.clone(),
            };
            if let Ok(server) = &server {
                let length = Duration::from_secs(seconds_of(experiment, options));
                cell.problem = rounds(server, (counter, length), options, (&mut cell, progress)).err();
            }
            cells.push(cell);
        }
    }
    (cells, facts)
}

fn rounds(
    server: &CounterServer,
    (counter, length): (&CounterSection, Duration),
    options: &LabOptions,
    (cell, progress): (&mut CellResults, &mut LabProgress),
) -> Result<(), String> {
    let shown = format!("{} on {}", counter.variant, server.name());
    for round in 0..=options.rounds {
        if is_stopped() {
            return if cell.runs.is_empty() { Err("stopped".into()) } else { Ok(()) };
        }
        progress.begin(&shown, cell.clients, (round > 0).then_some(round));
        let run = once(server, cell.clients, if round > 0 { length } else { WARM_UP });
        match run {
            Ok(run) if round > 0 => {
                progress.end(Some(run.changed_rows as f64 / run.elapsed_s.max(1e-9)));
                cell.runs.push(run);
            }
            Ok(_) => {}
            Err(e) => {
                progress.problem(&e);
                return Err(e);
            }
        }
    }
    Ok(())
}

fn once(server: &CounterServer, clients: usize, length: Duration) -> Result<RunResults, String> {
    let before = server.process_use();
    let (figures, moved) = server.run(clients, length).map_err(|e| e.to_string())?;
    let after = server.process_use();
    let used = ServerUse {
        cpu_s: Some((after.cpu_s - before.cpu_s).max(0.0)),
        memory_bytes: Some(after.memory_bytes),
        ..ServerUse::default()
    };
    let mut run = run_results(&figures, Vec::new(), Observed::default(), used);
    run.changed_rows = moved;
    if moved != run.transactions {
        run.failed_checks.push(format!("{} replies have moved the counter by {moved}", run.transactions));
    }
    Ok(run)
}
