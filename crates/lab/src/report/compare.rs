//! Two runs of the lab held against each other, as before and after a change: cell by cell, in text and as a page.
//!
//! 1. The runs of two folders are no pairs: the interval is Welch's, of the logarithms.
//! 2. Cells belong together by experiment, target, variant and number of clients; one that has no other is named, and so is one that was
//!    not measured on both sides.
//!
//! Must not know: servers.

use super::html::{PageTable, document};
use super::markup::{Attribute, Markup};
use super::summary::{CellSummary, better, unit};
use super::svg::{RatioMark, Words};
use super::table::{Aligned, TextTable};
use super::{words, write_file};
use crate::results::{CellResults, CountedUnit, ExperimentResults, LabResults};
use crate::statistics::{Gain, Measured};
use std::path::Path;

/// The page's name in the folder that it is written into.
pub const COMPARISON_FILE: &str = "compare.html";

/// A cell of both runs.
#[derive(Clone, Debug)]
pub struct ComparedCell {
    pub target: String,
    pub variant: String,
    pub clients: usize,
    pub before: Option<Measured>,
    pub after: Option<Measured>,
    /// How many times as good it is after as before. None: one of them was not measured.
    pub gain: Option<Gain>,
    /// Why there is no gain.
    pub problem: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ComparedExperiment {
    pub name: String,
    pub title: String,
    pub counted: CountedUnit,
    pub cells: Vec<ComparedCell>,
}

/// What two runs say of each other.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// When both began.
    pub began: (String, String),
    pub experiments: Vec<ComparedExperiment>,
    /// Experiments that only one of them has.
    pub missing: Vec<String>,
}

impl Comparison {
    pub fn of(before: &LabResults, after: &LabResults) -> Comparison {
        let other = |results: &'_ LabResults, name: &str| results.experiments.iter().any(|one| one.name == name);
        let in_both = before.experiments.iter().filter_map(|base| {
            let own = after.experiments.iter().find(|own| own.name == base.name && own.counted == base.counted)?;
            Some(compared(base, own))
        });
        let only = |results: &LabResults, beside: &LabResults, word: &str| -> Vec<String> {
            let alone = results.experiments.iter().filter(|one| !other(beside, &one.name));
            alone.map(|one| format!("{} was measured {word} only", one.name)).collect()
        };
        let mut missing = only(before, after, "before");
        missing.extend(only(after, before, "after"));
        let changed = before
            .experiments
            .iter()
            .filter(|base| after.experiments.iter().any(|own| own.name == base.name && own.counted != base.counted));
        missing.extend(changed.map(|base| format!("{} does not count the same in both", base.name)));
        Comparison { began: (before.began.clone(), after.began.clone()), experiments: in_both.collect(), missing }
    }

    /// A table for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for experiment in &self.experiments {
            text += &format!("{} ({}): {}\n", experiment.title, experiment.name, unit(experiment.counted));
            let mut table = TextTable::new(&[
                ("clients", Aligned::Right),
                ("target", Aligned::Left),
                ("variant", Aligned::Left),
                ("before", Aligned::Right),
                ("after", Aligned::Right),
                ("times as good", Aligned::Right),
                ("95 %", Aligned::Left),
                ("", Aligned::Left),
            ]);
            table.rows = experiment.cells.iter().map(ComparedCell::texts).collect();
            text += &table.text();
            text.push('\n');
        }
        self.missing.iter().for_each(|line| text += &format!("! {line}\n"));
        text
    }

    /// The page.
    pub fn html(&self) -> String {
        document("Two runs of the lab compared", |m| {
            m.within("header", &[], |m| {
                m.element("h1", &[], "Two runs of the lab compared");
                m.within("dl", &[("class", &"facts")], |m| {
                    for (name, value) in [("Before", &self.began.0), ("After", &self.began.1)] {
                        m.element("dt", &[], name);
                        m.element("dd", &[], value);
                    }
                });
            });
            m.within("main", &[], |m| {
                for line in &self.missing {
                    m.element("p", &[("class", &"note")], line);
                }
                self.experiments.iter().for_each(|experiment| experiment.write(m));
            });
        })
    }

    /// Writes the page into a folder.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        write_file(&folder.join(COMPARISON_FILE), &self.html())
    }
}

