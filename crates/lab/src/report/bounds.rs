//! Figures that are held to bounds: of KilnDB against PostgreSQL, or of KilnDB by itself.
//!
//! 1. A ratio is of medians of the rounds: a bound is of what is usual, and not of a round.
//! 2. A bound whose figure is missing is not kept.
//! 3. Between two builds there is nothing to be said.
//!
//! Must not know: servers.

use super::summary::{ExperimentSummary, StatementSummary, statements};
use super::table::{Aligned, TextTable};
use super::words;
use crate::results::{BoundFacts, BoundFigure, ExperimentResults, LabResults, RunResults, TargetFacts};
use crate::statistics::median;

/// What is said of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundVerdict {
    Kept,
    BeyondAim,
    BeyondMust,
    /// There is no figure.
    Missing,
}

/// A bound and what was measured of it.
#[derive(Clone, Debug)]
pub struct BoundRow<'a> {
    pub facts: &'a BoundFacts,
    /// What it was the most of, behind the bound's name.
    pub of: Option<&'a str>,
    /// PostgreSQL's and KilnDB's, of which the figure is the ratio: milliseconds or rows. Of figures of one server: what they are there.
    pub base: Option<f64>,
    pub own: Option<f64>,
    pub figure: Option<f64>,
}

impl BoundRow<'_> {
    pub fn name(&self) -> String {
        match self.of {
            Some(of) => format!("{} ({of})", self.facts.name),
            None => self.facts.name.clone(),
        }
    }
    pub fn verdict(&self) -> BoundVerdict {
        let Some(figure) = self.figure.filter(|figure| figure.is_finite()) else { return BoundVerdict::Missing };
        let more_is_better = self.facts.figure.more_is_better();
        let is_beyond = |bound: Option<f64>| {
            bound.is_some_and(|bound| if more_is_better { figure < bound } else { figure > bound })
        };
        match (is_beyond(self.facts.must), is_beyond(self.facts.aim)) {
            (true, _) => BoundVerdict::BeyondMust,
            (false, true) => BoundVerdict::BeyondAim,
            (false, false) => BoundVerdict::Kept,
        }
    }
    /// The verdict in words. Empty: the bound is kept.
    pub fn verdict_text(&self) -> &'static str {
        match (self.verdict(), self.facts.figure.more_is_better()) {
            (BoundVerdict::Kept, _) => "",
            (BoundVerdict::BeyondAim, true) => "below aim",
            (BoundVerdict::BeyondAim, false) => "above aim",
            (BoundVerdict::BeyondMust, true) => "below must",
            (BoundVerdict::BeyondMust, false) => "above must",
            (BoundVerdict::Missing, _) => "missing",
        }
    }
    /// PostgreSQL's and KilnDB's values, the figure and its bounds, as tables have them.
    pub fn texts(&self) -> [String; 6] {
        let number = |value: Option<f64>| value.map_or(String::new(), words::number);
        let bound = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        [
            number(self.base),
            number(self.own),
            self.figure.map_or("—".into(), |figure| format!("{figure:.3}")),
            bound(self.facts.must),
            bound(self.facts.aim),
            self.verdict_text().to_string(),
        ]
    }
}

/// The names of the columns beside a bound's name.
pub const COLUMNS: [&str; 6] = ["PostgreSQL", "KilnDB", "figure", "must", "aim", ""];

/// The bounds of an experiment. Empty: it has none, or two builds are compared.
pub fn of_experiment<'a>(lab: &'a LabResults, results: &'a ExperimentResults) -> Vec<BoundRow<'a>> {
    let Some(servers) = ComparedServers::of(lab) else { return Vec::new() };
    let summary = ExperimentSummary::of(lab, results);
    results.bounds.iter().map(|facts| servers.row(&summary, facts)).collect()
}

/// A table for a terminal. Empty: there are no bounds.
pub fn text(rows: &[BoundRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new(&[("bound", Aligned::Left)]);
    table.columns(&COLUMNS.map(|name| (name, if name.is_empty() { Aligned::Left } else { Aligned::Right })));
    table.rows = rows.iter().map(|row| std::iter::once(row.name()).chain(row.texts()).collect()).collect();
    table.text()
}

/// What is not kept, each in a few words. Empty: all bounds are kept.
pub fn failures(lab: &LabResults) -> Vec<String> {
    let mut found = Vec::new();
    for experiment in &lab.experiments {
        for row in of_experiment(lab, experiment) {
            let figure = row.figure.map_or(String::new(), |figure| format!(": {figure:.3}"));
            match row.verdict() {
                BoundVerdict::BeyondMust | BoundVerdict::Missing => {
                    found.push(format!("{}, {}: {}{figure}", experiment.name, row.name(), row.verdict_text()));
                }
                BoundVerdict::Kept | BoundVerdict::BeyondAim => {}
            }
        }
    }
    found
}

/// Whose figures are held against whose, by the names of their targets.
struct ComparedServers<'a> {
    own: &'a str,
    /// None: there was no PostgreSQL, and only figures of KilnDB by itself can be told.
    base: Option<&'a str>,
}

