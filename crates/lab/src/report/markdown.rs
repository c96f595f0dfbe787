//! What a run has come to as Markdown, between two marks of a document that has more to say: `docs/benchmarks.md`.
//!
//! 1. Nothing outside of the marks is touched, and a document without them is left as it is.
//! 2. Marks are whole lines, and what is written begins no line with what results say: it cannot end its own section.
//!
//! Must not know: servers.

use super::bounds::{self, BoundRow};
use super::summary::{CellSummary, ExperimentSummary, StatementSummary, statements, unit};
use super::verdict::verdict;
use super::words::{self, one_line};
use super::write_file;
use crate::results::{CountedUnit, LabResults, TargetFacts};
use crate::statistics::{Gain, Measured};
use std::path::Path;

/// Characters of a statement that a table shows.
const STATEMENT_CHARS: usize = 80;

/// Puts what the results say between the marks of `section` in a document.
pub fn write(results: &LabResults, document: &Path, section: &str) -> Result<(), String> {
    let shown = document.display();
    let text = std::fs::read_to_string(document).map_err(|e| format!("{shown}: {e}"))?;
    let new = with_section(&text, section, &self::text(results)).map_err(|e| format!("{shown}: {e}"))?;
    write_file(document, &new)
}

/// A document with another text between the marks of a section. Errors: it has them not, or not once.
fn with_section(document: &str, section: &str, text: &str) -> Result<String, String> {
    let mark = |word: &str| format!("<!-- lab: {word} {section} -->");
    let lines: Vec<&str> = document.split_inclusive('\n').collect();
    let place = |mark: &str| {
        let mut found = lines.iter().enumerate().filter(|(_, line)| line.trim() == mark).map(|(at, _)| at);
        match (found.next(), found.next()) {
            (Some(at), None) => Ok(at),
            (None, _) => Err(format!("there is no line {mark}")),
            (Some(_), Some(second)) => Err(format!("{mark} is there twice, in line {} again", second + 1)),
        }
    };
    let (begin, end) = (place(&mark("begin"))?, place(&mark("end"))?);
    if end < begin {
        return Err(format!("{} stands before {}", mark("end"), mark("begin")));
    }
    let (before, after) = (lines[..=begin].concat(), lines[end..].concat());
    Ok(format!("{before}\n{}\n\n{after}", text.trim()))
}

/// All that is told of a run: where and with what it was made, then each experiment with a table.
pub fn text(results: &LabResults) -> String {
    let mut text = conditions(results);
    for experiment in ExperimentSummary::all(results) {
        text += &of_experiment(&experiment, &bounds::of_experiment(results, experiment.results));
    }
    text
}

fn conditions(results: &LabResults) -> String {
    let machine = &results.machine;
    let began = results.began.split('T').next().unwrap_or_default();
    let mut parts = vec![
        began.to_string(),
        machine.processor.clone(),
        words::count_of(machine.cores, "core"),
        format!("{} of memory", words::bytes(machine.memory_bytes as f64)),
        machine.kernel.clone(),
    ];
    if let Some(limit) = machine.wire_limit {
        parts.push(format!("wire limit {} transactions of one statement a second", words::number(limit)));
    }
    parts.retain(|part| !part.is_empty());
    let targets: Vec<String> = results.targets.iter().map(target).collect();
    format!("{}. {}.\n\n{}\n", plain(&parts.join(", ")), targets.join("; "), command_block(&results.command))
}

/// `PostgreSQL: PostgreSQL 18.6 on x86_64 (temporary)`
fn target(target: &TargetFacts) -> String {
    // What it was compiled by, and with how many bits, is of no use here.
    let version = target.version.split(", ").next().unwrap_or_default();
    let told = match &target.problem {
        Some(problem) => problem,
        None => version,
    };
    plain(&format!("{}: {told} ({})", target.name, target.place))
}

/// Four blanks make a block of code whatever is in it.
fn command_block(command: &str) -> String {
    format!("    {}", one_line(command))
}

