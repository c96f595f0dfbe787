//! Random transactions of 16 sessions at each isolation level, with kills: what clients saw must be what the level
//! promises (`kilndb_sim::history`). And faults put in on purpose must be found.
//!
//! A few seconds here; `KILNDB_HISTORY_SECONDS` of load for each test, `KILNDB_SEED` for the choices of an earlier run
//! (not their interleaving), `KILNDB_HISTORY_AT=port` for a server that runs already, `KILNDB_HISTORY_POSTGRES=1` for a
//! PostgreSQL (`PGBIN` says which) in a temporary folder; those are not killed.

use kilndb_sim::history::run::{self, HistoryOptions, HistoryReport, HistoryTarget, PlantedFault};
use kilndb_sim::history::{AnomalyKind, IsolationLevel};
use std::time::Duration;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

fn target() -> HistoryTarget {
    match (number("KILNDB_HISTORY_AT"), number("KILNDB_HISTORY_POSTGRES")) {
        (Some(port), _) => HistoryTarget::At(port as u16),
        (None, Some(_)) => HistoryTarget::Postgres,
        (None, None) => HistoryTarget::Killed,
    }
}

fn options(levels: &[IsolationLevel]) -> HistoryOptions {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let load = Duration::from_secs(number("KILNDB_HISTORY_SECONDS").unwrap_or(2));
    let seed = number("KILNDB_SEED").unwrap_or(time);
    HistoryOptions { levels: levels.to_vec(), target: target(), plant: PlantedFault::Nothing, sessions: 16, load, seed }
}

fn holds(levels: &[IsolationLevel]) {
    let options = options(levels);
    println!("seed {}", options.seed);
    let report = run::run(&options, |line| println!("{levels:?}: {line}")).unwrap_or_else(|e| panic!("{e}"));
    let found: Vec<String> = report.anomalies.iter().take(5).map(ToString::to_string).collect();
    assert!(
        found.is_empty(),
        "seed {}, {} anomalies, kept in {:?}:\n{}",
        options.seed,
        report.anomalies.len(),
        report.kept,
        found.join("\n")
    );
    assert!(report.committed > 0, "{report:?}");
}

#[test]
fn read_committed_holds() {
    holds(&[IsolationLevel::ReadCommitted]);
}

#[test]
fn repeatable_read_holds() {
    holds(&[IsolationLevel::RepeatableRead]);
}

#[test]
fn serializable_holds() {
    holds(&[IsolationLevel::Serializable]);
}

#[test]
fn all_levels_at_once_hold() {
    holds(&[IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable]);
}

/// Each round has its chance to meet the fault; the last one must have met it.
fn is_found(plant: PlantedFault, level: IsolationLevel, spared: HistoryTarget, expected: &[AnomalyKind]) {
    let mut last = HistoryReport::default();
    for round in 0..40 {
        let mut options = options(&[level]);
        options.plant = plant;
        options.load = Duration::from_millis(600);
        options.seed = options.seed.wrapping_add(round);
        if options.target == HistoryTarget::Killed {
            options.target = spared;
        }
        last = run::run(&options, |line| println!("{plant:?} {level:?}: {line}")).unwrap_or_else(|e| panic!("{e}"));
        if let Some(found) = last.anomalies.iter().find(|a| expected.contains(&a.kind)) {
            println!("after {} rounds: {found}", round + 1);
            return;
        }
    }
    panic!("{plant:?} at {level:?} was not found: {last:?}");
}

#[test]
fn write_skew_is_found() {
    is_found(
        PlantedFault::WeakerLevel,
        IsolationLevel::Serializable,
        HistoryTarget::Spared,
        &[AnomalyKind::NotSerializable],
    );
}

#[test]
fn changing_snapshots_are_found() {
    is_found(
        PlantedFault::WeakerLevel,
        IsolationLevel::RepeatableRead,
        HistoryTarget::Spared,
        &[AnomalyKind::ReadSkew, AnomalyKind::LostUpdate],
    );
}

#[test]
fn a_commit_that_was_none_is_found() {
    is_found(
        PlantedFault::FalseCommit,
        IsolationLevel::ReadCommitted,
        HistoryTarget::Spared,
        &[AnomalyKind::LostCommit],
    );
}

#[test]
fn a_commit_lost_in_a_crash_is_found() {
    // It needs a kill.
    if target() == HistoryTarget::Killed {
        is_found(
            PlantedFault::AsynchronousCommit,
            IsolationLevel::ReadCommitted,
            HistoryTarget::Killed,
            &[AnomalyKind::LostCommit],
        );
    }
}
