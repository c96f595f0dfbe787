//! The tables of the page: the values of the charts, what was used, what was waited for, what others have measured.
//!
//! 1. A table that may be wider than a phone stands in a box of its own that scrolls.
//!
//! Must not know: anything but an experiment's summary.

use super::super::bounds::{self, BoundRow};
use super::super::markup::Markup;
use super::super::summary::{self, CellSummary, ExperimentSummary, unit, unit_of_seconds};
use super::super::words;
use super::lines::{counts, latency_curve};
use crate::results::{KnownFigureSet, RunResults};
use std::collections::BTreeMap;

/// What is seen most often is enough to see what a load waits for.
const WAITS_SHOWN: usize = 4;

/// A table to be shown: numbers from the column `text_columns` on.
pub(in crate::report) struct PageTable<'a> {
    pub caption: &'a str,
    pub text_columns: usize,
    /// The last column is text too.
    pub ends_in_text: bool,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl PageTable<'_> {
    pub(in crate::report) fn write(&self, m: &mut Markup) {
        let label = self.caption;
        m.within("div", &[("class", &"scroll"), ("tabindex", &0), ("role", &"region"), ("aria-label", &label)], |m| {
            m.within("table", &[], |m| {
                m.element("caption", &[], label);
                m.within("thead", &[], |m| {
                    m.within("tr", &[], |m| {
                        for (at, name) in self.header.iter().enumerate() {
                            m.element("th", &[("scope", &"col"), ("class", &self.class(at))], name);
                        }
                    });
                });
                m.within("tbody", &[], |m| self.rows.iter().for_each(|row| self.row(m, row)));
            });
        });
    }
    fn class(&self, column: usize) -> &'static str {
        let is_last = column + 1 == self.header.len();
        if column < self.text_columns || (self.ends_in_text && is_last) { "text" } else { "number" }
    }
    fn row(&self, m: &mut Markup, row: &[String]) {
        m.within("tr", &[], |m| {
            for (at, text) in row.iter().enumerate() {
                m.element("td", &[("class", &self.class(at))], text);
            }
        });
    }
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| name.to_string()).collect()
}

/// The values of the bars of a number of clients.
pub(super) fn values(m: &mut Markup, experiment: &ExperimentSummary, clients: usize) {
    let cells = experiment.targets.iter().flat_map(|target| experiment.cells_of(clients, target));
    let row = |cell: &CellSummary| {
        let value = |part: fn((f64, f64)) -> f64| {
            let interval = cell.value.and_then(|value| value.interval);
            interval.map_or(String::new(), |interval| words::number(part(interval)))
        };
        vec![
            cell.cell.target.clone(),
            cell.cell.variant.clone(),
            cell.value.map_or("—".into(), |value| words::number(value.median)),
            value(|(from, _)| from),
            value(|(_, to)| to),
            cell.runs().count().to_string(),
        ]
    };
    let rows = cells.map(row).collect();
    let caption = format!("{} with {}", unit(experiment.results.counted), words::count_of(clients, "client"));
    let header = names(&["target", "variant", "median", "from", "to", "runs"]);
    PageTable { caption: &caption, text_columns: 2, ends_in_text: false, header, rows }.write(m);
}

/// How many times as good the first target is as the others, variant by variant.
pub(super) fn between_targets(m: &mut Markup, experiment: &ExperimentSummary) {
    let Some((first, others)) = experiment.targets.split_first() else { return };
    for other in others {
        let mut rows = Vec::new();
        for &clients in &experiment.clients {
            for variant in experiment.variants() {
                if let Some(gain) = experiment.gain_between_targets(clients, variant, other, first) {
                    let interval = words::times_interval(gain.interval);
                    rows.push(vec![
                        words::thousands(clients as f64),
                        variant.into(),
                        words::times(gain.times),
                        interval,
                    ]);
                }
            }
        }
        if !rows.is_empty() {
            let caption = format!("{first}, how many times as good as {other}, by pairs of runs");
            let header = names(&["clients", "variant", "times", "95 %"]);
            PageTable { caption: &caption, text_columns: 2, ends_in_text: false, header, rows }.write(m);
        }
    }
}

/// What others have measured, in the order of the variants.
pub(super) fn known_figures(m: &mut Markup, set: &KnownFigureSet, variants: &[&str]) {
    let place = |name: &str| variants.iter().position(|variant| *variant == name).unwrap_or(variants.len());
    let mut values: Vec<(&String, &f64)> = set.values.iter().collect();
    values.sort_by_key(|(name, _)| place(name));
    let row = |(name, value): (&String, &f64)| {
        // They are told as they were written, and not rounded again.
        let shown = if value.fract() == 0.0 { words::thousands(*value) } else { value.to_string() };
        vec![name.clone(), shown]
    };
    let rows = values.into_iter().map(row).collect();
    let caption = format!("For comparison: {}", set.source);
    PageTable {
        caption: &caption,
        text_columns: 1,
        ends_in_text: false,
        header: vec!["variant".into(), set.unit.clone()],
        rows,
    }
    .write(m);
}

