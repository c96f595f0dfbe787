//! One query on two servers in turns: its times, its answers, and the rows its plans produced.

use super::super::turns::{ComparedServer, execute};
use super::answers::{difference, rows_of};
use super::explain::produced_rows;
use super::queries::PlanQuery;
use kilndb_lab::client::{Answer, Client, ClientError};
use kilndb_lab::statistics::median;
use std::time::Instant;

/// A query that takes longer is cut off, and counts as so long.
pub(super) const LIMIT_S: f64 = 60.0;
/// Of so many runs after a first one the median counts.
const RUNS: usize = 3;
/// A query whose first run took longer is run once more only, or the benchmark would take hours.
const LONG_S: f64 = 20.0;
const QUERY_CANCELED: &str = "57014";

/// What a server did with a query.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::bench) enum QueryOutcome {
    /// The seconds of the median run.
    Done(f64),
    /// Not done within [`LIMIT_S`].
    CutOff,
    Refused(String),
}

impl QueryOutcome {
    pub(super) fn seconds(&self) -> Option<f64> {
        match self {
            QueryOutcome::Done(seconds) => Some(*seconds),
            QueryOutcome::CutOff => Some(LIMIT_S),
            QueryOutcome::Refused(_) => None,
        }
    }
}

/// A query on one server.
#[derive(Clone, Debug)]
pub(in crate::bench) struct QueryFigures {
    pub outcome: QueryOutcome,
    /// The rows that all nodes of the plan produced; None: the query was not done.
    pub produced: Option<f64>,
}

/// A query on both servers.
#[derive(Clone, Debug)]
pub(in crate::bench) struct QueryComparison {
    pub name: String,
    pub base: QueryFigures,
    pub other: QueryFigures,
    /// The rows of the first server's answer; None: it gave none.
    pub answered: Option<usize>,
    /// What differs in the answers of the two.
    pub difference: Option<String>,
}

impl QueryComparison {
    /// How many times as long the second takes.
    pub(in crate::bench) fn time_ratio(&self) -> Option<f64> {
        self.seconds().map(|(base, other)| other / base)
    }
    /// The times of both; None: one of them refused the query.
    pub(in crate::bench) fn seconds(&self) -> Option<(f64, f64)> {
        Some((self.base.outcome.seconds()?, self.other.outcome.seconds()?))
    }
    /// How many times as many rows the second's plan produces. A row more on both sides gives nothing a ratio too.
    pub(super) fn rows_ratio(&self) -> Option<f64> {
        Some((self.other.produced? + 1.0) / (self.base.produced? + 1.0))
    }
}

#[cfg(test)]
impl QueryComparison {
    /// A query that both servers did in so many seconds.
    pub(in crate::bench) fn of_times((name, base, other): (&str, f64, f64)) -> QueryComparison {
        let of = |seconds| QueryFigures { outcome: QueryOutcome::Done(seconds), produced: None };
        QueryComparison { name: name.into(), base: of(base), other: of(other), answered: Some(1), difference: None }
    }
}

/// A run of a query: its time and its answer.
struct QueryRun {
    seconds: f64,
    answers: Vec<Answer>,
}

impl QueryRun {
    fn rows(&self) -> usize {
        self.answers.last().map_or(0, |answer| answer.rows.len())
    }
}

/// A query on one server, run by run in one session: the first run fills the session's caches too.
struct QuerySide<'a> {
    side: &'a ComparedServer,
    query: &'a PlanQuery,
    session: Option<Client>,
    first: Result<QueryRun, QueryOutcome>,
    times: Vec<f64>,
}

/// Runs a query on both servers: each once to warm up, then in turns, and once more for what EXPLAIN says.
pub(super) fn compare(sides: [&ComparedServer; 2], session: QuerySession, query: &PlanQuery) -> QueryComparison {
    let [mut base, mut other] = sides.map(|side| QuerySide::begin(side, session, query));
    for run in 0..RUNS {
        let mut order = [&mut base, &mut other];
        if run % 2 == 1 {
            order.reverse();
        }
        order.into_iter().for_each(QuerySide::run_again);
    }
    let figures = [base.figures(), other.figures()];
    let answered = base.first.as_ref().ok().map(QueryRun::rows);
    let difference = match (base.first, other.first) {
        (Ok(base), Ok(other)) => {
            difference(&rows_of(base.answers, query.ordered), &rows_of(other.answers, query.ordered))
        }
        _ => None,
    };
    let [base, other] = figures;
    QueryComparison { name: query.name.clone(), base, other, answered, difference }
}