fn of_experiment(experiment: &ExperimentSummary, bounds: &[BoundRow]) -> String {
    let results = experiment.results;
    let unit = words::capitalized(unit(results.counted));
    let mut text = format!("\n#### {}\n\n{unit}. {}\n\n", plain(&results.title), plain(&verdict(experiment)));
    let table = match results.counted {
        CountedUnit::StatementTime => table_of_statements(experiment),
        _ => table_of_rates(experiment),
    };
    text += &table.text();
    if !bounds.is_empty() {
        text += &format!("\n{}", table_of_bounds(bounds).text());
    }
    let mut problems = String::new();
    for cell in experiment.in_order() {
        let (clients, of) = (words::count_of(cell.cell.clients, "client"), cell.cell);
        for problem in cell.problems() {
            problems +=
                &format!("- {}\n", plain(&format!("{} on {} with {clients}: {problem}", of.variant, of.target)));
        }
    }
    if problems.is_empty() { text } else { format!("{text}\n{problems}") }
}

/// A row for each variant and number of clients.
fn table_of_rates(experiment: &ExperimentSummary) -> MarkdownTable {
    let mut table = MarkdownTable::new(&["clients"], &["variant"]);
    table.columns_of(experiment);
    let has_latencies = !matches!(experiment.results.counted, CountedUnit::P99Latency | CountedUnit::Bytes);
    if has_latencies {
        table.numbers(experiment.targets.iter().map(|target| format!("p99, {target}")));
    }
    let has_rounds = experiment.cells.iter().any(|cell| cell.beside_rounds().is_some());
    if has_rounds {
        table.numbers(experiment.targets.iter().map(|target| format!("rounds beside, {target}")));
    }
    for &clients in &experiment.clients {
        for variant in experiment.variants() {
            let cells: Vec<_> = experiment.targets.iter().map(|t| experiment.cell(clients, t, variant)).collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let mut row = vec![words::thousands(clients as f64), plain(variant)];
            row.extend(cells.iter().map(|cell| value(*cell)));
            row.extend(gains(&cells, |base, own| experiment.gain(base, own)));
            if has_latencies {
                let p99 = |cell: &Option<&CellSummary>| cell.and_then(|cell| cell.percentile_us(99.0));
                row.extend(cells.iter().map(|cell| p99(cell).map_or(String::new(), words::latency)));
            }
            if has_rounds {
                let rounds = |cell: &Option<&CellSummary>| cell.and_then(|cell| cell.beside_rounds());
                row.extend(cells.iter().map(|cell| rounds(cell).map_or(String::new(), words::number)));
            }
            table.rows.push(row);
        }
    }
    table
}

/// A row for each figure that is held to bounds.
fn table_of_bounds(bounds: &[BoundRow]) -> MarkdownTable {
    let mut table = MarkdownTable::new(&[], &["bound"]);
    table.numbers(bounds::COLUMNS.iter().map(|name| name.to_string()));
    let row = |bound: &BoundRow| std::iter::once(plain(&bound.name())).chain(bound.texts()).collect();
    table.rows = bounds.iter().map(row).collect();
    table
}

/// A row for each statement of each variant, and one for all of them.
fn table_of_statements(experiment: &ExperimentSummary) -> MarkdownTable {
    let mut table = MarkdownTable::new(&[], &["variant", "statement"]);
    table.columns_of(experiment);
    for &clients in &experiment.clients {
        for variant in experiment.variants() {
            let cells: Vec<_> = experiment.targets.iter().map(|t| experiment.cell(clients, t, variant)).collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let of_cells: Vec<Option<Vec<StatementSummary>>> = cells.iter().map(|cell| cell.map(statements)).collect();
            let longest = of_cells.iter().flatten().max_by_key(|statements| statements.len());
            for (at, statement) in longest.into_iter().flatten().enumerate() {
                let each: Vec<_> = of_cells.iter().map(|of| of.as_ref().and_then(|of| of.get(at))).collect();
                let shown = match statement.is_named {
                    true => plain(statement.title),
                    false => format!("{}. {}", at + 1, code(statement.title)),
                };
                let mut row = vec![plain(variant), shown];
                row.extend(each.iter().map(|one| shown_value(one.and_then(|one| one.value()))));
                row.extend(gains(&each, |base, own| own.gain_on(base)));
                table.rows.push(row);
            }
            let mut row = vec![plain(variant), "all".into()];
            row.extend(cells.iter().map(|cell| value(*cell)));
            row.extend(gains(&cells, |base, own| experiment.gain(base, own)));
            table.rows.push(row);
        }
    }
    table
}