fn compared(before: &ExperimentResults, after: &ExperimentResults) -> ComparedExperiment {
    let is_same =
        |a: &CellResults, b: &CellResults| a.target == b.target && a.variant == b.variant && a.clients == b.clients;
    let mut cells: Vec<ComparedCell> = Vec::new();
    for base in &before.cells {
        cells.push(compared_cell(before.counted, Some(base), after.cells.iter().find(|own| is_same(base, own))));
    }
    for own in after.cells.iter().filter(|own| !before.cells.iter().any(|base| is_same(base, own))) {
        cells.push(compared_cell(before.counted, None, Some(own)));
    }
    cells.sort_by_key(|cell| cell.clients);
    ComparedExperiment { name: after.name.clone(), title: after.title.clone(), counted: after.counted, cells }
}

fn compared_cell(counted: CountedUnit, before: Option<&CellResults>, after: Option<&CellResults>) -> ComparedCell {
    let (base, own) = (before.map(|c| CellSummary::of(c, counted)), after.map(|c| CellSummary::of(c, counted)));
    let values = |summary: &Option<CellSummary>| -> Vec<f64> {
        summary.iter().flat_map(|summary| summary.values.iter().flatten().copied()).collect()
    };
    let gain = Gain::of_unpaired(&values(&base), &values(&own), better(counted));
    let why = |summary: &Option<CellSummary>, word: &str| match summary {
        None => Some(format!("not measured {word}")),
        Some(summary) if summary.value.is_none() => Some(format!("{word}: {}", summary.problems().join("; "))),
        Some(_) => None,
    };
    let why: Vec<String> = [why(&base, "before"), why(&own, "after")].into_iter().flatten().collect();
    let named = before.or(after);
    ComparedCell {
        target: named.map_or(String::new(), |cell| cell.target.clone()),
        variant: named.map_or(String::new(), |cell| cell.variant.clone()),
        clients: named.map_or(0, |cell| cell.clients),
        before: base.and_then(|summary| summary.value),
        after: own.and_then(|summary| summary.value),
        gain,
        problem: (!why.is_empty()).then(|| why.join("; ")),
    }
}

impl ComparedCell {
    /// What is sure of it, in a word.
    fn word(&self) -> String {
        match (self.gain, &self.problem) {
            (_, Some(problem)) => problem.clone(),
            (Some(gain), None) if gain.is_surely_better() => "better".into(),
            (Some(gain), None) if gain.is_surely_worse() => "worse".into(),
            (Some(gain), None) if gain.interval.is_none() => "measured too rarely".into(),
            _ => "not sure".into(),
        }
    }
    fn texts(&self) -> Vec<String> {
        let value = |value: Option<Measured>| value.map_or("—".into(), |value| words::number(value.median));
        vec![
            words::thousands(self.clients as f64),
            self.target.clone(),
            self.variant.clone(),
            value(self.before),
            value(self.after),
            self.gain.map_or("—".into(), |gain| words::times(gain.times)),
            self.gain.map_or(String::new(), |gain| words::times_interval(gain.interval)),
            self.word(),
        ]
    }
}

impl ComparedExperiment {
    fn write(&self, m: &mut Markup) {
        m.within("section", &[("class", &"experiment"), ("data-experiment", &self.name)], |m| {
            m.element("h2", &[], &self.title);
            let text = "How many times as good it is after as before, with the 95 % interval; the dotted line is where both are the same.";
            m.element("p", &[("class", &"note")], text);
            m.within("figure", &[("class", &"bars"), ("data-chart", &"ratios")], |m| {
                let reach = self.reach();
                let mut group = None;
                for cell in &self.cells {
                    let of = format!("{}, {}", cell.target, words::count_of(cell.clients, "client"));
                    if group.as_ref() != Some(&of) {
                        m.element("p", &[("class", &"bar-target")], &of);
                        group = Some(of);
                    }
                    cell.write(m, reach);
                }
            });
            let header = ["clients", "target", "variant", "before", "after", "times as good", "95 %", ""];
            let header = header.map(String::from).into();
            let rows = self.cells.iter().map(ComparedCell::texts).collect();
            PageTable { caption: unit(self.counted), text_columns: 3, ends_in_text: true, header, rows }.write(m);
        });
    }
    /// The logarithm that both edges of the drawings are away from one: all ratios are within, intervals where they are not far wider.
    fn reach(&self) -> f64 {
        let gains = || self.cells.iter().filter_map(|cell| cell.gain);
        let farthest = gains().map(|gain| gain.times.ln().abs()).fold(0.05, f64::max);
        let ends = gains().filter_map(|gain| gain.interval).map(|(from, to)| from.ln().abs().max(to.ln().abs()));
        ends.fold(farthest, f64::max).min(farthest * 2.0) * 1.1
    }
}