/// Every second of the runs in the middle.
pub(super) fn seconds(m: &mut Markup, experiment: &ExperimentSummary, cells: &[&CellSummary]) {
    let middle = |cell: &&CellSummary| {
        let run = cell.cell.runs.get(cell.middle_run()?)?;
        Some((cell.cell.variant.clone(), counts(run, experiment.results.counted)))
    };
    let columns: Vec<(String, Vec<u64>)> = cells.iter().filter_map(middle).collect();
    let longest = columns.iter().map(|(_, counts)| counts.len()).max().unwrap_or(0);
    let row = |second: usize| {
        let count = |(_, counts): &(String, Vec<u64>)| {
            counts.get(second).map_or(String::new(), |count| words::thousands(*count as f64))
        };
        std::iter::once((second + 1).to_string()).chain(columns.iter().map(count)).collect()
    };
    let header = std::iter::once("second".to_string()).chain(columns.iter().map(|(name, _)| name.clone())).collect();
    let caption = format!("{}, run in the middle", unit_of_seconds(experiment.results.counted));
    PageTable {
        caption: &caption,
        text_columns: 0,
        ends_in_text: false,
        header,
        rows: (0..longest).map(row).collect(),
    }
    .write(m);
}

pub(super) fn latencies(m: &mut Markup, cells: &[&CellSummary]) {
    let columns: Vec<(&str, Vec<(f64, f64)>)> = cells
        .iter()
        .map(|cell| (cell.cell.variant.as_str(), latency_curve(cell)))
        .filter(|(_, c)| !c.is_empty())
        .collect();
    let Some((_, first)) = columns.first() else { return };
    let row = |(percent, _): &(f64, f64)| {
        let latency = |(_, curve): &(&str, Vec<(f64, f64)>)| {
            curve.iter().find(|(at, _)| at == percent).map_or(String::new(), |(_, us)| words::latency(*us))
        };
        std::iter::once(words::tick(*percent)).chain(columns.iter().map(latency)).collect()
    };
    let rows = first.iter().map(row).collect();
    let header = std::iter::once("%".to_string()).chain(columns.iter().map(|(name, _)| name.to_string())).collect();
    PageTable {
        caption: "Latency that so many percent of transactions kept within",
        text_columns: 0,
        ends_in_text: false,
        header,
        rows,
    }
    .write(m);
}

/// The statements of a script that runs once: what each took, by variant and target.
pub(super) fn statements(m: &mut Markup, experiment: &ExperimentSummary) {
    m.element("h3", &[], "Statement by statement");
    for &clients in &experiment.clients {
        for variant in experiment.variants() {
            let columns: Vec<(&str, Vec<summary::StatementSummary>)> = experiment
                .targets
                .iter()
                .filter_map(|target| Some((*target, summary::statements(experiment.cell(clients, target, variant)?))))
                .filter(|(_, statements)| !statements.is_empty())
                .collect();
            statements_of(m, variant, &columns);
        }
    }
}

fn statements_of(m: &mut Markup, variant: &str, columns: &[(&str, Vec<summary::StatementSummary>)]) {
    let Some(((_, first), others)) = columns.split_first() else { return };
    let mut header = vec!["statement".to_string()];
    columns.iter().for_each(|(target, _)| header.extend([format!("{target}, ms"), "95 %".into()]));
    others.iter().for_each(|(target, _)| header.extend([format!("times as fast as {target}"), "95 %".into()]));
    let row = |(at, statement): (usize, &summary::StatementSummary)| {
        let mut row = vec![statement.title.to_string()];
        for (_, statements) in columns {
            let value = statements.get(at).and_then(|statement| statement.value());
            let (shown, interval) = value.map_or((f64::NAN, None), |value| (value.median, value.interval));
            row.extend([words::number(shown), words::interval(interval)]);
        }
        for (_, statements) in others {
            let gain = statements.get(at).and_then(|other| statement.gain_on(other));
            row.push(gain.map_or("—".into(), |gain| words::times(gain.times)));
            row.push(gain.map_or(String::new(), |gain| words::times_interval(gain.interval)));
        }
        row
    };
    let rows = first.iter().enumerate().map(row).collect();
    let caption = format!("{variant}: milliseconds that each statement took in all");
    PageTable { caption: &caption, text_columns: 1, ends_in_text: false, header, rows }.write(m);
}

