//! What has become slower from one build to another, of a run that had both in turns.
//!
//! 1. What is said of a row comes from the pairs of its rounds: it is slower if the whole interval of how many times as good the new
//!    build is lies below [`SLOWER_BELOW`].
//! 2. Fewer pairs than [`ROUNDS_MIN`], and statements that take no time, are told and not judged.
//! 3. What one build could not do and the other could is never passed over.
//!
//! Must not know: servers.

use super::summary::{CellSummary, ExperimentSummary, StatementSummary, statements};
use super::table::{Aligned, TextTable};
use super::words;
use crate::results::{CountedUnit, LabResults};
use crate::statistics::{Gain, Measured};

/// A row whose whole interval lies below this has become slower.
pub const SLOWER_BELOW: f64 = 0.97;
/// Fewer say too little of a row: the interval of twelve pairs on a machine that varies by 5 % is 6 % wide.
pub const ROUNDS_MIN: usize = 12;
/// A statement that takes less is measured with everything around it.
const STATEMENT_MIN_MS: f64 = 10.0;
/// Characters of a statement that stand in a row's name.
const STATEMENT_CHARS: usize = 60;

/// One build beside another, row by row.
#[derive(Clone, Debug)]
pub struct BuildComparison {
    base: String,
    own: String,
    rows: Vec<BuildRow>,
}

/// A cell, or a statement of one.
#[derive(Clone, Debug)]
struct BuildRow {
    name: String,
    clients: usize,
    base: Option<Measured>,
    own: Option<Measured>,
    gain: Option<Gain>,
    pairs: usize,
    verdict: BuildVerdict,
}

#[derive(Clone, Debug, PartialEq)]
enum BuildVerdict {
    NotSlower,
    Slower,
    Unjudged,
    /// Why the new build has no value.
    Missing(String),
}

impl BuildComparison {
    /// `base` and `own` are names of targets.
    pub fn of(results: &LabResults, base: &str, own: &str) -> BuildComparison {
        let mut comparison = BuildComparison { base: base.into(), own: own.into(), rows: Vec::new() };
        for experiment in ExperimentSummary::all(results) {
            for &clients in &experiment.clients {
                for variant in experiment.variants() {
                    let both = (experiment.cell(clients, base, variant), experiment.cell(clients, own, variant));
                    if let (Some(of_base), Some(of_own)) = both {
                        comparison.add(&experiment, of_base, of_own);
                    }
                }
            }
        }
        comparison
    }

    fn add(&mut self, experiment: &ExperimentSummary, base: &CellSummary, own: &CellSummary) {
        let name = format!("{}, {}", experiment.results.name, own.cell.variant);
        let problem = own.problems().into_iter().next().filter(|_| own.cell.problem.is_some() || own.value.is_none());
        let gain = experiment.gain(base, own);
        let pairs = pairs(&base.values, &own.values);
        let verdict = match problem {
            Some(problem) if base.cell.problem.is_none() && base.value.is_some() => BuildVerdict::Missing(problem),
            Some(_) => BuildVerdict::Unjudged,
            None => judged(gain, pairs),
        };
        let clients = own.cell.clients;
        self.rows.push(BuildRow {
            name: name.clone(),
            clients,
            base: base.value,
            own: own.value,
            gain,
            pairs,
            verdict,
        });
        if experiment.results.counted == CountedUnit::StatementTime {
            for (of_base, of_own) in statements(base).iter().zip(&statements(own)) {
                self.rows.push(BuildRow::of_statement(&name, clients, of_base, of_own));
            }
        }
    }

    /// A table for a terminal.
    pub fn text(&self) -> String {
        let mut table = TextTable::new(&[
            ("experiment, variant", Aligned::Left),
            ("clients", Aligned::Right),
            (&self.base, Aligned::Right),
            (&self.own, Aligned::Right),
            ("times as good", Aligned::Right),
            ("95 %", Aligned::Left),
            ("", Aligned::Left),
        ]);
        table.rows = self.rows.iter().map(BuildRow::texts).collect();
        table.text()
    }

    /// What fails a comparison, each in a few words. Empty: nothing does.
    pub fn failures(&self) -> Vec<String> {
        let of_verdict = |row: &BuildRow| {
            let name = format!("{} with {}", row.name, words::count_of(row.clients, "client"));
            match &row.verdict {
                BuildVerdict::Slower => {
                    Some(format!("slower than {} by its whole interval (below {SLOWER_BELOW}): {name}", self.base))
                }
                BuildVerdict::Missing(why) => Some(format!("not measured on {}: {name}: {why}", self.own)),
                BuildVerdict::NotSlower | BuildVerdict::Unjudged => None,
            }
        };
        self.rows.iter().filter_map(of_verdict).collect()
    }
}

/// Rounds that count for both.
fn pairs(base: &[Option<f64>], own: &[Option<f64>]) -> usize {
    base.iter().zip(own).filter(|(base, own)| base.is_some() && own.is_some()).count()
}

fn judged(gain: Option<Gain>, pairs: usize) -> BuildVerdict {
    match gain {
        Some(gain) if pairs >= ROUNDS_MIN && gain.is_worse_than(SLOWER_BELOW) => BuildVerdict::Slower,
        Some(_) if pairs >= ROUNDS_MIN => BuildVerdict::NotSlower,
        _ => BuildVerdict::Unjudged,
    }
}

