//! What is measured, as it lies in `crates/lab/execution`: scripts of statements, some of which are timed.
//!
//! A line that begins with `-- ` says something of what follows. `script: NAME` begins a script; `warm` lets its first turn
//! not count, `turns: N` is how many there are. `once`, `turn` and `end` say when the statements below run: before the
//! turns, in each turn, after them. `row: NAME` times the next statement, `value: NAME` takes its answer as a figure,
//! `must: X` and `aim: X` are bounds of it. A statement ends with a semicolon at the end of a line, outside of `$$`.

/// A row of the table, and what its figure is held against.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RowBounds {
    pub name: String,
    /// A figure above this fails the benchmark; None: the figure is only told.
    pub must: Option<f64>,
    /// A figure above this is listed.
    pub aim: Option<f64>,
}

impl RowBounds {
    pub(super) fn new(name: &str, must: f64, aim: f64) -> RowBounds {
        RowBounds { name: name.to_string(), must: Some(must), aim: Some(aim) }
    }
}

/// What becomes a row's figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum StepFigure {
    /// The time that the statement takes, of the two servers.
    #[default]
    Time,
    /// The number that the statement answers, of each server by itself.
    Value,
}

/// A statement, and the row that it gives a figure to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Step {
    pub sql: String,
    pub row: Option<(RowBounds, StepFigure)>,
}

/// Statements that run in one session of each server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Script {
    pub name: String,
    /// The first turn fills the caches and does not count.
    pub is_warm: bool,
    /// How many turns there are; None: as many as the options say.
    pub turns: Option<usize>,
    pub once: Vec<Step>,
    pub turn: Vec<Step>,
    pub end: Vec<Step>,
}

/// Which rows are measured: those whose names contain one of these texts, or all.
#[derive(Clone, Debug, Default)]
pub(super) struct RowFilter(Vec<String>);

impl RowFilter {
    pub(super) fn new(texts: &[String]) -> RowFilter {
        RowFilter(texts.iter().map(|text| text.to_lowercase()).collect())
    }
    pub(super) fn has(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.0.is_empty() || self.0.iter().any(|text| name.contains(text.as_str()))
    }
}

impl Script {
    /// The script without the rows that nobody wants; None: nothing would be left. Other statements depend on those that
    /// change something, so only questions are left out.
    pub(super) fn only(mut self, filter: &RowFilter) -> Option<Script> {
        if filter.has(&self.name) {
            return Some(self);
        }
        let is_wanted = |step: &Step| step.row.as_ref().is_some_and(|(bounds, _)| filter.has(&bounds.name));
        let is_question = |step: &Step| step.row.is_some() && step.sql.starts_with("select");
        let has_any = self.turn.iter().any(is_wanted);
        self.turn.retain(|step| is_wanted(step) || !is_question(step));
        has_any.then_some(self)
    }

    fn steps(&mut self, section: Section) -> &mut Vec<Step> {
        match section {
            Section::Once => &mut self.once,
            Section::Turn => &mut self.turn,
            Section::End => &mut self.end,
        }
    }
}

#[derive(Clone, Copy, Default)]
enum Section {
    #[default]
    Once,
    Turn,
    End,
}

/// Reads scripts; `:rows` in them is the number of rows of a table.
pub(super) fn scripts(text: &str, rows: u32) -> Vec<Script> {
    let text = text.replace(":rows", &rows.to_string());
    let mut reader = ScriptReader::default();
    text.lines().for_each(|line| reader.line(line));
    reader.scripts
}

#[derive(Default)]
struct ScriptReader {
    scripts: Vec<Script>,
    section: Section,
    /// The statement whose end has not come yet.
    step: Step,
}

