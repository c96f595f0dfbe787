//! What an experiment says, in one sentence for each target.
//!
//! 1. Something is called the fastest, or faster, only where the whole interval of the ratio to each other one says so.
//! 2. Where it does not, it is said that nothing is sure, and between which.
//!
//! Must not know: tables and pages.

use super::summary::{CellSummary, ExperimentSummary, better, unit};
use super::words;
use crate::results::CountedUnit;
use crate::statistics::{Better, Gain};

/// The verdict of an experiment, with the greatest number of clients that something was measured with.
pub fn verdict(experiment: &ExperimentSummary) -> String {
    let is_measured =
        |clients: &&usize| experiment.cells.iter().any(|c| c.cell.clients == **clients && c.value.is_some());
    let Some(&clients) = experiment.clients.iter().rev().find(is_measured) else {
        return nothing_measured(experiment);
    };
    let measured = experiment.targets.iter().filter_map(|target| Ranking::of(experiment, clients, target));
    let rankings: Vec<Ranking> = measured.collect();
    let Some((first, others)) = rankings.split_first() else { return nothing_measured(experiment) };
    let mut sentences = vec![first.told_by_itself()];
    sentences.extend(others.iter().map(|other| other.told_beside(first)));
    let without = experiment.targets.iter().filter(|target| !rankings.iter().any(|ranking| ranking.target == **target));
    let without: Vec<String> = without.map(|target| target.to_string()).collect();
    if !without.is_empty() {
        sentences.push(format!("Nothing could be measured on {}.", words::list(&without)));
    }
    sentences.join(" ")
}

fn nothing_measured(experiment: &ExperimentSummary) -> String {
    match experiment.cells.iter().find_map(|cell| cell.problems().into_iter().next()) {
        Some(problem) => format!("Nothing could be measured: {problem}."),
        None => "Nothing was measured.".into(),
    }
}

/// What was measured on a target with a number of clients, the best first.
struct Ranking<'a> {
    experiment: &'a ExperimentSummary<'a>,
    target: &'a str,
    clients: usize,
    best: &'a CellSummary<'a>,
    /// The others, with how many times as good the best one is.
    others: Vec<(&'a CellSummary<'a>, Option<Gain>)>,
}

impl<'a> Ranking<'a> {
    /// None: nothing was measured.
    fn of(experiment: &'a ExperimentSummary<'a>, clients: usize, target: &'a str) -> Option<Ranking<'a>> {
        let mut cells = experiment.cells_of(clients, target);
        cells.retain(|cell| cell.value.is_some());
        let value = |cell: &CellSummary| cell.value.map_or(f64::NAN, |value| value.median);
        cells.sort_by(|a, b| match better(experiment.results.counted) {
            Better::Less => value(a).total_cmp(&value(b)),
            Better::More => value(b).total_cmp(&value(a)),
        });
        let (best, others) = cells.split_first()?;
        let others = others.iter().map(|other| (*other, experiment.gain(other, best))).collect();
        Some(Ranking { experiment, target, clients, best, others })
    }

    /// The best one and those that it is not surely better than. One alone: it is the best.
    fn doubtful(&self) -> Vec<&CellSummary<'a>> {
        let doubtful = self.others.iter().filter(|(_, gain)| !gain.is_some_and(|gain| gain.is_surely_better()));
        std::iter::once(self.best).chain(doubtful.map(|(cell, _)| *cell)).collect()
    }
    fn is_sure(&self) -> bool {
        self.doubtful().len() == 1
    }

    /// The first target's sentence.
    fn told_by_itself(&self) -> String {
        let (target, name) = (self.target, &self.best.cell.variant);
        let clients = words::count_of(self.clients, "client");
        let value = self.value_of(self.best);
        match (self.is_sure(), self.others.first()) {
            (true, None) => format!("On {target} {name} comes to {value} with {clients}."),
            (true, Some((next, gain))) => {
                let times = gain.map_or(String::new(), |gain| self.times_of(&gain, &next.cell.variant));
                let best = self.words().best;
                format!("On {target} {name} is the {best} with {clients}: {value}{times}.")
            }
            (false, _) => format!("On {target} with {clients} {}.", self.told_unsure()),
        }
    }

