//! How fast statements are executed: rows of what users do with much data, each as a ratio of PostgreSQL's time with a
//! bound that it must keep and one that is aimed at.
//!
//! Both servers make the same data from the same formulas. Their answers are compared.

mod copy;
mod measure;
mod queries;
mod report;
mod script;

use super::BenchOptions;
use super::turns::{ComparedServer, execute};
use kilndb_lab::client::Client;
use report::ExecutionRow;
use script::{RowFilter, scripts};

/// The schema of all tables of the part, but for those of the part `plans`.
const SCHEMA: &str = "execution";
const SCRIPTS: [&str; 4] = [
    include_str!("../../../execution/queries.sql"),
    include_str!("../../../execution/documents.sql"),
    include_str!("../../../execution/changes.sql"),
    include_str!("../../../execution/plpgsql.sql"),
];

/// The rows that have been measured, and what is wrong with them.
#[derive(Default)]
struct Measured {
    rows: Vec<ExecutionRow>,
    wrong: Vec<String>,
}

impl Measured {
    /// What fails is named, and the rest of a long run goes on.
    fn add(&mut self, what: &str, rows: Result<Vec<ExecutionRow>, String>) {
        match rows {
            Ok(rows) => {
                rows.iter().for_each(report::progress);
                self.rows.extend(rows);
            }
            Err(e) => {
                eprintln!("{what}: {e}");
                self.wrong.push(format!("{what}: {e}"));
            }
        }
    }

    fn add_with_errors(&mut self, what: &str, measured: Result<queries::RowsAndErrors, String>) {
        let measured = measured.map(|(rows, wrong)| {
            self.wrong.extend(wrong);
            rows
        });
        self.add(what, measured);
    }
}

/// Measures the rows and prints their table. What fails the benchmark: a row above its bound, another answer, a statement
/// that a server refuses.
pub(super) fn run(sides: &[ComparedServer], options: &BenchOptions) -> Vec<String> {
    let [base, other, ..] = sides else { return vec!["execution: there are no two servers".into()] };
    let is_to_postgres = options.before.is_none();
    let sides = [base, other];
    sides.iter().for_each(|side| side.pause());
    let Measured { rows, mut wrong } = measure(sides, options);
    sides.iter().for_each(|side| side.go_on());
    println!("\n### Execution, {} rows, TPC-H at scale {}\n", options.rows, options.tpch);
    report::print(&rows, [base.name, other.name], is_to_postgres);
    wrong.extend(report::wrong(&rows, base.name, is_to_postgres));
    if rows.is_empty() && wrong.is_empty() {
        wrong.push("execution: no row has such a name".into());
    }
    wrong
}

fn measure(sides: [&ComparedServer; 2], options: &BenchOptions) -> Measured {
    let filter = RowFilter::new(&options.only);
    let mut measured = Measured::default();
    measured.add_with_errors("TPC-H", queries::tpch(sides, options.tpch, &filter));
    measured.add_with_errors("classes of queries", queries::classes(sides, &filter));
    let of_all = SCRIPTS.iter().flat_map(|text| scripts(text, options.rows));
    for script in of_all.filter_map(|script| script.only(&filter)) {
        let rows = measure::begin_anew(sides).and_then(|()| measure::run(sides, &script, options.turns));
        measured.add(&script.name, rows);
    }
    let copied = measure::begin_anew(sides);
    let copied = copied.and_then(|()| copy::run(sides, &filter, (options.rows, options.turns)));
    measured.add("COPY", copied);
    measured.add("the end", measure::drop_all(sides).map(|()| Vec::new()));
    measured
}

/// A session with the tables in sight. Neither server compiles expressions; all else is as it is by default.
fn session(side: &ComparedServer) -> Result<Client, String> {
    let mut client = Client::connect(&side.at, "postgres").map_err(|e| e.to_string())?;
    execute(&mut client, &[&format!("set search_path to {SCHEMA}"), "set jit to off"])?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_name_of_its_own_and_no_aim_beyond_its_bound() {
        let all: Vec<script::Script> = SCRIPTS.iter().flat_map(|text| scripts(text, 1000)).collect();
        let rows: Vec<&script::RowBounds> =
            all.iter().flat_map(|script| &script.turn).filter_map(|step| Some(&step.row.as_ref()?.0)).collect();
        let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!((names.len(), rows.len()), (21, 21));
        for row in rows {
            assert_eq!(row.must.is_some(), row.aim.is_some(), "{}", row.name);
            assert!(row.must >= row.aim, "{}", row.name);
        }
        assert!(all.iter().flat_map(|script| &script.turn).all(|step| !step.sql.contains(":rows")));
    }
}
