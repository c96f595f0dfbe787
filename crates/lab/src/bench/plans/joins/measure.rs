//! One query on one server: its answer, its estimates, its time, and the best time that switches can force.

use super::super::super::turns::{ComparedServer, execute};
use super::super::{alone, measure::session};
use super::estimates::{ExplainedRun, NodeCounts, explained_run};
use kilndb_lab::client::{Answer, Client};

/// The plan of a query that takes less is not held against other plans: noise would decide.
pub(super) const WORTH_MS: f64 = 10.0;
/// Of so many runs of a query the fastest counts.
const RUNS: usize = 3;
/// A query that takes longer is cut off, and fails.
const LIMIT_MS: f64 = 20_000.0;
/// What a plan may take longer than twice the best before it is cut off.
const SPARE_MS: f64 = 20.0;

/// The switches that are off while other plans are tried.
pub(super) const SWITCHES: [&[&str]; 12] = [
    &["enable_nestloop"],
    &["enable_hashjoin"],
    &["enable_mergejoin"],
    &["enable_memoize"],
    &["enable_indexscan"],
    &["enable_bitmapscan"],
    &["enable_seqscan"],
    &["enable_hashjoin", "enable_mergejoin"],
    &["enable_nestloop", "enable_mergejoin"],
    &["enable_nestloop", "enable_hashjoin"],
    &["enable_mergejoin", "enable_memoize"],
    &["enable_indexscan", "enable_bitmapscan"],
];

/// What a server did with a query.
pub(super) struct JoinFigures {
    pub answers: Vec<Answer>,
    pub nodes: NodeCounts,
    /// The time of planning, which is in none of the others.
    pub planning_ms: f64,
    /// The time of execution of the plan that the server chose.
    pub chosen_ms: f64,
    /// The least time of all plans that were tried, and what was off for it; the chosen one is among them.
    pub best_ms: f64,
    pub best_without: &'static [&'static str],
}

impl JoinFigures {
    pub(super) fn is_worth(&self) -> bool {
        self.chosen_ms > WORTH_MS
    }
    pub(super) fn ratio(&self) -> f64 {
        self.chosen_ms / self.best_ms
    }
}

pub(super) fn measure(side: &ComparedServer, schema: &str, sql: &str) -> Result<JoinFigures, String> {
    alone(side, || {
        let mut client = session(side, schema)?;
        limit(&mut client, LIMIT_MS)?;
        let answers = client.query(sql).map_err(|e| e.to_string())?;
        let plan = explained(&mut client, sql)?;
        let (mut chosen_ms, mut planning_ms) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..RUNS {
            let run = explained(&mut client, sql)?;
            (chosen_ms, planning_ms) = (chosen_ms.min(run.execution_ms), planning_ms.min(run.planning_ms));
        }
        let nodes = plan.nodes;
        let mut figures = JoinFigures { answers, nodes, planning_ms, chosen_ms, best_ms: chosen_ms, best_without: &[] };
        if figures.is_worth() {
            try_others(&mut client, sql, &mut figures)?;
        }
        Ok(figures)
    })
}

/// Runs the query with each set of switches off. A plan that takes much longer than the best one so far is cut off.
fn try_others(client: &mut Client, sql: &str, figures: &mut JoinFigures) -> Result<(), String> {
    for switches in SWITCHES {
        set(client, switches, "off")?;
        limit(client, 2.0 * (figures.best_ms + figures.planning_ms) + SPARE_MS)?;
        for _ in 0..RUNS {
            let Ok(run) = explained(client, sql) else { break };
            if run.execution_ms < figures.best_ms {
                (figures.best_ms, figures.best_without) = (run.execution_ms, switches);
            }
        }
        set(client, switches, "on")?;
    }
    Ok(())
}

/// Runs a query and reads what EXPLAIN says of it: switches change the time of planning too, so it is kept apart.
pub(super) fn explained(client: &mut Client, sql: &str) -> Result<ExplainedRun, String> {
    let explain = format!("explain (analyze, format json, timing off) {sql}");
    let answers = client.query(&explain).map_err(|e| e.to_string())?;
    explained_run(&text_of(&answers)).ok_or_else(|| "EXPLAIN tells no times".into())
}

fn set(client: &mut Client, switches: &[&str], value: &str) -> Result<(), String> {
    switches.iter().try_for_each(|switch| execute(client, &[&format!("set {switch} to {value}")]))
}

fn limit(client: &mut Client, ms: f64) -> Result<(), String> {
    execute(client, &[&format!("set statement_timeout to {}", ms.ceil().max(1.0))])
}

/// A plan as one text: it may come in one value, or line by line.
fn text_of(answers: &[Answer]) -> String {
    let rows = answers.iter().flat_map(|answer| &answer.rows);
    rows.filter_map(|row| row.first()?.as_deref()).collect::<Vec<&str>>().join("\n")
}
