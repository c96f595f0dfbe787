//! The table on the terminal at the end of a run.
//!
//! 1. Every cell of the results has a place; one without a value says so, and its problem is told below.
//!
//! Must not know: files, and the page.

use super::bounds;
use super::summary::{CellSummary, ExperimentSummary, unit};
use super::verdict::verdict;
use super::words::{self, one_line};
use crate::results::LabResults;

/// All experiments: each with a heading, its cells, what went wrong, and its verdict.
pub fn text(results: &LabResults) -> String {
    let mut text = String::new();
    for experiment in ExperimentSummary::all(results) {
        text += &of_experiment(&experiment);
        text += &bounds::text(&bounds::of_experiment(results, experiment.results));
        text.push('\n');
    }
    for target in &results.targets {
        if let Some(problem) = &target.problem {
            text += &format!("{}: {}\n", one_line(&target.name), one_line(problem));
        }
    }
    text
}

/// One experiment's part of it.
pub fn of_experiment(experiment: &ExperimentSummary) -> String {
    let results = experiment.results;
    let runs_once = results.counted.runs_once();
    let mut text = format!("{} ({}): {}\n", one_line(&results.title), one_line(&results.name), unit(results.counted));
    let mut table = TextTable::new(&[("clients", Aligned::Right), ("variant", Aligned::Left)]);
    for target in &experiment.targets {
        table.columns(&[(target, Aligned::Right), ("±", Aligned::Left)]);
        if !runs_once {
            table.columns(&[("p50", Aligned::Right), ("p99", Aligned::Right), ("stalls", Aligned::Right)]);
        }
    }
    for &clients in &experiment.clients {
        for variant in experiment.variants() {
            let cells: Vec<_> = experiment.targets.iter().map(|t| experiment.cell(clients, t, variant)).collect();
            if cells.iter().any(Option::is_some) {
                let mut row = vec![words::thousands(clients as f64), variant.to_string()];
                cells.iter().for_each(|cell| row.extend(cell_texts(*cell, runs_once)));
                table.rows.push(row);
            }
        }
    }
    text += &table.text();
    if !runs_once {
        text += "±: 95 % interval; stalls: seconds under half a run's median, and the longest row of them\n";
    }
    for cell in &experiment.cells {
        let (clients, of) = (words::count_of(cell.cell.clients, "client"), cell.cell);
        for problem in cell.problems() {
            text += &one_line(&format!("! {} on {} with {clients}: {problem}", of.variant, of.target));
            text.push('\n');
        }
    }
    text + &one_line(&verdict(experiment)) + "\n"
}

fn cell_texts(cell: Option<&CellSummary>, runs_once: bool) -> Vec<String> {
    let count = if runs_once { 2 } else { 5 };
    let Some((cell, value)) = cell.and_then(|cell| Some((cell, cell.value?))) else {
        let mut texts = vec![if cell.is_some() { "failed, see below" } else { "" }.to_string()];
        texts.resize(count, String::new());
        return texts;
    };
    let latency = |percent| cell.percentile_us(percent).map_or(String::new(), words::latency);
    let stalls = match (cell.stalled_s, cell.longest_stall_s) {
        (0, _) => String::new(),
        (all, longest) => format!("{all} s ({longest} s)"),
    };
    let all = [words::number(value.median), words::interval(value.interval), latency(50.0), latency(99.0), stalls];
    all.into_iter().take(count).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Aligned {
    Left,
    Right,
}

/// Columns that are as wide as their widest text.
pub(super) struct TextTable {
    header: Vec<(String, Aligned)>,
    pub rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(super) fn new(columns: &[(&str, Aligned)]) -> TextTable {
        let mut table = TextTable { header: Vec::new(), rows: Vec::new() };
        table.columns(columns);
        table
    }
    pub(super) fn columns(&mut self, columns: &[(&str, Aligned)]) {
        self.header.extend(columns.iter().map(|(name, aligned)| (name.to_string(), *aligned)));
    }
    pub(super) fn text(&self) -> String {
        let names: Vec<String> = self.header.iter().map(|(name, _)| name.clone()).collect();
        let all: Vec<Vec<String>> = std::iter::once(&names)
            .chain(&self.rows)
            .map(|row| row.iter().map(|text| one_line(text)).collect())
            .collect();
        let width_of =
            |column: usize| all.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max();
        let widths: Vec<usize> = (0..names.len()).map(|column| width_of(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &all {
            let fields: Vec<String> = self.header.iter().zip(&widths).zip(row).map(padded).collect();
            text += fields.join("  ").trim_end();
            text.push('\n');
        }
        text
    }
}

fn padded((((_, aligned), width), text): ((&(String, Aligned), &usize), &String)) -> String {
    match aligned {
        Aligned::Left => format!("{text:<width$}"),
        Aligned::Right => format!("{text:>width$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn all_cells_are_shown_and_columns_are_aligned() {
        let results = sample::results();
        let summaries = ExperimentSummary::all(&results);
        let text = of_experiment(&summaries[0]);
        let lines: Vec<&str> = text.lines().collect();
        let header = lines[1];
        assert!(header.starts_with("clients  variant"), "{text}");
        // Under the name of each target its values end where the name ends.
        for target in ["KilnDB", "PostgreSQL"] {
            let byte = header.find(target).expect("a column") + target.len();
            let end = header[..byte].chars().count();
            for line in &lines[2..8] {
                let before: String = line.chars().take(end).collect();
                let after = line.chars().nth(end);
                assert!(before.ends_with(|c: char| c.is_ascii_digit() || c == 'w'), "{line:?}");
                assert!(matches!(after, None | Some(' ')), "{line:?}");
            }
        }
        let plain = summaries[0].cell(64, "PostgreSQL", "plain").and_then(|cell| cell.value).expect("a value");
        assert!(lines[2].contains(&words::number(plain.median)) && lines[2].contains("9 s (2 s)"), "{}", lines[2]);
        assert!(lines[7].contains("failed, see below"), "{}", lines[7]);
        assert!(text.contains("! advisory on PostgreSQL with 1,920 clients: 53300: sorry, too many clients already\n"));
        assert!(
            text.contains("! advisory on KilnDB with 64 clients: run 3 does not count, as a check failed"),
            "{text}"
        );
        assert_eq!(lines.last(), Some(&verdict(&summaries[0]).as_str()));
        assert!(!of_experiment(&summaries[1]).contains("p99"));
    }

    #[test]
    fn nothing_writes_to_the_terminal_but_text() {
        let text = text(&sample::hostile_results());
        assert!(text.contains("<script>") && !text.chars().any(|letter| letter.is_control() && letter != '\n'));
    }
}