    /// `nothing can be said for sure between a (61,000 rows changed a second) and b (60,000): 1.02 times (0.95–1.10)`
    fn told_unsure(&self) -> String {
        let doubtful = self.doubtful();
        let told = |(at, cell): (usize, &&CellSummary)| {
            let value = if at == 0 { self.value_of(cell) } else { short_value(cell) };
            format!("{} ({value})", cell.cell.variant)
        };
        let names: Vec<String> = doubtful.iter().enumerate().map(told).collect();
        let why = match doubtful[1..] {
            _ if self.best.runs().count() < 2 => ", as each ran once".to_string(),
            [one] => {
                let gain = self.experiment.gain(one, self.best);
                gain.map_or(String::new(), |gain| {
                    format!(": {} times {}", words::times(gain.times), words::times_interval(gain.interval))
                })
            }
            _ => String::new(),
        };
        format!("nothing can be said for sure between {}{why}", words::list(&names))
    }

    /// Another target's sentence, which compares its best one with the first target's.
    fn told_beside(&self, first: &Ranking) -> String {
        let (target, name, value) = (self.target, &self.best.cell.variant, short_value(self.best));
        let own = match (self.is_sure(), self.others.is_empty()) {
            (true, true) => format!("{target}'s {name} comes to {value}"),
            (true, false) => format!("{target}'s {} is {name} with {value}", self.words().best),
            (false, _) => format!("Of {target}'s {}", self.told_unsure()),
        };
        let theirs = format!("{}'s {}", first.target, first.best.cell.variant);
        let that = if self.is_sure() { "that" } else { name };
        let compared = match self.experiment.gain(self.best, first.best) {
            Some(gain) if gain.is_surely_better() => format!("{theirs} is {}", self.times_as(&gain, that)),
            Some(gain) if gain.is_surely_worse() => {
                let own = if self.is_sure() { "it" } else { name };
                format!("{own} is {}", self.times_as(&gain.inverse(), &theirs))
            }
            Some(gain) if gain.interval.is_some() => {
                let (interval, better) = (words::times_interval(gain.interval), self.words().better);
                format!("whether {theirs} is {better} is not sure: {} times that {interval}", words::times(gain.times))
            }
            _ => format!("whether {theirs} is {} is not sure, as each ran once", self.words().better),
        };
        format!("{own}; {compared}.")
    }

    fn value_of(&self, cell: &CellSummary) -> String {
        format!("{} {}", short_value(cell), unit(self.experiment.results.counted))
    }
    /// `, 2.1 times skip-locked (1.9–2.3)`
    fn times_of(&self, gain: &Gain, other: &str) -> String {
        format!(", {}", self.times_as(gain, other))
    }
    fn times_as(&self, gain: &Gain, other: &str) -> String {
        let (times, as_good, interval) = (words::times(gain.times), self.words().times, gain.interval);
        format!("{times} {as_good} {other} {}", words::times_interval(interval)).trim_end().to_string()
    }
    fn words(&self) -> VerdictWords {
        match self.experiment.results.counted {
            CountedUnit::ChangedRows | CountedUnit::Transactions => {
                VerdictWords { best: "fastest", better: "faster", times: "times" }
            }
            CountedUnit::StatementTime | CountedUnit::P99Latency => {
                VerdictWords { best: "fastest", better: "faster", times: "times as fast as" }
            }
            CountedUnit::LogBytes | CountedUnit::Bytes => {
                VerdictWords { best: "smallest", better: "smaller", times: "times as small as" }
            }
        }
    }
}

/// What one is called that is better.
struct VerdictWords {
    best: &'static str,
    better: &'static str,
    /// How many times as good as another one.
    times: &'static str,
}

