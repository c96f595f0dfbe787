//! Joins in the manner of the Join Order Benchmark: how near estimates of rows come to the truth, and how near the
//! chosen plans come to the best that switches of the planner can force.

mod estimates;
mod measure;
mod rows;
mod words;

use super::super::BenchOptions;
use super::super::turns::{ComparedServer, execute};
use super::answers::{difference, rows_of};
use super::queries::{PlanQuery, named, statements};
use super::{create_and_load, drop_schema};
use estimates::{NEAR, NodeCounts};
use kilndb_lab::client::Client;
use measure::{JoinFigures, WORTH_MS, measure};
use rows::FilmData;

const SCHEMA: &str = "plan_joins";
const TABLES: &str = include_str!("../../../../plans/joins/schema.sql");
const INDEXES: &str = include_str!("../../../../plans/joins/indexes.sql");
const QUERIES: &str = include_str!("../../../../plans/joins/queries.sql");
/// A plan that takes this many times as long as the best one is well chosen.
const WELL_CHOSEN: f64 = 2.0;
/// PostgreSQL must miss this share of its nodes, or the data are too easy.
const HARD_PERCENT: f64 = 20.0;
/// The share of the queries that are to be well chosen.
const AIM_PERCENT: f64 = 95.0;

/// What a server did with all queries.
#[derive(Default)]
struct JoinTotals {
    nodes: NodeCounts,
    total_ms: f64,
    planning_ms: f64,
    worth: usize,
    well_chosen: usize,
}

impl JoinTotals {
    fn add(&mut self, figures: &JoinFigures) {
        self.nodes.add(figures.nodes);
        self.total_ms += figures.chosen_ms;
        self.planning_ms += figures.planning_ms;
        self.worth += usize::from(figures.is_worth);
        self.well_chosen += usize::from(figures.is_worth && figures.ratio() <= WELL_CHOSEN);
    }

    fn well_chosen_percent(&self) -> f64 {
        100.0 * self.well_chosen as f64 / self.worth.max(1) as f64
    }

    fn line(&self, name: &str) -> String {
        format!(
            "{name}: {:.1} s, of which {:.1} s are planning; {:.1} % of {} nodes within {NEAR} times of the truth; {:.1} % of {} queries over {WORTH_MS} ms \
             within {WELL_CHOSEN} times of the best plan",
            self.total_ms / 1e3,
            self.planning_ms / 1e3,
            self.nodes.near_percent(),
            self.nodes.nodes,
            self.well_chosen_percent(),
            self.worth
        )
    }
}

/// Measures the queries and prints their table. What fails the benchmark: another answer, and a query that a server
/// refuses or does not finish.
pub(in crate::bench) fn run(sides: &[ComparedServer], options: &BenchOptions) -> Vec<String> {
    let [base, other, ..] = sides else { return vec!["joins: there are no two servers".into()] };
    let sides = [base, other];
    sides.iter().for_each(|side| side.pause());
    let measured = run_alone(sides, options.films);
    sides.iter().for_each(|side| side.go_on());
    measured.unwrap_or_else(|e| vec![format!("joins: {e}")])
}

