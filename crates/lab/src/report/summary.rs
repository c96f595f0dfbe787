//! What the runs of an experiment come to: the median and interval of each cell, and how cells compare.
//!
//! 1. A run with a failed check counts for nothing; the runs of two cells are still paired by their places.
//! 2. Cells are compared by pairs of runs, the n-th with the n-th, never by their medians.
//!
//! Must not know: how anything is shown.

use crate::results::{
    CellResults, CountedUnit, EstimateResults, ExperimentResults, LabResults, RunResults, StatementResults,
    VariantFacts,
};
use crate::statistics::{Better, Gain, Measured, median};

/// Which of two values of a unit is the better one.
pub fn better(counted: CountedUnit) -> Better {
    match counted {
        CountedUnit::ChangedRows | CountedUnit::Transactions => Better::More,
        CountedUnit::StatementTime | CountedUnit::P99Latency | CountedUnit::LogBytes | CountedUnit::Bytes => {
            Better::Less
        }
    }
}

/// What a run's value is of, in words.
pub fn unit(counted: CountedUnit) -> &'static str {
    match counted {
        CountedUnit::ChangedRows => "rows changed a second",
        CountedUnit::Transactions => "transactions a second",
        CountedUnit::StatementTime => "milliseconds for all statements",
        CountedUnit::P99Latency => "milliseconds that 99 % of transactions kept within",
        CountedUnit::LogBytes => "bytes of log for each transaction",
        CountedUnit::Bytes => "bytes",
    }
}

/// What the seconds of a run count.
pub fn unit_of_seconds(counted: CountedUnit) -> &'static str {
    match counted {
        CountedUnit::ChangedRows => unit(CountedUnit::ChangedRows),
        _ => unit(CountedUnit::Transactions),
    }
}

/// What a run counts for: its rate, or what else is counted of it. None: for nothing, as a check has failed or it was not measured.
pub fn run_value(run: &RunResults, counted: CountedUnit) -> Option<f64> {
    if !run.failed_checks.is_empty() {
        return None;
    }
    // The sum of less than all statements is no figure.
    let total_ms = || run.statements.iter().map(StatementResults::total_ms).sum::<Option<f64>>();
    match counted {
        CountedUnit::ChangedRows | CountedUnit::Transactions => run.rate(counted),
        CountedUnit::StatementTime => Some(&run.statements).filter(|all| !all.is_empty()).and_then(|_| total_ms()),
        CountedUnit::P99Latency => run.percentile_us(99.0).map(|us| us as f64 / 1e3),
        CountedUnit::LogBytes => run.server.log_bytes.map(|bytes| bytes as f64 / run.transactions.max(1) as f64),
        CountedUnit::Bytes => run.bytes.map(|bytes| bytes as f64),
    }
}

/// A cell and what its runs come to.
#[derive(Clone, Debug)]
pub struct CellSummary<'a> {
    pub cell: &'a CellResults,
    /// By run. None: the run does not count.
    pub values: Vec<Option<f64>>,
    /// None: no run counts.
    pub value: Option<Measured>,
    /// Seconds under half the run's median, of all runs that count.
    pub stalled_s: usize,
    /// The longest row of them.
    pub longest_stall_s: usize,
}