fn value(cell: Option<&CellSummary>) -> String {
    match cell {
        Some(cell) if cell.value.is_none() => "failed, see below".into(),
        cell => shown_value(cell.and_then(|cell| cell.value)),
    }
}

fn shown_value(value: Option<Measured>) -> String {
    let Some(value) = value else { return String::new() };
    format!("{} {}", words::number(value.median), words::interval(value.interval)).trim_end().to_string()
}

/// How many times as good the first one is as each other.
fn gains<T: Copy>(all: &[Option<T>], gain: impl Fn(T, T) -> Option<Gain>) -> Vec<String> {
    let Some((own, others)) = all.split_first() else { return Vec::new() };
    let shown = |base: &Option<T>| match base.zip(*own).and_then(|(base, own)| gain(base, own)) {
        Some(gain) => format!("{} {}", words::times(gain.times), words::times_interval(gain.interval)),
        None => String::new(),
    };
    others.iter().map(|base| shown(base).trim_end().to_string()).collect()
}

/// A table whose texts are safe where they stand.
struct MarkdownTable {
    header: Vec<String>,
    rules: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    fn new(numbers: &[&str], texts: &[&str]) -> MarkdownTable {
        let mut table = MarkdownTable { header: Vec::new(), rules: Vec::new(), rows: Vec::new() };
        table.numbers(numbers.iter().map(|name| name.to_string()));
        table.header.extend(texts.iter().map(|name| name.to_string()));
        table.rules.resize(table.header.len(), "---");
        table
    }
    fn numbers(&mut self, names: impl Iterator<Item = String>) {
        self.header.extend(names.map(|name| plain(&name)));
        self.rules.resize(self.header.len(), "---:");
    }
    /// A column for each target, and how many times as good the first one is.
    fn columns_of(&mut self, experiment: &ExperimentSummary) {
        let targets = &experiment.targets;
        self.numbers(targets.iter().map(|target| target.to_string()));
        match targets.as_slice() {
            [_, _] => self.numbers(std::iter::once("times as good".to_string())),
            _ => self.numbers(targets.iter().skip(1).map(|target| format!("times as good as {target}"))),
        }
    }
    fn text(&self) -> String {
        let line = |row: &[String]| format!("| {} |\n", row.join(" | "));
        let rules = format!("|{}|\n", self.rules.join("|"));
        format!("{}{rules}{}", line(&self.header), self.rows.iter().map(|row| line(row)).collect::<String>())
    }
}