impl ComparedCell {
    fn write(&self, m: &mut Markup, reach: f64) {
        let times = self.gain.map_or(String::new(), |gain| gain.times.to_string());
        let attributes: [Attribute; 5] = [
            ("class", &"bar-row"),
            ("data-target", &self.target),
            ("data-variant", &self.variant),
            ("data-clients", &self.clients),
            ("data-value", &times),
        ];
        m.within("div", &attributes, |m| {
            m.element("span", &[("class", &"bar-name")], &self.variant);
            let Some(gain) = self.gain else {
                m.element("span", &[("class", &"bar-problem")], &self.word());
                return;
            };
            let part = |times: f64| 0.5 + 0.5 * times.ln() / reach;
            let interval = words::times_interval(gain.interval);
            let description = format!("{} times as good {interval}: {}", words::times(gain.times), self.word());
            let mark = RatioMark {
                words: Words { title: &format!("{} on {}", self.variant, self.target), description: &description },
                value: part(gain.times),
                interval: gain.interval.map(|(from, to)| (part(from), part(to))),
                same: 0.5,
            };
            mark.write(m);
            m.within("span", &[("class", &"bar-value")], |m| {
                m.element("b", &[], &words::times(gain.times));
                m.element("span", &[("class", &"interval")], &format!(" {interval}"));
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::markup::tests::elements;
    use crate::report::sample::{self, cell_of_rates, experiment_of, results_of};

    fn run(cells: Vec<CellResults>) -> LabResults {
        results_of(vec![experiment_of(CountedUnit::Transactions, cells)])
    }

    #[test]
    fn cells_are_compared_without_pairs() {
        // As pairs the ratio would be two, beyond doubt; as values of two days nothing is known.
        let before = run(vec![
            cell_of_rates("KilnDB", "plain", 1, &[100.0, 200.0, 400.0]),
            cell_of_rates("KilnDB", "gone", 1, &[1.0, 1.0]),
        ]);
        let after = run(vec![
            cell_of_rates("KilnDB", "plain", 1, &[200.0, 400.0, 800.0]),
            cell_of_rates("KilnDB", "new", 1, &[1.0, 1.0]),
        ]);
        let found = Comparison::of(&before, &after);
        let words: Vec<String> = found.experiments[0].cells.iter().map(ComparedCell::word).collect();
        assert_eq!(words, ["not sure", "not measured after", "not measured before"]);
        assert!((found.experiments[0].cells[0].gain.expect("values").times - 2.0).abs() < 1e-9);
        // Ends that reach to both sides of one are nothing to rely on, twice as fast is.
        let steady = Comparison::of(
            &run(vec![cell_of_rates("KilnDB", "plain", 1, &[100.0, 101.0, 102.0])]),
            &run(vec![cell_of_rates("KilnDB", "plain", 1, &[200.0, 202.0, 201.0])]),
        );
        assert_eq!(steady.experiments[0].cells[0].word(), "better");
        assert!(steady.text().contains("1.99") && steady.text().contains("better"), "{}", steady.text());
    }

    #[test]
    fn less_time_is_better() {
        let before = sample::results();
        let mut after = before.clone();
        let runs = after.experiments[1].cells.iter_mut().flat_map(|cell| &mut cell.runs);
        runs.flat_map(|run| &mut run.statements).for_each(|statement| statement.mean_us /= 2.0);
        let found = Comparison::of(&before, &after);
        assert!(found.experiments[1].cells.iter().all(|cell| cell.word() == "better"));
        let problem = found.experiments[0].cells.iter().filter(|cell| cell.word().contains("53300")).count();
        assert_eq!(problem, 1);
    }

    #[test]
    fn the_page_says_what_the_text_says_whatever_the_names() {
        let (mut before, after) = (sample::hostile_results(), sample::hostile_results());
        before.experiments[0].name += " of before";
        let found = Comparison::of(&before, &after);
        assert_eq!(found.missing.len(), 2);
        let elements = elements(&found.html());
        let values = elements.iter().flat_map(|(_, attributes, _)| attributes).filter(|(name, _)| name == "data-value");
        let values: Vec<String> = values.map(|(_, value)| value.clone()).collect();
        let expected = found.experiments.iter().flat_map(|experiment| &experiment.cells);
        let expected: Vec<String> =
            expected.map(|cell| cell.gain.map_or(String::new(), |gain| gain.times.to_string())).collect();
        assert!(!values.is_empty() && values == expected, "{values:?}");
    }
}