impl<'a> CellSummary<'a> {
    pub fn of(cell: &'a CellResults, counted: CountedUnit) -> CellSummary<'a> {
        let values: Vec<Option<f64>> = cell.runs.iter().map(|run| run_value(run, counted)).collect();
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let stalls = cell.runs.iter().zip(&values).filter(|(_, value)| value.is_some()).map(|(run, _)| run.stalls());
        let (mut stalled_s, mut longest_stall_s) = (0, 0);
        for (all, longest) in stalls {
            stalled_s += all;
            longest_stall_s = longest_stall_s.max(longest);
        }
        CellSummary { cell, value: Measured::of(&known), values, stalled_s, longest_stall_s }
    }

    /// The runs that count.
    pub fn runs(&self) -> impl Iterator<Item = &'a RunResults> {
        self.cell.runs.iter().zip(&self.values).filter(|(_, value)| value.is_some()).map(|(run, _)| run)
    }
    /// The median of the runs' percentiles. None: no transaction was measured.
    pub fn percentile_us(&self, percent: f64) -> Option<f64> {
        self.median_of(|run| run.percentile_us(percent).map(|us| us as f64))
    }
    /// The median of what the runs say. None: no run says anything.
    pub fn median_of(&self, of_run: impl Fn(&RunResults) -> Option<f64>) -> Option<f64> {
        let known = median(self.runs().filter_map(of_run).collect());
        (!known.is_nan()).then_some(known)
    }
    /// How often what is beside the load was done to its end. None: nothing is beside that runs again.
    pub fn beside_rounds(&self) -> Option<f64> {
        self.median_of(|run| run.beside_rounds.map(|rounds| rounds as f64))
    }
    /// As [`CellSummary::median_of`], by transaction.
    pub fn median_per_transaction(&self, of_run: impl Fn(&RunResults) -> Option<f64>) -> Option<f64> {
        self.median_of(|run| of_run(run).filter(|_| run.transactions > 0).map(|sum| sum / run.transactions as f64))
    }
    /// The place of the run whose value is nearest to the median: the one that is shown where one stands for all.
    pub fn middle_run(&self) -> Option<usize> {
        let middle = self.value?.median;
        let distance = |value: &Option<f64>| value.map_or(f64::INFINITY, |value| (value - middle).abs());
        (0..self.values.len()).min_by(|&a, &b| distance(&self.values[a]).total_cmp(&distance(&self.values[b])))
    }
    /// Why the cell, or some of its runs, count for nothing: the server's words, then checks. Empty: all is well.
    pub fn problems(&self) -> Vec<String> {
        let mut told: Vec<String> = self.cell.problem.iter().cloned().collect();
        for (at, run) in self.cell.runs.iter().enumerate().filter(|(_, run)| !run.failed_checks.is_empty()) {
            told.push(format!("run {} does not count, as a check failed: {}", at + 1, run.failed_checks.join(", ")));
        }
        for (at, run) in self.cell.runs.iter().enumerate() {
            for statement in &run.statements {
                let problem = statement.problem.iter();
                told.extend(problem.map(|problem| format!("run {}, {}: {problem}", at + 1, statement.title())));
            }
        }
        if told.is_empty() && self.value.is_none() {
            told.push("there are no runs".into());
        }
        told
    }
}

/// An experiment and its cells, by number of clients, target and variant.
#[derive(Clone, Debug)]
pub struct ExperimentSummary<'a> {
    pub results: &'a ExperimentResults,
    /// In the order of the run; of those that have cells.
    pub targets: Vec<&'a str>,
    /// From few to many.
    pub clients: Vec<usize>,
    pub cells: Vec<CellSummary<'a>>,
}

impl<'a> ExperimentSummary<'a> {
    /// All experiments of a run.
    pub fn all(results: &'a LabResults) -> Vec<ExperimentSummary<'a>> {
        results.experiments.iter().map(|experiment| ExperimentSummary::of(results, experiment)).collect()
    }

    pub fn of(lab: &'a LabResults, results: &'a ExperimentResults) -> ExperimentSummary<'a> {
        let mut targets: Vec<&str> = lab.targets.iter().map(|target| target.name.as_str()).collect();
        targets.extend(results.cells.iter().map(|cell| cell.target.as_str()));
        let has_cells = |name: &str| results.cells.iter().any(|cell| cell.target == name);
        let targets = first_of_each(targets).into_iter().filter(|name| has_cells(name)).collect();
        let mut clients: Vec<usize> = results.cells.iter().map(|cell| cell.clients).collect();
        clients.sort_unstable();
        clients.dedup();
        let cells = results.cells.iter().map(|cell| CellSummary::of(cell, results.counted)).collect();
        ExperimentSummary { results, targets, clients, cells }
    }