impl BuildRow {
    fn of_statement(cell: &str, clients: usize, base: &StatementSummary, own: &StatementSummary) -> BuildRow {
        let (gain, pairs) = (own.gain_on(base), pairs(&base.totals_ms, &own.totals_ms));
        let (of_base, of_own) = (base.value(), own.value());
        let is_short = of_base.is_none_or(|value| value.median < STATEMENT_MIN_MS);
        BuildRow {
            name: format!("{cell}: {}", words::cut(own.title, STATEMENT_CHARS)),
            clients,
            base: of_base,
            own: of_own,
            gain,
            pairs,
            verdict: if is_short { BuildVerdict::Unjudged } else { judged(gain, pairs) },
        }
    }
    fn texts(&self) -> Vec<String> {
        let value = |value: Option<Measured>| value.map_or("—".into(), |value| words::number(value.median));
        let verdict = match &self.verdict {
            BuildVerdict::NotSlower => String::new(),
            BuildVerdict::Slower => "slower".into(),
            BuildVerdict::Unjudged => format!("not judged, {}", words::count_of(self.pairs, "pair")),
            BuildVerdict::Missing(why) => why.clone(),
        };
        vec![
            self.name.clone(),
            words::thousands(self.clients as f64),
            value(self.base),
            value(self.own),
            self.gain.map_or("—".into(), |gain| format!("{:.3}", gain.times)),
            self.gain.and_then(|gain| gain.interval).map_or(String::new(), |(from, to)| format!("{from:.3}–{to:.3}")),
            verdict,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{cell_of_rates, experiment_of, results_of};
    use crate::results::{CellResults, StatementResults};

    /// Rates that vary by some percent, the same for both builds.
    fn rates(times: f64, rounds: usize) -> Vec<f64> {
        (0..rounds).map(|round| times * (1000.0 + 20.0 * (round % 5) as f64)).collect()
    }
    fn compared(cells: Vec<CellResults>, counted: CountedUnit) -> BuildComparison {
        BuildComparison::of(&results_of(vec![experiment_of(counted, cells)]), "before", "kilndb")
    }
    fn both(times: f64, rounds: usize) -> BuildComparison {
        let cells = vec![
            cell_of_rates("kilndb", "plain", 8, &rates(times, rounds)),
            cell_of_rates("before", "plain", 8, &rates(1.0, rounds)),
            cell_of_rates("PostgreSQL", "plain", 8, &rates(9.0, rounds)),
        ];
        compared(cells, CountedUnit::Transactions)
    }

    #[test]
    fn a_row_is_slower_if_its_whole_interval_is_below_the_bound() {
        assert_eq!(both(1.0, ROUNDS_MIN).failures(), [""; 0]);
        assert_eq!(both(0.98, ROUNDS_MIN).failures(), [""; 0]);
        assert_eq!(both(2.0, ROUNDS_MIN).failures(), [""; 0]);
        let slower = both(0.9, ROUNDS_MIN);
        assert_eq!(
            slower.failures(),
            ["slower than before by its whole interval (below 0.97): made-up, plain with 8 clients"]
        );
        assert!(slower.text().contains("0.900") && slower.text().contains("slower"), "{}", slower.text());
        // A mean below the bound with an interval that reaches over it is no proof.
        let mut noisy = rates(1.0, ROUNDS_MIN);
        noisy.iter_mut().step_by(2).for_each(|rate| *rate *= 0.6);
        let cells = vec![
            cell_of_rates("kilndb", "plain", 8, &noisy),
            cell_of_rates("before", "plain", 8, &rates(0.8, ROUNDS_MIN)),
        ];
        assert_eq!(compared(cells, CountedUnit::Transactions).failures(), [""; 0]);
    }

    #[test]
    fn fewer_rounds_are_not_judged() {
        let few = both(0.5, ROUNDS_MIN - 1);
        assert_eq!(few.failures(), [""; 0]);
        assert!(few.text().contains("not judged, 11 pairs"), "{}", few.text());
    }

    #[test]
    fn what_only_the_build_before_could_do_is_told() {
        let broken = |target: &str| CellResults {
            problem: Some("0A000: no such thing".into()),
            ..cell_of_rates(target, "plain", 8, &[])
        };
        let fine = |target: &str| cell_of_rates(target, "plain", 8, &rates(1.0, ROUNDS_MIN));
        let lost = compared(vec![broken("kilndb"), fine("before")], CountedUnit::Transactions);
        assert_eq!(lost.failures(), ["not measured on kilndb: made-up, plain with 8 clients: 0A000: no such thing"]);
        let new = compared(vec![fine("kilndb"), broken("before")], CountedUnit::Transactions);
        assert_eq!(new.failures(), [""; 0]);
        // All runs of the new build have broken a check.
        let mut cheating = fine("kilndb");
        cheating.runs.iter_mut().for_each(|run| run.failed_checks.push("stock".into()));
        let told = compared(vec![cheating, fine("before")], CountedUnit::Transactions).failures();
        assert!(told.len() == 1 && told[0].contains("a check failed: stock"), "{told:?}");
    }

    #[test]
    fn each_statement_that_takes_time_is_judged() {
        let cell = |target: &str, times: f64| {
            let mut cell = cell_of_rates(target, "plain", 1, &rates(1.0, ROUNDS_MIN));
            for (round, run) in cell.runs.iter_mut().enumerate() {
                let statement = |text: &str, ms: f64| StatementResults {
                    text: text.into(),
                    count: 1,
                    mean_us: ms * (1000.0 + 20.0 * (round % 5) as f64),
                    ..StatementResults::default()
                };
                run.statements =
                    vec![statement("create", 1.0 * times), statement("fill", 100.0), statement("drop", 20.0 * times)];
            }
            cell
        };
        let found = compared(vec![cell("kilndb", 2.0), cell("before", 1.0)], CountedUnit::StatementTime);
        let slower: Vec<&str> =
            found.rows.iter().filter(|row| row.verdict == BuildVerdict::Slower).map(|row| row.name.as_str()).collect();
        assert_eq!(slower, ["made-up, plain", "made-up, plain: drop"], "{}", found.text());
    }
}