/// Figures that are held to bounds.
pub(super) fn bounds(m: &mut Markup, rows: &[BoundRow]) {
    if rows.is_empty() {
        return;
    }
    m.element("h3", &[], "Bounds");
    let header = std::iter::once("bound").chain(bounds::COLUMNS).map(str::to_string).collect();
    let rows = rows.iter().map(|row| std::iter::once(row.name()).chain(row.texts()).collect()).collect();
    let caption = "Figures and what they are held to: of KilnDB in times of PostgreSQL, or by itself";
    PageTable { caption, text_columns: 1, ends_in_text: true, header, rows }.write(m);
}

/// What the servers used, and what failed.
pub(super) fn used(m: &mut Markup, experiment: &ExperimentSummary) {
    let has_rounds = experiment.cells.iter().any(|cell| cell.beside_rounds().is_some());
    let row = |cell: &&CellSummary| {
        let per = |of_run: fn(&RunResults) -> Option<f64>| cell.median_per_transaction(of_run);
        let bytes = |value: Option<f64>| value.map_or("—".into(), words::bytes);
        let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
        for (state, count) in cell.cell.runs.iter().flat_map(|run| &run.errors) {
            *errors.entry(state).or_default() += count;
        }
        let errors = errors.iter().map(|(state, count)| format!("{state}: {}", words::thousands(*count as f64)));
        let mut row = vec![
            words::thousands(cell.cell.clients as f64),
            cell.cell.target.clone(),
            cell.cell.variant.clone(),
            per(|run| run.server.cpu_s.map(|cpu_s| cpu_s * 1e6)).map_or("—".into(), words::latency),
            bytes(cell.median_of(|run| run.server.memory_bytes.map(|count| count as f64))),
            bytes(per(|run| run.server.log_bytes.map(|count| count as f64))),
            bytes(per(|run| run.server.disk_bytes.map(|count| count as f64))),
            cell.cell.rate_within_10_ms.map_or("—".into(), words::number),
            format!("{} s", cell.stalled_s),
            format!("{} s", cell.longest_stall_s),
            words::thousands(cell.runs().map(|run| run.failed).sum::<u64>() as f64),
        ];
        row.extend(has_rounds.then(|| cell.beside_rounds().map_or("—".into(), words::number)));
        row.push(errors.collect::<Vec<String>>().join(", "));
        row
    };
    let cells = experiment.in_order();
    let rows: Vec<Vec<String>> = cells.iter().filter(|cell| cell.value.is_some()).map(row).collect();
    if rows.is_empty() {
        return;
    }
    m.element("h3", &[], "What it took");
    let mut header = names(&[
        "clients",
        "target",
        "variant",
        "CPU per transaction",
        "memory",
        "log per transaction",
        "disk per transaction",
        "rate within 10 ms",
        "stalls",
        "longest",
        "failed",
    ]);
    header.extend(has_rounds.then(|| "rounds beside".to_string()));
    header.push("errors".to_string());
    let note = "Stalls are seconds under half of a run's median; they and failures are of all runs together. The rate within 10 ms, if it \
        was searched, is that of transactions which come at times of their own and of which 99 % still take no longer. Rounds beside are how \
        often what is beside the load was done to its end.";
    m.element("p", &[("class", &"note")], note);
    let caption = "Medians of all runs";
    PageTable { caption, text_columns: 3, ends_in_text: true, header, rows }.write(m);
}

/// What sessions were seen to wait for.
pub(super) fn waits(m: &mut Markup, experiment: &ExperimentSummary) {
    let mut rows = Vec::new();
    for cell in experiment.in_order() {
        let samples: u64 = cell.runs().map(|run| run.samples).sum();
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        for (event, count) in cell.runs().flat_map(|run| &run.waits) {
            *seen.entry(event).or_default() += count;
        }
        let mut seen: Vec<(&str, u64)> = seen.into_iter().collect();
        seen.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let told = |(event, count): &(&str, u64)| format!("{event} {}", words::number(*count as f64 / samples as f64));
        let told: Vec<String> = seen.iter().take(WAITS_SHOWN).filter(|_| samples > 0).map(told).collect();
        if !told.is_empty() {
            let clients = words::thousands(cell.cell.clients as f64);
            rows.push(vec![clients, cell.cell.target.clone(), cell.cell.variant.clone(), told.join("; ")]);
        }
    }
    if !rows.is_empty() {
        m.element("h3", &[], "What sessions waited for");
        let header = names(&["clients", "target", "variant", "sessions at a time"]);
        let caption = "How many sessions were seen to wait at a time, for the most frequent events";
        PageTable { caption, text_columns: 4, ends_in_text: false, header, rows }.write(m);
    }
}