impl<'a> ComparedServers<'a> {
    fn of(lab: &'a LabResults) -> Option<ComparedServers<'a>> {
        let is_kilndb = |target: &&TargetFacts| target.version.contains("KilnDB");
        let is_postgres = |target: &&TargetFacts| target.version.starts_with("PostgreSQL") && !is_kilndb(target);
        let mut own = lab.targets.iter().filter(is_kilndb);
        let base = lab.targets.iter().find(is_postgres).map(|target| target.name.as_str());
        match (own.next(), own.next()) {
            (Some(own), None) => Some(ComparedServers { own: &own.name, base }),
            _ => None,
        }
    }

    fn row(&self, summary: &ExperimentSummary<'a>, facts: &'a BoundFacts) -> BoundRow<'a> {
        let of = |target: &str| {
            let cell = summary.clients.iter().find_map(|clients| summary.cell(*clients, target, &facts.variant));
            cell.map_or_else(Vec::new, statements)
        };
        let (own, base) = (of(self.own), self.base.map_or_else(Vec::new, of));
        let nothing = BoundRow { facts, of: None, base: None, own: None, figure: None };
        let named = |all: &[StatementSummary<'a>], figure: fn(&StatementSummary) -> Option<f64>| {
            all.iter().find(|statement| statement.title == facts.statement).and_then(figure)
        };
        match facts.figure {
            BoundFigure::Value => {
                let own = named(&own, |statement| statement.answered());
                BoundRow { base: named(&base, |statement| statement.answered()), own, figure: own, ..nothing }
            }
            BoundFigure::Time => nothing.ratio(named(&base, time), named(&own, time)),
            BoundFigure::TotalTime => nothing.ratio(total(&base, time), total(&own, time)),
            BoundFigure::TotalRows => nothing.ratio(total(&base, plan_rows), total(&own, plan_rows)),
            BoundFigure::WorstTime => nothing.worst(&base, &own, time),
            // A row more on both sides gives nothing a ratio too.
            BoundFigure::WorstRows => {
                nothing.worst(&base, &own, |statement| plan_rows(statement).map(|rows| rows + 1.0))
            }
            BoundFigure::FarEstimates => nothing.ratio(far_percent(&base), far_percent(&own)),
            BoundFigure::PoorPlans => {
                let own = poor_percent(&own);
                BoundRow { base: poor_percent(&base), own, figure: own, ..nothing }
            }
            BoundFigure::MedianTime => {
                let ratios: Option<Vec<f64>> =
                    pairs(&base, &own, time).map(|(_, base, own)| Some(own? / base?)).collect();
                BoundRow { figure: ratios.map(median), ..nothing }
            }
            BoundFigure::Rate
            | BoundFigure::MedianSecond
            | BoundFigure::WorstSecond
            | BoundFigure::P99
            | BoundFigure::Memory => {
                let own = of_load(summary, facts, self.own);
                let base = self.base.and_then(|base| of_load(summary, facts, base));
                BoundRow { base, own, figure: own, ..nothing }
            }
        }
    }
}

/// The figure of a load on one target. None: a variant that it needs was not measured there.
fn of_load(summary: &ExperimentSummary, facts: &BoundFacts, target: &str) -> Option<f64> {
    let has = |clients: &usize| summary.cell(*clients, target, &facts.variant).is_some();
    let clients = facts.clients.or_else(|| summary.clients.iter().copied().find(has))?;
    let own = summary.cell(clients, target, &facts.variant)?;
    let than = || summary.cell(clients, target, &facts.than);
    let percent_of_other =
        |of_run: &dyn Fn(&RunResults) -> Option<f64>| Some(100.0 * own.median_of(of_run)? / than()?.median_of(of_run)?);
    match facts.figure {
        BoundFigure::Rate => percent_of_other(&|run| run.rate(summary.results.counted)),
        BoundFigure::MedianSecond => percent_of_other(&|run| Some(run.median_and_worst_second()?.0)),
        BoundFigure::WorstSecond => own.median_of(|run| {
            let (median, worst) = run.median_and_worst_second().filter(|(median, _)| *median > 0.0)?;
            Some(100.0 * worst / median)
        }),
        BoundFigure::P99 => percent_of_other(&|run| run.percentile_us(99.0).map(|us| us as f64)),
        BoundFigure::Memory => {
            let bytes = |run: &RunResults| run.server.memory_bytes.map(|bytes| bytes as f64);
            // What a server has been given for one variant it may keep: the least is what it has without that.
            let least = than()?.runs().filter_map(bytes).reduce(f64::min)?;
            Some((own.median_of(bytes)? - least) / facts.of.unwrap_or(1.0))
        }
        // What is of statements has no load.
        _ => None,
    }
}