impl<'a> QuerySide<'a> {
    fn begin(side: &'a ComparedServer, session: QuerySession, query: &'a PlanQuery) -> QuerySide<'a> {
        let (session, first) = match side.alone(|| session.open(side)) {
            Ok(mut client) => {
                let first = run(side, &mut client, query, &query.sql);
                (Some(client), first)
            }
            Err(e) => (None, Err(QueryOutcome::Refused(e))),
        };
        QuerySide { side, query, session, first, times: Vec::new() }
    }

    fn run_again(&mut self) {
        let (Ok(first), Some(client)) = (&self.first, &mut self.session) else { return };
        if first.seconds > LONG_S && !self.times.is_empty() {
            return;
        }
        match run(self.side, client, self.query, &self.query.sql) {
            Ok(run) => self.times.push(run.seconds),
            Err(outcome) => self.first = Err(outcome),
        }
    }

    fn figures(&mut self) -> QueryFigures {
        if let Err(outcome) = &self.first {
            return QueryFigures { outcome: outcome.clone(), produced: None };
        }
        let sql = format!("explain (analyze, format json, timing off) {}", self.query.sql);
        let client = self.session.as_mut();
        let plan = client.and_then(|client| run(self.side, client, self.query, &sql).ok());
        let produced = plan.and_then(|run| first_value(run.answers)).and_then(|json| produced_rows(&json));
        QueryFigures { outcome: QueryOutcome::Done(median(self.times.clone())), produced }
    }
}

fn first_value(answers: Vec<Answer>) -> Option<String> {
    // A plan may come in one value, or line by line.
    let rows = answers.into_iter().next_back()?.rows;
    let lines: Vec<String> = rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect();
    Some(lines.join("\n"))
}

/// Runs a text in the query's surroundings, while the other servers stand still.
fn run(side: &ComparedServer, client: &mut Client, query: &PlanQuery, sql: &str) -> Result<QueryRun, QueryOutcome> {
    side.alone(|| {
        around(client, &query.before)?;
        let began = Instant::now();
        let answers = client.query(sql).map_err(outcome_of)?;
        let seconds = began.elapsed().as_secs_f64();
        around(client, &query.after)?;
        Ok(QueryRun { seconds, answers })
    })
}

fn around(client: &mut Client, statements: &[String]) -> Result<(), QueryOutcome> {
    statements.iter().try_for_each(|sql| client.query(sql).map(drop).map_err(outcome_of))
}

fn outcome_of(error: ClientError) -> QueryOutcome {
    match error {
        ClientError::Server(error) if error.code == QUERY_CANCELED => QueryOutcome::CutOff,
        error => QueryOutcome::Refused(error.to_string()),
    }
}

/// What a session of queries is like.
#[derive(Clone, Copy)]
pub(super) struct QuerySession {
    /// Where the tables are.
    pub schema: &'static str,
    /// How many processes may help a query.
    pub parallel_workers: u32,
}

impl QuerySession {
    /// A session with the tables in sight, and no compiled expressions.
    pub(super) fn open(self, side: &ComparedServer) -> Result<Client, String> {
        let mut client = Client::connect(&side.at, "postgres").map_err(|e| e.to_string())?;
        execute(
            &mut client,
            &[
                &format!("set search_path to {}", self.schema),
                &format!("set statement_timeout to '{LIMIT_S}s'"),
                &format!("set max_parallel_workers_per_gather to {}", self.parallel_workers),
                "set jit to off",
            ],
        )?;
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_counts_as_the_limit_and_what_is_refused_as_nothing() {
        let figures = |outcome, produced| QueryFigures { outcome, produced };
        let comparison = |other| QueryComparison {
            name: "q".into(),
            base: figures(QueryOutcome::Done(0.5), Some(9.0)),
            other,
            answered: Some(1),
            difference: None,
        };
        let cut = comparison(figures(QueryOutcome::CutOff, None));
        assert_eq!((cut.time_ratio(), cut.rows_ratio()), (Some(120.0), None));
        let refused = comparison(figures(QueryOutcome::Refused("0A000".into()), None));
        assert_eq!((refused.time_ratio(), refused.rows_ratio()), (None, None));
        let done = comparison(figures(QueryOutcome::Done(1.0), Some(0.0)));
        assert_eq!((done.time_ratio(), done.rows_ratio()), (Some(2.0), Some(0.1)));
    }
}