fn short_value(cell: &CellSummary) -> String {
    words::number(cell.value.map_or(f64::NAN, |value| value.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{cell_of_rates, experiment_of, results_of};
    use crate::results::{CellResults, LabResults};

    fn told(cells: Vec<CellResults>) -> String {
        let results: LabResults = results_of(vec![experiment_of(CountedUnit::Transactions, cells)]);
        verdict(&ExperimentSummary::of(&results, &results.experiments[0]))
    }

    #[test]
    fn what_is_sure_is_said() {
        let found = told(vec![
            cell_of_rates("KilnDB", "plain", 64, &[61_000.0, 60_000.0, 62_000.0]),
            cell_of_rates("KilnDB", "advisory", 64, &[30_000.0, 29_000.0, 31_000.0]),
            cell_of_rates("KilnDB", "plain", 8, &[1.0, 1.0, 1.0]),
            cell_of_rates("PostgreSQL", "plain", 64, &[230.0, 240.0, 235.0]),
            cell_of_rates("PostgreSQL", "advisory", 64, &[3400.0, 3300.0, 3500.0]),
        ]);
        assert_eq!(
            found,
            "On KilnDB plain is the fastest with 64 clients: 61,000 transactions a second, 2.0 times advisory (1.95–2.12). \
             PostgreSQL's fastest is advisory with 3,400; KilnDB's plain is 18 times that (17–19)."
        );
    }

    #[test]
    fn what_is_not_sure_is_not_said() {
        let found = told(vec![
            cell_of_rates("KilnDB", "plain", 64, &[100.0, 120.0, 90.0]),
            cell_of_rates("KilnDB", "advisory", 64, &[98.0, 80.0, 119.0]),
            cell_of_rates("KilnDB", "slow", 64, &[9.0, 9.1, 9.2]),
            cell_of_rates("PostgreSQL", "plain", 64, &[110.0, 90.0, 99.0]),
        ]);
        let (own, other) = found.split_once(". PostgreSQL").expect("two sentences");
        assert!(
            own.contains("nothing can be said for sure between plain (100 transactions a second) and advisory (98.0)")
        );
        assert!(!own.contains("fastest") && !own.contains("slow"), "{own}");
        assert!(other.contains("whether KilnDB's plain is faster is not sure"), "{other}");
    }

    #[test]
    fn what_ran_once_is_never_sure() {
        let found = told(vec![
            cell_of_rates("KilnDB", "plain", 1, &[100.0]),
            cell_of_rates("KilnDB", "advisory", 1, &[1.0]),
            cell_of_rates("PostgreSQL", "plain", 1, &[3.0]),
        ]);
        assert!(found.contains("On KilnDB with 1 client nothing can be said for sure between plain"), "{found}");
        assert!(found.contains("as each ran once") && !found.contains("fastest"), "{found}");
    }

    #[test]
    fn the_other_one_may_be_faster() {
        let found = told(vec![
            cell_of_rates("KilnDB", "plain", 1, &[100.0, 101.0, 102.0]),
            cell_of_rates("PostgreSQL", "plain", 1, &[303.0, 299.0, 301.0]),
        ]);
        assert!(found.contains("PostgreSQL's plain comes to 301; it is 3.0 times KilnDB's plain ("), "{found}");
    }

    #[test]
    fn where_nothing_was_measured_it_is_said_why() {
        let broken = |target: &str| CellResults {
            problem: Some("connection refused".into()),
            ..cell_of_rates(target, "plain", 4, &[])
        };
        assert_eq!(told(vec![broken("KilnDB")]), "Nothing could be measured: connection refused.");
        let one = cell_of_rates("KilnDB", "plain", 4, &[100.0, 101.0]);
        assert!(told(vec![one, broken("PostgreSQL")]).ends_with(" Nothing could be measured on PostgreSQL."));
    }

    #[test]
    fn less_log_is_smaller() {
        let cell = |name: &str, bytes: u64| {
            let mut cell = cell_of_rates("KilnDB", name, 8, &[100.0, 100.0]);
            cell.runs.iter_mut().for_each(|run| run.server.log_bytes = Some(bytes * run.transactions));
            cell
        };
        let cells = vec![cell("large", 400), cell("small", 100)];
        let results = results_of(vec![experiment_of(CountedUnit::LogBytes, cells)]);
        assert_eq!(
            verdict(&ExperimentSummary::of(&results, &results.experiments[0])),
            "On KilnDB small is the smallest with 8 clients: 100 bytes of log for each transaction, 4.0 times as small as large (4.0–4.0)."
        );
    }

    #[test]
    fn less_time_is_better_and_a_failed_check_counts_for_nothing() {
        let results = crate::report::sample::results();
        let statements = ExperimentSummary::of(&results, &results.experiments[1]);
        assert_eq!(statements.results.counted, CountedUnit::StatementTime);
        let found = verdict(&statements);
        assert!(found.starts_with("On KilnDB plain is the fastest with 1 client: "), "{found}");
        assert!(
            found.contains(" milliseconds for all statements, ") && found.contains(" times as fast as "),
            "{found}"
        );
        // The only run of the fastest variant did not keep its promise.
        let mut cell = cell_of_rates("KilnDB", "cheat", 64, &[1e9, 1e9]);
        cell.runs.iter_mut().for_each(|run| run.failed_checks.push("stock".into()));
        let found = told(vec![cell, cell_of_rates("KilnDB", "plain", 64, &[101.0, 101.0])]);
        assert!(found.starts_with("On KilnDB plain comes to 101 "), "{found}");
    }
}