impl<'a> BoundRow<'a> {
    fn ratio(self, base: Option<f64>, own: Option<f64>) -> BoundRow<'a> {
        BoundRow { base, own, figure: own.zip(base).map(|(own, base)| own / base), ..self }
    }
    /// The statement with the largest ratio. One that a server has not done is worse than any other.
    fn worst(
        self,
        base: &[StatementSummary<'a>],
        own: &[StatementSummary<'a>],
        figure: fn(&StatementSummary) -> Option<f64>,
    ) -> BoundRow<'a> {
        let ratio = |(_, base, own): &(&str, Option<f64>, Option<f64>)| {
            own.zip(*base).map_or(f64::INFINITY, |(own, base)| own / base)
        };
        match pairs(base, own, figure).max_by(|a, b| ratio(a).total_cmp(&ratio(b))) {
            Some((title, base, own)) => BoundRow { of: Some(title), ..self }.ratio(base, own),
            None => self,
        }
    }
}

fn time(statement: &StatementSummary) -> Option<f64> {
    statement.value().map(|value| value.median)
}

fn plan_rows(statement: &StatementSummary) -> Option<f64> {
    statement.plan_rows
}

/// A plan that takes more than so many times as long as another one is poor.
const POOR: f64 = 2.0;

/// The share of the nodes of all plans whose estimates are far from the truth, in %. None: a plan is not known, or there are none.
fn far_percent(all: &[StatementSummary]) -> Option<f64> {
    let counts: Option<Vec<(usize, usize)>> =
        all.iter().map(|statement| statement.estimates.map(|plan| (plan.nodes, plan.near))).collect();
    let (nodes, near) = counts?.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (nodes > 0).then_some(100.0 * (nodes - near) as f64 / nodes as f64)
}

/// The share of the queries that were held against other plans whose own is poor, in %. None: a plan is not known, or there are none.
fn poor_percent(all: &[StatementSummary]) -> Option<f64> {
    let chosen: Option<Vec<Option<f64>>> =
        all.iter().map(|one| Some(one.estimates?.best_ms.and_then(|best| Some(time(one)? / best)))).collect();
    let ratios: Vec<f64> = chosen?.into_iter().flatten().collect();
    let poor = ratios.iter().filter(|ratio| **ratio > POOR).count();
    (!ratios.is_empty()).then_some(100.0 * poor as f64 / ratios.len() as f64)
}

/// None: one is missing, or there are none.
fn total(all: &[StatementSummary], figure: fn(&StatementSummary) -> Option<f64>) -> Option<f64> {
    all.iter().map(figure).sum::<Option<f64>>().filter(|_| !all.is_empty())
}