impl ScriptReader {
    fn line(&mut self, line: &str) {
        if let Some(directive) = line.strip_prefix("-- ") {
            let (word, value) = directive.split_once(": ").unwrap_or((directive, ""));
            return self.directive(word, value);
        }
        if line.trim().is_empty() {
            return;
        }
        let Some(script) = self.scripts.last_mut() else { return };
        let sql = &mut self.step.sql;
        if !sql.is_empty() {
            sql.push('\n');
        }
        sql.push_str(line);
        let is_inside_body = sql.matches("$$").count() % 2 == 1;
        if !is_inside_body && sql.ends_with(';') {
            sql.pop();
            script.steps(self.section).push(std::mem::take(&mut self.step));
        }
    }

    fn directive(&mut self, word: &str, value: &str) {
        if word == "script" {
            self.scripts.push(Script { name: value.to_string(), ..Script::default() });
            self.section = Section::Once;
        }
        // What stands before the first script says something about the file.
        let Some(script) = self.scripts.last_mut() else { return };
        let bounds = self.step.row.as_mut().map(|(bounds, _)| bounds);
        match (word, bounds) {
            ("warm", _) => script.is_warm = true,
            ("turns", _) => script.turns = value.parse().ok(),
            ("once", _) => self.section = Section::Once,
            ("turn", _) => self.section = Section::Turn,
            ("end", _) => self.section = Section::End,
            ("must", Some(bounds)) => bounds.must = value.parse().ok(),
            ("aim", Some(bounds)) => bounds.aim = value.parse().ok(),
            ("row" | "value", _) => {
                let figure = if word == "row" { StepFigure::Time } else { StepFigure::Value };
                self.step.row = Some((RowBounds { name: value.to_string(), ..RowBounds::default() }, figure));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "-- About the file: nothing.\n\n-- script: first\n-- warm\n-- turns: 2\n-- once\ncreate table t (a int);\n\
        create function f() returns int language plpgsql as $$\nbegin\n  return 1;\nend $$;\n-- turn\n-- row: a question\n\
        -- must: 0.5\n-- aim: 0.25\nselect a, :rows / 10\nfrom t;\n\n-- row: a change\nupdate t set a = 1;\n\
        -- value: a size\n-- must: 1.5\nselect 2;\nset x = 1;\n-- end\ndrop table t;\n-- script: second\n-- turn\nselect 3;\n";

    #[test]
    fn a_text_is_read_into_scripts() {
        let read = scripts(TEXT, 500);
        assert_eq!(read.iter().map(|script| script.name.as_str()).collect::<Vec<_>>(), ["first", "second"]);
        let first = &read[0];
        assert_eq!((first.is_warm, first.turns, read[1].is_warm, read[1].turns), (true, Some(2), false, None));
        assert_eq!((first.once.len(), first.turn.len(), first.end.len(), read[1].turn.len()), (2, 4, 1, 1));
        assert!(first.once[1].sql.ends_with("return 1;\nend $$"));
        assert_eq!(first.turn[0].sql, "select a, 500 / 10\nfrom t");
        assert_eq!(first.turn[0].row, Some((RowBounds::new("a question", 0.5, 0.25), StepFigure::Time)));
        let told = RowBounds { name: "a change".into(), ..RowBounds::default() };
        assert_eq!(first.turn[1].row, Some((told, StepFigure::Time)));
        assert!(matches!(&first.turn[2].row, Some((bounds, StepFigure::Value)) if bounds.must == Some(1.5)));
        assert_eq!(first.turn[3].row, None);
    }

    #[test]
    fn questions_that_nobody_wants_are_left_out_and_changes_are_not() {
        let only = |text: &str| {
            let filter = RowFilter::new(&[text.to_string()]);
            let left: Vec<Script> = scripts(TEXT, 1).into_iter().filter_map(|script| script.only(&filter)).collect();
            left.iter().map(|script| script.turn.len()).collect::<Vec<_>>()
        };
        assert_eq!(only("CHANGE"), [2]);
        assert_eq!(only("question"), [3]);
        assert_eq!(only("first"), [4]);
        assert_eq!(only("nothing of this"), [0; 0]);
        assert!(
            RowFilter::default().has("anything") && scripts(TEXT, 1)[1].clone().only(&RowFilter::default()).is_some()
        );
    }
}
