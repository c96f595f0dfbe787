//! A record as lines of text, as PostgreSQL writes them to standard error.

use super::facts::LineFacts;
use super::prefix::LinePrefix;
use kilndb_context::log::{LogRecord, Verbosity};

/// How many lines with a prefix the record takes.
pub fn count_lines(record: &LogRecord<'_>) -> u64 {
    1 + parts(record).len() as u64
}

/// What follows the first line, with the label of each.
fn parts<'r>(record: &'r LogRecord<'_>) -> Vec<(&'static str, &'r str)> {
    let fields = record.fields;
    let mut parts = Vec::new();
    if record.verbosity >= Verbosity::Default {
        let all = [
            ("DETAIL", &fields.detail),
            ("HINT", &fields.hint),
            ("QUERY", &fields.internal_query),
            ("CONTEXT", &fields.context),
        ];
        parts.extend(all.into_iter().filter_map(|(label, text)| text.as_deref().map(|text| (label, text))));
    }
    parts.extend(record.statement.map(|text| ("STATEMENT", text)));
    parts
}

/// `first_line`: the number of the first line within its session or process.
pub fn write(out: &mut String, record: &LogRecord<'_>, facts: &LineFacts<'_>, prefix: &LinePrefix, first_line: u64) {
    let fields = record.fields;
    let sqlstate = fields.sqlstate.as_str();
    prefix.write(out, facts, first_line, sqlstate);
    out.push_str(fields.severity.as_str());
    out.push_str(":  ");
    if record.verbosity == Verbosity::Verbose {
        out.push_str(sqlstate);
        out.push_str(": ");
    }
    push_indented(out, &fields.message);
    if let Some(position) = fields.position.or(fields.internal_position) {
        out.push_str(&format!(" at character {position}"));
    }
    out.push('\n');
    for (line, (label, text)) in (first_line + 1..).zip(parts(record)) {
        prefix.write(out, facts, line, sqlstate);
        out.push_str(label);
        out.push_str(":  ");
        push_indented(out, text);
        out.push('\n');
    }
}

/// The lines of a text but the first begin with a tab: no line looks as if it began a message.
fn push_indented(out: &mut String, text: &str) {
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push_str("\n\t");
        }
        out.push_str(line);
    }
}
