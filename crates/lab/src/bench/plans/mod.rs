//! The plans of queries: classes of queries that PostgreSQL's users write, and TPC-H. Each query runs on both servers
//! over the same data; its time, its answer and the rows that its plan produces are compared.
//!
//! The data need no seed from outside: they are the same each time and on each server.

pub(super) mod answers;
mod explain;
pub(super) mod joins;
mod measure;
mod queries;
mod report;

use super::BenchOptions;
use super::turns::{ComparedServer, execute};
use kilndb_lab::client::Client;
pub(super) use measure::QueryComparison;
use measure::{QuerySession, compare};
use queries::PlanQuery;
use report::{PlanReport, RatioBounds};

const CLASS_TABLES: &str = include_str!("../../../plans/schema.sql");

/// A group of queries with the tables that they read.
pub(super) struct PlanGroup {
    title: String,
    /// The schema that the tables are in while the group is measured.
    schema: &'static str,
    queries: Vec<PlanQuery>,
    bounds: RatioBounds,
    load: Box<dyn Fn(&mut Client) -> Result<(), String>>,
}

/// Measures both groups and prints their tables. What fails the benchmark: a query that the second server answers
/// otherwise than the first, or that a server refuses.
pub(super) fn run(sides: &[ComparedServer], options: &BenchOptions) -> Vec<String> {
    let [base, other, ..] = sides else { return vec!["plans: there are no two servers".into()] };
    let sides = [base, other];
    sides.iter().for_each(|side| side.pause());
    let mut wrong = Vec::new();
    for group in [classes(), tpch(options.tpch)] {
        match measure_group(sides, &group) {
            Ok(queries) => {
                let report = group.report(sides, &queries);
                report.print();
                wrong.extend(report.wrong());
            }
            Err(e) => wrong.push(format!("{}: {e}", group.title)),
        }
    }
    sides.iter().for_each(|side| side.go_on());
    wrong
}

pub(super) fn classes() -> PlanGroup {
    PlanGroup {
        title: "Classes of queries".into(),
        schema: "plan_classes",
        queries: queries::classes(),
        bounds: RatioBounds { time: 1.5, worst_time: 8.0, rows: None },
        load: Box::new(|client| queries::statements(CLASS_TABLES).try_for_each(|sql| execute(client, &[sql]))),
    }
}

pub(super) fn tpch(scale: f64) -> PlanGroup {
    PlanGroup {
        title: format!("TPC-H, scale {scale}"),
        schema: "plan_tpch",
        queries: queries::tpch(scale),
        bounds: RatioBounds { time: 5.0, worst_time: 10.0, rows: Some((1.2, 2.0)) },
        load: Box::new(move |client| kilndb_lab::tpch::fill(client, scale)),
    }
}

/// Loads the tables on both servers, measures, and leaves the servers as they were. Both use one process or thread for a query.
fn measure_group(sides: [&ComparedServer; 2], group: &PlanGroup) -> Result<Vec<QueryComparison>, String> {
    group.load_on(sides)?;
    let measured = group.measure(sides, 0, &|_| true);
    group.drop_from(sides)?;
    Ok(measured)
}

impl PlanGroup {
    pub(super) fn load_on(&self, sides: [&ComparedServer; 2]) -> Result<(), String> {
        for side in sides {
            eprintln!("{}: loading {}", self.title, side.name);
            create_and_load(side, self.schema, &self.load).map_err(|e| format!("{}: {e}", side.name))?;
        }
        Ok(())
    }

    /// Measures the queries whose names are wanted, with so many processes that may help a query.
    pub(super) fn measure(
        &self,
        sides: [&ComparedServer; 2],
        parallel_workers: u32,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Vec<QueryComparison> {
        let session = QuerySession { schema: self.schema, parallel_workers };
        let wanted = self.queries.iter().filter(|query| is_wanted(&query.name));
        let measured = wanted.map(|query| {
            let compared = compare(sides, session, query);
            eprintln!("{}", report::line(&compared));
            compared
        });
        measured.collect()
    }

    pub(super) fn drop_from(&self, sides: [&ComparedServer; 2]) -> Result<(), String> {
        sides.into_iter().try_for_each(|side| drop_schema(side, self.schema))
    }

    pub(super) fn report<'a>(&'a self, sides: [&ComparedServer; 2], queries: &'a [QueryComparison]) -> PlanReport<'a> {
        PlanReport { title: &self.title, names: sides.map(|side| side.name), queries, bounds: &self.bounds }
    }
}

fn drop_schema(side: &ComparedServer, schema: &str) -> Result<(), String> {
    let drop = format!("drop schema {schema} cascade");
    side.alone(|| execute(&mut Client::connect(&side.at, "postgres").map_err(|e| e.to_string())?, &[&drop]))
}

/// Creates a schema and fills it, while the other servers stand still.
fn create_and_load(
    side: &ComparedServer,
    schema: &str,
    fill: &dyn Fn(&mut Client) -> Result<(), String>,
) -> Result<(), String> {
    side.alone(|| load(side, schema, fill))
}

/// The statistics are those of now, and PostgreSQL's map of visible pages is there, as it would be soon anyway.
fn load(side: &ComparedServer, schema: &str, fill: &dyn Fn(&mut Client) -> Result<(), String>) -> Result<(), String> {
    let mut client = Client::connect(&side.at, "postgres").map_err(|e| e.to_string())?;
    let create = format!("create schema {schema}");
    let path = format!("set search_path to {schema}");
    execute(&mut client, &[&create, &path])?;
    fill(&mut client)?;
    execute(&mut client, &["vacuum analyze", "checkpoint"])
}
