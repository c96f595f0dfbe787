//! What was measured, and what it says of two servers that took turns.
//!
//! 1. Each turn of a server puts one value into each of its rows, so the n-th values of two servers are a pair: they
//!    were measured within seconds of each other.
//! 2. What is said of a row comes from the ratios within its pairs, never from the ratio of two means: a machine whose
//!    speed changes from minute to minute changes both values of a pair.

use kilndb_lab::report::slower::SLOWER_BELOW;
use kilndb_lab::statistics::{Better, Gain, median};
use std::collections::BTreeMap;

/// What is done with a row's ratio.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Judged {
    /// A row that counts as slower fails the benchmark.
    Yes,
    /// Measured once, or too rarely, to be judged.
    No,
}

struct FigureRow {
    name: String,
    better: Better,
    judged: Judged,
    /// What each server is held against by itself, whatever the other one does.
    bound: Option<f64>,
}

/// What was measured, in the order of the table.
#[derive(Default)]
pub(super) struct Figures {
    rows: Vec<FigureRow>,
    values: BTreeMap<(String, &'static str), Vec<f64>>,
}

/// The whole interval lies below [`SLOWER_BELOW`].
pub(super) fn is_slower(gain: &Gain) -> bool {
    gain.is_worse_than(SLOWER_BELOW)
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

impl Figures {
    pub(super) fn put(&mut self, engine: &'static str, row: &str, better: Better, judged: Judged, value: f64) {
        if !self.rows.iter().any(|known| known.name == row) {
            self.rows.push(FigureRow { name: row.to_string(), better, judged, bound: None });
        }
        self.values.entry((row.to_string(), engine)).or_default().push(value);
    }

    /// A value that must not be worse than `bound`, by its whole interval.
    pub(super) fn put_bound(&mut self, engine: &'static str, row: &str, better: Better, value: f64, bound: f64) {
        self.put(engine, row, better, Judged::No, value);
        self.rows.iter_mut().filter(|known| known.name == row).for_each(|known| known.bound = Some(bound));
    }

    /// How many times as good a server is as its bound asks for.
    fn gain_on_bound(&self, row: &FigureRow, engine: &'static str) -> Option<Gain> {
        let values = self.values(&row.name, engine);
        Gain::of(&vec![row.bound?; values.len()], values, row.better)
    }

    /// The rows in which a server does not keep to its bound.
    pub(super) fn beyond_bounds(&self, engine: &'static str) -> Vec<&str> {
        let is_beyond = |row: &&FigureRow| self.gain_on_bound(row, engine).is_some_and(|gain| gain.is_worse_than(1.0));
        self.rows.iter().filter(is_beyond).map(|row| row.name.as_str()).collect()
    }

    fn values(&self, row: &str, engine: &'static str) -> &[f64] {
        self.values.get(&(row.to_string(), engine)).map_or(&[], Vec::as_slice)
    }

    fn gain(&self, row: &FigureRow, base: &'static str, other: &'static str) -> Option<Gain> {
        Gain::of(self.values(&row.name, base), self.values(&row.name, other), row.better)
    }

    /// The rows in which `other` is slower than `base`.
    pub(super) fn slower(&self, base: &'static str, other: &'static str) -> Vec<&str> {
        let judged = self.rows.iter().filter(|row| row.judged == Judged::Yes);
        judged
            .filter(|row| self.gain(row, base, other).is_some_and(|gain| is_slower(&gain)))
            .map(|row| row.name.as_str())
            .collect()
    }

    /// Prints a line for the rows that this stage has added values to.
    pub(super) fn progress(&self, names: &[&'static str], from: usize) {
        for row in self.rows.iter().skip(from) {
            let each: Vec<String> = names
                .iter()
                .filter(|name| !self.values(&row.name, name).is_empty())
                .map(|name| format!("{name} {}", number(median(self.values(&row.name, name).to_vec()))))
                .collect();
            eprintln!("{}: {}", row.name, each.join(", "));
        }
    }

    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// A table of medians; the ratio is of the second name to the first.
    pub(super) fn print(&self, names: [&'static str; 2]) {
        println!("| | {} | times as good | 95 % interval | |", names.join(" | "));
        println!("|---|{}---:|---:|---|", "---:|".repeat(names.len()));
        for row in &self.rows {
            let value = |name| Some(median(self.values(&row.name, name).to_vec())).filter(|v| !v.is_nan());
            let values: Vec<String> = names.iter().map(|name| value(name).map_or(String::new(), number)).collect();
            let gain = self.gain(row, names[0], names[1]);
            let times = gain.map_or(String::new(), |gain| format!("{:.3}", gain.times));
            let interval = gain.and_then(|gain| gain.interval);
            let interval = interval.map_or(String::new(), |(from, to)| format!("{from:.3}–{to:.3}"));
            let slower = row.judged == Judged::Yes && gain.is_some_and(|gain| is_slower(&gain));
            let verdict = match self.gain_on_bound(row, names[1]).map(|gain| (gain.is_worse_than(1.0), gain.interval)) {
                Some((is_beyond, interval)) => {
                    let interval = interval.map_or(String::new(), |(from, to)| format!(", {from:.3}–{to:.3} of it"));
                    let word = if is_beyond { "beyond" } else { "within" };
                    format!("{word} {}{interval}", number(row.bound.unwrap_or_default()))
                }
                None if slower => "slower".to_string(),
                None => String::new(),
            };
            println!("| {} | {} | {times} | {interval} | {verdict} |", row.name, values.join(" | "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(base: &[f64], other: &[f64], better: Better) -> Gain {
        Gain::of(base, other, better).expect("pairs")
    }

    #[test]
    fn slower_is_what_lies_below_the_bound_as_a_whole() {
        let base = vec![100.0; 12];
        let by = |factor: f64| -> Vec<f64> { (0..12).map(|n| 100.0 * factor + f64::from(n % 3) - 1.0).collect() };
        assert!(is_slower(&gain(&base, &by(0.94), Better::More)));
        // Below in the mean, but the interval reaches beyond the bound.
        let noisy: Vec<f64> = (0..12).map(|n| if n % 2 == 0 { 80.0 } else { 110.0 }).collect();
        let found = gain(&base, &noisy, Better::More);
        assert!(found.times < SLOWER_BELOW && !is_slower(&found), "{found:?}");
        assert!(!is_slower(&gain(&base, &by(1.0), Better::More)));
        // Less is better of times and sizes.
        assert!(is_slower(&gain(&base, &by(1.06), Better::Less)));
        assert!(!is_slower(&gain(&base, &by(0.5), Better::Less)));
    }

    #[test]
    fn only_judged_rows_fail() {
        let mut figures = Figures::default();
        for (row, judged) in [("judged", Judged::Yes), ("told", Judged::No)] {
            for (engine, value) in [("before", 100.0), ("after", 50.0)] {
                figures.put(engine, row, Better::More, judged, value);
                figures.put(engine, row, Better::More, judged, value);
            }
        }
        assert_eq!(figures.slower("before", "after"), ["judged"]);
        assert_eq!(figures.slower("after", "before"), [""; 0]);
        // A bound is each server's own.
        for value in [88.0, 90.0, 89.0] {
            figures.put_bound("after", "share", Better::More, value, 97.0);
            figures.put_bound("before", "share", Better::More, value + 10.0, 97.0);
        }
        assert_eq!(figures.beyond_bounds("after"), ["share"]);
        assert_eq!(figures.beyond_bounds("before"), [""; 0]);
    }
}