    /// The names of the variants, in the experiment's order; what only cells name comes last.
    pub fn variants(&self) -> Vec<&'a str> {
        let named = self.results.variants.iter().map(|variant| variant.name.as_str());
        first_of_each(named.chain(self.results.cells.iter().map(|cell| cell.variant.as_str())).collect())
    }
    pub fn variant_facts(&self, name: &str) -> Option<&'a VariantFacts> {
        self.results.variants.iter().find(|variant| variant.name == name)
    }
    pub fn cell(&self, clients: usize, target: &str, variant: &str) -> Option<&CellSummary<'a>> {
        let is_it = |cell: &CellResults| cell.clients == clients && cell.target == target && cell.variant == variant;
        self.cells.iter().find(|summary| is_it(summary.cell))
    }
    /// The cells of a target with a number of clients, in the order of the variants.
    pub fn cells_of(&self, clients: usize, target: &str) -> Vec<&CellSummary<'a>> {
        self.variants().into_iter().filter_map(|variant| self.cell(clients, target, variant)).collect()
    }
    /// The cells in the order of the page: by number of clients, target and variant.
    pub fn in_order(&self) -> Vec<&CellSummary<'a>> {
        let targets = |&clients: &usize| self.targets.iter().map(move |target| (clients, *target));
        self.clients.iter().flat_map(targets).flat_map(|(clients, target)| self.cells_of(clients, target)).collect()
    }

    /// The value at the right edge of all bars. An interval of two runs may be many times as wide as its value: it must not press the
    /// bars together.
    pub fn bar_scale(&self) -> f64 {
        let values = || self.cells.iter().filter_map(|cell| cell.value);
        let longest = values().map(|value| value.median).fold(0.0, f64::max);
        let ends = values().filter_map(|value| value.interval).map(|(_, end)| end).fold(longest, f64::max);
        let scale = ends.min(longest * 1.3);
        if scale > 0.0 { scale } else { 1.0 }
    }

    /// How many times as good `other` is as `base`, by pairs of runs that both count. None: there is no pair.
    pub fn gain(&self, base: &CellSummary, other: &CellSummary) -> Option<Gain> {
        let pairs = base.values.iter().zip(&other.values).filter_map(|(base, other)| (*base).zip(*other));
        let (base, other): (Vec<f64>, Vec<f64>) = pairs.unzip();
        Gain::of(&base, &other, better(self.results.counted))
    }
    /// How many times as good a variant is on `other` as on `base`.
    pub fn gain_between_targets(&self, clients: usize, variant: &str, base: &str, other: &str) -> Option<Gain> {
        self.gain(self.cell(clients, base, variant)?, self.cell(clients, other, variant)?)
    }
    /// How many times as good `other` is as the variant `base` on the same target.
    pub fn gain_between_variants(&self, clients: usize, target: &str, base: &str, other: &str) -> Option<Gain> {
        self.gain(self.cell(clients, target, base)?, self.cell(clients, target, other)?)
    }
}

/// A statement of a script and what it took in all, of one cell.
pub struct StatementSummary<'a> {
    /// Its name, or its text where it has none.
    pub title: &'a str,
    pub is_named: bool,
    /// By run; None: the run does not count, or the statement was not done.
    pub totals_ms: Vec<Option<f64>>,
    /// The numbers that it has answered, by run, where that is its figure.
    pub values: Vec<Option<f64>>,
    /// The rows of its plan, of the last run that counted them.
    pub plan_rows: Option<f64>,
    /// How good its plan is, of the last run that measured it.
    pub estimates: Option<&'a EstimateResults>,
}

/// The statements of a cell, in the order of its script.
pub fn statements<'a>(cell: &CellSummary<'a>) -> Vec<StatementSummary<'a>> {
    // A run whose sum is no figure has statements that are.
    let runs: Vec<Option<&RunResults>> =
        cell.cell.runs.iter().map(|run| Some(run).filter(|run| run.failed_checks.is_empty())).collect();
    let Some(first) = runs.iter().flatten().next() else { return Vec::new() };
    let of_place = |(at, statement): (usize, &'a StatementResults)| {
        let of_runs = |figure: fn(&StatementResults) -> Option<f64>| -> Vec<Option<f64>> {
            runs.iter().map(|run| run.and_then(|run| run.statements.get(at)).and_then(figure)).collect()
        };
        let mut estimates =
            runs.iter().filter_map(|run| run.and_then(|run| run.statements.get(at)?.estimates.as_ref()));
        StatementSummary {
            title: statement.title(),
            estimates: estimates.next_back(),
            is_named: !statement.name.is_empty(),
            totals_ms: of_runs(StatementResults::total_ms),
            values: of_runs(|statement| statement.value),
            plan_rows: of_runs(|statement| statement.plan_rows).into_iter().flatten().next_back(),
        }
    };
    first.statements.iter().enumerate().map(of_place).collect()
}