/// Text that Markdown takes for nothing else. A statement's or a name's own marks lose their meaning.
fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in one_line(text).chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => escaped.extend(['\\', letter]),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Code within a table's row.
fn code(text: &str) -> String {
    let shown = words::cut(&one_line(text), STATEMENT_CHARS);
    format!("`{}`", shown.replace('`', "'").replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::TempDir;
    use crate::report::sample;

    /// The fields of a table's row; bars that are escaped are no borders.
    fn fields(row: &str) -> Vec<String> {
        let row = row.replace("\\|", "\u{1}");
        row.trim_matches('|').split('|').map(|field| field.trim().replace('\u{1}', "|")).collect()
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let document = "# A\n\n<!-- lab: begin a -->\nold\n<!-- lab: end a -->\nrest <!-- lab: end a -->\n";
        let once = with_section(document, "a", "new\n").expect("it has the marks");
        assert_eq!(once, "# A\n\n<!-- lab: begin a -->\n\nnew\n\n<!-- lab: end a -->\nrest <!-- lab: end a -->\n");
        assert_eq!(with_section(&once, "a", "new\n"), Ok(once.clone()));
        for (document, told) in [
            ("<!-- lab: begin a -->\n", "there is no line <!-- lab: end a -->"),
            ("x\n", "there is no line <!-- lab: begin a -->"),
            ("<!-- lab: begin ab -->\n<!-- lab: end ab -->\n", "there is no line <!-- lab: begin a -->"),
            ("<!-- lab: end a -->\n<!-- lab: begin a -->\n", "stands before"),
            ("<!-- lab: begin a -->\n<!-- lab: end a -->\n<!-- lab: end a -->\n", "twice, in line 3"),
        ] {
            let error = with_section(document, "a", "new").expect_err("there are not both");
            assert!(error.contains(told), "{error}, not {told}");
        }
    }

    #[test]
    fn a_document_that_is_not_there_is_named() {
        let folder = TempDir::new("lab-markdown").expect("a folder");
        let document = folder.path().join("figures.md");
        let error = write(&sample::results(), &document, "a").expect_err("there is no such file");
        assert!(error.contains("figures.md") && error.contains("No such file"), "{error}");
        std::fs::write(&document, "nothing\n").expect("a file");
        let error = write(&sample::results(), &document, "a").expect_err("there are no marks");
        assert!(error.contains("figures.md: there is no line"), "{error}");
        assert_eq!(std::fs::read_to_string(&document).expect("a file"), "nothing\n");
        std::fs::write(&document, "<!-- lab: begin a -->\n<!-- lab: end a -->\n").expect("a file");
        write(&sample::results(), &document, "a").expect("it has the marks");
        assert!(std::fs::read_to_string(&document).expect("a file").contains(text(&sample::results()).trim()));
    }

    #[test]
    fn each_cell_has_its_value_and_how_many_times_as_good_it_is() {
        let results = sample::results();
        let text = text(&results);
        assert!(text.starts_with("2026-11-30, Some Processor 9000, 2 cores, 24.0 GB of memory"), "{text}");
        assert!(text.contains(&format!("    {}\n", results.command)));
        let summary = ExperimentSummary::of(&results, &results.experiments[0]);
        let (own, other) = (summary.cell(64, "KilnDB", "plain"), summary.cell(64, "PostgreSQL", "plain"));
        let row = text.lines().find(|line| line.starts_with("| 64 | plain |")).expect("a row");
        let gain = summary.gain_between_targets(64, "plain", "PostgreSQL", "KilnDB").expect("pairs");
        let times = format!("{} {}", words::times(gain.times), words::times_interval(gain.interval));
        assert_eq!(fields(row)[2..5], [value(own), value(other), times]);
        assert!(fields(row)[5].ends_with("s") && fields(row).len() == 7, "{row}");
        assert!(text.contains("failed, see below"));
        assert!(text.contains("- advisory on PostgreSQL with 1,920 clients: 53300: sorry, too many clients already\n"));
        // Statements have a row each, and one for their sum.
        assert!(
            text.contains("| plain | 1. `create table t (id int)` |") && text.contains("| plain | all |"),
            "{text}"
        );
    }

    #[test]
    fn rounds_beside_a_load_are_told_where_there_are_any() {
        let mut results = sample::results();
        assert!(!text(&results).contains("rounds beside"));
        let cells = &mut results.experiments[0].cells;
        let own =
            cells.iter_mut().find(|cell| cell.target == "KilnDB" && cell.variant == "plain" && cell.clients == 64);
        own.expect("a cell").runs.iter_mut().for_each(|run| run.beside_rounds = Some(7));
        let text = text(&results);
        assert!(text.contains("| rounds beside, KilnDB | rounds beside, PostgreSQL |"), "{text}");
        let row = text.lines().find(|line| line.starts_with("| 64 | plain |")).expect("a row");
        assert_eq!(fields(row)[7..], ["7.00", ""], "{row}");
    }

    #[test]
    fn names_are_text_and_end_nothing() {
        let mut results = sample::hostile_results();
        results.command = "x\n<!-- lab: end a -->".into();
        results.experiments[0].title = "a\n<!-- lab: end a -->\n# b | `c` *d*".into();
        let text = text(&results);
        assert!(text.lines().all(|line| line.trim() != "<!-- lab: end a -->"), "{text}");
        assert!(text.contains("#### a &lt;!-- lab: end a --&gt; \\# b \\| \\`c\\` \\*d\\*\n"), "{text}");
        assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'));
        let mut width = 0;
        for line in text.lines() {
            let is_row = line.starts_with('|');
            assert!(!is_row || width == 0 || fields(line).len() == width, "{line}");
            width = if is_row { fields(line).len() } else { 0 };
        }
        // HTML is nowhere but in code.
        let outside = text
            .lines()
            .filter(|line| !line.starts_with("    "))
            .map(|line| line.split('`').step_by(2).map(|part| part.to_string()).collect::<String>());
        assert!(outside.into_iter().all(|line| !line.contains("<script>")), "{text}");
    }
}