fn run_alone(sides: [&ComparedServer; 2], films: u32) -> Result<Vec<String>, String> {
    let names = sides.map(|side| side.name);
    for side in sides {
        eprintln!("joins: loading {}", side.name);
        create_and_load(side, SCHEMA, &|client| fill(client, films)).map_err(|e| format!("{}: {e}", side.name))?;
    }
    println!("\n### Joins, {films} films\n");
    println!(
        "| | {0}, ms | of it planning | best | near / nodes | {1}, ms | of it planning | best | near / nodes | best of {1} without |",
        names[0], names[1]
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    let (mut wrong, mut totals) = (Vec::new(), [JoinTotals::default(), JoinTotals::default()]);
    for query in named(QUERIES) {
        match measure_both(sides, &query) {
            Ok(figures) => {
                println!("{}", line(&query.name, &figures));
                totals.iter_mut().zip(&figures).for_each(|(totals, figures)| totals.add(figures));
                let [base, other] = figures.map(|figures| rows_of(figures.answers, true));
                wrong.extend(
                    difference(&base, &other).map(|what| format!("joins {}: another answer: {what}", query.name)),
                );
            }
            Err(e) => wrong.push(format!("joins {}: {e}", query.name)),
        }
    }
    println!();
    totals.iter().zip(names).for_each(|(totals, name)| println!("{}", totals.line(name)));
    missed_aims(&totals, names).iter().for_each(|line| println!("{line}"));
    sides.into_iter().try_for_each(|side| drop_schema(side, SCHEMA))?;
    Ok(wrong)
}

fn fill(client: &mut Client, films: u32) -> Result<(), String> {
    statements(TABLES).try_for_each(|sql| execute(client, &[sql]))?;
    let data = FilmData::new(films);
    for table in rows::TABLES {
        let copy = format!("copy {table} from stdin");
        client.copy_in(&copy, |out| data.write(table, out)).map_err(|e| format!("{copy}: {e}"))?;
    }
    statements(INDEXES).try_for_each(|sql| execute(client, &[sql]))
}

fn measure_both(sides: [&ComparedServer; 2], query: &PlanQuery) -> Result<[JoinFigures; 2], String> {
    let of = |side: &ComparedServer| measure(side, SCHEMA, &query.sql).map_err(|e| format!("{}: {e}", side.name));
    Ok([of(sides[0])?, of(sides[1])?])
}

fn line(name: &str, figures: &[JoinFigures; 2]) -> String {
    let of = |f: &JoinFigures| {
        let best = if f.is_worth { format!("{:.1}", f.best_ms) } else { String::new() };
        format!("{:.1} | {:.1} | {best} | {} / {}", f.chosen_ms, f.planning_ms, f.nodes.near, f.nodes.nodes)
    };
    format!("| {name} | {} | {} | {} |", of(&figures[0]), of(&figures[1]), figures[1].best_without.join(", "))
}

/// What is listed below the table and does not fail the benchmark.
fn missed_aims([base, other]: &[JoinTotals; 2], names: [&str; 2]) -> Vec<String> {
    let mut missed = Vec::new();
    if 100.0 - base.nodes.near_percent() < HARD_PERCENT {
        missed.push(format!("The data are too easy: {} misses fewer than {HARD_PERCENT} % of its nodes.", names[0]));
    }
    if other.nodes.near_percent() < base.nodes.near_percent() {
        missed.push(format!("{} has fewer near estimates than {}.", names[1], names[0]));
    }
    if other.well_chosen_percent() < AIM_PERCENT {
        missed.push(format!("{} chooses fewer than {AIM_PERCENT} % of its plans well.", names[1]));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_lab::client::Address;
    use kilndb_lab::process::{self, TempDir};
    use std::collections::BTreeSet;

    /// So few films that ANALYZE reads every row: estimates are the same each time.
    const FEW_FILMS: u32 = 1_000;
    /// The share of near estimates that has been reached. It may rise.
    const NEAR_PERCENT: f64 = 80.0;

    #[test]
    fn there_are_the_queries_of_33_families() {
        let queries = named(QUERIES);
        assert_eq!(queries.len(), 113);
        let names: BTreeSet<&str> = queries.iter().map(|query| query.name.as_str()).collect();
        assert_eq!(names.len(), 113);
        let families: BTreeSet<&str> = names.iter().map(|name| name.trim_end_matches(char::is_alphabetic)).collect();
        assert_eq!(families.len(), 33);
    }

    #[test]
    fn rows_are_the_same_each_time_and_skewed() {
        let table = |name| {
            let mut out = Vec::new();
            FilmData::new(FEW_FILMS).write(name, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(table("cast_info"), table("cast_info"));
        let mut counts = std::collections::BTreeMap::new();
        let keywords = table("movie_keyword");
        keywords.lines().for_each(|line| *counts.entry(line.rsplit('\t').next()).or_insert(0) += 1);
        let most = counts.values().max().unwrap();
        assert!(most * counts.len() > 5 * keywords.lines().count(), "the most frequent of {} has {most}", counts.len());
    }

    #[test]
    fn estimates_of_joins_are_near() {
        let temp = TempDir::new("joins").unwrap();
        let port = process::free_port().unwrap();
        let server = process::start_kilndb(&temp.path().join("data"), port, &[]).unwrap();
        let mut client = Client::connect(&Address::local(port), "postgres").unwrap();
        fill(&mut client, FEW_FILMS).unwrap();
        execute(&mut client, &["analyze"]).unwrap();
        let mut nodes = NodeCounts::default();
        for query in named(QUERIES) {
            let run = measure::explained(&mut client, &query.sql).unwrap_or_else(|e| panic!("{}: {e}", query.name));
            nodes.add(run.nodes);
        }
        assert!(nodes.near_percent() >= NEAR_PERCENT, "{:.1} % of {} nodes", nodes.near_percent(), nodes.nodes);
        server.stop().unwrap();
    }
}