impl StatementSummary<'_> {
    /// The median of its times, with their interval.
    pub fn value(&self) -> Option<Measured> {
        Measured::of(&self.totals_ms.iter().flatten().copied().collect::<Vec<f64>>())
    }
    /// The median of the numbers that it has answered.
    pub fn answered(&self) -> Option<f64> {
        Measured::of(&self.values.iter().flatten().copied().collect::<Vec<f64>>()).map(|value| value.median)
    }
    /// How many times as fast this is as `base`.
    pub fn gain_on(&self, base: &StatementSummary) -> Option<Gain> {
        let pairs = base.totals_ms.iter().zip(&self.totals_ms).filter_map(|(base, own)| (*base).zip(*own));
        let (base, own): (Vec<f64>, Vec<f64>) = pairs.unzip();
        Gain::of(&base, &own, Better::Less)
    }
}

/// Each name once, where it was first.
fn first_of_each(names: Vec<&str>) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{self, cell_of_rates, experiment_of, results_of};

    #[test]
    fn runs_are_paired_by_their_places_whichever_count() {
        // The second run of one and the third of the other do not count: only the first and the fourth are pairs.
        let mut base = cell_of_rates("KilnDB", "plain", 1, &[100.0, 7.0, 50.0, 25.0]);
        let mut other = cell_of_rates("KilnDB", "other", 1, &[200.0, 100.0, 9.0, 50.0]);
        base.runs[1].failed_checks.push("stock".into());
        other.runs[2].failed_checks.push("stock".into());
        let results = results_of(vec![experiment_of(CountedUnit::Transactions, vec![base, other])]);
        let summary = ExperimentSummary::of(&results, &results.experiments[0]);
        let gain = summary.gain_between_variants(1, "KilnDB", "plain", "other").expect("pairs");
        let (from, to) = gain.interval.expect("two pairs");
        assert!((gain.times - 2.0).abs() < 1e-9 && (from - 2.0).abs() < 1e-9 && (to - 2.0).abs() < 1e-9, "{gain:?}");
        let plain = summary.cell(1, "KilnDB", "plain").expect("a cell");
        assert_eq!(plain.values, [Some(100.0), None, Some(50.0), Some(25.0)]);
        assert_eq!((plain.value.map(|value| value.median), plain.middle_run()), (Some(50.0), Some(2)));
        assert_eq!(plain.problems(), ["run 2 does not count, as a check failed: stock"]);
        assert_eq!(summary.gain_between_variants(1, "KilnDB", "plain", "none"), None);
    }

    #[test]
    fn targets_are_compared_for_a_variant_and_a_number_of_clients() {
        let results = sample::results();
        let all = ExperimentSummary::all(&results);
        let gain = all[0].gain_between_targets(64, "plain", "PostgreSQL", "KilnDB").expect("pairs");
        assert!(gain.is_surely_better() && gain.times > 250.0 && gain.times < 350.0, "{gain:?}");
        assert_eq!(all[0].gain_between_targets(1920, "advisory", "PostgreSQL", "KilnDB"), None);
        assert_eq!((all[0].targets.clone(), all[0].clients.clone()), (vec!["KilnDB", "PostgreSQL"], vec![64, 1920]));
        assert_eq!(all[0].in_order().len(), results.experiments[0].cells.len());
        let stalled = all[0].cell(64, "PostgreSQL", "plain").expect("a cell");
        assert_eq!((stalled.stalled_s, stalled.longest_stall_s), (9, 2));
    }

    #[test]
    fn statements_are_compared_one_by_one() {
        let results = sample::results();
        let timed = ExperimentSummary::of(&results, &results.experiments[1]);
        let of = |target| statements(timed.cell(1, target, "plain").expect("a cell"));
        let (own, other) = (of("KilnDB"), of("PostgreSQL"));
        assert_eq!(own.len(), 2);
        let total: f64 = own.iter().filter_map(|statement| statement.totals_ms[0]).sum();
        assert_eq!(Some(total), timed.cell(1, "KilnDB", "plain").and_then(|cell| cell.values[0]));
        assert!(
            own.iter().zip(&other).all(|(own, other)| own.gain_on(other).is_some_and(|gain| gain.is_surely_better()))
        );
    }
}
