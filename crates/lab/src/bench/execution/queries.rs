//! The queries of the part `plans` as rows of this one: TPC-H and the classes of queries.

use super::super::plans::{self, PlanGroup, QueryComparison};
use super::super::turns::ComparedServer;
use super::report::{ExecutionRow, RowFigures};
use super::script::{RowBounds, RowFilter};
use kilndb_lab::statistics::median;

/// Processes beside the session's own that PostgreSQL uses for a query by default.
const PARALLEL_WORKERS: u32 = 2;
/// The queries that are measured by themselves.
const SINGLE: [&str; 2] = ["Q1", "Q6"];

/// Rows, and what is wrong with the answers.
pub(super) type RowsAndErrors = (Vec<ExecutionRow>, Vec<String>);

fn single(query: &str, parallel: &str) -> RowBounds {
    RowBounds::new(&format!("TPC-H {query}, parallel query {parallel}"), 0.7, 0.2)
}

fn tpch_total() -> RowBounds {
    RowBounds::new("TPC-H, 22 queries, parallel query on, total", 0.5, 0.15)
}

fn tpch_worst() -> RowBounds {
    RowBounds::new("TPC-H, 22 queries, parallel query on, worst", 1.5, 1.0)
}

fn classes_median() -> RowBounds {
    RowBounds::new("90 classes of queries, median", 0.7, 0.4)
}

fn classes_worst() -> RowBounds {
    RowBounds::new("90 classes of queries, worst", 2.0, 1.0)
}

pub(super) fn tpch(sides: [&ComparedServer; 2], scale: f64, filter: &RowFilter) -> Result<RowsAndErrors, String> {
    let wants_all = filter.has(&tpch_total().name) || filter.has(&tpch_worst().name);
    let wants = |query: &str, parallel: &str| SINGLE.contains(&query) && filter.has(&single(query, parallel).name);
    if !wants_all && !SINGLE.iter().any(|query| wants(query, "off") || wants(query, "on")) {
        return Ok(Default::default());
    }
    let group = plans::tpch(scale);
    group.load_on(sides)?;
    let off = group.measure(sides, 0, &|query| wants(query, "off"));
    let on = group.measure(sides, PARALLEL_WORKERS, &|query| wants_all || wants(query, "on"));
    group.drop_from(sides)?;
    let mut rows: Vec<ExecutionRow> = singles(&off, "off").chain(singles(&on, "on")).collect();
    if wants_all {
        rows.push(total(tpch_total(), &on));
        rows.extend(worst(tpch_worst(), &on));
    }
    rows.retain(|row| filter.has(&row.bounds.name));
    Ok((rows, wrong(&group, sides, &[off, on].concat())))
}

pub(super) fn classes(sides: [&ComparedServer; 2], filter: &RowFilter) -> Result<RowsAndErrors, String> {
    if !filter.has(&classes_median().name) && !filter.has(&classes_worst().name) {
        return Ok(Default::default());
    }
    let group = plans::classes();
    group.load_on(sides)?;
    let measured = group.measure(sides, PARALLEL_WORKERS, &|_| true);
    group.drop_from(sides)?;
    let ratios = measured.iter().filter_map(QueryComparison::time_ratio).collect();
    let median = ExecutionRow { bounds: classes_median(), figures: RowFigures::Ratio(median(ratios)) };
    let rows = [Some(median), worst(classes_worst(), &measured)].into_iter().flatten().collect();
    Ok((rows, wrong(&group, sides, &measured)))
}

fn wrong(group: &PlanGroup, sides: [&ComparedServer; 2], measured: &[QueryComparison]) -> Vec<String> {
    group.report(sides, measured).wrong()
}

fn singles<'a>(measured: &'a [QueryComparison], parallel: &'a str) -> impl Iterator<Item = ExecutionRow> + 'a {
    let of_one = |query: &&QueryComparison| SINGLE.contains(&query.name.as_str());
    measured.iter().filter(of_one).filter_map(move |query| times(single(&query.name, parallel), query))
}

/// A row of one query; None: a server refused it.
fn times(bounds: RowBounds, query: &QueryComparison) -> Option<ExecutionRow> {
    let (base, other) = query.seconds()?;
    Some(ExecutionRow { bounds, figures: RowFigures::Times([vec![base], vec![other]]) })
}

fn total(bounds: RowBounds, measured: &[QueryComparison]) -> ExecutionRow {
    let pairs = measured.iter().filter_map(QueryComparison::seconds);
    let (base, other) = pairs.fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    ExecutionRow { bounds, figures: RowFigures::Times([vec![base], vec![other]]) }
}

/// The query that takes the most times as long, named in the row.
fn worst(bounds: RowBounds, measured: &[QueryComparison]) -> Option<ExecutionRow> {
    let ratios = measured.iter().filter_map(|query| Some((query.time_ratio()?, query)));
    let (_, query) = ratios.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let name = format!("{} ({})", bounds.name, query.name);
    times(RowBounds { name, ..bounds }, query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_the_worst_are_of_all_queries() {
        let measured = [("Q1", 4.0, 1.0), ("Q2", 1.0, 2.0), ("Q6", 5.0, 3.0)].map(QueryComparison::of_times);
        assert_eq!(total(tpch_total(), &measured).figure(), 0.6);
        let worst = worst(tpch_worst(), &measured).unwrap();
        assert_eq!((worst.figure(), worst.bounds.name.ends_with("worst (Q2)")), (2.0, true));
        let singles: Vec<f64> = singles(&measured, "on").map(|row| row.figure()).collect();
        assert_eq!(singles, [0.25, 0.6]);
    }
}
