//! One query on one server: its answer, its estimates, its time, and the best plan that switches can force.
//!
//! The fastest of many plans that are timed once is the one that noise favoured. So it is only found in this way, and then
//! timed again in turns with the chosen plan, as often as that.
//!
//! Must not know: experiments.

use crate::client::{Answer, Client, ClientError};
use crate::explained::{ExplainedRun, explained_run};
use crate::results::EstimateResults;
use crate::statistics::median;
use std::io;

/// The plan of a query that takes less is not held against other plans: noise would decide.
const WORTH_MS: f64 = 10.0;
/// The runs of a query after a first one.
const RUNS: usize = 3;
/// The runs of a plan that is forced, the fastest of which says how good it may be.
const TRIES: usize = 2;
/// The runs of the chosen and of the best forced plan, in turns.
const TURNS: usize = 5;
/// A query that takes longer is cut off, and fails.
const LIMIT_MS: f64 = 20_000.0;
/// What a forced plan may take longer than the best so far before it is cut off.
const SPARE_MS: f64 = 20.0;
const QUERY_CANCELED: &str = "57014";

/// The switches that are off while other plans are tried.
const SWITCHES: [&[&str]; 12] = [
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

type Switches = &'static [&'static str];

/// What a server did with a query.
pub(super) struct EstimatedQuery {
    pub answers: Vec<Answer>,
    /// The time of the plan that the server chose, planning included: a median.
    pub chosen_ms: f64,
    pub estimates: EstimateResults,
}

/// Measures a query in a session that has what it needs. Errors: it is refused, or takes longer than a query may.
pub(super) fn measure(client: &mut Client, sql: &str) -> Result<EstimatedQuery, ClientError> {
    limit(client, LIMIT_MS)?;
    let answers = client.query(sql)?;
    let nodes = explained(client, sql)?.nodes;
    let runs = (0..RUNS).map(|_| explained(client, sql)).collect::<Result<Vec<_>, _>>()?;
    let chosen_ms = median(runs.iter().map(total_ms).collect());
    let estimates = EstimateResults {
        nodes: nodes.nodes,
        near: nodes.near,
        planning_ms: median(runs.iter().map(|run| run.planning_ms).collect()),
        best_ms: None,
        best_without: String::new(),
    };
    let mut query = EstimatedQuery { answers, chosen_ms, estimates };
    if chosen_ms > WORTH_MS {
        query.estimates.best_ms = Some(chosen_ms);
        if let Some(switches) = fastest_forced(client, sql, chosen_ms)? {
            in_turns(client, sql, switches, &mut query)?;
        }
    }
    Ok(query)
}

fn total_ms(run: &ExplainedRun) -> f64 {
    run.planning_ms + run.execution_ms
}

/// The switches without which the query seems to take less time than the chosen plan does. Each plan is tried once, whatever
/// forces it, and is cut off if it takes much longer than the fastest one so far.
fn fastest_forced(client: &mut Client, sql: &str, chosen_ms: f64) -> Result<Option<Switches>, ClientError> {
    let mut known = vec![shape(client, sql)?];
    let (mut best_ms, mut best) = (chosen_ms, None);
    for switches in SWITCHES {
        set(client, switches, "off")?;
        let shape = shape(client, sql)?;
        if !known.contains(&shape) {
            known.push(shape);
            limit(client, best_ms + SPARE_MS)?;
            for _ in 0..TRIES {
                let Ok(run) = explained(client, sql) else { break };
                if total_ms(&run) < best_ms {
                    (best_ms, best) = (total_ms(&run), Some(switches));
                }
            }
            limit(client, LIMIT_MS)?;
        }
        set(client, switches, "on")?;
    }
    Ok(best)
}

/// Times the chosen plan and the one without these switches in turns.
fn in_turns(client: &mut Client, sql: &str, without: Switches, query: &mut EstimatedQuery) -> Result<(), ClientError> {
    let (mut chosen, mut forced) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        chosen.push(total_ms(&explained(client, sql)?));
        set(client, without, "off")?;
        forced.push(total_ms(&explained(client, sql)?));
        set(client, without, "on")?;
    }
    let (chosen, forced) = (median(chosen), median(forced));
    (query.chosen_ms, query.estimates.best_ms) = (chosen, Some(chosen.min(forced)));
    if forced < chosen {
        query.estimates.best_without = without.join(", ");
    }
    Ok(())
}

/// The query's plan without its figures.
fn shape(client: &mut Client, sql: &str) -> Result<String, ClientError> {
    let answers = client.query(&format!("explain (costs off) {sql}"))?;
    Ok(text_of(&answers))
}

/// Runs a query; what EXPLAIN (ANALYZE, FORMAT JSON) says of it.
pub(super) fn explain_analyze(client: &mut Client, sql: &str) -> Result<String, ClientError> {
    let answers = client.query(&format!("explain (analyze, format json, timing off) {sql}"))?;
    Ok(text_of(&answers))
}

/// Runs a query and reads what EXPLAIN says of it.
fn explained(client: &mut Client, sql: &str) -> Result<ExplainedRun, ClientError> {
    explained_run(&explain_analyze(client, sql)?)
        .ok_or_else(|| ClientError::Io(io::Error::other("EXPLAIN tells no times")))
}

fn set(client: &mut Client, switches: Switches, value: &str) -> Result<(), ClientError> {
    switches.iter().try_for_each(|switch| patiently(client, &format!("set {switch} to {value}")))
}

fn limit(client: &mut Client, ms: f64) -> Result<(), ClientError> {
    patiently(client, &format!("set statement_timeout to {}", ms.ceil().max(1.0)))
}

/// A busy machine may let the time of a query that is to be cut off pass while a setting is changed.
fn patiently(client: &mut Client, sql: &str) -> Result<(), ClientError> {
    const ATTEMPTS: usize = 20;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match client.query(sql) {
            Ok(_) => return Ok(()),
            Err(ClientError::Server(error)) if error.code == QUERY_CANCELED && attempts < ATTEMPTS => {}
            Err(e) => return Err(e),
        }
    }
}

/// A plan as one text: it may come in one value, or line by line.
fn text_of(answers: &[Answer]) -> String {
    let rows = answers.iter().flat_map(|answer| &answer.rows);
    rows.filter_map(|row| row.first()?.as_deref()).collect::<Vec<&str>>().join("\n")
}