/// The statements of both by their places, with their figures.
fn pairs<'a, 's>(
    base: &'s [StatementSummary<'a>],
    own: &'s [StatementSummary<'a>],
    figure: fn(&StatementSummary) -> Option<f64>,
) -> impl Iterator<Item = (&'a str, Option<f64>, Option<f64>)> + 's {
    base.iter().zip(own).map(move |(base, own)| (own.title, figure(base), figure(own)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{cell_of_rates, experiment_of, results_of};
    use crate::results::{CellResults, CountedUnit, SecondResults, StatementResults};

    /// Statements with their times in milliseconds, and the rows of their plans; of each round.
    fn cell(target: &str, rounds: &[&[(&str, f64, f64)]]) -> CellResults {
        let mut cell = cell_of_rates(target, "all", 1, &vec![1.0; rounds.len()]);
        for (run, of_round) in cell.runs.iter_mut().zip(rounds) {
            let statement = |(name, ms, rows): &(&str, f64, f64)| StatementResults {
                name: name.to_string(),
                count: 1,
                mean_us: ms * 1e3,
                plan_rows: Some(*rows),
                value: Some(*ms),
                ..StatementResults::default()
            };
            run.statements = of_round.iter().map(statement).collect();
        }
        cell
    }
    fn lab(cells: Vec<CellResults>, bounds: &[(BoundFigure, &str, f64, f64)]) -> LabResults {
        let mut experiment = experiment_of(CountedUnit::StatementTime, cells);
        let bound = |(figure, statement, must, aim): &(BoundFigure, &str, f64, f64)| BoundFacts {
            name: format!("{figure:?}"),
            figure: *figure,
            variant: "all".into(),
            statement: statement.to_string(),
            than: String::new(),
            clients: None,
            of: None,
            must: Some(*must),
            aim: Some(*aim),
        };
        experiment.bounds = bounds.iter().map(bound).collect();
        let mut results = results_of(vec![experiment]);
        let target = |name: &str, version: &str| TargetFacts {
            name: name.into(),
            version: version.into(),
            ..TargetFacts::default()
        };
        results.targets =
            vec![target("kiln", "PostgreSQL 18.0 (KilnDB 0.1.0) on x86_64"), target("pg", "PostgreSQL 18.6 on x86_64")];
        results
    }
    const ALL: [(BoundFigure, &str, f64, f64); 7] = [
        (BoundFigure::Time, "b", 0.5, 0.2),
        (BoundFigure::Value, "b", 5.0, 3.0),
        (BoundFigure::TotalTime, "", 1.0, 0.5),
        (BoundFigure::WorstTime, "", 1.5, 0.9),
        (BoundFigure::MedianTime, "", 0.7, 0.6),
        (BoundFigure::TotalRows, "", 0.2, 0.1),
        (BoundFigure::WorstRows, "", 1.0, 1.0),
    ];

    #[test]
    fn figures_are_ratios_of_medians_or_of_one_server() {
        let base: &[(&str, f64, f64)] = &[("a", 10.0, 99.0), ("b", 20.0, 9.0), ("c", 30.0, 0.0)];
        let own: &[(&str, f64, f64)] = &[("a", 9.0, 9.0), ("b", 4.0, 9.0), ("c", 21.0, 1.0)];
        let outlier: &[(&str, f64, f64)] = &[("a", 900.0, 9.0), ("b", 0.1, 9.0), ("c", 2100.0, 1.0)];
        let results = lab(vec![cell("kiln", &[own, outlier, own]), cell("pg", &[base, base, base])], &ALL);
        let rows = of_experiment(&results, &results.experiments[0]);
        let figures: Vec<String> = rows
            .iter()
            .map(|row| format!("{}: {:.3} {}", row.name(), row.figure.unwrap_or(f64::NAN), row.verdict_text()))
            .collect();
        assert_eq!(
            figures,
            [
                "Time: 0.200 ",
                "Value: 4.000 above aim",
                "TotalTime: 0.567 above aim",
                "WorstTime (a): 0.900 ",
                "MedianTime: 0.700 above aim",
                "TotalRows: 0.176 above aim",
                "WorstRows (c): 2.000 above must",
            ]
        );
        assert_eq!(failures(&results), ["made-up, WorstRows (c): above must: 2.000"]);
        assert!(text(&rows).contains("above must"), "{}", text(&rows));
    }

    #[test]
    fn a_bound_without_a_figure_is_not_kept() {
        let base: &[(&str, f64, f64)] = &[("a", 10.0, 99.0), ("b", 20.0, 9.0)];
        let mut own = cell("kiln", &[base]);
        own.runs[0].statements[1].problem = Some("0A000: no".into());
        own.runs[0].statements[1].value = None;
        own.runs[0].statements[1].plan_rows = None;
        let results = lab(vec![own, cell("pg", &[base])], &ALL);
        let missing: Vec<String> = failures(&results);
        assert_eq!(missing.len(), ALL.len(), "{missing:?}");
        assert!(missing.iter().all(|told| told.ends_with("missing") || told.ends_with("above must")), "{missing:?}");
        assert!(missing.contains(&"made-up, WorstTime (b): missing".into()), "{missing:?}");
    }

    /// A cell whose runs have these transactions by second, with a latency and memory of their own.
    fn load_cell(
        target: &str,
        variant: &str,
        (clients, p99_us, memory): (usize, u64, u64),
        runs: &[&[u64]],
    ) -> CellResults {
        let rates: Vec<f64> = runs.iter().map(|run| run.iter().sum::<u64>() as f64 / run.len() as f64).collect();
        let mut cell = cell_of_rates(target, variant, clients, &rates);
        for (run, of_run) in cell.runs.iter_mut().zip(runs) {
            let second = |&transactions: &u64| SecondResults { transactions, ..SecondResults::default() };
            run.seconds = of_run.iter().map(second).collect();
            run.latency.percentiles = vec![(50.0, 1), (99.0, p99_us)];
            run.server.memory_bytes = Some(memory);
        }
        cell
    }

    #[test]
    fn figures_of_loads_are_held_against_another_variant_of_the_same_server() {
        let calm: &[u64] = &[1, 100, 100, 100, 1];
        let busy: &[u64] = &[1, 60, 30, 80, 1];
        let cells = |target: &str, percent: u64| {
            let scaled = |run: &[u64]| run.iter().map(|count| count * percent / 100).collect::<Vec<u64>>();
            let (calm, busy) = (scaled(calm), scaled(busy));
            vec![
                load_cell(target, "without", (4, 100, 1_000), &[&calm, &calm, &calm]),
                load_cell(target, "beside", (4, 150, 4_000), &[&busy, &calm, &busy]),
                load_cell(target, "without", (8, 100, 1_000), &[&calm]),
                load_cell(target, "beside", (8, 400, 4_000), &[&calm]),
            ]
        };
        let bounds = [
            (BoundFigure::Rate, None, 60.0, 80.0),
            (BoundFigure::MedianSecond, None, 50.0, 60.0),
            (BoundFigure::WorstSecond, None, 60.0, 70.0),
            (BoundFigure::P99, None, 200.0, 120.0),
            (BoundFigure::P99, Some(8), 200.0, 120.0),
            (BoundFigure::Memory, None, 400.0, 299.0),
        ];
        let mut results = lab([cells("kiln", 100), cells("pg", 200)].concat(), &[]);
        let bound = |(figure, clients, must, aim): &(BoundFigure, Option<usize>, f64, f64)| BoundFacts {
            name: format!("{figure:?}"),
            figure: *figure,
            variant: "beside".into(),
            statement: String::new(),
            than: "without".into(),
            clients: *clients,
            of: (*figure == BoundFigure::Memory).then_some(10.0),
            must: Some(*must),
            aim: Some(*aim),
        };
        results.experiments[0].bounds = bounds.iter().map(bound).collect();
        results.experiments[0].counted = CountedUnit::Transactions;
        let told = |results: &LabResults| -> Vec<String> {
            let rows = of_experiment(results, &results.experiments[0]);
            let figure = |value: Option<f64>| value.map_or("none".into(), |value| format!("{value:.0}"));
            rows.iter()
                .map(|row| format!("{} {} {} {}", row.name(), figure(row.base), figure(row.figure), row.verdict_text()))
                .collect()
        };
        let all = [
            "Rate 57 57 below must",
            "MedianSecond 60 60 ",
            "WorstSecond 50 50 below must",
            "P99 150 150 above aim",
            "P99 400 400 above must",
            "Memory 300 300 above aim",
        ];
        assert_eq!(told(&results), all);
        assert_eq!(failures(&results).len(), 3, "{:?}", failures(&results));
        // KilnDB by itself has the same figures.
        results.targets.truncate(1);
        results.experiments[0].cells.truncate(4);
        let alone = all.map(|row| {
            let words: Vec<&str> = row.splitn(3, ' ').collect();
            format!("{} none {}", words[0], words[2])
        });
        assert_eq!(told(&results), alone);
        // Without the other variant there is nothing to be held against.
        results.experiments[0].cells.retain(|cell| cell.variant == "beside");
        let missing = told(&results);
        assert_eq!(missing.iter().filter(|row| row.ends_with("none none missing")).count(), 5, "{missing:?}");
    }

    #[test]
    fn two_builds_are_not_held_to_bounds() {
        let of_one: &[(&str, f64, f64)] = &[("b", 20.0, 9.0)];
        let mut results = lab(vec![cell("kiln", &[of_one]), cell("pg", &[of_one])], &ALL);
        results.targets[1].version = results.targets[0].version.clone();
        assert!(of_experiment(&results, &results.experiments[0]).is_empty() && text(&[]).is_empty());
        // Without PostgreSQL a value of its own is still one.
        results.targets.truncate(1);
        results.experiments[0].cells.truncate(1);
        let rows = of_experiment(&results, &results.experiments[0]);
        assert_eq!((rows[1].figure, rows[0].verdict()), (Some(20.0), BoundVerdict::Missing));
    }
}
